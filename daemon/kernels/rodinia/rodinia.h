/* SPDX-License-Identifier: MIT */
/*
 * rodinia.h - what the kernels of arax-rodinia share
 *
 * A kernel in C does the work of whole groups, so that what is a barrier in OpenCL
 * is the end of a loop here, and a loop through a row of a tile vectorises.
 */
#ifndef ARAX_KERNELS_RODINIA_H
#define ARAX_KERNELS_RODINIA_H

#include <stdbool.h>

#include "daemon/kernels/rodinia/shape.h"
#include "daemon/kernels/std/std.h"

/*
 * A value of a buffer that becomes an index: read once, so that what is compared is
 * what is used even if the client writes there meanwhile.
 */
#define RO_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))

/* Groups of several devices may not see each other's, but those of one task do. */
#define RO_SHARED_GET(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define RO_SHARED_SET(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)

struct ro_dims {
	uint64_t x, y, z;
};

static inline bool ro_geometry(const struct arax_launch *l, struct ro_dims groups,
			       struct ro_dims items)
{
	return l->grid[0] == groups.x && l->grid[1] == groups.y && l->grid[2] == groups.z &&
	       l->block[0] == items.x && l->block[1] == items.y && l->block[2] == items.z;
}

/* In a row: ceil(n / items) groups. */
static inline bool ro_row(const struct arax_launch *l, uint64_t n, uint64_t items)
{
	return ro_geometry(l, (struct ro_dims){ RO_GROUPS(n, items), 1, 1 },
			   (struct ro_dims){ items, 1, 1 });
}

static inline struct ro_dims ro_group(const struct arax_launch *l, uint64_t g)
{
	return (struct ro_dims){
		g % l->grid[0], g / l->grid[0] % l->grid[1],
		g / ((uint64_t)l->grid[0] * l->grid[1]),
	};
}

/* Wraps: a client chooses the numbers. */
static inline int32_t ro_add(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline uint64_t ro_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif /* ARAX_KERNELS_RODINIA_H */
