/* SPDX-License-Identifier: MIT */
/*
 * What the tests share: an open context with a queue, kernels of the systest
 * library, and the books of the tenant.  Each call ends the test if it fails.
 */
#ifndef SYSTEM_STACK_H
#define SYSTEM_STACK_H

#include <arax/arax.h>

#include "tap.h"

#define SECOND	1000000000ull

struct stack {
	struct arax *ax;
	struct arax_queue *q;
};

/* Queue flags: ARAX_QUEUE_*. */
struct stack stack_open(unsigned int queue_flags);
void stack_close(struct stack *s);
struct arax_kernel stack_kernel(struct stack *s, const char *name);
struct arax_buffer *stack_buffer(struct stack *s, size_t bytes);
/* Launch a kernel with one inout range (the whole buffer) and a u32. */
void stack_launch(struct stack *s, struct arax_queue *q, const char *kernel,
		  struct arax_buffer *b, uint32_t value, struct arax_event *event);
/* A task that adds 1 to what is in @r, once @gate has come to 1. */
void stack_hold(struct stack *s, struct arax_queue *q, struct arax_timeline *gate,
		const struct arax_range *r, struct arax_event *event);
/*
 * Until araxd has taken in so many of its tasks, none of which ends: they wait for a gate, or for
 * device time.
 */
void stack_await_taken(struct stack *s, uint64_t tasks);
/* As stack_launch(), a kernel at hand in some work-groups: how it ends. */
int stack_run(struct stack *s, const struct arax_kernel *k, uint32_t groups, struct arax_buffer *b,
	      uint32_t value);
/* Is this the kernel link? */
int stack_on_kernel(struct stack *s);
/*
 * @result, or what a kernel with addressing = data ends with where the devices have
 * memory of their own: no worker process could see it, and araxd itself must not run it.
 */
int stack_worker_result(struct stack *s, int result);
/* The user's books: bytes, tasks, contexts in use now. */
struct arax_usage stack_user(struct stack *s);
/* Of these, the bytes. */
uint64_t stack_memory(struct stack *s);
/* What was given back goes soon, not at once: until the user has so many; fails after a minute. */
void stack_wait_memory(struct stack *s, uint64_t bytes);
/* The same, until only these contexts have any (NULL: none beside @s): what they have. */
uint64_t stack_settled_memory(struct stack *s, struct stack *other);
/* Waits until the user has no more than these; fails after a minute. */
void stack_wait_books(struct stack *s, uint64_t bytes, uint64_t tasks, uint64_t contexts);

#endif
