// SPDX-License-Identifier: MIT
/* A task's ranges in, its results out. */
#include <errno.h>

#include "daemon/log.h"
#include "daemon/memory/internal.h"
#include "daemon/reason.h"
#include "uapi/arax.h"

/*
 * To register a page costs a driver ten times what it then saves with each copy of it: worth
 * it at once where copies are long, and elsewhere once there have been many.
 */
#define WORTH_REGISTERING	(64u << 10)
#define MANY_COPIES		8

static int copy(struct memory *m, const struct memory_extent *e, uint32_t lane, bool in, void *host,
		uint64_t start, uint64_t end)
{
	struct memory_device *d = &m->devices[e->device];
	uint64_t address = e->address + (start - e->start), began = memory_now_ns(), ns;
	int err;

	if (in)
		err = d->ops.copy_in(d->dev, lane, address, host, end - start);
	else
		err = d->ops.copy_out(d->dev, lane, host, address, end - start);
	if (err)
		return err < 0 ? err : -EIO;
	ns = memory_now_ns() - began;
	memory_lock(m);
	if (e->buffer->copies < MANY_COPIES)
		e->buffer->copies++;
	rate_learn(in ? &d->in : &d->out, end - start, ns);
	*(in ? &d->stats.copied_in : &d->stats.copied_out) += end - start;
	pthread_mutex_unlock(&m->lock);
	return 0;
}

int extent_copy(struct memory *m, const struct memory_extent *e, uint32_t lane, bool in,
		uint64_t start, uint64_t end)
{
	return copy(m, e, lane, in, e->buffer->host + start, start, end);
}

int extent_copy_out(struct memory *m, const struct memory_extent *e, void *to, uint64_t start,
		    uint64_t end)
{
	return copy(m, e, 0, false, to, start, end);
}

int memory_until_over(const struct memory_until *until)
{
	if (!until)
		return 0;
	if (__atomic_load_n(&until->canceled, __ATOMIC_RELAXED))
		return -ECANCELED;
	return until->deadline_ns && memory_now_ns() >= until->deadline_ns ? -ETIMEDOUT : 0;
}

/*
 * (locked) What another task is reading just now is as good as it was for that one,
 * since to write there meanwhile is an error; and it must not be copied in again
 * under its eyes.
 */
static void trust_readers(struct memory_extent *e, uint64_t start, uint64_t end, uint64_t born)
{
	const struct memory_range *u;
	uint64_t from, bytes;
	uint32_t i;

	for (u = e->users; u; u = u->next_user) {
		if (!u->loaded || !(u->access & ARAX_IN) || u->offset >= end ||
		    memory_range_end(u) <= start)
			continue;
		for (i = memory_row_behind(u, start); i < memory_rows(u); i++) {
			from = memory_row(u, i, &bytes);
			if (from >= end)
				break;
			intervals_renew(&e->valid, from > start ? from : start,
					from + bytes < end ? from + bytes : end, FOREVER, born);
		}
	}
}

/*
 * (locked) The first dirty bytes in start..end of an extent that @e's device can copy from
 * itself; NULL: there are none.  One that goes is on its way to the host already, and nobody
 * keeps it from going after that.
 */
static struct memory_extent *find_peer(const struct memory *m, const struct memory_extent *e,
				       uint64_t start, uint64_t end, uint64_t *from, uint64_t *to)
{
	struct look l = look_dirty(e->buffer, start, end);
	struct memory_extent *o, *first = NULL;
	uint64_t begin, stop, born;

	*from = end;
	for (o = look_first(&l); o; o = look_next(&l, o)) {
		if (o->lost || o->leaving || !are_peers(m, e->device, o->device) ||
		    !intervals_first(&o->dirty, start, end, &begin, &stop, &born) || begin >= *from)
			continue;
		first = o;
		*from = l.end = begin;
		*to = stop;
	}
	return first;
}

/* (locked) */
static bool is_less_lent(const struct memory *m, const struct memory_extent *e,
			 const struct memory_extent *than, const struct memory_extent *dirty)
{
	uint32_t one = m->devices[e->device].lent, other = m->devices[than->device].lent;

	return one < other || (one == other && than != dirty && e->number > than->number);
}

/*
 * (locked) Those bytes are dirty in @dirty, and other devices may have copied them: from which one
 * to copy, so that as few as can be share a link.  Of several the newest.
 */
static struct memory_extent *least_lent(struct memory *m, const struct memory_extent *e,
					struct memory_extent *dirty, uint64_t start, uint64_t end,
					uint64_t seq)
{
	const struct look l = look_bytes(e->buffer, start, start + 1);
	struct memory_extent *o, *best = dirty;
	uint64_t gap_start, gap_end;

	for (o = look_first(&l); o; o = look_next(&l, o)) {
		if (o == dirty || o->lost || o->leaving || !are_peers(m, e->device, o->device) ||
		    !is_less_lent(m, o, best, dirty) ||
		    intervals_gap(&o->valid, start, end, seq, 0, &gap_start, &gap_end))
			continue;
		best = o;
	}
	return best;
}

/*
 * What begins at @start and is on another device alone, from there; the host goes on without it.
 * 1: it is there; 0: it has to come by way of the host.  @end: up to where that is so.  Or as
 * memory_until_over().
 *
 * From one device one copy goes at a time: several at once would share its link, and all be late.
 * So the first one is there when the second one begins, which has two devices to copy from then.
 */
static int copy_peer(struct memory *m, struct memory_extent *e, const struct bringing *b,
		     uint64_t start, uint64_t *end)
{
	struct memory_device *d = &m->devices[e->device];
	uint64_t from, to, began, ns;
	struct memory_extent *o;
	int err;

	if (!d->ops.copy_peer || !e->buffer->lazy)
		return 0;
	memory_lock(m);
	for (;;) {
		to = *end;
		o = find_peer(m, e, start, *end, &from, &to);
		if (!o || from > start) {
			*end = from;
			pthread_mutex_unlock(&m->lock);
			return 0;
		}
		o = least_lent(m, e, o, start, to, b->seq);
		if (!b->patient || !m->devices[o->device].lent)
			break;
		err = memory_await(m, &m->settled, b->over);
		if (err) {
			pthread_mutex_unlock(&m->lock);
			return err;
		}
	}
	*end = to;
	extent_busy(o);
	m->devices[o->device].lent++;
	pthread_mutex_unlock(&m->lock);
	began = memory_now_ns();
	err = d->ops.copy_peer(d->dev, e->address + (start - e->start), m->devices[o->device].dev,
			       o->address + (start - o->start), to - start);
	ns = memory_now_ns() - began;
	memory_lock(m);
	extent_idle(o);
	m->devices[o->device].lent--;
	pthread_cond_broadcast(&m->settled);
	if (err) {
		if (err == -EOPNOTSUPP)
			d->strangers |= 1ull << o->device;
		log_info("no copy from device to device, but by way of the host",
			 log_u64("from", o->device), log_u64("to", e->device), log_errno(err));
	} else {
		rate_learn(&d->direct[o->device], to - start, ns);
		d->stats.copied_peer += to - start;
	}
	pthread_mutex_unlock(&m->lock);
	return !err;
}

/* To start..@*end of @e, from wherever they are. */
static int bring(struct memory *m, struct memory_extent *e, const struct bringing *b,
		 uint64_t start, uint64_t *end)
{
	int err = copy_peer(m, e, b, start, end);

	if (err)
		return err < 0 ? err : 0;
	/* Who only writes there makes good what was lost. */
	err = buffer_flush(m, e->buffer, start, *end, b->input, b->patient, b->over);
	return err ? err : extent_copy(m, e, b->lane, true, start, *end);
}

/*
 * (locked) start..@*end of a range are missing and will be brought, or the first of them.  Who has a
 * lane goes before who has none; and who has none leaves alone what the host has not, as whoever has it
 * may be about to write over it.  -EBUSY
 */
static int begin_piece(struct memory *m, const struct memory_extent *e, const struct bringing *b,
		       uint64_t start, uint64_t *end)
{
	if (b->most && *end - start > b->most)
		*end = start + b->most;
	if (b->ahead)
		return is_dirty(e->buffer, start, *end) ? -EBUSY : 0;
	m->devices[e->device].loading++;
	return 0;
}

/* (locked) */
static void end_piece(struct memory *m, const struct memory_extent *e, const struct bringing *b)
{
	struct memory_device *d = &m->devices[e->device];

	d->loading -= !b->ahead;
	/* Others may copy it from here. */
	if (e->buffer->lazy || (d->yielding && !d->loading))
		pthread_cond_broadcast(&m->settled);
}

/*
 * The host's pages may be written meanwhile, by a task behind one that has run elsewhere: no race, as
 * what has come is not used then (see @clears in load_piece()).
 */
static int copy_ahead(struct memory *m, const struct memory_extent *e, const struct bringing *b,
		      uint64_t start, uint64_t end)
{
	int err;

	AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	err = extent_copy(m, e, b->lane, true, start, end);
	AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return err;
}

int load_piece(struct memory *m, struct memory_range *r, struct bringing *b, uint64_t start,
	       uint64_t end)
{
	uint64_t born, clears, gap_start, gap_end;
	struct memory_extent *e = r->extent;
	int err = 0;
	bool gap;

	memory_lock(m);
	/*
	 * Whoever comes after the task may have written.  It is stopped before that is told here (as by
	 * memory_host_wrote()): so that is seen now, or @clears changes from here on.
	 */
	if (b->ahead && !b->ahead->go_on(b->ahead->arg)) {
		pthread_mutex_unlock(&m->lock);
		return -ECANCELED;
	}
	/* What came before that is not trusted. */
	if (!b->born || b->born < trusted_since(m, r))
		b->born = ++m->clock;
	born = b->born;
	if (!e->buffer->lazy)
		trust_readers(e, start, end, born);
	if (b->input)
		gap = behind_gap(e, &e->valid, b, start, end, b->seq, trusted_since(m, r),
				 &gap_start, &gap_end);
	else
		gap = intervals_gap(&e->filled, start, end, 0, 0, &gap_start, &gap_end);
	if (gap)
		err = begin_piece(m, e, b, gap_start, &gap_end);
	clears = e->clears;
	pthread_mutex_unlock(&m->lock);
	if (!gap || err)
		return err;
	err = memory_until_over(b->over);
	if (err) {
		memory_lock(m);
		end_piece(m, e, b);
		pthread_mutex_unlock(&m->lock);
		return err;
	}
	if (b->ahead)
		err = copy_ahead(m, e, b, gap_start, gap_end);
	else
		err = bring(m, e, b, gap_start, &gap_end);
	memory_lock(m);
	/* It may have run elsewhere meanwhile, and others after it: of that nothing is known. */
	if (!err && b->ahead && e->clears != clears)
		err = -ESTALE;
	if (!err) {
		r->moved += gap_end - gap_start;
		err = intervals_set(&e->filled, gap_start, gap_end, FOREVER, FOREVER);
	}
	if (!err && b->input)
		err = intervals_set(&e->valid, gap_start, gap_end,
				    e->buffer->lazy ? FOREVER : b->until, valid_born(e, born));
	end_piece(m, e, b);
	pthread_mutex_unlock(&m->lock);
	return err ? err : 1;
}

/* Copy in what of a row is not there: as an input, or for the first time. */
static int load_row(struct memory *m, struct memory_range *r, struct bringing *b,
		    uint64_t start, uint64_t end)
{
	int err;

	while ((err = load_piece(m, r, b, start, end)) > 0)
		;
	return err;
}

static int load(struct memory *m, struct memory_range *r, struct bringing *b)
{
	uint64_t start, bytes;
	uint32_t i;
	int err = 0;

	memory_lock(m);
	if (b->patient)
		err = turn_take(m, &r->extent->load, b->over);
	else
		err = turn_try(m, &r->extent->load) ? 0 : -EAGAIN;
	if (!err && b->own && b->input)
		behind_forget(m, r, b);
	pthread_mutex_unlock(&m->lock);
	if (err)
		return err;
	for (i = 0; i < memory_rows(r) && !err; i++) {
		start = memory_row(r, i, &bytes);
		err = load_row(m, r, b, start, start + bytes);
	}
	memory_lock(m);
	r->loaded = !err;
	turn_end(m, &r->extent->load);
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* (locked) -ENOMEM */
static int set_rows(struct memory *m, const struct memory_range *r, struct memory_extent *e)
{
	uint64_t born = valid_born(e, ++m->clock), bytes, start = memory_row(r, 0, &bytes);
	uint32_t rows = memory_rows(r);

	if (r->buffer->lazy && !dirty_reserve(e, rows))
		return -ENOMEM;
	intervals_set_rows(&e->valid, start, bytes, r->stride, rows, FOREVER, born);
	if (!r->buffer->lazy)
		return 0;
	intervals_set_rows(&e->dirty, start, bytes, r->stride, rows, FOREVER, dirty_born(e));
	extent_dirtied(e);
	return 0;
}

/*
 * (locked, for a while not) The rows of @r are as they should be in @keep, and at the host if the
 * buffer is not lazy; nowhere else.  At no time two extents have them for themselves alone.  After
 * -ENOMEM, as if the task had failed.
 */
static int wrote(struct memory *m, const struct memory_range *r, struct memory_extent *keep)
{
	const struct look l = look_rows(r->buffer, r);
	/* Of a kernel that failed nobody is to have anything, and what was lost of that stays so. */
	int err = look_clear_rows(&l, r, keep, keep != NULL);

	if (!err && keep)
		err = set_rows(m, r, keep);
	/* Nor of one whose rows can't be told from others': all are to read the same there. */
	if (err && keep)
		look_clear_rows(&l, r, NULL, false);
	return err;
}

/*
 * (locked, for a while not) What the task wrote on @device counts as if it had never begun: that is lost, or
 * it should not have run.  What was there alone before it is nowhere: who reads it is told, until somebody
 * has written over it.  The task may yet do that elsewhere, or end as one that did nothing.
 */
static void lost(struct memory *m, const struct memory_range *r, uint32_t device)
{
	struct look l = look_rows(r->buffer, r);

	/*
	 * First, and at once: as the task is not at work on it any more, anybody may take it for good, or hand on
	 * to it what it was a copy of.
	 */
	dirty_lose(r);
	clear_clean_rows(r->extent, r);
	l.from = device;
	l.to = device;
	look_clear_clean(&l, r);
}

/* (locked) Nobody trusts what a task has brought, unless somebody is reading it. */
static void forget(const struct memory_range *r)
{
	uint64_t start, bytes;
	uint32_t i;

	for (i = 0; i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		intervals_limit(&r->extent->valid, start, start + bytes, 0);
	}
}

void register_host(struct memory *m, uint32_t device, struct memory_buffer *b)
{
	const struct memory_device *d = &m->devices[device];
	uint64_t bit = 1ull << (device & 63);
	bool mine;

	if (!d->ops.host_register || device > 63)
		return;
	memory_lock(m);
	mine = !(b->seen & bit) && (b->bytes >= WORTH_REGISTERING || b->copies >= MANY_COPIES);
	b->seen |= mine ? bit : 0;
	pthread_mutex_unlock(&m->lock);
	if (!mine || d->ops.host_register(d->dev, b->host, b->bytes))
		return;
	memory_lock(m);
	b->registered |= bit;
	pthread_mutex_unlock(&m->lock);
}

/* @behind: it may enter before others that it waits for have ended, if that takes @most_ns at most. */
static int enter(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		 uint32_t nr, uint64_t seq, struct memory_owner owner,
		 struct memory_until *until, bool behind, uint64_t most_ns)
{
	struct bringing b = {
		.lane = lane, .seq = seq, .until = FOREVER, .patient = until, .over = until,
		.own = behind ? ranges : NULL, .nr_own = behind ? nr : 0,
	};
	struct refunds refunds;
	uint32_t i, loaded = 0;
	int err;

	for (i = 0; i < nr; i++)
		ranges[i].lane = lane;
	err = task_hold(m, device, ranges, nr, owner, until);
	if (err)
		return err;
	if (behind)
		err = behind_check(m, device, &b, most_ns);
	for (i = 0; i < nr && !err; i++) {
		register_host(m, device, ranges[i].buffer);
		b.input = ranges[i].access & ARAX_IN;
		loaded = i + 1;
		err = load(m, &ranges[i], &b);
	}
	if (!err)
		return 0;
	/* What was loaded is valid until this task settles, which it never will. */
	memory_lock(m);
	for (i = 0; i < loaded; i++)
		if (!ranges[i].buffer->lazy)
			forget(&ranges[i]);
	task_release(m, device, ranges, nr, &refunds);
	pthread_mutex_unlock(&m->lock);
	task_refund(m, &refunds);
	return err;
}

int memory_enter(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		 uint32_t nr, uint64_t seq, struct memory_owner owner)
{
	struct memory_until forever = { 0 };

	return enter(m, device, lane, ranges, nr, seq, owner, &forever, false, 0);
}

int memory_enter_until(struct memory *m, uint32_t device, uint32_t lane,
		       struct memory_range *ranges, uint32_t nr, uint64_t seq,
		       struct memory_owner owner, struct memory_until *until)
{
	return enter(m, device, lane, ranges, nr, seq, owner, until, false, 0);
}

int memory_try_enter(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		     uint32_t nr, uint64_t seq, struct memory_owner owner)
{
	return enter(m, device, lane, ranges, nr, seq, owner, NULL, false, 0);
}

int memory_enter_behind(struct memory *m, uint32_t device, uint32_t lane,
			struct memory_range *ranges, uint32_t nr, uint64_t seq,
			struct memory_owner owner, uint64_t most_ns)
{
	return enter(m, device, lane, ranges, nr, seq, owner, NULL, true, most_ns);
}

static int store(struct memory *m, struct memory_range *r, uint32_t lane)
{
	uint64_t start, bytes;
	uint32_t i;
	int err = 0;

	for (i = 0; i < memory_rows(r) && !err; i++) {
		start = memory_row(r, i, &bytes);
		if (bytes)
			err = extent_copy(m, r->extent, lane, false, start, start + bytes);
		r->moved += err ? 0 : bytes;
	}
	return err;
}

int memory_leave(struct memory *m, uint32_t device, uint32_t lane, struct memory_range *ranges,
		 uint32_t nr, int result)
{
	uint32_t i;
	int err;

	for (i = 0; i < nr && !result; i++)
		if (ranges[i].access & ARAX_OUT && !ranges[i].buffer->lazy)
			result = store(m, &ranges[i], lane);
	memory_lock(m);
	for (i = 0; i < nr; i++) {
		ranges[i].left = true;
		if (!(ranges[i].access & ARAX_OUT))
			continue;
		/* What was left as it was at work there may be brought now. */
		if (ranges[i].buffer->lazy && ranges[i].extent->too_many) {
			ranges[i].extent->too_many = 0;
			extent_dirtied(ranges[i].extent);
		}
		if ((result == -ENODEV || result == -ECANCELED) && ranges[i].buffer->lazy) {
			lost(m, &ranges[i], device);
			continue;
		}
		/* If it failed, half of it may have reached the host. */
		err = wrote(m, &ranges[i], result ? NULL : ranges[i].extent);
		if (err && !result)
			reason_set("there is no room to note what it wrote; where many small pieces of a buffer were lost with a device, write it anew in larger ones");
		result = result ? result : err;
	}
	pthread_mutex_unlock(&m->lock);
	for (i = 0; i < nr; i++)
		if (ranges[i].access & ARAX_OUT && ranges[i].buffer->lazy)
			dirty_thin_out(m, ranges[i].buffer);
	return result;
}

void memory_settle(struct memory *m, uint32_t device, struct memory_range *ranges, uint32_t nr,
		   uint64_t seq)
{
	struct refunds refunds;
	uint64_t start, bytes;
	uint32_t i, j;

	memory_lock(m);
	for (i = 0; i < nr; i++) {
		/* What it neither read nor wrote, as it did nothing, was not looked at: it may be stale. */
		bool good = ranges[i].left || ranges[i].access & ARAX_IN;

		for (j = 0; good && !ranges[i].buffer->lazy && j < memory_rows(&ranges[i]); j++) {
			start = memory_row(&ranges[i], j, &bytes);
			intervals_limit(&ranges[i].extent->valid, start, start + bytes, seq + 1);
		}
	}
	task_release(m, device, ranges, nr, &refunds);
	pthread_mutex_unlock(&m->lock);
	task_refund(m, &refunds);
}
