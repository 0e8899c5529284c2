// SPDX-License-Identifier: MIT
/* Scenarios of the benches that run in virtual time. */
#include "simulate.h"

#include <errno.h>
#include <string.h>

#include "bench.h"

struct sim_bound simulate_bound(const char *text)
{
	struct sim_bound bound;
	struct scenario sc;
	char error[512];

	if (scenario_load(&sc, "scenario", text, strlen(text), NULL, error, sizeof(error)) ||
	    sim_bound(&sc, &bound, error, sizeof(error)))
		bench_fail("%s", error);
	scenario_fini(&sc);
	return bound;
}

struct outcome simulate(const char *text, const char *policy, double limit_s)
{
	struct sim_options o = {
		.policy = policy, .time_picks = true, .limit_ns = (uint64_t)(limit_s * 1e9),
	};
	struct outcome out = { 0 };
	struct sim_result r;
	struct scenario sc;
	char error[512];
	int err;

	if (scenario_load(&sc, "scenario", text, strlen(text), NULL, error, sizeof(error)))
		bench_fail("%s", error);
	err = sim_run(&sc, &o, &r, error, sizeof(error));
	if (err && err != -ETIMEDOUT)
		bench_fail("%s: %s", sc.name, error);
	/* Where all must end well, a figure of those that did would mislead. */
	if (!err && r.completed != r.submitted)
		bench_fail("%s: %llu of %llu tasks failed", sc.name,
			   (unsigned long long)(r.submitted - r.completed),
			   (unsigned long long)r.submitted);
	out.timed_out = err == -ETIMEDOUT;
	out.tasks = r.completed;
	out.makespan_ms = (double)r.makespan_ns / 1e6;
	out.wall_s = (double)r.wall_ns / 1e9;
	out.cpu_s = (double)r.cpu_ns / 1e9;
	out.pick_s = (double)r.pick_ns / 1e9;
	for (uint32_t i = 0; i < sc.nr_devices; i++) {
		out.bytes += (double)(r.devices[i].bytes_in + r.devices[i].bytes_out +
				      r.devices[i].bytes_peer);
		if (!err && r.makespan_ns)
			out.used += r.devices[i].used_ns / (double)r.makespan_ns / sc.nr_devices;
	}
	for (uint32_t i = 0; i < sc.work.nr; i++) {
		double ms = (double)(r.apps[i].end_ns - sc.work.apps[i].arrive_ns) / 1e6;

		out.turnaround_ms += ms;
		if (i < OUTCOME_APPS)
			out.app_ms[i] = ms;
	}
	sim_result_fini(&r);
	scenario_fini(&sc);
	return out;
}
