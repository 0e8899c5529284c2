// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Handle tables: a place and a generation, so that a stale handle is noticed. */
#include "core.h"

#define FIRST_CAP	64
#define MAX_PLACES	(1u << CORE_HANDLE_BITS)
#define GEN_MASK	0xfffu

/* Place 0 is never given out: no handle is 0. */
int core_handles_init(struct core_handles *t, u32 max)
{
	memset(t, 0, sizeof(*t));
	t->max = max + 1 < MAX_PLACES ? max + 1 : MAX_PLACES;
	return 0;
}

void core_handles_destroy(struct core_handles *t)
{
	core_warn_on(t->used);
	core_free(t->e);
	t->e = NULL;
	t->cap = 0;
}

static int grow(struct core_handles *t)
{
	u32 i, cap = t->cap ? t->cap * 2 : FIRST_CAP;
	struct core_slot_entry *e;

	if (cap > t->max)
		cap = t->max;
	if (cap <= t->cap || cap < 2)
		return -ENOSPC;
	e = core_alloc(sizeof(*e) * (size_t)cap);
	if (!e)
		return -ENOMEM;
	if (t->e)
		memcpy(e, t->e, sizeof(*e) * (size_t)t->cap);
	for (i = t->cap ? t->cap : 1; i < cap; i++) {
		e[i].gen = 1;
		e[i].next_free = i + 1 < cap ? i + 1 : 0;
	}
	t->free = t->cap ? t->cap : 1;
	core_free(t->e);
	t->e = e;
	t->cap = cap;
	return 0;
}

int core_handle_add(struct core_handles *t, enum core_type type, void *object, u32 *handle)
{
	u32 i;
	int err;

	if (!t->free) {
		err = grow(t);
		if (err)
			return err;
	}
	i = t->free;
	t->free = t->e[i].next_free;
	t->e[i].object = object;
	t->e[i].type = type;
	t->used++;
	*handle = i | (u32)t->e[i].gen << CORE_HANDLE_BITS;
	return 0;
}

void *core_handle_remove(struct core_handles *t, enum core_type type, u32 handle)
{
	struct core_slot_entry *e = core_handle_entry(t, type, handle);
	void *object;

	if (!e)
		return NULL;
	object = e->object;
	e->object = NULL;
	e->type = CORE_NONE;
	e->gen = (e->gen + 1) & GEN_MASK;
	if (!e->gen)
		e->gen = 1;
	e->next_free = t->free;
	t->free = CORE_HANDLE_INDEX(handle);
	t->used--;
	return object;
}

void *core_handle_next(const struct core_handles *t, u32 *index, enum core_type *type)
{
	for (; *index < t->cap; (*index)++) {
		if (t->e[*index].type != CORE_NONE) {
			*type = t->e[*index].type;
			return t->e[*index].object;
		}
	}
	return NULL;
}
