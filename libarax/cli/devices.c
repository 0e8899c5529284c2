// SPDX-License-Identifier: MIT
#include <errno.h>
#include <time.h>

#include "cli.h"
#include "names.h"

static const struct column columns[] = {
	{ "index", "#", COLUMN_NUMBER },
	{ "name", "NAME", COLUMN_TEXT },
	{ "kind", "KIND", COLUMN_TEXT },
	{ "online", "ONLINE", COLUMN_TEXT },
	{ "lanes", "LANES", COLUMN_NUMBER },
	{ "units", "UNITS", COLUMN_NUMBER },
	{ "memory_text", "MEMORY", COLUMN_BYTES },
	{ "used_text", "USED", COLUMN_BYTES },
	{ "taken_text", "TAKEN", COLUMN_BYTES },
	{ "busy_text", "BUSY", COLUMN_NUMBER },
	{ "power_text", "POWER", COLUMN_NUMBER },
	{ "busy_ns", "TIME", COLUMN_NS },
	{ "tasks", "TASKS", COLUMN_NUMBER },
	{ "reason", "REASON", COLUMN_TEXT },
	{ 0 },
};

#define SECOND		1000000000ull
#define TRIES		50
#define BETWEEN_NS	10000000

/*
 * Who is answered old figures has had new ones taken, and need only ask again; but not for long:
 * an araxd that is stuck shows as much.
 */
static void await_figures(struct arax *ax)
{
	struct timespec between = { .tv_nsec = BETWEEN_NS };
	struct arax_device d;
	bool old = true;

	for (int n = 0; old && n < TRIES; n++) {
		if (n)
			nanosleep(&between, NULL);
		old = false;
		for (uint32_t i = 0; !arax_get_device(ax, i, &d); i++)
			old |= d.known && d.age_ns >= SECOND;
	}
}

/* NULL: nobody knows. */
static json_t *number(bool known, uint64_t n)
{
	return known ? out_u64(n) : json_null();
}

static json_t *text_of(json_t *n, const char *unit)
{
	char s[32];

	if (!json_is_number(n))
		return json_string("-");
	snprintf(s, sizeof(s), "%.0f%s", json_number_value(n), unit);
	return json_string(s);
}

static json_t *bytes_of(json_t *n)
{
	return json_is_number(n) ? json_incref(n) : json_string("-");
}

static json_t *row_of(const struct arax_device *d)
{
	/* Of long ago they would say nothing of now. */
	uint32_t known = d->age_ns <= 2 * SECOND ? d->known : 0;

	return json_pack("{so so ss sb so so so so so so so so so so}", "index", out_u64(d->index),
			 "name", out_string(d->name, sizeof(d->name)), "kind", kind_name(d->kind),
			 "online", !!(d->flags & ARAX_DEVICE_ONLINE), "lanes", out_u64(d->lanes),
			 "units", out_u64(d->units), "memory", out_u64(d->memory),
			 "memory_used", number(known & ARAX_DEVICE_USED, d->memory_used),
			 "memory_taken", number(known & ARAX_DEVICE_TAKEN, d->memory_taken),
			 "busy_percent", number(known & ARAX_DEVICE_BUSY, d->busy),
			 "power_w", known & ARAX_DEVICE_POWER ? json_real(d->power_mw / 1e3) :
								json_null(),
			 "busy_ns", out_u64(d->busy_ns), "tasks", out_u64(d->tasks), "reason",
			 d->reason[0] ? out_string(d->reason, sizeof(d->reason)) : json_null());
}

/* What only a table has. */
static void add_texts(json_t *row, const struct arax_device *d)
{
	json_object_set_new(row, "memory_text",
			    d->memory ? out_u64(d->memory) : json_string(d->lanes ? "host" : "-"));
	json_object_set_new(row, "used_text", bytes_of(json_object_get(row, "memory_used")));
	json_object_set_new(row, "taken_text", bytes_of(json_object_get(row, "memory_taken")));
	json_object_set_new(row, "busy_text", text_of(json_object_get(row, "busy_percent"), "%"));
	json_object_set_new(row, "power_text", text_of(json_object_get(row, "power_w"), " W"));
}

static int run(const struct command *self, int argc, char **argv)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	struct arax_device d;
	struct arax *ax;
	json_t *rows, *row;
	uint32_t i;
	bool json;
	int ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc > 1)
		return cli_usage(self, "unexpected \"%s\"", argv[1]);
	if (arax_open(&ax, &o))
		return cli_fail(NULL);
	await_figures(ax);
	rows = json_array();
	for (i = 0; !(ret = arax_get_device(ax, i, &d)); i++) {
		row = row_of(&d);
		if (!json)
			add_texts(row, &d);
		json_array_append_new(rows, row);
	}
	arax_close(ax);
	if (ret != -ENOENT) {
		json_decref(rows);
		return cli_fail(NULL);
	}
	return out_rows(rows, columns, json);
}

const struct command cmd_devices = {
	.name = "devices",
	.args = "[--json]",
	.summary = "list the devices that tasks run on",
	.help = "LANES: tasks side by side.  UNITS: cores or compute units.  MEMORY host: the\n"
		"device works on the program's own pages.  USED: of it, by araxd; TAKEN: whosever.\n"
		"BUSY: in the last second; a device that nobody else measures, by how long tasks had\n"
		"its lanes.  TIME: device time given out.  \"-\": nobody knows.\n"
		"Stacks without a device, and those that araxd was not told to use, are listed as\n"
		"offline, and REASON says why and what to do.\n",
	.run = run,
};
