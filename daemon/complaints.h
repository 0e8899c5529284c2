/* SPDX-License-Identifier: MIT */
/*
 * complaints.h - what is said of users in the log, a line a second each
 *
 * Whoever is refused or fails may come back at once: each line takes time, and a log that takes
 * so many a minute has no room for those of others.
 */
#ifndef ARAXD_COMPLAINTS_H
#define ARAXD_COMPLAINTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define COMPLAINTS_NS		1000000000ull
#define COMPLAINTS_PLACES	64u	/* users beyond these share them: lines of all have a limit */

/* Of one kind, about one.  All zero: nothing has been said. */
struct complaint {
	uint64_t next_ns;
	uint64_t unsaid;
};

/* Of one kind.  All zero: nothing has been said. */
struct complaints {
	struct complaint of[COMPLAINTS_PLACES];
};

/* Whether it is to be said now, and how many were not since the last that was. */
bool complaint_say(struct complaint *c, uint64_t now_ns, uint64_t *unsaid);

/* The same of @uid. */
bool complaints_say(struct complaints *c, uid_t uid, uint64_t now_ns, uint64_t *unsaid);
/* The same at this moment, and from any thread. */
bool complaints_say_now(struct complaints *c, uid_t uid, uint64_t *unsaid);

#endif /* ARAXD_COMPLAINTS_H */
