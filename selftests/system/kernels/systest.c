// SPDX-License-Identifier: MIT
/* Kernels that misbehave in chosen ways, for the tests of the whole stack. */
#include <arax/kernel.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "mix.h"

struct value_args {
	uint32_t value;
};

ARAX_KERNEL int st_add(const struct arax_launch *l);
ARAX_KERNEL int st_fail(const struct arax_launch *l);
ARAX_KERNEL int st_spin(const struct arax_launch *l);
ARAX_KERNEL int st_begin(const struct arax_launch *l);
ARAX_KERNEL int st_clock(const struct arax_launch *l);
ARAX_KERNEL int st_steps(const struct arax_launch *l);
ARAX_KERNEL int st_groups(const struct arax_launch *l);
ARAX_KERNEL int st_crash(const struct arax_launch *l);
ARAX_KERNEL int st_gather(const struct arax_launch *l);
ARAX_KERNEL int st_whoami(const struct arax_launch *l);
ARAX_KERNEL int st_lies(const struct arax_launch *l);
ARAX_KERNEL int st_meet(const struct arax_launch *l);
ARAX_KERNEL int st_mix(const struct arax_launch *l);
ARAX_KERNEL int st_mix_groups(const struct arax_launch *l);
ARAX_KERNEL int vt_fill(const struct arax_launch *l);
ARAX_KERNEL int vt_more(const struct arax_launch *l);

static int value(const struct arax_launch *l, uint32_t *v)
{
	struct value_args args;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	*v = args.value;
	return 0;
}

/* Add a value to every u32 of the range. */
ARAX_KERNEL int st_add(const struct arax_launch *l)
{
	uint64_t i, n = l->ranges[0].length / sizeof(uint32_t);
	uint32_t *x = ARAX_ITEMS(l, 0, n, uint32_t);
	uint32_t v;

	if (!x || value(l, &v))
		return -EINVAL;
	for (i = 0; i < n; i++)
		x[i] += v;
	return 0;
}

/* Fail with the errno that is asked for. */
ARAX_KERNEL int st_fail(const struct arax_launch *l)
{
	uint32_t v;

	if (value(l, &v))
		return -EINVAL;
	return -(int)v;
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Occupy the device for so many microseconds. */
ARAX_KERNEL int st_spin(const struct arax_launch *l)
{
	uint64_t start = now_us();
	uint32_t v;

	if (value(l, &v))
		return -EINVAL;
	while (now_us() - start < v)
		;
	return 0;
}

/* The same, having said in the first word that it has begun; the second one ends it before. */
ARAX_KERNEL int st_begin(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t);
	uint64_t start = now_us();
	uint32_t v;

	if (!x || value(l, &v))
		return -EINVAL;
	__atomic_store_n(x, 1, __ATOMIC_RELEASE);
	while (now_us() - start < v && !__atomic_load_n(x + 1, __ATOMIC_RELAXED))
		;
	return 0;
}

/* As st_spin(), in each work-group, counted in the first word, until the second one ends it. */
ARAX_KERNEL int st_steps(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t);
	uint64_t g;

	if (!x)
		return -EINVAL;
	for (g = l->group_begin; g < l->group_end && !__atomic_load_n(x + 1, __ATOMIC_RELAXED); g++) {
		if (st_spin(l))
			return -EINVAL;
		__atomic_fetch_add(x, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Count the work-groups, and the calls, and leave how many there are. */
ARAX_KERNEL int st_groups(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 3, uint32_t);

	if (!x)
		return -EINVAL;
	__atomic_fetch_add(x, (uint32_t)(l->group_end - l->group_begin), __ATOMIC_RELAXED);
	__atomic_fetch_add(x + 1, 1, __ATOMIC_RELAXED);
	__atomic_store_n(x + 2, (uint32_t)arax_launch_groups(l), __ATOMIC_RELAXED);
	return 0;
}

/* As st_spin(), and leave when that was over, in microseconds. */
ARAX_KERNEL int st_clock(const struct arax_launch *l)
{
	uint64_t *at = ARAX_ITEMS(l, 0, 1, uint64_t);

	if (!at || st_spin(l))
		return -EINVAL;
	*at = now_us();
	return 0;
}

/* Write where nothing is; its manifest says addressing = data. */
ARAX_KERNEL int st_crash(const struct arax_launch *l)
{
	uint32_t v;

	if (value(l, &v))
		return -EINVAL;
	*(volatile uint32_t *)(uintptr_t)v = 1;
	return 0;
}

/* out[i] = in[index[i]]: addresses from contents, so it runs in a worker. */
ARAX_KERNEL int st_gather(const struct arax_launch *l)
{
	uint64_t i, n = l->ranges[2].length / sizeof(uint32_t);
	uint64_t m = l->ranges[0].length / sizeof(uint32_t);
	const uint32_t *in = ARAX_ITEMS(l, 0, m, uint32_t);
	const uint32_t *index = ARAX_ITEMS(l, 1, n, uint32_t);
	uint32_t *out = ARAX_ITEMS(l, 2, n, uint32_t);

	if (!in || !index || !out)
		return -EINVAL;
	for (i = 0; i < n; i++)
		out[i] = index[i] < m ? in[index[i]] : 0;
	return 0;
}

/* Who runs this: out = { uid, gid } */
ARAX_KERNEL int st_whoami(const struct arax_launch *l)
{
	uint32_t *who = ARAX_ITEMS(l, 0, 2, uint32_t);

	if (!who)
		return -EINVAL;
	who[0] = getuid();
	who[1] = getgid();
	return 0;
}

/* Write to what the signature says is only read. */
ARAX_KERNEL int st_lies(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t), *y = ARAX_ITEMS(l, 1, 1, uint32_t);

	if (!x || !y)
		return -EINVAL;
	y[0] = x[0];
	x[1]++;
	return 0;
}

/* Come to an end when so many of it run at once; at most 30 s. */
ARAX_KERNEL int st_meet(const struct arax_launch *l)
{
	static uint32_t came;
	uint64_t start = now_us();
	uint32_t me, all;

	if (value(l, &all) || !all)
		return -EINVAL;
	me = __atomic_fetch_add(&came, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&came, __ATOMIC_RELAXED) / all <= me / all) {
		if (now_us() - start > 30000000)
			return -ETIME;
		usleep(100);
	}
	return 0;
}

/* What depends on all that it reads, see coherent.c. */
ARAX_KERNEL int st_mix(const struct arax_launch *l)
{
	return mix_three(l);
}

ARAX_KERNEL int st_mix_groups(const struct arax_launch *l)
{
	return mix_groups(l);
}

struct fill_args {
	int32_t value, mode;
	uint32_t n;
};

static int fill(const struct arax_launch *l, int32_t kept, int32_t besides)
{
	struct fill_args a;
	int32_t *x;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	x = ARAX_ITEMS(l, 0, a.n, int32_t);
	if (!x)
		return -EINVAL;
	for (uint32_t i = 0; i < a.n; i++)
		x[i] = kept * x[i] + a.value + besides;
	return 0;
}

/* In place of stream_fn.c's function, and told from it by what they write. */
ARAX_KERNEL int vt_fill(const struct arax_launch *l)
{
	return fill(l, 0, 1000000);
}

ARAX_KERNEL int vt_more(const struct arax_launch *l)
{
	return fill(l, 1, 0);
}
