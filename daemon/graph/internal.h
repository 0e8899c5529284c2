/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the graph's files share
 *
 *   graph.c	nodes, their life and their dependencies
 *   index.c	which ranges of which buffers are in use, and by whom
 *   expect.c	asks for the memory that tasks will need
 *   tree.c	the ranges of one buffer, found by overlap
 *   table.c	hash tables
 *   deadline.c	the heap of deadlines
 *   inspect.c	dump, check, statistics
 *   shape.c	the arithmetic of strided ranges
 *   pool.c	memory
 */
#ifndef ARAXD_GRAPH_INTERNAL_H
#define ARAXD_GRAPH_INTERNAL_H

#include "daemon/graph/graph.h"
#include "daemon/graph/pool.h"
#include "daemon/graph/shape.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

struct node;
struct span;
struct tree_node;

/* An object's place in a chained hash table; its first member. */
struct link {
	struct link *next;
	uint64_t hash;
};

struct table {
	struct link **buckets;
	uint64_t mask;
	uint64_t used;
};

/* ------------------------------------------------------------------ */
/* The index of ranges                                                 */

/**
 * struct access - one range of one task in the index
 * @span:	the shape that it is attached to; NULL: superseded, or not indexed
 * @next, @pprev: in the span's list of its class; a dataflow writer has none
 */
struct access {
	struct node *node;
	struct span *span;
	struct access *next;
	struct access **pprev;
	bool write;
};

/**
 * struct span - a distinct shape in use in one buffer of one context
 * @users:	accesses in it: the writer, the readers and the ordered ones
 * @writer:	the last dataflow task that writes it
 * @readers:	dataflow tasks that read it since
 * @ordered:	tasks of in-order queues that use it, latest first
 * @ordered_writes: of these, how many write it
 * @crowded:	another span may share bytes with this one.  Invariant: of two
 *		spans that do, both are crowded, or their buffer is mixed
 * @may_write:	the tree counts it among the spans with a writer
 *
 * @kept:	it is in the graph's list of these
 * @in_order:	there are ordered ones, or there were
 *
 * A span without accesses is removed; unless it is not crowded, then it is kept
 * for a while, because the next task probably uses the same shape.  It stays in
 * the list when it is in use again.
 */
struct span {
	struct link link;
	struct buffer *buffer;
	struct shape shape;
	struct access *writer;
	uint32_t users;
	bool crowded;
	bool may_write;
	bool kept;
	bool in_order;
	/* a cache line so far: all of it that a task looks at which only reads */
	struct access *readers;
	struct access *ordered;
	struct tree_node *leaf;
	struct span *kept_next, *kept_prev;
	uint32_t ordered_writes;
};

#define BUFFER_FEW	4

/**
 * struct buffer - the spans of one buffer in one context
 * @few, @nr_spans: all of them as long as there is no @root
 * @mixed:	every span counts as crowded
 */
struct buffer {
	struct link link;
	struct context *context;
	uint64_t id;
	struct tree_node *root;
	struct span *few[BUFFER_FEW];
	uint32_t nr_spans;
	bool mixed;
	struct buffer *next, *prev;	/* of the context */
};

/* ------------------------------------------------------------------ */
/* Contexts and queues                                                 */

/**
 * struct epoch - tasks of a dataflow queue between two barriers
 * @live:	of them, the first barrier included
 * @waiter:	the barrier that closes the epoch, if it waits
 * @fail_origin, @fail: the latest failure before there was a waiter; @fail 0: none
 */
struct epoch {
	uint32_t live;
	struct node *waiter;
	uint64_t fail_origin;
	uint64_t fail;
};

/**
 * struct queue - a queue that had a task lately, known by its handle and its kind
 * @tail:	in-order: last live task; dataflow: last live barrier
 * @fail_origin, @fail: of that one, if it failed and is gone
 */
struct queue {
	struct link link;
	struct context *context;
	uint32_t handle;
	uint32_t context_id;
	uint32_t live;
	struct node *tail;
	struct epoch *epoch;
	uint64_t fail_origin;
	uint64_t fail;
	struct queue *next, *prev;	/* of the context */
};

/**
 * struct context - one client's tasks
 * @head, @tail, @live: live tasks in order of submission; how many
 * @look:		where graph_look_back() goes on; NULL: it has been at all of them
 * @lingering:		failed tasks that tasks to come may depend on
 * @kept_weight:	of all these
 * @tracks:		ranges are indexed: it has used a dataflow queue
 * @ghosts:		weight of ended tasks that still keep others in order
 * @failures, @last_failure: how many tasks failed by themselves; the last one's tag
 * @known:		the last failure that a client's task was submitted knowing of
 * @forgotten:		failures up to this one stand for all tasks of the context
 */
struct context {
	struct link link;
	uint32_t id;
	bool tracks;
	uint32_t ghosts;
	uint32_t nr_queues;
	uint32_t queue_limit;
	uint32_t live;
	uint32_t blocked;	/* of these */
	struct node *head, *tail, *look;
	struct node *lingering, **lingering_tail;
	struct queue *queues;
	struct buffer *buffers;
	uint64_t failures;
	uint64_t last_failure;
	uint64_t known;
	uint64_t forgotten, forgotten_origin;
	uint32_t kept_weight;
};

/* Weight of one context's ended tasks that may keep their place; more report late. */
#define MAX_GHOSTS	1024

/* ------------------------------------------------------------------ */
/* Nodes                                                               */

#define NODE_RANGES	2	/* inline */
#define NODE_SUCCS	4	/* inline */

/*
 * A node that waits for another one; EDGE_ORDER: for its end alone, however that is.  The bit is in
 * the address as a node's first cache line has no room for it elsewhere.
 */
struct edge {
	uintptr_t bits;
};

#define EDGE_ORDER	1ul

struct edge_chunk {
	struct edge_chunk *next;
	struct edge to[15];
};

enum node_flags {
	NODE_DATAFLOW	= 0x01,
	NODE_CONTINUE	= 0x02,
	NODE_BLOCKED	= 0x04,	/* a wait is for its timeline */
	NODE_FENCED	= 0x08,	/* a wait is for all earlier of the context */
	NODE_DOOMED	= 0x10,	/* ends without running: @result, @origin */
	NODE_REPORTED	= 0x20,	/* ... and its end was reported already */
	NODE_GONE	= 0x40,	/* runs, but its context is gone */
	NODE_HEAPED	= 0x80,	/* has a place in the deadline heap */
	NODE_GHOST	= 0x100, /* reported while it still waits */
	NODE_CANCELED	= 0x200, /* while it ran */
};

struct node {
	uint64_t mark;		/* of the last task made to wait for it: its seq times 2, plus 1 if for order */
	uint32_t waits;
	uint16_t flags;
	uint8_t state;		/* enum graph_state */
	uint8_t nr_access;
	uint32_t nr_succs;
	int32_t result;
	uint64_t origin;
	struct edge succs[NODE_SUCCS];
	/* a cache line so far */
	struct edge_chunk *more, *more_last;
	struct queue *queue;
	struct context *context;
	struct epoch *epoch;
	struct node *next, *prev;	/* ready list; lingering list; work list */
	struct node *live_next, *live_prev;
	struct access *access;
	uint64_t fail;		/* of the context's failures the last one that it comes from */
	uint64_t known;		/* the last one that its client knew of */
	void *blob;
	uint32_t heap_index;
	int blob_class;		/* -1: none */
	struct access inline_access[NODE_RANGES];
	struct graph_node pub;
	struct arax_dispatch_range inline_ranges[NODE_RANGES];
};

/*
 * What it takes to keep one that has ended: one with few ranges and arguments is 1, and the largest is
 * some fifteen times as much.
 */
uint32_t node_weight(const struct node *n);

static inline struct node *node_of(struct graph_node *pub)
{
	return (struct node *)((char *)pub - offsetof(struct node, pub));
}

/* ------------------------------------------------------------------ */

struct done_record {
	struct done_record *next;
	struct graph_done done;
};

#define BLOB_CLASSES	3
#define KEPT_SPANS	1024
#define RECENT_SPANS	256

struct graph {
	/* touched for each task */
	struct queue *last_queue;
	struct node *ready, *ready_tail;
	uint64_t seq;
	struct node *adding;
	uint32_t rows_left;		/* that may be looked at for it */
	uint32_t edges_left;		/* that it may have, but to those that it supersedes */
	struct table spans;
	struct node **slots;
	struct span *recent[RECENT_SPANS];	/* the last one used, by its buffer; see index.c */
	uint64_t key[4];
	uint32_t expected;		/* tasks to come whose lines have been asked for */
	uint32_t room;			/* ranges for which the index' pools have room, or more */
	struct span *kept, *kept_tail;	/* those first that came first */
	uint32_t nr_kept;
	uint32_t nr_slots;
	struct pool node_pool, span_pool, buffer_pool;
	struct node *work, *work_tail;
	uint64_t kept_weight;		/* of lingering tasks */
	struct graph_stats stats;
	struct done_record *done, **done_tail;

	struct pool tree_pool, edge_pool, queue_pool, context_pool, epoch_pool;
	struct pool done_pool, blob_pool[BLOB_CLASSES];
	struct table buffers, queues, contexts;
	struct node **heap;
	uint32_t heap_used, heap_size;
	struct graph_params params;
};

/* Multiplies to 128 bits and folds: a keyed hash of two words. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline struct node *edge_node(struct edge e)
{
	return (struct node *)(e.bits & ~EDGE_ORDER);
}

/*
 * graph.c: makes @n wait for @pred, a node once only, and fail with it, unless it is to come behind it
 * for @order alone.  Of both that is the less.
 */
void node_depend(struct graph *g, struct node *n, struct node *pred, bool order);
/* graph.c: the context of an entry that has not been added; NULL: it has none yet. */
struct context *context_of(const struct graph *g, const struct arax_dispatch *d);
/* graph.c: makes @n, which is being added, wait for all earlier ones. */
void node_fence(struct graph *g, struct node *n);

/* table.c: grows when it can; its objects must be gone before table_fini() */
bool table_init(struct table *t, unsigned int bits);
void table_fini(struct table *t);
void table_grow(struct table *t);
void table_remove(struct table *t, struct link *l);

static inline struct link *table_first(const struct table *t, uint64_t hash)
{
	return t->buckets[hash & t->mask];
}

static inline void table_insert(struct table *t, struct link *l, uint64_t hash)
{
	/* Chains are short, as each link of one may be a line that is in memory only. */
	if (unlikely(2 * t->used > t->mask))
		table_grow(t);
	l->hash = hash;
	l->next = t->buckets[hash & t->mask];
	t->buckets[hash & t->mask] = l;
	t->used++;
}

/* index.c */
uint64_t index_hash(const struct graph *g, const struct context *c,
		    uint64_t buffer, const struct shape *s);

static inline uint64_t buffer_hash(const struct graph *g, const struct context *c, uint64_t id)
{
	return mix(id ^ g->key[0], (uint64_t)c->id ^ g->key[3]);
}

static inline struct buffer *buffer_find(const struct graph *g, const struct context *c,
					 uint64_t id)
{
	struct link *l = table_first(&g->buffers, buffer_hash(g, c, id));

	for (; l; l = l->next) {
		struct buffer *b = (struct buffer *)l;

		if (b->id == id && b->context == c)
			return b;
	}
	return NULL;
}

static inline bool span_is(const struct span *s, const struct context *c, uint64_t buffer,
			   const struct shape *shape)
{
	return shape_equal(&s->shape, shape) && s->buffer->id == buffer && s->buffer->context == c;
}

static inline struct span *span_find(const struct graph *g, const struct context *c,
				     uint64_t buffer, const struct shape *shape, uint64_t hash)
{
	for (struct link *l = table_first(&g->spans, hash); l; l = l->next) {
		struct span *s = (struct span *)l;

		if (l->hash == hash && likely(span_is(s, c, buffer, shape)))
			return s;
	}
	return NULL;
}

bool index_make_room(struct graph *g, unsigned int ranges);
static inline bool index_reserve(struct graph *g, unsigned int ranges)
{
	return likely(ranges <= g->room) || index_make_room(g, ranges);
}

/* Adds the ranges of @n and makes @n depend on what they conflict with. */
void index_add(struct graph *g, struct node *n);
/* The last access has left @s, which is not just kept for the next one. */
void index_retire(struct graph *g, struct span *s);
void index_drop_context(struct graph *g, struct context *c);

/* tree.c */
#define TREE_FAN	15
#define TREE_MAX_DEPTH	24

/**
 * struct tree_node - of a B+ tree ordered by start, augmented by largest ends
 * @writers:	of a leaf: bits of the spans that may have a writer
 * @start:	of the span; of a child: not above any of its spans' starts
 * @end:	of the span; of a child: the largest
 * @wend:	of a child: the largest of spans that may have a writer, or 0
 *
 * All that a leaf has is in six cache lines.  Places from @n on have the largest start
 * there is and ends of 0: no search finds them.
 */
struct tree_node {
	struct tree_node *parent;
	uint16_t n;
	uint16_t writers;
	uint8_t height;		/* 0: a leaf */
	bool leaf;
	uint64_t start[TREE_FAN];
	uint64_t end[TREE_FAN];
	void *child[TREE_FAN];
	uint64_t wend[TREE_FAN];
};

/* Needs TREE_MAX_DEPTH objects in the pool. */
void tree_insert(struct graph *g, struct buffer *b, struct span *s);
void tree_remove(struct graph *g, struct buffer *b, struct span *s);
/* @s has a writer now. */
void tree_mark_writer(struct span *s);
/*
 * Calls @visit for each span that shares a byte of the hull [start, end) (only
 * those that may have a writer if @writers), until it returns false.  @visit
 * must not insert or remove.
 */
bool tree_walk(struct tree_node *t, uint64_t start, uint64_t end, bool writers,
	       bool (*visit)(void *arg, struct span *s), void *arg);
/* Asks for the cache lines that every search looks at. */
void tree_prefetch(const struct tree_node *t);
/* One step from @t, above height 1, towards @start; asks for the lines of where it leads. */
const struct tree_node *tree_step(const struct tree_node *t, uint64_t start);
/*
 * The leaves below @t, of height 1, where what has the hull [start, end) would be put, or shares
 * a byte with others, @max at most, whose lines it asks for.  Returns how many.
 */
unsigned int tree_leaves(const struct tree_node *t, uint64_t start, uint64_t end,
			 const struct tree_node **leaves, unsigned int max);
/* The spans in a leaf that share a byte with the hull [start, end), @max at most: how many. */
unsigned int tree_near(const struct tree_node *t, uint64_t start, uint64_t end,
		       const struct span **near, unsigned int max);
void tree_free(struct graph *g, struct tree_node *t,
	       void (*each)(struct graph *g, struct span *s));

static inline bool span_used(const struct span *s)
{
	return s->users;
}

static inline void access_detach(struct access *a)
{
	struct span *s = a->span;

	s->users--;
	if (s->writer == a) {
		s->writer = NULL;
	} else {
		*a->pprev = a->next;
		if (a->next)
			a->next->pprev = a->pprev;
		if (a->write)
			s->ordered_writes--;
	}
	a->span = NULL;
}

/*
 * A large index lies in memory, not in the cache.  Then its lines are asked
 * for before the first of them is needed, so that they come together.
 */
#define LARGE_INDEX	4096

/* expect.c: lines for @n, which is being added; in place of what graph_expect() asks for. */
void expect_node(struct graph *g, const struct node *n);
/* For the first of these: returns how many, at most EXPECT_RANGES ranges in all. */
#define EXPECT_RANGES	ARAX_MAX_RANGES
unsigned int expect_entries(struct graph *g, const struct arax_dispatch *const *d, unsigned int n);
/* For @n, which is taken out. */
void expect_removal(struct graph *g, const struct node *n);

/* Takes all accesses of @n out. */
static inline void index_remove(struct graph *g, struct node *n)
{
	struct access *a = n->access, *end = a + n->nr_access;

	if (unlikely(g->spans.used > LARGE_INDEX))
		expect_removal(g, n);
	for (; a < end; a++) {
		struct span *s = a->span;

		if (!s)
			continue;
		access_detach(a);
		if (!span_used(s) && unlikely(s->crowded || s->buffer->mixed || !s->kept))
			index_retire(g, s);
	}
}

/* Whether a task that only reads @s would have to wait for someone. */
static inline bool span_has_writer(const struct span *s)
{
	return s->writer || (s->in_order && s->ordered_writes);
}

/* deadline.c */
bool heap_reserve(struct graph *g);
void heap_push(struct graph *g, struct node *n);
void heap_remove(struct graph *g, struct node *n);

#endif /* ARAXD_GRAPH_INTERNAL_H */
