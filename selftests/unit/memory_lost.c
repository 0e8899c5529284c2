// SPDX-License-Identifier: MIT
/* memory_lost - bytes that nobody has any more, also where there is no memory to note that */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/bits.h"
#include "daemon/memory/internal.h"
#include "selftests/unit/memory_fake.h"
#include "uapi/arax.h"

#define BYTES	(1u << 20)
#define MAPPED	(2 * BYTES)	/* what is lost of no larger a buffer is told by the byte */

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

/* @result: of the kernel, which has written; @without: nothing can be noted then that needs memory. */
static int end(uint32_t device, struct memory_range r, int c, int result, bool without)
{
	static uint64_t seq;

	ck_assert_int_eq(memory_enter(pair.m, device, 0, &r, 1, ++seq, nobody), 0);
	for (uint32_t i = 0; i < r.count; i++)
		memset((uint8_t *)(uintptr_t)r.address + (uint64_t)i * r.stride, c, r.length);
	no_memory = without;
	result = memory_leave(pair.m, device, 0, &r, 1, result);
	no_memory = false;
	memory_settle(pair.m, device, &r, 1, seq);
	ck_assert_int_eq(memory_check(pair.m), 0);
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
		struct memory_range r = pair_range(ARAX_IN, rows.offset + (uint64_t)i * rows.stride,
						   rows.length, 0, 1);

		ck_assert_int_eq(memory_flush(pair.m, &r), -EIO);
		ck_assert_int_eq(memory_enter(pair.m, 0, 0, &r, 1, 1, nobody), -EIO);
	}
}

static void expect(uint64_t offset, uint64_t length, int c)
{
	struct memory_range r = pair_range(ARAX_IN, offset, length, 0, 1);

	ck_assert_int_eq(memory_flush(pair.m, &r), 0);
	for (uint64_t i = 0; i < length; i++)
		ck_assert_int_eq(pair.host[offset + i], c);
}

/* The pieces that are lost, and the memory for them; @records: of so many extents. */
static uint32_t lost_pieces(uint64_t *taken, uint32_t *records)
{
	const struct look l = look_bytes(pair.buffer, 0, UINT64_MAX);
	uint64_t at, from, to, born;
	struct memory_extent *e;
	uint32_t nr = 0;

	*taken = *records = 0;
	for (e = look_first(&l); e; e = look_next(&l, e)) {
		if (!e->lost)
			continue;
		for (at = 0; extent_first_dirty(e, at, e->end, &from, &to, &born); at = to)
			nr++;
		*taken += e->dirty.size * sizeof(struct interval);
		*taken += e->map ? bits_words(e->end) * sizeof(*e->map) : 0;
		++*records;
	}
	return nr;
}

static void expect_all_again(uint64_t bytes)
{
	uint32_t records;
	uint64_t taken;

	ck_assert_int_eq(run(1, pair_range(ARAX_OUT, 0, bytes, 0, 1), 'z', 0), 0);
	expect(0, bytes, 'z');
	ck_assert_uint_eq(lost_pieces(&taken, &records), 0);
}

/* In the midst of what one wrote before, of which half is known to be lost already (@_i). */
START_TEST(a_task_is_lost_without_memory)
{
	pair_start(BYTES);
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, 1000, 0, 1), 'a', 0), 0);
	if (_i)
		ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 400, 50, 0, 1), 'h', -ENODEV),
				 -ENODEV);
	ck_assert_int_eq(run_without(0, pair_range(ARAX_OUT, 400, 100, 0, 1), 'h', -ENODEV),
			 -ENODEV);
	expect_lost(pair_range(ARAX_IN, 400, 100, 0, 1));
	expect(0, 400, 'a');
	expect(500, 500, 'a');
	expect_all_again(BYTES);
	pair_finish();
}
END_TEST

/* Also if they are so many that not one more can be cut out, nor be noted: of all of it, or by rows. */
START_TEST(many_rows_are_lost_without_memory)
{
	const uint32_t rows[] = { 8, 9, 16, 17, 100, 1000, MEMORY_MAX_ROWS };
	struct memory_range r = pair_range(ARAX_OUT, 60, 40, 100, rows[_i / 2]);

	pair_start(BYTES);
	memory_many_dirty(pair.m, UINT32_MAX);
	r.buffer = pair.buffer;
	ck_assert_int_eq(run(0, _i % 2 ? r : pair_range(ARAX_OUT, 0, BYTES, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run_without(0, r, 'h', -ENODEV), -ENODEV);
	if (r.count <= 100)
		expect_lost(r);
	/* Nobody gets half a task's. */
	for (uint32_t i = 0; i < r.count; i++) {
		struct memory_range row = pair_range(ARAX_IN, r.offset + (uint64_t)i * r.stride,
						     r.length, 0, 1);

		ck_assert_int_eq(memory_flush(pair.m, &row), -EIO);
	}
	expect_all_again(BYTES);
	pair_finish();
}
END_TEST

/* A device that is not known to be lost yet has what lies beside the rows: the host never had it. */
START_TEST(the_host_writes_rows_without_memory)
{
	pair_start(BYTES);
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, 3200, 0, 1), 'a', 0), 0);
	pair.device[0].dead = true;
	if (_i)
		memory_lose(pair.m, 0);
	ck_assert_int_eq(memory_flush(pair.m, &(struct memory_range){
		.buffer = pair.buffer, .length = 3200, .count = 1, .access = ARAX_IN }), -EIO);
	no_memory = true;
	memory_host_wrote(pair.m, pair.buffer, 10, 10, 100, 32);
	no_memory = false;
	pair.device[0].dead = false;
	for (uint32_t i = 0; i < 32; i++) {
		struct memory_range r = pair_range(ARAX_IN, 100 * i + 20, 90, 0, 1);

		if (i < 31)
			ck_assert_int_eq(memory_flush(pair.m, &r), -EIO);
	}
	expect_all_again(BYTES);
	pair_finish();
}
END_TEST

/* What was lost stays so, and who would have written it anew is told. */
START_TEST(rows_are_written_anew_without_memory)
{
	struct memory_range r = pair_range(ARAX_OUT, 10, 10, 100, 32), between;

	pair_start(BYTES);
	r.buffer = pair.buffer;
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, 3200, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, 3200, 0, 1), 'h', -ENODEV), -ENODEV);
	ck_assert_int_eq(run_without(1, r, 'b', 0), -ENOMEM);
	between = pair_range(ARAX_IN, 20, 90, 100, 31);
	expect_lost(between);
	/* And with it. */
	ck_assert_int_eq(run(1, r, 'b', 0), 0);
	expect_lost(between);
	for (uint32_t i = 0; i < 32; i++)
		expect(100 * i + 10, 10, 'b');
	expect_all_again(BYTES);
	pair_finish();
}
END_TEST

/* Where there is no memory for a record no bytes come to a device. */
START_TEST(no_bytes_without_a_record)
{
	struct memory_range r;

	pair_start(BYTES);
	r = pair_range(ARAX_OUT, 0, 100, 0, 1);
	no_memory = true;
	ck_assert_int_eq(memory_enter(pair.m, 0, 0, &r, 1, 1, nobody), -ENOMEM);
	no_memory = false;
	ck_assert_uint_eq(pair.device[0].ever, 0);
	ck_assert_int_eq(run(0, r, 'a', 0), 0);
	expect(0, 100, 'a');
	pair_finish();
}
END_TEST

/* A record's share of the buffer's own bytes. */
static void expect_bounded(uint64_t bytes, uint32_t *nr)
{
	uint32_t records;
	uint64_t taken;

	*nr = lost_pieces(&taken, &records);
	ck_assert_uint_le(records, 1);
	ck_assert_uint_le(taken, 512 + bytes / 8);
	ck_assert_uint_le(taken, 512 + (256u << 10));
}

/*
 * However many pieces are lost: by tasks, or with the device, whatever the buffer's size.  Of a large one
 * they are rounded.
 */
START_TEST(many_pieces)
{
	static const uint64_t sizes[] = { 4096, 64 << 10, 1 << 20, 16 << 20 };
	const uint64_t bytes = sizes[_i / 2];
	const uint32_t gap = bytes > 64 << 10 ? 16 : 2, step = gap * MEMORY_MAX_ROWS;
	uint32_t nr = 0, before;
	uint64_t at;

	pair_start(bytes);
	memory_many_dirty(pair.m, UINT32_MAX);
	for (at = 0; at < bytes && at < 16 * step; at += step) {
		struct memory_range r = pair_range(ARAX_OUT, at, 1, gap, MEMORY_MAX_ROWS);

		if (at + step > bytes)
			r.count = (uint32_t)((bytes - at) / gap);
		r.buffer = pair.buffer;
		ck_assert_int_eq(run(0, r, 'a', 0), 0);
		if (_i % 2)
			continue;
		ck_assert_int_eq(run(0, r, 'h', -ENODEV), -ENODEV);
		expect_bounded(bytes, &nr);
	}
	if (_i % 2) {
		pair.device[0].dead = true;
		memory_lose(pair.m, 0);
		pair.device[0].dead = false;
		expect_bounded(bytes, &nr);
	}
	ck_assert_uint_gt(nr, 0);
	at = at < bytes ? at : bytes;
	for (uint64_t i = 0; i < at; i += 17 * gap) {
		struct memory_range r = pair_range(ARAX_IN, i, 1, 0, 1);

		ck_assert_int_eq(memory_flush(pair.m, &r), -EIO);
		if (bytes <= MAPPED)
			expect(i + 1, 1, 0);
	}
	ck_assert_int_eq(nr < at / gap, bytes > MAPPED);
	/* What was never lost, nor is near it. */
	before = nr;
	if (at < bytes)
		expect(at + bytes / 8, 1, 0);
	expect_bounded(bytes, &nr);
	ck_assert_uint_eq(nr, before);
	expect_all_again(bytes);
	pair_finish();
}
END_TEST

/* As many as a program of whole rows and columns has are told apart. */
START_TEST(rows_are_not_rounded)
{
	const struct memory_range r = pair_range(ARAX_OUT, 0, 4, 1024, 1024);
	struct memory_range rows = r, between;
	uint32_t nr;

	pair_start(BYTES);
	rows.buffer = pair.buffer;
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, BYTES, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run(0, rows, 'h', -ENODEV), -ENODEV);
	expect_bounded(BYTES, &nr);
	ck_assert_uint_eq(nr, 1024);
	expect_lost(rows);
	between = pair_range(ARAX_IN, 4, 1020, 1024, 1024);
	ck_assert_int_eq(memory_flush(pair.m, &between), 0);
	ck_assert_int_eq(pair.host[4], 'a');
	ck_assert_int_eq(run(1, rows, 'b', 0), 0);
	expect(0, 4, 'b');
	expect_bounded(BYTES, &nr);
	ck_assert_uint_eq(nr, 0);
	pair_finish();
}
END_TEST

/* Nor does it take more to write it anew piece by piece, however small these are. */
START_TEST(a_loss_cut_into_many_pieces)
{
	const uint64_t bytes = 4096;
	struct memory_range all, row;
	uint32_t nr = 0;

	pair_start(bytes);
	all = pair_range(ARAX_OUT, 0, bytes, 0, 1);
	ck_assert_int_eq(run(0, all, 'a', 0), 0);
	ck_assert_int_eq(run(0, all, 'h', -ENODEV), -ENODEV);
	for (uint32_t i = 0; i < bytes / 8; i++) {
		row = pair_range(ARAX_OUT, 8 * i + 4, 4, 0, 1);
		ck_assert_int_eq(run(1, row, 'b', 0), 0);
		expect_bounded(bytes, &nr);
	}
	ck_assert_uint_eq(nr, bytes / 8);
	for (uint32_t i = 0; i < bytes / 8; i++)
		expect(8 * i + 4, 4, 'b');
	expect_lost(pair_range(ARAX_IN, 0, 4, 8, bytes / 8));
	/* All rows at once are no other case. */
	row = pair_range(ARAX_OUT, 2, 1, 4, bytes / 4);
	ck_assert_int_eq(run(1, row, 'c', 0), 0);
	expect_bounded(bytes, &nr);
	expect_lost(pair_range(ARAX_IN, 0, 2, 8, bytes / 8));
	expect_lost(pair_range(ARAX_IN, 3, 1, 8, bytes / 8));
	expect_all_again(bytes);
	pair_finish();
}
END_TEST

/* Nor is what a task on the host writes. */
START_TEST(the_host_writes_many_pieces)
{
	const uint64_t bytes = 32768;
	const uint32_t rows = MEMORY_MAX_ROWS;
	struct memory_range all;
	uint32_t nr;

	pair_start(bytes);
	all = pair_range(ARAX_OUT, 0, bytes, 0, 1);
	ck_assert_int_eq(run(0, all, 'a', 0), 0);
	ck_assert_int_eq(run(0, all, 'h', -ENODEV), -ENODEV);
	for (uint32_t i = 0; i < rows; i++)
		pair.host[8 * i + 3] = 'e';
	memory_host_wrote(pair.m, pair.buffer, 3, 1, 8, rows);
	expect_bounded(bytes, &nr);
	ck_assert_uint_eq(nr, rows + 1);
	for (uint32_t i = 0; i < rows; i++)
		expect(8 * i + 3, 1, 'e');
	expect_lost(pair_range(ARAX_IN, 2, 1, 8, rows));
	expect_lost(pair_range(ARAX_IN, 4, 1, 8, rows));
	expect_all_again(bytes);
	pair_finish();
}
END_TEST

/* Of a large one they may be too many: who does it is told, and what he wrote counts as not written. */
START_TEST(a_large_loss_cut_into_many_pieces)
{
	const uint64_t bytes = 2 * MAPPED;
	struct memory_range all, rows;
	uint32_t nr = 0, written;
	int err = 0;

	pair_start(bytes);
	all = pair_range(ARAX_OUT, 0, bytes, 0, 1);
	ck_assert_int_eq(run(0, all, 'a', 0), 0);
	ck_assert_int_eq(run(0, all, 'h', -ENODEV), -ENODEV);
	for (written = 0; written < bytes / 256 && !err; written += err ? 0 : 1024) {
		rows = pair_range(ARAX_OUT, 256 * written + 4, 4, 256, 1024);
		err = run(1, rows, 'b', 0);
		expect_bounded(bytes, &nr);
	}
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_uint_gt(written, 4096);
	for (uint32_t i = 0; i < written; i += 99)
		expect(256 * i + 4, 4, 'b');
	expect_lost(pair_range(ARAX_IN, 8, 252, 256, written));
	expect_lost(rows);
	/* The host can't be told; so the bytes stay lost. */
	memory_host_wrote(pair.m, pair.buffer, rows.offset, 4, 256, 1024);
	expect_bounded(bytes, &nr);
	expect_lost(rows);
	/* In larger ones. */
	expect_all_again(bytes);
	pair_finish();
}
END_TEST

/* So that there is room for few pieces more of what is lost in 0..@end. */
static void cut_into_many(uint64_t end)
{
	const uint32_t half = (uint32_t)(end / 2), stride = half / MEMORY_MAX_ROWS;
	struct memory_range r = pair_range(ARAX_OUT, 64, 4, stride, MEMORY_MAX_ROWS);
	uint32_t records, nr;
	uint64_t taken;

	ck_assert_int_eq(run(0, r, 'c', 0), 0);
	r = pair_range(ARAX_OUT, half + 64, 4, stride, MEMORY_MAX_ROWS - 96);
	ck_assert_int_eq(run(0, r, 'c', 0), 0);
	nr = lost_pieces(&taken, &records);
	ck_assert_uint_gt(nr, 8000);
	ck_assert_uint_le(nr, lost_most(pair.buffer));
}

/*
 * A task writes rows of which some were good on its device, and some are lost, in too many pieces.  Whatever
 * comes of it, nobody reads on that device what the host has not.
 */
START_TEST(rows_good_and_lost)
{
	const uint64_t bytes = 2 * MAPPED, half = bytes / 2;
	struct memory_range rows, one;

	pair_start(bytes);
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, half, 0, 1), 'a', 0), 0);
	ck_assert_int_eq(run(0, pair_range(ARAX_OUT, 0, half, 0, 1), 'h', -ENODEV), -ENODEV);
	cut_into_many(half);
	ck_assert_int_eq(run(1, pair_range(ARAX_OUT, half, half, 0, 1), 'g', 0), 0);
	expect(half, half, 'g');
	rows = pair_range(ARAX_OUT, 4, 4, 1024, MEMORY_MAX_ROWS);
	ck_assert_int_eq(run(1, rows, 'c', _i ? -EFAULT : 0), _i ? -EFAULT : -ENOMEM);
	for (uint64_t at = half; at < bytes; at += 1024) {
		one = pair_range(ARAX_IN, at, 12, 0, 1);
		ck_assert_int_eq(memory_enter(pair.m, 1, 0, &one, 1, 1, nobody), 0);
		ck_assert_mem_eq((void *)(uintptr_t)one.address, pair.host + at, 12);
		ck_assert_int_eq(memory_leave(pair.m, 1, 0, &one, 1, 0), 0);
		memory_settle(pair.m, 1, &one, 1, 1);
	}
	pair_finish();
}
END_TEST

/* What two devices lost of a buffer, time and again, is one buffer's. */
START_TEST(devices_are_lost_time_and_again)
{
	const uint64_t bytes = 256ull * BYTES / 4;
	struct memory_range row;
	uint32_t nr;

	pair_start(bytes);
	for (uint64_t i = 0; i < 40; i++) {
		uint32_t device = i % 2;

		row = pair_range(ARAX_OUT, i * BYTES, 100, 0, 1);
		ck_assert_int_eq(run(device, row, 'a', 0), 0);
		pair.device[device].dead = true;
		memory_lose(pair.m, device);
		pair.device[device].dead = false;
		expect_bounded(bytes, &nr);
		ck_assert_uint_eq(nr, i + 1);
	}
	for (uint64_t i = 0; i < 40; i++) {
		expect_lost(pair_range(ARAX_IN, i * BYTES, 100, 0, 1));
		expect(i * BYTES + 100, 100, 0);
	}
	pair_finish();
}
END_TEST

#define MAP	300u

static void expect_map(const struct intervals *s, const bool *map)
{
	for (uint32_t i = 0; i < MAP; i++) {
		uint64_t from, to, born;

		ck_assert_int_eq(intervals_first(s, i, i + 1, &from, &to, &born), map[i]);
	}
	for (uint32_t i = 1; i < s->nr; i++)
		ck_assert_uint_lt(s->v[i - 1].end, s->v[i].start);
}

static void draw_pieces(struct intervals *s, bool *map)
{
	for (uint32_t n = (uint32_t)rand() % 40; n; n--) {
		uint32_t at = (uint32_t)rand() % MAP, end = at + 1 + (uint32_t)rand() % 12;

		end = end < MAP ? end : MAP;
		ck_assert_int_eq(intervals_set(s, at, end, FOREVER, 0), 0);
		memset(map + at, true, end - at);
	}
}

/* What pieces are made of is what a map of bytes says. */
START_TEST(pieces_are_as_a_map_has_them)
{
	for (uint32_t round = 0; round < 5000; round++) {
		struct intervals s = { 0 }, more = { 0 };
		bool map[MAP] = { false }, rough[MAP] = { false };
		uint32_t grain = 1 + (uint32_t)rand() % 40, at = (uint32_t)rand() % MAP, rows, nr;
		uint64_t start = at, end = at + 1 + (uint32_t)rand() % 20;

		draw_pieces(&s, map);
		draw_pieces(&more, map);
		ck_assert(intervals_add(&s, &more));
		expect_map(&s, map);

		intervals_around(&s, &start, &end);
		ck_assert(!start || start >= MAP || !map[start] || !map[start - 1]);
		ck_assert(end >= MAP || !map[end] || !map[end - 1]);
		ck_assert_uint_le(start, at);

		rows = (MAP - at) / grain;
		nr = s.nr + intervals_cuts(&s, at, grain / 2, grain, rows);
		intervals_clear_rows(&s, at, grain / 2, grain, rows);
		ck_assert_uint_le(s.nr, nr);
		for (uint32_t i = 0; i < rows; i++)
			memset(map + at + i * grain, false, grain / 2);
		expect_map(&s, map);

		intervals_coarsen(&s, grain, MAP);
		for (uint32_t i = 0; i < MAP; i++) {
			at = i - i % grain;
			if (map[i])
				memset(rough + at, true, at + grain < MAP ? grain : MAP - at);
		}
		expect_map(&s, rough);
		nr = s.nr;
		intervals_trim(&s);
		ck_assert_uint_eq(s.nr, nr);
		ck_assert(s.size == 8 || s.size < 2 * nr);
		expect_map(&s, rough);
		intervals_destroy(&s);
		intervals_destroy(&more);
	}
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
	tcase_add_loop_test(c, many_pieces, 0, 8);
	tcase_add_test(c, rows_are_not_rounded);
	tcase_add_test(c, a_loss_cut_into_many_pieces);
	tcase_add_test(c, the_host_writes_many_pieces);
	tcase_add_test(c, a_large_loss_cut_into_many_pieces);
	tcase_add_loop_test(c, rows_good_and_lost, 0, 2);
	tcase_add_test(c, devices_are_lost_time_and_again);
	tcase_add_test(c, pieces_are_as_a_map_has_them);
	return c;
}
