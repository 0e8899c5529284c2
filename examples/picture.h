/* SPDX-License-Identifier: MIT */
/* Pictures in and out by libjpeg and libpng; errors are printed, -1 returned. */
#ifndef EXAMPLES_PICTURE_H
#define EXAMPLES_PICTURE_H

#include <stdint.h>

#define PICTURE_MAX_SIDE 16384

struct picture {
	uint32_t width;
	uint32_t height;
	uint8_t *rgb;	/* 3 bytes a pixel, rows without gaps; free() it */
};

/* PNG or JPEG, told by its first bytes. */
int picture_read(const char *path, struct picture *picture);
/* 8-bit grey PNG. */
int picture_write_grey(const char *path, uint32_t width, uint32_t height, const uint8_t *grey);

#endif
