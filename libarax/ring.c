// SPDX-License-Identifier: MIT
/* The parts of the rings' logic that are not on every task's way. */
#include <errno.h>
#include <stdlib.h>

#include "ring.h"

int ring_init(struct ring *r, uint8_t *region, const struct arax_context_init *init)
{
	uint32_t i;

	memset(r, 0, sizeof(*r));
	r->ctl = (struct arax_ring_ctl *)region;
	r->sq = region + init->sq_offset;
	r->cq = (struct arax_completion *)(region + init->cq_offset);
	r->arena = region + init->arena_offset;
	r->depth = init->depth;
	r->mask = init->depth - 1;
	r->entry_size = init->entry_size;
	r->entry_shift = (uint32_t)__builtin_ctz(init->entry_size);
	r->max_inline = init->entry_size == 256 ? 6 : 2;
	r->arena_size = init->arena_size;
	r->slots = calloc(r->depth, sizeof(*r->slots));
	r->free = calloc(r->depth, sizeof(*r->free));
	r->arena_end = calloc(r->depth, sizeof(*r->arena_end));
	if (!r->slots || !r->free || !r->arena_end) {
		ring_destroy(r);
		return -ENOMEM;
	}
	for (i = r->depth; i--;)
		r->free[r->nr_free++] = i;
	return 0;
}

void ring_destroy(struct ring *r)
{
	free(r->slots);
	free(r->free);
	free(r->arena_end);
	r->slots = NULL;
	r->free = NULL;
	r->arena_end = NULL;
}

int64_t ring_arena_alloc(struct ring *r, uint32_t len)
{
	uint64_t off, skip = 0;

	len = (len + 7) & ~7u;
	if (!len || len > r->arena_size)
		return -2;
	ring_arena_reclaim(r);
	if (r->arena_head == r->arena_tail) {
		/* Empty: start at the front, or a large block might never fit. */
		r->arena_head += (r->arena_size - r->arena_head % r->arena_size) % r->arena_size;
		r->arena_tail = r->arena_head;
	}
	off = r->arena_head % r->arena_size;
	if (off + len > r->arena_size) {
		skip = r->arena_size - off;
		off = 0;
	}
	if (r->arena_head + skip + len - r->arena_tail > r->arena_size)
		return -1;
	r->arena_head += skip + len;
	return (int64_t)off;
}
