// SPDX-License-Identifier: MIT
#include "daemon/kernels/signature.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define IDENT_MAX 63

static const struct {
	const char *name;
	uint32_t size;
} types[] = {
	{ "i8", 1 }, { "u8", 1 }, { "i16", 2 }, { "u16", 2 }, { "i32", 4 }, { "u32", 4 },
	{ "f32", 4 }, { "i64", 8 }, { "u64", 8 }, { "f64", 8 },
};

#define NR_TYPES (sizeof(types) / sizeof(types[0]))

struct word {
	const char *p;
	size_t len;
};

struct parser {
	struct signature *s;
	const char *text;
	const char *p;
	size_t used;			/* of s->text */
	uint32_t max_align;
	struct word seen[ARAX_SIG_MAX_ARGS];
	char *error;
	size_t error_len;
};

static int fail(struct parser *ps, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct parser *ps, int err, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(ps->error, ps->error_len, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < ps->error_len)
		snprintf(ps->error + n, ps->error_len - (size_t)n, " (at byte %zu)",
			 (size_t)(ps->p - ps->text));
	return err;
}

static int emit(struct parser *ps, const char *s, size_t n)
{
	if (ps->used + n >= sizeof(ps->s->text))
		return fail(ps, -E2BIG, "signature is longer than %zu bytes",
			    sizeof(ps->s->text) - 1);
	memcpy(ps->s->text + ps->used, s, n);
	ps->used += n;
	ps->s->text[ps->used] = '\0';
	return 0;
}

static void skip_space(struct parser *ps)
{
	while (*ps->p == ' ' || *ps->p == '\t')
		ps->p++;
}

static bool ident_char(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

/* The next identifier; an empty one if there is none. */
static struct word next_word(struct parser *ps)
{
	struct word w;

	skip_space(ps);
	w.p = ps->p;
	if (ident_char(*ps->p, true))
		while (ident_char(*ps->p, false))
			ps->p++;
	w.len = (size_t)(ps->p - w.p);
	return w;
}

static bool word_is(struct word w, const char *s)
{
	return w.len == strlen(s) && !memcmp(w.p, s, w.len);
}

static bool take(struct parser *ps, char c)
{
	skip_space(ps);
	if (*ps->p != c)
		return false;
	ps->p++;
	return true;
}

static uint32_t access_of(struct word w)
{
	if (word_is(w, "in"))
		return ARAX_IN;
	if (word_is(w, "out"))
		return ARAX_OUT;
	return word_is(w, "inout") ? ARAX_INOUT : 0;
}

static uint32_t type_size(struct word w)
{
	for (size_t i = 0; i < NR_TYPES; i++)
		if (word_is(w, types[i].name))
			return types[i].size;
	return 0;
}

static int check_ident(struct parser *ps, struct word w, const char *what)
{
	if (!w.len)
		return fail(ps, -EINVAL, "%s expected", what);
	if (w.len > IDENT_MAX)
		return fail(ps, -E2BIG, "%s is longer than %d bytes", what, IDENT_MAX);
	return 0;
}

static int add_name(struct parser *ps, struct word name)
{
	int err = check_ident(ps, name, "name of a parameter");

	if (err)
		return err;
	for (uint32_t i = 0; i < ps->s->nr_params; i++)
		if (ps->seen[i].len == name.len && !memcmp(ps->seen[i].p, name.p, name.len))
			return fail(ps, -EINVAL, "parameter '%.*s' is named twice",
				    (int)name.len, name.p);
	if (ps->s->nr_params == ARAX_SIG_MAX_ARGS)
		return fail(ps, -E2BIG, "more than %d parameters", ARAX_SIG_MAX_ARGS);
	ps->seen[ps->s->nr_params++] = name;
	return 0;
}

static int parse_param(struct parser *ps)
{
	struct arax_signature *abi = &ps->s->abi;
	struct word w = next_word(ps), name;
	uint32_t access = access_of(w);
	uint32_t size;
	int err;

	if (access) {
		err = emit(ps, w.p, w.len);
		if (!err)
			err = emit(ps, " ", 1);
		if (err)
			return err;
		w = next_word(ps);
	}
	size = type_size(w);
	if (!size)
		return fail(ps, -EINVAL, "type expected (i8..i64, u8..u64, f32, f64)");
	name = next_word(ps);
	err = add_name(ps, name);
	if (!err)
		err = emit(ps, w.p, w.len);
	if (!err)
		err = emit(ps, " ", 1);
	if (!err)
		err = emit(ps, name.p, name.len);
	if (err)
		return err;
	if (access) {
		if (!take(ps, '[') || !take(ps, ']'))
			return fail(ps, -EINVAL, "'[]' expected after the name of a range");
		abi->access |= (uint64_t)access << (2 * abi->nr_ranges);
		abi->nr_ranges++;
		return emit(ps, "[]", 2);
	}
	if (take(ps, '['))
		return fail(ps, -EINVAL, "a range needs 'in', 'out' or 'inout'");
	abi->arg_len = (abi->arg_len + size - 1) / size * size + size;
	if (size > ps->max_align)
		ps->max_align = size;
	return 0;
}

static int parse(struct parser *ps)
{
	struct word name = next_word(ps);
	int err = check_ident(ps, name, "name of the kernel");

	if (err)
		return err;
	memcpy(ps->s->name, name.p, name.len);
	err = emit(ps, name.p, name.len);
	if (err)
		return err;
	if (!take(ps, '('))
		return fail(ps, -EINVAL, "'(' expected");
	err = emit(ps, "(", 1);
	if (err)
		return err;
	if (!take(ps, ')')) {
		for (;;) {
			err = parse_param(ps);
			if (err)
				return err;
			if (take(ps, ')'))
				break;
			if (!take(ps, ','))
				return fail(ps, -EINVAL, "',' or ')' expected");
			err = emit(ps, ", ", 2);
			if (err)
				return err;
		}
	}
	skip_space(ps);
	if (*ps->p)
		return fail(ps, -EINVAL, "nothing may follow ')'");
	return emit(ps, ")", 1);
}

int signature_u32(const struct signature *s, const char *name)
{
	struct parser ps = { .p = strchr(s->text, '(') };
	uint32_t at = 0;

	do {
		struct word type;

		ps.p++;
		type = next_word(&ps);
		if (access_of(type)) {
			next_word(&ps);
			if (word_is(next_word(&ps), name))
				return -EINVAL;
			ps.p += strlen("[]");
		} else if (type.len) {
			uint32_t size = type_size(type);

			at = (at + size - 1) / size * size;
			if (word_is(next_word(&ps), name))
				return word_is(type, "u32") ? (int)at : -EINVAL;
			at += size;
		}
	} while (*ps.p == ',');
	return -ENOENT;
}

uint64_t signature_hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull;	/* FNV-1a, 64 bits */

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h;
}

int signature_parse(struct signature *s, const char *text, char *error, size_t len)
{
	struct parser ps = { .s = s, .text = text, .p = text, .max_align = 1,
			     .error = error, .error_len = len };
	int err;

	memset(s, 0, sizeof(*s));
	err = parse(&ps);
	if (err)
		return err;
	s->abi.arg_len = (s->abi.arg_len + ps.max_align - 1) / ps.max_align * ps.max_align;
	s->abi.abi_hash = signature_hash(s->text);
	return 0;
}
