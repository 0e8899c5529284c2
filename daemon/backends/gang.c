// SPDX-License-Identifier: MIT
/*
 * How a launch is shared out
 *
 * `claims` holds the job's number and how many of its spans are still to be
 * claimed, in one word.  A thread claims a span by taking one off with a
 * compare-and-swap, so a thread that comes late can't take a span of a job that
 * it did not look at; and since `pending` counts claimed and unclaimed spans
 * together, the job's fields don't change while somebody holds one.
 */
#include "daemon/backends/gang.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/backends/relax.h"

#define SPANS_PER_CORE	4	/* so that a slow core does not hold up the rest */
#define SPIN_ROUNDS	2000	/* about 10 us: a futex wake costs more */

struct gang {
	/* The job; written by the owner of `busy` while pending is 0. */
	arax_kernel_fn *fn;
	struct arax_launch launch;
	uint64_t groups;
	uint32_t nr_spans;

	_Alignas(64) _Atomic uint64_t claims;	/* job number << 32 | spans left */
	_Alignas(64) _Atomic uint32_t pending;	/* spans not yet finished */
	_Atomic uint32_t owner_sleeps;
	_Atomic int32_t error;
	_Alignas(64) _Atomic uint32_t job;	/* futex: number of the last job */
	_Atomic uint32_t sleepers;
	_Atomic bool stop;

	pthread_mutex_t busy;
	unsigned int nr_threads;
	struct {
		struct gang *gang;
		pthread_t thread;
		int cpu;
	} helpers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Run spans of job number `job` until none is left to claim. */
static void take_part(struct gang *g, uint32_t job)
{
	/* Acquire: pairs with the release of `claims` in gang_run(). */
	uint64_t c = atomic_load_explicit(&g->claims, memory_order_acquire);

	while ((uint32_t)(c >> 32) == job && (uint32_t)c) {
		struct arax_launch l;
		uint64_t i;
		int err;

		if (!atomic_compare_exchange_weak_explicit(&g->claims, &c, c - 1,
							   memory_order_acq_rel,
							   memory_order_acquire))
			continue;
		i = g->nr_spans - (uint32_t)c;
		l = g->launch;
		/* 128 bits: groups can be as many as 2^64 - 1. */
		l.group_begin = (uint64_t)((unsigned __int128)g->groups * i / g->nr_spans);
		l.group_end = (uint64_t)((unsigned __int128)g->groups * (i + 1) / g->nr_spans);
		if (!atomic_load_explicit(&g->error, memory_order_relaxed)) {
			err = g->fn(&l);
			if (err)
				atomic_store_explicit(&g->error, err, memory_order_relaxed);
		}
		/*
		 * seq_cst: the store to `pending` comes before the load of
		 * `owner_sleeps`; pairs with the opposite order in gang_run().
		 */
		if (atomic_fetch_sub(&g->pending, 1) == 1 && atomic_load(&g->owner_sleeps))
			futex_wake(&g->pending);
		c = atomic_load_explicit(&g->claims, memory_order_acquire);
	}
}

static void *helper(void *arg)
{
	struct gang *g = *(struct gang **)arg;
	uint32_t seen = 0;

	for (;;) {
		uint32_t job;
		int rounds = SPIN_ROUNDS;

		while ((job = atomic_load_explicit(&g->job, memory_order_acquire)) == seen) {
			if (rounds-- > 0) {
				relax();
				continue;
			}
			/*
			 * seq_cst: `sleepers` is raised before the futex looks at
			 * `job`; pairs with the opposite order in gang_run().
			 */
			atomic_fetch_add(&g->sleepers, 1);
			if (atomic_load(&g->job) == seen)
				futex_wait(&g->job, seen);
			atomic_fetch_sub(&g->sleepers, 1);
		}
		if (atomic_load(&g->stop))
			return NULL;
		seen = job;
		take_part(g, job);
	}
}

unsigned int gang_size(const struct gang *g)
{
	return g->nr_threads + 1;
}

static void announce(struct gang *g)
{
	atomic_fetch_add(&g->job, 1);
	if (atomic_load(&g->sleepers))
		futex_wake(&g->job);
}

int gang_run(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l)
{
	uint64_t groups = l->group_end;
	uint32_t spans, left, job;
	int rounds = SPIN_ROUNDS;
	int err;

	if (!g->nr_threads || groups < 2 || pthread_mutex_trylock(&g->busy))
		return fn(l);
	spans = SPANS_PER_CORE * gang_size(g);
	if (spans > groups)
		spans = (uint32_t)groups;
	g->fn = fn;
	g->launch = *l;
	g->groups = groups;
	g->nr_spans = spans;
	atomic_store_explicit(&g->error, 0, memory_order_relaxed);
	atomic_store_explicit(&g->pending, spans, memory_order_relaxed);
	job = atomic_load_explicit(&g->job, memory_order_relaxed) + 1;
	/* Release: the job's fields; pairs with the acquires in take_part(). */
	atomic_store_explicit(&g->claims, (uint64_t)job << 32 | spans, memory_order_release);
	announce(g);
	take_part(g, job);
	/* Acquire: what helpers wrote; pairs with their fetch_sub of `pending`. */
	while ((left = atomic_load(&g->pending))) {
		if (rounds-- > 0) {
			relax();
			continue;
		}
		atomic_store(&g->owner_sleeps, 1);
		left = atomic_load(&g->pending);
		if (left)
			futex_wait(&g->pending, left);
		atomic_store(&g->owner_sleeps, 0);
	}
	err = atomic_load_explicit(&g->error, memory_order_relaxed);
	pthread_mutex_unlock(&g->busy);
	return err;
}

static int start_helper(struct gang *g, unsigned int i, int cpu)
{
	pthread_attr_t attr;
	cpu_set_t one;
	int err;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	g->helpers[i].gang = g;
	g->helpers[i].cpu = cpu;
	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
	if (!err)
		err = pthread_create(&g->helpers[i].thread, &attr, helper, &g->helpers[i].gang);
	pthread_attr_destroy(&attr);
	if (!err)
		g->nr_threads++;
	return -err;
}

int gang_create(const cpu_set_t *cpus, struct gang **gang)
{
	unsigned int n = (unsigned int)CPU_COUNT(cpus);
	struct gang *g;
	bool first = true;
	int err = 0;

	if (!n)
		return -EINVAL;
	g = aligned_alloc(64, (sizeof(*g) + n * sizeof(g->helpers[0]) + 63) / 64 * 64);
	if (!g)
		return -ENOMEM;
	*g = (struct gang){ .nr_threads = 0 };
	pthread_mutex_init(&g->busy, NULL);
	/* The first core is the caller's. */
	for (int cpu = 0; !err && cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, cpus))
			continue;
		if (!first)
			err = start_helper(g, g->nr_threads, cpu);
		first = false;
	}
	if (err) {
		gang_destroy(g);
		return err;
	}
	*gang = g;
	return 0;
}

void gang_destroy(struct gang *g)
{
	if (!g)
		return;
	atomic_store(&g->stop, true);
	announce(g);
	for (unsigned int i = 0; i < g->nr_threads; i++)
		pthread_join(g->helpers[i].thread, NULL);
	pthread_mutex_destroy(&g->busy);
	free(g);
}
