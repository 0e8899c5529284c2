// SPDX-License-Identifier: MIT
/*
 * arax trace: what a record of tasks (araxd --trace, arax run --trace) looks like.
 * Its form is described in daemon/observe/trace.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "libarax/admin/mute.h"

#define MAX_TASKS	20000000u

enum form { SUMMARY, PERFETTO, DOT, TASKS };

struct trace {
	json_t **tasks;		/* by link and seq */
	size_t nr, size;
};

/* ------------------------------------------------------------------ */
/* Reading                                                             */

static double number(const json_t *task, const char *key)
{
	return json_number_value(json_object_get(task, key));
}

static const char *text(const json_t *task, const char *key)
{
	return json_string_value(json_object_get(task, key));
}

static bool is_within(const json_t *task, const char *key, double least, double most)
{
	return number(task, key) >= least && number(task, key) <= most;
}

static bool is_task(const json_t *task)
{
	static const char *const numbers[] = {
		"seq", "context", "work", "submit_us", "start_us", "enter_us", "run_us",
		"leave_us", "lane", "result",
	};
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!json_is_number(json_object_get(task, numbers[i])))
			return false;
	return is_within(task, "lane", 0, UINT32_MAX) &&
	       is_within(task, "result", INT32_MIN, INT32_MAX) && text(task, "kernel") && text(task, "device") && text(task, "link") &&
	       json_is_array(json_object_get(task, "ranges")) &&
	       json_is_array(json_object_get(task, "then"));
}

static bool add(struct trace *t, json_t *task)
{
	json_t **more;

	if (t->nr == t->size) {
		t->size = t->size ? 2 * t->size : 1024;
		more = realloc(t->tasks, t->size * sizeof(*more));
		if (!more)
			return false;
		t->tasks = more;
	}
	t->tasks[t->nr++] = task;
	return true;
}

static int by_seq(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int links = strcmp(text(x, "link"), text(y, "link"));
	double p = number(x, "seq"), q = number(y, "seq");

	return links ? links : (p > q) - (p < q);
}

static int read_lines(struct trace *t, FILE *f, const char *path)
{
	size_t size = 0, number_of = 0;
	json_error_t error;
	char *line = NULL;
	ssize_t n;

	while ((n = getline(&line, &size, f)) > 0) {
		json_t *task;

		number_of++;
		if (line[n - 1] != '\n') {
			fprintf(stderr, "arax: %s:%zu: the last line has no end and is left out: araxd is writing it, or did not come to its end\n",
				path, number_of);
			break;
		}
		task = json_loadb(line, (size_t)n, 0, &error);
		if (!task || !is_task(task)) {
			fprintf(stderr, "arax: %s:%zu: not a task as araxd --trace writes them%s%s\n",
				path, number_of, task ? "" : ": ", task ? "" : mute(error.text));
			json_decref(task);
			free(line);
			return -1;
		}
		if (t->nr == MAX_TASKS || !add(t, task)) {
			fprintf(stderr, "arax: %s: more than %zu tasks don't fit\n", path, t->nr);
			json_decref(task);
			free(line);
			return -1;
		}
	}
	free(line);
	if (ferror(f)) {
		fprintf(stderr, "arax: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (!t->nr)
		fprintf(stderr, "arax: %s: no task is in it: none has run, or araxd has not written them yet, which it does at its end at the latest\n",
			path);
	else
		qsort(t->tasks, t->nr, sizeof(t->tasks[0]), by_seq);
	return 0;
}

static int read_trace(struct trace *t, const char *path)
{
	FILE *f = fopen(path, "re");
	int ret;

	if (!f) {
		fprintf(stderr, "arax: %s: %s\n", path, strerror(errno));
		return -1;
	}
	ret = read_lines(t, f, path);
	fclose(f);
	return ret;
}

static void release(struct trace *t)
{
	size_t i;

	for (i = 0; i < t->nr; i++)
		json_decref(t->tasks[i]);
	free(t->tasks);
}

/* ------------------------------------------------------------------ */
/* Writing                                                             */

/* The place of a name in a list that grows by it. */
static size_t place_of(json_t *names, const char *name)
{
	json_t *known = json_object_get(names, name);

	if (!known) {
		known = json_integer((json_int_t)json_object_size(names));
		json_object_set_new(names, name, known);
	}
	return (size_t)json_integer_value(known);
}

/* Of two names as one, whatever is in them. */
static size_t place_of_both(json_t *names, const char *one, const char *other)
{
	json_t *both = json_sprintf("%zu %s %s", strlen(one), one, other);
	size_t place = place_of(names, json_string_value(both));

	json_decref(both);
	return place;
}

static void put(json_t *event, bool *first)
{
	/* Times that no number holds, in what nobody's araxd wrote. */
	if (!event)
		return;
	fputs(*first ? "\n" : ",\n", stdout);
	*first = false;
	out_json(event, JSON_COMPACT | JSON_REAL_PRECISION(15));
	json_decref(event);
}

static void put_slice(const json_t *t, const char *name, const char *category, size_t device,
		      double start, double length, bool *first)
{
	if (length <= 0)
		return;
	put(json_pack("{ss ss ss sf sf sI sI s{sO sO sO sO sO}}", "ph", "X", "name", name, "cat",
		      category, "ts", start, "dur", length, "pid", (json_int_t)device + 1, "tid",
		      (json_int_t)number(t, "lane") + 1, "args",
		      "seq", json_object_get(t, "seq"), "context", json_object_get(t, "context"),
		      "result", json_object_get(t, "result"), "submit_us",
		      json_object_get(t, "submit_us"), "ranges", json_object_get(t, "ranges")),
	    first);
}

/* An arrow begins in the producer's slice and ends at the consumer's. */
static void put_arrow(const char *phase, const json_t *t, size_t device, double at,
		      const char *id, bool *first)
{
	put(json_pack("{ss ss ss sf sI sI ss+ ss}", "ph", phase, "name", "after", "cat", "graph",
		      "ts", at, "pid", (json_int_t)device + 1, "tid",
		      (json_int_t)number(t, "lane") + 1, "id", text(t, "link"), id, "bp", "e"), first);
}

static const json_t *find(const struct trace *t, const json_t *from, double seq)
{
	json_t *key = json_pack("{ss sf}", "link", text(from, "link"), "seq", seq);
	json_t **at = bsearch(&key, t->tasks, t->nr, sizeof(t->tasks[0]), by_seq);

	json_decref(key);
	return at ? *at : NULL;
}

static bool ran(const json_t *task)
{
	return strcmp(text(task, "device"), "none");
}

/* One that no device ran: when that was clear, on a line of its own. */
static void put_end(const json_t *t, size_t place, bool *first)
{
	put(json_pack("{ss ss ss++ ss sf sI si s{sO sO sO}}", "ph", "i", "s", "t", "name",
		      text(t, "kernel"), ": ", arax_strerror((int)number(t, "result")),
		      "cat", "ended", "ts", number(t, "start_us"), "pid", (json_int_t)place + 1,
		      "tid", 1, "args", "seq", json_object_get(t, "seq"), "context",
		      json_object_get(t, "context"), "result", json_object_get(t, "result")),
	    first);
}

/* One that was held for a timeline: when that was reached, on the line where it ran, or was over. */
static void put_reached(const json_t *t, size_t place, bool *first)
{
	if (!json_object_get(t, "unblock_us"))
		return;
	put(json_pack("{ss ss ss++ ss sf sI sI s{sO sO}}", "ph", "i", "s", "t", "name",
		      text(t, "kernel"), ": ", "timeline reached", "cat", "timeline", "ts",
		      number(t, "unblock_us"), "pid", (json_int_t)place + 1, "tid",
		      (json_int_t)number(t, "lane") + 1, "args", "seq", json_object_get(t, "seq"),
		      "context", json_object_get(t, "context")),
	    first);
}

static void put_arrows(const struct trace *t, const json_t *from, json_t *devices, bool *first)
{
	double end = number(from, "start_us") + number(from, "enter_us") + number(from, "run_us");
	json_t *then = json_object_get(from, "then"), *seq;
	size_t i;

	json_array_foreach(then, i, seq) {
		const json_t *to = find(t, from, json_number_value(seq));
		char id[64];

		if (!to || !ran(to))
			continue;
		snprintf(id, sizeof(id), "-%.20g-%.20g", number(from, "seq"), json_number_value(seq));
		put_arrow("s", from, place_of(devices, text(from, "device")), end, id, first);
		put_arrow("f", to, place_of(devices, text(to, "device")),
			  number(to, "start_us") + number(to, "enter_us"), id, first);
	}
}

/* The "Trace Event Format" that Perfetto and chrome://tracing open. */
static int perfetto(const struct trace *t)
{
	json_t *devices = json_object(), *lane;
	const char *name;
	bool first = true;
	size_t i;

	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", stdout);
	for (i = 0; i < t->nr; i++) {
		const json_t *task = t->tasks[i];
		size_t device = place_of(devices, text(task, "device"));
		double at = number(task, "start_us");

		put_reached(task, device, &first);
		if (!ran(task)) {
			put_end(task, device, &first);
			continue;
		}
		put_slice(task, "copy in", "copy", device, at, number(task, "enter_us"), &first);
		at += number(task, "enter_us");
		put_slice(task, text(task, "kernel"), "task", device, at, number(task, "run_us"),
			  &first);
		at += number(task, "run_us");
		put_slice(task, "copy out", "copy", device, at, number(task, "leave_us"), &first);
		put_arrows(t, task, devices, &first);
	}
	json_object_foreach(devices, name, lane)
		put(json_pack("{ss ss sI s{ss}}", "ph", "M", "name", "process_name", "pid",
			      json_integer_value(lane) + 1, "args", "name", name), &first);
	fputs("\n]}\n", stdout);
	json_decref(devices);
	return EXIT_OK;
}

/* Into a string of dot's; what a terminal or dot would take for more is not written. */
static void put_quoted(const char *s)
{
	while (*s) {
		size_t n = mute_at(s);

		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(n ? '?' : *s);
		s += n ? n : 1;
	}
}

static void put_node(const json_t *task, double seq)
{
	putchar('"');
	put_quoted(text(task, "link"));
	printf("%.0f\"", seq);
}

static int dot(const struct trace *t)
{
	static const char *const colours[] = {
		"lightblue", "palegreen", "khaki", "lightpink", "plum", "lightsalmon", "lightgrey",
	};
	json_t *devices = json_object(), *seq;
	size_t i, j;

	puts("digraph arax {\n\tnode [style=filled, shape=box];");
	for (i = 0; i < t->nr; i++) {
		const json_t *n = t->tasks[i];
		size_t device = place_of(devices, text(n, "device"));

		putchar('\t');
		put_node(n, number(n, "seq"));
		fputs(" [label=\"", stdout);
		put_quoted(text(n, "kernel"));
		fputs("\\n", stdout);
		if (!ran(n)) {
			put_quoted(arax_strerror((int)number(n, "result")));
			fputs("\", style=dashed];\n", stdout);
		} else {
			put_quoted(text(n, "device"));
			printf(" lane %.0f\\n%.1f us%s\", fillcolor=%s];\n", number(n, "lane"),
			       number(n, "run_us"), number(n, "result") < 0 ? "\\nfailed" : "",
			       colours[device % (sizeof(colours) / sizeof(colours[0]))]);
		}
		json_array_foreach(json_object_get(n, "then"), j, seq) {
			putchar('\t');
			put_node(n, number(n, "seq"));
			fputs(" -> ", stdout);
			put_node(n, json_number_value(seq));
			fputs(";\n", stdout);
		}
	}
	puts("}");
	json_decref(devices);
	return EXIT_OK;
}

/* In whole ns, as it was, since the first task. */
static json_t *since(double us, double first)
{
	return json_real(fmax(round((us - first) * 1e3) / 1e3, 0));
}

static void copy(json_t *out, const json_t *task, const char *key)
{
	if (json_object_get(task, key))
		json_object_set(out, key, json_object_get(task, key));
}

/* How much `arax sim` takes. */
#define REPLAY_US	1e12
#define REPLAY_WORK	((json_int_t)1 << 53)

/* No device has done more: such a launch was refused. */
static json_t *work_of(const json_t *task)
{
	json_int_t work = json_integer_value(json_object_get(task, "work"));

	return json_integer(work > 0 && work <= REPLAY_WORK ? work : 1);
}

/* Whose task it is, and how it was queued.  Contexts are numbered anew: each link begins at 1. */
static void put_how(json_t *out, const json_t *task, json_t *contexts, double first)
{
	static const char *const same[] = {
		"tenant", "queue", "in_order", "barrier", "priority",
	};
	double end = number(task, "start_us") + number(task, "enter_us") + number(task, "run_us") +
		     number(task, "leave_us");
	char context[32];

	snprintf(context, sizeof(context), "%.20g", number(task, "context"));
	json_object_set_new(out, "context", json_integer((json_int_t)place_of_both(
		contexts, text(task, "link"), context)));
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		copy(out, task, same[i]);
	/* A deadline that never comes is none. */
	if (number(task, "target_us") <= REPLAY_US)
		copy(out, task, "target_us");
	if (json_object_get(task, "unblock_us"))
		json_object_set_new(out, "unblock_us", since(number(task, "unblock_us"), first));
	/* 0 would be none. */
	json_object_set_new(out, "end_us", since(fmax(end, first + 1e-3), first));
}

/* All that a range spans; 0: nothing; negative: no buffer has so much. */
static json_int_t span(json_t *range)
{
	json_int_t length = json_integer_value(json_array_get(range, 2));
	json_int_t rows = json_integer_value(json_array_get(range, 5)), more;

	if (length < 0 || __builtin_mul_overflow(json_integer_value(json_array_get(range, 4)),
						 rows > 0 ? rows - 1 : 0, &more) ||
	    __builtin_add_overflow(length, more, &length))
		return -1;
	return length;
}

/*
 * What `arax sim` replays: a strided range as all that it spans.  Time begins with the first task: how
 * long araxd had waited for it is no matter of the program.
 */
static int tasks(const struct trace *t)
{
	json_t *contexts = json_object();
	double first = HUGE_VAL;
	size_t i, j;

	for (i = 0; i < t->nr; i++)
		first = fmin(first, number(t->tasks[i], "submit_us"));
	for (i = 0; i < t->nr; i++) {
		json_t *ranges = json_array(), *r, *out;
		bool sound = true;

		json_array_foreach(json_object_get(t->tasks[i], "ranges"), j, r) {
			json_int_t length = span(r);

			sound &= length >= 0;
			if (length > 0)
				json_array_append_new(ranges, json_pack("[OOIO]",
						      json_array_get(r, 0), json_array_get(r, 1),
						      length, json_array_get(r, 3)));
		}
		out = json_pack("{sO so so so}", "kernel", json_object_get(t->tasks[i], "kernel"),
				"work", work_of(t->tasks[i]), "submit_us",
				since(number(t->tasks[i], "submit_us"), first), "ranges", ranges);
		if (!out || !sound) {
			json_decref(out);
			json_decref(contexts);
			return cli_fail("a task without its parts");
		}
		put_how(out, t->tasks[i], contexts, first);
		out_json(out, JSON_COMPACT | JSON_REAL_PRECISION(15));
		putchar('\n');
		json_decref(out);
	}
	json_decref(contexts);
	return EXIT_OK;
}

/* ------------------------------------------------------------------ */
/* Summary                                                             */

static void grow(json_t *row, const char *key, double by)
{
	json_object_set_new(row, key, json_integer(json_integer_value(json_object_get(row, key)) +
						   (json_int_t)by));
}

/* One row for each kernel on each device. */
static int summary(const struct trace *t, bool as_json)
{
	static const struct column columns[] = {
		{ "device", "DEVICE", COLUMN_TEXT },
		{ "kernel", "KERNEL", COLUMN_TEXT },
		{ "tasks", "TASKS", COLUMN_NUMBER },
		{ "failed", "FAILED", COLUMN_NUMBER },
		{ "late", "LATE", COLUMN_NUMBER },
		{ "run_ns", "RUN", COLUMN_NS },
		{ "copy_ns", "COPIES", COLUMN_NS },
		{ "mean_ns", "MEAN RUN", COLUMN_NS },
		{ 0 },
	};
	json_t *rows = json_array(), *places = json_object(), *row;
	size_t i;

	for (i = 0; i < t->nr; i++) {
		const json_t *n = t->tasks[i];
		size_t place = place_of_both(places, text(n, "device"), text(n, "kernel"));

		if (place == json_array_size(rows))
			json_array_append_new(rows, json_pack("{sO sO}", "device",
							      json_object_get(n, "device"),
							      "kernel",
							      json_object_get(n, "kernel")));
		row = json_array_get(rows, place);
		grow(row, "tasks", 1);
		grow(row, "failed", number(n, "result") < 0);
		grow(row, "late", number(n, "late_us") > 0);
		grow(row, "run_ns", 1e3 * number(n, "run_us"));
		grow(row, "copy_ns", 1e3 * (number(n, "enter_us") + number(n, "leave_us")));
	}
	json_array_foreach(rows, i, row)
		json_object_set_new(row, "mean_ns", json_integer(
			json_integer_value(json_object_get(row, "run_ns")) /
			json_integer_value(json_object_get(row, "tasks"))));
	json_decref(places);
	return out_rows(rows, columns, as_json);
}

/* ------------------------------------------------------------------ */

static bool take_form(const char *arg, enum form *form)
{
	static const char *const names[] = { [PERFETTO] = "--perfetto", [DOT] = "--dot",
					     [TASKS] = "--tasks" };
	enum form f;

	for (f = PERFETTO; f <= TASKS; f++) {
		if (!strcmp(arg, names[f])) {
			*form = f;
			return true;
		}
	}
	return false;
}

static int run(const struct command *self, int argc, char **argv)
{
	enum form form = SUMMARY;
	struct trace t = { 0 };
	bool as_json = false;
	int i, n = 1, ret;

	for (i = 1; i < argc; i++)
		if (!take_form(argv[i], &form))
			argv[n++] = argv[i];
	argc = n;
	ret = cli_options(self, &argc, argv, &as_json);
	if (ret >= 0)
		return ret;
	if (argc != 2)
		return cli_usage(self, argc < 2 ? "which file?" : "one file, please");
	if (as_json && form != SUMMARY)
		return cli_usage(self, "--json is of the summary");
	if (read_trace(&t, argv[1])) {
		release(&t);
		return EXIT_FAILED;
	}
	switch (form) {
	case SUMMARY:
		ret = summary(&t, as_json);
		break;
	case PERFETTO:
		ret = perfetto(&t);
		break;
	case DOT:
		ret = dot(&t);
		break;
	case TASKS:
		ret = tasks(&t);
		break;
	}
	release(&t);
	return ret;
}

const struct command cmd_trace = {
	.name = "trace",
	.args = "[--perfetto | --dot | --tasks | --json] FILE",
	.summary = "show what araxd --trace or arax run --trace recorded",
	.help = "  --perfetto  every task on its device and lane, its copies, and what waited for\n"
		"              what, as JSON for https://ui.perfetto.dev or chrome://tracing\n"
		"  --dot       the graph of tasks, for dot(1)\n"
		"  --tasks     what was submitted, in order, for arax sim\n\n"
		"Otherwise: how often and how long each kernel ran on each device.\n",
	.run = run,
};
