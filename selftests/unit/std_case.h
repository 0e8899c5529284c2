/* SPDX-License-Identifier: MIT */
/*
 * std_case.h - the kernels that come with Arax, one case each, on any kind of device
 *
 * A case makes ranges and arguments of a size, and afterwards compares what is in the
 * ranges with its formula in double precision; tolerances stand beside each check.  Who runs
 * the kernel in between is be_std.c on the CPU, be_opencl_std.c on OpenCL.
 */
#ifndef ARAX_SELFTESTS_UNIT_STD_CASE_H
#define ARAX_SELFTESTS_UNIT_STD_CASE_H

#include <math.h>
#include <stdbool.h>

#include "arax/kernel.h"
#include "selftests/unit/be_test.h"

#define TRIAL_MAX_RANGES	6
#define TRIAL_MAX_ARGS		64u	/* bytes */

/*
 * How large: nothing, one of everything, odd and random ones, huge beside those (many tiles and
 * groups, some MB at most: what 32 bits do not count is in far.h); and where terms are added up, few
 * sums of many that are alike: what rounding loses does not cancel out then.
 */
enum trial_size { SIZE_NONE, SIZE_ONE, SIZE_SOME, SIZE_HUGE, SIZE_LONG };

struct trial {
	const struct std_case *c;
	enum trial_size size;
	uint32_t nr_ranges;
	struct arax_launch_range r[TRIAL_MAX_RANGES];
	void *was[TRIAL_MAX_RANGES];	/* what was in it before */
	void *args;
	uint32_t arg_len;
};

/**
 * struct std_case - a kernel and how it is checked
 * @name:	of the kernel
 * @make:	ranges, each exactly as long as it must be, and arguments
 * @check:	of a launch that returned 0
 * @optional:	a bit for each range that may be empty although it isn't
 */
struct std_case {
	const char *name;
	void (*make)(struct trial *t);
	void (*check)(const struct trial *t);
	uint32_t optional;
};

/* Of a file each; they end with one that has no name. */
extern const struct std_case vector_cases[], order_cases[], image_cases[], matrix_cases[],
	point_cases[], nn_cases[], fft_cases[], blas_cases[];

/* The case at @i of all, NULL behind the last. */
const struct std_case *std_case_at(size_t i);

/*
 * How many of them have a kernel for processors in what was built here: those of arax-blas come
 * last, and where it has none each is counted as left out of @test.
 */
size_t std_cases_here(const char *test);

/* Where the u32 stand among a signature's arguments; how many there are. */
uint32_t std_case_words(const char *signature, uint32_t at[16]);

/* ------------------------------------------------------------------ */
/* Running                                                             */

/* ARAX_SEED repeats a run that failed; without it, each is another one. */
void trial_seed(void);
uint32_t trial_random(uint32_t below);

/* Without a case: arguments and ranges are up to the caller. */
void trial_open(struct trial *t, const struct std_case *c, enum trial_size size);
/* Contents as they are now are what the check takes for those of before. */
void trial_keep(struct trial *t);
/* @access: as in struct arax_signature: what is only read is as it was. */
void trial_check(const struct trial *t, uint64_t access);
/* Nothing has been written. */
void trial_check_untouched(const struct trial *t, const char *why);
void trial_close(struct trial *t);

/* ------------------------------------------------------------------ */
/* Making                                                              */

/* 0 or 1, or up to @most: around the widths of vectors and tiles more often than by chance. */
uint32_t size_of(const struct trial *t, uint32_t most);
/* At least 1. */
uint32_t side_of(const struct trial *t, uint32_t most);
double uniform(double low, double high);

/* Ranges in the order of the signature; each ends where a page does. */
void *add_bytes(struct trial *t, uint64_t bytes);
float *add_floats(struct trial *t, uint64_t n, double low, double high);
double *add_doubles(struct trial *t, uint64_t n, double low, double high);
uint32_t *add_words(struct trial *t, uint64_t n);
float *add_equals(struct trial *t, uint64_t n, float all);
/* NaN among them, in every other trial; at times there is nothing else. */
void add_nans(const struct trial *t, float *x, uint64_t n);
/* Full of what no result is, so that a hole shows. */
void add_holes(struct trial *t, uint64_t bytes);

#define set_args(t, a)							\
	do {								\
		_Static_assert(sizeof(*(a)) <= TRIAL_MAX_ARGS, "fits");	\
		memcpy((t)->args, (a), sizeof(*(a)));			\
		(t)->arg_len = sizeof(*(a));				\
	} while (0)

/* ------------------------------------------------------------------ */
/* Checking                                                            */

#define RANGE(t, i, type)	((const type *)(t)->r[i].data)
#define WAS(t, i, type)		((const type *)(t)->was[i])
#define ARGS_OF(t, type)	((const type *)(t)->args)

/* Item @i of range @range of f32. */
static inline double f32_at(const struct trial *t, uint32_t range, uint64_t i)
{
	return (double)RANGE(t, range, float)[i];
}

/*
 * Of a launch of arax-blas as it was made: terms that don't count, as they are NaN and @alpha is 0,
 * or as there are none, and then @alpha may be NaN.  False: it has none that could.
 */
bool blas_without_terms(struct trial *t, double alpha);

void near(const struct trial *t, uint64_t i, double got, double wanted, double tolerance);
void same(const struct trial *t, uint64_t i, double got, double wanted);

#endif /* ARAX_SELFTESTS_UNIT_STD_CASE_H */
