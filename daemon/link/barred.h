/* SPDX-License-Identifier: MIT */
/*
 * barred.h - users whom the kernel lets have no new connection to a socket, for now
 *
 * What waits to be accepted is of all users, and nobody can be left out: so whoever connects is taken,
 * and what he has sent by then has to be closed, though he is refused.  To be kept from that he must not
 * come: the file of the socket has an access list, which connect() looks at.  Where there are too many for
 * that its mode can keep all out for a while, but its owner and root.
 */
#ifndef ARAXD_LINK_BARRED_H
#define ARAXD_LINK_BARRED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BARRED_MOST	256u

struct barred {
	const char *path;
	mode_t mode;		/* without them */
	uint32_t nr;
	uid_t uid[BARRED_MOST];
	bool shut;		/* to all, and the next one is what its mode was */
	mode_t open_mode;
};

/*
 * connect() is EACCES to him from here on, if he is neither @path's owner nor may pass by its mode.
 * -EEXIST: he is one of them; -ENOSPC: there are BARRED_MOST, none of whom goes for him; other errors: he
 * can't be, as where there are no access lists.
 */
int barred_add(struct barred *b, const char *path, uid_t uid);
/* The one at @at of @nr is none any more: the last one is in his place. */
void barred_remove(struct barred *b, uint32_t at);

/* From here on connect() is EACCES to all but @path's owner and root.  The list stays as it is meanwhile. */
int barred_shut(struct barred *b, const char *path);
/* No more, unless somebody has given it another mode since. */
void barred_open(struct barred *b);

/* What an administrator can do where barred_add() has failed. */
const char *barred_remedy(int err) __attribute__((cold));

#endif /* ARAXD_LINK_BARRED_H */
