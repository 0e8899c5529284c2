// SPDX-License-Identifier: MIT
/* Runners: in this process, and in workers that crash, hang and lie. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/child.h"
#include "daemon/crowd.h"
#include "daemon/reason.h"
#include "daemon/worker/await.h"
#include "daemon/worker/inside.h"
#include "selftests/unit/be_runner.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/wait.h"

/* A task on whole buffers. */
struct task {
	struct runner_task t;
	struct arax_launch_range ranges[32];
	struct runner_buffer buffers[32];
};

static void make_task(struct task *k, const char *name, const struct buffer *b, uint32_t n,
		      const void *args, uint32_t arg_len)
{
	memset(k, 0, sizeof(*k));
	fill_task(&k->t, name, b, n, k->ranges, k->buffers);
	k->t.launch.args = args;
	k->t.launch.arg_len = arg_len;
}

static int run(const char *name, const struct buffer *b, uint32_t n, const void *args,
	       uint32_t arg_len)
{
	struct task k;

	make_task(&k, name, b, n, args, arg_len);
	return runner_run(runner, &k.t);
}

static struct runner_stats query(void)
{
	struct runner_stats s;

	runner_query(runner, &s);
	return s;
}

static void setup_with(const char *text)
{
	open_device(text, LOG_LEVEL_WARNING);
	ck_assert_int_ge(registry_load_folder(registry, "build/lib/arax/kernels"), 33);
	open_runner();
}

static void setup(void)
{
	setup_with("worker { timeout_ms = 60000 }");
}

/* Of what has a limit of its own; a busy machine has this long for it. */
#define WELL_BEFORE_TIMEOUT_NS	50000000000u

static void teardown(void)
{
	close_runner();
	assert_no_process_left();
}

START_TEST(runs_here)
{
	struct buffer b[3] = { make_buffer(64), make_buffer(64), make_buffer(64) };
	uint32_t n = 16;
	struct runner_stats s;

	for (uint32_t i = 0; i < n; i++) {
		((float *)b[0].data)[i] = (float)i;
		((float *)b[1].data)[i] = 100;
	}
	ck_assert_int_eq(run("vadd", b, 3, &n, sizeof(n)), 0);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_float_eq(((float *)b[2].data)[i], 100 + (float)i);
	s = query();
	ck_assert_uint_eq(s.runs, 1);
	ck_assert_uint_eq(s.worker_runs, 0);
	ck_assert_uint_eq(s.worker_starts, 0);
	for (int i = 0; i < 3; i++)
		free_buffer(&b[i]);
}
END_TEST

/* Who waits for the task is told, and not the log alone. */
static void assert_reason(const char *words)
{
	char why[REASON_LEN];

	reason_take(why);
	ck_assert_msg(strstr(why, words), "\"%s\" in: %s", words, why);
}

START_TEST(passes_errors_on)
{
	static const struct { int32_t in, out; } cases[] = {
		{ 0, 0 }, { -EINVAL, -EINVAL }, { -4095, -4095 },
		{ 1, -EIO }, { -4096, -EIO },	/* not an errno */
	};
	struct buffer b = make_buffer(8);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *why = cases[i].in == cases[i].out ? "" : "the kernel, or its device's plug-in, returned ";

		reason_forget();
		ck_assert_int_eq(run("test_error", &b, 1, &cases[i].in, 4), cases[i].out);
		assert_reason(why);
		ck_assert_int_eq(run("test_error_data", &b, 1, &cases[i].in, 4), cases[i].out);
		assert_reason(why);
	}
	free_buffer(&b);
}
END_TEST

START_TEST(missing_symbol)
{
	struct buffer b = make_buffer(8);
	int before = log_max_level;

	log_max_level = 0;
	ck_assert_int_eq(runner_prepare(runner, registry_find(registry, "test_no_symbol")), -ENOENT);
	ck_assert_int_eq(run("test_no_symbol", &b, 1, NULL, 0), -ENOENT);
	/* What only a worker loads is not looked at before, and its kernel may return that, too. */
	ck_assert_int_eq(runner_prepare(runner, registry_find(registry, "test_no_symbol_data")), 0);
	for (int i = 0; i < 2; i++) {
		reason_forget();
		ck_assert_int_eq(run("test_no_symbol_data", &b, 1, NULL, 0), -ENOENT);
		assert_reason("kernel test_no_symbol_data can't be loaded");
		reason_forget();
		ck_assert_int_eq(run("test_error_data", &b, 1, &(int32_t){ -ENOENT }, 4), -ENOENT);
		ck_assert_str_eq(reason_text, "");
	}
	log_max_level = before;
	free_buffer(&b);
}
END_TEST

START_TEST(gathers_in_a_worker)
{
	struct buffer b[3] = { make_buffer(64), make_buffer(64), make_buffer(64) };
	uint32_t n = 16;
	struct runner_stats s;

	ck_assert(runner_needs_worker(runner, registry_find(registry, "test_gather")));
	ck_assert(!runner_needs_worker(runner, registry_find(registry, "vadd")));
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < n; i++) {
			b[0].data[i] = n - 1 - i;
			b[1].data[i] = 1000u * (uint32_t)round + i;
			b[2].data[i] = 0;
		}
		ck_assert_int_eq(run("test_gather", b, 3, &n, sizeof(n)), 0);
		for (uint32_t i = 0; i < n; i++)
			ck_assert_uint_eq(b[2].data[i], 1000u * (uint32_t)round + n - 1 - i);
	}
	s = query();
	ck_assert_uint_eq(s.runs, 0);
	ck_assert_uint_eq(s.worker_runs, 3);
	ck_assert_uint_eq(s.worker_starts, 1);	/* the same one each time */
	for (int i = 0; i < 3; i++)
		free_buffer(&b[i]);
}
END_TEST

/* The reason for workers: an index from a buffer leads nowhere. */
START_TEST(wild_index_hits_the_worker_alone)
{
	struct buffer b[3] = { make_buffer(64), make_buffer(64), make_buffer(64) };
	uint32_t n = 1;

	b[0].data[0] = 0xf0000000;
	ck_assert_int_eq(run("test_gather", b, 3, &n, sizeof(n)), -EFAULT);
	ck_assert_uint_eq(query().worker_crashes, 1);
	ck_assert_uint_eq(query().workers, 0);
	b[0].data[0] = 0;
	b[1].data[0] = 7;
	ck_assert_int_eq(run("test_gather", b, 3, &n, sizeof(n)), 0);	/* a new worker */
	ck_assert_uint_eq(b[2].data[0], 7);
	ck_assert_uint_eq(query().worker_starts, 2);
	for (int i = 0; i < 3; i++)
		free_buffer(&b[i]);
}
END_TEST

/* In araxd nothing would end it: days of work are not begun. */
START_TEST(work_is_bounded)
{
	static const struct {
		const char *name;
		uint32_t args[3];
	} hogs[] = {
		{ "kmeans_assign", { 8u << 20, 1, 8u << 20 } },
		{ "kmeans_update", { 8u << 20, 1, 8u << 20 } },
		{ "distances_f32", { 1u << 13, 1u << 20, 1u << 13 } },
		{ "scan_parts_u32", { 8u << 20, 8u << 20, 0 } },
		{ "scan_parts_f32", { 8u << 20, 8u << 20, 0 } },
	};
	struct buffer b[3] = { make_buffer(64), make_buffer(64), make_buffer(64) };
	const uint32_t some[3] = { 4, 2, 2 };
	char why[REASON_LEN];

	for (size_t i = 0; i < sizeof(hogs) / sizeof(hogs[0]); i++) {
		reason_forget();
		ck_assert_int_eq(run(hogs[i].name, b, 3, hogs[i].args, sizeof(hogs[i].args)),
				 -EINVAL);
		reason_take(why);
		ck_assert_msg(strstr(why, hogs[i].name) && strstr(why, "smaller ranges"), "%s", why);
		ck_assert_int_eq(run(hogs[i].name, b, 3, some, sizeof(some)),
				 hogs[i].name[0] == 's' ? -EINVAL : 0);	/* exclusive is 2 */
	}
	for (int i = 0; i < 3; i++)
		free_buffer(&b[i]);
}
END_TEST

/* A transform would go by who is first, where the device's transforms read and write at once. */
START_TEST(no_transform_in_place)
{
	const struct { uint32_t n, batch, inverse; } args = { 4, 2, 0 };
	struct buffer two = make_buffer(128), work = make_buffer(64);
	struct buffer b[3] = { two, two, work };
	char why[REASON_LEN];

	b[0].bytes = 64;
	b[1].bytes = 64;
	for (uint32_t apart = 0; apart <= 64; apart += 32) {
		b[1].data = two.data + apart / sizeof(*two.data);
		reason_forget();
		ck_assert_int_eq(run("fft_c32", b, 3, &args, sizeof(args)), apart == 64 ? 0 : -EINVAL);
		reason_take(why);
		ck_assert_int_eq(!!strstr(why, "can't work in place"), apart < 64);
	}
	free_buffer(&two);
	free_buffer(&work);
}
END_TEST

START_TEST(crash_and_exit_differ)
{
	struct buffer b = make_buffer(64);

	ck_assert_int_eq(run("test_crash", &b, 1, NULL, 0), -EFAULT);
	assert_reason("a bad access");
	ck_assert_int_eq(run("test_abort", &b, 1, NULL, 0), -EFAULT);
	assert_reason("Aborted");
	ck_assert_int_eq(run("test_exit", &b, 1, NULL, 0), -EIO);
	assert_reason("kernel test_exit ended its process on cpu0: it, or what it calls, called exit()");
	ck_assert_uint_eq(query().worker_crashes, 2);
	ck_assert_uint_eq(query().worker_starts, 3);
	free_buffer(&b);
}
END_TEST

/* Or the log of all others would be full of one user's. */
START_TEST(crashes_are_a_line_a_second)
{
	struct buffer b = make_buffer(64);
	uint64_t start = now_ns(), lines = 0, most;
	FILE *log = tmpfile();
	char line[512];
	int i;

	log_init(fileno(log), LOG_LEVEL_WARNING, LOG_FORMAT_PLAIN);
	for (i = 0; i < 20; i++)
		ck_assert_int_eq(run("test_crash", &b, 1, NULL, 0), -EFAULT);
	most = (now_ns() - start) / 1000000000u + 1;
	rewind(log);
	while (fgets(line, sizeof(line), log))
		lines += !!strstr(line, "worker is gone");
	ck_assert_uint_ge(lines, 1);
	ck_assert_uint_le(lines, most);
	log_init(STDERR_FILENO, LOG_LEVEL_WARNING, LOG_FORMAT_PLAIN);
	fclose(log);
	free_buffer(&b);
}
END_TEST

START_TEST(deadline_ends_a_hang)
{
	struct buffer b = make_buffer(64);
	int32_t zero = 0;
	uint64_t start, took, ns;
	struct task k;

	ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);	/* worker is up */
	/* Whose deadline has passed before it begins does not come to a worker. */
	for (ns = 50000000; !query().worker_timeouts && ns < WELL_BEFORE_TIMEOUT_NS; ns *= 2) {
		make_task(&k, "test_hang", &b, 1, NULL, 0);
		start = now_ns();
		k.t.deadline_ns = start + ns;
		ck_assert_int_eq(runner_run(runner, &k.t), -ETIMEDOUT);
		took = now_ns() - start;
		ck_assert_uint_ge(took, ns);
		ck_assert_uint_lt(took, WELL_BEFORE_TIMEOUT_NS);	/* by the deadline */
	}
	ck_assert_uint_eq(query().worker_timeouts, 1);
	ck_assert_uint_eq(query().workers, 0);
	ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);
	free_buffer(&b);
}
END_TEST

START_TEST(timeout_ends_a_hang)
{
	struct buffer b = make_buffer(64);

	config.worker.timeout_ms = 50;
	open_runner_anew();
	ck_assert_int_eq(run("test_hang", &b, 1, NULL, 0), -ETIMEDOUT);
	free_buffer(&b);
}
END_TEST

/* Whatever it has done to what it shares with us: its limits hold. */
START_TEST(waking_never_waits)
{
	struct buffer b = make_buffer(64);
	int32_t zero = 0;
	struct task k;
	uint64_t start, ns;

	ck_assert_int_eq(run("test_clog", &b, 1, NULL, 0), 0);
	/* Nor here. */
	for (ns = 100000000; query().workers && ns < WELL_BEFORE_TIMEOUT_NS; ns *= 2) {
		make_task(&k, "test_error_data", &b, 1, &zero, 4);
		start = now_ns();
		k.t.deadline_ns = start + ns;
		ck_assert_int_eq(runner_run(runner, &k.t), -ETIMEDOUT);
		ck_assert_uint_lt(now_ns() - start, WELL_BEFORE_TIMEOUT_NS);
	}
	ck_assert_uint_eq(query().workers, 0);
	ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);
	free_buffer(&b);
}
END_TEST

/* Nothing that araxd would have to close: of that some has no end. */
START_TEST(nothing_comes_from_kernels)
{
	struct buffer b = make_buffer(64);
	int32_t zero = 0;

	ck_assert_int_eq(run("test_sends", &b, 1, NULL, 0), -EPIPE);
	/* It is told things as before. */
	ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);
	ck_assert_uint_eq(query().worker_starts, 1);
	free_buffer(&b);
}
END_TEST

/* Until it has a worker that takes no message any more. */
static int begin_deaf(struct buffer *deaf)
{
	int err = -ETIMEDOUT;
	struct task k;

	/* Who wakes nobody when it has ended is seen to have when its time is over. */
	for (uint64_t most_ns = 200000000; err == -ETIMEDOUT && most_ns < 60000000000;
	     most_ns *= 2) {
		make_task(&k, "test_deaf", deaf, 1, NULL, 0);
		k.t.most_ns = most_ns;
		err = runner_run(runner, &k.t);
	}
	return err;
}

/* Of which it is told much. */
static int run_told(uint64_t most_ns)
{
	struct buffer b[32];
	int32_t zero = 0;
	struct task k;
	int err;

	for (int j = 0; j < 32; j++)
		b[j] = make_buffer(64);
	make_task(&k, "test_error_data", b, 32, &zero, 4);
	k.t.most_ns = most_ns;
	err = runner_run(runner, &k.t);
	for (int j = 0; j < 32; j++)
		free_buffer(&b[j]);
	return err;
}

/* Its limit holds for what it has to be told first, too. */
START_TEST(what_it_is_told_takes_its_time)
{
	struct buffer deaf = make_buffer(64);
	uint64_t start = 0;
	int err = begin_deaf(&deaf);

	ck_assert_int_eq(err, 0);
	for (int i = 0; i < 1000 && !err; i++) {
		start = now_ns();
		err = run_told(300000000);
	}
	ck_assert_int_eq(err, -ETIMEDOUT);
	ck_assert_uint_lt(now_ns() - start, WELL_BEFORE_TIMEOUT_NS);
	ck_assert_uint_eq(query().workers, 0);
	free_buffer(&deaf);
}
END_TEST

static const struct {
	int signal, err;
	const char *reason;
} ends[] = {
	{ SIGABRT, -EFAULT, "kernel test_error_data crashed on cpu0, in a process of its own: Aborted" },
	{ SIGKILL, -EIO, "kernel test_error_data was killed on cpu0, in a process of its own (Killed)" },
};

static _Atomic uint64_t told_since;
static uint32_t ended_by;

/* When it is no longer being told anything, as it has no room for that. */
static void *end_unheard(void *arg)
{
	while (!told_since || now_ns() - told_since < 100000000)
		usleep(1000);
	__atomic_store_n((uint32_t *)arg, ended_by, __ATOMIC_RELAXED);
	return NULL;
}

/* Its socket is closed before it has ended: how it ends counts all the same. */
START_TEST(ends_as_it_is_told)
{
	struct buffer deaf = make_buffer(64);
	pthread_t thread;
	int err;

	told_since = 0;
	ended_by = (uint32_t)ends[_i].signal;
	deaf.data[3] = 1;
	ck_assert_int_eq(begin_deaf(&deaf), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_unheard, deaf.data), 0);
	do {
		told_since = now_ns();
		reason_forget();
		err = run_told(0);
	} while (!err);
	pthread_join(thread, NULL);
	ck_assert_int_eq(err, ends[_i].err);
	assert_reason(ends[_i].reason);
	ck_assert_uint_eq(query().worker_crashes, err == -EFAULT);
	ck_assert_uint_eq(query().workers, 0);
	free_buffer(&deaf);
}
END_TEST

START_TEST(late_tasks_do_not_start)
{
	struct buffer b = make_buffer(64);
	struct task k;

	make_task(&k, "test_groups", &b, 1, NULL, 0);
	k.t.deadline_ns = now_ns() - 1;
	ck_assert_int_eq(runner_run(runner, &k.t), -ETIMEDOUT);
	ck_assert_uint_eq(b.data[0], 0);
	free_buffer(&b);
}
END_TEST

START_TEST(worker_has_the_tenants_rights_only)
{
	struct buffer b = make_buffer(64);
	int secret = open("/dev/null", O_RDONLY);	/* not close-on-exec */

	setenv("ARAX_TEST_SECRET", "x", 1);
	ck_assert_int_ge(secret, 0);
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
	ck_assert_uint_ne(b.data[0], (uint32_t)getpid());
	ck_assert_uint_eq(b.data[1], TENANT);
	ck_assert_uint_eq(b.data[2], TENANT_GID);
	ck_assert_uint_eq(b.data[3], 1);	/* no_new_privs */
	/* 0..2, socket, eventfd, this library; the slot is closed. */
	ck_assert_uint_eq(b.data[4], 6);
	ck_assert_uint_eq(b.data[5], 0);	/* capabilities */
	ck_assert_uint_eq(b.data[6], 0);	/* environment */
	ck_assert_uint_eq(b.data[7], 0);	/* dumpable: nobody traces it */
	close(secret);
	free_buffer(&b);
}
END_TEST

static const struct { int ours, its; } scores[] = { { -500, 0 }, { 0, 0 }, { 300, 300 } };

/* Where memory is short araxd's unit spares araxd, not what a tenant has run; nor is it spared more. */
START_TEST(worker_is_not_spared)
{
	FILE *f = fopen("/proc/self/oom_score_adj", "we");
	struct buffer b = make_buffer(64);

	ck_assert_ptr_nonnull(f);
	fprintf(f, "%d", scores[_i].ours);
	if (fclose(f)) {
		be_skip("worker_is_not_spared", "no CAP_SYS_RESOURCE");
		free_buffer(&b);
		return;
	}
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
	ck_assert_int_eq(oom_score_adj((pid_t)b.data[0]), scores[_i].its);
	free_buffer(&b);
}
END_TEST

/* Even a tenant that is root gets a worker without capabilities. */
START_TEST(root_tenant_has_no_capability)
{
	struct buffer b = make_buffer(64);
	struct task k;

	make_task(&k, "test_identity", &b, 1, NULL, 0);
	k.t.uid = 0;
	k.t.gid = 0;
	ck_assert_int_eq(runner_run(runner, &k.t), 0);
	ck_assert_uint_eq(b.data[1], 0);
	ck_assert_uint_eq(b.data[5], 0);
	free_buffer(&b);
}
END_TEST

START_TEST(one_worker_a_uid)
{
	struct buffer b = make_buffer(64);
	struct task k;
	uint32_t first;

	for (int round = 0; round < 2; round++)
		for (uint32_t uid = 20000; uid < 20003; uid++) {
			make_task(&k, "test_identity", &b, 1, NULL, 0);
			k.t.uid = uid;
			ck_assert_int_eq(runner_run(runner, &k.t), 0);
			ck_assert_uint_eq(b.data[1], uid);
		}
	first = b.data[0];
	ck_assert_uint_eq(query().worker_starts, 3);
	ck_assert_uint_eq(query().workers, 3);
	/* Same uid, other gid: another worker. */
	k.t.gid = 777;
	ck_assert_int_eq(runner_run(runner, &k.t), 0);
	ck_assert_uint_ne(b.data[0], first);
	ck_assert_uint_eq(b.data[2], 777);
	free_buffer(&b);
}
END_TEST

/*
 * What a buffer holds decides which addresses such a kernel touches: in a worker that has the
 * buffers of two tenants one could read the other's.
 */
START_TEST(a_worker_is_of_one_tenant)
{
	struct buffer b = make_buffer(64);
	uint32_t pids[2];
	struct task k;

	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 2; i++) {
			make_task(&k, "test_identity", &b, 1, NULL, 0);
			k.t.tenant = 1 + i;
			ck_assert_int_eq(runner_run(runner, &k.t), 0);
			ck_assert(!round || b.data[0] == pids[i]);
			pids[i] = b.data[0];
		}
	ck_assert_uint_ne(pids[0], pids[1]);
	ck_assert_uint_eq(query().worker_starts, 2);
	free_buffer(&b);
}
END_TEST

/* worker.max: the one used longest ago makes room. */
START_TEST(number_of_workers_is_limited)
{
	struct buffer b = make_buffer(64);
	struct task k;

	config.worker.max = 2;
	open_runner_anew();
	for (uint32_t i = 0; i < 4; i++) {
		make_task(&k, "test_identity", &b, 1, NULL, 0);
		k.t.uid = 20000 + i;
		ck_assert_int_eq(runner_run(runner, &k.t), 0);
		ck_assert_uint_le(query().workers, 2);
	}
	k.t.uid = 20002;	/* is still there */
	ck_assert_int_eq(runner_run(runner, &k.t), 0);
	ck_assert_uint_eq(query().worker_starts, 4);
	free_buffer(&b);
}
END_TEST

struct caller {
	pthread_t thread;
	struct task k;
	int result;
	char why[REASON_LEN];
};

static void *call_runner(void *arg)
{
	struct caller *c = arg;

	c->result = runner_run(runner, &c->k.t);
	reason_take(c->why);
	return NULL;
}

/*
 * Where all are busy a launch waits for one, as long as it may.  Whether that was seen before the
 * one that is busy, for @ms, could have ended.
 */
static bool wait_for_a_worker(uint64_t ms)
{
	struct buffer b = make_buffer(64), out[6];
	struct caller hangs, waits[6];
	uint64_t start = now_ns();
	bool in_time, late;

	config.worker.max = 1;
	open_runner_anew();
	make_task(&hangs.k, "test_hang", &b, 1, NULL, 0);
	hangs.k.t.most_ns = ms * 1000000;
	ck_assert_int_eq(pthread_create(&hangs.thread, NULL, call_runner, &hangs), 0);
	while (!query().worker_starts)
		usleep(1000);
	for (uint32_t i = 0; i < 6; i++) {
		out[i] = make_buffer(64);
		make_task(&waits[i].k, "test_identity", &out[i], 1, NULL, 0);
		waits[i].k.t.uid = 20000 + i;
		/* The last one not until there is room. */
		waits[i].k.t.deadline_ns = i == 5 ? now_ns() + ms * 125000 : 0;
		ck_assert_int_eq(pthread_create(&waits[i].thread, NULL, call_runner, &waits[i]), 0);
	}
	for (int i = 0; i < 100; i++) {
		ck_assert_uint_le(query().workers, 1);
		usleep(1000);
	}
	pthread_join(waits[5].thread, NULL);
	ck_assert_int_eq(waits[5].result, -ETIMEDOUT);
	/* Whose deadline has passed before it begins does not ask for one. */
	late = !waits[5].why[0];
	ck_assert_msg(late || strstr(waits[5].why, "worker.max"), "%s", waits[5].why);
	in_time = query().worker_starts == 1 && !late;
	ck_assert(in_time || late || now_ns() - start >= ms * 1000000);
	pthread_join(hangs.thread, NULL);
	ck_assert_int_eq(hangs.result, -ETIMEDOUT);
	for (int i = 0; i < 5; i++) {
		pthread_join(waits[i].thread, NULL);
		ck_assert_int_eq(waits[i].result, 0);
		ck_assert_uint_ne(out[i].data[0], 0);
	}
	ck_assert_uint_eq(query().worker_starts, 6);
	ck_assert_uint_le(query().workers, 1);
	for (int i = 0; i < 6; i++)
		free_buffer(&out[i]);
	free_buffer(&b);
	return in_time;
}

START_TEST(launches_wait_for_a_worker)
{
	uint64_t ms = 400;

	while (!wait_for_a_worker(ms) && ms < 40000)
		ms *= 2;
	ck_assert_uint_lt(ms, 40000);
}
END_TEST

START_TEST(idle_workers_end)
{
	struct buffer b = make_buffer(64);
	bool was_there = false;

	/* Not before that; but who looks late may find it gone. */
	for (uint32_t s = 1; s <= 8 && !was_there; s *= 2) {
		config.worker.idle_s = s;
		open_runner_anew();
		ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
		was_there = query().workers == 1;
		ck_assert(comes_true(!query().workers, 100000));
	}
	ck_assert(was_there);
	free_buffer(&b);
}
END_TEST

/* Of a child of ours, whoever may have seen it. */
static bool is_dead(uint32_t pid)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

START_TEST(killed_while_idle)
{
	struct buffer b = make_buffer(64);

	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
	ck_assert_int_eq(kill((pid_t)b.data[0], SIGKILL), 0);
	ck_assert(comes_true(is_dead(b.data[0]), 1000));
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);	/* nobody notices */
	ck_assert_uint_eq(query().worker_starts, 2);
	free_buffer(&b);
}
END_TEST

/* How many of our buffers a worker has mapped. */
static int mapped(uint32_t pid)
{
	char path[64], line[512];
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		found += strstr(line, "memfd:buffer") != NULL;
	fclose(f);
	return found;
}

/* The memory of a dropped buffer must go, though the worker lives on. */
START_TEST(dropped_buffers_are_unmapped)
{
	struct buffer keep = make_buffer(64), b = make_buffer(64);
	int32_t zero = 0;

	ck_assert_int_eq(run("test_identity", &keep, 1, NULL, 0), 0);
	ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);
	ck_assert_int_eq(mapped(keep.data[0]), 2);
	runner_drop_buffer(runner, b.id);
	runner_drop_buffer(runner, keep.id);
	runner_drop_buffer(runner, 424242);	/* nobody has it */
	ck_assert(comes_true(!mapped(keep.data[0]), 10000));
	/* The id may come again with the same buffer. */
	ck_assert_int_eq(run("test_identity", &keep, 1, NULL, 0), 0);
	ck_assert_uint_eq(query().worker_starts, 1);
	free_buffer(&b);
	free_buffer(&keep);
}
END_TEST

START_TEST(many_drops_and_buffers)
{
	int32_t zero = 0;

	for (int i = 0; i < 2000; i++) {
		struct buffer b = make_buffer(64);

		ck_assert_int_eq(run("test_error_data", &b, 1, &zero, 4), 0);
		runner_drop_buffer(runner, b.id);
		free_buffer(&b);
	}
}
END_TEST

START_TEST(ranges_must_fit_their_buffers)
{
	static const struct { uint64_t offset, length; uint32_t stride, count; int err; } cases[] = {
		{ 0, PAGE, 0, 1, 0 },
		{ PAGE, 0, 0, 1, 0 },
		{ 0, PAGE + 1, 0, 1, -EINVAL },
		{ 1, PAGE, 0, 1, -EINVAL },
		{ PAGE + 1, 0, 0, 1, -EINVAL },
		{ UINT64_MAX, 2, 0, 1, -EINVAL },
		{ 0, UINT64_MAX, 1, 2, -EINVAL },
		{ 0, 1024, 1024, 4, 0 },
		{ 0, 1024, 1024, 5, -EINVAL },
		{ 0, 1, UINT32_MAX, UINT32_MAX, -EINVAL },
		{ 0, 1, 0, 0, -EINVAL },
	};
	struct buffer b = make_buffer(PAGE);
	int32_t zero = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct task k;

		make_task(&k, "test_error_data", &b, 1, &zero, 4);
		k.buffers[0].offset = cases[i].offset;
		k.ranges[0].length = cases[i].length;
		k.ranges[0].stride = cases[i].stride;
		k.ranges[0].count = cases[i].count;
		ck_assert_int_eq(runner_run(runner, &k.t), cases[i].err);
	}
	free_buffer(&b);
}
END_TEST

START_TEST(a_buffer_that_cannot_be_mapped)
{
	struct buffer b = make_buffer(64);
	int32_t zero = 0;
	struct task k;
	char path[32];

	make_task(&k, "test_error_data", &b, 1, &zero, 4);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", b.fd);
	k.buffers[0].fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(runner_run(runner, &k.t), -EACCES);
	close(k.buffers[0].fd);
	free_buffer(&b);
}
END_TEST

START_TEST(no_program)
{
	struct buffer b = make_buffer(64);

	log_max_level = 0;
	config.worker.program = strdup("/nonexistent/arax-worker");
	open_runner_anew();
	ck_assert_int_eq(run("test_crash", &b, 1, NULL, 0), -EAGAIN);
	assert_reason("worker.program");
	free(config.worker.program);
	config.worker.program = strdup("/bin/true");	/* does not say that it is ready */
	open_runner_anew();
	ck_assert_int_eq(run("test_crash", &b, 1, NULL, 0), -EAGAIN);
	assert_reason("ended as it started");
	free_buffer(&b);
}
END_TEST

/* Nor does its lane wait for it until it has run out of time. */
static void assert_not_started(const char *program, const char *reason)
{
	struct buffer b = make_buffer(64);
	char why[REASON_LEN];

	log_max_level = 0;
	config.worker.program = strdup(program);
	open_runner_anew();
	reason_forget();
	ck_assert_int_eq(run("test_crash", &b, 1, NULL, 0), -EAGAIN);
	reason_take(why);
	ck_assert_str_eq(why, reason);
	free_buffer(&b);
}

/* The child finds that out, and who has to mend it reads what is missing, and not a number alone. */
START_TEST(no_place_for_its_descriptors)
{
	struct buffer b = make_buffer(64);
	struct rlimit limit, less;

	log_max_level = 0;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	less = limit;
	less.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), -EAGAIN);
	assert_reason("can't be started: araxd may have too few descriptors: LimitNOFILE= of its unit, ulimit -n: Invalid argument");
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
	free_buffer(&b);
}
END_TEST

START_TEST(no_null)
{
	struct buffer b = make_buffer(64);

	log_max_level = 0;
	/* As araxd has one itself from its start on. */
	ck_assert_int_eq(child_reserve(), 0);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev", "tmpfs", 0, NULL)) {
		be_skip("no_null", "no file system can be mounted");
		free_buffer(&b);
		return;
	}
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), -EAGAIN);
	assert_reason("can't be started: there is no /dev/null: No such file or directory");
	free_buffer(&b);
}
END_TEST

/* They were there when the device was made. */
START_TEST(no_cpu)
{
	struct buffer b = make_buffer(64);
	cpu_set_t cpus = runner->options.cpus;

	log_max_level = 0;
	CPU_ZERO(&runner->options.cpus);
	CPU_SET(CPU_SETSIZE - 1, &runner->options.cpus);
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), -EAGAIN);
	assert_reason("can't be started: araxd may use none of its device's CPUs: cpu.groups, AllowedCPUs= of its unit: Invalid argument");
	runner->options.cpus = cpus;
	ck_assert_int_eq(run("test_identity", &b, 1, NULL, 0), 0);
	free_buffer(&b);
}
END_TEST

START_TEST(no_program_can_be_executed)
{
#define CANT_BE	"the process for the kernel can't be started: the file that is worker.program can't be executed: "
	char folder[UNIT_TMP_LEN], path[UNIT_TMP_LEN + 8];

	be_mkdir(folder);
	be_write(folder, "worker", "no program");
	snprintf(path, sizeof(path), "%s/worker", folder);
	assert_not_started(path, CANT_BE "Permission denied (step 10)");
	ck_assert_int_eq(chmod(path, 0755), 0);
	free(config.worker.program);
	assert_not_started(path, CANT_BE "Exec format error (step 10)");
	/* Its interpreter would have to open it anew, where there is nothing. */
	be_write(folder, "worker", "#!/bin/sh\n");
	ck_assert_int_eq(chmod(path, 0755), 0);
	free(config.worker.program);
	assert_not_started(path, CANT_BE "No such file or directory (step 10)");
	be_rmdir(folder);
}
END_TEST

START_TEST(stopped_as_it_starts)
{
	assert_not_started("build/test/worker-stops",
			   "the process for the kernel was stopped by somebody as it started");
}
END_TEST

/* Somebody has to wait for its end, which comes when who traces it has gone. */
START_TEST(traced_as_it_starts)
{
	siginfo_t info;

	assert_not_started("build/test/worker-traced",
			   "the process for the kernel was stopped by somebody as it started");
	ck_assert_int_eq(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	ck_assert(comes_true(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), 10000));
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* A child of @parent that is not this process, or 0. */
static pid_t other_child(pid_t parent)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (proc && !found && (e = readdir(proc))) {
		char path[300], text[512];
		int ppid;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		if (fgets(text, sizeof(text), f) && strstr(text, "(worker-stops)") &&
		    sscanf(strrchr(text, ')'), ") %*c %d", &ppid) == 1 && ppid == parent)
			found = atoi(e->d_name);
		fclose(f);
	}
	if (proc)
		closedir(proc);
	return found;
}

/* From outside: with the first process of its namespace all go that are within. */
static pid_t begin_tracer(void)
{
	pid_t parent = getpid(), pid = fork(), worker;

	if (pid)
		return pid;
	while (!(worker = other_child(parent)))
		;
	ptrace(PTRACE_SEIZE, worker, NULL, NULL);
	for (;;)
		pause();
}

static bool has_child(void)
{
	siginfo_t info = { 0 };

	return !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
}

/* Nor is the compiler's forgotten, which nobody else would reap. */
START_TEST(traced_as_it_builds)
{
	struct task k;
	uint64_t bytes;
	bool lingers = false;
	int built, err;
	pid_t tracer;

	log_max_level = 0;
	config.worker.program = strdup("build/test/worker-stops");
	open_runner_anew();
	/* As one of OpenCL's has it. */
	runner->options.device.name = "none";
	make_task(&k, "test_crash", NULL, 0, NULL, 0);
	/* Who traces it may come too late. */
	for (int i = 0; i < 50 && !lingers; i++) {
		tracer = begin_tracer();
		err = runner_build(runner, &k.t, &built, &bytes);
		ck_assert_int_lt(err, 0);
		if (err != -EAGAIN)
			be_skip("traced_as_it_builds", "no namespaces");
		kill(tracer, SIGKILL);
		ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
		if (err != -EAGAIN)
			return;
		lingers = has_child();
	}
	ck_assert(lingers);
	ck_assert(comes_true(!has_child(), 10000));
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(gone_as_it_starts)
{
	assert_not_started("build/test/worker-leaves",
			   "the process for the kernel ended as it started: it may have too little memory (worker.memory)");
}
END_TEST

/* ------------------------------------------------------------------ */

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_cond = PTHREAD_COND_INITIALIZER;
static unsigned int nr_done;

static void on_done(struct runner_task *t)
{
	pthread_mutex_lock(&done_lock);
	nr_done++;
	pthread_cond_signal(&done_cond);
	pthread_mutex_unlock(&done_lock);
}

static void await_done(unsigned int n)
{
	pthread_mutex_lock(&done_lock);
	while (nr_done < n)
		pthread_cond_wait(&done_cond, &done_lock);
	pthread_mutex_unlock(&done_lock);
}

#define MANY 200u

START_TEST(lanes_run_what_is_submitted)
{
	static struct task k[MANY];
	struct buffer b = make_buffer(64);
	uint32_t us = 50;
	int32_t zero = 0;

	nr_done = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		if (i % 2)
			make_task(&k[i], "spin", &b, 1, &us, 4);
		else
			make_task(&k[i], i % 4 ? "test_groups" : "test_error_data", &b, 1,
				  i % 4 ? NULL : &zero, i % 4 ? 0 : 4);
		k[i].t.done = on_done;
		runner_submit(runner, &k[i].t);
	}
	await_done(MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(k[i].t.result, 0);
		if (i % 2)
			ck_assert_uint_ge(k[i].t.device_ns, 50000);
	}
	ck_assert_uint_eq(b.data[0], MANY / 4);
	free_buffer(&b);
}
END_TEST

START_TEST(awake_for_three_wake_ups)
{
	const uint32_t wake = 10000;
	uint64_t since = 1000;

	ck_assert(await_on(1000, 1000, &since, wake, false));
	ck_assert(await_on(30999, 1000, &since, wake, false));
	ck_assert(!await_on(31000, 1000, &since, wake, false));
	/* As long as others run, and so long afterwards. */
	ck_assert(await_on(31000, 1000, &since, wake, true));
	ck_assert(await_on(900000, 1000, &since, wake, true));
	ck_assert(await_on(929999, 1000, &since, wake, false));
	ck_assert(!await_on(930000, 1000, &since, wake, false));
	/* Not for ever. */
	ck_assert(await_on(1000999, 1000, &since, wake, true));
	ck_assert(!await_on(1031000, 1000, &since, wake, true));
}
END_TEST

START_TEST(waking_is_learnt)
{
	uint32_t wake = 25000;
	int i;

	for (i = 0; i < 100; i++)
		wake = await_learn(wake, i % 3 ? 40000 : 3000000);
	ck_assert_uint_ge(wake, 36000);
	ck_assert_uint_le(wake, 45000);
	for (i = 0; i < 100; i++)
		wake = await_learn(wake, UINT64_MAX);
	ck_assert_uint_ge(wake, AWAIT_WAKE_MOST_NS - AWAIT_WAKE_MOST_NS / 8);
	ck_assert_uint_le(wake, AWAIT_WAKE_MOST_NS);
	for (i = 0; i < 100; i++)
		wake = await_learn(wake, 0);
	ck_assert_uint_eq(wake, 5000);
}
END_TEST

START_TEST(crowds_are_seen)
{
	ck_assert(!crowd_in("0.00 0.00 0.00 1/80 11206\n", 1));
	ck_assert(!crowd_in("11.31 11.42 11.04 2/156 19277\n", 2));
	ck_assert(crowd_in("0.00 0.00 0.00 3/156 19277\n", 2));
	/* Who can't tell. */
	ck_assert(crowd_in("", 2));
	ck_assert(crowd_in("0.00 0.00", 2));
	ck_assert(crowd_in("0.00 0.00 0.00 x/156 19277\n", 2));
}
END_TEST

/* A core's lane, whatever it waits for awake. */
START_TEST(a_core_sleeps_in_the_end)
{
	static uint32_t more = 1;
	struct buffer b = make_buffer(64);
	struct task k;
	int i;

	teardown();
	setup_with("cpu { groups = { \"0\" } }");
	runner_expects(runner, &more);
	for (i = 1; i <= 21; i++) {
		nr_done = 0;
		make_task(&k, "test_groups", &b, 1, NULL, 0);
		k.t.done = on_done;
		runner_submit(runner, &k.t);
		await_done(1);
		ck_assert_uint_eq(b.data[0], i);
		/* Every other one finds it asleep, and has to wake it. */
		while (i % 2 && !runner_hand_over_ns(runner, 1))
			sched_yield();
	}
	ck_assert_uint_ge(runner_hand_over_ns(runner, 1), 5000);
	ck_assert_uint_le(runner_hand_over_ns(runner, 1), AWAIT_WAKE_MOST_NS);
	free_buffer(&b);
}
END_TEST

static _Atomic bool lane_ended;

static void on_lane_ended(struct runner_task *t)
{
	lane_ended = true;
}

/* Not whether any is, but whether one that could have the next task. */
START_TEST(which_lanes_are_awake)
{
	struct runner_task t;

	teardown();
	setup_with("cpu { enable = false } backend \"sim\" { options = { \"lanes=2\" } }");
	ck_assert_uint_eq(runner->nr_lanes, 2);
	for (int i = 0; i < 1000; i++) {
		lane_ended = false;
		t = (struct runner_task){ .flags = RUNNER_ENTER_ONLY, .lane = 1, .done = on_lane_ended };
		runner_submit(runner, &t);
		while (!lane_ended)
			sched_yield();
		/* On a busy machine it sleeps before anybody can see it awake. */
		for (int n = 0; n < 100; n++)
			ck_assert_uint_eq(runner_awake(runner) & ~2ull, 0);
	}
	while (runner_awake(runner))
		sched_yield();
	ck_assert_uint_ge(runner_hand_over_ns(runner, ~0ull), 5000);
	runner->awake = 2;
	ck_assert_uint_eq(runner_hand_over_ns(runner, ~0ull), 0);
	ck_assert_uint_eq(runner_hand_over_ns(runner, 2), 0);
	ck_assert_uint_ge(runner_hand_over_ns(runner, 1), 5000);
	ck_assert_uint_ge(runner_hand_over_ns(runner, ~2ull), 5000);
}
END_TEST

static int entered, left;

static int refuse(struct runner_task *t)
{
	(void)t;
	return -ENOMEM;
}

static int note_enter(struct runner_task *t)
{
	entered++;
	usleep(2000);
	return t->deadline_ns ? -EIO : 0;
}

static int note_leave(struct runner_task *t, int result)
{
	left++;
	return result ? result : -EFBIG;
}

START_TEST(lanes_enter_and_leave)
{
	struct buffer b = make_buffer(64);
	uint32_t us = 1000;
	struct task k;

	nr_done = entered = left = 0;
	make_task(&k, "spin", &b, 1, &us, 4);
	k.t.done = on_done;
	k.t.enter = refuse;
	k.t.leave = note_leave;
	runner_submit(runner, &k.t);
	await_done(1);
	ck_assert_int_eq(k.t.result, -ENOMEM);
	ck_assert_int_eq(left, 0);
	k.t.enter = note_enter;
	runner_submit(runner, &k.t);
	await_done(2);
	ck_assert_int_eq(entered, 1);
	ck_assert_int_eq(left, 1);
	ck_assert_int_eq(k.t.result, -EFBIG);
	ck_assert_uint_ge(k.t.device_ns, 1000000);
	ck_assert_uint_ge(k.t.hold_ns, k.t.device_ns + 2000000);
	free_buffer(&b);
}
END_TEST

static atomic_bool crowded;

static void *burn(void *arg)
{
	while (crowded)
		;
	return NULL;
}

/* One run of @us, as one that is thought to take @short_ns. */
static bool loses_cpu(uint64_t short_ns, uint32_t us, struct buffer *b)
{
	struct task k;

	make_task(&k, "spin", b, 1, &us, 4);
	k.t.done = on_done;
	k.t.short_ns = short_ns;
	nr_done = 0;
	runner_submit(runner, &k.t);
	await_done(1);
	ck_assert_int_eq(k.t.result, 0);
	return k.t.lost_cpu;
}

/* It says so of what was thought to be short, and of nothing else. */
START_TEST(a_short_one_loses_its_cpu)
{
	struct buffer b = make_buffer(64);
	pthread_t t[64];
	long i, n = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t us = 5000;

	n = n < 64 ? n : 64;
	crowded = true;
	for (i = 0; i < n; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, burn, NULL), 0);
	/*
	 * Long enough to lose it, and over soon enough all the same: how long that is depends on
	 * who else computes here.
	 */
	while (!loses_cpu(5000, us, &b))
		us = us > 200 ? us / 2 : 5000;
	for (i = 0; i < 5; i++) {
		ck_assert(!loses_cpu(0, 5000, &b));
		ck_assert(!loses_cpu(60000000000, 5000, &b));
	}
	crowded = false;
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	/* Nor where nobody takes it away, sooner or later. */
	while (loses_cpu(5000, 5000, &b))
		;
	free_buffer(&b);
}
END_TEST

static void setup_filters(void)
{
	setup_with("filter \"stats\" { } filter \"error\" { options = { \"errno=ENOSPC\", \"every=3\" } }");
}

/* Launches in workers and in this process alike; what a filter fails does not come to a worker. */
START_TEST(filters_see_workers)
{
	static const char *const names[] = { "test_error", "test_error_data" };
	struct buffer b = make_buffer(8);
	char says[64], *text;
	int32_t result = -ENXIO;

	ck_assert(runner_needs_worker(runner, registry_find(registry, names[1])));
	ck_assert(!runner_needs_worker(runner, registry_find(registry, names[0])));
	for (int i = 1; i <= 12; i++)
		ck_assert_int_eq(run(names[i % 2], &b, 1, &result, sizeof(result)),
				 i % 3 ? -ENXIO : -ENOSPC);
	ck_assert_uint_eq(query().worker_runs, 4);
	text = devices_dump(devices);
	ck_assert_ptr_nonnull(text);
	for (int i = 0; i < 2; i++) {
		snprintf(says, sizeof(says), "\"%s\": {\"count\": 6, \"errors\": 6", names[i]);
		ck_assert_msg(strstr(text, says), "%s", text);
	}
	free(text);
	free_buffer(&b);
}
END_TEST

static void setup_own_memory(void)
{
	setup_with("cpu { memory = \"1M\" }");
}

/* What follows a client's addresses has no place in this process. */
START_TEST(no_worker_for_own_memory)
{
	struct buffer b = make_buffer(64);

	ck_assert_int_eq(runner_prepare(runner, registry_find(registry, "test_groups")), 0);
	ck_assert_int_eq(runner_prepare(runner, registry_find(registry, "test_groups_data")),
			 -EOPNOTSUPP);
	ck_assert_int_eq(run("test_groups_data", &b, 1, NULL, 0), -EOPNOTSUPP);
	free_buffer(&b);
}
END_TEST

static atomic_bool has_begun;

static int tell_begin(struct runner_task *t)
{
	has_begun = true;
	return 0;
}

START_TEST(destroy_cancels_what_is_queued)
{
	static struct task k[8];
	struct buffer b = make_buffer(64);
	/* Whoever is late sees the first ones after it begin, at most. */
	uint32_t us = 100000, long_us = 2000000;
	int canceled = 0;

	nr_done = 0;
	for (uint32_t i = 0; i < 8; i++) {
		make_task(&k[i], "spin", &b, 1, i ? &long_us : &us, 4);
		k[i].t.done = on_done;
		k[i].t.enter = i ? NULL : tell_begin;
		runner_submit(runner, &k[i].t);
	}
	while (!has_begun)
		usleep(1000);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_uint_eq(nr_done, 8);
	for (uint32_t i = 0; i < 8; i++)
		canceled += k[i].t.result == -ECANCELED;
	ck_assert_int_ge(canceled, 5);
	ck_assert_int_eq(k[0].t.result, 0);
	free_buffer(&b);
}
END_TEST

/* Kill a worker, and only a child of ours: numbers are used again. */
static void kill_child(uint32_t pid)
{
	siginfo_t info;

	if (!waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT))
		kill((pid_t)pid, SIGKILL);
}

/* Workers killed at any moment, beside launches: every answer is a right one. */
static _Atomic int storm_over;

static void *killer(void *arg)
{
	uint32_t *word = arg, pid;

	while (!storm_over) {
		pid = __atomic_exchange_n(word, 0, __ATOMIC_RELAXED);
		if (pid)
			kill_child(pid);
		usleep(3000);
	}
	return NULL;
}

START_TEST(kill_storm)
{
	struct buffer b = make_buffer(64);
	int ok = 0, lost = 0, before = log_max_level;
	pthread_t thread;

	log_max_level = 0;
	storm_over = 0;
	ck_assert_int_eq(pthread_create(&thread, NULL, killer, b.data), 0);
	for (int i = 0; i < 1000; i++) {
		int err = run("test_identity", &b, 1, NULL, 0);

		ck_assert_msg(!err || err == -EIO, "%d", err);
		ok += !err;
		lost += err != 0;
	}
	storm_over = 1;
	pthread_join(thread, NULL);
	log_max_level = before;
	ck_assert_int_gt(ok, 0);
	ck_assert_uint_gt(query().worker_starts, 1);
	free_buffer(&b);
}
END_TEST

/* Split launches visit every group once, here and in a worker. */
static void setup_wide(void)
{
	setup_with("cpu { groups = { \"0-1\" } }");
}

/* The memory that a worker may have is for what it runs: its threads' stacks come on top. */
START_TEST(stacks_do_not_count)
{
	struct buffer b = make_buffer(4096);
	struct task k;

	config.worker.memory = 6 << 20;		/* less than one stack */
	open_runner_anew();
	make_task(&k, "test_groups_data", &b, 1, NULL, 0);
	ck_assert_int_eq(runner_run(runner, &k.t), 0);
	ck_assert_uint_eq(b.data[0], 1);
	free_buffer(&b);
}
END_TEST

START_TEST(no_threads_for_a_worker)
{
	const struct rlimit one = { 1, 1 };
	struct buffer b = make_buffer(4096);
	struct task k;

	log_max_level = 0;
	make_task(&k, "test_groups_data", &b, 1, NULL, 0);
	k.t.uid = 23456;			/* who has no other process */
	ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &one), 0);
	reason_forget();
	ck_assert_int_eq(runner_run(runner, &k.t), -EAGAIN);
	assert_reason("worker.threads");
	free_buffer(&b);
}
END_TEST

START_TEST(split_visits_each_group_once)
{
	static const char *const names[] = { "test_groups", "test_groups_data" };
	uint32_t groups[] = { 1, 2, 7, 8, 1000, 4096 };
	struct buffer b = make_buffer(4096 * sizeof(uint32_t));

	for (int rounds = 0; rounds < 200; rounds++) {
		uint32_t n = groups[rounds % 6];
		struct task k;

		memset(b.data, 0, b.bytes);
		make_task(&k, names[_i], &b, 1, NULL, 0);
		k.t.launch.grid[0] = n;
		k.t.launch.group_end = n;
		if (rounds % 12 == 11)
			k.t.flags = RUNNER_INLINE;
		ck_assert_int_eq(runner_run(runner, &k.t), 0);
		for (uint32_t i = 0; i < 4096; i++)
			ck_assert_uint_eq(b.data[i], i < n);
	}
	free_buffer(&b);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("runner");
	TCase *t = tcase_create("one core"), *wide = tcase_create("two cores");
	TCase *own = tcase_create("own memory"), *filtered = tcase_create("filters");

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, runs_here);
	tcase_add_test(t, passes_errors_on);
	tcase_add_test(t, missing_symbol);
	tcase_add_test(t, gathers_in_a_worker);
	tcase_add_test(t, wild_index_hits_the_worker_alone);
	tcase_add_test(t, work_is_bounded);
	tcase_add_test(t, no_transform_in_place);
	tcase_add_test(t, crash_and_exit_differ);
	tcase_add_test(t, crashes_are_a_line_a_second);
	tcase_add_test(t, deadline_ends_a_hang);
	tcase_add_test(t, timeout_ends_a_hang);
	tcase_add_test(t, waking_never_waits);
	tcase_add_test(t, nothing_comes_from_kernels);
	tcase_add_test(t, what_it_is_told_takes_its_time);
	tcase_add_loop_test(t, ends_as_it_is_told, 0, sizeof(ends) / sizeof(ends[0]));
	tcase_add_test(t, late_tasks_do_not_start);
	tcase_add_test(t, worker_has_the_tenants_rights_only);
	tcase_add_loop_test(t, worker_is_not_spared, 0, sizeof(scores) / sizeof(scores[0]));
	if (geteuid() == 0) {
		tcase_add_test(t, root_tenant_has_no_capability);
		tcase_add_test(t, one_worker_a_uid);
		tcase_add_test(t, a_worker_is_of_one_tenant);
		tcase_add_test(t, number_of_workers_is_limited);
		tcase_add_test(t, dropped_buffers_are_unmapped);
	} else {
		be_skip("dropped_buffers_are_unmapped", "not root: a worker's maps can't be read");
		be_skip("root_tenant_has_no_capability", "not root: workers have our uid");
		be_skip("one_worker_a_uid", "not root: workers have our uid");
		be_skip("number_of_workers_is_limited", "not root: workers have our uid");
	}
	tcase_add_test(t, launches_wait_for_a_worker);
	tcase_add_test(t, idle_workers_end);
	tcase_add_test(t, killed_while_idle);
	tcase_add_test(t, many_drops_and_buffers);
	tcase_add_test(t, ranges_must_fit_their_buffers);
	tcase_add_test(t, a_buffer_that_cannot_be_mapped);
	tcase_add_test(t, no_program);
	tcase_add_test(t, no_place_for_its_descriptors);
	tcase_add_test(t, no_null);
	tcase_add_test(t, no_cpu);
	tcase_add_test(t, no_program_can_be_executed);
	tcase_add_test(t, stopped_as_it_starts);
	tcase_add_test(t, traced_as_it_starts);
	tcase_add_test(t, traced_as_it_builds);
	tcase_add_test(t, gone_as_it_starts);
	tcase_add_test(t, lanes_run_what_is_submitted);
	tcase_add_test(t, awake_for_three_wake_ups);
	tcase_add_test(t, waking_is_learnt);
	tcase_add_test(t, crowds_are_seen);
	tcase_add_test(t, a_core_sleeps_in_the_end);
	tcase_add_test(t, which_lanes_are_awake);
	tcase_add_test(t, lanes_enter_and_leave);
	tcase_add_test(t, a_short_one_loses_its_cpu);
	tcase_add_test(t, destroy_cancels_what_is_queued);
	tcase_add_test(t, kill_storm);
	suite_add_tcase(suite, t);

	tcase_set_timeout(wide, 60);
	tcase_add_checked_fixture(wide, setup_wide, teardown);
	tcase_add_loop_test(wide, split_visits_each_group_once, 0, 2);
	tcase_add_test(wide, stacks_do_not_count);
	if (geteuid() == 0)
		tcase_add_test(wide, no_threads_for_a_worker);
	else
		be_skip("no_threads_for_a_worker", "not root: workers have our uid");
	suite_add_tcase(suite, wide);

	tcase_add_checked_fixture(own, setup_own_memory, teardown);
	tcase_add_test(own, no_worker_for_own_memory);
	suite_add_tcase(suite, own);

	tcase_set_timeout(filtered, 60);
	tcase_add_checked_fixture(filtered, setup_filters, teardown);
	tcase_add_test(filtered, filters_see_workers);
	suite_add_tcase(suite, filtered);
	return be_main(suite);
}
