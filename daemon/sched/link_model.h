/* SPDX-License-Identifier: MIT */
/*
 * link_model.h - how long data is on its way between the host and devices, or two of these
 *
 * A link is a latency and a time for each byte.  Plain logic; who owns devices brings the
 * copies to be measured, and daemon/memory goes on from there by the copies of tasks.
 */
#ifndef ARAXD_SCHED_LINK_MODEL_H
#define ARAXD_SCHED_LINK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct link_model {
	double latency_ns;
	double ns_per_byte;
};

/**
 * struct link_probe - a way to measure a link
 * @copy:	does it; 0 or negative errno
 * @now_ns:	a clock
 * @most:	bytes of one copy
 * @budget_ns:	no new copy is begun after this; the first one does not count
 */
struct link_probe {
	int (*copy)(void *arg, uint64_t bytes);
	uint64_t (*now_ns)(void *arg);
	void *arg;
	uint64_t most;
	uint64_t budget_ns;
};

/* Copies of several sizes, each several times.  0, -EINVAL (@most below 64 KiB), or @copy's. */
int link_measure(struct link_model *m, const struct link_probe *probe);

/*
 * Whether what tasks' copies taught of a link may be of the one that was measured just now.
 *
 * What they taught is the better guess then.  The measurement is of an idle link, by one copy at a
 * time; tasks' copies go several at once, and small ones by memory that nobody has registered,
 * which makes up to ten times of difference, either way, and is how it will be again.  What
 * is further away is another link's (the card is in another slot, behind another device), or a
 * copy's while the machine was suspended.
 */
bool link_agrees(const struct link_model *learnt, const struct link_model *measured);

#endif /* ARAXD_SCHED_LINK_MODEL_H */
