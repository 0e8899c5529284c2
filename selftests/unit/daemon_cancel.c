// SPDX-License-Identifier: MIT
/*
 * Tasks that are canceled while a device has them, and would begin anew on another one; those that
 * find none; and devices that were lost under them.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch/decline.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/recover.h"
#include "daemon/dispatch/run.h"
#include "daemon/memory/guard.h"
#include "daemon/memory/internal.h"
#include "daemon/memory/mapping.h"
#include "daemon/observe/trace.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/tmp.h"
#include "selftests/unit/wait.h"

#define PAGE	4096u

#define CONF	"cpu { enable = false }\n" \
		"backend \"sim\" { options = { \"devices=%d\", \"lanes=1\", \"memory=8388608\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"
/* One that takes launches before those have ended that they wait for. */
#define FOLLOWS	"loop { inline_us = 0 }\n" \
		"backend \"queued\" { file = \"%s/build/test/plugins/queued.so\" " \
		"options = { \"follows=true\"%s } }\n"

/* One on the host's pages. */
#define CORES	"loop { inline_us = 0 }\ncpu { groups = { \"0\" } }\n"

static struct bench_daemon *d;
static struct client a;
static uint32_t kernel, queue;

/* What devices do: the first launch ends with @result once it may, others succeed at once. */
static struct {
	int result;
	uint32_t launches;
	bool may_end;
	bool idle;		/* nothing counts yet */
} devices;

/* Whether devices can be made whole again, and what became of that, once it may end. */
static struct {
	bool can;
	int result;
	bool may_end;
	bool beside;		/* a launch had not ended when it began */
	bool no_thread;
	uint32_t refused;
	uint32_t put_off, asked;	/* it says so many times that it can't now */
} resets;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	if (!__atomic_load_n(&resets.no_thread, __ATOMIC_ACQUIRE))
		return __real_pthread_create(thread, attr, start, arg);
	__atomic_add_fetch(&resets.refused, 1, __ATOMIC_RELEASE);
	return EAGAIN;
}

bool __wrap_device_can_reset(const struct device *dev);
bool __wrap_device_can_reset(const struct device *dev)
{
	(void)dev;
	return __atomic_load_n(&resets.can, __ATOMIC_ACQUIRE);
}

int __wrap_device_reset(struct device *dev);
int __wrap_device_reset(struct device *dev)
{
	(void)dev;
	__atomic_store_n(&resets.beside, !__atomic_load_n(&devices.may_end, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
	while (!__atomic_load_n(&resets.may_end, __ATOMIC_ACQUIRE))
		usleep(100);
	if (__atomic_add_fetch(&resets.asked, 1, __ATOMIC_ACQ_REL) <= resets.put_off)
		return -EAGAIN;
	return resets.result;
}

/* Set: the second device is not to be had when araxd begins. */
static bool second_lacks;

int __real_devices_open(const struct config *config, struct devices **devices);
int __wrap_devices_open(const struct config *config, struct devices **devices);
int __wrap_devices_open(const struct config *config, struct devices **devices)
{
	int err = __real_devices_open(config, devices);

	if (!err && second_lacks)
		devices_at(*devices, 1)->info.lost = 1;
	return err;
}

static int launch(void)
{
	if (__atomic_load_n(&devices.idle, __ATOMIC_ACQUIRE))
		return 0;
	if (__atomic_fetch_add(&devices.launches, 1, __ATOMIC_ACQ_REL))
		return 0;
	while (!__atomic_load_n(&devices.may_end, __ATOMIC_ACQUIRE))
		usleep(100);
	return devices.result;
}

static int run(void *top, struct arax_backend_run *run)
{
	(void)top;
	(void)run;
	return launch();
}

/* Where a lane's launches don't come to run(). */
static int enter(struct runner_task *rt)
{
	(void)rt;
	return launch();
}

static int (*leave_device)(struct runner_task *rt, int result);

/* As if it was the last function of a library's, or the device took no such launch. */
static int leave(struct runner_task *rt, int result)
{
	rt->declined = result == -EOPNOTSUPP || result == -EINVAL;
	return leave_device(rt, result);
}

static void up_with(const char *conf)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };

	memset(&devices, 0, sizeof(devices));
	memset(&resets, 0, sizeof(resets));
	resets.can = second_lacks;
	d = daemon_up_with(conf);
	client_open(&a, daemon_path(d));
	ck_assert_int_eq(client_init(&a, 64), 0);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	kernel = k.id;
	queue = client_queue(&a, ARAX_QUEUE_DATAFLOW);
}

/* Two alike. */
static void up(void)
{
	struct poller *p;
	char conf[4096];

	snprintf(conf, sizeof(conf), CONF, 2);
	up_with(conf);
	p = daemon_poller(d);
	ck_assert_uint_eq(p->nr_devs, 2);
	daemon_enter(d);
	for (uint32_t i = 0; i < p->nr_devs; i++) {
		struct poller_device *pd = &p->devs[i];

		pd->dev->run = run;
		leave_device = pd->runs[0].rt.leave;
		for (struct run *r = pd->runs; r < run_end(pd); r++)
			r->rt.leave = leave;
	}
	daemon_leave(d);
}

static void up_without_second(void)
{
	second_lacks = true;
	up();
}

/* Its kernel is over, its results are still to be taken. */
static int leave_late(struct runner_task *rt, int result)
{
	int err = launch();

	return leave_device(rt, result ? result : err);
}

static bool first_may_end;

/* The device has what is behind the second one when that ends, as the first one ended after they came. */
static int leave_second(struct runner_task *rt, int result)
{
	uint32_t n = __atomic_load_n(&devices.idle, __ATOMIC_ACQUIRE) ? 3 :
		     __atomic_add_fetch(&devices.launches, 1, __ATOMIC_ACQ_REL);
	const bool *may_end = n == 1 ? &first_may_end : &devices.may_end;

	(void)rt;
	while (n < 3 && !__atomic_load_n(may_end, __ATOMIC_ACQUIRE))
		usleep(100);
	return n == 2 ? -ENODEV : result;
}

/* The second one has no lanes yet. */
static void up_to_follow_with(bool memory)
{
	char conf[8192], here[4096];
	struct poller_device *pd;
	struct poller *p;
	int n;

	ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
	n = snprintf(conf, sizeof(conf), FOLLOWS, here, memory ? ", \"memory=true\"" : "");
	snprintf(conf + n, sizeof(conf) - (size_t)n, CONF, 1);
	up_with(conf);
	p = daemon_poller(d);
	ck_assert_uint_eq(p->nr_devs, 2);
	pd = &p->devs[0];
	ck_assert_uint_gt(pd->depth, 1);
	daemon_enter(d);
	leave_device = pd->runs[0].rt.leave;
	for (struct run *r = pd->runs; r < run_end(pd); r++) {
		if (memory)
			r->rt.leave = leave_late;
		else
			r->rt.enter = enter;
	}
	p->devs[1].dev->run = run;
	ck_assert_int_eq(sched_device_set(p->sched, 1, 0), 0);
	daemon_leave(d);
}

static void up_to_follow(void)
{
	up_to_follow_with(false);
}

static void up_to_follow_two(void)
{
	struct poller_device *pd;

	up_to_follow_with(false);
	pd = &daemon_poller(d)->devs[0];
	daemon_enter(d);
	for (struct run *r = pd->runs; r < run_end(pd); r++) {
		r->rt.enter = NULL;
		r->rt.leave = leave_second;
	}
	daemon_leave(d);
}

static void up_on_cores(void)
{
	up_with(CORES);
	ck_assert_uint_eq(daemon_poller(d)->nr_devs, 1);
	daemon_enter(d);
	daemon_poller(d)->devs[0].dev->run = run;
	daemon_leave(d);
}

static void no_lanes_of_second(void)
{
	daemon_enter(d);
	ck_assert_int_eq(sched_device_set(daemon_poller(d)->sched, 1, 0), 0);
	daemon_leave(d);
}

static void second_has_lanes(void)
{
	struct poller *p = daemon_poller(d);

	daemon_enter(d);
	ck_assert_int_eq(sched_device_set(p->sched, 1, p->devs[1].lanes), 0);
	daemon_leave(d);
}

static void down(void)
{
	client_close(&a);
	daemon_down(d);
}

static uint32_t launches(void)
{
	return __atomic_load_n(&devices.launches, __ATOMIC_ACQUIRE);
}

static void add(uint32_t buffer, uint64_t data)
{
	struct arax_task *t = client_spin(&a, kernel, queue, buffer, 1);

	t->user_data = data;
	t->flags |= ARAX_TASK_IDEMPOTENT;
	client_publish(&a);
}

static void submit(void)
{
	add(client_buffer(&a, PAGE, NULL, NULL), 1);
	ck_assert(comes_true(launches(), 100));
}

static void cancel(uint64_t data)
{
	struct arax_cancel cn = { .size = sizeof(cn), .user_data = data };

	ck_assert_int_eq(CALL(&a, ARAX_NR_CANCEL, &cn), 0);
	ck_assert(comes_true(daemon_runs_canceled(d), 100));
}

static void ends(uint64_t data, int32_t result)
{
	struct arax_completion done;

	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	ck_assert(client_completion(&a, &done));
	ck_assert_uint_eq(done.user_data, data);
	ck_assert_int_eq(done.result, result);
}

static const int elsewhere[] = { -ENODEV, -EOPNOTSUPP, -EINVAL };

/* Its device is lost, or declines it. */
START_TEST(it_would_go_elsewhere)
{
	devices.result = elsewhere[_i];
	submit();
	ends(1, 0);
	ck_assert_uint_eq(launches(), 2);
}
END_TEST

/* Its deadline has passed meanwhile: nobody looks at that a second time before it has a lane. */
START_TEST(it_is_too_late)
{
	struct arax_task *t = client_spin(&a, kernel, queue, client_buffer(&a, PAGE, NULL, NULL), 1);
	struct arax_task_ext *x = (void *)(a.region + a.layout.arena_offset);

	no_lanes_of_second();
	devices.result = elsewhere[_i];
	t->user_data = 1;
	t->flags |= ARAX_TASK_IDEMPOTENT | ARAX_TASK_EXT;
	*x = (struct arax_task_ext){ .size = sizeof(*x), .deadline_ns = wait_now_ns() + 500000000u };
	client_publish(&a);
	ck_assert(comes_true(launches(), 100));
	usleep(600000);
	ends(1, -ETIMEDOUT);
	ck_assert_uint_eq(launches(), 1);
}
END_TEST

static bool has_begun(void)
{
	const struct link *l = daemon_poller(d)->links[0];
	bool begun = false;

	daemon_enter(d);
	for (uint32_t slot = 0; slot < l->slots && !begun; slot++)
		begun = graph_at(l->graph, slot) &&
			__atomic_load_n(&l->states[slot], __ATOMIC_ACQUIRE) == ARAX_SLOT_STARTED;
	daemon_leave(d);
	return begun;
}

/* What was declined has not begun: if araxd dies now the next one runs it. */
START_TEST(what_is_declined_has_not_begun)
{
	no_lanes_of_second();
	devices.result = elsewhere[_i];
	submit();
	ck_assert(has_begun());
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	if (elsewhere[_i] != -ENODEV)
		ck_assert(comes_true(!has_begun(), 100));
	second_has_lanes();
	ends(1, 0);
	ck_assert_uint_eq(launches(), 2);
}
END_TEST

static int recorded;		/* the result of the last task in the trace */

void __real_trace_task(struct trace *t, const struct graph_node *node, const struct trace_task *task);
void __wrap_trace_task(struct trace *t, const struct graph_node *node, const struct trace_task *task);
void __wrap_trace_task(struct trace *t, const struct graph_node *node, const struct trace_task *task)
{
	recorded = task->result;
	__real_trace_task(t, node, task);
}

/* Which is what is recorded of it, too. */
START_TEST(it_does_not_if_it_was_canceled)
{
	struct poller *p = daemon_poller(d);
	char path[UNIT_TMP_LEN];

	close(mkstemp(unit_tmp(path, "arax-trace-XXXXXX")));
	daemon_enter(d);
	ck_assert_int_eq(trace_open(path, &p->trace), 0);
	daemon_leave(d);
	devices.result = elsewhere[_i];
	submit();
	cancel(1);
	ends(1, -ECANCELED);
	ck_assert_uint_eq(launches(), 1);
	daemon_enter(d);
	ck_assert_int_eq(recorded, -ECANCELED);
	daemon_leave(d);
	unlink(path);
}
END_TEST

/* What became of it is what counts. */
START_TEST(it_has_run)
{
	devices.result = _i ? -EIO : 0;
	submit();
	cancel(1);
	ends(1, devices.result);
	ck_assert_uint_eq(launches(), 1);
}
END_TEST

/* So many on @buffer, from 1 on: each is behind the one before it, and the first doesn't end. */
static void submit_row(uint32_t buffer, uint32_t nr)
{
	const struct poller *p = daemon_poller(d);

	/* Nobody may be behind what may take for ever, as far as is known. */
	__atomic_store_n(&devices.idle, true, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < 40; i++) {
		add(buffer, i);
		ends(i, 0);
	}
	devices.result = -ENODEV;
	devices.may_end = false;
	__atomic_store_n(&devices.idle, false, __ATOMIC_RELEASE);
	add(buffer, 1);
	ck_assert(comes_true(launches(), 100));
	for (uint32_t i = 2; i <= nr; i++)
		add(buffer, i);
	ck_assert(comes_true(__atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED) == nr - 1, 100));
}

/* One before it is lost, and would be run again, as it would in its turn. */
START_TEST(it_was_behind_another_one)
{
	submit_row(client_buffer(&a, PAGE, NULL, NULL), 2);
	if (_i)
		cancel(2);
	second_has_lanes();
	ends(1, 0);
	ends(2, _i ? -ECANCELED : 0);
	ck_assert_uint_eq(launches(), _i ? 2 : 3);
}
END_TEST

/* It has run there, on the host's pages: who is told ECANCELED has done nothing. */
START_TEST(it_has_run_behind_another_one)
{
	struct arax_completion done;

	submit_row(client_buffer(&a, PAGE, NULL, NULL), 3);
	__atomic_store_n(&first_may_end, true, __ATOMIC_RELEASE);
	ck_assert(client_completion(&a, &done));
	ck_assert_uint_eq(done.user_data, 1);
	ck_assert(comes_true(launches() == 2, 100));
	cancel(3);
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	/* The one before it is not to have ended by then. */
	ck_assert(comes_true(!daemon_runs_canceled(d), 100));
	second_has_lanes();
	ends(2, 0);
	ends(3, 0);
}
END_TEST

/* Of one tenant the kernel rests on the device, of others it is tried. */
START_TEST(a_kernel_rests_for_who_was_declined)
{
	struct poller *p = daemon_poller(d);
	struct graph_node one = { .d.tenant = 1 }, other = { .d.tenant = 2 };
	const struct kernel *k = p->links[0]->kernels[kernel];

	daemon_enter(d);
	for (int i = 0; i < 3; i++) {
		ck_assert(!decline_rests(p, &one, k, 0));
		decline_note(p, &one, k, 0);
	}
	ck_assert(decline_rests(p, &one, k, 0));
	ck_assert(!decline_rests(p, &one, k, 1));
	ck_assert(!decline_rests(p, &other, k, 0));
	/* Until it has run, by whomever. */
	decline_ran(p, k, 0);
	ck_assert(!decline_rests(p, &one, k, 0));
	/* Between them there is no row. */
	for (int i = 0; i < 3; i++) {
		decline_note(p, &one, k, 0);
		decline_note(p, &other, k, 0);
	}
	ck_assert(!decline_rests(p, &one, k, 0) && !decline_rests(p, &other, k, 0));
	daemon_leave(d);
}
END_TEST

static bool foreign;		/* whether programs' own code can be run */
static uint32_t looks;		/* at all tasks, for those that wait for a device in vain */

bool __wrap_runner_can_foreign(const struct runner *r);
bool __wrap_runner_can_foreign(const struct runner *r)
{
	(void)r;
	return __atomic_load_n(&foreign, __ATOMIC_RELAXED);
}

struct graph_node *__real_graph_at(struct graph *g, uint32_t slot);
struct graph_node *__wrap_graph_at(struct graph *g, uint32_t slot);
struct graph_node *__wrap_graph_at(struct graph *g, uint32_t slot)
{
	__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
	return __real_graph_at(g, slot);
}

/* While it is loaded it is seen that it can't. */
static int charge(struct link *l, uint32_t resource, uint32_t context, int64_t bytes)
{
	(void)l;
	(void)resource;
	(void)context;
	(void)bytes;
	__atomic_store_n(&foreign, false, __ATOMIC_RELAXED);
	return 0;
}

/* Of a kind that no device is. */
static void load(void)
{
	struct arax_module_load args = {
		.size = sizeof(args), .kind = ARAX_DEVICE_CUDA, .nr_kernels = 1,
	};
	struct arax_task_ext *x = (void *)(a.region + a.layout.arena_offset);
	struct arax_range *more = (void *)(x + 1);
	struct arax_task *t = client_entry(&a);

	t->opcode = ARAX_OP_CALL;
	t->kernel = ARAX_SERVICE_LOAD;
	t->queue = queue;
	t->user_data = 1;
	t->flags = ARAX_TASK_EXT;
	t->nr_ranges = 2;
	t->ranges[0] = whole(client_buffer(&a, PAGE, NULL, NULL), ARAX_IN, 64);
	t->ranges[1] = whole(client_buffer(&a, PAGE, NULL, NULL), ARAX_INOUT, PAGE);
	t->arg_len = sizeof(args);
	memcpy(t->args, &args, sizeof(args));
	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->nr_ranges = 1;
	*more = whole(client_buffer(&a, PAGE, NULL, NULL), ARAX_OUT, PAGE);
	client_publish(&a);
}

/* It takes long to look at all tasks there may be: not because one program's code is for no device. */
START_TEST(what_no_device_runs_is_its_programs)
{
	static struct link_ops ops;
	struct link *l = daemon_poller(d)->links[0];

	daemon_enter(d);
	ops = *l->ops;
	if (_i) {
		ops.charge = charge;
		l->ops = &ops;
	}
	foreign = true;
	looks = 0;
	daemon_leave(d);
	load();
	ends(1, -EOPNOTSUPP);
	daemon_enter(d);
	ck_assert_uint_eq(looks, _i ? l->slots : 0);
	daemon_leave(d);
}
END_TEST

static void note_mapping(struct mapping *m, void *arg)
{
	*(struct mapping **)arg = m;
}

static int no_buffer;

static struct mapping *map_nothing(struct link *l, uint64_t buffer)
{
	(void)buffer;
	l->map_err = no_buffer;
	return NULL;
}

/* As the module says that it was revoked when the task had been taken already. */
START_TEST(a_buffer_is_revoked_before_it_is_mapped)
{
	static struct link_ops ops;
	struct link *l = daemon_poller(d)->links[0];
	uint32_t buffer = client_buffer(&a, PAGE, NULL, NULL);
	struct mapping *m = NULL;

	daemon_enter(d);
	ops = *l->ops;
	ops.map = map_nothing;
	l->ops = &ops;
	no_buffer = _i ? -ESTALE : -EMFILE;
	mappings_each(&l->mappings, note_mapping, &m);
	ck_assert_ptr_nonnull(m);
	mapping_clear(&l->mappings, m->id);
	daemon_leave(d);
	add(buffer, 1);
	ends(1, _i ? -ESTALE : -EFAULT);
	daemon_enter(d);
	ck_assert_int_eq(mapping_set(&l->mappings, m), 0);
	daemon_leave(d);
	ck_assert_uint_eq(launches(), 0);
}
END_TEST

static bool lose_late, ending;

void __real_memory_lose(struct memory *m, uint32_t device);
void __wrap_memory_lose(struct memory *m, uint32_t device);
void __wrap_memory_lose(struct memory *m, uint32_t device)
{
	while (lose_late && !__atomic_load_n(&ending, __ATOMIC_ACQUIRE))
		usleep(100);
	__real_memory_lose(m, device);
}

void __real_memory_stop(struct memory *m);
void __wrap_memory_stop(struct memory *m);
void __wrap_memory_stop(struct memory *m)
{
	__atomic_store_n(&ending, true, __ATOMIC_RELEASE);
	__real_memory_stop(m);
}

/* What is told of the lost device then is for nobody. */
START_TEST(araxd_ends_meanwhile)
{
	lose_late = true;
	devices.result = -ENODEV;
	submit();
	ends(1, 0);
}
END_TEST

static bool is_lost(uint32_t device)
{
	bool lost;

	daemon_enter(d);
	lost = daemon_poller(d)->devs[device].lost;
	daemon_leave(d);
	return lost;
}

/* What whoever asks for the device is told, if it is not there; else "". */
static const char *why_gone(uint32_t device)
{
	static struct arax_device dev;

	dev = (struct arax_device){ .size = sizeof(dev), .index = device };
	ck_assert_int_eq(CALL(&a, ARAX_NR_DEVICE_QUERY, &dev), 0);
	ck_assert_int_eq(!dev.reason[0], !!(dev.flags & ARAX_DEVICE_ONLINE));
	return dev.reason;
}

/* Also if that comes to nothing. */
START_TEST(it_is_said_what_becomes_of_a_device)
{
	uint32_t device;

	__atomic_store_n(&resets.can, true, __ATOMIC_RELEASE);
	resets.result = _i ? -EIO : 0;
	devices.result = -ENODEV;
	submit();
	ends(1, 0);
	device = !is_lost(0);
	ck_assert(is_lost(device));
	ck_assert(comes_true(strstr(why_gone(device), "and is being rebuilt"), 1000));
	__atomic_store_n(&resets.may_end, true, __ATOMIC_RELEASE);
	if (_i)
		ck_assert(comes_true(strstr(why_gone(device), "until araxd is started anew"), 1000));
	else
		ck_assert(comes_true(!why_gone(device)[0], 1000));
}
END_TEST

/* They may go on for ever, and have nothing of what is made anew. */
START_TEST(workers_are_not_waited_for)
{
	struct poller *p = daemon_poller(d);
	struct poller_device *pd = &p->devs[0];
	struct run *r = pd->runs;

	__atomic_store_n(&resets.can, true, __ATOMIC_RELEASE);
	__atomic_store_n(&resets.may_end, true, __ATOMIC_RELEASE);
	submit();
	daemon_enter(d);
	while (r < run_end(pd) && !r->node)
		r++;
	ck_assert(r < run_end(pd));
	if (_i)
		r->rt.turn = &r->aside.turn;
	pd->lost = true;
	ck_assert_int_eq(sched_device_set(p->sched, 0, 0), 0);
	ck_assert(recover_plan(p, pd, true));
	recover_begin(p, pd);
	daemon_leave(d);
	if (_i)
		ck_assert(comes_true(!is_lost(0), 1000));
	ends(1, 0);
	ck_assert(comes_true(!is_lost(0), 1000));
	ck_assert_int_eq(__atomic_load_n(&resets.beside, __ATOMIC_ACQUIRE), _i);
	add(client_buffer(&a, PAGE, NULL, NULL), 2);
	ends(2, 0);
}
END_TEST

/* For a while there may be none, as others have as many as may be. */
START_TEST(a_device_waits_for_a_thread)
{
	uint32_t device;

	__atomic_store_n(&resets.can, true, __ATOMIC_RELEASE);
	__atomic_store_n(&resets.may_end, true, __ATOMIC_RELEASE);
	__atomic_store_n(&resets.no_thread, true, __ATOMIC_RELEASE);
	devices.result = -ENODEV;
	submit();
	ends(1, 0);
	device = !is_lost(0);
	/* Also while nobody has anything for araxd to do. */
	ck_assert(comes_true(__atomic_load_n(&resets.refused, __ATOMIC_ACQUIRE) > 2, 1000));
	ck_assert(is_lost(device));
	ck_assert_ptr_nonnull(strstr(why_gone(device), "and is being rebuilt"));
	__atomic_store_n(&resets.no_thread, false, __ATOMIC_RELEASE);
	ck_assert(comes_true(!is_lost(device), 1000));
}
END_TEST

/* Nor is a device given up that can't be had back for the moment. */
START_TEST(a_device_is_asked_again)
{
	uint32_t device;

	__atomic_store_n(&resets.can, true, __ATOMIC_RELEASE);
	resets.put_off = 3;
	devices.result = -ENODEV;
	submit();
	ends(1, 0);
	device = !is_lost(0);
	ck_assert(is_lost(device));
	__atomic_store_n(&resets.may_end, true, __ATOMIC_RELEASE);
	ck_assert(comes_true(__atomic_load_n(&resets.asked, __ATOMIC_ACQUIRE) > 1, 1000));
	ck_assert(is_lost(device));
	ck_assert_ptr_nonnull(strstr(why_gone(device), "and is being rebuilt"));
	ck_assert(comes_true(!is_lost(device), 1000));
	ck_assert_uint_eq(__atomic_load_n(&resets.asked, __ATOMIC_ACQUIRE), 4);
}
END_TEST

/* Nor one that lacked something when araxd began: that is no loss, and no task has to come for it. */
START_TEST(a_device_is_had_later)
{
	ck_assert(is_lost(1));
	ck_assert(!is_lost(0));
	ck_assert(comes_true(strstr(why_gone(1), "not had yet since araxd began, and is tried again"),
			     1000));
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	submit();
	ends(1, 0);
	__atomic_store_n(&resets.put_off, 2, __ATOMIC_RELEASE);
	__atomic_store_n(&resets.result, _i ? -EIO : 0, __ATOMIC_RELEASE);
	__atomic_store_n(&resets.may_end, true, __ATOMIC_RELEASE);
	if (_i) {
		ck_assert(comes_true(strstr(why_gone(1), "until araxd is started anew"), 1000));
		ck_assert(is_lost(1));
	} else {
		ck_assert(comes_true(!is_lost(1), 1000));
		ck_assert(comes_true(!why_gone(1)[0], 1000));
		ck_assert_uint_eq(daemon_poller(d)->devs[1].hasty, 0);
	}
	ck_assert_uint_eq(__atomic_load_n(&resets.asked, __ATOMIC_ACQUIRE), 3);
	add(client_buffer(&a, PAGE, NULL, NULL), 2);
	ends(2, 0);
}
END_TEST

/* A device with memory of its own, and cores. */
#define BOTH	"loop { inline_us = 0 }\ncpu { groups = { \"0\" } }\n" \
		"backend \"sim\" { options = { \"devices=1\", \"lanes=1\", \"memory=8388608\", " \
		"\"base-us=1\", \"latency-us=1\" } }\n"

static uint32_t known;		/* failures */

static uint32_t explicit_buffer(void)
{
	struct arax_buffer_create b = {
		.size = sizeof(b), .flags = ARAX_BUFFER_EXPLICIT, .bytes = PAGE, .fd = 0,
	};
	int fd = memfd_sealed(PAGE, SEALS);

	ck_assert_int_eq(client_call(&a, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), 0);
	close(fd);
	return b.handle;
}

/* From @x, which it reads, to @y. */
static void add_kernel(uint32_t kernel, uint32_t x, uint32_t y, uint32_t access, const void *args,
		       uint32_t bytes, uint64_t data)
{
	struct arax_task *t = client_entry(&a);

	t->opcode = ARAX_OP_LAUNCH;
	t->kernel = kernel;
	t->queue = queue;
	t->nr_ranges = 2;
	t->ranges[0] = whole(x, ARAX_IN, 64);
	t->ranges[1] = whole(y, access, 64);
	for (int i = 0; i < 3; i++)
		t->grid[i] = t->block[i] = 1;
	t->arg_len = bytes;
	memcpy(t->args, args, bytes);
	t->user_data = data;
	t->known = known;
	client_publish(&a);
}

static void add_square(uint32_t square, uint32_t x, uint32_t y, uint64_t data)
{
	const uint32_t n = 16;

	add_kernel(square, x, y, ARAX_OUT, &n, sizeof(n), data);
}

static int32_t result_of(uint64_t data)
{
	struct arax_completion done;

	ck_assert(client_completion(&a, &done));
	ck_assert_uint_eq(done.user_data, data);
	known = done.failure ? done.failure : known;
	return done.result;
}

static int32_t read_by_marker(uint32_t y, uint64_t data)
{
	struct arax_task *t = client_entry(&a);

	t->opcode = ARAX_OP_MARKER;
	t->queue = queue;
	t->known = known;
	t->nr_ranges = 1;
	t->ranges[0] = whole(y, ARAX_IN, 64);
	t->user_data = data;
	client_publish(&a);
	return result_of(data);
}

static int gives_nothing(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	(void)dev;
	(void)lane;
	(void)to;
	(void)from;
	(void)bytes;
	return -ENODEV;
}

/* What was lost is so still when one on the host's pages fails that was to write over it. */
START_TEST(it_hides_no_loss)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "square" };
	uint32_t x, y, sim, cores;
	struct poller *p;

	up_with(BOTH);
	p = daemon_poller(d);
	ck_assert_uint_eq(p->nr_devs, 2);
	known = 0;
	sim = p->devs[0].dev->info.memory ? 0 : 1;
	cores = !sim;
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	x = client_buffer(&a, PAGE, NULL, NULL);
	y = explicit_buffer();
	daemon_enter(d);
	ck_assert_int_eq(sched_device_set(p->sched, cores, 0), 0);
	p->devs[cores].dev->run = run;
	daemon_leave(d);
	add_square(k.id, x, y, 1);
	ck_assert_int_eq(result_of(1), 0);
	daemon_enter(d);
	p->memory->devices[sim].ops.copy_out = gives_nothing;
	memory_lose(p->memory, sim);
	ck_assert_int_eq(sched_device_set(p->sched, sim, 0), 0);
	ck_assert_int_eq(sched_device_set(p->sched, cores, p->devs[cores].lanes), 0);
	daemon_leave(d);
	ck_assert_int_eq(read_by_marker(y, 2), -EIO);
	devices.result = -ENODEV;
	add_square(k.id, x, y, 3);
	ck_assert(comes_true(launches(), 100));
	cancel(3);
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	/* It may have written there, which who is canceled has not. */
	ck_assert_int_eq(result_of(3), -ENODEV);
	ck_assert_int_eq(read_by_marker(y, 4), -EIO);
	down();
}
END_TEST

static void look_up(const char *name, uint32_t *id)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "" };

	snprintf((char *)k.name, sizeof(k.name), "%s", name);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	*id = k.id;
}

/* In whatever order they come. */
static void take_results(int32_t *results, uint32_t nr)
{
	struct arax_completion done;

	for (uint32_t i = 0; i < nr; i++) {
		ck_assert(client_completion(&a, &done));
		ck_assert_uint_lt(done.user_data, nr);
		results[done.user_data] = done.result;
	}
}

/* One that fails leaves what it only reads as it was: who writes over that runs, who reads its results doesn't. */
START_TEST(who_overwrites_what_it_read_runs)
{
	uint32_t square, x[4];
	int32_t results[4];

	known = 0;
	look_up("square", &square);
	for (int i = 0; i < 4; i++)
		x[i] = client_buffer(&a, PAGE, NULL, NULL);
	devices.result = -EIO;
	add_square(square, x[0], x[1], 0);
	ck_assert(comes_true(launches(), 100));
	add_square(square, x[2], x[0], 1);
	add_square(square, x[1], x[3], 2);
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	take_results(results, 3);
	ck_assert_int_eq(results[0], -EIO);
	ck_assert_int_eq(results[1], 0);
	ck_assert_int_eq(results[2], -ECANCELED);
	/* Nor do those that come when it has failed. */
	add_square(square, x[2], x[0], 0);
	add_square(square, x[2], x[1], 1);
	take_results(results, 2);
	ck_assert_int_eq(results[0], 0);
	ck_assert_int_eq(results[1], -ECANCELED);
}
END_TEST

/*
 * The same where it was on the device behind the other one: that has it run all the same, or it is
 * left out there, as one that depends on what has failed, and runs when that is known.
 */
START_TEST(who_is_behind_a_failed_reader_runs)
{
	bool memory = _i;
	uint32_t square, x[3];
	int32_t results[2];
	struct poller *p;
	uint8_t *in, *out;

	up_to_follow_with(memory);
	p = daemon_poller(d);
	known = 0;
	look_up("square", &square);
	for (int i = 0; i < 3; i++)
		x[i] = client_buffer(&a, PAGE, i ? &in : &out, NULL);
	__atomic_store_n(&devices.idle, true, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < 40; i++) {
		add_square(square, x[0], x[1], i);
		ck_assert_int_eq(result_of(i), 0);
		add_square(square, x[2], x[0], i);
		ck_assert_int_eq(result_of(i), 0);
	}
	for (int i = 0; i < 16; i++)
		((float *)(void *)in)[i] = 2;
	devices.result = -EIO;
	devices.may_end = false;
	__atomic_store_n(&devices.idle, false, __ATOMIC_RELEASE);
	add_square(square, x[0], x[1], 0);
	ck_assert(comes_true(launches(), 100));
	add_square(square, x[2], x[0], 1);
	ck_assert(comes_true(__atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED), 100));
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	take_results(results, 2);
	ck_assert_int_eq(results[0], -EIO);
	ck_assert_int_eq(results[1], 0);
	ck_assert_float_eq(*(float *)(void *)out, 4);
	ck_assert_uint_eq(launches(), 2);
	down();
}
END_TEST

#define FAILS_LATE	77u

/* Its kernel has run, its results can't be taken. */
static int leave_failed(struct runner_task *rt, int result)
{
	const struct run *r = (struct run *)((char *)rt - offsetof(struct run, rt));
	bool fails = !result && r->node->d.user_data == FAILS_LATE;

	return leave_device(rt, fails ? -EIO : result);
}

/* Nor has it run in vain, whose kernel was on the device before it was known that the other one fails. */
START_TEST(who_ran_behind_a_failed_reader_has_run)
{
	struct arax_completion done;
	uint32_t square, b, x[3], seen = 0;
	struct poller *p;
	uint8_t *in, *out;

	up_to_follow_with(true);
	p = daemon_poller(d);
	daemon_enter(d);
	for (struct run *r = p->devs[0].runs; r < run_end(&p->devs[0]); r++)
		r->rt.leave = leave_failed;
	daemon_leave(d);
	known = 0;
	look_up("square", &square);
	b = client_buffer(&a, PAGE, NULL, NULL);
	for (int i = 0; i < 3; i++)
		x[i] = client_buffer(&a, PAGE, i ? &in : &out, NULL);
	for (uint64_t i = 0; i < 60; i++) {
		add(b, i);
		ck_assert_int_eq(result_of(i), 0);
		add_square(square, x[0], x[1], i);
		ck_assert_int_eq(result_of(i), 0);
		add_square(square, x[2], x[0], i);
		ck_assert_int_eq(result_of(i), 0);
	}
	for (int i = 0; i < 16; i++)
		((float *)(void *)in)[i] = 2;
	/* It takes longer than it is thought to, and the others are on the device behind it. */
	client_spin(&a, kernel, queue, b, 2000000)->user_data = 0;
	client_publish(&a);
	add_square(square, x[0], x[1], FAILS_LATE);
	add_square(square, x[2], x[0], 1);
	ck_assert(comes_true(__atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED), 100));
	for (int i = 0; i < 3; i++) {
		ck_assert(client_completion(&a, &done));
		ck_assert_int_eq(done.result, done.user_data == FAILS_LATE ? -EIO : 0);
		seen |= 1u << done.user_data % 64;
	}
	ck_assert_uint_eq(seen, 1u | 2u | 1u << FAILS_LATE % 64);
	ck_assert_float_eq(*(float *)(void *)out, 4);
	down();
}
END_TEST

/* With a of 0. */
static void add_saxpy(uint32_t saxpy, uint32_t x, uint32_t y, uint64_t data)
{
	const uint32_t args[2] = { 0, 16 };

	add_kernel(saxpy, x, y, ARAX_INOUT, args, sizeof(args), data);
}

/* One before it has read what is no longer there: it is canceled, and so it has done nothing. */
START_TEST(who_is_behind_lost_bytes_does_nothing)
{
	struct arax_kernel_lookup ks = { .size = sizeof(ks), .name = "saxpy" };
	struct arax_kernel_lookup kq = { .size = sizeof(kq), .name = "square" };
	struct poller *p;
	const struct graph_node *node, *first = NULL;
	uint32_t x, y, z;
	uint8_t *in, *out;

	up_to_follow_with(true);
	p = daemon_poller(d);
	known = 0;
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &ks), 0);
	ck_assert_int_eq(CALL(&a, ARAX_NR_KERNEL_LOOKUP, &kq), 0);
	x = client_buffer(&a, PAGE, NULL, NULL);
	y = client_buffer(&a, PAGE, &in, NULL);
	z = client_buffer(&a, PAGE, &out, NULL);
	__atomic_store_n(&devices.idle, true, __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < 40; i++) {
		add_saxpy(ks.id, x, y, i);
		ck_assert_int_eq(result_of(i), 0);
		add_square(kq.id, y, z, i);
		ck_assert_int_eq(result_of(i), 0);
	}
	for (int i = 0; i < 16; i++)
		((float *)(void *)in)[i] = 2;
	ck_assert_float_eq(*(float *)(void *)out, 0);
	devices.may_end = false;
	__atomic_store_n(&devices.idle, false, __ATOMIC_RELEASE);
	add_saxpy(ks.id, x, y, 1);
	ck_assert(comes_true(launches(), 100));
	add_square(kq.id, y, z, 2);
	ck_assert(comes_true(__atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED), 100));
	/* As the handler of a fault in x would. */
	daemon_enter(d);
	for (uint32_t slot = 0; slot < p->links[0]->slots; slot++) {
		node = graph_at(p->links[0]->graph, slot);
		if (node && (!first || node->seq < first->seq))
			first = node;
	}
	ck_assert_ptr_nonnull(first);
	__atomic_store_n(&mapping_find(&p->links[0]->mappings, first->ranges[0].buffer)->lost, 1,
			 __ATOMIC_RELAXED);
	__atomic_fetch_add(&guard_nr_lost, 1, __ATOMIC_RELAXED);
	daemon_leave(d);
	__atomic_store_n(&devices.may_end, true, __ATOMIC_RELEASE);
	ck_assert_int_eq(result_of(1), -ESTALE);
	ck_assert_int_eq(result_of(2), -ECANCELED);
	ck_assert_float_eq(*(float *)(void *)out, 0);
	down();
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("all"), *follow = tcase_create("follow");
	TCase *cores = tcase_create("cores"), *late = tcase_create("late"), *lost, *without;
	Suite *s = suite_create("cancel");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, up, down);
	tcase_add_loop_test(t, it_would_go_elsewhere, 0, 3);
	tcase_add_loop_test(t, it_is_too_late, 0, 3);
	tcase_add_loop_test(t, what_is_declined_has_not_begun, 0, 3);
	tcase_add_loop_test(t, it_does_not_if_it_was_canceled, 0, 3);
	tcase_add_loop_test(t, it_has_run, 0, 2);
	tcase_add_test(t, araxd_ends_meanwhile);
	tcase_add_loop_test(t, what_no_device_runs_is_its_programs, 0, 2);
	tcase_add_loop_test(t, a_buffer_is_revoked_before_it_is_mapped, 0, 2);
	tcase_add_test(t, a_kernel_rests_for_who_was_declined);
	tcase_add_loop_test(t, it_is_said_what_becomes_of_a_device, 0, 2);
	tcase_add_test(t, who_overwrites_what_it_read_runs);
	tcase_add_test(t, a_device_waits_for_a_thread);
	tcase_add_test(t, a_device_is_asked_again);
	suite_add_tcase(s, t);
	tcase_set_timeout(cores, 300);
	tcase_add_checked_fixture(cores, up_on_cores, down);
	tcase_add_loop_test(cores, workers_are_not_waited_for, 0, 2);
	suite_add_tcase(s, cores);
	tcase_set_timeout(follow, 300);
	tcase_add_checked_fixture(follow, up_to_follow, down);
	tcase_add_loop_test(follow, it_was_behind_another_one, 0, 2);
	suite_add_tcase(s, follow);
	tcase_set_timeout(late, 300);
	tcase_add_checked_fixture(late, up_to_follow_two, down);
	tcase_add_test(late, it_has_run_behind_another_one);
	suite_add_tcase(s, late);
	without = tcase_create("without");
	tcase_set_timeout(without, 300);
	tcase_add_checked_fixture(without, up_without_second, down);
	tcase_add_loop_test(without, a_device_is_had_later, 0, 2);
	suite_add_tcase(s, without);
	lost = tcase_create("lost");
	tcase_set_timeout(lost, 300);
	tcase_add_test(lost, it_hides_no_loss);
	tcase_add_test(lost, who_is_behind_lost_bytes_does_nothing);
	tcase_add_loop_test(lost, who_is_behind_a_failed_reader_runs, 0, 2);
	tcase_add_test(lost, who_ran_behind_a_failed_reader_has_run);
	suite_add_tcase(s, lost);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
