/* SPDX-License-Identifier: MIT */
/* cuda_image.h - what NVIDIA's driver takes as a module, by CUDA or by HIP */
#ifndef ARAX_DAEMON_BACKENDS_GPU_CUDA_IMAGE_H
#define ARAX_DAEMON_BACKENDS_GPU_CUDA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CUDA_IMAGES	"PTX, a cubin or a fatbin"
#define CUDA_REMEDY	"compile it with nvcc -ptx, -cubin or -fatbin"
#define FATBIN_MAGIC	0xba55ed50u

static inline bool is_cuda_image(const void *data, size_t bytes)
{
	const unsigned char elf[] = { 0x7f, 'E', 'L', 'F' };
	uint32_t magic = 0;

	if (bytes < sizeof(magic))
		return false;
	memcpy(&magic, data, sizeof(magic));
	return magic == FATBIN_MAGIC || !memcmp(data, elf, sizeof(elf)) ||
	       (strlen(data) == bytes && strstr(data, ".version"));
}

#endif /* ARAX_DAEMON_BACKENDS_GPU_CUDA_IMAGE_H */
