/* SPDX-License-Identifier: MIT */
/*
 * share.h - a fixed capacity that several jobs share: a device's lanes, a link's wire
 *
 * A job has work (ns when it is alone) and a demand: the part of the capacity that it can
 * use, above 0 and at most 1.  As long as the demands add up to no more than 1 nobody is
 * slowed down; beyond that all slow down alike, by the sum.  So two kernels that each fill
 * the device take as long together as one after the other, and there is no free speed-up.
 *
 * All jobs progress at one rate, so each ends when the clock of work done reaches its end:
 * nothing is touched per job when others come and go.
 */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share_job {
	struct share_job *next;
	double end;		/* on the share's clock */
	double demand;
};

/**
 * struct share - zeroed, it is an idle one
 * @clock:	ns of work that each job would have got since the share was last idle
 * @load:	sum of the demands
 * @used:	ns of capacity used so far
 */
struct share {
	struct share_job *jobs;
	double clock;
	double load;
	double used;
	uint64_t at;		/* when these were right */
};

/* Brings the clock to @now. */
void share_advance(struct share *s, uint64_t now);
void share_add(struct share *s, struct share_job *j, double work_ns, double demand, uint64_t now);
/* Takes out one that has not ended. */
void share_remove(struct share *s, struct share_job *j, uint64_t now);
/* What @j, which began with @work_ns, has had of that by @now. */
double share_had(const struct share *s, const struct share_job *j, double work_ns, uint64_t now);
/* When the first of its jobs ends if nobody comes or goes; UINT64_MAX: it is idle. */
uint64_t share_next(const struct share *s);
/* Takes out a job that has ended by @now, in the order of their ends; NULL: none. */
struct share_job *share_pop(struct share *s, uint64_t now);

#endif /* SIM_SHARE_H */
