// SPDX-License-Identifier: MIT
/*
 * Submission and waiting against a consumer thread that follows the rings'
 * protocol and nothing else: what a kernel, a device or a tenant is, the whole
 * stack's own tests show.
 *
 * A task's first argument byte says how it ends: 0 well, 'd' after a delay,
 * 'e' with EIO; 'h' is held until the test lets go; 'x' ends the link.
 */
#include <check.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kmod/core/layout.h"
#include "libarax/internal.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/wait.h"

struct peer {
	struct link link;
	pthread_t thread;
	uint8_t *region;
	struct arax_context_init init;
	uint32_t sq_head, cq_tail;
	int wake_fd, bell_fd, hup[2];
	atomic_bool stop, release;
	atomic_bool hold_all;		/* as if each were an 'h' */
	atomic_bool mute;		/* wakes nobody; the test does */
	atomic_int kick_error;		/* what a kick returns */
	atomic_uint sleeps, wakes, quiet;
	uint64_t held[64];
	atomic_uint nr_held;
	atomic_uint lag_us;		/* at each entry, before it is taken */
	atomic_bool slow_to_wake;	/* both sides, and the client isn't told who sleeps */
	/* The last extension seen, for the tests that look at it. */
	struct arax_task_ext ext;
	struct arax_range ranges[ARAX_MAX_RANGES];
	uint8_t args[ARAX_MAX_ARGS];
	struct arax_task last;
	struct arax_queue_create queue;
	uint32_t failures;
	uint32_t known, known_max;	/* the last task's; the most that any knew */
};

/* More than waiting awake is worth at first. */
#define SLOW_TO_WAKE_US	150
#define SLOW_AWAKE_NS	50000u	/* and so long does the peer wait before it sleeps */

static struct peer *P;
static uint32_t entry_sizes;		/* what the peer says that it takes */
static struct arax *ax;
static struct arax_queue *q;

/* To the letter: who says less than it waits for sleeps on. */
static bool peer_wakes(const struct peer *p, const struct arax_ring_ctl *ctl, uint64_t user_data)
{
	uint32_t why = load_acquire(&ctl->cq_need_wakeup);

	if (why & ARAX_WAKE_AT && (int32_t)(p->cq_tail - load_relaxed(&ctl->cq_wake_at)) >= 0)
		return true;
	if (why & ARAX_WAKE_FOR && user_data == load_relaxed(&ctl->cq_wake_for))
		return true;
	return why & ARAX_WAKE_ANY;
}

static void peer_complete(struct peer *p, uint64_t user_data, int result)
{
	struct arax_ring_ctl *ctl = (void *)p->region;
	struct arax_completion *c = (void *)(p->region + p->init.cq_offset);
	const uint64_t one = 1;

	/* No credit can mean only that the client submitted without it. */
	ck_assert_uint_lt(p->cq_tail - load_acquire(&ctl->cq_head), p->init.depth);
	c += p->cq_tail & (p->init.depth - 1);
	c->result = result;
	c->user_data = user_data;
	c->tag = p->cq_tail + 1;
	c->device = 3;
	c->device_ns = 5;
	c->failure = result ? ++p->failures : 0;
	store_release(&c->seq, ++p->cq_tail);
	full_barrier();
	if (!p->mute && peer_wakes(p, ctl, user_data)) {
		p->wakes++;
		ck_assert_int_eq(write(p->wake_fd, &one, 8), 8);
	} else {
		p->quiet++;
	}
}

static void peer_take(struct peer *p, const struct arax_task *t)
{
	uint8_t how = p->hold_all ? 'h' : t->arg_len ? t->args[0] : 0;
	uint8_t *arena = p->region + p->init.arena_offset;

	p->last = *t;
	if (t->flags & ARAX_TASK_SHORT) {
		p->known = ((const struct arax_task_short *)t)->known;
		peer_complete(p, t->user_data, 0);
		return;
	}
	if (t->flags & ARAX_TASK_EXT) {
		memcpy(&p->ext, arena + t->ext, sizeof(p->ext));
		memcpy(p->ranges, arena + t->ext + sizeof(p->ext),
		       p->ext.nr_ranges * sizeof(*p->ranges));
		memcpy(p->args, arena + t->ext + sizeof(p->ext) +
		       p->ext.nr_ranges * sizeof(*p->ranges), p->ext.arg_len);
	}
	p->known = t->flags & ARAX_TASK_EXT ? p->ext.known : t->known;
	if (p->known_max < p->known)
		p->known_max = p->known;
	switch (how) {
	case 'd':
		usleep(2000);
		break;
	case 'h':
		p->held[p->nr_held++] = t->user_data;
		return;
	case 'x':
		close(p->hup[1]);
		p->hup[1] = -1;
		p->stop = true;
		return;
	}
	peer_complete(p, t->user_data, how == 'e' ? -EIO : 0);
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	struct arax_ring_ctl *ctl = (void *)p->region;
	unsigned int idle = 0;
	uint64_t since = 0;

	while (!p->stop) {
		struct arax_task *t = (void *)(p->region + p->init.sq_offset +
			(size_t)(p->sq_head & (p->init.depth - 1)) * p->init.entry_size);
		struct pollfd fd = { .fd = p->bell_fd, .events = POLLIN };
		uint64_t n;

		if (p->release && p->nr_held) {
			p->release = false;
			while (p->nr_held)
				peer_complete(p, p->held[--p->nr_held], 0);
		}
		if (load_acquire(&t->seq) == p->sq_head + 1) {
			struct arax_task copy = *t;

			idle = 0;
			if (p->lag_us)
				usleep(p->lag_us);
			p->sq_head++;
			peer_take(p, &copy);
			store_release(&ctl->sq_head, p->sq_head);
			continue;
		}
		if (!idle++)
			since = now_ns();
		if (p->slow_to_wake ? now_ns() - since < SLOW_AWAKE_NS : idle < 200) {
			cpu_relax();
			continue;
		}
		store_relaxed(&ctl->sq_need_wakeup, 1);
		full_barrier();
		if (load_acquire(&t->seq) != p->sq_head + 1) {
			p->sleeps++;
			poll(&fd, 1, p->nr_held ? 1 : 100);
			if (fd.revents)
				ck_assert_int_eq(read(p->bell_fd, &n, 8), 8);
			if (p->slow_to_wake)
				usleep(SLOW_TO_WAKE_US);
		}
		store_relaxed(&ctl->sq_need_wakeup, 0);
		idle = 0;
	}
	return NULL;
}

/* ------------------------------------------------------------------ */
/* The link to it                                                      */

static int peer_call(struct link *l, unsigned int nr, void *arg)
{
	/* Of any of the client's threads. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct arax_queue_create *q = arg;

	if (nr == ARAX_NR_INFO)
		((struct arax_info *)arg)->sq_entry_sizes = entry_sizes;
	if (nr != ARAX_NR_QUEUE_CREATE)
		return 0;
	pthread_mutex_lock(&lock);
	P->queue = *q;
	pthread_mutex_unlock(&lock);
	q->handle = 0x100001;
	return 0;
}

static int peer_region(struct link *l, struct link_region *r)
{
	struct peer *p = (struct peer *)l;
	struct arax_layout lay;

	if (arax_layout(r->init.depth, r->init.entry_size, r->init.arena_size, &lay))
		return -EINVAL;
	p->region = aligned_alloc(4096, lay.region_size);
	memset(p->region, 0, lay.region_size);
	r->init.sq_offset = lay.sq_offset;
	r->init.cq_offset = lay.cq_offset;
	r->init.arena_offset = lay.arena_offset;
	r->init.region_size = lay.region_size;
	r->base = p->region;
	l->ctl = (void *)p->region;
	p->init = r->init;
	return pthread_create(&p->thread, NULL, peer_main, p);
}

static int peer_kick(struct link *l, uint32_t count, bool *woke)
{
	const uint64_t one = 1;

	*woke = false;
	if (((struct peer *)l)->kick_error)
		return ((struct peer *)l)->kick_error;
	full_barrier();
	*woke = load_relaxed(&l->ctl->sq_need_wakeup);
	if (*woke)
		ck_assert_int_eq(write(((struct peer *)l)->bell_fd, &one, 8), 8);
	*woke &= !((struct peer *)l)->slow_to_wake;
	return 0;
}

static bool peer_awake(struct link *l)
{
	return ((struct peer *)l)->slow_to_wake || !load_relaxed(&l->ctl->sq_need_wakeup);
}

static int peer_sleep(struct link *l, uint64_t deadline, uint32_t seen)
{
	struct peer *p = (struct peer *)l;
	struct pollfd fds[2] = {
		{ .fd = p->wake_fd, .events = POLLIN },
		{ .fd = p->hup[0], .events = POLLIN },
	};
	uint64_t n, now = now_ns();
	int ms = deadline == ARAX_DEADLINE_NONE ? -1 :
		 deadline <= now ? 0 : (int)((deadline - now) / 1000000 + 1);

	if (!poll(fds, 2, ms))
		return -ETIMEDOUT;
	if (fds[0].revents && read(p->wake_fd, &n, 8) < 0)
		ck_assert_int_eq(errno, EAGAIN);
	if (p->slow_to_wake)
		usleep(SLOW_TO_WAKE_US);
	return fds[1].revents ? -ENOTCONN : 0;
}

static int peer_poll_fds(struct link *l, int fds[2])
{
	fds[0] = ((struct peer *)l)->wake_fd;
	fds[1] = ((struct peer *)l)->hup[0];
	return 0;
}

static bool peer_hangup(struct link *l)
{
	struct pollfd fd = { .fd = ((struct peer *)l)->hup[0], .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void peer_close(struct link *l, bool forked)
{
	struct peer *p = (struct peer *)l;
	const uint64_t one = 1;

	if (!forked) {
		p->stop = true;
		ck_assert_int_eq(write(p->bell_fd, &one, 8), 8);
		pthread_join(p->thread, NULL);
	}
	close(p->wake_fd);
	close(p->bell_fd);
	close(p->hup[0]);
	if (p->hup[1] >= 0)
		close(p->hup[1]);
	free(p->region);
	free(p);
}

static const struct link_ops peer_ops = {
	.call = peer_call,
	.region = peer_region,
	.kick = peer_kick,
	.peer_awake = peer_awake,
	.sleep = peer_sleep,
	.poll_fds = peer_poll_fds,
	.hangup = peer_hangup,
	.close = peer_close,
};

static void start(uint32_t depth, uint32_t entry_size, uint32_t arena)
{
	struct arax_options o = {
		.depth = depth,
		.entry_size = entry_size,
		.arena_size = arena,
	};

	P = calloc(1, sizeof(*P));
	P->link.ops = &peer_ops;
	P->link.type = ARAX_LINK_BROKER;
	P->wake_fd = eventfd(0, EFD_NONBLOCK);
	P->bell_fd = eventfd(0, 0);
	ck_assert_int_eq(pipe(P->hup), 0);
	ck_assert_int_eq(context_new(&ax, &P->link, &o), 0);
	ck_assert_int_eq(arax_queue_create(ax, 0, 0, &q), 0);
}

static void setup(void)
{
	start(64, 128, 16384);
}

static void teardown(void)
{
	arax_close(ax);
}

static int go(char how, struct arax_event *e)
{
	return arax_call(q, 1, &how, 1, NULL, 0, e);
}

#define SOON	arax_deadline(WAIT_S * 1000000000ull)

/* ------------------------------------------------------------------ */
/* Events                                                              */

START_TEST(one_at_a_time)
{
	struct arax_event e = ARAX_EVENT_INIT;
	int i;

	for (i = 0; i < 3000; i++) {
		ck_assert_int_eq(go(0, &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
		ck_assert_uint_eq(e.tag, (uint64_t)i + 1);
		ck_assert_uint_eq(e.device, 3);
		ck_assert_uint_eq(e.device_ns, 5);
	}
	ck_assert_int_eq(go('e', &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), -EIO);
}
END_TEST

/* A task says which failure its program was told of last. */
START_TEST(failures_known)
{
	struct arax_event e = ARAX_EVENT_INIT;
	struct arax_desc d = { .opcode = ARAX_OP_MARKER, .event = &e };
	uint32_t i;

	for (i = 0; i < 100; i++) {
		ck_assert_int_eq(go(0, &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
		ck_assert_uint_eq(P->known, i);
		d.deadline = SOON;	/* for an extension */
		ck_assert_int_eq(arax_submit(q, &d, 1, 0), 1);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
		ck_assert(P->last.flags & ARAX_TASK_EXT);
		ck_assert_uint_eq(P->known, i);
		ck_assert_int_eq(go('e', &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), -EIO);
		ck_assert_uint_eq(P->known, i);
	}
}
END_TEST

/* What a call learns when it makes room is too late for the rest of its own tasks. */
START_TEST(failures_known_to_a_call)
{
	static const char how = 'e';
	struct arax_event e[640] = { ARAX_EVENT_INIT };
	struct arax_desc d[640] = { { 0 } };
	int i;

	for (i = 0; i < 640; i++) {
		d[i].opcode = i ? ARAX_OP_MARKER : ARAX_OP_CALL;
		d[i].event = &e[i];
	}
	d[0].args = &how;
	d[0].arg_len = 1;
	ck_assert_int_eq(arax_submit(q, d, 640, 0), 640);
	for (i = 0; i < 640; i++)
		ck_assert_int_eq(arax_wait(&e[i], SOON), i ? 0 : -EIO);
	ck_assert_uint_eq(P->known_max, 0);
	ck_assert_int_eq(arax_submit(q, &d[1], 1, 0), 1);
	ck_assert_int_eq(arax_wait(&e[1], SOON), 0);
	ck_assert_uint_eq(P->known, 1);
}
END_TEST

/* Both sides asleep in between. */
START_TEST(after_a_pause)
{
	struct arax_event e = ARAX_EVENT_INIT;
	int i;

	for (i = 0; i < 50; i++) {
		usleep(2000);
		ck_assert_int_eq(go(i % 2 ? 'd' : 0, &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
	}
	ck_assert_uint_gt(P->sleeps, 10);
	ck_assert_uint_gt(P->wakes, 10);
}
END_TEST

/* This thread and @other, each to a CPU of its own; false: there is only one. */
static bool part(pthread_t other)
{
	pthread_t who[2] = { pthread_self(), other };
	cpu_set_t all, one;
	int cpu, n = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	for (cpu = 0; cpu < CPU_SETSIZE && n < 2 && CPU_COUNT(&all) > 1; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		ck_assert_int_eq(pthread_setaffinity_np(who[n++], sizeof(one), &one), 0);
	}
	return n == 2;
}

/* Whether the peer does not sleep during a tenth of many tasks, or of those that 10 s are for. */
static bool stays_awake(void)
{
	const uint64_t end = arax_deadline(10000000000u);
	struct arax_event e = ARAX_EVENT_INIT;
	unsigned int i, before, awake = 0;

	for (i = 0; i < 4000 && now_ns() < end; i++) {
		before = P->sleeps;
		/* The first assertions that hold take a system call each, and more. */
		if (go(0, &e) || arax_wait(&e, SOON))
			ck_abort_msg("a task failed");
		awake += P->sleeps == before;
	}
	return awake > i / 10;
}

/*
 * Where waking takes longer than any spin, two that sleep once would find each other
 * asleep for ever: one of them has to stay awake for as long as that takes.
 */
START_TEST(both_asleep)
{
	struct arax_event e = ARAX_EVENT_INIT;
	unsigned int i, tries = 0;

	/* On one CPU they could not be awake at once. */
	if (!part(P->thread)) {
		be_skip("both_asleep", "there is one CPU");
		return;
	}
	P->slow_to_wake = true;
	for (i = 0; i < 40; i++) {
		usleep(3000);
		ck_assert_int_eq(go(0, &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
	}
	/* Beside others who compute they may seldom have their CPUs at the same time. */
	while (!stays_awake())
		ck_assert_uint_lt(tries++, 20);
}
END_TEST

/* And again, for those that were not held yet, until all is over. */
static void *release_later(void *arg)
{
	atomic_bool *over = arg;

	do {
		usleep(5000);
		P->release = true;
	} while (!*over);
	return NULL;
}

/* There may never be as much as that, or nothing at all, until somebody else does something. */
START_TEST(little_room)
{
	atomic_bool over = false;
	unsigned int i;
	pthread_t t;

	for (i = 0; i < 60; i++)
		ck_assert_int_eq(go('h', NULL), 0);
	for (i = 0; i < 40; i++)
		ck_assert_int_eq(go('d', NULL), 0);
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(go('h', NULL), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, release_later, &over), 0);
	ck_assert_int_eq(go(0, NULL), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	over = true;
	pthread_join(t, NULL);
}
END_TEST

/* Whether for the last of some tasks or for all of them: woken once, if at all. */
START_TEST(woken_once)
{
	struct arax_event e[8] = { ARAX_EVENT_INIT }, *all[8];
	unsigned int i, before, round;

	for (round = 0; round < 30; round++) {
		before = P->wakes;
		for (i = 0; i < 8; i++) {
			all[i] = &e[i];
			ck_assert_int_eq(go('d', &e[i]), 0);
		}
		if (round % 3 == 0)
			ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
		else if (round % 3 == 1)
			ck_assert_int_eq(arax_wait(&e[7], SOON), 0);
		else
			ck_assert_int_eq(arax_wait_all(all, 8, SOON), 0);
		ck_assert_uint_le(P->wakes - before, 1);
		ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	}
}
END_TEST

static void *finish_queue(void *arg)
{
	return (void *)(intptr_t)arax_queue_finish(arg, SOON);
}

/* What other queues do is nothing to who waits for one task of his own. */
START_TEST(a_queue_among_others)
{
	struct arax_event held = ARAX_EVENT_INIT, last = ARAX_EVENT_INIT;
	struct arax_queue *other;
	unsigned int i, before;
	pthread_t t;
	void *result;

	ck_assert_int_eq(arax_queue_create(ax, 0, 0, &other), 0);
	ck_assert_int_eq(go('h', &held), 0);
	/* It ends at once, so that the held one is no more the last. */
	ck_assert_int_eq(go(0, &last), 0);
	ck_assert_int_eq(arax_wait(&last, SOON), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, finish_queue, q), 0);
	while (!load_relaxed(&ax->ring.ctl->cq_need_wakeup))
		usleep(100);
	before = P->wakes;
	for (i = 0; i < 50; i++)
		ck_assert_int_eq(arax_call(other, 1, "d", 1, NULL, 0, NULL), 0);
	while (P->quiet + P->wakes < 51)
		usleep(1000);
	ck_assert_uint_eq(P->wakes, before);
	while (pthread_tryjoin_np(t, &result)) {
		P->release = true;
		usleep(500);
	}
	ck_assert_ptr_null(result);
	ck_assert_uint_le(P->wakes, before + 1);
	ck_assert_int_eq(arax_queue_finish(other, SOON), 0);
	arax_queue_destroy(other);
}
END_TEST

/* A full ring is filled again some tasks at a time. */
START_TEST(room_in_pieces)
{
	const unsigned int n = 3000;
	uint64_t start = now_ns();
	unsigned int i, full = 0;

	P->lag_us = 20;
	for (i = 0; i < n; i++) {
		full += !ax->ring.nr_free;
		ck_assert_int_eq(go(0, NULL), 0);
	}
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_uint_gt(full, 0);
	/* Nobody waits for more than some, nor for longer than half a millisecond if there is any. */
	ck_assert_uint_lt(full, n / 3 + (now_ns() - start) / 500000);
}
END_TEST

/*
 * One sleeps for all of its queue, others for one of its tasks each, and come when it
 * sleeps already: what they wait for wakes it nevertheless.
 */
START_TEST(sleepers_for_less)
{
	struct arax_event held[4] = { ARAX_EVENT_INIT }, e = ARAX_EVENT_INIT;
	unsigned int round, i;
	pthread_t t;
	void *result;

	for (round = 0; round < 60; round++) {
		for (i = 0; i < 4; i++)
			ck_assert_int_eq(go('h', &held[i]), 0);
		ck_assert_int_eq(pthread_create(&t, NULL, finish_queue, q), 0);
		usleep(round % 20 * 100);
		ck_assert_int_eq(go('d', &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
		while (pthread_tryjoin_np(t, &result)) {
			P->release = true;
			usleep(500);
		}
		ck_assert_ptr_null(result);
		P->release = false;
	}
}
END_TEST

static void let_go(struct arax_event *e)
{
	P->release = true;
}

static void *submit_noted(void *arg)
{
	usleep(2000);
	return (void *)(intptr_t)go('d', arg);
}

/*
 * What another task's notify does may be what ends the one that is waited for: who sleeps
 * is to learn of that end, also if it has been submitted only since.
 */
START_TEST(notify_while_asleep)
{
	struct arax_event held = ARAX_EVENT_INIT, noted = ARAX_EVENT_INIT;
	unsigned int round;
	pthread_t t;
	void *result;

	noted.notify = let_go;
	for (round = 0; round < 12; round++) {
		ck_assert_int_eq(go('h', &held), 0);
		if (round % 2)
			ck_assert_int_eq(go('d', &noted), 0);
		else
			ck_assert_int_eq(pthread_create(&t, NULL, submit_noted, &noted), 0);
		if (round % 3)
			ck_assert_int_eq(arax_wait(&held, SOON), 0);
		else
			ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
		if (round % 2 == 0) {
			pthread_join(t, &result);
			ck_assert_ptr_null(result);
		}
		ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
		ck_assert_int_eq(arax_event_done(&noted), 1);
		P->release = false;
	}
}
END_TEST

static void *get_poll_fd(void *arg)
{
	atomic_int *fd = arg;

	*fd = arax_poll_fd(ax);
	return NULL;
}

static pthread_t arming;
static atomic_int armed_fd;
static struct arax_event *armed_beside;

/* Asked just before it sleeps: now somebody else begins to poll. */
static struct wake arm_now(void *arg)
{
	struct arax_ring_ctl *ctl = ax->ring.ctl;

	if (!load_acquire(&ax->armed)) {
		ck_assert_int_eq(pthread_create(&arming, NULL, get_poll_fd, &armed_fd), 0);
		while (!load_relaxed(&ctl->cq_need_wakeup))
			usleep(100);
	}
	return (struct wake){ .why = ARAX_WAKE_FOR, .ticket = armed_beside->ticket };
}

static bool beside_done(void *arg)
{
	return arax_event_done(arg);
}

static void *wait_and_arm(void *arg)
{
	return (void *)(intptr_t)wait_until(ax, beside_done, arm_now, arg, SOON);
}

/* Who polls is told of what the sleeper doesn't wait for, however late he came. */
START_TEST(poll_from_now_on)
{
	struct arax_event held = ARAX_EVENT_INIT, polled = ARAX_EVENT_INIT;
	struct pollfd fd = { .events = POLLIN };
	pthread_t t;
	void *result;

	armed_beside = &held;
	armed_fd = -1;
	ck_assert_int_eq(go('h', &held), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, wait_and_arm, &held), 0);
	while (armed_fd < 0)
		usleep(100);
	fd.fd = armed_fd;
	usleep(20000);
	ck_assert_int_eq(go('d', &polled), 0);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	P->release = true;
	pthread_join(t, &result);
	ck_assert_ptr_null(result);
	pthread_join(arming, NULL);
	ck_assert_int_eq(arax_event_done(&polled), 1);
}
END_TEST

/* Ten times the ring's depth, with nobody waiting in between. */
START_TEST(more_than_fits)
{
	struct arax_event e[640] = { ARAX_EVENT_INIT };
	struct arax_event *list[640];
	struct arax_desc d[640] = { { 0 } };
	int i;

	for (i = 0; i < 640; i++) {
		d[i].opcode = ARAX_OP_MARKER;
		d[i].event = list[i] = &e[i];
	}
	ck_assert_int_eq(arax_submit(q, d, 640, 0), 640);
	ck_assert_int_eq(arax_wait_all(list, 640, SOON), 0);
	for (i = 0; i < 640; i++)
		ck_assert_uint_eq(e[i].tag, (uint64_t)i + 1);
}
END_TEST

START_TEST(no_room_no_wait)
{
	struct arax_desc d[70] = { { 0 } };
	char how = 'h';
	int i;

	for (i = 0; i < 70; i++) {
		d[i].opcode = ARAX_OP_CALL;
		d[i].args = &how;
		d[i].arg_len = 1;
	}
	ck_assert_int_eq(arax_submit(q, d, 70, ARAX_SUBMIT_NOWAIT), 64);
	ck_assert_int_eq(arax_submit(q, d, 70, ARAX_SUBMIT_NOWAIT), -EAGAIN);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "64 tasks"));
	ck_assert_int_eq(arax_queue_finish(q, arax_deadline(20000000)), -ETIMEDOUT);
	P->release = true;
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_int_eq(arax_submit(q, d, 1, ARAX_SUBMIT_NOWAIT), 1);
	P->release = true;
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
}
END_TEST

/* Who does nothing but submit is told of room, and of the end. */
START_TEST(nobody_else_looks)
{
	const uint64_t end = SOON;
	struct arax_desc d[64] = { { 0 } };
	struct arax_event e = ARAX_EVENT_INIT;
	char how = 'h';
	int i, ret;

	for (i = 0; i < 64; i++) {
		d[i].opcode = ARAX_OP_CALL;
		d[i].args = &how;
		d[i].arg_len = 1;
	}
	d[0].event = &e;
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(arax_submit(q, d, 64, ARAX_SUBMIT_NOWAIT), 64);
		ck_assert_int_eq(arax_submit(q, d + 1, 1, ARAX_SUBMIT_NOWAIT), -EAGAIN);
		while (P->nr_held < 64)
			usleep(100);
		P->release = true;
		while ((ret = arax_submit(q, d + 1, 1, ARAX_SUBMIT_NOWAIT)) == -EAGAIN)
			ck_assert_uint_lt(now_ns(), end);
		ck_assert_int_eq(ret, 1);
		do {
			P->release = true;
			ret = arax_queue_finish(q, arax_deadline(10000000));
		} while (ret == -ETIMEDOUT && now_ns() < end);
		P->release = false;
		ck_assert_int_eq(ret, 0);
		ck_assert_int_eq(arax_event_done(&e), 1);
		ck_assert_int_eq(e.result, 0);
	}
	ck_assert_int_eq(arax_submit(q, d, 64, ARAX_SUBMIT_NOWAIT), 64);
	close(P->hup[1]);
	P->hup[1] = -1;
	while ((ret = arax_submit(q, d + 1, 1, ARAX_SUBMIT_NOWAIT)) == -EAGAIN)
		ck_assert_uint_lt(now_ns(), end);
	ck_assert_int_eq(ret, -ENOTCONN);
	ck_assert_int_eq(e.result, -EOWNERDEAD);
}
END_TEST

START_TEST(any_of_some)
{
	struct arax_event held = ARAX_EVENT_INIT, quick = ARAX_EVENT_INIT;
	struct arax_event *list[] = { &held, &quick };

	ck_assert_int_eq(go('h', &held), 0);
	ck_assert_int_eq(go('d', &quick), 0);
	ck_assert_int_eq(arax_wait_any(list, 2, SOON), 1);
	ck_assert_int_eq(arax_test(&held), 0);
	ck_assert_int_eq(arax_wait(&held, arax_deadline(5000000)), -ETIMEDOUT);
	ck_assert_int_eq(arax_wait(&held, 1), -ETIMEDOUT);
	ck_assert_int_eq(go(0, &held), -EBUSY);
	P->release = true;
	ck_assert_int_eq(arax_wait_all(list, 2, SOON), 0);
	ck_assert_int_eq(arax_test(&held), 1);
}
END_TEST

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Who waits for any of many looks at the clock, and goes to sleep, as soon as for any of two. */
START_TEST(any_of_many)
{
	static struct arax_event *list[1 << 14];
	struct arax_event held = ARAX_EVENT_INIT;
	const size_t nr = sizeof(list) / sizeof(list[0]);
	uint64_t look, took;
	unsigned int done = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		list[i] = &held;
	ck_assert_int_eq(go('h', &held), 0);
	look = cpu_ns();
	for (i = 0; i < nr; i++)
		done += arax_event_done(list[i]);
	took = cpu_ns();
	look = took - look;
	ck_assert_int_eq(arax_wait_any(list, nr, arax_deadline(1000)), -ETIMEDOUT);
	took = cpu_ns() - took;
	ck_assert_uint_eq(done, 0);
	ck_assert_uint_lt(took, 300 * look);
	P->release = true;
	ck_assert_int_eq(arax_wait_any(list, nr, SOON), 0);
}
END_TEST

START_TEST(texts)
{
	ck_assert_str_eq(arax_strerror(0), "success");
	ck_assert_str_eq(arax_strerror(-EBUSY), "in use");
	ck_assert_str_eq(arax_strerror(EBUSY), "in use");
	ck_assert_ptr_nonnull(strstr(arax_strerror(-ENOEXEC), "no device has this kernel"));
	ck_assert_ptr_nonnull(strstr(arax_strerror(-EIO), "lost with a device"));
	ck_assert_str_eq(arax_strerror(INT32_MIN), "unknown error");
	ck_assert_str_eq(arax_strerror(INT32_MAX), "unknown error");
}
END_TEST

START_TEST(wrong_events)
{
	struct arax_event e = ARAX_EVENT_INIT;
	struct arax_event *list[] = { &e };

	ck_assert_int_eq(arax_wait(&e, SOON), -EINVAL);
	ck_assert_int_eq(arax_wait_any(list, 1, SOON), -EINVAL);
	ck_assert_int_eq(arax_wait_any(list, 0, SOON), -EINVAL);
	ck_assert_int_eq(arax_wait_all(list, 1, SOON), -EINVAL);
	ck_assert_int_eq(arax_test(&e), -EINVAL);
	ck_assert_int_eq(arax_cancel(&e), -EINVAL);
}
END_TEST

START_TEST(failures_without_an_event)
{
	ck_assert_int_eq(go(0, NULL), 0);
	ck_assert_int_eq(go('e', NULL), 0);
	ck_assert_int_eq(go(0, NULL), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), -EIO);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
}
END_TEST

static int notified;
static struct arax_event again;

static void on_end(struct arax_event *e)
{
	/* Submitting from here, with the very same event, is allowed. */
	if (++notified < 100)
		ck_assert_int_eq(go(0, e), 0);
}

START_TEST(notify_by_poll)
{
	struct pollfd fd = { .fd = arax_poll_fd(ax), .events = POLLIN };
	int n;

	notified = 0;
	again = (struct arax_event)ARAX_EVENT_INIT;
	again.notify = on_end;
	ck_assert_int_ge(fd.fd, 0);
	ck_assert_int_eq(arax_poll_fd(ax), fd.fd);
	ck_assert_int_eq(poll(&fd, 1, 5), 0);
	ck_assert_int_eq(go(0, &again), 0);
	while (notified < 100) {
		ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
		n = arax_process(ax);
		ck_assert_int_ge(n, 0);
	}
	ck_assert_int_eq(arax_process(ax), 0);
	ck_assert_int_eq(poll(&fd, 1, 5), 0);
	ck_assert_int_eq(arax_wait(&again, SOON), -EINVAL);
	ck_assert_int_eq(go('x', NULL), 0);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	while ((n = arax_process(ax)) > 0)
		;
	ck_assert_int_eq(n, -ENOTCONN);
}
END_TEST

static unsigned int notes_deep, notes_made, notes_wanted;

static void on_end_submit(struct arax_event *e)
{
	/* One behind the other: else the stack would grow with the number of tasks. */
	ck_assert_uint_eq(++notes_deep, 1);
	if (notes_made < notes_wanted) {
		notes_made++;
		ck_assert_int_eq(go(0, e), 0);
		ck_assert_int_eq(go(0, NULL), 0);
	}
	notes_deep--;
}

/* What submits for each that ends, to a ring that is full, takes the ends of others there. */
START_TEST(notify_by_notify)
{
	static struct arax_event e[64];
	unsigned int i;

	arax_close(ax);
	start(16, 128, 4096);
	notes_made = notes_deep = 0;
	notes_wanted = 20000;
	for (i = 0; i < 64; i++) {
		e[i] = (struct arax_event){ .notify = on_end_submit };
		ck_assert_int_eq(go(0, &e[i]), 0);
	}
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_uint_eq(notes_made, notes_wanted);
}
END_TEST

static struct arax *closed_by_a_notify;
static int notes_at_close;

static void on_end_count(struct arax_event *e)
{
	notes_at_close++;
	free(e);
}

static void on_end_close(struct arax_event *e)
{
	ck_assert_int_eq(arax_close(closed_by_a_notify), 0);
	/* None is left that would be called when the rest is gone. */
	ck_assert_int_eq(notes_at_close, 4);
}

START_TEST(close_in_a_notify)
{
	struct arax_event closes = { .notify = on_end_close }, *e;
	struct arax *mine;
	unsigned int i;

	closed_by_a_notify = ax;
	notes_at_close = 0;
	for (i = 0; i < 4; i++) {
		e = calloc(1, sizeof(*e));
		e->notify = on_end_count;
		ck_assert_int_eq(go('h', e), 0);
	}
	start(64, 128, 16384);
	mine = ax;
	ck_assert_int_eq(go(0, &closes), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_int_eq(notes_at_close, 4);
	ax = mine;
}
END_TEST

static int refused_to_close;

static void on_end_close_own(struct arax_event *e)
{
	ck_assert_int_eq(arax_close(closed_by_a_notify), -EDEADLK);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "in a notify"));
	refused_to_close++;
}

/* Whoever makes the call, it goes on with the context, which is whole. */
START_TEST(close_of_the_callers)
{
	struct arax_event e = { .notify = on_end_close_own }, plain;
	uint64_t until = SOON;
	int i;

	closed_by_a_notify = ax;
	refused_to_close = 0;
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(go(0, &e), 0);
		if (_i == 0)
			ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
		plain = (struct arax_event)ARAX_EVENT_INIT;
		if (_i == 1) {
			ck_assert_int_eq(go(0, &plain), 0);
			ck_assert_int_eq(arax_wait(&plain, SOON), 0);
		}
		while (refused_to_close == i && now_ns() < until)
			ck_assert_int_ge(arax_process(ax), 0);
		ck_assert_int_eq(refused_to_close, i + 1);
	}
	/* Nor while it is closed. */
	ck_assert_int_eq(go('h', &e), 0);
	ck_assert_int_eq(arax_close(ax), 0);
	ck_assert_int_eq(refused_to_close, 4);
	start(64, 128, 16384);
}
END_TEST

static struct arax *outer;

/* One on an inner context, one on the outer one, which is waited for; their notifies count @calls. */
static void on_both(struct arax_event *on_inner, char how, struct arax_event *on_outer, int calls)
{
	struct arax_queue *outer_queue = q;

	refused_to_close = 0;
	outer = ax;
	start(64, 128, 16384);
	ck_assert_int_eq(go(how, on_inner), 0);
	q = outer_queue;
	ck_assert_int_eq(go(0, on_outer), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_int_eq(refused_to_close, calls);
	ax = outer;
}

/* Within the close of the inner one, within a call with the outer one. */
static void on_end_close_both(struct arax_event *e)
{
	ck_assert_int_eq(arax_close(ax), -EDEADLK);
	ck_assert_int_eq(arax_close(outer), -EDEADLK);
	refused_to_close++;
}

static void on_end_close_inner(struct arax_event *e)
{
	ck_assert_int_eq(arax_close(ax), 0);
	ck_assert_int_eq(arax_close(outer), -EDEADLK);
	refused_to_close++;
}

START_TEST(close_of_the_callers_callers)
{
	struct arax_event both = { .notify = on_end_close_both };
	struct arax_event inner = { .notify = on_end_close_inner };

	on_both(&both, 'h', &inner, 2);
}
END_TEST

static struct arax_event of_inner;

/* The call with the inner one has returned, whoever called this. */
static void on_end_close_own_inner(struct arax_event *e)
{
	ck_assert_int_eq(arax_close(ax), 0);
	refused_to_close++;
}

static void on_end_process_inner(struct arax_event *e)
{
	uint64_t until = SOON;

	while (!arax_process(ax))
		ck_assert_uint_lt(now_ns(), until);
	ck_assert_int_eq(refused_to_close, 0);
}

START_TEST(close_behind_a_call)
{
	struct arax_event e = { .notify = on_end_process_inner };

	of_inner = (struct arax_event){ .notify = on_end_close_own_inner };
	on_both(&of_inner, 0, &e, 1);
}
END_TEST

static void *wait_again(void *arg)
{
	struct arax_event e = ARAX_EVENT_INIT;
	unsigned int i;

	for (i = 0; i < 3000; i++) {
		ck_assert_int_eq(go(0, &e), 0);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
	}
	return NULL;
}

/* From the first arax_poll_fd() on every completion wakes, whoever sleeps and wakes beside. */
START_TEST(poll_wakes_always)
{
	pthread_t t[4];
	unsigned int i, before;

	ck_assert_int_ge(arax_poll_fd(ax), 0);
	before = P->quiet;
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, wait_again, NULL), 0);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(P->quiet, before);
}
END_TEST

/* Somebody who waits takes what another polls for: the poller must hear of it. */
START_TEST(poll_beside_wait)
{
	struct arax_event polled = ARAX_EVENT_INIT, waited = ARAX_EVENT_INIT;
	struct pollfd fd = { .fd = arax_poll_fd(ax), .events = POLLIN };
	int i;

	for (i = 0; i < 200; i++) {
		ck_assert_int_eq(go(0, &polled), 0);
		ck_assert_int_eq(go(i % 8 ? 0 : 'd', &waited), 0);
		ck_assert_int_eq(arax_wait(&waited, SOON), 0);
		ck_assert_int_eq(arax_event_done(&polled), 1);
		ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
		arax_process(ax);
	}
}
END_TEST

/* ------------------------------------------------------------------ */
/* Entries                                                             */

START_TEST(extension)
{
	struct arax_buffer b = { .bytes = 4096, .handle = 0x77 };
	struct arax_timeline t = { .ax = ax, .handle = 0x55 };
	struct arax_range r[10];
	struct arax_event e = ARAX_EVENT_INIT;
	uint8_t args[300];
	struct arax_desc d = {
		.opcode = ARAX_OP_CALL,
		.service = 9,
		.args = args,
		.arg_len = sizeof(args),
		.ranges = r,
		.nr_ranges = 10,
		.deadline = 12345,
		.wait = &t,
		.wait_value = 6,
		.signal = &t,
		.signal_value = 7,
		.event = &e,
	};
	unsigned int i, round;

	for (i = 0; i < 10; i++)
		r[i] = arax_part(&b, 1 + i % 3, i * 8, 8);
	for (round = 0; round < 500; round++) {
		memset(args, (int)round, sizeof(args));
		ck_assert_int_eq(arax_submit(q, &d, 1, 0), 1);
		ck_assert_int_eq(arax_wait(&e, SOON), 0);
		ck_assert_uint_eq(P->last.nr_ranges, 2);
		ck_assert_uint_eq(P->last.arg_len, 0);
		ck_assert_uint_eq(P->last.kernel, 9);
		ck_assert_uint_eq(P->ext.size, sizeof(struct arax_task_ext));
		ck_assert_uint_eq(P->ext.nr_ranges, 8);
		ck_assert_uint_eq(P->ext.arg_len, 300);
		ck_assert_uint_eq(P->ext.deadline_ns, 12345);
		ck_assert_uint_eq(P->ext.wait_timeline, 0x55);
		ck_assert_uint_eq(P->ext.wait_value, 6);
		ck_assert_uint_eq(P->ext.signal_timeline, 0x55);
		ck_assert_uint_eq(P->ext.signal_value, 7);
		ck_assert_mem_eq(P->last.ranges, r, sizeof(P->last.ranges));
		ck_assert_mem_eq(P->ranges, r + 2, 8 * sizeof(*r));
		ck_assert_mem_eq(P->args, args, sizeof(args));
	}
	/* Small arguments stay in the entry even if an extension is there. */
	d.arg_len = 1;
	args[0] = 0;
	ck_assert_int_eq(arax_submit(q, &d, 1, 0), 1);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_uint_eq(P->last.arg_len, 1);
	ck_assert_uint_eq(P->ext.arg_len, 0);
}
END_TEST

/* The arena runs full again and again while the consumer lags. */
START_TEST(arena_backpressure)
{
	uint8_t args[4000] = { 0 };
	struct arax_desc d[60] = { { 0 } };
	int i;

	P->lag_us = 200;
	for (i = 0; i < 60; i++) {
		d[i].opcode = ARAX_OP_CALL;
		d[i].args = args;
		d[i].arg_len = sizeof(args);
	}
	i = arax_submit(q, d, 60, ARAX_SUBMIT_NOWAIT);
	ck_assert_int_ge(i, 4);
	ck_assert_int_lt(i, 60);
	ck_assert_int_eq(arax_submit(q, d, 60, 0), 60);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
}
END_TEST

START_TEST(wide_entries)
{
	struct arax_buffer b = { .bytes = 4096, .handle = 0x77 };
	struct arax_range r[6];
	struct arax_event e = ARAX_EVENT_INIT;
	unsigned int i;

	arax_close(ax);
	start(64, 256, 0);
	for (i = 0; i < 6; i++)
		r[i] = arax_part(&b, ARAX_IN, i, 1);
	ck_assert_int_eq(arax_call(q, 1, NULL, 0, r, 6, &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_uint_eq(P->last.nr_ranges, 6);
	ck_assert_uint_eq(P->last.flags & ARAX_TASK_EXT, 0);
	/* There is no arena: what doesn't fit the entry never will. */
	ck_assert_int_eq(arax_call(q, 1, r, 20, r, 6, &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "arena_size"));
}
END_TEST

static const struct arax_task_short *launched(const struct arax_kernel *k, struct arax_grid g,
					      const struct arax_range *r, uint32_t len)
{
	struct arax_event e = ARAX_EVENT_INIT;

	ck_assert_int_eq(arax_launch(q, k, g, "abcdefghijklmnopqrst", len, r, k->sig.nr_ranges, &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_uint_eq(P->last.kernel, k->id);
	ck_assert_uint_eq(P->last.queue, 0x100001);
	return (const void *)&P->last;
}

#define WHOLE_ENTRY(k, g, r) \
	ck_assert_uint_eq(launched(&(k), g, r, (k).sig.arg_len)->flags & ARAX_TASK_SHORT, 0)

/* What fits a line is written so, where it is taken; nothing else is. */
START_TEST(short_entries)
{
	struct arax_buffer b = { .bytes = 4096, .handle = 0x77 };
	struct arax_range r[2] = { arax_in(&b), arax_out(&b) }, bad[2];
	struct arax_kernel two = {
		.id = 4, .sig = { .nr_ranges = 2, .arg_len = 16,
				  .access = ARAX_IN | ARAX_OUT << 2 },
	};
	struct arax_kernel none = { .id = 5 }, own = { .id = ARAX_KERNEL_OWN | 5 };
	struct arax_kernel much = { .id = 6, .sig.arg_len = 17 };
	const struct arax_task_short *s;

	ck_assert_uint_eq(launched(&two, arax_grid(3, 1, 1), r, 16)->flags, 0);
	arax_close(ax);
	entry_sizes = 64 | 128 | 256;
	start(64, 128, 16384);
	entry_sizes = 0;
	s = launched(&two, arax_grid(3, 1, 1), r, 16);
	ck_assert_uint_eq(s->flags, ARAX_TASK_SHORT);
	ck_assert_uint_eq(s->opcode, ARAX_OP_LAUNCH);
	ck_assert_uint_eq(s->nr_ranges, 2);
	ck_assert_uint_eq(s->grid, 3);
	ck_assert_uint_eq(s->known, 0);
	ck_assert_uint_eq(s->buffer[0], 0x77);
	ck_assert_uint_eq(s->buffer[1], 0x77);
	ck_assert_uint_eq(s->length[0], 4096);
	ck_assert_uint_eq(s->length[1], 4096);
	ck_assert_mem_eq(s->args, "abcdefghijklmnop", 16);
	s = launched(&none, (struct arax_grid){ 0 }, NULL, 0);
	ck_assert_uint_eq(s->flags, ARAX_TASK_SHORT);
	ck_assert_uint_eq(s->nr_ranges, 0);
	ck_assert_uint_eq(s->grid, 1);
	ck_assert_uint_eq(s->buffer[0] | s->buffer[1] | s->length[0] | s->length[1], 0);
	/* Whatever else there is to be said takes a whole one. */
	WHOLE_ENTRY(two, arax_grid(3, 2, 1), r);
	WHOLE_ENTRY(two, arax_grid(3, 1, 2), r);
	WHOLE_ENTRY(two, ((struct arax_grid){ .block = { 2, 1, 1 } }), r);
	WHOLE_ENTRY(two, ((struct arax_grid){ .block = { 1, 1, 2 } }), r);
	WHOLE_ENTRY(own, arax_grid(1, 1, 1), NULL);
	memcpy(bad, r, sizeof(bad));
	bad[1].offset = 64;
	WHOLE_ENTRY(two, arax_grid(1, 1, 1), bad);
	memcpy(bad, r, sizeof(bad));
	bad[0].length = 1ull << 32;
	WHOLE_ENTRY(two, arax_grid(1, 1, 1), bad);
	memcpy(bad, r, sizeof(bad));
	bad[0].count = 2;
	bad[0].stride = 4096;
	WHOLE_ENTRY(two, arax_grid(1, 1, 1), bad);
	s = launched(&much, arax_grid(1, 1, 1), NULL, 17);
	ck_assert_uint_eq(s->flags, ARAX_TASK_EXT);
	/* A failure that it knows of is told. */
	ck_assert_int_eq(go('e', NULL), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), -EIO);
	ck_assert_uint_eq(launched(&none, arax_grid(1, 1, 1), NULL, 0)->known, 1);
}
END_TEST

START_TEST(refused_at_once)
{
	struct arax_buffer b = { .bytes = 4096, .handle = 0x77 };
	struct arax_kernel k = {
		.id = 4,
		.sig = { .nr_ranges = 2, .arg_len = 4, .access = ARAX_IN | ARAX_OUT << 2 },
		.name = "scale",
	};
	struct arax_range r[33] = { arax_in(&b), arax_out(&b) };
	struct arax_desc d = { .opcode = ARAX_OP_CALL };
	static uint8_t args[ARAX_MAX_ARGS + 1];
	struct arax_event e = ARAX_EVENT_INIT;
	int a = 0, i;

	ck_assert_int_eq(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(a), r, 2, &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_uint_eq(P->last.kernel, 4);
	ck_assert_int_eq(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(a), r, 1, &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "scale takes 2 ranges and 4 bytes"));
	ck_assert_int_eq(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_NO_ARGS, r, 2, &e), -EINVAL);
	r[1].access = ARAX_INOUT;
	ck_assert_int_eq(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(a), r, 2, &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "range 1 is declared out"));
	r[1].access = ARAX_OUT | 4;
	ck_assert_int_eq(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(a), r, 2, &e), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "range 1 is declared out"));
	ck_assert_int_eq(arax_launch(q, NULL, arax_grid(1, 1, 1), ARAX_NO_ARGS, r, 0, &e),
			 -EINVAL);
	ck_assert_int_eq(arax_call(q, 1, NULL, 0, r, 33, &e), -EINVAL);
	ck_assert_int_eq(arax_call(q, 1, args, sizeof(args), NULL, 0, &e), -EINVAL);
	ck_assert_int_eq(arax_fill(q, r[0], args, 3, &e), -EINVAL);
	ck_assert_int_eq(arax_fill(q, r[0], args, 0, &e), -EINVAL);
	ck_assert_int_eq(arax_fill(q, r[0], args, 32, &e), -EINVAL);
	d.flags = ARAX_TASK_SILENT;
	ck_assert_int_eq(arax_submit(q, &d, 1, 0), -EOPNOTSUPP);
	d.flags = 0;
	ck_assert_int_eq(arax_submit(q, &d, 1, 0x80), -EOPNOTSUPP);
	d.opcode = ARAX_OP_MAX;
	ck_assert_int_eq(arax_submit(q, &d, 1, 0), -EINVAL);
	d.opcode = ARAX_OP_MARKER;
	for (i = 0; i < 2; i++) {
		d.reserved[i] = 1ull << 40;
		ck_assert_int_eq(arax_submit(q, &d, 1, 0), -EINVAL);
		ck_assert_ptr_nonnull(strstr(arax_error_text(), "arax_desc.reserved"));
		d.reserved[i] = 0;
	}
	/* The event is as good as unused after all that. */
	ck_assert_int_eq(go(0, &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_int_eq(arax_queue_create(ax, 0, 20, &q), -EINVAL);
}
END_TEST

START_TEST(queue_options)
{
	struct {
		struct arax_queue_options o;
		uint64_t newer;
	} x = { .o = {
		.size = sizeof(x.o), .flags = ARAX_QUEUE_DATAFLOW, .priority = -3,
		.target_ns = 5000000,
	} };
	struct arax_queue *mine;

	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), 0);
	ck_assert_uint_eq(P->queue.flags, ARAX_QUEUE_DATAFLOW);
	ck_assert_int_eq(P->queue.priority, -3);
	ck_assert_uint_eq(P->queue.target_ns, 5000000);
	arax_queue_destroy(mine);
	x.o.size = sizeof(x);	/* a newer program that asks for nothing new */
	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), 0);
	arax_queue_destroy(mine);
	x.newer = 1;
	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), -E2BIG);
	x.o.size = sizeof(x.o) - 1;
	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), -EINVAL);
	x.o.size = sizeof(x.o);
	x.o.reserved[3] = 1;
	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), -E2BIG);
	x.o.reserved[3] = 0;
	x.o.target_ns = ARAX_TARGET_MAX + 1;
	ck_assert_int_eq(arax_queue_create_with(ax, &x.o, &mine), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "target"));
}
END_TEST

/* ------------------------------------------------------------------ */
/* Ends                                                                */

START_TEST(link_dies)
{
	struct arax_event held = ARAX_EVENT_INIT, last = ARAX_EVENT_INIT;

	ck_assert_int_eq(go('h', &held), 0);
	ck_assert_int_eq(go('x', &last), 0);
	ck_assert_int_eq(arax_wait(&last, SOON), -EOWNERDEAD);
	ck_assert_int_eq(arax_wait(&held, SOON), -EOWNERDEAD);
	/* A daemon may have had it, and it has no tag by which anybody would know. */
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "in flight"));
	ck_assert_ptr_null(strstr(arax_error_text(), "before a daemon"));
	ck_assert_int_eq(go(0, &held), -ENOTCONN);
	ck_assert_int_eq(arax_queue_create(ax, 0, 0, &q), -ENOTCONN);
}
END_TEST

/* A program that only looks must see the end as well. */
START_TEST(link_dies_while_testing)
{
	struct arax_event e = ARAX_EVENT_INIT;
	uint64_t end = SOON;

	ck_assert_int_eq(go('x', &e), 0);
	while (!arax_test(&e))
		ck_assert_uint_lt(now_ns(), end);
	ck_assert_int_eq(e.result, -EOWNERDEAD);
}
END_TEST

START_TEST(link_dies_while_processing)
{
	struct arax_event e = ARAX_EVENT_INIT;
	uint64_t end = SOON;
	int n;

	ck_assert_int_eq(go('x', &e), 0);
	while ((n = arax_process(ax)) >= 0)
		ck_assert_uint_lt(now_ns(), end);
	ck_assert_int_eq(n, -ENOTCONN);
	ck_assert_int_eq(e.result, -EOWNERDEAD);
}
END_TEST

/* Nor does it matter how often, and in which order, other contexts are looked at. */
START_TEST(link_dies_beside_another)
{
	struct arax_event e = ARAX_EVENT_INIT, held = ARAX_EVENT_INIT;
	struct arax *dies = ax;
	uint64_t end = SOON;

	ck_assert_int_eq(go('x', &e), 0);
	start(64, 128, 16384);
	ck_assert_int_eq(go('h', &held), 0);
	while (!arax_test(&e)) {
		ck_assert_int_eq(arax_test(&held), 0);
		ck_assert_uint_lt(now_ns(), end);
	}
	ck_assert_int_eq(e.result, -EOWNERDEAD);
	P->release = true;
	ck_assert_int_eq(arax_wait(&held, SOON), 0);
	arax_close(dies);
}
END_TEST

START_TEST(context_killed)
{
	struct arax_event e = ARAX_EVENT_INIT;
	const uint64_t one = 1;

	ck_assert_int_eq(go('h', &e), 0);
	ck_assert_int_eq(arax_wait(&e, arax_deadline(5000000)), -ETIMEDOUT);
	store_relaxed(&((struct arax_ring_ctl *)P->region)->dead, EPIPE);
	ck_assert_int_eq(write(P->wake_fd, &one, 8), 8);
	ck_assert_int_eq(arax_wait(&e, SOON), -EPIPE);
	ck_assert_int_eq(go(0, &e), -EPIPE);
}
END_TEST

/* araxd was told to end: nobody has killed the context. */
START_TEST(daemon_ends)
{
	struct arax_event e = ARAX_EVENT_INIT;
	const uint64_t one = 1;

	ck_assert_int_eq(go('h', &e), 0);
	store_relaxed(&((struct arax_ring_ctl *)P->region)->dead, EOWNERDEAD);
	ck_assert_int_eq(write(P->wake_fd, &one, 8), 8);
	ck_assert_int_eq(arax_wait(&e, SOON), -EOWNERDEAD);
	ck_assert_int_eq(go(0, &e), -ENOTCONN);
	ck_assert_int_eq(arax_process(ax), -ENOTCONN);
}
END_TEST

/* What was to be written has not been, though nothing is in flight any more. */
START_TEST(access_to_what_is_dead)
{
	const struct arax_range range = {
		.buffer = 1, .access = ARAX_IN, .length = 8, .count = 1,
	};
	struct arax_event e = ARAX_EVENT_INIT;

	ck_assert_int_eq(go('h', &e), 0);
	store_relaxed(&((struct arax_ring_ctl *)P->region)->dead, EPIPE);
	ck_assert_int_eq(arax_wait(&e, SOON), -EPIPE);
	ck_assert_int_eq(arax_access_begin(q, range, SOON), -EPIPE);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "the context is dead"));
}
END_TEST

/* Their events would not fit where an address has 32 bits. */
START_TEST(access_to_too_much)
{
	const struct arax_range range = { .buffer = 1, .access = ARAX_IN, .count = 1 };

	ck_assert_int_eq(arax_access_begin_all(q, &range, UINT32_MAX / sizeof(range), SOON), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "at a time"));
}
END_TEST

START_TEST(process_what_is_dead)
{
	store_relaxed(&((struct arax_ring_ctl *)P->region)->dead, EPIPE);
	ck_assert_int_eq(arax_process(ax), -EPIPE);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "the context is dead"));
}
END_TEST

static void end_context(void)
{
	const uint64_t one = 1;

	store_relaxed(&((struct arax_ring_ctl *)P->region)->dead, EPIPE);
	ck_assert_int_eq(write(P->wake_fd, &one, 8), 8);
}

/* It is told of behind what ended before it, and whoever else looks: the descriptor stays readable. */
START_TEST(poll_what_is_dead)
{
	struct pollfd fd = { .fd = arax_poll_fd(ax), .events = POLLIN };
	struct arax_event e = ARAX_EVENT_INIT;

	ck_assert_int_eq(go(0, &e), 0);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	end_context();
	ck_assert_int_eq(arax_process(ax), 1);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	ck_assert_int_eq(arax_process(ax), -EPIPE);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	ck_assert_int_eq(arax_process(ax), -EPIPE);
}
END_TEST

/* Somebody else saw it first, and has read what would have woken who polls. */
START_TEST(poll_beside_the_end)
{
	const struct arax_range range = {
		.buffer = 1, .access = ARAX_IN, .length = 8, .count = 1,
	};
	struct pollfd fd = { .events = POLLIN };

	if (_i) {
		fd.fd = arax_poll_fd(ax);
		ck_assert_int_eq(arax_process(ax), 0);
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
	}
	end_context();
	eventfd_empty(P->wake_fd);
	ck_assert_int_eq(arax_access_begin(q, range, SOON), -EPIPE);
	if (!_i)
		fd.fd = arax_poll_fd(ax);
	ck_assert_int_ge(fd.fd, 0);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	ck_assert_int_eq(arax_process(ax), -EPIPE);
}
END_TEST

/* What is said of a kernel that is not the context's is not said of other errors. */
START_TEST(unload_in_what_is_dead)
{
	const struct arax_kernel mine = { .id = ARAX_KERNEL_OWN | 1, .name = "mine" };

	P->kick_error = -ENOTCONN;
	ck_assert_int_eq(arax_module_unload(ax, &mine), -EOWNERDEAD);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "unloading kernel mine"));
	ck_assert_ptr_null(strstr(arax_error_text(), "none of this context's own"));
}
END_TEST

static int call_fails(struct link *l, unsigned int nr, void *arg)
{
	return -ENOSPC;
}

static _Thread_local uint64_t asked_to_nap;

int nanosleep(const struct timespec *t, struct timespec *left)
{
	asked_to_nap += (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
	return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
}

static int finds_nothing(struct link *l, unsigned int nr, void *arg)
{
	return -ENOENT;
}

/* Who waits for a kernel naps between looks, and not past his deadline. */
START_TEST(kernel_in_time)
{
	struct link_ops ops = peer_ops;
	struct arax_kernel k;
	uint64_t ns, all = 0;

	ops.call = finds_nothing;
	P->link.ops = &ops;
	for (ns = 100000; ns <= 100000000; ns *= 10) {
		asked_to_nap = 0;
		ck_assert_int_eq(arax_kernel_find(ax, "none", arax_deadline(ns), &k), -ENOENT);
		ck_assert_uint_le(asked_to_nap, ns);
		all += asked_to_nap;
	}
	ck_assert_uint_gt(all, 0);
	asked_to_nap = 0;
	ck_assert_int_eq(arax_kernel_find(ax, "none", 0, &k), -ENOENT);
	ck_assert_uint_eq(asked_to_nap, 0);
	P->link.ops = &peer_ops;
}
END_TEST

/* What the load before was told is not said of one that araxd never had. */
START_TEST(log_of_no_load)
{
	struct link_ops ops = peer_ops;
	struct arax_own_kernel k = { .signature = "k()" };
	struct arax_kernel loaded;
	char text[8] = "before";

	ops.call = call_fails;
	P->link.ops = &ops;
	ax->module_log = strdup("the one before");
	ck_assert_uint_eq(arax_module_log(ax, NULL, 0), 14);
	if (_i == 0)
		ck_assert_int_eq(arax_module_load(ax, 0, "x", 1, &k, 0, &loaded), -EINVAL);
	else if (_i == 1)
		ck_assert_int_eq(arax_module_load(ax, 0, "x", 1, &k, 1, &loaded), -ENOSPC);
	else
		ck_assert_int_eq(arax_module_load_file(ax, 0, "/none", &k, 1, &loaded), -ENOENT);
	P->link.ops = &peer_ops;
	ck_assert_uint_eq(arax_module_log(ax, text, sizeof(text)), 0);
	ck_assert_str_eq(text, "");
}
END_TEST

/* What never has a first byte is not waited for. */
START_TEST(module_of_no_file)
{
	struct arax_own_kernel k = { .signature = "k()" };
	struct arax_kernel loaded;
	char folder[64], path[96];

	be_mkdir(folder);
	snprintf(path, sizeof(path), "%s/fifo", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(arax_module_load_file(ax, 0, path, &k, 1, &loaded), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "is no regular file"));
	ck_assert_int_eq(arax_module_load_file(ax, 0, folder, &k, 1, &loaded), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "is no regular file"));
	unlink(path);
	fclose(fopen(path, "we"));
	ck_assert_int_eq(arax_module_load_file(ax, 0, path, &k, 1, &loaded), -EINVAL);
	ck_assert_ptr_nonnull(strstr(arax_error_text(), "is empty"));
	be_rmdir(folder);
}
END_TEST

/* What was published before it showed that nobody is there has been submitted, and ends. */
START_TEST(kick_fails)
{
	static const int errors[] = { -EPIPE, -ENOTCONN, -EBADF };
	struct arax_event e[3] = { ARAX_EVENT_INIT };
	struct arax_desc d[3] = { { 0 } };
	int i;

	for (i = 0; i < 3; i++) {
		d[i].opcode = ARAX_OP_MARKER;
		d[i].event = &e[i];
	}
	P->hold_all = true;
	P->kick_error = errors[_i];
	ck_assert_int_eq(arax_submit(q, d, 3, 0), 3);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(arax_wait(&e[i], SOON),
				 errors[_i] == -ENOTCONN ? -EOWNERDEAD : errors[_i]);
	ck_assert_int_eq(arax_submit(q, d, 3, 0), errors[_i]);
}
END_TEST

/* Some of its markers are submitted, and tell of their ends, the others are not. */
START_TEST(kick_fails_in_an_access)
{
	const struct arax_range r = { .buffer = 1, .access = ARAX_IN, .length = 8, .count = 1 };
	struct arax_range all[40];
	struct arax_event e = ARAX_EVENT_INIT;
	int i;

	for (i = 0; i < 40; i++)
		all[i] = r;
	P->hold_all = true;
	ck_assert_int_eq(go('h', &e), 0);
	P->kick_error = -EPIPE;
	ck_assert_int_eq(arax_access_begin_all(q, all, 40, SOON), -EPIPE);
	ck_assert_int_eq(arax_wait(&e, SOON), -EPIPE);
}
END_TEST

/* An access waits for tasks whose queue is gone, as for others: a marker asks for them. */
START_TEST(access_after_a_queue)
{
	const struct arax_range range = {
		.buffer = 1, .access = ARAX_IN, .length = 8, .count = 1,
	};
	struct arax_event e = ARAX_EVENT_INIT;
	struct arax_queue *other;

	ck_assert_int_eq(arax_queue_create(ax, 0, 0, &other), 0);
	ck_assert_int_eq(arax_access_begin(other, range, SOON), 0);
	ck_assert_uint_eq(ax->ring.sq_tail, 0);
	ck_assert_int_eq(go('h', &e), 0);
	arax_queue_destroy(q);
	ck_assert_int_eq(arax_access_begin(other, range, SOON), 0);
	ck_assert_uint_eq(ax->ring.sq_tail, 2);
	P->release = true;
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_int_eq(arax_access_begin(other, range, SOON), 0);
	ck_assert_uint_eq(ax->ring.sq_tail, 2);
}
END_TEST

START_TEST(close_with_work)
{
	struct arax_event e = ARAX_EVENT_INIT;

	ck_assert_int_eq(go('h', &e), 0);
	ck_assert_int_eq(go('h', NULL), 0);
	arax_queue_destroy(q);
	arax_close(ax);
	ck_assert_int_eq(arax_event_done(&e), 1);
	ck_assert_int_eq(e.result, -ECANCELED);
	setup();
}
END_TEST

START_TEST(after_fork)
{
	struct arax_event e = ARAX_EVENT_INIT;
	int status;
	pid_t pid;

	pthread_atfork(NULL, NULL, NULL);
	/* As another thread may, which the child does not have. */
	pthread_mutex_lock(&ax->object_lock);
	pid = fork();
	if (!pid) {
		/* What arax_open() arranges for; this context came without it. */
		process_generation++;
		if (go(0, &e) != -EPERM || arax_process(ax) != -EPERM ||
		    arax_queue_finish(q, SOON) != -EPERM || arax_poll_fd(ax) != -EPERM ||
		    arax_queue_create(ax, 0, 0, &q) != -EPERM ||
		    arax_module_load(ax, 0, "", 1, NULL, 0, NULL) != -EPERM ||
		    arax_module_load_file(ax, 0, "/none", NULL, 1, NULL) != -EPERM ||
		    arax_module_log(ax, NULL, 0))
			_exit(1);
		arax_close(ax);
		_exit(0);
	}
	pthread_mutex_unlock(&ax->object_lock);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(go(0, &e), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Threads                                                             */

static atomic_uint notes;

static void count(struct arax_event *e)
{
	notes++;
}

static void *many(void *arg)
{
	unsigned int i, seed = (unsigned int)(uintptr_t)arg;
	struct arax_event e[4] = { ARAX_EVENT_INIT }, *list[4];
	struct arax_queue *mine;

	ck_assert_int_eq(arax_queue_create(ax, 0, 0, &mine), 0);
	for (i = 0; i < 4; i++)
		list[i] = &e[i];
	for (i = 0; i < 400; i++) {
		char how = rand_r(&seed) % 64 ? 0 : 'd';
		int k;

		for (k = 0; k < 4; k++)
			ck_assert_int_eq(arax_call(mine, 1, &how, 1, NULL, 0, &e[k]), 0);
		if (i % 3 == 0)
			ck_assert_int_ge(arax_wait_any(list, 4, SOON), 0);
		ck_assert_int_eq(arax_wait_all(list, 4, SOON), 0);
		ck_assert_int_eq(arax_call(mine, 1, &how, 1, NULL, 0, NULL), 0);
		if (i % 5 == 0)
			ck_assert_int_eq(arax_queue_finish(mine, SOON), 0);
	}
	ck_assert_int_eq(arax_queue_finish(mine, SOON), 0);
	arax_queue_destroy(mine);
	return NULL;
}

START_TEST(many_threads)
{
	struct arax_event noted[16] = { ARAX_EVENT_INIT };
	pthread_t t[6];
	unsigned int i;

	notes = 0;
	for (i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, many, (void *)(uintptr_t)(i + 1)), 0);
	for (i = 0; i < 16; i++) {
		noted[i].notify = count;
		ck_assert_int_eq(go(0, &noted[i]), 0);
	}
	for (i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_uint_eq(notes, 16);
	ck_assert_uint_eq(ax->ring.nr_free, 64);
}
END_TEST

static void *wait_one(void *arg)
{
	return (void *)(intptr_t)arax_wait(arg, SOON);
}

/* Everyone sleeps; what one wakes up for is another's. */
START_TEST(sleepers_hand_over)
{
	struct arax_event e[8] = { ARAX_EVENT_INIT };
	pthread_t t[8];
	unsigned int i, round;
	void *result;

	for (round = 0; round < 20; round++) {
		for (i = 0; i < 8; i++) {
			ck_assert_int_eq(go('h', &e[i]), 0);
			ck_assert_int_eq(pthread_create(&t[i], NULL, wait_one, &e[i]), 0);
		}
		usleep(round * 300);
		P->release = true;
		for (i = 0; i < 8; i++) {
			while (pthread_tryjoin_np(t[i], &result)) {
				P->release = true;	/* held after the last release */
				usleep(500);
			}
			ck_assert_ptr_null(result);
		}
		P->release = false;
	}
}
END_TEST

static atomic_int slow_note;

static void on_end_slowly(struct arax_event *e)
{
	slow_note = 1;
	while (slow_note == 1)
		usleep(100);
}

static void *process_until_noted(void *arg)
{
	while (!slow_note)
		arax_process(ax);
	return NULL;
}

static void *begin_access(void *arg)
{
	const struct arax_range r = { .buffer = 1, .access = ARAX_IN, .length = 8, .count = 1 };

	return (void *)(intptr_t)arax_access_begin(q, r, SOON);
}

/* Before the deadline of what it waits for could have helped it. */
static void join_soon(pthread_t t, void **result)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += WAIT_S / 2;
	ck_assert_int_eq(pthread_timedjoin_np(t, result, &end), 0);
}

/* Tasks are under way and someone sleeps. */
static void until_asleep(uint32_t tasks)
{
	while (P->nr_held < tasks || !load_relaxed(&ax->ring.ctl->cq_need_wakeup))
		usleep(100);
	usleep(2000);
}

/*
 * What an access waits for may be taken by another thread, which is still in some notify when
 * the one with the access looks a last time before it sleeps.
 */
START_TEST(access_beside_a_notify)
{
	struct arax_event e = ARAX_EVENT_INIT, slow = { .notify = on_end_slowly };
	const uint64_t one = 1;
	pthread_t a, b;
	void *result;

	slow_note = 0;
	P->hold_all = P->mute = true;
	ck_assert_int_eq(go(0, &e), 0);
	ck_assert_int_eq(pthread_create(&a, NULL, begin_access, NULL), 0);
	until_asleep(2);
	/* It comes first: the last one that is held is the first to be let go. */
	ck_assert_int_eq(go(0, &slow), 0);
	until_asleep(3);
	ck_assert_int_eq(pthread_create(&b, NULL, process_until_noted, NULL), 0);
	P->release = true;
	while (!slow_note)
		usleep(100);
	/* Now it sees that nothing is there, and sleeps again. */
	ck_assert_int_eq(write(P->wake_fd, &one, 8), 8);
	usleep(20000);
	slow_note = 2;
	join_soon(a, &result);
	ck_assert_ptr_null(result);
	pthread_join(b, NULL);
	/* The event is no more behind this. */
	while (!arax_event_done(&e))
		arax_process(ax);
}
END_TEST

/* One that sleeps, for all or behind another, ends; what others wait for comes to them. */
START_TEST(cancelled_while_asleep)
{
	struct arax_event *e = calloc(3, sizeof(*e));
	unsigned int gone = _i, i;
	pthread_t t[3];
	void *result;

	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(go('h', &e[i]), 0);
		ck_assert_int_eq(pthread_create(&t[i], NULL, wait_one, &e[i]), 0);
		until_asleep(i + 1);
	}
	ck_assert_int_eq(pthread_cancel(t[gone]), 0);
	join_soon(t[gone], &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	P->release = true;
	for (i = 0; i < 3; i++) {
		if (i == gone)
			continue;
		join_soon(t[i], &result);
		ck_assert_ptr_null(result);
	}
	/* Its event is as any other's. */
	ck_assert_int_eq(arax_wait(&e[gone], SOON), 0);
	free(e);
}
END_TEST

static atomic_uint calls_done;

/* As long as somebody has cancelled it already. */
static void *call_cancelled(void *arg)
{
	struct arax_event *e = arg;
	const uint64_t end = now_ns() + 20000000;

	pthread_cancel(pthread_self());
	arax_poll_fd(ax);
	calls_done = 1;
	while (now_ns() < end)
		arax_test(e);
	calls_done = 2;
	arax_process(ax);
	calls_done = 3;
	arax_close(ax);
	calls_done = 4;
	pthread_testcancel();
	return NULL;
}

/* No thread ends in what does not wait: it would leave locks, or a context, behind. */
START_TEST(cancelled_without_a_wait)
{
	struct arax_event *e = calloc(1, sizeof(*e));
	pthread_t t;
	void *result;

	ck_assert_int_eq(go('h', e), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, call_cancelled, e), 0);
	join_soon(t, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_uint_eq(calls_done, 4);
	ck_assert_int_eq(e->result, -ECANCELED);
	free(e);
	setup();
}
END_TEST

#define TAKES_US	20000	/* more than is waited for awake */

/* As long as somebody has cancelled it already, too: what is published can't be taken back. */
static void *submit_cancelled(void *arg)
{
	const struct arax_desc d = { .opcode = ARAX_OP_MARKER, .event = arg };

	pthread_cancel(pthread_self());
	if (arax_submit(q, &d, 1, ARAX_SUBMIT_NOWAIT) == 1)
		calls_done = 1;
	pthread_testcancel();
	return NULL;
}

/* Where queues wait for room a submission is in the consumer's hands when it comes back. */
START_TEST(cancelled_in_a_submission)
{
	struct arax_event first = ARAX_EVENT_INIT, e = ARAX_EVENT_INIT;
	pthread_t t;
	void *result;

	/* The consumer is busy, so nobody has to ring. */
	P->lag_us = TAKES_US;
	ck_assert_int_eq(go(0, &first), 0);
	while (load_relaxed(&((struct arax_ring_ctl *)P->region)->sq_need_wakeup))
		usleep(100);
	store_relaxed(&P->link.queues_wait, true);
	ck_assert_int_eq(pthread_create(&t, NULL, submit_cancelled, &e), 0);
	join_soon(t, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	ck_assert_uint_eq(calls_done, 1);
	P->lag_us = 0;
	ck_assert_int_eq(arax_wait(&first, SOON), 0);
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
}
END_TEST

/* What an access left is freed by whoever comes last. */
START_TEST(cancelled_in_an_access)
{
	struct arax_event e = ARAX_EVENT_INIT;
	pthread_t t;
	void *result;

	P->hold_all = true;
	ck_assert_int_eq(go(0, &e), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, begin_access, NULL), 0);
	until_asleep(2);
	pthread_cancel(t);
	join_soon(t, &result);
	ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	P->release = true;
	ck_assert_int_eq(arax_wait(&e, SOON), 0);
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
}
END_TEST

/* Where it waits for room to be submitted: it is in time, and may be cancelled, there as well. */
START_TEST(access_without_room)
{
	const struct arax_range range = {
		.buffer = 1, .access = ARAX_IN, .length = 8, .count = 1,
	};
	struct arax_range all[40];
	pthread_t t;
	void *result;
	int i;

	for (i = 0; i < 40; i++)
		all[i] = range;
	P->hold_all = true;
	for (i = 0; i < 64; i++)
		ck_assert_int_eq(go(0, NULL), 0);
	ck_assert_int_eq(arax_access_begin(q, range, 0), -ETIMEDOUT);
	ck_assert_int_eq(arax_access_begin_all(q, all, 40, arax_deadline(1000000)), -ETIMEDOUT);
	ck_assert_uint_eq(ax->ring.sq_tail, 64);
	if (BE_CANCELS) {
		ck_assert_int_eq(pthread_create(&t, NULL, begin_access, NULL), 0);
		until_asleep(64);
		pthread_cancel(t);
		join_soon(t, &result);
		ck_assert_ptr_eq(result, PTHREAD_CANCELED);
	}
	P->hold_all = false;
	P->release = true;
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	/* Of these some are submitted, and end when nobody waits for them any more. */
	P->hold_all = true;
	P->release = false;
	for (i = 0; i < 40; i++)
		ck_assert_int_eq(go(0, NULL), 0);
	ck_assert_int_eq(arax_access_begin_all(q, all, 40, arax_deadline(1000000)), -ETIMEDOUT);
	ck_assert_uint_eq(ax->ring.nr_free, 0);
	P->hold_all = false;
	P->release = true;
	ck_assert_int_eq(arax_queue_finish(q, SOON), 0);
	ck_assert_int_eq(arax_access_begin_all(q, all, 40, SOON), 0);
}
END_TEST

/* One who polls sees what comes after the one that slept is gone. */
START_TEST(cancelled_beside_a_poll)
{
	struct pollfd fd = { .fd = arax_poll_fd(ax), .events = POLLIN };
	struct arax_event waited = ARAX_EVENT_INIT, polled = ARAX_EVENT_INIT;
	pthread_t t;
	void *result;

	ck_assert_int_eq(go('h', &waited), 0);
	ck_assert_int_eq(go('h', &polled), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, wait_one, &waited), 0);
	until_asleep(2);
	P->release = true;
	pthread_cancel(t);
	pthread_join(t, &result);
	ck_assert(!result || result == PTHREAD_CANCELED);
	while (!arax_event_done(&waited) || !arax_event_done(&polled)) {
		ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
		ck_assert_int_ge(arax_process(ax), 0);
	}
}
END_TEST

/* As one that is cancelled when it has just read what woke it. */
static int sleep_and_leave(struct link *l, uint64_t deadline, uint32_t seen)
{
	struct pollfd fd = { .fd = P->wake_fd, .events = POLLIN };

	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	eventfd_empty(P->wake_fd);
	pthread_exit(PTHREAD_CANCELED);
}

START_TEST(cancelled_at_the_end)
{
	struct link_ops ops = peer_ops;
	struct pollfd fd = { .fd = arax_poll_fd(ax), .events = POLLIN };
	struct arax_event e = ARAX_EVENT_INIT;
	pthread_t t;
	void *result;

	ck_assert_int_eq(go('h', &e), 0);
	ops.sleep = sleep_and_leave;
	P->link.ops = &ops;
	ck_assert_int_eq(pthread_create(&t, NULL, wait_one, &e), 0);
	until_asleep(1);
	end_context();
	pthread_join(t, &result);
	P->link.ops = &peer_ops;
	/* It may not have come to sleep. */
	ck_assert(result == PTHREAD_CANCELED || (intptr_t)result == -EPIPE);
	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
	ck_assert_int_eq(arax_process(ax), -EPIPE);
}
END_TEST

START_TEST(link_dies_under_threads)
{
	struct arax_event e[8] = { ARAX_EVENT_INIT };
	pthread_t t[8];
	void *result;
	int i;

	for (i = 0; i < 8; i++) {
		ck_assert_int_eq(go('h', &e[i]), 0);
		ck_assert_int_eq(pthread_create(&t[i], NULL, wait_one, &e[i]), 0);
	}
	usleep(3000);
	ck_assert_int_eq(go('x', NULL), 0);
	for (i = 0; i < 8; i++) {
		pthread_join(t[i], &result);
		ck_assert_int_eq((int)(intptr_t)result, -EOWNERDEAD);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libarax-flow");
	TCase *t = tcase_create("flow");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, one_at_a_time);
	tcase_add_test(t, failures_known);
	tcase_add_test(t, failures_known_to_a_call);
	tcase_add_test(t, after_a_pause);
	tcase_add_test(t, both_asleep);
	tcase_add_test(t, a_queue_among_others);
	tcase_add_test(t, room_in_pieces);
	tcase_add_test(t, little_room);
	tcase_add_test(t, woken_once);
	tcase_add_test(t, notify_while_asleep);
	tcase_add_test(t, poll_from_now_on);
	tcase_add_test(t, more_than_fits);
	tcase_add_test(t, no_room_no_wait);
	tcase_add_test(t, nobody_else_looks);
	tcase_add_test(t, any_of_some);
	tcase_add_test(t, any_of_many);
	tcase_add_test(t, texts);
	tcase_add_test(t, wrong_events);
	tcase_add_test(t, failures_without_an_event);
	tcase_add_test(t, notify_by_poll);
	tcase_add_test(t, notify_by_notify);
	tcase_add_test(t, close_in_a_notify);
	tcase_add_loop_test(t, close_of_the_callers, 0, 3);
	tcase_add_test(t, close_of_the_callers_callers);
	tcase_add_test(t, close_behind_a_call);
	tcase_add_test(t, poll_beside_wait);
	tcase_add_test(t, poll_wakes_always);
	tcase_add_test(t, extension);
	tcase_add_test(t, arena_backpressure);
	tcase_add_test(t, wide_entries);
	tcase_add_test(t, short_entries);
	tcase_add_test(t, refused_at_once);
	tcase_add_test(t, queue_options);
	tcase_add_test(t, link_dies);
	tcase_add_test(t, link_dies_while_testing);
	tcase_add_test(t, link_dies_while_processing);
	tcase_add_test(t, link_dies_beside_another);
	tcase_add_test(t, context_killed);
	tcase_add_test(t, daemon_ends);
	tcase_add_test(t, access_to_what_is_dead);
	tcase_add_test(t, access_to_too_much);
	tcase_add_test(t, process_what_is_dead);
	tcase_add_test(t, poll_what_is_dead);
	tcase_add_loop_test(t, poll_beside_the_end, 0, 2);
	tcase_add_test(t, unload_in_what_is_dead);
	tcase_add_test(t, kernel_in_time);
	tcase_add_loop_test(t, log_of_no_load, 0, 3);
	tcase_add_test(t, module_of_no_file);
	tcase_add_loop_test(t, kick_fails, 0, 3);
	tcase_add_test(t, kick_fails_in_an_access);
	tcase_add_test(t, access_after_a_queue);
	tcase_add_test(t, close_with_work);
	tcase_add_test(t, after_fork);
	tcase_add_test(t, many_threads);
	tcase_add_test(t, sleepers_for_less);
	tcase_add_test(t, sleepers_hand_over);
	tcase_add_test(t, access_beside_a_notify);
	tcase_add_test(t, access_without_room);
	if (BE_CANCELS) {
		tcase_add_loop_test(t, cancelled_while_asleep, 0, 3);
		tcase_add_test(t, cancelled_without_a_wait);
		tcase_add_test(t, cancelled_in_a_submission);
		tcase_add_test(t, cancelled_in_an_access);
		tcase_add_test(t, cancelled_beside_a_poll);
		tcase_add_test(t, cancelled_at_the_end);
	}
	tcase_add_test(t, link_dies_under_threads);
	suite_add_tcase(s, t);
	return be_main(s);
}
