// SPDX-License-Identifier: MIT
/* plan.c - a program's graph is taken in, list schedules of it are tried, the best one is followed */
#include "daemon/sched/plan.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/sched/list.h"

/* Tasks of a program: fewer are not worth it, more take too long. */
#define TASKS_LEAST	32u
#define TASKS_MOST	2048u
#define MACHINES	256u
/* Of what tasks use, at each place. */
#define CELLS		(1u << 16)
/*
 * What one call does: tasks, lines between them, what they use and places where that may be that it
 * looks at; tasks, times memories, that it places.
 */
#define LOOKS		2048u
#define PLACES		512u
/* About what placing one takes for each memory; the part of the program's time that all may take. */
#define PLACE_NS	100u
#define PART		48u
#define RULES_MOST	64u
/* Some kind's best device is so many times as quick as its worst, and that of the next task. */
#define UNLIKE		2
#define UNLIKE_NEXT	1.25
/* What a task takes at least: to take one in is about 1 us, and four devices may share them. */
#define LEAST_NS	200000u
/* After one that came to nothing, at first and at most. */
#define PAUSE_NS	(10ull << 20)
#define PAUSE_MOST_NS	(2000ull << 20)
/* By what part of the program's time the plan may be late. */
#define LATE		4u

#define FINEST		0.03

enum stage { OFF, LOOKING, TRYING, FOLLOWED };

/* In a table by what it is of; its number is one more, 0: free. */
struct item_slot {
	uint64_t buffer, offset, length;
	uint32_t number;
};

/* From one task to another, by their numbers as they were found, the newest first. */
struct line {
	uint32_t from, to;
};

/**
 * struct graph_seen - of a program, the newest task first
 * @kinds:	task_kind()
 * @can:	of each, which machines can run its first one
 */
struct graph_seen {
	uint64_t kinds[LIST_KINDS];
	bool can[LIST_KINDS][MACHINES];
	uint32_t nr_kinds;
	struct list_task *tasks;
	struct list_use *uses;
	struct line *lines;
	struct list_item *items;
	uint32_t nr_tasks, nr_uses, nr_lines, nr_items;
	uint32_t tasks_size, uses_size, lines_size, items_size;
	struct item_slot *table;
	uint32_t table_size;
	uint64_t newest_seq;
};

/**
 * struct trials - which rules have been tried
 * @dim:	what is changed of the best one: a kind's delay, or how long ways are
 */
struct trials {
	struct list_rule rule, best;
	double best_ns, step;
	uint32_t nr, most, dim;
	bool begun, down, better;
};

/**
 * struct seat - a task's, by the best schedule
 * @place:	among those of its device
 * @turn:	among all
 */
struct seat {
	uint32_t device, place, turn;
	float begin_ns;
	bool gone;
};

/* What a device has to do; @first: the first one that has no lane yet. */
struct queue {
	uint32_t begin, nr, first;
};

/**
 * struct plan - of one program
 * @number:	of the tasks that it knows (sched_task.outlook); 0: none
 * @context:	task_context() of them
 * @begun_ns:	when it is followed, from then on
 * @again_ns:	not before; @pause_ns after the next one that comes to nothing
 * @large_seq:	nor for tasks up to this one, of which there were too many: what is left of them goes
 *		on as it was
 * @lanes:	of all devices
 * @left:	tasks that have no device yet; @nowhere: markers, of which nobody tells that they end
 */
struct plan {
	enum stage stage;
	bool fresh;
	uint32_t number;
	uint64_t context;
	uint64_t begun_ns, again_ns, pause_ns, large_seq;
	uint32_t lanes;
	struct graph_seen seen;
	struct list_program program;
	struct list_machine *machines;
	struct list_place *places;
	double *ns;
	uint32_t *place_of;		/* by device */
	uint32_t *nexts;
	struct list *list;
	struct trials trials;
	struct seat *seats;
	uint32_t *order;		/* of seats, by device */
	struct queue *queues;
	uint32_t left, nowhere;
	double length_ns;
};

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

static uint32_t item_hash(uint64_t buffer, uint64_t offset)
{
	return (uint32_t)((buffer * 31 + offset / 64) * 0x9e3779b97f4a7c15ull >> 32);
}

static bool grow_table(struct graph_seen *g)
{
	uint32_t size = g->table_size ? 2 * g->table_size : 1024;
	struct item_slot *table = calloc(size, sizeof(*table));

	if (!table)
		return false;
	for (uint32_t i = 0; i < g->table_size; i++) {
		const struct item_slot *from = &g->table[i];
		uint32_t k;

		if (!from->number)
			continue;
		k = item_hash(from->buffer, from->offset);
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
	uint32_t k = item_hash(r->buffer, r->offset);
	struct item_slot *at;

	if (2 * (g->nr_items + 1) > g->table_size && !grow_table(g))
		return NULL;
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
	l->until_ns = lane->until > l->now_ns ? (double)(lane->until - l->now_ns) : 0;
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

static bool note_machines(struct sched *s, struct plan *p, const struct graph_node *n)
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

/* ------------------------------------------------------------------ */
/* Rules                                                               */

/* The first ones, and @later for all kinds: these were the best of most graphs that were looked at. */
static const struct {
	double quick, later;
} first[] = {
	{ 0.9, 0.3 }, { 0.6, 0.3 }, { 1, 0.3 }, { 0.2, 0.3 },
	{ -1, 0 }, { -1, 0.15 }, { -1, 0.4 }, { -1, 0.6 },	/* -1: the best one's so far */
};

#define FIRST	(sizeof(first) / sizeof(first[0]))

static void rule_first(struct trials *t, uint32_t i)
{
	t->rule = t->best;
	if (first[i].quick >= 0)
		t->rule.quick = first[i].quick;
	t->rule.near = 1;
	for (uint32_t k = 0; k < LIST_KINDS; k++)
		t->rule.later[k] = first[i].later;
}

/* The next change of one thing; false: no finer ones are tried. */
static bool next_change(struct trials *t, uint32_t kinds)
{
	t->down = !t->down;
	if (t->down)
		return true;
	if (t->dim++ < kinds)
		return true;
	t->dim = 0;
	if (!t->better)
		t->step /= 2;
	t->better = false;
	return t->step >= FINEST;
}

/* False: there are no more. */
static bool rule_next(struct trials *t, uint32_t kinds)
{
	if (t->nr == t->most)
		return false;
	if (t->nr < FIRST) {
		rule_first(t, t->nr);
		return true;
	}
	if (t->nr == FIRST) {
		t->step = 0.25;
		t->dim = 0;
		t->down = false;
	} else if (!next_change(t, kinds)) {
		return false;
	}
	for (;;) {
		t->rule = t->best;
		if (t->dim < kinds) {
			t->rule.later[t->dim] += t->down ? t->step : -t->step;
			return true;
		}
		t->rule.quick += (t->down ? -0.6 : 0.6) * t->step;
		if (t->rule.quick >= 0 && t->rule.quick <= 1)
			return true;
		if (!next_change(t, kinds))
			return false;
	}
}

/* ------------------------------------------------------------------ */
/* Trying                                                              */

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
	    (uint64_t)g->nr_items * p->program.nr_places > CELLS || !turn_round(p))
		return false;
	p->list = list_make(&p->program);
	p->seats = calloc(g->nr_tasks, sizeof(*p->seats));
	if (!p->list || !p->seats)
		return false;
	p->trials = (struct trials){ .most = 1, .best_ns = -1 };
	p->stage = TRYING;
	return true;
}

/* The list's schedule is the best one so far. */
static void take_seats(struct plan *p)
{
	const struct list_seat *seats = list_seats(p->list);

	for (uint32_t t = 0; t < p->program.nr_tasks; t++)
		p->seats[t] = (struct seat){
			.device = seats[t].device, .begin_ns = (float)seats[t].begin_ns,
		};
	p->length_ns = list_ns(p->list);
}

static void judge(struct plan *p)
{
	struct trials *t = &p->trials;
	double ns = list_ns(p->list), most;

	if (t->best_ns < 0 || ns < t->best_ns) {
		t->best = t->rule;
		t->best_ns = ns;
		take_seats(p);
		if (t->nr >= FIRST) {
			/* On to something else. */
			t->better = true;
			t->down = true;
		}
	}
	t->nr++;
	if (t->nr > 1)
		return;
	most = ns / PART / PLACE_NS / p->program.nr_places / p->program.nr_tasks;
	t->most = most < 1 ? 1 : most > RULES_MOST ? RULES_MOST : (uint32_t)most;
}

static int by_begin(const void *a, const void *b, void *of)
{
	const struct plan *p = of;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct seat *i = &p->seats[x], *k = &p->seats[y];

	if (i->begin_ns != k->begin_ns)
		return i->begin_ns < k->begin_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool set_out(struct sched *s, struct plan *p, uint64_t now_ns)
{
	uint32_t nr = p->program.nr_tasks, at = 0;
	uint32_t *turns = calloc(nr, sizeof(*turns));

	p->order = calloc(nr, sizeof(*p->order));
	p->queues = calloc(s->nr_devices + 1ul, sizeof(*p->queues));
	if (!turns || !p->order || !p->queues) {
		free(turns);
		return false;
	}
	for (uint32_t t = 0; t < nr; t++) {
		turns[t] = t;
		if (p->seats[t].device != LIST_NONE)
			p->queues[p->seats[t].device].nr++;
		else
			p->nowhere++;
	}
	if (p->nowhere == nr) {
		free(turns);
		return false;
	}
	qsort_r(turns, nr, sizeof(*turns), by_begin, p);
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		p->queues[i].begin = at;
		at += p->queues[i].nr;
		p->queues[i].nr = 0;
	}
	for (uint32_t i = 0; i < nr; i++) {
		struct seat *seat = &p->seats[turns[i]];
		struct queue *q;

		seat->turn = i;
		if (seat->device == LIST_NONE)
			continue;
		q = &p->queues[seat->device];
		seat->place = q->nr++;
		p->order[q->begin + seat->place] = turns[i];
	}
	free(turns);
	__atomic_store_n(&s->plans, s->plans + 1, __ATOMIC_RELAXED);
	p->left = at;
	p->begun_ns = now_ns;
	p->stage = FOLLOWED;
	return true;
}

/* One more rule, or as far as one call goes; false: it came to nothing. */
static bool try_on(struct sched *s, struct plan *p, uint64_t now_ns)
{
	struct trials *t = &p->trials;
	uint32_t left = PLACES / p->program.nr_places + 1;
	int r;

	while (left) {
		uint32_t all = p->program.nr_tasks;

		if (!t->begun) {
			if (!rule_next(t, p->program.nr_kinds))
				return set_out(s, p, now_ns);
			if (!list_begin(p->list, &t->rule))
				return false;
			t->begun = true;
		}
		r = list_go_on(p->list, left);
		if (r < 0)
			return false;
		if (!r)
			return true;
		t->begun = false;
		judge(p);
		left -= left < all ? left : all;
	}
	return true;
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
	if (note_machines(s, p, n))
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

static bool look_on(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns)
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
		on = look_on(s, p, n, now_ns);
	else if (p->stage == TRYING)
		on = try_on(s, p, now_ns);
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
