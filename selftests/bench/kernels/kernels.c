// SPDX-License-Identifier: MIT
/* The kernels of the benches. */
#include <arax/kernel.h>
#include <time.h>

#include "triad.h"

ARAX_KERNEL int bench_null(const struct arax_launch *l);
ARAX_KERNEL int bench_bump(const struct arax_launch *l);
ARAX_KERNEL int bench_spin(const struct arax_launch *l);
ARAX_KERNEL int bench_log(const struct arax_launch *l);
ARAX_KERNEL int bench_work(const struct arax_launch *l);
ARAX_KERNEL int bench_triad(const struct arax_launch *l);

/* With and without ranges: all that is measured is the way here and back. */
ARAX_KERNEL int bench_null(const struct arax_launch *l)
{
	return 0;
}

/* Adds 1 to the first and the last word: whoever hands over sees that it ran on his pages. */
ARAX_KERNEL int bench_bump(const struct arax_launch *l)
{
	uint64_t *words, n;

	if (l->nr_ranges != 2)
		return -EINVAL;
	n = l->ranges[1].length / sizeof(*words);
	words = ARAX_ITEMS(l, 1, n, uint64_t);
	if (!words || n < 2)
		return -EINVAL;
	words[0]++;
	words[n - 1]++;
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns when it began; 0: for no longer than a second. */
static uint64_t spin(uint64_t ns)
{
	uint64_t start = now_ns();

	if (ns > 1000000000u)
		return 0;
	while (now_ns() - start < ns)
		;
	return start;
}

ARAX_KERNEL int bench_spin(const struct arax_launch *l)
{
	uint64_t ns;

	if (arax_launch_args(l, &ns, sizeof(ns)) || !spin(ns))
		return -EINVAL;
	return 0;
}

/* The same, and leaves when it began. */
ARAX_KERNEL int bench_log(const struct arax_launch *l)
{
	uint64_t ns, *start = ARAX_ITEMS(l, 0, 1, uint64_t);

	if (arax_launch_args(l, &ns, sizeof(ns)) || !start)
		return -EINVAL;
	*start = spin(ns);
	return *start ? 0 : -EINVAL;
}

/*
 * A count of steps that each need the one before, rather than a time: what is taken
 * from the core meanwhile makes it longer.
 */
ARAX_KERNEL int bench_work(const struct arax_launch *l)
{
	uint64_t rounds, x, *chain = ARAX_ITEMS(l, 0, 1, uint64_t);

	if (arax_launch_args(l, &rounds, sizeof(rounds)) || !chain)
		return -EINVAL;
	for (x = *chain; rounds; rounds--)
		x = x * 6364136223846793005u + 1442695040888963407u;
	*chain = x;
	return 0;
}

struct triad_args {
	double s;
	uint64_t n;
};

ARAX_KERNEL int bench_triad(const struct arax_launch *l)
{
	struct triad_args args;
	const double *a, *b;
	double *c;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	a = ARAX_ITEMS(l, 0, args.n, double);
	b = ARAX_ITEMS(l, 1, args.n, double);
	c = ARAX_ITEMS(l, 2, args.n, double);
	if (!a || !b || !c)
		return -EINVAL;
	triad(a, b, c, args.s, args.n);
	return 0;
}
