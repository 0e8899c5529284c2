/* SPDX-License-Identifier: MIT */
/*
 * filelimit.h - how long a file of this process may become
 *
 * On the broker link buffers and rings are memory files, for which that holds as well.
 */
#ifndef LIBARAX_FILELIMIT_H
#define LIBARAX_FILELIMIT_H

#include <stdint.h>
#include <sys/resource.h>

static inline uint64_t file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

#define ERROR_FILE_LIMIT	"RLIMIT_FSIZE lets this program have %llu bytes in a file, and on the broker link that is one: raise it (ulimit -f)"

#endif /* LIBARAX_FILELIMIT_H */
