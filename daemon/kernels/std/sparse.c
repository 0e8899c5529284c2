// SPDX-License-Identifier: MIT
/*
 * Sparse matrices.  Where a row begins and which columns it has are contents of ranges:
 * each is read once, checked, and brought into its range.
 */
#include "daemon/kernels/std/std.h"

int arax_std_spmv(const struct arax_launch *l);

struct spmv_args {
	uint32_t rows, cols, nnz;
};

/*
 * spmv(in u32 begin[], in u32 col[], in f32 value[], in f32 x[], out f32 y[],
 *	u32 rows, u32 cols, u32 nnz):
 * y = A * x, A in compressed rows: items begin[i] .. begin[i + 1] - 1 are of row i.  -EINVAL if
 * a row ends before it begins or after nnz, or an item lies beyond the last column.
 */
ARAX_KERNEL int arax_std_spmv(const struct arax_launch *l)
{
	const uint32_t *begin, *col;
	const float *value, *x;
	struct spmv_args args;
	uint64_t row, last, end;
	float *y;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	begin = ARAX_ITEMS(l, 0, (uint64_t)args.rows + 1, uint32_t);
	col = ARAX_ITEMS(l, 1, args.nnz, uint32_t);
	value = ARAX_ITEMS(l, 2, args.nnz, float);
	x = ARAX_ITEMS(l, 3, args.cols, float);
	y = ARAX_ITEMS(l, 4, args.rows, float);
	if (!begin || !col || !value || !x || !y)
		return -EINVAL;
	arax_launch_share(l, args.rows, &row, &last);
	end = row < last ? std_once(&begin[row]) : 0;
	if (end > args.nnz)
		return -EINVAL;
	/* Where a row ends the next one begins: all of them are no more than there are items. */
	for (; row < last; row++) {
		uint64_t i = arax_index(end, (uint64_t)args.nnz + 1);
		double sum = 0;

		end = std_once(&begin[row + 1]);
		if (end > args.nnz || i > end)
			return -EINVAL;
		end = arax_index(end, (uint64_t)args.nnz + 1);
		for (; i < end; i++) {
			uint64_t c = std_once(&col[i]);

			if (c >= args.cols)
				return -EINVAL;
			sum += (double)value[i] * (double)x[arax_index(c, args.cols)];
		}
		y[row] = (float)sum;
	}
	return 0;
}
