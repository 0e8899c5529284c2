/* SPDX-License-Identifier: MIT */
/*
 * All constants of the simulated P100, and where each comes from.
 *
 * None is chosen by what our runs come out as.  What the machine is like is from NVIDIA's
 * data sheet of the Tesla P100 for PCIe, 16 GB.  Sizes and times are GrCUDA's authors' own on a
 * P100 (arXiv 2012.09646; plots of 2020-10-14 in AlbertoParravicini/grcuda-data; sizes also in
 * projects/resources/python/benchmark/benchmark_wrapper.py of necst/grcuda as of that day).
 *
 * How the synchronous program moves its data: by page faults.  Its context brings nothing to
 * the device before a launch unless InputPrefetch is on, which by default it is not
 * (SyncGrCUDAExecutionContext.java, README.md, CHANGELOG.md of necst/grcuda: "instead of
 * relying on page-faults for data transfer").  On VEC this must be so, whatever one believes:
 * 5.6 GB in 1,172 ms, and in 506 ms scheduled, which is all the link can do.
 *
 * How long a benchmark's kernels take altogether is what its synchronous median leaves beside
 * these faults; how that is split among its kernels is by the time that bytes and operations
 * of each would take on the data sheet's machine.  Every kernel takes the whole device, so that
 * none gains by another beside it.
 */
#ifndef BENCH_P100_H
#define BENCH_P100_H

#define P100_BYTES_PER_NS	732.0	/* data sheet: 732 GB/s */
#define P100_F32_PER_NS		9300.0	/* data sheet: 9.3 TFLOPS */
#define P100_F64_PER_NS		4700.0	/* data sheet: 4.7 TFLOPS */
#define P100_MEMORY_GB		17.07	/* 16,280 MiB, as its driver says */
#define P100_LINK_GB_PER_S	12.0	/* PCIe 3.0 x16: 15.75 less its protocol's overhead */
/*
 * By page faults.  VEC's inputs are 5.6 GB.  Its longest path is 268 ms where nothing else is in
 * the way (the plot speedup_theoretical_time_2rows_multigpu: maximum of the squares and their
 * copies, and the sum, all measured synchronously, with prefetch): 233 ms of link, so 35 ms
 * for two of three kernels of the same traffic.  52 ms for the three leave 1,120 of 1,172 ms
 * for the faults.  The same way HITS has 4.8 GB/s and B&S 4.3.
 */
#define P100_FAULTS_GB_PER_S	5.0
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

/*
 * The authors' synchronous medians at the largest sizes that their P100 ran; bytes of the inputs
 * follow from these.  (Over all block sizes the plots have 1,177, 1,261, 444, 10,922, 3,360 and
 * 1,023 ms at these sizes.)  Their scheduled medians are there to compare with, and for nothing else.
 */
static const struct {
	const char *type;
	double serial_ms, scheduled_ms;
	double n;
} p100_benchmarks[] = {
	{ "vec", 1172, 506, 7e8 },
	{ "bs", 1354, 482, 7e7 },
	{ "img", 493, 342, 16000 },
	{ "ml", 20719, 14058, 6e6 },
	{ "hits", 3362, 2140, 1.4e8 },
	{ "dl", 1023, 895, 16000 },
};

#endif
