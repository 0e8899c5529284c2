/* SPDX-License-Identifier: MIT */
/*
 * proto.h - what araxd and arax-device say to each other
 *
 * Two sides of one build: the program is found beside araxd, and of another version is refused.
 * On the socket araxd sends descriptors, each with a number; calls that need one name it, and
 * the helper waits for it there.  A descriptor of kind APART_FD_CHANNEL is memory for calls.
 * The end of the socket is the end of the helper, and so is that it lacks what others may have
 * all of for a while: then it exits with APART_EXIT_SHORT.
 *
 * The helper believes araxd, which started it, in all but numbers and sizes; araxd copies an
 * answer once, and checks it: who wrote it may be dying.
 */
#ifndef ARAX_DAEMON_BACKENDS_APART_PROTO_H
#define ARAX_DAEMON_BACKENDS_APART_PROTO_H

#include <stdint.h>

#include "daemon/backend.h"
#include "daemon/reason.h"

/* The helper's descriptors. */
#define APART_FD_SOCKET	3
#define APART_FD_LOG	4
#define APART_NR_FDS	5

/* Threads, descriptors or memory.  No program, and no sanitizer, ends like that by itself. */
#define APART_EXIT_SHORT	113

#define APART_STAGE	(1u << 20)	/* bytes of a channel for texts, and for copies in pieces */
#define APART_RANGES	32		/* of a launch: as many as a signature may have */
#define APART_ARGS	1024
#define APART_DONE	64		/* of a poll */

enum { APART_FD_ANY = 1, APART_FD_CHANNEL };

struct apart_fd {
	uint32_t kind;
	uint32_t version;
	uint64_t id;
};

/*
 * These come first, in this order, on one channel.  Texts are in the stage, each with its NUL.
 * PLUGIN: @fd or 0, the name, @flags: 1 if several users are served; CONFIG: key, value;
 * OPEN: @index; bus, make and uuid (struct arax_backend_info) that are to be there, after the
 * backend's own config_complete and probe.
 */
enum apart_op {
	APART_PLUGIN = 1, APART_CONFIG, APART_OPEN,
	APART_KERNEL_LOAD,	/* @kernel, @fd, @flags; file, symbol, signature */
	APART_KERNEL_UNLOAD,	/* @kernel */
	APART_RUN,		/* @launch; out: @device_ns, @alone, @declined */
	APART_SUBMIT,		/* @launch, @cookie */
	APART_WAIT,		/* @lane; out: @done[0] */
	APART_POLL,		/* @nr, @ns; out: @done */
	APART_QUIESCE,		/* @ns */
	APART_ALLOC,		/* @bytes, @address: wanted; out: @address */
	APART_FREE,		/* @address */
	APART_MAP,		/* @buffer, @fd, @bytes */
	APART_UNMAP,		/* @buffer */
	APART_COPY_IN, APART_COPY_OUT,	/* @lane, @address, @bytes, @buffer or 0: the stage, @offset */
	APART_REGISTER,		/* @buffer, @offset, @bytes */
	APART_UNREGISTER,	/* @buffer, @offset */
	APART_GAUGES,		/* out: @gauges, and why not in the stage */
};

struct apart_call {
	uint32_t op;
	int32_t result;		/* out */
	uint32_t taken;		/* out: it has been begun */
	uint32_t lane, flags, nr, index;
	uint64_t fd, kernel, buffer, offset, address, bytes;
	uint64_t cookie, ns, device_ns;
	/* A launch. */
	uint32_t grid[3], block[3];
	uint32_t nr_ranges, arg_len, alone, declined, after;
	struct arax_backend_gauges gauges;
	struct arax_backend_done done[APART_DONE];
	struct arax_launch_range ranges[APART_RANGES];
	uint8_t args[APART_ARGS] __attribute__((aligned(8)));
	/* Out: what was said of it for who submitted a launch (daemon/reason.h), or "". */
	char why[REASON_LEN];
};

/* With its size, as what others lay down grows in it. */
#define APART_VERSION	(6u << 16 | (uint32_t)sizeof(struct apart_call))
_Static_assert(sizeof(struct apart_call) < 1 << 16, "");

#endif /* ARAX_DAEMON_BACKENDS_APART_PROTO_H */
