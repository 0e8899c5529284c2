// SPDX-License-Identifier: MIT
/* CPUs are one device: run.sh has araxd make a group of two. */
#include "stack.h"

#include <errno.h>
#include <stdbool.h>

#define WORDS	(256u << 10)
#define CHAINS	6
#define LINKS	40

/* The only device: what else is listed is stacks that are not used. */
static struct arax_device the_group(struct stack *s)
{
	struct arax_device d = { .size = sizeof(d) };

	CHECK_EQ(arax_get_device(s->ax, 1, &d), 0);
	CHECK(!(d.flags & ARAX_DEVICE_ONLINE) && d.reason[0]);
	CHECK_EQ(arax_get_device(s->ax, 0, &d), 0);
	return d;
}

TEST(it_has_a_lane_for_each_cpu)
{
	struct stack s = stack_open(0);
	struct arax_device d = the_group(&s);

	CHECK(d.units > 1);
	CHECK_EQ(d.lanes, d.units);
	stack_close(&s);
}

static void meet(struct stack *s, struct arax_buffer *b, uint32_t tasks)
{
	stack_launch(s, s->q, "st_meet", b, tasks, NULL);
}

/* Each waits for all others to run. */
TEST(tasks_have_a_cpu_each)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b[64];
	uint32_t lanes = the_group(&s).lanes, i, round;

	CHECK(lanes <= 64);
	for (i = 0; i < lanes; i++)
		b[i] = stack_buffer(&s, 4);
	for (round = 0; round < 20; round++) {
		for (i = 0; i < lanes; i++)
			meet(&s, b[i], lanes);
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	}
	stack_close(&s);
}

static void add(struct stack *s, struct arax_buffer *y, struct arax_buffer *x, struct arax_event *e)
{
	struct arax_kernel k = stack_kernel(s, "saxpy");
	struct { float a; uint32_t n; } args = { 1, WORDS };

	CHECK_EQ(arax_launch(s->q, &k, arax_grid(WORDS / 256, 1, 1), ARAX_ARGS(args),
			     ARAX_RANGES(arax_in(x), arax_inout(y)), e), 0);
}

/* One that can be split has the CPU that a long one leaves. */
TEST(split_beside_a_long_one)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4), *b = stack_buffer(&s, 4);
	struct arax_buffer *x = stack_buffer(&s, WORDS * 4), *y = stack_buffer(&s, WORDS * 4);
	float *in = arax_buffer_data(x), *sum = arax_buffer_data(y);
	struct arax_event e = { 0 }, meets = { 0 };
	uint32_t i;

	for (i = 0; i < WORDS; i++)
		in[i] = i % 1000;
	stack_launch(&s, s.q, "st_meet", a, 2, &meets);
	for (i = 0; i < 10; i++)
		add(&s, y, x, i == 9 ? &e : NULL);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(sum[i], i % 1000 * 10);
	/* It has waited for this all the time; else it has given up by now. */
	CHECK(!arax_event_done(&meets));
	meet(&s, b, 2);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	stack_close(&s);
}

/* More than CPUs: each is whole, however they are shared out. */
TEST(split_ones_at_once)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, WORDS * 4), *y[CHAINS];
	float *in = arax_buffer_data(x);
	uint32_t i, j;

	for (i = 0; i < WORDS; i++)
		in[i] = i % 1000;
	for (j = 0; j < CHAINS; j++)
		y[j] = stack_buffer(&s, WORDS * 4);
	for (i = 0; i < LINKS; i++)
		for (j = 0; j < CHAINS; j++)
			add(&s, y[j], x, NULL);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	for (j = 0; j < CHAINS; j++) {
		const float *sum = arax_buffer_data(y[j]);

		for (i = 0; i < WORDS; i++)
			CHECK_EQ(sum[i], i % 1000 * LINKS);
	}
	stack_close(&s);
}

/* A copy has a lane, and its thread: one that is long keeps no other waiting. */
TEST(copies_beside_each_other)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *large = stack_buffer(&s, 512u << 20), *small = stack_buffer(&s, 1u << 20);
	const uint32_t pattern = 0x01020304;
	const uint8_t *bytes = arax_buffer_data(large);
	bool beside = false;
	int i;

	/* Once is enough: a busy machine may keep the small one from running. */
	for (i = 0; i < 20 && !beside; i++) {
		struct arax_event first = ARAX_EVENT_INIT, second = ARAX_EVENT_INIT;

		CHECK_EQ(arax_fill(s.q, arax_out(large), &pattern, sizeof(pattern), &first), 0);
		CHECK_EQ(arax_fill(s.q, arax_out(small), &pattern, sizeof(pattern), &second), 0);
		CHECK_EQ(arax_wait(&second, arax_deadline(60 * SECOND)), 0);
		beside = !arax_event_done(&first);
		CHECK_EQ(arax_wait(&first, arax_deadline(60 * SECOND)), 0);
	}
	CHECK(beside);
	CHECK(!memcmp(bytes, &pattern, 4) && !memcmp(bytes + (512u << 20) - 4, &pattern, 4));
	stack_close(&s);
}

static void count_groups(const char *kernel, uint32_t value, uint32_t groups)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	const uint32_t *x = arax_buffer_data(b);

	stack_launch(&s, s.q, kernel, b, value, NULL);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(x[0], groups);
	CHECK_EQ(x[2], groups);
	/* Each CPU may have some. */
	CHECK(groups == 1 ? x[1] == 1 : x[1] > 1);
	stack_close(&s);
}

/* The client's grid is one group: here, and in a worker, the manifest says how many there are. */
TEST(groups_are_the_manifests)
{
	count_groups("st_groups", 1000, 1000);
	count_groups("st_groups_data", 1000, 1000);
	count_groups("st_groups_data", 0, 1);
}

/* More of the client's own than 32 bits hold: none is left out. */
TEST(groups_are_the_clients)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_groups_own");
	const uint32_t *x = arax_buffer_data(b), unused = 0;

	CHECK_EQ(arax_launch(s.q, &k, arax_grid(65536, 65537, 1), ARAX_ARGS(unused),
			     ARAX_RANGES(arax_inout(b)), NULL), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(x[0], 65536);
	CHECK_EQ(x[2], 65536);
	stack_close(&s);
}
