// SPDX-License-Identifier: MIT
/* Files of learnt run times: whatever is read can be written and read again. */
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store s, again;
	char error[256], *text;

	if (store_parse(&s, "fuzz", (const char *)data, size, error, sizeof(error))) {
		if (strncmp(error, "fuzz:", 5))
			abort();
		return 0;
	}
	text = store_format(&s);
	if (!text || store_parse(&again, "fuzz", text, strlen(text), error, sizeof(error)) ||
	    again.count != s.count)
		abort();
	for (size_t i = 0; i < s.count; i++)
		if (again.at[i].ns != s.at[i].ns || again.at[i].runs != s.at[i].runs ||
		    again.at[i].key.abi != s.at[i].key.abi ||
		    strcmp(again.at[i].key.kernel, s.at[i].key.kernel))
			abort();
	free(text);
	store_free(&s);
	store_free(&again);
	return 0;
}
