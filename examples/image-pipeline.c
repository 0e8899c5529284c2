// SPDX-License-Identifier: MIT
/*
 * Sharpen a photograph where it has detail and soften it where it has none:
 * thirteen tasks on one dataflow queue.  Nothing here says what runs before
 * what: Arax infers it from the ranges, and runs side by side what may be.
 *
 *	rgb -> grey -+-> blur3 -> sobel ------------------------------+ mask 1
 *	             +-> blur5 -> sobel -> max, min -> extend --+ mask 2
 *	             +-> blur3 -> unsharpen -------- combine ----- combine -> PNG
 */
#include <arax/arax.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"
#include "report.h"

#define TASKS	13

struct pipeline {
	struct arax *ax;
	struct arax_queue *queue;
	struct arax_event events[TASKS];
	int nr;			/* events in use */
	int error;		/* the first one */
};

/* One launch; after an error nothing more is launched. */
static void launch(struct pipeline *p, const char *name, uint32_t groups, const void *args,
		   size_t arg_len, const struct arax_range *ranges, size_t nr_ranges)
{
	struct arax_kernel kernel;

	if (p->error)
		return;
	p->error = arax_kernel_find(p->ax, name, arax_deadline(2000000000), &kernel);
	if (!p->error)
		p->error = arax_launch(p->queue, &kernel, arax_grid(groups, 1, 1), args, arg_len,
				       ranges, nr_ranges, &p->events[p->nr]);
	if (!p->error)
		p->nr++;
}

static struct arax_buffer *buffer(struct pipeline *p, size_t bytes)
{
	struct arax_buffer *b = NULL;

	if (!p->error)
		p->error = arax_buffer_create(p->ax, bytes, 0, &b);
	return b;
}

struct images {
	struct arax_buffer *rgb, *grey, *blur3, *blur5, *soft, *sharp;
	struct arax_buffer *mask1, *mask2, *max, *min, *mixed, *result, *bytes;
};

static void create(struct pipeline *p, struct images *m, size_t pixels)
{
	struct arax_buffer **floats[] = {
		&m->grey, &m->blur3, &m->blur5, &m->soft, &m->sharp,
		&m->mask1, &m->mask2, &m->mixed, &m->result,
	};
	size_t i;

	for (i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
		*floats[i] = buffer(p, pixels * sizeof(float));
	m->rgb = buffer(p, pixels * 3);
	m->bytes = buffer(p, pixels);
	m->max = buffer(p, sizeof(float));
	m->min = buffer(p, sizeof(float));
}

static void submit(struct pipeline *p, const struct images *m, uint32_t width, uint32_t height)
{
	struct { uint32_t n; } n = { width * height };
	struct { uint32_t width, height; } size = { width, height };
	struct { uint32_t width, height, size; float sigma; } blur = { width, height, 3, 1 };
	struct { float amount; uint32_t n; } amount = { 0.5f, width * height };
	uint32_t groups = height < 64 ? height : 64;

	launch(p, "rgb_to_gray", groups, ARAX_ARGS(n),
	       ARAX_RANGES(arax_in(m->rgb), arax_out(m->grey)));
	launch(p, "blur", groups, ARAX_ARGS(blur),
	       ARAX_RANGES(arax_in(m->grey), arax_out(m->blur3)));
	launch(p, "sobel", groups, ARAX_ARGS(size),
	       ARAX_RANGES(arax_in(m->blur3), arax_out(m->mask1)));
	blur.size = 5;
	blur.sigma = 10;
	launch(p, "blur", groups, ARAX_ARGS(blur),
	       ARAX_RANGES(arax_in(m->grey), arax_out(m->blur5)));
	launch(p, "sobel", groups, ARAX_ARGS(size),
	       ARAX_RANGES(arax_in(m->blur5), arax_out(m->mask2)));
	launch(p, "max_f32", 1, ARAX_ARGS(n), ARAX_RANGES(arax_in(m->mask2), arax_out(m->max)));
	launch(p, "min_f32", 1, ARAX_ARGS(n), ARAX_RANGES(arax_in(m->mask2), arax_out(m->min)));
	launch(p, "extend", groups, ARAX_ARGS(n),
	       ARAX_RANGES(arax_in(m->min), arax_in(m->max), arax_inout(m->mask2)));
	blur.size = 3;
	blur.sigma = 5;
	launch(p, "blur", groups, ARAX_ARGS(blur),
	       ARAX_RANGES(arax_in(m->grey), arax_out(m->soft)));
	launch(p, "unsharpen", groups, ARAX_ARGS(amount),
	       ARAX_RANGES(arax_in(m->grey), arax_in(m->soft), arax_out(m->sharp)));
	launch(p, "combine", groups, ARAX_ARGS(n),
	       ARAX_RANGES(arax_in(m->sharp), arax_in(m->blur5), arax_in(m->mask2),
			   arax_out(m->mixed)));
	launch(p, "combine", groups, ARAX_ARGS(n),
	       ARAX_RANGES(arax_in(m->mixed), arax_in(m->blur3), arax_in(m->mask1),
			   arax_out(m->result)));
	launch(p, "gray_to_u8", groups, ARAX_ARGS(n),
	       ARAX_RANGES(arax_in(m->result), arax_out(m->bytes)));
}

/* Waits for all that was launched, whatever went wrong. */
static void finish(struct pipeline *p)
{
	int i, err;

	for (i = 0; i < p->nr; i++) {
		err = arax_wait(&p->events[i], ARAX_DEADLINE_NONE);
		if (err && !p->error)
			p->error = err;
		report_add(&p->events[i]);
	}
	p->nr = 0;
}

static int run(struct pipeline *p, const struct picture *in, int repeat, const char *path)
{
	struct images m = { 0 };

	p->error = arax_queue_create(p->ax, ARAX_QUEUE_DATAFLOW, 0, &p->queue);
	create(p, &m, (size_t)in->width * in->height);
	if (p->error)
		return p->error;
	/* The photograph goes where the devices read it: no copy after this one. */
	memcpy(arax_buffer_data(m.rgb), in->rgb, (size_t)in->width * in->height * 3);
	for (; repeat > 0 && !p->error; repeat--) {
		submit(p, &m, in->width, in->height);
		finish(p);
	}
	if (p->error)
		return p->error;
	return picture_write_grey(path, in->width, in->height, arax_buffer_data(m.bytes));
}

static int usage(int status)
{
	fprintf(status ? stderr : stdout,
		"usage: image-pipeline [--repeat N] [--report FILE] PHOTO OUT.png\n"
		"PHOTO is a PNG or JPEG file.\n");
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "repeat", required_argument, NULL, 'n' },
		{ "report", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	struct pipeline p = { 0 };
	const char *report = NULL;
	struct picture photo;
	int c, err, repeat = 1;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			repeat = atoi(optarg);
		else if (c == 'r')
			report = optarg;
		else if (c == 'V')
			return printf("image-pipeline %s\n", ARAX_VERSION) < 0;
		else
			return usage(c == 'h' ? 0 : 2);
	}
	if (argc - optind != 2 || repeat < 1)
		return usage(2);
	if (picture_read(argv[optind], &photo))
		return 1;
	err = arax_open(&p.ax, NULL);
	if (!err) {
		err = run(&p, &photo, repeat, argv[optind + 1]);
		/* Of a picture that can't be written there is a text already. */
		if (p.error)
			fprintf(stderr, "image-pipeline: %s\n", arax_error_text());
		arax_close(p.ax);
	} else {
		fprintf(stderr, "image-pipeline: %s\n", arax_error_text());
	}
	free(photo.rgb);
	if (!err && report_write(report, "image-pipeline"))
		err = -1;
	return err ? 1 : 0;
}
