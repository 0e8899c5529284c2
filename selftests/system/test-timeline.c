// SPDX-License-Identifier: MIT
/* Timelines order tasks, hosts and contexts. */
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct arax_desc add(const struct arax_kernel *k, const struct arax_range *r,
			    const uint32_t *value, struct arax_event *event)
{
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = k, .grid = arax_grid(1, 1, 1),
		.args = value, .arg_len = sizeof(*value), .ranges = r, .nr_ranges = 1,
		.event = event,
	};
	return d;
}

TEST(task_waits_for_host)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range r = arax_inout(a);
	struct arax_timeline *tl;
	struct arax_event e = { 0 };
	uint32_t one = 1;
	struct arax_desc d = add(&k, &r, &one, &e);

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	d.wait = tl;
	d.wait_value = 3;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	CHECK_EQ(arax_wait(&e, arax_deadline(SECOND / 20)), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_advance(tl, 2, 0), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(SECOND / 20)), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_advance(tl, 3, 0), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 1);
	CHECK_EQ(arax_timeline_advance(tl, 2, 0), -EINVAL);
	stack_close(&s);
}

TEST(host_waits_for_task)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range r = arax_inout(a);
	struct arax_timeline *tl, *never;
	struct arax_point points[2];
	uint64_t value, count;
	uint32_t one = 1;
	struct arax_desc d = add(&k, &r, &one, NULL);
	int fd = eventfd(0, EFD_CLOEXEC);

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &never), 0);
	CHECK_EQ(arax_timeline_eventfd(tl, 9, fd), 0);
	d.signal = tl;
	d.signal_value = 9;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	points[0].timeline = never;
	points[0].value = 1;
	points[1].timeline = tl;
	points[1].value = 9;
	CHECK_EQ(arax_timeline_wait_any(points, 2, arax_deadline(60 * SECOND)), 1);
	CHECK_EQ(arax_timeline_wait_all(points, 2, arax_deadline(SECOND / 50)), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_query(tl, &value), 0);
	CHECK_EQ(value, 9);
	CHECK_EQ(read(fd, &count, sizeof(count)), 8);
	CHECK_EQ(count, 1);
	stack_close(&s);
}

TEST(failed_signaller_sets_error)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_fail");
	struct arax_range r = arax_inout(a);
	struct arax_timeline *tl;
	struct arax_point p;
	uint32_t code = EDOM;
	uint64_t value;
	struct arax_desc d = add(&k, &r, &code, NULL);

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	d.signal = tl;
	d.signal_value = 1;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	p.timeline = tl;
	p.value = 1;
	CHECK_EQ(arax_timeline_wait_all(&p, 1, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_timeline_query(tl, &value), -EDOM);
	stack_close(&s);
}

/* A producer and a consumer process share a buffer and order by a timeline. */
TEST(two_contexts_share)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *mine;
	struct arax_timeline *tl, *theirs;
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range r = arax_inout(a);
	uint32_t value = 41;
	struct arax_desc d = add(&k, &r, &value, NULL);
	int buffer_fd, timeline_fd, status;
	pid_t child;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	buffer_fd = arax_buffer_export(a, ARAX_EXPORT_ARAX);
	CHECK(buffer_fd >= 0);
	timeline_fd = arax_timeline_export(tl);
	CHECK(timeline_fd >= 0);
	child = fork();
	if (!child) {
		struct stack c = stack_open(ARAX_QUEUE_DATAFLOW);
		struct arax_kernel ck = stack_kernel(&c, "st_add");
		struct arax_event e = { 0 };
		struct arax_range cr;
		struct arax_desc cd;
		uint32_t one = 1;

		CHECK_EQ(arax_buffer_import(c.ax, ARAX_IMPORT_ARAX, buffer_fd, &mine), 0);
		CHECK_EQ(arax_timeline_import(c.ax, timeline_fd, &theirs), 0);
		cr = arax_inout(mine);
		cd = add(&ck, &cr, &one, &e);
		cd.wait = theirs;
		cd.wait_value = 1;
		CHECK_EQ(arax_submit(c.q, &cd, 1, 0), 1);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(*(uint32_t *)arax_buffer_data(mine), 42);
		stack_close(&c);
		_exit(0);
	}
	usleep(50000);
	d.signal = tl;
	d.signal_value = 1;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 42);
	stack_close(&s);
}

#define MANY	256	/* as many as a connection to the broker may have */

static void *wait_for_ever(void *arg)
{
	const struct arax_point p = { .timeline = arg, .value = 1 };

	return (void *)(intptr_t)arax_timeline_wait_all(&p, 1, ARAX_DEADLINE_NONE);
}

/* Until one more ends with @result. */
static void await_wait(struct arax_timeline *tl, int result)
{
	const struct arax_point p = { .timeline = tl, .value = 1 };
	const uint64_t end = arax_deadline(60 * SECOND);
	int ret;

	do {
		usleep(1000);
		ret = arax_timeline_wait_all(&p, 1, arax_deadline(1000));
	} while (ret != result && arax_deadline(0) < end);
	CHECK_EQ(ret, result);
}

/* However many wait, others are heard; and who was cancelled waits no more. */
TEST(many_wait)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 1 << 20);
	const uint64_t before = stack_settled_memory(&s, NULL);
	struct arax_timeline *tl, *other;
	pthread_t threads[MANY];
	pthread_attr_t small;
	void *result;
	int i;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &other), 0);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 128 << 10);
	for (i = 0; i < MANY; i++)
		CHECK_EQ(pthread_create(&threads[i], &small, wait_for_ever, tl), 0);
	if (!stack_on_kernel(&s))
		await_wait(tl, -ENOSPC);
	arax_buffer_destroy(a);
	stack_wait_memory(&s, before - (1 << 20));
	CHECK_EQ(arax_queue_cancel(s.q), 0);
	arax_timeline_destroy(other);
	for (i = 0; i < MANY / 2; i++)
		CHECK_EQ(pthread_cancel(threads[i]), 0);
	for (i = 0; i < MANY / 2; i++) {
		CHECK_EQ(pthread_join(threads[i], &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	await_wait(tl, -ETIMEDOUT);
	/* The others have waited for longer than any one message does. */
	CHECK_EQ(arax_timeline_advance(tl, 1, 0), 0);
	for (; i < MANY; i++) {
		CHECK_EQ(pthread_join(threads[i], &result), 0);
		CHECK(!result);
	}
	stack_close(&s);
}
