// SPDX-License-Identifier: MIT
/* Buffers whose program says when it touches them: results come when they are asked for. */
#include "stack.h"

#include <errno.h>
#include <stdlib.h>

#define WORDS	4096
#define SOON	arax_deadline(60 * SECOND)

static struct arax_buffer *explicit_buffer(struct stack *s, size_t bytes)
{
	struct arax_buffer *b;

	CHECK_EQ(arax_buffer_create(s->ax, bytes, ARAX_BUFFER_EXPLICIT, &b), 0);
	return b;
}

static void add(struct stack *s, const struct arax_kernel *k, struct arax_range r, uint32_t value)
{
	CHECK_EQ(arax_launch(s->q, k, arax_grid(1, 1, 1), ARAX_ARGS(value), ARAX_RANGES(r), NULL),
		 0);
}

/*
 * Whether the test is over: a device was lost (run.sh has one do so, and says it) while
 * a task changed bytes that were there alone.  Nobody has them then, and it fails.
 */
static int is_lost(int err)
{
	if (!getenv("ARAX_TEST_LOST") || (err != -ENODEV && err != -EIO))
		CHECK_EQ(err, 0);
	return !!err;
}

/* The same of an access: what it waited for may have been canceled behind the task that was lost. */
static int is_access_lost(struct stack *s, int err)
{
	int first = err == -ECANCELED ? arax_queue_finish(s->q, SOON) : 0;

	return is_lost(first ? first : err);
}

/* The program waits after each task, and looks only at the end. */
TEST(explicit_chain)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = explicit_buffer(&s, WORDS * 4);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t *x = arax_buffer_data(b), i;

	CHECK_EQ(arax_access_begin(s.q, arax_out(b), SOON), 0);
	for (i = 0; i < WORDS; i++)
		x[i] = i;
	CHECK_EQ(arax_access_end(s.q, arax_out(b)), 0);
	for (i = 1; i <= 100; i++) {
		add(&s, &k, arax_inout(b), i);
		if (is_lost(arax_queue_finish(s.q, SOON))) {
			stack_close(&s);
			return;
		}
	}
	CHECK_EQ(arax_access_begin(s.q, arax_in(b), SOON), 0);
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(x[i], i + 5050);
	CHECK_EQ(arax_access_end(s.q, arax_in(b)), 0);
	stack_close(&s);
}

/* Writes of the program, fills and copies on the host, kernels wherever they run. */
TEST(explicit_by_turns)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = explicit_buffer(&s, WORDS * 4), *b = explicit_buffer(&s, WORDS * 4);
	struct arax_buffer *plain = stack_buffer(&s, WORDS * 4);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t *x = arax_buffer_data(a), *y = arax_buffer_data(b), *z = arax_buffer_data(plain);
	struct arax_range part = arax_part(a, ARAX_INOUT, 4096, 4096);
	uint32_t five = 5, i, round;

	for (round = 1; round <= 30; round++) {
		CHECK_EQ(arax_fill(s.q, arax_out(a), &five, 4, NULL), 0);
		add(&s, &k, arax_inout(a), round);
		if (is_access_lost(&s, arax_access_begin(s.q, part, SOON)))
			break;
		for (i = 1024; i < 2048; i++) {
			CHECK_EQ(x[i], 5 + round);
			x[i] = 1000;
		}
		CHECK_EQ(arax_access_end(s.q, part), 0);
		add(&s, &k, arax_inout(a), 7);
		CHECK_EQ(arax_copy(s.q, arax_out(b), arax_in(a), NULL), 0);
		add(&s, &k, arax_inout(b), 1);
		CHECK_EQ(arax_copy(s.q, arax_out(plain), arax_in(b), NULL), 0);
		if (is_lost(arax_queue_finish(s.q, SOON)))
			break;
		for (i = 0; i < WORDS; i++)
			CHECK_EQ(z[i], i >= 1024 && i < 2048 ? 1008 : 13 + round);
		CHECK_EQ(arax_access_begin(s.q, arax_in(b), SOON), 0);
		for (i = 0; i < WORDS; i++)
			CHECK_EQ(y[i], z[i]);
	}
	stack_close(&s);
}

/*
 * One task was lost, and its chain has ended there.  Of the others, which need nothing of it, each
 * is right, or what was on the device is gone.
 */
static void others_are_there(struct stack *s, struct arax_buffer **b, const struct arax_range *r,
			     uint32_t times)
{
	uint32_t i, ended = 0, there = 0;

	for (i = 0; i < 20; i++) {
		const uint32_t *x = arax_buffer_data(b[i]);

		if (is_access_lost(s, arax_access_begin(s->q, r[i], SOON)))
			continue;
		CHECK_EQ(x[0], x[WORDS - 1]);
		ended += x[0] != times * (i + 1);
		there++;
		CHECK_EQ(arax_access_end(s->q, r[i]), 0);
	}
	CHECK(ended <= 1);
	CHECK(there > ended);
}

/* All results at once, while others are computed still. */
TEST(explicit_results_at_once)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_buffer *b[20];
	struct arax_range r[20];
	uint32_t i, j, round;

	for (i = 0; i < 20; i++) {
		b[i] = explicit_buffer(&s, WORDS * 4);
		r[i] = arax_in(b[i]);
	}
	for (round = 1; round <= 20; round++) {
		for (j = 0; j < 3; j++)
			for (i = 0; i < 20; i++)
				add(&s, &k, arax_inout(b[i]), i + 1);
		if (is_access_lost(&s, arax_access_begin_all(s.q, r, 20, SOON))) {
			others_are_there(&s, b, r, 3 * round);
			break;
		}
		for (i = 0; i < 20; i++) {
			const uint32_t *x = arax_buffer_data(b[i]);

			for (j = 0; j < WORDS; j++)
				CHECK_EQ(x[j], 3 * round * (i + 1));
			CHECK_EQ(arax_access_end(s.q, r[i]), 0);
		}
	}
	stack_close(&s);
}

/*
 * More than the devices hold, all of it changed and never looked at meanwhile.  In the order of
 * submission each round would bring all of it again; by what is there, and what is known to
 * be used next, most of it comes once.
 */
TEST(explicit_out_of_core)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_event done[6 * 6] = { 0 };
	const uint64_t bytes = 12u << 20;
	struct arax_timeline *gate;
	struct arax_buffer *b[6];
	struct arax_range r[6];
	uint64_t moved = 0;
	uint32_t i;

	/* The first ones wait until all have come: what isn't there yet can't be chosen. */
	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	for (i = 0; i < 6; i++) {
		b[i] = explicit_buffer(&s, bytes);
		r[i] = arax_inout(b[i]);
		stack_hold(&s, s.q, gate, &r[i], &done[i]);
	}
	for (i = 6; i < 36; i++) {
		uint32_t value = i % 6 + 1;

		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(value),
				     ARAX_RANGES(arax_inout(b[i % 6])), &done[i]), 0);
	}
	stack_await_taken(&s, 36);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_queue_finish(s.q, SOON), 0);
	for (i = 0; i < 36; i++) {
		if (is_lost(done[i].result)) {
			stack_close(&s);
			return;
		}
		moved += done[i].bytes;
	}
	for (i = 0; i < 6; i++) {
		uint32_t *x = arax_buffer_data(b[i]), j;

		CHECK_EQ(arax_access_begin(s.q, arax_in(b[i]), SOON), 0);
		for (j = 0; j < 3u << 20; j++)
			CHECK_EQ(x[j], 5 * (i + 1) + 1);
	}
	CHECK(moved <= 36 * bytes * 5 / 8);
	stack_close(&s);
}

/* Who has the pages from elsewhere could not know when they are current. */
TEST(explicit_is_not_shared)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = explicit_buffer(&s, 4096);

	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_ARAX), -EOPNOTSUPP);
	stack_close(&s);
}
