// SPDX-License-Identifier: MIT
#include "daemon/dispatch/kept_links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/poller.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"
#include "daemon/sched/link_model.h"
#include "daemon/sched/store.h"

/* News of a link: it is so much further from what the file says. */
#define NEWS	0.125

/* Devices, by their numbers, and behind them the host. */
static uint32_t nr_ends(const struct kept_links *k)
{
	return k->at ? k->poller->nr_devs + 1 : 0;
}

static struct link_model *link_at(const struct kept_links *k, uint32_t to, uint32_t from)
{
	return &k->at[(size_t)to * nr_ends(k) + from];
}

static uint32_t end_of(const struct kept_links *k, uint32_t i)
{
	return i == k->poller->nr_devs ? MEMORY_HOST : i;
}

int kept_links_init(struct kept_links *k, struct poller *p)
{
	size_t ends = p->nr_devs + 1;

	*k = (struct kept_links){ .poller = p };
	if (!p->memory)
		return 0;
	k->at = calloc(ends * ends, sizeof(*k->at));
	return k->at ? 0 : -ENOMEM;
}

void kept_links_free(struct kept_links *k)
{
	free(k->at);
	k->at = NULL;
}

/* ------------------------------------------------------------------ */
/* In                                                                  */

static bool is_device(const struct store_link *l, const struct device *dev)
{
	return dev->info.units == l->units && !strcmp(dev->backend, l->backend) &&
	       !strncmp(dev->info.name, l->device, sizeof(dev->info.name));
}

static bool is_source(const struct store_link *l, const struct device *dev)
{
	return dev->info.units == l->from_units && !strcmp(dev->backend, l->backend) &&
	       !strncmp(dev->info.name, l->from, sizeof(dev->info.name));
}

static bool import(struct kept_links *k, uint32_t to, uint32_t from, const struct store_link *l)
{
	const struct link_model learnt = { l->latency_ns, l->ns_per_byte };
	uint32_t t = end_of(k, to), f = end_of(k, from);
	struct memory *m = k->poller->memory;
	struct link_model now;

	if (memory_rate(m, t, f, &now.latency_ns, &now.ns_per_byte) &&
	    !link_agrees(&learnt, &now)) {
		log_notice("link is not what it was: what was learnt of it is forgotten",
			   log_str("device", l->device),
			   log_str(l->way == STORE_OUT ? "to" : "from",
				   l->way == STORE_DIRECT ? l->from : "host"));
		return true;
	}
	if (!memory_set_rate(m, t, f, l->latency_ns, l->ns_per_byte))
		return false;
	*link_at(k, to, from) = learnt;
	return true;
}

bool kept_links_import(struct kept_links *k, const struct store_link *l)
{
	const struct poller *p = k->poller;
	uint32_t host = p->nr_devs, i, j;
	bool used = false;

	for (i = 0; k->at && i < p->nr_devs; i++) {
		if (!is_device(l, p->devs[i].dev))
			continue;
		if (l->way == STORE_IN)
			used |= import(k, i, host, l);
		else if (l->way == STORE_OUT)
			used |= import(k, host, i, l);
		for (j = 0; l->way == STORE_DIRECT && j < p->nr_devs; j++)
			if (is_source(l, p->devs[j].dev))
				used |= import(k, i, j, l);
	}
	return used;
}

/* ------------------------------------------------------------------ */
/* Out                                                                 */

static double no_more(double ns)
{
	return ns < STORE_MAX_NS ? ns : STORE_MAX_NS;
}

/* False: there is no such link, or nothing is known of it. */
static bool is_known(const struct kept_links *k, uint32_t to, uint32_t from, struct link_model *now)
{
	const struct poller *p = k->poller;
	uint32_t host = p->nr_devs;
	const void *peers;

	/* Of very many devices most pairs have none. */
	if (to != host && from != host) {
		peers = device_peers(p->devs[to].dev);
		if (to == from || !peers || peers != device_peers(p->devs[from].dev))
			return false;
	}
	if (!memory_rate(p->memory, end_of(k, to), end_of(k, from), &now->latency_ns,
			 &now->ns_per_byte))
		return false;
	now->latency_ns = no_more(now->latency_ns);
	now->ns_per_byte = no_more(now->ns_per_byte);
	return true;
}

static bool differs(double now, double then)
{
	return now < then * (1 - NEWS) || now > then * (1 + NEWS);
}

bool kept_links_have_news(const struct kept_links *k, size_t *nr)
{
	struct link_model now;
	bool news = false;

	*nr = 0;
	for (uint32_t to = 0; to < nr_ends(k); to++)
		for (uint32_t from = 0; from < nr_ends(k); from++) {
			const struct link_model *then = link_at(k, to, from);

			if (!is_known(k, to, from, &now))
				continue;
			++*nr;
			news |= differs(now.latency_ns, then->latency_ns) ||
				differs(now.ns_per_byte, then->ns_per_byte);
		}
	return news;
}

static void name(const struct kept_links *k, uint32_t to, uint32_t from, struct store_link *l)
{
	const struct poller *p = k->poller;
	const struct device *dev = p->devs[to == p->nr_devs ? from : to].dev;

	*l = (struct store_link){ .units = dev->info.units, .day = store_today() };
	snprintf(l->device, sizeof(l->device), "%.63s", dev->info.name);
	snprintf(l->backend, sizeof(l->backend), "%s", dev->backend);
	l->way = to == p->nr_devs ? STORE_OUT : from == p->nr_devs ? STORE_IN : STORE_DIRECT;
	if (l->way == STORE_DIRECT) {
		snprintf(l->from, sizeof(l->from), "%.63s", p->devs[from].dev->info.name);
		l->from_units = p->devs[from].dev->info.units;
	}
}

size_t kept_links_export(struct kept_links *k, struct store_link *l, size_t most)
{
	struct link_model now;
	size_t n = 0;

	for (uint32_t to = 0; to < nr_ends(k); to++)
		for (uint32_t from = 0; from < nr_ends(k); from++) {
			if (n >= most || n >= STORE_MAX_LINKS || !is_known(k, to, from, &now))
				continue;
			name(k, to, from, &l[n]);
			l[n].latency_ns = now.latency_ns;
			l[n++].ns_per_byte = now.ns_per_byte;
			*link_at(k, to, from) = now;
		}
	return n;
}
