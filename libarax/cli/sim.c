// SPDX-License-Identifier: MIT
#include <stdio.h>
#include <string.h>

#include "cli.h"

static int run(const struct command *self, int argc, char **argv)
{
	static char name[] = "arax-sim";

	argv[0] = name;
	cli_exec(name, argv);
	perror("arax: arax-sim");
	return EXIT_FAILED;
}

const struct command cmd_sim = {
	.name = "sim",
	.args = "SCENARIO [ARGUMENTS]",
	.summary = "plan: a scenario on simulated devices (runs arax-sim)",
	.run = run,
};
