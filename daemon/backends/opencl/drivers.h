/* SPDX-License-Identifier: MIT */
/* drivers.h - some of the installed OpenCL drivers alone */
#ifndef ARAX_DAEMON_BACKENDS_OPENCL_DRIVERS_H
#define ARAX_DAEMON_BACKENDS_OPENCL_DRIVERS_H

#include <stddef.h>

/* Of araxd, for its workers: the libraries, one after the other with a ':' between.  Else: all. */
#define DRIVERS_VARIABLE	"ARAX_OPENCL_DRIVERS"
#define DRIVERS_LEN		2048

/* Adds to @libraries of DRIVERS_LEN bytes what @icd, a file of an installed driver, names. */
int drivers_add(char *libraries, const char *icd);
/*
 * The loader finds these alone from now on, by files in @folder, which is empty.  Before it is
 * opened, and before there are threads.
 */
int drivers_only(const char *libraries, const char *folder);
/* With all that drivers_only() made there. */
void drivers_remove(const char *folder);

#endif /* ARAX_DAEMON_BACKENDS_OPENCL_DRIVERS_H */
