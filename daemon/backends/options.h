/* SPDX-License-Identifier: MIT */
/*
 * options.h - values of backends' options
 *
 * Each of them returns 0 or -EINVAL, with what may be in the place of @value as the reason.
 */
#ifndef ARAX_DAEMON_BACKENDS_OPTIONS_H
#define ARAX_DAEMON_BACKENDS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/backend.h"

/* 1 to @max. */
int option_number(const struct arax_backend_host *araxd, uint64_t *out, uint64_t max,
		  const char *value);
/* The same, for what fits. */
int option_small(const struct arax_backend_host *araxd, uint32_t *out, uint32_t max,
		 const char *value);
/* Bytes, 1 or more, or with K, M, G or T. */
int option_size(const struct arax_backend_host *araxd, uint64_t *out, const char *value);
/* Less than @len bytes, and more than none. */
int option_text(const struct arax_backend_host *araxd, char *out, size_t len, const char *value);
/* The same, that begins with '/'. */
int option_path(const struct arax_backend_host *araxd, char *out, size_t len, const char *value);
/* One of @words, behind the last of which is NULL; or its place among them. */
int option_word(const struct arax_backend_host *araxd, const char *const *words, const char *value);

#endif /* ARAX_DAEMON_BACKENDS_OPTIONS_H */
