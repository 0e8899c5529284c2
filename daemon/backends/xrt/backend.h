/* SPDX-License-Identifier: MIT */
/*
 * backend.h - the XRT backend's own structs, and who does what
 *
 *	backend.c	the operations of daemon/backend.h; options
 *	api.c		XRT's libraries
 *	xclbin.c	what is in an .xclbin file; xml.c its description of kernels
 *	device.c	one device: opening it, having an .xclbin put on it
 *	image.c		.xclbin files that kernels came in
 *	kernel.c	a kernel of such a file, its arguments checked
 *	memory.c	buffer objects under addresses of our own, copies
 *	run.c		a launch
 *
 * A device holds one .xclbin at a time.  Those that there are kernels of are its
 * configurations (see daemon/backend.h): who uses the device sees to it that nothing
 * runs, and no memory is allocated, when it gets another.
 */
#ifndef ARAX_DAEMON_BACKENDS_XRT_BACKEND_H
#define ARAX_DAEMON_BACKENDS_XRT_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/addresses.h"
#include "daemon/backend.h"
#include "daemon/backends/params.h"
#include "daemon/backends/xrt/api.h"
#include "daemon/backends/xrt/xclbin.h"

#define XRT_MAX_DEVICES	64
#define XRT_MAX_LANES	64
#define XRT_MAX_FILE	(1ull << 30)	/* of an .xclbin */

/* What araxd.conf says. */
struct xrt_options {
	char root[256];			/* "": wherever it is */
	char emulation[16];		/* "": as the environment says */
	uint32_t lanes;			/* at most */
	uint64_t memory;		/* cap; 0: what the device says */
	uint64_t switch_ns;		/* until one was measured */
	bool zero_copy;
};

extern struct xrt_options xrt_options;

/* printf to araxd's log. */
void xrt_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Why this launch fails, for who submitted it. */
void xrt_explain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * struct xrt_image - an .xclbin of which there are kernels
 * @number:	as a configuration
 * @banks:	that all of its kernels can work with
 * @kernels:	of it, those that are loaded
 * @switch_ns:	what it took to put it on the device, atomic; 0: it was not there yet
 */
struct xrt_image {
	struct xrt_image *next;
	uint32_t number;
	uint32_t users;
	uint64_t hash;
	struct xclbin xclbin;
	uint8_t *file;
	size_t file_bytes;
	uint64_t banks;
	struct xrt_kernel *kernels;
	uint64_t switch_ns;
};

struct xrt_device {
	uint32_t index;
	xrtDeviceHandle handle;
	char name[64];
	uint32_t nr_lanes;
	uint64_t bytes;			/* of its memory that is used */
	bool lost;
	bool told;			/* that pages of the host can't be used */
	struct xrt_image *loaded;	/* atomic; NULL: none, or it is not known */
	uint32_t group;			/* memory is allocated there, while it is loaded */
	uint64_t room;			/* in it */
	uint64_t last_switch_ns;	/* atomic */
	uint64_t switches;

	pthread_mutex_t images_lock;
	uint32_t last_number;
	struct xrt_image *images;

	pthread_rwlock_t lock;		/* what follows */
	uint64_t used;
	struct addresses addresses;	/* of xrtBufferHandle */
};

/* How a plain argument goes into a variadic call. */
enum xrt_pass {
	XRT_PASS_32,
	XRT_PASS_64,
	XRT_PASS_FLOAT,
	XRT_PASS_DOUBLE,
};

struct xrt_kernel {
	struct xrt_kernel *next;	/* of its image */
	struct xrt_image *image;
	struct params params;
	enum xrt_pass pass[PARAMS_MAX];
	uint64_t banks;
	char name[64];
	bool told;			/* of a failing launch */
	/* While the image is on the device: */
	xrtKernelHandle handle;
	xrtRunHandle runs[XRT_MAX_LANES];	/* arguments are state: one a lane */
};

/* A bank's memory group is its number, with the device's slot above it. */
#define XRT_BANK_MASK	0xffffu

static inline uint32_t xrt_bank(const struct xrt_device *d)
{
	return d->group & XRT_BANK_MASK;
}

/* device.c */
int xrt_find(char *why, uint32_t len);
int xrt_device_open(uint32_t index, struct xrt_device **dev);
void xrt_device_close(struct xrt_device *d);
/* @err, or -ENODEV; marks the device as lost if it says so. */
int xrt_check(struct xrt_device *d, int err);
int xrt_configure(struct xrt_device *d, struct xrt_kernel *k);
uint64_t xrt_switch_ns(const struct xrt_device *d, const struct xrt_kernel *k);
/* Compute units of what is loaded; else the most that there are. */
uint32_t xrt_units(struct xrt_device *d);
/* Nothing is on the device any more, as far as we know. */
void xrt_unload(struct xrt_device *d);

/* image.c: under images_lock. */
int xrt_image_get(struct xrt_device *d, const struct arax_backend_kernel *desc,
		  struct xrt_image **image);
void xrt_image_put(struct xrt_device *d, struct xrt_image *image);

/* kernel.c */
int xrt_kernel_load(struct xrt_device *d, const struct arax_backend_kernel *desc,
		    struct xrt_kernel **kernel);
void xrt_kernel_unload(struct xrt_device *d, struct xrt_kernel *k);
/* Its image is on the device; is about to go. */
int xrt_kernel_open(struct xrt_device *d, struct xrt_kernel *k);
void xrt_kernel_close(struct xrt_kernel *k);

/* memory.c: as in struct arax_backend. */
int xrt_alloc(struct xrt_device *d, uint64_t bytes, void *host, uint64_t *address);
void xrt_free(struct xrt_device *d, uint64_t address);
int xrt_copy_in(struct xrt_device *d, uint64_t to, const void *from, uint64_t bytes);
int xrt_copy_out(struct xrt_device *d, void *to, uint64_t from, uint64_t bytes);
/* The allocation that holds a range.  -EFAULT: none does. */
int xrt_find_memory(struct xrt_device *d, uint64_t address, uint64_t bytes,
		    struct allocation *a);
void xrt_memory_close(struct xrt_device *d);

/* run.c */
int xrt_run(struct xrt_device *d, struct arax_backend_run *run);

#endif /* ARAX_DAEMON_BACKENDS_XRT_BACKEND_H */
