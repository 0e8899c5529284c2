/* SPDX-License-Identifier: MIT */
/*
 * unfit.h - why no device can run a kernel, for who launches it all the same
 *
 * Put down where devices are made ready for kernels; asked for by tasks that are refused.
 */
#ifndef ARAXD_DISPATCH_UNFIT_H
#define ARAXD_DISPATCH_UNFIT_H

#include "daemon/dispatch/poller.h"
#include "daemon/kernels/registry.h"

/* The first device that can't run it says it for all.  @why: "" if nobody said any. */
void unfit_note(struct poller *p, const struct kernel *k, const struct device *dev, int err,
		const char *why);
/* This thread's reason: none of the devices that are used here can run it. */
void unfit_tell(const struct poller *p, const struct kernel *k);
void unfit_free(struct poller *p);

#endif /* ARAXD_DISPATCH_UNFIT_H */
