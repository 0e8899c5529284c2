// SPDX-License-Identifier: MIT
/*
 * A device that orders its launches itself: one lane, on which kernels of the processor run one
 * after another in a thread of its own.  Each second launch that comes with nothing under way is
 * refused with -EAGAIN, as by a device that wants to run() it; "lost" in a kernel's name is what
 * it says.
 *
 * "follows=true": a launch may come before those end that it needs.  "overtaken=true": and has its
 * place in the order from when they have.  "lose=N": the device is lost at its Nth launch, which
 * does nothing then.  "memory=true": it has memory of its own.
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

/*
 * @turn: its place in the order; @needs: places of those that have to end before; @failed: one of
 * them has
 */
struct launch {
	arax_kernel_fn *fn;
	uint64_t cookie, turn;
	int result;
	uint32_t needs;
	bool failed, ended;
	struct arax_launch l;
	struct arax_launch_range ranges[4];
	_Alignas(8) char args[MAX_BYTES];
};

/* From @first: those that were not told of. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	uint32_t first, nr;
	uint64_t turns, ran;
	bool stop, refused;
	bool running;			/* atomic */
	struct launch launches[ARAX_LANE_DEPTH];
} q = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static bool follow, overtaken, has_memory;
static uint64_t lose;

static int config(const char *key, const char *value)
{
	bool *option = !strcmp(key, "follows") ? &follow :
		       !strcmp(key, "overtaken") ? &overtaken :
		       !strcmp(key, "memory") ? &has_memory : NULL;

	if (!strcmp(key, "lose")) {
		lose = strtoull(value, NULL, 10);
		return 0;
	}
	if (!option)
		return -ENOENT;
	if (strcmp(value, "true"))
		return -EINVAL;
	*option = true;
	return 0;
}

static int follows(void *dev)
{
	return follow;
}

/* 0: the one that was submitted last. */
static struct launch *launch_before(uint32_t i)
{
	return &q.launches[(q.first + q.nr - 1 - i) % ARAX_LANE_DEPTH];
}

/* NULL: none. */
static struct launch *whose_turn(void)
{
	struct launch *first = NULL;

	for (uint32_t i = 0; i < q.nr; i++) {
		struct launch *x = launch_before(i);

		if (!x->ended && !x->needs && (!first || x->turn < first->turn))
			first = x;
	}
	return first;
}

static void end(struct launch *x)
{
	uint32_t bit = 1u << (x - q.launches);

	x->ended = true;
	for (uint32_t i = 0; i < q.nr; i++) {
		struct launch *y = launch_before(i);

		if (!(y->needs & bit))
			continue;
		y->needs &= ~bit;
		y->failed |= x->result;
		if (overtaken && !y->needs)
			y->turn = ++q.turns;
	}
	pthread_cond_broadcast(&q.changed);
}

/* By one at a time: its thread, or a lane's with nothing under way. */
static bool is_lost(void)
{
	return lose && ++q.ran >= lose;
}

static void *serve(void *arg)
{
	pthread_mutex_lock(&q.lock);
	while (!q.stop) {
		struct launch *x = whose_turn();

		if (!x) {
			pthread_cond_wait(&q.changed, &q.lock);
			continue;
		}
		x->result = -ECANCELED;
		if (!x->failed && is_lost()) {
			x->result = -ENODEV;
		} else if (!x->failed) {
			pthread_mutex_unlock(&q.lock);
			x->result = x->fn(&x->l);
			pthread_mutex_lock(&q.lock);
		}
		end(x);
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
	info->memory = has_memory ? 64 << 20 : 0;
	strcpy(info->name, "queued0");
	return 0;
}

static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	void *p = wanted ? NULL : malloc(bytes);

	*address = (uintptr_t)p;
	return p ? 0 : wanted ? -EADDRINUSE : -ENOMEM;
}

static void free_device(void *dev, uint64_t address)
{
	free((void *)(uintptr_t)address);
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	memcpy(to, (void *)(uintptr_t)from, bytes);
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
	int err;

	/* Nothing else may be under way, nor begin meanwhile. */
	if (q.nr || __atomic_exchange_n(&q.running, true, __ATOMIC_RELAXED))
		abort();
	err = is_lost() ? -ENODEV : ((arax_kernel_fn *)run->kernel)(run->launch);
	__atomic_store_n(&q.running, false, __ATOMIC_RELAXED);
	return err;
}

/* Before @x is one of them. */
static void put_behind(struct launch *x, uint32_t after)
{
	/* Only what was not told of can be meant. */
	if (after >> q.nr || (after && !follow))
		abort();
	x->turn = ++q.turns;
	x->needs = 0;
	x->failed = x->ended = false;
	for (uint32_t i = 0; i < q.nr; i++) {
		const struct launch *y = launch_before(i);

		if (!(after >> i & 1))
			continue;
		if (!y->ended)
			x->needs |= 1u << (y - q.launches);
		else
			x->failed |= y->result;
	}
}

static int submit(void *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	struct launch *x;
	int err = 0;

	if (__atomic_load_n(&q.running, __ATOMIC_RELAXED))
		abort();
	pthread_mutex_lock(&q.lock);
	x = &q.launches[(q.first + q.nr) % ARAX_LANE_DEPTH];
	if (!q.nr)
		q.refused = !q.refused;
	if (q.nr == ARAX_LANE_DEPTH || (!q.nr && q.refused)) {
		err = -EAGAIN;
	} else {
		x->fn = (arax_kernel_fn *)run->kernel;
		x->cookie = cookie;
		put_behind(x, run->after);
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
	struct launch *x;

	pthread_mutex_lock(&q.lock);
	if (!q.nr) {
		pthread_mutex_unlock(&q.lock);
		return -ENOENT;
	}
	x = &q.launches[q.first];
	while (!x->ended)
		pthread_cond_wait(&q.changed, &q.lock);
	*done = (struct arax_backend_done){
		.cookie = x->cookie, .result = x->result, .flags = x->failed ? ARAX_DONE_NOT_RUN : 0,
	};
	q.first = (q.first + 1) % ARAX_LANE_DEPTH;
	q.nr--;
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
	.alloc = alloc,
	.free = free_device,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.kernel_load = kernel_load,
	.kernel_unload = kernel_unload,
	.run = run,
	.config = config,
	.submit = submit,
	.wait = wait_for,
	.follows = follows,
};

arax_backend_init_fn arax_backend_init;
const struct arax_backend *arax_backend_init(const struct arax_backend_host *host)
{
	return &backend;
}
