/* SPDX-License-Identifier: MIT */
/* group.h - whether a signal was sent to the process group, or to this process alone */
#ifndef ARAX_CLI_GROUP_H
#define ARAX_CLI_GROUP_H

#include <signal.h>
#include <stdbool.h>

/* From now on that can be said; where there can be no process for it, it is said of none. */
void group_watch(void);
void group_unwatch(void);
/*
 * In a handler, with all signals blocked for which this is asked: whether all of the group had it.
 * What came of it meanwhile is the same one.
 */
bool group_had(int sig);

#endif /* ARAX_CLI_GROUP_H */
