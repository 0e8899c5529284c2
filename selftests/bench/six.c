// SPDX-License-Identifier: MIT
/* The six benchmarks: sizes, and what their inputs are made of. */
#include "six.h"

const struct six six[SIX] = {
	{ "VEC", { 200000, 2000000, 20000000 }, vec_make },
	{ "B&S", { 5000, 50000, 500000 }, bs_make },
	{ "IMG", { 400, 800, 1600 }, img_make },
	{ "ML", { 1000, 10000, 100000 }, ml_make },
	{ "HITS", { 5000, 50000, 500000 }, hits_make },
	{ "DL", { 300, 1000, 3000 }, dl_make },
};

double six_random(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 40) / 16777216;
}

struct arax_buffer *six_floats(struct flow *f, uint64_t n, double base, double scale)
{
	struct arax_buffer *b = flow_buffer(f, n * sizeof(float), 0);
	float *x = arax_buffer_data(b);
	uint64_t i;

	for (i = 0; i < n; i++)
		x[i] = (float)(base + scale * six_random());
	return b;
}
