/* SPDX-License-Identifier: MIT */
/*
 * All constants of the simulated P100, and where each comes from.
 *
 * None is chosen by what the scheduled runs come out as.  What the machine is like is from
 * NVIDIA's data sheet of the Tesla P100 for PCIe, 16 GB.  How long a benchmark's kernels
 * take altogether is what GrCUDA's authors measured for its synchronous run on a P100
 * (arXiv 2012.09646, medians), less the time that its inputs take on the link.  How that is
 * split among its kernels is by the time that bytes and operations of each would take on the
 * data sheet's machine.  Sizes are the largest that the authors ran.
 */
#ifndef BENCH_P100_H
#define BENCH_P100_H

#define P100_BYTES_PER_NS	732.0	/* data sheet: 732 GB/s */
#define P100_F32_PER_NS		9300.0	/* data sheet: 9.3 TFLOPS */
#define P100_F64_PER_NS		4700.0	/* data sheet: 4.7 TFLOPS */
#define P100_MEMORY_GB		17.07	/* 16,280 MiB, as its driver says */
#define P100_LINK_GB_PER_S	12.0	/* PCIe 3.0 x16: 15.75 less its protocol's overhead */
#define P100_LINK_US		10	/* begin of a copy */
#define P100_LANES		16	/* kernels that it takes side by side; none is sped up by it */

/* Of one element: bytes of device memory, operations. */
static const struct {
	const char *name;
	double bytes, f32, f64;
} p100_kernels[] = {
	{ "vec_square", 8, 1, 0 },		/* read, write */
	{ "vec_reduce", 8, 2, 0 },		/* two reads */
	{ "black_scholes", 16, 0, 100 },	/* log, exp, two erf of about 20 each */
	{ "img_blur3", 8, 18, 0 },		/* taps come from the cache */
	{ "img_blur5", 8, 50, 0 },
	{ "img_sobel", 8, 40, 0 },
	{ "img_extreme", 4, 1, 0 },
	{ "img_extend", 8, 4, 0 },
	{ "img_unsharpen", 12, 4, 0 },
	{ "img_combine", 16, 3, 0 },
	{ "ml_bayes", 4, 20, 0 },		/* 10 classes */
	{ "ml_zscore", 16, 6, 0 },		/* mean, deviation, then read and write */
	{ "ml_rows", 4, 3, 0 },
	{ "ml_ridge", 4, 20, 0 },
	{ "ml_map", 8, 10, 0 },
	{ "ml_softmax", 8, 12, 0 },
	{ "ml_argmax", 8, 2, 0 },
	{ "hits_spmv", 40, 2, 0 },		/* index, value, and a gather of 32 bytes */
	{ "hits_sum", 4, 1, 0 },
	{ "hits_divide", 8, 1, 0 },
	{ "dl_conv1", 6, 18, 0 },		/* 9 taps; 4 pixels read for 8 outputs */
	{ "dl_pool", 4, 1, 0 },
	{ "dl_conv2", 12, 144, 0 },		/* 9 taps of 8 channels */
	{ "dl_concat", 8, 0, 0 },
	{ "dl_dot", 8, 2, 0 },
};

/* The authors' synchronous medians and largest sizes; bytes of the inputs follow from these. */
static const struct {
	const char *type;
	double serial_ms;
	double n;
} p100_benchmarks[] = {
	{ "vec", 1172, 9.5e8 },
	{ "bs", 1354, 7e7 },
	{ "img", 493, 20000 },
	{ "ml", 20719, 8e6 },
	{ "hits", 3362, 1.8e8 },
	{ "dl", 1023, 22000 },
};

#endif
