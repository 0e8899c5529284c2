// SPDX-License-Identifier: MIT
/* See README: the structs stand here as they were in the first version. */
#include <stdint.h>
#include <stddef.h>

struct old_info {
	uint32_t size, kind, lanes, units;
	uint64_t memory;
	char name[64];
	char cpus[128];
};

struct old_kernel {
	uint32_t size, flags;
	int32_t fd;
	uint32_t pad;
	const char *file, *symbol, *signature;
};

struct old_run {
	uint32_t size, flags, lane, pad;
	void *kernel;
	const void *launch;
	const char *name;
	uint64_t deadline_ns;
};

struct old_backend {
	uint32_t struct_size, api_version;
	const char *name;
	int (*probe)(char *why, uint32_t len);
	int (*open)(uint32_t index, void **dev);
	void (*close)(void *dev);
	int (*info)(void *dev, struct old_info *info);
	int (*kernel_load)(void *dev, const struct old_kernel *k, void **kernel);
	void (*kernel_unload)(void *dev, void *kernel);
	int (*run)(void *dev, struct old_run *run);
};

struct old_next {
	uint32_t struct_size, pad;
	int (*run)(const struct old_next *next, struct old_run *run);
};

struct old_filter {
	uint32_t struct_size, api_version;
	const char *name;
	int (*create)(void **instance);
	void (*destroy)(void *instance);
};

static int runs;

static int probe(char *why, uint32_t len)
{
	return 2;
}

static int open_device(uint32_t index, void **dev)
{
	*dev = &runs + 0 * index;
	return 0;
}

static void close_device(void *dev)
{
}

static int info(void *dev, struct old_info *i)
{
	static const char name[] = "first0";

	i->kind = 5;		/* simulated */
	i->lanes = 3;
	i->units = 4;
	i->memory = 0;
	for (size_t c = 0; c < sizeof(name); c++)
		i->name[c] = name[c];
	return 0;
}

static int kernel_load(void *dev, const struct old_kernel *k, void **kernel)
{
	*kernel = &runs;
	return 0;
}

static void kernel_unload(void *dev, void *kernel)
{
}

/* Returns minus the number of runs: proof that this very function ran. */
static int run(void *dev, struct old_run *r)
{
	return r->lane == 2 && r->kernel == &runs ? -++runs : -1000;
}

static const struct old_backend backend = {
	sizeof(backend), 1, "first", probe, open_device, close_device, info, kernel_load,
	kernel_unload, run,
};

const struct old_backend *arax_backend_init(const void *host);
const struct old_backend *arax_backend_init(const void *host)
{
	return &backend;
}

static int create(void **instance)
{
	*instance = &runs;
	return 0;
}

static void destroy(void *instance)
{
}

static const struct old_filter filter = { sizeof(filter), 1, "first", create, destroy };

const struct old_filter *arax_filter_init(const void *host);
const struct old_filter *arax_filter_init(const void *host)
{
	return &filter;
}
