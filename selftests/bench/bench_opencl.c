// SPDX-License-Identifier: MIT
/* opencl: tasks and bytes through an OpenCL device, beside the same calls of OpenCL itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arax/arax.h>

#include "bench.h"
#include "clock.h"
#include "result.h"
#include "server.h"

#define BATCH		64
#define NULL_BYTES	4096u
#define WHOLE_BYTES	(64ull << 20)
#define FEW_BYTES	(4ull << 20)	/* in a run that is to be short */
#define WHOLE_SECONDS	2
/* Of one item each: drivers for CPUs make vectors of its loop, and then memory is the limit. */
#define GROUPS		256
#define GROUP_ITEMS	1
#define FIND_NS		5000000000u

/* Those of GPUs, and of Rodinia's programs: OpenCL has none of its own. */
#define BAR_NULL	1.2
#define BAR_KERNEL	1.02
#define BAR_COPY	0.95

#ifdef HAVE_OPENCL
#include "cl_peer.h"

/**
 * struct side - a client of one araxd
 * @small:	of null tasks
 * @large:	in and out; @explicit_flag: the program says when it touches them
 */
struct side {
	struct server server;
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_kernel null, saxpy;
	struct arax_buffer *small[BATCH + 1];
	struct arax_buffer *large[2];
};

/* The same natively. */
struct native {
	struct cl_peer peer;
	cl_kernel null, saxpy;
	cl_mem small[2];
	cl_mem large[2];	/* on host pages */
	cl_mem own[2];		/* the device's */
	float *pages[2];
};

/**
 * struct ways - what is measured, both ways
 * @host:	araxd's device works on the programs' pages
 * @own:	on memory of its own
 */
struct ways {
	struct side host, own;
	struct native native;
	uint64_t bytes;
};

struct saxpy_args {
	float a;
	uint32_t n;
};

static void must(int err, const char *what)
{
	if (err < 0)
		bench_fail("%s: %s", what, arax_strerror(err));
}

static void must_cl(cl_int err, const char *what)
{
	if (err)
		bench_fail("OpenCL: %s: %s", what, opencl_error_name(err));
}

/* ------------------------------------------------------------------ */
/* Through araxd                                                         */

static void side_open(struct side *s, const char *config, uint64_t bytes, uint32_t flags)
{
	struct arax_options o = { .size = sizeof(o) };
	int i;

	server_start_config(&s->server, "opencl", config);
	o.link = s->server.link;
	must(arax_open(&s->ax, &o), "opening a context");
	must(arax_queue_create(s->ax, ARAX_QUEUE_DATAFLOW, 0, &s->queue), "a queue");
	must(arax_kernel_find(s->ax, "null", arax_deadline(FIND_NS), &s->null), "null");
	must(arax_kernel_find(s->ax, "saxpy", arax_deadline(FIND_NS), &s->saxpy), "saxpy");
	for (i = 0; i <= BATCH; i++)
		must(arax_buffer_create(s->ax, NULL_BYTES, 0, &s->small[i]), "a buffer");
	for (i = 0; i < 2; i++)
		must(arax_buffer_create(s->ax, bytes, flags, &s->large[i]), "a buffer");
}

static void side_close(struct side *s)
{
	arax_close(s->ax);
	server_stop(&s->server);
}

static void null_task(struct side *s, struct arax_range in, struct arax_range inout)
{
	struct arax_event event = ARAX_EVENT_INIT;
	struct arax_range ranges[2] = { in, inout };
	uint64_t args[2] = { 0 };
	int err = arax_launch(s->queue, &s->null, arax_grid(1, 1, 1), args, sizeof(args), ranges, 2,
			      &event);

	must(err ? err : arax_wait(&event, ARAX_DEADLINE_NONE), "a null task");
}

/* Each round's function times one thing until its time is over. */
#define ROUND(name, before, timed)							\
static void name(void *arg, double seconds, struct samples *samples)			\
{											\
	struct ways *w = arg;								\
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);		\
											\
	do {										\
		before(w);								\
		t0 = ticks();								\
		timed(w);								\
		t1 = ticks();								\
		samples_add(samples, t1 - t0);						\
	} while (t1 < end && !samples_full(samples));					\
}

static void nothing(struct ways *w)
{
}

static void one_task(struct ways *w)
{
	null_task(&w->host, arax_in(w->host.small[BATCH]), arax_inout(w->host.small[0]));
}

static void many_tasks(struct ways *w)
{
	struct arax_desc desc[BATCH] = { 0 };
	struct arax_range ranges[BATCH][2];
	struct side *s = &w->host;
	uint64_t args[2] = { 0 };
	int i;

	for (i = 0; i < BATCH; i++) {
		ranges[i][0] = arax_in(s->small[BATCH]);
		ranges[i][1] = arax_inout(s->small[i]);
		desc[i].opcode = ARAX_OP_LAUNCH;
		desc[i].kernel = &s->null;
		desc[i].grid = arax_grid(1, 1, 1);
		desc[i].args = args;
		desc[i].arg_len = sizeof(args);
		desc[i].ranges = ranges[i];
		desc[i].nr_ranges = 2;
	}
	if (arax_submit(s->queue, desc, BATCH, 0) != BATCH)
		bench_fail("submitting: %s", arax_error_text());
	must(arax_queue_finish(s->queue, ARAX_DEADLINE_NONE), "null tasks");
}

static void saxpy_on(struct side *s, const struct ways *w, float a)
{
	struct arax_range ranges[2] = { arax_in(s->large[0]), arax_inout(s->large[1]) };
	struct saxpy_args args = { a, (uint32_t)(w->bytes / sizeof(float)) };
	struct arax_grid grid = { { GROUPS, 1, 1 }, { GROUP_ITEMS, 1, 1 } };
	struct arax_event event = ARAX_EVENT_INIT;
	int err = arax_launch(s->queue, &s->saxpy, grid, &args, sizeof(args), ranges, 2, &event);

	must(err ? err : arax_wait(&event, ARAX_DEADLINE_NONE), "saxpy");
}

static void saxpy_task(struct ways *w)
{
	saxpy_on(&w->host, w, 0);
}

/* As if the program had written all of it: no copy on the device counts. */
static void dirty_host(struct ways *w)
{
	struct arax_range all = arax_out(w->own.large[0]);

	must(arax_access_begin(w->own.queue, all, ARAX_DEADLINE_NONE), "access");
	must(arax_access_end(w->own.queue, all), "access");
}

static void task_copies_in(struct ways *w)
{
	null_task(&w->own, arax_in(w->own.large[0]), arax_inout(w->own.small[0]));
}

static void dirty_device(struct ways *w)
{
	null_task(&w->own, arax_in(w->own.small[0]), arax_inout(w->own.large[1]));
}

static void access_copies_out(struct ways *w)
{
	struct arax_range all = arax_in(w->own.large[1]);

	must(arax_access_begin(w->own.queue, all, ARAX_DEADLINE_NONE), "access");
	must(arax_access_end(w->own.queue, all), "access");
}

ROUND(one_task_round, nothing, one_task)
ROUND(many_tasks_round, nothing, many_tasks)
ROUND(saxpy_round, nothing, saxpy_task)
ROUND(copy_in_round, dirty_host, task_copies_in)
ROUND(copy_out_round, dirty_device, access_copies_out)

/* ------------------------------------------------------------------ */
/* Natively                                                              */

static cl_int set_ranges(cl_kernel kernel, cl_mem *first, cl_mem *second, cl_ulong items)
{
	cl_int err = cl.SetKernelArg(kernel, 0, sizeof(*first), first);

	err |= cl.SetKernelArg(kernel, 1, sizeof(items), &items);
	err |= cl.SetKernelArg(kernel, 2, sizeof(*second), second);
	return err | cl.SetKernelArg(kernel, 3, sizeof(items), &items);
}

static cl_mem make_buffer(struct native *n, uint64_t bytes, void *pages)
{
	cl_mem_flags flags = CL_MEM_READ_WRITE | (pages ? CL_MEM_USE_HOST_PTR : 0);
	cl_int err;
	cl_mem mem = cl.CreateBuffer(n->peer.context, flags, bytes, pages, &err);

	must_cl(err, "a buffer");
	return mem;
}

/* -1: @why says why there is nothing to compare with. */
static int native_open(struct native *n, uint64_t bytes, char *why, size_t len)
{
	const cl_uint items = (cl_uint)(bytes / sizeof(float));
	const cl_ulong zero = 0;
	const cl_float a = 0;
	char path[4200];
	int i;

	build_path(path, sizeof(path), "lib/arax/bench-std/arax-bench-std.cl");
	if (cl_peer_open(&n->peer, path, why, len))
		return -1;
	must_cl(cl_peer_kernel(&n->peer, "arax_std_null", false, &n->null), "null");
	must_cl(cl_peer_kernel(&n->peer, "arax_std_saxpy", true, &n->saxpy), "saxpy");
	for (i = 0; i < 2; i++) {
		n->pages[i] = aligned_alloc(4096, bytes);
		if (!n->pages[i])
			bench_fail("no memory");
		memset(n->pages[i], 0, bytes);
		n->small[i] = make_buffer(n, NULL_BYTES, NULL);
		n->large[i] = make_buffer(n, bytes, n->pages[i]);
		n->own[i] = make_buffer(n, bytes, NULL);
		/* Memory of its own, or reads would be of one page of zeros again and again. */
		must_cl(cl.EnqueueWriteBuffer(n->peer.queue, n->own[i], CL_TRUE, 0, bytes,
					      n->pages[i], 0, NULL, NULL), "a write");
	}
	must_cl(set_ranges(n->null, &n->small[0], &n->small[1], NULL_BYTES) |
		cl.SetKernelArg(n->null, 4, sizeof(zero), &zero) |
		cl.SetKernelArg(n->null, 5, sizeof(zero), &zero), "arguments");
	must_cl(set_ranges(n->saxpy, &n->large[0], &n->large[1], items) |
		cl.SetKernelArg(n->saxpy, 4, sizeof(a), &a) |
		cl.SetKernelArg(n->saxpy, 5, sizeof(items), &items), "arguments");
	return 0;
}

static void native_close(struct native *n)
{
	int i;

	for (i = 0; i < 2; i++) {
		cl.ReleaseMemObject(n->small[i]);
		cl.ReleaseMemObject(n->large[i]);
		cl.ReleaseMemObject(n->own[i]);
		free(n->pages[i]);
	}
	cl.ReleaseKernel(n->null);
	cl.ReleaseKernel(n->saxpy);
	cl_peer_close(&n->peer);
}

static void enqueue_null(struct native *n)
{
	const size_t one = 1;

	must_cl(cl.EnqueueNDRangeKernel(n->peer.queue, n->null, 1, NULL, &one, &one, 0, NULL, NULL),
		"null");
}

static void finish(struct native *n)
{
	must_cl(cl.Finish(n->peer.queue), "the queue");
}

static void one_launch(struct ways *w)
{
	enqueue_null(&w->native);
	finish(&w->native);
}

static void many_launches(struct ways *w)
{
	int i;

	for (i = 0; i < BATCH; i++)
		enqueue_null(&w->native);
	finish(&w->native);
}

static void native_saxpy(struct ways *w)
{
	const size_t global = GROUPS * GROUP_ITEMS, local = GROUP_ITEMS;
	struct native *n = &w->native;

	must_cl(cl.EnqueueNDRangeKernel(n->peer.queue, n->saxpy, 1, NULL, &global, &local, 0, NULL,
					NULL), "saxpy");
	finish(n);
}

/* With a launch behind it, as the task has. */
static void native_write(struct ways *w)
{
	struct native *n = &w->native;

	must_cl(cl.EnqueueWriteBuffer(n->peer.queue, n->own[0], CL_FALSE, 0, w->bytes, n->pages[0], 0,
				      NULL, NULL), "a write");
	one_launch(w);
}

static void native_read(struct ways *w)
{
	struct native *n = &w->native;

	must_cl(cl.EnqueueReadBuffer(n->peer.queue, n->own[1], CL_FALSE, 0, w->bytes, n->pages[1], 0,
				     NULL, NULL), "a read");
	finish(n);
}

ROUND(one_launch_round, nothing, one_launch)
ROUND(many_launches_round, nothing, many_launches)
ROUND(native_saxpy_round, nothing, native_saxpy)
ROUND(native_write_round, nothing, native_write)
ROUND(native_read_round, nothing, native_read)

/* ------------------------------------------------------------------ */

enum { ONE, MANY, KERNEL, COPY_IN, COPY_OUT, FIGURES };

/**
 * figures - the parts, and how each is measured
 * @times:	its bytes are this often the large buffer's: a rate in GB/s; 0: time
 * @scale:	tasks in a sample
 */
static const struct {
	const char *name;
	void (*arax)(void *arg, double seconds, struct samples *samples);
	void (*native)(void *arg, double seconds, struct samples *samples);
	double times, scale, bar;
} figures[FIGURES] = {
	[ONE] = { "null task", one_task_round, one_launch_round, 0, 1, BAR_NULL },
	[MANY] = { "64 null tasks, each", many_tasks_round, many_launches_round, 0, BATCH, 0 },
	[KERNEL] = { "saxpy, host pages", saxpy_round, native_saxpy_round, 3, 1, BAR_KERNEL },
	[COPY_IN] = { "copy in", copy_in_round, native_write_round, 1, 1, BAR_COPY },
	[COPY_OUT] = { "copy out", copy_out_round, native_read_round, 1, 1, BAR_COPY },
};

static double rate(double bytes, double ns)
{
	return ns > 0 ? bytes / ns : 0;
}

static void report(json_t *result, const struct ways *w, int k, const struct measure *arax,
		   const struct measure *native, bool judged)
{
	struct part p = { .name = figures[k].name, .unit = "ns", .bar = figures[k].bar };
	double bytes = figures[k].times * (double)w->bytes;
	size_t i;

	p.of = judged && p.bar ? BAR_RATIO : BAR_NONE;
	part_measured(&p, arax, native);
	result_peer(result, native->name, bytes ? rate(bytes, measure_p99(native)) :
						  measure_p99(native));
	if (!bytes) {
		result_part(result, &p);
		return;
	}
	p.unit = "GB/s";
	p.value = rate(bytes, p.value);
	p.p99 = rate(bytes, p.p99);
	p.floor = rate(bytes, p.floor);
	/* The bar of a kernel is of its time: the larger rate is the smaller time. */
	p.at_least = 1;
	if (p.bar > 1)
		p.bar = 1 / p.bar;
	json_array_clear(p.rounds);
	for (i = 0; i < arax->rounds; i++)
		json_array_append_new(p.rounds, json_real(rate(bytes, arax->p50[i])));
	result_part(result, &p);
}

/* What is timed does its work: through araxd both ways, and the bytes of both copies. */
static void check_side(struct side *s, const struct ways *w)
{
	const size_t n = w->bytes / sizeof(float);
	float *x = arax_buffer_data(s->large[0]), *y = arax_buffer_data(s->large[1]);
	struct arax_range out[2] = { arax_out(s->large[0]), arax_out(s->large[1]) };
	size_t i;

	for (i = 0; i < 2; i++)
		must(arax_access_begin(s->queue, out[i], ARAX_DEADLINE_NONE), "access");
	for (i = 0; i < n; i++) {
		x[i] = (float)(i % 1000);
		y[i] = (float)(i % 7);
	}
	for (i = 0; i < 2; i++)
		must(arax_access_end(s->queue, out[i]), "access");
	saxpy_on(s, w, 2);
	must(arax_access_begin(s->queue, arax_in(s->large[1]), ARAX_DEADLINE_NONE), "access");
	for (i = 0; i < n; i++) {
		if (y[i] != (float)(i % 7 + 2 * (i % 1000)))
			bench_fail("saxpy's result is wrong at %zu", i);
	}
	must(arax_access_end(s->queue, arax_in(s->large[1])), "access");
}

/* By araxd's own count: that the copies were made that are timed. */
static void check_copies(struct ways *w, bool in)
{
	struct server_memory before, after;
	uint64_t moved;

	if (in)
		dirty_host(w);
	else
		dirty_device(w);
	server_memory(&w->own.server, &before);
	if (in)
		task_copies_in(w);
	else
		access_copies_out(w);
	server_memory(&w->own.server, &after);
	moved = in ? after.copied_in - before.copied_in : after.copied_out - before.copied_out;
	if (moved < w->bytes || moved > w->bytes + 2 * NULL_BYTES)
		bench_fail("%llu bytes were copied %s, not %llu", (unsigned long long)moved,
			   in ? "in" : "out", (unsigned long long)w->bytes);
}

static void measure(json_t *result, struct ways *w, const struct options *o)
{
	static struct measure arax[FIGURES], native[FIGURES];
	char names[FIGURES][64];
	int k;

	for (k = 0; k < FIGURES; k++) {
		struct measure *all[2] = { &arax[k], &native[k] };

		snprintf(names[k], sizeof(names[k]), "OpenCL's p99, %s", figures[k].name);
		arax[k] = (struct measure){ .name = figures[k].name, .round = figures[k].arax,
					    .arg = w, .scale = figures[k].scale };
		native[k] = (struct measure){ .name = names[k], .round = figures[k].native, .arg = w,
					      .scale = figures[k].scale };
		interleave(all, 2, (size_t)o->rounds, o->seconds / FIGURES);
		report(result, w, k, &arax[k], &native[k], w->bytes == WHOLE_BYTES);
	}
}

json_t *bench_opencl(const struct options *o)
{
	json_t *result = result_new("opencl", o->link);
	static struct ways w;
	char why[256];

	if (!strcmp(o->link, "kernel")) {
		result_note(result, "skipped", "it starts its own araxds, with OpenCL devices alone: broker link");
		return result;
	}
	w.bytes = o->seconds >= WHOLE_SECONDS ? WHOLE_BYTES : FEW_BYTES;
	if (native_open(&w.native, w.bytes, why, sizeof(why))) {
		result_note(result, "skipped", why);
		return result;
	}
	side_open(&w.host, "backend \"opencl\" { }", w.bytes, 0);
	side_open(&w.own, "backend \"opencl\" { options = { \"zero-copy=no\" } }", w.bytes,
		  ARAX_BUFFER_EXPLICIT);
	check_side(&w.host, &w);
	check_side(&w.own, &w);
	check_copies(&w, true);
	check_copies(&w, false);
	measure(result, &w, o);
	result_note(result, "note_device", w.native.peer.name);
	result_int(result, "opencl_devices", (long)w.native.peer.nr_devices);
	result_int(result, "bytes", (long)w.bytes);
	result_note(result, "note_value",
		    "null task: launch to wait, beside enqueue and clFinish of the same kernel; 64: "
		    "one submit and one wait, beside 64 enqueues and one clFinish; saxpy: bytes read and "
		    "written, on host pages, beside CL_MEM_USE_HOST_PTR; copy in: a null task whose "
		    "input is not on the device, beside a write and a launch; copy out: access to what "
		    "a task left on the device, beside a read");
	result_note(result, "note_placement", "nobody pinned: the OpenCL device has all CPUs");
	side_close(&w.host);
	side_close(&w.own);
	native_close(&w.native);
	return result;
}

#else

json_t *bench_opencl(const struct options *o)
{
	json_t *result = result_new("opencl", o->link);

	result_note(result, "skipped", "built without OpenCL's headers (Debian: opencl-c-headers)");
	return result;
}

#endif
