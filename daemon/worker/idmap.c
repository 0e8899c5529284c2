// SPDX-License-Identifier: MIT
#include "daemon/worker/idmap.h"

#include <errno.h>
#include <stdlib.h>

static size_t home(const struct idmap *m, uint64_t id)
{
	return (size_t)((id * 0x9e3779b97f4a7c15ull) >> 32) & (m->size - 1);
}

/* The slot of `id`, or the free one where it would go.  There always is one. */
static size_t probe(const struct idmap *m, uint64_t id)
{
	size_t i = home(m, id);

	while (m->slots[i].value && m->slots[i].id != id)
		i = (i + 1) & (m->size - 1);
	return i;
}

void *idmap_get(const struct idmap *m, uint64_t id)
{
	return m->size ? m->slots[probe(m, id)].value : NULL;
}

static int grow(struct idmap *m)
{
	struct idmap bigger = { .size = m->size ? m->size * 2 : 16 };

	bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->size; i++)
		if (m->slots[i].value)
			bigger.slots[probe(&bigger, m->slots[i].id)] = m->slots[i];
	bigger.used = m->used;
	free(m->slots);
	*m = bigger;
	return 0;
}

int idmap_put(struct idmap *m, uint64_t id, void *value)
{
	struct idmap_slot *s;

	if ((m->used + 1) * 4 > m->size * 3) {
		int err = grow(m);

		if (err)
			return err;
	}
	s = &m->slots[probe(m, id)];
	m->used += !s->value;
	s->id = id;
	s->value = value;
	return 0;
}

void *idmap_del(struct idmap *m, uint64_t id)
{
	size_t hole, i;
	void *value;

	if (!m->size)
		return NULL;
	hole = probe(m, id);
	value = m->slots[hole].value;
	if (!value)
		return NULL;
	m->slots[hole].value = NULL;
	m->used--;
	/* Move back what was pushed past the hole, or look-ups would stop there. */
	for (i = (hole + 1) & (m->size - 1); m->slots[i].value; i = (i + 1) & (m->size - 1)) {
		size_t h = home(m, m->slots[i].id);

		if (((i - h) & (m->size - 1)) < ((i - hole) & (m->size - 1)))
			continue;
		m->slots[hole] = m->slots[i];
		m->slots[i].value = NULL;
		hole = i;
	}
	return value;
}

void idmap_free(struct idmap *m)
{
	free(m->slots);
	*m = (struct idmap){ 0 };
}
