// SPDX-License-Identifier: MIT
/* Results that stay where they are, until somebody needs them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/*
 * Pieces that lie close go by one copy, to a buffer that is araxd's own, as what lies between them is the
 * host's: each piece by itself would take as long as some KiB do.
 */
#define CLOSE_BYTES	(16u << 10)
#define GATHER_BYTES	(1u << 20)
#define GATHER_PIECES	1024u

/* (locked) As many are gone through whenever somebody asks; of more it is known what all of them are. */
static uint64_t dirty_in(struct memory_extent *e, uint64_t start, uint64_t end, uint32_t *pieces)
{
	uint64_t sum = 0, from, to, at, born;

	*pieces = intervals_between(&e->dirty, start, end);
	if (*pieces <= MEMORY_AT_ONCE) {
		for (at = start; intervals_first(&e->dirty, at, end, &from, &to, &born); at = to)
			sum += to - from;
		return sum;
	}
	if (!e->summed)
		e->dirty_sum = intervals_bytes(&e->dirty);
	e->summed = true;
	if (*pieces == e->dirty.nr && start <= e->start && end >= e->end)
		return e->dirty_sum;
	/* About. */
	sum = (uint64_t)((double)e->dirty_sum * *pieces / e->dirty.nr);
	sum = sum < end - start ? sum : end - start;
	return sum ? sum : 1;
}

/* (locked) Until those have come to the host: see gather(). */
static uint64_t copies_of(const struct memory_extent *e, uint64_t start, uint64_t end, uint32_t pieces)
{
	const uint64_t from = start > e->start ? start : e->start, to = end < e->end ? end : e->end;

	if (pieces < 2 || e->lost || !e->buffer->memory->devices[e->device].ops.moves ||
	    (to - from) / pieces > CLOSE_BYTES)
		return pieces;
	return 1 + (to - from) / GATHER_BYTES + pieces / GATHER_PIECES;
}

uint64_t dirty_bytes(const struct memory_buffer *b, uint64_t start, uint64_t end, uint32_t *device,
		     uint64_t *copies)
{
	const struct look l = look_dirty(b, start, end);
	uint64_t sum = 0, oldest = UINT64_MAX;
	struct memory_extent *e;
	uint32_t done = 0, pieces;

	*copies = 0;
	for (e = look_first(&l); e; e = look_on(&l, e, &done)) {
		done++;
		sum += dirty_in(e, start, end, &pieces);
		*copies += copies_of(e, start, end, pieces);
		if (!pieces || oldest < e->number)
			continue;
		oldest = e->number;
		*device = e->device;
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

/**
 * struct want - bytes that are to come to the host, @start .. @end - 1
 * @rows:	of these only that range's rows; may be NULL
 * @lost:	they are needed: also those that nobody has
 * @how:	see above
 * @until:	no longer than that; may be NULL
 * @hurried:	not even until who is at it already has done
 * @over:	out: what it ended with, as of memory_until_over(), or -EAGAIN if it is @hurried
 */
struct want {
	uint64_t start, end;
	const struct memory_range *rows;
	bool lost;
	uint32_t how;
	const struct memory_until *until;
	bool hurried;
	int over;
};

/* What of from..to is in a row; else *@next is where the next one begins.  False: it is in none. */
static bool first_row(const struct memory_range *r, uint64_t *from, uint64_t *to, uint64_t *next)
{
	const uint32_t row = memory_row_behind(r, *from);
	uint64_t start, bytes;

	*next = UINT64_MAX;
	if (row == memory_rows(r))
		return false;
	start = memory_row(r, row, &bytes);
	*next = start;
	if (start >= *to)
		return false;
	*from = *from > start ? *from : start;
	*to = *to < start + bytes ? *to : start + bytes;
	return true;
}

/* (locked) The first bytes from @start on that are dirty, and to be brought so. */
static bool first_dirty(const struct memory_extent *e, const struct want *w, uint64_t start,
			uint64_t *from, uint64_t *to, uint64_t *born)
{
	uint64_t at, until;

	for (; extent_first_dirty(e, start, w->end, from, to, born); start = until) {
		if (w->rows && !first_row(w->rows, from, to, &until))
			continue;
		if (!(w->how & FLUSH_SPARE) ||
		    !users_first(e, *from, *to, may_write, NULL, &at, &until))
			return true;
		*to = at;
		if (at > *from)
			return true;
	}
	return false;
}

/**
 * struct gathered - pieces of an extent that go to the host at once
 * @v, @nr, @most: these, in their order
 * @at:		where to go on
 * @hull:	room for all from the first to the last of them; NULL: it is one
 */
struct gathered {
	struct interval one;
	struct interval *v;
	uint32_t nr, most;
	uint64_t at;
	uint8_t *hull;
};

/* (locked) False: there is no memory, or the device copies to the buffer's own pages alone. */
static bool may_gather(const struct memory_extent *e, struct gathered *g)
{
	if (g->hull)
		return true;
	if (e->lost || !e->buffer->memory->devices[e->device].ops.moves)
		return false;
	g->v = malloc(GATHER_PIECES * sizeof(*g->v));
	g->hull = malloc(GATHER_BYTES);
	if (g->v && g->hull) {
		g->v[0] = g->one;
		g->most = GATHER_PIECES;
		return true;
	}
	free(g->v);
	free(g->hull);
	g->v = &g->one;
	g->hull = NULL;
	return false;
}

static void end_gathering(struct gathered *g)
{
	if (!g->hull)
		return;
	free(g->v);
	free(g->hull);
}

/* (locked) The next ones; false: there are none. */
static bool gather(const struct memory_extent *e, const struct want *w, struct gathered *g)
{
	uint64_t from, to, born;

	for (g->nr = 0; first_dirty(e, w, g->at, &from, &to, &born); g->at = to) {
		if (born != DIRTY_BEFORE)
			continue;
		if (g->nr && (from - g->v[g->nr - 1].end > CLOSE_BYTES ||
			      to - g->v[0].start > GATHER_BYTES || !may_gather(e, g) ||
			      g->nr == g->most))
			break;
		g->v[g->nr++] = (struct interval){ .start = from, .end = to };
	}
	return g->nr;
}

/*
 * A task that comes meanwhile may write there: no race, as what has come of that is not used then (see
 * clean()).  Nor is it where one writes between the pieces.
 */
static int copy_beside(struct memory *m, const struct memory_extent *e, void *to, uint64_t start,
		       uint64_t end)
{
	int err;

	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	err = extent_copy_out(m, e, to, start, end);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return err;
}

/* Of the host's pages nothing is written but the pieces. */
static int copy_gathered(struct memory *m, const struct memory_extent *e, const struct gathered *g,
			 uint32_t how)
{
	const uint64_t start = g->v[0].start, end = g->v[g->nr - 1].end;
	uint8_t *host = e->buffer->host;
	int err;

	/* Copies may come beside what the lanes do, from any thread. */
	if (g->nr == 1 && (!(how & FLUSH_QUIET) || !g->hull || end - start > GATHER_BYTES))
		return how & FLUSH_SPARE ? copy_beside(m, e, host + start, start, end) :
					   extent_copy_out(m, e, host + start, start, end);
	err = copy_beside(m, e, g->hull, start, end);
	for (uint32_t i = 0; !err && i < g->nr; i++)
		memcpy(host + g->v[i].start, g->hull + (g->v[i].start - start),
		       g->v[i].end - g->v[i].start);
	return err;
}

/*
 * (locked) The host has them as they were when they were copied.  FLUSH_SPARE: where tasks may have been
 * at work on it nobody knows what that is.
 */
static int clean(struct memory_extent *e, const struct gathered *g, uint32_t how)
{
	struct intervals had = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < g->nr; i++) {
		uint64_t start = g->v[i].start, end = g->v[i].end, from = end, to = end;

		for (; start < end && !err; start = to) {
			if (how & FLUSH_SPARE)
				users_first(e, start, end, may_write, NULL, &from, &to);
			err = intervals_set(&had, start, from, FOREVER, DIRTY_BEFORE);
		}
	}
	/* Whoever writes there now is not the one whose bytes were wanted. */
	if (!err)
		err = intervals_clear_old(&e->dirty, &had, DIRTY_BEFORE);
	intervals_destroy(&had);
	return err;
}

/* (flushing, locked) @e is busy.  The lock is let go meanwhile.  What comes is added to *@moved. */
static int flush_gathered(struct memory *m, struct memory_extent *e, const struct gathered *g,
			  uint32_t how, uint64_t *moved)
{
	int err = -EIO;

	if (e->lost)
		return err;	/* it was said when it went */
	pthread_mutex_unlock(&m->lock);
	err = copy_gathered(m, e, g, how);
	memory_lock(m);
	e->silent = err == -ENODEV;
	for (uint32_t i = 0; !err && i < g->nr; i++)
		*moved += g->v[i].end - g->v[i].start;
	if (!err)
		extent_stuck(e, false);
	if (!err)
		err = clean(e, g, how);
	extent_dirtied(e);
	if (err && !(how & FLUSH_QUIET))
		complain(e, g->v[0].start, g->v[g->nr - 1].end, err);
	return err;
}

/* (flushing, locked) What was dirty when it began. */
static int flush_from(struct memory *m, struct memory_extent *e, struct want *w, uint64_t *moved)
{
	struct gathered g = { .v = &g.one, .most = 1, .at = w->start };
	int err = 0;

	e->flushing = true;
	/* Whoever comes meanwhile writes while that is read: the host's pages don't get to see it. */
	if (w->how & FLUSH_QUIET)
		may_gather(e, &g);
	while (!err && gather(e, w, &g)) {
		w->over = memory_until_over(w->until);
		err = w->over ? w->over : flush_gathered(m, e, &g, w->how, moved);
	}
	e->flushing = false;
	if (e->since)
		intervals_renew(&e->dirty, e->start, e->end, FOREVER, DIRTY_BEFORE);
	e->since = false;
	end_gathering(&g);
	return err;
}

int extent_flush(struct memory *m, struct memory_extent *e, const struct memory_until *until)
{
	struct want all = { .start = e->start, .end = e->end, .until = until };
	uint64_t moved = 0;
	int err;

	memory_lock(m);
	err = turn_take(m, &e->buffer->flushing, until);
	if (!err) {
		err = flush_from(m, e, &all, &moved);
		turn_end(m, &e->buffer->flushing);
	}
	pthread_mutex_unlock(&m->lock);
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
	if (!crowded) {
		pthread_mutex_unlock(&m->lock);
		return;
	}
	/* With it, nobody lets one go meanwhile that has dirty bytes. */
	turn_take(m, &b->flushing, NULL);
	while ((e = find_crowded(&l))) {
		struct want all = {
			.start = e->start, .end = e->end, .how = FLUSH_SPARE | FLUSH_QUIET,
		};

		extent_busy(e);
		flush_from(m, e, &all, &moved);
		/* What is left is tasks' at work, or can't be had: until there is much more of it. */
		e->too_many = e->dirty.nr <= UINT32_MAX / 2 ? 2 * e->dirty.nr : UINT32_MAX;
		extent_idle(e);
		pthread_cond_broadcast(&m->settled);
	}
	turn_end(m, &b->flushing);
	pthread_mutex_unlock(&m->lock);
}

/* What is lost, or on a lost device, matters: it is needed, or can't be told from what lies between it. */
static bool minds_loss(const struct memory_range *r)
{
	return r->access & ARAX_IN || memory_rows(r) > MEMORY_MAX_ROWS;
}

/* (locked) */
static struct memory_extent *find_dirty(const struct memory_buffer *b, const struct want *w)
{
	struct look l = look_dirty(b, w->start, w->end);
	uint64_t from, to, born;
	struct memory_extent *e;

	l.rows = w->rows;
	for (e = look_first(&l); e; e = look_next(&l, e))
		if ((w->lost || !(e->lost || e->silent)) &&
		    first_dirty(e, w, w->start, &from, &to, &born))
			return e;
	return NULL;
}

static int flush(struct memory *m, struct memory_buffer *b, struct want *w, uint64_t *moved)
{
	struct memory_extent *e;
	int err = 0;

	if (!b->lazy)
		return 0;
	memory_lock(m);
	/* Who is at it already may be bringing just these bytes. */
	if (w->hurried)
		w->over = turn_try(m, &b->flushing) ? 0 : -EAGAIN;
	else
		w->over = turn_take(m, &b->flushing, w->until);
	if (w->over) {
		pthread_mutex_unlock(&m->lock);
		return w->over;
	}
	while (!err && (e = find_dirty(b, w))) {
		extent_busy(e);
		err = flush_from(m, e, w, moved);
		/* Its device is lost: whoever is to write over them can do without. */
		if (!w->lost && e->silent && !w->over)
			err = 0;
		extent_idle(e);
		pthread_cond_broadcast(&m->settled);
	}
	turn_end(m, &b->flushing);
	pthread_mutex_unlock(&m->lock);
	if (w->over)
		return w->over;
	/* Not this task's device is lost. */
	return err ? -EIO : 0;
}

int buffer_flush(struct memory *m, struct memory_buffer *b, uint64_t start, uint64_t end, bool lost,
		 bool patient, const struct memory_until *until)
{
	struct want w = {
		.start = start, .end = end, .lost = lost, .until = until, .hurried = !patient,
	};
	uint64_t moved = 0;

	return flush(m, b, &w, &moved);
}

bool is_dirty(const struct memory_buffer *b, uint64_t start, uint64_t end)
{
	const struct want w = { .start = start, .end = end, .lost = true };

	return b->lazy && find_dirty(b, &w);
}

/* Rows that are looked for at once. */
#define FLUSH_ROWS	256u

int memory_flush(struct memory *m, struct memory_range *r)
{
	struct want w = { .how = FLUSH_SPARE };
	struct memory_range some = *r;
	uint32_t i, rows = memory_rows(r);
	int err = 0;

	/*
	 * What lies between so many rows stays lost, and memory_host_wrote() can't tell it apart.  But others
	 * may be at work there, beside whoever needs the rows: also of one that memory_piece() gave.
	 */
	if (r->buffer && rows > MEMORY_MAX_ROWS) {
		w.start = r->offset;
		w.end = memory_range_end(r);
		w.lost = true;
		return flush(m, r->buffer, &w, &r->moved);
	}
	w.lost = minds_loss(r);
	for (i = 0; r->buffer && !err && i < rows; i += FLUSH_ROWS) {
		if (rows > 1) {
			some.count = rows - i < FLUSH_ROWS ? rows - i : FLUSH_ROWS;
			some.offset = r->offset + (uint64_t)i * r->stride;
			w.rows = &some;
		}
		w.start = some.offset;
		w.end = memory_range_end(&some);
		err = flush(m, r->buffer, &w, &r->moved);
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
	const struct want all = { .start = l.start, .end = l.end };
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
		for (at = l.start; first_dirty(e, &all, at, &from, &to, &born); ) {
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
	struct want w = { .start = r->offset, .lost = minds_loss(r) };
	bool dirty;

	if (!r->buffer || !r->buffer->lazy)
		return false;
	w.end = memory_range_end(r);
	memory_lock(m);
	dirty = find_dirty(r->buffer, &w) && has_dirty_rows(r);
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
	uint64_t sum = 0, bytes, copies;
	uint32_t i, where;

	*ns = 0;
	memory_lock(m);
	for (i = 0; i < nr; i++) {
		if (!ranges[i].buffer || !ranges[i].buffer->lazy)
			continue;
		bytes = dirty_bytes(ranges[i].buffer, ranges[i].offset,
				    memory_range_end(&ranges[i]), &where, &copies);
		if (bytes)
			*ns += (uint64_t)rate_copies_ns(&m->devices[where].out, bytes, copies);
		sum += bytes;
	}
	pthread_mutex_unlock(&m->lock);
	return sum;
}
