// SPDX-License-Identifier: MIT
/* Tasks that enter before those have left which they wait for: see daemon/memory/behind.c. */
#include <errno.h>
#include <string.h>

#include "selftests/unit/memory_fake.h"
#include "uapi/arax.h"

#define BYTES	4096u
#define LAST	9u		/* seq of the task that was added last, if nothing else is said */
#define ANY_NS	UINT64_MAX

static struct memory *m;
static struct fake_device fake[2];
static struct memory_buffer *plain, *lazy;
static uint8_t host[2][BYTES];

static void setup(void)
{
	memset(fake, 0, sizeof(fake));
	ck_assert_int_eq(memory_create(2, &m), 0);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(memory_add_device(m, i, &fake_ops, &fake[i], 64 * BYTES), 0);
	plain = memory_buffer_create(m, host[0], BYTES);
	lazy = memory_buffer_create(m, host[1], BYTES);
	ck_assert(plain && lazy);
	memory_buffer_lazy(lazy);
	memset(host, 'h', sizeof(host));
}

static void teardown(void)
{
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, plain);
	memory_buffer_gone(m, lazy);
	ck_assert_uint_eq(fake[0].allocations + fake[1].allocations, 0);
	memory_destroy(m);
}

static struct memory_range range(struct memory_buffer *b, uint32_t access, uint64_t offset,
				 uint64_t length)
{
	return (struct memory_range){
		.buffer = b, .access = access, .offset = offset, .length = length, .count = 1,
	};
}

static void enter(struct memory_range *r, uint64_t seq)
{
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 1, seq, nobody), 0);
}

static int behind(struct memory_range *r, uint64_t seq)
{
	return memory_enter_behind(m, 0, 0, r, 1, seq, nobody, ANY_NS);
}

/* As a kernel does. */
static void fill(const struct memory_range *r, int byte)
{
	memset((void *)(uintptr_t)r->address, byte, r->length);
}

static void leave(struct memory_range *r, int result)
{
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 1, result), result);
}

static void settle(struct memory_range *r, uint64_t last)
{
	memory_settle(m, 0, r, 1, last);
}

/* That all of @r's bytes on the device are @byte. */
static void has(const struct memory_range *r, int byte)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)r->address;

	for (uint64_t i = 0; i < r->length; i++)
		ck_assert_int_eq(p[i], byte);
}

static uint64_t copied_in(void)
{
	struct memory_stats s;

	memory_query(m, 0, &s);
	return s.copied_in;
}

static uint64_t came_behind(void)
{
	struct memory_stats s;

	memory_query(m, 0, &s);
	return s.behind;
}

/* Of what is about to be written nothing comes from the host, before it or after. */
START_TEST(what_comes_is_there)
{
	struct memory_buffer *b = _i ? lazy : plain;
	struct memory_range writes = range(b, ARAX_OUT, 0, 1000), reads = range(b, ARAX_IN, 0, 1000);
	uint64_t before;

	enter(&writes, 1);
	before = copied_in();
	ck_assert_int_eq(behind(&reads, 2), 0);
	ck_assert_uint_eq(copied_in(), before);
	ck_assert_uint_eq(came_behind(), 1);
	fill(&writes, 'a');
	leave(&writes, 0);
	has(&reads, 'a');
	leave(&reads, 0);
	settle(&writes, LAST);
	settle(&reads, LAST);
	ck_assert_int_eq(host[_i][0], _i ? 'h' : 'a');
	/* Nor for one that comes later. */
	enter(&reads, 3);
	ck_assert_uint_eq(copied_in(), before);
	leave(&reads, 0);
	settle(&reads, LAST);
}
END_TEST

/* The rest of it does, and is what the host has. */
START_TEST(the_rest_is_brought)
{
	struct memory_range writes = range(plain, ARAX_OUT, 100, 100);
	struct memory_range reads = range(plain, ARAX_IN, 0, 1000), head, tail;

	enter(&writes, 1);
	fill(&writes, 'a');
	ck_assert_int_eq(behind(&reads, 2), 0);
	head = tail = reads;
	head.length = 100;
	tail.address += 200;
	tail.length = 800;
	has(&head, 'h');
	has(&writes, 'a');
	has(&tail, 'h');
	leave(&writes, 0);
	leave(&reads, 0);
	settle(&writes, LAST);
	settle(&reads, LAST);
}
END_TEST

/* By rows: what lies between them is not written. */
START_TEST(rows_are_brought_between)
{
	struct memory_range writes = range(plain, ARAX_OUT, 0, 10), reads = range(plain, ARAX_IN, 0, 95);
	const uint8_t *p;

	writes.stride = 20;
	writes.count = 5;
	enter(&writes, 1);
	for (uint32_t i = 0; i < 5; i++)
		memset((void *)(uintptr_t)(writes.address + 20 * i), 'a', 10);
	ck_assert_int_eq(behind(&reads, 2), 0);
	p = (const uint8_t *)(uintptr_t)reads.address;
	for (uint32_t i = 0; i < 95; i++)
		ck_assert_int_eq(p[i], i % 20 < 10 ? 'a' : 'h');
	leave(&writes, 0);
	leave(&reads, 0);
	settle(&writes, LAST);
	settle(&reads, LAST);
}
END_TEST

/* Whose results go to the host must not find another's there when they do. */
START_TEST(results_are_not_written_over)
{
	struct memory_range writes = range(plain, ARAX_OUT, 0, 1000), over = range(plain, ARAX_INOUT, 999, 1);
	struct memory_range beside = range(plain, ARAX_INOUT, 1000, 1);

	enter(&writes, 1);
	ck_assert_int_eq(behind(&over, 2), -EAGAIN);
	ck_assert_int_eq(behind(&beside, 2), 0);
	leave(&beside, 0);
	fill(&writes, 'a');
	leave(&writes, 0);
	/* Not settled yet, but it has left. */
	ck_assert_int_eq(behind(&over, 2), 0);
	has(&over, 'a');
	leave(&over, 0);
	settle(&writes, LAST);
	settle(&beside, LAST);
	settle(&over, LAST);
	/* Those that stay there may. */
	writes = range(lazy, ARAX_OUT, 0, 1000);
	over = range(lazy, ARAX_INOUT, 999, 1);
	enter(&writes, 3);
	ck_assert_int_eq(behind(&over, 4), 0);
	leave(&writes, 0);
	leave(&over, 0);
	settle(&writes, LAST);
	settle(&over, LAST);
}
END_TEST

/*
 * To bring those may fail, and then it was not to run: so one that changes what is only on the device
 * waits for it, whether or not the two have bytes in common; but not for one of another lane.
 */
START_TEST(what_stays_waits_for_what_goes)
{
	struct memory_range writes = range(plain, ARAX_OUT, 0, 1000), stays = range(lazy, ARAX_OUT, 0, 1000);
	struct memory_range reads = range(lazy, ARAX_IN, 2000, 1000);

	enter(&writes, 1);
	ck_assert_int_eq(behind(&reads, 2), 0);
	ck_assert_int_eq(behind(&stays, 3), -EAGAIN);
	ck_assert_int_eq(memory_enter_behind(m, 0, 1, &stays, 1, 3, nobody, ANY_NS), 0);
	leave(&stays, 0);
	settle(&stays, LAST);
	leave(&writes, 0);
	ck_assert_int_eq(behind(&stays, 4), 0);
	leave(&reads, 0);
	leave(&stays, 0);
	settle(&writes, LAST);
	settle(&reads, LAST);
	settle(&stays, LAST);
}
END_TEST

/* A task that only writes gets what was never there all the same. */
START_TEST(too_much_that_was_never_there)
{
	struct memory_range writes = range(plain, ARAX_OUT, 0, BYTES);

	memory_set_rates(m, 0, 1000, 1, 1000, 1);
	ck_assert_int_eq(memory_enter_behind(m, 0, 0, &writes, 1, 1, nobody, 1000), -EAGAIN);
	ck_assert_int_eq(memory_enter_behind(m, 0, 0, &writes, 1, 1, nobody, 1000 + BYTES), 0);
	leave(&writes, 0);
	settle(&writes, LAST);
	ck_assert_int_eq(memory_enter_behind(m, 0, 0, &writes, 1, 2, nobody, 0), 0);
	leave(&writes, 0);
	settle(&writes, LAST);
}
END_TEST

/* What would be looked for row by row, with the lock held, is not. */
START_TEST(many_rows_wait)
{
	struct memory_range rows = range(plain, ARAX_OUT, 0, 8), reads = range(plain, ARAX_IN, 0, BYTES);

	rows.stride = 16;
	rows.count = 65;
	enter(&rows, 1);
	ck_assert_int_eq(behind(&reads, 2), -EAGAIN);
	leave(&rows, 0);
	ck_assert_int_eq(behind(&reads, 2), 0);
	leave(&reads, 0);
	settle(&rows, LAST);
	settle(&reads, LAST);
	rows.access = ARAX_IN;
	ck_assert_int_eq(behind(&rows, 3), -EAGAIN);
}
END_TEST

/* One that is a part of a larger buffer is somewhere else than what reads more of that. */
START_TEST(it_is_looked_for_where_it_is)
{
	static uint8_t large[256 * BYTES];
	struct memory_buffer *b = memory_buffer_create(m, large, sizeof(large));
	struct memory_range writes = range(b, ARAX_OUT, BYTES, BYTES);
	struct memory_range reads = range(b, ARAX_IN, 0, 3 * BYTES);

	enter(&writes, 1);
	ck_assert_int_eq(behind(&reads, 2), -EAGAIN);
	fill(&writes, 'a');
	leave(&writes, 0);
	ck_assert_int_eq(behind(&reads, 2), 0);
	reads.address += BYTES;
	reads.length = BYTES;
	has(&reads, 'a');
	reads.length = 3 * BYTES;
	leave(&reads, 0);
	settle(&writes, LAST);
	settle(&reads, LAST);
	memory_buffer_gone(m, b);
}
END_TEST

/* What is to be brought first may be too much, or be another device's. */
START_TEST(too_much_to_bring)
{
	struct memory_range reads = range(plain, ARAX_IN, 0, BYTES), there = range(lazy, ARAX_OUT, 0, 100);
	struct memory_range elsewhere = range(lazy, ARAX_IN, 0, 100);

	memory_set_rates(m, 0, 1000, 1, 1000, 1);
	ck_assert_int_eq(memory_enter_behind(m, 0, 0, &reads, 1, 1, nobody, 1000), -EAGAIN);
	ck_assert_uint_eq(copied_in(), 0);
	ck_assert_int_eq(memory_enter_behind(m, 0, 0, &reads, 1, 1, nobody, 1000 + BYTES), 0);
	leave(&reads, 0);
	settle(&reads, LAST);
	ck_assert_int_eq(memory_enter(m, 1, 0, &there, 1, 1, nobody), 0);
	fill(&there, 'a');
	ck_assert_int_eq(memory_leave(m, 1, 0, &there, 1, 0), 0);
	memory_settle(m, 1, &there, 1, LAST);
	ck_assert_int_eq(behind(&elsewhere, 2), -EAGAIN);
	enter(&elsewhere, 2);
	has(&elsewhere, 'a');
	leave(&elsewhere, 0);
	settle(&elsewhere, LAST);
}
END_TEST

/*
 * It never comes: then what was there before is as stale as it was, though somebody was in there that
 * read it, and others that came meanwhile.
 */
START_TEST(it_never_comes)
{
	struct memory_range before = range(plain, ARAX_IN, 0, 1000), writes = range(plain, ARAX_OUT, 0, 1000);
	struct memory_range reads = before, another = before, late = before;

	enter(&before, 1);
	leave(&before, 0);
	settle(&before, 1);
	/* The program writes, and adds tasks from 2 on. */
	memset(host[0], 'n', BYTES);
	enter(&writes, 2);
	ck_assert_int_eq(behind(&reads, 3), 0);
	ck_assert_int_eq(behind(&another, 4), 0);
	/* The first one does nothing, and so do those behind it: nobody leaves. */
	settle(&writes, LAST);
	settle(&reads, LAST);
	settle(&another, LAST);
	enter(&late, 5);
	has(&late, 'n');
	leave(&late, 0);
	settle(&late, LAST);
}
END_TEST

/* The same without anybody behind it: a task that was too late, for instance. */
START_TEST(one_that_did_nothing)
{
	struct memory_range before = range(plain, ARAX_IN, 0, 1000), writes = range(plain, ARAX_OUT, 0, 1000);
	struct memory_range late = before;

	enter(&before, 1);
	leave(&before, 0);
	settle(&before, 1);
	memset(host[0], 'n', BYTES);
	enter(&writes, 2);
	settle(&writes, LAST);
	enter(&late, 3);
	has(&late, 'n');
	leave(&late, 0);
	settle(&late, LAST);
}
END_TEST

/* It failed, and who came behind it did nothing: the host has what it had. */
START_TEST(it_fails)
{
	struct memory_range writes = range(plain, ARAX_OUT, 0, 1000), reads = range(plain, ARAX_IN, 0, 1000);

	enter(&writes, 1);
	ck_assert_int_eq(behind(&reads, 2), 0);
	fill(&writes, 'x');
	leave(&writes, -EIO);
	settle(&writes, LAST);
	settle(&reads, LAST);
	enter(&reads, 3);
	has(&reads, 'h');
	leave(&reads, 0);
	settle(&reads, LAST);
}
END_TEST

/*
 * The device is lost with it and with who comes behind it.  What that reads is to be written anew before
 * it is run again: that nobody has it keeps it from nothing.
 */
START_TEST(both_are_lost)
{
	struct memory_range before = range(lazy, ARAX_OUT, 0, 1000), writes = before;
	struct memory_range changes = range(lazy, ARAX_INOUT, 0, 1000);

	enter(&before, 1);
	fill(&before, 'o');
	leave(&before, 0);
	settle(&before, LAST);
	enter(&writes, 2);
	ck_assert(!memory_consumes(m, 0, &writes, 1));
	ck_assert_int_eq(behind(&changes, 3), 0);
	fake[0].dead = true;
	leave(&writes, -ENODEV);
	ck_assert(!memory_consumes(m, 0, &changes, 1));
	leave(&changes, -ENODEV);
	settle(&writes, LAST);
	settle(&changes, LAST);
	memory_lose(m, 0);
	/* As they are, elsewhere. */
	ck_assert_int_eq(memory_enter(m, 1, 0, &writes, 1, 2, nobody), 0);
	fill(&writes, 'a');
	ck_assert_int_eq(memory_leave(m, 1, 0, &writes, 1, 0), 0);
	memory_settle(m, 1, &writes, 1, LAST);
	ck_assert_int_eq(memory_enter(m, 1, 0, &changes, 1, 3, nobody), 0);
	has(&changes, 'a');
	ck_assert_int_eq(memory_leave(m, 1, 0, &changes, 1, 0), 0);
	memory_settle(m, 1, &changes, 1, LAST);
}
END_TEST

TCase *behind_case(void)
{
	TCase *c = tcase_create("behind");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, what_comes_is_there, 0, 2);
	tcase_add_test(c, the_rest_is_brought);
	tcase_add_test(c, rows_are_brought_between);
	tcase_add_test(c, results_are_not_written_over);
	tcase_add_test(c, what_stays_waits_for_what_goes);
	tcase_add_test(c, too_much_that_was_never_there);
	tcase_add_test(c, many_rows_wait);
	tcase_add_test(c, it_is_looked_for_where_it_is);
	tcase_add_test(c, too_much_to_bring);
	tcase_add_test(c, it_never_comes);
	tcase_add_test(c, one_that_did_nothing);
	tcase_add_test(c, it_fails);
	tcase_add_test(c, both_are_lost);
	return c;
}
