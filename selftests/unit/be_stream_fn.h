/* SPDX-License-Identifier: MIT */
/* be_stream_fn.h - what the tests of functions that put work onto streams share: stream_fn.c, loaded */
#ifndef ARAX_SELFTESTS_UNIT_BE_STREAM_FN_H
#define ARAX_SELFTESTS_UNIT_BE_STREAM_FN_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>

#include "daemon/backend.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/stream_fn.h"

/* Its descriptor stays open until the end, as it has to. */
static inline struct arax_backend_kernel fn_desc(const char *file, const char *symbol)
{
	struct arax_backend_kernel d = {
		.size = sizeof(d), .flags = ARAX_KERNEL_STREAM, .symbol = symbol, .file = file,
		.signature = FN_SIGNATURE, .fd = open(file, O_RDONLY | O_CLOEXEC),
	};

	ck_assert_int_ge(d.fd, 0);
	return d;
}

/* How many streams it keeps something for; 0: it is not loaded, either. */
static inline int fn_states(void)
{
	void *library = dlopen(FN_FILE, RTLD_NOW | RTLD_NOLOAD);
	int (*states)(void) = library ? (__typeof__(states))dlsym(library, "fn_states") : NULL;
	int n = states ? states() : 0;

	if (library)
		dlclose(library);
	return n;
}

static inline bool fn_is_loaded(void)
{
	void *library = dlopen(FN_FILE, RTLD_NOW | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library;
}

/* What they all refuse, by @load. */
static inline void fn_assert_refused(int (*load)(const struct arax_backend_kernel *desc), int err,
				     const char *file, const char *symbol)
{
	struct arax_backend_kernel desc = fn_desc(file, symbol);

	ck_assert_int_eq(load(&desc), err);
	ck_assert(!fn_is_loaded());
	close(desc.fd);
}

#endif /* ARAX_SELFTESTS_UNIT_BE_STREAM_FN_H */
