// SPDX-License-Identifier: MIT
/* Fourier transforms by hipFFT, for HIP devices. */
#include <stdio.h>

#include "daemon/kernels/hip_library.h"
#include "daemon/kernels/std/hipfft_api.h"

static const char *const names[] = { "libhipfft.so.0", NULL };

#define NO_LIBRARY "no hipFFT (it comes with ROCm, and has to be where ld.so looks)"

#define FFT(name)	hipfft##name
#define FFT_C2C		HIPFFT_C2C
#define FFT_FORWARD	HIPFFT_FORWARD
#define FFT_INVERSE	HIPFFT_BACKWARD
#define PLAN(plan)	((plan)->pointer)
#define ADDRESS		void *
#define ALLOCATE	"hipMalloc"
#define FREE		"hipFree"

static int library_suits(const struct arax_stream *s, void *library, char *why, size_t len)
{
	if (hip_library_is_of(s, library))
		return 0;
	snprintf(why, len, HIP_NOT_OURS);
	return -ENOENT;
}

#define LIBRARY_SUITS	library_suits

#include "daemon/kernels/std/gpu_fft.h"
