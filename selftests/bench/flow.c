// SPDX-License-Identifier: MIT
/* A program of a few kernels on a few buffers, run in four ways. */
#include "flow.h"

#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "place.h"
#include "server.h"

#define FIND_NS		5000000000u
#define MAX_KERNELS	64

static const struct flow_kernel *find(struct arax *ax, const char *name)
{
	static struct flow_kernel kernels[MAX_KERNELS];
	static unsigned int nr;
	static void *library;
	char path[4200], symbol[128];
	struct flow_kernel *k;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!strcmp(kernels[i].k.name, name))
			return &kernels[i];
	}
	if (nr == MAX_KERNELS)
		bench_fail("kernel %s is one too many", name);
	k = &kernels[nr++];
	if (!library) {
		build_path(path, sizeof(path), "lib/arax/kernels/arax-std.so");
		library = dlopen(path, RTLD_NOW);
	}
	snprintf(symbol, sizeof(symbol), "arax_std_%s", name);
	k->fn = library ? (arax_kernel_fn *)dlsym(library, symbol) : NULL;
	if (!k->fn)
		bench_fail("kernel %s: %s", name, dlerror());
	if (arax_kernel_find(ax, name, arax_deadline(FIND_NS), &k->k) < 0)
		bench_fail("kernel %s: %s", name, arax_error_text());
	return k;
}

void flow_begin(struct flow *f)
{
	struct arax_queue *queue = f->queue;
	struct arax *ax = f->ax;
	uint32_t flags = f->flags;

	memset(f, 0, sizeof(*f));
	f->flags = flags;
	f->queue = queue;
	f->ax = ax;
}

void flow_end(struct flow *f)
{
	unsigned int i;

	for (i = 0; i < f->nr_buffers; i++)
		arax_buffer_destroy(f->buffers[i]);
	for (i = 0; i < f->nr_outs; i++)
		free(f->wanted[i]);
	flow_begin(f);
}

struct arax_buffer *flow_buffer(struct flow *f, uint64_t bytes, int out)
{
	struct arax_buffer *b;

	if (f->nr_buffers == FLOW_BUFFERS)
		bench_fail("a program of more than %d buffers", FLOW_BUFFERS);
	if (arax_buffer_create(f->ax, bytes, f->flags, &b) < 0)
		bench_fail("a buffer of %llu bytes: %s", (unsigned long long)bytes,
			   arax_error_text());
	f->buffers[f->nr_buffers++] = b;
	if (out)
		f->out[f->nr_outs++] = b;
	return b;
}

static char *address(struct flow *f, const struct arax_range *r)
{
	unsigned int i;

	for (i = 0; i < f->nr_buffers; i++) {
		if (arax_buffer_handle(f->buffers[i]) == r->buffer)
			return (char *)arax_buffer_data(f->buffers[i]) + r->offset;
	}
	bench_fail("a range of a buffer that the program does not have");
}

void flow_step(struct flow *f, const char *kernel, uint64_t items, const void *args,
	       size_t arg_len, const struct arax_range *ranges, size_t nr_ranges)
{
	struct flow_step *s = &f->steps[f->nr_steps];
	struct arax_desc *d = &f->desc[f->nr_steps];
	size_t i;

	if (f->nr_steps == FLOW_STEPS || arg_len > FLOW_ARGS || nr_ranges > FLOW_RANGES)
		bench_fail("a step of %s is too large", kernel);
	f->nr_steps++;
	s->kernel = find(f->ax, kernel);
	memcpy(s->args, args, arg_len);
	for (i = 0; i < nr_ranges; i++) {
		s->ranges[i] = ranges[i];
		s->direct[i].data = address(f, &ranges[i]);
		s->direct[i].length = ranges[i].length;
		s->direct[i].count = 1;
	}
	s->launch.size = sizeof(s->launch);
	s->launch.nr_ranges = (uint32_t)nr_ranges;
	s->launch.grid[0] = items < 1 ? 1 : items > UINT32_MAX ? UINT32_MAX : (uint32_t)items;
	s->launch.grid[1] = 1;
	s->launch.grid[2] = 1;
	for (i = 0; i < 3; i++)
		s->launch.block[i] = 1;
	s->launch.group_end = s->launch.grid[0];
	s->launch.ranges = s->direct;
	s->launch.args = s->args;
	s->launch.arg_len = (uint32_t)arg_len;
	d->opcode = ARAX_OP_LAUNCH;
	d->kernel = &s->kernel->k;
	d->grid = arax_grid(s->launch.grid[0], 1, 1);
	d->args = s->args;
	d->arg_len = arg_len;
	d->ranges = s->ranges;
	d->nr_ranges = nr_ranges;
	d->event = &s->event;
}

void flow_call(struct flow *f, unsigned int i)
{
	struct flow_step *s = &f->steps[i];
	int err = s->kernel->fn(&s->launch);

	if (err)
		bench_fail("step %u, %s: %s", i, s->kernel->k.name, arax_strerror(err));
}

void flow_sequential(struct flow *f)
{
	unsigned int i;

	for (i = 0; i < f->nr_steps; i++)
		flow_call(f, i);
}

void flow_hand(struct flow *f)
{
	static __thread int bound;
	int cpus = place_cpu[0] == place_cpu[1] ? 1 : 2;

	/* The caller is one of them, and places itself: it is free when it does something else. */
#pragma omp parallel num_threads(cpus)
	{
		int me = omp_get_thread_num();

		if (me && !bound)
			place_self(place_cpu[me]);
		bound = 1;
#pragma omp single
		f->hand(f);
	}
}

static void done(struct flow *f, unsigned int i)
{
	struct flow_step *s = &f->steps[i];
	int err = arax_wait(&s->event, ARAX_DEADLINE_NONE);

	if (err)
		bench_fail("step %u, %s: %s", i, s->kernel->k.name, arax_strerror(err));
	f->device_ns += s->event.device_ns;
}

static void submit(struct flow *f, unsigned int first, unsigned int n)
{
	int taken = arax_submit(f->queue, &f->desc[first], n, 0);

	if (taken != (int)n)
		bench_fail("submitting: %s", arax_error_text());
}

void flow_synchronous(struct flow *f)
{
	unsigned int i;

	f->device_ns = 0;
	for (i = 0; i < f->nr_steps; i++) {
		submit(f, i, 1);
		done(f, i);
	}
}

void flow_submit(struct flow *f)
{
	f->device_ns = 0;
	submit(f, 0, f->nr_steps);
}

void flow_finish(struct flow *f)
{
	unsigned int i;

	/* From the end: who waits for the last one sleeps once. */
	for (i = f->nr_steps; i--;)
		done(f, i);
}

void flow_inferred(struct flow *f)
{
	flow_submit(f);
	flow_finish(f);
}

static void run_once(struct flow *f, void (*run)(struct flow *f), int poison)
{
	unsigned int i;

	for (i = 0; i < f->nr_outs; i++)
		memset(arax_buffer_data(f->out[i]), poison, arax_buffer_bytes(f->out[i]));
	if (f->reset)
		f->reset(f);
	run(f);
}

void flow_keep(struct flow *f, void (*run)(struct flow *f))
{
	unsigned int i;

	run_once(f, run, 0xff);
	for (i = 0; i < f->nr_outs; i++) {
		f->wanted[i] = malloc(arax_buffer_bytes(f->out[i]));
		if (!f->wanted[i])
			bench_fail("no memory for the result");
		memcpy(f->wanted[i], arax_buffer_data(f->out[i]), arax_buffer_bytes(f->out[i]));
	}
}

void flow_check(struct flow *f, void (*run)(struct flow *f), const char *what)
{
	unsigned int i;

	/* Not what the kept run began with: a byte that nobody writes shows. */
	run_once(f, run, 0x55);
	for (i = 0; i < f->nr_outs; i++) {
		if (memcmp(f->wanted[i], arax_buffer_data(f->out[i]), arax_buffer_bytes(f->out[i])))
			bench_fail("the %s run's result %u is not the sequential one's", what, i);
	}
}
