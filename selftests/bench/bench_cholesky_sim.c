// SPDX-License-Identifier: MIT
/*
 * cholesky-sim: tile Cholesky and tile LU on simulated nodes of GPUs and cores (sirocco.h), the
 * makespan under eft against what no schedule can beat.
 */
#include <math.h>
#include <stdio.h>

#include "bench.h"
#include "result.h"
#include "simulate.h"
#include "sirocco.h"

#define BAR	1.10

#define NR(array)	(sizeof(array) / sizeof((array)[0]))

static const char *const types[] = { "cholesky", "lu" };
static const int tiles[] = { 8, 12, 16, 24, 32, 48 };

/* @link: GB/s; @models: warm or cold */
static const char *scenario(const char *type, size_t machine, int n, double link,
			    const char *models)
{
	static char text[8192];
	size_t len;

	len = (size_t)snprintf(text, sizeof(text),
		"{ \"name\": \"%s\", \"models\": \"%s\", \"machine\": {\n"
		"  \"links\": [ { \"name\": \"pcie\", \"count\": %d, \"gb_per_s\": %g, \"latency_us\": %d } ],\n"
		"  \"devices\": [\n"
		"   { \"name\": \"gpu\", \"count\": %d, \"link\": \"pcie\", \"peers\": true, \"memory_gb\": %d, \"lanes\": %d },\n"
		"   { \"name\": \"core\", \"count\": %d, \"lanes\": 1 } ] },\n"
		" \"tenants\": [ { \"name\": \"t\" } ], \"kernels\": [",
		type, models, sirocco_machines[machine].gpus, link, SIROCCO_LINK_US,
		sirocco_machines[machine].gpus, SIROCCO_MEMORY_GB, SIROCCO_LANES,
		sirocco_machines[machine].cores);
	for (size_t k = 0; k < NR(sirocco_kernels); k++) {
		double item_ns = sirocco_kernels[k].operations / SIROCCO_CORE_PER_NS;

		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"%s\n  { \"name\": \"%s\", \"cost\": { \"gpu\": { \"ns_per_item\": %.12g }, \"core\": { \"ns_per_item\": %.12g } } }",
			k ? "," : "", sirocco_kernels[k].name,
			item_ns / sirocco_kernels[k].faster, item_ns);
	}
	snprintf(text + len, sizeof(text) - len,
		 " ],\n \"workload\": [ { \"type\": \"%s\", \"tiles\": %d, \"tile\": %d, \"window\": 65536 } ] }\n",
		 type, n, SIROCCO_TILE);
	return text;
}

/**
 * struct mean - geometric ones
 * @makespan, @bound, @free, @cold: sums of logarithms; the last ones of makespans with links that
 *		take nearly no time, and where run times have to be learnt
 */
struct mean {
	double makespan, bound, free, cold;
	size_t nr;
};

/* That copies take no time to speak of: what is left then is the schedule's. */
#define FREE_LINK	1e6

static json_t *measure(const char *type, size_t machine, int n, struct mean *mean)
{
	const char *text = scenario(type, machine, n, SIROCCO_LINK_GB_PER_S, "warm"), *best;
	struct sim_bound bound = simulate_bound(text);
	struct outcome out = simulate(text, "eft", 0);
	double least = (double)sim_bound_best(&bound, &best) / 1e6;
	double apart = simulate(scenario(type, machine, n, FREE_LINK, "warm"), "eft", 0).makespan_ms;
	double cold = simulate(scenario(type, machine, n, SIROCCO_LINK_GB_PER_S, "cold"), "eft",
			       0).makespan_ms;
	char name[32];

	if (out.makespan_ms < least || apart < least || cold < least)
		bench_fail("%s of %d tiles: %g ms, but no schedule takes less than %g: one of the two is wrong",
			   type, n, fmin(out.makespan_ms, fmin(apart, cold)), least);
	mean->makespan += log(out.makespan_ms);
	mean->bound += log(least);
	mean->free += log(apart);
	mean->cold += log(cold);
	mean->nr++;
	snprintf(name, sizeof(name), "%d + %d", sirocco_machines[machine].gpus,
		 sirocco_machines[machine].cores);
	return json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
			 "program", type, "machine", name, "tiles", n, "tasks",
			 (json_int_t)out.tasks, "makespan_ms", out.makespan_ms, "bound_ms", least,
			 "bound", best, "path_ms", (double)bound.path_ns / 1e6, "area_ms",
			 (double)bound.area_ns / 1e6, "mixed_ms", (double)bound.mixed_ns / 1e6,
			 "ways_ms", (double)bound.ways_ns / 1e6,
			 "ratio", out.makespan_ms / least, "ratio_free_links", apart / least,
			 "ratio_cold", cold / least,
			 "moved_mb", out.bytes / 1e6, "pick_ms", out.pick_s * 1e3);
}

static void add(json_t *result, const char *name, double sum, const struct mean *m, double bar)
{
	struct part p = {
		.name = name, .unit = "ms", .value = exp(sum / (double)m->nr),
		.floor = exp(m->bound / (double)m->nr), .of = bar > 0 ? BAR_RATIO : BAR_NONE,
		.bar = bar,
	};

	p.p99 = p.value;
	result_part(result, &p);
}

json_t *bench_cholesky_sim(const struct options *o)
{
	/* The last two take most of the time. */
	const size_t sizes = o->seconds >= 2 ? NR(tiles) : 3;
	json_t *result = result_new("cholesky-sim", "none"), *rows = json_array();
	struct mean all = { 0 }, of[NR(tiles)] = { { 0 } };
	char name[32];

	for (size_t i = 0; i < sizes; i++) {
		for (size_t t = 0; t < NR(types); t++)
			for (size_t m = 0; m < NR(sirocco_machines); m++)
				json_array_append_new(rows, measure(types[t], m, tiles[i], &of[i]));
		all.makespan += of[i].makespan;
		all.bound += of[i].bound;
		all.free += of[i].free;
		all.cold += of[i].cold;
		all.nr += of[i].nr;
	}
	add(result, "all", all.makespan, &all, BAR);
	for (size_t i = 0; i < sizes; i++) {
		snprintf(name, sizeof(name), "%d tiles", tiles[i]);
		add(result, name, of[i].makespan, &of[i], BAR);
	}
	add(result, "all, free links", all.free, &all, 0);
	add(result, "all, run times not known", all.cold, &all, 0);
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_value",
		    "geometric means of makespans in virtual time, over those of the best bound of each (critical path, area, mixed, ways); of copies it knows what goes between GPUs and cores. The scheduler's own time, pick_ms, is real and in none of them; constants: selftests/bench/sirocco.h");
	result_note(result, "note_links",
		    "each GPU has a link of its own, 12 GB/s each way, and GPUs copy from each other. free links: 1,000,000 GB/s");
	result_note(result, "note_known",
		    "run times are known, but for 'run times not known': there each kernel is new, and all of a kind of device learn together");
	return result;
}
