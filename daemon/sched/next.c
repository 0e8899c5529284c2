// SPDX-License-Identifier: MIT
/*
 * next.c - who would be given a busy device next
 *
 * Tenants by their turns, and after each task as if it had been picked; a tenant's programs one after
 * the other.  A pick will see what has changed by then: this is for what may be done in vain.
 */
#include "daemon/sched/internal.h"

/* Tenants, programs of each, and tasks that the policy is asked for. */
#define FLOWS		15u
#define PROGRAMS	8u
#define LOOK		16u

/* The first SCHED_NEXT of a heap are among so many. */
#define TOP		15u

/**
 * struct line - a tenant's first tasks
 * @at:		its turn, with those that were taken
 */
struct line {
	struct sched_flow *flow;
	uint64_t at;
	uint32_t nr, taken;
	struct graph_node *tasks[SCHED_NEXT];
};

/* The first of @p's behind @last; NULL: that is the first of all. */
static struct graph_node *behind(const struct sched_program *p, const struct graph_node *last)
{
	struct graph_node *first = NULL;

	for (uint32_t i = 0; i < p->used && i < TOP; i++)
		if ((!last || task_before(last, p->tasks[i])) &&
		    (!first || task_before(p->tasks[i], first)))
			first = p->tasks[i];
	return first;
}

static void gather(struct line *l, struct sched_flow *f)
{
	struct sched_program *next = program_next(f), *of[PROGRAMS] = { next };
	struct graph_node *last[PROGRAMS] = { NULL };
	uint32_t nr = 1;
	bool more = true;

	for (uint32_t i = 0; i < f->nr_programs && nr < PROGRAMS; i++)
		if (program_at(f, i) != next)
			of[nr++] = program_at(f, i);
	while (more) {
		more = false;
		for (uint32_t i = 0; i < nr && l->nr < SCHED_NEXT; i++) {
			struct graph_node *n = behind(of[i], last[i]);

			if (!n)
				continue;
			last[i] = n;
			l->tasks[l->nr++] = n;
			more = true;
		}
	}
}

static struct line *first_line(struct line *lines, uint32_t nr)
{
	struct line *first = NULL;

	for (struct line *l = lines; l < lines + nr; l++)
		if (l->taken < l->nr && (!first || l->at < first->at))
			first = l;
	return first;
}

static uint64_t charged_ns(struct sched *s, struct graph_node *n, uint32_t device)
{
	uint64_t ns = model_predict_ns(&s->model, model_id(task_kind(n), device));

	return ns ? ns : SCHED_GUESS_NS;
}

uint32_t sched_next(struct sched *s, uint32_t device, struct graph_node **nodes, uint32_t max,
		    uint64_t now_ns)
{
	uint32_t nr = 0, lines = 0, look = LOOK;
	struct line line[FLOWS], *l;

	if (device >= s->nr_devices || !s->queued || has_idle_lane(&s->devices[device]) ||
	    !s->devices[device].lanes)
		return 0;
	for (uint32_t i = 0; i < s->nr_active && i < FLOWS; i++) {
		struct sched_flow *f = s->active[i];

		if (f->capped && cap_until(s, f) > now_ns)
			continue;
		line[lines] = (struct line){
			.flow = f, .at = level_own(&s->levels, &f->account, device),
		};
		gather(&line[lines++], f);
	}
	while (nr < max && look && (l = first_line(line, lines))) {
		struct graph_node *n = l->tasks[l->taken++];

		if (n->sched.lane == SCHED_STARTED || !can_run(s, n, device))
			continue;
		look--;
		if (!sched_would_have(s, n, device, now_ns))
			continue;
		l->at += virtual_ns(s, l->flow, charged_ns(s, n, device));
		nodes[nr++] = n;
	}
	return nr;
}
