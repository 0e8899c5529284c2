/* SPDX-License-Identifier: MIT */
/* link_model.c - a link, measured by copies; see link_model.h */
#include "daemon/sched/link_model.h"

#include <errno.h>

#define SMALL	4096u
#define LARGE	(16u << 20)
#define REPEATS	5
#define FAR	16
#define SLACK_NS	20000.0	/* a thread that is woken up, and the like */

/* The quickest of some: what disturbs a copy only makes it longer. */
static int quickest(const struct link_probe *p, uint64_t bytes, uint64_t until, uint64_t *ns)
{
	*ns = UINT64_MAX;
	for (int i = 0; i < REPEATS && (!i || p->now_ns(p->arg) < until); i++) {
		uint64_t t = p->now_ns(p->arg);
		int err = p->copy(p->arg, bytes);

		if (err)
			return err;
		t = p->now_ns(p->arg) - t;
		*ns = t < *ns ? t : *ns;
	}
	return 0;
}

int link_measure(struct link_model *m, const struct link_probe *p)
{
	uint64_t until, least, bytes, ns;
	double per_byte = 0;
	int err;

	if (p->most < 16 * SMALL)
		return -EINVAL;
	/* The first one pays for what is set up once, out of no budget: that may be longer than it. */
	err = p->copy(p->arg, SMALL);
	until = p->now_ns(p->arg) + p->budget_ns;
	if (!err)
		err = quickest(p, SMALL, until, &least);
	if (err)
		return err;
	for (bytes = 16 * SMALL; bytes <= p->most; bytes *= 16) {
		if (per_byte > 0 && p->now_ns(p->arg) >= until)
			break;
		err = quickest(p, bytes, until, &ns);
		if (err)
			return err;
		/* The larger the size, the less the latency has to do with it. */
		per_byte = ns > least ? (double)(ns - least) / (double)(bytes - SMALL) : 0;
	}
	m->ns_per_byte = per_byte;
	m->latency_ns = (double)least - per_byte * SMALL;
	if (m->latency_ns < 1)
		m->latency_ns = 1;
	return 0;
}

static bool is_near(const struct link_model *a, const struct link_model *b, uint64_t bytes)
{
	double x = a->latency_ns + a->ns_per_byte * (double)bytes;
	double y = b->latency_ns + b->ns_per_byte * (double)bytes;

	return x <= FAR * y + SLACK_NS && y <= FAR * x + SLACK_NS;
}

bool link_agrees(const struct link_model *learnt, const struct link_model *measured)
{
	return is_near(learnt, measured, SMALL) && is_near(learnt, measured, LARGE);
}
