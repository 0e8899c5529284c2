/* SPDX-License-Identifier: MIT */
/* cgroup.h - tenants' folders in the cgroup2 file system */
#ifndef LIBARAX_ADMIN_CGROUP_H
#define LIBARAX_ADMIN_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* Where cgroup2 is mounted; false: nowhere. */
bool cgroup_mount(char *path, size_t size);

#endif /* LIBARAX_ADMIN_CGROUP_H */
