// SPDX-License-Identifier: MIT
/* An image as programs bring it: it computes, with all that a C program may use to. */
#include <arax/kernel.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int innocent(const struct arax_launch *l);
int abort_kernel(const struct arax_launch *l);
int endless(const struct arax_launch *l);
int overflow(const struct arax_launch *l);
int who(const struct arax_launch *l);
int restless(const struct arax_launch *l);
int nap(const struct arax_launch *l);
int hoard(const struct arax_launch *l);

#define THREADS	4

static void *sum(void *arg)
{
	double *x = arg, s = 0, *copy = malloc(1000 * sizeof(*copy));

	for (int i = 0; copy && i < 1000; i++)
		copy[i] = sqrt(i);
	for (int i = 0; copy && i < 1000; i++)
		s += copy[i];
	free(copy);
	*x = s;
	return NULL;
}

/* In this order at x[8] and behind it; -1 for one that could still be raised. */
static const int limits[] = {
	RLIMIT_CORE, RLIMIT_FSIZE, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_RTPRIO, RLIMIT_NICE,
	RLIMIT_NOFILE, RLIMIT_STACK,
};

/* innocent(out f64 x[16]): what it could not do is its result */
ARAX_KERNEL int innocent(const struct arax_launch *l)
{
	double *x = ARAX_ITEMS(l, 0, 16, double), sums[THREADS];
	struct timespec ts, ms = { .tv_nsec = 1000000 };
	volatile double third = 1.0 / 3;
	size_t big = 16 << 20;
	pthread_t ids[THREADS];
	struct rlimit limit;
	unsigned char *block;
	int n = 0;

	if (!x)
		return -EINVAL;
	x[0] = sin(third) + pow(third, third);
	block = malloc(big);
	if (!block)
		return -ENOMEM;
	memset(block, 1, big);
	block = realloc(block, 2 * big);
	x[1] = block && block[big - 1] == 1;
	free(block);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, sum, &sums[i]))
			return -EAGAIN;
	x[2] = 0;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		x[2] += sums[i];
	}
#pragma omp parallel reduction(+:n) num_threads(3)
	n += omp_get_num_threads();
	x[3] = n;	/* 9 */
	printf("%g, said to nobody\n", x[0]);
	fflush(stdout);
	fprintf(stderr, "%g\n", x[0]);
	if (clock_gettime(CLOCK_MONOTONIC, &ts) || nanosleep(&ms, NULL))
		return -errno;
	x[4] = getrandom(&n, sizeof(n), 0);
	x[5] = (double)sysconf(_SC_NPROCESSORS_ONLN);
	x[6] = getrlimit(RLIMIT_STACK, &limit);
	x[7] = pthread_setname_np(pthread_self(), "innocent");
	for (int i = 0; i < 8; i++) {
		if (getrlimit(limits[i], &limit))
			return -errno;
		x[8 + i] = limit.rlim_cur == limit.rlim_max ? (double)limit.rlim_max : -1;
	}
	return 0;
}

ARAX_KERNEL int abort_kernel(const struct arax_launch *l)
{
	abort();
}

ARAX_KERNEL int endless(const struct arax_launch *l)
{
	volatile int forever = 1;

	while (forever)
		;
	return 0;
}

static __attribute__((noinline)) int deeper(volatile char *above, int n)
{
	volatile char here[4096];

	here[0] = above[0];
	here[4095] = (char)n;
	return n < 0 ? here[0] : deeper(here, n + 1) + here[4095];
}

ARAX_KERNEL int overflow(const struct arax_launch *l)
{
	volatile char first[1] = { 0 };

	return deeper(first, 0) ? -EIO : -EINVAL;
}

/* who(out u32 x[]): pid, and how often this copy of the code was asked */
ARAX_KERNEL int who(const struct arax_launch *l)
{
	static uint32_t asked;
	uint32_t *x = ARAX_ITEMS(l, 0, 2, uint32_t);

	if (!x)
		return -EINVAL;
	x[0] = (uint32_t)getpid();
	x[1] = ++asked;
	return 0;
}

static void *count_up(void *arg)
{
	volatile uint64_t *word = arg;

	for (;;)
		++*word;
	return NULL;
}

/* restless(inout u64 x[]): leaves a thread behind that counts x[0] up; later it waits for it */
ARAX_KERNEL int restless(const struct arax_launch *l)
{
	static int started;
	uint64_t *x = ARAX_ITEMS(l, 0, 1, uint64_t), before;
	struct timespec ms = { .tv_nsec = 1000000 };
	pthread_t id;

	if (!x)
		return -EINVAL;
	if (!started++)
		return -pthread_create(&id, NULL, count_up, x);
	before = *(volatile uint64_t *)x;
	while (*(volatile uint64_t *)x == before)
		nanosleep(&ms, NULL);
	return 0;
}

/* nap(out u32 x[]): says that it has begun */
ARAX_KERNEL int nap(const struct arax_launch *l)
{
	volatile uint32_t *x = ARAX_ITEMS(l, 0, 1, uint32_t);
	struct timespec ts = { .tv_nsec = 200000000 };

	if (!x)
		return -EINVAL;
	x[0] = 1;
	nanosleep(&ts, NULL);
	return 0;
}

/* hoard(out u64 x[]): how many MiB can be had? */
ARAX_KERNEL int hoard(const struct arax_launch *l)
{
	uint64_t *x = ARAX_ITEMS(l, 0, 1, uint64_t);

	if (!x)
		return -EINVAL;
	for (x[0] = 0; x[0] < 4096 && malloc(1 << 20); x[0]++)
		;
	return 0;
}
