/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * arax.h - the contract between programs, the mediator and Arax
 *
 * NODES
 *
 *   /dev/arax      clients.  Open to all; each open file is one context.
 *   /dev/arax-ctl  the mediator (araxd) and administrators; root only.
 *
 * Where no module can be loaded, araxd itself offers the client calls over a
 * SOCK_SEQPACKET socket: a message is a struct arax_msg followed by the same
 * struct that the ioctl of that number takes, file descriptors travel as
 * SCM_RIGHTS.  Both run the same code (kmod/core).
 *
 * CALLS
 *
 *   Every call takes one struct that begins with its size in bytes (u32).  A
 *   shorter struct than this header's is taken as zero-extended down to the
 *   call's first version (EINVAL below that); a longer one is taken if its
 *   tail is zero (E2BIG if not).  The number alone selects a call, the size
 *   bits of the ioctl word are ignored.  All flags and pads must be zero
 *   where nothing is defined for them.  No struct holds a pointer: buffers are
 *   handles.  (The one address is a number, what arax_buffer_import names as the
 *   caller's own memory.)
 *
 *   Errors, wherever they occur:
 *     ENOTTY       unknown call, or one that this node does not offer
 *     EINVAL       a size, pad or combination that can never be right
 *     E2BIG        a non-zero tail: made for a newer Arax
 *     EOPNOTSUPP   a flag, type or mode that this Arax or link doesn't know
 *     EBADF        no such handle or file descriptor
 *     ENOENT       no such kernel, device, context, tenant or buffer id
 *     EDQUOT       a tenant's or user's limit (see ARAX_RES_*) would be passed, or (broker
 *                  link) the user's part of araxd's descriptors or mappings
 *     ENOSPC       a table of fixed size is full: handles, devices, kernels, buffers
 *                  and contexts of all programs (1,048,574, of which a user has 131,072 at
 *                  most; who has many leaves the last half to who has less), a
 *                  timeline's awaited points (1,024 of all calls that sleep in
 *                  ARAX_IOC_WAIT, 16 each at most) or armed eventfds (128);
 *                  broker link: calls of one connection that wait at once (320, 256
 *                  of them ARAX_IOC_WAIT)
 *     ENOMEM       no memory, in the machine or the caller's memory cgroup; EMFILE, ENFILE:
 *                  no room for a new descriptor
 *     EFAULT       a bad address (kernel link)
 *     ENOTCONN     the socket has ended, and araxd with it (broker link; no call on
 *                  the kernel link needs a daemon to be there)
 *     ESTALE       a tag of an older generation, a revoked buffer, a mediator's
 *                  seat that another one took over
 *     EOWNERDEAD   the daemon died holding the task, or the one that came after
 *                  it took none over, or none came in time, which begins anew for
 *                  tasks submitted later (no time runs before the first daemon)
 *     EPERM        a forked child's or receiver's use of a context, or no right; a
 *                  mediator's call by who is not attached
 *     EPIPE        the context is dead: killed, or its rings were corrupt
 *     ENXIO        ARAX_IOC_CONTEXT_INIT has not been called
 *     EUSERS       (broker link, at opening) a user, or all, have as many connections
 *                  as they may
 *
 *   Tasks end with these as well, and with what their kernels return:
 *     ECANCELED    canceled, or it depended on one that failed
 *     ETIMEDOUT    its deadline passed before it had run
 *     ENODEV       its device was lost when it may have begun, and it may not run
 *                  twice (ARAX_TASK_IDEMPOTENT); or no device is left for it
 *     ENOEXEC      no device has its kernel, or its image can't be loaded
 *     EFAULT       its kernel used memory that is not there
 *     EIO          it reads bytes that were lost with a device or a daemon, or the
 *                  device or the kernel's process failed
 *     EACCES       it wrote to what it had declared to read only (where araxd checks)
 *
 * HANDLES
 *
 *   Buffers, queues and timelines are named by 32-bit handles, local to the
 *   context, never 0.  A handle holds a generation: a destroyed one is never
 *   taken for its successor (until 4,095 reuses of its place).
 *
 * RINGS (see struct arax_ring_ctl)
 *
 *   The client writes an entry and, last, its `seq` word with release order:
 *   an entry at position P (counted from 0, for ever) is published when
 *   seq == (u32)(P + 1).  Completions are published the same way.  So one
 *   line transfer carries both the flag and the payload.
 *   Entries are taken in order of position, so of several that are ready the
 *   first is best published last: who looks at it sees all of them.
 *
 *   Wake-ups: whoever sleeps sets its NEED_WAKEUP word, issues a full barrier,
 *   looks at the ring once more, and sleeps; whoever publishes issues a full
 *   barrier after the seq word, reads the peer's NEED_WAKEUP word, and wakes
 *   only if set.
 *
 *   Everything in the region is writable by the client and trusted by nobody:
 *   the core keeps its positions and geometry in memory of its own and copies
 *   each entry exactly once.
 *
 * FAILURE
 *
 *   A failed task's dependents complete with ECANCELED and the tag of the first
 *   failure as their origin, without running, unless their queue has
 *   ARAX_QUEUE_CONTINUE.  A task depends on an earlier one of its context if
 *   both are in the same in-order queue, if both are in the same dataflow queue
 *   and one is a barrier, or if one of them is in a dataflow queue and the
 *   earlier one writes bytes that the later one touches.  Who writes bytes that the
 *   earlier one only reads waits for its end, however that is.
 *
 *   Where there are too many tasks to tell which of them one depends on, it counts as
 *   depending on all earlier ones of its context: it is canceled with any of them that fails,
 *   as what the failed one left may be what it was to work on.  araxd looks, for each range of a
 *   task, at 256 others in use besides those that the task wholly overwrites, for all of its ranges at
 *   2,048 rows, and lets it wait for 512 tasks by name.
 *
 *   This holds for tasks that were submitted without knowing of the failure, however
 *   late they come: completions number the failures of a context, and an entry
 *   says which one its client knew of last (@known).  One who knows of a failure
 *   is exempt from it and from all that fails because of it.  A client that doesn't
 *   keep @known has its tasks fail with all that ever failed before them.
 *
 *   A refused task has failed as well: what its client published before it could
 *   see the refusal, and depends on it, is canceled; what it publishes once it
 *   has seen it runs, but for what comes while the core is still looking at what
 *   came before: that may be canceled, too.  If its bytes can't be told (a bad buffer handle, range,
 *   count or extension, or a short entry whose kernel is not there) it counts as
 *   a writer of all bytes of all buffers.  One
 *   whose queue handle is bad is in no queue, and nothing depends on it.
 *
 *   Bytes whose only copy died with a daemon are lost: who reads them fails with
 *   EIO, unless it depends on an earlier task that rewrites them wholly.
 */
#ifndef _UAPI_ARAX_H
#define _UAPI_ARAX_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define ARAX_ABI_VERSION	1
#define ARAX_IOC_TYPE		0xBA

/* Sizes and limits that are part of the contract. */
#define ARAX_NAME_LEN		64	/* bytes, the NUL included */
#define ARAX_MAX_RANGES		32	/* ranges of one task */
#define ARAX_MAX_ARGS		4096	/* bytes of arguments of one task */
#define ARAX_INLINE_ARGS	16
#define ARAX_MIN_DEPTH		2
#define ARAX_MAX_DEPTH		65536	/* tasks in flight of one context */
#define ARAX_MAX_ARENA		(16u << 20)	/* bytes */
#define ARAX_DEADLINE_NONE	(~0ULL)

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

enum arax_opcode {
	ARAX_OP_MARKER	= 0,	/* runs nothing; orders, signals, completes */
	ARAX_OP_LAUNCH	= 1,	/* run kernel `kernel` */
	ARAX_OP_COPY	= 2,	/* ranges[0] (in) to ranges[1] (out), same size */
	ARAX_OP_FILL	= 3,	/* ranges[0] (out) with args, 1,2,4,8,16 bytes */
	ARAX_OP_CALL	= 4,	/* service `kernel`: opaque to the core */
	ARAX_OP_MAX
};

/* Task flags. */
#define ARAX_TASK_IDEMPOTENT	0x0001	/* may run again after a daemon's death */
#define ARAX_TASK_EXT		0x0002	/* `ext` is an arena offset */
#define ARAX_TASK_SILENT	0x0004	/* no completion if it succeeds */
#define ARAX_TASK_BARRIER	0x0008	/* after all before it in its queue, before all after */
#define ARAX_TASK_SHORT		0x0010	/* the entry is a struct arax_task_short */
#define ARAX_TASK_FLAGS		0x001f

#define ARAX_IN			1u
#define ARAX_OUT		2u
#define ARAX_INOUT		3u

/**
 * struct arax_range - bytes of a buffer that a task reads or writes
 * @buffer:	handle
 * @access:	ARAX_IN, ARAX_OUT or ARAX_INOUT
 * @offset:	of the first byte
 * @length:	bytes of one row; may be 0 (an empty range orders nothing)
 * @stride:	bytes from one row's start to the next; 0 if count is 1
 * @count:	rows, at least 1; with count > 1, stride >= length
 *
 * offset + (count - 1) * stride + length must not pass the buffer's end.
 */
struct arax_range {
	__u32 buffer;
	__u32 access;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 stride;
	__u32 count;
};

/**
 * struct arax_task - an entry of the submission ring, 128 bytes
 * @seq:	publishes the entry, see RINGS above
 * @opcode:	enum arax_opcode
 * @nr_ranges:	inline ranges in use (at most 2; 6 where entries are 256 bytes)
 * @flags:	ARAX_TASK_*
 * @user_data:	returned with the completion
 * @queue:	handle
 * @kernel:	id from ARAX_IOC_KERNEL_LOOKUP, or of ARAX_KERNEL_OWN; for ARAX_OP_CALL
 *		enum arax_service
 * @grid:	work-groups in each dimension, each at least 1 for a launch
 * @block:	work-items of a group in each dimension, each at least 1
 * @arg_len:	bytes used in @args; 0 if the extension carries arguments
 * @ext:	with ARAX_TASK_EXT: arena offset of a struct arax_task_ext, multiple of 8
 * @known:	without: the last failure that the client knew of when it decided to
 *		submit this, by arax_completion.failure; 0: none
 * @ranges:	in the order of the kernel's signature
 * @args:	plain arguments, packed as the signature says
 *
 * An entry of 256 bytes has four more ranges behind @args.  One with ARAX_TASK_SHORT is
 * a struct arax_task_short.
 */
struct arax_task {
	__u32 seq;
	__u8  opcode;
	__u8  nr_ranges;
	__u16 flags;
	__aligned_u64 user_data;
	__u32 queue;
	__u32 kernel;
	__u32 grid[3];
	__u16 block[3];
	__u16 arg_len;
	__extension__ union {
		__u32 ext;
		__u32 known;
	};
	struct arax_range ranges[2];
	__u8  args[ARAX_INLINE_ARGS];
};

struct arax_task256 {
	struct arax_task base;
	struct arax_range more[4];
};

/**
 * struct arax_task_short - a launch that fits an entry's first line
 * @seq, @opcode, @nr_ranges, @flags, @user_data, @queue, @kernel: as in struct
 *		arax_task; ARAX_TASK_SHORT is set, ARAX_TASK_EXT is not
 * @grid:	work-groups in the first dimension; all others are 1
 * @known:	as in struct arax_task
 * @buffer:	handles; 0 where there are fewer ranges
 * @length:	bytes of each range, which begins with its buffer; 0 where there are fewer
 * @args:	plain arguments, packed as the signature says
 *
 * For ARAX_OP_LAUNCH of a kernel that is not ARAX_KERNEL_OWN, with at most two ranges,
 * each of one row, and at most ARAX_INLINE_ARGS bytes of arguments: which accesses they
 * are, and how many bytes, the kernel's signature says.  What lies behind it in the ring
 * is not read, so it comes with the line that publishes it.  Where sq_entry_sizes of
 * struct arax_info has bit 64; entries of any size may be of this form.
 */
struct arax_task_short {
	__u32 seq;
	__u8  opcode;
	__u8  nr_ranges;
	__u16 flags;
	__aligned_u64 user_data;
	__u32 queue;
	__u32 kernel;
	__u32 grid;
	__u32 known;
	__u32 buffer[2];
	__u32 length[2];
	__u8  args[ARAX_INLINE_ARGS];
};

/**
 * struct arax_task_ext - what does not fit the entry; lives in the arena
 * @size:	of this struct
 * @nr_ranges:	ranges that follow this struct, after the inline ones
 * @arg_len:	argument bytes that follow those ranges; replaces inline ones
 * @deadline_ns: CLOCK_MONOTONIC; the task fails with ETIMEDOUT if it has not begun by then, or
 *		is stopped where the daemon can do that; what it can't stop ends with its own
 *		result; ARAX_DEADLINE_NONE or 0 for none.  What it was to write is undefined
 *		then, as with any task that failed: it may have begun on a device that was lost
 * @wait_timeline, @wait_value: not before this timeline has this value; 0: none.
 *		If its error is set the task completes with that, without running,
 *		unless its queue has ARAX_QUEUE_CONTINUE
 * @signal_timeline, @signal_value: set when the task completes; 0: none
 * @known:	as in struct arax_task, where @ext has taken its place
 *
 * The arena may be reused as soon as the entry has been consumed.
 */
struct arax_task_ext {
	__u32 size;
	__u16 nr_ranges;
	__u16 arg_len;
	__aligned_u64 deadline_ns;
	__u32 wait_timeline;
	__u32 signal_timeline;
	__aligned_u64 wait_value;
	__aligned_u64 signal_value;
	__u32 known;
	__u32 pad;
};

/**
 * struct arax_completion - an entry of the completion ring, 64 bytes
 * @seq:	publishes the entry
 * @result:	0 or a negative errno; ECANCELED with @origin set means that the
 *		task named by @origin failed and this one depended on it
 * @user_data:	of the task
 * @tag:	of the task: it comes again after 2^24 tasks of one slot under one daemon at
 *		the earliest, or when 65,535 daemons have attached.  Its epoch is 0 if the
 *		task ended before a daemon had it: refused, canceled, or failed in
 *		the core.  Never 0
 * @origin:	tag of the first failure; 0: this one failed by itself
 * @device_ns:	time that the task held a device; of several short ones in a row each
 *		holds it from the end of the one before it, its own dispatch included, and
 *		one by itself from when its entry was taken, its submission included
 * @wait_ns:	from submission to start, by the mediator's account
 * @bytes:	moved for the task between memories
 * @device:	index of the device that ran it, ~0 if none did
 * @failure:	which failure of this context this is, if it failed by itself; 0: none.
 *		Goes into arax_task.known of what is submitted knowing of it: what does
 *		not know fails with it, if it depends on it
 */
struct arax_completion {
	__u32 seq;
	__s32 result;
	__aligned_u64 user_data;
	__aligned_u64 tag;
	__aligned_u64 origin;
	__aligned_u64 device_ns;
	__aligned_u64 wait_ns;
	__aligned_u64 bytes;
	__u32 device;
	__u32 failure;
};

/**
 * struct arax_ring_ctl - first page of a context's region
 *
 * The client writes the first two lines, the core the next two; neither
 * believes what the other could have written into its own.
 *
 * @cq_head:	completions that the client is done with (credit)
 * @cq_need_wakeup: the client sleeps, or is about to: ARAX_WAKE_*, for what it wants to be
 *		woken.  Written after the next two.  It may be woken for less
 * @cq_wake_at:	ARAX_WAKE_AT: once so many completions have been posted in all (modulo 2^32)
 * @cq_wake_for: ARAX_WAKE_FOR: once the completion with this user_data has been posted
 * @cq_cpu:	where the client went to sleep, the CPU's number + 1; 0: it doesn't say.  A hint
 * @sq_head:	entries consumed; a place may be written again below it + depth
 * @sq_need_wakeup: the consumer sleeps: ring the doorbell (broker link only;
 *		on the kernel link ARAX_IOC_SUBMIT is always called)
 * @dead:	0, or the errno with which the context died
 * @epoch:	of the attached daemon; 0 while there is none
 */
#define ARAX_WAKE_ANY	0x1	/* any completion */
#define ARAX_WAKE_AT	0x2
#define ARAX_WAKE_FOR	0x4

struct arax_ring_ctl {
	__u32 cq_head;
	__u32 pad0[15];
	__u32 cq_need_wakeup;
	__u32 cq_wake_at;
	__aligned_u64 cq_wake_for;
	__u32 cq_cpu;
	__u32 pad1[11];
	__u32 sq_head;
	__u32 pad2[15];
	__u32 sq_need_wakeup;
	__u32 dead;
	__u32 epoch;
	__u32 pad3[13];
};

/* ------------------------------------------------------------------ */
/* Client calls                                                        */

/* Guarantees, reported by ARAX_IOC_INFO. */
#define ARAX_GUAR_SURVIVES_DAEMON 0x1	/* buffers and queued tasks outlive araxd */
#define ARAX_GUAR_CHARGED_MAPS	0x2	/* bytes that only a mapping keeps are charged */
#define ARAX_GUAR_CGROUP_TENANT	0x4	/* the tenant is the opener's cgroup */
#define ARAX_GUAR_PINNED	0x8	/* a buffer's pages can't be taken away */
#define ARAX_GUAR_DMABUF	0x10	/* dma-buf export and import */
#define ARAX_GUAR_OWN_MEMORY	0x20	/* ARAX_IMPORT_USER */

#define ARAX_LINK_KERNEL	1
#define ARAX_LINK_BROKER	2

struct arax_info {
	__u32 size;
	__u32 abi_version;
	__u32 link;		/* ARAX_LINK_* */
	__u32 guarantees;	/* ARAX_GUAR_* */
	__u32 epoch;		/* of the attached daemon, 0 if none */
	__u32 nr_devices;
	__u32 nr_kernels;
	__u32 max_depth;
	__u32 max_handles;	/* of one context */
	__u32 page_size;
	__u32 sq_entry_sizes;	/* bit mask: 128 | 256, and 64: struct arax_task_short */
	__u32 pad;
	char version[32];
};

/**
 * struct arax_context_init - make this file's rings
 * @size:	of this struct
 * @flags:	0
 * @depth:	in: tasks in flight, power of two, ARAX_MIN_DEPTH..ARAX_MAX_DEPTH;
 *		the completion ring has as many entries, so it can't overflow
 * @entry_size: in: 128 or 256
 * @arena_size: in: bytes, multiple of the page size, may be 0
 * @ring_fd:	broker link: the memfd that holds the region (region_size bytes, without
 *		holes, open for reading and writing); kernel link: must be -1
 * @wake_fd:	broker link: eventfd written when cq_need_wakeup is set; else -1
 * @doorbell_fd: broker link: out, eventfd to write when sq_need_wakeup is set
 * @sq_offset, @cq_offset, @arena_offset, @region_size: out.  They follow from the
 *		geometry, since on the broker link it is the client who makes the region:
 *		  sq_offset = 4096
 *		  cq_offset = sq_offset + depth * entry_size
 *		  arena_offset = cq_offset + depth * 64, up to the next multiple of 4096
 *		  region_size = arena_offset + arena_size
 * @context:	out: the context's id, as `arax ps` shows it
 *
 * Once per file: EBUSY after that.  On the kernel link the region is mapped
 * from the file at offset 0.  EDQUOT: contexts or bytes of the tenant.
 *
 * On the broker link it takes two calls.  With a memfd that is not sealed, @wake_fd -1,
 * the first one is answered with EINPROGRESS: the broker has mapped it.  Then the client,
 * which has mapped it as well, seals it SHRINK|GROW|FUTURE_WRITE|SEAL, so that nobody can
 * punch holes into what the broker uses, and calls again.  EINVAL: other seals, a memfd
 * that was sealed before it was mapped, or another one.
 */
struct arax_context_init {
	__u32 size;
	__u32 flags;
	__u32 depth;
	__u32 entry_size;
	__u32 arena_size;
	__s32 ring_fd;
	__s32 wake_fd;
	__s32 doorbell_fd;
	__u32 sq_offset;
	__u32 cq_offset;
	__u32 arena_offset;
	__u32 region_size;
	__u32 context;
	__u32 pad;
};

/**
 * struct arax_submit - consume published entries, optionally wait
 * @to_submit:	entries that the caller published and wants consumed
 * @submitted:	out: how many were (the prefix); a bad entry counts as consumed
 *		and completes with its error, so only a lack of credit stops it, or of room
 *		for a queue's tasks that wait for it (ARAX_QUEUE_WAIT)
 * @flags:	ARAX_SUBMIT_SEEN; ARAX_SUBMIT_AS_ASKED with it
 * @min_complete: wait until that many completions are unread (0: don't wait; nor where
 *		there was no room for all of a queue's tasks that wait for it)
 * @seen:	with ARAX_SUBMIT_SEEN: so many completions had been posted when the caller
 *		looked (modulo 2^32).  The wait is over as well once there are others: another
 *		thread may have read the one that is waited for.  Else 0
 *		With ARAX_SUBMIT_AS_ASKED, too (kernel link): it is over once there are
 *		others of which one is what cq_need_wakeup of the control page asks for,
 *		whatever is unread.  Who waits for the last of many sleeps on until then.
 *		Who asks for nothing (0) is woken for nothing but the context's end
 * @deadline_ns: CLOCK_MONOTONIC, absolute; ARAX_DEADLINE_NONE
 *
 * Returns 0 if anything was consumed or nothing was asked for; EAGAIN if the
 * first entry found no credit (read completions first) or, with ARAX_QUEUE_WAIT, no room
 * (come again soon: nothing tells of it), EINVAL if it was not published.  ETIMEDOUT and
 * EINTR concern the wait; @submitted holds then too.
 */
struct arax_submit {
	__u32 size;
	__u32 flags;
	__u32 to_submit;
	__u32 submitted;
	__u32 min_complete;
	__u32 seen;
	__aligned_u64 deadline_ns;
};

#define ARAX_SUBMIT_SEEN	0x1
#define ARAX_SUBMIT_AS_ASKED	0x2
#define ARAX_SUBMIT_FLAGS	0x3

/* What ARAX_IOC_WAIT waits for. */
#define ARAX_WAIT_ANY		0x0
#define ARAX_WAIT_ALL		0x1
#define ARAX_WAIT_FLAGS		0x1
#define ARAX_WAIT_MAX		16

/**
 * struct arax_wait - wait for timelines
 * @count:	points in use, 1..ARAX_WAIT_MAX
 * @index:	out, ANY: the first of them, in their order, that is reached
 *
 * ETIMEDOUT past the deadline, EINTR on a signal, ENOSPC if too many wait for
 * one of the timelines already.  A timeline whose error is set counts as reached:
 * read the error with ARAX_IOC_TIMELINE_QUERY.
 */
struct arax_wait {
	__u32 size;
	__u32 flags;
	__u32 count;
	__u32 index;
	__aligned_u64 deadline_ns;
	struct {
		__u32 timeline;
		__u32 pad;
		__aligned_u64 value;
	} points[ARAX_WAIT_MAX];
};

#define ARAX_CANCEL_QUEUE	0x1	/* all of @queue, else those with @user_data */

/**
 * struct arax_cancel - cancel tasks that have not started
 * @queue:	handle, with ARAX_CANCEL_QUEUE
 * @user_data:	without it: every unfinished task submitted with this value
 * @nr_canceled: out: tasks that were still in the core; those at the daemon are
 *		asked for and complete with ECANCELED if they had not started
 */
struct arax_cancel {
	__u32 size;
	__u32 flags;
	__u32 queue;
	__u32 nr_canceled;
	__aligned_u64 user_data;
};

#define ARAX_WHY_LEN		256	/* bytes, the NUL included */

/**
 * struct arax_task_why - why a task failed, in words for people
 * @tag:	of the completion, or its @origin
 * @text:	what was wrong, the limit, what to do.  By ARAX_IOC_TASK_WHY out; by
 *		ARAX_IOC_TASK_EXPLAIN in, before the task's end is committed (ESTALE if it
 *		is not the mediator's any more)
 *
 * ENOENT: nobody said anything of this task of the caller's context, or too many have failed
 * since: 16 texts are kept for up to 128 tasks, one text for those that failed for one reason in a row.
 */
struct arax_task_why {
	__u32 size;
	__u32 pad;
	__aligned_u64 tag;
	char text[ARAX_WHY_LEN];
};

/*
 * Buffer flags.
 *
 * ARAX_BUFFER_EXPLICIT: the program says when it touches the bytes.  It asks before, by an
 * ARAX_OP_MARKER with the range (out or inout: it is going to write), and does so when
 * that has completed, until it submits what uses them next.  At any other time the pages
 * need not hold what tasks have written: results stay on a device until somebody needs
 * them elsewhere.  What a task was to write is undefined if the task fails.  It can't be
 * exported (EOPNOTSUPP).
 */
#define ARAX_BUFFER_EXPLICIT	0x1
#define ARAX_BUFFER_FLAGS	0x1

/**
 * struct arax_buffer_create - pinned, zeroed, shared pages
 * @bytes:	1 or more; rounded up to pages, and out: the rounded size
 * @fd:		broker link: the memfd (sealed SHRINK|GROW|SEAL, open for reading and writing,
 *		its pages there; EINVAL: it has holes, or a huge page or more behind its
 *		end, or is a buffer's already); else -1
 * @handle:	out
 * @map_offset:	out: for mmap() of /dev/arax (kernel link)
 *
 * ENOMEM: the memory cgroup or the machine has no room.
 *
 * Broker link: holes in a buffer's file, or an import's, while tasks use it end the context
 * that made the buffer (EFAULT).
 */
struct arax_buffer_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 bytes;
	__s32 fd;
	__u32 handle;
	__aligned_u64 map_offset;
};

enum arax_import {
	ARAX_IMPORT_ARAX	= 0,	/* an fd from ARAX_IOC_BUFFER_EXPORT */
	/*
	 * Sealed SHRINK, not WRITE.  Broker link: no holes, less than a huge page behind
	 * its end, which is charged, and none that a buffer was created of.
	 */
	ARAX_IMPORT_MEMFD	= 1,
	ARAX_IMPORT_USER	= 2,	/* the caller's memory at @address; kernel link only */
	ARAX_IMPORT_DMABUF	= 3,
};

/**
 * struct arax_buffer_import - use memory that exists
 * @type:	enum arax_import; EOPNOTSUPP where no backend can use it, EINVAL if
 *		@fd is no such thing, ESTALE if it is a buffer that was revoked or
 *		that nobody uses any more, EACCES if it can't be read and written,
 *		EFAULT if memory at @address can't be pinned for writing
 * @fd:		source; -1 for ARAX_IMPORT_USER
 * @address:	page-aligned, ARAX_IMPORT_USER only
 * @bytes:	ARAX_IMPORT_USER: in; else out: whole pages
 * @handle, @map_offset: out, as for create (no mapping for user memory)
 */
struct arax_buffer_import {
	__u32 size;
	__u32 flags;
	__u32 type;
	__s32 fd;
	__aligned_u64 address;
	__aligned_u64 bytes;
	__u32 handle;
	__u32 pad;
	__aligned_u64 map_offset;
};

enum arax_export {
	ARAX_EXPORT_ARAX	= 0,	/* for another context to import or mmap */
	ARAX_EXPORT_DMABUF	= 1,
};

/*
 * @fd: out, close-on-exec.  EPERM: only the creator's context may export; ESTALE:
 * it was revoked; EOPNOTSUPP: an import, or a type that this link doesn't know.
 */
struct arax_buffer_export {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 type;
	__s32 fd;
	__u32 pad;
};

/*
 * Destroy a handle of the kind that the call names, or revoke a buffer (EPERM: only
 * its creator's context may).  Tasks on a revoked buffer are refused with ESTALE; those
 * that were accepted before, and that would end well, end with it.  Which fails those that depend on
 * them, as ever: of what the mediator has already those run all the same, and end with ECANCELED
 * then.  Only what the core has not yet read from the ring by then does not fail.
 */
struct arax_handle {
	__u32 size;
	__u32 handle;
};

struct arax_buffer_query {
	__u32 size;
	__u32 handle;
	__aligned_u64 bytes;
	__aligned_u64 id;	/* same in every context that shares it */
	__u32 type;		/* 0 created, else 1 + enum arax_import */
	__u32 flags;		/* ARAX_BUFFER_IS_* */
};

#define ARAX_BUFFER_IS_REVOKED	0x1
#define ARAX_BUFFER_IS_LOST	0x2	/* some bytes died with the daemon: rewrite */

#define ARAX_QUEUE_IN_ORDER	0x0
#define ARAX_QUEUE_DATAFLOW	0x1	/* order inferred from ranges */
#define ARAX_QUEUE_CONTINUE	0x2	/* run tasks although one before failed */
/*
 * For its tasks there may be no room below tasks.max of a tenant or user.  Such a task is not
 * consumed until there is, nor is what was published behind it, to whatever queue of the context;
 * without this flag it completes with EDQUOT.  What has not been consumed is not there yet: it
 * can't be canceled, and a tenant whose limit is 0 waits until that is raised.  What waits when a
 * mediator dies completes with EOWNERDEAD: it may depend on what died with it.
 */
#define ARAX_QUEUE_WAIT		0x4
#define ARAX_QUEUE_FLAGS	0x7

/**
 * struct arax_queue_create - make a queue
 * @flags:	ARAX_QUEUE_*; EOPNOTSUPP: one that is not known here
 * @priority:	-20..19, lower runs first among the tasks of one tenant
 * @handle:	out
 * @target_ns:	its tasks are wanted done this long after they are submitted: among tasks of
 *		one priority those go first whose time comes first.  Nothing is failed for
 *		being late, and a task with a deadline of its own goes by that.  0: none;
 *		at most ARAX_TARGET_MAX (EINVAL)
 */
struct arax_queue_create {
	__u32 size;
	__u32 flags;
	__s32 priority;
	__u32 handle;
	__aligned_u64 target_ns;
};

#define ARAX_TARGET_MAX		(1ULL << 62)

struct arax_timeline_create {
	__u32 size;
	__u32 handle;		/* out */
	__aligned_u64 value;	/* initial */
};

/*
 * @value, @error: out of query; in of advance (error: 0 or negative errno).
 * EINVAL: an advance can't go back.
 */
struct arax_timeline_point {
	__u32 size;
	__u32 handle;
	__aligned_u64 value;
	__s32 error;
	__u32 pad;
};

/*
 * The eventfd is signalled once, when the timeline reaches @value.  It is armed until then,
 * or until the context or the timeline ends.  EINVAL: @fd is none; ENOSPC: too many are armed
 * on this timeline.
 */
struct arax_timeline_eventfd {
	__u32 size;
	__u32 handle;
	__aligned_u64 value;
	__s32 fd;
	__u32 pad;
};

/* Export: @handle in, @fd out.  Import: @fd in, @handle out. */
struct arax_timeline_share {
	__u32 size;
	__u32 handle;
	__s32 fd;
	__u32 pad;
};

/* How one argument of a kernel is declared, see struct arax_signature. */
#define ARAX_SIG_MAX_ARGS	32

/**
 * struct arax_signature - what a launch must look like
 * @nr_ranges:	buffer ranges, in order
 * @arg_len:	bytes of plain arguments
 * @access:	two bits a range, range 0 lowest: ARAX_IN, ARAX_OUT, ARAX_INOUT
 * @abi_hash:	of the text form; differs if any argument's type or name does
 *
 * The core checks a launch's ranges and argument bytes against this.
 */
struct arax_signature {
	__u32 nr_ranges;
	__u32 arg_len;
	__aligned_u64 access;
	__aligned_u64 abi_hash;
};

/**
 * struct arax_kernel_lookup - find a kernel by name, or the next by id
 * @name:	in; if empty, the first kernel with an id of at least @id
 * @id:		in/out; out: stable while the module stays loaded
 * @kinds:	out: bit per ARAX_DEVICE_* kind that has an implementation
 * @text:	out: the signature as the manifest has it, for people
 *
 * ENOENT: no such kernel (yet).
 */
struct arax_kernel_lookup {
	__u32 size;
	__u32 id;
	__u32 kinds;
	__u32 pad;
	char name[ARAX_NAME_LEN];
	struct arax_signature sig;
	char text[256];
};

/*
 * Kernels that a program brings.  Ids with this bit are the context's own: the core
 * looks at a launch's bytes and geometry alone, the mediator at all that it loaded.
 * Neither other contexts nor the next daemon know them (ENOEXEC).
 */
#define ARAX_KERNEL_OWN		0x80000000u

/* Services of ARAX_OP_CALL; others are EOPNOTSUPP. */
enum arax_service {
	ARAX_SERVICE_PING	= 0,	/* copies its in-range to its out-range */
	ARAX_SERVICE_LOAD	= 1,	/* struct arax_module_load */
	ARAX_SERVICE_UNLOAD	= 2,	/* struct arax_module_unload */
};

#define ARAX_MODULE_MAX_BYTES	(64u << 20)	/* of an image */
#define ARAX_MODULE_MAX_KERNELS	256
#define ARAX_MAX_MODULES	64		/* of a context */

/**
 * struct arax_module_load - arguments of ARAX_SERVICE_LOAD
 * @size:	of this struct
 * @kind:	enum arax_device_kind that the image is for
 * @nr_kernels:	1 to ARAX_MODULE_MAX_KERNELS
 * @flags:	0
 *
 * Ranges: the image (in), an array of struct arax_module_kernel (inout), and room for
 * a text (out) that says what is wrong where the task fails; it ends with a NUL.
 * For ARAX_DEVICE_CPU the image is a shared object, for ARAX_DEVICE_OPENCL source or SPIR-V.
 * It, what it is compiled to, and what is kept of its kernels, counts as the tenant's memory until it is
 * unloaded or the context ends.  It is code of the client's: it runs in a process with the client's uid that
 * can reach nothing but the buffers it is given.
 *
 * EINVAL: not the form above, a signature that can't be read, or a name twice; ENOEXEC:
 * the image is nothing that can be loaded or compiled; ENOENT: it has no such symbol; E2BIG, ENOSPC: over a
 * maximum; EDQUOT; EOPNOTSUPP: no process could run it for that kind of device here.
 */
struct arax_module_load {
	__u32 size;
	__u32 kind;
	__u32 nr_kernels;
	__u32 flags;
};

/* The same for ARAX_SERVICE_UNLOAD, which has no ranges: ENOENT. */
struct arax_module_unload {
	__u32 size;
	__u32 id;	/* of any of its kernels; all go.  What runs of them ends as it would */
};

#define ARAX_MODULE_SPLIT	0x1	/* work-groups may run at once */

/**
 * struct arax_module_kernel - a kernel of an image
 * @flags:	in: ARAX_MODULE_*
 * @id:		out: for launches by this context
 * @symbol:	in: the image's name for it, with its NUL
 * @text:	in: its signature, with its NUL; out: the same as others see it
 * @name:	out: of the signature
 * @sig:	out
 */
struct arax_module_kernel {
	__u32 flags;
	__u32 id;
	__aligned_u64 reserved;
	char symbol[256];
	char text[256];
	char name[ARAX_NAME_LEN];
	struct arax_signature sig;
};

enum arax_device_kind {
	ARAX_DEVICE_CPU		= 0,
	ARAX_DEVICE_OPENCL	= 1,
	ARAX_DEVICE_CUDA	= 2,
	ARAX_DEVICE_HIP		= 3,
	ARAX_DEVICE_XRT		= 4,
	ARAX_DEVICE_SIM		= 5,
};

#define ARAX_DEVICE_ONLINE	0x1
#define ARAX_REASON_LEN		512	/* bytes, the NUL included */

/* What is known of what a device does. */
#define ARAX_DEVICE_BUSY	0x1	/* @busy */
#define ARAX_DEVICE_POWER	0x2	/* @power_mw */
#define ARAX_DEVICE_USED	0x4	/* @memory_used */
#define ARAX_DEVICE_TAKEN	0x8	/* @memory_taken */
#define ARAX_DEVICE_KNOWN	0xf

/*
 * A device, or a stack that has none: that one is offline, is called as its backend is, and
 * @reason says why.
 *
 * What is from @known on are figures that were true @age_ns ago, and 0 where nothing is known.
 * Who is answered figures of more than a second ago has had the mediator asked for new ones, but
 * does not wait for them: they are there when he looks again, some milliseconds later.
 */
struct arax_device {
	__u32 size;
	__u32 index;		/* in */
	__u32 kind;
	__u32 flags;		/* ARAX_DEVICE_ONLINE */
	__u32 lanes;		/* tasks that it can run side by side */
	__u32 units;		/* cores, compute units, multiprocessors */
	__aligned_u64 memory;	/* bytes; 0: works on the host's pages */
	__aligned_u64 busy_ns;	/* device time given out so far */
	__aligned_u64 tasks;	/* completed */
	char name[ARAX_NAME_LEN];
	char reason[ARAX_REASON_LEN];	/* for people: why it is offline; else empty */
	__u32 known;		/* ARAX_DEVICE_BUSY and so on */
	__u32 busy;		/* per cent of about the last second */
	__u32 power_mw;		/* milliwatts */
	__u32 pad;
	__aligned_u64 age_ns;
	__aligned_u64 memory_used;	/* bytes of @memory that the mediator has allocated */
	__aligned_u64 memory_taken;	/* the same, whosever */
};

/* Resources that are counted and limited. */
enum arax_resource {
	ARAX_RES_MEMORY		= 0,	/* memory.*: pinned bytes */
	ARAX_RES_TASKS		= 1,	/* tasks.*: in flight */
	ARAX_RES_CONTEXTS	= 2,	/* contexts.* */
	ARAX_RES_DEVICE_MEMORY	= 3,	/* device_memory.*: bytes */
	ARAX_RES_MAX
};

#define ARAX_LIMIT_MAX		(~0ULL)	/* "max": no limit */

struct arax_counter {
	__aligned_u64 used;		/* now; "current" where people read it */
	__aligned_u64 peak;
	__aligned_u64 max;
	__aligned_u64 events;	/* charges refused because of this max */
};

/**
 * struct arax_usage - what is used, and the limits that hold
 * @scope:	ARAX_USAGE_*
 * @device_ns:	device time charged so far
 * @wait_ns:	from submission to start, of all tasks together
 * @weight:	device_time.weight, 1..10000
 * @max_ns, @period_ns: device_time.max; ARAX_LIMIT_MAX if unlimited
 */
struct arax_usage {
	__u32 size;
	__u32 scope;
	struct arax_counter counters[ARAX_RES_MAX];
	__aligned_u64 device_ns;
	__aligned_u64 wait_ns;
	__aligned_u64 tasks_done;
	__aligned_u64 tasks_failed;
	__aligned_u64 max_ns;
	__aligned_u64 period_ns;
	__u32 weight;
	__u32 pad;
};

#define ARAX_USAGE_CONTEXT	0
#define ARAX_USAGE_TENANT	1
#define ARAX_USAGE_USER		2

/* ------------------------------------------------------------------ */
/* Mediator and administrator calls                                    */

#define ARAX_ATTACH_RECOVER	0x1	/* take over queued tasks; else they fail */
#define ARAX_ATTACH_TAKEOVER	0x2	/* the old daemon is stuck: replay none */
#define ARAX_ATTACH_FLAGS	0x3

/**
 * struct arax_attach - become the mediator
 * @epoch:	out: grows with every attach
 * @dispatch_offset, @dispatch_bytes: out: map read-only: the dispatch ring
 * @shared_offset, @shared_bytes: out: map read-write: struct arax_mediator_page,
 *		the commit entries and the slot states
 * @cells:	out: 64-byte cells of the dispatch ring, a power of two
 * @slots:	out: one more than tasks that the mediator can hold at once: no tag has slot 0
 *
 * EBUSY: another one is attached, or has not wholly gone.  EPERM: the opener
 * lacks CAP_SYS_ADMIN.
 */
struct arax_attach {
	__u32 size;
	__u32 flags;
	__u32 epoch;
	__u32 cells;
	__u32 slots;
	__u32 commit_entries;
	__aligned_u64 dispatch_offset;
	__aligned_u64 dispatch_bytes;
	__aligned_u64 shared_offset;
	__aligned_u64 shared_bytes;
};

enum arax_dispatch_type {
	ARAX_DISPATCH_PAD	= 0,	/* skip @cells */
	ARAX_DISPATCH_TASK	= 1,
	ARAX_DISPATCH_CANCEL	= 2,	/* @tag: complete it with ECANCELED if not started */
	ARAX_DISPATCH_UNBLOCK	= 3,	/* @tag: its timeline was reached; @error */
	ARAX_DISPATCH_BUFFER	= 4,	/* @object: drop mappings and copies, close the fd */
	ARAX_DISPATCH_CONTEXT	= 5,	/* @context: is gone */
	ARAX_DISPATCH_DEVICES	= 6,	/* publish new figures; for who has published some */
};

#define ARAX_DISPATCH_BLOCKED	0x8000	/* in @flags: wait for UNBLOCK first */
#define ARAX_DISPATCH_TARGET	0x4000	/* in @flags: @deadline_ns is a queue's target */

/* A range as the mediator sees it. Access is in arax_dispatch.access. */
struct arax_dispatch_range {
	__aligned_u64 buffer;	/* id, for ARAX_IOC_BUFFER_GET */
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 stride;
	__u32 count;
};

/**
 * struct arax_dispatch - an entry of the dispatch ring
 *
 * It takes @cells cells of 64 bytes: this header, nr_ranges ranges and, if
 * arg_len > 16, the arguments.  An entry at cell position P is published when
 * seq == (u32)(P + 1).  @tag: epoch 16 | generation 24 | slot 24 bits.
 *
 * @known: of this context's failures, by arax_commit_entry.failure, the last one that
 * its client knew of when it submitted the task.  What depends on a later one fails with
 * it, also if it comes after it.
 */
struct arax_dispatch {
	__u32 seq;
	__u8  type;
	__u8  opcode;
	__u16 cells;
	__aligned_u64 tag;
	__aligned_u64 tenant;	/* id */
	__u32 context;
	__u32 queue;		/* handle in that context */
	__u32 kernel;
	__u16 flags;		/* ARAX_TASK_* | ARAX_DISPATCH_BLOCKED | _TARGET */
	__u8  nr_ranges;
	__u8  queue_flags;	/* ARAX_QUEUE_* */
	__aligned_u64 access;	/* two bits a range */
	union {
		__aligned_u64 submit_ns;
		__aligned_u64 object;	/* BUFFER */
	};
	__aligned_u64 deadline_ns;	/* 0: none */
	__u32 grid[3];
	__u16 block[3];
	__u16 arg_len;
	__u32 uid;
	__s32 priority;
	__s32 error;		/* UNBLOCK, or TASK: of its timeline: its result */
	__aligned_u64 user_data;
	__u8  args[ARAX_INLINE_ARGS];
	__u32 gid;
	__u32 known;
};

#define ARAX_CELL_SIZE		64

#define ARAX_TAG_SLOT(tag)	((__u32)((tag) & 0xffffff))
#define ARAX_TAG_GEN(tag)	((__u32)(((tag) >> 24) & 0xffffff))
#define ARAX_TAG_EPOCH(tag)	((__u32)((tag) >> 48))

/* Slot states, one u32 a slot: tasks in any other state than 0 have started. */
#define ARAX_SLOT_IDLE		0
#define ARAX_SLOT_STARTED	1

/**
 * struct arax_mediator_page - first page of the mediator's writable region
 * @head:	cells consumed; the core looks at it when, by its last look, there is no room
 * @need_wakeup: the mediator sleeps in ARAX_IOC_FETCH or poll, or is about to
 * @states_offset, @commits_offset: where in the region; written by the core
 */
struct arax_mediator_page {
	__u32 head;
	__u32 pad0[15];
	__u32 need_wakeup;
	__u32 pad1[15];
	__u32 states_offset;
	__u32 commits_offset;
	__u32 pad2[14];
};

/**
 * struct arax_commit_entry - a task is done
 * @tag:	ESTALE (counted, skipped) if not the slot's present tag
 * @result:	0 or negative errno
 * @dirty:	bit per range: the host copy is not current (valid on a device).  A marker
 *		that succeeds without it says that the host copy is current again
 * @origin:	tag of the first failure that caused ECANCELED
 * @failure:	of a task that failed by itself: how many of its context's did so under
 *		this mediator, with this one.  They are committed in that order.
 *		0: it is not known to the mediator's graph, or another one's (@origin)
 */
struct arax_commit_entry {
	__aligned_u64 tag;
	__s32 result;
	__u32 dirty;
	__aligned_u64 device_ns;
	__aligned_u64 wait_ns;
	__aligned_u64 bytes;
	__aligned_u64 origin;
	__u32 device;
	__u32 failure;
	__aligned_u64 reserved;
};

/**
 * struct arax_commit - complete tasks
 * @count:	entries, taken from the commit area from @first on (modulo its
 *		size); at most its size
 * @done:	out: entries looked at
 * @stale:	out: of those, skipped
 */
struct arax_commit {
	__u32 size;
	__u32 flags;
	__u32 first;
	__u32 count;
	__u32 done;
	__u32 stale;
};

/**
 * struct arax_fetch - publish what waits for room, and sleep for more
 * @deadline_ns: 0: don't sleep
 * @ready:	out: 1 if the ring has entries beyond the head
 */
struct arax_fetch {
	__u32 size;
	__u32 flags;
	__aligned_u64 deadline_ns;
	__u32 ready;
	__u32 pad;
};

/*
 * @id in; @fd (close-on-exec, mappable read/write), @bytes, @context, @uid out; @flags: 0,
 * and out: ARAX_BUFFER_EXPLICIT.  ESTALE: it was revoked; to map it would wait until all
 * mappings of it have been emptied.
 */
struct arax_buffer_get {
	__u32 size;
	__u32 flags;
	__aligned_u64 id;
	__aligned_u64 bytes;
	__s32 fd;
	__u32 type;
	__u32 context;
	__u32 uid;
};

/* Charge (delta > 0) or uncharge a context's tenant.  EINVAL: more than was charged. */
struct arax_charge {
	__u32 size;
	__u32 resource;		/* ARAX_RES_DEVICE_MEMORY, or ARAX_RES_MEMORY for pages that it keeps */
	__u32 context;
	__u32 pad;
	__s64 delta __attribute__((aligned(8)));
};

/**
 * struct arax_tenant_news - what has come to a tenant's figures since they were told last
 * @id:		its own
 *
 * The rest is added to what struct arax_tenant has under these names.  The core adds nothing up
 * the tree: where two below wait at the same time, one above has waited once.
 */
struct arax_tenant_news {
	__aligned_u64 id;
	__aligned_u64 nr_periods;
	__aligned_u64 nr_throttled;
	__aligned_u64 throttled_ns;
	__aligned_u64 waiting_ns;
};

#define ARAX_TELL_MAX	16

/**
 * struct arax_tenants_tell - how tenants wait
 * @count:	of @news; 0: none has, so far
 * @unknown:	out: of these, that were of no tenant, or of one that is no more: skipped
 *
 * For averages to be right a mediator tells while a tenant waits, too, several times a second.
 */
struct arax_tenants_tell {
	__u32 size;
	__u32 flags;
	__u32 count;
	__u32 unknown;
	struct arax_tenant_news news[ARAX_TELL_MAX];
};

struct arax_kernel_publish {
	__u32 size;
	__u32 id;		/* out */
	__u32 kinds;
	__u32 pad;
	char name[ARAX_NAME_LEN];
	struct arax_signature sig;
	char text[256];
};

/* What ARAX_IOC_LIMIT_SET sets. */
#define ARAX_SET_MAX		0x0	/* + enum arax_resource: value */
#define ARAX_SET_WEIGHT		0x100	/* device_time.weight: value 1..10000 */
#define ARAX_SET_DEVICE_TIME	0x101	/* device_time.max: value per period, ns */

/**
 * struct arax_limit - set a tenant's limit
 * @cgroup_fd:	a directory of the cgroup2 file system
 * @what:	ARAX_SET_*
 * @value:	ARAX_LIMIT_MAX takes the limit away; a value below what is in use
 *		is allowed and refuses every further charge
 *
 * ELOOP: the cgroup nests deeper than 32 levels, the root being the first: what is in it
 * counts for its ancestor there, and only that has limits.
 */
struct arax_limit {
	__u32 size;
	__s32 cgroup_fd;
	__u32 what;
	__u32 pad;
	__aligned_u64 value;
	__aligned_u64 period_ns;
};

/**
 * struct arax_tenant - a tenant's state
 * @cgroup_fd:	>= 0: this one; -1: the first with an id of at least @id
 * @path:	out: as seen from the cgroup root (cut at its end if longer)
 * @flags:	out: ARAX_TENANT_*
 *
 * There are those that are in use, or were given a limit or weight and have a cgroup
 * still, and all above.  ENOENT: past the last, or the cgroup has been removed.
 *
 * What is from @nr_periods on, all out, is 0 unless ARAX_TENANT_STAT.  With @usage.device_ns it
 * is device_time.stat and pressure:
 *
 * @nr_periods:	of device_time.max, in which it had device time or was throttled
 * @nr_throttled: of these, in which it was throttled: a task of it, or of one below, was ready
 *		and did not start since the maximum was used up
 * @throttled_ns: time in which it was
 * @waiting_ns:	time in which some ready task of it, or of one below, had no device, whatever for
 * @waiting_avg: share of time in which that was so, as moving averages over about 10, 60 and
 *		300 s, in hundredths of a per cent
 */
struct arax_tenant {
	__u32 size;
	__s32 cgroup_fd;
	__aligned_u64 id;
	__aligned_u64 parent;
	struct arax_usage usage;
	char path[256];
	__u32 flags;
	__u32 pad;
	__aligned_u64 nr_periods;
	__aligned_u64 nr_throttled;
	__aligned_u64 throttled_ns;
	__aligned_u64 waiting_ns;
	__u32 waiting_avg[3];
	__u32 pad2;
};

/* The cgroup is removed: the tenant goes, limits and all, with the last charge. */
#define ARAX_TENANT_GONE	0x1
/* Some mediator has told how tenants wait. */
#define ARAX_TENANT_STAT	0x2

/* The first context with an id of at least @id; ENOENT past the last. */
struct arax_context {
	__u32 size;
	__u32 id;
	__u32 uid;
	__u32 gid;
	__s32 pid;
	__u32 flags;		/* 1: dead */
	__u32 nr_queues;
	__u32 nr_buffers;
	__u32 nr_timelines;
	__u32 depth;
	__aligned_u64 tenant;
	struct arax_usage usage;
	char comm[16];
};

/* Kill a context: its tasks vanish, its calls return EPIPE. */
struct arax_kill {
	__u32 size;
	__u32 context;
};

/* ------------------------------------------------------------------ */
/* Call numbers: clients below 0x80                                    */

#define ARAX_NR_INFO			0x01
#define ARAX_NR_CONTEXT_INIT		0x02
#define ARAX_NR_SUBMIT			0x03
#define ARAX_NR_WAIT			0x04
#define ARAX_NR_CANCEL			0x05
#define ARAX_NR_TASK_WHY		0x06
#define ARAX_NR_BUFFER_CREATE		0x10
#define ARAX_NR_BUFFER_IMPORT		0x11
#define ARAX_NR_BUFFER_EXPORT		0x12
#define ARAX_NR_BUFFER_DESTROY		0x13
#define ARAX_NR_BUFFER_QUERY		0x14
#define ARAX_NR_BUFFER_REVOKE		0x15
#define ARAX_NR_QUEUE_CREATE		0x18
#define ARAX_NR_QUEUE_DESTROY		0x19
#define ARAX_NR_TIMELINE_CREATE		0x20
#define ARAX_NR_TIMELINE_DESTROY	0x21
#define ARAX_NR_TIMELINE_QUERY		0x22
#define ARAX_NR_TIMELINE_ADVANCE	0x23
#define ARAX_NR_TIMELINE_EVENTFD	0x24
#define ARAX_NR_TIMELINE_EXPORT		0x25
#define ARAX_NR_TIMELINE_IMPORT		0x26
#define ARAX_NR_KERNEL_LOOKUP		0x30
#define ARAX_NR_DEVICE_QUERY		0x31
#define ARAX_NR_USAGE_QUERY		0x32

#define ARAX_NR_ATTACH			0x80
#define ARAX_NR_FETCH			0x81
#define ARAX_NR_COMMIT			0x82
#define ARAX_NR_BUFFER_GET		0x83
#define ARAX_NR_CHARGE			0x84
#define ARAX_NR_DEVICE_PUBLISH		0x85
#define ARAX_NR_KERNEL_PUBLISH		0x86
#define ARAX_NR_TASK_EXPLAIN		0x87
#define ARAX_NR_TENANTS_TELL		0x88
#define ARAX_NR_LIMIT_SET		0x90
#define ARAX_NR_TENANT_QUERY		0x91
#define ARAX_NR_CONTEXT_QUERY		0x92
#define ARAX_NR_CONTEXT_KILL		0x93

#define ARAX_IOC(nr, type)	_IOWR(ARAX_IOC_TYPE, nr, type)

#define ARAX_IOC_INFO		ARAX_IOC(ARAX_NR_INFO, struct arax_info)
#define ARAX_IOC_CONTEXT_INIT	ARAX_IOC(ARAX_NR_CONTEXT_INIT, struct arax_context_init)
#define ARAX_IOC_SUBMIT		ARAX_IOC(ARAX_NR_SUBMIT, struct arax_submit)
#define ARAX_IOC_WAIT		ARAX_IOC(ARAX_NR_WAIT, struct arax_wait)
#define ARAX_IOC_CANCEL		ARAX_IOC(ARAX_NR_CANCEL, struct arax_cancel)
#define ARAX_IOC_TASK_WHY	ARAX_IOC(ARAX_NR_TASK_WHY, struct arax_task_why)
#define ARAX_IOC_BUFFER_CREATE	ARAX_IOC(ARAX_NR_BUFFER_CREATE, struct arax_buffer_create)
#define ARAX_IOC_BUFFER_IMPORT	ARAX_IOC(ARAX_NR_BUFFER_IMPORT, struct arax_buffer_import)
#define ARAX_IOC_BUFFER_EXPORT	ARAX_IOC(ARAX_NR_BUFFER_EXPORT, struct arax_buffer_export)
#define ARAX_IOC_BUFFER_DESTROY	ARAX_IOC(ARAX_NR_BUFFER_DESTROY, struct arax_handle)
#define ARAX_IOC_BUFFER_QUERY	ARAX_IOC(ARAX_NR_BUFFER_QUERY, struct arax_buffer_query)
#define ARAX_IOC_BUFFER_REVOKE	ARAX_IOC(ARAX_NR_BUFFER_REVOKE, struct arax_handle)
#define ARAX_IOC_QUEUE_CREATE	ARAX_IOC(ARAX_NR_QUEUE_CREATE, struct arax_queue_create)
#define ARAX_IOC_QUEUE_DESTROY	ARAX_IOC(ARAX_NR_QUEUE_DESTROY, struct arax_handle)
#define ARAX_IOC_TIMELINE_CREATE  ARAX_IOC(ARAX_NR_TIMELINE_CREATE, struct arax_timeline_create)
#define ARAX_IOC_TIMELINE_DESTROY ARAX_IOC(ARAX_NR_TIMELINE_DESTROY, struct arax_handle)
#define ARAX_IOC_TIMELINE_QUERY	  ARAX_IOC(ARAX_NR_TIMELINE_QUERY, struct arax_timeline_point)
#define ARAX_IOC_TIMELINE_ADVANCE ARAX_IOC(ARAX_NR_TIMELINE_ADVANCE, struct arax_timeline_point)
#define ARAX_IOC_TIMELINE_EVENTFD ARAX_IOC(ARAX_NR_TIMELINE_EVENTFD, struct arax_timeline_eventfd)
#define ARAX_IOC_TIMELINE_EXPORT  ARAX_IOC(ARAX_NR_TIMELINE_EXPORT, struct arax_timeline_share)
#define ARAX_IOC_TIMELINE_IMPORT  ARAX_IOC(ARAX_NR_TIMELINE_IMPORT, struct arax_timeline_share)
#define ARAX_IOC_KERNEL_LOOKUP	ARAX_IOC(ARAX_NR_KERNEL_LOOKUP, struct arax_kernel_lookup)
#define ARAX_IOC_DEVICE_QUERY	ARAX_IOC(ARAX_NR_DEVICE_QUERY, struct arax_device)
#define ARAX_IOC_USAGE_QUERY	ARAX_IOC(ARAX_NR_USAGE_QUERY, struct arax_usage)
#define ARAX_IOC_ATTACH		ARAX_IOC(ARAX_NR_ATTACH, struct arax_attach)
#define ARAX_IOC_FETCH		ARAX_IOC(ARAX_NR_FETCH, struct arax_fetch)
#define ARAX_IOC_COMMIT		ARAX_IOC(ARAX_NR_COMMIT, struct arax_commit)
#define ARAX_IOC_BUFFER_GET	ARAX_IOC(ARAX_NR_BUFFER_GET, struct arax_buffer_get)
#define ARAX_IOC_CHARGE		ARAX_IOC(ARAX_NR_CHARGE, struct arax_charge)
#define ARAX_IOC_DEVICE_PUBLISH	ARAX_IOC(ARAX_NR_DEVICE_PUBLISH, struct arax_device)
#define ARAX_IOC_KERNEL_PUBLISH	ARAX_IOC(ARAX_NR_KERNEL_PUBLISH, struct arax_kernel_publish)
#define ARAX_IOC_TASK_EXPLAIN	ARAX_IOC(ARAX_NR_TASK_EXPLAIN, struct arax_task_why)
#define ARAX_IOC_TENANTS_TELL	ARAX_IOC(ARAX_NR_TENANTS_TELL, struct arax_tenants_tell)
#define ARAX_IOC_LIMIT_SET	ARAX_IOC(ARAX_NR_LIMIT_SET, struct arax_limit)
#define ARAX_IOC_TENANT_QUERY	ARAX_IOC(ARAX_NR_TENANT_QUERY, struct arax_tenant)
#define ARAX_IOC_CONTEXT_QUERY	ARAX_IOC(ARAX_NR_CONTEXT_QUERY, struct arax_context)
#define ARAX_IOC_CONTEXT_KILL	ARAX_IOC(ARAX_NR_CONTEXT_KILL, struct arax_kill)

/* ------------------------------------------------------------------ */
/* The broker's socket                                                 */

#define ARAX_MSG_MAX		1024	/* bytes of a message, header included */
#define ARAX_MSG_FDS		3
#define ARAX_MSG_REFUSED	0	/* an @id that is no request's */

/**
 * struct arax_msg - header of every message on the broker's socket
 * @nr:		ARAX_NR_*
 * @result:	reply: 0 or negative errno; request: 0
 * @id:		request: the client's choice, but not ARAX_MSG_REFUSED; reply: the same.
 *		ARAX_MSG_REFUSED: the broker does not take the connection, @result says why,
 *		and it is closed
 * @nr_fds:	descriptors attached: a struct's fd fields say -1 or an index
 */
struct arax_msg {
	__u32 nr;
	__s32 result;
	__u32 id;
	__u32 nr_fds;
};

#endif /* _UAPI_ARAX_H */
