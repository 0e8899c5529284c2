/* SPDX-License-Identifier: MIT */
/*
 * sched.h - which ready task runs next, and on which device
 *
 * Like the graph, plain logic for one thread (the poller).  It sees tasks,
 * devices and models, never a vendor's header.
 *
 *   graph_pop_ready() -> sched_push() -> sched_pick() -> graph_start()
 *   ... runs ... -> sched_finish() -> graph_complete()
 *
 * WHO: start-time fair queueing among tenants: each has a virtual time that
 * advances by (device time / weight) as its tasks are picked (by prediction)
 * and finish (by measurement); the least virtual time goes first.  A tenant
 * that was idle starts where those are that are busy, so idling saves nothing; and who is
 * far behind on a device, by little use or by use of others, has no more than a short burst
 * before those that have waited there (level.c).
 * If its first tasks find no device, others' may use what would stand idle.
 * Tenants form a tree: weights share what the parent gets, and a maximum of device time
 * per period holds for all below (share.c).
 *
 * Inside a tenant programs (contexts) take turns in the same way, each with an equal part; a
 * step of priority is a head start of SCHED_AGE_NS of device time (program.c).
 *
 * Inside a program each task is due at its deadline or wished-for time (ARAX_DISPATCH_TARGET),
 * but SCHED_PATIENCE_NS after it was pushed at the latest, and SCHED_AGE_NS later for each
 * step of its priority value; what is due first goes first, then submission order.  So among
 * tasks of one priority the earliest deadline comes first, those without one have a far one,
 * and nobody waits for ever.  A program whose next task has a deadline goes by that also beside its
 * tenant's others.  Where memory is short a task that finds all of its data on the
 * device goes before one of no higher priority that does not (follow.c).  Between tenants a
 * deadline decides only where their virtual times are the same: whoever asked for early ones
 * would take from the others.
 *
 * WHERE: the policy's matter (policies.h).  "eft", the default: the device that would
 * finish the task earliest, by what is queued there, the data to be moved and the learnt
 * run time; devices whose time is unknown are tried first.
 *
 * HOW LONG: learnt for each (kernel, device, size class); a size class is a
 * power of two of its work.  Single runs that are far too long are left out.  Sizes
 * never seen are predicted from those that were, if these lie on a curve.
 */
#ifndef ARAXD_SCHED_H
#define ARAXD_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/graph/graph.h"

#define SCHED_MAX_DEVICES	1024
#define SCHED_MIN_RUNS		3	/* fewer observations predict nothing */
/* After so many a run time is not doubted any more, and something may count as an outlier. */
#define SCHED_SURE_RUNS		16
#define SCHED_NO_DEVICE		(~0u)

/* Of waiting make up for one step of priority. */
#define SCHED_AGE_NS		(96ull << 20)
/* What a task without a deadline has; more than all steps, and in the units of due(). */
#define SCHED_PATIENCE_NS	(40 * SCHED_AGE_NS)
#define SCHED_NO_MAX		UINT64_MAX

struct sched;

/**
 * struct sched_tenant - a tenant's part of device time
 * @parent:	tenant above it; 0: none
 * @weight:	1..10000, among those with the same parent
 * @max_ns, @period_ns: it and all below spend at most @max_ns in each period, on all
 *		devices together; SCHED_NO_MAX: no limit
 */
struct sched_tenant {
	uint64_t id;
	uint64_t parent;
	uint32_t weight;
	uint64_t max_ns, period_ns;
};

/**
 * struct sched_way - a task's data and a device
 * @all_ns:	if all of its bytes that stay on devices from task to task had to come there,
 *		results too
 * @again_ns:	for what it reads, lacks there and is on other devices: what running near
 *		its data would have spared
 */
struct sched_way {
	uint64_t all_ns;
	uint64_t again_ns;
};

/**
 * struct sched_link - of a device with memory of its own, to the host
 * @in_latency_ns, @in_byte_ns: what a copy there takes, and each of its bytes; @out_...: back
 * @peers:	devices with the same one, not 0, copy from one another directly
 */
struct sched_link {
	double in_latency_ns, in_byte_ns, out_latency_ns, out_byte_ns;
	uint64_t peers;
};

/* All of a device, in parts of it; see sched_ops.part. */
#define SCHED_WHOLE	1024u

#define SCHED_HAND_OVER_MOST_NS	75000u

/**
 * struct sched_ops - what the scheduler asks of others; each may be NULL
 * @can_run:	whether @device has an implementation of the task (NULL: all do)
 * @transfer_ns: time to make the task's data valid on @device (NULL: 0)
 * @resident_bytes: how many bytes of the task's ranges are valid on @device (NULL: the
 *		policies that follow the data take turns)
 * @transfer_min_ns, @transfer_max_ns: time until what the task reads and @device lacks would
 *		be there, if each piece came from the one of the places that hold it with the
 *		quickest or slowest way to @device (NULL: @transfer_ns)
 * @switch_ns:	time until @device can begin with the task at all: it has to be configured
 *		for it, and what lies on it goes meanwhile (NULL: 0).  The default policy
 *		counts it as it counts @transfer_ns
 * @tight:	whether memory is so short on @device that a task that can use what lies there
 *		had better do so before it goes; SCHED_NO_DEVICE: whether it may soon be, on
 *		any (NULL: never)
 * @way:	how long the task's bytes would be on links, of which it gets its part: see
 *		struct sched_way (NULL: 0)
 * @live:	tasks of the node's program that were submitted and have not ended, whether they are
 *		ready or not (NULL: only those that are ready are known)
 * @part:	which part of @device a task's kernel takes while it runs, in 1024ths. Kernels that
 *		would take more than all of it wait for each other, so what one is given behind
 *		others there ends later (NULL: 0, one lane is nothing to another)
 * @followers:	calls @each for the tasks that wait for @node now (NULL: what is to come is not
 *		known)
 * @look_back:	calls @each for the tasks of @node's program that have not ended, of which the
 *		other hooks may be asked then, those that wait for one before it, until it returns
 *		false; then goes on there the next time, unless @anew.  Returns whether that was all
 *		(NULL: what is to come is not known)
 * @link:	false: the device works in the host's memory (NULL: not known, and nothing is
 *		planned: plan.h)
 * @holds:	whether all of the task's range @i is valid on @device, which has memory of its own, or,
 *		if that is SCHED_NO_DEVICE, at the host (NULL: the host has all)
 * @hand_over_ns: until a task of @run_ns that is given to @device, which is idle, can begin there: what
 *		it takes to wake it; more than SCHED_HAND_OVER_MOST_NS counts as that (NULL: 0)
 * @awake:	bits: idle lanes of a device with tasks ahead that need not be woken (NULL: nothing is known)
 * @tenant:	@t->id has its first task for long: fill in the rest; false: nothing is
 *		known of it (NULL: all weights are equal until sched_tenant_set())
 */
struct sched_ops {
	bool (*can_run)(void *arg, const struct graph_node *node, uint32_t device);
	uint64_t (*transfer_ns)(void *arg, const struct graph_node *node,
				uint32_t device);
	uint64_t (*resident_bytes)(void *arg, const struct graph_node *node, uint32_t device);
	uint64_t (*transfer_min_ns)(void *arg, const struct graph_node *node, uint32_t device);
	uint64_t (*transfer_max_ns)(void *arg, const struct graph_node *node, uint32_t device);
	uint64_t (*switch_ns)(void *arg, const struct graph_node *node, uint32_t device);
	bool (*tight)(void *arg, uint32_t device);
	void (*way)(void *arg, const struct graph_node *node, uint32_t device,
		    struct sched_way *way);
	uint64_t (*live)(void *arg, const struct graph_node *node);
	uint32_t (*part)(void *arg, const struct graph_node *node, uint32_t device);
	void (*followers)(void *arg, const struct graph_node *node,
			  void (*each)(void *to, const struct graph_node *node, uint32_t waits),
			  void *to);
	bool (*look_back)(void *arg, const struct graph_node *node, bool anew,
			  bool (*each)(void *to, struct graph_node *node), void *to);
	bool (*link)(void *arg, uint32_t device, struct sched_link *link);
	bool (*holds)(void *arg, const struct graph_node *node, uint32_t i, uint32_t device);
	uint64_t (*hand_over_ns)(void *arg, uint32_t device, uint64_t run_ns);
	uint64_t (*awake)(void *arg, uint32_t device);
	bool (*tenant)(void *arg, struct sched_tenant *t);
};

/**
 * struct sched_params - how to make a scheduler
 * @policy:	a name of policies.h; NULL: the first one
 * @ops, @arg:	hooks and their first argument
 * @stats:	somebody asks for sched_stats()
 */
struct sched_params {
	const char *policy;
	struct sched_ops ops;
	void *arg;
	bool stats;
};

/* NULL with errno set: EINVAL (no such policy), ENOMEM. */
struct sched *sched_create(const struct sched_params *params);
void sched_destroy(struct sched *s);

/* Another policy, from the next pick on; what runs is left alone.  -EINVAL, -ENOMEM. */
int sched_policy_set(struct sched *s, const char *name);
const char *sched_policy_name(const struct sched *s);

/* Programs that were planned as a whole (plan.h) since the start; from any thread. */
uint64_t sched_plans(const struct sched *s);

/*
 * Where the policy would have @node, a task that was pushed or is about to be, run now;
 * SCHED_NO_DEVICE: it would wait.  Takes no lane; a turn counts as taken.
 */
uint32_t sched_choose(struct sched *s, struct graph_node *node, uint64_t now_ns);

/*
 * A client has left: its context, of the graph of that place (struct graph_params), may be forgotten, and
 * its number given to another.
 */
void sched_context_gone(struct sched *s, uint32_t place, uint32_t context);

/**
 * sched_device_set - add a device or change it
 * @device: index, below SCHED_MAX_DEVICES
 * @lanes:  tasks it runs side by side; 0: takes no more (offline)
 *
 * 0, -EINVAL or -ENOMEM.
 */
int sched_device_set(struct sched *s, uint32_t device, uint32_t lanes);

/**
 * sched_device_ahead - let a device's lanes have tasks before they can run them
 * @tasks: behind the one that runs; 0, as at first: none
 *
 * Then a device that orders tasks itself need not wait for araxd between two.  A task is
 * booked so only if no device is idle that it would rather have, and if what is before it
 * on its lane is of its own context, and expected to end within SCHED_AHEAD_NS: that is how
 * much later others get their turn by it.  -EINVAL: there is no such device.
 */
int sched_device_ahead(struct sched *s, uint32_t device, uint32_t tasks);

/**
 * sched_device_alike - say what a device is like
 * @alike: devices that have the same one, which is not 0, run everything equally fast
 *
 * So what is learnt of one holds for the others until they have runs of their own.  Before
 * sched_import(), and once for each device.  -EINVAL: there is no such device.
 */
int sched_device_alike(struct sched *s, uint32_t device, uint64_t alike);
#define SCHED_AHEAD_NS	200000

/**
 * sched_tenant_set - tell what part of device time a tenant may have
 *
 * 0, -EINVAL or -ENOMEM.  It holds while it is told again: a tenant without tasks is
 * forgotten when it was not for SCHED_ROUNDS rounds.
 */
int sched_tenant_set(struct sched *s, const struct sched_tenant *t);
/**
 * sched_tenants - who is known, some at a time
 * @at: where to go on: 0 at first, and again when that was all
 *
 * Returns how many of up to @max were written.  Who comes or goes between two calls may be
 * among them or not.
 */
uint32_t sched_tenants(const struct sched *s, uint32_t *at, uint64_t *tenants, uint32_t max);
/* Its weight alone. */
int sched_tenant_weight(struct sched *s, uint64_t tenant, uint32_t weight);
#define SCHED_ROUNDS	100
/* Ends a round. */
void sched_round(struct sched *s);

/*
 * When a tenant that has used up its maximum may go on: call sched_pick() then.
 * UINT64_MAX: nobody waits for that.
 */
uint64_t sched_next_wake(const struct sched *s);

/*
 * Whether a task of @tenant may run past the queue: nothing is queued or running, and it
 * has no maximum to keep.
 */
bool sched_may_skip(struct sched *s, uint64_t tenant);

/* The tenant's device time so far, and its virtual time; 0 if unknown. */
uint64_t sched_tenant_device_ns(const struct sched *s, uint64_t tenant);

/**
 * struct sched_stat - what has come to a tenant's figures
 * @waiting_ns:	time in which a ready task of it, or of one below, had no device
 * @nr_periods:	of its maximum, in which it had device time or was throttled
 * @nr_throttled: of these, in which it was: a task of it, or of one below, was ready and did not
 *		start since its maximum was used up
 * @throttled_ns: time in which it was
 */
struct sched_stat {
	uint64_t tenant;
	uint64_t waiting_ns;
	uint64_t nr_periods, nr_throttled, throttled_ns;
};

/**
 * sched_stats - what has come since this was asked last
 *
 * Returns how many of up to @max were written; less than that: there is no more until @now_ns.
 */
uint32_t sched_stats(struct sched *s, struct sched_stat *stats, uint32_t max, uint64_t now_ns);
/* Whether there is or may be some. */
bool sched_has_stats(const struct sched *s);

/* Queues a popped task.  0, or -ENOMEM (the task is not queued). */
int sched_push(struct sched *s, struct graph_node *node, uint64_t now_ns);

/*
 * For the picks that follow: the caller is the thread of device @near, which need not be woken.
 * SCHED_NO_DEVICE: of none, as at first.
 */
void sched_near(struct sched *s, uint32_t near);

/* Takes a task out that was not picked; nothing if it is not queued. */
void sched_remove(struct sched *s, struct graph_node *node);
/* A task that was never queued has ended without having run: it is not to come any more. */
void sched_ended(struct sched *s, const struct graph_node *node);

/**
 * sched_pick - the next task to start
 *
 * NULL if nothing is queued, or no device that could run what is queued has
 * an idle lane.  Else node->device is set and a lane of it is taken until
 * sched_finish().
 */
struct graph_node *sched_pick(struct sched *s, uint64_t now_ns);

/**
 * sched_finish - a picked task left its device
 * @run_ns: time that it held the device; charged to the tenant
 * @learn:  whether @run_ns is a normal run time (it ran to its end)
 */
void sched_finish(struct sched *s, struct graph_node *node, uint64_t run_ns,
		  bool learn);

/**
 * sched_leave - a picked task gives its lane to others, and will finish
 * @run_ns: that it held the lane
 *
 * What it has to do yet is done beside them; sched_finish() charges all of it.
 */
void sched_leave(struct sched *s, struct graph_node *node, uint64_t run_ns);

/* Before others of its tenant take turns with it, a task may have run for this long. */
#define SCHED_LONG_NS	1000000000ull

/**
 * sched_progress - a picked task runs, and has since it was picked for @ran_ns
 *
 * It is charged that from now on in place of what was expected, so that a turn can be over before
 * a task is.  For those that can be stopped, each time before sched_makes_way() is asked.
 */
void sched_progress(struct sched *s, struct graph_node *node, uint64_t ran_ns, uint64_t now_ns);

/**
 * sched_book - give a lane a task that waits for what is on it
 *
 * @node was not pushed: it waits, for tasks that are on @lane of @device alone.  Nothing can
 * begin with it earlier, so it may go behind them if nobody else waits, the policy would have it
 * there, and all that are booked so take SCHED_BOOK_NS at most: by so much others that come get
 * their turn later.  0: as if it had been picked; -EAGAIN: it stays as it is.
 */
int sched_book(struct sched *s, struct graph_node *node, uint32_t device, uint32_t lane,
	       uint64_t now_ns);
#define SCHED_BOOK_NS	5000000

/**
 * sched_next - who would be given a busy device next
 * @nodes:	up to @max of them, by whose turn comes first as things are now
 *
 * Of the tasks that are queued and have not begun those that the policy would have on @device if it had a
 * lane; of a policy that can't be asked, those that no other device can run.  They stay where they are,
 * and may go elsewhere after all.  Returns how many; 0 if the device has an idle lane.
 */
uint32_t sched_next(struct sched *s, uint32_t device, struct graph_node **nodes, uint32_t max,
		    uint64_t now_ns);
/* So many of a tenant's are known to be next. */
#define SCHED_NEXT	4u

/* For tasks that have made way, where the task at hand would be one of them. */
enum sched_room {
	SCHED_ROOM_NONE,	/* another such has to go on in its place */
	/* A tenant's programs don't make way for each other's new tasks, nor for a maximum. */
	SCHED_ROOM_SOME,
	SCHED_ROOM_PLENTY,
};

/**
 * sched_makes_way - should a picked task that can be stopped leave its lane to others?
 * @all_ns: that it has run since it began
 *
 * If its tenant's turn is over, or it may not have more for now; or, after SCHED_LONG_NS, if
 * a task of another program of its tenant waits.  No if its device has idle lanes for all that
 * wait, or nobody waits who could use it.
 */
bool sched_makes_way(struct sched *s, const struct graph_node *node, uint64_t all_ns,
		     enum sched_room room, uint64_t now_ns);

/**
 * sched_put_back - a picked task was stopped
 * @own_ns: since it began, or this returned 1
 *
 * @ran_ns is charged.  It is queued again, where it was among its tenant's tasks, but after
 * SCHED_LONG_NS those of its tenant's other programs go first for the next @own_ns, SCHED_LONG_NS
 * at most, if one waits (returns 1).  sched_pick() gives it a lane of the same device.  0, 1, or
 * -ENOMEM: it has its lane still.
 */
int sched_put_back(struct sched *s, struct graph_node *node, uint64_t ran_ns, uint64_t all_ns,
		   uint64_t own_ns, enum sched_room room, uint64_t now_ns);

/**
 * sched_charge - a task ran without sched_pick() (the poller ran it itself)
 *
 * Charges and learns like sched_finish().  The task is in no queue.
 */
void sched_charge(struct sched *s, struct graph_node *node, uint32_t device, uint64_t run_ns,
		  bool learn);

/*
 * Of two tasks of one program that were picked: whether the turn of @a would come first if they
 * were not.
 */
bool sched_is_due_before(const struct graph_node *a, const struct graph_node *b);

/* Tasks queued, and tasks picked and not finished. */
uint32_t sched_queued(const struct sched *s);
uint32_t sched_running(const struct sched *s);

/* Whether nothing is queued or running: then a task may skip the queue. */
static inline bool sched_is_idle(const struct sched *s)
{
	return !sched_queued(s) && !sched_running(s);
}

/* ------------------------------------------------------------------ */
/* Run times                                                           */

/*
 * A task's work, by which run times are learnt; at least 1.  Of a copy or fill its bytes.  Of a
 * launch what is known of its kernel, else its work items, or its ranges in SCHED_LINE bytes if
 * that is more: many kernels deal what their ranges hold to a grid that is as large as the device.
 */
uint64_t sched_work(const struct graph_node *node);
#define SCHED_LINE	64
/* Bytes of its ranges. */
uint64_t sched_bytes(const struct graph_node *node);

/**
 * struct sched_estimate - what is known about a run time
 * @ns:		expected (moving average); 0 if @runs < SCHED_MIN_RUNS
 * @all_ns:	the same with outliers, by 1/32 a run: what a run costs who waits beside it
 * @runs:	observations
 */
struct sched_estimate {
	uint64_t ns;
	uint64_t all_ns;
	uint32_t runs;
};

/*
 * @kernel is sched_kernel_key() of the task.  Memory: one small record for each
 * (kernel, device, size class) seen, up to SCHED_MAX_RECORDS; what does not fit
 * is not learnt.
 */
#define SCHED_MAX_RECORDS	65536

uint64_t sched_kernel_key(const struct graph_node *node);
struct sched_estimate sched_estimate(struct sched *s, uint64_t kernel,
				     uint32_t device, uint64_t work);
uint64_t sched_predict_ns(struct sched *s, uint64_t kernel,
			  uint32_t device, uint64_t work);

/**
 * struct sched_forecast - the same, for sizes without a history too
 * @ns:		0: nothing is known
 * @runs:	observations of this very size class
 * @confidence:	0 to 1000
 * @regression:	from other sizes
 */
struct sched_forecast {
	uint64_t ns;
	uint32_t runs;
	uint32_t confidence;
	bool regression;
};

/* A forecast to act on: else a device is tried. */
#define SCHED_CONFIDENT	500

struct sched_forecast sched_forecast(struct sched *s, uint64_t kernel, uint32_t device,
				     uint64_t work);
void sched_observe(struct sched *s, uint64_t kernel, uint32_t device,
		   uint64_t work, uint64_t ns);

/**
 * struct sched_known - what was learnt of one size class, to be kept
 * @day:	of the latest run, days since 1970; 0: since it was imported
 */
struct sched_known {
	uint64_t kernel;
	uint32_t device;
	uint32_t runs;
	uint64_t ns, all_ns;
	double work, deviation;
	uint32_t day;
};

/* Whether there is anything that sched_export() has not given yet. */
bool sched_has_news(const struct sched *s);
/* All that is known; @nr entries, for the caller to free.  NULL: no memory. */
struct sched_known *sched_export(struct sched *s, size_t *nr);
/* Before the first run of its kind; else nothing happens.  What is known may be wrong now. */
void sched_import(struct sched *s, const struct sched_known *k);

/**
 * sched_is_short - may the poller run this task itself?
 * @threshold_ns: what handing over would cost
 *
 * True if enough runs were seen and both means, that without outliers and that with them,
 * stay below @threshold_ns: a run that was disturbed once in a while changes nothing, for
 * a kernel that often takes long the poller has no time.  ARAX_OP_MARKER is always short.
 */
bool sched_is_short(struct sched *s, struct graph_node *node, uint32_t device,
		    uint64_t threshold_ns);

#endif /* ARAXD_SCHED_H */
