/* SPDX-License-Identifier: MIT */
/*
 * All constants of the simulated node with cores and GPUs, and where each comes from.
 *
 * None is chosen by what our runs come out as.  How many times as fast as a core a GPU is at each
 * step of a tile Cholesky, at tiles of 960 x 960 doubles: Beaumont, Eyraud-Dubois and Kumar
 * (Approximation proofs of a fast and efficient list scheduling algorithm for task-based
 * runtime systems on multicores and GPUs, IPDPS 2017, table 1), measured on a node with two Intel
 * Xeon E5-2680 v3 of 12 cores each, of which 20 computed, and four NVIDIA K40.  Agullo, Beaumont,
 * Eyraud-Dubois and Kumar give about 2, 11, 26 and 29 for another one (Bridging the gap between
 * performance and bounds of Cholesky factorization on heterogeneous platforms, HCW 2015).  The
 * figures are quoted from memory and have not been held against the papers; what they were
 * measured with is not here.
 *
 * A core's times are those that its data sheet allows: 2.5 GHz, 16 operations a cycle.  That
 * they are not reached stretches everything alike.
 */
#ifndef BENCH_SIROCCO_H
#define BENCH_SIROCCO_H

#define SIROCCO_TILE		960
#define SIROCCO_CORE_PER_NS	40.0	/* operations on doubles: 2.5 * 16 */
#define SIROCCO_MEMORY_GB	12	/* data sheet of the K40 */
#define SIROCCO_LINK_GB_PER_S	12	/* each its own, PCIe 3.0 x16: 15.75 less its protocol's overhead */
#define SIROCCO_LINK_US		10	/* begin of a copy; as p100.h */
#define SIROCCO_LANES		3	/* of a GPU: one computes, two have their data brought */

/*
 * @operations: of a tile of n x n, over n^3
 * @faster:	a GPU than a core.  getrf: as potrf, which is as sequential; nobody is quoted
 */
static const struct {
	const char *name;
	double operations, faster;
} sirocco_kernels[] = {
	{ "potrf", 1 / 3.0, 1.72 },
	{ "trsm", 1, 8.72 },
	{ "syrk", 1, 26.96 },
	{ "gemm", 2, 28.80 },
	{ "getrf", 2 / 3.0, 1.72 },
};

/* All of that node, and parts of it. */
static const struct {
	int gpus, cores;
} sirocco_machines[] = {
	{ 1, 8 }, { 1, 20 }, { 4, 8 }, { 4, 20 },
};

#endif
