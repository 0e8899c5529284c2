/* SPDX-License-Identifier: MIT */
/*
 * hostmap.h - whose pages an address of this process is
 *
 * Links put in what they map of clients' buffers, so that a device which is driven by another
 * process can have the buffer's descriptor in place of the address.
 *
 * Thread-safe.  What hostmap_find() says holds for as long as the caller keeps the buffer.
 */
#ifndef ARAXD_MEMORY_HOSTMAP_H
#define ARAXD_MEMORY_HOSTMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/memory/mapping.h"

/* Who is told, by the thread that removes a buffer, while it is mapped still. */
struct hostmap_watch {
	struct hostmap_watch *next;
	void (*gone)(struct hostmap_watch *w, uint64_t serial);
};

/* -ENOMEM.  After it is mapped. */
int hostmap_add(const struct mapping *m);
/* Before it is unmapped, when no device copies from or to it any more. */
void hostmap_remove(const struct mapping *m);
/* Base, bytes, serial and fd of the buffer that has all @bytes at @p; false: there is none. */
bool hostmap_find(const void *p, uint64_t bytes, struct mapping *m);

void hostmap_watch(struct hostmap_watch *w);
/* Nobody is in w->gone() any more when it returns. */
void hostmap_unwatch(struct hostmap_watch *w);

#endif /* ARAXD_MEMORY_HOSTMAP_H */
