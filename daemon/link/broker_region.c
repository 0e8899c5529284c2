// SPDX-License-Identifier: MIT
/*
 * The memory of a client's rings: mapped first, then sealed by the client, then used.
 *
 * A page fault in a memory file waits for a hole that is being punched there, and then for the
 * next one: by its own ring a client could keep the poller for as long as it likes.  The seal
 * FUTURE_WRITE forbids that, and mappings for writing that come later; ours has to be there
 * before.  We can't add it, as that takes the file's lock, which its owner may hold for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/link/broker_impl.h"
#include "daemon/link/filemap.h"
#include "daemon/memory/guard.h"

#define REGION_MAPS	1u

/*
 * From when it is mapped until it is not.
 * @ring: what it is charged as; atomic, once that is of no use: the buffer, or OVER: it is unmapped
 */
struct region {
	struct host_job job;	/* when it goes */
	struct core_buffer *ring;
	bool charged;
	struct broker *broker;
	struct holder *holder;
	void *base;
	size_t bytes;
	dev_t dev;
	ino_t ino;
};

#define OVER(r)	((struct core_buffer *)(r))

static void end(struct region *r, struct core_buffer *ring)
{
	if (ring)
		core_buffer_free(ring);
	broker_has_given(r->broker);
	holder_given(r->holder, 0, REGION_MAPS);
	free(r);
}

static void bury(struct host_job *job)
{
	struct region *r = (struct region *)((char *)job - offsetof(struct region, job));
	bool charged = r->charged;
	struct core_buffer *ring = NULL;

	broker_time_taken(r->broker, holder_uid(r->holder), holder_is_unlimited(r->holder),
			  filemap_unmap(r->base, r->bytes));
	/* Unmapped, and of no use: who comes second ends it.  From then on it is not the first one's. */
	if (charged)
		ring = __atomic_exchange_n(&r->ring, OVER(r), __ATOMIC_ACQ_REL);
	if (ring || !charged)
		end(r, ring);
}

void conn_region_charged(struct conn *c, struct core_buffer *ring)
{
	c->mapped->charged = true;
	ring->link = c->mapped;
}

void region_idle(struct core_buffer *ring)
{
	struct region *r = ring->link;

	if (__atomic_exchange_n(&r->ring, ring, __ATOMIC_ACQ_REL) == OVER(r))
		end(r, ring);
}

void conn_region_drop(struct conn *c)
{
	struct poller *p = c->broker->link.poller;
	struct region *r = c->mapped;

	if (!r)
		return;
	c->mapped = NULL;
	holder_give_later(r->holder, 0, REGION_MAPS);
	r->job.run = bury;
	/* Ours may be the last reference to the file, and to free its pages takes time. */
	if (p)
		host_thread_push(p->undertaker, &r->job);
	else
		bury(&r->job);
}

int conn_region_map(struct conn *c, int fd, int seals, const struct stat *st)
{
	struct region *r;
	uint64_t ns;
	int err;

	/* It could never be sealed, or nobody can write to it. */
	if (seals & (F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) || !guard_may_map(fd))
		return -EINVAL;
	conn_region_drop(c);
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	err = holder_take(c->holder, 0, REGION_MAPS);
	if (err)
		goto free;
	r->holder = c->holder;
	r->bytes = (size_t)st->st_size;
	r->dev = st->st_dev;
	r->ino = st->st_ino;
	r->broker = c->broker;
	r->base = filemap_map(fd, r->bytes, &ns);
	err = r->base == MAP_FAILED ? -errno : 0;
	broker_time_taken(c->broker, c->uid, c->admin, ns);
	if (err)
		goto give;
	c->mapped = r;
	return 0;
give:
	holder_give(r->holder, 0, REGION_MAPS);
free:
	free(r);
	return err;
}

void *conn_region(const struct conn *c, const struct stat *st)
{
	const struct region *r = c->mapped;

	/* It stays that file's number while we map it. */
	if (!r || r->dev != st->st_dev || r->ino != st->st_ino ||
	    r->bytes != (size_t)st->st_size)
		return NULL;
	return r->base;
}
