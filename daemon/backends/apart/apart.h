/* SPDX-License-Identifier: MIT */
/*
 * apart.h - a backend whose devices can go on in a process of their own
 *
 *	apart.c		the operations of daemon/backend.h around a GPU backend's own
 *	device.c	one device: where it is driven, and how it moves from here to there
 *	calls.c		its operations there: kernels, launches, memory
 *	lanes.c		likewise what was submitted
 *	buffers.c	likewise host memory
 *	helper.c	the process: to start it, to see it die
 *	channel.c	a call and its answer in memory that two processes share
 *	proto.h		what is in them
 *	main.c, serve.c	the program arax-device
 *
 * WHY
 *
 *   CUDA's driver builds no new context in a process in which a kernel has faulted: each
 *   call that would make something answers with that error until the process ends, whatever
 *   was destroyed before.  So araxd would have to be restarted for one bad kernel.
 *
 * HOW
 *
 *   A device that is whole is driven in araxd, unless the option `apart` says otherwise, as it
 *   does by itself for ROCm's: that aborts a process whose kernel has faulted.  When reset()
 *   finds that it can't be had anew here, it is closed here and opened in a process of its own
 *   (a helper), with the same options; kernels are loaded there, and registered memory is
 *   registered.  The next reset() ends that process and starts another one, and so on.  It
 *   never comes back.
 *
 *   Whatever fails because the helper died, or is being ended, is -ENODEV.
 *
 * LOCKS
 *
 *   device.reset_lock, then device.lock: shared by every call, held alone by reset() while
 *   the device moves.  Within it place_lock: all that who takes something away has of the two, as
 *   it must not wait for a process to come to be.  Within it one, then kernels_lock, lanes_lock, or
 *   buffers_lock, and within these what helper.c has.
 */
#ifndef ARAX_DAEMON_BACKENDS_APART_APART_H
#define ARAX_DAEMON_BACKENDS_APART_APART_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/apart/helper.h"
#include "daemon/backends/plugin.h"
#include "daemon/memory/hostmap.h"
#include "daemon/worker/idmap.h"

#define APART_MAX_LANES	16
#define APART_CAREFUL	64		/* as the backend is told to be there: GPU_CAREFUL */

/* An option, as the backend took it. */
struct apart_option {
	char *key, *value;
};

/* Whether a device is driven in a process of its own from the start on. */
enum apart_when { APART_AUTO, APART_NO, APART_YES };

/* A backend, and what araxd told it. */
struct apart_stack {
	const char *name;
	struct arax_backend below;
	int fd;				/* of its file; -1: it is built in */
	char *program;			/* of the helper; NULL: the one beside araxd */
	enum apart_when when;
	uint32_t nr_options;
	struct apart_option *options;
};

struct apart_kernel {
	struct apart_kernel *next;
	void *here;			/* the backend's */
	uint64_t id;			/* its number in a helper */
	struct arax_backend_kernel desc;	/* with strings of our own */
	bool gone;			/* (kernels_lock) while the device moves: freed when it has */
};

/* Host memory that is registered. */
struct apart_host {
	struct apart_host *next;
	void *host;
	uint64_t bytes;
	uint64_t serial, offset;	/* in the helper, if @there */
	bool there;
	bool gone;			/* (buffers_lock) likewise */
};

/*
 * A launch that is under way.  Its process may die of it, and can't say then that it was the only
 * one there.
 */
struct apart_began {
	uint32_t turn;			/* the device's */
	uint32_t number;		/* of all that began in this turn */
	bool alone;			/* none was under way */
};

/* One that was submitted, and is not reported yet. */
struct apart_pending {
	uint64_t cookie;
	struct apart_began began;
};

struct apart_lane {
	uint32_t first, nr;
	struct apart_pending pending[ARAX_LANE_DEPTH];
};

struct apart_device {
	struct apart_stack *stack;
	uint32_t index;
	bool from_start;		/* it is to be apart, though there was no fault */
	struct arax_backend_info info;	/* as it was opened */
	pthread_mutex_t reset_lock;
	bool waits;			/* (reset_lock) for what a helper takes: that has been said */
	uint32_t failures;		/* (reset_lock) of helpers to begin, in a row */
	bool came;			/* (reset_lock) it has been apart */
	pthread_rwlock_t lock;		/* what follows; changed under reset_lock, too */
	/* These are changed under lock and place_lock, each held alone. */
	pthread_rwlock_t place_lock;
	void *here;			/* the backend's device; NULL: apart */
	struct helper *helper;		/* NULL: here, or lost */
	bool moving;			/* it is neither here nor there, and lists keep what they have */
	bool held;			/* it is here, but runs nothing: it is to be apart */
	uint32_t turn;			/* how many helpers it has had */
	uint32_t first;			/* of these, the one that is after no fault; 0: none */

	pthread_mutex_t kernels_lock;
	struct apart_kernel *kernels;
	uint64_t last_kernel;

	pthread_mutex_t one;		/* by who runs a launch while they run one at a time */
	pthread_mutex_t lanes_lock;
	struct apart_lane lanes[APART_MAX_LANES];
	struct {
		uint32_t turn;		/* of these numbers */
		uint32_t began, under_way;
		uint32_t careful;	/* that run one at a time, still */
	} launches;

	pthread_mutex_t buffers_lock;
	struct apart_host *hosts;
	struct idmap buffers;		/* that the helper has, by serial */
	struct idmap fresh;		/* likewise that the one to come has; its maker's alone */
	struct hostmap_watch watch;
};

/*
 * Puts it around what was loaded, if that is a backend of GPUs: from now on @p->ops are ours.
 * There is one of each name in a process; a second one begins anew.
 */
void apart_wrap(struct backend_plugin *p, const char *name);

/* device.c: as in struct arax_backend. */
int apart_open(struct apart_stack *s, uint32_t index, struct apart_device **dev);
void apart_close(struct apart_device *d);
int apart_reset(struct apart_device *d);
/*
 * From the start on: nothing has been done with it.  0 as well if it stays here as there is no program,
 * unless it @must not, and if it is held for now as something else lacks: then reset() moves it.
 */
int apart_move(struct apart_device *d, bool must);
/*
 * Takes the device for this thread, then apart_leave().  @c NULL: it is here, and the backend
 * is called.  -ENODEV: it is lost, and not taken.
 */
int apart_enter(struct apart_device *d, struct channel **c);
void apart_leave(struct apart_device *d, struct channel *c);
/* Likewise, though it is held: for what does nothing on it. */
int apart_enter_held(struct apart_device *d, struct channel **c);

/*
 * Likewise to take something away, then apart_visited(): at once, though the device is moving.
 * NULL: it is here, or not there to have anything.
 */
struct channel *apart_visit(struct apart_device *d);
void apart_visited(struct apart_device *d, struct channel *c);

/* apart.c */
void apart_kernel_free(struct apart_kernel *k);

/* calls.c: by @c, for a device that is apart. */
int apart_kernel_load(struct apart_device *d, struct channel *c, const struct apart_kernel *k);
void apart_kernel_unload(struct channel *c, const struct apart_kernel *k);
int apart_run(struct apart_device *d, struct channel *c, struct arax_backend_run *run);
int apart_submit(struct channel *c, const struct arax_backend_run *run, uint64_t cookie);
int apart_alloc(struct channel *c, uint64_t bytes, uint64_t wanted, uint64_t *address);
void apart_free(struct channel *c, uint64_t address);
int apart_quiesce(struct channel *c, uint64_t deadline_ns);
int apart_gauges(struct channel *c, struct arax_backend_gauges *g, char *why, uint32_t len);

/* lanes.c: likewise; @c NULL: the helper is gone. */
int apart_lane_submit(struct apart_device *d, struct channel *c,
		      const struct arax_backend_run *run, uint64_t cookie);
int apart_lane_wait(struct apart_device *d, struct channel *c, uint32_t lane,
		    struct arax_backend_done *done);
int apart_lane_poll(struct apart_device *d, struct channel *c, struct arax_backend_done *done,
		    uint32_t max, uint64_t timeout_ns);
/* A launch begins there, or ends.  True: it was the only one, and its process fell. */
void apart_launch_begin(struct apart_device *d, struct apart_began *b);
bool apart_launch_end(struct apart_device *d, const struct apart_began *b);
/* Before it begins.  True: it has d->one, as launches run one at a time; unlocked when it ends. */
bool apart_launch_one(struct apart_device *d);
/* (lock held alone) What the device that is closed here has not reported. */
void apart_lanes_take(struct apart_device *d);

/* buffers.c: likewise. */
int apart_copy_in(struct apart_device *d, struct channel *c, uint32_t lane, uint64_t to,
		  const void *from, uint64_t bytes);
int apart_copy_out(struct apart_device *d, struct channel *c, uint32_t lane, void *to,
		   uint64_t from, uint64_t bytes);
int apart_host_register(struct apart_device *d, struct channel *c, void *host, uint64_t bytes);
/* It is registered here: kept, for when the device moves. */
int apart_host_note(struct apart_device *d, void *host, uint64_t bytes);
/* False: it was not registered. */
bool apart_host_unregister(struct apart_device *d, struct channel *c, void *host);
/* (both locks held alone) All of it is unregistered here. */
void apart_hosts_leave(struct apart_device *d);
/* (lock held alone, moving) And registered with a new helper, which nobody else has yet. */
void apart_hosts_again(struct apart_device *d, struct channel *c);
/*
 * (both locks held alone, moving) That is @h, or NULL: there is none.  Returns what was unregistered
 * meanwhile, for apart_hosts_bury().
 */
struct apart_host *apart_hosts_arrive(struct apart_device *d, const struct helper *h);
void apart_hosts_bury(struct apart_host *gone, struct channel *c);
/* (both locks held alone) The helper that had them is gone. */
void apart_buffers_forget(struct apart_device *d);
void apart_buffer_gone(struct hostmap_watch *w, uint64_t serial);
void apart_hosts_free(struct apart_device *d);

#endif /* ARAX_DAEMON_BACKENDS_APART_APART_H */
