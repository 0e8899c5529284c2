// SPDX-License-Identifier: MIT
/*
 * arax-blas on triangles, with the tiles of blas.cl.
 *
 * Equations are solved from the first one on, factors made from the first column on, by a triangle
 * that is the lower one: of an upper one the transpose is, and the matrix from its end.  Tiles of
 * syrk and columns of trsm are dealt to the groups.  A factorisation is one group's, as its tiles
 * need each other and groups can't wait.
 *
 * Addresses and trip counts come from the arguments alone: also where there is no factor all
 * rounds are made, with numbers that are none.
 */
#ifdef cl_khr_fp64

static struct view turned(struct view v)
{
	struct view t = { v.first, v.across, v.down };

	return t;
}

/* From the last of @rows and @columns on. */
static struct view from_end(struct view v, ulong rows, ulong columns)
{
	struct view e = { v.first, -v.down, -v.across };

	if (rows && columns)
		e.first += (long)(rows - 1) * v.down + (long)(columns - 1) * v.across;
	return e;
}

#define SHORT_WIDTH	8u	/* a piece of a column */

/* To where a view's items may be written. */
#define PUT(x, i, j)	(*(__global double *)&ITEM(x, i, j))

/*
 * What is left of the tile of @b at @i0, @j0 by the equations before, in @sum by columns: @alpha b less
 * what is there; and the triangle of @a that it is to be solved by, with 1 where nothing divides.
 */
static void take_tile(struct view a, struct view b, ulong rows, ulong columns, ulong i0, ulong j0,
		      double alpha, bool unit, __local double *sum, __local double *triangle)
{
	for (ulong i = arax_item(); i < SIDE * SIDE; i += arax_items()) {
		ulong r = i % SIDE, c = i / SIDE;
		bool there = i0 + r < rows && i0 + c < rows;

		sum[i] = i0 + r < rows && j0 + c < columns ?
			 alpha * ITEM(b, i0 + r, j0 + c) - sum[i] : 0;
		triangle[i] = r == c ? (unit || !there ? 1 : ITEM(a, i0 + r, i0 + c)) :
			      r > c && there ? ITEM(a, i0 + r, i0 + c) : 0;
	}
	barrier(CLK_LOCAL_MEM_FENCE);
}

/* A column of the tile is one work-item's, who needs nobody else for it. */
static void solve_columns(__local double *sum, __local const double *triangle)
{
	for (ulong c = arax_item(); c < SIDE; c += arax_items()) {
		__local double *column = sum + c * SIDE;

		for (uint k = 0; k < SIDE; k++) {
			double x = column[k] / triangle[k * SIDE + k];
			uint r = k + 1;

			column[k] = x;
			for (; r % SHORT_WIDTH; r++)
				column[r] -= x * triangle[k * SIDE + r];
			for (uint part = r / SHORT_WIDTH; part < SIDE / SHORT_WIDTH; part++)
				vstore8(vload8(part, column) -
					x * vload8(k * (SIDE / SHORT_WIDTH) + part, triangle),
					part, column);
		}
	}
	barrier(CLK_LOCAL_MEM_FENCE);
}

/* With whatever follows seeing it. */
static void give_tile(struct view b, ulong rows, ulong columns, ulong i0, ulong j0, bool all,
		      __local const double *sum)
{
	for (ulong i = arax_item(); i < SIDE * SIDE; i += arax_items()) {
		ulong row = i0 + i % SIDE, column = j0 + i / SIDE;

		if (row < rows && column < columns && (all || row >= column))
			PUT(b, row, column) = sum[i];
	}
	barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
}

/*
 * The factors of the first @n rows and columns of a tile, in its place: L and U, or L alone, whose
 * diagonal is the root of what it would be; that is taken at the end.  False: there are none.
 */
static bool factor_tile(__local double *sum, ulong n, bool cholesky)
{
	bool has = true;

	for (ulong k = 0; k < n; k++) {
		double pivot = sum[k * SIDE + k];

		has = has && (pivot > 0 || (!cholesky && pivot < 0));
		if (cholesky)
			pivot = sqrt(pivot);
		for (ulong r = k + 1 + arax_item(); r < n; r += arax_items())
			sum[k * SIDE + r] /= pivot;
		barrier(CLK_LOCAL_MEM_FENCE);
		for (ulong i = arax_item(); i < SIDE * SIDE; i += arax_items()) {
			ulong r = i % SIDE, c = i / SIDE;

			if (c > k && c < n && r > k && r < n && (r >= c || !cholesky))
				sum[i] -= sum[k * SIDE + r] *
					  (cholesky ? sum[k * SIDE + c] : sum[c * SIDE + k]);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	for (ulong k = arax_item(); cholesky && k < n; k += arax_items())
		sum[k * SIDE + k] = sqrt(sum[k * SIDE + k]);
	barrier(CLK_LOCAL_MEM_FENCE);
	return has;
}

/*
 * a = L U, or L L^T, tile by tile of a column of tiles; each by the columns before.  Tiles below the
 * diagonal are solved by the transpose of U, or by L, as columns of their own transposes.
 */
static bool factor(struct view a, ulong n, bool cholesky, __local double *sa, __local double *sb,
		   __local double *sum, __local double *triangle)
{
	struct view t = turned(a);
	bool has = true;

	for (ulong j = 0; j < n; j += SIDE)
		for (ulong i = cholesky ? j : 0; i < n; i += SIDE) {
			bool below = i > j;
			ulong row = below ? j : i, column = below ? i : j;
			struct view left = below && !cholesky ? t : a;
			struct view right = cholesky ? t : left;
			struct view own = below ? right : a;

			sum_tile(left, right, n, n, row, row, column, sa, sb, sum);
			take_tile(left, own, n, n, row, column, 1, !below, sum, triangle);
			if (i == j)
				has = factor_tile(sum, min(n - j, (ulong)SIDE), cholesky) && has;
			else
				solve_columns(sum, triangle);
			give_tile(own, n, n, row, column, !cholesky || below, sum);
		}
	return has;
}

__kernel void arax_blas_potrf(__global double *a, ulong na, uint n, uint flags, __global int *result)
{
	__local double sa[SIDE * DEPTH], sb[SIDE * DEPTH], sum[SIDE * SIDE], triangle[SIDE * SIDE];

	if (flags & ~BLAS_UPPER || n > INT_MAX || SHORT(na, (ulong)n * n)) {
		*result = -EINVAL;
		return;
	}
	if (!arax_group() && !factor(view(a, n, flags & BLAS_UPPER), n, true, sa, sb, sum, triangle))
		*result = -EDOM;
}

__kernel void arax_blas_getrf(__global double *a, ulong na, uint n, uint flags, __global int *result)
{
	__local double sa[SIDE * DEPTH], sb[SIDE * DEPTH], sum[SIDE * SIDE], triangle[SIDE * SIDE];

	if (flags || n > INT_MAX || SHORT(na, (ulong)n * n)) {
		*result = -EINVAL;
		return;
	}
	if (!arax_group() && !factor(view(a, n, false), n, false, sa, sb, sum, triangle))
		*result = -EDOM;
}

__kernel void arax_blas_trsm(__global const double *a, ulong na, __global double *b, ulong nb,
			     double alpha, uint m, uint n, uint flags, __global int *result)
{
	__local double sa[SIDE * DEPTH], sb[SIDE * DEPTH], sum[SIDE * SIDE], triangle[SIDE * SIDE];
	const uint known = BLAS_UPPER | BLAS_RIGHT | BLAS_TRANS_A | BLAS_UNIT;
	bool right = flags & BLAS_RIGHT, turn = !(flags & BLAS_TRANS_A) == right;
	ulong order = right ? n : m, columns = right ? m : n, tiles = (columns + SIDE - 1) / SIDE;
	struct view by = view(a, order, turn), of = view(b, m, right);

	if (flags & ~known || max(m, n) > INT_MAX || SHORT(na, order * order) ||
	    SHORT(nb, (ulong)m * n)) {
		*result = -EINVAL;
		return;
	}
	/* Then nothing is solved. */
	if (alpha == 0) {
		ARAX_EACH(i, (ulong)m * n)
			b[i] = 0;
		return;
	}
	if (!(flags & BLAS_UPPER) == turn) {
		by = from_end(by, order, order);
		of = from_end(of, order, columns);
	}
	for (ulong tile = arax_share(tiles, arax_group()); tile < arax_share(tiles, arax_group() + 1);
	     tile++)
		for (ulong i = 0; i < order; i += SIDE) {
			sum_tile(by, of, order, columns, i, i, tile * SIDE, sa, sb, sum);
			take_tile(by, of, order, columns, i, tile * SIDE, alpha, flags & BLAS_UNIT, sum,
				  triangle);
			solve_columns(sum, triangle);
			give_tile(of, order, columns, i, tile * SIDE, true, sum);
		}
}

__kernel void arax_blas_syrk(__global const double *a, ulong na, __global double *c, ulong nc,
			     double alpha, double beta, uint n, uint k, uint flags, __global int *result)
{
	__local double sa[SIDE * DEPTH], sb[SIDE * DEPTH], sum[SIDE * SIDE];
	bool upper = flags & BLAS_UPPER, turn = flags & BLAS_TRANS_A;
	ulong down = ((ulong)n + SIDE - 1) / SIDE;
	struct view of = view(a, turn ? k : n, turn);

	if (flags & ~(BLAS_UPPER | BLAS_TRANS_A) || max(n, k) > INT_MAX || SHORT(na, (ulong)n * k) ||
	    SHORT(nc, (ulong)n * n)) {
		*result = -EINVAL;
		return;
	}
	/* By turns: a column of tiles has more of them than the next one, or fewer. */
	for (ulong tile = arax_group(); tile < down * down; tile += arax_groups()) {
		ulong i0 = tile % down * SIDE, j0 = tile / down * SIDE;

		if (upper ? i0 > j0 : i0 < j0)
			continue;
		sum_tile(of, turned(of), n, n, TERMS(alpha, k), i0, j0, sa, sb, sum);
		put_tile(c, n, n, i0, j0, FACTOR(alpha, k), beta, !upper, upper, sum);
	}
}

#endif /* cl_khr_fp64 */
