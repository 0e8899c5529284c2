// SPDX-License-Identifier: MIT
/*
 * arax models: what araxd has learnt about run times, and those of copies, from the file in which
 * it keeps them.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "libarax/admin/mute.h"

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

static const struct column link_columns[] = {
	{ "to", "TO", COLUMN_TEXT },
	{ "from", "FROM", COLUMN_TEXT },
	{ "backend", "BACKEND", COLUMN_TEXT },
	{ "latency_ns", "LATENCY", COLUMN_NS },
	{ "rate", "RATE", COLUMN_TEXT },
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

/* Of a link: a device's name, or "host". */
static const char *end_of(json_t *link, bool to)
{
	const char *way = json_string_value(json_object_get(link, "direction"));
	const char *device = json_string_value(json_object_get(link, "device"));

	if (!way || !device)
		return "-";
	if (to)
		return strcmp(way, "out") ? device : "host";
	if (!strcmp(way, "direct"))
		device = json_string_value(json_object_get(link, "from"));
	return !strcmp(way, "in") ? "host" : device ? device : "-";
}

/* A line for each. */
static json_t *rows_of_links(json_t *links)
{
	json_t *rows = json_array(), *link;
	size_t i;

	json_array_foreach(links, i, link) {
		double byte_ns = json_number_value(json_object_get(link, "ns_per_byte"));
		json_t *row = json_copy(link);
		char rate[32];

		snprintf(rate, sizeof(rate), "%.3g GB/s", 1 / byte_ns);
		json_object_set_new(row, "to", json_string(end_of(link, true)));
		json_object_set_new(row, "from", json_string(end_of(link, false)));
		json_object_set_new(row, "rate", byte_ns > 0 ? json_string(rate) : json_null());
		json_array_append_new(rows, row);
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

/* What of a link is drawn: bytes of a copy. */
#define LINK_LEAST	4096.0
#define LINK_MOST	0x1p28
#define LINK_MOST_NS	1e18

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

/* What no name should have: a terminal obeys it, or it is no character of XML (U+FFFE, U+FFFF). */
static size_t unwanted(const char *s)
{
	return !strncmp(s, "\xef\xbf\xbe", 3) || !strncmp(s, "\xef\xbf\xbf", 3) ? 3 : mute_at(s);
}

static void print_escaped(FILE *f, const char *s)
{
	size_t n;

	for (; s && *s; s += n ? n : 1) {
		n = unwanted(s);
		if (!n && strchr("<>&\"", *s))
			fprintf(f, "&#%d;", *s);
		else if (!n)
			putc(*s, f);
	}
}

static double number(json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static double link_ns(json_t *link, double bytes)
{
	double ns = number(link, "latency_ns") + number(link, "ns_per_byte") * bytes;

	/* A file may say what no number holds. */
	return fmin(fmax(ns, 1), LINK_MOST_NS);
}

static void take_in(struct axes *a, double work, double ns)
{
	a->x0 = fmin(a->x0, floor(log10(work)));
	a->x1 = fmax(a->x1, floor(log10(work)) + 1);
	a->y0 = fmin(a->y0, floor(log10(ns)));
	a->y1 = fmax(a->y1, floor(log10(ns)) + 1);
}

static void find_axes(json_t *models, json_t *links, struct axes *a)
{
	json_t *m, *size;
	size_t i, k;

	*a = (struct axes){ INFINITY, -INFINITY, INFINITY, -INFINITY };
	json_array_foreach(links, i, m) {
		take_in(a, LINK_LEAST, link_ns(m, LINK_LEAST));
		take_in(a, LINK_MOST, link_ns(m, LINK_MOST));
	}
	json_array_foreach(models, i, m) {
		json_array_foreach(json_object_get(m, "sizes"), k, size) {
			double work = number(size, "work"), ns = number(size, "ns");

			if (work >= 1 && ns >= 1)
				take_in(a, work, ns);
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

/* Of as many as there is room for. */
static void print_name(FILE *f, size_t i, int hue, const char *what, const char *between,
		       const char *where)
{
	if (TOP + 16 * (i + 1.) > HEIGHT - BOTTOM)
		return;
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" fill=\"hsl(%d,70%%,35%%)\">",
		WIDTH - RIGHT + 12, TOP + 16 * (i + 1.), hue);
	print_escaped(f, what);
	fputs(between, f);
	print_escaped(f, where);
	fputs("</text>\n", f);
}

/* A broken line over bytes. */
static void print_link(FILE *f, const struct axes *a, json_t *link, int hue)
{
	fprintf(f, "<path fill=\"none\" stroke-dasharray=\"6 3\" stroke=\"hsl(%d,70%%,45%%)\" d=\"",
		hue);
	for (int i = 0; i <= 40; i++) {
		double bytes = LINK_LEAST * pow(LINK_MOST / LINK_LEAST, i / 40.);

		fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', at_x(a, bytes),
			at_y(a, link_ns(link, bytes)));
	}
	fputs("\"/>\n", f);
}

static int plot(json_t *models, json_t *links, const char *file)
{
	FILE *f = fopen(file, "w");
	json_t *m, *size;
	size_t i, k, n = json_array_size(models);
	struct axes a;
	int err;

	if (!f) {
		fprintf(stderr, "arax: %s: %s\n", file, strerror(errno));
		return EXIT_FAILED;
	}
	find_axes(models, links, &a);
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
		print_name(f, i, hue, json_string_value(json_object_get(m, "kernel")), " on ",
			   json_string_value(json_object_get(m, "device")));
	}
	json_array_foreach(links, i, m) {
		int hue = (int)((n + i) * 137 % 360);

		print_link(f, &a, m, hue);
		print_name(f, n + i, hue, end_of(m, false), " to ", end_of(m, true));
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

/* Takes an option without a value out of argv. */
static bool take_flag(int *argc, char **argv, const char *option)
{
	int i, n = 1;

	for (i = 1; i < *argc; i++)
		if (strcmp(argv[i], option))
			argv[n++] = argv[i];
	i = *argc;
	*argc = n;
	argv[n] = NULL;
	return n < i;
}

/* One table, or two. */
static int show(json_t *models, json_t *links, bool json)
{
	int ret = EXIT_OK;

	if (models)
		ret = out_rows(models, columns, json);
	if (models && links && !ret)
		putchar('\n');
	if (links && !ret)
		return out_rows(links, link_columns, json);
	json_decref(links);
	return ret;
}

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
	json_t *root, *rows, *links;
	bool json, only_links;
	json_error_t je;
	char path[4096];
	int ret;

	if (!take_value(&argc, argv, "--file", &file))
		return cli_usage(self, "--file takes a file");
	if (!take_value(&argc, argv, "--plot", &picture))
		return cli_usage(self, "--plot takes a file");
	only_links = take_flag(&argc, argv, "--links");
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
			fprintf(stderr, "arax: %s: %s: araxd writes it when it ends, now and then "
				"while it works, and at SIGUSR1\n", file, strerror(errno));
		else
			fprintf(stderr, "arax: %s:%d: %s\n", file, je.line,
				mute(je.text));
		return EXIT_FAILED;
	}
	rows = rows_of(root);
	if (!rows) {
		fprintf(stderr, "arax: %s: no learnt run times of version %d\n", file, VERSION);
		json_decref(root);
		return EXIT_FAILED;
	}
	/* Files of before have no links. */
	links = json_object_get(root, "links");
	ret = picture ? plot(only_links ? NULL : json_object_get(root, "models"), links, picture) :
			EXIT_OK;
	if (ret || (picture && !json)) {
		json_decref(rows);
		json_decref(root);
		return ret;
	}
	if (json) {
		json_decref(rows);
		rows = only_links ? NULL : json_incref(json_object_get(root, "models"));
		links = !only_links ? NULL : links ? json_incref(links) : json_array();
	} else {
		if (only_links) {
			json_decref(rows);
			rows = NULL;
		}
		links = only_links || json_array_size(links) ? rows_of_links(links) : NULL;
	}
	json_decref(root);
	return show(rows, links, json);
}

const struct command cmd_models = {
	.name = "models",
	.args = "[--links] [--json] [--plot FILE] [--file FILE]",
	.summary = "show what araxd has learnt about run times and copies",
	.help =
		"Kernel, device and work (items of a launch, bytes of a copy): how often it ran, how\n"
		"long it takes, and the regression over the sizes, by which others are predicted.\n"
		"Below that, of each link between the host and devices that have memory of their own,\n"
		"or two of these: what a copy takes, as measured when araxd started and learnt from\n"
		"copies since: LATENCY, and the bytes by RATE.\n\n"
		"  --links       the links alone; in JSON they are in no other way\n"
		"  --plot FILE   draw times over work, as SVG\n"
		"  --file FILE   instead of /var/lib/arax/models.json or, where there is none, that\n"
		"                of a private araxd in $XDG_STATE_HOME/arax or ~/.local/state/arax\n",
	.run = run,
};
