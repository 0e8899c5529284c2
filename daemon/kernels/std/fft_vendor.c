// SPDX-License-Identifier: MIT
#include "daemon/kernels/std/fft_vendor.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_N		(1u << 27)	/* as fft.c has it */
#define MAX_ITEMS	(1ull << 31)	/* of a launch: what libraries count in is an int in places */

ARAX_KERNEL arax_stream_fn arax_std_vendor_fft_c32;
ARAX_KERNEL arax_stream_open_fn arax_stream_open;
ARAX_KERNEL arax_stream_close_fn arax_stream_close;

struct fft_args {
	uint32_t n, batch, inverse;
};

/* @part: of the batch, what the area is enough for; if that is not all of it there is no plan. */
struct kept {
	struct fft_shape shape;
	union fft_plan plan;
	uint64_t work_bytes;
	uint32_t part;
};

/* The most recently used first. */
struct plans {
	uint32_t nr;
	struct kept of[FFT_PLANS];
	void *work;
	uint64_t work_bytes;
};

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool is_open;
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!is_open)
		err = vendor_open(s, why, len);
	is_open = !err;
	pthread_mutex_unlock(&lock);
	return err;
}

static void drop_last(struct plans *plans)
{
	struct kept *last = &plans->of[--plans->nr];

	if (last->part == last->shape.batch)
		vendor_plan_end(&last->plan);
}

void arax_stream_close(const struct arax_stream *s)
{
	struct plans *plans = *s->state;

	while (plans->nr)
		drop_last(plans);
	if (plans->work)
		vendor_work_end(s, plans->work);
	free(plans);
}

/* To the front. */
static void move_first(struct plans *plans, uint32_t i)
{
	struct kept one = plans->of[i];

	for (; i; i--)
		plans->of[i] = plans->of[i - 1];
	plans->of[0] = one;
}

/*
 * Parts are as large as each other, but for the last one, and of many transforms a multiple of
 * PART_STEP: then they begin where an OpenCL device can have a buffer.
 */
#define PART_STEP	64u

static uint32_t part_of(uint32_t batch, uint64_t work_bytes)
{
	uint64_t most, parts;

	if (work_bytes <= FFT_WORK_MAX || batch < 2)
		return batch;
	most = FFT_WORK_MAX / ((work_bytes + batch - 1) / batch);
	most = most > PART_STEP ? most - most % PART_STEP : most ? most : 1;
	parts = (batch + most - 1) / most;
	if (most % PART_STEP)
		most = (batch + parts - 1) / parts;
	return (uint32_t)most;
}

/* Into *@found, as it is good until others are looked for. */
static int find_plan(const struct arax_stream *s, const struct fft_shape *shape, struct kept *found)
{
	struct plans *plans = *s->state;
	struct kept made = { .shape = *shape };
	int err;

	if (!plans) {
		plans = calloc(1, sizeof(*plans));
		if (!plans)
			return -ENOMEM;
		*s->state = plans;
	}
	for (uint32_t i = 0; i < plans->nr; i++)
		if (plans->of[i].shape.n == shape->n && plans->of[i].shape.batch == shape->batch) {
			move_first(plans, i);
			*found = plans->of[0];
			return 0;
		}
	err = vendor_plan(s, shape, &made.plan, &made.work_bytes);
	if (err)
		return err;
	made.part = part_of(shape->batch, made.work_bytes);
	if (made.part < shape->batch)
		vendor_plan_end(&made.plan);
	if (plans->nr == FFT_PLANS)
		drop_last(plans);
	plans->of[plans->nr] = made;
	move_first(plans, plans->nr++);
	*found = made;
	return 0;
}

/* Room for plans to work in; it grows, and stays until the stream goes.  -EOPNOTSUPP: there is none. */
static int find_work(const struct arax_stream *s, uint64_t needed, void **work)
{
	struct plans *plans = *s->state;

	*work = NULL;
	if (!needed)
		return 0;
	if (needed > FFT_WORK_MAX)
		return -EOPNOTSUPP;
	if (needed > plans->work_bytes) {
		uint64_t bytes = FFT_WORK_MIN;

		/* To free it waits for all that the device does: not for each that is a little longer. */
		while (bytes < needed)
			bytes *= 2;
		if (plans->work)
			vendor_work_end(s, plans->work);
		plans->work = vendor_work(s, bytes);
		plans->work_bytes = plans->work ? bytes : 0;
	}
	*work = plans->work;
	return *work ? 0 : -EOPNOTSUPP;
}

struct fft_data {
	void *x, *y, *work;
	bool inverse;
};

static int transform_part(const struct arax_stream *s, const struct kept *plan, uint64_t first,
			  const struct fft_data *d)
{
	const uint64_t one = 2 * sizeof(float) * (uint64_t)plan->shape.n;
	const uint64_t offset = first * one, bytes = plan->shape.batch * one;
	void *x = vendor_part(d->x, offset, bytes), *y = vendor_part(d->y, offset, bytes);
	int err = -EOPNOTSUPP;

	if (x && y)
		err = vendor_transform(s, &plan->plan, d->inverse, x, y,
				       plan->work_bytes ? d->work : NULL);
	if (x)
		vendor_part_end(x);
	if (y)
		vendor_part_end(y);
	/* It is too late for others to do it. */
	return err == -EOPNOTSUPP && first ? -EIO : err;
}

/* All plans are there, and what they work in, before the first part is put onto the stream. */
static int transform_parts(const struct arax_stream *s, const struct kept *all, struct fft_data *d)
{
	const struct fft_shape *whole = &all->shape;
	struct fft_shape each = { whole->n, all->part }, rest = { whole->n, 0 };
	struct kept plan, last = { .part = 0 };
	uint64_t first = 0;
	int err = find_plan(s, &each, &plan);

	/* A part may need more than its share. */
	while (!err && plan.part < each.batch) {
		each.batch = plan.part;
		err = find_plan(s, &each, &plan);
	}
	rest.batch = whole->batch % each.batch;
	if (!err && !vendor_has_parts(s, d->x, d->y, 2 * sizeof(float) * (uint64_t)each.n * each.batch))
		err = -EOPNOTSUPP;
	if (!err && rest.batch)
		err = find_plan(s, &rest, &last);
	if (!err && last.part < rest.batch)
		err = -EOPNOTSUPP;
	if (!err)
		err = find_work(s, plan.work_bytes > last.work_bytes ? plan.work_bytes :
									last.work_bytes, &d->work);
	for (; !err && first + each.batch <= whole->batch; first += each.batch)
		err = transform_part(s, &plan, first, d);
	if (!err && rest.batch)
		err = transform_part(s, &last, first, d);
	return err;
}

/* What work is for: a length that has other prime factors than these. */
static bool is_smooth(uint32_t n)
{
	for (uint32_t p = 2; p <= 7; p++)
		while (n % p == 0)
			n /= p;
	return n == 1;
}

static uint64_t work_items(const struct fft_args *a)
{
	uint64_t m = 1;

	if (is_smooth(a->n))
		return 0;
	while (m < 2 * (uint64_t)a->n - 1)
		m *= 2;
	return 4 * m * a->batch;
}

static bool has_items(const struct arax_launch *l, uint32_t i, uint64_t items)
{
	return i < l->nr_ranges && l->ranges[i].count == 1 &&
	       l->ranges[i].length / sizeof(float) >= items;
}

/* fft_c32(in f32 x[], out f32 y[], out f32 work[], u32 n, u32 batch, u32 inverse): see fft.c */
int arax_std_vendor_fft_c32(const struct arax_launch *l, const struct arax_stream *s)
{
	struct fft_shape shape;
	struct fft_data data;
	struct fft_args a;
	struct kept plan;
	int err;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || a.n > MAX_N || a.inverse > 1)
		return -EINVAL;
	if (!has_items(l, 0, 2 * (uint64_t)a.n * a.batch) ||
	    !has_items(l, 1, 2 * (uint64_t)a.n * a.batch) || !has_items(l, 2, work_items(&a)))
		return -EINVAL;
	if (!a.batch)
		return 0;
	/* One number is a copy, for which no library has a plan. */
	if (a.n == 1 || (uint64_t)a.n * a.batch >= MAX_ITEMS ||
	    !vendor_can_at(l->ranges[0].data, l->ranges[1].data))
		return -EOPNOTSUPP;
	shape = (struct fft_shape){ a.n, a.batch };
	data = (struct fft_data){ l->ranges[0].data, l->ranges[1].data, NULL, a.inverse };
	err = find_plan(s, &shape, &plan);
	if (!err && plan.part < a.batch)
		return transform_parts(s, &plan, &data);
	if (!err)
		err = find_work(s, plan.work_bytes, &data.work);
	return err ? err : vendor_transform(s, &plan.plan, data.inverse, data.x, data.y, data.work);
}
