/* SPDX-License-Identifier: MIT */
/*
 * cpulist.h - CPU lists as the kernel writes them: "0-3,8"
 */
#ifndef ARAX_DAEMON_BACKENDS_CPULIST_H
#define ARAX_DAEMON_BACKENDS_CPULIST_H

#include <sched.h>
#include <stddef.h>

/* -EINVAL: not a list, or empty; -ERANGE: a number of CPU_SETSIZE or more. */
int cpulist_parse(const char *text, cpu_set_t *set);

/* Cut to @len bytes with its NUL. */
void cpulist_format(const cpu_set_t *set, char *text, size_t len);

#endif /* ARAX_DAEMON_BACKENDS_CPULIST_H */
