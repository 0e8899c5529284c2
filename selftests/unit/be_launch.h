/* SPDX-License-Identifier: MIT */
/* be_launch.h - a launch as a backend's own run() and submit() take it */
#ifndef ARAX_SELFTESTS_UNIT_BE_LAUNCH_H
#define ARAX_SELFTESTS_UNIT_BE_LAUNCH_H

#include "daemon/backend.h"

struct job {
	struct arax_launch l;
	struct arax_backend_run run;
};

static inline struct arax_launch_range range(uint64_t address, uint64_t bytes)
{
	return (struct arax_launch_range){ (void *)(uintptr_t)address, bytes, 0, 1 };
}

static inline struct arax_backend_run *fill(struct job *j, void *kernel, uint32_t lane,
					    uint32_t grid, uint32_t block,
					    const struct arax_launch_range *r, uint32_t n,
					    const void *args, uint32_t len)
{
	j->l = (struct arax_launch){
		.size = sizeof(j->l), .nr_ranges = n, .grid = { grid, 1, 1 },
		.block = { block, 1, 1 }, .group_end = grid, .ranges = r, .args = args,
		.arg_len = len,
	};
	j->run = (struct arax_backend_run){
		.size = sizeof(j->run), .lane = lane, .kernel = kernel, .launch = &j->l,
		.name = "test",
	};
	return &j->run;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_LAUNCH_H */
