// SPDX-License-Identifier: MIT
/* locate.c - jansson forgets where values stood; a second look at the text finds them */
#include "daemon/sim/locate.h"

#include <stdlib.h>
#include <string.h>

static const char *space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

static const char *skip_value(const char *p)
{
	int depth = 0;

	do {
		if (*p == '"') {
			p = skip_string(p);
			continue;
		}
		if (*p == '{' || *p == '[')
			depth++;
		else if (*p == '}' || *p == ']')
			depth--;
		p++;
	} while (*p && (depth > 0 || !strchr(",}]", *p)));
	return p;
}

/* The value of a member, or NULL. */
static const char *member(const char *p, const char *name, size_t len)
{
	for (p = space(p + 1); *p == '"';) {
		const char *key = p + 1;

		p = skip_string(p);
		if ((size_t)(p - 1 - key) == len && !memcmp(key, name, len))
			return space(space(p) + 1);
		p = space(skip_value(space(space(p) + 1)));
		if (*p == ',')
			p = space(p + 1);
	}
	return NULL;
}

static const char *element(const char *p, unsigned long n)
{
	p = space(p + 1);
	while (*p && *p != ']' && n--) {
		p = space(skip_value(p));
		if (*p == ',')
			p = space(p + 1);
	}
	return *p && *p != ']' ? p : NULL;
}

int locate_line(const char *text, const char *path)
{
	const char *at = space(text), *next;
	int line = 1;

	while (*path) {
		size_t len = strcspn(path, ".[");

		if (*path == '[' && *at == '[') {
			next = element(at, strtoul(path + 1, NULL, 10));
			path += strcspn(path, "]");
			path += *path == ']';
		} else if (*path != '[' && *at == '{') {
			next = member(at, path, len);
			path += len;
		} else {
			break;
		}
		if (!next)
			break;
		at = next;
		path += *path == '.';
	}
	for (const char *p = text; p < at; p++)
		line += *p == '\n';
	return line;
}
