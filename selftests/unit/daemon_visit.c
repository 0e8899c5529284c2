// SPDX-License-Identifier: MIT
/*
 * Visits to a sleeping poller: nothing is lost, nobody is stuck.
 *
 * First the door alone with a poller and lanes of a few lines, then araxd's own with
 * programs that submit, sleep, and come and go.  Everywhere in between threads stay for
 * a while at the points where somebody else's interference matters (race.h).  What moves is
 * watched: when nothing did for long, the state is printed and the test has failed.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/dispatch/door.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/race.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/dispatch/work.h"
#include "daemon/worker/inside.h"
#include "selftests/unit/daemon_client.h"

#define STUCK_S		60	/* no machine is that busy */
#define RANDOM_US	50u

static __thread uint64_t seed;

static uint64_t chance(uint64_t below)
{
	if (!seed)
		seed = (uint64_t)gettid() * 0x9e3779b97f4a7c15ull | 1;
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) % below;
}

static void stay(uint64_t us)
{
	struct timespec t = { .tv_nsec = (long)us * 1000 };
	uint64_t end = monotonic_ns() + us * 1000;

	if (chance(2)) {
		nanosleep(&t, NULL);
		return;
	}
	while (monotonic_ns() < end)
		cpu_relax();
}

/* One test has its own idea of what is to happen there. */
static bool stop_staged;
static void stop_race_point(void);

/* Seldom enough for most passes to go straight through. */
void race_point(void)
{
	if (__atomic_load_n(&stop_staged, __ATOMIC_ACQUIRE)) {
		stop_race_point();
		return;
	}
	switch (chance(16)) {
	case 0:
		stay(chance(RANDOM_US));
		break;
	case 1:
		syscall(SYS_sched_yield);
		break;
	}
}

/* In place of the C library's: as if somebody who computes had the same core. */
#define SLICE_MS	2
static uint32_t cores_shared, visitor_yields, lane_yields;

int sched_yield(void)
{
	struct timespec slice = { .tv_nsec = SLICE_MS * 1000000 };
	char name[16] = "";

	if (!__atomic_load_n(&cores_shared, __ATOMIC_RELAXED))
		return (int)syscall(SYS_sched_yield);
	if (poller_is_here())
		__atomic_fetch_add(&visitor_yields, 1, __ATOMIC_RELAXED);
	else if (!pthread_getname_np(pthread_self(), name, sizeof(name)) &&
		 !strncmp(name, "arax-cpu", 8))
		__atomic_fetch_add(&lane_yields, 1, __ATOMIC_RELAXED);
	return nanosleep(&slice, NULL);
}

/* Who need not be woken, and who hands it over himself is more awake than all. */
START_TEST(who_is_awake_has_the_next)
{
	struct runner *r = calloc(1, sizeof(*r));
	struct poller_device pd = { .runner = r, .lanes = 4, .lanes_busy = ~0ull << 4 };
	struct poller p = { .nr_devs = 1 };

	ck_assert_uint_eq(run_free_lane(&p, &pd), 0);
	r->awake = 0xc;
	ck_assert_uint_eq(run_free_lane(&p, &pd), 2);
	p.visitor = &pd;
	p.visitor_lane = 1;
	ck_assert_uint_eq(run_free_lane(&p, &pd), 1);
	p.visitor = NULL;
	pd.lanes_busy |= 1 << 2;
	ck_assert_uint_eq(run_free_lane(&p, &pd), 3);
	/* It has ended a task, which nobody knows yet. */
	pd.lanes_busy |= 1 << 3;
	ck_assert_uint_eq(run_free_lane(&p, &pd), 0);
	pd.lanes_busy |= 1 << 0;
	ck_assert_uint_eq(run_free_lane(&p, &pd), 1);
	free(r);
}
END_TEST

/* ------------------------------------------------------------------ */

/* Of what is tested: it grows, or somebody is stuck. */
static uint64_t progress;
static bool watched;
static void (*dump)(void);

static void *watch(void *arg)
{
	struct timespec nap = { .tv_nsec = 100000000 };
	uint64_t seen = 0;
	int quiet = 0;

	while (__atomic_load_n(&watched, __ATOMIC_ACQUIRE)) {
		uint64_t now = __atomic_load_n(&progress, __ATOMIC_RELAXED);

		nanosleep(&nap, NULL);
		quiet = now == seen ? quiet + 1 : 0;
		seen = now;
		if (quiet < STUCK_S * 10)
			continue;
		fprintf(stderr, "nothing moved for %d s after %llu steps\n", STUCK_S,
			(unsigned long long)now);
		dump();
		abort();
	}
	return NULL;
}

static pthread_t watcher;

static void watch_begin(void (*show)(void))
{
	dump = show;
	progress = 0;
	watched = true;
	ck_assert_int_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
}

static void watch_end(void)
{
	__atomic_store_n(&watched, false, __ATOMIC_RELEASE);
	pthread_join(watcher, NULL);
}

static void moved(void)
{
	__atomic_fetch_add(&progress, 1, __ATOMIC_RELAXED);
}

/* ------------------------------------------------------------------ */
/* The door alone                                                      */

#define LANES	4u
#define STEPS	3000u	/* by each lane */

/*
 * A poller that gives each lane its next piece when the last one is done.  All but the
 * door and the queues is plain: TSan sees who enters without being alone, and a counter
 * that two wrote at once has lost something.
 */
struct piece_lane {
	struct work done;
	uint32_t given;		/* a futex would do; lanes may spin here */
	uint32_t steps;
	bool pinned;
};

static struct {
	struct door door;
	struct work_queue work;
	struct piece_lane lanes[LANES];
	int event;
	uint32_t asleep;
	uint32_t ended;		/* atomic */
	uint64_t turns, visits, sleeps, pieces;	/* the door's */
} mini;

static void mini_dump(void)
{
	uint32_t i;

	fprintf(stderr, "door %u, queue %d, asleep %u, %u lanes ended\n",
		__atomic_load_n(&mini.door.state, __ATOMIC_RELAXED), work_pending(&mini.work),
		__atomic_load_n(&mini.asleep, __ATOMIC_RELAXED), mini.ended);
	for (i = 0; i < LANES; i++)
		fprintf(stderr, "lane %u: step %u, given %u\n", i, mini.lanes[i].steps,
			__atomic_load_n(&mini.lanes[i].given, __ATOMIC_RELAXED));
}

static void mini_done(struct work *w)
{
	struct piece_lane *l = (struct piece_lane *)((char *)w - offsetof(struct piece_lane, done));

	mini.pieces++;
	__atomic_store_n(&l->given, 1, __ATOMIC_RELEASE);
	moved();
}

static bool mini_turn(void)
{
	struct work *w = work_take(&mini.work), *next;
	bool some = w;

	for (; w; w = next) {
		next = w->next;
		w->run(w);
	}
	mini.turns++;
	return some;
}

static void *mini_lane(void *arg)
{
	struct piece_lane *l = arg;

	for (l->steps = 0; l->steps < STEPS; l->steps++) {
		if (!chance(4))
			stay(chance(RANDOM_US));
		work_push(&mini.work, &l->done);
		race_point();
		while (work_pending(&mini.work) && door_enter(&mini.door)) {
			mini.visits++;
			mini_turn();
			door_leave(&mini.door);
		}
		while (!__atomic_load_n(&l->given, __ATOMIC_ACQUIRE))
			sched_yield();
		__atomic_store_n(&l->given, 0, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&mini.ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Somebody who can't visit: it wakes the poller. */
static void *mini_ringer(void *arg)
{
	const uint64_t one = 1;

	while (__atomic_load_n(&mini.ended, __ATOMIC_ACQUIRE) < LANES) {
		stay(200 + chance(2000));
		if (write(mini.event, &one, sizeof(one)) < 0)
			break;
	}
	if (write(mini.event, &one, sizeof(one)) < 0)
		return mini_ringer;
	return NULL;
}

static void mini_sleep(void)
{
	struct pollfd fd = { .fd = mini.event, .events = POLLIN };
	uint64_t count;

	__atomic_store_n(&mini.asleep, 1, __ATOMIC_RELAXED);
	mini.sleeps++;
	door_open(&mini.door);
	if (!work_pending(&mini.work))
		poll(&fd, 1, -1);
	door_shut(&mini.door);
	__atomic_store_n(&mini.asleep, 0, __ATOMIC_RELAXED);
	if (read(mini.event, &count, sizeof(count)) < 0)
		count = 0;
}

START_TEST(door_alone)
{
	pthread_t lanes[LANES], ringer;
	uint32_t i;

	mini.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (i = 0; i < LANES; i++)
		mini.lanes[i].done.run = mini_done;
	watch_begin(mini_dump);
	for (i = 0; i < LANES; i++)
		pthread_create(&lanes[i], NULL, mini_lane, &mini.lanes[i]);
	pthread_create(&ringer, NULL, mini_ringer, NULL);
	while (__atomic_load_n(&mini.ended, __ATOMIC_ACQUIRE) < LANES) {
		/* Awake for a while or not at all. */
		for (i = (uint32_t)chance(50); i; i--)
			while (mini_turn())
				;
		mini_sleep();
	}
	for (i = 0; i < LANES; i++)
		pthread_join(lanes[i], NULL);
	pthread_join(ringer, NULL);
	watch_end();
	close(mini.event);
	ck_assert_uint_eq(mini.pieces, LANES * STEPS);
	/* Else it was no test of visits. */
	ck_assert_uint_gt(mini.visits, STEPS / 10);
	ck_assert_uint_gt(mini.sleeps, 1);
}
END_TEST

/* ------------------------------------------------------------------ */
/* araxd's own                                                         */

#define PROGRAMS	3u
#define BUFFERS		6u
#define BUFFER		4096u
#define DEPTH		64u
#define ROUNDS		120u	/* of each program */

static struct bench_daemon *d;
static uint32_t stage[PROGRAMS];

static void daemon_dump(void)
{
	uint32_t i;

	daemon_show(d);
	for (i = 0; i < PROGRAMS; i++)
		fprintf(stderr, "program %u: round %u\n", i,
			__atomic_load_n(&stage[i], __ATOMIC_RELAXED));
}

struct program {
	struct client c;
	bool hostile;			/* what it says is garbage, and it doesn't sleep */
	uint32_t queue, kernel;
	uint32_t buffers[BUFFERS];
	uint32_t pending;
};

static void program_task(struct program *p)
{
	struct arax_task *t = client_entry(&p->c);
	uint32_t us = (uint32_t)chance(RANDOM_US), i;
	/* Chains where one buffer is written over and over, fans where many read one. */
	uint32_t a = (uint32_t)chance(BUFFERS), b = (uint32_t)chance(BUFFERS);

	t->queue = p->queue;
	t->user_data = p->pending;
	if (!chance(8)) {
		t->opcode = ARAX_OP_FILL;
		t->nr_ranges = 1;
		t->ranges[0] = whole(p->buffers[a], ARAX_OUT, BUFFER);
		t->arg_len = 1;
		t->args[0] = (uint8_t)us;
	} else {
		t->opcode = ARAX_OP_LAUNCH;
		t->kernel = p->kernel;
		t->nr_ranges = 1;
		t->ranges[0] = whole(p->buffers[chance(3) ? a : b], ARAX_INOUT, 64);
		for (i = 0; i < 3; i++)
			t->grid[i] = t->block[i] = 1;
		/* Of several sizes, so that some are known as short and some are not. */
		t->grid[0] = 1u << chance(4);
		t->arg_len = 4;
		memcpy(t->args, &us, 4);
	}
	client_publish(&p->c);
	p->pending++;
}

static void program_garbage(struct client *c)
{
	struct arax_ring_ctl *ctl = (void *)c->region;

	__atomic_store_n(&ctl->cq_wake_at, (uint32_t)chance(1ull << 32), __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->cq_wake_for, chance(4) ? chance(DEPTH) : ~0ull, __ATOMIC_RELAXED);
	__atomic_store_n(&ctl->cq_need_wakeup, (uint32_t)chance(chance(2) ? 8 : 1ull << 32),
			 __ATOMIC_RELAXED);
}

/*
 * As libarax does: says that it sleeps and for how many completions, looks once more, and
 * sleeps until it is woken.
 */
static void program_sleep(struct client *c, uint32_t wanted)
{
	const struct arax_completion *e = (void *)(c->region + c->layout.cq_offset +
						   (size_t)(c->cq_head & (c->depth - 1)) * 64);
	struct arax_ring_ctl *ctl = (void *)c->region;
	struct pollfd fd = { .fd = c->wake_fd, .events = POLLIN };
	uint64_t count;

	__atomic_store_n(&ctl->cq_wake_at, c->cq_head + wanted, __ATOMIC_RELAXED);
	/* Release: pairs with the core's acquire. */
	__atomic_store_n(&ctl->cq_need_wakeup, chance(2) ? ARAX_WAKE_AT : ARAX_WAKE_ANY,
			 __ATOMIC_RELEASE);
	/* Pairs with the core's before it reads the word. */
	core_full_barrier();
	if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) != c->cq_head + 1) {
		poll(&fd, 1, -1);
		ck_assert_int_eq(read(c->wake_fd, &count, sizeof(count)), sizeof(count));
	}
	__atomic_store_n(&ctl->cq_need_wakeup, 0, __ATOMIC_RELAXED);
}

static void program_reap(struct program *p, uint32_t leave)
{
	struct arax_completion done;

	while (p->pending > leave) {
		if (p->hostile)
			program_garbage(&p->c);
		else if (chance(2))
			program_sleep(&p->c, p->pending - leave);
		if (!client_completion(&p->c, &done))
			continue;	/* the watcher says how long */
		ck_assert_int_eq(done.result, 0);
		p->pending--;
		moved();
	}
}

static void program_open(struct program *p)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	uint32_t i;

	client_open(&p->c, daemon_path(d));
	ck_assert_int_eq(client_init(&p->c, DEPTH), 0);
	ck_assert_int_eq(CALL(&p->c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	p->kernel = k.id;
	p->queue = client_queue(&p->c, ARAX_QUEUE_DATAFLOW);
	for (i = 0; i < BUFFERS; i++)
		p->buffers[i] = client_buffer(&p->c, BUFFER, NULL, NULL);
	p->pending = 0;
}

/* Long enough for the poller to fall asleep meanwhile. */
static void program_spin(struct program *p, uint32_t us)
{
	struct arax_task *t = client_entry(&p->c);
	uint32_t i;

	t->queue = p->queue;
	t->opcode = ARAX_OP_LAUNCH;
	t->kernel = p->kernel;
	t->nr_ranges = 1;
	t->ranges[0] = whole(p->buffers[0], ARAX_INOUT, 64);
	for (i = 0; i < 3; i++)
		t->grid[i] = t->block[i] = 1;
	t->arg_len = 4;
	memcpy(t->args, &us, 4);
	client_publish(&p->c);
	p->pending++;
}

static void *program_main(void *arg)
{
	uint32_t *round = arg;
	struct program p = { .hostile = round == &stage[PROGRAMS - 1] };

	program_open(&p);
	for (*round = 0; *round < ROUNDS; __atomic_store_n(round, *round + 1, __ATOMIC_RELAXED)) {
		uint32_t n = 1 + (uint32_t)chance(DEPTH - 1);

		while (n--) {
			if (p.pending == DEPTH)
				program_reap(&p, (uint32_t)chance(DEPTH));
			program_task(&p);
			if (!chance(8))
				stay(chance(RANDOM_US));
		}
		program_reap(&p, chance(2) ? 0 : (uint32_t)chance(DEPTH));
		/* Long enough for all to sleep, now and then. */
		if (!chance(3))
			stay(chance(500));
		if (chance(32))
			continue;
		/* Another one comes, and this one goes with what it has in flight. */
		client_close(&p.c);
		program_open(&p);
	}
	program_reap(&p, 0);
	client_close(&p.c);
	return NULL;
}

static void programs(const char *conf, uint32_t nr)
{
	pthread_t t[PROGRAMS];
	uint32_t i;

	d = daemon_up_with(conf);
	watch_begin(daemon_dump);
	for (i = 0; i < nr; i++)
		pthread_create(&t[i], NULL, program_main, &stage[i]);
	for (i = 0; i < nr; i++)
		pthread_join(t[i], NULL);
	watch_end();
	/* Else it was no test of visits. */
	ck_assert_uint_gt(daemon_visits(d), ROUNDS);
	daemon_down(d);
}

/* Two devices, one core each, as they come. */
START_TEST(programs_on_two)
{
	programs("loop { inline_us = 4 }", PROGRAMS);
}
END_TEST

/* One of each: nobody else comes by who would wake what was left asleep. */
START_TEST(program_on_one)
{
	programs("loop { inline_us = 0 poll_us = 1 } cpu { groups = { \"0\" } }", 1);
}
END_TEST

/* Lanes of their own, and what is done around a launch. */
START_TEST(programs_on_copies)
{
	programs("loop { poll_us = 0 } cpu { memory = \"8M\" }", PROGRAMS);
}
END_TEST

#define WAITERS		400u	/* more than the core lets go at once */

/* The core keeps some of what a visitor's commit sets free for whoever asks before sleeping. */
START_TEST(many_wait_for_one)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_task_ext *x;
	struct program p = { 0 };
	struct arax_task *t;
	uint32_t i, round, us = 100, buffer;

	d = daemon_up_with("loop { inline_us = 0 poll_us = 1 } cpu { groups = { \"0\" } }");
	watch_begin(daemon_dump);
	client_open(&p.c, daemon_path(d));
	ck_assert_int_eq(client_init(&p.c, 512), 0);
	ck_assert_int_eq(CALL(&p.c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	ck_assert_int_eq(CALL(&p.c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	p.queue = client_queue(&p.c, ARAX_QUEUE_DATAFLOW);
	buffer = client_buffer(&p.c, BUFFER, NULL, NULL);
	for (round = 1; round <= 20; round++) {
		x = (void *)(p.c.region + p.c.layout.arena_offset);
		memset(x, 0, 2 * sizeof(*x));
		x[0].size = x[1].size = sizeof(*x);
		x[0].signal_timeline = x[1].wait_timeline = tc.handle;
		x[0].signal_value = x[1].wait_value = round;
		for (i = 0; i <= WAITERS; i++) {
			t = client_entry(&p.c);
			t->queue = p.queue;
			t->flags = ARAX_TASK_EXT;
			t->ext = i ? sizeof(*x) : 0;
			if (!i) {
				t->opcode = ARAX_OP_LAUNCH;
				t->kernel = k.id;
				t->nr_ranges = 1;
				t->ranges[0] = whole(buffer, ARAX_INOUT, 64);
				t->grid[0] = t->grid[1] = t->grid[2] = 1;
				t->block[0] = t->block[1] = t->block[2] = 1;
				t->arg_len = 4;
				memcpy(t->args, &us, 4);
			}
			client_publish(&p.c);
			p.pending++;
			/* All of them wait by the time that the first one ends, or some. */
			if (!i)
				us = 5000 * (uint32_t)chance(4);
		}
		program_reap(&p, 0);
	}
	client_close(&p.c);
	watch_end();
	ck_assert_uint_gt(daemon_visits(d), 0);
	daemon_down(d);
}
END_TEST

/* It fills its eventfd and makes it block, and sleeps; its task takes @us.  That is its end. */
static void be_hostile(uint32_t us)
{
	const uint64_t full = UINT64_MAX - 1;
	struct program bad = { 0 };
	struct arax_ring_ctl *ctl;
	uint64_t old;

	program_open(&bad);
	ctl = (void *)bad.c.region;
	if (read(bad.c.wake_fd, &old, sizeof(old)) < 0)
		ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(write(bad.c.wake_fd, &full, sizeof(full)), sizeof(full));
	ck_assert_int_eq(fcntl(bad.c.wake_fd, F_SETFL, 0), 0);
	ctl->cq_wake_at = 1;
	__atomic_store_n(&ctl->cq_need_wakeup, ARAX_WAKE_AT, __ATOMIC_RELEASE);
	program_spin(&bad, us);
	while (!__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED))
		stay(1000);
	ck_assert_uint_eq(__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED), EPIPE);
	client_close(&bad.c);
	moved();
}

/* A visitor that wakes a program is held up by its eventfd: for that program's own harm. */
START_TEST(hostile_to_a_visitor)
{
	struct program good = { 0 };
	uint32_t i, us = 20000;
	uint64_t visits;

	d = daemon_up_with("loop { inline_us = 0 poll_us = 1 } cpu { groups = { \"0\" } }");
	watch_begin(daemon_dump);
	program_open(&good);
	visits = daemon_visits(d);
	/* On a busy machine the poller may not sleep yet when the task ends, and wakes it itself. */
	for (; daemon_visits(d) == visits && us < 5000000; us *= 2)
		be_hostile(us);
	ck_assert_uint_gt(daemon_visits(d), visits);
	for (i = 0; i < 20; i++) {
		program_spin(&good, 500);
		program_reap(&good, 0);
	}
	client_close(&good.c);
	watch_end();
	daemon_down(d);
}
END_TEST

/* ------------------------------------------------------------------ */
/* A visitor has its own device to go back to                          */

#define ENDLESS		100000u

static struct work endless;
static pthread_t visitor;
static uint32_t visitor_runs, endless_runs, endless_wanted, endless_over;

/* As if other devices' threads always had something more just when the visitor leaves. */
static void endless_run(struct work *w)
{
	bool visits = pthread_equal(pthread_self(), visitor);

	if (visits)
		visitor_runs++;
	__atomic_add_fetch(&endless_runs, 1, __ATOMIC_RELAXED);
	if ((!visits || visitor_runs < ENDLESS) &&
	    __atomic_load_n(&endless_wanted, __ATOMIC_RELAXED))
		work_push(&daemon_poller(d)->work, w);
	else
		__atomic_store_n(&endless_over, 1, __ATOMIC_RELEASE);
}

static void bring_endless(void)
{
	uint32_t runs;

	daemon_await_sleep(d);
	endless_over = visitor_runs = 0;
	endless_wanted = 1;
	poller_bring(daemon_poller(d), &endless, 0, 0);
	ck_assert_uint_lt(visitor_runs, ENDLESS);
	/* The poller, which was woken, goes on with it. */
	runs = __atomic_load_n(&endless_runs, __ATOMIC_RELAXED);
	while (__atomic_load_n(&endless_runs, __ATOMIC_RELAXED) == runs)
		sched_yield();
	__atomic_store_n(&endless_wanted, 0, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&endless_over, __ATOMIC_ACQUIRE))
		sched_yield();
}

START_TEST(visitor_leaves)
{
	d = daemon_up_with("loop { inline_us = 0 poll_us = 1 }");
	visitor = pthread_self();
	endless.run = endless_run;
	/* It may have woken up just before somebody comes, who then doesn't get in. */
	for (int i = 0; i < 1000 && !daemon_visits(d); i++)
		bring_endless();
	ck_assert_uint_gt(daemon_visits(d), 0);
	daemon_down(d);
}
END_TEST

/*
 * Who stays for the next task lets others have the core, and is the only one to do the poller's work
 * meanwhile: one who computes there must not have all tasks wait for it.  Nor does a lane that waits
 * awake for its next one do so again and again.
 */
#define SHARED_TASKS	300u
#define LANE_WAITS	8u

START_TEST(a_core_with_others)
{
	struct program p = { 0 };
	uint32_t i;

	d = daemon_up_with("loop { inline_us = 0 } cpu { groups = { \"0\" } }");
	watch_begin(daemon_dump);
	program_open(&p);
	__atomic_store_n(&cores_shared, 1, __ATOMIC_RELAXED);
	for (i = 0; i < SHARED_TASKS; i++) {
		program_spin(&p, 200);
		program_reap(&p, 0);
	}
	__atomic_store_n(&cores_shared, 0, __ATOMIC_RELAXED);
	ck_assert_uint_lt(__atomic_load_n(&visitor_yields, __ATOMIC_RELAXED), 5);
	ck_assert_uint_le(__atomic_load_n(&lane_yields, __ATOMIC_RELAXED),
			  1 + SHARED_TASKS / LANE_WAITS / 4);
	ck_assert_uint_gt(daemon_visits(d), 30);
	client_close(&p.c);
	watch_end();
	daemon_down(d);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The end                                                             */

/*
 * A lane has brought its task and is about to visit; then araxd is stopped, which wakes the
 * poller; then the visitor takes both, and the poller finds nothing to be done.
 */
static enum {
	STOP_BROUGHT = 1,	/* the lane is held */
	STOP_ARMED,		/* the poller sleeps: what it passes next is the door */
	STOP_WOKEN,		/* the lane goes on */
} stop_stage;
static uint64_t stop_visits;

static void stop_wait(uint32_t stage)
{
	while (__atomic_load_n(&stop_stage, __ATOMIC_ACQUIRE) < stage)
		sched_yield();
}

static void stop_race_point(void)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (strcmp(name, "arax-poll")) {
		if (__atomic_load_n(&stop_stage, __ATOMIC_ACQUIRE))
			return;
		__atomic_store_n(&stop_stage, STOP_BROUGHT, __ATOMIC_RELEASE);
		stop_wait(STOP_WOKEN);
	} else if (__atomic_load_n(&stop_stage, __ATOMIC_ACQUIRE) == STOP_ARMED) {
		stop_visits = daemon_visits(d);
		__atomic_store_n(&stop_stage, STOP_WOKEN, __ATOMIC_RELEASE);
		while (daemon_visits(d) == stop_visits)
			sched_yield();
	}
}

START_TEST(stopped_by_a_visitor)
{
	struct program p = { 0 };

	stop_stage = 0;
	d = daemon_up_with("loop { inline_us = 0 poll_us = 1 } cpu { groups = { \"0\" } }");
	program_open(&p);
	__atomic_store_n(&stop_staged, true, __ATOMIC_RELEASE);
	program_spin(&p, 20000);
	stop_wait(STOP_BROUGHT);
	daemon_await_sleep(d);
	__atomic_store_n(&stop_stage, STOP_ARMED, __ATOMIC_RELEASE);
	/* Fails if it doesn't end. */
	daemon_down(d);
	ck_assert_uint_eq(stop_stage, STOP_WOKEN);
	__atomic_store_n(&stop_staged, false, __ATOMIC_RELEASE);
	client_close(&p.c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("visit");
	TCase *t = tcase_create("visit");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_test(t, who_is_awake_has_the_next);
	tcase_add_test(t, door_alone);
	tcase_add_test(t, programs_on_two);
	tcase_add_test(t, program_on_one);
	tcase_add_test(t, programs_on_copies);
	tcase_add_test(t, many_wait_for_one);
	tcase_add_test(t, hostile_to_a_visitor);
	tcase_add_test(t, visitor_leaves);
	tcase_add_test(t, a_core_with_others);
	tcase_add_test(t, stopped_by_a_visitor);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
