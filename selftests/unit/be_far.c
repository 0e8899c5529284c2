// SPDX-License-Identifier: MIT
/*
 * The kernels that come with Arax, on the CPU, where 32 bits do not count their items (far.h).
 *
 *	be_far [all | KERNEL...]
 *
 * all: each; without arguments some, as each takes seconds.
 */
#include <dlfcn.h>

#include "daemon/kernels/registry.h"
#include "daemon/log.h"
#include "selftests/unit/far_map.h"
#include "uapi/arax.h"

#define FOLDER	"build/lib/arax/kernels"

static struct registry *registry;

static void setup(void)
{
	log_max_level = LOG_LEVEL_WARNING;
	registry = registry_create();
	ck_assert_int_gt(registry_load_folder(registry, FOLDER), 0);
}

static void teardown(void)
{
	registry_destroy(registry);
}

static void launch_on_cpu(const char *name, const struct arax_launch_range *r, uint32_t nr,
			  const void *args, uint32_t arg_len)
{
	const struct kernel *k = registry_find(registry, name);
	const struct kernel_impl *impl = k ? kernel_impl(k, ARAX_DEVICE_CPU) : NULL;
	struct arax_launch l = {
		.size = sizeof(l),
		.nr_ranges = nr,
		.grid = { 1, 1, 1 },
		.block = { 1, 1, 1 },
		.group_end = 1,
		.ranges = r,
		.args = args,
		.arg_len = arg_len,
	};
	arax_kernel_fn *fn;
	void *library;

	ck_assert_msg(impl, "no kernel %s for the CPU", name);
	ck_assert_uint_eq(arg_len, k->sig.abi.arg_len);
	library = dlopen(impl->file, RTLD_NOW);
	ck_assert_msg(!!library, "%s", dlerror());
	fn = (arax_kernel_fn *)dlsym(library, impl->symbol);
	ck_assert_msg(!!fn, "%s has no %s", impl->file, impl->symbol);
	ck_assert_int_eq(fn(&l), 0);
	dlclose(library);
}

START_TEST(far)
{
	const char *name = far_name((size_t)_i);

	if (!strncmp(name, "ge", 2) && access(FOLDER "/arax-blas.so", F_OK))
		be_skip(name, "arax-blas has none for processors: no libopenblas-openmp-dev");
	else
		far_run((size_t)_i, launch_on_cpu);
}
END_TEST

/* What is written to one piece is in all; not in the tails, of which each row has its own. */
START_TEST(stretches)
{
	struct stretch s = stretch_of('i', 2, 3, false);
	uint32_t *all = s.range.data;

	ck_assert_uint_eq(s.range.length, 2 * 4 * s.piece);
	all[ITEMS + 5] = 1000;
	all[7 * ITEMS + 5] = 2000;
	for (uint32_t k = 0; k < 8; k++)
		ck_assert_int_eq(all[k * ITEMS + 5] == 1000, k % 4 != 3);
	ck_assert_uint_eq(((uint32_t *)stretch_tail(&s, 1))[5], 2000);
	ck_assert_uint_eq(((uint32_t *)stretch_part(&s, 0).data)[5], 1000);
	ck_assert_uint_ne(((uint32_t *)stretch_tail(&s, 0))[5], 2000);
	stretch_end(&s);
}
END_TEST

/* Of each kind one, which take a second or two. */
static const char *const quick[] = { "sum_f32", "histogram_u8", "square", "matmul_f32" };

static bool is_among(const char *name, const char *const *names, int nr)
{
	for (int i = 0; i < nr; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	Suite *suite = suite_create("far");
	TCase *t = tcase_create("all"), *s = tcase_create("stretches");
	bool all = argc > 1 && !strcmp(argv[1], "all");
	const char *const *names = argc > 1 ? (const char *const *)argv + 1 : quick;
	int nr = argc > 1 ? argc - 1 : (int)(sizeof(quick) / sizeof(quick[0]));

	tcase_set_timeout(t, 600);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_tags(t, "long");
	for (size_t i = 0; i < far_nr(); i++)
		if (all || is_among(far_name(i), names, nr))
			tcase_add_loop_test(t, far, (int)i, (int)i + 1);
	tcase_add_test(s, stretches);
	suite_add_tcase(suite, s);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
