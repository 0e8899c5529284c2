// SPDX-License-Identifier: MIT
/* Timelines, cancelling, and failure that passes on. */
#include "ktest.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

static struct client c;
static struct mediator m;
static uint32_t queue;

static void set_up(void)
{
	client_open(&c, 16, 128, PAGE);
	mediator_open(&m, 0);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
}

static void tear_down(void)
{
	mediator_close(&m);
	client_close(&c);
}

static void advance(struct client *x, uint32_t t, uint64_t value, int error)
{
	struct arax_timeline_point p = { .size = sizeof(p), .handle = t, .value = value,
					 .error = error };

	CHECK_OK(CALL(x->fd, TIMELINE_ADVANCE, &p));
}

static struct arax_timeline_point query(struct client *x, uint32_t t)
{
	struct arax_timeline_point p = { .size = sizeof(p), .handle = t };

	CHECK_OK(CALL(x->fd, TIMELINE_QUERY, &p));
	return p;
}

/* Waits for up to two points; ms < 0: for ever. */
static int wait_for(unsigned int flags, uint32_t t, uint64_t v, uint32_t u, uint64_t w, int ms,
		    uint32_t *index)
{
	struct arax_wait a = { .size = sizeof(a), .flags = flags, .count = u ? 2 : 1,
			       .points = { { t, 0, v }, { u, 0, w } } };
	int err;

	a.deadline_ns = ms < 0 ? ARAX_DEADLINE_NONE : now_ns() + (uint64_t)ms * MS;
	err = CALL(c.fd, WAIT, &a);
	if (index)
		*index = a.index;
	return err;
}

/* A marker that waits for and signals timelines. */
static void linked(uint64_t user_data, uint32_t wait, uint64_t wait_value, uint32_t signal,
		   uint64_t signal_value)
{
	struct arax_task_ext *x = client_arena(&c, 0);
	struct arax_task *t = client_task(&c);
	uint32_t n;

	*x = (struct arax_task_ext) { .size = sizeof(*x), .wait_timeline = wait,
				      .wait_value = wait_value, .signal_timeline = signal,
				      .signal_value = signal_value };
	t->queue = queue;
	t->user_data = user_data;
	t->flags = ARAX_TASK_EXT;
	client_publish(&c);
	CHECK_OK(client_submit(&c, 1, &n));
}

KTEST(values_only_grow)
{
	uint32_t t;

	set_up();
	t = timeline_new(&c, 10);
	CHECK_EQ(query(&c, t).value, 10);
	advance(&c, t, 10, 0);
	advance(&c, t, 1ull << 40, 0);
	CHECK_EQ(query(&c, t).value, 1ull << 40);
	advance(&c, t, ~0ull, 0);
	CHECK_EQ(query(&c, t).value, -1);
	CHECK_EQ(query(&c, t).error, 0);
	tear_down();
}

KTEST(the_first_error_stays)
{
	uint32_t t;

	set_up();
	t = timeline_new(&c, 0);
	advance(&c, t, 1, -EIO);
	advance(&c, t, 2, -EPERM);
	CHECK_EQ(query(&c, t).error, -EIO);
	CHECK_EQ(query(&c, t).value, 2);
	/* An error counts as reached. */
	CHECK_OK(wait_for(0, t, 100, 0, 0, 0, NULL));
	tear_down();
}

KTEST(wait_any_and_all)
{
	uint32_t t, u, index;

	set_up();
	t = timeline_new(&c, 0);
	u = timeline_new(&c, 5);
	CHECK_OK(wait_for(0, t, 1, u, 5, 0, &index));
	CHECK_EQ(index, 1);
	CHECK_ERR(wait_for(ARAX_WAIT_ALL, t, 1, u, 5, 20, NULL), ETIMEDOUT);
	CHECK_ERR(wait_for(0, t, 1, u, 6, 20, NULL), ETIMEDOUT);
	advance(&c, t, 1, 0);
	CHECK_OK(wait_for(ARAX_WAIT_ALL, t, 1, u, 5, 0, NULL));
	CHECK_OK(wait_for(0, t, 1, u, 6, 0, &index));
	CHECK_EQ(index, 0);
	/* The same one twice, and every place in use. */
	CHECK_OK(wait_for(ARAX_WAIT_ALL, t, 1, t, 0, 0, NULL));
	do {
		struct arax_wait a = { .size = sizeof(a), .flags = ARAX_WAIT_ALL,
				       .count = ARAX_WAIT_MAX };
		unsigned int i;

		for (i = 0; i < ARAX_WAIT_MAX; i++) {
			a.points[i].timeline = i & 1 ? t : u;
			a.points[i].value = 1;
		}
		CHECK_OK(CALL(c.fd, WAIT, &a));
	} while (0);
	tear_down();
}

struct later {
	uint32_t timeline;
	uint64_t value;
	int error;
};

static void *advance_later(void *arg)
{
	struct later *l = arg;

	sleep_ms(50);
	advance(&c, l->timeline, l->value, l->error);
	return NULL;
}

KTEST(waiters_wake)
{
	struct later l = { 0 };
	uint32_t t, u, index;
	pthread_t thread;

	set_up();
	t = timeline_new(&c, 0);
	u = timeline_new(&c, 0);
	l = (struct later) { u, 3, 0 };
	CHECK_OK(pthread_create(&thread, NULL, advance_later, &l));
	CHECK_OK(wait_for(0, t, 1, u, 3, -1, &index));
	CHECK_EQ(index, 1);
	CHECK_OK(pthread_join(thread, NULL));
	l = (struct later) { t, 0, -EIO };
	CHECK_OK(pthread_create(&thread, NULL, advance_later, &l));
	CHECK_OK(wait_for(ARAX_WAIT_ALL, t, 1, u, 3, -1, NULL));
	CHECK_OK(pthread_join(thread, NULL));
	CHECK_EQ(query(&c, t).error, -EIO);
	tear_down();
}

/* Who is known to have nothing to sleep for but the call. */
static bool asleep(pid_t tid)
{
	char path[64], text[256] = "", *p;
	int fd;

	if (!tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	p = strrchr(text, ')');
	return p && p[1] && p[2] == 'S';
}

static volatile pid_t waits;

static void *destroy_awaited(void *arg)
{
	struct arax_handle h = { .size = sizeof(h), .handle = *(uint32_t *)arg };

	while (!asleep(waits))
		sleep_ms(1);
	CHECK_OK(CALL(c.fd, TIMELINE_DESTROY, &h));
	return NULL;
}

/* Who waits has a reference; the wait ends by its deadline. */
KTEST(destroyed_while_awaited)
{
	uint32_t t;
	pthread_t thread;

	set_up();
	t = timeline_new(&c, 0);
	CHECK_OK(pthread_create(&thread, NULL, destroy_awaited, &t));
	waits = gettid();
	CHECK_ERR(wait_for(0, t, 1, 0, 0, 500, NULL), ETIMEDOUT);
	CHECK_OK(pthread_join(thread, NULL));
	tear_down();
}

/* ------------------------------------------------------------------ */
/* No more than so many                                                */

#define WAITERS	(1024 / ARAX_WAIT_MAX)

struct waiter {
	pthread_t thread;
	uint32_t timeline;
	uint32_t points;
	volatile pid_t tid;
	int err;
};

static int wait_by_points(uint32_t timeline, uint32_t points, uint64_t deadline)
{
	struct arax_wait a = { .size = sizeof(a), .count = points, .deadline_ns = deadline };
	uint32_t i;

	for (i = 0; i < points; i++) {
		a.points[i].timeline = timeline;
		a.points[i].value = 1;
	}
	return CALL(c.fd, WAIT, &a);
}

static void *wait_long(void *arg)
{
	struct waiter *w = arg;

	w->tid = gettid();
	w->err = wait_by_points(w->timeline, w->points, ARAX_DEADLINE_NONE);
	return NULL;
}

/* 1,024 points wait for one timeline; the next one is ENOSPC, and for another it is not. */
KTEST(too_many_waiters_are_ENOSPC)
{
	static struct waiter w[WAITERS];
	uint32_t t, other;
	unsigned int i;

	set_up();
	t = timeline_new(&c, 0);
	other = timeline_new(&c, 0);
	for (i = 0; i < WAITERS; i++) {
		w[i].timeline = t;
		w[i].points = i ? ARAX_WAIT_MAX : ARAX_WAIT_MAX - 1;
		CHECK_OK(pthread_create(&w[i].thread, NULL, wait_long, &w[i]));
	}
	for (i = 0; i < WAITERS; i++)
		while (!asleep(w[i].tid))
			sleep_ms(1);
	CHECK_ERR(wait_by_points(t, 1, 1), ETIMEDOUT);
	CHECK_ERR(wait_by_points(t, 2, 1), ENOSPC);
	/* What was refused took no place. */
	CHECK_ERR(wait_by_points(t, 1, 1), ETIMEDOUT);
	CHECK_ERR(wait_by_points(other, 2, 1), ETIMEDOUT);
	advance(&c, t, 1, 0);
	for (i = 0; i < WAITERS; i++) {
		CHECK_OK(pthread_join(w[i].thread, NULL));
		CHECK_OK(w[i].err);
	}
	CHECK_OK(wait_by_points(t, 2, 1));
	tear_down();
}

/* Times that a thread went to sleep. */
static long sleeps(pid_t tid)
{
	static const char what[] = "\nvoluntary_ctxt_switches:";
	char path[64], text[4096] = "", *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_SYS(fd);
	n = read(fd, text, sizeof(text) - 1);
	CHECK_SYS(n);
	close(fd);
	text[n] = 0;
	p = strstr(text, what);
	CHECK(p);
	return atol(p + sizeof(what) - 1);
}

/* Tasks of the same context that signal nothing let it sleep. */
KTEST(waiters_sleep_on)
{
	struct waiter w = { .points = 2 };
	long before;
	int i;

	set_up();
	w.timeline = timeline_new(&c, 0);
	CHECK_OK(pthread_create(&w.thread, NULL, wait_long, &w));
	while (!asleep(w.tid))
		sleep_ms(1);
	/* It says that it sleeps a little before that is counted. */
	do {
		before = sleeps(w.tid);
		sleep_ms(20);
	} while (sleeps(w.tid) != before);
	for (i = 0; i < 50; i++) {
		client_marker(&c, queue, i, 0);
		mediator_done(&m, mediator_task(&m).d.tag, 0);
		CHECK_EQ(client_wait(&c).user_data, (uint64_t)i);
	}
	CHECK_EQ(sleeps(w.tid), before);
	advance(&c, w.timeline, 1, 0);
	CHECK_OK(pthread_join(w.thread, NULL));
	CHECK_OK(w.err);
	tear_down();
}

static uint64_t events(int fd)
{
	uint64_t n = 0;

	if (read(fd, &n, sizeof(n)) < 0)
		CHECK_EQ(errno, EAGAIN);
	return n;
}

KTEST(eventfds)
{
	struct arax_timeline_eventfd e = { .size = sizeof(e) };
	uint32_t t;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	set_up();
	t = timeline_new(&c, 5);
	e.handle = t;
	e.fd = fd;
	e.value = 5;
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	CHECK_EQ(events(fd), 1);		/* reached before */
	e.value = 7;
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	advance(&c, t, 6, 0);
	CHECK_EQ(events(fd), 0);
	advance(&c, t, 8, 0);
	CHECK_EQ(events(fd), 2);		/* each once */
	advance(&c, t, 9, 0);
	CHECK_EQ(events(fd), 0);
	e.value = 100;
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	advance(&c, t, 9, -EIO);
	CHECK_EQ(events(fd), 1);		/* an error counts as reached */
	/* Its descriptor may be closed meanwhile, and the timeline go unsignalled. */
	e.handle = timeline_new(&c, 0);
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	close(fd);
	tear_down();
}

static int advance_from_outside(void *arg)
{
	struct arax_timeline_share i = { .size = sizeof(i), .fd = *(int *)arg };
	struct client other;

	client_open(&other, 4, 128, 0);
	CHECK_OK(CALL(other.fd, TIMELINE_IMPORT, &i));
	advance(&other, i.handle, 1, 0);
	client_close(&other);
	return 0;
}

/* By whoever reaches the value, an eventfd is signalled: here by another process. */
KTEST(eventfds_of_another_process)
{
	struct arax_timeline_eventfd e = { .size = sizeof(e), .value = 1 };
	struct arax_timeline_share s = { .size = sizeof(s) };
	struct pollfd p = { .events = POLLIN };

	p.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	set_up();
	e.handle = timeline_new(&c, 0);
	e.fd = p.fd;
	CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
	s.handle = e.handle;
	CHECK_OK(CALL(c.fd, TIMELINE_EXPORT, &s));
	CHECK_OK(child_wait(child_run(advance_from_outside, &s.fd)));
	CHECK_EQ(poll(&p, 1, 20000), 1);
	CHECK_EQ(events(p.fd), 1);
	close(s.fd);
	close(p.fd);
	tear_down();
}

#define FULL		10	/* timelines with as many eventfds as they take */
#define ARMED		(FULL * 128u)

static struct {
	int fd;				/* the eventfd */
	int shared[FULL];		/* timelines */
	struct meet armed, over;
	uint64_t *early;		/* signals that had come when the other one woke */
} crowd;

/* Each signal of the eventfd has so many to tell. */
static int arm_for_a_crowd(void *arg)
{
	struct arax_timeline_eventfd e = { .size = sizeof(e), .value = 1, .fd = crowd.fd };
	struct epoll_event ev = { .events = EPOLLIN };
	struct rlimit many = { 8192, 8192 };
	int i, k, n = ktest_rounds(2000), ep = epoll_create1(EPOLL_CLOEXEC);
	struct client other;

	(void)arg;
	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &many));
	for (i = 0; i < n; i++)
		CHECK_SYS(epoll_ctl(ep, EPOLL_CTL_ADD, dup(crowd.fd), &ev));
	client_open(&other, 4, 128, 0);
	for (i = 0; i < FULL; i++) {
		struct arax_timeline_share s = { .size = sizeof(s), .fd = crowd.shared[i] };

		CHECK_OK(CALL(other.fd, TIMELINE_IMPORT, &s));
		e.handle = s.handle;
		for (k = 0; k < 128; k++)
			CHECK_OK(CALL(other.fd, TIMELINE_EVENTFD, &e));
	}
	meet_say(&crowd.armed);
	meet_hear(&crowd.over);
	client_close(&other);
	return 0;
}

static int poll_for_one(void *arg)
{
	struct pollfd p = { .fd = c.fd, .events = POLLIN };

	(void)arg;
	CHECK_EQ(poll(&p, 1, 60000), 1);
	*crowd.early = events(crowd.fd);
	return 0;
}

/* How many eventfds have been written to when the poller is awake. */
static uint64_t written_before_the_poller(void)
{
	pid_t armer, poller;
	uint32_t t[FULL];
	uint64_t total, early;
	struct work w;
	int i;

	set_up();
	crowd.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	crowd.early = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(crowd.early != MAP_FAILED);
	meet_init(&crowd.armed);
	meet_init(&crowd.over);
	for (i = 0; i < FULL; i++) {
		struct arax_timeline_share s = { .size = sizeof(s) };

		s.handle = t[i] = timeline_new(&c, 0);
		CHECK_OK(CALL(c.fd, TIMELINE_EXPORT, &s));
		crowd.shared[i] = s.fd;
	}
	armer = child_run(arm_for_a_crowd, NULL);
	meet_hear(&crowd.armed);
	poller = child_run(poll_for_one, NULL);
	client_marker(&c, queue, 5, 0);
	w = mediator_task(&m);
	sleep_ms(100);
	for (i = 0; i < FULL; i++)
		advance(&c, t[i], 1, 0);
	mediator_done(&m, w.d.tag, 0);
	CHECK_OK(child_wait(poller));
	early = *crowd.early;
	/* None of them is lost for that. */
	for (total = early; total < ARMED; sleep_ms(1))
		total += events(crowd.fd);
	CHECK_EQ(total, ARMED);
	meet_say(&crowd.over);
	CHECK_OK(child_wait(armer));
	for (i = 0; i < FULL; i++)
		close(crowd.shared[i]);
	close(crowd.fd);
	munmap(crowd.early, PAGE);
	tear_down();
	return early;
}

/*
 * One client's eventfds, however many and awaited by however many, hold up nobody's wake-up.  On a
 * machine that is busy that may be late by itself: but not each time.
 */
KTEST(eventfds_hold_up_no_poller)
{
	int tries;

	for (tries = 0; tries < 10; tries++)
		if (written_before_the_poller() < ARMED / 2)
			return;
	CHECK(false);
}

KTEST(too_many_eventfds_are_ENOSPC)
{
	struct arax_timeline_eventfd e = { .size = sizeof(e), .value = 1 };
	int i, round;

	set_up();
	e.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e.handle = timeline_new(&c, 0);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 128; i++)
			CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
		CHECK_ERR(CALL(c.fd, TIMELINE_EVENTFD, &e), ENOSPC);
		CHECK_EQ(events(e.fd), 0);
		/* What is reached already needs no place. */
		e.value = 0;
		CHECK_OK(CALL(c.fd, TIMELINE_EVENTFD, &e));
		CHECK_EQ(events(e.fd), 1);
		e.value = (uint64_t)round + 1;
		advance(&c, e.handle, e.value++, 0);
		CHECK_EQ(events(e.fd), 128);
	}
	close(e.fd);
	tear_down();
}

KTEST(shared_between_contexts)
{
	struct arax_timeline_share s = { .size = sizeof(s) }, i = { .size = sizeof(i) };
	struct client other;
	uint32_t t;

	set_up();
	client_open(&other, 4, 128, 0);
	t = timeline_new(&c, 1);
	s.handle = t;
	CHECK_OK(CALL(c.fd, TIMELINE_EXPORT, &s));
	i.fd = s.fd;
	CHECK_OK(CALL(other.fd, TIMELINE_IMPORT, &i));
	advance(&other, i.handle, 4, 0);
	CHECK_EQ(query(&c, t).value, 4);
	CHECK_OK(wait_for(0, t, 4, 0, 0, 0, NULL));
	client_close(&other);
	/* A descriptor alone keeps it. */
	CHECK_OK(CALL(c.fd, TIMELINE_DESTROY,
		      (&(struct arax_handle) { .size = sizeof(struct arax_handle),
					       .handle = t })));
	i.fd = s.fd;
	CHECK_OK(CALL(c.fd, TIMELINE_IMPORT, &i));
	CHECK_EQ(query(&c, i.handle).value, 4);
	tear_down();
}

KTEST(tasks_signal)
{
	struct work w;
	uint32_t t;

	set_up();
	t = timeline_new(&c, 0);
	linked(1, 0, 0, t, 5);
	linked(2, 0, 0, t, 6);
	w = mediator_task(&m);
	CHECK_EQ(query(&c, t).value, 0);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(query(&c, t).value, 5);
	/* A failed signaller advances its timeline too, and sets the error. */
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, -ERANGE);
	CHECK_EQ(query(&c, t).value, 6);
	CHECK_EQ(query(&c, t).error, -ERANGE);
	tear_down();
}

KTEST(tasks_wait)
{
	struct work first, w;
	uint32_t t;

	set_up();
	t = timeline_new(&c, 3);
	/* Reached already: not blocked. */
	linked(1, t, 3, 0, 0);
	w = mediator_task(&m);
	CHECK_EQ(w.d.flags & ARAX_DISPATCH_BLOCKED, 0);
	mediator_done(&m, w.d.tag, 0);
	linked(2, t, 5, 0, 0);
	first = mediator_task(&m);
	CHECK(first.d.flags & ARAX_DISPATCH_BLOCKED);
	advance(&c, t, 4, 0);
	CHECK(!mediator_take(&m, &w));
	advance(&c, t, 5, 0);
	w = mediator_note(&m, ARAX_DISPATCH_UNBLOCK);
	CHECK_EQ(w.d.tag, first.d.tag);
	CHECK_EQ(w.d.error, 0);
	mediator_done(&m, first.d.tag, 0);
	/* One that signals what the other waits for. */
	linked(3, t, 9, 0, 0);
	first = mediator_task(&m);
	linked(4, 0, 0, t, 9);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, -ENODEV);
	w = mediator_note(&m, ARAX_DISPATCH_UNBLOCK);
	CHECK_EQ(w.d.tag, first.d.tag);
	CHECK_EQ(w.d.error, -ENODEV);
	mediator_done(&m, first.d.tag, -ENODEV);
	/* After an error nothing waits, but everybody hears of it. */
	linked(5, t, 100, 0, 0);
	w = mediator_task(&m);
	CHECK_EQ(w.d.flags & ARAX_DISPATCH_BLOCKED, 0);
	CHECK_EQ(w.d.error, -ENODEV);
	mediator_done(&m, w.d.tag, -ENODEV);
	tear_down();
}

/* A blocked task that was committed all the same is not told of again. */
KTEST(committed_while_blocked)
{
	struct work w;
	uint32_t t;

	set_up();
	t = timeline_new(&c, 0);
	linked(1, t, 1, 0, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, -ETIMEDOUT);
	CHECK_EQ(client_wait(&c).result, -ETIMEDOUT);
	advance(&c, t, 1, 0);
	CHECK(!mediator_take(&m, &w));
	tear_down();
}

/* ------------------------------------------------------------------ */
/* Cancelling                                                          */

static uint32_t cancel(unsigned int flags, uint32_t q, uint64_t user_data)
{
	struct arax_cancel a = { .size = sizeof(a), .flags = flags, .queue = q,
				 .user_data = user_data };

	CHECK_OK(CALL(c.fd, CANCEL, &a));
	return a.nr_canceled;
}

KTEST(cancel_at_the_mediator)
{
	struct work a, b, w;
	uint32_t other;

	set_up();
	other = queue_new(&c, 0);
	client_marker(&c, queue, 7, 0);
	client_marker(&c, other, 8, 0);
	a = mediator_task(&m);
	b = mediator_task(&m);
	/* It is asked; what becomes of it is the mediator's answer. */
	CHECK_EQ(cancel(0, 0, 7), 0);
	w = mediator_note(&m, ARAX_DISPATCH_CANCEL);
	CHECK_EQ(w.d.tag, a.d.tag);
	mediator_done(&m, a.d.tag, -ECANCELED);
	CHECK_EQ(client_wait(&c).result, -ECANCELED);
	CHECK_EQ(cancel(ARAX_CANCEL_QUEUE, other, 0), 0);
	w = mediator_note(&m, ARAX_DISPATCH_CANCEL);
	CHECK_EQ(w.d.tag, b.d.tag);
	mediator_done(&m, b.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	CHECK_EQ(cancel(0, 0, 7), 0);
	CHECK(!mediator_take(&m, &w));
	tear_down();
}

KTEST(cancel_in_the_core)
{
	struct arax_completion e;
	uint32_t other, i;

	/* No mediator: everything is queued here. */
	client_open(&c, 16, 128, PAGE);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	other = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	for (i = 0; i < 3; i++)
		client_marker(&c, queue, 7, 0);
	for (i = 0; i < 2; i++)
		client_marker(&c, other, 7, 0);
	client_marker(&c, other, 8, 0);
	CHECK_EQ(cancel(0, 0, 9), 0);
	CHECK_EQ(cancel(ARAX_CANCEL_QUEUE, other, 0), 3);
	for (i = 0; i < 3; i++) {
		CHECK(client_reap(&c, &e));
		CHECK_EQ(e.result, -ECANCELED);
	}
	CHECK_EQ(cancel(0, 0, 7), 3);
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used, 0);
	client_close(&c);
}

/* What depends on a cancelled task goes too, unless its queue says CONTINUE. */
KTEST(failure_passes_on_in_the_core)
{
	struct arax_buffer_create b, d;
	uint32_t go_on, in_order;
	unsigned int i;

	client_open(&c, 16, 128, PAGE);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	go_on = queue_new(&c, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	in_order = queue_new(&c, ARAX_QUEUE_IN_ORDER);
	b = buffer_new(&c, PAGE);
	d = buffer_new(&c, PAGE);
	client_range_task(&c, queue, 1, 0, b.handle, ARAX_OUT, 0, PAGE);
	client_range_task(&c, queue, 2, 0, b.handle, ARAX_IN, 0, PAGE);
	client_range_task(&c, queue, 3, 0, d.handle, ARAX_IN, 0, PAGE);
	client_range_task(&c, go_on, 4, 0, b.handle, ARAX_IN, 0, PAGE);
	client_range_task(&c, in_order, 5, 0, b.handle, ARAX_IN, 0, PAGE);
	client_marker(&c, in_order, 6, 0);
	client_marker(&c, queue, 7, ARAX_TASK_BARRIER);
	CHECK_EQ(cancel(0, 0, 1), 1);
	for (i = 0; i < 5; i++) {
		struct arax_completion e = client_wait(&c);
		static const uint64_t order[] = { 1, 2, 5, 6, 7 };

		CHECK_EQ(e.user_data, order[i]);
		CHECK_EQ(e.result, -ECANCELED);
	}
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used, 2);
	client_close(&c);
}
