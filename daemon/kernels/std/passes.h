/* SPDX-License-Identifier: MIT */
/* passes.h - what passes.cu and passes.c share: sizes of shared memory, by which passes are chosen */
#ifndef ARAX_STD_PASSES_H
#define ARAX_STD_PASSES_H

#define PASS_THREADS	256u	/* of a block, at most */

#endif /* ARAX_STD_PASSES_H */
