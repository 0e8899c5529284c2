// SPDX-License-Identifier: MIT
/*
 * The module's mediator: maps its dispatch ring and its own page, commits by
 * entries in shared memory plus one call for a batch, sleeps by poll().
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/complaints.h"
#include "daemon/dispatch/host.h"
#include "daemon/dispatch/poller.h"
#include "daemon/link/filemap.h"
#include "daemon/link/holdings.h"
#include "daemon/link/kernel.h"
#include "daemon/link/link.h"
#include "daemon/link/patience.h"
#include "daemon/link/wake.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/hostmap.h"
#include "daemon/memory/mapping.h"
#include "daemon/reason.h"

#define WEIGHTS_NS	1000000000u
#define WEIGHTS_TURN	128	/* tenants that are asked for in one go */

struct kernel_link {
	struct link link;	/* first */
	int fd;
	void *ring;
	size_t ring_bytes;
	void *shared;
	size_t shared_bytes;
	struct clist mapped;
	struct holdings *holdings;
	struct patience patience;	/* with whose buffers take long to map */
	uint64_t weights_due;
	uint32_t weights_at;
	struct watch watch;
	struct complaints not_had, not_mapped;
	bool watched;
	bool lost;
	void (*on_lost)(void *arg);
	void *arg;
};

/* A buffer that is mapped here, until the module says that it goes. */
struct kernel_buffer {
	struct mapping map;
	struct clist node;
	struct kernel_link *link;
	struct holder *holder;
	struct host_job job;
	struct poller *poller;
};

#define BUFFER_FDS	1u
#define BUFFER_MAPS	1u

static struct kernel_link *of(struct link *l)
{
	return (struct kernel_link *)l;
}

static int call(struct kernel_link *k, unsigned long nr, void *arg)
{
	int err;

	do {
		err = ioctl(k->fd, nr, arg) ? -errno : 0;
	} while (err == -EINTR);
	return err;
}

/* The seat is taken from us, or the module has a fault: nothing more to do here. */
static void lose(struct kernel_link *k, const char *what, int err)
{
	if (k->lost)
		return;
	k->lost = true;
	log_err("kernel link lost", log_str("call", what), log_errno(err));
	k->on_lost(k->arg);
}

static void kernel_commit(struct link *l)
{
	struct kernel_link *k = of(l);
	struct arax_commit a = {
		.size = sizeof(a), .first = l->commit_first, .count = l->commit_count,
	};
	int err = call(k, ARAX_IOC_COMMIT, &a);

	if (err)
		lose(k, "commit", err);
	else if (a.stale)
		log_warn("commits of unknown tags", log_u64("count", a.stale));
	l->commit_first += l->commit_count;
	l->commit_count = 0;
}

static bool kernel_sleep(struct link *l, uint64_t *timeout_ns)
{
	struct kernel_link *k = of(l);
	struct arax_fetch a = { .size = sizeof(a) };
	int err;

	if (!k->watched) {
		k->watch.link = l;
		k->watched = !poller_watch(l->poller, k->fd, &k->watch, false);
	}
	if (k->lost)
		return true;
	__atomic_store_n(&l->page->need_wakeup, 1, __ATOMIC_RELAXED);
	/* Pairs with the core's barrier between publishing and need_wakeup. */
	core_full_barrier();
	/* Publishes what waited for room in the ring; some of it may be left. */
	err = call(k, ARAX_IOC_FETCH, &a);
	if (err)
		lose(k, "fetch", err);
	return err || !a.ready;
}

static void kernel_awake(struct link *l, uint64_t ticks)
{
	__atomic_store_n(&l->page->need_wakeup, 0, __ATOMIC_RELAXED);
}

/*
 * An epoll set that is looked at asks the module, which can't know that nobody is going to sleep: from
 * then on each task would wake who is awake, and so be in the set again when it is looked at next.
 */
static void kernel_house(struct link *l, uint64_t ticks)
{
	if (__atomic_load_n(&l->page->need_wakeup, __ATOMIC_RELAXED))
		kernel_awake(l, ticks);
}

/* The ring is looked at in any case. */
static void kernel_event(struct link *l, void *cookie, uint64_t ticks)
{
}

/*
 * A dma-buf's exporter may take its time, and so does whatever walks through all mappings of a file.
 * No other thread could do it either: all wait for the lock of our address space meanwhile.
 */
static void *map_file(struct kernel_link *k, const struct arax_buffer_get *a)
{
	uint64_t now = poller_ns(k->link.poller), ns;
	void *base;

	if (!a->uid)
		return filemap_map_untimed(a->fd, a->bytes);
	if (patience_is_over(&k->patience, a->uid, now)) {
		reason_set("buffers of user %u have taken araxd too long to map: later, or use those that are mapped",
			   a->uid);
		return NULL;
	}
	base = filemap_map(a->fd, a->bytes, &ns);
	if (ns)
		patience_spend(&k->patience, a->uid, ns, now);
	return base;
}

static struct mapping *map_buffer(struct kernel_link *k, uint64_t id)
{
	struct arax_buffer_get a = { .size = sizeof(a), .id = id };
	struct kernel_buffer *kb;
	uint64_t unsaid;
	int err = call(k, ARAX_IOC_BUFFER_GET, &a);

	k->link.map_err = err;
	if (err) {
		/* Of all: whose it is can't be known either.  What was revoked is its owner's affair. */
		if (err != -ESTALE && complaints_say_now(&k->not_had, 0, &unsaid))
			log_warn("buffer can't be had", log_u64("buffer", id), log_errno(err),
				 log_u64("unsaid", unsaid));
		return NULL;
	}
	kb = calloc(1, sizeof(*kb));
	if (!kb)
		goto close;
	/* By who made it, whoever uses it. */
	err = holdings_take(k->holdings, a.uid, !a.uid, BUFFER_FDS, BUFFER_MAPS, &kb->holder);
	if (err) {
		reason_set(err == -EDQUOT ?
			   "araxd has as many buffers of user %u mapped as one user may have: destroy some" :
			   "araxd has as many buffers mapped as users may have together, those of user %u among them",
			   a.uid);
		goto free;
	}
	kb->link = k;
	kb->map.id = (uint32_t)id;
	kb->map.fd = a.fd;
	kb->map.bytes = a.bytes;
	kb->map.serial = mapping_serial();
	kb->map.lazy = a.flags & ARAX_BUFFER_EXPLICIT;
	kb->map.base = map_file(k, &a);
	if (!kb->map.base)
		goto give;
	if (kb->map.base == MAP_FAILED) {
		err = -errno;
		if (complaints_say_now(&k->not_mapped, a.uid, &unsaid))
			log_warn("buffer can't be mapped", log_u64("buffer", id), log_errno(err),
				 log_u64("unsaid", unsaid));
		goto give;
	}
	/*
	 * A revoked buffer has no pages any more: a late reader sees zeros, and its task fails.
	 * Not so the context: whose task it is may be another than whose buffer.
	 */
	if (guard_add_told(kb->map.base, a.bytes, 0, &kb->map.lost, &kb->map.guard))
		goto unmap;
	if (hostmap_add(&kb->map))
		goto unguard;
	if (mapping_set(&k->link.mappings, &kb->map))
		goto forget;
	clist_add_tail(&kb->node, &k->mapped);
	return &kb->map;
forget:
	hostmap_remove(&kb->map);
unguard:
	guard_remove(kb->map.guard);
unmap:
	filemap_unmap_untimed(kb->map.base, a.bytes);
give:
	holder_give(kb->holder, BUFFER_FDS, BUFFER_MAPS);
free:
	free(kb);
close:
	close(a.fd);
	return NULL;
}

static struct mapping *kernel_map(struct link *l, uint64_t buffer)
{
	/* Some system calls, and not the time of the task that is about to begin. */
	l->poller->exact = false;
	return map_buffer(of(l), buffer);
}

/* (poller) Nobody finds it any more. */
static void take_out(struct kernel_link *k, struct kernel_buffer *kb)
{
	mapping_clear(&k->link.mappings, kb->map.id);
	clist_del(&kb->node);
	holder_give_later(kb->holder, BUFFER_FDS, BUFFER_MAPS);
}

/* As map_file(): while one is unmapped who maps another one sleeps, and it isn't his doing. */
static void unmap_file(struct kernel_buffer *kb)
{
	uint64_t ns;

	if (holder_is_unlimited(kb->holder)) {
		filemap_unmap_untimed(kb->map.base, kb->map.bytes);
		return;
	}
	ns = filemap_unmap(kb->map.base, kb->map.bytes);
	if (ns)
		patience_spend(&kb->link->patience, holder_uid(kb->holder), ns, monotonic_ns());
}

/* Any thread. */
static void unmap_buffer(struct kernel_buffer *kb)
{
	hostmap_remove(&kb->map);
	guard_remove(kb->map.guard);
	unmap_file(kb);
	close(kb->map.fd);
	holder_given(kb->holder, BUFFER_FDS, BUFFER_MAPS);
	free(kb);
}

static void bury(struct host_job *job)
{
	struct kernel_buffer *kb = (struct kernel_buffer *)((char *)job -
							    offsetof(struct kernel_buffer, job));

	poller_buffer_gone(kb->poller, &kb->map);
	unmap_buffer(kb);
}

/* A second for some GiB, of which nobody else's task is to wait for any. */
static void kernel_drop(struct link *l, uint64_t buffer)
{
	struct mapping *m = mapping_find(&l->mappings, buffer);
	struct kernel_buffer *kb = (struct kernel_buffer *)m;

	if (!m)
		return;
	take_out(of(l), kb);
	kb->poller = l->poller;
	kb->job.run = bury;
	host_thread_push(l->poller->undertaker, &kb->job);
}

static int kernel_device(struct link *l, const struct arax_device *dev)
{
	struct arax_device a = *dev;
	int err = call(of(l), ARAX_IOC_DEVICE_PUBLISH, &a);

	/* A module from before there were figures or, before that, reasons: the log has these. */
	if (err == -E2BIG && a.known) {
		memset(&a.known, 0, sizeof(a) - offsetof(struct arax_device, known));
		err = call(of(l), ARAX_IOC_DEVICE_PUBLISH, &a);
	}
	if (err == -E2BIG) {
		memset(a.reason, 0, sizeof(a.reason));
		err = call(of(l), ARAX_IOC_DEVICE_PUBLISH, &a);
	}
	return err;
}

/* An older module has no room for it: then the errno has to do. */
static void kernel_explain(struct link *l, uint64_t tag, const char *text)
{
	struct arax_task_why a = { .size = sizeof(a), .tag = tag };

	snprintf(a.text, sizeof(a.text), "%s", text);
	call(of(l), ARAX_IOC_TASK_EXPLAIN, &a);
}

static int kernel_device_at(struct link *l, struct arax_device *dev)
{
	return call(of(l), ARAX_IOC_DEVICE_QUERY, dev);
}

static int kernel_kernel(struct link *l, struct arax_kernel_publish *k)
{
	return call(of(l), ARAX_IOC_KERNEL_PUBLISH, k);
}

static int kernel_kernel_next(struct link *l, struct arax_kernel_lookup *k)
{
	return call(of(l), ARAX_IOC_KERNEL_LOOKUP, k);
}

static int kernel_charge(struct link *l, uint32_t resource, uint32_t context, int64_t bytes)
{
	struct arax_charge a = {
		.size = sizeof(a), .resource = resource, .context = context, .delta = bytes,
	};

	return call(of(l), ARAX_IOC_CHARGE, &a);
}

static uint64_t kernel_limit(struct link *l, uint64_t tenant, uint64_t *left)
{
	struct arax_tenant a = { .size = sizeof(a), .cgroup_fd = -1, .id = tenant };
	const struct arax_counter *c = &a.usage.counters[ARAX_RES_DEVICE_MEMORY];
	uint64_t least = ARAX_LIMIT_MAX, least_left = ARAX_LIMIT_MAX;

	while (tenant && !call(of(l), ARAX_IOC_TENANT_QUERY, &a) && a.id == tenant) {
		link_least(c->max, c->used, &least, &least_left);
		tenant = a.parent;
		a.id = tenant;
	}
	if (left)
		*left = least_left;
	return least;
}

static void tenant_of(const struct arax_tenant *a, struct sched_tenant *t)
{
	*t = (struct sched_tenant){
		.id = a->id, .parent = a->parent, .weight = a->usage.weight,
		.max_ns = a->usage.max_ns, .period_ns = a->usage.period_ns,
	};
}

static bool kernel_tenant(struct link *l, struct sched_tenant *t)
{
	struct arax_tenant a = { .size = sizeof(a), .cgroup_fd = -1, .id = t->id };

	/* The first one with at least this id. */
	if (call(of(l), ARAX_IOC_TENANT_QUERY, &a) || a.id != t->id)
		return false;
	tenant_of(&a, t);
	return true;
}

/*
 * Administrators set limits in the module, which has no word for it here.  Anybody makes
 * tenants there by the thousand, a cgroup each: it is asked only for those that have had
 * tasks, and for some of them at a time, as nothing is dispatched meanwhile.
 */
static void kernel_weights(struct link *l)
{
	struct kernel_link *k = of(l);
	uint64_t now = poller_ns(l->poller), known[WEIGHTS_TURN];
	struct sched_tenant t;
	uint32_t i, n;

	if (now < k->weights_due)
		return;
	n = sched_tenants(l->poller->sched, &k->weights_at, known, WEIGHTS_TURN);
	for (i = 0; i < n; i++) {
		t.id = known[i];
		if (kernel_tenant(l, &t))
			poller_tell_tenant(l->poller, l, &t);
	}
	if (!k->weights_at)
		k->weights_due = now + WEIGHTS_NS;
}

/* An older module keeps no such figures. */
static void kernel_tell(struct link *l, const struct arax_tenants_tell *told)
{
	struct arax_tenants_tell a = *told;

	call(of(l), ARAX_IOC_TENANTS_TELL, &a);
}

static const struct link_ops kernel_ops = {
	.house = kernel_house,
	.sleep = kernel_sleep,
	.awake = kernel_awake,
	.event = kernel_event,
	.commit = kernel_commit,
	.map = kernel_map,
	.drop = kernel_drop,
	.charge = kernel_charge,
	.limit = kernel_limit,
	.device = kernel_device,
	.device_at = kernel_device_at,
	.explain = kernel_explain,
	.kernel = kernel_kernel,
	.kernel_next = kernel_kernel_next,
	.weights = kernel_weights,
	.tenant = kernel_tenant,
	.tell = kernel_tell,
};

static int map_areas(struct kernel_link *k, const struct arax_attach *a)
{
	struct link *l = &k->link;

	k->ring_bytes = a->dispatch_bytes;
	k->shared_bytes = a->shared_bytes;
	k->ring = mmap(NULL, k->ring_bytes, PROT_READ, MAP_SHARED, k->fd,
		       (off_t)a->dispatch_offset);
	if (k->ring == MAP_FAILED) {
		k->ring = NULL;
		return -errno;
	}
	k->shared = mmap(NULL, k->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd,
			 (off_t)a->shared_offset);
	if (k->shared == MAP_FAILED) {
		k->shared = NULL;
		return -errno;
	}
	l->ring = k->ring;
	l->cells = a->cells;
	l->slots = a->slots;
	l->page = k->shared;
	l->states = (void *)((uint8_t *)k->shared + l->page->states_offset);
	l->commits = (void *)((uint8_t *)k->shared + l->page->commits_offset);
	return 0;
}

int kernel_link_open(const char *path, bool take_over, struct holdings *holdings,
		     void (*on_lost)(void *arg), void *arg, struct kernel_link **out)
{
	struct arax_attach a = {
		.size = sizeof(a),
		.flags = take_over ? ARAX_ATTACH_TAKEOVER : ARAX_ATTACH_RECOVER,
	};
	struct kernel_link *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	/* How fast this machine is. */
	err = wake_init();
	if (err) {
		free(k);
		return err;
	}
	clist_init(&k->mapped);
	patience_init(&k->patience, wake_slowness());
	k->holdings = holdings;
	k->on_lost = on_lost;
	k->arg = arg;
	k->link.ops = &kernel_ops;
	k->link.name = "kernel";
	k->fd = open(path, O_RDWR | O_CLOEXEC);
	if (k->fd < 0) {
		err = errno == ENXIO || errno == ENODEV ? -ENOENT : -errno;
		if (err != -ENOENT)
			log_err("control device can't be opened", log_str("path", path),
				log_errno(err));
		goto free;
	}
	err = call(k, ARAX_IOC_ATTACH, &a);
	if (err == -EBUSY) {
		log_err("another araxd is attached to the module", log_str("path", path),
			log_str("remedy", "stop it; where it was killed and can't end (state D): araxd --take-over"));
		goto close;
	} else if (err) {
		log_err("can't attach to the module", log_str("path", path), log_errno(err));
		goto close;
	}
	err = map_areas(k, &a);
	if (err) {
		log_err("the module's rings can't be mapped", log_errno(err));
		goto unmap;
	}
	log_info("attached to the module", log_u64("epoch", a.epoch), log_u64("slots", a.slots));
	*out = k;
	return 0;
unmap:
	if (k->ring)
		munmap(k->ring, k->ring_bytes);
close:
	close(k->fd);
free:
	patience_destroy(&k->patience);
	free(k);
	return err;
}

struct link *kernel_link_link(struct kernel_link *k)
{
	return &k->link;
}

int kernel_link_limit_set(struct kernel_link *k, const struct arax_limit *a)
{
	struct arax_limit copy = *a;

	return call(k, ARAX_IOC_LIMIT_SET, &copy);
}

void kernel_link_close(struct kernel_link *k)
{
	struct clist *pos, *tmp;

	clist_for_each_safe(pos, tmp, &k->mapped) {
		struct kernel_buffer *kb = clist_entry(pos, struct kernel_buffer, node);

		take_out(k, kb);
		unmap_buffer(kb);
	}
	mappings_destroy(&k->link.mappings);
	munmap(k->shared, k->shared_bytes);
	munmap(k->ring, k->ring_bytes);
	close(k->fd);
	patience_destroy(&k->patience);
	free(k);
}
