/* SPDX-License-Identifier: MIT */
/*
 * Who used which device for how long: what the demonstration's table is made
 * of.  Filled from the events of finished tasks; one thread.
 */
#ifndef EXAMPLES_REPORT_H
#define EXAMPLES_REPORT_H

#include <arax/arax.h>

void report_add(const struct arax_event *event);
/* One line a device: "program uid device tasks device_ns wait_ns"; path NULL: nothing.  What fails it says. */
int report_write(const char *path, const char *program);

#endif
