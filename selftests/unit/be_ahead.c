// SPDX-License-Identifier: MIT
/* A runner's lane on a device that takes several launches at once. */
#include <errno.h>
#include <pthread.h>

#include "selftests/unit/be_runner.h"
#include "selftests/unit/be_test.h"

#define MANY	400u
#define WORDS	16u

/* @fails: how often its @enter can't wait; @before: the numbers of those that it follows */
struct task {
	struct runner_task t;
	struct arax_launch_range range;
	int32_t arg;
	uint32_t number, fails, entered, left, ran;
	uint32_t before[ARAX_LANE_DEPTH - 1];
};

static struct task tasks[MANY];
static uint32_t words[WORDS];
static uint32_t under_way, most;	/* entered and not left; the lane's thread's */
static uint32_t along;			/* entered before those had left that they follow */
static bool by_device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static uint32_t order[MANY], nr_done;
static bool held;

static void setup_with(const char *options, const char *more_text)
{
	char text[4400], here[4096];

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	snprintf(text, sizeof(text), "cpu { enable = false } backend \"queued\" { file = \"%s/build/test/plugins/queued.so\" options = { %s } } %s",
		 here, options, more_text);
	open_device(text, LOG_LEVEL_WARNING);
	open_runner();
	memset(tasks, 0, sizeof(tasks));
	memset(words, 0, sizeof(words));
	nr_done = under_way = most = along = 0;
}

static void setup(void)
{
	setup_with("", "");
}

/* Not the lane sees to it that followers don't run after failures, but the device. */
static void setup_follows(void)
{
	by_device = true;
	setup_with("\"follows=true\"", "");
}

/* And others that come behind them need not wait for that. */
static void setup_overtaken(void)
{
	by_device = true;
	setup_with("\"follows=true\", \"overtaken=true\"", "");
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

static int await_release(struct runner_task *rt)
{
	pthread_mutex_lock(&lock);
	while (held)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void forget(struct runner_task *rt)
{
}

/* If @wanted, the lane has all at once that is submitted until release(). */
static void hold(bool wanted)
{
	static struct runner_task holder;

	if (!wanted)
		return;
	held = true;
	holder = (struct runner_task){
		.flags = RUNNER_ENTER_ONLY, .enter = await_release, .done = forget,
	};
	runner_submit(runner, &holder);
}

static void release(void)
{
	pthread_mutex_lock(&lock);
	held = false;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
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
	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = task(i, i % 5 == 1 ? -EDOM : i % 5 == 2 ? -ENOSPC : i % 5 == 3 ? -EIO : 0);

		k->fails = i % 3 == 0;
		k->t.enter = enter;
		k->t.leave = leave;
		runner_submit(runner, &k->t);
	}
	release();
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
	/* If others are there. */
	ck_assert_uint_gt(most, _i);
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

/* test_groups(inout u32 x[]): counts its visits */
static struct task *counting(uint32_t i)
{
	struct task *k = task(i, 0);

	k->range = (struct arax_launch_range){ &k->ran, sizeof(k->ran), 0, 1 };
	k->t.kernel = registry_find(registry, "test_groups");
	k->t.launch.arg_len = 0;
	return k;
}

/* It goes behind the one that came @back before it, if there is one. */
static void follow(struct task *k, uint32_t back)
{
	const struct task *before = k - back;

	if (!back || k->number < back)
		return;
	ck_assert_uint_lt(runner_ticket(runner, 0) - before->t.ticket, RUNNER_LATE);
	k->before[k->t.nr_after] = before->number;
	k->t.after[k->t.nr_after++] = before->t.ticket;
}

/* What it is to end with if it runs. */
static int result_of(const struct task *k)
{
	if (k->t.enter && k->arg == -EDOM)
		return 0;
	return k->t.enter && k->arg == -ENOSPC ? -EDQUOT : k->arg;
}

/* Whether all that it follows have succeeded; it was told of after them. */
static bool is_to_run(const struct task *k, const uint32_t *place)
{
	bool is = true;

	for (uint32_t i = 0; i < k->t.nr_after; i++) {
		ck_assert_uint_lt(place[k->before[i]], place[k->number]);
		is &= !tasks[k->before[i]].t.result;
	}
	return is;
}

static void find_places(uint32_t *place)
{
	await_done(MANY);
	for (uint32_t i = 0; i < MANY; i++)
		place[order[i]] = i;
}

/* All have run whose predecessors succeeded, once; returns how many have not. */
static uint32_t check_followers(void)
{
	uint32_t place[MANY], skipped = 0;

	find_places(place);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct task *k = &tasks[i];
		bool runs = is_to_run(k, place);

		ck_assert_uint_eq(k->t.skipped, !runs);
		ck_assert_int_eq(k->t.result, runs ? result_of(k) : -ECANCELED);
		ck_assert_uint_eq(k->ran, runs && !k->arg);
		ck_assert_uint_eq(k->entered, runs && k->t.enter && result_of(k) != -EDQUOT);
		ck_assert_uint_eq(k->left, k->entered);
		if (!runs)
			ck_assert_uint_eq(k->t.hold_ns + k->t.wall_ns + k->t.device_ns, 0);
		skipped += !runs;
	}
	return skipped;
}

START_TEST(followers_run_in_order)
{
	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = counting(i);

		if (i % 10) {
			follow(k, 1);
			follow(k, i % 3 ? 0 : 3);
			follow(k, i % 4 ? 0 : RUNNER_LATE - 1);
		}
		runner_submit(runner, &k->t);
	}
	release();
	ck_assert_uint_eq(check_followers(), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_uint_eq(order[i], i);
		ck_assert_uint_gt(tasks[i].t.hold_ns, 0);
		if (i)
			ck_assert_uint_ge(tasks[i].t.start_ns, tasks[i - 1].t.start_ns);
	}
}
END_TEST

/* One fails, and with it what follows it, by whatever way, and nothing else. */
static const struct { uint32_t back[2]; bool fails, skipped; } pattern[] = {
	{ .back = { 0 } },
	{ .back = { 0 }, .fails = true },
	{ .back = { 1 }, .skipped = true },
	{ .back = { 0 } },
	{ .back = { 2 }, .skipped = true },	/* that one was, too */
	{ .back = { 2 } },
	{ .back = { 5, 3 }, .skipped = true },	/* one has failed, one has not */
	{ .back = { 4, 2 } },
	{ .back = { 7 }, .skipped = true },	/* that is long ago */
	{ .back = { 0 } },
	{ .back = { 7, 1 } },
};

#define PATTERN	(sizeof(pattern) / sizeof(pattern[0]))

static struct task *patterned(uint32_t i)
{
	static const int32_t results[] = { -EIO, -ECANCELED, -EINVAL };
	uint32_t at = i % PATTERN;
	struct task *k = pattern[at].fails ? task(i, results[i / PATTERN % 3]) : counting(i);

	follow(k, pattern[at].back[0]);
	follow(k, pattern[at].back[1]);
	return k;
}

START_TEST(followers_of_failures_do_not_run)
{
	hold(_i);
	for (uint32_t i = 0; i < MANY; i++)
		runner_submit(runner, &patterned(i)->t);
	release();
	ck_assert_uint_ge(check_followers(), MANY / PATTERN * 4);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_uint_eq(tasks[i].t.skipped, pattern[i % PATTERN].skipped);
}
END_TEST

/* It has run, once, and says so. */
START_TEST(canceled_by_its_own)
{
	struct runner_stats stats;

	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = i % 2 ? task(i, -ECANCELED) : counting(i);

		follow(k, i % 2);
		runner_submit(runner, &k->t);
	}
	release();
	ck_assert_uint_eq(check_followers(), 0);
	runner_query(runner, &stats);
	ck_assert_uint_eq(stats.runs, MANY);
}
END_TEST

START_TEST(late_followers_are_told_of_last)
{
	static const struct { uint32_t back; bool late, fails; } kinds[] = {
		{ .back = 0 }, { .back = 1, .late = true }, { .back = 1 }, { .back = 0 },
		{ .fails = true }, { .back = 1, .late = true }, { .back = 3 },
	};
	const uint32_t nr = sizeof(kinds) / sizeof(kinds[0]);
	uint32_t place[MANY];

	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = kinds[i % nr].fails ? task(i, -EIO) : counting(i);

		follow(k, kinds[i % nr].back);
		k->t.deadline_ns = kinds[i % nr].late;
		runner_submit(runner, &k->t);
	}
	release();
	find_places(place);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct task *k = &tasks[i];
		bool runs = is_to_run(k, place);

		ck_assert_uint_eq(k->ran, runs && !k->arg && !k->t.deadline_ns);
		if (runs)
			ck_assert_int_eq(k->t.result, k->t.deadline_ns ? -ETIMEDOUT : k->arg);
		else if (!k->t.deadline_ns || k->t.result != -ETIMEDOUT)
			ck_assert_int_eq(k->t.result, -ECANCELED);
		ck_assert_uint_eq(k->t.skipped, !runs && k->t.result == -ECANCELED);
	}
}
END_TEST

/* What it reads is where it was brought: only now is it known to be right. */
static int enter_behind(struct runner_task *rt)
{
	struct task *k = (struct task *)rt;

	if (rt->flags & RUNNER_BEHIND)
		return -EAGAIN;
	for (uint32_t i = 0; i < rt->nr_after; i++)
		ck_assert_uint_eq(tasks[k->before[i]].left, 1);
	return enter(rt);
}

static void submit_with_data(struct task *k)
{
	k->fails = k->number % 3 == 0;
	k->t.enter = enter_behind;
	k->t.leave = leave;
	runner_submit(runner, &k->t);
}

START_TEST(followers_data_comes_after)
{
	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = counting(i);

		follow(k, i % 5 == 2 || i % 5 == 3);
		follow(k, i % 5 == 4 ? 4 : 0);
		submit_with_data(k);
	}
	release();
	ck_assert_uint_eq(check_followers(), 0);
	ck_assert_uint_eq(under_way, 0);
	/* Those that follow nobody come ahead: if they are there. */
	ck_assert_uint_gt(most, _i);
}
END_TEST

/* Those fail, in their turn, that don't get their data, not those that leave() saves. */
START_TEST(followers_of_failures_do_not_enter)
{
	static const int32_t results[] = { -EIO, -ENOSPC, -EDOM };

	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = patterned(i);

		if (k->arg)
			k->arg = results[i / PATTERN % 3];
		submit_with_data(k);
	}
	release();
	ck_assert_uint_gt(check_followers(), 0);
	for (uint32_t i = 0; i < MANY; i++)
		if (i / PATTERN % 3 == 2)
			ck_assert_uint_eq(tasks[i].t.skipped, 0);
	ck_assert_uint_eq(under_way, 0);
}
END_TEST

/* What it reads is where those before it will have written it: they have entered, and it is told. */
static int enter_along(struct runner_task *rt)
{
	struct task *k = (struct task *)rt;
	bool behind = false;

	for (uint32_t i = 0; i < rt->nr_after; i++) {
		ck_assert_uint_eq(tasks[k->before[i]].entered, 1);
		behind |= !tasks[k->before[i]].left;
	}
	ck_assert(behind == !!(rt->flags & RUNNER_BEHIND));
	along += behind;
	return enter(rt);
}

START_TEST(followers_data_comes_along)
{
	static const int32_t results[] = { -EIO, -ENOMEM, -EINVAL };
	uint32_t place[MANY];

	hold(_i);
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = patterned(i);

		if (k->arg)
			k->arg = results[i / PATTERN % 3];
		k->t.enter = enter_along;
		k->t.leave = leave;
		runner_submit(runner, &k->t);
	}
	release();
	find_places(place);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct task *k = &tasks[i];
		bool runs = is_to_run(k, place);

		ck_assert_uint_eq(k->t.skipped, !runs);
		ck_assert_int_eq(k->t.result, runs ? k->arg : -ECANCELED);
		ck_assert_uint_eq(k->ran, runs && !k->arg);
		ck_assert_uint_le(k->left, k->entered);
		ck_assert(!runs || (k->entered == 1 && k->left == 1));
	}
	/* By the device alone: to a thread they are known to have ended. */
	ck_assert(by_device ? along : !along);
}
END_TEST

/* Whoever is told of an end hands over the one that comes behind what runs by then. */
static void next_but_one(struct runner_task *rt)
{
	uint32_t i = ((struct task *)rt)->number + 2;

	if (i < MANY) {
		follow(&tasks[i], 1);
		runner_submit(runner, &tasks[i].t);
	}
	done(rt);
}

/* It is prepared while that runs. */
START_TEST(followers_that_come_at_an_end)
{
	for (uint32_t i = 0; i < MANY; i++) {
		struct task *k = counting(i);

		k->t.enter = enter_along;
		k->t.leave = leave;
		k->t.done = next_but_one;
	}
	hold(true);
	runner_submit(runner, &tasks[0].t);
	follow(&tasks[1], 1);
	runner_submit(runner, &tasks[1].t);
	release();
	ck_assert_uint_eq(check_followers(), 0);
	ck_assert_uint_ge(along, MANY - 2);
}
END_TEST

/* words[0]: it runs; until words[1] is set, as by a device that others keep busy. */
static void *run_from_elsewhere(void *arg)
{
	struct task *k = arg;

	k->t.result = runner_run_ready(runner, &k->t);
	return NULL;
}

/*
 * Whoever polls runs it by itself, as the lane is idle; and if that takes long somebody else polls,
 * and gives the lane more, which the plug-in takes amiss.
 */
START_TEST(none_beside_the_pollers_own)
{
	struct task *k = task(0, 0);
	pthread_t poller;

	k->t.kernel = registry_find(registry, "test_until_launch");
	k->t.launch.arg_len = 0;
	ck_assert_int_eq(pthread_create(&poller, NULL, run_from_elsewhere, k), 0);
	while (!__atomic_load_n(&words[0], __ATOMIC_RELAXED))
		usleep(1000);
	for (uint32_t i = 1; i < 20; i++)
		runner_submit(runner, &counting(i)->t);
	usleep(30000);
	ck_assert_uint_eq(tasks[1].ran, 0);
	__atomic_store_n(&words[1], 1, __ATOMIC_RELAXED);
	pthread_join(poller, NULL);
	ck_assert_int_eq(k->t.result, 0);
	ck_assert_uint_eq(words[2], 1);
	await_done(19);
	for (uint32_t i = 1; i < 20; i++)
		ck_assert_uint_eq(tasks[i].ran, 1);
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

START_TEST(destroyed_with_followers)
{
	hold(_i);
	for (uint32_t i = 0; i < MANY; i++)
		runner_submit(runner, &patterned(i)->t);
	release();
	runner_destroy(runner);
	runner = NULL;
	ck_assert_uint_eq(nr_done, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct task *k = &tasks[i];

		ck_assert(!k->t.result || k->t.result == -ECANCELED || k->t.result == k->arg);
		ck_assert_uint_eq(k->ran, !k->t.result);
		ck_assert(!k->t.skipped || pattern[i % PATTERN].skipped);
	}
}
END_TEST

static void next_one(struct runner_task *rt)
{
	uint32_t i = ((struct task *)rt)->number + 1;

	if (i < MANY) {
		task(i, 0)->t.done = next_one;
		runner_submit(runner, &tasks[i].t);
	}
	done(rt);
}

/* Whoever is told of an end hands over the next one, also when that is never to begin. */
START_TEST(destroyed_while_more_come)
{
	task(0, 0)->t.done = next_one;
	runner_submit(runner, &tasks[0].t);
	runner_destroy(runner);
	runner = NULL;
	ck_assert_uint_eq(nr_done, MANY);
}
END_TEST

static void setup_filtered(void)
{
	setup_with("", "filter \"stats\" { }");
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

/* Each as they come, and all at once. */
static void add_followers(TCase *t)
{
	tcase_add_loop_test(t, followers_run_in_order, 0, 2);
	tcase_add_loop_test(t, followers_of_failures_do_not_run, 0, 2);
	tcase_add_loop_test(t, canceled_by_its_own, 0, 2);
	tcase_add_loop_test(t, late_followers_are_told_of_last, 0, 2);
	tcase_add_loop_test(t, followers_data_comes_after, 0, 2);
	tcase_add_loop_test(t, followers_of_failures_do_not_enter, 0, 2);
	tcase_add_loop_test(t, followers_data_comes_along, 0, 2);
	tcase_add_loop_test(t, destroyed_with_followers, 0, 2);
}

int main(void)
{
	Suite *s = suite_create("ahead");
	TCase *t = tcase_create("ahead"), *f = tcase_create("filtered");
	TCase *by_device = tcase_create("by device"), *overtaken = tcase_create("overtaken");

	tcase_add_checked_fixture(t, setup, close_runner);
	tcase_add_test(t, all_run_once_in_order);
	tcase_add_loop_test(t, data_comes_while_others_run, 0, 2);
	tcase_add_test(t, late_ones_do_not_run);
	tcase_add_test(t, none_beside_the_pollers_own);
	tcase_add_test(t, destroyed_with_work);
	tcase_add_loop_test(t, destroyed_while_more_come, 0, 3);
	add_followers(t);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(by_device, setup_follows, close_runner);
	add_followers(by_device);
	tcase_add_test(by_device, followers_that_come_at_an_end);
	suite_add_tcase(s, by_device);
	tcase_add_checked_fixture(overtaken, setup_overtaken, close_runner);
	add_followers(overtaken);
	suite_add_tcase(s, overtaken);
	tcase_add_checked_fixture(f, setup_filtered, close_runner);
	tcase_add_test(f, one_by_one_below_filters);
	suite_add_tcase(s, f);
	return be_main(s);
}
