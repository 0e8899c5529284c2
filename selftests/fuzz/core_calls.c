// SPDX-License-Identifier: MIT
/*
 * Any sequence of calls, with any bytes in their structs, by three contexts
 * and a mediator that comes and goes.  At the end everything is closed and the
 * books must balance: core_destroy() and fx_free() abort if they don't.
 */
#include "selftests/fuzz/core_input.h"
#define FX_ABORTS
#include "selftests/unit/core_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLIENTS	3
#define KEEP	32

struct run {
	struct input in;
	struct fx *fx;
	struct fx_client *cl[CLIENTS];
	/* What calls gave out, by enum core_type; no context's in particular. */
	u32 handles[CORE_TIMELINE + 1][KEEP];
	u32 nr_handles[CORE_TIMELINE + 1];
	u64 tags[KEEP];
	u32 nr_tags;
	struct core_buffer *held[KEEP];
	u32 nr_held;
};

static bool live(struct run *r)
{
	return r->fx->core->state == CORE_LIVE;
}

static void keep_handle(struct run *r, enum core_type type, u32 h)
{
	if (h)
		r->handles[type][r->nr_handles[type]++ % KEEP] = h;
}

/* One of the last few. */
static u32 handle(const struct run *r, enum core_type type, u32 n)
{
	u32 have = r->nr_handles[type];

	if (!have)
		return 0;
	return r->handles[type][(have - 1 - n % (have < 4 ? have : 4)) % KEEP];
}

static void after(struct run *r, struct fx_client *cl, u32 nr, const union core_args *a)
{
	switch (nr) {
	case ARAX_NR_CONTEXT_INIT:
		cl->init = a->context_init;
		break;
	case ARAX_NR_BUFFER_CREATE:
		keep_handle(r, CORE_BUFFER, a->buffer_create.handle);
		break;
	case ARAX_NR_BUFFER_IMPORT:
		keep_handle(r, CORE_BUFFER, a->buffer_import.handle);
		break;
	case ARAX_NR_QUEUE_CREATE:
		keep_handle(r, CORE_QUEUE, a->queue_create.handle);
		break;
	case ARAX_NR_TIMELINE_CREATE:
		keep_handle(r, CORE_TIMELINE, a->timeline_create.handle);
		break;
	case ARAX_NR_TIMELINE_IMPORT:
		keep_handle(r, CORE_TIMELINE, a->timeline_share.handle);
		break;
	case ARAX_NR_ATTACH:
		r->fx->head = 0;
		break;
	case ARAX_NR_BUFFER_GET:
		r->held[r->nr_held++] = core_handle_find(&r->fx->core->buffers, CORE_BUFFER,
							 (u32)a->buffer_get.id);
		break;
	}
}

/* What would only cost memory. */
static bool too_much(struct run *r, u32 nr, const union core_args *a)
{
	switch (nr) {
	case ARAX_NR_CONTEXT_INIT:
		return a->context_init.depth > 64 || a->context_init.arena_size > 1 << 16;
	case ARAX_NR_BUFFER_GET:
		return r->nr_held == KEEP;
	}
	return false;
}

static int link_call(struct run *r, struct fx_client *cl, u32 nr, union core_args *a)
{
	struct core_wait w;
	u32 index;
	int err;

	switch (nr) {
	case ARAX_NR_SUBMIT:
		return core_submit(cl->c, a->submit.to_submit);
	case ARAX_NR_WAIT:
		err = core_wait_begin(cl->c, &a->wait, &w);
		if (!err) {
			core_wait_poll(&w, &index);
			core_wait_end(&w);
		}
		return err;
	case ARAX_NR_FETCH:
		return core_fetch(r->fx->core, &a->fetch);
	}
	return fx_call(r->fx, cl, nr, a);
}

static void any_call(struct run *r)
{
	u32 nr = take8(&r->in), how = take8(&r->in), at = take8(&r->in), bytes = take8(&r->in);
	struct fx_client *cl = r->cl[how % CLIENTS];
	const struct core_call *call = core_call_find(nr);
	union core_args a = { 0 };

	if (!call)
		return;
	take(&r->in, &a, bytes < call->size ? bytes : call->size);
	a.size = how & 0x10 ? a.size : call->size;
	/* A handle that exists, at some word of the struct. */
	if (how & 0x60 && 4 * (at >> 2) + 4u <= call->size) {
		u32 h = handle(r, how >> 5 & 3, at & 3);

		memcpy((u8 *)&a + 4 * (at >> 2), &h, 4);
	}
	if (nr == ARAX_NR_CONTEXT_INIT && how & 0x80) {
		a.context_init.ring_fd = -1;
		a.context_init.wake_fd = -1;
		a.context_init.depth = 2u << (at & 3);
		a.context_init.entry_size = at & 4 ? 128 : 256;
		a.context_init.arena_size = (at & 0x18) << 9;
	}
	/* As a link checks it. */
	if (a.size < call->min_size || a.size > call->size || too_much(r, nr, &a))
		return;
	if (call->flags & CORE_ROLE_CLIENT) {
		if (!cl)
			return;
	} else {
		cl = NULL;
		if (call->flags & CORE_ROLE_MEDIATOR && !live(r))
			return;
	}
	if (cl && call->flags & CORE_CALL_INIT && !core_client_ready(cl->c))
		return;
	if (link_call(r, cl, nr, &a) >= 0 && nr != ARAX_NR_SUBMIT)
		after(r, cl, nr, &a);
}

/* A task that has a chance: real handles, a published word. */
static void push(struct run *r)
{
	struct fx_client *cl = r->cl[take8(&r->in) % CLIENTS];
	u32 i, how = take8(&r->in);
	struct arax_task_ext x;
	struct arax_task t;

	if (!cl || !core_client_ready(cl->c) || !cl->region)
		return;
	take(&r->in, &t, how & 0x80 ? 64 : sizeof(t));
	if (how & 1)
		t.queue = handle(r, CORE_QUEUE, how >> 5);
	if (how & 2) {
		t.opcode %= ARAX_OP_MAX;
		t.flags &= ARAX_TASK_FLAGS;
		t.nr_ranges %= 3;
		for (i = 0; i < 2; i++) {
			t.ranges[i].buffer = handle(r, CORE_BUFFER, t.ranges[i].buffer);
			t.ranges[i].access = 1 + t.ranges[i].access % 3;
			t.ranges[i].count = 1;
			t.ranges[i].stride = 0;
			t.ranges[i].offset &= 0xfff;
			t.ranges[i].length &= 0xff;
		}
	}
	if (t.flags & ARAX_TASK_EXT && cl->init.arena_size && how & 4) {
		take(&r->in, &x, sizeof(x));
		x.size = sizeof(x);
		x.nr_ranges &= 1;
		if (x.wait_timeline & 1)
			x.wait_timeline = handle(r, CORE_TIMELINE, x.wait_timeline >> 1);
		if (x.signal_timeline & 1)
			x.signal_timeline = handle(r, CORE_TIMELINE, x.signal_timeline >> 1);
		x.wait_value &= 15;
		x.signal_value &= 15;
		t.ext = 0;
		memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	}
	cl->sq_tail = cl->c->sq_head;
	fx_push(cl, &t);
	core_submit(cl->c, 1);
}

static void mediate(struct run *r)
{
	const struct arax_dispatch *d;
	u32 i, how = take8(&r->in);

	if (!live(r))
		return;
	if (how & 1) {
		d = fx_next(r->fx);
		if (d && d->type == ARAX_DISPATCH_TASK) {
			r->tags[r->nr_tags++ % KEEP] = d->tag;
			if (how & 2)
				fx_start(r->fx, d->tag);
		}
		return;
	}
	i = (how >> 3) % KEEP;
	if (how & 4)
		fx_commit_dirty(r->fx, r->tags[i], take8(&r->in));
	else
		fx_commit(r->fx, r->tags[i], -(s32)take8(&r->in));
}

static void open_or_close(struct run *r)
{
	u32 how = take8(&r->in);
	struct fx_client **cl = &r->cl[how % CLIENTS];

	if (!*cl) {
		*cl = fx_client(r->fx, how >> 4 & 1, 2 + (how >> 5 & 1));
		if (how & 0x40 && !fx_init(*cl, 8, 128, 4096)) {
			keep_handle(r, CORE_QUEUE, fx_queue(*cl, how >> 2 & 3));
			keep_handle(r, CORE_BUFFER, fx_buffer(*cl, 4096));
			keep_handle(r, CORE_TIMELINE, fx_timeline(*cl, 0));
		}
		return;
	}
	if (how & 0x80) {
		core_client_kill((*cl)->c, EPIPE);
		return;
	}
	fx_release(*cl);
	*cl = NULL;
}

static void come_or_go(struct run *r)
{
	u32 how = take8(&r->in);

	switch (how & 7) {
	case 0:
	case 1:
	case 2:
		fx_attach(r->fx, how >> 3 & 3);
		break;
	case 3:
	case 4:
		core_detach(r->fx->core);
		break;
	case 5:
	case 6:
		core_mediator_gone(r->fx->core, r->fx->core->epoch - (how >> 3 & 3));
		break;
	case 7:
		core_expire(r->fx->core);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = { .in = { data, size } };
	struct core_params p = fx_params();
	struct arax_completion e;
	u32 i, how = take8(&r.in);

	p.cells = CORE_MIN_CELLS;
	p.slots = 2 + (how & 7);
	p.user_memory = 1 << 20;
	p.user_tasks = how & 8 ? 6 : 1000;
	p.user_contexts = 4;
	p.max_handles = 40;
	r.fx = fx_new(&p);
	if (how & 0x80)
		fx_attach(r.fx, 0);
	while (r.in.left) {
		switch (take8(&r.in) % 8) {
		case 0:
		case 1:
		case 2:
			any_call(&r);
			break;
		case 3:
		case 4:
			push(&r);
			break;
		case 5:
			mediate(&r);
			break;
		case 6:
			open_or_close(&r);
			break;
		case 7:
			come_or_go(&r);
			break;
		}
		for (i = 0; i < CLIENTS; i++)
			while (r.cl[i] && core_client_ready(r.cl[i]->c) && fx_pop(r.cl[i], &e))
				;
	}
	for (i = 0; i < CLIENTS; i++)
		if (r.cl[i])
			fx_release(r.cl[i]);
	fx_die(r.fx);
	/* And those that were taken over from. */
	for (i = 1; i < r.fx->core->epoch; i++)
		core_mediator_gone(r.fx->core, i);
	for (i = 0; i < r.nr_held; i++)
		fx_close_buffer(r.fx, r.held[i]);
	fx_free(r.fx);
	return 0;
}
