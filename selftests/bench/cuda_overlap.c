// SPDX-License-Identifier: MIT
/*
 * overlap: many pieces, each copied in, worked on for about as long, and copied out.  The
 * program through araxd submits them all and waits; by hand they take turns on streams.
 */
#ifdef HAVE_CUDA
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "result.h"

#define PIECES		16
#define STREAMS		4
#define SIDE_LENGTH	1024u	/* of a piece, an image */
#define SHORT_LENGTH	64u	/* on a driver in software */
#define THREADS		256u
#define WAVES		16u
#define MAX_WINDOW	129u	/* blur's */
#define TRIALS		5
#define BAR		1.05

struct blur_args {
	uint32_t width, height, size;
	float sigma;
};

/**
 * struct overlap - both ways
 * @args:	of each piece
 * @pages_in, @pages_out: pinned, of the one by hand
 */
struct overlap {
	struct side *side;
	struct cu_peer *peer;
	uint64_t bytes, items;
	struct blur_args args;
	uint32_t blocks, threads;
	struct arax_kernel kernel;
	struct arax_buffer *in[PIECES], *out[PIECES];
	CUfunction function;
	CUdeviceptr from[PIECES], to[PIECES];
	float *pages_in[PIECES], *pages_out[PIECES];
};

static void nothing(struct overlap *w)
{
}

static void submit_all(struct overlap *w)
{
	struct arax_desc desc[PIECES] = { 0 };
	struct arax_range ranges[PIECES][2];
	struct side *s = w->side;
	int i;

	for (i = 0; i < PIECES; i++) {
		ranges[i][0] = arax_in(w->in[i]);
		ranges[i][1] = arax_out(w->out[i]);
		desc[i].opcode = ARAX_OP_LAUNCH;
		desc[i].kernel = &w->kernel;
		desc[i].grid = (struct arax_grid){ { w->blocks, 1, 1 }, { w->threads, 1, 1 } };
		desc[i].args = &w->args;
		desc[i].arg_len = sizeof(w->args);
		desc[i].ranges = ranges[i];
		desc[i].nr_ranges = 2;
	}
	if (arax_submit(s->queue, desc, PIECES, 0) != PIECES)
		bench_fail("submitting: %s", arax_error_text());
	must(arax_queue_finish(s->queue, ARAX_DEADLINE_NONE), "pieces");
}

static void launch(struct overlap *w, int piece, CUstream stream)
{
	struct blur_args *a = &w->args;
	void *values[] = {
		&w->from[piece], &w->items, &w->to[piece], &w->items, &a->width, &a->height,
		&a->size, &a->sigma, &w->peer->result_at,
	};

	must_cu(cu.LaunchKernel(w->function, w->blocks, 1, 1, w->threads, 1, 1, 0, stream, values,
				NULL), "blur");
}

static void by_hand(struct overlap *w)
{
	int i;

	for (i = 0; i < PIECES; i++) {
		CUstream stream = w->peer->streams[i % STREAMS];

		must_cu(cu.MemcpyHtoDAsync(w->from[i], w->pages_in[i], w->bytes, stream), "a copy");
		launch(w, i, stream);
		must_cu(cu.MemcpyDtoHAsync(w->pages_out[i], w->to[i], w->bytes, stream), "a copy");
	}
	for (i = 0; i < STREAMS; i++)
		cu_peer_finish(w->peer, i);
}

ROUND(submit_round, struct overlap, nothing, submit_all)
ROUND(by_hand_round, struct overlap, nothing, by_hand)

static void setup(struct overlap *w)
{
	uint32_t length = w->peer->emulated ? SHORT_LENGTH : SIDE_LENGTH;
	uint64_t k, most = (uint64_t)w->peer->units * WAVES;
	int i;

	w->items = (uint64_t)length * length;
	w->bytes = w->items * sizeof(float);
	w->args = (struct blur_args){ length, length, 3, 5 };
	w->threads = w->peer->emulated ? 4 : THREADS;
	w->blocks = (uint32_t)(w->items / w->threads < most ? w->items / w->threads : most);
	must(arax_kernel_find(w->side->ax, "blur", arax_deadline(SIDE_FIND_NS), &w->kernel), "blur");
	w->function = cu_peer_kernel(w->peer, "blur");
	for (i = 0; i < PIECES; i++) {
		must(arax_buffer_create(w->side->ax, w->bytes, 0, &w->in[i]), "a buffer");
		must(arax_buffer_create(w->side->ax, w->bytes, 0, &w->out[i]), "a buffer");
		w->from[i] = cu_peer_memory(w->bytes);
		w->to[i] = cu_peer_memory(w->bytes);
		w->pages_in[i] = cu_peer_pages(w->bytes);
		w->pages_out[i] = cu_peer_pages(w->bytes);
		for (k = 0; k < w->items; k++)
			w->pages_in[i][k] = (float)((k * 7 + (uint64_t)i * 13) % 1000) / 1000;
		memcpy(arax_buffer_data(w->in[i]), w->pages_in[i], w->bytes);
	}
}

static void tear_down(struct overlap *w)
{
	int i;

	for (i = 0; i < PIECES; i++) {
		arax_buffer_destroy(w->in[i]);
		arax_buffer_destroy(w->out[i]);
		must_cu(cu.MemFree(w->from[i]), "device memory");
		must_cu(cu.MemFree(w->to[i]), "device memory");
		must_cu(cu.MemFreeHost(w->pages_in[i]), "pinned memory");
		must_cu(cu.MemFreeHost(w->pages_out[i]), "pinned memory");
	}
}

static uint64_t least_ticks(struct overlap *w, bool copy)
{
	uint64_t t0, t, least = UINT64_MAX;
	int i;

	for (i = 0; i < TRIALS; i++) {
		t0 = ticks();
		if (copy) {
			must_cu(cu.MemcpyHtoD(w->from[0], w->pages_in[0], w->bytes), "a copy");
		} else {
			launch(w, 0, w->peer->streams[0]);
			cu_peer_finish(w->peer, 0);
		}
		t = ticks() - t0;
		least = t < least ? t : least;
	}
	return least;
}

/* The least window that takes as long as the copy of a piece. */
static void balance(struct overlap *w)
{
	uint64_t copy = least_ticks(w, true);

	while (least_ticks(w, false) < copy && w->args.size < MAX_WINDOW)
		w->args.size += w->args.size < 17 ? 2 : 8;
	if (w->args.size > MAX_WINDOW)
		w->args.size = MAX_WINDOW;
}

/* Both have computed the same, and it is a blur: of values from 0 to 1, not the input. */
static void check(struct overlap *w)
{
	int i;

	for (i = 0; i < PIECES; i++) {
		memset(arax_buffer_data(w->out[i]), 0xff, w->bytes);
		memset(w->pages_out[i], 0x55, w->bytes);
	}
	submit_all(w);
	by_hand(w);
	cu_peer_check(w->peer, "overlap");
	for (i = 0; i < PIECES; i++) {
		const float *out = w->pages_out[i];

		if (memcmp(arax_buffer_data(w->out[i]), out, w->bytes))
			bench_fail("overlap: piece %d is not what it is by hand", i);
		if (!(out[w->items / 2] > 0 && out[w->items / 2] < 1) ||
		    !memcmp(out, w->pages_in[i], w->bytes))
			bench_fail("overlap: piece %d was not blurred", i);
	}
}

void cuda_overlap(json_t *result, struct side *s, struct cu_peer *peer, double seconds,
		  const struct options *o, int judged)
{
	const struct figure figure = {
		"16 pieces, overlapped", submit_round, by_hand_round, 0, 1, BAR,
	};
	static struct overlap w;

	w.side = s;
	w.peer = peer;
	setup(&w);
	balance(&w);
	check(&w);
	figure_measure(result, &figure, &w, "CUDA", seconds, o->rounds, judged);
	result_int(result, "overlap_window", w.args.size);
	tear_down(&w);
}
#else
/* A unit of nothing is none. */
typedef int no_cuda_overlap;
#endif
