// SPDX-License-Identifier: MIT
/*
 * Arax as the programs' machine: each launch is a task of one dataflow queue, whose order
 * follows from the ranges.
 */
#include "examples/rodinia/arax.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIND_NS	10000000000u	/* kernels for OpenCL may have to be compiled */
#define CHUNK	256
#define DEPTH	4096	/* tasks on their way: as many as a user may have */

/* Events stay where they are while tasks are on their way: so there are chunks. */
struct ro_events {
	struct ro_events *next;
	struct arax_event event[CHUNK];
	enum ro_kernel kernel[CHUNK];
};

static struct ro_arax *of(struct ro_machine *m)
{
	return (struct ro_arax *)((char *)m - offsetof(struct ro_arax, m));
}

static int create(struct ro_machine *m, struct ro_buffer *b)
{
	struct arax_buffer *own;
	int err = arax_buffer_create(of(m)->ax, b->bytes, 0, &own);

	if (err) {
		snprintf(m->why, sizeof(m->why), "a buffer of %llu bytes: %s",
			 (unsigned long long)b->bytes, arax_error_text());
		return err;
	}
	b->own = own;
	b->data = arax_buffer_data(own);
	return 0;
}

static void destroy(struct ro_machine *m, struct ro_buffer *b)
{
	arax_buffer_destroy(b->own);
}

static int find(struct ro_arax *a, enum ro_kernel k)
{
	const char *name = ro_kernel_names[k];
	int err;

	if (a->kernels[k].name[0])
		return 0;
	err = arax_kernel_find(a->ax, name, arax_deadline(FIND_NS), &a->kernels[k]);
	if (err) {
		a->kernels[k].name[0] = '\0';
		snprintf(a->m.why, sizeof(a->m.why),
			 "kernel %s: %s; start araxd with --kernels PREFIX/lib/arax/rodinia-kernels",
			 name, arax_error_text());
	}
	return err;
}

/* The next event; they are used again after each wait. */
static struct arax_event *next_event(struct ro_arax *a, enum ro_kernel k)
{
	struct ro_events **e = &a->events;
	uint64_t i;

	for (i = a->nr_events / CHUNK; i; i--)
		e = &(*e)->next;
	if (!*e)
		*e = calloc(1, sizeof(**e));
	if (!*e)
		return NULL;
	i = a->nr_events++ % CHUNK;
	(*e)->kernel[i] = k;
	return &(*e)->event[i];
}

static int launch(struct ro_machine *m, enum ro_kernel k, const struct arax_grid *grid,
		  const void *args, size_t arg_len, const struct ro_range *ranges,
		  uint32_t nr_ranges)
{
	struct arax_range r[RO_MAX_RANGES];
	struct arax_event *event = NULL;
	struct ro_arax *a = of(m);
	int err = find(a, k);
	uint32_t i;

	if (err)
		return err;
	for (i = 0; i < nr_ranges && i < RO_MAX_RANGES; i++)
		r[i] = arax_part(ranges[i].buffer->own, ranges[i].access, ranges[i].offset,
				 ranges[i].length);
	if (a->report) {
		event = next_event(a, k);
		if (!event) {
			snprintf(m->why, sizeof(m->why), "no memory for events");
			return -ENOMEM;
		}
	}
	err = arax_launch(a->queue, &a->kernels[k], *grid, args, arg_len, r, i, event);
	if (err) {
		a->nr_events -= !!event;
		snprintf(m->why, sizeof(m->why), "%s: %s", ro_kernel_names[k], arax_error_text());
	}
	return err;
}

static void count(struct ro_arax *a, const struct arax_event *e)
{
	struct ro_use *u = e->device < RO_DEVICES ? &a->use[e->device] : NULL;

	if (!u)
		return;
	u->tasks++;
	u->device_ns += e->device_ns;
	u->bytes += e->bytes;
}

static int wait_events(struct ro_arax *a)
{
	struct ro_events *e = a->events;
	int first = 0, err;
	uint64_t i;

	for (i = 0; i < a->nr_events; i++) {
		if (i && !(i % CHUNK))
			e = e->next;
		err = arax_wait(&e->event[i % CHUNK], ARAX_DEADLINE_NONE);
		count(a, &e->event[i % CHUNK]);
		if (err && !first) {
			first = err;
			snprintf(a->m.why, sizeof(a->m.why), "task %llu, %s: %s",
				 (unsigned long long)i, ro_kernel_names[e->kernel[i % CHUNK]],
				 arax_strerror(err));
		}
	}
	a->nr_events = 0;
	return first;
}

/*
 * For the end of all at once: whoever waits for tasks is woken by each of them, and looks
 * for the next awake, on a CPU that the device may want.  What failed is told by what
 * follows this.
 */
static void sleep_till_end(struct ro_arax *a)
{
	struct arax_point end = { a->timeline, ++a->ends };
	struct arax_desc marker = {
		.opcode = ARAX_OP_MARKER, .flags = ARAX_TASK_BARRIER,
		.signal = a->timeline, .signal_value = end.value,
	};

	if (arax_submit(a->queue, &marker, 1, 0) == 1)
		arax_timeline_wait_all(&end, 1, ARAX_DEADLINE_NONE);
}

static int wait_all(struct ro_machine *m)
{
	struct ro_arax *a = of(m);
	int err;

	sleep_till_end(a);
	if (a->report)
		return wait_events(a);
	err = arax_queue_finish(a->queue, ARAX_DEADLINE_NONE);
	if (err && !m->error)
		snprintf(m->why, sizeof(m->why), "a task: %s", arax_strerror(err));
	return err;
}

static const struct ro_machine_ops ops = {
	.create = create, .destroy = destroy, .launch = launch, .wait = wait_all,
};

int ro_arax_open(struct ro_arax *a, const char *link, bool report)
{
	struct arax_options o = { .size = sizeof(o), .link = link, .depth = DEPTH,
				 .entry_size = 256, .arena_size = 1u << 20 };
	int err;

	memset(a, 0, sizeof(*a));
	a->m.ops = &ops;
	a->report = report;
	err = arax_open(&a->ax, &o);
	if (!err)
		err = arax_queue_create(a->ax, ARAX_QUEUE_DATAFLOW, 0, &a->queue);
	if (!err)
		err = arax_timeline_create(a->ax, 0, &a->timeline);
	if (err)
		ro_fail(&a->m, err, "%s", arax_error_text());
	if (err && a->ax)
		arax_close(a->ax);
	return err;
}

void ro_arax_close(struct ro_arax *a)
{
	struct ro_events *next;

	arax_close(a->ax);
	for (; a->events; a->events = next) {
		next = a->events->next;
		free(a->events);
	}
}
