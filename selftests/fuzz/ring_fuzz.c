// SPDX-License-Identifier: MIT
/*
 * The ring consumer: bytes are a client's whole region (control words, entries,
 * arena), changed between submissions.  The real core checks and charges, the
 * real graph orders; every task that comes out is committed, and in the end all
 * counters are back at zero (the core warns and aborts if not).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph.h"
#include "kmod/core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH	8u
#define ARENA	4096u

static uint8_t *region;
static struct arax_layout layout;

static int ring_alloc(struct core_client *c, struct arax_context_init *init, u32 bytes)
{
	c->region = region;
	return 0;
}

static void ring_free(struct core_client *c)
{
}

static int buffer_create(struct core_client *c, struct core_buffer *buf,
			 struct arax_buffer_create *arg)
{
	return 0;
}

static void buffer_idle(struct core_buffer *buf)
{
	core_buffer_free(buf);
}

static void nothing(struct core_client *c, u32 what)
{
}

static void no_wake(struct core *core)
{
}

static void *mediator_alloc(struct core *core, size_t bytes, bool writable)
{
	return calloc(1, bytes);
}

static void mediator_free(struct core *core, void *mem, bool writable)
{
	free(mem);
}

static const struct core_ops ops = {
	.ring_alloc = ring_alloc, .ring_free = ring_free, .buffer_create = buffer_create,
	.buffer_idle = buffer_idle, .client_wake = nothing, .mediator_wake = no_wake,
	.mediator_alloc = mediator_alloc, .mediator_free = mediator_free,
};

static struct core *core;
static struct graph *graph;
static u32 head, first;

static void commit(u64 tag, s32 result, u32 failure)
{
	struct arax_commit_entry e = { .tag = tag, .result = result, .failure = failure,
				       .device = ~0u };
	u32 stale;

	core_commit_entries(core, &e, 1, 0, first++, &stale);
	if (stale)
		abort();	/* committed twice, or never dispatched */
}

static void ended(void)
{
	struct graph_done done;

	while (graph_pop_done(graph, &done))
		commit(done.tag, done.result, done.failure);
}

/* What the poller does, with every third task failing. */
static void mediate(bool run)
{
	const struct arax_dispatch *d;
	struct graph_node *node;
	u32 n = 0;

	while ((d = core_ring_peek(core->ring, core->params.cells, &head))) {
		int err = 0;

		if (d->type == ARAX_DISPATCH_TASK)
			err = graph_add(graph, d);
		else if (d->type == ARAX_DISPATCH_CANCEL)
			graph_cancel(graph, d->tag);
		else if (d->type == ARAX_DISPATCH_UNBLOCK)
			graph_unblock(graph, d->tag, d->error);
		if (err)
			abort();	/* the core let through what contradicts itself */
		if (d->type == ARAX_DISPATCH_TASK && d->error)
			graph_unblock(graph, d->tag, d->error);
		head += d->cells;
		core_store_release(&core->page->head, head);
	}
	ended();
	while (run && (node = graph_pop_ready(graph))) {
		u64 tag = node->d.tag;
		s32 result = ++n % 3 ? 0 : -EIO;
		u32 failure = 0;

		graph_start(graph, node);
		graph_complete(graph, node, result, &failure);
		commit(tag, result, failure);
		ended();
	}
}

static struct core_client *make_client(u32 *handles)
{
	struct arax_context_init init = { .size = sizeof(init), .depth = DEPTH,
					  .entry_size = 128, .arena_size = ARENA };
	struct arax_buffer_create b = { .size = sizeof(b), .bytes = 65536 };
	struct arax_timeline_create t = { .size = sizeof(t) };
	struct arax_queue_create q = { .size = sizeof(q) };
	struct core_tenant *tenant;
	struct core_client *c;
	int err;

	core_mutex_lock(&core->lock);
	tenant = core_tenant_get(core, 1, NULL, "/");
	core_mutex_unlock(&core->lock);
	c = core_client_create(core, NULL, 0, 0, 1, "fuzz", tenant, &err);
	if (!c || core_context_init(c, &init) || core_queue_create(c, &q))
		abort();
	handles[0] = q.handle;
	q.flags = ARAX_QUEUE_DATAFLOW;
	if (core_queue_create(c, &q) || core_buffer_create(c, &b) ||
	    core_timeline_create(c, &t))
		abort();
	handles[1] = q.handle;
	handles[2] = b.handle;
	handles[3] = t.handle;
	return c;
}

/* Bytes over an entry; most get handles that exist, or nothing deep is reached. */
static void write_entry(u32 pos, const uint8_t **data, size_t *size, const u32 *handles)
{
	struct arax_task *t = (void *)(region + layout.sq_offset + (pos & (DEPTH - 1)) * 128);
	size_t n = *size < 124 ? *size : 124;
	uint8_t kind;

	memset((uint8_t *)t + 4, 0, 124);
	memcpy((uint8_t *)t + 4, *data, n);
	*data += n;
	*size -= n;
	kind = (uint8_t)t->user_data;
	if (kind & 1)
		t->opcode %= ARAX_OP_MAX + 1;
	if (kind & 2)
		t->queue = handles[kind >> 7];
	if (kind & 4) {
		t->nr_ranges &= 3;
		t->ranges[0].buffer = t->ranges[1].buffer = handles[2];
		t->ranges[0].offset &= 0x1ffff;
		t->ranges[0].length &= 0xffff;
		t->ranges[1].offset &= 0xffff;
		t->ranges[1].length &= 0xffff;
	}
	if (kind & 8)
		t->flags &= ARAX_TASK_FLAGS;
	__atomic_store_n(&t->seq, pos + 1, __ATOMIC_RELEASE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct core_params params = {
		.link = ARAX_LINK_BROKER, .cells = 256, .slots = 16, .max_handles = 64,
		.user_memory = 1 << 20, .user_tasks = 12, .user_contexts = 2,
	};
	struct graph_params gp = { .slots = 16 };
	struct arax_attach at = { .size = sizeof(at) };
	struct core_client *c;
	u32 handles[4], pos = 0;
	int err;

	arax_layout(DEPTH, 128, ARENA, &layout);
	region = calloc(1, layout.region_size);
	core = core_create(&ops, &params, NULL, &err);
	graph = graph_create(&gp);
	head = first = 0;
	if (!core || !graph || core_attach(core, &at))
		abort();
	c = make_client(handles);
	while (size >= 2) {
		uint8_t what = *data++;
		uint8_t arg = *data++;

		size -= 2;
		switch (what & 7) {
		case 0: {	/* the client's own words */
			struct arax_ring_ctl *ctl = (void *)region;

			ctl->cq_head = c->cq_tail - arg % 4;
			break;
		}
		case 1: {	/* the arena */
			size_t n = size < arg ? size : arg;

			memcpy(region + layout.arena_offset + (what >> 3) * 8, data, n);
			data += n;
			size -= n;
			break;
		}
		case 2:
			mediate(arg & 1);
			break;
		case 3: {
			struct arax_timeline_point p = { .size = sizeof(p), .handle = handles[3],
							 .value = arg };

			core_timeline_advance(c, &p);
			break;
		}
		case 4: {
			struct arax_cancel a = { .size = sizeof(a), .flags = ARAX_CANCEL_QUEUE,
						 .queue = handles[arg & 1] };

			core_cancel(c, &a);
			break;
		}
		default:
			write_entry(pos++, &data, &size, handles);
			if (core_submit(c, arg & 15) == -EAGAIN || pos - c->sq_head >= DEPTH)
				pos = c->sq_head;
			break;
		}
	}
	mediate(true);
	core_client_release(c);
	/* A task may wait for a timeline that nobody advances any more. */
	while (core->nr_clients) {
		struct graph_stats st;
		u32 slot;

		mediate(true);
		graph_stats(graph, &st);
		for (slot = 1; slot < 16; slot++)
			if (core->slots[slot].task)
				graph_cancel(graph, core->slots[slot].task->d.tag);
		ended();
	}
	core_detach(core);
	core_mediator_gone(core, core->epoch);
	core_destroy(core);
	graph_destroy(graph);
	free(region);
	return 0;
}
