// SPDX-License-Identifier: MIT
#include "daemon/dispatch/decline.h"

#include <stdlib.h>

#include "daemon/log.h"

#define IN_A_ROW	3u
#define REST_US		5000000u

/**
 * struct decline - of a kernel on a device
 * @tenant:	whose launches: what one asks for takes no device from the others
 * @until:	ticks: it rests
 * @in_row:	launches that were declined since one succeeded, or it rested
 * @told:	in the log
 */
struct decline {
	uint64_t tenant, until;
	uint32_t in_row;
	bool told;
};

static struct decline *find(const struct poller *p, const struct kernel *k, uint32_t device)
{
	return &p->declines[k->index * p->nr_devs + device];
}

void decline_note(struct poller *p, struct graph_node *node, const struct kernel *k,
		  uint32_t device)
{
	struct decline *d;

	node->declined |= (uint16_t)(1u << device % DECLINE_BITS);
	if (!p->declines)
		p->declines = calloc((size_t)registry_count(p->registry) * p->nr_devs,
				     sizeof(*p->declines));
	/* Without memory for it each task finds out by itself. */
	if (!p->declines)
		return;
	d = find(p, k, device);
	p->runnable[k->index * p->nr_devs + device] = RUNNABLE_HARDLY;
	if (d->tenant != node->d.tenant || (d->in_row >= IN_A_ROW && p->now >= d->until))
		d->in_row = 0;
	d->tenant = node->d.tenant;
	if (d->in_row < IN_A_ROW && ++d->in_row < IN_A_ROW)
		return;
	d->until = p->now + REST_US * p->ticks.per_us;
	if (!d->told)
		log_warn("device does not take a kernel's launches",
			 log_str("device", p->devs[device].dev->info.name),
			 log_str("kernel", k->sig.name), log_u64("in_a_row", d->in_row),
			 log_str("remedy", "they go to other devices that have it; it is tried again now and then"));
	d->told = true;
}

void decline_ran(struct poller *p, const struct kernel *k, uint32_t device)
{
	uint8_t *runnable;

	/* What a program brought has no place here. */
	if (!k || k->foreign)
		return;
	runnable = &p->runnable[k->index * p->nr_devs + device];
	if (*runnable != RUNNABLE_HARDLY)
		return;
	*runnable = RUNNABLE;
	find(p, k, device)->in_row = 0;
}

bool decline_rests(const struct poller *p, const struct graph_node *node, const struct kernel *k,
		   uint32_t device)
{
	const struct decline *d = p->declines ? find(p, k, device) : NULL;

	return d && d->in_row >= IN_A_ROW && d->tenant == node->d.tenant && p->now < d->until;
}

void decline_free(struct poller *p)
{
	free(p->declines);
	p->declines = NULL;
}
