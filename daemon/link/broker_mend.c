// SPDX-License-Identifier: MIT
/*
 * Buffers into which their owners punch holes while tasks use them.
 *
 * Whoever touches a page of a hole that is being punched waits until it is, and then for the next
 * one: a device's thread would wait for as long as the owner goes on.  Rings are sealed against
 * that (broker_region.c); a buffer can't be, as others may have to map it when it is exported.  So
 * the poller looks at the buffers of running tasks.  In place of one that has holes araxd
 * gets pages of zeros: a thread that waits finds these after the present punch, and the
 * context that made the buffer ends.
 *
 * Who brings the pages back at once is seen late, if ever: the file's change time would tell, but
 * that moves when a page is first written to as well.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/link/broker_impl.h"
#include "daemon/link/memfd.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"

/* A second one within some seconds is too many, as is one that takes as long itself. */
#define MEND_COSTS_NS	(PATIENCE_NS / 4 * 3)

enum { MEND_NOT, MEND_UNDER_WAY, MEND_DONE };

/* On a thread of its own: to change a mapping waits for those who are in a fault. */
static void mend(struct host_job *job)
{
	struct bbuf *bb = (struct bbuf *)((char *)job - offsetof(struct bbuf, mend));
	struct broker *b = bb->broker;
	uint64_t start = monotonic_ns(), now;
	bool mended = guard_lose(bb->map.guard);

	now = monotonic_ns();
	if (!mended)
		log_warn("a buffer with holes can't be replaced", log_u64("buffer", bb->map.id));
	if (!holder_is_unlimited(bb->holder)) {
		patience_spend(&b->patience, holder_uid(bb->holder),
			       MEND_COSTS_NS * b->patience.slowness + now - start, now);
		__atomic_store_n(&b->look, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_lock(&b->mend_lock);
	bb->mending = MEND_DONE;
	pthread_cond_broadcast(&b->mended);
	pthread_mutex_unlock(&b->mend_lock);
}

void broker_look_at(struct link *l, struct mapping *m)
{
	struct broker *b = (struct broker *)l;
	struct bbuf *bb = (struct bbuf *)m;
	struct stat st;

	/* It takes no lock that the file's owner could hold. */
	if (bb->told || fstat(m->fd, &st) || !memfd_has_holes(&st, m->bytes))
		return;
	bb->told = true;
	bb->mending = MEND_UNDER_WAY;
	bb->mend.run = mend;
	host_thread_push(b->mender, &bb->mend);
}

/* It was told while a task used the buffer, so before this. */
void bbuf_await_mending(struct bbuf *bb)
{
	struct broker *b = bb->broker;

	pthread_mutex_lock(&b->mend_lock);
	while (bb->mending == MEND_UNDER_WAY)
		pthread_cond_wait(&b->mended, &b->mend_lock);
	pthread_mutex_unlock(&b->mend_lock);
}
