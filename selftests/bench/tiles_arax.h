/* SPDX-License-Identifier: MIT */
/* Tile graphs through Arax. */
#ifndef BENCH_TILES_ARAX_H
#define BENCH_TILES_ARAX_H

#include <arax/arax.h>

#include "tiles_peer.h"

#define TILE_QUEUES	40	/* one for each priority that a queue can have */

/**
 * struct tile_client - a context for tile graphs
 * @queues:	dataflow, the most urgent first
 */
struct tile_client {
	struct arax *ax;
	struct arax_queue *queues[TILE_QUEUES];
	struct arax_kernel kernels[TILE_STEPS];
	struct arax_buffer *buffer;
};

/* @link as ARAX_LINK is.  False: this araxd has no arax-blas. */
int tile_client_open(struct tile_client *c, const char *link);
void tile_client_close(struct tile_client *c);
/* As tile_peer_run(), in this process. */
struct tile_result tile_client_run(struct tile_client *c, const struct tile_graph *g,
				   uint64_t good);

#endif
