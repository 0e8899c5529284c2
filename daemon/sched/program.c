// SPDX-License-Identifier: MIT
/*
 * program.c - one tenant's programs, and whose task is next among them
 *
 * A program is a context.  Each has a virtual time of its own, the device time that its
 * tasks were picked for, and the least goes first (start-time fair queueing, as among
 * tenants): so who has thousands of tasks ready does not keep out who comes with one.  A step
 * of priority is worth SCHED_AGE_NS of it.  What has to be done by some time, or was stopped
 * in the middle, goes by when it is due, as within a program, and so before what has to be
 * done by no time until the patience of that ends.
 */
#include <stdlib.h>

#include "daemon/sched/internal.h"

#define NOT_QUEUED	(~0u)
#define FIRST_BUCKETS	256u

/* ------------------------------------------------------------------ */
/* The heap of a program's tasks                                       */

static void task_place(struct sched_program *p, uint32_t i, struct graph_node *n)
{
	p->tasks[i] = n;
	n->sched.index = i;
}

static void task_up(struct sched_program *p, uint32_t i, struct graph_node *n)
{
	for (; i && task_before(n, p->tasks[(i - 1) / 2]); i = (i - 1) / 2)
		task_place(p, i, p->tasks[(i - 1) / 2]);
	task_place(p, i, n);
}

static void task_down(struct sched_program *p, uint32_t i, struct graph_node *n)
{
	uint32_t child;

	for (; (child = 2 * i + 1) < p->used; i = child) {
		if (child + 1 < p->used &&
		    task_before(p->tasks[child + 1], p->tasks[child]))
			child++;
		if (task_before(n, p->tasks[child]))
			break;
		task_place(p, i, p->tasks[child]);
	}
	task_place(p, i, n);
}

/* ------------------------------------------------------------------ */
/* A tenant's programs                                                 */

static uint32_t bucket_of(const struct sched *s, uint32_t context)
{
	return context * 0x9e3779b1u >> 7 & s->programs_mask;
}

/* Longer chains do no harm where there is no memory. */
static void grow(struct sched *s)
{
	uint32_t mask = s->programs_mask * 2 + 1, old = s->programs_mask;
	struct sched_program **buckets = calloc(mask + 1, sizeof(*buckets));

	if (!buckets)
		return;
	s->programs_mask = mask;
	for (uint32_t i = 0; i <= old; i++) {
		while (s->programs[i]) {
			struct sched_program *p = s->programs[i];
			uint32_t to = bucket_of(s, p->context);

			s->programs[i] = p->hash_next;
			p->hash_next = buckets[to];
			buckets[to] = p;
		}
	}
	free(s->programs);
	s->programs = buckets;
}

int programs_init(struct sched *s)
{
	s->programs_mask = FIRST_BUCKETS - 1;
	s->programs = calloc(FIRST_BUCKETS, sizeof(*s->programs));
	return s->programs ? 0 : -1;
}

static struct sched_program *find(const struct sched *s, const struct sched_flow *f,
				  uint32_t context)
{
	struct sched_program *p = s->programs[bucket_of(s, context)];

	while (p && (p->context != context || p->flow != f))
		p = p->hash_next;
	return p;
}

static struct sched_program *program_new(struct sched *s, struct sched_flow *f, uint32_t context)
{
	struct sched_program *p = calloc(1, sizeof(*p)), **bucket;

	if (!p)
		return NULL;
	if (s->nr_programs > s->programs_mask)
		grow(s);
	bucket = &s->programs[bucket_of(s, context)];
	p->flow = f;
	p->context = context;
	p->active = NOT_QUEUED;
	p->vtime = f->program_vtime;
	p->hash_next = *bucket;
	*bucket = p;
	p->flow_next = f->all_programs;
	f->all_programs = p;
	s->nr_programs++;
	return p;
}

struct sched_program *program_get(struct sched *s, struct sched_flow *f, uint32_t context)
{
	struct sched_program *p = f->last_program;

	if (__builtin_expect(p && p->context == context, 1))
		return p;
	p = find(s, f, context);
	if (!p)
		p = program_new(s, f, context);
	f->last_program = p;
	return p;
}

static void unlink_from(struct sched_program **at, struct sched_program *p, size_t next)
{
	while (*at != p)
		at = (struct sched_program **)((char *)*at + next);
	*at = *(struct sched_program **)((char *)p + next);
}

static void program_free(struct sched *s, struct sched_program *p)
{
	unlink_from(&s->programs[bucket_of(s, p->context)], p,
		    offsetof(struct sched_program, hash_next));
	unlink_from(&p->flow->all_programs, p, offsetof(struct sched_program, flow_next));
	if (p->flow->last_program == p)
		p->flow->last_program = NULL;
	s->nr_programs--;
	free(p->tasks);
	free(p);
}

void program_left(struct sched *s, struct sched_program *p)
{
	if (p->gone && !p->used && !p->running)
		program_free(s, p);
}

void programs_context_gone(struct sched *s, uint32_t context)
{
	struct sched_program *p = s->programs[bucket_of(s, context)], *next;

	for (; p; p = next) {
		next = p->hash_next;
		if (p->context != context)
			continue;
		p->gone = true;
		program_left(s, p);
	}
}

void programs_fini(struct sched *s, struct sched_flow *f)
{
	while (f->all_programs)
		program_free(s, f->all_programs);
	free(f->programs);
}

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

bool program_room(struct sched_flow *f, struct sched_program *p)
{
	uint32_t size = p->size ? p->size * 2 : 16;
	struct sched_program **programs;
	struct graph_node **tasks;

	if (p->used == p->size) {
		tasks = realloc(p->tasks, size * sizeof(*tasks));
		if (!tasks)
			return false;
		p->tasks = tasks;
		p->size = size;
	}
	if (f->nr_programs < f->programs_size)
		return true;
	size = f->programs_size ? f->programs_size * 2 : 4;
	programs = realloc(f->programs, size * sizeof(*programs));
	if (!programs)
		return false;
	f->programs = programs;
	f->programs_size = size;
	return true;
}

static void activate(struct sched_flow *f, struct sched_program *p)
{
	p->active = f->nr_programs;
	f->programs[f->nr_programs++] = p;
}

static void deactivate(struct sched_flow *f, struct sched_program *p)
{
	struct sched_program *last = f->programs[--f->nr_programs];

	f->programs[p->active] = last;
	last->active = p->active;
	p->active = NOT_QUEUED;
}

void program_put(struct sched_flow *f, struct graph_node *n)
{
	struct sched_program *p = n->sched.program;

	/* It had none, or was hidden. */
	if (p->active == NOT_QUEUED)
		activate(f, p);
	task_up(p, p->used++, n);
	f->used++;
}

void program_take(struct sched_flow *f, struct graph_node *n)
{
	struct sched_program *p = n->sched.program;
	uint32_t i = n->sched.index;
	struct graph_node *last = p->tasks[--p->used];

	f->used--;
	n->sched.index = NOT_QUEUED;
	if (last != n) {
		if (i && task_before(last, p->tasks[(i - 1) / 2]))
			task_up(p, i, last);
		else
			task_down(p, i, last);
	}
	/* It may be hidden: another one's task was about to go when this one was found to follow. */
	if (!p->used && p->active != NOT_QUEUED)
		deactivate(f, p);
}

void program_hide(struct sched_flow *f, struct sched_program *p)
{
	deactivate(f, p);
}

void program_comes(struct sched_flow *f, struct sched_program *p)
{
	/* Its number may have been another one's that is gone. */
	p->gone = false;
	if (!p->used && !p->running && p->vtime < f->program_vtime)
		p->vtime = f->program_vtime;
}

void program_picked(struct sched_flow *f, struct sched_program *p, uint64_t ns, uint64_t now_ns)
{
	if (f->program_vtime < p->vtime)
		f->program_vtime = p->vtime;
	p->vtime += ns;
	p->picked_ns = now_ns;
	p->running++;
}

/* ------------------------------------------------------------------ */
/* Whose turn                                                          */

/* Of those whose first task has no deadline. */
static uint64_t turn(const struct sched_program *p)
{
	return p->vtime + priority_step(p->tasks[0]->d.priority) * SCHED_AGE_NS;
}

static bool turn_before(const struct sched_program *a, const struct sched_program *b)
{
	uint64_t at = turn(a), bt = turn(b);

	if (at != bt)
		return at < bt;
	return task_before(a->tasks[0], b->tasks[0]);
}

/* When its first task, which has no deadline, should have begun: it has been first since then. */
static uint64_t patient_until(const struct sched_program *p)
{
	const struct graph_node *n = p->tasks[0];
	uint64_t since = n->sched.push_ns < p->picked_ns ? p->picked_ns : n->sched.push_ns;

	return sched_due(n->d.priority, 0, since);
}

/* It was stopped; few stand aside at once if it goes on before others begin. */
static bool has_begun(const struct graph_node *n)
{
	return n->sched.lane == SCHED_STARTED;
}

static struct sched_program *next_of_many(const struct sched_flow *f)
{
	struct sched_program *soon = NULL, *fair = NULL;

	for (uint32_t i = 0; i < f->nr_programs; i++) {
		struct sched_program *p = f->programs[i];

		if (p->tasks[0]->d.deadline_ns || has_begun(p->tasks[0])) {
			if (!soon || task_before(p->tasks[0], soon->tasks[0]))
				soon = p;
		} else if (!fair || turn_before(p, fair)) {
			fair = p;
		}
	}
	if (!soon || !fair)
		return soon ? soon : fair;
	return patient_until(fair) < soon->tasks[0]->sched.due ? fair : soon;
}

struct sched_program *program_next(const struct sched_flow *f)
{
	return __builtin_expect(f->nr_programs == 1, 1) ? f->programs[0] : next_of_many(f);
}
