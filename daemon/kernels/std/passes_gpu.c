// SPDX-License-Identifier: MIT
#include "daemon/kernels/std/passes_gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

ARAX_KERNEL arax_stream_open_fn arax_stream_open;
ARAX_KERNEL arax_stream_close_fn arax_stream_close;
ARAX_KERNEL const uint32_t arax_stream_behind = 1;

/*
 * Alike in CUDA and HIP but for their names: handles are pointers, an error is an int, and an address
 * is a number or a pointer, of 64 bits both.
 */
struct calls {
	int (*load)(void **module, const void *image, unsigned int nr, void *options, void *values);
	int (*unload)(void *module);
	int (*function)(void **function, void *module, const char *name);
	int (*about_function)(int *value, int what, void *function);
	int (*about_device)(int *value, int what, int device);
	int (*launch)(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
		      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		      void *stream, void **args, void **extra);
	int (*allocate)(void **address, size_t bytes);
	int (*release)(void *address);
};

/*
 * Of a device's context: streams share it.
 * @loading:	held by who has the driver compile, which takes a second: nobody waits for that
 * @has:	a module, and the functions; @failed: it can't be had, which is not tried again
 */
struct pass_device {
	struct pass_device *next;
	void *driver, *place, *context;
	uint32_t users;
	struct calls calls;
	int multiprocessors;
	pthread_mutex_t loading;
	bool has, failed;
	void *module;
	void *functions[NR_PASSES];
	uint32_t threads[NR_PASSES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pass_device *devices;

static const char *find_calls(void *driver, struct calls *c)
{
	const struct { const char *name; void **call; } wanted[] = {
		{ pass_names.load, (void **)&c->load },
		{ pass_names.unload, (void **)&c->unload },
		{ pass_names.function, (void **)&c->function },
		{ pass_names.about_function, (void **)&c->about_function },
		{ pass_names.about_device, (void **)&c->about_device },
		{ pass_names.launch, (void **)&c->launch },
		{ pass_names.allocate, (void **)&c->allocate },
		{ pass_names.release, (void **)&c->release },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		*wanted[i].call = dlsym(driver, wanted[i].name);
		if (!*wanted[i].call)
			return wanted[i].name;
	}
	return NULL;
}

int arax_stream_open(const struct arax_stream *s, char *why, size_t len)
{
	struct calls calls;
	const char *missing = find_calls(s->driver, &calls);

	if (s->size < sizeof(*s)) {
		snprintf(why, len, "araxd is older than these kernels");
		return -EOPNOTSUPP;
	}
	if (!missing)
		return 0;
	snprintf(why, len, "there is no %s in the driver", missing);
	return -ENOENT;
}

static const char *const names[] = {
#define X(name) "arax_pass_" #name,
	PASSES(X)
#undef X
};

/* CUDA's number and HIP's. */
#define OUT_OF_MEMORY	2

/* (loading) With the device's context, whose these are.  For want of memory it is tried again. */
static bool load(struct pass_device *d)
{
	int err = d->calls.load(&d->module, pass_image, 0, NULL, NULL);

	d->failed = err && err != OUT_OF_MEMORY;
	if (err)
		return false;
	for (int i = 0; i < NR_PASSES; i++) {
		int most = 0;

		if (d->calls.function(&d->functions[i], d->module, names[i]) ||
		    d->calls.about_function(&most, pass_names.most_threads, d->functions[i]) ||
		    most < 1) {
			d->calls.unload(d->module);
			d->failed = true;
			return false;
		}
		for (d->threads[i] = PASS_THREADS; d->threads[i] > (uint32_t)most;)
			d->threads[i] /= 2;
	}
	return true;
}

/* (locked) */
static struct pass_device *device_of(const struct arax_stream *s)
{
	struct pass_device *d = devices;

	while (d && (d->driver != s->driver || d->place != s->device || d->context != s->context))
		d = d->next;
	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->driver = s->driver;
	d->place = s->device;
	d->context = s->context;
	if (find_calls(s->driver, &d->calls) ||
	    d->calls.about_device(&d->multiprocessors, pass_names.multiprocessors,
				  (int)(intptr_t)s->device) || d->multiprocessors < 1) {
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->loading, NULL);
	d->next = devices;
	devices = d;
	return d;
}

/* (locked) In a broken context that fails, and what there was went with it. */
static void put_device(struct pass_device *d)
{
	struct pass_device **link = &devices;

	if (--d->users)
		return;
	while (*link != d)
		link = &(*link)->next;
	*link = d->next;
	if (d->has)
		d->calls.unload(d->module);
	pthread_mutex_destroy(&d->loading);
	free(d);
}

int pass_begin(const struct arax_stream *s, uint64_t items, uint64_t few, struct pass_state **state)
{
	struct pass_state *st = *s->state;

	if (!st) {
		st = calloc(1, sizeof(*st));
		if (!st)
			return -EOPNOTSUPP;
		pthread_mutex_lock(&lock);
		st->device = device_of(s);
		if (st->device)
			st->device->users++;
		pthread_mutex_unlock(&lock);
		if (!st->device) {
			free(st);
			return -EOPNOTSUPP;
		}
		st->multiprocessors = (uint64_t)st->device->multiprocessors;
		*s->state = st;
	}
	*state = st;
	return items < few * st->multiprocessors ? -EOPNOTSUPP : 0;
}

static int find_scratch(struct pass_state *state, uint64_t bytes)
{
	const struct calls *calls = &state->device->calls;
	uint64_t size = SCRATCH_MIN;

	if (bytes <= state->scratch_bytes)
		return 0;
	if (bytes > SCRATCH_MAX)
		return -EOPNOTSUPP;
	/* To free it waits for all that the device does: not for each that is a little longer. */
	while (size < bytes)
		size *= 2;
	if (state->scratch)
		calls->release(state->scratch);
	if (calls->allocate(&state->scratch, size)) {
		state->scratch = NULL;
		size = 0;
	}
	state->scratch_bytes = size;
	return size ? 0 : -EOPNOTSUPP;
}

/* Acquire and release: who sees that a device has them sees them. */
static bool has_kernels(struct pass_device *d)
{
	bool has = __atomic_load_n(&d->has, __ATOMIC_ACQUIRE);

	if (has || pthread_mutex_trylock(&d->loading))
		return has;
	has = __atomic_load_n(&d->has, __ATOMIC_RELAXED);
	if (!has && !d->failed) {
		has = load(d);
		__atomic_store_n(&d->has, has, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&d->loading);
	return has;
}

int pass_ready(struct pass_state *state, uint64_t bytes)
{
	return has_kernels(state->device) ? find_scratch(state, bytes) : -EOPNOTSUPP;
}

uint32_t pass_threads(const struct pass_state *state, enum pass pass)
{
	return state->device->threads[pass];
}

int pass_launch(const struct arax_stream *s, const struct pass_state *state, enum pass pass,
		uint32_t blocks, uint32_t blocks_y, void **args)
{
	const struct pass_device *d = state->device;

	return d->calls.launch(d->functions[pass], blocks, blocks_y, 1, d->threads[pass], 1, 1, 0,
			       s->stream, args, NULL) ? -EIO : 0;
}

void arax_stream_close(const struct arax_stream *s)
{
	struct pass_state *state = *s->state;

	if (state->scratch)
		state->device->calls.release(state->scratch);
	pthread_mutex_lock(&lock);
	put_device(state->device);
	pthread_mutex_unlock(&lock);
	free(state);
}
