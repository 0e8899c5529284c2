/* SPDX-License-Identifier: MIT */
/*
 * poller.h - the thread that moves tasks: rings, graph, scheduler, devices
 *
 * All of the state in struct poller belongs to the thread that holds the
 * polling role (role.h), or visits it while it sleeps (door.h), but for `work`,
 * by which the others reach it.
 */
#ifndef ARAXD_DISPATCH_POLLER_H
#define ARAXD_DISPATCH_POLLER_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/device.h"
#include "daemon/config.h"
#include "daemon/dispatch/door.h"
#include "daemon/dispatch/fetch.h"
#include "daemon/dispatch/figures.h"
#include "daemon/dispatch/quota.h"
#include "daemon/dispatch/rest.h"
#include "daemon/dispatch/role.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/dispatch/work.h"
#include "daemon/kernels/registry.h"
#include "daemon/link/link.h"
#include "daemon/sched/sched.h"
#include "daemon/worker/runner.h"

#define POLLER_LINKS	2
#define POLLER_THREADS	8
#define POLLER_BATCH	16	/* commits at most before they are told: the client reads while we run on */

#define unlikely(x)	__builtin_expect(!!(x), 0)

struct ahead;
struct back;
struct decline;
struct figures_threads;
struct gate;
struct host_thread;
struct memory;
struct recovery;
struct run;
struct trace;

/* Whether a device can run a kernel. */
#define RUNNABLE_NOT	0
#define RUNNABLE	1
#define RUNNABLE_HERE	2	/* on the poller's thread as well, if it is short */
#define RUNNABLE_HARDLY	3	/* it has declined launches: see decline.h */

/* A device as the poller sees it. */
struct poller_device {
	struct device *dev;
	struct runner *runner;
	bool copies;			/* and fills, and does services: by its lanes, or by @host */
	struct host_thread *host;	/* NULL: its lanes are threads on the host's cores */
	struct gate *gate;		/* if it is configured for what it runs, else NULL */
	struct ahead *ahead;		/* see ahead.h; NULL: it has no memory of its own */
	struct back *back;		/* see back.h; NULL: likewise, or lanes have several tasks */
	cpu_set_t cpus;			/* of the host's, that its lanes are threads on */
	uint32_t cpus_taken;		/* of them, by what was handed over */
	uint32_t lanes;
	uint32_t lanes_now;		/* of them, in its present configuration */
	uint32_t depth;			/* tasks that a lane can have */
	bool follows;			/* it takes launches before those have ended that they wait for */
	uint32_t nr_runs;		/* one for each of those */
	uint64_t runs_busy;		/* bits; there are at most 64 */
	uint64_t spares_busy;		/* the same of places behind these: see aside.h, back.h */
	uint32_t nr_spares;		/* of these */
	uint64_t lanes_busy;		/* the same of lanes, where each has one task */
	uint32_t nr_aside, max_aside;	/* tasks that make way, or have, and may */
	struct run *runs;		/* and behind them */
	struct run *direct;		/* one for run_direct() */
	uint64_t busy_ns;
	uint64_t tasks;
	struct figures figures;
	bool configured;		/* atomic: anew, and its lanes may be others now */
	bool changed;			/* since it was last published */
	bool lost;			/* it said ENODEV: nothing is given to it any more */
	/* Lost, and what that leaves to be done, which may be to rebuild it: see recover.h. */
	struct recovery *recovery;
	bool rebuilt;
	uint64_t tasks_at_loss;
	uint32_t hasty;
};

#define LONE_RANGES	6
#define LONE_ARGS	128

/**
 * struct lone - a task that is not in the graph, see lone.h
 * @node, @ranges, @args: it; these if they are longer than the node's own
 * @run:	by which it runs, or ran and has not come back; NULL: there is none
 * @begin:	ticks: of the last one
 * @company_until: ticks: several came at once lately
 * @row:	it is one of several: nobody waits for it alone
 */
struct lone {
	struct graph_node node;
	struct arax_dispatch_range ranges[LONE_RANGES];
	uint8_t args[LONE_ARGS] __attribute__((aligned(16)));
	struct run *run;
	uint64_t begin;
	uint64_t company_until;
	bool row;
};

struct poller {
	struct role role;
	struct door door;
	struct work_queue work;
	/* Set by the sleeping poller, read by whoever pushes work. */
	uint32_t asleep __attribute__((aligned(64)));
	uint64_t sleep_until;		/* ns, then it wakes by itself; UINT64_MAX: it doesn't */
	int event_fd;
	int epoll_fd;
	struct watch event_watch;
	struct watch **watches;		/* by their descriptors */
	uint32_t nr_watches;

	struct ticks ticks __attribute__((aligned(64)));
	uint64_t now;			/* ticks; at most some microseconds old */
	struct link *links[POLLER_LINKS];
	uint32_t nr_links;
	struct sched *sched;
	const struct config *config;
	const struct registry *registry;
	struct devices *devices;
	struct poller_device *devs;
	struct work *kept;		/* of @work, for the next turn: see do_work() */
	struct trace *trace;		/* NULL: nobody wants to know */
	struct memory *memory;		/* of devices that have their own; NULL: none has */
	bool follow;			/* there are devices for follow.c */
	bool unlike;			/* GPUs and others, see bounds.h */
	bool foresees;			/* the memory is told what tasks to come will use */
	uint32_t nr_devs;
	bool others_wait;		/* atomic: tasks that are queued have no lane */
	bool recover_again;		/* a lost device waits for what it takes */
	struct ahead *aheads;		/* of all devices */
	uint32_t nr_ahead;		/* tasks without a lane that have something on its way, or there */
	struct fetch_turns fetches;
	struct quota quota;
	struct figures_threads *figures;	/* NULL: araxd knows itself what there is to know */
	struct host_thread *undertaker;	/* of modules, see own.c, and of buffers, see link/ */
	uint8_t *runnable;		/* [kernel index * nr_devs + device]: RUNNABLE_* */
	char **unfit;			/* [kernel index]: see unfit.h; NULL: all devices run all */
	struct decline *declines;	/* as @runnable: see decline.h; NULL: nobody has, yet */
	bool exact;			/* now was read for the task that comes next */
	/* Of the thread that has the state now, if that visits; and its lane, if it has one. */
	const struct poller_device *visitor;
	uint32_t visitor_lane;
	bool unfinished;		/* the last turn ended for time, not for want of work */
	uint32_t told;			/* bits: links that this turn committed on, and so woke */
	struct rest rest;
	bool stopping;
	bool stopped;
	uint64_t inline_ns;
	uint64_t next_house;
	uint64_t next_slow;
	uint64_t next_complaint;	/* ticks: a tenant shall not fill the log */
	uint64_t next_save;
	uint32_t save_us;
	bool saving;			/* atomic: save was posted */
	bool tenants_told;		/* how they wait, once */
	struct work save;
	struct models *models;		/* NULL: run times are forgotten at the end */
	uint64_t last_tenant;
	long lost_cpu;			/* times, as last seen by was_preempted() */
	uint64_t mixed_until;		/* tasks of several tenants came lately */
	const struct link *last_alone;	/* whose task an idle device got last: */
	uint32_t last_context;		/* of this one's */
	uint64_t company_until;		/* others' did lately */
	uint32_t stays, stays_not;	/* of visitors, see visit.c */
	uint32_t running;
	struct lone lone;
	const struct poller_device *last_handed;	/* NULL: the last task ran on this thread */
	uint32_t core_lanes;		/* of all devices that are cores of the host's */
	uint32_t cpus, cpus_taken;	/* there are; devices' threads work on */

	pthread_mutex_t threads_lock;
	pthread_t threads[POLLER_THREADS];
	uint32_t nr_threads;
	/* Called by the poller when everything that ran has been committed. */
	void (*on_stopped)(void *arg);
	void *stopped_arg;

	struct {
		uint64_t late;		/* ran past their deadline or target */
		uint64_t aside;		/* times that a task made way */
		uint64_t followed;	/* tasks, see follow.h */
		uint64_t ahead;		/* tasks, see ahead.h */
		uint64_t left;		/* tasks, see back.h */
		uint64_t stayed;	/* visitors, and got what they had stayed for */
		uint64_t lone;		/* tasks, see lone.h */
		uint64_t tasks, inline_runs, handed, stolen, sleeps, errors, moves, visits;
	} stats;
	/* Atomic: some run elsewhere.  Lanes look at it time and again, see runner_expects(). */
	uint32_t more __attribute__((aligned(64)));
};

/* 0 or negative errno.  Devices, registry and configuration outlive it. */
int poller_create(const struct config *config, const struct registry *registry,
		  struct devices *devices, struct poller **out);
/* Before poller_start(). */
int poller_add_link(struct poller *p, struct link *l);
/* Before poller_start(); the poller closes it. */
void poller_set_trace(struct poller *p, struct trace *t);
/* Between the two: keep learnt run times in @path.  0 or -ENOMEM. */
int poller_keep_models(struct poller *p, const char *path);
/* Any thread: what is new of them is written soon. */
void poller_save_models(struct poller *p);
int poller_start(struct poller *p);
/*
 * Take in nothing new, finish what runs, commit it, call on_stopped (on the
 * poller's thread).  Any thread.
 */
void poller_stop(struct poller *p, void (*on_stopped)(void *arg), void *arg);
/* Another scheduling policy, soon; the log tells.  -ENOMEM.  Any thread. */
int poller_set_policy(struct poller *p, const char *name);
/* Ends the threads.  Links must still be there. */
void poller_destroy(struct poller *p);

/* Have @w->run called on the poller's thread.  Any thread. */
void poller_post(struct poller *p, struct work *w);
#define POLLER_NO_LANE	UINT32_MAX
/*
 * The same from a thread that runs tasks of @device, of its @lane or of none: if the poller
 * sleeps it does by itself what is to be done.  Bounded, and no kernel is run, but it may be
 * given tasks.
 */
void poller_bring(struct poller *p, struct work *w, uint32_t device, uint32_t lane);
/* The same for what was pushed to p->work. */
void poller_come(struct poller *p, uint32_t device, uint32_t lane);
/* Whether this thread holds the polling role, or visits who does. */
bool poller_is_here(void);
/* Only wakes it. */
void poller_kick(struct poller *p);

/* For reading.  By who is at the poller.  The watch stays the caller's. */
int poller_watch(struct poller *p, int fd, struct watch *w, bool edge);
void poller_unwatch(struct poller *p, int fd);

/* One writer, any readers. */
#define POLLER_COUNT(p, what) \
	__atomic_store_n(&(p)->stats.what, (p)->stats.what + 1, __ATOMIC_RELAXED)

/* A buffer is going: nothing here knows its mapping any more.  No task uses it. */
void poller_buffer_gone(struct poller *p, struct mapping *m);

/* (poller) CLOCK_MONOTONIC now, to some microseconds. */
static inline uint64_t poller_ns(const struct poller *p)
{
	return ticks_ns(&p->ticks, p->now);
}

/*
 * (poller) What @l knows of a tenant, for the scheduler.  The link that was added first and knows
 * that tenant is the one that counts.
 */
void poller_tell_tenant(struct poller *p, const struct link *l, const struct sched_tenant *t);

/* (poller) Those that have changed. */
void poller_publish_devices(struct poller *p);

/* poller.c for visit.c, (poller) */
void poller_be_here(bool here);
/* One turn.  Returns the amount of work found, or -1: the role is lost. */
int poller_turn(struct poller *p);
/* Nothing is to be done for now: wakes whom commits have left asleep. */
void poller_settle(struct poller *p);
/*
 * Makes the links ring when something comes, and looks once more: false if there is work.
 * @limit: ns, when to wake at the latest.
 */
bool poller_sleep_links(struct poller *p, uint64_t *limit);

/* run.c, (poller) */
struct commit_info {
	int32_t result;
	uint32_t device;
	uint64_t device_ns;
	uint64_t wait_ns;
	uint64_t bytes;
	uint64_t origin;
	uint32_t failure;
	uint32_t dirty;		/* ranges whose bytes are on a device alone */
};

enum run_outcome {
	RUN_DONE,	/* it ran, or runs */
	RUN_LOST,	/* it ran, and meanwhile the role went to another thread */
};

void poller_commit(struct poller *p, struct link *l, uint64_t tag, const struct commit_info *i);
/* What ended in the graph without running. */
void poller_commit_ended(struct poller *p, struct link *l);
/* Commits what the link has put, or all links have. */
void poller_tell(struct poller *p, struct link *l);
void poller_flush(struct poller *p);
enum run_outcome run_start(struct poller *p, struct graph_node *node);
/*
 * Runs a popped task at once and on this thread, past the scheduler's queue, if it is short and
 * nothing else has a claim; false: it was not taken.
 */
bool run_direct(struct poller *p, struct graph_node *node, enum run_outcome *outcome);
/* The same of that of lone.h. */
bool run_lone(struct poller *p, enum run_outcome *outcome);
/* Ends a task without running it, before sched_push(). */
void run_refuse(struct poller *p, struct graph_node *node, int result);
/* A task of link @arg ended in the graph: for the trace, if there is one. */
void run_record_ended(void *arg, const struct graph_node *node, const struct graph_done *done);
/* Ends a task that no device can run, and says why. */
void run_refuse_for_good(struct poller *p, struct graph_node *node);
/* Whether @device can run it, or will when it has been rebuilt and has room; and whether any can. */
bool run_could(const struct poller *p, const struct graph_node *node, uint32_t device);
bool run_anywhere(struct poller *p, const struct graph_node *node);
/* Of a launch; NULL: there is none of that number. */
const struct kernel *run_kernel(const struct graph_node *node);
/* Ends what waits for a device and will find none any more. */
void run_refuse_stranded(struct poller *p);
bool run_can(void *arg, const struct graph_node *node, uint32_t device);
/* Does any device run one launch at a time?  Then: what part of @device a task takes. */
bool run_takes_turns(struct devices *devices);
uint32_t run_part(void *arg, const struct graph_node *node, uint32_t device);
int runs_create(struct poller *p, struct devices *devices);
void runs_destroy(struct poller *p);

#endif /* ARAXD_DISPATCH_POLLER_H */
