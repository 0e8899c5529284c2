// SPDX-License-Identifier: MIT
/* simscale: how fast 256 devices, 1,000 tenants and a million tasks are simulated. */
#include <stdio.h>

#include "bench.h"
#include "result.h"
#include "simulate.h"

#define TENANTS	1000
#define TASKS	1000000.0
#define MINUTE	60.0

/* Two kinds of device, two of application; they come within the first second or so. */
static const char scenario[] =
	"{ \"name\": \"simscale\", \"seed\": 1,\n"
	" \"machine\": { \"links\": [ { \"name\": \"pcie\", \"count\": 64, \"gb_per_s\": 12, \"latency_us\": 10 } ],\n"
	"  \"devices\": [\n"
	"   { \"name\": \"big\", \"count\": 128, \"link\": \"pcie\", \"per_link\": 4, \"memory_gb\": 16, \"lanes\": 4 },\n"
	"   { \"name\": \"small\", \"count\": 128, \"link\": \"pcie\", \"per_link\": 4, \"memory_gb\": 8, \"lanes\": 2 } ] },\n"
	" \"kernels\": [\n"
	"  { \"name\": \"a\", \"cost\": { \"big\": { \"base_us\": 5, \"ns_per_item\": 0.1 },\n"
	"                             \"small\": { \"base_us\": 5, \"ns_per_item\": 0.3 } } },\n"
	"  { \"name\": \"b\", \"cost\": { \"big\": { \"base_us\": 5, \"ns_per_item\": 0.2, \"demand\": 0.5 },\n"
	"                             \"small\": { \"base_us\": 5, \"ns_per_item\": 0.3, \"demand\": 0.8 } } } ],\n"
	" \"tenants\": [ { \"name\": \"t\", \"count\": %d } ],\n"
	" \"workload\": [\n"
	"  { \"type\": \"layered\", \"tenant\": \"t\", \"apps\": %d, \"layers\": %d, \"width\": 10, \"fan_in\": 2,\n"
	"    \"kernels\": [ \"a\", \"b\" ], \"work\": [ 1000000, 16000000 ], \"mb\": 1, \"every_ms\": 1, \"arrival\": \"random\" },\n"
	"  { \"type\": \"streams\", \"tenant\": \"t\", \"apps\": %d, \"width\": 10, \"length\": %d,\n"
	"    \"kernels\": [ \"a\", \"b\" ], \"work\": [ 1000000, 16000000 ], \"mb\": 1, \"every_ms\": 1, \"arrival\": \"random\" } ] }\n";

static void one_policy(json_t *result, const char *policy, const char *text, double limit)
{
	struct outcome out = simulate(text, policy, limit);
	struct part p = {
		.name = policy, .unit = "tasks/s", .of = BAR_VALUE, .at_least = 1,
		.bar = TASKS / MINUTE,
	};
	char key[64], note[256], end[96];

	p.value = (double)out.tasks / out.cpu_s;
	p.p99 = p.value;
	/* So that the ratio says how many times as fast as it has to be. */
	p.floor = p.bar;
	result_part(result, &p);
	snprintf(key, sizeof(key), "note_%s", policy);
	if (out.timed_out)
		snprintf(end, sizeof(end), "given up then, at %.0f ms of virtual time",
			 out.makespan_ms);
	else
		snprintf(end, sizeof(end), "makespan %.0f ms, devices used %.0f %%",
			 out.makespan_ms, 100 * out.used);
	snprintf(note, sizeof(note), "%llu tasks in %.1f s of CPU time (%.1f s passed), %.0f %% of it in sched_pick(); %s",
		 (unsigned long long)out.tasks, out.cpu_s, out.wall_s, 100 * out.pick_s / out.wall_s, end);
	result_note(result, key, note);
}

json_t *bench_simscale(const struct options *o)
{
	json_t *result = result_new("simscale", o->link);
	int apps = o->seconds >= 5 ? TENANTS : (int)(TENANTS * o->seconds / 5) + 10;
	static char text[4096];

	snprintf(text, sizeof(text), scenario, TENANTS, apps, 50, apps, 50);
	one_policy(result, "eft", text, 6 * o->seconds);
	one_policy(result, "rr", text, 6 * o->seconds);
	result_int(result, "devices", 256);
	result_int(result, "tenants", TENANTS);
	result_int(result, "tasks", 1000L * apps);
	result_note(result, "note_value",
		    "tasks simulated in a second of CPU time, by one thread; floor: a million in a minute");
	return result;
}
