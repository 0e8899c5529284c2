/* SPDX-License-Identifier: MIT */
/*
 * far.h - the kernels that come with Arax on more than 2^31 items, and more than 2^32 bytes
 *
 * It takes no such memory: a stretch is one small piece that is mapped again and again, and a tail
 * of its own behind it, where an index of 32 bits does not come.  What is read gives what the piece
 * gives so often, and the tail; what is written gets the same each time it is written.  Where that
 * is not so (sorting, Fourier transforms, triangles, whatever reads what it has written) there is
 * no case.
 */
#ifndef ARAX_SELFTESTS_UNIT_FAR_H
#define ARAX_SELFTESTS_UNIT_FAR_H

#include "arax/kernel.h"
#include "selftests/unit/be_test.h"

#define FAR_RANGES	5u

/* Launches the kernel of this name, which must succeed. */
typedef void far_launch(const char *name, const struct arax_launch_range *r, uint32_t nr,
			const void *args, uint32_t arg_len);


size_t far_nr(void);
const char *far_name(size_t i);
void far_run(size_t i, far_launch *launch);

#endif /* ARAX_SELFTESTS_UNIT_FAR_H */
