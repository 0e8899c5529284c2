/* SPDX-License-Identifier: MIT */
/* cgroups.h - where araxd's workers have their cgroups */
#ifndef ARAXD_CGROUPS_H
#define ARAXD_CGROUPS_H

struct config;

/*
 * By worker.cgroup, before there are threads and workers.  0, or negative errno if there can't be
 * any where the administrator says; by "auto" there may be none.
 */
int cgroups_open(const struct config *config);

#endif /* ARAXD_CGROUPS_H */
