// SPDX-License-Identifier: MIT
/*
 * Chains of tasks on a device that takes tasks ahead, so that each is started before the one that
 * it waits for has ended: run.sh has araxd drive an OpenCL device alone.  What a failure means
 * must be the same as anywhere.
 */
#include "stack.h"

#include <errno.h>
#include <stdlib.h>

#define LENGTH	60
#define CHAINS	3
#define ROUNDS	40
#define FEW	20

static struct stack open_stack(unsigned int flags)
{
	struct stack s = stack_open(flags);
	struct arax_device d = { .size = sizeof(d) };

	if (arax_get_device(s.ax, 0, &d) || d.kind != ARAX_DEVICE_OPENCL)
		tap_skip("no OpenCL device is here (Debian: pocl-opencl-icd)");
	return s;
}

struct chain {
	struct arax_queue *q;
	struct arax_buffer *b;
	struct arax_event events[LENGTH];
	int bad;		/* -1: none fails */
};

static struct arax_kernel add, fail;

static void submit(struct chain *c, int i)
{
	uint32_t value = i == c->bad ? EDOM : 1;

	c->events[i] = (struct arax_event){ 0 };
	CHECK_EQ(arax_launch(c->q, i == c->bad ? &fail : &add, arax_grid(1, 1, 1),
			     ARAX_ARGS(value), ARAX_RANGES(arax_inout(c->b)), &c->events[i]), 0);
}

/* Those behind the one that fails haven't run. */
static uint32_t wait_for(struct chain *c, int goes_on)
{
	uint32_t ran = 0;
	int i;

	for (i = 0; i < LENGTH; i++) {
		struct arax_event *e = &c->events[i];
		int err = arax_wait(e, arax_deadline(60 * SECOND));

		if (i == c->bad) {
			CHECK_EQ(err, -EDOM);
		} else if (c->bad < 0 || i < c->bad || goes_on) {
			CHECK_EQ(err, 0);
			ran++;
		} else {
			CHECK_EQ(err, -ECANCELED);
			CHECK_EQ(e->origin, c->events[c->bad].tag);
		}
	}
	return ran;
}

static void chains(unsigned int flags, int nr)
{
	struct stack s = open_stack(flags);
	uint32_t sum[CHAINS] = { 0 };
	struct chain c[CHAINS];
	int round, i, k;

	add = stack_kernel(&s, "st_add");
	fail = stack_kernel(&s, "st_fail");
	srand(1);
	for (k = 0; k < nr; k++) {
		CHECK_EQ(arax_queue_create(s.ax, flags, 0, &c[k].q), 0);
		c[k].b = stack_buffer(&s, 4096);
	}
	for (round = 0; round < ROUNDS; round++) {
		for (k = 0; k < nr; k++)
			c[k].bad = (round + k) % 3 ? rand() % LENGTH : -1;
		/* Turn by turn: others come between two of a chain. */
		for (i = 0; i < LENGTH; i++)
			for (k = 0; k < nr; k++)
				submit(&c[k], i);
		for (k = 0; k < nr; k++) {
			uint32_t *x = arax_buffer_data(c[k].b);

			sum[k] += wait_for(&c[k], flags & ARAX_QUEUE_CONTINUE);
			CHECK_EQ(x[0], sum[k]);
			CHECK_EQ(x[1023], sum[k]);
		}
	}
	stack_close(&s);
}

TEST(a_chain_in_order)
{
	chains(ARAX_QUEUE_IN_ORDER, 1);
}

TEST(a_chain_by_its_data)
{
	chains(ARAX_QUEUE_DATAFLOW, 1);
}

TEST(chains_side_by_side_in_order)
{
	chains(ARAX_QUEUE_IN_ORDER, CHAINS);
}

TEST(chains_side_by_side_by_their_data)
{
	chains(ARAX_QUEUE_DATAFLOW, CHAINS);
}

TEST(who_goes_on_does)
{
	chains(ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE, CHAINS);
}

/* Each waits for two others, in turn for the last two of its lane. */
TEST(two_before_each)
{
	struct stack s = open_stack(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	const uint32_t *x = arax_buffer_data(a), *y = arax_buffer_data(b);
	uint32_t one = 1;
	int i;

	for (i = 0; i < 2000; i++) {
		struct arax_buffer *buffer = i % 3 == 0 ? a : b;
		struct arax_range r = arax_inout(buffer);

		if (i % 3 == 2) {
			r = arax_inout(a);
			r.offset = 2048;
			r.length = 2048;
		}
		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(one), ARAX_RANGES(r),
				     NULL), 0);
	}
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(x[0], 667);
	CHECK_EQ(x[1023], 667 + 666);
	CHECK_EQ(y[0], 667);
	stack_close(&s);
}

/*
 * What the host does is of no lane, though the device stands for it: nobody begins before it has
 * ended.
 */
TEST(behind_copies_and_fills)
{
	enum { BYTES = 4 << 20 };
	struct stack s = open_stack(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, BYTES), *b = stack_buffer(&s, BYTES);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	const uint32_t *y = arax_buffer_data(b);
	uint32_t i, one = 1;

	for (i = 1; i <= 200; i++) {
		struct arax_event e[4] = { { 0 } };
		int n;

		CHECK_EQ(arax_fill(s.q, arax_out(a), &i, 4, &e[0]), 0);
		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(one),
				     ARAX_RANGES(arax_inout(a)), &e[1]), 0);
		CHECK_EQ(arax_copy(s.q, arax_out(b), arax_in(a), &e[2]), 0);
		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(one),
				     ARAX_RANGES(arax_inout(b)), &e[3]), 0);
		for (n = 0; n < 4; n++)
			CHECK_EQ(arax_wait(&e[n], arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(y[0], i + 2);
		CHECK_EQ(y[BYTES / 4 - 1], i + 2);
	}
	stack_close(&s);
}

/* Nobody follows anybody: a task is sent when the one before it is known to have ended. */
TEST(one_at_a_time)
{
	struct stack s = open_stack(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add"), bad = stack_kernel(&s, "st_fail");
	uint32_t i;

	for (i = 1; i <= 3000; i++) {
		CHECK_EQ(stack_run(&s, &k, 1, b, 1), 0);
		CHECK_EQ(((uint32_t *)arax_buffer_data(b))[1023], i);
		if (i % 500 == 0)
			CHECK_EQ(stack_run(&s, &bad, 1, b, EDOM), -EDOM);
	}
	stack_close(&s);
}

/* A size of work-groups that the driver may not have compiled yet: never by the poller. */
TEST(groups_of_another_size_each_time)
{
	struct stack s = open_stack(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	uint32_t i, one = 1;

	for (i = 1; i <= 300; i++) {
		struct arax_grid g = arax_grid(2, 1, 1);
		struct arax_event e = { 0 };

		g.block[0] = 1 + i % 6;
		CHECK_EQ(arax_launch(s.q, &k, g, ARAX_ARGS(one), ARAX_RANGES(arax_inout(b)), &e), 0);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(((uint32_t *)arax_buffer_data(b))[1023], i);
	}
	stack_close(&s);
}

/* Of half a millisecond or more, for which the poller doesn't wait itself. */
TEST(long_ones_one_at_a_time)
{
	enum { N = 1 << 20 };
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_device d = { .size = sizeof(d) };
	struct arax_buffer *x = stack_buffer(&s, N * 4), *y = stack_buffer(&s, N * 4);
	struct arax_kernel k = stack_kernel(&s, "saxpy");
	struct { float a; uint32_t n; } args = { 1, N };
	float *in = arax_buffer_data(x), *sum = arax_buffer_data(y);
	uint32_t i;

	if (arax_get_device(s.ax, 0, &d) || !(d.flags & ARAX_DEVICE_ONLINE))
		tap_skip("no such device is here");
	for (i = 0; i < N; i++)
		in[i] = 1;
	for (i = 1; i <= 300; i++) {
		struct arax_event e = { 0 };

		CHECK_EQ(arax_launch(s.q, &k, arax_grid(64, 1, 1), ARAX_ARGS(args),
				     ARAX_RANGES(arax_in(x), arax_inout(y)), &e), 0);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
		CHECK_EQ((uint32_t)sum[i], i);
		CHECK_EQ((uint32_t)sum[N - 1], i);
	}
	stack_close(&s);
}

/* Of two programs, by turns and at once. */
TEST(two_programs_one_at_a_time)
{
	struct stack s[2] = { open_stack(ARAX_QUEUE_DATAFLOW), open_stack(ARAX_QUEUE_IN_ORDER) };
	struct arax_buffer *b[2] = { stack_buffer(&s[0], 4096), stack_buffer(&s[1], 4096) };
	struct arax_kernel k[2] = { stack_kernel(&s[0], "st_add"), stack_kernel(&s[1], "st_add") };
	uint32_t i, n[2] = { 0 };
	int c;

	for (i = 0; i < 500; i++) {
		struct arax_event e[2] = { { 0 } };

		for (c = 0; c < 2; c++) {
			CHECK_EQ(stack_run(&s[c], &k[c], 1, b[c], 1), 0);
			n[c]++;
		}
		for (c = 0; c < 2; c++)
			stack_launch(&s[c], s[c].q, "st_add", b[c], 1, &e[c]);
		for (c = 0; c < 2; c++) {
			CHECK_EQ(arax_wait(&e[c], arax_deadline(60 * SECOND)), 0);
			CHECK_EQ(((uint32_t *)arax_buffer_data(b[c]))[0], ++n[c]);
		}
	}
	stack_close(&s[0]);
	stack_close(&s[1]);
}

/* A program that goes leaves nothing behind, however much was on its way. */
TEST(gone_in_the_middle)
{
	struct stack s = open_stack(ARAX_QUEUE_DATAFLOW);
	uint64_t before = stack_memory(&s);
	int round, i;

	for (round = 0; round < FEW; round++) {
		struct stack t = stack_open(ARAX_QUEUE_DATAFLOW);
		struct arax_buffer *b = stack_buffer(&t, 1 << 20);

		for (i = 0; i < 200; i++)
			stack_launch(&t, t.q, i == 150 ? "st_fail" : "st_add", b, 1, NULL);
		arax_close(t.ax);
	}
	stack_wait_books(&s, before, 0, 1);
	stack_close(&s);
}
