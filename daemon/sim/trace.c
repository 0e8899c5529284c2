// SPDX-License-Identifier: MIT
/* trace.c - reads recorded runs */
#include "daemon/sim/trace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/reader.h"

#define MAX_BYTES	(1ull << 48)

/* Index of the buffer of that name, which is made when it is met first. */
static uint32_t find_buffer(struct reader *r, struct sim_app *a, json_t *buffers, json_t *name)
{
	char text[SIM_NAME];
	json_t *known;
	uint32_t i;

	if (json_is_integer(name))
		snprintf(text, sizeof(text), "#%lld", (long long)json_integer_value(name));
	else if (json_is_string(name) && json_string_length(name) < sizeof(text))
		snprintf(text, sizeof(text), "%s", json_string_value(name));
	else
		reader_fail(r, -EINVAL, NULL, "a range begins with its buffer's number, or its name of at most %zu bytes",
			    sizeof(text) - 1);
	if (r->err)
		return 0;
	known = json_object_get(buffers, text);
	if (known)
		return (uint32_t)json_integer_value(known);
	i = app_buffer(a, 0);
	if (json_object_set_new(buffers, text, json_integer(i)))
		reader_fail(r, -EINVAL, NULL, "a buffer's name must be UTF-8");
	return i;
}

static void read_range(struct reader *r, struct sim_app *a, json_t *buffers, json_t *v)
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
	buffer = r->err ? 0 : find_buffer(r, a, buffers, json_array_get(v, 0));
	if (r->err || a->failed)
		return;
	if (a->buffers[buffer] < (uint64_t)(offset + length))
		a->buffers[buffer] = (uint64_t)(offset + length);
	app_range(a, buffer, (uint64_t)offset, (uint64_t)length, access);
}

int trace_line(const struct scenario *sc, struct sim_app *a, void *buffers, const char *file,
	       int line, const char *text, size_t bytes, char *error, size_t len)
{
	static const char *const known[] = {
		"kernel", "work", "submit_us", "sync", "ranges", "tenant", "task", NULL,
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
		return -EINVAL;
	}
	reader_keys(&r, obj, known);
	reader_string(&r, obj, "kernel", name, sizeof(name), NULL);
	kernel = strcmp(name, "host") ? scenario_kernel(sc, name) : SIM_HOST;
	if (!r.err && kernel == SIM_ANY)
		reader_fail(&r, -EINVAL, "kernel", "'%s' has no cost: add it to the scenario's kernels",
			    name);
	work = reader_count(&r, obj, "work", 1, 1ull << 40, 1);
	ranges = reader_array(&r, obj, "ranges", 0, ARAX_MAX_RANGES, true);
	if (!r.err && a->nr_tasks == SIM_MAX_TASKS)
		reader_fail(&r, -E2BIG, NULL, "there are more than %u tasks", SIM_MAX_TASKS);
	if (!r.err) {
		t = app_task(a, (uint16_t)kernel, work);
		t->after_ns = (uint64_t)(1e3 * reader_number(&r, obj, "submit_us", 0, 1e12, 0));
		t->sync = reader_bool(&r, obj, "sync", false);
		/* In the order of submission: what came earlier by its clock came with it. */
		if (!a->failed && a->nr_tasks > 1 && t->after_ns < t[-1].after_ns)
			t->after_ns = t[-1].after_ns;
	}
	json_array_foreach(ranges, i, v) {
		if (!r.err)
			read_range(&r, a, buffers, v);
	}
	json_decref(obj);
	if (!r.err && a->failed)
		reader_fail(&r, -ENOMEM, NULL, "out of memory");
	return r.err;
}

int trace_load(const struct scenario *sc, struct sim_app *a, const char *path, char *error,
	       size_t len)
{
	FILE *f = fopen(path, "re");
	json_t *buffers = json_object();
	size_t size = 0;
	char *text = NULL;
	ssize_t n;
	int err = 0, line = 0;

	if (!f || !buffers) {
		err = f ? -ENOMEM : -errno;
		snprintf(error, len, "%s: %s", path, strerror(-err));
	}
	while (!err && (n = getline(&text, &size, f)) >= 0) {
		line++;
		if (n && text[strspn(text, " \t\r\n")])
			err = trace_line(sc, a, buffers, path, line, text, (size_t)n, error, len);
	}
	if (!err && ferror(f)) {
		err = -EIO;
		snprintf(error, len, "%s: %s", path, strerror(EIO));
	}
	if (!err && !a->nr_tasks) {
		err = -EINVAL;
		snprintf(error, len, "%s: has no task", path);
	}
	free(text);
	json_decref(buffers);
	if (f)
		fclose(f);
	return err;
}
