/* SPDX-License-Identifier: MIT */
/*
 * reason.h - why what this thread is doing failed, in words for the task's owner
 *
 * Whoever finds the cause says so, in the thread that returns the error; whoever ends the task
 * takes it.  A bare errno is what is left where nobody said anything.
 */
#ifndef ARAXD_REASON_H
#define ARAXD_REASON_H

#include <stddef.h>

#include "uapi/arax.h"

#define REASON_LEN	ARAX_WHY_LEN

extern _Thread_local char reason_text[REASON_LEN];

/* Before something is tried: what was said until now is of something else. */
static inline void reason_forget(void)
{
	reason_text[0] = '\0';
}

void reason_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Into @text of REASON_LEN bytes, "" if there is none, and forgets it. */
void reason_take(char *text);

#endif /* ARAXD_REASON_H */
