// SPDX-License-Identifier: MIT
/*
 * How launches are shared out
 *
 * Each split launch is a job in a slot of its own.  A slot's `claims` holds the job's number and
 * how many of its spans are still to be claimed, in one word.  A thread claims a span by taking
 * one off with a compare-and-swap, so a thread that comes late can't take a span of a job that it
 * did not look at; and since `pending` counts claimed and unclaimed spans together, the job's
 * fields don't change while somebody holds one.
 *
 * Callers have a core each, helpers those that are left: `active` counts the threads that
 * compute, and a helper joins only below the number of cores and leaves above it.  So launches
 * that run at once in one gang have a core each before one of them has two.
 *
 * A launch in parts has many spans, of which a thread takes as many at once as took about the time
 * of a part.  One that is to stand still takes back the spans that nobody has claimed, waits for
 * those that somebody has, and gives its slot back; it goes on as another job, of what is left.
 */
#include "daemon/backends/gang.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/relax.h"

#define SPANS_PER_CORE	4	/* so that a slow core does not hold up the rest */
#define SPANS_IN_PARTS	(1u << 28)	/* of a launch in parts, whose time is not known */
#define GROWTH		4u	/* at most, as the first ones may be no measure */
/* Nor may those that were cheap: a call has no more than such a part of all, and of what is left. */
#define CALLS		4096u
#define CALLS_LEFT	32u
#define SPIN_ROUNDS	2000	/* about 10 us: a futex wake costs more */
#define MAX_JOBS	64u	/* bits of `taken` and `open`; launches beyond it are not split */

struct job {
	/* Written by the owner while pending is 0. */
	arax_kernel_fn *fn;
	struct arax_launch launch;
	uint64_t groups;
	uint32_t nr_spans;
	bool timed;				/* else a span at a time */
	uint64_t part_ns;

	_Alignas(64) _Atomic uint64_t claims;	/* job number << 32 | spans left */
	_Alignas(64) _Atomic uint32_t pending;	/* spans not yet finished; a futex */
	_Atomic uint32_t owner_sleeps;
	_Atomic int32_t error;
	_Atomic uint32_t helpers;		/* a hint: who has fewest gets the next one */
	_Atomic uint32_t at_once;		/* spans in a part */
};

struct gang {
	unsigned int nr_threads, size;
	_Atomic uint32_t nr_cores;		/* of size, for now */
	_Alignas(64) _Atomic uint32_t active;	/* threads that compute */
	_Alignas(64) _Atomic uint64_t open;	/* slots of which spans may be left to claim */
	_Atomic uint64_t taken;			/* slots that have an owner */
	_Alignas(64) _Atomic uint32_t calls;	/* futex: what helpers wait to see change */
	_Atomic uint32_t sleepers;
	_Atomic bool stop;
	struct job jobs[MAX_JOBS];
	struct {
		struct gang *gang;
		pthread_t thread;
	} helpers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t threads)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* @n spans from @i on.  128 bits: groups can be as many as 2^64 - 1. */
static void set_spans(struct arax_launch *l, uint64_t groups, uint32_t i, uint32_t n, uint32_t nr)
{
	l->group_begin = (uint64_t)((unsigned __int128)groups * i / nr);
	l->group_end = (uint64_t)((unsigned __int128)groups * (i + n) / nr);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* How many are a part, when @n have taken @ns. */
static uint32_t part_of(uint32_t n, uint64_t ns, uint64_t part_ns)
{
	uint64_t fit = (uint64_t)((unsigned __int128)n * part_ns / (ns ?: 1)) ?: 1;
	uint64_t most = (uint64_t)GROWTH * n;

	return (uint32_t)(fit < most ? fit : most);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* How many of a part's @n come next, of @left of @all. */
static uint32_t bounded(uint32_t n, uint32_t left, uint32_t all)
{
	return n == 1 ? 1 : least(n, least(all / CALLS, left / CALLS_LEFT) ?: 1);
}

/* Of @left, so that there are some for all cores in the end. */
static uint32_t at_once(const struct gang *g, const struct job *j, uint32_t left)
{
	uint32_t n = atomic_load_explicit(&j->at_once, memory_order_relaxed);
	uint32_t cores = atomic_load_explicit(&g->nr_cores, memory_order_relaxed);

	/* Nothing is done for them. */
	if (atomic_load_explicit(&j->error, memory_order_relaxed))
		return left;
	return n == 1 ? 1 : least(n, left / (2 * cores) ?: 1);
}

/* One span of @j, if one is left, or some of a launch in parts. */
static bool run_span(struct gang *g, struct job *j)
{
	/* Acquire: pairs with the release of `claims` in begin(). */
	uint64_t c = atomic_load_explicit(&j->claims, memory_order_acquire), began = 0;
	struct arax_launch l;
	uint32_t n, first;
	int err;

	do {
		if (!(uint32_t)c)
			return false;
		n = at_once(g, j, (uint32_t)c);
	} while (!atomic_compare_exchange_weak_explicit(&j->claims, &c, c - n, memory_order_acq_rel,
							memory_order_acquire));
	/* The last one, of a job that has its slot until we are done with it. */
	if ((uint32_t)c == n)
		atomic_fetch_and(&g->open, ~(1ull << (j - g->jobs)));
	l = j->launch;
	first = j->nr_spans - (uint32_t)c;
	set_spans(&l, j->groups, first, n, j->nr_spans);
	if (!atomic_load_explicit(&j->error, memory_order_relaxed)) {
		if (j->timed)
			began = now_ns();
		err = j->fn(&l);
		if (err)
			atomic_store_explicit(&j->error, err, memory_order_relaxed);
		if (began)
			atomic_store_explicit(&j->at_once,
					      bounded(part_of(n, now_ns() - began, j->part_ns),
						      j->nr_spans - first - n, j->nr_spans),
					      memory_order_relaxed);
	}
	/*
	 * seq_cst: the store to `pending` comes before the load of `owner_sleeps`; pairs with
	 * the opposite order in await().  The slot may be another job's after it: one that
	 * sleeps is then woken for nothing, and looks again.
	 */
	if (atomic_fetch_sub(&j->pending, n) == n && atomic_load(&j->owner_sleeps))
		futex_wake(&j->pending, 1);
	return true;
}

/* ------------------------------------------------------------------ */
/* Cores                                                                 */

/* At most @threads more may be of use. */
static void call(struct gang *g, uint32_t threads)
{
	/* seq_cst: after what it is for, and before the load; pairs with rest(). */
	atomic_fetch_add(&g->calls, 1);
	if (atomic_load(&g->sleepers))
		futex_wake(&g->calls, threads);
}

/* A core for a helper. */
static bool join(struct gang *g)
{
	uint32_t active = atomic_load(&g->active);

	while (active < atomic_load_explicit(&g->nr_cores, memory_order_relaxed))
		if (atomic_compare_exchange_weak(&g->active, &active, active + 1))
			return true;
	return false;
}

static void leave(struct gang *g)
{
	/* seq_cst: the core is free before the look at who could use it; pairs with rest(). */
	if (atomic_fetch_sub(&g->active, 1) <= atomic_load(&g->nr_cores) && atomic_load(&g->open))
		call(g, 1);
}

/*
 * The job with spans to claim that has fewest; NULL: none.  A bit in `open` may be there a moment
 * longer, and before them: seq_cst, as it is part of what rest() looks for.
 */
static struct job *choose(struct gang *g)
{
	uint64_t open = atomic_load(&g->open);
	struct job *best = NULL;
	uint32_t least = UINT32_MAX;

	while (open) {
		struct job *j = &g->jobs[__builtin_ctzll(open)];
		uint32_t helpers = atomic_load_explicit(&j->helpers, memory_order_relaxed);

		if (helpers < least && (uint32_t)atomic_load(&j->claims)) {
			least = helpers;
			best = j;
		}
		open &= open - 1;
	}
	return best;
}

/* Spans of whichever job, as long as there are some and a core is left over for it. */
static void help(struct gang *g)
{
	struct job *j;

	while (atomic_load_explicit(&g->active, memory_order_relaxed) <=
		       atomic_load_explicit(&g->nr_cores, memory_order_relaxed) &&
	       (j = choose(g))) {
		atomic_fetch_add_explicit(&j->helpers, 1, memory_order_relaxed);
		run_span(g, j);
		atomic_fetch_sub_explicit(&j->helpers, 1, memory_order_relaxed);
	}
}

static bool wanted(struct gang *g)
{
	return atomic_load(&g->stop) ||
	       (choose(g) && atomic_load(&g->active) < atomic_load(&g->nr_cores));
}

/* Until a helper may be of use. */
static void rest(struct gang *g)
{
	for (int rounds = SPIN_ROUNDS; rounds--; relax())
		if (wanted(g))
			return;
	/*
	 * seq_cst: `sleepers` is raised before we look; pairs with call(), which comes after
	 * what we look for: either it sees us, or we what it calls for.
	 */
	atomic_fetch_add(&g->sleepers, 1);
	for (;;) {
		uint32_t calls = atomic_load(&g->calls);

		if (wanted(g))
			break;
		futex_wait(&g->calls, calls);
	}
	atomic_fetch_sub(&g->sleepers, 1);
}

static void *helper(void *arg)
{
	struct gang *g = *(struct gang **)arg;

	for (;;) {
		rest(g);
		if (atomic_load(&g->stop))
			return NULL;
		if (!join(g))
			continue;
		help(g);
		leave(g);
	}
}

/* ------------------------------------------------------------------ */
/* Launches                                                              */

unsigned int gang_size(const struct gang *g)
{
	return g->size;
}

void gang_limit(struct gang *g, unsigned int cores)
{
	atomic_store(&g->nr_cores, cores && cores < g->size ? cores : g->size);
}

static struct job *take_slot(struct gang *g)
{
	uint64_t taken = atomic_load(&g->taken);

	while (~taken) {
		uint64_t bit = ~taken & (taken + 1);

		/* Acquire: pairs with the release in run_job(), by who had it before. */
		if (atomic_compare_exchange_weak(&g->taken, &taken, taken | bit))
			return &g->jobs[__builtin_ctzll(bit)];
	}
	return NULL;
}

/* Until all spans are done. */
static void await(struct job *j)
{
	int rounds = SPIN_ROUNDS;
	uint32_t left;

	/* Acquire: what helpers wrote; pairs with their fetch_sub of `pending`. */
	while ((left = atomic_load(&j->pending))) {
		if (rounds-- > 0) {
			relax();
			continue;
		}
		atomic_store(&j->owner_sleeps, 1);
		left = atomic_load(&j->pending);
		if (left)
			futex_wait(&j->pending, left);
		atomic_store(&j->owner_sleeps, 0);
	}
}

/* A launch that is split. */
struct split {
	arax_kernel_fn *fn;
	const struct arax_launch *launch;
	const struct gang_parts *parts;		/* NULL: it never stands still */
	uint32_t spans, left;			/* the last ones of them */
	uint32_t at_once;
};

static void begin(struct gang *g, struct job *j, const struct split *s)
{
	uint32_t cores = atomic_load(&g->nr_cores), active;
	uint64_t number;

	j->fn = s->fn;
	j->launch = *s->launch;
	j->groups = s->launch->group_end;
	j->nr_spans = s->spans;
	j->timed = s->parts;
	j->part_ns = s->parts ? s->parts->part_ns : 0;
	atomic_store_explicit(&j->at_once, s->at_once, memory_order_relaxed);
	atomic_store_explicit(&j->error, 0, memory_order_relaxed);
	atomic_store_explicit(&j->pending, s->left, memory_order_relaxed);
	/*
	 * Before there is anything to claim: who claims the last span takes the bit back.  seq_cst:
	 * pairs with rest(), see call().
	 */
	atomic_fetch_or(&g->open, 1ull << (j - g->jobs));
	number = (atomic_load_explicit(&j->claims, memory_order_relaxed) >> 32) + 1;
	/* The job's fields: pairs with the acquires in run_span(); seq_cst: and with rest(). */
	atomic_store(&j->claims, number << 32 | s->left);
	active = atomic_load(&g->active);
	if (active < cores)
		call(g, cores - active < s->left - 1 ? cores - active : s->left - 1);
}

/* What nobody has claimed nobody can claim any more.  Returns how many spans that are. */
static uint32_t take_back(struct gang *g, struct job *j)
{
	uint64_t c = atomic_load(&j->claims);

	do {
		if (!(uint32_t)c)
			return 0;
	} while (!atomic_compare_exchange_weak(&j->claims, &c, c - (uint32_t)c));
	atomic_fetch_and(&g->open, ~(1ull << (j - g->jobs)));
	/* It is awaited next, by this thread. */
	atomic_fetch_sub(&j->pending, (uint32_t)c);
	return (uint32_t)c;
}

/* As one of those that compute, which it is no more at the end. */
static int run_job(struct gang *g, struct job *j, struct split *s)
{
	int err, stop = 0;

	begin(g, j, s);
	while (!stop && run_span(g, j))
		stop = s->parts ? s->parts->between(s->parts->arg, 0) : 0;
	s->left = stop ? take_back(g, j) : 0;
	s->at_once = atomic_load_explicit(&j->at_once, memory_order_relaxed);
	/* What is left is on other cores: this one is free. */
	leave(g);
	await(j);
	err = atomic_load_explicit(&j->error, memory_order_relaxed);
	atomic_fetch_and_explicit(&g->taken, ~(1ull << (j - g->jobs)), memory_order_release);
	if (err || !s->left)
		return err;
	return stop == -EAGAIN ? 0 : stop;
}

/* On this thread alone. */
static int run_here(struct split *s)
{
	struct arax_launch l = *s->launch;
	int err, stop = 0;

	while (!stop && s->left) {
		uint32_t n = least(s->at_once, s->left);
		uint64_t began = now_ns();

		set_spans(&l, s->launch->group_end, s->spans - s->left, n, s->spans);
		err = s->fn(&l);
		if (err)
			return err;
		s->left -= n;
		s->at_once = bounded(part_of(n, now_ns() - began, s->parts->part_ns), s->left,
				     s->spans);
		if (s->left)
			stop = s->parts->between(s->parts->arg, 0);
	}
	return stop == -EAGAIN ? 0 : stop;
}

/* To its end (@s->left is 0), an error, or until it is to stand still. */
static int run_split(struct gang *g, struct split *s)
{
	struct job *j;
	int err;

	atomic_fetch_add(&g->active, 1);
	j = take_slot(g);
	if (j)
		return run_job(g, j, s);
	if (s->parts) {
		err = run_here(s);
	} else {
		err = s->fn(s->launch);
		s->left = 0;
	}
	leave(g);
	return err;
}

static void cut(const struct gang *g, struct split *s)
{
	uint32_t spans = SPANS_PER_CORE * atomic_load(&g->nr_cores);

	if (s->parts && spans < SPANS_IN_PARTS)
		spans = SPANS_IN_PARTS;
	if (spans > s->launch->group_end)
		spans = (uint32_t)s->launch->group_end;
	s->spans = spans;
	s->left = spans;
	s->at_once = 1;
}

int gang_run(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l, bool split)
{
	struct split s = { .fn = fn, .launch = l };
	int err;

	/* One core, and nobody to share it with. */
	if (!g->nr_threads)
		return fn(l);
	if (split && l->group_end > 1) {
		cut(g, &s);
		return run_split(g, &s);
	}
	atomic_fetch_add(&g->active, 1);
	err = fn(l);
	leave(g);
	return err;
}

int gang_run_in_parts(struct gang *g, arax_kernel_fn *fn, const struct arax_launch *l,
		      const struct gang_parts *parts)
{
	struct split s = { .fn = fn, .launch = l, .parts = parts };
	int err = 0;

	if (l->group_end <= 1)
		return gang_run(g, fn, l, false);
	cut(g, &s);
	while (!err && s.left) {
		err = g->nr_threads ? run_split(g, &s) : run_here(&s);
		if (!err && s.left)
			err = parts->between(parts->arg, 1);
	}
	return err;
}

/* On any of the cores: callers are, and which of them are free changes. */
static int start_helper(struct gang *g, unsigned int i, const cpu_set_t *cpus)
{
	pthread_attr_t attr;
	int err;

	g->helpers[i].gang = g;
	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	err = pthread_attr_setaffinity_np(&attr, sizeof(*cpus), cpus);
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
	int err = 0;

	if (!n)
		return -EINVAL;
	g = aligned_alloc(64, (sizeof(*g) + n * sizeof(g->helpers[0]) + 63) / 64 * 64);
	if (!g)
		return -ENOMEM;
	*g = (struct gang){ .size = n, .nr_cores = n };
	/* One core is the caller's. */
	while (!err && g->nr_threads < n - 1)
		err = start_helper(g, g->nr_threads, cpus);
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
	call(g, g->nr_threads);
	for (unsigned int i = 0; i < g->nr_threads; i++)
		pthread_join(g->helpers[i].thread, NULL);
	free(g);
}
