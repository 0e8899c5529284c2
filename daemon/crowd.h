/* SPDX-License-Identifier: MIT */
/* crowd.h - whether threads want more CPUs than there are */
#ifndef ARAX_DAEMON_CROWD_H
#define ARAX_DAEMON_CROWD_H

#include <stdbool.h>

/*
 * At this moment, on the whole machine; true also where that can't be known: araxd may use but a part of
 * its CPUs (as many as there were at first), or does not see /proc/loadavg.  A system call of 1 to 2 us.
 */
bool crowd_is_there(void);

/* @loadavg as of proc_loadavg(5): more than @most run, or could. */
bool crowd_in(const char *loadavg, long most);

#endif /* ARAX_DAEMON_CROWD_H */
