// SPDX-License-Identifier: MIT
/* sparse.c in OpenCL C. */

/* Each is read once.  Where kernels run on CPU cores min() is no branch to run ahead of. */
#define ONCE(p, i)	(((volatile __global const uint *)(p))[i])

/* That have rows, whatever the grid is. */
#define SPMV_GROUPS	1024

/* Items i .. end - 1 times x; false: one is beyond the last column. */
static bool run_times(__global const uint *col, __global const float *value,
		      __global const float *x, uint cols, uint i, uint end, float *sum)
{
	*sum = 0;
	for (; i < end; i++) {
		uint c = ONCE(col, i);

		if (c >= cols)
			return false;
		*sum += value[i] * x[min(c, cols - 1)];
	}
	return true;
}

static bool row_times(__global const uint *col, __global const float *value,
		      __global const float *x, uint cols, uint i, uint end, float *all)
{
	long_sum sum = 0;
	float part;

	if (i >= end || end - i <= RUN)
		return run_times(col, value, x, cols, i, end, all);
	for (; end - i > RUN; i += RUN) {
		if (!run_times(col, value, x, cols, i, i + RUN, &part))
			return false;
		sum += part;
	}
	if (!run_times(col, value, x, cols, i, end, &part))
		return false;
	*all = (float)(sum + part);
	return true;
}

/*
 * Where rows begin is read once, a tile of rows at a time, and each tile goes on where the one
 * before it ended: so a group's rows have no more items together than there are, whatever the
 * contents say, and however they change.
 */
__kernel void arax_std_spmv(__global const uint *begin, ulong nbegin, __global const uint *col,
			    ulong ncol, __global const float *value, ulong nvalue,
			    __global const float *x, ulong nx, __global float *y, ulong ny,
			    uint rows, uint cols, uint nnz, __global int *result)
{
	__local uint edge[PARTS + 1];
	__local int bad;
	ulong me = arax_item(), used = taking_part();
	ulong groups = min(arax_groups(), (ulong)SPMV_GROUPS), row, last;

	if (SHORT(nbegin, (ulong)rows + 1) || SHORT(ncol, nnz) || SHORT(nvalue, nnz) ||
	    SHORT(nx, cols) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	if (arax_group() >= groups)
		return;
	row = PIECE(rows, arax_group(), groups);
	last = PIECE(rows, arax_group() + 1, groups);
	if (!me) {
		bad = 0;
		edge[0] = row < last ? ONCE(begin, row) : 0;
	}
	for (; row < last; row += used) {
		ulong n = min(used, last - row);
		uint first = 0, end = 0, next;

		if (me < n)
			edge[me + 1] = ONCE(begin, row + me + 1);
		barrier(CLK_LOCAL_MEM_FENCE);
		if (me < n) {
			first = edge[me];
			end = edge[me + 1];
			if (first > end || end > nnz)
				bad = 1;
		}
		next = edge[n];
		barrier(CLK_LOCAL_MEM_FENCE);
		if (bad) {
			*result = -EINVAL;
			return;
		}
		if (!me)
			edge[0] = next;
		if (me < n) {
			float sum;

			end = min(end, nnz);
			if (row_times(col, value, x, cols, first, end, &sum))
				y[row + me] = sum;
			else
				*result = -EINVAL;
		}
	}
}
