// SPDX-License-Identifier: MIT
/*
 * One task on one device: from its ranges to addresses, to the thread that
 * runs it, and back to its commit entry.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/dispatch/host.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"
#include "daemon/memory/mapping.h"

#define unlikely(x)	__builtin_expect(!!(x), 0)

#define MAX_LANES	64u
#define MIXED_US	1000u
#define COMPLAIN_US	1000000u

static const struct kernel *kernel_of(const struct graph_node *node)
{
	const struct link *l = node->priv;

	return node->d.kernel <= CORE_MAX_KERNELS ? l->kernels[node->d.kernel] : NULL;
}

bool run_can(void *arg, const struct graph_node *node, uint32_t device)
{
	const struct poller *p = arg;
	const struct kernel *k;

	if (node->d.opcode != ARAX_OP_LAUNCH)
		return p->devs[device].host;
	k = kernel_of(node);
	return k && p->runnable[k->index * p->nr_devs + device] &&
	       (!p->devs[device].dev->info.memory || remote_fits(p, node, device));
}

int run_why_not(struct poller *p, const struct graph_node *node)
{
	const struct kernel *k;
	uint64_t bytes = 0, most = 0;
	uint32_t i;

	if (node->d.opcode != ARAX_OP_LAUNCH)
		return -EOPNOTSUPP;
	k = kernel_of(node);
	for (i = 0; k && i < p->nr_devs; i++)
		if (p->runnable[k->index * p->nr_devs + i] && most < p->devs[i].dev->info.memory)
			most = p->devs[i].dev->info.memory;
	if (!most)
		return -ENOEXEC;
	if (p->now >= p->next_complaint) {
		p->next_complaint = p->now + COMPLAIN_US * p->ticks.per_us;
		for (i = 0; i < node->d.nr_ranges; i++)
			bytes += (uint64_t)(node->ranges[i].count - 1) * node->ranges[i].stride +
				 node->ranges[i].length;
		log_warn("task has more data than any device that could run it has memory",
			 log_str("kernel", k->sig.name), log_u64("bytes", bytes),
			 log_u64("device_bytes", most),
			 log_str("remedy", "give it smaller ranges"));
	}
	return -ENOMEM;
}

void poller_commit(struct poller *p, struct link *l, uint64_t tag, const struct commit_info *i)
{
	struct arax_commit_entry *e;
	uint32_t slot = ARAX_TAG_SLOT(tag);

	e = &l->commits[(l->commit_first + l->commit_count) & (l->commit_entries - 1)];
	e->tag = tag;
	e->result = i->result;
	e->dirty = 0;		/* host pages are worked on in place */
	e->device_ns = i->device_ns;
	e->wait_ns = i->wait_ns;
	e->bytes = i->bytes;
	e->origin = i->origin;
	e->device = i->device;
	e->failure = i->failure;
	e->reserved = 0;
	if (slot < l->slots && l->live[slot].tag == tag) {
		l->live[slot].tag = 0;
		l->nr_live--;
	}
	POLLER_COUNT(p, tasks);
	if (++l->commit_count >= POLLER_BATCH)
		l->ops->commit(l);
}

void poller_commit_ended(struct poller *p, struct link *l)
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

void poller_flush(struct poller *p)
{
	uint32_t i;

	for (i = 0; i < p->nr_links; i++)
		if (p->links[i]->commit_count)
			p->links[i]->ops->commit(p->links[i]);
}

void run_refuse(struct poller *p, struct graph_node *node, int result)
{
	struct link *l = node->priv;
	struct commit_info info = { .result = result, .device = ~0u };
	uint64_t tag = node->d.tag;

	if (result)
		poller_commit_ended(p, l);
	graph_complete(l->graph, node, result, &info.failure);
	poller_commit(p, l, tag, &info);
}

/*
 * A short kernel that took long because its thread lost the CPU has taught us
 * nothing about its run time.  Asked only when it took long.
 */
static bool lost_cpu(struct poller *p)
{
	struct rusage ru;
	long before = p->lost_cpu;

	if (getrusage(RUSAGE_THREAD, &ru))
		return false;
	p->lost_cpu = ru.ru_nivcsw;
	return ru.ru_nivcsw != before;
}

/* What the task's end means for those that come after it. */
static inline void settle_accounts(struct run *run, struct graph_node *node, uint64_t device_ns,
			    bool learn)
{
	struct poller *p = run->poller;
	struct poller_device *pd = &p->devs[run->device];

	if (run->direct) {
		sched_charge(p->sched, node, run->device, device_ns, learn);
	} else if (unlikely(run->remote && node->d.opcode == ARAX_OP_LAUNCH)) {
		/* The tenant had the device for all of it; the next time data may be there. */
		sched_finish(p->sched, node, device_ns, false);
		if (learn)
			sched_observe(p->sched, sched_kernel_key(node), run->device,
				      sched_work(node), run->rt.device_ns);
		pd->lanes_busy &= ~(1ull << run->lane);
	} else {
		sched_finish(p->sched, node, device_ns, learn);
		pd->lanes_busy &= ~(1ull << run->lane);
	}
	pd->busy_ns += device_ns;
	pd->tasks++;
	pd->changed = true;
	p->running--;
	run->node = NULL;
}

/* The graph numbers failures in the order of their commits. */
static __attribute__((cold)) void finish_failed(struct run *run, struct commit_info *info)
{
	struct graph_node *node = run->node;
	struct poller *p = run->poller;
	struct link *l = run->link;
	uint64_t tag = node->d.tag;

	settle_accounts(run, node, info->device_ns, false);
	poller_commit_ended(p, l);
	graph_complete(l->graph, node, info->result, &info->failure);
	poller_commit(p, l, tag, info);
}

/* The poller's part of a task's end. */
static void finish(struct run *run, uint64_t device_ns, int result)
{
	struct poller *p = run->poller;
	struct graph_node *node = run->node;
	struct link *l = run->link;
	uint64_t start_ns = ticks_ns(&p->ticks, run->start);
	struct commit_info info = {
		.result = result, .device = run->device, .device_ns = device_ns,
	};
	bool learn;

	if (node->d.submit_ns && node->d.submit_ns < start_ns)
		info.wait_ns = start_ns - node->d.submit_ns;
	if (unlikely(p->memory)) {
		if (run->held)
			remote_settle(run);
		else
			remote_host_wrote(l, node);
	}
	if (unlikely(result)) {
		run->here = false;
		finish_failed(run, &info);
		return;
	}
	learn = !(run->here && device_ns > p->inline_ns && lost_cpu(p));
	run->here = false;
	poller_commit(p, l, node->d.tag, &info);
	/* Nothing else is on its way: whoever waits for this one comes first. */
	if (graph_live(l->graph) == 1 && l->commit_count)
		l->ops->commit(l);
	settle_accounts(run, node, device_ns, learn);
	graph_complete(l->graph, node, 0, NULL);
}

static struct run *run_of_work(struct work *w)
{
	return (struct run *)((char *)w - offsetof(struct run, work));
}

/* Back on the poller's thread. */
static void came_back(struct work *w)
{
	struct run *run = run_of_work(w);

	finish(run, run->rt.hold_ns, run->rt.result);
}

/* On a lane's thread. */
static void runner_done(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));

	poller_visit(run->poller, &run->work);
}

/* On the host thread of the device. */
static void host_done(struct host_job *job)
{
	struct run *run = (struct run *)((char *)job - offsetof(struct run, job));
	uint64_t start = monotonic_ns();

	run->rt.result = host_run(&run->node->d, run->ranges, run->node->args);
	run->rt.hold_ns = monotonic_ns() - start;
	poller_post(run->poller, &run->work);
}

static inline int find_ranges(struct run *run)
{
	const struct graph_node *node = run->node;
	struct link *l = run->link;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];
		struct mapping *m = link_find(l, r->buffer);

		if (!m)
			return -EFAULT;
		/* The core has checked it; what runs as root looks twice. */
		if (r->offset > m->bytes)
			return -EFAULT;
		run->ranges[i].data = m->base + r->offset;
		run->ranges[i].length = r->length;
		run->ranges[i].stride = r->stride;
		run->ranges[i].count = r->count;
	}
	return 0;
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
	rt->deadline_ns = d->deadline_ns;
	rt->device_ns = 0;
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
}

/*
 * What the poller runs by itself does not run beside anything else.  Where more is ready
 * the devices are woken once for all of it, so a hand-over costs less than that.
 */
static inline bool short_here(struct poller *p, struct graph_node *node, uint32_t device, bool more)
{
	if (!sched_is_short(p->sched, node, device, p->inline_ns))
		return false;
	/* By the mean alone: one run that was disturbed does not make a task a long one. */
	return !more || sched_predict_ns(p->sched, sched_kernel_key(node), device,
					 sched_work(node)) < p->inline_ns / 4;
}

/*
 * Around the kernel the role is lent out: see role.h.  Of several in a row each is
 * taken to have begun when the one before it ended: reading the clock takes as long
 * as a small kernel, and the device was kept from others by its dispatch as well.
 */
static enum run_outcome run_inline(struct poller *p, struct run *run, struct poller_device *pd,
				   bool launch)
{
	uint64_t start = p->exact ? p->now : ticks_now(&p->ticks), end;
	struct role_seat *seat;
	const bool tsc = p->ticks.tsc;
	const uint64_t mult = p->ticks.mult;
	int result;

	run->start = start;
	POLLER_COUNT(p, inline_runs);
	seat = role_lend(&p->role);
	if (launch)
		result = runner_run_short(pd->runner, &run->rt);
	else
		result = host_run(&run->node->d, run->ranges, run->node->args);
	if (role_return(&p->role, seat)) {
		end = ticks_now(&p->ticks);
		p->now = end;
		p->exact = true;
		run->here = true;
		finish(run, ticks_to_ns(&p->ticks, end - start), result);
		return RUN_DONE;
	}
	/* Another thread polls now; the clock is its own, but these are copies. */
	end = ticks_now(&(struct ticks){ .tsc = tsc });
	run->rt.result = result;
	run->rt.hold_ns = ticks_to_ns(&(struct ticks){ .mult = mult }, end - start);
	poller_post(p, &run->work);
	return RUN_LOST;
}

enum run_outcome run_start(struct poller *p, struct graph_node *node)
{
	struct poller_device *pd = &p->devs[node->device];
	struct link *l = node->priv;
	bool launch = node->d.opcode == ARAX_OP_LAUNCH, worker = false;
	const struct kernel *k = launch ? kernel_of(node) : NULL;
	uint32_t lane = (uint32_t)__builtin_ctzll(~pd->lanes_busy);
	struct run *run = &pd->runs[lane];
	int err;

	pd->lanes_busy |= 1ull << lane;
	p->running++;
	run->link = l;
	run->node = node;
	run->start = p->now;
	if (launch)
		worker = runner_needs_worker(pd->runner, k);
	/* Before hand-over: after our death this task counts as started. */
	__atomic_store_n(&l->states[ARAX_TAG_SLOT(node->d.tag)], ARAX_SLOT_STARTED,
			 __ATOMIC_RELEASE);
	graph_start(l->graph, node);
	err = find_ranges(run);
	if (err) {
		finish(run, 0, err);
		return RUN_DONE;
	}
	if (worker)
		find_buffers(run);
	if (launch)
		fill_launch(run, k, worker);
	if (launch && run->remote) {
		err = remote_begin(run);
		if (err) {
			finish(run, 0, err);
			return RUN_DONE;
		}
		worker = true;	/* elsewhere, that is */
	}
	if (!worker && !p->visited &&
	    short_here(p, node, node->device, sched_queued(p->sched)))
		return run_inline(p, run, pd, launch);
	POLLER_COUNT(p, handed);
	p->exact = false;
	if (launch)
		runner_submit(pd->runner, &run->rt);
	else
		host_thread_push(pd->host, &run->job);
	return RUN_DONE;
}

/* One look at what the scheduler would choose among many. */
static struct poller_device *short_on(struct poller *p, struct graph_node *node,
				      const struct kernel *k)
{
	const struct link *l = node->priv;
	const bool more = graph_has_ready(l->graph);
	const uint8_t *runnable = &p->runnable[k->index * p->nr_devs];
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		if (runnable[i] == RUNNABLE_HERE && !pd->direct->node &&
		    short_here(p, node, i, more))
			return pd;
	}
	return NULL;
}

/*
 * It counts as no lane's: a short kernel on this thread keeps nothing of the
 * device but its loaded code.
 */
bool run_direct(struct poller *p, struct graph_node *node, enum run_outcome *outcome)
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
	if (node->d.opcode != ARAX_OP_LAUNCH || p->visited || p->now < p->mixed_until ||
	    !sched_is_idle(p->sched))
		return false;
	k = kernel_of(node);
	pd = k ? short_on(p, node, k) : NULL;
	if (!pd)
		return false;
	run = pd->direct;
	p->running++;
	run->link = l;
	run->node = node;
	run->start = p->now;
	node->device = run->device;
	__atomic_store_n(&l->states[ARAX_TAG_SLOT(node->d.tag)], ARAX_SLOT_STARTED,
			 __ATOMIC_RELEASE);
	graph_start(l->graph, node);
	err = find_ranges(run);
	if (err) {
		finish(run, 0, err);
		*outcome = RUN_DONE;
		return true;
	}
	fill_launch(run, k, false);
	*outcome = run_inline(p, run, pd, true);
	return true;
}

static bool runs_here(const struct poller_device *pd, const struct kernel *k)
{
	return pd->dev->info.kind == ARAX_DEVICE_CPU && !pd->dev->info.memory &&
	       !runner_needs_worker(pd->runner, k);
}

static int device_create(struct poller *p, struct poller_device *pd, struct device *dev)
{
	uint32_t i, n = registry_count(p->registry);
	int err;

	pd->dev = dev;
	pd->lanes = dev->info.lanes < MAX_LANES ? dev->info.lanes : MAX_LANES;
	pd->lanes_busy = pd->lanes == 64 ? 0 : ~0ull << pd->lanes;
	pd->changed = true;
	pd->runs = calloc(pd->lanes + 1, sizeof(*pd->runs));
	if (!pd->runs)
		return -ENOMEM;
	for (i = 0; i < pd->lanes; i++) {
		init_run(&pd->runs[i], p, dev->index, i);
		err = dev->info.memory ? remote_prepare(&pd->runs[i]) : 0;
		if (err)
			return err;
	}
	/* It keeps no lane, and the launch is told of the first one. */
	pd->direct = &pd->runs[pd->lanes];
	init_run(pd->direct, p, dev->index, 0);
	pd->direct->direct = true;
	err = runner_create(dev, p->registry, p->config, &pd->runner);
	if (err)
		return err;
	if (dev->info.kind == ARAX_DEVICE_CPU) {
		err = host_thread_create("arax-host", &pd->host);
		if (err)
			return err;
	}
	for (i = 0; i < n; i++) {
		const struct kernel *k = registry_at(p->registry, i);

		if (!(k->kinds >> dev->info.kind & 1))
			continue;
		err = runner_prepare(pd->runner, k);
		if (err)
			log_warn("device can't run kernel", log_str("device", dev->info.name),
				 log_str("kernel", k->sig.name), log_errno(err));
		p->runnable[k->index * p->nr_devs + dev->index] =
			err ? RUNNABLE_NOT : runs_here(pd, k) ? RUNNABLE_HERE : RUNNABLE;
	}
	return sched_device_set(p->sched, dev->index, pd->lanes);
}

int runs_create(struct poller *p, struct devices *devices)
{
	bool host = false;
	uint32_t i;
	int err;

	p->nr_devs = devices_count(devices);
	p->devs = calloc(p->nr_devs ? p->nr_devs : 1, sizeof(*p->devs));
	p->runnable = calloc((size_t)registry_count(p->registry) * p->nr_devs + 1, 1);
	if (!p->devs || !p->runnable)
		return -ENOMEM;
	for (i = 0; i < p->nr_devs; i++) {
		err = device_create(p, &p->devs[i], devices_at(devices, i));
		if (err)
			return err;
		host = host || p->devs[i].host;
	}
	/* Copies and fills are on the host's pages: some device has to stand for them. */
	return host || !p->nr_devs ? 0 : host_thread_create("arax-host", &p->devs[0].host);
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
	uint32_t i, j;

	for (i = 0; p->devs && i < p->nr_devs; i++) {
		host_thread_destroy(p->devs[i].host);
		if (p->devs[i].runner)
			runner_destroy(p->devs[i].runner);
		for (j = 0; p->devs[i].runs && j <= p->devs[i].lanes; j++)
			free(p->devs[i].runs[j].remote);
		free(p->devs[i].runs);
	}
	remote_destroy(p);
	free(p->devs);
	free(p->runnable);
	p->devs = NULL;
	p->runnable = NULL;
}
