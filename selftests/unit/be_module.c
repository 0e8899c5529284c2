// SPDX-License-Identifier: MIT
/* Kernels that programs bring: what is taken of them, and who finds them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "daemon/kernels/module.h"
#include "selftests/unit/be_test.h"

#define CONTEXT		7

static struct arax_module_kernel table[ARAX_MODULE_MAX_KERNELS];
static char why[256];

static void entry(uint32_t i, const char *text, const char *symbol)
{
	memset(&table[i], 0, sizeof(table[i]));
	snprintf(table[i].text, sizeof(table[i].text), "%s", text);
	snprintf(table[i].symbol, sizeof(table[i].symbol), "%s", symbol);
}

static struct arax_module_load args(uint32_t nr)
{
	return (struct arax_module_load){
		.size = sizeof(struct arax_module_load), .kind = ARAX_DEVICE_CPU, .nr_kernels = nr,
	};
}

static struct module *make(uint32_t nr)
{
	struct arax_module_load a = args(nr);
	struct module *m = NULL;

	for (uint32_t i = 0; i < nr; i++) {
		char text[64];

		snprintf(text, sizeof(text), "k%u(inout u8 x[])", i);
		entry(i, text, "symbol");
	}
	ck_assert_int_eq(module_create(&a, "image", 5, table, &m, why, sizeof(why)), 0);
	return m;
}

/* Nothing is made, and the reason is told. */
static void refused(const struct arax_module_load *a, uint64_t bytes, int err)
{
	struct module *m = NULL;

	ck_assert_int_eq(module_create(a, "image", bytes, table, &m, why, sizeof(why)), err);
	ck_assert_ptr_null(m);
	ck_assert_uint_ne(strlen(why), 0);
}

START_TEST(keeps_what_it_is_given)
{
	struct arax_module_load a = args(2);
	char image[] = "an image", kept[sizeof(image)];
	struct module *m;

	entry(0, "scale( inout f32 x[] , f32 a)", "first");
	entry(1, "sum(in f32 x[], out f64 s[])", "second");
	table[1].flags = ARAX_MODULE_SPLIT;
	ck_assert_int_eq(module_create(&a, image, sizeof(image), table, &m, why, sizeof(why)), 0);
	/* All of it is a copy. */
	memset(image, 0, sizeof(image));
	memset(table, 0xff, sizeof(table));
	ck_assert_int_eq(pread(m->fd, kept, sizeof(kept), 0), sizeof(kept));
	ck_assert_str_eq(kept, "an image");
	ck_assert_uint_eq(m->bytes, sizeof(image));
	ck_assert_uint_eq(m->nr_kernels, 2);
	ck_assert_str_eq(m->kernels[0].sig.text, "scale(inout f32 x[], f32 a)");
	ck_assert_str_eq(m->kernels[1].impls[0].symbol, "second");
	ck_assert(!m->kernels[0].split && m->kernels[1].split);
	for (int i = 0; i < 2; i++) {
		const struct kernel *k = &m->kernels[i];

		ck_assert(k->foreign);
		ck_assert_int_eq(k->addressing, KERNEL_ADDRESSING_DATA);
		ck_assert_uint_eq(k->index, KERNEL_NO_INDEX);
		ck_assert_uint_eq(k->kinds, 1u << ARAX_DEVICE_CPU);
		/* No installed kernel has that. */
		ck_assert_uint_gt(k->serial, REGISTRY_MAX_KERNELS);
	}
	ck_assert_uint_ne(m->kernels[0].serial, m->kernels[1].serial);
	module_destroy(m);
}
END_TEST

/* What is built of it for some devices goes with it. */
START_TEST(has_what_is_built)
{
	struct arax_module_load a = args(1);
	char image[] = "text", why[256];
	struct module *m;
	int fds[3];

	a.kind = ARAX_DEVICE_OPENCL;
	entry(0, "k(inout u8 x[])", "k");
	ck_assert_int_eq(module_create(&a, image, sizeof(image), table, &m, why, sizeof(why)), 0);
	ck_assert_uint_eq(m->kind, ARAX_DEVICE_OPENCL);
	ck_assert_uint_eq(m->kernels[0].kinds, 1u << ARAX_DEVICE_OPENCL);
	ck_assert_int_eq(module_built(m, 0), -1);
	for (uint32_t i = 0; i < 3; i++) {
		fds[i] = memfd_create("built", MFD_CLOEXEC);
		ck_assert_int_eq(module_add_built(m, 2 * i, fds[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(module_built(m, 2 * i), fds[i]);
		ck_assert_int_eq(module_built(m, 2 * i + 1), -1);
	}
	module_destroy(m);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(fcntl(fds[i], F_GETFD), -1);
}
END_TEST

/* Whoever has the descriptor can't change a byte of it, or its size. */
START_TEST(image_is_sealed)
{
	struct module *m = make(1);

	ck_assert_int_eq(pwrite(m->fd, "x", 1, 0), -1);
	ck_assert_int_eq(ftruncate(m->fd, 1), -1);
	ck_assert_int_eq(ftruncate(m->fd, 100), -1);
	ck_assert_int_eq(fcntl(m->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	module_destroy(m);
}
END_TEST

START_TEST(refuses_other_arguments)
{
	struct arax_module_load a = args(1);

	entry(0, "k(inout u8 x[])", "k");
	a.size--;
	refused(&a, 5, -EINVAL);
	a.size += 2;
	refused(&a, 5, -E2BIG);
	a = args(1);
	a.flags = 1;
	refused(&a, 5, -EINVAL);
	a = args(0);
	refused(&a, 5, -EINVAL);
	a = args(ARAX_MODULE_MAX_KERNELS + 1);
	refused(&a, 5, -E2BIG);
	a = args(1);
	for (a.kind = ARAX_DEVICE_OPENCL + 1; a.kind < 9; a.kind++)
		refused(&a, 5, -EOPNOTSUPP);
	a = args(1);
	refused(&a, 0, -EINVAL);
	refused(&a, ARAX_MODULE_MAX_BYTES + 1ull, -E2BIG);
}
END_TEST

START_TEST(refuses_other_kernels)
{
	struct arax_module_load a = args(2);

	entry(0, "k(inout u8 x[])", "k");
	entry(1, "k(inout u8 x[])", "other");
	refused(&a, 5, -EINVAL);	/* twice */
	entry(1, "other(inout u8 x[)", "other");
	refused(&a, 5, -EINVAL);
	entry(1, "other(inout u8 x[])", "");
	refused(&a, 5, -EINVAL);
	entry(1, "", "other");
	refused(&a, 5, -EINVAL);
	entry(1, "other(inout u8 x[])", "oth\ner");
	refused(&a, 5, -EINVAL);
	entry(1, "other(inout u8 x[])", "other");
	table[1].flags = 2;
	refused(&a, 5, -EINVAL);
	/* Without an end. */
	entry(1, "other(inout u8 x[])", "other");
	memset(table[1].symbol, 'x', sizeof(table[1].symbol));
	refused(&a, 5, -EINVAL);
	entry(1, "other(inout u8 x[])", "other");
	memset(table[1].text, 'x', sizeof(table[1].text));
	refused(&a, 5, -EINVAL);
}
END_TEST

START_TEST(found_by_its_context_alone)
{
	struct modules ms = { 0 };
	struct module *m = make(3), *other = make(1);
	struct arax_module_kernel k;

	ck_assert_int_eq(modules_add(&ms, CONTEXT, m), 0);
	/* Of the same bucket. */
	ck_assert_int_eq(modules_add(&ms, CONTEXT + MODULE_BUCKETS, other), 0);
	for (uint32_t i = 0; i < 3; i++) {
		module_describe(m, i, &k);
		ck_assert(k.id & ARAX_KERNEL_OWN);
		ck_assert_ptr_eq(modules_find(&ms, CONTEXT, k.id), m);
		ck_assert_ptr_eq(module_kernel(m, k.id), &m->kernels[i]);
		ck_assert_ptr_null(modules_find(&ms, CONTEXT + 1, k.id));
		ck_assert_ptr_null(modules_find(&ms, CONTEXT + MODULE_BUCKETS, k.id));
	}
	ck_assert_str_eq(k.name, "k2");
	ck_assert_uint_eq(k.sig.nr_ranges, 1);
	ck_assert_ptr_null(modules_find(&ms, CONTEXT, k.id + 1));
	ck_assert_ptr_null(modules_find(&ms, CONTEXT, m->first_id - 1));
	ck_assert_ptr_null(modules_take(&ms, CONTEXT, k.id + 1));
	ck_assert_ptr_eq(modules_take(&ms, CONTEXT, k.id), m);
	ck_assert_ptr_null(modules_find(&ms, CONTEXT, k.id));
	ck_assert_ptr_null(modules_any(&ms, CONTEXT));
	ck_assert_ptr_eq(modules_first(&ms), other);
	ck_assert_ptr_eq(modules_any(&ms, CONTEXT + MODULE_BUCKETS), other);
	ck_assert_ptr_eq(modules_take(&ms, CONTEXT + MODULE_BUCKETS, other->first_id), other);
	ck_assert_ptr_null(modules_first(&ms));
	module_destroy(m);
	module_destroy(other);
}
END_TEST

START_TEST(so_many_each)
{
	struct modules ms = { 0 };
	struct module *last = make(1), *m;
	uint32_t i;

	for (i = 0; i < ARAX_MAX_MODULES; i++)
		ck_assert_int_eq(modules_add(&ms, CONTEXT, make(1)), 0);
	ck_assert_int_eq(modules_add(&ms, CONTEXT, last), -ENOSPC);
	ck_assert_int_eq(modules_add(&ms, CONTEXT + MODULE_BUCKETS, last), 0);
	for (i = 0; (m = modules_first(&ms)); i++) {
		ck_assert_ptr_eq(modules_take(&ms, m->context, m->first_id), m);
		module_destroy(m);
	}
	ck_assert_uint_eq(i, ARAX_MAX_MODULES + 1);
}
END_TEST

/* What was unloaded is not another one's number at once, and what lives never is. */
START_TEST(numbers_come_round)
{
	struct modules ms = { .last_id = ~ARAX_KERNEL_OWN - 300 };
	struct module *old = make(200), *m;
	uint32_t first, id, i;

	ck_assert_int_eq(modules_add(&ms, CONTEXT, old), 0);
	first = old->first_id;
	ms.last_id = first - ARAX_KERNEL_OWN - 1;
	for (i = 0; i < 50; i++) {
		m = make(256);
		ck_assert_int_eq(modules_add(&ms, CONTEXT, m), 0);
		ck_assert(m->first_id & ARAX_KERNEL_OWN);
		id = m->first_id + 255;
		ck_assert(id & ARAX_KERNEL_OWN);
		ck_assert(id < first || m->first_id >= first + 200);
		ck_assert_ptr_eq(modules_find(&ms, CONTEXT, first + 199), old);
		ck_assert_ptr_eq(modules_find(&ms, CONTEXT, id), m);
	}
	while ((m = modules_first(&ms)))
		module_destroy(modules_take(&ms, m->context, m->first_id));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("module");
	TCase *t = tcase_create("module");

	tcase_add_test(t, keeps_what_it_is_given);
	tcase_add_test(t, image_is_sealed);
	tcase_add_test(t, has_what_is_built);
	tcase_add_test(t, refuses_other_arguments);
	tcase_add_test(t, refuses_other_kernels);
	tcase_add_test(t, found_by_its_context_alone);
	tcase_add_test(t, so_many_each);
	tcase_add_test(t, numbers_come_round);
	suite_add_tcase(s, t);
	return be_main(s);
}
