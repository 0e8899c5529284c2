/* SPDX-License-Identifier: MIT */
/*
 * policy.h - what a policy is: WHERE a task runs
 *
 * Whose task is next is decided already (sched.c).  A policy is asked for one task
 * at a time, and again at the next occasion if it lets the task wait.  It sees the
 * scheduler's devices and models (internal.h) and the hooks in s->ops, any of which
 * may be NULL.
 */
#ifndef ARAXD_SCHED_POLICY_H
#define ARAXD_SCHED_POLICY_H

#include "daemon/sched/internal.h"
#include "daemon/sched/policies.h"

/**
 * struct sched_policy - where tasks run
 * @state_bytes: of s->policy_state, which is zero when the policy takes over
 * @choose:	returns a device that can_run() the task and is device_idle(), or
 *		SCHED_NO_DEVICE: the task waits, and later ones are looked at
 * @context_gone: a client has left, whose tasks have this task_context().  May be NULL
 * @leave:	another policy takes over, or the scheduler ends: free what the state
 *		points to.  May be NULL
 * @spare:	none of the tasks that were asked for has a device, and some device is idle: one
 *		of these others of a tenant for it, with node->device set; or NULL.  They are a
 *		heap by their turn.  May be NULL
 * @placed:	@node was given the device that the policy chose, and the policy had set s->chosen
 *		to it.  May be NULL
 * @left:	@node, of which an outlook counts that it has no device (sched_task.h), was given one,
 *		which is done with it at @end_ns, as expected; 0: it has ended without.  May be NULL
 * @may_ask:	@choose changes nothing while s->asking: so it can be asked where it would have a
 *		task that can't begin anywhere yet.  Elsewhere such a task is booked only where
 *		no other device could run it
 */
struct sched_policy {
	const char *name;
	size_t state_bytes;
	uint32_t (*choose)(struct sched *s, const struct graph_node *node, uint64_t now_ns);
	struct graph_node *(*spare)(struct sched *s, struct graph_node *const *tasks, uint32_t nr,
				    uint64_t now_ns);
	void (*placed)(struct sched *s, struct graph_node *node);
	void (*left)(struct sched *s, const struct graph_node *node, uint64_t end_ns);
	void (*context_gone)(struct sched *s, uint64_t context);
	void (*leave)(struct sched *s);
	bool may_ask;
};

/* One declaration of all of them; the last one ends the list. */
#define POLICY_NAMED(c_name, name) sched_policy_##c_name,
extern const struct sched_policy SCHED_POLICIES(POLICY_NAMED) sched_policy_rr;
#undef POLICY_NAMED

/* policy_rr.c: the next device in turn; others fall back to it. */
uint32_t round_robin(struct sched *s, const struct graph_node *node, uint64_t now_ns);

/*
 * data.c: how many of the task's bytes lie in @device's own memory; 0 if that is a tenth of them or
 * less, or the task can't run there
 */
uint64_t held_bytes(struct sched *s, const struct graph_node *node, uint32_t device);
/* data.c: whether of two devices that data makes equal it is rather @a than @b */
bool rather(const struct sched *s, uint32_t a, uint32_t b);
/*
 * data.c: of the devices that hold enough, the one with the least @transfer_ns; the
 * turn decides if none does, or this can't be known.
 */
uint32_t least_transfer(struct sched *s, const struct graph_node *node, uint64_t now_ns,
			uint64_t (*transfer_ns)(void *arg, const struct graph_node *node,
						uint32_t device));

/*
 * @node waits, as the policy has just found: whether all devices that are idle are slow for it.  Who
 * does not say so while it weighs them has them looked at once more.
 */
static inline void policy_told(struct sched *s, const struct graph_node *node, bool for_speed)
{
	s->told = node;
	s->told_speed = for_speed;
}

/* By so many times a task may be later, see spare.c. */
#define SPARE_LATE	4

struct outlook;

/*
 * spare.c: one of a heap's tasks for a device that stands idle, but none that is @bound to others;
 * or NULL.  @o: of their program, NULL: there is none.  @run_ns: that it takes there.
 * @alike: there is no task that those that are idle are much slower with
 */
struct graph_node *spare_find(struct sched *s, struct outlook *o,
			      struct graph_node *const *tasks, uint32_t nr,
			      bool (*bound)(struct sched *s, const struct graph_node *node),
			      uint64_t now_ns, uint32_t *device, uint64_t *run_ns, bool *alike);

/* @device, or wait for it. */
static inline uint32_t when_idle(const struct sched *s, uint32_t device)
{
	return device != SCHED_NO_DEVICE && device_idle(&s->devices[device]) ?
	       device : SCHED_NO_DEVICE;
}

#endif /* ARAXD_SCHED_POLICY_H */
