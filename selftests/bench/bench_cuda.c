// SPDX-License-Identifier: MIT
/* cuda: tasks, bytes and programs through a GPU, beside CUDA's own calls. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "result.h"

#ifdef HAVE_CUDA
#include "cuda.h"

#define WHOLE_BYTES	(256ull << 20)
#define FEW_BYTES	(4ull << 20)	/* in a run that is to be short */
#define WHOLE_SECONDS	9
#define SIX_SHARE	0.6		/* of the time */
#define FIGURES		4

#define BAR_NULL	1.2
#define BAR_COPY	0.95

/* The same natively. */
struct native {
	struct cu_peer peer;
	CUfunction null;
	CUdeviceptr small[2], large;
	void *pages;
};

struct ways {
	struct side side;
	struct native native;
};

static void nothing(struct ways *w)
{
}

/* ------------------------------------------------------------------ */
/* Through araxd                                                         */

static void one_task(struct ways *w)
{
	side_null(&w->side);
}

static void many_tasks(struct ways *w)
{
	side_nulls(&w->side);
}

static void dirty_host(struct ways *w)
{
	side_dirty_host(&w->side);
}

static void task_copies_in(struct ways *w)
{
	side_copy_in(&w->side);
}

static void dirty_device(struct ways *w)
{
	side_dirty_device(&w->side);
}

static void access_copies_out(struct ways *w)
{
	side_copy_out(&w->side);
}

ROUND(one_task_round, struct ways, nothing, one_task)
ROUND(many_tasks_round, struct ways, nothing, many_tasks)
ROUND(copy_in_round, struct ways, dirty_host, task_copies_in)
ROUND(copy_out_round, struct ways, dirty_device, access_copies_out)

/* ------------------------------------------------------------------ */
/* Natively                                                              */

static void launch_null(struct native *n)
{
	uint64_t items = SIDE_NULL_BYTES, zero = 0;
	void *values[] = { &n->small[0], &items, &n->small[1], &items, &zero, &zero,
			   &n->peer.result_at };

	must_cu(cu.LaunchKernel(n->null, 1, 1, 1, 1, 1, 1, 0, n->peer.streams[0], values, NULL),
		"null");
}

static void one_launch(struct ways *w)
{
	launch_null(&w->native);
	cu_peer_finish(&w->native.peer, 0);
}

static void many_launches(struct ways *w)
{
	int i;

	for (i = 0; i < SIDE_BATCH; i++)
		launch_null(&w->native);
	cu_peer_finish(&w->native.peer, 0);
}

static void native_copy_in(struct ways *w)
{
	must_cu(cu.MemcpyHtoD(w->native.large, w->native.pages, w->side.bytes), "a copy");
}

static void native_copy_out(struct ways *w)
{
	must_cu(cu.MemcpyDtoH(w->native.pages, w->native.large, w->side.bytes), "a copy");
}

ROUND(one_launch_round, struct ways, nothing, one_launch)
ROUND(many_launches_round, struct ways, nothing, many_launches)
ROUND(native_copy_in_round, struct ways, nothing, native_copy_in)
ROUND(native_copy_out_round, struct ways, nothing, native_copy_out)

/* -1: @why says why there is nothing to compare with. */
static int native_open(struct native *n, uint64_t bytes, char *why, size_t len)
{
	char path[4200];
	int i;

	build_path(path, sizeof(path), "lib/arax/kernels/arax-std.ptx");
	if (cu_peer_open(&n->peer, path, why, len))
		return -1;
	n->null = cu_peer_kernel(&n->peer, "null");
	for (i = 0; i < 2; i++)
		n->small[i] = cu_peer_memory(SIDE_NULL_BYTES);
	n->large = cu_peer_memory(bytes);
	n->pages = cu_peer_pages(bytes);
	memset(n->pages, 1, bytes);
	return 0;
}

static void native_close(struct native *n)
{
	int i;

	for (i = 0; i < 2; i++)
		must_cu(cu.MemFree(n->small[i]), "device memory");
	must_cu(cu.MemFree(n->large), "device memory");
	must_cu(cu.MemFreeHost(n->pages), "pinned memory");
	cu_peer_close(&n->peer);
}

/* ------------------------------------------------------------------ */

static void measure(json_t *result, struct ways *w, const struct options *o, double seconds,
		    int judged)
{
	const double bytes = (double)w->side.bytes;
	const struct figure figures[FIGURES] = {
		{ "null task", one_task_round, one_launch_round, 0, 1, BAR_NULL },
		{ "64 null tasks, each", many_tasks_round, many_launches_round, 0, SIDE_BATCH, 0 },
		{ "copy in", copy_in_round, native_copy_in_round, bytes, 1, BAR_COPY },
		{ "copy out", copy_out_round, native_copy_out_round, bytes, 1, BAR_COPY },
	};
	int i;

	for (i = 0; i < FIGURES; i++)
		figure_measure(result, &figures[i], w, "CUDA", seconds / FIGURES, o->rounds, judged);
}

/*
 * Of a driver in software: the names of what was measured, and no figure.  So all of this
 * program runs in a test before it meets a GPU.
 */
static void hide_figures(json_t *result)
{
	static const char *const kept[] = { "program", "size", "tasks", "checked" };
	static const char *const figures[] = {
		"unit", "value", "p99", "floor", "ratio", "bar", "bar_of", "bar_is", "rounds",
		"overlap_window",
	};
	json_t *ran = json_array(), *rows = json_array(), *o;
	size_t i, k;

	json_array_foreach(json_object_get(result, "parts"), i, o)
		json_array_append(ran, json_object_get(o, "name"));
	json_array_foreach(json_object_get(result, "rows"), i, o) {
		json_t *row = json_object();

		for (k = 0; k < sizeof(kept) / sizeof(*kept); k++)
			json_object_set(row, kept[k], json_object_get(o, kept[k]));
		json_array_append_new(rows, row);
	}
	for (i = 0; i < sizeof(figures) / sizeof(*figures); i++)
		json_object_del(result, figures[i]);
	json_object_clear(json_object_get(result, "peers"));
	json_array_clear(json_object_get(result, "parts"));
	json_object_set_new(result, "rows", rows);
	json_object_set_new(result, "ran", ran);
	result_note(result, "skipped", "the driver is one in software (emulated): all was run and checked, nothing is measured or judged");
}

static void start_server(struct side *s)
{
	const char *library = cu_peer_library();
	char config[600];

	/* By its path, if it is not the machine's. */
	if (library[0] == '/')
		snprintf(config, sizeof(config), "backend \"cuda\" { options = { \"library=%.500s\" } }",
			 library);
	else
		snprintf(config, sizeof(config), "backend \"cuda\" { }");
	server_start_standard(&s->server, "cuda", config);
}

static void notes(json_t *result, const struct cu_peer *p, uint64_t bytes)
{
	char version[32];

	snprintf(version, sizeof(version), "CUDA %d.%d", p->version / 1000, p->version % 1000 / 10);
	result_note(result, "note_device", p->name);
	result_note(result, "note_driver", version);
	result_int(result, "bytes", (long)bytes);
	result_note(result, "note_value",
		    "null task: launch to wait, beside cuLaunchKernel and cuStreamSynchronize; copy in: a null task whose input is not on the device, copy out: access to what a task left there, beside cuMemcpy of pinned pages; overlap: pieces copied in, blurred, copied out, beside four streams; programs: submission to results at the host, beside streams and events, a graph with its copies, and waiting for each call");
	result_note(result, "note_placement", "nobody pinned");
}

json_t *bench_cuda(const struct options *o)
{
	json_t *result = result_new("cuda", o->link);
	int judged = o->seconds >= WHOLE_SECONDS;
	static struct ways w;
	char why[512];

	if (!strcmp(o->link, "kernel")) {
		result_note(result, "skipped", "it starts its own araxd, with CUDA devices alone: broker link");
		return result;
	}
	w.side.bytes = judged ? WHOLE_BYTES : FEW_BYTES;
	cu_peer_narrow();
	if (native_open(&w.native, w.side.bytes, why, sizeof(why))) {
		result_note(result, "skipped", why);
		return result;
	}
	start_server(&w.side);
	side_open(&w.side, w.side.bytes, ARAX_BUFFER_EXPLICIT);
	side_check_copies(&w.side);
	judged &= !w.native.peer.emulated;
	measure(result, &w, o, (1 - SIX_SHARE) * o->seconds * FIGURES / (FIGURES + 1), judged);
	cuda_overlap(result, &w.side, &w.native.peer, (1 - SIX_SHARE) * o->seconds / (FIGURES + 1), o,
		     judged);
	cuda_six(result, &w.side, &w.native.peer, SIX_SHARE * o->seconds, o);
	if (w.native.peer.emulated)
		hide_figures(result);
	notes(result, &w.native.peer, w.side.bytes);
	side_close(&w.side);
	native_close(&w.native);
	return result;
}

#else

json_t *bench_cuda(const struct options *o)
{
	json_t *result = result_new("cuda", o->link);

	result_note(result, "skipped", "built without CUDA's headers (make CUDA_HOME=)");
	return result;
}

#endif
