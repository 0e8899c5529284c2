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
 * What was found once stays right until that use has been, see memory_has_used(), since later ones
 * have larger seqs; that there is none, until one is added.
 */
bool foresee_is_known(const struct memory_extent *e)
{
	const struct memory_buffer *b = e->buffer;

	if (e->next_use != UPCOMING_NEVER)
		return b->foreseen_prev;
	return !b->foreseen_prev || e->next_adds == b->adds;
}

uint64_t foresee_next(const struct memory_extent *e)
{
	return upcoming_next(&e->buffer->upcoming, e->start, e->end);
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
	struct upcoming uses = b->upcoming;
	uint64_t nr;

	if (!b->foreseen_prev)
		return;
	list_remove(b);
	b->upcoming.pieces.top = NULL;
	/* As many as there can be of all buffers. */
	pthread_mutex_unlock(&m->lock);
	nr = upcoming_clear(&uses);
	memory_lock(m);
	m->nr_uses -= (uint32_t)nr;
	m->uses_of[b->user] -= (uint32_t)nr;
}

/* Keyed, so that nobody can choose whom to share a part with. */
static uint32_t user_of(const struct memory *m, uint64_t tenant)
{
	return (uint32_t)(((tenant ^ m->random) * 0x9e3779b97f4a7c15ull) >> 40) % USERS;
}

/* (locked) */
static void add(struct memory *m, const struct memory_range *r, uint64_t seq)
{
	struct memory_buffer *b = r->buffer;
	uint32_t user = b->foreseen_prev ? b->user : user_of(m, r->tenant);

	if (m->nr_uses == MEMORY_MAX_USES || m->uses_of[user] == MEMORY_MAX_USES / USER_PARTS ||
	    !upcoming_add(&b->upcoming, r->offset, memory_range_end(r), seq))
		return;
	b->user = user;
	m->uses_of[user]++;
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

	memory_lock(m);
	for (i = 0; i < nr; i++)
		if (ranges[i].buffer)
			add(m, &ranges[i], seq);
	pthread_mutex_unlock(&m->lock);
}

/* (locked) */
static bool remove_use(struct memory *m, struct memory_buffer *b, const struct memory_range *r,
		       uint64_t seq)
{
	if (!b || !b->foreseen_prev ||
	    !upcoming_remove(&b->upcoming, r->offset, memory_range_end(r), seq))
		return false;
	m->nr_uses--;
	m->uses_of[b->user]--;
	if (!b->upcoming.pieces.top)
		list_remove(b);
	return true;
}

void memory_has_used(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		     uint64_t seq)
{
	bool any = false;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < nr; i++)
		any |= remove_use(m, ranges[i].buffer, &ranges[i], seq);
	for (i = 0; any && i < m->nr_devices; i++)
		victims_look_again(m, &m->devices[i], seq, seq);
	pthread_mutex_unlock(&m->lock);
}

void memory_forget_uses(struct memory *m)
{
	uint32_t i;

	memory_lock(m);
	while (m->foreseen)
		foresee_gone(m, m->foreseen);
	for (i = 0; i < m->nr_devices; i++)
		victims_look_again(m, &m->devices[i], 0, UPCOMING_NEVER - 1);
	pthread_mutex_unlock(&m->lock);
}
