// SPDX-License-Identifier: MIT
#include "stack.h"

#include <errno.h>
#include <unistd.h>

static void explain(const char *call, int err)
{
	if (err < 0)
		printf("# %s: %d, %s\n", call, err, arax_error_text());
}

struct stack stack_open(unsigned int queue_flags)
{
	struct stack s;
	int err;

	err = arax_open(&s.ax, NULL);
	explain("arax_open", err);
	CHECK_EQ(err, 0);
	err = arax_queue_create(s.ax, queue_flags, 0, &s.q);
	explain("arax_queue_create", err);
	CHECK_EQ(err, 0);
	return s;
}

void stack_close(struct stack *s)
{
	arax_close(s->ax);
	s->ax = NULL;
}

struct arax_kernel stack_kernel(struct stack *s, const char *name)
{
	struct arax_kernel k;
	int err = arax_kernel_find(s->ax, name, arax_deadline(20 * SECOND), &k);

	explain(name, err);
	CHECK_EQ(err, 0);
	return k;
}

struct arax_buffer *stack_buffer(struct stack *s, size_t bytes)
{
	struct arax_buffer *b;
	int err = arax_buffer_create(s->ax, bytes, 0, &b);

	explain("arax_buffer_create", err);
	CHECK_EQ(err, 0);
	return b;
}

void stack_launch(struct stack *s, struct arax_queue *q, const char *kernel,
		  struct arax_buffer *b, uint32_t value, struct arax_event *event)
{
	struct arax_kernel k = stack_kernel(s, kernel);
	int err = arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(value),
			      ARAX_RANGES(arax_inout(b)), event);

	explain(kernel, err);
	CHECK_EQ(err, 0);
}

void stack_hold(struct stack *s, struct arax_queue *q, struct arax_timeline *gate,
		const struct arax_range *r, struct arax_event *event)
{
	struct arax_kernel k = stack_kernel(s, "st_add");
	uint32_t one = 1;
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = &k, .grid = arax_grid(1, 1, 1), .args = &one,
		.arg_len = sizeof(one), .ranges = r, .nr_ranges = 1, .wait = gate,
		.wait_value = 1, .event = event,
	};

	CHECK_EQ(arax_submit(q, &d, 1, 0), 1);
}

static struct arax_usage usage_of(struct stack *s, uint32_t scope)
{
	struct arax_usage u;

	CHECK_EQ(arax_get_usage(s->ax, scope, &u), 0);
	return u;
}

void stack_await_taken(struct stack *s, uint64_t tasks)
{
	struct arax_event last = { 0 };
	struct arax_queue *q;

	while (usage_of(s, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used < tasks)
		usleep(1000);
	/* The core has counted them; araxd has read them when it has done what came after. */
	CHECK_EQ(arax_queue_create(s->ax, ARAX_QUEUE_DATAFLOW, 0, &q), 0);
	CHECK_EQ(arax_marker(q, &last), 0);
	CHECK_EQ(arax_wait(&last, arax_deadline(60 * SECOND)), 0);
	arax_queue_destroy(q);
}

int stack_run(struct stack *s, const struct arax_kernel *k, uint32_t groups, struct arax_buffer *b,
	      uint32_t value)
{
	struct arax_event e = { 0 };
	int err = arax_launch(s->q, k, arax_grid(groups, 1, 1), ARAX_ARGS(value),
			      ARAX_RANGES(arax_inout(b)), &e);

	return err ? err : arax_wait(&e, arax_deadline(60 * SECOND));
}

int stack_on_kernel(struct stack *s)
{
	struct arax_info info;

	CHECK_EQ(arax_get_info(s->ax, &info), 0);
	return info.link == ARAX_LINK_KERNEL;
}

struct arax_usage stack_user(struct stack *s)
{
	return usage_of(s, ARAX_USAGE_USER);
}

uint64_t stack_memory(struct stack *s)
{
	return stack_user(s).counters[ARAX_RES_MEMORY].used;
}

void stack_wait_memory(struct stack *s, uint64_t bytes)
{
	int i;

	for (i = 0; stack_memory(s) > bytes && i < 6000; i++)
		usleep(10000);
	CHECK_EQ(stack_memory(s), bytes);
}

uint64_t stack_settled_memory(struct stack *s, struct stack *other)
{
	uint64_t bytes = 0;
	int i;

	for (i = 0; i < 6000; i++) {
		bytes = usage_of(s, ARAX_USAGE_CONTEXT).counters[ARAX_RES_MEMORY].used;
		if (other)
			bytes += usage_of(other, ARAX_USAGE_CONTEXT).counters[ARAX_RES_MEMORY].used;
		if (stack_memory(s) == bytes)
			return bytes;
		usleep(10000);
	}
	CHECK_EQ(stack_memory(s), bytes);
	return bytes;
}

void stack_wait_books(struct stack *s, uint64_t bytes, uint64_t tasks, uint64_t contexts)
{
	struct arax_usage u;
	int i;

	for (i = 0; i < 6000; i++) {
		u = stack_user(s);
		if (u.counters[ARAX_RES_MEMORY].used <= bytes &&
		    u.counters[ARAX_RES_TASKS].used <= tasks &&
		    u.counters[ARAX_RES_CONTEXTS].used <= contexts)
			return;
		usleep(10000);
	}
	CHECK_EQ(u.counters[ARAX_RES_MEMORY].used, bytes);
	CHECK_EQ(u.counters[ARAX_RES_TASKS].used, tasks);
	CHECK_EQ(u.counters[ARAX_RES_CONTEXTS].used, contexts);
}

int stack_worker_result(struct stack *s, int result)
{
	struct arax_device d = { .size = sizeof(d) };

	CHECK_EQ(arax_get_device(s->ax, 0, &d), 0);
	return d.memory ? -ENOEXEC : result;
}
