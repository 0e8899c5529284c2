// SPDX-License-Identifier: MIT
/*
 * The OpenCL backend: any installed driver's devices, see araxd.conf(5).
 *
 * A device that shares the host's memory works on the clients' pages, so no data
 * moves; others have memory of their own.
 */
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/opencl/cache.h"
#include "daemon/backends/opencl/opencl.h"
#include "libarax/admin/trusted.h"
#include "uapi/arax.h"

#define DEFAULT_LANES 2
#define DEFAULT_PROBE_SECONDS 60
#define MAX_PROBE_SECONDS 3600

struct opencl_options opencl_options;
static const struct arax_backend_host *araxd;
static bool quiet, caches_open;
static struct {
	int err;
	char why[512];
} trial;

void opencl_log(int level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!quiet)
		araxd->log(level, "opencl", text);
}

void opencl_explain(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	/* A worker's has none. */
	if (araxd->struct_size < sizeof(*araxd) || !araxd->explain)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	araxd->explain(text);
}

void opencl_say_nothing(void)
{
	quiet = true;
}

/* ------------------------------------------------------------------ */
/* Options                                                               */

static int load(void)
{
	opencl_options = (struct opencl_options){
		.platforms = "*", .devices = "*", .lanes = DEFAULT_LANES, .zero_copy = true,
		.probe_seconds = DEFAULT_PROBE_SECONDS,
	};
	trial.err = 0;
	trial.why[0] = '\0';
	return 0;
}

static int take_text(char *out, size_t len, const char *value)
{
	if (!value[0] || strlen(value) >= len)
		return -EINVAL;
	strcpy(out, value);
	return 0;
}

static int take_number(uint32_t *out, uint32_t max, const char *value)
{
	char *end;
	unsigned long v = strtoul(value, &end, 10);

	if (value[0] < '0' || value[0] > '9' || *end || !v || v > max) {
		opencl_explain("want a number from 1 to %u", max);
		return -EINVAL;
	}
	*out = (uint32_t)v;
	return 0;
}

/* Bytes, or with K, M, G or T. */
static int take_size(uint64_t *out, const char *value)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	unsigned long long v;
	unsigned int shift = 0;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || errno || !v)
		return -EINVAL;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (*end || v > UINT64_MAX >> shift)
		return -EINVAL;
	*out = v << shift;
	return 0;
}

static int config(const char *key, const char *value)
{
	struct opencl_options *o = &opencl_options;

	if (!strcmp(key, "platforms"))
		return take_text(o->platforms, sizeof(o->platforms), value);
	if (!strcmp(key, "devices"))
		return take_text(o->devices, sizeof(o->devices), value);
	if (!strcmp(key, "cache")) {
		if (strcmp(value, "no") && value[0] != '/')
			return -EINVAL;
		return take_text(o->cache, sizeof(o->cache), value);
	}
	if (!strcmp(key, "sub-devices"))
		return take_number(&o->sub_devices, OPENCL_MAX_DEVICES, value);
	if (!strcmp(key, "lanes"))
		return take_number(&o->lanes, OPENCL_MAX_LANES, value);
	if (!strcmp(key, "probe-seconds"))
		return take_number(&o->probe_seconds, MAX_PROBE_SECONDS, value);
	if (!strcmp(key, "memory"))
		return take_size(&o->memory, value);
	if (!strcmp(key, "zero-copy")) {
		o->zero_copy = !strcmp(value, "auto");
		return o->zero_copy || !strcmp(value, "no") ? 0 : -EINVAL;
	}
	return -ENOENT;
}

/* ------------------------------------------------------------------ */
/* Caches                                                                */

/*
 * PoCL keeps shared objects and loads them into this process, by default from
 * $XDG_CACHE_HOME, $HOME or a fixed name below /tmp: for a daemon without the
 * first two that is anybody's.  So it gets a folder inside ours, or a new one.
 */
static char pocl_folder[] = "/tmp/arax-pocl-XXXXXX";	/* if we made it */
static bool made_pocl_folder;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path) && errno != ENOENT;
}

/* What the driver has opened there it keeps, and it makes the folder anew if it goes on. */
static void remove_pocl_folder(void)
{
	if (made_pocl_folder)
		nftw(pocl_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void place_pocl_cache(const char *ours)
{
	char path[512] = "", why[256];
	int fd;

	if (getenv("POCL_CACHE_DIR"))
		return;
	if (ours) {
		snprintf(path, sizeof(path), "%s/pocl", ours);
		mkdir(path, 0700);
		fd = trusted_open_folder(path, why, sizeof(why));
		if (fd < 0) {
			opencl_log(ARAX_LOG_WARNING, "%s is not used: %s", path, why);
			path[0] = '\0';
		} else {
			close(fd);
		}
	}
	if (!path[0]) {
		if (!mkdtemp(pocl_folder))
			return;
		made_pocl_folder = true;
		strcpy(path, pocl_folder);
		opencl_log(ARAX_LOG_INFO, "PoCL's files are in %s", path);
	}
	setenv("POCL_CACHE_DIR", path, 1);
}

static void open_caches(void)
{
	const char *path = opencl_options.cache;
	char why[256];

	if (caches_open)
		return;
	caches_open = true;
	if (!strcmp(path, "no"))
		cache_close();
	else if (cache_open(path[0] ? path : NULL, why, sizeof(why)))
		opencl_log(ARAX_LOG_WARNING, "no cache of built programs: %s: %s", path[0] ? path :
			   "the default folder", why);
	place_pocl_cache(cache_path());
}

/* ------------------------------------------------------------------ */
/* Operations                                                            */

/* Before araxd has threads. */
static int config_complete(void)
{
	open_caches();	/* before a driver is loaded: it looks at the environment */
	trial.err = opencl_try(trial.why, sizeof(trial.why));
	return 0;
}

static int probe(char *why, uint32_t len)
{
	int err;

	if (trial.err) {
		snprintf(why, len, "%s", trial.why);
		return trial.err;
	}
	open_caches();
	err = opencl_api_open(why, len);
	if (!err)
		err = opencl_find(why, len);
	/* Of drivers that are left out. */
	if (err > 0)
		snprintf(why, len, "%s", trial.why);
	return err;
}

static void unload(void)
{
	opencl_forget();
	cache_close();
	caches_open = false;
	remove_pocl_folder();
	opencl_try_forget();
	/*
	 * The library stays: drivers have threads and exit handlers of their own, and
	 * some don't survive being unmapped.
	 */
}

static int open_device(uint32_t index, void **dev)
{
	return opencl_device_open(index, (struct opencl_device **)dev);
}

static void close_device(void *dev)
{
	opencl_device_close(dev);
}

static int info(void *dev, struct arax_backend_info *info)
{
	const struct opencl_device *d = dev;

	info->kind = ARAX_DEVICE_OPENCL;
	info->lanes = d->nr_lanes;
	info->units = d->units;
	info->memory = d->memory == OPENCL_OWN ? d->bytes : 0;
	info->gpu = d->is_gpu;
	snprintf(info->name, sizeof(info->name), "%s", d->name);
	snprintf(info->bus, sizeof(info->bus), "%s", d->bus);
	snprintf(info->make, sizeof(info->make), "%s", d->make);
	info->cpus[0] = '\0';
	return 0;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	return opencl_kernel_load(dev, desc, (struct opencl_kernel **)kernel);
}

static void kernel_unload(void *dev, void *kernel)
{
	opencl_kernel_unload(dev, kernel);
}

static int run(void *dev, struct arax_backend_run *run)
{
	return opencl_run(dev, run);
}

static int submit(void *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	return opencl_submit(dev, run, cookie);
}

static int wait_for(void *dev, uint32_t lane, struct arax_backend_done *done)
{
	return opencl_wait(dev, lane, done);
}

static int follows(void *dev)
{
	return ((struct opencl_device *)dev)->follows;
}

static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	return opencl_alloc(dev, bytes, wanted, address);
}

static void free_memory(void *dev, uint64_t address)
{
	opencl_free(dev, address);
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return opencl_copy_in(dev, lane, to, from, bytes);
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return opencl_copy_out(dev, lane, to, from, bytes);
}

static int copy_peer(void *dev, uint64_t to, void *src_dev, uint64_t from, uint64_t bytes)
{
	return opencl_copy_peer(dev, to, src_dev, from, bytes);
}

static const struct arax_backend backend = {
	.struct_size = sizeof(backend),
	.api_version = ARAX_BACKEND_API,
	.name = "opencl",
	.longname = "devices of OpenCL drivers",
	.version = ARAX_VERSION,
	.load = load,
	.unload = unload,
	.config = config,
	.config_complete = config_complete,
	.probe = probe,
	.open = open_device,
	.close = close_device,
	.info = info,
	.kernel_load = kernel_load,
	.kernel_unload = kernel_unload,
	.run = run,
	.alloc = alloc,
	.free = free_memory,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.copy_peer = copy_peer,
	.submit = submit,
	.wait = wait_for,
	.follows = follows,
};

const struct arax_backend *opencl_backend_init(const struct arax_backend_host *host)
{
	araxd = host;
	return &backend;
}
