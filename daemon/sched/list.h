/* SPDX-License-Identifier: MIT */
/*
 * list.h - list schedules: when and where a program's tasks would run if all goes as expected
 *
 * By a rule, the tasks one after the other, the longest way to the end first of those that wait
 * for nobody: each goes where it ends first, also between two that are there already, and
 * its inputs with it, over links that carry one copy at a time each way.  That is HEFT (Topcuoglu,
 * Hariri and Wu, Performance-effective and low-complexity task scheduling for heterogeneous
 * computing, IEEE TPDS 13(3), 2002) but for two things that a rule says:
 *
 * - a way is as long as its tasks are on the quickest devices, or on the slowest ones, or
 *   between;
 * - where a task is slower than elsewhere, it may yet be put there although it ends later: by a
 *   part of the difference, which each kind of task has of its own.  For the quick device then
 *   does what the slow ones are worst at.
 *
 * Which rule is best depends on the graph: plan_trials.c tries some.  Times are in ns, from the
 * beginning; one thread at a time.
 */
#ifndef ARAXD_SCHED_LIST_H
#define ARAXD_SCHED_LIST_H

#include <stdbool.h>
#include <stdint.h>

#define LIST_KINDS	16u
#define LIST_PLACES	64u
#define LIST_NONE	(~0u)

/**
 * struct list_machine - what runs one task at a time
 * @place:	where its data is: 0 the host's memory, or that of a device, from 1 on
 * @free_ns:	it has something to do until then
 */
struct list_machine {
	uint32_t device, place;
	double free_ns;
};

/**
 * struct list_place - memory
 * @in_ns, @out_ns: from the host, to it: of each copy, and of each byte
 * @peers:	places with the same one, not 0, copy from one another
 */
struct list_place {
	double in_latency_ns, in_byte_ns, out_latency_ns, out_byte_ns;
	uint64_t peers;
};

/**
 * struct list_item - bytes that tasks use together
 * @places:	where they are at first, bits
 * @since_ns:	from then on
 */
struct list_item {
	double bytes, since_ns;
	uint64_t places;
};

struct list_use {
	uint32_t item;
	bool reads, writes;
};

/**
 * struct list_task - after all that it waits for
 * @kind:	LIST_NONE: it runs nowhere and takes no time
 * @uses, @nexts: its first ones; they end where the next task's begin
 * @waits:	of how many tasks it is a next
 * @from_ns:	it can't begin before
 * @priority:	those of a lower one go first, however long their ways are
 * @times:	as long as one of its kind takes it takes, on all machines
 */
struct list_task {
	uint32_t kind, uses, nexts, waits;
	int32_t priority;
	double from_ns, times;
};

/**
 * struct list_rule - see above
 * @quick:	part of a way's time as on the quickest devices, 0..1
 * @near:	of the time that copies to a place take, what a task may end later to be elsewhere
 * @later:	of each kind
 */
struct list_rule {
	double quick, near;
	double later[LIST_KINDS];
};

/* Where one runs, and when it begins. */
struct list_seat {
	uint32_t device;
	double begin_ns;
};

/**
 * struct list_program - what is to be done; its owner's
 * @ns:		of each kind, each machine: how long it takes; 0: it can't run there
 * @tasks:	@nr_tasks, and one more that says where the last one's uses and nexts end
 */
struct list_program {
	uint32_t nr_machines, nr_places, nr_kinds, nr_items, nr_tasks;
	const struct list_machine *machines;
	const struct list_place *places;
	const double *ns;
	const struct list_item *items;
	const struct list_use *uses;
	const uint32_t *nexts;
	const struct list_task *tasks;
};

struct list;

/* NULL: no memory.  @p stays as it is for as long as the list is there. */
struct list *list_make(const struct list_program *p);
void list_free(struct list *l);

/* By another rule from now on.  False: no memory. */
bool list_begin(struct list *l, const struct list_rule *rule);
/*
 * So many tasks more.  0: some are left; 1: that is all; -ENOMEM; -EINVAL: there is one that
 * nothing can run, or a circle.
 */
int list_go_on(struct list *l, uint32_t tasks);
/* When the last task ends; all have been placed. */
double list_ns(const struct list *l);
/* By task; until list_begin(). */
const struct list_seat *list_seats(const struct list *l);

#endif /* ARAXD_SCHED_LIST_H */
