/* SPDX-License-Identifier: MIT */
/* inspect.c - what the graph shows of itself: statistics, a picture, a check */
#include <inttypes.h>

#include "daemon/graph/internal.h"

void graph_stats(const struct graph *g, struct graph_stats *stats)
{
	const struct pool *pools[] = {
		&g->node_pool, &g->span_pool, &g->buffer_pool, &g->tree_pool,
		&g->edge_pool, &g->queue_pool, &g->context_pool, &g->epoch_pool,
		&g->done_pool,
	};

	*stats = g->stats;
	stats->contexts = g->contexts.used;
	stats->buffers = g->buffers.used;
	stats->spans = g->spans.used;
	for (unsigned int i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
		stats->memory += pools[i]->bytes;
	for (int i = 0; i < BLOB_CLASSES; i++)
		stats->memory += g->blob_pool[i].bytes;
	stats->memory += (g->spans.mask + g->buffers.mask + g->queues.mask +
			  g->contexts.mask + 4) * sizeof(struct link *);
	stats->memory += g->heap_size * sizeof(g->heap[0]);
}

/* ------------------------------------------------------------------ */
/* Iteration                                                           */

static struct context *first_context(const struct graph *g, uint64_t *bucket)
{
	for (; *bucket <= g->contexts.mask; ++*bucket) {
		if (g->contexts.buckets[*bucket])
			return (struct context *)g->contexts.buckets[*bucket];
	}
	return NULL;
}

static struct context *next_context(const struct graph *g, struct context *c,
				    uint64_t *bucket)
{
	if (c->link.next)
		return (struct context *)c->link.next;
	++*bucket;
	return first_context(g, bucket);
}

static struct edge edge_at(const struct node *n, uint32_t i)
{
	const struct edge_chunk *c = n->more;

	if (i < NODE_SUCCS)
		return n->succs[i];
	for (i -= NODE_SUCCS; i >= 15; i -= 15)
		c = c->next;
	return c->to[i];
}

static struct node *succ(const struct node *n, uint32_t i)
{
	return edge_node(edge_at(n, i));
}

uint32_t graph_successors(const struct graph_node *node, uint64_t *seqs, uint32_t max)
{
	const struct node *n = node_of((struct graph_node *)node);
	uint32_t i;

	for (i = 0; i < n->nr_succs && i < max; i++)
		seqs[i] = succ(n, i)->pub.seq;
	return n->nr_succs;
}

void graph_each_successor(const struct graph_node *node,
			  void (*each)(void *arg, const struct graph_node *node, uint32_t waits),
			  void *arg)
{
	const struct node *n = node_of((struct graph_node *)node);
	const struct edge_chunk *c = n->more;

	for (uint32_t i = 0; i < n->nr_succs; i++) {
		const struct node *s;

		if (i < NODE_SUCCS) {
			s = edge_node(n->succs[i]);
		} else {
			uint32_t at = (i - NODE_SUCCS) % 15;

			if (i > NODE_SUCCS && !at)
				c = c->next;
			s = edge_node(c->to[at]);
		}
		each(arg, &s->pub, s->waits);
	}
}

bool graph_only_orders(const struct graph_node *node, const struct graph_node *successor)
{
	const struct node *n = node_of((struct graph_node *)node);
	const struct node *s = node_of((struct graph_node *)successor);

	for (uint32_t i = 0; i < n->nr_succs; i++)
		if (edge_at(n, i).bits == ((uintptr_t)s | EDGE_ORDER))
			return true;
	return false;
}

bool graph_look_back(const struct graph_node *node, bool anew,
		     bool (*each)(void *arg, struct graph_node *node), void *arg)
{
	struct context *c = node_of((struct graph_node *)node)->context;
	bool more = true;

	if (!c)
		return true;
	if (anew)
		c->look = c->tail;
	while (c->look && more) {
		struct node *n = c->look;

		c->look = n->live_prev;
		if (!(n->flags & NODE_REPORTED))
			more = each(arg, &n->pub);
	}
	return !c->look;
}

void graph_each_live(struct graph *g, void (*each)(void *arg, struct graph_node *node),
		     void *arg)
{
	uint64_t bucket = 0;

	for (struct context *c = first_context(g, &bucket); c; c = next_context(g, c, &bucket))
		for (struct node *n = c->head; n; n = n->live_next)
			if (!(n->flags & NODE_REPORTED))
				each(arg, &n->pub);
}

/* ------------------------------------------------------------------ */
/* dot                                                                 */

void graph_dump_dot(const struct graph *g, FILE *out)
{
	static const char *const colours[] = {
		[GRAPH_WAITING] = "grey", [GRAPH_READY] = "yellow",
		[GRAPH_POPPED] = "orange", [GRAPH_RUNNING] = "green",
		[GRAPH_ENDED] = "red",
	};
	uint64_t bucket = 0;

	fputs("digraph arax {\n\tnode [style=filled, shape=box];\n", out);
	for (struct context *c = first_context(g, &bucket); c;
	     c = next_context(g, c, &bucket)) {
		fprintf(out, "\tsubgraph cluster_%u {\n\t\tlabel=\"context %u\";\n",
			c->id, c->id);
		for (struct node *n = c->head; n; n = n->live_next)
			fprintf(out, "\t\tn%" PRIu64 " [label=\"%" PRIx64
				"\\nqueue %x kernel %u\\nwaits %u%s%s\", fillcolor=%s];\n",
				n->pub.seq, (uint64_t)n->pub.d.tag, n->pub.d.queue,
				n->pub.d.kernel, n->waits,
				n->flags & NODE_BLOCKED ? " blocked" : "",
				n->flags & NODE_FENCED ? " fenced" : "",
				colours[n->flags & NODE_DOOMED ? GRAPH_ENDED : n->state]);
		fputs("\t}\n", out);
		for (struct node *n = c->head; n; n = n->live_next) {
			for (uint32_t i = 0; i < n->nr_succs; i++)
				fprintf(out, "\tn%" PRIu64 " -> n%" PRIu64 "%s;\n",
					n->pub.seq, succ(n, i)->pub.seq,
					edge_at(n, i).bits & EDGE_ORDER ? " [style=dashed]" : "");
		}
	}
	fputs("}\n", out);
}

/* ------------------------------------------------------------------ */
/* The check                                                           */

#define EXPECT(cond)							\
	do {								\
		if (!(cond)) {						\
			fprintf(stderr, "graph: %s:%d: %s does not hold\n", \
				__FILE__, __LINE__, #cond);		\
			bad++;						\
		}							\
	} while (0)

struct collect {
	const struct span *spans[512];
	unsigned int n;
};

static bool collect_span(void *arg, struct span *s)
{
	struct collect *c = arg;

	if (c->n < 512)
		c->spans[c->n++] = s;
	return true;
}

static int check_subtree(const struct tree_node *t, uint64_t low, uint64_t *end,
			 uint64_t *wend)
{
	int bad = 0;

	*end = *wend = 0;
	EXPECT(t->n > 0 && t->n <= TREE_FAN);
	for (unsigned int i = 0; i < t->n; i++) {
		uint64_t e, w;

		EXPECT(t->start[i] >= low);
		EXPECT(!i || t->start[i] >= t->start[i - 1]);
		if (t->leaf) {
			const struct span *s = t->child[i];

			EXPECT(s->leaf == t);
			EXPECT(s->shape.offset == t->start[i]);
			EXPECT(shape_end(&s->shape) == t->end[i]);
			EXPECT((t->writers >> i & 1) == s->may_write);
			w = s->may_write ? t->end[i] : 0;
			EXPECT(s->may_write || !span_has_writer(s));
		} else {
			const struct tree_node *child = t->child[i];

			EXPECT(child->parent == t);
			bad += check_subtree(child, t->start[i], &e, &w);
			EXPECT(e == t->end[i]);
			EXPECT(w == t->wend[i]);
		}
		*end = t->end[i] > *end ? t->end[i] : *end;
		*wend = w > *wend ? w : *wend;
	}
	for (unsigned int i = t->n; i < TREE_FAN; i++)
		EXPECT(t->start[i] == UINT64_MAX && !t->end[i] && (t->leaf || !t->wend[i]));
	/* So that what is opened next has none. */
	EXPECT(!(t->writers >> t->n));
	return bad;
}

static int check_span(const struct graph *g, const struct span *s)
{
	uint32_t writes = 0, users = !!s->writer;
	int bad = 0;

	(void)g;
	EXPECT(span_used(s) || (s->kept && !s->crowded));
	EXPECT(!s->writer || (s->writer->span == s && s->writer->write));
	for (const struct access *a = s->readers; a; a = a->next) {
		users++;
		EXPECT(a->span == s && !a->write && a->node->flags & NODE_DATAFLOW);
	}
	for (const struct access *a = s->ordered; a; a = a->next) {
		EXPECT(a->span == s && !(a->node->flags & NODE_DATAFLOW));
		users++;
		writes += a->write;
	}
	EXPECT(writes == s->ordered_writes);
	EXPECT(users == s->users);
	return bad;
}

static int check_buffer(const struct graph *g, struct buffer *b)
{
	struct collect c = { .n = 0 };
	uint64_t end, wend;
	int bad = 0;

	if (b->root) {
		EXPECT(!b->root->parent);
		bad += check_subtree(b->root, 0, &end, &wend);
		tree_walk(b->root, 0, UINT64_MAX, false, collect_span, &c);
		EXPECT(c.n == b->nr_spans || c.n == 512);
	} else {
		EXPECT(b->nr_spans > 0 && b->nr_spans <= BUFFER_FEW);
		for (unsigned int i = 0; i < b->nr_spans; i++)
			c.spans[c.n++] = b->few[i];
	}
	for (unsigned int i = 0; i < c.n; i++) {
		EXPECT(c.spans[i]->buffer == b);
		bad += check_span(g, c.spans[i]);
		for (unsigned int j = 0; j < i && !b->mixed; j++) {
			if (shape_overlap(&c.spans[i]->shape, &c.spans[j]->shape))
				EXPECT(c.spans[i]->crowded && c.spans[j]->crowded);
		}
	}
	return bad;
}

int graph_check(const struct graph *g)
{
	uint64_t bucket = 0, live = 0, lingering = 0, kept = 0, weight = 0;
	int bad = 0;

	for (struct context *c = first_context(g, &bucket); c;
	     c = next_context(g, c, &bucket)) {
		uint32_t ghosts = 0, in_queues = 0, in_context = 0, of_context = 0;
		uint64_t seq = 0;

		for (struct node *n = c->head; n; n = n->live_next) {
			in_context++;
			EXPECT(n->pub.seq > seq);
			seq = n->pub.seq;
			EXPECT(n->context == c);
			EXPECT(n->live_next ? n->live_next->live_prev == n : c->tail == n);
			EXPECT(n->state == GRAPH_RUNNING ||
			       (n->state == GRAPH_WAITING) == (n->waits > 0));
			EXPECT(n->state != GRAPH_ENDED);
			ghosts += n->flags & NODE_GHOST ? node_weight(n) : 0;
			EXPECT(n->flags & NODE_REPORTED ||
			       g->slots[ARAX_TAG_SLOT(n->pub.d.tag)] == n);
			for (uint32_t i = 0; i < n->nr_succs; i++) {
				EXPECT(succ(n, i)->pub.seq > n->pub.seq);
				EXPECT(succ(n, i)->waits > 0);
			}
			for (unsigned int i = 0; i < n->nr_access; i++)
				EXPECT(!n->access[i].span || n->access[i].node == n);
		}
		for (struct queue *q = c->queues; q; q = q->next)
			in_queues += q->live;
		EXPECT(in_queues == in_context);
		EXPECT(in_context == c->live);
		EXPECT(ghosts == c->ghosts);
		live += in_context;
		for (struct node *n = c->lingering; n; n = n->next) {
			EXPECT(n->state == GRAPH_ENDED && n->result);
			lingering++;
			of_context += node_weight(n);
		}
		EXPECT(of_context == c->kept_weight);
		weight += of_context;
		for (struct buffer *b = c->buffers; b; b = b->next)
			bad += check_buffer(g, b);
	}
	EXPECT(live <= g->stats.live);	/* the rest runs for gone contexts */
	EXPECT(live + lingering <= g->node_pool.used);
	EXPECT(g->stats.live + lingering == g->node_pool.used);
	EXPECT(lingering == g->stats.lingering);
	EXPECT(weight == g->kept_weight);
	for (const struct node *n = g->ready; n; n = n->next)
		EXPECT(n->state == GRAPH_READY);
	for (const struct span *s = g->kept; s; s = s->kept_next) {
		EXPECT(s->kept);
		kept++;
	}
	EXPECT(kept == g->nr_kept && kept <= KEPT_SPANS);
	EXPECT(g->spans.used == g->span_pool.used);
	EXPECT(g->buffers.used == g->buffer_pool.used);
	EXPECT(!g->work);
	for (uint32_t i = 0; i < g->heap_used; i++) {
		EXPECT(g->heap[i]->heap_index == i);
		EXPECT(!i || g->heap[(i - 1) / 2]->pub.d.deadline_ns <=
		       g->heap[i]->pub.d.deadline_ns);
	}
	return bad;
}
