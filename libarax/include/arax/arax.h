/* SPDX-License-Identifier: MIT */
/*
 * libarax - submit work to the machine's accelerators without naming one
 *
 *	struct arax *ax;
 *	struct arax_buffer *x;
 *	struct arax_queue *q;
 *	struct arax_kernel scale;
 *	float factor = 2;
 *
 *	arax_open(&ax, NULL);
 *	arax_kernel_find(ax, "scale", arax_deadline(1000000000), &scale);
 *	arax_buffer_create(ax, 4096, 0, &x);
 *	arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &q);
 *	... write arax_buffer_data(x) ...
 *	arax_launch(q, &scale, arax_grid(1024, 1, 1), ARAX_ARGS(factor),
 *		    ARAX_RANGES(arax_inout(x)), NULL);
 *	arax_queue_finish(q, ARAX_DEADLINE_NONE);
 *	... read arax_buffer_data(x) ...
 *	arax_close(ax);
 *
 * ERRORS	Calls return 0 (or a count, index or descriptor) or a negative
 *		errno.  arax_error_text() says more about the calling thread's
 *		last failure.  What each errno means stands in arax/uapi.h.
 *
 * THREADS	Every call may be made from any thread at any time, except that
 *		nothing may use an object while or after it is destroyed, and that of
 *		the threads one alone polls a context: see arax_poll_fd().
 *		Nothing is async-signal-safe.  Waits go on over signals.
 *
 * CANCELLATION	A thread may be cancelled (pthread_cancel()) while it waits: for tasks, for
 *		timelines, for a kernel to be published, or for room in a full ring.
 *		All others go on, and so do its tasks: its events must stay in place until
 *		they are done.  No thread is cancelled within a notify.  One that is
 *		cancelled in a call that makes something may leave that behind: hold
 *		cancellation off there (pthread_setcancelstate()).  arax_close(),
 *		arax_process(), arax_test() and all others that don't wait are no
 *		cancellation points.
 *
 * FORK		A context belongs to the process that opened it.  In a forked
 *		child its calls return -EPERM; arax_close() frees what is left.
 *
 * TIME		In nanoseconds.  A deadline is absolute, CLOCK_MONOTONIC, and
 *		ARAX_DEADLINE_NONE if there is none; see arax_deadline().
 *
 * MEMORY	What *_create(), *_import() and arax_open() give belongs to the
 *		caller, who gives it back to *_destroy() or arax_close().
 *		arax_close() also destroys whatever the context still has.
 */
#ifndef ARAX_ARAX_H
#define ARAX_ARAX_H

#include <stddef.h>
#include <stdint.h>

#include <arax/uapi.h>

#ifdef __cplusplus
#include <arax/arax.hpp>

extern "C" {
#endif

struct arax;		/* a context: one connection to Arax */
struct arax_queue;	/* what tasks are submitted to */
struct arax_timeline;	/* a counter that tasks signal and wait for */

/*
 * Most small calls are inline, and exist as symbols for other languages too
 * (libarax/ffi.c defines ARAX_INLINE differently).
 */
#ifndef ARAX_INLINE
#define ARAX_INLINE static inline
#endif

/* ------------------------------------------------------------------ */
/* Contexts                                                            */

#define ARAX_OPEN_QUERY		0x1	/* no rings: look, but submit nothing */

/**
 * struct arax_options - how to open; zero stands for the default everywhere
 * @size:	sizeof(struct arax_options)
 * @flags:	ARAX_OPEN_*
 * @link:	"kernel", "broker" or "broker:PATH"; overridden by ARAX_LINK in
 *		the environment; NULL: the first that answers of /dev/arax,
 *		/run/arax/arax.sock, $XDG_RUNTIME_DIR/arax/arax.sock
 * @depth:	tasks in flight: a power of two, 2..65536, default 256
 * @entry_size:	128 (default), or 256: room for 6 ranges in place of 2 before the
 *		arena is needed
 * @arena_size:	bytes, a multiple of 4096 up to 16 MiB, default 128 KiB: room
 *		for the ranges, arguments and deadlines that don't fit an entry
 */
struct arax_options {
	size_t size;
	uint32_t flags;
	uint32_t depth;
	const char *link;
	uint32_t entry_size;
	uint32_t arena_size;
	uint64_t reserved[4];
};

/*
 * ENOENT, ECONNREFUSED: nothing answers; EACCES or EPERM: what answers may not be used;
 * EINVAL, E2BIG: bad options; EDQUOT: too many contexts or too much memory.
 */
int arax_open(struct arax **ax, const struct arax_options *options);
/*
 * Waits for nothing: unfinished tasks are dropped, their events get ECANCELED.  No call but
 * arax_event_done() takes an event of the context from then on.  EDEADLK, and nothing is closed,
 * from within a notify that a call with this context makes: that call goes on with it.
 */
int arax_close(struct arax *ax);

const char *arax_version(void);
/* The text of an errno (of either sign) as Arax means it; never NULL. */
const char *arax_strerror(int error);
/* About the calling thread's last failure; valid until its next one. */
const char *arax_error_text(void);

/* Sets info->size itself, as do the other queries. */
int arax_get_info(struct arax *ax, struct arax_info *info);
/* -ENOENT past the last device: indices count from 0. */
int arax_get_device(struct arax *ax, uint32_t index, struct arax_device *device);
/* @scope: ARAX_USAGE_CONTEXT, _TENANT or _USER */
int arax_get_usage(struct arax *ax, uint32_t scope, struct arax_usage *usage);

/* The time @ns from now; ARAX_DEADLINE_NONE if that passes the end of time. */
uint64_t arax_deadline(uint64_t ns);

/* ------------------------------------------------------------------ */
/* Kernels                                                             */

/**
 * struct arax_kernel - a named computation; a plain value, nothing to free
 * @id:		stable while Arax runs
 * @kinds:	bit per enum arax_device_kind that has an implementation
 * @sig:	ranges and bytes of arguments that a launch takes
 * @text:	the signature for people
 */
struct arax_kernel {
	uint32_t id;
	uint32_t kinds;
	struct arax_signature sig;
	char name[ARAX_NAME_LEN];
	char text[256];
	uint64_t reserved[4];
};

/* Waits until @deadline (0: don't) for it to be published.  -ENOENT. */
int arax_kernel_find(struct arax *ax, const char *name, uint64_t deadline,
		     struct arax_kernel *kernel);
/* The first with an id of at least @id.  -ENOENT past the last. */
int arax_kernel_next(struct arax *ax, uint32_t id, struct arax_kernel *kernel);

/* ------------------------------------------------------------------ */
/* Kernels of the program's own                                        */

/**
 * struct arax_own_kernel - a kernel in an image
 * @signature:	as in a library's manifest: "scale(inout f32 x[], f32 a, u32 n)"
 * @symbol:	what the image calls it; NULL: the name in the signature
 * @flags:	0, or ARAX_MODULE_SPLIT: its work-groups may run at once
 */
struct arax_own_kernel {
	const char *signature;
	const char *symbol;
	uint32_t flags;
	uint32_t reserved;
};

/*
 * Bring kernels that only this context can launch.  @image: for ARAX_DEVICE_CPU a shared
 * object whose symbols are of type arax_kernel_fn (arax/kernel.h), for ARAX_DEVICE_OPENCL
 * OpenCL C or SPIR-V, which is compiled; at most ARAX_MODULE_MAX_BYTES; it is copied.  @nr of @kernels go to @loaded, in the same order.
 * It runs in a process with this program's uid that has neither files nor network, and
 * reaches the ranges of its launches alone.  Waits for tasks before it in no queue.
 *
 * Their image counts as memory until arax_module_unload() or arax_close().  After
 * araxd was restarted launches end with ENOEXEC: bring it again.
 *
 * EINVAL: a signature; ENOEXEC: not an image for this machine, or it does not compile; ENOENT: no such symbol;
 * EOPNOTSUPP: nobody here could run it; E2BIG, ENOSPC (ARAX_MAX_MODULES), EDQUOT.
 * arax_error_text() has what araxd or the loader said, or how that begins: see arax_module_log().
 */
int arax_module_load(struct arax *ax, uint32_t kind, const void *image, uint64_t bytes,
		     const struct arax_own_kernel *kernels, uint32_t nr,
		     struct arax_kernel *loaded);
/* The same with the image in a file.  Its errors too. */
int arax_module_load_file(struct arax *ax, uint32_t kind, const char *path,
			  const struct arax_own_kernel *kernels, uint32_t nr,
			  struct arax_kernel *loaded);
/*
 * @kernel: any of the image; all go.  Launches that have not begun end with ENOEXEC.
 * ENOENT: it is none of this context's.
 */
int arax_module_unload(struct arax *ax, const struct arax_kernel *kernel);
/*
 * All that was said, at most 64 KiB, when the last load in @ax failed that did: into @text as far as
 * it fits with a NUL behind it.  Returns its whole length; @text may be NULL if @size is 0.
 */
size_t arax_module_log(struct arax *ax, char *text, size_t size);

/* ------------------------------------------------------------------ */
/* Buffers                                                             */

/* Pages that this program and the devices share.  Use the accessors. */
struct arax_buffer {
	void *data;
	uint64_t bytes;
	uint32_t handle;
	uint32_t reserved;
};

/*
 * Zeroed.  @bytes: 1 or more; @flags: 0, or ARAX_BUFFER_EXPLICIT: the program touches
 * the bytes only between arax_access_begin() and arax_access_end(), so that results can
 * stay on a device while only tasks use them.
 * ENOMEM: the machine or cgroup has no room; EDQUOT: the tenant has none.
 */
int arax_buffer_create(struct arax *ax, uint64_t bytes, uint32_t flags,
		       struct arax_buffer **buffer);
/*
 * @type: ARAX_IMPORT_ARAX, _MEMFD or _DMABUF.  @fd stays the caller's.  The data
 * is mapped in place, but for a dma-buf that can't be (data is NULL then).  EINVAL:
 * seals are missing, or, on the broker link, pages: fallocate() what ftruncate() made.
 * EOPNOTSUPP: no backend or not this link can use such memory.
 */
int arax_buffer_import(struct arax *ax, uint32_t type, int fd, struct arax_buffer **buffer);
/* The caller's page-aligned memory, which must stay mapped till destroyed. */
int arax_buffer_import_user(struct arax *ax, void *address, uint64_t bytes,
			    struct arax_buffer **buffer);
/* @type: enum arax_export.  Returns a descriptor (close-on-exec), the caller's. */
int arax_buffer_export(struct arax_buffer *buffer, uint32_t type);
/* Take it back from everyone it was exported to; its creator only. */
int arax_buffer_revoke(struct arax_buffer *buffer);
int arax_buffer_query(struct arax_buffer *buffer, struct arax_buffer_query *query);
/* Unmaps.  Tasks in flight keep the pages that they need.  NULL is ignored. */
void arax_buffer_destroy(struct arax_buffer *buffer);

ARAX_INLINE void *arax_buffer_data(const struct arax_buffer *buffer)
{
	return buffer->data;
}

/* As asked for at creation: not rounded up.  Of what was imported the size of its pages. */
ARAX_INLINE uint64_t arax_buffer_bytes(const struct arax_buffer *buffer)
{
	return buffer->bytes;
}

ARAX_INLINE uint32_t arax_buffer_handle(const struct arax_buffer *buffer)
{
	return buffer->handle;
}

/* ------------------------------------------------------------------ */
/* Ranges: which bytes a task touches, and how                         */

/* @count rows of @length bytes, @stride bytes from one's start to the next's. */
ARAX_INLINE struct arax_range arax_rows(const struct arax_buffer *buffer, uint32_t access,
					uint64_t offset, uint64_t length, uint32_t stride,
					uint32_t count)
{
	struct arax_range r;

	r.buffer = buffer->handle;
	r.access = access;
	r.offset = offset;
	r.length = length;
	r.stride = stride;
	r.count = count;
	return r;
}

ARAX_INLINE struct arax_range arax_part(const struct arax_buffer *buffer, uint32_t access,
					uint64_t offset, uint64_t length)
{
	return arax_rows(buffer, access, offset, length, 0, 1);
}

/* The whole buffer: read, overwritten wholly, or both. */
ARAX_INLINE struct arax_range arax_in(const struct arax_buffer *buffer)
{
	return arax_part(buffer, ARAX_IN, 0, buffer->bytes);
}

ARAX_INLINE struct arax_range arax_out(const struct arax_buffer *buffer)
{
	return arax_part(buffer, ARAX_OUT, 0, buffer->bytes);
}

ARAX_INLINE struct arax_range arax_inout(const struct arax_buffer *buffer)
{
	return arax_part(buffer, ARAX_INOUT, 0, buffer->bytes);
}

/* ------------------------------------------------------------------ */
/* Events: how a task's end becomes known                              */

/**
 * struct arax_event - one task's completion, in memory of the caller
 * @state:	0 unused, 1 pending, 2 done; read it by arax_event_done()
 * @result:	0 or a negative errno; -ECANCELED with @origin set: the task with
 *		that tag failed, and this one depended on it
 * @notify:	if set, called once by whichever thread of the program learns of
 *		the end (it makes an Arax call at that time).  The event is the
 *		program's again from then on, and not before, whatever arax_event_done() or
 *		arax_queue_finish() say.  It may submit, but not wait, nor close the
 *		context; those that its own calls make due are called after it.
 * @data:	for the program
 * @tag:	of the task; ARAX_TAG_EPOCH() of it is 0 if no daemon ever had it.  0: it was
 *		in flight when its context ended, and nobody knows whether one had it
 * @device:	index of the device that ran it, ~0 if none did
 * @device_ns, @wait_ns, @bytes: time on the device, time before it, bytes moved
 *
 * Zero it before its first use.  It is the library's while pending: keep it in
 * place.  Then it may be used again.
 */
struct arax_event {
	uint32_t state;
	int32_t result;
	void (*notify)(struct arax_event *event);
	void *data;
	uint64_t tag;
	uint64_t origin;
	uint64_t device_ns;
	uint64_t wait_ns;
	uint64_t bytes;
	uint32_t device;
	uint32_t reserved0;
	struct arax *ax;
	struct arax_event *next;
	uint64_t ticket;
};

#ifdef __cplusplus
#define ARAX_EVENT_INIT		{}
#else
#define ARAX_EVENT_INIT		{ 0 }
#endif

/* No system call and no progress: see arax_test() and arax_process(). */
ARAX_INLINE int arax_event_done(const struct arax_event *event)
{
	/* Pairs with the release in libarax/complete.c: event_finish(). */
	return __atomic_load_n(&event->state, __ATOMIC_ACQUIRE) == 2;
}

/*
 * Wait for one event, for all of them, or for the first of them (returns its
 * index).  Without NOTIFY events.  arax_wait() returns the task's result;
 * arax_wait_all() the first failure's in the order of @events, when all are
 * done.  -ETIMEDOUT: past the deadline (or the task's own; look at the event).
 * -EINVAL: an event that was never submitted.
 */
int arax_wait(struct arax_event *event, uint64_t deadline);
int arax_wait_all(struct arax_event *const *events, size_t count, uint64_t deadline);
int arax_wait_any(struct arax_event *const *events, size_t count, uint64_t deadline);
/*
 * Ask that the event's task not run.  Returns 1 if it was taken back at once, 0 if
 * it has been asked for, or it is done.  In all cases the event tells of the end:
 * -ECANCELED if the task had not started.
 */
int arax_cancel(struct arax_event *event);
/* 1: done; 0: not yet.  Takes what has completed, never sleeps. */
int arax_test(struct arax_event *event);
/* Take what has completed (calls notify), never sleeps: how many, or -errno. */
int arax_process(struct arax *ax);
/*
 * A descriptor for poll(), readable when arax_process() has something to do, and for
 * good when the link or the context has ended.  It is the context's: don't read or close it.
 * One thread polls it, and no other calls arax_process() then, which would take from it what it
 * is to be woken for.  Others may wait, test and submit.
 */
int arax_poll_fd(struct arax *ax);

/* ------------------------------------------------------------------ */
/* Queues                                                              */

/*
 * @flags: ARAX_QUEUE_IN_ORDER, or ARAX_QUEUE_DATAFLOW (a task waits for earlier
 * ones that touch the same bytes, if either writes); | ARAX_QUEUE_CONTINUE;
 * | ARAX_QUEUE_WAIT: what is over the tenant's or user's limit of tasks waits for room,
 * with all that the context submits behind it, and doesn't fail with EDQUOT.
 * @priority: -20 (first) to 19, among the tenant's own tasks.
 */
int arax_queue_create(struct arax *ax, uint32_t flags, int priority,
		      struct arax_queue **queue);

/**
 * struct arax_queue_options - what a queue is like; zero stands for the default everywhere
 * @size:	sizeof(struct arax_queue_options)
 * @flags, @priority: as for arax_queue_create()
 * @target_ns:	its tasks are wanted done this long after they are submitted: those whose
 *		time comes first go first among those of their priority.  None fails for
 *		being late (see arax_desc.deadline for that); 0: no hurry
 */
struct arax_queue_options {
	size_t size;
	uint32_t flags;
	int32_t priority;
	uint64_t target_ns;
	uint64_t reserved[4];
};

/* EINVAL: also a target of more than 2^62 ns; E2BIG: options of a newer library. */
int arax_queue_create_with(struct arax *ax, const struct arax_queue_options *options,
			   struct arax_queue **queue);
/*
 * Wait till the queue is empty.  Returns the first failure since the last call
 * among tasks submitted without an event.  Notifies of its tasks that another thread
 * calls may still be under way then, or about to be.
 */
int arax_queue_finish(struct arax_queue *queue, uint64_t deadline);
/* Tasks that have not started end with ECANCELED.  Returns how many at once. */
int arax_queue_cancel(struct arax_queue *queue);
/* Its tasks go on.  NULL is ignored. */
void arax_queue_destroy(struct arax_queue *queue);

/* ------------------------------------------------------------------ */
/* Tasks, the short way                                                */

struct arax_grid {
	uint32_t grid[3];	/* work-groups */
	uint16_t block[3];	/* work-items of one */
};

/* Groups of one work-item. */
ARAX_INLINE struct arax_grid arax_grid(uint32_t x, uint32_t y, uint32_t z)
{
	struct arax_grid g;

	g.grid[0] = x;
	g.grid[1] = y;
	g.grid[2] = z;
	g.block[0] = 1;
	g.block[1] = 1;
	g.block[2] = 1;
	return g;
}

/* Two parameters at once: address and size of a variable; array and count. */
#define ARAX_ARGS(variable)	&(variable), sizeof(variable)
#define ARAX_NO_ARGS		NULL, 0
#ifndef __cplusplus
#define ARAX_RANGES(...)	((const struct arax_range[]){ __VA_ARGS__ }), \
				sizeof((const struct arax_range[]){ __VA_ARGS__ }) / \
				sizeof(struct arax_range)
#endif
#define ARAX_NO_RANGES		NULL, 0

/*
 * Arguments and ranges are copied before the call returns.  @event may be NULL:
 * arax_queue_finish() tells of failures then.  While the ring is full these
 * calls wait.  EINVAL: not what the kernel's signature says, or a busy event
 * (EBUSY).
 */
int arax_launch(struct arax_queue *queue, const struct arax_kernel *kernel,
		struct arax_grid grid, const void *args, size_t arg_len,
		const struct arax_range *ranges, size_t nr_ranges, struct arax_event *event);
/* Two ranges of one size; access bits are set by the call. */
int arax_copy(struct arax_queue *queue, struct arax_range to, struct arax_range from,
	      struct arax_event *event);
/* @pattern of 1, 2, 4, 8 or 16 bytes, repeated. */
int arax_fill(struct arax_queue *queue, struct arax_range to, const void *pattern,
	      size_t pattern_len, struct arax_event *event);
/* Completes when all tasks before it in the queue have; those after it wait. */
int arax_marker(struct arax_queue *queue, struct arax_event *event);
/* A service of the daemon; what it means is between the service and the caller. */
int arax_call(struct arax_queue *queue, uint32_t service, const void *args, size_t arg_len,
	      const struct arax_range *ranges, size_t nr_ranges, struct arax_event *event);

/*
 * The program itself is about to read (ARAX_IN) or write (ARAX_OUT, ARAX_INOUT)
 * these bytes, through arax_buffer_data().  Waits for just those tasks that a task
 * with this range, submitted to @queue now, would wait for: to read, for those that
 * write some of the bytes; to write, for those that read some as well.  All others
 * go on, and no call is needed where none of them is in flight.  Tasks submitted
 * after arax_access_end() see what was written; until then none should be that
 * touches the bytes.  For an ARAX_BUFFER_EXPLICIT buffer the call is always needed, and
 * brings the bytes.
 *
 * 0; -ECANCELED: what the bytes were to come from has failed, while it was waited
 * for; -ETIMEDOUT; -EINVAL: a bad access, or a range beyond its buffer, which is only
 * looked at where something is in flight.
 */
int arax_access_begin(struct arax_queue *queue, struct arax_range range, uint64_t deadline);
/*
 * All of @ranges at once: the bytes of each are on their way as soon as its own tasks have ended,
 * and not only when those before it have come.  After an error none is being accessed.
 */
int arax_access_begin_all(struct arax_queue *queue, const struct arax_range *ranges, size_t nr,
			  uint64_t deadline);
int arax_access_end(struct arax_queue *queue, struct arax_range range);

/* ------------------------------------------------------------------ */
/* Tasks, in full                                                      */

/**
 * struct arax_desc - describes one task; zero it, then fill in what matters
 * @opcode:	enum arax_opcode
 * @flags:	ARAX_TASK_IDEMPOTENT | ARAX_TASK_BARRIER
 * @kernel:	for ARAX_OP_LAUNCH
 * @service:	for ARAX_OP_CALL
 * @args:	up to ARAX_MAX_ARGS bytes
 * @ranges:	up to ARAX_MAX_RANGES
 * @deadline:	fails with ETIMEDOUT if it has not begun by then, or runs in a worker process,
 *		which is ended, or for long in parts on the daemon's cores; else what runs goes
 *		on, and its result counts; 0: none
 * @wait, @wait_value: not before this timeline has that value
 * @signal, @signal_value: reached when the task ends
 * @event:	may be NULL
 * @reserved:	0
 */
struct arax_desc {
	uint32_t opcode;
	uint32_t flags;
	const struct arax_kernel *kernel;
	uint32_t service;
	struct arax_grid grid;
	const void *args;
	size_t arg_len;
	const struct arax_range *ranges;
	size_t nr_ranges;
	uint64_t deadline;
	struct arax_timeline *wait;
	uint64_t wait_value;
	struct arax_timeline *signal;
	uint64_t signal_value;
	struct arax_event *event;
	uint64_t reserved[2];
};

#define ARAX_SUBMIT_NOWAIT	0x1	/* EAGAIN rather than wait for room */

/*
 * Submit @count tasks, in order, at the cost of one wake-up at most.  Returns how
 * many were taken: fewer only if one of them is wrong or, with NOWAIT, there is
 * no room; or the error if that is the first.  Tasks wrong in ways that only the
 * server can see complete with their error; so do those that had been taken when it
 * showed that the context is dead.
 */
int arax_submit(struct arax_queue *queue, const struct arax_desc *tasks, size_t count,
		uint32_t flags);

/* ------------------------------------------------------------------ */
/* Timelines                                                           */

int arax_timeline_create(struct arax *ax, uint64_t value, struct arax_timeline **timeline);
void arax_timeline_destroy(struct arax_timeline *timeline);
/* Returns 0, the error of a failed signaller, or why the query failed. */
int arax_timeline_query(struct arax_timeline *timeline, uint64_t *value);
/* Raise it to @value; @error is 0 or a negative errno for those who look. */
int arax_timeline_advance(struct arax_timeline *timeline, uint64_t value, int error);
/* Add 1 to eventfd @fd once, when @value is reached. */
int arax_timeline_eventfd(struct arax_timeline *timeline, uint64_t value, int fd);
/* Returns a descriptor (close-on-exec), the caller's, to hand to another program. */
int arax_timeline_export(struct arax_timeline *timeline);
/* @fd stays the caller's. */
int arax_timeline_import(struct arax *ax, int fd, struct arax_timeline **timeline);

struct arax_point {
	struct arax_timeline *timeline;
	uint64_t value;
};

/*
 * At most ARAX_WAIT_MAX points of one context.  all: returns 0; any: the index of
 * one that was reached.  -ETIMEDOUT.  A timeline in error counts as reached.
 */
int arax_timeline_wait_all(const struct arax_point *points, size_t count, uint64_t deadline);
int arax_timeline_wait_any(const struct arax_point *points, size_t count, uint64_t deadline);

#ifdef __cplusplus
}
#endif

#endif /* ARAX_ARAX_H */
