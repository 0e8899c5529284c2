// SPDX-License-Identifier: MIT
/*
 * victim.c - the extent of a device that is the next to go
 *
 * Those that may go are a tree in the order in which they would.  When one is needed next is not
 * looked up before it matters: until then it counts as never, so that it comes too early, is
 * looked at, and goes where it belongs.
 */
#include "daemon/memory/internal.h"

static struct memory_extent *extent_of(const struct treap *t)
{
	return t ? treap_entry(t, struct memory_extent, turn) : NULL;
}

/*
 * What could not be saved goes last; first, what was made for a task that has no lane; between them, who
 * is needed last; of these, who is worth least; of these, who came last.
 */
static int compare(const struct treap *a, const struct treap *b)
{
	const struct memory_extent *e = extent_of(a), *o = extent_of(b);

	if (e->stuck != o->stuck)
		return o->stuck ? -1 : 1;
	if (e->ahead != o->ahead)
		return e->ahead ? -1 : 1;
	if (e->next_use != o->next_use)
		return e->next_use > o->next_use ? -1 : 1;
	if (e->worth != o->worth)
		return e->worth < o->worth ? -1 : 1;
	return e->number > o->number ? -1 : e->number < o->number;
}

static const struct treap_order by_turn = { compare, NULL };

static void enter(struct memory_extent *e)
{
	struct memory *m = e->buffer->memory;

	e->ranked = true;
	treap_insert(&m->devices[e->device].victims, &e->turn, treap_weight(&m->weights), &by_turn);
}

static void leave(struct memory_extent *e)
{
	e->ranked = false;
	treap_remove(&e->buffer->memory->devices[e->device].victims, &e->turn, &by_turn);
}

static void rank(struct memory_extent *e, bool may_go, bool busy)
{
	struct memory_device *d = &e->buffer->memory->devices[e->device];

	if (e->counted != busy)
		d->busy += busy ? 1 : -1;
	e->counted = busy;
	if (e->ranked == may_go)
		return;
	if (may_go) {
		e->next_use = UPCOMING_NEVER;
		e->next_adds = 0;
		enter(e);
	} else {
		leave(e);
	}
}

static void used_otherwise(struct memory_extent *e)
{
	rank(e, !e->lost && !e->pins && !e->busy, !e->lost && !e->pins && e->busy);
}

void extent_pin(struct memory_extent *e)
{
	e->pins++;
	used_otherwise(e);
	e->ahead = false;
}

void extent_unpin(struct memory_extent *e)
{
	e->pins--;
	used_otherwise(e);
}

void extent_busy(struct memory_extent *e)
{
	e->busy++;
	used_otherwise(e);
}

void extent_idle(struct memory_extent *e)
{
	e->busy--;
	used_otherwise(e);
}

void extent_is_ahead(struct memory_extent *e)
{
	bool ranked = e->ranked;

	if (ranked)
		leave(e);
	e->ahead = true;
	if (ranked)
		enter(e);
}

void extent_stuck(struct memory_extent *e, bool stuck)
{
	struct memory_device *d = &e->buffer->memory->devices[e->device];
	bool ranked = e->ranked;

	if (e->stuck == stuck)
		return;
	d->unsaved += stuck ? e->end - e->start : -(e->end - e->start);
	if (ranked)
		leave(e);
	e->stuck = stuck;
	if (ranked)
		enter(e);
}

void victim_never(struct memory_extent *e)
{
	rank(e, false, false);
}

/* (locked) It is noted anew when it is needed. */
static void move(struct memory_extent *e, uint64_t next)
{
	leave(e);
	e->next_use = next;
	enter(e);
}

struct memory_extent *victim_choose(struct memory *m, struct memory_device *d, bool *busy)
{
	struct memory_extent *e;
	uint32_t looks = 0;
	uint64_t next;

	while ((e = extent_of(treap_first(&d->victims))) && !foresee_is_known(e)) {
		next = foresee_next(e);
		e->next_adds = e->buffer->adds;
		if (next != e->next_use)
			move(e, next);
		if (++looks % MEMORY_AT_ONCE == 0)
			memory_let_others(m);
	}
	*busy = d->busy;
	return e;
}

/* (locked) The first of one sort that is needed at @to or before, but not before @from. */
static struct memory_extent *needed_of(struct memory_device *d, uint64_t from, uint64_t to,
				       bool stuck, bool ahead)
{
	const struct memory_extent key = {
		.stuck = stuck, .ahead = ahead, .next_use = to, .worth = -1, .number = UINT64_MAX,
	};
	struct memory_extent *e = extent_of(treap_from(&d->victims, &key.turn, &by_turn));

	return e && e->stuck == stuck && e->ahead == ahead && e->next_use >= from ? e : NULL;
}

static struct memory_extent *needed(struct memory_device *d, uint64_t from, uint64_t to)
{
	struct memory_extent *e = NULL;

	for (uint32_t sort = 0; !e && sort < 4; sort++)
		e = needed_of(d, from, to, sort & 1, sort & 2);
	return e;
}

void victims_look_again(struct memory *m, struct memory_device *d, uint64_t from, uint64_t to)
{
	struct memory_extent *e;
	uint32_t looks = 0;

	while ((e = needed(d, from, to))) {
		e->next_adds = 0;
		move(e, UPCOMING_NEVER);
		if (++looks % MEMORY_AT_ONCE == 0)
			memory_let_others(m);
	}
}

/* (locked) By all of them, one by one. */
static struct memory_extent *choose_plainly(const struct memory_device *d)
{
	struct memory_extent *e, *first = NULL;
	uint64_t next, last = 0;

	for (e = d->extents; e; e = e->next) {
		if (e->pins || e->busy)
			continue;
		next = foresee_is_known(e) ? e->next_use : foresee_next(e);
		if (first && (e->stuck != first->stuck ? e->stuck : first->ahead && !e->ahead))
			continue;
		if (!first || e->stuck != first->stuck || e->ahead != first->ahead ||
		    next > last || (next == last && e->worth < first->worth)) {
			first = e;
			last = next;
		}
	}
	return first;
}

bool victim_check(struct memory *m, struct memory_device *d)
{
	struct memory_extent *wanted = choose_plainly(d), *e;
	uint32_t copied = 0;
	bool busy;

	for (e = d->extents; e; e = e->next) {
		copied += e->busy && !e->pins;
		if (e->ranked != (!e->pins && !e->busy) ||
		    (e->ranked && foresee_is_known(e) && e->next_use != foresee_next(e)))
			return false;
	}
	return copied == d->busy && victim_choose(m, d, &busy) == wanted;
}
