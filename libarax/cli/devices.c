// SPDX-License-Identifier: MIT
#include <errno.h>

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
	{ "busy_ns", "BUSY", COLUMN_NS },
	{ "tasks", "TASKS", COLUMN_NUMBER },
	{ "reason", "REASON", COLUMN_TEXT },
	{ 0 },
};

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
	rows = json_array();
	for (i = 0; !(ret = arax_get_device(ax, i, &d)); i++) {
		row = json_pack("{so so ss sb so so so so so so}", "index", out_u64(d.index), "name",
				out_string(d.name, sizeof(d.name)), "kind", kind_name(d.kind),
				"online", !!(d.flags & ARAX_DEVICE_ONLINE), "lanes", out_u64(d.lanes),
				"units", out_u64(d.units), "memory", out_u64(d.memory), "busy_ns",
				out_u64(d.busy_ns), "tasks", out_u64(d.tasks), "reason",
				d.reason[0] ? out_string(d.reason, sizeof(d.reason)) : json_null());
		if (!json)
			json_object_set_new(row, "memory_text",
					    d.memory ? out_u64(d.memory) :
					    json_string(d.lanes ? "host" : "-"));
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
		"device works on the program's own pages.  BUSY: device time given out.\n"
		"Stacks without a device, and those that araxd was not told to use, are listed as\n"
		"offline, and REASON says why and what to do.\n",
	.run = run,
};
