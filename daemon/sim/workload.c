// SPDX-License-Identifier: MIT
/* workload.c - applications are built task by task */
#include "daemon/sim/workload.h"

#include <stdlib.h>
#include <string.h>

/* As many ranges as that many tasks may have. */
#define MAX_ELEMENTS	(SIM_MAX_TASKS * ARAX_MAX_RANGES)

/* Room for one more of @bytes each; the arrays grow by doubling. */
static bool grow(void **array, uint32_t used, uint32_t *size, size_t bytes)
{
	uint32_t bigger = *size ? *size * 2 : 16;
	void *p;

	if (used < *size)
		return true;
	p = bigger > MAX_ELEMENTS * 2u ? NULL : realloc(*array, bigger * bytes);
	if (!p)
		return false;
	*array = p;
	*size = bigger;
	return true;
}

uint32_t app_buffer(struct sim_app *a, uint64_t bytes)
{
	if (!grow((void **)&a->buffers, a->nr_buffers, &a->size_buffers, sizeof(*a->buffers))) {
		a->failed = true;
		return 0;
	}
	a->buffers[a->nr_buffers] = bytes;
	return a->nr_buffers++;
}

struct sim_task *app_task(struct sim_app *a, uint16_t kernel, uint64_t work)
{
	static struct sim_task nowhere;

	if (!grow((void **)&a->tasks, a->nr_tasks, &a->size_tasks, sizeof(*a->tasks))) {
		a->failed = true;
		return &nowhere;
	}
	a->tasks[a->nr_tasks] = (struct sim_task){
		.work = work ? work : 1, .first_range = a->nr_ranges, .kernel = kernel,
	};
	return &a->tasks[a->nr_tasks++];
}

bool app_complete(struct sim_app *a)
{
	while (a->nr_hows < a->nr_tasks) {
		if (!grow((void **)&a->hows, a->nr_hows, &a->size_hows, sizeof(*a->hows)))
			return false;
		a->hows[a->nr_hows++] = (struct sim_how){
			.context = SIM_ANY, .tenant = SIM_ANY, .behind = SIM_ANY,
		};
	}
	return true;
}

struct sim_how *app_how(struct sim_app *a)
{
	static struct sim_how nowhere;

	if (a->failed || !app_complete(a)) {
		a->failed = true;
		return &nowhere;
	}
	return &a->hows[a->nr_tasks - 1];
}

void app_range(struct sim_app *a, uint32_t buffer, uint64_t offset, uint64_t length,
	       uint32_t access)
{
	if (a->failed || !grow((void **)&a->ranges, a->nr_ranges, &a->size_ranges,
			       sizeof(*a->ranges))) {
		a->failed = true;
		return;
	}
	a->ranges[a->nr_ranges++] = (struct sim_range){
		.offset = offset, .length = length, .buffer = buffer, .access = access,
	};
	a->tasks[a->nr_tasks - 1].nr_ranges++;
}

void app_whole(struct sim_app *a, uint32_t buffer, uint32_t access)
{
	app_range(a, buffer, 0, a->failed ? 0 : a->buffers[buffer], access);
}

uint64_t app_due_ns(const struct sim_app *a, uint32_t next, const uint64_t *ends)
{
	const struct sim_how *how = ends ? &a->hows[next] : NULL;

	if (!how || how->behind == SIM_ANY)
		return a->arrive_ns + a->tasks[next].after_ns;
	return ends[how->behind] ? ends[how->behind] + how->think_ns : UINT64_MAX;
}

bool app_done(struct sim_app *a)
{
	/* Whoever walks a task's ranges may do so where there are none in all. */
	if (a->failed || (a->hows && !app_complete(a)) ||
	    (!a->ranges && !grow((void **)&a->ranges, 0, &a->size_ranges, sizeof(*a->ranges))))
		return false;
	for (uint32_t i = 0; i < a->nr_tasks; i++) {
		struct sim_task *t = &a->tasks[i];
		const struct sim_range *r = &a->ranges[t->first_range];

		for (uint32_t k = 0; k < t->nr_ranges; k++) {
			uint32_t before = 0;

			while (before < k && r[before].buffer != r[k].buffer)
				before++;
			if (before == k)
				t->footprint += a->buffers[r[k].buffer];
		}
	}
	return true;
}

static bool trim(void **array, uint32_t used, uint32_t *size, size_t bytes)
{
	uint32_t least = used ? used : 1;
	void *p = *size > least ? realloc(*array, least * bytes) : *array;

	if (*size > least && p) {
		*array = p;
		*size = least;
	}
	return p || !*size;
}

bool app_trim(struct sim_app *a)
{
	return trim((void **)&a->tasks, a->nr_tasks, &a->size_tasks, sizeof(*a->tasks)) &&
	       trim((void **)&a->ranges, a->nr_ranges, &a->size_ranges, sizeof(*a->ranges)) &&
	       trim((void **)&a->buffers, a->nr_buffers, &a->size_buffers, sizeof(*a->buffers)) &&
	       trim((void **)&a->hows, a->nr_hows, &a->size_hows, sizeof(*a->hows));
}

void app_fini(struct sim_app *a)
{
	free(a->tasks);
	free(a->ranges);
	free(a->buffers);
	free(a->hows);
	memset(a, 0, sizeof(*a));
}

struct sim_app *workload_app(struct workload *w)
{
	if (!grow((void **)&w->apps, w->nr, &w->size, sizeof(*w->apps)))
		return NULL;
	w->apps[w->nr] = (struct sim_app){ .window = 64, .pin = SIM_ANY };
	return &w->apps[w->nr++];
}

void workload_fini(struct workload *w)
{
	for (uint32_t i = 0; i < w->nr; i++)
		app_fini(&w->apps[i]);
	free(w->apps);
	memset(w, 0, sizeof(*w));
}
