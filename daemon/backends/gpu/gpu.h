/* SPDX-License-Identifier: MIT */
/*
 * gpu.h - the GPU backend's own structs, and who does what
 *
 *	backend.c	the operations of daemon/backend.h, options; both backends
 *	driver.h	what is needed of a vendor's driver
 *	cuda.c, hip.c	the two that there are; calls.h: what they share
 *	hip_nvidia.h	HIP on NVIDIA's devices, a plug-in: `make hip-nvidia`
 *	device.c	one device: context, lanes, and a new context when it broke
 *	module.c	a file to a module
 *	kernel.c	a kernel of a module, its parameters checked
 *	memory.c	device memory, copies
 *	run.c		launches, waited for or polled
 *	wait.c		... until the device is done
 *	stream.c	functions that put work onto a stream themselves
 *	nvml.c		what NVIDIA's devices say of themselves
 *
 * WHEN A CONTEXT BREAKS
 *
 *   A bad access in a kernel breaks the whole context: all that runs in it ends with
 *   the error, every later call fails.  Which launch was alone on the device, from its
 *   start on, gets -EFAULT, though a copy may have seen the error first: it is its
 *   kernel's fault.  If several ran, nobody can tell whose, and all get -ENODEV,
 *   as does every call from then on, until gpu_device_reset() has built a new context.
 *   Then launches run one at a time for a while (see careful), so that the culprit,
 *   if it comes again, is found out.
 *
 *   NVIDIA's driver builds none in that process (580 on an H100; CUDA's manual says so of
 *   these errors): destroying the context gives the memory back and succeeds, but each
 *   later cuCtxCreate answers with the kernel's error, on a new thread, in a new
 *   link-map namespace or with the library opened anew, too.  Another process is served at
 *   once.  So reset() fails there with -ENODEV, and the device goes on in one, where all of
 *   this is the same: see apart/apart.h.
 *
 *   ROCm's runtime gives no such error for a bad access: it aborts the process.  So its devices
 *   are in processes of their own from the start on, likewise.
 *
 * LOCKS
 *
 *   stack.devices_lock, or lane.lock, then device.context_lock: shared by every call that
 *   uses the context, held alone by whoever ends it or makes it anew, who takes no lane.lock.
 *   Within it device.memory_lock, device.modules_lock, stack.hosts_lock.
 */
#ifndef ARAX_DAEMON_BACKENDS_GPU_GPU_H
#define ARAX_DAEMON_BACKENDS_GPU_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend.h"
#include "daemon/backends/gpu/driver.h"
#include "daemon/backends/params.h"
#include "daemon/backends/streams.h"
#include "daemon/dispatch/ticks.h"

#define GPU_MAX_DEVICES	64
#define GPU_MAX_LANES	16
#define GPU_MAX_FILE	(256u << 20)		/* of a module */
#define GPU_MAX_THREADS	(1ull << 40)		/* of a launch */
#define GPU_MAX_BLOCKS	(1ull << 32)		/* of these: seconds of one that has nothing to do */
#define GPU_CAREFUL	64			/* launches, one at a time, after a fault */

/* Behind the number of launches under way: that of all that began, so that both are one word. */
#define GPU_LAUNCH	(1ull << 32)

/* What araxd.conf says. */
struct gpu_options {
	char library[256];			/* the driver's; "": the machine's */
	char nvml[256];				/* likewise */
	char devices[64];			/* pattern */
	uint32_t lanes;
	bool pools;
	bool follow;				/* launches begin before others have been seen to end */
	bool careful;				/* it was broken before, in another process */
	uint64_t memory;			/* cap; 0: what is free */
};

/* A backend: a driver, and what it was told. */
struct gpu_stack {
	const struct gpu_driver *driver;
	const struct arax_backend_host *araxd;
	struct gpu_options options;
	uint32_t nr_places;
	int places[GPU_MAX_DEVICES];		/* the driver's indices */
	pthread_rwlock_t devices_lock;		/* by who enters another device than his own; or closes one */
	pthread_mutex_t hosts_lock;
	struct gpu_host *hosts;			/* registered host memory */
};

/* printf to araxd's log. */
void gpu_log(const struct gpu_stack *s, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Why this launch fails, for who submitted it. */
void gpu_explain(const struct gpu_stack *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * What is seen of the end of something.  A word in host memory is there sooner than an event is
 * seen; but to have it written costs more than to record an event, it waits for all else that
 * the device is writing, copies too, and it never comes where a context breaks.
 */
struct gpu_end {
	void *stream;
	void *event;			/* NULL: the word */
	const uint32_t *word;		/* @turn or later: it has ended */
	uint32_t turn;
};

/* Host memory that the device writes; a line for each. */
struct gpu_words {
	int32_t result __attribute__((aligned(64)));	/* a kernel's own */
	uint32_t mark __attribute__((aligned(64)));
};

/* Of the device: by launches of a lane, whether they have failed. */
#define GPU_RESULTS	ARAX_LANE_DEPTH
#define GPU_CANCELED	INT32_MIN	/* result of one that did nothing: ARAX_GPU_CANCELED */

/*
 * The last parameter of a kernel: arax_gpu_result of arax/gpu.h, or @value alone.  The driver takes
 * as much of it as the kernel has.
 */
struct gpu_result {
	uint64_t value;				/* address of a launch's words */
	uint64_t failed;
	uint32_t number;			/* not 0 */
	uint32_t behind[3];
};

/*
 * A launch; a lane has some in turn.  Events with times cost more than a short kernel runs: for
 * that, its time is what was seen here.
 */
struct gpu_launch {
	void *start, *stop;			/* events with times */
	void *event;				/* one without */
	struct gpu_end end;
	bool timed;
	bool alone;				/* none was under way when it began, in a whole context */
	uint32_t number;			/* of all that the device has begun */
	uint64_t began_ns;			/* CLOCK_MONOTONIC, when it was handed over */
	struct gpu_words *words;
	uint64_t words_address;			/* as the device sees it */
	uint32_t turn;
	struct gpu_result result;
	bool written;				/* its word was, when its context was ended */
	/* If it was submitted. */
	bool lost;				/* its context went meanwhile */
	bool suspect;				/* it went as this one, alone, was handed over */
	uint64_t cookie;
	struct gpu_kernel *kernel;
};

/*
 * Threads that have no lane copy by that of another one.  An event is one thread's at a time: of two
 * that record it at once, nothing says what it then stands for.
 */
#define GPU_COPY_EVENTS	8

struct gpu_copies {
	void *stream;
	void *events[GPU_COPY_EVENTS];
	uint32_t taken;				/* of these: bits, atomic */
};

/* Those that were submitted are the @under_way ones from @first on; @lock. */
struct gpu_lane {
	void *stream;
	struct gpu_copies in, out;		/* copies the one way don't wait for the other */
	pthread_mutex_t lock;
	uint32_t first, under_way;
	uint64_t ended_ns;			/* when the last launch was seen to have ended */
	uint32_t launched;			/* number of the last one */
	uint64_t failed;			/* what its launches write to, if they fail */
	struct gpu_launch launches[ARAX_LANE_DEPTH];
};

struct gpu_allocation {
	uint64_t address, bytes;
	uint64_t handle;			/* of memory at a wanted address */
	bool placed;
};

struct gpu_device {
	struct gpu_stack *stack;
	const struct gpu_driver *driver;
	uint32_t index;				/* of the backend */
	int place;				/* the driver's index */
	char name[64];
	char bus[16];		/* its PCI address; empty: not known */
	char uuid[40];		/* likewise */
	struct gpu_limits limits;
	uint64_t bytes;				/* of memory that we may use */
	uint64_t granule;			/* of memory at wanted addresses */
	bool pooled;
	bool marks;				/* words are written */
	void *gauges;				/* NVML's handle; NULL: @no_gauges says why */
	char no_gauges[256];
	uint32_t nr_lanes;
	struct gpu_lane lanes[GPU_MAX_LANES];

	pthread_rwlock_t context_lock;
	bool open;				/* there is a context; else it is @broken */
	int sticky;				/* what a context that was ended had said to all calls */
	void *context;
	void *memory_stream;
	uint64_t results;			/* lanes' words: see struct gpu_result */
	uint32_t contexts;			/* that it has had */
	uint32_t joined[GPU_MAX_DEVICES];	/* by index: in which of its contexts that is read directly */
	uint32_t broken;			/* until the context is rebuilt */
	uint64_t launches;			/* GPU_LAUNCH each, and one while it is under way */
	uint32_t careful;			/* launches that run alone, still */
	uint32_t launch_ns;			/* what a launch takes besides its kernel's time */
	uint32_t copy_ns;			/* what a copy takes for each MiB */
	pthread_mutex_t alone;

	pthread_mutex_t memory_lock;		/* what follows */
	uint64_t used;
	uint32_t nr_allocations, room;
	struct gpu_allocation *allocations;	/* by address */

	pthread_mutex_t modules_lock;		/* modules and kernels */
	struct gpu_module *modules;
	struct gpu_kernel *kernels;
	struct stream_files streams;
};

/* device.c */
int gpu_device_open(struct gpu_stack *s, uint32_t index, struct gpu_device **dev);
void gpu_device_close(struct gpu_device *d);
int gpu_device_reset(struct gpu_device *d);
/*
 * Takes the context for this thread: 0, then gpu_leave(); or -ENODEV, then not.  Not
 * twice by one thread: whoever rebuilds may be waiting in between.
 */
int gpu_enter(struct gpu_device *d);
/* -EBUSY as well: somebody ends it or makes it anew. */
int gpu_try_enter(struct gpu_device *d);
/* A broken one as well: to ask it what it ended with. */
int gpu_enter_broken(struct gpu_device *d);
void gpu_leave(struct gpu_device *d);
/*
 * (not entered) Until nothing of its context, the one of that number, is under way any more: a broken
 * one answers to all calls at once, whatever copies still do.  That ends it, but for its memory, which
 * is known until the device has a new one.  Nothing, if it isn't broken.
 */
void gpu_context_end(struct gpu_device *d, uint32_t number);
/* False: somebody is in it, or ends it or makes it anew. */
bool gpu_context_try_end(struct gpu_device *d, uint32_t number);
/*
 * (entered) The errno for a driver's error.  Marks the device as broken if the context is, says so
 * once, and answers -ENODEV then.
 */
int gpu_check(struct gpu_device *d, int err, const char *what);

/* nvml.c; @library NULL: the machine's.  Negative: @why says what is missing. */
int gpu_nvml_open(const char *library, const char *bus_id, void **device, char *why, size_t len);
int gpu_nvml_read(void *device, struct arax_backend_gauges *g, char *why, size_t len);

/* A file of code on a device; kernels of one file share it. */
struct gpu_module {
	struct gpu_module *next;
	uint32_t users;
	size_t bytes;
	char *image;			/* kept: to be compared, and for a new context */
	char file[128];			/* for messages */
	void *module;
};

/* (modules_lock, entered) */
int gpu_module_get(struct gpu_device *d, const struct arax_backend_kernel *k,
		   struct gpu_module **module);
/* @entered false: the context is broken, and takes the module with it. */
void gpu_module_put(struct gpu_device *d, struct gpu_module *m, bool entered);
int gpu_module_load(struct gpu_device *d, struct gpu_module *m);

/*
 * How a kernel tells that it failed: not known; it never does; to the host; or as well to those that
 * come behind it, and it looks whether those have that it comes behind.
 */
enum gpu_tells { GPU_TELLS_UNKNOWN, GPU_TELLS_NOTHING, GPU_TELLS_HOST, GPU_TELLS_ALL };

/* Of a module, or a function of the host. */
struct gpu_kernel {
	struct gpu_kernel *next;
	struct gpu_module *module;	/* NULL: */
	struct stream_function host;
	struct params params;
	void *function;
	enum gpu_tells tells;
	uint32_t max_group;
	bool told;			/* of a failing launch */
	uint32_t usual_ns;		/* what it took last; 0: not known */
	uint32_t launches;
	char name[256];
};

int gpu_kernel_load(struct gpu_device *d, const struct arax_backend_kernel *desc,
		    struct gpu_kernel **kernel);
void gpu_kernel_unload(struct gpu_device *d, struct gpu_kernel *k);
/* In a new context. */
int gpu_kernel_reload(struct gpu_device *d, struct gpu_kernel *k);

/* Parameters of an entry in PTX text: a letter each, see ptx.c.  -ENOENT: no such entry. */
#define GPU_PTX_PARAMS 128
int gpu_ptx_params(const char *text, const char *symbol, char letters[GPU_PTX_PARAMS]);

/* stream.c: (modules_lock, entered) as loading and unloading a kernel, @entered as of gpu_module_put(). */
int gpu_stream_load(struct gpu_device *d, const struct arax_backend_kernel *desc,
		    struct gpu_kernel *k);
void gpu_stream_unload(struct gpu_device *d, struct gpu_kernel *k, bool entered);
/* (modules_lock, context held alone) The context goes. */
void gpu_stream_close(struct gpu_device *d);
/* (entered) Has @k's function put its work onto lane @lane's stream. */
int gpu_stream_call(struct gpu_device *d, const struct gpu_kernel *k, const struct arax_launch *l,
		    const struct gpu_result *result, uint32_t lane);

/* run.c: as in struct arax_backend. */
int gpu_run(struct gpu_device *d, struct arax_backend_run *run);
int gpu_submit(struct gpu_device *d, const struct arax_backend_run *run, uint64_t cookie);
int gpu_wait(struct gpu_device *d, uint32_t lane, struct arax_backend_done *done);
int gpu_poll(struct gpu_device *d, struct arax_backend_done *done, uint32_t max,
	     uint64_t timeout_ns);
int gpu_quiesce(struct gpu_device *d, uint64_t deadline_ns);

/*
 * wait.c.  (entered) Until @end; what the driver says.  @expected_ns from now on, or 0: not
 * known.
 */
int gpu_await(const struct gpu_device *d, const struct gpu_end *end, uint64_t expected_ns);
/* Whether it has ended, or failed: *@err. */
bool gpu_has_ended(const struct gpu_device *d, const struct gpu_end *end, int *err);
void gpu_nap(uint64_t ns);

/* memory.c: as in struct arax_backend. */
int gpu_alloc(struct gpu_device *d, uint64_t bytes, uint64_t wanted, uint64_t *address);
void gpu_free(struct gpu_device *d, uint64_t address);
int gpu_copy_in(struct gpu_device *d, uint32_t lane, uint64_t to, const void *from,
		uint64_t bytes);
int gpu_copy_out(struct gpu_device *d, uint32_t lane, void *to, uint64_t from, uint64_t bytes);
int gpu_copy_peer(struct gpu_device *d, uint64_t to, struct gpu_device *src, uint64_t from,
		  uint64_t bytes);
int gpu_host_register(struct gpu_device *d, void *host, uint64_t bytes);
void gpu_host_unregister(struct gpu_device *d, void *host);
/* (entered) What was registered in the old context is anew. */
void gpu_hosts_again(struct gpu_device *d);
/* What its context has goes with it now. */
void gpu_hosts_gone(struct gpu_device *d);
/* (entered) -EFAULT: it is not inside one allocation. */
int gpu_find_memory(struct gpu_device *d, uint64_t address, uint64_t bytes);
/* (context held alone) Whatever is allocated goes. */
void gpu_memory_drop(struct gpu_device *d);

#endif /* ARAX_DAEMON_BACKENDS_GPU_GPU_H */
