/* SPDX-License-Identifier: MIT */
/*
 * unwritten.h - does a kernel write all of what it declares as out?
 *
 * What it leaves out is whatever the device's copy has, and is written back to the host with the
 * rest, over what the program has written there meanwhile.  With debug.check_access such
 * ranges are filled with a pattern before a launch, of which nothing may be left behind it.
 *
 * Two units of four bytes beside each other that have the pattern are taken for unwritten, and any
 * where there are some of them: that a kernel writes just these is as good as impossible.  They have
 * what they had again afterwards, so that the check changes nothing for who relies on it; and the
 * log names the kernel.  The task ends as it would have, since a program may choose a range longer
 * than what its arguments make of it.
 *
 * A range that shares bytes with another one of its task is left alone.
 */
#ifndef ARAXD_DISPATCH_UNWRITTEN_H
#define ARAXD_DISPATCH_UNWRITTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "uapi/arax.h"

struct run;

/**
 * struct unwritten - of one lane
 * @key:	of the pattern, another one for each launch
 * @had:	what was there, and behind it room for what is found there later; NULL: the range is
 *		not looked at
 */
struct unwritten {
	uint64_t key;
	uint8_t *had[ARAX_MAX_RANGES];
};

/* The lane's thread, once the ranges are where the kernel will find them.  Whether any is filled. */
bool unwritten_fill(struct run *run, struct unwritten *u);
/*
 * After the kernel, with its @result: which is returned.  Or what a copy returned, if it succeeded
 * or had not begun: then it counts as begun, as what was there is not there any more.
 */
int unwritten_look(struct run *run, struct unwritten *u, int result);

#endif /* ARAXD_DISPATCH_UNWRITTEN_H */
