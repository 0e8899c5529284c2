// SPDX-License-Identifier: MIT
/*
 * One task on one device: from its ranges to addresses, to the thread that
 * runs it, and back to its commit entry.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/cpulist.h"
#include "daemon/dispatch/ahead.h"
#include "daemon/dispatch/aside.h"
#include "daemon/dispatch/back.h"
#include "daemon/dispatch/bounds.h"
#include "daemon/dispatch/declared.h"
#include "daemon/dispatch/decline.h"
#include "daemon/dispatch/follow.h"
#include "daemon/dispatch/gate.h"
#include "daemon/dispatch/host.h"
#include "daemon/dispatch/lone.h"
#include "daemon/dispatch/measure.h"
#include "daemon/dispatch/own.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/quota.h"
#include "daemon/dispatch/recover.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/unfit.h"
#include "daemon/dispatch/why.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/mapping.h"
#include "daemon/observe/trace.h"
#include "daemon/preempted.h"
#include "daemon/reason.h"

#define MAX_LANES	64u
#define MAX_LOSSES	2u	/* by one task that was alone on each; then it ends */
#define MIXED_US	1000u
#define ALONE_LONGER	5u
#define HANDED_PART	4u	/* of inline_ns: with less a lane's thread would not even have begun */
#define COMPLAIN_US	1000000u

static const char *const opcodes[] = { "marker", "launch", "copy", "fill", "call" };

/* A task that no device ran. */
static void record_end(struct link *l, const struct graph_node *node, int result, uint64_t origin)
{
	/* It may never have been popped: then its priv is not set. */
	const struct kernel *k = node->d.kernel <= CORE_MAX_KERNELS ? l->kernels[node->d.kernel] :
				 own_kernel(l, node);
	struct trace_task t = {
		.link = l->name, .kernel = opcodes[node->d.opcode], .device = TRACE_NO_DEVICE,
		.result = result, .origin = origin, .start_ns = poller_ns(l->poller),
	};

	if (node->d.opcode == ARAX_OP_LAUNCH && k)
		t.kernel = k->sig.name;
	trace_task(l->poller->trace, node, &t);
}

void run_record_ended(void *arg, const struct graph_node *node, const struct graph_done *done)
{
	struct link *l = arg;

	sched_ended(l->poller->sched, node);
	if (unlikely(l->poller->foresees))
		remote_has_used(l, node);
	if (unlikely(l->poller->trace))
		record_end(l, node, done->result, done->origin);
}

const struct kernel *run_kernel(const struct graph_node *node)
{
	const struct link *l = node->priv;

	if (unlikely(node->d.kernel > CORE_MAX_KERNELS))
		return own_kernel(l, node);
	return l->kernels[node->d.kernel];
}

static inline bool suits_launch(const struct poller *p, const struct graph_node *node,
				const struct kernel *k, uint32_t device)
{
	const struct arax_backend_info *info = &p->devs[device].dev->info;

	if (unlikely(node->declined) && decline_has(node, device))
		return false;
	if (unlikely(p->unlike && k->work.steps.nr) &&
	    !bounds_allow(node, k, info->gpu))
		return false;
	return (!info->memory && !info->largest) || remote_fits(p, node, device);
}

/* Not @device, which has declined such launches lately; on another one, without thinking twice? */
static __attribute__((cold)) bool has_better(const struct poller *p, const struct graph_node *node,
					     const struct kernel *k, uint32_t device)
{
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (i != device && !p->devs[i].lost && p->runnable[k->index * p->nr_devs + i] &&
		    !decline_rests(p, node, k, i) && suits_launch(p, node, k, i))
			return true;
	return false;
}

/* Whether it is for such a device at all. */
static inline bool suits(const struct poller *p, const struct graph_node *node, uint32_t device)
{
	const struct kernel *k;
	uint8_t runnable;

	if (unlikely(own_is_load(node) || own_is_launch(node)))
		return own_suits(p, node, device);
	if (node->d.opcode != ARAX_OP_LAUNCH)
		return p->devs[device].copies;
	k = run_kernel(node);
	runnable = k ? p->runnable[k->index * p->nr_devs + device] : RUNNABLE_NOT;
	if (!runnable)
		return false;
	if (unlikely(runnable == RUNNABLE_HARDLY) && decline_rests(p, node, k, device) &&
	    has_better(p, node, k, device))
		return false;
	return suits_launch(p, node, k, device);
}

static __attribute__((cold)) bool goes_to_worker(const struct poller_device *pd,
						   const struct graph_node *node)
{
	const struct kernel *k;

	if (own_is_load(node) || own_is_launch(node))
		return true;
	k = node->d.opcode == ARAX_OP_LAUNCH ? run_kernel(node) : NULL;
	return k && runner_needs_worker(pd->runner, k);
}

bool run_can(void *arg, const struct graph_node *node, uint32_t device)
{
	const struct poller *p = arg;
	const struct poller_device *pd = &p->devs[device];

	if (unlikely(pd->lost || aside_full(pd)) && (pd->lost || goes_to_worker(pd, node)))
		return false;
	return suits(p, node, device);
}

bool run_takes_turns(struct devices *devices)
{
	for (uint32_t i = 0; i < devices_count(devices); i++)
		if (devices_at(devices, i)->info.turns)
			return true;
	return false;
}

uint32_t run_part(void *arg, const struct graph_node *node, uint32_t device)
{
	const struct poller *p = arg;

	/* What the host does takes nothing of the device. */
	return node->d.opcode == ARAX_OP_LAUNCH && p->devs[device].dev->info.turns ? SCHED_WHOLE : 0;
}

bool run_could(const struct poller *p, const struct graph_node *node, uint32_t device)
{
	const struct poller_device *pd = &p->devs[device];

	return (!pd->lost || recover_expected(pd)) && suits(p, node, device);
}

bool run_anywhere(struct poller *p, const struct graph_node *node)
{
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (run_could(p, node, i))
			return true;
	return false;
}

static bool could_have(const struct poller *p, const struct graph_node *node)
{
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (p->devs[i].lost && suits(p, node, i))
			return true;
	return false;
}

/* Bytes, in all and in one piece, that some device has. */
static void most_of(const struct arax_backend_info *info, uint64_t *most, uint64_t *once)
{
	uint64_t largest = info->largest ?: info->memory;

	if (*most < info->memory)
		*most = info->memory;
	if (*once < largest)
		*once = largest;
}

/* What a task ends with that no device can run; why is this thread's reason. */
static int why_not(struct poller *p, const struct graph_node *node)
{
	const struct kernel *k;
	uint64_t bytes, most = 0, once = 0;
	bool lost = false;
	uint32_t i;

	if (node->d.opcode != ARAX_OP_LAUNCH || own_is_launch(node)) {
		if (own_is_too_long(p, node)) {
			reason_set("one of its ranges has %llu bytes, more than any device that runs such code takes in one piece; give it shorter ranges",
				   (unsigned long long)remote_largest(node));
			return -ENOMEM;
		}
		if (!could_have(p, node)) {
			reason_set("no device here runs code that programs bring: only processor cores do, and OpenCL devices that work on host pages, where araxd can lock it up (its log says what is missing for that)");
			return -EOPNOTSUPP;
		}
		reason_set("every device that could do it was lost");
		return -ENODEV;
	}
	k = run_kernel(node);
	if (k && p->unlike && k->work.steps.nr && bounds_tell(p, node, k))
		return -EINVAL;
	for (i = 0; k && i < p->nr_devs; i++) {
		if (!p->runnable[k->index * p->nr_devs + i])
			continue;
		if (p->devs[i].lost)
			lost = true;
		/* What it would fit on does not run it for another reason. */
		else if (!remote_fits(p, node, i))
			most_of(&p->devs[i].dev->info, &most, &once);
	}
	if (!once) {
		if (lost)
			reason_set("every device that could run kernel %s was lost", k->sig.name);
		else if (k)
			unfit_tell(p, k);
		return lost ? -ENODEV : -ENOEXEC;
	}
	bytes = remote_bytes(node);
	if (remote_rows(node) > MEMORY_MAX_ROWS)
		reason_set("its ranges have %llu rows together, a device with its own memory takes %u: give it ranges with fewer rows",
			   (unsigned long long)remote_rows(node), MEMORY_MAX_ROWS);
	else if (remote_largest(node) > once)
		reason_set("one of its ranges, or several that overlap, has %llu bytes: what any device that could run it takes in one piece is %llu bytes at most; give it shorter ranges",
			   (unsigned long long)remote_largest(node), (unsigned long long)once);
	else
		reason_set("its data, %llu bytes, does not fit on any device that could run it: the largest has %llu bytes; give it smaller ranges",
			   (unsigned long long)bytes, (unsigned long long)most);
	if (p->now >= p->next_complaint) {
		p->next_complaint = p->now + COMPLAIN_US * p->ticks.per_us;
		if (remote_rows(node) > MEMORY_MAX_ROWS)
			log_warn("task has more rows than a device with its own memory takes",
				 log_str("kernel", k->sig.name), log_u64("rows", remote_rows(node)),
				 log_u64("rows_max", MEMORY_MAX_ROWS),
				 log_str("remedy", "give it ranges with fewer rows"));
		else if (remote_largest(node) > once)
			log_warn("task has a longer range than any device that could run it takes",
				 log_str("kernel", k->sig.name),
				 log_u64("bytes", remote_largest(node)), log_u64("bytes_max", once),
				 log_str("remedy", "give it shorter ranges"));
		else
			log_warn("task has more data than any device that could run it has memory",
				 log_str("kernel", k->sig.name), log_u64("bytes", bytes),
				 log_u64("device_bytes", most),
				 log_str("remedy", "give it smaller ranges"));
	}
	return -ENOMEM;
}

/*
 * The core uses it to look for room in the ring, which may be full: so it learns before what was
 * taken, also in the midst of a row.  A system call, or as long as one: not the next task's time.
 */
static inline void tell_commits(struct poller *p, struct link *l)
{
	__atomic_store_n(&l->page->head, l->head, __ATOMIC_RELEASE);
	l->ops->commit(l);
	p->exact = false;
	p->told |= 1u << l->place;
}

static inline void put_commit(struct poller *p, struct link *l, uint64_t tag,
			      const struct commit_info *i)
{
	struct arax_commit_entry *e;

	e = &l->commits[(l->commit_first + l->commit_count) & (l->commit_entries - 1)];
	e->tag = tag;
	e->result = i->result;
	e->dirty = i->dirty;
	e->device_ns = i->device_ns;
	e->wait_ns = i->wait_ns;
	e->bytes = i->bytes;
	e->origin = i->origin;
	e->device = i->device;
	e->failure = i->failure;
	e->reserved = 0;
	POLLER_COUNT(p, tasks);
	if (++l->commit_count >= POLLER_BATCH)
		tell_commits(p, l);
}

void poller_commit(struct poller *p, struct link *l, uint64_t tag, const struct commit_info *i)
{
	put_commit(p, l, tag, i);
}

static __attribute__((noinline)) void commit_done(struct poller *p, struct link *l)
{
	struct graph_done done;

	while (graph_pop_done(l->graph, &done)) {
		struct commit_info info = {
			.result = done.result, .origin = done.origin, .device = ~0u,
			.failure = done.failure,
		};

		poller_commit(p, l, done.tag, &info);
	}
}

void poller_commit_ended(struct poller *p, struct link *l)
{
	if (unlikely(graph_has_done(l->graph)))
		commit_done(p, l);
}

void poller_tell(struct poller *p, struct link *l)
{
	tell_commits(p, l);
}

void poller_flush(struct poller *p)
{
	uint32_t i;

	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->commit_count)
			tell_commits(p, p->links[i]);
}

void run_refuse(struct poller *p, struct graph_node *node, int result)
{
	struct link *l = node->priv;
	struct commit_info info = { .result = result, .device = ~0u, .bytes = node->moved };
	uint64_t tag = node->d.tag;

	if (result)
		poller_commit_ended(p, l);
	if (unlikely(p->trace) && result)
		record_end(l, node, result, 0);
	if (unlikely(p->foresees))
		remote_has_used(l, node);
	sched_ended(p->sched, node);
	ahead_left(p, node, NULL);
	if (unlikely(p->quota.lines))
		quota_gone(p, node);
	graph_complete(l->graph, node, result, &info.failure);
	poller_commit(p, l, tag, &info);
}

void run_refuse_for_good(struct poller *p, struct graph_node *node)
{
	char reason[REASON_LEN];
	int result;

	reason_forget();
	result = why_not(p, node);
	reason_take(reason);
	why_tell(node->priv, node, NULL, NULL, result, reason);
	run_refuse(p, node, result);
}

/* Whether a run of so long has anything to say about the next one. */
static inline bool teaches(const struct run *run, uint64_t hold_ns)
{
	struct poller *p = run->poller;

	if (!run->here)
		return !run->rt.lost_cpu && !run->fetch_ns;
	return hold_ns <= p->inline_ns || !was_preempted(&p->lost_cpu);
}

static inline void give_place(struct poller_device *pd, const struct run *run)
{
	uint32_t place = (uint32_t)(run - pd->runs);

	if (unlikely(place >= pd->nr_runs))
		pd->spares_busy &= ~(1ull << (place - pd->nr_runs));
	else
		pd->runs_busy &= ~(1ull << place);
}

void run_take_cpus(struct run *run)
{
	run->poller->cpus_taken += run->cpus;
	run->poller->devs[run->device].cpus_taken += run->cpus;
}

void run_give_cpus(struct run *run)
{
	run->poller->cpus_taken -= run->cpus;
	run->poller->devs[run->device].cpus_taken -= run->cpus;
}

/* What the task's end means for those that come after it. */
static inline void settle_accounts(struct run *run, struct graph_node *node, uint64_t device_ns,
			    bool learn)
{
	struct poller *p = run->poller;
	struct poller_device *pd = &p->devs[run->device];
	uint64_t busy_ns = device_ns;

	if (run->direct) {
		sched_charge(p->sched, node, run->device, device_ns, learn);
	} else if (unlikely(run->rt.turn)) {
		busy_ns = aside_settle(run, node, device_ns, learn);
		give_place(pd, run);
	} else if (unlikely(run->remote && node->d.opcode == ARAX_OP_LAUNCH)) {
		/* The tenant had the device for all of it; the next time data may be there. */
		sched_finish(p->sched, node, device_ns, false);
		if (learn)
			sched_observe(p->sched, sched_kernel_key(node), run->device,
				      sched_work(node), run->rt.wall_ns);
		give_place(pd, run);
		if (run->left) {
			busy_ns = run->lane_ns;
			back_over(run);
		} else {
			pd->lanes_busy &= ~(1ull << run->token);
		}
	} else {
		sched_finish(p->sched, node, device_ns, learn);
		give_place(pd, run);
		pd->lanes_busy &= ~(1ull << run->token);
	}
	if (run->cpus) {
		run_give_cpus(run);
		run->cpus = 0;
	}
	if (unlikely(run->coming))
		ahead_run_over(run);
	pd->busy_ns += busy_ns;
	pd->tasks++;
	pd->changed = true;
	p->running--;
	run->node = NULL;
}

/* The graph numbers failures in the order of their commits. */
static __attribute__((cold)) void finish_failed(struct run *run, struct commit_info info)
{
	struct graph_node *node = run->node;
	struct poller *p = run->poller;
	struct link *l = run->link;
	uint64_t tag = node->d.tag;

	/* What it takes to say why is not the next one's time. */
	p->exact = false;
	if (info.result != -ECANCELED)
		why_tell(l, node, node->d.opcode == ARAX_OP_LAUNCH ? run_kernel(node) : NULL,
			 p->devs[run->device].dev->info.name, info.result, run->rt.reason);
	if (p->foresees)
		remote_has_used(l, node);
	settle_accounts(run, node, info.device_ns, false);
	if (unlikely(p->quota.lines))
		quota_gone(p, node);
	poller_commit_ended(p, l);
	/* Else without a number: then the core finds who depends on it. */
	if (!run->lone)
		graph_complete(l->graph, node, info.result, &info.failure);
	poller_commit(p, l, tag, &info);
}

static __attribute__((cold)) void record(struct run *run, uint64_t start_ns, uint64_t hold_ns,
					int result)
{
	const struct graph_node *node = run->node;
	const struct runner_task *rt = &run->rt;
	bool staged = run->remote && node->d.opcode == ARAX_OP_LAUNCH;
	struct trace_task t = {
		.link = run->link->name,
		.kernel = opcodes[node->d.opcode],
		.device = run->poller->devs[run->device].dev->info.name,
		.lane = run->lane,
		.result = result,
		/* By the thread that ran it, if another did. */
		.start_ns = rt->start_ns ? rt->start_ns - rt->enter_ns : start_ns,
		.run_ns = staged ? rt->wall_ns : hold_ns,
	};

	if (run->module)
		t.kernel = module_kernel(run->module, node->d.kernel)->sig.name;
	else if (node->d.opcode == ARAX_OP_LAUNCH && run_kernel(node))
		t.kernel = run_kernel(node)->sig.name;
	if (staged) {
		t.enter_ns = rt->enter_ns;
		t.leave_ns = rt->leave_ns;
	}
	if (node->d.deadline_ns && poller_ns(run->poller) > node->d.deadline_ns)
		t.late_ns = poller_ns(run->poller) - node->d.deadline_ns;
	trace_task(run->poller->trace, node, &t);
}

/* ------------------------------------------------------------------ */
/* Devices that are lost                                               */

void run_refuse_stranded(struct poller *p)
{
	for (uint32_t i = 0; i < p->nr_links; i++) {
		struct link *l = p->links[i];

		for (uint32_t slot = 0; slot < l->slots; slot++) {
			struct graph_node *node = graph_at(l->graph, slot);

			if (!node || graph_node_state(node) != GRAPH_POPPED ||
			    !node->sched.flow || run_anywhere(p, node))
				continue;
			sched_remove(p->sched, node);
			run_refuse_for_good(p, node);
		}
	}
}

static void go_offline(struct poller *p, struct poller_device *pd)
{
	pd->lost = true;
	pd->changed = true;
	sched_device_set(p->sched, pd->dev->index, 0);
	ahead_stop(pd);
	aside_let_go(pd);
}

static void take_offline(struct poller *p, struct poller_device *pd, const struct graph_node *node)
{
	bool again = node->losses > 1;

	if (pd->lost) {
		/* Somebody else who was to run there came first. */
		if (again)
			recover_forgive(pd);
		return;
	}
	go_offline(p, pd);
	if (recover_plan(p, pd, !again))
		log_err("device is lost", log_str("device", pd->dev->info.name),
			log_str("remedy", "it is rebuilt; its tasks go to others, or wait"));
	else
		log_err("device is lost", log_str("device", pd->dev->info.name),
			log_str("remedy", "its tasks go to others; restart araxd to have it back"));
}

/* By their hulls: rows of one may lie between those of the other. */
static bool overlap(const struct arax_dispatch_range *a, const struct arax_dispatch_range *b)
{
	return a->buffer == b->buffer &&
	       a->offset < b->offset + (uint64_t)(b->count - 1) * b->stride + b->length &&
	       b->offset < a->offset + (uint64_t)(a->count - 1) * a->stride + a->length;
}

/*
 * On a device with memory of its own nothing has happened to the host's pages until
 * results come back; otherwise half of them may be there already, which does no
 * harm to a task that does not read them.  What was on that device alone is gone, if
 * the task was to write there.
 */
static bool may_run_again(const struct run *run)
{
	const struct graph_node *node = run->node;
	uint32_t i, j;

	if (run->rt.declined)
		return true;
	if (run->spent)
		return false;
	if ((node->d.flags & ARAX_TASK_IDEMPOTENT) || (run->remote && !run->stored))
		return true;
	for (i = 0; i < node->d.nr_ranges; i++)
		for (j = 0; j < node->d.nr_ranges; j++)
			if (node->d.access >> 2 * i & ARAX_OUT &&
			    node->d.access >> 2 * j & ARAX_IN &&
			    overlap(&node->ranges[i], &node->ranges[j]))
				return false;
	return true;
}

/* The kernel said no more than that its device is gone. */
static void why_not_again(struct run *run)
{
	const char *device = run->poller->devs[run->device].dev->info.name;

	if (run->node->losses >= MAX_LOSSES)
		reason_set("device %s was lost, as %u were by now while they ran nothing but this task",
			   device, run->node->losses);
	else if (run->spent)
		reason_set("device %s was lost, and with it bytes that the task reads and that nothing else had",
			   device);
	else if (!may_run_again(run))
		reason_set("device %s was lost while it ran the task, which can't be run again, as it writes over what it reads; if it can all the same, submit it with ARAX_TASK_IDEMPOTENT",
			   device);
	else
		reason_set("device %s was lost while it ran the task, and no other device can run it",
			   device);
	reason_take(run->rt.reason);
}

/*
 * Whether the task goes on elsewhere.  Of a context that is gone nobody waits for it, and the
 * scheduler would keep a program for a number that doesn't come again.
 */
static bool moves(struct run *run)
{
	struct graph_node *node = run->node;
	struct poller *p = run->poller;
	bool again;

	node->losses += run->rt.alone;
	take_offline(p, &p->devs[run->device], node);
	again = node->losses < MAX_LOSSES && !graph_node_gone(node) && may_run_again(run) &&
		run_anywhere(p, node);
	if (!again)
		why_not_again(run);
	run_refuse_stranded(p);
	return again;
}

/*
 * A launch that its device doesn't take, or the libraries which are all that it has for it.  Whether
 * another one is to try, which it does once at most.
 */
static bool is_passed_on(struct run *run)
{
	struct poller_device *pd = &run->poller->devs[run->device];
	struct graph_node *node = run->node;
	const struct kernel *k = run_kernel(node);
	struct poller *p = run->poller;

	decline_note(p, node, k, run->device);
	if (graph_node_canceled(node) || (!graph_node_gone(node) && run_anywhere(p, node)))
		return true;
	if (!run->rt.reason[0]) {
		reason_set("kernel %s on %s is a library's alone, and that does not take this launch or does not work there; no other device can run it",
			   k->sig.name, pd->dev->info.name);
		reason_take(run->rt.reason);
	}
	return false;
}

/* The graph has looked at it while it was on its way, and does so but once. */
static bool is_overdue(const struct run *run)
{
	return run->rt.deadline_ns && poller_ns(run->poller) >= run->rt.deadline_ns;
}

/* Nothing of it has run: whoever comes after this araxd begins it. */
static void has_not_begun(const struct link *l, const struct graph_node *node)
{
	__atomic_store_n(&l->states[ARAX_TAG_SLOT(node->d.tag)], ARAX_SLOT_IDLE, __ATOMIC_RELEASE);
}

/* What it was to write is as it was before, or known to be lost. */
static bool left_no_trace(const struct run *run, int result)
{
	return run_did_nothing(run, result) || (run->remote && !run->stored);
}

static __attribute__((cold)) void why_not_canceled(struct run *run)
{
	reason_set("device %s was lost while it ran the task, which was canceled by then: no other device runs it",
		   run->poller->devs[run->device].dev->info.name);
	reason_take(run->rt.reason);
}

/* Whether one that has failed is to be run by another device; else *@result is what it ends with. */
static __attribute__((cold)) bool goes_elsewhere(struct run *run, int *result)
{
	bool elsewhere = false;

	if (*result == -ENODEV && !run->lone)
		elsewhere = moves(run);
	else if (run->rt.declined)
		elsewhere = is_passed_on(run);
	if (!elsewhere)
		return false;
	/* It could not be canceled while it ran, and would not be a second time. */
	if (graph_node_canceled(run->node)) {
		if (left_no_trace(run, *result))
			*result = -ECANCELED;
		else
			why_not_canceled(run);
		return false;
	}
	if (is_overdue(run)) {
		*result = -ETIMEDOUT;
		reason_set("its deadline passed before another device could run it: that of its first try was lost, or does not take this launch");
		reason_take(run->rt.reason);
		return false;
	}
	return true;
}

/* It does: it is @run's no longer. */
static __attribute__((cold)) void go_elsewhere(struct run *run, uint64_t hold_ns)
{
	struct poller_device *pd = &run->poller->devs[run->device];
	struct graph_node *node = run->node;
	struct poller *p = run->poller;

	settle_accounts(run, node, hold_ns, false);
	pd->tasks -= run->rt.declined;
	graph_stop(run->link->graph, node);
	if (run->rt.declined)
		has_not_begun(run->link, node);
	if (sched_push(p->sched, node, poller_ns(p)))
		run_refuse(p, node, -ENOMEM);
}

/*
 * A task that was started before what it waits for had ended.  Whether it was to run at all is
 * known now: if not, it is canceled.  Or what it waits for will be run again, and so will it,
 * in its turn: then it is @run's no longer.
 */
static __attribute__((cold)) bool came_early(struct run *run, uint64_t hold_ns, int *result,
					    struct commit_info *info)
{
	struct poller_device *pd = &run->poller->devs[run->device];
	struct graph_node *node = run->node;
	struct graph *g = run->link->graph;
	struct poller *p = run->poller;
	bool early = graph_is_early(node), again = run->rt.skipped || may_run_again(run);
	int fate = early ? 0 : graph_fate(node, &info->origin), lost = *result == -ENODEV;
	bool canceled = graph_node_canceled(node);

	/* It could not be canceled while it was there, and would not be a second time. */
	if (!fate && !early && run->rt.skipped && canceled)
		fate = -ECANCELED;
	if (fate) {
		run->over_quota = false;
		*result = info->result = fate;
		info->device = ~0u;
		if (run->rt.skipped)
			info->device_ns = 0;
		return false;
	}
	/* Of a context that is gone nobody waits for it. */
	if ((!early && !run->rt.skipped) || graph_node_gone(node))
		return false;
	if (lost)
		take_offline(p, pd, node);
	/* It may have entered. */
	if (unlikely(p->memory))
		remote_settle(run);
	settle_accounts(run, node, hold_ns, false);
	graph_stop(g, node);
	if (run->rt.skipped)
		has_not_begun(run->link, node);
	/* What can't be handed over now can't be in a moment: it would be tried without end. */
	if (early && canceled && (run->rt.skipped || left_no_trace(run, *result)))
		graph_doom(g, node, -ECANCELED);
	else if (!again || !run->handed)
		graph_doom(g, node, *result ? *result : -ENODEV);
	else if (!early && is_overdue(run))
		run_refuse(p, node, -ETIMEDOUT);
	else if (!early && sched_push(p->sched, node, poller_ns(p)))
		run_refuse(p, node, -ENOMEM);
	if (lost)
		run_refuse_stranded(p);
	return true;
}

/*
 * Others of its tenant, or beside it, hold what it may have in all: it gives its lane back, and
 * waits for them as if it had not been started.  False: nobody waits for it any more.
 */
static __attribute__((cold)) bool put_back(struct run *run, uint64_t hold_ns, int *result)
{
	struct poller_device *pd = &run->poller->devs[run->device];
	struct graph_node *node = run->node;
	struct poller *p = run->poller;

	/* It could not be canceled meanwhile. */
	if (graph_node_gone(node) || graph_node_canceled(node)) {
		*result = -ECANCELED;
		return false;
	}
	if (is_overdue(run)) {
		*result = -ETIMEDOUT;
		reason_set("its deadline passed while other tasks had what its tenant may have of devices' memory (device_memory.max)");
		reason_take(run->rt.reason);
		return false;
	}
	if (run->module)
		own_release(run);
	settle_accounts(run, node, hold_ns, false);
	pd->tasks--;
	graph_stop(run->link->graph, node);
	has_not_begun(run->link, node);
	if (quota_wait(p, node, run->settles))
		run_refuse(p, node, -ENOMEM);
	return true;
}

/* ------------------------------------------------------------------ */

static __attribute__((cold)) int lost_bytes(void)
{
	reason_set("the memory of one of its buffers is no longer there: it was revoked, or its owner has taken it away");
	return -ESTALE;
}

__attribute__((cold)) int run_result_of_lost(const struct run *run)
{
	const struct graph_node *node = run->node;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct mapping *m = mapping_find(&run->link->mappings,
						       node->ranges[i].buffer);

		if (m && __atomic_load_n(&m->lost, __ATOMIC_RELAXED))
			return lost_bytes();
	}
	return 0;
}

/*
 * The poller's part of a task's end.  @hold_ns is what the scheduler learns from and
 * charges, as the lane was kept from others for that long.
 */
static inline __attribute__((always_inline))
void end_task(struct run *run, uint64_t device_ns, uint64_t hold_ns, int result)
{
	struct poller *p = run->poller;
	struct graph_node *node;
	struct link *l = run->link;
	uint64_t start_ns = ticks_ns(&p->ticks, run->start);
	struct commit_info info = {
		.result = result, .device = run->device, .device_ns = device_ns,
	};
	bool learn, elsewhere = false;

	/* One with inputs on a device has been looked at there, before others could go on. */
	if (unlikely(guard_any_lost()) && !result && !run->held) {
		result = run_result_of_lost(run);
		if (result)
			reason_take(run->rt.reason);
		info.result = result;
	}
	if (unlikely(run->lone && result))
		lone_enter(run);
	node = run->node;
	if (unlikely(run->follows) && came_early(run, hold_ns, &result, &info))
		return;
	if (unlikely(run->over_quota)) {
		if (put_back(run, hold_ns, &result))
			return;
		info.result = result;
	}
	if (unlikely(run->load)) {
		result = own_end(run, result);
		info.result = result;
	}
	if (unlikely(result)) {
		elsewhere = goes_elsewhere(run, &result);
		info.result = result;
	}
	if (unlikely(node->d.deadline_ns) && poller_ns(p) > node->d.deadline_ns)
		POLLER_COUNT(p, late);
	if (unlikely(p->trace) && info.device == ~0u)
		record_end(l, node, result, info.origin);
	else if (unlikely(p->trace))
		record(run, start_ns, hold_ns, result);
	if (unlikely(run->module))
		own_release(run);
	if (node->d.submit_ns && node->d.submit_ns < start_ns)
		info.wait_ns = start_ns - node->d.submit_ns;
	if (unlikely(p->memory)) {
		info.bytes = node->moved;
		if (run->held) {
			info.bytes += remote_moved(run);
			remote_settle(run);
		} else if (!run->unrun && (!run->remote || node->d.opcode != ARAX_OP_LAUNCH)) {
			/* Why a load failed has been written there. */
			remote_host_wrote(l, node, run->load ? 0 : result);
		}
	}
	if (unlikely(result)) {
		run->here = false;
		if (elsewhere)
			go_elsewhere(run, hold_ns);
		else
			finish_failed(run, info);
		return;
	}
	learn = teaches(run, hold_ns);
	run->here = false;
	if (unlikely(p->declines) && node->d.opcode == ARAX_OP_LAUNCH)
		decline_ran(p, run_kernel(node), run->device);
	if (unlikely(p->foresees))
		remote_has_used(l, node);
	if (unlikely(run->lazy))
		info.dirty = remote_dirty_ranges(run);
	put_commit(p, l, node->d.tag, &info);
	/* Nothing else is on its way: whoever waits for this one comes first. */
	if ((run->lone ? !p->lone.row : graph_live(l->graph) == 1) && l->commit_count)
		tell_commits(p, l);
	settle_accounts(run, node, hold_ns, learn);
	if (unlikely(p->quota.lines))
		quota_gone(p, node);
	if (!run->lone)
		graph_complete(l->graph, node, 0, NULL);
}

static void finish(struct run *run, uint64_t device_ns, uint64_t hold_ns, int result)
{
	end_task(run, device_ns, hold_ns, result);
	lone_ended(run->poller, run);
}

/*
 * Of a task past the graph that went well.  What such a task has not got (is_lone() says what it
 * is) end_task() would look for each time.
 */
static inline __attribute__((always_inline)) void end_lone(struct run *run, uint64_t hold_ns)
{
	struct poller *p = run->poller;
	struct poller_device *pd = &p->devs[run->device];
	struct graph_node *node = run->node;
	struct link *l = run->link;
	uint64_t start_ns = ticks_ns(&p->ticks, run->start);
	struct commit_info info = { .device = run->device, .device_ns = hold_ns };
	bool learn = teaches(run, hold_ns);

	if (node->d.submit_ns && node->d.submit_ns < start_ns)
		info.wait_ns = start_ns - node->d.submit_ns;
	run->here = false;
	if (unlikely(p->declines))
		decline_ran(p, run_kernel(node), run->device);
	if (unlikely(p->memory))
		remote_host_wrote(l, node, 0);
	put_commit(p, l, node->d.tag, &info);
	/* Somebody waits for it, and it is all that he waits for. */
	if (!p->lone.row && l->commit_count)
		tell_commits(p, l);
	sched_charge(p->sched, node, run->device, hold_ns, learn);
	pd->busy_ns += hold_ns;
	pd->tasks++;
	pd->changed = true;
	p->running--;
	run->node = NULL;
	p->lone.run = NULL;
	if (unlikely(p->quota.lines))
		quota_gone(p, node);
}

/* Nothing of it has run; why not, this thread has found out. */
static __attribute__((cold)) void finish_unrun(struct run *run, int err)
{
	struct poller_device *pd = &run->poller->devs[run->device];
	struct poller *p = run->poller;

	reason_take(run->rt.reason);
	run->unrun = true;
	finish(run, run->fetch_ns, run->fetch_ns, err);
	/* It may be the last one that a lost device has waited for. */
	if (unlikely(recover_pending(pd)))
		recover_begin(p, pd);
}

static struct run *run_of_work(struct work *w)
{
	return (struct run *)((char *)w - offsetof(struct run, work));
}

/* On another thread: a copy, a fill, a service.  Others may have had that thread for long. */
static int host_work(struct run *run)
{
	const struct memory_until *until = &run->until;

	run->unrun = true;
	if (__atomic_load_n(&until->canceled, __ATOMIC_RELAXED))
		return -ECANCELED;
	if (until->deadline_ns && monotonic_ns() >= until->deadline_ns)
		return -ETIMEDOUT;
	run->unrun = false;
	return host_run(&run->node->d, run->ranges, run->node->args);
}

/* On a lane's. */
static int host_enter(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));

	rt->start_ns = monotonic_ns();
	return host_work(run);
}

static void host_begin(struct run *run)
{
	struct runner_task *rt = &run->rt;

	run->hosted = true;
	rt->kernel = NULL;
	rt->deadline_ns = 0;
	rt->enter = host_enter;
	rt->flags = RUNNER_ENTER_ONLY;
}

static void host_end(struct run *run)
{
	struct runner_task *rt = &run->rt;

	run->hosted = false;
	rt->enter = NULL;
	rt->flags = 0;
	rt->enter_ns = 0;
	rt->device_ns = rt->hold_ns;
}

/* Back on the poller's thread. */
static void came_back(struct work *w)
{
	struct run *run = run_of_work(w);
	struct poller_device *pd = &run->poller->devs[run->device];
	struct poller *p = run->poller;
	/* What a kernel says of itself, or is for no device, is its program's own affair. */
	bool nobody = (run->load || run->module) && run->rt.result == -EOPNOTSUPP &&
		      !runner_can_foreign(pd->runner);

	if (run->hosted)
		host_end(run);
	/* Where data came and went the device was kept for that as well. */
	finish(run, run->fetch_ns + (run->remote || run->load ? run->rt.hold_ns : run->rt.device_ns),
	       run->fetch_ns + run->rt.hold_ns, run->rt.result);
	/* It may only have been seen now that such code can't be run here; others wait to. */
	if (unlikely(nobody))
		run_refuse_stranded(p);
	if (unlikely(recover_pending(pd)))
		recover_begin(p, pd);
}

/* On a lane's thread. */
static void runner_done(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));

	poller_bring(run->poller, &run->work, run->device, run->lane);
}

/* On the host thread of a device that has no cores of the host's for it. */
static void host_done(struct host_job *job)
{
	struct run *run = (struct run *)((char *)job - offsetof(struct run, job));
	uint64_t start = monotonic_ns();

	run->rt.result = host_work(run);
	run->rt.start_ns = start;
	run->rt.hold_ns = monotonic_ns() - start;
	run->rt.device_ns = run->rt.hold_ns;
	poller_bring(run->poller, &run->work, run->device, POLLER_NO_LANE);
}

static inline int find_ranges(struct run *run)
{
	const struct graph_node *node = run->node;
	const struct arax_dispatch_range *r = node->ranges, *end = r + node->d.nr_ranges;
	struct arax_launch_range *to = run->ranges;
	struct link *l = run->link;

	for (; r < end; r++, to++) {
		struct mapping *m = link_find(l, r->buffer);

		if (!m)
			return unlikely(l->map_err == -ESTALE) ? lost_bytes() : -EFAULT;
		/* The core has checked it; what runs as root looks twice. */
		if (r->offset > m->bytes)
			return -EFAULT;
		if (unlikely(__atomic_load_n(&m->lost, __ATOMIC_RELAXED)))
			return lost_bytes();
		to->data = m->base + r->offset;
		to->length = r->length;
		to->stride = r->stride;
		to->count = r->count;
		/* Rows of nothing may be four billion, and who works on them walks them. */
		if (unlikely(!r->length)) {
			to->stride = 0;
			to->count = 1;
		}
	}
	return 0;
}

static void look_at(const struct run *run)
{
	struct link *l = run->link;
	uint32_t i;

	if (!run->node || !l->ops->look_at)
		return;
	for (i = 0; i < run->node->d.nr_ranges; i++) {
		struct mapping *m = mapping_find(&l->mappings, run->node->ranges[i].buffer);

		if (m)
			l->ops->look_at(l, m);
	}
}

void run_look_at_buffers(struct poller *p)
{
	uint32_t i;

	if (!p->running)
		return;
	for (i = 0; i < p->nr_devs; i++) {
		const struct run *run = p->devs[i].runs;

		for (; run < run_end(&p->devs[i]); run++)
			look_at(run);
		look_at(p->devs[i].direct);
	}
}

/* For a worker, which maps them itself.  After find_ranges(): they are there. */
static void find_buffers(struct run *run)
{
	const struct graph_node *node = run->node;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];
		const struct mapping *m = link_find(run->link, r->buffer);

		run->buffers[i].id = m->serial;
		run->buffers[i].bytes = m->bytes;
		run->buffers[i].offset = r->offset;
		run->buffers[i].fd = m->fd;
	}
}

static void fill_launch(struct run *run, const struct kernel *k, bool worker)
{
	const struct arax_dispatch *d = &run->node->d;
	struct runner_task *rt = &run->rt;
	struct arax_launch *la = &rt->launch;
	uint32_t i;

	rt->short_ns = 0;
	rt->lost_cpu = false;
	la->nr_ranges = d->nr_ranges;
	for (i = 0; i < 3; i++) {
		la->grid[i] = d->grid[i];
		la->block[i] = d->block[i];
	}
	la->group_end = (uint64_t)d->grid[0] * d->grid[1] * d->grid[2];
	la->args = run->node->args;
	la->arg_len = d->arg_len;
	rt->kernel = k;
	rt->buffers = worker ? run->buffers : NULL;
	rt->uid = d->uid;
	rt->gid = d->gid;
	rt->tenant = d->tenant;
	rt->deadline_ns = run_deadline_ns(run->node);
	rt->device_ns = 0;
	rt->wall_ns = 0;
	rt->start_ns = 0;
	rt->enter_ns = 0;
	rt->leave_ns = 0;
}

/* What is the same for all of its tasks. */
static void init_run(struct run *run, struct poller *p, uint32_t device, uint32_t lane)
{
	run->poller = p;
	run->device = device;
	run->lane = lane;
	run->work.run = came_back;
	run->job.run = host_done;
	run->rt.launch.size = sizeof(run->rt.launch);
	run->rt.launch.ranges = run->ranges;
	run->rt.lane = lane;
	run->rt.done = runner_done;
	aside_init(run);
}

/* A device that orders launches itself, and has nothing else to run. */
static bool is_idle(const struct run *run, const struct poller_device *pd)
{
	uint64_t mine = 1ull << (run - pd->runs);
	uint64_t all = pd->nr_runs == MAX_RUNS ? ~0ull : (1ull << pd->nr_runs) - 1;

	return pd->depth > 1 && !pd->gate && (pd->runs_busy & all) == mine;
}

/* Others may be put behind it while it runs: but not by this thread, if it waits for it. */
static bool leads(const struct run *run, const struct poller_device *pd)
{
	return run->remote && pd->follows && graph_successors(run->node, NULL, 0);
}

static int run_ready(struct runner *r, struct runner_task *rt)
{
	return rt->leave(rt, runner_run_ready(r, rt));
}

/* Another thread polls now; the clock is its own, but these are copies. */
static __attribute__((cold)) void lost_role(struct poller *p, struct run *run, uint64_t start,
					   bool tsc, uint64_t mult, int result)
{
	uint64_t end = ticks_now(&(struct ticks){ .tsc = tsc });

	run->rt.result = result;
	run->rt.hold_ns = ticks_to_ns(&(struct ticks){ .mult = mult },
				       ticks_between(start, end));
	run->rt.wall_ns = run->rt.device_ns ?: run->rt.hold_ns;
	run->rt.device_ns = run->rt.hold_ns;
	poller_post(p, &run->work);
}

/*
 * Around the kernel the role is lent out: see role.h.  Of several in a row each is
 * taken to have begun when the one before it ended: reading the clock takes as long
 * as a small kernel, and the device was kept from others by its dispatch as well.
 */
static inline __attribute__((always_inline))
enum run_outcome run_this(struct poller *p, struct run *run, struct poller_device *pd, bool launch,
			  bool lone)
{
	uint64_t start = p->exact ? p->now : ticks_now(&p->ticks), end;
	struct role_seat *seat;
	const bool tsc = p->ticks.tsc;
	const uint64_t mult = p->ticks.mult;
	int result;

	run->start = start;
	p->last_handed = NULL;
	POLLER_COUNT(p, inline_runs);
	seat = role_lend(&p->role);
	run->rt.start_ns = 0;
	reason_forget();
	if (launch && unlikely(run->remote))
		result = run_ready(pd->runner, &run->rt);
	else if (launch && pd->depth > 1)
		result = runner_run_ready(pd->runner, &run->rt);
	else if (launch)
		result = runner_run_short(pd->runner, &run->rt);
	else
		result = host_run(&run->node->d, run->ranges, run->node->args);
	if (unlikely(result))
		reason_take(run->rt.reason);
	if (role_return(&p->role, seat)) {
		end = ticks_now(&p->ticks);
		p->now = end;
		p->exact = true;
		run->here = true;
		run->rt.hold_ns = ticks_to_ns(&p->ticks, ticks_between(start, end));
		run->rt.wall_ns = run->rt.device_ns ?: run->rt.hold_ns;
		if (lone && !result && !guard_any_lost())
			end_lone(run, run->rt.hold_ns);
		else
			finish(run, run->rt.hold_ns, run->rt.hold_ns, result);
		if (unlikely(recover_pending(pd)))
			recover_begin(p, pd);
		return RUN_DONE;
	}
	lost_role(p, run, start, tsc, mult, result);
	return RUN_LOST;
}

static enum run_outcome run_inline(struct poller *p, struct run *run, struct poller_device *pd,
				   bool launch)
{
	return run_this(p, run, pd, launch, false);
}

/*
 * What a launch may take for the poller's thread to run it.  Where others wait for a device
 * they wait for the poller as well meanwhile, and the devices stand idle: then only what
 * is over before a device's thread would have begun.
 */
static uint64_t inline_limit(const struct poller *p)
{
	return sched_queued(p->sched) ? p->inline_ns / HANDED_PART : p->inline_ns;
}

/* Lanes are threads on cores of the host's, and have nothing to do around it. */
static bool is_of_cores(const struct poller_device *pd, const struct run *run)
{
	return pd->dev->info.kind == ARAX_DEVICE_CPU && !run->rt.enter;
}

bool run_was_alone(const struct poller *p)
{
	return !p->running && p->last_alone && p->now >= p->company_until && !sched_queued(p->sched);
}

/*
 * Of a launch on a device that is idle.  To hand it to the lane's thread takes that one's waking,
 * and the poller's when the device is done, while the device's own threads want the processor,
 * too: much longer than on cores.  If the program does nothing but wait for it, and others have
 * sent nothing lately, nobody misses the poller meanwhile.  Else it is for copies alone, which
 * are there, that the poller waits with it.  See runner_is_usual() for what takes longer than it
 * ever did.
 */
static uint64_t idle_limit(struct poller *p, const struct run *run)
{
	if (p->last_alone != run->link || p->last_context != run->node->d.context) {
		p->last_alone = run->link;
		p->last_context = run->node->d.context;
		p->company_until = p->now + MIXED_US * p->ticks.per_us;
	}
	if (p->running == 1 && graph_live(run->link->graph) == 1 && p->now >= p->company_until)
		return ALONE_LONGER * p->inline_ns;
	return run->remote ? p->inline_ns : 0;
}

/* For what is short, and so not to be taken for long: a time that it does not need. */
static uint64_t short_ns(const struct poller *p, uint64_t ns)
{
	if (!ns || ns >= p->inline_ns)
		return 0;
	return 2 * ns > p->inline_ns / 4 ? 2 * ns : p->inline_ns / 4;
}

/* Cores have as many groups as the kernel's manifest says, whatever the client's grid. */
static void set_parts(struct arax_launch *l, const struct kernel *k)
{
	uint64_t parts = steps_of(&k->parts, l) ?: 1;

	if (parts == l->group_end)
		return;
	if (parts > UINT32_MAX)
		parts = UINT32_MAX;
	l->grid[0] = (uint32_t)parts;
	l->grid[1] = 1;
	l->grid[2] = 1;
	l->group_end = parts;
}

/* How many of @units cores it may keep busy. */
static uint32_t on_cores(struct runner_task *rt, uint32_t units)
{
	if (rt->kernel->parts.nr)
		set_parts(&rt->launch, rt->kernel);
	if (!rt->kernel->split)
		return 1;
	return rt->launch.group_end < units ? (uint32_t)rt->launch.group_end ?: 1 : units;
}

/* To other threads than this one. */
static void hand_over(struct run *run, bool launch)
{
	struct poller *p = run->poller;
	struct poller_device *pd = &p->devs[run->device];

	POLLER_COUNT(p, handed);
	p->exact = false;
	p->last_handed = pd;
	if (launch) {
		uint64_t ns = sched_predict_ns(p->sched, sched_kernel_key(run->node), run->device,
					       sched_work(run->node));

		run->rt.short_ns = short_ns(p, ns);
		if (!run->rt.turn && aside_in_parts(pd, run->rt.kernel, ns))
			aside_begin_parts(run);
	}
	if (pd->dev->info.kind == ARAX_DEVICE_CPU)
		run->cpus = launch ? on_cores(&run->rt, pd->dev->info.units) : 1;
	run_take_cpus(run);
	if (!launch && !run->load) {
		run->until = (struct memory_until){ .deadline_ns = run_deadline_ns(run->node) };
		if (is_of_cores(pd, run))
			host_begin(run);
	}
	run->handed = launch || run->load || run->hosted;
	if (run->handed)
		runner_submit(pd->runner, &run->rt);
	else
		host_thread_push(pd->host, &run->job);
}

/* Who visits is awake, and has just ended a task: the next one of its device is its own. */
uint32_t run_free_lane(const struct poller *p, const struct poller_device *pd)
{
	uint64_t idle = ~pd->lanes_busy, awake = 0;
	uint32_t lane = p->visitor_lane;

	if (p->visitor == pd && lane < pd->lanes && !(pd->lanes_busy >> lane & 1))
		return lane;
	/* Of several one that needs not be woken. */
	if (idle & (idle - 1))
		awake = idle & runner_awake(pd->runner);
	return (uint32_t)__builtin_ctzll(awake ?: idle);
}

/* Each lane has a place of its own, but a task that has lost its lane still has its place. */
static struct run *take_place(const struct poller *p, struct poller_device *pd,
			      const struct graph_node *node)
{
	uint32_t lane = pd->depth > 1 ? node->sched.lane : run_free_lane(p, pd);
	struct run *run;
	uint32_t place;

	if (pd->depth == 1 && !(pd->runs_busy >> lane & 1)) {
		place = lane;
		pd->runs_busy |= 1ull << place;
	} else if (~pd->runs_busy) {
		place = (uint32_t)__builtin_ctzll(~pd->runs_busy);
		pd->runs_busy |= 1ull << place;
	} else {
		place = (uint32_t)__builtin_ctzll(~pd->spares_busy);
		pd->spares_busy |= 1ull << place;
		place += pd->nr_runs;
	}
	run = &pd->runs[place];
	run->lane = run->rt.lane = lane;
	if (pd->depth == 1) {
		run->token = lane;
		pd->lanes_busy |= 1ull << lane;
	}
	return run;
}

/* It has a lane of a device that works on the host's pages, but not the bytes: others take it meanwhile. */
static __attribute__((cold)) void give_lane_back(struct poller *p, struct graph_node *node)
{
	ahead_left(p, node, NULL);
	sched_finish(p->sched, node, 0, false);
	if (unlikely(p->quota.lines))
		quota_needs_none(p, node);
	fetch_for_task(p, node);
}

static inline __attribute__((always_inline))
enum run_outcome start(struct poller *p, struct graph_node *node, const uint32_t *after,
		       uint32_t nr_after, uint32_t order)
{
	struct poller_device *pd = &p->devs[node->device];
	struct link *l = node->priv;
	bool launch = node->d.opcode == ARAX_OP_LAUNCH, worker = false, here, dirty = false;
	const struct kernel *k = launch ? run_kernel(node) : NULL;
	struct run *run;
	int err;

	if (unlikely(graph_node_state(node) == GRAPH_RUNNING) && aside_go_on(p, node))
		return RUN_DONE;
	if (unlikely(p->memory) && !(launch && pd->dev->info.memory))
		dirty = remote_is_dirty(node);
	if (unlikely(dirty) && !nr_after && !node->fetched) {
		give_lane_back(p, node);
		return RUN_DONE;
	}
	run = take_place(p, pd, node);
	ahead_left(p, node, run);
	p->running++;
	run->link = l;
	run->node = node;
	run->start = p->now;
	run->lazy = false;
	run->spent = false;
	run->unrun = false;
	run->handed = false;
	run->over_quota = false;
	run->quota = NULL;
	run->fetch_ns = 0;
	run->follows = nr_after;
	run->rt.reason[0] = '\0';
	run->rt.nr_after = nr_after;
	run->rt.skipped = false;
	run->rt.alone = false;
	run->rt.declined = false;
	run->rt.late = false;
	if (k)
		worker = runner_needs_worker(pd->runner, k);
	/* Before hand-over: after our death this task counts as started. */
	__atomic_store_n(&l->states[ARAX_TAG_SLOT(node->d.tag)], ARAX_SLOT_STARTED,
			 __ATOMIC_RELEASE);
	graph_start(l->graph, node);
	reason_forget();
	err = find_ranges(run);
	if (!err && unlikely(own_is_launch(node)))
		err = own_hold(run);
	else if (!err && unlikely(own_is_load(node)))
		err = own_begin(run);
	if (err) {
		finish_unrun(run, err);
		return RUN_DONE;
	}
	if (worker)
		find_buffers(run);
	if (unlikely(worker || run->load))
		aside_begin(run);
	if (launch)
		fill_launch(run, k, worker);
	if (unlikely(p->quota.lines))
		quota_started(run);
	if (nr_after) {
		memcpy(run->rt.after, after, nr_after * sizeof(*after));
		run->rt.order = order;
	}
	if (launch && run->remote) {
		err = remote_begin(run);
		if (err) {
			finish_unrun(run, err);
			return RUN_DONE;
		}
	}
	/* It may be long after all: then somebody has to be there who polls meanwhile. */
	here = !worker && !p->visitor && role_is_watched(&p->role);
	/* What is to be done around a launch is done on the lane's thread. */
	if (here && !run->load && !dirty &&
	    (!launch || (!run->rt.enter && pd->dev->info.kind == ARAX_DEVICE_CPU)) &&
	    !rest_in_the_way(p) &&
	    sched_is_short(p->sched, node, node->device, inline_limit(p)))
		return run_inline(p, run, pd, launch);
	/* Unless nothing is, and nothing else runs there. */
	if (here && launch && is_idle(run, pd) && !leads(run, pd) &&
	    !sched_queued(p->sched) &&
	    sched_is_short(p->sched, node, node->device, idle_limit(p, run)) &&
	    runner_is_usual(pd->runner, &run->rt) &&
	    (run->remote ? remote_enter_ready(run) : !dirty))
		return run_inline(p, run, pd, true);
	/* They had come to the host, and the program's other tasks have written there since. */
	if (unlikely(dirty))
		fetch_for_run(run);
	else
		hand_over(run, launch);
	return RUN_DONE;
}

enum run_outcome run_start(struct poller *p, struct graph_node *node)
{
	return start(p, node, NULL, 0, 0);
}

__attribute__((noinline))
void run_follow(struct poller *p, struct graph_node *node, const uint32_t *after, uint32_t nr,
		uint32_t order)
{
	/* Behind others, so never on this thread. */
	start(p, node, after, nr, order);
}

void run_go_on(struct run *run, int err)
{
	const struct ticks *t = &run->poller->ticks;

	run->fetch_ns = ticks_to_ns(t, ticks_between(run->start, ticks_now(t)));
	if (err) {
		finish_unrun(run, err);
		return;
	}
	hand_over(run, run->node->d.opcode == ARAX_OP_LAUNCH);
}

/* One look at what the scheduler would choose among many. */
static struct poller_device *short_on(struct poller *p, struct graph_node *node,
				      const struct kernel *k, uint64_t limit_ns)
{
	const uint8_t *runnable = &p->runnable[k->index * p->nr_devs];
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		if (runnable[i] == RUNNABLE_HERE && !pd->direct->node && !pd->lost &&
		    sched_is_short(p->sched, node, i, limit_ns))
			return pd;
	}
	return NULL;
}

/*
 * It counts as no lane's: a short kernel on this thread keeps nothing of the
 * device but its loaded code.
 */
static inline __attribute__((always_inline))
bool direct(struct poller *p, struct graph_node *node, enum run_outcome *outcome, bool lone)
{
	struct link *l = node->priv;
	struct poller_device *pd;
	const struct kernel *k;
	struct run *run;
	int err;

	if (node->d.tenant != p->last_tenant) {
		p->last_tenant = node->d.tenant;
		p->mixed_until = p->now + MIXED_US * p->ticks.per_us;
	}
	/* Who goes first among tenants is the scheduler's to say. */
	if (node->d.opcode != ARAX_OP_LAUNCH || p->now < p->mixed_until || !role_is_watched(&p->role) ||
	    !sched_may_skip(p->sched, node->d.tenant) ||
	    (unlikely(p->memory) && remote_is_dirty(node)))
		return false;
	k = run_kernel(node);
	if (!k || k->foreign)
		return false;
	pd = short_on(p, node, k, p->inline_ns / HANDED_PART);
	/* What takes a few us is done sooner by several lanes, if there is more of it. */
	if (!pd && (lone ? !p->lone.row : p->core_lanes < 2 || !graph_has_ready(l->graph)))
		pd = short_on(p, node, k, p->inline_ns);
	if (!pd)
		return false;
	run = pd->direct;
	p->running++;
	run->link = l;
	run->node = node;
	run->lone = lone;
	if (lone) {
		p->lone.run = run;
		POLLER_COUNT(p, lone);
	}
	run->start = p->now;
	run->unrun = false;
	node->device = run->device;
	run->rt.reason[0] = '\0';
	__atomic_store_n(&l->states[ARAX_TAG_SLOT(node->d.tag)], ARAX_SLOT_STARTED,
			 __ATOMIC_RELEASE);
	if (!lone)
		graph_start(l->graph, node);
	err = find_ranges(run);
	if (unlikely(err)) {
		finish_unrun(run, err);
		*outcome = RUN_DONE;
		return true;
	}
	fill_launch(run, k, false);
	*outcome = lone ? run_this(p, run, pd, true, true) : run_inline(p, run, pd, true);
	return true;
}

bool run_direct(struct poller *p, struct graph_node *node, enum run_outcome *outcome)
{
	return direct(p, node, outcome, false);
}

bool run_lone(struct poller *p, enum run_outcome *outcome)
{
	return direct(p, &p->lone.node, outcome, true);
}

static bool runs_here(const struct poller_device *pd, const struct kernel *k)
{
	return is_of_cores(pd, &pd->runs[0]) && !runner_needs_worker(pd->runner, k);
}

int run_refresh(struct poller *p, struct poller_device *pd)
{
	device_refresh(pd->dev);
	pd->lanes_now = pd->dev->info.lanes < pd->lanes ? pd->dev->info.lanes : pd->lanes;
	pd->changed = true;
	return sched_device_set(p->sched, pd->dev->index, pd->lost ? 0 : pd->lanes_now);
}

/* By a vendor's library that is for such, and by nothing else: no fault of the device. */
static bool is_for_gpus(const struct kernel *k, uint32_t kind)
{
	const struct kernel_impl *impl = kernel_impl(k, kind);

	for (; impl; impl = kernel_impl_next(k, impl))
		if (!impl->gpus)
			return false;
	return true;
}

static void add_name(char *names, size_t len, const char *name)
{
	size_t at = strlen(names);

	snprintf(names + at, len - at, "%s%s", at ? ", " : "", name);
}

/* By the first one that it is like, which may be itself. */
static int tell_alike(const struct poller *p, const struct device *dev)
{
	uint32_t i = 0;

	while (i < dev->index && !device_is_alike(p->devs[i].dev, dev))
		i++;
	return sched_device_alike(p->sched, dev->index, i + 1);
}

static int device_create(struct poller *p, struct poller_device *pd, struct device *dev)
{
	uint32_t i, n = registry_count(p->registry);
	char for_gpus[256] = "", reason[REASON_LEN];
	bool results;
	int err;

	pd->dev = dev;
	pd->lanes = dev->info.lanes < MAX_LANES ? dev->info.lanes : MAX_LANES;
	pd->changed = true;
	err = runner_create(dev, p->registry, p->config, &pd->runner);
	if (err)
		return err;
	runner_expects(pd->runner, &p->more);
	pd->depth = p->config->debug.check_access ? 1 : runner_depth(pd->runner);
	if (pd->depth > MAX_RUNS / pd->lanes)
		pd->depth = MAX_RUNS / pd->lanes;
	pd->max_aside = aside_room(p, pd);
	pd->nr_runs = pd->lanes * pd->depth;
	pd->runs_busy = pd->nr_runs == MAX_RUNS ? 0 : ~0ull << pd->nr_runs;
	pd->lanes_busy = pd->lanes == MAX_RUNS ? 0 : ~0ull << pd->lanes;
	/* There are as many bits for them. */
	results = dev->info.memory && pd->depth == 1 && !p->config->debug.check_access &&
		  pd->max_aside + BACK_MOST <= MAX_RUNS;
	pd->nr_spares = pd->max_aside + (results ? BACK_MOST : 0);
	pd->runs = calloc(pd->nr_runs + pd->nr_spares + 1, sizeof(*pd->runs));
	if (!pd->runs)
		return -ENOMEM;
	if (results)
		err = back_create(pd);
	if (err)
		return err;
	for (i = 0; i < pd->nr_runs + pd->nr_spares; i++) {
		init_run(&pd->runs[i], p, dev->index, i % pd->lanes);
		err = dev->info.memory ? remote_prepare(&pd->runs[i]) : 0;
		if (results)
			back_init(&pd->runs[i]);
		if (!err && p->config->debug.check_access)
			err = declared_prepare(&pd->runs[i]);
		if (err)
			return err;
	}
	/* It keeps no lane, and the launch is told of the first one. */
	pd->direct = run_end(pd);
	init_run(pd->direct, p, dev->index, 0);
	pd->direct->direct = true;
	pd->copies = dev->info.kind == ARAX_DEVICE_CPU;
	if (!dev->info.cpus[0] || cpulist_parse(dev->info.cpus, &pd->cpus))
		CPU_ZERO(&pd->cpus);
	if (pd->copies && !is_of_cores(pd, &pd->runs[0])) {
		err = host_thread_create("arax-host", &pd->host);
		if (err)
			return err;
	}
	for (i = 0; i < n; i++) {
		const struct kernel *k = registry_at(p->registry, i);

		if (!kernel_impl(k, dev->info.kind))
			continue;
		/* Tasks come with the addresses of host pages: it would find nothing there. */
		reason_forget();
		err = runner_prepare(pd->runner, k);
		reason_take(reason);
		if (err)
			unfit_note(p, k, dev, err, reason);
		if (err == -EOPNOTSUPP && is_for_gpus(k, dev->info.kind))
			add_name(for_gpus, sizeof(for_gpus), k->sig.name);
		else if (err)
			log_warn("device can't run kernel", log_str("device", dev->info.name),
				 log_str("kernel", k->sig.name), log_errno(err),
				 log_str("reason", reason));
		p->runnable[k->index * p->nr_devs + dev->index] =
			err ? RUNNABLE_NOT : runs_here(pd, k) ? RUNNABLE_HERE : RUNNABLE;
	}
	if (for_gpus[0])
		log_info("kernels of this kind are for GPUs alone, which the device is none of",
			 log_str("device", dev->info.name), log_str("kernels", for_gpus));
	if (dev->info.memory && !p->config->debug.check_access) {
		err = ahead_create(p, pd);
		if (err)
			return err;
	}
	pd->follows = follow_on(pd) && device_follows(dev);
	p->follow |= follow_on(pd);
	pd->lanes_now = pd->lanes;
	if (pd->dev->info.kind == ARAX_DEVICE_CPU)
		p->core_lanes += pd->lanes;
	if (!device_is_configured(dev)) {
		err = sched_device_set(p->sched, dev->index, pd->lanes);
		if (!err)
			err = sched_device_ahead(p->sched, dev->index, pd->depth - 1);
		return err ? err : tell_alike(p, dev);
	}
	err = gate_create(&pd->gate);
	return err ? err : run_refresh(p, pd);
}

/* It lacks something still, which is no loss of its own: it is looked for as for one that is lost. */
static void begin_without(struct poller *p, struct poller_device *pd)
{
	go_offline(p, pd);
	if (!recover_plan(p, pd, false))
		log_err("device can't be had", log_str("device", pd->dev->info.name),
			log_str("remedy", "restart araxd; the lines above say what it lacks"));
	p->recover_again = true;
}

int runs_create(struct poller *p, struct devices *devices)
{
	bool host = false, copies = false;
	uint32_t i;
	int err;

	p->devices = devices;
	p->nr_devs = devices_count(devices);
	p->devs = calloc(p->nr_devs ? p->nr_devs : 1, sizeof(*p->devs));
	p->runnable = calloc((size_t)registry_count(p->registry) * p->nr_devs + 1, 1);
	if (!p->devs || !p->runnable)
		return -ENOMEM;
	measure_links(p, devices);
	for (i = 0; i < p->nr_devs; i++) {
		err = device_create(p, &p->devs[i], devices_at(devices, i));
		if (err)
			return err;
		copies |= p->devs[i].copies;
		host |= p->devs[i].host != NULL;
	}
	err = host_thread_create("arax-own", &p->undertaker);
	if (!err && p->memory)
		err = host_thread_create("arax-fetch", &p->fetches.thread);
	if (err)
		return err;
	err = figures_create(p);
	if (err || !p->nr_devs)
		return err;
	for (i = 0; i < p->nr_devs; i++)
		if (p->devs[i].dev->info.lost)
			begin_without(p, &p->devs[i]);
	p->unlike = bounds_differ(p);
	/* Copies and fills are on the host's pages: some device has to stand for them. */
	p->devs[0].copies |= !copies;
	return host ? 0 : host_thread_create("arax-host", &p->devs[0].host);
}

void poller_buffer_gone(struct poller *p, struct mapping *m)
{
	uint32_t i;

	for (i = 0; p->devs && i < p->nr_devs; i++)
		if (p->devs[i].runner)
			runner_drop_buffer(p->devs[i].runner, m->serial);
	if (m->copies)
		memory_buffer_gone(p->memory, m->copies);
	m->copies = NULL;
}

void runs_destroy(struct poller *p)
{
	struct run *run;
	uint32_t i;

	if (!figures_destroy(p))
		devices_leave(p->devices);
	if (p->memory)
		memory_stop(p->memory);
	ahead_stop_all(p);
	for (i = 0; p->devs && i < p->nr_links; i++)
		own_all_gone(p->links[i]);
	host_thread_destroy(p->undertaker);
	p->undertaker = NULL;
	host_thread_destroy(p->fetches.thread);
	p->fetches.thread = NULL;
	/* All of them first: what hangs on any is waited for once. */
	for (i = 0; p->devs && i < p->nr_devs; i++) {
		if (p->devs[i].gate)
			gate_stop(p->devs[i].gate);
		host_thread_destroy(p->devs[i].host);
		recover_stop(&p->devs[i]);
		if (p->devs[i].runner)
			runner_stop(p->devs[i].runner);
	}
	for (i = 0; p->devs && i < p->nr_devs; i++) {
		runner_destroy(p->devs[i].runner);
		back_destroy(&p->devs[i]);
		gate_destroy(p->devs[i].gate);
		for (run = p->devs[i].runs; run && run <= run_end(&p->devs[i]); run++) {
			free(run->remote);
			declared_release(run);
		}
		free(p->devs[i].runs);
	}
	remote_destroy(p);
	free(p->devs);
	free(p->runnable);
	unfit_free(p);
	decline_free(p);
	p->devs = NULL;
	p->runnable = NULL;
}
