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
 *
 * Who comes begins where turns have come to, by the time that others had in their turn; what
 * one had out of turn, or before others of lower priority, he alone has had.  From the second
 * program on that has tasks beside another one, that is known of each device, and who is far
 * behind on one is lifted there (level.c): by its priority it may be further behind than others.
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

static uint32_t bucket_of(const struct sched *s, uint64_t context)
{
	return (context ^ context >> 32) * 0x9e3779b1u >> 7 & s->programs_mask;
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
				  uint64_t context)
{
	struct sched_program *p = s->programs[bucket_of(s, context)];

	while (p && (p->context != context || p->flow != f))
		p = p->hash_next;
	return p;
}

static struct sched_program *program_new(struct sched *s, struct sched_flow *f, uint64_t context)
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
	p->hash_next = *bucket;
	*bucket = p;
	p->flow_next = f->all_programs;
	p->flow_at = &f->all_programs;
	if (p->flow_next)
		p->flow_next->flow_at = &p->flow_next;
	f->all_programs = p;
	s->nr_programs++;
	return p;
}

struct sched_program *program_get(struct sched *s, struct sched_flow *f, uint64_t context)
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

static void program_free(struct sched *s, struct sched_program *p)
{
	struct sched_program **at = &s->programs[bucket_of(s, p->context)];

	while (*at != p)
		at = &(*at)->hash_next;
	*at = p->hash_next;
	*p->flow_at = p->flow_next;
	if (p->flow_next)
		p->flow_next->flow_at = p->flow_at;
	if (p->flow->last_program == p)
		p->flow->last_program = NULL;
	for (uint32_t i = 0; i < p->flow->levels.nr; i++)
		if (p->flow->levels.of[i].found == p)
			p->flow->levels.of[i].found = NULL;
	s->nr_programs--;
	free(p->account.lifts);
	free(p->tasks);
	free(p);
}

void program_left(struct sched *s, struct sched_program *p)
{
	if (p->gone && !p->used && !p->running)
		program_free(s, p);
}

void programs_context_gone(struct sched *s, uint64_t context)
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
	free(f->turns.v);
	free(f->dues.v);
	free(f->patience.v);
	level_free(&f->levels);
}

/* ------------------------------------------------------------------ */
/* The heaps of a tenant's programs: by turns, and by what is due      */

/* It was stopped; few stand aside at once if it goes on before others begin. */
static bool has_begun(const struct graph_node *n)
{
	return n->sched.lane == SCHED_STARTED;
}

/* It goes by when it is due, and not by turns. */
static bool goes_by_due(const struct graph_node *n)
{
	return n->d.deadline_ns || has_begun(n);
}

/* What its priority adds to a start tag. */
static uint64_t ahead_of(const struct graph_node *n)
{
	return priority_step(n->d.priority) * SCHED_AGE_NS;
}

/* Of @p, whose next task is @n. */
static uint64_t turn_with(const struct sched_program *p, const struct graph_node *n)
{
	return p->account.vtime + ahead_of(n);
}

static uint64_t turn(const struct sched_program *p)
{
	return turn_with(p, p->tasks[0]);
}

static bool turn_before(const struct sched_program *a, const struct sched_program *b)
{
	uint64_t at = turn(a), bt = turn(b);

	if (at != bt)
		return at < bt;
	return task_before(a->tasks[0], b->tasks[0]);
}

static bool program_before(const struct program_heap *h, const struct sched_program *a,
			   const struct sched_program *b)
{
	if (h->patience)
		return a->until < b->until;
	return a->by_due ? task_before(a->tasks[0], b->tasks[0]) : turn_before(a, b);
}

static struct program_heap *heap_of(struct sched_flow *f, const struct sched_program *p)
{
	return p->by_due ? &f->dues : &f->turns;
}

static void program_place(struct program_heap *h, uint32_t i, struct sched_program *p)
{
	h->v[i] = p;
	if (h->patience)
		p->patient = i;
	else
		p->active = i;
}

static void program_fix(struct program_heap *h, uint32_t i, struct sched_program *p)
{
	uint32_t child;

	for (; i && program_before(h, p, h->v[(i - 1) / 2]); i = (i - 1) / 2)
		program_place(h, i, h->v[(i - 1) / 2]);
	for (; (child = 2 * i + 1) < h->nr; i = child) {
		if (child + 1 < h->nr && program_before(h, h->v[child + 1], h->v[child]))
			child++;
		if (program_before(h, p, h->v[child]))
			break;
		program_place(h, i, h->v[child]);
	}
	program_place(h, i, p);
}

/* When its first task, which has no deadline, should have begun: it has been first since then. */
static uint64_t patient_until(const struct sched_program *p)
{
	const struct graph_node *n = p->tasks[0];
	uint64_t since = n->sched.push_ns < p->picked_ns ? p->picked_ns : n->sched.push_ns;

	return sched_due(n->d.priority, 0, since);
}

static void heap_take(struct program_heap *h, uint32_t i)
{
	struct sched_program *p = h->v[i], *last = h->v[--h->nr];

	if (last != p)
		program_fix(h, i, last);
}

static void activate(struct sched_flow *f, struct sched_program *p)
{
	struct program_heap *h;

	p->by_due = goes_by_due(p->tasks[0]);
	p->step = (uint8_t)priority_step(p->tasks[0]->d.priority);
	f->nr_programs++;
	h = heap_of(f, p);
	program_fix(h, h->nr++, p);
	if (p->by_due)
		return;
	f->waiting[p->step]++;
	f->steps |= 1ull << p->step;
	p->until = patient_until(p);
	program_fix(&f->patience, f->patience.nr++, p);
}

static void deactivate(struct sched_flow *f, struct sched_program *p)
{
	f->nr_programs--;
	heap_take(heap_of(f, p), p->active);
	p->active = NOT_QUEUED;
	if (p->by_due)
		return;
	heap_take(&f->patience, p->patient);
	if (!--f->waiting[p->step])
		f->steps &= ~(1ull << p->step);
}

/* @p's virtual time has. */
static void moved(struct sched_flow *f, struct sched_program *p)
{
	if (f->nr_programs > 1)
		program_fix(heap_of(f, p), p->active, p);
}

/* Its first task may have. */
static void changed(struct sched_flow *f, struct sched_program *p)
{
	const struct graph_node *n = p->tasks[0];

	if (p->by_due != goes_by_due(n) || p->step != priority_step(n->d.priority)) {
		deactivate(f, p);
		activate(f, p);
		return;
	}
	moved(f, p);
	/* That it is later is seen when it is asked for. */
	if (!p->by_due && patient_until(p) < p->until) {
		p->until = patient_until(p);
		program_fix(&f->patience, p->patient, p);
	}
}

struct sched_program *program_at(const struct sched_flow *f, uint32_t i)
{
	return i < f->turns.nr ? f->turns.v[i] : f->dues.v[i - f->turns.nr];
}

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

static bool heap_room(struct program_heap *h, uint32_t size)
{
	struct sched_program **v = realloc(h->v, size * sizeof(*v));

	h->v = v ? v : h->v;
	return v;
}

bool program_room(struct sched_flow *f, struct sched_program *p)
{
	uint32_t size = p->size ? p->size * 2 : 16;
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
	/* They go from one to the other. */
	if (!heap_room(&f->turns, size) || !heap_room(&f->dues, size) ||
	    !heap_room(&f->patience, size))
		return false;
	f->patience.patience = true;
	f->programs_size = size;
	return true;
}

void program_put(struct sched_flow *f, struct graph_node *n)
{
	struct sched_program *p = n->sched.program;

	task_up(p, p->used++, n);
	f->used++;
	/* It had none, or was hidden. */
	if (p->active == NOT_QUEUED)
		activate(f, p);
	else
		changed(f, p);
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
	if (p->active == NOT_QUEUED)
		return;
	if (p->used)
		changed(f, p);
	else
		deactivate(f, p);
}

void program_hide(struct sched_flow *f, struct sched_program *p)
{
	deactivate(f, p);
}

bool program_waits(const struct sched_program *p)
{
	return p->active != NOT_QUEUED && !p->by_due;
}

void program_show(struct sched_flow *f, struct sched_program *p)
{
	if (p->used && p->active == NOT_QUEUED)
		activate(f, p);
}

/* ------------------------------------------------------------------ */
/* Whose turn                                                          */

/* Of those that go by turns. */
static struct sched_program *first_patient(struct sched_flow *f)
{
	for (;;) {
		struct sched_program *p = f->patience.v[0];
		uint64_t until = patient_until(p);

		if (until <= p->until)
			return p;
		p->until = until;
		program_fix(&f->patience, 0, p);
	}
}

struct sched_program *program_next(struct sched_flow *f)
{
	struct sched_program *soon = f->dues.nr ? f->dues.v[0] : NULL;
	struct sched_program *fair = f->turns.nr ? f->turns.v[0] : NULL;

	if (!soon || !fair)
		return soon ? soon : fair;
	/* Each has its own patience, or who has had little would have that of all. */
	fair = first_patient(f);
	return fair->until < soon->tasks[0]->sched.due ? fair : soon;
}

uint64_t program_turn(const struct sched_program *p)
{
	return turn(p);
}

/* ------------------------------------------------------------------ */
/* Where turns have come to                                            */

static uint32_t lowest_step(uint64_t steps)
{
	return 63 - (uint32_t)__builtin_clzll(steps);
}

/*
 * By whose turns a priority step goes where it comes: those of who waits with the same one; else of
 * the next lower one, before whom it has its head start; else of the next higher one.
 */
static uint32_t step_for(const struct sched_flow *f, uint32_t step)
{
	if (!f->steps)
		return f->program_step;
	if (f->steps >> step)
		return step + (uint32_t)__builtin_ctzll(f->steps >> step);
	return lowest_step(f->steps);
}

/* The same for @p, which has its turn; it owes nobody a lower priority's. */
static uint32_t step_of(const struct sched_flow *f, const struct sched_program *p, uint32_t step)
{
	bool counted = p->active != NOT_QUEUED && !p->by_due && p->step == step;
	uint64_t lower = f->steps >> step;

	if (counted && f->waiting[step] == 1)
		lower &= ~1ull;
	if (lower)
		return step + (uint32_t)__builtin_ctzll(lower);
	return f->program_step > step ? f->program_step : step;
}

static struct sched_terms terms_of(struct sched *s, const struct sched_flow *f,
				   const struct sched_program *p, struct graph_node *n,
				   uint32_t device)
{
	uint32_t step = (uint32_t)priority_step(n->d.priority);

	return (struct sched_terms){
		.credit = sched_credit_ns(model_predict_ns(&s->model,
							   model_id(task_kind(n), device)),
					  p->took_ns),
		.head = step_of(f, p, step) * SCHED_AGE_NS,
		.waited = p->waited,
	};
}

uint64_t program_turn_at(struct sched *s, struct sched_flow *f, const struct sched_program *p,
			 uint32_t device)
{
	struct sched_terms terms;

	if (device >= f->levels.nr)
		return turn(p);
	terms = terms_of(s, f, p, p->tasks[0], device);
	return level_lifted(s, &f->levels, &p->account, device, &terms) + ahead_of(p->tasks[0]);
}

/* The least turn of those behind the first. */
static uint64_t next_turn(const struct sched_flow *f)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 1; i < f->turns.nr && i <= 2; i++)
		if (turn(f->turns.v[i]) < least)
			least = turn(f->turns.v[i]);
	return least;
}

bool program_is_later(struct sched *s, struct sched_flow *f, struct sched_program *p,
		      uint32_t device, uint64_t first)
{
	uint64_t own = turn(p), at;

	if (device >= f->levels.nr || (own >= f->levels.of[device].at && !f->levels.lifts))
		return false;
	at = program_turn_at(s, f, p, device);
	if (at <= own || (at <= first && at <= next_turn(f)))
		return false;
	p->later = at;
	return true;
}

void program_in_turn(struct sched *s, struct sched_flow *f, struct graph_node *n, uint32_t device)
{
	struct sched_program *p = n->sched.program;
	struct sched_terms terms;

	if (goes_by_due(n) || device >= f->levels.nr)
		return;
	f->program_step = (uint32_t)priority_step(n->d.priority);
	if (level_is_at(s, &f->levels, &p->account, device, ahead_of(n)))
		return;
	terms = terms_of(s, f, p, n, device);
	level_lift(s, &f->levels, &p->account, device, &terms, ahead_of(n));
	if (p->active != NOT_QUEUED)
		moved(f, p);
}

/*
 * Who goes out of turn may have had much more than its part.  That is its own debt to those that
 * wait: who comes must not wait for it as well, so turns have come no further than the first
 * of them.
 */
static void went(struct sched *s, struct sched_flow *f, const struct sched_program *p,
		 const struct graph_node *n)
{
	const struct sched_level *d = &f->levels.of[n->device];
	uint64_t at = turn_with(p, n) + lifted_by(&f->levels, &p->account, n->device);

	/* Those that run there may be behind as well, and wait again in a moment. */
	if (d->until && d->busy && d->only != &p->account)
		return;
	if (f->turns.nr && turn(f->turns.v[0]) < at)
		at = turn(f->turns.v[0]);
	level_reach(s, &f->levels, n->device, at);
}

void program_picked(struct sched *s, struct sched_flow *f, struct graph_node *n, uint64_t ns,
		    uint64_t now_ns)
{
	struct sched_program *p = n->sched.program;

	if (__builtin_expect(n->device < f->levels.nr, 0)) {
		went(s, f, p, n);
		level_begins(&f->levels.of[n->device], &p->account);
	} else if (!f->levels.nr) {
		f->program_turn = turn_with(p, n);
		f->program_step = (uint32_t)priority_step(n->d.priority);
	}
	p->picked_ns = now_ns;
	/* As maxima count: no earlier than the period that it is charged to. */
	n->sched.push_ns = s->now_ns;
	p->running++;
	program_charge(f, p, ns);
}

void program_charge(struct sched_flow *f, struct sched_program *p, uint64_t ns)
{
	p->account.vtime += ns;
	if (p->active != NOT_QUEUED)
		moved(f, p);
}

/* ------------------------------------------------------------------ */
/* Who comes                                                           */

/* What of @f runs on a device that has no level for its programs so far. */
static void level_begun(struct sched *s, const struct sched_flow *f, const struct sched_device *d,
			struct sched_level *level)
{
	for (uint32_t i = 0; i < d->lanes_size; i++) {
		const struct sched_lane *lane = &d->lane[i];

		for (uint32_t j = 0; j < lane->tasks && lane->flow == f; j++)
			level_begins(level, &find(s, f, lane->context)->account);
	}
}

/* @f's programs get levels; without memory for them they go by one for all devices. */
static __attribute__((cold, noinline)) void make_levels(struct sched *s, struct sched_flow *f)
{
	struct sched_levels *l = &f->levels;
	uint32_t had = l->nr;
	uint64_t head = f->program_step * SCHED_AGE_NS;

	if (!level_room(s, l))
		return;
	for (uint32_t i = had; i < l->nr; i++) {
		level_begun(s, f, &s->devices[i], &l->of[i]);
		if (!had && l->of[i].busy)
			level_reach(s, l, i, f->program_turn);
	}
	if (had)
		return;
	l->waited = UINT64_MAX;
	if (f->program_turn > l->vtime + head)
		l->vtime = f->program_turn - head;
}

/* The lowest turn where somebody is who takes his; 0: nobody does. */
static uint64_t lowest_turn(const struct sched *s, const struct sched_flow *f)
{
	uint64_t least, first, ahead;

	if (!f->levels.nr)
		return f->program_turn;
	least = level_lowest(s, &f->levels, UINT64_MAX);
	if (!f->turns.nr)
		return least == UINT64_MAX ? 0 : least;
	/* Who has its head start, or the credit, is before others, and not where no level is. */
	first = turn(f->turns.v[0]);
	ahead = (lowest_step(f->steps) - f->turns.v[0]->step) * SCHED_AGE_NS + SCHED_CREDIT_NS;
	return least == UINT64_MAX || first + ahead < least ? first : least;
}

/* The virtual time of who comes beside others with a task of that priority step. */
static uint64_t begins_at(struct sched *s, struct sched_flow *f, uint32_t step)
{
	uint64_t turn, head;

	if (__builtin_expect(f->levels.nr < s->nr_devices, 0))
		make_levels(s, f);
	turn = lowest_turn(s, f);
	head = step_for(f, step) * SCHED_AGE_NS;
	return turn > f->levels.vtime + head ? turn - head : f->levels.vtime;
}

void program_comes(struct sched *s, struct sched_flow *f, struct sched_program *p,
		   const struct graph_node *n)
{
	uint64_t at;

	/* Its number may have been another one's that is gone. */
	p->gone = false;
	if (p->used || p->running)
		return;
	p->waited = false;
	if (f->used || f->running)
		at = begins_at(s, f, (uint32_t)priority_step(n->d.priority));
	else
		at = f->levels.vtime;
	if (p->account.vtime >= at)
		return;
	if (__builtin_expect(f->levels.lifts, 0))
		level_moved(&f->levels, &p->account, at - p->account.vtime);
	p->account.vtime = at;
}
