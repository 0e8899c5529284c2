// SPDX-License-Identifier: MIT
/*
 * Launches that some devices don't take, as their work-groups are too large for these: kinds.sh runs
 * it where another device does, and where none does.
 */
#include "stack.h"

#include <errno.h>
#include <string.h>

#define ITEMS	1024u
#define CHAINS	4
#define LENGTH	24
/* More than PoCL takes, or a GPU. */
#define LARGE	16384u

struct chain {
	struct arax_buffer *x, *y;
	struct arax_event events[LENGTH];
};

/* y += x, each second one in work-groups as large as that. */
static void submit(struct stack *s, struct chain *c, int i)
{
	struct { float a; uint32_t n; } args = { 1, ITEMS };
	struct arax_kernel k = stack_kernel(s, "saxpy");
	struct arax_grid grid = arax_grid(1, 1, 1);

	grid.block[0] = i % 2 ? LARGE : 64;
	c->events[i] = (struct arax_event){ 0 };
	CHECK_EQ(arax_launch(s->q, &k, grid, ARAX_ARGS(args),
			     ARAX_RANGES(arax_in(c->x), arax_inout(c->y)), &c->events[i]), 0);
}

static struct chain begin(struct stack *s)
{
	struct chain c = { stack_buffer(s, ITEMS * 4), stack_buffer(s, ITEMS * 4), { { 0 } } };
	float *x = arax_buffer_data(c.x), *y = arax_buffer_data(c.y);

	for (uint32_t i = 0; i < ITEMS; i++) {
		x[i] = 1;
		y[i] = (float)i;
	}
	return c;
}

static void check_bytes(struct chain *c, int times)
{
	float *y = arax_buffer_data(c->y);

	for (uint32_t i = 0; i < ITEMS; i++)
		CHECK_EQ((long long)y[i], (long long)i + times);
}

TEST(goes_where_it_can_run)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct chain chains[CHAINS];

	for (int c = 0; c < CHAINS; c++)
		chains[c] = begin(&s);
	for (int i = 0; i < LENGTH; i++)
		for (int c = 0; c < CHAINS; c++)
			submit(&s, &chains[c], i);
	for (int c = 0; c < CHAINS; c++) {
		for (int i = 0; i < LENGTH; i++)
			CHECK_EQ(arax_wait(&chains[c].events[i], arax_deadline(60 * SECOND)), 0);
		check_bytes(&chains[c], LENGTH);
	}
	stack_close(&s);
}

TEST(ends_with_the_reason)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct chain c = begin(&s);

	submit(&s, &c, 1);
	CHECK_EQ(arax_wait(&c.events[1], arax_deadline(60 * SECOND)), -EINVAL);
	CHECK(strstr(arax_error_text(), "block"));
	CHECK(strstr(arax_error_text(), "this device takes"));
	check_bytes(&c, 0);
	/* And others are none the worse for it. */
	submit(&s, &c, 0);
	CHECK_EQ(arax_wait(&c.events[0], arax_deadline(60 * SECOND)), 0);
	check_bytes(&c, 1);
	stack_close(&s);
}
