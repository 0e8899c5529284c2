/* SPDX-License-Identifier: MIT */
/*
 * steps.h - how many steps a launch is, from its plain arguments and its grid
 *
 *	sum	:= product { ( '+' | '-' ) product }
 *	product	:= unit { ( '*' | '/' | '%' ) unit }
 *	unit	:= number | name | '(' sum ')'
 *
 * Of whole numbers, from 0 on: what would be less is 0, what has no room in 64 bits, or is
 * divided by 0, is too much, and stays so but for a product with 0.  A name is that of a plain
 * argument of type u32, or "groups", the launch's work-groups, if there is no such argument.
 */
#ifndef ARAX_DAEMON_KERNELS_STEPS_H
#define ARAX_DAEMON_KERNELS_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kernels/signature.h"

struct arax_launch;

#define STEPS_OPS	64	/* numbers, names and operators */
#define STEPS_DEPTH	8	/* of what waits for its operator, and of parentheses */
#define STEPS_TEXT	256	/* with its NUL */
#define STEPS_TOO_MANY	UINT64_MAX

struct steps_op {
	uint32_t what;		/* enum what of steps.c */
	uint32_t value;		/* a number, or where an argument stands */
};

/* @nr 0: nothing is said. */
struct steps {
	uint32_t nr;
	struct steps_op ops[STEPS_OPS];	/* operators come behind what they are for */
	char text[STEPS_TEXT];		/* the whole, for people */
};

/*
 * Have @s be so many times what it was, or so many if nothing was said.  -EINVAL, -E2BIG, and a
 * text in @error.
 */
int steps_times(struct steps *s, const struct signature *sig, const char *text, char *error,
		size_t len);

/* Whether it goes by how many work-groups there are. */
bool steps_name_groups(const struct steps *s);

/* STEPS_TOO_MANY: that many, or more.  0 of a launch with too few bytes of arguments. */
uint64_t steps_of(const struct steps *s, const struct arax_launch *l);

#endif /* ARAX_DAEMON_KERNELS_STEPS_H */
