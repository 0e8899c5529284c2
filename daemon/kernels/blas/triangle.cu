// SPDX-License-Identifier: MIT
/*
 * arax-blas on triangles, with the tiles of blas.cu: triangle.cl in CUDA C++, which says how.
 *
 * Addresses and trip counts come from the arguments alone: also where there is no factor all
 * rounds are made, with numbers that are none.
 */
#define ORDER		32u	/* of the tiles of equations and factors: several of them stand in shared memory */
#define ORDER_PIECE	2u
#define HALF		(ORDER / 2)

struct workplace {
	strips<double, ORDER> terms;
	/* By columns, which begin in different banks. */
	double sum[ORDER][ORDER + 1], triangle[ORDER][ORDER + 1];
};

typedef view<double> matrix;

/* From the last of @rows and @columns on. */
static __device__ inline matrix from_end(const matrix &v, uint64_t rows, uint64_t columns)
{
	const int64_t last = rows && columns ? (int64_t)(rows - 1) * v.down +
					       (int64_t)(columns - 1) * v.across : 0;

	return matrix{ v.first + last, -v.down, -v.across };
}

/*
 * What is left of the tile of @b at @i0, @j0 by the equations before, of @left and @right: @alpha b
 * less what is there; and the triangle of @left that it is to be solved by, with 1 where nothing divides.
 */
static __device__ void take_tile(workplace *w, const matrix &left, const matrix &right, const matrix &b,
				 uint64_t rows, uint64_t columns, uint64_t i0, uint64_t j0, double alpha,
				 bool unit)
{
	sum_tile<double, ORDER, ORDER_PIECE>(&w->terms, left, right.turned(), rows, columns, i0, i0, j0,
				      [&](uint64_t i, uint64_t j, double sum) {
		w->sum[j][i] = sum;
	});
	for (uint64_t i = arax_item(); i < ORDER * ORDER; i += arax_items()) {
		const uint64_t r = i % ORDER, c = i / ORDER;
		const bool there = i0 + r < rows && i0 + c < rows;

		w->sum[c][r] = i0 + r < rows && j0 + c < columns ?
			       alpha * b(i0 + r, j0 + c) - w->sum[c][r] : 0;
		w->triangle[c][r] = r == c && (unit || !there) ? 1 :
				    r >= c && there ? left(i0 + r, i0 + c) : 0;
	}
	__syncthreads();
}

/* A column of the tile is one thread's, who needs nobody else for it; by halves, which fit its registers. */
static __device__ void solve_columns(workplace *w)
{
	for (uint64_t c = arax_item(); c < ORDER; c += arax_items()) {
		double *column = w->sum[c];

		for (uint32_t at = 0; at < ORDER; at += HALF) {
			double x[HALF];

			UNROLLED
			for (uint32_t r = 0; r < HALF; r++)
				x[r] = column[at + r];
			for (uint32_t k = 0; k < at; k++) {
				UNROLLED
				for (uint32_t r = 0; r < HALF; r++)
					x[r] = multiply_add(-column[k], w->triangle[k][at + r], x[r]);
			}
			UNROLLED
			for (uint32_t k = 0; k < HALF; k++) {
				x[k] /= w->triangle[at + k][at + k];
				UNROLLED
				for (uint32_t r = k + 1; r < HALF; r++)
					x[r] = multiply_add(-x[k], w->triangle[at + k][at + r], x[r]);
			}
			UNROLLED
			for (uint32_t r = 0; r < HALF; r++)
				column[at + r] = x[r];
		}
	}
	__syncthreads();
}

/* With whatever follows seeing it. */
static __device__ void give_tile(const workplace *w, const matrix &b, uint64_t rows, uint64_t columns,
				 uint64_t i0, uint64_t j0, bool all)
{
	for (uint64_t i = arax_item(); i < ORDER * ORDER; i += arax_items()) {
		const uint64_t row = i0 + i % ORDER, column = j0 + i / ORDER;

		if (row < rows && column < columns && (all || row >= column))
			const_cast<double &>(b(row, column)) = w->sum[i / ORDER][i % ORDER];
	}
	__syncthreads();
}

/*
 * The factors of the first @n rows and columns of a tile, in its place: L and U, or L alone, whose
 * diagonal is the root of what it would be; that is taken at the end.  False: there are none.
 */
static __device__ bool factor_tile(workplace *w, uint64_t n, bool cholesky)
{
	bool has = true;

	for (uint64_t k = 0; k < n; k++) {
		double pivot = w->sum[k][k];

		has = has && (pivot > 0 || (!cholesky && pivot < 0));
		if (cholesky)
			pivot = sqrt(pivot);
		for (uint64_t r = k + 1 + arax_item(); r < n; r += arax_items())
			w->sum[k][r] /= pivot;
		__syncthreads();
		for (uint64_t i = arax_item(); i < ORDER * ORDER; i += arax_items()) {
			const uint64_t r = i % ORDER, c = i / ORDER;

			if (c > k && c < n && r > k && r < n && (r >= c || !cholesky))
				w->sum[c][r] = multiply_add(-w->sum[k][r],
							    cholesky ? w->sum[k][c] : w->sum[c][k],
							    w->sum[c][r]);
		}
		__syncthreads();
	}
	for (uint64_t k = arax_item(); cholesky && k < n; k += arax_items())
		w->sum[k][k] = sqrt(w->sum[k][k]);
	__syncthreads();
	return has;
}

/*
 * a = L U, or L L^T, tile by tile of a column of tiles; each by the columns before.  Tiles below the
 * diagonal are solved by the transpose of U, or by L, as columns of their own transposes.
 */
static __device__ bool factor(workplace *w, const matrix &a, uint64_t n, bool cholesky)
{
	const matrix t = a.turned();
	bool has = true;

	for (uint64_t j = 0; j < n; j += ORDER)
		for (uint64_t i = cholesky ? j : 0; i < n; i += ORDER) {
			const bool below = i > j;
			const uint64_t row = below ? j : i, column = below ? i : j;
			const matrix left = below && !cholesky ? t : a, right = cholesky ? t : left;
			const matrix own = below ? right : a;

			take_tile(w, left, right, own, n, n, row, column, 1, !below);
			if (i == j)
				has = factor_tile(w, n - j < ORDER ? n - j : ORDER, cholesky) && has;
			else
				solve_columns(w);
			give_tile(w, own, n, n, row, column, !cholesky || below);
		}
	return has;
}

/* By one block, as its tiles need each other and blocks can't wait. */
static __device__ void factorise(workplace *w, double *a, uint64_t na, uint32_t n, uint32_t flags,
				 uint32_t known, bool cholesky, arax_gpu_result result)
{
	if (flags & ~known || TOO_LONG(n) || SHORT(na, (uint64_t)n * n)) {
		*result = -EINVAL;
		return;
	}
	if (!arax_group() && !factor(w, view_of<double>(a, n, flags & BLAS_UPPER), n, cholesky))
		*result = -EDOM;
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_potrf_f64(double *a, uint64_t na, uint32_t n, uint32_t flags, arax_gpu_result result)
{
	__shared__ workplace w;

	if (result.canceled())
		return;
	factorise(&w, a, na, n, flags, BLAS_UPPER, true, result);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_getrf_nopiv_f64(double *a, uint64_t na, uint32_t n, uint32_t flags,
			  arax_gpu_result result)
{
	__shared__ workplace w;

	if (result.canceled())
		return;
	factorise(&w, a, na, n, flags, 0, false, result);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_trsm_f64(const double *a, uint64_t na, double *b, uint64_t nb, double alpha, uint32_t m,
		   uint32_t n, uint32_t flags, arax_gpu_result result)
{
	__shared__ workplace w;
	const uint32_t known = BLAS_UPPER | BLAS_RIGHT | BLAS_TRANS_A | BLAS_UNIT;
	const bool right = flags & BLAS_RIGHT, turn = !(flags & BLAS_TRANS_A) == right;
	const uint64_t order = right ? n : m, columns = right ? m : n;
	matrix by = view_of(a, order, turn), of = view_of<double>(b, m, right);

	if (result.canceled())
		return;
	if (flags & ~known || TOO_LONG(m) || TOO_LONG(n) || SHORT(na, order * order) ||
	    SHORT(nb, (uint64_t)m * n)) {
		*result = -EINVAL;
		return;
	}
	/* Then nothing is solved. */
	if (alpha == 0) {
		ARAX_EACH(i, (uint64_t)m * n)
			b[i] = 0;
		return;
	}
	/* From the first equation on: of an upper triangle that is the last. */
	if (!(flags & BLAS_UPPER) == turn) {
		by = from_end(by, order, order);
		of = from_end(of, order, columns);
	}
	for (uint64_t j = arax_group() * ORDER; j < columns; j += arax_groups() * ORDER)
		for (uint64_t i = 0; i < order; i += ORDER) {
			take_tile(&w, by, of, of, order, columns, i, j, alpha, flags & BLAS_UNIT);
			solve_columns(&w);
			give_tile(&w, of, order, columns, i, j, true);
		}
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_syrk_f64(const double *a, uint64_t na, double *c, uint64_t nc, double alpha, double beta,
		   uint32_t n, uint32_t k, uint32_t flags, arax_gpu_result result)
{
	__shared__ strips<double, SIDE> s;
	const bool upper = flags & BLAS_UPPER, turn = flags & BLAS_TRANS_A;
	const uint64_t down = ((uint64_t)n + SIDE - 1) / SIDE;
	const matrix of = view_of(a, turn ? k : n, turn);
	const uint64_t terms = terms_of(alpha, k);

	if (result.canceled())
		return;
	if (flags & ~(BLAS_UPPER | BLAS_TRANS_A) || TOO_LONG(n) || TOO_LONG(k) ||
	    SHORT(na, (uint64_t)n * k) || SHORT(nc, (uint64_t)n * n)) {
		*result = -EINVAL;
		return;
	}
	alpha = factor_of(alpha, k);
	for (uint64_t tile = arax_group(); tile < down * down; tile += arax_groups()) {
		const uint64_t i0 = tile % down * SIDE, j0 = tile / down * SIDE;

		if (upper ? i0 > j0 : i0 < j0)
			continue;
		sum_tile<double, SIDE, PIECE>(&s, of, of, n, n, terms, i0, j0,
					      [&](uint64_t i, uint64_t j, double sum) {
			const uint64_t row = i0 + i, column = j0 + j;

			if (row < n && column < n && (upper ? row <= column : row >= column))
				put(&c[row + column * n], alpha, sum, beta);
		});
	}
}
