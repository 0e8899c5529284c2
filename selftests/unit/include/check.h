/* SPDX-License-Identifier: MIT */
/* check - libcheck, whose assertions may stand in hot loops */
#ifndef ARAX_UNIT_CHECK_H
#define ARAX_UNIT_CHECK_H

#include_next <check.h>

/*
 * For each assertion that holds libcheck writes to a file, so that it can say behind which one a
 * test died, and reads that in again after the test.  In a loop that is most of the time, the
 * more so under sanitizers: so each assertion does so for the first times in a test only.
 */
#define CHECK_MARKS 50

#define _mark_point(file, line)							\
	__extension__ ({							\
		static unsigned char check_marks;				\
		unsigned char check_nr = __atomic_load_n(&check_marks, __ATOMIC_RELAXED); \
										\
		if (check_nr < CHECK_MARKS) {					\
			__atomic_store_n(&check_marks, check_nr + 1, __ATOMIC_RELAXED); \
			(_mark_point)(file, line);				\
		}								\
	})

#endif
