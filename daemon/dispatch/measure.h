/* SPDX-License-Identifier: MIT */
/* measure.h - links to and between devices with memory of their own, measured at the start */
#ifndef ARAXD_DISPATCH_MEASURE_H
#define ARAXD_DISPATCH_MEASURE_H

struct devices;
struct poller;

/*
 * Once p->memory has all devices, and before any task: memory_set_rate() of each link.  What can't
 * be measured is learnt by the tasks' own copies.
 */
void measure_links(struct poller *p, struct devices *devices);

#endif /* ARAXD_DISPATCH_MEASURE_H */
