// SPDX-License-Identifier: MIT
/* memory_test - which bytes are where: by example, and intervals against a plain model */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/memory/internal.h"
#include "daemon/reason.h"
#include "selftests/unit/memory_fake.h"
#include "selftests/unit/wait.h"
#include "uapi/arax.h"

/* ------------------------------------------------------------------ */
/* Intervals                                                           */

#define SPACE 200

START_TEST(intervals_like_a_table)
{
	struct { uint64_t until, born; } model[SPACE] = { 0 };
	struct intervals s = { 0 };
	unsigned int seed = _i + 1;

	for (unsigned int step = 0; step < 3000; step++) {
		uint64_t start = rand_r(&seed) % SPACE, end = start + rand_r(&seed) % 40;
		uint64_t until = 1 + rand_r(&seed) % 5, born = rand_r(&seed) % 3;
		uint64_t seq = rand_r(&seed) % 5, gap_start = 0, gap_end = 0, i, n;

		uint64_t bytes = 1 + rand_r(&seed) % 5, stride = bytes + rand_r(&seed) % 3;
		uint32_t rows = (uint32_t)((SPACE - start) / stride);

		rows = rows ? 1 + rand_r(&seed) % rows : 0;
		end = end > SPACE ? SPACE : end;
		switch (rand_r(&seed) % 7) {
		case 4:
			ck_assert_int_eq(intervals_set_rows(&s, start, bytes, stride, rows, until, born),
					 0);
			for (i = 0; i < rows * bytes; i++) {
				model[start + i / bytes * stride + i % bytes].until = until;
				model[start + i / bytes * stride + i % bytes].born = born;
			}
			break;
		case 5:
			intervals_clear_rows(&s, start, bytes, stride, rows);
			for (i = 0; i < rows * bytes; i++)
				model[start + i / bytes * stride + i % bytes].until = 0;
			break;
		case 3:
			intervals_renew(&s, start, end, until, born);
			for (i = start; i < end; i++) {
				if (!model[i].until)
					continue;
				model[i].until = until;
				model[i].born = born;
			}
			break;
		case 0:
			ck_assert_int_eq(intervals_set(&s, start, end, until, born), 0);
			for (i = start; i < end; i++) {
				model[i].until = until;
				model[i].born = born;
			}
			break;
		case 1:
			intervals_clear(&s, start, end);
			for (i = start; i < end; i++)
				model[i].until = 0;
			break;
		case 2:
			intervals_limit(&s, start, end, until);
			for (i = start; i < end; i++)
				if (model[i].until)
					model[i].until = until;
			break;
		}
		for (i = start; i < end && model[i].until > seq && model[i].born >= born; i++)
			;
		ck_assert(intervals_gap(&s, start, end, seq, born, &gap_start, &gap_end) ==
			  (i < end));
		if (i < end) {
			ck_assert_uint_eq(gap_start, i);
			for (; i < end && !(model[i].until > seq && model[i].born >= born); i++)
				;
			ck_assert_uint_eq(gap_end, i);
		}
		for (n = 0, i = 0; i < SPACE; i++)
			n += !!model[i].until;
		ck_assert_uint_eq(intervals_bytes(&s), n);
		for (i = 1; i < s.nr; i++)
			ck_assert_uint_le(s.v[i - 1].end, s.v[i].start);
	}
	intervals_destroy(&s);
}
END_TEST

START_TEST(neighbours_that_agree_are_one)
{
	struct intervals s = { 0 };

	for (uint64_t i = 0; i < 100; i += 2)
		ck_assert_int_eq(intervals_set(&s, i, i + 1, 7, 1), 0);
	ck_assert_uint_eq(s.nr, 50);
	for (uint64_t i = 1; i < 100; i += 2)
		ck_assert_int_eq(intervals_set(&s, i, i + 1, 7, 1), 0);
	ck_assert_uint_eq(s.nr, 1);
	intervals_destroy(&s);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The manager                                                         */

#define KIB 1024u
#define BYTES (16 * KIB)

static struct memory *m;
static struct fake_device fake[2];
static uint8_t host[4][BYTES];
static struct memory_buffer *buffer[4];

/* Two devices of @bytes. */
static void start_with(const struct memory_ops *ops, uint64_t bytes)
{
	memset(fake, 0, sizeof(fake));
	ck_assert_int_eq(memory_create(4, &m), 0);
	for (unsigned int i = 0; i < 2; i++)
		ck_assert_int_eq(memory_add_device(m, i, ops, &fake[i], bytes), 0);
	for (unsigned int i = 0; i < 4; i++) {
		memset(host[i], 'a' + i, BYTES);
		buffer[i] = memory_buffer_create(m, host[i], BYTES);
		ck_assert_ptr_nonnull(buffer[i]);
	}
}

static void start(uint64_t bytes)
{
	start_with(&fake_ops, bytes);
}

static void finish(void)
{
	ck_assert_int_eq(memory_check(m), 0);
	for (unsigned int i = 0; i < 4; i++)
		memory_buffer_gone(m, buffer[i]);
	for (unsigned int i = 0; i < 2; i++) {
		struct memory_stats s;

		memory_query(m, i, &s);
		ck_assert_uint_eq(s.used, 0);
		ck_assert_uint_eq(s.extents, 0);
		ck_assert_uint_eq(fake[i].allocations, 0);
	}
	memory_destroy(m);
}

static struct memory_range range(unsigned int b, uint32_t access, uint64_t offset, uint64_t length)
{
	return (struct memory_range){
		.buffer = buffer[b], .access = access, .offset = offset, .length = length,
		.count = 1,
	};
}

static uint8_t *at(const struct memory_range *r)
{
	return (uint8_t *)(uintptr_t)r->address;
}

static uint64_t copied_out(unsigned int device)
{
	struct memory_stats s;

	memory_query(m, device, &s);
	return s.copied_out;
}

static uint64_t copied_in(unsigned int device)
{
	struct memory_stats s;

	memory_query(m, device, &s);
	return s.copied_in;
}

/* A whole task that writes @c to its range, or only reads it if @c is 0. */
static void run(unsigned int device, struct memory_range r, char c, uint64_t seq, uint64_t last)
{
	ck_assert_int_eq(memory_enter(m, device, 0, &r, 1, seq, nobody), 0);
	if (c)
		memset(at(&r), c, r.length);
	ck_assert_int_eq(memory_leave(m, device, 0, &r, 1, 0), 0);
	memory_settle(m, device, &r, 1, last);
}

START_TEST(bad_devices_are_refused)
{
	struct memory_ops none = fake_ops;

	start(64 * KIB);
	ck_assert_int_eq(memory_add_device(m, 4, &fake_ops, NULL, 1), -EINVAL);
	ck_assert_int_eq(memory_add_device(m, 2, &fake_ops, NULL, 0), -EINVAL);
	ck_assert_int_eq(memory_add_device(m, 1, &fake_ops, NULL, 1), -EINVAL);
	none.copy_out = NULL;
	ck_assert_int_eq(memory_add_device(m, 2, &none, NULL, 1), -EINVAL);
	ck_assert(memory_has_device(m, 1));
	ck_assert(!memory_has_device(m, 2));
	ck_assert(!memory_has_device(m, 3));
	finish();
}
END_TEST

START_TEST(results_reach_the_host)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_INOUT, 100, 50);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	ck_assert_int_eq(at(&r)[0], 'a');
	memset(at(&r), 'X', 50);
	ck_assert_int_eq(host[0][100], 'a');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
	ck_assert_uint_eq(r.moved, 50 + 50);
	ck_assert_int_eq(host[0][99], 'a');
	ck_assert_int_eq(host[0][100], 'X');
	ck_assert_int_eq(host[0][149], 'X');
	ck_assert_int_eq(host[0][150], 'a');
	finish();
}
END_TEST

/* Only what was submitted before the last user's end trusts a copy. */
START_TEST(chains_move_data_once)
{
	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 3);
	ck_assert_uint_eq(copied_in(0), BYTES);
	/* Tasks 2 and 3 were there when 1 ended. */
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'b', 2, 3);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 3, 3);
	ck_assert_uint_eq(copied_in(0), BYTES);
	/* Task 4 was not: the client may have written. */
	memset(host[0], 'c', BYTES);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 4, 4);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	finish();
}
END_TEST

/* A device that was rebuilt has nothing any more, and is filled anew. */
START_TEST(a_device_is_dropped)
{
	struct memory_stats s;
	uint64_t before;

	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 3);
	run(0, range(1, ARAX_OUT, 0, BYTES), 'x', 2, 3);
	run(1, range(0, ARAX_IN, 0, BYTES), 0, 1, 3);
	memory_drop(m, 0);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.used, 0);
	ck_assert_uint_eq(fake[0].allocations, 0);
	ck_assert_uint_eq(fake[1].allocations, 1);
	before = copied_in(0);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 2, 3);
	ck_assert_uint_eq(copied_in(0), before + BYTES);
	/* The other one has it still. */
	run(1, range(0, ARAX_IN, 0, BYTES), 0, 2, 3);
	ck_assert_uint_eq(copied_in(1), BYTES);
	ck_assert_uint_eq(host[1][0], 'x');	/* results were on the host by then */
	finish();
}
END_TEST

/* Large ones, once on each device, until they go; whether that works or not. */
START_TEST(buffers_are_registered)
{
	static uint8_t large[2][64 * KIB];
	struct memory_range r;

	start(128 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 1);
	ck_assert_int_eq(fake[0].asked, 0);	/* not worth it */
	for (int i = 0; i < 2; i++) {
		memory_buffer_gone(m, buffer[i]);
		buffer[i] = memory_buffer_create(m, large[i], sizeof(large[i]));
	}
	fake[1].fail_register = 1;
	for (unsigned int device = 0; device < 2; device++)
		for (int i = 0; i < 4; i++) {
			r = range((unsigned int)i % 2, ARAX_INOUT, 0, BYTES);
			run(device, r, 'x', 1, 1);
		}
	ck_assert_int_eq(fake[0].asked, 2);
	ck_assert_int_eq(fake[0].registered, 2);
	ck_assert_int_eq(fake[1].asked, 2);
	ck_assert_int_eq(fake[1].registered, 1);
	finish();
	ck_assert_int_eq(fake[0].registered, 0);
	ck_assert_int_eq(fake[1].registered, 0);
}
END_TEST

/* Small ones once they have been copied so often that it was worth it by now. */
START_TEST(small_buffers_are_registered_late)
{
	start(128 * KIB);
	for (int i = 0; i < 4; i++)
		run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	ck_assert_int_eq(fake[0].asked, 0);
	for (int i = 0; i < 8; i++)
		run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	ck_assert_int_eq(fake[0].asked, 1);
	ck_assert_int_eq(fake[0].registered, 1);
	/* Nobody copies these. */
	for (int i = 0; i < 20; i++)
		run(0, range(1, ARAX_IN, 0, BYTES), 0, 1, 1);
	ck_assert_int_eq(fake[0].asked, 1);
	finish();
	ck_assert_int_eq(fake[0].registered, 0);
}
END_TEST

/* What is being read is not copied in again under the reader's eyes. */
START_TEST(readers_side_by_side)
{
	struct memory_range r = { 0 };

	start(64 * KIB);
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	run(0, range(0, ARAX_IN, 100, 200), 0, 2, 2);
	ck_assert_uint_eq(copied_in(0), BYTES);
	/* Task 3 came after task 2's end, but task 1 still uses the bytes. */
	run(0, range(0, ARAX_IN, 0, 300), 0, 3, 3);
	ck_assert_uint_eq(copied_in(0), BYTES);
	memory_distrust(m, 0);
	run(0, range(0, ARAX_IN, 0, 300), 0, 3, 3);
	ck_assert_uint_eq(copied_in(0), BYTES);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 3);
	run(0, range(0, ARAX_IN, 0, 300), 0, 4, 4);
	ck_assert_uint_eq(copied_in(0), BYTES + 300);
	finish();
}
END_TEST

START_TEST(the_client_writes_between_tasks)
{
	struct memory_range r;

	start(64 * KIB);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'b', 1, 1);
	host[0][5] = 'Z';
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	ck_assert_int_eq(at(&r)[4], 'b');
	ck_assert_int_eq(at(&r)[5], 'Z');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 2);
	finish();
}
END_TEST

/* Others write and signal; then a task that was submitted long ago goes on. */
START_TEST(a_timeline_ends_trust)
{
	struct memory_range other;

	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	memory_distrust(m, 0);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 2, 9);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 3, 9);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	/* Another context has not waited for it. */
	other = range(0, ARAX_IN, 0, BYTES);
	other.trust = 1;
	memory_distrust(m, 0);
	run(0, other, 0, 4, 9);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 5, 9);
	ck_assert_uint_eq(copied_in(0), 3 * BYTES);
	memory_distrust(m, 1);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 6, 9);
	ck_assert_uint_eq(copied_in(0), 3 * BYTES);
	run(0, other, 0, 7, 9);
	ck_assert_uint_eq(copied_in(0), 4 * BYTES);
	finish();
}
END_TEST

START_TEST(a_write_elsewhere_makes_copies_stale)
{
	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	run(1, range(0, ARAX_INOUT, 0, 100), 'n', 2, 9);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 3, 9);
	ck_assert_uint_eq(copied_in(0), BYTES + 100);
	/* By the host. */
	memset(host[0] + 50, 'h', 10);
	memory_host_wrote(m, buffer[0], 50, 10, 0, 1);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 4, 9);
	ck_assert_uint_eq(copied_in(0), BYTES + 110);
	finish();
}
END_TEST

START_TEST(what_a_kernel_leaves_out_is_the_hosts)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_OUT, 0, 64);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	at(&r)[3] = 'X';
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
	ck_assert_int_eq(host[0][2], 'a');
	ck_assert_int_eq(host[0][3], 'X');
	ck_assert_int_eq(host[0][4], 'a');
	/* Once it is there, an output alone is not copied in. */
	run(0, range(0, ARAX_OUT, 0, 64), 'o', 2, 2);
	ck_assert_uint_eq(copied_in(0), 64);
	finish();
}
END_TEST

START_TEST(strided_results_leave_the_gaps_alone)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_OUT, 10, 4);
	r.stride = 16;
	r.count = 5;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	memset(at(&r), 'X', 4 * 16 + 4);
	/* Another task's, beside it. */
	memset(host[0] + 14, 'y', 12);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
	for (unsigned int i = 0; i < 5; i++) {
		ck_assert_int_eq(host[0][10 + 16 * i], 'X');
		ck_assert_int_eq(host[0][13 + 16 * i], 'X');
		ck_assert_int_eq(host[0][14 + 16 * i], i ? 'a' : 'y');
	}
	finish();
}
END_TEST

START_TEST(ranges_that_touch_share_their_bytes)
{
	struct memory_range r[3];

	start(64 * KIB);
	r[0] = range(0, ARAX_IN, 0, 100);
	r[1] = range(0, ARAX_OUT, 50, 100);
	r[2] = range(1, ARAX_IN, 0, 8);
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 3, 1, nobody), 0);
	ck_assert_uint_eq(r[1].address, r[0].address + 50);
	at(&r[1])[0] = 'X';
	ck_assert_int_eq(at(&r[0])[50], 'X');
	ck_assert_int_eq(at(&r[2])[0], 'b');
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 3, 0), 0);
	memory_settle(m, 0, r, 3, 1);
	finish();
}
END_TEST

/* With another one of the buffer between them, whose bytes come in an extent that would do for both. */
START_TEST(ranges_that_touch_are_not_parted)
{
	static uint8_t bytes[8 * KIB * KIB];
	struct memory_buffer *b;
	struct memory_range r[3];

	start(64 * KIB * KIB);
	memset(bytes, 'a', sizeof(bytes));
	b = memory_buffer_create(m, bytes, sizeof(bytes));
	ck_assert_ptr_nonnull(b);
	r[0] = (struct memory_range){
		.buffer = b, .access = ARAX_IN, .length = 20 * KIB, .count = 1,
	};
	run(0, r[0], 0, 1, 1);
	r[0].access = ARAX_INOUT;
	r[1] = r[0];
	r[1].access = ARAX_IN;
	r[1].offset = 50 * KIB;
	r[1].length = 80 * KIB;
	r[2] = r[0];
	r[2].offset = 8 * KIB;
	r[2].length = 8 * KIB;
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 3, 2, nobody), 0);
	ck_assert_uint_eq(r[2].address, r[0].address + 8 * KIB);
	memset(at(&r[0]), 'x', r[0].length);
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 3, 0), 0);
	memory_settle(m, 0, r, 3, 2);
	for (uint64_t i = 0; i < sizeof(bytes); i++)
		ck_assert_int_eq(bytes[i], i < 20 * KIB ? 'x' : 'a');
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, b);
	finish();
}
END_TEST

START_TEST(empty_ranges_have_an_address)
{
	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, 0), 0, 1, 1);
	run(0, range(0, ARAX_OUT, BYTES, 0), 0, 2, 2);
	ck_assert_uint_eq(copied_in(0), 0);
	finish();
}
END_TEST

START_TEST(the_least_worth_has_to_go)
{
	struct memory_stats s;

	start(2 * BYTES);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	/* It holds nothing that would have to be copied again. */
	run(0, range(1, ARAX_OUT, 0, BYTES), 'x', 2, 9);
	memory_host_wrote(m, buffer[1], 0, BYTES, 0, 1);
	run(0, range(1, ARAX_OUT, 0, 0), 0, 3, 9);
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 4, 9);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.evictions, 1);
	ck_assert_uint_eq(s.extents, 2);
	ck_assert_uint_le(fake[0].largest, 2 * BYTES);
	/* The first is still there. */
	s.copied_in = copied_in(0);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 5, 9);
	ck_assert_uint_eq(copied_in(0), s.copied_in);
	finish();
}
END_TEST

static void will_use(unsigned int b, uint64_t seq)
{
	const struct memory_range r = range(b, ARAX_IN, 0, BYTES);

	memory_will_use(m, &r, 1, seq);
}

static void has_used(unsigned int b, uint64_t seq)
{
	const struct memory_range r = range(b, ARAX_IN, 0, BYTES);

	memory_has_used(m, &r, 1, seq);
}

/* Which of the first two went for the third? */
static unsigned int who_went(void)
{
	uint64_t before;

	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 99);
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 99);
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 3, 99);
	before = copied_in(0);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 4, 99);
	return copied_in(0) == before;
}

/* However many uses one tells of, another's are known as well; and his own again when they have been. */
START_TEST(a_tenant_has_a_part_of_the_uses)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_IN, 0, BYTES);
	for (uint32_t i = 0; i < MEMORY_MAX_USES; i++)
		memory_will_use(m, &r, 1, 1 + i);
	ck_assert_uint_lt(m->nr_uses, MEMORY_MAX_USES / 2);
	for (uint32_t i = 1; i < 64 && m->nr_uses == MEMORY_MAX_USES / USER_PARTS; i++) {
		r = range(1, ARAX_IN, 0, BYTES);
		r.tenant = i;
		memory_will_use(m, &r, 1, 1);
	}
	ck_assert_uint_eq(m->nr_uses, MEMORY_MAX_USES / USER_PARTS + 1);
	memory_has_used(m, &r, 1, 1);
	r = range(0, ARAX_IN, 0, BYTES);
	memory_has_used(m, &r, 1, 1);
	ck_assert_uint_eq(m->nr_uses, MEMORY_MAX_USES / USER_PARTS - 1);
	memory_forget_uses(m);
	ck_assert_uint_eq(m->nr_uses, 0);
	for (uint32_t i = 0; i < USERS; i++)
		ck_assert_uint_eq(m->uses_of[i], 0);
	finish();
}
END_TEST

START_TEST(who_is_needed_last_has_to_go)
{
	start(2 * BYTES);
	will_use(0, 10);
	will_use(1, 20);
	ck_assert_uint_eq(who_went(), 1);
	finish();
	start(2 * BYTES);
	will_use(0, 20);
	will_use(1, 10);
	ck_assert_uint_eq(who_went(), 0);
	finish();
	/* By the first of its uses, that has not been. */
	start(2 * BYTES);
	will_use(1, 5);
	will_use(0, 10);
	will_use(1, 20);
	has_used(1, 5);
	ck_assert_uint_eq(who_went(), 1);
	finish();
	/* Rather one that nobody needs at all. */
	start(2 * BYTES);
	will_use(0, 10);
	ck_assert_uint_eq(who_went(), 1);
	finish();
	start(2 * BYTES);
	will_use(1, 10);
	memory_forget_uses(m);
	will_use(0, 20);
	ck_assert_uint_eq(who_went(), 1);
	finish();
}
END_TEST

/* What was told in vain, twice, of other bytes, or not at all does no harm. */
START_TEST(uses_are_a_hint)
{
	struct memory_range r = range(0, ARAX_IN, BYTES / 2, BYTES / 2);

	start(BYTES);
	has_used(0, 1);
	will_use(0, 1);
	will_use(0, 1);
	has_used(0, 1);
	has_used(0, 1);
	has_used(0, 1);
	r.buffer = NULL;
	memory_will_use(m, &r, 1, 2);
	memory_has_used(m, &r, 1, 2);
	r.buffer = buffer[0];
	memory_will_use(m, &r, 1, 3);
	has_used(0, 3);
	/* And a buffer may go that something is still known of. */
	will_use(1, 4);
	will_use(1, 5);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 6, 9);
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 7, 9);
	finish();
}
END_TEST

START_TEST(memory_runs_short)
{
	start(2 * BYTES);
	ck_assert(!memory_is_tight(m));
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	ck_assert(!memory_is_tight(m));
	ck_assert(!memory_is_full(m, 0));
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 9);
	ck_assert(memory_is_tight(m));
	ck_assert(memory_is_full(m, 0));
	ck_assert(!memory_is_full(m, 1));
	/* Half of it is not yet enough to think otherwise. */
	memory_buffer_gone(m, buffer[0]);
	ck_assert(memory_is_tight(m));
	ck_assert(memory_is_full(m, 0));
	memory_buffer_gone(m, buffer[1]);
	ck_assert(!memory_is_tight(m));
	ck_assert(!memory_is_full(m, 0));
	for (unsigned int i = 0; i < 2; i++)
		buffer[i] = memory_buffer_create(m, host[i], BYTES);
	finish();
	/* Large pieces: something has to go long before all is used. */
	start(3 * BYTES / 2);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	ck_assert(!memory_is_tight(m));
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 9);
	ck_assert(memory_is_tight(m));
	ck_assert(memory_is_full(m, 0));
	ck_assert_int_eq(memory_drop(m, 0), 0);
	ck_assert(!memory_is_tight(m));
	ck_assert(!memory_is_full(m, 0));
	finish();
}
END_TEST

/* A third buffer where two fit.  How many allocations there were until then, and after. */
static void one_too_many(bool moves, uint64_t wanted)
{
	struct memory_ops ops = fake_ops;
	struct memory_range r;

	ops.moves = moves;
	start_with(&ops, 2 * BYTES);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 9);
	ck_assert_uint_eq(fake[0].ever, 2);
	/* Of what was there before nothing is to be seen: not where the kernel writes nothing. */
	r = range(2, ARAX_OUT, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 3, nobody), 0);
	for (unsigned int i = 0; i < BYTES; i++)
		ck_assert_int_eq(at(&r)[i], 'c');
	at(&r)[5] = 'X';
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	ck_assert_int_eq(host[2][4], 'c');
	ck_assert_int_eq(host[2][5], 'X');
	ck_assert_uint_eq(fake[0].ever, wanted);
	ck_assert_uint_eq(fake[0].allocations, 2);
	/* Both that are left are where they were, or are brought again. */
	for (unsigned int i = 0; i < 2; i++) {
		r = range(i, ARAX_IN, 0, BYTES);
		ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 4 + i, nobody), 0);
		for (unsigned int k = 0; k < BYTES; k++)
			ck_assert_int_eq(at(&r)[k], 'a' + i);
		ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
		memory_settle(m, 0, &r, 1, 9);
	}
	/* Of another size there is no taking over. */
	wanted = fake[0].ever;
	run(0, range(3, ARAX_IN, 0, 64), 0, 7, 9);
	ck_assert_uint_eq(fake[0].ever, wanted + 1);
	finish();
}

START_TEST(who_comes_takes_the_place)
{
	one_too_many(true, 2);
	one_too_many(false, 3);
}
END_TEST

/* The first is copied in again, and nothing of the other device is. */
START_TEST(dropped_memory_is_forgotten)
{
	struct memory_stats s;

	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	ck_assert_ptr_eq(fake[0].host, host[0]);
	run(0, range(1, ARAX_OUT, 0, BYTES), 'x', 2, 9);
	run(1, range(0, ARAX_IN, 0, BYTES), 0, 3, 9);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 4, 9);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	memory_drop(m, 0);
	ck_assert_uint_eq(fake[0].allocations, 0);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.extents, 0);
	ck_assert_uint_eq(s.used, 0);
	ck_assert_int_eq(memory_check(m), 0);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 5, 9);
	ck_assert_uint_eq(copied_in(0), 3 * BYTES);
	run(1, range(0, ARAX_IN, 0, BYTES), 0, 6, 9);
	ck_assert_uint_eq(copied_in(1), BYTES);
	ck_assert_int_eq(host[1][0], 'x');
	memory_drop(m, 0);
	memory_drop(m, 0);
	finish();
}
END_TEST

START_TEST(memory_with_gaps_is_made_room_in)
{
	start(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	fake[0].fail_alloc = 1;
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 9);
	ck_assert_uint_eq(fake[0].allocations, 1);
	finish();
}
END_TEST

START_TEST(too_much_is_ENOMEM)
{
	struct memory_range r[2];

	start(BYTES + 100);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 2, 1, nobody), -ENOMEM);
	ck_assert_int_eq(memory_check(m), 0);
	/* A part of it does. */
	r[1].length = 50;
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 2, 1, nobody), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 2, 0), 0);
	memory_settle(m, 0, r, 2, 1);
	finish();
}
END_TEST

static void *enter_late(void *arg)
{
	struct memory_range *r = arg;
	int err = memory_enter(m, 0, 1, r, 1, 2, nobody);

	return (void *)(intptr_t)err;
}

START_TEST(a_task_waits_for_room)
{
	struct memory_range r[2];
	struct memory_stats s;
	pthread_t thread;
	void *err;

	start(BYTES + 100);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 1, nobody), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, enter_late, &r[1]), 0);
	do {
		memory_query(m, 0, &s);
	} while (!s.waits);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	memory_settle(m, 0, &r[0], 1, 2);
	pthread_join(thread, &err);
	ck_assert_int_eq((intptr_t)err, 0);
	ck_assert_int_eq(at(&r[1])[0], 'b');
	ck_assert_int_eq(memory_leave(m, 0, 1, &r[1], 1, 0), 0);
	memory_settle(m, 0, &r[1], 1, 2);
	finish();
}
END_TEST

static void *let_buffer_go(void *buffer)
{
	memory_buffer_gone(m, buffer);
	return NULL;
}

/* What is on its way back counts no longer, and the device has not got it yet. */
START_TEST(a_task_waits_for_what_is_freed)
{
	static uint8_t host[BYTES];
	struct memory_buffer *old;
	struct memory_range r[2];
	struct memory_stats s;
	pthread_t goes, comes;
	void *err;

	start(BYTES + 100);
	fake[0].most = BYTES + 100;
	old = memory_buffer_create(m, host, BYTES);
	r[0] = (struct memory_range){ .buffer = old, .length = BYTES, .count = 1, .access = ARAX_IN };
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 1, nobody), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	memory_settle(m, 0, &r[0], 1, 2);
	__atomic_store_n(&fake[0].slow_free, true, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_create(&goes, NULL, let_buffer_go, old), 0);
	while (!__atomic_load_n(&fake[0].frees, __ATOMIC_RELAXED))
		sched_yield();
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[1], 1, 2, nobody), -EAGAIN);
	ck_assert_int_eq(pthread_create(&comes, NULL, enter_late, &r[1]), 0);
	do {
		memory_query(m, 0, &s);
	} while (!s.waits);
	__atomic_store_n(&fake[0].slow_free, false, __ATOMIC_RELAXED);
	pthread_join(comes, &err);
	ck_assert_int_eq((intptr_t)err, 0);
	pthread_join(goes, NULL);
	ck_assert_int_eq(memory_leave(m, 0, 1, &r[1], 1, 0), 0);
	memory_settle(m, 0, &r[1], 1, 2);
	fake[0].most = 0;
	finish();
}
END_TEST

/* ------------------------------------------------------------------ */
/* Quotas                                                              */

static struct {
	pthread_mutex_t lock;
	int64_t used[4], max[4];
	int refused;
} quota = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	int err = 0;

	ck_assert_ptr_eq(arg, &quota);
	pthread_mutex_lock(&quota.lock);
	if (id == 3)
		err = -ENOENT;
	else if (bytes > 0 && quota.used[id] + bytes > quota.max[id])
		err = -EDQUOT;
	else
		quota.used[id] += bytes;
	quota.refused += err == -EDQUOT;
	ck_assert_int_ge(quota.used[id], 0);
	pthread_mutex_unlock(&quota.lock);
	return err;
}

static const struct memory_owner one = { 1, 1 }, two = { 2, 2 }, gone = { 3, 3 };

static void start_charged(uint64_t bytes, int64_t max)
{
	start(bytes);
	memory_set_charge(m, charge, &quota);
	quota.used[1] = 0;
	quota.used[2] = 0;
	quota.refused = 0;
	quota.max[1] = max;
	quota.max[2] = max;
}

START_TEST(what_is_held_is_paid_for)
{
	struct memory_range r[3], s;

	start_charged(64 * KIB, BYTES + 100);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(0, ARAX_IN, 50, 100);
	r[2] = range(1, ARAX_OUT, 0, 100);
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 3, 1, one), 0);
	ck_assert_int_eq(quota.used[1], BYTES + 100);
	/* Nobody pays twice for the same, but each who holds it. */
	s = range(0, ARAX_IN, 0, 10);
	ck_assert_int_eq(memory_enter(m, 0, 1, &s, 1, 2, one), 0);
	ck_assert_int_eq(quota.used[1], BYTES + 100);
	ck_assert_int_eq(memory_leave(m, 0, 1, &s, 1, 0), 0);
	memory_settle(m, 0, &s, 1, 9);
	ck_assert_int_eq(quota.used[1], BYTES + 100);
	ck_assert_int_eq(memory_enter(m, 0, 1, &s, 1, 2, two), 0);
	ck_assert_int_eq(quota.used[2], BYTES);
	ck_assert_int_eq(memory_leave(m, 0, 1, &s, 1, 0), 0);
	memory_settle(m, 0, &s, 1, 9);
	ck_assert_int_eq(quota.used[2], 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 3, 0), 0);
	memory_settle(m, 0, r, 3, 9);
	ck_assert_int_eq(quota.used[1], 0);
	finish();
}
END_TEST

/* Who pays for what two hold ends first: the other one goes on paying, its own or the same's. */
START_TEST(who_stays_pays)
{
	const struct memory_owner second = _i ? two : one;
	struct memory_range r, s, t;

	start_charged(64 * KIB, BYTES);
	r = range(0, ARAX_IN, 0, BYTES);
	s = range(0, ARAX_IN, 0, BYTES);
	t = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, one), 0);
	ck_assert_int_eq(memory_enter(m, 0, 1, &s, 1, 2, second), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	ck_assert_int_eq(quota.used[second.id], BYTES);
	ck_assert_int_eq(quota.used[3 - second.id], 0);
	ck_assert_int_eq(memory_try_enter(m, 0, 2, &t, 1, 3, second), MEMORY_LATER);
	ck_assert_int_eq(memory_leave(m, 0, 1, &s, 1, 0), 0);
	memory_settle(m, 0, &s, 1, 9);
	ck_assert_int_eq(quota.used[second.id], 0);
	ck_assert_int_eq(memory_enter(m, 0, 2, &t, 1, 3, second), 0);
	ck_assert_int_eq(memory_leave(m, 0, 2, &t, 1, 0), 0);
	memory_settle(m, 0, &t, 1, 9);
	ck_assert_int_eq(quota.used[second.id], 0);
	finish();
}
END_TEST

static uint64_t limit_of(void *arg, struct memory_owner owner, uint64_t *left)
{
	return (uint64_t)quota.max[owner.id];
}

/* What another one's task has is larger than what it may have: a piece of its own will do. */
START_TEST(who_needs_little_pays_little)
{
	struct memory_range r, s;

	start_charged(64 * KIB, BYTES);
	quota.max[2] = 10;
	r = range(0, ARAX_IN, 0, BYTES);
	s = range(0, ARAX_IN, 50, 10);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, one), 0);
	ck_assert_int_eq(memory_enter(m, 0, 1, &s, 1, 2, two), 0);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_int_eq(quota.used[2], 10);
	ck_assert_int_eq(memcmp(at(&s), at(&r) + 50, 10), 0);
	ck_assert_int_eq(memory_leave(m, 0, 1, &s, 1, 0), 0);
	memory_settle(m, 0, &s, 1, 9);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	finish();
}
END_TEST

START_TEST(one_byte_more_is_EDQUOT)
{
	char why[REASON_LEN], said[REASON_LEN];
	struct memory_range r = { 0 };

	start_charged(64 * KIB, BYTES - 1);
	memory_set_limit(m, limit_of);
	r = range(0, ARAX_IN, 0, BYTES);
	reason_forget();
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, one), -EDQUOT);
	reason_take(why);
	snprintf(said, sizeof(said), "its data, %u bytes, is more than its tenant's device_memory.max, %u bytes, lets",
		 BYTES, BYTES - 1);
	ck_assert_ptr_nonnull(strstr(why, said));
	ck_assert_int_eq(quota.used[1], 0);
	ck_assert_int_eq(memory_check(m), 0);
	r.length--;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, one), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	/* One whose context is gone runs into nothing, and pays nothing. */
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, gone), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	finish();
}
END_TEST

START_TEST(a_failed_copy_pays_nothing)
{
	struct memory_range r = { 0 };

	start_charged(64 * KIB, BYTES);
	r = range(0, ARAX_IN, 0, BYTES);
	fake[0].fail_in = 1;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, one), -EIO);
	ck_assert_int_eq(quota.used[1], 0);
	finish();
}
END_TEST

/* Who has tasks in flight is told to come again, where another one would wait. */
START_TEST(who_tries_does_not_wait)
{
	struct memory_range r[3], more;
	struct memory_stats s;
	pthread_t thread;
	void *err;

	start_charged(BYTES + 100, BYTES);
	r[0] = range(0, ARAX_INOUT, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	r[2] = range(2, ARAX_IN, 0, 50);
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[0], 1, 1, one), 0);
	/* No room, and no quota. */
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[1], 1, 2, two), -EAGAIN);
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[2], 1, 2, one), MEMORY_LATER);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_int_eq(quota.used[2], 0);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.waits, 1);
	/* There is room, but it is kept for one that waits. */
	quota.max[1] = 2 * BYTES;
	quota.max[2] = 2 * BYTES;
	ck_assert_int_eq(pthread_create(&thread, NULL, enter_late, &r[1]), 0);
	do {
		memory_query(m, 0, &s);
	} while (s.waits < 2);
	more = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &more, 1, 2, one), -EAGAIN);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	memory_settle(m, 0, &r[0], 1, 2);
	pthread_join(thread, &err);
	ck_assert_int_eq((intptr_t)err, 0);
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[2], 1, 2, two), 0);
	ck_assert_int_eq(at(&r[2])[0], 'c');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[2], 1, 0), 0);
	memory_settle(m, 0, &r[2], 1, 9);
	ck_assert_int_eq(memory_leave(m, 0, 1, &r[1], 1, 0), 0);
	memory_settle(m, 0, &r[1], 1, 9);
	ck_assert_int_eq(quota.used[1] + quota.used[2], 0);
	/* What no waiting would help. */
	fake[0].fail_in = 1;
	ck_assert_int_eq(memory_try_enter(m, 0, 0, &r[0], 1, 3, one), -EIO);
	finish();
}
END_TEST

/* Whoever calls does the waiting, as he has other things to do meanwhile. */
START_TEST(a_task_waits_for_its_quota)
{
	struct memory_range r[3];
	uint64_t settles;

	start_charged(64 * KIB, BYTES);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	r[2] = range(2, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 1, one), 0);
	settles = memory_settles(m);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), MEMORY_LATER);
	ck_assert_uint_eq(memory_settles(m), settles);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_int_eq(memory_check(m), 0);
	/* Meanwhile the device is another tenant's to use. */
	ck_assert_int_eq(memory_enter(m, 1, 0, &r[2], 1, 1, two), 0);
	ck_assert_int_eq(memory_leave(m, 1, 0, &r[2], 1, 0), 0);
	memory_settle(m, 1, &r[2], 1, 9);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	settles = memory_settles(m);
	memory_settle(m, 0, &r[0], 1, 9);
	ck_assert_uint_ne(memory_settles(m), settles);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), 0);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_int_eq(memory_leave(m, 1, 1, &r[1], 1, 0), 0);
	memory_settle(m, 1, &r[1], 1, 9);
	ck_assert_int_eq(quota.used[1], 0);
	finish();
}
END_TEST

static struct memory_range *ends;
static unsigned int ends_at;

/* The task of @ends ends while another one is being refused, for the @ends_at-th time. */
static int charge_late(void *arg, uint64_t id, int64_t bytes)
{
	struct memory_range *r = ends;
	int err = charge(arg, id, bytes);

	if (err == -EDQUOT && r && !--ends_at) {
		ends = NULL;
		ck_assert_int_eq(memory_leave(m, 1, 0, r, 1, 0), 0);
		memory_settle(m, 1, r, 1, 9);
	}
	return err;
}

static uint64_t limit_own(void *arg, struct memory_owner owner, uint64_t *left)
{
	(void)arg;
	return (uint64_t)quota.max[owner.id];
}

START_TEST(who_paid_ends_while_another_is_refused)
{
	struct memory_range r, both[2];

	start_charged(64 * KIB, BYTES + 100);
	memory_set_charge(m, charge_late, &quota);
	r = range(0, ARAX_IN, 0, BYTES);
	both[0] = range(0, ARAX_IN, 0, 50);
	both[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 1, one), 0);
	ends = &r;
	ends_at = 1;
	ck_assert_int_eq(memory_enter(m, 1, 1, both, 2, 2, one), 0);
	ck_assert_ptr_null(ends);
	ck_assert_int_eq(quota.used[1], BYTES + 50);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(memory_leave(m, 1, 1, both, 2, 0), 0);
	memory_settle(m, 1, both, 2, 9);
	ck_assert_int_eq(quota.used[1], 0);
	finish();
}
END_TEST

/* What was in the way is paid back between the refusal and the look at who has it. */
START_TEST(who_is_in_the_way_ends_meanwhile)
{
	struct memory_range r[2];
	uint64_t settles;

	start_charged(64 * KIB, BYTES);
	memory_set_charge(m, charge_late, &quota);
	if (_i)
		memory_set_limit(m, limit_own);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r[0], 1, 1, one), 0);
	ends = &r[0];
	ends_at = 2;	/* a smaller piece would not do either */
	settles = memory_settles(m);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), MEMORY_LATER);
	ck_assert_uint_ne(memory_settles(m), settles);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), 0);
	ck_assert_ptr_null(ends);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_int_eq(memory_leave(m, 1, 1, &r[1], 1, 0), 0);
	memory_settle(m, 1, &r[1], 1, 9);
	ck_assert_int_eq(quota.used[1], 0);
	finish();
}
END_TEST

/* Both below one that may have BYTES + 100. */
static int charge_shared(void *arg, uint64_t id, int64_t bytes)
{
	(void)arg;
	(void)id;
	return charge(&quota, 1, bytes);
}

static uint64_t limit_shared(void *arg, struct memory_owner owner, uint64_t *left)
{
	(void)arg;
	(void)owner;
	return BYTES + 100;
}

/* What a sibling holds goes again; what no limit would take never comes. */
START_TEST(a_task_waits_for_its_siblings)
{
	struct memory_range r[2], both[2];

	start_charged(64 * KIB, BYTES + 100);
	both[0] = range(2, ARAX_IN, 0, BYTES);
	both[1] = range(3, ARAX_IN, 0, BYTES);
	memory_set_charge(m, charge_shared, NULL);
	memory_set_limit(m, limit_shared);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 1, two), 0);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), MEMORY_LATER);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	/* The two that alone are too much do not wait, though somebody holds something. */
	ck_assert_int_eq(memory_enter(m, 1, 0, both, 2, 1, one), -EDQUOT);
	memory_settle(m, 0, &r[0], 1, 9);
	ck_assert_int_eq(memory_enter(m, 1, 1, &r[1], 1, 2, one), 0);
	ck_assert_int_eq(memory_leave(m, 1, 1, &r[1], 1, 0), 0);
	memory_settle(m, 1, &r[1], 1, 9);
	ck_assert_int_eq(quota.used[1], 0);
	/* And where nobody holds any more than it may, there is nothing to wait for. */
	quota.max[1] = 10;
	ck_assert_int_eq(memory_enter(m, 1, 0, both, 1, 1, one), -EDQUOT);
	finish();
}
END_TEST

START_TEST(nobody_waits_for_ever)
{
	struct memory_range r[2];
	struct memory_stats s;
	pthread_t thread;
	void *err;

	start(BYTES + 100);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 1, nobody), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, enter_late, &r[1]), 0);
	do {
		memory_query(m, 0, &s);
	} while (!s.waits);
	memory_stop(m);
	pthread_join(thread, &err);
	ck_assert_int_eq((intptr_t)err, -ECANCELED);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	memory_settle(m, 0, &r[0], 1, 2);
	finish();
}
END_TEST

START_TEST(copies_that_fail)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_IN, 0, BYTES);
	fake[0].fail_in = 1;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), -EIO);
	ck_assert_int_eq(memory_check(m), 0);
	/* Nothing was taken for loaded. */
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 9);
	ck_assert_uint_eq(copied_in(0), BYTES);
	r = range(0, ARAX_INOUT, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	fake[0].fail_out = 1;
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), -EIO);
	memory_settle(m, 0, &r, 1, 9);
	/* What it left there counts as nothing. */
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 3, 9);
	ck_assert_uint_eq(copied_in(0), 2 * BYTES);
	finish();
}
END_TEST

/* The first input is there, and nobody will ever say until when it is trusted. */
START_TEST(half_a_task_leaves_no_trust)
{
	struct memory_range r[2];

	start(64 * KIB);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	fake[0].pass_in = 1;
	fake[0].fail_in = 1;
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 2, 1, nobody), -EIO);
	memset(host[0], 'n', BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 2, 2, nobody), 0);
	ck_assert_int_eq(at(&r[0])[0], 'n');
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 2, 0), 0);
	memory_settle(m, 0, r, 2, 2);
	finish();
}
END_TEST

START_TEST(a_failed_task_changes_nothing)
{
	struct memory_range r;

	start(64 * KIB);
	r = range(0, ARAX_INOUT, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	memset(at(&r), 'X', BYTES);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -EFAULT), -EFAULT);
	memory_settle(m, 0, &r, 1, 9);
	ck_assert_int_eq(host[0][0], 'a');
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	ck_assert_int_eq(at(&r)[0], 'a');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 9);
	finish();
}
END_TEST

/* ------------------------------------------------------------------ */
/* Lazy buffers                                                        */

static void start_lazy(uint64_t bytes)
{
	start(bytes);
	memory_buffer_lazy(buffer[0]);
	memory_buffer_lazy(buffer[1]);
}

static void expect_byte(unsigned int device, unsigned int b, uint64_t offset, char c)
{
	struct memory_range r = range(b, ARAX_IN, offset, 1);

	ck_assert_int_eq(memory_enter(m, device, 0, &r, 1, 99, nobody), 0);
	ck_assert_int_eq(at(&r)[0], c);
	ck_assert_int_eq(memory_leave(m, device, 0, &r, 1, 0), 0);
	memory_settle(m, device, &r, 1, 99);
}

static int enter_ready(struct memory_range r, uint64_t seq, struct memory_owner owner)
{
	int err = memory_enter_ready(m, 0, &r, 1, seq, owner);

	if (err)
		return err;
	ck_assert_int_eq(at(&r)[0], 'x');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 99);
	return 0;
}

/* Only where nothing has to be done, and then at once; else as if it had not been tried. */
START_TEST(who_is_ready_enters_at_once)
{
	struct memory_range all = { 0 }, r[2];

	start_charged(64 * KIB, BYTES);
	memory_buffer_lazy(buffer[0]);
	all = range(0, ARAX_INOUT, 0, BYTES);
	ck_assert_int_eq(enter_ready(all, 1, one), -EAGAIN);
	ck_assert_int_eq(quota.used[1], 0);
	run(0, all, 'x', 1, 99);
	for (uint32_t access = ARAX_IN; access <= ARAX_INOUT; access++)
		ck_assert_int_eq(enter_ready(range(0, access, 10, 100), 2, one), 0);
	ck_assert_int_eq(enter_ready(all, 3, gone), 0);
	ck_assert_uint_eq(copied_in(0), BYTES);
	ck_assert_uint_eq(copied_out(0), 0);
	/* It is held and paid for, as by whoever waits for it. */
	r[0] = range(0, ARAX_IN, 0, 10);
	r[1] = range(0, ARAX_OUT, 5, 10);
	ck_assert_int_eq(memory_enter_ready(m, 0, r, 2, 4, one), 0);
	ck_assert_int_eq(quota.used[1], BYTES);
	ck_assert_ptr_eq(at(&r[0]) + 5, at(&r[1]));
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 2, 0), 0);
	memory_settle(m, 0, r, 2, 99);
	ck_assert_int_eq(quota.used[1], 0);
	/* More than there is quota for: who waits for it says so. */
	quota.max[1] = BYTES - 1;
	ck_assert_int_eq(enter_ready(all, 5, one), -EAGAIN);
	ck_assert_int_eq(quota.used[1], 0);
	quota.max[1] = BYTES;
	/* Rows, and nothing at all. */
	r[0] = range(0, ARAX_IN, 0, 10);
	r[0].stride = 100;
	r[0].count = 3;
	ck_assert_int_eq(enter_ready(r[0], 6, one), -EAGAIN);
	ck_assert_int_eq(enter_ready(range(0, ARAX_IN, 10, 0), 6, one), -EAGAIN);
	/* One of two is somewhere else. */
	r[0] = range(0, ARAX_IN, 0, 10);
	r[1] = range(1, ARAX_IN, 0, 10);
	ck_assert_int_eq(memory_enter_ready(m, 0, r, 2, 7, one), -EAGAIN);
	ck_assert_ptr_null(r[0].extent);
	ck_assert_int_eq(quota.used[1], 0);
	/* The program has written since. */
	memory_host_wrote(m, buffer[0], 50, 1, 0, 1);
	ck_assert_int_eq(enter_ready(range(0, ARAX_IN, 0, 50), 8, one), 0);
	ck_assert_int_eq(enter_ready(all, 8, one), -EAGAIN);
	ck_assert_int_eq(memory_check(m), 0);
	finish();
}
END_TEST

/* What is not lazy has to reach the host, and is trusted only so far. */
START_TEST(who_is_ready_has_no_results_to_bring)
{
	start(64 * KIB);
	run(0, range(2, ARAX_INOUT, 0, BYTES), 'x', 1, 10);
	ck_assert_int_eq(enter_ready(range(2, ARAX_IN, 0, BYTES), 2, nobody), 0);
	ck_assert_int_eq(enter_ready(range(2, ARAX_OUT, 0, BYTES), 3, nobody), -EAGAIN);
	ck_assert_int_eq(enter_ready(range(2, ARAX_INOUT, 0, BYTES), 3, nobody), -EAGAIN);
	memory_distrust(m, 0);
	ck_assert_int_eq(enter_ready(range(2, ARAX_IN, 0, BYTES), 4, nobody), -EAGAIN);
	finish();
}
END_TEST

/* Somebody waits for room, and none overtakes it. */
START_TEST(who_is_ready_overtakes_nobody)
{
	struct memory_range r[2];
	struct memory_stats s;
	pthread_t thread;
	void *err;

	start(BYTES + 100);
	memory_buffer_lazy(buffer[0]);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 99);
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r[0], 1, 2, nobody), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, enter_late, &r[1]), 0);
	do {
		memory_query(m, 0, &s);
	} while (!s.waits);
	ck_assert_int_eq(enter_ready(range(0, ARAX_IN, 0, 10), 3, nobody), -EAGAIN);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r[0], 1, 0), 0);
	memory_settle(m, 0, &r[0], 1, 99);
	pthread_join(thread, &err);
	ck_assert_int_eq((intptr_t)err, 0);
	ck_assert_int_eq(memory_leave(m, 0, 1, &r[1], 1, 0), 0);
	memory_settle(m, 0, &r[1], 1, 99);
	finish();
}
END_TEST

/* Nothing moves but the first input and the last result, however the program waits. */
START_TEST(lazy_results_stay)
{
	struct memory_range r, part;

	start_lazy(64 * KIB);
	for (int i = 1; i < 10; i++)
		run(0, range(0, ARAX_INOUT, 0, BYTES), '0' + i, i, i);
	memory_distrust(m, 0);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'z', 20, 20);
	ck_assert_uint_eq(copied_in(0), BYTES);
	ck_assert_uint_eq(copied_out(0), 0);
	ck_assert_int_eq(host[0][0], 'a');
	ck_assert_int_eq(memory_check(m), 0);
	/* Just what is asked for, and once. */
	part = range(0, ARAX_IN, 1000, 24);
	part.stride = 100;
	part.count = 3;
	ck_assert(memory_is_dirty(m, &part));
	ck_assert_int_eq(memory_flush(m, &part), 0);
	ck_assert_uint_eq(copied_out(0), 72);
	ck_assert_int_eq(host[0][999], 'a');
	ck_assert_int_eq(host[0][1000], 'z');
	ck_assert_int_eq(host[0][1024], 'a');
	ck_assert_int_eq(host[0][1223], 'z');
	/* Whatever lies between its rows. */
	ck_assert(!memory_is_dirty(m, &part));
	ck_assert_int_eq(memory_flush(m, &part), 0);
	ck_assert_uint_eq(copied_out(0), 72);
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_uint_eq(copied_out(0), BYTES);
	ck_assert(!memory_is_dirty(m, &r));
	ck_assert_int_eq(host[0][0], 'z');
	/* The copy is as good as it was. */
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 30, 30);
	ck_assert_uint_eq(copied_in(0), BYTES);
	/* Until the program has written. */
	host[0][7] = 'w';
	memory_host_wrote(m, buffer[0], 7, 1, 0, 1);
	expect_byte(0, 0, 7, 'w');
	expect_byte(0, 0, 8, 'z');
	ck_assert_uint_eq(copied_in(0), BYTES + 1);
	finish();
}
END_TEST

/* Who asks whether rows are dirty serves everybody: it is not for long, whatever lies between them. */
START_TEST(rows_are_not_looked_at_for_long)
{
	struct memory_range r;
	uint64_t steps;

	start_lazy(64 * KIB);
	memory_many_dirty(m, BYTES);
	run(0, range(0, ARAX_INOUT, 0, BYTES), '1', 1, 1);
	r = range(0, ARAX_IN, 0, 4);
	r.stride = 16;
	r.count = BYTES / 16;
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_uint_eq(copied_out(0), BYTES / 4);
	steps = memory_steps(m, buffer[0]);
	/* So much lies between them that it may say either. */
	memory_is_dirty(m, &r);
	ck_assert_uint_lt(memory_steps(m, buffer[0]) - steps, 64);
	/* The first row behind many that are not is found, or not looked for. */
	run(0, range(0, ARAX_INOUT, BYTES - 16, 4), '2', 2, 2);
	ck_assert(memory_is_dirty(m, &r));
	finish();
}
END_TEST

START_TEST(overwritten_results_are_never_copied)
{
	struct memory_range r;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	run(1, range(0, ARAX_OUT, 0, BYTES), 'y', 2, 2);
	/* But for a new extent's first bytes, which nobody has written before. */
	ck_assert_uint_eq(copied_out(0), BYTES);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 3, 3);
	run(1, range(0, ARAX_OUT, 0, BYTES), 'v', 4, 4);
	ck_assert_uint_eq(copied_out(0) + copied_out(1), BYTES);
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_uint_eq(copied_out(1), BYTES);
	ck_assert_int_eq(host[0][5], 'v');
	finish();
}
END_TEST

/* From one device to the other, by way of the host, and only what is read. */
START_TEST(lazy_results_follow_their_readers)
{
	start_lazy(64 * KIB);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	run(1, range(0, ARAX_INOUT, 100, 50), 'y', 2, 2);
	ck_assert_uint_eq(copied_out(0), 50);
	expect_byte(0, 0, 99, 'x');
	expect_byte(0, 0, 100, 'y');
	expect_byte(1, 0, 200, 'x');
	ck_assert_int_eq(memory_check(m), 0);
	/* What another one brings back does not go back in time. */
	run(0, range(0, ARAX_INOUT, 120, 5), 'z', 3, 3);
	expect_byte(1, 0, 119, 'y');
	expect_byte(1, 0, 122, 'z');
	finish();
}
END_TEST

static void start_peers(void)
{
	start_with(&fake_peer_ops, 64 * KIB);
	memory_buffer_lazy(buffer[0]);
}

static uint64_t copied_peer(unsigned int device)
{
	struct memory_stats s;

	memory_query(m, device, &s);
	return s.copied_peer;
}

/* From one device to the other, without the host, which has its own bytes still. */
START_TEST(peers_copy_from_each_other)
{
	struct memory_range all;

	start_peers();
	all = range(0, ARAX_IN, 0, BYTES);
	run(0, range(0, ARAX_OUT, 100, 50), 'x', 1, 1);
	ck_assert_uint_eq(copied_in(0), 50);
	run(1, all, 0, 2, 2);
	ck_assert_uint_eq(copied_peer(1), 50);
	ck_assert_uint_eq(copied_in(1), BYTES - 50);
	ck_assert_uint_eq(copied_out(0), 0);
	ck_assert_int_eq(host[0][100], 'a');
	expect_byte(1, 0, 99, 'a');
	expect_byte(1, 0, 100, 'x');
	expect_byte(1, 0, 150, 'a');
	ck_assert_int_eq(memory_check(m), 0);
	/* What is written anew there is there alone. */
	run(1, range(0, ARAX_INOUT, 120, 10), 'y', 3, 3);
	expect_byte(0, 0, 119, 'x');
	run(0, all, 0, 4, 4);
	expect_byte(0, 0, 125, 'y');
	ck_assert_uint_eq(copied_peer(0), 10);
	ck_assert_int_eq(memory_flush(m, &all), 0);
	ck_assert_uint_eq(copied_out(0) + copied_out(1), 50);
	ck_assert_int_eq(host[0][100], 'x');
	ck_assert_int_eq(host[0][125], 'y');
	/* The host has it now, and it comes from there. */
	run(0, range(0, ARAX_OUT, 0, BYTES), 'z', 5, 5);
	ck_assert_int_eq(memory_flush(m, &all), 0);
	run(1, all, 0, 6, 6);
	ck_assert_uint_eq(copied_peer(1), 50);
	/* Nothing of it is known of a plain buffer. */
	run(0, range(2, ARAX_INOUT, 0, BYTES), 'p', 7, 9);
	run(1, range(2, ARAX_IN, 0, BYTES), 0, 8, 9);
	ck_assert_uint_eq(copied_peer(1), 50);
	finish();
}
END_TEST

START_TEST(who_is_no_peer_goes_by_the_host)
{
	start_peers();
	fake[1].strange = 1;
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	run(1, range(0, ARAX_INOUT, 0, BYTES), 0, 2, 2);
	ck_assert_uint_eq(copied_out(0), BYTES);
	expect_byte(1, 0, 7, 'x');
	/* That is known now, and is no matter of the other way round. */
	run(0, range(0, ARAX_OUT, 0, BYTES), 'y', 3, 3);
	run(1, range(0, ARAX_IN, 0, BYTES), 0, 4, 4);
	ck_assert_int_eq(fake[1].peer_copies, 1);
	expect_byte(1, 0, 7, 'y');
	run(1, range(0, ARAX_OUT, 0, BYTES), 'z', 5, 5);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 6, 6);
	ck_assert_uint_eq(copied_peer(0), BYTES);
	finish();
	/* A copy that fails once says nothing of the next. */
	start_peers();
	fake[1].fail_peer = 1;
	for (int i = 0; i < 2; i++) {
		run(0, range(0, ARAX_OUT, 0, BYTES), (char)('x' + i), 2 * i, 9);
		run(1, range(0, ARAX_IN, 0, BYTES), 0, 2 * i + 1, 9);
		expect_byte(1, 0, 7, (char)('x' + i));
	}
	ck_assert_int_eq(fake[1].peer_copies, 2);
	ck_assert_uint_eq(copied_peer(1), BYTES);
	finish();
	/* Devices of two backends. */
	start(64 * KIB);
	ck_assert_int_eq(memory_add_device(m, 2, &fake_peer_ops, &fake[1], BYTES), 0);
	memory_buffer_lazy(buffer[0]);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	run(2, range(0, ARAX_IN, 0, BYTES), 0, 2, 2);
	ck_assert_int_eq(fake[1].peer_copies, 0);
	expect_byte(2, 0, 7, 'x');
	finish();
}
END_TEST

/* Who has copied from a device that is lost has what others want. */
START_TEST(a_peers_copy_outlives_the_device)
{
	struct memory_range part, rest;

	start_peers();
	part = range(0, ARAX_IN, 0, 100);
	rest = range(0, ARAX_IN, 100, 100);
	run(0, range(0, ARAX_OUT, 0, 200), 'x', 1, 1);
	run(1, part, 0, 2, 2);
	fake[0].fail_out = 1;
	memory_lose(m, 0);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(memory_flush(m, &part), 0);
	ck_assert_int_eq(host[0][0], 'x');
	ck_assert_int_eq(memory_flush(m, &rest), -EIO);
	finish();
}
END_TEST

/* Its task had come from another device, which still has what it read. */
START_TEST(a_lost_task_leaves_its_input)
{
	struct memory_range r;

	start_peers();
	run(0, range(0, ARAX_OUT, 0, BYTES), 'n', 1, 1);
	r = range(0, ARAX_INOUT, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 2, nobody), 0);
	ck_assert_int_eq(fake[1].peer_copies, 1);
	memset(at(&r), 'h', 100);
	ck_assert(!memory_consumes(m, 1, &r, 1));
	fake[1].dead = true;
	ck_assert_int_eq(memory_leave(m, 1, 0, &r, 1, -ENODEV), -ENODEV);
	memory_settle(m, 1, &r, 1, 2);
	memory_lose(m, 1);
	ck_assert_int_eq(memory_check(m), 0);
	expect_byte(0, 0, 7, 'n');
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_int_eq(host[0][0], 'n');
	finish();
}
END_TEST

/* Nor does it make the host's old bytes good: it may be canceled, as if it had done nothing. */
START_TEST(a_lost_task_hides_no_loss)
{
	static const uint32_t access[] = { ARAX_OUT, ARAX_INOUT };

	for (uint32_t i = 0; i < 2; i++) {
		struct memory_range r, all;

		start(64 * KIB);
		r = range(0, access[i], 50, 100);
		all = range(0, ARAX_IN, 0, BYTES);
		memory_buffer_lazy(buffer[0]);
		run(0, range(0, ARAX_IN, 0, 200), 0, 1, 1);
		run(0, range(0, ARAX_OUT, 0, 100), 'n', 1, 1);
		ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
		memset(at(&r), 'h', 100);
		ck_assert(memory_consumes(m, 0, &r, 1) == (i == 1));
		fake[0].dead = true;
		ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
		memory_settle(m, 0, &r, 1, 2);
		ck_assert_int_eq(memory_check(m), 0);
		ck_assert_int_eq(memory_flush(m, &all), -EIO);
		memory_lose(m, 0);
		ck_assert_int_eq(memory_check(m), 0);
		r = range(0, ARAX_IN, 0, 50);
		ck_assert_int_eq(memory_flush(m, &r), -EIO);
		r = range(0, ARAX_IN, 50, 50);
		ck_assert_int_eq(memory_flush(m, &r), -EIO);
		/* What it was to write and the host had is as it was. */
		r = range(0, ARAX_IN, 100, BYTES - 100);
		ck_assert_int_eq(memory_flush(m, &r), 0);
		/* Until somebody has written over it. */
		memory_host_wrote(m, buffer[0], 0, 100, 0, 1);
		ck_assert_int_eq(memory_flush(m, &all), 0);
		finish();
	}
}
END_TEST

/* Nor where the device said that it is lost, and gives its bytes all the same: they are half a task's. */
START_TEST(a_lost_device_that_still_gives)
{
	static const uint32_t access[] = { ARAX_OUT, ARAX_INOUT };
	struct memory_range r, all;

	start_peers();
	r = range(0, access[_i & 1], 50, 100);
	all = range(0, ARAX_IN, 0, BYTES);
	run(0, range(0, ARAX_IN, 0, 200), 0, 1, 1);
	run(0, range(0, ARAX_OUT, 0, 100), 'n', 1, 1);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	memset(at(&r), 'h', 100);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
	memory_settle(m, 0, &r, 1, 2);
	if (_i & 2)
		memory_lose(m, 0);
	r = range(0, ARAX_IN, 50, 50);
	if (_i & 4) {
		ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 3, nobody), -EIO);
	} else {
		ck_assert_int_eq(memory_flush(m, &r), -EIO);
		ck_assert_int_eq(host[0][50], 'a');
	}
	/* What it was not to write is had. */
	r = range(0, ARAX_IN, 0, 50);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_int_eq(host[0][0], 'n');
	memory_host_wrote(m, buffer[0], 50, 50, 0, 1);
	ck_assert_int_eq(memory_flush(m, &all), 0);
	finish();
}
END_TEST

/* What another device has copied from it that one has still. */
START_TEST(a_lost_task_loses_what_nobody_else_has)
{
	struct memory_range r, part, rest;

	start_peers();
	part = range(0, ARAX_IN, 0, 100);
	rest = range(0, ARAX_IN, 100, 100);
	run(0, range(0, ARAX_OUT, 0, 200), 'n', 1, 1);
	run(1, part, 0, 2, 2);
	r = range(0, ARAX_INOUT, 0, 200);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 3, nobody), 0);
	memset(at(&r), 'h', 200);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
	memory_settle(m, 0, &r, 1, 3);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(memory_flush(m, &rest), -EIO);
	ck_assert_int_eq(memory_flush(m, &part), 0);
	ck_assert_int_eq(host[0][0], 'n');
	finish();
}
END_TEST

/* And what another extent has, which it had nothing to do with. */
START_TEST(a_lost_task_loses_what_it_was_given)
{
	struct memory_range r, was, rest;

	start(64 * KIB);
	memory_buffer_lazy(buffer[0]);
	r = range(0, ARAX_OUT, 50, 100);
	run(0, r, 'm', 1, 1);
	was = range(0, ARAX_OUT, 0, 100);
	run(0, was, 'n', 2, 2);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 3, nobody), 0);
	memset(at(&r), 'h', 100);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
	memory_settle(m, 0, &r, 1, 3);
	was.access = ARAX_IN;
	ck_assert_int_eq(memory_flush(m, &was), 0);
	ck_assert_int_eq(host[0][0], 'n');
	ck_assert_int_eq(host[0][99], 'n');
	rest = range(0, ARAX_IN, 100, 50);
	ck_assert_int_eq(memory_flush(m, &rest), -EIO);
	finish();
}
END_TEST

/* However often that is so, no more is known of it than which bytes. */
START_TEST(tasks_are_lost_time_and_again)
{
	struct memory_extent *e;
	struct memory_range r;
	uint32_t nr = 0;
	struct look l;

	start(64 * KIB);
	memory_buffer_lazy(buffer[0]);
	for (uint64_t i = 0; i < 20; i++) {
		run(0, range(0, ARAX_OUT, 10 * i, 20), 'n', 1, 1);
		r = range(0, ARAX_OUT, 10 * i, 10);
		ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
		ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
		memory_settle(m, 0, &r, 1, 2);
	}
	l = look_bytes(buffer[0], 0, BYTES);
	for (e = look_first(&l); e; e = look_next(&l, e))
		nr += e->lost;
	ck_assert_uint_eq(nr, 1);
	finish();
}
END_TEST

/* Who has many rows flushed, between which a task is at work, does not take what that has done so far. */
START_TEST(many_rows_about_a_task)
{
	struct memory_range r, many;

	start(64 * KIB);
	memory_buffer_lazy(buffer[0]);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'n', 1, 1);
	r = range(0, ARAX_INOUT, 1001, 1);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	at(&r)[0] = 'h';
	many = range(0, ARAX_IN, 0, 1);
	many.stride = 2;
	many.count = BYTES / 2;
	/* As memory_piece() gives all of it. */
	if (_i)
		many = range(0, ARAX_IN, 0, BYTES - 1);
	ck_assert_int_eq(memory_flush(m, &many), 0);
	ck_assert_int_eq(host[0][1000], 'n');
	/* It can't be run again: nobody has what it read. */
	ck_assert(memory_consumes(m, 0, &r, 1));
	fake[0].dead = true;
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ENODEV), -ENODEV);
	memory_settle(m, 0, &r, 1, 2);
	memory_lose(m, 0);
	r = range(0, ARAX_INOUT, 1001, 1);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 3, nobody), -EIO);
	finish();
}
END_TEST

/* It has run, but is told that it has not: nobody has what was there. */
START_TEST(who_is_canceled_late_hides_no_loss)
{
	struct memory_range r;

	start(64 * KIB);
	memory_buffer_lazy(buffer[0]);
	run(0, range(0, ARAX_OUT, 0, 100), 'n', 1, 1);
	r = range(0, ARAX_OUT, 0, 100);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	memset(at(&r), 'h', 100);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -ECANCELED), -ECANCELED);
	memory_settle(m, 0, &r, 1, 2);
	r = range(0, ARAX_IN, 0, 100);
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	finish();
}
END_TEST

/* Who only writes over what is lost has nothing to wait for, unless he can't tell it from what lies beside it. */
START_TEST(what_is_lost_is_nothing_to_who_writes)
{
	static const uint32_t access[] = { ARAX_OUT, ARAX_INOUT, ARAX_IN };
	struct memory_range r, part, many;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'n', 1, 1);
	fake[0].dead = true;
	memory_lose(m, 0);
	for (int i = 0; i < 3; i++) {
		bool needed = access[i] & ARAX_IN;

		r = range(0, access[i], 0, BYTES);
		ck_assert(memory_is_dirty(m, &r) == needed);
		part = range(0, access[i], 0, 10);
		part.stride = 100;
		part.count = 20;
		ck_assert(memory_is_dirty(m, &part) == needed);
		many = range(0, access[i], 0, 1);
		many.stride = 2;
		many.count = MEMORY_MAX_ROWS + 1;
		ck_assert(memory_is_dirty(m, &many));
	}
	/* But if others of its bytes are to be had. */
	run(1, range(0, ARAX_OUT, 100, 10), 'k', 2, 2);
	r = range(0, ARAX_OUT, 0, BYTES);
	part.access = ARAX_OUT;
	ck_assert(memory_is_dirty(m, &r));
	ck_assert(memory_is_dirty(m, &part));
	ck_assert_int_eq(memory_flush(m, &part), 0);
	ck_assert(!memory_is_dirty(m, &part));
	ck_assert_uint_eq(part.moved, 10);
	finish();
}
END_TEST

/* Nor does one at the host that failed, or was not even begun; but of what else there is nothing is trusted. */
START_TEST(who_fails_at_the_host_hides_no_loss)
{
	struct memory_range r, lost;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_IN, 0, 200), 0, 1, 1);
	run(0, range(0, ARAX_OUT, 0, 100), 'n', 1, 1);
	run(1, range(0, ARAX_IN, 100, 100), 0, 1, 1);
	fake[0].dead = true;
	memory_lose(m, 0);
	memory_host_failed(m, buffer[0], 0, 200, 0, 1);
	lost = range(0, ARAX_IN, 0, 100);
	ck_assert_int_eq(memory_flush(m, &lost), -EIO);
	host[0][100] = 'h';
	r = range(0, ARAX_IN, 100, 100);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 2, nobody), 0);
	ck_assert_int_eq(at(&r)[0], 'h');
	ck_assert_int_eq(memory_leave(m, 1, 0, &r, 1, 0), 0);
	memory_settle(m, 1, &r, 1, 2);
	memory_host_wrote(m, buffer[0], 0, 200, 0, 1);
	ck_assert_int_eq(memory_flush(m, &lost), 0);
	finish();
}
END_TEST

static struct memory_range wanted[4];

static void *enter_peer(void *arg)
{
	struct memory_range *r = arg;
	uint32_t device = (uint32_t)(r - wanted);

	return (void *)(intptr_t)memory_enter(m, device, 0, r, 1, 2, nobody);
}

/*
 * Three want what one has: its link carries one copy at a time, and who has got it has it for
 * others.
 */
START_TEST(one_copy_at_a_time_from_a_peer)
{
	static struct fake_device more[2];
	struct fake_device *of[4] = { &fake[0], &fake[1], &more[0], &more[1] };
	pthread_t thread[4];
	int lends = 0;
	void *err;

	memset(more, 0, sizeof(more));
	start_peers();
	for (uint32_t i = 0; i < 4; i++) {
		if (i >= 2)
			ck_assert_int_eq(memory_add_device(m, i, &fake_peer_ops, of[i], 64 * KIB), 0);
		of[i]->meets = true;
		wanted[i] = range(0, ARAX_IN, 0, BYTES);
	}
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	ck_assert(memory_holds(m, 0, &wanted[0], 2) && !memory_holds(m, MEMORY_HOST, &wanted[0], 2));
	for (int i = 1; i < 4; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, enter_peer, &wanted[i]), 0);
	for (int i = 1; i < 4; i++) {
		pthread_join(thread[i], &err);
		ck_assert_int_eq((intptr_t)err, 0);
		ck_assert_int_eq(at(&wanted[i])[7], 'x');
		ck_assert_int_eq(of[i]->peer_copies, 1);
	}
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_le(of[i]->lent_most, 1);
		lends += of[i]->lends;
	}
	ck_assert_int_eq(lends, 3);
	/* The second one went from there, and the third from whom that had come to. */
	ck_assert_int_eq(of[0]->lends, 2);
	for (uint32_t i = 1; i < 4; i++) {
		ck_assert_int_eq(memory_leave(m, i, 0, &wanted[i], 1, 0), 0);
		memory_settle(m, i, &wanted[i], 1, 9);
	}
	finish();
}
END_TEST

START_TEST(copies_from_peers_are_estimated)
{
	struct memory_link link;
	struct memory_range r;
	uint64_t ns, all;

	start_peers();
	r = range(0, ARAX_IN, 0, 1000);
	run(0, range(0, ARAX_OUT, 0, 1000), 'x', 1, 1);
	memory_set_rates(m, 0, 0, 1, 0, 2);
	memory_set_rates(m, 1, 0, 4, 0, 8);
	ck_assert(memory_link(m, 1, &link));
	ck_assert(link.in_byte_ns == 4 && link.out_byte_ns == 8 && link.peers == &fake_ops);
	ck_assert(!memory_link(m, 2, &link));
	ck_assert(memory_holds(m, 0, &r, 2) && !memory_holds(m, 1, &r, 2));
	ck_assert(!memory_holds(m, MEMORY_HOST, &r, 2));
	ck_assert_uint_eq(memory_transfer_ns(m, 1, &r, 1, 2), 4000);
	ck_assert_uint_eq(memory_reach_ns(m, 1, &r, 1, 2, false), 4000);
	ck_assert_uint_eq(memory_reach_ns(m, 1, &r, 1, 2, true), 4000);
	memory_way(m, 1, &r, 1, 2, &ns, &all);
	ck_assert_uint_eq(ns, 4000);
	/* Half of it is at the host alone. */
	r.length = 2000;
	ck_assert(!memory_holds(m, 0, &r, 2) && !memory_holds(m, MEMORY_HOST, &r, 2));
	r.offset = 1000;
	r.length = 1000;
	ck_assert(!memory_holds(m, 0, &r, 2) && memory_holds(m, MEMORY_HOST, &r, 2));
	r.offset = 0;
	r.length = 2000;
	ck_assert_uint_eq(memory_transfer_ns(m, 1, &r, 1, 2), 8000);
	fake[1].strange = 1;
	run(1, range(0, ARAX_IN, 0, 10), 0, 3, 3);
	run(0, range(0, ARAX_OUT, 0, 1000), 'x', 4, 4);
	memory_set_rates(m, 0, 0, 1, 0, 2);
	memory_set_rates(m, 1, 0, 4, 0, 8);
	r.length = 1000;
	ck_assert_uint_eq(memory_transfer_ns(m, 1, &r, 1, 5), 4000 + 2000);
	ck_assert_uint_eq(memory_reach_ns(m, 1, &r, 1, 5, false), 4000 + 2000);
	finish();
}
END_TEST

/* Each link has its own rate, and what nobody knows of one is not taken for known. */
START_TEST(each_link_has_its_rate)
{
	double latency, byte;
	struct memory_range r;

	start_peers();
	ck_assert(!memory_rate(m, 1, MEMORY_HOST, &latency, &byte));
	ck_assert(!memory_rate(m, 1, 0, &latency, &byte));
	ck_assert(!memory_set_rate(m, 1, 1, 0, 1) && !memory_set_rate(m, 1, 2, 0, 1));
	ck_assert(!memory_set_rate(m, 3, 0, 0, 1) && !memory_set_rate(m, MEMORY_HOST, 2, 0, 1));
	ck_assert(!memory_set_rate(m, MEMORY_HOST, MEMORY_HOST, 0, 1));
	memory_set_rates(m, 0, 0, 1, 0, 2);
	memory_set_rates(m, 1, 0, 4, 0, 8);
	ck_assert(memory_rate(m, MEMORY_HOST, 1, &latency, &byte) && byte == 8);
	/* As it would be from the host, until it is known. */
	r = range(0, ARAX_IN, 0, 1000);
	run(0, range(0, ARAX_OUT, 0, 1000), 'x', 1, 1);
	ck_assert_uint_eq(memory_transfer_ns(m, 1, &r, 1, 2), 4000);
	ck_assert(!memory_rate(m, 1, 0, &latency, &byte));
	ck_assert(memory_set_rate(m, 1, 0, 500, .5));
	ck_assert(memory_set_rate(m, 0, 1, 0, 100));
	ck_assert(memory_set_rate(m, 1, MEMORY_HOST, 0, 40));
	ck_assert_uint_eq(memory_transfer_ns(m, 1, &r, 1, 2), 1000);
	ck_assert_uint_eq(memory_reach_ns(m, 1, &r, 1, 2, false), 1000);
	ck_assert(memory_rate(m, 1, 0, &latency, &byte) && latency == 500 && byte == .5);
	/* A copy of so few bytes teaches the latency of this link, and of no other. */
	ck_assert(memory_set_rate(m, 1, 0, 1e15, .5));
	run(1, range(0, ARAX_IN, 0, 1000), 0, 3, 3);
	ck_assert(memory_rate(m, 1, 0, &latency, &byte) && latency < 1e15 && byte == .5);
	ck_assert(memory_rate(m, 0, 1, &latency, &byte) && latency == 0 && byte == 100);
	ck_assert(memory_rate(m, 1, MEMORY_HOST, &latency, &byte) && latency == 0 && byte == 40);
	finish();
}
END_TEST

/* Two extents of one device: what one has, the other gets by the host as well. */
START_TEST(lazy_extents_that_overlap)
{
	start_lazy(40 * KIB);
	run(0, range(0, ARAX_INOUT, 1000, 2000), 'x', 1, 1);
	run(0, range(0, ARAX_INOUT, 2000, 9000), 'y', 2, 2);
	expect_byte(0, 0, 1999, 'x');
	expect_byte(0, 0, 2000, 'y');
	expect_byte(1, 0, 1000, 'x');
	ck_assert_int_eq(memory_check(m), 0);
	finish();
}
END_TEST

START_TEST(who_has_to_go_is_saved)
{
	struct memory_range r;

	start_lazy(BYTES + 100);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	run(0, range(1, ARAX_INOUT, 0, BYTES), 'y', 2, 2);
	ck_assert_uint_eq(copied_out(0), BYTES);
	ck_assert_int_eq(host[0][77], 'x');
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 3, 3);
	ck_assert_int_eq(host[1][77], 'y');
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert(!memory_is_dirty(m, &r));
	finish();
}
END_TEST

/* Another one goes, so nobody else fails, and it is not asked again and again. */
START_TEST(who_cannot_be_saved_stays)
{
	struct memory_range r = { 0 };

	start_lazy(2 * BYTES + 100);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	run(0, range(1, ARAX_IN, 0, BYTES), 0, 2, 2);
	fake[0].fail_out = 100;
	for (uint64_t i = 0; i < 10; i++)
		run(0, range(2 - i % 2, ARAX_IN, 0, BYTES), 0, 3 + i, 3 + i);
	ck_assert_int_ge(fake[0].fail_out, 99);
	/* If nothing else can it is. */
	r = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 20, nobody), 0);
	fake[0].fail_out = 0;
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 21, 21);
	ck_assert_int_eq(host[0][0], 'x');
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 22);
	finish();
}
END_TEST

/* Nor do others fail by that: what is in use for now is waited for. */
START_TEST(who_cannot_be_saved_fails_nobody)
{
	struct memory_range r, other, both[2];

	start_lazy(2 * BYTES + 100);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	r = range(1, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	fake[0].fail_out = 100;
	for (int i = 0; i < 2; i++) {
		other = range(2, ARAX_IN, 0, BYTES);
		ck_assert_int_eq(memory_try_enter(m, 0, 0, &other, 1, 3, nobody), -EAGAIN);
	}
	/* But beside that there would never be room for both. */
	both[0] = range(2, ARAX_IN, 0, BYTES);
	both[1] = range(3, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_try_enter(m, 0, 0, both, 2, 3, nobody), -EIO);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 3);
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 4, 4);
	ck_assert_int_eq(memory_check(m), 0);
	fake[0].fail_out = 0;
	expect_byte(0, 0, 9, 'x');
	finish();
}
END_TEST

/* What has been written over elsewhere need not be saved, so it can go, whoever else can't. */
START_TEST(who_need_not_be_saved_goes)
{
	struct memory_range r;

	start_lazy(2 * BYTES + 100);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	run(0, range(1, ARAX_OUT, 0, BYTES), 'y', 2, 2);
	fake[0].fail_out = 100;
	r = range(2, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 3, nobody), -EIO);
	ck_assert_int_eq(fake[0].fail_out, 98);
	/* A part of it is not enough. */
	memory_host_wrote(m, buffer[_i], 0, BYTES / 2, 0, 1);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 4, nobody), -EIO);
	memory_host_wrote(m, buffer[_i], BYTES / 2, BYTES / 2, 0, 1);
	memset(host[_i], 'z', BYTES);
	ck_assert_int_eq(memory_check(m), 0);
	run(0, range(2, ARAX_IN, 0, BYTES), 0, 5, 5);
	ck_assert_int_eq(memory_check(m), 0);
	fake[0].fail_out = 0;
	expect_byte(0, (unsigned int)_i, 9, 'z');
	expect_byte(0, !_i, 9, _i ? 'x' : 'y');
	finish();
}
END_TEST

/* Nor has a task need of more room for what can't be saved if it is its own. */
START_TEST(its_own_that_cannot_be_saved_is_there)
{
	struct memory_range r, both[3];

	start_lazy(3 * BYTES + 100);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	run(0, range(1, ARAX_OUT, 0, BYTES), 'y', 2, 2);
	r = range(2, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 3, nobody), 0);
	fake[0].fail_out = 100;
	for (int i = 0; i < 2; i++) {
		both[i] = range(0, ARAX_IN, 0, BYTES);
		both[!i] = range(3, ARAX_IN, 0, BYTES);
		both[2] = range(0, ARAX_IN, 0, BYTES / 2);
		ck_assert_int_eq(memory_try_enter(m, 0, 0, both, 3, 4, nobody), -EAGAIN);
	}
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 4);
	ck_assert_int_eq(memory_enter(m, 0, 0, both, 3, 5, nobody), 0);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, both, 3, 0), 0);
	memory_settle(m, 0, both, 3, 6);
	fake[0].fail_out = 0;
	finish();
}
END_TEST

/* A copy back that fails loses nothing: not where it was wanted, not where room was. */
START_TEST(a_failed_flush_loses_nothing)
{
	struct memory_range r, other;

	start_lazy(BYTES + 100);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	r = range(0, ARAX_IN, 0, BYTES);
	fake[0].fail_out = 1;
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	ck_assert(memory_is_dirty(m, &r));
	other = range(1, ARAX_IN, 0, BYTES);
	fake[0].fail_out = 1;
	ck_assert_int_eq(memory_enter(m, 0, 0, &other, 1, 2, nobody), -EIO);
	ck_assert_int_eq(memory_check(m), 0);
	expect_byte(0, 0, 9, 'x');
	/* Its reader on another device fails as well, and the next one does not. */
	fake[0].fail_out = 1;
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 3, nobody), -EIO);
	expect_byte(1, 0, 9, 'x');
	finish();
}
END_TEST

/* However often that is, it is said once in a while. */
START_TEST(few_words_are_made_of_it)
{
	uint64_t began = wait_now_ns(), lines = 0;
	int fd = memfd_create("log", MFD_CLOEXEC);
	struct memory_range r;
	char c;

	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	start_lazy(BYTES + 100);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	r = range(0, ARAX_IN, 0, BYTES);
	fake[0].fail_out = 1000;
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(memory_flush(m, &r), -EIO);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	while (read(fd, &c, 1) == 1)
		lines += c == '\n';
	ck_assert_uint_le(lines, 1 + (wait_now_ns() - began) / 1000000000u);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	log_init(STDERR_FILENO, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	close(fd);
	finish();
}
END_TEST

/* No byte of anything else, and nothing that is dirty for ever. */
START_TEST(a_failed_lazy_task_leaves_its_buffer)
{
	struct memory_range r;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_INOUT, 0, BYTES), 'x', 1, 1);
	r = range(0, ARAX_INOUT, 0, 100);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 2, nobody), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, -EFAULT), -EFAULT);
	memory_settle(m, 0, &r, 1, 2);
	ck_assert(!memory_is_dirty(m, &r));
	expect_byte(0, 0, 100, 'x');
	ck_assert_int_eq(memory_check(m), 0);
	finish();
}
END_TEST

/* What it is to be dropped for may be done elsewhere. */
START_TEST(a_lost_device_says_so)
{
	start_lazy(64 * KIB);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	fake[0].fail_out = 1;
	ck_assert_int_eq(memory_drop(m, 0), -EIO);
	fake[0].dead = true;
	ck_assert_int_eq(memory_drop(m, 0), -ENODEV);
	fake[0].dead = false;
	ck_assert_int_eq(memory_drop(m, 0), 0);
	ck_assert_int_eq(host[0][0], 'x');
	finish();
}
END_TEST

/* A rebuilt device has nothing of before; what nobody has is not had until it is written. */
START_TEST(a_lost_device_is_empty)
{
	struct memory_range r;
	struct memory_stats s;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_INOUT, 0, 1000), 'x', 1, 1);
	run(0, range(1, ARAX_INOUT, 0, BYTES), 'y', 2, 2);
	run(0, range(2, ARAX_INOUT, 0, BYTES), 'z', 3, 3);
	fake[0].fail_out = 2;
	memory_lose(m, 0);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.used, 0);
	ck_assert_uint_eq(fake[0].allocations, 0);
	ck_assert_int_eq(memory_check(m), 0);
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 4, nobody), -EIO);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 4, nobody), -EIO);
	expect_byte(0, 0, 1000, 'a');
	expect_byte(0, 2, 0, 'z');
	/* Written where there is an extent, or by the host. */
	memory_host_wrote(m, buffer[0], 0, 900, 0, 1);
	r = range(0, ARAX_INOUT, 900, 100);
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 5, nobody), -EIO);
	run(1, range(0, ARAX_OUT, 900, 100), 'v', 6, 6);
	expect_byte(0, 0, 950, 'v');
	r = range(0, ARAX_IN, 0, BYTES);
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_int_eq(host[0][999], 'v');
	finish();
}
END_TEST

/*
 * What a device took with it is not needed by who writes it anew, all of it or a part, at the
 * host or elsewhere; it is known as lost already (@_i), or the device has not been given up yet.
 */
START_TEST(lost_bytes_are_written_anew)
{
	struct memory_range all, half, r;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	fake[0].dead = true;
	if (_i)
		memory_lose(m, 0);
	all = range(0, ARAX_IN, 0, BYTES);
	half = range(0, ARAX_OUT, 0, BYTES / 2);
	ck_assert_int_eq(memory_flush(m, &all), -EIO);
	all.access = ARAX_INOUT;
	ck_assert_int_eq(memory_flush(m, &all), -EIO);
	/* Half of it by the host: the other half is as lost as it was. */
	ck_assert_int_eq(memory_flush(m, &half), 0);
	ck_assert_int_eq(memory_flush(m, &all), -EIO);
	memset(host[0], 'h', BYTES / 2);
	memory_host_wrote(m, buffer[0], 0, BYTES / 2, 0, 1);
	half.access = ARAX_IN;
	ck_assert_int_eq(memory_flush(m, &half), 0);
	ck_assert_int_eq(memory_flush(m, &all), -EIO);
	r = range(0, ARAX_IN, BYTES / 2 - 10, 20);
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, 2, nobody), -EIO);
	/* Rows of it on another device: what lies between them is lost still. */
	r = range(0, ARAX_OUT, BYTES / 2, 10);
	r.stride = 20;
	r.count = 3;
	run(1, r, 'r', 3, 3);
	expect_byte(1, 0, BYTES / 2 + 9, 'r');
	r = range(0, ARAX_IN, BYTES / 2 + 10, 10);
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	/* And the rest. */
	run(1, range(0, ARAX_OUT, BYTES / 2 + 10, BYTES / 2 - 10), 'y', 4, 4);
	all.access = ARAX_IN;
	ck_assert_int_eq(memory_flush(m, &all), 0);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(host[0][0], 'h');
	ck_assert_int_eq(host[0][BYTES / 2 + 9], 'r');
	ck_assert_int_eq(host[0][BYTES - 1], 'y');
	finish();
}
END_TEST

/* Who is to write many rows is told that he reads: between them nothing could be told apart. */
START_TEST(many_rows_of_lost_bytes)
{
	struct memory_range r;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_OUT, 0, BYTES), 'x', 1, 1);
	fake[0].fail_out = 1;
	memory_lose(m, 0);
	r = range(0, ARAX_OUT, 0, 0);
	r.length = 1;
	r.stride = 2;
	r.count = MEMORY_MAX_ROWS + 1;
	ck_assert_int_eq(memory_flush(m, &r), -EIO);
	finish();
}
END_TEST

#define ROWS	2048u
#define STEP	2048u	/* large enough for as many pieces as there may be of any extent */
#define WIDE	(STEP * ROWS)

/*
 * Of a buffer that is written piece by piece nothing is known in the end but what has to be, and
 * what a task uses still.
 */
START_TEST(too_many_pieces_are_forgotten)
{
	static uint8_t wide[WIDE], want[WIDE];
	struct memory_range all = { .offset = 0, .length = WIDE, .count = 1, .access = ARAX_IN };
	bool lazy = _i & 1, pinned = _i & 2;
	struct memory_range r, pin;

	start(16 * WIDE);
	memset(wide, 'h', sizeof(wide));
	for (unsigned int i = 0; i < WIDE; i++)
		want[i] = i % STEP % 4 || i % STEP >= 12 ? 'h' : 'x';
	all.buffer = memory_buffer_create(m, wide, WIDE);
	if (lazy)
		memory_buffer_lazy(all.buffer);
	pin = all;
	pin.offset = WIDE - 1;
	pin.length = 1;
	if (pinned)
		ck_assert_int_eq(memory_enter(m, 0, 1, &pin, 1, 0, nobody), 0);
	for (unsigned int k = 0; k < 3; k++) {
		r = all;
		r.access = ARAX_INOUT;
		r.offset = 4 * k;
		r.length = 1;
		r.stride = STEP;
		r.count = ROWS;
		ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, k, nobody), 0);
		for (unsigned int i = 0; i < ROWS; i++)
			at(&r)[STEP * i] = 'x';
		ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
		memory_settle(m, 0, &r, 1, 10);
		ck_assert_int_eq(memory_check(m), 0);
		ck_assert_uint_eq(memory_resident(m, 0, &all, 1, 9),
				  (k < 2 || lazy ? (k + 1) * ROWS : 0) + pinned);
	}
	if (pinned) {
		ck_assert_int_eq(*at(&pin), 'h');
		ck_assert_int_eq(memory_leave(m, 0, 1, &pin, 1, 0), 0);
		memory_settle(m, 0, &pin, 1, 10);
	}
	for (unsigned int device = 0; device < 2; device++) {
		ck_assert_int_eq(memory_enter(m, device, 0, &all, 1, 11, nobody), 0);
		ck_assert_int_eq(memcmp(at(&all), want, WIDE), 0);
		ck_assert_int_eq(memory_leave(m, device, 0, &all, 1, 0), 0);
		memory_settle(m, device, &all, 1, 11);
	}
	memory_buffer_gone(m, all.buffer);
	finish();
}
END_TEST

/* A task on the host may have any number of rows; what lies between them is not its own. */
START_TEST(many_rows_on_the_host)
{
	struct memory_range r;

	start_lazy(64 * KIB);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 1);
	run(0, range(0, ARAX_OUT, 1001, 1), 'x', 2, 2);
	r = range(0, ARAX_OUT, 0, 1);
	r.stride = 2;
	r.count = BYTES / 2;
	ck_assert_int_eq(memory_flush(m, &r), 0);
	ck_assert_int_eq(host[0][1001], 'x');
	run(0, range(0, ARAX_OUT, 1001, 1), 'y', 3, 3);
	for (unsigned int i = 0; i < BYTES; i += 2)
		host[0][i] = 'w';
	memory_host_wrote(m, buffer[0], r.offset, r.length, r.stride, r.count);
	ck_assert_int_eq(memory_check(m), 0);
	expect_byte(0, 0, 1000, 'w');
	expect_byte(0, 0, 1001, 'y');
	expect_byte(0, 0, 1003, 'a');
	expect_byte(1, 0, 1001, 'y');
	finish();
}
END_TEST

/* Who can't be run again, as it has written where its input was, and that nowhere else. */
START_TEST(what_a_lazy_task_consumes)
{
	struct memory_range r[2];

	start_lazy(64 * KIB);
	r[0] = range(0, ARAX_INOUT, 0, BYTES);
	r[1] = range(2, ARAX_INOUT, 0, BYTES);
	ck_assert(!memory_consumes(m, 0, r, 2));
	run(0, range(0, ARAX_OUT, 500, 100), 'x', 1, 1);
	ck_assert(memory_consumes(m, 0, r, 2));
	/* Where another device has it that one isn't lost. */
	ck_assert(!memory_consumes(m, 1, r, 2));
	/* By another range, but not where it reads. */
	r[0] = range(0, ARAX_IN, 0, BYTES);
	r[1] = range(0, ARAX_OUT, 599, 10);
	ck_assert(memory_consumes(m, 0, r, 2));
	r[1].offset = 600;
	ck_assert(!memory_consumes(m, 0, r, 2));
	ck_assert(!memory_consumes(m, 0, &r[0], 1));
	r[0] = range(0, ARAX_OUT, 0, BYTES);
	ck_assert(!memory_consumes(m, 0, r, 1));
	/* The host has it. */
	ck_assert_int_eq(memory_flush(m, r), 0);
	r[0].access = ARAX_INOUT;
	ck_assert(!memory_consumes(m, 0, r, 1));
	finish();
}
END_TEST

/* What several ranges have is there once. */
START_TEST(shared_bytes_count_once)
{
	struct memory_range r[4];

	start(64 * KIB);
	r[0] = range(0, ARAX_IN, 0, 100);
	r[1] = range(0, ARAX_IN, 200, 100);
	r[2] = range(1, ARAX_IN, 0, 100);
	ck_assert_uint_eq(memory_bytes(r, 3), 300);
	/* By way of a third one they are together. */
	r[3] = range(0, ARAX_OUT, 50, 200);
	ck_assert_uint_eq(memory_bytes(r, 4), 400);
	r[3] = range(0, ARAX_OUT, 100, 100);
	ck_assert_uint_eq(memory_bytes(r, 4), 400);
	r[3] = r[2];
	ck_assert_uint_eq(memory_bytes(r, 4), 300);
	r[3].stride = 1000;
	r[3].count = 3;
	ck_assert_uint_eq(memory_bytes(r, 4), 200 + 2100);
	ck_assert_uint_eq(memory_bytes(r, 0), 0);
	finish();
}
END_TEST

/* A host's task may have as many rows as it likes, and is asked for in each plan. */
START_TEST(rows_without_end_are_estimated)
{
	struct memory_range r = { .length = 1, .stride = 2, .count = UINT32_MAX, .access = ARAX_IN };
	struct memory_range here;

	start(64 * KIB);
	memory_set_rates(m, 0, 0, 1, 0, 1);
	here = range(0, ARAX_IN, 0, 1);
	/* One by one they would take more than an hour. */
	for (int i = 0; i < 1000; i++)
		ck_assert_uint_eq(memory_transfer_ns(m, 0, &r, 1, 1), UINT32_MAX);
	here.stride = 2;
	here.count = MEMORY_MAX_ROWS + 1;
	ck_assert_uint_eq(memory_transfer_ns(m, 0, &here, 1, 1), MEMORY_MAX_ROWS + 1);
	run(0, range(0, ARAX_IN, 0, BYTES), 0, 1, 1);
	memory_set_rates(m, 0, 0, 1, 0, 1);
	ck_assert_uint_eq(memory_transfer_ns(m, 0, &here, 1, 1), 0);
	finish();
}
END_TEST

START_TEST(lazy_transfers_are_estimated)
{
	struct memory_range r[2];
	uint64_t ns, all;

	start_lazy(64 * KIB);
	memory_set_rates(m, 0, 0, 1, 0, 2);
	memory_set_rates(m, 1, 0, 4, 0, 8);
	r[0] = range(0, ARAX_IN, 0, 1000);
	r[1] = range(1, ARAX_OUT, 0, 1000);
	ck_assert_uint_eq(memory_transfer_ns(m, 1, r, 2, 1), 4000);
	run(0, range(0, ARAX_OUT, 0, 1000), 'x', 1, 1);
	memory_set_rates(m, 0, 0, 1, 0, 2);
	ck_assert_uint_eq(memory_transfer_ns(m, 0, r, 2, 2), 0);
	ck_assert_uint_eq(memory_transfer_ns(m, 1, r, 2, 2), 4000 + 2000);
	ck_assert_uint_eq(memory_dirty(m, r, 2, &ns), 1000);
	ck_assert_uint_eq(ns, 2000);
	/* What is near is on the other device; all of it stays on devices. */
	memory_way(m, 1, r, 2, 2, &ns, &all);
	ck_assert_uint_eq(ns, 4000 + 2000);
	ck_assert_uint_eq(all, 8000);
	memory_way(m, 0, r, 2, 2, &ns, &all);
	ck_assert_uint_eq(ns, 0);
	memory_way(m, 2, r, 2, 2, &ns, &all);
	ck_assert_uint_eq(ns, 2000);
	ck_assert_uint_eq(all, 0);
	/* A plain buffer's copies are no reason to stay, once they are not trusted. */
	r[0] = range(2, ARAX_IN, 0, 1000);
	run(0, range(2, ARAX_IN, 0, 1000), 0, 3, 3);
	memory_set_rates(m, 0, 0, 1, 0, 2);
	memory_way(m, 1, r, 1, 3, &ns, &all);
	ck_assert_uint_eq(ns, 4000);
	memory_way(m, 1, r, 1, 4, &ns, &all);
	ck_assert_uint_eq(ns, 0);
	ck_assert_uint_eq(all, 0);
	finish();
}
END_TEST

START_TEST(transfers_are_estimated)
{
	struct memory_range r;
	uint64_t before;

	start(64 * KIB);
	r = range(0, ARAX_IN, 0, BYTES);
	before = memory_transfer_ns(m, 0, &r, 1, 1);
	ck_assert_uint_gt(before, 0);
	run(0, r, 0, 1, 9);
	ck_assert_uint_eq(memory_transfer_ns(m, 0, &r, 1, 2), 0);
	ck_assert_uint_gt(memory_transfer_ns(m, 0, &r, 1, 10), 0);
	ck_assert_uint_gt(memory_transfer_ns(m, 1, &r, 1, 2), 0);
	finish();
}
END_TEST

static void *have_lock(void *had)
{
	memory_lock(m);
	*(bool *)had = true;
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

/* Who has much to do lets go of the lock so that it is another's, and not at once its own again. */
START_TEST(who_waits_has_the_lock)
{
	pthread_t thread;
	bool had = false;

	start(64 * KIB);
	memory_lock(m);
	ck_assert(!memory_let_others(m));
	ck_assert_int_eq(pthread_create(&thread, NULL, have_lock, &had), 0);
	while (!__atomic_load_n(&m->waiting, __ATOMIC_RELAXED))
		usleep(100);
	ck_assert(!had);
	ck_assert(memory_let_others(m));
	ck_assert(had);
	ck_assert(!memory_let_others(m));
	pthread_mutex_unlock(&m->lock);
	pthread_join(thread, NULL);
	finish();
}
END_TEST

#define PIECE	64u
#define PIECES	4096u

/* No task, and no question, looks at more than a few of a buffer's pieces for each of its own. */
START_TEST(many_pieces_are_found_quickly)
{
	static uint8_t wide[PIECES * PIECE];
	struct memory_range r = { .length = PIECE, .count = 1, .access = ARAX_INOUT };
	uint64_t steps, ns;

	start(4 * sizeof(wide));
	r.buffer = memory_buffer_create(m, wide, sizeof(wide));
	memory_buffer_lazy(r.buffer);
	for (unsigned int i = 0; i < PIECES; i++) {
		r.offset = i * PIECE;
		run(0, r, 'x', i, i);
	}
	steps = memory_steps(m, r.buffer);
	ck_assert_uint_lt(steps, 100 * PIECES);
	for (unsigned int i = 0; i < 64; i++) {
		r.offset = (i * 37 % PIECES) * PIECE;
		ck_assert(memory_is_dirty(m, &r));
		ck_assert(memory_consumes(m, 0, &r, 1));
		ck_assert(memory_holds(m, 0, &r, PIECES));
		ck_assert(!memory_holds(m, MEMORY_HOST, &r, PIECES));
		ck_assert_uint_eq(memory_dirty(m, &r, 1, &ns), PIECE);
		ck_assert_uint_gt(memory_reach_ns(m, 1, &r, 1, PIECES, false), 0);
		ck_assert_uint_gt(memory_transfer_ns(m, 1, &r, 1, PIECES), 0);
		run(0, r, 'y', PIECES, PIECES);
	}
	ck_assert_uint_lt(memory_steps(m, r.buffer) - steps, 64 * 500);
	/* Many rows, each of which is in one of them or two. */
	steps = memory_steps(m, r.buffer);
	r.offset = 3 * PIECE / 4;
	r.length = PIECE / 2;
	r.stride = 4 * PIECE;
	r.count = PIECES / 4 - 1;
	ck_assert_int_eq(memory_enter(m, 1, 0, &r, 1, PIECES, nobody), 0);
	for (unsigned int i = 0; i < r.count; i++)
		memset(at(&r) + i * r.stride, 'z', r.length);
	ck_assert_int_eq(memory_leave(m, 1, 0, &r, 1, 0), 0);
	memory_settle(m, 1, &r, 1, PIECES);
	memory_host_wrote(m, r.buffer, r.offset, r.length, r.stride, r.count);
	ck_assert_uint_lt(memory_steps(m, r.buffer) - steps, 200 * r.count);
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert(!memory_holds(m, 0, &r, PIECES));
	memory_buffer_gone(m, r.buffer);
	finish();
}
END_TEST

static void steps_of(unsigned int i, uint64_t seq, struct memory_range *r, bool used)
{
	struct memory_range use = *r;

	use.offset = i * PIECE;
	r->offset = use.offset;
	memory_will_use(m, &use, 1, seq);
	run(0, *r, 0, seq, seq);
	if (used)
		memory_has_used(m, &use, 1, seq);
}

/* Nor does who has to make room: whether nothing is known of uses, or of some, or of all pieces. */
START_TEST(who_goes_is_found_quickly)
{
	static uint8_t wide[2 * PIECES * PIECE];
	struct memory_range r = { .length = PIECE, .count = 1, .access = ARAX_IN }, all;
	uint64_t steps, seq = 0;
	struct memory_stats s;

	start(sizeof(wide) / 2);
	r.buffer = memory_buffer_create(m, wide, sizeof(wide));
	all = r;
	all.length = sizeof(wide);
	for (unsigned int i = 0; i < 2 * PIECES; i++) {
		r.offset = i * PIECE;
		run(0, r, 0, seq, seq);
		seq++;
	}
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.evictions, PIECES);
	ck_assert_int_eq(memory_check(m), 0);
	steps = memory_steps(m, r.buffer);
	ck_assert_uint_lt(steps, 2 * PIECES * 400ull);
	for (unsigned int i = 0; i < PIECES; i++)
		steps_of(i, seq++, &r, i % 2);
	ck_assert_uint_lt(memory_steps(m, r.buffer) - steps, PIECES * 600ull);
	ck_assert_int_eq(memory_check(m), 0);
	/* What is needed by all of them is looked up once for each. */
	memory_will_use(m, &all, 1, seq);
	steps = memory_steps(m, r.buffer);
	for (unsigned int i = 0; i < 64; i++)
		steps_of(PIECES + i, seq + 1 + i, &r, true);
	ck_assert_uint_lt(memory_steps(m, r.buffer) - steps, PIECES * 200ull);
	memory_has_used(m, &all, 1, seq);
	ck_assert_int_eq(memory_check(m), 0);
	memory_forget_uses(m);
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, r.buffer);
	finish();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("memory");
	TCase *c = tcase_create("intervals");
	SRunner *sr;
	int failed;

	tcase_set_tags(c, "one-thread");
	tcase_add_loop_test(c, intervals_like_a_table, 0, 20);
	tcase_add_test(c, neighbours_that_agree_are_one);
	suite_add_tcase(suite, c);
	c = tcase_create("manager");
	/* Under a sanitizer, beside other builds, some take longer than libcheck's 4 s. */
	tcase_set_timeout(c, 60);
	tcase_add_test(c, bad_devices_are_refused);
	tcase_add_test(c, results_reach_the_host);
	tcase_add_test(c, chains_move_data_once);
	tcase_add_test(c, a_device_is_dropped);
	tcase_add_test(c, buffers_are_registered);
	tcase_add_test(c, small_buffers_are_registered_late);
	tcase_add_test(c, readers_side_by_side);
	tcase_add_test(c, the_client_writes_between_tasks);
	tcase_add_test(c, a_timeline_ends_trust);
	tcase_add_test(c, a_write_elsewhere_makes_copies_stale);
	tcase_add_test(c, what_a_kernel_leaves_out_is_the_hosts);
	tcase_add_test(c, strided_results_leave_the_gaps_alone);
	tcase_add_test(c, ranges_that_touch_share_their_bytes);
	tcase_add_test(c, ranges_that_touch_are_not_parted);
	tcase_add_test(c, empty_ranges_have_an_address);
	tcase_add_test(c, the_least_worth_has_to_go);
	tcase_add_test(c, who_is_needed_last_has_to_go);
	tcase_add_test(c, uses_are_a_hint);
	tcase_add_test(c, memory_runs_short);
	tcase_add_test(c, who_comes_takes_the_place);
	tcase_add_test(c, dropped_memory_is_forgotten);
	tcase_add_test(c, memory_with_gaps_is_made_room_in);
	tcase_add_test(c, too_much_is_ENOMEM);
	tcase_add_test(c, a_task_waits_for_room);
	tcase_add_test(c, a_task_waits_for_what_is_freed);
	tcase_add_test(c, what_is_held_is_paid_for);
	tcase_add_loop_test(c, who_stays_pays, 0, 2);
	tcase_add_test(c, who_needs_little_pays_little);
	tcase_add_test(c, one_byte_more_is_EDQUOT);
	tcase_add_test(c, a_failed_copy_pays_nothing);
	tcase_add_test(c, who_tries_does_not_wait);
	tcase_add_test(c, who_is_ready_enters_at_once);
	tcase_add_test(c, who_is_ready_has_no_results_to_bring);
	tcase_add_test(c, who_is_ready_overtakes_nobody);
	tcase_add_test(c, a_task_waits_for_its_quota);
	tcase_add_test(c, who_paid_ends_while_another_is_refused);
	tcase_add_loop_test(c, who_is_in_the_way_ends_meanwhile, 0, 2);
	tcase_add_test(c, a_task_waits_for_its_siblings);
	tcase_add_test(c, nobody_waits_for_ever);
	tcase_add_test(c, copies_that_fail);
	tcase_add_test(c, half_a_task_leaves_no_trust);
	tcase_add_test(c, a_failed_task_changes_nothing);
	tcase_add_test(c, lazy_results_stay);
	tcase_add_test(c, rows_are_not_looked_at_for_long);
	tcase_add_test(c, overwritten_results_are_never_copied);
	tcase_add_test(c, lazy_results_follow_their_readers);
	tcase_add_test(c, lazy_extents_that_overlap);
	tcase_add_test(c, peers_copy_from_each_other);
	tcase_add_test(c, who_is_no_peer_goes_by_the_host);
	tcase_add_test(c, a_peers_copy_outlives_the_device);
	tcase_add_test(c, a_lost_task_leaves_its_input);
	tcase_add_test(c, a_lost_task_hides_no_loss);
	tcase_add_loop_test(c, a_lost_device_that_still_gives, 0, 8);
	tcase_add_test(c, a_lost_task_loses_what_nobody_else_has);
	tcase_add_test(c, a_lost_task_loses_what_it_was_given);
	tcase_add_test(c, tasks_are_lost_time_and_again);
	tcase_add_loop_test(c, many_rows_about_a_task, 0, 2);
	tcase_add_test(c, who_is_canceled_late_hides_no_loss);
	tcase_add_test(c, what_is_lost_is_nothing_to_who_writes);
	tcase_add_test(c, who_fails_at_the_host_hides_no_loss);
	tcase_add_test(c, one_copy_at_a_time_from_a_peer);
	tcase_add_test(c, copies_from_peers_are_estimated);
	tcase_add_test(c, each_link_has_its_rate);
	tcase_add_test(c, who_has_to_go_is_saved);
	tcase_add_test(c, who_cannot_be_saved_stays);
	tcase_add_test(c, who_cannot_be_saved_fails_nobody);
	tcase_add_loop_test(c, who_need_not_be_saved_goes, 0, 2);
	tcase_add_test(c, its_own_that_cannot_be_saved_is_there);
	tcase_add_test(c, a_failed_flush_loses_nothing);
	tcase_add_test(c, few_words_are_made_of_it);
	tcase_add_test(c, a_failed_lazy_task_leaves_its_buffer);
	tcase_add_test(c, a_lost_device_says_so);
	tcase_add_test(c, a_lost_device_is_empty);
	tcase_add_loop_test(c, lost_bytes_are_written_anew, 0, 2);
	tcase_add_test(c, many_rows_of_lost_bytes);
	tcase_add_test(c, many_rows_on_the_host);
	tcase_add_test(c, what_a_lazy_task_consumes);
	tcase_add_test(c, shared_bytes_count_once);
	tcase_add_test(c, rows_without_end_are_estimated);
	tcase_add_test(c, lazy_transfers_are_estimated);
	tcase_add_test(c, transfers_are_estimated);
	tcase_add_test(c, who_waits_has_the_lock);
	suite_add_tcase(suite, c);
	/* Thousands of pieces, moved under TSan. */
	c = tcase_create("pieces");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_tenant_has_a_part_of_the_uses);
	tcase_add_loop_test(c, too_many_pieces_are_forgotten, 0, 4);
	tcase_add_test(c, many_pieces_are_found_quickly);
	tcase_add_test(c, who_goes_is_found_quickly);
	suite_add_tcase(suite, c);
	suite_add_tcase(suite, upcoming_case());
	suite_add_tcase(suite, room_case());
	suite_add_tcase(suite, pieces_case());
	suite_add_tcase(suite, rows_case());
	suite_add_tcase(suite, until_case());
	suite_add_tcase(suite, lost_case());
	suite_add_tcase(suite, anew_case());
	suite_add_tcase(suite, ahead_case());
	suite_add_tcase(suite, behind_case());
	suite_add_tcase(suite, coherence_case());
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? 1 : 0;
}
