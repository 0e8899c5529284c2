// SPDX-License-Identifier: MIT
/* What is told of what devices do: when it is taken, that it is true, and that nobody waits for it. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/dispatch/aside.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"
#include "daemon/observe/stats.h"
#include "daemon/worker/inside.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/tmp.h"
#include "selftests/unit/wait.h"

#define SECOND	1000000000ull
#define BYTES	(1u << 20)

#define CORES	"loop { inline_us = 0 }\ncpu { groups = { \"0\" } }\n"
#define TWO	"loop { inline_us = 0 }\ncpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=1\", \"lanes=2\", \"base-us=1\" } }\n"
#define MEMORY	"cpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=1\", \"lanes=1\", \"memory=8388608\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"
#define THREE	"cpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=3\", \"lanes=1\", \"memory=8388608\" } }\n"

static struct bench_daemon *d;
static struct client c;
static uint32_t kernel, queue, buffer;

/* A vendor's library, of all devices if @there. */
static struct {
	bool there, slow;
	uint32_t hangs;		/* a bit for each of its devices */
	uint32_t busy, calls;
} vendor;

#define SET(what, value)	__atomic_store_n(&vendor.what, value, __ATOMIC_RELEASE)
#define GET(what)		__atomic_load_n(&vendor.what, __ATOMIC_ACQUIRE)

bool __wrap_device_has_gauges(const struct device *dev);
bool __wrap_device_has_gauges(const struct device *dev)
{
	(void)dev;
	return GET(there);
}

int __wrap_device_gauges(const struct device *dev, struct arax_backend_gauges *g, char *why,
			 uint32_t len);
int __wrap_device_gauges(const struct device *dev, struct arax_backend_gauges *g, char *why,
			 uint32_t len)
{
	/* Not the poller's: that may be gone by now. */
	const uint32_t place = dev->backend_index;

	(void)len;
	__atomic_fetch_add(&vendor.calls, 1, __ATOMIC_ACQ_REL);
	while (GET(slow) || GET(hangs) >> place & 1)
		usleep(1000);
	*g = (struct arax_backend_gauges){ .size = sizeof(*g) };
	why[0] = '\0';
	if (!GET(there))
		return -EOPNOTSUPP;
	g->known = ARAX_GAUGE_BUSY | ARAX_GAUGE_POWER | ARAX_GAUGE_TAKEN;
	g->busy = GET(busy);
	g->power_mw = 71300;
	g->memory_taken = 12345;
	return 0;
}

static void up(const char *conf)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };

	d = daemon_up_with(conf);
	client_open(&c, daemon_path(d));
	ck_assert_int_eq(client_init(&c, 64), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	kernel = k.id;
	queue = client_queue(&c, ARAX_QUEUE_DATAFLOW);
	buffer = client_buffer(&c, BYTES, NULL, NULL);
}

static void down(void)
{
	client_close(&c);
	daemon_down(d);
}

static struct arax_device look(void)
{
	struct arax_device dev = { .size = sizeof(dev) };

	ck_assert_int_eq(CALL(&c, ARAX_NR_DEVICE_QUERY, &dev), 0);
	return dev;
}

/* Who looks twice is told what is true now. */
static struct arax_device figures(void)
{
	struct arax_device dev;

	ck_assert(comes_true((dev = look(), dev.age_ns < SECOND), 1000));
	return dev;
}

static void await(void)
{
	struct arax_completion done;

	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, 0);
}

static void spin(uint32_t us)
{
	client_spin(&c, kernel, queue, buffer, us);
	client_publish(&c);
}

/* While it runs, though nothing has ended yet; and no more when it has. */
START_TEST(busy_is_of_the_last_second)
{
	struct arax_device dev;

	up(CORES);
	dev = figures();
	ck_assert_uint_eq(dev.known, ARAX_DEVICE_BUSY);
	ck_assert_uint_eq(dev.busy, 0);
	spin(4000000);
	usleep(2200000);
	dev = figures();
	ck_assert_uint_eq(dev.busy_ns, 0);
	ck_assert_uint_gt(dev.busy, 90);
	await();
	usleep(2200000);
	dev = figures();
	ck_assert_uint_ge(dev.busy_ns, 4 * SECOND);
	ck_assert_uint_eq(dev.busy, 0);
	down();
}
END_TEST

/* In short ones as well: about half of the time. */
START_TEST(short_ones_are_busy_too)
{
	struct arax_device dev;
	uint64_t until = wait_now_ns() + 2200000000u;

	up(CORES);
	while (wait_now_ns() < until) {
		spin(20000);
		await();
		usleep(20000);
	}
	dev = figures();
	ck_assert_uint_gt(dev.busy, 15);
	ck_assert_uint_lt(dev.busy, 85);
	down();
}
END_TEST

/* Beside one that takes for ever short ones count as well, and there is no more than there was. */
START_TEST(short_ones_are_busy_beside_a_long_one)
{
	uint32_t other, i;
	struct arax_device dev;
	uint64_t until;

	up(TWO);
	other = client_buffer(&c, BYTES, NULL, NULL);
	client_spin(&c, kernel, queue, other, 8000000);
	client_publish(&c);
	usleep(3000000);
	dev = figures();
	ck_assert_uint_gt(dev.busy, 40);
	ck_assert_uint_lt(dev.busy, 60);
	until = wait_now_ns() + 2200000000u;
	for (i = 0; wait_now_ns() < until; i++) {
		spin(20000);
		await();
	}
	dev = figures();
	ck_assert_uint_gt(dev.busy, 75);
	await();
	down();
}
END_TEST

START_TEST(memory_in_use)
{
	struct arax_device dev;

	up(MEMORY);
	dev = figures();
	ck_assert_uint_eq(dev.known, ARAX_DEVICE_BUSY | ARAX_DEVICE_USED);
	ck_assert_uint_eq(dev.memory_used, 0);
	client_spin(&c, kernel, queue, buffer, 1)->ranges[0] = whole(buffer, ARAX_INOUT, BYTES);
	client_publish(&c);
	await();
	usleep(1100000);
	dev = figures();
	ck_assert_uint_ge(dev.memory_used, BYTES);
	ck_assert_uint_lt(dev.memory_used, 2 * BYTES);
	down();
}
END_TEST

START_TEST(a_vendors_are_told)
{
	struct arax_device dev;

	SET(there, true);
	SET(busy, 37);
	up(MEMORY);
	usleep(1200000);
	ck_assert_uint_eq(GET(calls), 0);	/* nobody has looked */
	dev = figures();
	ck_assert_uint_eq(GET(calls), 1);
	ck_assert_uint_eq(dev.known, ARAX_DEVICE_KNOWN);
	ck_assert_uint_eq(dev.busy, 37);
	ck_assert_uint_eq(dev.power_mw, 71300);
	ck_assert_uint_eq(dev.memory_taken, 12345);
	/* araxd sleeps, and is woken for who looks: once a second. */
	SET(busy, 38);
	usleep(1100000);
	dev = figures();
	ck_assert_uint_eq(dev.busy, 38);
	for (int i = 0; i < 100; i++)
		look();
	ck_assert_uint_le(GET(calls), 3);
	down();
}
END_TEST

/* Tasks run and who looks is answered, while a library takes as long as it likes. */
START_TEST(nobody_waits_for_it)
{
	uint64_t began;

	SET(there, true);
	SET(slow, true);
	up(CORES);
	look();
	ck_assert(comes_true(GET(calls), 1000));
	began = wait_now_ns();
	for (int i = 0; i < 100; i++) {
		spin(1);
		await();
		ck_assert_uint_ge(look().age_ns, SECOND);
	}
	usleep(2100000);
	look();
	usleep(10000);
	ck_assert_uint_eq(GET(calls), 1);
	ck_assert_uint_lt(wait_now_ns() - began, WAIT_S * SECOND);
	SET(slow, false);
	figures();
	down();
}
END_TEST

/* A process has so many threads that ask. */
static uint32_t threads(void)
{
	char path[300], name[32] = "";
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *e;
	uint32_t n = 0;

	ck_assert_ptr_nonnull(tasks);
	while ((e = readdir(tasks))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		n += f && fgets(name, sizeof(name), f) && !strcmp(name, "arax-figures\n");
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return n;
}

static struct arax_device look_at(uint32_t index)
{
	struct arax_device dev = { .size = sizeof(dev), .index = index };

	ck_assert_int_eq(CALL(&c, ARAX_NR_DEVICE_QUERY, &dev), 0);
	return dev;
}

static bool is_told(uint32_t index)
{
	struct arax_device dev = look_at(index);

	return dev.age_ns < SECOND && dev.known == ARAX_DEVICE_KNOWN;
}

/* One that never answers hides nobody's but its own, and costs a thread; others come back. */
START_TEST(one_that_hangs_hides_no_others)
{
	SET(there, true);
	up(THREE);
	ck_assert(comes_true((look_at(0), is_told(0) && is_told(1) && is_told(2)), 1000));
	ck_assert_uint_le(threads(), 2);
	SET(hangs, 1);
	ck_assert(comes_true(!is_told(0), 1000));
	ck_assert(comes_true((look_at(0), is_told(1) && is_told(2)), 1000));
	ck_assert_uint_ge(look_at(0).age_ns, SECOND);
	ck_assert_uint_le(threads(), 3);
	SET(hangs, 1 | 2);
	ck_assert(comes_true(!is_told(1), 1000));
	ck_assert(comes_true(is_told(2), 1000));
	usleep(3100000);
	ck_assert(comes_true(is_told(2), 1000));
	ck_assert_uint_le(threads(), 3);
	SET(hangs, 7);
	ck_assert(comes_true(!is_told(2), 1000));
	for (int i = 0; i < 4; i++) {
		usleep(1100000);
		look_at(0);
	}
	ck_assert_uint_le(threads(), 3);
	SET(hangs, 0);
	ck_assert(comes_true(is_told(0) && is_told(1) && is_told(2), 1000));
	down();
}
END_TEST

/* Nor does it keep araxd from ending; if it answers after all, nothing of the poller's is there. */
START_TEST(one_that_hangs_lets_araxd_end)
{
	static struct devices *left;
	uint64_t began;

	SET(there, true);
	up(THREE);
	ck_assert(comes_true((look_at(0), is_told(0) && is_told(1) && is_told(2)), 1000));
	SET(hangs, 2);
	ck_assert(comes_true((look_at(0), !is_told(1) && is_told(2)), 1000));
	left = daemon_poller(d)->devices;
	began = wait_now_ns();
	alarm(WAIT_S);
	down();
	alarm(0);
	ck_assert_uint_lt(wait_now_ns() - began, WAIT_S * SECOND);
	ck_assert_uint_eq(threads(), 1);
	ck_assert(!devices_close(left));
	SET(hangs, 0);
	ck_assert(comes_true(!threads(), 1000));
}
END_TEST

static char lines[16384];

/* Of the log, as it is now. */
static bool is_logged(FILE *log, const char *line)
{
	fseek(log, 0, SEEK_SET);
	lines[fread(lines, 1, sizeof(lines) - 1, log)] = '\0';
	return strstr(lines, line);
}

/* Who asks for statistics waits for no library, and has what others say. */
START_TEST(one_that_hangs_keeps_no_log)
{
	char path[UNIT_TMP_LEN];
	int fd = mkstemp(unit_tmp(path, "arax-figures-XXXXXX"));
	FILE *log = fdopen(fd, "r");
	uint64_t began;

	ck_assert_ptr_nonnull(log);
	unlink(path);
	SET(there, true);
	SET(busy, 37);
	SET(hangs, 1);
	up(THREE);
	log_init(fd, LOG_LEVEL_NOTICE, LOG_FORMAT_PLAIN);
	began = wait_now_ns();
	stats_log(daemon_poller(d));
	ck_assert_uint_lt(wait_now_ns() - began, WAIT_S * SECOND);
	ck_assert(comes_true(is_logged(log, "device gauges device=1 busy_percent=37"), 1000));
	ck_assert(comes_true(is_logged(log, "device gauges device=2 busy_percent=37"), 1000));
	ck_assert(!is_logged(log, "device gauges device=0"));
	usleep(1100000);
	stats_log(daemon_poller(d));
	ck_assert(comes_true(is_logged(log, "device gauges device=0 unknown=\"it was asked a while ago"),
			     1000));
	SET(hangs, 0);
	ck_assert(comes_true(is_logged(log, "device gauges device=0 busy_percent=37"), 1000));
	down();
	log_init(STDERR_FILENO, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	fclose(log);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Tasks that stand aside, by hand: a tick is a nanosecond */

#define PLACES	2u

void __real_runner_go_on(struct runner *r, struct runner_turn *turn);
void __wrap_runner_go_on(struct runner *r, struct runner_turn *turn);
void __wrap_runner_go_on(struct runner *r, struct runner_turn *turn)
{
	if (r)
		__real_runner_go_on(r, turn);
}

static struct poller hand;

static void begins(struct run *run, struct graph_node *node, uint32_t lane)
{
	node->d.opcode = ARAX_OP_LAUNCH;
	ck_assert_int_eq(sched_push(hand.sched, node, hand.now), 0);
	ck_assert_ptr_nonnull(sched_pick(hand.sched, hand.now));
	run->node = node;
	run->lane = lane;
	run->token = lane;
	run->start = hand.now;
	hand.devs->lanes_busy |= 1ull << lane;
	aside_begin(run);
}

/* Having run for @ns in all. */
static void stands_aside(struct run *run, uint64_t ns)
{
	run->aside.turn.ran_ns = ns;
	run->aside.parked.run(&run->aside.parked);
	ck_assert(run->aside.laneless);
}

static void busy_at(uint64_t s, uint32_t percent)
{
	hand.now = s * SECOND;
	figures_look(&hand);
	ck_assert_msg(hand.devs->figures.busy == percent, "%u %% at %u s", hand.devs->figures.busy,
		      (uint32_t)s);
}

/* It goes on on another lane than it began on, and what it stood still for is nobody's time. */
START_TEST(who_stood_aside_is_busy_where_it_is)
{
	static struct run runs[2 * PLACES + 1];
	static struct runner runner;	/* no lane of which is awake */
	struct config config = { .worker.slice_ms = 10 };
	struct poller_device dev = {
		.runner = &runner,
		.runs = runs, .nr_runs = PLACES, .nr_spares = PLACES, .direct = &runs[2 * PLACES],
		.lanes = 2, .lanes_now = 2, .depth = 1, .max_aside = PLACES,
	};
	struct graph_node a = { .seq = 1, .d.tenant = 1 }, b = { .seq = 2, .d.tenant = 2 };

	hand = (struct poller){
		.ticks = { .mult = 1ull << 32, .per_us = 1000 },
		.config = &config, .devs = &dev, .nr_devs = 1,
		.sched = sched_create(&(struct sched_params){ 0 }),
	};
	ck_assert_ptr_nonnull(hand.sched);
	ck_assert_int_eq(sched_device_set(hand.sched, 0, 2), 0);
	for (uint32_t i = 0; i < 2; i++) {
		runs[i].poller = &hand;
		aside_init(&runs[i]);
	}
	busy_at(10, 0);
	begins(&runs[0], &a, 0);
	hand.now = 11 * SECOND;
	stands_aside(&runs[0], SECOND);
	ck_assert_uint_eq(dev.busy_ns, SECOND);
	begins(&runs[1], &b, 0);
	ck_assert_ptr_nonnull(sched_pick(hand.sched, hand.now));
	ck_assert(aside_go_on(&hand, &a));
	busy_at(11, 50);
	busy_at(12, 100);
	stands_aside(&runs[0], 2 * SECOND);
	ck_assert_uint_eq(dev.busy_ns, 2 * SECOND);
	busy_at(13, 50);
	hand.now = 14 * SECOND;
	ck_assert_ptr_eq(sched_pick(hand.sched, hand.now), &a);
	ck_assert(aside_go_on(&hand, &a));
	busy_at(14, 50);
	busy_at(15, 100);
	ck_assert_uint_eq(aside_settle(&runs[0], &a, 3 * SECOND, false), SECOND);
	ck_assert_uint_eq(aside_settle(&runs[1], &b, 4 * SECOND, false), 4 * SECOND);
	ck_assert_uint_eq(dev.lanes_busy, 0);
	sched_destroy(hand.sched);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("figures");
	TCase *t = tcase_create("all"), *seconds = tcase_create("seconds");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_set_timeout(seconds, 300);
	tcase_set_tags(seconds, "long");
	tcase_add_test(seconds, busy_is_of_the_last_second);
	tcase_add_test(t, short_ones_are_busy_too);
	tcase_add_test(t, who_stood_aside_is_busy_where_it_is);
	tcase_add_test(seconds, short_ones_are_busy_beside_a_long_one);
	tcase_add_test(t, memory_in_use);
	tcase_add_test(t, a_vendors_are_told);
	tcase_add_test(t, nobody_waits_for_it);
	tcase_add_test(seconds, one_that_hangs_hides_no_others);
	tcase_add_test(t, one_that_hangs_keeps_no_log);
	tcase_add_test(t, one_that_hangs_lets_araxd_end);
	suite_add_tcase(s, t);
	suite_add_tcase(s, seconds);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
