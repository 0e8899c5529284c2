/* SPDX-License-Identifier: MIT */
/* kernel.h - the link to arax.ko through /dev/arax-ctl */
#ifndef ARAXD_LINK_KERNEL_H
#define ARAXD_LINK_KERNEL_H

#include <stdbool.h>

struct arax_limit;
struct holdings;
struct kernel_link;
struct link;

/*
 * Becomes the module's mediator and takes over what a predecessor left queued.
 * -ENOENT: no module; -EBUSY: another araxd is attached, or has not wholly
 * gone; -EPERM: not root.  Errors but ENOENT are logged.  @take_over: also from one that has not,
 * and then all that is queued fails.  @holdings: what clients have
 * of the process' descriptors and mappings, by all links; it outlives this one.
 * @on_lost: once, from the poller, when the module does not answer any more.
 */
int kernel_link_open(const char *path, bool take_over, struct holdings *holdings,
		     void (*on_lost)(void *arg), void *arg, struct kernel_link **out);
struct link *kernel_link_link(struct kernel_link *k);
/* ARAX_IOC_LIMIT_SET; any thread. */
int kernel_link_limit_set(struct kernel_link *k, const struct arax_limit *a);
/* After the poller has ended: tasks that are queued live on in the module. */
void kernel_link_close(struct kernel_link *k);

#endif /* ARAXD_LINK_KERNEL_H */
