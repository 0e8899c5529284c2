// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <string.h>

#include "cli.h"

static int run(const struct command *self, int argc, char **argv)
{
	static char name[] = "arax-bench";

	argv[0] = name;
	cli_exec(name, argv);
	perror("arax: arax-bench");
	return EXIT_FAILED;
}

const struct command cmd_bench = {
	.name = "bench",
	.args = "[ARGUMENTS]",
	.summary = "measure this machine (runs arax-bench)",
	.run = run,
};
