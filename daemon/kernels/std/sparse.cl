// SPDX-License-Identifier: MIT
/* sparse.c in OpenCL C. */

/* Each is read once.  Where kernels run on CPU cores min() is no branch to run ahead of. */
#define ONCE(p, i)	(((volatile __global const uint *)(p))[i])

__kernel void arax_std_spmv(__global const uint *begin, ulong nbegin, __global const uint *col,
			    ulong ncol, __global const float *value, ulong nvalue,
			    __global const float *x, ulong nx, __global float *y, ulong ny,
			    uint rows, uint cols, uint nnz, __global int *result)
{
	if (SHORT(nbegin, (ulong)rows + 1) || SHORT(ncol, nnz) || SHORT(nvalue, nnz) ||
	    SHORT(nx, cols) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	ARAX_EACH(row, rows) {
		uint first = ONCE(begin, row), end = ONCE(begin, row + 1);
		bool good = first <= end && end <= nnz;
		float sum = 0;

		end = good ? min(end, nnz) : 0;
		for (uint i = first; i < end; i++) {
			uint c = ONCE(col, i);

			good &= c < cols;
			if (!good)
				break;
			sum += value[i] * x[min(c, cols - 1)];
		}
		if (good)
			y[row] = sum;
		else
			*result = -EINVAL;
	}
}
