// SPDX-License-Identifier: MIT
/* What a program says of the kernels that it brings: the table as it comes from its memory. */
#include <stdlib.h>
#include <string.h>

#include "daemon/kernels/module.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX	8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct arax_module_kernel table[MAX];
	struct arax_module_load a = { 0 };
	struct modules ms = { 0 };
	struct arax_module_kernel k;
	struct signature again;
	struct module *m = NULL;
	char why[256];
	int err;

	memset(table, 0, sizeof(table));
	memcpy(&a, data, size < sizeof(a) ? size : sizeof(a));
	data += size < sizeof(a) ? size : sizeof(a);
	size -= size < sizeof(a) ? size : sizeof(a);
	memcpy(table, data, size < sizeof(table) ? size : sizeof(table));
	/* As many as the caller has looked for; else most inputs are refused for that alone. */
	if (a.nr_kernels > MAX && a.nr_kernels <= ARAX_MODULE_MAX_KERNELS)
		a.nr_kernels = 1 + a.nr_kernels % MAX;
	if (a.nr_kernels & 1) {
		a.size = sizeof(a);
		a.kind = ARAX_DEVICE_CPU;
		a.flags = 0;
	}
	err = module_create(&a, data, size, table, &m, why, sizeof(why));
	if (err) {
		if (m || !memchr(why, 0, sizeof(why)) || !why[0])
			abort();	/* every refusal says why */
		return 0;
	}
	if (modules_add(&ms, 1, m))
		abort();
	for (uint32_t i = 0; i < m->nr_kernels; i++) {
		module_describe(m, i, &k);
		/* The canonical text means itself, and names are not those of others. */
		if (signature_parse(&again, k.text, why, sizeof(why)) ||
		    memcmp(&again, &m->kernels[i].sig, sizeof(again)) ||
		    modules_find(&ms, 1, k.id) != m || modules_find(&ms, 2, k.id))
			abort();
		for (uint32_t j = 0; j < i; j++)
			if (!strcmp(m->kernels[j].sig.name, k.name))
				abort();
	}
	if (modules_take(&ms, 1, m->first_id) != m)
		abort();
	module_destroy(m);
	return 0;
}
