// SPDX-License-Identifier: MIT
/*
 * Gaussian elimination without pivoting, two launches for each column k: the
 * multipliers of the rows below it, and then these rows and the right side.
 */
#include "daemon/kernels/rodinia/rodinia.h"

struct gauss_args {
	uint32_t n, k;
};

ARAX_KERNEL int rodinia_gauss_column(const struct arax_launch *l);
ARAX_KERNEL int rodinia_gauss_rows(const struct arax_launch *l);

static bool usable(const struct gauss_args *a)
{
	return a->n && a->n <= 1u << 16 && a->k < a->n - 1;
}

ARAX_KERNEL int rodinia_gauss_column(const struct arax_launch *l)
{
	struct gauss_args a;
	const float *m;
	float *factor;
	uint64_t n;

	if (arax_launch_args(l, &a, sizeof(a)) || !usable(&a))
		return -EINVAL;
	n = a.n;
	m = ARAX_ITEMS(l, 0, n * n, float);
	factor = ARAX_ITEMS(l, 1, n, float);
	if (!m || !factor || !ro_row(l, n - a.k - 1, RO_GAUSS_ITEMS))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t i = a.k + 1 + g * RO_GAUSS_ITEMS, end = ro_min(i + RO_GAUSS_ITEMS, n);

		for (; i < end; i++)
			factor[i] = m[i * n + a.k] / m[a.k * n + a.k];
	}
	return 0;
}

/* Columns below k are 0 and stay so. */
STD_CLONES static void subtract(float *row, const float *pivot, float factor, uint64_t columns)
{
	for (uint64_t j = 0; j < columns; j++)
		row[j] -= factor * pivot[j];
}

ARAX_KERNEL int rodinia_gauss_rows(const struct arax_launch *l)
{
	const float *factor;
	struct gauss_args a;
	uint64_t n, left;
	float *m, *b;

	if (arax_launch_args(l, &a, sizeof(a)) || !usable(&a))
		return -EINVAL;
	n = a.n;
	left = n - a.k;
	factor = ARAX_ITEMS(l, 0, n, float);
	m = ARAX_ITEMS(l, 1, n * n, float);
	b = ARAX_ITEMS(l, 2, n, float);
	if (!factor || !m || !b ||
	    !ro_geometry(l, (struct ro_dims){ RO_GROUPS(left, RO_GAUSS_X),
					      RO_GROUPS(left - 1, RO_GAUSS_Y), 1 },
			 (struct ro_dims){ RO_GAUSS_X, RO_GAUSS_Y, 1 }))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		struct ro_dims at = ro_group(l, g);
		uint64_t j = a.k + at.x * RO_GAUSS_X, wide = ro_min(RO_GAUSS_X, n - j);
		uint64_t i = a.k + 1 + at.y * RO_GAUSS_Y, end = ro_min(i + RO_GAUSS_Y, n);

		for (; i < end; i++) {
			subtract(&m[i * n + j], &m[a.k * n + j], factor[i], wide);
			if (!at.x)
				b[i] -= factor[i] * b[a.k];
		}
	}
	return 0;
}
