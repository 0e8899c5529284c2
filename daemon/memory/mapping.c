// SPDX-License-Identifier: MIT
/* The table of a link's buffers. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/memory/mapping.h"

static uint64_t last_serial;

uint64_t mapping_serial(void)
{
	return __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
}

int mapping_set(struct mappings *m, struct mapping *map)
{
	uint32_t place = map->id & ((1u << 20) - 1);
	struct mapping ***at = &m->chunks[place / MAPPING_CHUNK];
	struct mapping **chunk = __atomic_load_n(at, __ATOMIC_ACQUIRE), **expected = NULL;

	if (!chunk) {
		chunk = calloc(MAPPING_CHUNK, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		/* Another thread may have been quicker. */
		if (!__atomic_compare_exchange_n(at, &expected, chunk, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			free(chunk);
			chunk = expected;
		}
	}
	__atomic_store_n(&chunk[place % MAPPING_CHUNK], map, __ATOMIC_RELEASE);
	return 0;
}

void mapping_clear(struct mappings *m, uint32_t id)
{
	uint32_t place = id & ((1u << 20) - 1);
	struct mapping **chunk = __atomic_load_n(&m->chunks[place / MAPPING_CHUNK],
						 __ATOMIC_ACQUIRE);

	if (chunk)
		__atomic_store_n(&chunk[place % MAPPING_CHUNK], NULL, __ATOMIC_RELEASE);
}

void mappings_each(struct mappings *m, void (*fn)(struct mapping *map, void *arg), void *arg)
{
	uint32_t i, j;

	for (i = 0; i < MAPPING_CHUNKS; i++)
		for (j = 0; m->chunks[i] && j < MAPPING_CHUNK; j++)
			if (m->chunks[i][j])
				fn(m->chunks[i][j], arg);
}

void mappings_destroy(struct mappings *m)
{
	uint32_t i;

	for (i = 0; i < MAPPING_CHUNKS; i++) {
		free(m->chunks[i]);
		m->chunks[i] = NULL;
	}
}
