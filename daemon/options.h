/* SPDX-License-Identifier: MIT */
/* options.h - araxd's command line */
#ifndef ARAXD_OPTIONS_H
#define ARAXD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define OPTIONS_KERNELS	16

struct options {
	bool user;		/* private: one user, no module, no root */
	bool no_kernel;
	bool no_broker;
	bool take_over;		/* of the module, from one that is stuck */
	const char *config;	/* NULL: the system's, if it exists */
	const char *socket;	/* NULL: by configuration or default */
	const char *log_level;	/* NULL: by configuration */
	const char *kernels[OPTIONS_KERNELS];	/* instead of kernels.path */
	unsigned int nr_kernels;
	const char *kinds;	/* only these kinds of devices; NULL: as configured */
	const char *tenants;	/* folder of saved limits; NULL: the system's unless user */
	const char *trace;	/* file; NULL: none */
	int ready_fd;		/* -1: none */
};

/*
 * 0: go on; 1: --help or --version was answered, exit with 0; -1: usage error,
 * told on stderr, exit with 2.
 */
int options_parse(struct options *o, int argc, char **argv);

/* The socket's path by options and environment.  -EINVAL: no XDG_RUNTIME_DIR. */
int options_socket(const struct options *o, const char *configured, char *path, size_t len);

#endif /* ARAXD_OPTIONS_H */
