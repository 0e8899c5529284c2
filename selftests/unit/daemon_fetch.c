// SPDX-License-Identifier: MIT
/* Tasks on the host's pages whose bytes have to come from a device first. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/recover.h"
#include "daemon/memory/memory.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/wait.h"

#define PAGE	4096u
#define BYTES	64u		/* of a task */
#define LARGE	(40u << 20)	/* several pieces of a fetch, on a slow link */
#define SOON_NS	200000000u

/* One lane of cores, and a device with memory of its own. */
#define BOTH	"loop { inline_us = 0 }\ncpu { groups = { \"0\" } }\n" \
		"backend \"sim\" { options = { \"devices=1\", \"lanes=1\", \"memory=134217728\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"
/* The same with a second one that has. */
#define THREE	"loop { inline_us = 0 }\ncpu { groups = { \"0\" } }\n" \
		"backend \"sim\" { options = { \"devices=2\", \"lanes=1\", \"memory=134217728\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"
/* A thread of the host's does copies for all of its lanes. */
#define NO_CORES "loop { inline_us = 0 }\ncpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=1\", \"lanes=2\", \"memory=8388608\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"

enum how { CANCEL, DEADLINE };

static struct bench_daemon *d;
static struct client a;
static uint32_t queue, square;
static uint32_t sim, cores;
static float *in, *out;
static uint32_t x, y, z;

/* What stops the thread that fetches, or that does copies; and who has come there. */
static bool hold_fetches, hold_copies, ending;
static uint32_t fetches, copies;

/* The devices are gone, with what they had; and how often anything was to be had from one. */
static bool gives_nothing;
static uint32_t flushes;

static uint32_t count(const uint32_t *of)
{
	return __atomic_load_n(of, __ATOMIC_ACQUIRE);
}

/* Fetches that have not ended. */
static uint32_t live(void)
{
	return __atomic_load_n(&daemon_poller(d)->fetches.live, __ATOMIC_RELAXED);
}

/* Until all have been let go that can be at once. */
static bool is_held(void)
{
	return __atomic_load_n(&hold_fetches, __ATOMIC_ACQUIRE) &&
	       !(__atomic_load_n(&ending, __ATOMIC_ACQUIRE) && live() <= FETCH_OUT);
}

int __real_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (!strcmp(name, "arax-fetch"))
		__atomic_fetch_add(&fetches, 1, __ATOMIC_ACQ_REL);
	while (!strcmp(name, "arax-fetch") && is_held())
		usleep(100);
	if (__atomic_load_n(&gives_nothing, __ATOMIC_ACQUIRE))
		return -ENODEV;
	return __real_device_copy_out(dev, lane, to, from, bytes);
}

int __real_memory_flush(struct memory *m, struct memory_range *r);
int __wrap_memory_flush(struct memory *m, struct memory_range *r);
int __wrap_memory_flush(struct memory *m, struct memory_range *r)
{
	__atomic_fetch_add(&flushes, 1, __ATOMIC_ACQ_REL);
	return __real_memory_flush(m, r);
}

int __real_host_run(const struct arax_dispatch *d, const struct arax_launch_range *r,
		    const void *args);
int __wrap_host_run(const struct arax_dispatch *d, const struct arax_launch_range *r,
		    const void *args);
int __wrap_host_run(const struct arax_dispatch *d, const struct arax_launch_range *r,
		    const void *args)
{
	__atomic_fetch_add(&copies, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&hold_copies, __ATOMIC_ACQUIRE))
		usleep(100);
	return __real_host_run(d, r, args);
}

/* Nobody looks whether fetches are wanted still, but is asked to. */
static bool unseen;
static uint32_t asked;

void __real_fetch_look(struct poller *p);
void __wrap_fetch_look(struct poller *p);
void __wrap_fetch_look(struct poller *p)
{
	if (__atomic_load_n(&unseen, __ATOMIC_ACQUIRE))
		__atomic_fetch_add(&asked, 1, __ATOMIC_ACQ_REL);
	else
		__real_fetch_look(p);
}

/* Tasks that were ended so, and did not run. */
static uint32_t canceled;

void __real_run_refuse(struct poller *p, struct graph_node *node, int result);
void __wrap_run_refuse(struct poller *p, struct graph_node *node, int result);
void __wrap_run_refuse(struct poller *p, struct graph_node *node, int result)
{
	if (result == -ECANCELED)
		__atomic_fetch_add(&canceled, 1, __ATOMIC_ACQ_REL);
	__real_run_refuse(p, node, result);
}

/* Any device can be rebuilt. */
bool __wrap_device_can_reset(const struct device *dev);
bool __wrap_device_can_reset(const struct device *dev)
{
	(void)dev;
	return true;
}

int __wrap_device_reset(struct device *dev);
int __wrap_device_reset(struct device *dev)
{
	(void)dev;
	return 0;
}

static uint32_t explicit_buffer(uint64_t bytes)
{
	struct arax_buffer_create b = {
		.size = sizeof(b), .flags = ARAX_BUFFER_EXPLICIT, .bytes = bytes, .fd = 0,
	};
	int fd = memfd_sealed(bytes, SEALS);

	ck_assert_int_eq(client_call(&a, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), 0);
	close(fd);
	return b.handle;
}

static void up_with(const char *conf, uint64_t bytes)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "square" };
	uint8_t *data;

	d = daemon_up_with(conf);
	client_open(&a, daemon_path(d));
	ck_assert_int_eq(client_init(&a, 64), 0);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	square = k.id;
	queue = client_queue(&a, ARAX_QUEUE_DATAFLOW);
	x = client_buffer(&a, PAGE, &data, NULL);
	in = (float *)(void *)data;
	y = explicit_buffer(bytes);
	z = client_buffer(&a, PAGE, &data, NULL);
	out = (float *)(void *)data;
	hold_fetches = hold_copies = ending = false;
	gives_nothing = false;
	fetches = copies = 0;
	flushes = 0;
	unseen = false;
	asked = canceled = 0;
}

static void down(void)
{
	client_close(&a);
	daemon_down(d);
}

static void lanes(uint32_t device, bool yes)
{
	struct poller *p = daemon_poller(d);

	daemon_enter(d);
	ck_assert_int_eq(sched_device_set(p->sched, device, yes ? p->devs[device].lanes : 0), 0);
	daemon_leave(d);
}

static struct arax_task *entry(uint8_t opcode, uint32_t q, uint64_t data)
{
	struct arax_task *t = client_entry(&a);

	t->opcode = opcode;
	t->queue = q;
	t->user_data = data;
	return t;
}

static void add_square(uint32_t q, uint32_t from, uint32_t to, uint64_t bytes, uint64_t data)
{
	struct arax_task *t = entry(ARAX_OP_LAUNCH, q, data);
	const uint32_t n = BYTES / sizeof(float);

	t->kernel = square;
	t->nr_ranges = 2;
	t->ranges[0] = whole(from, ARAX_IN, BYTES);
	t->ranges[1] = whole(to, ARAX_OUT, bytes);
	for (int i = 0; i < 3; i++)
		t->grid[i] = t->block[i] = 1;
	t->arg_len = sizeof(n);
	memcpy(t->args, &n, sizeof(n));
	client_publish(&a);
}

/* Of y, to where nobody looks but of the first ones. */
static struct arax_task *copy(uint32_t q, uint32_t to, uint64_t bytes, uint64_t data)
{
	struct arax_task *t = entry(ARAX_OP_COPY, q, data);

	t->nr_ranges = 2;
	t->ranges[0] = whole(y, ARAX_IN, bytes);
	t->ranges[1] = whole(to, ARAX_OUT, bytes);
	return t;
}

static void add_copy(uint32_t q, uint32_t to, uint64_t data)
{
	copy(q, to, BYTES, data);
	client_publish(&a);
}

static struct arax_completion completion_of(uint64_t data)
{
	struct arax_completion done;

	ck_assert(client_completion(&a, &done));
	ck_assert_uint_eq(done.user_data, data);
	return done;
}

static int32_t result_of(uint64_t data)
{
	return completion_of(data).result;
}

static void fill_in(float value)
{
	for (uint32_t i = 0; i < BYTES / sizeof(float); i++)
		in[i] = value;
}

static bool is_out(float value)
{
	for (uint32_t i = 0; i < BYTES / sizeof(float); i++)
		if (out[i] < value || out[i] > value)
			return false;
	return true;
}

static void release(void)
{
	__atomic_store_n(&hold_fetches, false, __ATOMIC_RELEASE);
	__atomic_store_n(&hold_copies, false, __ATOMIC_RELEASE);
}

static bool is_fetching(void)
{
	return comes_true(count(&fetches), 100);
}

/* y is on the device alone, whose link is slow; and what is fetched from now on waits. */
static void up_dirty_with(const char *conf, uint64_t bytes)
{
	struct poller *p;

	up_with(conf, bytes);
	p = daemon_poller(d);
	sim = 0;
	while (!p->devs[sim].dev->info.memory)
		sim++;
	cores = 0;
	while (p->devs[cores].dev->info.memory)
		cores++;
	for (uint32_t i = 0; i < p->nr_devs; i++)
		lanes(i, i == sim);
	fill_in(3);
	add_square(queue, x, y, bytes, 1);
	ck_assert_int_eq(result_of(1), 0);
	for (uint32_t i = 0; i < p->nr_devs; i++)
		lanes(i, true);
	daemon_enter(d);
	memory_set_rates(p->memory, sim, 0, 1, 0, 1);
	daemon_leave(d);
	hold_fetches = true;
}

static void up_dirty(uint64_t bytes)
{
	up_dirty_with(BOTH, bytes);
	ck_assert_uint_eq(daemon_poller(d)->nr_devs, 2);
}

static bool has_deadline(void)
{
	bool has;

	daemon_enter(d);
	has = graph_next_deadline(daemon_poller(d)->links[0]->graph) != UINT64_MAX;
	daemon_leave(d);
	return has;
}

static void cancel(uint64_t data)
{
	struct arax_cancel cn = { .size = sizeof(cn), .user_data = data };

	ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
}

/* The program is about to use y. */
static struct arax_task *marker(uint32_t q, uint64_t bytes, uint64_t data)
{
	struct arax_task *t = entry(ARAX_OP_MARKER, q, data);

	t->nr_ranges = 1;
	t->ranges[0] = whole(y, ARAX_IN, bytes);
	return t;
}

/* What is to end early. */
static void publish_for(enum how how, struct arax_task *t)
{
	struct arax_task_ext *ext = (void *)(a.region + a.layout.arena_offset);

	if (how == DEADLINE) {
		t->flags |= ARAX_TASK_EXT;
		*ext = (struct arax_task_ext){
			.size = sizeof(*ext), .deadline_ns = wait_now_ns() + SOON_NS,
		};
	}
	client_publish(&a);
}

static void add_copy_for(enum how how, uint32_t q, uint64_t bytes, uint64_t data)
{
	publish_for(how, copy(q, bytes > PAGE ? explicit_buffer(bytes) : z, bytes, data));
}

/* Of those that end early some are markers. */
#define KINDS	(2 * (DEADLINE + 1))

static enum how how_of(int kind)
{
	return kind % (DEADLINE + 1);
}

static void add_kind(int kind, uint32_t q, uint64_t bytes, uint64_t data)
{
	if (kind > DEADLINE)
		publish_for(how_of(kind), marker(q, bytes, data));
	else
		add_copy_for(how_of(kind), q, bytes, data);
}

/* It does, and araxd knows of it. */
static int32_t end_it(enum how how, uint64_t data)
{
	if (how == CANCEL) {
		cancel(data);
		ck_assert(comes_true(daemon_runs_canceled(d), 100));
		return -ECANCELED;
	}
	ck_assert(comes_true(!has_deadline(), 1000));
	return -ETIMEDOUT;
}

/* Who waits for bytes keeps no lane from others, and pays for none: a copy, or a launch on cores. */
START_TEST(it_keeps_no_lane)
{
	struct arax_completion done;

	up_dirty(PAGE);
	lanes(sim, false);
	if (_i)
		add_square(queue, y, z, BYTES, 2);
	else
		add_copy(queue, z, 2);
	ck_assert(is_fetching());
	client_fill(&a, queue, client_buffer(&a, PAGE, NULL, NULL), PAGE, 0, 3);
	ck_assert_int_eq(result_of(3), 0);
	usleep(SOON_NS / 1000);
	release();
	done = completion_of(2);
	ck_assert_int_eq(done.result, 0);
	ck_assert_uint_lt(done.device_ns, SOON_NS);
	ck_assert_uint_eq(done.bytes, BYTES);
	ck_assert_uint_eq(done.device, cores);
	ck_assert(is_out(_i ? 81 : 9));
	ck_assert_uint_eq(count(&fetches), 1);
	down();
}
END_TEST

static bool is_queued(void)
{
	bool is;

	daemon_enter(d);
	is = sched_queued(daemon_poller(d)->sched);
	daemon_leave(d);
	return is;
}

/* The only device that runs it is being rebuilt: it brings the bytes itself when it is back. */
START_TEST(it_is_for_a_device_to_come)
{
	struct poller *p;
	uint32_t other;

	up_dirty_with(THREE, PAGE);
	p = daemon_poller(d);
	ck_assert_uint_eq(p->nr_devs, 3);
	other = 3 - sim - cores;
	daemon_enter(d);
	for (uint32_t i = 0; i < 3; i++)
		if (i != other)
			p->runnable[p->links[0]->kernels[square]->index * 3 + i] = RUNNABLE_NOT;
	p->devs[other].lost = true;
	ck_assert_int_eq(sched_device_set(p->sched, other, 0), 0);
	ck_assert(recover_plan(p, &p->devs[other], false));
	daemon_leave(d);
	add_square(queue, y, z, BYTES, 2);
	ck_assert(comes_true(is_queued() || live(), 100));
	ck_assert_uint_eq(live(), 0);
	daemon_enter(d);
	recover_begin(p, &p->devs[other]);
	daemon_leave(d);
	ck_assert_int_eq(result_of(2), 0);
	ck_assert(is_out(81));
	ck_assert_uint_eq(count(&fetches), 0);
	down();
}
END_TEST

static int32_t read_by_marker(uint64_t data)
{
	marker(queue, PAGE, data);
	client_publish(&a);
	return result_of(data);
}

/* It writes over what is lost, and needs nothing of it. */
START_TEST(what_is_lost_is_not_fetched)
{
	struct poller *p;

	up_dirty(PAGE);
	release();
	p = daemon_poller(d);
	__atomic_store_n(&gives_nothing, true, __ATOMIC_RELEASE);
	daemon_enter(d);
	memory_lose(p->memory, sim);
	daemon_leave(d);
	ck_assert_int_eq(read_by_marker(2), -EIO);
	ck_assert_uint_eq(count(&flushes), 1);
	client_fill(&a, queue, y, PAGE, 7, 3);
	ck_assert_int_eq(result_of(3), 0);
	ck_assert_int_eq(read_by_marker(4), 0);
	ck_assert_uint_eq(count(&flushes), 1);
	down();
}
END_TEST

/* A marker is told, too, what was moved for it. */
START_TEST(what_a_marker_moves_counts)
{
	struct arax_completion done;

	up_dirty(LARGE);
	release();
	marker(queue, LARGE, 2);
	client_publish(&a);
	done = completion_of(2);
	ck_assert_int_eq(done.result, 0);
	ck_assert_uint_eq(done.bytes, LARGE);
	/* It is there now. */
	marker(queue, LARGE, 3);
	client_publish(&a);
	ck_assert_uint_eq(completion_of(3).bytes, 0);
	down();
}
END_TEST

/* In the midst of it: no more is fetched than the piece that is on its way. */
START_TEST(it_stops_half_way)
{
	struct arax_completion done;
	int32_t result;

	up_dirty(LARGE);
	add_kind(_i, queue, LARGE, 2);
	ck_assert(is_fetching());
	result = end_it(how_of(_i), 2);
	release();
	done = completion_of(2);
	ck_assert_int_eq(done.result, result);
	/* What has come was moved for it. */
	ck_assert_uint_gt(done.bytes, 0);
	ck_assert_uint_lt(done.bytes, LARGE);
	ck_assert_uint_eq(count(&fetches), 1);
	ck_assert_uint_eq(count(&copies), 0);
	/* Nobody has lost anything. */
	add_copy(queue, z, 3);
	ck_assert_int_eq(result_of(3), 0);
	ck_assert(is_out(9));
	down();
}
END_TEST

/* Before it has had a turn: at once, whatever others wait for. */
START_TEST(it_stops_behind_others)
{
	up_dirty(PAGE);
	for (uint64_t i = 0; i < FETCH_OUT; i++)
		add_copy(queue, client_buffer(&a, PAGE, NULL, NULL), 2);
	add_kind(_i, queue, BYTES, 3);
	/* One before, and one behind it. */
	add_copy(queue, client_buffer(&a, PAGE, NULL, NULL), 2);
	ck_assert(is_fetching());
	if (how_of(_i) == CANCEL)
		cancel(3);
	ck_assert_int_eq(result_of(3), how_of(_i) == CANCEL ? -ECANCELED : -ETIMEDOUT);
	release();
	for (uint64_t i = 0; i < FETCH_OUT + 1; i++)
		ck_assert_int_eq(result_of(2), 0);
	ck_assert_uint_eq(count(&copies), FETCH_OUT + 1);
	down();
}
END_TEST

/* Nobody waits for it any more. */
START_TEST(its_program_ends)
{
	up_dirty(LARGE);
	if (_i) {
		marker(queue, LARGE, 2);
		client_publish(&a);
	} else {
		add_copy_for(CANCEL, queue, LARGE, 2);
	}
	for (uint64_t i = 0; i < 2 * FETCH_OUT; i++)
		add_copy(queue, client_buffer(&a, PAGE, NULL, NULL), 3);
	ck_assert(is_fetching());
	ck_assert(comes_true(live() == 2 * FETCH_OUT + 1, 100));
	client_close(&a);
	ck_assert(comes_true(live() == FETCH_OUT, 100));
	release();
	ck_assert(comes_true(!live(), 100));
	daemon_down(d);
	ck_assert_uint_eq(count(&fetches), 1);
	ck_assert_uint_eq(count(&copies), 0);
}
END_TEST

/*
 * All that it waits for has come before anybody has looked whether it is wanted still; or it was let go
 * as araxd ends, and its program is gone since.
 */
START_TEST(its_program_ends_unseen)
{
	struct poller *p;

	up_dirty(PAGE);
	p = daemon_poller(d);
	add_copy(queue, z, 2);
	ck_assert(is_fetching());
	if (_i) {
		daemon_enter(d);
		p->stopping = true;
		fetch_look(p);
		p->stopping = false;
		daemon_leave(d);
	}
	__atomic_store_n(&unseen, true, __ATOMIC_RELEASE);
	client_close(&a);
	ck_assert(comes_true(count(&asked), 100));
	release();
	ck_assert(comes_true(!live(), 100));
	/* It has ended then, and not only its fetch. */
	daemon_enter(d);
	ck_assert_uint_eq(count(&canceled), 1);
	ck_assert_uint_eq(p->running, 0);
	daemon_leave(d);
	__atomic_store_n(&unseen, false, __ATOMIC_RELEASE);
	daemon_down(d);
	ck_assert_uint_eq(count(&copies), 0);
}
END_TEST

/* Its tasks are for the one that comes next: nothing more is fetched for them. */
START_TEST(araxd_ends)
{
	up_dirty(LARGE);
	add_copy_for(CANCEL, queue, LARGE, 2);
	for (uint64_t i = 0; i < 2 * FETCH_OUT; i++)
		add_copy(queue, client_buffer(&a, PAGE, NULL, NULL), 3);
	ck_assert(is_fetching());
	ck_assert(comes_true(live() == 2 * FETCH_OUT + 1, 100));
	__atomic_store_n(&ending, true, __ATOMIC_RELEASE);
	daemon_down(d);
	client_close(&a);
	ck_assert_uint_eq(count(&fetches), 1);
	ck_assert_uint_eq(count(&copies), 0);
}
END_TEST

/*
 * In another queue its program has them written on the device again, before the task has begun that they
 * were fetched for: it has a lane, and they are fetched anew.
 */
static void race(enum how how)
{
	up_dirty(PAGE);
	release();
	lanes(cores, false);
	add_copy_for(how, client_queue(&a, 0), BYTES, 2);
	ck_assert(is_fetching());
	ck_assert(comes_true(!live(), 100));
	fill_in(5);
	add_square(client_queue(&a, 0), x, y, BYTES, 3);
	ck_assert_int_eq(result_of(3), 0);
	__atomic_store_n(&fetches, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&hold_fetches, true, __ATOMIC_RELEASE);
	lanes(cores, true);
	ck_assert(is_fetching());
}

/* It has the new ones, and pays for its lane. */
START_TEST(bytes_are_written_anew)
{
	struct arax_completion done;

	race(CANCEL);
	usleep(SOON_NS / 1000);
	release();
	done = completion_of(2);
	ck_assert_int_eq(done.result, 0);
	ck_assert(is_out(25));
	ck_assert_uint_eq(done.bytes, 2 * BYTES);
	ck_assert_uint_ge(done.device_ns, SOON_NS);
	down();
}
END_TEST

/* Nor has it begun then. */
START_TEST(it_stops_on_a_lane)
{
	int32_t result;

	race(_i);
	result = end_it(_i, 2);
	release();
	ck_assert_int_eq(result_of(2), result);
	ck_assert_uint_eq(count(&copies), 0);
	down();
}
END_TEST

#define OTHERS	(3 * BYTES)	/* of the one that comes second, to tell them apart */

/* Its tenant may have no more of devices' memory while it is poor; who was refused: bits. */
static bool poor;
static uint32_t refused;

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	(void)arg;
	if ((uint32_t)id != a.context || bytes < 0 || !__atomic_load_n(&poor, __ATOMIC_ACQUIRE))
		return 0;
	__atomic_fetch_or(&refused, bytes == OTHERS ? 2 : 1, __ATOMIC_ACQ_REL);
	return -EDQUOT;
}

static uint64_t limit(void *arg, struct memory_owner owner, uint64_t *left)
{
	(void)arg;
	(void)owner;
	if (left)
		*left = UINT64_MAX;
	return UINT64_MAX;
}

/* Those that were refused wait, and nothing is tried: from now on they come to cores. */
static bool go_to_cores(void)
{
	struct poller *p = daemon_poller(d);
	bool wait;

	daemon_enter(d);
	wait = count(&refused) == 3 && !p->running && !sched_queued(p->sched);
	if (wait) {
		ck_assert_int_eq(sched_device_set(p->sched, sim, 0), 0);
		ck_assert_int_eq(sched_device_set(p->sched, cores, p->devs[cores].lanes), 0);
	}
	daemon_leave(d);
	return wait;
}

/* It was refused its quota, and needs none on cores: who is behind it does not wait for its bytes. */
START_TEST(it_holds_up_nobody_who_waits_for_quota)
{
	const struct memory_owner owner = { .id = ~0ull, .tenant = ~0ull };
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct memory_range held = { .length = 16, .count = 1, .access = ARAX_IN };
	static uint8_t host[PAGE];
	struct memory *m;
	struct arax_task *t;

	up_dirty(PAGE);
	m = daemon_poller(d)->memory;
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	lanes(cores, false);
	daemon_enter(d);
	poor = true;
	memory_set_charge(m, charge, NULL);
	memory_set_limit(m, limit);
	daemon_leave(d);
	/* Else there would be nothing to wait for. */
	held.buffer = memory_buffer_create(m, host, sizeof(host));
	ck_assert_ptr_nonnull(held.buffer);
	ck_assert_int_eq(memory_enter(m, sim, 0, &held, 1, 1, owner), 0);
	add_square(queue, y, z, BYTES, 2);
	ck_assert(comes_true(count(&refused) == 1, 100));
	t = client_spin(&a, k.id, queue, client_buffer(&a, PAGE, NULL, NULL), 1);
	t->ranges[0].length = OTHERS;
	t->user_data = 3;
	client_publish(&a);
	ck_assert(comes_true(go_to_cores(), 100));
	ck_assert_int_eq(result_of(3), 0);
	ck_assert(is_fetching());
	release();
	ck_assert_int_eq(result_of(2), 0);
	ck_assert(is_out(81));
	ck_assert_int_eq(memory_leave(m, sim, 0, &held, 1, 0), 0);
	memory_settle(m, sim, &held, 1, 1);
	memory_buffer_gone(m, held.buffer);
	down();
}
END_TEST

/* A thread of the host's has others' copies first. */
START_TEST(it_stops_behind_a_thread)
{
	int32_t result;

	up_with(NO_CORES, PAGE);
	hold_copies = true;
	add_copy(queue, client_buffer(&a, PAGE, NULL, NULL), 2);
	ck_assert(comes_true(count(&copies), 100));
	add_copy_for(_i, queue, BYTES, 3);
	ck_assert(comes_true(__atomic_load_n(&daemon_poller(d)->stats.handed, __ATOMIC_RELAXED) == 2,
			     100));
	result = end_it(_i, 3);
	release();
	ck_assert_int_eq(result_of(2), 0);
	ck_assert_int_eq(result_of(3), result);
	ck_assert_uint_eq(count(&copies), 1);
	down();
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("all");
	Suite *s = suite_create("fetch");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, it_keeps_no_lane, 0, 2);
	tcase_add_test(t, it_is_for_a_device_to_come);
	tcase_add_test(t, what_is_lost_is_not_fetched);
	tcase_add_test(t, what_a_marker_moves_counts);
	tcase_add_loop_test(t, it_stops_half_way, 0, KINDS);
	tcase_add_loop_test(t, it_stops_behind_others, 0, KINDS);
	tcase_add_loop_test(t, its_program_ends, 0, 2);
	tcase_add_loop_test(t, its_program_ends_unseen, 0, 2);
	tcase_add_test(t, araxd_ends);
	tcase_add_test(t, bytes_are_written_anew);
	tcase_add_loop_test(t, it_stops_on_a_lane, CANCEL, DEADLINE + 1);
	tcase_add_test(t, it_holds_up_nobody_who_waits_for_quota);
	tcase_add_loop_test(t, it_stops_behind_a_thread, CANCEL, DEADLINE + 1);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
