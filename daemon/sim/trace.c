// SPDX-License-Identifier: MIT
/* trace.c - reads recorded runs */
#include "daemon/sim/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/event.h"
#include "daemon/sim/reader.h"
#include "libarax/admin/mute.h"

#define MAX_BYTES	(1ull << 48)
#define US		1e3	/* ns */
/*
 * Bytes of a line, without its end.  With all ranges and the longest names it has less than a
 * quarter of that, and of what is no trace, and has no lines, that is all that is kept.
 */
#define MAX_LINE	65536u

/*
 * Index of what is called so, among names of its @kind; @nr: of those that there are, of which a
 * new one is the next.
 */
static uint32_t find_name(struct reader *r, json_t *names, char kind, json_t *name,
			  const char *key, uint32_t *nr)
{
	char text[SIM_NAME + 2];
	json_t *known;

	if (json_is_integer(name))
		snprintf(text, sizeof(text), "%c#%lld", kind, (long long)json_integer_value(name));
	else if (json_is_string(name) && json_string_length(name) < SIM_NAME)
		snprintf(text, sizeof(text), "%c=%s", kind, json_string_value(name));
	else
		reader_fail(r, -EINVAL, key, "%s a number, or a name of at most %d bytes",
			    key ? "must be" : "a range begins with its buffer:", SIM_NAME - 1);
	if (r->err)
		return 0;
	known = json_object_get(names, text);
	if (known)
		return (uint32_t)json_integer_value(known);
	if (json_object_set_new(names, text, json_integer(*nr)))
		reader_fail(r, -EINVAL, key, "a name must be UTF-8");
	return (*nr)++;
}

static uint32_t find_buffer(struct reader *r, struct sim_app *a, json_t *names, json_t *name)
{
	uint32_t nr = a->nr_buffers, i = find_name(r, names, 'b', name, NULL, &nr);

	return nr > a->nr_buffers ? app_buffer(a, 0) : i;
}

static void read_range(struct reader *r, struct sim_app *a, json_t *names, json_t *v)
{
	static const char *const words[] = { "", "in", "out", "inout" };
	json_int_t offset = json_integer_value(json_array_get(v, 1));
	json_int_t length = json_integer_value(json_array_get(v, 2));
	const char *word = json_string_value(json_array_get(v, 3));
	uint32_t access = 0, buffer;

	for (uint32_t i = ARAX_IN; word && i <= ARAX_INOUT; i++)
		if (!strcmp(word, words[i]))
			access = i;
	if (json_array_size(v) != 4 || !access || !json_is_integer(json_array_get(v, 1)) ||
	    !json_is_integer(json_array_get(v, 2)))
		reader_fail(r, -EINVAL, NULL, "a range is [buffer, offset, length, \"in\", \"out\" or \"inout\"]");
	else if (offset < 0 || length < 1 || (uint64_t)offset > MAX_BYTES ||
		 (uint64_t)length > MAX_BYTES)
		reader_fail(r, -EINVAL, NULL, "offset and length must be at most 2^48, and the length not 0");
	buffer = r->err ? 0 : find_buffer(r, a, names, json_array_get(v, 0));
	if (r->err || a->failed)
		return;
	if (a->buffers[buffer] < (uint64_t)(offset + length))
		a->buffers[buffer] = (uint64_t)(offset + length);
	app_range(a, buffer, (uint64_t)offset, (uint64_t)length, access);
}

/* [name, value] of a timeline; returns 1 + its index, or 0 where it is absent. */
static uint32_t read_point(struct reader *r, struct sim_app *a, json_t *names, json_t *obj,
			   const char *key, uint64_t *value)
{
	json_t *v = json_object_get(obj, key), *n = json_array_get(v, 1);

	if (!v || r->err)
		return 0;
	if (json_array_size(v) != 2 || !json_is_integer(n) || json_integer_value(n) < 1 ||
	    (uint64_t)json_integer_value(n) > EVENT_LAST)
		reader_fail(r, -EINVAL, key, "must be a timeline and its value, from 1 to 2^62: [\"t\", 1]");
	*value = (uint64_t)json_integer_value(n);
	return 1 + find_name(r, names, 't', json_array_get(v, 0), key, &a->nr_timelines);
}

static void read_how(struct reader *r, struct sim_app *a, json_t *names, json_t *obj,
		     struct sim_how *how)
{
	json_t *context = json_object_get(obj, "context"), *tenant = json_object_get(obj, "tenant");

	if (context)
		how->context = find_name(r, names, 'c', context, "context", &a->nr_contexts);
	if (tenant)
		how->tenant = find_name(r, names, 'u', tenant, "tenant", &a->nr_tenants);
	how->queue = (uint32_t)reader_count(r, obj, "queue", 0, UINT32_MAX - 1ull, 0);
	how->in_order = reader_bool(r, obj, "in_order", false);
	how->barrier = reader_bool(r, obj, "barrier", false);
	how->target_ns = reader_units(r, obj, "target_us", 0, 1e12, 0, US);
	how->unblock_ns = reader_units(r, obj, "unblock_us", 0, 1e12, 0, US);
	how->end_ns = reader_units(r, obj, "end_us", 0, 1e12, 0, US);
	how->wait = read_point(r, a, names, obj, "wait", &how->wait_value);
	how->signal = read_point(r, a, names, obj, "signal", &how->signal_value);
	if (how->wait && how->unblock_ns)
		reader_fail(r, -EINVAL, "unblock_us", "a task that says for what it waits has none: give one of the two");
}

/* What lines had from the first: without more a line needs no struct sim_how. */
static bool has_how(const json_t *obj)
{
	static const char *const keys[] = {
		"context", "tenant", "queue", "in_order", "barrier", "target_us", "unblock_us",
		"end_us", "wait", "signal",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(obj, keys[i]))
			return true;
	return false;
}

int trace_line(const struct scenario *sc, struct sim_app *a, void *names, const char *file,
	       int line, const char *text, size_t bytes, char *error, size_t len)
{
	static const char *const known[] = {
		"kernel", "work", "submit_us", "sync", "ranges", "tenant", "task", "context", "queue",
		"in_order", "barrier", "priority", "target_us", "unblock_us", "end_us", "wait", "signal",
		NULL,
	};
	struct reader r = { .file = file, .text = "", .line = line, .error = error, .len = len };
	json_t *obj, *ranges, *v;
	struct sim_task *t;
	char name[SIM_NAME];
	json_error_t je;
	uint32_t kernel;
	uint64_t work;
	size_t i;

	obj = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je);
	if (!obj) {
		snprintf(error, len, "%s:%d: column %d: %s", file, line, je.column, je.text);
		mute(error);
		return -EINVAL;
	}
	reader_keys(&r, obj, known);
	reader_string(&r, obj, "kernel", name, sizeof(name), NULL);
	kernel = strcmp(name, TRACE_HOST) ? scenario_kernel(sc, name) : SIM_HOST;
	if (!r.err && kernel == SIM_ANY)
		reader_fail(&r, -EINVAL, "kernel", "'%s' has no cost: add it to the scenario's kernels",
			    name);
	work = reader_count(&r, obj, "work", 1, 1ull << 53, 1);
	ranges = reader_array(&r, obj, "ranges", 0, ARAX_MAX_RANGES, true);
	if (!r.err && a->nr_tasks == SIM_MAX_TASKS)
		reader_fail(&r, -E2BIG, NULL, "there are more than %u tasks", SIM_MAX_TASKS);
	if (!r.err) {
		t = app_task(a, (uint16_t)kernel, work);
		t->after_ns = reader_units(&r, obj, "submit_us", 0, 1e12, 0, US);
		t->sync = reader_bool(&r, obj, "sync", false);
		t->priority = (int8_t)reader_whole(&r, obj, "priority", -20, 19, 0);
		if (has_how(obj))
			read_how(&r, a, names, obj, app_how(a));
	}
	json_array_foreach(ranges, i, v) {
		if (!r.err)
			read_range(&r, a, names, v);
	}
	json_decref(obj);
	if (!r.err && a->failed)
		reader_fail(&r, -ENOMEM, NULL, "out of memory");
	return r.err;
}

/* Else who waits would do so for ever. */
static int check_timelines(const struct sim_app *a, json_t *names, const char *path, char *error,
			   size_t len)
{
	uint64_t *most = calloc(a->nr_timelines, sizeof(*most));
	int err = most ? 0 : -ENOMEM;
	const char *name;
	json_t *index;

	if (err)
		snprintf(error, len, "%s: out of memory", path);
	for (uint32_t i = 0; !err && i < a->nr_hows; i++) {
		const struct sim_how *h = &a->hows[i];

		if (h->signal && most[h->signal - 1] < h->signal_value)
			most[h->signal - 1] = h->signal_value;
	}
	for (uint32_t i = 0; !err && i < a->nr_hows; i++) {
		const struct sim_how *h = &a->hows[i];

		if (!h->wait || most[h->wait - 1] >= h->wait_value)
			continue;
		err = -EINVAL;
		json_object_foreach(names, name, index)
			if (*name == 't' && json_integer_value(index) == h->wait - 1)
				snprintf(error, len, "%s: task %u waits until timeline %s is %" PRIu64 ", and none brings it there",
					 path, i, name + 2, h->wait_value);
		mute(error);
	}
	free(most);
	return err;
}

/* What a program's next tasks cost would be another one's. */
static int check_tenants(const struct sim_app *a, const char *path, char *error, size_t len)
{
	uint32_t *of = calloc(a->nr_contexts + 1ul, sizeof(*of));
	int err = of ? 0 : -ENOMEM;

	if (err)
		snprintf(error, len, "%s: out of memory", path);
	for (uint32_t i = 0; !err && i < a->nr_hows; i++) {
		const struct sim_how *h = &a->hows[i];
		/* 0: none of its tasks has come. */
		uint32_t tenant = h->tenant == SIM_ANY ? a->nr_tenants + 1 : h->tenant + 1;

		if (h->context == SIM_ANY)
			continue;
		if (of[h->context] && of[h->context] != tenant) {
			err = -EINVAL;
			snprintf(error, len, "%s: task %u is not of the tenant that its context's first one is of: a context has one",
				 path, i);
		}
		of[h->context] = tenant;
	}
	free(of);
	return err;
}

/* Its bytes, MAX_LINE + 1 if they are more than may be, or -1: there are no more, or ferror(). */
static ssize_t read_line(FILE *f, char *text)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (n == MAX_LINE)
			return MAX_LINE + 1;
		text[n++] = (char)c;
	}
	text[n] = '\0';
	return ferror(f) || (c == EOF && !n) ? -1 : (ssize_t)n;
}

int trace_load(const struct scenario *sc, struct sim_app *a, const char *path, char *error,
	       size_t len)
{
	FILE *f = fopen(path, "re");
	json_t *names = json_object();
	char *text = malloc(MAX_LINE + 1);
	ssize_t n;
	int err = 0, line = 0;

	if (!f || !names || !text) {
		err = f ? -ENOMEM : -errno;
		snprintf(error, len, "%s: %s", path, strerror(-err));
	}
	while (!err && (n = read_line(f, text)) >= 0) {
		line++;
		if (n > MAX_LINE) {
			err = -E2BIG;
			snprintf(error, len, "%s:%d: a line has more than %u bytes: it is one task's, with %u ranges at most",
				 path, line, MAX_LINE, ARAX_MAX_RANGES);
		} else if (n && text[strspn(text, " \t\r\n")]) {
			err = trace_line(sc, a, names, path, line, text, (size_t)n, error, len);
		}
	}
	if (!err && !feof(f)) {
		err = errno ? -errno : -EIO;
		snprintf(error, len, "%s: %s", path, strerror(-err));
	}
	if (!err && !a->nr_tasks) {
		err = -EINVAL;
		snprintf(error, len, "%s: has no task", path);
	}
	if (!err && a->nr_timelines)
		err = check_timelines(a, names, path, error, len);
	if (!err && a->nr_tenants > 1)
		err = check_tenants(a, path, error, len);
	free(text);
	json_decref(names);
	if (f)
		fclose(f);
	return err;
}
