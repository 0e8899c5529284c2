// SPDX-License-Identifier: MIT
/* Whoever dies or misbehaves harms nobody else, and the books return to zero. */
#include "stack.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs fn in a child that opens Arax itself; returns its wait status. */
static pid_t start(void (*fn)(void))
{
	pid_t pid = fork();

	if (!pid) {
		fn();
		_exit(0);
	}
	return pid;
}

static void busy_client(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b[8];
	int i;

	for (i = 0; i < 8; i++)
		b[i] = stack_buffer(&s, 1 << 20);
	for (i = 0; i < 200; i++)
		stack_launch(&s, s.q, "st_spin", b[i % 8], 2000, NULL);
	pause();
}

TEST(client_killed_with_work)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_usage before;
	int round, status;
	pid_t pid;

	/* Or what others leave may outweigh what this one is seen to begin by. */
	stack_settled_memory(&s, NULL);
	before = stack_user(&s);
	for (round = 0; round < 5; round++) {
		pid = start(busy_client);
		while (stack_user(&s).counters[ARAX_RES_MEMORY].used <=
		       before.counters[ARAX_RES_MEMORY].used)
			usleep(1000);
		usleep(150000);
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status));
		stack_wait_books(&s, before.counters[ARAX_RES_MEMORY].used,
				 before.counters[ARAX_RES_TASKS].used,
				 before.counters[ARAX_RES_CONTEXTS].used);
	}
	stack_close(&s);
}

/* More wait for what runs than the graph tells of before that has ended. */
#define BEHIND	1500

/*
 * How long the first of them runs.  Slow machines need longer to submit and to exit, and busy ones
 * until it begins: one that has not ends with its client.
 */
static uint32_t patience_us;

static void patient_client(void)
{
	struct arax_options o = { .size = sizeof(o), .depth = 4096 };
	struct arax_kernel add;
	struct arax_buffer *b;
	uint32_t one = 1;
	struct stack s;
	int i;

	CHECK_EQ(arax_open(&s.ax, &o), 0);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &s.q), 0);
	add = stack_kernel(&s, "st_add");
	b = stack_buffer(&s, 65536);
	stack_launch(&s, s.q, "st_spin", b, patience_us, NULL);
	for (i = 0; i < BEHIND; i++)
		CHECK_EQ(arax_launch(s.q, &add, arax_grid(1, 1, 1), ARAX_ARGS(one),
				     ARAX_RANGES(arax_inout(b)), NULL), 0);
	usleep(patience_us / 4);
}

/* Whether the first still ran, and all were behind it, when the client had exited. */
static bool client_gone(struct stack *s, const struct arax_usage *before)
{
	uint64_t left;
	int status;

	CHECK_EQ(waitpid(start(patient_client), &status, 0) > 0, 1);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	left = stack_user(s).counters[ARAX_RES_TASKS].used;
	stack_wait_books(s, before->counters[ARAX_RES_MEMORY].used,
			 before->counters[ARAX_RES_TASKS].used,
			 before->counters[ARAX_RES_CONTEXTS].used);
	return left > before->counters[ARAX_RES_TASKS].used;
}

TEST(client_gone_before_many_that_wait)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_usage before = stack_user(&s);

	patience_us = 1000000;
	while (!client_gone(&s, &before)) {
		CHECK(patience_us < 16000000);
		patience_us *= 2;
	}
	stack_close(&s);
}

TEST(close_gives_everything_back)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW), t;
	struct arax_usage before = stack_user(&s);
	int i;

	for (i = 0; i < 20; i++) {
		t = stack_open(ARAX_QUEUE_IN_ORDER);
		stack_launch(&t, t.q, "st_add", stack_buffer(&t, 65536), 1, NULL);
		stack_close(&t);
	}
	stack_wait_books(&s, before.counters[ARAX_RES_MEMORY].used, 0,
			 before.counters[ARAX_RES_CONTEXTS].used);
	stack_close(&s);
}

TEST(crash_is_contained)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_event bad = { 0 }, good = { 0 };
	int i;

	for (i = 0; i < 3; i++) {
		stack_launch(&s, s.q, "st_crash", a, 16, &bad);
		stack_launch(&s, s.q, "st_add", b, 1, &good);
		CHECK_EQ(arax_wait(&bad, arax_deadline(60 * SECOND)),
			 stack_worker_result(&s, -EFAULT));
		CHECK_EQ(arax_wait(&good, arax_deadline(60 * SECOND)), 0);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 3);
	stack_close(&s);
}

TEST(worker_computes)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *in = stack_buffer(&s, 4096), *index = stack_buffer(&s, 4096);
	struct arax_buffer *out = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_gather");
	uint32_t *a = arax_buffer_data(in), *x = arax_buffer_data(index);
	uint32_t *b = arax_buffer_data(out), i;
	struct arax_event e = { 0 };

	for (i = 0; i < 1024; i++) {
		a[i] = i * 3;
		x[i] = 1023 - i;
	}
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_NO_ARGS,
			     ARAX_RANGES(arax_in(in), arax_in(index), arax_out(out)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), stack_worker_result(&s, 0));
	for (i = 0; i < 1024 && !stack_worker_result(&s, 0); i++)
		CHECK_EQ(b[i], (1023 - i) * 3);
	stack_close(&s);
}

/* A kernel that may not run in araxd runs as its caller, with the caller's group. */
TEST(worker_is_the_caller)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_whoami");
	uint32_t *who = arax_buffer_data(b);
	struct arax_event e = { 0 };

	who[0] = who[1] = 12345;
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_NO_ARGS,
			     ARAX_RANGES(arax_out(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), stack_worker_result(&s, 0));
	CHECK_EQ(who[0], stack_worker_result(&s, 0) ? 12345 : getuid());
	CHECK_EQ(who[1], stack_worker_result(&s, 0) ? 12345 : getgid());
	stack_close(&s);
}

/* Whether there were short ones beside one of so many seconds, and none took half as long. */
static bool quick_beside(struct stack *s, struct stack *t, uint32_t seconds)
{
	struct arax_buffer *a = stack_buffer(s, 4096), *b = stack_buffer(t, 4096);
	struct arax_event slow = { 0 }, quick = { 0 };
	uint64_t longest = 0, ns;
	int i;

	stack_launch(s, s->q, "st_spin", a, seconds * 1000000, &slow);
	for (i = 0; i < 100 && !arax_test(&slow); i++) {
		ns = arax_deadline(0);
		stack_launch(t, t->q, "st_add", b, 1, &quick);
		CHECK_EQ(arax_wait(&quick, arax_deadline(60 * SECOND)), 0);
		ns = arax_deadline(0) - ns;
		longest = ns > longest ? ns : longest;
	}
	CHECK_EQ(arax_wait(&slow, arax_deadline(60 * SECOND)), 0);
	printf("# %d beside it, the longest took %llu us; devices %u, %u\n", i,
	       (unsigned long long)longest / 1000, slow.device, quick.device);
	return i && longest < seconds * SECOND / 2;
}

/*
 * A long task on one device must not hold up another context's short ones.  The machine itself may
 * stand still for a while; but who waits for the long one's end does so however long that is.
 */
TEST(long_task_blocks_nobody)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW), t = stack_open(ARAX_QUEUE_DATAFLOW);
	uint32_t seconds = 2;

	while (!quick_beside(&s, &t, seconds)) {
		CHECK(seconds < 16);
		seconds *= 2;
	}
	stack_close(&s);
	stack_close(&t);
}

static struct stack forked;

TEST(forked_child_is_refused)
{
	struct arax_buffer *b;
	int status;
	pid_t pid;

	forked = stack_open(ARAX_QUEUE_DATAFLOW);
	pid = fork();
	if (!pid) {
		CHECK_EQ(arax_buffer_create(forked.ax, 4096, 0, &b), -EPERM);
		CHECK_EQ(arax_marker(forked.q, NULL), -EPERM);
		arax_close(forked.ax);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	/* And the parent goes on. */
	b = stack_buffer(&forked, 4096);
	stack_launch(&forked, forked.q, "st_add", b, 1, NULL);
	CHECK_EQ(arax_queue_finish(forked.q, arax_deadline(60 * SECOND)), 0);
	stack_close(&forked);
}

TEST(many_clients_at_once)
{
	pid_t pid[8];
	int i, status;

	for (i = 0; i < 8; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			struct stack s = stack_open(i & 1);
			struct arax_buffer *b = stack_buffer(&s, 4096);
			int n;

			for (n = 0; n < 300; n++)
				stack_launch(&s, s.q, "st_add", b, 1, NULL);
			CHECK_EQ(arax_queue_finish(s.q, arax_deadline(100 * SECOND)), 0);
			CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 300);
			stack_close(&s);
			_exit(0);
		}
	}
	for (i = 0; i < 8; i++) {
		CHECK_EQ(waitpid(pid[i], &status, 0), pid[i]);
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	}
}
