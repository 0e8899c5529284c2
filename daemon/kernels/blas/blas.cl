// SPDX-License-Identifier: MIT
/*
 * What OpenCL devices have of arax-blas by themselves: products, where CLBlast (clblast.c) is not
 * installed, or not the better part.  triangle.cl goes on with what it takes from here.
 *
 * A group computes tiles of SIDE x SIDE, one after the other.  Strips of both matrices
 * stand in local memory, each work-item has some WIDTH x 1 pieces of the tile.  Whatever
 * the block is, the work-items that there are take the pieces in turns; a block of 64 has
 * one piece a work-item.
 */

#pragma OPENCL FP_CONTRACT ON

#define BLAS_UPPER	0x1u
#define BLAS_RIGHT	0x2u
#define BLAS_TRANS_A	0x4u
#define BLAS_TRANS_B	0x8u
#define BLAS_UNIT	0x10u

#define SIDE		32u	/* of a tile */
#define DEPTH		16u	/* of the strips */
#define WIDTH		16u	/* of a piece */
#define PIECES		(SIDE * SIDE / WIDTH)

#define SHORT(items, n)	((ulong)(n) > (items))

/* Of no terms alpha makes nothing, were it NaN; and where it is 0 there are none, whatever they would be. */
#define TERMS(alpha, k)		((alpha) == 0 ? 0ul : (ulong)(k))
#define FACTOR(alpha, k)	((k) ? (alpha) : 0)

/* Item (i, j) of a matrix, or of its transpose, or of one that is gone through from its end. */
#define ITEM(x, i, j)	((x).first[(long)(i) * (x).down + (long)(j) * (x).across])

/*
 * The sum of @k terms of the products of @a's rows and @b's columns, for the tile at @i0, @j0 of m x n;
 * 0 beyond.  Work-items meet before and after.  The pieces' sums are kept in local memory between
 * strips: private ones would need a block of PIECES work-items.
 */
#define GEMM(type, wide, vload, vstore, suffix) \
struct view##suffix { \
	__global const type *first; \
	long down, across; \
}; \
\
static void sum_tile##suffix(struct view##suffix a, struct view##suffix b, ulong m, ulong n, ulong k, \
			     ulong i0, ulong j0, __local type *sa, __local type *sb, \
			     __local type *sum) \
{ \
	ulong me = arax_item(), items = arax_items(); \
\
	for (ulong p = me; p < PIECES; p += items) \
		vstore((wide)0, p, sum); \
	for (ulong k0 = 0; k0 < k; k0 += DEPTH) { \
		for (ulong i = me; i < SIDE * DEPTH; i += items) { \
			ulong row = i0 + i % SIDE, at = k0 + i / SIDE; \
\
			sa[i] = row < m && at < k ? ITEM(a, row, at) : 0; \
		} \
		for (ulong i = me; i < SIDE * DEPTH; i += items) { \
			ulong at = k0 + i % DEPTH, column = j0 + i / DEPTH; \
\
			sb[i] = column < n && at < k ? ITEM(b, at, column) : 0; \
		} \
		barrier(CLK_LOCAL_MEM_FENCE); \
		for (ulong p = me; p < PIECES; p += items) { \
			ulong column = p / (SIDE / WIDTH), part = p % (SIDE / WIDTH); \
			wide s = vload(p, sum); \
\
			for (uint at = 0; at < DEPTH; at++) \
				s += vload(at * (SIDE / WIDTH) + part, sa) * sb[column * DEPTH + at]; \
			vstore(s, p, sum); \
		} \
		barrier(CLK_LOCAL_MEM_FENCE); \
	} \
	barrier(CLK_LOCAL_MEM_FENCE); \
} \
\
static struct view##suffix view##suffix(__global const type *x, ulong rows, bool turned) \
{ \
	struct view##suffix v = { x, turned ? (long)rows : 1, turned ? 1 : (long)rows }; \
\
	return v; \
} \
\
static void put_tile##suffix(__global type *c, ulong m, ulong n, ulong i0, ulong j0, type alpha, \
			     type beta, bool lower, bool upper, __local const type *sum) \
{ \
	for (ulong i = arax_item(); i < SIDE * SIDE; i += arax_items()) { \
		ulong row = i0 + i % SIDE, column = j0 + i / SIDE; \
\
		if (row < m && column < n && (lower || row <= column) && (upper || row >= column)) { \
			__global type *to = c + row + column * m; \
\
			*to = alpha * sum[i] + (beta == 0 ? 0 : beta * *to); \
		} \
	} \
	barrier(CLK_LOCAL_MEM_FENCE); \
} \
\
__kernel void arax_blas_gemm##suffix(__global const type *a, ulong na, __global const type *b, \
				     ulong nb, __global type *c, ulong nc, type alpha, type beta, \
				     uint m, uint n, uint k, uint flags, __global int *result) \
{ \
	__local type sa[SIDE * DEPTH], sb[SIDE * DEPTH], sum[SIDE * SIDE]; \
	ulong down = ((ulong)m + SIDE - 1) / SIDE, across = ((ulong)n + SIDE - 1) / SIDE; \
	ulong first = arax_share(down * across, arax_group()); \
	ulong end = arax_share(down * across, arax_group() + 1); \
	struct view##suffix view_a = view##suffix(a, flags & BLAS_TRANS_A ? k : m, flags & BLAS_TRANS_A); \
	struct view##suffix view_b = view##suffix(b, flags & BLAS_TRANS_B ? n : k, flags & BLAS_TRANS_B); \
\
	if (flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || max(max(m, n), k) > INT_MAX || \
	    SHORT(na, (ulong)m * k) || SHORT(nb, (ulong)k * n) || SHORT(nc, (ulong)m * n)) { \
		*result = -EINVAL; \
		return; \
	} \
	for (ulong tile = first; tile < end; tile++) { \
		ulong i0 = tile % down * SIDE, j0 = tile / down * SIDE; \
\
		sum_tile##suffix(view_a, view_b, m, n, TERMS(alpha, k), i0, j0, sa, sb, sum); \
		put_tile##suffix(c, m, n, i0, j0, FACTOR(alpha, k), beta, true, true, sum); \
	} \
} \
\
__kernel void arax_blas_gemv##suffix(__global const type *a, ulong na, __global const type *x, \
				     ulong nx, __global type *y, ulong ny, type alpha, type beta, \
				     uint m, uint n, uint flags, __global int *result) \
{ \
	bool ta = flags & BLAS_TRANS_A; \
	ulong rows = ta ? n : m, columns = ta ? m : n; \
	ulong first = arax_share(rows, arax_group()), end = arax_share(rows, arax_group() + 1); \
	ulong items = arax_items(), strip = ta ? max(columns, 1ul) : DEPTH; \
	struct view##suffix view_a = view##suffix(a, m, ta); \
\
	if (flags & ~BLAS_TRANS_A || max(m, n) > INT_MAX || SHORT(na, (ulong)m * n) || \
	    SHORT(nx, columns) || SHORT(ny, rows)) { \
		*result = -EINVAL; \
		return; \
	} \
	alpha = FACTOR(alpha, columns); \
	columns = TERMS(alpha, columns); \
	for (ulong row = first; row < end; row += items) { \
		ulong i = row + arax_item(); \
		type part = 0; \
\
		for (ulong j = 0; j < columns; j += strip) { \
			for (ulong k = j; i < end && k < min(j + strip, columns); k++) \
				part += ITEM(view_a, i, k) * x[k]; \
			barrier(CLK_LOCAL_MEM_FENCE); \
		} \
		if (i < end) \
			y[i] = alpha * part + (beta == 0 ? 0 : beta * y[i]); \
	} \
}

/*
 * Of a column's items gemv's work-items have one each, a strip of columns at a time: where they run one
 * after the other, on a processor, they go through memory in its order by that.
 */
GEMM(float, float16, vload16, vstore16, _f32)
#ifdef cl_khr_fp64
GEMM(double, double16, vload16, vstore16, )
#endif
