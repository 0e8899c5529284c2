/* SPDX-License-Identifier: MIT */
/*
 * link.h - a way by which tasks come to araxd
 *
 * Either the module (kernel.c) or the broker (broker*.c).  Both end in a
 * dispatch ring of the same format that the poller reads, and in commit
 * entries that it writes; what differs is behind struct link_ops.
 *
 * Calls marked (poller) come from the thread that holds the polling role.
 */
#ifndef ARAXD_LINK_LINK_H
#define ARAXD_LINK_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/graph/graph.h"
#include "daemon/kernels/module.h"
#include "daemon/kernels/registry.h"
#include "daemon/memory/mapping.h"
#include "kmod/core/core.h"

struct link;
struct poller;
struct sched_tenant;

/**
 * struct link_ops - what differs between the links
 *
 * @poll:	(poller) take in what clients published; returns how many tasks.
 *		@ticks is the present time.  NULL: it comes by itself
 * @house:	(poller) now and then while awake
 * @sleep:	(poller) set every need_wakeup word, issue a full barrier and look
 *		once more: false if there is work.  May shorten *@timeout_ns
 * @awake:	(poller) after the sleep, or after a refused one
 * @event:	(poller) a descriptor that the link gave to poller_watch() fired
 * @commit:	(poller) commit_count entries from commit_first on are written
 * @settle:	(poller) there is nothing to commit for now: wake whom commits have left
 *		asleep.  May be NULL
 * @map:	(poller) map a buffer that has no mapping yet; NULL if it can't be had
 * @drop:	(poller) a buffer is gone, see ARAX_DISPATCH_BUFFER
 * @look_at:	(poller) now and then while a task runs that uses this buffer: is it as it was?
 *		May be NULL
 * @device:	publish a device; any thread.  Negative errno
 * @kernel:	publish a kernel; before the poller starts.  Negative errno
 * @explain:	(poller) what a task's owner is told of its failure, before it is committed
 * @charge:	a context's device memory, or memory (ARAX_RES_*); any thread.  Negative
 *		errno, see struct arax_charge
 * @limit:	least maximum of device memory of a tenant and those above it, and in *@left, if
 *		not NULL, how much of each is left at least; any thread
 * @weights:	(poller) now and then: ask for changed weights.  May be NULL
 * @tenant:	(poller) what the link knows of tenant @t->id; false: nothing
 * @tell:	(poller) what has come to tenants' figures
 * @quiesce:	(poller) take in nothing any more
 * @close:	after the poller has ended
 */
struct link_ops {
	uint32_t (*poll)(struct link *l, uint64_t ticks);
	void (*house)(struct link *l, uint64_t ticks);
	bool (*sleep)(struct link *l, uint64_t *timeout_ns);
	void (*awake)(struct link *l, uint64_t ticks);
	void (*event)(struct link *l, void *cookie, uint64_t ticks);
	void (*commit)(struct link *l);
	void (*settle)(struct link *l);
	struct mapping *(*map)(struct link *l, uint64_t buffer);
	void (*drop)(struct link *l, uint64_t buffer);
	void (*look_at)(struct link *l, struct mapping *m);
	int (*device)(struct link *l, const struct arax_device *dev);
	int (*device_at)(struct link *l, struct arax_device *dev);
	int (*kernel)(struct link *l, struct arax_kernel_publish *k);
	int (*kernel_next)(struct link *l, struct arax_kernel_lookup *k);
	void (*explain)(struct link *l, uint64_t tag, const char *text);
	int (*charge)(struct link *l, uint32_t resource, uint32_t context, int64_t bytes);
	uint64_t (*limit)(struct link *l, uint64_t tenant, uint64_t *left);
	void (*weights)(struct link *l);
	bool (*tenant)(struct link *l, struct sched_tenant *t);
	void (*tell)(struct link *l, const struct arax_tenants_tell *told);
	void (*quiesce)(struct link *l);
	void (*close)(struct link *l);
};

/* Descriptors in the poller's epoll set carry one of these. */
struct watch {
	struct link *link;
	void *cookie;
};

/**
 * struct link - common part; the poller's
 * @place:	in poller->links; with it a context's number is the poller's own, of all links
 * @ring, @cells: the dispatch ring
 * @head:	our position in it, private; page->head is what the core sees
 * @commits:	ring of CORE_COMMIT_ENTRIES entries
 * @kernels:	by id as published on this link
 * @numbers:	by the same: link_kernel_number(), 0 where there is none, with GRAPH_KERNEL_WORK
 *		if link_work() has something to say
 * @modules:	what its contexts brought
 * @mappings:	buffers by their ids
 * @map_err:	why ops->map() gave none last; 0: it didn't say
 */
struct link {
	const struct link_ops *ops;
	const char *name;
	struct poller *poller;
	int map_err;
	uint32_t place;		/* among the poller's */
	const uint8_t *ring;
	uint32_t cells;
	uint32_t head;
	uint32_t slots;
	uint32_t commit_entries;
	uint32_t commit_first;
	uint32_t commit_count;
	struct arax_mediator_page *page;
	uint32_t *states;
	struct arax_commit_entry *commits;
	struct graph *graph;
	struct mappings mappings;
	const struct kernel *kernels[CORE_MAX_KERNELS + 1];
	uint16_t numbers[CORE_MAX_KERNELS + 1];
	struct modules modules;
};

/* (poller) Where a buffer lies; NULL if it can't be had. */
static inline struct mapping *link_find(struct link *l, uint64_t buffer)
{
	struct mapping *m = mapping_find(&l->mappings, buffer);

	return __builtin_expect(!!m, 1) ? m : l->ops->map(l, buffer);
}

/* For ops->limit(): a tenant that may have @max, and has @used. */
static inline void link_least(uint64_t max, uint64_t used, uint64_t *least, uint64_t *least_left)
{
	uint64_t left = used < max ? max - used : 0;

	*least = max < *least ? max : *least;
	*least_left = left < *least_left ? left : *least_left;
}

/* The same on all links, as long as araxd runs: what is learnt of it goes by this. */
static inline uint32_t link_kernel_number(const struct kernel *k)
{
	return k->index + 1;
}

/* link.c: what both share.  0 or negative errno. */
int link_init(struct link *l, struct poller *p, uint32_t slots,
	      void (*drop)(void *arg, struct graph_node *node), void *drop_arg,
	      void (*ended)(void *arg, const struct graph_node *node,
			    const struct graph_done *done));
void link_fini(struct link *l);
int link_publish(struct link *l, const struct registry *registry);
/* How much a launch is whose kernel's manifest says it, at least 1; @link: a struct link. */
uint64_t link_work(void *link, const struct graph_node *node);

#endif /* ARAXD_LINK_LINK_H */
