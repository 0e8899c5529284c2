// SPDX-License-Identifier: MIT
/* Fourier transforms by cuFFT, for CUDA devices. */
#include <cufft.h>
#include <dlfcn.h>
#include <stdio.h>

#include "daemon/kernels/std/fft_vendor.h"

/* Of CUDA 13, 12 and 11, whose calls are alike. */
static const char *const libraries[] = { "libcufft.so.12", "libcufft.so.11", "libcufft.so.10" };

#define CALLS(X) X(Create) X(SetStream) X(MakePlanMany) X(ExecC2C) X(Destroy)

static struct {
#define X(name) __typeof__(cufft##name) *name;
	CALLS(X)
#undef X
} fft;

int vendor_open(char *why, size_t len)
{
	const char *missing = NULL;
	void *library = NULL;

	for (size_t i = 0; !library && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		snprintf(why, len, "no cuFFT of CUDA 11 to 13 (it comes with the CUDA Toolkit, and has to be where ld.so looks): %s",
			 dlerror());
		return -ENOENT;
	}
#define X(name)									\
	fft.name = (__typeof__(fft.name))dlsym(library, "cufft" #name);		\
	if (!fft.name)								\
		missing = "cufft" #name;
	CALLS(X)
#undef X
	if (missing) {
		snprintf(why, len, "cuFFT has no %s", missing);
		return -ENOENT;
	}
	return 0;
}

/* If it fails, for want of memory or of a driver that is new enough, there are others. */
int vendor_plan(const struct arax_stream *s, const struct fft_shape *shape, union fft_plan *plan)
{
	int n = (int)shape->n;
	size_t bytes;
	cufftHandle h;

	if (fft.Create(&h))
		return -EOPNOTSUPP;
	plan->integer = h;
	if (!fft.SetStream(h, s->stream) &&
	    !fft.MakePlanMany(h, 1, &n, NULL, 1, n, NULL, 1, n, CUFFT_C2C, (int)shape->batch, &bytes))
		return 0;
	fft.Destroy(h);
	return -EOPNOTSUPP;
}

void vendor_plan_end(union fft_plan *plan)
{
	fft.Destroy(plan->integer);
}

int vendor_transform(const struct arax_stream *s, const union fft_plan *plan, bool inverse, void *x,
		     void *y)
{
	(void)s;
	return fft.ExecC2C(plan->integer, x, y, inverse ? CUFFT_INVERSE : CUFFT_FORWARD) ? -EIO : 0;
}
