// SPDX-License-Identifier: MIT
/* Tasks run in the order that their queue promises, and failure follows it. */
#include "stack.h"

#include <errno.h>
#include <sys/resource.h>

#define WORDS	1024

/* x = ((0 + 1) ... ) through a chain; any task out of turn changes the sum. */
static void chain(unsigned int flags)
{
	struct stack s = stack_open(flags);
	struct arax_buffer *b = stack_buffer(&s, WORDS * 4);
	uint32_t *x = arax_buffer_data(b);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t i;

	for (i = 1; i <= 1000; i++)
		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(i),
				     ARAX_RANGES(arax_inout(b)), NULL), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(x[i], 500500);
	stack_close(&s);
}

TEST(in_order_chain)
{
	chain(ARAX_QUEUE_IN_ORDER);
}

TEST(dataflow_chain)
{
	chain(ARAX_QUEUE_DATAFLOW);
}

/* fill -> copy -> add -> copy back, over parts that overlap partly. */
TEST(dataflow_by_ranges)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 8192), *b = stack_buffer(&s, 8192);
	uint32_t *x = arax_buffer_data(a), *y = arax_buffer_data(b);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t five = 5, hundred = 100, i;
	int round;

	for (round = 0; round < 50; round++) {
		CHECK_EQ(arax_fill(s.q, arax_part(a, ARAX_OUT, 0, 8192), &five, 4, NULL), 0);
		CHECK_EQ(arax_copy(s.q, arax_part(b, ARAX_OUT, 4096, 4096),
				   arax_part(a, ARAX_IN, 0, 4096), NULL), 0);
		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(hundred),
				     ARAX_RANGES(arax_part(b, ARAX_INOUT, 2048, 4096)), NULL), 0);
		CHECK_EQ(arax_copy(s.q, arax_part(a, ARAX_OUT, 0, 2048),
				   arax_part(b, ARAX_IN, 4096, 2048), NULL), 0);
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
		for (i = 0; i < 2048; i++)
			CHECK_EQ(x[i], i < 512 ? 105 : 5);
		for (i = 1024; i < 2048; i++)
			CHECK_EQ(y[i], i < 1536 ? 105 : 5);
	}
	stack_close(&s);
}

/* Rows of one matrix in two columns: strided ranges that don't meet. */
TEST(strided_copy)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 64 * 64), *b = stack_buffer(&s, 32 * 64);
	unsigned char *m = arax_buffer_data(a), *left = arax_buffer_data(b);
	int row, col;

	for (row = 0; row < 64; row++)
		for (col = 0; col < 64; col++)
			m[row * 64 + col] = (unsigned char)(row ^ col);
	CHECK_EQ(arax_copy(s.q, arax_part(b, ARAX_OUT, 0, 32 * 64),
			   arax_rows(a, ARAX_IN, 32, 32, 64, 64), NULL), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	for (row = 0; row < 64; row++)
		for (col = 0; col < 32; col++)
			CHECK_EQ(left[row * 32 + col], row ^ (col + 32));
	stack_close(&s);
}

/*
 * Pieces change places, and then others overlap two of those each: more ranges are in use at
 * once than the daemon looks up one by one.
 */
TEST(thousands_of_ranges)
{
	enum { PIECES = 1500, PIECE = 64 };
	struct arax_options o = { .size = sizeof(o), .depth = 4096 };
	struct stack s = { .ax = NULL };
	struct arax_timeline *gate;
	struct arax_buffer *a, *b, *c;
	struct arax_range all;
	uint32_t *x, *z, i, k;

	CHECK_EQ(arax_open(&s.ax, &o), 0);
	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_DATAFLOW, 0, &s.q), 0);
	a = stack_buffer(&s, PIECES * PIECE);
	b = stack_buffer(&s, PIECES * PIECE);
	c = stack_buffer(&s, PIECES * PIECE);
	x = arax_buffer_data(a);
	z = arax_buffer_data(c);
	for (i = 0; i < PIECES * PIECE / 4; i++)
		x[i] = i;
	/* So that all are there before the first one runs. */
	all = arax_inout(a);
	stack_hold(&s, s.q, gate, &all, NULL);
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(arax_copy(s.q, arax_part(b, ARAX_OUT, i * 7 % PIECES * PIECE, PIECE),
				   arax_part(a, ARAX_IN, i * PIECE, PIECE), NULL), 0);
	for (i = 0; i < PIECES - 1; i++)
		CHECK_EQ(arax_copy(s.q, arax_part(c, ARAX_OUT, i * PIECE, PIECE),
				   arax_part(b, ARAX_IN, i * PIECE + PIECE / 2, PIECE), NULL), 0);
	stack_await_taken(&s, 2 * PIECES);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	for (i = 0; i < PIECES; i++) {
		uint32_t at = i * 7 % PIECES * (PIECE / 4), words = PIECE / 4;

		/* Its second half begins a piece of @c, its first one ends the piece before. */
		for (k = 0; k < words; k++) {
			uint32_t to = at + k - words / 2;

			if (at + k >= words / 2 && to < (PIECES - 1) * words)
				CHECK_EQ(z[to], i * words + k + 1);
		}
	}
	arax_timeline_destroy(gate);
	stack_close(&s);
}

/* On the host's pages they cost nobody but their task anything. */
TEST(many_rows)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 1u << 20), *b = stack_buffer(&s, 1u << 19);
	struct arax_kernel k = stack_kernel(&s, "st_fail");
	struct arax_device d = { .size = sizeof(d) };
	uint32_t rows = 1u << 19, value = EDOM;
	struct arax_event e = { 0 };

	CHECK_EQ(arax_get_device(s.ax, 0, &d), 0);
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(value),
			     ARAX_RANGES(arax_rows(a, ARAX_INOUT, 0, 1, 2, rows)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), d.memory ? -ENOMEM : -EDOM);
	memset(arax_buffer_data(a), 7, 1u << 20);
	CHECK_EQ(arax_copy(s.q, arax_out(b), arax_rows(a, ARAX_IN, 0, 1, 2, rows), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(((unsigned char *)arax_buffer_data(b))[rows - 1], 7);
	stack_close(&s);
}

TEST(failure_cancels_dependents)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_event bad = { 0 }, after = { 0 }, apart = { 0 }, held = { 0 };
	uint32_t *x = arax_buffer_data(a);

	/* Something slow first, so that all are queued when the failure comes. */
	stack_launch(&s, s.q, "st_spin", a, 20000, &held);
	stack_launch(&s, s.q, "st_fail", a, EDOM, &bad);
	stack_launch(&s, s.q, "st_add", a, 1, &after);
	stack_launch(&s, s.q, "st_add", b, 1, &apart);
	CHECK_EQ(arax_wait(&held, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_wait(&bad, arax_deadline(60 * SECOND)), -EDOM);
	CHECK_EQ(arax_wait(&after, arax_deadline(60 * SECOND)), -ECANCELED);
	CHECK_EQ(arax_wait(&apart, arax_deadline(60 * SECOND)), 0);
	CHECK(bad.tag != 0);
	CHECK_EQ(after.origin, bad.tag);
	CHECK_EQ(x[0], 0);
	stack_close(&s);
}

/* Who waits for the last of many tasks isn't woken for each of them. */
TEST(sleeps_until_the_last)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *b = stack_buffer(&s, WORDS * 4);
	struct arax_event e[32] = { 0 };
	struct rusage before, after;
	unsigned int i;

	for (i = 0; i < 32; i++)
		stack_launch(&s, s.q, "st_spin", b, 3000, &e[i]);
	getrusage(RUSAGE_THREAD, &before);
	CHECK_EQ(arax_wait(&e[31], arax_deadline(60 * SECOND)), 0);
	getrusage(RUSAGE_THREAD, &after);
	for (i = 0; i < 32; i++)
		CHECK(arax_event_done(&e[i]));
	/* Once; and some where it tries for how long to wait awake. */
	CHECK(after.ru_nvcsw - before.ru_nvcsw < 16);
	stack_close(&s);
}

TEST(continue_runs_on)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_CONTINUE);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_event bad = { 0 }, after = { 0 };

	stack_launch(&s, s.q, "st_fail", a, EDOM, &bad);
	stack_launch(&s, s.q, "st_add", a, 7, &after);
	CHECK_EQ(arax_wait(&after, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(arax_wait(&bad, arax_deadline(60 * SECOND)), -EDOM);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 7);
	stack_close(&s);
}

TEST(cancel_queue)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	uint32_t *x = arax_buffer_data(a);
	int i, try, canceled = 0;

	/* Once is enough: on a busy machine the first one may be over before all are there. */
	for (try = 0; try < 20 && canceled < 20; try++) {
		struct arax_event first = { 0 }, rest[20] = { { 0 } };

		canceled = 0;
		x[0] = 0;
		stack_launch(&s, s.q, "st_spin", a, 100000, &first);
		for (i = 0; i < 20; i++)
			stack_launch(&s, s.q, "st_add", a, 1, &rest[i]);
		CHECK(arax_queue_cancel(s.q) >= 0);
		arax_wait(&first, arax_deadline(60 * SECOND));
		for (i = 0; i < 20; i++)
			canceled += arax_wait(&rest[i], arax_deadline(60 * SECOND)) == -ECANCELED;
		CHECK_EQ(x[0], (uint32_t)(20 - canceled));
	}
	CHECK_EQ(canceled, 20);
	stack_close(&s);
}

TEST(deadline_passes)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range range = arax_inout(a);
	struct arax_event first = { 0 }, late = { 0 };
	struct arax_timeline *gate;
	uint32_t one = 1;
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = &k, .grid = arax_grid(1, 1, 1),
		.args = &one, .arg_len = sizeof(one), .ranges = &range, .nr_ranges = 1,
		.event = &late,
	};

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &range, &first);
	d.deadline = arax_deadline(SECOND / 100);
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	CHECK_EQ(arax_wait(&late, arax_deadline(60 * SECOND)), -ETIMEDOUT);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&first, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 1);
	arax_timeline_destroy(gate);
	stack_close(&s);
}
