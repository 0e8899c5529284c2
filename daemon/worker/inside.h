/* SPDX-License-Identifier: MIT */
/*
 * inside.h - what the files of a runner share
 *
 *   runner.c	launches in this process, and which go to workers; making and ending
 *   pool.c	workers: who has which, until when
 *   lane.c	threads that serve the device's lanes
 *   turn.c	tasks that make way for others
 */
#ifndef ARAX_DAEMON_WORKER_INSIDE_H
#define ARAX_DAEMON_WORKER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "daemon/worker/runner.h"
#include "daemon/worker/worker.h"

/* What is queued for one of a device's lanes. */
struct lane {
	struct runner *runner;
	uint32_t index;
	pthread_mutex_t beginning;	/* a launch, on the device: see runner_run_ready() */
	pthread_mutex_t lock;		/* what follows */
	pthread_cond_t cond;
	struct runner_task *head, **tail;
	bool stop;
	bool asleep;			/* its thread */
	uint64_t handed_ns;		/* when it was handed something in its sleep; 0: it was not */
	_Atomic uint32_t submitted;	/* counts tasks: seen without the lock */
	uint32_t taken;			/* of them; by its thread */
	uint32_t lost_waits, losses;	/* its thread's alone: see await.c */
	int32_t results[RUNNER_LATE];	/* of those that are done, by ticket; its thread's alone */
	struct worker *kept;		/* its thread's alone; see pool_keep_for() */
};

/**
 * struct lane_thread - serves a lane
 * @next:	of all of a runner's
 * @idle:	of those that have no lane
 * @lane:	its lane, NULL: none
 * @cond:	it has a lane; what it waits for with a task has come
 * @turn:	of that task
 *
 * But for @thread all is under the runner's lock.
 */
struct lane_thread {
	struct lane_thread *next, *idle;
	struct runner *runner;
	struct lane *lane;
	pthread_cond_t cond;
	struct runner_turn *turn;
	pthread_t thread;
};


#define RUNNER_OTHERS	(MANIFEST_MAX_IMPLS - 1)

/* A kernel on this device. */
struct handle {
	_Atomic(void *) loaded;		/* set once, under the runner's lock */
	void *others[RUNNER_OTHERS];	/* before it; for launches that @loaded is not for */
	int err;			/* loading failed: don't try again */
	bool host;			/* its first implementation calls a library */
	bool all_host;			/* and so does its last */
	_Atomic uint64_t block;		/* of the last launch that succeeded on a lane; 0: of none */
	/* For workers with OpenCL, before there are any launches. */
	int built;			/* a descriptor plus 1; 0: it is not */
	bool borrowed;			/* that is another kernel's, of the same file */
};

#define RUNNER_DEBTS	64u	/* of more nobody comes any more to pay the oldest */

/* What a worker that is gone has used of a lane's time since its last launch. */
struct debt {
	struct worker_key key;		/* who pays for it, with the next launch */
	uint64_t unpaid_ns;		/* 0: nothing is owed */
};

struct runner {
	struct device *dev;
	const struct registry *registry;
	uint32_t nr_kernels;
	struct handle *handles;
	bool host;			/* cores, on host pages: workers are possible */
	bool opencl;			/* OpenCL, likewise */
	bool follows;			/* as of device_follows() */
	_Atomic bool can_foreign;	/* and so are some that are locked up */

	pthread_mutex_t lock;		/* handles, workers, lanes' threads */
	struct worker_options options;
	uint64_t timeout_ns, idle_ns;
	uint32_t max_workers, nr_workers;	/* with those that are being started */
	pthread_cond_t room;		/* one is idle, or gone */
	struct worker *workers;		/* most recently used first */
	pthread_t keeper;
	pthread_cond_t keep;		/* something for the keeper to do */
	pthread_cond_t gone;		/* one that was killed has ended */
	bool has_keeper, stop;
	struct worker *leaving;		/* for it to end; only the keeper takes any out */
	struct debt debts[RUNNER_DEBTS];
	uint32_t nr_debts;		/* ever made: the next one's place, where none is free */

	_Atomic uint64_t runs, worker_runs, worker_starts, worker_crashes, worker_timeouts;
	_Atomic uint64_t awake;		/* bits: lanes that wait so */
	_Atomic uint32_t wake_ns;	/* what it takes to wake another one, about */
	const uint32_t *more;		/* see runner_expects() */
	_Atomic uint32_t busy;		/* tasks that have a lane */
	struct lane_thread *threads;	/* all of them */
	struct lane_thread *idle;	/* those that have no lane */
	bool ending;			/* and get none any more */
	uint32_t nr_threads, at_end;	/* of them, that have nothing to do any more */
	pthread_cond_t end;
	uint32_t nr_lanes;
	struct lane lanes[];
};

/* The calling thread; NULL: it is none of those. */
extern _Thread_local struct lane_thread *this_thread;
/* The lane that it serves: it may have none, and still a task. */
extern _Thread_local struct lane *this_lane;

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* -EIO, and that it may not be. */
int runner_no_errno(int result) __attribute__((cold));

/* What a kernel or a plug-in returned. */
static inline int checked(int err)
{
	return __builtin_expect(err > 0 || err < -4095, 0) ? runner_no_errno(err) : err;
}

/*
 * Where the lane's device orders launches itself: -EAGAIN, it has to be run by runner_run().
 * @after: as in struct arax_backend_run.
 */
int runner_start(struct runner *r, struct runner_task *t, uint32_t after);
/* It has ended on a lane: see runner_is_usual(). */
void runner_note(struct runner *r, const struct runner_task *t);

/* pool.c: a worker for this task alone, or an error; and back. */
int pool_take(struct runner *r, struct runner_task *t, const struct worker_time *time,
	      struct worker **worker);
void pool_give(struct runner *r, struct worker *w, enum worker_fate fate);
/* A lane that is about to run @t, or to wait asleep, may have to let go of the last one. */
void pool_keep_for(const struct runner_task *t);
void pool_keep_no_more(struct lane *lane);
/* One that was killed, and is not gone yet: one of @uid's, whoever it ran as. */
void pool_let_end(struct runner *r, struct worker *w, uint32_t uid);
/* Whether that user may have one more started; else -EAGAIN (logged), and the reason. */
int pool_may_start(struct runner *r, uint32_t uid);
/* All are killed, and none is looked after any more; nobody has one. */
void pool_stop(struct runner *r);
/* Till they have ended, or have had their time for it. */
void pool_end(struct runner *r);

/* lane.c */
int lanes_create(struct runner *r, uint32_t nr);
void lanes_destroy(struct runner *r);
/* Another thread serves this one's lane from now on.  False: there is none. */
bool lane_hand_over(void);

/* turn.c: what worker_run() asks of a task that may have to make way. */
int turn_look(struct worker_time *time, struct worker *w);
/* ... and a launch in this process, as of struct arax_backend_run; @arg is a struct worker_time. */
int turn_between(void *arg, int still);
/* A launch of the task's is over. */
void turn_ran(struct runner_turn *turn, const struct worker_time *time);

/* How long a task has stood still. */
static inline uint64_t turn_paused_ns(const struct runner_task *t)
{
	return t->turn ? t->turn->paused_ns : 0;
}

#endif /* ARAX_DAEMON_WORKER_INSIDE_H */
