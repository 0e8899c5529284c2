// SPDX-License-Identifier: MIT
/* The core under many threads; what TSan is to look at. */
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core_fixture.h"

#define CHARGERS	16
#define LIMIT		20011
#define CLIENTS		4
#define TASKS		1500

/* libcheck's asserts are not for threads. */
#define must(c) \
	do { \
		if (!(c)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); \
			abort(); \
		} \
	} while (0)

struct job {
	struct fx *fx;
	struct core_tenant *leaf;
	struct core_tenant *user;
	u64 got;
	u32 n;
};

static void *charge_ones(void *arg)
{
	struct job *j = arg;

	while (!core_charge(j->leaf, j->user, ARAX_RES_MEMORY, 1))
		j->got++;
	return NULL;
}

/* Random amounts come and go; nobody ever sees more than the limit. */
static void *charge_random(void *arg)
{
	struct job *j = arg;
	u64 held[8] = { 0 };
	u32 i, k, seed = j->n * 77 + 1;

	for (i = 0; i < 3000; i++) {
		seed = seed * 1664525 + 1013904223;
		k = seed >> 29;
		if (held[k]) {
			core_uncharge(j->leaf, j->user, ARAX_RES_MEMORY, held[k]);
			held[k] = 0;
		} else if (!core_charge(j->leaf, j->user, ARAX_RES_MEMORY, (seed >> 8) % 1000)) {
			held[k] = (seed >> 8) % 1000;
		}
		must(fx_used(j->fx->tenants[1], ARAX_RES_MEMORY) <= LIMIT);
		must(fx_used(j->fx->tenants[2], ARAX_RES_MEMORY) <= LIMIT / 2);
	}
	for (k = 0; k < 8; k++)
		core_uncharge(j->leaf, j->user, ARAX_RES_MEMORY, held[k]);
	return NULL;
}

static void run_chargers(struct fx *fx, void *(*fn)(void *), struct job *jobs)
{
	pthread_t th[CHARGERS];
	u32 i;

	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < CHARGERS; i++) {
		jobs[i].fx = fx;
		jobs[i].n = i;
		jobs[i].got = 0;
		jobs[i].leaf = fx->tenants[2 + (i & 1)];
		jobs[i].user = core_user_get(fx->core, i % 3, NULL);
	}
	core_mutex_unlock(&fx->core->lock);
	for (i = 0; i < CHARGERS; i++)
		ck_assert_int_eq(pthread_create(&th[i], NULL, fn, &jobs[i]), 0);
	for (i = 0; i < CHARGERS; i++)
		pthread_join(th[i], NULL);
}

START_TEST(to_the_byte)
{
	struct fx *fx = fx_new(NULL);
	struct job jobs[CHARGERS];
	u64 sum = 0;
	u32 i;

	core_atomic_set(&fx->tenants[1]->res[ARAX_RES_MEMORY].max, LIMIT);
	run_chargers(fx, charge_ones, jobs);
	for (i = 0; i < CHARGERS; i++)
		sum += jobs[i].got;
	ck_assert_uint_eq(sum, LIMIT);
	ck_assert_uint_eq(fx_used(fx->tenants[1], ARAX_RES_MEMORY), LIMIT);
	ck_assert_uint_eq(core_atomic_read(&fx->tenants[1]->res[ARAX_RES_MEMORY].events), CHARGERS);
	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < CHARGERS; i++) {
		core_uncharge(jobs[i].leaf, jobs[i].user, ARAX_RES_MEMORY, jobs[i].got);
		core_tenant_put(fx->core, jobs[i].user);
	}
	core_mutex_unlock(&fx->core->lock);
	core_atomic_set(&fx->tenants[2]->res[ARAX_RES_MEMORY].max, LIMIT / 2);
	run_chargers(fx, charge_random, jobs);
	core_mutex_lock(&fx->core->lock);
	for (i = 0; i < CHARGERS; i++)
		core_tenant_put(fx->core, jobs[i].user);
	core_mutex_unlock(&fx->core->lock);
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(fx_used(fx->tenants[i], ARAX_RES_MEMORY), 0);
	fx_free(fx);
}
END_TEST

/* ------------------------------------------------------------------ */

static bool stop;	/* atomic */

static void *client(void *arg)
{
	struct job *j = arg;
	struct fx_client *cl = fx_client(j->fx, j->n % 2, 2 + j->n % 2);
	u32 sent = 0, done = 0, buf, tl, seed = j->n;
	struct arax_completion e;
	struct arax_task_ext x = { .size = sizeof(x) };

	must(!fx_init(cl, 16, 128, 4096));
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	buf = fx_buffer(cl, 4096);
	tl = fx_timeline(cl, 0);
	x.signal_timeline = tl;
	while (done < TASKS) {
		u32 want;

		for (want = 0; want < 4 && sent < TASKS && cl->sq_tail - done < 16; want++) {
			struct arax_task t = fx_copy(cl, sent, buf, buf, 64);

			seed = seed * 1664525 + 1013904223;
			if (seed >> 30 == 0) {
				t.flags = ARAX_TASK_EXT;
				t.ext = (sent & 31) * (u32)sizeof(x);
				x.signal_value = sent;
				memcpy(cl->region + cl->init.arena_offset + t.ext, &x, sizeof(x));
			}
			fx_push(cl, &t);
			sent++;
		}
		if (cl->c->sq_head != cl->sq_tail) {
			int n = fx_submit(cl, 16);

			must(n > 0 || n == -EAGAIN);
		}
		while (fx_pop(cl, &e)) {
			must(!e.result || e.result == -EOWNERDEAD || e.result == -EDQUOT);
			done++;
		}
		if (seed >> 27 == 3) {
			struct arax_timeline_point p = { .handle = tl };
			struct arax_cancel c = { .user_data = TASKS + 1 };

			must(!core_timeline_query(cl->c, &p));
			must(!core_cancel(cl->c, &c));
			must(!core_buffer_destroy(cl->c, buf));
			buf = fx_buffer(cl, 4096);
		}
	}
	fx_release(cl);
	return NULL;
}

/* Contexts come, submit a little and die with work under way. */
static void *victim(void *arg)
{
	struct job *j = arg;
	u32 i, n;

	for (n = 0; n < 100; n++) {
		struct fx_client *cl = fx_client(j->fx, 9, 2);

		must(!fx_init(cl, 4, 128, 0));
		cl->queue = fx_queue(cl, 0);
		for (i = 0; i < n % 4; i++) {
			struct arax_task t = fx_marker(cl, i);

			fx_send(cl, &t);
		}
		if (n & 1)
			core_context_kill(j->fx->core, cl->c->id);
		fx_release(cl);
	}
	return NULL;
}

/* Looks at everything that is open to it. */
static void *watcher(void *arg)
{
	struct job *j = arg;
	u32 n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		union core_args a = { 0 };

		must(!fx_call(j->fx, NULL, ARAX_NR_INFO, &a));
		a = (union core_args){ .tenant = { .cgroup_fd = 2 } };
		must(!fx_call(j->fx, NULL, ARAX_NR_TENANT_QUERY, &a));
		a = (union core_args){ 0 };
		while (!fx_call(j->fx, NULL, ARAX_NR_CONTEXT_QUERY, &a))
			a.context.id++;
		a = (union core_args){ .limit = { .cgroup_fd = 1, .what = ARAX_SET_WEIGHT,
						  .value = 1 + n++ % 100 } };
		must(!fx_call(j->fx, NULL, ARAX_NR_LIMIT_SET, &a));
		sched_yield();
	}
	return NULL;
}

static u32 serve(struct fx *fx, u32 max)
{
	const struct arax_dispatch *d;
	u32 n = 0;

	while (n < max && (d = fx_next(fx))) {
		if (d->type != ARAX_DISPATCH_TASK)
			continue;
		fx->core->commits[n % CORE_COMMIT_ENTRIES] = (struct arax_commit_entry){
			.tag = d->tag, .device_ns = 1,
		};
		n++;
	}
	if (n) {
		struct arax_commit c = { .count = n };

		must(!core_commit(fx->core, &c));
		must(!c.stale);
	}
	return n;
}

/* Serves, and every now and then dies with tasks in its hands. */
static void *mediator(void *arg)
{
	struct job *j = arg;
	u32 round = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct arax_fetch f = { 0 };

		if (!serve(j->fx, 32))
			sched_yield();
		must(!core_fetch(j->fx->core, &f));
		if (j->n && ++round % 64 == 0) {
			const struct arax_dispatch *d = fx_next(j->fx);

			if (d && d->type == ARAX_DISPATCH_TASK)
				fx_start(j->fx, d->tag);
			core_detach(j->fx->core);
			sched_yield();
			fx_gone(j->fx);
			must(!fx_attach(j->fx, ARAX_ATTACH_RECOVER));
		}
	}
	while (serve(j->fx, 256))
		;
	return NULL;
}

/* Many tasks in several steps, in the middle of all that. */
static void *canceler(void *arg)
{
	struct job *j = arg;
	struct fx_client *cl = fx_client(j->fx, 7, 3);
	struct arax_completion e;
	u32 sent = 0, done = 0, round, i, n, queue, order;

	must(!fx_init(cl, 512, 128, 0));
	order = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	for (round = 0; round < 40; round++) {
		struct arax_cancel c = { .user_data = 5 };

		for (i = 0; i < 400; i++) {
			struct arax_task t = fx_marker(cl, i % 100);

			t.queue = i % 3 ? queue : order;
			t.arg_len = i % 90 == 80;	/* refused */
			fx_push(cl, &t);
		}
		for (n = 0; n < 400;) {
			int got = fx_submit(cl, 400 - n);

			must(got > 0);
			n += (u32)got;
		}
		sent += n;
		if (round & 1)
			c = (struct arax_cancel){ .flags = ARAX_CANCEL_QUEUE,
						  .queue = round & 2 ? queue : order };
		must(!core_cancel(cl->c, &c));
		while (done < sent) {
			if (fx_pop(cl, &e))
				done++;
			else
				sched_yield();
		}
	}
	fx_release(cl);
	return NULL;
}

/* _i: whether the mediator dies meanwhile */
START_TEST(everything)
{
	struct core_params p = fx_params();
	pthread_t th[CLIENTS + 2], watch, serve_th;
	struct job jobs[CLIENTS + 3];
	struct fx *fx;
	u32 i;

	p.cells = 256;
	p.slots = 24;
	fx = fx_new(&p);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
	for (i = 0; i < CLIENTS + 3; i++)
		jobs[i] = (struct job){ .fx = fx, .n = i };
	jobs[CLIENTS + 2].n = (u32)_i;
	pthread_create(&serve_th, NULL, mediator, &jobs[CLIENTS + 2]);
	pthread_create(&watch, NULL, watcher, &jobs[CLIENTS + 1]);
	for (i = 0; i < CLIENTS; i++)
		pthread_create(&th[i], NULL, client, &jobs[i]);
	pthread_create(&th[CLIENTS], NULL, victim, &jobs[CLIENTS]);
	pthread_create(&th[CLIENTS + 1], NULL, canceler, &jobs[CLIENTS]);
	for (i = 0; i < CLIENTS + 2; i++)
		pthread_join(th[i], NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(serve_th, NULL);
	pthread_join(watch, NULL);
	ck_assert_uint_eq(fx->core->nr_clients, 0);
	for (i = 0; i < 4; i++)
		ck_assert_uint_eq(fx_used(fx->tenants[i], ARAX_RES_TASKS), 0);
	fx_free(fx);
}
END_TEST

struct lost_job {
	struct fx_client *cl;
	u32 lost, other;
};

static void *read_lost(void *arg)
{
	struct lost_job *j = arg;
	struct arax_completion e;
	struct arax_task t;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		t = fx_copy(j->cl, 7, j->lost, j->other, 4096);
		fx_push(j->cl, &t);
		if (fx_submit(j->cl, 1) != 1)
			j->cl->sq_tail--;
		while (fx_pop(j->cl, &e))
			must(e.result == -EIO);
	}
	return NULL;
}

/*
 * Bytes have died with a mediator, and while one context after the other is settled somebody
 * goes on to ask for them, whose own context was the first.
 */
START_TEST(lost_while_others_are_settled)
{
	enum { QUEUED = 20000 };
	struct core_params p = fx_params();
	struct fx_client *a, *b;
	struct lost_job job;
	struct arax_task t;
	pthread_t th;
	struct fx *fx;
	u32 i, left;

	p.user_tasks = 1000000;
	fx = fx_new(&p);
	a = fx_client(fx, 1000, 2);
	must(!fx_init(a, 65536, 128, 0));
	a->queue = fx_queue(a, 0);
	job = (struct lost_job){ a, fx_buffer(a, 8192), fx_buffer(a, 8192) };
	b = fx_client(fx, 1000, 2);
	must(!fx_init(b, 65536, 128, 0));
	b->queue = fx_queue(b, 0);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_copy(a, 1000, job.other, job.lost, 4096);
	ck_assert_int_eq(fx_send(a, &t), 1);
	fx_commit_dirty(fx, fx_expect_task(fx, 1000), 2);
	fx_expect(a, 1000, 0);
	for (i = 0; i < QUEUED; i++) {
		t = fx_marker(b, i);
		fx_push(b, &t);
	}
	ck_assert_int_eq(fx_submit(b, QUEUED), QUEUED);
	core_detach(fx->core);
	__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
	pthread_create(&th, NULL, read_lost, &job);
	usleep(300);
	fx_gone(fx);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(th, NULL);
	core_spin_lock(&fx->core->dispatch);
	left = a->c->nr_tasks;
	core_spin_unlock(&fx->core->dispatch);
	ck_assert_uint_eq(left, 0);
	fx_release(a);
	fx_release(b);
	fx_free(fx);
}
END_TEST

/*
 * The lock that is given back by a plain store: what it guards is a plain counter,
 * and the holder now and then sleeps, so that others wait for it in the kernel.
 */
#define LOCKERS	4u
#define TURNS	20000u

static core_spin spin;
static u32 guarded;

static void *locker(void *arg)
{
	struct timespec nap = { .tv_nsec = 50000 };
	u32 i;

	for (i = 0; i < TURNS; i++) {
		core_spin_lock(&spin);
		guarded++;
		if (i % 1000 == 0)
			nanosleep(&nap, NULL);
		core_spin_unlock(&spin);
	}
	return NULL;
}

/* So many calls of membarrier(2) fail from now on, and so many were made after those. */
static u32 barriers_failing, barriers_made;
static int barriers_error;

/* Instead of the C library's. */
long syscall(long nr, ...)
{
	static long (*libc)(long nr, ...);
	long a[6];
	va_list ap;
	int i;

	va_start(ap, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (nr == SYS_membarrier && barriers_failing) {
		barriers_failing--;
		errno = barriers_error;
		return -1;
	}
	if (nr == SYS_membarrier && a[0] == MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		__atomic_fetch_add(&barriers_made, 1, __ATOMIC_RELAXED);
	/* First by a constructor, while there is one thread. */
	if (!libc)
		*(void **)&libc = dlsym(RTLD_NEXT, "syscall");
	return libc(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

START_TEST(barrier_after_failures)
{
	ck_assert(core_barriers_unequal);
	barriers_error = ENOMEM;
	barriers_failing = 3;
	barriers_made = 0;
	errno = EDOM;
	core_heavy_barrier();
	ck_assert_int_eq(errno, EDOM);
	ck_assert_uint_eq(barriers_failing, 0);
	ck_assert_uint_eq(barriers_made, 1);
	/* As after a fork: once more it has to be asked for. */
	barriers_error = EPERM;
	barriers_failing = 1;
	core_heavy_barrier();
	ck_assert_uint_eq(barriers_made, 2);
}
END_TEST

/* Without it nothing holds any more. */
START_TEST(no_barrier_at_all)
{
	barriers_error = ENOSYS;
	barriers_failing = 1;
	core_heavy_barrier();
}
END_TEST

/* _i: with barriers of unequal price, or without membarrier(2) */
START_TEST(hot_lock)
{
	pthread_t th[LOCKERS];
	u32 i;

	if (_i)
		core_barriers_unequal = false;
	else
		ck_assert(core_barriers_unequal);
	core_spin_init(&spin);
	for (i = 0; i < LOCKERS; i++)
		pthread_create(&th[i], NULL, locker, NULL);
	for (i = 0; i < LOCKERS; i++)
		pthread_join(th[i], NULL);
	ck_assert_uint_eq(guarded, LOCKERS * TURNS);
	core_spin_destroy(&spin);
}
END_TEST

static bool looks_go_on;

static void *look_up(void *arg)
{
	struct fx *fx = arg;
	union core_args a;

	while (__atomic_load_n(&looks_go_on, __ATOMIC_RELAXED)) {
		a = (union core_args){ .kernel_lookup.name = "k" };
		must(!fx_call(fx, NULL, ARAX_NR_KERNEL_LOOKUP, &a));
		must(a.kernel_lookup.kinds);
	}
	return NULL;
}

static void publish(struct fx *fx, const char *name, u32 hash)
{
	union core_args a = { .kernel_publish = { .kinds = 1, .sig.abi_hash = hash } };

	strcpy(a.kernel_publish.name, name);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
}

/* A kernel whose signature changes, and back again, is there all the time. */
START_TEST(kernels_replaced)
{
	struct fx *fx = fx_new(NULL);
	pthread_t th[2];
	u32 i;

	looks_go_on = true;
	publish(fx, "k", 0);
	/* It takes a while from one of them to the other. */
	for (i = 0; i < 300; i++) {
		char name[8];

		snprintf(name, sizeof(name), "%u", i);
		publish(fx, name, 0);
	}
	for (i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, look_up, fx);
	for (i = 1; i < 10000; i++)
		publish(fx, "k", i & 1);
	__atomic_store_n(&looks_go_on, false, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	fx_free(fx);
}
END_TEST

Suite *core_threads_suite(void)
{
	Suite *s = suite_create("core threads");
	TCase *tc = tcase_create("threads");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, to_the_byte);
	tcase_add_loop_test(tc, everything, 0, 2);
	tcase_add_loop_test(tc, lost_while_others_are_settled, 0, 5);
	tcase_add_loop_test(tc, hot_lock, 0, 2);
	tcase_add_test(tc, kernels_replaced);
	tcase_add_test(tc, barrier_after_failures);
	tcase_add_test_raise_signal(tc, no_barrier_at_all, SIGABRT);
	suite_add_tcase(s, tc);
	return s;
}
