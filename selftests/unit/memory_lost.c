// SPDX-License-Identifier: MIT
/* memory_lost - bytes that nobody has any more, also where there is no memory to note that */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/internal.h"
#include "selftests/unit/memory_fake.h"
#include "uapi/arax.h"

#define BYTES	(1u << 20)

static struct memory *m;
static struct fake_device fake[2];
static uint8_t *host;
static struct memory_buffer *buffer;

/* The linker leads the manager's allocations to here. */
void *__real_calloc(size_t nr, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_calloc(size_t nr, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static _Thread_local bool no_memory;

void *__wrap_calloc(size_t nr, size_t bytes)
{
	return no_memory ? NULL : __real_calloc(nr, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	return no_memory ? NULL : __real_realloc(p, bytes);
}

static void start(uint64_t bytes)
{
	memset(fake, 0, sizeof(fake));
	host = calloc(1, bytes);
	ck_assert_ptr_nonnull(host);
	ck_assert_int_eq(memory_create(2, &m), 0);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(memory_add_device(m, i, &fake_ops, &fake[i], 64 * BYTES), 0);
	buffer = memory_buffer_create(m, host, bytes);
	ck_assert_ptr_nonnull(buffer);
	memory_buffer_lazy(buffer);
}

static void finish(void)
{
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, buffer);
	memory_destroy(m);
	free(host);
}

static struct memory_range range(uint32_t access, uint64_t offset, uint64_t length, uint32_t stride,
				 uint32_t count)
{
	return (struct memory_range){
		.buffer = buffer, .access = access, .offset = offset, .length = length,
		.stride = stride, .count = count,
	};
}

/* @result: of the kernel, which has written; @without: nothing can be noted then that needs memory. */
static int end(uint32_t device, struct memory_range r, int c, int result, bool without)
{
	static uint64_t seq;

	ck_assert_int_eq(memory_enter(m, device, 0, &r, 1, ++seq, nobody), 0);
	for (uint32_t i = 0; i < r.count; i++)
		memset((uint8_t *)(uintptr_t)r.address + (uint64_t)i * r.stride, c, r.length);
	no_memory = without;
	result = memory_leave(m, device, 0, &r, 1, result);
	no_memory = false;
	memory_settle(m, device, &r, 1, seq);
	ck_assert_int_eq(memory_check(m), 0);
	return result;
}

static int run(uint32_t device, struct memory_range r, int c, int result)
{
	return end(device, r, c, result, false);
}

static int run_without(uint32_t device, struct memory_range r, int c, int result)
{
	return end(device, r, c, result, true);
}

/* Each row by itself, at the host and on the device that had it. */
static void expect_lost(struct memory_range rows)
{
	for (uint32_t i = 0; i < rows.count; i++) {
		struct memory_range r = range(ARAX_IN, rows.offset + (uint64_t)i * rows.stride, rows.length, 0,
					      1);

		ck_assert_int_eq(memory_flush(m, &r), -EIO);
		ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), -EIO);
	}
}

static void expect(uint64_t offset, uint64_t length, int c)
{
	struct memory_range r = range(ARAX_IN, offset, length, 0, 1);

	ck_assert_int_eq(memory_flush(m, &r), 0);
	for (uint64_t i = 0; i < length; i++)
		ck_assert_int_eq(host[offset + i], c);
}

/* The pieces that are lost, and how many have room; @records: of so many extents. */
static uint32_t lost_pieces(uint32_t *room, uint32_t *records)
{
	const struct look l = look_bytes(buffer, 0, UINT64_MAX);
	struct memory_extent *e;
	uint32_t nr = 0;

	*room = *records = 0;
	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if (!e->lost)
			continue;
		nr += e->dirty.nr;
		*room += e->dirty.size;
		++*records;
	}
	return nr;
}

static void expect_all_again(uint64_t bytes)
{
	uint32_t room, records;

	ck_assert_int_eq(run(1, range(ARAX_OUT, 0, bytes, 0, 1), 'z', 0), 0);
	expect(0, bytes, 'z');
	ck_assert_uint_eq(lost_pieces(&room, &records), 0);
}

/* In the midst of what one wrote before, of which half is known to be lost already (@_i). */
START_TEST(a_task_is_lost_without_memory)
{
	start(BYTES);
	ck_assert_int_eq(run(0, range(ARAX_OUT, 0, 1000, 0, 1), 'a', 0), 0);
	if (_i)
		ck_assert_int_eq(run(0, range(ARAX_OUT, 400, 50, 0, 1), 'h', -ENODEV), -ENODEV);
	ck_assert_int_eq(run_without(0, range(ARAX_OUT, 400, 100, 0, 1), 'h', -ENODEV), -ENODEV);
	expect_lost(range(ARAX_IN, 400, 100, 0, 1));
	expect(0, 400, 'a');
	expect(500, 500, 'a');
	expect_all_again(BYTES);
	finish();
}
END_TEST

/* Also if they are so many that not one more can be cut out, nor be noted: of all of it, or by rows. */
START_TEST(many_rows_are_lost_without_memory)
{
	const uint32_t rows[] = { 8, 9, 16, 17, 100, 1000, MEMORY_MAX_ROWS };
	struct memory_range r = range(ARAX_OUT, 60, 40, 100, rows[_i / 2]);

	start(BYTES);
	r.buffer = buffer;
	ck_assert_int_eq(run(0, _i % 2 ? r : range(ARAX_OUT, 0, BYTES, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run_without(0, r, 'h', -ENODEV), -ENODEV);
	if (r.count <= 100)
		expect_lost(r);
	/* Nobody gets half a task's. */
	for (uint32_t i = 0; i < r.count; i++) {
		struct memory_range row = range(ARAX_IN, r.offset + (uint64_t)i * r.stride, r.length, 0, 1);

		ck_assert_int_eq(memory_flush(m, &row), -EIO);
	}
	expect_all_again(BYTES);
	finish();
}
END_TEST

/* A device that is not known to be lost yet has what lies beside the rows: the host never had it. */
START_TEST(the_host_writes_rows_without_memory)
{
	start(BYTES);
	ck_assert_int_eq(run(0, range(ARAX_OUT, 0, 3200, 0, 1), 'a', 0), 0);
	fake[0].dead = true;
	if (_i)
		memory_lose(m, 0);
	ck_assert_int_eq(memory_flush(m, &(struct memory_range){
		.buffer = buffer, .length = 3200, .count = 1, .access = ARAX_IN }), -EIO);
	no_memory = true;
	memory_host_wrote(m, buffer, 10, 10, 100, 32);
	no_memory = false;
	fake[0].dead = false;
	for (uint32_t i = 0; i < 32; i++) {
		struct memory_range r = range(ARAX_IN, 100 * i + 20, 90, 0, 1);

		if (i < 31)
			ck_assert_int_eq(memory_flush(m, &r), -EIO);
	}
	expect_all_again(BYTES);
	finish();
}
END_TEST

/* What was lost stays so, and who would have written it anew is told. */
START_TEST(rows_are_written_anew_without_memory)
{
	struct memory_range r = range(ARAX_OUT, 10, 10, 100, 32), between;

	start(BYTES);
	r.buffer = buffer;
	ck_assert_int_eq(run(0, range(ARAX_OUT, 0, 3200, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run(0, range(ARAX_OUT, 0, 3200, 0, 1), 'h', -ENODEV), -ENODEV);
	ck_assert_int_eq(run_without(1, r, 'b', 0), -ENOMEM);
	between = range(ARAX_IN, 20, 90, 100, 31);
	expect_lost(between);
	/* And with it. */
	ck_assert_int_eq(run(1, r, 'b', 0), 0);
	expect_lost(between);
	for (uint32_t i = 0; i < 32; i++)
		expect(100 * i + 10, 10, 'b');
	expect_all_again(BYTES);
	finish();
}
END_TEST

/* Where there is no memory for a record no bytes come to a device. */
START_TEST(no_bytes_without_a_record)
{
	struct memory_range r;

	start(BYTES);
	r = range(ARAX_OUT, 0, 100, 0, 1);
	no_memory = true;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), -ENOMEM);
	no_memory = false;
	ck_assert_uint_eq(fake[0].ever, 0);
	ck_assert_int_eq(run(0, r, 'a', 0), 0);
	expect(0, 100, 'a');
	finish();
}
END_TEST

TCase *lost_case(void)
{
	TCase *c = tcase_create("lost");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, a_task_is_lost_without_memory, 0, 2);
	tcase_add_loop_test(c, many_rows_are_lost_without_memory, 0, 14);
	tcase_add_loop_test(c, the_host_writes_rows_without_memory, 0, 2);
	tcase_add_test(c, rows_are_written_anew_without_memory);
	tcase_add_test(c, no_bytes_without_a_record);
	return c;
}
