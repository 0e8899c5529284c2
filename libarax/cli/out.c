// SPDX-License-Identifier: MIT
/* Data for programs as JSON, and the same data for people as tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "libarax/admin/mute.h"

json_t *out_u64(uint64_t n)
{
	return n > INT64_MAX ? json_null() : json_integer((json_int_t)n);
}

json_t *out_id(uint64_t id)
{
	char text[24];

	if (id <= INT64_MAX)
		return json_integer((json_int_t)id);
	snprintf(text, sizeof(text), "%#llx", (unsigned long long)id);
	return json_string(text);
}

json_t *out_string(const char *s, size_t size)
{
	size_t i, n = strnlen(s, size);
	json_t *j = json_stringn(s, n);
	char *copy;

	if (j)
		return j;
	copy = strndup(s, n);
	for (i = 0; i < n; i++) {
		if ((unsigned char)copy[i] >= 0x80)
			copy[i] = '?';
	}
	j = json_stringn(copy, n);
	free(copy);
	return j;
}

static json_t *counter(const struct arax_counter *c)
{
	return json_pack("{so so so so}", "current", out_u64(c->used), "peak",
			 out_u64(c->peak), "max", out_u64(c->max), "events", out_u64(c->events));
}

json_t *out_usage(const struct arax_usage *u)
{
	return json_pack("{so so so so so so so so s:{so so so so}}",
			 "memory", counter(&u->counters[ARAX_RES_MEMORY]),
			 "tasks", counter(&u->counters[ARAX_RES_TASKS]),
			 "contexts", counter(&u->counters[ARAX_RES_CONTEXTS]),
			 "device_memory", counter(&u->counters[ARAX_RES_DEVICE_MEMORY]),
			 "device_ns", out_u64(u->device_ns),
			 "wait_ns", out_u64(u->wait_ns),
			 "tasks_done", out_u64(u->tasks_done),
			 "tasks_failed", out_u64(u->tasks_failed),
			 "device_time",
			 "weight", out_u64(u->weight),
			 "used_ns", out_u64(u->device_ns),
			 "max_ns", out_u64(u->max_ns),
			 "period_ns", out_u64(u->max_ns == ARAX_LIMIT_MAX ? ARAX_LIMIT_MAX :
					      u->period_ns));
}

/* ------------------------------------------------------------------ */
/* Cells                                                               */

static json_t *look_up(json_t *object, const char *key)
{
	const char *dot = strchr(key, '.');
	char head[64];

	if (!dot)
		return json_object_get(object, key);
	snprintf(head, sizeof(head), "%.*s", (int)(dot - key), key);
	return look_up(json_object_get(object, head), dot + 1);
}

static void format_bytes(char *s, size_t size, double n)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	unsigned int i = 0;

	while (n >= 1024 && i < 5) {
		n /= 1024;
		i++;
	}
	snprintf(s, size, n == (double)(long)n ? "%.0f %s" : "%.1f %s", n, units[i]);
}

static void format_ns(char *s, size_t size, double ns)
{
	if (ns < 1e3)
		snprintf(s, size, "%.0f ns", ns);
	else if (ns < 1e6)
		snprintf(s, size, "%.1f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(s, size, "%.1f ms", ns / 1e6);
	else
		snprintf(s, size, "%.2f s", ns / 1e9);
}

static void format_share(char *s, size_t size, json_t *j)
{
	json_t *max = json_object_get(j, "max_ns");
	char some[24], all[24];

	if (!json_is_integer(max)) {
		snprintf(s, size, "max");
		return;
	}
	format_ns(some, sizeof(some), json_number_value(max));
	format_ns(all, sizeof(all), json_number_value(json_object_get(j, "period_ns")));
	snprintf(s, size, "%s in %s", some, all);
}

static long long number_of(json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

/* As in cpu.stat, on one line. */
static void format_stat(char *s, size_t size, json_t *j)
{
	snprintf(s, size, "usage_usec %lld nr_periods %lld nr_throttled %lld throttled_usec %lld",
		 number_of(j, "usage_usec"), number_of(j, "nr_periods"),
		 number_of(j, "nr_throttled"), number_of(j, "throttled_usec"));
}

/* As in cpu.pressure. */
static void format_pressure(char *s, size_t size, json_t *j)
{
	snprintf(s, size, "some avg10=%.2f avg60=%.2f avg300=%.2f total=%lld",
		 json_number_value(json_object_get(j, "avg10")),
		 json_number_value(json_object_get(j, "avg60")),
		 json_number_value(json_object_get(j, "avg300")), number_of(j, "total_usec"));
}

static void format_list(char *s, size_t size, json_t *list)
{
	size_t i, n = 0;
	json_t *j;

	s[0] = '\0';
	json_array_foreach(list, i, j) {
		if (json_is_string(j) && n < size)
			n += (size_t)snprintf(s + n, size - n, "%s%s", i ? " " : "",
					      json_string_value(j));
	}
}

static void format_cell(char *s, size_t size, json_t *object, const struct column *c)
{
	json_t *j = look_up(object, c->key);

	if (!j)
		snprintf(s, size, "-");
	else if (json_is_null(j))
		snprintf(s, size, c->kind == COLUMN_TEXT || c->kind == COLUMN_STAT ? "-" : "max");
	else if (json_is_string(j))
		snprintf(s, size, "%s", json_string_value(j));
	else if (json_is_boolean(j))
		snprintf(s, size, json_is_true(j) ? "yes" : "no");
	else if (json_is_array(j))
		format_list(s, size, j);
	else if (c->kind == COLUMN_SHARE)
		format_share(s, size, j);
	else if (c->kind == COLUMN_STAT)
		format_stat(s, size, j);
	else if (c->kind == COLUMN_PRESSURE)
		format_pressure(s, size, j);
	else if (c->kind == COLUMN_PERCENT)
		snprintf(s, size, "%.2f%%", json_number_value(j));
	else if (c->kind == COLUMN_BYTES)
		format_bytes(s, size, json_number_value(j));
	else if (c->kind == COLUMN_NS)
		format_ns(s, size, json_number_value(j));
	else
		snprintf(s, size, "%lld", (long long)json_integer_value(j));
	mute(s);
}

/* Width on a terminal, roughly: code points. */
static int width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static void print_padded(const char *s, int to, bool right, bool last)
{
	int pad = to - width(s);

	if (right)
		printf("%*s%s", pad, "", s);
	else
		printf("%s%*s", s, last ? 0 : pad, "");
	fputs(last ? "\n" : "  ", stdout);
}

static int finish(json_t *j)
{
	json_decref(j);
	if (fflush(stdout) || ferror(stdout)) {
		perror("arax: standard output");
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

/* Of @n bytes of UTF-8, 3 at most. */
static unsigned int code_point(const char *s, size_t n)
{
	const unsigned char *c = (const unsigned char *)s;

	if (n == 1)
		return c[0];
	if (n == 2)
		return (c[0] & 0x1fu) << 6 | (c[1] & 0x3fu);
	return (c[0] & 0xfu) << 12 | (c[1] & 0x3fu) << 6 | (c[2] & 0x3fu);
}

void out_json(const json_t *j, size_t flags)
{
	char *text = json_dumps(j, flags), *c = text;

	while (c && *c) {
		/* jansson escapes those before the blank; the lines' ends are its own. */
		size_t n = *c == '\n' ? 0 : mute_at(c);

		if (n)
			printf("\\u%04x", code_point(c, n));
		else
			putchar(*c);
		c += n ? n : 1;
	}
	free(text);
}

static int print_json(json_t *j)
{
	out_json(j, JSON_INDENT(2));
	putchar('\n');
	return finish(j);
}

int out_rows(json_t *rows, const struct column *columns, bool json)
{
	const struct column *c;
	char cell[512];
	int max[32];
	json_t *row;
	size_t i;
	int k, w;

	if (json)
		return print_json(rows);
	for (c = columns, k = 0; c->key; c++, k++) {
		max[k] = width(c->title);
		json_array_foreach(rows, i, row) {
			format_cell(cell, sizeof(cell), row, c);
			w = width(cell);
			if (w > max[k])
				max[k] = w;
		}
	}
	for (c = columns, k = 0; c->key; c++, k++)
		print_padded(c->title, max[k], c->kind != COLUMN_TEXT, !c[1].key);
	json_array_foreach(rows, i, row) {
		for (c = columns, k = 0; c->key; c++, k++) {
			format_cell(cell, sizeof(cell), row, c);
			print_padded(cell, max[k], c->kind != COLUMN_TEXT, !c[1].key);
		}
	}
	return finish(rows);
}

int out_object(json_t *object, const struct column *columns, bool json)
{
	const struct column *c;
	char cell[512];
	int w, max = 0;

	if (json)
		return print_json(object);
	for (c = columns; c->key; c++) {
		w = width(c->title);
		if (w > max)
			max = w;
	}
	for (c = columns; c->key; c++) {
		format_cell(cell, sizeof(cell), object, c);
		printf("%-*s  %s\n", max, c->title, cell);
	}
	return finish(object);
}
