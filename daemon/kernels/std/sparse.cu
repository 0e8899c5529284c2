// SPDX-License-Identifier: MIT
/* sparse.c for GPUs: a thread a row, 256 of them at a time. */
#include "std_gpu.h"

/* That have rows, whatever the grid is. */
#define SPMV_GROUPS	1024u

/*
 * Where rows begin is read once, a tile of rows at a time, and each tile goes on where the one
 * before it ended: so a block's rows have no more items together than there are, whatever the
 * contents say.
 */
ARAX_GPU_KERNEL arax_std_spmv(const uint32_t *begin, uint64_t nbegin, const uint32_t *col,
			      uint64_t ncol, const float *value, uint64_t nvalue, const float *x,
			      uint64_t nx, float *y, uint64_t ny, uint32_t rows, uint32_t cols,
			      uint32_t nnz, arax_gpu_result result)
{
	__shared__ uint32_t edge[PARTS + 1];
	__shared__ int32_t bad;
	const uint64_t me = arax_item(), used = parts_used();
	const uint64_t groups = arax_groups() < SPMV_GROUPS ? arax_groups() : SPMV_GROUPS;

	if (result.canceled())
		return;
	if (SHORT(nbegin, (uint64_t)rows + 1) || SHORT(ncol, nnz) || SHORT(nvalue, nnz) ||
	    SHORT(nx, cols) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	if (arax_group() >= groups)
		return;

	const uint64_t last = PART(rows, groups, arax_group() + 1);
	uint64_t row = PART(rows, groups, arax_group());

	if (!me) {
		bad = 0;
		edge[0] = row < last ? once(begin + row) : 0;
	}
	for (; row < last; row += used) {
		const uint64_t n = last - row < used ? last - row : used;
		uint32_t first = 0, end = 0, next;

		if (me < n)
			edge[me + 1] = once(begin + row + me + 1);
		__syncthreads();
		if (me < n) {
			first = edge[me];
			end = edge[me + 1];
			if (first > end || end > nnz)
				bad = 1;
		}
		next = edge[n];
		__syncthreads();
		if (bad) {
			*result = -EINVAL;
			return;
		}
		if (!me)
			edge[0] = next;
		if (me < n) {
			bool good = true;
			double sum = 0;

			for (uint32_t i = first; good && i < end;) {
				uint32_t stop = end - i > RUN ? i + RUN : end;
				float part = 0;

				for (; good && i < stop; i++) {
					uint32_t c = once(col + i);

					good = c < cols;
					if (good)
						part += value[i] * x[c];
				}
				sum += part;
			}
			if (good)
				y[row + me] = (float)sum;
			else
				*result = -EINVAL;
		}
	}
}
