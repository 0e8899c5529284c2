// SPDX-License-Identifier: MIT
/* opencl: tasks and bytes through an OpenCL device, beside the same calls of OpenCL itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arax/arax.h>

#include "result.h"
#include "side.h"

#define WHOLE_BYTES	(64ull << 20)
#define FEW_BYTES	(4ull << 20)	/* in a run that is to be short */
#define WHOLE_SECONDS	2
/* Of one item each: drivers for CPUs make vectors of its loop, and then memory is the limit. */
#define GROUPS		256
#define GROUP_ITEMS	1

/* Those of GPUs, and of Rodinia's programs: OpenCL has none of its own. */
#define BAR_NULL	1.2
#define BAR_KERNEL	1.02
#define BAR_COPY	0.95

#ifdef HAVE_OPENCL
#include "cl_peer.h"

/* Through araxd: null tasks and copies, and this. */
struct cl_side {
	struct side side;
	struct arax_kernel saxpy;
	struct arax_kernel own_null, own_saxpy;		/* the same, brought by the program */
};

static const char own_source[] =
	"__kernel void own_null(__global const uchar *a, ulong na, __global uchar *b, ulong nb,\n"
	"		       ulong x, ulong y) { }\n"
	"__kernel void own_saxpy(__global const float *x, ulong nx, __global float *y, ulong ny,\n"
	"			float a, uint n, __global int *result)\n"
	"{\n"
	"	if (nx < n || ny < n) {\n"
	"		*result = -EINVAL;\n"
	"		return;\n"
	"	}\n"
	"	ARAX_EACH(i, n)\n"
	"		y[i] += a * x[i];\n"
	"}\n";

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
	struct cl_side host, own;
	struct native native;
	uint64_t bytes;
};

struct saxpy_args {
	float a;
	uint32_t n;
};

static void must_cl(cl_int err, const char *what)
{
	if (err)
		bench_fail("OpenCL: %s: %s", what, opencl_error_name(err));
}

/* ------------------------------------------------------------------ */
/* Through araxd                                                         */

static void open_side(struct cl_side *s, const char *config, uint64_t bytes, uint32_t flags)
{
	server_start_config(&s->side.server, "opencl", config);
	side_open(&s->side, bytes, flags);
	must(arax_kernel_find(s->side.ax, "saxpy", arax_deadline(SIDE_FIND_NS), &s->saxpy), "saxpy");
}

static void nothing(struct ways *w)
{
}

static void one_task(struct ways *w)
{
	side_null(&w->host.side);
}

static void many_tasks(struct ways *w)
{
	side_nulls(&w->host.side);
}

/* False: they can't be had here, and @why says why. */
static bool open_own(struct cl_side *s, char *why, size_t len)
{
	static const struct arax_own_kernel own[2] = {
		{ .signature = "own_null(in u8 a[], inout u8 b[], u64 x, u64 y)" },
		{ .signature = "own_saxpy(in f32 x[], inout f32 y[], f32 a, u32 n)" },
	};
	struct arax_kernel k[2];

	if (arax_module_load(s->side.ax, ARAX_DEVICE_OPENCL, own_source, sizeof(own_source) - 1, own, 2,
			     k)) {
		snprintf(why, len, "%s", arax_error_text());
		return false;
	}
	s->own_null = k[0];
	s->own_saxpy = k[1];
	return true;
}

static void own_task(struct ways *w)
{
	struct side *s = &w->host.side;
	struct arax_kernel installed = s->null;

	s->null = w->host.own_null;
	side_null(s);
	s->null = installed;
}

static void saxpy_by(struct cl_side *s, const struct arax_kernel *saxpy, const struct ways *w, float a)
{
	struct arax_range ranges[2] = { arax_in(s->side.large[0]), arax_inout(s->side.large[1]) };
	struct saxpy_args args = { a, (uint32_t)(w->bytes / sizeof(float)) };
	struct arax_grid grid = { { GROUPS, 1, 1 }, { GROUP_ITEMS, 1, 1 } };
	struct arax_event event = ARAX_EVENT_INIT;
	int err = arax_launch(s->side.queue, saxpy, grid, &args, sizeof(args), ranges, 2, &event);

	must(err ? err : arax_wait(&event, ARAX_DEADLINE_NONE), "saxpy");
}

static void saxpy_task(struct ways *w)
{
	saxpy_by(&w->host, &w->host.saxpy, w, 0);
}

static void own_saxpy_task(struct ways *w)
{
	saxpy_by(&w->host, &w->host.own_saxpy, w, 0);
}

static void dirty_host(struct ways *w)
{
	side_dirty_host(&w->own.side);
}

static void task_copies_in(struct ways *w)
{
	side_copy_in(&w->own.side);
}

static void dirty_device(struct ways *w)
{
	side_dirty_device(&w->own.side);
}

static void access_copies_out(struct ways *w)
{
	side_copy_out(&w->own.side);
}

ROUND(one_task_round, struct ways, nothing, one_task)
ROUND(many_tasks_round, struct ways, nothing, many_tasks)
ROUND(saxpy_round, struct ways, nothing, saxpy_task)
ROUND(own_task_round, struct ways, nothing, own_task)
ROUND(own_saxpy_round, struct ways, nothing, own_saxpy_task)
ROUND(copy_in_round, struct ways, dirty_host, task_copies_in)
ROUND(copy_out_round, struct ways, dirty_device, access_copies_out)

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
		n->small[i] = make_buffer(n, SIDE_NULL_BYTES, NULL);
		n->large[i] = make_buffer(n, bytes, n->pages[i]);
		n->own[i] = make_buffer(n, bytes, NULL);
		/* Memory of its own, or reads would be of one page of zeros again and again. */
		must_cl(cl.EnqueueWriteBuffer(n->peer.queue, n->own[i], CL_TRUE, 0, bytes,
					      n->pages[i], 0, NULL, NULL), "a write");
	}
	must_cl(set_ranges(n->null, &n->small[0], &n->small[1], SIDE_NULL_BYTES) |
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

	for (i = 0; i < SIDE_BATCH; i++)
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

ROUND(one_launch_round, struct ways, nothing, one_launch)
ROUND(many_launches_round, struct ways, nothing, many_launches)
ROUND(native_saxpy_round, struct ways, nothing, native_saxpy)
ROUND(native_write_round, struct ways, nothing, native_write)
ROUND(native_read_round, struct ways, nothing, native_read)

/* ------------------------------------------------------------------ */

/* What is timed does its work: through araxd both ways, and the bytes of both copies. */
static void check_side(struct cl_side *s, const struct arax_kernel *saxpy, const struct ways *w)
{
	const size_t n = w->bytes / sizeof(float);
	float *x = arax_buffer_data(s->side.large[0]), *y = arax_buffer_data(s->side.large[1]);
	struct arax_range out[2] = { arax_out(s->side.large[0]), arax_out(s->side.large[1]) };
	size_t i;

	for (i = 0; i < 2; i++)
		must(arax_access_begin(s->side.queue, out[i], ARAX_DEADLINE_NONE), "access");
	for (i = 0; i < n; i++) {
		x[i] = (float)(i % 1000);
		y[i] = (float)(i % 7);
	}
	for (i = 0; i < 2; i++)
		must(arax_access_end(s->side.queue, out[i]), "access");
	saxpy_by(s, saxpy, w, 2);
	must(arax_access_begin(s->side.queue, arax_in(s->side.large[1]), ARAX_DEADLINE_NONE), "access");
	for (i = 0; i < n; i++) {
		if (y[i] != (float)(i % 7 + 2 * (i % 1000)))
			bench_fail("saxpy's result is wrong at %zu", i);
	}
	must(arax_access_end(s->side.queue, arax_in(s->side.large[1])), "access");
}

static void measure(json_t *result, struct ways *w, bool own, const struct options *o)
{
	const double bytes = (double)w->bytes;
	const struct figure figures[] = {
		{ "null task", one_task_round, one_launch_round, 0, 1, BAR_NULL },
		{ "64 null tasks, each", many_tasks_round, many_launches_round, 0, SIDE_BATCH, 0 },
		/* Two arrays read, one written. */
		{ "saxpy, host pages", saxpy_round, native_saxpy_round, 3 * bytes, 1, BAR_KERNEL },
		{ "copy in", copy_in_round, native_write_round, bytes, 1, BAR_COPY },
		{ "copy out", copy_out_round, native_read_round, bytes, 1, BAR_COPY },
		/* In a process of the program's user. */
		{ "own null task", own_task_round, one_launch_round, 0, 1, 0 },
		{ "own saxpy, host pages", own_saxpy_round, native_saxpy_round, 3 * bytes, 1, 0 },
	};
	const size_t nr = sizeof(figures) / sizeof(*figures) - (own ? 0 : 2);
	size_t i;

	for (i = 0; i < nr; i++)
		figure_measure(result, &figures[i], w, "OpenCL", o->seconds / (double)nr, o->rounds,
			       w->bytes == WHOLE_BYTES);
}

json_t *bench_opencl(const struct options *o)
{
	json_t *result = result_new("opencl", o->link);
	static struct ways w;
	char why[256];
	bool own;

	if (!strcmp(o->link, "kernel")) {
		result_note(result, "skipped", "it starts its own araxds, with OpenCL devices alone: broker link");
		return result;
	}
	w.bytes = o->seconds >= WHOLE_SECONDS ? WHOLE_BYTES : FEW_BYTES;
	if (native_open(&w.native, w.bytes, why, sizeof(why))) {
		result_note(result, "skipped", why);
		return result;
	}
	open_side(&w.host, "backend \"opencl\" { }", w.bytes, 0);
	open_side(&w.own, "backend \"opencl\" { options = { \"zero-copy=no\" } }", w.bytes,
		  ARAX_BUFFER_EXPLICIT);
	check_side(&w.host, &w.host.saxpy, &w);
	check_side(&w.own, &w.own.saxpy, &w);
	side_check_copies(&w.own.side);
	own = open_own(&w.host, why, sizeof(why));
	if (own)
		check_side(&w.host, &w.host.own_saxpy, &w);
	else
		result_note(result, "note_own_kernel", why);
	measure(result, &w, own, o);
	result_note(result, "note_device", w.native.peer.name);
	result_int(result, "opencl_devices", (long)w.native.peer.nr_devices);
	result_int(result, "bytes", (long)w.bytes);
	result_note(result, "note_value",
		    "null task: launch to wait, beside enqueue and clFinish of the same kernel; 64: "
		    "one submit and one wait, beside 64 enqueues and one clFinish; saxpy: bytes read and "
		    "written, on host pages, beside CL_MEM_USE_HOST_PTR; copy in: a null task whose "
		    "input is not on the device, beside a write and a launch; copy out: access to what "
		    "a task left on the device, beside a read; own: kernels that the program brought "
		    "as source, in a process of its user");
	result_note(result, "note_placement", "nobody pinned: the OpenCL device has all CPUs");
	side_close(&w.host.side);
	side_close(&w.own.side);
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
