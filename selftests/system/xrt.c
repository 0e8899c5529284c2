// SPDX-License-Identifier: MIT
/*
 * xrt CASE: a program on a device whose kernels compute nothing (XRT's noop shim)
 *
 *   copies	where the bytes come from that a kernel leaves as they are
 *   alternate	kernels of two files in turn, each waited for
 *   mixed	many of both at once, each on a buffer of its own
 *   missing	a kernel that no device can run
 *   look	a kernel that only reads
 */
#include <arax/arax.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS	25000
#define MANY	24

static struct arax *ax;
static struct arax_queue *queue;

static struct arax_buffer *buffer(uint32_t first)
{
	struct arax_buffer *b;
	uint32_t *data;

	if (arax_buffer_create(ax, WORDS * sizeof(*data), 0, &b))
		errx(1, "buffer: %s", arax_error_text());
	data = arax_buffer_data(b);
	for (uint32_t i = 0; i < WORDS; i++)
		data[i] = first + i;
	return b;
}

static int holds(struct arax_buffer *b, uint32_t first)
{
	const uint32_t *data = arax_buffer_data(b);

	for (uint32_t i = 0; i < WORDS; i++)
		if (data[i] != first + i)
			return 0;
	return 1;
}

static void launch(const char *name, struct arax_buffer *b)
{
	struct arax_kernel k;
	struct arax_range r;
	int bad;

	if (arax_kernel_find(ax, name, 0, &k))
		errx(1, "%s: %s", name, arax_error_text());
	r = !strcmp(name, "store") ? arax_out(b) : !strcmp(name, "look") ? arax_in(b) : arax_inout(b);
	bad = arax_launch(queue, &k, arax_grid(WORDS, 1, 1), ARAX_NO_ARGS, &r, 1, NULL);
	if (bad)
		errx(1, "%s: %s", name, arax_error_text());
}

static void finish(void)
{
	if (arax_queue_finish(queue, ARAX_DEADLINE_NONE))
		errx(1, "finish: %s", arax_error_text());
}

/*
 * What a kernel leaves out of its output are the bytes that were on the device: the
 * host's of the first time.
 */
static void copies(void)
{
	struct arax_buffer *b = buffer(1000);
	uint32_t *data = arax_buffer_data(b);

	launch("store", b);
	finish();
	if (!holds(b, 1000))
		errx(1, "the first launch changed the buffer");
	for (uint32_t i = 0; i < WORDS; i++)
		data[i] = 5000 + i;
	launch("store", b);
	finish();
	puts(holds(b, 1000) ? "the device's" : holds(b, 5000) ? "the host's" : "neither");
}

static void alternate(void)
{
	struct arax_buffer *b = buffer(7);

	for (int i = 0; i < 6; i++) {
		launch(i % 2 ? "other" : "twice", b);
		finish();
	}
	puts(holds(b, 7) ? "done" : "changed");
}

static void mixed(void)
{
	struct arax_buffer *b[MANY];

	for (uint32_t i = 0; i < MANY; i++)
		b[i] = buffer(i * 100);
	for (uint32_t i = 0; i < MANY; i++)
		launch(i % 2 ? "other" : "twice", b[i]);
	finish();
	for (uint32_t i = 0; i < MANY; i++)
		if (!holds(b[i], i * 100))
			errx(1, "buffer %u has changed", i);
	puts("done");
}

static void missing(void)
{
	launch("absent", buffer(0));
	if (!arax_queue_finish(queue, ARAX_DEADLINE_NONE))
		errx(1, "it ran");
	printf("%s\n", arax_error_text());
}

static void look(void)
{
	struct arax_buffer *b = buffer(3);

	launch("look", b);
	finish();
	puts(holds(b, 3) ? "done" : "changed");
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (arax_open(&ax, NULL) || arax_queue_create(ax, ARAX_QUEUE_DATAFLOW, 0, &queue))
		errx(1, "%s", arax_error_text());
	if (!strcmp(what, "copies"))
		copies();
	else if (!strcmp(what, "alternate"))
		alternate();
	else if (!strcmp(what, "mixed"))
		mixed();
	else if (!strcmp(what, "missing"))
		missing();
	else if (!strcmp(what, "look"))
		look();
	else
		errx(2, "usage: xrt copies|alternate|mixed|missing|look");
	arax_close(ax);
	return 0;
}
