// SPDX-License-Identifier: MIT
/* piece.c - a range in pieces, for what is to make way for others in the midst of it */
#include "daemon/memory/internal.h"

bool memory_piece(const struct memory_range *r, uint64_t bytes, uint64_t *at,
		  struct memory_range *piece)
{
	uint64_t rows = memory_rows(r), n;
	uint64_t all = r->length ? memory_range_end(r) - r->offset : 0;

	*piece = *r;
	/* As memory_flush() takes them: with all that lies between so many. */
	if (rows == 1 || rows > MEMORY_MAX_ROWS) {
		if (*at >= all)
			return false;
		n = all - *at < bytes ? all - *at : bytes;
		piece->offset += *at;
		piece->length = n;
		piece->count = 1;
		piece->access |= rows > 1 ? ARAX_IN : 0;
	} else if (r->length > bytes) {
		/* @at counts rows' bytes, for each is more than a piece. */
		if (*at / r->length >= rows)
			return false;
		n = r->length - *at % r->length;
		n = n < bytes ? n : bytes;
		piece->offset += *at / r->length * r->stride + *at % r->length;
		piece->length = n;
		piece->count = 1;
	} else {
		if (*at >= rows)
			return false;
		n = bytes / r->stride ? bytes / r->stride : 1;
		n = n < rows - *at ? n : rows - *at;
		piece->offset += *at * r->stride;
		piece->count = (uint32_t)n;
	}
	*at += n;
	return true;
}
