// SPDX-License-Identifier: MIT
/* scan.c, sort.c, histogram.c */
#include "selftests/unit/std_case.h"

struct scan_args { uint32_t n, exclusive; };
struct scan_parts_args { uint32_t n, parts, exclusive; };
struct n_args { uint32_t n; };

static uint32_t items(const struct trial *t)
{
	return size_of(t, t->size == SIZE_HUGE ? 300007 : 5000);
}

static void make_scan_u32(struct trial *t)
{
	struct scan_args a = { items(t), trial_random(2) };

	set_args(t, &a);
	add_words(t, a.n);
	add_holes(t, 4ull * a.n);
}

static void check_scan_u32(const struct trial *t)
{
	const struct scan_args *a = ARGS_OF(t, struct scan_args);
	uint32_t sum = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t next = sum + RANGE(t, 0, uint32_t)[i];

		same(t, i, RANGE(t, 1, uint32_t)[i], a->exclusive ? sum : next);
		sum = next;
	}
}

static void make_scan_f32(struct trial *t)
{
	struct scan_args a = { items(t), trial_random(2) };

	set_args(t, &a);
	add_floats(t, a.n, -1, 2);
	add_holes(t, 4ull * a.n);
}

/* The sum is an f64's; what is written, rounded to f32 once. */
static void running_sum(const struct trial *t, uint32_t out, uint32_t n, uint32_t exclusive)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		double next = sum + f32_at(t, 0, i), wanted = exclusive ? sum : next;

		near(t, i, f32_at(t, out, i), wanted, fabs(wanted) * 6e-8 + 1e-15 * n);
		sum = next;
	}
}

static void check_scan_f32(const struct trial *t)
{
	const struct scan_args *a = ARGS_OF(t, struct scan_args);

	running_sum(t, 1, a->n, a->exclusive);
}

static struct scan_parts_args scan_parts_args(const struct trial *t)
{
	return (struct scan_parts_args){ items(t), 1 + trial_random(40), trial_random(2) };
}

/* The sums of parts are as sum_parts_* would have made them. */
static void make_scan_parts_u32(struct trial *t)
{
	struct scan_parts_args a = scan_parts_args(t);
	uint32_t *x, *part;

	set_args(t, &a);
	x = add_words(t, a.n);
	part = add_bytes(t, 4ull * a.parts);
	for (uint64_t p = 0; p < a.parts; p++)
		for (uint64_t i = p * a.n / a.parts; i < (p + 1) * a.n / a.parts; i++)
			part[p] += x[i];
	add_holes(t, 4ull * a.n);
}

static void check_scan_parts_u32(const struct trial *t)
{
	const struct scan_parts_args *a = ARGS_OF(t, struct scan_parts_args);
	uint32_t sum = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t next = sum + RANGE(t, 0, uint32_t)[i];

		same(t, i, RANGE(t, 2, uint32_t)[i], a->exclusive ? sum : next);
		sum = next;
	}
}

static void make_scan_parts_f32(struct trial *t)
{
	struct scan_parts_args a = scan_parts_args(t);
	double *part;
	float *x;

	set_args(t, &a);
	x = add_floats(t, a.n, -1, 2);
	part = add_bytes(t, 8ull * a.parts);
	for (uint64_t p = 0; p < a.parts; p++)
		for (uint64_t i = p * a.n / a.parts; i < (p + 1) * a.n / a.parts; i++)
			part[p] += (double)x[i];
	add_holes(t, 4ull * a.n);
}

static void check_scan_parts_f32(const struct trial *t)
{
	const struct scan_parts_args *a = ARGS_OF(t, struct scan_parts_args);

	running_sum(t, 2, a->n, a->exclusive);
}

/* ------------------------------------------------------------------ */
/* Sorting: exact                                                      */

static uint32_t sorted_items(const struct trial *t)
{
	return size_of(t, t->size == SIZE_HUGE ? 200003 : 3000);
}

/* Random, few different ones, in order, the other way round, all alike. */
static uint32_t key_of(uint32_t kind, uint32_t i, uint32_t n)
{
	switch (kind) {
	case 0:
		return trial_random(UINT32_MAX);
	case 1:
		return trial_random(5) << 20;
	case 2:
		return i;
	case 3:
		return n - i;
	default:
		return 0xfffffff0;
	}
}

static uint32_t *add_keys(struct trial *t, uint32_t n)
{
	uint32_t *key = add_bytes(t, 4ull * n), kind = trial_random(5);

	for (uint32_t i = 0; i < n; i++)
		key[i] = key_of(kind, i, n);
	return key;
}

static void make_sort_u32(struct trial *t)
{
	struct n_args a = { sorted_items(t) };

	set_args(t, &a);
	add_keys(t, a.n);
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t float_key(uint32_t bits)
{
	return bits & 0x80000000u ? (uint64_t)(0xffffffffu - bits) : bits | 0x80000000ull;
}

/* The C library's order of `wide`, a number for each item, against that of what there is. */
static void check_order(const struct trial *t, uint64_t *wanted, const uint64_t *got, uint32_t n)
{
	qsort(wanted, n, sizeof(*wanted), by_number);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_msg(wanted[i] == got[i], "%s: item %u of %u: %#lx, not %#lx", t->c->name,
			      i, n,
			      (unsigned long)got[i], (unsigned long)wanted[i]);
	free(wanted);
	free((void *)got);
}

static uint64_t *numbers(const uint32_t *key, const uint32_t *value, uint32_t n, bool floats)
{
	uint64_t *x = malloc(n * sizeof(*x) + 1);

	ck_assert_ptr_nonnull(x);
	for (uint32_t i = 0; i < n; i++)
		x[i] = floats ? float_key(key[i]) :
		       value ? (uint64_t)key[i] << 32 | value[i] : key[i];
	return x;
}

static void check_sort_u32(const struct trial *t)
{
	uint32_t n = ARGS_OF(t, struct n_args)->n;

	check_order(t, numbers(t->was[0], NULL, n, false), numbers(t->r[0].data, NULL, n, false),
		    n);
}

static void make_sort_f32(struct trial *t)
{
	static const float odd[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 1e-42f, -1e-42f };
	struct n_args a = { sorted_items(t) };
	float *x;

	set_args(t, &a);
	x = add_floats(t, a.n, -1e3, 1e3);
	for (uint32_t i = 0; i < a.n; i += 1 + trial_random(9))
		x[i] = odd[trial_random(7)];
}

static void check_sort_f32(const struct trial *t)
{
	uint32_t n = ARGS_OF(t, struct n_args)->n;

	check_order(t, numbers(t->was[0], NULL, n, true), numbers(t->r[0].data, NULL, n, true), n);
}

static void make_sort_pairs(struct trial *t)
{
	struct n_args a = { sorted_items(t) };

	set_args(t, &a);
	add_keys(t, a.n);
	add_keys(t, a.n);
}

static void check_sort_pairs(const struct trial *t)
{
	uint32_t n = ARGS_OF(t, struct n_args)->n;

	check_order(t, numbers(t->was[0], t->was[1], n, false),
		    numbers(t->r[0].data, t->r[1].data, n, false), n);
}

/* ------------------------------------------------------------------ */
/* Counting: exact                                                     */

static void make_histogram_u8(struct trial *t)
{
	struct n_args a = { items(t) };
	uint32_t few = trial_random(2);
	uint8_t *x;

	set_args(t, &a);
	x = add_bytes(t, a.n);
	for (uint32_t i = 0; i < a.n; i++)
		x[i] = few ? 7 : (uint8_t)trial_random(256);
	add_holes(t, 4 * 256);
}

static void check_histogram_u8(const struct trial *t)
{
	uint32_t n = ARGS_OF(t, struct n_args)->n, count[256] = { 0 };

	for (uint32_t i = 0; i < n; i++)
		count[RANGE(t, 0, uint8_t)[i]]++;
	for (uint32_t i = 0; i < 256; i++)
		same(t, i, RANGE(t, 1, uint32_t)[i], count[i]);
}

struct histogram_args { float low, high; uint32_t n, bins; };

static void make_histogram_f32(struct trial *t)
{
	struct histogram_args a = { (float)uniform(-2, 0), (float)uniform(0.1, 2), items(t),
				    side_of(t, 3000) };
	float *x;

	set_args(t, &a);
	x = add_floats(t, a.n, -2.5, 2.5);
	for (uint32_t i = 0; i < a.n; i += 1 + trial_random(50)) {
		const float odd[] = { NAN, INFINITY, -INFINITY, a.low, a.high,
				      nextafterf(a.high, a.low) };

		x[i] = odd[trial_random(6)];
	}
	add_holes(t, 4ull * a.bins);
}

static void check_histogram_f32(const struct trial *t)
{
	const struct histogram_args *a = ARGS_OF(t, struct histogram_args);
	volatile float scale = (float)a->bins / (a->high - a->low);
	uint32_t *count = calloc(a->bins, sizeof(*count));

	ck_assert_ptr_nonnull(count);
	for (uint32_t i = 0; i < a->n; i++) {
		float v = RANGE(t, 0, float)[i];

		if (v >= a->low && v < a->high) {
			volatile float from = v - a->low, at = from * scale;

			count[(uint32_t)at < a->bins ? (uint32_t)at : a->bins - 1]++;
		}
	}
	for (uint32_t i = 0; i < a->bins; i++)
		same(t, i, RANGE(t, 1, uint32_t)[i], count[i]);
	free(count);
}

const struct std_case order_cases[] = {
	{ "scan_u32", make_scan_u32, check_scan_u32, 0 },
	{ "scan_f32", make_scan_f32, check_scan_f32, 0 },
	{ "scan_parts_u32", make_scan_parts_u32, check_scan_parts_u32, 0 },
	{ "scan_parts_f32", make_scan_parts_f32, check_scan_parts_f32, 0 },
	{ "sort_u32", make_sort_u32, check_sort_u32, 0 },
	{ "sort_f32", make_sort_f32, check_sort_f32, 0 },
	{ "sort_pairs_u32", make_sort_pairs, check_sort_pairs, 0 },
	{ "histogram_u8", make_histogram_u8, check_histogram_u8, 0 },
	{ "histogram_f32", make_histogram_f32, check_histogram_f32, 0 },
	{ 0 },
};
