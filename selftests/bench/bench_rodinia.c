// SPDX-License-Identifier: MIT
/* rodinia: nine programs on an OpenCL device through Arax, beside the same without it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "examples/rodinia/arax.h"
#include "result.h"
#include "rodinia_cl.h"
#include "server.h"

#define BAR		1.02
#define FEWEST_ROUNDS	3
#define WHOLE_SECONDS	9	/* below, programs have their small sizes, and no bar */
#define REST_US		2000

enum { ARAX, NATIVE, CPU, WAYS };

static const char *const way_names[WAYS] = {
	[ARAX] = "Arax", [NATIVE] = "OpenCL", [CPU] = "Arax, cpu",
};

/**
 * struct way - a program on one machine
 * @state:	the program's, while it is measured
 */
struct way {
	struct ro_machine *m;
	const struct ro_program *p;
	void *state;
};

static double once(struct way *w)
{
	uint64_t t0;

	if (w->p->reset)
		w->p->reset(w->state);
	t0 = ticks();
	ro_run(w->m, w->p, w->state);
	t0 = ticks() - t0;
	if (w->m->error)
		bench_fail("%s: %s", w->p->name, w->m->why);
	return ticks_to_ns(t0);
}

static void round_of(void *arg, double seconds, struct samples *samples)
{
	double left = seconds * 1e9, ns;

	usleep(REST_US);
	do {
		ns = once(arg);
		samples_add(samples, ns_to_ticks(ns));
		left -= ns;
	} while (left > 0);
}

/* Whatever the kernels wrote, bit by bit: it is the same code on the same device. */
static bool same_bits(const struct ro_machine *a, const struct ro_machine *b)
{
	uint32_t i;

	for (i = 0; i < a->nr_buffers; i++)
		if (memcmp(a->buffers[i].data, b->buffers[i].data, a->buffers[i].bytes))
			return false;
	return a->nr_buffers == b->nr_buffers;
}

static void check(struct way *w, int which)
{
	struct ro_verdict v = w->p->check(w->state);

	if (!ro_passes(&v))
		bench_fail("%s on %s: %g %s, where %g is allowed", w->p->name, way_names[which],
			   v.error, v.what, v.tolerance);
}

struct totals {
	double ms[WAYS];	/* logarithms, added up */
};

static void one_program(json_t *result, json_t *rows, struct totals *t, struct way *w,
			const struct options *o, const struct ro_params *params)
{
	struct measure m[WAYS] = { 0 }, *all[WAYS];
	double seconds = o->seconds / RO_PROGRAMS, sum = 0, ms[WAYS], fit;
	struct part part = { .unit = "ms" };
	uint64_t tasks;
	int i, rounds;

	for (i = 0; i < WAYS; i++) {
		w[i].state = w[i].p->make(w[i].m, params);
		if (!w[i].state)
			bench_fail("%s: %s", w[i].p->name, w[i].m->why);
		/* It compiles, too: whoever takes longer for it has fewer rounds. */
		sum += once(&w[i]);
		m[i].name = way_names[i];
		m[i].round = round_of;
		m[i].arg = &w[i];
		all[i] = &m[i];
	}
	tasks = w[ARAX].m->tasks;
	fit = seconds * 1e9 / sum;
	rounds = fit >= o->rounds || o->rounds <= FEWEST_ROUNDS ? o->rounds :
		 fit > FEWEST_ROUNDS ? (int)fit : FEWEST_ROUNDS;
	interleave(all, WAYS, (size_t)rounds, seconds);
	if (!same_bits(w[ARAX].m, w[NATIVE].m))
		bench_fail("%s: the results of Arax and of OpenCL differ", w->p->name);
	check(&w[ARAX], ARAX);
	check(&w[CPU], CPU);
	for (i = 0; i < WAYS; i++) {
		ms[i] = measure_p50(&m[i]) / 1e6;
		t->ms[i] += log(ms[i]);
		w[i].p->free(w[i].state);
		ro_end(w[i].m);
	}
	json_array_append_new(rows, json_pack("{s:s,s:i,s:i,s:I,s:f,s:f,s:f,s:f,s:f,s:b}",
					      "program", w->p->name, "size", (int)params->size,
					      "steps", (int)params->steps, "tasks", (json_int_t)tasks,
					      "arax_ms", ms[ARAX], "native_ms", ms[NATIVE],
					      "cpu_ms", ms[CPU], "ratio", ms[ARAX] / ms[NATIVE],
					      "us_a_task", (ms[ARAX] - ms[NATIVE]) * 1e3 /
					      (double)tasks, "checked", 1));
	part.name = w->p->name;
	part.value = ms[ARAX];
	part.p99 = measure_p99(&m[ARAX]) / 1e6;
	part.floor = ms[NATIVE];
	part.rounds = json_array();
	for (i = 0; i < (int)m[ARAX].rounds; i++)
		json_array_append_new(part.rounds, json_real(m[ARAX].p50[i] / 1e6));
	result_part(result, &part);
}

static json_t *skipped(json_t *result, const char *why)
{
	result_note(result, "skipped", why);
	return result;
}

json_t *bench_rodinia(const struct options *o)
{
	json_t *result = result_new("rodinia", o->link), *parts = result_new("rodinia", o->link);
	json_t *rows = json_array(), *part;
	struct part all = { .name = "beside OpenCL, nine programs", .unit = "ms", .bar = BAR };
	struct part cpu = { .name = "the cpu kernels", .unit = "ms" };
	bool whole = o->seconds >= WHOLE_SECONDS;
	struct totals t = { 0 };
	struct server servers[2];
	struct rodinia_cl *c;
	struct ro_arax a[2];
	char path[4200], why[256];
	size_t k;
	int i;

	if (!strcmp(o->link, "kernel"))
		return skipped(result, "it starts its own araxd, with OpenCL devices alone: broker link");
	build_path(path, sizeof(path), "lib/arax/rodinia-kernels/arax-rodinia.cl");
	c = rodinia_cl_open(path, why, sizeof(why));
	if (!c)
		return skipped(result, why);
	for (i = 0; i < 2; i++) {
		server_start_kind(&servers[i], i ? "cpu" : "opencl");
		if (ro_arax_open(&a[i], servers[i].link, false))
			bench_fail("%s", a[i].m.why);
	}
	for (k = 0; k < RO_PROGRAMS; k++) {
		const struct ro_program *p = ro_programs[k];
		struct way ways[WAYS] = {
			[ARAX] = { &a[0].m, p, NULL },
			[NATIVE] = { rodinia_cl_machine(c), p, NULL },
			[CPU] = { &a[1].m, p, NULL },
		};
		struct ro_params params = { p->size, p->steps, 1 };

		if (whole) {
			params.size = p->bench_size;
			params.steps = p->bench_steps;
		}
		one_program(parts, rows, &t, ways, o, &params);
	}
	for (i = 0; i < 2; i++) {
		ro_arax_close(&a[i]);
		server_stop(&servers[i]);
	}
	all.of = whole ? BAR_RATIO : BAR_NONE;
	all.value = exp(t.ms[ARAX] / RO_PROGRAMS);
	all.floor = exp(t.ms[NATIVE] / RO_PROGRAMS);
	result_part(result, &all);
	json_array_foreach(json_object_get(parts, "parts"), k, part)
		json_array_append(json_object_get(result, "parts"), part);
	json_decref(parts);
	cpu.value = exp(t.ms[CPU] / RO_PROGRAMS);
	result_part(result, &cpu);
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_device", rodinia_cl_device(c));
	result_int(result, "opencl_devices", (long)rodinia_cl_devices(c));
	result_note(result, "note_value",
		    "medians of one run each, first launch to last result; the floor is the same "
		    "kernels in one in-order queue of this process; results are the same bit by bit, "
		    "and those of sequential versions within the programs' tolerances");
	result_note(result, "note_order",
		    "launches of lavamd and nn that need nothing of each other may overlap through Arax");
	result_note(result, "note_placement", "nobody pinned: the OpenCL device has all CPUs");
	rodinia_cl_close(c);
	return result;
}
