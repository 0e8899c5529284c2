/* SPDX-License-Identifier: MIT */
/*
 * idmap.h - a small hash table from 64-bit ids to pointers
 *
 * Not thread-safe.  A NULL pointer can't be stored.
 */
#ifndef ARAX_DAEMON_WORKER_IDMAP_H
#define ARAX_DAEMON_WORKER_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct idmap_slot {
	uint64_t id;
	void *value;		/* NULL: free */
};

struct idmap {
	size_t used, size;	/* size is 0 or a power of two */
	struct idmap_slot *slots;
};

void *idmap_get(const struct idmap *m, uint64_t id);
int idmap_put(struct idmap *m, uint64_t id, void *value);	/* -ENOMEM; replaces */
void *idmap_del(struct idmap *m, uint64_t id);			/* what was there, or NULL */
void idmap_free(struct idmap *m);				/* the table, not the values */

#endif /* ARAX_DAEMON_WORKER_IDMAP_H */
