/* SPDX-License-Identifier: MIT */
/*
 * runner.h - run launches on a device, in this process or in a tenant's
 *
 * One runner per device.  A kernel whose manifest says addressing = launch runs
 * in this process: on the caller's thread (runner_run) or on one of the
 * device's lane threads (runner_submit).  A kernel with addressing = data on a
 * device that works on host pages runs in a worker process of the tenant's,
 * with its uid and gid, which has no descriptor but its own and no new privileges; the
 * thread that would have run it waits for the worker.  So on an OpenCL device that works on
 * host pages: that worker has the driver, and another one the compiler.  A kernel that a program
 * brought (foreign) runs in one of its owner's alone, which is locked up besides
 * (sandbox.h), or not at all, and so is whatever has an OpenCL driver.
 *
 * THREADS
 *
 *   runner_run, runner_submit and runner_drop_* may be called from any
 *   thread.  The caller sees to it that no more than `lanes` launches are
 *   under way on a device, each on a lane of its own, or runner_depth() on each by
 *   runner_submit().  Those that are parked don't count.
 *
 * RESULTS
 *
 *   0 or the kernel's negative errno, else
 *   -EFAULT	the worker was killed by a bad access (SIGSEGV, SIGBUS, SIGILL,
 *		SIGFPE, SIGABRT, SIGSYS, SIGTRAP)
 *   -EIO	the worker went away otherwise (SIGKILL, exit)
 *   -ECANCELED	by runner_end()
 *   -ETIMEDOUT	the deadline passed, or it has run for worker.timeout: the worker was killed, or what
 *		was left of the launch's parts was not begun.
 *		Launches in this process that are not done in parts can't be stopped: they end
 *		when they end and report their own result
 *   -ENOEXEC, -ENOENT	no implementation for this kind of device, or it can't
 *		be loaded
 *   -EOPNOTSUPP	addressing = data on a device that no worker can drive
 *   -EAGAIN	no worker could be started, or the user has too many that don't end (logged)
 *   -EINVAL	a range that does not fit its buffer
 *   -EOPNOTSUPP	addressing = data on a device of this process that has memory of
 *		its own: no worker can see it; foreign, and nothing here can lock
 *		a worker up (logged)
 */
#ifndef ARAX_DAEMON_WORKER_RUNNER_H
#define ARAX_DAEMON_WORKER_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arax/kernel.h"
#include "daemon/backends/device.h"
#include "daemon/config.h"
#include "daemon/kernels/registry.h"
#include "daemon/reason.h"

/* Where a range lies, for a worker: it maps the buffer itself. */
struct runner_buffer {
	uint64_t id;		/* never reused for another buffer */
	uint64_t bytes;		/* of the buffer */
	uint64_t offset;	/* of the range's first byte */
	int fd;			/* mappable read/write; open until the task is done */
	int pad;
};

struct runner;

/**
 * struct runner_turn - by which a task makes way for others
 *
 * A worker can be stopped at any instant, and go on later; so can a launch in this process that is
 * done in parts (see runner_has_parts()), between two of them.  The thread that waits for it, or runs it, tells
 * each @slice_ns that it has run; whoever is told may have it make way.  Then it stands still and
 * has no lane any more, until it may go on: in a lane that is free, or beside the others.
 *
 * @slice_ns:	time between two looks; not 0
 * @slice:	on that thread, while the task runs: be short.  @ran_ns says for how long it has
 * @parked:	on that thread: it stands still, and another thread has its lane.  From now on
 *		it may go on, or end: without a lane, if its time is over
 * @ran_ns:	out: when it was last looked at
 * @paused_ns:	out, once it is done: how long it stood still
 * @want:	enum runner_want
 * @refused:	it could not make way: for whoever asked to take back
 * @waits, @past_ns, @pool: the runner's
 */
struct runner_turn {
	uint64_t slice_ns;
	void (*slice)(struct runner_turn *turn);
	void (*parked)(struct runner_turn *turn);
	_Atomic uint64_t ran_ns;
	uint64_t paused_ns;
	_Atomic uint32_t want;
	_Atomic bool refused;
	bool waits;			/* under the runner's lock */
	uint64_t past_ns;
	_Atomic(struct runner *) pool;	/* whose workers it has waited for: of others, too */
};

enum runner_want { RUNNER_WANT_NOTHING, RUNNER_WANT_WAY, RUNNER_WANT_END };

#define RUNNER_INLINE	0x1	/* on one thread, without splitting: it is short */
#define RUNNER_NO_WAIT	0x10	/* for @enter: others of this lane are under way, so -EAGAIN */
#define RUNNER_BEHIND	0x20	/* ... and it waits for some of them: it is to come right behind */
#define RUNNER_TRY	0x8	/* runner_try()'s */
#define RUNNER_ENTER_ONLY	0x4	/* by runner_submit(): @enter is all, there is no kernel */
#define RUNNER_TIMED	0x2	/* runner_run: measure device_ns (submit always does) */

/**
 * struct runner_task - a launch to run; the caller's, until it is done
 * @kernel:	of the registry given to runner_create
 * @launch:	group_begin 0, group_end everything; ranges[].data are addresses
 *		in this process (host devices) or on the device; where
 *		runner_needs_worker() the data pointers are ignored
 * @buffers:	one per range where runner_needs_worker(), else may be NULL
 * @uid, @gid, @tenant: of the context's owner
 * @flags:	RUNNER_*
 * @lane:	0 .. lanes - 1
 * @deadline_ns: CLOCK_MONOTONIC, 0: none
 * @program, @due_ns: as of struct arax_backend_run; of runner_submit()
 * @enter, @leave: on the lane's thread around a run by runner_submit(): @enter
 *		returns 0 or a negative errno, then the task does not run; @leave is
 *		given the kernel's result and returns the task's.  NULL: none
 * @hand_over:	on the lane's thread, after a kernel by runner_submit() on a lane without others ahead:
 *		true: its @leave and @done are called by somebody else, who has the task from then on,
 *		and the lane goes on without it.  NULL: never
 * @result:	out
 * @device_ns:	out: by the device's clock where it has one, else @wall_ns
 * @wall_ns:	out: how long the kernel took its thread
 * @start_ns:	out, where @wall_ns is: CLOCK_MONOTONIC, when the kernel began
 * @enter_ns:	out, of runner_submit(): what @enter took
 * @leave_ns:	out, of runner_submit(): what @leave took
 * @hold_ns:	out, of runner_submit(): @wall_ns, @enter and @leave together: the lane was held.
 *		Where several are under way at once, the part that none before it was told of
 * @short_ns:	runner_submit(): the kernel is thought to take no longer than this; 0: nothing is
 *		thought
 * @lost_cpu:	out, of runner_submit(): it took longer, if not very long, and its thread lost the
 *		CPU meanwhile: says nothing about the kernel
 * @done:	called once after runner_submit, on a lane thread: be short, don't
 *		block, don't call back into the runner except runner_submit
 * @next:	the runner's
 * @why, @why_len: runner_try()'s
 * @turn:	NULL: it never makes way for others
 * @most_ns:	that it may run in a worker; 0: worker.timeout
 * @ticket:	out, of runner_submit(): counts a lane's tasks, modulo 2^32
 * @after:	@nr_after tickets of earlier tasks of its lane, which were not done when it was
 *		submitted, and less than RUNNER_LATE before it: it runs, and enters, when they
 *		have all succeeded, and is done after them.  For lanes with runner_depth()
 * @order:	bit i: that is for after[i]'s place alone: it may run though this one fails, and if it has
 *		run it has not done so in vain.  It may be left out all the same
 * @before:	the lane's: what one of those has ended with behind which the device has it
 * @skipped:	out: one of them has not, so it did nothing; @result is -ECANCELED
 * @alone:	out, with -ENODEV: the device was lost while it ran nothing else
 * @declined:	out, with an error: by the device, which takes no such launch, or, with -EOPNOTSUPP, by a
 *		function, the last implementation that there is here: so nothing has been done.  The
 *		caller's to clear
 * @late:	out, with -ETIMEDOUT: its deadline had passed before it began, so nothing has been
 *		done.  The caller's to clear
 * @unpaid_ns:	added to: what its worker has used of a lane's time since its last launch, as it had
 *		a buffer to unmap.  The caller's to clear
 * @reason:	out, of a task that fails by runner_submit(): why, or ""
 * @image:	of a foreign kernel that was built for this device (runner_build()): what that
 *		gave, plus 1; else 0, or the runner's
 */
struct runner_task {
	const struct kernel *kernel;
	struct arax_launch launch;
	const struct runner_buffer *buffers;
	uint32_t uid;
	uint32_t gid;
	uint64_t tenant;
	uint32_t flags;
	uint32_t lane;
	uint64_t deadline_ns;
	uint64_t due_ns;
	uint32_t program;
	int32_t result;
	uint64_t device_ns;
	uint64_t wall_ns;
	uint64_t start_ns;
	uint64_t enter_ns;
	uint64_t leave_ns;
	uint64_t hold_ns;
	uint64_t short_ns;
	bool lost_cpu;
	int (*enter)(struct runner_task *task);
	int (*leave)(struct runner_task *task, int result);
	bool (*hand_over)(struct runner_task *task);
	void (*done)(struct runner_task *task);
	struct runner_task *next;
	char *why;
	size_t why_len;
	struct runner_turn *turn;
	uint64_t most_ns;
	uint64_t unpaid_ns;
	uint32_t ticket;
	uint32_t nr_after;
	uint32_t after[ARAX_LANE_DEPTH - 1];
	uint32_t order;
	int32_t before;
	bool skipped;
	bool alone;
	bool declined;
	bool late;
	int image;
	char reason[REASON_LEN];
};

#define RUNNER_LATE	8u

struct runner_stats {
	uint64_t runs;			/* in this process, without RUNNER_INLINE */
	uint64_t worker_runs;
	uint64_t workers;		/* alive now */
	uint64_t worker_starts;
	uint64_t worker_crashes;
	uint64_t worker_timeouts;
};

/* The device, registry and configuration outlive the runner.  -ENOMEM, -EAGAIN. */
int runner_create(struct device *dev, const struct registry *registry,
		  const struct config *config, struct runner **runner);

/*
 * Ends threads and kills workers; waits for launches under way; queued ones: ECANCELED.  Of several
 * runners all are to be stopped before one is destroyed: then workers that hang are waited for once.
 */
void runner_stop(struct runner *r);
/* ... and waits for workers' ends, but not for long. */
void runner_destroy(struct runner *r);

/*
 * Load a kernel now rather than at its first run, and say whether the device
 * can run it at all.
 */
int runner_prepare(struct runner *r, const struct kernel *k);

/*
 * For devices that are configured for what they run, as of backend.h; the kernel was
 * prepared.  Elsewhere 0, and there is nothing to configure.
 */
uint32_t runner_configuration(struct runner *r, const struct kernel *k);
int runner_configure(struct runner *r, const struct kernel *k);
uint64_t runner_switch_ns(struct runner *r, const struct kernel *k);

bool runner_needs_worker(const struct runner *r, const struct kernel *k);

/* Whether a launch that runs in this process can have a turn: cores do it in parts. */
bool runner_has_parts(const struct runner *r, const struct kernel *k);

/*
 * Workers that the device may have beside one for each lane: so many tasks can be parked.  0: that
 * is all, or it has none.
 */
uint32_t runner_spare_workers(const struct runner *r);

/*
 * Whether code that programs bring can be run here: the device works on host pages and is of
 * processor cores or OpenCL's, and there is a worker program that can lock itself up.  True may
 * become false once, when the first worker finds out.
 */
bool runner_can_foreign(const struct runner *r);

/*
 * Load @t->kernel, which a program brought, in a worker of its owner, and run nothing of it but
 * what loading it runs.  On a thread that may wait.  0 or an error as of a launch, and why,
 * for people: @t->why gets what the worker says, as printable ASCII.  Of @t are needed: kernel,
 * uid, gid, most_ns, turn, why, why_len, image; flags are RUNNER_TRY.
 */
int runner_try(struct runner *r, struct runner_task *t);

/* Whether what programs bring for such a device is built before it is run. */
bool runner_builds(const struct runner *r);
/*
 * Build the image that @t->kernel is in: for all its kernels.  On a thread that may wait.
 * *@built: a sealed memory file of *@bytes, the caller's.  Errors as of runner_try(), and
 * -E2BIG; @t->why gets the compiler's words, which may be several lines.
 */
int runner_build(struct runner *r, const struct runner_task *t, int *built, uint64_t *bytes);

/* Run to its end on this thread; returns task->result. */
int runner_run(struct runner *r, struct runner_task *task);

/*
 * The same for a kernel that is short and needs no worker, whatever the flags say:
 * it is not split, not timed and, as that costs more than itself, not counted.
 */
int runner_run_short(struct runner *r, const struct runner_task *task);
/* ... on a device with tasks ahead, on which nothing runs.  device_ns may be 0. */
int runner_run_ready(struct runner *r, struct runner_task *task);

/*
 * Launches that a lane can be given at once: behind the one that runs others may be on the
 * device already.  Each takes from the end of the one before it.  Their @enter must not wait
 * for the end of another task (RUNNER_NO_WAIT): with -EAGAIN it comes again when that is no more.
 */
uint32_t runner_depth(const struct runner *r);

/* Hand to the lane's thread; never fails, never blocks for long. */
void runner_submit(struct runner *r, struct runner_task *task);
/*
 * Before there are tasks: @more is not 0 as long as any run, on whatever device.  Lanes may stay awake
 * for what those have before them.
 */
void runner_expects(struct runner *r, const uint32_t *more);
/* Bits: lanes that wait for a task, and are awake.  Any thread. */
uint64_t runner_awake(const struct runner *r);
/*
 * About what passes until a task that is submitted now can begin, to one of @lanes (bits), which are idle:
 * to one that is awake, if any is.  Any thread.
 */
uint64_t runner_hand_over_ns(const struct runner *r, uint64_t lanes);

/* The next task's of @lane. */
uint32_t runner_ticket(const struct runner *r, uint32_t lane);
/*
 * Whether a launch is like the kernel's last one on a lane, so that all that a driver does for a
 * kernel or a size of its work-groups the first time has been done: compiling takes it as long as a
 * thousand launches.  Never of what calls a library, which has such first times of its own.
 */
bool runner_is_usual(const struct runner *r, const struct runner_task *t);

/*
 * A task with a turn that was submitted and is not done: has it make way soon, which it tells
 * by @parked, or, if no thread can be had for its lane, by @refused.  From any thread.
 */
void runner_make_way(struct runner_turn *turn);
/* It was parked: it goes on.  The caller sees to it that it has a lane, if it is to have one. */
void runner_go_on(struct runner *r, struct runner_turn *turn);
/*
 * Nobody wants it: what it has in a worker, or waits for one for, ends soon with -ECANCELED, parked or
 * not.  @r: of its lane; the worker may be another runner's, which is there still.
 */
void runner_end(struct runner *r, struct runner_turn *turn);
static inline bool runner_is_ended(const struct runner_turn *turn)
{
	return atomic_load(&turn->want) == RUNNER_WANT_END;
}

/*
 * The buffer is going: workers unmap it before their next launch.  No task that
 * uses it may be under way.
 */
void runner_drop_buffer(struct runner *r, uint64_t id);

/*
 * The kernel, a foreign one, is gone: workers that have loaded it are not used again, and
 * end as soon as they are idle.  Its number is no other kernel's ever.
 */
void runner_drop_kernel(struct runner *r, uint64_t serial);

void runner_query(struct runner *r, struct runner_stats *stats);

#endif /* ARAX_DAEMON_WORKER_RUNNER_H */
