/* SPDX-License-Identifier: MIT */
/*
 * back.h - results go back to the host beside the next task of their lane
 *
 * Where others wait for a lane, and results take long to come back from a device with memory of its
 * own, the lane is given to the next task when the kernel has ended, and a thread that does nothing
 * else copies.  A few tasks at a time: beyond that lanes wait for their copies, as there would be ever
 * more of them.
 *
 * For the scheduler's accounts, and for who pays for memory, such a task runs until all is done.
 */
#ifndef ARAXD_DISPATCH_BACK_H
#define ARAXD_DISPATCH_BACK_H

#include "daemon/dispatch/beside.h"
#include "daemon/dispatch/poller.h"

struct back;
struct run;

/* For a device with memory, of one task a lane.  -ENOMEM, -EAGAIN. */
int back_create(struct poller_device *pd);
/* No lane of it runs anything any more. */
void back_destroy(struct poller_device *pd);
void back_init(struct run *run);

/* (poller) Whether tasks wait for a lane, of any device. */
void back_others_wait(struct poller *p, bool wait);
/* (poller) @run, which had left its lane, has ended. */
void back_over(struct run *run);

#endif /* ARAXD_DISPATCH_BACK_H */
