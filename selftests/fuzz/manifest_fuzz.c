// SPDX-License-Identifier: MIT
/* A kernel library's manifest, as it comes from the disk. */
#include <stdlib.h>
#include <string.h>

#include "daemon/kernels/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[128] = "";
	struct manifest m;
	int err = manifest_parse(&m, (const char *)data, size, error, sizeof(error));

	if (err) {
		if (!error[0])
			abort();	/* every refusal says why */
		return 0;
	}
	for (size_t i = 0; i < m.nr_kernels; i++) {
		const struct manifest_kernel *k = &m.kernels[i];
		struct signature again;

		/* The canonical text means itself. */
		if (signature_parse(&again, k->sig.text, error, sizeof(error)) ||
		    memcmp(&again, &k->sig, sizeof(again)))
			abort();
		if (!k->nr_impls || k->nr_impls > MANIFEST_MAX_IMPLS)
			abort();
		for (uint32_t n = 0; n < k->nr_impls; n++)
			if (strchr(k->impls[n].file, '/') || k->impls[n].file[0] == '.')
				abort();
	}
	manifest_free(&m);
	return 0;
}
