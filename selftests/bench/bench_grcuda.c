// SPDX-License-Identifier: MIT
/* grcuda: six programs whose order is inferred, beside schedules written by hand. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clock.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "six.h"

#define BAR_HAND	1.03
#define BAR_SYNC	1.02
#define WARM_UP		4	/* runs, until each device knows each kernel */
#define REST_US		5000	/* OpenMP's threads spin for some milliseconds after a region */
#define LARGE_SECONDS	2	/* below, the largest size is left out */
#define FEWEST_ROUNDS	5
#define LOOKS		3	/* at a program that looks too slow on OpenCL */
#define GROUP		64	/* work-items of a work-group, on OpenCL */

enum { SEQUENTIAL, SYNCHRONOUS, INFERRED, HAND, WAYS };

/* @placed: what runs is on place_cpu[0] */
static const struct {
	const char *name;
	void (*run)(struct flow *f);
	int placed;
} ways[WAYS] = {
	[SEQUENTIAL] = { "sequential", flow_sequential },
	[SYNCHRONOUS] = { "synchronous", flow_synchronous },
	[INFERRED] = { "inferred", flow_inferred },
	[HAND] = { "by hand", flow_hand, 1 },
};

struct way {
	struct flow *f;
	void (*run)(struct flow *f);
	int placed;
	double device_ns, wall_ns;
};

static void round_of(void *arg, double seconds, struct samples *samples)
{
	struct way *w = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	/* To get there, and to be free again, takes as long as a small program's kernel. */
	if (w->placed)
		place_self(place_cpu[0]);
	usleep(REST_US);
	do {
		if (w->f->reset)
			w->f->reset(w->f);
		t0 = ticks();
		w->run(w->f);
		t1 = ticks();
		samples_add(samples, t1 - t0);
		w->device_ns += (double)w->f->device_ns;
		w->wall_ns += ticks_to_ns(t1 - t0);
	} while (t1 < end);
	if (w->placed)
		place_self(-1);
}

/*
 * As many as are asked for, or for programs that take long as fit the time; not too few.  All of
 * @nr ways take about as long as @run.
 */
static size_t rounds_of(struct flow *f, void (*run)(struct flow *f), int nr,
			const struct options *o, double seconds)
{
	uint64_t t0 = ticks();
	double fit;

	run(f);
	fit = seconds * 1e9 / (nr * ticks_to_ns(ticks() - t0));
	if (fit >= o->rounds || o->rounds <= FEWEST_ROUNDS)
		return (size_t)o->rounds;
	return fit > FEWEST_ROUNDS ? (size_t)fit : FEWEST_ROUNDS;
}

/* The program and size that gain least, or lose most, by being inferred. */
struct worst {
	double inferred, sync;
	char name[64];
};

static void worst_of(struct worst *w, const char *program, uint32_t size, double inferred,
		     double sync)
{
	if (w->sync && inferred / sync <= w->inferred / w->sync)
		return;
	w->inferred = inferred;
	w->sync = sync;
	snprintf(w->name, sizeof(w->name), "%s %u", program, size);
}

static void worst_part(json_t *result, const char *name, const struct worst *w, enum bar_of of)
{
	struct part p = { .name = name, .unit = "ms", .value = w->inferred, .floor = w->sync,
			  .of = of, .bar = BAR_SYNC };

	result_part(result, &p);
}

/* What the bars are about: logarithms of the times, added up over all programs. */
struct totals {
	double sync_ms;
	double of_size[SIX_SIZES], hand_of_size[SIX_SIZES];
	struct worst worst;
	int n;
};

static void one_size(json_t *rows, struct totals *t, struct flow *f, const struct six *p,
		     int which, const struct options *o, double seconds)
{
	uint32_t size = p->size[which];
	struct measure m[WAYS] = { 0 }, *all[WAYS];
	struct way w[WAYS] = { 0 };
	double ms[WAYS];
	json_t *row;
	int i;

	flow_begin(f);
	p->make(f, size);
	flow_keep(f, flow_sequential);
	for (i = 0; i < WAYS; i++) {
		w[i].f = f;
		w[i].run = ways[i].run;
		w[i].placed = ways[i].placed;
		m[i].name = ways[i].name;
		m[i].round = round_of;
		m[i].arg = &w[i];
		all[i] = &m[i];
		flow_check(f, ways[i].run, ways[i].name);
	}
	for (i = 0; i < WARM_UP; i++)
		flow_inferred(f);
	interleave(all, WAYS, rounds_of(f, flow_sequential, WAYS, o, seconds), seconds);
	for (i = 0; i < WAYS; i++) {
		flow_check(f, ways[i].run, ways[i].name);
		ms[i] = measure_p50(&m[i]) / 1e6;
	}
	row = json_pack("{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "program", p->name,
			"size", (int)size, "tasks", (int)f->nr_steps,
			"inferred_ms", ms[INFERRED],
			"inferred_p99_ms", measure_p99(&m[INFERRED]) / 1e6, "by_hand_ms", ms[HAND],
			"synchronous_ms", ms[SYNCHRONOUS], "sequential_ms", ms[SEQUENTIAL],
			"ratio_by_hand", ms[INFERRED] / ms[HAND],
			"ratio_synchronous", ms[INFERRED] / ms[SYNCHRONOUS],
			"speedup", ms[SYNCHRONOUS] / ms[INFERRED],
			"devices_busy", w[INFERRED].device_ns / w[INFERRED].wall_ns,
			"checked", 1);
	json_array_append_new(rows, row);
	t->of_size[which] += log(ms[INFERRED]);
	t->hand_of_size[which] += log(ms[HAND]);
	t->sync_ms += log(ms[SYNCHRONOUS]);
	t->n++;
	worst_of(&t->worst, p->name, size, ms[INFERRED], ms[SYNCHRONOUS]);
	flow_end(f);
}

/*
 * In a guest's emulation the two ways have different instructions: stated only.  So are
 * means without the largest size, which are of other programs than the bar's.
 */
static enum bar_of bar_of(const struct options *o, int sizes)
{
	return strcmp(o->link, "kernel") && sizes == SIX_SIZES ? BAR_RATIO : BAR_NONE;
}

static void bars(json_t *result, const struct totals *t, const struct options *o, int sizes)
{
	static const char *const names[SIX_SIZES] = {
		"by hand, small", "by hand, medium", "by hand, large",
	};
	double inferred = 0, by_hand = 0;
	int k;
	enum bar_of of = bar_of(o, sizes);
	struct part hand = { .name = "beside by hand", .unit = "ms", .of = of, .bar = BAR_HAND };
	struct part gain = { .name = "speed-up over synchronous", .unit = "times" };

	for (k = 0; k < sizes; k++) {
		inferred += t->of_size[k];
		by_hand += t->hand_of_size[k];
	}
	hand.value = exp(inferred / t->n);
	hand.floor = exp(by_hand / t->n);
	result_part(result, &hand);
	worst_part(result, "beside synchronous, worst", &t->worst, of);
	gain.value = exp((t->sync_ms - inferred) / t->n);
	result_part(result, &gain);
	for (k = 0; k < sizes; k++) {
		struct part size = { .name = names[k], .unit = "ms" };

		size.value = exp(t->of_size[k] / SIX);
		size.floor = exp(t->hand_of_size[k] / SIX);
		result_part(result, &size);
	}
	result_note(result, "note_worst", t->worst.name);
}

/* Each program and size is a row of the table as well. */
static void row_parts(json_t *result, const json_t *rows)
{
	char name[64];
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		struct part p = { .name = name, .unit = "ms" };

		snprintf(name, sizeof(name), "%s %lld",
			 json_string_value(json_object_get(row, "program")),
			 (long long)json_integer_value(json_object_get(row, "size")));
		p.value = json_real_value(json_object_get(row, "inferred_ms"));
		p.p99 = json_real_value(json_object_get(row, "inferred_p99_ms"));
		p.floor = json_real_value(json_object_get(row, "by_hand_ms"));
		result_part(result, &p);
	}
}

/* ------------------------------------------------------------------ */
/* On OpenCL                                                           */

/* NULL: there is some driver of it. */
static const char *no_opencl(const struct options *o)
{
	int (*platforms)(unsigned int max, void *ids, unsigned int *nr);
	unsigned int nr = 0;
	void *library;

	if (!strcmp(o->link, "kernel"))
		return "it starts its own araxd, with OpenCL devices alone: broker link";
	library = dlopen("libOpenCL.so.1", RTLD_NOW);
	if (!library)
		return "no libOpenCL.so.1 (Debian: ocl-icd-libopencl1, pocl-opencl-icd)";
	*(void **)&platforms = dlsym(library, "clGetPlatformIDs");
	if (!platforms || platforms(0, NULL, &nr) || !nr)
		return "no driver of OpenCL (Debian: pocl-opencl-icd)";
	return NULL;
}

/*
 * The same kernels in OpenCL C, on the same device: equal to the last bit in both ways.  The
 * logarithm of what is gained.
 */
static double opencl_size(json_t *rows, struct worst *worst, struct flow *f, const struct six *p,
			  int which, const struct options *o, double seconds, int judged)
{
	static const int both[] = { SYNCHRONOUS, INFERRED };
	struct measure m[2] = { 0 }, *all[2];
	struct way w[2] = { 0 };
	double ms[2];
	unsigned int s;
	size_t rounds;
	int i, look;

	flow_begin(f);
	p->make(f, p->size[which]);
	/* A driver of OpenCL makes vectors of the work-items of a group. */
	for (s = 0; s < f->nr_steps; s++) {
		struct arax_grid *g = &f->desc[s].grid;

		g->grid[0] = (g->grid[0] - 1) / GROUP + 1;
		g->block[0] = GROUP;
	}
	flow_keep(f, flow_synchronous);
	for (i = 0; i < 2; i++) {
		w[i].f = f;
		w[i].run = ways[both[i]].run;
		m[i].name = ways[both[i]].name;
		m[i].round = round_of;
		m[i].arg = &w[i];
		all[i] = &m[i];
		flow_check(f, w[i].run, m[i].name);
	}
	/* By the next size the device knows each kernel. */
	for (i = 0; i < WARM_UP && !which; i++)
		flow_inferred(f);
	rounds = rounds_of(f, flow_synchronous, 2, o, seconds);
	/*
	 * A driver gives each kernel all cores, so there may be nothing to gain, and of so many
	 * programs noise alone makes one too slow.  More rounds tell: all of them count.
	 */
	for (look = 0; look < LOOKS; look++) {
		interleave(all, 2, rounds, seconds);
		for (i = 0; i < 2; i++)
			ms[i] = measure_p50(&m[i]) / 1e6;
		if (!judged || ms[1] <= BAR_SYNC * ms[0])
			break;
	}
	for (i = 0; i < 2; i++)
		flow_check(f, w[i].run, m[i].name);
	json_array_append_new(rows, json_pack("{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:i,s:b}", "program",
					      p->name, "size", (int)p->size[which], "tasks",
					      (int)f->nr_steps, "inferred_ms", ms[1],
					      "synchronous_ms", ms[0], "ratio_synchronous",
					      ms[1] / ms[0], "speedup", ms[0] / ms[1],
					      "rounds", (int)m[0].rounds, "checked", 1));
	worst_of(worst, p->name, p->size[which], ms[1], ms[0]);
	flow_end(f);
	return log(ms[0] / ms[1]);
}

static void open_flow(struct flow *f, const struct server *server)
{
	struct arax_options options = { .size = sizeof(options), .link = server->link };

	if (arax_open(&f->ax, &options) < 0)
		bench_fail("opening a context: %s", arax_error_text());
	if (arax_queue_create(f->ax, ARAX_QUEUE_DATAFLOW, 0, &f->queue) < 0)
		bench_fail("creating a queue: %s", arax_error_text());
}

/* On the machine's OpenCL devices alone. */
static void on_opencl(json_t *result, const struct options *o, int sizes)
{
	struct part gain = { .name = "OpenCL, speed-up over synchronous", .unit = "times" };
	enum bar_of of = bar_of(o, sizes);
	const char *why = no_opencl(o);
	struct worst worst = { 0 };
	struct server server;
	static struct flow f;
	double sum = 0;
	json_t *rows;
	int i, k;

	if (why) {
		result_note(result, "note_opencl", why);
		return;
	}
	rows = json_array();
	server_start_standard(&server, "opencl", "");
	open_flow(&f, &server);
	for (i = 0; i < SIX; i++)
		for (k = 0; k < sizes; k++)
			sum += opencl_size(rows, &worst, &f, &six[i], k, o,
					   o->seconds / (SIX * sizes * 2), of != BAR_NONE);
	arax_close(f.ax);
	server_stop(&server);
	worst_part(result, "OpenCL, beside synchronous, worst", &worst, of);
	gain.value = exp(sum / (SIX * sizes));
	result_part(result, &gain);
	result_note(result, "note_worst_opencl", worst.name);
	json_object_set_new(result, "opencl_rows", rows);
}

json_t *bench_grcuda(const struct options *o)
{
	json_t *result = result_new("grcuda", o->link), *rows = json_array();
	int sizes = o->seconds < LARGE_SECONDS ? SIX_SIZES - 1 : SIX_SIZES, i, k;
	struct totals t = { 0 };
	struct server server;
	static struct flow f;

	server_start_devices(&server, o->link, 2);
	open_flow(&f, &server);
	for (i = 0; i < SIX; i++)
		for (k = 0; k < sizes; k++)
			one_size(rows, &t, &f, &six[i], k, o,
				 o->seconds / (SIX * sizes));
	arax_close(f.ax);
	server_stop(&server);
	bars(result, &t, o, sizes);
	row_parts(result, rows);
	on_opencl(result, o, sizes);
	json_object_set_new(result, "rows", rows);
	result_note(result, "note_value",
		    "medians of one run each, submission to end; the floor is the same kernels as "
		    "OpenMP tasks in this process on the same two CPUs; results are those of "
		    "sequential calls, byte by byte");
	result_note(result, "note_placement",
		    "one device on each of pinned_cpus; by hand: a thread on each of them; nobody else pinned");
	if (place_cpu[0] == place_cpu[1])
		result_note(result, "note_cpus", "one CPU: nothing can run side by side");
	return result;
}
