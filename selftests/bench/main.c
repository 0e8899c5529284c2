// SPDX-License-Identifier: MIT
/* arax-bench: how long a task takes, beside what it could take at best. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "place.h"
#include "result.h"

static const struct {
	const char *name;
	json_t *(*run)(const struct options *o);
	const char *what;
	double seconds;		/* unless said */
} benches[] = {
	{ "null", bench_null, "one task at a time, there and back, both sides awake", 5 },
	{ "depth", bench_depth, "64 tasks outstanding", 5 },
	{ "sleep", bench_sleep, "tasks with gaps, more clients than CPUs, idleness", 5 },
	{ "handover", bench_handover, "a buffer to a task and back, by its size", 5 },
	{ "access", bench_access, "a program's own loops over buffers, and their begin and end", 5 },
	{ "stream", bench_stream, "memory bandwidth of a CPU kernel", 5 },
	{ "starpu", bench_starpu, "throughput of empty tasks beside StarPU's", 5 },
	{ "simscale", bench_simscale, "how fast a million tasks are simulated; needs no araxd", 5 },
	{ "elastic", bench_elastic, "elastic against static assignment, in virtual time; the same", 5 },
	{ "grcuda-sim", bench_grcuda_sim, "GrCUDA's benchmarks on a simulated P100; the same", 5 },
	{ "cholesky-sim", bench_cholesky_sim, "tile Cholesky and LU on simulated GPUs and cores; the same", 5 },
	{ "grcuda", bench_grcuda, "six programs, order inferred, beside schedules by hand", 5 },
	{ "overhead", bench_overhead, "tasks of 1 us to 10 ms beside calls of their kernels", 5 },
	{ "cholesky", bench_cholesky, "tile Cholesky and tile LU beside StarPU's dmdas", 25 },
	{ "graph", bench_graph, "the daemon's graph alone; needs no araxd", 10 },
	{ "fair", bench_fair, "parts of device time of tenants and of programs", 20 },
	{ "sharing", bench_sharing, "applications on one device, at once and one after another", 20 },
	{ "rodinia", bench_rodinia, "nine Rodinia programs on OpenCL, beside OpenCL itself", 90 },
	{ "opencl", bench_opencl, "null tasks, a kernel and copies beside OpenCL's own calls", 10 },
	{ "cuda", bench_cuda, "tasks, copies and GrCUDA's programs beside CUDA's own calls", 30 },
	{ "outofcore", bench_outofcore, "half to four times what a device holds, beside loops by hand", 30 },
	{ "floors", bench_floors, "what this machine takes without Arax; needs no araxd", 5 },
};

#define NR_BENCHES (sizeof(benches) / sizeof(*benches))

static void usage(FILE *f)
{
	fprintf(f,
		"usage: arax-bench NAME [--link kernel|broker] [--json] [--seconds N] [--rounds N]\n"
		"       arax-bench list [--json]\n"
		"\n"
		"  --link L       kernel: the araxd that is attached to /dev/arax; broker (default):\n"
		"                 a private one, started and ended by this program\n"
		"  --json         one object: name, link, value, unit, p99, floor, ratio, peers, ...\n"
		"  --seconds N    measure for about so long, 0.1 to 600 (default 5;\n"
		"                 graph 10, cholesky 25, fair 20, sharing 20, rodinia 90, opencl 10,\n"
		"                 cuda 30, outofcore 30)\n"
		"  --rounds N     in so many turns, each figure the median of them, 1 to 64\n"
		"                 (default 9)\n"
		"  --help, --version\n"
		"\n"
		"Whether a bar is met is part of the result; the exit status is 0 all the same.\n");
}

noreturn void bench_fail(const char *format, ...)
{
	va_list ap;

	fputs("arax-bench: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	/* What a child would clean up is its parent's. */
	if (child_here())
		_exit(1);
	exit(1);
}

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "arax-bench: %s '%s'\n", what, value);
	usage(stderr);
	return 2;
}

static int list(int json)
{
	json_t *names = json_array(), *o;
	size_t i;

	for (i = 0; i < NR_BENCHES; i++) {
		if (!json) {
			printf("%-12s %s\n", benches[i].name, benches[i].what);
			continue;
		}
		o = json_pack("{s:s,s:s}", "name", benches[i].name, "what", benches[i].what);
		json_array_append_new(names, o);
	}
	if (json) {
		json_dumpf(names, stdout, JSON_INDENT(1));
		putchar('\n');
	}
	json_decref(names);
	return 0;
}

static int run(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "link", required_argument, NULL, 'l' },
		{ "json", no_argument, NULL, 'j' },
		{ "seconds", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .link = "broker", .rounds = 9 };
	const char *env = getenv("ARAX_LINK");
	char *end;
	size_t i;
	int c;

	if (env && !strcmp(env, "kernel"))
		o.link = "kernel";
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'l':
			o.link = optarg;
			if (strcmp(o.link, "kernel") && strcmp(o.link, "broker"))
				return wrong("no link", optarg);
			break;
		case 'j':
			o.json = 1;
			break;
		case 's':
			o.seconds = strtod(optarg, &end);
			if (*end || end == optarg || !(o.seconds >= 0.1 && o.seconds <= 600))
				return wrong("--seconds takes 0.1 to 600, not", optarg);
			break;
		case 'r':
			o.rounds = (int)strtol(optarg, &end, 10);
			if (*end || end == optarg || o.rounds < 1 || o.rounds > 64)
				return wrong("--rounds takes 1 to 64, not", optarg);
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			puts("arax-bench " ARAX_VERSION);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind == argc) {
		fputs("arax-bench: which bench? `list` names them\n", stderr);
		usage(stderr);
		return 2;
	}
	if (optind != argc - 1)
		return wrong("unexpected", argv[optind + 1]);
	if (!strcmp(argv[optind], "list"))
		return list(o.json);
	/* It would override the links that the benches choose. */
	unsetenv("ARAX_LINK");
	for (i = 0; i < NR_BENCHES; i++) {
		if (strcmp(argv[optind], benches[i].name))
			continue;
		if (o.seconds <= 0)
			o.seconds = benches[i].seconds;
		clock_calibrate();
		place_init();
		result_print(benches[i].run(&o), o.json);
		return 0;
	}
	return wrong("no bench", argv[optind]);
}

int main(int argc, char **argv)
{
	int ret = run(argc, argv);

	/* A result that did not arrive is none. */
	if (!ret && (fflush(stdout) || ferror(stdout) || fclose(stdout))) {
		perror("arax-bench: standard output");
		ret = 1;
	}
	return ret;
}
