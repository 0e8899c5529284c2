// SPDX-License-Identifier: MIT
/*
 * lavaMD: forces between particles that are in the same box or in neighbouring
 * ones, for one plane of boxes out of a cube of them.  A particle is four floats:
 * half the square of its place, by which distances are told, and the place.
 *
 * A launch has the planes next to its own in its first two ranges, and no more; which
 * those are follows from the plane's number.
 */
#include "daemon/kernels/rodinia/rodinia.h"
#include "daemon/kernels/std/vmath.h"

#define LANES	8

struct lava_args {
	uint32_t boxes, particles, plane;	/* on an edge of the cube, in a box */
	float alpha;
};

/* Of several particles of one box. */
struct lava_home {
	float v[LANES], x[LANES], y[LANES], z[LANES];
};

ARAX_KERNEL int rodinia_lavamd(const struct arax_launch *l);

STD_INLINE void interact(struct lava_home *sum, const struct lava_home *home, const float *at,
			 float charge, float a2)
{
	for (int k = 0; k < LANES; k++) {
		float dot = home->x[k] * at[1] + home->y[k] * at[2] + home->z[k] * at[3];
		float vij = std_expf(-a2 * (home->v[k] + at[0] - dot));
		float fs = 2 * vij;

		sum->v[k] += charge * vij;
		sum->x[k] += charge * (fs * (home->x[k] - at[1]));
		sum->y[k] += charge * (fs * (home->y[k] - at[2]));
		sum->z[k] += charge * (fs * (home->z[k] - at[3]));
	}
}

/* All particles of one box on some of another. */
STD_FMA_CLONES static void one_box(struct lava_home *sum, const struct lava_home *home, const float *at,
			       const float *charge, uint32_t n, float a2)
{
	struct lava_home s = *sum;

	for (uint32_t j = 0; j < n; j++)
		interact(&s, home, &at[4 * j], charge[j], a2);
	*sum = s;
}

struct lava {
	struct lava_args a;
	const float *at, *charge;
	float *force;
	uint64_t first;		/* plane of the ranges */
};

static void near(const struct lava *v, struct ro_dims box, const struct lava_home *home,
		 struct lava_home *sum)
{
	uint64_t b = v->a.boxes, n = v->a.particles;
	uint64_t z1 = ro_min(box.z + 2, b), y1 = ro_min(box.y + 2, b), x1 = ro_min(box.x + 2, b);

	for (uint64_t z = box.z ? box.z - 1 : 0; z < z1; z++)
		for (uint64_t y = box.y ? box.y - 1 : 0; y < y1; y++)
			for (uint64_t x = box.x ? box.x - 1 : 0; x < x1; x++) {
				uint64_t i = (((z - v->first) * b + y) * b + x) * n;

				one_box(sum, home, &v->at[4 * i], &v->charge[i], (uint32_t)n,
					2 * v->a.alpha * v->a.alpha);
			}
}

static void home_box(const struct lava *v, struct ro_dims box)
{
	uint64_t b = v->a.boxes, n = v->a.particles;
	const float *own = &v->at[4 * (((box.z - v->first) * b + box.y) * b + box.x) * n];
	float *force = &v->force[4 * (box.y * b + box.x) * n];

	for (uint64_t i = 0; i < n; i += LANES) {
		struct lava_home home = { 0 }, sum = { 0 };
		uint64_t lanes = ro_min(LANES, n - i);

		for (uint64_t k = 0; k < lanes; k++) {
			home.v[k] = own[4 * (i + k)];
			home.x[k] = own[4 * (i + k) + 1];
			home.y[k] = own[4 * (i + k) + 2];
			home.z[k] = own[4 * (i + k) + 3];
		}
		near(v, box, &home, &sum);
		for (uint64_t k = 0; k < lanes; k++) {
			force[4 * (i + k)] = sum.v[k];
			force[4 * (i + k) + 1] = sum.x[k];
			force[4 * (i + k) + 2] = sum.y[k];
			force[4 * (i + k) + 3] = sum.z[k];
		}
	}
}

ARAX_KERNEL int rodinia_lavamd(const struct arax_launch *l)
{
	uint64_t plane, planes, n;
	struct lava v;

	if (arax_launch_args(l, &v.a, sizeof(v.a)) || !v.a.boxes || v.a.boxes > 1024 ||
	    !v.a.particles || v.a.particles > RO_LAVA_ITEMS || v.a.plane >= v.a.boxes)
		return -EINVAL;
	plane = v.a.plane;
	v.first = plane ? plane - 1 : 0;
	planes = ro_min(plane + 2, v.a.boxes) - v.first;
	n = (uint64_t)v.a.boxes * v.a.boxes * v.a.particles;
	v.at = ARAX_ITEMS(l, 0, 4 * n * planes, float);
	v.charge = ARAX_ITEMS(l, 1, n * planes, float);
	v.force = ARAX_ITEMS(l, 2, 4 * n, float);
	if (!v.at || !v.charge || !v.force ||
	    !ro_geometry(l, (struct ro_dims){ v.a.boxes, v.a.boxes, 1 },
			 (struct ro_dims){ RO_LAVA_ITEMS, 1, 1 }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		struct ro_dims box = ro_group(l, g);

		box.z = plane;
		home_box(&v, box);
	}
	return 0;
}
