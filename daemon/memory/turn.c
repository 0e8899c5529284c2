// SPDX-License-Identifier: MIT
/*
 * turn.c - waiting, for no longer than a task may
 *
 * What lasts as long as copies do is no mutex's to guard: who sleeps for one can't be told that it
 * is canceled, and keeps its lane from others meanwhile.
 */
#include "daemon/backends/relax.h"
#include "daemon/memory/internal.h"

int memory_await(struct memory *m, pthread_cond_t *cond, const struct memory_until *until)
{
	struct timespec at;
	int err = memory_until_over(until);

	if (err)
		return err;
	if (!until || !until->deadline_ns)
		return -pthread_cond_wait(cond, &m->lock);
	at.tv_sec = (time_t)(until->deadline_ns / 1000000000u);
	at.tv_nsec = (long)(until->deadline_ns % 1000000000u);
	return -pthread_cond_timedwait(cond, &m->lock, &at);
}

/* (locked, for a while not) Many last for less than a sleep and its end take: see brief_mutex.h. */
static void look_again(struct memory *m, const struct memory_turn *t)
{
	pthread_mutex_unlock(&m->lock);
	for (int i = 0; i < BRIEF_TRIES && __atomic_load_n(&t->taken, __ATOMIC_RELAXED); i++)
		relax();
	memory_lock(m);
}

bool turn_try(struct memory *m, struct memory_turn *t)
{
	if (t->taken)
		look_again(m, t);
	if (t->taken)
		return false;
	__atomic_store_n(&t->taken, true, __ATOMIC_RELAXED);
	return true;
}

int turn_take(struct memory *m, struct memory_turn *t, const struct memory_until *until)
{
	int err = 0;

	if (turn_try(m, t))
		return 0;
	while (t->taken && !err) {
		t->waiting++;
		err = memory_await(m, &m->turned, until);
		t->waiting--;
	}
	/* It may have ended just when the time had: then whoever else waits was woken as well. */
	if (t->taken)
		return err;
	__atomic_store_n(&t->taken, true, __ATOMIC_RELAXED);
	return 0;
}

void turn_end(struct memory *m, struct memory_turn *t)
{
	__atomic_store_n(&t->taken, false, __ATOMIC_RELAXED);
	if (t->waiting)
		pthread_cond_broadcast(&m->turned);
}
