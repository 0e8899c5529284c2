// SPDX-License-Identifier: MIT
/*
 * least.c - what no schedule of a program on one device with a link beats
 *
 * A task can't begin before all bytes have come that it, or what it depends on, reads first;
 * nor before the tasks that it depends on can have ended, each from its own earliest begin.
 * And whatever can't begin before some instant takes its time of the device after it.
 * Of the host's bytes some come last: then whatever reads these, and what depends on that,
 * is still to be done.
 */
#include "least.h"

#include <string.h>

#include "bench.h"
#include "daemon/sim/scenario.h"

/**
 * struct origin - bytes of a buffer that only the host has, until a task reads them
 * @writer:	task on the host that wrote them last, or ~0: the program began with them
 * @bytes:	that come at least, whoever reads them
 */
struct origin {
	uint32_t buffer, writer;
	double bytes;
};

/**
 * struct step - a task
 * @needs:	tasks that it depends on, at any distance (bits)
 * @brings:	origins that it and those read (bits)
 * @from_ns:	it begins no earlier
 * @work_ns:	of the whole device; @alone_ns: at the pace that it can use
 */
struct step {
	uint64_t needs, brings;
	double from_ns, work_ns, alone_ns;
};

struct steps {
	struct step v[LEAST_MAX_TASKS];
	struct origin origins[64];
	uint32_t nr_origins;
};

static bool overlap(const struct sim_range *a, const struct sim_range *b)
{
	return a->buffer == b->buffer && a->offset < b->offset + b->length &&
	       b->offset < a->offset + a->length;
}

static const struct sim_range *ranges_of(const struct sim_app *a, uint32_t task)
{
	return &a->ranges[a->tasks[task].first_range];
}

static uint64_t depends_on(const struct sim_app *a, uint32_t task, const struct step *steps)
{
	uint64_t needs = 0;

	for (uint32_t before = 0; before < task; before++) {
		for (uint32_t i = 0; i < a->tasks[task].nr_ranges; i++) {
			for (uint32_t k = 0; k < a->tasks[before].nr_ranges; k++) {
				const struct sim_range *r = ranges_of(a, task) + i;
				const struct sim_range *w = ranges_of(a, before) + k;

				if ((r->access | w->access) & ARAX_OUT && overlap(r, w))
					needs |= 1ull << before | steps[before].needs;
			}
		}
	}
	return needs;
}

/* Whether @r has its bytes from the host; @writer: by which of its tasks. */
static bool is_of_host(const struct sim_app *a, uint32_t task, const struct sim_range *r,
		       uint32_t *writer)
{
	for (uint32_t before = task; before-- > 0;) {
		for (uint32_t k = 0; k < a->tasks[before].nr_ranges; k++) {
			const struct sim_range *o = ranges_of(a, before) + k;

			if (!(o->access & ARAX_OUT) || !overlap(r, o))
				continue;
			*writer = before;
			return a->tasks[before].kernel == SIM_HOST;
		}
	}
	*writer = ~0u;
	return true;
}

/* Readers may want different parts of it: the smallest is what any of them has to wait for. */
static uint64_t origin_bit(struct steps *s, const struct sim_range *r, uint32_t writer)
{
	uint32_t i = 0;

	while (i < s->nr_origins && (s->origins[i].buffer != r->buffer ||
				     s->origins[i].writer != writer))
		i++;
	if (i == sizeof(s->origins) / sizeof(s->origins[0]))
		return 0;	/* as if it took no time: still a bound */
	if (i == s->nr_origins)
		s->origins[s->nr_origins++] = (struct origin){
			.buffer = r->buffer, .writer = writer, .bytes = (double)r->length,
		};
	else if (s->origins[i].bytes > (double)r->length)
		s->origins[i].bytes = (double)r->length;
	return 1ull << i;
}

static double bytes_of(const struct steps *s, uint64_t origins)
{
	double bytes = 0;

	for (; origins; origins &= origins - 1)
		bytes += s->origins[__builtin_ctzll(origins)].bytes;
	return bytes;
}

static void study_reads(struct steps *s, const struct sim_app *a, uint32_t t)
{
	uint32_t writer;

	for (uint32_t i = 0; i < a->tasks[t].nr_ranges; i++) {
		const struct sim_range *r = ranges_of(a, t) + i;

		if (r->access & ARAX_IN && is_of_host(a, t, r, &writer))
			s->v[t].brings |= origin_bit(s, r, writer);
	}
}

static void study(struct steps *s, const struct scenario *sc, const struct sim_app *a)
{
	for (uint32_t t = 0; t < a->nr_tasks; t++) {
		const struct sim_task *task = &a->tasks[t];
		struct step *step = &s->v[t];

		step->needs = depends_on(a, t, s->v);
		if (task->kernel != SIM_HOST) {
			step->alone_ns = scenario_cost_ns(sc, task->kernel, 0, task->work);
			step->work_ns = step->alone_ns * sc->kernels[task->kernel].cost[0].demand;
			study_reads(s, a, t);
		}
		for (uint64_t n = step->needs; n; n &= n - 1)
			step->brings |= s->v[__builtin_ctzll(n)].brings;
	}
}

/* All origins are as small as they get by now. */
static void place(struct steps *s, const struct scenario *sc, const struct sim_app *a)
{
	for (uint32_t t = 0; t < a->nr_tasks; t++) {
		struct step *step = &s->v[t];

		step->from_ns = sc->links[0].ns_per_byte * bytes_of(s, step->brings);
		for (uint64_t n = step->needs; n; n &= n - 1) {
			const struct step *p = &s->v[__builtin_ctzll(n)];

			if (step->from_ns < p->from_ns + p->alone_ns)
				step->from_ns = p->from_ns + p->alone_ns;
		}
	}
}

/* All that begins no earlier than @t is on the device after that. */
static double after(const struct steps *s, uint32_t nr, uint32_t t)
{
	double end = s->v[t].from_ns;

	for (uint32_t i = 0; i < nr; i++)
		if (s->v[i].from_ns >= s->v[t].from_ns)
			end += s->v[i].work_ns;
	return end;
}

/* What is left to do when origin @o has come: all of it, and its longest chain. */
static double last(const struct steps *s, uint32_t nr, uint32_t o)
{
	double area = 0, chain[LEAST_MAX_TASKS], longest = 0;

	for (uint32_t t = 0; t < nr; t++) {
		chain[t] = 0;
		if (!(s->v[t].brings >> o & 1))
			continue;
		for (uint64_t n = s->v[t].needs; n; n &= n - 1)
			if (chain[t] < chain[__builtin_ctzll(n)])
				chain[t] = chain[__builtin_ctzll(n)];
		chain[t] += s->v[t].alone_ns;
		area += s->v[t].work_ns;
		longest = longest < chain[t] ? chain[t] : longest;
	}
	return longest < area ? area : longest;
}

static double link_and_last(const struct steps *s, uint32_t nr, double ns_per_byte)
{
	double rest = 0;

	for (uint32_t o = 0; o < s->nr_origins; o++) {
		double left = last(s, nr, o);

		rest = !o || left < rest ? left : rest;
	}
	return ns_per_byte * bytes_of(s, s->nr_origins < 64 ? (1ull << s->nr_origins) - 1 : ~0ull) +
	       rest;
}

double least_ms(const char *text)
{
	const struct sim_app *a;
	struct steps s = { .nr_origins = 0 };
	double least, end;
	struct scenario sc;
	char error[512];

	if (scenario_load(&sc, "scenario", text, strlen(text), NULL, error, sizeof(error)))
		bench_fail("%s", error);
	a = &sc.work.apps[0];
	if (sc.work.nr != 1 || sc.nr_devices != 1 || sc.nr_links != 1 ||
	    a->nr_tasks > LEAST_MAX_TASKS)
		bench_fail("%s: the bound is for one program of at most %d tasks on one device",
			   sc.name, LEAST_MAX_TASKS);
	study(&s, &sc, a);
	place(&s, &sc, a);
	least = link_and_last(&s, a->nr_tasks, sc.links[0].ns_per_byte);
	for (uint32_t t = 0; t < a->nr_tasks; t++) {
		end = s.v[t].from_ns + s.v[t].alone_ns;
		least = least < end ? end : least;
		end = after(&s, a->nr_tasks, t);
		least = least < end ? end : least;
	}
	scenario_fini(&sc);
	return least / 1e6;
}
