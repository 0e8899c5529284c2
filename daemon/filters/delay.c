// SPDX-License-Identifier: MIT
/*
 * The delay filter: launches and copies take longer.
 *
 *   run-ms=X		before each launch
 *   copy-ms=X		before each copy in or out
 *   jitter-ms=X	plus a random time between 0 and X
 *   kernel=GLOB	only launches of kernels with such a name
 *   seed=N		of the random times
 *
 * The time passes asleep, on the thread that runs the launch.
 */
#include <fnmatch.h>
#include <string.h>
#include <time.h>

#include "daemon/backends/builtin.h"
#include "daemon/filters/common.h"

#define MAX_MS 3600000.0

struct delay {
	double run_ms, copy_ms, jitter_ms;
	char *kernel;
	_Atomic uint64_t random;
};

static int delay_create(void **instance)
{
	*instance = calloc(1, sizeof(struct delay));
	return *instance ? 0 : -ENOMEM;
}

static void delay_destroy(void *instance)
{
	struct delay *d = instance;

	free(d->kernel);
	free(d);
}

static int delay_config(void *instance, const char *key, const char *value)
{
	struct delay *d = instance;
	double seed;
	int err;

	if (!strcmp(key, "run-ms"))
		return filter_number(value, 0, MAX_MS, &d->run_ms);
	if (!strcmp(key, "copy-ms"))
		return filter_number(value, 0, MAX_MS, &d->copy_ms);
	if (!strcmp(key, "jitter-ms"))
		return filter_number(value, 0, MAX_MS, &d->jitter_ms);
	if (!strcmp(key, "kernel")) {
		free(d->kernel);
		d->kernel = strdup(value);
		return d->kernel ? 0 : -ENOMEM;
	}
	if (!strcmp(key, "seed")) {
		err = filter_number(value, 0, 0x1p53, &seed);
		if (!err)
			d->random = (uint64_t)seed;
		return err;
	}
	return -ENOENT;
}

static int delay_open(void *instance, const struct arax_backend_info *info, void **dev)
{
	*dev = instance;
	return 0;
}

static void delay_sleep(struct delay *d, double ms)
{
	uint64_t ns = (uint64_t)(1e6 * (ms + d->jitter_ms * filter_random(&d->random)));
	struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (ns && clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

static int delay_run(void *dev, const struct arax_next *next, struct arax_backend_run *run)
{
	struct delay *d = dev;

	if (!d->kernel || !fnmatch(d->kernel, run->name, 0))
		delay_sleep(d, d->run_ms);
	return next->run(next, run);
}

static int delay_copy_in(void *dev, const struct arax_next *next, uint32_t lane, uint64_t to,
			 const void *from, uint64_t bytes)
{
	struct delay *d = dev;

	delay_sleep(d, d->copy_ms);
	return next->copy_in(next, lane, to, from, bytes);
}

static int delay_copy_out(void *dev, const struct arax_next *next, uint32_t lane, void *to,
			  uint64_t from, uint64_t bytes)
{
	struct delay *d = dev;

	delay_sleep(d, d->copy_ms);
	return next->copy_out(next, lane, to, from, bytes);
}

const struct arax_filter delay_filter = {
	.struct_size = sizeof(delay_filter),
	.api_version = ARAX_BACKEND_API,
	.name = "delay",
	.longname = "make launches and copies slower",
	.create = delay_create,
	.destroy = delay_destroy,
	.config = delay_config,
	.open = delay_open,
	.run = delay_run,
	.copy_in = delay_copy_in,
	.copy_out = delay_copy_out,
};
