// SPDX-License-Identifier: MIT
/* Tasks past the graph: see lone.h. */
#include <stddef.h>
#include <string.h>

#include "daemon/dispatch/lone.h"
#include "daemon/dispatch/run.h"

#define COMPANY_US	1000u

/* As in the ring: what the graph takes. */
struct entry {
	struct arax_dispatch d;
	struct arax_dispatch_range ranges[LONE_RANGES];
	uint8_t args[LONE_ARGS];
};

/*
 * Whether it is of the kernel and shape of the one before: then it is sound if that was, and its
 * work is known.  What is beside each other in the entry is looked at together.
 */
static inline bool is_alike(const struct lone *lone, const struct link *l,
			    const struct arax_dispatch *d)
{
	const struct arax_dispatch_range *r = (const void *)(d + 1), *was = lone->ranges;
	const struct graph_node *n = &lone->node;
	uint32_t i;

	if (n->priv != l || n->d.kernel != d->kernel || n->d.nr_ranges != d->nr_ranges ||
	    n->d.access != d->access ||
	    memcmp(&n->d.type, &d->type, offsetof(struct arax_dispatch, tag) -
		   offsetof(struct arax_dispatch, type)) ||
	    memcmp(n->d.grid, d->grid, offsetof(struct arax_dispatch, uid) -
		   offsetof(struct arax_dispatch, grid)))
		return false;
	for (i = 0; i < d->nr_ranges; i++)
		if (r[i].length != was[i].length || r[i].count != 1 || was[i].count != 1)
			return false;
	return true;
}

/*
 * The cheapest first.  What is recorded goes the usual way, and so does all where devices' memory
 * is short, as it is told of uses that are to come, and what run_direct() would not take: where
 * tenants take turns, see there.  What is blocked on a timeline, or late by some time, the graph
 * has to hold.
 */
static inline bool is_lone(struct poller *p, struct link *l, const struct arax_dispatch *d,
			   bool alike)
{
	uint32_t next = l->head;

	if (!alike && (d->opcode != ARAX_OP_LAUNCH || d->nr_ranges > LONE_RANGES ||
		       d->arg_len > LONE_ARGS || d->kernel > CORE_MAX_KERNELS))
		return false;
	if (unlikely(d->deadline_ns || d->error || d->flags & ARAX_DISPATCH_BLOCKED))
		return false;
	if (unlikely(p->foresees || p->trace || p->visitor || p->stopping || p->lone.run ||
		     d->tenant != p->last_tenant || p->now < p->mixed_until ||
		     !sched_is_idle(p->sched)))
		return false;
	if (p->now < p->lone.company_until || core_ring_peek(l->ring, l->cells, &next))
		p->lone.row = true;
	return !graph_has_ready(l->graph) && !graph_has_done(l->graph) &&
	       graph_is_free(l->graph, d, alike);
}

/* As graph_add() would make a node of it; what is only the graph's is left out. */
static inline void fill(struct lone *lone, struct link *l, const struct arax_dispatch *d,
			bool alike)
{
	const struct arax_dispatch_range *from = (const void *)(d + 1);
	uint32_t kernel = l->numbers[d->kernel], i;
	struct graph_node *n = &lone->node;

	n->d = *d;
	for (i = 0; i < n->d.nr_ranges; i++)
		lone->ranges[i] = from[i];
	if (unlikely(n->d.arg_len > ARAX_INLINE_ARGS))
		memcpy(lone->args, from + n->d.nr_ranges, n->d.arg_len);
	if (alike && n->sched.kernel == kernel)
		return;
	n->ranges = lone->ranges;
	n->args = n->d.arg_len > ARAX_INLINE_ARGS ? lone->args : n->d.args;
	n->sched.flow = NULL;
	n->sched.kind = 0;
	n->sched.booked_ns = 0;
	n->sched.part = 0;
	n->sched.outlook = 0;
	n->sched.place = l->place;
	n->sched.kernel = kernel & ~GRAPH_KERNEL_WORK;
	n->sched.work = 0;
	n->priv = l;
	if (__builtin_expect(kernel & GRAPH_KERNEL_WORK, 0))
		n->sched.work = link_work(l, n);
}

bool lone_run(struct poller *p, struct link *l, const struct arax_dispatch *d,
	      enum run_outcome *outcome)
{
	bool alike = is_alike(&p->lone, l, d);

	if (!is_lone(p, l, d, alike))
		return false;
	fill(&p->lone, l, d, alike);
	if (!p->exact) {
		p->now = ticks_now(&p->ticks);
		p->exact = true;
	}
	p->lone.begin = p->now;
	return run_lone(p, outcome);
}

void lone_had_company(struct poller *p)
{
	p->lone.company_until = p->now + COMPANY_US * p->ticks.per_us;
}

void lone_enter(struct run *run)
{
	const struct graph_node *n = run->node;
	struct graph_node *node;
	struct entry e;

	e.d = n->d;
	memcpy(e.ranges, n->ranges, n->d.nr_ranges * sizeof(e.ranges[0]));
	if (n->d.arg_len > ARAX_INLINE_ARGS)
		memcpy(e.ranges + n->d.nr_ranges, n->args, n->d.arg_len);
	node = graph_add_running(run->link->graph, &e.d);
	if (!node)
		return;
	node->priv = run->link;
	node->device = run->device;
	run->node = node;
	run->lone = false;
}

/* While it is not in the graph nothing may be added there that could have to wait for it. */
void lone_inherit(struct poller *p)
{
	struct link *l;

	if (!p->lone.run)
		return;
	/* It was taken off the ring, which nobody has said yet: the core would see one that is ready. */
	l = p->lone.run->link;
	__atomic_store_n(&l->page->head, l->head, __ATOMIC_RELEASE);
	if (p->lone.run->lone)
		lone_enter(p->lone.run);
}
