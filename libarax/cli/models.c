// SPDX-License-Identifier: MIT
/* arax models: what araxd has learnt about run times, from the file in which it keeps them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define SYSTEM_FILE	"/var/lib/arax/models.json"
#define VERSION		2

static const struct column columns[] = {
	{ "kernel", "KERNEL", COLUMN_TEXT },
	{ "device", "DEVICE", COLUMN_TEXT },
	{ "backend", "BACKEND", COLUMN_TEXT },
	{ "work", "WORK", COLUMN_NUMBER },
	{ "runs", "RUNS", COLUMN_NUMBER },
	{ "ns", "MEAN", COLUMN_NS },
	{ "deviation", "DEVIATION", COLUMN_NS },
	{ "all_ns", "WITH OUTLIERS", COLUMN_NS },
	{ "curve", "REGRESSION", COLUMN_TEXT },
	{ 0 },
};

/* What the user's own daemon keeps, if it does, else the system's. */
static void default_file(char *path, size_t len)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (state && state[0] == '/')
		snprintf(path, len, "%s/arax/models.json", state);
	else
		snprintf(path, len, "%s/.local/state/arax/models.json", home ? home : "");
	if (access(SYSTEM_FILE, R_OK) == 0 || access(path, R_OK))
		snprintf(path, len, "%s", SYSTEM_FILE);
}

/* "12 us + 3.1 ns*w, 87 %" */
static json_t *curve(json_t *fit)
{
	const char *form = json_string_value(json_object_get(fit, "form"));
	double a = json_number_value(json_object_get(fit, "a"));
	double b = json_number_value(json_object_get(fit, "b"));
	char s[96];

	if (!form)
		return json_null();
	snprintf(s, sizeof(s), strchr(form, '^') ? "%.3g ns*w^%.3g, %d%%" : "%.3g ns + %.3g ns*w, %d%%",
		 a, b, (int)json_integer_value(json_object_get(fit, "confidence")) / 10);
	return json_string(s);
}

/* A line for each size.  NULL: the file isn't one of ours. */
static json_t *rows_of(json_t *root)
{
	json_t *models = json_object_get(root, "models"), *rows, *m, *size;
	size_t i, k;

	if (json_integer_value(json_object_get(root, "version")) != VERSION ||
	    !json_is_array(models))
		return NULL;
	rows = json_array();
	json_array_foreach(models, i, m) {
		json_array_foreach(json_object_get(m, "sizes"), k, size) {
			json_t *row = json_copy(size);

			/* A mean; for people whole items are enough. */
			json_object_set_new(row, "work", json_integer(
				(json_int_t)json_number_value(json_object_get(size, "work"))));
			json_object_set(row, "kernel", json_object_get(m, "kernel"));
			json_object_set(row, "device", json_object_get(m, "device"));
			json_object_set(row, "backend", json_object_get(m, "backend"));
			json_object_set_new(row, "curve", curve(json_object_get(m, "fit")));
			json_array_append_new(rows, row);
		}
	}
	return rows;
}

/* ------------------------------------------------------------------ */
/* The plot: both axes logarithmic, a colour for each model             */

#define WIDTH		900.0
#define HEIGHT		600.0
#define LEFT		80.0
#define RIGHT		260.0
#define TOP		30.0
#define BOTTOM		60.0

struct axes {
	double x0, x1, y0, y1;		/* powers of ten */
};

static double at_x(const struct axes *a, double work)
{
	return LEFT + (log10(work) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *a, double ns)
{
	return HEIGHT - BOTTOM - (log10(ns) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static void print_escaped(FILE *f, const char *s)
{
	for (; s && *s; s++) {
		if (strchr("<>&\"", *s))
			fprintf(f, "&#%d;", *s);
		else if ((unsigned char)*s >= ' ')
			putc(*s, f);
	}
}

static double number(json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static void find_axes(json_t *models, struct axes *a)
{
	json_t *m, *size;
	size_t i, k;

	*a = (struct axes){ INFINITY, -INFINITY, INFINITY, -INFINITY };
	json_array_foreach(models, i, m) {
		json_array_foreach(json_object_get(m, "sizes"), k, size) {
			double work = number(size, "work"), ns = number(size, "ns");

			if (!(work >= 1) || !(ns >= 1))
				continue;
			a->x0 = fmin(a->x0, floor(log10(work)));
			a->x1 = fmax(a->x1, floor(log10(work)) + 1);
			a->y0 = fmin(a->y0, floor(log10(ns)));
			a->y1 = fmax(a->y1, floor(log10(ns)) + 1);
		}
	}
	if (a->x0 > a->x1)
		*a = (struct axes){ 0, 1, 0, 1 };
}

static void print_grid(FILE *f, const struct axes *a)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double p;

	for (p = a->x0; p <= a->x1; p++)
		fprintf(f, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
			"text-anchor=\"middle\">1e%.0f</text>\n", at_x(a, pow(10, p)), TOP,
			HEIGHT - BOTTOM, at_x(a, pow(10, p)), HEIGHT - BOTTOM + 18, p);
	for (p = a->y0; p <= a->y1; p++) {
		int unit = p < 0 ? 0 : p < 12 ? (int)p / 3 : 3;

		fprintf(f, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
			"text-anchor=\"end\">%.0f %s</text>\n", LEFT, at_y(a, pow(10, p)),
			WIDTH - RIGHT, LEFT - 6, at_y(a, pow(10, p)) + 4, pow(10, p - 3 * unit),
			units[unit]);
	}
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">work (items, or bytes of a "
		"copy)</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16);
}

static void print_curve(FILE *f, const struct axes *a, json_t *fit, double least, double most,
			int hue)
{
	const char *form = json_string_value(json_object_get(fit, "form"));
	double fa = number(fit, "a"), fb = number(fit, "b"), step;
	int i;

	if (!form || !(least < most))
		return;
	fprintf(f, "<path fill=\"none\" stroke=\"hsl(%d,70%%,45%%)\" d=\"", hue);
	for (i = 0; i <= 40; i++) {
		step = least * pow(most / least, i / 40.);
		double ns = strchr(form, '^') ? fa * pow(step, fb) : fa + fb * step;

		fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', at_x(a, step), at_y(a, ns < 1 ? 1 : ns));
	}
	fputs("\"/>\n", f);
}

static int plot(json_t *root, const char *file)
{
	json_t *models = json_object_get(root, "models"), *m, *size;
	FILE *f = fopen(file, "w");
	struct axes a;
	size_t i, k;
	int err;

	if (!f) {
		fprintf(stderr, "arax: %s: %s\n", file, strerror(errno));
		return EXIT_FAILED;
	}
	find_axes(models, &a);
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", WIDTH, HEIGHT);
	print_grid(f, &a);
	json_array_foreach(models, i, m) {
		int hue = (int)(i * 137 % 360);
		double least = INFINITY, most = 0;

		json_array_foreach(json_object_get(m, "sizes"), k, size) {
			double work = number(size, "work"), ns = number(size, "ns");

			if (!(work >= 1) || !(ns >= 1))
				continue;
			least = fmin(least, work);
			most = fmax(most, work);
			fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" "
				"fill=\"hsl(%d,70%%,45%%)\"/>\n", at_x(&a, work), at_y(&a, ns), hue);
		}
		print_curve(f, &a, json_object_get(m, "fit"), least, most, hue);
		/* As many as there is room for. */
		if (TOP + 16 * (i + 1.) > HEIGHT - BOTTOM)
			continue;
		fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"hsl(%d,70%%,35%%)\">",
			WIDTH - RIGHT + 12, TOP + 16 * (i + 1.), hue);
		print_escaped(f, json_string_value(json_object_get(m, "kernel")));
		fputs(" on ", f);
		print_escaped(f, json_string_value(json_object_get(m, "device")));
		fputs("</text>\n", f);
	}
	fputs("</svg>\n", f);
	err = ferror(f);
	if (fclose(f) || err) {
		fprintf(stderr, "arax: %s: %s\n", file, strerror(errno));
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

/* ------------------------------------------------------------------ */

/* Takes an option with a value out of argv.  false: it lacks the value. */
static bool take_value(int *argc, char **argv, const char *option, const char **value)
{
	int i, n = 1;

	for (i = 1; i < *argc; i++) {
		if (strcmp(argv[i], option)) {
			argv[n++] = argv[i];
			continue;
		}
		if (++i == *argc)
			return false;
		*value = argv[i];
	}
	*argc = n;
	argv[n] = NULL;
	return true;
}

static int run(const struct command *self, int argc, char **argv)
{
	const char *file = NULL, *picture = NULL;
	json_t *root, *rows;
	json_error_t je;
	char path[4096];
	bool json;
	int ret;

	if (!take_value(&argc, argv, "--file", &file))
		return cli_usage(self, "--file takes a file");
	if (!take_value(&argc, argv, "--plot", &picture))
		return cli_usage(self, "--plot takes a file");
	ret = cli_options(self, &argc, argv, &json);
	if (ret >= 0)
		return ret;
	if (argc > 1)
		return cli_usage(self, "unexpected \"%s\"", argv[1]);
	if (!file) {
		default_file(path, sizeof(path));
		file = path;
	}
	root = json_load_file(file, 0, &je);
	if (!root) {
		if (access(file, R_OK))
			fprintf(stderr, "arax: %s: %s: araxd writes it when it ends, and after "
				"five minutes of work\n", file, strerror(errno));
		else
			fprintf(stderr, "arax: %s:%d: %s\n", file, je.line, je.text);
		return EXIT_FAILED;
	}
	rows = rows_of(root);
	if (!rows) {
		fprintf(stderr, "arax: %s: no learnt run times of version %d\n", file, VERSION);
		json_decref(root);
		return EXIT_FAILED;
	}
	ret = picture ? plot(root, picture) : EXIT_OK;
	if (!ret && json) {
		json_decref(rows);
		rows = json_incref(json_object_get(root, "models"));
	}
	json_decref(root);
	if (ret || (picture && !json)) {
		json_decref(rows);
		return ret;
	}
	return out_rows(rows, columns, json);
}

const struct command cmd_models = {
	.name = "models",
	.args = "[--json] [--plot FILE] [--file FILE]",
	.summary = "show what araxd has learnt about run times",
	.help =
		"Kernel, device and work (items of a launch, bytes of a copy): how often it ran, how\n"
		"long it takes, and the regression over the sizes, by which others are predicted.\n\n"
		"  --plot FILE   draw times over work, as SVG\n"
		"  --file FILE   instead of /var/lib/arax/models.json or, where there is none, that\n"
		"                of a private araxd in $XDG_STATE_HOME/arax or ~/.local/state/arax\n",
	.run = run,
};
