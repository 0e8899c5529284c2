/* SPDX-License-Identifier: MIT */
/* Naps between looks at what nothing tells of: each twice as long as the one before, up to a bound. */
#ifndef LIBARAX_NAP_H
#define LIBARAX_NAP_H

#include <time.h>

#define NAP_FIRST_NS	20000
#define NAP_LAST_NS	1000000

#define NAP_FIRST	((struct timespec){ .tv_nsec = NAP_FIRST_NS })

static inline void nap_up_to(struct timespec *t, long last_ns)
{
	nanosleep(t, NULL);
	t->tv_nsec = t->tv_nsec < last_ns / 2 ? 2 * t->tv_nsec : last_ns;
}

/* Where what is waited for is soon there. */
static inline void nap(struct timespec *t)
{
	nap_up_to(t, NAP_LAST_NS);
}

#endif /* LIBARAX_NAP_H */
