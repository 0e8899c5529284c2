// SPDX-License-Identifier: MIT
/*
 * Random calls against a simple model: each accepted task completes once, what
 * is charged is what is alive, and a context's tasks are dispatched in the
 * order in which they were submitted.
 */
#include "core_fixture.h"

#define CLIENTS		3
#define DEPTH		16
#define MAX_TASKS	4000	/* of one context */
#define BUFFERS		4
#define STUCK		3

struct model_task {
	bool accepted;
	bool silent;
	bool posted;
};

struct model_client {
	struct fx_client *cl;
	u32 next;		/* user_data of the next task */
	u32 posted;		/* completions seen */
	u64 last_dispatched;	/* user_data + 1, in this epoch */
	u32 queues[3];
	u32 buffers[BUFFERS];
	u32 timeline;
	u64 signalled;
	struct model_task tasks[MAX_TASKS];
};

struct model {
	struct fx *fx;
	struct model_client c[CLIENTS];
	u64 running[64];	/* tags at the mediator */
	u32 nr_running;
	u32 stuck[STUCK];	/* epochs of mediators that were taken over from */
	u32 nr_stuck;
	u32 seed;
	bool live;
};

static u32 rnd(struct model *m, u32 n)
{
	m->seed = m->seed * 1664525 + 1013904223;
	return (u32)((u64)m->seed * n >> 32);
}

static void open_client(struct model *m, struct model_client *c)
{
	u32 i;

	c->cl = fx_client(m->fx, 1 + rnd(m, 2), 2 + rnd(m, 2));
	ck_assert_int_eq(fx_init(c->cl, DEPTH, 128, 4096), 0);
	c->queues[0] = fx_queue(c->cl, 0);
	c->queues[1] = fx_queue(c->cl, ARAX_QUEUE_DATAFLOW);
	c->queues[2] = fx_queue(c->cl, ARAX_QUEUE_CONTINUE);
	for (i = 0; i < BUFFERS; i++)
		c->buffers[i] = fx_buffer(c->cl, 4096);
	c->timeline = fx_timeline(c->cl, 0);
	c->signalled = 0;
	c->next = 0;
	c->posted = 0;
	c->last_dispatched = 0;
	memset(c->tasks, 0, sizeof(c->tasks));
}

static void send_one(struct model *m, struct model_client *c)
{
	u32 from = rnd(m, BUFFERS), to = rnd(m, BUFFERS), n = c->next;
	struct arax_task_ext x = { .size = sizeof(x) };
	struct arax_task t;
	int ret;

	if (n == MAX_TASKS)
		return;
	t = fx_copy(c->cl, n, c->buffers[from], c->buffers[to], 1 + rnd(m, 100));
	t.queue = c->queues[rnd(m, 3)];
	t.ranges[0].offset = rnd(m, 2000);
	t.ranges[1].offset = rnd(m, 2000);
	if (!rnd(m, 3))
		t.flags |= ARAX_TASK_IDEMPOTENT;
	if (!rnd(m, 5))
		t.flags |= ARAX_TASK_SILENT;
	if (!rnd(m, 8))
		t.flags |= ARAX_TASK_BARRIER;
	if (!rnd(m, 10))
		t.ranges[1].length++;		/* refused */
	if (!rnd(m, 4)) {
		t.flags |= ARAX_TASK_EXT;
		t.ext = n % DEPTH * (u32)sizeof(x);
		x.wait_timeline = c->timeline;
		x.wait_value = c->signalled + rnd(m, 3);
		if (rnd(m, 2)) {
			x.signal_timeline = c->timeline;
			x.signal_value = ++c->signalled;
		}
		memcpy(c->cl->region + c->cl->init.arena_offset + t.ext, &x, sizeof(x));
	}
	fx_push(c->cl, &t);
	ret = fx_submit(c->cl, 1);
	if (ret == -EAGAIN) {
		c->cl->sq_tail--;	/* as if it had not been written */
		((struct arax_task *)(c->cl->region + c->cl->init.sq_offset +
				      (c->cl->sq_tail & (DEPTH - 1)) * 128))->seq = 0;
		return;
	}
	ck_assert_int_eq(ret, 1);
	c->tasks[n].accepted = true;
	c->tasks[n].silent = t.flags & ARAX_TASK_SILENT;
	c->next++;
}

static void read_some(struct model_client *c, u32 max)
{
	struct arax_completion e;

	while (max-- && fx_pop(c->cl, &e)) {
		if (e.user_data >= c->next || c->tasks[e.user_data].posted)
			ck_abort_msg("completion of %llu is not expected",
				     (unsigned long long)e.user_data);
		if (c->tasks[e.user_data].silent && !e.result)
			ck_abort_msg("a silent success was posted");
		c->tasks[e.user_data].posted = true;
		c->posted++;
	}
}

static void take_some(struct model *m, u32 max)
{
	const struct arax_dispatch *d;
	u32 i;

	while (max-- && m->nr_running < 64 && (d = fx_next(m->fx))) {
		if (d->type != ARAX_DISPATCH_TASK)
			continue;
		for (i = 0; i < CLIENTS; i++) {
			struct model_client *c = &m->c[i];

			if (c->cl->init.context != d->context)
				continue;
			if (d->user_data + 1 <= c->last_dispatched)
				ck_abort_msg("%llu was dispatched after %llu",
					     (unsigned long long)d->user_data,
					     (unsigned long long)c->last_dispatched - 1);
			c->last_dispatched = d->user_data + 1;
		}
		m->running[m->nr_running++] = d->tag;
		if (!rnd(m, 2))
			fx_start(m->fx, d->tag);
	}
}

static void commit_one(struct model *m)
{
	u32 i;

	if (!m->nr_running)
		return;
	i = rnd(m, m->nr_running);
	if (rnd(m, 6))
		ck_assert_uint_eq(fx_commit_dirty(m->fx, m->running[i], rnd(m, 4)), 0);
	else
		ck_assert_uint_eq(fx_commit(m->fx, m->running[i], -EIO), 0);
	ck_assert_uint_eq(fx_commit(m->fx, m->running[i], 0), 1);
	m->running[i] = m->running[--m->nr_running];
}

static void restart(struct model *m)
{
	u32 i;

	core_detach(m->fx->core);
	m->live = false;
	m->nr_running = 0;
	for (i = 0; i < CLIENTS; i++)
		m->c[i].last_dispatched = 0;
	for (i = rnd(m, 4); i; i--)
		send_one(m, &m->c[rnd(m, CLIENTS)]);
	if (rnd(m, 4)) {
		fx_gone(m->fx);
		ck_assert_int_eq(fx_attach(m->fx, rnd(m, 3) ? ARAX_ATTACH_RECOVER : 0), 0);
	} else {
		ck_assert_int_eq(fx_attach(m->fx, ARAX_ATTACH_TAKEOVER), 0);
		m->stuck[m->nr_stuck++ % STUCK] = m->fx->epoch - 1;
	}
	/* One that was stuck is gone at last, perhaps much later. */
	if (m->nr_stuck >= STUCK)
		core_mediator_gone(m->fx->core, m->stuck[m->nr_stuck % STUCK]);
	m->live = true;
}

static void replace_buffer(struct model *m, struct model_client *c)
{
	u32 i = rnd(m, BUFFERS);

	if (rnd(m, 2)) {
		struct core_buffer *buf = core_handle_find(&c->cl->c->handles, CORE_BUFFER,
							   c->buffers[i]);
		struct arax_buffer_get get = { .id = buf->id };

		ck_assert_int_eq(core_buffer_get(m->fx->core, &get), 0);
		fx_close_buffer(m->fx, buf);
	}
	ck_assert_int_eq(core_buffer_destroy(c->cl->c, c->buffers[i]), 0);
	c->buffers[i] = fx_buffer(c->cl, 4096);
}

/* Completed, but held by a mediator that is stuck: all, or of one client. */
static u32 zombies(struct model *m, const struct core_client *c)
{
	struct clist *pos, *tmp;
	u32 n = 0;

	clist_for_each_safe(pos, tmp, &m->fx->core->zombies)
		n += !c || clist_entry(pos, struct core_task, node)->client == c;
	return n;
}

/* So many of its tasks are in flight and have no slot. */
static u32 queued(const struct core_client *c)
{
	struct clist *pos, *tmp;
	u32 n = 0;

	clist_for_each_safe(pos, tmp, &c->queued)
		n++;
	clist_for_each_safe(pos, tmp, &c->exam)
		n += clist_entry(pos, struct core_task, node)->state == CORE_TASK_QUEUED;
	return n;
}

/* The books: memory and contexts by what lives, tasks by what has not completed. */
static void check_books(struct model *m)
{
	struct fx *fx = m->fx;
	u32 i, k, waiting[3] = { 0 };
	u64 tasks = 0, done = 0;

	for (i = 0; i < CLIENTS; i++)
		tasks += m->c[i].cl->c->nr_tasks;
	for (i = 0; i < CLIENTS; i++) {
		struct core_client *c = m->c[i].cl->c;

		ck_assert_uint_le(c->nr_tasks, DEPTH);
		done += core_client_unread(c);
		waiting[c->uid] += queued(c);
		ck_assert_uint_eq(c->submitted, m->c[i].next);
		ck_assert_uint_eq(c->nr_zombies, zombies(m, c));
		ck_assert_uint_eq(m->c[i].posted + core_client_unread(c) + c->silent + c->nr_tasks,
				  m->c[i].next);
	}
	(void)done;
	for (i = 0; i < CLIENTS; i++) {
		struct core_client *c = m->c[i].cl->c;

		ck_assert_uint_eq(c->user->nr_queued, waiting[c->uid]);
	}
	ck_assert_uint_ge(fx_used(fx->tenants[0], ARAX_RES_TASKS), tasks);
	for (i = 0, k = 0; i < 2; i++)
		k += (u32)fx_used(fx->tenants[2 + i], ARAX_RES_TASKS);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_TASKS), k);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY),
			  fx->buffers * 4096ull + fx->rings * m->c[0].cl->init.region_size);
}

static void step(struct model *m)
{
	struct model_client *c = &m->c[rnd(m, CLIENTS)];

	switch (rnd(m, 40)) {
	case 0 ... 14:
		send_one(m, c);
		break;
	case 15 ... 19:
		take_some(m, 1 + rnd(m, 8));
		break;
	case 20 ... 29:
		commit_one(m);
		break;
	case 30 ... 34:
		read_some(c, 1 + rnd(m, 20));
		break;
	case 35: {
		struct arax_cancel a = { .user_data = c->next ? rnd(m, c->next) : 0 };

		if (!rnd(m, 4))
			a = (struct arax_cancel){ .flags = ARAX_CANCEL_QUEUE,
						  .queue = c->queues[rnd(m, 3)] };
		ck_assert_int_eq(core_cancel(c->cl->c, &a), 0);
		break;
	}
	case 36: {
		struct arax_timeline_point p = { .handle = c->timeline, .value = c->signalled };

		core_timeline_advance(c->cl->c, &p);
		break;
	}
	case 37:
		replace_buffer(m, c);
		break;
	case 38:
		if (!rnd(m, 8))
			restart(m);
		break;
	case 39:
		if (rnd(m, 8))
			break;
		if (rnd(m, 2))
			core_client_kill(c->cl->c, EPIPE);
		fx_release(c->cl);
		open_client(m, c);
		break;
	}
}

START_TEST(random_calls)
{
	static struct model m;
	struct core_params p = fx_params();
	u32 i;

	memset(&m, 0, sizeof(m));
	m.seed = (u32)_i + 1;
	p.slots = 2 + rnd(&m, 30);
	p.cells = 256;
	m.fx = fx_new(&p);
	ck_assert_int_eq(fx_attach(m.fx, 0), 0);
	m.live = true;
	for (i = 0; i < CLIENTS; i++)
		open_client(&m, &m.c[i]);
	for (i = 0; i < 6000; i++) {
		step(&m);
		if (i % 16 == 0)
			check_books(&m);
	}
	for (i = 0; i < STUCK; i++)
		core_mediator_gone(m.fx->core, m.stuck[i]);
	/* Everything that is left runs to its end. */
	for (i = 0; i < CLIENTS; i++) {
		struct arax_timeline_point t = { .handle = m.c[i].timeline, .value = 1ull << 60 };

		ck_assert_int_eq(core_timeline_advance(m.c[i].cl->c, &t), 0);
	}
	do {
		take_some(&m, 64);
		for (i = m.nr_running; i; i--)
			commit_one(&m);
		for (i = 0; i < CLIENTS; i++)
			read_some(&m.c[i], DEPTH);
	} while (m.fx->core->page->head != m.fx->core->tail || m.nr_running);
	check_books(&m);
	ck_assert_uint_eq(fx_used(m.fx->tenants[0], ARAX_RES_TASKS), 0);
	for (i = 0; i < CLIENTS; i++)
		fx_release(m.c[i].cl);
	while (m.nr_running)
		commit_one(&m);
	fx_free(m.fx);
}
END_TEST

Suite *core_model_suite(void)
{
	Suite *s = suite_create("core model");
	TCase *tc = tcase_create("model");
	const char *scale = getenv("CORE_TEST_SCALE");

	tcase_set_timeout(tc, 600);
	tcase_add_loop_test(tc, random_calls, 0, scale ? atoi(scale) : 40);
	suite_add_tcase(s, tc);
	return s;
}
