// SPDX-License-Identifier: MIT
/* araxd.conf. */
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[256] = "";
	struct config c;

	if (config_parse(&c, "fuzz", (const char *)data, size, error, sizeof(error))) {
		if (strncmp(error, "fuzz:", 5))
			abort();	/* file and line, or at least the file */
		return 0;
	}
	if (c.worker.max > 1024 || c.worker.idle_s < 1 ||
	    c.link.socket_mode > 0777 || c.loop.poll_us > 1000000 || !c.limits.tasks)
		abort();
	for (size_t i = 0; i < c.kernels.path.count; i++)
		if (c.kernels.path.items[i][0] != '/')
			abort();
	config_free(&c);
	return 0;
}
