/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The core: what a client, buffer, queue, task, timeline and tenant are.
 *
 * The same code runs in arax.ko and in araxd's broker.  The world around it
 * (the "link": char device or socket) hands in open files as clients, calls
 * as struct copies, and offers struct core_ops for what only it can do.
 *
 * LOCKS, outermost first
 *
 *   client->lock    (mutex) a client's handle table and its submission side.
 *   core->lock      (mutex) tenants' tree, clients' list, buffers' ids,
 *                   kernels, attach and detach.  Everybody takes it: what
 *                   is charged to the caller's cgroup is allocated before.
 *                   Its holder may be a program that runs when no other does and has
 *                   lost its CPU: no call that the mediator polls with takes it.  So
 *                   what these look things up in (tenants, contexts, buffers' ids) is
 *                   changed with both locks held, and read with either.
 *   core->dispatch  (spin)  the dispatch ring, slots, task states, completion
 *                   rings, timelines, notes.  Nothing sleeps under it, nothing
 *                   is freed under it: what became garbage goes to a
 *                   struct core_garbage and dies after the unlock.  One
 *                   client may have 65,536 tasks, and each of them may reach
 *                   1,024 points that calls wait for: what looks at many does
 *                   so in steps, with the lock dropped between them.
 *
 *   mmap() of the link takes none of them.  Tenants' counters are lock-free.
 */
#ifndef ARAX_CORE_CORE_H
#define ARAX_CORE_CORE_H

#include "heap.h"
#include "layout.h"
#include "list.h"
#include "platform.h"

struct core;
struct core_client;
struct core_buffer;
struct core_timeline;
struct core_tenant;

/* ------------------------------------------------------------------ */
/* What the link offers to the core                                    */

/* What somebody sleeps for: completions, and points of timelines. */
#define CORE_WAKE_TASKS		1u
#define CORE_WAKE_POINTS	2u

/**
 * struct core_ops - services of the link; all may sleep unless said otherwise
 *
 * @ring_alloc:	  make @bytes of zeroed memory shared with the client, or take
 *		  the memory that it brought (init->ring_fd, wake_fd); sets
 *		  client->region and client->link_ring.  The bytes are charged
 *		  as client->ring_buf (type CORE_BUFFER_RING), whose ->link is
 *		  the link's to use
 * @ring_free:	  the core touches client->region no more: unmap it.  Then
 *		  comes buffer_idle(client->ring_buf), as for any buffer: the
 *		  client's own mapping may outlive its file, and stays charged
 * @buffer_create, @buffer_import: back @buf (bytes set, charged) with pages;
 *		  set buf->link; import first asks @buffer_inspect
 * @buffer_inspect: size of what import names, or an existing buffer with a
 *		  reference taken by core_buffer_use() in *existing
 * @buffer_export, @buffer_revoke, @buffer_get: as the calls of these names
 * @buffer_idle:  no handle or task refers to @buf any more, nor a note.  The link calls
 *		  core_buffer_free() when its last mapping and fd are gone,
 *		  from here or later
 * @client_memory_free: free what the tasks or the handles of @c were in, tens of MB perhaps,
 *		  here or later: whose time this is, and what for, its client has chosen.
 *		  NULL: core_free() does.  @c itself is about to go
 * @client_end:	  nothing refers to @c any more, nor is @c->wake in a list: core_client_free(), here or
 *		  later, for that waits for core->lock.  NULL: here
 * @client_wake:  (atomic) wake whoever sleeps for what @what says, CORE_WAKE_* or both; is
 *		  called only if cq_need_wakeup, client->sleepers or client->waiters is set, or
 *		  when a mediator comes or goes
 * @mediator_wake: (atomic) wake whoever sleeps in fetch
 * @recovery_begin: (atomic) tasks wait for a mediator while there is none, though there
 *		  was one: call core_expire() when the time for that is over, counted from
 *		  now unless it runs already.  Called whenever a batch is queued so; NULL:
 *		  they wait for ever
 * @mediator_alloc: zeroed memory that the mediator maps, @writable or not
 * @event_get:	  eventfd by descriptor; *err says why not
 * @event_end:	  let go of it, and signal it before if @fired: here or later, for who waits
 *		  for it, and how many do, is the client's to choose
 * @timeline_export: a descriptor for a timeline; takes over one reference,
 *		  dropped by core_timeline_put() when the descriptor is gone
 * @timeline_import: the timeline of a descriptor, reference taken
 * @tenant_by_fd: the tenant of a cgroup directory, reference taken; with
 *		  core->lock held, which it may let go of meanwhile.  @itself: -ELOOP if that is
 *		  an ancestor's, as it nests deeper than CORE_TENANT_DEPTH
 * @tenant_gone:  is the cgroup of a tenant removed?  Asked with core->lock held (or see
 *		  core_params.gone_at_once), and only of one whose ->link the link has set when it was new
 * @tenant_free:  such a tenant goes; with core->lock held, or from core_destroy()
 * @now:	  (atomic) CLOCK_MONOTONIC in ns, read afresh, for core_submit();
 *		  NULL: core_now_ns() does
 */
struct core_ops {
	int (*ring_alloc)(struct core_client *c, struct arax_context_init *init, u32 bytes);
	void (*ring_free)(struct core_client *c);
	int (*buffer_create)(struct core_client *c, struct core_buffer *buf,
			     struct arax_buffer_create *arg);
	int (*buffer_inspect)(struct core_client *c, struct arax_buffer_import *arg,
			      struct core_buffer **existing);
	int (*buffer_import)(struct core_client *c, struct core_buffer *buf,
			     struct arax_buffer_import *arg);
	int (*buffer_export)(struct core_client *c, struct core_buffer *buf,
			     struct arax_buffer_export *arg);
	void (*buffer_idle)(struct core_buffer *buf);
	void (*buffer_revoke)(struct core_buffer *buf);
	int (*buffer_get)(struct core_buffer *buf, struct arax_buffer_get *arg);
	void (*client_memory_free)(const struct core_client *c, void *mem);
	void (*client_end)(struct core_client *c);
	void (*client_wake)(struct core_client *c, u32 what);
	void (*mediator_wake)(struct core *core);
	void (*recovery_begin)(struct core *core);
	void *(*mediator_alloc)(struct core *core, size_t bytes, bool writable);
	void (*mediator_free)(struct core *core, void *mem, bool writable);
	void *(*event_get)(struct core_client *c, int fd, int *err);
	void (*event_end)(void *event, bool fired);
	int (*timeline_export)(struct core_client *c, struct core_timeline *tl);
	struct core_timeline *(*timeline_import)(struct core_client *c, int fd, int *err);
	int (*tenant_by_fd)(struct core *core, int fd, bool itself, struct core_tenant **out);
	bool (*tenant_gone)(struct core *core, const struct core_tenant *t);
	void (*tenant_free)(struct core *core, struct core_tenant *t);
	u64 (*now)(struct core *core);
};

/* Settings that hold for the life of a core; the module's parameters. */
struct core_params {
	u32 link;		/* ARAX_LINK_* */
	u32 guarantees;		/* ARAX_GUAR_* */
	u32 cells;		/* of the dispatch ring: power of two, CORE_MIN.._MAX_CELLS */
	u32 slots;		/* 2..CORE_MAX_SLOTS; the mediator may hold one task less */
	u32 max_handles;	/* of one context */
	u32 user_buffers;	/* of one user, imports too; 0: CORE_USER_BUFFERS */
	/*
	 * Handles of queues and timelines of one user, in all contexts; 0: any number, as their
	 * memory is charged to whoever makes them.
	 */
	u32 user_handles;
	/*
	 * Who submits and commits is the mediator itself.  It looks at the ring
	 * without being woken, and calls core_wake_deferred() before it waits for
	 * anything: so neither call has to wait until its stores have arrived
	 * everywhere.  A commit wakes whom the one before it has left asleep.
	 */
	bool defers_wakes;
	bool gone_at_once;	/* tenant_gone() may be asked with core->dispatch held */
	u64 user_memory;	/* defaults per uid, where nothing is configured */
	u64 user_tasks;
	u64 user_contexts;
};

/* The largest task takes 82 cells, and a pad before it at most 81. */
#define CORE_MIN_CELLS		256
#define CORE_MAX_CELLS		(1u << 20)
#define CORE_MAX_KERNELS	4096
#define CORE_MAX_DEVICES	256
#define CORE_COMMIT_ENTRIES	256
#define CORE_MAX_SLOTS		(1u << 20)
#define CORE_TENANT_DEPTH	32	/* cgroups nest no deeper for us */
#define CORE_DIRTY_RANGES	8
/* Of one timeline: an advance may reach all of them. */
#define CORE_MAX_WAITERS	1024
#define CORE_MAX_EVENTS		128
/* Tasks that one hold of core->dispatch looks at, where there may be many. */
#define CORE_STEP		64
/* What it has reached or let go of on timelines by then ends it: one task may have over a thousand. */
#define CORE_STEP_POINTS	256
#define CORE_BUFFER_RING	0x100	/* core_buffer.type of a context's region */

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

struct core_counter {
	core_atomic used;
	core_atomic peak;
	core_atomic max;
	core_atomic events;
};

/**
 * struct core_pressure - how a tenant waits for devices, see pressure.c; core->dispatch
 * @waiting_ns:	so far
 * @taken_ns:	of it, what is in the averages
 * @taken_at, @next_at: when that was last looked at, and will be; 0: it never waited
 * @avg:	shares of time, in 2^-CORE_SHARE_BITS
 */
struct core_pressure {
	u64 waiting_ns;
	u64 taken_ns;
	u64 taken_at;
	u64 next_at;
	u32 avg[3];
	/* These are only kept. */
	u64 nr_periods;
	u64 nr_throttled;
	u64 throttled_ns;
};

#define CORE_SHARE_BITS	20

/* Of an object that is found by its id, see id_tree.c; it may be found once. */
struct core_node {
	u64 id;
	struct core_node *below[2];
};

#define core_node_entry(n, type) \
	((type *)((u8 *)(n) - __builtin_offsetof(type, by_id)))

/*
 * A cgroup, or (outside the tree) a user.  Counters are lock-free; the
 * times and task counts below them belong to core->dispatch.
 */
struct core_tenant {
	/* Two to a line: that of tasks in flight is written by submissions and commits. */
	struct core_counter res[ARAX_RES_MAX] ____cacheline_aligned;

	/* What they only read. */
	union {
		u64 id;
		struct core_node by_id;
	} ____cacheline_aligned;
	struct core_tenant *parent;	/* reference held */
	u64 max_ns;
	u64 period_ns;
	u32 weight;
	bool is_user;

	/* By commits alone. */
	u64 device_ns ____cacheline_aligned;
	u64 wait_ns;
	u64 tasks_done;
	u64 tasks_failed;
	/* See share.c: */
	u32 nr_queued;			/* tasks in flight that have no slot */
	bool waits_for_share;		/* @by_held is in core->sharers */
	struct clist waiting;		/* clients that may not have more now, see core_client */
	struct cheap by_held;

	u64 refs ____cacheline_aligned;		/* core->lock, as the next; others look */
	u32 buffers;			/* charged to it: their ids, which are few for all */
	core_atomic handles;		/* of a user: see core_client_add() */
	core_atomic outside;		/* those by core_user_handle_take() */
	struct clist idle;		/* core->idle, while it has no reference */
	struct core_pressure pressure;
	void *link;			/* the link's own, see tenant_gone */
	char path[256];
};

/* ------------------------------------------------------------------ */
/* Handles                                                             */

enum core_type {
	CORE_NONE,
	CORE_BUFFER,
	CORE_QUEUE,
	CORE_TIMELINE,
};

#define CORE_HANDLE_BITS	20
/* Ids of buffers are handles of one table for all: so much of it may be one user's. */
#define CORE_USER_BUFFERS	(1u << (CORE_HANDLE_BITS - 3))
#define CORE_HANDLE_INDEX(h)	((h) & ((1u << CORE_HANDLE_BITS) - 1))
#define CORE_HANDLE_GEN(h)	((h) >> CORE_HANDLE_BITS)

struct core_slot_entry {
	void *object;
	u32 next_free;
	u16 gen;
	u16 type;
};

struct core_handles {
	struct core_slot_entry *e;
	u32 cap;
	u32 max;
	u32 used;
	u32 free;		/* first free place, 0: none */
};

/* ------------------------------------------------------------------ */
/* Buffers, queues, timelines                                          */

struct core_extent {
	u64 start;
	u64 end;
};

/* Tasks with from < order <= to came behind a failure; see fail.c. */
struct core_poison {
	u64 mark;
	u64 from;
	u64 to;
};

/* Of one that had been dispatched: of those dispatched these are behind it, from < place < to. */
struct core_ended {
	u64 mark;
	u64 from;
	u64 to;
	u64 origin;
};

struct core_ended_bytes {
	struct core_ended by;
	u64 start;
	u64 end;
	bool flow;
};

#define CORE_ENDED_BYTES	8

#define CORE_PROMISES	4

/* Lost bytes that tasks under way are going to rewrite, see lost.c. */
struct core_promise {
	u32 context;
	u32 queue;		/* 0: a dataflow queue */
	u32 era;
	u32 writers;
	struct core_extent bytes;
};

struct core_buffer {
	/* What each task looks at comes first: a cache line of it. */
	u64 bytes;
	u32 id;			/* in core->buffers; also its key at the mediator */
	/* core->dispatch: */
	u32 nr_dirty;
	u32 nr_lost;
	u32 nr_promised;
	bool revoked;
	u8 flags;		/* ARAX_BUFFER_*, as it was created */
	bool idle;		/* buffer_idle() has been called */
	bool mediated;		/* the mediator may have it mapped */
	bool backed;		/* it has pages: the mediator may ask for it */
	u64 users;		/* handles and tasks */
	u64 charged;		/* no less than bytes */
	u64 creator;		/* its serial, which goes by who it is */

	struct core *core;
	u32 type;		/* 0 created, else 1 + enum arax_import */
	u32 context;		/* creator: its id, which may be another one's by now */
	u32 uid;
	u32 own_handles;	/* its creator's, by whose lock */
	struct core_tenant *tenant;	/* charged, reference held */
	struct core_tenant *user;
	void *link;		/* the link's own */

	/* core->dispatch: */
	struct clist note;	/* core->drop_notes */
	struct clist garbage;
	/* Bytes that failed tasks would have written, see fail.c: [1] dataflow. */
	struct core_poison poison;
	struct core_extent poisoned[2][CORE_DIRTY_RANGES];
	u32 nr_poisoned[2];
	u64 poisoner;			/* whose they are: his serial */
	u64 ender;			/* the same of the next ones, and their mark */
	u64 ended_mark;
	struct core_ended_bytes ended[CORE_ENDED_BYTES];
	u32 nr_ended;
	/* Ranges whose only current copy is, or was, on a device. */
	struct core_extent dirty[CORE_DIRTY_RANGES];
	struct core_extent lost[CORE_DIRTY_RANGES];
	struct core_promise promised[CORE_PROMISES];
};

/* Of a refused task, see refuse.c. */
struct core_mark {
	u64 origin;		/* tag of the first failure; 0: no mark */
	u64 end;		/* entries from this position on don't depend on it */
};

#define CORE_MARKED_BYTES	16

struct core_marked_bytes {
	struct core_mark mark;
	u32 buffer;		/* id */
	bool flow;		/* by a task of a dataflow queue */
	u64 start;
	u64 end;
};

/* The marks of one client; client->lock. */
struct core_refusals {
	u64 id;			/* of those that hold, 0: none does */
	u64 ids;
	u64 at;			/* position of a batch's first entry, counted for ever */
	u64 last;		/* the latest end */
	u64 published;		/* entries before this position were seen published */
	struct core_mark any[2];	/* on any bytes; [1] dataflow */
	struct core_marked_bytes bytes[CORE_MARKED_BYTES];
};

struct core_queue {
	u32 handle;
	u32 flags;
	s32 priority;
	u64 target_ns;
	u64 refusals;		/* client->lock, as the next two: their id */
	struct core_mark refused;
	struct core_mark refused_barrier;
	u64 tasks;		/* core->dispatch: refs by tasks, plus the handle's */
	struct core_poison poison;	/* core->dispatch: a task failed, see fail.c */
	struct core_poison barrier_poison;	/* core->dispatch: a barrier did */
	struct core_ended ended;		/* the same of such as had been dispatched */
	struct core_ended barrier_ended;
	struct clist garbage;
};

/* core->dispatch guards all of it. */
struct core_timeline {
	u64 refs;
	u64 value;
	s32 error;
	struct cheap *tasks;	/* core_task.tl_node by wait_value: those blocked */
	struct cheap *waiters;	/* core_wait_point.by_value: those not reached */
	struct cheap *events;	/* core_event.by_value */
	struct clist reached;	/* in core->reached: tasks are still to be released */
	u32 nr_waiters;
	u32 nr_events;
	struct clist garbage;
	void *link;
};

/* An eventfd armed on a timeline, as long as its client is there. */
struct core_event {
	struct cheap by_value;
	struct core_timeline *tl;
	struct clist node;	/* client->events, or in a core_garbage */
	void *event;
	bool fired;
};

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

enum core_task_state {
	CORE_TASK_FREE,
	CORE_TASK_QUEUED,	/* client->queued: not in the dispatch ring yet */
	CORE_TASK_DISPATCHED,	/* client->dispatched: has a slot and a tag */
	CORE_TASK_ZOMBIE,	/* completed by takeover; its memory is still held */
};

/* Six ranges, as an entry of 256 bytes has, and with three 128 bytes of arguments. */
#define CORE_ROOM		248u

#define CORE_NOTE_CANCEL	0x1
#define CORE_NOTE_UNBLOCK	0x2

struct core_task {
	/* What a commit looks at is here and in @d's first line. */
	struct clist node;	/* client->free, ->freed, ->queued, ->exam, ->dispatched */
	struct core_client *client;
	struct core_queue *queue;
	struct core_buffer *inline_buffers[2];
	void *big;		/* allocation behind @buffers, @ranges, @args, or NULL */
	u8 state;
	u8 notes;		/* CORE_NOTE_* that are pending */
	bool started;		/* seen at detach */
	bool blocked;
	bool canceled;		/* the client asked while it was dispatched */
	bool ranged;		/* its ranges are known */
	bool roomy;		/* @big is a core_room, and stays */

	struct arax_dispatch d ____cacheline_aligned;	/* as it is, or will be, in the dispatch ring */

	struct core_buffer **buffers ____cacheline_aligned;
	struct arax_dispatch_range *ranges;
	u8 *args;
	struct core_timeline *wait;
	struct core_timeline *signal;
	u64 place;		/* in the client's ring, counted for ever */
	u64 order;		/* among those that were queued */
	u32 promised;		/* bit per range, see lost.c */
	u32 promise_era;
	struct arax_dispatch_range inline_ranges[2];
	/* Tasks without timelines touch nothing from here on. */
	struct clist note;	/* core->task_notes, while there are @notes */
	union {
		u64 wait_value;
		u64 origin;	/* of a refused task: why */
	};
	u64 signal_value;
	struct cheap tl_node;	/* wait->tasks, while blocked */
};

/*
 * For the ranges and arguments of a task that has a few more of them than it holds itself, as most
 * kernels of libraries do: kept for the next one in the same place.
 */
struct core_room {
	struct core_room *next;	/* of all that the client has */
	union {
		struct core_room *next_spare;
		u8 bytes[CORE_ROOM];
	};
};

/* In place of those that a stuck mediator holds. */
struct core_more_tasks {
	struct core_more_tasks *next;
	struct core_task tasks[];
};

/* ------------------------------------------------------------------ */
/* Clients                                                             */

/*
 * Where the mediator is another process, one CPU submits and another one commits: what both
 * write is one line of it (and the fewer there are of those the sooner a task is back),
 * what one of them writes is not on a line with what the other one reads.
 */
struct core_client {
	/* Read by both: set once, or seldom. */
	struct core *core;
	struct core_tenant *tenant;	/* set before init, reference held */
	struct core_tenant *user;
	u8 *region;
	struct arax_layout layout;
	u32 depth;
	u32 entry_size;
	u32 id;
	u32 uid;

	struct clist queued;	/* core->dispatch, as the next four */
	struct clist exam;	/* behind those, to be looked at by a cancel or settle() */
	u32 failures;		/* the last one that it was told of */
	u32 failures_before;	/* the last one of earlier mediators */
	bool gone;		/* released by its link */
	bool noted;		/* the mediator knows, or need not; core->dispatch */
	bool judged;		/* since the last detach, see lost.c; core->dispatch */
	bool ready;		/* context-init is done; written under core->dispatch */
	u32 dead;		/* 0 or errno; core->dispatch */
	u32 gid;
	/*
	 * Calls of this client that sleep in the link, for completions and for points of
	 * timelines.  It adds to them, issues a full barrier and looks once more before it
	 * sleeps (see core.c: wake).
	 */
	core_atomic sleepers;
	core_atomic waiters;

	/* Written by both; core->dispatch. */
	struct clist freed ____cacheline_aligned;	/* tasks on their way back to free */
	struct clist dispatched; /* in submission order */
	u32 cq_tail;
	u32 cq_looked;		/* so far completions were compared with ctl->cq_wake_for */
	u32 silent;		/* tasks that completed without an entry */
	u32 nr_tasks;		/* queued or dispatched */
	u32 peak_tasks;

	/* By commits; core->dispatch. */
	struct clist wake ____cacheline_aligned;	/* in a core_garbage */
	u64 device_ns;
	u64 wait_ns;
	u64 tasks_done;
	u64 tasks_failed;
	u32 reached;		/* points that its calls wait for, so far; any thread reads it */
	u32 reached_told;	/* the same, when it was last woken for them */

	/* By submissions: the next block is client->lock's. */
	core_mutex lock ____cacheline_aligned;
	u32 sq_head;		/* ring positions, private; any thread reads this one */
	u32 cq_seen;		/* the client's head, as last believed */
	u32 submitted;
	u32 arena_size;
	struct clist free;	/* tasks */
	u32 nr_begun;		/* of @tasks: those behind them were never used */
	u32 queues_wait;	/* not 0: there are or were some with ARAX_QUEUE_WAIT */
	bool awaits_room;	/* the next entry is of one, and there was none for it; any thread reads */
	bool orphaned;		/* it was when a mediator died, whoever reads; core->dispatch writes */
	u32 orphans_end;	/* what was published then ends before this; core->dispatch */
	struct core_queue *last_queue;	/* that a task was submitted to, or NULL */
	struct core_room *rooms;	/* of its tasks, and those that were: */
	struct core_room *spare_rooms;
	struct core_handles handles;
	u32 nr[CORE_TIMELINE + 1];
	u64 device_memory;	/* core->dispatch: charged by the mediator */
	u64 serial;		/* set once: no other context's, ever */
	u64 kept_memory;	/* core->dispatch: what it keeps of the client's in pages of its own */
	struct core_whys *whys;	/* core->dispatch; NULL: nothing was explained yet */
	struct core_task *tasks;
	struct core_more_tasks *more_tasks;	/* core->lock, as the next */
	u32 nr_more_tasks;
	struct core_refusals refusals;

	struct clist node ____cacheline_aligned;	/* core->clients; core->lock, as the next */
	struct core_node by_id;	/* core->contexts, by context_key() */
	s32 pid;
	char comm[16];
	void *link;		/* the link's own, e.g. its open file */
	void *link_ring;
	core_atomic memory;	/* bytes of the buffers it made and has, and its region */
	struct core_buffer *ring_buf;	/* what the region is charged as */

	/* core->dispatch: */
	struct clist cursor;	/* of a cancel, in dispatched; no task */
	const struct arax_cancel *cancel;
	const struct core_queue *cancel_queue;
	u32 nr_canceled;
	u32 nr_zombies;		/* of its tasks */
	struct clist events;	/* core_event.node: armed, on whosever timelines */
	u64 queue_order;	/* of the last task that was queued */
	/* While queued is not empty: in core->backlog, or in user->waiting, and @share in a tenant's. */
	struct clist backlog;
	struct clist share;
	struct clist note;	/* core->gone_notes */
	u64 fail_mark;		/* see fail.c; 0: no failure to pass on */
	u64 fail_origin;
	u64 fail_last;		/* order of the last task that it may concern */
	u64 places;		/* entries that were taken from its ring; core->dispatch */
	u64 ended_mark;		/* the same of what failed when it was committed */
	u64 ended_to;		/* what was submitted before this place may depend on such */
	struct core_ended ended_any;
	struct core_poison fail_any;	/* any bytes */
};

struct core_device {
	struct arax_device d;
	u64 known_ns;		/* when its figures were true */
};

struct core_kernel {
	u32 id;
	u32 kinds;
	char name[ARAX_NAME_LEN];
	struct arax_signature sig;
	char text[256];
};

enum core_mediator_state {
	CORE_DETACHED,		/* none, and no trace of an old one */
	CORE_LIVE,
	CORE_QUIESCED,		/* its file is closed, its process perhaps not gone */
};

struct core_slot {
	struct core_task *task;
	u32 gen;
	u32 next_free;
};

struct core {
	const struct core_ops *ops;
	struct core_params params;
	void *link;

	core_mutex lock;	/* the next block */
	struct clist clients;	/* the initialised ones */
	struct core_node *contexts;	/* trees, by id; changed with core->dispatch, too */
	struct core_node *tenants;	/* the same */
	struct core_node *users;
	u64 next_serial;
	u32 next_client;
	u32 nr_clients;
	struct clist idle;	/* tenants with limits alone; the longest unlooked at first */
	struct core_handles buffers;	/* ids of all buffers; changed with core->dispatch, too */
	struct core_kernel *kernels[CORE_MAX_KERNELS];	/* published by release */
	u32 nr_kernels;
	u32 kernels_replaced;	/* how often */

	core_spin dispatch ____cacheline_aligned;	/* the next block */
	u32 tail;		/* cells, for ever */
	u32 head_seen;		/* the mediator's, as last looked at */
	u32 slot_free;		/* first come, first served: a tag comes back late */
	u32 slot_last;
	u32 slots_used;

	u32 state ____cacheline_aligned;	/* enum core_mediator_state */
	u32 epoch;
	u8 *ring;		/* dispatch ring; the mediator maps it read-only */
	struct arax_mediator_page *page;
	u32 *states;
	struct arax_commit_entry *commits;
	struct core_slot *slots;
	struct clist backlog;
	struct cheap *sharers;	/* whose clients wait for their share, see share.c */
	struct clist task_notes;
	struct clist drop_notes;
	struct clist gone_notes;
	struct clist reached;	/* timelines with tasks to release */
	struct clist zombies;	/* tasks that a stuck old mediator still holds */
	struct clist deferred;	/* clients to wake, see core_params.defers_wakes */
	u64 poison;
	u64 poison_dead;	/* no mark up to this one counts */
	u32 nr_marking;		/* clients whose marks count */
	u32 nr_revoked;		/* buffers that somebody still uses */
	u32 era;		/* of promises: one between two deaths */
	u64 undispatched;	/* tags given to tasks that no mediator had */
	bool asked;		/* the mediator, for devices' figures, and has not answered */
	bool tenants_told;	/* some mediator has told how tenants wait */
	u64 asked_ns;		/* when it was asked last */
	u32 nr_devices;
	struct core_device *devices[CORE_MAX_DEVICES];
};

/*
 * What is found to be garbage under core->dispatch and is released after it,
 * and whom to wake.  Mostly there is none: so these are heaps, NULL if empty, which
 * objects are thrown on by the node with which they are in lists otherwise.
 */
struct core_garbage {
	struct clist *buffers;
	struct clist *queues;
	struct clist *timelines;
	struct clist *events;
	struct clist *clients;
	void *bigs;		/* singly linked through their first word */
	struct clist wake;
	u32 points;		/* on timelines, reached or let go of under this hold */
	bool mediator;		/* wake it */
	bool flush;		/* notes were added: publish them at the end */
	bool defer_wake;	/* see core_params.defers_wakes */
};

static inline void core_garbage_init(struct core_garbage *g)
{
	g->buffers = NULL;
	g->queues = NULL;
	g->timelines = NULL;
	g->events = NULL;
	g->clients = NULL;
	g->bigs = NULL;
	clist_init(&g->wake);
	g->points = 0;
	g->mediator = false;
	g->flush = false;
	g->defer_wake = false;
}

/* Whoever ends many tasks under one hold looks after each of them whether that is enough. */
static inline bool core_step_over(const struct core_garbage *g)
{
	return g->points >= CORE_STEP_POINTS;
}

/* It is in no list. */
static inline void core_garbage_throw(struct clist **heap, struct clist *n)
{
	n->next = *heap;
	*heap = n;
}

/*
 * Ends a critical section: publishes new notes, wakes whom it must, drops
 * core->dispatch, frees.
 * Not with core->lock held: the last reference to a client takes it.
 */
void core_unlock_collect(struct core *core, struct core_garbage *g)
	core_releases(&core->dispatch);

/* ------------------------------------------------------------------ */
/* core.c: life, and what is freed after the spinlock                 */

struct core *core_create(const struct core_ops *ops, const struct core_params *params,
			 void *link, int *err);
/* All clients must be gone; warns of whatever is still counted. */
void core_destroy(struct core *core);

/* ------------------------------------------------------------------ */
/* client.c                                                            */

static inline struct arax_ring_ctl *core_ctl(const struct core_client *c)
{
	return (struct arax_ring_ctl *)c->region;
}

/*
 * A client holds the tenant and user references that it is given; on error
 * they stay the caller's.  core_client_release() never blocks on the mediator:
 * running tasks keep what they need until they are committed.
 */
struct core_client *core_client_create(struct core *core, void *link, u32 uid, u32 gid,
				       s32 pid, const char *comm, struct core_tenant *tenant,
				       int *err);
void core_client_release(struct core_client *c);
void core_client_kill(struct core_client *c, u32 error);
int core_context_init(struct core_client *c, struct arax_context_init *a);
/*
 * As many tasks may be under way as its window has, besides those that a stuck mediator holds;
 * core->lock held.  Without memory there are less.
 */
void core_client_more_tasks(struct core_client *c);
/* client->lock held: some that were never used become free, if there are any. */
void core_client_begin_tasks(struct core_client *c);
/* core->dispatch held: is nothing left that points to it? */
void core_client_check_free(struct core_client *c, struct core_garbage *g);
/* Nothing is: then the link has it freed. */
void core_client_end(struct core_client *c);
void core_client_free(struct core_client *c);
int core_context_query(struct core *core, struct arax_context *a);
int core_context_kill(struct core *core, u32 id);
/* core->lock or core->dispatch held. */
struct core_client *core_context_find(struct core *core, u32 id);
int core_usage_query(struct core_client *c, struct arax_usage *a);
/* Has context-init been done?  Then the region and the geometry stand. */
static inline bool core_client_ready(const struct core_client *c)
{
	/* Pairs with the release in core_context_init(). */
	return core_load_acquire(&c->ready);
}

/* By client->lock; others look without it. */
static inline void core_client_count(struct core_client *c, enum core_type type, int by)
{
	core_write_once(c->nr[type], c->nr[type] + (u32)by);
}

/*
 * client->lock held: a handle for a queue or a timeline, or that goes, if it is there.  -ENOSPC: its table is
 * full, or its user has as many as one may have.
 */
int core_client_add(struct core_client *c, enum core_type type, void *object, u32 *handle);
/*
 * For a link: something that is no handle, and may outlive the client, counts as one of @user's until it is
 * given back: as many as a context may have handles.  Takes core->lock.  -ENOSPC.
 */
int core_user_handle_take(struct core *core, struct core_tenant *user);
void core_user_handle_give(struct core *core, struct core_tenant *user);
void *core_client_remove(struct core_client *c, enum core_type type, u32 handle);

/* Unread completions; any thread, may be out of date at once. */
u32 core_client_unread(struct core_client *c);
/* 0, -EINVAL or -EOPNOTSUPP. */
int core_submit_check(const struct core_client *c, const struct arax_submit *a);
/*
 * Of what came after its first @seen completions, is any what the client asks to be woken for?
 * Any thread of the client's own calls.
 */
bool core_asked_for(struct core_client *c, u32 seen);
/* Whether the wait in ARAX_IOC_SUBMIT is over; any thread, likewise. */
bool core_submit_done(struct core_client *c, const struct arax_submit *a);

/* ------------------------------------------------------------------ */
/* handle.c: by client->lock, or core->lock for core->buffers          */

int core_handles_init(struct core_handles *t, u32 max);
void core_handles_destroy(struct core_handles *t);
/* The same, but that the caller frees what it returns. */
void *core_handles_take(struct core_handles *t);
int core_handle_add(struct core_handles *t, enum core_type type, void *object, u32 *handle);
/*
 * Then core_handle_add() allocates nothing.  For a table that many share: @lock, which is
 * held, is let go of while there is memory to be had for it, as whoever's it is may have to
 * wait for that for seconds (memory.high).  Who holds @readers may find what is there at any time.
 */
int core_handles_room(struct core_handles *t, core_mutex *lock, core_spin *readers);
/* Inline, for each range of a task costs one. */
static inline struct core_slot_entry *core_handle_entry(const struct core_handles *t,
							enum core_type type, u32 handle)
{
	u32 i = CORE_HANDLE_INDEX(handle);
	struct core_slot_entry *e;

	if (i >= t->cap)
		return NULL;
	e = &t->e[core_nospec(i, t->cap)];
	/* One comparison. */
	return ((u32)e->type << 16 | e->gen) == ((u32)type << 16 | CORE_HANDLE_GEN(handle)) ?
	       e : NULL;
}

static inline void *core_handle_find(const struct core_handles *t, enum core_type type, u32 handle)
{
	struct core_slot_entry *e = core_handle_entry(t, type, handle);

	return e ? e->object : NULL;
}

void *core_handle_remove(struct core_handles *t, enum core_type type, u32 handle);
/* The next object at or after place *index, NULL past the last. */
void *core_handle_next(const struct core_handles *t, u32 *index, enum core_type *type);

/* ------------------------------------------------------------------ */
/* tenant.c                                                            */

/*
 * Tenants to come, made before core->lock is taken: their memory is the caller's cgroup's,
 * which may have him wait for it.  What has not been used is freed.
 */
int core_spares_make(struct clist *spares, u32 n);
void core_spares_free(struct clist *spares);

/*
 * With core->lock held; parent's reference is taken anew.  The path of one that is
 * already there stays.  A new one is of the spares, and NULL if there are no more; without
 * a list it is made on the spot.
 */
struct core_tenant *core_tenant_get_spare(struct core *core, u64 id, struct core_tenant *parent,
					  const char *path, struct clist *spares);
struct core_tenant *core_user_get(struct core *core, u32 uid, struct clist *spares);

/* For a link whose memory is charged to nobody that it serves. */
static inline struct core_tenant *core_tenant_get(struct core *core, u64 id,
						  struct core_tenant *parent, const char *path)
{
	return core_tenant_get_spare(core, id, parent, path, NULL);
}

void core_tenant_hold(struct core *core, struct core_tenant *t);
void core_tenant_put(struct core *core, struct core_tenant *t);
/* Lock-free, all or nothing, leaf to root and the user: 0 or -EDQUOT. */
int core_charge(struct core_tenant *t, struct core_tenant *user, u32 res, u64 n);
void core_uncharge(struct core_tenant *t, struct core_tenant *user, u32 res, u64 n);
/* How many tasks there is room for, @n at most; without core->dispatch out of date at once. */
u32 core_room_for_tasks(struct core_tenant *t, struct core_tenant *user, u32 n);
/*
 * For ARAX_RES_TASKS, and the only ones for it; core->dispatch held.  Charges as
 * many of n as there is room for and returns how many.
 */
u32 core_charge_tasks(struct core *core, struct core_tenant *t, struct core_tenant *user, u32 n);
void core_uncharge_tasks(struct core *core, struct core_tenant *t, struct core_tenant *user,
			 u64 n);
int core_limit_set(struct core *core, const struct arax_limit *a);
int core_tenant_query(struct core *core, struct arax_tenant *a);
void core_tenant_usage(struct core *core, struct core_tenant *t, struct arax_usage *u);
/* pressure.c */
int core_tenants_tell(struct core *core, struct arax_tenants_tell *a);
/* It has waited for @ns until @now, since that was told last; then what is known at @now. */
void core_pressure_add(struct core_pressure *p, u64 ns, u64 now);
void core_pressure_at(struct core_pressure *p, u64 now);
/* Those that are left when all clients and buffers are gone. */
void core_tenants_destroy(struct core *core);

/* ------------------------------------------------------------------ */
/* id_tree.c: core->tenants, ->users or ->contexts                     */

/* Where the node with this id is, or the empty place where it would be. */
struct core_node **core_tree_place(struct core_node **root, u64 id);
void core_tree_unlink(struct core_node **root, struct core_node *n);
/* The one with the least id that is not less than @id, or NULL. */
struct core_node *core_tree_from(struct core_node *root, u64 id);

static inline struct core_tenant *core_tenant_of(struct core_node *n)
{
	return n ? core_node_entry(n, struct core_tenant) : NULL;
}

static inline struct core_tenant *core_tenant_from(struct core_node *root, u64 id)
{
	return core_tenant_of(core_tree_from(root, id));
}

/* ------------------------------------------------------------------ */
/* buffer.c                                                            */

int core_buffer_create(struct core_client *c, struct arax_buffer_create *a);
int core_buffer_import(struct core_client *c, struct arax_buffer_import *a);
int core_buffer_export(struct core_client *c, struct arax_buffer_export *a);
int core_buffer_destroy(struct core_client *c, u32 handle);
int core_buffer_query(struct core_client *c, struct arax_buffer_query *a);
int core_buffer_revoke(struct core_client *c, u32 handle);
int core_buffer_get(struct core *core, struct arax_buffer_get *a);
/* By the link, when nothing can reach the pages any more. */
void core_buffer_free(struct core_buffer *buf);
/* By the link, while it backs a buffer that holds more than its own bytes. */
int core_buffer_charge_more(struct core_buffer *buf, u64 bytes);
/* Takes a reference unless the buffer is revoked. */
bool core_buffer_use(struct core_buffer *buf);
void core_buffer_put(struct core_buffer *buf);
struct core_buffer *core_buffer_new(struct core_client *c, u64 bytes, u32 type, int *err);
void core_buffer_put_last(struct core_buffer *buf, struct core_garbage *g);
static inline void core_buffer_put_locked(struct core_buffer *buf, struct core_garbage *g)
{
	/* Also if there was none to drop: that warns. */
	buf->users--;
	if (!core_likely((s64)buf->users > 0))
		core_buffer_put_last(buf, g);
}

/* buffer_share.c; core->lock held.  May the client make one more?  Then it counts, till it goes. */
bool core_buffer_share_left(const struct core *core, const struct core_client *c);
void core_buffer_share_count(struct core_tenant *leaf, struct core_tenant *user, int by);

void core_extent_add(struct core_extent *e, u32 *nr, u64 start, u64 end);
void core_extent_remove(struct core_extent *e, u32 *nr, u64 start, u64 end);
bool core_extent_overlaps(const struct core_extent *e, u32 nr, u64 start, u64 end);
/* Behind the last byte of a range; a checked one doesn't overflow. */
static inline u64 core_range_end(const struct arax_dispatch_range *r)
{
	return r->offset + (u64)(r->count - 1) * r->stride + r->length;
}

/*
 * lost.c; core->dispatch held.  Does the task read bytes that died with a mediator,
 * and that nobody before it is going to rewrite?  A task that is accepted promises
 * what it writes, until it ends.
 */
bool core_reads_lost(const struct core_task *t);
void core_promise(struct core_task *t);
void core_unpromise(struct core_task *t);

/* ------------------------------------------------------------------ */
/* queue.c, timeline.c                                                 */

int core_queue_create(struct core_client *c, struct arax_queue_create *a);
int core_queue_destroy(struct core_client *c, u32 handle);
void core_queue_put_locked(struct core_queue *q, struct core_garbage *g);

#define CORE_WAIT_PENDING	1

struct core_wait_point {
	struct cheap by_value;	/* its key is the value; in tl->waiters if @waits */
	struct core_client *client;
	struct core_timeline *tl;
	bool waits;		/* until it is reached, which it stays */
};

struct core_wait {
	struct core_client *client;
	u32 flags;
	u32 count;
	struct core_wait_point points[ARAX_WAIT_MAX];
};

/*
 * A link waits so: begin; while poll says CORE_WAIT_PENDING sleep until
 * client_wake; end (always, if begin succeeded).
 */
int core_wait_begin(struct core_client *c, const struct arax_wait *a, struct core_wait *w);
int core_wait_poll(struct core_wait *w, u32 *index);
void core_wait_end(struct core_wait *w);

int core_timeline_create(struct core_client *c, struct arax_timeline_create *a);
int core_timeline_destroy(struct core_client *c, u32 handle);
int core_timeline_query(struct core_client *c, struct arax_timeline_point *a);
int core_timeline_advance(struct core_client *c, const struct arax_timeline_point *a);
int core_timeline_eventfd(struct core_client *c, const struct arax_timeline_eventfd *a);
int core_timeline_export(struct core_client *c, struct arax_timeline_share *a);
int core_timeline_import(struct core_client *c, struct arax_timeline_share *a);
void core_timeline_put(struct core *core, struct core_timeline *tl);
void core_timeline_put_locked(struct core_timeline *tl, struct core_garbage *g);
/* Lets go of what the client has armed; or, under core->dispatch, of some: is there more? */
void core_timeline_disarm(struct core_client *c);
bool core_timeline_disarm_some(struct core_client *c, struct core_garbage *g);
void core_timeline_reach(struct core *core, struct core_timeline *tl, u64 value, s32 error,
			 struct core_garbage *g);
/* Its points and eventfds: no less than it would add to core_garbage.points, if it is reached or goes. */
static inline u32 core_timeline_points(const struct core_timeline *tl)
{
	return tl->nr_waiters + tl->nr_events;
}

/* Releases so many tasks at most that wait for what was reached. */
void core_timeline_release(struct core *core, u32 max);

/* ------------------------------------------------------------------ */
/* submit.c                                                            */

/*
 * Consumes up to max published entries.  Returns how many, or -EAGAIN (no
 * credit, or no room for who waits for it), -EINVAL (not published), -EPIPE, -ENXIO if
 * none was.
 */
int core_submit(struct core_client *c, u32 max);
/* The same without waiting for the client's lock: -EBUSY, a call of its own has it. */
int core_submit_try(struct core_client *c, u32 max);
/* (dispatch) What it depends on fails with the mediator: so do tasks of it that wait for room. */
void core_orphan(struct core_client *c);
/* Is the entry at that position published?  One load. */
static inline bool core_entry_ready(const struct core_client *c, u32 pos)
{
	const struct arax_task *t = (const void *)(c->region + c->layout.sq_offset +
				     (size_t)(pos & (c->depth - 1)) * c->entry_size);

	/* Pairs with the client's release when it publishes the entry. */
	return core_load_acquire(&t->seq) == pos + 1;
}

/*
 * The next entry's queue waits for room, and there is none yet.  Any thread; who sees room too late
 * has another look, as there is nothing that tells of it.
 */
static inline bool core_awaits_room(struct core_client *c)
{
	return core_read_once(c->awaits_room) && !core_read_once(c->dead) &&
	       !core_read_once(c->orphaned) && !core_room_for_tasks(c->tenant, c->user, 1);
}

/* The same at the consumer's position. */
static inline bool core_submit_ready(const struct core_client *c)
{
	return core_entry_ready(c, c->sq_head);
}

/*
 * refuse.c; client->lock held.  First core_refusals_hold() with the position of a
 * batch's first entry: does any mark hold there?  Then for each task in order: a
 * refused one, with its tag, is added; another is reached or not, and if it is,
 * t->origin says by whom and it counts as refused.
 */
bool core_refusals_hold(struct core_client *c, u32 pos);
void core_refusal_add(struct core_client *c, struct core_task *t, u64 pos);
bool core_refusal_reaches(struct core_client *c, struct core_task *t, u64 pos);
/*
 * When the completions of a batch have been posted: looks how far the client has
 * published meanwhile (false: only so far, as long as core->dispatch is held), and
 * ends the marks of the batch there.
 */
bool core_refusals_look(struct core_client *c, bool locked);
void core_refusals_close_queue(struct core_client *c, struct core_queue *q);
void core_refusals_close(struct core_client *c);

/* cancel.c */
int core_cancel(struct core_client *c, struct arax_cancel *a);
/* core->dispatch held: examines so many at most; false: there is no more. */
bool core_cancel_step(struct core *core, struct core_client *c, u32 max, struct core_garbage *g);

/* ------------------------------------------------------------------ */
/* mediator.c, dispatch.c, commit.c                                    */

/*
 * A mediator that takes over must not lose the old one its seat, and then have no memory:
 * what it needs is made before that.
 */
struct core_attachment {
	u8 *ring;
	u8 *shared;
};

/* May it attach, once a mediator that it takes over from is detached?  Nothing is held then. */
int core_attach_prepare(struct core *core, const struct arax_attach *a,
			struct core_attachment *at);
/* Takes the memory; an error leaves it to core_attach_drop(). */
int core_attach_with(struct core *core, struct arax_attach *a, struct core_attachment *at);
void core_attach_drop(struct core *core, struct core_attachment *at);
/* All of it, where there is none to take over from. */
int core_attach(struct core *core, struct arax_attach *a);
/* The mediator's file is closed: it commits nothing any more. */
void core_detach(struct core *core);
/*
 * The process of the mediator of that epoch is gone, and with it every DMA: what
 * it still held is let go if another one has taken over from it, else its tasks
 * are replayed or failed.  Each by itself: one that is stuck holds up no other.
 * Returns true if the seat is free now.
 */
bool core_mediator_gone(struct core *core, u32 epoch);
/*
 * No new mediator came: fail what is queued with EOWNERDEAD.  What is queued after that,
 * or meanwhile, asks for its own time by recovery_begin().
 */
void core_expire(struct core *core);
int core_fetch(struct core *core, struct arax_fetch *a);
int core_commit(struct core *core, struct arax_commit *a);
int core_mediator_charge(struct core *core, const struct arax_charge *a);

/* The broker is its own mediator: it reads and commits without copies. */
u32 core_commit_entries(struct core *core, const struct arax_commit_entry *e, u32 n, u32 mask,
			u32 first, u32 *stale);
/* Wakes whom submissions and commits have left asleep: see core_params.defers_wakes. */
void core_wake_deferred(struct core *core);
void core_wake_deferred_locked(struct core *core);
/*
 * The next entry of the dispatch ring from the mediator's position *head on,
 * or NULL; skips pads.  Used by the broker and, on the mapped ring, by araxd.
 */
static inline const struct arax_dispatch *core_ring_peek(const u8 *ring, u32 cells, u32 *head)
{
	const struct arax_dispatch *d;

	for (;;) {
		d = (const void *)(ring + (size_t)(*head & (cells - 1)) * ARAX_CELL_SIZE);
		/* Pairs with the release in dispatch.c: publish(). */
		if (core_load_acquire(&d->seq) != *head + 1)
			return NULL;
		if (d->type != ARAX_DISPATCH_PAD)
			return d;
		*head += d->cells;
	}
}

/*
 * dispatch.c; core->dispatch held.  Publishes some of what waits for room.  What is
 * left comes with the next call, and there may be such if this returns true: the
 * mediator is woken then, and its fetch goes on until all is done.
 */
bool core_dispatch_flush(struct core *core, struct core_garbage *g);
/* Behind all that are queued, in the backlog. */
void core_dispatch_requeue(struct core *core, struct core_task *t);
/* Nothing is waiting that a task of the client would pass in the ring. */
bool core_dispatch_is_free(const struct core_client *c);
/*
 * Puts a prepared task into the ring, or into its client's backlog.  @is_free: as above;
 * returns it for the next one.
 */
bool core_dispatch_queue(struct core *core, struct core_task *t, bool is_free,
			 struct core_garbage *g);
void core_slot_free(struct core *core, struct core_task *t);
/* A tag for a task that ends before a mediator had it: of epoch 0. */
void core_tag_undispatched(struct core *core, struct core_task *t);
void core_note_task(struct core *core, struct core_task *t, u8 note);
/* Asks the mediator for figures of its devices; false: there is none, or no room. */
bool core_note_devices(struct core *core, struct core_garbage *g);

/*
 * share.c; core->dispatch held.  May the client have one more of the mediator's slots?  If not,
 * it waits, and comes back to the backlog some time.
 */
static inline u32 core_slots_free(const struct core *core)
{
	return core->params.slots - 1 - core->slots_used;
}

bool core_share_left(const struct core *core, const struct core_client *c);
static inline bool core_share_allows(const struct core *core, const struct core_client *c)
{
	/* Mostly so, and nothing need be known of who it is. */
	return core_likely(core_slots_free(core) > core->params.slots / 2) ||
	       core_share_left(core, c);
}

void core_share_wait(struct core *core, struct core_client *c);
/* One of those that wait comes back; false: none may. */
bool core_share_return(struct core *core);
/* All do: limits have changed. */
void core_share_anew(struct core *core);
/* It waits for nothing any more. */
static inline void core_backlog_leave(struct core_client *c)
{
	clist_del(&c->backlog);
	clist_del(&c->share);
}

/* So many more of the client's tasks are in flight without a slot. */
void core_share_queued(struct core *core, const struct core_client *c, int by);
/* What these, and who is above, hold may have changed. */
void core_share_changed(struct core *core, struct core_tenant *leaf, struct core_tenant *user);
/* It has no client any more. */
void core_share_leave(struct core *core, struct core_tenant *t);

/* commit.c; core->dispatch held */
struct core_result {
	s32 result;
	u32 device;
	u32 dirty;
	u32 failure;
	u64 device_ns;
	u64 wait_ns;
	u64 bytes;
	u64 origin;
};

/* Was a buffer of its revoked, after it was accepted?  core->dispatch held. */
bool core_uses_revoked(const struct core_task *t);

/* Uncharges a task, posts its completion and releases what it holds. */
void core_complete(struct core *core, struct core_task *t, const struct core_result *r,
		   struct core_garbage *g);
/* Posts one entry; also for tasks that were refused. */
void core_post(struct core_client *c, u64 user_data, u64 tag, const struct core_result *r,
	       struct core_garbage *g);
/* As complete, but the buffers stay held until core_zombie_release(). */
void core_complete_held(struct core *core, struct core_task *t, const struct core_result *r,
			struct core_garbage *g);
void core_zombie_release(struct core_task *t, struct core_garbage *g);

/* fail.c; core->dispatch held */
void core_fail_mark(struct core *core, struct core_task *t);
/* Cancels t, which is queued, if it depends on a failed one. */
bool core_fail_reaches(struct core *core, struct core_task *t, struct core_garbage *g);
/* None of the client's tasks is queued from before the last failure. */
void core_fail_end(struct core *core, struct core_client *c);
/*
 * t, which is dispatched, fails by what the mediator's graph can't know of: so it has its dependents
 * run.  Before it leaves its list.
 */
void core_fail_mark_ended(struct core *core, struct core_task *t, u64 origin);
/* Whether t, which was dispatched and would end well, depends on such a one; then it is one, too. */
bool core_fail_reaches_ended(struct core *core, struct core_task *t, u64 *origin);
/* On settling, before it has a new order: whether t depends on what failed before the mediator did. */
bool core_fail_reached(const struct core_client *c, const struct core_task *t, u64 *origin);
void core_fail_end_ended(struct core *core, struct core_client *c);
/* Some of the client's have left that list. */
void core_fail_have_ended(struct core *core, struct core_client *c);
/* Is any task of the client queued, examined or not? */
bool core_has_queued(const struct core_client *c);

/* ------------------------------------------------------------------ */
/* registry.c                                                          */

int core_device_publish(struct core *core, const struct arax_device *a);
int core_device_query(struct core *core, struct arax_device *a);
/* Who knew figures of them is gone, and the next one may know none. */
void core_devices_forget(struct core *core);

/* why.c */
int core_task_explain(struct core *core, const struct arax_task_why *a);
int core_task_why(struct core_client *c, struct arax_task_why *a);
int core_kernel_publish(struct core *core, struct arax_kernel_publish *a);
int core_kernel_lookup(struct core *core, struct arax_kernel_lookup *a);
const struct core_kernel *core_kernel_find(struct core *core, u32 id);

/* ------------------------------------------------------------------ */
/* call.c: one table for every call that doesn't sleep                 */

#define CORE_ROLE_CLIENT	0x1	/* offered on the clients' node */
#define CORE_ROLE_MEDIATOR	0x2	/* needs the attached mediator's file */
#define CORE_ROLE_ADMIN		0x4	/* any open file of the mediator's node */
#define CORE_CALL_INIT		0x8	/* needs context-init */
#define CORE_CALL_LINK		0x10	/* the link runs it: it may sleep */

union core_args {
	u32 size;
	struct arax_info info;
	struct arax_context_init context_init;
	struct arax_submit submit;
	struct arax_wait wait;
	struct arax_cancel cancel;
	struct arax_task_why task_why;
	struct arax_buffer_create buffer_create;
	struct arax_buffer_import buffer_import;
	struct arax_buffer_export buffer_export;
	struct arax_handle handle;
	struct arax_buffer_query buffer_query;
	struct arax_queue_create queue_create;
	struct arax_timeline_create timeline_create;
	struct arax_timeline_point timeline_point;
	struct arax_timeline_eventfd timeline_eventfd;
	struct arax_timeline_share timeline_share;
	struct arax_kernel_lookup kernel_lookup;
	struct arax_device device;
	struct arax_usage usage;
	struct arax_attach attach;
	struct arax_fetch fetch;
	struct arax_commit commit;
	struct arax_buffer_get buffer_get;
	struct arax_charge charge;
	struct arax_tenants_tell tenants_tell;
	struct arax_kernel_publish kernel_publish;
	struct arax_limit limit;
	struct arax_tenant tenant;
	struct arax_context context;
	struct arax_kill kill;
};

struct core_call {
	u32 nr;
	u32 min_size;		/* last mandatory field's end */
	u32 size;		/* today's struct */
	u32 flags;		/* CORE_ROLE_* | CORE_CALL_* */
	int (*run)(struct core *core, struct core_client *c, union core_args *a);
};

/* NULL for an unknown number (bounds-checked against speculation). */
const struct core_call *core_call_find(u32 nr);
/*
 * Checks what holds for all calls (init done, client alive) and runs one.
 * The link has copied the struct (zero-extended, tail checked) and checked
 * roles; it copies the struct back whatever the result.  c is NULL for the
 * mediator's node.
 */
int core_call_run(const struct core_call *call, struct core *core, struct core_client *c,
		  union core_args *a);

#endif /* ARAX_CORE_CORE_H */
