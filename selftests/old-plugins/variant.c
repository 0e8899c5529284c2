// SPDX-License-Identifier: MIT
/* A backend with one thing about it; VARIANT says which.  See be_backend.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend.h"

#define GOOD		0
#define OTHER_VERSION	1
#define TOO_SHORT	2
#define NO_RUN		3
#define OTHER_NAME	4
#define NO_STRUCT	5
#define NEWER		6	/* longer than today's; the loader cuts it */
#define ABSENT		7	/* no such hardware here */
#define MEMORY		8	/* has memory of its own, and a key */

static int probe(char *why, uint32_t len)
{
	if (VARIANT == ABSENT) {
		snprintf(why, len, "libvariant.so.1 is not installed");
		return -ENOENT;
	}
	return 1;
}

static int open_device(uint32_t index, void **dev)
{
	*dev = calloc(1, 4096);
	return *dev ? 0 : -ENOMEM;
}

static int info(void *dev, struct arax_backend_info *i)
{
	i->lanes = 1;
	i->units = 1;
	i->kind = 5;
	i->memory = VARIANT == MEMORY ? 4096 : 0;
	strcpy(i->name, "variant0");
	return 0;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *k, void **kernel)
{
	*kernel = dev;
	return 0;
}

static void kernel_unload(void *dev, void *kernel)
{
}

static int run(void *dev, struct arax_backend_run *r)
{
	return 0;
}

static int config(const char *key, const char *value)
{
	if (strcmp(key, "answer"))
		return -ENOENT;
	return strcmp(value, "42") ? -EINVAL : 0;
}

/* Addresses are offsets: a numbering of its own. */
static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	*address = wanted;
	return bytes <= 4096 ? 0 : -ENOMEM;
}

static void free_memory(void *dev, uint64_t address)
{
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	memcpy((char *)dev + to, from, bytes);
	return 0;
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	memcpy(to, (char *)dev + from, bytes);
	return 0;
}

static const struct {
	struct arax_backend b;
	int (*from_the_future)(void);
} variant = {
	.b = {
		.struct_size = VARIANT == TOO_SHORT ? ARAX_BACKEND_SIZE_MIN - 1 :
			       VARIANT == NEWER	    ? sizeof(variant) :
						      sizeof(variant.b),
		.api_version = VARIANT == OTHER_VERSION ? ARAX_BACKEND_API + 1 : ARAX_BACKEND_API,
		.name = VARIANT == OTHER_NAME ? "somebody" : "variant",
		.probe = probe,
		.open = open_device,
		.close = free,
		.info = info,
		.kernel_load = kernel_load,
		.kernel_unload = kernel_unload,
		.run = VARIANT == NO_RUN ? NULL : run,
		.config = config,
		.alloc = VARIANT == MEMORY ? alloc : NULL,
		.free = VARIANT == MEMORY ? free_memory : NULL,
		.copy_in = VARIANT == MEMORY ? copy_in : NULL,
		.copy_out = VARIANT == MEMORY ? copy_out : NULL,
	},
};

const struct arax_backend *arax_backend_init(const struct arax_backend_host *host);
const struct arax_backend *arax_backend_init(const struct arax_backend_host *host)
{
	host->log(ARAX_LOG_DEBUG, "variant", "hello\n");
	return VARIANT == NO_STRUCT ? NULL : &variant.b;
}
