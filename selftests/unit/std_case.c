// SPDX-License-Identifier: MIT
#include "selftests/unit/std_case.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "uapi/arax.h"

#define PAGE 4096u

static uint64_t state, seed;

static const struct std_case *const all[] = {
	vector_cases, order_cases, image_cases, matrix_cases, point_cases, nn_cases, fft_cases,
	blas_cases,
};

const struct std_case *std_case_at(size_t i)
{
	for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
		const struct std_case *c = all[k];

		for (; c->name; c++)
			if (!i--)
				return c;
	}
	return NULL;
}

size_t std_cases_here(const char *test)
{
	size_t nr = 0, blas = 0;
	char name[96];

	while (std_case_at(nr))
		nr++;
	if (!access("build/lib/arax/kernels/arax-blas.so", F_OK))
		return nr;
	for (const struct std_case *c = blas_cases; c->name; c++, blas++) {
		snprintf(name, sizeof(name), "%s: %s", test, c->name);
		be_skip(name, "arax-blas has none for processors: no libopenblas-openmp-dev");
	}
	return nr - blas;
}

uint32_t std_case_words(const char *signature, uint32_t at[16])
{
	uint32_t offset = 0, nr = 0;

	for (const char *p = strchr(signature, '('); p; p = strchr(p + 1, ',')) {
		const char *type = p + (*p == '(' ? 1 : 2);
		uint32_t size = strncmp(type + 1, "64 ", 3) ? 4 : 8;

		if (!strncmp(type, "in", 2) || !strncmp(type, "out", 3))
			continue;
		offset = (offset + size - 1) / size * size;
		if (!strncmp(type, "u32 ", 4))
			at[nr++] = offset;
		offset += size;
	}
	return nr;
}

void trial_seed(void)
{
	seed = getenv("ARAX_SEED") ? strtoull(getenv("ARAX_SEED"), NULL, 10) : (uint64_t)getpid();
	state = (seed + 1) * 0x9e3779b97f4a7c15u;
	/* Of a test that crashes nothing else tells. */
	printf("# ARAX_SEED=%lu\n", (unsigned long)seed);
	fflush(stdout);
}

/* xorshift64 (Marsaglia 2003). */
uint32_t trial_random(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state >> 16) % below);
}

void trial_open(struct trial *t, const struct std_case *c, enum trial_size size)
{
	memset(t, 0, sizeof(*t));
	t->c = c;
	t->size = size;
	t->args = calloc(1, TRIAL_MAX_ARGS);
	ck_assert_ptr_nonnull(t->args);
	if (c)
		c->make(t);
	trial_keep(t);
}

void trial_keep(struct trial *t)
{
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		free(t->was[i]);
		t->was[i] = malloc(t->r[i].length + 1);
		ck_assert_ptr_nonnull(t->was[i]);
		memcpy(t->was[i], t->r[i].data, t->r[i].length);
	}
}

static void as_before(const struct trial *t, uint32_t i, const char *why)
{
	ck_assert_msg(!memcmp(t->r[i].data, t->was[i], t->r[i].length),
		      "%s: range %u was written%s (ARAX_SEED=%lu)", t->c->name, i, why,
		      (unsigned long)seed);
}

void trial_check(const struct trial *t, uint64_t access)
{
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		if (!(access >> (2 * i) & ARAX_OUT))
			as_before(t, i, "");
	t->c->check(t);
}

void trial_check_untouched(const struct trial *t, const char *why)
{
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		as_before(t, i, why);
}

void trial_close(struct trial *t)
{
	free(t->args);
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		uint64_t map = (t->r[i].length + PAGE - 1) / PAGE * PAGE;

		munmap((char *)t->r[i].data + t->r[i].length - map, map + PAGE);
		free(t->was[i]);
	}
}

uint32_t size_of(const struct trial *t, uint32_t most)
{
	static const uint32_t edges[] = { 0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 255,
					  256,
					  257, 511, 512, 513, 997, 1023, 1024, 1025 };
	const uint32_t nr_edges = sizeof(edges) / sizeof(edges[0]);
	uint32_t n;

	if (t->size == SIZE_NONE || t->size == SIZE_ONE)
		return t->size == SIZE_ONE;
	n = t->size == SIZE_SOME && trial_random(2) ? edges[trial_random(nr_edges)] :
						      trial_random(most + 1);
	return n < most ? n : most;
}

uint32_t side_of(const struct trial *t, uint32_t most)
{
	uint32_t n = size_of(t, most);

	return n ? n : 1;
}

double uniform(double low, double high)
{
	return low + (high - low) * (trial_random(1u << 30) / 1073741824.0);
}

void *add_bytes(struct trial *t, uint64_t bytes)
{
	uint64_t map = (bytes + PAGE - 1) / PAGE * PAGE;
	char *p = mmap(NULL, map + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + map, PAGE, PROT_NONE), 0);
	ck_assert_uint_lt(t->nr_ranges, TRIAL_MAX_RANGES);
	t->r[t->nr_ranges] = (struct arax_launch_range){ p + map - bytes, bytes, 0, 1 };
	return t->r[t->nr_ranges++].data;
}

float *add_floats(struct trial *t, uint64_t n, double low, double high)
{
	float *p = add_bytes(t, n * sizeof(*p));

	for (uint64_t i = 0; i < n; i++)
		p[i] = (float)uniform(low, high);
	return p;
}

double *add_doubles(struct trial *t, uint64_t n, double low, double high)
{
	double *p = add_bytes(t, n * sizeof(*p));

	for (uint64_t i = 0; i < n; i++)
		p[i] = uniform(low, high);
	return p;
}

uint32_t *add_words(struct trial *t, uint64_t n)
{
	uint32_t *p = add_bytes(t, n * sizeof(*p));

	for (uint64_t i = 0; i < n; i++)
		p[i] = trial_random(UINT32_MAX);
	return p;
}

float *add_equals(struct trial *t, uint64_t n, float all)
{
	float *p = add_bytes(t, n * sizeof(*p));

	for (uint64_t i = 0; i < n; i++)
		p[i] = all;
	return p;
}

void add_nans(const struct trial *t, float *x, uint64_t n)
{
	uint32_t one_of = 1 + trial_random(8);

	if (t->size < SIZE_SOME || trial_random(2))
		return;
	for (uint64_t i = 0; i < n; i++)
		if (!trial_random(one_of))
			x[i] = NAN;
}

void add_holes(struct trial *t, uint64_t bytes)
{
	memset(add_bytes(t, bytes), 0xff, bytes);
}

void near(const struct trial *t, uint64_t i, double got, double wanted, double tolerance)
{
	ck_assert_msg(fabs(got - wanted) <= tolerance,
		      "%s: item %lu is %.17g, not %.17g to %.2g (ARAX_SEED=%lu)", t->c->name,
		      (unsigned long)i, got, wanted, tolerance, (unsigned long)seed);
}

void same(const struct trial *t, uint64_t i, double got, double wanted)
{
	ck_assert_msg(got == wanted, "%s: item %lu is %.17g, not %.17g (ARAX_SEED=%lu)", t->c->name,
		      (unsigned long)i, got, wanted, (unsigned long)seed);
}
