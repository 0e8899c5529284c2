// SPDX-License-Identifier: MIT
/* Whom a failure reaches: what was submitted without knowing of it, and nothing else. */
#include "stack.h"

#include <errno.h>

#define TASKS	300
#define ROUNDS	40

static struct stack open_deep(unsigned int queue_flags, uint32_t depth)
{
	struct arax_options o = { .size = sizeof(o), .depth = depth };
	struct stack s;

	CHECK_EQ(arax_open(&s.ax, &o), 0);
	CHECK_EQ(arax_queue_create(s.ax, queue_flags, 0, &s.q), 0);
	return s;
}

/* A chain on one buffer: the task at @bad fails, each other one adds 1. */
struct chain {
	struct arax_kernel add, fail;
	struct arax_range range;
	uint32_t one, error;
	struct arax_desc tasks[TASKS];
	struct arax_event events[TASKS];
};

static struct chain *make_chain(struct stack *s, struct arax_buffer *b, int bad)
{
	static struct chain c;
	int i;

	c.add = stack_kernel(s, "st_add");
	c.fail = stack_kernel(s, "st_fail");
	c.range = arax_inout(b);
	c.one = 1;
	c.error = EDOM;
	for (i = 0; i < TASKS; i++) {
		c.events[i] = (struct arax_event){ 0 };
		c.tasks[i] = (struct arax_desc){
			.opcode = ARAX_OP_LAUNCH, .kernel = i == bad ? &c.fail : &c.add,
			.grid = arax_grid(1, 1, 1), .args = i == bad ? &c.error : &c.one,
			.arg_len = 4, .ranges = &c.range, .nr_ranges = 1,
			.event = &c.events[i],
		};
	}
	return &c;
}

static int wait_for(struct arax_event *e)
{
	return arax_wait(e, arax_deadline(60 * SECOND));
}

static void expect_canceled(struct arax_event *e, uint64_t origin)
{
	CHECK_EQ(wait_for(e), -ECANCELED);
	CHECK_EQ(e->origin, origin);
}

static void expect_chain(struct chain *c, int bad)
{
	int i;

	for (i = 0; i < bad; i++)
		CHECK_EQ(wait_for(&c->events[i]), 0);
	CHECK_EQ(wait_for(&c->events[bad]), -EDOM);
	for (i = bad + 1; i < TASKS; i++)
		expect_canceled(&c->events[i], c->events[bad].tag);
}

/*
 * Far more than is taken in at once: tasks come to the daemon when the first of them
 * has failed long ago.
 */
static void one_call(unsigned int queue_flags, uint32_t depth)
{
	struct stack s = open_deep(queue_flags, depth);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	uint32_t *x = arax_buffer_data(b), ran = 0;
	struct arax_event after = { 0 };
	int round, bad;

	for (round = 0; round < ROUNDS; round++) {
		struct chain *c;

		bad = round % 4 * 25;
		c = make_chain(&s, b, bad);
		CHECK_EQ(arax_submit(s.q, c->tasks, TASKS, 0), TASKS);
		expect_chain(c, bad);
		ran += (uint32_t)bad;
		CHECK_EQ(x[0], ran);
		/* Who submits this knows. */
		stack_launch(&s, s.q, "st_add", b, 1, &after);
		CHECK_EQ(wait_for(&after), 0);
		CHECK_EQ(x[0], ++ran);
	}
	stack_close(&s);
}

TEST(one_call_in_order)
{
	one_call(ARAX_QUEUE_IN_ORDER, 1024);
}

TEST(one_call_dataflow)
{
	one_call(ARAX_QUEUE_DATAFLOW, 1024);
}

/* The call itself takes completions, to make room. */
TEST(one_call_in_order_little_room)
{
	one_call(ARAX_QUEUE_IN_ORDER, 32);
}

TEST(one_call_dataflow_little_room)
{
	one_call(ARAX_QUEUE_DATAFLOW, 32);
}

/* One call each, but none of them looks at what came of the first. */
static void many_calls(unsigned int queue_flags)
{
	struct stack s = open_deep(queue_flags, 1024);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	uint32_t *x = arax_buffer_data(b);
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		struct chain *c = make_chain(&s, b, 0);

		for (i = 0; i < TASKS; i++)
			CHECK_EQ(arax_submit(s.q, &c->tasks[i], 1, 0), 1);
		expect_chain(c, 0);
		CHECK_EQ(x[0], 0);
	}
	stack_close(&s);
}

TEST(many_calls_in_order)
{
	many_calls(ARAX_QUEUE_IN_ORDER);
}

TEST(many_calls_dataflow)
{
	many_calls(ARAX_QUEUE_DATAFLOW);
}

/* To know of the first is enough, whatever is still to come of it. */
static void known_at_once(unsigned int queue_flags)
{
	struct stack s = open_deep(queue_flags, 1024);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	uint32_t *x = arax_buffer_data(b), ran = 0;
	struct arax_event after = { 0 };
	int round;

	for (round = 0; round < ROUNDS; round++) {
		struct chain *c = make_chain(&s, b, 0);

		CHECK_EQ(arax_submit(s.q, c->tasks, TASKS, 0), TASKS);
		CHECK_EQ(wait_for(&c->events[0]), -EDOM);
		stack_launch(&s, s.q, "st_add", b, 1, &after);
		CHECK_EQ(wait_for(&after), 0);
		CHECK_EQ(x[0], ++ran);
		expect_chain(c, 0);
	}
	stack_close(&s);
}

TEST(known_at_once_in_order)
{
	known_at_once(ARAX_QUEUE_IN_ORDER);
}

TEST(known_at_once_dataflow)
{
	known_at_once(ARAX_QUEUE_DATAFLOW);
}

/* A failure of one queue says nothing about another one's. */
TEST(apart)
{
	struct stack s = open_deep(ARAX_QUEUE_IN_ORDER, 1024);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_event e[64];
	struct arax_queue *q;
	int round, i;

	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &q), 0);
	for (round = 0; round < ROUNDS; round++) {
		struct chain *c = make_chain(&s, a, 0);

		CHECK_EQ(arax_submit(s.q, c->tasks, TASKS, 0), TASKS);
		for (i = 0; i < 64; i++) {
			e[i] = (struct arax_event){ 0 };
			stack_launch(&s, q, "st_add", b, 1, &e[i]);
		}
		expect_chain(c, 0);
		for (i = 0; i < 64; i++)
			CHECK_EQ(wait_for(&e[i]), 0);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), ROUNDS * 64);
	stack_close(&s);
}

TEST(continue_runs_all)
{
	struct stack s = open_deep(ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_CONTINUE, 1024);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct chain *c = make_chain(&s, b, 0);
	int i;

	CHECK_EQ(arax_submit(s.q, c->tasks, TASKS, 0), TASKS);
	CHECK_EQ(wait_for(&c->events[0]), -EDOM);
	for (i = 1; i < TASKS; i++)
		CHECK_EQ(wait_for(&c->events[i]), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), TASKS - 1);
	stack_close(&s);
}

/* The news may come by the timeline that the failed task signals. */
TEST(known_by_timeline)
{
	struct stack s = open_deep(ARAX_QUEUE_IN_ORDER, 1024);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event after = { 0 };
	struct arax_timeline *tl;
	uint64_t value;
	int round;

	for (round = 1; round <= ROUNDS; round++) {
		struct chain *c = make_chain(&s, b, 0);
		struct arax_point p;

		CHECK_EQ(arax_timeline_create(s.ax, 0, &tl), 0);
		c->tasks[0].signal = tl;
		c->tasks[0].signal_value = 1;
		p = (struct arax_point){ .timeline = tl, .value = 1 };
		CHECK_EQ(arax_submit(s.q, c->tasks, TASKS, 0), TASKS);
		CHECK_EQ(arax_timeline_wait_all(&p, 1, arax_deadline(60 * SECOND)), 0);
		CHECK_EQ(arax_timeline_query(tl, &value), -EDOM);
		stack_launch(&s, s.q, "st_add", b, 1, &after);
		CHECK_EQ(wait_for(&after), 0);
		expect_chain(c, 0);
		arax_timeline_destroy(tl);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), ROUNDS);
	stack_close(&s);
}
