// SPDX-License-Identifier: MIT
/*
 * A task that enters before those have ended which it waits for.  What they write on the device is
 * there when its kernel begins: it is as good as there now.
 */
#include <errno.h>

#include "daemon/memory/internal.h"

static bool is_own(const struct bringing *b, const struct memory_range *u)
{
	return u >= b->own && u < b->own + b->nr_own;
}

/*
 * (locked) A task that is in there and will write its rows; before it has all that it needs, which
 * is before its kernel begins, it leaves some as they are.
 */
static bool is_coming(const void *arg, const struct memory_range *u)
{
	const struct bringing *b = arg;

	return u->access & ARAX_OUT && u->loaded && !u->left && !is_own(b, u);
}

/* (locked) The first bytes of start..end that are; false: none. */
static bool first_coming(const struct memory_extent *e, const struct bringing *b, uint64_t start,
			 uint64_t end, uint64_t *from, uint64_t *to)
{
	return users_first(e, start, end, is_coming, b, from, to);
}

bool behind_gap(const struct memory_extent *e, const struct intervals *have,
		const struct bringing *b, uint64_t start, uint64_t end, uint64_t seq, uint64_t born,
		uint64_t *gap_start, uint64_t *gap_end)
{
	uint64_t from, to;

	while (start < end && intervals_gap(have, start, end, seq, born, gap_start, gap_end)) {
		if (!b->own || !first_coming(e, b, *gap_start, *gap_end, &from, &to))
			return true;
		if (from > *gap_start) {
			*gap_end = from;
			return true;
		}
		start = to;
	}
	return false;
}

void behind_forget(struct memory *m, const struct memory_range *r, const struct bringing *b)
{
	struct memory_extent *e = r->extent;
	uint64_t start, end, bytes, gap_start, gap_end, from, to;

	for (uint32_t i = 0; i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		for (end = start + bytes;
		     start < end && intervals_gap(&e->valid, start, end, b->seq,
						  trusted_since(m, r), &gap_start, &gap_end);
		     start = gap_end)
			for (; first_coming(e, b, gap_start, gap_end, &from, &to); gap_start = to)
				intervals_clear(&e->valid, from, to);
	}
}

/* Of rows, each of which is looked for with the lock held. */
#define MANY_ROWS	64u

static bool share_bytes(const struct memory_range *one, const struct memory_range *other)
{
	uint64_t start, bytes;
	uint32_t i, first;

	for (i = 0; i < memory_rows(one); i++) {
		start = memory_row(one, i, &bytes);
		if (bytes && memory_rows_in(other, start, start + bytes, &first))
			return true;
	}
	return false;
}

/*
 * (locked) Whether what others are about to write of @r is where it will be looked for; and is not
 * on its way to the host when @r's task writes over it.
 */
static bool can_take_over(const struct memory_range *r, uint32_t device, const struct bringing *b)
{
	struct look l = look_rows(r->buffer, r);
	const struct memory_range *u;
	struct memory_extent *o;

	l.from = l.to = device;
	for (o = look_first(&l); o; o = look_next(&l, o)) {
		bool fine = o == r->extent && (r->buffer->lazy || !(r->access & ARAX_OUT));

		for (u = o->users; u; u = u->next_user) {
			if (!(u->access & ARAX_OUT) || u->left || is_own(b, u))
				continue;
			if (memory_rows(u) > MANY_ROWS || (!fine && share_bytes(r, u)))
				return false;
		}
	}
	return true;
}

/*
 * (locked) Whether results of tasks on its lane are still to go to the host.  That may fail, though their
 * kernels have not: then the task, which has run, counts as canceled all the same.  To what is only on
 * the device it must not have done anything then.
 */
static bool may_fail_yet(const struct memory_device *d, const struct bringing *b)
{
	const struct memory_extent *e;
	const struct memory_range *u;

	for (e = d->used; e; e = e->used_next)
		for (u = e->users; u; u = u->next_user)
			if (u->access & ARAX_OUT && !u->left && !u->buffer->lazy &&
			    u->lane == b->lane && !is_own(b, u))
				return true;
	return false;
}

/*
 * (locked) Adds to @ns what it would take to bring the rest of an input, or of what was never there;
 * false: it is elsewhere.
 */
static bool add_rest(const struct memory *m, const struct memory_range *r, const struct bringing *b,
		     uint64_t *ns)
{
	const struct memory_extent *e = r->extent;
	uint64_t start, end, bytes, gap_start, gap_end, sum = 0;
	bool input = r->access & ARAX_IN;

	for (uint32_t i = 0; i < memory_rows(r); i++) {
		start = memory_row(r, i, &bytes);
		for (end = start + bytes; start < end; start = gap_end) {
			if (input ? !behind_gap(e, &e->valid, b, start, end, b->seq,
						trusted_since(m, r), &gap_start, &gap_end) :
				    !intervals_gap(&e->filled, start, end, 0, 0, &gap_start, &gap_end))
				break;
			if (is_dirty(r->buffer, gap_start, gap_end))
				return false;
			sum += gap_end - gap_start;
		}
	}
	*ns += sum ? (uint64_t)rate_ns(&m->devices[e->device].in, sum) : 0;
	return true;
}

int behind_check(struct memory *m, uint32_t device, const struct bringing *b, uint64_t most_ns)
{
	const struct memory_device *d = &m->devices[device];
	bool fine = true, stays = false;
	uint64_t ns = 0;

	memory_lock(m);
	for (uint32_t i = 0; i < b->nr_own && fine; i++) {
		const struct memory_range *r = &b->own[i];

		stays |= r->access & ARAX_OUT && r->buffer->lazy;
		fine = memory_rows(r) <= MANY_ROWS && can_take_over(r, device, b) &&
		       add_rest(m, r, b, &ns) && ns <= most_ns;
	}
	fine = fine && !(stays && may_fail_yet(d, b));
	m->devices[device].stats.behind += fine;
	pthread_mutex_unlock(&m->lock);
	return fine ? 0 : -EAGAIN;
}
