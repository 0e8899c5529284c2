/* SPDX-License-Identifier: MIT */
/*
 * addresses.h - addresses for memory that has none
 *
 * For drivers whose memory is a handle.  Addresses are counted up: they begin on a
 * boundary, are never used again, and behind each allocation is a gap in which nothing
 * lies, so that who goes beyond its end finds nothing.
 *
 * Nothing here locks: whoever calls does.  A struct addresses of zeros is empty.
 */
#ifndef ARAX_DAEMON_BACKENDS_ADDRESSES_H
#define ARAX_DAEMON_BACKENDS_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct allocation - one piece of memory
 * @address, @bytes: where it lies; @bytes is not 0
 * @handle:	the driver's
 * @host:	the host's pages that it is made of; NULL: memory of the driver's own
 */
struct allocation {
	uint64_t address, bytes;
	void *handle;
	const char *host;
};

struct addresses {
	uint64_t next;
	uint32_t nr, room;
	struct allocation *v;	/* by address */
};

/* Gives it its address.  -ENOMEM: no memory, or no addresses. */
int addresses_add(struct addresses *s, struct allocation *a);
/* Which holds @bytes at @address; NULL: none.  Until the next change. */
const struct allocation *addresses_find(const struct addresses *s, uint64_t address,
					uint64_t bytes);
/* The one at @address, which is forgotten.  False: there is none. */
bool addresses_remove(struct addresses *s, uint64_t address, struct allocation *a);
/* Any one, to be forgotten.  False: there is none any more, and @s holds no memory. */
bool addresses_empty(struct addresses *s, struct allocation *a);

#endif /* ARAX_DAEMON_BACKENDS_ADDRESSES_H */
