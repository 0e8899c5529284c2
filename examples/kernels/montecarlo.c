// SPDX-License-Identifier: MIT
/*
 * A kernel of one's own: count random points inside the quarter circle.
 * Built into build/examples/kernels/montecarlo.so beside its manifest.
 */
#include <arax/kernel.h>

struct mc_args {
	uint32_t samples;	/* of each work-group */
	uint32_t seed;
};

/* splitmix64 (Steele, Lea, Flood 2014): a counter-based generator. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

ARAX_KERNEL int mc_pi(const struct arax_launch *l);

ARAX_KERNEL int mc_pi(const struct arax_launch *l)
{
	struct mc_args args;
	uint64_t *hits;
	uint64_t g;

	if (arax_launch_args(l, &args, sizeof(args)))
		return -EINVAL;
	hits = ARAX_ITEMS(l, 0, arax_launch_groups(l), uint64_t);
	if (!hits)
		return -EINVAL;
	for (g = l->group_begin; g < l->group_end; g++) {
		uint64_t n = 0;

		for (uint32_t i = 0; i < args.samples; i++) {
			uint64_t r = mix((uint64_t)args.seed << 48 ^ g << 32 ^ i);
			double x = (double)(r >> 32) / 4294967296.0;
			double y = (double)(uint32_t)r / 4294967296.0;

			n += x * x + y * y < 1.0;
		}
		hits[g] = n;
	}
	return 0;
}
