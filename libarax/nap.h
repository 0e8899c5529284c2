/* SPDX-License-Identifier: MIT */
/* Naps between looks at what nothing tells of: each twice as long as the one before, up to a millisecond. */
#ifndef LIBARAX_NAP_H
#define LIBARAX_NAP_H

#include <time.h>

#define NAP_FIRST_NS	20000
#define NAP_LAST_NS	1000000

#define NAP_FIRST	((struct timespec){ .tv_nsec = NAP_FIRST_NS })

static inline void nap(struct timespec *t)
{
	nanosleep(t, NULL);
	t->tv_nsec = t->tv_nsec < NAP_LAST_NS / 2 ? 2 * t->tv_nsec : NAP_LAST_NS;
}

#endif /* LIBARAX_NAP_H */
