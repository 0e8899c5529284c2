/* SPDX-License-Identifier: MIT */
/*
 * holdings.h - what araxd holds for its clients: descriptors and mappings
 *
 * Memory is a tenant's; these are araxd's own, and without any it can serve nobody.
 * So they are counted by user until they are given back, whatever has become of the
 * connection: no user has more than a quarter of what there is (what takes time to be given
 * back aside), and all together have three, so that araxd has one.  Administrators have no
 * part of their own, and half of araxd's beside: whatever users do, they can be served.
 */
#ifndef ARAXD_LINK_HOLDINGS_H
#define ARAXD_LINK_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct holder;
struct holdings;

/* What there is. */
struct holdings_limits {
	uint64_t fds, maps;
};

/* As they are for this process: RLIMIT_NOFILE and vm.max_map_count. */
void holdings_limits(struct holdings_limits *l);

/* NULL: no memory. */
struct holdings *holdings_create(const struct holdings_limits *l);
/* All has been given back, or nobody will. */
void holdings_destroy(struct holdings *h);

/*
 * For @uid, which is *@holder from then on, until all is given back.  -EDQUOT: that user has
 * its part; -EMFILE, -ENOMEM: users together have theirs, of descriptors or mappings.  Logged.
 */
int holdings_take(struct holdings *h, uid_t uid, bool unlimited, uint32_t fds, uint32_t maps,
		  struct holder **holder);

/*
 * What has come without being asked for, and is here already: no limit refuses it, but it counts
 * for what is.  NULL: no memory.
 */
struct holder *holdings_owe(struct holdings *h, uid_t uid, bool unlimited, uint32_t fds);

/*
 * Whether that may come from a user: as long as users have no more than they may take.  Then as much as
 * one message can carry finds a place still, and what is administrators' and araxd's stays theirs.
 */
bool holdings_may_owe(const struct holdings *h);
/* Whether somebody can have so many descriptors: an administrator, if nobody else. */
bool holdings_have(const struct holdings *h, uint32_t fds);

uid_t holder_uid(const struct holder *holder);
bool holder_is_unlimited(const struct holder *holder);

/* More, for one who has something. */
int holder_take(struct holder *holder, uint32_t fds, uint32_t maps);
/*
 * What is on its way back, which may take some time, is no part of that user's any more: who
 * destroyed a buffer may have another one at once.  But it is still there, so only half as much
 * again as the part may be on its way.  Ends by holder_given(); any thread.
 */
void holder_give_later(struct holder *holder, uint32_t fds, uint32_t maps);
void holder_given(struct holder *holder, uint32_t fds, uint32_t maps);
/* Whether that user has something mapped that is on its way back. */
bool holder_is_giving(struct holder *holder);
/* Both at once.  Any thread. */
void holder_give(struct holder *holder, uint32_t fds, uint32_t maps);

#endif /* ARAXD_LINK_HOLDINGS_H */
