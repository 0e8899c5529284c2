// SPDX-License-Identifier: MIT
/*
 * What GPUs have of arax-blas by themselves: products, where there is no library of the vendor's,
 * or none that takes the launch.  triangle.cu goes on with what it takes from here.
 *
 * A block computes tiles of SIDE x SIDE, one after the other.  Strips of both matrices stand in
 * shared memory, each thread has a piece of PIECE x PIECE of the tile in registers.  Where a
 * block has fewer threads than the tile pieces, it goes over the strips again for the others.
 */
#include <arax/gpu.h>

#define BLAS_UPPER	0x1u
#define BLAS_RIGHT	0x2u
#define BLAS_TRANS_A	0x4u
#define BLAS_TRANS_B	0x8u
#define BLAS_UNIT	0x10u

#define SIDE		64u	/* of a tile */
#define DEPTH		16u	/* of the strips */
#define PIECE		4u

/* Of loops over what is to stand in registers. */
#if defined(__CUDACC__) || defined(__HIP__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

#define PARTS		256u	/* threads that add up a column */

#define SHORT(items, n)	((uint64_t)(n) > (items))
#define TOO_LONG(n)	((n) > 0x7fffffffu)

static __device__ inline float multiply_add(float a, float b, float c)
{
	return fmaf(a, b, c);
}

static __device__ inline double multiply_add(double a, double b, double c)
{
	return fma(a, b, c);
}

/* Of no terms alpha makes nothing, were it NaN; and where it is 0 there are none, whatever they would be. */
template <typename T>
static __device__ inline uint64_t terms_of(T alpha, uint64_t k)
{
	return alpha == 0 ? 0 : k;
}

template <typename T>
static __device__ inline T factor_of(T alpha, uint64_t k)
{
	return k ? alpha : 0;
}

/* c as it becomes; where beta is 0 what stood there isn't read. */
template <typename T>
static __device__ inline void put(T *c, T alpha, T sum, T beta)
{
	*c = beta == 0 ? alpha * sum : multiply_add(alpha, sum, beta * *c);
}

/* A matrix, or its transpose, or one that is gone through from its end. */
template <typename T> struct view {
	const T *first;
	int64_t down, across;

	__device__ const T &operator()(uint64_t i, uint64_t j) const
	{
		return first[(int64_t)i * down + (int64_t)j * across];
	}
	__device__ view turned() const
	{
		return view{ first, across, down };
	}
};

/* Of columns of @rows. */
template <typename T>
static __device__ inline view<T> view_of(const T *x, uint64_t rows, bool turned)
{
	return view<T>{ x, turned ? (int64_t)rows : 1, turned ? 1 : (int64_t)rows };
}

/* Of a tile of so many rows; columns begin in different banks. */
template <typename T, uint32_t ROWS> struct strips {
	T a[DEPTH][ROWS + 1], b[DEPTH][ROWS + 1];
};

/*
 * Rows @first.. of x, of which there are @rows with @terms, at terms @at..: into a strip, term by
 * term.  Neighbouring threads read neighbouring memory.
 */
template <typename T, uint32_t ROWS>
static __device__ void load_strip(T (*strip)[ROWS + 1], const view<T> &x, uint64_t rows, uint64_t terms,
				  uint64_t first, uint64_t at)
{
	const bool by_rows = x.across == 1 || x.across == -1;

	for (uint32_t i = (uint32_t)arax_item(); i < ROWS * DEPTH; i += (uint32_t)arax_items()) {
		uint32_t r = by_rows ? i / DEPTH : i % ROWS, d = by_rows ? i % DEPTH : i / ROWS;
		uint64_t row = first + r, term = at + d;

		strip[d][r] = row < rows && term < terms ? x(row, term) : 0;
	}
}

/*
 * put(i, j, sum) for each item of the tile, where sum is that of @terms products of row @i0 + i of
 * @a, which has @m, and row @j0 + j of @b, which has @n; 0 beyond.  All threads of a block call
 * it, and meet before anything is read and after.
 */
template <typename T, uint32_t ROWS, uint32_t PER, typename Put>
static __device__ inline void sum_tile(strips<T, ROWS> *s, const view<T> &a, const view<T> &b, uint64_t m,
				       uint64_t n, uint64_t terms, uint64_t i0, uint64_t j0,
				       const Put &put)
{
	const uint32_t across = ROWS / PER, pieces = across * across;
	const uint64_t me = arax_item(), items = arax_items();

	for (uint64_t p = 0; p < pieces; p += items) {
		const uint32_t piece = (uint32_t)(p + me);
		const uint32_t pi = piece % across, pj = piece / across;
		T sum[PER][PER] = { { 0 } };

		for (uint64_t at = 0; at < terms; at += DEPTH) {
			__syncthreads();
			load_strip<T, ROWS>(s->a, a, m, terms, i0, at);
			load_strip<T, ROWS>(s->b, b, n, terms, j0, at);
			__syncthreads();
			for (uint32_t d = 0; piece < pieces && d < DEPTH; d++) {
				UNROLLED
				for (uint32_t i = 0; i < PER; i++) {
					UNROLLED
					for (uint32_t j = 0; j < PER; j++)
						sum[i][j] = multiply_add(s->a[d][pi + i * across],
									 s->b[d][pj + j * across],
									 sum[i][j]);
				}
			}
		}
		if (piece >= pieces)
			continue;
		UNROLLED
		for (uint32_t i = 0; i < PER; i++) {
			UNROLLED
			for (uint32_t j = 0; j < PER; j++)
				put(pi + i * across, pj + j * across, sum[i][j]);
		}
	}
	__syncthreads();
}

template <typename T>
static __device__ void gemm(const T *a, uint64_t na, const T *b, uint64_t nb, T *c, uint64_t nc,
			    T alpha, T beta, uint32_t m, uint32_t n, uint32_t k, uint32_t flags,
			    arax_gpu_result result, strips<T, SIDE> *s)
{
	const uint64_t down = ((uint64_t)m + SIDE - 1) / SIDE, across = ((uint64_t)n + SIDE - 1) / SIDE;
	const view<T> by_a = view_of(a, flags & BLAS_TRANS_A ? k : m, flags & BLAS_TRANS_A);
	const view<T> by_b = view_of(b, flags & BLAS_TRANS_B ? n : k, flags & BLAS_TRANS_B).turned();
	const uint64_t terms = terms_of(alpha, k);

	if (flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || TOO_LONG(m) || TOO_LONG(n) || TOO_LONG(k) ||
	    SHORT(na, (uint64_t)m * k) || SHORT(nb, (uint64_t)k * n) || SHORT(nc, (uint64_t)m * n)) {
		*result = -EINVAL;
		return;
	}
	alpha = factor_of(alpha, k);
	/* All threads of a block go the same way: they meet at barriers. */
	for (uint64_t tile = arax_group(); tile < down * across; tile += arax_groups()) {
		const uint64_t i0 = tile % down * SIDE, j0 = tile / down * SIDE;

		sum_tile<T, SIDE, PIECE>(s, by_a, by_b, m, n, terms, i0, j0,
					 [&](uint64_t i, uint64_t j, T sum) {
			if (i0 + i < m && j0 + j < n)
				put(&c[i0 + i + (j0 + j) * m], alpha, sum, beta);
		});
	}
}

/* A thread a row; or, of the transpose, a block a column. */
template <typename T>
static __device__ void gemv(const T *a, uint64_t na, const T *x, uint64_t nx, T *y, uint64_t ny,
			    T alpha, T beta, uint32_t m, uint32_t n, uint32_t flags,
			    arax_gpu_result result, T *parts)
{
	const bool turned = flags & BLAS_TRANS_A;
	const uint64_t rows = turned ? n : m, columns = turned ? m : n;
	const uint64_t terms = terms_of(alpha, columns);
	const uint64_t me = arax_item(), used = arax_items() < PARTS ? arax_items() : PARTS;

	if (flags & ~BLAS_TRANS_A || TOO_LONG(m) || TOO_LONG(n) || SHORT(na, (uint64_t)m * n) ||
	    SHORT(nx, columns) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	alpha = factor_of(alpha, columns);
	if (!turned) {
		ARAX_EACH(i, rows) {
			T sum = 0;

			for (uint64_t j = 0; j < terms; j++)
				sum = multiply_add(a[i + j * m], x[j], sum);
			put(&y[i], alpha, sum, beta);
		}
		return;
	}
	for (uint64_t i = arax_group(); i < rows; i += arax_groups()) {
		T sum = 0;

		for (uint64_t j = me; me < used && j < terms; j += used)
			sum = multiply_add(a[j + i * m], x[j], sum);
		if (me < used)
			parts[me] = sum;
		__syncthreads();
		for (uint64_t j = 1; !me && j < used; j++)
			sum += parts[j];
		if (!me)
			put(&y[i], alpha, sum, beta);
		__syncthreads();
	}
}

/* With more registers than these leave a thread, the driver would refuse the largest blocks. */
ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_gemm_f64(const double *a, uint64_t na, const double *b, uint64_t nb, double *c, uint64_t nc,
		   double alpha, double beta, uint32_t m, uint32_t n, uint32_t k, uint32_t flags,
		   arax_gpu_result result)
{
	__shared__ strips<double, SIDE> s;

	if (result.canceled())
		return;
	gemm(a, na, b, nb, c, nc, alpha, beta, m, n, k, flags, result, &s);
}

ARAX_GPU_KERNEL __launch_bounds__(1024)
arax_blas_gemm_f32(const float *a, uint64_t na, const float *b, uint64_t nb, float *c, uint64_t nc,
		   float alpha, float beta, uint32_t m, uint32_t n, uint32_t k, uint32_t flags,
		   arax_gpu_result result)
{
	__shared__ strips<float, SIDE> s;

	if (result.canceled())
		return;
	gemm(a, na, b, nb, c, nc, alpha, beta, m, n, k, flags, result, &s);
}

ARAX_GPU_KERNEL arax_blas_gemv_f64(const double *a, uint64_t na, const double *x, uint64_t nx,
				   double *y, uint64_t ny, double alpha, double beta, uint32_t m,
				   uint32_t n, uint32_t flags, arax_gpu_result result)
{
	__shared__ double parts[PARTS];

	if (result.canceled())
		return;
	gemv(a, na, x, nx, y, ny, alpha, beta, m, n, flags, result, parts);
}

ARAX_GPU_KERNEL arax_blas_gemv_f32(const float *a, uint64_t na, const float *x, uint64_t nx, float *y,
				   uint64_t ny, float alpha, float beta, uint32_t m, uint32_t n,
				   uint32_t flags, arax_gpu_result result)
{
	__shared__ float parts[PARTS];

	if (result.canceled())
		return;
	gemv(a, na, x, nx, y, ny, alpha, beta, m, n, flags, result, parts);
}
