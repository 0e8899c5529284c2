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

struct kept {
	struct fft_shape shape;
	union fft_plan plan;
	uint64_t work_bytes;
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

void arax_stream_close(const struct arax_stream *s)
{
	struct plans *plans = *s->state;

	while (plans->nr)
		vendor_plan_end(&plans->of[--plans->nr].plan);
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

static int find_plan(const struct arax_stream *s, const struct fft_shape *shape,
		     const struct kept **plan)
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
			*plan = &plans->of[0];
			return 0;
		}
	err = vendor_plan(s, shape, &made.plan, &made.work_bytes);
	if (err)
		return err;
	if (plans->nr == FFT_PLANS)
		vendor_plan_end(&plans->of[--plans->nr].plan);
	plans->of[plans->nr] = made;
	move_first(plans, plans->nr++);
	*plan = &plans->of[0];
	return 0;
}

/* Room for @plan to work in; it grows, and stays until the stream goes.  -EOPNOTSUPP: there is none. */
static int find_work(const struct arax_stream *s, const struct kept *plan, void **work)
{
	struct plans *plans = *s->state;

	*work = NULL;
	if (!plan->work_bytes)
		return 0;
	if (plan->work_bytes > FFT_WORK_MAX)
		return -EOPNOTSUPP;
	if (plan->work_bytes > plans->work_bytes) {
		uint64_t bytes = FFT_WORK_MIN;

		/* To free it waits for all that the device does: not for each that is a little longer. */
		while (bytes < plan->work_bytes)
			bytes *= 2;
		if (plans->work)
			vendor_work_end(s, plans->work);
		plans->work = vendor_work(s, bytes);
		plans->work_bytes = plans->work ? bytes : 0;
	}
	*work = plans->work;
	return *work ? 0 : -EOPNOTSUPP;
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
	const struct kept *plan;
	struct fft_args a;
	void *work;
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
	err = find_plan(s, &shape, &plan);
	if (!err)
		err = find_work(s, plan, &work);
	return err ? err : vendor_transform(s, &plan->plan, a.inverse, l->ranges[0].data,
					    l->ranges[1].data, work);
}
