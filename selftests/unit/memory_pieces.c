// SPDX-License-Identifier: MIT
/* memory_pieces - results that stay on their device, in very many pieces of one extent */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/internal.h"
#include "selftests/unit/memory_fake.h"
#include "uapi/arax.h"

#define MIB	(1024u * 1024u)
#define BYTES	(2 * MIB)
#define COLUMN	8u

static uint8_t *wanted;

/* The buffer is one extent on either of two devices. */
static void start(void)
{
	pair_start(BYTES);
	memory_many_dirty(pair.m, MANY_DIRTY);
	wanted = calloc(1, BYTES);
	ck_assert_ptr_nonnull(wanted);
}

static void finish(void)
{
	pair_finish();
	free(wanted);
}

static void fill(uint8_t *to, const struct memory_range *r, int c)
{
	for (uint32_t i = 0; i < r->count; i++)
		memset(to + (uint64_t)i * r->stride, c, r->length);
}

static void enter(uint32_t device, struct memory_range *r, uint64_t seq)
{
	ck_assert_int_eq(memory_enter(pair.m, device, 0, r, 1, seq, nobody), 0);
}

static int leave(uint32_t device, struct memory_range *r, uint64_t seq, int result)
{
	result = memory_leave(pair.m, device, 0, r, 1, result);
	memory_settle(pair.m, device, r, 1, seq);
	return result;
}

static void write_to(uint32_t device, struct memory_range r, int c, uint64_t seq)
{
	enter(device, &r, seq);
	fill((uint8_t *)(uintptr_t)r.address, &r, c);
	fill(wanted + r.offset, &r, c);
	ck_assert_int_eq(leave(device, &r, seq, 0), 0);
}

static uint32_t dirty_on(uint32_t device)
{
	const struct look l = look_dirty(pair.buffer, 0, BYTES);
	struct memory_extent *e;
	uint32_t nr = 0;

	for (e = look_first(&l); e; e = look_next(&l, e))
		nr += e->device == device ? e->dirty.nr : 0;
	return nr;
}

static void expect_all(void)
{
	struct memory_range all = pair_range(ARAX_IN, 0, BYTES, 0, 1);

	ck_assert_int_eq(memory_check(pair.m), 0);
	ck_assert_int_eq(memory_flush(pair.m, &all), 0);
	ck_assert(!memory_is_dirty(pair.m, &all));
	ck_assert_int_eq(memcmp(pair.host, wanted, BYTES), 0);
}

START_TEST(what_touches_is_one_piece)
{
	start();
	for (uint32_t i = 0; i < 20000; i++)
		write_to(0, pair_range(ARAX_OUT, 64ull * i, 64, 0, 1), 1 + i % 200, 1 + i);
	ck_assert_uint_eq(dirty_on(0), 1);
	ck_assert_uint_eq(pair.device[0].allocations, 1);
	expect_all();
	finish();
}
END_TEST

/* Whoever has the host's bytes in between makes it no more of them, once that is over. */
START_TEST(what_touches_is_one_piece_after_a_copy)
{
	struct memory_range row;

	start();
	for (uint32_t i = 0; i < 100; i++) {
		write_to(0, pair_range(ARAX_OUT, 64ull * i, 64, 0, 1), 1 + i, 1 + i);
		row = pair_range(ARAX_IN, 0, 8, 0, 1);
		ck_assert_int_eq(memory_flush(pair.m, &row), 0);
	}
	ck_assert_uint_eq(dirty_on(0), 1);
	expect_all();
	finish();
}
END_TEST

/* Columns of a matrix: pieces that don't touch, more of them than there may be. */
START_TEST(many_rows_are_no_error)
{
	const uint32_t columns = MANY_DIRTY / MEMORY_MAX_ROWS + 1, stride = 2 * COLUMN * columns;
	uint64_t seq = 1;

	start();
	for (uint32_t i = 0; i < columns; i++) {
		ck_assert_uint_eq(dirty_on(0), i * MEMORY_MAX_ROWS);
		write_to(0, pair_range(ARAX_OUT, 2 * COLUMN * i, COLUMN, stride, MEMORY_MAX_ROWS),
			 1 + i, seq++);
	}
	/* The last of them had all brought to the host. */
	ck_assert_uint_eq(dirty_on(0), 0);
	ck_assert_int_eq(memcmp(pair.host, wanted, BYTES), 0);
	/* To write them again is no more of them. */
	for (uint32_t i = 0; i < 3 * columns; i++)
		write_to(0, pair_range(ARAX_OUT, 0, COLUMN, stride, MEMORY_MAX_ROWS), 100 + i,
			 seq++);
	ck_assert_uint_eq(dirty_on(0), MEMORY_MAX_ROWS);
	expect_all();
	finish();
}
END_TEST

/* What another device writes in its midst is no error to that one, either. */
START_TEST(many_rows_cut_out_are_no_error)
{
	const uint32_t columns = 2 * MANY_DIRTY / MEMORY_MAX_ROWS, stride = 2 * COLUMN * columns;

	start();
	write_to(0, pair_range(ARAX_OUT, 0, BYTES, 0, 1), 'a', 1);
	for (uint32_t i = 0; i < columns; i++) {
		write_to(1, pair_range(ARAX_OUT, 2 * COLUMN * i, COLUMN, stride, MEMORY_MAX_ROWS),
			 1 + i, 2 + i);
		ck_assert_uint_le(dirty_on(0), MANY_DIRTY + 1);
		ck_assert_uint_le(dirty_on(1), MANY_DIRTY);
	}
	expect_all();
	finish();
}
END_TEST

/* Nor is it that the device doesn't give them: it still has them. */
START_TEST(many_rows_that_cannot_be_had)
{
	start();
	memory_many_dirty(pair.m, 10);
	pair.device[0].fail_out = 3;
	for (uint32_t i = 0; i < 100; i++)
		write_to(0, pair_range(ARAX_OUT, 128ull * i, 64, 0, 1), 1 + i, 1 + i);
	ck_assert_int_eq(pair.device[0].fail_out, 0);
	ck_assert_uint_lt(dirty_on(0), 100);
	expect_all();
	finish();
}
END_TEST

/*
 * What a task is at work on is not brought as if that were done: if the task fails nobody may have it,
 * and if the device is lost it is to be seen that nobody has what it was before, either.
 */
START_TEST(what_is_being_written_stays)
{
	struct memory_range at_work, around, other;

	start();
	write_to(0, pair_range(ARAX_OUT, 0, 1000, 0, 1), 'a', 1);
	memory_many_dirty(pair.m, 1);
	at_work = pair_range(ARAX_INOUT, 400, 10, 100, 2);
	enter(0, &at_work, 2);
	fill((uint8_t *)(uintptr_t)at_work.address, &at_work, 'h');
	write_to(0, pair_range(ARAX_OUT, 2000, 10, 0, 1), 'b', 3);
	/* Just these two. */
	ck_assert_uint_eq(dirty_on(0), 2);
	ck_assert(memory_is_dirty(pair.m, &at_work));
	ck_assert(memory_consumes(pair.m, 0, &at_work, 1));
	around = pair_range(ARAX_IN, 410, 90, 0, 1);
	ck_assert(!memory_is_dirty(pair.m, &around));
	other = pair_range(ARAX_IN, 2000, 10, 0, 1);
	ck_assert(!memory_is_dirty(pair.m, &other));
	ck_assert_int_eq(pair.host[399], 'a');
	ck_assert_int_eq(pair.host[2000], 'b');
	fill(wanted + at_work.offset, &at_work, 'w');
	fill((uint8_t *)(uintptr_t)at_work.address, &at_work, 'w');
	ck_assert_int_eq(leave(0, &at_work, 4, 0), 0);
	expect_all();
	finish();
}
END_TEST

static struct memory_range late;	/* of a task that comes while bytes are on their way to the host */

static void *be_late(void *arg)
{
	enter(0, &late, 3);
	fill((uint8_t *)(uintptr_t)late.address, &late, 'h');
	ck_assert_int_eq(leave(0, &late, 4, -ENODEV), -ENODEV);
	late.buffer = NULL;
	return arg;
}

static int copy_out_late(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	int err = fake_ops.copy_out(dev, lane, to, from, bytes);
	pthread_t thread;

	if (late.buffer && from == late.address) {
		ck_assert_int_eq(pthread_create(&thread, NULL, be_late, NULL), 0);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	}
	return err;
}

/* Also if that task has come and gone before the copy of what was there has ended. */
START_TEST(what_is_lost_meanwhile_is_not_had)
{
	struct memory_range r;

	start();
	pair.m->devices[0].ops.copy_out = copy_out_late;
	memory_many_dirty(pair.m, 2);
	write_to(0, pair_range(ARAX_OUT, 0, 10, 0, 1), 'a', 1);
	write_to(0, pair_range(ARAX_OUT, 20, 10, 0, 1), 'b', 1);
	r = pair_range(ARAX_OUT, 0, 10, 0, 1);
	enter(0, &r, 1);
	late = pair_range(ARAX_OUT, 0, 10, 0, 1);
	late.address = r.address;
	ck_assert_int_eq(leave(0, &r, 1, 0), 0);
	write_to(0, pair_range(ARAX_OUT, 40, 10, 0, 1), 'c', 1);
	ck_assert_ptr_null(late.buffer);
	r.access = ARAX_IN;
	ck_assert_int_eq(memory_flush(pair.m, &r), -EIO);
	r = pair_range(ARAX_IN, 20, 10, 0, 1);
	ck_assert_int_eq(memory_flush(pair.m, &r), 0);
	ck_assert_int_eq(pair.host[20], 'b');
	finish();
}
END_TEST

/* Written anew while what was there is on its way to the host: they are pieces as well as what is between. */
START_TEST(rows_within_a_piece_have_room)
{
	for (uint32_t rows = 1; rows < 100; rows++) {
		struct memory_extent e = { .end = BYTES };
		uint32_t size;

		ck_assert_int_eq(intervals_set(&e.dirty, 0, BYTES, FOREVER, DIRTY_BEFORE), 0);
		ck_assert(dirty_reserve(&e, rows));
		size = e.dirty.size;
		for (uint32_t i = 0; i < rows; i++)
			ck_assert_int_eq(intervals_set(&e.dirty, 100 * i + 50, 100 * i + 100, FOREVER,
						       DIRTY_SINCE), 0);
		ck_assert_uint_eq(e.dirty.nr, 2 * rows + 1);
		ck_assert_uint_eq(e.dirty.size, size);
		intervals_destroy(&e.dirty);
	}
}
END_TEST

/* What an extent's bytes pay for: a quarter, or as little as is worth an array at all. */
static void expect_little_is_known(uint64_t bytes)
{
	const struct look l = look_bytes(pair.buffer, 0, bytes);
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e)) {
		uint64_t pieces = (uint64_t)e->valid.size + e->filled.size + e->dirty.size;

		ck_assert_uint_le(pieces * sizeof(struct interval), 1024 + bytes / 4);
	}
}

/*
 * Pieces are araxd's memory, and nobody pays for it: of a small extent they are few, whatever was read or
 * written there, or made stale by who wrote elsewhere.
 */
START_TEST(small_extents_have_few_pieces)
{
	static const uint64_t sizes[] = { 64, 4096, 64 << 10, 1 << 20 };
	const uint64_t bytes = sizes[_i / 2];
	const uint32_t rows = bytes / 4 < 2000 ? (uint32_t)bytes / 4 : 2000;
	struct memory_range r[2], all = { .count = 1, .length = bytes, .access = ARAX_IN };
	uint64_t seq = 1;

	pair_start(bytes);
	wanted = calloc(1, bytes);
	if (_i % 2) {
		memory_buffer_gone(pair.m, pair.buffer);
		pair.buffer = memory_buffer_create(pair.m, pair.host, bytes);
	}
	for (uint32_t i = 0; i < 6; i++, seq++) {
		const uint32_t device = i / 2 % 2;

		/* To know all of it first makes one piece, to be cut into many. */
		if (i == 4)
			write_to(0, pair_range(ARAX_INOUT, 0, bytes, 0, 1), 'a', seq++);
		r[0] = pair_range(ARAX_IN, 2 * (i % 2), 1, 4, rows);
		r[1] = pair_range(ARAX_INOUT, 2 * (i % 2), 1, 4, rows);
		ck_assert_int_eq(memory_enter(pair.m, device, 0, r, 2, seq, nobody), 0);
		fill((uint8_t *)(uintptr_t)r[1].address, &r[1], 'b' + i);
		fill(wanted + r[1].offset, &r[1], 'b' + i);
		ck_assert_int_eq(memory_leave(pair.m, device, 0, r, 2, 0), 0);
		memory_settle(pair.m, device, r, 2, seq);
		expect_little_is_known(bytes);
		ck_assert_int_eq(memory_check(pair.m), 0);
	}
	all.buffer = pair.buffer;
	ck_assert_int_eq(memory_flush(pair.m, &all), 0);
	ck_assert_int_eq(memcmp(pair.host, wanted, bytes), 0);
	expect_little_is_known(bytes);
	pair_finish();
	free(wanted);
}
END_TEST

/* Also those that were left where they are, as a task was at work on them, once it has left. */
START_TEST(few_pieces_after_who_was_at_work)
{
	const uint64_t bytes = 4096;
	struct memory_range one, other;

	pair_start(bytes);
	wanted = calloc(1, bytes);
	one = pair_range(ARAX_OUT, 0, 1, 2, 64);
	other = pair_range(ARAX_INOUT, 0, 1, 2, 64);
	enter(0, &one, 1);
	ck_assert_int_eq(memory_enter_behind(pair.m, 0, 0, &other, 1, 2, nobody, UINT64_MAX), 0);
	fill((uint8_t *)(uintptr_t)one.address, &one, 'a');
	fill(wanted, &one, 'a');
	ck_assert_int_eq(leave(0, &one, 2, 0), 0);
	ck_assert_uint_eq(dirty_on(0), 64);
	ck_assert_int_eq(leave(0, &other, 2, 0), 0);
	ck_assert_uint_eq(dirty_on(0), 0);
	expect_little_is_known(bytes);
	ck_assert_int_eq(memcmp(pair.host, wanted, bytes), 0);
	pair_finish();
	free(wanted);
}
END_TEST

static uint32_t copies;
static struct memory_until *stopped_at_first;	/* its deadline passes then, or it is canceled */
static bool by_cancel;

static int copy_out_counted(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	copies++;
	if (stopped_at_first && by_cancel)
		memory_cancel(pair.m, 1, stopped_at_first);
	else if (stopped_at_first)
		stopped_at_first->deadline_ns = 1;
	return fake_ops.copy_out(dev, lane, to, from, bytes);
}

/* @moves: it copies also to other memory than the buffer's own. */
static void start_counted(bool moves)
{
	start();
	copies = 0;
	stopped_at_first = NULL;
	pair.m->devices[0].ops.copy_out = copy_out_counted;
	pair.m->devices[0].ops.moves = moves;
}

/* What lies between them is the host's: the device never had it, and has something else there. */
START_TEST(close_pieces_go_by_one_copy)
{
	start_counted(true);
	write_to(0, pair_range(ARAX_OUT, 4, 1, 4, 1000), 'a', 1);
	write_to(0, pair_range(ARAX_OUT, MIB, 8, 4096, 200), 'b', 2);
	ck_assert_uint_eq(copies, 0);
	expect_all();
	/* Of 1 MiB at most, and as many pieces as are gone through at once. */
	ck_assert_uint_le(copies, 4);
	/* Rows as well, and of them no more than they. */
	copies = 0;
	write_to(0, pair_range(ARAX_OUT, 0, 4, 4, 4), 'c', 3);
	write_to(0, pair_range(ARAX_OUT, 0, 1, 8, 1000), 'd', 4);
	struct memory_range r = pair_range(ARAX_IN, 0, 1, 16, 100);
	ck_assert_int_eq(memory_flush(pair.m, &r), 0);
	ck_assert_uint_le(copies, 1);
	ck_assert_uint_eq(r.moved, 100);
	ck_assert_int_eq(pair.host[16], 'd');
	ck_assert_int_ne(pair.host[8], 'd');
	expect_all();
	finish();
}
END_TEST

START_TEST(pieces_far_apart_go_by_themselves)
{
	start_counted(true);
	write_to(0, pair_range(ARAX_OUT, 0, 8, 64 << 10, 20), 'a', 1);
	expect_all();
	ck_assert_uint_eq(copies, 20);
	ck_assert_uint_eq(pair.m->devices[0].stats.copied_out, 160);
	finish();
}
END_TEST

/* It writes all that it is asked for, and where it is asked to. */
START_TEST(a_device_of_the_buffers_own_pages)
{
	start_counted(false);
	write_to(0, pair_range(ARAX_OUT, 0, 1, 4, 100), 'a', 1);
	expect_all();
	ck_assert_uint_eq(copies, 100);
	finish();
}
END_TEST

/* Whoever is canceled, or late, has not to wait for all of them. */
START_TEST(nobody_waits_for_all_pieces)
{
	struct memory_range r;
	struct memory_until until = { 0 };

	start_counted(true);
	write_to(0, pair_range(ARAX_OUT, 0, 8, 64 << 10, 20), 'a', 1);
	stopped_at_first = &until;
	by_cancel = _i;
	r = pair_range(ARAX_IN, 0, BYTES, 0, 1);
	ck_assert_int_eq(memory_enter_until(pair.m, 1, 0, &r, 1, 2, nobody, &until),
			 _i ? -ECANCELED : -ETIMEDOUT);
	ck_assert_uint_eq(copies, 1);
	stopped_at_first = NULL;
	expect_all();
	ck_assert_uint_eq(copies, 20);
	finish();
}
END_TEST

/* What has been asked of many pieces is not looked for again, and of a part it is about what it is. */
START_TEST(how_much_is_dirty)
{
	struct memory_range r = pair_range(ARAX_OUT, 0, 8, 256, 4096), part;
	uint64_t ns, far;

	start();
	memory_set_rates(pair.m, 0, 1000, 0, 1000, 0);
	r.buffer = pair.buffer;
	write_to(0, r, 'a', 1);
	ck_assert_uint_eq(memory_dirty(pair.m, &r, 1, &ns), 8 * 4096);
	/* A copy for each. */
	ck_assert_uint_eq(ns, 4096 * 1000);
	part = pair_range(ARAX_IN, 0, 1000 * 256, 0, 1);
	ck_assert_uint_eq(memory_dirty(pair.m, &part, 1, &ns), 8 * 1000);
	ck_assert_uint_eq(ns, 1000 * 1000);
	/* Where they go at once, few. */
	pair.m->devices[0].ops.moves = true;
	memory_dirty(pair.m, &r, 1, &ns);
	ck_assert_uint_le(ns, 8 * 1000);
	write_to(0, pair_range(ARAX_IN | ARAX_OUT, 0, BYTES, 0, 1), 'b', 2);
	ck_assert_uint_eq(memory_dirty(pair.m, &r, 1, &far), BYTES / 2 - 248);
	ck_assert_uint_eq(far, 1000);
	expect_all();
	ck_assert_uint_eq(memory_dirty(pair.m, &r, 1, &ns), 0);
	finish();
}
END_TEST

#define CELLS	200u

/* As by the byte. */
START_TEST(old_pieces_are_cleared_in_one_walk)
{
	for (unsigned int seed = 0; seed < 2000; seed++) {
		uint8_t has[CELLS] = { 0 }, goes[CELLS] = { 0 };
		struct intervals s = { 0 }, less = { 0 };

		srand(seed);
		for (uint32_t i = 0; i < 20; i++) {
			uint32_t at = (uint32_t)rand() % CELLS, n = 1 + (uint32_t)rand() % 20;
			uint32_t born = (uint32_t)rand() % 2;

			n = at + n < CELLS ? n : CELLS - at;
			ck_assert_int_eq(intervals_set(&s, at, at + n, FOREVER, born), 0);
			memset(has + at, 1 + (int)born, n);
			at = (uint32_t)rand() % CELLS;
			n = 1 + (uint32_t)rand() % (seed % 3 ? 20 : 3);
			n = at + n < CELLS ? n : CELLS - at;
			ck_assert_int_eq(intervals_set(&less, at, at + n, FOREVER, 0), 0);
			memset(goes + at, 1, n);
		}
		ck_assert_int_eq(intervals_clear_old(&s, &less, 0), 0);
		for (uint32_t i = 0; i < CELLS; i++) {
			uint64_t from, to, born;
			bool any = intervals_first(&s, i, i + 1, &from, &to, &born);

			ck_assert_int_eq(any, has[i] && !(goes[i] && has[i] == 1));
			ck_assert(!any || born == has[i] - 1u);
		}
		for (uint32_t i = 1; i < s.nr; i++)
			ck_assert_uint_le(s.v[i - 1].end, s.v[i].start);
		intervals_destroy(&s);
		intervals_destroy(&less);
	}
}
END_TEST

TCase *rows_case(void)
{
	TCase *c = tcase_create("many rows");

	tcase_set_timeout(c, 120);
	tcase_set_tags(c, "one-thread");
	tcase_add_test(c, many_rows_are_no_error);
	tcase_add_test(c, many_rows_cut_out_are_no_error);
	return c;
}

TCase *pieces_case(void)
{
	TCase *c = tcase_create("many pieces");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, what_touches_is_one_piece);
	tcase_add_test(c, what_touches_is_one_piece_after_a_copy);
	tcase_add_test(c, many_rows_that_cannot_be_had);
	tcase_add_test(c, what_is_being_written_stays);
	tcase_add_test(c, what_is_lost_meanwhile_is_not_had);
	tcase_add_test(c, rows_within_a_piece_have_room);
	tcase_add_loop_test(c, small_extents_have_few_pieces, 0, 8);
	tcase_add_test(c, few_pieces_after_who_was_at_work);
	tcase_add_test(c, close_pieces_go_by_one_copy);
	tcase_add_test(c, pieces_far_apart_go_by_themselves);
	tcase_add_test(c, a_device_of_the_buffers_own_pages);
	tcase_add_loop_test(c, nobody_waits_for_all_pieces, 0, 2);
	tcase_add_test(c, how_much_is_dirty);
	tcase_add_test(c, old_pieces_are_cleared_in_one_walk);
	return c;
}
