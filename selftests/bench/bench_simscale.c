// SPDX-License-Identifier: MIT
/*
 * simscale: how fast 256 devices, 1,000 tenants and a million tasks are simulated.
 *
 * The scenario is examples/scenarios/million.json, as it was when this program was built; with
 * less time than its default the bench has fewer applications of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "result.h"
#include "simulate.h"

#define APPS	1000	/* of each kind; 500 tasks each */
#define TASKS	1000000.0
#define DEVICES	256
#define TENANTS	1000
#define MINUTE	60.0

extern const char million[];
__asm__(".section .rodata\n"
	".type million, %object\n"
	"million:\n"
	".incbin \"examples/scenarios/million.json\"\n"
	".byte 0\n"
	".size million, . - million\n"
	".previous\n");

/* With @apps applications of each kind; for the caller to free. */
static char *scenario_of(int apps)
{
	json_error_t error;
	json_t *sc = json_loads(million, 0, &error), *entry;
	char *text;
	size_t i;

	if (!sc)
		bench_fail("million.json:%d: %s", error.line, error.text);
	json_array_foreach(json_object_get(sc, "workload"), i, entry)
		json_object_set_new(entry, "apps", json_integer(apps));
	text = json_dumps(sc, 0);
	json_decref(sc);
	if (!text)
		bench_fail("out of memory");
	return text;
}

static void one_policy(json_t *result, json_t *rows, const char *policy, const char *text,
		       long tasks, double limit)
{
	struct outcome out = simulate(text, policy, limit);
	struct part p = {
		.name = policy, .unit = "tasks/s", .of = BAR_VALUE, .at_least = 1,
		.bar = TASKS / MINUTE,
	};
	char key[64], note[256], end[128];

	p.value = (double)out.tasks / out.cpu_s;
	p.p99 = p.value;
	/* So that the ratio says how many times as fast as it has to be. */
	p.floor = p.bar;
	result_part(result, &p);
	json_array_append_new(rows,
		json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:f}",
			  "policy", policy, "devices", DEVICES, "tenants", TENANTS,
			  "tasks_simulated", (int)out.tasks, "tasks", (int)tasks,
			  "finished", !out.timed_out, "tasks_per_s", p.value, "cpu_s", out.cpu_s,
			  "wall_s", out.wall_s, "pick_s", out.pick_s,
			  "makespan_ms", out.makespan_ms, "used_percent", 100 * out.used));
	snprintf(key, sizeof(key), "note_%s", policy);
	if (out.timed_out)
		snprintf(end, sizeof(end), "given up then, with %.0f %% of all tasks, at %.0f ms of virtual time",
			 100.0 * (double)out.tasks / (double)tasks, out.makespan_ms);
	else
		snprintf(end, sizeof(end), "that is all; makespan %.0f ms, devices used %.0f %%",
			 out.makespan_ms, 100 * out.used);
	snprintf(note, sizeof(note), "%llu tasks in %.1f s of CPU time (%.1f s passed), %.0f %% of it in sched_pick(); %s",
		 (unsigned long long)out.tasks, out.cpu_s, out.wall_s, 100 * out.pick_s / out.wall_s, end);
	result_note(result, key, note);
}

json_t *bench_simscale(const struct options *o)
{
	json_t *result = result_new("simscale", "none"), *rows = json_array();
	int apps = o->seconds >= 5 ? APPS : (int)(APPS * o->seconds / 5) + 10;
	/* At the default a minute, which a million may take. */
	double limit = MINUTE * o->seconds / 5;
	char *text = scenario_of(apps);

	one_policy(result, rows, "eft", text, 1000L * apps, limit);
	one_policy(result, rows, "rr", text, 1000L * apps, limit);
	free(text);
	result_int(result, "devices", DEVICES);
	result_int(result, "tenants", TENANTS);
	result_int(result, "tasks", 1000L * apps);
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_value",
		    "tasks simulated in a second of CPU time, by one thread; floor: a million in a minute");
	return result;
}
