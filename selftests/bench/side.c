// SPDX-License-Identifier: MIT
/* A client of one araxd, and what benches of one kind of device time through it. */
#include "side.h"

#include <stdio.h>

#include "result.h"

void must(int err, const char *what)
{
	if (err < 0)
		bench_fail("%s: %s", what, arax_strerror(err));
}

void side_open(struct side *s, uint64_t bytes, uint32_t flags)
{
	struct arax_options o = { .size = sizeof(o), .link = s->server.link };
	int i;

	s->bytes = bytes;
	must(arax_open(&s->ax, &o), "opening a context");
	must(arax_queue_create(s->ax, ARAX_QUEUE_DATAFLOW, 0, &s->queue), "a queue");
	must(arax_kernel_find(s->ax, "null", arax_deadline(SIDE_FIND_NS), &s->null), "null");
	for (i = 0; i <= SIDE_BATCH; i++)
		must(arax_buffer_create(s->ax, SIDE_NULL_BYTES, flags, &s->small[i]), "a buffer");
	for (i = 0; i < 2; i++)
		must(arax_buffer_create(s->ax, bytes, flags, &s->large[i]), "a buffer");
}

void side_close(struct side *s)
{
	arax_close(s->ax);
	server_stop(&s->server);
}

static void null_task(struct side *s, struct arax_range in, struct arax_range inout)
{
	struct arax_event event = ARAX_EVENT_INIT;
	struct arax_range ranges[2] = { in, inout };
	uint64_t args[2] = { 0 };
	int err = arax_launch(s->queue, &s->null, arax_grid(1, 1, 1), args, sizeof(args), ranges, 2,
			      &event);

	must(err ? err : arax_wait(&event, ARAX_DEADLINE_NONE), "a null task");
}

void side_null(struct side *s)
{
	null_task(s, arax_in(s->small[SIDE_BATCH]), arax_inout(s->small[0]));
}

void side_nulls(struct side *s)
{
	struct arax_range ranges[SIDE_BATCH][2];
	struct arax_desc desc[SIDE_BATCH] = { 0 };
	uint64_t args[2] = { 0 };
	int i;

	for (i = 0; i < SIDE_BATCH; i++) {
		ranges[i][0] = arax_in(s->small[SIDE_BATCH]);
		ranges[i][1] = arax_inout(s->small[i]);
		desc[i].opcode = ARAX_OP_LAUNCH;
		desc[i].kernel = &s->null;
		desc[i].grid = arax_grid(1, 1, 1);
		desc[i].args = args;
		desc[i].arg_len = sizeof(args);
		desc[i].ranges = ranges[i];
		desc[i].nr_ranges = 2;
	}
	if (arax_submit(s->queue, desc, SIDE_BATCH, 0) != SIDE_BATCH)
		bench_fail("submitting: %s", arax_error_text());
	must(arax_queue_finish(s->queue, ARAX_DEADLINE_NONE), "null tasks");
}

/* ------------------------------------------------------------------ */
/* Copies                                                                */

static void touch(struct side *s, struct arax_range range)
{
	must(arax_access_begin(s->queue, range, ARAX_DEADLINE_NONE), "access");
	must(arax_access_end(s->queue, range), "access");
}

/* No copy on the device counts from now on. */
void side_dirty_host(struct side *s)
{
	touch(s, arax_out(s->large[0]));
}

void side_copy_in(struct side *s)
{
	null_task(s, arax_in(s->large[0]), arax_inout(s->small[0]));
}

void side_dirty_device(struct side *s)
{
	null_task(s, arax_in(s->small[0]), arax_inout(s->large[1]));
}

void side_copy_out(struct side *s)
{
	touch(s, arax_in(s->large[1]));
}

static void check_copy(struct side *s, int in)
{
	struct server_memory before, after;
	uint64_t moved;

	if (in)
		side_dirty_host(s);
	else
		side_dirty_device(s);
	server_memory(&s->server, &before);
	if (in)
		side_copy_in(s);
	else
		side_copy_out(s);
	server_memory(&s->server, &after);
	moved = in ? after.copied_in - before.copied_in : after.copied_out - before.copied_out;
	if (moved < s->bytes || moved > s->bytes + 2 * SIDE_NULL_BYTES)
		bench_fail("%llu bytes were copied %s, not %llu", (unsigned long long)moved,
			   in ? "in" : "out", (unsigned long long)s->bytes);
}

void side_check_copies(struct side *s)
{
	check_copy(s, 1);
	check_copy(s, 0);
}

/* ------------------------------------------------------------------ */
/* Figures                                                               */

static double rate(double bytes, double ns)
{
	return ns > 0 ? bytes / ns : 0;
}

static void report(json_t *result, const struct figure *f, const struct measure *arax,
		   const struct measure *native, int judged)
{
	struct part p = { .name = f->name, .unit = "ns", .bar = f->bar };

	p.of = judged && p.bar ? BAR_RATIO : BAR_NONE;
	part_measured(&p, arax, native);
	result_peer(result, native->name, f->bytes ? rate(f->bytes, measure_p99(native)) :
						     measure_p99(native));
	if (!f->bytes) {
		result_part(result, &p);
		return;
	}
	part_rate(&p, arax, f->bytes);
	/* The bar of a kernel is of its time: the larger rate is the smaller time. */
	if (p.bar > 1)
		p.bar = 1 / p.bar;
	result_part(result, &p);
}

void figure_measure(json_t *result, const struct figure *f, void *arg, const char *api,
		    double seconds, int rounds, int judged)
{
	struct measure arax = { .name = f->name, .round = f->arax, .arg = arg, .scale = f->scale };
	struct measure native = { .round = f->native, .arg = arg, .scale = f->scale };
	struct measure *all[2] = { &arax, &native };
	char name[64];

	snprintf(name, sizeof(name), "%s's p99, %s", api, f->name);
	native.name = name;
	interleave(all, 2, (size_t)rounds, seconds);
	report(result, f, &arax, &native, judged);
}
