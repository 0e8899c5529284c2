/* SPDX-License-Identifier: MIT */
/*
 * recover.h - have a device back that was lost
 *
 * Where the backend can rebuild a device's context, tasks that only this device can run
 * wait for it.  What was on the device is gone; the host has every byte, but for those of
 * explicit buffers that were there alone: who reads these gets EIO.  A device that
 * is lost again before it has done much is given up after a few times; not counted is what
 * goes down to a task that had lost one before: see MAX_LOSSES in run.c.
 *
 * Of one that can't be rebuilt, or is given up, these bytes are lost all the same, and
 * have to be known as lost: else nobody could write them anew.
 */
#ifndef ARAXD_DISPATCH_RECOVER_H
#define ARAXD_DISPATCH_RECOVER_H

#include <stdbool.h>

#include "daemon/dispatch/poller.h"

/* All on the poller's thread.  A device was lost: is it worth waiting for? */
bool recover_plan(struct poller *p, struct poller_device *pd, bool counts);
/* A loss that was counted was not the device's. */
void recover_forgive(struct poller_device *pd);
/* There is something to be done for it once nothing runs there but in workers. */
static inline bool recover_pending(const struct poller_device *pd)
{
	return pd->recovery;
}
/* Nothing of that runs any more?  Then begin, on a thread of its own. */
void recover_begin(struct poller *p, struct poller_device *pd);
/* Now and then while recover_again of the poller is set: where there was not what it takes. */
void recover_again(struct poller *p);
/* Tasks may wait for it. */
static inline bool recover_expected(const struct poller_device *pd)
{
	return pd->recovery && pd->rebuilt;
}

/* At the end: waits for what is under way. */
void recover_stop(struct poller_device *pd);

#endif /* ARAXD_DISPATCH_RECOVER_H */
