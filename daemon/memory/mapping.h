/* SPDX-License-Identifier: MIT */
/*
 * mapping.h - where a link's buffers lie in araxd
 *
 * Host devices work in place: a buffer is mapped once, and a task's ranges
 * are addresses in that mapping.  The table goes from the buffer's id (a
 * core handle: place and generation) to its mapping in two loads.
 *
 * mapping_find() may run beside mapping_set() and mapping_clear() of other
 * buffers; whoever has a task in flight on a buffer keeps it from being
 * cleared.
 */
#ifndef ARAXD_MEMORY_MAPPING_H
#define ARAXD_MEMORY_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

struct memory_buffer;

/**
 * struct mapping - a buffer
 * @base:	its first byte
 * @bytes:	its size
 * @id:		the core's
 * @serial:	unique in this process, for caches
 * @fd:		mappable read/write; the link's
 * @guard:	see guard.h
 * @lost:	atomic: an access found no page, and its bytes here are zeros since
 * @lazy:	it was created with ARAX_BUFFER_EXPLICIT, see memory.h
 * @copies:	(poller) on devices with memory of their own, see memory.h; NULL: none
 */
struct mapping {
	uint8_t *base;
	uint64_t bytes;
	uint64_t serial;
	uint32_t id;
	int fd;
	uint32_t guard;
	uint32_t lost;
	bool lazy;
	struct memory_buffer *copies;
};

#define MAPPING_CHUNK	1024u
#define MAPPING_CHUNKS	1024u

struct mappings {
	struct mapping **chunks[MAPPING_CHUNKS];
};

/* -ENOMEM.  The mapping is the caller's. */
int mapping_set(struct mappings *m, struct mapping *map);
void mapping_clear(struct mappings *m, uint32_t id);
void mappings_each(struct mappings *m, void (*fn)(struct mapping *map, void *arg), void *arg);
void mappings_destroy(struct mappings *m);
uint64_t mapping_serial(void);

static inline struct mapping *mapping_find(const struct mappings *m, uint64_t id)
{
	uint32_t place = (uint32_t)id & ((1u << 20) - 1);
	struct mapping **chunk = __atomic_load_n(&m->chunks[place / MAPPING_CHUNK],
						 __ATOMIC_ACQUIRE);
	struct mapping *map;

	if (!chunk)
		return 0;
	map = __atomic_load_n(&chunk[place % MAPPING_CHUNK], __ATOMIC_ACQUIRE);
	return map && map->id == id ? map : 0;
}

#endif /* ARAXD_MEMORY_MAPPING_H */
