// SPDX-License-Identifier: MIT
#include "selftests/bench/micro.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

double micro_budget_s = 0.3;

static bool json;
static bool first = true;

void micro_show(const char *name, double ns)
{
	if (json)
		printf("%s\n  {\"name\": \"%s\", \"value\": %.1f, \"unit\": \"ns\"}",
		       first ? "" : ",", name, ns);
	else
		printf("%-52s %10.1f ns\n", name, ns);
	first = false;
}

int micro_run(int argc, char **argv, void (*measure)(void))
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "seconds", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 's':
			micro_budget_s = atof(optarg);
			break;
		case 'V':
			printf("%s %s\n", argv[0], ARAX_VERSION);
			return 0;
		default:
			fprintf(c == 'h' ? stdout : stderr, "usage: %s [--json] [--seconds N]\n", argv[0]);
			return c == 'h' ? 0 : 2;
		}
	}
	if (json)
		printf("[");
	measure();
	if (json)
		printf("\n]\n");
	/* What could not be printed was measured for nothing. */
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
