// SPDX-License-Identifier: MIT
/*
 * Nearest neighbours: how far each place is from a target, and then the nearest
 * few of each chunk of places, from which the program takes the nearest of all.
 * Of two that are as near the first comes first.
 */
#include "daemon/kernels/rodinia/rodinia.h"

#include <math.h>

struct distance_args {
	uint32_t n;
	float latitude, longitude;
};

struct nearest_args {
	uint32_t n, most;
};

ARAX_KERNEL int rodinia_nn_distance(const struct arax_launch *l);
ARAX_KERNEL int rodinia_nn_nearest(const struct arax_launch *l);

STD_CLONES static void distances(const float *restrict place, float *restrict distance,
				 const struct distance_args *a, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		float dy = place[2 * i] - a->latitude, dx = place[2 * i + 1] - a->longitude;

		distance[i] = sqrtf(dy * dy + dx * dx);
	}
}

ARAX_KERNEL int rodinia_nn_distance(const struct arax_launch *l)
{
	struct distance_args a;
	const float *place;
	float *distance;
	uint64_t begin, end;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n)
		return -EINVAL;
	place = ARAX_ITEMS(l, 0, 2 * (uint64_t)a.n, float);
	distance = ARAX_ITEMS(l, 1, a.n, float);
	if (!place || !distance || !ro_row(l, a.n, RO_NN_ITEMS))
		return -EINVAL;
	begin = l->group_begin * RO_NN_ITEMS;
	end = ro_min(l->group_end * RO_NN_ITEMS, a.n);
	distances(&place[2 * begin], &distance[begin], &a, end - begin);
	return 0;
}

/* Of @n, which are numbered from @first. */
static void nearest(const float *distance, uint32_t n, uint32_t first, uint32_t most,
		    uint32_t *index, float *best)
{
	for (uint32_t k = 0; k < most; k++) {
		index[k] = ~0u;
		best[k] = INFINITY;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = most - 1;
		float d = distance[i];

		if (!(d < best[k]))
			continue;
		for (; k && d < best[k - 1]; k--) {
			best[k] = best[k - 1];
			index[k] = index[k - 1];
		}
		best[k] = d;
		index[k] = first + i;
	}
}

ARAX_KERNEL int rodinia_nn_nearest(const struct arax_launch *l)
{
	float *distance, *best;
	struct nearest_args a;
	uint32_t *index;
	uint64_t chunks;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || !a.most || a.most > RO_NN_MOST)
		return -EINVAL;
	chunks = RO_GROUPS((uint64_t)a.n, RO_NN_CHUNK);
	distance = ARAX_ITEMS(l, 0, a.n, float);
	index = ARAX_ITEMS(l, 1, chunks * a.most, uint32_t);
	best = ARAX_ITEMS(l, 2, chunks * a.most, float);
	if (!distance || !index || !best ||
	    !ro_geometry(l, (struct ro_dims){ chunks, 1, 1 },
			 (struct ro_dims){ RO_NN_ITEMS, 1, 1 }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t first = g * RO_NN_CHUNK;

		nearest(&distance[first], (uint32_t)ro_min(RO_NN_CHUNK, a.n - first),
			(uint32_t)first, a.most, &index[g * a.most], &best[g * a.most]);
	}
	return 0;
}
