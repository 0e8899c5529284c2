/* SPDX-License-Identifier: MIT */
/* What the files of the library share. */
#ifndef LIBARAX_INTERNAL_H
#define LIBARAX_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <arax/arax.h>

#include "barrier.h"
#include "error.h"
#include "eventfd.h"
#include "link.h"
#include "lock.h"
#include "quiet.h"
#include "ring.h"

_Static_assert(sizeof(off_t) == 8 && sizeof(time_t) == 8,
	       "compile with -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64");

#define SPIN_FIRST_NS	20000u	/* what a context begins with, see awake.c */
#define PROBE_FIRST	16u

enum {
	EVENT_UNUSED,
	EVENT_PENDING,
	EVENT_DONE,
};

/*
 * LOCKS
 *
 *   ax->ring_lock	the rings, both ends, and the queues' counters.  Held for
 *			tens of nanoseconds, never across a system call.
 *   ax->sleep_lock	who of the waiting threads sleeps on the link (the
 *			leader) and how many sleep on sleep_cond (followers).
 *   ax->object_lock	lists of the context's objects.
 *
 * None is taken with another held, but ring_lock inside sleep_lock.
 */
struct arax {
	struct link *link;
	unsigned int generation;	/* of the process that opened it */
	bool has_rings;
	int dead;			/* 0 or -errno; atomic, set once */

	struct lock ring_lock;
	struct ring ring;

	/* The last kick had to wake the consumer.  Relaxed: a hint for spinning. */
	bool woke;
	uint32_t woke_skips;		/* relaxed; spins forgone since the last try */
	bool woke_worth;		/* relaxed; that try was worth it */
	/* Relaxed; waits that began by waking the consumer after a long gap. */
	uint32_t woke_turns;		/* since the last trial of both kinds began */
	uint32_t woke_cycle;		/* of them, until the next one */
	uint32_t woke_ns[2];		/* mean: asleep at once, [1] spinning; 0: unknown */
	uint64_t woke_end;		/* when the last such wait, or a shorter one, ended */
	uint32_t hold;			/* relaxed; sleeps left before spinning again */
	uint32_t hold_length;		/* relaxed; of the last such time */
	uint32_t spin_ns;		/* relaxed; see awake.c */
	/* Relaxed; waits awake where sleeping is the rule. */
	uint32_t awake;			/* waits that ended awake */
	uint32_t awake_before;		/* so many had at the last sleep */
	uint32_t slept_ns;		/* mean of the waits that ended asleep */
	uint32_t probe_left;		/* until the next one is tried */
	uint32_t probe_every;
	struct quiet quiet;		/* relaxed */
	uint32_t notes;			/* ring_lock; tasks in flight whose event has a notify */

	pthread_mutex_t sleep_lock;
	pthread_cond_t sleep_cond;
	bool leader;
	unsigned int followers;		/* atomic, written under sleep_lock */

	/* arax_poll_fd() has been called: cq_need_wakeup stays set. */
	bool armed;			/* atomic */
	int poll_fd;
	int nudge_fd;

	pthread_mutex_t object_lock;
	char *module_log;		/* object_lock; NULL: none failed, or without words */
	struct buffer *buffers;
	bool has_explicit;		/* atomic; one of them is or was */
	struct arax_queue *queues;
	struct arax_timeline *timelines;

	struct link_region region;
	struct refusals *refusals;	/* ring_lock; NULL: none are kept */

	/* By themselves: several threads that look take the line from each other. */
	uint32_t looks __attribute__((aligned(64)));	/* relaxed; without a wait, and in vain */
	uint64_t looked;		/* relaxed; when the last of them asked for the link's end */
};

struct buffer {
	struct arax_buffer pub;		/* first: what programs hold */
	struct arax *ax;
	size_t mapped;			/* bytes, 0: not ours to unmap */
	bool is_explicit;		/* ARAX_BUFFER_EXPLICIT */
	struct buffer *next;
};

struct arax_queue {
	struct arax *ax;
	uint32_t handle;
	uint32_t inflight;		/* ring_lock; atomic reads outside */
	uint64_t last;			/* ring_lock: ticket of what was submitted last */
	int error;			/* ring_lock: first of tasks without event */
	uint64_t error_tag;		/* of the task that failed by itself for it */
	bool destroyed;			/* ring_lock: freed when inflight is 0 */
	struct arax_queue *next;
};

struct arax_timeline {
	struct arax *ax;
	uint32_t handle;
	struct arax_timeline *next;
};

extern unsigned int process_generation;	/* grows in each forked child */

/* Is this the process that opened the context? */
static inline bool is_owner(const struct arax *ax)
{
	return likely(ax->generation == load_relaxed(&process_generation));
}

int not_owner(void) __attribute__((cold));

/* context.c */

/* Takes the link over, also on failure.  @o has been checked and completed. */
int context_new(struct arax **ax, struct link *link, const struct arax_options *o);
/* A call over the link, with what is common to errors. */
int context_call(struct arax *ax, const char *what, unsigned int nr, void *arg);
/* Why a call had ENOSPC, to be put behind what it was; "": unknown. */
const char *too_many(unsigned int nr);

#define WHY_LEN		(ARAX_WHY_LEN + 256)

/* wait.c: ": why", or "", of a task that failed with @result; room for WHY_LEN bytes. */
void task_why(struct arax *ax, uint64_t tag, int result, char *text);

/* refusal.c: what was refused; without memory for them none are kept. */
int refusals_init(struct arax *ax);
void refusals_destroy(struct arax *ax);
/* (ring_lock) A failure has come back, its ticket is not free yet. */
void refusal_note(struct arax *ax, const struct arax_completion *c) __attribute__((cold));
/* What was wrong with it.  false: there is nothing to be said. */
bool refusal_text(struct arax *ax, uint64_t tag, int result, char *text, size_t len);

/* quota.c: which limit of @resource, of which @amount was wanted, stood in the way. */
void quota_text(struct arax *ax, uint32_t resource, uint64_t amount, char *text, size_t len);

/* query.c: the first kernel with an id of at least @id.  Sets no error text. */
int kernel_by_id(struct arax *ax, uint32_t id, struct arax_kernel *kernel);

/* complete.c */

/* Takes what is in the completion ring, and ends all if the context is dead. */
int complete_all(struct arax *ax);
/* The link is gone, or the context: tasks in flight end with an error. */
void complete_dead(struct arax *ax, int err);
/* ctl->dead as a negative errno, noting it; 0 while alive. */
int context_dead(struct arax *ax);
/* A call with @ax calls what this thread still has to, also from within a notify. */
void notify_noted(struct arax *ax);
/* Does this thread have one to go back to, from the notify that it is in? */
bool notify_is_called_by(const struct arax *ax);

/*
 * access.c: the notify of an access's markers, and what has to be done with ring_lock held,
 * before: there who waits for them looks before he sleeps.
 */
void access_ended(struct arax_event *event);
void access_count(struct arax_event *event);

/* wait.c */

/* What a sleeper wants to be woken for; less wakes it in vain, and then it sleeps again. */
struct wake {
	uint32_t why;		/* ARAX_WAKE_* */
	uint32_t more;		/* with _AT: completions from now on, at the very least */
	uint64_t ticket;	/* with _FOR */
};

/*
 * Waits until @done(@arg), which must become true by a completion and be cheap.
 * @wake: asked under ring_lock before each sleep; NULL: any completion may do it.
 * 0, -ETIMEDOUT or, if the context is dead and @done still false, its error.
 */
int wait_until(struct arax *ax, bool (*done)(void *arg), struct wake (*wake)(void *arg),
	       void *arg, uint64_t deadline);
/* With ring_lock held: such a task comes, before its entry is published, or has ended. */
void wait_note(struct arax *ax);
void wait_noted(struct arax *ax);
/* Wake other waiting threads, after completions were handed out. */
void wait_wake_followers(struct arax *ax);
/* Nothing has completed: does the link still stand?  Asked now and then only. */
void wait_look_for_end(struct arax *ax);
uint64_t now_ns(void);

/* submit.c: waits until a task may be in flight besides those that are.  Returns as wait_until() does. */
int submit_room(struct arax *ax, uint64_t deadline);

#endif /* LIBARAX_INTERNAL_H */
