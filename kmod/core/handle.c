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

void *core_handles_take(struct core_handles *t)
{
	void *e = t->e;

	core_warn_on(t->used);
	t->e = NULL;
	t->cap = 0;
	return e;
}

void core_handles_destroy(struct core_handles *t)
{
	core_free(core_handles_take(t));
}

/* How many places the next larger table has; 0 if it may not be larger. */
static u32 larger(const struct core_handles *t)
{
	u32 cap = t->cap ? t->cap * 2 : FIRST_CAP;

	if (cap > t->max)
		cap = t->max;
	return cap > t->cap && cap >= 2 ? cap : 0;
}

/* What is in the table, and room behind it. */
static void copy_to(const struct core_handles *t, struct core_slot_entry *e, u32 cap)
{
	u32 i;

	if (t->e)
		memcpy(e, t->e, sizeof(*e) * (size_t)t->cap);
	for (i = t->cap ? t->cap : 1; i < cap; i++) {
		e[i].gen = 1;
		e[i].next_free = i + 1 < cap ? i + 1 : 0;
	}
}

/* Returns the table that was. */
static struct core_slot_entry *replace(struct core_handles *t, struct core_slot_entry *e, u32 cap)
{
	struct core_slot_entry *old = t->e;

	t->free = t->cap ? t->cap : 1;
	t->e = e;
	t->cap = cap;
	return old;
}

static int grow(struct core_handles *t)
{
	struct core_slot_entry *e;
	u32 cap = larger(t);

	if (!cap)
		return -ENOSPC;
	e = core_alloc(sizeof(*e) * (size_t)cap);
	if (!e)
		return -ENOMEM;
	copy_to(t, e, cap);
	core_free(replace(t, e, cap));
	return 0;
}

int core_handles_room(struct core_handles *t, core_mutex *lock, core_spin *readers)
{
	struct core_slot_entry *e;
	u32 cap;

	core_mutex_assert(lock);
	while (!t->free) {
		cap = larger(t);
		if (!cap)
			return -ENOSPC;
		core_mutex_unlock(lock);
		e = core_alloc_common(sizeof(*e) * (size_t)cap);
		core_mutex_lock(lock);
		if (!e)
			return t->free ? 0 : -ENOMEM;
		/* Others may have made room, and used it up, meanwhile. */
		if (!t->free && t->cap < cap) {
			copy_to(t, e, cap);
			core_spin_lock(readers);
			e = replace(t, e, cap);
			core_spin_unlock(readers);
		}
		core_free(e);
	}
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
