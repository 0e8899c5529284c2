// SPDX-License-Identifier: MIT
#include "daemon/dispatch/gate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/memory/memory.h"

/**
 * struct waiter - on its thread's stack
 * @switch_ns: what it would cost to let it in, if it needs another configuration
 */
struct waiter {
	struct waiter *next;
	uint32_t configuration;
	uint64_t switch_ns;
	uint64_t came_ns;
};

/**
 * struct gate
 * @configuration: the present one; 0: none
 * @since_ns:	when it was made
 * @inside:	tasks
 * @first, @last: who waits, in the order in which they came
 */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t configuration;
	uint64_t since_ns;
	uint32_t inside;
	bool switching;
	bool stopped;
	struct waiter *first, **last;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int gate_create(struct gate **out)
{
	struct gate *g = calloc(1, sizeof(*g));
	pthread_condattr_t attr;

	if (!g)
		return -ENOMEM;
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &attr);
	pthread_condattr_destroy(&attr);
	g->last = &g->first;
	*out = g;
	return 0;
}

void gate_destroy(struct gate *g)
{
	if (!g)
		return;
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static bool fits(const struct gate *g, const struct waiter *w)
{
	return !w->configuration || w->configuration == g->configuration;
}

/* Has anybody who came before @w let others go first for long enough? */
static bool must_stand_back(const struct gate *g, const struct waiter *w, uint64_t now)
{
	for (const struct waiter *o = g->first; o != w; o = o->next) {
		uint64_t since = o->came_ns > g->since_ns ? o->came_ns : g->since_ns;

		if (!fits(g, o) && now - since >= o->switch_ns)
			return true;
	}
	return false;
}

static bool may_pass(const struct gate *g, const struct waiter *w, uint64_t now)
{
	return !g->switching && fits(g, w) && !must_stand_back(g, w, now);
}

/* Whoever came earlier and fits passes first, as soon as it is awake. */
static bool may_switch(const struct gate *g, const struct waiter *w)
{
	return !g->switching && !g->inside && !fits(g, w) && w == g->first;
}

static void join(struct gate *g, struct waiter *w)
{
	*g->last = w;
	g->last = &w->next;
}

static void leave_queue(struct gate *g, struct waiter *w)
{
	struct waiter **p = &g->first;

	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	if (!*p)
		g->last = p;
	/* Somebody is first now, or need not stand back any more. */
	pthread_cond_broadcast(&g->changed);
}

/* (locked, for a while not) Till something has changed, or may have. */
static int await_change(struct gate *g, struct memory_until *until)
{
	struct timespec at;
	int err;

	if (!until)
		return -pthread_cond_wait(&g->changed, &g->lock);
	__atomic_store_n(&until->waits, true, __ATOMIC_RELAXED);
	at.tv_sec = (time_t)(until->deadline_ns / 1000000000u);
	at.tv_nsec = (long)(until->deadline_ns % 1000000000u);
	if (until->deadline_ns)
		err = pthread_cond_timedwait(&g->changed, &g->lock, &at);
	else
		err = pthread_cond_wait(&g->changed, &g->lock);
	__atomic_store_n(&until->waits, false, __ATOMIC_RELAXED);
	return -err;
}

int gate_enter(struct gate *g, uint32_t configuration, uint64_t switch_ns,
	       int (*configure)(void *arg), void *arg, struct memory_until *until)
{
	struct waiter w = {
		.configuration = configuration, .switch_ns = switch_ns, .came_ns = now_ns(),
	};
	bool pass = false;
	int err = 0;

	pthread_mutex_lock(&g->lock);
	join(g, &w);
	while (!g->stopped && !err) {
		/* First, as who was inside may have left meanwhile. */
		if (until && __atomic_load_n(&until->canceled, __ATOMIC_RELAXED)) {
			err = -ECANCELED;
			break;
		}
		pass = may_pass(g, &w, now_ns());
		if (pass || may_switch(g, &w))
			break;
		err = await_change(g, until);
	}
	leave_queue(g, &w);
	if (g->stopped)
		err = -ECANCELED;
	if (!err && !pass) {
		g->switching = true;
		pthread_mutex_unlock(&g->lock);
		err = configure(arg);
		pthread_mutex_lock(&g->lock);
		g->switching = false;
		g->configuration = err ? 0 : configuration;
		g->since_ns = now_ns();
		pthread_cond_broadcast(&g->changed);
	}
	if (!err)
		g->inside++;
	pthread_mutex_unlock(&g->lock);
	return err;
}

void gate_cancel(struct gate *g, struct memory_until *until)
{
	pthread_mutex_lock(&g->lock);
	__atomic_store_n(&until->canceled, true, __ATOMIC_RELAXED);
	if (g->first)
		pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

bool gate_try_enter(struct gate *g, uint32_t configuration)
{
	bool pass;

	pthread_mutex_lock(&g->lock);
	pass = !g->stopped && !g->switching && !g->first && g->configuration &&
	       (!configuration || configuration == g->configuration);
	g->inside += pass;
	pthread_mutex_unlock(&g->lock);
	return pass;
}

void gate_leave(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	if (!--g->inside)
		pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gate_forget(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->configuration = 0;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

void gate_stop(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->stopped = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

uint32_t gate_waiting(struct gate *g)
{
	uint32_t n = 0;

	pthread_mutex_lock(&g->lock);
	for (const struct waiter *w = g->first; w; w = w->next)
		n++;
	pthread_mutex_unlock(&g->lock);
	return n;
}
