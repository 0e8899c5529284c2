/* SPDX-License-Identifier: MIT */
/*
 * answers.h - how much of a socket's room answers take that nobody has read
 *
 * Linux counts more than a message's bytes, and how much more differs from one to the next: so it is
 * asked, and whoever reckons with it has the same numbers.
 */
#ifndef ARAXD_LINK_ANSWERS_H
#define ARAXD_LINK_ANSWERS_H

#include <stdint.h>

struct answers {
	uint32_t shortest, wait;	/* bytes that count for one: of any, and to ARAX_NR_WAIT */
};

int answers_measure(struct answers *a);
/* In @fd for so many of each. */
void answers_make_room(const struct answers *a, int fd, uint32_t waits, uint32_t others);
/* How many there may be in @fd that were not read.  -1: it can't be told. */
int64_t answers_unread(const struct answers *a, int fd);

#endif /* ARAXD_LINK_ANSWERS_H */
