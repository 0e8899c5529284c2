// SPDX-License-Identifier: MIT
/*
 * Programs whose kernels never end, or not today, and others who want the same device: run.sh
 * gives araxd one core, and no limit to how long a launch may take.
 */
#include "stack.h"

#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY	24
#define TENANTS	4

enum { COUNT, STOP };			/* what until() and st_steps() have in their buffer */
#define STEPS	100000000u		/* of a millisecond: a day */

enum step { BEGINS, RUNS, FREE };

/* Between this program and the one that hangs. */
struct shared {
	_Atomic enum step step;
	_Atomic uint32_t count;
};

static struct shared *shared;

static const char *image(const char *name)
{
	static char path[PATH_MAX];
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(path, sizeof(path), "%.3000s/images/%s.so", self, name);
	return path;
}

static struct arax_kernel load(struct stack *s, const char *file, const char *signature)
{
	const struct arax_own_kernel own = { .signature = signature };
	struct arax_kernel k;

	CHECK_EQ(arax_module_load_file(s->ax, ARAX_DEVICE_CPU, image(file), &own, 1, &k), 0);
	return k;
}

static void begin(struct stack *s, const struct arax_kernel *k, uint32_t groups, struct arax_buffer *b,
		  struct arax_event *e, uint64_t deadline)
{
	const struct arax_range ranges[] = { arax_inout(b) };
	uint32_t us = 1000;
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = k, .grid = arax_grid(groups, 1, 1),
		.args = &us, .arg_len = sizeof(us), .ranges = ranges, .nr_ranges = 1,
		.deadline = deadline, .event = e,
	};

	CHECK_EQ(arax_submit(s->q, &d, 1, 0), 1);
	while (!((volatile uint32_t *)arax_buffer_data(b))[COUNT] && !arax_event_done(e))
		usleep(1000);
}

/* The other program: its kernel runs until it is told to stop. */
static int go_on(struct stack *s, const struct arax_kernel *k, uint32_t groups)
{
	struct arax_buffer *b = stack_buffer(s, 4096);
	volatile uint32_t *x = arax_buffer_data(b);
	struct arax_event e = ARAX_EVENT_INIT;

	begin(s, k, groups, b, &e, 0);
	shared->step = RUNS;
	while (shared->step != FREE) {
		shared->count = x[COUNT];
		usleep(1000);
	}
	CHECK(!arax_event_done(&e));
	x[STOP] = 1;
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	stack_close(s);
	return 0;
}

static int hangs(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k = load(&s, "until", "until(inout u32 x[], u32 unused)");

	return go_on(&s, &k, 1);
}

/* It is installed, so araxd runs it itself. */
static int takes_long(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k = stack_kernel(&s, "st_steps");

	return go_on(&s, &k, STEPS);
}

/* Its image does so while it is loaded. */
static int hangs_early(void)
{
	const struct arax_own_kernel own = { .signature = "never(inout u32 x[])" };
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k;

	shared->step = RUNS;
	CHECK_EQ(arax_module_load_file(s.ax, ARAX_DEVICE_CPU, image("hung"), &own, 1, &k),
		 -ETIMEDOUT);
	stack_close(&s);
	return 0;
}

static const char *cgroup2(void)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", places[i]);
		if (!access(path, W_OK))
			return places[i];
	}
	return NULL;
}

/* Into a cgroup of its own: another tenant. */
static void leave_tenant(const char *cgroup)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	f = fopen(path, "w");
	CHECK(f);
	fprintf(f, "%d\n", getpid());
	CHECK(!fclose(f));
}

static pid_t start(int (*program)(void), const char *cgroup)
{
	pid_t pid;

	if (program != takes_long && sandbox_kernel_lacks())
		tap_skip(sandbox_kernel_lacks());
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (cgroup)
			leave_tenant(cgroup);
		_exit(program());
	}
	while (shared->step == BEGINS && !waitpid(pid, NULL, WNOHANG))
		usleep(1000);
	CHECK_EQ(shared->step, RUNS);
	return pid;
}

static void await_success(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Tasks of every kind come to their end. */
static void work(bool own)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *index = stack_buffer(&s, 4096);
	struct arax_buffer *out = stack_buffer(&s, 4096), *copy = stack_buffer(&s, 4096);
	struct arax_kernel gather = stack_kernel(&s, "st_gather"), k;
	uint32_t *x = arax_buffer_data(a), *i = arax_buffer_data(index), n, round;
	const uint32_t *y = arax_buffer_data(copy);

	for (n = 0; n < 1024; n++) {
		x[n] = n;
		i[n] = 1023 - n;
	}
	for (round = 1; round <= 10; round++) {
		stack_launch(&s, s.q, "st_add", a, 1, NULL);
		CHECK_EQ(arax_launch(s.q, &gather, arax_grid(1, 1, 1), NULL, 0,
				     ARAX_RANGES(arax_in(a), arax_in(index), arax_out(out)), NULL), 0);
		CHECK_EQ(arax_copy(s.q, arax_out(copy), arax_in(out), NULL), 0);
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
		for (n = 0; n < 1024; n++)
			CHECK_EQ(y[n], 1023 - n + round);
	}
	if (own) {
		k = load(&s, "until", "until(inout u32 x[], u32 unused)");
		x[STOP] = 1;
		CHECK_EQ(stack_run(&s, &k, 1, a, 0), 0);
	}
	stack_close(&s);
}

static void let_go(pid_t pid)
{
	uint32_t count = shared->count;

	/* Nobody is in its way. */
	while (shared->count == count)
		usleep(1000);
	shared->step = FREE;
	await_success(pid);
}

static void others_go_on_beside(int (*program)(void), const char *cgroup)
{
	pid_t pid = start(program, cgroup);

	work(program == hangs);
	CHECK_EQ(waitpid(pid, NULL, WNOHANG), 0);
	let_go(pid);
}

TEST(others_of_the_same_tenant_go_on)
{
	others_go_on_beside(hangs, NULL);
}

TEST(others_of_the_same_tenant_go_on_beside_a_long_launch)
{
	others_go_on_beside(takes_long, NULL);
}

static void other_tenants_go_on_beside(int (*program)(void))
{
	const char *root = cgroup2();
	char dir[PATH_MAX];

	if (!root)
		tap_skip("no cgroup2 that can be written to: one tenant");
	snprintf(dir, sizeof(dir), "%s/arax-test-XXXXXX", root);
	CHECK(mkdtemp(dir));
	others_go_on_beside(program, dir);
	CHECK_EQ(rmdir(dir), 0);
}

TEST(other_tenants_go_on)
{
	other_tenants_go_on_beside(hangs);
}

TEST(other_tenants_go_on_beside_a_long_launch)
{
	other_tenants_go_on_beside(takes_long);
}

/* More than could stand aside at once, of so many other tenants. */
static void others_go_on_beside_many(int (*program)(void), int tenants)
{
	const char *root = cgroup2();
	char dir[TENANTS][PATH_MAX];
	pid_t pid[MANY];

	if (!root)
		tap_skip("no cgroup2 that can be written to: one tenant");
	for (int i = 0; i < tenants; i++) {
		snprintf(dir[i], sizeof(dir[i]), "%s/arax-test-XXXXXX", root);
		CHECK(mkdtemp(dir[i]));
	}
	pid[0] = start(program, dir[0]);
	for (int i = 1; i < MANY; i++) {
		/* Not all of them ever begin. */
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			leave_tenant(dir[i % tenants]);
			_exit(program());
		}
	}
	for (int i = 0; i < 3; i++) {
		usleep(500000);
		work(program == hangs);
	}
	for (int i = 0; i < MANY; i++) {
		CHECK_EQ(waitpid(pid[i], NULL, WNOHANG), 0);
		kill(pid[i], SIGKILL);
		CHECK_EQ(waitpid(pid[i], NULL, 0), pid[i]);
	}
	/* What is left of them was ended as well. */
	work(program == hangs);
	for (int i = 0; i < tenants; i++)
		CHECK_EQ(rmdir(dir[i]), 0);
}

TEST(other_tenants_go_on_beside_many)
{
	others_go_on_beside_many(hangs, 1);
}

TEST(other_tenants_go_on_beside_many_long_launches)
{
	others_go_on_beside_many(takes_long, TENANTS);
}

TEST(two_that_hang_take_turns)
{
	pid_t first = start(hangs, NULL), second;
	struct shared *of_first = shared;
	uint32_t count;

	second = start(hangs, NULL);
	work(false);
	for (int i = 0; i < 2; i++) {
		count = of_first->count;
		while (of_first->count == count)
			usleep(1000);
		count = shared->count;
		while (shared->count == count)
			usleep(1000);
	}
	shared->step = FREE;
	await_success(second);
	of_first->step = FREE;
	await_success(first);
}

/* What nobody waits for any more does not stay: araxd could not end, either. */
static void killed_with(int (*program)(void))
{
	struct stack s = stack_open(0);
	uint64_t bytes = stack_memory(&s);
	pid_t pid = start(program, NULL);

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	work(program == hangs);
	stack_wait_books(&s, bytes, 0, 1);
	stack_close(&s);
}

TEST(killed_with_a_kernel_that_hangs)
{
	killed_with(hangs);
}

TEST(killed_with_a_long_launch)
{
	killed_with(takes_long);
}

/* It has begun, and ends all the same. */
TEST(deadline_of_a_long_launch)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_steps");
	struct arax_event e = ARAX_EVENT_INIT;

	begin(&s, &k, STEPS, b, &e, arax_deadline(2 * SECOND));
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -ETIMEDOUT);
	/* Its own, not this one. */
	CHECK(arax_event_done(&e));
	CHECK(((uint32_t *)arax_buffer_data(b))[COUNT]);
	work(false);
	stack_close(&s);
}

/* Where araxd was told how many a worker may have. */
TEST(threads_are_limited)
{
	const char *most = getenv("ARAX_TEST_THREADS");
	struct arax_kernel k;
	struct arax_buffer *b;
	struct stack s;

	if (!most)
		tap_skip("only in guests: cgroup2 needs the pids controller");
	s = stack_open(ARAX_QUEUE_DATAFLOW);
	b = stack_buffer(&s, 4096);
	k = load(&s, "until", "crowd(inout u32 x[], u32 unused)");
	CHECK_EQ(stack_run(&s, &k, 1, b, 0), 0);
	/* Beside the worker's own, and what its library has. */
	CHECK(*(uint32_t *)arax_buffer_data(b) < (uint32_t)atoi(most));
	CHECK(*(uint32_t *)arax_buffer_data(b) >= (uint32_t)atoi(most) / 2);
	stack_close(&s);
	work(true);
}

TEST(a_load_that_hangs)
{
	uint64_t start_ns = arax_deadline(0);
	pid_t pid = start(hangs_early, NULL);
	siginfo_t end = { 0 };

	work(true);
	work(true);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
	/* That is how long araxd bears with it. */
	CHECK(!end.si_pid || arax_deadline(0) - start_ns >= 10 * SECOND);
	await_success(pid);
}
