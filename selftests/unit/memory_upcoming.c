// SPDX-License-Identifier: MIT
/* memory_upcoming - when bytes are used next, against a plain list */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/upcoming.h"
#include "selftests/unit/memory_fake.h"

#define USES	400
#define STEPS	6000

struct entry {
	uint64_t start, end, seq;
	bool there;
};

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

static uint64_t next_in(const struct entry *e, uint64_t start, uint64_t end)
{
	uint64_t next = UPCOMING_NEVER;

	for (uint32_t i = 0; i < USES; i++)
		if (e[i].there && e[i].start < end && e[i].end > start && e[i].seq < next)
			next = e[i].seq;
	return next;
}

/*
 * @places pieces of @places different lengths.  Many pieces: then an answer may be too soon, as
 * it says itself, but not later, and not what it can't be.
 */
static void like_a_list(uint32_t places, bool exact)
{
	static struct entry e[USES];
	struct upcoming u = { .random = seed };
	uint64_t at, length, next, wanted, seq = 0, left = 0, early = 0;

	memset(e, 0, sizeof(e));
	for (uint32_t step = 0; step < STEPS; step++) {
		struct entry *one = &e[draw(USES)];

		if (one->there) {
			ck_assert(upcoming_remove(&u, one->start, one->end, one->seq));
			ck_assert(!upcoming_remove(&u, one->start, one->end, ~0ull));
			one->there = false;
			left--;
		} else {
			one->start = 10 * draw(places);
			one->end = one->start + 1 + 7 * draw(places);
			/* Mostly in order. */
			one->seq = draw(16) ? ++seq : seq++ / 2;
			one->there = true;
			ck_assert(upcoming_add(&u, one->start, one->end, one->seq));
			left++;
		}
		at = draw(12 * places);
		length = 1 + draw(30);
		wanted = next_in(e, at, at + length);
		next = upcoming_next(&u, at, at + length);
		ck_assert_uint_le(next, wanted);
		if (exact)
			ck_assert_uint_eq(next, wanted);
		ck_assert_uint_ge(next, next_in(e, 0, ~0ull));
		early += next != wanted;
	}
	ck_assert_uint_lt(early, STEPS / 4);
	ck_assert_uint_eq(upcoming_clear(&u), left);
	ck_assert_uint_eq(upcoming_next(&u, 0, ~0ull), UPCOMING_NEVER);
}

START_TEST(next_uses_like_a_list)
{
	seed = 0x9e3779b97f4a7c15ull * (uint64_t)(_i + 1);
	like_a_list(6, true);
	like_a_list(40, false);
}
END_TEST

/* One client's tree is as deep as chance makes it, in whichever order its pieces come. */
START_TEST(many_pieces_are_quick)
{
	struct upcoming u = { .random = 1 };
	uint64_t i;

	for (i = 0; i < 50000; i++)
		ck_assert(upcoming_add(&u, 10 * i, 10 * i + 10, i));
	for (i = 0; i < 50000; i++) {
		ck_assert_uint_eq(upcoming_next(&u, 10 * i, 10 * i + 1), i);
		ck_assert_uint_eq(upcoming_next(&u, 10 * i, ~0ull), i);
	}
	for (i = 50000; i-- > 0;)
		ck_assert(upcoming_remove(&u, 10 * i, 10 * i + 10, i));
	ck_assert_ptr_null(u.pieces.top);
}
END_TEST

#define MANY	(1u << 16)

static uint64_t nth(uint32_t i, int order)
{
	/* Backwards, or in leaps. */
	return order == 1 ? MANY - 1 - i : order == 2 ? i * 40503ull % MANY : i;
}

/* A piece may have all uses there can be: whichever comes or ends, few others are looked at. */
START_TEST(many_uses_are_quick)
{
	struct upcoming u = { .random = 1 };
	uint64_t left;

	for (uint32_t i = 0; i < MANY; i++)
		ck_assert(upcoming_add(&u, 0, 10, 1 + nth(i, _i % 3)));
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert(upcoming_remove(&u, 0, 10, 1 + nth(i, _i / 3)));
		left = upcoming_next(&u, 9, 10);
		ck_assert_uint_ge(left, 1);
		if (_i / 3 == 0 && i + 1 < MANY)
			ck_assert_uint_eq(left, 2 + i);
		if (_i / 3 == 1 && i + 1 < MANY)
			ck_assert_uint_eq(left, 1);
	}
	ck_assert_ptr_null(u.pieces.top);
	/* A tree of so many is some twenty deep for most, and is gone through three times. */
	ck_assert_uint_lt(u.pieces.steps, 150ull * MANY);
}
END_TEST

TCase *upcoming_case(void)
{
	TCase *c = tcase_create("upcoming");

	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, next_uses_like_a_list, 0, 2);
	tcase_add_test(c, many_pieces_are_quick);
	tcase_add_loop_test(c, many_uses_are_quick, 0, 9);
	return c;
}
