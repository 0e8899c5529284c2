// SPDX-License-Identifier: MIT
/* Estimate pi with a kernel of one's own (kernels/montecarlo.c). */
#include <arax/arax.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"

#define TASKS	32
#define GROUPS	16
#define ITEMS	64	/* of a group: on a GPU threads, which take turns in its samples */

struct mc_args {
	uint32_t samples;
	uint32_t seed;
};

/* Of those that are installed, or else from @image, as nobody's but ours. */
static int find_kernel(struct arax *ax, const char *image, struct arax_kernel *kernel)
{
	static const struct arax_own_kernel own = {
		.signature = "mc_pi(out u64 hits[], u32 samples, u32 seed)",
		.flags = ARAX_MODULE_SPLIT,
	};
	int err = arax_kernel_find(ax, "mc_pi", arax_deadline(image ? 0 : 2000000000), kernel);

	if (err != -ENOENT || !image)
		return err;
	return arax_module_load_file(ax, ARAX_DEVICE_CPU, image, &own, 1, kernel);
}

static int run(struct arax *ax, uint32_t samples, const char *image)
{
	/* Not on the stack: arax_close() ends those that are pending when a task has failed. */
	static struct arax_event events[TASKS];
	struct arax_grid grid = arax_grid(GROUPS, 1, 1);
	struct arax_buffer *hits;
	struct arax_kernel kernel;
	struct arax_queue *queue;
	uint64_t total = 0;
	int err, i;

	err = find_kernel(ax, image, &kernel);
	if (err)
		return err;
	err = arax_buffer_create(ax, TASKS * GROUPS * sizeof(uint64_t), 0, &hits);
	if (err)
		return err;
	err = arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue);
	if (err)
		return err;
	grid.block[0] = ITEMS;
	/* Each task writes its own part, so all may run at once. */
	for (i = 0; i < TASKS; i++) {
		struct mc_args args = { samples, (uint32_t)i };
		uint64_t part = GROUPS * sizeof(uint64_t);

		err = arax_launch(queue, &kernel, grid, ARAX_ARGS(args),
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
	return 0;
}

static bool number(const char *text, uint32_t *value)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	*value = (uint32_t)n;
	return !errno && end != text && !*end && *text != '-' && n && n <= UINT32_MAX;
}

static int usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: montecarlo [--samples N] [--kernel FILE.so] [--report FILE]\n"
		"Estimate pi from N random points in each of 512 work-groups.\n"
		"FILE.so is brought along where nobody has installed the kernel.\n");
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "samples", required_argument, NULL, 's' },
		{ "kernel", required_argument, NULL, 'k' },
		{ "report", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	const char *image = NULL, *report = NULL;
	uint32_t samples = 200000;
	struct arax *ax;
	int c, err;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!number(optarg, &samples)) {
				fprintf(stderr, "montecarlo: --samples takes a number from 1, not '%s'\n",
					optarg);
				return usage(2);
			}
			break;
		case 'k':
			image = optarg;
			break;
		case 'r':
			report = optarg;
			break;
		case 'V':
			return printf("montecarlo %s\n", ARAX_VERSION) < 0;
		default:
			return usage(c == 'h' ? 0 : 2);
		}
	}
	err = arax_open(&ax, NULL);
	if (!err) {
		err = run(ax, samples, image);
		arax_close(ax);
	}
	if (err)
		fprintf(stderr, "montecarlo: %s\n", arax_error_text());
	else
		err = report_write(report, "montecarlo");
	return err ? 1 : 0;
}
