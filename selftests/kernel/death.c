// SPDX-License-Identifier: MIT
/* Clients and mediators that die, at any instant, and what is left: nothing. */
#include "ktest.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static struct meet ready, go;

/* The module's parameter, and what it was. */
static void recovery_ms(unsigned int ms)
{
	char text[32];

	snprintf(text, sizeof(text), "%u", ms);
	CHECK_OK(write_text("/sys/module/arax/parameters/recovery_ms", text));
}

static void gone(int ctl, pid_t pid)
{
	uint64_t end = now_ns() + 20000 * MS;

	while (context_of(ctl, pid)) {
		CHECK(now_ns() < end);
		sleep_ms(2);
	}
}

/* ------------------------------------------------------------------ */
/* Clients                                                             */

#define TASKS	8

static int doomed_client(void *arg)
{
	struct arax_buffer_create b;
	struct client c;
	unsigned int i;
	uint32_t q;

	(void)arg;
	client_open(&c, 16, 128, PAGE);
	q = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	timeline_new(&c, 0);
	b = buffer_new(&c, 16 * PAGE);
	memset(buffer_map(&c, &b), 1, b.bytes);
	for (i = 0; i < TASKS; i++)
		client_range_task(&c, q, i, 0, b.handle, ARAX_INOUT, 0, PAGE);
	meet_say(&ready);
	pause();
	return 0;
}

KTEST(a_client_killed_with_work_at_the_mediator)
{
	struct arax_tenant t;
	struct arax_buffer_get g;
	uint64_t tags[TASKS], id;
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	struct mediator m;
	uint32_t context;
	struct work w;
	unsigned int i;
	pid_t pid;

	meet_init(&ready);
	mediator_open(&m, 0);
	pid = child_run(doomed_client, NULL);
	meet_hear(&ready);
	context = context_of(ctl, pid);
	CHECK(context);
	for (i = 0; i < TASKS; i++) {
		w = mediator_task(&m);
		tags[i] = w.d.tag;
		if (i < TASKS / 2)
			mediator_start(&m, w.d.tag);
	}
	id = w.ranges[0].buffer;
	CHECK_OK(mediator_get(&m, id, &g));
	close(g.fd);
	kill(pid, SIGKILL);
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	/* The mediator hears of it, and finishes into nothing. */
	w = mediator_note(&m, ARAX_DISPATCH_CONTEXT);
	CHECK_EQ(w.d.context, context);
	t = tenant_query(ctl, root);
	CHECK_EQ(t.usage.counters[ARAX_RES_TASKS].used, TASKS);
	CHECK_EQ(t.usage.counters[ARAX_RES_MEMORY].used, 16 * PAGE);
	CHECK_OK(mediator_get(&m, id, &g));
	close(g.fd);
	for (i = 0; i < TASKS; i++)
		mediator_done(&m, tags[i], i & 1 ? -EIO : 0);
	w = mediator_note(&m, ARAX_DISPATCH_BUFFER);
	CHECK_EQ(w.d.object, id);
	CHECK_ERR(mediator_get(&m, id, &g), ENOENT);
	t = tenant_query(ctl, root);
	CHECK_EQ(t.usage.counters[ARAX_RES_TASKS].used, 0);
	CHECK_EQ(t.usage.counters[ARAX_RES_CONTEXTS].used, 0);
	/* The pages go by themselves, in no time of the mediator's. */
	CHECK(COMES(!tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used));
	gone(ctl, pid);
	mediator_close(&m);
}

KTEST(a_client_killed_with_work_queued)
{
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	pid_t pid;

	meet_init(&ready);
	pid = child_run(doomed_client, NULL);
	meet_hear(&ready);
	CHECK_EQ(tenant_query(ctl, root).usage.counters[ARAX_RES_TASKS].used, TASKS);
	kill(pid, SIGKILL);
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	CHECK(COMES(!tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used));
	CHECK_EQ(tenant_query(ctl, root).usage.counters[ARAX_RES_TASKS].used, 0);
	gone(ctl, pid);
}

KTEST(a_context_killed_by_an_administrator)
{
	struct arax_kill k = { .size = sizeof(k) };
	int ctl = open_node("/dev/arax-ctl"), i;
	struct arax_context x = { .size = sizeof(x) };
	struct arax_completion e;
	struct mediator m;
	struct client c;
	struct work w;
	uint32_t q;

	mediator_open(&m, 0);
	client_open(&c, 4, 128, 0);
	q = queue_new(&c, 0);
	for (i = 0; i < 3; i++)
		client_marker(&c, q, 1, 0);
	w = mediator_task(&m);
	k.context = c.init.context;
	CHECK_OK(CALL(ctl, CONTEXT_KILL, &k));
	x.id = k.context;
	CHECK_OK(CALL(ctl, CONTEXT_QUERY, &x));
	CHECK_EQ(x.flags, 1);
	mediator_done(&m, w.d.tag, 0);
	/* Nothing is told to the dead. */
	CHECK(!client_reap(&c, &e));
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	client_close(&c);
	mediator_close(&m);
}

static int busy_client(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	struct arax_buffer_create b;
	struct arax_completion e;
	struct client c;
	uint32_t q, n, i;
	int err;

	/* The dead count for their user until the last of their tasks is done. */
	while ((err = client_try(&c, 32, 128, PAGE)) == -EDQUOT)
		sleep_ms(1);
	CHECK_OK(err);
	q = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	for (;;) {
		if (buffer_try(&c, PAGE + (uint64_t)rand_r(&seed) % (8 * PAGE), &b))
			continue;
		for (i = 0; i < 4 && c.tail - c.head < 32; i++) {
			struct arax_task *t = client_task(&c);

			t->queue = q;
			t->nr_ranges = 1;
			t->ranges[0] = (struct arax_range) { b.handle, ARAX_INOUT, 0, PAGE, 0, 1 };
			client_publish(&c);
		}
		client_submit(&c, i, &n);
		while (client_reap(&c, &e))
			;
		buffer_destroy(&c, b.handle);
	}
	return 0;
}

/* At any instant. */
KTEST(clients_killed_at_random)
{
	int round, rounds = ktest_rounds(100);
	struct server s = { .delay_us = 10 };
	unsigned int seed = 9, i;
	struct mediator m;
	pid_t pid[3];

	mediator_open(&m, 0);
	server_start(&s, &m);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 3; i++)
			pid[i] = child_run(busy_client, (void *)(uintptr_t)rand_r(&seed));
		usleep((useconds_t)(rand_r(&seed) % 30000));
		for (i = 0; i < 3; i++) {
			kill(pid[i], SIGKILL);
			CHECK_EQ(child_wait(pid[i]), 1000 + SIGKILL);
		}
	}
	server_stop(&s);
	CHECK(s.served > 0);
	mediator_close(&m);
}

/* ------------------------------------------------------------------ */
/* Mediators                                                           */

/* Takes so many tasks, says that the first so many have started, waits to be killed. */
struct plan {
	unsigned int take, start;
	unsigned int flags;
	bool close_and_live;	/* gives up the seat and lives on */
	bool dirty;		/* commits the first with its range on a device */
};

static int doomed_mediator(void *arg)
{
	struct plan *p = arg;
	struct mediator m;
	struct work w;
	unsigned int i;

	mediator_open(&m, p->flags);
	meet_say(&ready);
	for (i = 0; i < p->take; i++) {
		w = mediator_task(&m);
		if (p->dirty && !i) {
			mediator_result(&m, w.d.tag, 0)->dirty = 1;
			CHECK_EQ(mediator_flush(&m, 1).stale, 0);
			continue;
		}
		if (i < p->start)
			mediator_start(&m, w.d.tag);
	}
	if (p->close_and_live)
		mediator_close(&m);
	meet_say(&ready);
	if (p->close_and_live)
		meet_hear(&go);
	else
		pause();
	return 0;
}

static struct client c;
static uint32_t queue;

static pid_t start_mediator(struct plan *p)
{
	pid_t pid;

	meet_init(&ready);
	meet_init(&go);
	pid = child_run(doomed_mediator, p);
	meet_hear(&ready);	/* attached */
	return pid;
}

static void kill_it(pid_t pid)
{
	kill(pid, SIGKILL);
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
}

static void new_client(unsigned int flags)
{
	client_open(&c, 16, 128, PAGE);
	queue = queue_new(&c, flags);
}

KTEST(what_had_started_fails_and_the_rest_runs_in_order)
{
	struct plan p = { .take = 5, .start = 2 };
	struct arax_completion e;
	struct mediator m;
	struct work w;
	unsigned int i;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	CHECK(c.ctl->epoch);
	for (i = 0; i < 5; i++)
		client_marker(&c, queue, i, 0);
	meet_hear(&ready);
	kill_it(pid);
	/* While there is none, tasks queue up behind. */
	while (c.ctl->epoch)
		sleep_ms(1);
	client_marker(&c, queue, 5, 0);
	for (i = 0; i < 2; i++) {
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -EOWNERDEAD);
		CHECK_EQ(e.device, ~0u);
	}
	CHECK(!client_reap(&c, &e));
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	CHECK_EQ(c.ctl->epoch, m.at.epoch);
	for (i = 2; i < 6; i++) {
		w = mediator_task(&m);
		CHECK_EQ(w.d.user_data, i);
		CHECK_EQ(ARAX_TAG_EPOCH(w.d.tag), m.at.epoch);
		mediator_done(&m, w.d.tag, 0);
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, 0);
	}
	client_close(&c);
	mediator_close(&m);
}

KTEST(idempotent_tasks_run_again)
{
	struct plan p = { .take = 4, .start = 4 };
	struct mediator m;
	struct work w;
	unsigned int i;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	for (i = 0; i < 4; i++)
		client_marker(&c, queue, i, i & 1 ? ARAX_TASK_IDEMPOTENT : 0);
	meet_hear(&ready);
	kill_it(pid);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	for (i = 0; i < 4; i += 2) {
		struct arax_completion e = client_wait(&c);

		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -EOWNERDEAD);
	}
	for (i = 1; i < 4; i += 2) {
		w = mediator_task(&m);
		CHECK_EQ(w.d.user_data, i);
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).result, 0);
	}
	client_close(&c);
	mediator_close(&m);
}

/* Tasks behind a lost one in an in-order queue, or that read what it wrote. */
KTEST(dependents_of_the_lost_are_cancelled)
{
	struct plan p = { .take = 1, .start = 1 };
	struct arax_buffer_create b;
	struct arax_completion e;
	uint32_t flow, keep;
	struct mediator m;
	uint64_t origin;
	struct work w;
	pid_t pid;

	new_client(ARAX_QUEUE_IN_ORDER);
	flow = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	keep = queue_new(&c, ARAX_QUEUE_CONTINUE);
	b = buffer_new(&c, PAGE);
	pid = start_mediator(&p);
	client_range_task(&c, queue, 1, 0, b.handle, ARAX_OUT, 0, PAGE);
	meet_hear(&ready);
	client_marker(&c, queue, 2, 0);
	client_range_task(&c, flow, 3, 0, b.handle, ARAX_IN, 0, PAGE);
	client_marker(&c, flow, 4, 0);
	client_range_task(&c, keep, 5, 0, b.handle, ARAX_IN, 0, PAGE);
	kill_it(pid);
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 1);
	CHECK_EQ(e.result, -EOWNERDEAD);
	origin = e.tag;
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 2);
	CHECK_EQ(e.result, -ECANCELED);
	CHECK_EQ(e.origin, origin);
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 3);
	CHECK_EQ(e.result, -ECANCELED);
	CHECK_EQ(e.origin, origin);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	w = mediator_task(&m);
	CHECK_EQ(w.d.user_data, 4);
	mediator_done(&m, w.d.tag, 0);
	w = mediator_task(&m);
	CHECK_EQ(w.d.user_data, 5);
	mediator_done(&m, w.d.tag, 0);
	client_close(&c);
	mediator_close(&m);
}

KTEST(without_recovery_all_fail)
{
	struct plan p = { .take = 4, .start = 2 };
	struct arax_completion e;
	struct mediator m;
	struct work w;
	unsigned int i;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	for (i = 0; i < 4; i++)
		client_marker(&c, queue, i, ARAX_TASK_IDEMPOTENT);
	meet_hear(&ready);
	kill_it(pid);
	while (c.ctl->epoch)
		sleep_ms(1);
	client_marker(&c, queue, 4, 0);
	mediator_open(&m, 0);
	for (i = 0; i < 5; i++) {
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -EOWNERDEAD);
	}
	CHECK(!mediator_take(&m, &w));
	client_marker(&c, queue, 9, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	client_close(&c);
	mediator_close(&m);
}

/* A corrupt state counts as started. */
static int scribbling_mediator(void *arg)
{
	struct mediator m;
	struct work w;

	(void)arg;
	mediator_open(&m, 0);
	meet_say(&ready);
	w = mediator_task(&m);
	m.states[ARAX_TAG_SLOT(w.d.tag)] = 0xdeadbeef;
	meet_say(&ready);
	pause();
	return 0;
}

KTEST(a_corrupt_state_counts_as_started)
{
	pid_t pid;

	meet_init(&ready);
	new_client(0);
	pid = child_run(scribbling_mediator, NULL);
	meet_hear(&ready);
	client_marker(&c, queue, 1, 0);
	meet_hear(&ready);
	kill_it(pid);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	client_close(&c);
}

/* The file is closed, the process lives: its devices may still write. */
KTEST(attach_waits_for_the_old_process)
{
	struct plan p = { .take = 2, .start = 1, .close_and_live = true };
	struct arax_completion e;
	struct mediator m;
	struct work w;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	client_marker(&c, queue, 1, 0);
	client_marker(&c, queue, 2, 0);
	meet_hear(&ready);
	CHECK_EQ(c.ctl->epoch, 0);
	CHECK_ERR(mediator_try(&m, 0), EBUSY);
	CHECK_ERR(mediator_try(&m, ARAX_ATTACH_RECOVER), EBUSY);
	/* Nothing is settled yet, so nothing is lost yet. */
	sleep_ms(100);
	CHECK(!client_reap(&c, &e));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	w = mediator_task(&m);
	CHECK_EQ(w.d.user_data, 2);
	mediator_done(&m, w.d.tag, 0);
	client_close(&c);
	mediator_close(&m);
}

/* The same process says by attaching again that it has stopped its devices. */
KTEST(the_same_process_attaches_again)
{
	struct mediator m, n;
	struct work w;

	new_client(ARAX_QUEUE_DATAFLOW);
	mediator_open(&m, 0);
	client_marker(&c, queue, 1, 0);
	w = mediator_task(&m);
	mediator_close(&m);
	CHECK_OK(mediator_try(&n, ARAX_ATTACH_RECOVER));
	CHECK(n.at.epoch != ARAX_TAG_EPOCH(w.d.tag));
	/* The old tag is no tag any more. */
	mediator_result(&n, w.d.tag, 0);
	CHECK_EQ(mediator_flush(&n, 1).stale, 1);
	w = mediator_task(&n);
	CHECK_EQ(w.d.user_data, 1);
	mediator_done(&n, w.d.tag, 0);
	client_close(&c);
	mediator_close(&n);
}

static int keeps_the_seat(void *arg)
{
	struct mediator m;

	(void)arg;
	mediator_open(&m, 0);
	if (!fork()) {
		/* A worker that inherited everything, and outlives its parent. */
		prctl(PR_SET_PDEATHSIG, 0);
		meet_say(&ready);
		meet_hear(&go);
		CHECK_ERR(CALL(m.fd, FETCH, (&(struct arax_fetch) {
			.size = sizeof(struct arax_fetch) })), EPERM);
		meet_say(&ready);
		pause();
	}
	pause();
	return 0;
}

KTEST(a_worker_can_not_hold_the_seat)
{
	struct mediator m;
	pid_t pid;

	meet_init(&ready);
	meet_init(&go);
	pid = child_run(keeps_the_seat, NULL);
	meet_hear(&ready);
	kill_it(pid);
	mediator_open(&m, 0);
	meet_say(&go);
	meet_hear(&ready);
	mediator_close(&m);
}

static int closes_first(void *arg)
{
	struct mediator m;
	int more;

	(void)arg;
	mediator_open(&m, 0);
	more = dup(m.fd);
	CHECK_SYS(more);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, 0);
		pause();
	}
	/* Not the last one. */
	CHECK_SYS(close(more));
	CHECK_OK(CALL(m.fd, FETCH, (&(struct arax_fetch) { .size = sizeof(struct arax_fetch) })));
	CHECK_SYS(close(m.fd));
	meet_say(&ready);
	pause();
	return 0;
}

/* Nor after the mediator has closed its own descriptor, so that its end closes none. */
KTEST(a_worker_can_not_keep_the_seat)
{
	struct mediator m;
	pid_t pid;

	meet_init(&ready);
	pid = child_run(closes_first, NULL);
	meet_hear(&ready);
	/* Left, though it lives. */
	CHECK_ERR(mediator_try(&m, 0), EBUSY);
	kill_it(pid);
	mediator_open(&m, 0);
	mediator_close(&m);
}

/* The same, of one that is never reaped. */
KTEST(a_zombie_is_gone)
{
	struct plan p = { 0 };
	struct mediator m;
	siginfo_t info;
	pid_t pid = start_mediator(&p);

	kill(pid, SIGKILL);
	CHECK_SYS(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	mediator_open(&m, 0);
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	mediator_close(&m);
}

/* ------------------------------------------------------------------ */
/* Taking over                                                         */

static int stuck_mediator(void *arg)
{
	struct arax_commit co = { .size = sizeof(co), .count = 1 };
	struct arax_buffer_get g;
	struct mediator m;
	struct work w;
	uint8_t *p;

	close(*(int *)arg);
	mediator_open(&m, 0);
	meet_say(&ready);
	w = mediator_task(&m);
	CHECK_OK(mediator_get(&m, w.ranges[0].buffer, &g));
	p = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(p != MAP_FAILED);
	close(g.fd);
	meet_say(&ready);
	meet_hear(&go);
	/* Thrown out; what it maps is still there for its devices to write. */
	mediator_result(&m, w.d.tag, 0);
	co.first = m.next_commit - 1;
	CHECK_ERR(CALL(m.fd, COMMIT, &co), ESTALE);
	CHECK_ERR(CALL(m.fd, FETCH, (&(struct arax_fetch) {
		.size = sizeof(struct arax_fetch), .deadline_ns = ARAX_DEADLINE_NONE })), ESTALE);
	*p = 5;
	meet_say(&ready);
	meet_hear(&go);
	return 0;
}

KTEST(taking_over_from_one_that_is_stuck)
{
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	struct arax_buffer_create b;
	struct arax_completion e;
	struct mediator m;
	uint64_t held;
	struct work w;
	pid_t pid;

	meet_init(&ready);
	meet_init(&go);
	new_client(ARAX_QUEUE_DATAFLOW);
	b = buffer_new(&c, 4 * PAGE);
	/* It must not inherit the context as well. */
	pid = child_run(stuck_mediator, &c.fd);
	meet_hear(&ready);
	client_range_task(&c, queue, 1, ARAX_TASK_IDEMPOTENT, b.handle, ARAX_INOUT, 0, PAGE);
	meet_hear(&ready);
	CHECK_ERR(mediator_try(&m, 0), EBUSY);
	CHECK_OK(mediator_try(&m, ARAX_ATTACH_TAKEOVER));
	/* None of its tasks is replayed, idempotent or not. */
	e = client_wait(&c);
	CHECK_EQ(e.result, -EOWNERDEAD);
	CHECK(!mediator_take(&m, &w));
	meet_say(&go);
	meet_hear(&ready);
	/* The task's buffer stays held until the old one is gone. */
	CHECK_OK(buffer_destroy(&c, b.handle));
	client_close(&c);
	held = tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used;
	CHECK_EQ(held, b.bytes);
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	while (tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used)
		sleep_ms(1);
	/* Slots and seat serve the new one. */
	new_client(0);
	client_marker(&c, queue, 2, 0);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	client_close(&c);
	mediator_close(&m);
}

/* The one before the last is still stuck: that is no affair of the last one's tasks. */
KTEST(one_that_is_stuck_holds_up_no_other)
{
	int ctl = open_node("/dev/arax-ctl"), root = cgroup_new("");
	struct plan stuck = { .take = 1, .start = 1, .close_and_live = true };
	struct plan next = { .take = 2, .start = 1, .flags = ARAX_ATTACH_TAKEOVER };
	struct arax_buffer_create b;
	struct arax_completion e;
	struct meet alive;
	struct mediator m;
	struct work w;
	pid_t old, pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	b = buffer_new(&c, PAGE);
	old = start_mediator(&stuck);
	alive = go;
	client_range_task(&c, queue, 1, 0, b.handle, ARAX_INOUT, 0, PAGE);
	meet_hear(&ready);	/* it has closed its file and lives on */
	CHECK_OK(buffer_destroy(&c, b.handle));
	pid = start_mediator(&next);
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 1);
	CHECK_EQ(e.result, -EOWNERDEAD);
	client_marker(&c, queue, 2, 0);
	client_marker(&c, queue, 3, 0);
	meet_hear(&ready);
	kill_it(pid);
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 2);
	CHECK_EQ(e.result, -EOWNERDEAD);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	w = mediator_task(&m);
	CHECK_EQ(w.d.user_data, 3);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	/* What the stuck one uses is still held. */
	CHECK_EQ(tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used,
		 c.init.region_size + b.bytes);
	meet_say(&alive);
	CHECK_OK(child_wait(old));
	while (tenant_query(ctl, root).usage.counters[ARAX_RES_MEMORY].used != c.init.region_size)
		sleep_ms(1);
	client_close(&c);
	mediator_close(&m);
}

KTEST(taking_over_an_empty_seat_is_attaching)
{
	struct mediator m;

	CHECK_OK(mediator_try(&m, ARAX_ATTACH_TAKEOVER));
	mediator_close(&m);
}

/* ------------------------------------------------------------------ */
/* Nobody comes                                                        */

KTEST(recovery_expires)
{
	uint64_t was = (uint64_t)read_number("/sys/module/arax/parameters/recovery_ms");
	struct plan p = { .take = 2 };
	uint64_t start;
	pid_t pid;

	recovery_ms(300);
	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	client_marker(&c, queue, 1, 0);
	client_marker(&c, queue, 2, 0);
	meet_hear(&ready);
	start = now_ns();
	kill_it(pid);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	CHECK(now_ns() - start >= 250 * MS);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	recovery_ms((unsigned int)was);
	client_close(&c);
}

/* Nobody came in time, and nobody comes: who submits now has to wait as long, no longer. */
KTEST(what_comes_after_the_expiry_expires)
{
	uint64_t was = (uint64_t)read_number("/sys/module/arax/parameters/recovery_ms");
	struct plan p = { .take = 1 };
	struct arax_completion e;
	struct mediator m;
	struct work w;
	bool prompt = false, checked = false;
	uint64_t i, start, sent;
	pid_t pid;

	recovery_ms(200);
	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	client_marker(&c, queue, 1, 0);
	meet_hear(&ready);
	kill_it(pid);
	CHECK_EQ(client_wait(&c).result, -EOWNERDEAD);
	for (i = 2; !checked; i += 2) {
		start = now_ns();
		client_marker(&c, queue, i, 0);
		client_marker(&c, queue, i + 1, ARAX_TASK_IDEMPOTENT);
		sent = now_ns();
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -EOWNERDEAD);
		/*
		 * Not at once: a daemon that is restarted finds it.  The first ones have what
		 * the one that died left of its time, which began before we heard of it; so
		 * may those after one that came late, just when the time was over.
		 */
		CHECK(!prompt || now_ns() - start >= 190 * MS);
		checked = prompt;
		prompt = sent - start < 100 * MS;
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i + 1);
		CHECK_EQ(e.result, -EOWNERDEAD);
	}
	/* For ever is for ever, until it is changed and somebody comes again. */
	recovery_ms(0);
	client_marker(&c, queue, 7, 0);
	sleep_ms(300);
	CHECK(!client_reap(&c, &e));
	recovery_ms(200);
	client_marker(&c, queue, 8, 0);
	for (i = 7; i < 9; i++) {
		e = client_wait(&c);
		CHECK_EQ(e.user_data, i);
		CHECK_EQ(e.result, -EOWNERDEAD);
	}
	/* Whoever comes within the time runs it. */
	recovery_ms(60000);
	client_marker(&c, queue, 9, 0);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	w = mediator_task(&m);
	CHECK_EQ(w.d.user_data, 9);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	recovery_ms((unsigned int)was);
	client_close(&c);
	mediator_close(&m);
}

#define CAME_LATE	2

/* In a process of its own: while one lives that was attached, no other attaches. */
static int comes_in_time(void *arg)
{
	unsigned int ms = *(unsigned int *)arg;
	struct plan p = { .take = 1 };
	struct arax_completion e;
	struct mediator m;
	struct work w;
	uint64_t start;
	pid_t pid;

	recovery_ms(ms);
	new_client(ARAX_QUEUE_DATAFLOW);
	pid = start_mediator(&p);
	client_marker(&c, queue, 1, 0);
	meet_hear(&ready);
	start = now_ns();
	kill_it(pid);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	if (now_ns() - start >= ms * MS)
		return CAME_LATE;
	sleep_ms(2 * ms);
	CHECK(!client_reap(&c, &e));
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	return 0;
}

KTEST(recovery_does_not_expire_under_a_new_one)
{
	uint64_t was = (uint64_t)read_number("/sys/module/arax/parameters/recovery_ms");
	unsigned int ms = 200;
	int ret;

	while ((ret = child_wait(child_run(comes_in_time, &ms))) == CAME_LATE && ms < 12800)
		ms *= 2;
	CHECK_OK(ret);
	recovery_ms((unsigned int)was);
}

/*
 * Before the first one there is nobody to have died: tasks wait.  There is a first one
 * where the module has just been loaded (params.sh); else it is one of those above.
 */
KTEST(tasks_wait_for_the_first_mediator)
{
	uint64_t was = (uint64_t)read_number("/sys/module/arax/parameters/recovery_ms");
	struct arax_completion e;
	struct mediator m;
	struct work w;

	recovery_ms(100);
	new_client(0);
	CHECK_EQ(c.ctl->epoch, 0);
	client_marker(&c, queue, 1, 0);
	sleep_ms(300);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	if (client_reap(&c, &e)) {
		CHECK_EQ(e.result, -EOWNERDEAD);
		CHECK(m.at.epoch > 1);
	} else {
		w = mediator_task(&m);
		CHECK_EQ(w.d.user_data, 1);
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).result, 0);
	}
	recovery_ms((unsigned int)was);
	client_close(&c);
	mediator_close(&m);
}

/* ------------------------------------------------------------------ */
/* What was only on a device                                           */

KTEST(dirty_bytes_are_lost_until_rewritten)
{
	struct plan p = { .take = 1, .dirty = true };
	struct arax_buffer_create b;
	struct arax_completion e;
	struct mediator m;
	struct work w;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	b = buffer_new(&c, 4 * PAGE);
	pid = start_mediator(&p);
	client_range_task(&c, queue, 1, 0, b.handle, ARAX_OUT, PAGE, PAGE);
	CHECK_EQ(client_wait(&c).result, 0);
	CHECK_EQ(buffer_query(&c, b.handle).flags, 0);
	meet_hear(&ready);
	kill_it(pid);
	while (c.ctl->epoch)
		sleep_ms(1);
	CHECK_EQ(buffer_query(&c, b.handle).flags, ARAX_BUFFER_IS_LOST);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	/* Who would read them fails; who reads beside them doesn't. */
	client_range_task(&c, queue, 2, 0, b.handle, ARAX_IN, 2 * PAGE - 1, 1);
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.result, -EIO);
	client_range_task(&c, queue, 3, 0, b.handle, ARAX_INOUT, 0, 4 * PAGE);
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.result, -EIO);
	client_range_task(&c, queue, 4, 0, b.handle, ARAX_IN, 2 * PAGE, PAGE);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	/* Half of them rewritten is not all. */
	client_range_task(&c, queue, 5, 0, b.handle, ARAX_OUT, PAGE, PAGE / 2);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	CHECK_EQ(buffer_query(&c, b.handle).flags, ARAX_BUFFER_IS_LOST);
	/* A failed rewrite is none. */
	client_range_task(&c, queue, 6, 0, b.handle, ARAX_OUT, 0, 4 * PAGE);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, -EIO);
	CHECK_EQ(client_wait(&c).result, -EIO);
	CHECK_EQ(buffer_query(&c, b.handle).flags, ARAX_BUFFER_IS_LOST);
	client_range_task(&c, queue, 7, 0, b.handle, ARAX_OUT, 0, 4 * PAGE);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	CHECK_EQ(buffer_query(&c, b.handle).flags, 0);
	client_range_task(&c, queue, 8, 0, b.handle, ARAX_IN, 0, 4 * PAGE);
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	client_close(&c);
	mediator_close(&m);
}

/* Queued while nobody is there, or while the old one is not wholly gone. */
KTEST(readers_behind_a_rewriter_run)
{
	struct plan p = { .take = 1, .dirty = true };
	struct arax_buffer_create b;
	struct arax_completion e;
	struct mediator m;
	struct work w;
	uint64_t i;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	b = buffer_new(&c, 4 * PAGE);
	pid = start_mediator(&p);
	client_range_task(&c, queue, 1, 0, b.handle, ARAX_OUT, PAGE, PAGE);
	CHECK_EQ(client_wait(&c).result, 0);
	meet_hear(&ready);
	kill_it(pid);
	while (c.ctl->epoch)
		sleep_ms(1);
	client_range_task(&c, queue, 2, 0, b.handle, ARAX_IN, PAGE, 1);
	client_range_task(&c, queue, 3, 0, b.handle, ARAX_OUT, 0, 4 * PAGE);
	client_range_task(&c, queue, 4, 0, b.handle, ARAX_IN, PAGE, PAGE);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	e = client_wait(&c);
	CHECK_EQ(e.user_data, 2);
	CHECK_EQ(e.result, -EIO);
	for (i = 3; i < 5; i++) {
		w = mediator_task(&m);
		CHECK_EQ(w.d.user_data, i);
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).result, 0);
	}
	CHECK_EQ(buffer_query(&c, b.handle).flags, 0);
	client_close(&c);
	mediator_close(&m);
}

/* ------------------------------------------------------------------ */
/* At any instant                                                      */

static int busy_mediator(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	struct arax_fetch f = { .size = sizeof(f) };
	struct arax_buffer_get g;
	struct mediator m;
	struct work w;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	for (;;) {
		while (mediator_take(&m, &w)) {
			if (w.d.type != ARAX_DISPATCH_TASK)
				continue;
			mediator_start(&m, w.d.tag);
			if (!(rand_r(&seed) % 4))
				usleep((useconds_t)(rand_r(&seed) % 2000));
			if (w.d.nr_ranges && !mediator_get(&m, w.ranges[0].buffer, &g))
				close(g.fd);
			mediator_result(&m, w.d.tag, rand_r(&seed) % 8 ? 0 : -EIO);
			mediator_flush(&m, 1);
		}
		f.deadline_ns = ARAX_DEADLINE_NONE;
		CALL(m.fd, FETCH, &f);
	}
	return 0;
}

/*
 * Each task ends exactly once, whatever becomes of whoever runs it, and in the
 * end all is even.
 */
KTEST(mediators_killed_at_random)
{
	unsigned int seed = 5, i, got = 0, sent = 0, dead = 0;
	int round, rounds = ktest_rounds(60);
	uint8_t *seen = calloc(100000, 1);
	struct arax_buffer_create b;
	struct arax_completion e;
	struct mediator m;
	struct work w;
	pid_t pid;

	new_client(ARAX_QUEUE_DATAFLOW);
	b = buffer_new(&c, PAGE);
	for (round = 0; round < rounds; round++) {
		uint64_t end;

		pid = child_run(busy_mediator, (void *)(uintptr_t)rand_r(&seed));
		while (!*(volatile uint32_t *)&c.ctl->epoch)
			sleep_ms(1);
		end = now_ns() + (uint64_t)(rand_r(&seed) % 20000) * 1000;
		do {
			for (i = 0; i < 4 && sent - got < 16; i++) {
				client_range_task(&c, queue, sent,
						  rand_r(&seed) % 2 ? ARAX_TASK_IDEMPOTENT : 0,
						  b.handle, ARAX_IN, 0, PAGE);
				sent++;
			}
			while (client_reap(&c, &e)) {
				CHECK(e.user_data < sent && !seen[e.user_data]++);
				CHECK(e.result == 0 || e.result == -EIO ||
				      e.result == -EOWNERDEAD);
				dead += e.result == -EOWNERDEAD;
				got++;
			}
		} while (now_ns() < end && sent < 99000);
		kill_it(pid);
		/* Its seat is free a moment later. */
		while (*(volatile uint32_t *)&c.ctl->epoch)
			sleep_ms(1);
	}
	/* Deaths that harm nobody would be no test. */
	CHECK(rounds < 20 || dead > 0);
	mediator_open(&m, ARAX_ATTACH_RECOVER);
	while (got < sent) {
		while (mediator_take(&m, &w))
			if (w.d.type == ARAX_DISPATCH_TASK)
				mediator_done(&m, w.d.tag, 0);
		while (client_reap(&c, &e)) {
			CHECK(!seen[e.user_data]++);
			got++;
		}
	}
	for (i = 0; i < sent; i++)
		CHECK_EQ(seen[i], 1);
	printf("# %u tasks, %u lost to %d deaths\n", sent, dead, rounds);
	client_close(&c);
	mediator_close(&m);
}
