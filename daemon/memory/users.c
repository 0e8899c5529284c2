// SPDX-License-Identifier: MIT
/* The bytes of an extent that tasks use. */
#include "daemon/memory/internal.h"

bool users_first(const struct memory_extent *e, uint64_t start, uint64_t end,
		 bool (*is)(const void *arg, const struct memory_range *u), const void *arg,
		 uint64_t *from, uint64_t *to)
{
	const struct memory_range *u;
	uint64_t at, stop, bytes;
	uint32_t i;

	*from = *to = end;
	for (u = e->users; u; u = u->next_user) {
		i = is(arg, u) ? memory_row_behind(u, start) : memory_rows(u);
		if (i == memory_rows(u))
			continue;
		at = memory_row(u, i, &bytes);
		stop = at + bytes < end ? at + bytes : end;
		at = at > start ? at : start;
		if (at >= stop || at > *from || (at == *from && stop <= *to))
			continue;
		*from = at;
		*to = stop;
	}
	return *from < end;
}
