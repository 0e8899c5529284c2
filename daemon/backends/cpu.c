// SPDX-License-Identifier: MIT
/*
 * The CPU backend: each device is a group of cores that works on host pages, with a lane for
 * each core.
 *
 * Key `group` (a CPU list) adds a device; without any, each NUMA node is one,
 * and on a machine of one or two CPUs each CPU, so that two tenants have two
 * devices.
 *
 * Key `memory` (bytes) gives each device memory of its own, as a card has, and two
 * lanes: kernels then work on copies.  That is for trying out what happens to data
 * on such devices where there is none.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/cpulist.h"
#include "daemon/backends/gang.h"
#include "daemon/backends/loader.h"
#include "daemon/reason.h"
#include "uapi/arax.h"

#define MAX_GROUPS 256
#define MAX_LANES 64u		/* that araxd has for a device */

struct cpu_device {
	uint32_t index;
	cpu_set_t cpus;
	struct gang *gang;
	uint64_t used;		/* of its own memory */
};

struct cpu_kernel {
	arax_kernel_fn *fn;
	void *library;
	uint32_t flags;
};

/* Written by config and probe, which one thread calls before all others. */
static cpu_set_t groups[MAX_GROUPS];
static uint32_t nr_configured;
static uint32_t nr_groups;
static uint64_t own_memory;

static int cpu_load(void)
{
	own_memory = 0;
	nr_configured = 0;
	nr_groups = 0;
	return 0;
}

static int cpu_config(const char *key, const char *value)
{
	int err;

	if (!strcmp(key, "memory")) {
		char *end;

		own_memory = strtoull(value, &end, 10);
		return *end || end == value ? -EINVAL : 0;
	}
	if (strcmp(key, "group"))
		return -ENOENT;
	if (nr_configured == MAX_GROUPS)
		return -ENOSPC;
	err = cpulist_parse(value, &groups[nr_configured]);
	if (!err)
		nr_configured++;
	return err ? -EINVAL : 0;
}

static void add_each_cpu(const cpu_set_t *allowed)
{
	for (int cpu = 0; cpu < CPU_SETSIZE && nr_groups < MAX_GROUPS; cpu++) {
		if (!CPU_ISSET(cpu, allowed))
			continue;
		CPU_ZERO(&groups[nr_groups]);
		CPU_SET(cpu, &groups[nr_groups]);
		nr_groups++;
	}
}

/* "nodeN" directories; anything else there is skipped. */
static int is_node(const struct dirent *d)
{
	unsigned int n;
	char end;

	return sscanf(d->d_name, "node%u%c", &n, &end) == 1;
}

static void add_nodes(const cpu_set_t *allowed)
{
	static const char root[] = "/sys/devices/system/node";
	struct dirent **names;
	int n = scandir(root, &names, is_node, versionsort);

	for (int i = 0; i < n; i++) {
		char path[512], list[4096];
		cpu_set_t node;
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s/cpulist", root, names[i]->d_name);
		free(names[i]);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(list, sizeof(list), f) && nr_groups < MAX_GROUPS) {
			list[strcspn(list, "\n")] = '\0';
			if (!cpulist_parse(list, &node)) {
				CPU_AND(&groups[nr_groups], &node, allowed);
				if (CPU_COUNT(&groups[nr_groups]))
					nr_groups++;
			}
		}
		fclose(f);
	}
	if (n >= 0)
		free(names);
	if (!nr_groups)		/* no NUMA in this kernel */
		groups[nr_groups++] = *allowed;
}

static int cpu_probe(char *why, uint32_t len)
{
	cpu_set_t allowed, usable;

	if (sched_getaffinity(0, sizeof(allowed), &allowed)) {
		snprintf(why, len, "sched_getaffinity: %m");
		return -errno;
	}
	nr_groups = 0;
	if (nr_configured) {
		for (uint32_t i = 0; i < nr_configured; i++) {
			CPU_AND(&usable, &groups[i], &allowed);
			if (!CPU_EQUAL(&usable, &groups[i])) {
				char list[64];

				cpulist_format(&allowed, list, sizeof(list));
				snprintf(why, len,
					 "cpu.groups item %u names a CPU that araxd may not use (allowed: %s)",
					 i + 1, list);
				return -EINVAL;
			}
		}
		nr_groups = nr_configured;
	} else if (CPU_COUNT(&allowed) <= 2) {
		add_each_cpu(&allowed);
	} else {
		add_nodes(&allowed);
	}
	return (int)nr_groups;
}

static int cpu_open(uint32_t index, void **dev)
{
	struct cpu_device *d;
	int err;

	if (index >= nr_groups)
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->index = index;
	d->cpus = groups[index];
	err = gang_create(&d->cpus, &d->gang);
	if (err) {
		free(d);
		return err;
	}
	*dev = d;
	return 0;
}

static void cpu_close(void *dev)
{
	struct cpu_device *d = dev;

	gang_destroy(d->gang);
	free(d);
}

/* Cores of one kind are equally fast; 0: the machine doesn't say how fast. */
static unsigned long max_khz(const cpu_set_t *cpus)
{
	unsigned long khz = 0;
	char path[80];
	int cpu = 0;
	FILE *f;

	while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, cpus))
		cpu++;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%lu", &khz) != 1)
		khz = 0;
	fclose(f);
	return khz;
}

static int cpu_info(void *dev, struct arax_backend_info *info)
{
	struct cpu_device *d = dev;

	info->kind = ARAX_DEVICE_CPU;
	info->units = (uint32_t)CPU_COUNT(&d->cpus);
	/* So that a kernel that is not split keeps no more than a core from others. */
	info->lanes = own_memory ? 2 : info->units < MAX_LANES ? info->units : MAX_LANES;
	info->memory = own_memory;
	snprintf(info->name, sizeof(info->name), "cpu%u", d->index);
	snprintf(info->make, sizeof(info->make), "%u cores of %lu kHz", info->units,
		 max_khz(&d->cpus));
	cpulist_format(&d->cpus, info->cpus, sizeof(info->cpus));
	return 0;
}

/* What the loader calls by @path has a name for people. */
static void say_why(const struct arax_backend_kernel *desc, const char *path)
{
	const char *text = dlerror() ?: "it can't be loaded";
	size_t n = strlen(path);

	if (!strncmp(text, path, n) && !strncmp(text + n, ": ", 2))
		reason_set("%s: %s", desc->file, loader_hides(path, desc->fd) ?: text + n + 2);
	else
		reason_set("%s: %s", desc->file, text);
}

static int cpu_kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	struct cpu_kernel *k = calloc(1, sizeof(*k));
	char path[32];
	int err = -ENOEXEC;

	if (!k)
		return -ENOMEM;
	/*
	 * Through the descriptor, so that what runs is what was checked.  The
	 * caller keeps the descriptor open, so this name stays this file's:
	 * dlopen() takes a library that it has under the same name for it.
	 */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", desc->fd);
	k->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!k->library) {
		say_why(desc, path);
		goto fail;
	}
	k->fn = (arax_kernel_fn *)dlsym(k->library, desc->symbol);
	err = -ENOENT;
	if (!k->fn) {
		reason_set("%s has no function %s, or does not show it to others", desc->file,
			   desc->symbol);
		goto fail;
	}
	k->flags = desc->flags;
	*kernel = k;
	return 0;
fail:
	if (k->library)
		dlclose(k->library);
	free(k);
	return err;
}

static void cpu_kernel_unload(void *dev, void *kernel)
{
	struct cpu_kernel *k = kernel;

	dlclose(k->library);
	free(k);
}

static bool has_parts(const struct cpu_kernel *k, const struct arax_backend_run *run)
{
	return k->flags & ARAX_KERNEL_SPLIT &&
	       run->size >= offsetof(struct arax_backend_run, part_ns) + sizeof(run->part_ns) &&
	       run->between;
}

static int cpu_run(void *dev, struct arax_backend_run *run)
{
	const struct cpu_kernel *k = run->kernel;
	struct cpu_device *d = dev;
	int err;

	if (run->flags & ARAX_RUN_INLINE)
		err = k->fn(run->launch);
	else if (has_parts(k, run))
		err = gang_run_in_parts(d->gang, k->fn, run->launch, &(struct gang_parts){
					.part_ns = run->part_ns, .between = run->between,
					.arg = run->between_arg,
				});
	else
		err = gang_run(d->gang, k->fn, run->launch, k->flags & ARAX_KERNEL_SPLIT);
	/* A kernel does not say that its device is lost: this would be taken for it. */
	return err == -ENODEV ? -EIO : err;
}

/* ------------------------------------------------------------------ */
/* Memory of its own                                                   */

/* In front of what was allocated. */
struct cpu_block {
	uint64_t bytes;
	uint8_t pad[56];
};

static int cpu_alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct cpu_device *d = dev;
	struct cpu_block *b;
	uint64_t used;

	if (wanted)
		return -EOPNOTSUPP;
	used = __atomic_add_fetch(&d->used, bytes, __ATOMIC_RELAXED);
	if (used < bytes || used > own_memory)
		goto full;
	b = mmap(NULL, bytes + sizeof(*b), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (b == MAP_FAILED)
		goto full;
	b->bytes = bytes;
	*address = (uintptr_t)(b + 1);
	return 0;
full:
	__atomic_sub_fetch(&d->used, bytes, __ATOMIC_RELAXED);
	return -ENOMEM;
}

static void cpu_free(void *dev, uint64_t address)
{
	struct cpu_block *b = (struct cpu_block *)(uintptr_t)address - 1;
	struct cpu_device *d = dev;

	__atomic_sub_fetch(&d->used, b->bytes, __ATOMIC_RELAXED);
	munmap(b, b->bytes + sizeof(*b));
}

static int cpu_copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int cpu_copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static int cpu_copy_peer(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes)
{
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	return 0;
}

const struct arax_backend cpu_backend = {
	.struct_size = sizeof(cpu_backend),
	.api_version = ARAX_BACKEND_API,
	.name = "cpu",
	.longname = "groups of processor cores",
	.version = ARAX_VERSION,
	.load = cpu_load,
	.config = cpu_config,
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.info = cpu_info,
	.kernel_load = cpu_kernel_load,
	.kernel_unload = cpu_kernel_unload,
	.run = cpu_run,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.copy_in = cpu_copy_in,
	.copy_out = cpu_copy_out,
	.copy_peer = cpu_copy_peer,
};
