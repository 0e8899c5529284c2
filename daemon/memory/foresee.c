// SPDX-License-Identifier: MIT
/* What tasks to come will use. */
#include "daemon/memory/internal.h"

static void set(struct memory *m, struct memory_device *d, bool tight, bool full)
{
	if (d->full != full)
		__atomic_store_n(&d->full, full, __ATOMIC_RELAXED);
	if (d->tight == tight)
		return;
	d->tight = tight;
	__atomic_store_n(&m->tight, tight ? m->tight + 1 : m->tight - 1, __ATOMIC_RELAXED);
}

void foresee_room(struct memory *m, struct memory_device *d)
{
	uint64_t part = d->stats.bytes / 16;
	bool tight = d->stats.used >= part * (d->tight ? TIGHT_UNTIL : TIGHT_FROM);

	set(m, d, tight, tight && (d->full || d->stats.used >= part * FULL_FROM));
}

void foresee_overflow(struct memory *m, struct memory_device *d)
{
	set(m, d, true, true);
}

bool memory_is_tight(const struct memory *m)
{
	return __atomic_load_n(&m->tight, __ATOMIC_RELAXED);
}

bool memory_is_full(const struct memory *m, uint32_t device)
{
	return __atomic_load_n(&m->devices[device].full, __ATOMIC_RELAXED);
}

/*
 * What was found once stays right as long as that use is to come, since later ones have
 * larger seqs; that there is none, until one is added.
 */
static bool is_known(const struct memory *m, const struct memory_extent *e)
{
	if (!e->next_adds || e->next_use <= m->latest_used)
		return false;
	return e->next_use != UPCOMING_NEVER || e->next_adds == e->buffer->adds;
}

uint64_t foresee_next(const struct memory *m, struct memory_extent *e)
{
	const struct memory_buffer *b = e->buffer;

	if (!b->foreseen_prev)
		return UPCOMING_NEVER;
	if (!is_known(m, e)) {
		e->next_use = upcoming_next(&b->upcoming, e->start, e->end);
		e->next_adds = b->adds;
	}
	return e->next_use;
}

bool foresee_check(const struct memory *m, struct memory_extent *e)
{
	return !e->buffer->foreseen_prev || !is_known(m, e) ||
	       e->next_use == upcoming_next(&e->buffer->upcoming, e->start, e->end);
}

static void list_remove(struct memory_buffer *b)
{
	*b->foreseen_prev = b->foreseen_next;
	if (b->foreseen_next)
		b->foreseen_next->foreseen_prev = b->foreseen_prev;
	b->foreseen_prev = NULL;
}

void foresee_gone(struct memory *m, struct memory_buffer *b)
{
	const struct look l = look_bytes(b, 0, b->bytes);
	struct memory_extent *e;

	if (!b->foreseen_prev)
		return;
	for (e = look_first(&l); e; e = look_next(&l, e))
		e->next_adds = 0;
	m->nr_uses -= (uint32_t)upcoming_clear(&b->upcoming);
	list_remove(b);
}

/* (locked) */
static void add(struct memory *m, struct memory_buffer *b, uint64_t start, uint64_t end,
		uint64_t seq)
{
	if (m->nr_uses == MEMORY_MAX_USES || !upcoming_add(&b->upcoming, start, end, seq))
		return;
	m->nr_uses++;
	b->adds++;
	if (b->foreseen_prev)
		return;
	b->foreseen_next = m->foreseen;
	b->foreseen_prev = &m->foreseen;
	if (m->foreseen)
		m->foreseen->foreseen_prev = &b->foreseen_next;
	m->foreseen = b;
}

void memory_will_use(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		     uint64_t seq)
{
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < nr; i++)
		if (ranges[i].buffer)
			add(m, ranges[i].buffer, ranges[i].offset, memory_range_end(&ranges[i]),
			    seq);
	pthread_mutex_unlock(&m->lock);
}

void memory_has_used(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		     uint64_t seq)
{
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	if (m->latest_used < seq)
		m->latest_used = seq;
	for (i = 0; i < nr; i++) {
		struct memory_buffer *b = ranges[i].buffer;

		if (!b || !b->foreseen_prev ||
		    !upcoming_remove(&b->upcoming, ranges[i].offset, memory_range_end(&ranges[i]),
				     seq))
			continue;
		m->nr_uses--;
		if (!b->upcoming.pieces.top)
			list_remove(b);
	}
	pthread_mutex_unlock(&m->lock);
}

void memory_forget_uses(struct memory *m)
{
	pthread_mutex_lock(&m->lock);
	while (m->foreseen)
		foresee_gone(m, m->foreseen);
	pthread_mutex_unlock(&m->lock);
}
