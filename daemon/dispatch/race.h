/* SPDX-License-Identifier: MIT */
/*
 * race.h - points at which another thread's interference matters
 *
 * A test that defines race_point() is called there and may stay for a while, so that
 * what takes a nanosecond can be raced against.  In araxd nobody defines it.
 */
#ifndef ARAXD_DISPATCH_RACE_H
#define ARAXD_DISPATCH_RACE_H

void race_point(void) __attribute__((weak));

/* No net below: who was left asleep shall be seen to sleep for ever. */
#define RACE_TEST	(!!race_point)

#define RACE_POINT() \
	do { \
		if (race_point) \
			race_point(); \
	} while (0)

#endif /* ARAXD_DISPATCH_RACE_H */
