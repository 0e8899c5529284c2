// SPDX-License-Identifier: MIT
/*
 * arax-blas: tiles of matrices, by OpenBLAS.
 *
 * A tile is a flat range, column by column without gaps.  What only one triangle of
 * is meant leaves the other alone.  Each call computes on the calling thread: the
 * device decides how many cores work, not the library, whose OpenMP starts threads
 * only in a thread that wants more than one (see tile()).  Products are dealt to
 * work-groups by blocks of the result, others by its columns or rows.
 *
 * `flags` are those of blas.h.  Addresses and trip counts come from the arguments
 * alone: that is why there is no pivoting here, whose row numbers come from the data.
 */
#include <cblas.h>
#include <dlfcn.h>

#include "daemon/kernels/blas/blas.h"

/* What cblas.h has not: OpenMP's, and LAPACK's.  The last of that is the length of a Fortran string. */
void omp_set_num_threads(int n);
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t length);

int arax_blas_potrf(const struct arax_launch *l);
int arax_blas_trsm(const struct arax_launch *l);
int arax_blas_syrk(const struct arax_launch *l);
int arax_blas_gemm(const struct arax_launch *l);
int arax_blas_gemm_f32(const struct arax_launch *l);
int arax_blas_gemv(const struct arax_launch *l);
int arax_blas_gemv_f32(const struct arax_launch *l);
int arax_blas_getrf(const struct arax_launch *l);

/*
 * Runtimes that keep state for threads and can't take it back: once loaded they stay,
 * also when this library goes.
 */
static __attribute__((constructor)) void keep_runtimes(void)
{
	static const char *const names[] = { "libopenblas.so.0", "libgomp.so.1", "libgfortran.so.5" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/*
 * A result is computed in blocks of so many, or in strips, however it is cut: so each item's
 * terms are added up in one order, in every launch.  Products' parts, by the manifest, are blocks.
 */
#define SIDE		512u
#define STRIP		64u
/* Of rows, where columns are gone along: less of each is no gain. */
#define ROWS		512u

/* Below this many columns a loop is as fast as recursion. */
#define GETRF_LEAF	8

/* What the library counts in is an int. */
static bool fits(uint32_t n)
{
	return n <= INT32_MAX;
}

/* Every kernel needs one, so the thread is made to compute alone here, too. */
static void *tile_of(const struct arax_launch *l, uint32_t i, uint32_t rows, uint32_t columns,
		     uint32_t item_size)
{
	static __thread bool alone;

	if (!alone) {
		omp_set_num_threads(1);
		alone = true;
	}
	return arax_launch_items(l, i, (uint64_t)rows * columns, item_size);
}

static double *tile(const struct arax_launch *l, uint32_t i, uint32_t rows, uint32_t columns)
{
	return tile_of(l, i, rows, columns, sizeof(double));
}

static float *tile_f32(const struct arax_launch *l, uint32_t i, uint32_t rows, uint32_t columns)
{
	return tile_of(l, i, rows, columns, sizeof(float));
}

/* A leading dimension is at least 1 also where there is nothing. */
static int lead(uint32_t rows)
{
	return rows ? (int)rows : 1;
}

/* What a call is for of a result in blocks, one column of them after the other. */
struct blocks {
	uint64_t i, end;
	uint32_t m, n;				/* of the result */
	uint32_t row, rows, col, cols;		/* of the block */
};

static uint32_t blocks_in(uint32_t n)
{
	return n / SIDE + (n % SIDE != 0);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void blocks_begin(struct blocks *b, const struct arax_launch *l, uint32_t m, uint32_t n)
{
	b->m = m;
	b->n = n;
	arax_launch_share(l, (uint64_t)blocks_in(m) * blocks_in(n), &b->i, &b->end);
}

static bool blocks_next(struct blocks *b)
{
	if (b->i == b->end)
		return false;
	b->row = (uint32_t)(b->i % blocks_in(b->m)) * SIDE;
	b->col = (uint32_t)(b->i / blocks_in(b->m)) * SIDE;
	b->rows = least(SIDE, b->m - b->row);
	b->cols = least(SIDE, b->n - b->col);
	b->i++;
	return true;
}

/* Of @n columns, or rows, which are apart from each other, in strips of @each. */
struct strips {
	uint64_t i, end;
	uint32_t n, each;
	uint32_t first, some;			/* of the strip */
};

static void strips_begin(struct strips *s, const struct arax_launch *l, uint32_t n, uint32_t each)
{
	s->n = n;
	s->each = each;
	arax_launch_share(l, n / each + (n % each != 0), &s->i, &s->end);
}

static bool strips_next(struct strips *s)
{
	if (s->i == s->end)
		return false;
	s->first = (uint32_t)s->i++ * s->each;
	s->some = least(s->each, s->n - s->first);
	return true;
}

/* Those that are left, as one. */
static bool strips_all(struct strips *s)
{
	uint64_t end = s->end * s->each;

	if (s->i == s->end)
		return false;
	s->first = (uint32_t)s->i * s->each;
	s->some = (end < s->n ? (uint32_t)end : s->n) - s->first;
	s->i = s->end;
	return true;
}

static enum CBLAS_TRANSPOSE trans(uint32_t flags, uint32_t flag)
{
	return flags & flag ? CblasTrans : CblasNoTrans;
}

static enum CBLAS_UPLO uplo(uint32_t flags)
{
	return flags & BLAS_UPPER ? CblasUpper : CblasLower;
}

/* The library takes what is no number for positive; wherever that was, it has come to the diagonal. */
static bool has_roots(const double *a, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (!(a[i * n + i] > 0))
			return false;
	return true;
}

/* potrf_f64(inout f64 a[], u32 n, u32 flags): a = L * L^T, or U^T * U; EDOM: there is none */
ARAX_KERNEL int arax_blas_potrf(const struct arax_launch *l)
{
	struct blas_square args;
	int n, ld, info = 0;
	double *a;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~BLAS_UPPER || !fits(args.n))
		return -EINVAL;
	a = tile(l, 0, args.n, args.n);
	if (!a)
		return -EINVAL;
	n = (int)args.n;
	ld = lead(args.n);
	dpotrf_(args.flags & BLAS_UPPER ? "U" : "L", &n, a, &ld, &info, 1);
	if (info)
		return info > 0 ? -EDOM : -EINVAL;
	return has_roots(a, args.n) ? 0 : -EDOM;
}

/*
 * trsm_f64(in f64 a[], inout f64 b[], f64 alpha, u32 m, u32 n, u32 flags):
 * b (m x n) = alpha * op(a)^-1 * b, or RIGHT: alpha * b * op(a)^-1; a is triangular
 */
ARAX_KERNEL int arax_blas_trsm(const struct arax_launch *l)
{
	const uint32_t known = BLAS_UPPER | BLAS_RIGHT | BLAS_TRANS_A | BLAS_UNIT;
	struct blas_trsm args;
	const double *a;
	struct strips s;
	uint32_t order;
	double *b;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~known || !fits(args.m) ||
	    !fits(args.n))
		return -EINVAL;
	order = args.flags & BLAS_RIGHT ? args.n : args.m;
	a = tile(l, 0, order, order);
	b = tile(l, 1, args.m, args.n);
	if (!a || !b)
		return -EINVAL;
	strips_begin(&s, l, args.flags & BLAS_RIGHT ? args.m : args.n, STRIP);
	/* All at once: columns, or rows, don't know of each other. */
	if (!strips_all(&s))
		return 0;
	cblas_dtrsm(CblasColMajor, args.flags & BLAS_RIGHT ? CblasRight : CblasLeft,
		    uplo(args.flags), trans(args.flags, BLAS_TRANS_A),
		    args.flags & BLAS_UNIT ? CblasUnit : CblasNonUnit,
		    (int)(args.flags & BLAS_RIGHT ? s.some : args.m),
		    (int)(args.flags & BLAS_RIGHT ? args.n : s.some), args.alpha, a, lead(order),
		    b + (args.flags & BLAS_RIGHT ? s.first : (size_t)s.first * args.m),
		    lead(args.m));
	return 0;
}

/* Nothing of a and b counts then, were it NaN: small products on AVX-512 (OpenBLAS 0.3.21) forget that. */
static int terms(uint32_t k, double alpha)
{
	return alpha == 0 ? 0 : (int)k;
}

/* And of no terms alpha makes nothing, were it NaN: these multiply a sum of 0 by it. */
static double factor(uint32_t k, double alpha)
{
	return k ? alpha : 0;
}

/* Where this row of a is, or this column of a^T. */
static const double *row_of(const struct blas_syrk *s, const double *a, uint32_t i)
{
	return a + (s->flags & BLAS_TRANS_A ? (size_t)i * s->k : i);
}

/* On the diagonal one triangle, and all of those on one side of it. */
static void syrk_block(const struct blas_syrk *s, const double *a, double *c, const struct blocks *b)
{
	bool turned = s->flags & BLAS_TRANS_A, upper = s->flags & BLAS_UPPER;
	double *to = c + (size_t)b->col * s->n + b->row;
	int lda = lead(turned ? s->k : s->n);

	if (b->row == b->col)
		cblas_dsyrk(CblasColMajor, uplo(s->flags), trans(s->flags, BLAS_TRANS_A),
			    (int)b->cols, (int)s->k, s->alpha, row_of(s, a, b->row), lda, s->beta,
			    to, lead(s->n));
	else if (upper == (b->row < b->col))
		cblas_dgemm(CblasColMajor, turned ? CblasTrans : CblasNoTrans,
			    turned ? CblasNoTrans : CblasTrans, (int)b->rows, (int)b->cols,
			    terms(s->k, s->alpha), factor(s->k, s->alpha), row_of(s, a, b->row), lda,
			    row_of(s, a, b->col), lda, s->beta, to, lead(s->n));
}

/*
 * syrk_f64(in f64 a[], inout f64 c[], f64 alpha, f64 beta, u32 n, u32 k, u32 flags):
 * c (n x n) = alpha * a * a^T + beta * c, one triangle; TRANS_A: a^T * a
 */
ARAX_KERNEL int arax_blas_syrk(const struct arax_launch *l)
{
	struct blas_syrk args;
	struct blocks b;
	const double *a;
	double *c;

	if (arax_launch_args(l, &args, sizeof(args)) ||
	    args.flags & ~(BLAS_UPPER | BLAS_TRANS_A) || !fits(args.n) || !fits(args.k))
		return -EINVAL;
	a = tile(l, 0, args.n, args.k);
	c = tile(l, 1, args.n, args.n);
	if (!a || !c)
		return -EINVAL;
	blocks_begin(&b, l, args.n, args.n);
	while (blocks_next(&b))
		syrk_block(&args, a, c, &b);
	return 0;
}

/*
 * gemm_f64(in f64 a[], in f64 b[], inout f64 c[], f64 alpha, f64 beta, u32 m, u32 n, u32 k,
 * u32 flags): c (m x n) = alpha * op(a) * op(b) + beta * c
 */
ARAX_KERNEL int arax_blas_gemm(const struct arax_launch *l)
{
	struct blas_gemm args;
	const double *a, *b;
	struct blocks p;
	double *c;

	if (arax_launch_args(l, &args, sizeof(args)) ||
	    args.flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || !fits(args.m) || !fits(args.n) ||
	    !fits(args.k))
		return -EINVAL;
	a = tile(l, 0, args.m, args.k);
	b = tile(l, 1, args.k, args.n);
	c = tile(l, 2, args.m, args.n);
	if (!a || !b || !c)
		return -EINVAL;
	blocks_begin(&p, l, args.m, args.n);
	while (blocks_next(&p))
		cblas_dgemm(CblasColMajor, trans(args.flags, BLAS_TRANS_A),
			    trans(args.flags, BLAS_TRANS_B), (int)p.rows, (int)p.cols,
			    terms(args.k, args.alpha), factor(args.k, args.alpha),
			    a + (args.flags & BLAS_TRANS_A ? (size_t)p.row * args.k : p.row),
			    lead(args.flags & BLAS_TRANS_A ? args.k : args.m),
			    b + (args.flags & BLAS_TRANS_B ? p.col : (size_t)p.col * args.k),
			    lead(args.flags & BLAS_TRANS_B ? args.n : args.k), args.beta,
			    c + (size_t)p.col * args.m + p.row, lead(args.m));
	return 0;
}

/* gemm_f32(in f32 a[], in f32 b[], inout f32 c[], f32 alpha, f32 beta, ...): the same */
ARAX_KERNEL int arax_blas_gemm_f32(const struct arax_launch *l)
{
	struct blas_gemm_f32 args;
	const float *a, *b;
	struct blocks p;
	float *c;

	if (arax_launch_args(l, &args, sizeof(args)) ||
	    args.flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || !fits(args.m) || !fits(args.n) ||
	    !fits(args.k))
		return -EINVAL;
	a = tile_f32(l, 0, args.m, args.k);
	b = tile_f32(l, 1, args.k, args.n);
	c = tile_f32(l, 2, args.m, args.n);
	if (!a || !b || !c)
		return -EINVAL;
	blocks_begin(&p, l, args.m, args.n);
	while (blocks_next(&p))
		cblas_sgemm(CblasColMajor, trans(args.flags, BLAS_TRANS_A),
			    trans(args.flags, BLAS_TRANS_B), (int)p.rows, (int)p.cols,
			    terms(args.k, args.alpha), (float)factor(args.k, args.alpha),
			    a + (args.flags & BLAS_TRANS_A ? (size_t)p.row * args.k : p.row),
			    lead(args.flags & BLAS_TRANS_A ? args.k : args.m),
			    b + (args.flags & BLAS_TRANS_B ? p.col : (size_t)p.col * args.k),
			    lead(args.flags & BLAS_TRANS_B ? args.n : args.k), args.beta,
			    c + (size_t)p.col * args.m + p.row, lead(args.m));
	return 0;
}

/*
 * gemv_f64(in f64 a[], in f64 x[], inout f64 y[], f64 alpha, f64 beta, u32 m, u32 n, u32 flags):
 * y = alpha * op(a) * x + beta * y, a being m x n
 */
ARAX_KERNEL int arax_blas_gemv(const struct arax_launch *l)
{
	struct blas_gemv args;
	const double *a, *x;
	struct strips s;
	bool turned;
	double *y;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~BLAS_TRANS_A ||
	    !fits(args.m) || !fits(args.n))
		return -EINVAL;
	turned = args.flags & BLAS_TRANS_A;
	a = tile(l, 0, args.m, args.n);
	x = tile(l, 1, turned ? args.m : args.n, 1);
	y = tile(l, 2, turned ? args.n : args.m, 1);
	if (!a || !x || !y)
		return -EINVAL;
	/* Without columns the library leaves y as it is, without beta. */
	strips_begin(&s, l, turned ? args.n : args.m, turned ? STRIP : ROWS);
	while (strips_next(&s)) {
		if (!(turned ? args.m : args.n))
			for (uint32_t i = 0; i < s.some; i++)
				y[s.first + i] = args.beta == 0 ? 0 : args.beta * y[s.first + i];
		else
			cblas_dgemv(CblasColMajor, trans(args.flags, BLAS_TRANS_A),
				    (int)(turned ? args.m : s.some),
				    (int)(turned ? s.some : args.n), args.alpha,
				    a + (turned ? (size_t)s.first * args.m : s.first), lead(args.m),
				    x, 1, args.beta, y + s.first, 1);
	}
	return 0;
}

/* gemv_f32(in f32 a[], in f32 x[], inout f32 y[], f32 alpha, f32 beta, ...): the same */
ARAX_KERNEL int arax_blas_gemv_f32(const struct arax_launch *l)
{
	struct blas_gemv_f32 args;
	const float *a, *x;
	struct strips s;
	bool turned;
	float *y;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~BLAS_TRANS_A ||
	    !fits(args.m) || !fits(args.n))
		return -EINVAL;
	turned = args.flags & BLAS_TRANS_A;
	a = tile_f32(l, 0, args.m, args.n);
	x = tile_f32(l, 1, turned ? args.m : args.n, 1);
	y = tile_f32(l, 2, turned ? args.n : args.m, 1);
	if (!a || !x || !y)
		return -EINVAL;
	strips_begin(&s, l, turned ? args.n : args.m, turned ? STRIP : ROWS);
	while (strips_next(&s)) {
		if (!(turned ? args.m : args.n))
			for (uint32_t i = 0; i < s.some; i++)
				y[s.first + i] = args.beta == 0 ? 0 : args.beta * y[s.first + i];
		else
			cblas_sgemv(CblasColMajor, trans(args.flags, BLAS_TRANS_A),
				    (int)(turned ? args.m : s.some),
				    (int)(turned ? s.some : args.n), args.alpha,
				    a + (turned ? (size_t)s.first * args.m : s.first), lead(args.m),
				    x, 1, args.beta, y + s.first, 1);
	}
	return 0;
}

/* Column by column.  False: a pivot is 0 or no number. */
static bool getrf_leaf(double *a, int n, int ld)
{
	for (int k = 0; k < n; k++) {
		double *column = a + (size_t)k * (size_t)ld, pivot = column[k];

		if (!(pivot < 0 || pivot > 0))
			return false;
		for (int i = k + 1; i < n; i++)
			column[i] /= pivot;
		for (int j = k + 1; j < n; j++) {
			double *other = a + (size_t)j * (size_t)ld;

			for (int i = k + 1; i < n; i++)
				other[i] -= column[i] * other[k];
		}
	}
	return true;
}

/* By halves, so that nearly all of it is the library's multiplication. */
static bool getrf(double *a, int n, int ld)
{
	int h = n / 2, r = n - h;
	double *right = a + (size_t)h * (size_t)ld;

	if (n <= GETRF_LEAF)
		return getrf_leaf(a, n, ld);
	if (!getrf(a, h, ld))
		return false;
	cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasUnit, h, r, 1, a, ld,
		    right, ld);
	cblas_dtrsm(CblasColMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, r, h, 1, a,
		    ld, a + h, ld);
	cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, r, r, h, -1, a + h, ld, right, ld, 1,
		    right + h, ld);
	return getrf(right + h, r, ld);
}

/* getrf_nopiv_f64(inout f64 a[], u32 n, u32 flags): a = L * U, L's diagonal is 1; EDOM: a pivot is 0 */
ARAX_KERNEL int arax_blas_getrf(const struct arax_launch *l)
{
	struct blas_square args;
	double *a;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags || !fits(args.n))
		return -EINVAL;
	a = tile(l, 0, args.n, args.n);
	if (!a)
		return -EINVAL;
	return getrf(a, (int)args.n, lead(args.n)) ? 0 : -EDOM;
}
