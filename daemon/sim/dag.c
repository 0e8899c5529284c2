// SPDX-License-Identifier: MIT
/* dag.c - who waits for whom, and how long the way to the end is */
#include "daemon/sim/dag.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/graph/graph.h"
#include "daemon/sim/rng.h"

double fastest_ns(const struct scenario *sc, const struct sim_task *t, uint32_t app,
		  uint64_t index)
{
	double best = 0, ns;

	if (t->kernel == SIM_HOST)
		return (double)t->work;
	for (uint32_t k = 0; k < sc->nr_kinds; k++) {
		ns = scenario_cost_ns(sc, t->kernel, k, t->work);
		if (ns > 0 && (best <= 0 || ns < best))
			best = ns;
	}
	if (sc->jitter > 0)
		best *= 1 + sc->jitter * (2 * rng_unit(rng_hash(sc->seed + 1, app, index)) - 1);
	return best;
}

void dag_dispatch(struct dispatch_room *room, const struct sim_app *a, uint32_t app,
		  uint32_t index, uint64_t generation, uint32_t slot)
{
	const struct sim_task *t = &a->tasks[index];

	room->d = (struct arax_dispatch){
		.type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH,
		.cells = (uint16_t)(2 + (t->nr_ranges * sizeof(room->r[0]) + ARAX_CELL_SIZE - 1) /
				    ARAX_CELL_SIZE),
		.tag = 1ull << 48 | (generation & 0xffffff) << 24 | slot,
		.context = app + 1, .queue = 1, .queue_flags = ARAX_QUEUE_DATAFLOW,
		.nr_ranges = t->nr_ranges, .user_data = index,
	};
	if (a->hows && index < a->nr_hows) {
		room->d.queue = a->hows[index].queue + 1;
		room->d.queue_flags = a->hows[index].in_order ? 0 : ARAX_QUEUE_DATAFLOW;
		room->d.flags = a->hows[index].barrier ? ARAX_TASK_BARRIER : 0;
	}
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		const struct sim_range *r = &a->ranges[t->first_range + i];

		room->d.access |= (uint64_t)r->access << 2 * i;
		room->r[i] = (struct arax_dispatch_range){
			.buffer = (uint64_t)app << 32 | (r->buffer + 1),
			.offset = r->offset, .length = r->length, .count = 1,
		};
	}
}

/* Lines in the order in which they were drawn: none leads to a task before another's. */
struct lines {
	struct dag_line *line;
	size_t nr, size;
	bool failed;
};

static void draw(void *arg, struct graph_node *parent, struct graph_node *node)
{
	struct lines *l = arg;

	if (l->nr == l->size) {
		size_t size = l->size ? 2 * l->size : 256;
		void *more = realloc(l->line, size * sizeof(*l->line));

		if (!more) {
			l->failed = true;
			return;
		}
		l->line = more;
		l->size = size;
	}
	l->line[l->nr].from = (uint32_t)parent->d.user_data;
	l->line[l->nr++].to = (uint32_t)node->d.user_data;
}

/* Nothing ever runs in it: so all lines are drawn. */
static int draw_all(const struct sim_app *a, struct lines *l)
{
	struct graph *g = graph_create(&(struct graph_params){
		.slots = a->nr_tasks, .edge = draw, .edge_arg = l,
	});
	struct dispatch_room room;
	int err = g ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < a->nr_tasks; i++) {
		dag_dispatch(&room, a, 0, i, i, i);
		err = graph_add(g, &room.d);
		if (l->failed)
			err = -ENOMEM;
	}
	graph_destroy(g);
	return err;
}

int dag_lines(const struct sim_app *a, struct dag_line **line, size_t *nr)
{
	struct lines l = { 0 };
	int err = a->nr_tasks ? draw_all(a, &l) : 0;

	if (err) {
		free(l.line);
		return err;
	}
	*line = l.line;
	*nr = l.nr;
	return 0;
}

int dag_make(const struct scenario *sc, const struct sim_app *a, uint32_t app, struct dag *d)
{
	struct lines l = { 0 };
	int err = 0;

	*d = (struct dag){ .nr = a->nr_tasks, .first = SIM_ANY };
	d->ns = malloc((a->nr_tasks + 1ul) * sizeof(*d->ns));
	d->tail = calloc(a->nr_tasks + 1ul, sizeof(*d->tail));
	d->next = malloc((a->nr_tasks + 1ul) * sizeof(*d->next));
	if (!d->ns || !d->tail || !d->next)
		err = -ENOMEM;
	else if (a->nr_tasks)
		err = draw_all(a, &l);
	if (err) {
		dag_fini(d);
		free(l.line);
		return err;
	}
	for (uint32_t i = 0; i < a->nr_tasks; i++) {
		d->ns[i] = fastest_ns(sc, &a->tasks[i], app, i);
		d->next[i] = SIM_ANY;
	}
	while (l.nr--) {
		uint32_t from = l.line[l.nr].from, to = l.line[l.nr].to;
		double way = d->ns[to] + d->tail[to];

		if (way <= d->tail[from])
			continue;
		d->tail[from] = way;
		d->next[from] = to;
	}
	for (uint32_t i = 0; i < a->nr_tasks; i++)
		if (d->first == SIM_ANY ||
		    d->ns[i] + d->tail[i] > d->ns[d->first] + d->tail[d->first])
			d->first = i;
	free(l.line);
	return 0;
}

void dag_fini(struct dag *d)
{
	free(d->ns);
	free(d->tail);
	free(d->next);
	*d = (struct dag){ .first = SIM_ANY };
}

#define PRIORITIES	40

int dag_priorities(const struct scenario *sc, struct sim_app *a)
{
	struct scenario plain = *sc;
	struct dag d;
	double longest;
	int err;

	/* What a run will draw nobody knows. */
	plain.jitter = 0;
	err = dag_make(&plain, a, 0, &d);
	if (err)
		return err;
	longest = d.first == SIM_ANY ? 0 : d.ns[d.first] + d.tail[d.first];
	for (uint32_t i = 0; i < a->nr_tasks && longest > 0; i++) {
		int step = (int)(PRIORITIES * (d.ns[i] + d.tail[i]) / longest);

		a->tasks[i].priority = (int8_t)(PRIORITIES / 2 - (step < PRIORITIES ? step + 1 : step));
	}
	dag_fini(&d);
	return 0;
}
