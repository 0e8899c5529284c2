// SPDX-License-Identifier: MIT
/*
 * four-times KERNEL: tasks on four times the bytes that the first device has
 *
 *   saxpy	y += x, in pairs of buffers, three times each
 *   twice	one that leaves its buffer as it is (XRT's noop shim)
 */
#include <arax/arax.h>
#include <err.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES	32	/* of an eighth of the device's memory each */
#define ROUNDS	3
#define BLOCK	64

static struct arax *ax;
static struct arax_queue *queue;
static uint64_t bytes;

static struct arax_buffer *buffer(float value)
{
	struct arax_buffer *b;
	float *data;

	if (arax_buffer_create(ax, bytes, 0, &b))
		errx(1, "buffer: %s", arax_error_text());
	data = arax_buffer_data(b);
	for (uint64_t i = 0; i < bytes / sizeof(*data); i++)
		data[i] = value;
	return b;
}

static void holds(struct arax_buffer *b, float value, uint32_t piece)
{
	const float *data = arax_buffer_data(b);

	for (uint64_t i = 0; i < bytes / sizeof(*data); i++)
		if (data[i] != value)
			errx(1, "piece %u, item %llu: %g, not %g", piece, (unsigned long long)i,
			     (double)data[i], (double)value);
}

static void saxpy(const struct arax_kernel *k, struct arax_buffer *x, struct arax_buffer *y)
{
	struct { float a; uint32_t n; } args = { 1, (uint32_t)(bytes / sizeof(float)) };
	struct arax_grid g = arax_grid(args.n / BLOCK, 1, 1);

	g.block[0] = BLOCK;
	if (arax_launch(queue, k, g, ARAX_ARGS(args), ARAX_RANGES(arax_in(x), arax_inout(y)), NULL))
		errx(1, "%s", arax_error_text());
}

static void leave(const struct arax_kernel *k, struct arax_buffer *b)
{
	if (arax_launch(queue, k, arax_grid(1, 1, 1), ARAX_NO_ARGS, ARAX_RANGES(arax_inout(b)),
			NULL))
		errx(1, "%s", arax_error_text());
}

int main(int argc, char **argv)
{
	struct arax_buffer *b[PIECES];
	bool adds = argc == 2 && !strcmp(argv[1], "saxpy");
	struct arax_kernel k;
	struct arax_device d;
	uint32_t i, round;

	if (argc != 2)
		errx(2, "usage: four-times saxpy|twice");
	if (arax_open(&ax, NULL) || arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue) ||
	    arax_kernel_find(ax, argv[1], 0, &k) || arax_get_device(ax, 0, &d))
		errx(1, "%s", arax_error_text());
	bytes = d.memory / 8;
	if (!bytes)
		errx(1, "%s has no memory of its own", d.name);
	for (i = 0; i < PIECES; i++)
		b[i] = buffer(adds && i % 2 ? 1 : (float)i);
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < PIECES; i++)
			if (!adds)
				leave(&k, b[i]);
			else if (i % 2)
				saxpy(&k, b[i], b[i - 1]);
	if (arax_queue_finish(queue, ARAX_DEADLINE_NONE))
		errx(1, "%s", arax_error_text());
	for (i = 0; i < PIECES; i++)
		holds(b[i], adds && i % 2 ? 1 : (float)(i + (adds ? ROUNDS : 0)), i);
	arax_close(ax);
	puts("done");
	return 0;
}
