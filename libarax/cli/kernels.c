// SPDX-License-Identifier: MIT
#include <errno.h>

#include "cli.h"
#include "names.h"

static const struct column columns[] = {
	{ "id", "ID", COLUMN_NUMBER },
	{ "name", "NAME", COLUMN_TEXT },
	{ "kinds", "KINDS", COLUMN_TEXT },
	{ "text", "SIGNATURE", COLUMN_TEXT },
	{ 0 },
};

static int run(const struct command *self, int argc, char **argv)
{
	static const char *const access_names[] = { "unused", "in", "out", "inout" };
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	struct arax_kernel k;
	struct arax *ax;
	json_t *rows, *access;
	uint32_t i, id = 0;
	bool json;
	int ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc > 1)
		return cli_usage(self, "unexpected \"%s\"", argv[1]);
	if (arax_open(&ax, &o))
		return cli_fail(NULL);
	rows = json_array();
	while (!(ret = arax_kernel_next(ax, id, &k))) {
		access = json_array();
		for (i = 0; i < k.sig.nr_ranges && i < ARAX_MAX_RANGES; i++)
			json_array_append_new(access, json_string(
				access_names[k.sig.access >> (2 * i) & 3]));
		json_array_append_new(rows, json_pack("{so so so so so so}", "id", out_u64(k.id),
			"name", out_string(k.name, sizeof(k.name)), "kinds", kind_list(k.kinds),
			"text", out_string(k.text, sizeof(k.text)), "ranges", access,
			"arg_bytes", out_u64(k.sig.arg_len)));
		id = k.id + 1;
		if (!id)
			break;
	}
	arax_close(ax);
	if (ret && ret != -ENOENT) {
		json_decref(rows);
		return cli_fail(NULL);
	}
	return out_rows(rows, columns, json);
}

const struct command cmd_kernels = {
	.name = "kernels",
	.args = "[--json]",
	.summary = "list the kernels that programs can launch",
	.run = run,
};
