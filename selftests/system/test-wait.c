// SPDX-License-Identifier: MIT
/*
 * Waiting for events: any, all, until a deadline, by poll().  Tasks that wait for a
 * timeline end when the test wants it, so nothing here depends on how long one takes.
 */
#include "stack.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG	(60 * SECOND)

/* A task that ends once @gate is opened, and how it then ends for who waits for it. */
struct held {
	struct arax_timeline *gate;
	struct arax_event event;
};

static void hold(struct stack *s, struct held *h)
{
	struct arax_desc d = { .opcode = ARAX_OP_MARKER, .wait_value = 1, .event = &h->event };
	void (*notify)(struct arax_event *event) = h->event.notify;

	h->event = (struct arax_event){ .notify = notify };
	CHECK_EQ(arax_timeline_create(s->ax, 0, &h->gate), 0);
	d.wait = h->gate;
	CHECK_EQ(arax_submit(s->q, &d, 1, 0), 1);
}

static void let_go(struct held *h)
{
	CHECK_EQ(arax_timeline_advance(h->gate, 1, 0), 0);
}

TEST(wait_for_any)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[3] = { { 0 } };
	struct arax_event *e[3];
	int i;

	for (i = 0; i < 3; i++) {
		hold(&s, &h[i]);
		e[i] = &h[i].event;
	}
	CHECK_EQ(arax_wait_any(e, 3, arax_deadline(0)), -ETIMEDOUT);
	CHECK_EQ(arax_wait_any(e, 3, arax_deadline(SECOND / 50)), -ETIMEDOUT);
	let_go(&h[1]);
	CHECK_EQ(arax_wait_any(e, 3, arax_deadline(LONG)), 1);
	/* What has ended is there at once, however late. */
	CHECK_EQ(arax_wait_any(e, 3, 1), 1);
	CHECK_EQ(arax_wait_any(&e[2], 1, arax_deadline(0)), -ETIMEDOUT);
	let_go(&h[2]);
	CHECK_EQ(arax_wait_any(&e[2], 1, ARAX_DEADLINE_NONE), 0);
	/* The first in the order of the array. */
	CHECK_EQ(arax_wait_any(e, 3, arax_deadline(LONG)), 1);
	CHECK_EQ(arax_event_done(e[0]), 0);
	let_go(&h[0]);
	CHECK_EQ(arax_wait(e[0], arax_deadline(LONG)), 0);
	CHECK_EQ(arax_wait_any(e, 3, arax_deadline(LONG)), 0);
	stack_close(&s);
}

/* Its index is what is returned, and the failure is in the event. */
TEST(any_may_have_failed)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event failing = { 0 }, *e[2];
	struct held h = { 0 };

	hold(&s, &h);
	e[0] = &h.event;
	e[1] = &failing;
	stack_launch(&s, s.q, "st_fail", b, EDOM, &failing);
	CHECK_EQ(arax_wait_any(e, 2, arax_deadline(LONG)), 1);
	CHECK_EQ(failing.result, -EDOM);
	CHECK_EQ(arax_wait(&failing, 1), -EDOM);
	let_go(&h);
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(LONG)), -EDOM);
	stack_close(&s);
}

TEST(wait_for_all)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_event fails[2] = { { 0 } }, *e[4];
	struct held h[2] = { { 0 } };
	int i;

	CHECK_EQ(arax_wait_all(NULL, 0, arax_deadline(0)), 0);
	for (i = 0; i < 2; i++) {
		hold(&s, &h[i]);
		e[i] = &h[i].event;
		e[2 + i] = &fails[i];
	}
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(SECOND / 50)), -ETIMEDOUT);
	let_go(&h[1]);
	CHECK_EQ(arax_wait(e[1], arax_deadline(LONG)), 0);
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(0)), -ETIMEDOUT);
	/* The second to fail is the first in the array. */
	stack_launch(&s, s.q, "st_fail", a, ERANGE, &fails[1]);
	CHECK_EQ(arax_wait(&fails[1], arax_deadline(LONG)), -ERANGE);
	stack_launch(&s, s.q, "st_fail", b, EDOM, &fails[0]);
	CHECK_EQ(arax_wait_all(e, 4, arax_deadline(SECOND / 50)), -ETIMEDOUT);
	let_go(&h[0]);
	CHECK_EQ(arax_wait_all(e, 4, arax_deadline(LONG)), -EDOM);
	CHECK_EQ(arax_wait_all(e, 2, 1), 0);
	stack_close(&s);
}

TEST(events_of_two_contexts)
{
	struct stack one = stack_open(ARAX_QUEUE_DATAFLOW), two = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[2] = { { 0 } };
	struct arax_event *e[2] = { &h[0].event, &h[1].event };

	hold(&one, &h[0]);
	hold(&two, &h[1]);
	CHECK_EQ(arax_wait_any(e, 2, arax_deadline(0)), -EINVAL);
	CHECK(strstr(arax_error_text(), "several contexts"));
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(0)), -ETIMEDOUT);
	let_go(&h[0]);
	let_go(&h[1]);
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(LONG)), 0);
	CHECK_EQ(arax_wait_any(e, 2, arax_deadline(LONG)), -EINVAL);
	stack_close(&one);
	stack_close(&two);
}

static void ignore(struct arax_event *event)
{
}

TEST(what_can_not_be_waited_for)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h = { 0 }, noted = { .event.notify = ignore };
	struct arax_event unused = { 0 }, *e[2] = { &h.event, &unused };

	hold(&s, &h);
	hold(&s, &noted);
	CHECK_EQ(arax_wait(&unused, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_test(&unused), -EINVAL);
	CHECK_EQ(arax_wait_any(e, 2, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_wait_any(e, 0, arax_deadline(0)), -EINVAL);
	e[1] = &noted.event;
	CHECK_EQ(arax_wait(&noted.event, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_wait_any(e, 2, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_wait_all(e, 2, arax_deadline(0)), -EINVAL);
	stack_close(&s);
}

/* The context is the parent's. */
TEST(a_forked_child_waits_for_nothing)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h = { 0 };
	struct arax_event *e = &h.event;
	int status;
	pid_t pid;

	hold(&s, &h);
	pid = fork();
	if (!pid)
		_exit(arax_wait_any(&e, 1, arax_deadline(0)) != -EPERM ? 1 :
		      arax_wait_all(&e, 1, arax_deadline(0)) != -EPERM ? 2 :
		      arax_process(s.ax) != -EPERM ? 3 :
		      arax_poll_fd(s.ax) != -EPERM ? 4 :
		      arax_cancel(e) != -EPERM ? 5 : 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	let_go(&h);
	CHECK_EQ(arax_wait(e, arax_deadline(LONG)), 0);
	stack_close(&s);
}

static int readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

/* As an event loop does. */
static void loop_until(struct arax *ax, int fd, const struct arax_event *event)
{
	while (!arax_event_done(event)) {
		CHECK_EQ(readable(fd, 60000), 1);
		CHECK(arax_process(ax) >= 0);
	}
}

TEST(poll_tells_of_ends)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[2] = { { 0 } };
	int fd, round;

	CHECK_EQ(arax_process(s.ax), 0);
	fd = arax_poll_fd(s.ax);
	CHECK(fd >= 0);
	CHECK_EQ(arax_poll_fd(s.ax), fd);
	for (round = 0; round < 20; round++) {
		hold(&s, &h[0]);
		hold(&s, &h[1]);
		let_go(&h[0]);
		loop_until(s.ax, fd, &h[0].event);
		CHECK_EQ(h[0].event.result, 0);
		CHECK_EQ(arax_test(&h[1].event), 0);
		let_go(&h[1]);
		loop_until(s.ax, fd, &h[1].event);
		arax_timeline_destroy(h[0].gate);
		arax_timeline_destroy(h[1].gate);
	}
	stack_close(&s);
}

/* What ended before there was a descriptor, and what is still to come. */
TEST(poll_begins_in_the_midst)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[2] = { { 0 } };
	int fd;

	hold(&s, &h[0]);
	hold(&s, &h[1]);
	fd = arax_poll_fd(s.ax);
	CHECK(fd >= 0);
	CHECK_EQ(readable(fd, 50), 0);
	CHECK_EQ(arax_process(s.ax), 0);
	let_go(&h[1]);
	CHECK_EQ(readable(fd, 60000), 1);
	loop_until(s.ax, fd, &h[1].event);
	CHECK_EQ(arax_event_done(&h[0].event), 0);
	let_go(&h[0]);
	loop_until(s.ax, fd, &h[0].event);
	stack_close(&s);
}

static void *wait_for_end(void *held)
{
	struct held *h = held;

	CHECK_EQ(arax_wait(&h->event, ARAX_DEADLINE_NONE), 0);
	return NULL;
}

/* Nothing is under way but a task for which somebody else waits asleep. */
static void becomes_quiet(struct arax *ax, int fd)
{
	uint64_t until = arax_deadline(LONG);

	while (readable(fd, 10)) {
		CHECK(arax_process(ax) >= 0);
		CHECK(arax_deadline(0) < until);
	}
}

/* Whoever polls is not told of what has woken others, whether before there was a descriptor ... */
TEST(quiet_after_earlier_sleeps)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[2] = { { 0 } };
	pthread_t t;
	int i;

	for (i = 0; i < 3; i++) {
		hold(&s, &h[0]);
		CHECK_EQ(pthread_create(&t, NULL, wait_for_end, &h[0]), 0);
		usleep(20000);
		let_go(&h[0]);
		CHECK_EQ(pthread_join(t, NULL), 0);
		arax_timeline_destroy(h[0].gate);
	}
	hold(&s, &h[1]);
	CHECK_EQ(pthread_create(&t, NULL, wait_for_end, &h[1]), 0);
	usleep(20000);
	becomes_quiet(s.ax, arax_poll_fd(s.ax));
	let_go(&h[1]);
	CHECK_EQ(pthread_join(t, NULL), 0);
	stack_close(&s);
}

/* ... or after it, and the one whom it has woken was cancelled just then. */
TEST(quiet_after_cancelled_sleeps)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	int i, j, fd = arax_poll_fd(s.ax);
	struct held h[2] = { { 0 } };
	pthread_t t;

	CHECK(fd >= 0);
	for (i = 0; i < 40; i++) {
		hold(&s, &h[0]);
		hold(&s, &h[1]);
		CHECK_EQ(pthread_create(&t, NULL, wait_for_end, &h[0]), 0);
		usleep(3000);
		let_go(&h[0]);
		for (j = 0; j < i * 500; j++)
			__asm__ volatile("");
		pthread_cancel(t);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(pthread_create(&t, NULL, wait_for_end, &h[1]), 0);
		usleep(3000);
		becomes_quiet(s.ax, fd);
		let_go(&h[1]);
		CHECK_EQ(pthread_join(t, NULL), 0);
		while (!arax_event_done(&h[0].event))
			CHECK(arax_process(s.ax) >= 0);
		arax_timeline_destroy(h[0].gate);
		arax_timeline_destroy(h[1].gate);
	}
	stack_close(&s);
}

static pthread_barrier_t begins;

static void *process_often(void *ax)
{
	int i, old;

	/* It is cancelled before it looks for the first time. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_barrier_wait(&begins);
	pthread_barrier_wait(&begins);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	for (i = 0; i < 1000; i++)
		arax_process(ax);
	return NULL;
}

static void *let_go_later(void *held)
{
	usleep(200000);
	let_go(held);
	return NULL;
}

/* Who looks whether there is something is not in charge when he ends. */
TEST(cancelled_between_looks)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h = { 0 };
	pthread_t t;

	CHECK(arax_poll_fd(s.ax) >= 0);
	hold(&s, &h);
	CHECK_EQ(pthread_barrier_init(&begins, NULL, 2), 0);
	CHECK_EQ(pthread_create(&t, NULL, process_often, s.ax), 0);
	pthread_barrier_wait(&begins);
	CHECK_EQ(pthread_cancel(t), 0);
	pthread_barrier_wait(&begins);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, let_go_later, &h), 0);
	CHECK_EQ(arax_wait(&h.event, ARAX_DEADLINE_NONE), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	stack_close(&s);
}

static unsigned int notified;

static void count(struct arax_event *event)
{
	notified++;
}

/* Each once, by who processes; a marker that is not noted ends without a call. */
TEST(process_notifies)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct held h[8] = { { 0 } };
	int fd = arax_poll_fd(s.ax), n = 0, i, ret;

	CHECK(fd >= 0);
	for (i = 0; i < 8; i++) {
		h[i].event.notify = i % 2 ? count : NULL;
		hold(&s, &h[i]);
	}
	CHECK_EQ(arax_process(s.ax), 0);
	CHECK_EQ(notified, 0);
	for (i = 0; i < 8; i++)
		let_go(&h[i]);
	while (n < 8) {
		CHECK_EQ(readable(fd, 60000), 1);
		ret = arax_process(s.ax);
		CHECK(ret >= 0);
		n += ret;
	}
	CHECK_EQ(n, 8);
	CHECK_EQ(notified, 4);
	for (i = 0; i < 8; i++)
		CHECK_EQ(arax_event_done(&h[i].event), 1);
	CHECK_EQ(arax_process(s.ax), 0);
	CHECK_EQ(notified, 4);
	stack_close(&s);
}

TEST(without_rings_there_is_nothing_to_process)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	struct arax *ax;

	CHECK_EQ(arax_open(&ax, &o), 0);
	CHECK_EQ(arax_process(ax), -ENXIO);
	CHECK_EQ(arax_poll_fd(ax), -ENXIO);
	arax_close(ax);
}
