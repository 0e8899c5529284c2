// SPDX-License-Identifier: MIT
/* Tasks in workers that make way: they stand still, others have their lane, they go on or end. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/worker/cgroup.h"
#include "daemon/worker/inside.h"
#include "selftests/unit/be_runner.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/be_tracer.h"
#include "selftests/unit/wait.h"

#define MS	1000000ull

enum { COUNT, STOP, SEEN, CHILD };	/* what test_until() and test_child() have in their buffer */
enum { ANSWERS = 2 };			/* and test_deaf() */

struct task {
	struct runner_task t;
	struct runner_turn turn;
	struct arax_launch_range range;
	struct runner_buffer buffer;
	struct buffer b;
	int32_t result;			/* of test_error */
	_Atomic bool way;		/* to be asked to make way at each slice */
	_Atomic int slices, parked, done;
};

/* Instead of the C library's: there are none to be had, for now. */
static atomic_bool no_threads, no_processes;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (no_threads)
		return EAGAIN;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, start, arg);
}

pid_t fork(void)
{
	static pid_t (*real)(void);

	if (no_processes) {
		errno = EAGAIN;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fork");
	return real();
}

/* Without a sanitizer that has to know of it, a child is begun by this.  Most give it fewer than six. */
__attribute__((no_sanitize("address")))
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long v[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		v[i] = va_arg(args, long);
	va_end(args);
	if (no_processes && number == SYS_clone) {
		errno = EAGAIN;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

static void setup_with(const char *text)
{
	open_device(text, LOG_LEVEL_ERR);
	open_runner();
}

static void setup(void)
{
	setup_with("cpu { groups = { \"0\" } } worker { timeout_ms = 20000 }");
}

/* Of a device that orders launches itself. */
static void setup_queued(void)
{
	char text[4400], here[4096];

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "cpu { enable = false } backend \"queued\" { file = \"%s/build/test/plugins/queued.so\" }",
		 here);
	setup_with(text);
}

static char folder[PATH_MAX];

/* Of cgroup2, where we may make one; "": none. */
static const char *find_cgroup2(void)
{
	static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (int i = 0; i < 2; i++) {
		snprintf(folder, sizeof(folder), "%s/cgroup.procs", places[i]);
		if (!access(folder, W_OK))
			return places[i];
	}
	return NULL;
}

static void setup_cgroups(void)
{
	snprintf(folder, sizeof(folder), "%s/arax-test-%d", find_cgroup2(), getpid());
	log_max_level = LOG_LEVEL_ERR;
	ck_assert_int_eq(worker_cgroups_open(folder, 100), 0);
	setup();
}

static void teardown(void)
{
	close_runner();
	assert_no_process_left();
}

static void teardown_cgroups(void)
{
	teardown();
	worker_cgroups_close();
	ck_assert_int_eq(rmdir(folder), 0);
}

static struct task *task_of(struct runner_turn *turn)
{
	return (struct task *)((char *)turn - offsetof(struct task, turn));
}

static void on_slice(struct runner_turn *turn)
{
	struct task *k = task_of(turn);

	k->slices++;
	if (k->way)
		runner_make_way(turn);
}

static void on_parked(struct runner_turn *turn)
{
	task_of(turn)->parked++;
}

static void on_done(struct runner_task *t)
{
	((struct task *)((char *)t - offsetof(struct task, t)))->done++;
}

/* For lane 0, as all of them. */
static struct task *make_task(const char *name)
{
	struct task *k = calloc(1, sizeof(*k));

	k->b = make_buffer(64);
	fill_task(&k->t, name, &k->b, 1, &k->range, &k->buffer);
	if (!strncmp(name, "test_error", 10)) {
		k->t.launch.args = &k->result;
		k->t.launch.arg_len = sizeof(k->result);
	}
	k->t.done = on_done;
	k->turn = (struct runner_turn){ .slice_ns = 2 * MS, .slice = on_slice, .parked = on_parked };
	k->t.turn = &k->turn;
	return k;
}

static struct task *begin(const char *name, bool way)
{
	struct task *k = make_task(name);

	k->way = way;
	runner_submit(runner, &k->t);
	return k;
}

static void await(_Atomic int *count, int n)
{
	while (*count < n)
		usleep(500);
}

/* It comes to that before it is done. */
static void await_parked(struct task *k, int n)
{
	while (k->parked < n && !k->done)
		usleep(500);
	ck_assert_int_ge(k->parked, n);
}

static int32_t finish(struct task *k)
{
	int32_t result;

	await(&k->done, 1);
	ck_assert_int_eq(k->done, 1);
	result = k->t.result;
	free_buffer(&k->b);
	free(k);
	return result;
}

static uint32_t counted(const struct task *k)
{
	return __atomic_load_n(&k->b.data[COUNT], __ATOMIC_RELAXED);
}

static void stop(const struct task *k)
{
	__atomic_store_n(&k->b.data[STOP], 7, __ATOMIC_RELAXED);
}

static void go_on(struct task *k)
{
	k->way = false;
	runner_go_on(runner, &k->turn);
}

static struct task *park(const char *name)
{
	struct task *k = begin(name, true);

	await_parked(k, 1);
	return k;
}

static struct runner_stats query(void)
{
	struct runner_stats s;

	runner_query(runner, &s);
	return s;
}

static uint32_t still(const uint32_t *word)
{
	uint32_t count = 0, before;

	/* It was told to stop, which its processor may learn a little later. */
	do {
		before = count;
		usleep(20000);
		count = __atomic_load_n(word, __ATOMIC_RELAXED);
	} while (count != before);
	usleep(50000);
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_RELAXED), count);
	return count;
}

static void await_change(const uint32_t *word)
{
	uint32_t count = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (__atomic_load_n(word, __ATOMIC_RELAXED) == count)
		usleep(500);
}

START_TEST(stands_still_and_goes_on)
{
	struct task *k = park("test_until");
	uint32_t count = still(&k->b.data[COUNT]);

	/* Others have its lane: in a worker, and here. */
	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
	ck_assert_uint_eq(counted(k), count);
	ck_assert_int_eq(k->done, 0);
	go_on(k);
	while (counted(k) == count)
		usleep(500);
	stop(k);
	await(&k->done, 1);
	ck_assert_uint_eq(k->b.data[SEEN], 7);
	ck_assert_int_eq(k->parked, 1);
	ck_assert_uint_ge(k->turn.paused_ns, 50 * MS);
	ck_assert_uint_ge(k->turn.ran_ns, 2 * MS);
	ck_assert_uint_eq(query().worker_starts, 2);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

/* What it runs and what it stands still make up its time, and only the first is its own. */
START_TEST(only_what_runs_counts)
{
	struct task *k = park("test_until");
	struct timespec ts;
	uint64_t end;

	usleep(100000);
	stop(k);
	go_on(k);
	await(&k->done, 1);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	end = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	ck_assert_uint_ge(k->turn.paused_ns, 100 * MS);
	ck_assert_uint_le(k->t.wall_ns + k->turn.paused_ns, end - k->t.start_ns);
	ck_assert_uint_le(k->t.device_ns, k->t.wall_ns);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* It tells of its task's end before that. */
static void await_idle_thread(void)
{
	bool idle;

	do {
		usleep(500);
		pthread_mutex_lock(&runner->lock);
		idle = runner->idle;
		pthread_mutex_unlock(&runner->lock);
	} while (!idle);
}

/* It has a thread more than there are lanes, whose place it takes in the end. */
START_TEST(threads_are_used_again)
{
	struct task *k = park("test_until");
	int n = threads();

	for (int i = 2; i < 12; i++) {
		runner_go_on(runner, &k->turn);
		await_parked(k, i);
		ck_assert_int_eq(finish(begin("test_error", false)), 0);
	}
	ck_assert_int_eq(threads(), n);
	stop(k);
	go_on(k);
	ck_assert_int_eq(finish(k), 0);
	for (int i = 0; i < 4; i++) {
		await_idle_thread();
		k = park("test_until");
		stop(k);
		go_on(k);
		ck_assert_int_eq(finish(k), 0);
	}
	ck_assert_int_eq(threads(), n);
}
END_TEST

START_TEST(several_stand_aside)
{
	struct task *k[4];

	for (int i = 0; i < 4; i++)
		k[i] = park("test_until");
	ck_assert_uint_eq(query().workers, 4);
	/* All at once, whatever their lane. */
	for (int i = 0; i < 4; i++) {
		stop(k[i]);
		go_on(k[i]);
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(finish(k[i]), 0);
	ck_assert_uint_eq(query().worker_starts, 4);
}
END_TEST

START_TEST(ends_parked)
{
	struct task *k = park("test_hang");

	runner_end(runner, &k->turn);
	ck_assert_int_eq(finish(k), -ECANCELED);
	ck_assert_uint_eq(query().workers, 0);
	ck_assert_uint_eq(query().worker_timeouts, 0);
	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
}
END_TEST

START_TEST(ends_running)
{
	struct task *k = begin("test_hang", false);

	await(&k->slices, 1);
	runner_end(runner, &k->turn);
	ck_assert_int_eq(finish(k), -ECANCELED);
	ck_assert_uint_eq(query().workers, 0);
}
END_TEST

/* As a load does that is tried on other devices as well. */
static struct runner *other_runner;

static int try_elsewhere(struct runner_task *t)
{
	struct task *k = (struct task *)((char *)t - offsetof(struct task, t));
	struct runner_task trial = { .kernel = k->t.kernel, .flags = RUNNER_TRY, .uid = TENANT,
				     .gid = TENANT_GID, .most_ns = 20000 * MS, .turn = &k->turn };

	return runner_try(other_runner, &trial);
}

/* Whose workers are all busy: it waits for one there, and is not kept waiting. */
START_TEST(ends_at_another_device)
{
	struct task *busy = make_task("test_until"), *k = make_task("test_error_data");
	uint64_t began;

	config.worker.max = 1;
	ck_assert_int_eq(runner_create(devices_at(devices, 0), registry, &config, &other_runner), 0);
	runner_submit(other_runner, &busy->t);
	await_change(&busy->b.data[COUNT]);
	k->t.flags = RUNNER_ENTER_ONLY;
	k->t.enter = try_elsewhere;
	runner_submit(runner, &k->t);
	ck_assert(comes_true(atomic_load(&k->turn.pool) == other_runner, 10000));
	usleep(20000);
	ck_assert_int_eq(k->done, 0);
	began = now_ns();
	runner_end(runner, &k->turn);
	ck_assert_int_eq(finish(k), -ECANCELED);
	ck_assert_uint_lt(now_ns() - began, 10000 * MS);
	stop(busy);
	ck_assert_int_eq(finish(busy), 0);
	runner_destroy(other_runner);
}
END_TEST

#define STEPS	100000u		/* 20 s of a core */

/* In this process, done in parts of some milliseconds. */
static struct task *make_steps(uint32_t steps)
{
	struct task *k = make_task("test_steps");

	k->t.launch.grid[0] = steps;
	k->t.launch.group_end = steps;
	return k;
}

static struct task *begin_steps(uint32_t steps, bool way)
{
	struct task *k = make_steps(steps);

	k->way = way;
	runner_submit(runner, &k->t);
	return k;
}

static struct task *park_steps(void)
{
	struct task *k = begin_steps(STEPS, true);

	await_parked(k, 1);
	return k;
}

START_TEST(a_launch_stands_still_and_goes_on)
{
	struct task *k = park_steps(), *other;
	uint32_t count = still(&k->b.data[COUNT]);

	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
	/* Another one as well, which stands still, too. */
	other = park_steps();
	ck_assert_uint_eq(counted(k), count);
	ck_assert_int_eq(k->done, 0);
	go_on(k);
	await_change(&k->b.data[COUNT]);
	stop(k);
	await(&k->done, 1);
	ck_assert_uint_eq(counted(k), STEPS);
	ck_assert_int_eq(k->parked, 1);
	ck_assert_uint_ge(k->turn.paused_ns, 50 * MS);
	ck_assert_uint_ge(k->turn.ran_ns, 2 * MS);
	ck_assert_uint_le(k->t.wall_ns + k->turn.paused_ns, wait_now_ns() - k->t.start_ns);
	ck_assert_int_eq(finish(k), 0);
	stop(other);
	go_on(other);
	await(&other->done, 1);
	ck_assert_uint_eq(counted(other), STEPS);
	ck_assert_int_eq(finish(other), 0);
	ck_assert_uint_eq(query().worker_starts, 1);
}
END_TEST

START_TEST(a_launch_ends)
{
	struct task *parked = park_steps(), *running = begin_steps(STEPS, false);
	uint32_t count;

	await(&running->slices, 1);
	runner_end(runner, &running->turn);
	await(&running->done, 1);
	ck_assert_uint_lt(counted(running), STEPS);
	ck_assert_int_eq(finish(running), -ECANCELED);
	count = counted(parked);
	runner_end(runner, &parked->turn);
	await(&parked->done, 1);
	ck_assert_uint_eq(counted(parked), count);
	ck_assert_int_eq(finish(parked), -ECANCELED);
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
}
END_TEST

/* Running, or, by how long that took, parked: once each, at least. */
START_TEST(deadline_of_a_launch)
{
	struct task *k;
	uint64_t ms;

	for (ms = 100;; ms *= 2) {
		k = make_steps(STEPS);
		k->way = _i;
		k->t.deadline_ns = wait_now_ns() + ms * MS;
		runner_submit(runner, &k->t);
		await(&k->done, 1);
		ck_assert_uint_lt(counted(k), STEPS);
		ck_assert_int_eq(k->t.result, -ETIMEDOUT);
		ck_assert_uint_ge(wait_now_ns(), k->t.deadline_ns);
		/* Or its lane had it too late. */
		if (!k->t.late && k->parked == _i)
			break;
		finish(k);
	}
	ck_assert_str_eq(k->t.reason, "kernel test_steps was stopped on cpu0: the deadline that its task was given passed");
	finish(k);
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
}
END_TEST

/* What has one group stands nowhere still. */
START_TEST(a_launch_without_parts)
{
	struct task *k = begin_steps(1, true);

	await(&k->done, 1);
	ck_assert_int_eq(k->slices, 0);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

START_TEST(no_thread_for_the_lane_of_a_launch)
{
	struct task *k;

	no_threads = true;
	k = begin_steps(STEPS, true);
	while (!k->turn.refused)
		usleep(500);
	ck_assert_int_eq(k->parked, 0);
	no_threads = false;
	await_parked(k, 1);
	go_on(k);
	stop(k);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

START_TEST(destroyed_while_a_launch_is_parked)
{
	struct task *k = park_steps();

	stop(k);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

/*
 * A task that hangs and is parked, whose time or deadline is @ms: twice that as often as it is
 * over before it could be parked, and that is said in *@ms.
 */
static struct task *park_within(uint64_t *ms, bool deadline)
{
	for (;; *ms *= 2) {
		struct task *k = make_task("test_hang");

		if (deadline)
			k->t.deadline_ns = wait_now_ns() + *ms * MS;
		else
			k->t.most_ns = *ms * MS;
		k->way = true;
		runner_submit(runner, &k->t);
		while (!k->parked && !k->done)
			usleep(500);
		if (k->parked)
			return k;
		ck_assert_int_eq(finish(k), -ETIMEDOUT);
		ck_assert_uint_lt(*ms, 20000);
	}
}

START_TEST(deadline_passes_while_parked)
{
	uint64_t ms = 250;

	ck_assert_int_eq(finish(park_within(&ms, true)), -ETIMEDOUT);
	ck_assert_uint_eq(query().workers, 0);
}
END_TEST

START_TEST(time_stands_still_as_well)
{
	uint64_t ms = 250, timeouts;
	struct task *k = park_within(&ms, false);

	timeouts = query().worker_timeouts;
	usleep((useconds_t)(ms + 300) * 1000);
	ck_assert_int_eq(k->done, 0);
	go_on(k);
	await(&k->done, 1);
	ck_assert_uint_ge(k->turn.ran_ns, ms * MS);
	ck_assert_int_eq(finish(k), -ETIMEDOUT);
	ck_assert_uint_eq(query().worker_timeouts, timeouts + 1);
}
END_TEST

/* Until a deaf worker has answered what it was asked before this, or @k is over, and it perhaps killed. */
static void await_answer(const struct task *deaf, struct task *k)
{
	const uint32_t *answers = &deaf->b.data[ANSWERS];
	uint32_t before = __atomic_load_n(answers, __ATOMIC_RELAXED);

	while (!k->done && __atomic_load_n(answers, __ATOMIC_ACQUIRE) - before < 2)
		usleep(100);
}

/*
 * Whether it was never asked: its lane waits for something, an answer by now would be known to
 * the lane, and it waits on.
 */
static bool is_unheard(struct task *k, const struct task *deaf)
{
	int slices;

	while (!k->done && !k->slices)
		usleep(100);
	if (!k->done)
		await_answer(deaf, k);
	slices = k->slices;
	while (!k->done && k->slices < slices + 2)
		usleep(100);
	return !k->done;
}

/* A task whose worker takes no messages and has been sent too many. */
static struct task *begin_unheard(struct task **deaf)
{
	struct task *k;

	*deaf = begin("test_deaf", false);
	await(&(*deaf)->done, 1);
	for (int i = 0; i < 10000; i++) {
		/* Each has a buffer that is new to it. */
		k = begin("test_error_data", false);
		if (is_unheard(k, *deaf))
			return k;
		ck_assert_int_eq(finish(k), 0);
	}
	ck_abort_msg("there is always room");
}

/* For what holds for its launch that is not before it, either. */
START_TEST(unheard_it_makes_way)
{
	struct task *deaf, *k = begin_unheard(&deaf);

	k->way = true;
	await_parked(k, 1);
	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
	ck_assert_int_eq(k->done, 0);
	go_on(k);
	k->slices = 0;
	await(&k->slices, 10);
	ck_assert_int_eq(k->done, 0);
	runner_end(runner, &k->turn);
	ck_assert_int_eq(finish(k), -ECANCELED);
	ck_assert_int_eq(finish(deaf), 0);
}
END_TEST

/* One that would have been over before it began does not keep its lane by that. */
START_TEST(unheard_it_can_not_have_ended)
{
	struct task *deaf, *k = begin_unheard(&deaf);
	int slices;

	__atomic_store_n(&deaf->b.data[1], 1, __ATOMIC_RELAXED);
	await_answer(deaf, k);
	slices = k->slices;
	await(&k->done, 1);
	/* Not at the end of the time for messages, which is some seconds. */
	ck_assert_int_lt(k->slices - slices, 1000);
	ck_assert_int_eq(finish(k), -EIO);
	ck_assert_int_eq(finish(deaf), 0);
}
END_TEST

/* Its worker, which the tenant can reach, too. */
START_TEST(killed_while_parked)
{
	struct task *who = begin("test_identity", false), *k;
	pid_t pid;

	await(&who->done, 1);
	pid = (pid_t)who->b.data[0];
	ck_assert_int_eq(finish(who), 0);
	k = park("test_until");		/* in the same one */
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	go_on(k);
	await(&k->done, 1);
	ck_assert_ptr_nonnull(strstr(k->t.reason, "kernel test_until was killed on cpu0, in a process of its own (Killed): by its user, or as memory was short"));
	ck_assert_int_eq(finish(k), -EIO);
}
END_TEST

/* In a cgroup of its own no signal makes it go on. */
START_TEST(nobody_else_lets_it_go_on)
{
	struct task *who = begin("test_identity", false), *k;
	pid_t pid;

	await(&who->done, 1);
	pid = (pid_t)who->b.data[0];
	ck_assert_int_eq(finish(who), 0);
	k = park("test_until");
	still(&k->b.data[COUNT]);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	still(&k->b.data[COUNT]);
	go_on(k);
	await_change(&k->b.data[COUNT]);
	stop(k);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

START_TEST(what_it_starts_is_its_own)
{
	struct task *k = park("test_child");
	struct buffer b = k->b;

	still(&b.data[COUNT]);
	still(&b.data[CHILD]);
	go_on(k);
	await_change(&b.data[CHILD]);
	runner_end(runner, &k->turn);
	await(&k->done, 1);
	ck_assert_int_eq(k->t.result, -ECANCELED);
	still(&b.data[CHILD]);
	finish(k);
}
END_TEST

static int folders(void)
{
	struct dirent *e;
	DIR *d = opendir(folder);
	int n = 0;

	while ((e = readdir(d)))
		n += !strncmp(e->d_name, "arax-worker-", 12);
	closedir(d);
	return n;
}

START_TEST(cgroups_go_with_their_workers)
{
	struct task *k = park("test_until"), *other = park("test_until");

	ck_assert_int_eq(folders(), 2);
	runner_end(runner, &k->turn);
	ck_assert_int_eq(finish(k), -ECANCELED);
	/* By whoever ends workers. */
	ck_assert(comes_true(folders() == 1, 1000));
	stop(other);
	go_on(other);
	ck_assert_int_eq(finish(other), 0);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_int_eq(folders(), 0);
}
END_TEST

/* By an araxd that was killed: with what runs in it. */
START_TEST(what_others_left_is_ended)
{
	char path[PATH_MAX + 64];
	int status;
	pid_t pid;
	FILE *f;

	/* First: who is started has no part in the folder's lock, as workers have none. */
	worker_cgroups_close();
	pid = fork();
	while (!pid)
		pause();
	snprintf(path, sizeof(path), "%s/arax-worker-77", folder);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	strcat(path, "/cgroup.procs");
	f = fopen(path, "w");
	fprintf(f, "%d", pid);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(folders(), 1);
	ck_assert_int_eq(worker_cgroups_open(folder, 100), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ck_assert_int_eq(folders(), 0);
}
END_TEST

/* It has been made by then, and is not left. */
START_TEST(no_descriptor_for_a_cgroup)
{
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit limit, less;
	struct worker_cgroup *cg;

	ck_assert_int_ge(next, 0);
	ck_assert_int_eq(close(next), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = limit;
	log_max_level = 0;
	/* None, and one: not enough for all that it takes. */
	for (rlim_t more = 0; more < 2; more++) {
		less.rlim_cur = (rlim_t)next + more;
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
		ck_assert_int_eq(worker_cgroup_make(&cg), -EMFILE);
		ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		ck_assert_int_eq(folders(), 0);
	}
}
END_TEST

/* Below one of threads nothing can. */
START_TEST(a_cgroup_can_not_be_entered)
{
	char path[PATH_MAX + 64];
	struct task *k;
	FILE *f;

	log_max_level = 0;
	snprintf(path, sizeof(path), "%s/cgroup.type", folder);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs("threaded", f);
	if (fclose(f)) {
		be_skip("a_cgroup_can_not_be_entered", "no cgroup of threads can be made");
		return;
	}
	k = begin("test_error_data", false);
	await(&k->done, 1);
	ck_assert_msg(strstr(k->t.reason, "can't be started: it can't enter a cgroup of its own: see worker.cgroup: "),
		      "%s", k->t.reason);
	ck_assert_int_eq(finish(k), -EAGAIN);
	ck_assert(comes_true(!folders(), 2000));
}
END_TEST

START_TEST(no_place_for_cgroups)
{
	pid_t pid = fork();
	int status;

	/* Another process has that folder. */
	log_max_level = 0;
	if (!pid) {
		worker_cgroups_close();
		_exit(worker_cgroups_open(folder, 100) != -EBUSY);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	worker_cgroups_close();
	ck_assert_int_eq(worker_cgroups_open("/tmp", 100), -ENOTTY);
	ck_assert_int_eq(worker_cgroups_open("/nowhere/at/all", 100), -ENOENT);
	/* Then there are none, and all works by signals. */
	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
	ck_assert_int_eq(folders(), 0);
}
END_TEST

/* The folder is there for all to read: who does so, and locks it, takes nothing by that. */
START_TEST(others_lock_no_folder)
{
	int at, told[2], ready = 0, status;
	pid_t pid;

	worker_cgroups_close();
	ck_assert_int_eq(pipe(told), 0);
	pid = fork();
	if (!pid) {
		if (syscall(SYS_setresuid, 65534, 65534, 65534))
			_exit(1);
		at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ready = at >= 0 && !flock(at, LOCK_EX | LOCK_NB);
		ready = write(told[1], &ready, sizeof(ready)) == sizeof(ready);
		while (ready)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(told[0], &ready, sizeof(ready)), sizeof(ready));
	ck_assert_int_eq(ready, 1);
	ck_assert_int_eq(worker_cgroups_open(folder, 100), 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(told[0]);
	close(told[1]);
}
END_TEST

static int descriptors(void)
{
	struct dirent *e;
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while ((e = readdir(d)))
		n++;
	closedir(d);
	return n;
}

/* Of what a worker has here: its socket, its process and its answers. */
static int workers_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	char to[16];
	int n = 0;

	while ((e = readdir(d))) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = '\0';
		n += !strncmp(to, "socket:", 7) || !strncmp(to, "anon_inode:", 11);
	}
	closedir(d);
	return n;
}

/* From then on workers need two seconds to start. */
static void start_slowly(void)
{
	log_max_level = 0;
	config.worker.program = strdup("build/test/worker-slow");
	open_runner_anew();
}

/* Whoever keeps his worker from a CPU keeps no lane by that. */
START_TEST(starting_it_makes_way)
{
	struct task *k;

	start_slowly();
	k = park("test_error_data");
	ck_assert_int_eq(finish(begin("test_error", false)), 0);
	ck_assert_int_eq(k->done, 0);
	usleep(100000);
	go_on(k);
	await(&k->done, 1);
	ck_assert_uint_ge(k->turn.paused_ns, 100 * MS);
	/* What it waited for was its own. */
	ck_assert_uint_ge(k->turn.ran_ns, 1000 * MS);
	ck_assert_uint_ge(k->t.device_ns, 1000 * MS);
	ck_assert_int_eq(finish(k), 0);
	/* That one is ready. */
	ck_assert_int_eq(finish(begin("test_error_data", true)), 0);
	ck_assert_uint_eq(query().worker_starts, 1);
}
END_TEST

START_TEST(ends_starting)
{
	struct task *k;
	uint64_t began;

	start_slowly();
	for (int parked = 0; parked < 2; parked++) {
		began = now_ns();
		k = begin("test_error_data", parked);
		while (!(parked ? k->parked : k->slices) && !k->done)
			usleep(500);
		runner_end(runner, &k->turn);
		ck_assert_int_eq(finish(k), -ECANCELED);
		ck_assert_uint_lt(now_ns() - began, 1800 * MS);
		ck_assert_uint_eq(query().workers, 0);
	}
}
END_TEST

START_TEST(deadline_passes_while_starting)
{
	struct task *k;
	uint64_t began;

	start_slowly();
	for (int parked = 0; parked < 2; parked++) {
		began = now_ns();
		k = make_task("test_error_data");
		k->way = parked;
		k->t.deadline_ns = began + 200 * MS;
		runner_submit(runner, &k->t);
		await(&k->done, 1);
		ck_assert_int_eq(k->parked, parked);
		ck_assert_str_eq(k->t.reason, "the process for the kernel had not started when the task's deadline passed");
		ck_assert_int_eq(finish(k), -ETIMEDOUT);
		ck_assert_uint_lt(now_ns() - began, 1800 * MS);
	}
	ck_assert_uint_eq(query().worker_timeouts, 0);
}
END_TEST

/* Any number of them can be kept from ending, by who traces them: they have no descriptors. */
START_TEST(can_not_be_killed)
{
	siginfo_t info;
	int before;

	log_max_level = 0;
	config.worker.program = strdup("build/test/worker-traced");
	open_runner_anew();
	before = workers_descriptors();
	ck_assert_int_eq(finish(begin("test_error_data", false)), -EAGAIN);
	ck_assert(comes_true(workers_descriptors() == before, 2000));
	ck_assert_int_eq(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	ck_assert(comes_true(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 10000));
	ck_assert_int_eq(workers_descriptors(), before);
}
END_TEST

/* In the cgroups of all workers; *@other: one of them that is not @but. */
static int processes(pid_t but, pid_t *other)
{
	char path[PATH_MAX + 300];
	struct dirent *e;
	DIR *d = opendir(folder);
	int n = 0, pid;
	FILE *f;

	*other = 0;

	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s/cgroup.procs", folder, e->d_name);
		f = strncmp(e->d_name, "arax-worker-", 12) ? NULL : fopen(path, "re");
		while (f && fscanf(f, "%d", &pid) == 1) {
			n++;
			if (pid != but)
				*other = pid;
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

/* A task in the worker that *@worker is, with a child that runs beside it. */
static struct task *begin_child(pid_t *worker, pid_t *child)
{
	struct task *k = begin("test_identity", false);

	await(&k->done, 1);
	*worker = (pid_t)k->b.data[0];
	ck_assert_int_eq(finish(k), 0);
	k = begin("test_child", false);
	await_change(&k->b.data[CHILD]);
	ck_assert_int_eq(processes(*worker, child), 2);
	return k;
}

/* What it has started runs no longer than it would without that. */
START_TEST(its_children_go_though_it_hangs)
{
	pid_t worker, child, tracer;
	struct task *k;
	uint64_t began;
	int with;

	log_max_level = 0;
	k = begin_child(&worker, &child);
	with = descriptors();
	tracer = begin_tracer(&worker, 1);
	if (tracer < 0)
		be_skip("its_children_go_though_it_hangs", "a worker can't be traced");
	began = now_ns();
	runner_end(runner, &k->turn);
	await(&k->done, 1);
	ck_assert_int_eq(finish(k), -ECANCELED);
	if (tracer < 0)
		return;
	ck_assert(comes_true(processes(worker, &child) == 1, 1000));
	ck_assert_int_eq(child, 0);
	/* Nor until nobody waits any more for the worker's own end. */
	ck_assert_uint_lt(now_ns() - began, 1500 * MS);
	/* The worker had six, and the task its buffer. */
	ck_assert(comes_true(descriptors() <= with - 7, 1000));
	end_tracer(tracer);
	ck_assert(comes_true(!folders(), 2000));
}
END_TEST

/* Its folder is not forgotten for that, nor does it take descriptors, or anybody's time. */
START_TEST(a_child_of_it_hangs)
{
	pid_t worker, child, tracer;
	struct task *k;

	log_max_level = 0;
	k = begin_child(&worker, &child);
	tracer = begin_tracer(&child, 1);
	if (tracer < 0)
		be_skip("a_child_of_it_hangs", "a worker can't be traced");
	runner_end(runner, &k->turn);
	await(&k->done, 1);
	ck_assert_int_eq(finish(k), -ECANCELED);
	if (tracer < 0)
		return;
	/* Longer than what was killed takes. */
	usleep(5000000);
	ck_assert_int_eq(folders(), 1);
	end_tracer(tracer);
	ck_assert(comes_true(!folders(), 2000));
}
END_TEST

#define OLD	4

static void old_path(char path[PATH_MAX + 64], int i, const char *file)
{
	snprintf(path, PATH_MAX + 64, "%s/arax-worker-%d%s", folder, 70 + i, file);
}

/* What hangs of it keeps the next araxd for a moment, however many there are. */
START_TEST(what_others_left_has_one_second)
{
	pid_t pids[OLD], tracers[OLD];
	char path[PATH_MAX + 64];
	bool traced = true;
	uint64_t start;
	FILE *f;

	log_max_level = 0;
	worker_cgroups_close();
	for (int i = 0; i < OLD; i++) {
		pids[i] = fork();
		while (!pids[i])
			pause();
		old_path(path, i, "");
		ck_assert_int_eq(mkdir(path, 0755), 0);
		old_path(path, i, "/cgroup.procs");
		f = fopen(path, "w");
		fprintf(f, "%d", pids[i]);
		ck_assert_int_eq(fclose(f), 0);
		tracers[i] = begin_tracer(&pids[i], 1);
		traced &= tracers[i] >= 0;
	}
	if (!traced)
		be_skip("what_others_left_has_one_second", "a process can't be traced");
	start = now_ns();
	ck_assert_int_eq(worker_cgroups_open(folder, 100), 0);
	if (traced) {
		ck_assert_int_eq(folders(), OLD);
		ck_assert_uint_ge(now_ns() - start, 1000 * MS);
		ck_assert_uint_lt(now_ns() - start, OLD * 1000 * MS - 500 * MS);
	}
	for (int i = 0; i < OLD; i++) {
		if (tracers[i] >= 0)
			end_tracer(tracers[i]);
		ck_assert_int_eq(waitpid(pids[i], NULL, 0), pids[i]);
		old_path(path, i, "");
		ck_assert(!rmdir(path) || errno == ENOENT);
	}
}
END_TEST

START_TEST(destroyed_while_parked)
{
	struct task *k = park("test_until"), *queued;

	stop(k);
	queued = park("test_until");
	stop(queued);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_int_eq(finish(k), 0);
	ck_assert_int_eq(finish(queued), 0);
}
END_TEST

static void assert_no_worker(const char *why)
{
	struct task *k = begin("test_error_data", false);

	await(&k->done, 1);
	ck_assert_msg(strstr(k->t.reason, why), "%s", k->t.reason);
	ck_assert_int_eq(finish(k), -EAGAIN);
}

/* A limit of the machine's, or the unit's: who waits for the task is told which. */
START_TEST(no_more_of_anything)
{
	log_max_level = 0;
	no_threads = true;
	assert_no_worker("no thread that looks after it can be, as there are as many as may be: TasksMax=");
	no_threads = false;
	no_processes = true;
	assert_no_worker("as there are as many processes or threads as may be: TasksMax=");
	no_processes = false;
	ck_assert_int_eq(finish(begin("test_error_data", false)), 0);
	ck_assert_uint_eq(query().workers, 1);
}
END_TEST

/* Its lane would stand still: so it runs on, until a thread can be had. */
START_TEST(no_thread_no_way)
{
	struct task *k = begin("test_until", false), *next;

	await_change(&k->b.data[COUNT]);
	no_threads = true;
	k->way = true;
	while (!atomic_exchange(&k->turn.refused, false))
		usleep(500);
	ck_assert_int_eq(k->parked, 0);
	await_change(&k->b.data[COUNT]);
	next = begin("test_until", false);
	no_threads = false;
	await_parked(k, 1);
	await_change(&next->b.data[COUNT]);
	stop(next);
	ck_assert_int_eq(finish(next), 0);
	stop(k);
	go_on(k);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

/* Others than lanes' threads have no lane to give. */
START_TEST(no_lane_no_way)
{
	int slices = 0;

	/* Whose time is over when it is looked at for the first time has no slice. */
	for (uint64_t ms = 50; !slices && ms <= 12800; ms *= 2) {
		struct task *k = make_task("test_hang");

		k->t.most_ns = ms * MS;
		k->way = true;
		ck_assert_int_eq(runner_run(runner, &k->t), -ETIMEDOUT);
		ck_assert_int_eq(k->parked, 0);
		slices = k->slices;
		k->done = 1;
		finish(k);
	}
	ck_assert_int_ge(slices, 1);
}
END_TEST

static struct task *parked_one, *follower;
static _Atomic int first_ended;

/* The one that it follows is not known to have ended before this returns. */
static void follow(struct runner_task *t)
{
	first_ended++;
	await(&parked_one->done, 1);
	follower->t.after[0] = t->ticket;
	follower->t.nr_after = 1;
	runner_submit(runner, &follower->t);
	on_done(t);
}

/* Its lane is another thread's, and so is what is known there of how tasks have ended. */
START_TEST(ends_apart_from_its_lane)
{
	struct task *k = park("test_until"), *first;

	for (uint32_t i = 1; i < RUNNER_LATE; i++)
		ck_assert_int_eq(finish(begin("test_error", false)), 0);
	parked_one = k;
	follower = make_task("test_error");
	first = make_task("test_error");
	first->result = -EDOM;
	first->t.done = follow;
	runner_submit(runner, &first->t);
	await(&first_ended, 1);
	ck_assert_uint_eq(first->t.ticket, k->t.ticket + RUNNER_LATE);
	stop(k);
	go_on(k);
	await(&follower->done, 1);
	ck_assert(follower->t.skipped);
	ck_assert_int_eq(finish(follower), -ECANCELED);
	ck_assert_int_eq(finish(first), -EDOM);
	ck_assert_int_eq(finish(k), 0);
}
END_TEST

#define STORM	60
#define BESIDE	6

/* At any moment: stopped, let go on, ended, and told to come to its end. */
START_TEST(storm)
{
	struct task *k[BESIDE] = { NULL };
	int heard[BESIDE] = { 0 }, begun = 0, over = 0, good = 0, ended = 0;
	unsigned int seed = 1;

	while (over < STORM) {
		for (int i = 0; i < BESIDE; i++) {
			if (!k[i] && begun < STORM) {
				k[i] = make_task("test_until");
				k[i]->turn.slice_ns = 200000;
				k[i]->way = true;
				heard[i] = 0;
				runner_submit(runner, &k[i]->t);
				begun++;
			}
			if (!k[i])
				continue;
			if (k[i]->done) {
				int32_t result = finish(k[i]);

				ck_assert(!result || result == -ECANCELED);
				good += !result;
				k[i] = NULL;
				over++;
				continue;
			}
			if (rand_r(&seed) % 8 == 0)
				stop(k[i]);
			if (rand_r(&seed) % 64 == 0 && ended < STORM / 4) {
				runner_end(runner, &k[i]->turn);
				ended++;
			}
			if (k[i]->parked > heard[i] && rand_r(&seed) % 2) {
				heard[i]++;
				runner_go_on(runner, &k[i]->turn);
			}
		}
		usleep(rand_r(&seed) % 1000);
	}
	ck_assert_int_ge(good, STORM - ended);
}
END_TEST

/* On the device's own queue and behind it in a worker, where it makes way and may not come back. */
START_TEST(what_ended_is_told_before_the_next_one_runs)
{
	for (int round = 0; round < 8; round++) {
		struct task *ended = begin("test_error", false), *next = begin("test_until", round % 2);

		await(&ended->done, 1);
		if (round % 2) {
			await_parked(next, 1);
			/* The lane is another's meanwhile. */
			ck_assert_int_eq(finish(begin("test_error", false)), 0);
		}
		stop(next);
		if (round % 2)
			go_on(next);
		ck_assert_int_eq(finish(next), 0);
		ck_assert_int_eq(finish(ended), 0);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("turn");
	TCase *t = tcase_create("one core"), *q = tcase_create("queued"), *cg;

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, stands_still_and_goes_on);
	tcase_add_test(t, only_what_runs_counts);
	tcase_add_test(t, threads_are_used_again);
	tcase_add_test(t, several_stand_aside);
	tcase_add_test(t, ends_parked);
	tcase_add_test(t, ends_running);
	tcase_add_test(t, ends_at_another_device);
	tcase_add_test(t, deadline_passes_while_parked);
	tcase_add_test(t, time_stands_still_as_well);
	tcase_add_test(t, unheard_it_makes_way);
	tcase_add_test(t, unheard_it_can_not_have_ended);
	tcase_add_test(t, killed_while_parked);
	tcase_add_test(t, destroyed_while_parked);
	tcase_add_test(t, starting_it_makes_way);
	tcase_add_test(t, ends_starting);
	tcase_add_test(t, deadline_passes_while_starting);
	tcase_add_test(t, can_not_be_killed);
	tcase_add_test(t, no_more_of_anything);
	tcase_add_test(t, no_thread_no_way);
	tcase_add_test(t, no_lane_no_way);
	tcase_add_test(t, storm);
	tcase_add_test(t, a_launch_stands_still_and_goes_on);
	tcase_add_test(t, a_launch_ends);
	tcase_add_loop_test(t, deadline_of_a_launch, 0, 2);
	tcase_add_test(t, a_launch_without_parts);
	tcase_add_test(t, no_thread_for_the_lane_of_a_launch);
	tcase_add_test(t, destroyed_while_a_launch_is_parked);
	suite_add_tcase(suite, t);
	tcase_add_checked_fixture(q, setup_queued, teardown);
	tcase_set_timeout(q, 60);
	tcase_add_test(q, ends_apart_from_its_lane);
	tcase_add_test(q, what_ended_is_told_before_the_next_one_runs);
	suite_add_tcase(suite, q);
	if (!find_cgroup2()) {
		be_skip("cgroups", "no cgroup2 that can be written to");
		return be_main(suite);
	}
	cg = tcase_create("cgroups");
	tcase_set_timeout(cg, 180);
	tcase_add_checked_fixture(cg, setup_cgroups, teardown_cgroups);
	tcase_add_test(cg, stands_still_and_goes_on);
	tcase_add_test(cg, nobody_else_lets_it_go_on);
	tcase_add_test(cg, what_it_starts_is_its_own);
	tcase_add_test(cg, ends_parked);
	tcase_add_test(cg, unheard_it_makes_way);
	tcase_add_test(cg, starting_it_makes_way);
	tcase_add_test(cg, ends_starting);
	tcase_add_test(cg, killed_while_parked);
	tcase_add_test(cg, cgroups_go_with_their_workers);
	tcase_add_test(cg, its_children_go_though_it_hangs);
	tcase_add_test(cg, a_child_of_it_hangs);
	tcase_add_test(cg, what_others_left_has_one_second);
	tcase_add_test(cg, what_others_left_is_ended);
	tcase_add_test(cg, no_descriptor_for_a_cgroup);
	tcase_add_test(cg, a_cgroup_can_not_be_entered);
	tcase_add_test(cg, no_place_for_cgroups);
	/* Of another user, and where Linux has a file that only its owner can open, since 5.14. */
	if (!geteuid())
		tcase_add_test(cg, others_lock_no_folder);
	else
		be_skip("others_lock_no_folder", "not root");
	tcase_add_test(cg, storm);
	suite_add_tcase(suite, cg);
	return be_main(suite);
}
