/* SPDX-License-Identifier: MIT */
/* foreign.h - what the images of foreign kernels and their test share */
#ifndef ARAX_SELFTESTS_KERNELS_TEST_FOREIGN_H
#define ARAX_SELFTESTS_KERNELS_TEST_FOREIGN_H

#include <stdint.h>

/* hostile(out report[], pid, fd): one of these for each thing that it tries. */
struct attempt {
	char name[40];
	int64_t result;		/* of the system call: a negative errno, or what it gave */
	int32_t when;		/* enum attempt_when */
	int32_t only_sandboxed;	/* where it is allowed it would do harm, or fails the same */
};

enum attempt_when { NOT_TRIED, IN_CONSTRUCTOR, IN_KERNEL, ON_THREAD };

#define MAX_ATTEMPTS	1024

struct report {
	uint64_t nr;
	struct attempt attempts[MAX_ATTEMPTS];
};

struct hostile_args {
	int32_t pid;		/* the process that started the worker */
	int32_t fd;		/* one of that process's: another's buffer */
	int32_t sandboxed;
	int32_t pad;
};

#endif /* ARAX_SELFTESTS_KERNELS_TEST_FOREIGN_H */
