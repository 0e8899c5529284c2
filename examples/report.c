// SPDX-License-Identifier: MIT
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES	64

static struct {
	uint64_t tasks;
	uint64_t device_ns;
	uint64_t wait_ns;
} use[DEVICES];

void report_add(const struct arax_event *event)
{
	if (event->device >= DEVICES)
		return;
	use[event->device].tasks++;
	use[event->device].device_ns += event->device_ns;
	use[event->device].wait_ns += event->wait_ns;
}

static int failed(const char *path, const char *program)
{
	int err = errno;

	fprintf(stderr, "%s: %s: %s\n", program, path, strerror(err));
	return -err;
}

int report_write(const char *path, const char *program)
{
	FILE *f;
	int i;

	if (!path)
		return 0;
	f = fopen(path, "we");
	if (!f)
		return failed(path, program);
	for (i = 0; i < DEVICES; i++)
		if (use[i].tasks)
			fprintf(f, "%s %u %d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", program,
				getuid(), i, use[i].tasks, use[i].device_ns, use[i].wait_ns);
	return fclose(f) ? failed(path, program) : 0;
}
