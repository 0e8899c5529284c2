// SPDX-License-Identifier: MIT
/* The rings: credit, wrapping, corruption, the backlog, sleeping and waking. */
#include "ktest.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>

static struct client c;
static struct mediator m;
static uint32_t queue;

static void set_up(uint32_t depth, uint32_t entry_size)
{
	client_open(&c, depth, entry_size, 0);
	mediator_open(&m, 0);
	queue = queue_new(&c, 0);
}

static void tear_down(void)
{
	mediator_close(&m);
	client_close(&c);
}

/* Publishes @n markers without submitting them. */
static void markers(struct client *x, uint32_t q, unsigned int n, unsigned int flags)
{
	while (n--) {
		struct arax_task *t = client_task(x);

		t->queue = q;
		t->user_data = x->tail;
		t->flags = (uint16_t)flags;
		client_publish(x);
	}
}

/* The mediator ends all that it finds, with @result; how many? */
static unsigned int serve_all(int result)
{
	unsigned int n = 0, batch = 0;
	struct work w;

	while (mediator_take(&m, &w)) {
		if (w.d.type != ARAX_DISPATCH_TASK)
			continue;
		n++;
		mediator_result(&m, w.d.tag, result);
		if (++batch == m.at.commit_entries) {
			CHECK_EQ(mediator_flush(&m, batch).stale, 0);
			batch = 0;
		}
	}
	CHECK_EQ(mediator_flush(&m, batch).stale, 0);
	return n;
}

static int poll_now(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK(poll(&p, 1, 0) >= 0);
	return p.revents;
}

/* ------------------------------------------------------------------ */
/* Positions                                                           */

static void many_laps(uint32_t depth, uint32_t entry_size)
{
	int lap, laps = ktest_rounds(500);
	uint32_t n, i, head = 0;
	struct arax_completion e;
	unsigned int seed = depth;

	set_up(depth, entry_size);
	for (lap = 0; lap < laps; lap++) {
		uint32_t some = 1 + (uint32_t)rand_r(&seed) % depth;

		markers(&c, queue, some, 0);
		CHECK_OK(client_submit(&c, some, &n));
		CHECK_EQ(n, some);
		CHECK_EQ(c.ctl->sq_head, c.tail);
		CHECK_EQ(serve_all(0), some);
		for (i = 0; i < some; i++) {
			CHECK(client_reap(&c, &e));
			CHECK_EQ(e.user_data, head++);
			CHECK_EQ(e.result, 0);
		}
		CHECK(!client_reap(&c, &e));
	}
	tear_down();
}

KTEST(laps_of_the_smallest_ring)
{
	many_laps(ARAX_MIN_DEPTH, 128);
}

KTEST(laps_of_a_ring_with_long_entries)
{
	many_laps(8, 256);
}

/* Completions come in the order of the commits, each where the ring says. */
KTEST(completions_out_of_order)
{
	struct arax_completion e;
	uint64_t tags[8];
	uint32_t n, i;

	set_up(8, 128);
	markers(&c, queue, 8, 0);
	CHECK_OK(client_submit(&c, 8, &n));
	for (i = 0; i < 8; i++)
		tags[i] = mediator_task(&m).d.tag;
	for (i = 8; i--;) {
		struct arax_commit_entry *r = mediator_result(&m, tags[i], -(int)i);

		r->device_ns = 100 + i;
		r->wait_ns = 200 + i;
		r->bytes = 300 + i;
		r->device = i;
		r->origin = tags[0];
	}
	mediator_flush(&m, 8);
	for (i = 8; i--;) {
		CHECK(client_reap(&c, &e));
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -(int)i);
		CHECK_EQ(e.tag, tags[i]);
		CHECK_EQ(e.device_ns, 100 + i);
		CHECK_EQ(e.wait_ns, 200 + i);
		CHECK_EQ(e.bytes, 300 + i);
		CHECK_EQ(e.device, i);
		CHECK_EQ(e.origin, tags[0]);
	}
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).tasks_done, 8);
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).tasks_failed, 7);
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).device_ns, 828);
	tear_down();
}

KTEST(results_that_are_no_errno)
{
	struct work w;

	set_up(4, 128);
	client_marker(&c, queue, 1, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 5);
	CHECK_EQ(client_wait(&c).result, -EIO);
	client_marker(&c, queue, 1, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, -4096);
	CHECK_EQ(client_wait(&c).result, -EIO);
	tear_down();
}

/* ------------------------------------------------------------------ */
/* What is consumed                                                    */

KTEST(the_consumed_prefix)
{
	struct arax_completion e;
	uint32_t n;

	set_up(8, 128);
	/* Three are published, ten are asked for. */
	markers(&c, queue, 3, 0);
	CHECK_OK(client_submit(&c, 10, &n));
	CHECK_EQ(n, 3);
	CHECK_ERR(client_submit(&c, 1, &n), EINVAL);
	CHECK_EQ(n, 0);
	/* Two are published, one is asked for. */
	markers(&c, queue, 2, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(n, 1);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(n, 1);
	/* A bad one in the middle does not stop the rest. */
	markers(&c, queue, 1, 0);
	markers(&c, 0, 1, 0);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 3, &n));
	CHECK_EQ(n, 3);
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.result, -EBADF);
	CHECK_EQ(serve_all(0), 7);
	tear_down();
}

KTEST(credit)
{
	struct arax_completion e;
	uint32_t n;

	set_up(4, 128);
	markers(&c, queue, 4, 0);
	CHECK_OK(client_submit(&c, 4, &n));
	CHECK_EQ(n, 4);
	/* The places are free again, the credit isn't. */
	markers(&c, queue, 2, 0);
	CHECK_ERR(client_submit(&c, 2, &n), EAGAIN);
	CHECK_EQ(n, 0);
	CHECK_EQ(serve_all(0), 4);
	/* Nor is it back at commit: the ring is full of unread completions. */
	CHECK_ERR(client_submit(&c, 2, &n), EAGAIN);
	CHECK(client_reap(&c, &e));
	CHECK_OK(client_submit(&c, 2, &n));
	CHECK_EQ(n, 1);
	CHECK_ERR(client_submit(&c, 1, &n), EAGAIN);
	while (client_reap(&c, &e))
		;
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(serve_all(0), 2);
	/* Refused entries need credit too. */
	while (client_reap(&c, &e))
		;
	markers(&c, 0, 4, 0);
	CHECK_OK(client_submit(&c, 4, &n));
	CHECK_EQ(n, 4);
	markers(&c, 0, 1, 0);
	CHECK_ERR(client_submit(&c, 1, &n), EAGAIN);
	while (client_reap(&c, &e))
		CHECK_EQ(e.result, -EBADF);
	tear_down();
}

/* However slowly a client reads, no entry is overwritten. */
KTEST(the_completion_ring_never_overflows)
{
	unsigned int seed = 7, round, rounds = (unsigned int)ktest_rounds(3000);
	uint64_t next = 0;
	struct arax_completion e;
	uint32_t n;

	set_up(16, 128);
	for (round = 0; round < rounds; round++) {
		uint32_t some = (uint32_t)rand_r(&seed) % 8;
		int err;

		if (c.tail - c.ctl->sq_head + some <= 16)
			markers(&c, queue, some, 0);
		err = client_submit(&c, c.tail - c.ctl->sq_head, &n);
		CHECK(!err || err == -EAGAIN);
		if (rand_r(&seed) % 2)
			serve_all(0);
		for (some = (uint32_t)rand_r(&seed) % 6; some-- && client_reap(&c, &e);)
			CHECK_EQ(e.user_data, next++);
	}
	CHECK(next > rounds / 2);
	tear_down();
}

KTEST(silent_tasks)
{
	struct arax_completion e;
	uint32_t n;
	int i;

	set_up(4, 128);
	for (i = 0; i < 20; i++) {
		markers(&c, queue, 4, ARAX_TASK_SILENT);
		CHECK_OK(client_submit(&c, 4, &n));
		CHECK_EQ(n, 4);
		CHECK_EQ(serve_all(0), 4);
		CHECK(!client_reap(&c, &e));
	}
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).tasks_done, 80);
	/* A failure is never silent. */
	markers(&c, queue, 4, ARAX_TASK_SILENT);
	CHECK_OK(client_submit(&c, 4, &n));
	CHECK_EQ(serve_all(-ENOEXEC), 4);
	for (i = 0; i < 4; i++) {
		CHECK(client_reap(&c, &e));
		CHECK_EQ(e.result, -ENOEXEC);
	}
	markers(&c, 0, 1, ARAX_TASK_SILENT);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.result, -EBADF);
	tear_down();
}

/* ------------------------------------------------------------------ */
/* Corruption                                                          */

static void corrupt(uint32_t head)
{
	struct client other;
	uint32_t n, q;

	set_up(4, 128);
	client_open(&other, 4, 128, 0);
	q = queue_new(&other, 0);
	markers(&c, queue, 4, 0);
	CHECK_OK(client_submit(&c, 4, &n));
	markers(&other, q, 1, 0);
	CHECK_OK(client_submit(&other, 1, &n));
	CHECK_EQ(serve_all(0), 5);
	__atomic_store_n(&c.ctl->cq_head, head, __ATOMIC_SEQ_CST);
	markers(&c, queue, 1, 0);
	CHECK_ERR(client_submit(&c, 1, &n), EPIPE);
	CHECK_EQ(c.ctl->dead, EPIPE);
	CHECK_ERR(client_submit(&c, 1, &n), EPIPE);
	CHECK(poll_now(c.fd) & POLLHUP);
	/* The neighbour hears nothing of it. */
	CHECK_EQ(client_wait(&other).result, 0);
	markers(&other, q, 1, 0);
	CHECK_OK(client_submit(&other, 1, &n));
	CHECK_EQ(serve_all(0), 1);
	CHECK_EQ(client_wait(&other).result, 0);
	client_close(&other);
	tear_down();
}

KTEST(a_head_beyond_the_tail_kills)
{
	corrupt(5);
}

KTEST(a_head_that_went_back_kills)
{
	corrupt(~0u);
}

KTEST(a_head_far_off_kills)
{
	corrupt(0x80000000);
}

/* The core's own words are the client's to destroy: only for itself. */
KTEST(the_whole_page_is_scribbled_over)
{
	unsigned int round, k;
	struct client other;
	uint32_t n, q;
	int err;

	set_up(8, 128);
	client_open(&other, 8, 128, 0);
	q = queue_new(&other, 0);
	for (round = 0; round < 64; round++) {
		memset(c.region, (int)round * 37, c.init.region_size);
		/* An entry that is where the core looks, if it still looks. */
		markers(&c, queue, 1, 0);
		err = client_submit(&c, 1, &n);
		CHECK(!err || err == -EPIPE || err == -EAGAIN || err == -EINVAL);
		markers(&other, q, 1, 0);
		CHECK_OK(client_submit(&other, 1, &n));
		k = serve_all(0);
		CHECK(k == 1 || k == 2);
		CHECK_EQ(client_wait(&other).result, 0);
	}
	client_close(&other);
	tear_down();
}

static volatile bool stop;

static void *scribble(void *arg)
{
	unsigned int seed = 3;
	uint32_t *words = (void *)c.region;

	(void)arg;
	while (!stop) {
		/* Everything but the head and the sequence words. */
		uint32_t at = 1024 + (uint32_t)rand_r(&seed) % (8 * 32);

		if (at % 32)
			words[at] = (uint32_t)rand_r(&seed) & 0x30f;
	}
	return NULL;
}

/* Entries change while they are copied: what is used is what was checked. */
KTEST(entries_that_change_under_the_core)
{
	unsigned int round, rounds = (unsigned int)ktest_rounds(2000);
	struct arax_buffer_create b;
	struct arax_completion e;
	pthread_t thread;
	struct work w;
	uint32_t n;

	set_up(8, 128);
	b = buffer_new(&c, PAGE);
	CHECK_OK(pthread_create(&thread, NULL, scribble, NULL));
	for (round = 0; round < rounds; round++) {
		struct arax_task *t = client_task(&c);

		t->queue = queue;
		t->nr_ranges = 1;
		t->ranges[0] = (struct arax_range) { b.handle, ARAX_IN, 0, 256, 0, 1 };
		client_publish(&c);
		CHECK_OK(client_submit(&c, 1, &n));
		while (mediator_take(&m, &w)) {
			unsigned int i;

			for (i = 0; i < w.d.nr_ranges; i++)
				CHECK(w.ranges[i].offset + w.ranges[i].length +
				      (uint64_t)(w.ranges[i].count - 1) * w.ranges[i].stride <=
				      PAGE);
			mediator_done(&m, w.d.tag, 0);
		}
		while (client_reap(&c, &e))
			;
		if (c.ctl->dead)
			break;
	}
	stop = true;
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

/* ------------------------------------------------------------------ */
/* The dispatch ring                                                   */

/*
 * More tasks than it has cells or slots: the rest waits in order, and comes as
 * the mediator makes room.  (With the module's defaults this is a ring of
 * 65,536 cells and 16,384 slots; load it with less to see more of it.)
 */
KTEST(the_backlog)
{
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	uint32_t n, i, depth = 64, done = 0, next = 0;
	struct arax_completion e;

	mediator_open(&m, 0);
	while (depth < 2 * m.at.slots)
		depth *= 2;
	CHECK_OK(limit_set(ctl, root, ARAX_RES_TASKS, depth));
	client_open(&c, depth, 128, 0);
	queue = queue_new(&c, 0);
	markers(&c, queue, depth, 0);
	CHECK_OK(client_submit(&c, depth, &n));
	CHECK_EQ(n, depth);
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used, depth);
	while (done < depth) {
		i = serve_all(0);
		CHECK(i > 0);
		done += i;
		while (client_reap(&c, &e))
			CHECK_EQ(e.user_data, next++);
	}
	CHECK_EQ(done, depth);
	CHECK_EQ(next, depth);
	CHECK_OK(limit_set(ctl, root, ARAX_RES_TASKS, ARAX_LIMIT_MAX));
	tear_down();
}

/* Two clients share what room there is. */
KTEST(the_backlog_takes_turns)
{
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	uint32_t n, depth = 64, q, seen = 0, first = 0;
	struct client other;
	struct work w;

	mediator_open(&m, 0);
	while (depth < 2 * m.at.slots)
		depth *= 2;
	CHECK_OK(limit_set(ctl, root, ARAX_RES_TASKS, 2 * depth));
	client_open(&c, depth, 128, 0);
	client_open(&other, depth, 128, 0);
	queue = queue_new(&c, 0);
	q = queue_new(&other, 0);
	markers(&c, queue, depth, 0);
	CHECK_OK(client_submit(&c, depth, &n));
	markers(&other, q, 64, 0);
	CHECK_OK(client_submit(&other, 64, &n));
	/* The late one does not wait for all of the early one's. */
	while (mediator_take(&m, &w)) {
		seen++;
		if (w.d.context == other.init.context && !first)
			first = seen;
		mediator_done(&m, w.d.tag, 0);
	}
	CHECK_EQ(seen, depth + 64);
	CHECK(first && first < depth);
	CHECK_OK(limit_set(ctl, root, ARAX_RES_TASKS, ARAX_LIMIT_MAX));
	client_close(&other);
	tear_down();
}

/* A mediator that lies about its head only starves itself. */
KTEST(a_mediators_head_that_lies)
{
	uint32_t n, head;

	set_up(8, 128);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(serve_all(0), 1);
	head = m.page->head;
	__atomic_store_n(&m.page->head, head + 1000, __ATOMIC_SEQ_CST);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	__atomic_store_n(&m.page->head, 0x7fffffff, __ATOMIC_SEQ_CST);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	__atomic_store_n(&m.page->head, head, __ATOMIC_SEQ_CST);
	CHECK_OK(CALL(m.fd, FETCH, (&(struct arax_fetch) { .size = sizeof(struct arax_fetch) })));
	CHECK_EQ(serve_all(0), 2);
	/* Slot states and offsets are its own to spoil. */
	m.page->states_offset = ~0u;
	m.page->commits_offset = ~0u;
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(serve_all(0), 1);
	tear_down();
}

KTEST(stale_commits_are_counted)
{
	struct arax_commit r;
	struct work w;
	uint32_t i;

	set_up(8, 128);
	client_marker(&c, queue, 1, 0);
	w = mediator_task(&m);
	mediator_result(&m, 0, 0);
	mediator_result(&m, ~0ull, 0);
	mediator_result(&m, w.d.tag ^ 1, 0);
	mediator_result(&m, w.d.tag ^ 1ull << 24, 0);
	mediator_result(&m, w.d.tag ^ 1ull << 48, 0);
	mediator_result(&m, w.d.tag, 0);
	mediator_result(&m, w.d.tag, 0);
	r = mediator_flush(&m, 7);
	CHECK_EQ(r.done, 7);
	CHECK_EQ(r.stale, 6);
	CHECK_EQ(client_wait(&c).result, 0);
	/* The same slot again has another generation. */
	for (i = 0; i < 4; i++) {
		uint64_t old = w.d.tag;

		client_marker(&c, queue, 2 + i, 0);
		w = mediator_task(&m);
		CHECK(w.d.tag != old);
		mediator_result(&m, old, 0);
		CHECK_EQ(mediator_flush(&m, 1).stale, 1);
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).user_data, 2 + i);
	}
	tear_down();
}

/* Delays, losses, doubles and wrong tags, with many tasks in flight. */
KTEST(a_mediator_with_all_its_faults)
{
	struct server s = { .delay_us = 20, .drop_every = 17, .twice_every = 3,
			    .wrong_every = 5 };
	uint32_t total = 2000, n, sent = 0, got = 0;
	struct arax_completion e;

	if (ktest_debug_kernel())
		total = 400;
	set_up(256, 128);
	/* What is dropped keeps its slot. */
	if (total > m.at.slots / 2 * s.drop_every)
		total = m.at.slots / 2 * s.drop_every;
	server_start(&s, &m);
	while (sent < total) {
		if (c.tail == sent)
			markers(&c, queue, 1, 0);
		if (!client_submit(&c, 1, &n))
			sent += n;
		while (client_reap(&c, &e)) {
			CHECK_EQ(e.result, 0);
			got++;
		}
	}
	while (got + s.dropped < sent) {
		if (client_reap(&c, &e))
			got++;
		else
			sleep_ms(1);
	}
	server_stop(&s);
	CHECK_EQ(s.served, sent);
	CHECK_EQ(s.stale, s.served / 3 + s.served / 5 -
			  (s.dropped ? s.served / 51 + s.served / 85 : 0));
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used, s.dropped);
	tear_down();
}

/* ------------------------------------------------------------------ */
/* Sleeping and waking                                                 */

static void *commit_later(void *arg)
{
	struct work w;

	(void)arg;
	w = mediator_task(&m);
	sleep_ms(50);
	mediator_done(&m, w.d.tag, 0);
	return NULL;
}

KTEST(submit_waits_for_completions)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = 1, .min_complete = 1 };
	uint64_t start;
	pthread_t thread;

	set_up(4, 128);
	markers(&c, queue, 1, 0);
	start = now_ns();
	s.deadline_ns = start + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	CHECK_EQ(s.submitted, 1);
	CHECK(now_ns() >= start + 30 * MS);
	/* The deadline is absolute: one in the past has passed. */
	s = (struct arax_submit) { .size = sizeof(s), .min_complete = 1,
				   .deadline_ns = now_ns() - 1 };
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	CHECK_OK(pthread_create(&thread, NULL, commit_later, NULL));
	s = (struct arax_submit) { .size = sizeof(s), .min_complete = 1,
				   .deadline_ns = ARAX_DEADLINE_NONE };
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	CHECK_EQ(client_wait(&c).user_data, 0);
	CHECK_OK(pthread_join(thread, NULL));
	/* What is unread already needs no wait. */
	markers(&c, 0, 1, 0);
	s = (struct arax_submit) { .size = sizeof(s), .to_submit = 1, .min_complete = 1,
				   .deadline_ns = 1 };
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	tear_down();
}

/* Of two threads that wait, the other may have read what this one waits for. */
KTEST(another_thread_has_read_it)
{
	struct arax_submit s = { .size = sizeof(s), .flags = ARAX_SUBMIT_SEEN, .min_complete = 1 };
	struct arax_completion e;

	set_up(4, 128);
	markers(&c, 0, 1, 0);
	CHECK_OK(client_submit(&c, 1, NULL));
	CHECK(client_reap(&c, &e));
	/* Looked before that, and sleeps only now. */
	s.deadline_ns = now_ns() + 10000 * MS;
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	s.seen = 1;
	s.deadline_ns = now_ns() + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	/* And who doesn't say what it has seen waits for one that is unread. */
	s.flags = s.seen = 0;
	s.deadline_ns = now_ns() + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	tear_down();
}

/* Who waits for the last of many is not woken for each of them, and is for that one. */
KTEST(sleeps_until_what_was_asked_for)
{
	struct arax_submit s = { .size = sizeof(s), .min_complete = 1,
				 .flags = ARAX_SUBMIT_SEEN | ARAX_SUBMIT_AS_ASKED };
	pthread_t thread;

	set_up(8, 128);
	markers(&c, queue, 4, 0);
	CHECK_OK(client_submit(&c, 4, NULL));
	c.ctl->cq_wake_at = 4;
	__atomic_store_n(&c.ctl->cq_need_wakeup, ARAX_WAKE_AT, __ATOMIC_RELEASE);
	mediator_done(&m, mediator_task(&m).d.tag, 0);
	mediator_done(&m, mediator_task(&m).d.tag, 0);
	s.deadline_ns = now_ns() + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	/* By its name, and it may have come before the call. */
	c.ctl->cq_wake_for = 1;
	__atomic_store_n(&c.ctl->cq_need_wakeup, ARAX_WAKE_AT | ARAX_WAKE_FOR, __ATOMIC_RELEASE);
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	s.seen = 2;
	s.deadline_ns = now_ns() + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	/* Two more, each of which wakes nobody or is what is waited for. */
	mediator_done(&m, mediator_task(&m).d.tag, 0);
	s.deadline_ns = now_ns() + 30 * MS;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), ETIMEDOUT);
	CHECK_OK(pthread_create(&thread, NULL, commit_later, NULL));
	s.deadline_ns = ARAX_DEADLINE_NONE;
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	CHECK_OK(pthread_join(thread, NULL));
	/* Somebody has taken it back, and somebody else has begun to wait for anything. */
	s.seen = 3;
	__atomic_store_n(&c.ctl->cq_need_wakeup, 0, __ATOMIC_RELEASE);
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	__atomic_store_n(&c.ctl->cq_need_wakeup, ARAX_WAKE_ANY, __ATOMIC_RELEASE);
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	/* It says what else has come only to who says what it has seen. */
	s.flags = ARAX_SUBMIT_AS_ASKED;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), EINVAL);
	s.flags = ARAX_SUBMIT_AS_ASKED << 1;
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), EOPNOTSUPP);
	tear_down();
}

static void on_signal(int sig)
{
	(void)sig;
}

KTEST(signals_interrupt_waits)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = 1, .min_complete = 1,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_wait w = { .size = sizeof(w), .count = 1,
			       .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_fetch f = { .size = sizeof(f), .deadline_ns = ARAX_DEADLINE_NONE };
	struct sigaction sa = { .sa_handler = on_signal };
	struct itimerval every = { { 0, 20000 }, { 0, 20000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct work work;

	set_up(4, 128);
	sigaction(SIGALRM, &sa, NULL);
	markers(&c, queue, 1, 0);
	setitimer(ITIMER_REAL, &every, NULL);
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), EINTR);
	CHECK_EQ(s.submitted, 1);
	w.points[0].timeline = timeline_new(&c, 0);
	w.points[0].value = 1;
	CHECK_ERR(CALL(c.fd, WAIT, &w), EINTR);
	CHECK(mediator_take(&m, &work));
	CHECK_ERR(CALL(m.fd, FETCH, &f), EINTR);
	setitimer(ITIMER_REAL, &never, NULL);
	tear_down();
}

static void *kill_later(void *arg)
{
	struct arax_kill k = { .size = sizeof(k), .context = c.init.context };

	(void)arg;
	sleep_ms(50);
	CHECK_OK(CALL(m.fd, CONTEXT_KILL, &k));
	return NULL;
}

KTEST(a_kill_wakes_who_waits)
{
	struct arax_submit s = { .size = sizeof(s), .min_complete = 1,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	pthread_t thread;

	set_up(4, 128);
	CHECK_OK(pthread_create(&thread, NULL, kill_later, NULL));
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), EPIPE);
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

/* Also who asks for nothing else. */
KTEST(the_end_of_a_context_ends_any_sleep)
{
	struct arax_submit s = { .size = sizeof(s), .min_complete = 1,
				 .flags = ARAX_SUBMIT_SEEN | ARAX_SUBMIT_AS_ASKED,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	pthread_t thread;

	set_up(4, 128);
	__atomic_store_n(&c.ctl->cq_need_wakeup, 0, __ATOMIC_RELEASE);
	CHECK_OK(pthread_create(&thread, NULL, kill_later, NULL));
	CHECK_ERR(CALL(c.fd, SUBMIT, &s), EPIPE);
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

KTEST(a_client_polls)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET }, got;
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct pollfd p = { .events = POLLIN };
	pthread_t thread;
	uint32_t n;

	set_up(4, 128);
	p.fd = c.fd;
	CHECK_SYS(epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &ev));
	CHECK_EQ(poll_now(c.fd), 0);
	CHECK_EQ(epoll_wait(ep, &got, 1, 0), 0);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_OK(pthread_create(&thread, NULL, commit_later, NULL));
	CHECK_EQ(poll(&p, 1, 20000), 1);
	CHECK_EQ(p.revents, POLLIN);
	CHECK_OK(pthread_join(thread, NULL));
	CHECK_EQ(epoll_wait(ep, &got, 1, 20000), 1);
	CHECK_EQ(got.events, EPOLLIN);
	/* An edge is seen once; the level until it is read. */
	CHECK_EQ(epoll_wait(ep, &got, 1, 0), 0);
	CHECK_EQ(poll_now(c.fd), POLLIN);
	client_wait(&c);
	CHECK_EQ(poll_now(c.fd), 0);
	/* The next one is an edge again. */
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(serve_all(0), 1);
	CHECK_EQ(epoll_wait(ep, &got, 1, 20000), 1);
	tear_down();
}

/* Whoever is told only once must be told of the next one, whatever there was to read then. */
KTEST(an_edge_armed_while_something_is_unread)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET }, got;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	set_up(4, 128);
	client_marker(&c, queue, 1, 0);
	CHECK_EQ(serve_all(0), 1);
	CHECK_SYS(epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &ev));
	CHECK_EQ(epoll_wait(ep, &got, 1, 0), 1);
	client_wait(&c);
	client_marker(&c, queue, 2, 0);
	CHECK_EQ(serve_all(0), 1);
	CHECK_EQ(epoll_wait(ep, &got, 1, 60000), 1);
	close(ep);
	tear_down();
}

KTEST(a_hangup_alone_is_awaited)
{
	struct pollfd p = { .events = 0 };
	pthread_t thread;
	uint64_t until;

	set_up(4, 128);
	client_marker(&c, queue, 1, 0);
	CHECK_EQ(serve_all(0), 1);
	CHECK_OK(pthread_create(&thread, NULL, kill_later, NULL));
	p.fd = c.fd;
	until = now_ns() + 50000 * MS;
	/* It looks once more when its time is over: that is too late. */
	CHECK_EQ(poll(&p, 1, 60000), 1);
	CHECK(p.revents & POLLHUP);
	CHECK(now_ns() < until);
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

/* An event loop may have the descriptor before there is a ring to read from. */
KTEST(an_edge_armed_before_there_is_a_ring)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET }, got;
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct client late = { .fd = open_node("/dev/arax"), .init = NO_INIT(4, 128, 0) };

	mediator_open(&m, 0);
	CHECK_SYS(epoll_ctl(ep, EPOLL_CTL_ADD, late.fd, &ev));
	CHECK_EQ(epoll_wait(ep, &got, 1, 0), 0);
	CHECK_OK(CALL(late.fd, CONTEXT_INIT, &late.init));
	late.region = mmap(NULL, late.init.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, late.fd,
			   0);
	CHECK(late.region != MAP_FAILED);
	late.ctl = (void *)late.region;
	/* It looks by itself, and finds nothing yet. */
	CHECK_EQ(epoll_wait(ep, &got, 1, 100), 0);
	client_marker(&late, queue_new(&late, 0), 1, 0);
	CHECK_EQ(serve_all(0), 1);
	CHECK_EQ(epoll_wait(ep, &got, 1, 60000), 1);
	close(ep);
	mediator_close(&m);
	client_close(&late);
}

#define POLLERS		300
#define SLEEPERS	40

static atomic_uint awake;

static void *sleep_for_one(void *arg)
{
	struct arax_submit s = { .size = sizeof(s), .min_complete = 1,
				 .deadline_ns = ARAX_DEADLINE_NONE };

	(void)arg;
	CHECK_OK(CALL(c.fd, SUBMIT, &s));
	atomic_fetch_add(&awake, 1);
	return NULL;
}

/* However many wait for a context, by descriptors and by threads, all are woken. */
KTEST(a_crowd_waits)
{
	struct epoll_event ev = { .events = EPOLLIN }, got[POLLERS];
	int ep = epoll_create1(EPOLL_CLOEXEC), fd[POLLERS];
	pthread_t thread[SLEEPERS];
	uint32_t i, n;

	set_up(4, 128);
	for (i = 0; i < POLLERS; i++) {
		fd[i] = dup(c.fd);
		CHECK_SYS(fd[i]);
		CHECK_SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &ev));
	}
	atomic_store(&awake, 0);
	for (i = 0; i < SLEEPERS; i++)
		CHECK_OK(pthread_create(&thread[i], NULL, sleep_for_one, NULL));
	sleep_ms(100);
	CHECK_EQ(atomic_load(&awake), 0);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(serve_all(0), 1);
	for (i = 0; i < SLEEPERS; i++)
		CHECK_OK(pthread_join(thread[i], NULL));
	for (n = 0; n < POLLERS; sleep_ms(1)) {
		n = (uint32_t)epoll_wait(ep, got, POLLERS, 20000);
		CHECK(n > 0 && n <= POLLERS);
	}
	for (i = 0; i < POLLERS; i++)
		close(fd[i]);
	close(ep);
	tear_down();
}

static void *submit_later(void *arg)
{
	uint32_t n;

	(void)arg;
	sleep_ms(50);
	markers(&c, queue, 1, 0);
	CHECK_OK(client_submit(&c, 1, &n));
	return NULL;
}

KTEST(a_mediator_polls_and_fetches)
{
	struct arax_fetch f = { .size = sizeof(f) };
	struct pollfd p = { .events = POLLIN };
	pthread_t thread;
	uint64_t start;

	set_up(4, 128);
	p.fd = m.fd;
	CHECK_EQ(poll_now(m.fd), 0);
	CHECK_OK(CALL(m.fd, FETCH, &f));
	CHECK_EQ(f.ready, 0);
	start = now_ns();
	f.deadline_ns = start + 30 * MS;
	CHECK_ERR(CALL(m.fd, FETCH, &f), ETIMEDOUT);
	CHECK(now_ns() >= start + 30 * MS);
	CHECK_OK(pthread_create(&thread, NULL, submit_later, NULL));
	CHECK_EQ(poll(&p, 1, 20000), 1);
	CHECK_EQ(p.revents, POLLIN);
	CHECK_OK(pthread_join(thread, NULL));
	CHECK_OK(CALL(m.fd, FETCH, &f));
	CHECK_EQ(f.ready, 1);
	CHECK_EQ(serve_all(0), 1);
	CHECK_EQ(poll_now(m.fd), 0);
	CHECK_OK(pthread_create(&thread, NULL, submit_later, NULL));
	f.deadline_ns = ARAX_DEADLINE_NONE;
	CHECK_OK(CALL(m.fd, FETCH, &f));
	CHECK_EQ(f.ready, 1);
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

/* Both sides sleep all the time: a lost wake-up would hang. */
KTEST(no_wake_up_is_lost)
{
	struct server s = { 0 };
	uint32_t i, total = (uint32_t)ktest_rounds(1500);
	struct arax_submit sub;

	set_up(4, 128);
	server_start(&s, &m);
	for (i = 0; i < total; i++) {
		markers(&c, queue, 1, 0);
		sub = (struct arax_submit) { .size = sizeof(sub), .to_submit = 1,
					     .min_complete = 1,
					     .deadline_ns = now_ns() + 30000 * MS };
		CHECK_OK(CALL(c.fd, SUBMIT, &sub));
		CHECK_EQ(client_wait(&c).user_data, i);
	}
	server_stop(&s);
	CHECK_EQ(s.served, total);
	tear_down();
}
