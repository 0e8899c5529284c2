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
/* "tenant_depth" and, if it isn't 3, why. */
void tenant_report(json_t *result);

#endif
