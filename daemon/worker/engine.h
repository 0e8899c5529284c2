/* SPDX-License-Identifier: MIT */
/*
 * engine.h - what loads and runs kernels in a worker
 *
 *	engine_native.c		shared objects, on the device's cores
 *	engine_opencl.c		an OpenCL driver
 *
 * All calls come from the worker's first thread.
 */
#ifndef ARAX_DAEMON_WORKER_ENGINE_H
#define ARAX_DAEMON_WORKER_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "arax/kernel.h"
#include "daemon/worker/proto.h"

/* A kernel as the engine knows it. */
struct loaded {
	void *kernel;		/* the engine's */
	uint32_t flags;		/* WORKER_KERNEL_* */
	int err;		/* it can't be loaded, see why */
	char *why;
};

/* How a launch is to be run. */
struct engine_how {
	bool one_thread;
	uint32_t cores;		/* that a split kernel may have */
};

/**
 * struct engine - its calls
 * @open:	while files are locked up and calls are not; other threads are made here
 * @option:	"key=value" of araxd.conf, before @device; NULL: there are none
 * @device:	what to open, and what its name must be.  0, or a negative errno and @why
 *		(static, or NULL); NULL: there is none
 * @load:	fills @k; @fd may be closed when it returns, unless *@keep is set
 * @output:	where what is built goes; the engine's from now on.  NULL: it builds nothing
 * @run:	to its end; a negative errno is passed on
 * @why:	of the last one that failed: static words, or "".  NULL: it never has any
 */
struct engine {
	int (*open)(void);
	void (*option)(const char *text);
	int (*device)(uint32_t index, const char *name, const char **why);
	void (*load)(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k);
	void (*output)(int fd);
	int (*run)(const struct loaded *k, const struct arax_launch *l, const struct engine_how *how);
	const char *(*why)(void);
};

extern const struct engine engine_native, engine_opencl, engine_opencl_build;

#endif /* ARAX_DAEMON_WORKER_ENGINE_H */
