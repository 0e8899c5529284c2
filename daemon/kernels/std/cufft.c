// SPDX-License-Identifier: MIT
/* Fourier transforms by cuFFT, for CUDA devices. */
#include <cufft.h>
#include <stddef.h>

/* Of CUDA 13, 12 and 11, whose calls are alike. */
static const char *const names[] = { "libcufft.so.12", "libcufft.so.11", "libcufft.so.10", NULL };

#define NO_LIBRARY \
	"no cuFFT of CUDA 11 to 13 (it comes with the CUDA Toolkit, and has to be where ld.so looks)"

#define FFT(name)	cufft##name
#define FFT_C2C		CUFFT_C2C
#define FFT_FORWARD	CUFFT_FORWARD
#define FFT_INVERSE	CUFFT_INVERSE
#define PLAN(plan)	((plan)->integer)
/* CUdeviceptr */
#define ADDRESS		unsigned long long
#define ALLOCATE	"cuMemAlloc_v2"
#define FREE		"cuMemFree_v2"

/* The driver has one name, for cuFFT as for araxd. */
#define LIBRARY_SUITS	NULL

#include "daemon/kernels/std/gpu_fft.h"
