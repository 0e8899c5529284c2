// SPDX-License-Identifier: MIT
/* hotspot3d: a step of the temperature of a stack of chips; beyond its faces as at them. */
#include "daemon/kernels/rodinia/rodinia.h"

struct hot3_args {
	uint32_t nx, ny, nz;
	float mid, x, y, z;	/* weights of a cell and of its neighbours */
	float power, ambient;	/* of a unit of power; what the surroundings give */
};

ARAX_KERNEL int rodinia_hotspot3d(const struct arax_launch *l);

STD_INLINE float cell(const float *t, const float *power, uint64_t i, uint64_t w, uint64_t e,
		      uint64_t n, uint64_t s, uint64_t b, uint64_t f, const struct hot3_args *a)
{
	return t[i] * a->mid + t[n] * a->y + t[s] * a->y + t[e] * a->x + t[w] * a->x +
	       t[f] * a->z + t[b] * a->z + a->power * power[i] + a->ambient;
}

STD_CLONES static void one_row(const float *restrict t, const float *restrict power,
			       float *restrict to, const struct hot3_args *args, struct ro_dims at,
			       uint64_t end)
{
	const struct hot3_args copy = *args, *a = &copy;
	uint64_t row = a->nx, plane = row * a->ny, first = at.z * plane + at.y * row, x = at.x;
	uint64_t north = at.y ? row : 0, south = at.y + 1 < a->ny ? row : 0;
	uint64_t below = at.z ? plane : 0, above = at.z + 1 < a->nz ? plane : 0;
	uint64_t last = end == row ? end - 1 : end, i;

	if (!x) {
		i = first;
		to[i] = cell(t, power, i, i, row > 1 ? i + 1 : i, i - north, i + south, i - below,
			     i + above, a);
		x++;
	}
	for (; x < last; x++) {
		i = first + x;
		to[i] = cell(t, power, i, i - 1, i + 1, i - north, i + south, i - below, i + above, a);
	}
	if (x < end) {
		i = first + x;
		to[i] = cell(t, power, i, i - 1, i, i - north, i + south, i - below, i + above, a);
	}
}

ARAX_KERNEL int rodinia_hotspot3d(const struct arax_launch *l)
{
	const float *power, *from;
	struct hot3_args a;
	uint64_t cells;
	float *to;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.nx || !a.ny || !a.nz || a.nx > 1u << 16 ||
	    a.ny > 1u << 16 || a.nz > 1u << 16)
		return -EINVAL;
	cells = (uint64_t)a.nx * a.ny * a.nz;
	power = ARAX_ITEMS(l, 0, cells, float);
	from = ARAX_ITEMS(l, 1, cells, float);
	to = ARAX_ITEMS(l, 2, cells, float);
	if (!power || !from || !to ||
	    !ro_geometry(l, (struct ro_dims){ RO_GROUPS(a.nx, RO_HOT3_X),
					      RO_GROUPS(a.ny, RO_HOT3_Y),
					      RO_GROUPS(a.nz, RO_HOT3_Z) },
			 (struct ro_dims){ RO_HOT3_X, RO_HOT3_Y, RO_HOT3_Z }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		struct ro_dims tile = ro_group(l, g), at;
		uint64_t y_end = ro_min((tile.y + 1) * RO_HOT3_Y, a.ny);
		uint64_t z_end = ro_min((tile.z + 1) * RO_HOT3_Z, a.nz);

		at.x = tile.x * RO_HOT3_X;
		for (at.z = tile.z * RO_HOT3_Z; at.z < z_end; at.z++)
			for (at.y = tile.y * RO_HOT3_Y; at.y < y_end; at.y++)
				one_row(from, power, to, &a, at, ro_min(at.x + RO_HOT3_X, a.nx));
	}
	return 0;
}
