/* SPDX-License-Identifier: MIT */
/*
 * worker.h - araxd's end of one worker process
 *
 * A worker belongs to one struct worker_key and runs one launch at a time: whoever
 * calls worker_run has it to himself.  worker_drop_* may come beside it.
 */
#ifndef ARAX_DAEMON_WORKER_WORKER_H
#define ARAX_DAEMON_WORKER_WORKER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/worker/proto.h"
#include "daemon/worker/runner.h"

/*
 * Of a killed one no code of its own runs any more, but what the kernel has begun for it may still
 * write to its task's buffers: so a lane waits for its end, as long as a slice is by default.
 */
#define WORKER_END_NS	50000000u

/* Of a device that a vendor's stack drives in the worker, too. */
struct worker_device {
	const struct config_list *options;	/* "key=value" of araxd.conf; NULL: none */
	uint32_t index;				/* the backend's */
	const char *name;
};

struct worker_options {
	int program;		/* O_PATH descriptor */
	uint32_t kind;		/* enum arax_device_kind: whose implementations it runs */
	uint64_t memory;	/* 0: no limit */
	uint64_t foreign_memory;
	cpu_set_t cpus;
	struct worker_device device;	/* of WORKER_OPENCL and WORKER_OPENCL_BUILD */
};

enum worker_fate {
	WORKER_ALIVE,
	WORKER_CRASHED,		/* -EFAULT */
	WORKER_EXITED,		/* -EIO: by itself */
	WORKER_GONE,		/* -EIO */
	WORKER_KILLED,		/* -ETIMEDOUT, -ECANCELED */
};

/*
 * Who may share a process: @owner and @serial are 0 but for foreign code, which is its
 * owner's alone; what has none is alone itself.  Other code is one tenant's at a time, for
 * containers can have the same uids: @tenant is 0 of foreign code.
 */
struct worker_key {
	uint32_t uid, gid;
	uint64_t tenant, owner, serial;
	enum worker_role role;
};

static inline bool worker_key_foreign(const struct worker_key *key)
{
	return key->role != WORKER_PLAIN;
}

struct worker;

/**
 * struct worker_time - how long a launch may take
 * @deadline_ns: CLOCK_MONOTONIC; 0: none
 * @most_ns:	that it may run; 0: for ever
 * @turn:	NULL: nobody is told, and it never makes way
 * @may_wait:	it may: the worker is of the device whose lane the task has
 * @began_ns, @paused_ns: out: when it did, with what its worker has to be told first, and how
 *		long it has stood still since
 * @look_ns:	when turn_look() is to be called next
 * @told:	turn_look()'s
 * @signal:	out, of a worker that crashed, or was killed by others: by which
 */
struct worker_time {
	uint64_t deadline_ns;
	uint64_t most_ns;
	struct runner_turn *turn;
	bool may_wait;
	uint64_t began_ns, paused_ns;
	uint64_t look_ns;
	bool told;
	int signal;
};

/*
 * For @launch, whose turn and deadline hold for the start as well.
 * -EAGAIN: can't be started now; -EOPNOTSUPP: it is to be foreign, and can't be locked
 * up on this machine; -ENODEV: the vendor's stack shows this user no such device.  Logged with
 * the reason.  -ETIMEDOUT, -ECANCELED: as of a launch.
 * Then *@worker is NULL, or one that was killed and is still there: for worker_gone().
 */
int worker_start(const struct worker_options *o, const struct worker_key *key,
		 const struct worker_time *launch, struct worker **worker);

/* Says that foreign code can't be run on this machine, and what would help. */
void worker_log_no_sandbox(const char *missing);

/*
 * Has what @t's image is compiled by a worker of its own, which is gone afterwards.  *@built:
 * a sealed memory file of *@bytes.  0; -ENOEXEC and the compiler's words in @t->why; -E2BIG;
 * others, and *@fate, as of a launch.  @o has a device, @key is WORKER_OPENCL_BUILD's.  *@left: that
 * worker, if it was killed and is still there; else NULL.
 */
int worker_build(const struct worker_options *o, const struct worker_key *key,
		 const struct runner_task *t, struct worker_time *time, enum worker_fate *fate,
		 int *built, uint64_t *bytes, struct worker **left);

/*
 * One that was killed: whether it has ended, with whatever it started that is in its cgroup, so that
 * only worker_free() is left to be done.  False: to be asked again; two seconds after its kill it has no descriptors any more, whatever it hangs in.
 */
bool worker_gone(struct worker *w);
/* Whether the process itself is known to have ended. */
bool worker_reaped(const struct worker *w);
/* Of one that is not gone nothing is known afterwards. */
void worker_free(struct worker *w);

/* The worker may be busy. */
void worker_kill(struct worker *w);

/* Of one with foreign code nothing runs but while it has a launch, whatever it started. */
void worker_pause(struct worker *w);
void worker_resume(struct worker *w);

/* What its threads have had of all CPUs together; 0: it is gone. */
uint64_t worker_cpu_ns(const struct worker *w);

/* Whoever it is of, in the middle of a launch: but for processes that an installed kernel started. */
void worker_halt(struct worker *w);
void worker_go_on(struct worker *w);
/* Whether its launch is over; of one that is being started, there is none yet. */
bool worker_answered(const struct worker *w);

/* Whether it says that it has done all that it was told.  It may lie. */
bool worker_caught_up(struct worker *w);
void worker_set_stale(struct worker *w);

const struct worker_key *worker_key(const struct worker *w);

/* Not to be used again. */
bool worker_stale(const struct worker *w);

/* Can it take another launch?  False: stop it and start another. */
bool worker_usable(struct worker *w);
/*
 * Likewise, of this one: what its driver keeps in files of each kernel that it was given has an end.
 * An idle worker's.
 */
bool worker_has_room(struct worker *w, const struct runner_task *t);

/* With @cores for a split kernel.  Returns the result; *fate says what became of it. */
int worker_run(struct worker *w, const struct runner_task *t, uint32_t cores,
	       struct worker_time *time, enum worker_fate *fate);

/* It has it loaded: then it is not to be used again. */
void worker_drop_kernel(struct worker *w, uint64_t serial);
/* True: it has it, and was told. */
bool worker_drop_buffer(struct worker *w, uint64_t id);

/* Link and state of the pool that holds the worker. */
struct worker_link {
	struct worker *next;
	bool busy;
	bool awake;		/* idle, but not paused: it is to unmap something */
	uint32_t awake_looks;	/* that the keeper has taken at it since */
	uint64_t woken_ns;	/* worker_cpu_ns() when that was last looked at */
	uint64_t unpaid_ns;	/* of a lane's time, that it has used since its last launch */
	uint64_t last_used_ns;
	uint64_t killed_ns;	/* when it was given up */
	uint64_t look_ns;	/* when it is looked again whether it is gone */
	uint32_t uid;		/* who has it then */
	bool lingers;		/* it was not gone at once */
};

struct worker_link *worker_link(struct worker *w);

#endif /* ARAX_DAEMON_WORKER_WORKER_H */
