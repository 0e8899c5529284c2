// SPDX-License-Identifier: MIT
#include "daemon/backends/opencl/build_log.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What a line is, or what it belongs to: the source's line, a note, or the mark below it. */
static bool is_error(const char *line, bool before)
{
	if (strcasestr(line, "error:"))
		return true;
	return before && !strcasestr(line, "warning:") && !strcasestr(line, "remark:");
}

static void tell_those(char *text, const char *end, bool errors,
		       void (*tell)(void *arg, const char *line), void *arg)
{
	bool error = false;

	for (const char *line = text; line < end; line += strlen(line) + 1) {
		error = is_error(line, error);
		if (*line && error == errors)
			tell(arg, line);
	}
}

void build_log_each(char *text, size_t bytes, void (*tell)(void *arg, const char *line), void *arg)
{
	char *end = text + bytes;

	for (char *p = text; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		*p = '\0';
	tell_those(text, end, true, tell, arg);
	tell_those(text, end, false, tell, arg);
}

void build_log_shorten(const char *line, char *text, size_t len)
{
	const char *from = line[0] == '/' ? line : strstr(line, " /");
	const char *name = line, *to;

	from = from ? strchr(from, '/') : line;
	to = strchr(from, ':');
	/* "/a/b.cl:3:4: ..." */
	if (from[0] == '/' && to && isdigit((unsigned char)to[1]))
		name = (const char *)memrchr(from, '/', (size_t)(to - from)) + 1;
	else
		from = line;
	snprintf(text, len, "%.*s%s", (int)(from - line), line, name);
}
