/* SPDX-License-Identifier: MIT */
/*
 * backend.h - the plug-in ABI between araxd and what drives a vendor stack
 *
 * A backend is a shared object with one symbol:
 *
 *	static const struct arax_backend backend = {
 *		.struct_size = sizeof(backend),
 *		.api_version = ARAX_BACKEND_API,
 *		.name = "example",
 *		...
 *	};
 *
 *	const struct arax_backend *arax_backend_init(const struct arax_backend_host *host)
 *	{
 *		return &backend;
 *	}
 *
 * A filter is one too, with arax_filter_init() and struct arax_filter; filters
 * stack on any backend's devices.
 *
 * ABI
 *
 *   Fields are only ever appended.  The loader takes the first struct_size
 *   bytes of a plug-in's struct and sees NULL behind them; a longer one than
 *   its own is cut.  A struct shorter than up to @run, or of another
 *   api_version, is refused.  Structs that cross the border begin with their
 *   size; whoever is handed one touches no field beyond it.
 *
 * ERRORS
 *
 *   Calls return 0 (or a count) or a negative errno.  -ENODEV from a device
 *   call means that the device is lost: it is taken offline.
 *
 * THREADS
 *
 *   load, config, config_complete, probe, open and close come from one thread,
 *   one after the other, before and after all others.  The rest come from any
 *   thread, for different devices at once; for one device: at most `lanes`
 *   runs at a time, each on a lane of its own, memory calls and kernel_load
 *   beside them.
 *
 * OWNERSHIP
 *
 *   Strings and structs given to a call belong to the caller and hold until
 *   the call returns, unless a call says otherwise.
 */
#ifndef ARAX_DAEMON_BACKEND_H
#define ARAX_DAEMON_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "arax/kernel.h"

#define ARAX_BACKEND_API	1

/* Log levels are those of syslog(3). */
#define ARAX_LOG_ERR		3
#define ARAX_LOG_WARNING	4
#define ARAX_LOG_INFO		6
#define ARAX_LOG_DEBUG		7

/**
 * struct arax_backend_host - what araxd offers to a plug-in
 * @struct_size: of this struct in this araxd
 * @api_version: ARAX_BACKEND_API of this araxd
 * @log:	write a line; text is escaped; from any thread
 * @explain:	why the call that this thread is in will return an error, for who submitted the
 *		task: what was wrong, the limit, what to do.  Each time; the last one counts.
 *		At most 255 bytes of it go on.  Of run, submit and wait, and for the log of
 *		kernel_load and config; nobody reads it after others
 * @shared:	1: it serves programs of several users.  What one of them has the device do in this
 *		process, the others may have to wait for
 *
 * It lives as long as the process.
 */
struct arax_backend_host {
	uint32_t struct_size;
	uint32_t api_version;
	void (*log)(int level, const char *plugin, const char *text);
	void (*explain)(const char *text);
	uint32_t shared;
	uint32_t reserved;
};

/* Whether @field is there: not in an older araxd's. */
#define ARAX_HOST_HAS(host, field)						\
	((host)->struct_size >= offsetof(struct arax_backend_host, field) +	\
				sizeof((host)->field))

/**
 * struct arax_backend_info - what a device is
 * @size:	set by the caller
 * @kind:	ARAX_DEVICE_* of uapi/arax.h
 * @lanes:	tasks that it can run side by side, at least 1
 * @units:	cores, compute units, multiprocessors
 * @memory:	bytes; 0: it works on the host's pages, and addresses in its
 *		launches are host addresses
 * @name:	for people; unique within the backend
 * @cpus:	for host devices: CPU list ("0-3,8") that its threads run on
 * @bus:	its PCI address, "0000:a0:00.0"; empty: it has none, or nobody knows.  Devices of
 *		several backends at one address are the same one, of which araxd warns
 * @turns:	1: its launches run one at a time, and lanes only let copies go on beside them.  Of
 *		those that wait it runs the one first that @due_ns of struct arax_backend_run says
 * @gpu:	1: it is a GPU, which may have more work in one launch (manifests' "work")
 * @make:	devices of one backend with the same one, which is not empty, run everything equally
 *		fast: what is learnt of one holds for the others until they have runs of their own
 * @largest:	bytes that one allocation may have, or a launch's range where it works on the host's
 *		pages; 0: as many as there are
 * @lost:	1: it is lost from the start on, as something lacks that it takes: it says -ENODEV to all
 *		that would use it, until araxd's reset has it
 * @uuid:	what tells it from all other devices, parts of one (MIG) too; empty: nobody knows
 */
struct arax_backend_info {
	uint32_t size;
	uint32_t kind;
	uint32_t lanes;
	uint32_t units;
	uint64_t memory;
	char name[64];
	char cpus[128];
	char bus[16];
	uint32_t turns;
	uint32_t gpu;
	char make[64];
	uint64_t largest;
	uint32_t lost;
	char uuid[40];
	uint32_t reserved;
};

/* How a kernel may be run, for kernel_load. */
#define ARAX_KERNEL_SPLIT	0x1	/* by spans of work-groups, at once */
#define ARAX_KERNEL_STREAM	0x2	/* the symbol is an arax_stream_fn of a shared object */
#define ARAX_KERNEL_GPUS	0x4	/* it is meant for GPUs alone: -EOPNOTSUPP elsewhere */

/**
 * struct arax_backend_kernel - an implementation to load
 * @size:	of this struct
 * @flags:	ARAX_KERNEL_*
 * @fd:		the file, checked and open for reading; the caller keeps it open
 *		until after kernel_unload, the callee doesn't close or move it
 * @file:	its path, for messages only: never open it by this name
 * @symbol:	function or entry point in it
 * @signature:	canonical text
 */
struct arax_backend_kernel {
	uint32_t size;
	uint32_t flags;
	int32_t fd;
	uint32_t pad;
	const char *file;
	const char *symbol;
	const char *signature;
};

/* How to run. */
#define ARAX_RUN_INLINE		0x1	/* in the calling thread alone: it is short */
/*
 * Filters see it alone: a worker process runs it, and not the device.  @kernel is nothing that a
 * backend gave, and ranges have no addresses.  One that makes way for others while it runs has no
 * lane any more, so several may be under way on one.
 */
#define ARAX_RUN_WORKER		0x2

/**
 * struct arax_backend_run - one launch
 * @size:	of this struct
 * @flags:	ARAX_RUN_*
 * @lane:	0 .. lanes - 1
 * @kernel:	from kernel_load of this device
 * @launch:	the whole launch (group_begin 0); addresses of ranges are the
 *		host's where memory is 0, else the device's own (see @alloc)
 * @name:	the kernel's name
 * @deadline_ns: CLOCK_MONOTONIC; 0: none.  A backend that can stop a launch
 *		does so and returns -ETIMEDOUT; others ignore it
 * @device_ns:	out, 0 before: what the launch took by the device's own clock,
 *		if it has one
 * @after:	of submit: bit i stands for the launch that was submitted i + 1 before this one on
 *		its lane.  It is to begin when these have ended, and only if they all succeed,
 *		see ARAX_DONE_NOT_RUN.  Others behind it need not wait for it.  Not 0 only where
 *		@follows said so, and of launches that have not been reported
 * @alone:	out, 0 before, with -ENODEV: not 0: from its start on no other launch was on the device,
 *		so that it may be why that was lost
 * @declined:	out, 0 before, with an error: not 0: nothing was done, as this device takes no such launch
 *		(its geometry is too large, a range not as it wants them); another one may.  Who runs
 *		it by submit() answers -EAGAIN, so that it is run()
 * @program, @due_ns: of those of one program that wait for the device the one that is due first had
 *		better begin first.  Programs go in the order in which they come: which of them is
 *		next has been decided.  0, 0: nothing is said
 * @between:	NULL, or of run(), for a kernel with ARAX_KERNEL_SPLIT: called on run()'s thread
 *		with @between_arg, and 0, whenever that has done one part of the launch and others
 *		are left.  0: go on.  -EAGAIN: it is called again, with 1, when no part is under way
 *		on any thread, and may return much later; meanwhile nothing is kept from other launches.
 *		Another error: the launch ends with it, without what is left.  Who has no parts never
 *		calls it
 * @part_ns:	about what a part is to take, if a group takes no longer
 */
struct arax_backend_run {
	uint32_t size;
	uint32_t flags;
	uint32_t lane;
	uint32_t pad;
	void *kernel;
	const struct arax_launch *launch;
	const char *name;
	uint64_t deadline_ns;
	uint64_t device_ns;
	uint32_t after;
	uint32_t program;
	uint64_t due_ns;
	uint32_t alone;
	uint32_t declined;
	int (*between)(void *arg, int still);
	void *between_arg;
	uint64_t part_ns;
};

/* Launches on a lane that were submitted and have not ended, see @wait below. */
#define ARAX_LANE_DEPTH		4

/* It did nothing: one that it was to come after has failed. */
#define ARAX_DONE_NOT_RUN	0x1
/* -ENODEV: see struct arax_backend_run, @alone. */
#define ARAX_DONE_ALONE		0x2

/* An asynchronous launch that is done. */
struct arax_backend_done {
	uint64_t cookie;
	uint64_t device_ns;	/* 0: not known */
	int32_t result;
	uint32_t flags;		/* ARAX_DONE_*; 0 before */
};

/* What is known of a device's gauges. */
#define ARAX_GAUGE_BUSY		0x1
#define ARAX_GAUGE_MEMORY	0x2
#define ARAX_GAUGE_POWER	0x4
#define ARAX_GAUGE_TAKEN	0x8

/**
 * struct arax_backend_gauges - how a device fares now, by its vendor's own measure
 * @size:	set by the caller
 * @known:	ARAX_GAUGE_*; 0 stands where it is not known
 * @busy:	per cent of about the last second in which kernels ran, whosever
 * @memory_busy: per cent in which its memory was read or written
 * @power_mw:	what the board takes, milliwatts
 * @memory_taken: bytes of its memory that are allocated, whosever
 */
struct arax_backend_gauges {
	uint32_t size;
	uint32_t known;
	uint32_t busy;
	uint32_t memory_busy;
	uint64_t power_mw;
	uint64_t memory_taken;
};

/**
 * struct arax_backend - a backend's operations
 *
 * Mandatory; this much is the first version:
 * @struct_size, @api_version: see ABI above
 * @name:	[a-z][a-z0-9-]*; of the backend and of its configuration section
 * @probe:	how many devices there are.  Negative: the stack is absent or
 *		unfit, and @why (of @len bytes, always NUL-terminated by the
 *		caller) says what is missing and what to do, for `arax devices`; with devices:
 *		which others are left out, or ""
 * @open:	device @index, below what probe returned
 * @close:	nothing of the device is in use any more
 * @info:	fill @info up to its size
 * @kernel_load, @kernel_unload: -ENOEXEC: not a kernel for this device,
 *		-ENOENT: no such symbol
 * @run:	run a launch to its end, on the caller's thread or waiting for
 *		others; the kernel's negative errno is passed on.  -EOPNOTSUPP, as of @submit:
 *		nothing was done, and the kernel's next implementation may be tried.  What this
 *		device alone can't take, see @declined of the run, another one may
 *
 * Optional, NULL if absent:
 * @longname, @version: for people
 * @load, @unload: once per process, first and last
 * @config:	a key and its value from araxd.conf; -ENOENT: unknown key,
 *		-EINVAL: bad value
 * @config_complete: after the last config
 * @alloc:	device memory; @wanted != 0: at this device address, -EADDRINUSE
 *		or -EOPNOTSUPP if that can't be; araxd always says 0 so far.
 *		-ENOMEM: no room.  Backends
 *		without real addresses hand out a numbering of their own, in
 *		which ranges inside an allocation are address + offset
 * @free:	the address that alloc gave
 * @copy_in, @copy_out: between host and device memory; synchronous.  Nothing writes to the host
 *		any more when it has failed, also of a device that is lost: others may write there next
 * @copy_peer:	from @src_dev to @dev, both of this backend; -EOPNOTSUPP: these two never can,
 *		go through the host.  araxd measures it for each two at the start, too
 * @host_register, @host_unregister: host memory that copies will use often; then other memory may come
 *		to these addresses
 * @submit:	start a launch; poll or wait reports @cookie.  Launch and ranges are
 *		copied before it returns, @args too.  -EAGAIN: lane is busy, or, with nothing
 *		on it, this launch has to be run()
 * @poll:	up to @max launches that are done; waits @timeout_ns (0: don't)
 * @quiesce:	wait until nothing runs, at most until CLOCK_MONOTONIC
 *		@deadline_ns; -ETIMEDOUT
 * @reset:	stop everything, rebuild the device's context; its memory is gone, its
 *		configuration too, loaded kernels stay loaded.  araxd calls it when the
 *		device said -ENODEV and runs nothing any more.  -EOPNOTSUPP: can't; -EAGAIN:
 *		not now, as there are no descriptors or processes to be had, or for what else
 *		may pass: asked again
 * @configuration: for a device that has to be configured for what it runs: which
 *		configuration @kernel needs, from 1 on.  0: any will do.  Kernels of one
 *		configuration run beside each other, those of different ones never
 * @configure:	make the device ready for @kernel.  Nothing runs, no memory is allocated
 *		and no other call is under way for the device; runs and allocations come
 *		only after it.  After an error the device has no configuration.  info may
 *		say something else of lanes and units afterwards; never more lanes than
 *		when it was first asked
 * @switch_ns:	what configure would take for @kernel, ns; 0: the device is ready for it.
 *		From any thread, and at once: the scheduler asks for each choice
 * @alloc_on:	like alloc, for a copy of the @bytes bytes at @host, which is mapped until
 *		free: copies between the two are at the same offset in both, and there
 *		are no others of either.  -EOPNOTSUPP: take alloc
 * @wait:	until the launch has ended that was submitted first of those on @lane, and is
 *		not reported yet; -ENOENT: there is none.  A backend that has it takes
 *		ARAX_LANE_DEPTH launches on a lane, and runs them in the order of their
 *		submission.  submit and wait of one lane come from one thread at a time, and no
 *		run or poll beside them
 * @gauges:	-EOPNOTSUPP: nothing is known, and @why (of @len bytes) says what is
 *		missing.  From any thread
 * @follows:	whether a launch may be submitted before others whose results it needs have ended:
 *		1 or 0, see @after of struct arax_backend_run.  Needs @wait.  -EAGAIN of @submit
 *		says that this one may not behind those
 */
struct arax_backend {
	uint32_t struct_size;
	uint32_t api_version;
	const char *name;
	int (*probe)(char *why, uint32_t len);
	int (*open)(uint32_t index, void **dev);
	void (*close)(void *dev);
	int (*info)(void *dev, struct arax_backend_info *info);
	int (*kernel_load)(void *dev, const struct arax_backend_kernel *k, void **kernel);
	void (*kernel_unload)(void *dev, void *kernel);
	int (*run)(void *dev, struct arax_backend_run *run);

	const char *longname;
	const char *version;
	int (*load)(void);
	void (*unload)(void);
	int (*config)(const char *key, const char *value);
	int (*config_complete)(void);
	int (*alloc)(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address);
	void (*free)(void *dev, uint64_t address);
	int (*copy_in)(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes);
	int (*copy_out)(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes);
	int (*copy_peer)(void *dev, uint64_t to, void *src_dev, uint64_t from, uint64_t bytes);
	int (*host_register)(void *dev, void *host, uint64_t bytes);
	void (*host_unregister)(void *dev, void *host);
	int (*submit)(void *dev, const struct arax_backend_run *run, uint64_t cookie);
	int (*poll)(void *dev, struct arax_backend_done *done, uint32_t max, uint64_t timeout_ns);
	int (*quiesce)(void *dev, uint64_t deadline_ns);
	int (*reset)(void *dev);
	uint32_t (*configuration)(void *dev, void *kernel);
	int (*configure)(void *dev, void *kernel);
	uint64_t (*switch_ns)(void *dev, void *kernel);
	int (*alloc_on)(void *dev, uint64_t bytes, void *host, uint64_t *address);
	int (*wait)(void *dev, uint32_t lane, struct arax_backend_done *done);
	int (*gauges)(void *dev, struct arax_backend_gauges *g, char *why, uint32_t len);
	int (*follows)(void *dev);
};

#define ARAX_BACKEND_SIZE_MIN	offsetof(struct arax_backend, longname)

typedef const struct arax_backend *arax_backend_init_fn(const struct arax_backend_host *host);

/**
 * struct arax_next - what lies below a filter, on one device
 *
 * Same meanings as in struct arax_backend; the first argument is the next
 * itself.  copy_in and copy_out are NULL where the device works on host pages.
 */
struct arax_next {
	uint32_t struct_size;
	uint32_t pad;
	int (*run)(const struct arax_next *next, struct arax_backend_run *run);
	int (*copy_in)(const struct arax_next *next, uint32_t lane, uint64_t to,
		       const void *from, uint64_t bytes);
	int (*copy_out)(const struct arax_next *next, uint32_t lane, void *to,
			uint64_t from, uint64_t bytes);
};

/**
 * struct arax_filter - a layer on top of a device
 *
 * Mandatory:
 * @struct_size, @api_version, @name: as of a backend
 * @create:	an instance, as one `filter` section of araxd.conf asks for
 * @destroy:	the instance, after all its devices are closed
 *
 * Optional; NULL passes the call on:
 * @config:	a key of the section, before @open; as of a backend
 * @config_complete: after the last key
 * @open:	a device gets this layer; *@dev is given to the calls below
 * @close:	the layer goes
 * @run, @copy_in, @copy_out: do something and call @next's, or don't.  @run comes for launches in
 *		worker processes, too: ARAX_RUN_WORKER
 * @dump:	JSON text about this instance, at most @len bytes with its NUL;
 *		returns what it would need, as snprintf.  From any thread
 */
struct arax_filter {
	uint32_t struct_size;
	uint32_t api_version;
	const char *name;
	int (*create)(void **instance);
	void (*destroy)(void *instance);

	const char *longname;
	int (*config)(void *instance, const char *key, const char *value);
	int (*config_complete)(void *instance);
	int (*open)(void *instance, const struct arax_backend_info *info, void **dev);
	void (*close)(void *instance, void *dev);
	int (*run)(void *dev, const struct arax_next *next, struct arax_backend_run *run);
	int (*copy_in)(void *dev, const struct arax_next *next, uint32_t lane, uint64_t to,
		       const void *from, uint64_t bytes);
	int (*copy_out)(void *dev, const struct arax_next *next, uint32_t lane, void *to,
			uint64_t from, uint64_t bytes);
	int (*dump)(void *instance, char *json, uint32_t len);
};

#define ARAX_FILTER_SIZE_MIN	offsetof(struct arax_filter, longname)

typedef const struct arax_filter *arax_filter_init_fn(const struct arax_backend_host *host);

#endif /* ARAX_DAEMON_BACKEND_H */
