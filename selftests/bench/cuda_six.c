// SPDX-License-Identifier: MIT
/* cuda: GrCUDA's six benchmarks, their order inferred, beside what CUDA offers for it. */
#ifdef HAVE_CUDA
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cu_flow.h"
#include "cuda.h"
#include "result.h"
#include "six.h"

#define WARM_UP		4	/* runs, until araxd knows each kernel and all code is on the device */
#define LARGE_SECONDS	9	/* below, the largest size is left out */
#define FEWEST_ROUNDS	5

/* Of results by GPU and CPU, of the greatest of them; f32 in another order, or another expf(). */
#define TOLERANCE	1e-4
/* Of argmax: columns that are equal but for rounding. */
#define OTHERS		1e-3

enum { ARAX, STREAMS, GRAPH, SYNCHRONOUS, WAYS };

static const struct {
	const char *name;
	void (*run)(struct cu_flow *c);
} ways[WAYS] = {
	[ARAX] = { "Arax", cu_flow_arax },
	[STREAMS] = { "streams", cu_flow_streams },
	[GRAPH] = { "graph", cu_flow_graph },
	[SYNCHRONOUS] = { "synchronous", cu_flow_synchronous },
};

/**
 * by_hand - the programs, as somebody would write them with streams
 * @stream:	of each step, in the order of six_*.c; repeated
 * @tiny:	a size for a driver in software
 */
static const struct {
	unsigned int nr;
	uint8_t stream[11];
	uint32_t tiny;
} by_hand[SIX] = {
	{ 3, { 0, 1, 0 }, 1000 },				/* VEC: a square each */
	{ 10, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 100 },		/* B&S: a stock each */
	{ 11, { 2, 2, 0, 0, 0, 3, 0, 1, 1, 0, 0 }, 20 },	/* IMG: a blur each; the minimum */
	{ 10, { 1, 1, 1, 1, 1, 0, 0, 0, 0, 0 }, 30 },		/* ML: Bayes, ridge */
	{ 6, { 0, 1, 0, 1, 0, 1 }, 200 },			/* HITS: authorities, hubs */
	{ 8, { 0, 0, 0, 1, 1, 1, 0, 0 }, 60 },			/* DL: a picture each */
};

struct way {
	struct cu_flow *c;
	int which;
};

static void round_of(void *arg, double seconds, struct samples *samples)
{
	struct way *w = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	do {
		if (w->which == ARAX)
			cu_flow_dirty(w->c);
		t0 = ticks();
		ways[w->which].run(w->c);
		t1 = ticks();
		samples_add(samples, t1 - t0);
	} while (t1 < end);
}

/* ------------------------------------------------------------------ */
/* Results                                                               */

struct results {
	void *is[FLOW_BUFFERS];
	unsigned int nr;
};

static void run_fresh(struct cu_flow *c, int way, struct results *r)
{
	unsigned int i;

	cu_flow_poison(c, way == ARAX);
	if (way == ARAX)
		cu_flow_dirty(c);
	ways[way].run(c);
	r->nr = c->f->nr_outs;
	for (i = 0; i < r->nr; i++) {
		r->is[i] = malloc(arax_buffer_bytes(c->f->out[i]));
		if (!r->is[i])
			bench_fail("no memory for the result");
		cu_flow_results(c, way == ARAX, i, r->is[i]);
	}
}

static void results_free(struct results *r)
{
	unsigned int i;

	for (i = 0; i < r->nr; i++)
		free(r->is[i]);
}

/* The type of a result is that of the parameter which writes it. */
static const char *type_of(const struct cu_flow *c, unsigned int out)
{
	unsigned int i, k;

	for (i = 0; i < c->f->nr_steps; i++) {
		const struct cu_step *s = &c->steps[i];

		for (k = 0; k < s->params.nr_ranges; k++)
			if (s->params.ranges[k].out && c->f->buffers[s->buffer[k]] == c->f->out[out])
				return s->params.ranges[k].type->name;
	}
	return "";
}

static double number_at(const void *data, const char *type, uint64_t i)
{
	if (!strcmp(type, "f64"))
		return ((const double *)data)[i];
	return !strcmp(type, "f32") ? (double)((const float *)data)[i] :
				      (double)((const uint32_t *)data)[i];
}

/* The CPU's kernels are others: right beside them, not equal. */
static void compare_with_cpu(const struct cu_flow *c, const struct results *r)
{
	unsigned int k;

	for (k = 0; k < r->nr; k++) {
		const char *type = type_of(c, k);
		uint64_t bytes = arax_buffer_bytes(c->f->out[k]), others = 0, i;
		uint64_t n = bytes / (strcmp(type, "f64") ? 4 : 8);
		double most = 0, diff, allowed;

		for (i = 0; i < n; i++)
			most = fmax(most, fabs(number_at(c->f->wanted[k], type, i)));
		allowed = type[0] == 'f' ? TOLERANCE * most : 0;
		for (i = 0; i < n; i++) {
			diff = fabs(number_at(c->f->wanted[k], type, i) - number_at(r->is[k], type, i));
			others += !(diff <= allowed);
		}
		if ((double)others > (type[0] == 'f' ? 0 : OTHERS * (double)n))
			bench_fail("result %u: %llu of %llu are not the CPU's", k,
				   (unsigned long long)others, (unsigned long long)n);
	}
}

/* All ways launch the same kernels with the same grids: equal to the last bit. */
static void check_ways(struct cu_flow *c, const struct results *wanted)
{
	struct results r;
	unsigned int k;
	int i;

	for (i = 0; i < WAYS; i++) {
		run_fresh(c, i, &r);
		for (k = 0; k < r.nr; k++) {
			if (memcmp(r.is[k], wanted->is[k], arax_buffer_bytes(c->f->out[k])))
				bench_fail("%s: result %u is not the synchronous one's",
					   ways[i].name, k);
		}
		results_free(&r);
	}
}

/* ------------------------------------------------------------------ */
/* Times                                                                 */

/* What the parts are made of: logarithms of the times, added up over all programs. */
struct totals {
	double log_ms[WAYS];
	int n;
};

/* As many as are asked for, or for programs that take long as fit the time; not too few. */
static size_t rounds_of(struct cu_flow *c, const struct options *o, double seconds)
{
	uint64_t t0 = ticks();
	double fit;

	cu_flow_synchronous(c);
	fit = seconds * 1e9 / (WAYS * ticks_to_ns(ticks() - t0));
	if (fit >= o->rounds || o->rounds <= FEWEST_ROUNDS)
		return (size_t)o->rounds;
	return fit > FEWEST_ROUNDS ? (size_t)fit : FEWEST_ROUNDS;
}

static void measure(struct cu_flow *c, json_t *row, struct totals *t, const struct options *o,
		    double seconds)
{
	struct measure m[WAYS] = { 0 }, *all[WAYS];
	struct way w[WAYS];
	double ms[WAYS];
	int i;

	for (i = 0; i < WAYS; i++) {
		w[i] = (struct way){ c, i };
		m[i] = (struct measure){ .name = ways[i].name, .round = round_of, .arg = &w[i] };
		all[i] = &m[i];
	}
	for (i = 0; i < WARM_UP; i++)
		cu_flow_arax(c);
	interleave(all, WAYS, rounds_of(c, o, seconds), seconds);
	for (i = 0; i < WAYS; i++) {
		ms[i] = measure_p50(&m[i]) / 1e6;
		t->log_ms[i] += log(ms[i]);
	}
	t->n++;
	json_object_update_new(row, json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}",
					      "arax_ms", ms[ARAX],
					      "arax_p99_ms", measure_p99(&m[ARAX]) / 1e6,
					      "streams_ms", ms[STREAMS], "graph_ms", ms[GRAPH],
					      "synchronous_ms", ms[SYNCHRONOUS],
					      "ratio_streams", ms[ARAX] / ms[STREAMS],
					      "ratio_graph", ms[ARAX] / ms[GRAPH],
					      "speedup", ms[SYNCHRONOUS] / ms[ARAX]));
}

static void one_size(json_t *rows, struct totals *t, struct flow *f, struct cu_peer *peer, int which,
		     uint32_t size, const struct options *o, double seconds)
{
	static struct cu_flow c;
	struct results wanted;
	json_t *row;

	flow_begin(f);
	six[which].make(f, size);
	/* Before the CPU's run writes to what is input and result in one. */
	cu_flow_open(&c, f, peer, by_hand[which].stream, by_hand[which].nr);
	flow_keep(f, flow_sequential);
	run_fresh(&c, SYNCHRONOUS, &wanted);
	compare_with_cpu(&c, &wanted);
	check_ways(&c, &wanted);
	row = json_pack("{s:s,s:i,s:i}", "program", six[which].name, "size", (int)size, "tasks",
			(int)f->nr_steps);
	measure(&c, row, t, o, seconds);
	check_ways(&c, &wanted);
	json_object_set_new(row, "checked", json_true());
	json_array_append_new(rows, row);
	results_free(&wanted);
	cu_flow_close(&c);
	flow_end(f);
}

/* ------------------------------------------------------------------ */

static void report(json_t *result, const struct totals *t, json_t *rows)
{
	struct part gain = { .name = "programs, over synchronous", .unit = "times" };
	char name[64];
	json_t *row;
	size_t i;
	int k;

	for (k = STREAMS; k <= GRAPH; k++) {
		struct part p = { .name = name, .unit = "ms" };

		snprintf(name, sizeof(name), "programs, beside %s", ways[k].name);
		p.value = exp(t->log_ms[ARAX] / t->n);
		p.floor = exp(t->log_ms[k] / t->n);
		result_part(result, &p);
	}
	gain.value = exp((t->log_ms[SYNCHRONOUS] - t->log_ms[ARAX]) / t->n);
	result_part(result, &gain);
	json_array_foreach(rows, i, row) {
		struct part p = { .name = name, .unit = "ms" };

		snprintf(name, sizeof(name), "%s %lld",
			 json_string_value(json_object_get(row, "program")),
			 (long long)json_integer_value(json_object_get(row, "size")));
		p.value = json_real_value(json_object_get(row, "arax_ms"));
		p.p99 = json_real_value(json_object_get(row, "arax_p99_ms"));
		p.floor = json_real_value(json_object_get(row, "streams_ms"));
		result_part(result, &p);
	}
}

void cuda_six(json_t *result, struct side *s, struct cu_peer *peer, double seconds,
	      const struct options *o)
{
	int sizes = o->seconds < LARGE_SECONDS ? SIX_SIZES - 1 : SIX_SIZES, i, k;
	json_t *rows = json_array();
	struct totals t = { 0 };
	static struct flow f;

	f.ax = s->ax;
	f.queue = s->queue;
	f.flags = ARAX_BUFFER_EXPLICIT;
	if (peer->emulated)
		sizes = 1;
	for (i = 0; i < SIX; i++)
		for (k = 0; k < sizes; k++)
			one_size(rows, &t, &f, peer, i,
				 peer->emulated ? by_hand[i].tiny : six[i].size[k], o,
				 seconds / (SIX * sizes));
	report(result, &t, rows);
	json_object_set_new(result, "rows", rows);
}
#else
/* A unit of nothing is none. */
typedef int no_cuda_six;
#endif
