// SPDX-License-Identifier: MIT
/* nw.c in OpenCL C: in a tile, too, a diagonal after the other. */

__kernel void rodinia_nw(__global const int *like, ulong nlike, __global int *score, ulong nscore,
			 uint n, int penalty, uint diagonal, __global int *result)
{
	__local int tile[RO_NW_TILE + 1][RO_NW_TILE + 1], match[RO_NW_TILE][RO_NW_TILE];
	ulong tiles = RO_GROUPS((ulong)n, RO_NW_TILE), wide = (ulong)n + 1, count, tx, ty;
	int me = get_local_id(0), x, y0;

	count = diagonal < tiles ? diagonal + 1 : 2 * tiles - 1 - diagonal;
	if (!n || n > 1u << 16 || penalty < 0 || penalty > 1 << 10 || diagonal >= 2 * tiles - 1 ||
	    nlike < (ulong)n * n || nscore < wide * wide ||
	    !ro_geometry(count, 1, 1, RO_NW_TILE, 1, 1)) {
		*result = -EINVAL;
		return;
	}
	tx = (diagonal < tiles ? 0 : diagonal - tiles + 1) + get_group_id(0);
	ty = diagonal - tx;
	x = tx * RO_NW_TILE + me;	/* of this work-item's letter; its column is x + 1 */
	y0 = ty * RO_NW_TILE;
	/* Nothing aligned with something: a gap for each letter. */
	if (x < (int)n) {
		if (!ty)
			score[x + 1] = -(x + 1) * penalty;
		tile[0][me + 1] = ty ? score[y0 * wide + x + 1] : -(x + 1) * penalty;
		for (int y = 0; y < RO_NW_TILE && y0 + y < (int)n; y++)
			match[y][me] = like[(ulong)(y0 + y) * n + x];
	}
	if (y0 + me < (int)n) {
		if (!tx)
			score[(y0 + me + 1) * wide] = -(y0 + me + 1) * penalty;
		tile[me + 1][0] = tx ? score[(y0 + me + 1) * wide + tx * RO_NW_TILE] :
				       -(y0 + me + 1) * penalty;
	}
	if (!me) {
		if (!tx && !ty)
			score[0] = 0;
		if (tx && ty)
			tile[0][0] = score[y0 * wide + tx * RO_NW_TILE];
		else
			tile[0][0] = -(int)(tx ? tx * RO_NW_TILE : y0) * penalty;
	}
	for (int step = 0; step < 2 * RO_NW_TILE - 1; step++) {
		int y = step - me;

		barrier(CLK_LOCAL_MEM_FENCE);
		if (y >= 0 && y < RO_NW_TILE)
			tile[y + 1][me + 1] = max(tile[y][me] + match[y][me],
						  max(tile[y + 1][me], tile[y][me + 1]) - penalty);
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	for (int y = 0; x < (int)n && y < RO_NW_TILE && y0 + y < (int)n; y++)
		score[(y0 + y + 1) * wide + x + 1] = tile[y + 1][me + 1];
}
