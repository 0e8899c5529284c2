// SPDX-License-Identifier: MIT
/* be_sim - simulated devices in real time: what they say, and that nothing is too early */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "daemon/backends/builtin.h"
#include "daemon/reason.h"
#include "selftests/unit/be_test.h"
#include "uapi/arax.h"

static const struct arax_backend *const b = &sim_backend;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void load(void)
{
	ck_assert_int_eq(b->load(), 0);
}

static void unload(void)
{
	b->unload();
}

static void *open_device(uint32_t index)
{
	void *dev;

	ck_assert_int_eq(b->open(index, &dev), 0);
	return dev;
}

static const struct {
	const char *key, *value;
	int err;
} values[] = {
	{ "devices", "8", 0 }, { "devices", "0", -EINVAL }, { "devices", "257", -EINVAL },
	{ "devices", "two", -EINVAL }, { "devices", "1.5", -EINVAL }, { "devices", "", -EINVAL },
	{ "devices", "0x2", -EINVAL }, { "devices", "2e0", -EINVAL }, { "devices", " 2", -EINVAL },
	{ "devices", "+2", -EINVAL }, { "devices", "2.0", -EINVAL },
	{ "lanes", "64", 0 }, { "lanes", "65", -EINVAL },
	{ "links", "256", 0 }, { "links", "0", -EINVAL },
	{ "memory", "1048576", 0 }, { "memory", "1000", -EINVAL },
	{ "base-us", "0", 0 }, { "base-us", "-1", -EINVAL },
	{ "ns-per-item", "0.25", 0 }, { "ns-per-item", "nan", -EINVAL },
	{ "gb-per-s", "12", 0 }, { "gb-per-s", "0", -EINVAL },
	{ "latency-us", "3", 0 }, { "latency-us", "3us", -EINVAL },
	{ "fail", "0.5", 0 }, { "fail", "1.1", -EINVAL },
	{ "seed", "7", 0 }, { "seed", "-7", -EINVAL },
	{ "cost", "sgemm:20:0.5", 0 }, { "cost", "sgemm:20", -EINVAL },
	{ "cost", ":20:0.5", -EINVAL }, { "cost", "sgemm:x:0.5", -EINVAL },
	{ "cost", "sgemm:1:2:3", -EINVAL },
	{ "lose", "3:500", 0 }, { "lose", "3", -EINVAL }, { "lose", "256:1", -EINVAL },
	{ "lose", "3:0", -EINVAL },
	{ "speed", "1", -ENOENT },
};

START_TEST(keys_are_checked)
{
	ck_assert_int_eq(b->config(values[_i].key, values[_i].value), values[_i].err);
}
END_TEST

/* In whichever order the two come. */
START_TEST(only_a_device_that_there_is_can_be_lost)
{
	char why[REASON_LEN];

	ck_assert_int_eq(b->config_complete(), 0);
	ck_assert_int_eq(b->config("lose", "3:500"), 0);
	ck_assert_int_eq(b->config_complete(), -EINVAL);
	reason_take(why);
	ck_assert_msg(strstr(why, "lose=3:... is of no device: they are numbered from 0 to 0;"),
		      "%s", why);
	ck_assert_int_eq(b->config("devices", "4"), 0);
	ck_assert_int_eq(b->config_complete(), 0);
}
END_TEST

START_TEST(devices_are_as_told)
{
	struct arax_backend_info info = { .size = sizeof(info) };
	char why[128] = "";
	void *dev;

	ck_assert_int_eq(b->config("devices", "3"), 0);
	ck_assert_int_eq(b->config("lanes", "5"), 0);
	ck_assert_int_eq(b->config("memory", "2097152"), 0);
	ck_assert_int_eq(b->probe(why, sizeof(why)), 3);
	ck_assert_int_eq(b->open(3, &dev), -ENODEV);
	dev = open_device(2);
	/* Another section: the device is still what the first one said. */
	load();
	ck_assert_int_eq(b->info(dev, &info), 0);
	ck_assert_uint_eq(info.kind, ARAX_DEVICE_SIM);
	ck_assert_uint_eq(info.lanes, 5);
	ck_assert_uint_eq(info.turns, 1);
	ck_assert_uint_eq(info.memory, 2097152);
	ck_assert_str_eq(info.name, "sim2");
	b->close(dev);
}
END_TEST

START_TEST(memory_is_the_devices_own)
{
	uint64_t a, c;
	void *dev;

	ck_assert_int_eq(b->config("memory", "1048576"), 0);
	dev = open_device(0);
	ck_assert_int_eq(b->alloc(dev, 1000000, 0, &a), 0);
	ck_assert_int_eq(b->alloc(dev, 100000, 0, &c), -ENOMEM);
	ck_assert_int_eq(b->alloc(dev, 100, a, &c), -EOPNOTSUPP);
	b->free(dev, a);
	ck_assert_int_eq(b->alloc(dev, 1048576, 0, &a), 0);
	b->free(dev, a);
	b->close(dev);
}
END_TEST

/* Two devices by one link: 1 MB at 0.1 GB/s is 10 ms for each, one after the other. */
START_TEST(copies_take_their_time)
{
	static char from[1000000], to[1000000];
	uint64_t start, a[2];
	void *dev[2];

	ck_assert_int_eq(b->config("devices", "2"), 0);
	ck_assert_int_eq(b->config("gb-per-s", "0.1"), 0);
	ck_assert_int_eq(b->config("latency-us", "1000"), 0);
	memset(from, 'x', sizeof(from));
	for (int i = 0; i < 2; i++) {
		dev[i] = open_device((uint32_t)i);
		ck_assert_int_eq(b->alloc(dev[i], sizeof(from), 0, &a[i]), 0);
	}
	start = now_ns();
	ck_assert_int_eq(b->copy_in(dev[0], 0, a[0], from, sizeof(from)), 0);
	ck_assert_int_eq(b->copy_in(dev[1], 0, a[1], from, sizeof(from)), 0);
	ck_assert_uint_ge(now_ns() - start, 21000000);
	start = now_ns();
	ck_assert_int_eq(b->copy_out(dev[1], 0, to, a[1], sizeof(to)), 0);
	ck_assert_uint_ge(now_ns() - start, 11000000);
	ck_assert_int_eq(memcmp(from, to, sizeof(to)), 0);
	for (int i = 0; i < 2; i++) {
		b->free(dev[i], a[i]);
		b->close(dev[i]);
	}
}
END_TEST

START_TEST(a_lost_device_says_so)
{
	const struct timespec ms = { .tv_nsec = 2000000 };
	uint64_t a;
	void *dev;

	ck_assert_int_eq(b->config("lose", "0:1"), 0);
	dev = open_device(0);
	ck_assert_int_eq(b->alloc(dev, 64, 0, &a), 0);
	nanosleep(&ms, NULL);
	ck_assert_int_eq(b->copy_in(dev, 0, a, "x", 1), -ENODEV);
	b->free(dev, a);
	b->close(dev);
}
END_TEST

static int32_t count_run(const struct arax_launch *l)
{
	++*(int *)l->ranges[0].data;
	return 0;
}

/* As cpu.c has it: what kernel_load makes of a library's symbol. */
struct loaded {
	arax_kernel_fn *fn;
	void *library;
	uint32_t flags;
};

/* What is under way is over when the device is, and not as late as it would have been. */
START_TEST(what_runs_on_a_device_is_lost_with_it)
{
	int runs = 0;
	struct arax_launch_range range = { .data = &runs, .length = sizeof(runs), .count = 1 };
	struct arax_launch launch = {
		.size = sizeof(launch), .nr_ranges = 1, .ranges = &range,
		.grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .group_end = 1,
	};
	struct loaded k = { .fn = count_run };
	struct arax_backend_run run = {
		.size = sizeof(run), .kernel = &k, .launch = &launch, .name = "slow",
	};
	static char bytes[20000];
	uint64_t start, a;
	void *dev;

	ck_assert_int_eq(b->config("lose", "0:100"), 0);
	ck_assert_int_eq(b->config("cost", "slow:20000000:0"), 0);
	ck_assert_int_eq(b->config("gb-per-s", "0.000001"), 0);
	dev = open_device(0);
	start = now_ns();
	ck_assert_int_eq(b->run(dev, &run), -ENODEV);
	ck_assert_uint_lt(now_ns() - start, 10000000000u);
	b->close(dev);
	for (int in = 0; in < 2; in++) {
		dev = open_device(0);
		ck_assert_int_eq(b->alloc(dev, sizeof(bytes), 0, &a), 0);
		start = now_ns();
		ck_assert_int_eq(in ? b->copy_in(dev, 0, a, bytes, sizeof(bytes)) :
				      b->copy_out(dev, 0, bytes, a, sizeof(bytes)), -ENODEV);
		ck_assert_uint_lt(now_ns() - start, 10000000000u);
		b->free(dev, a);
		b->close(dev);
	}
}
END_TEST

/* By its own cost, of whichever kernel; and some of them fail, the same ones each time. */
START_TEST(launches_take_their_time_and_chance)
{
	int runs = 0, failed[2] = { 0, 0 };
	struct arax_launch_range range = { .data = &runs, .length = sizeof(runs), .count = 1 };
	struct arax_launch launch = {
		.size = sizeof(launch), .nr_ranges = 1, .ranges = &range,
		.grid = { 100, 1, 1 }, .block = { 10, 1, 1 }, .group_end = 100,
	};
	struct loaded k = { .fn = count_run };
	struct arax_backend_run run = {
		.size = sizeof(run), .kernel = &k, .launch = &launch, .name = "slow",
	};
	void *dev;

	ck_assert_int_eq(b->config("base-us", "0"), 0);
	ck_assert_int_eq(b->config("ns-per-item", "0"), 0);
	ck_assert_int_eq(b->config("cost", "slow:1000:2000"), 0);
	dev = open_device(0);
	ck_assert_int_eq(b->run(dev, &run), 0);
	ck_assert_uint_ge(run.device_ns, 3000000);
	ck_assert_int_eq(runs, 1);
	b->close(dev);
	ck_assert_int_eq(b->config("fail", "0.25"), 0);
	run.name = "quick";
	for (int i = 0; i < 2; i++) {
		dev = open_device(0);
		for (int n = 0; n < 400; n++)
			failed[i] += b->run(dev, &run) == -EIO;
		b->close(dev);
	}
	ck_assert_int_eq(failed[0], failed[1]);
	ck_assert_int_gt(failed[0], 60);
	ck_assert_int_lt(failed[0], 140);
	ck_assert_int_eq(runs, 801);
}
END_TEST

#define LAUNCHES	5

static struct {
	pthread_mutex_t lock;
	uint64_t order[LAUNCHES];
	int nr;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int32_t note_run(const struct arax_launch *l)
{
	pthread_mutex_lock(&seen.lock);
	seen.order[seen.nr++] = l->ranges[0].length;
	pthread_mutex_unlock(&seen.lock);
	return 0;
}

struct launcher {
	void *dev;
	uint32_t program, lane;
	uint64_t due_ns, name, device_ns;
	pthread_t thread;
};

static void *launch_one(void *arg)
{
	struct launcher *me = arg;
	struct arax_launch_range range = { .length = me->name, .count = 1 };
	struct arax_launch launch = {
		.size = sizeof(launch), .nr_ranges = 1, .ranges = &range,
		.grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .group_end = 1,
	};
	struct loaded k = { .fn = note_run };
	struct arax_backend_run run = {
		.size = sizeof(run), .kernel = &k, .launch = &launch, .name = "long",
		.lane = me->lane, .program = me->program, .due_ns = me->due_ns,
	};

	ck_assert_int_eq(b->run(me->dev, &run), 0);
	me->device_ns = run.device_ns;
	return NULL;
}

/*
 * While the first one runs, for @ms, the others come, each well after the one before it.  Whether
 * they took their turns as they have to.
 */
static bool in_their_turns(uint32_t ms)
{
	struct launcher l[LAUNCHES] = {
		{ .program = 1, .name = 1 }, { .program = 1, .due_ns = 20, .name = 2 },
		{ .program = 2, .due_ns = 1, .name = 3 }, { .program = 1, .due_ns = 10, .name = 4 },
		{ .program = 1, .due_ns = 5, .name = 5 },
	};
	/*
	 * The first one that waits is of program 1, of which others are due before it, and the last
	 * one before all.  That one takes its turn, and then it is that of program 2, whenever that
	 * was due: the urgent ones take the turns of program 1, and no others'.
	 */
	static const uint64_t order[LAUNCHES] = { 1, 5, 3, 4, 2 };
	char cost[32];
	uint64_t start;
	bool good;
	void *dev;

	load();
	snprintf(cost, sizeof(cost), "long:%u:0", ms * 1000);
	ck_assert_int_eq(b->config("lanes", "5"), 0);
	ck_assert_int_eq(b->config("cost", cost), 0);
	dev = open_device(0);
	seen.nr = 0;
	start = now_ns();
	for (uint32_t i = 0; i < LAUNCHES; i++) {
		l[i].dev = dev;
		l[i].lane = i;
		ck_assert_int_eq(pthread_create(&l[i].thread, NULL, launch_one, &l[i]), 0);
		usleep(ms * 1000 / 6);
	}
	for (int i = 0; i < LAUNCHES; i++)
		pthread_join(l[i].thread, NULL);
	ck_assert_int_eq(seen.nr, LAUNCHES);
	/* One at a time, and what is said of each is its own time. */
	ck_assert_uint_ge(now_ns() - start, LAUNCHES * ms * 1000000ull);
	good = !memcmp(seen.order, order, sizeof(order));
	for (int i = 0; i < LAUNCHES; i++)
		good &= l[i].device_ns < 2 * ms * 1000000ull;
	b->close(dev);
	return good;
}

/* One that comes late, on a busy machine, has lost its turn: then all take longer. */
START_TEST(who_is_due_first_begins_first)
{
	uint32_t ms = 300;

	while (!in_their_turns(ms) && ms < 4800)
		ms *= 2;
	ck_assert_uint_lt(ms, 4800);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("be_sim");
	TCase *c = tcase_create("sim");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, load, unload);
	tcase_add_loop_test(c, keys_are_checked, 0, sizeof(values) / sizeof(values[0]));
	tcase_add_test(c, only_a_device_that_there_is_can_be_lost);
	tcase_add_test(c, devices_are_as_told);
	tcase_add_test(c, memory_is_the_devices_own);
	tcase_add_test(c, copies_take_their_time);
	tcase_add_test(c, who_is_due_first_begins_first);
	tcase_add_test(c, a_lost_device_says_so);
	tcase_add_test(c, what_runs_on_a_device_is_lost_with_it);
	tcase_add_test(c, launches_take_their_time_and_chance);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
