/* SPDX-License-Identifier: MIT */
/*
 * event.h - what happens when, in virtual time
 *
 * Events lie in what they belong to; the heap only points at them.  Two at the same instant
 * happen in the order in which they were set, so a run can be repeated exactly.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#define EVENT_NEVER	UINT64_MAX
/* 146 years: the last instant that has events, and sums of two such times don't wrap. */
#define EVENT_LAST	(1ull << 62)
#define EVENT_TOO_LATE	"it would take more than 146 years of simulated time: give less work, or faster devices and links"

/**
 * struct event - zeroed and given its @fire, it is ready for use
 * @time:	ns
 * @index:	its place in the heap + 1; 0: not set
 */
struct event {
	uint64_t time;
	uint64_t order;
	uint32_t index;
	void (*fire)(void *sim, struct event *e);
};

struct events {
	struct event **heap;
	uint32_t used, size;
	uint64_t order;
	uint64_t fired;
};

/* Sets it, or moves it.  -ENOMEM; -EOVERFLOW: that is after EVENT_LAST. */
int event_set(struct events *h, struct event *e, uint64_t time);
void event_cancel(struct events *h, struct event *e);
/* Takes the earliest out; NULL: there is none. */
struct event *event_next(struct events *h);

/* A time of costs and speeds, which may be of any size. */
static inline uint64_t event_ns(double ns)
{
	return ns < (double)EVENT_LAST ? (uint64_t)ns : EVENT_LAST;
}

static inline bool event_is_set(const struct event *e)
{
	return e->index;
}

#endif /* SIM_EVENT_H */
