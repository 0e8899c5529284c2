// SPDX-License-Identifier: MIT
/* One device, and what is configured on it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/backends/xrt/backend.h"

/* Where the device doesn't say: an emulation, as a rule. */
#define DEFAULT_MEMORY	(1ull << 30)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int xrt_check(struct xrt_device *d, int err)
{
	if (err == -ENODEV && !__atomic_exchange_n(&d->lost, true, __ATOMIC_RELAXED))
		xrt_log(ARAX_LOG_ERR, "%s is lost", d->name);
	return err;
}

/* ------------------------------------------------------------------ */
/* Opening                                                               */

int xrt_find(char *why, uint32_t len)
{
	unsigned int n = 0;

	if (xrt.probe) {
		n = xrt.probe();
	} else {
		xrtDeviceHandle h;

		for (; n < XRT_MAX_DEVICES && (h = xrt.DeviceOpen(n)); n++)
			xrt.DeviceClose(h);
	}
	if (n)
		return n < XRT_MAX_DEVICES ? (int)n : XRT_MAX_DEVICES;
	snprintf(why, len, "XRT has no device: is the driver (xocl) loaded? XCL_EMULATION_MODE=noop tries it without");
	return -ENODEV;
}

static void learn(struct xrt_device *d)
{
	/* Newer versions of XRT may write more. */
	union {
		struct xclDeviceInfo2 info;
		char room[sizeof(struct xclDeviceInfo2) + 4096];
	} *u = calloc(1, sizeof(*u));
	const char *mode = xrt_emulation();
	xclDeviceHandle shim = xrt.DeviceToXclDevice(d->handle);
	const char *name = mode ? mode : "";

	if (u && xrt.info && shim && !xrt.info(shim, &u->info)) {
		u->info.mName[sizeof(u->info.mName) - 1] = '\0';
		if (u->info.mName[0])
			name = u->info.mName;
		d->bytes = u->info.mDDRSize;
	}
	snprintf(d->name, sizeof(d->name), "xrt%u%s%.48s", d->index, name[0] ? " " : "", name);
	free(u);
	if (!d->bytes)
		d->bytes = xrt_options.memory ? xrt_options.memory : DEFAULT_MEMORY;
	if (xrt_options.memory && xrt_options.memory < d->bytes)
		d->bytes = xrt_options.memory;
}

int xrt_device_open(uint32_t index, struct xrt_device **dev)
{
	struct xrt_device *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	errno = 0;
	d->handle = xrt.DeviceOpen(index);
	if (!d->handle) {
		free(d);
		return errno > 0 ? -errno : -ENODEV;
	}
	d->index = index;
	d->nr_lanes = xrt_options.lanes;
	pthread_mutex_init(&d->images_lock, NULL);
	pthread_rwlock_init(&d->lock, NULL);
	learn(d);
	if (xrt_emulation())
		xrt_log(ARAX_LOG_WARNING, "%s is an emulation (%s)%s", d->name, xrt_emulation(),
			strcmp(xrt_emulation(), "noop") ? "" : ": its kernels compute nothing");
	*dev = d;
	return 0;
}

void xrt_device_close(struct xrt_device *d)
{
	xrt_memory_close(d);
	xrt_unload(d);
	xrt.DeviceClose(d->handle);
	pthread_mutex_destroy(&d->images_lock);
	pthread_rwlock_destroy(&d->lock);
	free(d);
}

/* ------------------------------------------------------------------ */
/* Configuring                                                           */

static struct xrt_image *loaded(const struct xrt_device *d)
{
	return __atomic_load_n(&d->loaded, __ATOMIC_ACQUIRE);
}

uint32_t xrt_units(struct xrt_device *d)
{
	const struct xrt_image *i = loaded(d);
	uint32_t most = i ? i->xclbin.units : 0;

	if (most)
		return most;
	pthread_mutex_lock(&d->images_lock);
	for (i = d->images; i; i = i->next)
		if (most < i->xclbin.units)
			most = i->xclbin.units;
	pthread_mutex_unlock(&d->images_lock);
	return most;
}

uint64_t xrt_switch_ns(const struct xrt_device *d, const struct xrt_kernel *k)
{
	uint64_t ns;

	if (loaded(d) == k->image)
		return 0;
	ns = __atomic_load_n(&k->image->switch_ns, __ATOMIC_RELAXED);
	if (!ns)
		ns = __atomic_load_n(&d->last_switch_ns, __ATOMIC_RELAXED);
	return ns ? ns : xrt_options.switch_ns;
}

/* Its driver refuses another .xclbin while any of these is open. */
void xrt_unload(struct xrt_device *d)
{
	struct xrt_image *i = loaded(d);

	for (struct xrt_kernel *k = i ? i->kernels : NULL; k; k = k->next)
		xrt_kernel_close(k);
	__atomic_store_n(&d->loaded, NULL, __ATOMIC_RELEASE);
}

/* Where memory is from now on: a bank that all kernels are connected to. */
static void choose_bank(struct xrt_device *d, const struct xrt_image *i)
{
	uint32_t bank = i->banks ? (uint32_t)__builtin_ctzll(i->banks) : 0;
	int group = -1;

	/* The slot comes with any argument's group. */
	for (const struct xrt_kernel *k = i->kernels; k && group < 0; k = k->next)
		if (k->handle && k->params.nr_ranges)
			group = xrt.KernelArgGroupId(k->handle, 0);
	d->group = (group < 0 ? 0 : (uint32_t)group & ~XRT_BANK_MASK) | bank;
	d->room = xclbin_bank_bytes(&i->xclbin, bank);
	if (!d->room || d->room > d->bytes)
		d->room = d->bytes;
}

static int put_on_device(struct xrt_device *d, struct xrt_kernel *wanted)
{
	struct xrt_image *i = wanted->image;

	errno = 0;
	if (xrt.DeviceLoadXclbin(d->handle, (const struct axlf *)i->file)) {
		int err = xrt_errno();

		xrt_log(ARAX_LOG_ERR, "%s: the xclbin of kernel %s can't be loaded: %s; XRT's own words are on standard error",
			d->name, wanted->name, strerror(-err));
		return xrt_check(d, err);
	}
	for (struct xrt_kernel *k = i->kernels; k; k = k->next)
		xrt_kernel_open(d, k);
	/* The others' launches will say so themselves. */
	return wanted->handle ? 0 : -ENOEXEC;
}

int xrt_configure(struct xrt_device *d, struct xrt_kernel *k)
{
	uint64_t began = now_ns(), ns;
	int err;

	if (loaded(d) == k->image)
		return 0;
	/* It would lie in banks that are gone. */
	if (d->addresses.nr) {
		xrt_log(ARAX_LOG_ERR, "%s: %u allocations are in the way of another xclbin", d->name,
			d->addresses.nr);
		return -EBUSY;
	}
	pthread_mutex_lock(&d->images_lock);
	xrt_unload(d);
	err = put_on_device(d, k);
	if (err) {
		for (struct xrt_kernel *other = k->image->kernels; other; other = other->next)
			xrt_kernel_close(other);
	} else {
		choose_bank(d, k->image);
		ns = now_ns() - began;
		/* The first time may be slower, and none is quite like another. */
		if (k->image->switch_ns)
			ns = (3 * k->image->switch_ns + ns) / 4;
		__atomic_store_n(&k->image->switch_ns, ns ? ns : 1, __ATOMIC_RELAXED);
		__atomic_store_n(&d->last_switch_ns, ns ? ns : 1, __ATOMIC_RELAXED);
		__atomic_store_n(&d->loaded, k->image, __ATOMIC_RELEASE);
		d->switches++;
		xrt_log(ARAX_LOG_INFO, "%s: configuration %u for kernel %s: %u compute units, bank %u, in %llu us; switch %llu",
			d->name, k->image->number, k->name, k->image->xclbin.units,
			xrt_bank(d), (unsigned long long)(now_ns() - began) / 1000,
			(unsigned long long)d->switches);
	}
	pthread_mutex_unlock(&d->images_lock);
	return err;
}
