// SPDX-License-Identifier: MIT
/* pathfinder.c in OpenCL C: the border is in local memory, a row ends at a barrier. */

__kernel void rodinia_pathfinder(__global const int *wall, ulong nwall, __global const int *from,
				 ulong nfrom, __global int *to, ulong nto, uint cols, uint rows,
				 __global int *result)
{
	__local int tile[2][RO_PATH_TILE];
	int me = get_local_id(0), border = rows, left;
	uint now = 0;

	if (!cols || cols > 1u << 30 || !rows || rows > RO_PATH_ROWS || nfrom < cols || nto < cols ||
	    nwall < (ulong)cols * rows ||
	    !ro_geometry(RO_GROUPS(cols, RO_PATH_TILE - 2 * rows), 1, 1, RO_PATH_ITEMS, 1, 1)) {
		*result = -EINVAL;
		return;
	}
	left = (int)(get_group_id(0) * (RO_PATH_TILE - 2 * rows)) - border;
	for (int x = me; x < RO_PATH_TILE; x += RO_PATH_ITEMS)
		tile[0][x] = left + x >= 0 && left + x < (int)cols ? from[left + x] : 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint r = 0; r < rows; r++) {
		for (int x = me; x < RO_PATH_TILE; x += RO_PATH_ITEMS) {
			/* Beyond the wall it costs as much as at its edge; so, harmlessly, here. */
			int west = left + x > 0 && x > 0 ? x - 1 : x;
			int east = left + x + 1 < (int)cols && x + 1 < RO_PATH_TILE ? x + 1 : x;

			if (left + x >= 0 && left + x < (int)cols)
				tile[!now][x] = wall[(ulong)r * cols + left + x] +
						min(tile[now][x],
						    min(tile[now][west], tile[now][east]));
		}
		now = !now;
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	for (int x = me; x < RO_PATH_TILE; x += RO_PATH_ITEMS)
		if (x >= border && x < RO_PATH_TILE - border && left + x < (int)cols)
			to[left + x] = tile[now][x];
}
