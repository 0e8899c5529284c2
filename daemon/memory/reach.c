// SPDX-License-Identifier: MIT
/*
 * reach.c - how far a task's inputs are from a device, by the best and the worst way
 *
 * A piece that is missing comes from the host where that has it, else directly from a device that
 * is a peer, or by way of the host from one that is not.  The worst of several ways begins at the
 * device with the slowest link of those that hold the piece: nobody would take it, but who counts
 * by it keeps away from data that is spread over slow links.
 */
#include "daemon/memory/internal.h"

/**
 * struct question - how far an input is from a device
 * @here:	what is there of it is in this extent; NULL: nothing is
 * @pieces:	gone through so far
 */
struct question {
	struct memory *m;
	uint32_t device;
	const struct memory_range *r;
	uint64_t seq;
	bool slowest;
	const struct memory_extent *here;
	uint32_t pieces;
};

/* (locked) */
static void find_here(struct question *q)
{
	q->here = extent_find(q->r->buffer, q->device, q->r->offset, memory_range_end(q->r));
}

/* (locked, for a while not) After each piece. */
static void let_others(struct question *q)
{
	if (++q->pieces % MEMORY_AT_ONCE == 0 && memory_let_others(q->m))
		find_here(q);
}

/* (locked) Whether @e has the byte @at; *@end: up to where it is so or not. */
static bool has(const struct question *q, const struct memory_extent *e, uint64_t at, uint64_t *end)
{
	uint64_t gap, gap_end;

	if (e->lost)
		return false;
	if (!intervals_gap(&e->valid, at, *end, q->seq, trusted_since(q->m, q->r), &gap, &gap_end))
		return true;
	*end = gap > at ? gap : gap_end;
	return gap > at;
}

/* (locked) Likewise of the host; what lies between many lost pieces counts as one of them. */
static bool host_has(const struct memory_buffer *b, uint64_t at, uint64_t *end)
{
	struct look l = look_dirty(b, at, *end);
	uint64_t from, to, born;
	struct memory_extent *e;
	bool yes = true;

	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if (!intervals_first(&e->dirty, at, *end, &from, &to, &born))
			continue;
		yes &= from > at;
		*end = l.end = from > at ? from : to;
	}
	return yes;
}

/* (locked) Until at..end, which the same places hold, is there. */
static double from_ns(const struct question *q, uint64_t at, uint64_t end, bool host)
{
	const struct memory_device *d = &q->m->devices[q->device];
	double in = d->present ? rate_ns(&d->in, end - at) : 0;
	const struct look l = look_bytes(q->r->buffer, at, end);
	double ns = host ? in : -1, one;
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if (!has(q, e, at, &end))
			continue;
		if (!host && are_peers(q->m, q->device, e->device))
			one = rate_ns(&d->direct[e->device], end - at);
		else
			one = rate_ns(&q->m->devices[e->device].out, end - at) + in;
		if (ns < 0 || (q->slowest ? one > ns : one < ns))
			ns = one;
	}
	/* Nobody has it: who reads it fails, wherever. */
	return ns < 0 ? in : ns;
}

/* (locked) Of at..end, which the device lacks, one piece; *@end: of that. */
static double piece_ns(const struct question *q, uint64_t at, uint64_t *end)
{
	bool host = host_has(q->r->buffer, at, end);
	struct memory_extent *e;
	struct look l;

	if (!q->m->devices[q->device].present && host)
		return 0;
	l = look_bytes(q->r->buffer, at, *end);
	for (e = look_first(&l); e; e = look_next(&l, e)) {
		has(q, e, at, end);
		l.end = *end;
	}
	return from_ns(q, at, *end, host);
}

/* (locked, for a while not) */
static double gap_ns(struct question *q, uint64_t at, uint64_t end)
{
	uint64_t stop;
	double ns = 0;

	for (; at < end; at = stop) {
		stop = end;
		ns += piece_ns(q, at, &stop);
		let_others(q);
	}
	return ns;
}

/* (locked, for a while not) */
static double row_ns(struct question *q, uint64_t start, uint64_t end)
{
	uint64_t gap, gap_end;
	double ns = 0;

	for (; start < end; start = gap_end) {
		gap = start;
		gap_end = end;
		if (q->here && !intervals_gap(&q->here->valid, start, end, q->seq,
					      trusted_since(q->m, q->r), &gap, &gap_end))
			break;
		ns += gap_ns(q, gap, gap_end);
	}
	let_others(q);
	return ns;
}

/* (locked, for a while not) */
static double range_ns(struct question *q)
{
	const struct memory_device *d = &q->m->devices[q->device];
	const struct memory_range *r = q->r;
	uint64_t start, bytes;
	double ns = 0;
	uint32_t i;

	if (!r->buffer)
		return d->present ? rate_ns(&d->in, r->length * r->count) : 0;
	find_here(q);
	/* Of as many rows as a task on the host may have: what lies between them, too. */
	if (memory_rows(r) > MEMORY_MAX_ROWS)
		return row_ns(q, r->offset, memory_range_end(r));
	for (i = 0; i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		ns += row_ns(q, start, start + bytes);
	}
	return ns;
}

uint64_t memory_reach_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq, bool slowest)
{
	double ns = 0;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < nr; i++) {
		struct question q = {
			.m = m, .device = device, .r = &ranges[i], .seq = seq, .slowest = slowest,
		};

		if (ranges[i].access & ARAX_IN && ranges[i].length)
			ns += range_ns(&q);
	}
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)ns;
}
