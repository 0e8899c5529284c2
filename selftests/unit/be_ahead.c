// SPDX-License-Identifier: MIT
/* A runner's lane on a device that takes several launches at once. */
#include <errno.h>
#include <pthread.h>

#include "daemon/backends/device.h"
#include "daemon/kernels/registry.h"
#include "daemon/log.h"
#include "daemon/worker/runner.h"
#include "selftests/unit/be_test.h"

#define MANY	400u
#define WORDS	16u

static struct config config;
static struct devices *devices;
static struct registry *registry;
static struct runner *runner;

/* @fails: how often its @enter can't wait */
struct task {
	struct runner_task t;
	struct arax_launch_range range;
	int32_t arg;
	uint32_t number, fails, entered, left;
};

static struct task tasks[MANY];
static uint32_t words[WORDS];
static uint32_t under_way, most;	/* entered and not left; the lane's thread's */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static uint32_t order[MANY], nr_done;

static void setup_with(const char *more_text)
{
	char error[256], text[4300], here[4096];

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "cpu { enable = false } backend \"queued\" { file = \"%s/build/test/plugins/queued.so\" } %s",
		 here, more_text);

	ck_assert_msg(config_parse(&config, "test", text, strlen(text), error, sizeof(error)) == 0,
		      "%s", error);
	log_max_level = LOG_LEVEL_WARNING;
	ck_assert_int_eq(devices_open(&config, &devices), 0);
	registry = registry_create();
	ck_assert_int_eq(registry_load_folder(registry, "build/test/kernels"), 12);
	ck_assert_int_eq(runner_create(devices_at(devices, 0), registry, &config, &runner), 0);
	memset(tasks, 0, sizeof(tasks));
	memset(words, 0, sizeof(words));
	nr_done = under_way = most = 0;
}

static void setup(void)
{
	setup_with("");
}

static void teardown(void)
{
	runner_destroy(runner);
	registry_destroy(registry);
	devices_close(devices);
	config_free(&config);
}

static void done(struct runner_task *rt)
{
	pthread_mutex_lock(&lock);
	order[nr_done++] = ((struct task *)rt)->number;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
}

static void await_done(uint32_t n)
{
	pthread_mutex_lock(&lock);
	while (nr_done < n)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}

/* test_error(inout u32 x[], i32 result): returns it */
static struct task *task(uint32_t i, int32_t result)
{
	struct task *k = &tasks[i];

	*k = (struct task){ .arg = result, .number = i };
	k->range = (struct arax_launch_range){ &words[0], sizeof(words), 0, 1 };
	k->t.kernel = registry_find(registry, "test_error");
	k->t.launch = (struct arax_launch){
		.size = sizeof(k->t.launch), .nr_ranges = 1, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
		.group_end = 1, .ranges = &k->range, .args = &k->arg, .arg_len = 4,
	};
	k->t.done = done;
	return k;
}

static int enter(struct runner_task *rt)
{
	struct task *k = (struct task *)rt;

	if (rt->flags & RUNNER_NO_WAIT && k->fails) {
		k->fails--;
		return -EAGAIN;
	}
	/* Nobody has anything to wait for. */
	ck_assert(rt->flags & RUNNER_NO_WAIT || !under_way);
	if (k->arg == -ENOSPC)
		return -EDQUOT;
	k->entered++;
	under_way++;
	if (most < under_way)
		most = under_way;
	return 0;
}

static int leave(struct runner_task *rt, int result)
{
	((struct task *)rt)->left++;
	under_way--;
	return result == -EDOM ? 0 : result;
}

START_TEST(all_run_once_in_order)
{
	ck_assert_uint_eq(runner_depth(runner), ARAX_LANE_DEPTH);
	for (uint32_t i = 0; i < MANY; i++)
		runner_submit(runner, &task(i, i % 7 == 3 ? -EINVAL : 0)->t);
	await_done(MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(tasks[i].t.result, i % 7 == 3 ? -EINVAL : 0);
		ck_assert_uint_eq(order[i], i);
		ck_assert_uint_gt(tasks[i].t.hold_ns, 0);
		ck_assert_uint_le(tasks[i].t.device_ns, tasks[i].t.hold_ns);
		/* It begins when the one before it has ended. */
		if (i)
			ck_assert_uint_ge(tasks[i].t.start_ns, tasks[i - 1].t.start_ns);
	}
}
END_TEST

START_TEST(data_comes_while_others_run)
{
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = task(i, i % 5 == 1 ? -EDOM : i % 5 == 2 ? -ENOSPC : i % 5 == 3 ? -EIO : 0);

		k->fails = i % 3 == 0;
		k->t.enter = enter;
		k->t.leave = leave;
		runner_submit(runner, &k->t);
	}
	await_done(MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct task *k = &tasks[i];
		int result = k->arg == -EDOM ? 0 : k->arg == -ENOSPC ? -EDQUOT : k->arg;

		ck_assert_int_eq(k->t.result, result);
		ck_assert_uint_eq(k->entered, result != -EDQUOT);
		ck_assert_uint_eq(k->left, k->entered);
	}
	ck_assert_uint_eq(under_way, 0);
	ck_assert_uint_le(most, ARAX_LANE_DEPTH);
	ck_assert_uint_gt(most, 1);
}
END_TEST

START_TEST(late_ones_do_not_run)
{
	for (uint32_t i = 0; i < 40; i++) {
		task(i, 0)->t.deadline_ns = i % 2 ? 1 : 0;
		runner_submit(runner, &tasks[i].t);
	}
	await_done(40);
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_int_eq(tasks[i].t.result, i % 2 ? -ETIMEDOUT : 0);
}
END_TEST

/* What is on the device comes to its end, the rest is canceled; each is told of. */
START_TEST(destroyed_with_work)
{
	uint32_t ran = 0;

	for (uint32_t i = 0; i < MANY; i++)
		runner_submit(runner, &task(i, 0)->t);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_uint_eq(nr_done, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert(!tasks[i].t.result || tasks[i].t.result == -ECANCELED);
		ran += !tasks[i].t.result;
	}
	ck_assert_uint_le(ran, MANY);
}
END_TEST

static void setup_filtered(void)
{
	setup_with("filter \"stats\" { }");
}

/* A filter would see neither the beginning nor the end. */
START_TEST(one_by_one_below_filters)
{
	ck_assert_uint_eq(runner_depth(runner), 1);
	for (uint32_t i = 0; i < 40; i++)
		runner_submit(runner, &task(i, 0)->t);
	await_done(40);
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_int_eq(tasks[i].t.result, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ahead");
	TCase *t = tcase_create("ahead"), *f = tcase_create("filtered");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, all_run_once_in_order);
	tcase_add_test(t, data_comes_while_others_run);
	tcase_add_test(t, late_ones_do_not_run);
	tcase_add_test(t, destroyed_with_work);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(f, setup_filtered, teardown);
	tcase_add_test(f, one_by_one_below_filters);
	suite_add_tcase(s, f);
	return be_main(s);
}
