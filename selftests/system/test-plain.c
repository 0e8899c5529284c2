// SPDX-License-Identifier: MIT
/*
 * Buffers are plain memory between tasks: whoever reads one sees what a task
 * wrote, and a task what whoever wrote, wherever the task runs.
 */
#include "stack.h"

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
