/* SPDX-License-Identifier: MIT */
/*
 * proto.h - between araxd and a worker process
 *
 * Two ways:
 *
 *   The socket (SOCK_SEQPACKET) carries what comes with a descriptor, or must
 *   reach a worker that is busy: kernels, buffers, drops.  One way, no replies,
 *   but for the worker's first message, which says that it is ready.  A wake-up
 *   comes this way, too: what others can do to a descriptor that they share, or
 *   took from the worker, does not make a send without waiting wait.
 *
 *   The slot (one memfd, mapped by both) carries launches.  araxd fills the
 *   request, counts `request` up, and wakes the worker if it sleeps; the worker
 *   first handles as many messages as `messages` says have been sent, runs the
 *   launch, stores `result`, and sets `reply` to the same count.
 *
 * The worker runs tenants' uids and kernels that follow data: araxd believes
 * nothing in the slot.  It reads `reply` and `result` only, `result` once, and
 * never reads back what it wrote itself.
 *
 * Both ends are of one build; `version` in the first message makes sure.
 */
#ifndef ARAX_DAEMON_WORKER_PROTO_H
#define ARAX_DAEMON_WORKER_PROTO_H

#include <stdatomic.h>
#include <stdint.h>

#include "uapi/arax.h"

#define WORKER_VERSION		9

/**
 * enum worker_role - what a worker is for; its number is what it is started with
 * @WORKER_PLAIN:	installed kernels
 * @WORKER_FOREIGN:	code that a program brought
 * @WORKER_OPENCL_BUILD: the compiler of an OpenCL driver, for source that a program brought, or
 *			of an installed kernel.  It runs nothing of what it makes
 * @WORKER_OPENCL:	an OpenCL driver, for what that has made
 */
enum worker_role {
	WORKER_PLAIN,
	WORKER_FOREIGN,
	WORKER_OPENCL_BUILD,
	WORKER_OPENCL,
	WORKER_NR_ROLES,
};

/* Where these last two may keep files. */
#define WORKER_SCRATCH		"/tmp"
#define WORKER_SCRATCH_BYTES	(64u << 20)
#define WORKER_SCRATCH_FILES	8192u	/* and folders */

#define WORKER_BUILT_MAX	(16u << 20)	/* bytes of what one image is compiled to */

/* Descriptors that a worker is started with; all others are closed. */
#define WORKER_FD_SOCKET	3
#define WORKER_FD_SLOT		4
#define WORKER_FD_REPLY		5	/* eventfd: the worker wakes araxd */
#define WORKER_FD_PROGRAM	6	/* close-on-exec */
#define WORKER_NR_FDS		7

enum worker_msg_type {
	WORKER_MSG_READY	= 0x100,	/* worker to araxd: .id is WORKER_VERSION */
	WORKER_MSG_FAILED	= 0x101,	/* .id is the errno, .flags the step, .symbol words */
	/* .id, .flags, .symbol, .text, .bytes: the image's number; a descriptor with its first one */
	WORKER_MSG_KERNEL	= 2,
	WORKER_MSG_BUFFER	= 3,	/* .id, .bytes and a descriptor */
	WORKER_MSG_DROP		= 4,	/* .id: unmap that buffer */
	/*
	 * These come first to one that is for a vendor's stack, which is not READY before
	 * the last: .symbol "key=value" as in araxd.conf; .id: the number of the device, .symbol
	 * its name.
	 */
	WORKER_MSG_OPTION	= 5,
	WORKER_MSG_DEVICE	= 6,
	WORKER_MSG_OUTPUT	= 7,	/* a descriptor: what is built is written to it */
	WORKER_MSG_WAKE		= 8,	/* .type alone, and not counted: look into the slot */
};

/* .flags of WORKER_MSG_FAILED by the program itself; smaller ones are spawn.c's. */
#define WORKER_STEP_PLACE	99	/* it can have no files of its own: spawn.c's, too */
#define WORKER_STEP_SANDBOX	100
#define WORKER_STEP_DEVICE	101	/* the stack shows a worker no such device */
#define WORKER_STEP_ENGINE	102	/* what runs kernels can't be had: threads, memory */

#define WORKER_KERNEL_SPLIT	0x1

/* What araxd asks for. */
enum worker_what {
	WORKER_RUN,
	WORKER_RUN_INLINE,	/* on one thread */
	WORKER_TRY,		/* only see whether the kernel is there */
};

/* Of a launch that failed. */
enum worker_says {
	WORKER_SAYS_NOTHING,
	WORKER_SAYS_UNLOADED,	/* why the kernel isn't there */
	WORKER_SAYS_FAILED,	/* why the launch did */
};

struct worker_msg {
	uint32_t type;
	uint32_t flags;
	uint64_t id;
	uint64_t bytes;
	char symbol[256];
	char text[256];		/* of a kernel: its signature */
};

struct worker_range {
	uint64_t buffer;
	uint64_t offset;
	uint64_t length;
	uint32_t stride;
	uint32_t count;
};

struct worker_slot {
	_Alignas(64) _Atomic uint32_t request;	/* araxd writes */
	_Atomic uint32_t araxd_sleeps;
	_Atomic uint32_t spin;			/* worker: look for the next one a while */
	_Alignas(64) _Atomic uint32_t reply;	/* the worker writes */
	_Atomic uint32_t worker_sleeps;
	_Atomic uint32_t handled;		/* messages */
	_Atomic int32_t result;
	_Atomic uint32_t says;			/* enum worker_says: what words there are in @args */
	/* The launch; araxd writes while request == reply. */
	_Alignas(64) uint64_t kernel;		/* its serial */
	uint32_t messages;
	uint32_t what;				/* enum worker_what */
	uint32_t nr_ranges;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t arg_len;
	uint32_t cores;				/* that a split kernel may have */
	struct worker_range ranges[ARAX_MAX_RANGES];
	_Alignas(8) uint8_t args[ARAX_MAX_ARGS];
};

#endif /* ARAX_DAEMON_WORKER_PROTO_H */
