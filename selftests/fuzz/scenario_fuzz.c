// SPDX-License-Identifier: MIT
/* A scenario, or a line of a trace, as it comes from the disk; a small one runs as well. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/contexts.h"
#include "daemon/sim/engine.h"
#include "daemon/sim/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ranges(const struct sim_app *a)
{
	for (uint32_t i = 0; i < a->nr_ranges; i++) {
		const struct sim_range *r = &a->ranges[i];

		if (r->buffer >= a->nr_buffers || r->offset + r->length > a->buffers[r->buffer])
			abort();
	}
}

/* With little memory, so that much has to come and go. */
static void run_trace(const struct workload *w, uint32_t timelines, uint32_t tasks)
{
	static struct sim_kernel k = { .name = "k", .cost = { { 1000, 1, 0.5 } } };
	static struct sim_link l = { .name = "l", .ns_per_byte = 0.01, .latency_ns = 100 };
	static struct sim_device d[] = {
		{ .name = "a", .link = 0, .lanes = 2, .memory = 1 << 16, .lost_ns = UINT64_MAX },
		{ .name = "b", .link = 0, .lanes = 1, .memory = 1 << 20, .lost_ns = UINT64_MAX },
	};
	static struct sim_tenant t = { .name = "t", .weight = 100 };
	const struct scenario sc = {
		.nr_kinds = 1, .nr_links = 1, .nr_devices = 2, .nr_kernels = 1, .nr_tenants = 1,
		.links = &l, .devices = d, .kernels = &k, .tenants = &t, .warm = true,
		.nr_timelines = timelines, .work = *w,
	};
	struct sim_options o = { .ahead = tasks & 1, .on_lane = tasks & 2 };
	struct sim_bound bound;
	char error[512] = "";
	struct sim_result r;

	t.device_memory = tasks & 4 ? 1 << 15 : 0;
	if (sim_run(&sc, &o, &r, error, sizeof(error))) {
		if (!error[0])
			abort();
	} else if (r.submitted != tasks || r.completed + r.failed + r.canceled != tasks) {
		abort();
	} else if (!r.failed && !r.canceled &&
		   !sim_bound(&sc, &bound, error, sizeof(error)) &&
		   sim_bound_best(&bound, NULL) > r.makespan_ns) {
		abort();	/* nothing is faster than that */
	}
	sim_result_fini(&r);
}

static int read_lines(struct sim_app *a, const char *text, size_t size)
{
	struct sim_kernel k = { .name = "k" };
	struct scenario sc = { .kernels = &k, .nr_kernels = 1 };
	json_t *names = json_object();
	char error[256] = "";
	int err = 0, line = 0;

	while (size && !err) {
		const char *end = memchr(text, '\n', size);
		size_t n = end ? (size_t)(end - text) + 1 : size;

		err = trace_line(&sc, a, names, "t", ++line, text, n, error, sizeof(error));
		text += n;
		size -= n;
	}
	if (err && !error[0])
		abort();	/* every refusal says why */
	json_decref(names);
	return err;
}

static void fuzz_trace(const char *text, size_t size)
{
	struct workload w = { 0 };
	struct sim_app *a = workload_app(&w);
	uint32_t tasks, timelines, sum = 0;

	a->plain = size & 4;
	a->window = size & 8 ? 2 : 64;
	if (!read_lines(a, text, size)) {
		tasks = a->nr_tasks;
		timelines = a->nr_timelines;
		if ((a->hows && !app_complete(a)) || !contexts_split(&w))
			abort();
		for (uint32_t i = 0; i < w.nr; i++) {
			contexts_close(&w.apps[i]);
			w.apps[i].tenant = 0;
			if (!app_done(&w.apps[i]))
				abort();
			sum += w.apps[i].nr_tasks;
		}
		if (sum != tasks)
			abort();
		if (tasks && tasks < 128)
			run_trace(&w, timelines, tasks);
	}
	for (uint32_t i = 0; i < w.nr; i++)
		check_ranges(&w.apps[i]);
	workload_fini(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_options o = { .ahead = size & 1, .on_lane = size & 2 };
	struct sim_bound bound;
	struct sim_result r;
	struct scenario sc;
	char error[512] = "";

	fuzz_trace((const char *)data, size);
	error[0] = '\0';
	if (scenario_load(&sc, "f", (const char *)data, size, NULL, error, sizeof(error))) {
		if (!error[0])
			abort();
		return 0;
	}
	/* What it refuses to run, it says; what it runs, it runs to the end. */
	if (sc.nr_devices < 16 && sc.work.nr < 16) {
		if (sim_run(&sc, &o, &r, error, sizeof(error))) {
			if (!error[0])
				abort();
		} else if (r.completed + r.failed + r.canceled != r.submitted) {
			abort();
		}
		sim_result_fini(&r);
		error[0] = '\0';
		if (sim_bound(&sc, &bound, error, sizeof(error)) && !error[0])
			abort();
	}
	scenario_fini(&sc);
	return 0;
}
