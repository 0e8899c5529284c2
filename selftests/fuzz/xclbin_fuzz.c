// SPDX-License-Identifier: MIT
/* Fuzz what is read of .xclbin files before XRT sees them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/xrt/xclbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const struct xclbin_kernel *k)
{
	if (!k->units || k->nr_args > XCLBIN_MAX_ARGS)
		abort();
	for (uint32_t i = 0; i < k->nr_args; i++)
		if (k->args[i].space > XCLBIN_STREAM ||
		    strnlen(k->args[i].type, sizeof(k->args[i].type)) == sizeof(k->args[i].type))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const names[] = { "vadd", "k", "", "twice" };
	struct xclbin_kernel k;
	struct xclbin x;
	char why[128] = "";
	/* No room behind it, and nothing is aligned. */
	uint8_t *copy = malloc(bytes + 1);

	if (!copy)
		return 0;
	memcpy(copy + 1, data, bytes);
	if (!xclbin_parse(&x, copy + 1, bytes, why, sizeof(why))) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			why[0] = '\0';
			if (!xclbin_find(&x, names[i], &k, why, sizeof(why)))
				check(&k);
			else if (!why[0])
				abort();
		}
		for (uint32_t i = 0; i < 70; i++)
			xclbin_bank_bytes(&x, i);
	} else if (!why[0]) {
		abort();
	}
	free(copy);
	return 0;
}
