/* SPDX-License-Identifier: MIT */
/* stats.h - what araxd has done so far, for people */
#ifndef ARAXD_OBSERVE_STATS_H
#define ARAXD_OBSERVE_STATS_H

struct poller;

/* A line of log; figures may be a little old.  Any thread. */
void stats_log(const struct poller *p);

#endif /* ARAXD_OBSERVE_STATS_H */
