// SPDX-License-Identifier: MIT
/* event.c - a binary heap of events */
#include "daemon/sim/event.h"

#include <errno.h>
#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	return a->order < b->order;
}

static void place(struct events *h, uint32_t i, struct event *e)
{
	h->heap[i] = e;
	e->index = i + 1;
}

static void settle(struct events *h, uint32_t i, struct event *e)
{
	uint32_t child;

	for (; i && before(e, h->heap[(i - 1) / 2]); i = (i - 1) / 2)
		place(h, i, h->heap[(i - 1) / 2]);
	for (; (child = 2 * i + 1) < h->used; i = child) {
		if (child + 1 < h->used && before(h->heap[child + 1], h->heap[child]))
			child++;
		if (before(e, h->heap[child]))
			break;
		place(h, i, h->heap[child]);
	}
	place(h, i, e);
}

int event_set(struct events *h, struct event *e, uint64_t time)
{
	if (time > EVENT_LAST)
		return -EOVERFLOW;
	if (!e->index && h->used == h->size) {
		uint32_t size = h->size ? 2 * h->size : 64;
		struct event **heap = realloc(h->heap, size * sizeof(struct event *));

		if (!heap)
			return -ENOMEM;
		h->heap = heap;
		h->size = size;
	}
	e->time = time;
	e->order = h->order++;
	settle(h, e->index ? e->index - 1 : h->used++, e);
	return 0;
}

void event_cancel(struct events *h, struct event *e)
{
	uint32_t i = e->index;
	struct event *last;

	if (!i)
		return;
	e->index = 0;
	last = h->heap[--h->used];
	if (last != e)
		settle(h, i - 1, last);
}

struct event *event_next(struct events *h)
{
	struct event *e;

	if (!h->used)
		return NULL;
	e = h->heap[0];
	event_cancel(h, e);
	h->fired++;
	return e;
}
