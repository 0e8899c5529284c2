// SPDX-License-Identifier: MIT
#include "daemon/kernels/std/scratch.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/kernels/std/memory_limit.h"

/* In front of what is given; as malloc() aligns.  @bytes: those that count. */
struct block {
	_Alignas(16) size_t bytes;
};

static _Atomic size_t taken;

size_t std_scratch_most(void)
{
	static _Atomic size_t most;
	size_t bytes = atomic_load_explicit(&most, memory_order_relaxed);

	if (!bytes) {
		bytes = (size_t)(std_memory_limit() / 4);
		atomic_store_explicit(&most, bytes, memory_order_relaxed);
	}
	return bytes;
}

/* Half of what is left at most: the next one finds as much. */
static bool charge(size_t bytes)
{
	size_t most = std_scratch_most(), now = atomic_load_explicit(&taken, memory_order_relaxed);

	do {
		if (bytes > (most - now) / 2)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&taken, &now, now + bytes,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

static void *take(uint64_t items, size_t size, bool zero)
{
	size_t bytes, counted;
	struct block *b;

	if (__builtin_mul_overflow(items, size, &bytes))
		return NULL;
	counted = bytes > STD_SCRATCH_SMALL ? bytes : 0;
	if (counted && !charge(counted))
		return NULL;
	/* What counts is less than all memory: the sum doesn't wrap around. */
	b = zero ? calloc(1, sizeof(*b) + bytes) : malloc(sizeof(*b) + bytes);
	if (!b) {
		atomic_fetch_sub_explicit(&taken, counted, memory_order_relaxed);
		return NULL;
	}
	b->bytes = counted;
	return b + 1;
}

void *std_scratch(uint64_t items, size_t size)
{
	return take(items, size, false);
}

void *std_scratch_zeros(uint64_t items, size_t size)
{
	return take(items, size, true);
}

void std_scratch_free(void *p)
{
	struct block *b = p;
	size_t bytes;

	if (!b)
		return;
	bytes = (--b)->bytes;
	free(b);
	if (bytes)
		atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
}
