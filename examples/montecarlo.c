// SPDX-License-Identifier: MIT
/* Estimate pi with a kernel of one's own (kernels/montecarlo.c). */
#include <arax/arax.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"

#define TASKS	32
#define GROUPS	16

struct mc_args {
	uint32_t samples;
	uint32_t seed;
};

static int run(struct arax *ax, uint32_t samples, const char *report)
{
	struct arax_event events[TASKS] = { 0 };
	struct arax_buffer *hits;
	struct arax_kernel kernel;
	struct arax_queue *queue;
	uint64_t total = 0;
	int err, i;

	err = arax_kernel_find(ax, "mc_pi", arax_deadline(2000000000), &kernel);
	if (err)
		return err;
	err = arax_buffer_create(ax, TASKS * GROUPS * sizeof(uint64_t), 0, &hits);
	if (err)
		return err;
	err = arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue);
	if (err)
		return err;
	/* Each task writes its own part, so all may run at once. */
	for (i = 0; i < TASKS; i++) {
		struct mc_args args = { samples, (uint32_t)i };
		uint64_t part = GROUPS * sizeof(uint64_t);

		err = arax_launch(queue, &kernel, arax_grid(GROUPS, 1, 1), ARAX_ARGS(args),
				  ARAX_RANGES(arax_part(hits, ARAX_OUT, i * part, part)),
				  &events[i]);
		if (err)
			return err;
	}
	for (i = 0; i < TASKS; i++) {
		err = arax_wait(&events[i], ARAX_DEADLINE_NONE);
		if (err)
			return err;
		report_add(&events[i]);
	}
	for (i = 0; i < TASKS * GROUPS; i++)
		total += ((uint64_t *)arax_buffer_data(hits))[i];
	printf("pi is about %.5f\n",
	       4.0 * (double)total / ((double)samples * TASKS * GROUPS));
	return report_write(report, "montecarlo");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "samples", required_argument, NULL, 's' },
		{ "report", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *report = NULL;
	uint32_t samples = 200000;
	struct arax *ax;
	int c, err;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			samples = (uint32_t)strtoul(optarg, NULL, 0);
			break;
		case 'r':
			report = optarg;
			break;
		default:
			fprintf(c == 'h' ? stdout : stderr,
				"usage: montecarlo [--samples N] [--report FILE]\n"
				"Estimate pi from N random points in each of 512 work-groups.\n");
			return c == 'h' ? 0 : 2;
		}
	}
	err = arax_open(&ax, NULL);
	if (!err) {
		err = run(ax, samples, report);
		arax_close(ax);
	}
	if (err)
		fprintf(stderr, "montecarlo: %s\n", arax_error_text());
	return err ? 1 : 0;
}
