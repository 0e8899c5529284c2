/* SPDX-License-Identifier: MIT */
/* What no schedule of a program on one device with a link beats. */
#ifndef BENCH_LEAST_H
#define BENCH_LEAST_H

#define LEAST_MAX_TASKS	64

/*
 * In ms.  The scenario has one device and one application of at most LEAST_MAX_TASKS tasks;
 * what is wrong with it ends the program.  A kernel begins when all of its inputs are on the
 * device, bytes come at the link's rate and once, kernels share the device's capacity; what
 * is copied back doesn't count.
 */
double least_ms(const char *text);

#endif
