/* SPDX-License-Identifier: MIT */
/*
 * A link in one process, for the tests of kmod/core: it implements struct
 * core_ops on allocated memory, keeps count of what it gave out, and plays the
 * client's side of the rings and the mediator's side of the dispatch ring.
 *
 * Single-threaded unless said otherwise; the ops themselves may be called from
 * any thread.
 */
#ifndef CORE_FIXTURE_H
#define CORE_FIXTURE_H

#include <pthread.h>

#include "kmod/core/core.h"

#ifdef FX_ABORTS	/* the fixture, fuzzers: no libcheck, a wrong answer is a crash */
#define ck_assert(c)		((void)core_warn(!(c), #c, __FILE__, __LINE__))
#define ck_assert_msg(c, ...)	ck_assert(c)
#define ck_assert_ptr_nonnull(p) ck_assert((p) != NULL)
#define ck_assert_int_eq(a, b)	ck_assert((a) == (b))
#define ck_assert_uint_eq(a, b)	ck_assert((a) == (b))
#else
#include <check.h>
#endif

#define FX_TABLE	64	/* descriptors of each kind */

struct fx;

/* What stands behind a buffer: who holds its pages besides the core. */
struct fx_pages {
	struct fx *fx;
	u32 holds;		/* mediator's descriptors, exports */
	bool idle;
	bool revoked;
};

struct fx {
	struct core *core;
	struct core_tenant *tenants[4];	/* root, middle, leaf; a second leaf */
	pthread_mutex_t lock;	/* the tables below */
	struct core_buffer *exports[FX_TABLE];
	struct core_timeline *timelines[FX_TABLE];
	u64 events[FX_TABLE];	/* atomic: times signalled; descriptor is the index */
	u32 events_held;	/* atomic */
	u32 buffers;		/* atomic: backed now */
	u32 rings;		/* atomic */
	u32 mediator_wakes;	/* atomic */
	u32 recoveries;		/* atomic: tasks were queued with no mediator to come */
	u32 cgroups;		/* tenants of fx_cgroup() that are there */
	int fail_ring;		/* errno to return from the next calls, or 0 */
	int fail_buffer;
	int fail_get;
	bool fail_mediator;
	bool deep;		/* cgroups nest deeper than tenants */
	bool ends_later;	/* what clients are freed by: by fx_end_clients() */
	struct clist ended;
	void (*backing)(struct core_buffer *buf);	/* called while one gets its pages */
	void *stale_ring;	/* a mediator's maps, which outlive its file */
	u32 head;		/* the mediator's position */
	u32 epoch;
};

struct fx_client {
	struct fx *fx;
	struct core_client *c;
	struct arax_context_init init;
	u8 *region;
	u32 sq_tail;
	u32 cq_head;
	u32 queue;		/* in-order, made by fx_client_ready() */
	u32 wakes;		/* atomic */
	u32 wakes_points;	/* the same, of those for points */
};

/* params: NULL for 1024 cells, 64 slots and generous users. */
struct fx *fx_new(const struct core_params *params);
struct core_params fx_params(void);
/* All clients must have been released; core_destroy() checks the books. */
void fx_free(struct fx *fx);

/* A tenant whose cgroup can be removed; with core->lock held, as for core_tenant_get(). */
struct core_tenant *fx_cgroup(struct fx *fx, u64 id, struct core_tenant *parent);
void fx_rmdir(struct core_tenant *t);

/* tenant: index into fx->tenants */
struct fx_client *fx_client(struct fx *fx, u32 uid, u32 tenant);
int fx_init(struct fx_client *cl, u32 depth, u32 entry_size, u32 arena);
/* With rings (depth 16, 128 bytes, a page of arena) and an in-order queue. */
struct fx_client *fx_client_ready(struct fx *fx);
void fx_release(struct fx_client *cl);
void fx_end_clients(struct fx *fx);

/* As a link does it: by number, struct zeroed behind what is given. */
int fx_call(struct fx *fx, struct fx_client *cl, u32 nr, union core_args *a);

u32 fx_buffer(struct fx_client *cl, u64 bytes);
u32 fx_queue(struct fx_client *cl, u32 flags);
u32 fx_timeline(struct fx_client *cl, u64 value);
u64 fx_used(struct core_tenant *t, u32 res);

struct arax_task fx_marker(const struct fx_client *cl, u64 user_data);
/* A copy of the first n bytes; a marker is all that others need. */
struct arax_task fx_copy(const struct fx_client *cl, u64 user_data, u32 from, u32 to, u64 n);
/* Writes an entry at the tail and publishes it. */
void fx_push(struct fx_client *cl, const struct arax_task *t);
int fx_submit(struct fx_client *cl, u32 n);
/* Publishes and submits one. */
int fx_send(struct fx_client *cl, const struct arax_task *t);
/* Takes the next completion off the ring: false if there is none. */
bool fx_pop(struct fx_client *cl, struct arax_completion *out);
/* One must be there, with that user_data and result. */
struct arax_completion fx_expect(struct fx_client *cl, u64 user_data, s32 result);
void fx_expect_none(struct fx_client *cl);

int fx_attach(struct fx *fx, u32 flags);
/* Both steps of a mediator's death. */
void fx_die(struct fx *fx);
/* The last one, after core_detach(). */
void fx_gone(struct fx *fx);
/* Takes the next entry off the dispatch ring; NULL if there is none. */
const struct arax_dispatch *fx_next(struct fx *fx);
/* The next must be a task with that user_data; returns its tag. */
u64 fx_expect_task(struct fx *fx, u64 user_data);
void fx_start(struct fx *fx, u64 tag);
/* Commits one; returns 1 if it was stale. */
u32 fx_commit(struct fx *fx, u64 tag, s32 result);
/* As the graph says it: by itself, with its number; or because of another one. */
u32 fx_commit_failure(struct fx *fx, u64 tag, s32 result, u32 failure);
u32 fx_commit_canceled(struct fx *fx, u64 tag, u64 origin);
u32 fx_commit_dirty(struct fx *fx, u64 tag, u32 dirty);
/* Commits with success all that is in the ring, returns how many. */
u32 fx_drain(struct fx *fx);
/* The mediator closes its descriptor of a buffer. */
void fx_close_buffer(struct fx *fx, struct core_buffer *buf);

#ifndef FX_ABORTS
/* Whenever that lock has just been given back, by whatever a test calls; NULL: no more. */
void fx_watch_unlocks(struct core_lock *l, void (*then)(void));

struct Suite *core_call_suite(void);
struct Suite *core_alloc_suite(void);
struct Suite *core_tenant_suite(void);
struct Suite *core_buffer_suite(void);
struct Suite *core_buffer_share_suite(void);
struct Suite *core_submit_suite(void);
struct Suite *core_refuse_suite(void);
struct Suite *core_share_suite(void);
struct Suite *core_steps_suite(void);
struct Suite *core_points_suite(void);
struct Suite *core_lost_suite(void);
struct Suite *core_dispatch_suite(void);
struct Suite *core_commit_suite(void);
struct Suite *core_fail_suite(void);
struct Suite *core_revoked_suite(void);
struct Suite *core_known_suite(void);
struct Suite *core_timeline_suite(void);
struct Suite *core_client_suite(void);
struct Suite *core_mediator_suite(void);
struct Suite *core_polling_suite(void);
struct Suite *core_midway_suite(void);
struct Suite *core_threads_suite(void);
struct Suite *core_model_suite(void);
#endif

#endif /* CORE_FIXTURE_H */
