/* SPDX-License-Identifier: MIT */
/*
 * A link: how this library reaches the mediator.  Two exist, /dev/arax and the
 * broker's socket; all above this file is the same for both.
 */
#ifndef LIBARAX_LINK_H
#define LIBARAX_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arax/uapi.h>

#define LINK_SYSTEM_DEVICE	"/dev/arax"
#define LINK_ADMIN_DEVICE	"/dev/arax-ctl"
#define LINK_SYSTEM_SOCKET	"/run/arax/arax.sock"
#define LINK_USER_SOCKET	"arax/arax.sock"	/* below XDG_RUNTIME_DIR */

struct link;

/* The mapped region of a context, and the geometry that it was made with. */
struct link_region {
	struct arax_context_init init;
	uint8_t *base;
};

/**
 * struct link_ops - all return 0 or a negative errno
 * @call:	any call but the ones below.  May sleep; any number of threads
 * @region:	context-init: @r->init has depth, entry_size and arena_size set
 * @buffer_create: @data: the mapping, of a->bytes as they come back
 * @buffer_map:	map an imported buffer; @fd is what was imported
 * @kick:	entries up to now are published, @count of them since the last
 *		kick: see that they get consumed.  Sets *woke if the consumer slept.
 *		May run in several threads
 * @peer_awake:	does the consumer run?  A guess, for spinning; never sleeps
 * @sleep:	till a completion is published after cq_need_wakeup was set, the
 *		deadline (ETIMEDOUT) or the link's end (ENOTCONN).  May return 0
 *		early.  One thread at a time, but others may take the completion: of
 *		those before it the caller has seen @seen
 * @poll_fds:	descriptors that become readable in the same cases
 * @hangup:	has the link ended?  One system call
 * @close:	frees the link; @forked: in a child that inherited it
 */
struct link_ops {
	int (*call)(struct link *l, unsigned int nr, void *arg);
	int (*region)(struct link *l, struct link_region *r);
	int (*buffer_create)(struct link *l, struct arax_buffer_create *a, void **data);
	int (*buffer_map)(struct link *l, const struct arax_buffer_import *a, int fd,
			  void **data);
	int (*kick)(struct link *l, uint32_t count, bool *woke);
	bool (*peer_awake)(struct link *l);
	int (*sleep)(struct link *l, uint64_t deadline, uint32_t seen);
	int (*poll_fds)(struct link *l, int fds[2]);
	bool (*hangup)(struct link *l);
	void (*close)(struct link *l, bool forked);
};

struct link {
	const struct link_ops *ops;
	struct arax_ring_ctl *ctl;	/* set by region() */
	uint32_t type;			/* ARAX_LINK_* */
	bool queues_wait;		/* some have, or had, ARAX_QUEUE_WAIT; atomic */
};

/* @want: see struct arax_options; NULL: search.  @admin: for calls from 0x90 on. */
int link_open(struct link **l, const char *want, bool admin);

/* link_kernel.c */
int link_kernel_open(struct link **l, const char *path);

/*
 * link_broker.c.  @uid: whose the listening process must be; @any_uid: or
 * nobody's in particular.
 */
int link_broker_open(struct link **l, const char *path, uint32_t uid, bool any_uid);

/*
 * What the links must know of a call: its struct's size and where in it file
 * descriptors are.  Offsets of 0 stand for none.
 */
struct link_call {
	uint16_t size;
	uint16_t fd_in[2];
	uint16_t fd_out;
};

const struct link_call *link_call_find(unsigned int nr);

#endif /* LIBARAX_LINK_H */
