// SPDX-License-Identifier: MIT
/*
 * Any bytes in what others can write: a client's region, the mediator's page,
 * slot states and commit entries.  A second, decent client must get each of
 * its completions, and at the end the books must balance.
 */
#include "selftests/fuzz/core_input.h"
#define FX_ABORTS
#include "selftests/unit/core_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEEP	32

struct run {
	struct input in;
	struct fx *fx;
	struct fx_client *evil;
	struct fx_client *decent;	/* its queue goes on after a failure */
	u32 buffers[2];
	u32 timeline;
	u32 kernel;
	u64 tags[KEEP];
	u32 nr_tags;
	u32 sent;
	u32 got;
	bool waits[64];		/* by user_data, of which 16 are under way at most */
};

static void scribble(struct run *r, u8 *at, size_t bytes)
{
	u32 off = take32(&r->in) % bytes, n = take8(&r->in);

	take(&r->in, at + off, off + n < bytes ? n : bytes - off);
}

/* An entry as good as the bytes let it be, in the right place. */
static void entry(struct run *r)
{
	struct arax_task256 e;
	struct arax_task *t = &e.base;
	u32 i, how = take8(&r->in);
	struct fx_client *cl = r->evil;
	u8 *slot = cl->region + cl->init.sq_offset +
		   (cl->c->sq_head & (cl->init.depth - 1)) * cl->init.entry_size;

	take(&r->in, &e, how & 1 ? sizeof(e) : 48);
	if (how & 2)
		t->queue = cl->queue;
	if (how & 4)
		t->kernel = r->kernel | (how & 0x80 ? ARAX_KERNEL_OWN : 0);
	if (how & 8) {
		t->opcode %= ARAX_OP_MAX;
		t->flags &= ARAX_TASK_FLAGS;
		t->nr_ranges %= 3;
	}
	for (i = 0; i < 2 && how & 0x10; i++) {
		t->ranges[i].buffer = r->buffers[i];
		t->ranges[i].access = 1 + (t->ranges[i].access & 1);
		t->ranges[i].count = 1 + (t->ranges[i].count & 7);
	}
	t->seq = cl->c->sq_head + 1;
	memcpy(slot, &e, cl->init.entry_size);
	core_submit(cl->c, 1);
}

static void extension(struct run *r)
{
	struct arax_task_ext x;
	struct fx_client *cl = r->evil;
	u32 how = take8(&r->in);

	if (!cl->init.arena_size)
		return;
	take(&r->in, &x, sizeof(x));
	x.size = sizeof(x);
	x.nr_ranges &= 0x3f;
	if (how & 1)
		x.wait_timeline = r->timeline;
	if (how & 2)
		x.signal_timeline = r->timeline;
	if (how & 4)
		x.arg_len = 0;
	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
}

static void decent_read(struct run *r)
{
	struct arax_completion e;

	while (fx_pop(r->decent, &e)) {
		/* In the order of commits, which the bytes decide; but once each. */
		ck_assert(e.user_data < r->sent && r->waits[e.user_data % 64]);
		r->waits[e.user_data % 64] = false;
		r->got++;
	}
}

static void decent_send(struct run *r)
{
	struct arax_task t = fx_marker(r->decent, r->sent);

	decent_read(r);
	if (r->sent - r->got == 16 || r->waits[r->sent % 64])
		return;
	r->waits[r->sent % 64] = true;
	ck_assert_int_eq(fx_send(r->decent, &t), 1);
	r->sent++;
}

static void drain(struct run *r)
{
	const struct arax_dispatch *d;

	/* The decent mediator looks at its own position, not at the page. */
	while ((d = fx_next(r->fx)))
		if (d->type == ARAX_DISPATCH_TASK)
			r->tags[r->nr_tags++ % KEEP] = d->tag;
}

static void commits(struct run *r)
{
	union core_args a = { 0 };
	u32 n = take8(&r->in), i, how = take8(&r->in);

	for (i = 0; i < (n & 7); i++) {
		struct arax_commit_entry *e = &r->fx->core->commits[i];

		take(&r->in, e, sizeof(*e));
		if (how & 1)
			e->tag = r->tags[take8(&r->in) % KEEP];
	}
	take(&r->in, (u8 *)&a + 4, how & 2 ? sizeof(a.commit) - 4 : 4);
	if (!(how & 2)) {
		a.commit.flags = 0;
		a.commit.count = n & 7;
	}
	fx_call(r->fx, NULL, ARAX_NR_COMMIT, &a);
}

/* The evil one's: a queue of its may wait for room. */
static void limit_tasks(struct run *r, u32 max)
{
	struct arax_limit l = {
		.cgroup_fd = 3, .what = ARAX_SET_MAX + ARAX_RES_TASKS,
		.value = max == 0xf ? ARAX_LIMIT_MAX : max,
	};

	ck_assert_int_eq(core_limit_set(r->fx->core, &l), 0);
}

static void step(struct run *r)
{
	struct arax_fetch f = { 0 };
	u32 restart;

	switch (take8(&r->in) % 12) {
	case 0:
		scribble(r, r->evil->region, r->evil->init.region_size);
		break;
	case 1:
	case 2:
	case 3:
		entry(r);
		break;
	case 4:
		extension(r);
		break;
	case 5:
		core_submit(r->evil->c, take8(&r->in));
		break;
	case 6:
		scribble(r, (u8 *)r->fx->core->page, 4096);
		break;
	case 7:
		scribble(r, (u8 *)r->fx->core->states, 16);
		break;
	case 8:
		commits(r);
		break;
	case 9:
		drain(r);
		break;
	case 10:
		decent_send(r);
		break;
	case 11:
		restart = take8(&r->in);
		core_fetch(r->fx->core, &f);
		if ((restart & 0xf) == 1)
			limit_tasks(r, restart >> 4);
		if (restart & 0xf)
			break;
		fx_die(r->fx);
		ck_assert_int_eq(fx_attach(r->fx, ARAX_ATTACH_RECOVER), 0);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = { .in = { data, size } };
	struct core_params p = fx_params();
	union core_args a = { 0 };
	u32 how = take8(&r.in);

	p.cells = CORE_MIN_CELLS;
	p.slots = 3 + (how & 7);
	r.fx = fx_new(&p);
	ck_assert_int_eq(fx_attach(r.fx, 0), 0);
	a.kernel_publish.kinds = 1;
	a.kernel_publish.name[0] = 'k';
	a.kernel_publish.sig = (struct arax_signature){ .nr_ranges = 1, .access = ARAX_OUT };
	ck_assert_int_eq(fx_call(r.fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
	r.kernel = a.kernel_publish.id;
	r.decent = fx_client_ready(r.fx);
	r.decent->queue = fx_queue(r.decent, ARAX_QUEUE_CONTINUE);
	r.evil = fx_client(r.fx, 7, 3);
	ck_assert_int_eq(fx_init(r.evil, 2u << (how >> 3 & 3), how & 0x20 ? 256 : 128,
				 how & 0x40 ? 8192 : 0), 0);
	r.evil->queue = fx_queue(r.evil, (how & 0x80 ? ARAX_QUEUE_DATAFLOW : 0) |
					 (how & 1 ? ARAX_QUEUE_WAIT : 0));
	r.buffers[0] = fx_buffer(r.evil, 4096);
	r.buffers[1] = fx_buffer(r.evil, 65536);
	r.timeline = fx_timeline(r.evil, 0);
	while (r.in.left)
		step(&r);
	/* A sane mediator again: the decent client gets all that it waits for. */
	fx_release(r.evil);
	fx_die(r.fx);
	ck_assert_int_eq(fx_attach(r.fx, ARAX_ATTACH_RECOVER), 0);
	fx_drain(r.fx);
	decent_read(&r);
	ck_assert(r.got == r.sent);
	fx_release(r.decent);
	fx_free(r.fx);
	return 0;
}
