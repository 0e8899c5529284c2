// SPDX-License-Identifier: MIT
/* What OpenMP takes for tasks whose order it infers from addresses. */
#include "openmp_peer.h"

#include <stdint.h>

#include "clock.h"

#define ADDRESSES	64
#define TASKS		4096

static char at[ADDRESSES], made[ADDRESSES];

double openmp_tasks(double seconds)
{
	uint64_t start = ticks(), end = start + ns_to_ticks(seconds * 1e9), tasks = 0;

	do {
#pragma omp parallel num_threads(2)
#pragma omp single
		for (int i = 0; i < TASKS; i++) {
#pragma omp task depend(in : at[i % ADDRESSES]) depend(inout : made[(i * 7 + 1) % ADDRESSES])
			__asm__ volatile("" : : : "memory");
		}
		tasks += TASKS;
	} while (ticks() < end);
	return ticks_to_ns(ticks() - start) / (double)tasks;
}
