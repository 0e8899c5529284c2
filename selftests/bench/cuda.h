/* SPDX-License-Identifier: MIT */
/* The bench cuda: its parts, each beside CUDA's own calls.  For files with HAVE_CUDA. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include "cu_peer.h"
#include "side.h"

/* Copies and kernels of many pieces at once, beside streams by hand. */
void cuda_overlap(json_t *result, struct side *s, struct cu_peer *peer, double seconds,
		  const struct options *o, int judged);
/* GrCUDA's six benchmarks; adds "rows". */
void cuda_six(json_t *result, struct side *s, struct cu_peer *peer, double seconds,
	      const struct options *o);

#endif
