// SPDX-License-Identifier: MIT
#include "daemon/dispatch/remote.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/dispatch/ahead.h"
#include "daemon/dispatch/gate.h"
#include "daemon/dispatch/own.h"
#include "daemon/dispatch/quota.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"
#include "daemon/reason.h"

#define AHEAD_NS	50000u	/* of copies for a task, while another is under way */

static int do_alloc(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	return device_alloc_on(dev, bytes, host, address);
}

/* Where declared.c looks at it, too. */
static int do_alloc_apart(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	return device_alloc(dev, bytes, 0, address);
}

static void do_free(void *dev, uint64_t address)
{
	device_free(dev, address);
}

static int do_copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return device_copy_in(dev, lane, to, from, bytes);
}

static int do_copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return device_copy_out(dev, lane, to, from, bytes);
}

static int do_copy_peer(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes)
{
	return device_copy_peer(dev, to, src, from, bytes);
}

static int do_register(void *dev, void *host, uint64_t bytes)
{
	return device_host_register(dev, host, bytes);
}

static void do_unregister(void *dev, void *host)
{
	device_host_unregister(dev, host);
}

/* An owner is a link's place and a context. */
static int charge(void *arg, uint64_t id, int64_t bytes)
{
	struct poller *p = arg;
	struct link *l = p->links[id >> 32];

	return l->ops->charge(l, ARAX_RES_DEVICE_MEMORY, (uint32_t)id, bytes);
}

static uint64_t limit(void *arg, struct memory_owner owner, uint64_t *left)
{
	struct poller *p = arg;
	struct link *l = p->links[owner.id >> 32];

	return l->ops->limit(l, owner.tenant, left);
}

struct memory_owner remote_owner(const struct link *l, const struct graph_node *node)
{
	return (struct memory_owner){
		.id = (uint64_t)l->place << 32 | node->d.context, .tenant = node->d.tenant,
	};
}

int remote_create(struct poller *p, struct devices *devices)
{
	struct memory_ops ops = {
		.alloc = p->config->debug.check_access ? do_alloc_apart : do_alloc,
		.free = do_free, .copy_in = do_copy_in, .copy_out = do_copy_out,
		.host_register = do_register, .host_unregister = do_unregister,
		.copy_peer = do_copy_peer,
	};
	uint32_t i, n = devices_count(devices);
	int err;

	for (i = 0; i < n; i++) {
		struct device *dev = devices_at(devices, i);

		if (!dev->info.memory)
			continue;
		err = p->memory ? 0 : memory_create(n, &p->memory);
		ops.moves = !device_alloc_stays(dev);
		ops.peers = device_peers(dev);
		ops.largest = dev->info.largest;
		if (!err)
			err = memory_add_device(p->memory, dev->index, &ops, dev,
						dev->info.memory);
		if (err)
			return err;
		log_info("device has memory of its own", log_str("device", dev->info.name),
			 log_u64("bytes", dev->info.memory));
	}
	if (p->memory) {
		memory_set_charge(p->memory, charge, p);
		memory_set_limit(p->memory, limit);
	}
	return 0;
}

static void forget_copies(struct mapping *m, void *arg)
{
	if (m->copies)
		memory_buffer_gone(arg, m->copies);
	m->copies = NULL;
}

void remote_destroy(struct poller *p)
{
	uint32_t i;

	for (i = 0; p->memory && i < p->nr_links; i++)
		mappings_each(&p->links[i]->mappings, forget_copies, p->memory);
	memory_destroy(p->memory);
	p->memory = NULL;
}

/* Nobody is between enter() and remote_settle() there. */
static int configure(void *arg)
{
	struct run *run = arg;
	struct poller_device *pd = &run->poller->devs[run->device];
	int err;

	err = memory_drop(run->poller->memory, run->device);
	/* Whoever's bytes it does not give has lost them; others' tasks need not fail for that. */
	if (err == -EIO) {
		log_warn("device is configured anew, and bytes that it alone has and does not give are lost",
			 log_str("device", pd->dev->info.name),
			 log_str("kernel", run->rt.kernel->sig.name));
		memory_lose(run->poller->memory, run->device);
	} else if (err) {
		return err;
	}
	err = runner_configure(pd->runner, run->rt.kernel);
	__atomic_store_n(&pd->configured, true, __ATOMIC_RELEASE);
	return err;
}

static int pass_gate(struct run *run)
{
	const struct poller_device *pd = &run->poller->devs[run->device];
	const struct kernel *k = run->rt.kernel;

	if (!pd->gate)
		return 0;
	return gate_enter(pd->gate, runner_configuration(pd->runner, k),
			  runner_switch_ns(pd->runner, k), configure, run, &run->until);
}

/*
 * A lane that brings data for long sees meanwhile no end of what it has under way, and who waits
 * for that waits longer.  Other lanes' copies fill the link.
 */
static bool is_long_way(const struct run *run)
{
	const struct poller *p = run->poller;

	return p->devs[run->device].lanes > 1 &&
	       memory_transfer_ns(p->memory, run->device, run->remote, run->rt.launch.nr_ranges,
				  run->seq) > AHEAD_NS;
}

/* On the lane's thread. */
static int enter(struct runner_task *rt)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));
	const struct poller_device *pd = &run->poller->devs[run->device];
	uint32_t i, nr = rt->launch.nr_ranges;
	int err;

	if ((rt->flags & (RUNNER_NO_WAIT | RUNNER_BEHIND)) == RUNNER_NO_WAIT && is_long_way(run))
		return -EAGAIN;
	if (__atomic_load_n(&run->until.canceled, __ATOMIC_RELAXED))
		return -ECANCELED;
	err = pass_gate(run);
	/* Not what configures the device. */
	if (err == -ETIMEDOUT && run->until.deadline_ns && monotonic_ns() >= run->until.deadline_ns)
		reason_set("its deadline passed while it waited for device %s, which other tasks had configured otherwise",
			   pd->dev->info.name);
	if (err)
		return err;
	/* To configure a device takes long. */
	if (pd->gate && __atomic_load_n(&run->until.canceled, __ATOMIC_RELAXED)) {
		gate_leave(pd->gate);
		return -ECANCELED;
	}
	run->settles = memory_settles(run->poller->memory);
	if (rt->flags & RUNNER_BEHIND)
		err = memory_enter_behind(run->poller->memory, run->device, run->lane, run->remote,
					  nr, run->seq, remote_owner(run->link, run->node),
					  pd->lanes > 1 ? AHEAD_NS : UINT64_MAX);
	else if (rt->flags & RUNNER_NO_WAIT)
		err = memory_try_enter(run->poller->memory, run->device, run->lane, run->remote, nr,
				       run->seq, remote_owner(run->link, run->node));
	else
		err = memory_enter_until(run->poller->memory, run->device, run->lane, run->remote,
					 nr, run->seq, remote_owner(run->link, run->node), &run->until);
	if (err) {
		if (pd->gate)
			gate_leave(pd->gate);
		if (err == -ETIMEDOUT)
			reason_set("its deadline passed before all its data was on device %s: other tasks had the room, or much of it had to come from elsewhere",
				   pd->dev->info.name);
		run->over_quota = err == MEMORY_LATER;
		return run->over_quota ? -EDQUOT : err;
	}
	quota_entered(run);
	run->held = true;
	for (i = 0; i < nr; i++)
		run->ranges[i].data = (void *)(uintptr_t)run->remote[i].address;
	return 0;
}

bool remote_enter_ready(struct run *run)
{
	uint32_t i, nr = run->rt.launch.nr_ranges;

	if (memory_enter_ready(run->poller->memory, run->device, run->remote, nr, run->seq,
			       remote_owner(run->link, run->node)))
		return false;
	quota_entered(run);
	run->held = true;
	for (i = 0; i < nr; i++)
		run->ranges[i].data = (void *)(uintptr_t)run->remote[i].address;
	return true;
}

static int leave(struct runner_task *rt, int result)
{
	struct run *run = (struct run *)((char *)rt - offsetof(struct run, rt));

	/* Nothing has been written: all that was valid is. */
	run->spent = false;
	run->stored = false;
	if (run_did_nothing(run, result))
		return result;
	/* Now, so that those behind it on the lane are told. */
	if (unlikely(guard_any_lost()) && !result)
		result = run_result_of_lost(run);
	run->stored = !result;
	run->spent = run->lazy && memory_consumes(run->poller->memory, run->device, run->remote,
						  rt->launch.nr_ranges);
	result = memory_leave(run->poller->memory, run->device, run->lane, run->remote,
			      rt->launch.nr_ranges, result);
	/* Or its results had nowhere to go. */
	if (unlikely(guard_any_lost()) && !result)
		result = run_result_of_lost(run);
	return result;
}

int remote_prepare(struct run *run)
{
	run->remote = calloc(ARAX_MAX_RANGES, sizeof(*run->remote));
	if (!run->remote)
		return -ENOMEM;
	run->rt.enter = enter;
	run->rt.leave = leave;
	return 0;
}

/* Context numbers are each link's own. */
static uint32_t trust_of(const struct link *l, const struct graph_node *node)
{
	return memory_trust(l->poller->memory, (uint64_t)l->place << 32 | node->d.context);
}

void remote_distrust(struct poller *p, const struct link *l, const struct graph_node *node)
{
	/* Who has ended meanwhile learns nothing from it, nor does anybody after him. */
	if (node)
		memory_distrust(p->memory, trust_of(l, node));
}

static void fill_range(struct memory_range *to, struct memory_buffer *buffer,
		       const struct link *l, const struct graph_node *node, uint32_t i)
{
	const struct arax_dispatch_range *r = &node->ranges[i];

	*to = (struct memory_range){
		.buffer = buffer, .offset = r->offset, .length = r->length, .stride = r->stride,
		.count = r->count, .access = node->d.access >> 2 * i & ARAX_INOUT,
		.trust = trust_of(l, node),
	};
}

/* NULL: no memory. */
static struct memory_buffer *copies_of(struct poller *p, struct mapping *m)
{
	if (m->copies)
		return m->copies;
	m->copies = memory_buffer_create(p->memory, m->base, m->bytes);
	if (m->copies && m->lazy)
		memory_buffer_lazy(m->copies);
	return m->copies;
}

bool remote_look_ahead_of(struct poller *p, const struct graph_node *node,
			  struct memory_range *ranges)
{
	struct link *l = node->priv;

	for (uint32_t i = 0; i < node->d.nr_ranges; i++) {
		struct mapping *m = link_find(l, node->ranges[i].buffer);

		if (!m || node->ranges[i].offset > m->bytes ||
		    __atomic_load_n(&m->lost, __ATOMIC_RELAXED) || !copies_of(p, m))
			return false;
		fill_range(&ranges[i], m->copies, l, node, i);
	}
	return true;
}

int remote_begin(struct run *run)
{
	const struct graph_node *node = run->node;
	struct poller *p = run->poller;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		struct mapping *m = link_find(run->link, node->ranges[i].buffer);

		if (!copies_of(p, m))
			return -ENOMEM;
		run->lazy |= m->lazy;
		fill_range(&run->remote[i], m->copies, run->link, node, i);
	}
	run->seq = node->seq;
	/* Contexts are numbered one after the other: of each link 2^31 have one of their own here. */
	run->rt.program = node->d.context * POLLER_LINKS + run->link->place;
	run->rt.due_ns = node->sched.due;
	run->until = (struct memory_until){ .deadline_ns = run->rt.deadline_ns };
	run->held = false;
	run->stored = false;
	return 0;
}

/* (poller) It waits no longer, nor will. */
static void cancel_run(struct poller_device *pd, struct run *run)
{
	struct poller *p = run->poller;

	if (pd->gate)
		gate_cancel(pd->gate, &run->until);
	if (run->remote)
		memory_cancel(p->memory, run->device, &run->until);
	else
		__atomic_store_n(&run->until.canceled, true, __ATOMIC_RELAXED);
}

void remote_cancel(struct link *l, const struct graph_node *node)
{
	struct poller *p = l->poller;
	struct poller_device *pd;

	/* Running, so a device has it; but for a marker, or what has none yet. */
	if (!node || node->device >= p->nr_devs)
		return;
	pd = &p->devs[node->device];
	for (struct run *run = pd->runs; run < run_end(pd); run++) {
		if (run->node != node)
			continue;
		cancel_run(pd, run);
		return;
	}
}

void remote_context_gone(struct link *l, uint32_t context)
{
	struct poller *p = l->poller;

	for (uint32_t i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		for (struct run *run = pd->runs; run < run_end(pd); run++)
			if (run->node && run->link == l && run->node->d.context == context)
				cancel_run(pd, run);
	}
}

void remote_settle(struct run *run)
{
	struct poller_device *pd = &run->poller->devs[run->device];

	if (!run->held)
		return;
	memory_settle(run->poller->memory, run->device, run->remote, run->node->d.nr_ranges,
		      graph_last_seq(run->link->graph));
	run->held = false;
	if (!pd->gate)
		return;
	/* Inside still: once nobody is the next one may be configuring, and to ask waits for it. */
	if (__atomic_exchange_n(&pd->configured, false, __ATOMIC_ACQUIRE) &&
	    run_refresh(run->poller, pd))
		log_err("lanes of a device can't be changed", log_str("device", pd->dev->info.name),
			log_u64("lanes", pd->dev->info.lanes));
	gate_leave(pd->gate);
}

void remote_host_wrote(struct link *l, const struct graph_node *node, int result)
{
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];
		const struct mapping *m;

		if (!(node->d.access >> 2 * i & ARAX_OUT))
			continue;
		m = mapping_find(&l->mappings, r->buffer);
		if (!m || !m->copies)
			continue;
		if (result)
			memory_host_failed(l->poller->memory, m->copies, r->offset, r->length,
					   r->stride, r->count);
		else
			memory_host_wrote(l->poller->memory, m->copies, r->offset, r->length,
					  r->stride, r->count);
	}
}

/* Fills @ranges with what is known of the task's buffers. */
static void fill_ranges(const struct link *l, const struct graph_node *node,
			struct memory_range *ranges)
{
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct mapping *m = mapping_find(&l->mappings, node->ranges[i].buffer);

		fill_range(&ranges[i], m ? m->copies : NULL, l, node, i);
	}
}

void remote_look_up(const struct graph_node *node, struct memory_range *ranges)
{
	fill_ranges(node->priv, node, ranges);
}

/* ------------------------------------------------------------------ */
/* What is going to be used                                            */

/* Somewhere with memory of its own; elsewhere it keeps nothing in its place. */
static bool may_need_room(const struct poller *p, const struct graph_node *node)
{
	const struct kernel *k = NULL;
	uint32_t i;

	if (node->d.opcode == ARAX_OP_LAUNCH && !own_is_launch(node))
		k = run_kernel(node);
	for (i = 0; k && i < p->nr_devs; i++)
		if (memory_has_device(p->memory, i) && p->runnable[k->index * p->nr_devs + i])
			return true;
	return false;
}

void remote_foresee(struct link *l, struct graph_node *node)
{
	struct memory_range ranges[ARAX_MAX_RANGES];
	struct poller *p = l->poller;
	uint32_t i;

	if (!node)
		return;
	node->priv = l;
	/* Nothing is kept for who may never begin: it is told when it is ready. */
	node->foreseen = !graph_is_parked(node);
	if (!node->foreseen || !may_need_room(p, node))
		return;
	for (i = 0; i < node->d.nr_ranges; i++) {
		struct mapping *m = link_find(l, node->ranges[i].buffer);

		fill_range(&ranges[i], m ? copies_of(p, m) : NULL, l, node, i);
		ranges[i].tenant = node->d.tenant;
	}
	memory_will_use(p->memory, ranges, node->d.nr_ranges, node->seq);
}

void remote_has_used(struct link *l, const struct graph_node *node)
{
	struct memory_range ranges[ARAX_MAX_RANGES];

	if (node->d.opcode != ARAX_OP_LAUNCH)
		return;
	fill_ranges(l, node, ranges);
	memory_has_used(l->poller->memory, ranges, node->d.nr_ranges, node->seq);
}

static void foresee_live(void *arg, struct graph_node *node)
{
	remote_foresee(arg, node);
}

void remote_look_ahead(struct poller *p)
{
	bool tight = memory_is_tight(p->memory);
	uint32_t i;

	if (tight == p->foresees)
		return;
	p->foresees = tight;
	for (i = 0; tight && i < p->nr_links; i++)
		graph_each_live(p->links[i]->graph, foresee_live, p->links[i]);
	if (!tight)
		memory_forget_uses(p->memory);
}

/* ------------------------------------------------------------------ */
/* Bytes that are on a device alone                                    */

bool remote_has_lazy(const struct graph_node *node)
{
	const struct link *l = node->priv;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct mapping *m = mapping_find(&l->mappings, node->ranges[i].buffer);

		if (m && m->lazy && m->copies)
			return true;
	}
	return false;
}

bool remote_is_dirty(const struct graph_node *node)
{
	struct memory_range ranges[ARAX_MAX_RANGES];
	const struct link *l = node->priv;
	uint32_t i;

	if (!remote_has_lazy(node))
		return false;
	remote_look_up(node, ranges);
	for (i = 0; i < node->d.nr_ranges; i++)
		if (memory_is_dirty(l->poller->memory, &ranges[i]))
			return true;
	return false;
}

uint32_t remote_dirty_ranges(const struct run *run)
{
	uint32_t i, dirty = 0;

	for (i = 0; i < run->node->d.nr_ranges; i++)
		if (run->node->d.access >> 2 * i & ARAX_OUT &&
		    memory_is_lazy(run->remote[i].buffer))
			dirty |= 1u << i;
	return dirty;
}

uint64_t remote_moved(const struct run *run)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < run->node->d.nr_ranges; i++)
		bytes += run->remote[i].moved;
	return bytes + (run->coming ? ahead_moved(run->coming) : 0);
}

uint64_t remote_rows(const struct graph_node *node)
{
	uint64_t rows = 0;
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];

		rows += r->length && r->stride != r->length ? r->count : 1;
	}
	return rows;
}

static void name_ranges(const struct graph_node *node, struct memory_range *ranges)
{
	uint32_t i;

	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];

		ranges[i] = (struct memory_range){
			.buffer = (struct memory_buffer *)(uintptr_t)r->buffer,	/* a name */
			.offset = r->offset, .length = r->length, .stride = r->stride,
			.count = r->count,
		};
	}
}

uint64_t remote_bytes(const struct graph_node *node)
{
	struct memory_range ranges[ARAX_MAX_RANGES];

	name_ranges(node, ranges);
	return memory_bytes(ranges, node->d.nr_ranges);
}

uint64_t remote_largest(const struct graph_node *node)
{
	struct memory_range ranges[ARAX_MAX_RANGES];

	name_ranges(node, ranges);
	return memory_largest(ranges, node->d.nr_ranges);
}

bool remote_fits(const struct poller *p, const struct graph_node *node, uint32_t device)
{
	const struct arax_backend_info *info = &p->devs[device].dev->info;
	uint64_t room = info->memory, left = room, largest = info->largest ?: room;
	uint32_t i;

	for (i = 0; !room && largest && i < node->d.nr_ranges; i++)
		if (node->ranges[i].length > largest)
			return false;
	if (!room)
		return true;
	if (remote_rows(node) > MEMORY_MAX_ROWS)
		return false;
	for (i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];
		uint64_t bytes = (uint64_t)(r->count - 1) * r->stride + r->length;

		/* Unless they share some. */
		if (bytes > left)
			return remote_bytes(node) <= room && remote_largest(node) <= largest;
		left -= bytes;
	}
	return room - left <= largest || remote_largest(node) <= largest;
}

static uint64_t switch_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	const struct poller *p = arg;
	const struct poller_device *pd = &p->devs[device];
	const struct kernel *k;

	if (__builtin_expect(!pd->gate, 1) || node->d.opcode != ARAX_OP_LAUNCH)
		return 0;
	k = run_kernel(node);
	return k ? runner_switch_ns(pd->runner, k) : 0;
}

static bool tight(void *arg, uint32_t device)
{
	const struct poller *p = arg;

	if (device == SCHED_NO_DEVICE)
		return memory_is_tight(p->memory);
	return memory_has_device(p->memory, device) && memory_is_full(p->memory, device);
}

/* As the task would find them on @device. */
static void look_up_for(struct poller *p, const struct graph_node *node, uint32_t device,
			struct memory_range *ranges)
{
	uint32_t i;

	remote_look_up(node, ranges);
	/* What lies there will be gone when the device has been configured. */
	if (memory_has_device(p->memory, device) && switch_ns(p, node, device))
		for (i = 0; i < node->d.nr_ranges; i++)
			ranges[i].buffer = NULL;
}

static uint64_t transfer_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	struct memory_range ranges[ARAX_MAX_RANGES];
	struct poller *p = arg;
	uint64_t ns = 0;

	if (!memory_has_device(p->memory, device) && !remote_has_lazy(node))
		return 0;
	look_up_for(p, node, device, ranges);
	if (!memory_has_device(p->memory, device)) {
		memory_dirty(p->memory, ranges, node->d.nr_ranges, &ns);
		return ns;
	}
	return memory_transfer_ns(p->memory, device, ranges, node->d.nr_ranges, node->seq);
}

static uint64_t reach_ns(struct poller *p, const struct graph_node *node, uint32_t device,
			 bool slowest)
{
	struct memory_range ranges[ARAX_MAX_RANGES];

	if (!memory_has_device(p->memory, device) && !remote_has_lazy(node))
		return 0;
	look_up_for(p, node, device, ranges);
	return memory_reach_ns(p->memory, device, ranges, node->d.nr_ranges, node->seq, slowest);
}

static uint64_t transfer_min_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	return reach_ns(arg, node, device, false);
}

static uint64_t transfer_max_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	return reach_ns(arg, node, device, true);
}

static uint64_t resident_bytes(void *arg, const struct graph_node *node, uint32_t device)
{
	struct memory_range ranges[ARAX_MAX_RANGES];
	const struct poller *p = arg;
	uint64_t all = 0, dirty, ns;
	uint32_t i;

	if (!memory_has_device(p->memory, device)) {
		/* The host has everything, but for what is on a device alone. */
		for (i = 0; i < node->d.nr_ranges; i++)
			if (node->d.access >> 2 * i & ARAX_IN)
				all += node->ranges[i].length * node->ranges[i].count;
		if (remote_has_lazy(node)) {
			remote_look_up(node, ranges);
			dirty = memory_dirty(p->memory, ranges, node->d.nr_ranges, &ns);
			all = dirty < all ? all - dirty : 0;
		}
		return all;
	}
	remote_look_up(node, ranges);
	return memory_resident(p->memory, device, ranges, node->d.nr_ranges, node->seq);
}

static void way(void *arg, const struct graph_node *node, uint32_t device, struct sched_way *way)
{
	struct memory_range ranges[ARAX_MAX_RANGES];
	const struct poller *p = arg;

	remote_look_up(node, ranges);
	memory_way(p->memory, device, ranges, node->d.nr_ranges, node->seq, &way->again_ns,
		   &way->all_ns);
}

static bool link_of(void *arg, uint32_t device, struct sched_link *link)
{
	const struct poller *p = arg;
	struct memory_link l;

	if (!memory_link(p->memory, device, &l))
		return false;
	*link = (struct sched_link){
		.in_latency_ns = l.in_latency_ns, .in_byte_ns = l.in_byte_ns,
		.out_latency_ns = l.out_latency_ns, .out_byte_ns = l.out_byte_ns,
		.peers = (uintptr_t)l.peers,
	};
	return true;
}

static bool holds(void *arg, const struct graph_node *node, uint32_t i, uint32_t device)
{
	const struct link *l = node->priv;
	const struct mapping *m = mapping_find(&l->mappings, node->ranges[i].buffer);
	const struct poller *p = arg;
	struct memory_range range;

	fill_range(&range, m ? m->copies : NULL, l, node, i);
	return memory_holds(p->memory, device == SCHED_NO_DEVICE ? MEMORY_HOST : device, &range,
			    node->seq);
}

void remote_answers(struct sched_ops *ops)
{
	ops->transfer_ns = transfer_ns;
	ops->resident_bytes = resident_bytes;
	ops->transfer_min_ns = transfer_min_ns;
	ops->transfer_max_ns = transfer_max_ns;
	ops->switch_ns = switch_ns;
	ops->way = way;
	ops->link = link_of;
	ops->holds = holds;
	ops->tight = tight;
}
