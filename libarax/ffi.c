// SPDX-License-Identifier: MIT
/*
 * The header's inline calls as symbols, so that a language that can't compile C
 * can bind them.
 */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define ARAX_INLINE	__attribute__((visibility("default")))
#include <arax/arax.h>
