// SPDX-License-Identifier: MIT
/*
 * A device that orders its launches itself: one lane, on which kernels of the processor run one
 * after another in a thread of its own.  Each second launch that comes with nothing under way is
 * refused with -EAGAIN, as by a device that wants to run() it; "lost" in a kernel's name is what
 * it says.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend.h"

#define MAX_BYTES 4096

struct launch {
	arax_kernel_fn *fn;
	uint64_t cookie;
	int result;
	struct arax_launch l;
	struct arax_launch_range ranges[4];
	_Alignas(8) char args[MAX_BYTES];
};

/* From @first: ended and not told of, then those that have not run. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	uint32_t first, nr, ended;
	bool stop, refused;
	struct launch launches[ARAX_LANE_DEPTH];
} q = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *serve(void *arg)
{
	pthread_mutex_lock(&q.lock);
	while (!q.stop) {
		struct launch *x = &q.launches[(q.first + q.ended) % ARAX_LANE_DEPTH];

		if (q.ended == q.nr) {
			pthread_cond_wait(&q.changed, &q.lock);
			continue;
		}
		pthread_mutex_unlock(&q.lock);
		x->result = x->fn(&x->l);
		pthread_mutex_lock(&q.lock);
		q.ended++;
		pthread_cond_broadcast(&q.changed);
	}
	pthread_mutex_unlock(&q.lock);
	return arg;
}

static int probe(char *why, uint32_t len)
{
	return 1;
}

static int open_device(uint32_t index, void **dev)
{
	*dev = &q;
	return -pthread_create(&q.thread, NULL, serve, NULL);
}

static void close_device(void *dev)
{
	pthread_mutex_lock(&q.lock);
	q.stop = true;
	pthread_cond_broadcast(&q.changed);
	pthread_mutex_unlock(&q.lock);
	pthread_join(q.thread, NULL);
	/* Whoever has something under way must have waited for it. */
	if (q.nr)
		abort();
}

static int info(void *dev, struct arax_backend_info *info)
{
	info->lanes = 1;
	info->units = 1;
	strcpy(info->name, "queued0");
	return 0;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *k, void **kernel)
{
	char path[32];
	void *library;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", k->fd);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*kernel = library ? dlsym(library, k->symbol) : NULL;
	return *kernel ? 0 : -ENOEXEC;
}

static void kernel_unload(void *dev, void *kernel)
{
}

static int run(void *dev, struct arax_backend_run *run)
{
	/* Nothing else may be under way. */
	if (q.nr)
		abort();
	return ((arax_kernel_fn *)run->kernel)(run->launch);
}

static int submit(void *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	struct launch *x;
	int err = 0;

	pthread_mutex_lock(&q.lock);
	x = &q.launches[(q.first + q.nr) % ARAX_LANE_DEPTH];
	if (!q.nr)
		q.refused = !q.refused;
	if (q.nr == ARAX_LANE_DEPTH || (!q.nr && q.refused)) {
		err = -EAGAIN;
	} else {
		x->fn = (arax_kernel_fn *)run->kernel;
		x->cookie = cookie;
		x->l = *run->launch;
		memcpy(x->ranges, x->l.ranges, x->l.nr_ranges * sizeof(x->ranges[0]));
		memcpy(x->args, x->l.args, x->l.arg_len);
		x->l.ranges = x->ranges;
		x->l.args = x->args;
		q.nr++;
		pthread_cond_broadcast(&q.changed);
	}
	pthread_mutex_unlock(&q.lock);
	return err;
}

static int wait_for(void *dev, uint32_t lane, struct arax_backend_done *done)
{
	pthread_mutex_lock(&q.lock);
	if (!q.nr) {
		pthread_mutex_unlock(&q.lock);
		return -ENOENT;
	}
	while (!q.ended)
		pthread_cond_wait(&q.changed, &q.lock);
	*done = (struct arax_backend_done){
		.cookie = q.launches[q.first].cookie, .result = q.launches[q.first].result,
	};
	q.first = (q.first + 1) % ARAX_LANE_DEPTH;
	q.nr--;
	q.ended--;
	pthread_mutex_unlock(&q.lock);
	return 0;
}

static const struct arax_backend backend = {
	.struct_size = sizeof(backend),
	.api_version = ARAX_BACKEND_API,
	.name = "queued",
	.probe = probe,
	.open = open_device,
	.close = close_device,
	.info = info,
	.kernel_load = kernel_load,
	.kernel_unload = kernel_unload,
	.run = run,
	.submit = submit,
	.wait = wait_for,
};

arax_backend_init_fn arax_backend_init;
const struct arax_backend *arax_backend_init(const struct arax_backend_host *host)
{
	return &backend;
}
