/* SPDX-License-Identifier: MIT */
/*
 * declared.h - does a kernel keep to the access that it declares?
 *
 * Order is inferred from declared access, so a kernel that writes to a range that
 * its signature calls `in` makes other tasks' results a matter of luck.  With
 * debug.check_access the bytes of such ranges are compared before and after, by
 * a hash.  A task that is found out ends with -EACCES, and the log names kernel
 * and range.  A program that writes there itself while the task runs looks the
 * same, and is as wrong.  What it leaves out of what it calls `out` is named, too:
 * see unwritten.h.
 */
#ifndef ARAXD_DISPATCH_DECLARED_H
#define ARAXD_DISPATCH_DECLARED_H

struct run;

/* Have @run's launches checked.  After remote_prepare(), if the device has memory.  -ENOMEM. */
int declared_prepare(struct run *run);
void declared_release(struct run *run);

#endif /* ARAXD_DISPATCH_DECLARED_H */
