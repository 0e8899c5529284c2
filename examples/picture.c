// SPDX-License-Identifier: MIT
#include "picture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static int too_large(const char *path, uint32_t width, uint32_t height)
{
	if (width && height && width <= PICTURE_MAX_SIDE && height <= PICTURE_MAX_SIDE)
		return 0;
	fprintf(stderr, "%s: %ux%u pixels; sides of 1 to %d are taken\n", path, width, height,
		PICTURE_MAX_SIDE);
	return 1;
}

static int read_png(const char *path, struct picture *p)
{
	png_image image = { .version = PNG_IMAGE_VERSION };

	if (!png_image_begin_read_from_file(&image, path))
		goto fail;
	if (too_large(path, image.width, image.height)) {
		png_image_free(&image);
		return -1;
	}
	image.format = PNG_FORMAT_RGB;
	p->width = image.width;
	p->height = image.height;
	p->rgb = malloc(PNG_IMAGE_SIZE(image));
	if (!p->rgb) {
		png_image_free(&image);
		fprintf(stderr, "%s: out of memory\n", path);
		return -1;
	}
	if (png_image_finish_read(&image, NULL, p->rgb, 0, NULL))
		return 0;
	free(p->rgb);
fail:
	fprintf(stderr, "%s: %s\n", path, image.message);
	return -1;
}

struct jpeg_failure {
	struct jpeg_error_mgr manager;
	jmp_buf back;
};

static void jpeg_failed(j_common_ptr c)
{
	longjmp(((struct jpeg_failure *)c->err)->back, 1);
}

static int read_jpeg(const char *path, FILE *f, struct picture *p)
{
	struct jpeg_decompress_struct d;
	struct jpeg_failure failure;
	char text[JMSG_LENGTH_MAX];
	uint8_t *volatile rgb = NULL;

	d.err = jpeg_std_error(&failure.manager);
	failure.manager.error_exit = jpeg_failed;
	if (setjmp(failure.back)) {
		failure.manager.format_message((j_common_ptr)&d, text);
		fprintf(stderr, "%s: %s\n", path, text);
		goto fail;
	}
	jpeg_create_decompress(&d);
	jpeg_stdio_src(&d, f);
	jpeg_read_header(&d, TRUE);
	d.out_color_space = JCS_RGB;
	jpeg_start_decompress(&d);
	if (too_large(path, d.output_width, d.output_height))
		goto fail;
	p->width = d.output_width;
	p->height = d.output_height;
	rgb = malloc((size_t)p->width * p->height * 3);
	if (!rgb) {
		fprintf(stderr, "%s: out of memory\n", path);
		goto fail;
	}
	while (d.output_scanline < d.output_height) {
		JSAMPROW row = rgb + (size_t)d.output_scanline * p->width * 3;

		jpeg_read_scanlines(&d, &row, 1);
	}
	jpeg_finish_decompress(&d);
	jpeg_destroy_decompress(&d);
	p->rgb = rgb;
	return 0;
fail:
	free(rgb);
	jpeg_destroy_decompress(&d);
	return -1;
}

int picture_read(const char *path, struct picture *picture)
{
	uint8_t magic[8] = { 0 };
	int err = -1;
	FILE *f;

	f = fopen(path, "rbe");
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	if (fread(magic, 1, sizeof(magic), f) != sizeof(magic))
		memset(magic, 0, sizeof(magic));
	rewind(f);
	if (!png_sig_cmp(magic, 0, sizeof(magic)))
		err = read_png(path, picture);
	else if (magic[0] == 0xff && magic[1] == 0xd8)
		err = read_jpeg(path, f, picture);
	else
		fprintf(stderr, "%s: neither PNG nor JPEG\n", path);
	fclose(f);
	return err;
}

int picture_write_grey(const char *path, uint32_t width, uint32_t height, const uint8_t *grey)
{
	png_image image = {
		.version = PNG_IMAGE_VERSION,
		.width = width,
		.height = height,
		.format = PNG_FORMAT_GRAY,
	};

	if (png_image_write_to_file(&image, path, 0, grey, 0, NULL))
		return 0;
	fprintf(stderr, "%s: %s\n", path, image.message);
	return -1;
}
