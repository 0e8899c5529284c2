/* SPDX-License-Identifier: MIT */
/*
 * plan.h - where a program's tasks go, and in which order, decided for all of them together
 *
 * Where some devices are much quicker than others, at some kinds of tasks more than at others, what
 * is best for one task after the other may be far from the best for the program: a panel's tasks on
 * the slow devices leave the quick one to what follows, if there are not too many of them.  So for
 * a program that is alone, with all of its run times known, list schedules are made (list.h) of all
 * that it has submitted, by one rule after the other, and the best one is followed: each device has
 * its tasks in their order there.
 *
 * That takes time: of what the program is expected to take a small part at most, and of one call so
 * little that nobody else is kept waiting for long.  Until it is done the program's tasks wait.
 *
 * Priorities of a program's queues hold in a plan, too, unless they only say how long the ways to
 * its end are, which is known better here.  Where a task has a deadline nothing is planned.
 *
 * A plan is dropped, and each task goes where it ends first, as soon as anybody else has
 * tasks, a device comes or goes, or things are late.  What is submitted meanwhile is not in it.
 */
#ifndef ARAXD_SCHED_PLAN_H
#define ARAXD_SCHED_PLAN_H

#include "daemon/sched/internal.h"

struct plan;

/* NULL: no memory */
struct plan *plan_make(void);
void plan_free(struct plan *p);

/* There is one, or it is being made; if not, tasks are nobody's business here. */
bool plan_is_on(const struct plan *p);

/* Whether one may be worth it, now that @n, of @run_ns at best, is the next task of its program. */
bool plan_is_worth(struct sched *s, const struct graph_node *n, uint64_t run_ns);
/* It is on from now; false: a while has to go by since the last one came to nothing. */
bool plan_begin(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns);
/* For somebody else has come. */
void plan_drop(struct plan *p, uint64_t now_ns);

/* @n is one of those that it says something of, or may be. */
bool plan_has(const struct plan *p, const struct graph_node *n);

/* Goes on with it, or drops it; @n is of its program.  False: it isn't on any more. */
bool plan_go_on(struct sched *s, struct plan *p, const struct graph_node *n, uint64_t now_ns);

/* One of a program's queued tasks whose turn it is, and where; NULL: there is none now. */
struct graph_node *plan_next(struct sched *s, struct plan *p, struct graph_node *const *tasks,
			     uint32_t nr, uint64_t now_ns, uint32_t *device, uint64_t *run_ns);

/* @n was given to a device, by the plan or not; or it has ended without.  True: that was all. */
bool plan_left(struct plan *p, const struct graph_node *n);

#endif /* ARAXD_SCHED_PLAN_H */
