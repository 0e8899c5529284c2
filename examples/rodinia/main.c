// SPDX-License-Identifier: MIT
/* arax-rodinia: run a program of the suite on Arax, and check what comes out. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/rodinia/arax.h"

struct options {
	struct ro_params params;	/* 0: the program's own */
	const char *kind;
	bool check, json;
};

static void usage(FILE *f)
{
	fprintf(f,
		"usage: arax-rodinia NAME|all [--size N] [--steps N] [--seed N] [--kind KIND[,KIND]]\n"
		"                    [--check] [--json]\n"
		"       arax-rodinia list [--json]\n"
		"\n"
		"  --size N, --steps N  how much of it; what of: see list\n"
		"  --seed N       of the random inputs, 0 to 2^63 - 1 (default 1)\n"
		"  --kind KIND    start a private araxd with such devices alone (cpu, opencl) and with\n"
		"                 the programs' kernels; without it they have to be at the araxd\n"
		"                 that is there\n"
		"  --check        compare with a sequential version\n"
		"  --json         one object a program\n"
		"  --help, --version\n"
		"\n"
		"Exit status: 0; 1 if something failed or a result is wrong; 2 for wrong usage.\n");
}

static int list(bool json)
{
	json_t *all = json_array();
	int i;

	for (i = 0; i < RO_PROGRAMS; i++) {
		const struct ro_program *p = ro_programs[i];

		if (!json) {
			printf("%-15s %s\n", p->name, p->what);
			printf("%-15s   --size %u: %s, %u to %u\n", "", p->size, p->size_is,
			       p->size_least, p->size_most);
			printf("%-15s   --steps %u: %s, 1 to %u\n", "", p->steps, p->steps_are,
			       p->steps_most);
			continue;
		}
		json_array_append_new(all, json_pack("{s:s,s:s,s:i,s:s,s:i,s:i,s:i,s:s,s:i}",
						     "name", p->name, "what", p->what,
						     "size", (int)p->size, "size_is", p->size_is,
						     "size_least", (int)p->size_least,
						     "size_most", (int)p->size_most,
						     "steps", (int)p->steps, "steps_are", p->steps_are,
						     "steps_most", (int)p->steps_most));
	}
	if (json) {
		json_dumpf(all, stdout, JSON_INDENT(1));
		putchar('\n');
	}
	json_decref(all);
	return 0;
}

/* ------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct outcome {
	const struct ro_program *program;
	struct ro_params params;
	uint64_t tasks;
	double ms;
	bool checked;
	struct ro_verdict verdict;
};

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[ARAX_DEVICE_CPU] = "cpu", [ARAX_DEVICE_OPENCL] = "opencl",
		[ARAX_DEVICE_CUDA] = "cuda", [ARAX_DEVICE_HIP] = "hip",
		[ARAX_DEVICE_XRT] = "xrt", [ARAX_DEVICE_SIM] = "sim",
	};

	return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind] : "unknown";
}

static json_t *devices(struct ro_arax *a)
{
	json_t *all = json_array();
	struct arax_device d;
	uint32_t i;

	for (i = 0; i < RO_DEVICES; i++) {
		if (!a->use[i].tasks || arax_get_device(a->ax, i, &d))
			continue;
		json_array_append_new(all, json_pack("{s:s,s:s,s:I,s:f,s:I}", "name", d.name, "kind",
						     kind_name(d.kind),
						     "tasks", (json_int_t)a->use[i].tasks,
						     "device_ms", (double)a->use[i].device_ns / 1e6,
						     "bytes", (json_int_t)a->use[i].bytes));
	}
	return all;
}

static void print_json(const struct outcome *o, struct ro_arax *a)
{
	json_t *j = json_pack("{s:s,s:i,s:i,s:I,s:I,s:f,s:b}", "program", o->program->name,
			      "size", (int)o->params.size, "steps", (int)o->params.steps,
			      "seed", (json_int_t)o->params.seed,
			      "tasks", (json_int_t)o->tasks, "ms", o->ms, "checked", o->checked);

	if (o->checked) {
		/* JSON has no NaN. */
		json_object_set_new(j, "error", isfinite(o->verdict.error) ?
				    json_real(o->verdict.error) : json_null());
		json_object_set_new(j, "tolerance", json_real(o->verdict.tolerance));
		json_object_set_new(j, "error_is", json_string(o->verdict.what));
		json_object_set_new(j, "compared", json_integer((json_int_t)o->verdict.compared));
		json_object_set_new(j, "correct", json_boolean(ro_passes(&o->verdict)));
	}
	json_object_set_new(j, "devices", devices(a));
	json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(j);
}

static void print_text(const struct outcome *o, struct ro_arax *a)
{
	struct arax_device d;
	uint32_t i;

	printf("%s: %u %s, %u %s: %" PRIu64 " tasks in %.2f ms\n", o->program->name, o->params.size,
	       o->program->size_is, o->params.steps, o->program->steps_are, o->tasks, o->ms);
	for (i = 0; i < RO_DEVICES; i++)
		if (a->use[i].tasks && !arax_get_device(a->ax, i, &d))
			printf("  %" PRIu64 " on %s\n", a->use[i].tasks, d.name);
	if (o->checked)
		printf("  beside the sequential version: %.3g %s of %.3g allowed: %s\n",
		       o->verdict.error, o->verdict.what, o->verdict.tolerance,
		       ro_passes(&o->verdict) ? "correct" : "WRONG");
}

static int run_one(struct ro_arax *a, const struct ro_program *p, const struct options *o)
{
	struct outcome out = { .program = p, .params = o->params, .checked = o->check };
	uint64_t start;
	void *state;

	memset(a->use, 0, sizeof(a->use));
	if (!out.params.size)
		out.params.size = p->size;
	if (!out.params.steps)
		out.params.steps = p->steps;
	state = p->make(&a->m, &out.params);
	if (state) {
		if (p->reset)
			p->reset(state);
		start = now_ns();
		ro_run(&a->m, p, state);
		out.ms = (double)(now_ns() - start) / 1e6;
		out.tasks = a->m.tasks;
		if (!a->m.error && o->check)
			out.verdict = p->check(state);
		p->free(state);
	}
	ro_end(&a->m);
	if (a->m.error) {
		fprintf(stderr, "arax-rodinia: %s: %s\n", p->name, a->m.why);
		return 1;
	}
	if (o->json)
		print_json(&out, a);
	else
		print_text(&out, a);
	fflush(stdout);
	return o->check && !ro_passes(&out.verdict);
}

static int run(const char *name, const struct options *o)
{
	struct ro_arax a;
	int i, rc = 0;

	if (ro_arax_open(&a, NULL, true)) {
		fprintf(stderr, "arax-rodinia: %s\n", a.m.why);
		return 1;
	}
	for (i = 0; i < RO_PROGRAMS && !a.m.error; i++)
		if (!strcmp(name, "all") || !strcmp(name, ro_programs[i]->name))
			rc |= run_one(&a, ro_programs[i], o);
	ro_arax_close(&a);
	return rc;
}

/* ------------------------------------------------------------------ */

/* An option with its number, unless that is 0; how many arguments it takes. */
static int add_number(char *args[2], const char *option, uint64_t value, char text[24])
{
	if (!value)
		return 0;
	snprintf(text, 24, "%" PRIu64, value);
	args[0] = (char *)option;
	args[1] = text;
	return 2;
}

/*
 * The same again at a private araxd; by the place of this program.  From what was understood, not
 * from how it was written: the one there must not start another.
 */
static int run_private(const char *name, const struct options *o)
{
	char self[4096], arax[4200], kernels[4200], size[24], steps[24], seed[24];
	char *args[20] = { arax, "run", "--kind", (char *)o->kind, "--kernels", kernels, "--", self,
			   (char *)name };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	int k = 9;

	if (n < 0) {
		perror("arax-rodinia: /proc/self/exe");
		return 1;
	}
	self[n] = '\0';
	slash = strrchr(self, '/');
	snprintf(arax, sizeof(arax), "%.*s/arax", (int)(slash - self), self);
	snprintf(kernels, sizeof(kernels), "%.*s/../lib/arax/rodinia-kernels", (int)(slash - self),
		 self);
	k += add_number(args + k, "--size", o->params.size, size);
	k += add_number(args + k, "--steps", o->params.steps, steps);
	args[k++] = "--seed";
	snprintf(seed, sizeof(seed), "%" PRIu64, o->params.seed);
	args[k++] = seed;
	if (o->check)
		args[k++] = "--check";
	if (o->json)
		args[k++] = "--json";
	execv(arax, args);
	fprintf(stderr, "arax-rodinia: %s: %s\n", arax, strerror(errno));
	return 1;
}

static bool number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;

	/* strtoull() would skip spaces, and take a sign behind them. */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return !errno && !*end && *value <= most;
}

/* Those that there are kernels for, separated by commas. */
static bool kinds(const char *text)
{
	static const char *const names[] = { "cpu", "opencl" };
	size_t n, i;

	for (;; text += n + 1) {
		n = strcspn(text, ",");
		for (i = 0; i < 2; i++)
			if (strlen(names[i]) == n && !strncmp(text, names[i], n))
				break;
		if (i == 2)
			return false;
		if (!text[n])
			return true;
	}
}

static int wrong(const char *format, const char *value)
{
	fputs("arax-rodinia: ", stderr);
	fprintf(stderr, format, value);
	fputc('\n', stderr);
	usage(stderr);
	return 2;
}

/* Sizes that were given have to suit each program that is to run. */
static int check_sizes(const char *name, const struct options *o)
{
	char why[160];
	int i;

	for (i = 0; i < RO_PROGRAMS; i++) {
		const struct ro_program *p = ro_programs[i];
		struct ro_params params = o->params;

		if (strcmp(name, "all") && strcmp(name, p->name))
			continue;
		if (!params.size)
			params.size = p->size;
		if (!params.steps)
			params.steps = p->steps;
		if (!ro_sizes(p, &params, why, sizeof(why))) {
			fprintf(stderr, "arax-rodinia: %s: %s\n", p->name, why);
			return 2;
		}
	}
	return 0;
}

static int run_command(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "size", required_argument, NULL, 's' }, { "steps", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 'r' }, { "kind", required_argument, NULL, 'k' },
		{ "check", no_argument, NULL, 'c' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .params.seed = 1 };
	uint64_t value;
	int c, rc;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!number(optarg, UINT32_MAX, &value) || !value)
				return wrong("--size takes a number from 1, not '%s'", optarg);
			o.params.size = (uint32_t)value;
			break;
		case 't':
			if (!number(optarg, UINT32_MAX, &value) || !value)
				return wrong("--steps takes a number from 1, not '%s'", optarg);
			o.params.steps = (uint32_t)value;
			break;
		case 'r':
			/* What JSON can tell: its library's integers have a sign. */
			if (!number(optarg, INT64_MAX, &o.params.seed))
				return wrong("--seed takes a number up to 9223372036854775807, not '%s'",
					     optarg);
			break;
		case 'k':
			if (!kinds(optarg))
				return wrong("--kind takes cpu, opencl or both, not '%s'", optarg);
			o.kind = optarg;
			break;
		case 'c':
			o.check = true;
			break;
		case 'j':
			o.json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'V':
			puts("arax-rodinia " ARAX_VERSION);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc - 1)
		return wrong("%s", optind < argc ? "one program, or all" : "which program?");
	if (!strcmp(argv[optind], "list"))
		return list(o.json);
	if (strcmp(argv[optind], "all") && !ro_find(argv[optind]))
		return wrong("no program '%s': see arax-rodinia list", argv[optind]);
	rc = check_sizes(argv[optind], &o);
	if (rc)
		return rc;
	return o.kind ? run_private(argv[optind], &o) : run(argv[optind], &o);
}

int main(int argc, char **argv)
{
	int rc = run_command(argc, argv);

	/* A result that did not arrive is none. */
	if (!rc && (fflush(stdout) || ferror(stdout) || fclose(stdout))) {
		perror("arax-rodinia: standard output");
		rc = 1;
	}
	return rc;
}
