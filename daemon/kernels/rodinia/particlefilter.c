// SPDX-License-Identifier: MIT
/*
 * particlefilter: where an object is in a film, by particles that move at random and
 * are drawn anew, frame by frame, as often as what is around them looks like it. Four
 * launches a frame:
 *
 *	move		each particle, and how much it looks like the object there (the
 *			logarithm), the most of each group
 *	weigh		by the most of all; running sums within each group
 *	total		sums before each group, and the weighted mean: the estimate
 *	resample	n particles at equal distances along the running sum
 *
 * What is random is a function of seed, frame and particle, in whole numbers, so that
 * all devices draw the same.  Places are contents: read once, and brought into the
 * frame before a pixel is read.
 */
#include "daemon/kernels/rodinia/rodinia.h"

#include <math.h>

struct move_args {
	uint32_t n, width, height, seed, frame;
};

struct n_args {
	uint32_t n;
};

struct resample_args {
	uint32_t n, seed, frame;
};

ARAX_KERNEL int rodinia_pf_move(const struct arax_launch *l);
ARAX_KERNEL int rodinia_pf_weigh(const struct arax_launch *l);
ARAX_KERNEL int rodinia_pf_total(const struct arax_launch *l);
ARAX_KERNEL int rodinia_pf_resample(const struct arax_launch *l);

/* splitmix64 (Steele, Lea, Flood 2014): a counter-based generator. */
static uint64_t random_bits(uint32_t seed, uint32_t frame, uint32_t i, uint32_t which)
{
	uint64_t x = (((uint64_t)seed << 32 ^ frame) * 0x9e3779b97f4a7c15u) ^
		     ((uint64_t)which << 32 | i);

	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* About normal: the sum of four that are uniform, less their mean, over its deviation. */
static float normal(uint64_t bits)
{
	int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) +
		      (int32_t)(bits >> 32 & 0xffff) + (int32_t)(bits >> 48);

	return (float)(sum - 131070) * 2.642903e-05f;
}

/* The nearest pixel in a row or column; of a NaN the first. */
static int32_t pixel(float at, uint32_t size)
{
	float last = (float)(size - 1);

	at = at > 0 ? at : 0;
	at = at < last ? at : last;
	return (int32_t)(at + 0.5f);
}

static int32_t inside(int32_t at, uint32_t size)
{
	return at < 0 ? 0 : at >= (int32_t)size ? (int32_t)size - 1 : at;
}

/* The object is 228 bright, all else 100. */
static float likeness(const uint8_t *frame, const struct move_args *a, float x, float y)
{
	int32_t px = pixel(x, a->width), py = pixel(y, a->height), sum = 0, count = 0;

	for (int32_t dy = 1 - RO_PF_RADIUS; dy < RO_PF_RADIUS; dy++) {
		const uint8_t *row = &frame[(uint64_t)inside(py + dy, a->height) * a->width];

		for (int32_t dx = 1 - RO_PF_RADIUS; dx < RO_PF_RADIUS; dx++) {
			if (dx * dx + dy * dy >= RO_PF_RADIUS * RO_PF_RADIUS)
				continue;
			sum += row[inside(px + dx, a->width)];
			count++;
		}
	}
	/* The sum of (i - 100)^2 - (i - 228)^2. */
	return (float)(256 * sum - 41984 * count) / (float)(50 * count);
}

ARAX_KERNEL int rodinia_pf_move(const struct arax_launch *l)
{
	float *x, *y, *like, *most;
	const uint8_t *frame;
	struct move_args a;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n || !a.width || !a.height ||
	    a.width > 1u << 14 || a.height > 1u << 14)
		return -EINVAL;
	frame = ARAX_ITEMS(l, 0, (uint64_t)a.width * a.height, uint8_t);
	x = ARAX_ITEMS(l, 1, a.n, float);
	y = ARAX_ITEMS(l, 2, a.n, float);
	like = ARAX_ITEMS(l, 3, a.n, float);
	most = ARAX_ITEMS(l, 4, RO_GROUPS((uint64_t)a.n, RO_PF_ITEMS), float);
	if (!frame || !x || !y || !like || !most || !ro_row(l, a.n, RO_PF_ITEMS))
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t end = ro_min((g + 1) * RO_PF_ITEMS, a.n);
		float best = -INFINITY;

		for (uint64_t i = g * RO_PF_ITEMS; i < end; i++) {
			uint32_t id = (uint32_t)i;
			float px = RO_ONCE(x[i]) +
				   (1 + 5 * normal(random_bits(a.seed, a.frame, id, 0)));
			float py = RO_ONCE(y[i]) +
				   (-2 + 2 * normal(random_bits(a.seed, a.frame, id, 1)));
			float looks = likeness(frame, &a, px, py);

			x[i] = px;
			y[i] = py;
			like[i] = looks;
			best = looks > best ? looks : best;
		}
		most[g] = best;
	}
	return 0;
}

ARAX_KERNEL int rodinia_pf_weigh(const struct arax_launch *l)
{
	const float *most, *like, *x, *y;
	float *running, *sums, best;
	struct n_args a;
	uint64_t groups;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n)
		return -EINVAL;
	groups = RO_GROUPS((uint64_t)a.n, RO_PF_ITEMS);
	most = ARAX_ITEMS(l, 0, groups, float);
	like = ARAX_ITEMS(l, 1, a.n, float);
	x = ARAX_ITEMS(l, 2, a.n, float);
	y = ARAX_ITEMS(l, 3, a.n, float);
	running = ARAX_ITEMS(l, 4, a.n, float);
	sums = ARAX_ITEMS(l, 5, 3 * groups, float);
	if (!most || !like || !x || !y || !running || !sums || !ro_row(l, a.n, RO_PF_ITEMS))
		return -EINVAL;
	best = -INFINITY;
	for (uint64_t g = 0; g < groups; g++)
		best = most[g] > best ? most[g] : best;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t end = ro_min((g + 1) * RO_PF_ITEMS, a.n);
		float sum = 0, sum_x = 0, sum_y = 0;

		for (uint64_t i = g * RO_PF_ITEMS; i < end; i++) {
			float w = expf(like[i] - best);

			sum += w;
			sum_x += w * x[i];
			sum_y += w * y[i];
			running[i] = sum;
		}
		sums[g] = sum;
		sums[groups + g] = sum_x;
		sums[2 * groups + g] = sum_y;
	}
	return 0;
}

ARAX_KERNEL int rodinia_pf_total(const struct arax_launch *l)
{
	float sum = 0, sum_x = 0, sum_y = 0;
	float *before, *estimate;
	const float *sums;
	struct n_args a;
	uint64_t groups;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n)
		return -EINVAL;
	groups = RO_GROUPS((uint64_t)a.n, RO_PF_ITEMS);
	sums = ARAX_ITEMS(l, 0, 3 * groups, float);
	before = ARAX_ITEMS(l, 1, groups + 1, float);
	estimate = ARAX_ITEMS(l, 2, 2, float);
	if (!sums || !before || !estimate || !ro_row(l, 1, 1))
		return -EINVAL;
	for (uint64_t g = 0; g < groups; g++) {
		before[g] = sum;
		sum += sums[g];
		sum_x += sums[groups + g];
		sum_y += sums[2 * groups + g];
	}
	before[groups] = sum;
	estimate[0] = sum_x / sum;
	estimate[1] = sum_y / sum;
	return 0;
}

/* The last of sums[0 .. n - 1] that is at most @at; they do not fall. */
static uint64_t last_until(const float *sums, uint64_t n, float at)
{
	uint64_t low = 0, high = n - 1;

	while (low < high) {
		uint64_t mid = low + (high - low + 1) / 2;

		if (sums[mid] <= at)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

/* The first of sums[0 .. n - 1] beyond @at; the last if none is. */
static uint64_t first_beyond(const float *sums, uint64_t n, float at)
{
	uint64_t low = 0, high = n - 1;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (sums[mid] > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

ARAX_KERNEL int rodinia_pf_resample(const struct arax_launch *l)
{
	const float *before, *running, *x, *y;
	struct resample_args a;
	float *x2, *y2, first;
	uint64_t groups;

	if (arax_launch_args(l, &a, sizeof(a)) || !a.n)
		return -EINVAL;
	groups = RO_GROUPS((uint64_t)a.n, RO_PF_ITEMS);
	before = ARAX_ITEMS(l, 0, groups + 1, float);
	running = ARAX_ITEMS(l, 1, a.n, float);
	x = ARAX_ITEMS(l, 2, a.n, float);
	y = ARAX_ITEMS(l, 3, a.n, float);
	x2 = ARAX_ITEMS(l, 4, a.n, float);
	y2 = ARAX_ITEMS(l, 5, a.n, float);
	if (!before || !running || !x || !y || !x2 || !y2 || !ro_row(l, a.n, RO_PF_ITEMS))
		return -EINVAL;
	first = (float)(random_bits(a.seed, a.frame, 0, 2) >> 40) * 0x1p-24f;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		uint64_t end = ro_min((g + 1) * RO_PF_ITEMS, a.n);

		for (uint64_t j = g * RO_PF_ITEMS; j < end; j++) {
			float at = ((float)j + first) / (float)a.n * before[groups];
			uint64_t from = last_until(before, groups, at), i = from * RO_PF_ITEMS;

			i += first_beyond(&running[i], ro_min(RO_PF_ITEMS, a.n - i),
					  at - before[from]);
			x2[j] = x[i];
			y2[j] = y[i];
		}
	}
	return 0;
}
