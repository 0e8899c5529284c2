/* SPDX-License-Identifier: MIT */
/* link_model.c - how long data is on its way; see link_model.h */
#include "daemon/sched/link_model.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL	4096u
#define REPEATS	5

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
	uint64_t until = p->now_ns(p->arg) + p->budget_ns, least, bytes, ns;
	double per_byte = 0;
	int err;

	if (p->most < 16 * SMALL)
		return -EINVAL;
	/* The first one pays for what is set up once. */
	err = p->copy(p->arg, SMALL);
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

/* Row and column 0 are the host's. */
struct link_table {
	uint32_t side;
	struct link_model at[];
};

struct link_table *link_table_create(uint32_t devices)
{
	size_t side = (size_t)devices + 1;
	struct link_table *t = calloc(1, sizeof(*t) + side * side * sizeof(t->at[0]));

	if (t)
		t->side = (uint32_t)side;
	return t;
}

void link_table_destroy(struct link_table *t)
{
	free(t);
}

/* NULL: there is none. */
static struct link_model *find(const struct link_table *t, uint32_t from, uint32_t to)
{
	/* LINK_HOST becomes 0. */
	uint32_t row = from + 1, column = to + 1;

	if (row >= t->side || column >= t->side || row == column)
		return NULL;
	return (struct link_model *)&t->at[(size_t)row * t->side + column];
}

int link_table_set(struct link_table *t, uint32_t from, uint32_t to, const struct link_model *m)
{
	struct link_model *at = find(t, from, to);

	if (!at)
		return -EINVAL;
	*at = *m;
	return 0;
}

bool link_table_get(const struct link_table *t, uint32_t from, uint32_t to,
		    struct link_model *m)
{
	const struct link_model *at = find(t, from, to);

	*m = at ? *at : (struct link_model){ 0 };
	return m->latency_ns > 0;
}

static double direct(const struct link_table *t, uint32_t from, uint32_t to, uint64_t bytes)
{
	struct link_model m;

	return link_table_get(t, from, to, &m) ? m.latency_ns + m.ns_per_byte * (double)bytes : 0;
}

uint64_t link_ns(const struct link_table *t, uint32_t from, uint32_t to, uint64_t bytes)
{
	double ns = direct(t, from, to, bytes);

	if (ns == 0 && from != to && from != LINK_HOST && to != LINK_HOST)
		ns = direct(t, from, LINK_HOST, bytes) + direct(t, LINK_HOST, to, bytes);
	return ns < 0x1p50 ? (uint64_t)ns : 1ull << 50;
}

uint64_t link_min_ns(const struct link_table *t, const uint32_t *from, uint32_t nr, uint32_t to,
		     uint64_t bytes)
{
	uint64_t best = nr ? UINT64_MAX : 0;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t ns = link_ns(t, from[i], to, bytes);

		best = ns < best ? ns : best;
	}
	return best;
}

uint64_t link_max_ns(const struct link_table *t, const uint32_t *from, uint32_t nr, uint32_t to,
		     uint64_t bytes)
{
	uint64_t worst = 0;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t ns = link_ns(t, from[i], to, bytes);

		if (from[i] == to)
			return 0;
		worst = ns > worst ? ns : worst;
	}
	return worst;
}
