/* SPDX-License-Identifier: MIT */
/* be_std.h - calling the kernels of arax-std */
#ifndef ARAX_SELFTESTS_UNIT_BE_STD_H
#define ARAX_SELFTESTS_UNIT_BE_STD_H

#include <dlfcn.h>
#include <sys/mman.h>

#include "arax/kernel.h"
#include "selftests/unit/be_test.h"

static void *library;

static inline int std_open(void)
{
	library = dlopen("build/lib/arax/kernels/arax-std.so", RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	return library ? 0 : -1;
}

/* A range that ends where a page does: one byte too far is a fault, not a pass. */
static inline struct arax_launch_range fenced(uint64_t bytes)
{
	uint64_t map = (bytes + 4095) & ~4095ull;
	char *p = mmap(NULL, map + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + map, 4096, PROT_NONE), 0);
	return (struct arax_launch_range){ p + map - bytes, bytes, 0, 1 };
}

static inline void unfence(const struct arax_launch_range *r)
{
	uint64_t map = (r->length + 4095) & ~4095ull;

	munmap((char *)r->data + r->length - map, map + 4096);
}

/* Run in `spans` calls, as a device that splits would. */
static inline int call(const char *name, const struct arax_launch_range *r, uint32_t n,
		       const void *args, uint32_t arg_len, uint32_t spans)
{
	arax_kernel_fn *fn;
	char symbol[64];

	snprintf(symbol, sizeof(symbol), "arax_std_%s", name);
	fn = (arax_kernel_fn *)dlsym(library, symbol);
	ck_assert_msg(fn != NULL, "%s", symbol);
	for (uint32_t s = 0; s < spans; s++) {
		struct arax_launch l = {
			.size = sizeof(l), .nr_ranges = n, .grid = { spans, 1, 1 },
			.block = { 1, 1, 1 }, .group_begin = s, .group_end = s + 1, .ranges = r,
			.args = args, .arg_len = arg_len,
		};
		int err = fn(&l);

		if (err)
			return err;
	}
	return 0;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_STD_H */
