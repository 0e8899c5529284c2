/* SPDX-License-Identifier: MIT */
/*
 * product_gpu.h - sums of products by tiles: what products of matrices and convolutions share
 *
 * A block computes tiles of TILE_DOWN x TILE_ACROSS sums, one after the other.  Strips of what is
 * multiplied stand in shared memory, each thread has a piece of 8 x 4 sums in registers.  Where
 * a block has fewer threads than the tile pieces, it goes over the strips again for the others.
 */
#ifndef ARAX_PRODUCT_GPU_H
#define ARAX_PRODUCT_GPU_H

#include "std_gpu.h"

#define TILE_DOWN	128u	/* sums of a tile */
#define TILE_ACROSS	64u
#define TILE_DEPTH	16u	/* terms of a strip; RUN is a multiple */
#define TILE_PIECES	256u	/* 16 x 16, of two fours of rows and one of columns */

/* Of a loop whose copies would take registers from others. */
#if defined(__CUDACC__) || defined(__HIP__)
#define NOT_UNROLLED _Pragma("unroll 1")
#else
#define NOT_UNROLLED
#endif

/* What is read at once. */
struct alignas(16) four {
	float of[4];
};

/* Term by term; a four more than there are, so that threads write to different banks. */
struct alignas(16) strips {
	float down[TILE_DEPTH][TILE_DOWN + 4], across[TILE_DEPTH][TILE_ACROSS + 4];
};

static __device__ inline four four_at(const float *strip, uint32_t i)
{
	return *(const four *)(strip + 4 * i);
}

/*
 * Terms @at.. of rows @first.. of x, whose rows have @terms, into a strip; what there is not is 0.
 * Neighbouring threads read neighbouring memory.
 */
template <uint32_t ROWS, typename T>
static __device__ inline void load_strip(float (*strip)[ROWS + 4], const T *x, uint64_t rows,
					 uint64_t terms, uint64_t first, uint64_t at)
{
	for (uint32_t i = (uint32_t)arax_item(); i < ROWS * TILE_DEPTH; i += (uint32_t)arax_items()) {
		const uint64_t r = first + i / TILE_DEPTH, d = at + i % TILE_DEPTH;

		strip[i % TILE_DEPTH][i / TILE_DEPTH] =
			r < rows && d < terms ? (float)x[r * terms + d] : 0;
	}
}

/*
 * The same by a block of as many threads as pieces, for whom it is a fixed number of items each: all
 * of a thread's reads are on their way before it waits for the first one.
 */
static __device__ inline bool block_fits(void)
{
	return arax_items() == TILE_PIECES;
}

template <uint32_t ROWS, typename T> struct strip_part {
	static const uint32_t together = TILE_PIECES / TILE_DEPTH;
	T v[ROWS / together];

	__device__ void read(const T *x, uint64_t rows, uint64_t terms, uint64_t first, uint64_t at)
	{
		const uint32_t me = (uint32_t)arax_item(), d = me % TILE_DEPTH, r = me / TILE_DEPTH;
		const T *from = x + (first + r) * terms + at + d;
		const uint64_t left = at + d < terms && first + r < rows ? rows - first - r : 0;
		const uint32_t there = left < ROWS ? (uint32_t)left : ROWS;

		for (uint32_t k = 0; k < ROWS / together; k++, from += together * terms)
			v[k] = k * together < there ? *from : 0;
	}
	__device__ void write(float (*strip)[ROWS + 4]) const
	{
		const uint32_t me = (uint32_t)arax_item();
		float *to = &strip[me % TILE_DEPTH][me / TILE_DEPTH];

		for (uint32_t k = 0; k < ROWS / together; k++)
			to[k * together] = (float)v[k];
	}
};

static __device__ inline void multiply(const strips *s, uint32_t pi, uint32_t pj, float part[8][4])
{
	for (uint32_t d = 0; d < TILE_DEPTH; d++) {
		const four a = four_at(s->down[d], pi), b = four_at(s->down[d] + TILE_DOWN / 2, pi);
		const four w = four_at(s->across[d], pj);

		for (uint32_t i = 0; i < 4; i++)
			for (uint32_t j = 0; j < 4; j++) {
				part[i][j] = fmaf(a.of[i], w.of[j], part[i][j]);
				part[4 + i][j] = fmaf(b.of[i], w.of[j], part[4 + i][j]);
			}
	}
}

/*
 * The tile of @job that begins at @i0, @j0; all threads of a block call it.  The job has
 *
 *	begin(i0)		before the first strips, and again for each round of pieces
 *	load(s, i0, j0, at)	terms @at.. into strips
 *	next(at)		what the next load() goes by, while the strips are in use
 *	put(i, j, sum)		if there is such a sum
 */
template <typename Job>
static __device__ inline void product_tile(const Job &job, strips *s, uint64_t rows, uint64_t terms,
					   uint64_t i0, uint64_t j0)
{
	const uint32_t me = (uint32_t)arax_item(), items = (uint32_t)arax_items();

	for (uint32_t p = 0; p < TILE_PIECES && i0 + p / 16 * 4 < rows; p += items) {
		const uint32_t pi = (p + me) / 16, pj = (p + me) % 16;
		const bool has_piece = p + me < TILE_PIECES;
		/* Not in registers, of which there are none left for them. */
		volatile double sum[8][4];
		float part[8][4];

		for (uint32_t i = 0; i < 32; i++) {
			sum[i / 4][i % 4] = 0;
			part[i / 4][i % 4] = 0;
		}
		job.begin(i0);
		__syncthreads();
		for (uint64_t at = 0; at < terms; at += TILE_DEPTH) {
			job.load(s, i0, j0, at);
			__syncthreads();
			if (has_piece)
				multiply(s, pi, pj, part);
			job.next(at + TILE_DEPTH);
			if (at % RUN == RUN - TILE_DEPTH || at + TILE_DEPTH >= terms)
				for (uint32_t i = 0; i < 32; i++) {
					sum[i / 4][i % 4] = sum[i / 4][i % 4] + part[i / 4][i % 4];
					part[i / 4][i % 4] = 0;
				}
			__syncthreads();
		}
		NOT_UNROLLED
		for (uint32_t i = 0; has_piece && i < 32; i++)
			job.put(i0 + i / 16 * (TILE_DOWN / 2) + 4 * pi + i / 4 % 4, j0 + 4 * pj + i % 4,
				(float)sum[i / 4][i % 4]);
	}
}

#endif /* ARAX_PRODUCT_GPU_H */
