/* SPDX-License-Identifier: MIT */
/* model.c - run times learnt for each (kernel, device, size class) */
#include <stdlib.h>

#include "daemon/sched/internal.h"

#define OUTLIER	4	/* times the mean */

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
		/* Mostly one dimension, and of single items. */
		if (d->grid[0] && (d->grid[1] & d->grid[2] & d->block[0] & d->block[1] &
				   d->block[2]) == 1 &&
		    (d->grid[1] | d->grid[2] | d->block[0] | d->block[1] | d->block[2]) == 1)
			return d->grid[0];
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

static struct model_record *search(const struct sched_model *m, uint64_t id)
{
	uint64_t h = (id ^ id >> 29) * 0x9e3779b97f4a7c15ull;
	uint32_t i = h >> 32 & m->mask;

	while (m->records[i].id && m->records[i].id != id)
		i = (i + 1) & m->mask;
	return &m->records[i];
}

/* A task is looked up before its run and after it, and the next is often alike. */
static inline struct model_record *slot(struct sched_model *m, uint64_t id)
{
	if (m->last->id != id)
		m->last = search(m, id);
	return m->last;
}

static struct sched_estimate estimate(struct sched_model *m, uint64_t id)
{
	const struct model_record *r;

	if (!m->records)
		return (struct sched_estimate){ 0 };
	r = slot(m, id);
	return (struct sched_estimate){
		.ns = r->runs < SCHED_MIN_RUNS ? 0 : r->ns,
		.max_ns = r->max_ns,
		.runs = r->runs,
	};
}

struct sched_estimate sched_estimate(struct sched *s, uint64_t kernel,
				     uint32_t device, uint64_t work)
{
	return estimate(&s->model, model_id(model_kind(kernel, work), device));
}

uint64_t sched_predict_ns(struct sched *s, uint64_t kernel,
			  uint32_t device, uint64_t work)
{
	return sched_estimate(s, kernel, device, work).ns;
}

uint64_t model_predict_ns(struct sched_model *m, uint64_t id)
{
	return estimate(m, id).ns;
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

		if (r->id)
			*search(&bigger, r->id) = *r;
	}
	bigger.last = bigger.records;
	free(m->records);
	*m = bigger;
	return true;
}

static __attribute__((cold)) struct model_record *record_new(struct sched_model *m, uint64_t id)
{
	struct model_record *r;

	if (!make_room(m))
		return NULL;
	r = slot(m, id);
	*r = (struct model_record){ .id = id };
	m->used++;
	return r;
}

void model_observe(struct sched_model *m, uint64_t id, uint64_t ns)
{
	struct model_record *r = m->records ? slot(m, id) : NULL;

	if (!r || !r->id) {
		r = record_new(m, id);
		if (!r)
			return;
	}
	/* 0 means unknown, and sums must not overflow. */
	ns = ns ? ns : 1;
	ns = ns < 1ull << 50 ? ns : 1ull << 50;
	/*
	 * One run that lost its CPU can take a hundred times as long.  It counts as a
	 * long one; if all are as long from now on, the mean is there after some.
	 */
	if (__builtin_expect(r->runs < 8, 0))
		r->ns = (r->ns * r->runs + ns) / (r->runs + 1);
	else
		r->ns = r->ns + (ns / OUTLIER < r->ns ? ns : r->ns * OUTLIER) / 8 - r->ns / 8;
	r->max_ns -= r->max_ns / 64;
	if (r->max_ns < ns)
		r->max_ns = ns;
	if (r->runs < UINT32_MAX)
		r->runs++;
}

void sched_observe(struct sched *s, uint64_t kernel, uint32_t device,
		   uint64_t work, uint64_t ns)
{
	model_observe(&s->model, model_id(model_kind(kernel, work), device), ns);
}

bool sched_is_short(struct sched *s, struct graph_node *node, uint32_t device,
		    uint64_t threshold_ns)
{
	const struct model_record *r;

	if (node->d.opcode == ARAX_OP_MARKER)
		return true;
	if (!s->model.records)
		return false;
	r = slot(&s->model, model_id(task_kind(node), device));
	return r->runs >= SCHED_MIN_RUNS && r->ns < threshold_ns && r->max_ns < threshold_ns;
}
