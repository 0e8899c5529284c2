// SPDX-License-Identifier: MIT
/* arax - look at, use and administrate Arax. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct command *const commands[] = {
	&cmd_devices, &cmd_info, &cmd_kernels, &cmd_models, &cmd_run, &cmd_ps, &cmd_kill,
	&cmd_tenant, &cmd_trace, &cmd_bench, &cmd_sim,
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *f)
{
	size_t i;

	fprintf(f, "usage: arax COMMAND [ARGUMENTS]\n\n");
	for (i = 0; i < NR_COMMANDS; i++)
		fprintf(f, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(f, "\n"
		"`arax COMMAND --help` says more.  --json prints data for programs.\n"
		"ARAX_LINK=kernel, broker or broker:PATH chooses how Arax is reached.\n"
		"Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static void print_command_help(const struct command *c, FILE *f)
{
	fprintf(f, "usage: arax %s%s%s\n\n%s\n", c->name, *c->args ? " " : "", c->args,
		c->summary);
	if (c->help)
		fprintf(f, "\n%s", c->help);
}

int cli_usage(const struct command *self, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "arax %s: ", self->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nusage: arax %s %s\n", self->name, self->args);
	return EXIT_USAGE;
}

int cli_fail(const char *text)
{
	fprintf(stderr, "arax: %s\n", text ? text : arax_error_text());
	return EXIT_FAILED;
}

int cli_options(const struct command *self, int *argc, char **argv, bool *json)
{
	int i, n = 1;

	if (json)
		*json = false;
	for (i = 1; i < *argc; i++) {
		if (json && !strcmp(argv[i], "--json")) {
			*json = true;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			print_command_help(self, stdout);
			return EXIT_OK;
		} else if (!strcmp(argv[i], "--version")) {
			printf("arax %s\n", arax_version());
			return EXIT_OK;
		} else if (argv[i][0] == '-' && argv[i][1]) {
			return cli_usage(self, "unknown option %s", argv[i]);
		} else {
			argv[n++] = argv[i];
		}
	}
	*argc = n;
	argv[n] = NULL;
	return -1;
}

void cli_exec(const char *name, char **argv)
{
	char path[PATH_MAX + NAME_MAX];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s", name);
		execv(path, argv);
		if (errno != ENOENT)
			return;
	}
	execvp(name, argv);
}

static int run_command(int argc, char **argv)
{
	size_t i;

	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("arax %s\n", arax_version());
		return EXIT_OK;
	}
	for (i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(argv[1], commands[i]->name))
			return commands[i]->run(commands[i], argc - 1, argv + 1);
	}
	fprintf(stderr, "arax: no command \"%s\"\n", argv[1]);
	print_help(stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int ret = run_command(argc, argv);

	/* What didn't arrive was not said, be it a table or the help. */
	if (!ret && (fflush(stdout) || ferror(stdout))) {
		perror("arax: standard output");
		ret = EXIT_FAILED;
	}
	return ret;
}
