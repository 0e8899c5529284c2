// SPDX-License-Identifier: MIT
/*
 * The OpenCL backend: any installed driver's devices, see araxd.conf(5).
 *
 * A device that shares the host's memory works on the clients' pages, so no data
 * moves; others have memory of their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/opencl/cache.h"
#include "daemon/backends/opencl/compiler.h"
#include "daemon/backends/opencl/opencl.h"
#include "daemon/backends/options.h"
#include "libarax/admin/trusted.h"
#include "uapi/arax.h"

#define DEFAULT_LANES 2
#define DEFAULT_PROBE_SECONDS 60
#define DEFAULT_COMPILE_SECONDS 300
#define DEFAULT_LOG_LINES 40
#define MAX_SECONDS 3600
#define POCL_ROOM (64ull << 20)	/* much more than all of Arax's kernels take there */

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

	if (!ARAX_HOST_HAS(araxd, explain) || !araxd->explain)
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
		.compile_seconds = DEFAULT_COMPILE_SECONDS, .log_lines = DEFAULT_LOG_LINES,
	};
	trial.err = 0;
	trial.why[0] = '\0';
	return 0;
}

static const char *const auto_or_no[] = { "auto", "no", NULL };
static const char *const specialize_words[] = {
	[OPENCL_SPECIALIZE_AUTO] = "auto", [OPENCL_SPECIALIZE_YES] = "yes",
	[OPENCL_SPECIALIZE_NO] = "no", NULL,
};

static int config(const char *key, const char *value)
{
	struct opencl_options *o = &opencl_options;
	int word;

	if (!strcmp(key, "platforms"))
		return option_text(araxd, o->platforms, sizeof(o->platforms), value);
	if (!strcmp(key, "devices"))
		return option_text(araxd, o->devices, sizeof(o->devices), value);
	if (!strcmp(key, "cache")) {
		if (!strcmp(value, "no"))
			return option_text(araxd, o->cache, sizeof(o->cache), value);
		return option_path(araxd, o->cache, sizeof(o->cache), value);
	}
	if (!strcmp(key, "sub-devices"))
		return option_small(araxd, &o->sub_devices, OPENCL_MAX_DEVICES, value);
	if (!strcmp(key, "lanes"))
		return option_small(araxd, &o->lanes, OPENCL_MAX_LANES, value);
	if (!strcmp(key, "probe-seconds"))
		return option_small(araxd, &o->probe_seconds, MAX_SECONDS, value);
	if (!strcmp(key, "compile-seconds"))
		return option_small(araxd, &o->compile_seconds, MAX_SECONDS, value);
	if (!strcmp(key, "memory"))
		return option_size(araxd, &o->memory, value);
	if (!strcmp(key, "zero-copy")) {
		word = option_word(araxd, auto_or_no, value);
		o->zero_copy = !word;
		return word < 0 ? word : 0;
	}
	if (!strcmp(key, "specialize")) {
		word = option_word(araxd, specialize_words, value);
		if (word >= 0)
			o->specialize = (enum opencl_specialize)word;
		return word < 0 ? word : 0;
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

/* PoCL ends its process at a launch for which a file could not be written. */
static bool has_room(int fd)
{
	struct statvfs fs;

	/* There are file systems that don't tell. */
	if (fstatvfs(fd, &fs))
		return true;
	return (!fs.f_blocks || (uint64_t)fs.f_bavail * fs.f_frsize >= POCL_ROOM) &&
	       (!fs.f_files || fs.f_favail);
}

/* There, ours, not on a file system that is read-only, nor on one that is full. */
static bool can_be_used(const char *folder)
{
	char why[256] = "";
	int fd = trusted_open_folder(folder, why, sizeof(why));

	if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS))
		snprintf(why, sizeof(why), "it can't be written: %s", strerror(errno));
	else if (fd >= 0 && !has_room(fd))
		snprintf(why, sizeof(why), "fewer than %llu MiB, or no file, are free there", POCL_ROOM >> 20);
	if (fd >= 0 && why[0]) {
		close(fd);
		fd = -1;
	}
	if (fd < 0) {
		opencl_log(ARAX_LOG_WARNING, "%s is not used: %s", folder, why);
		return false;
	}
	close(fd);
	return true;
}

static void place_pocl_cache(const char *ours)
{
	char path[512] = "";

	if (getenv("POCL_CACHE_DIR"))
		return;
	if (ours) {
		snprintf(path, sizeof(path), "%s/pocl", ours);
		mkdir(path, 0700);
		if (!can_be_used(path))
			path[0] = '\0';
	}
	if (!path[0]) {
		if (!mkdtemp(pocl_folder))
			return;
		made_pocl_folder = true;
		strcpy(path, pocl_folder);
		if (!can_be_used(path))
			opencl_log(ARAX_LOG_ERR, "PoCL has no other folder for its files: make room there, or set POCL_CACHE_DIR; it ends araxd where it can't write them");
		opencl_log(ARAX_LOG_INFO, "PoCL's files are in %s", path);
	}
	setenv("POCL_CACHE_DIR", path, 1);
}

/*
 * By default PoCL compiles and links a kernel anew, in this process, for each size of work-groups
 * that it is launched with: all that use the device wait for whoever launches new ones, as long as
 * his compiling takes, which no task is charged for.  Each is a file that is kept, and where one
 * can't be made, or the linker not be started, PoCL ends the process.
 */
static void choose_specialization(void)
{
	bool shared = ARAX_HOST_HAS(araxd, shared) && araxd->shared;

	if (opencl_options.specialize == OPENCL_SPECIALIZE_NO ||
	    (opencl_options.specialize == OPENCL_SPECIALIZE_AUTO && shared))
		setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
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
	choose_specialization();
}

/* ------------------------------------------------------------------ */
/* Operations                                                            */

/* Before araxd has threads. */
static int config_complete(void)
{
	open_caches();	/* before a driver is loaded: it looks at the environment */
	trial.err = opencl_try(trial.why, sizeof(trial.why));
	if (!trial.err && !opencl_api_is_open())
		compiler_start();
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
	compiler_stop();
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
	info->largest = d->largest;
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

static int reset(void *dev)
{
	return opencl_device_reset(dev);
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
	.reset = reset,
	.follows = follows,
};

const struct arax_backend *opencl_backend_init(const struct arax_backend_host *host)
{
	araxd = host;
	return &backend;
}
