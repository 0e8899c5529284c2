/* SPDX-License-Identifier: MIT */
/* micro.h - programs that print what single steps take: [--json] [--seconds N] */
#ifndef SELFTESTS_BENCH_MICRO_H
#define SELFTESTS_BENCH_MICRO_H

/* For one figure; s. */
extern double micro_budget_s;

/* A line, or an element of the array. */
void micro_show(const char *name, double ns);

/* From main(): reads the options, and calls @measure, which shows.  The exit status. */
int micro_run(int argc, char **argv, void (*measure)(void));

#endif /* SELFTESTS_BENCH_MICRO_H */
