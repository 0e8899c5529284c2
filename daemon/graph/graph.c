/* SPDX-License-Identifier: MIT */
/* graph.c - nodes, their life and their dependencies */
#include "daemon/graph/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/graph/internal.h"

static const size_t blob_sizes[BLOB_CLASSES] = { 512, 2048, 8192 };

/* ------------------------------------------------------------------ */
/* Making and destroying                                               */

struct graph *graph_create(const struct graph_params *params)
{
	struct graph *g;

	if (!params->slots || params->slots > 1u << 24) {
		errno = EINVAL;
		return NULL;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->params = *params;
	g->nr_slots = params->slots;
	g->done_tail = &g->done;
	/* Clients must not be able to choose shapes that share a bucket. */
	if (getrandom(g->key, sizeof(g->key), 0) != (ssize_t)sizeof(g->key)) {
		free(g);
		return NULL;
	}
	pool_init(&g->node_pool, sizeof(struct node));
	pool_init(&g->span_pool, sizeof(struct span));
	pool_init(&g->buffer_pool, sizeof(struct buffer));
	pool_init(&g->tree_pool, sizeof(struct tree_node));
	pool_init(&g->edge_pool, sizeof(struct edge_chunk));
	pool_init(&g->queue_pool, sizeof(struct queue));
	pool_init(&g->context_pool, sizeof(struct context));
	pool_init(&g->epoch_pool, sizeof(struct epoch));
	pool_init(&g->done_pool, sizeof(struct done_record));
	for (int i = 0; i < BLOB_CLASSES; i++)
		pool_init(&g->blob_pool[i], blob_sizes[i]);
	/* Untouched pages of the slots cost nothing. */
	g->slots = calloc(params->slots, sizeof(*g->slots));
	if (!g->slots || !table_init(&g->spans, 12) ||
	    !table_init(&g->buffers, 8) || !table_init(&g->queues, 8) ||
	    !table_init(&g->contexts, 6)) {
		graph_destroy(g);
		errno = ENOMEM;
		return NULL;
	}
	return g;
}

void graph_destroy(struct graph *g)
{
	if (!g)
		return;
	pool_fini(&g->node_pool);
	pool_fini(&g->span_pool);
	pool_fini(&g->buffer_pool);
	pool_fini(&g->tree_pool);
	pool_fini(&g->edge_pool);
	pool_fini(&g->queue_pool);
	pool_fini(&g->context_pool);
	pool_fini(&g->epoch_pool);
	pool_fini(&g->done_pool);
	for (int i = 0; i < BLOB_CLASSES; i++)
		pool_fini(&g->blob_pool[i]);
	table_fini(&g->spans);
	table_fini(&g->buffers);
	table_fini(&g->queues);
	table_fini(&g->contexts);
	free(g->slots);
	free(g->heap);
	free(g);
}

/* ------------------------------------------------------------------ */
/* Contexts and queues                                                 */

static uint64_t context_hash(const struct graph *g, uint32_t id)
{
	return mix(id ^ g->key[0], g->key[1]);
}

static struct context *context_find(const struct graph *g, uint32_t id)
{
	uint64_t hash = context_hash(g, id);

	for (struct link *l = table_first(&g->contexts, hash); l; l = l->next) {
		struct context *c = (struct context *)l;

		if (c->id == id)
			return c;
	}
	return NULL;
}

static struct context *context_get(struct graph *g, uint32_t id)
{
	struct context *c = context_find(g, id);

	if (c)
		return c;
	c = pool_get(&g->context_pool);
	if (!c)
		return NULL;
	*c = (struct context){ .id = id, .queue_limit = 64 };
	c->lingering_tail = &c->lingering;
	table_insert(&g->contexts, &c->link, context_hash(g, id));
	return c;
}

static inline bool is_dataflow(const struct arax_dispatch *d)
{
	return d->queue_flags & ARAX_QUEUE_DATAFLOW;
}

static uint64_t queue_hash(const struct graph *g, uint32_t context, uint32_t handle)
{
	return mix(((uint64_t)context << 32 | handle) ^ g->key[2], g->key[3]);
}

static void queue_free(struct graph *g, struct queue *q)
{
	struct context *c = q->context;

	if (q->epoch)
		pool_put(&g->epoch_pool, q->epoch);
	if (g->last_queue == q)
		g->last_queue = NULL;
	table_remove(&g->queues, &q->link);
	if (q->prev)
		q->prev->next = q->next;
	else
		c->queues = q->next;
	if (q->next)
		q->next->prev = q->prev;
	c->nr_queues--;
	pool_put(&g->queue_pool, q);
}

/*
 * Handles are never told to be closed, so queues without tasks go once there
 * are twice as many as there were after the last sweep.
 */
static void sweep_queues(struct graph *g, struct context *c)
{
	uint64_t past = c->known > c->forgotten ? c->known : c->forgotten;
	struct queue *next;

	for (struct queue *q = c->queues; q; q = next) {
		next = q->next;
		if (q->live || q->fail > past || (q->epoch && q->epoch->fail > past))
			continue;
		queue_free(g, q);
	}
	c->queue_limit = c->nr_queues > 32 ? 2 * c->nr_queues : 64;
}

static struct queue *queue_create(struct graph *g, const struct arax_dispatch *d)
{
	struct context *c = context_get(g, d->context);
	struct queue *q;

	if (!c)
		return NULL;
	if (c->nr_queues >= c->queue_limit)
		sweep_queues(g, c);
	q = pool_get(&g->queue_pool);
	if (!q)
		return NULL;
	*q = (struct queue){
		.context = c, .handle = d->queue, .context_id = d->context
	};
	if (is_dataflow(d)) {
		q->epoch = pool_get(&g->epoch_pool);
		if (!q->epoch) {
			pool_put(&g->queue_pool, q);
			return NULL;
		}
		*q->epoch = (struct epoch){ 0 };
	}
	q->next = c->queues;
	if (q->next)
		q->next->prev = q;
	c->queues = q;
	c->nr_queues++;
	table_insert(&g->queues, &q->link, queue_hash(g, d->context, d->queue));
	return q;
}

/*
 * Handles are given again, perhaps for a queue of the other kind while tasks of the first one
 * are still there: those two are not one queue.
 */
static inline bool queue_is(const struct queue *q, const struct arax_dispatch *d)
{
	return q->handle == d->queue && q->context_id == d->context &&
	       !q->epoch == !is_dataflow(d);
}

static struct queue *queue_find(const struct graph *g, const struct arax_dispatch *d)
{
	struct link *l = table_first(&g->queues, queue_hash(g, d->context, d->queue));

	for (; l; l = l->next) {
		struct queue *q = (struct queue *)l;

		if (queue_is(q, d))
			return q;
	}
	return NULL;
}

static struct queue *queue_get(struct graph *g, const struct arax_dispatch *d)
{
	struct queue *q = g->last_queue;

	if (likely(q && queue_is(q, d)))
		return q;
	q = queue_find(g, d);
	if (!q)
		q = queue_create(g, d);
	if (q)
		g->last_queue = q;
	return q;
}

struct context *context_of(const struct graph *g, const struct arax_dispatch *d)
{
	const struct queue *q = g->last_queue;

	return likely(q && q->context_id == d->context) ? q->context : context_find(g, d->context);
}

/* ------------------------------------------------------------------ */
/* Nodes                                                               */

static void node_free(struct graph *g, struct node *n)
{
	if (n->blob_class >= 0)
		pool_put(&g->blob_pool[n->blob_class], n->blob);
	pool_put(&g->node_pool, n);
}

static void free_succs(struct graph *g, struct node *n)
{
	while (n->more) {
		struct edge_chunk *c = n->more;

		n->more = c->next;
		pool_put(&g->edge_pool, c);
	}
	n->nr_succs = 0;
}

static void list_append(struct node **head, struct node **tail, struct node *n)
{
	n->next = NULL;
	n->prev = *tail;
	if (*tail)
		(*tail)->next = n;
	else
		*head = n;
	*tail = n;
}

static void list_unlink(struct node **head, struct node **tail, struct node *n)
{
	if (n->prev)
		n->prev->next = n->next;
	else
		*head = n->next;
	if (n->next)
		n->next->prev = n->prev;
	else
		*tail = n->prev;
}

/* Where its arguments begin in a blob behind ranges and what is known of them; *@class: of the blob. */
static inline size_t blob_layout(const struct arax_dispatch *d, int *class)
{
	size_t room = d->nr_ranges * (sizeof(struct arax_dispatch_range) + sizeof(struct access));
	size_t at = (room + 15) & ~(size_t)15;
	size_t args = d->arg_len > ARAX_INLINE_ARGS ? d->arg_len : 0;

	*class = 0;
	while (blob_sizes[*class] < at + args)
		(*class)++;
	return at;
}

static inline bool needs_blob(const struct arax_dispatch *d)
{
	return unlikely(d->nr_ranges > NODE_RANGES || d->arg_len > ARAX_INLINE_ARGS);
}

/* Copies everything of the task; the entry may be overwritten afterwards. */
static inline struct node *node_create(struct graph *g, const struct arax_dispatch *d)
{
	const struct arax_dispatch_range *ranges = (const void *)(d + 1);
	unsigned int nr = d->nr_ranges;
	struct node *n = pool_get(&g->node_pool);
	uint32_t kernel;

	if (unlikely(!n))
		return NULL;
	/* The first bytes may have been written just now, and not in one piece. */
	n->pub.d.type = d->type;
	n->pub.d.opcode = d->opcode;
	n->pub.d.cells = d->cells;
	n->pub.d.tag = d->tag;
	memcpy(&n->pub.d.tenant, &d->tenant, sizeof(*d) - offsetof(struct arax_dispatch, tenant));
	n->blob_class = -1;
	n->access = n->inline_access;
	n->pub.ranges = n->inline_ranges;
	n->pub.args = n->pub.d.args;
	if (needs_blob(d)) {
		int class;
		size_t at = blob_layout(d, &class);
		char *blob = pool_get(&g->blob_pool[class]);

		if (!blob) {
			pool_put(&g->node_pool, n);
			return NULL;
		}
		n->blob = blob;
		n->blob_class = class;
		memcpy(blob, ranges, nr * sizeof(*ranges));
		n->pub.ranges = (void *)blob;
		n->access = (void *)(blob + nr * sizeof(*ranges));
		if (d->arg_len > ARAX_INLINE_ARGS) {
			memcpy(blob + at, ranges + nr, d->arg_len);
			n->pub.args = blob + at;
		}
	} else {
		for (unsigned int i = 0; i < nr; i++)
			n->inline_ranges[i] = ranges[i];
	}
	n->mark = 0;
	/* One wait is our own, until all others are known. */
	n->waits = 1;
	n->state = GRAPH_WAITING;
	n->flags = (is_dataflow(d) ? NODE_DATAFLOW : 0) |
		   (d->queue_flags & ARAX_QUEUE_CONTINUE ? NODE_CONTINUE : 0);
	n->nr_access = 0;
	n->nr_succs = 0;
	n->result = 0;
	n->origin = 0;
	n->fail = 0;
	n->more = NULL;
	n->epoch = NULL;
	n->pub.prev = NULL;
	n->pub.sched.flow = NULL;
	n->pub.sched.kind = 0;
	n->pub.sched.booked_ns = 0;
	n->pub.sched.part = 0;
	n->pub.sched.outlook = 0;
	n->pub.sched.place = g->params.place;
	kernel = g->params.kernels && d->kernel <= g->params.last_kernel ?
		 g->params.kernels[d->kernel] : 0;
	n->pub.sched.kernel = kernel & ~GRAPH_KERNEL_WORK;
	n->pub.sched.work = 0;
	if (unlikely(kernel & GRAPH_KERNEL_WORK))
		n->pub.sched.work = g->params.work(g->params.work_arg, &n->pub);
	n->pub.priv = NULL;
	n->pub.losses = 0;
	n->pub.fetched = false;
	n->pub.foreseen = false;
	n->pub.moved = 0;
	n->pub.declined = 0;
	return n;
}

/* ------------------------------------------------------------------ */
/* Dependencies                                                        */

/* @n won't run, because of something that failed already (unless continuing). */
static void doom(struct node *n, int result, uint64_t origin)
{
	if (n->flags & (NODE_DOOMED | NODE_CONTINUE))
		return;
	n->flags |= NODE_DOOMED;
	n->result = result;
	n->origin = origin;
}

/* @n depends on what has failed: as number @fail, because of @origin. */
static void fail_with(struct node *n, uint64_t origin, uint64_t fail)
{
	if (n->known >= fail || n->flags & NODE_CONTINUE)
		return;
	/* Who depends on @n is exempt only if he knows of all that it comes from. */
	if (n->fail < fail)
		n->fail = fail;
	doom(n, -ECANCELED, origin);
}

/* A task failed by itself. */
static uint64_t next_failure(struct context *c, uint64_t tag)
{
	/* 0 means none where it is told by its lower half. */
	if (!(uint32_t)++c->failures)
		c->failures++;
	c->last_failure = tag;
	return c->failures;
}

/* @n failed by itself, and its completion is the next to be committed. */
static void count_failure(struct node *n)
{
	n->fail = next_failure(n->context, n->pub.d.tag);
}

static uint64_t failure_of(const struct node *n)
{
	return n->origin ? n->origin : n->pub.d.tag;
}

void node_fence(struct graph *g, struct node *n)
{
	if (n != g->adding || n->flags & NODE_FENCED)
		return;
	n->flags |= NODE_FENCED;
	n->waits++;
	g->stats.fences++;
	fail_with(n, n->context->last_failure, n->context->failures);
}

/* False: it waits for all earlier ones instead. */
static inline bool may_have_edge(struct graph *g, struct node *n)
{
	if (unlikely(n->flags & NODE_FENCED))
		return false;
	if (likely(g->edges_left--))
		return true;
	node_fence(g, n);
	return false;
}

/* @n, which waits for @pred for order alone, unless it has a fence instead, fails with it as well. */
static void strengthen(struct node *n, struct node *pred)
{
	uint32_t last = pred->nr_succs - 1;
	struct edge *e;

	if (!pred->nr_succs)
		return;
	/* Who is being added has the last one. */
	e = last < NODE_SUCCS ? &pred->succs[last] : &pred->more_last->to[(last - NODE_SUCCS) % 15];
	if (edge_node(*e) == n)
		e->bits = (uintptr_t)n;
}

void node_depend(struct graph *g, struct node *n, struct node *pred, bool order)
{
	const struct edge edge = { (uintptr_t)n | (order ? EDGE_ORDER : 0) };
	const uint64_t before = pred->mark - 2 * n->pub.seq;
	struct edge_chunk *c;
	uint32_t at;

	/* There is an edge already, and it is no weaker. */
	if (pred == n || before <= order)
		return;
	pred->mark = 2 * n->pub.seq + order;
	if (unlikely(pred->state == GRAPH_ENDED)) {
		if (!order)
			fail_with(n, failure_of(pred), pred->fail);
		return;
	}
	if (unlikely(before == 1)) {
		strengthen(n, pred);
		return;
	}
	if (n == g->adding && !may_have_edge(g, n))
		return;
	at = pred->nr_succs;
	if (at < NODE_SUCCS) {
		pred->succs[at] = edge;
	} else {
		at = (at - NODE_SUCCS) % 15;
		c = pred->more_last;
		if (!at) {
			c = pool_get(&g->edge_pool);
			if (!c) {
				/* No memory for a line: then wait for all. */
				node_fence(g, n);
				return;
			}
			c->next = NULL;
			if (pred->more)
				pred->more_last->next = c;
			else
				pred->more = c;
			pred->more_last = c;
		}
		c->to[at] = edge;
	}
	pred->nr_succs++;
	n->waits++;
	g->stats.edges++;
	if (unlikely(g->params.edge))
		g->params.edge(g->params.edge_arg, &pred->pub, &n->pub);
}

static inline void depend_on_queue(struct graph *g, struct node *n)
{
	struct queue *q = n->queue;

	if (q->tail)
		node_depend(g, n, q->tail, false);
	else if (unlikely(q->fail))
		fail_with(n, q->fail_origin, q->fail);
}

static void add_ordered(struct graph *g, struct node *n)
{
	depend_on_queue(g, n);
	n->queue->tail = n;
}

static void add_dataflow(struct graph *g, struct node *n)
{
	struct queue *q = n->queue;
	struct epoch *e = q->epoch;

	if (likely(!(n->pub.d.flags & ARAX_TASK_BARRIER))) {
		depend_on_queue(g, n);
		n->epoch = e;
		e->live++;
		return;
	}
	/* The barrier opens the next epoch; it was reserved. */
	depend_on_queue(g, n);
	fail_with(n, e->fail_origin, e->fail);
	q->epoch = pool_get(&g->epoch_pool);
	*q->epoch = (struct epoch){ .live = 1 };
	n->epoch = q->epoch;
	q->tail = n;
	if (e->live) {
		e->waiter = n;
		n->waits++;
	} else {
		pool_put(&g->epoch_pool, e);
	}
}

static bool index_old(struct graph *g, struct node *n)
{
	if (!index_reserve(g, n->pub.d.nr_ranges))
		return false;
	index_add(g, n);
	return true;
}

static void index_none(struct graph *g, struct context *c)
{
	for (struct node *n = c->lingering; n; n = n->next) {
		index_remove(g, n);
		n->nr_access = 0;
	}
	for (struct node *n = c->head; n; n = n->live_next) {
		index_remove(g, n);
		n->nr_access = 0;
	}
}

/* From now on the context's ranges matter: index what is there already.  False: no memory. */
static bool start_tracking(struct graph *g, struct context *c)
{
	bool ok = true;

	/* For all of them together: where they were not compared they count as mixed. */
	g->rows_left = GRAPH_MAX_ROWS;
	for (struct node *n = c->lingering; n && ok; n = n->next)
		ok = index_old(g, n);
	for (struct node *n = c->head; n && ok; n = n->live_next)
		ok = index_old(g, n);
	c->tracks = ok;
	if (!ok)
		index_none(g, c);
	return ok;
}

/* ------------------------------------------------------------------ */
/* The end of a node                                                   */

static void report(struct graph *g, struct node *n)
{
	/* graph_add() reserved a record for each live node. */
	struct done_record *r = pool_get(&g->done_pool);

	if (!n->origin)
		count_failure(n);
	r->next = NULL;
	r->done = (struct graph_done){
		.tag = n->pub.d.tag,
		.origin = n->origin,
		.submit_ns = n->pub.d.submit_ns,
		.tenant = n->pub.d.tenant,
		.context = n->pub.d.context,
		.result = n->result,
		.failure = n->origin ? 0 : (uint32_t)n->fail,
	};
	*g->done_tail = r;
	g->done_tail = &r->next;
	if (g->params.ended)
		g->params.ended(g->params.ended_arg, &n->pub, &r->done);
	n->flags |= NODE_REPORTED;
	g->slots[ARAX_TAG_SLOT(n->pub.d.tag)] = NULL;
	if (n->flags & NODE_HEAPED)
		heap_remove(g, n);
	g->stats.canceled++;
}

/* @n waits for one thing less. */
static void release(struct graph *g, struct node *n)
{
	if (--n->waits)
		return;
	/* It follows, and will come back from where it is. */
	if (unlikely(n->state == GRAPH_RUNNING))
		return;
	if (unlikely(n->flags & NODE_DOOMED)) {
		list_append(&g->work, &g->work_tail, n);
		return;
	}
	n->state = GRAPH_READY;
	list_append(&g->ready, &g->ready_tail, n);
}

static void unblock(struct graph *g, struct node *n)
{
	if (n->flags & NODE_BLOCKED) {
		n->flags &= ~NODE_BLOCKED;
		n->context->blocked--;
		release(g, n);
	}
}

static void release_succ(struct graph *g, struct node *n, struct edge e)
{
	struct node *s = edge_node(e);

	if (unlikely(n->result) && !(e.bits & EDGE_ORDER)) {
		fail_with(s, failure_of(n), n->fail);
		/* It won't run, so its timeline doesn't matter. */
		if (s->flags & NODE_DOOMED && s->flags & NODE_BLOCKED) {
			s->flags &= ~NODE_BLOCKED;
			s->context->blocked--;
			s->waits--;	/* not the last: n's is left */
		}
	}
	release(g, s);
}

static inline void end_in_queue(struct graph *g, struct node *n)
{
	struct queue *q = n->queue;
	struct epoch *e = n->epoch;

	q->live--;
	if (q->tail == n) {
		q->tail = NULL;
		q->fail = n->result ? n->fail : 0;
		q->fail_origin = failure_of(n);
	}
	if (!e)
		return;
	if (n->result) {
		if (e->waiter) {
			fail_with(e->waiter, failure_of(n), n->fail);
			if (e->waiter->flags & NODE_DOOMED)
				unblock(g, e->waiter);
		} else if (e->fail < n->fail) {
			e->fail = n->fail;
			e->fail_origin = failure_of(n);
		}
	}
	if (!--e->live && e != q->epoch) {
		release(g, e->waiter);
		pool_put(&g->epoch_pool, e);
	}
}

uint32_t node_weight(const struct node *n)
{
	size_t blob = n->blob_class >= 0 ? blob_sizes[n->blob_class] : 0;

	return 1 + (uint32_t)(blob / 1024) + n->pub.d.nr_ranges / 4;
}

static inline void end_in_context(struct graph *g, struct node *n)
{
	struct context *c = n->context;

	if (n->flags & NODE_REPORTED && n->flags & NODE_GHOST)
		c->ghosts -= node_weight(n);
	c->live--;
	if (unlikely(c->look == n))
		c->look = n->live_prev;
	if (n->live_next)
		n->live_next->live_prev = n->live_prev;
	else
		c->tail = n->live_prev;
	if (n->live_prev) {
		n->live_prev->live_next = n->live_next;
		return;
	}
	c->head = n->live_next;
	n = c->head;
	if (n && unlikely(n->flags & NODE_FENCED)) {
		n->flags &= ~NODE_FENCED;
		fail_with(n, c->last_failure, c->failures);
		if (n->flags & NODE_DOOMED)
			unblock(g, n);
		release(g, n);
	}
}

static void forget_first(struct graph *g, struct context *c)
{
	struct node *n = c->lingering;

	c->lingering = n->next;
	if (!c->lingering)
		c->lingering_tail = &c->lingering;
	c->kept_weight -= node_weight(n);
	g->kept_weight -= node_weight(n);
	g->stats.lingering--;
	index_remove(g, n);
	node_free(g, n);
}

/* Tasks to come may depend on @n, which has failed. */
static __attribute__((noinline)) void linger(struct graph *g, struct node *n)
{
	struct context *c = n->context;

	n->queue = NULL;	/* which may go before it */
	n->next = NULL;
	*c->lingering_tail = n;
	c->lingering_tail = &n->next;
	c->kept_weight += node_weight(n);
	g->kept_weight += node_weight(n);
	g->stats.lingering++;
	while (c->kept_weight > GRAPH_KEEP_FAILED && g->kept_weight > GRAPH_MAX_FAILED) {
		n = c->lingering;
		if (c->forgotten < n->fail) {
			c->forgotten = n->fail;
			c->forgotten_origin = failure_of(n);
		}
		forget_first(g, c);
	}
}

/* The failures of @c up to number @known concern nobody any more. */
static void settle(struct graph *g, struct context *c, uint64_t known)
{
	c->known = known;
	while (c->lingering && c->lingering->fail <= known)
		forget_first(g, c);
}

/* @n is over: those that waited for it may go on. */
static inline __attribute__((always_inline)) void end_one(struct graph *g, struct node *n)
{
	uint32_t nr = n->nr_succs;

	n->state = GRAPH_ENDED;
	if (nr) {
		struct edge_chunk *c = n->more;
		uint32_t first = nr < NODE_SUCCS ? nr : NODE_SUCCS;

		for (uint32_t i = 0; i < first; i++)
			release_succ(g, n, n->succs[i]);
		for (uint32_t i = 0; i < nr - first; i++) {
			if (i && i % 15 == 0)
				c = c->next;
			release_succ(g, n, c->to[i % 15]);
		}
		free_succs(g, n);
	}
	end_in_queue(g, n);
	end_in_context(g, n);
	g->stats.live--;
	if (unlikely(n->result && n->fail > n->context->known)) {
		linger(g, n);
		return;
	}
	index_remove(g, n);
	node_free(g, n);
}

/* Ends the doomed ones that nothing holds any more; a loop, as chains are long. */
static __attribute__((noinline)) void end_doomed(struct graph *g)
{
	while (g->work) {
		struct node *n = g->work;

		g->work = n->next;
		if (!g->work)
			g->work_tail = NULL;
		else
			g->work->prev = NULL;
		if (!(n->flags & NODE_REPORTED))
			report(g, n);
		end_one(g, n);
	}
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

static inline int check(const struct graph *g, const struct arax_dispatch *d)
{
	const struct arax_dispatch_range *r = (const void *)(d + 1);
	size_t bytes = sizeof(*d) + d->nr_ranges * sizeof(*r);
	const struct arax_dispatch_range *end = r + d->nr_ranges;
	uint64_t access = d->access;
	struct shape shape;

	if (d->arg_len > ARAX_INLINE_ARGS)
		bytes += d->arg_len;
	if (d->type != ARAX_DISPATCH_TASK || d->nr_ranges > ARAX_MAX_RANGES ||
	    d->arg_len > ARAX_MAX_ARGS ||
	    (size_t)d->cells * ARAX_CELL_SIZE < bytes ||
	    ARAX_TAG_SLOT(d->tag) >= g->nr_slots)
		return -EINVAL;
	for (; r < end; r++, access >>= 2) {
		if (unlikely(!(access & ARAX_INOUT)))
			return -EINVAL;
		/* Of a single row there is no more to be said. */
		if (likely(r->count == 1) ? (r->offset | r->length) >> 61 :
		    shape_from_range(&shape, r) < 0)
			return -EINVAL;
	}
	return 0;
}

/* Extended to what they are counted by here; none of what could not be true. */
static uint64_t known_failures(const struct context *c, const struct arax_dispatch *d)
{
	uint32_t unknown = (uint32_t)c->failures - d->known;

	return unknown < c->failures ? c->failures - unknown : 0;
}

/* What is only wanted done by then doesn't fail. */
static bool fails_late(const struct arax_dispatch *d)
{
	return d->deadline_ns && d->deadline_ns != ARAX_DEADLINE_NONE &&
	       !(d->flags & ARAX_DISPATCH_TARGET);
}

/* A new queue takes an epoch, and a barrier another one. */
static inline bool reserve(struct graph *g, const struct arax_dispatch *d)
{
	return index_reserve(g, d->nr_ranges) && pool_reserve(&g->epoch_pool, 2) &&
	       pool_reserve(&g->done_pool, g->stats.live + 1);
}

bool graph_is_large(const struct graph *g)
{
	return g->spans.used > LARGE_INDEX;
}

unsigned int graph_expect(struct graph *g, const struct arax_dispatch *const *d, unsigned int n)
{
	g->expected = graph_is_large(g) ? expect_entries(g, d, n) : 0;
	return g->expected;
}

int graph_add(struct graph *g, const struct arax_dispatch *d)
{
	const bool late = unlikely(fails_late(d));
	int err = check(g, d);
	struct context *c;
	struct queue *q;
	struct node *n;

	if (unlikely(err))
		return err;
	if (unlikely(g->slots[ARAX_TAG_SLOT(d->tag)]))
		return -EEXIST;
	/* All that can fail comes first. */
	if (!reserve(g, d) || (late && !heap_reserve(g)))
		return -ENOMEM;
	q = queue_get(g, d);
	if (!q)
		return -ENOMEM;
	n = node_create(g, d);
	if (unlikely(!n))
		return -ENOMEM;

	c = q->context;
	n->known = known_failures(c, d);
	if (unlikely(n->known > c->known))
		settle(g, c, n->known);
	if (unlikely(n->flags & NODE_DATAFLOW && !c->tracks) &&
	    (!start_tracking(g, c) || !index_reserve(g, d->nr_ranges))) {
		node_free(g, n);
		return -ENOMEM;
	}
	n->pub.seq = ++g->seq;
	n->queue = q;
	n->context = c;
	q->live++;

	g->rows_left = GRAPH_MAX_ROWS;
	g->edges_left = GRAPH_MAX_EDGES;
	g->adding = n;
	if (n->flags & NODE_DATAFLOW)
		add_dataflow(g, n);
	else
		add_ordered(g, n);
	if (c->tracks)
		index_add(g, n);
	fail_with(n, c->forgotten_origin, c->forgotten);
	g->adding = NULL;
	n->live_next = NULL;
	n->live_prev = c->tail;
	if (c->tail)
		c->tail->live_next = n;
	else
		c->head = n;
	c->tail = n;
	c->live++;
	if (unlikely(n->flags & NODE_FENCED) && c->head == n) {
		n->flags &= ~NODE_FENCED;
		n->waits--;
	}
	if ((d->flags & ARAX_DISPATCH_BLOCKED || unlikely(d->error)) &&
	    !(n->flags & NODE_DOOMED)) {
		n->flags |= NODE_BLOCKED;
		n->waits++;
		c->blocked++;
	}
	g->slots[ARAX_TAG_SLOT(n->pub.d.tag)] = n;
	if (late)
		heap_push(g, n);
	g->stats.added++;
	g->stats.live++;
	release(g, n);
	if (unlikely(g->work))
		end_doomed(g);
	return 0;
}

uint32_t graph_refuse(struct graph *g, const struct arax_dispatch *d)
{
	struct context *c = context_get(g, d->context);

	if (!c)
		return 0;
	c->forgotten = next_failure(c, d->tag);
	c->forgotten_origin = d->tag;
	return (uint32_t)c->forgotten;
}

static struct node *find(const struct graph *g, uint64_t tag)
{
	uint32_t slot = ARAX_TAG_SLOT(tag);
	struct node *n;

	if (slot >= g->nr_slots)
		return NULL;
	n = g->slots[slot];
	return n && n->pub.d.tag == tag ? n : NULL;
}

/* Of one that is like another which was sound: what can still be wrong. */
static inline bool is_sound(const struct graph *g, const struct arax_dispatch *d)
{
	const struct arax_dispatch_range *r = (const void *)(d + 1), *end = r + d->nr_ranges;

	for (; r < end; r++)
		if (unlikely(r->offset >> 61))
			return false;
	return likely(ARAX_TAG_SLOT(d->tag) < g->nr_slots);
}

static bool reserve_node(struct graph *g, const struct arax_dispatch *d)
{
	int class;

	if (needs_blob(d)) {
		blob_layout(d, &class);
		if (!pool_reserve(&g->blob_pool[class], 1))
			return false;
	}
	return pool_reserve(&g->node_pool, 1);
}

bool graph_is_free(struct graph *g, const struct arax_dispatch *d, bool alike)
{
	const struct queue *q = g->last_queue;
	const struct context *c;

	if (!likely(q && queue_is(q, d))) {
		q = queue_find(g, d);
		if (!q)
			return false;
	}
	c = q->context;
	return !c->live && !c->lingering && known_failures(c, d) >= c->failures &&
	       (likely(alike) ? is_sound(g, d) : !check(g, d)) && reserve(g, d) &&
	       reserve_node(g, d);
}

struct graph_node *graph_add_running(struct graph *g, const struct arax_dispatch *d)
{
	struct node *n = graph_add(g, d) ? NULL : find(g, d->tag);

	if (!n)
		return NULL;
	if (n->state == GRAPH_READY)
		list_unlink(&g->ready, &g->ready_tail, n);
	n->state = GRAPH_RUNNING;
	return &n->pub;
}

uint64_t graph_live(const struct graph *g)
{
	return g->stats.live;
}

uint32_t graph_live_beside(const struct graph_node *node)
{
	const struct node *n = node_of((struct graph_node *)node);

	return n->context ? n->context->live : 0;
}

uint64_t graph_last_seq(const struct graph *g)
{
	return g->seq;
}

struct graph_node *graph_pop_ready(struct graph *g)
{
	struct node *n = g->ready;

	if (!n)
		return NULL;
	g->ready = n->next;
	if (g->ready)
		g->ready->prev = NULL;
	else
		g->ready_tail = NULL;
	n->state = GRAPH_POPPED;
	return &n->pub;
}

bool graph_has_ready(const struct graph *g)
{
	return g->ready != NULL;
}

void graph_start(struct graph *g, struct graph_node *node)
{
	node_of(node)->state = GRAPH_RUNNING;
}

void graph_stop(struct graph *g, struct graph_node *node)
{
	struct node *n = node_of(node);

	(void)g;
	n->state = n->waits ? GRAPH_WAITING : GRAPH_POPPED;
}

bool graph_may_follow(const struct graph_node *node, uint32_t runs)
{
	const struct node *n = node_of((struct graph_node *)node);

	return n->state == GRAPH_WAITING && n->waits == runs &&
	       !(n->flags & (NODE_DOOMED | NODE_CONTINUE | NODE_BLOCKED | NODE_FENCED));
}

bool graph_is_early(const struct graph_node *node)
{
	const struct node *n = node_of((struct graph_node *)node);

	return n->waits && !(n->flags & NODE_GONE);
}

int graph_fate(const struct graph_node *node, uint64_t *origin)
{
	const struct node *n = node_of((struct graph_node *)node);

	if (likely(!(n->flags & NODE_DOOMED)))
		return 0;
	*origin = n->origin;
	return n->result;
}

/* @n ends from outside: that is not subject to ARAX_QUEUE_CONTINUE. */
static void doom_alone(struct node *n, int result)
{
	if (n->flags & NODE_DOOMED)
		return;
	n->flags |= NODE_DOOMED;
	n->result = result;
	n->origin = 0;
}

void graph_doom(struct graph *g, struct graph_node *node, int result)
{
	(void)g;
	doom_alone(node_of(node), result);
}

bool graph_complete(struct graph *g, struct graph_node *node, int result, uint32_t *failure)
{
	struct node *n = node_of(node);

	if (n->flags & NODE_HEAPED)
		heap_remove(g, n);
	if (unlikely(n->flags & NODE_GONE)) {
		if (result)
			*failure = 0;
		node_free(g, n);
		g->stats.live--;
		return false;
	}
	g->slots[ARAX_TAG_SLOT(n->pub.d.tag)] = NULL;
	g->stats.completed++;
	if (unlikely(n->flags & NODE_DOOMED)) {
		*failure = 0;
	} else {
		n->result = result;
		if (unlikely(result)) {
			count_failure(n);
			*failure = (uint32_t)n->fail;
		}
	}
	end_one(g, n);
	if (unlikely(g->work))
		end_doomed(g);
	return true;
}

bool graph_has_done(const struct graph *g)
{
	return g->done;
}

bool graph_pop_done(struct graph *g, struct graph_done *done)
{
	struct done_record *r = g->done;

	if (!r)
		return false;
	*done = r->done;
	g->done = r->next;
	if (!g->done)
		g->done_tail = &g->done;
	pool_put(&g->done_pool, r);
	return true;
}

struct graph_node *graph_find(struct graph *g, uint64_t tag)
{
	struct node *n = find(g, tag);

	return n ? &n->pub : NULL;
}

struct graph_node *graph_at(struct graph *g, uint32_t slot)
{
	struct node *n = slot < g->nr_slots ? g->slots[slot] : NULL;

	return n ? &n->pub : NULL;
}

enum graph_state graph_node_state(const struct graph_node *node)
{
	return node_of((struct graph_node *)node)->state;
}

bool graph_node_gone(const struct graph_node *node)
{
	return node_of((struct graph_node *)node)->flags & NODE_GONE;
}

bool graph_is_parked(const struct graph_node *node)
{
	const struct node *n = node_of((struct graph_node *)node);

	return n->flags & NODE_BLOCKED || (n->state == GRAPH_WAITING && n->context->blocked);
}

bool graph_node_canceled(const struct graph_node *node)
{
	return node_of((struct graph_node *)node)->flags & NODE_CANCELED;
}

int graph_unblock(struct graph *g, uint64_t tag, int error)
{
	struct node *n = find(g, tag);

	if (!n || !(n->flags & NODE_BLOCKED))
		return -ENOENT;
	if (error)
		doom(n, error, 0);
	unblock(g, n);
	end_doomed(g);
	return 0;
}

/* Ends @n, which has not started, though it would be free to run. */
static void end_early(struct graph *g, struct node *n, int result)
{
	doom_alone(n, result);
	switch (n->state) {
	case GRAPH_POPPED:
		if (g->params.drop)
			g->params.drop(g->params.drop_arg, &n->pub);
		list_append(&g->work, &g->work_tail, n);
		break;
	case GRAPH_READY:
		list_unlink(&g->ready, &g->ready_tail, n);
		list_append(&g->work, &g->work_tail, n);
		break;
	default:
		unblock(g, n);
		/*
		 * What came after it must still wait for what came before it,
		 * so it keeps its place.  Only so many may: else a client could
		 * fill our memory with canceled tasks behind a slow one.
		 */
		if (n->waits && n->context->ghosts + node_weight(n) <= MAX_GHOSTS) {
			n->context->ghosts += node_weight(n);
			n->flags |= NODE_GHOST;
			report(g, n);
		}
	}
	end_doomed(g);
}

int graph_cancel(struct graph *g, uint64_t tag)
{
	struct node *n = find(g, tag);

	if (!n)
		return -ENOENT;
	if (n->state == GRAPH_RUNNING) {
		n->flags |= NODE_CANCELED;
		return -EBUSY;
	}
	end_early(g, n, -ECANCELED);
	return 0;
}

void graph_cancel_all(struct graph *g, uint32_t context)
{
	const struct context *c = context_find(g, context);
	struct node *before;

	if (!c)
		return;
	/* From the newest on: with a task only those end that came after it. */
	for (struct node *n = c->tail; n; n = before) {
		before = n->live_prev;
		if (n->state != GRAPH_RUNNING && !(n->flags & NODE_REPORTED))
			end_early(g, n, -ECANCELED);
	}
}

struct graph_node *graph_expire(struct graph *g, uint64_t now_ns)
{
	while (g->heap_used && g->heap[0]->pub.d.deadline_ns <= now_ns) {
		struct node *n = g->heap[0];

		heap_remove(g, n);
		if (n->state == GRAPH_RUNNING)
			return &n->pub;
		end_early(g, n, -ETIMEDOUT);
	}
	return NULL;
}

void graph_context_gone(struct graph *g, uint32_t id)
{
	struct context *c = context_find(g, id);
	struct node *next;

	if (!c)
		return;
	settle(g, c, UINT64_MAX);
	index_drop_context(g, c);
	for (struct node *n = c->head; n; n = next) {
		struct epoch *e = n->epoch;

		next = n->live_next;
		free_succs(g, n);
		n->nr_access = 0;
		if (e && !--e->live && e != n->queue->epoch)
			pool_put(&g->epoch_pool, e);
		if (n->state == GRAPH_RUNNING) {
			g->slots[ARAX_TAG_SLOT(n->pub.d.tag)] = NULL;
			n->flags |= NODE_GONE;
			n->queue = NULL;
			n->context = NULL;
			continue;
		}
		if (n->state == GRAPH_READY)
			list_unlink(&g->ready, &g->ready_tail, n);
		else if (n->state == GRAPH_POPPED && g->params.drop)
			g->params.drop(g->params.drop_arg, &n->pub);
		/* Of most that wait nobody was told before: see MAX_GHOSTS. */
		if (!(n->flags & NODE_REPORTED)) {
			doom_alone(n, -ECANCELED);
			report(g, n);
		}
		node_free(g, n);
		g->stats.live--;
	}
	while (c->queues)
		queue_free(g, c->queues);
	table_remove(&g->contexts, &c->link);
	pool_put(&g->context_pool, c);
}
