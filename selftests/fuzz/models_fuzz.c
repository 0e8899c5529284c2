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
	    again.count != s.count || again.nr_links != s.nr_links)
		abort();
	for (size_t i = 0; i < s.count; i++)
		if (again.at[i].ns != s.at[i].ns || again.at[i].runs != s.at[i].runs ||
		    again.at[i].key.abi != s.at[i].key.abi ||
		    strcmp(again.at[i].key.kernel, s.at[i].key.kernel))
			abort();
	for (size_t i = 0; i < s.nr_links; i++)
		if (again.links[i].way != s.links[i].way || again.links[i].day != s.links[i].day ||
		    !(again.links[i].latency_ns == s.links[i].latency_ns) ||
		    !(again.links[i].ns_per_byte == s.links[i].ns_per_byte) ||
		    !(s.links[i].latency_ns >= 0 && s.links[i].latency_ns <= STORE_MAX_NS) ||
		    !(s.links[i].ns_per_byte >= 0 && s.links[i].ns_per_byte <= STORE_MAX_NS) ||
		    strcmp(again.links[i].device, s.links[i].device) ||
		    strcmp(again.links[i].from, s.links[i].from))
			abort();
	free(text);
	store_free(&s);
	store_free(&again);
	return 0;
}
