// SPDX-License-Identifier: MIT
/*
 * What GPUs have of arax-blas by themselves: products, where there is no library of the vendor's,
 * or none that takes the launch.
 *
 * A block computes tiles of SIDE x SIDE, one after the other.  Strips of both matrices stand in
 * shared memory, each thread has a piece of PIECE x PIECE of the tile in registers.  Where a
 * block has fewer threads than the tile pieces, it goes over the strips again for the others.
 */
#include <arax/gpu.h>

#define BLAS_TRANS_A	0x4u
#define BLAS_TRANS_B	0x8u

#define SIDE		64u	/* of a tile */
#define DEPTH		16u	/* of the strips */
#define PIECE		4u
#define ACROSS		(SIDE / PIECE)
#define PIECES		(ACROSS * ACROSS)
#define ROW		(SIDE + 1)	/* of a strip: columns begin in different banks */

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

/* c as it becomes; where beta is 0 what stood there isn't read, and where alpha is 0 the sum is nothing. */
template <typename T>
static __device__ inline void put(T *c, T alpha, T sum, T beta)
{
	sum = alpha == 0 ? 0 : sum;
	*c = beta == 0 ? alpha * sum : multiply_add(alpha, sum, beta * *c);
}

/*
 * Rows @first.. of op(x), which has @rows rows and @columns columns, at columns @at..: into a
 * strip, depth by depth.  Neighbouring threads read neighbouring memory.
 */
template <typename T>
static __device__ void load_strip(T *strip, const T *x, bool by_rows, uint64_t rows, uint64_t columns,
				  uint64_t first, uint64_t at)
{
	for (uint32_t i = (uint32_t)arax_item(); i < SIDE * DEPTH; i += (uint32_t)arax_items()) {
		uint32_t r = by_rows ? i / DEPTH : i % SIDE, d = by_rows ? i % DEPTH : i / SIDE;
		uint64_t row = first + r, column = at + d;
		T v = 0;

		if (row < rows && column < columns)
			v = x[by_rows ? column + row * columns : row + column * rows];
		strip[d * ROW + r] = v;
	}
}

template <typename T>
static __device__ void gemm(const T *a, uint64_t na, const T *b, uint64_t nb, T *c, uint64_t nc,
			    T alpha, T beta, uint32_t m, uint32_t n, uint32_t k, uint32_t flags,
			    arax_gpu_result result, T *sa, T *sb)
{
	const uint64_t down = ((uint64_t)m + SIDE - 1) / SIDE, across = ((uint64_t)n + SIDE - 1) / SIDE;
	const uint64_t me = arax_item(), items = arax_items();

	if (flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || TOO_LONG(m) || TOO_LONG(n) || TOO_LONG(k) ||
	    SHORT(na, (uint64_t)m * k) || SHORT(nb, (uint64_t)k * n) || SHORT(nc, (uint64_t)m * n)) {
		*result = -EINVAL;
		return;
	}
	/* All threads of a block go the same way: they meet at barriers. */
	for (uint64_t tile = arax_group(); tile < down * across; tile += arax_groups()) {
		const uint64_t i0 = tile % down * SIDE, j0 = tile / down * SIDE;

		for (uint64_t p = 0; p < PIECES; p += items) {
			const uint32_t piece = (uint32_t)(p + me);
			const uint32_t pi = piece % ACROSS, pj = piece / ACROSS;
			T sum[PIECE][PIECE] = { { 0 } };

			for (uint64_t at = 0; at < k; at += DEPTH) {
				load_strip(sa, a, flags & BLAS_TRANS_A, m, k, i0, at);
				load_strip(sb, b, !(flags & BLAS_TRANS_B), n, k, j0, at);
				__syncthreads();
				for (uint32_t d = 0; piece < PIECES && d < DEPTH; d++)
					for (uint32_t i = 0; i < PIECE; i++)
						for (uint32_t j = 0; j < PIECE; j++)
							sum[i][j] = multiply_add(
								sa[d * ROW + pi + i * ACROSS],
								sb[d * ROW + pj + j * ACROSS],
								sum[i][j]);
				__syncthreads();
			}
			for (uint32_t i = 0; piece < PIECES && i < PIECE; i++)
				for (uint32_t j = 0; j < PIECE; j++) {
					uint64_t row = i0 + pi + i * ACROSS;
					uint64_t column = j0 + pj + j * ACROSS;

					if (row < m && column < n)
						put(&c[row + column * m], alpha, sum[i][j], beta);
				}
		}
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
	const uint64_t me = arax_item(), used = arax_items() < PARTS ? arax_items() : PARTS;

	if (flags & ~BLAS_TRANS_A || TOO_LONG(m) || TOO_LONG(n) || SHORT(na, (uint64_t)m * n) ||
	    SHORT(nx, columns) || SHORT(ny, rows)) {
		*result = -EINVAL;
		return;
	}
	if (!turned) {
		ARAX_EACH(i, rows) {
			T sum = 0;

			for (uint64_t j = 0; j < columns; j++)
				sum = multiply_add(a[i + j * m], x[j], sum);
			put(&y[i], alpha, sum, beta);
		}
		return;
	}
	for (uint64_t i = arax_group(); i < rows; i += arax_groups()) {
		T sum = 0;

		for (uint64_t j = me; me < used && j < columns; j += used)
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

ARAX_GPU_KERNEL arax_blas_gemm_f64(const double *a, uint64_t na, const double *b, uint64_t nb,
				   double *c, uint64_t nc, double alpha, double beta, uint32_t m,
				   uint32_t n, uint32_t k, uint32_t flags, arax_gpu_result result)
{
	__shared__ double sa[DEPTH * ROW], sb[DEPTH * ROW];

	if (result.canceled())
		return;
	gemm(a, na, b, nb, c, nc, alpha, beta, m, n, k, flags, result, sa, sb);
}

ARAX_GPU_KERNEL arax_blas_gemm_f32(const float *a, uint64_t na, const float *b, uint64_t nb, float *c,
				   uint64_t nc, float alpha, float beta, uint32_t m, uint32_t n,
				   uint32_t k, uint32_t flags, arax_gpu_result result)
{
	__shared__ float sa[DEPTH * ROW], sb[DEPTH * ROW];

	if (result.canceled())
		return;
	gemm(a, na, b, nb, c, nc, alpha, beta, m, n, k, flags, result, sa, sb);
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
