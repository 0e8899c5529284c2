// SPDX-License-Identifier: MIT
/* plan.c - a plan begins, goes on, is followed, is dropped */
#include "daemon/sched/plan_impl.h"

#include <stdlib.h>

/* The next task's best device is so many times as quick as its worst. */
#define UNLIKE_NEXT	1.25
/* What a task takes at least: to take one in is about 1 us, and four devices may share them. */
#define LEAST_NS	200000u
/* After one that came to nothing, at first and at most. */
#define PAUSE_NS	(10ull << 20)
#define PAUSE_MOST_NS	(2000ull << 20)
/* By what part of the program's time the plan may be late. */
#define LATE		4u

struct plan *plan_make(void)
{
	return calloc(1, sizeof(struct plan));
}

static void clear(struct plan *p)
{
	struct graph_seen *g = &p->seen;

	list_free(p->list);
	free(g->tasks);
	free(g->uses);
	free(g->lines);
	free(g->items);
	free(g->table);
	free(p->machines);
	free(p->places);
	free(p->ns);
	free(p->place_of);
	free(p->nexts);
	free(p->seats);
	free(p->order);
	free(p->queues);
	*p = (struct plan){
		.again_ns = p->again_ns, .pause_ns = p->pause_ns, .large_seq = p->large_seq,
	};
}

void plan_free(struct plan *p)
{
	if (!p)
		return;
	clear(p);
	free(p);
}

bool plan_is_on(const struct plan *p)
{
	return p->stage != OFF;
}

/* It can't be made, or not be followed: so will the next one, most likely. */
static void give_up(struct plan *p, uint64_t now_ns)
{
	clear(p);
	p->pause_ns = p->pause_ns ? 2 * p->pause_ns : PAUSE_NS;
	if (p->pause_ns > PAUSE_MOST_NS)
		p->pause_ns = PAUSE_MOST_NS;
	p->again_ns = now_ns + p->pause_ns;
}

void plan_drop(struct plan *p, uint64_t now_ns)
{
	clear(p);
	p->again_ns = now_ns + PAUSE_NS;
}

/* Nobody else has anything here. */
static bool is_alone(const struct sched *s, const struct graph_node *n)
{
	const struct sched_program *of = n->sched.program;

	return of && s->queued + s->running == of->used + of->running;
}

static bool is_tight(struct sched *s)
{
	return s->ops.tight && s->ops.tight(s->arg, SCHED_NO_DEVICE);
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

static bool is_unlike(struct sched *s, const struct graph_node *n, uint64_t run_ns)
{
	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (s->devices[i].lanes &&
		    model_predict_ns(&s->model, model_id(task_kind((struct graph_node *)n), i)) >=
		    UNLIKE_NEXT * (double)run_ns)
			return true;
	return false;
}

bool plan_is_worth(struct sched *s, const struct graph_node *n, uint64_t run_ns)
{
	return run_ns >= LEAST_NS && s->ops.link && s->ops.look_back &&
	       s->ops.followers && s->ops.live && is_alone(s, n) &&
	       s->ops.live(s->arg, n) >= TASKS_LEAST && is_unlike(s, n, run_ns) &&
	       !is_tight(s);
}

bool plan_begin(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns)
{
	if (now_ns < p->again_ns || n->seq <= p->large_seq)
		return false;
	clear(p);
	p->stage = LOOKING;
	p->fresh = true;
	p->number = outlook_number(s);
	p->context = task_context(n);
	p->lanes = all_lanes(s);
	s->thinking = true;
	if (plan_note_machines(s, p, n))
		return true;
	give_up(p, now_ns);
	return false;
}

static struct seat *seat_of(const struct plan *p, const struct graph_node *n)
{
	if (!p->number || n->sched.outlook != p->number)
		return NULL;
	return &p->seats[p->program.nr_tasks - 1 - n->sched.seat];
}

bool plan_has(const struct plan *p, const struct graph_node *n)
{
	const struct seat *seat;

	if (p->stage != FOLLOWED)
		return p->stage != OFF;
	seat = seat_of(p, n);
	return seat && seat->device != LIST_NONE;
}

/* It has submitted as much again since, so that all should be planned anew. */
static bool is_old(struct sched *s, const struct plan *p, const struct graph_node *n)
{
	uint64_t known = p->left + p->nowhere + n->sched.program->running;

	return s->ops.live(s->arg, n) > known + (known > TASKS_LEAST ? known : TASKS_LEAST);
}

bool plan_go_on(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns)
{
	bool on = true;

	if (!is_alone(s, n) || task_context(n) != p->context || all_lanes(s) != p->lanes ||
	    is_tight(s)) {
		plan_drop(p, now_ns);
		return false;
	}
	if (p->stage == LOOKING)
		on = plan_look_on(s, p, n, now_ns);
	else if (p->stage == TRYING)
		on = plan_try_on(s, p, now_ns);
	if (!on) {
		give_up(p, now_ns);
		return false;
	}
	s->thinking = p->stage != FOLLOWED;
	if (p->stage != FOLLOWED || !is_old(s, p, n))
		return true;
	clear(p);
	return false;
}

/* Its turn there has come, and it leaves a lane to those before it. */
static bool may_go(const struct sched *s, const struct plan *p, const struct seat *seat)
{
	const struct sched_device *d = &s->devices[seat->device];
	uint32_t before = seat->place - p->queues[seat->device].first;

	return before ? before < d->lanes && d->busy + 1 < d->lanes : has_idle_lane(d);
}

/* When its turn came compared to the plan, in which everything has to be in time. */
static bool is_late(const struct plan *p, const struct seat *seat, uint64_t now_ns)
{
	return (double)(now_ns - p->begun_ns) > seat->begin_ns + p->length_ns / LATE;
}

struct graph_node *plan_next(struct sched *s, struct plan *p, struct graph_node *const *tasks,
			     uint32_t nr, uint64_t now_ns, uint32_t *device, uint64_t *run_ns)
{
	struct graph_node *first = NULL;
	const struct seat *best = NULL;
	bool late = false;

	if (p->stage != FOLLOWED)
		return NULL;
	for (uint32_t i = 0; i < nr; i++) {
		const struct seat *seat = seat_of(p, tasks[i]);

		if (!seat || seat->device == LIST_NONE ||
		    tasks[i]->sched.lane == SCHED_STARTED)
			continue;
		/* Also one that would be behind others which don't come. */
		late |= is_late(p, seat, now_ns);
		if ((best && seat->turn > best->turn) || !may_go(s, p, seat))
			continue;
		best = seat;
		first = tasks[i];
	}
	/* Without anything that runs none would have its turn ever. */
	if (late || (best ? !can_run(s, first, best->device) : !s->running)) {
		give_up(p, now_ns);
		s->thinking = true;
		return NULL;
	}
	if (!best)
		return NULL;
	*device = best->device;
	*run_ns = model_predict_ns(&s->model, model_id(task_kind(first), *device));
	/* It is about to leave its program's heap; at the device it has its turn by this. */
	first->sched.due = sched_due(0, 0, p->begun_ns) + best->turn;
	return first;
}

bool plan_left(struct plan *p, const struct graph_node *n)
{
	struct seat *seat;
	struct queue *q;

	if (p->stage == OFF || n->sched.outlook != p->number)
		return false;
	if (p->stage != FOLLOWED) {
		/* What is known of it is in its place in the graph. */
		p->lanes = 0;
		return false;
	}
	seat = seat_of(p, n);
	if (seat->gone || seat->device == LIST_NONE)
		return false;
	seat->gone = true;
	q = &p->queues[seat->device];
	while (q->first < q->nr && p->seats[p->order[q->begin + q->first]].gone)
		q->first++;
	if (--p->left)
		return false;
	/* It was good for something. */
	clear(p);
	p->pause_ns = 0;
	return true;
}
