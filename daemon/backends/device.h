/* SPDX-License-Identifier: MIT */
/*
 * device.h - the devices of this machine, whatever drives them
 *
 * A device is a backend's device with its filters on top.  Opened at start,
 * closed at the end, by one thread; the calls between may come from any thread
 * within the limits that backend.h sets (one run per lane).
 */
#ifndef ARAX_DAEMON_BACKENDS_DEVICE_H
#define ARAX_DAEMON_BACKENDS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend.h"
#include "daemon/config.h"

struct device_top;
struct devices;

struct device {
	uint32_t index;
	struct arax_backend_info info;
	const char *backend;		/* its name */
	uint32_t backend_index;		/* what that calls it */
	/* The top of the stack: `run` is the backend's own where no filter is. */
	int (*run)(void *top, struct arax_backend_run *run);
	void *top;
	struct device_top *stack;
};

/* A backend without devices, or without some of them: what it said when probed. */
struct device_absent {
	const char *backend;
	const char *why;
};

/*
 * Load the backends and filters that the configuration asks for and open all
 * their devices.  -ENODEV if there is none at all, -EINVAL for a bad option or
 * plug-in (logged).
 */
int devices_open(const struct config *config, struct devices **devices);
/* False: they are as they were, see below, and the process had better end at once. */
bool devices_close(struct devices *d);
/* A thread is inside the library of one and may never come back: it can't be closed, nor others of it. */
void devices_leave(struct devices *d);

/* Whether both run everything equally fast.  With filters on top nobody knows. */
bool device_is_alike(const struct device *a, const struct device *b);

uint32_t devices_count(const struct devices *d);
struct device *devices_at(struct devices *d, uint32_t index);
uint32_t devices_nr_absent(const struct devices *d);
const struct device_absent *devices_absent(const struct devices *d, uint32_t i);

/* What the filters have to say, as a JSON array.  Caller frees; NULL: no memory. */
char *devices_dump(struct devices *d);

/* Synchronous; see struct arax_backend. */
static inline int device_run(struct device *dev, struct arax_backend_run *run)
{
	return dev->run(dev->top, run);
}

/**
 * struct device_elsewhere - runs launches of a device that the device itself doesn't run
 * @run:	a launch that has come through the filters
 */
struct device_elsewhere {
	int (*run)(struct device_elsewhere *elsewhere, struct arax_backend_run *run);
};

bool device_has_filters(const struct device *dev);
/* Through the filters as device_run(), and then to @e; @run->kernel is not the caller's. */
int device_run_elsewhere(struct device *dev, struct device_elsewhere *e,
			 struct arax_backend_run *run);

int device_kernel_load(struct device *dev, const struct arax_backend_kernel *k, void **kernel);
void device_kernel_unload(struct device *dev, void *kernel);

/* Memory; -EOPNOTSUPP where the device works on host pages. */
int device_alloc(struct device *dev, uint64_t bytes, uint64_t wanted, uint64_t *address);
/* For a copy of the host's pages at @host. */
int device_alloc_on(struct device *dev, uint64_t bytes, void *host, uint64_t *address);
/* What device_alloc_on() gives is for copies of just these pages. */
bool device_alloc_stays(const struct device *dev);
void device_free(struct device *dev, uint64_t address);
int device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from,
		   uint64_t bytes);
int device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from,
		    uint64_t bytes);

/* Host memory that copies will use often; -EOPNOTSUPP: that makes no difference. */
int device_host_register(struct device *dev, void *host, uint64_t bytes);
void device_host_unregister(struct device *dev, void *host);

/* Devices that have the same one, not NULL, may be able to copy from each other. */
const void *device_peers(const struct device *dev);
/* From @src; -EOPNOTSUPP: go through the host. */
int device_copy_peer(struct device *dev, uint64_t to, struct device *src, uint64_t from,
		     uint64_t bytes);

/* Whether it is configured for what it runs: then the three below are the backend's. */
bool device_is_configured(const struct device *dev);
uint32_t device_configuration(struct device *dev, void *kernel);
int device_configure(struct device *dev, void *kernel);
uint64_t device_switch_ns(struct device *dev, void *kernel);
/* Asks again for lanes and units, which its configuration may change. */
void device_refresh(struct device *dev);

/*
 * Launches that a lane takes at once, to run them one after another: then the two below are
 * the backend's, for launches by device addresses that are valid already.  1: none but the
 * one of device_run().
 */
uint32_t device_depth(const struct device *dev);
int device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie);
int device_wait(struct device *dev, uint32_t lane, struct arax_backend_done *done);
/* Whether launches may have arax_backend_run.after. */
bool device_follows(const struct device *dev);

/* Whether it is worth to ask. */
bool device_has_gauges(const struct device *dev);
/* -EOPNOTSUPP, and in @why what is missing, or "": nothing measures such devices. */
int device_gauges(const struct device *dev, struct arax_backend_gauges *g, char *why, uint32_t len);

int device_quiesce(struct device *dev, uint64_t deadline_ns);
int device_reset(struct device *dev);
/* Whether it is worth trying. */
bool device_can_reset(const struct device *dev);

#endif /* ARAX_DAEMON_BACKENDS_DEVICE_H */
