// SPDX-License-Identifier: MIT
/* A mediator made of raw calls, well or badly behaved. */
#include "ktest.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define SECONDS	60	/* after which nothing comes any more */

static void map_all(struct mediator *m)
{
	m->ring = mmap(NULL, m->at.dispatch_bytes, PROT_READ, MAP_SHARED, m->fd,
		       (off_t)m->at.dispatch_offset);
	CHECK(m->ring != MAP_FAILED);
	m->shared = mmap(NULL, m->at.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd,
			 (off_t)m->at.shared_offset);
	CHECK(m->shared != MAP_FAILED);
	m->page = (void *)m->shared;
	m->states = (void *)(m->shared + m->page->states_offset);
	m->commits = (void *)(m->shared + m->page->commits_offset);
}

int mediator_try(struct mediator *m, unsigned int flags)
{
	int err;

	memset(m, 0, sizeof(*m));
	m->fd = open_node("/dev/arax-ctl");
	if (m->fd < 0)
		return m->fd;
	m->at = (struct arax_attach) { .size = sizeof(m->at), .flags = flags };
	err = CALL(m->fd, ATTACH, &m->at);
	if (err) {
		close(m->fd);
		return err;
	}
	map_all(m);
	return 0;
}

void mediator_open(struct mediator *m, unsigned int flags)
{
	uint64_t end = now_ns() + SECONDS * 1000 * MS;
	int err;

	while ((err = mediator_try(m, flags)) == -EBUSY && now_ns() < end)
		sleep_ms(2);
	CHECK_OK(err);
}

void mediator_close(struct mediator *m)
{
	CHECK_SYS(munmap((void *)(uintptr_t)m->ring, m->at.dispatch_bytes));
	CHECK_SYS(munmap(m->shared, m->at.shared_bytes));
	CHECK_SYS(close(m->fd));
	m->fd = -1;
}

bool mediator_take(struct mediator *m, struct work *w)
{
	const struct arax_dispatch *d;
	const uint8_t *tail;
	uint32_t head = m->page->head;

	for (;;) {
		d = (const void *)(m->ring +
				   (size_t)(head & (m->at.cells - 1)) * ARAX_CELL_SIZE);
		/* Pairs with the release of the core's publish(). */
		if (__atomic_load_n(&d->seq, __ATOMIC_ACQUIRE) != head + 1) {
			__atomic_store_n(&m->page->head, head, __ATOMIC_RELEASE);
			return false;
		}
		if (d->type != ARAX_DISPATCH_PAD)
			break;
		head += d->cells;
	}
	w->d = *d;
	CHECK(d->nr_ranges <= ARAX_MAX_RANGES && d->arg_len <= ARAX_MAX_ARGS);
	memcpy(w->ranges, d + 1, d->nr_ranges * sizeof(w->ranges[0]));
	tail = (const uint8_t *)(d + 1) + d->nr_ranges * sizeof(w->ranges[0]);
	memcpy(w->args, d->arg_len > ARAX_INLINE_ARGS ? tail : d->args, d->arg_len);
	/* Pairs with the core's acquire in reserve(). */
	__atomic_store_n(&m->page->head, head + w->d.cells, __ATOMIC_RELEASE);
	return true;
}

struct work mediator_wait(struct mediator *m)
{
	struct arax_fetch f = { .size = sizeof(f) };
	uint64_t end = now_ns() + SECONDS * 1000 * MS;
	struct work w;

	while (!mediator_take(m, &w)) {
		CHECK(now_ns() < end);
		f.deadline_ns = end;
		CHECK_OK(CALL(m->fd, FETCH, &f));
	}
	return w;
}

struct work mediator_note(struct mediator *m, unsigned int type)
{
	struct work w;

	do {
		w = mediator_wait(m);
	} while (w.d.type != type);
	return w;
}

struct work mediator_task(struct mediator *m)
{
	return mediator_note(m, ARAX_DISPATCH_TASK);
}

void mediator_start(struct mediator *m, uint64_t tag)
{
	__atomic_store_n(&m->states[ARAX_TAG_SLOT(tag)], ARAX_SLOT_STARTED, __ATOMIC_SEQ_CST);
}

struct arax_commit_entry *mediator_result(struct mediator *m, uint64_t tag, int result)
{
	struct arax_commit_entry *e =
		&m->commits[m->next_commit++ & (m->at.commit_entries - 1)];

	*e = (struct arax_commit_entry) { .tag = tag, .result = result };
	return e;
}

struct arax_commit mediator_flush(struct mediator *m, uint32_t count)
{
	struct arax_commit c = { .size = sizeof(c), .first = m->next_commit - count,
				 .count = count };

	CHECK_OK(CALL(m->fd, COMMIT, &c));
	CHECK_EQ(c.done, count);
	return c;
}

void mediator_done(struct mediator *m, uint64_t tag, int result)
{
	mediator_result(m, tag, result);
	CHECK_EQ(mediator_flush(m, 1).stale, 0);
}

int mediator_get(struct mediator *m, uint64_t id, struct arax_buffer_get *out)
{
	*out = (struct arax_buffer_get) { .size = sizeof(*out), .id = id };
	return CALL(m->fd, BUFFER_GET, out);
}

uint32_t kernel_publish(struct mediator *m, const char *name, const struct arax_signature *sig)
{
	struct arax_kernel_publish k = { .size = sizeof(k), .kinds = 1, .sig = *sig };

	snprintf(k.name, sizeof(k.name), "%s", name);
	snprintf(k.text, sizeof(k.text), "%s()", name);
	CHECK_OK(CALL(m->fd, KERNEL_PUBLISH, &k));
	return k.id;
}

/* ------------------------------------------------------------------ */
/* The server thread                                                   */

static bool every(unsigned int n, unsigned long i)
{
	return n && i % n == 0;
}

static void serve(struct server *s, const struct work *w)
{
	s->served++;
	if (every(s->drop_every, s->served)) {
		s->dropped++;
		return;
	}
	if (s->delay_us)
		usleep(s->delay_us);
	if (every(s->wrong_every, s->served)) {
		mediator_result(s->m, w->d.tag ^ 1ull << 50, 0);
		s->stale += mediator_flush(s->m, 1).stale;
	}
	mediator_result(s->m, w->d.tag, s->result)->device_ns = 1000;
	CHECK_EQ(mediator_flush(s->m, 1).stale, 0);
	if (every(s->twice_every, s->served)) {
		mediator_result(s->m, w->d.tag, s->result);
		s->stale += mediator_flush(s->m, 1).stale;
	}
}

static void *server_thread(void *arg)
{
	struct server *s = arg;
	struct arax_fetch f = { .size = sizeof(f) };
	struct work w;
	int err;

	while (!s->stop) {
		while (mediator_take(s->m, &w))
			if (w.d.type == ARAX_DISPATCH_TASK)
				serve(s, &w);
		f.deadline_ns = now_ns() + 20 * MS;
		err = CALL(s->m->fd, FETCH, &f);
		CHECK(!err || err == -ETIMEDOUT || err == -EINTR);
	}
	return NULL;
}

void server_start(struct server *s, struct mediator *m)
{
	pthread_t thread;

	s->m = m;
	CHECK_OK(pthread_create(&thread, NULL, server_thread, s));
	s->thread = (unsigned long)thread;
}

void server_stop(struct server *s)
{
	s->stop = true;
	CHECK_OK(pthread_join((pthread_t)s->thread, NULL));
}
