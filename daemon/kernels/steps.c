// SPDX-License-Identifier: MIT
#include "daemon/kernels/steps.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "arax/kernel.h"

enum what {
	NUMBER,
	ARGUMENT,
	GROUPS,
	ADD,
	SUBTRACT,
	MULTIPLY,
	DIVIDE,
	REST,
};

/* ------------------------------------------------------------------ */
/* Counting                                                              */

static uint64_t put_together(uint32_t what, uint64_t a, uint64_t b)
{
	uint64_t all;

	if (what == MULTIPLY)
		return __builtin_mul_overflow(a, b, &all) ? STEPS_TOO_MANY : all;
	if (a == STEPS_TOO_MANY || b == STEPS_TOO_MANY)
		return STEPS_TOO_MANY;
	if (what == ADD)
		return __builtin_add_overflow(a, b, &all) ? STEPS_TOO_MANY : all;
	if (what == SUBTRACT)
		return a > b ? a - b : 0;
	if (!b)
		return STEPS_TOO_MANY;
	return what == DIVIDE ? a / b : a % b;
}

bool steps_name_groups(const struct steps *s)
{
	for (uint32_t i = 0; i < s->nr; i++)
		if (s->ops[i].what == GROUPS)
			return true;
	return false;
}

uint64_t steps_of(const struct steps *s, const struct arax_launch *l)
{
	uint64_t stack[STEPS_DEPTH], *top = stack;	/* beyond what is there */

	for (const struct steps_op *op = s->ops; op < s->ops + s->nr; op++) {
		uint32_t argument;

		switch (op->what) {
		case NUMBER:
			*top++ = op->value;
			break;
		case ARGUMENT:
			/* These the kernel itself refuses. */
			if (op->value + sizeof(argument) > l->arg_len)
				return 0;
			memcpy(&argument, (const char *)l->args + op->value, sizeof(argument));
			*top++ = argument;
			break;
		case GROUPS:
			*top++ = arax_launch_groups(l);
			break;
		default:
			top--;
			top[-1] = put_together(op->what, top[-1], *top);
		}
	}
	return stack[0];
}

/* ------------------------------------------------------------------ */
/* Reading                                                               */

struct reader {
	struct steps *s;
	const struct signature *sig;
	const char *text, *p;
	uint32_t depth, most;	/* of what waits; that may */
	uint32_t parentheses;
	char *error;
	size_t len;
};

static int fail(struct reader *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct reader *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->error, r->len, fmt, ap);
	va_end(ap);
	return err;
}

static int fail_at(struct reader *r, const char *what)
{
	return fail(r, -EINVAL, "%s at byte %zu", what, (size_t)(r->p - r->text) + 1);
}

static void skip_space(struct reader *r)
{
	while (*r->p == ' ')
		r->p++;
}

/* One of @set, which is taken, or '\0'. */
static char take(struct reader *r, const char *set)
{
	skip_space(r);
	return *r->p && strchr(set, *r->p) ? *r->p++ : '\0';
}

static int add(struct reader *r, uint32_t what, uint32_t value)
{
	struct steps *s = r->s;

	r->depth = what < ADD ? r->depth + 1 : r->depth - 1;
	if (s->nr == STEPS_OPS || r->depth > r->most)
		return fail(r, -E2BIG, "is too long, or too deep");
	s->ops[s->nr++] = (struct steps_op){ .what = what, .value = value };
	return 0;
}

static int read_number(struct reader *r)
{
	uint64_t n = 0;

	for (; *r->p >= '0' && *r->p <= '9'; r->p++) {
		n = 10 * n + (uint64_t)(*r->p - '0');
		if (n > UINT32_MAX)
			return fail(r, -EINVAL, "has a number of more than 32 bits");
	}
	return add(r, NUMBER, (uint32_t)n);
}

static int read_name(struct reader *r)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	size_t n = strspn(r->p, letters);
	char name[SIGNATURE_TEXT_MAX];
	int at;

	if (!n || n >= sizeof(name))
		return fail_at(r, "has no number or name");
	memcpy(name, r->p, n);
	name[n] = '\0';
	r->p += n;
	at = signature_u32(r->sig, name);
	if (at >= 0)
		return add(r, ARGUMENT, (uint32_t)at);
	if (at == -ENOENT && !strcmp(name, "groups"))
		return add(r, GROUPS, 0);
	return fail(r, -EINVAL, "may name plain arguments of type u32, and not '%.64s'", name);
}

static int read_sum(struct reader *r);

static int read_unit(struct reader *r)
{
	int err;

	skip_space(r);
	if (*r->p >= '0' && *r->p <= '9')
		return read_number(r);
	if (!take(r, "("))
		return read_name(r);
	if (++r->parentheses > STEPS_DEPTH)
		return fail(r, -E2BIG, "is too deep");
	err = read_sum(r);
	r->parentheses--;
	if (!err && !take(r, ")"))
		err = fail_at(r, "has no ')'");
	return err;
}

static int read_product(struct reader *r)
{
	int err = read_unit(r);
	char c;

	while (!err && (c = take(r, "*/%"))) {
		err = read_unit(r);
		if (!err)
			err = add(r, c == '*' ? MULTIPLY : c == '/' ? DIVIDE : REST, 0);
	}
	return err;
}

static int read_sum(struct reader *r)
{
	int err = read_product(r);
	char c;

	while (!err && (c = take(r, "+-"))) {
		err = read_product(r);
		if (!err)
			err = add(r, c == '+' ? ADD : SUBTRACT, 0);
	}
	return err;
}

int steps_times(struct steps *s, const struct signature *sig, const char *text, char *error,
		size_t len)
{
	struct reader r = { .s = s, .sig = sig, .text = text, .p = text,
			    .depth = s->nr ? 1 : 0,
			    .most = STEPS_DEPTH,
			    .error = error, .len = len };
	size_t used = strlen(s->text), left = sizeof(s->text) - used;
	bool first = !s->nr, one = !strpbrk(text, "+-*/%");
	int err = read_sum(&r);

	skip_space(&r);
	if (!err && *r.p)
		err = fail_at(&r, "goes on");
	if (!err && !first)
		err = add(&r, MULTIPLY, 0);
	if (!err && (size_t)snprintf(s->text + used, left, one ? "%s%s" : "%s(%s)",
				     first ? "" : " * ", text) >= left)
		err = fail(&r, -E2BIG, "is more than %zu bytes with the others",
			   sizeof(s->text) - 1);
	return err;
}
