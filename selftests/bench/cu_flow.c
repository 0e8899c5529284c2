// SPDX-License-Identifier: MIT
/* A program of flow.h on a GPU, in four ways. */
#ifdef HAVE_CUDA
#include "cu_flow.h"

#include <string.h>

#include "bench.h"
#include "side.h"

#define THREADS		256u	/* of a block */
#define WAVES		16u	/* at most so many blocks on each multiprocessor */
#define POISON		0x55
#define FEW_THREADS	8u	/* where each is one of the host's */

_Static_assert(FLOW_STEPS <= 64, "a set of steps is a word");

/* ------------------------------------------------------------------ */
/* What the program is made of                                           */

static unsigned int buffer_of(const struct flow *f, const struct arax_range *r)
{
	unsigned int i;

	for (i = 0; i < f->nr_buffers; i++) {
		if (arax_buffer_handle(f->buffers[i]) != r->buffer)
			continue;
		if (r->offset || r->length != arax_buffer_bytes(f->buffers[i]))
			bench_fail("a range of a part of a buffer");
		return i;
	}
	bench_fail("a range of no buffer of the program");
}

static bool is_out(const struct flow *f, unsigned int buffer)
{
	unsigned int i;

	for (i = 0; i < f->nr_outs; i++) {
		if (f->out[i] == f->buffers[buffer])
			return true;
	}
	return false;
}

static void *copy_pages(const struct arax_buffer *b)
{
	void *pages = cu_peer_pages(arax_buffer_bytes(b));

	memcpy(pages, arax_buffer_data(b), arax_buffer_bytes(b));
	return pages;
}

/* Whether no range before the @k'th is of the same buffer. */
static bool is_first(const struct cu_step *s, unsigned int k)
{
	unsigned int i = 0;

	while (s->buffer[i] != s->buffer[k])
		i++;
	return i == k;
}

/* Parameters as daemon/backends/gpu has them: see docs/kernels-reference.md. */
static void set_params(struct cu_flow *c, unsigned int i)
{
	const struct flow_step *from = &c->f->steps[i];
	struct cu_step *s = &c->steps[i];
	unsigned int k, n = 0;

	for (k = 0; k < s->params.nr_ranges; k++) {
		const struct cu_buffer *b = &c->buffers[s->buffer[k]];

		s->address[k] = b->at;
		s->items[k] = b->bytes / s->params.ranges[k].type->size;
		s->values[n++] = &s->address[k];
		s->values[n++] = &s->items[k];
	}
	for (k = 0; k < s->params.nr_plain; k++)
		s->values[n++] = (char *)from->args + s->params.plain[k].offset;
	s->values[n] = &c->peer->result_at;
}

/* As many blocks as there is work for, but one for each column of zscore at least. */
static void set_grid(struct cu_flow *c, unsigned int i)
{
	struct cu_step *s = &c->steps[i];
	uint64_t items = c->f->steps[i].launch.grid[0], units = (uint64_t)c->peer->units;
	uint64_t blocks;

	s->threads = c->peer->emulated ? FEW_THREADS : THREADS;
	blocks = (items + s->threads - 1) / s->threads;
	blocks = blocks < units ? units : blocks > WAVES * units ? WAVES * units : blocks;
	s->blocks = (uint32_t)blocks;
	c->f->desc[i].grid = (struct arax_grid){ { s->blocks, 1, 1 }, { s->threads, 1, 1 } };
}

/*
 * Whom step @i follows: who wrote what it uses, who used what it writes.  Without those
 * that another one of them follows anyway.
 */
static void set_before(struct cu_flow *c, unsigned int i, uint64_t *behind)
{
	struct cu_step *s = &c->steps[i];
	uint64_t all = 0;
	unsigned int j, k, m;

	for (j = 0; j < i; j++)
		for (k = 0; k < s->params.nr_ranges; k++)
			for (m = 0; m < c->steps[j].params.nr_ranges; m++)
				if (s->buffer[k] == c->steps[j].buffer[m] &&
				    (s->params.ranges[k].out || c->steps[j].params.ranges[m].out))
					all |= 1ull << j;
	s->before = all;
	for (j = 0; j < i; j++)
		if (all >> j & 1)
			s->before &= ~behind[j];
	behind[i] = all;
	for (j = 0; j < i; j++)
		if (all >> j & 1)
			behind[i] |= behind[j];
}

static void take_step(struct cu_flow *c, unsigned int i, bool *used)
{
	const struct flow_step *from = &c->f->steps[i];
	struct cu_step *s = &c->steps[i];
	unsigned int k;

	if (params_parse(&s->params, from->kernel->k.text) ||
	    s->params.nr_ranges != from->launch.nr_ranges ||
	    2 * s->params.nr_ranges + s->params.nr_plain >= CU_FLOW_PARAMS)
		bench_fail("kernel %s: %s", from->kernel->k.name, from->kernel->k.text);
	s->function = cu_peer_kernel(c->peer, from->kernel->k.name);
	must_cu(cu.EventCreate(&s->done, CU_EVENT_DISABLE_TIMING), "an event");
	for (k = 0; k < s->params.nr_ranges; k++) {
		unsigned int n = buffer_of(c->f, &from->ranges[k]);
		struct cu_buffer *b = &c->buffers[n];

		s->buffer[k] = n;
		if (!used[n]) {
			b->first = i;
			if (s->params.ranges[k].in)
				b->in = copy_pages(c->f->buffers[n]);
		}
		used[n] = true;
		if (s->params.ranges[k].out)
			b->last = i;
	}
	set_params(c, i);
	set_grid(c, i);
}

static void make_graph(struct cu_flow *c);

void cu_flow_open(struct cu_flow *c, struct flow *f, struct cu_peer *peer, const uint8_t *streams,
		  unsigned int nr)
{
	uint64_t behind[FLOW_STEPS] = { 0 };
	bool used[FLOW_BUFFERS] = { false };
	unsigned int i;

	memset(c, 0, sizeof(*c));
	c->f = f;
	c->peer = peer;
	for (i = 0; i < f->nr_buffers; i++) {
		struct cu_buffer *b = &c->buffers[i];

		b->bytes = arax_buffer_bytes(f->buffers[i]);
		b->at = cu_peer_memory(b->bytes);
		b->out = is_out(f, i) ? cu_peer_pages(b->bytes) : NULL;
		must_cu(cu.EventCreate(&b->copied, CU_EVENT_DISABLE_TIMING), "an event");
	}
	for (i = 0; i < f->nr_steps; i++) {
		take_step(c, i, used);
		set_before(c, i, behind);
		c->steps[i].stream = streams[i % nr];
		if (c->nr_streams < streams[i % nr] + 1u)
			c->nr_streams = streams[i % nr] + 1u;
	}
	make_graph(c);
}

void cu_flow_close(struct cu_flow *c)
{
	unsigned int i;

	must_cu(cu.GraphExecDestroy(c->graph), "a graph");
	for (i = 0; i < c->f->nr_steps; i++)
		must_cu(cu.EventDestroy(c->steps[i].done), "an event");
	for (i = 0; i < c->f->nr_buffers; i++) {
		struct cu_buffer *b = &c->buffers[i];

		must_cu(cu.MemFree(b->at), "device memory");
		must_cu(cu.EventDestroy(b->copied), "an event");
		if (b->in)
			must_cu(cu.MemFreeHost(b->in), "pinned memory");
		if (b->out)
			must_cu(cu.MemFreeHost(b->out), "pinned memory");
	}
}

/* ------------------------------------------------------------------ */
/* Through araxd                                                         */

void cu_flow_dirty(struct cu_flow *c)
{
	struct flow *f = c->f;
	unsigned int i;

	for (i = 0; i < f->nr_buffers; i++) {
		struct arax_range all = arax_out(f->buffers[i]);

		if (!c->buffers[i].in)
			continue;
		must(arax_access_begin(f->queue, all, ARAX_DEADLINE_NONE), "access");
		/* What a step has written to it since then is none of the input. */
		if (c->buffers[i].out)
			memcpy(arax_buffer_data(f->buffers[i]), c->buffers[i].in,
			       c->buffers[i].bytes);
		must(arax_access_end(f->queue, all), "access");
	}
}

void cu_flow_arax(struct cu_flow *c)
{
	struct arax_range outs[FLOW_BUFFERS];
	struct flow *f = c->f;
	unsigned int i;

	flow_submit(f);
	for (i = 0; i < f->nr_outs; i++)
		outs[i] = arax_in(f->out[i]);
	must(arax_access_begin_all(f->queue, outs, f->nr_outs, ARAX_DEADLINE_NONE), "access");
	for (i = 0; i < f->nr_outs; i++)
		must(arax_access_end(f->queue, outs[i]), "access");
	/* Each has ended; that it ended well has to be seen still. */
	flow_finish(f);
}

/* ------------------------------------------------------------------ */
/* By hand                                                               */

static void launch(struct cu_flow *c, struct cu_step *s, CUstream stream)
{
	must_cu(cu.LaunchKernel(s->function, s->blocks, 1, 1, s->threads, 1, 1, 0, stream, s->values,
				NULL), "a launch");
}

void cu_flow_synchronous(struct cu_flow *c)
{
	unsigned int i, k;

	for (i = 0; i < c->f->nr_steps; i++) {
		for (k = 0; k < c->f->nr_buffers; k++) {
			struct cu_buffer *b = &c->buffers[k];

			if (b->in && b->first == i)
				must_cu(cu.MemcpyHtoD(b->at, b->in, b->bytes), "a copy");
		}
		launch(c, &c->steps[i], c->peer->streams[0]);
		cu_peer_finish(c->peer, 0);
	}
	for (k = 0; k < c->f->nr_buffers; k++) {
		struct cu_buffer *b = &c->buffers[k];

		if (b->out)
			must_cu(cu.MemcpyDtoH(b->out, b->at, b->bytes), "a copy");
	}
	cu_peer_check(c->peer, "synchronous");
}

static void await(struct cu_flow *c, int stream, CUevent event)
{
	must_cu(cu.StreamWaitEvent(c->peer->streams[stream], event, 0), "an event");
}

/* Inputs are copied where they are used first, as soon as that stream gets there. */
static void bring_inputs(struct cu_flow *c, unsigned int i)
{
	struct cu_step *s = &c->steps[i];
	CUstream stream = c->peer->streams[s->stream];
	unsigned int k;

	for (k = 0; k < s->params.nr_ranges; k++) {
		struct cu_buffer *b = &c->buffers[s->buffer[k]];

		if (!b->in || !is_first(s, k))
			continue;
		if (b->first == i) {
			must_cu(cu.MemcpyHtoDAsync(b->at, b->in, b->bytes, stream), "a copy");
			must_cu(cu.EventRecord(b->copied, stream), "an event");
		} else if (c->steps[b->first].stream != s->stream) {
			await(c, s->stream, b->copied);
		}
	}
}

void cu_flow_streams(struct cu_flow *c)
{
	unsigned int i, j, k;

	for (i = 0; i < c->f->nr_steps; i++) {
		struct cu_step *s = &c->steps[i];
		CUstream stream = c->peer->streams[s->stream];

		bring_inputs(c, i);
		for (j = 0; j < i; j++) {
			if (s->before >> j & 1 && c->steps[j].stream != s->stream)
				await(c, s->stream, c->steps[j].done);
		}
		launch(c, s, stream);
		must_cu(cu.EventRecord(s->done, stream), "an event");
		for (k = 0; k < c->f->nr_buffers; k++) {
			struct cu_buffer *b = &c->buffers[k];

			if (b->out && b->last == i)
				must_cu(cu.MemcpyDtoHAsync(b->out, b->at, b->bytes, stream), "a copy");
		}
	}
	for (i = 0; i < c->nr_streams; i++)
		cu_peer_finish(c->peer, (int)i);
	cu_peer_check(c->peer, "streams");
}

/* ------------------------------------------------------------------ */
/* A graph                                                               */

static void add_copy(struct cu_flow *c, CUgraph graph, struct cu_buffer *b, bool in)
{
	CUgraphNode *after = in ? NULL : &c->steps[b->last].node, node;
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
		.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.WidthInBytes = b->bytes, .Height = 1, .Depth = 1,
	};

	if (in) {
		copy.srcHost = b->in;
		copy.dstDevice = b->at;
	} else {
		copy.srcDevice = b->at;
		copy.dstHost = b->out;
	}
	must_cu(cu.GraphAddMemcpyNode(in ? &b->node : &node, graph, after, in ? 0 : 1, &copy,
				      c->peer->context), "a node");
}

static void add_launch(struct cu_flow *c, CUgraph graph, unsigned int i)
{
	struct cu_step *s = &c->steps[i];
	CUgraphNode after[FLOW_STEPS + FLOW_RANGES];
	CUDA_KERNEL_NODE_PARAMS_v1 launch = {
		.func = s->function, .gridDimX = s->blocks, .gridDimY = 1, .gridDimZ = 1,
		.blockDimX = s->threads, .blockDimY = 1, .blockDimZ = 1, .kernelParams = s->values,
	};
	unsigned int j, k;
	size_t n = 0;

	for (j = 0; j < i; j++) {
		if (s->before >> j & 1)
			after[n++] = c->steps[j].node;
	}
	for (k = 0; k < s->params.nr_ranges; k++) {
		struct cu_buffer *b = &c->buffers[s->buffer[k]];

		/* A node can't be named twice; who writes it later waits for its first user. */
		if (b->in && is_first(s, k) && (b->first == i || !s->params.ranges[k].out))
			after[n++] = b->node;
	}
	must_cu(cu.GraphAddKernelNode(&s->node, graph, after, n, &launch), "a node");
}

/* Copies in depend on nothing: they begin at once, and the link is never idle before their end. */
static void make_graph(struct cu_flow *c)
{
	unsigned int i, step;
	CUgraph graph;

	must_cu(cu.GraphCreate(&graph, 0), "a graph");
	for (step = 0; step < c->f->nr_steps; step++)
		for (i = 0; i < c->f->nr_buffers; i++)
			if (c->buffers[i].in && c->buffers[i].first == step)
				add_copy(c, graph, &c->buffers[i], true);
	for (i = 0; i < c->f->nr_steps; i++)
		add_launch(c, graph, i);
	for (i = 0; i < c->f->nr_buffers; i++) {
		if (c->buffers[i].out)
			add_copy(c, graph, &c->buffers[i], false);
	}
	must_cu(cu.GraphInstantiate(&c->graph, graph, 0), "a graph");
	must_cu(cu.GraphDestroy(graph), "a graph");
}

void cu_flow_graph(struct cu_flow *c)
{
	must_cu(cu.GraphLaunch(c->graph, c->peer->streams[0]), "a graph");
	cu_peer_finish(c->peer, 0);
	cu_peer_check(c->peer, "graph");
}

/* ------------------------------------------------------------------ */
/* Results                                                               */

static unsigned int index_of(const struct flow *f, unsigned int out)
{
	unsigned int i = 0;

	while (f->buffers[i] != f->out[out])
		i++;
	return i;
}

void cu_flow_results(struct cu_flow *c, bool arax, unsigned int i, void *to)
{
	struct arax_buffer *b = c->f->out[i];
	const struct arax_range all = arax_in(b);

	if (!arax) {
		memcpy(to, c->buffers[index_of(c->f, i)].out, arax_buffer_bytes(b));
		return;
	}
	must(arax_access_begin(c->f->queue, all, ARAX_DEADLINE_NONE), "access");
	memcpy(to, arax_buffer_data(b), arax_buffer_bytes(b));
	must(arax_access_end(c->f->queue, all), "access");
}

/* Everywhere on the device: who comes too early finds none of what an earlier run left. */
static void poison_device(struct cu_flow *c)
{
	unsigned int i;
	void *junk;

	for (i = 0; i < c->f->nr_buffers; i++) {
		struct cu_buffer *b = &c->buffers[i];

		/* Pinned: of other pages the copy may end after the call does. */
		junk = cu_peer_pages(b->bytes);
		memset(junk, POISON, b->bytes);
		must_cu(cu.MemcpyHtoD(b->at, junk, b->bytes), "a copy");
		must_cu(cu.MemFreeHost(junk), "pinned memory");
	}
}

void cu_flow_poison(struct cu_flow *c, bool arax)
{
	unsigned int i;

	if (!arax)
		poison_device(c);
	for (i = 0; i < c->f->nr_outs; i++) {
		struct arax_buffer *b = c->f->out[i];
		const struct arax_range all = arax_out(b);

		if (!arax) {
			memset(c->buffers[index_of(c->f, i)].out, POISON, arax_buffer_bytes(b));
			continue;
		}
		must(arax_access_begin(c->f->queue, all, ARAX_DEADLINE_NONE), "access");
		memset(arax_buffer_data(b), POISON, arax_buffer_bytes(b));
		must(arax_access_end(c->f->queue, all), "access");
	}
}
#else
/* A unit of nothing is none. */
typedef int no_cuda_flow;
#endif
