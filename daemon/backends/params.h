/* SPDX-License-Identifier: MIT */
/*
 * params.h - the parameters of a kernel, from its canonical signature
 *
 * For backends whose kernels take each parameter as an argument of its own.
 */
#ifndef ARAX_DAEMON_BACKENDS_PARAMS_H
#define ARAX_DAEMON_BACKENDS_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#define PARAMS_MAX	32

/* "f32", "u8" and so on; bytes. */
struct param_type {
	const char *name;
	uint32_t size;
};

struct param {
	const struct param_type *type;
	bool range;
	bool in, out;		/* of a range */
	uint32_t offset;	/* of a plain argument, in the launch's args */
};

struct params {
	uint32_t nr_ranges, nr_plain;
	uint32_t arg_len;
	struct param ranges[PARAMS_MAX];
	struct param plain[PARAMS_MAX];
};

/* -EINVAL: not canonical; -E2BIG: too many. */
int params_parse(struct params *p, const char *signature);

#endif /* ARAX_DAEMON_BACKENDS_PARAMS_H */
