/* SPDX-License-Identifier: MIT */
/*
 * closer.h - closes what its sender can make closing wait
 *
 * A socket may linger, a file of FUSE is flushed at each close, and the end of whatever an epoll
 * set watches waits for who holds that set.  Some of that has no end.  A socket's end, and what is
 * sent to it, is looked at by all who watch it.  So no thread that serves
 * others closes such a descriptor: a thread of the user's does whose it is.  If it stands still,
 * that user's other descriptors wait behind it, and they count for him meanwhile.
 */
#ifndef ARAXD_LINK_CLOSER_H
#define ARAXD_LINK_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct closer;
struct holder;

enum closer_kind {
	CLOSER_OURS,	/* made or asked for by us, shared with the user: he has any number */
	CLOSER_FOREIGN,	/* whatever it is */
};

/*
 * @most: foreign ones of one user that may wait; @of_all: of users together, beyond which those who
 * have any may have no more.  NULL: no memory.
 */
struct closer *closer_create(uint32_t most, uint32_t of_all);
/*
 * Waits for none: what is not closed yet is left to its thread, or to the end of the process.
 * Holders are not touched from here on.
 */
void closer_end(struct closer *cl);

/* @fd is one of @holder's descriptors until it is closed.  Any thread; waits for nobody. */
void closer_close(struct closer *cl, struct holder *holder, enum closer_kind kind, int fd);

/* As a foreign one, once @msg of at most CLOSER_MSG bytes has been sent to it: that may take long. */
#define CLOSER_MSG	32u
void closer_tell(struct closer *cl, struct holder *holder, int fd, const void *msg, size_t bytes);

enum closer_state {
	CLOSER_ROOM,
	CLOSER_FULL,	/* as many foreign ones as may wait, or all have: no more of them are to be taken */
	CLOSER_STUCK,	/* and the one that is being closed has been for a second, or longer */
};

/* Of @uid.  Those of a holder without limits don't count. */
enum closer_state closer_state(struct closer *cl, uid_t uid);

#endif /* ARAXD_LINK_CLOSER_H */
