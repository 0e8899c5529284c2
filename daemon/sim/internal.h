/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the engine's files share
 *
 *   engine.c	the loop; programs that submit, graph and scheduler
 *   ask.c	what the scheduler asks
 *   launch.c	a task from its pick to its end
 *   before.c	inputs of ready tasks that have no lane yet
 *   after.c	results that go back to the host
 *   ahead.c	inputs of tasks that aren't ready yet
 *   timeline.c	tasks of traces that wait for timelines
 *   quota.c	limits of what tenants hold on devices
 *   store.c	memory of devices: allocations, eviction
 *   copy.c	copy engines and links
 */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "daemon/dispatch/beside.h"
#include "daemon/graph/graph.h"
#include "daemon/memory/upcoming.h"
#include "daemon/sched/sched.h"
#include "daemon/sim/engine.h"
#include "daemon/sim/event.h"
#include "daemon/sim/residency.h"
#include "daemon/sim/share.h"

struct run;
struct app;

/* A run that waits for the copies to a place; in a list that its owner keeps. */
struct waiter {
	struct waiter *next, *prev;
	struct run *run;
};

/**
 * struct store - a buffer's bytes at one place
 * @arriving:	copies on their way to it
 * @leaving:	copies from it on their way
 * @pins:	runs that use it; with none, and nothing leaving, it may be evicted
 * @evicting:	it is written back in order to be dropped
 * @ahead:	what is there came for tasks that had no lane, and none has used it
 * @until:	of a plain buffer: tasks behind this one may find that the program has written anew
 */
struct store {
	struct store *next;		/* of the buffer */
	struct store *lru_next, *lru_prev;
	struct buffer *buffer;
	struct waiter waiters;		/* for what arrives */
	uint32_t place;
	uint32_t arriving, leaving, pins;
	bool evicting, ahead;
	uint64_t until;
};

/**
 * struct buffer - of an application
 * @host:	its store at the host
 * @stores:	of the devices
 * @upcoming:	uses by tasks that were submitted, if sim.foresees
 */
struct buffer {
	struct app *app;
	struct residency valid;
	struct upcoming upcoming;
	struct store host;
	struct store *stores;
};

/**
 * struct run - a task that was picked, or an access of the host that is ready
 * @stores:	of its ranges' buffers at its place; pinned if @pinned
 * @waits:	one per range at most; @pending of them are not over; then so many results are on
 *		their way
 * @left:	its lane is another one's already
 */
struct run {
	struct run *next, *prev;	/* of the device, or of the host */
	struct run *hungry;		/* next that waits for memory */
	struct run *held;		/* next that waits for its device's capacity */
	struct sim *sim;
	struct graph_node *node;
	struct app *app;
	const struct sim_task *task;
	const struct sim_range *ranges;
	struct device *device;		/* NULL: the host */
	struct store *stores[ARAX_MAX_RANGES];
	struct waiter waits[ARAX_MAX_RANGES];
	struct event ev;		/* of the host */
	struct share_job job;
	uint32_t pending;
	bool pinned, waiting_memory, running, left;
	uint64_t start_ns, ran_ns;
	double alone_ns;
};

/* The bytes [start, end) from one store of a buffer to another; @run: whose results, or NULL. */
struct copy {
	struct copy *next;
	struct run *run;
	struct buffer *buffer;
	struct store *from, *to;
	uint64_t start, end;
};

enum { TO_DEVICE, TO_HOST };

/* Over a wire; NULL: nothing flows. */
struct flow {
	struct share_job job;
	struct engine *engine;
	struct wire *wire;
};

/**
 * struct engine - one of a device's two copy engines: one copy at a time, in order
 * @first:	is at work
 * @latency:	then the bytes flow
 * @flows:	over its own wire; and over another device's, if they come from there directly
 */
struct engine {
	struct device *device;
	struct wire *wire;
	struct copy *first, **last;
	struct event latency;
	struct flow flows[2];
};

/* A link's direction, or both. */
struct wire {
	struct share share;
	struct event ev;
	double ns_per_byte;
	uint64_t latency_ns;
	uint32_t devices;		/* that there were at the start */
	uint64_t queued;		/* bytes that its engines have still to copy */
};

/* A ready task whose inputs come to a device that is busy; @out: not all of them are there. */
struct coming {
	struct graph_node *node;
	struct app *app;
	const struct sim_task *task;
	uint32_t range;			/* that comes */
	bool out;
};

/* A device's, in the order in which they come. */
struct before {
	struct coming of[SCHED_NEXT];
	uint32_t nr, most, out;
	uint32_t vain;			/* times in a row that nothing was found */
};

struct device {
	const struct sim_device *conf;
	struct sim *sim;
	uint32_t index, place;
	struct share compute;
	struct event done;		/* of the first kernel to end */
	struct event loss;
	struct event feed;		/* memory was given back */
	struct engine engines[2];
	struct waiter borrowers;	/* who would copy from it, one after the other */
	uint32_t lent;			/* copies from it to other devices, on their way */
	uint32_t left;			/* tasks that have no lane any more */
	uint32_t aheads;		/* stores with store.ahead */
	struct before *before;		/* NULL: nothing comes so */
	uint64_t used, evicting;	/* bytes */
	bool full;			/* something had to go */
	struct store lru;		/* unpinned ones, used longest ago first */
	struct run runs;
	struct run *hungry, **hungry_last;
	struct run *held;		/* whose data is there, in the order of their turns */
	double used_seen;		/* of compute.used, already in the bins, */
	uint64_t seen_at;		/* until then */
};

/**
 * struct brief - what the scheduler's questions need of a device, in half a cache line
 * @kinds: bit of its kind; 0: it is lost
 * @peers: its kind, and 1, if those of it copy to each other; 0: they don't
 */
struct brief {
	uint32_t kinds, place;
	uint64_t memory;
	const struct wire *wire;	/* towards it */
	uint32_t peers;
};

/**
 * struct app - a program that runs
 * @next:	task that it submits next
 * @blocked:	index of the task that it waits for, or SIM_ANY
 * @known:	number of the last failure that it knows of
 * @copies:	of its buffers on their way: these stay until there are none
 */
struct app {
	struct sim *sim;
	const struct sim_app *conf;
	uint32_t index;
	uint32_t next, outstanding, blocked, known;
	uint32_t copies;
	bool ended;
	struct event ev;
	struct buffer *buffers;
	uint64_t *ends;			/* of each task, in a closed loop; 0: it has not ended */
	struct quota *quota;		/* of its tenant; NULL: it has none */
};

struct sim {
	const struct scenario *sc;
	const struct sim_options *o;
	struct sim_result *r;
	struct graph *graph;
	struct sched *sched;
	struct events events;
	uint64_t now;
	int err;			/* what ended the run early */
	const char *why;
	struct device *devices;
	struct wire *wires;		/* two per link */
	struct app *apps;
	struct run host_runs;
	struct run *free_runs;
	struct copy *free_copies;
	uint32_t *slots, nr_slots, free_slots;
	uint32_t *task_of;		/* of each slot */
	uint16_t kernels[SIM_MAX_KERNELS + 1];	/* their numbers, by themselves */
	uint64_t generation;
	uint32_t apps_left;		/* that have not ended */
	uint64_t *app_left;		/* the same, of each tenant */
	bool first_ended;
	bool foresees;			/* memory is or was short on a device: see store.c */
	bool changed;			/* something that the scheduler would look at */
	bool look;			/* something that before.c would */
	struct before *before;		/* of the devices that have memory; NULL: see there */
	uint64_t *look_at;		/* of each device: when to look again */
	uint32_t *coming;		/* of each slot: 1 + device that its inputs come to, or 0 */
	uint32_t nr_coming;
	uint64_t nr_asked, nr_looked;	/* tasks that were asked about, of them for this */
	struct event look_event;
	struct timeline *timelines;
	struct blocked *all_blocked, *free_blocked;
	struct quota *quotas, *freed;	/* of each tenant; those that are to be looked at */
	struct brief *briefs;		/* of each device */
	struct {
		uint64_t seq, footprint;
		uint32_t pin, kinds;
	} asked;			/* of the node that can_run() was asked about last */
	uint64_t known_seq;		/* the same of transfer_ns(), */
	uint64_t known_version, version; /* while nothing has moved */
	uint64_t known_bytes;
	uint64_t known_away;		/* of them on any device */
	uint64_t known_out;		/* results that go back, */
	uint32_t known_outs;		/* in so many copies */
	uint64_t known_direct[SIM_MAX_KINDS]; /* not at the host; comes to the kind directly */
	uint64_t *known_at, *known_off;	/* bytes by place; that the host hasn't */
};

/* Ends the simulation with @err: it cannot go on. */
void sim_stop(struct sim *sim, int err, const char *why);
void sim_set(struct sim *sim, struct event *e, uint64_t time);

/* launch.c: @d is NULL for an access of the host */
void run_begin(struct sim *sim, struct graph_node *node, struct device *d);
/* Memory is there for it: what does it wait for, or can it run? */
void run_stage(struct run *run);
/* What arrived at the store, or whatever they wait for, is complete, or lost. */
void run_wake(struct waiter *list);
void device_init(struct sim *sim, struct device *d, uint32_t index);
void device_lose(void *sim, struct event *e);
/* Its lane is another one's: it has not run, and is no run any more. */
void run_give_back(struct run *run);
/* Books what the device did until now. */
void device_book(struct device *d);
/* Capacity that its kernel, which runs, has had until now. */
double run_used(const struct run *run);

/* before.c.  False: no memory. */
bool before_init(struct sim *sim);
/* Nothing more can be picked now; @anew: something has changed since that was so. */
void before_look(struct sim *sim, bool anew);
/* Nothing is on its way to @d, for which something may come so. */
void before_go_on(struct device *d);
/* It begins, or ends without. */
void before_forget(struct sim *sim, const struct graph_node *node);
void before_lost(struct device *d);

/* after.c: the kernel of a task of plain buffers has ended */
void run_leave(struct run *run);
/* One of its results is at the host. */
void run_is_back(struct run *run);

/* timeline.c.  False: no memory. */
bool timelines_init(struct sim *sim);
void timelines_free(struct sim *sim);
/* Whether what the task waits for is not there yet, or *@error, which it then ends with. */
bool task_is_blocked(struct sim *sim, const struct app *a, const struct sim_how *how, int *error);
/* It was added, and is. */
void task_block(struct sim *sim, const struct app *a, const struct sim_how *how, uint64_t tag);
/* A task has ended that brings a timeline to a value. */
void timeline_signal(struct sim *sim, const struct sim_how *how, int result);

/* quota.c.  False: no memory. */
bool quotas_init(struct sim *sim);
struct quota *quota_of(struct sim *sim, uint32_t tenant);
/* A store that nobody has used is used; is no longer, and who waits may be told. */
void quota_hold(const struct store *s);
void quota_let_go(const struct store *s, bool look);
/* Something is to come for a task that has no lane; false: its tenant couldn't pay for it. */
bool quota_ahead(struct quota *q, const struct sim_task *t);
void quota_not_ahead(struct quota *q, const struct sim_task *t);
/* Whether the tenant may hold what the run needs; then run_reserve() can be called. */
bool quota_admits(const struct run *run);
/* It holds it; of an application with a quota. */
void quota_entered(const struct run *run);
/* It may not: it waits, or fails, without a lane. */
void quota_wait(struct run *run);
/* The task has ended. */
void quota_gone(struct sim *sim, struct quota *q, const struct graph_node *node);
/* Those who wait, where some has been let go: for when nothing else is under way. */
void quota_look(struct sim *sim);

/* ahead.c: its kernel runs; what comes after it may need bytes, too. */
void run_look_ahead(struct run *run);

/* engine.c: the task's end, for the graph, the scheduler and its program */
void task_end(struct run *run, int result);
struct app *app_of(struct sim *sim, const struct graph_node *n, const struct sim_task **task);
/* Whether there is a device for it; it ends for want of one, in no queue of the scheduler. */
bool task_can_run(struct sim *sim, const struct graph_node *n);
void task_refuse(struct sim *sim, struct graph_node *n);
/* Hands a ready task to the scheduler, or ends it if nothing can run it. */
void task_queue(struct sim *sim, struct graph_node *n);

/* ask.c */
bool sim_can_run(void *arg, const struct graph_node *node, uint32_t device);
extern const struct sched_ops sim_answers;

/* store.c */
void store_init(struct store *s, struct buffer *b, uint32_t place);
struct store *store_find(struct buffer *b, uint32_t place);
/*
 * Finds or makes, and pins, the stores of all of its ranges.  False: there is no memory for
 * them now, and nothing is pinned.
 */
bool run_reserve(struct run *run);
void run_unpin(struct run *run);
/* A new store for @b that nobody uses yet; NULL: something would have to go for it. */
struct store *store_spare(struct device *d, struct buffer *b);
/* A copy from or to it has ended, or nobody uses it any more. */
void store_settle(struct store *s);
void store_drop(struct store *s);
/* Whether what is valid there is so for the task @seq. */
static inline bool store_is_trusted(const struct store *s, uint64_t seq)
{
	return seq <= s->until || s->pins || !s->buffer->app->conf->plain;
}
/* Else nothing is valid there any more. */
void store_distrust(struct store *s, uint64_t seq);
/* Gives back what holds no valid byte any more. */
void stores_stale(struct buffer *b);
/* Memory has become short: from now on it counts what comes. */
void stores_foresee(struct sim *sim);
/* A task of @a was submitted; has ended. */
void stores_will_use(struct app *a, const struct sim_task *t, uint64_t seq);
void stores_have_used(struct app *a, const struct sim_task *t, uint64_t seq);
/* Whether what comes to the device makes something else go, or nearly. */
bool device_is_full(const struct device *d);
bool app_buffers_make(struct sim *sim, struct app *a);
/* Its tasks have ended. */
void app_buffers_drop(struct app *a);
void app_buffers_free(struct app *a);

/* copy.c; NULL: no memory, and the simulation has ended */
struct copy *copy_start(struct sim *sim, struct store *from, struct store *to, uint64_t start,
			uint64_t end);
void wire_init(struct wire *w, const struct sim_link *l);
void engine_init(struct engine *e, struct device *d, struct wire *w);
/* Whether what @place has can come to @device by no way through the host. */
bool are_peers(const struct sim *sim, const struct device *d, uint32_t place);
/* @d is gone: takes all copies out that it has a part in, which are to be given to copies_lost(). */
struct copy *copies_take(struct device *d);
/* Stores must be as they are without the device. */
void copies_lost(struct sim *sim, struct copy *c);

#define owner_of(ptr, type, member)	((type *)((char *)(ptr) - offsetof(type, member)))

#endif /* SIM_INTERNAL_H */
