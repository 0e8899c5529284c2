// SPDX-License-Identifier: MIT
/*
 * Tasks that wait for their tenant's device memory (daemon/dispatch/quota.h), and who need not; and
 * for room on a device, or for it to be configured.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch/gate.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/why.h"
#include "daemon/memory/memory.h"
#include "daemon/reason.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/wait.h"

#define PAGE	4096u
#define BYTES	64	/* of a task of client_spin() */
#define LARGE	(16u << 20)	/* that one device alone takes */
#define TASKS	16u	/* more than the devices have lanes and places behind them */

static struct bench_daemon *d;
static struct client a, b;
static uint32_t kernel, queue, other_queue;

/*
 * Of the context of @a, which may have @max; others have what they like.  @refused: see submit().
 * Who asks waits until @stall_until.  @granted: who was given so many, one after the other.
 */
static struct {
	int64_t used, max;
	uint32_t refused, refusals, large_refusals;
	uint64_t stall_until;
	int64_t granted[2 * TASKS];
	uint32_t grants;
} quota;

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	int64_t used;

	(void)arg;
	if ((uint32_t)id != a.context)
		return 0;
	while (wait_now_ns() < __atomic_load_n(&quota.stall_until, __ATOMIC_RELAXED))
		usleep(1000);
	used = __atomic_add_fetch(&quota.used, bytes, __ATOMIC_RELAXED);
	if (bytes < 0)
		return 0;
	if (used <= __atomic_load_n(&quota.max, __ATOMIC_RELAXED)) {
		uint32_t i = __atomic_fetch_add(&quota.grants, 1, __ATOMIC_RELAXED);

		__atomic_store_n(&quota.granted[i % (2 * TASKS)], bytes, __ATOMIC_RELAXED);
		return 0;
	}
	__atomic_sub_fetch(&quota.used, bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&quota.refusals, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&quota.large_refusals, bytes >= LARGE, __ATOMIC_RELAXED);
	if (bytes >= BYTES && bytes < BYTES + TASKS)
		__atomic_or_fetch(&quota.refused, 1u << (bytes - BYTES), __ATOMIC_RELAXED);
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

/* A task of somebody's that holds something, so that there is something to wait for. */
static uint8_t host[PAGE];
static struct memory_buffer *held;
static struct memory_range range;

static struct memory *memory(void)
{
	return daemon_poller(d)->memory;
}

static void hold(void)
{
	const struct memory_owner owner = { .id = ~0ull, .tenant = ~0ull };

	held = memory_buffer_create(memory(), host, sizeof(host));
	ck_assert_ptr_nonnull(held);
	range = (struct memory_range){
		.buffer = held, .length = 16, .count = 1, .access = ARAX_IN,
	};
	ck_assert_int_eq(memory_enter(memory(), 0, 0, &range, 1, 1, owner), 0);
}

static void let_go(void)
{
	ck_assert_int_eq(memory_leave(memory(), 0, 0, &range, 1, 0), 0);
	memory_settle(memory(), 0, &range, 1, 1);
	memory_buffer_gone(memory(), held);
}

static void up_with(const char *conf)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };

	d = daemon_up_with(conf);
	memory_set_charge(memory(), charge, &quota);
	memory_set_limit(memory(), limit);
	memset(&quota, 0, sizeof(quota));
	client_open(&a, daemon_path(d));
	ck_assert_int_eq(client_init(&a, 64), 0);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	kernel = k.id;
	queue = client_queue(&a, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	client_open(&b, daemon_path(d));
	ck_assert_int_eq(client_init(&b, 64), 0);
	ck_assert_int_eq(CALL(&b, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	ck_assert_uint_eq(k.id, kernel);
	other_queue = client_queue(&b, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	ck_assert_uint_ne(a.context, b.context);
	hold();
}

static void up(void)
{
	up_with("cpu { memory = \"8M\" }");
}

/* A device that takes more than the others do. */
static void up_with_large(void)
{
	up_with("cpu { memory = \"8M\" }\n"
		"backend \"sim\" { options = { \"memory=33554432\", \"base-us=1\", \"latency-us=1\" } }");
}

static void down(void)
{
	client_close(&b);
	daemon_down(d);
}

static struct arax_task *task(struct client *c, uint64_t data)
{
	struct arax_task *t = client_spin(c, kernel, c == &a ? queue : other_queue,
					  client_buffer(c, PAGE, NULL, NULL), 1);

	t->user_data = data;
	return t;
}

static uint64_t ends(struct client *c, int32_t result)
{
	struct arax_completion done;

	ck_assert(client_completion(c, &done));
	ck_assert_int_eq(done.result, result);
	return done.user_data;
}

static uint32_t running(void)
{
	uint32_t n;

	daemon_enter(d);
	n = daemon_poller(d)->running;
	daemon_leave(d);
	return n;
}

static bool nothing_runs(void)
{
	return !running();
}

/* Tasks of @a with as many bytes and more, one after the other: all are refused, and wait. */
static void submit_beside(uint32_t n, uint32_t others)
{
	for (uint32_t i = 0; i < n; i++) {
		task(&a, i)->ranges[0].length += i;
		client_publish(&a);
		ck_assert(comes_true(__atomic_load_n(&quota.refused, __ATOMIC_RELAXED) >> i & 1 &&
				     running() == others, 100));
	}
}

static void submit(uint32_t n)
{
	submit_beside(n, 0);
}

/* However many wait, and for however long: the devices are others' meanwhile. */
START_TEST(who_waits_keeps_no_lane)
{
	uint64_t seen = 0;
	uint32_t i;

	submit(TASKS);
	for (i = 0; i < TASKS; i++) {
		task(&b, i);
		client_publish(&b);
		ends(&b, 0);
	}
	ck_assert(!client_has_completion(&a));
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	for (i = 0; i < TASKS; i++)
		seen |= 1ull << ends(&a, 0);
	ck_assert_uint_eq(seen, (1ull << TASKS) - 1);
	client_close(&a);
}
END_TEST

/* Nobody who was refused later goes first. */
START_TEST(in_the_order_in_which_they_came)
{
	uint32_t i;

	submit(TASKS);
	/* As much as one of them has. */
	__atomic_store_n(&quota.max, BYTES + TASKS, __ATOMIC_RELAXED);
	let_go();
	for (i = 0; i < TASKS; i++)
		ck_assert_uint_eq(ends(&a, 0), i);
	client_close(&a);
}
END_TEST

static char told[REASON_LEN];	/* why a task came too late, if it had begun to */
static bool tells;

void __real_why_tell(struct link *l, const struct graph_node *node, const struct kernel *k,
		     const char *device, int result, const char *reason);
void __wrap_why_tell(struct link *l, const struct graph_node *node, const struct kernel *k,
		     const char *device, int result, const char *reason);
void __wrap_why_tell(struct link *l, const struct graph_node *node, const struct kernel *k,
		     const char *device, int result, const char *reason)
{
	if (result == -ETIMEDOUT) {
		strcpy(told, reason);
		tells = true;
	}
	__real_why_tell(l, node, k, device, result, reason);
}

/* By when it is to have begun, whatever it waits for; also if that is while it is refused. */
START_TEST(deadlines_hold)
{
	struct arax_task_ext *x = (void *)(a.region + a.layout.arena_offset);
	struct arax_task *t = task(&a, 1);

	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->deadline_ns = wait_now_ns() + 300000000;
	/* The poller wakes up for it in between. */
	__atomic_store_n(&quota.stall_until, _i ? x->deadline_ns + 50000000 : 0, __ATOMIC_RELAXED);
	t->flags |= ARAX_TASK_EXT;
	client_publish(&a);
	ck_assert_uint_eq(ends(&a, -ETIMEDOUT), 1);
	daemon_enter(d);
	ck_assert(!tells || strstr(told, "device_memory.max"));
	daemon_leave(d);
	let_go();
	client_close(&a);
}
END_TEST

START_TEST(who_waits_can_be_canceled)
{
	struct arax_cancel cn = { .size = sizeof(cn), .user_data = 2 };

	submit(4);
	ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
	ck_assert_uint_eq(ends(&a, -ECANCELED), 2);
	cn.user_data = 0;
	ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
	ck_assert_uint_eq(ends(&a, -ECANCELED), 0);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	ck_assert_uint_eq(ends(&a, 0) + ends(&a, 0), 1 + 3);
	client_close(&a);
}
END_TEST

START_TEST(its_context_goes)
{
	submit(4);
	client_close(&a);
	task(&b, 5);
	client_publish(&b);
	ck_assert_uint_eq(ends(&b, 0), 5);
	let_go();
}
END_TEST

/* As it ends: what waits is not run any more. */
START_TEST(araxd_ends)
{
	submit(4);
	let_go();
	client_close(&a);
}
END_TEST

/* A limit was raised: nobody's end tells of that. */
START_TEST(a_limit_is_raised)
{
	submit(2);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	ck_assert_uint_eq(ends(&a, 0) + ends(&a, 0), 0 + 1);
	let_go();
	client_close(&a);
}
END_TEST

/* Of each tenant and those above it, without a charge. */
START_TEST(links_tell_what_is_left)
{
	struct poller *p = daemon_poller(d);
	struct link *l = p->links[0];
	uint64_t ids[16], before[16], left;
	uint32_t i, n, at = 0, changed = 0;

	/* Its tenant is known then. */
	task(&b, 1);
	client_publish(&b);
	ends(&b, 0);
	daemon_enter(d);
	n = sched_tenants(p->sched, &at, ids, 16);
	daemon_leave(d);
	for (i = 0; i < n; i++)
		ck_assert_uint_eq(l->ops->limit(l, ids[i], &before[i]), ARAX_LIMIT_MAX);
	ck_assert_int_eq(l->ops->charge(l, ARAX_RES_DEVICE_MEMORY, b.context, BYTES), 0);
	for (i = 0; i < n; i++) {
		l->ops->limit(l, ids[i], &left);
		ck_assert(left == before[i] || left == before[i] - BYTES);
		changed += left != before[i];
	}
	ck_assert_uint_gt(changed, 0);
	ck_assert_int_eq(l->ops->charge(l, ARAX_RES_DEVICE_MEMORY, b.context, -BYTES), 0);
	let_go();
	client_close(&a);
}
END_TEST

#define ROOM	(8u << 20)
#define DEVICES	64

static uint8_t all[ROOM];
static struct memory_range held_all[DEVICES];

static uint64_t waits(void)
{
	struct memory_stats s;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < daemon_poller(d)->nr_devs; i++) {
		memory_query(memory(), i, &s);
		sum += s.waits;
	}
	return sum;
}

/* A task of @a that may have what it likes; it is to begin within @in_ns, if that is not 0. */
static void submit_for(uint64_t in_ns)
{
	struct arax_task_ext *x = (void *)(a.region + a.layout.arena_offset);
	struct arax_task *t = task(&a, 1);

	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->deadline_ns = in_ns ? wait_now_ns() + in_ns : 0;
	t->flags |= ARAX_TASK_EXT;
	client_publish(&a);
}

/* Somebody has all memory of all devices, and a task of @a waits for some. */
static void wait_for_room(uint64_t in_ns)
{
	const struct memory_owner owner = { .id = ~0ull, .tenant = ~0ull };

	let_go();
	held = memory_buffer_create(memory(), all, sizeof(all));
	ck_assert_ptr_nonnull(held);
	ck_assert_uint_le(daemon_poller(d)->nr_devs, DEVICES);
	for (uint32_t i = 0; i < daemon_poller(d)->nr_devs; i++) {
		held_all[i] = (struct memory_range){
			.buffer = held, .length = sizeof(all), .count = 1, .access = ARAX_IN,
		};
		ck_assert_int_eq(memory_enter(memory(), i, 0, &held_all[i], 1, 1, owner), 0);
	}
	submit_for(in_ns);
	/* Or its time has come even before. */
	ck_assert(comes_true(waits() || (in_ns && client_has_completion(&a)), 100));
}

static void have_room(void)
{
	for (uint32_t i = 0; i < daemon_poller(d)->nr_devs; i++) {
		ck_assert_int_eq(memory_leave(memory(), i, 0, &held_all[i], 1, 0), 0);
		memory_settle(memory(), i, &held_all[i], 1, 1);
	}
	memory_buffer_gone(memory(), held);
}

static void cancel(bool all)
{
	struct arax_cancel cn = { .size = sizeof(cn), .user_data = 1 };

	if (all) {
		cn.user_data = 0;
		cn.queue = queue;
		cn.flags = ARAX_CANCEL_QUEUE;
	}
	ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
}

/* It has come as far as its device, and has not begun. */
START_TEST(who_waits_for_room_can_be_canceled)
{
	wait_for_room(0);
	cancel(_i);
	ck_assert_uint_eq(ends(&a, -ECANCELED), 1);
	have_room();
	client_close(&a);
}
END_TEST

START_TEST(nor_does_it_wait_beyond_its_deadline)
{
	wait_for_room(300000000);
	ck_assert_uint_eq(ends(&a, -ETIMEDOUT), 1);
	have_room();
	client_close(&a);
}
END_TEST

START_TEST(nor_for_nobody)
{
	wait_for_room(0);
	client_close(&a);
	ck_assert(comes_true(nothing_runs(), 100));
	have_room();
}
END_TEST

/* A device to which nobody comes until it is open again. */
struct closed {
	struct gate *gate;
	pthread_t thread;
	bool is, open;
};

static int stay(void *arg)
{
	struct closed *c = arg;

	__atomic_store_n(&c->is, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&c->open, __ATOMIC_ACQUIRE))
		usleep(100);
	return 0;
}

static void *close_gate(void *arg)
{
	struct closed *c = arg;

	if (!gate_enter(c->gate, 1, 0, stay, c, NULL))
		gate_leave(c->gate);
	return NULL;
}

static struct closed gates[DEVICES];

static uint32_t wait_at_gates(void)
{
	struct poller *p = daemon_poller(d);
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nr_devs; i++)
		n += gate_waiting(p->devs[i].gate);
	return n;
}

/* All devices are being configured, and a task of @a waits for one. */
static void wait_at_gate(uint64_t in_ns)
{
	struct poller *p = daemon_poller(d);
	uint32_t i;

	let_go();
	daemon_enter(d);
	ck_assert_uint_le(p->nr_devs, DEVICES);
	for (i = 0; i < p->nr_devs; i++) {
		ck_assert_int_eq(gate_create(&p->devs[i].gate), 0);
		gates[i] = (struct closed){ .gate = p->devs[i].gate };
	}
	daemon_leave(d);
	for (i = 0; i < p->nr_devs; i++) {
		ck_assert_int_eq(pthread_create(&gates[i].thread, NULL, close_gate, &gates[i]), 0);
		ck_assert(comes_true(__atomic_load_n(&gates[i].is, __ATOMIC_ACQUIRE), 100));
	}
	submit_for(in_ns);
	ck_assert(comes_true(wait_at_gates() || (in_ns && client_has_completion(&a)), 100));
}

static void open_gates(void)
{
	for (uint32_t i = 0; i < daemon_poller(d)->nr_devs; i++) {
		__atomic_store_n(&gates[i].open, true, __ATOMIC_RELEASE);
		pthread_join(gates[i].thread, NULL);
	}
}

/* Likewise. */
START_TEST(who_waits_at_a_gate_can_be_canceled)
{
	wait_at_gate(0);
	cancel(_i);
	ck_assert_uint_eq(ends(&a, -ECANCELED), 1);
	open_gates();
	client_close(&a);
}
END_TEST

START_TEST(he_has_his_deadline)
{
	wait_at_gate(300000000);
	ck_assert_uint_eq(ends(&a, -ETIMEDOUT), 1);
	open_gates();
	client_close(&a);
}
END_TEST

START_TEST(his_context_goes)
{
	wait_at_gate(0);
	client_close(&a);
	ck_assert(comes_true(nothing_runs(), 100));
	open_gates();
}
END_TEST

static int configure(void *arg)
{
	++*(int *)arg;
	return 0;
}

/* What devices are configured for, if they are; and whether that is under way. */
static uint32_t configuration;
static bool configures, may_configure;

uint32_t __real_runner_configuration(struct runner *r, const struct kernel *k);
uint32_t __wrap_runner_configuration(struct runner *r, const struct kernel *k);
uint32_t __wrap_runner_configuration(struct runner *r, const struct kernel *k)
{
	uint32_t c = __atomic_load_n(&configuration, __ATOMIC_RELAXED);

	return c ? c : __real_runner_configuration(r, k);
}

int __real_runner_configure(struct runner *r, const struct kernel *k);
int __wrap_runner_configure(struct runner *r, const struct kernel *k);
int __wrap_runner_configure(struct runner *r, const struct kernel *k)
{
	if (!__atomic_load_n(&configuration, __ATOMIC_RELAXED))
		return __real_runner_configure(r, k);
	__atomic_store_n(&configures, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_configure, __ATOMIC_ACQUIRE))
		usleep(100);
	return 0;
}

static bool is_canceled(void)
{
	struct poller *p = daemon_poller(d);
	bool is = false;

	daemon_enter(d);
	for (uint32_t i = 0; i < p->nr_devs; i++)
		for (struct run *run = p->devs[i].runs; run < run_end(&p->devs[i]); run++)
			is |= run->node && __atomic_load_n(&run->until.canceled, __ATOMIC_RELAXED);
	daemon_leave(d);
	return is;
}

/* Nor does who has a device configured for itself meanwhile run there. */
START_TEST(nor_does_he_run)
{
	struct poller *p = daemon_poller(d);
	int configured = 0;
	uint32_t i;

	let_go();
	configures = false;
	may_configure = false;
	daemon_enter(d);
	for (i = 0; i < p->nr_devs; i++)
		ck_assert_int_eq(gate_create(&p->devs[i].gate), 0);
	__atomic_store_n(&configuration, 1, __ATOMIC_RELAXED);
	daemon_leave(d);
	submit_for(0);
	ck_assert(comes_true(__atomic_load_n(&configures, __ATOMIC_ACQUIRE), 100));
	cancel(_i);
	ck_assert(comes_true(is_canceled(), 100));
	__atomic_store_n(&may_configure, true, __ATOMIC_RELEASE);
	ck_assert_uint_eq(ends(&a, -ECANCELED), 1);
	__atomic_store_n(&configuration, 0, __ATOMIC_RELAXED);
	/* Nobody is inside. */
	for (i = 0; i < p->nr_devs; i++) {
		ck_assert_int_eq(gate_enter(p->devs[i].gate, 2, 0, configure, &configured, NULL),
				 0);
		gate_leave(p->devs[i].gate);
	}
	ck_assert_uint_eq(configured, p->nr_devs);
	client_close(&a);
}
END_TEST

/* A device gives nothing of what it has. */
static bool gives_nothing;

int __real_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes);
int __wrap_device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
			   uint64_t bytes)
{
	if (__atomic_load_n(&gives_nothing, __ATOMIC_ACQUIRE))
		return -EIO;
	return __real_device_copy_out(dev, lane, to, from, bytes);
}

static uint32_t explicit_buffer(struct client *c)
{
	struct arax_buffer_create b = {
		.size = sizeof(b), .flags = ARAX_BUFFER_EXPLICIT, .bytes = PAGE, .fd = 0,
	};
	int fd = memfd_sealed(PAGE, SEALS);

	ck_assert_int_eq(client_call(c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), 0);
	close(fd);
	return b.handle;
}

/* The program of @b is about to look at the bytes. */
static int32_t look_at(uint32_t buffer)
{
	struct arax_task *t = client_entry(&b);
	struct arax_completion done;

	t->opcode = ARAX_OP_MARKER;
	t->nr_ranges = 1;
	t->queue = other_queue;
	t->ranges[0] = whole(buffer, ARAX_IN, BYTES);
	client_publish(&b);
	ck_assert(client_completion(&b, &done));
	return done.result;
}

/* It is configured for others all the same: they are not to fail for what one has there. */
START_TEST(who_cannot_be_saved_is_lost)
{
	struct poller *p = daemon_poller(d);
	uint32_t i, buffer;

	let_go();
	gives_nothing = false;
	may_configure = true;
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	daemon_enter(d);
	for (i = 0; i < p->nr_devs; i++) {
		ck_assert_int_eq(gate_create(&p->devs[i].gate), 0);
		/* All come to the same one. */
		if (i)
			ck_assert_int_eq(sched_device_set(p->sched, i, 0), 0);
	}
	__atomic_store_n(&configuration, 1, __ATOMIC_RELAXED);
	daemon_leave(d);
	buffer = explicit_buffer(&b);
	client_spin(&b, kernel, other_queue, buffer, 1);
	client_publish(&b);
	ends(&b, 0);
	__atomic_store_n(&gives_nothing, true, __ATOMIC_RELEASE);
	__atomic_store_n(&configuration, 2, __ATOMIC_RELAXED);
	client_spin(&a, kernel, queue, explicit_buffer(&a), 1);
	client_publish(&a);
	ends(&a, 0);
	ck_assert_int_eq(look_at(buffer), -EIO);
	__atomic_store_n(&gives_nothing, false, __ATOMIC_RELEASE);
	ck_assert_int_eq(look_at(buffer), -EIO);
	/* Until it is written anew. */
	client_fill(&b, other_queue, buffer, BYTES, 1, 0);
	ends(&b, 0);
	ck_assert_int_eq(look_at(buffer), 0);
	__atomic_store_n(&configuration, 0, __ATOMIC_RELAXED);
	client_close(&a);
}
END_TEST

/* Nor is it inside of a device that others want to have configured for them. */
START_TEST(who_waits_is_not_inside)
{
	struct poller *p = daemon_poller(d);
	int configured = 0;
	uint32_t i;

	daemon_enter(d);
	for (i = 0; i < p->nr_devs; i++)
		ck_assert_int_eq(gate_create(&p->devs[i].gate), 0);
	daemon_leave(d);
	submit(4);
	for (i = 0; i < p->nr_devs; i++) {
		ck_assert_int_eq(gate_enter(p->devs[i].gate, 1, 0, configure, &configured, NULL),
				 0);
		gate_leave(p->devs[i].gate);
	}
	ck_assert_uint_eq(configured, p->nr_devs);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	for (i = 0; i < 4; i++)
		ends(&a, 0);
	client_close(&a);
}
END_TEST

/* The one that takes more than the others do. */
static uint32_t large_device(void)
{
	struct poller *p = daemon_poller(d);
	uint32_t i = 0;

	while (i < p->nr_devs && p->devs[i].dev->info.memory < LARGE)
		i++;
	ck_assert_uint_lt(i, p->nr_devs);
	return i;
}

/* A task that only the large device takes is refused, and waits. */
static void submit_large(void)
{
	struct arax_task *t = client_spin(&a, kernel, queue,
					  client_buffer(&a, LARGE, NULL, NULL), 1);

	t->ranges[0].length = LARGE;
	t->user_data = 100;
	client_publish(&a);
	ck_assert(comes_true(__atomic_load_n(&quota.refusals, __ATOMIC_RELAXED) && nothing_runs(),
			     100));
}

/* Its turn has come, but its device has no time: who can run on others need not wait for that. */
START_TEST(busy_devices_hold_up_nobody_else)
{
	const uint32_t i = large_device();
	struct poller *p = daemon_poller(d);
	struct closed c = { 0 };

	daemon_enter(d);
	ck_assert_int_eq(gate_create(&p->devs[i].gate), 0);
	c.gate = p->devs[i].gate;
	daemon_leave(d);
	submit_large();
	submit(1);
	ck_assert_int_eq(pthread_create(&c.thread, NULL, close_gate, &c), 0);
	ck_assert(comes_true(__atomic_load_n(&c.is, __ATOMIC_ACQUIRE), 100));
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	ck_assert_uint_eq(ends(&a, 0), 0);
	__atomic_store_n(&c.open, true, __ATOMIC_RELEASE);
	pthread_join(c.thread, NULL);
	ck_assert_uint_eq(ends(&a, 0), 100);
	client_close(&a);
}
END_TEST

/* None of the large device's lanes is the scheduler's, or all are. */
static void set_lanes(bool any)
{
	const uint32_t i = large_device();
	struct poller *p = daemon_poller(d);
	bool done = false;

	while (!done) {
		daemon_enter(d);
		done = !p->running || any;
		if (done)
			ck_assert_int_eq(sched_device_set(p->sched, i, any ? p->devs[i].lanes : 0), 0);
		daemon_leave(d);
	}
}

static bool only_one_is_queued(void)
{
	bool is;

	daemon_enter(d);
	is = !daemon_poller(d)->running && sched_queued(daemon_poller(d)->sched) == 1;
	daemon_leave(d);
	return is;
}

/* However many of them there are, while it is not quota that it waits for. */
START_TEST(nor_however_many)
{
	submit_large();
	submit(TASKS);
	set_lanes(false);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	for (uint32_t i = 0; i < TASKS; i++)
		ck_assert_uint_lt(ends(&a, 0), TASKS);
	set_lanes(true);
	ck_assert_uint_eq(ends(&a, 0), 100);
	client_close(&a);
}
END_TEST

static bool waits_at(uint32_t device)
{
	struct poller_device *pd = &daemon_poller(d)->devs[device];
	bool waits = false;

	daemon_enter(d);
	for (struct run *run = pd->runs; run < run_end(pd); run++)
		waits |= run->node && __atomic_load_n(&run->until.waits, __ATOMIC_RELAXED);
	daemon_leave(d);
	return waits;
}

/* Nor if it has come to its device, and waits there: for it to be configured, or for room. */
START_TEST(nor_where_it_waits)
{
	const struct memory_owner owner = { .id = ~0ull, .tenant = ~0ull };
	const uint32_t device = large_device();
	struct poller *p = daemon_poller(d);
	const uint64_t bytes = p->devs[device].dev->info.memory;
	struct memory_range room = { .length = bytes, .count = 1, .access = ARAX_IN };
	struct closed c = { 0 };
	uint8_t *pages = calloc(1, bytes);

	ck_assert_ptr_nonnull(pages);
	daemon_enter(d);
	if (!_i)
		ck_assert_int_eq(gate_create(&p->devs[device].gate), 0);
	c.gate = p->devs[device].gate;
	/* Nobody else comes there. */
	ck_assert_int_eq(sched_device_set(p->sched, device, 1), 0);
	daemon_leave(d);
	submit_large();
	if (_i) {
		room.buffer = memory_buffer_create(memory(), pages, bytes);
		ck_assert_ptr_nonnull(room.buffer);
		ck_assert_int_eq(memory_enter(memory(), device, 0, &room, 1, 1, owner), 0);
	} else {
		ck_assert_int_eq(pthread_create(&c.thread, NULL, close_gate, &c), 0);
		ck_assert(comes_true(__atomic_load_n(&c.is, __ATOMIC_ACQUIRE), 100));
	}
	ck_assert(comes_true(waits_at(device), 100));
	submit_beside(TASKS, 1);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	let_go();
	for (uint32_t i = 0; i < TASKS; i++)
		ck_assert_uint_lt(ends(&a, 0), TASKS);
	if (_i) {
		ck_assert_int_eq(memory_leave(memory(), device, 0, &room, 1, 0), 0);
		memory_settle(memory(), device, &room, 1, 1);
		memory_buffer_gone(memory(), room.buffer);
	} else {
		__atomic_store_n(&c.open, true, __ATOMIC_RELEASE);
		pthread_join(c.thread, NULL);
	}
	ck_assert_uint_eq(ends(&a, 0), 100);
	client_close(&a);
	free(pages);
}
END_TEST

/* But once it has come to its device in vain it is the next one, whatever it waits for. */
START_TEST(who_has_come_in_vain_is_next)
{
	uint32_t i, refusals, grants;

	submit_large();
	submit(TASKS);
	set_lanes(false);
	/* As much as one of them has. */
	__atomic_store_n(&quota.max, BYTES + TASKS, __ATOMIC_RELAXED);
	for (i = 0; i < 8; i++)
		ck_assert_uint_eq(ends(&a, 0), i);
	__atomic_store_n(&quota.max, 0, __ATOMIC_RELAXED);
	set_lanes(true);
	refusals = __atomic_load_n(&quota.large_refusals, __ATOMIC_RELAXED);
	ck_assert(comes_true(__atomic_load_n(&quota.large_refusals, __ATOMIC_RELAXED) >=
			     refusals + 2, 100));
	set_lanes(false);
	ck_assert(comes_true(only_one_is_queued(), 100));
	/* Others may have been on their way. */
	for (; client_has_completion(&a); i++)
		ends(&a, 0);
	grants = __atomic_load_n(&quota.grants, __ATOMIC_RELAXED);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	/* Time for whoever would not wait. */
	usleep(200000);
	ck_assert(!client_has_completion(&a));
	set_lanes(true);
	for (; i < TASKS + 1; i++)
		ends(&a, 0);
	ck_assert_int_ge(__atomic_load_n(&quota.granted[grants % (2 * TASKS)], __ATOMIC_RELAXED), LARGE);
	let_go();
	client_close(&a);
}
END_TEST

/* They have what would be its own, but not for ever. */
START_TEST(who_can_run_elsewhere_goes_first_so_often)
{
	uint32_t i, at = TASKS + 1;

	submit_large();
	submit(TASKS);
	__atomic_store_n(&quota.max, BYTES + TASKS, __ATOMIC_RELAXED);
	for (i = 0; i < 8; i++)
		ck_assert_uint_eq(ends(&a, 0), i);
	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	for (; i < TASKS + 1; i++)
		ends(&a, 0);
	for (i = 0; i < TASKS + 1; i++)
		if (__atomic_load_n(&quota.granted[i], __ATOMIC_RELAXED) >= LARGE)
			at = i;
	ck_assert_uint_eq(at, 8);
	let_go();
	client_close(&a);
}
END_TEST

/* Whether devices take several launches, of which each has to be run by itself. */
static bool orders_launches;

uint32_t __real_device_depth(const struct device *dev);
uint32_t __wrap_device_depth(const struct device *dev);
uint32_t __wrap_device_depth(const struct device *dev)
{
	return orders_launches ? ARAX_LANE_DEPTH : __real_device_depth(dev);
}

int __wrap_device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie);
int __wrap_device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	(void)dev;
	(void)run;
	(void)cookie;
	return -EAGAIN;
}

static uint32_t run_by_poller, known_as_entered;	/* atomic */

static int run_short(void *top, struct arax_backend_run *run)
{
	char name[16] = "";

	(void)top;
	(void)run;
	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (strcmp(name, "arax-poll"))
		return 0;
	__atomic_fetch_add(&run_by_poller, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&known_as_entered,
			   __atomic_load_n(&daemon_poller(d)->quota.entered, __ATOMIC_RELAXED),
			   __ATOMIC_RELAXED);
	return 0;
}

static void up_to_order(void)
{
	orders_launches = true;
	up_with("loop { inline_us = 10000 }\ncpu { enable = false }\n"
		"backend \"sim\" { options = { \"lanes=1\", \"memory=8388608\", \"latency-us=1\" } }");
	daemon_enter(d);
	daemon_poller(d)->devs[0].dev->run = run_short;
	daemon_leave(d);
}

/* With all that it needs there it is run at once: its tenant's next one need not wait for that. */
START_TEST(who_is_ready_has_entered)
{
	uint32_t buffer = explicit_buffer(&a), refusals;

	__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
	/* Until it is known as short, and its data is there. */
	for (uint32_t i = 0; i < 20; i++) {
		client_spin(&a, kernel, queue, buffer, 1);
		client_publish(&a);
		ends(&a, 0);
	}
	__atomic_store_n(&run_by_poller, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&known_as_entered, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; !__atomic_load_n(&run_by_poller, __ATOMIC_RELAXED); i++) {
		ck_assert_uint_lt(i, 100);
		refusals = __atomic_load_n(&quota.refusals, __ATOMIC_RELAXED);
		__atomic_store_n(&quota.max, 0, __ATOMIC_RELAXED);
		client_spin(&a, kernel, queue, buffer, 1);
		client_publish(&a);
		ck_assert(comes_true(nothing_runs() &&
				     __atomic_load_n(&quota.refusals, __ATOMIC_RELAXED) > refusals + 1,
				     100));
		__atomic_store_n(&quota.max, INT64_MAX, __ATOMIC_RELAXED);
		ends(&a, 0);
	}
	ck_assert_uint_eq(__atomic_load_n(&known_as_entered, __ATOMIC_RELAXED),
			  __atomic_load_n(&run_by_poller, __ATOMIC_RELAXED));
	let_go();
	client_close(&a);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("all"), *large = tcase_create("large");
	TCase *order = tcase_create("order");
	Suite *s = suite_create("quota");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, up, down);
	tcase_add_test(t, who_waits_keeps_no_lane);
	tcase_add_test(t, in_the_order_in_which_they_came);
	tcase_add_loop_test(t, deadlines_hold, 0, 2);
	tcase_add_test(t, who_waits_can_be_canceled);
	tcase_add_test(t, its_context_goes);
	tcase_add_test(t, araxd_ends);
	tcase_add_test(t, a_limit_is_raised);
	tcase_add_test(t, links_tell_what_is_left);
	tcase_add_test(t, who_waits_is_not_inside);
	tcase_add_loop_test(t, who_waits_for_room_can_be_canceled, 0, 2);
	tcase_add_test(t, nor_does_it_wait_beyond_its_deadline);
	tcase_add_test(t, nor_for_nobody);
	tcase_add_loop_test(t, who_waits_at_a_gate_can_be_canceled, 0, 2);
	tcase_add_test(t, he_has_his_deadline);
	tcase_add_test(t, his_context_goes);
	tcase_add_loop_test(t, nor_does_he_run, 0, 2);
	tcase_add_test(t, who_cannot_be_saved_is_lost);
	suite_add_tcase(s, t);
	tcase_set_timeout(large, 300);
	tcase_add_checked_fixture(large, up_with_large, down);
	tcase_add_test(large, busy_devices_hold_up_nobody_else);
	tcase_add_test(large, nor_however_many);
	tcase_add_loop_test(large, nor_where_it_waits, 0, 2);
	tcase_add_test(large, who_has_come_in_vain_is_next);
	tcase_add_test(large, who_can_run_elsewhere_goes_first_so_often);
	suite_add_tcase(s, large);
	tcase_set_timeout(order, 300);
	tcase_add_checked_fixture(order, up_to_order, down);
	tcase_add_test(order, who_is_ready_has_entered);
	suite_add_tcase(s, order);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
