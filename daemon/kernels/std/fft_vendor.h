/* SPDX-License-Identifier: MIT */
/*
 * fft_vendor.h - fft_c32 by a vendor's library, on a device's stream
 *
 * A library makes a plan for each shape, which takes long: a stream keeps those that it used
 * last.  fft_vendor.c has the kernel's function, which checks what it is given, and the plans;
 * clfft.c, cufft.c and hipfft.c have one library's calls each, and are linked with it to a file of
 * their own.
 */
#ifndef ARAX_STD_FFT_VENDOR_H
#define ARAX_STD_FFT_VENDOR_H

#include <stdbool.h>

#include <arax/stream.h>

#define FFT_PLANS	8	/* of a stream */

/*
 * Of memory that plans work in, on the device, a stream has one area for all of its plans, which
 * come after each other there.  It is no task's, and not counted: it has to be found in what the
 * backend leaves to the driver.  A batch that needs more than this goes in parts; a transform that
 * does is for the kernel of our own.
 */
#define FFT_WORK_MAX	(64u << 20)
#define FFT_WORK_MIN	(1u << 20)

/* Transforms of n complex numbers, @batch at once; of some libraries both ways are one plan. */
struct fft_shape {
	uint32_t n, batch;
};

/* A library's plan, in what it has for a name of it. */
union fft_plan {
	void *pointer;
	uint64_t number;
	int integer;
};

/* -EOPNOTSUPP: not of this shape.  *@work_bytes: what it works in, which it doesn't allocate. */
int vendor_plan(const struct arax_stream *s, const struct fft_shape *shape, union fft_plan *plan,
		uint64_t *work_bytes);
void vendor_plan_end(union fft_plan *plan);
/* Whether it computes where these are, of which araxd knows that they are aligned to a float. */
bool vendor_can_at(const void *x, const void *y);
/* Whether vendor_part() can begin at multiples of @step bytes. */
bool vendor_has_parts(const struct arax_stream *s, void *x, void *y, uint64_t step);
/* Of a cl_mem or from an address on: @bytes from @offset; vendor_part_end() is for each.  NULL: there is none. */
void *vendor_part(void *range, uint64_t offset, uint64_t bytes);
void vendor_part_end(void *part);
/* Memory of the device: a cl_mem or an address; NULL: there is none. */
void *vendor_work(const struct arax_stream *s, uint64_t bytes);
/* What was put onto the stream may use it still: then its end is waited for, or it stays until that. */
void vendor_work_end(const struct arax_stream *s, void *work);
/*
 * Not in place; all are cl_mem or addresses, @work NULL if the plan needs none.  -EOPNOTSUPP: nothing
 * was put onto the stream.
 */
int vendor_transform(const struct arax_stream *s, const union fft_plan *plan, bool inverse, void *x,
		     void *y, void *work);
/* Once; see arax_stream_open(). */
int vendor_open(const struct arax_stream *s, char *why, size_t len);

#endif /* ARAX_STD_FFT_VENDOR_H */
