// SPDX-License-Identifier: MIT
/* outofcore: programs on half to four times what a device holds, beside the same by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "outofcore.h"
#include "place.h"
#include "result.h"
#include "server.h"

#define FIND_NS		5000000000u
#define MIB		((double)(1u << 20))
#define SIZES		4
#define RUNS_MAX	64
#define WHOLE_SECONDS	9	/* below, less memory: the figures mean little */

static const double sizes[SIZES] = { 0.5, 1, 2, 4 };

/* Of the device for each program: the one computes much on few bytes. */
static const uint64_t memories[2][OOC_PROGRAMS] = {
	{ 2u << 20, 512u << 10 },
	{ 32u << 20, 4u << 20 },
};

/**
 * struct cell - a program at a size on a device
 * @arax, @hand: ns of each run
 * @moved:	of araxd's device, in the last run
 */
struct cell {
	struct ooc_program p;
	double times;
	bool fits;
	double arax[RUNS_MAX], hand[RUNS_MAX];
	size_t runs;
	struct server_memory moved;
	float *arrays[OOC_ARRAYS];
};

struct client {
	struct server *server;
	struct arax *ax;
	struct arax_queue *queue;
};

static void must(int err, const char *what)
{
	if (err < 0)
		bench_fail("%s: %s", what, arax_strerror(err));
}

static void check(const struct ooc_program *p, const float *result, const char *who)
{
	int64_t at = ooc_check(p, result);

	if (at >= 0)
		bench_fail("%s, %s: the result is wrong at %lld: %g", p->name, who, (long long)at,
			   (double)result[at]);
}

/* ------------------------------------------------------------------ */
/* Through araxd                                                         */

static void submit(struct client *c, const struct ooc_program *p, struct arax_buffer **buffers)
{
	const struct arax_grid grid = { { OOC_GROUPS, 1, 1 }, { OOC_GROUP_ITEMS, 1, 1 } };
	struct arax_range ranges[OOC_PIECES];
	struct arax_kernel kernel;
	uint32_t i, k;

	must(arax_kernel_find(c->ax, p->kernel, arax_deadline(FIND_NS), &kernel), p->kernel);
	for (i = 0; i < p->nr_steps; i++) {
		for (k = 0; k < p->nr_pieces; k++) {
			const struct ooc_piece *piece = &p->steps[i].pieces[k];

			ranges[k] = arax_part(buffers[piece->array], piece->access, piece->offset,
					      piece->bytes);
		}
		must(arax_launch(c->queue, &kernel, grid, p->args, p->arg_len, ranges, p->nr_pieces,
				 NULL), p->kernel);
	}
}

/* From the first launch to the result's last byte on the host. */
static double run_arax(struct client *c, struct cell *cell)
{
	const struct ooc_program *p = &cell->p;
	struct arax_buffer *buffers[OOC_ARRAYS];
	struct server_memory before, after;
	float *data[OOC_ARRAYS];
	struct arax_range all;
	uint64_t t0;
	uint32_t k;

	for (k = 0; k < p->nr_arrays; k++) {
		must(arax_buffer_create(c->ax, p->arrays[k], ARAX_BUFFER_EXPLICIT, &buffers[k]),
		     "a buffer");
		data[k] = arax_buffer_data(buffers[k]);
		must(arax_access_begin(c->queue, arax_out(buffers[k]), ARAX_DEADLINE_NONE), "access");
	}
	ooc_fill(p, data);
	for (k = 0; k < p->nr_arrays; k++)
		must(arax_access_end(c->queue, arax_out(buffers[k])), "access");
	all = arax_in(buffers[p->result]);
	server_memory(c->server, &before);
	t0 = ticks();
	submit(c, p, buffers);
	must(arax_access_begin(c->queue, all, ARAX_DEADLINE_NONE), "the result");
	t0 = ticks() - t0;
	must(arax_queue_finish(c->queue, ARAX_DEADLINE_NONE), p->name);
	server_memory(c->server, &after);
	check(p, data[p->result], "Arax");
	must(arax_access_end(c->queue, all), "access");
	for (k = 0; k < p->nr_arrays; k++)
		arax_buffer_destroy(buffers[k]);
	cell->moved = (struct server_memory){ after.copied_in - before.copied_in,
					      after.copied_out - before.copied_out,
					      after.evictions - before.evictions,
					      after.waits - before.waits };
	return ticks_to_ns(t0);
}

static double run_hand(struct ooc_machine *m, struct cell *cell)
{
	double ns;

	ooc_fill(&cell->p, cell->arrays);
	ns = ooc_by_hand(m, &cell->p, cell->arrays, cell->fits);
	check(&cell->p, cell->arrays[cell->p.result], "by hand");
	return ns;
}

/* ------------------------------------------------------------------ */

static void cell_open(struct cell *c, int which, uint64_t memory, double times)
{
	uint32_t k;

	memset(c, 0, sizeof(*c));
	ooc_make(&c->p, which, memory, times);
	c->times = times;
	c->fits = c->p.data <= memory;
	for (k = 0; k < c->p.nr_arrays; k++) {
		c->arrays[k] = malloc(c->p.arrays[k]);
		if (!c->arrays[k])
			bench_fail("no memory");
	}
}

static void cell_close(struct cell *c)
{
	uint32_t k;

	for (k = 0; k < c->p.nr_arrays; k++)
		free(c->arrays[k]);
	ooc_free(&c->p);
}

/* us for a MiB that steps touch. */
static double pace(const struct cell *c, double ns)
{
	return ns / 1000 / ((double)c->p.work / MIB);
}

static double middle(const double *ns, size_t n)
{
	return median(ns, n);
}

static double longest(const double *ns, size_t n)
{
	double most = 0;
	size_t i;

	for (i = 0; i < n; i++)
		most = ns[i] > most ? ns[i] : most;
	return most;
}

/**
 * struct totals - of what is more than a device holds
 * @value, @floor: logarithms, added up
 */
struct totals {
	double value, floor;
	int n;
};

static void report(json_t *parts, json_t *rows, struct totals *t, const struct cell *c,
		   const struct cell *fitting, const char *device)
{
	double arax = middle(c->arax, c->runs), hand = middle(c->hand, c->runs), over, over_hand;
	double in = (double)c->moved.copied_in, out = (double)c->moved.copied_out;
	double least = (double)(c->p.in.any_order + c->p.out.any_order);
	double order = (double)(c->p.in.this_order + c->p.out.this_order);
	char name[64], peer[80];
	struct part p = { .name = name, .unit = "us/MiB", .rounds = json_array() };
	size_t i;

	snprintf(name, sizeof(name), "%s, %s, %gx", c->p.name, device, c->times);
	snprintf(peer, sizeof(peer), "%s by hand", name);
	p.value = pace(c, arax);
	p.p99 = pace(c, longest(c->arax, c->runs));
	p.floor = pace(fitting, middle(fitting->arax, fitting->runs));
	over = p.value / p.floor;
	over_hand = pace(c, hand) / pace(fitting, middle(fitting->hand, fitting->runs));
	for (i = 0; i < c->runs; i++)
		json_array_append_new(p.rounds, json_real(pace(c, c->arax[i])));
	if (c->times > 1) {
		t->value += log(p.value);
		t->floor += log(p.floor);
		t->n++;
	}
	result_part(parts, &p);
	result_peer(parts, peer, pace(c, hand));
	json_array_append_new(rows, json_pack(
		"{s:s,s:s,s:f,s:f,s:i,s:f,s:f,s:f,s:f,s:f}", "program", c->p.name, "device", device,
		"times", c->times, "data_mib", (double)c->p.data / MIB, "tasks", (int)c->p.nr_steps,
		"arax_ms", arax / 1e6, "hand_ms", hand / 1e6, "over_fitting", over,
		"hand_over_fitting", over_hand, "over_hand", arax / hand));
	json_object_update_new(json_array_get(rows, json_array_size(rows) - 1), json_pack(
		"{s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:b}", "in_mib", in / MIB, "out_mib", out / MIB,
		"least_mib", least / MIB, "least_this_order_mib", order / MIB, "over_least",
		(in + out) / least, "over_least_this_order", (in + out) / order, "evictions",
		(json_int_t)c->moved.evictions, "waits", (json_int_t)c->moved.waits, "checked", 1));
}

/* All sizes by turns, so that one is as disturbed as another. */
static void measure(struct client *client, struct ooc_machine *m, struct cell *cells,
		    const struct options *o, double seconds)
{
	uint64_t end = ticks() + ns_to_ticks(seconds * 1e9);
	size_t r;
	int i;

	for (r = 0; r < (size_t)o->rounds && (!r || ticks() < end); r++) {
		for (i = 0; i < SIZES; i++) {
			cells[i].arax[r] = run_arax(client, &cells[i]);
			cells[i].hand[r] = run_hand(m, &cells[i]);
			cells[i].runs = r + 1;
		}
	}
}

static void one_device(json_t *parts, json_t *rows, struct totals *t, struct ooc_machine *m,
		       int which, const struct options *o)
{
	uint64_t memory = memories[o->seconds >= WHOLE_SECONDS][which];
	struct arax_options ao = { .size = sizeof(ao) };
	static struct cell cells[SIZES];
	struct server server;
	struct client c = { .server = &server };
	char config[160];
	int i;

	if (m->cpu >= 0)
		snprintf(config, sizeof(config), "cpu { groups = { \"%d\" } memory = \"%llu\" }", m->cpu,
			 (unsigned long long)memory);
	else
		snprintf(config, sizeof(config), "backend \"opencl\" { options = { \"zero-copy=no\", "
			 "\"memory=%llu\" } }", (unsigned long long)memory);
	server_start_config(&server, m->name, config);
	ao.link = server.link;
	must(arax_open(&c.ax, &ao), "opening a context");
	must(arax_queue_create(c.ax, ARAX_QUEUE_DATAFLOW, 0, &c.queue), "a queue");
	for (i = 0; i < SIZES; i++)
		cell_open(&cells[i], which, memory, sizes[i]);
	/* Kernels are compiled when they are first run. */
	run_arax(&c, &cells[0]);
	run_hand(m, &cells[0]);
	measure(&c, m, cells, o, o->seconds / (2 * OOC_PROGRAMS));
	for (i = 0; i < SIZES; i++)
		report(parts, rows, t, &cells[i], &cells[0], m->name);
	for (i = 0; i < SIZES; i++)
		cell_close(&cells[i]);
	arax_close(c.ax);
	server_stop(&server);
}

json_t *bench_outofcore(const struct options *o)
{
	json_t *result = result_new("outofcore", o->link), *parts = result_new("outofcore", o->link);
	struct part all = { .name = "2x and 4x, over all that fits", .unit = "us/MiB" };
	struct ooc_machine *machines[2];
	json_t *rows = json_array(), *part;
	struct totals t = { 0 };
	char why[256] = "";
	size_t k;
	int i;

	if (!strcmp(o->link, "kernel")) {
		result_note(result, "skipped", "it starts its own araxds, with little memory: broker link");
		return result;
	}
	machines[0] = ooc_cpu_open(place_cpu[1]);
	machines[1] = ooc_cl_open(why, sizeof(why));
	for (k = 0; k < 2 && machines[k]; k++) {
		for (i = 0; i < OOC_PROGRAMS; i++)
			one_device(parts, rows, &t, machines[k], i, o);
		machines[k]->close(machines[k]);
	}
	all.value = exp(t.value / t.n);
	all.floor = exp(t.floor / t.n);
	result_part(result, &all);
	json_array_foreach(json_object_get(parts, "parts"), k, part)
		json_array_append(json_object_get(result, "parts"), part);
	json_object_set(result, "peers", json_object_get(parts, "peers"));
	json_decref(parts);
	json_object_set_new(result, "rows", rows);
	if (why[0])
		result_note(result, "note_opencl", why);
	result_note(result, "note_value",
		    "time for a MiB that tasks touch, from the first launch to the result at the host, "
		    "and in place of p99 the longest; the floor is the same where all fits; by hand: "
		    "two sets of chunks and a second thread that copies, or all of it where it fits");
	result_note(result, "note_placement",
		    "cpu: one core, of the device and of both threads by hand; opencl: all CPUs");
	return result;
}
