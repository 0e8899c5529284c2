// SPDX-License-Identifier: MIT
#include "daemon/kernels/std/scratch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

/* In front of what is given; as malloc() aligns. */
struct block {
	_Alignas(16) size_t bytes;
};

static _Atomic size_t taken;

size_t std_scratch_most(void)
{
	static _Atomic size_t most;
	size_t bytes = atomic_load_explicit(&most, memory_order_relaxed);
	struct sysinfo s;

	if (!bytes && !sysinfo(&s)) {
		/* What a user may pin by default is an eighth, and a sort takes twice that. */
		bytes = (size_t)((uint64_t)s.totalram * s.mem_unit / 4);
		atomic_store_explicit(&most, bytes, memory_order_relaxed);
	}
	return bytes;
}

static bool charge(size_t bytes)
{
	size_t most = std_scratch_most(), now = atomic_load_explicit(&taken, memory_order_relaxed);

	do {
		if (bytes > most || now > most - bytes)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&taken, &now, now + bytes,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

static void *take(uint64_t items, size_t size, bool zero)
{
	struct block *b;
	size_t bytes;

	if (__builtin_mul_overflow(items, size, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*b), &bytes) || !charge(bytes))
		return NULL;
	b = zero ? calloc(1, bytes) : malloc(bytes);
	if (!b) {
		atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
		return NULL;
	}
	b->bytes = bytes;
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
	atomic_fetch_sub_explicit(&taken, bytes, memory_order_relaxed);
}
