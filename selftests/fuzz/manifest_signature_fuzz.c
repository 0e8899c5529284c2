// SPDX-License-Identifier: MIT
/* The text of a signature; what is taken keeps the uapi's bounds. */
#include <stdlib.h>
#include <string.h>

#include "daemon/kernels/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), error[64] = "";
	struct signature s, again;

	memcpy(text, data, size);
	text[size] = '\0';
	if (signature_parse(&s, text, error, sizeof(error))) {
		if (!error[0])
			abort();
	} else {
		if (s.abi.nr_ranges > ARAX_MAX_RANGES || s.abi.arg_len > ARAX_MAX_ARGS ||
		    s.nr_params > ARAX_SIG_MAX_ARGS || strlen(s.text) >= SIGNATURE_TEXT_MAX)
			abort();
		for (uint32_t i = 0; i < 32; i++)	/* each range has an access, no other has */
			if (((s.abi.access >> (2 * i) & 3) != 0) != (i < s.abi.nr_ranges))
				abort();
		if (signature_parse(&again, s.text, error, sizeof(error)) ||
		    memcmp(&again, &s, sizeof(s)))
			abort();
	}
	free(text);
	return 0;
}
