// SPDX-License-Identifier: MIT
/* contexts.c - a recorded run's contexts become applications */
#include "daemon/sim/contexts.h"

#include <errno.h>
#include <stdlib.h>

/* Of each of the trace's buffers: its index in the application that is made, or SIM_ANY. */
struct renumber {
	uint32_t *to;
};

static void copy_task(struct sim_app *a, const struct sim_app *all, uint32_t i, struct renumber *n)
{
	const struct sim_task *from = &all->tasks[i];
	struct sim_task *t = app_task(a, from->kernel, from->work);
	struct sim_how *how;

	t->after_ns = from->after_ns;
	t->priority = from->priority;
	t->sync = from->sync;
	how = app_how(a);
	*how = all->hows[i];
	for (uint32_t k = 0; k < from->nr_ranges; k++) {
		const struct sim_range *r = &all->ranges[from->first_range + k];

		if (n->to[r->buffer] == SIM_ANY)
			n->to[r->buffer] = app_buffer(a, all->buffers[r->buffer]);
		app_range(a, n->to[r->buffer], r->offset, r->length, r->access);
	}
}

/* The tasks of @context; they are in the order of the lines. */
static bool fill(struct sim_app *a, const struct sim_app *all, const uint32_t *tasks, uint32_t nr,
		 struct renumber *n)
{
	for (uint32_t i = 0; i < nr; i++)
		copy_task(a, all, tasks[i], n);
	/* Not of all that there are: of many contexts each has a few. */
	for (uint32_t i = 0; i < nr; i++) {
		const struct sim_task *t = &all->tasks[tasks[i]];

		for (uint32_t k = 0; k < t->nr_ranges; k++)
			n->to[all->ranges[t->first_range + k].buffer] = SIM_ANY;
	}
	return !a->failed && app_trim(a);
}

static struct sim_app like(const struct sim_app *all)
{
	return (struct sim_app){
		.arrive_ns = all->arrive_ns, .window = all->window, .pin = all->pin,
		.plain = all->plain, .priority = all->priority, .target_ns = all->target_ns,
	};
}

/* The tasks by context, in their order; @first: where each context's begin, and where all end. */
static void sort(const struct sim_app *all, uint32_t *tasks, uint32_t *first)
{
	for (uint32_t i = 0; i < all->nr_tasks; i++)
		first[all->hows[i].context + 1]++;
	for (uint32_t c = 0; c < all->nr_contexts; c++)
		first[c + 1] += first[c];
	for (uint32_t i = 0; i < all->nr_tasks; i++)
		tasks[first[all->hows[i].context]++] = i;
	for (uint32_t c = all->nr_contexts; c; c--)
		first[c] = first[c - 1];
	first[0] = 0;
}

static bool split(struct workload *w, struct sim_app *all)
{
	uint32_t *tasks = malloc(all->nr_tasks * sizeof(*tasks));
	uint32_t *first = calloc(all->nr_contexts + 1ul, sizeof(*first));
	struct renumber n = { malloc((all->nr_buffers + 1ul) * sizeof(*n.to)) };
	bool ok = tasks && first && n.to;

	for (uint32_t i = 0; ok && i < all->nr_buffers; i++)
		n.to[i] = SIM_ANY;
	if (ok)
		sort(all, tasks, first);
	for (uint32_t c = 0; ok && c < all->nr_contexts; c++) {
		struct sim_app *a = c ? workload_app(w) : &w->apps[w->nr - 1];

		ok = a;
		if (!ok)
			break;
		*a = like(all);
		ok = fill(a, all, &tasks[first[c]], first[c + 1] - first[c], &n);
		a->tenant = ok ? a->hows[0].tenant : 0;
	}
	free(tasks);
	free(first);
	free(n.to);
	return ok;
}

/* In the order of submission: what came earlier by its clock came with it. */
static void put_in_order(struct sim_app *a)
{
	for (uint32_t i = 1; i < a->nr_tasks; i++)
		if (a->tasks[i].after_ns < a->tasks[i - 1].after_ns)
			a->tasks[i].after_ns = a->tasks[i - 1].after_ns;
}

/*
 * A program arrives with its first task, not when those of others do.  The trace begins at @least:
 * whoever recorded it may have done so long after the clock's zero.
 */
static void arrive(struct sim_app *a, uint64_t least)
{
	uint64_t first = a->nr_tasks ? a->tasks[0].after_ns : 0;

	a->arrive_ns += a->nr_tasks ? first - least : 0;
	for (uint32_t i = 0; i < a->nr_tasks; i++)
		a->tasks[i].after_ns -= first;
	for (uint32_t i = 0; i < a->nr_hows; i++) {
		struct sim_how *h = &a->hows[i];

		h->unblock_ns = h->unblock_ns > first ? h->unblock_ns - first : 0;
		/* 0 would be none. */
		if (h->end_ns)
			h->end_ns = h->end_ns > first ? h->end_ns - first : 1;
	}
}

/* What doesn't say whose it is is of a context, and a tenant, of its own. */
static void name_rest(struct sim_app *a)
{
	uint32_t contexts = a->nr_contexts, tenants = a->nr_tenants;

	for (uint32_t i = 0; i < a->nr_hows; i++) {
		struct sim_how *h = &a->hows[i];

		if (h->context == SIM_ANY) {
			h->context = contexts;
			a->nr_contexts = contexts + 1;
		}
		if (h->tenant == SIM_ANY) {
			h->tenant = tenants;
			a->nr_tenants = tenants + 1;
		}
	}
}

bool contexts_split(struct workload *w)
{
	uint32_t i = w->nr - 1;
	uint64_t least = UINT64_MAX;
	struct sim_app all;
	bool ok = true;

	name_rest(&w->apps[i]);
	all = w->apps[i];
	w->apps[i].tenant = all.hows && all.nr_tasks ? all.hows[0].tenant : 0;
	if (all.nr_contexts > 1) {
		w->apps[i] = like(&all);
		ok = split(w, &all);
		app_fini(&all);
	}
	for (uint32_t k = i; k < w->nr; k++) {
		put_in_order(&w->apps[k]);
		if (w->apps[k].nr_tasks && w->apps[k].tasks[0].after_ns < least)
			least = w->apps[k].tasks[0].after_ns;
	}
	for (; i < w->nr; i++)
		arrive(&w->apps[i], least);
	return ok;
}

#define LOOK	16u

struct end {
	uint64_t ns;
	uint32_t task;
};

static int by_end(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	return x->ns == y->ns ? (x->task > y->task) - (x->task < y->task) :
				(x->ns > y->ns) - (x->ns < y->ns);
}

int contexts_close(struct sim_app *a)
{
	struct end *ends = malloc((a->nr_tasks + 1ul) * sizeof(*ends));
	uint32_t ended = 0;

	if (!ends)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->nr_tasks; i++) {
		if (!a->hows || !a->hows[i].end_ns) {
			free(ends);
			return -EINVAL;
		}
		ends[i] = (struct end){ a->hows[i].end_ns, i };
	}
	qsort(ends, a->nr_tasks, sizeof(*ends), by_end);
	for (uint32_t i = 0; i < a->nr_tasks; i++) {
		struct sim_how *h = &a->hows[i];

		while (ended < a->nr_tasks && ends[ended].ns <= a->tasks[i].after_ns)
			ended++;
		/* By a clock that was off one behind it may seem to have ended. */
		for (uint32_t k = ended; k && k + LOOK > ended && h->behind == SIM_ANY; k--)
			if (ends[k - 1].task < i) {
				h->behind = ends[k - 1].task;
				h->think_ns = a->tasks[i].after_ns - ends[k - 1].ns;
			}
	}
	a->closed = true;
	free(ends);
	return 0;
}
