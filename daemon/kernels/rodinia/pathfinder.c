// SPDX-License-Identifier: MIT
/*
 * pathfinder: the cheapest way through a wall from its first row, each step to one of
 * the three stones above; some rows a launch.  As in hotspot.c a group has a border as
 * wide as there are rows.
 */
#include "daemon/kernels/rodinia/rodinia.h"

struct path_args {
	uint32_t cols, rows;
};

ARAX_KERNEL int rodinia_pathfinder(const struct arax_launch *l);

STD_CLONES static void one_row(int32_t *restrict to, const int32_t *restrict from,
			       const int32_t *restrict wall, uint64_t n)
{
	for (uint64_t x = 0; x < n; x++) {
		int32_t least = from[x + 1];

		least = from[x] < least ? from[x] : least;
		least = from[x + 2] < least ? from[x + 2] : least;
		to[x + 1] = ro_add(wall[x], least);
	}
}

static void one_group(const struct path_args *a, const int32_t *wall, const int32_t *from,
		      int32_t *to, uint64_t g)
{
	/* One more at either end: what is beyond the wall costs as much as its edge. */
	int32_t tile[2][RO_PATH_TILE + 2];
	int64_t border = a->rows, cols = a->cols;
	int64_t left = (int64_t)(g * (uint64_t)(RO_PATH_TILE - 2 * border)) - border;
	int64_t begin = left < 0 ? 0 : left;
	int64_t end = left + RO_PATH_TILE < cols ? left + RO_PATH_TILE : cols;
	int64_t first = left + border, last = left + RO_PATH_TILE - border;
	uint64_t n = (uint64_t)(end - begin);

	memcpy(&tile[0][1], &from[begin], n * sizeof(*from));
	for (uint32_t r = 0; r < a->rows; r++) {
		int32_t *now = tile[r % 2];

		now[0] = now[1];
		now[n + 1] = now[n];
		one_row(tile[(r + 1) % 2], now, &wall[(int64_t)r * cols + begin], n);
	}
	if (last > cols)
		last = cols;
	memcpy(&to[first], &tile[a->rows % 2][1 + first - begin],
	       (size_t)(last - first) * sizeof(*to));
}

ARAX_KERNEL int rodinia_pathfinder(const struct arax_launch *l)
{
	const int32_t *wall, *from;
	struct path_args a;
	int32_t *to;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.cols || a.cols > 1u << 30 || !a.rows ||
	    a.rows > RO_PATH_ROWS)
		return -EINVAL;
	wall = ARAX_ITEMS(l, 0, (uint64_t)a.cols * a.rows, int32_t);
	from = ARAX_ITEMS(l, 1, a.cols, int32_t);
	to = ARAX_ITEMS(l, 2, a.cols, int32_t);
	if (!wall || !from || !to ||
	    !ro_geometry(l, (struct ro_dims){ RO_GROUPS(a.cols, RO_PATH_TILE - 2 * a.rows), 1, 1 },
			 (struct ro_dims){ RO_PATH_ITEMS, 1, 1 }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++)
		one_group(&a, wall, from, to, g);
	return 0;
}
