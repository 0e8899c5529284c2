// SPDX-License-Identifier: MIT
/* share.c - a fixed capacity that several jobs share */
#include "daemon/sim/share.h"

#include <math.h>
#include <stddef.h>

#include "daemon/sim/event.h"

/* Ends closer than this are the same instant: far below the ns that events have. */
#define SAME_NS	0.001

static double rate(const struct share *s)
{
	return s->load > 1 ? 1 / s->load : 1;
}

void share_advance(struct share *s, uint64_t now)
{
	double passed = (double)(now - s->at);

	s->clock += passed * rate(s);
	s->used += passed * (s->load < 1 ? s->load : 1);
	s->at = now;
}

/* Summed anew each time: a sum kept by adding and subtracting would drift. */
static void weigh(struct share *s)
{
	s->load = 0;
	for (struct share_job *j = s->jobs; j; j = j->next)
		s->load += j->demand;
	if (!s->jobs)
		s->clock = 0;
}

void share_add(struct share *s, struct share_job *j, double work_ns, double demand, uint64_t now)
{
	struct share_job **p = &s->jobs;

	share_advance(s, now);
	j->end = s->clock + work_ns;
	j->demand = demand;
	while (*p && (*p)->end <= j->end)
		p = &(*p)->next;
	j->next = *p;
	*p = j;
	weigh(s);
}

void share_remove(struct share *s, struct share_job *j, uint64_t now)
{
	struct share_job **p = &s->jobs;

	share_advance(s, now);
	while (*p && *p != j)
		p = &(*p)->next;
	if (*p)
		*p = j->next;
	weigh(s);
}

double share_had(const struct share *s, const struct share_job *j, double work_ns, uint64_t now)
{
	double left = j->end - s->clock - (double)(now - s->at) * rate(s);

	/* It ends with the ns that its end is in. */
	left = left > 0 ? left : 0;
	return left < work_ns ? work_ns - left : 0;
}

uint64_t share_next(const struct share *s)
{
	double left;

	if (!s->jobs)
		return UINT64_MAX;
	left = (s->jobs->end - s->clock) / rate(s);
	return s->at + (left > SAME_NS ? event_ns(ceil(left - SAME_NS)) : 0);
}

struct share_job *share_pop(struct share *s, uint64_t now)
{
	struct share_job *j = s->jobs;

	share_advance(s, now);
	if (!j || j->end > s->clock + SAME_NS)
		return NULL;
	s->jobs = j->next;
	weigh(s);
	return j;
}
