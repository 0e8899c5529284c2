// SPDX-License-Identifier: MIT
/*
 * Device memory, under the driver's own addresses, and copies.  What is not inside one
 * of our allocations is refused before the driver sees it: this process is araxd.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"

/* The first allocation that begins behind @address; memory_lock is held. */
static uint32_t behind(const struct gpu_device *d, uint64_t address)
{
	uint32_t low = 0, high = d->nr_allocations;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (d->allocations[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int gpu_find_memory(struct gpu_device *d, uint64_t address, uint64_t bytes)
{
	const struct gpu_allocation *a;
	int err = -EFAULT;
	uint32_t i;

	pthread_mutex_lock(&d->memory_lock);
	i = behind(d, address);
	a = i ? &d->allocations[i - 1] : NULL;
	if (a && address - a->address <= a->bytes && bytes <= a->bytes - (address - a->address))
		err = 0;
	pthread_mutex_unlock(&d->memory_lock);
	return err;
}

/* -ENOMEM: more than we may have. */
static int account(struct gpu_device *d, uint64_t bytes)
{
	int err = 0;

	pthread_mutex_lock(&d->memory_lock);
	if (bytes > d->bytes || d->used > d->bytes - bytes) {
		gpu_log(d->stack, ARAX_LOG_DEBUG, "%s: no room for %" PRIu64 " bytes: %" PRIu64
			" of %" PRIu64 " are in use", d->name, bytes, d->used, d->bytes);
		err = -ENOMEM;
	} else {
		d->used += bytes;
	}
	pthread_mutex_unlock(&d->memory_lock);
	return err;
}

static void unaccount(struct gpu_device *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->memory_lock);
	d->used -= bytes;
	pthread_mutex_unlock(&d->memory_lock);
}

static uint64_t in_use(struct gpu_device *d)
{
	uint64_t bytes;

	pthread_mutex_lock(&d->memory_lock);
	bytes = d->used;
	pthread_mutex_unlock(&d->memory_lock);
	return bytes;
}

static int insert(struct gpu_device *d, const struct gpu_allocation *a)
{
	struct gpu_allocation *more;
	int err = 0;
	uint32_t i;

	pthread_mutex_lock(&d->memory_lock);
	if (d->nr_allocations == d->room) {
		more = realloc(d->allocations, (2 * d->room + 64) * sizeof(*more));
		if (more) {
			d->allocations = more;
			d->room = 2 * d->room + 64;
		} else {
			err = -ENOMEM;
		}
	}
	if (!err) {
		i = behind(d, a->address);
		memmove(&d->allocations[i + 1], &d->allocations[i],
			(d->nr_allocations - i) * sizeof(*a));
		d->allocations[i] = *a;
		d->nr_allocations++;
	}
	pthread_mutex_unlock(&d->memory_lock);
	return err;
}

/* (entered, or what is not placed goes with its context) */
static void give_back(struct gpu_device *d, const struct gpu_allocation *a)
{
	if (a->placed)
		d->driver->memory_unmap(a->address, a->bytes, a->handle);
	else if (d->open)
		d->driver->free(d->pooled, d->memory_stream, a->address);
}

/* (entered) */
static int take(struct gpu_device *d, uint64_t wanted, struct gpu_allocation *a)
{
	const struct gpu_driver *v = d->driver;
	int err;

	a->placed = wanted != 0;
	if (wanted) {
		err = gpu_check(d, v->memory_map(d->place, wanted, a->bytes, &a->address,
						 &a->handle), "memory at an address");
		return !err && a->address != wanted ? -EADDRINUSE : err;
	}
	err = v->alloc(d->pooled, d->memory_stream, a->bytes, &a->address);
	/* Other streams use it, so the pool's stream must have got there. */
	if (!err && d->pooled) {
		err = v->stream_wait(d->memory_stream);
		if (err)
			give_back(d, a);
	}
	if (v->error_code(err) == -ENOMEM)
		gpu_log(d->stack, ARAX_LOG_WARNING, "%s: %" PRIu64 " bytes: %s; %" PRIu64 " of %"
			PRIu64 " were in use by our count", d->name, a->bytes, v->error_name(err),
			in_use(d) - a->bytes, d->bytes);
	return gpu_check(d, err, "allocation");
}

int gpu_alloc(struct gpu_device *d, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct gpu_allocation a = { .bytes = bytes };
	int err;

	if (wanted && !d->limits.places)
		return -EOPNOTSUPP;
	if (!bytes || (wanted && (wanted % d->granule || bytes > UINT64_MAX - d->granule)))
		return -EINVAL;
	if (wanted)
		a.bytes = (bytes + d->granule - 1) / d->granule * d->granule;
	err = gpu_enter(d);
	if (err)
		return err;
	/* Entered, as a context that is rebuilt in between would forget what is counted. */
	err = account(d, a.bytes);
	if (!err) {
		err = take(d, wanted, &a);
		if (!err) {
			err = insert(d, &a);
			if (err)
				give_back(d, &a);
		}
		if (err)
			unaccount(d, a.bytes);
	}
	gpu_leave(d);
	if (!err)
		*address = a.address;
	return err;
}

void gpu_free(struct gpu_device *d, uint64_t address)
{
	struct gpu_allocation a = { 0 };
	/* Broken as well: a new one would have others' memory at the same address. */
	int err = gpu_enter_broken(d);
	uint32_t i;

	pthread_mutex_lock(&d->memory_lock);
	i = behind(d, address);
	if (i && d->allocations[i - 1].address == address) {
		a = d->allocations[i - 1];
		d->used -= a.bytes;
		memmove(&d->allocations[i - 1], &d->allocations[i],
			(d->nr_allocations - i) * sizeof(a));
		d->nr_allocations--;
	}
	pthread_mutex_unlock(&d->memory_lock);
	if (!a.bytes)
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: nothing was allocated at %#" PRIx64, d->name,
			address);
	/* A broken context keeps its memory until it goes; what is mapped is nobody's. */
	else if (a.placed || (!err && !__atomic_load_n(&d->broken, __ATOMIC_ACQUIRE)))
		give_back(d, &a);
	if (!err)
		gpu_leave(d);
}

void gpu_memory_drop(struct gpu_device *d)
{
	pthread_mutex_lock(&d->memory_lock);
	if (d->nr_allocations)
		gpu_log(d->stack, ARAX_LOG_WARNING, "%s: %u allocations of %" PRIu64
			" bytes are dropped", d->name, d->nr_allocations, d->used);
	while (d->nr_allocations)
		give_back(d, &d->allocations[--d->nr_allocations]);
	d->used = 0;
	pthread_mutex_unlock(&d->memory_lock);
}

/* ------------------------------------------------------------------ */
/* Copies                                                                */

/* What is worth to learn from, and to have an opinion of. */
#define MUCH		(1u << 20)

static uint64_t copy_ns(const struct gpu_device *d, uint64_t bytes)
{
	return bytes / 1024 * __atomic_load_n(&d->copy_ns, __ATOMIC_RELAXED) / 1024;
}

static void learn_copy(struct gpu_device *d, uint64_t bytes, uint64_t ns)
{
	uint64_t each = ns * 1024 / (bytes / 1024);
	uint64_t known = __atomic_load_n(&d->copy_ns, __ATOMIC_RELAXED);

	/* A moving average; that another thread may be doing the same is no matter. */
	each = known ? (7 * known + each) / 8 : each;
	__atomic_store_n(&d->copy_ns, each < UINT32_MAX ? (uint32_t)each : UINT32_MAX,
			 __ATOMIC_RELAXED);
}

/* The calling thread's until give_event(); GPU_COPY_EVENTS: others have them all. */
static uint32_t take_event(struct gpu_copies *c)
{
	uint32_t i, taken = __atomic_load_n(&c->taken, __ATOMIC_RELAXED);

	do {
		i = (uint32_t)__builtin_ctz(~taken);
		if (i >= GPU_COPY_EVENTS)
			return GPU_COPY_EVENTS;
	} while (!__atomic_compare_exchange_n(&c->taken, &taken, taken | 1u << i, true,
					      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return i;
}

static void give_event(struct gpu_copies *c, uint32_t i)
{
	if (i < GPU_COPY_EVENTS)
		__atomic_fetch_and(&c->taken, ~(1u << i), __ATOMIC_RELEASE);
}

/* (entered) Until what this thread has put onto @c has ended. */
static int await(struct gpu_device *d, struct gpu_copies *c, uint64_t bytes)
{
	uint32_t own = take_event(c);
	struct gpu_end end = {
		.stream = c->stream, .event = own < GPU_COPY_EVENTS ? c->events[own] : NULL,
	};
	int err = end.event ? d->driver->event_record(end.event, end.stream) : 0, seen;

	if (end.event && !err)
		err = gpu_await(d, &end, copy_ns(d, bytes));
	/* It is under way all the same. */
	if (err || !end.event) {
		seen = d->driver->stream_wait(end.stream);
		err = seen ? seen : err;
	}
	give_event(c, own);
	return err;
}

/* (entered) To the end of a copy: host memory that is not registered is the caller's again then. */
static int finish(struct gpu_device *d, struct gpu_copies *c, uint64_t bytes, uint64_t began,
		  int err)
{
	if (!err)
		err = await(d, c, bytes);
	if (!err && bytes >= MUCH)
		learn_copy(d, bytes, monotonic_ns() - began);
	return gpu_check(d, err, "copy");
}

int gpu_copy_in(struct gpu_device *d, uint32_t lane, uint64_t to, const void *from,
		uint64_t bytes)
{
	struct gpu_lane *l = &d->lanes[lane % d->nr_lanes];
	int err = gpu_enter(d);
	uint64_t began;

	if (err)
		return err;
	err = gpu_find_memory(d, to, bytes);
	if (!err && bytes) {
		began = monotonic_ns();
		err = d->driver->copy_in(to, from, bytes, l->in.stream);
		err = finish(d, &l->in, bytes, began, err);
	}
	gpu_leave(d);
	return err;
}

int gpu_copy_out(struct gpu_device *d, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	struct gpu_lane *l = &d->lanes[lane % d->nr_lanes];
	int err = gpu_enter(d);
	uint32_t context;
	uint64_t began;

	if (err)
		return err;
	context = d->contexts;
	err = gpu_find_memory(d, from, bytes);
	if (!err && bytes) {
		began = monotonic_ns();
		err = d->driver->copy_out(to, from, bytes, l->out.stream);
		err = finish(d, &l->out, bytes, began, err);
	}
	gpu_leave(d);
	/* It may be under way still, and others write there next. */
	if (err == -ENODEV)
		gpu_context_end(d, context);
	return err;
}

/* (both entered) Once for each pair of contexts; where it can't be, the driver goes through the host. */
static void join_peer(struct gpu_device *d, const struct gpu_device *src)
{
	uint32_t *joined = &d->joined[src->index];

	if (__atomic_exchange_n(joined, src->contexts, __ATOMIC_RELAXED) == src->contexts)
		return;
	if (d->driver->peer_enable(d->place, src->place, src->context, src->pooled))
		gpu_log(d->stack, ARAX_LOG_INFO, "%s can't read %s directly", d->name, src->name);
}

/*
 * (both entered) A driver's error of a copy between them: a kernel on @src may have broken that
 * one's context, and @d, which no call fails of, is none the worse.
 */
static int check_peers(struct gpu_device *d, struct gpu_device *src, int err)
{
	const struct gpu_driver *v = d->driver;
	int again = err && src != d ? v->stream_query(d->memory_stream) : err;

	if (again && !v->not_ready(again))
		return gpu_check(d, err, "copy");
	if (err && !v->context_use(src->place, src->context))
		return gpu_check(src, err, "copy");
	return err ? v->error_code(err) : 0;
}

int gpu_copy_peer(struct gpu_device *d, uint64_t to, struct gpu_device *src, uint64_t from,
		  uint64_t bytes)
{
	/* In one order, whoever copies to whom. */
	struct gpu_device *first = d->index < src->index ? d : src;
	struct gpu_device *second = first == d ? src : d;
	void *stream;
	int err;

	err = gpu_enter(first);
	if (err)
		return err;
	if (second != first) {
		err = gpu_enter(second);
		if (err)
			goto leave;
		err = gpu_check(d, d->driver->context_use(d->place, d->context), "context");
		if (!err)
			join_peer(d, src);
	}
	if (!err)
		err = gpu_find_memory(d, to, bytes);
	if (!err)
		err = gpu_find_memory(src, from, bytes);
	stream = d->memory_stream;
	if (!err && bytes) {
		err = d->driver->copy_peer(to, d->place, d->context, from, src->place, src->context,
					   bytes, stream);
		err = check_peers(d, src, err ? err : d->driver->stream_wait(stream));
	}
	if (second != first)
		gpu_leave(second);
leave:
	gpu_leave(first);
	return err;
}

/* ------------------------------------------------------------------ */
/* Host memory for DMA: registered once in the process, for all devices */

struct gpu_host {
	struct gpu_host *next;
	void *host;
	uint64_t bytes;
	uint32_t users;			/* 0: it is about to go, and nobody finds it */
	uint64_t tried;			/* by which devices since their contexts are new */
	struct gpu_device *owner;	/* in whose context it is, by its number; NULL: it went with that */
	uint32_t context;
};

static struct gpu_host **find_host(struct gpu_stack *s, const void *host)
{
	struct gpu_host **link = &s->hosts;

	while (*link && ((*link)->host != host || !(*link)->users))
		link = &(*link)->next;
	return link;
}

static int add_host(struct gpu_device *d, void *host, uint64_t bytes)
{
	struct gpu_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	err = gpu_check(d, d->driver->host_register(host, bytes), "host memory");
	if (err) {
		free(h);
		return err;
	}
	*h = (struct gpu_host){
		.next = d->stack->hosts, .host = host, .bytes = bytes, .users = 1, .owner = d,
		.context = d->contexts, .tried = UINT64_MAX,
	};
	d->stack->hosts = h;
	return 0;
}

int gpu_host_register(struct gpu_device *d, void *host, uint64_t bytes)
{
	struct gpu_stack *s = d->stack;
	struct gpu_host *h;
	int err = gpu_enter(d);

	if (err)
		return err;
	pthread_mutex_lock(&s->hosts_lock);
	h = *find_host(s, host);
	if (!h)
		err = add_host(d, host, bytes);
	else if (h->bytes != bytes)
		err = -EINVAL;
	else
		h->users++;
	pthread_mutex_unlock(&s->hosts_lock);
	gpu_leave(d);
	return err;
}

#define LET_GO_NS	1000000u	/* between two looks whether a context has gone */

/*
 * (hosts_lock, which it lets go of meanwhile) Whether @h is registered no more, whatever became of the
 * device that had asked.  A broken context keeps what is registered there until it goes, and what comes
 * to these addresses next would be taken for that.  False: somebody ends that one, or is in it.  Not
 * to wait for a new one, which may take as long as the driver likes: the old one goes first.
 */
static bool let_go(struct gpu_stack *s, const struct gpu_host *h)
{
	struct gpu_device *owner = h->owner;
	bool gone = true;
	int err;

	if (!owner)
		return true;
	err = gpu_try_enter(owner);
	if (err == -EBUSY)
		return false;
	pthread_mutex_unlock(&s->hosts_lock);
	if (err)
		gone = gpu_context_try_end(owner, h->context);
	else if (owner->contexts == h->context)
		owner->driver->host_unregister(h->host);
	if (!err)
		gpu_leave(owner);
	pthread_mutex_lock(&s->hosts_lock);
	return gone;
}

void gpu_host_unregister(struct gpu_device *d, void *host)
{
	struct gpu_stack *s = d->stack;
	struct gpu_host **link, *h;

	/* Its owner may be given up meanwhile, and closed. */
	pthread_rwlock_rdlock(&s->devices_lock);
	pthread_mutex_lock(&s->hosts_lock);
	h = *find_host(s, host);
	if (h && !--h->users) {
		while (!let_go(s, h)) {
			pthread_mutex_unlock(&s->hosts_lock);
			gpu_nap(LET_GO_NS);
			pthread_mutex_lock(&s->hosts_lock);
		}
		for (link = &s->hosts; *link != h; link = &(*link)->next)
			;
		*link = h->next;
		free(h);
	}
	pthread_mutex_unlock(&s->hosts_lock);
	pthread_rwlock_unlock(&s->devices_lock);
}

/* (hosts_lock) One that @mine has not tried yet. */
static struct gpu_host *untried(struct gpu_stack *s, uint64_t mine)
{
	struct gpu_host *h = s->hosts;

	while (h && (h->tried & mine || !h->users))
		h = h->next;
	return h;
}

/* Another device's context may have it still: that is as good.  Who takes one away waits for one at most. */
void gpu_hosts_again(struct gpu_device *d)
{
	struct gpu_stack *s = d->stack;
	uint64_t mine = 1ull << d->index;
	struct gpu_host *h;

	pthread_mutex_lock(&s->hosts_lock);
	for (h = s->hosts; h; h = h->next)
		h->tried &= ~mine;
	while ((h = untried(s, mine))) {
		h->tried |= mine;
		if (!d->driver->host_register(h->host, h->bytes)) {
			h->owner = d;
			h->context = d->contexts;
		}
		pthread_mutex_unlock(&s->hosts_lock);
		pthread_mutex_lock(&s->hosts_lock);
	}
	pthread_mutex_unlock(&s->hosts_lock);
}

void gpu_hosts_gone(struct gpu_device *d)
{
	struct gpu_stack *s = d->stack;

	pthread_mutex_lock(&s->hosts_lock);
	for (struct gpu_host *h = s->hosts; h; h = h->next)
		if (h->owner == d)
			h->owner = NULL;
	pthread_mutex_unlock(&s->hosts_lock);
}
