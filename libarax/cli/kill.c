// SPDX-License-Identifier: MIT
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

/* strtoull() alone takes blanks and signs. */
static bool parse_context(const char *s, uint32_t *id)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	n = strtoull(s, &end, 10);
	*id = (uint32_t)n;
	return !*end && !errno && n && n <= UINT32_MAX;
}

static json_t *outcome(uint32_t context, int err)
{
	return json_pack("{sI si so}", "context", (json_int_t)context, "result", err, "error",
			 err ? json_string(arax_strerror(err)) : json_null());
}

static int run(const struct command *self, int argc, char **argv)
{
	struct admin *a;
	json_t *rows;
	uint32_t id;
	bool json;
	int i, err, ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc < 2)
		return cli_usage(self, "which context? `arax ps` lists them");
	for (i = 1; i < argc; i++) {
		if (!parse_context(argv[i], &id))
			return cli_usage(self, "\"%s\" is no context: want a number from `arax ps`",
					 argv[i]);
	}
	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	ret = EXIT_OK;
	rows = json_array();
	for (i = 1; i < argc; i++) {
		struct arax_kill k = { .size = sizeof(k) };

		parse_context(argv[i], &id);
		k.context = id;
		err = admin_call(a, ARAX_NR_CONTEXT_KILL, &k);
		if (err)
			ret = admin_fail(err, "killing context %u", k.context);
		json_array_append_new(rows, outcome(k.context, err));
	}
	admin_close(a);
	if (json && out_rows(rows, NULL, true))
		ret = EXIT_FAILED;
	else if (!json)
		json_decref(rows);
	return ret;
}

const struct command cmd_kill = {
	.name = "kill",
	.args = "[--json] CONTEXT...",
	.summary = "kill contexts: their tasks vanish, their calls fail (administrators)",
	.run = run,
};
