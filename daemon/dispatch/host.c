// SPDX-License-Identifier: MIT
/* Copies, fills and services, on ranges whose bounds the core has checked. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/awake.h"
#include "daemon/dispatch/host.h"

/* A range walked byte by byte, row by row. */
struct cursor {
	uint8_t *row;
	uint64_t at;
	const struct arax_launch_range *r;
};

static void advance(struct cursor *c, uint64_t n)
{
	c->at += n;
	if (c->at == c->r->length) {
		c->at = 0;
		c->row += c->r->stride;
	}
}

static struct cursor end_of(const struct arax_launch_range *r)
{
	return (struct cursor){ (uint8_t *)r->data + (r->count - 1) * (uint64_t)r->stride,
				r->length, r };
}

static void retreat(struct cursor *c, uint64_t n)
{
	if (!c->at) {
		c->at = c->r->length;
		c->row -= c->r->stride;
	}
	c->at -= n;
}

static uint64_t before(const struct cursor *c)
{
	return c->at ? c->at : c->r->length;
}

static bool overlap(const struct arax_launch_range *in, const struct arax_launch_range *out)
{
	const struct cursor from = end_of(in), to = end_of(out);

	return (uintptr_t)in->data < (uintptr_t)(to.row + to.at) &&
	       (uintptr_t)out->data < (uintptr_t)(from.row + from.at);
}

/* @ahead: also what goes to where more may be to be read. */
static void copy_on(const struct arax_launch_range *in, const struct arax_launch_range *out,
		    bool ahead)
{
	struct cursor from = { in->data, 0, in }, to = { out->data, 0, out };
	uint64_t left = in->length * in->count;

	while (left) {
		uint64_t n = in->length - from.at;

		if (n > out->length - to.at)
			n = out->length - to.at;
		if (ahead || (uintptr_t)(to.row + to.at) < (uintptr_t)(from.row + from.at))
			memmove(to.row + to.at, from.row + from.at, n);
		advance(&from, n);
		advance(&to, n);
		left -= n;
	}
}

/* From the last byte on, what goes to behind where it was. */
static void copy_back(const struct arax_launch_range *in, const struct arax_launch_range *out)
{
	struct cursor from = end_of(in), to = end_of(out);
	uint64_t left = in->length * in->count;

	while (left) {
		uint64_t n = before(&from) < before(&to) ? before(&from) : before(&to);

		retreat(&from, n);
		retreat(&to, n);
		if ((uintptr_t)(to.row + to.at) > (uintptr_t)(from.row + from.at))
			memmove(to.row + to.at, from.row + from.at, n);
		left -= n;
	}
}

/*
 * Both hold the same number of bytes, and may overlap: as if all had been read before any is
 * written.  In either the bytes lie in the order in which they are counted.  So what goes on to
 * later ones' places is safe from the last to the first, what goes back from the first to the last,
 * and neither of the two writes where the other has yet to read.
 */
static void copy(const struct arax_launch_range *in, const struct arax_launch_range *out)
{
	if (!overlap(in, out)) {
		copy_on(in, out, true);
		return;
	}
	copy_on(in, out, false);
	copy_back(in, out);
}

static void fill_row(uint8_t *p, uint64_t bytes, const uint8_t *pattern, uint32_t width)
{
	uint64_t done;

	if (width == 1) {
		memset(p, pattern[0], bytes);
		return;
	}
	/* What is filled is the source of the next, twice as long, piece. */
	done = bytes < width ? bytes : width;
	memcpy(p, pattern, done);
	while (done < bytes) {
		uint64_t n = done < bytes - done ? done : bytes - done;

		memcpy(p + done, p, n);
		done += n;
	}
}

static int fill(const struct arax_launch_range *r, const void *args, uint32_t width)
{
	uint32_t i;

	/* As many rows of nothing as a program likes are a valid range. */
	if (!r->length)
		return 0;
	for (i = 0; i < r->count; i++)
		fill_row((uint8_t *)r->data + (uint64_t)i * r->stride, r->length, args, width);
	return 0;
}

static int ping(const struct arax_dispatch *d, const struct arax_launch_range *r)
{
	if (d->nr_ranges != 2 || d->access != (ARAX_IN | ARAX_OUT << 2))
		return -EINVAL;
	if (r[0].length * r[0].count != r[1].length * r[1].count)
		return -EINVAL;
	copy(&r[0], &r[1]);
	return 0;
}

int host_run(const struct arax_dispatch *d, const struct arax_launch_range *r,
	     const void *args)
{
	switch (d->opcode) {
	case ARAX_OP_COPY:
		copy(&r[0], &r[1]);
		return 0;
	case ARAX_OP_FILL:
		return fill(&r[0], args, d->arg_len);
	case ARAX_OP_CALL:
		return d->kernel == ARAX_SERVICE_PING ? ping(d, r) : -EOPNOTSUPP;
	}
	return -EOPNOTSUPP;
}

struct host_thread {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct host_job *first, **last;
	bool stop;
};

/* The next one often comes when this one's end is known; to sleep costs two wake-ups. */
static bool has_come(const void *arg)
{
	const struct host_thread *t = arg;

	return __atomic_load_n(&t->first, __ATOMIC_RELAXED);
}

static void *serve(void *arg)
{
	struct host_thread *t = arg;
	bool waited = false;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		struct host_job *job = t->first;

		if (!job && t->stop)
			break;
		if (!job && !waited) {
			pthread_mutex_unlock(&t->lock);
			awake_for(has_come, t);
			waited = true;
			pthread_mutex_lock(&t->lock);
			continue;
		}
		if (!job) {
			pthread_cond_wait(&t->more, &t->lock);
			continue;
		}
		waited = false;
		__atomic_store_n(&t->first, job->next, __ATOMIC_RELAXED);
		if (!t->first)
			t->last = &t->first;
		pthread_mutex_unlock(&t->lock);
		job->run(job);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int host_thread_create(const char *name, struct host_thread **out)
{
	struct host_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	t->last = &t->first;
	if (pthread_create(&t->thread, NULL, serve, t)) {
		free(t);
		return -EAGAIN;
	}
	pthread_setname_np(t->thread, name);
	*out = t;
	return 0;
}

void host_thread_destroy(struct host_thread *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void host_thread_push(struct host_thread *t, struct host_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&t->lock);
	/* Who waits awake looks without the lock. */
	__atomic_store_n(t->last, job, __ATOMIC_RELAXED);
	t->last = &job->next;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}
