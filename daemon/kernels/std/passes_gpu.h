/* SPDX-License-Identifier: MIT */
/*
 * passes_gpu.h - kernels of our own by a GPU's driver, several in a launch: what passes.c needs of it
 *
 * A device has the kernels once, compiled at the first launch that takes them; a stream has scratch
 * memory.  Both go with the streams.
 */
#ifndef ARAX_STD_PASSES_GPU_H
#define ARAX_STD_PASSES_GPU_H

#include <stdbool.h>

#include <arax/stream.h>

#include "daemon/kernels/std/passes.h"

#define SCRATCH_MIN	(256ull << 10)
/*
 * A stream; what needs more is left to others.  All lanes' and plans' come out of what is left to the
 * driver, and parts that are larger have blocks enough of their own.
 */
#define SCRATCH_MAX	(16ull << 20)

/* Each is a kernel of passes.cu. */
#define PASSES(X) \
	X(sum_f32) X(sum_f64) X(dot_f32) X(sum_diff) X(greatest) X(sum_parts) X(greatest_parts) \
	X(scan_sums_u32) X(scan_sums_f32) X(scan_u32) X(scan_f32) \
	X(clear) X(count_u8) X(count_f32) X(mean_sums) X(means) \
	X(sort_tile_u32) X(sort_tile_f32) X(sort_tile_pairs) \
	X(sort_far_u32) X(sort_far_f32) X(sort_far_pairs)

enum pass {
#define X(name) PASS_##name,
	PASSES(X)
#undef X
	NR_PASSES
};

/* Of a vendor's driver: its names of what is called, and its numbers of what is asked. */
struct pass_names {
	const char *load, *unload, *function, *about_function, *about_device, *launch, *allocate,
		*release;
	int multiprocessors, most_threads;
};

/* In a file for each kind of device: see passes_cuda.c, passes_hip.c. */
extern const struct pass_names pass_names;
extern const char pass_image[];

struct pass_device;

/* Of a stream. */
struct pass_state {
	struct pass_device *device;
	uint64_t multiprocessors;
	void *scratch;
	uint64_t scratch_bytes;
};

/* -EOPNOTSUPP: @items are so few that one block is as quick, or there is no state. */
int pass_begin(const struct arax_stream *s, uint64_t items, uint64_t few, struct pass_state **state);
/*
 * The kernels, and @bytes of scratch memory if not 0: it stays until the stream goes, and holds what
 * launches before left there.  -EOPNOTSUPP: they can't be had, or another thread has them compiled.
 */
int pass_ready(struct pass_state *state, uint64_t bytes);
/* How many threads a block of it has: a power of two. */
uint32_t pass_threads(const struct pass_state *state, enum pass pass);
/* @args: a pointer to each, as the drivers want it. */
int pass_launch(const struct arax_stream *s, const struct pass_state *state, enum pass pass,
		uint32_t blocks, uint32_t blocks_y, void **args);

#endif /* ARAX_STD_PASSES_GPU_H */
