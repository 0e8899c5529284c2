// SPDX-License-Identifier: MIT
/*
 * For LD_PRELOAD: a control device that araxd can attach to, and that is lost by the
 * first call for tasks.  With FAKE_OLD in the environment its devices have no figures.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kmod/core/core.h"

#define SLOTS		64u
#define RING_CELLS	1024u
#define RING_BYTES	(RING_CELLS * 64u)
#define SHARED_BYTES	(1u << 20)

static int device = -1;
static uint32_t kernels;

static int make_device(void)
{
	struct arax_mediator_page page = { .states_offset = 4096, .commits_offset = 8192 };

	device = memfd_create("fake-module", MFD_CLOEXEC);
	if (device < 0 || ftruncate(device, RING_BYTES + SHARED_BYTES) ||
	    pwrite(device, &page, sizeof(page), RING_BYTES) != sizeof(page))
		return -1;
	return device;
}

static int open_as(const char *name, const char *path, int flags, va_list ap)
{
	int (*real)(const char *path, int flags, ...);

	if (!strcmp(path, "/dev/arax-ctl"))
		return make_device();
	*(void **)&real = dlsym(RTLD_NEXT, name);
	return real(path, flags, flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0);
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_as("open", path, flags, ap);
	va_end(ap);
	return fd;
}

int open64(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_as("open64", path, flags, ap);
	va_end(ap);
	return fd;
}

/* As the module does with what it does not know of. */
static int publish(const struct arax_device *d)
{
	const struct arax_device none = { 0 };

	if (getenv("FAKE_OLD") && memcmp(&d->known, &none.known, sizeof(none) - offsetof(struct arax_device, known))) {
		errno = E2BIG;
		return -1;
	}
	fprintf(stderr, "published %s%s\n", d->name, d->known ? " with figures" : "");
	return 0;
}

static int answer(unsigned long nr, void *arg)
{
	struct arax_attach *a = arg;
	struct arax_kernel_publish *k = arg;
	const struct arax_tenants_tell *told = arg;

	switch (nr) {
	case ARAX_IOC_ATTACH:
		a->cells = RING_CELLS;
		a->slots = SLOTS;
		a->dispatch_bytes = RING_BYTES;
		a->shared_offset = RING_BYTES;
		a->shared_bytes = SHARED_BYTES;
		return 0;
	case ARAX_IOC_DEVICE_PUBLISH:
		return publish(arg);
	case ARAX_IOC_KERNEL_PUBLISH:
		k->id = ++kernels;
		return 0;
	case ARAX_IOC_KERNEL_LOOKUP:
	case ARAX_IOC_DEVICE_QUERY:
	case ARAX_IOC_TENANT_QUERY:
		errno = ENOENT;
		return -1;
	case ARAX_IOC_TENANTS_TELL:
		fprintf(stderr, "told of %u tenants\n", told->count);
		errno = ENOTTY;
		return getenv("FAKE_OLD") ? -1 : 0;
	case ARAX_IOC_FETCH:
		errno = EPIPE;
		return -1;
	default:
		return 0;
	}
}

int ioctl(int fd, unsigned long nr, ...)
{
	int (*real)(int fd, unsigned long nr, ...);
	va_list ap;
	void *arg;

	va_start(ap, nr);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd >= 0 && fd == device)
		return answer(nr, arg);
	*(void **)&real = dlsym(RTLD_NEXT, "ioctl");
	return real(fd, nr, arg);
}
