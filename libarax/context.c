// SPDX-License-Identifier: MIT
/* Opening and closing. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "filelimit.h"
#include "internal.h"

#define DEFAULT_DEPTH		256
#define DEFAULT_ARENA		(128u << 10)

unsigned int process_generation;

static void in_child(void)
{
	store_relaxed(&process_generation, process_generation + 1);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

int not_owner(void)
{
	return error_set(-EPERM, "a context from before fork(): the child must open its own");
}

/* How much it would have been isn't known here: 1 is no less than needed. */
static __attribute__((cold)) int over_quota(struct arax *ax, const char *what)
{
	char why[WHY_LEN];

	quota_text(ax, ARAX_RES_MEMORY, 1, why, sizeof(why));
	return error_set(-EDQUOT, "%s: %s", what, why);
}

/* Of what there are as many as there may be: the numbers are in the calls' man pages. */
const char *too_many(unsigned int nr)
{
	switch (nr) {
	case ARAX_NR_QUEUE_CREATE:
	case ARAX_NR_TIMELINE_CREATE:
	case ARAX_NR_TIMELINE_IMPORT:
		return ": the context has as many handles as it may have (65,536), or its user as many queues and timelines as limits.handles of araxd.conf(5) lets him: destroy some";
	case ARAX_NR_BUFFER_CREATE:
	case ARAX_NR_BUFFER_IMPORT:
		return ": the context has as many handles as it may have (65,536), or there are as many buffers as its user, his tenant or all programs may have (arax_buffer_create(3)): destroy some";
	case ARAX_NR_TIMELINE_EVENTFD:
		return ": a timeline has 128 armed: close or destroy some";
	default:
		return "";
	}
}

int context_call(struct arax *ax, const char *what, unsigned int nr, void *arg)
{
	int ret;

	if (unlikely(!is_owner(ax)))
		return not_owner();
	ret = load_acquire(&ax->dead);
	if (!ret)
		ret = ax->link->ops->call(ax->link, nr, arg);
	/* The socket's end is the tasks' end too. */
	if (ret == -ENOTCONN && ax->link->type == ARAX_LINK_BROKER && ax->has_rings)
		complete_dead(ax, ret);
	if (unlikely(ret == -EDQUOT))
		return over_quota(ax, what);
	return ret ? error_set(ret, "%s%s", what, ret == -ENOSPC ? too_many(nr) : "") : 0;
}

/* @given, as far as the caller's version of the struct goes. */
static int read_options(const struct arax_options *given, struct arax_options *o)
{
	const unsigned char *p = (const unsigned char *)given;
	size_t i, n;

	memset(o, 0, sizeof(*o));
	if (given) {
		n = given->size;
		if (n < offsetof(struct arax_options, reserved))
			return error_set(-EINVAL, "arax_options.size is %zu: set it to sizeof", n);
		for (i = sizeof(*o); i < n; i++) {
			if (p[i])
				return error_set(-E2BIG, "arax_options has fields unknown to libarax "
						 ARAX_VERSION);
		}
		memcpy(o, given, n < sizeof(*o) ? n : sizeof(*o));
	}
	for (i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++) {
		if (o->reserved[i])
			return error_set(-EINVAL, "arax_options.reserved is not zero");
	}
	if (o->flags & ~(uint32_t)ARAX_OPEN_QUERY)
		return error_set(-EOPNOTSUPP, "arax_options.flags %#x", o->flags);
	if (!o->depth)
		o->depth = DEFAULT_DEPTH;
	if (!o->entry_size)
		o->entry_size = 128;
	if (!o->arena_size)
		o->arena_size = DEFAULT_ARENA;
	if (o->depth < ARAX_MIN_DEPTH || o->depth > ARAX_MAX_DEPTH || (o->depth & (o->depth - 1)))
		return error_set(-EINVAL, "depth %u: want a power of two, %d to %d", o->depth,
				 ARAX_MIN_DEPTH, ARAX_MAX_DEPTH);
	if (o->entry_size != 128 && o->entry_size != 256)
		return error_set(-EINVAL, "entry_size %u: want 128 or 256", o->entry_size);
	if (o->arena_size > ARAX_MAX_ARENA || (o->arena_size & 4095))
		return error_set(-EINVAL, "arena_size %u: want a multiple of 4096 up to %u",
				 o->arena_size, ARAX_MAX_ARENA);
	return 0;
}

/* Others than we may have made the module, or araxd. */
static bool takes_short(struct arax *ax)
{
	struct arax_info info = { .size = sizeof(info) };

	return !ax->link->ops->call(ax->link, ARAX_NR_INFO, &info) && info.sq_entry_sizes & 64;
}

static int make_rings(struct arax *ax, const struct arax_options *o)
{
	struct arax_context_init *init = &ax->region.init;
	char why[WHY_LEN];
	int ret;

	init->size = sizeof(*init);
	init->depth = o->depth;
	init->entry_size = o->entry_size;
	init->arena_size = o->arena_size;
	ret = ax->link->ops->region(ax->link, &ax->region);
	if (!ret)
		ret = ring_init(&ax->ring, ax->region.base, init);
	if (ret == -EDQUOT) {
		quota_text(ax, ARAX_RES_CONTEXTS, 1, why, sizeof(why));
		return error_set(ret, "making rings for %u tasks: %s", o->depth, why);
	}
	if (ret == -ENOMEM && init->region_size > file_limit())
		return error_set(ret, "making rings for %u tasks: " ERROR_FILE_LIMIT, o->depth,
				 (unsigned long long)file_limit());
	if (ret)
		return error_set(ret, "making rings for %u tasks", o->depth);
	ax->ring.takes_short = takes_short(ax);
	ax->has_rings = true;
	/* Without them all works as well, with fewer words. */
	refusals_init(ax);
	return 0;
}

static void init_locks(struct arax *ax)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&ax->sleep_lock, NULL);
	pthread_mutex_init(&ax->object_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&ax->sleep_cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* Frees memory and descriptors only. */
static void context_free(struct arax *ax, bool forked)
{
	if (ax->poll_fd >= 0)
		close(ax->poll_fd);
	if (ax->nudge_fd >= 0)
		close(ax->nudge_fd);
	if (ax->link)
		ax->link->ops->close(ax->link, forked);
	ring_destroy(&ax->ring);
	refusals_destroy(ax);
	if (!forked) {
		/* A lock that another thread held at fork() can't be destroyed. */
		pthread_mutex_destroy(&ax->sleep_lock);
		pthread_mutex_destroy(&ax->object_lock);
		pthread_cond_destroy(&ax->sleep_cond);
	}
	free(ax->module_log);
	free(ax);
}

int context_new(struct arax **out, struct link *link, const struct arax_options *o)
{
	struct arax *ax = aligned_alloc(64, (sizeof(*ax) + 63) & ~63ul);
	struct arax_info info = { .size = sizeof(info) };
	int ret;

	if (!ax) {
		link->ops->close(link, false);
		return error_set(-ENOMEM, "arax_open");
	}
	memset(ax, 0, sizeof(*ax));
	ax->link = link;
	ax->generation = load_relaxed(&process_generation);
	ax->poll_fd = -1;
	ax->nudge_fd = -1;
	ax->spin_ns = SPIN_FIRST_NS;
	ax->probe_left = ax->probe_every = PROBE_FIRST;
	init_locks(ax);
	if (!(o->flags & ARAX_OPEN_QUERY))
		ret = make_rings(ax, o);
	else	/* a broker that takes no more says so in its first answer */
		ret = context_call(ax, "arax_open", ARAX_NR_INFO, &info);
	if (ret)
		context_free(ax, false);
	else
		*out = ax;
	return ret;
}

int arax_open(struct arax **ax, const struct arax_options *options)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct arax_options o;
	struct link *link;
	int ret;

	ret = read_options(options, &o);
	if (ret)
		return ret;
	pthread_once(&once, watch_forks);
	ret = link_open(&link, o.link, false);
	return ret ? ret : context_new(ax, link, &o);
}

int arax_close(struct arax *ax)
{
	bool forked;
	int cancel;

	if (!ax)
		return 0;
	if (notify_is_called_by(ax))
		return error_set(-EDEADLK, "closing a context in a notify that a call with it makes: close it when that call has returned");
	/* Nobody else would give back what is left of it. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	forked = !is_owner(ax);
	if (!forked && ax->has_rings) {
		complete_dead(ax, -ECANCELED);
		/* The caller may free the events next, also if he is a notify himself. */
		notify_noted(ax);
	}
	while (ax->buffers) {
		struct buffer *b = ax->buffers;

		ax->buffers = b->next;
		/* MADV_DONTFORK: in a child something else may be in its place. */
		if (b->mapped && !forked)
			munmap(b->pub.data, b->mapped);
		free(b);
	}
	while (ax->queues) {
		struct arax_queue *q = ax->queues;

		ax->queues = q->next;
		free(q);
	}
	while (ax->timelines) {
		struct arax_timeline *t = ax->timelines;

		ax->timelines = t->next;
		free(t);
	}
	context_free(ax, forked);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}
