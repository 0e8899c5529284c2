/* SPDX-License-Identifier: MIT */
/*
 * stacks.h - the vendor stacks that araxd could drive, and why it doesn't
 *
 * Cheap looks at files alone: a driver is opened for nobody who has not asked for it.
 */
#ifndef ARAX_DAEMON_BACKENDS_STACKS_H
#define ARAX_DAEMON_BACKENDS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"

/* The name of the @i-th built-in backend that drives devices of the machine; NULL: the end. */
const char *stack_at(uint32_t i);

/*
 * Whether the configuration leaves @name out.  Then @why says how to have it, and what there
 * is on this machine that would be used.
 */
bool stack_is_unused(const struct config *c, const char *name, char *why, size_t len);

/*
 * The names of the installed OpenCL drivers' files, "a.icd, b.icd", where their loader looks
 * for them.  Returns how many there are.
 */
uint32_t stack_icds(char *names, size_t len);

#define STACK_ICD_MAX	32

/* The files themselves, sorted; each is to be freed.  Returns how many, at most STACK_ICD_MAX. */
uint32_t stack_icd_files(char *files[STACK_ICD_MAX]);

#endif /* ARAX_DAEMON_BACKENDS_STACKS_H */
