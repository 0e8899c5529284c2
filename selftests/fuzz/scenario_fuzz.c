// SPDX-License-Identifier: MIT
/* A scenario, or a line of a trace, as it comes from the disk; a small one runs as well. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/engine.h"
#include "daemon/sim/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_trace(const char *text, size_t size)
{
	struct sim_kernel k = { .name = "k" };
	struct scenario sc = { .kernels = &k, .nr_kernels = 1 };
	struct sim_app a = { 0 };
	json_t *buffers = json_object();
	char error[256] = "";

	if (trace_line(&sc, &a, buffers, "t", 1, text, size, error, sizeof(error))) {
		if (!error[0])
			abort();	/* every refusal says why */
	} else if (!app_done(&a)) {
		abort();
	}
	for (uint32_t i = 0; i < a.nr_ranges; i++) {
		const struct sim_range *r = &a.ranges[i];

		if (r->buffer >= a.nr_buffers || r->offset + r->length > a.buffers[r->buffer])
			abort();
	}
	app_fini(&a);
	json_decref(buffers);
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
