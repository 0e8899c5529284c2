/* SPDX-License-Identifier: MIT */
/*
 * plan_impl.h - what the plan's files share; nobody else includes it
 *
 *   plan.c		begins, goes on, is followed, is dropped
 *   plan_graph.c	the program's graph and what can run it are taken in
 *   plan_trials.c	list schedules of it are tried
 */
#ifndef ARAXD_SCHED_PLAN_IMPL_H
#define ARAXD_SCHED_PLAN_IMPL_H

#include "daemon/sched/list.h"
#include "daemon/sched/plan.h"

/* Tasks of a program: fewer are not worth it. */
#define TASKS_LEAST	32u
#define MACHINES	256u

enum stage { OFF, LOOKING, TRYING, FOLLOWED };

/**
 * struct graph_seen - of a program, the newest task first
 * @kinds:	task_kind()
 * @can:	of each, which machines can run its first one
 * @lines, @table: plan_graph.c's own
 */
struct graph_seen {
	uint64_t kinds[LIST_KINDS];
	bool can[LIST_KINDS][MACHINES];
	uint32_t nr_kinds;
	struct list_task *tasks;
	struct list_use *uses;
	struct line *lines;
	struct list_item *items;
	uint32_t nr_tasks, nr_uses, nr_lines, nr_items;
	uint32_t tasks_size, uses_size, lines_size, items_size;
	struct item_slot *table;
	uint32_t table_size;
	uint64_t key[2];		/* of its hash, from the first table on */
	uint64_t newest_seq;
};

/**
 * struct trials - which rules have been tried
 * @dim:	what is changed of the best one: a kind's delay, or how long ways are
 */
struct trials {
	struct list_rule rule, best;
	double best_ns, step;
	uint32_t nr, most, dim;
	bool begun, down, better;
};

/**
 * struct seat - a task's, by the best schedule
 * @place:	among those of its device
 * @turn:	among all
 */
struct seat {
	uint32_t device, place, turn;
	float begin_ns;
	bool gone;
};

/* What a device has to do; @first: the first one that has no lane yet. */
struct queue {
	uint32_t begin, nr, first;
};

/**
 * struct plan - of one program
 * @number:	of the tasks that it knows (sched_task.outlook); 0: none
 * @context:	task_context() of them
 * @begun_ns:	when it is followed, from then on
 * @again_ns:	not before; @pause_ns after the next one that comes to nothing
 * @large_seq:	nor for tasks up to this one, of which there were too many: what is left of them goes
 *		on as it was
 * @lanes:	of all devices
 * @left:	tasks that have no device yet; @nowhere: markers, of which nobody tells that they end
 */
struct plan {
	enum stage stage;
	bool fresh;
	uint32_t number;
	uint64_t context;
	uint64_t begun_ns, again_ns, pause_ns, large_seq;
	uint32_t lanes;
	struct graph_seen seen;
	struct list_program program;
	struct list_machine *machines;
	struct list_place *places;
	double *ns;
	uint32_t *place_of;		/* by device */
	uint32_t *nexts;
	struct list *list;
	struct trials trials;
	struct seat *seats;
	uint32_t *order;		/* of seats, by device */
	struct queue *queues;
	uint32_t left, nowhere;
	double length_ns;
};

/* plan_graph.c: what runs tasks; @n is one.  False: no memory, or there are too many. */
bool plan_note_machines(struct sched *s, struct plan *p, const struct graph_node *n);
/*
 * More of the graph, as far as one call goes; with the last of it trials begin.  False: it came to
 * nothing.
 */
bool plan_look_on(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns);

/* plan_trials.c: one more rule, or as far as one call goes; false: it came to nothing. */
bool plan_try_on(struct sched *s, struct plan *p, uint64_t now_ns);

#endif /* ARAXD_SCHED_PLAN_IMPL_H */
