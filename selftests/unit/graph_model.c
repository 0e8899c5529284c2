// SPDX-License-Identifier: MIT
#include "selftests/unit/graph_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph.h"

#define BUFFERS		2
#define BYTES		64	/* of a buffer: one bit each */
#define RANGES		4

enum model_state { SUBMITTED, WAITING, POPPED, RUNNING, ENDED, VANISHED };

struct model_task {
	uint64_t tag, deadline_ns, origin;
	uint32_t known, fail;	/* by the numbers of its context's failures */
	uint64_t bits[RANGES];
	uint32_t client, context, queue;
	int result;
	uint8_t buffer[RANGES], access[RANGES], nr_ranges;
	bool dataflow, barrier, continues, blocked;
	bool reported, ghost, overdue, follows, stopped;
	enum model_state state;
	struct graph_node *node;
	struct arax_dispatch_range ranges[RANGES];
};

struct model {
	const struct graph_model_params *p;
	struct graph *g;
	struct model_task *t;
	unsigned int submitted, added, open;
	uint64_t clock;
	int bad;
	uint16_t generation[256];
	bool slot_used[256];
	bool queue_dataflow[4][4], queue_continues[4][4];
	uint32_t context_id[4];
	uint32_t failures[4], known[4];
	uint64_t expiring;	/* time, while graph_expire() is followed */
};

#define EXPECT(m, cond, ...)						\
	do {								\
		if (!(cond)) {						\
			(m)->bad++;					\
			fprintf(stderr, "model: %s: ", #cond);		\
			fprintf(stderr, __VA_ARGS__);			\
			fputc('\n', stderr);				\
		}							\
	} while (0)

static uint32_t draw(struct model *m, uint32_t n)
{
	return m->p->draw(m->p->arg, n);
}

static bool chance(struct model *m, bool enabled, uint32_t n)
{
	return enabled && !draw(m, n);
}

/* ------------------------------------------------------------------ */
/* The rules, in the plainest words                                    */

static bool queue_relates(const struct model_task *a, const struct model_task *b)
{
	return a->context == b->context && a->queue == b->queue &&
	       (!a->dataflow || a->barrier || b->barrier);
}

static bool ranges_conflict(const struct model_task *a, unsigned int i,
			    const struct model_task *b, unsigned int j)
{
	return a->buffer[i] == b->buffer[j] && (a->bits[i] & b->bits[j]) &&
	       ((a->access[i] | b->access[j]) & ARAX_OUT);
}

/* Must @b (later) wait for @a? */
static bool related(const struct model_task *a, const struct model_task *b)
{
	if (a->context != b->context)
		return false;
	if (queue_relates(a, b))
		return true;
	if (!a->dataflow && !b->dataflow)
		return false;
	for (unsigned int i = 0; i < a->nr_ranges; i++)
		for (unsigned int j = 0; j < b->nr_ranges; j++)
			if (ranges_conflict(a, i, b, j))
				return true;
	return false;
}

/* Was range @i of task @a overwritten by a dataflow task before @b? */
static bool superseded(struct model *m, unsigned int a, unsigned int i,
		       unsigned int b)
{
	const struct model_task *x = &m->t[a];

	for (unsigned int k = a + 1; k < b; k++) {
		const struct model_task *w = &m->t[k];

		if (!w->dataflow || w->context != x->context)
			continue;
		for (unsigned int j = 0; j < w->nr_ranges; j++)
			if (w->buffer[j] == x->buffer[i] &&
			    w->access[j] & ARAX_OUT &&
			    !(x->bits[i] & ~w->bits[j]))
				return true;
	}
	return false;
}

/*
 * Does a failure of @a reach @b directly?  Not if @a only reads what they share.  @overwritten: nor if what
 * it writes of that is superseded.
 */
static bool fails_with(struct model *m, unsigned int a, unsigned int b, bool overwritten)
{
	const struct model_task *x = &m->t[a], *y = &m->t[b];

	if (!related(x, y))
		return false;
	if (queue_relates(x, y))
		return true;
	for (unsigned int i = 0; i < x->nr_ranges; i++) {
		if (!(x->access[i] & ARAX_OUT) || (overwritten && superseded(m, a, i, b)))
			continue;
		for (unsigned int j = 0; j < y->nr_ranges; j++)
			if (ranges_conflict(x, i, y, j))
				return true;
	}
	return false;
}

/* Who supersedes fails as well, but where queues go on. */
static bool failure_reaches(struct model *m, unsigned int a, unsigned int b)
{
	return fails_with(m, a, b, m->p->continues);
}

static bool over(const struct model_task *t)
{
	return t->state == ENDED || t->state == VANISHED;
}

static bool preds_over(struct model *m, unsigned int j)
{
	for (unsigned int i = 0; i < j; i++)
		if (!over(&m->t[i]) && related(&m->t[i], &m->t[j]))
			return false;
	return true;
}

static uint64_t failure_of(const struct model_task *t)
{
	return t->origin ? t->origin : t->tag;
}

/*
 * Has @j got to fail?  @origin (if not NULL) must be a possible one.  *@late:
 * the last of the failures that it comes from.
 */
static bool doomed(struct model *m, unsigned int j, const uint64_t *origin,
		   bool *origin_ok, uint32_t *late)
{
	struct model_task *t = &m->t[j];
	bool found = false;

	if (origin_ok)
		*origin_ok = false;
	for (unsigned int i = 0; i < j; i++) {
		struct model_task *p = &m->t[i];

		if (p->state != ENDED || !p->result)
			continue;
		if (p->fail <= t->known)
			continue;	/* it was known already */
		if (!failure_reaches(m, i, j))
			continue;
		found = true;
		if (origin && failure_of(p) == *origin)
			*origin_ok = true;
		if (late && *late < p->fail)
			*late = p->fail;
	}
	return found && !t->continues;
}

/* ------------------------------------------------------------------ */
/* Making tasks                                                        */

static void make_range(struct model *m, struct model_task *t, unsigned int i)
{
	struct arax_dispatch_range *r = &t->ranges[i];
	static const uint8_t access[] = { ARAX_IN, ARAX_OUT, ARAX_INOUT, ARAX_IN };
	uint32_t unit = draw(m, 4) ? 8 : 1;

	t->buffer[i] = draw(m, BUFFERS);
	t->access[i] = access[draw(m, m->p->hulls ? 1 : 4)];
	if (m->p->hulls && !draw(m, 8)) {
		t->access[i] = ARAX_OUT;
		unit = 1;
	}
	/* They share a place among the recent spans. */
	*r = (struct arax_dispatch_range){ .buffer = 100 + 256 * t->buffer[i], .count = 1 };
	if (m->p->hulls) {
		r->offset = draw(m, BYTES / 2 - 1);
		r->length = unit == 1 ? 1 : BYTES - r->offset;
	} else {
		r->offset = draw(m, BYTES / unit) * unit;
		r->length = draw(m, (BYTES - r->offset) / unit / (unit == 8 ? 4 : 1) + 1) * unit;
	}
	if (chance(m, m->p->strided, 3) && r->length) {
		r->stride = r->length + draw(m, 8);
		r->count = 1 + draw(m, 6);
		while (r->offset + (uint64_t)(r->count - 1) * r->stride + r->length > BYTES)
			r->count--;
		if (!r->count) {
			r->count = 1;
			r->length = BYTES - r->offset;
		}
	}
	t->bits[i] = 0;
	for (unsigned int row = 0; row < r->count; row++)
		for (unsigned int k = 0; k < r->length; k++)
			t->bits[i] |= 1ull << (r->offset + row * r->stride + k);
}

static void submit(struct model *m)
{
	struct model_task *t = &m->t[m->submitted];
	uint32_t c = draw(m, m->p->contexts), q = draw(m, m->p->queues), slot;

	for (slot = 0; slot < 256 && m->slot_used[slot]; slot++)
		;
	if (m->p->loose)
		slot = m->submitted;
	else if (slot == 256)
		return;
	memset(t, 0, sizeof(*t));
	if (!m->p->loose) {
		m->slot_used[slot] = true;
		m->generation[slot]++;
		t->tag = 5ull << 48 | (uint64_t)m->generation[slot] << 24 | slot;
	} else {
		t->tag = 5ull << 48 | slot;
	}
	m->submitted++;
	m->open++;
	t->client = c;
	t->context = m->context_id[c];
	t->queue = 1 + q;
	t->dataflow = m->queue_dataflow[c][q];
	t->continues = m->queue_continues[c][q];
	m->clock++;
	if (m->known[c] < m->failures[c])
		m->known[c] += draw(m, m->failures[c] - m->known[c] + 1);
	t->known = m->known[c];
	t->barrier = chance(m, m->p->barriers, 8);
	t->blocked = chance(m, m->p->blocks, 6);
	if (chance(m, m->p->deadlines, 4))
		t->deadline_ns = m->clock + 1 + draw(m, 40);
	t->nr_ranges = draw(m, RANGES + 1);
	for (unsigned int i = 0; i < t->nr_ranges; i++)
		make_range(m, t, i);
}

/* ------------------------------------------------------------------ */
/* Following the graph                                                 */

static struct model_task *by_tag(struct model *m, uint64_t tag)
{
	for (unsigned int i = m->submitted; i-- > 0;)
		if (m->t[i].tag == tag)
			return &m->t[i];
	return NULL;
}

static void free_slot(struct model *m, struct model_task *t)
{
	if (!m->p->loose)
		m->slot_used[ARAX_TAG_SLOT(t->tag)] = false;
	m->open--;
}

static void end(struct model *m, struct model_task *t, int result, uint32_t fail)
{
	t->state = ENDED;
	t->result = result;
	t->fail = fail;
}

/* @t failed by itself: they are counted. */
static uint32_t failed(struct model *m, struct model_task *t, uint32_t failure)
{
	EXPECT(m, failure == ++m->failures[t->client], "task %td: %u", t - m->t, failure);
	return failure;
}

/* Canceled ones that had to keep their place lose it as soon as they can. */
static void end_ghosts(struct model *m)
{
	for (unsigned int i = 0; i < m->added; i++) {
		struct model_task *t = &m->t[i];
		uint32_t fail = t->fail;

		if (!t->ghost || over(t) || !preds_over(m, i))
			continue;
		if (!t->continues)
			doomed(m, i, NULL, NULL, &fail);
		end(m, t, t->result, fail);
	}
}

/* @t, not started, was ended from outside; it should be with @result. */
static void ended_early(struct model *m, struct model_task *t,
			const struct graph_done *done, int result)
{
	bool popped = t->state == POPPED;
	uint32_t fail = 0;
	bool ok;

	/* Perhaps it was to fail anyway: then it says so. */
	if (done->origin) {
		doomed(m, t - m->t, &done->origin, &ok, &fail);
		EXPECT(m, ok || !m->p->exact_failures, "task %td", t - m->t);
		EXPECT(m, !done->failure, "task %td", t - m->t);
		result = -ECANCELED;
	} else {
		fail = failed(m, t, done->failure);
	}
	EXPECT(m, done->result == result, "task %td: %d", t - m->t, done->result);
	EXPECT(m, !popped || !t->node, "task %td was not dropped", t - m->t);
	t->reported = true;
	t->blocked = false;
	t->origin = done->origin;
	free_slot(m, t);
	if (popped || preds_over(m, t - m->t)) {
		end(m, t, result, fail);
	} else {
		t->result = result;
		t->fail = fail;
		t->ghost = true;
	}
}

/* Takes in what the graph did by itself. */
static void follow(struct model *m)
{
	struct graph_done done;
	struct graph_node *node;

	end_ghosts(m);
	while (graph_pop_done(m->g, &done)) {
		struct model_task *t = by_tag(m, done.tag);
		unsigned int j = t - m->t;
		bool origin_ok, must;
		uint32_t late = 0;

		EXPECT(m, t && !t->reported, "%llx", (unsigned long long)done.tag);
		if (!t)
			continue;
		if (m->expiring && t->deadline_ns && t->deadline_ns <= m->expiring) {
			ended_early(m, t, &done, -ETIMEDOUT);
			end_ghosts(m);
			continue;
		}
		EXPECT(m, t->state == WAITING, "task %u", j);
		EXPECT(m, done.context == t->context, "task %u", j);
		must = doomed(m, j, &done.origin, &origin_ok, &late);
		if (m->p->exact_failures)
			EXPECT(m, must && origin_ok, "task %u origin %llx", j,
			       (unsigned long long)done.origin);
		EXPECT(m, !t->continues, "task %u", j);
		EXPECT(m, done.result == -ECANCELED, "task %u: %d", j, done.result);
		EXPECT(m, !done.failure, "task %u: %u", j, done.failure);
		if (!m->p->loose)
			EXPECT(m, preds_over(m, j), "task %u", j);
		t->reported = true;
		t->origin = done.origin;
		end(m, t, done.result, late);
		free_slot(m, t);
		end_ghosts(m);
	}
	while ((node = graph_pop_ready(m->g))) {
		struct model_task *t = by_tag(m, node->d.tag);
		unsigned int j = t - m->t;

		EXPECT(m, t->state == WAITING && !t->reported, "task %u", j);
		EXPECT(m, preds_over(m, j), "task %u runs too early", j);
		EXPECT(m, !t->blocked, "task %u runs while blocked", j);
		if (m->p->exact_failures)
			EXPECT(m, !doomed(m, j, NULL, NULL, NULL),
			       "task %u runs though one before it failed", j);
		EXPECT(m, !memcmp(node->ranges, t->ranges,
				  t->nr_ranges * sizeof(t->ranges[0])), "task %u", j);
		t->state = POPPED;
		t->node = node;
	}
	for (unsigned int j = 0; j < m->added && !m->p->loose; j++) {
		struct model_task *t = &m->t[j];

		if (t->state != WAITING || t->ghost || !preds_over(m, j))
			continue;
		EXPECT(m, t->blocked && !(m->p->exact_failures &&
					  doomed(m, j, NULL, NULL, NULL)),
		       "task %u waits for nothing", j);
	}
}

static void add(struct model *m)
{
	struct {
		struct arax_dispatch d;
		struct arax_dispatch_range r[RANGES];
		char args[128];
	} e;
	struct model_task *t = &m->t[m->added];
	bool args = t->tag & 1;
	int err;

	memset(&e, 0, sizeof(e));
	e.d.type = ARAX_DISPATCH_TASK;
	e.d.cells = sizeof(e) / ARAX_CELL_SIZE;
	e.d.tag = t->tag;
	e.d.context = t->context;
	e.d.queue = t->queue;
	e.d.known = t->known;
	e.d.deadline_ns = t->deadline_ns;
	e.d.flags = (t->barrier ? ARAX_TASK_BARRIER : 0) |
		    (t->blocked ? ARAX_DISPATCH_BLOCKED : 0);
	e.d.queue_flags = (t->dataflow ? ARAX_QUEUE_DATAFLOW : 0) |
			  (t->continues ? ARAX_QUEUE_CONTINUE : 0);
	e.d.nr_ranges = t->nr_ranges;
	e.d.arg_len = args ? 100 : 16;
	for (unsigned int i = 0; i < t->nr_ranges; i++) {
		e.d.access |= (uint64_t)t->access[i] << 2 * i;
		e.r[i] = t->ranges[i];
	}
	m->added++;
	t->state = WAITING;
	err = graph_add(m->g, &e.d);
	EXPECT(m, !err, "graph_add: %d", err);
	m->clock++;
	follow(m);
}

/* The @n-th task in @state, or NULL. */
static struct model_task *pick(struct model *m, enum model_state state)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < m->added; i++)
		n += m->t[i].state == state && m->t[i].node;
	if (!n)
		return NULL;
	n = draw(m, n);
	for (unsigned int i = 0; i < m->added; i++)
		if (m->t[i].state == state && m->t[i].node && !n--)
			return &m->t[i];
	return NULL;
}

struct before {
	struct model *m;
	struct model_task *t;		/* one of those that wait for what runs */
	uint32_t nr;			/* how many it is known to wait for, of them */
	uint32_t skip;
};

static void find_behind(void *arg, const struct graph_node *node, uint32_t waits)
{
	struct before *b = arg;

	if (!b->t && !b->skip--)
		b->t = by_tag(b->m, node->d.tag);
}

static void count_before(void *arg, const struct graph_node *node, uint32_t waits)
{
	struct before *b = arg;

	b->nr += node->d.tag == b->t->tag;
}

/* Whether there is more to an edge from @a to @b than their order. */
static void check_edge(struct model *m, unsigned int a, unsigned int b, bool order)
{
	/* There who supersedes need not have a single row, or stands for others of its queue. */
	if (order)
		EXPECT(m, m->p->in_order || m->p->strided || !fails_with(m, a, b, true),
		       "task %u does not fail with %u", b, a);
	else
		EXPECT(m, fails_with(m, a, b, false), "task %u fails with %u", b, a);
}

/* Starts a task that waits for what runs alone. */
static void start_behind(struct model *m)
{
	struct model_task *t = pick(m, RUNNING);
	struct before b = { .m = m, .skip = draw(m, 4) };
	struct graph_node *node;
	bool may = true;

	if (!t)
		return;
	graph_each_successor(t->node, find_behind, &b);
	t = b.t;
	node = t ? graph_find(m->g, t->tag) : NULL;
	if (!node || t->state != WAITING)
		return;
	for (unsigned int i = 0; i < m->added; i++) {
		const struct model_task *p = &m->t[i];
		uint32_t before = b.nr;

		if (p->state == RUNNING)
			graph_each_successor(p->node, count_before, &b);
		if (b.nr > before)
			check_edge(m, i, t - m->t, graph_only_orders(p->node, node));
		/* What was behind one that was stopped is on its way still. */
		if (p < t && !over(p) && related(p, t) && p->state != RUNNING && !p->stopped)
			may = false;
	}
	if (!graph_may_follow(node, b.nr))
		return;
	EXPECT(m, may && !t->blocked && !t->continues && !t->ghost, "task %td", t - m->t);
	m->clock++;
	graph_start(m->g, node);
	t->state = RUNNING;
	t->node = node;
	t->follows = true;
}

static void stop(struct model *m, struct model_task *t)
{
	bool early = graph_is_early(t->node);

	m->clock++;
	graph_stop(m->g, t->node);
	t->follows = false;
	t->stopped = true;
	t->state = early ? WAITING : POPPED;
	if (early)
		t->node = NULL;
	follow(m);
}

/* A follower comes back: it may have been in vain. */
static void end_follower(struct model *m, struct model_task *t)
{
	unsigned int j = t - m->t;
	uint64_t tag = t->tag, origin = 0;
	uint32_t late = 0, failure = ~0u;
	bool ok = false, must;
	int fate;

	EXPECT(m, graph_is_early(t->node) == !preds_over(m, j), "task %u", j);
	if (graph_is_early(t->node)) {
		if (chance(m, true, 4))
			stop(m, t);
		return;
	}
	fate = graph_fate(t->node, &origin);
	must = doomed(m, j, &origin, &ok, &late);
	if (m->p->exact_failures)
		EXPECT(m, must == !!fate && ok == must, "task %u: %d, %d", j, must, fate);
	EXPECT(m, !fate || fate == -ECANCELED, "task %u: %d", j, fate);
	if (!fate) {
		t->follows = false;
		if (chance(m, true, 4))
			stop(m, t);
		return;
	}
	m->clock++;
	EXPECT(m, graph_complete(m->g, t->node, fate, &failure), "task %u", j);
	EXPECT(m, !failure && graph_find(m->g, tag) == NULL, "task %u: %u", j, failure);
	t->node = NULL;
	t->origin = origin;
	free_slot(m, t);
	end(m, t, fate, late);
	follow(m);
}

static void complete(struct model *m, struct model_task *t)
{
	int result = chance(m, m->p->failures, 5) ? -EIO : 0;
	bool vanished = t->state == VANISHED;
	uint32_t failure = 0;
	bool commit = graph_complete(m->g, t->node, result, &failure);

	m->clock++;
	t->node = NULL;
	EXPECT(m, commit == !vanished, "task %td", t - m->t);
	free_slot(m, t);
	if (!vanished)
		end(m, t, result, result ? failed(m, t, failure) : 0);
	follow(m);
}

static void drop(void *arg, struct graph_node *node)
{
	struct model *m = arg;
	struct model_task *t = by_tag(m, node->d.tag);

	EXPECT(m, t && t->state == POPPED && t->node == node, "dropped");
	if (t)
		t->node = NULL;
}

static void cancel(struct model *m)
{
	struct model_task *t;
	int err;

	m->clock++;
	if (!m->added)
		return;
	t = &m->t[m->added - 1 - draw(m, m->added < 32 ? m->added : 32)];
	err = graph_cancel(m->g, t->tag);
	if (t->reported || over(t)) {
		EXPECT(m, err == -ENOENT, "task %td: %d", t - m->t, err);
	} else if (t->state == RUNNING) {
		EXPECT(m, err == -EBUSY, "task %td: %d", t - m->t, err);
	} else {
		struct graph_done done = { 0 };

		EXPECT(m, !err, "task %td: %d", t - m->t, err);
		EXPECT(m, graph_pop_done(m->g, &done) && done.tag == t->tag,
		       "task %td", t - m->t);
		ended_early(m, t, &done, -ECANCELED);
	}
	follow(m);
}

static void unblock(struct model *m)
{
	for (unsigned int i = 0; i < m->added; i++) {
		struct model_task *t = &m->t[i];
		int err;

		if (t->state != WAITING || !t->blocked || t->reported || draw(m, 2))
			continue;
		m->clock++;
		err = graph_unblock(m->g, t->tag, 0);
		/* A doomed one is not blocked any more. */
		EXPECT(m, !err || (err == -ENOENT &&
				   (doomed(m, i, NULL, NULL, NULL) || m->p->loose ||
				    !m->p->exact_failures)),
		       "task %u: %d", i, err);
		t->blocked = false;
		follow(m);
		return;
	}
}

static void expire(struct model *m)
{
	uint64_t now = ++m->clock, first = UINT64_MAX;
	struct graph_node *node;

	for (unsigned int i = 0; i < m->added; i++) {
		struct model_task *t = &m->t[i];

		if (t->deadline_ns && !t->reported && !t->overdue &&
		    (t->node || !over(t)) && t->deadline_ns < first)
			first = t->deadline_ns;
	}
	EXPECT(m, graph_next_deadline(m->g) == first, "%llu, not %llu",
	       (unsigned long long)graph_next_deadline(m->g),
	       (unsigned long long)first);
	m->expiring = now;
	do {
		node = graph_expire(m->g, now);
		if (node) {
			struct model_task *t = by_tag(m, node->d.tag);

			EXPECT(m, t && t->node == node && !t->overdue &&
			       t->deadline_ns && t->deadline_ns <= now, "overdue");
			if (t)
				t->overdue = true;
		}
	} while (node);
	follow(m);
	m->expiring = 0;
	for (unsigned int i = 0; i < m->added; i++) {
		struct model_task *t = &m->t[i];

		EXPECT(m, !t->deadline_ns || t->deadline_ns > now || t->reported ||
		       over(t) || t->overdue, "task %u did not expire", i);
	}
}

static void context_gone(struct model *m)
{
	uint32_t c = draw(m, m->p->contexts);
	uint32_t id = m->context_id[c];
	struct graph_done done;

	graph_context_gone(m->g, id);
	while (graph_pop_done(m->g, &done)) {
		struct model_task *t = by_tag(m, done.tag);

		EXPECT(m, t && !t->reported && t->context == id, "%llx",
		       (unsigned long long)done.tag);
		if (t)
			ended_early(m, t, &done, -ECANCELED);
	}
	for (unsigned int i = 0; i < m->submitted; i++) {
		struct model_task *t = &m->t[i];

		if (t->context != id || over(t))
			continue;
		if (t->state == SUBMITTED) {
			t->context += 1000;	/* as if the next one's */
			t->known = 0;
		} else {
			EXPECT(m, t->node || t->reported, "task %u is forgotten", i);
			t->state = VANISHED;
		}
	}
	m->context_id[c] += 1000;
	m->failures[c] = m->known[c] = 0;
	m->clock++;
	follow(m);
}

int graph_model_run(const struct graph_model_params *p)
{
	struct model m = { .p = p };
	struct graph_params params = {
		.slots = GRAPH_MODEL_TASKS, .drop = drop, .drop_arg = &m,
	};
	struct graph_stats st;
	struct model_task *t;

	m.g = graph_create(&params);
	m.t = calloc(GRAPH_MODEL_TASKS, sizeof(*m.t));
	for (unsigned int c = 0; c < 4; c++) {
		m.context_id[c] = 1 + c;
		for (unsigned int q = 0; q < 4; q++) {
			m.queue_dataflow[c][q] = !p->in_order || draw(&m, 2);
			m.queue_continues[c][q] = chance(&m, p->continues, 2);
		}
	}
	while (!m.bad && (m.submitted < p->tasks || m.open)) {
		bool more = p->more(p->arg);

		if (!more && m.submitted == m.added && !m.open)
			break;
		switch (draw(&m, 12)) {
		case 0: case 1: case 2: case 3:
			if (more && m.submitted < p->tasks && m.open < p->inflight)
				submit(&m);
			if (m.added < m.submitted && draw(&m, 4))
				add(&m);
			break;
		case 4: case 5:
			if (m.added < m.submitted)
				add(&m);
			break;
		case 6:
			if (chance(&m, p->follows, 2)) {
				start_behind(&m);
				break;
			}
			t = pick(&m, POPPED);
			if (t) {
				graph_start(m.g, t->node);
				t->state = RUNNING;
			}
			break;
		case 7:
			t = pick(&m, draw(&m, 2) ? POPPED : RUNNING);
			if (t && (!p->loose || m.open > p->inflight * 3 / 4 ||
				  m.submitted == p->tasks || !more)) {
				if (t->follows)
					end_follower(&m, t);
				else
					complete(&m, t);
			}
			break;
		case 8:
			t = pick(&m, VANISHED);
			if (t)
				complete(&m, t);
			else if (chance(&m, p->cancels, 3))
				cancel(&m);
			break;
		case 9:
			unblock(&m);
			break;
		case 10:
			if (p->deadlines)
				expire(&m);
			break;
		default:
			if (chance(&m, p->gone, 30))
				context_gone(&m);
			if (!draw(&m, p->loose ? 64 : 8))
				m.bad += graph_check(m.g);
		}
	}
	for (unsigned int c = 0; c < 4; c++)
		graph_context_gone(m.g, m.context_id[c]);
	m.bad += graph_check(m.g);
	graph_stats(m.g, &st);
	if (!m.bad) {
		EXPECT(&m, st.live == 0, "%llu", (unsigned long long)st.live);
		EXPECT(&m, st.lingering == 0, "%llu", (unsigned long long)st.lingering);
	}
	if (p->fences)
		*p->fences += st.fences;
	graph_destroy(m.g);
	free(m.t);
	return m.bad;
}
