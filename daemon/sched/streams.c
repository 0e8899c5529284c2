/* SPDX-License-Identifier: MIT */
/* streams.c - streams by GrCUDA's rules; see streams.h */
#include "daemon/sched/streams.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stream {
	uint32_t device;
	uint32_t lane;
	uint32_t live;
};

struct streams {
	struct streams_params params;
	struct stream *list;
	uint32_t count, size;
	uint32_t *among;	/* room for the parents' devices */
	uint32_t among_size;
};

static int word_index(const char *const *words, int nr, const char *name)
{
	for (int i = 0; i < nr; i++)
		if (!strcmp(words[i], name))
			return i;
	return -EINVAL;
}

int stream_new_parse(const char *name, enum stream_new *out)
{
	static const char *const words[] = { "reuse", "always-new" };
	int i = word_index(words, 2, name);

	if (i < 0)
		return i;
	*out = (enum stream_new)i;
	return 0;
}

int stream_parent_parse(const char *name, enum stream_parent *out)
{
	static const char *const words[] = {
		"same-as-parent", "disjoint", "multigpu-early-disjoint", "multigpu-disjoint",
	};
	int i = word_index(words, 4, name);

	if (i < 0)
		return i;
	*out = (enum stream_parent)i;
	return 0;
}

struct streams *streams_create(const struct streams_params *params)
{
	struct streams *st = calloc(1, sizeof(*st));

	if (st)
		st->params = *params;
	return st;
}

void streams_destroy(struct streams *st)
{
	if (!st)
		return;
	free(st->list);
	free(st->among);
	free(st);
}

/* ------------------------------------------------------------------ */
/* A stream that is nobody's                                           */

static int add_stream(struct streams *st, uint32_t device, uint32_t lane)
{
	if (st->count == st->size) {
		uint32_t size = st->size ? 2 * st->size : 16;
		struct stream *list = realloc(st->list, size * sizeof(*list));

		if (!list)
			return -ENOMEM;
		st->list = list;
		st->size = size;
	}
	st->list[st->count] = (struct stream){ .device = device, .lane = lane };
	return (int)st->count++;
}

static int new_stream(struct streams *st, uint32_t device)
{
	uint32_t lanes = 0, quiet = STREAM_NONE;

	if (device == STREAM_NONE)
		return -ENODEV;
	for (uint32_t i = 0; i < st->count; i++) {
		if (st->list[i].device != device)
			continue;
		lanes++;
		if (quiet == STREAM_NONE || st->list[i].live < st->list[quiet].live)
			quiet = i;
	}
	if (quiet != STREAM_NONE &&
	    ((st->params.new == STREAM_NEW_REUSE && !st->list[quiet].live) ||
	     (st->params.lanes && lanes >= st->params.lanes)))
		return (int)quiet;
	return add_stream(st, device, lanes);
}

static int new_anywhere(struct streams *st, const struct graph_node *node)
{
	return new_stream(st, st->params.device(st->params.arg, node, NULL, 0));
}

/* ------------------------------------------------------------------ */
/* A parent's stream                                                   */

/* The oldest one whose stream nobody continues; on @device, or anywhere if ~0. */
static struct stream_task *heir_of(const struct streams *st, struct stream_task **parents,
				   uint32_t nr, uint32_t device)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct stream_task *p = parents[i];

		if (!p->continued &&
		    (device == STREAM_NONE || st->list[p->stream].device == device))
			return p;
	}
	return NULL;
}

static int continue_stream(struct stream_task *parent)
{
	parent->continued = true;
	return (int)parent->stream;
}

static int disjoint(struct streams *st, const struct graph_node *node,
		    struct stream_task **parents, uint32_t nr)
{
	struct stream_task *p = heir_of(st, parents, nr, STREAM_NONE);

	return p ? continue_stream(p) : new_anywhere(st, node);
}

static int early_disjoint(struct streams *st, const struct graph_node *node,
			  struct stream_task **parents, uint32_t nr)
{
	uint32_t device = st->params.device(st->params.arg, node, NULL, 0);
	struct stream_task *p;

	if (device == STREAM_NONE)
		return -ENODEV;
	p = heir_of(st, parents, nr, device);
	return p ? continue_stream(p) : new_stream(st, device);
}

static void insert_sorted(uint32_t *list, uint32_t *nr, uint32_t value)
{
	uint32_t i = 0;

	while (i < *nr && list[i] < value)
		i++;
	if (i < *nr && list[i] == value)
		return;
	memmove(list + i + 1, list + i, (*nr - i) * sizeof(*list));
	list[i] = value;
	++*nr;
}

static int multi_disjoint(struct streams *st, const struct graph_node *node,
			  struct stream_task **parents, uint32_t nr)
{
	uint32_t n = 0, device;

	if (nr > st->among_size) {
		uint32_t *among = realloc(st->among, nr * sizeof(*among));

		if (!among)
			return -ENOMEM;
		st->among = among;
		st->among_size = nr;
	}
	for (uint32_t i = 0; i < nr; i++)
		if (!parents[i]->continued)
			insert_sorted(st->among, &n, st->list[parents[i]->stream].device);
	if (!n)
		return new_anywhere(st, node);
	device = st->params.device(st->params.arg, node, st->among, n);
	if (device == STREAM_NONE)
		return -ENODEV;
	return continue_stream(heir_of(st, parents, nr, device));
}

/* ------------------------------------------------------------------ */

static int by_seq(const void *a, const void *b)
{
	const struct stream_task *const *x = a, *const *y = b;

	return (*x)->seq < (*y)->seq ? -1 : (*x)->seq > (*y)->seq;
}

static int choose(struct streams *st, const struct graph_node *node,
		  struct stream_task **parents, uint32_t nr)
{
	if (!nr)
		return new_anywhere(st, node);
	switch (st->params.parent) {
	case STREAM_PARENT_SAME:
		return continue_stream(parents[0]);
	case STREAM_PARENT_DISJOINT:
		return disjoint(st, node, parents, nr);
	case STREAM_PARENT_EARLY_DISJOINT:
		return early_disjoint(st, node, parents, nr);
	case STREAM_PARENT_MULTI_DISJOINT:
		return multi_disjoint(st, node, parents, nr);
	}
	return -EINVAL;
}

int streams_assign(struct streams *st, struct stream_task *t, const struct graph_node *node,
		   struct stream_task **parents, uint32_t nr)
{
	int stream, waits = 0;

	t->stream = STREAM_NONE;
	if (nr > 1)
		qsort(parents, nr, sizeof(*parents), by_seq);
	stream = choose(st, node, parents, nr);
	if (stream < 0)
		return stream;
	t->stream = (uint32_t)stream;
	st->list[stream].live++;
	for (uint32_t i = 0; i < nr; i++)
		waits += parents[i]->stream != t->stream;
	return waits;
}

void streams_end(struct streams *st, struct stream_task *t)
{
	st->list[t->stream].live--;
}

uint32_t streams_count(const struct streams *st)
{
	return st->count;
}

uint32_t stream_device(const struct streams *st, uint32_t stream)
{
	return st->list[stream].device;
}

uint32_t stream_lane(const struct streams *st, uint32_t stream)
{
	return st->list[stream].lane;
}

uint32_t stream_live(const struct streams *st, uint32_t stream)
{
	return st->list[stream].live;
}
