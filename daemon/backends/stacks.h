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

/* The files themselves, sorted.  Returns how many; then stack_icd_free(). */
uint32_t stack_icd_files(char ***files);
void stack_icd_free(char **files, uint32_t nr);

#endif /* ARAX_DAEMON_BACKENDS_STACKS_H */
