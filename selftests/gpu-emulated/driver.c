// SPDX-License-Identifier: MIT
/* See emulated.h.  Compiled twice: with EMULATED_CUDA, and without for HIP. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef EMULATED_CUDA
#include <cuda.h>
/* Symbols say which version is meant, as in daemon/backends/gpu/calls.h. */
#undef cuEventElapsedTime
#define AS(cuda, hip)	cuda
#define ERROR		CUresult
#define ADDRESS		CUdeviceptr
#else
#define __HIP_PLATFORM_AMD__	1
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#define AS(cuda, hip)	hip
#define ERROR		hipError_t
#define ADDRESS		hipDeviceptr_t
#endif

#include "selftests/gpu-emulated/emulated.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define EXPORT __attribute__((visibility("default")))

/* Types by names that both have. */
#define STREAM	AS(CUstream, hipStream_t)
#define EVENT	AS(CUevent, hipEvent_t)
#define MODULE	AS(CUmodule, hipModule_t)
#define FUNCTION	AS(CUfunction, hipFunction_t)
#define POOL	AS(CUmemoryPool, hipMemPool_t)
#define HANDLE	AS(CUmemGenericAllocationHandle, hipMemGenericAllocationHandle_t)
#define PROP	AS(CUmemAllocationProp, hipMemAllocationProp)
#define ACCESS	AS(CUmemAccessDesc, hipMemAccessDesc)
#define JIT_OPTION	AS(CUjit_option, hipJitOption)

#define OK		AS(CUDA_SUCCESS, hipSuccess)
#define INVALID		AS(CUDA_ERROR_INVALID_VALUE, hipErrorInvalidValue)
#define NO_MEMORY	AS(CUDA_ERROR_OUT_OF_MEMORY, hipErrorOutOfMemory)
#define NOT_READY	AS(CUDA_ERROR_NOT_READY, hipErrorNotReady)
#define NOT_FOUND	AS(CUDA_ERROR_NOT_FOUND, hipErrorNotFound)
#define BAD_ADDRESS	AS(CUDA_ERROR_ILLEGAL_ADDRESS, hipErrorIllegalAddress)
#define ECC		214	/* in both */
#define UNSUPPORTED	AS(CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported)

#define MAX_DEVICES	16
#define MAX_WORDS	48		/* of a launch's parameters */
#define GRANULE		(64u << 10)
/* No address of a process: the host can't touch it. */
#define FIRST_ADDRESS	0x4000000000000000ull

enum region_sort { DEVICE, HOST, PLACED };

struct region {
	struct region *next;
	struct context *context;
	int device;
	enum region_sort sort;
	bool pooled;
	uint64_t address, bytes;
	void *memory;			/* NULL: reserved and not mapped */
};

struct op {
	struct op *next;
	enum { COPY_IN, COPY_OUT, COPY_PEER, LAUNCH, RECORD, AWAIT, WRITE, WORK } what;
	uint64_t to, from, bytes;
	struct event *event;
	uint64_t turn;
	int kernel;
	uint32_t grid[3], block[3];
	uint64_t values[MAX_WORDS];
	bool (*work)(void *arg);
	void *arg;
};

struct stream {
	struct stream *next;
	struct context *context;
	pthread_t thread;
	pthread_cond_t pushed;
	struct op *first, **last;
	bool busy, ending;
	uint32_t random;
	const struct op *op;		/* that is under way */
};

struct event {
	struct event *next;
	struct context *context;
	uint64_t given, asked, done;
	struct timespec at;
};

struct module {
	struct module *next;
	struct context *context;
	char *image;
	size_t bytes;
};

struct context {
	struct context *next;
	int device;
	uint64_t number;		/* of all; HIP's: of what a reset leaves, too */
	uint64_t peers[MAX_DEVICES];	/* numbers of contexts whose memory it reads directly */
	int error;			/* sticky */
	struct stream *streams;
	struct event *events;
	struct module *modules;
};

/* What tests turn and look at; of several processes, if EMULATED_SHARED says so. */
struct control {
	int started;
	struct { int after, err, every; } fail[EMULATED_NR];
	int open, waiting, registered;
	int fault_after, fault, faults, fault_every;
};

static struct control own = { .open = 1 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, old, parts, forgiving, strict;
	uint32_t slow;			/* us, at most, before and within a copy or a launch */
	uint32_t late;			/* us, at most, before and after a call does what it does */
	int broken;			/* the error of each new context, if not 0 */
	int nr, first;
	uint64_t bytes, used[MAX_DEVICES], next_address;
	struct region *regions;
	struct context devices[MAX_DEVICES];	/* HIP's contexts */
	uint64_t contexts;
	uint32_t readers[MAX_DEVICES];	/* of a device's pool: bits */
	int direct;			/* copies between two devices that did not go through the host */
	struct control *control;
	struct { void *page; uint64_t bytes; const struct context *context; } hosts[64];
} gpu = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,
	.next_address = FIRST_ADDRESS, .control = &own,
};

static int get(const int *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static int add(int *word, int value)
{
	return __atomic_add_fetch(word, value, __ATOMIC_SEQ_CST);
}

/* ------------------------------------------------------------------ */
/* Tests ask                                                             */

EXPORT void emulated_fail(enum emulated_call call, int after, int err)
{
	set(&gpu.control->fail[call].every, 0);
	set(&gpu.control->fail[call].after, after);
	set(&gpu.control->fail[call].err, err);
}

EXPORT void emulated_gate(int open)
{
	pthread_mutex_lock(&gpu.lock);
	set(&gpu.control->open, open);
	pthread_cond_broadcast(&gpu.changed);
	pthread_mutex_unlock(&gpu.lock);
}

EXPORT int emulated_waiting(void)
{
	return get(&gpu.control->waiting);
}

EXPORT int emulated_registered(void)
{
	return get(&gpu.control->registered);
}

EXPORT uint64_t emulated_used(void)
{
	uint64_t n = 0;

	pthread_mutex_lock(&gpu.lock);
	for (int i = 0; i < gpu.nr; i++)
		n += gpu.used[i];
	pthread_mutex_unlock(&gpu.lock);
	return n;
}

EXPORT int emulated_direct(void)
{
	return get(&gpu.direct);
}

/* (locked, for a while not) It may be another process that opens it: so not without looking. */
static void wait_while(int gate)
{
	struct timespec until;

	add(&gpu.control->waiting, 1);
	while (get(&gpu.control->open) == gate) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&gpu.changed, &gpu.lock, &until);
	}
	add(&gpu.control->waiting, -1);
}

void emulated_wait_at_gate(void)
{
	pthread_mutex_lock(&gpu.lock);
	wait_while(0);
	pthread_mutex_unlock(&gpu.lock);
}

/* (locked) */
static int must_fail(enum emulated_call call)
{
	int err = get(&gpu.control->fail[call].err), every = get(&gpu.control->fail[call].every);

	if (!err || add(&gpu.control->fail[call].after, -1) >= 0)
		return 0;
	if (every)
		set(&gpu.control->fail[call].after, every - 1);
	else
		set(&gpu.control->fail[call].err, 0);
	if (err == EMULATED_CRASH)
		raise(SIGKILL);
	return err;
}

/* ------------------------------------------------------------------ */
/* The current context of a thread                                       */

#ifdef EMULATED_CUDA
static _Thread_local struct context *current;
#else
static _Thread_local int current_device;
#define current (&gpu.devices[current_device])
#endif

/* Mostly none, or little; now and then all of it, as where others have their turn. */
static void pass_time(uint32_t *random, uint32_t most)
{
	uint32_t us;

	*random = *random * 1103515245 + 12345;
	us = *random >> 8;
	us = us % 64 == 0 ? most : us % 8 == 0 ? us / 64 % 32 : 0;
	if (us)
		nanosleep(&(struct timespec){ .tv_sec = us / 1000000,
					      .tv_nsec = us % 1000000 * 1000l }, NULL);
}

/* Whoever calls loses its CPU, or waits for others in the driver. */
static void be_late(void)
{
	static _Thread_local uint32_t random;

	if (!gpu.late)
		return;
	if (!random)
		random = (uint32_t)(uintptr_t)&random >> 6 | 1;
	random = random * 1103515245 + 12345;
	if (!((random >> 16) % 4))
		pass_time(&random, gpu.late);
}

/* Takes the lock; an error, if the context is broken or absent: then not. */
static int begin(void)
{
	struct context *c = current;
	int err;

	be_late();
	pthread_mutex_lock(&gpu.lock);
	err = !c ? AS((int)CUDA_ERROR_INVALID_CONTEXT, (int)hipErrorInvalidContext) : c->error;
	if (err)
		pthread_mutex_unlock(&gpu.lock);
	return err;
}

static ERROR end(int err)
{
	pthread_mutex_unlock(&gpu.lock);
	be_late();
	return (ERROR)err;
}

/* In front of every call: a broken context answers with its error alone. */
#define BEGIN()	do { int broken = begin(); if (broken) return (ERROR)broken; } while (0)

/* ------------------------------------------------------------------ */
/* Memory                                                                */

/* (locked) */
static struct region *find(uint64_t address)
{
	struct region *r = gpu.regions;

	while (r && (address < r->address || address - r->address >= r->bytes || !r->memory))
		r = r->next;
	return r;
}

/* (locked) NULL: not inside of one. */
static void *at(uint64_t address, uint64_t bytes)
{
	struct region *r = find(address);

	if (!r || bytes > r->bytes - (address - r->address))
		return NULL;
	return (char *)r->memory + (address - r->address);
}

void *emulated_translate(uint64_t address)
{
	void *p;

	pthread_mutex_lock(&gpu.lock);
	p = at(address, 0);
	pthread_mutex_unlock(&gpu.lock);
	return p;
}

EXPORT void *emulated_memory(uint64_t address, uint64_t bytes)
{
	void *p;

	pthread_mutex_lock(&gpu.lock);
	p = at(address, bytes);
	pthread_mutex_unlock(&gpu.lock);
	return p;
}

/* (locked) */
static struct region *add_region(enum region_sort sort, uint64_t bytes, int device)
{
	struct region *r = calloc(1, sizeof(*r));

	r->sort = sort;
	r->device = device;
	r->context = sort == PLACED ? NULL : current;
	r->bytes = bytes;
	r->memory = sort == PLACED ? NULL : malloc(bytes);
	if (sort == DEVICE)
		memset(r->memory, 0x5a, bytes);
	r->address = gpu.next_address;
	gpu.next_address += (bytes + 1023) / 512 * 512;
	r->next = gpu.regions;
	gpu.regions = r;
	if (sort == DEVICE)
		gpu.used[device] += bytes;
	return r;
}

/* (locked) */
static void drop_region(struct region *r)
{
	struct region **link = &gpu.regions;

	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	if (r->sort == DEVICE)
		gpu.used[r->device] -= r->bytes;
	free(r->memory);
	free(r);
}

static ERROR allocate(ADDRESS *a, size_t bytes, bool pooled)
{
	struct region *r;
	int err;

	BEGIN();
	err = must_fail(EMULATED_ALLOC);
	if (!err && bytes > gpu.bytes - gpu.used[current->device])
		err = NO_MEMORY;
	if (!err) {
		r = add_region(DEVICE, bytes, current->device);
		r->pooled = pooled;
		*a = (ADDRESS)r->address;
	}
	return end(err);
}

static ERROR release(ADDRESS a)
{
	struct region *r;

	BEGIN();
	r = find((uint64_t)a);
	if (!r || r->address != (uint64_t)a || r->sort != DEVICE)
		return end(INVALID);
	drop_region(r);
	return end(OK);
}

EXPORT ERROR AS(cuMemAlloc_v2, hipMalloc)(ADDRESS *a, size_t bytes)
{
	return allocate(a, bytes, false);
}

/* (locked) */
static bool is_idle(const struct context *c)
{
	const struct stream *s = c->streams;

	while (s && !s->first && !s->busy)
		s = s->next;
	return !s;
}

/* As the drivers' does, it waits for all that uses the context's memory. */
EXPORT ERROR AS(cuMemFree_v2, hipFree)(ADDRESS a)
{
	BEGIN();
	while (!current->error && !is_idle(current))
		pthread_cond_wait(&gpu.changed, &gpu.lock);
	end(OK);
	return release(a);
}

EXPORT ERROR AS(cuMemAllocAsync, hipMallocAsync)(ADDRESS *a, size_t bytes,
						 STREAM s)
{
	return allocate(a, bytes, true);
}

EXPORT ERROR AS(cuMemFreeAsync, hipFreeAsync)(ADDRESS a, STREAM s)
{
	return release(a);
}

EXPORT ERROR AS(cuDeviceGetDefaultMemPool, hipDeviceGetDefaultMemPool)
	(POOL *pool, int device)
{
	*pool = (void *)&gpu.devices[device];
	return OK;
}

EXPORT ERROR AS(cuMemPoolSetAttribute, hipMemPoolSetAttribute)
	(POOL pool, AS(CUmemPool_attribute, hipMemPoolAttr) what,
	 void *value)
{
	return what == AS(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, hipMemPoolAttrReleaseThreshold) ?
	       OK : INVALID;
}

EXPORT ERROR AS(cuMemPoolSetAccess, hipMemPoolSetAccess)(POOL pool, const ACCESS *map, size_t count)
{
	const struct context *c = (void *)pool;

	pthread_mutex_lock(&gpu.lock);
	for (size_t i = 0; i < count; i++)
		gpu.readers[c->device] |= 1u << map[i].location.id;
	return end(OK);
}

EXPORT ERROR AS(cuMemGetInfo_v2, hipMemGetInfo)(size_t *available, size_t *total)
{
	BEGIN();
	*available = gpu.bytes - gpu.used[current->device];
	*total = gpu.bytes;
	return end(OK);
}

EXPORT ERROR AS(cuMemHostAlloc, hipHostMalloc)(void **p, size_t bytes, unsigned int flags)
{
	BEGIN();
	*p = add_region(HOST, bytes, 0)->memory;
	return end(OK);
}

/* (locked) */
static struct region *find_host(const void *p)
{
	struct region *r = gpu.regions;

	while (r && (r->sort != HOST || r->memory != p))
		r = r->next;
	return r;
}

EXPORT ERROR AS(cuMemFreeHost, hipHostFree)(void *p)
{
	struct region *r;

	BEGIN();
	r = find_host(p);
	if (r)
		drop_region(r);
	return end(r ? OK : INVALID);
}

EXPORT ERROR AS(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer)(ADDRESS *a, void *p,
								       unsigned int flags)
{
	struct region *r;

	BEGIN();
	r = find_host(p);
	*a = (ADDRESS)(r ? r->address : 0);
	return end(r ? OK : INVALID);
}

EXPORT ERROR AS(cuMemHostRegister_v2, hipHostRegister)(void *p, size_t bytes, unsigned int flags)
{
	int free_slot = -1;

	BEGIN();
	for (int i = 0; i < 64; i++) {
		if (gpu.hosts[i].page == p)
			return end(AS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
				      hipErrorHostMemoryAlreadyRegistered));
		if (!gpu.hosts[i].page)
			free_slot = i;
	}
	if (free_slot < 0)
		return end(NO_MEMORY);
	gpu.hosts[free_slot].page = p;
	gpu.hosts[free_slot].bytes = bytes;
	gpu.hosts[free_slot].context = current;
	add(&gpu.control->registered, 1);
	return end(OK);
}

EXPORT ERROR AS(cuMemHostUnregister, hipHostUnregister)(void *p)
{
	BEGIN();
	wait_while(EMULATED_NO_UNREGISTER);
	for (int i = 0; i < 64; i++)
		if (gpu.hosts[i].page == p) {
			gpu.hosts[i].page = NULL;
			add(&gpu.control->registered, -1);
			return end(OK);
		}
	return end(AS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, hipErrorHostMemoryNotRegistered));
}

/* ------------------------------------------------------------------ */
/* Memory at addresses: one space for all devices, as the drivers have it */

EXPORT ERROR AS(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity)
	(size_t *bytes, const PROP *prop,
	 AS(CUmemAllocationGranularity_flags, hipMemAllocationGranularity_flags) option)
{
	*bytes = GRANULE;
	return gpu.old ? UNSUPPORTED : OK;
}

EXPORT ERROR AS(cuMemAddressReserve, hipMemAddressReserve)
	(ADDRESS *a, size_t bytes, size_t align, ADDRESS wanted, unsigned long long flags)
{
	struct region *r;

	BEGIN();
	r = add_region(PLACED, bytes, -1);
	/* Elsewhere, if it is taken: the address is a hint. */
	for (struct region *o = gpu.regions; o; o = o->next)
		if (o != r && (uint64_t)wanted < o->address + o->bytes &&
		    o->address < (uint64_t)wanted + bytes)
			wanted = 0;
	if (wanted)
		r->address = (uint64_t)wanted;
	*a = (ADDRESS)r->address;
	return end(OK);
}

/* (locked) */
static struct region *find_place(ADDRESS a)
{
	struct region *r = gpu.regions;

	while (r && (r->sort != PLACED || r->address != (uint64_t)a))
		r = r->next;
	return r;
}

EXPORT ERROR AS(cuMemAddressFree, hipMemAddressFree)(ADDRESS a, size_t bytes)
{
	struct region *r;

	pthread_mutex_lock(&gpu.lock);
	r = find_place(a);
	if (!r || r->memory)
		return end(INVALID);
	drop_region(r);
	return end(OK);
}

/* A handle is the device and the size. */
EXPORT ERROR AS(cuMemCreate, hipMemCreate)
	(HANDLE *h, size_t bytes,
	 const PROP *prop, unsigned long long flags)
{
	int device = prop->location.id, err;

	BEGIN();
	err = must_fail(EMULATED_ALLOC);
	if (!err && (bytes % GRANULE || !bytes))
		err = INVALID;
	if (!err && bytes > gpu.bytes - gpu.used[device])
		err = NO_MEMORY;
	if (!err) {
		gpu.used[device] += bytes;
		*h = (HANDLE)
		     ((uint64_t)device << 48 | bytes);
	}
	return end(err);
}

EXPORT ERROR AS(cuMemRelease, hipMemRelease)
	(HANDLE h)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.used[(uint64_t)h >> 48] -= (uint64_t)h & 0xffffffffffff;
	return end(OK);
}

EXPORT ERROR AS(cuMemMap, hipMemMap)
	(ADDRESS a, size_t bytes, size_t offset,
	 HANDLE h,
	 unsigned long long flags)
{
	struct region *r;

	BEGIN();
	r = find_place(a);
	if (!r || r->memory || r->bytes != bytes)
		return end(INVALID);
	r->memory = malloc(bytes);
	r->device = (int)((uint64_t)h >> 48);
	return end(OK);
}

EXPORT ERROR AS(cuMemUnmap, hipMemUnmap)(ADDRESS a, size_t bytes)
{
	struct region *r;

	pthread_mutex_lock(&gpu.lock);
	r = find_place(a);
	if (!r || !r->memory)
		return end(INVALID);
	free(r->memory);
	r->memory = NULL;
	return end(OK);
}

EXPORT ERROR AS(cuMemSetAccess, hipMemSetAccess)
	(ADDRESS a, size_t bytes, const ACCESS *d,
	 size_t count)
{
	return OK;
}

/* ------------------------------------------------------------------ */
/* Streams                                                               */

/* (locked, for a while not) Hardware is elsewhere meanwhile, and nobody here has less of a CPU. */
static void take_time(struct stream *s)
{
	pthread_mutex_unlock(&gpu.lock);
	pass_time(&s->random, gpu.slow);
	pthread_mutex_lock(&gpu.lock);
}

/* (locked) @bytes of it from @begin on. */
static int copy_part(const struct op *o, uint64_t begin, uint64_t bytes)
{
	bool from_host = o->what == COPY_IN, to_host = o->what == COPY_OUT;
	void *to = to_host ? (void *)(uintptr_t)o->to : at(o->to, o->bytes);
	void *from = from_host ? (void *)(uintptr_t)o->from : at(o->from, o->bytes);

	if (!to || !from)
		return BAD_ADDRESS;
	memmove((char *)to + begin, (char *)from + begin, bytes);
	return 0;
}

/* (locked, for a while not) Others see it half done. */
static int run_copy(struct stream *s, const struct op *o)
{
	bool waits = o->what == COPY_OUT && get(&gpu.control->open) == EMULATED_NO_COPIES;
	uint64_t half = gpu.slow || waits ? o->bytes / 2 : 0;
	int err = half ? copy_part(o, 0, half) : 0;

	if (half)
		take_time(s);
	if (waits)
		wait_while(EMULATED_NO_COPIES);
	return err ? err : copy_part(o, half, o->bytes - half);
}

/* A thread of a kernel has read, and is about to write. */
void emulated_pause(void)
{
	static _Thread_local uint32_t random = 1;

	if (gpu.slow)
		pass_time(&random, gpu.slow);
}

#define MAX_PARTS 16

struct part {
	uint64_t address, bytes;
	bool writes;
};

/* What it reads and writes; host memory is at other addresses. */
static uint32_t parts_of(const struct op *o, struct part parts[MAX_PARTS])
{
	uint32_t n = 0;

	switch (o->what) {
	case COPY_IN:
	case COPY_OUT:
	case COPY_PEER:
		parts[0] = (struct part){ o->from, o->bytes, false };
		parts[1] = (struct part){ o->to, o->bytes, true };
		return 2;
	case LAUNCH:
		while (n < MAX_PARTS && emulated_range(o->kernel, n, o->values, &parts[n].address,
						       &parts[n].bytes, &parts[n].writes))
			n++;
		return n;
	default:
		return 0;
	}
}

static bool meet(const struct part *a, const struct part *b)
{
	return (a->writes || b->writes) && a->bytes && b->bytes &&
	       a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/*
 * (locked) A copy out of pieces with what lies between them, which tasks may be writing: whoever makes it
 * has no use for that.  Never to pages that are registered, which are a program's.
 */
static bool is_gathered(const struct op *o)
{
	for (int i = 0; o->what == COPY_OUT && i < 64; i++) {
		const uint64_t page = (uint64_t)(uintptr_t)gpu.hosts[i].page;

		if (page && o->to >= page && o->to - page < gpu.hosts[i].bytes)
			return false;
	}
	return o->what == COPY_OUT;
}

static bool brings(const struct op *o)
{
	return o->what == LAUNCH || o->what == COPY_IN || o->what == COPY_PEER;
}

/* (locked) One reads what it has no use for, beside a kernel, or a copy of what lies between its pieces. */
static bool may_meet(const struct op *one, const struct op *other)
{
	return (is_gathered(one) && brings(other)) || (is_gathered(other) && brings(one));
}

/* (locked) Whatever takes how long: nothing of another stream's may be in its way. */
static void check_alone(const struct stream *s, const struct op *o)
{
	struct part mine[MAX_PARTS], theirs[MAX_PARTS];
	uint32_t n = parts_of(o, mine);

	for (const struct stream *t = s->context->streams; t; t = t->next) {
		uint32_t k = t != s && t->op && !may_meet(o, t->op) ? parts_of(t->op, theirs) : 0;

		for (uint32_t i = 0; i < n * k; i++)
			if (meet(&mine[i / k], &theirs[i % k])) {
				fprintf(stderr, "EMULATED: %d uses %#llx + %llu (%d), where %d uses %#llx + %llu (%d)\n",
					o->what, (unsigned long long)mine[i / k].address,
					(unsigned long long)mine[i / k].bytes, mine[i / k].writes,
					t->op->what, (unsigned long long)theirs[i % k].address,
					(unsigned long long)theirs[i % k].bytes,
					theirs[i % k].writes);
				abort();
			}
	}
}

/* (locked, but for the work itself) An error breaks the context. */
static void run_op(struct stream *s, struct op *o)
{
	void *to;
	int err = 0;

	if (gpu.slow)
		take_time(s);
	switch (o->what) {
	case COPY_IN:
	case COPY_OUT:
	case COPY_PEER:
		err = run_copy(s, o);
		break;
	case LAUNCH:
		pthread_mutex_unlock(&gpu.lock);
		err = emulated_invoke(o->kernel, o->grid, o->block, o->values);
		pthread_mutex_lock(&gpu.lock);
		if (get(&gpu.control->faults) > 0 && add(&gpu.control->fault_after, -1) <= 0) {
			err = get(&gpu.control->fault);
			add(&gpu.control->faults, -1);
			set(&gpu.control->fault_after, gpu.control->fault_every);
			if (err == EMULATED_CRASH)
				raise(SIGKILL);
		}
		/* What is the device's fault ends with the context: so the drivers' manuals say. */
		if (err && err != ECC && !gpu.forgiving)
			gpu.broken = err;
		break;
	case RECORD:
		o->event->done = o->turn;
		clock_gettime(CLOCK_MONOTONIC, &o->event->at);
		break;
	case WRITE:
		to = at(o->to, sizeof(uint32_t));
		if (to)
			__atomic_store_n((uint32_t *)to, (uint32_t)o->from, __ATOMIC_RELEASE);
		err = to ? 0 : BAD_ADDRESS;
		break;
	case WORK:
		pthread_mutex_unlock(&gpu.lock);
		err = o->work(o->arg) ? 0 : BAD_ADDRESS;
		pthread_mutex_lock(&gpu.lock);
		break;
	case AWAIT:
		while (o->event->done < o->turn && !s->context->error)
			pthread_cond_wait(&gpu.changed, &gpu.lock);
		break;
	}
	if (err && !s->context->error)
		s->context->error = err;
}

static void *stream_main(void *arg)
{
	struct stream *s = arg;

	pthread_mutex_lock(&gpu.lock);
	while (!s->ending || s->first) {
		struct op *o = s->first;

		if (!o) {
			pthread_cond_wait(&s->pushed, &gpu.lock);
			continue;
		}
		s->busy = true;
		s->first = o->next;
		if (!s->first)
			s->last = &s->first;
		if (gpu.strict)
			check_alone(s, o);
		s->op = o;
		if (!s->context->error)
			run_op(s, o);
		s->op = NULL;
		s->busy = false;
		free(o->arg);
		free(o);
		pthread_cond_broadcast(&gpu.changed);
	}
	pthread_mutex_unlock(&gpu.lock);
	return NULL;
}

/* (locked) */
static void push(struct stream *s, const struct op *what)
{
	struct op *o = malloc(sizeof(*o));

	*o = *what;
	o->next = NULL;
	*s->last = o;
	s->last = &o->next;
	pthread_cond_signal(&s->pushed);
}

EXPORT ERROR AS(cuStreamCreate, hipStreamCreateWithFlags)(STREAM *out,
							  unsigned int flags)
{
	struct stream *s;
	int err;

	BEGIN();
	err = must_fail(EMULATED_STREAM);
	if (err)
		return end(err);
	s = calloc(1, sizeof(*s));
	s->context = current;
	s->last = &s->first;
	pthread_cond_init(&s->pushed, NULL);
	s->next = current->streams;
	current->streams = s;
	pthread_create(&s->thread, NULL, stream_main, s);
	*out = (void *)s;
	return end(OK);
}

/* (locked) */
static void stop_stream(struct stream *s)
{
	struct stream **link = &s->context->streams;

	s->ending = true;
	pthread_cond_signal(&s->pushed);
	pthread_mutex_unlock(&gpu.lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&gpu.lock);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	pthread_cond_destroy(&s->pushed);
	free(s);
}

EXPORT ERROR AS(cuStreamDestroy_v2, hipStreamDestroy)(STREAM s)
{
	BEGIN();
	stop_stream((void *)s);
	return end(OK);
}

EXPORT ERROR AS(cuStreamSynchronize, hipStreamSynchronize)(STREAM h)
{
	struct stream *s = (void *)h;
	int err;

	BEGIN();
	while (s->first || s->busy)
		pthread_cond_wait(&gpu.changed, &gpu.lock);
	err = must_fail(EMULATED_WAIT);
	return end(s->context->error ? s->context->error : err);
}

EXPORT ERROR AS(cuStreamQuery, hipStreamQuery)(STREAM h)
{
	struct stream *s = (void *)h;

	BEGIN();
	return end(s->first || s->busy ? NOT_READY : OK);
}

EXPORT bool emulated_push(void *stream, bool (*work)(void *arg), void *arg)
{
	struct stream *s = stream;

	pthread_mutex_lock(&gpu.lock);
	if (s->context->error) {
		pthread_mutex_unlock(&gpu.lock);
		free(arg);
		return false;
	}
	push(s, &(struct op){ .what = WORK, .work = work, .arg = arg });
	pthread_mutex_unlock(&gpu.lock);
	return true;
}

#ifdef EMULATED_CUDA
EXPORT ERROR cuStreamWriteValue32_v2(CUstream h, CUdeviceptr to, cuuint32_t value,
				     unsigned int flags)
{
	int err;

	BEGIN();
	err = gpu.old || flags ? (int)UNSUPPORTED : must_fail(EMULATED_END);
	if (!err)
		push((void *)h, &(struct op){ .what = WRITE, .to = (uint64_t)to, .from = value });
	return end(err);
}
#endif

EXPORT ERROR AS(cuEventCreate, hipEventCreateWithFlags)(EVENT *out,
							unsigned int flags)
{
	struct event *e;

	BEGIN();
	e = calloc(1, sizeof(*e));
	e->context = current;
	e->next = current->events;
	current->events = e;
	*out = (void *)e;
	return end(OK);
}

/* (locked) */
static void drop_event(struct event *e)
{
	struct event **link = &e->context->events;

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	free(e);
}

EXPORT ERROR AS(cuEventDestroy_v2, hipEventDestroy)(EVENT e)
{
	BEGIN();
	drop_event((void *)e);
	return end(OK);
}

/* Of two threads that record one at once either may be the last, whichever the stream has last. */
EXPORT ERROR AS(cuEventRecord, hipEventRecord)(EVENT h,
					       STREAM s)
{
	struct event *e = (void *)h;
	uint64_t turn;
	int err;

	BEGIN();
	err = must_fail(EMULATED_END);
	if (err)
		return end(err);
	turn = ++e->given;
	push((void *)s, &(struct op){ .what = RECORD, .event = e, .turn = turn });
	if (gpu.late) {
		pthread_mutex_unlock(&gpu.lock);
		be_late();
		pthread_mutex_lock(&gpu.lock);
	}
	e->asked = turn;
	return end(OK);
}

EXPORT ERROR AS(cuEventQuery, hipEventQuery)(EVENT h)
{
	struct event *e = (void *)h;

	BEGIN();
	return end(e->done >= e->asked ? OK : NOT_READY);
}

EXPORT ERROR AS(cuEventElapsedTime, hipEventElapsedTime)(float *ms, EVENT from,
							 EVENT to)
{
	struct event *a = (void *)from, *b = (void *)to;

	BEGIN();
	*ms = (float)(b->at.tv_sec - a->at.tv_sec) * 1e3f +
	      (float)(b->at.tv_nsec - a->at.tv_nsec) / 1e6f;
	return end(OK);
}

/* ------------------------------------------------------------------ */
/* Copies                                                                */

static ERROR copy(struct stream *s, const struct op *o)
{
	int err;

	BEGIN();
	err = must_fail(EMULATED_COPY);
	if (!err)
		push(s, o);
	return end(err);
}

EXPORT ERROR AS(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)
	(ADDRESS to, AS(const void, void) *from, size_t bytes, STREAM s)
{
	return copy((void *)s, &(struct op){ .what = COPY_IN, .to = (uint64_t)to,
					     .from = (uintptr_t)from, .bytes = bytes });
}

EXPORT ERROR AS(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *to, ADDRESS from, size_t bytes,
							  STREAM s)
{
	return copy((void *)s, &(struct op){ .what = COPY_OUT, .to = (uintptr_t)to,
					     .from = (uint64_t)from, .bytes = bytes });
}

/* (locked) What is in a pool is for whom the pool says, whatever the contexts have agreed on. */
static bool is_direct(const struct context *reader, const struct context *owner, uint64_t from)
{
	const struct region *r = find(from);

	if (!r || reader->peers[owner->device] != owner->number)
		return false;
	return !r->pooled || gpu.readers[owner->device] >> reader->device & 1;
}

#ifdef EMULATED_CUDA
EXPORT ERROR cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
			       CUcontext from_context, size_t bytes, CUstream s)
#else
EXPORT ERROR hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
				size_t bytes, hipStream_t s)
#endif
{
	const struct context *reader = AS((void *)to_context, &gpu.devices[to_device]);
	const struct context *owner = AS((void *)from_context, &gpu.devices[from_device]);

	pthread_mutex_lock(&gpu.lock);
	if (reader != owner && is_direct(reader, owner, (uint64_t)from))
		add(&gpu.direct, 1);
	if (owner->error)
		return end(owner->error);
	pthread_mutex_unlock(&gpu.lock);
	return copy((void *)s, &(struct op){ .what = COPY_PEER, .to = (uint64_t)to,
					     .from = (uint64_t)from, .bytes = bytes });
}

#ifdef EMULATED_CUDA
/* For a program of its own beside araxd (arax-bench cuda): it waits by itself. */
static ERROR copy_now(int what, uint64_t to, uint64_t from, size_t bytes)
{
	struct context *c = current;
	struct stream self = { .context = c };

	BEGIN();
	run_op(&self, &(struct op){ .what = what, .to = to, .from = from, .bytes = bytes });
	return end(c->error);
}

EXPORT ERROR cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copy_now(COPY_IN, to, (uintptr_t)from, bytes);
}

EXPORT ERROR cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy_now(COPY_OUT, (uintptr_t)to, from, bytes);
}

/* One that was never recorded is over. */
EXPORT ERROR cuStreamWaitEvent(CUstream s, CUevent h, unsigned int flags)
{
	struct event *e = (void *)h;

	BEGIN();
	push((void *)s, &(struct op){ .what = AWAIT, .event = e, .turn = e->asked });
	return end(OK);
}
#endif

/* ------------------------------------------------------------------ */
/* Code: an image has the kernels whose names stand in it                */

/* Text ends with a 0; what hipcc makes says where its parts lie. */
static size_t image_bytes(const char *image)
{
	static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
	uint64_t nr, head[3], bytes = 0;
	const char *p = image + sizeof(magic) - 1;

	if (strncmp(image, magic, sizeof(magic) - 1))
		return strlen(image);
	memcpy(&nr, p, sizeof(nr));
	for (p += sizeof(nr); nr; nr--) {
		memcpy(head, p, sizeof(head));
		if (head[0] + head[1] > bytes)
			bytes = head[0] + head[1];
		p += sizeof(head) + head[2];
	}
	return bytes;
}

/* A function: a kernel's number, from 1. */
EXPORT ERROR AS(cuModuleLoadDataEx, hipModuleLoadDataEx)
	(MODULE *out, const void *image, unsigned int nr,
	 JIT_OPTION *options, void **values)
{
	struct module *m;
	int err;

	BEGIN();
	err = must_fail(EMULATED_MODULE);
	if (err)
		return end(err);
	/* The tests' images are text, with or without a head of an ELF file. */
	if (strstr((const char *)image, "syntax error")) {
		if (nr)
			strcpy(values[0], "line 1: syntax error");
		return end(AS(CUDA_ERROR_INVALID_PTX, hipErrorInvalidImage));
	}
	m = calloc(1, sizeof(*m));
	m->context = current;
	m->bytes = image_bytes(image);
	m->image = malloc(m->bytes);
	memcpy(m->image, image, m->bytes);
	m->next = current->modules;
	current->modules = m;
	*out = (void *)m;
	return end(OK);
}

/* (locked) */
static void drop_module(struct module *m)
{
	struct module **link = &m->context->modules;

	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	free(m->image);
	free(m);
}

EXPORT ERROR AS(cuModuleUnload, hipModuleUnload)(MODULE m)
{
	BEGIN();
	drop_module((void *)m);
	return end(OK);
}

EXPORT ERROR AS(cuModuleGetFunction, hipModuleGetFunction)
	(FUNCTION *f, MODULE h, const char *name)
{
	struct module *m = (void *)h;
	int k = emulated_find(name);

	BEGIN();
	if (k < 0 || !memmem(m->image, m->bytes, name, strlen(name)))
		return end(NOT_FOUND);
	*f = (void *)(uintptr_t)(k + 1);
	return end(OK);
}

EXPORT ERROR AS(cuFuncGetAttribute, hipFuncGetAttribute)
	(int *v, AS(CUfunction_attribute, hipFunction_attribute) what,
	 FUNCTION f)
{
	BEGIN();
	*v = what == AS(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
			HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ?
	     emulated_threads((int)(uintptr_t)f - 1) : 8;
	return end(OK);
}

#ifdef EMULATED_CUDA
EXPORT ERROR cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	*offset = 0;
	*size = emulated_param((int)(uintptr_t)f - 1, (uint32_t)i);
	return *size ? OK : INVALID;
}

EXPORT ERROR cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block,
							 size_t shared)
{
	*n = 4;
	return OK;
}
#endif

/* Copied now: the caller's are gone when it runs. */
static void take_params(struct op *o, void **params)
{
	uint32_t bytes, word = 0;

	for (uint32_t i = 0; (bytes = emulated_param(o->kernel, i)); i++) {
		memcpy(&o->values[word], params[i], bytes);
		word += (bytes + 7) / 8;
	}
}

EXPORT ERROR AS(cuLaunchKernel, hipModuleLaunchKernel)
	(FUNCTION f, unsigned int gx, unsigned int gy, unsigned int gz,
	 unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
	 STREAM s, void **params, void **extra)
{
	struct op o = { .what = LAUNCH, .kernel = (int)(uintptr_t)f - 1, .grid = { gx, gy, gz },
			.block = { bx, by, bz } };
	int err;

	BEGIN();
	err = must_fail(EMULATED_LAUNCH);
#ifndef EMULATED_CUDA
	for (int i = 0; !err && i < 3; i++)
		if ((uint64_t)o.grid[i] * o.block[i] > UINT32_MAX)
			err = hipErrorInvalidConfiguration;
#endif
	if (!err) {
		take_params(&o, params);
		push((void *)s, &o);
	}
	return end(err);
}

#ifdef EMULATED_CUDA
/* ------------------------------------------------------------------ */
/* Graphs: of launches and copies                                        */

#define MAX_NODES	256

struct node {
	struct graph *graph;
	struct op op;
	uint32_t nr_before;
	struct node *before[MAX_NODES];
	bool done;
};

struct graph {
	uint32_t nr;
	struct node *nodes[MAX_NODES];
};

EXPORT ERROR cuGraphCreate(CUgraph *out, unsigned int flags)
{
	*out = calloc(1, sizeof(struct graph));
	return flags ? INVALID : OK;
}

static ERROR add_node(CUgraphNode *out, CUgraph h, const CUgraphNode *before, size_t nr,
		      const struct op *op)
{
	struct graph *g = (void *)h;
	struct node *n = calloc(1, sizeof(*n));

	if (g->nr == MAX_NODES || nr > MAX_NODES)
		goto refuse;
	n->graph = g;
	n->op = *op;
	n->nr_before = (uint32_t)nr;
	for (size_t i = 0; i < nr; i++) {
		n->before[i] = (void *)before[i];
		if (n->before[i]->graph != g)
			goto refuse;
	}
	g->nodes[g->nr++] = n;
	*out = (void *)n;
	return OK;
refuse:
	free(n);
	return INVALID;
}

#undef cuGraphAddKernelNode
EXPORT ERROR cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t nr,
				  const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	struct op o = {
		.what = LAUNCH, .kernel = (int)(uintptr_t)p->func - 1,
		.grid = { p->gridDimX, p->gridDimY, p->gridDimZ },
		.block = { p->blockDimX, p->blockDimY, p->blockDimZ },
	};

	take_params(&o, p->kernelParams);
	return add_node(out, g, before, nr, &o);
}

/* Of one row, between the host and the device. */
EXPORT ERROR cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *before, size_t nr,
				  const CUDA_MEMCPY3D *p, CUcontext context)
{
	bool in = p->srcMemoryType == CU_MEMORYTYPE_HOST;
	struct op o = {
		.what = in ? COPY_IN : COPY_OUT, .bytes = p->WidthInBytes,
		.to = in ? p->dstDevice : (uintptr_t)p->dstHost,
		.from = in ? (uintptr_t)p->srcHost : p->srcDevice,
	};

	if ((void *)context != current || p->Height != 1 || p->Depth != 1 ||
	    p->dstMemoryType != (in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST) ||
	    (!in && p->srcMemoryType != CU_MEMORYTYPE_DEVICE))
		return INVALID;
	return add_node(out, g, before, nr, &o);
}

/* A copy, that the graph can go. */
#undef cuGraphInstantiateWithFlags
EXPORT ERROR cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph h, unsigned long long flags)
{
	const struct graph *g = (void *)h;
	struct graph *copy = calloc(1, sizeof(*copy));

	copy->nr = g->nr;
	for (uint32_t i = 0; i < g->nr; i++) {
		struct node *n = malloc(sizeof(*n));

		*n = *g->nodes[i];
		n->graph = copy;
		for (uint32_t k = 0; k < n->nr_before; k++)
			for (uint32_t j = 0; j < i; j++)
				if (g->nodes[i]->before[k] == g->nodes[j])
					n->before[k] = copy->nodes[j];
		copy->nodes[i] = n;
	}
	*out = (void *)copy;
	return flags ? INVALID : OK;
}

static bool is_ready(const struct node *n)
{
	for (uint32_t i = 0; i < n->nr_before; i++)
		if (!n->before[i]->done)
			return false;
	return !n->done;
}

/* The last that may come first: an edge that was forgotten shows. */
EXPORT ERROR cuGraphLaunch(CUgraphExec h, CUstream s)
{
	struct graph *g = (void *)h;

	BEGIN();
	for (uint32_t i = 0; i < g->nr; i++)
		g->nodes[i]->done = false;
	for (uint32_t left = g->nr; left; left--) {
		uint32_t i = g->nr;

		while (!is_ready(g->nodes[--i]))
			;
		g->nodes[i]->done = true;
		push((void *)s, &g->nodes[i]->op);
	}
	return end(OK);
}

static ERROR drop_graph(struct graph *g)
{
	for (uint32_t i = 0; i < g->nr; i++)
		free(g->nodes[i]);
	free(g);
	return OK;
}

EXPORT ERROR cuGraphExecDestroy(CUgraphExec g)
{
	return drop_graph((void *)g);
}

EXPORT ERROR cuGraphDestroy(CUgraph g)
{
	return drop_graph((void *)g);
}
#endif

/* ------------------------------------------------------------------ */
/* Devices and contexts                                                  */

static void parse_fail(struct control *c, const char *text)
{
	static const char *const calls[EMULATED_NR] = {
		"alloc", "copy", "launch", "context", "module", "stream", "end", "wait"
	};
	int call, bytes, every, err;
	char name[16];

	for (; text && *text; text += bytes) {
		if (sscanf(text, "%15[a-z]:%d:%d%n", name, &every, &err, &bytes) != 3 || every < 1)
			abort();
		for (call = 0; strcmp(name, calls[call]);)
			if (++call == EMULATED_NR)
				abort();
		c->fail[call].after = every - 1;
		c->fail[call].every = every;
		c->fail[call].err = err;
		bytes += text[bytes] == ',';
	}
}

/* Of the processes that share it the first one begins; what others left there is gone. */
static void open_control(const char *path)
{
	const char *fault = getenv("EMULATED_FAULT");
	struct control *c = gpu.control;
	int fd;

	if (path) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, sizeof(*c)))
			abort();
		c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (c == MAP_FAILED)
			abort();
		gpu.control = c;
	}
	set(&c->waiting, 0);
	set(&c->registered, 0);
	if (__atomic_exchange_n(&c->started, 1, __ATOMIC_SEQ_CST))
		return;
	set(&c->open, 1);
	c->fault_every = 1;
	if (fault && sscanf(fault, "%d:%d:%d:%d", &c->fault_after, &c->fault, &c->faults,
			    &c->fault_every) < 3)
		abort();
	parse_fail(c, getenv("EMULATED_FAIL"));
}

static void start(void)
{
	const char *nr = getenv("EMULATED_DEVICES"), *bytes = getenv("EMULATED_MEMORY");
	const char *first = getenv("EMULATED_FIRST");
	const char *slow = getenv("EMULATED_SLOW"), *late = getenv("EMULATED_LATE");

	gpu.nr = nr ? atoi(nr) : 2;
	gpu.first = first ? atoi(first) : 0;
	gpu.bytes = bytes ? strtoull(bytes, NULL, 0) : 64 << 20;
	gpu.old = getenv("EMULATED_OLD");
	gpu.parts = getenv("EMULATED_PARTS");
	gpu.forgiving = getenv("EMULATED_FORGIVING");
	gpu.slow = slow ? (uint32_t)strtoul(slow, NULL, 10) : 0;
	gpu.strict = getenv("EMULATED_STRICT");
	gpu.late = late ? (uint32_t)strtoul(late, NULL, 10) : 0;
	open_control(getenv("EMULATED_SHARED"));
	for (int i = 0; i < MAX_DEVICES; i++) {
		gpu.devices[i].device = i;
		gpu.devices[i].number = ++gpu.contexts;
	}
	gpu.started = true;
}

EXPORT ERROR AS(cuInit, hipInit)(unsigned int flags)
{
	pthread_mutex_lock(&gpu.lock);
	if (!gpu.started)
		start();
	return end(gpu.nr ? OK : AS(CUDA_ERROR_NO_DEVICE, hipErrorNoDevice));
}

EXPORT ERROR AS(cuDriverGetVersion, hipDriverGetVersion)(int *version)
{
	*version = 1;
	return OK;
}

EXPORT ERROR AS(cuDeviceGetCount, hipGetDeviceCount)(int *n)
{
	*n = gpu.nr;
	return gpu.nr ? OK : AS(CUDA_ERROR_NO_DEVICE, hipErrorNoDevice);
}

EXPORT ERROR AS(cuDeviceGetName, hipDeviceGetName)(char *name, int len, int device)
{
	strncpy(name, EMULATED_NAME, (size_t)len);
	return device < gpu.nr ? OK : AS(CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice);
}

EXPORT ERROR AS(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *bytes, int device)
{
	*bytes = gpu.bytes;
	return OK;
}

EXPORT ERROR AS(cuDeviceGetAttribute, hipDeviceGetAttribute)
	(int *v, AS(CUdevice_attribute, hipDeviceAttribute_t) what, int device)
{
	switch (what) {
	case AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, hipDeviceAttributeMaxGridDimX):
		*v = INT32_MAX;
		break;
	case AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, hipDeviceAttributeMaxGridDimY):
	case AS(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, hipDeviceAttributeMaxGridDimZ):
		*v = 65535;
		break;
	case AS(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, hipDeviceAttributeMaxBlockDimZ):
		*v = 64;
		break;
	case AS(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, hipDeviceAttributeMultiprocessorCount):
		*v = 3;
		break;
	case AS(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, hipDeviceAttributeMemoryPoolsSupported):
#ifdef EMULATED_CUDA
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
#endif
		*v = !gpu.old;
		break;
	default:
		*v = 1024;
	}
	return OK;
}

#ifndef EMULATED_CUDA
EXPORT ERROR hipGetDeviceProperties(hipDeviceProp_t *p, int device)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->gcnArchName, sizeof(p->gcnArchName), "%s:sramecc+:xnack-", emulated_arch());
	return OK;
}
#endif

EXPORT ERROR AS(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer)(int *can, int device, int peer)
{
	*can = device != peer;
	return OK;
}

/* What lives in a context, and its error with it. */
static void empty(struct context *c)
{
	struct region *r, *next;

	while (c->streams)
		stop_stream(c->streams);
	while (c->events)
		drop_event(c->events);
	while (c->modules)
		drop_module(c->modules);
	for (r = gpu.regions; r; r = next) {
		next = r->next;
		if (r->context == c)
			drop_region(r);
	}
	for (int i = 0; i < 64; i++)
		if (gpu.hosts[i].page && gpu.hosts[i].context == c) {
			gpu.hosts[i].page = NULL;
			add(&gpu.control->registered, -1);
		}
	c->error = gpu.broken;
	c->number = ++gpu.contexts;
	memset(c->peers, 0, sizeof(c->peers));
	gpu.readers[c->device] = 0;
}

/* The same for both: as one device that two stacks drive. */
EXPORT ERROR AS(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int len, int device)
{
	snprintf(text, (size_t)len, "0000:%02x:00.0", 0xa0 + (gpu.parts ? 0 : gpu.first + device));
	return device < gpu.nr ? OK : AS(CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice);
}

EXPORT ERROR AS(cuDeviceGetUuid_v2, hipDeviceGetUuid)(AS(CUuuid, hipUUID) *uuid, int device)
{
	if (gpu.old)
		return AS(CUDA_ERROR_NOT_SUPPORTED, hipErrorNotSupported);
	if (device >= gpu.nr)
		return AS(CUDA_ERROR_INVALID_DEVICE, hipErrorInvalidDevice);
	memset(uuid->bytes, 0x5a, sizeof(uuid->bytes));
	uuid->bytes[15] = (char)(gpu.first + device);
	return OK;
}

#ifdef EMULATED_CUDA
EXPORT ERROR cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return OK;
}

EXPORT ERROR cuGetErrorName(CUresult err, const char **name)
{
	static _Thread_local char text[32];

	*name = text;
	strcpy(text, err == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" :
		     err == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" :
		     err == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" :
		     err == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR");
	return OK;
}

EXPORT ERROR cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
	struct context *c;
	int err;

	pthread_mutex_lock(&gpu.lock);
	err = gpu.broken ? gpu.broken : must_fail(EMULATED_CONTEXT);
	if (err)
		return end(err);
	c = calloc(1, sizeof(*c));
	c->device = device;
	c->number = ++gpu.contexts;
	current = c;
	*out = (void *)c;
	return end(OK);
}

EXPORT ERROR cuCtxDestroy_v2(CUcontext h)
{
	struct context *c = (void *)h;

	if (!c)
		return INVALID;
	pthread_mutex_lock(&gpu.lock);
	empty(c);
	if (current == c)
		current = NULL;
	free(c);
	return end(OK);
}

EXPORT ERROR cuCtxSetCurrent(CUcontext c)
{
	current = (void *)c;
	return OK;
}

EXPORT ERROR cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	const struct context *owner = (void *)peer;

	BEGIN();
	if (owner == current)
		return end(INVALID);
	if (current->peers[owner->device] == owner->number)
		return end(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	current->peers[owner->device] = owner->number;
	return end(OK);
}
#else
EXPORT const char *hipGetErrorName(hipError_t err)
{
	return err == hipErrorIllegalAddress ? "hipErrorIllegalAddress" :
	       err == hipErrorNoDevice ? "hipErrorNoDevice" :
	       err == hipErrorOutOfMemory ? "hipErrorOutOfMemory" :
	       err == hipErrorInvalidImage ? "hipErrorInvalidImage" : "hipError";
}

EXPORT ERROR hipGetLastError(void)
{
	return OK;
}

EXPORT ERROR hipSetDevice(int device)
{
	int err;

	if (device < 0 || device >= gpu.nr)
		return hipErrorInvalidDevice;
	current_device = device;
	pthread_mutex_lock(&gpu.lock);
	err = gpu.devices[device].streams ? 0 : must_fail(EMULATED_CONTEXT);
	return end(err);
}

EXPORT ERROR hipDeviceReset(void)
{
	pthread_mutex_lock(&gpu.lock);
	empty(current);
	return end(OK);
}

EXPORT ERROR hipDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	const struct context *owner = &gpu.devices[peer];

	BEGIN();
	if (owner == current)
		return end(INVALID);
	if (current->peers[peer] == owner->number)
		return end(hipErrorPeerAccessAlreadyEnabled);
	current->peers[peer] = owner->number;
	return end(OK);
}
#endif
