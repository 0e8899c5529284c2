/* SPDX-License-Identifier: MIT */
/* memory_limit.h - what this process may have of the machine's memory */
#ifndef ARAX_STD_MEMORY_LIMIT_H
#define ARAX_STD_MEMORY_LIMIT_H

#include <stdint.h>

/* Of the cgroup that /proc/self/cgroup names and of those above it; UINT64_MAX: there is no limit. */
uint64_t std_cgroup_limit(const char *self, const char *mount);

/* Bytes: the machine's, or its cgroup's if they are fewer.  0: nobody knows. */
uint64_t std_memory_limit(void);

#endif /* ARAX_STD_MEMORY_LIMIT_H */
