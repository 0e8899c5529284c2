// SPDX-License-Identifier: MIT
/* timeline.c - tasks that wait for a timeline, or until when one was reached */
#include <errno.h>
#include <stdlib.h>

#include "daemon/sim/internal.h"

/* A task that is blocked; @at: it is unblocked then, or at that value of its timeline. */
struct blocked {
	struct event at;
	struct blocked *next;		/* to be used again */
	struct blocked *all;
	struct sim *sim;
	uint64_t tag;
};

/*
 * As in the core: the first error stays, and who waits is told.  @waiting: by value, so that it is
 * no matter how many wait for later ones.
 */
struct timeline {
	uint64_t value;
	int error;
	struct events waiting;
};

bool timelines_init(struct sim *sim)
{
	uint32_t nr = sim->sc->nr_timelines;

	if (!nr)
		return true;
	sim->timelines = calloc(nr, sizeof(*sim->timelines));
	return sim->timelines;
}

void timelines_free(struct sim *sim)
{
	while (sim->all_blocked) {
		struct blocked *next = sim->all_blocked->all;

		free(sim->all_blocked);
		sim->all_blocked = next;
	}
	for (uint32_t i = 0; sim->timelines && i < sim->sc->nr_timelines; i++)
		free(sim->timelines[i].waiting.heap);
	free(sim->timelines);
}

static struct blocked *get(struct sim *sim, uint64_t tag)
{
	struct blocked *b = sim->free_blocked, *all;

	if (b) {
		sim->free_blocked = b->next;
		all = b->all;
	} else {
		b = malloc(sizeof(*b));
		if (!b) {
			sim_stop(sim, -ENOMEM, "out of memory");
			return NULL;
		}
		all = sim->all_blocked;
		sim->all_blocked = b;
	}
	*b = (struct blocked){ .all = all, .sim = sim, .tag = tag };
	return b;
}

/* It may have ended meanwhile: with another that failed. */
static void unblock(struct blocked *b, int error)
{
	struct sim *sim = b->sim;

	graph_unblock(sim->graph, b->tag, error);
	b->next = sim->free_blocked;
	sim->free_blocked = b;
}

static void unblock_fire(void *arg, struct event *e)
{
	unblock(owner_of(e, struct blocked, at), 0);
}

/* In a closed loop so long after it was submitted as it took; it is submitted now. */
static uint64_t unblock_ns(const struct sim *sim, const struct app *a, const struct sim_how *how)
{
	uint64_t submit_ns = a->conf->tasks[how - a->conf->hows].after_ns;

	if (!a->conf->closed || !how->unblock_ns)
		return a->conf->arrive_ns + how->unblock_ns;
	return sim->now + (how->unblock_ns > submit_ns ? how->unblock_ns - submit_ns : 0);
}

bool task_is_blocked(struct sim *sim, const struct app *a, const struct sim_how *how, int *error)
{
	const struct timeline *t = how->wait ? &sim->timelines[how->wait - 1] : NULL;

	*error = t ? t->error : 0;
	if (t)
		return t->error || t->value < how->wait_value;
	return unblock_ns(sim, a, how) > sim->now;
}

void task_block(struct sim *sim, const struct app *a, const struct sim_how *how, uint64_t tag)
{
	struct timeline *t = how->wait ? &sim->timelines[how->wait - 1] : NULL;
	struct blocked *b;

	if (t && t->error) {
		graph_unblock(sim->graph, tag, t->error);
		return;
	}
	b = get(sim, tag);
	if (!b)
		return;
	if (t) {
		/* A value is none that would be too late: see read_point(). */
		if (event_set(&t->waiting, &b->at, how->wait_value))
			sim_stop(sim, -ENOMEM, "out of memory");
		return;
	}
	b->at.fire = unblock_fire;
	sim_set(sim, &b->at, unblock_ns(sim, a, how));
}

void timeline_signal(struct sim *sim, const struct sim_how *how, int result)
{
	struct timeline *t = &sim->timelines[how->signal - 1];
	struct events *w = &t->waiting;

	if (t->value < how->signal_value)
		t->value = how->signal_value;
	if (result && !t->error)
		t->error = result;
	while (w->used && (t->error || w->heap[0]->time <= t->value))
		unblock(owner_of(event_next(w), struct blocked, at), t->error);
}
