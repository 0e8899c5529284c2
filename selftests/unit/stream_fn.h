/* SPDX-License-Identifier: MIT */
/* stream_fn.h - arguments of stream_fn.c's function, and how it ends */
#ifndef ARAX_SELFTESTS_UNIT_STREAM_FN_H
#define ARAX_SELFTESTS_UNIT_STREAM_FN_H

#include <stdint.h>

#define FN_MAX		1024
#define FN_SIGNATURE	"fill(out i32 x[], i32 value, i32 mode, u32 n)"
#define FN_FILE		"build/test/stream_fn.so"

/* OTHER before it does anything, the others after all of it. */
enum { FN_WORKS, FN_FAILS, FN_LOST, FN_AGAIN, FN_POSITIVE, FN_OTHER };

struct fn_args {
	int32_t value, mode;
	uint32_t n;
};

#endif /* ARAX_SELFTESTS_UNIT_STREAM_FN_H */
