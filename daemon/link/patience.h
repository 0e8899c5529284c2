/* SPDX-License-Identifier: MIT */
/*
 * patience.h - how much of araxd's time users may take by what they send it
 *
 * A write to an eventfd walks through all who watch it, and it is the client's choice how many
 * those are; to map a memfd waits for whoever walks through all its mappings, see filemap.h.  What
 * goes beyond what it usually takes is counted by user, and a user regains
 * SHARE of the time that passes.  Whoever has used up what there is has to wait for half of it.
 *
 * Times are those of a processor.  Where all is emulated, or checked at each step, they are longer,
 * and have in them what others were given meanwhile; so there is as much more of them.
 */
#ifndef ARAXD_LINK_PATIENCE_H
#define ARAXD_LINK_PATIENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kmod/core/list.h"

#define PATIENCE_NS	100000000ull	/* that a user may take at once */
#define PATIENCE_SHARE	100ull		/* and one in so many of the time that passes */

struct patience {
	pthread_mutex_t lock;
	struct clist spenders;		/* those of whom something is known */
	uint32_t nr;			/* atomic: how many they are */
	uint32_t slowness;
};

/* @slowness: how many times as long all takes here, 1 or more. */
void patience_init(struct patience *p, uint32_t slowness);
void patience_destroy(struct patience *p);

/* @uid has taken @ns by this machine's clock until @now_ns.  Any thread.  False: that is too much. */
bool patience_spend(struct patience *p, uid_t uid, uint64_t ns, uint64_t now_ns);

/* Any thread. */
bool patience_is_over(struct patience *p, uid_t uid, uint64_t now_ns);

#endif /* ARAXD_LINK_PATIENCE_H */
