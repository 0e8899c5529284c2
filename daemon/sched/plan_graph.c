// SPDX-License-Identifier: MIT
/* plan_graph.c - a program's graph and what can run it are taken in, as list schedules need them */
#include "daemon/sched/plan_impl.h"

#include <stdlib.h>
#include <sys/random.h>

/* Tasks of a program: more take too long. */
#define TASKS_MOST	2048u
/* Of what tasks use, at each place. */
#define CELLS		(1u << 16)
/* Tasks, lines between them, what they use and places where that may be that one call looks at. */
#define LOOKS		2048u
/* Some kind's best device is so many times as quick as its worst. */
#define UNLIKE		2
/* What is in a class of sizes differs by a factor of two; from its mean, at most. */
#define LEAST_TIMES	0.5
#define MOST_TIMES	2.0

/* In a table by what it is of; its number is one more, 0: free. */
struct item_slot {
	uint64_t buffer, offset, length;
	uint32_t number;
};

/* From one task to another, by their numbers as they were found, the newest first. */
struct line {
	uint32_t from, to;
};

/* ------------------------------------------------------------------ */
/* The graph                                                           */

/* Room for one more of what *@at has @nr of; false: no memory. */
static bool room(void *at, uint32_t nr, uint32_t *size, size_t each)
{
	void **of = at, *more;
	uint32_t want = *size ? 2 * *size : 256;

	if (nr < *size)
		return true;
	more = realloc(*of, want * each);
	if (!more)
		return false;
	*of = more;
	*size = want;
	return true;
}

/**
 * struct look - one call's
 * @left:	to be looked at
 * @from:	the task at hand, or LIST_NONE: it has a device, and ends at @until_ns
 * @vain:	there can't be a plan; @large: for there are too many tasks
 */
struct look {
	struct sched *s;
	struct plan *p;
	uint64_t now_ns;
	uint32_t left, from;
	double until_ns;
	bool vain, large;
};

static void note_line(void *to, const struct graph_node *n, uint32_t waits)
{
	struct look *l = to;
	struct graph_seen *g = &l->p->seen;
	struct list_task *t;

	l->left -= l->left > 0;
	/* What is not known came after it was begun. */
	if (n->sched.outlook != l->p->number)
		return;
	t = &g->tasks[n->sched.seat];
	if (l->from == LIST_NONE) {
		t->from_ns = t->from_ns > l->until_ns ? t->from_ns : l->until_ns;
		return;
	}
	if (!room(&g->lines, g->nr_lines, &g->lines_size, sizeof(*g->lines))) {
		l->vain = true;
		return;
	}
	g->lines[g->nr_lines++] = (struct line){ .from = l->from, .to = n->sched.seat };
	t->waits++;
}

/* Keyed: programs choose the ranges. */
static uint32_t item_hash(const struct graph_seen *g, uint64_t buffer, uint64_t offset,
			  uint64_t length)
{
	unsigned __int128 m = (unsigned __int128)((buffer * 0x9e3779b97f4a7c15ull + offset) ^ g->key[0]) *
			      ((length * 0x9e3779b97f4a7c15ull) ^ g->key[1]);

	return (uint32_t)((uint64_t)m ^ (uint64_t)(m >> 64));
}

static bool grow_table(struct graph_seen *g)
{
	uint32_t size = g->table_size ? 2 * g->table_size : 1024;
	struct item_slot *table = calloc(size, sizeof(*table));

	if (!table)
		return false;
	if (!g->table && getrandom(g->key, sizeof(g->key), GRND_NONBLOCK) < 0)
		g->key[0] = g->key[1] = (uintptr_t)table;
	for (uint32_t i = 0; i < g->table_size; i++) {
		const struct item_slot *from = &g->table[i];
		uint32_t k;

		if (!from->number)
			continue;
		k = item_hash(g, from->buffer, from->offset, from->length);
		while (table[k & (size - 1)].number)
			k++;
		table[k & (size - 1)] = *from;
	}
	free(g->table);
	g->table = table;
	g->table_size = size;
	return true;
}

static uint64_t places_of(struct look *l, const struct graph_node *n, uint32_t range)
{
	const struct sched *s = l->s;
	uint32_t asked = s->ops.holds ? l->p->program.nr_places : 0;
	uint64_t places = 0;

	l->left -= l->left < asked ? l->left : asked;
	if (!s->ops.holds || s->ops.holds(s->arg, n, range, SCHED_NO_DEVICE))
		places = 1;
	for (uint32_t i = 0; s->ops.holds && i < s->nr_devices; i++)
		if (l->p->place_of[i] && s->ops.holds(s->arg, n, range, i))
			places |= 1ull << l->p->place_of[i];
	/* What is in pieces here and there comes by the host. */
	return places ? places : 1;
}

static struct list_item *item_of(struct look *l, const struct graph_node *n, uint32_t range)
{
	const struct arax_dispatch_range *r = &n->ranges[range];
	struct graph_seen *g = &l->p->seen;
	uint64_t length = r->length * r->count;
	struct item_slot *at;
	uint32_t k;

	if (2 * (g->nr_items + 1) > g->table_size && !grow_table(g))
		return NULL;
	k = item_hash(g, r->buffer, r->offset, length);
	for (; at = &g->table[k & (g->table_size - 1)], at->number; k++)
		if (at->buffer == r->buffer && at->offset == r->offset && at->length == length)
			return &g->items[at->number - 1];
	if (!room(&g->items, g->nr_items, &g->items_size, sizeof(*g->items)))
		return NULL;
	g->items[g->nr_items++] = (struct list_item){
		.bytes = (double)length, .places = places_of(l, n, range),
	};
	*at = (struct item_slot){
		.buffer = r->buffer, .offset = r->offset, .length = length, .number = g->nr_items,
	};
	return &g->items[g->nr_items - 1];
}

static uint32_t access_of(const struct graph_node *n, uint32_t range)
{
	return (uint32_t)(n->d.access >> 2 * range & ARAX_INOUT);
}

static bool note_uses(struct look *l, const struct graph_node *n)
{
	struct graph_seen *g = &l->p->seen;

	for (uint32_t i = 0; i < n->d.nr_ranges; i++) {
		const struct list_item *item = item_of(l, n, i);

		if (!item || !room(&g->uses, g->nr_uses, &g->uses_size, sizeof(*g->uses)))
			return false;
		g->uses[g->nr_uses++] = (struct list_use){
			.item = (uint32_t)(item - g->items),
			.reads = access_of(n, i) & ARAX_IN, .writes = access_of(n, i) & ARAX_OUT,
		};
		l->left -= l->left > 0;
	}
	return true;
}

static uint32_t kind_number(struct look *l, struct graph_node *n)
{
	struct graph_seen *g = &l->p->seen;
	uint64_t kind = task_kind(n);

	for (uint32_t i = 0; i < g->nr_kinds; i++)
		if (g->kinds[i] == kind)
			return i;
	if (g->nr_kinds == LIST_KINDS)
		return LIST_NONE;
	g->kinds[g->nr_kinds] = kind;
	for (uint32_t m = 0; m < l->p->program.nr_machines; m++)
		g->can[g->nr_kinds][m] = can_run(l->s, n, l->p->machines[m].device);
	return g->nr_kinds++;
}

/* Who waits for it can't begin before, and finds its results there. */
static bool look_at_running(struct look *l, const struct graph_node *n)
{
	const struct sched_lane *lane = &l->s->devices[n->device].lane[n->sched.lane];

	l->from = LIST_NONE;
	l->until_ns = 0;
	if (!n->sched.left && lane->until > l->now_ns)
		l->until_ns = (double)(lane->until - l->now_ns);
	for (uint32_t i = 0; i < n->d.nr_ranges; i++) {
		struct list_item *item = item_of(l, n, i);

		l->vain |= !item;
		if (!item || !(access_of(n, i) & ARAX_OUT))
			continue;
		item->places = 1ull << l->p->place_of[n->device];
		item->since_ns = l->until_ns;
	}
	l->s->ops.followers(l->s->arg, n, note_line, l);
	return l->left && !l->vain;
}

static bool look_at(void *to, struct graph_node *n)
{
	struct look *l = to;
	struct graph_seen *g = &l->p->seen;
	struct list_task t = {
		.kind = LIST_NONE, .uses = g->nr_uses, .priority = n->d.priority,
	};

	l->left -= l->left > 0;
	if (is_placed(n))
		return look_at_running(l, n);
	l->from = g->nr_tasks;
	if (n->d.opcode != ARAX_OP_MARKER) {
		t.kind = kind_number(l, n);
		/* Until note_sizes(). */
		t.times = (double)sched_work(n);
		/* Who has to be there in time can't be told to wait for the others' sake. */
		l->vain |= t.kind == LIST_NONE || n->d.deadline_ns;
	}
	l->large |= g->nr_tasks == TASKS_MOST;
	if (l->vain || l->large || !note_uses(l, n) ||
	    !room(&g->tasks, g->nr_tasks, &g->tasks_size, sizeof(*g->tasks))) {
		l->vain = true;
		return false;
	}
	if (!g->nr_tasks)
		g->newest_seq = n->seq;
	g->tasks[g->nr_tasks] = t;
	n->sched.outlook = l->p->number;
	n->sched.seat = g->nr_tasks++;
	l->s->ops.followers(l->s->arg, n, note_line, l);
	return l->left && !l->vain;
}

/* ------------------------------------------------------------------ */
/* The machine                                                         */

/* Kernels of it run there side by side, each as if alone. */
static uint32_t slots_of(struct sched *s, const struct graph_node *n, uint32_t device)
{
	uint32_t part = s->ops.part ? s->ops.part(s->arg, n, device) : 0;
	uint32_t slots = part ? SCHED_WHOLE / part : s->devices[device].lanes;

	if (!slots)
		slots = 1;
	return slots < s->devices[device].lanes ? slots : s->devices[device].lanes;
}

static void note_place(struct sched *s, struct plan *p, uint32_t device)
{
	struct list_place *to = &p->places[p->program.nr_places];
	struct sched_link l;

	p->place_of[device] = 0;
	if (!s->ops.link(s->arg, device, &l))
		return;
	*to = (struct list_place){
		.in_latency_ns = l.in_latency_ns, .in_byte_ns = l.in_byte_ns,
		.out_latency_ns = l.out_latency_ns, .out_byte_ns = l.out_byte_ns, .peers = l.peers,
	};
	p->place_of[device] = p->program.nr_places++;
}

bool plan_note_machines(struct sched *s, struct plan *p, const struct graph_node *n)
{
	struct list_program *to = &p->program;

	p->machines = calloc(MACHINES, sizeof(*p->machines));
	p->places = calloc(s->nr_devices + 1ul, sizeof(*p->places));
	p->place_of = calloc(s->nr_devices + 1ul, sizeof(*p->place_of));
	if (!p->machines || !p->places || !p->place_of)
		return false;
	to->nr_places = 1;
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		uint32_t slots = slots_of(s, n, i);

		if (!s->devices[i].lanes)
			continue;
		if (to->nr_places == LIST_PLACES)
			return false;
		note_place(s, p, i);
		for (uint32_t k = 0; k < slots; k++) {
			if (to->nr_machines == MACHINES)
				return false;
			p->machines[to->nr_machines++] = (struct list_machine){
				.device = i, .place = p->place_of[i],
			};
		}
	}
	to->machines = p->machines;
	to->places = p->places;
	return true;
}

/*
 * False: all are about as quick; or of some kind it is not known how long it takes on a device that
 * can run it, which has to be tried first.
 */
static bool note_times(struct sched *s, struct plan *p)
{
	const struct graph_seen *g = &p->seen;
	uint32_t nr = p->program.nr_machines;
	bool unlike = false;

	p->ns = calloc((size_t)g->nr_kinds * nr + 1, sizeof(*p->ns));
	if (!p->ns)
		return false;
	for (uint32_t k = 0; k < g->nr_kinds; k++) {
		double best = 0, worst = 0;

		for (uint32_t m = 0; m < nr; m++) {
			uint64_t ns = model_predict_ns(&s->model, model_id(g->kinds[k],
									   p->machines[m].device));

			if (!g->can[k][m])
				continue;
			if (!ns)
				return false;
			p->ns[k * nr + m] = (double)ns;
			if (best <= 0 || (double)ns < best)
				best = (double)ns;
			worst = (double)ns > worst ? (double)ns : worst;
		}
		if (best <= 0)
			return false;
		unlike |= worst >= UNLIKE * best;
	}
	p->program.nr_kinds = g->nr_kinds;
	p->program.ns = p->ns;
	return unlike;
}

/*
 * A class of sizes is wide: in a program that is planned as a whole what is longest in it has to
 * begin before what is shortest.
 */
static void note_sizes(struct sched *s, struct plan *p)
{
	struct graph_seen *g = &p->seen;
	struct regress_fit fits[LIST_KINDS] = { 0 };
	double ns[LIST_KINDS] = { 0 };
	uint32_t nr = p->program.nr_machines;

	/* Of the quickest machine that can run it. */
	for (uint32_t k = 0; k < g->nr_kinds; k++) {
		uint32_t of = 0;

		for (uint32_t m = 0; m < nr; m++) {
			double at = p->ns[k * nr + m];

			if (at <= 0 || (ns[k] > 0 && at >= ns[k]))
				continue;
			ns[k] = at;
			of = p->machines[m].device;
		}
		fits[k] = model_fit(&s->model, model_id(g->kinds[k], of));
	}
	for (uint32_t i = 0; i < g->nr_tasks; i++) {
		struct list_task *t = &g->tasks[i];
		const struct regress_fit *f = &fits[t->kind == LIST_NONE ? 0 : t->kind];
		double work = t->times;

		t->times = 1;
		if (t->kind == LIST_NONE || regress_confidence(f, work) < SCHED_CONFIDENT)
			continue;
		t->times = regress_ns(f, work) / ns[t->kind];
		t->times = t->times < LEAST_TIMES ? LEAST_TIMES :
			   t->times > MOST_TIMES ? MOST_TIMES : t->times;
	}
}

/* ------------------------------------------------------------------ */
/* What is tried                                                       */

/* As list.h has it: the oldest one first. */
static bool turn_round(struct plan *p)
{
	struct graph_seen *g = &p->seen;
	struct list_program *to = &p->program;
	struct list_task *tasks = calloc(g->nr_tasks + 1ul, sizeof(*tasks));
	struct list_use *uses = calloc(g->nr_uses + 1ul, sizeof(*uses));
	uint32_t nr = g->nr_tasks, use = 0, next = 0;

	p->nexts = calloc(g->nr_lines + 1ul, sizeof(*p->nexts));
	if (!tasks || !uses || !p->nexts) {
		free(tasks);
		free(uses);
		return false;
	}
	/* Lines were noted by where they come from, too, the newest first. */
	for (uint32_t i = 0, line = g->nr_lines; i < nr; i++) {
		const struct list_task *from = &g->tasks[nr - 1 - i];
		uint32_t end = i ? from[1].uses : g->nr_uses;

		tasks[i] = *from;
		tasks[i].uses = use;
		tasks[i].nexts = next;
		for (uint32_t u = from->uses; u < end; u++)
			uses[use++] = g->uses[u];
		for (; line && g->lines[line - 1].from == nr - 1 - i; line--)
			p->nexts[next++] = nr - 1 - g->lines[line - 1].to;
	}
	tasks[nr] = (struct list_task){ .uses = use, .nexts = next };
	free(g->tasks);
	free(g->uses);
	g->tasks = tasks;
	g->uses = uses;
	g->tasks_size = g->nr_tasks + 1;
	g->uses_size = g->nr_uses + 1;
	to->nr_items = g->nr_items;
	to->nr_tasks = nr;
	to->items = g->items;
	to->uses = uses;
	to->nexts = p->nexts;
	to->tasks = tasks;
	return true;
}

/* Until when machines have something to do: each a lane's, if there is one for each. */
static void find_free(const struct sched *s, struct plan *p, uint64_t now_ns)
{
	uint32_t nr = p->program.nr_machines, slots, first;

	for (first = 0; first < nr; first += slots) {
		const struct sched_device *d = &s->devices[p->machines[first].device];

		for (slots = 1; first + slots < nr &&
				p->machines[first + slots].device == p->machines[first].device;)
			slots++;
		for (uint32_t k = 0; k < slots; k++) {
			uint64_t until = d->lane[k].until;

			p->machines[first + k].free_ns =
				slots < d->lanes ? (double)busy_for_ns(d, now_ns) :
				until > now_ns ? (double)(until - now_ns) : 0;
		}
	}
}

/*
 * Whether its priorities say no more than how far the end is: no task is before one that is more
 * urgent, and whatever is less urgent than the most urgent ones is, somewhere, behind such a one.  A
 * program whose urgent tasks are on their own means something else by it.
 */
static bool is_by_ways(const struct graph_seen *g)
{
	bool there[SCHED_STEPS] = { false }, behind[SCHED_STEPS] = { false };
	bool most = true;

	for (uint32_t i = 0; i < g->nr_tasks; i++)
		there[priority_step(g->tasks[i].priority)] = true;
	for (uint32_t i = 0; i < g->nr_lines; i++) {
		int32_t from = g->tasks[g->lines[i].from].priority;
		int32_t to = g->tasks[g->lines[i].to].priority;

		if (to < from)
			return false;
		if (to > from)
			behind[priority_step(to)] = true;
	}
	for (uint32_t i = 0; i < SCHED_STEPS; i++) {
		if (!there[i])
			continue;
		if (!most && !behind[i])
			return false;
		most = false;
	}
	return true;
}

static bool begin_trials(struct sched *s, struct plan *p, uint64_t now_ns)
{
	const struct graph_seen *g = &p->seen;

	find_free(s, p, now_ns);

	/* Ways are known better than in steps. */
	for (uint32_t i = 0, by_ways = is_by_ways(g); by_ways && i < g->nr_tasks; i++)
		g->tasks[i].priority = 0;
	if (g->nr_tasks < TASKS_LEAST || !note_times(s, p) ||
	    (uint64_t)g->nr_items * p->program.nr_places > CELLS)
		return false;
	note_sizes(s, p);
	if (!turn_round(p))
		return false;
	p->list = list_make(&p->program);
	p->seats = calloc(g->nr_tasks, sizeof(*p->seats));
	if (!p->list || !p->seats)
		return false;
	p->trials = (struct trials){ .most = 1, .best_ns = -1 };
	p->stage = TRYING;
	return true;
}

bool plan_look_on(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns)
{
	struct look l = { .s = s, .p = p, .now_ns = now_ns, .left = LOOKS };
	bool all = s->ops.look_back(s->arg, n, p->fresh, look_at, &l);

	p->fresh = false;
	if (l.large)
		p->large_seq = p->seen.newest_seq;
	if (l.vain)
		return false;
	return !all || begin_trials(s, p, now_ns);
}
