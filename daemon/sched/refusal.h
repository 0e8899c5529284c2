/* SPDX-License-Identifier: MIT */
/*
 * refusal.h - tasks that would rather wait than have any device that is idle
 *
 * Where there are hundreds of devices, to weigh a task takes microseconds, and with as many tenants
 * most of those that a pick asks in vain have just been asked.  Meanwhile few devices have become
 * idle: for a while only these are weighed against what the task waits for.
 */
#ifndef ARAXD_SCHED_REFUSAL_H
#define ARAXD_SCHED_REFUSAL_H

#include "daemon/sched/internal.h"

/* Of fewer devices all are weighed each time. */
#define REFUSAL_DEVICES	32u
/* Then all are, for what the task waits for may be late. */
#define REFUSAL_NS	100000ull
#define REFUSALS	1024u

/**
 * struct refusal - what a task said when it was asked in vain
 * @push_ns:	so that another one in its place is not taken for it
 * @at_ns:	then
 * @frees:	how many of the scheduler's have been weighed
 * @best:	what it waits for; done with it at @best_ns, after @run_ns
 * @other_ns:	when the best of those idle would be; UINT64_MAX: there is none
 * @slack_ns:	by so much one of those may be later and yet be taken
 * @for_speed:	see policy_told()
 */
struct refusal {
	const struct graph_node *node;
	uint64_t seq, push_ns;
	uint64_t at_ns, frees;
	uint64_t best_ns, run_ns, other_ns, slack_ns;
	uint32_t best;
	bool for_speed;
};

/* Where @node's is, or would be; of a table of REFUSALS. */
struct refusal *refusal_of(struct refusal *table, const struct graph_node *node);

/* Whether @r is @node's and still may be true. */
bool refusal_holds(const struct sched *s, const struct refusal *r, const struct graph_node *node,
		   uint64_t now_ns);

#endif /* ARAXD_SCHED_REFUSAL_H */
