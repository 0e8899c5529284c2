// SPDX-License-Identifier: MIT
/*
 * hotspot.c in OpenCL C: the tile is in local memory, a step ends at a barrier.
 *
 * A work-item has some rows of its column.  Loops through them are of constant length and
 * unrolled: with one from its row on, PoCL 3.1 (LLVM 15) does not store the result.
 */

#define AMBIENT 80.0f

__kernel void rodinia_hotspot(__global const float *power, ulong npower, __global const float *from,
			      ulong nfrom, __global float *to, ulong nto, uint rows, uint cols,
			      uint steps, float scale, float rx, float ry, float rz,
			      __global int *result)
{
	__local float tile[2][RO_HOT_Y][RO_HOT_X];
	ulong cells = (ulong)rows * cols;
	int border = steps, lx = get_local_id(0), ly = get_local_id(1);
	int col, row;
	uint now = 0;

	if (!rows || !cols || rows > 1u << 16 || cols > 1u << 16 || !steps ||
	    steps > RO_HOT_STEPS || npower < cells || nfrom < cells || nto < cells ||
	    !ro_geometry(RO_GROUPS((ulong)cols, RO_HOT_X - 2 * steps),
			 RO_GROUPS((ulong)rows, RO_HOT_Y - 2 * steps), 1, RO_HOT_X, RO_HOT_ITEMS_Y,
			 1)) {
		*result = -EINVAL;
		return;
	}
	col = (int)(get_group_id(0) * (RO_HOT_X - 2 * steps)) - border + lx;
	row = (int)(get_group_id(1) * (RO_HOT_Y - 2 * steps)) - border;
#pragma unroll
	for (int k = 0; k < RO_HOT_Y / RO_HOT_ITEMS_Y; k++) {
		int y = k * RO_HOT_ITEMS_Y + ly;
		int in = row + y >= 0 && row + y < (int)rows && col >= 0 && col < (int)cols;

		tile[0][y][lx] = in ? from[(long)(row + y) * cols + col] : 0;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint s = 0; s < steps; s++) {
		/* Beyond the chip's edge it is as warm as at it; so, harmlessly, beyond the tile's. */
		int left = col > 0 && lx > 0 ? lx - 1 : lx;
		int right = col + 1 < (int)cols && lx + 1 < RO_HOT_X ? lx + 1 : lx;

#pragma unroll
		for (int k = 0; k < RO_HOT_Y / RO_HOT_ITEMS_Y; k++) {
			int y = k * RO_HOT_ITEMS_Y + ly;
			int up = row + y > 0 && y > 0 ? y - 1 : y;
			int down = row + y + 1 < (int)rows && y + 1 < RO_HOT_Y ? y + 1 : y;
			float mid = tile[now][y][lx];

			if (row + y >= 0 && row + y < (int)rows && col >= 0 && col < (int)cols)
				tile[!now][y][lx] = mid +
					scale * (power[(long)(row + y) * cols + col] +
						 (tile[now][down][lx] + tile[now][up][lx] -
						  2 * mid) * ry +
						 (tile[now][y][right] + tile[now][y][left] -
						  2 * mid) * rx +
						 (AMBIENT - mid) * rz);
		}
		now = !now;
		barrier(CLK_LOCAL_MEM_FENCE);
	}
#pragma unroll
	for (int k = 0; k < RO_HOT_Y / RO_HOT_ITEMS_Y; k++) {
		int y = k * RO_HOT_ITEMS_Y + ly;

		if (lx >= border && lx < RO_HOT_X - border && y >= border && y < RO_HOT_Y - border &&
		    row + y < (int)rows && col < (int)cols)
			to[(long)(row + y) * cols + col] = tile[now][y][lx];
	}
}
