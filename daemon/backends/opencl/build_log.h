/* SPDX-License-Identifier: MIT */
/* build_log.h - what a compiler says, the errors first */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_BUILD_LOG_H
#define ARAX_DAEMON_BACKENDS_OPENCL_BUILD_LOG_H

#include <stddef.h>

/*
 * Each line of @text, of @bytes with a NUL at their end, for who reads but the beginning: errors, with
 * the lines that belong to them, then the rest.  @text is cut to pieces.
 */
void build_log_each(char *text, size_t bytes, void (*tell)(void *arg, const char *line), void *arg);

/* @line with the place in the source, if one is named, by the file alone: what is wrong comes behind it. */
void build_log_shorten(const char *line, char *text, size_t len);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_BUILD_LOG_H */
