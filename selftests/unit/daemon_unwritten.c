// SPDX-License-Identifier: MIT
/* What kernels leave out of ranges that they declare as out: daemon/dispatch/unwritten.h */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch/declared.h"
#include "daemon/dispatch/run.h"
#include "daemon/dispatch/unwritten.h"
#include "daemon/log.h"

#define BYTES	4096u
#define BEFORE	0x77
#define WRITTEN	0x11

static struct poller p;
static struct poller_device pd;
static struct kernel kernel = { .sig.name = "some" };
static struct arax_dispatch_range ranges[2];
static struct graph_node node;
static struct memory_range remote[2];
static struct unwritten u;
static struct run run;
static uint8_t memory[2][BYTES], expected[BYTES];
static bool broken;
static uint32_t fails;		/* so many copies to the device: a part of the first one gets there */
static int said[2];		/* a pipe: the log */
static bool no_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return no_memory ? NULL : __real_malloc(bytes);
}

/* A device whose memory is here, too; as it is none of araxd's nobody else is asked. */
int device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	if (fails) {
		if (fails-- > 1)
			memcpy((void *)(uintptr_t)to, from, bytes / 2);
		return -EIO;
	}
	memcpy((void *)(uintptr_t)to, from, bytes);
	return broken ? -EIO : 0;
}

int device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return broken ? -EIO : 0;
}

/* One range of rows, on host pages or (loop tests) on a device. */
static void task(bool on_device, uint64_t length, uint32_t stride, uint32_t count)
{
	memset(&run, 0, sizeof(run));
	memset(&node, 0, sizeof(node));
	memset(memory, BEFORE, sizeof(memory));
	memset(expected, BEFORE, sizeof(expected));
	broken = false;
	pd = (struct poller_device){ 0 };
	p.devs = &pd;
	ranges[0] = (struct arax_dispatch_range){
		.buffer = 1, .offset = 64, .length = length, .stride = stride, .count = count,
	};
	node.ranges = ranges;
	node.d.nr_ranges = 1;
	node.d.access = ARAX_OUT;
	run.poller = &p;
	run.node = &node;
	run.rt.kernel = &kernel;
	run.ranges[0] = (struct arax_launch_range){
		.data = memory[0] + 64, .length = length, .stride = stride, .count = count,
	};
	remote[0].address = (uintptr_t)memory[0] + 64;
	run.remote = on_device ? remote : NULL;
}

static void write_at(uint64_t at, uint64_t bytes)
{
	memset(memory[0] + 64 + at, WRITTEN, bytes);
	memset(expected + 64 + at, WRITTEN, bytes);
}

/* Whether it is as it was, but for what was written; and what was said of it. */
static bool is_as_it_was(int result, const char *line)
{
	char log[2048] = "";
	ssize_t n;

	ck_assert_int_eq(unwritten_look(&run, &u, result), result);
	n = read(said[0], log, sizeof(log) - 1);
	if (line)
		ck_assert_msg(n > 0 && strstr(log, line), "%s", log);
	else
		ck_assert_msg(n <= 0, "%s", log);
	return !memcmp(memory[0], expected, BYTES);
}

static void setup(void)
{
	ck_assert_int_eq(pipe2(said, O_NONBLOCK | O_CLOEXEC), 0);
	log_init(said[1], LOG_LEVEL_INFO, LOG_FORMAT_PLAIN);
}

START_TEST(all_is_written)
{
	task(_i, 1024, 1024, 1);
	ck_assert(unwritten_fill(&run, &u));
	ck_assert(memcmp(memory[0], expected, BYTES));
	write_at(0, 1024);
	ck_assert(is_as_it_was(0, NULL));
}
END_TEST

/* And an end that is no whole unit, and odd places. */
START_TEST(the_end_is_left_out)
{
	task(_i, 1023, 1023, 1);
	ck_assert(unwritten_fill(&run, &u));
	write_at(0, 100);
	ck_assert(is_as_it_was(0, "kernel=some range=0 context=0 offset=164 bytes=920 of=1023 "));
}
END_TEST

/* Every other item, with nothing unwritten beside it. */
START_TEST(single_ones_are_left_out)
{
	task(_i, 64, 64, 1);
	ck_assert(unwritten_fill(&run, &u));
	for (uint32_t k = 0; k < 64; k += 8)
		write_at(k, 4);
	ck_assert(is_as_it_was(0, "offset=68 bytes=32 of=64 "));
}
END_TEST

START_TEST(rows_are_left_out)
{
	task(_i, 8, 100, 10);
	ck_assert(unwritten_fill(&run, &u));
	for (uint32_t j = 0; j < 10; j++)
		if (j != 3)
			write_at(j * 100, 8);
	ck_assert(is_as_it_was(0, "offset=364 bytes=8 of=80 "));
	/* A column of what has four bytes. */
	task(_i, 4, 100, 10);
	ck_assert(unwritten_fill(&run, &u));
	for (uint32_t j = 0; j < 5; j++)
		write_at(j * 100, 4);
	unwritten_look(&run, &u, 0);
	ck_assert_int_eq(memcmp(memory[0], expected, BYTES), 0);
}
END_TEST

/* Nothing is said of it, and its pages have what they had where it wrote nothing. */
START_TEST(the_task_fails)
{
	task(false, 1024, 1024, 1);
	ck_assert(unwritten_fill(&run, &u));
	write_at(512, 8);
	ck_assert(is_as_it_was(-EINVAL, NULL));
}
END_TEST

/* What was there is good still, also on a device: it had not begun. */
START_TEST(it_has_not_begun)
{
	task(true, 1024, 1024, 1);
	ck_assert(unwritten_fill(&run, &u));
	run.rt.late = _i;
	run.rt.declined = !_i;
	ck_assert(is_as_it_was(_i ? -ETIMEDOUT : -EOPNOTSUPP, NULL));
}
END_TEST

/* The pattern stays there: then it has begun, and what it was to write is lost. */
START_TEST(it_has_not_begun_and_nothing_is_put_back)
{
	task(true, 1024, 1024, 1);
	ck_assert(unwritten_fill(&run, &u));
	run.rt.late = _i;
	run.rt.declined = !_i;
	broken = true;
	ck_assert_int_eq(unwritten_look(&run, &u, _i ? -ETIMEDOUT : -EOPNOTSUPP), -EIO);
	ck_assert(!run.rt.late && !run.rt.declined);
}
END_TEST

/* Nor can what is half filled be put back at once. */
START_TEST(it_is_filled_halfway)
{
	task(true, 4, 100, 10);
	fails = 2;
	ck_assert(unwritten_fill(&run, &u));
	ck_assert_uint_eq(fails, 0);
	run.rt.late = true;
	ck_assert(is_as_it_was(-ETIMEDOUT, NULL));
	task(true, 1024, 1024, 1);
	fails = 2;
	ck_assert(unwritten_fill(&run, &u));
	ck_assert(memcmp(memory[0], expected, BYTES));
	write_at(0, 100);
	ck_assert(is_as_it_was(0, "offset=164 bytes=412 of=1024 "));
	/* Or it is put back, and not looked at. */
	fails = 1;
	ck_assert(!unwritten_fill(&run, &u));
	ck_assert_int_eq(memcmp(memory[0], expected, BYTES), 0);
}
END_TEST

START_TEST(what_others_read_is_left_alone)
{
	task(_i, 1024, 1024, 1);
	ranges[1] = (struct arax_dispatch_range){
		.buffer = 1, .offset = 1087, .length = 10, .stride = 10, .count = 1,
	};
	node.d.nr_ranges = 2;
	node.d.access = ARAX_OUT | ARAX_IN << 2;
	ck_assert(!unwritten_fill(&run, &u));
	ck_assert(is_as_it_was(0, NULL));
	node.d.access = ARAX_INOUT | ARAX_IN << 2;
	ranges[1].buffer = 2;
	ck_assert(!unwritten_fill(&run, &u));
	ck_assert(is_as_it_was(0, NULL));
	/* Or is too little to see anything of it. */
	task(_i, 4, 100, 3);
	ck_assert(!unwritten_fill(&run, &u));
	task(_i, 3, 100, 30);
	ck_assert(!unwritten_fill(&run, &u));
}
END_TEST

/* It reads by another name what it is to write: that must be there. */
START_TEST(two_buffers_are_the_same_memory)
{
	task(false, 1024, 1024, 1);
	ranges[1] = ranges[0];
	ranges[1].buffer = 2;
	run.ranges[1] = run.ranges[0];
	node.d.nr_ranges = 2;
	run.rt.launch.nr_ranges = 2;
	node.d.access = ARAX_OUT | ARAX_IN << 2;
	ck_assert_int_eq(declared_prepare(&run), 0);
	ck_assert_int_eq(run.rt.enter(&run.rt), 0);
	ck_assert_int_eq(memcmp(memory[0], expected, BYTES), 0);
	ck_assert_int_eq(run.rt.leave(&run.rt, 0), 0);
	ck_assert_int_eq(memcmp(memory[0], expected, BYTES), 0);
	declared_release(&run);
}
END_TEST

static int enter(struct runner_task *rt)
{
	(void)rt;
	return 0;
}

static int leave(struct runner_task *rt, int result)
{
	(void)rt;
	return result;
}

/* Of an explicit buffer, where tasks have written on the device: no fault of the kernel's. */
START_TEST(the_host_has_older_bytes)
{
	task(true, 1024, 1024, 1);
	node.d.access = ARAX_IN;
	run.rt.launch.nr_ranges = 1;
	run.rt.enter = enter;
	run.rt.leave = leave;
	ck_assert_int_eq(declared_prepare(&run), 0);
	run.ranges[0].data = memory[1];
	memset(memory[1], WRITTEN, BYTES);
	ck_assert_int_eq(run.rt.enter(&run.rt), 0);
	ck_assert_int_eq(run.rt.leave(&run.rt, 0), 0);
	ck_assert_int_eq(run.rt.enter(&run.rt), 0);
	write_at(100, 8);
	ck_assert_int_eq(run.rt.leave(&run.rt, 0), -EACCES);
	ck_assert(read(said[0], memory[1], BYTES) > 0);
	/* Of what can't be had nothing is said. */
	broken = true;
	ck_assert_int_eq(run.rt.enter(&run.rt), 0);
	broken = false;
	ck_assert_int_eq(run.rt.leave(&run.rt, 0), 0);
	declared_release(&run);
}
END_TEST

START_TEST(the_device_gives_nothing)
{
	task(true, 1024, 1024, 1);
	broken = true;
	ck_assert(!unwritten_fill(&run, &u));
	broken = false;
	ck_assert(unwritten_fill(&run, &u));
	broken = true;
	ck_assert_int_eq(unwritten_look(&run, &u, 0), -EIO);
}
END_TEST

/* From the kernel on, or from the start. */
START_TEST(there_is_no_memory)
{
	bool filled;
	int result;

	task(_i, 1024, 1024, 1);
	ck_assert(unwritten_fill(&run, &u));
	write_at(0, 100);
	no_memory = true;
	result = unwritten_look(&run, &u, 0);
	filled = unwritten_fill(&run, &u);
	no_memory = false;
	ck_assert_int_eq(result, 0);
	ck_assert(!filled);
	/* There is nothing more to look at. */
	ck_assert(is_as_it_was(0, "offset=164 bytes=924 of=1024 "));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("unwritten");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_loop_test(t, all_is_written, 0, 2);
	tcase_add_loop_test(t, the_end_is_left_out, 0, 2);
	tcase_add_loop_test(t, single_ones_are_left_out, 0, 2);
	tcase_add_loop_test(t, rows_are_left_out, 0, 2);
	tcase_add_test(t, the_task_fails);
	tcase_add_loop_test(t, it_has_not_begun, 0, 2);
	tcase_add_loop_test(t, it_has_not_begun_and_nothing_is_put_back, 0, 2);
	tcase_add_test(t, it_is_filled_halfway);
	tcase_add_loop_test(t, what_others_read_is_left_alone, 0, 2);
	tcase_add_test(t, two_buffers_are_the_same_memory);
	tcase_add_test(t, the_host_has_older_bytes);
	tcase_add_test(t, the_device_gives_nothing);
	tcase_add_loop_test(t, there_is_no_memory, 0, 2);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
