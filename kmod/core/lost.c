// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bytes whose only current copy died with a mediator.  Their readers fail until
 * the bytes are wholly rewritten, each judged in the order of submission: a task
 * that comes after one which is going to rewrite them, and would fail with it,
 * may go on.  So a writer of lost bytes promises them as long as it is under way.
 *
 * A buffer has room for a few promises; one that finds none is not made, and its
 * readers fail until its writer is done.
 *
 * Between a mediator's detach and its end nothing is judged: settle() will, all
 * tasks of a client in their order, and what comes when it has done so (there may be
 * many clients) is judged at once again.  It begins a new era, so that what was promised
 * before, perhaps by tasks that come later, is of no use to those that it judges.
 */
#include "core.h"

static bool in_dataflow(const struct core_task *t)
{
	return t->queue->flags & ARAX_QUEUE_DATAFLOW;
}

static bool writes_wholly(const struct core_task *t, u32 i)
{
	return t->d.access >> (2 * i) & ARAX_OUT && t->ranges[i].length && t->ranges[i].count == 1;
}

/* Does t depend on whoever made the promise, if both touch these bytes? */
static bool comes_after(const struct core_task *t, const struct core_promise *p)
{
	return p->context == t->d.context && p->era == t->client->core->era &&
	       (!p->queue || in_dataflow(t) || p->queue == t->d.queue);
}

static bool all_promised(const struct core_task *t, const struct core_buffer *buf, u64 start,
			 u64 end)
{
	u64 reached;
	u32 i;

	/* It would run although the writer had failed. */
	if (t->queue->flags & ARAX_QUEUE_CONTINUE)
		return false;
	do {
		reached = start;
		for (i = 0; i < buf->nr_promised; i++) {
			const struct core_promise *p = &buf->promised[i];

			if (p->bytes.start <= start && start < p->bytes.end && comes_after(t, p))
				start = p->bytes.end;
		}
	} while (reached < start && start < end);
	return start >= end;
}

bool core_reads_lost(const struct core_task *t)
{
	u32 i, k;

	for (i = 0; i < t->d.nr_ranges; i++) {
		const struct core_buffer *buf = t->buffers[i];
		const struct arax_dispatch_range *r = &t->ranges[i];
		u64 end = core_range_end(r);

		if (!(t->d.access >> (2 * i) & ARAX_IN) || !r->length)
			continue;
		for (k = 0; k < buf->nr_lost; k++) {
			const struct core_extent *e = &buf->lost[k];
			u64 from = e->start > r->offset ? e->start : r->offset;
			u64 to = e->end < end ? e->end : end;

			if (from < to && !all_promised(t, buf, from, to))
				return true;
		}
	}
	return false;
}

/* Its place, or where a new one would be. */
static struct core_promise *find(struct core_buffer *buf, const struct core_task *t, u32 i)
{
	u32 queue = in_dataflow(t) ? 0 : t->d.queue, k;
	u64 start = t->ranges[i].offset, end = core_range_end(&t->ranges[i]);

	for (k = 0; k < buf->nr_promised; k++) {
		struct core_promise *p = &buf->promised[k];

		if (p->context == t->d.context && p->queue == queue && p->era == t->promise_era &&
		    p->bytes.start == start && p->bytes.end == end)
			return p;
	}
	if (k == CORE_PROMISES)
		return NULL;
	buf->promised[k] = (struct core_promise) {
		.context = t->d.context, .queue = queue, .era = t->promise_era,
		.bytes = { start, end },
	};
	return &buf->promised[k];
}

void core_promise(struct core_task *t)
{
	struct core_promise *p;
	u32 i;

	core_warn_on(t->promised);
	t->promise_era = t->client->core->era;
	for (i = 0; i < t->d.nr_ranges; i++) {
		struct core_buffer *buf = t->buffers[i];

		if (!buf->nr_lost || !writes_wholly(t, i))
			continue;
		p = find(buf, t, i);
		if (!p)
			continue;
		if (!p->writers++)
			buf->nr_promised++;
		t->promised |= 1u << i;
	}
}

void core_unpromise(struct core_task *t)
{
	struct core_promise *p;
	u32 i;

	for (i = 0; t->promised; i++) {
		struct core_buffer *buf = t->buffers[i];

		if (!(t->promised & 1u << i))
			continue;
		t->promised &= ~(1u << i);
		p = find(buf, t, i);
		if (!--p->writers)
			*p = buf->promised[--buf->nr_promised];
	}
}
