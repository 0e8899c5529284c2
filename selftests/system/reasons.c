// SPDX-License-Identifier: MIT
/*
 * A task that fails tells its owner why: the thing, the limit, what to do.  run.sh has araxd
 * drive one kind of devices alone, on the host's pages or with 2 MiB of their own.
 */
#include "stack.h"

#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEMS	1000u

struct args {
	float a;
	uint32_t n;
};

static struct arax_device the_device(struct stack *s)
{
	struct arax_device d;

	CHECK_EQ(arax_get_device(s->ax, 0, &d), 0);
	if (!(d.flags & ARAX_DEVICE_ONLINE))
		tap_skip("no such device is here");
	return d;
}

static void saxpy(struct stack *s, struct arax_range x, struct arax_range y, uint32_t n,
		  struct arax_grid g, struct arax_event *event)
{
	struct arax_kernel k = stack_kernel(s, "saxpy");
	struct arax_range r[] = { x, y };
	struct args args = { 1, n };

	CHECK_EQ(arax_launch(s->q, &k, g, ARAX_ARGS(args), r, 2, event), 0);
}

/* How it ends, and that each of @texts is in what is said of it. */
static void ends(struct arax_event *e, int result, const char *const texts[])
{
	CHECK_EQ(arax_wait(e, arax_deadline(60 * SECOND)), result);
	for (; *texts; texts++)
		if (!strstr(arax_error_text(), *texts)) {
			printf("# no \"%s\" in: %s\n", *texts, arax_error_text());
			CHECK(0);
		}
}

#define ENDS(e, result, ...) ends(e, result, (const char *const[]){ __VA_ARGS__, NULL })

TEST(a_range_that_is_too_short)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_event e = { 0 };

	the_device(&s);
	saxpy(&s, arax_part(x, ARAX_IN, 0, 400), arax_part(y, ARAX_INOUT, 0, 4 * ITEMS), ITEMS,
	      arax_grid(4, 1, 1), &e);
	ENDS(&e, -EINVAL, "kernel saxpy itself refuses grid 4 x 1 x 1, block 1 x 1 x 1",
	     "ranges of 400, 4000 bytes: one may be too short", "can never be right");
	stack_close(&s);
}

TEST(a_range_in_rows)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 8 * ITEMS), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_range rows = arax_part(x, ARAX_IN, 0, 400);
	struct arax_event e = { 0 };

	rows.count = ITEMS / 100;
	rows.stride = 800;
	saxpy(&s, rows, arax_part(y, ARAX_INOUT, 0, 4 * ITEMS), ITEMS, arax_grid(4, 1, 1), &e);
	if (the_device(&s).kind == ARAX_DEVICE_CPU)
		ENDS(&e, -EINVAL, "ranges of 4000 in 10 rows, 4000 bytes: one may be too short, or in rows where the kernel takes one piece");
	else
		ENDS(&e, -EINVAL, "range", "0 is strided");
	stack_close(&s);
}

TEST(a_buffer_beyond_the_machine)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b;

	if (stack_on_kernel(&s))
		tap_skip("the module counts pages before it looks for them");
	CHECK_EQ(arax_buffer_create(s.ax, (size_t)1 << 45, 0, &b), -EDQUOT);
	CHECK(strstr(arax_error_text(), "memory.max"));
	stack_close(&s);
}

TEST(a_range_off_its_type)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS + 8), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_event e = { 0 };

	the_device(&s);
	saxpy(&s, arax_part(x, ARAX_IN, 2, 4 * ITEMS), arax_part(y, ARAX_INOUT, 0, 4 * ITEMS),
	      ITEMS, arax_grid(4, 1, 1), &e);
	ENDS(&e, -EINVAL, "saxpy", "range 0", "begins", "2", "multiple of 4", "(f32) needs");
	stack_close(&s);
}

/* On cores a work-group is a loop, of any size. */
TEST(a_block_beyond_the_limit)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_device d = the_device(&s);
	struct arax_grid g = arax_grid(1, 1, 1);
	struct arax_event e = { 0 };

	g.block[0] = 30000;
	saxpy(&s, arax_in(x), arax_inout(y), ITEMS, g, &e);
	if (d.kind == ARAX_DEVICE_CPU)
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	else
		ENDS(&e, -EINVAL, d.name, "block of 30000 work-items", "takes ");
	stack_close(&s);
}

TEST(more_data_than_there_is_memory)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_device d = the_device(&s);
	struct arax_buffer *x, *y;
	struct arax_event e = { 0 };
	char needs[64], has[64];

	if (!d.memory)
		tap_skip("the device works on the host's pages");
	x = stack_buffer(&s, d.memory);
	y = stack_buffer(&s, d.memory);
	saxpy(&s, arax_in(x), arax_inout(y), ITEMS, arax_grid(4, 1, 1), &e);
	snprintf(needs, sizeof(needs), "its data, %llu bytes, does not fit",
		 (unsigned long long)(arax_buffer_bytes(x) + arax_buffer_bytes(y)));
	snprintf(has, sizeof(has), "has %llu bytes; give it smaller ranges",
		 (unsigned long long)d.memory);
	ENDS(&e, -ENOMEM, needs, has, "out of memory");
	/* And less fits, which is no luck: what others left there makes way. */
	saxpy(&s, arax_part(x, ARAX_IN, 0, d.memory / 4), arax_part(y, ARAX_INOUT, 0, d.memory / 4),
	      ITEMS, arax_grid(4, 1, 1), &e);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	stack_close(&s);
}

/* What never comes to a daemon is told of as well: which range, its bytes, the buffer's. */
TEST(what_is_refused)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_kernel k = stack_kernel(&s, "saxpy");
	struct args args = { 1, ITEMS };
	struct arax_event e = { 0 };
	struct arax_grid g = arax_grid(~0u, ~0u, 1);
	struct arax_desc d = { .opcode = ARAX_OP_LAUNCH, .kernel = &k, .args = &args,
			       .arg_len = sizeof(args), .nr_ranges = 2, .event = &e,
			       .deadline = arax_deadline(60 * SECOND) };
	struct arax_range r[2];

	/* In an entry of one line, in a whole one, and with what lies in the arena. */
	saxpy(&s, arax_in(x), arax_part(y, ARAX_INOUT, 0, 8 * ITEMS), ITEMS,
	      arax_grid(4, 1, 1), &e);
	ENDS(&e, -EINVAL, "range 1 of kernel saxpy, 8000 bytes from byte 0 on, is beyond its buffer, which has 4000");
	saxpy(&s, arax_part(x, ARAX_IN, 400, 4 * ITEMS), arax_inout(y), ITEMS, arax_grid(4, 1, 1),
	      &e);
	ENDS(&e, -EINVAL, "range 0 of kernel saxpy, 4000 bytes from byte 400 on", "which has 4000");
	d.ranges = r;
	r[0] = arax_rows(x, ARAX_IN, 0, 400, 400, 11);
	r[1] = arax_inout(y);
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	ENDS(&e, -EINVAL, "range 0 of kernel saxpy, 11 rows of 400 bytes", "which has 4000");
	CHECK_EQ(arax_copy(s.q, arax_part(y, 0, 800, 4 * ITEMS), arax_in(x), &e), 0);
	ENDS(&e, -EINVAL, "range 1 of the copy, 4000 bytes from byte 800 on", "which has 4000");
	CHECK_EQ(arax_copy(s.q, arax_part(y, 0, 0, 8), arax_in(x), &e), 0);
	ENDS(&e, -EINVAL, "a copy from 4000 bytes to 8");
	g.block[0] = 0xffff;
	saxpy(&s, arax_in(x), arax_inout(y), ITEMS, g, &e);
	ENDS(&e, -EINVAL, "kernel saxpy: grid 4294967295 x 4294967295 x 1", "less than 2^63");
	r[0] = arax_in(x);
	k.id = 4000;
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(args), r, 2, &e), 0);
	ENDS(&e, -ENOENT, "no kernel has the id 4000");
	arax_buffer_destroy(x);
	saxpy(&s, r[0], arax_inout(y), ITEMS, arax_grid(4, 1, 1), NULL);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), -EBADF);
	CHECK(strstr(arax_error_text(), "range 0 of kernel saxpy: the context has no buffer"));
	stack_close(&s);
}

/* What arax_copy() and others fill in themselves arax_submit() takes as it is. */
TEST(what_is_filled_in_wrong)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS);
	struct arax_range r[2] = { arax_in(x), arax_in(x) };
	struct arax_event e = { 0 };
	struct args args = { 1, ITEMS };
	struct arax_desc d = { .opcode = ARAX_OP_MARKER, .args = &args, .arg_len = sizeof(args),
			       .ranges = r, .event = &e };

	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	ENDS(&e, -EINVAL, "a marker takes no arguments, 8 bytes given");
	d.arg_len = 0;
	d.nr_ranges = 1;
	r[0].access = 5;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	ENDS(&e, -EINVAL, "range 0 of a marker has an access of 5: want ARAX_IN, ARAX_OUT or ARAX_INOUT");
	r[0].access = ARAX_IN;
	d.opcode = ARAX_OP_COPY;
	d.nr_ranges = 2;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	ENDS(&e, -EINVAL, "a copy takes two ranges", "the second ARAX_OUT");
	d.opcode = ARAX_OP_FILL;
	d.nr_ranges = 1;
	d.arg_len = 8;
	CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
	ENDS(&e, -EINVAL, "a fill takes one range, ARAX_OUT");
	stack_close(&s);
}

/* Who fails because of it, and who waits for a queue, is told the same. */
TEST(because_of_another_task)
{
	struct stack s = stack_open(0);
	struct arax_buffer *x = stack_buffer(&s, 4 * ITEMS), *y = stack_buffer(&s, 4 * ITEMS);
	struct arax_event e = { 0 };

	the_device(&s);
	saxpy(&s, arax_part(x, ARAX_IN, 0, 400), arax_inout(y), ITEMS, arax_grid(4, 1, 1), NULL);
	saxpy(&s, arax_in(x), arax_inout(y), ITEMS, arax_grid(4, 1, 1), &e);
	ENDS(&e, -ECANCELED, "because task", "failed: kernel saxpy itself refuses");
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), -EINVAL);
	CHECK(strstr(arax_error_text(), ": kernel saxpy itself refuses"));
	stack_close(&s);
}

/* Of a kernel's own errno there is no more to be said than whose it is. */
TEST(a_kernel_of_its_own_accord)
{
	struct stack s = stack_open(0);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k;
	struct arax_event e = { 0 };
	uint32_t value = EDOM;

	the_device(&s);
	if (arax_kernel_find(s.ax, "st_fail", 0, &k) || !(k.kinds & 1u << the_device(&s).kind))
		tap_skip("the device has no kernel that fails");
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), ARAX_ARGS(value),
			     ARAX_RANGES(arax_inout(b)), &e), 0);
	ENDS(&e, -EDOM, "kernel st_fail failed on ", the_device(&s).name);
	stack_close(&s);
}

/* What is said of an image with a constructor that ends as @how says: see images/ends.c. */
static const char *load_what_ends(struct stack *s, char how, int result)
{
	static const char mark[] = "ARAX-TEST-ENDS:";
	const struct arax_own_kernel own = { .signature = "nothing(inout u32 x[])" };
	char path[4096], *slash, *image = malloc(1 << 20), *at;
	struct arax_kernel k;
	ssize_t n = readlink("/proc/self/exe", path, 4000);
	size_t bytes;
	FILE *f;

	CHECK(n > 0 && image);
	path[n] = '\0';
	slash = strrchr(path, '/');
	strcpy(slash, "/images/ends.so");
	f = fopen(path, "re");
	CHECK(f);
	bytes = fread(image, 1, 1 << 20, f);
	fclose(f);
	at = memmem(image, bytes, mark, sizeof(mark) - 1);
	CHECK(at);
	at[sizeof(mark) - 1] = how;
	CHECK_EQ(arax_module_load(s->ax, ARAX_DEVICE_CPU, image, bytes, &own, 1, &k), result);
	free(image);
	return arax_error_text();
}

/* Whoever brings an image is told what became of it, and not an errno's name. */
TEST(what_a_program_brings_ends_as_it_is_loaded)
{
	static const struct { char how; int result; const char *text; } cases[] = {
		{ 'e', -EIO, ": the image, as it was loaded, ended its process on cpu0: it, or what it calls, called exit()" },
		{ 'a', -EFAULT, ": the image, as it was loaded, crashed on cpu0, in a process of its own: Aborted" },
		{ 's', -EFAULT, ": the image, as it was loaded, crashed on cpu0, in a process of its own: a bad access" },
	};
	struct stack s = stack_open(0);
	struct arax_device d = the_device(&s);
	const char *text;

	if (sandbox_kernel_lacks())
		tap_skip(sandbox_kernel_lacks());
	if (d.kind != ARAX_DEVICE_CPU || d.memory)
		tap_skip("such a device runs no machine code of programs' own");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text = load_what_ends(&s, cases[i].how, cases[i].result);
		if (!strstr(text, cases[i].text)) {
			printf("# no \"%s\" in: %s\n", cases[i].text, text);
			CHECK(0);
		}
	}
	stack_close(&s);
}
