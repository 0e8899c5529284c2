// SPDX-License-Identifier: MIT
/* sparse.c for GPUs: a thread a row. */
#include "std_gpu.h"

ARAX_GPU_KERNEL arax_std_spmv(const uint32_t *begin, uint64_t nbegin, const uint32_t *col,
			      uint64_t ncol, const float *value, uint64_t nvalue, const float *x,
			      uint64_t nx, float *y, uint64_t ny, uint32_t rows, uint32_t cols,
			      uint32_t nnz, int32_t *result)
{
	if (SHORT(nbegin, (uint64_t)rows + 1) || SHORT(ncol, nnz) || SHORT(nvalue, nnz) ||
	    SHORT(nx, cols) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(row, rows) {
		uint32_t first = once(begin + row), end = once(begin + row + 1);
		bool good = first <= end && end <= nnz;
		float sum = 0;

		for (uint32_t i = first; good && i < end; i++) {
			uint32_t c = once(col + i);

			good = c < cols;
			if (good)
				sum += value[i] * x[c];
		}
		if (good)
			y[row] = sum;
		else
			*result = -EINVAL;
	}
}
