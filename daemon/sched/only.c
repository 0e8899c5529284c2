// SPDX-License-Identifier: MIT
/*
 * only.c - tasks that none but idle devices can run, behind others that wait for busy ones
 *
 * A pick asks for a tenant's few first tasks.  Where these can only run on, or rather wait for,
 * a device that is busy, and are many, those behind them that could never run there would keep
 * an idle device waiting as long as that one has something to do.  They are in nobody's way.
 */
#include "daemon/sched/internal.h"
#include "daemon/sched/policy.h"

/* Tenants, programs of each, and waiting tasks of all that are looked at; kinds of these. */
#define FLOWS		16u
#define PROGRAMS	16u
#define LOOK		512u
#define KINDS		16u

/* After a search in vain: by what part more tasks, or how much later, for the next one. */
#define MORE		8
#define PAUSE_NS	200000ull
#define DOUBLED		4

struct kind {
	uint64_t kind;
	bool only;
};

/**
 * struct look - a search
 * @left:	tasks that may still be looked at
 */
struct look {
	struct kind kinds[KINDS];
	uint32_t nr_kinds;
	uint32_t left;
};

/* Some idle device can run it, and no other one. */
static bool idle_only(struct sched *s, const struct graph_node *n)
{
	bool only = false;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		if (!can_run(s, n, i))
			continue;
		if (!has_idle_lane(&s->devices[i]))
			return false;
		only = true;
	}
	return only;
}

/* What can run one can run all of its kind, nearly always; the policy asks for the task itself. */
static bool is_only(struct sched *s, struct look *l, struct graph_node *n)
{
	uint64_t kind = task_kind(n);

	for (uint32_t i = 0; i < l->nr_kinds; i++)
		if (l->kinds[i].kind == kind)
			return l->kinds[i].only;
	if (l->nr_kinds == KINDS)
		return idle_only(s, n);
	l->kinds[l->nr_kinds] = (struct kind){ .kind = kind, .only = idle_only(s, n) };
	return l->kinds[l->nr_kinds++].only;
}

/* Of @p's the first in turn, of those that are looked at; its device is set. */
static struct graph_node *first_of(struct sched *s, struct look *l, const struct sched_program *p,
				   uint64_t now_ns)
{
	struct graph_node *first = NULL;
	uint32_t nr = p->used < l->left ? p->used : l->left;

	l->left -= nr;
	for (uint32_t i = 0; i < nr; i++) {
		/* In a heap the first ones are the most urgent, and what comes late is at its end. */
		struct graph_node *n = p->tasks[i < nr / 2 ? i : i + (p->used - nr)];

		if (n->sched.lane != SCHED_STARTED && (!first || task_before(n, first)) &&
		    is_only(s, l, n))
			first = n;
	}
	if (!first)
		return NULL;
	first->device = s->policy->choose(s, first, now_ns);
	return first->device == SCHED_NO_DEVICE ? NULL : first;
}

/* At most so many of each, from the first in turn on. */
static struct graph_node *search(struct sched *s, struct look *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->nr_active && i < FLOWS; i++) {
		struct sched_flow *f = s->active[i];

		if (f->capped && cap_until(s, f) > s->now_ns)
			continue;
		for (uint32_t j = 0; j < f->nr_programs && j < PROGRAMS && l->left; j++) {
			struct graph_node *n = first_of(s, l, program_at(f, j), now_ns);

			if (!n)
				continue;
			program_in_turn(s, f, n, n->device);
			program_take(f, n);
			return n;
		}
	}
	return NULL;
}

struct graph_node *only_pick(struct sched *s, uint64_t now_ns)
{
	struct sched_only *o = &s->only;
	struct look l = { .left = LOOK };
	struct graph_node *n;

	/* With nothing at work nobody waits for anything else. */
	if (!s->running || (now_ns < o->again_ns && s->queued < o->queued))
		return NULL;
	n = search(s, &l, now_ns);
	if (n) {
		*o = (struct sched_only){ .queued = 0 };
	} else {
		o->queued = s->queued + s->queued / MORE + 1;
		o->again_ns = now_ns + (PAUSE_NS << o->times);
		o->times += o->times < DOUBLED;
	}
	return n;
}
