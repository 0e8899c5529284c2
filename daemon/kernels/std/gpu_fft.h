/* SPDX-License-Identifier: MIT */
/*
 * gpu_fft.h - fft_vendor.h by a library that has cuFFT's calls, as hipFFT has, in all but their names
 *
 * Included by cufft.c and hipfft.c, each after
 *
 *	FFT(name)	the library's own name for it
 *	FFT_C2C, FFT_FORWARD, FFT_INVERSE
 *	PLAN(plan)	where a union fft_plan keeps it
 *	libraries[]	names for dlopen(), the newest first; NO_LIBRARY: what to say if there is none
 *	library_suits()	whether the one that was opened can work on the device
 */
#include <dlfcn.h>
#include <stdio.h>

#include "daemon/kernels/std/fft_vendor.h"

#define FFT_CALLS(X) X(Create) X(SetStream) X(MakePlanMany) X(ExecC2C) X(Destroy)

static struct {
#define X(name) __typeof__(FFT(name)) *name;
	FFT_CALLS(X)
#undef X
} fft;

#define TEXT_OF(name)	#name
#define TEXT(name)	TEXT_OF(name)

static int take_calls(void *library, char *why, size_t len)
{
	const char *missing = NULL;

#define X(name)									\
	fft.name = (__typeof__(fft.name))dlsym(library, TEXT(FFT(name)));	\
	if (!fft.name)								\
		missing = TEXT(FFT(name));
	FFT_CALLS(X)
#undef X
	if (!missing)
		return 0;
	snprintf(why, len, "there is no %s in it", missing);
	return -ENOENT;
}

int vendor_open(const struct arax_stream *s, char *why, size_t len)
{
	int err = -ENOENT;

	why[0] = '\0';
	for (size_t i = 0; err == -ENOENT && i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		char text[128];

		if (!library && !why[0])
			snprintf(why, len, NO_LIBRARY ": %s", dlerror());
		if (!library)
			continue;
		err = library_suits(s, library, text, sizeof(text));
		if (!err)
			err = take_calls(library, text, sizeof(text));
		if (err)
			snprintf(why, len, "%s: %s", libraries[i], text);
	}
	return err;
}

/* If it fails, for want of memory or of a driver that is new enough, there are others. */
int vendor_plan(const struct arax_stream *s, const struct fft_shape *shape, union fft_plan *plan)
{
	int n = (int)shape->n;
	FFT(Handle) h;
	size_t bytes;

	if (fft.Create(&h))
		return -EOPNOTSUPP;
	PLAN(plan) = h;
	if (!fft.SetStream(h, s->stream) &&
	    !fft.MakePlanMany(h, 1, &n, NULL, 1, n, NULL, 1, n, FFT_C2C, (int)shape->batch, &bytes))
		return 0;
	fft.Destroy(h);
	return -EOPNOTSUPP;
}

void vendor_plan_end(union fft_plan *plan)
{
	fft.Destroy(PLAN(plan));
}

int vendor_transform(const struct arax_stream *s, const union fft_plan *plan, bool inverse, void *x,
		     void *y)
{
	(void)s;
	return fft.ExecC2C(PLAN(plan), x, y, inverse ? FFT_INVERSE : FFT_FORWARD) ? -EIO : 0;
}
