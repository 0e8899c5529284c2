// SPDX-License-Identifier: MIT
/* reader.c - values out of a JSON object, each checked, each refusal with its place */
#include "daemon/sim/reader.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/sim/locate.h"
#include "libarax/admin/mute.h"

void reader_fail(struct reader *r, int err, const char *key, const char *format, ...)
{
	char why[PATH_MAX + 512];
	size_t back;
	va_list ap;
	int line;

	if (r->err)
		return;
	va_start(ap, format);
	vsnprintf(why, sizeof(why), format, ap);
	va_end(ap);
	back = key ? reader_enter(r, key) : strlen(r->path);
	line = r->line ? r->line : locate_line(r->text, r->path);
	snprintf(r->error, r->len, "%s:%d: %s%s%s", r->file, line, r->path, *r->path ? ": " : "",
		 why);
	mute(r->error);
	reader_leave(r, back);
	r->err = err;
}

size_t reader_enter(struct reader *r, const char *key)
{
	size_t back = strlen(r->path);

	snprintf(r->path + back, sizeof(r->path) - back, "%s%s", back ? "." : "", key);
	return back;
}

size_t reader_enter_index(struct reader *r, size_t i)
{
	size_t back = strlen(r->path);

	snprintf(r->path + back, sizeof(r->path) - back, "[%zu]", i);
	return back;
}

void reader_leave(struct reader *r, size_t back)
{
	r->path[back] = '\0';
}

void reader_keys(struct reader *r, json_t *obj, const char *const *known)
{
	char list[192] = "";
	const char *key;
	json_t *value;

	if (!json_is_object(obj)) {
		reader_fail(r, -EINVAL, NULL, "must be an object: { \"key\": value, ... }");
		return;
	}
	json_object_foreach(obj, key, value) {
		const char *const *k = known;

		while (*k && strcmp(*k, key))
			k++;
		if (*k)
			continue;
		for (k = known; *k; k++)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
				 k == known ? "" : ", ", *k);
		reader_fail(r, -EINVAL, key, "no such key; there are %s", list);
		return;
	}
}

double reader_number(struct reader *r, json_t *obj, const char *key, double low, double high,
		     double fallback)
{
	json_t *v = json_object_get(obj, key);
	double n = json_number_value(v);

	if (!v && !isnan(fallback))
		return fallback;
	if (!v)
		reader_fail(r, -EINVAL, key, "is missing: give a number from %g to %g", low, high);
	else if (!json_is_number(v))
		reader_fail(r, -EINVAL, key, "must be a number from %g to %g", low, high);
	else if (!(n >= low && n <= high))
		reader_fail(r, -EINVAL, key, "%g is not within %g to %g", n, low, high);
	else
		return n;
	return low;
}

uint64_t reader_units(struct reader *r, json_t *obj, const char *key, double low, double high,
		      double fallback, double units)
{
	/* 15.7 million is a little less than that, as a product of numbers that aren't decimal. */
	return (uint64_t)round(units * reader_number(r, obj, key, low, high, fallback));
}

uint64_t reader_count(struct reader *r, json_t *obj, const char *key, uint64_t low,
		      uint64_t high, uint64_t fallback)
{
	json_t *v = json_object_get(obj, key);
	json_int_t n = json_integer_value(v);
	unsigned long long from = low, to = high;

	if (!v && fallback != UINT64_MAX)
		return fallback;
	if (!v)
		reader_fail(r, -EINVAL, key, "is missing: give a whole number from %llu to %llu",
			    from, to);
	else if (!json_is_integer(v))
		reader_fail(r, -EINVAL, key, "must be a whole number from %llu to %llu", from, to);
	else if (n < 0 || (uint64_t)n < low || (uint64_t)n > high)
		reader_fail(r, -EINVAL, key, "%lld is not within %llu to %llu", (long long)n, from,
			    to);
	else
		return (uint64_t)n;
	return low;
}

int32_t reader_whole(struct reader *r, json_t *obj, const char *key, int32_t low, int32_t high,
		     int32_t fallback)
{
	double n = reader_number(r, obj, key, low, high, fallback);

	if (n != (int32_t)n)
		reader_fail(r, -EINVAL, key, "must be a whole number from %d to %d", low, high);
	return (int32_t)n;
}

bool reader_bool(struct reader *r, json_t *obj, const char *key, bool fallback)
{
	json_t *v = json_object_get(obj, key);

	if (!v)
		return fallback;
	if (!json_is_boolean(v))
		reader_fail(r, -EINVAL, key, "must be true or false");
	return json_is_true(v);
}

void reader_string(struct reader *r, json_t *obj, const char *key, char *out, size_t size,
		   const char *fallback)
{
	json_t *v = json_object_get(obj, key);
	const char *s = json_string_value(v);
	size_t n = s ? json_string_length(v) : 0;

	*out = '\0';
	if (!v && fallback) {
		snprintf(out, size, "%s", fallback);
		return;
	}
	if (!s || !n || n >= size) {
		reader_fail(r, -EINVAL, key, "%s a string of 1 to %zu bytes",
			    v ? "must be" : "is missing: give", size - 1);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] >= 0x7f) {
			reader_fail(r, -EINVAL, key, "has a byte that is not printable ASCII");
			return;
		}
	memcpy(out, s, n + 1);
}

json_t *reader_array(struct reader *r, json_t *obj, const char *key, size_t low, size_t high,
		     bool required)
{
	json_t *v = json_object_get(obj, key);
	size_t n = json_array_size(v);

	if (!v && !required)
		return NULL;
	if (!json_is_array(v) || n < low || n > high) {
		reader_fail(r, n > high ? -E2BIG : -EINVAL, key,
			    "%s an array of %zu to %zu elements", v ? "must be" : "is missing: give",
			    low, high);
		return NULL;
	}
	return v;
}
