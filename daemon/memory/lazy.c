// SPDX-License-Identifier: MIT
/* Results that stay where they are, until somebody needs them. */
#include <errno.h>

#include "daemon/complaints.h"
#include "daemon/log.h"
#include "daemon/memory/internal.h"

bool dirty_reserve(struct memory_extent *e, uint32_t rows)
{
	/* Each row may cut one in two, and be another one than those, as it was born since. */
	return intervals_room(&e->dirty, 2 * rows + 1);
}

void clear_clean(struct memory_extent *e, uint64_t start, uint64_t end)
{
	uint64_t from, to, born;

	e->clears++;
	for (; intervals_first(&e->dirty, start, end, &from, &to, &born); start = to)
		intervals_clear(&e->valid, start, from);
	intervals_clear(&e->valid, start, end);
}

void dirty_lose(const struct memory_range *r)
{
	struct memory_extent *e = r->extent;
	uint64_t start, bytes;
	uint32_t i;

	for (i = 0; e->dirty.nr && i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		extent_hand_on(e, start, start + bytes);
	}
	if (e->dirty.nr)
		lost_take(e, r);
}

uint64_t dirty_bytes(const struct memory_buffer *b, uint64_t start, uint64_t end,
		     uint32_t *device)
{
	const struct look l = look_dirty(b, start, end);
	uint64_t sum = 0, oldest = UINT64_MAX, from, to, at, born;
	struct memory_extent *e;
	uint32_t done = 0;

	for (e = look_first(&l); e; e = look_on(&l, e, &done)) {
		done++;
		for (at = start; intervals_first(&e->dirty, at, end, &from, &to, &born); at = to) {
			sum += to - from;
			if (oldest < e->number)
				continue;
			oldest = e->number;
			*device = e->device;
		}
	}
	return sum;
}

/* (locked) Who needs them may try again and again, and many may. */
static void complain(const struct memory_extent *e, uint64_t from, uint64_t to, int err)
{
	/* By device: it is hardly for one user alone that it fails. */
	static struct complaints said;
	uint64_t unsaid;

	if (complaints_say_now(&said, e->device, &unsaid))
		log_err("bytes of a buffer can't be had from a device: who reads them fails",
			log_u64("device", e->device), log_u64("offset", from),
			log_u64("bytes", to - from), log_u64("unsaid", unsaid), log_errno(err));
}

static bool may_write(const void *arg, const struct memory_range *u)
{
	(void)arg;
	return u->access & ARAX_OUT && !u->left;
}

/* How bytes come to the host: without what tasks are at work on; for nobody who needs them. */
#define FLUSH_SPARE	1u
#define FLUSH_QUIET	2u

#define ROW_LOOKS	16u

/* (locked) The first bytes of start..end that are dirty, and to be brought so. */
static bool first_dirty(const struct memory_extent *e, uint64_t start, uint64_t end, uint32_t how,
			uint64_t *from, uint64_t *to, uint64_t *born)
{
	uint64_t at, until;

	for (; extent_first_dirty(e, start, end, from, to, born); start = until) {
		if (!(how & FLUSH_SPARE) || !users_first(e, *from, *to, may_write, NULL, &at, &until))
			return true;
		*to = at;
		if (at > *from)
			return true;
	}
	return false;
}

/*
 * (locked) The host has start..end as it was when that was copied.  FLUSH_SPARE: where tasks may have
 * been at work on it nobody knows what that is.
 */
static int clean(struct memory_extent *e, uint64_t start, uint64_t end, uint32_t how)
{
	uint64_t from = end, to = end;
	int err = 0;

	for (; start < end && !err; start = to) {
		if (how & FLUSH_SPARE)
			users_first(e, start, end, may_write, NULL, &from, &to);
		/* Whoever writes there now is not the one whose bytes were wanted. */
		err = intervals_clear_old(&e->dirty, start, from, DIRTY_BEFORE);
	}
	return err;
}

/*
 * A task that comes meanwhile may write there: no race, as what has come of that is not used then (see
 * clean()).
 */
static int copy_beside(struct memory *m, const struct memory_extent *e, uint64_t from, uint64_t to)
{
	int err;

	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	err = extent_copy(m, e, 0, false, from, to);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return err;
}

/* (flushing, locked) One piece; @e is busy.  The lock is let go meanwhile.  What comes is added to *@moved. */
static int flush_piece(struct memory *m, struct memory_extent *e, uint64_t from, uint64_t to,
		       uint32_t how, uint64_t *moved)
{
	int err = -EIO;

	if (e->lost)
		return err;	/* it was said when it went */
	pthread_mutex_unlock(&m->lock);
	/* Copies may come beside what the lanes do, from any thread. */
	if (how & FLUSH_SPARE)
		err = copy_beside(m, e, from, to);
	else
		err = extent_copy(m, e, 0, false, from, to);
	memory_lock(m);
	e->silent = err == -ENODEV;
	*moved += err ? 0 : to - from;
	if (!err)
		extent_stuck(e, false);
	if (!err)
		err = clean(e, from, to, how);
	extent_dirtied(e);
	if (err && !(how & FLUSH_QUIET))
		complain(e, from, to, err);
	return err;
}

/* (flushing, locked) What was dirty when it began. */
static int flush_from(struct memory *m, struct memory_extent *e, uint64_t start, uint64_t end,
		      uint32_t how, uint64_t *moved)
{
	uint64_t from, to, born;
	int err = 0;

	e->flushing = true;
	for (; !err && first_dirty(e, start, end, how, &from, &to, &born); start = to)
		if (born == DIRTY_BEFORE)
			err = flush_piece(m, e, from, to, how, moved);
	e->flushing = false;
	if (e->since)
		intervals_renew(&e->dirty, e->start, e->end, FOREVER, DIRTY_BEFORE);
	e->since = false;
	return err;
}

int extent_flush(struct memory *m, struct memory_extent *e)
{
	uint64_t moved = 0;
	int err;

	pthread_mutex_lock(&e->buffer->flushing);
	memory_lock(m);
	err = flush_from(m, e, e->start, e->end, 0, &moved);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&e->buffer->flushing);
	return err;
}

/* (locked) */
static struct memory_extent *find_crowded(const struct look *l)
{
	struct memory_extent *e = look_first(l);

	while (e && !has_too_many_dirty(e))
		e = look_next(l, e);
	return e;
}

void dirty_thin_out(struct memory *m, struct memory_buffer *b)
{
	const struct look l = look_dirty(b, 0, UINT64_MAX);
	struct memory_extent *e;
	uint64_t moved = 0;
	bool crowded;

	memory_lock(m);
	crowded = b->crowded;
	b->crowded = false;
	pthread_mutex_unlock(&m->lock);
	if (!crowded)
		return;
	/* With it, nobody lets one go meanwhile that has dirty bytes. */
	pthread_mutex_lock(&b->flushing);
	memory_lock(m);
	while ((e = find_crowded(&l))) {
		extent_busy(e);
		flush_from(m, e, e->start, e->end, FLUSH_SPARE | FLUSH_QUIET, &moved);
		/* What is left is tasks' at work, or can't be had: until there is much more of it. */
		e->too_many = e->dirty.nr <= UINT32_MAX / 2 ? 2 * e->dirty.nr : UINT32_MAX;
		extent_idle(e);
		pthread_cond_broadcast(&m->settled);
	}
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&b->flushing);
}

/* What is lost, or on a lost device, matters: it is needed, or can't be told from what lies between it. */
static bool minds_loss(const struct memory_range *r)
{
	return r->access & ARAX_IN || memory_rows(r) > MEMORY_MAX_ROWS;
}

/* (locked) @lost: bytes that nobody has, or a lost device, are among them. */
static struct memory_extent *find_dirty(const struct memory_buffer *b, uint64_t start,
					uint64_t end, bool lost, uint32_t how)
{
	const struct look l = look_dirty(b, start, end);
	uint64_t from, to, born;
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e))
		if ((lost || !(e->lost || e->silent)) &&
		    first_dirty(e, start, end, how, &from, &to, &born))
			return e;
	return NULL;
}

static int flush(struct memory *m, struct memory_buffer *b, uint64_t start, uint64_t end, bool lost,
		 uint32_t how, uint64_t *moved)
{
	struct memory_extent *e;
	int err = 0;

	if (!b->lazy)
		return 0;
	/* Who is at it already may be bringing just these bytes. */
	pthread_mutex_lock(&b->flushing);
	memory_lock(m);
	while (!err && (e = find_dirty(b, start, end, lost, how))) {
		extent_busy(e);
		err = flush_from(m, e, start, end, how, moved);
		/* Its device is lost: whoever is to write over them can do without. */
		if (!lost && e->silent)
			err = 0;
		extent_idle(e);
		pthread_cond_broadcast(&m->settled);
	}
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&b->flushing);
	/* Not this task's device is lost. */
	return err ? -EIO : 0;
}

int buffer_flush(struct memory *m, struct memory_buffer *b, uint64_t start, uint64_t end,
		 bool lost)
{
	uint64_t moved = 0;

	return flush(m, b, start, end, lost, 0, &moved);
}

bool is_dirty(const struct memory_buffer *b, uint64_t start, uint64_t end)
{
	return b->lazy && find_dirty(b, start, end, true, 0);
}

int memory_flush(struct memory *m, struct memory_range *r)
{
	uint64_t start, bytes;
	uint32_t i;
	int err = 0;

	/*
	 * What lies between so many rows stays lost, and memory_host_wrote() can't tell it apart.  But others
	 * may be at work there, beside whoever needs the rows: also of one that memory_piece() gave.
	 */
	if (r->buffer && memory_rows(r) > MEMORY_MAX_ROWS)
		return flush(m, r->buffer, r->offset, memory_range_end(r), true, FLUSH_SPARE, &r->moved);
	for (i = 0; r->buffer && !err && i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		err = flush(m, r->buffer, start, start + bytes, minds_loss(r), FLUSH_SPARE, &r->moved);
	}
	/* It has cut some in two. */
	if (r->buffer && r->buffer->lazy)
		dirty_thin_out(m, r->buffer);
	return err;
}

/*
 * (locked) Some of its rows: what lies between them may be another's.  Many pieces may lie there, and who
 * asks serves everybody: true as well where that is not seen soon.
 */
static bool has_dirty_rows(const struct memory_range *r)
{
	struct look l = look_dirty(r->buffer, r->offset, memory_range_end(r));
	uint32_t row, rows = memory_rows(r), looks = 0;
	uint64_t at, from, to, born, bytes;
	struct memory_extent *e;

	if (rows == 1 || rows > MEMORY_MAX_ROWS)
		return true;
	l.rows = r;
	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if ((e->lost || e->silent) && !minds_loss(r))
			continue;
		/* From one dirty piece to the row behind it that is not before the next. */
		for (at = l.start; first_dirty(e, at, l.end, 0, &from, &to, &born); ) {
			row = memory_row_behind(r, from);
			if (row == rows)
				break;
			at = memory_row(r, row, &bytes);
			if (at < to || ++looks == ROW_LOOKS)
				return true;
		}
		if (++looks >= ROW_LOOKS)
			return true;
	}
	return false;
}

bool memory_is_dirty(struct memory *m, const struct memory_range *r)
{
	bool dirty;

	if (!r->buffer || !r->buffer->lazy)
		return false;
	memory_lock(m);
	dirty = find_dirty(r->buffer, r->offset, memory_range_end(r), minds_loss(r), 0) &&
		has_dirty_rows(r);
	pthread_mutex_unlock(&m->lock);
	return dirty;
}

/* (locked) */
static bool is_dirty_on(const struct memory_buffer *b, uint32_t device, uint64_t start,
			uint64_t end)
{
	struct look l = look_dirty(b, start, end);
	uint64_t from, to, born;
	struct memory_extent *e;

	l.from = device;
	l.to = device;
	for (e = look_first(&l); e; e = look_next(&l, e))
		/* What was lost before is to be written anew first; or else nobody gets to read it. */
		if (!e->lost && intervals_first(&e->dirty, start, end, &from, &to, &born))
			return true;
	return false;
}

/* (locked) By their hulls: rows of one may lie between those of the other. */
static bool consumes(const struct memory_range *out, const struct memory_range *in,
		     uint32_t device)
{
	uint64_t start = out->offset > in->offset ? out->offset : in->offset;
	uint64_t end = memory_range_end(out), in_end = memory_range_end(in);

	end = end < in_end ? end : in_end;
	return out->access & ARAX_OUT && in->access & ARAX_IN && out->buffer == in->buffer &&
	       start < end && is_dirty_on(out->buffer, device, start, end);
}

bool memory_consumes(struct memory *m, uint32_t device, const struct memory_range *ranges,
		     uint32_t nr)
{
	bool yes = false;
	uint32_t i, j;

	memory_lock(m);
	for (i = 0; i < nr && !yes; i++)
		for (j = 0; ranges[i].buffer->lazy && j < nr && !yes; j++)
			yes = consumes(&ranges[i], &ranges[j], device);
	pthread_mutex_unlock(&m->lock);
	return yes;
}

uint64_t memory_dirty(struct memory *m, const struct memory_range *ranges, uint32_t nr,
		      uint64_t *ns)
{
	uint64_t sum = 0, bytes;
	uint32_t i, where;

	*ns = 0;
	memory_lock(m);
	for (i = 0; i < nr; i++) {
		if (!ranges[i].buffer || !ranges[i].buffer->lazy)
			continue;
		bytes = dirty_bytes(ranges[i].buffer, ranges[i].offset,
				    memory_range_end(&ranges[i]), &where);
		if (bytes)
			*ns += (uint64_t)rate_ns(&m->devices[where].out, bytes);
		sum += bytes;
	}
	pthread_mutex_unlock(&m->lock);
	return sum;
}
