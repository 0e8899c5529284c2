// SPDX-License-Identifier: MIT
/*
 * Kernels whose first implementation is a function on the host that puts work onto the device's
 * queue (selftests/unit/stream_fn.c), and the second one a kernel: run.sh has araxd drive an
 * OpenCL device alone.
 */
#include "stack.h"

#include <errno.h>
#include <stdlib.h>

#include "selftests/unit/stream_fn.h"

#define ITEMS	256
#define OTHERS	1000000		/* what the kernel adds */

static struct stack open_stack(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_device d = { .size = sizeof(d) };
	struct arax_kernel k;

	if (arax_get_device(s.ax, 0, &d) || d.kind != ARAX_DEVICE_OPENCL)
		tap_skip("no OpenCL device is here (Debian: pocl-opencl-icd)");
	if (arax_kernel_find(s.ax, "vt_fill", 0, &k))
		tap_skip("the function was not built: no OpenCL headers");
	return s;
}

static void fill(struct stack *s, const char *name, struct arax_buffer *b, int32_t value, int32_t mode,
		 struct arax_event *event)
{
	struct fn_args a = { value, mode, ITEMS };
	struct arax_kernel k = stack_kernel(s, name);

	CHECK_EQ(arax_launch(s->q, &k, arax_grid(1, 1, 1), ARAX_ARGS(a), ARAX_RANGES(arax_out(b)),
			     event), 0);
}

static int run(struct stack *s, const char *name, struct arax_buffer *b, int32_t value, int32_t mode)
{
	struct arax_event e = { 0 };

	fill(s, name, b, value, mode, &e);
	return arax_wait(&e, arax_deadline(60 * SECOND));
}

/* All of it, in the host's memory. */
static void check_all(struct arax_buffer *b, int32_t value)
{
	const int32_t *x = arax_buffer_data(b);
	int i;

	for (i = 0; i < ITEMS; i++)
		CHECK_EQ(x[i], value);
}

TEST(who_takes_it)
{
	struct stack s = open_stack();
	struct arax_buffer *b = stack_buffer(&s, ITEMS * sizeof(int32_t));

	CHECK_EQ(run(&s, "vt_fill", b, 5, FN_WORKS), 0);
	check_all(b, 5);
	CHECK_EQ(run(&s, "vt_fill", b, 6, FN_OTHER), 0);
	check_all(b, 6 + OTHERS);
	/* One that can't be loaded, one that is not for this device. */
	CHECK_EQ(run(&s, "vt_away", b, 7, FN_WORKS), 0);
	check_all(b, 7 + OTHERS);
	CHECK_EQ(run(&s, "vt_only", b, 8, FN_WORKS), 0);
	check_all(b, 8);
	CHECK_EQ(run(&s, "vt_only", b, 9, FN_OTHER), -EOPNOTSUPP);
	CHECK_EQ(run(&s, "vt_only", b, 9, FN_LOST), -EIO);
	/* This device is no GPU, and there is no other. */
	CHECK_EQ(run(&s, "vt_gpus", b, 9, FN_WORKS), -ENOEXEC);
	CHECK_EQ(run(&s, "vt_only", b, 10, FN_WORKS), 0);
	check_all(b, 10);
	stack_close(&s);
}

/* Each kind behind each other, as far as the lane takes them before one has ended. */
TEST(chains)
{
	struct stack s = open_stack();
	struct arax_buffer *b = stack_buffer(&s, ITEMS * sizeof(int32_t));
	uint32_t seed = 1;
	int round, i;

	for (round = 0; round < 200; round++) {
		int32_t want = 0;

		for (i = 0; i < 20; i++) {
			seed = seed * 1103515245 + 12345;
			if (seed >> 16 & 1 && i) {
				stack_launch(&s, s.q, "st_add", b, 3, NULL);
				want += 3;
			} else {
				int other = seed >> 17 & 1;

				/* Of one value: the function's memory is read later. */
				fill(&s, "vt_fill", b, 100 + round, other ? FN_OTHER : FN_WORKS, NULL);
				want = 100 + round + (other ? OTHERS : 0);
			}
		}
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
		check_all(b, want);
	}
	stack_close(&s);
}

TEST(what_waits_for_one_that_fails)
{
	struct stack s = open_stack();
	struct arax_buffer *b = stack_buffer(&s, ITEMS * sizeof(int32_t));
	struct arax_buffer *c = stack_buffer(&s, ITEMS * sizeof(int32_t));
	int round;

	for (round = 0; round < 50; round++) {
		struct arax_event e[4] = { 0 };

		fill(&s, "vt_fill", b, 3, FN_WORKS, &e[0]);
		fill(&s, "vt_fill", b, 3, FN_FAILS, &e[1]);
		stack_launch(&s, s.q, "st_add", b, 1, &e[2]);
		fill(&s, "vt_fill", c, 3, round & 1 ? FN_OTHER : FN_WORKS, &e[3]);
		CHECK_EQ(arax_wait(&e[0], arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(arax_wait(&e[1], arax_deadline(60 * SECOND)), -EIO);
		CHECK_EQ(arax_wait(&e[2], arax_deadline(60 * SECOND)), -ECANCELED);
		CHECK_EQ(arax_wait(&e[3], arax_deadline(60 * SECOND)), 0);
		check_all(c, 3 + (round & 1 ? OTHERS : 0));
		arax_queue_finish(s.q, arax_deadline(60 * SECOND));
	}
	stack_close(&s);
}

/* Beside the processor, which has kernels in C for what the function does not take. */
static struct stack open_both(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_device d = { .size = sizeof(d) };
	struct arax_kernel k;
	uint32_t kinds = 0, i;

	for (i = 0; !arax_get_device(s.ax, i, &d); i++)
		kinds |= d.flags & ARAX_DEVICE_ONLINE ? 1u << d.kind : 0;
	if (~kinds & (1u << ARAX_DEVICE_OPENCL | 1u << ARAX_DEVICE_CPU))
		tap_skip("there are not both");
	if (arax_kernel_find(s.ax, "vt_else", 0, &k))
		tap_skip("the function was not built: no OpenCL headers");
	return s;
}

/* Whose it was to compute. */
static int on_opencl(struct arax_buffer *b, int32_t value)
{
	const int32_t *x = arax_buffer_data(b);
	int whole = x[0] == value ? 0 : OTHERS;

	check_all(b, value + whole);
	return !whole;
}

TEST(another_device_takes_it)
{
	struct stack s = open_both();
	struct arax_buffer *b = stack_buffer(&s, ITEMS * sizeof(int32_t));
	int i, done = 0;

	for (i = 0; i < 40; i++) {
		CHECK_EQ(run(&s, "vt_else", b, i, FN_OTHER), 0);
		CHECK(!on_opencl(b, i));
	}
	/* It rests there, but not for good. */
	for (i = 0; !done; i++) {
		CHECK_EQ(run(&s, "vt_else", b, i, FN_WORKS), 0);
		done += on_opencl(b, i);
	}
	/* What only that device has ends as it says. */
	CHECK_EQ(run(&s, "vt_only", b, 9, FN_OTHER), -EOPNOTSUPP);
	CHECK(strstr(arax_error_text(), "vt_only") && strstr(arax_error_text(), "no other device"));
	stack_close(&s);
}

/* In its turn, and with the bytes that the device that has declined has alone. */
TEST(and_finds_all_that_was_there)
{
	struct stack s = open_both();
	const size_t bytes = ITEMS * sizeof(int32_t);
	struct arax_buffer *other = stack_buffer(&s, bytes), *b = NULL;
	struct arax_kernel more = stack_kernel(&s, "vt_more");
	struct fn_args a = { 1, FN_OTHER, ITEMS };
	int i;

	CHECK_EQ(arax_buffer_create(s.ax, bytes, ARAX_BUFFER_EXPLICIT, &b), 0);
	for (i = 0; i < 60; i++) {
		stack_launch(&s, s.q, "st_add", b, 1, NULL);
		/* By turns: else these two would never be on one device. */
		stack_launch(&s, s.q, "st_add", other, 1, NULL);
		a.mode = FN_OTHER;
		CHECK_EQ(arax_launch(s.q, &more, arax_grid(1, 1, 1), ARAX_ARGS(a),
				     ARAX_RANGES(arax_inout(b)), NULL), 0);
		/* So that the kernel does not rest there. */
		a.mode = FN_WORKS;
		CHECK_EQ(arax_launch(s.q, &more, arax_grid(1, 1, 1), ARAX_ARGS(a),
				     ARAX_RANGES(arax_inout(other)), NULL), 0);
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	}
	CHECK_EQ(arax_access_begin(s.q, arax_in(b), arax_deadline(60 * SECOND)), 0);
	check_all(b, 120);
	CHECK_EQ(arax_access_end(s.q, arax_in(b)), 0);
	stack_close(&s);
}
