// SPDX-License-Identifier: MIT
#include "daemon/backends/addresses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ADDRESS	(1ull << 32)
#define BOUNDARY	(1ull << 12)
#define GAP		(1ull << 12)
#define LAST_ADDRESS	(1ull << 62)

/* The first one that begins behind @address. */
static uint32_t behind(const struct addresses *s, uint64_t address)
{
	uint32_t low = 0, high = s->nr;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (s->v[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int addresses_add(struct addresses *s, struct allocation *a)
{
	struct allocation *more;
	uint32_t room;

	if (!s->next)
		s->next = FIRST_ADDRESS;
	if (a->bytes > LAST_ADDRESS || s->next > LAST_ADDRESS - a->bytes)
		return -ENOMEM;
	if (s->nr == s->room) {
		room = 2 * s->room + 64;
		more = realloc(s->v, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->v = more;
		s->room = room;
	}
	a->address = s->next;
	/* They only grow: the end is its place in the order. */
	s->v[s->nr++] = *a;
	s->next = (s->next + a->bytes + GAP + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
	return 0;
}

const struct allocation *addresses_find(const struct addresses *s, uint64_t address,
					uint64_t bytes)
{
	uint32_t i = behind(s, address);
	const struct allocation *a = i ? &s->v[i - 1] : NULL;

	if (!a || address - a->address > a->bytes || bytes > a->bytes - (address - a->address))
		return NULL;
	return a;
}

bool addresses_remove(struct addresses *s, uint64_t address, struct allocation *a)
{
	uint32_t i = behind(s, address);

	if (!i || s->v[i - 1].address != address)
		return false;
	*a = s->v[i - 1];
	memmove(&s->v[i - 1], &s->v[i], (s->nr - i) * sizeof(*s->v));
	s->nr--;
	return true;
}

bool addresses_empty(struct addresses *s, struct allocation *a)
{
	if (s->nr) {
		*a = s->v[--s->nr];
		return true;
	}
	free(s->v);
	s->v = NULL;
	s->room = 0;
	return false;
}
