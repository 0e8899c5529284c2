// SPDX-License-Identifier: MIT
/*
 * Kernels of arax-blas by a vendor's library, see vendor.h: what a client gives is checked here.
 * What they compute, and in which order their arguments are, stands in blas.c.
 */
#include "daemon/kernels/blas/vendor.h"

ARAX_KERNEL arax_stream_fn arax_blas_vendor_gemm_f64, arax_blas_vendor_gemm_f32;
ARAX_KERNEL arax_stream_fn arax_blas_vendor_gemv_f64, arax_blas_vendor_gemv_f32;
ARAX_KERNEL arax_stream_fn arax_blas_vendor_trsm_f64, arax_blas_vendor_syrk_f64;

/* What libraries count in is an int. */
static bool fits(uint32_t n)
{
	return n <= INT32_MAX;
}

static int lead(uint32_t rows)
{
	return rows ? (int)rows : 1;
}

/* Of no terms it makes nothing, were it NaN. */
static double factor(double alpha, uint32_t k)
{
	return k ? alpha : 0;
}

/* False: it is too short.  *@data is NULL where there is nothing. */
static bool matrix(const struct arax_launch *l, uint32_t i, uint32_t rows, uint32_t columns,
		   const struct blas_call *p, void **data)
{
	const uint64_t items = (uint64_t)rows * columns;

	if (i >= l->nr_ranges || l->ranges[i].count != 1 ||
	    l->ranges[i].length / (p->f64 ? sizeof(double) : sizeof(float)) < items)
		return false;
	*data = l->ranges[i].data;
	return true;
}

static int gemm(const struct arax_launch *l, const struct arax_stream *s, bool f64,
		const struct blas_gemm *args)
{
	struct blas_call p = {
		.f64 = f64, .flags = args->flags, .alpha = factor(args->alpha, args->k), .beta = args->beta,
		/* Where alpha is 0 the terms are nothing, whatever stands in them: none are given. */
		.m = (int)args->m, .n = (int)args->n, .k = args->alpha == 0 ? 0 : (int)args->k,
		.ldc = lead(args->m),
		.lda = lead(args->flags & BLAS_TRANS_A ? args->k : args->m),
		.ldb = lead(args->flags & BLAS_TRANS_B ? args->n : args->k),
	};

	if (args->flags & ~(BLAS_TRANS_A | BLAS_TRANS_B) || !fits(args->m) || !fits(args->n) ||
	    !fits(args->k))
		return -EINVAL;
	if (!matrix(l, 0, args->m, args->k, &p, &p.a) || !matrix(l, 1, args->k, args->n, &p, &p.b) ||
	    !matrix(l, 2, args->m, args->n, &p, &p.c))
		return -EINVAL;
	return p.m && p.n ? vendor_gemm(s, &p) : 0;
}

int arax_blas_vendor_gemm_f64(const struct arax_launch *l, const struct arax_stream *s)
{
	struct blas_gemm args;

	return arax_launch_args(l, &args, sizeof(args)) ? -EINVAL : gemm(l, s, true, &args);
}

int arax_blas_vendor_gemm_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	struct blas_gemm_f32 a;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	return gemm(l, s, false, &(struct blas_gemm){ (double)a.alpha, (double)a.beta, a.m, a.n, a.k,
						      a.flags });
}

static int gemv(const struct arax_launch *l, const struct arax_stream *s, bool f64,
		const struct blas_gemv *args)
{
	const bool turned = args->flags & BLAS_TRANS_A;
	struct blas_call p = {
		.f64 = f64, .flags = args->flags, .alpha = args->alpha, .beta = args->beta,
		.m = (int)args->m, .n = (int)args->n, .lda = lead(args->m),
	};

	if (args->flags & ~BLAS_TRANS_A || !fits(args->m) || !fits(args->n))
		return -EINVAL;
	if (!matrix(l, 0, args->m, args->n, &p, &p.a) ||
	    !matrix(l, 1, turned ? args->m : args->n, 1, &p, &p.b) ||
	    !matrix(l, 2, turned ? args->n : args->m, 1, &p, &p.c))
		return -EINVAL;
	if (!(turned ? p.n : p.m))
		return 0;
	/* Of no terms libraries leave y as it is, without beta. */
	if (!(turned ? p.m : p.n) || args->alpha == 0)
		return -EOPNOTSUPP;
	return vendor_gemv(s, &p);
}

int arax_blas_vendor_gemv_f64(const struct arax_launch *l, const struct arax_stream *s)
{
	struct blas_gemv args;

	return arax_launch_args(l, &args, sizeof(args)) ? -EINVAL : gemv(l, s, true, &args);
}

int arax_blas_vendor_gemv_f32(const struct arax_launch *l, const struct arax_stream *s)
{
	struct blas_gemv_f32 a;

	if (arax_launch_args(l, &a, sizeof(a)))
		return -EINVAL;
	return gemv(l, s, false, &(struct blas_gemv){ .alpha = (double)a.alpha, .beta = (double)a.beta,
						      .m = a.m, .n = a.n, .flags = a.flags });
}

int arax_blas_vendor_trsm_f64(const struct arax_launch *l, const struct arax_stream *s)
{
	const uint32_t known = BLAS_UPPER | BLAS_RIGHT | BLAS_TRANS_A | BLAS_UNIT;
	struct blas_call p = { .f64 = true };
	struct blas_trsm args;
	uint32_t order;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~known || !fits(args.m) ||
	    !fits(args.n))
		return -EINVAL;
	order = args.flags & BLAS_RIGHT ? args.n : args.m;
	if (!matrix(l, 0, order, order, &p, &p.a) || !matrix(l, 1, args.m, args.n, &p, &p.b))
		return -EINVAL;
	p.flags = args.flags;
	p.m = (int)args.m;
	p.n = (int)args.n;
	p.alpha = args.alpha;
	p.lda = lead(order);
	p.ldb = lead(args.m);
	/* Then nothing is solved, and libraries may read what stands there. */
	if (args.alpha == 0)
		return -EOPNOTSUPP;
	return p.m && p.n ? vendor_trsm(s, &p) : 0;
}

int arax_blas_vendor_syrk_f64(const struct arax_launch *l, const struct arax_stream *s)
{
	struct blas_call p = { .f64 = true };
	struct blas_syrk args;

	if (arax_launch_args(l, &args, sizeof(args)) || args.flags & ~(BLAS_UPPER | BLAS_TRANS_A) ||
	    !fits(args.n) || !fits(args.k))
		return -EINVAL;
	if (!matrix(l, 0, args.n, args.k, &p, &p.a) || !matrix(l, 1, args.n, args.n, &p, &p.c))
		return -EINVAL;
	p.flags = args.flags;
	p.n = (int)args.n;
	p.k = args.alpha == 0 ? 0 : (int)args.k;
	p.alpha = factor(args.alpha, args.k);
	p.beta = args.beta;
	p.lda = lead(args.flags & BLAS_TRANS_A ? args.k : args.n);
	p.ldc = lead(args.n);
	return p.n ? vendor_syrk(s, &p) : 0;
}
