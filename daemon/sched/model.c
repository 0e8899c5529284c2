/* SPDX-License-Identifier: MIT */
/* model.c - run times learnt for each (kernel, device, size class) */
#include <stdlib.h>

#include "daemon/sched/internal.h"

uint64_t sched_kernel_key(const struct graph_node *node)
{
	const struct arax_dispatch *d = &node->d;

	/* Never 0.  Copies and fills have no kernel. */
	if (d->opcode == ARAX_OP_LAUNCH || d->opcode == ARAX_OP_CALL)
		return (uint64_t)(d->opcode + 1) << 32 | d->kernel;
	return (uint64_t)(d->opcode + 1) << 32;
}

uint64_t sched_work(const struct graph_node *node)
{
	const struct arax_dispatch *d = &node->d;
	unsigned __int128 work;
	uint64_t items = 1;

	switch (d->opcode) {
	case ARAX_OP_LAUNCH:
		for (int i = 0; i < 3; i++) {
			/* Cannot overflow: a product of two 32-bit numbers. */
			uint64_t n = (uint64_t)(d->grid[i] ? d->grid[i] : 1) *
				     (d->block[i] ? d->block[i] : 1);

			if (__builtin_mul_overflow(items, n, &items))
				return UINT64_MAX;
		}
		return items;
	case ARAX_OP_COPY:
	case ARAX_OP_FILL:
		if (!d->nr_ranges)
			return 1;
		work = (unsigned __int128)node->ranges[0].length * node->ranges[0].count;
		return work >> 64 ? UINT64_MAX : work ? work : 1;
	default:
		return 1;
	}
}

static uint32_t where(uint32_t device, uint64_t work)
{
	return device << 8 | (work ? 63 - __builtin_clzll(work) : 0);
}

static struct model_record *slot(const struct sched_model *m, uint64_t kernel,
				 uint32_t at)
{
	uint64_t h = (kernel * 0x9e3779b97f4a7c15ull ^ at) * 0xd6e8feb86659fd93ull;
	uint32_t i = h >> 32 & m->mask;

	while (m->records[i].kernel &&
	       (m->records[i].kernel != kernel || m->records[i].where != at))
		i = (i + 1) & m->mask;
	return &m->records[i];
}

struct sched_estimate sched_estimate(const struct sched *s, uint64_t kernel,
				     uint32_t device, uint64_t work)
{
	const struct model_record *r;

	if (!s->model.records)
		return (struct sched_estimate){ 0 };
	r = slot(&s->model, kernel, where(device, work));
	return (struct sched_estimate){
		.ns = r->runs < SCHED_MIN_RUNS ? 0 : r->ns,
		.max_ns = r->max_ns,
		.runs = r->runs,
	};
}

uint64_t sched_predict_ns(const struct sched *s, uint64_t kernel,
			  uint32_t device, uint64_t work)
{
	return sched_estimate(s, kernel, device, work).ns;
}

/* At most half full; false: what is new can't be learnt. */
static bool make_room(struct sched_model *m)
{
	struct sched_model bigger = { .mask = m->mask * 2 + 1, .used = m->used };

	if (m->records && m->used <= m->mask / 2)
		return true;
	if (m->used >= SCHED_MAX_RECORDS)
		return false;
	if (!m->records)
		bigger.mask = 255;
	bigger.records = calloc((size_t)bigger.mask + 1, sizeof(*bigger.records));
	if (!bigger.records)
		return false;
	for (uint32_t i = 0; m->records && i <= m->mask; i++) {
		const struct model_record *r = &m->records[i];

		if (r->kernel)
			*slot(&bigger, r->kernel, r->where) = *r;
	}
	free(m->records);
	*m = bigger;
	return true;
}

void sched_observe(struct sched *s, uint64_t kernel, uint32_t device,
		   uint64_t work, uint64_t ns)
{
	struct sched_model *m = &s->model;
	uint32_t at = where(device, work);
	struct model_record *r = m->records ? slot(m, kernel, at) : NULL;

	/* 0 means unknown, and sums must not overflow. */
	ns = ns ? ns : 1;
	ns = ns < 1ull << 50 ? ns : 1ull << 50;
	if (!r || !r->kernel) {
		if (!make_room(m))
			return;
		r = slot(m, kernel, at);
		*r = (struct model_record){ .kernel = kernel, .where = at };
		m->used++;
	}
	if (r->runs < 8)
		r->ns = (r->ns * r->runs + ns) / (r->runs + 1);
	else
		r->ns = r->ns + ns / 8 - r->ns / 8;
	r->max_ns -= r->max_ns / 64;
	if (r->max_ns < ns)
		r->max_ns = ns;
	if (r->runs < UINT32_MAX)
		r->runs++;
}

bool sched_is_short(const struct sched *s, const struct graph_node *node,
		    uint32_t device, uint64_t threshold_ns)
{
	struct sched_estimate e;

	if (node->d.opcode == ARAX_OP_MARKER)
		return true;
	e = sched_estimate(s, sched_kernel_key(node), device, sched_work(node));
	return e.runs >= SCHED_MIN_RUNS && e.ns < threshold_ns &&
	       e.max_ns < threshold_ns;
}
