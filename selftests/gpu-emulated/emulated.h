/* SPDX-License-Identifier: MIT */
/*
 * emulated.h - a GPU driver in software, for the tests of the GPU backend
 *
 * NOT HARDWARE: it proves the flow (what is called, in which order, and what follows
 * from each answer), never that a GPU or a vendor's driver does the same.  Device
 * memory is apart from the host's and its addresses fault there; streams are threads;
 * kernels are the same source as for real GPUs, compiled for the CPU (kernels.cc); a
 * context that a kernel has broken stays broken, and the process gets no new one: so
 * NVIDIA's driver 580 does.  An uncorrectable error of memory breaks the context alone.
 *
 *	libcuda-emulated.so	the calls of cuda.c in daemon/backends/gpu, and those that
 *				arax-bench cuda makes itself (graphs, one after the other)
 *	libhip-emulated.so	those of hip.c
 *	libnvml-emulated.so	those of nvml.c, see there
 *	vendors-emulated/	libraries that put work onto its streams, see blas.c and fft.c
 *
 * In the environment, before it is first called:
 *	EMULATED_DEVICES=n	default 2
 *	EMULATED_FIRST=n	the driver sees those from this one on, default 0
 *	EMULATED_MEMORY=bytes	of each, default 64 MiB
 *	EMULATED_PARTS=1	they are parts of one, alike: all at one address
 *	EMULATED_OLD=1		no pools, no memory at addresses, no UUID
 *	EMULATED_FAULT=n:e:m[:k] from the nth on, m launches (each kth) break their context by error e
 *				(EMULATED_CRASH: end their process)
 *	EMULATED_FAIL=c:k:e,...	each kth call of sort c (alloc, copy... as below) fails with e
 *	EMULATED_SLOW=us	now and then what is on a stream begins so much later than it could, or
 *				goes on so much later, half done
 *	EMULATED_LATE=us	now and then a call takes so long
 *	EMULATED_STRICT=1	the process ends if two streams use the same bytes at once, and one
 *				writes them
 *	EMULATED_FORGIVING=1	a process whose context broke gets new ones
 *	EMULATED_ARCH=name	of HIP's, default EMULATED_GFX
 *	EMULATED_SHARED=file	what tests set below, and the count of EMULATED_FAULT, hold for
 *				all processes together
 */
#ifndef ARAX_SELFTESTS_GPU_EMULATED_H
#define ARAX_SELFTESTS_GPU_EMULATED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMULATED_NAME "emulated GPU (software, not hardware)"

#define EMULATED_GFX	"gfx90a"	/* as build.mk has it */

static inline const char *emulated_arch(void)
{
	const char *arch = getenv("EMULATED_ARCH");

	return arch ? arch : EMULATED_GFX;
}

/*
 * Calls that can be made to fail, once: the one after the next @after.  END: what others end with;
 * WAIT: for a stream.
 */
enum emulated_call {
	EMULATED_ALLOC, EMULATED_COPY, EMULATED_LAUNCH, EMULATED_CONTEXT, EMULATED_MODULE,
	EMULATED_STREAM, EMULATED_END, EMULATED_WAIT, EMULATED_NR
};

/* By tests, found by dlsym(). */
#define EMULATED_CRASH	(-1)		/* as an error: the process that calls ends */
void emulated_fail(enum emulated_call call, int after, int err);
/*
 * Kernels "test_gate" wait until it is open; it is at first.  EMULATED_NO_COPIES: it is for them, and
 * copies to the host wait, half done; EMULATED_NO_UNREGISTER likewise, and who unregisters host memory
 * waits.
 */
#define EMULATED_NO_COPIES	2
#define EMULATED_NO_UNREGISTER	3
void emulated_gate(int open);
/* Kernels, copies or calls that wait there now. */
int emulated_waiting(void);
/* Host memory registered now; bytes of device memory in use, of all devices. */
int emulated_registered(void);
uint64_t emulated_used(void);
/* Copies between two devices that did not go through the host. */
int emulated_direct(void);

/*
 * For vendors' libraries: @work comes to its turn in @stream, and says that an address is none by
 * returning false.  @arg is of malloc(), and freed afterwards.  False: the context is broken.
 */
bool emulated_push(void *stream, bool (*work)(void *arg), void *arg);
/* Where @bytes at a device address are in this process, NULL if nowhere. */
void *emulated_memory(uint64_t address, uint64_t bytes);

/* Between driver.c and kernels.cc. */
int emulated_find(const char *name);
/* Of a block, at most. */
int emulated_threads(int kernel);
/* Sizes of parameters, 0 behind the last. */
uint32_t emulated_param(int kernel, uint32_t i);
/* Its ith range in device memory, if it has that many. */
bool emulated_range(int kernel, uint32_t i, const uint64_t *values, uint64_t *address, uint64_t *bytes,
		    bool *writes);
/* 0, or the trap of a thread of it. */
int emulated_invoke(int kernel, const uint32_t grid[3], const uint32_t block[3],
		    const uint64_t *values);
/* Where a device address is in this process, NULL if nowhere. */
void *emulated_translate(uint64_t address);
void emulated_wait_at_gate(void);
void emulated_pause(void);

#ifdef __cplusplus
}
#endif

#endif /* ARAX_SELFTESTS_GPU_EMULATED_H */
