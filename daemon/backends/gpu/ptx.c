// SPDX-License-Identifier: MIT
/*
 * The parameters of an entry, from PTX text.
 *
 *	.visible .entry NAME(
 *		.param .u64 .ptr .align 1 NAME_param_0,
 *		.param .f32 NAME_param_1
 *	)
 *
 * A letter for each: its type, without regard to sign, which is not kept by every
 * compiler: b (8 bits), h (16), w (32), q (64), f (f32), d (f64), r (a struct of the size of
 * arax_gpu_result), ? (anything else).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"

static const struct {
	const char *type;
	char letter;
} types[] = {
	{ ".u8", 'b' }, { ".s8", 'b' }, { ".b8", 'b' },
	{ ".u16", 'h' }, { ".s16", 'h' }, { ".b16", 'h' },
	{ ".u32", 'w' }, { ".s32", 'w' }, { ".b32", 'w' },
	{ ".u64", 'q' }, { ".s64", 'q' }, { ".b64", 'q' },
	{ ".f32", 'f' }, { ".f64", 'd' },
};

static const char spaces[] = " \t\r\n";

/* Behind the opening parenthesis of @symbol's parameters; NULL: there is no such entry. */
static const char *find_entry(const char *text, const char *symbol)
{
	static const char word[] = ".entry";
	size_t n = strlen(symbol);

	while ((text = strstr(text, word))) {
		text += sizeof(word) - 1;
		if (!strchr(spaces, *text))
			continue;
		text += strspn(text, spaces);
		if (strncmp(text, symbol, n))
			continue;
		if (text[n] != '(' && !strchr(spaces, text[n]))
			continue;
		text += n + strspn(text + n, spaces);
		return *text == '(' ? text + 1 : "";
	}
	return NULL;
}

static bool is_result(const char *param, size_t len)
{
	const char *size = (const char *)memchr(param, '[', len) + 1;
	char *end;

	return strtoul(size, &end, 10) == sizeof(struct gpu_result) && *end == ']' &&
	       memmem(param, len, ".align 8 .b8 ", 13);
}

/* The type is the first word that is one: arrays are ".align 8 .b8 name[16]". */
static char letter_of(const char *param, size_t len)
{
	const char *end = param + len;

	if (memchr(param, '[', len))
		return is_result(param, len) ? 'r' : '?';
	while (param < end) {
		size_t n = strcspn(param, " \t\r\n,)");

		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
			if (n == strlen(types[i].type) && !memcmp(param, types[i].type, n))
				return types[i].letter;
		param += n + strspn(param + n, spaces);
		if (!n && param < end)
			param++;
	}
	return '?';
}

int gpu_ptx_params(const char *text, const char *symbol, char letters[GPU_PTX_PARAMS])
{
	uint32_t nr = 0;

	text = find_entry(text, symbol);
	if (!text)
		return -ENOENT;
	for (;;) {
		size_t len = strcspn(text, ",)");

		if (text[strspn(text, spaces)] != ')' && text[len]) {
			if (nr == GPU_PTX_PARAMS - 1)
				return -E2BIG;
			letters[nr++] = letter_of(text, len);
		}
		if (text[len] != ',')
			break;
		text += len + 1;
	}
	letters[nr] = '\0';
	return 0;
}
