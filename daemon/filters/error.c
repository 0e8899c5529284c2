// SPDX-License-Identifier: MIT
/*
 * The error filter: launches fail without running.
 *
 *   errno=NAME|N	EIO unless said otherwise
 *   every=N		the N-th, 2N-th, ... launch; 0: none
 *   probability=P	each with this chance, 0 to 1
 *   kernel=GLOB	only launches of kernels with such a name, and only those
 *			are counted; alone it fails every one of them
 *   seed=N		of the random choice
 */
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/builtin.h"
#include "daemon/filters/common.h"

struct error {
	int err;
	uint64_t every;
	double probability;
	bool conditional;	/* every or probability was given */
	char *kernel;
	_Atomic uint64_t seen;
	_Atomic uint64_t failed;
	_Atomic uint64_t random;
};

static int error_create(void **instance)
{
	struct error *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->err = EIO;
	*instance = e;
	return 0;
}

static void error_destroy(void *instance)
{
	struct error *e = instance;

	free(e->kernel);
	free(e);
}

static int parse_errno(const char *text, int *out)
{
	double v;

	for (int i = 1; i < 134; i++) {
		const char *name = strerrorname_np(i);

		if (name && !strcmp(name, text)) {
			*out = i;
			return 0;
		}
	}
	if (filter_number(text, 1, 4095, &v)) {
		reason_set("want a name such as EIO, or a number from 1 to 4095");
		return -EINVAL;
	}
	*out = (int)v;
	return 0;
}

static int error_config(void *instance, const char *key, const char *value)
{
	struct error *e = instance;
	double v;
	int err;

	if (!strcmp(key, "errno"))
		return parse_errno(value, &e->err);
	if (!strcmp(key, "probability")) {
		e->conditional = true;
		return filter_number(value, 0, 1, &e->probability);
	}
	if (!strcmp(key, "every") || !strcmp(key, "seed")) {
		err = filter_number(value, 0, 0x1p53, &v);
		if (err)
			return err;
		if (*key == 'e') {
			e->conditional = true;
			e->every = (uint64_t)v;
		} else {
			e->random = (uint64_t)v;
		}
		return 0;
	}
	if (!strcmp(key, "kernel")) {
		free(e->kernel);
		e->kernel = strdup(value);
		return e->kernel ? 0 : -ENOMEM;
	}
	return -ENOENT;
}

static int error_config_complete(void *instance)
{
	struct error *e = instance;

	/* A filter that fails everything is a mistake; with a name it is a wish. */
	if (e->conditional || e->kernel)
		return 0;
	reason_set("give every, probability or kernel: else every launch would fail");
	return -EINVAL;
}

static int error_open(void *instance, const struct arax_backend_info *info, void **dev)
{
	*dev = instance;
	return 0;
}

static bool hit(struct error *e)
{
	uint64_t n = atomic_fetch_add_explicit(&e->seen, 1, memory_order_relaxed) + 1;

	if (!e->conditional)
		return true;
	if (e->every && n % e->every == 0)
		return true;
	return e->probability > 0 && filter_random(&e->random) < e->probability;
}

static int error_run(void *dev, const struct arax_next *next, struct arax_backend_run *run)
{
	struct error *e = dev;

	if ((e->kernel && fnmatch(e->kernel, run->name, 0)) || !hit(e))
		return next->run(next, run);
	atomic_fetch_add_explicit(&e->failed, 1, memory_order_relaxed);
	return -e->err;
}

static int error_dump(void *instance, char *json, uint32_t len)
{
	struct error *e = instance;

	return snprintf(json, len, "{\"errno\": %d, \"seen\": %llu, \"failed\": %llu}", e->err,
			(unsigned long long)atomic_load(&e->seen),
			(unsigned long long)atomic_load(&e->failed));
}

const struct arax_filter error_filter = {
	.struct_size = sizeof(error_filter),
	.api_version = ARAX_BACKEND_API,
	.name = "error",
	.longname = "make launches fail",
	.create = error_create,
	.destroy = error_destroy,
	.config = error_config,
	.config_complete = error_config_complete,
	.open = error_open,
	.run = error_run,
	.dump = error_dump,
};
