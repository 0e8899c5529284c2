// SPDX-License-Identifier: MIT
/*
 * hotspot: the temperature of a chip, some steps a launch.  A group takes its tile
 * with a border of one cell a step into memory of its own and needs no neighbour then:
 * of a step's results the outermost ring is wrong, and stays in the border.
 *
 * Beyond the chip's edge it is as warm as at it.
 */
#include "daemon/kernels/rodinia/rodinia.h"

struct hot_args {
	uint32_t rows, cols, steps;
	float scale, x, y, z;	/* step / capacity, and 1 / resistances */
};

#define AMBIENT	80.0f

/* With room for what is beyond the edge. */
typedef float tile_t[RO_HOT_Y + 2][RO_HOT_X + 2];

struct hot_tile {
	tile_t t[2];
	int64_t row, col;	/* in the chip, of t[1][1] */
	int64_t top, bottom, left, right;	/* in the tile: what lies in the chip */
};

ARAX_KERNEL int rodinia_hotspot(const struct arax_launch *l);

static void load(struct hot_tile *h, const struct hot_args *a, const float *from)
{
	h->top = h->row < 0 ? -h->row : 0;
	h->left = h->col < 0 ? -h->col : 0;
	h->bottom = h->row + RO_HOT_Y > a->rows ? a->rows - h->row : RO_HOT_Y;
	h->right = h->col + RO_HOT_X > a->cols ? a->cols - h->col : RO_HOT_X;
	for (int64_t y = h->top; y < h->bottom; y++)
		memcpy(&h->t[0][y + 1][h->left + 1],
		       &from[(h->row + y) * a->cols + h->col + h->left],
		       (size_t)(h->right - h->left) * sizeof(*from));
}

/* As warm beyond the edge as at it. */
static void mirror(struct hot_tile *h, tile_t t)
{
	for (int64_t y = h->top + 1; y <= h->bottom; y++) {
		t[y][h->left] = t[y][h->left + 1];
		t[y][h->right + 1] = t[y][h->right];
	}
	memcpy(&t[h->top][h->left], &t[h->top + 1][h->left],
	       (size_t)(h->right - h->left + 2) * sizeof(float));
	memcpy(&t[h->bottom + 1][h->left], &t[h->bottom][h->left],
	       (size_t)(h->right - h->left + 2) * sizeof(float));
}

STD_CLONES static void one_row(float *restrict to, const float *restrict up,
			       const float *restrict mid, const float *restrict down,
			       const float *restrict power, const struct hot_args *a, int64_t n)
{
	float scale = a->scale, rx = a->x, ry = a->y, rz = a->z;

	for (int64_t x = 0; x < n; x++)
		to[x] = mid[x] + scale * (power[x] + (down[x] + up[x] - 2 * mid[x]) * ry +
					  (mid[x + 1] + mid[x - 1] - 2 * mid[x]) * rx +
					  (AMBIENT - mid[x]) * rz);
}

static void one_tile(struct hot_tile *h, const struct hot_args *a, const float *power,
		     const float *from, float *to)
{
	int64_t border = a->steps, y0, y1, x0, x1;
	tile_t *now = &h->t[0], *next = &h->t[1], *swap;

	load(h, a, from);
	for (uint32_t s = 0; s < a->steps; s++) {
		mirror(h, *now);
		for (int64_t y = h->top + 1; y <= h->bottom; y++)
			one_row(&(*next)[y][h->left + 1], &(*now)[y - 1][h->left + 1],
				&(*now)[y][h->left + 1], &(*now)[y + 1][h->left + 1],
				&power[(h->row + y - 1) * a->cols + h->col + h->left], a,
				h->right - h->left);
		swap = now;
		now = next;
		next = swap;
	}
	y0 = border;
	x0 = border;
	y1 = RO_HOT_Y - border < h->bottom ? RO_HOT_Y - border : h->bottom;
	x1 = RO_HOT_X - border < h->right ? RO_HOT_X - border : h->right;
	for (int64_t y = y0; y < y1 && x0 < x1; y++)
		memcpy(&to[(h->row + y) * a->cols + h->col + x0], &(*now)[y + 1][x0 + 1],
		       (size_t)(x1 - x0) * sizeof(*to));
}

ARAX_KERNEL int rodinia_hotspot(const struct arax_launch *l)
{
	uint64_t cells, wide, high;
	const float *power, *from;
	struct hot_args a;
	struct hot_tile h;
	float *to;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.rows || !a.cols || !a.steps ||
	    a.rows > 1u << 16 || a.cols > 1u << 16 || a.steps > RO_HOT_STEPS)
		return -EINVAL;
	cells = (uint64_t)a.rows * a.cols;
	wide = RO_HOT_X - 2 * a.steps;
	high = RO_HOT_Y - 2 * a.steps;
	power = ARAX_ITEMS(l, 0, cells, float);
	from = ARAX_ITEMS(l, 1, cells, float);
	to = ARAX_ITEMS(l, 2, cells, float);
	if (!power || !from || !to ||
	    !ro_geometry(l, (struct ro_dims){ RO_GROUPS(a.cols, wide), RO_GROUPS(a.rows, high), 1 },
			 (struct ro_dims){ RO_HOT_X, RO_HOT_ITEMS_Y, 1 }))
		return -EINVAL;
	/* Cells of the tile that nothing loads are computed with, but not kept. */
	memset(&h, 0, sizeof(h));
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		struct ro_dims at = ro_group(l, g);

		h.row = (int64_t)(at.y * high) - a.steps;
		h.col = (int64_t)(at.x * wide) - a.steps;
		one_tile(&h, &a, power, from, to);
	}
	return 0;
}
