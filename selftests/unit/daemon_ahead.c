// SPDX-License-Identifier: MIT
/*
 * What tasks need comes to a busy device before they have a lane there (daemon/dispatch/ahead.h),
 * and their results go back when they have none any more (back.h).
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/dispatch/ahead.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/run.h"
#include "daemon/memory/memory.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/wait.h"

#define BYTES	(1u << 20)

/* A kernel takes so long that whatever may happen meanwhile does. */
#define CONF	"cpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=%u\", \"lanes=%u\", \"gb-per-s=4\", " \
		"\"memory=67108864\", \"base-us=%u\" } }\n"

static struct bench_daemon *d;
static struct client a;
static uint32_t kernel, queue;

static void up_with(unsigned int devices, unsigned int lanes, unsigned int base_us)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	char conf[sizeof(CONF) + 32];

	snprintf(conf, sizeof(conf), CONF, devices, lanes, base_us);
	d = daemon_up_with(conf);
	client_open(&a, daemon_path(d));
	ck_assert_int_eq(client_init(&a, 64), 0);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	kernel = k.id;
	queue = client_queue(&a, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
}

static void up(unsigned int base_us)
{
	up_with(1, 1, base_us);
}

static uint64_t copied_in_to(uint32_t device)
{
	struct memory_stats s;

	memory_query(daemon_poller(d)->memory, device, &s);
	return s.copied_in;
}

static uint64_t copied_in(void)
{
	return copied_in_to(0);
}

static uint64_t came_ahead(void)
{
	return __atomic_load_n(&daemon_poller(d)->stats.ahead, __ATOMIC_RELAXED);
}

static struct arax_task *add(uint32_t buffer, uint64_t data)
{
	struct arax_task *t = client_spin(&a, kernel, queue, buffer, 1);

	t->ranges[0] = whole(buffer, ARAX_INOUT, BYTES);
	t->user_data = data;
	a.sq_tail++;
	return t;
}

/* So many tasks, each with its own buffer. */
static void submit(uint32_t *buffers, uint32_t n)
{
	uint32_t first = a.sq_tail;

	for (uint32_t i = 0; i < n; i++) {
		buffers[i] = client_buffer(&a, BYTES, NULL, NULL);
		add(buffers[i], i);
	}
	client_publish_from(&a, first);
}

static uint64_t ends(int32_t result, uint64_t *bytes)
{
	struct arax_completion done;

	ck_assert(client_completion(&a, &done));
	ck_assert_int_eq(done.result, result);
	if (bytes)
		*bytes = done.bytes;
	return done.user_data;
}

/* Whether most of them do, where each kernel takes @us; each tells how many bytes went for it. */
static bool come_before_a_lane(uint32_t us)
{
	uint32_t buffers[6], ended = 0;
	uint64_t bytes;
	bool most;

	up(us);
	submit(buffers, 6);
	for (int i = 0; i < 6; i++) {
		ended |= 1u << ends(0, &bytes);
		ck_assert_uint_eq(bytes, 2 * BYTES);
	}
	ck_assert_uint_eq(ended, 0x3f);
	/* All but the first one's, and of all but the last one, but for threads that lost their CPU. */
	most = came_ahead() >= 3 &&
	       __atomic_load_n(&daemon_poller(d)->stats.left, __ATOMIC_RELAXED) >= 3;
	client_close(&a);
	daemon_down(d);
	return most;
}

START_TEST(inputs_come_before_a_lane)
{
	uint32_t us = 200000;

	while (!come_before_a_lane(us) && us < 3200000)
		us *= 2;
	ck_assert_uint_lt(us, 3200000);
}
END_TEST

/* The device's: each launch lasts until they may end. */
static bool may_end;

static int run(void *top, struct arax_backend_run *run)
{
	(void)top;
	(void)run;
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		usleep(100);
	return 0;
}

static void up_to_wait_on(uint32_t devices, uint32_t lanes)
{
	up_with(devices, lanes, 1);
	may_end = false;
	for (uint32_t i = 0; i < devices; i++)
		daemon_poller(d)->devs[i].dev->run = run;
}

static void up_to_wait(void)
{
	up_to_wait_on(1, 1);
}

static void down(void)
{
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	client_close(&a);
	daemon_down(d);
}

/* No more than a few, though the device stays busy. */
START_TEST(a_few_come)
{
	struct arax_cancel cn = { .size = sizeof(cn) };
	uint32_t buffers[6];
	uint64_t i, sum = 0;

	up_to_wait();
	submit(buffers, 6);
	ck_assert(comes_true(copied_in() >= 3 * BYTES, 100));
	ck_assert_uint_eq(came_ahead(), 2);
	/* Those that come are seen to end at once, and their places are others'. */
	for (cn.user_data = 1; cn.user_data < 3; cn.user_data++)
		ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
	ck_assert_uint_eq(ends(-ECANCELED, NULL) + ends(-ECANCELED, NULL), 1 + 2);
	ck_assert(comes_true(came_ahead() >= 3, 100));
	/* Of the others nothing is to be seen any more. */
	for (; cn.user_data < 6; cn.user_data++)
		ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
	for (i = 0; i < 3; i++)
		sum += ends(-ECANCELED, NULL);
	ck_assert_uint_eq(sum, 3 + 4 + 5);
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	ck_assert_uint_eq(ends(0, NULL), 0);
	down();
}
END_TEST

/* What came for those that were first before keeps nothing from those that are now. */
START_TEST(others_are_first)
{
	struct arax_queue_create q = {
		.size = sizeof(q), .flags = ARAX_QUEUE_DATAFLOW, .priority = -20,
	};
	uint32_t buffers[3];

	up_to_wait();
	submit(buffers, 3);
	ck_assert(comes_true(copied_in() >= 3 * BYTES, 100));
	ck_assert_uint_eq(came_ahead(), 2);
	ck_assert_int_eq(CALL(&a, ARAX_NR_QUEUE_CREATE, &q), 0);
	queue = q.handle;
	submit(buffers, 2);
	ck_assert(comes_true(copied_in() >= 5 * BYTES, 100));
	down();
}
END_TEST

static uint64_t left;

static uint64_t limit(void *arg, struct memory_owner owner, uint64_t *out)
{
	(void)arg;
	(void)owner;
	if (out)
		*out = __atomic_load_n(&left, __ATOMIC_RELAXED);
	return UINT64_MAX;
}

/* Nor do those who could not pay. */
START_TEST(others_can_pay)
{
	uint32_t buffers[3];

	left = 0;
	up_to_wait();
	memory_set_limit(daemon_poller(d)->memory, limit);
	submit(buffers, 3);
	ck_assert(comes_true(came_ahead() >= 2 && copied_in() >= BYTES, 100));
	ck_assert_uint_eq(copied_in(), BYTES);
	__atomic_store_n(&left, UINT64_MAX, __ATOMIC_RELAXED);
	submit(buffers, 1);
	ck_assert(comes_true(copied_in() >= 2 * BYTES, 100));
	down();
}
END_TEST

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	(void)arg;
	(void)id;
	(void)bytes;
	return 0;
}

/* Who could not pay comes after all, once somebody has given something back. */
START_TEST(who_can_pay_comes)
{
	static uint8_t pages[4096];
	const struct memory_owner other = { .id = ~0ull, .tenant = ~0ull };
	struct memory_range r = { .length = 16, .count = 1, .access = ARAX_IN };
	struct memory *m;
	uint32_t buffers[3];

	left = 0;
	up_to_wait();
	m = daemon_poller(d)->memory;
	memory_set_charge(m, charge, NULL);
	memory_set_limit(m, limit);
	r.buffer = memory_buffer_create(m, pages, sizeof(pages));
	ck_assert_ptr_nonnull(r.buffer);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, other), 0);
	submit(buffers, 3);
	ck_assert(comes_true(came_ahead() >= 2 && copied_in() >= BYTES, 100));
	/* One of them alone. */
	__atomic_store_n(&left, BYTES, __ATOMIC_RELAXED);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
	ck_assert(comes_true(copied_in() >= 2 * BYTES, 100));
	/* And then the other one. */
	__atomic_store_n(&left, 2 * BYTES, __ATOMIC_RELAXED);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, other), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
	ck_assert(comes_true(copied_in() >= 3 * BYTES, 100));
	ck_assert_uint_eq(came_ahead(), 2);
	memory_buffer_gone(m, r.buffer);
	down();
}
END_TEST

static uint32_t asked_for;	/* tasks, at most */

uint32_t __real_sched_next(struct sched *s, uint32_t device, struct graph_node **nodes, uint32_t max,
			   uint64_t now_ns);
uint32_t __wrap_sched_next(struct sched *s, uint32_t device, struct graph_node **nodes, uint32_t max,
			   uint64_t now_ns);
uint32_t __wrap_sched_next(struct sched *s, uint32_t device, struct graph_node **nodes, uint32_t max,
			   uint64_t now_ns)
{
	if (__atomic_load_n(&asked_for, __ATOMIC_RELAXED) < max)
		__atomic_store_n(&asked_for, max, __ATOMIC_RELAXED);
	return __real_sched_next(s, device, nodes, max, now_ns);
}

/* Others than those are looked for, also where as many could come as there are of a tenant. */
START_TEST(others_are_looked_for)
{
	uint32_t buffers[7];

	left = 0;
	asked_for = 0;
	up_to_wait_on(1, 3);
	memory_set_limit(daemon_poller(d)->memory, limit);
	submit(buffers, 7);
	ck_assert(comes_true(__atomic_load_n(&asked_for, __ATOMIC_RELAXED) > SCHED_NEXT &&
			     came_ahead() == SCHED_NEXT, 100));
	down();
}
END_TEST

static uint32_t lost;		/* a device; or none */

static int run_on(uint32_t device)
{
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&lost, __ATOMIC_ACQUIRE) == device)
			return -ENODEV;
		usleep(100);
	}
	return 0;
}

static int run_on_first(void *top, struct arax_backend_run *run)
{
	(void)top;
	(void)run;
	return run_on(0);
}

static int run_on_second(void *top, struct arax_backend_run *run)
{
	(void)top;
	(void)run;
	return run_on(1);
}

/* Not before the end. */
void __real_memory_lose(struct memory *m, uint32_t device);
void __wrap_memory_lose(struct memory *m, uint32_t device);
void __wrap_memory_lose(struct memory *m, uint32_t device)
{
	while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
		usleep(100);
	__real_memory_lose(m, device);
}

/* To a device on which one task runs. */
static bool two_came_to(uint32_t device)
{
	return copied_in_to(device) >= 3 * BYTES;
}

/* What has come to a device is nothing when that is lost: it comes to another one. */
START_TEST(a_device_is_lost)
{
	uint32_t buffers[8], first;

	lost = UINT32_MAX;
	up_to_wait_on(2, 1);
	daemon_poller(d)->devs[0].dev->run = run_on_first;
	daemon_poller(d)->devs[1].dev->run = run_on_second;
	submit(buffers, 8);
	ck_assert(comes_true(two_came_to(0) || two_came_to(1), 100));
	first = two_came_to(0) ? 0 : 1;
	__atomic_store_n(&lost, first, __ATOMIC_RELEASE);
	ck_assert(comes_true(two_came_to(1 - first), 100));
	down();
}
END_TEST

/* Of threads that take results back, while they are held up. */
static bool hold_results;
static uint32_t held;

int __real_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (strcmp(name, "arax-back"))
		return __real_device_copy_out(dev, lane, to, from, bytes);
	__atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&hold_results, __ATOMIC_ACQUIRE))
		usleep(100);
	return __real_device_copy_out(dev, lane, to, from, bytes);
}

/* None of them waits for another one's. */
START_TEST(results_go_back_at_once)
{
	uint32_t buffers[6];

	up_to_wait();
	hold_results = true;
	held = 0;
	submit(buffers, 6);
	/* The others are known to wait by then. */
	ck_assert(comes_true(copied_in() >= 3 * BYTES, 100));
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	ck_assert(comes_true(__atomic_load_n(&held, __ATOMIC_RELAXED) == 2, 100));
	__atomic_store_n(&hold_results, false, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < 6; i++)
		ends(0, NULL);
	down();
}
END_TEST

/* With what is on its way, and there. */
START_TEST(its_context_goes)
{
	uint32_t buffers[4];

	up_to_wait();
	submit(buffers, 4);
	ck_assert(comes_true(came_ahead() >= 2, 100));
	client_close(&a);
	__atomic_store_n(&may_end, true, __ATOMIC_RELEASE);
	client_open(&a, daemon_path(d));
	ck_assert_int_eq(client_init(&a, 64), 0);
	queue = client_queue(&a, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	submit(buffers, 1);
	ends(0, NULL);
	client_close(&a);
	daemon_down(d);
}
END_TEST

START_TEST(araxd_ends)
{
	uint32_t buffers[32];

	/* Some run still when the poller looks, however late that is. */
	up(300000);
	submit(buffers, 32);
	ck_assert(comes_true(came_ahead() >= 2, 100));
	client_close(&a);
	daemon_down(d);
}
END_TEST

/* Its launches write to the first byte that they have. */
static int mark(void *top, struct arax_backend_run *run)
{
	(void)top;
	++*(uint8_t *)run->launch->ranges[0].data;
	return 0;
}

/* Data is there, and it is too late. */
static int (*enter_device)(struct runner_task *rt);
static bool came_late;

static int enter_late(struct runner_task *rt)
{
	int err = enter_device(rt);

	while (rt->deadline_ns && wait_now_ns() < rt->deadline_ns)
		usleep(1000);
	__atomic_store_n(&came_late, rt->deadline_ns && !err, __ATOMIC_RELEASE);
	return err;
}

static uint32_t explicit_buffer(uint8_t **data)
{
	struct arax_buffer_create b = {
		.size = sizeof(b), .flags = ARAX_BUFFER_EXPLICIT, .bytes = BYTES, .fd = 0,
	};
	int fd = memfd_sealed(BYTES, SEALS);

	ck_assert_int_eq(client_call(&a, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), 0);
	*data = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(*data, MAP_FAILED);
	close(fd);
	return b.handle;
}

/* The program is about to look at the bytes. */
static void look_at(uint32_t buffer)
{
	struct arax_task *t = client_entry(&a);

	t->opcode = ARAX_OP_MARKER;
	t->nr_ranges = 1;
	t->queue = queue;
	t->ranges[0] = whole(buffer, ARAX_IN, BYTES);
	client_publish(&a);
	ends(0, NULL);
}

/* What was to be written by who comes too late, and has not begun, is as it was. */
START_TEST(who_is_late_has_written_nothing)
{
	struct poller_device *pd;
	struct arax_task_ext *x;
	uint64_t ns = 50000000;
	uint32_t buffer;
	uint8_t *data;

	up(1);
	pd = &daemon_poller(d)->devs[0];
	pd->dev->run = mark;
	enter_device = pd->runs[0].rt.enter;
	for (struct run *r = pd->runs; r < run_end(pd); r++)
		r->rt.enter = enter_late;
	came_late = false;
	buffer = explicit_buffer(&data);
	add(buffer, 0);
	client_publish_from(&a, a.sq_tail - 1);
	ends(0, NULL);
	x = (void *)(a.region + a.layout.arena_offset);
	/* Unless it is so busy here that it did not even come to the device. */
	for (; !__atomic_load_n(&came_late, __ATOMIC_ACQUIRE); ns *= 2) {
		ck_assert_uint_lt(ns, WAIT_S * 1000000000ull);
		add(buffer, 1)->flags |= ARAX_TASK_EXT;
		*x = (struct arax_task_ext){ .size = sizeof(*x), .deadline_ns = wait_now_ns() + ns };
		client_publish_from(&a, a.sq_tail - 1);
		ends(-ETIMEDOUT, NULL);
	}
	look_at(buffer);
	ck_assert_uint_eq(data[0], 1);
	munmap(data, BYTES);
	client_close(&a);
	daemon_down(d);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ahead");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_test(t, inputs_come_before_a_lane);
	tcase_add_test(t, a_few_come);
	tcase_add_test(t, others_are_first);
	tcase_add_test(t, others_can_pay);
	tcase_add_test(t, who_can_pay_comes);
	tcase_add_test(t, others_are_looked_for);
	tcase_add_test(t, a_device_is_lost);
	tcase_add_test(t, results_go_back_at_once);
	tcase_add_test(t, who_is_late_has_written_nothing);
	tcase_add_test(t, its_context_goes);
	tcase_add_test(t, araxd_ends);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
