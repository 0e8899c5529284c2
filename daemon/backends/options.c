// SPDX-License-Identifier: MIT
#include "daemon/backends/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3)))
static int wanted(const struct arax_backend_host *araxd, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	/* A worker's has nobody to tell. */
	if (!ARAX_HOST_HAS(araxd, explain) || !araxd->explain)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	araxd->explain(text);
	return -EINVAL;
}

int option_number(const struct arax_backend_host *araxd, uint64_t *out, uint64_t max,
		  const char *value)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || errno || *end || !v || v > max)
		return wanted(araxd, "want a number from 1 to %llu", (unsigned long long)max);
	*out = v;
	return 0;
}

int option_small(const struct arax_backend_host *araxd, uint32_t *out, uint32_t max,
		 const char *value)
{
	uint64_t v;
	int err = option_number(araxd, &v, max, value);

	if (!err)
		*out = (uint32_t)v;
	return err;
}

int option_size(const struct arax_backend_host *araxd, uint64_t *out, const char *value)
{
	static const char units[] = "KMGT";
	unsigned int shift = 0;
	unsigned long long v;
	const char *unit;
	char *end;

	errno = 0;
	v = strtoull(value, &end, 10);
	if (value[0] < '0' || value[0] > '9' || errno || !v)
		goto wrong;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (*end || v > UINT64_MAX >> shift)
		goto wrong;
	*out = (uint64_t)v << shift;
	return 0;
wrong:
	return wanted(araxd, "want a number of bytes, 1 or more, or one of K, M, G or T, as in 512M");
}

int option_text(const struct arax_backend_host *araxd, char *out, size_t len, const char *value)
{
	if (!value[0] || strlen(value) >= len)
		return wanted(araxd, "want 1 to %zu bytes", len - 1);
	strcpy(out, value);
	return 0;
}

int option_path(const struct arax_backend_host *araxd, char *out, size_t len, const char *value)
{
	if (value[0] != '/')
		return wanted(araxd, "want a path that begins with /");
	return option_text(araxd, out, len, value);
}

int option_word(const struct arax_backend_host *araxd, const char *const *words, const char *value)
{
	char list[128] = "";
	size_t n = 0;
	int i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(words[i], value))
			return i;
		if (n < sizeof(list))
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
					      !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
	}
	return wanted(araxd, "want %s", list);
}
