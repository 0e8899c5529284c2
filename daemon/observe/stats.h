/* SPDX-License-Identifier: MIT */
/* stats.h - what araxd has done so far, for people */
#ifndef ARAXD_OBSERVE_STATS_H
#define ARAXD_OBSERVE_STATS_H

#include <stdint.h>

struct arax_backend_gauges;
struct poller;

/* Lines of log; figures may be a little old.  Any thread.  Devices' gauges come later. */
void stats_log(struct poller *p);
/* How busy a device is whose vendor measures it, and what power it takes; or @why not. */
void stats_gauges(uint32_t device, const struct arax_backend_gauges *g, const char *why);

#endif /* ARAXD_OBSERVE_STATS_H */
