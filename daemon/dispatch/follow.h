/* SPDX-License-Identifier: MIT */
/*
 * follow.h - tasks that are started before what they wait for has ended
 *
 * On a device that takes tasks ahead a chain of them need not come back to the poller between
 * two: a task that waits for nothing but tasks of one lane goes behind them, and the lane's
 * thread starts it as soon as it sees that they have succeeded, before it tells of that.
 *
 * For the graph it is as if it had been started when they had ended: it comes to its end
 * after them, and what they end with decides whether it counts (graph.h, FOLLOWERS).
 */
#ifndef ARAXD_DISPATCH_FOLLOW_H
#define ARAXD_DISPATCH_FOLLOW_H

#include <stdbool.h>

struct poller;
struct poller_device;

/* Whether tasks may follow each other on the device. */
bool follow_on(const struct poller_device *pd);

/* (poller) When there is nothing that may be started by itself.  Returns how many were. */
int follow_start(struct poller *p);

#endif /* ARAXD_DISPATCH_FOLLOW_H */
