// SPDX-License-Identifier: MIT
/* Room on a device: allocating, evicting. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/memory/internal.h"

/* A buffer that is not above this part of the device is one extent. */
#define WHOLE_PART	16

/* Pieces of larger ones begin and end at multiples of this, where that is little. */
#define GRAIN		(64ull << 10)
#define GRAIN_PART	256

/*
 * GreedyDual-Size: worth is the cost of having it back for each byte of room, and of saving
 * what is here alone, on top of what the last one to go was worth, which is how time passes.
 */
void extent_used(struct memory *m, struct memory_extent *e)
{
	struct memory_device *d = &m->devices[e->device];

	uint64_t alone = intervals_bytes(&e->dirty);
	double cost = rate_ns(&d->in, intervals_bytes(&e->valid));

	if (alone)
		cost += rate_ns(&d->out, alone);
	e->worth = d->inflation + cost / (double)(e->end - e->start);
}

static void leave_device(struct memory *m, struct memory_extent *e)
{
	struct memory_device *d = &m->devices[e->device];

	victim_never(e);
	extent_stuck(e, false);
	*e->prev = e->next;
	if (e->next)
		e->next->prev = e->prev;
	d->stats.used -= e->end - e->start;
	d->stats.extents--;
}

void extent_remove(struct memory *m, struct memory_extent *e)
{
	extent_unlink(e);
	if (!e->lost)
		leave_device(m, e);
}

/* What the manager knows of it; its place on the device is another's now. */
static void extent_forget(struct memory_extent *e)
{
	intervals_destroy(&e->valid);
	intervals_destroy(&e->filled);
	intervals_destroy(&e->dirty);
	free(e->map);
	free(e);
}

void extent_free(struct memory *m, struct memory_extent *e)
{
	struct memory_device *d = &m->devices[e->device];

	if (!e->lost)
		d->ops.free(d->dev, e->address);
	extent_forget(e);
}

/* (locked) What is there alone goes to the host first.  Then it can be let go, or an error. */
static int save(struct memory *m, struct memory_extent *e, const struct memory_until *until)
{
	int err;

	if (!e->dirty.nr)
		return 0;
	extent_busy(e);
	e->leaving = true;
	e->buffer->leaving++;
	pthread_mutex_unlock(&m->lock);
	err = extent_flush(m, e, until);
	memory_lock(m);
	extent_idle(e);
	e->leaving = false;
	e->buffer->leaving--;
	pthread_cond_broadcast(&m->settled);
	return err;
}

/* (entering, locked) Whether the task would have room beside what can't be saved, and may be its own. */
static bool fits_beside(const struct memory *m, const struct memory_device *d)
{
	uint64_t bytes = d->unsaved, start, end;
	const struct memory_extent *e;
	uint32_t i;

	for (i = 0; i < d->nr_ranges; i++) {
		if (!task_part(d->ranges, d->nr_ranges, i, &start, &end))
			continue;
		e = extent_find(d->ranges[i].buffer, (uint32_t)(d - m->devices), start, end);
		bytes += e && e->stuck ? 0 : end - start;
	}
	return bytes <= d->stats.bytes;
}

/*
 * (entering, locked) One that has been saved, or NULL with the error, if it is one.  What can't be
 * saved is in the way of others' tasks only where nothing else can go, now or when others have ended.
 * What was being saved for a task that is canceled meanwhile stays, and has less left to save.
 */
static struct memory_extent *save_one(struct memory *m, struct memory_device *d, int *err)
{
	struct memory_extent *victim;
	bool busy, none;
	int over;

	*err = 0;
	for (;;) {
		victim = victim_choose(m, d, &busy);
		none = !victim || (*err && victim->stuck);
		if (none && busy) {
			over = memory_await(m, &m->settled, d->until);
			if (!over)
				continue;
			*err = over;
			return NULL;
		}
		if (none) {
			if (*err && d->held && fits_beside(m, d))
				*err = -ENOMEM;
			return NULL;
		}
		*err = save(m, victim, d->until);
		if (!*err)
			return victim;
		over = memory_until_over(d->until);
		if (over) {
			*err = over;
			return NULL;
		}
		if (*err == -ENODEV)
			return NULL;
		/* Unless somebody has written over it meanwhile. */
		if (victim->dirty.nr)
			extent_stuck(victim, true);
	}
}

enum evicted { NONE_CAN_GO, ONE_IS_GONE, TAKEN_OVER };

/*
 * Or an error.  A program that goes through its data by pieces of one size needs no allocation
 * for each: the new one takes the place of the old one.  What is in it is never read, see
 * load_row().
 */
static int evict_one(struct memory *m, struct memory_device *d, uint64_t bytes, uint64_t *address)
{
	struct memory_extent *victim;
	int err;

	memory_lock(m);
	d->wanting++;
	if (d->yielding)
		pthread_cond_broadcast(&m->settled);
	victim = save_one(m, d, &err);
	d->wanting--;
	if (victim) {
		if (d->inflation < victim->worth)
			d->inflation = victim->worth;
		d->stats.evictions++;
		extent_remove(m, victim);
		foresee_overflow(m, d);
	}
	pthread_mutex_unlock(&m->lock);
	if (!victim)
		return err;
	if (d->ops.moves && victim->end - victim->start == bytes) {
		*address = victim->address;
		extent_forget(victim);
		return TAKEN_OVER;
	}
	extent_free(m, victim);
	return ONE_IS_GONE;
}

/* (locked) What of @at..@last is dirty in @from and has been copied to @to is dirty there instead. */
static void hand_on(struct memory_extent *from, struct memory_extent *to, uint64_t at, uint64_t last)
{
	uint64_t end, begin, stop, born;

	for (; intervals_first(&from->dirty, at, last, &begin, &end, &born); at = end) {
		for (; intervals_first(&to->valid, begin, end, &begin, &stop, &born); begin = stop) {
			if (!intervals_room(&to->dirty, 2) || !intervals_room(&from->dirty, 1))
				return;
			intervals_set(&to->dirty, begin, stop, FOREVER, dirty_born(to));
			intervals_clear(&from->dirty, begin, stop);
			extent_dirtied(to);
			extent_dirtied(from);
		}
	}
}

void extent_hand_on(struct memory_extent *e, uint64_t start, uint64_t end)
{
	const struct look l = look_bytes(e->buffer, start, end);
	struct memory_extent *o;

	for (o = look_first(&l); o; o = look_next(&l, o))
		if (o != e && !o->lost && !o->leaving)
			hand_on(e, o, start, end);
}

/* (locked) */
static void lose(struct memory_extent *e)
{
	const struct memory_range all = { .offset = e->start, .length = e->end - e->start, .count = 1 };

	extent_hand_on(e, e->start, e->end);
	lost_take(e, &all);
}

/* @all: what the device doesn't give any more is lost. */
static int drop(struct memory *m, uint32_t device, bool all)
{
	struct memory_device *d = &m->devices[device];
	struct memory_extent *e;
	bool busy;
	int err = 0;

	memory_lock(m);
	d->wanting++;
	if (d->yielding)
		pthread_cond_broadcast(&m->settled);
	while (!err && d->extents) {
		e = victim_choose(m, d, &busy);
		if (!e && busy) {
			pthread_cond_wait(&m->settled, &m->lock);
			continue;
		}
		if (!e)
			break;
		err = save(m, e, NULL);
		if (err && !all)
			break;
		/* Somebody tries just now: then it comes again. */
		if (err && e->busy) {
			err = 0;
			continue;
		}
		if (err)
			lose(e);
		err = 0;
		extent_remove(m, e);
		pthread_mutex_unlock(&m->lock);
		extent_free(m, e);
		memory_lock(m);
	}
	/* memory_buffer_gone() takes some of them at any time. */
	while (d->freeing)
		pthread_cond_wait(&m->settled, &m->lock);
	d->wanting--;
	foresee_room(m, d);
	pthread_mutex_unlock(&m->lock);
	return err && err != -ENODEV ? -EIO : err;
}

int memory_drop(struct memory *m, uint32_t device)
{
	return drop(m, device, false);
}

void memory_lose(struct memory *m, uint32_t device)
{
	drop(m, device, true);
}

/*
 * The device may be full before its size says so: there are gaps, and others.  And what
 * memory_buffer_gone() frees counts no longer, but is there until it has been freed: nobody else
 * has to go for that, see wait_for_room().
 */
static int alloc(struct memory *m, struct memory_device *d, uint64_t bytes, void *host,
		 uint64_t *address)
{
	int err, gone;

	/* Nobody who goes makes room for that. */
	if (d->ops.largest && bytes > d->ops.largest)
		return -ENOMEM;
	for (;;) {
		bool room, freeing;

		memory_lock(m);
		room = bytes <= d->stats.bytes && d->stats.used <= d->stats.bytes - bytes;
		freeing = d->freeing;
		pthread_mutex_unlock(&m->lock);
		err = room ? d->ops.alloc(d->dev, bytes, host, address) : -ENOMEM;
		if (err != -ENOMEM || bytes > d->stats.bytes || (room && freeing))
			return err;
		gone = evict_one(m, d, bytes, address);
		if (gone == TAKEN_OVER)
			return 0;
		if (gone != ONE_IS_GONE)
			return gone ? gone : err;
	}
}

/*
 * Nothing has to go for what may not be used, nor shall it make memory scarce, which is when the order of
 * tasks begins to go by it.
 */
static int alloc_ahead(struct memory *m, struct memory_device *d, uint64_t bytes, void *host,
		       uint64_t *address)
{
	const uint64_t most = d->stats.bytes / 16 * TIGHT_FROM;
	bool room;

	memory_lock(m);
	room = bytes < most && d->stats.used < most - bytes && !d->tight && !d->freeing;
	pthread_mutex_unlock(&m->lock);
	return room ? d->ops.alloc(d->dev, bytes, host, address) : -ENOMEM;
}

static void widen(const struct memory_device *d, const struct memory_buffer *b, uint64_t *start,
		  uint64_t *end)
{
	if (b->bytes <= d->stats.bytes / WHOLE_PART) {
		*start = 0;
		*end = b->bytes;
		return;
	}
	if (GRAIN > d->stats.bytes / GRAIN_PART)
		return;
	*start -= *start % GRAIN;
	*end += (GRAIN - *end % GRAIN) % GRAIN;
	if (*end > b->bytes)
		*end = b->bytes;
}

static bool reserve_lost(struct memory *m, struct memory_buffer *b, uint32_t device)
{
	bool reserved;

	memory_lock(m);
	reserved = lost_reserve(b, device);
	pthread_mutex_unlock(&m->lock);
	return reserved;
}

static int extent_create(struct memory *m, struct memory_buffer *b, uint32_t device,
			 uint64_t start, uint64_t end, bool ahead, struct memory_extent **out)
{
	struct memory_device *d = &m->devices[device];
	struct memory_extent *e;
	int err;

	if (b->lazy && !reserve_lost(m, b, device))
		return -ENOMEM;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	err = (ahead ? alloc_ahead : alloc)(m, d, end - start, b->host + start, &e->address);
	if (err) {
		free(e);
		return err;
	}
	e->buffer = b;
	e->device = device;
	e->pins = 1;
	e->start = start;
	e->end = end;
	memory_lock(m);
	e->number = ++m->created;
	extent_link(m, e);
	e->next = d->extents;
	e->prev = &d->extents;
	if (e->next)
		e->next->prev = &e->next;
	d->extents = e;
	d->stats.used += end - start;
	d->stats.extents++;
	foresee_room(m, d);
	pthread_mutex_unlock(&m->lock);
	*out = e;
	return 0;
}

struct need {
	uint64_t bytes;
	enum extent_fit fit;
	uint64_t payer;
};

/* (locked) Using it keeps nothing from going, or costs nothing, that the task has no need of. */
static bool is_fit(const struct memory_extent *e, const void *arg)
{
	const struct need *n = arg;

	return n->fit == FIT_WIDE || e->end - e->start <= n->bytes ||
	       (n->fit == FIT_ROOM && e->pins) ||
	       (n->fit == FIT_QUOTA && extent_holder(e, n->payer, true));
}

int extent_get(struct memory *m, struct memory_buffer *b, uint32_t device, uint64_t start,
	       uint64_t end, enum extent_fit fit, uint64_t payer, struct memory_extent **out)
{
	const struct need need = { end - start, fit, payer };
	struct memory_device *d = &m->devices[device];

	memory_lock(m);
	*out = extent_newest(b, device, start, end, is_fit, &need);
	if (*out)
		extent_pin(*out);
	pthread_mutex_unlock(&m->lock);
	if (*out)
		return 0;
	if (fit == FIT_WIDE)
		widen(d, b, &start, &end);
	return extent_create(m, b, device, start, end, false, out);
}

struct memory_extent *extent_get_ahead(struct memory *m, struct memory_buffer *b, uint32_t device,
				       uint64_t start, uint64_t end)
{
	struct memory_extent *e = NULL;
	bool wanted;

	memory_lock(m);
	wanted = device_is_wanted(m, &m->devices[device]);
	if (!wanted)
		e = extent_find(b, device, start, end);
	if (e) {
		extent_busy(e);
		e->bringing++;
	}
	pthread_mutex_unlock(&m->lock);
	if (e || wanted)
		return e;
	widen(&m->devices[device], b, &start, &end);
	if (extent_create(m, b, device, start, end, true, &e))
		return NULL;
	memory_lock(m);
	extent_busy(e);
	e->bringing++;
	extent_unpin(e);
	extent_is_ahead(e);
	pthread_mutex_unlock(&m->lock);
	return e;
}
