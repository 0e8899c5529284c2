// SPDX-License-Identifier: MIT
/*
 * Parts of device time, from outside: weights, maxima, programs of one tenant, priorities.
 *
 * All tasks are queued while their tenants may not have any device time; then they may, all of them
 * by one call.  So it does not matter how quick anybody is, setting a maximum included: the order
 * alone does, and each task writes down when it ended.
 * The device is one core: see run.sh.
 */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS	200
#define TASK_US	1000u

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

static char groups[3][160];
static unsigned int nr_groups;

/* At the end of a test, when its programs have ended. */
static void remove_groups(void)
{
	while (nr_groups)
		CHECK_EQ(rmdir(groups[--nr_groups]), 0);
}

static const char *mount_of_cgroup2(void)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[128];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", places[i]);
		if (!access(path, W_OK))
			return places[i];
	}
	return NULL;
}

/* A cgroup, below another one or, NULL, at the top. */
static const char *tenant(const char *parent)
{
	const char *mount = mount_of_cgroup2();
	char *path = groups[nr_groups];

	if (!mount)
		tap_skip("no cgroup2 that can be written to: one tenant");
	if (parent)
		snprintf(path, sizeof(groups[0]), "%.100s/below-%u", parent, nr_groups);
	else
		snprintf(path, sizeof(groups[0]), "%s/arax-shares-XXXXXX", mount);
	/* Those of a test that was killed or failed are there still. */
	CHECK(parent ? !mkdir(path, 0755) : !!mkdtemp(path));
	nr_groups++;
	return path;
}

static void set(const char *group, const char *setting)
{
	const char *arax = getenv("ARAX_TEST_ARAX");
	char command[512];

	snprintf(command, sizeof(command), "%s tenant set %s '%s'",
		 arax ? arax : "build/bin/arax", group, setting);
	CHECK_EQ(system(command), 0);
}

/* device_time.stat and pressure, as people see them. */
struct stat_of {
	unsigned long long usage, periods, throttled_periods, throttled;
	double avg10, avg60, avg300;
	unsigned long long waiting;
};

static struct stat_of stat_of(const char *group)
{
	const char *arax = getenv("ARAX_TEST_ARAX");
	struct stat_of t = { 0 };
	int found = 0;
	char text[512];
	FILE *f;

	/* araxd tells ten times a second. */
	usleep(500000);
	snprintf(text, sizeof(text), "%s tenant show %s", arax ? arax : "build/bin/arax", group);
	f = popen(text, "re");
	CHECK(f);
	while (fgets(text, sizeof(text), f)) {
		found += sscanf(text, "device_time.stat usage_usec %llu nr_periods %llu "
				"nr_throttled %llu throttled_usec %llu", &t.usage, &t.periods,
				&t.throttled_periods, &t.throttled) == 4;
		found += sscanf(text, "pressure some avg10=%lf avg60=%lf avg300=%lf total=%llu",
				&t.avg10, &t.avg60, &t.avg300, &t.waiting) == 4;
	}
	CHECK_EQ(pclose(f), 0);
	CHECK_EQ(found, 2);
	printf("# usage %llu us, throttled in %llu of %llu periods, %llu us; waited %llu us, %.2f %.2f %.2f\n",
	       t.usage, t.throttled_periods, t.periods, t.throttled, t.waiting, t.avg10, t.avg60,
	       t.avg300);
	return t;
}

/* By araxd's clock.  The kernels look at the system's, which may be some parts in a thousand faster. */
static bool is_used(const struct stat_of *t, unsigned long long us)
{
	return t->usage >= us - us / 100;
}

static void enter(const char *group)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, "0\n", 2) == 2);
	close(fd);
}

/* ------------------------------------------------------------------ */
/* Programs                                                            */

/* When it ended, and how long it had the device: longer, if others had the CPU meanwhile. */
struct task {
	uint64_t end_us;
	uint64_t device_ns;
};

/**
 * struct program - a process with tasks that do not depend on each other
 * @tasks:	in memory that it shares with the test
 * @queued:	a byte comes here when all are
 */
struct program {
	const struct task *tasks;
	int queued;
	pid_t pid;
};

static void launch_all(struct stack *s, struct arax_queue *q, struct arax_buffer *b, uint32_t from,
		       uint32_t to, uint32_t us, struct arax_event *events)
{
	struct arax_kernel k = stack_kernel(s, "st_clock");

	for (; from < to; from++)
		CHECK_EQ(arax_launch(q, &k, arax_grid(1, 1, 1), ARAX_ARGS(us),
				     ARAX_RANGES(arax_part(b, ARAX_OUT, from * sizeof(uint64_t),
							   sizeof(uint64_t))), &events[from]), 0);
}

static void run(const char *group, uint32_t us, struct task *tasks, int queued)
{
	static struct arax_event events[TASKS];
	struct arax_buffer *b;
	struct stack s;
	uint32_t i;

	enter(group);
	s = stack_open(ARAX_QUEUE_DATAFLOW);
	b = stack_buffer(&s, TASKS * sizeof(uint64_t));
	launch_all(&s, s.q, b, 0, TASKS, us, events);
	stack_await_taken(&s, TASKS);
	CHECK_EQ(write(queued, "", 1), 1);
	for (i = 0; i < TASKS; i++) {
		CHECK_EQ(arax_wait(&events[i], ARAX_DEADLINE_NONE), 0);
		tasks[i].device_ns = events[i].device_ns;
		tasks[i].end_us = ((uint64_t *)arax_buffer_data(b))[i];
	}
	stack_close(&s);
}

static struct program start(const char *group, uint32_t us)
{
	struct task *tasks = mmap(NULL, TASKS * sizeof(*tasks), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct program p = { .tasks = tasks };
	int fds[2];

	CHECK(tasks != MAP_FAILED);
	CHECK_EQ(pipe(fds), 0);
	p.queued = fds[0];
	p.pid = fork();
	CHECK(p.pid >= 0);
	if (!p.pid) {
		run(group, us, tasks, fds[1]);
		fflush(stdout);
		_exit(0);
	}
	close(fds[1]);
	return p;
}

static void await_queued(const struct program *p)
{
	char byte;

	CHECK_EQ(read(p->queued, &byte, 1), 1);
}

static void await_end(const struct program *p)
{
	int status;

	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	CHECK_EQ(status, 0);
}

static uint64_t first_end(const struct program *p)
{
	uint64_t first = ~0ull;

	for (int i = 0; i < TASKS; i++)
		first = p->tasks[i].end_us < first ? p->tasks[i].end_us : first;
	return first;
}

static uint64_t last_end(const struct program *p)
{
	uint64_t last = 0;

	for (int i = 0; i < TASKS; i++)
		last = p->tasks[i].end_us > last ? p->tasks[i].end_us : last;
	return last;
}

/* Of the device's time that tasks may have lost to the machine, what no part can be told by. */
#define TOO_LONG	0.2

/*
 * Device time of the tasks that ended while @other's did, over that of these.  Where the machine
 * itself had to wait in the middle of a task that one is long, and at either end of a time the one
 * that it is owed to may have had no turn yet.
 */
static void check_part(const struct program *p, const struct program *other, double least,
		       double most)
{
	uint64_t from = first_end(other), to = last_end(other), mine = 0, all = 0, longest = 0;
	double part, edge;

	for (int i = 0; i < TASKS; i++) {
		const struct task *a = &p->tasks[i], *b = &other->tasks[i];

		all += b->device_ns;
		longest = b->device_ns > longest ? b->device_ns : longest;
		if (a->end_us < from || a->end_us > to)
			continue;
		mine += a->device_ns;
		longest = a->device_ns > longest ? a->device_ns : longest;
	}
	part = (double)mine / (double)all;
	edge = 2.0 * (double)longest / (double)all;
	printf("# %.3f, the longest tasks are %.3f\n", part, edge);
	if (edge > TOO_LONG)
		tap_skip("the machine was away for too long in the midst of a task");
	CHECK(part > least - edge && part < most + edge);
}

/* ------------------------------------------------------------------ */

TEST(weights)
{
	const char *above = tenant(NULL), *light = tenant(above), *heavy = tenant(above);
	struct program l, h;

	set(above, "device_time.max=0 100000");
	set(light, "device_time.weight=50");
	set(heavy, "device_time.weight=200");
	l = start(light, TASK_US);
	h = start(heavy, TASK_US);
	await_queued(&l);
	await_queued(&h);
	set(above, "device_time.max=max");
	await_end(&h);
	await_end(&l);
	remove_groups();
	check_part(&l, &h, .19, .33);
}

/* Changed while all is queued: from then on it holds. */
TEST(weights_change)
{
	const char *above = tenant(NULL), *a = tenant(above), *b = tenant(above);
	struct program pa, pb;

	set(above, "device_time.max=0 100000");
	pa = start(a, TASK_US);
	pb = start(b, TASK_US);
	await_queued(&pa);
	await_queued(&pb);
	set(a, "device_time.weight=10");
	set(above, "device_time.max=max");
	await_end(&pb);
	await_end(&pa);
	remove_groups();
	check_part(&pa, &pb, .05, .19);
}

/* Of a tenant's maximum all that are below have theirs; for so long it takes at least. */
TEST(maxima)
{
	const char *above = tenant(NULL), *below = tenant(above);
	const uint64_t total_us = TASKS * TASK_US;
	struct program p;

	set(above, "device_time.max=0 100000");
	p = start(below, TASK_US);
	await_queued(&p);
	/* 20 ms in each 100 ms: ten periods, of which the first and the last may be short. */
	set(above, "device_time.max=20000 100000");
	await_end(&p);
	printf("# %llu ms of device time took %llu ms\n", (unsigned long long)total_us / 1000,
	       (unsigned long long)(last_end(&p) - first_end(&p)) / 1000);
	CHECK(last_end(&p) - first_end(&p) >= (total_us / 20000 - 2) * 100000);
	remove_groups();
}

/* Nothing at all, until there is something again. */
TEST(no_time_at_all)
{
	const char *group = tenant(NULL);
	struct program p;
	int status;

	set(group, "device_time.max=0 100000");
	p = start(group, TASK_US);
	await_queued(&p);
	usleep(300000);
	CHECK_EQ(waitpid(p.pid, &status, WNOHANG), 0);
	set(group, "device_time.max=max");
	await_end(&p);
	remove_groups();
}

TEST(programs_of_a_tenant)
{
	const char *group = tenant(NULL);
	struct program a, b;

	set(group, "device_time.max=0 100000");
	a = start(group, TASK_US);
	await_queued(&a);
	/* All of the first one's tasks came before. */
	b = start(group, TASK_US);
	await_queued(&b);
	set(group, "device_time.max=max");
	await_end(&a);
	await_end(&b);
	remove_groups();
	/* The last tasks of the second one may come when the first one has no more. */
	check_part(&b, &a, .82, 1.18);
}

/* Of one program's queues the better one goes first, though it came last. */
TEST(priorities)
{
	const char *group = tenant(NULL);
	uint64_t last_good = 0, first_bad = ~0ull;
	static struct arax_event events[100];
	struct arax_queue *good, *bad;
	struct arax_buffer *b;
	struct stack s;
	uint32_t i;
	uint64_t *at;

	set(group, "device_time.max=0 100000");
	enter(group);
	s = stack_open(ARAX_QUEUE_DATAFLOW);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_DATAFLOW, 19, &bad), 0);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_DATAFLOW, -20, &good), 0);
	b = stack_buffer(&s, 100 * sizeof(*at));
	at = arax_buffer_data(b);
	launch_all(&s, bad, b, 0, 50, TASK_US, events);
	launch_all(&s, good, b, 50, 100, TASK_US, events);
	stack_await_taken(&s, 100);
	set(group, "device_time.max=max");
	CHECK_EQ(arax_queue_finish(bad, ARAX_DEADLINE_NONE), 0);
	CHECK_EQ(arax_queue_finish(good, ARAX_DEADLINE_NONE), 0);
	for (i = 0; i < 50; i++)
		first_bad = at[i] < first_bad ? at[i] : first_bad;
	for (; i < 100; i++)
		last_good = at[i] > last_good ? at[i] : last_good;
	CHECK(last_good < first_bad);
	stack_close(&s);
	/* Or the cgroup is not empty at the end. */
	enter(mount_of_cgroup2());
	remove_groups();
}

/* Who has one task at a time, and the device for himself, waits for none of them. */
TEST(no_pressure_alone)
{
	const char *above = tenant(NULL), *group = tenant(above);
	struct arax_event event;
	struct arax_buffer *b;
	struct stat_of t;
	struct stack s;
	uint32_t i;

	enter(group);
	s = stack_open(ARAX_QUEUE_DATAFLOW);
	b = stack_buffer(&s, TASKS * sizeof(uint64_t));
	for (i = 0; i < 100; i++) {
		struct arax_kernel k = stack_kernel(&s, "st_clock");

		CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1),
				     ARAX_ARGS((uint32_t){ i % 2 ? 5000 : 5 }),
				     ARAX_RANGES(arax_part(b, ARAX_OUT, 0, 8)), &event), 0);
		CHECK_EQ(arax_wait(&event, ARAX_DEADLINE_NONE), 0);
	}
	t = stat_of(group);
	CHECK(is_used(&t, 50 * 5000));
	CHECK_EQ(t.periods + t.throttled_periods + t.throttled, 0);
	CHECK_EQ(t.waiting, 0);
	CHECK(t.avg10 == 0 && t.avg60 == 0 && t.avg300 == 0);
	CHECK_EQ(stat_of(above).waiting, 0);
	stack_close(&s);
	enter(mount_of_cgroup2());
	remove_groups();
}

/* 20 ms in each 100 ms: 200 ms are ten periods, and but for the last one it is kept in each. */
TEST(throttling_is_counted)
{
	const char *above = tenant(NULL), *group = tenant(above), *below = tenant(group);
	struct stat_of t, up, down;
	struct program p;

	/* A cgroup with a setting keeps its figures when its programs have gone. */
	set(above, "device_time.weight=200");
	set(below, "device_time.weight=200");
	/* None is to have ended before all are queued. */
	set(group, "device_time.max=0 100000");
	p = start(below, TASK_US);
	await_queued(&p);
	set(group, "device_time.max=20000 100000");
	await_end(&p);
	t = stat_of(group);
	CHECK(is_used(&t, TASKS * TASK_US));
	CHECK(t.periods >= TASKS * TASK_US / 20000 - 2);
	CHECK(t.throttled_periods >= TASKS * TASK_US / 20000 - 4);
	CHECK(t.throttled_periods <= t.periods);
	CHECK(t.throttled >= 400000);
	CHECK(t.waiting >= t.throttled);
	/* The maximum is its own alone; who is kept by it waits, and so do those above. */
	down = stat_of(below);
	up = stat_of(above);
	CHECK_EQ(down.periods + down.throttled_periods + down.throttled, 0);
	CHECK_EQ(up.periods + up.throttled_periods + up.throttled, 0);
	CHECK_EQ(down.waiting, t.waiting);
	CHECK_EQ(up.waiting, t.waiting);
	remove_groups();
}

/* Two wait at the same time for one device: each does, and what is above them once. */
TEST(pressure_of_two)
{
	const char *above = tenant(NULL), *a = tenant(above), *b = tenant(above);
	struct stat_of ta, tb, up;
	struct program pa, pb;
	uint64_t took;

	set(above, "device_time.max=0 100000");
	set(a, "device_time.weight=101");
	set(b, "device_time.weight=101");
	took = arax_deadline(0);
	pa = start(a, 6 * TASK_US);
	pb = start(b, 6 * TASK_US);
	await_queued(&pa);
	await_queued(&pb);
	set(above, "device_time.max=max");
	set(above, "device_time.weight=101");
	await_end(&pb);
	await_end(&pa);
	took = (arax_deadline(0) - took) / 1000;
	up = stat_of(above);
	ta = stat_of(a);
	tb = stat_of(b);
	/* All but its last task wait for each other's. */
	CHECK(ta.waiting >= TASKS * 6 * TASK_US && tb.waiting >= TASKS * 6 * TASK_US);
	CHECK(up.waiting >= ta.waiting && up.waiting >= tb.waiting);
	CHECK(up.waiting <= took);
	CHECK(up.waiting < ta.waiting + tb.waiting);
	CHECK(ta.avg10 > 1 && tb.avg10 > 1 && up.avg10 > 1 && up.avg10 <= 100);
	CHECK(up.avg10 > up.avg60 && up.avg60 > up.avg300 && up.avg300 > 0);
	remove_groups();
}
