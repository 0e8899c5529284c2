// SPDX-License-Identifier: MIT
/*
 * The backends "cuda" and "hip": one implementation, two drivers.  See araxd.conf(5).
 *
 * Devices have memory of their own; a lane is a stream.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/gpu/gpu.h"
#include "daemon/backends/options.h"

#define DEFAULT_LANES 4

/* ------------------------------------------------------------------ */
/* Options                                                               */

static const char *const auto_or_no[] = { "auto", "no", NULL };
static const char *const no_or_yes[] = { "no", "yes", NULL };

static int stack_config(struct gpu_stack *s, const char *key, const char *value)
{
	const struct arax_backend_host *araxd = s->araxd;
	struct gpu_options *o = &s->options;
	int word;

	if (!strcmp(key, "library"))
		return option_path(araxd, o->library, sizeof(o->library), value);
	if (!strcmp(key, "nvml") && s->driver->nvml)
		return option_path(araxd, o->nvml, sizeof(o->nvml), value);
	if (!strcmp(key, "devices"))
		return option_text(araxd, o->devices, sizeof(o->devices), value);
	if (!strcmp(key, "lanes"))
		return option_small(araxd, &o->lanes, GPU_MAX_LANES, value);
	if (!strcmp(key, "memory"))
		return option_size(araxd, &o->memory, value);
	if (!strcmp(key, "pools")) {
		word = option_word(araxd, auto_or_no, value);
		o->pools = !word;
		return word < 0 ? word : 0;
	}
	if (!strcmp(key, "follow")) {
		word = option_word(araxd, no_or_yes, value);
		o->follow = word == 1;
		return word < 0 ? word : 0;
	}
	/* Not of araxd.conf: see apart/apart.h. */
	if (!strcmp(key, "careful")) {
		o->careful = !strcmp(value, "yes");
		return o->careful ? 0 : -EINVAL;
	}
	return -ENOENT;
}

static int stack_load(struct gpu_stack *s)
{
	s->options = (struct gpu_options){
		.devices = "*", .lanes = DEFAULT_LANES, .pools = true,
	};
	return 0;
}

/* ------------------------------------------------------------------ */
/* Which devices there are                                               */

static int stack_probe(struct gpu_stack *s, char *why, uint32_t len)
{
	const struct gpu_driver *v = s->driver;
	const char *library = s->options.library[0] ? s->options.library : NULL;
	struct gpu_limits limits;
	int nr = 0, err;

	s->nr_places = 0;
	err = v->open(library, why, len);
	if (err)
		return err;
	err = v->count(&nr);
	if (err || nr <= 0) {
		snprintf(why, len, "no device: %s", err ? v->error_name(err) : "the driver has none");
		return -ENODEV;
	}
	for (int i = 0; i < nr && s->nr_places < GPU_MAX_DEVICES; i++) {
		memset(&limits, 0, sizeof(limits));
		err = v->describe(i, &limits);
		if (err)
			gpu_log(s, ARAX_LOG_WARNING, "device %d is left out: %s", i,
				v->error_name(err));
		else if (!fnmatch(s->options.devices, limits.name, 0))
			s->places[s->nr_places++] = i;
	}
	if (!s->nr_places)
		snprintf(why, len, "no usable device of %d: see the option devices = %s", nr,
			 s->options.devices);
	return s->nr_places ? (int)s->nr_places : -ENODEV;
}

/* ------------------------------------------------------------------ */
/* Operations on a device                                                */

static void close_device(void *dev)
{
	gpu_device_close(dev);
}

static int info(void *dev, struct arax_backend_info *info)
{
	const struct gpu_device *d = dev;

	info->kind = d->driver->kind;
	info->lanes = d->nr_lanes;
	info->units = d->limits.units;
	info->memory = d->bytes;
	info->gpu = 1;
	snprintf(info->name, sizeof(info->name), "%s", d->name);
	snprintf(info->bus, sizeof(info->bus), "%s", d->bus);
	snprintf(info->make, sizeof(info->make), "%.40s, %u units", d->limits.name, info->units);
	info->cpus[0] = '\0';
	if (info->size >= offsetof(struct arax_backend_info, uuid) + sizeof(info->uuid))
		snprintf(info->uuid, sizeof(info->uuid), "%s", d->uuid);
	return 0;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	return gpu_kernel_load(dev, desc, (struct gpu_kernel **)kernel);
}

static void kernel_unload(void *dev, void *kernel)
{
	gpu_kernel_unload(dev, kernel);
}

static int run(void *dev, struct arax_backend_run *run)
{
	return gpu_run(dev, run);
}

static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	return gpu_alloc(dev, bytes, wanted, address);
}

static void free_memory(void *dev, uint64_t address)
{
	gpu_free(dev, address);
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return gpu_copy_in(dev, lane, to, from, bytes);
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return gpu_copy_out(dev, lane, to, from, bytes);
}

static int copy_peer(void *dev, uint64_t to, void *src_dev, uint64_t from, uint64_t bytes)
{
	return gpu_copy_peer(dev, to, src_dev, from, bytes);
}

static int host_register(void *dev, void *host, uint64_t bytes)
{
	return gpu_host_register(dev, host, bytes);
}

static void host_unregister(void *dev, void *host)
{
	gpu_host_unregister(dev, host);
}

static int submit(void *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	return gpu_submit(dev, run, cookie);
}

static int poll(void *dev, struct arax_backend_done *done, uint32_t max, uint64_t timeout_ns)
{
	return gpu_poll(dev, done, max, timeout_ns);
}

static int wait_for(void *dev, uint32_t lane, struct arax_backend_done *done)
{
	return gpu_wait(dev, lane, done);
}

/* Whether the next launch may is its kernel's to say: see gpu_submit(). */
static int follows(void *dev)
{
	return ((struct gpu_device *)dev)->stack->options.follow;
}

static int quiesce(void *dev, uint64_t deadline_ns)
{
	return gpu_quiesce(dev, deadline_ns);
}

static int reset(void *dev)
{
	return gpu_device_reset(dev);
}

static int gauges(void *dev, struct arax_backend_gauges *g, char *why, uint32_t len)
{
	const struct gpu_device *d = dev;

	if (d->gauges)
		return gpu_nvml_read(d->gauges, g, why, len);
	snprintf(why, len, "%s", d->no_gauges);
	return -EOPNOTSUPP;
}

/* ------------------------------------------------------------------ */
/* The two                                                               */

/*
 * Operations before there is a device are given nothing to know their backend by: so
 * each has its own, and shares the rest.
 */
#define GPU_BACKEND(which) \
	static struct gpu_stack which##_stack = { \
		.driver = &gpu_##which, .hosts_lock = PTHREAD_MUTEX_INITIALIZER, \
		.devices_lock = PTHREAD_RWLOCK_INITIALIZER, \
	}; \
	static int which##_load(void) { return stack_load(&which##_stack); } \
	static int which##_config(const char *key, const char *value) \
	{ return stack_config(&which##_stack, key, value); } \
	static int which##_probe(char *why, uint32_t len) \
	{ return stack_probe(&which##_stack, why, len); } \
	static int which##_open(uint32_t index, void **dev) \
	{ return gpu_device_open(&which##_stack, index, (struct gpu_device **)dev); } \
	static const struct arax_backend which##_backend = { \
		.struct_size = sizeof(which##_backend), \
		.api_version = ARAX_BACKEND_API, \
		.name = #which, \
		.longname = "devices of the driver for " #which, \
		.version = ARAX_VERSION, \
		.load = which##_load, \
		.config = which##_config, \
		.probe = which##_probe, \
		.open = which##_open, \
		.close = close_device, \
		.info = info, \
		.kernel_load = kernel_load, \
		.kernel_unload = kernel_unload, \
		.run = run, \
		.alloc = alloc, \
		.free = free_memory, \
		.copy_in = copy_in, \
		.copy_out = copy_out, \
		.copy_peer = copy_peer, \
		.host_register = host_register, \
		.host_unregister = host_unregister, \
		.submit = submit, \
		.poll = poll, \
		.wait = wait_for, \
		.quiesce = quiesce, \
		.reset = reset, \
		.gauges = gauges, \
		.follows = follows, \
	}; \
	const struct arax_backend *which##_backend_init(const struct arax_backend_host *host) \
	{ \
		which##_stack.araxd = host; \
		return &which##_backend; \
	}

#ifdef GPU_HAS_CUDA
GPU_BACKEND(cuda)
#endif
#ifdef GPU_HAS_HIP
GPU_BACKEND(hip)
#endif
#ifdef GPU_HIP_NVIDIA
/* A plug-in: as CUDA's runtime is linked to it, araxd can't have it built in. */
__attribute__((visibility("default"))) arax_backend_init_fn arax_backend_init;
const struct arax_backend *arax_backend_init(const struct arax_backend_host *host)
{
	return hip_backend_init(host);
}
#endif
