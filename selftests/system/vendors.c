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
