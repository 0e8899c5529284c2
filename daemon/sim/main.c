// SPDX-License-Identifier: MIT
/* arax-sim: a scenario in virtual time.  `arax sim` runs it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/sim/engine.h"
#include "daemon/sim/report.h"

static void usage(FILE *f)
{
	fputs("usage: arax sim SCENARIO [--policy P] [--seed N] [--json] [--plot FILE] [--on-lane] [--ahead] [--no-bound]\n"
	      "\n"
	      "Runs a scenario (a JSON file; -: standard input) through Arax's scheduler on\n"
	      "simulated devices in virtual time, and says what would happen.\n"
	      "\n"
	      "  --policy P    of the scheduler, instead of the scenario's\n"
	      "  --seed N      instead of the scenario's\n"
	      "  --json        one object with everything\n"
	      "  --plot FILE   an SVG of the devices' use and the tenants' shares\n"
	      "  --on-lane     copy for a task only while it has a lane, as with debug.check_access\n"
	      "  --ahead       copy inputs of tasks that wait for others, too, which araxd does not\n"
	      "  --no-bound    leave out what no schedule could beat: it takes about as long as a\n"
	      "                run, or some seconds\n"
	      "  --help, --version\n"
	      "\n"
	      "Exit status: 0 done, 1 failed, 2 wrong usage.\n", f);
}

/* @value: what of, or NULL. */
static int wrong(const char *what, const char *value)
{
	if (value)
		fprintf(stderr, "arax-sim: %s '%s'\n", what, value);
	else
		fprintf(stderr, "arax-sim: %s\n", what);
	usage(stderr);
	return 2;
}

static char *read_all(FILE *f, size_t *bytes)
{
	size_t size = 0, used = 0, n;
	char *text = NULL, *bigger;

	do {
		if (used == size) {
			size = size ? 2 * size : 65536;
			bigger = realloc(text, size);
			if (!bigger) {
				free(text);
				errno = ENOMEM;
				return NULL;
			}
			text = bigger;
		}
		n = fread(text + used, 1, size - used, f);
		used += n;
	} while (n);
	if (ferror(f)) {
		free(text);
		return NULL;
	}
	*bytes = used;
	return text;
}

struct arguments {
	const char *file, *policy, *plot;
	FILE *drawing;		/* what is there already; NULL: made at the end */
	uint64_t seed;
	bool seeded, json, ahead, on_lane, bound;
};

/* What didn't arrive was not said. */
static int said(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	perror("arax-sim: standard output");
	return 1;
}

static int no_plot(const struct arguments *a, int err)
{
	fprintf(stderr, "arax-sim: --plot %s: %s: give a file that can be written\n", a->plot,
		strerror(err));
	return 1;
}

static int draw(const struct scenario *sc, const struct arguments *a, const struct sim_result *r)
{
	FILE *f = a->drawing ? a->drawing : fopen(a->plot, "we");
	int err;

	if (!f)
		return no_plot(a, errno);
	/* A pipe has nothing that could be taken away. */
	err = ftruncate(fileno(f), 0) && errno != EINVAL ? -errno : report_plot(sc, r, f);
	if (fclose(f) && !err)
		err = -errno;
	if (err && !a->drawing)
		unlink(a->plot);
	return err ? no_plot(a, -err) : 0;
}

static int show(const struct scenario *sc, const struct arguments *a, const struct sim_result *r,
		const struct sim_bound *bound)
{
	json_t *report = report_json(sc, a->policy ? a->policy : sc->policy, r, bound);

	if (a->json) {
		json_dumpf(report, stdout, REPORT_JSON);
		putchar('\n');
	} else {
		report_print(report, stdout);
	}
	json_decref(report);
	if (said())
		return 1;
	if (!a->plot)
		return 0;
	return draw(sc, a, r);
}

static int simulate(const struct scenario *sc, const struct arguments *a)
{
	struct sim_options o = {
		.policy = a->policy, .time_picks = true, .ahead = a->ahead,
		.on_lane = a->on_lane,
	};
	struct sim_result r;
	struct sim_bound bound;
	char error[512];
	int status = 1;

	if (!sim_run(sc, &o, &r, error, sizeof(error)) &&
	    (!a->bound || !sim_bound(sc, &bound, error, sizeof(error))))
		status = show(sc, a, &r, a->bound ? &bound : NULL);
	else
		fprintf(stderr, "arax-sim: %s: %s\n", a->file, error);
	sim_result_fini(&r);
	return status;
}

static int run(const struct arguments *a)
{
	bool in = !strcmp(a->file, "-");
	FILE *f = in ? stdin : fopen(a->file, "re");
	struct scenario sc;
	char error[2 * PATH_MAX + 1024], *text = NULL;
	size_t bytes = 0;
	int status = 1;

	if (f)
		text = read_all(f, &bytes);
	if (!text) {
		fprintf(stderr, "arax-sim: %s: %s\n", a->file, strerror(errno));
	} else if (scenario_load(&sc, in ? "standard input" : a->file, text, bytes,
				 a->seeded ? &a->seed : NULL, error, sizeof(error))) {
		fprintf(stderr, "arax-sim: %s\n", error);
	} else {
		status = simulate(&sc, a);
		scenario_fini(&sc);
	}
	free(text);
	if (f && !in)
		fclose(f);
	return status;
}

/*
 * Who would find out at the end that there can't be a plot had run all that for nothing.  What is
 * there stays until there is something else; what is not is made at the end, so that who is
 * interrupted leaves nothing.
 */
static int look_at_plot(struct arguments *a)
{
	int fd = open(a->plot, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd >= 0) {
		unlink(a->plot);
		close(fd);
		return 0;
	}
	/* A pipe has its reader only once. */
	fd = open(a->plot, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	a->drawing = fd >= 0 ? fdopen(fd, "w") : NULL;
	return a->drawing ? 0 : no_plot(a, errno);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "policy", required_argument, NULL, 'p' },
		{ "seed", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "plot", required_argument, NULL, 'o' },
		{ "ahead", no_argument, NULL, 'a' },
		{ "on-lane", no_argument, NULL, 'l' },
		{ "no-bound", no_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct arguments a = { .bound = true };
	char error[256], *end;
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			a.policy = optarg;
			if (!sim_has_policy(optarg, error, sizeof(error)))
				return wrong(error, NULL);
			break;
		case 's':
			errno = 0;
			a.seed = strtoull(optarg, &end, 10);
			a.seeded = true;
			if (*optarg < '0' || *optarg > '9' || *end || errno || a.seed > INT64_MAX)
				return wrong("--seed takes a whole number from 0 to 2^63 - 1, not",
					     optarg);
			break;
		case 'j':
			a.json = true;
			break;
		case 'o':
			a.plot = optarg;
			break;
		case 'a':
			a.ahead = true;
			break;
		case 'l':
			a.on_lane = true;
			break;
		case 'b':
			a.bound = false;
			break;
		case 'h':
			usage(stdout);
			return said();
		case 'V':
			puts("arax-sim " ARAX_VERSION);
			return said();
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc - 1)
		return optind < argc ? wrong("unexpected", argv[optind + 1]) :
				       wrong("which scenario?", NULL);
	a.file = argv[optind];
	return a.plot && look_at_plot(&a) ? 1 : run(&a);
}
