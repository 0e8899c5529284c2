/* SPDX-License-Identifier: MIT */
/*
 * gpu_fft.h - fft_vendor.h by a library that has cuFFT's calls, as hipFFT has, in all but their names
 *
 * Included by cufft.c and hipfft.c, each after
 *
 *	FFT(name)	the library's own name for it
 *	FFT_C2C, FFT_FORWARD, FFT_INVERSE
 *	PLAN(plan)	where a union fft_plan keeps it
 *	ADDRESS, ALLOCATE, FREE
 *			a device address, and the driver's names of what allocates and frees it
 *	names, NO_LIBRARY, LIBRARY_SUITS
 *			as a struct vendor_library has them
 */
#include "daemon/kernels/std/fft_vendor.h"
#include "daemon/kernels/vendor_library.h"

#define FFT_CALLS(X) \
	X(Create) X(SetStream) X(SetAutoAllocation) X(MakePlanMany) X(SetWorkArea) X(ExecC2C) X(Destroy)

static struct {
#define X(name) __typeof__(FFT(name)) *name;
	FFT_CALLS(X)
#undef X
} fft;

#define TEXT_OF(name)	#name
#define TEXT(name)	TEXT_OF(name)

static const struct vendor_call calls[] = {
#define X(name) { TEXT(FFT(name)), (void **)&fft.name },
	FFT_CALLS(X)
#undef X
	{ NULL, NULL }
};

static const struct vendor_library the_library = { names, NO_LIBRARY, calls, LIBRARY_SUITS };

int vendor_open(const struct arax_stream *s, char *why, size_t len)
{
	void *library;

	return vendor_library_open(&the_library, s, &library, why, len);
}

/* If it fails, for want of memory or of a driver that is new enough, there are others. */
int vendor_plan(const struct arax_stream *s, const struct fft_shape *shape, union fft_plan *plan,
		uint64_t *work_bytes)
{
	int n = (int)shape->n;
	size_t bytes = 0;
	FFT(Handle) h;

	if (fft.Create(&h))
		return -EOPNOTSUPP;
	PLAN(plan) = h;
	if (!fft.SetStream(h, s->stream) && !fft.SetAutoAllocation(h, 0) &&
	    !fft.MakePlanMany(h, 1, &n, NULL, 1, n, NULL, 1, n, FFT_C2C, (int)shape->batch, &bytes)) {
		*work_bytes = bytes;
		return 0;
	}
	fft.Destroy(h);
	return -EOPNOTSUPP;
}

void vendor_plan_end(union fft_plan *plan)
{
	fft.Destroy(PLAN(plan));
}

void *vendor_work(const struct arax_stream *s, uint64_t bytes)
{
	int (*allocate)(ADDRESS *address, size_t bytes);
	ADDRESS address = 0;

	*(void **)&allocate = dlsym(s->driver, ALLOCATE);
	if (!allocate || allocate(&address, bytes))
		return NULL;
	return (void *)(uintptr_t)address;
}

/* Both wait for all that the device does. */
void vendor_work_end(const struct arax_stream *s, void *work)
{
	int (*release)(ADDRESS address);

	*(void **)&release = dlsym(s->driver, FREE);
	if (release)
		release((ADDRESS)(uintptr_t)work);
}

/*
 * It reads and writes a complex number at once.  A misaligned access breaks the context, and with it
 * what all users have on the device.
 */
bool vendor_can_at(const void *x, const void *y)
{
	return !(((uintptr_t)x | (uintptr_t)y) % (2 * sizeof(float)));
}

bool vendor_has_parts(const struct arax_stream *s, void *x, void *y, uint64_t step)
{
	(void)s;
	(void)x;
	(void)y;
	return !(step % (2 * sizeof(float)));
}

void *vendor_part(void *range, uint64_t offset, uint64_t bytes)
{
	(void)bytes;
	return (char *)range + offset;
}

void vendor_part_end(void *part)
{
	(void)part;
}

int vendor_transform(const struct arax_stream *s, const union fft_plan *plan, bool inverse, void *x,
		     void *y, void *work)
{
	(void)s;
	if (work && fft.SetWorkArea(PLAN(plan), work))
		return -EOPNOTSUPP;
	return fft.ExecC2C(PLAN(plan), x, y, inverse ? FFT_INVERSE : FFT_FORWARD) ? -EIO : 0;
}
