// SPDX-License-Identifier: MIT
/*
 * Workers that can't be killed.  Who hangs in the kernel is to araxd as who is traced and stopped as it
 * ends: it has had its SIGKILL, and there is no end to see.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "daemon/reason.h"
#include "daemon/worker/inside.h"
#include "selftests/unit/be_runner.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/be_tracer.h"
#include "selftests/unit/wait.h"

#define SOME	6u	/* not as many as it takes for a user to have no more */
#define S	1000000000ull

struct task {
	struct runner_task t;
	struct arax_launch_range range;
	struct runner_buffer buffer;
};

static void make_task(struct task *k, const char *name, const struct buffer *b, uint64_t tenant)
{
	memset(k, 0, sizeof(*k));
	fill_task(&k->t, name, b, 1, &k->range, &k->buffer);
	k->t.tenant = tenant;
}

/* A worker for each tenant: its process, or an error. */
static pid_t worker_of(uint64_t tenant, uint32_t uid)
{
	struct buffer b = make_buffer(64);
	struct task k;
	pid_t pid;

	make_task(&k, "test_identity", &b, tenant);
	k.t.uid = uid;
	pid = runner_run(runner, &k.t);
	if (!pid)
		pid = (pid_t)b.data[0];
	runner_drop_buffer(runner, b.id);
	free_buffer(&b);
	return pid;
}

static void setup_with(const char *text)
{
	open_device(text, 0);
	open_runner();
}

static void setup(void)
{
	setup_with("worker { max = 32 }");
}

#define PLACES	2u
#define MOST	(2 * PLACES)

static void setup_few(void)
{
	setup_with("worker { max = 2 }");
}

static pid_t make_hanging(uint32_t n)
{
	pid_t pids[SOME], tracer;

	ck_assert_uint_le(n, SOME);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_gt(pids[i] = worker_of(i + 1, TENANT), 0);
	tracer = begin_tracer(pids, n);
	ck_assert_int_gt(tracer, 0);
	return tracer;
}

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

/* All idle ones, but that one's. */
static void give_up_but(pid_t but, uint64_t tenant)
{
	pthread_mutex_lock(&runner->lock);
	for (struct worker *w = runner->workers; w; w = worker_link(w)->next)
		if (!but || worker_key(w)->tenant != tenant)
			worker_set_stale(w);
	pthread_cond_signal(&runner->keep);
	pthread_mutex_unlock(&runner->lock);
}

/* It has been told to unmap a buffer, and never seems to come to an end with that. */
static void keep_awake(uint64_t tenant)
{
	pthread_mutex_lock(&runner->lock);
	for (struct worker *w = runner->workers; w; w = worker_link(w)->next) {
		if (worker_key(w)->tenant != tenant)
			continue;
		worker_link(w)->awake = true;
		worker_link(w)->awake_looks = 0;
		worker_link(w)->woken_ns = worker_cpu_ns(w);
		worker_link(w)->unpaid_ns = 0;
		worker_link(w)->last_used_ns = now_ns();
	}
	pthread_cond_signal(&runner->keep);
	pthread_mutex_unlock(&runner->lock);
}

static int descriptors_beside_awake(uint64_t tenant)
{
	keep_awake(tenant);
	return descriptors();
}

/* Some worker may always be awake: that is no reason to keep what others have. */
START_TEST(holds_nothing_while_others_are_awake)
{
	const uint64_t other = SOME + 1;
	struct buffer b = make_buffer(64);
	struct task k;
	pid_t tracer, pid;
	int beside;

	pid = worker_of(other, TENANT);
	ck_assert_int_gt(pid, 0);
	beside = descriptors();
	make_task(&k, "test_identity", &b, other);
	ck_assert_int_eq(runner_run(runner, &k.t), 0);
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	runner_drop_buffer(runner, b.id);
	tracer = make_hanging(SOME);
	ck_assert_int_gt(descriptors(), beside);
	keep_awake(other);
	give_up_but(pid, other);
	/* Of what it hangs with nothing is left here. */
	ck_assert(comes_true(descriptors_beside_awake(other) <= beside, 1000));
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	end_tracer(tracer);
	free_buffer(&b);
}
END_TEST

/* Nobody is behind all of them, as if each were the only one. */
START_TEST(all_are_waited_for_at_once)
{
	const uint64_t other = SOME + 1;
	pid_t pid = worker_of(other, TENANT), tracer;
	int beside = descriptors();
	uint64_t start;

	tracer = make_hanging(SOME);
	start = now_ns();
	give_up_but(pid, other);
	ck_assert(comes_true(descriptors() <= beside, 1000));
	ck_assert_uint_lt(now_ns() - start, SOME * 2 * S - S);
	end_tracer(tracer);
}
END_TEST

START_TEST(another_one_goes_meanwhile)
{
	siginfo_t info;
	uint64_t start;
	pid_t tracer, pid;

	tracer = make_hanging(SOME);
	pid = worker_of(SOME + 1, TENANT);
	ck_assert_int_gt(pid, 0);
	start = now_ns();
	give_up_but(pid, SOME + 1);
	usleep(100000);
	give_up_but(0, 0);
	ck_assert(comes_true(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 1000));
	/* It came after them, and is not behind them. */
	ck_assert_uint_lt(now_ns() - start, SOME * S);
	end_tracer(tracer);
}
END_TEST

START_TEST(nor_are_they_at_the_end)
{
	pid_t tracer = make_hanging(SOME);
	uint64_t start = now_ns();

	runner_destroy(runner);
	runner = NULL;
	ck_assert_uint_lt(now_ns() - start, SOME * 2 * S - S);
	end_tracer(tracer);
}
END_TEST

/* Each has so many; nor is one runner behind another. */
START_TEST(nor_at_the_end_of_several)
{
	struct runner *all[3] = { runner };
	pid_t pids[3], tracer;
	uint64_t start;

	for (uint32_t i = 0; i < 3; i++) {
		if (i)
			ck_assert_int_eq(runner_create(devices_at(devices, 0), registry, &config,
						       &all[i]), 0);
		runner = all[i];
		ck_assert_int_gt(pids[i] = worker_of(1, TENANT), 0);
	}
	tracer = begin_tracer(pids, 3);
	ck_assert_int_gt(tracer, 0);
	start = now_ns();
	for (uint32_t i = 0; i < 3; i++)
		runner_stop(all[i]);
	for (uint32_t i = 0; i < 3; i++)
		runner_destroy(all[i]);
	runner = NULL;
	ck_assert_uint_lt(now_ns() - start, 3 * 2 * S - S);
	end_tracer(tracer);
}
END_TEST

/* Its task has its result, and others' come next, though nobody knows of its end. */
START_TEST(no_lane_waits_for_it)
{
	struct buffer b = make_buffer(64);
	pid_t tracer = make_hanging(1);
	struct runner_stats stats;
	struct task k;
	uint64_t end;

	make_task(&k, "test_hang", &b, 1);
	end = now_ns() + S / 10;
	k.t.deadline_ns = end;
	ck_assert_int_eq(runner_run(runner, &k.t), -ETIMEDOUT);
	ck_assert_uint_lt(now_ns() - end, S);
	runner_query(runner, &stats);
	ck_assert_uint_eq(stats.worker_starts, 1);
	ck_assert_int_gt(worker_of(2, TENANT + 1), 0);
	ck_assert_uint_lt(now_ns() - end, 2 * S);
	end_tracer(tracer);
	runner_drop_buffer(runner, b.id);
	free_buffer(&b);
}
END_TEST

static bool has_worker(uint64_t tenant)
{
	return worker_of(tenant, TENANT) > 0;
}

/* Each makes way for the next one, which is started then, and does not end. */
START_TEST(one_user_has_so_many)
{
	pid_t tracers[MOST + PLACES], pid;
	struct buffer b = make_buffer(64);
	char why[REASON_LEN];
	struct task k;
	uint64_t bytes;
	int built;

	for (uint32_t i = 0; i < MOST + PLACES; i++) {
		pid = worker_of(i + 1, TENANT);
		ck_assert_int_gt(pid, 0);
		tracers[i] = begin_tracer(&pid, 1);
		ck_assert_int_gt(tracers[i], 0);
	}
	for (int i = 0; i < 3; i++) {
		reason_forget();
		ck_assert_int_eq(worker_of(MOST + PLACES + 1, TENANT), -EAGAIN);
		reason_take(why);
		ck_assert_msg(strstr(why, "4 of this user's on "), "%s", why);
		ck_assert_ptr_nonnull(strstr(why, "(twice worker.max) were killed and have not ended"));
		/* Past their time as well. */
		usleep(1500000);
	}
	/* Nor a compiler, which runs as nobody. */
	make_task(&k, "test_identity", &b, 1);
	reason_forget();
	ck_assert_int_eq(runner_build(runner, &k.t, &built, &bytes), -EAGAIN);
	reason_take(why);
	ck_assert_msg(strstr(why, "4 of this user's on "), "%s", why);
	/* Those that are there go on, and others have theirs. */
	ck_assert_int_gt(worker_of(MOST + PLACES, TENANT), 0);
	ck_assert_int_gt(worker_of(1, TENANT + 1), 0);
	for (uint32_t i = 0; i < MOST + PLACES; i++)
		end_tracer(tracers[i]);
	ck_assert(comes_true(has_worker(MOST + PLACES + 1), 1000));
	free_buffer(&b);
}
END_TEST

#define TURNS	100

static void setup_one(void)
{
	setup_with("worker { max = 1 }");
}

/* Each worker makes way for the next one, and takes a moment to end, as all do. */
START_TEST(who_takes_a_moment_does_not_hang)
{
	uint32_t refused = 0;

	for (uint64_t i = 0; i < TURNS; i++)
		refused += worker_of(i % 5 + 1, TENANT) < 0;
	/* A busy machine may keep some from ending for longer. */
	ck_assert_uint_le(refused, TURNS / 10);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("workers that can't be killed");
	TCase *t = tcase_create("hang"), *few = tcase_create("few"), *one = tcase_create("one");

	if (geteuid()) {
		be_skip("hang", "not root: a worker can't be traced");
		return be_main(suite);
	}
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, close_runner);
	tcase_add_test(t, holds_nothing_while_others_are_awake);
	tcase_add_test(t, all_are_waited_for_at_once);
	tcase_add_test(t, another_one_goes_meanwhile);
	tcase_add_test(t, nor_are_they_at_the_end);
	tcase_add_test(t, nor_at_the_end_of_several);
	tcase_add_test(t, no_lane_waits_for_it);
	suite_add_tcase(suite, t);
	tcase_set_timeout(few, 120);
	tcase_add_checked_fixture(few, setup_few, close_runner);
	tcase_add_test(few, one_user_has_so_many);
	suite_add_tcase(suite, few);
	tcase_set_timeout(one, 120);
	tcase_add_checked_fixture(one, setup_one, close_runner);
	tcase_add_test(one, who_takes_a_moment_does_not_hang);
	suite_add_tcase(suite, one);
	return be_main(suite);
}
