// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

static int run(const struct command *self, int argc, char **argv)
{
	struct admin *a;
	bool json;
	char *end;
	int i, err, ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc < 2)
		return cli_usage(self, "which context? `arax ps` lists them");
	for (i = 1; i < argc; i++) {
		errno = 0;
		if (strtoull(argv[i], &end, 10) - 1 >= UINT32_MAX || *end || errno)
			return cli_usage(self, "\"%s\" is no context: want a number from `arax ps`",
					 argv[i]);
	}
	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	ret = EXIT_OK;
	for (i = 1; i < argc; i++) {
		struct arax_kill k = {
			.size = sizeof(k),
			.context = (uint32_t)strtoull(argv[i], NULL, 10),
		};

		err = admin_call(a, ARAX_NR_CONTEXT_KILL, &k);
		if (err)
			ret = admin_fail(err, "killing context %u", k.context);
	}
	admin_close(a);
	return ret;
}

const struct command cmd_kill = {
	.name = "kill",
	.args = "CONTEXT...",
	.summary = "kill contexts: their tasks vanish, their calls fail (administrators)",
	.run = run,
};
