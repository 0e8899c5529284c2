/* SPDX-License-Identifier: MIT */
/*
 * opencl.h - the OpenCL backend's own structs, and who does what
 *
 *	backend.c	the operations of daemon/backend.h; options
 *	platform.c	which devices there are, sub-devices
 *	device.c	one device: context, queues, whether it works on host pages
 *	program.c	source or SPIR-V to a program, with the cache
 *	cache.c		built programs on disk
 *	blob.h		what is written to files, by both of them
 *	child.c		what a driver might not survive, in another process: by trial.c, to find
 *			devices, and by compiler.c, to compile
 *	built.c		a program on its way from who compiles to who runs it
 *	prelude.c	what every source sees
 *	kernel.c	a kernel of a program, its arguments checked
 *	memory.c	device memory under addresses of our own, copies
 *	run.c		a launch
 *	after.c		launches that begin when others have succeeded
 *	stream.c	functions that put work onto a queue themselves
 *
 * WHEN A DEVICE IS LOST
 *
 *   Drivers say so in different ways, and many first of a launch or a copy, by an error that may
 *   mean anything: then it is looked whether a queue can be finished still.  From then on every call
 *   is -ENODEV, until opencl_device_reset() has built a new context.  Which launch was alone on
 *   the device, from its start on, may be why: that is said.  After it launches run one at a time
 *   for a while, so that the culprit, if it comes again, is found out.
 *
 * LOCKS
 *
 *   device.context_lock: shared by memory calls and loading, held alone by who builds a new
 *   context; launches need none, as none is under way then.  Within it device.lock,
 *   device.programs_lock and that of all roots (device.c).
 */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_OPENCL_H
#define ARAX_DAEMON_BACKENDS_OPENCL_OPENCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/addresses.h"
#include "daemon/backend.h"
#include "daemon/backends/opencl/api.h"
#include "daemon/backends/opencl/blob.h"
#include "daemon/backends/params.h"
#include "daemon/backends/streams.h"

#define OPENCL_MAX_DEVICES	256
#define OPENCL_MAX_LANES	16
#define OPENCL_MAX_FILE		(16u << 20)	/* of a source or SPIR-V file */
/* Of a launch: some tens of seconds of a few cores that do nothing in them. */
#define OPENCL_MAX_ITEMS	(1ull << 32)	/* work-items */
#define OPENCL_MAX_GROUPS	(1ull << 28)	/* work-groups: each is a call there */
#define OPENCL_CAREFUL		64		/* launches, one at a time, after a loss */

/* Behind the number of launches under way: that of all that began, so that both are one word. */
#define OPENCL_LAUNCH		(1ull << 32)

enum opencl_specialize { OPENCL_SPECIALIZE_AUTO, OPENCL_SPECIALIZE_YES, OPENCL_SPECIALIZE_NO };

/* What araxd.conf says. */
struct opencl_options {
	char platforms[64], devices[64];	/* patterns */
	char cache[256];			/* folder; "": the default; "no": none */
	uint32_t sub_devices;			/* 0: whole devices */
	uint32_t log_lines;			/* at most, of what a compiler says */
	uint32_t lanes;
	bool zero_copy;
	enum opencl_specialize specialize;
	uint64_t memory;			/* cap; 0: what the device has */
	uint32_t probe_seconds;			/* that discovery may take */
	uint32_t compile_seconds;		/* that one source may take */
	/* No key of araxd.conf, a worker's: files are what opencl_program_save() wrote, and no others. */
	bool built;
};

extern struct opencl_options opencl_options;

/* printf to araxd's log. */
void opencl_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Why this launch fails, for who submitted it. */
void opencl_explain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on in this process. */
void opencl_say_nothing(void);

/* A context: of one device, or of all sub-devices of one. */
struct opencl_root {
	cl_platform_id platform;
	cl_device_id id;
	uint32_t nr_subs;
	cl_device_id subs[OPENCL_MAX_DEVICES];
	cl_context context;
	uint32_t users;			/* open devices */
};

/* A device to be opened, as probe found it. */
struct opencl_place {
	struct opencl_root *root;
	cl_device_id id;
};

/*
 * trial.c: opencl_find() in a child, as long as no driver is loaded and there are no threads
 * here.  Negative errno: there is no device, or a driver that can't be let in, see @why.  0, and
 * @why not "": that one is left out.
 */
int opencl_try(char *why, size_t len);
/* After the last device: who was left out may be found again. */
void opencl_try_forget(void);

/* platform.c: one thread, see backend.h. */
int opencl_find(char *why, uint32_t len);
const struct opencl_place *opencl_place(uint32_t index);
void opencl_forget(void);

/* Where a launch's ranges are. */
enum opencl_memory {
	OPENCL_SVM,		/* host pages, by their addresses */
	OPENCL_HOST_PTR,	/* host pages, as buffers on them */
	OPENCL_OWN,		/* device memory */
};

/*
 * Results in host memory: a lane's launches have these in turn, each on cache lines of its own.
 * Twice as many as can be under way, so that one is there still when whoever comes after its
 * launch looks at it, be it that that has been reported meanwhile.
 */
#define OPENCL_RESULTS	(2 * ARAX_LANE_DEPTH)
#define OPENCL_RESULT_STRIDE	32	/* cl_int */

/**
 * struct opencl_before - what a launch comes after
 * @token:	whoever takes it, once, tells how @launch has ended; 0: somebody has
 * @failed:	it was reported so (the lane's thread's)
 */
struct opencl_before {
	const struct opencl_launch *launch;
	const cl_int *result;
	_Atomic uintptr_t token;
	bool failed;
};

/**
 * struct opencl_launch - a launch, from enqueueing to its end; a lane has some in turn
 * @result, @result_mem: where its kernel stores its result: in host memory or on the device
 * @result_dirty: that may not be 0 any more
 * @dims, @global, @local: its geometry
 * @before:	what it comes after; @left of these have not succeeded, or one has @failed
 * @over:	it is enqueued, or never will be: nobody but the lane's thread touches it any more
 * @behind, @nr_behind, @event: under the lane's lock until then.  Tokens of those that come after it
 * @error:	of enqueueing it
 * @event:	of the kernel, or behind all that a function has put there, whose start is behind
 *		@began; else that is NULL
 * @fetched:	of its result on its way back; NULL: it needs none
 * @last:	whichever comes last behind @event and is waited for, if anything; else NULL
 * @mems:	made for this launch; NULL: not ours
 * @staged:	ranges that begin, at @data, where no buffer may: @bytes copied in from @offset of
 *		@own and @back back, which @came and @went tell of.  @accounted: they count as
 *		the device's memory
 * @number, @alone: of all that the device has begun; none was under way then, on a device that was
 *		there
 * @suspect:	the device was lost as this one, alone, was submitted
 */
struct opencl_launch {
	cl_int *result;
	cl_mem result_mem;
	cl_uint dims;
	size_t global[3], local[3];
	struct opencl_before before[ARAX_LANE_DEPTH];
	_Atomic uint32_t left;
	_Atomic bool failed, over;
	uintptr_t behind[ARAX_LANE_DEPTH];
	uint32_t nr_behind;
	cl_int error;
	bool result_dirty, alone, suspect, declined;
	uint32_t number;
	struct opencl_device *dev;
	struct opencl_kernel *k;
	struct opencl_lane *lane;
	cl_kernel kernel;
	const struct arax_launch *l;
	uint64_t cookie;
	cl_event event, last, began, fetched;
	cl_mem mems[PARAMS_MAX];
	uint32_t nr_staged;
	struct opencl_staged {
		const void *data;
		cl_mem own, temporary;
		cl_event came, went;
		uint64_t offset, bytes, back;
		bool release_own, accounted;
	} staged[PARAMS_MAX];
};

/*
 * Those that were submitted are the @under_way ones from @first on.
 * @begun:	launches so far
 * @result_mems: buffers on @results, where these are for kernels to write to
 */
struct opencl_lane {
	cl_command_queue queue;
	cl_command_queue copies;
	uint32_t first, under_way;
	uint32_t index;
	uint32_t begun;
	cl_int *results;
	cl_mem result_mems[OPENCL_RESULTS];
	pthread_mutex_t lock;
	struct opencl_launch launches[ARAX_LANE_DEPTH];
};

struct opencl_device {
	uint32_t index;
	const struct opencl_place *place;
	cl_device_id id;
	cl_context context;
	bool own_context;	/* it is not its root's any more */
	char name[64];
	char make[64];
	char bus[16];		/* its PCI address; empty: not known */
	char key[1024];		/* platform, device, driver and versions, for the cache */
	bool has_il, has_arg_info, host_unified, is_gpu;
	bool follows;		/* see opencl_after_works() */
	_Atomic uint32_t asked;	/* times that the driver will call back (after.c) */
	enum opencl_memory memory;
	uint32_t units, align;	/* of a sub-buffer's origin */
	uint32_t max_dims;
	size_t max_items[3], max_group;
	uint64_t bytes, max_alloc;	/* of its memory, of one allocation by its own word */
	uint64_t largest;		/* the same if that is so; 0: there is no limit */
	bool lost;
	uint64_t launches;		/* OPENCL_LAUNCH each, and one while it is under way */
	uint32_t careful;		/* launches that run alone, still */
	pthread_mutex_t run_alone;
	/*
	 * Around parts' making and going, and the going of what they are parts of.  NVIDIA's driver (580)
	 * breaks its list of them where lanes do so at once, and falls over it.
	 */
	pthread_mutex_t parts_lock;
	uint32_t nr_lanes;
	struct opencl_lane lanes[OPENCL_MAX_LANES];

	pthread_rwlock_t context_lock;
	pthread_rwlock_t lock;		/* what follows */
	uint64_t used;
	struct addresses addresses;	/* of cl_mem */

	pthread_mutex_t programs_lock;	/* programs and kernels */
	struct opencl_program *programs, *refused;	/* none of whose kernels is there; @table: why */
	struct opencl_kernel *kernels;
	struct stream_files streams;
};

/* device.c */
int opencl_device_open(uint32_t index, struct opencl_device **dev);
void opencl_device_close(struct opencl_device *d);
/* A context and no queues, to compile; it is never closed. */
int opencl_device_open_bare(uint32_t index, struct opencl_device **dev);
/* As in struct arax_backend; -EBUSY: launches are under way. */
int opencl_device_reset(struct opencl_device *d);
/*
 * Takes the context for this thread: 0, then opencl_leave(); -ENODEV, then not.  Not twice by one
 * thread: whoever builds a new one may be waiting in between.
 */
int opencl_enter(struct opencl_device *d);
void opencl_leave(struct opencl_device *d);
/* The errno for @err; marks the device as lost if that is what it says. */
int opencl_check(struct opencl_device *d, cl_int err);
/*
 * Likewise of a launch, a copy or an allocation: also where it says something else, and nothing
 * goes any more.
 */
int opencl_check_whole(struct opencl_device *d, cl_command_queue copies, cl_int err);

/*
 * With what a command has failed that is over: who waits for it, or for all of its queue, is not told
 * that by every driver.  NULL: there is none.
 */
cl_int opencl_outcome(cl_event event);

/* -ENODEV: nobody can wait for what is under way there. */
int opencl_lose(struct opencl_device *d, cl_int err);

/* A program of one device; kernels of one file share it. */
struct opencl_program {
	struct opencl_program *next;
	uint32_t users;
	uint64_t hash;
	size_t bytes;
	char *text;		/* the file, to be compared */
	cl_program program;
	char *table;		/* kernels and their arguments, see program.c */
};

int opencl_program_get(struct opencl_device *d, const struct arax_backend_kernel *k,
		       struct opencl_program **program);
void opencl_program_put(struct opencl_device *d, struct opencl_program *p);
/* Those that were refused. */
void opencl_program_forget(struct opencl_device *d);
/* For another process, on a device that is open bare; what comes out goes to @fd. */
int opencl_program_compile(struct opencl_device *d, const struct arax_backend_kernel *k,
			   const struct blob *source, int fd);
/* (programs_lock) In a new context, for @k, a kernel of it. */
int opencl_program_again(struct opencl_device *d, const struct arax_backend_kernel *k,
			 struct opencl_program *p);
/* To a file, for a process with `built`.  -ENOENT: the driver has no binary for it. */
int opencl_program_save(struct opencl_device *d, const struct opencl_program *p, int fd);
/* The line of a kernel in the table, without its name; NULL: no such kernel. */
const char *opencl_program_line(const struct opencl_program *p, const char *symbol);

/* What stands in front of every source. */
const char *opencl_prelude(bool gpu);

/* A kernel on a device: of a program, or a function of the host. */
struct opencl_kernel {
	struct opencl_kernel *next;
	struct arax_backend_kernel desc;	/* with strings of its own, and no file */
	struct opencl_program *program;		/* NULL: */
	struct stream_function function;
	struct params params;
	bool has_result;
	bool told;		/* of a failing launch */
	uint32_t nr_opened;
	size_t max_group;
	/* Arguments are state: one for each that may be under way. */
	cl_kernel lanes[OPENCL_MAX_LANES][ARAX_LANE_DEPTH];
	char name[64];
};

int opencl_kernel_load(struct opencl_device *d, const struct arax_backend_kernel *desc,
		       struct opencl_kernel **kernel);
void opencl_kernel_unload(struct opencl_device *d, struct opencl_kernel *k);
/* (programs_lock) The context goes; in a new one. */
void opencl_kernel_close(struct opencl_kernel *k);
int opencl_kernel_again(struct opencl_device *d, struct opencl_kernel *k);

/*
 * after.c: enqueues @x, whose arguments are set, as soon as those that @after stands for, as in
 * struct arax_backend_run, have succeeded.
 */
void opencl_after_begin(struct opencl_launch *x, uint32_t after);
/*
 * Those before it on its lane have all been reported: enqueues it if that has not been done yet.
 * False: it has not run.
 */
bool opencl_after_end(struct opencl_launch *x);
/* It has not succeeded, which those that come after it have to know. */
void opencl_after_failed(struct opencl_lane *lane, const struct opencl_launch *x);
/* Before the first launch, and after the last one.  False: the driver may call back still. */
void opencl_after_open(struct opencl_device *d);
bool opencl_after_close(struct opencl_device *d);
/*
 * While there are none: whether the driver has called back of all before.  If not the log says
 * that, and @else_what.
 */
bool opencl_after_over(struct opencl_device *d, const char *else_what);
/*
 * Whether the driver lets a command be enqueued when it tells of another one's end, and each sees
 * what the one before it wrote, though through another buffer on the same host pages (@at, a
 * page), of which the standard promises nothing.
 */
bool opencl_after_works(struct opencl_device *d, char *at);

/* stream.c: as opencl_kernel_load() and _unload(); and what @k has the lane's queue do for a launch. */
int opencl_stream_load(struct opencl_device *d, const struct arax_backend_kernel *desc,
		       struct opencl_kernel *k);
void opencl_stream_unload(struct opencl_device *d, struct opencl_kernel *k);
/* The queues go. */
void opencl_stream_close(struct opencl_device *d);
int opencl_stream_call(struct opencl_launch *x, const cl_mem *mems);

/* run.c: as in struct arax_backend. */
int opencl_run(struct opencl_device *d, struct arax_backend_run *run);
int opencl_submit(struct opencl_device *d, const struct arax_backend_run *run, uint64_t cookie);
int opencl_wait(struct opencl_device *d, uint32_t lane, struct arax_backend_done *done);

/* memory.c: as in struct arax_backend. */
int opencl_alloc(struct opencl_device *d, uint64_t bytes, uint64_t wanted, uint64_t *address);
void opencl_free(struct opencl_device *d, uint64_t address);
int opencl_copy_in(struct opencl_device *d, uint32_t lane, uint64_t to, const void *from,
		   uint64_t bytes);
int opencl_copy_out(struct opencl_device *d, uint32_t lane, void *to, uint64_t from,
		    uint64_t bytes);
int opencl_copy_peer(struct opencl_device *d, uint64_t to, struct opencl_device *src,
		     uint64_t from, uint64_t bytes);
/* The buffer that holds a range, and where in it.  -EFAULT: none does. */
int opencl_find_memory(struct opencl_device *d, uint64_t address, uint64_t bytes, cl_mem *mem,
		       uint64_t *offset);
/* Beside what opencl_alloc() gives.  -ENOMEM: more than the device has, or may have. */
int opencl_account(struct opencl_device *d, uint64_t bytes);
void opencl_unaccount(struct opencl_device *d, uint64_t bytes);
/* (nobody else is there) Whatever is allocated goes. */
void opencl_memory_drop(struct opencl_device *d);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_OPENCL_H */
