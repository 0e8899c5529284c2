/* SPDX-License-Identifier: MIT */
/*
 * streams.h - which stream of which device a task goes to, given those it waits for
 *
 * A stream runs its tasks one after another, in the order in which they were assigned
 * to it.  So a task needs no wait for what is before it on its own stream, and one for
 * each task on another stream that it depends on.  What is gained by few waits is lost
 * if tasks that could run side by side share a stream: the rules say how to choose.
 * They are those of GrCUDA (Parravici et al., arXiv 2012.09646).
 *
 * No backend uses them yet: sched_streams_test is all that calls this.
 *
 * Plain logic for one thread.  Memory: a small record for each stream; streams are never
 * given up, but see @lanes.
 */
#ifndef ARAXD_SCHED_STREAMS_H
#define ARAXD_SCHED_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

struct graph_node;

#define STREAM_NONE	(~0u)

/* For a task without parents, and one that can't go on on any parent's stream. */
enum stream_new {
	STREAM_NEW_REUSE,	/* a stream of the device on which nothing is left to do */
	STREAM_NEW_ALWAYS,	/* a new one */
};

/*
 * For a task with parents.  A parent's stream is continued by one child only, the first
 * (but for SAME): a second child runs beside it.
 */
enum stream_parent {
	STREAM_PARENT_SAME,		/* the oldest parent's, always */
	STREAM_PARENT_DISJOINT,		/* the oldest one's that nobody continues yet */
	/* Choose the device, then continue a parent's stream there if there is one. */
	STREAM_PARENT_EARLY_DISJOINT,
	/* Choose among the devices of parents whose streams nobody continues yet. */
	STREAM_PARENT_MULTI_DISJOINT,
};

/**
 * struct streams_params - rules
 * @device:	where @node should run: one of @among (@nr of them, ascending); @nr 0:
 *		any.  ~0: nowhere
 * @lanes:	streams that each device has at most, after which those with least to do
 *		are shared; 0: no limit
 */
struct streams_params {
	enum stream_new new;
	enum stream_parent parent;
	uint32_t (*device)(void *arg, const struct graph_node *node, const uint32_t *among,
			   uint32_t nr);
	void *arg;
	uint32_t lanes;
};

/**
 * struct stream_task - what is kept for each task; zero it before streams_assign()
 * @seq:	order of submission
 * @stream:	assigned; STREAM_NONE: none
 * @continued:	a child goes on on its stream
 */
struct stream_task {
	uint64_t seq;
	uint32_t stream;
	bool continued;
};

struct streams;

/* By GrCUDA's names ("reuse", "always-new"; "same-as-parent", ...); -EINVAL. */
int stream_new_parse(const char *name, enum stream_new *out);
int stream_parent_parse(const char *name, enum stream_parent *out);

struct streams *streams_create(const struct streams_params *params);
void streams_destroy(struct streams *st);

/**
 * streams_assign - choose a stream
 * @t:		@seq is set; @stream is filled
 * @parents:	the tasks that @t waits for and that have not ended; is put in order
 *
 * Returns how many waits for other streams it takes, or -ENODEV (no device) or -ENOMEM.
 */
int streams_assign(struct streams *st, struct stream_task *t, const struct graph_node *node,
		   struct stream_task **parents, uint32_t nr);

/* @t has ended: once for each task that was assigned. */
void streams_end(struct streams *st, struct stream_task *t);

uint32_t streams_count(const struct streams *st);
uint32_t stream_device(const struct streams *st, uint32_t stream);
/* Of the streams of its device the how manieth it is. */
uint32_t stream_lane(const struct streams *st, uint32_t stream);
/* Tasks on it that have not ended. */
uint32_t stream_live(const struct streams *st, uint32_t stream);

#endif /* ARAXD_SCHED_STREAMS_H */
