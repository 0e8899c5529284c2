/* SPDX-License-Identifier: MIT */
/* built.h - a program that another process has built */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_BUILT_H
#define ARAX_DAEMON_BACKENDS_OPENCL_BUILT_H

#include "daemon/backends/opencl/blob.h"

/* 0 or an errno of writing. */
int built_write(int fd, const char *table, const struct blob *binary);
/* The caller frees @table; @binary is inside @file.  -ENOEXEC: it is none; -ENOMEM. */
int built_read(const struct blob *file, char **table, struct blob *binary);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_BUILT_H */
