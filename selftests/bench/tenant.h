/* SPDX-License-Identifier: MIT */
/* A tenant three deep, with limits. */
#ifndef BENCH_TENANT_H
#define BENCH_TENANT_H

#include <jansson.h>

/*
 * Make three nested cgroups and move this process (and who it forks from now on)
 * into the innermost.  Before anything connects.  What can't be done is kept for
 * tenant_report().
 */
void tenant_enter(void);
/* Limits on all three, high enough never to refuse; needs a running araxd. */
void tenant_limit(const char *link);

/* The most that tenant_sibling() makes. */
#define TENANT_SIBLINGS	4
/*
 * A cgroup of its own at the top, with a part of device time: @setting is an argument of
 * `arax tenant set`, as "device_time.weight=200".  Needs a running araxd.  Returns its number, or
 * -1: see tenant_why().
 */
int tenant_sibling(const char *link, const char *setting);
/* Moves the calling process there. */
void tenant_join(int sibling);
/* Other processes' parts change, too. */
int tenant_change(const char *link, int sibling, const char *setting);
const char *tenant_why(void);
/* "tenant_depth" and, if it isn't 3, why. */
void tenant_report(json_t *result);

#endif
