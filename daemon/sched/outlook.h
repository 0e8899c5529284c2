/* SPDX-License-Identifier: MIT */
/*
 * outlook.h - what is to come after a program's tasks that are ready
 *
 * What a program has submitted says more than what of it is ready.  How long the way from a task to
 * the program's end is tells how much later than its best the task may be, and all tasks together
 * how long the devices have to work yet, whoever does which.  Of both only what was submitted
 * counts, and of run times what was learnt.
 *
 * It is made of a few tasks at a time, for one call must not keep others waiting; until all are
 * known nothing is said.  Of what is submitted later, and of run times that nobody knows, it says too
 * little, never too much.
 */
#ifndef ARAXD_SCHED_OUTLOOK_H
#define ARAXD_SCHED_OUTLOOK_H

#include "daemon/sched/internal.h"

/* Kinds of tasks that a program has; of more than that nothing is said. */
#define OUTLOOK_KINDS	16u

struct outlook;

/* Of a program that has few tasks, or none yet.  NULL: no memory */
struct outlook *outlook_make(void);
void outlook_free(struct outlook *o);

/* Goes on with it; @n is of its program.  False: nothing is known of what is to come. */
bool outlook_look(struct sched *s, struct outlook *o, const struct graph_node *n);
bool outlook_is_known(const struct outlook *o);

/* From @n's end to its program's; false: that is not known. */
bool outlook_tail_ns(struct sched *s, const struct outlook *o, const struct graph_node *n,
		     double *ns);

/*
 * Until the program's end at best: all that is left spread at will over the quick devices and the
 * slow ones; or the longest way, if that is longer.
 */
double outlook_left_ns(struct sched *s, struct outlook *o, uint64_t now_ns);

/* Of two sides, by how long they would take for all that is left. */
bool outlook_is_quick(struct sched *s, struct outlook *o, uint32_t device, uint64_t now_ns);

/* Which part of the tasks like @n the slow devices should do, of those that are left. */
double outlook_slow_part(struct sched *s, struct outlook *o, const struct graph_node *n,
			 uint64_t now_ns);

/**
 * struct leaving - what holds for all tasks of a kind, as long as nothing is given to a device
 * @found:	of which kinds it is known; at first 0
 * @end_ns:	when a slow device would be done with one; negative: none should do it
 */
struct leaving {
	uint32_t found;
	double end_ns[OUTLOOK_KINDS];
};

/*
 * Whether @n had better wait for a slow device than go to a quick one: those have enough to do
 * that they are better at, and the program ends no later.
 */
bool outlook_leaves(struct sched *s, struct outlook *o, struct leaving *of,
		    const struct graph_node *n, uint64_t now_ns);

/*
 * @n, which may have been counted, was given to a device, which is done with it at @end_ns, as
 * expected; 0: it has ended.
 */
void outlook_left(struct sched *s, struct outlook *o, const struct graph_node *n,
		    uint64_t end_ns);

#endif /* ARAXD_SCHED_OUTLOOK_H */
