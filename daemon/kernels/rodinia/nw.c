// SPDX-License-Identifier: MIT
/*
 * Needleman-Wunsch: the scores of all alignments of two sequences, tile by tile; a
 * launch is one diagonal of tiles, which need the row above and the column to the
 * left of them.  score has a row and a column more than there are letters.
 */
#include "daemon/kernels/rodinia/rodinia.h"

struct nw_args {
	uint32_t n;
	int32_t penalty;
	uint32_t diagonal;
};

ARAX_KERNEL int rodinia_nw(const struct arax_launch *l);

static int32_t best(int32_t match, int32_t left, int32_t up)
{
	int32_t gap = left > up ? left : up;

	return match > gap ? match : gap;
}

static void one_tile(const struct nw_args *a, const int32_t *like, int32_t *score, uint64_t tx,
		     uint64_t ty)
{
	uint64_t n = a->n, wide = n + 1, x0 = tx * RO_NW_TILE, y0 = ty * RO_NW_TILE;
	uint64_t x1 = ro_min(x0 + RO_NW_TILE, n), y1 = ro_min(y0 + RO_NW_TILE, n);

	/* Nothing aligned with something: a gap for each letter. */
	for (uint64_t x = x0; !ty && x <= x1; x++)
		score[x] = -(int32_t)x * a->penalty;
	for (uint64_t y = y0; !tx && y <= y1; y++)
		score[y * wide] = -(int32_t)y * a->penalty;
	for (uint64_t y = y0 + 1; y <= y1; y++) {
		int32_t *row = &score[y * wide], *up = row - wide;

		for (uint64_t x = x0 + 1; x <= x1; x++)
			row[x] = best(ro_add(up[x - 1], like[(y - 1) * n + x - 1]),
				      ro_add(row[x - 1], -a->penalty), ro_add(up[x], -a->penalty));
	}
}

ARAX_KERNEL int rodinia_nw(const struct arax_launch *l)
{
	uint64_t n, tiles, first, count;
	const int32_t *like;
	struct nw_args a;
	int32_t *score;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || a.n > 1u << 16 || a.penalty < 0 ||
	    a.penalty > 1 << 10)
		return -EINVAL;
	n = a.n;
	tiles = RO_GROUPS(n, RO_NW_TILE);
	if (a.diagonal >= 2 * tiles - 1)
		return -EINVAL;
	first = a.diagonal < tiles ? 0 : a.diagonal - tiles + 1;
	count = a.diagonal < tiles ? a.diagonal + 1 : 2 * tiles - 1 - a.diagonal;
	like = ARAX_ITEMS(l, 0, n * n, int32_t);
	score = ARAX_ITEMS(l, 1, (n + 1) * (n + 1), int32_t);
	if (!like || !score ||
	    !ro_geometry(l, (struct ro_dims){ count, 1, 1 }, (struct ro_dims){ RO_NW_TILE, 1, 1 }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++)
		one_tile(&a, like, score, first + g, a.diagonal - first - g);
	return 0;
}
