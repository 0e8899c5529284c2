// SPDX-License-Identifier: MIT
#include "daemon/backends/params.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct param_type types[] = {
	{ "i8", 1 }, { "u8", 1 }, { "i16", 2 }, { "u16", 2 }, { "i32", 4 },
	{ "u32", 4 }, { "i64", 8 }, { "u64", 8 }, { "f32", 4 }, { "f64", 8 },
};

/* The word in front of a space, and what follows it. */
static const char *take_word(const char **text, size_t *len)
{
	const char *word = *text;

	*len = strcspn(word, " ,)");
	*text = word + *len;
	if (**text == ' ')
		(*text)++;
	return word;
}

static bool is(const char *word, size_t len, const char *name)
{
	return len == strlen(name) && !memcmp(word, name, len);
}

static int take_param(struct params *p, const char **text, uint32_t *max_align)
{
	struct param a = { 0 };
	const char *word;
	size_t len;

	word = take_word(text, &len);
	a.in = is(word, len, "in") || is(word, len, "inout");
	a.out = is(word, len, "out") || is(word, len, "inout");
	a.range = a.in || a.out;
	if (a.range)
		word = take_word(text, &len);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (is(word, len, types[i].name))
			a.type = &types[i];
	if (!a.type)
		return -EINVAL;
	take_word(text, &len);		/* its name */
	if (!len)
		return -EINVAL;
	if (p->nr_ranges + p->nr_plain == PARAMS_MAX)
		return -E2BIG;
	if (a.range) {
		p->ranges[p->nr_ranges++] = a;
		return 0;
	}
	a.offset = (p->arg_len + a.type->size - 1) / a.type->size * a.type->size;
	p->arg_len = a.offset + a.type->size;
	if (a.type->size > *max_align)
		*max_align = a.type->size;
	p->plain[p->nr_plain++] = a;
	return 0;
}

int params_parse(struct params *p, const char *signature)
{
	const char *text = strchr(signature, '(');
	uint32_t max_align = 1;
	int err;

	memset(p, 0, sizeof(*p));
	if (!text)
		return -EINVAL;
	text++;
	while (*text != ')') {
		err = take_param(p, &text, &max_align);
		if (err)
			return err;
		if (text[0] == ',' && text[1] == ' ' && text[2] != ')')
			text += 2;
		else if (*text != ')')
			return -EINVAL;
	}
	if (text[1])
		return -EINVAL;
	p->arg_len = (p->arg_len + max_align - 1) / max_align * max_align;
	return 0;
}
