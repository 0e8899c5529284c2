// SPDX-License-Identifier: MIT
/*
 * Buffers are plain memory between tasks: whoever reads one sees what a task
 * wrote, and a task what whoever wrote, wherever the task runs.
 */
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define BYTES	65536
#define WORDS	(BYTES / 4)

static void set(uint32_t *x, uint32_t value)
{
	for (uint32_t i = 0; i < WORDS; i++)
		x[i] = value;
}

static void expect(const uint32_t *x, uint32_t value)
{
	for (uint32_t i = 0; i < WORDS; i++)
		CHECK_EQ(x[i], value);
}

TEST(host_writes_between_tasks)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, BYTES);
	uint32_t *x = arax_buffer_data(a), round;
	struct arax_event e = { 0 };

	for (round = 0; round < 50; round++) {
		set(x, round * 1000);
		stack_launch(&s, s.q, "st_add", a, 1, NULL);
		stack_launch(&s, s.q, "st_add", a, 1, NULL);
		stack_launch(&s, s.q, "st_add", a, 1, &e);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
		expect(x, round * 1000 + 3);
		x[WORDS / 2] = 7;
		stack_launch(&s, s.q, "st_add", a, 1, &e);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(x[WORDS / 2], 8);
		CHECK_EQ(x[WORDS / 2 + 1], round * 1000 + 4);
	}
	stack_close(&s);
}

#define SHARERS	4

struct sharer {
	struct stack *s;
	struct arax_buffer *buffer;
	pthread_t thread;
};

static void *launch_and_wait(void *arg)
{
	struct sharer *x = arg;
	struct arax_event e = { 0 };

	for (int i = 0; i < 500; i++) {
		stack_launch(x->s, x->s->q, "st_add", x->buffer, 1, &e);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	}
	return NULL;
}

/* Each takes the others' completions out of the ring as well, whoever sleeps. */
TEST(threads_wait_side_by_side)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct sharer x[SHARERS];
	int i;

	for (i = 0; i < SHARERS; i++) {
		x[i] = (struct sharer){ .s = &s, .buffer = stack_buffer(&s, 4096) };
		CHECK_EQ(pthread_create(&x[i].thread, NULL, launch_and_wait, &x[i]), 0);
	}
	for (i = 0; i < SHARERS; i++) {
		CHECK_EQ(pthread_join(x[i].thread, NULL), 0);
		CHECK_EQ(*(uint32_t *)arax_buffer_data(x[i].buffer), 500);
	}
	stack_close(&s);
}

/* The second task was submitted long before the host wrote what it works on. */
TEST(host_writes_before_it_signals)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, BYTES), *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t *x = arax_buffer_data(a), one = 1, round;
	struct arax_range rb = arax_inout(b);
	struct arax_timeline *tl;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
	for (round = 1; round <= 20; round++) {
		struct arax_event first = { 0 }, last = { 0 };
		struct arax_desc waits = {
			.opcode = ARAX_OP_LAUNCH, .kernel = &k, .grid = arax_grid(1, 1, 1),
			.args = &one, .arg_len = sizeof(one), .ranges = &rb, .nr_ranges = 1,
			.wait = tl, .wait_value = round,
		};

		set(x, 0);
		stack_launch(&s, s.q, "st_add", a, 1, &first);
		CHECK_EQ(arax_submit(s.q, &waits, 1, 0), 1);
		/* After `waits`, by an order that has nothing to do with its data. */
		CHECK_EQ(arax_marker(s.q, NULL), 0);
		stack_launch(&s, s.q, "st_add", a, 1, &last);
		CHECK_EQ(arax_wait(&first, arax_deadline(60 * SECOND)), 0);
		expect(x, 1);
		set(x, 100 * round);
		CHECK_EQ(arax_timeline_advance(tl, round, 0), 0);
		CHECK_EQ(arax_wait(&last, arax_deadline(60 * SECOND)), 0);
		expect(x, 100 * round + 1);
	}
	stack_close(&s);
}

/* A reader waits for who writes its bytes, and for nobody else. */
TEST(access_waits_for_its_producers)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, BYTES), *b = stack_buffer(&s, 4096);
	struct arax_range half = arax_part(a, ARAX_IN, 0, BYTES / 2), other = arax_inout(b);
	uint32_t *x = arax_buffer_data(a), i;
	struct arax_event held = { 0 };
	struct arax_timeline *gate;

	/* With nothing in flight. */
	CHECK_EQ(arax_access_begin(s.q, half, arax_deadline(0)), 0);
	CHECK_EQ(arax_access_end(s.q, half), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &other, &held);
	for (i = 0; i < 20; i++)
		stack_launch(&s, s.q, "st_add", a, 1, NULL);
	CHECK_EQ(arax_access_begin(s.q, half, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(x[0], 20);
	CHECK_EQ(x[WORDS / 2 - 1], 20);
	CHECK_EQ(arax_access_end(s.q, half), 0);
	CHECK_EQ(arax_test(&held), 0);
	/* A write among tasks, in its turn. */
	half.access = ARAX_INOUT;
	CHECK_EQ(arax_access_begin(s.q, half, arax_deadline(60 * SECOND)), 0);
	x[0] = 1000;
	CHECK_EQ(arax_access_end(s.q, half), 0);
	stack_launch(&s, s.q, "st_add", a, 1, NULL);
	CHECK_EQ(arax_access_begin(s.q, half, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(x[0], 1001);
	CHECK_EQ(x[1], 21);
	CHECK_EQ(arax_access_end(s.q, half), 0);
	CHECK_EQ(arax_test(&held), 0);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	arax_timeline_destroy(gate);
	stack_close(&s);
}

TEST(access_runs_out_of_time)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_range r = arax_inout(a);
	struct arax_event held = { 0 };
	struct arax_timeline *gate;
	int i;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &r, &held);
	/* What was given up does not keep those behind it from running. */
	for (i = 0; i < 10; i++)
		CHECK_EQ(arax_access_begin(s.q, r, arax_deadline(SECOND / 1000)), -ETIMEDOUT);
	stack_launch(&s, s.q, "st_add", a, 1, NULL);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_access_begin(s.q, arax_in(a), arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 2);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	arax_timeline_destroy(gate);
	stack_close(&s);
}

/**
 * struct opening - a thread that opens a gate
 * @tasks:	of the context: as soon as so many are in flight, none of which ends before
 */
struct opening {
	struct stack *s;
	struct arax_timeline *gate;
	uint64_t tasks;
	pthread_t thread;
};

static void *open_when_taken(void *arg)
{
	struct opening *o = arg;

	stack_await_taken(o->s, o->tasks);
	CHECK_EQ(arax_timeline_advance(o->gate, 1, 0), 0);
	return NULL;
}

/* So that a call which waits for what is behind the gate has asked for it before that ends. */
static void begin_opening(struct opening *o)
{
	CHECK_EQ(pthread_create(&o->thread, NULL, open_when_taken, o), 0);
}

TEST(access_tells_of_failure)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_range r = arax_in(a), all_a = arax_inout(a), all_b = arax_inout(b);
	struct opening o = { .s = &s, .tasks = 4 };
	struct arax_event held = { 0 };
	struct arax_timeline *later;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &o.gate), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &later), 0);
	stack_hold(&s, s.q, o.gate, &all_a, NULL);
	stack_launch(&s, s.q, "st_fail", a, EDOM, NULL);
	stack_hold(&s, s.q, later, &all_b, &held);
	begin_opening(&o);
	CHECK_EQ(arax_access_begin(s.q, r, arax_deadline(60 * SECOND)), -ECANCELED);
	CHECK_EQ(pthread_join(o.thread, NULL), 0);
	r.access = 0;
	CHECK_EQ(arax_access_begin(s.q, r, arax_deadline(0)), -EINVAL);
	CHECK_EQ(arax_access_end(s.q, r), -EINVAL);
	/* Looked at, as something is in flight. */
	r = arax_part(b, ARAX_IN, 4096, 1);
	CHECK_EQ(arax_access_begin(s.q, r, arax_deadline(60 * SECOND)), -EINVAL);
	CHECK_EQ(arax_timeline_advance(later, 1, 0), 0);
	CHECK_EQ(arax_access_begin(s.q, arax_in(b), arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	arax_timeline_destroy(o.gate);
	arax_timeline_destroy(later);
	stack_close(&s);
}

/* More of them than go in one batch; each waits for its own tasks, and one for a slow one. */
TEST(access_to_many)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b[40];
	struct arax_range r[41];
	uint32_t i, k;

	CHECK_EQ(arax_access_begin_all(s.q, NULL, 0, arax_deadline(0)), 0);
	for (i = 0; i < 40; i++) {
		b[i] = stack_buffer(&s, 4096);
		r[i] = arax_in(b[i]);
	}
	/* With nothing in flight. */
	CHECK_EQ(arax_access_begin_all(s.q, r, 40, arax_deadline(0)), 0);
	stack_launch(&s, s.q, "st_spin", b[0], 200000, NULL);
	for (i = 0; i < 40; i++)
		for (k = 0; k <= i % 4; k++)
			stack_launch(&s, s.q, "st_add", b[i], 10 + i, NULL);
	/* The same bytes twice, and a part of some. */
	r[3] = r[2];
	r[40] = arax_part(b[3], ARAX_INOUT, 16, 4);
	CHECK_EQ(arax_access_begin_all(s.q, r, 41, arax_deadline(60 * SECOND)), 0);
	for (i = 0; i < 40; i++) {
		const uint32_t *x = arax_buffer_data(b[i]);

		CHECK_EQ(x[4], (i % 4 + 1) * (10 + i));
		CHECK_EQ(arax_access_end(s.q, r[i]), 0);
	}
	stack_close(&s);
}

TEST(access_to_many_fails_as_to_one)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b[20], *other = stack_buffer(&s, 4096);
	struct arax_range r[20], all[20], beside = arax_inout(other);
	/* As many that are held, one that fails, and 20 that wait. */
	struct opening o = { .s = &s, .tasks = 41 };
	struct arax_event held = { 0 };
	struct arax_timeline *gate;
	uint32_t i;

	for (i = 0; i < 20; i++) {
		b[i] = stack_buffer(&s, 4096);
		r[i] = arax_in(b[i]);
		all[i] = arax_inout(b[i]);
	}
	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &all[19], &held);
	CHECK_EQ(arax_access_begin_all(s.q, r, 20, arax_deadline(SECOND / 1000)), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &o.gate), 0);
	for (i = 0; i < 20; i++)
		stack_hold(&s, s.q, o.gate, &all[i], NULL);
	stack_launch(&s, s.q, "st_fail", b[18], EDOM, NULL);
	begin_opening(&o);
	CHECK_EQ(arax_access_begin_all(s.q, r, 20, arax_deadline(60 * SECOND)), -ECANCELED);
	CHECK_EQ(pthread_join(o.thread, NULL), 0);
	/* Before anything is asked for, and in the middle of what was. */
	CHECK_EQ(arax_access_begin_all(s.q, r, SIZE_MAX, arax_deadline(0)), -EINVAL);
	r[17].access = 4;
	CHECK_EQ(arax_access_begin_all(s.q, r, 20, arax_deadline(60 * SECOND)), -EINVAL);
	arax_timeline_destroy(gate);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &beside, &held);
	r[17] = arax_part(b[17], ARAX_IN, 4096, 1);
	CHECK_EQ(arax_access_begin_all(s.q, r, 20, arax_deadline(60 * SECOND)), -EINVAL);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	arax_queue_finish(s.q, arax_deadline(60 * SECOND));
	arax_timeline_destroy(gate);
	arax_timeline_destroy(o.gate);
	stack_close(&s);
}

/* To a device with memory of its own, and back; else none. */
TEST(bytes_moved)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, BYTES);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_device d = { .size = sizeof(d) };
	struct arax_event e = { 0 };
	uint32_t one = 1;

	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(one),
			     ARAX_RANGES(arax_inout(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_get_device(s.ax, e.device, &d), 0);
	CHECK_EQ(e.bytes, d.memory ? 2 * BYTES : 0);
	CHECK_EQ(arax_fill(s.q, arax_out(b), &one, 4, &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(e.bytes, 0);
	stack_close(&s);
}

/* With debug.check_access, as run.sh sets it for one of its rounds. */
TEST(lies_about_access_are_found)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_lies");
	struct arax_event e = { 0 };

	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_NO_ARGS,
			     ARAX_RANGES(arax_in(a), arax_out(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)),
		 getenv("ARAX_TEST_CHECKED") ? -EACCES : 0);
	stack_close(&s);
}

/* Here and on a device that has not had the bytes before; checked (run.sh), it is named as well. */
TEST(out_keeps_what_is_left_out)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_clock");
	uint64_t *at = arax_buffer_data(b);
	struct arax_event e = { 0 };
	uint32_t us = 1, i;

	memset(at, 7, 4096);
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(us),
			     ARAX_RANGES(arax_out(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK(at[0] != at[1]);
	for (i = 1; i < 512; i++)
		CHECK_EQ(at[i], 0x0707070707070707);
	stack_close(&s);
}

/* Four billion rows without a byte are nothing to do: nobody walks them. */
TEST(rows_of_nothing)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_kernel add = stack_kernel(&s, "st_add"), lies = stack_kernel(&s, "st_lies");
	struct arax_range in = arax_rows(a, ARAX_IN, 8, 0, 0, UINT32_MAX);
	struct arax_range out = arax_rows(b, ARAX_OUT, 8, 0, 0, UINT32_MAX);
	struct arax_range both = arax_rows(a, ARAX_INOUT, 8, 0, 0, UINT32_MAX);
	uint32_t one = 1, *x = arax_buffer_data(a), *y = arax_buffer_data(b);
	struct arax_event e = { 0 }, refused = { 0 };
	int i;

	x[2] = y[2] = 7;
	for (i = 0; i < 20; i++) {
		CHECK_EQ(arax_fill(s.q, out, &one, 4, NULL), 0);
		CHECK_EQ(arax_copy(s.q, out, in, NULL), 0);
		CHECK_EQ(arax_launch(s.q, &add, arax_grid(1, 1, 1), ARAX_ARGS(one),
				     ARAX_RANGES(both), i == 19 ? &e : NULL), 0);
	}
	/* One walk takes some seconds. */
	CHECK_EQ(arax_wait(&e, arax_deadline(20 * SECOND)), 0);
	CHECK_EQ(x[2], 7);
	CHECK_EQ(y[2], 7);
	/* It wants two words, and checked ones are looked at before. */
	CHECK_EQ(arax_launch(s.q, &lies, arax_grid(1, 1, 1), ARAX_NO_ARGS, ARAX_RANGES(in, out),
			     &refused), 0);
	CHECK_EQ(arax_wait(&refused, arax_deadline(20 * SECOND)), -EINVAL);
	stack_close(&s);
}

/* The program's own memory: on the kernel link alone, and no copy is seen. */
TEST(own_memory_as_a_buffer)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b;
	struct arax_event e = { 0 };
	struct arax_info info;
	uint32_t *x = NULL;
	int err;

	/* It is there where it is said to be. */
	CHECK_EQ(arax_get_info(s.ax, &info), 0);
	CHECK_EQ(!!(info.guarantees & ARAX_GUAR_OWN_MEMORY), stack_on_kernel(&s));
	CHECK_EQ(posix_memalign((void **)&x, 4096, BYTES), 0);
	CHECK_EQ(arax_buffer_import_user(s.ax, (char *)x + 4, 4096, &b), -EINVAL);
	err = arax_buffer_import_user(s.ax, x, BYTES, &b);
	if (!stack_on_kernel(&s)) {
		CHECK_EQ(err, -EOPNOTSUPP);
		free(x);
		stack_close(&s);
		return;
	}
	CHECK_EQ(err, 0);
	CHECK(arax_buffer_data(b) == x);
	set(x, 40);
	stack_launch(&s, s.q, "st_add", b, 1, NULL);
	stack_launch(&s, s.q, "st_add", b, 1, &e);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	expect(x, 42);
	arax_buffer_destroy(b);
	expect(x, 42);
	free(x);
	stack_close(&s);
}
