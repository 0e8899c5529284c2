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

/* (locked) Whether @e has the byte @at; *@end: up to where it is so or not. */
static bool has(const struct memory *m, const struct memory_range *r,
		const struct memory_extent *e, uint64_t seq, uint64_t at, uint64_t *end)
{
	uint64_t gap, gap_end;

	if (e->lost)
		return false;
	if (!intervals_gap(&e->valid, at, *end, seq, trusted_since(m, r), &gap, &gap_end))
		return true;
	*end = gap > at ? gap : gap_end;
	return gap > at;
}

/* (locked) Likewise of the host. */
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
static double from_ns(const struct memory *m, uint32_t device, const struct memory_range *r,
		      uint64_t seq, uint64_t at, uint64_t end, bool host, bool slowest)
{
	const struct memory_device *d = &m->devices[device];
	double in = d->present ? rate_ns(&d->in, end - at) : 0;
	const struct look l = look_bytes(r->buffer, at, end);
	double ns = host ? in : -1, one;
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if (!has(m, r, e, seq, at, &end))
			continue;
		if (!host && are_peers(m, device, e->device))
			one = rate_ns(&d->peer, end - at);
		else
			one = rate_ns(&m->devices[e->device].out, end - at) + in;
		if (ns < 0 || (slowest ? one > ns : one < ns))
			ns = one;
	}
	/* Nobody has it: who reads it fails, wherever. */
	return ns < 0 ? in : ns;
}

/* (locked) Of at..end, which @device lacks, piece by piece. */
static double gap_ns(const struct memory *m, uint32_t device, const struct memory_range *r,
		     uint64_t seq, uint64_t at, uint64_t end, bool slowest)
{
	const struct memory_device *d = &m->devices[device];
	struct memory_extent *e;
	struct look l;
	uint64_t stop;
	double ns = 0;
	bool host;

	for (; at < end; at = stop) {
		stop = end;
		host = host_has(r->buffer, at, &stop);
		if (!d->present && host)
			continue;
		l = look_bytes(r->buffer, at, stop);
		for (e = look_first(&l); e; e = look_next(&l, e)) {
			has(m, r, e, seq, at, &stop);
			l.end = stop;
		}
		ns += from_ns(m, device, r, seq, at, stop, host, slowest);
	}
	return ns;
}

/* (locked) */
static double row_ns(const struct memory *m, uint32_t device, const struct memory_range *r,
		     const struct memory_extent *e, uint64_t seq, uint64_t start, uint64_t end,
		     bool slowest)
{
	uint64_t gap, gap_end;
	double ns = 0;

	if (!e)
		return gap_ns(m, device, r, seq, start, end, slowest);
	for (; intervals_gap(&e->valid, start, end, seq, trusted_since(m, r), &gap, &gap_end);
	     start = gap_end)
		ns += gap_ns(m, device, r, seq, gap, gap_end, slowest);
	return ns;
}

/* (locked) */
static double range_ns(const struct memory *m, uint32_t device, const struct memory_range *r,
		       uint64_t seq, bool slowest)
{
	const struct memory_device *d = &m->devices[device];
	const struct memory_extent *e;
	uint64_t start, bytes;
	double ns = 0;
	uint32_t i;

	if (!r->buffer)
		return d->present ? rate_ns(&d->in, r->length * r->count) : 0;
	e = extent_find(r->buffer, device, r->offset, memory_range_end(r));
	/* Of as many rows as a task on the host may have: what lies between them, too. */
	if (memory_rows(r) > MEMORY_MAX_ROWS)
		return row_ns(m, device, r, e, seq, r->offset, memory_range_end(r),
			      slowest);
	for (i = 0; i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		ns += row_ns(m, device, r, e, seq, start, start + bytes, slowest);
	}
	return ns;
}

uint64_t memory_reach_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq, bool slowest)
{
	double ns = 0;
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < nr; i++)
		if (ranges[i].access & ARAX_IN && ranges[i].length)
			ns += range_ns(m, device, &ranges[i], seq, slowest);
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)ns;
}
