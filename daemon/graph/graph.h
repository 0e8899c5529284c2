/* SPDX-License-Identifier: MIT */
/*
 * graph.h - which task may run when
 *
 * The graph holds every task that was dispatched and has not completed.  It is
 * plain logic: no threads, no locks, no clock, no system call.  All calls on
 * one graph come from one thread (the poller); a node that was started may be
 * read by the thread that runs it, because the graph changes nothing of its
 * public part until graph_complete().
 *
 * ORDER
 *
 *   Inside a context only.  A task waits for an earlier one if
 *   - both are in the same in-order queue;
 *   - both are in the same dataflow queue and one has ARAX_TASK_BARRIER;
 *   - at least one of them is in a dataflow queue, and they touch a common
 *     byte of a buffer which one of them writes.  Strided ranges are compared
 *     exactly, but for those of different strides and many rows: see shape.h.
 *   Two in-order queues are not related by their ranges: programs relate them
 *   by timelines, and may submit a wait before its signal.
 *
 *   A range that a later dataflow task wholly overwrites is superseded: tasks
 *   after that one depend on it alone.
 *
 * FAILURE
 *
 *   A task that waited for a failed one doesn't run: it completes with
 *   -ECANCELED and the tag of the first failure, and fails its own dependents,
 *   unless its queue has ARAX_QUEUE_CONTINUE.  One that waited only to write over
 *   what the failed one read does run: that one has left these bytes as they were.
 *   Who waits for another one in both ways fails with it.  A failure also reaches tasks
 *   that are added after it, if their client did not know of it when it
 *   submitted them: else it would depend on timing whether a batch stops at its
 *   first failure.
 *
 *   So tasks that failed by themselves are numbered, in each context from 1 on.
 *   Their completions bring the numbers to the client, whose tasks bring the
 *   last one that it has read back (arax_dispatch.known).  A task is exempt from
 *   a failure iff it knows of its number, and with that from whatever fails
 *   because of it.
 *
 *   Failed tasks are kept until a task that knows of them is added.  A context
 *   keeps GRAPH_KEEP_FAILED, and more as long as all of them together have no
 *   more than GRAPH_MAX_FAILED.  One with many ranges or arguments counts for
 *   several, by the memory that it takes.  What it can't keep counts as if each of its
 *   tasks depended on it.
 *
 * COST
 *
 *   Adding a task looks, for each of its ranges, at no more than
 *   GRAPH_MAX_VISITS others besides those that it supersedes (of which each is
 *   superseded only once), and for all of them at GRAPH_MAX_ROWS rows; and it has
 *   GRAPH_MAX_EDGES edges at most to others of those that it waits for.  A task
 *   that would need more gets a fence: it waits for all earlier tasks of its
 *   context, and is canceled if any task of its context fails meanwhile, or has
 *   failed without its client knowing: it is not known which of them write what it
 *   touches, and what a failed one has left must not be taken for good.  So
 *   neither time nor memory of a hostile context grows faster than its tasks'
 *   ranges.  The first dataflow task of a context puts the ranges of all that
 *   came before it into the index, and compares no more of them than that.
 *   Nothing is allocated per task once the graph has been as large before.
 */
#ifndef ARAXD_GRAPH_H
#define ARAXD_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "uapi/arax.h"
#include "daemon/sched/sched_task.h"

#define GRAPH_MAX_VISITS	256
#define GRAPH_MAX_ROWS		(8 * GRAPH_MAX_VISITS)
#define GRAPH_MAX_EDGES		(2 * GRAPH_MAX_VISITS)
#define GRAPH_KEEP_FAILED	1024
#define GRAPH_MAX_FAILED	(1u << 17)

struct graph;

enum graph_state {
	GRAPH_WAITING,		/* for other tasks, or blocked on a timeline */
	GRAPH_READY,		/* on the ready list */
	GRAPH_POPPED,		/* taken by graph_pop_ready(), not started */
	GRAPH_RUNNING,		/* or, of a follower, to run next: see FOLLOWERS below */
	GRAPH_ENDED,		/* internal: no caller ever sees one */
};

/**
 * struct graph_node - a task in the graph: its public part
 * @d:		copy of the dispatch header
 * @ranges:	copies, d.nr_ranges of them
 * @args:	copy, d.arg_len bytes, aligned to 16
 * @seq:	order of addition in this graph, from 1
 * @sched:	belongs to the scheduler from graph_pop_ready() on; what it knows of tasks that
 *		wait (sched_task.h) from graph_add() on
 * @device:	for the caller: where it runs
 * @losses:	for the caller, 0 at first: devices that were lost by it, it seems
 * @fetched:	for the caller, false at first: it has waited for what it uses to come to the host
 * @foreseen:	for the caller, false at first: it was told that the task will use what it names
 * @moved:	for the caller, 0 at first: bytes that have come so
 * @declined:	for the caller, 0 at first: where it is not to run, bits
 * @run_ns:	for the caller; araxd: when a blocked task was unblocked, while tasks are recorded
 * @next, @prev: for the caller: of a list; @prev is NULL at first
 * @priv:	for the caller
 *
 * The graph owns nodes.  A caller may use one from graph_pop_ready() until it
 * calls graph_complete(), or until the drop hook is called for it.
 */
struct graph_node {
	struct arax_dispatch d;
	const struct arax_dispatch_range *ranges;
	const void *args;
	uint64_t seq;
	struct sched_task sched;
	uint64_t run_ns;
	uint64_t moved;
	struct graph_node *next, **prev;
	void *priv;
	uint32_t device;
	uint8_t losses;
	bool fetched;
	bool foreseen;
	uint16_t declined;
};

/* A task that completed without running, for the caller to commit. */
struct graph_done {
	uint64_t tag;
	uint64_t origin;	/* tag of the first failure, or 0 */
	uint64_t submit_ns;
	uint64_t tenant;
	uint32_t context;
	int32_t result;		/* negative errno */
	uint32_t failure;	/* its number, if it failed by itself; else 0 */
};

/**
 * struct graph_params - how to make a graph
 * @slots:	tasks that the core can have in flight (struct arax_attach);
 *		a tag whose slot is not below this is refused. 1..2^24
 * @drop:	called for each popped, not started node that ends without
 *		running (cancel, deadline, context gone), before it is freed:
 *		the scheduler must forget it.  May be NULL if nodes are always
 *		started directly after they are popped.
 * @drop_arg:	handed to @drop
 * @ended:	called for each task that ends without running, with what graph_pop_done()
 *		will tell of it: for who keeps records.  May be NULL
 * @ended_arg:	handed to @ended
 * @edge:	called while @node is added, for each task that it waits for; not for what
 *		it is behind without a line of its own (a barrier's epoch, a fence).  May be
 *		NULL
 * @edge_arg:	handed to @edge
 * @place:	of one of several graphs, for the scheduler (sched_task.h)
 * @kernels:	by id in this graph, up to @last_kernel: what it is in all of them, for
 *		the scheduler; lives as long as the graph.  NULL: the ids are those of all
 * @work:	called while a task of one of @kernels is added that has GRAPH_KERNEL_WORK: how much
 *		it is, for the scheduler (sched_task.h)
 * @work_arg:	handed to @work
 */
struct graph_params {
	uint32_t slots;
	void (*drop)(void *arg, struct graph_node *node);
	void *drop_arg;
	void (*ended)(void *arg, const struct graph_node *node, const struct graph_done *done);
	void *ended_arg;
	void (*edge)(void *arg, struct graph_node *parent, struct graph_node *node);
	void *edge_arg;
	uint32_t place;
	uint32_t last_kernel;
	const uint16_t *kernels;
	uint64_t (*work)(void *arg, const struct graph_node *node);
	void *work_arg;
};

#define GRAPH_KERNEL_WORK	0x8000u

/* NULL with errno set: EINVAL (@slots), ENOMEM.  graph_destroy(NULL) is fine. */
struct graph *graph_create(const struct graph_params *params);
void graph_destroy(struct graph *g);

/**
 * graph_add - add a task
 * @d: entry of type ARAX_DISPATCH_TASK, followed by its ranges and, if
 *     arg_len > ARAX_INLINE_ARGS, by its arguments; copied once
 *
 * It then is ready, waits, or (if it depends on a lingering failure) has
 * already ended and is found by graph_pop_done().  One with @d->error (its
 * timeline had failed before) counts as blocked: call graph_unblock() with that
 * error next.
 *
 * Returns 0, or changing nothing: -EINVAL if the entry contradicts itself
 * (counts, cells, an access of 0, a range that wraps round), -EEXIST if the
 * tag's slot is in use, -ENOMEM.
 */
int graph_add(struct graph *g, const struct arax_dispatch *d);

/**
 * graph_refuse - a task that graph_add() has not taken ends with an error
 *
 * Nothing is known of what it would have written: each task of its context that is added after it
 * fails because of it, if its client does not know.  Returns its number, to be committed with it
 * after all that graph_pop_done() has; 0, as no memory is left even for that: it fails nobody.
 */
uint32_t graph_refuse(struct graph *g, const struct arax_dispatch *d);

/* Whether a hint is of any use. */
bool graph_is_large(const struct graph *g);

#define GRAPH_EXPECT	8
/**
 * graph_expect - these are the next to be added
 * @d, @n: as graph_add() will be called with, GRAPH_EXPECT of them or fewer
 *
 * A hint, which changes nothing but that memory that the tasks need comes for all of them together.
 * They need not be sound, and may be added in part, or not at all.  Returns for how many of them it
 * was one: for the others it can be given when those have been added.
 */
unsigned int graph_expect(struct graph *g, const struct arax_dispatch *const *d, unsigned int n);

/*
 * Whether a task without a deadline, with ranges and arguments that a node holds, would wait for
 * nothing: none of its context has been added that has not ended, nor failed without its client
 * knowing.  False as well where that takes longer to find out, where the entry contradicts itself
 * and where there is no memory: until something else is added there is room for it.
 * @alike: it was true of another one of the same type, cells, kernel, access and ranges' lengths.
 */
bool graph_is_free(struct graph *g, const struct arax_dispatch *d, bool alike);
/*
 * One for which that holds, and which has been started nevertheless: it is added, and runs.
 * NULL: its tag's slot is in use.
 */
struct graph_node *graph_add_running(struct graph *g, const struct arax_dispatch *d);

/* Tasks that were added and have not ended. */
uint64_t graph_live(const struct graph *g);

/* The same, of @node's context alone; 0: that is gone. */
uint32_t graph_live_beside(const struct graph_node *node);

/* graph_node.seq of the task that was added last; 0: none was. */
uint64_t graph_last_seq(const struct graph *g);

/**
 * graph_pop_ready - take a task that may run
 *
 * In the order in which they became ready; those that did so together, in
 * submission order.  NULL if there is none.
 */
struct graph_node *graph_pop_ready(struct graph *g);
/* Whether that would be one. */
bool graph_has_ready(const struct graph *g);

/* @node was popped and is handed to a device now: it can't be canceled. */
void graph_start(struct graph *g, struct graph_node *node);

/* It did not run after all: as it was before graph_start(). */
void graph_stop(struct graph *g, struct graph_node *node);

/*
 * FOLLOWERS
 *
 *   Who runs tasks one after the other, and leaves out what comes behind a failure, need not
 *   come back between two of which one waits for the other.  So a task may be started while
 *   those that it waits for run.  It is completed after them; whether it was to run at all is
 *   known then.
 */

/*
 * Whether a task that waits, waits for nothing but tasks of which @runs run, each known to wait
 * for by graph_each_successor(), and is not to run unless they all succeed.  Behind one of which
 * graph_only_orders() is true it may run or be left out, when that one fails: it is to run, says
 * graph_fate() then.
 */
bool graph_may_follow(const struct graph_node *node, uint32_t runs);
/* Whether a follower waits still: then it can't be completed, only stopped. */
bool graph_is_early(const struct graph_node *node);
/*
 * What became of a follower by what it waited for: 0, or the result that it has to be completed
 * with, and *@origin.  It is no failure of its own: graph_complete() gives it no number.
 */
int graph_fate(const struct graph_node *node, uint64_t *origin);
/* A task that waits, stopped, can't be started again: it ends with @result when it could be. */
void graph_doom(struct graph *g, struct graph_node *node, int result);

/**
 * graph_complete - a popped or started task is done
 * @result: 0 or negative errno
 * @failure: out, if @result is not 0: its number, to be committed with it.  In
 *	     the order of numbers: first come those of graph_pop_done().
 *
 * @node is gone afterwards.  Returns whether to commit it: false if its
 * context is gone.
 */
bool graph_complete(struct graph *g, struct graph_node *node, int result,
		    uint32_t *failure);

bool graph_has_done(const struct graph *g);
/* Fills @done with a task that ended without running; false if none is left. */
bool graph_pop_done(struct graph *g, struct graph_done *done);

/**
 * graph_unblock - the timeline that a blocked task waits for was reached
 * @error: 0, or the timeline's negative errno: the task then completes with
 *	   that error without running, unless its queue has ARAX_QUEUE_CONTINUE
 *
 * Returns 0, or -ENOENT if there is no such task, or it was not blocked.
 */
int graph_unblock(struct graph *g, uint64_t tag, int error);

/**
 * graph_cancel - end a task that has not started, with -ECANCELED
 *
 * Its dependents fail with its tag as their origin.  Returns 0 (found by
 * graph_pop_done()), -EBUSY if it runs, -ENOENT if there is no such task.
 */
int graph_cancel(struct graph *g, uint64_t tag);
/* All of a context's that have not started. */
void graph_cancel_all(struct graph *g, uint32_t context);

/**
 * graph_context_gone - forget a context
 *
 * Its tasks that have not started end with -ECANCELED (graph_pop_done()), each that
 * was not told of before; graph_complete() of a running one returns false.  Time:
 * linear in its live tasks and their edges.
 */
void graph_context_gone(struct graph *g, uint32_t context);

/* The live task with this tag, or NULL. */
struct graph_node *graph_find(struct graph *g, uint64_t tag);
/* The one whose tag has that slot, or NULL. */
struct graph_node *graph_at(struct graph *g, uint32_t slot);
enum graph_state graph_node_state(const struct graph_node *node);

/* Whether its context is forgotten: it runs, and nobody waits for it. */
bool graph_node_gone(const struct graph_node *node);
/*
 * Whether it may never begin: it waits for a timeline; or for other tasks, while one of its context does,
 * which may be one of these.
 */
bool graph_is_parked(const struct graph_node *node);
/* Whether graph_cancel() found it running: should it be stopped, it need not run any more. */
bool graph_node_canceled(const struct graph_node *node);

/* The earliest deadline of a live task, CLOCK_MONOTONIC; UINT64_MAX if none. */
uint64_t graph_next_deadline(const struct graph *g);

/**
 * graph_expire - enforce deadlines
 *
 * Tasks that have not started by then end with -ETIMEDOUT (graph_pop_done()).
 * Returns a running task that is overdue, each once, for the caller to stop;
 * NULL when there is no more.  So call it until it returns NULL.
 */
struct graph_node *graph_expire(struct graph *g, uint64_t now_ns);

/*
 * Tasks that wait for @node now: how many, and graph_node.seq of the first @max of
 * them.
 */
uint32_t graph_successors(const struct graph_node *node, uint64_t *seqs, uint32_t max);

/* Whether @successor, one of them, runs however @node ends: it is only to write what @node reads. */
bool graph_only_orders(const struct graph_node *node, const struct graph_node *successor);

/* Calls @each for them; @waits: for how many things that one waits altogether. */
void graph_each_successor(const struct graph_node *node,
			  void (*each)(void *arg, const struct graph_node *node, uint32_t waits),
			  void *arg);

/*
 * Calls @each for the tasks of @node's context that have not ended, the newest first: those that
 * wait for one come before it.  Stops when @each returns false, and goes on there the next
 * time, unless @anew.  Returns whether that was all; what is added meanwhile is left out.
 */
bool graph_look_back(const struct graph_node *node, bool anew,
		     bool (*each)(void *arg, struct graph_node *node), void *arg);

/* Calls @each for all that were added and have not ended; of a context in their order. */
void graph_each_live(struct graph *g, void (*each)(void *arg, struct graph_node *node),
		     void *arg);

struct graph_stats {
	uint64_t added, completed, canceled;
	uint64_t edges;			/* dependencies recorded so far */
	uint64_t searches;		/* ranges not just found by their hash so far */
	uint64_t rows;			/* that were compared so far */
	uint64_t fences;		/* tasks that passed one of GRAPH_MAX_ VISITS, ROWS, EDGES */
	uint64_t live;			/* tasks not ended */
	uint64_t lingering;		/* failures kept for tasks to come */
	uint64_t contexts, buffers, spans; /* live index entries */
	uint64_t memory;		/* bytes obtained from the system */
};

void graph_stats(const struct graph *g, struct graph_stats *stats);

/* Writes the live graph in dot's language.  Linear in its size. */
void graph_dump_dot(const struct graph *g, FILE *out);

/*
 * Checks every invariant and returns the number of violations, each printed to
 * stderr.  For tests; slow.
 */
int graph_check(const struct graph *g);

#endif /* ARAXD_GRAPH_H */
