// SPDX-License-Identifier: MIT
/* Tickets, arena, positions and late looks, on memory without any peer. */
#include <check.h>
#include <stdlib.h>

#include "kmod/core/layout.h"
#include "libarax/quiet.h"
#include "libarax/ring.h"

static uint8_t *region;
static struct ring ring;

static void make(uint32_t depth, uint32_t entry_size, uint32_t arena)
{
	struct arax_context_init init = {
		.depth = depth,
		.entry_size = entry_size,
		.arena_size = arena,
	};
	struct arax_layout l;

	ck_assert_int_eq(arax_layout(depth, entry_size, arena, &l), 0);
	init.sq_offset = l.sq_offset;
	init.cq_offset = l.cq_offset;
	init.arena_offset = l.arena_offset;
	init.region_size = l.region_size;
	region = aligned_alloc(4096, l.region_size);
	ck_assert_ptr_nonnull(region);
	memset(region, 0, l.region_size);
	ck_assert_int_eq(ring_init(&ring, region, &init), 0);
}

static void drop(void)
{
	ring_destroy(&ring);
	free(region);
}

static void publish_one(void)
{
	ring_sq_push(&ring);
	ring_sq_publish(&ring, 1);
}

/* Places must not overlap, whatever the geometry. */
START_TEST(layout_is_disjoint)
{
	static const uint32_t depths[] = { 2, 4, 64, 1024, 65536 };
	struct arax_layout l;
	unsigned int i, e;

	for (i = 0; i < 5; i++) {
		for (e = 128; e <= 256; e += 128) {
			ck_assert_int_eq(arax_layout(depths[i], e, 8192, &l), 0);
			ck_assert_uint_ge(l.sq_offset, sizeof(struct arax_ring_ctl));
			/* As the contract says, struct arax_context_init: others compute it, too. */
			ck_assert_uint_eq(l.sq_offset, 4096);
			ck_assert_uint_eq(l.cq_offset, l.sq_offset + depths[i] * e);
			ck_assert_uint_eq(l.arena_offset,
					  (l.cq_offset + depths[i] * 64 + 4095) / 4096 * 4096);
			ck_assert_uint_eq(l.region_size, l.arena_offset + 8192);
			ck_assert_uint_eq(l.cq_offset % 64, 0);
			ck_assert_uint_eq(l.region_size % 4096, 0);
		}
	}
	ck_assert_int_lt(arax_layout(3, 128, 0, &l), 0);
	ck_assert_int_lt(arax_layout(1, 128, 0, &l), 0);
	ck_assert_int_lt(arax_layout(131072, 128, 0, &l), 0);
	ck_assert_int_lt(arax_layout(64, 192, 0, &l), 0);
	ck_assert_int_lt(arax_layout(64, 128, 100, &l), 0);
	ck_assert_int_lt(arax_layout(64, 128, ARAX_MAX_ARENA + 4096, &l), 0);
}
END_TEST

START_TEST(tickets_are_unique)
{
	uint64_t t[8], extra, old;
	unsigned int i, j;

	make(8, 128, 0);
	for (i = 0; i < 8; i++) {
		ck_assert_ptr_nonnull(ring_slot_get(&ring, &t[i]));
		for (j = 0; j < i; j++)
			ck_assert_uint_ne(t[i], t[j]);
	}
	ck_assert_ptr_null(ring_slot_get(&ring, &extra));

	old = t[3];
	ck_assert_ptr_nonnull(ring_slot_find(&ring, old));
	ring_slot_put(&ring, (uint32_t)old);
	ck_assert_ptr_null(ring_slot_find(&ring, old));
	ck_assert_ptr_nonnull(ring_slot_get(&ring, &t[3]));
	ck_assert_uint_eq((uint32_t)t[3], (uint32_t)old);
	ck_assert_uint_ne(t[3], old);
	ck_assert_ptr_null(ring_slot_find(&ring, old));
	ck_assert_ptr_nonnull(ring_slot_find(&ring, t[3]));
	/* What a confused peer could send. */
	ck_assert_ptr_null(ring_slot_find(&ring, 8));
	ck_assert_ptr_null(ring_slot_find(&ring, ~0ull));
	drop();
}
END_TEST

START_TEST(positions_wrap)
{
	struct arax_task *t;
	unsigned int i;

	make(4, 256, 0);
	ring.sq_tail = ring.cq_head = 0xfffffffe;
	ring.ctl->sq_head = 0xfffffffe;
	/* As the lap before left it. */
	for (i = 0; i < 4; i++)
		ring.cq[(0xfffffffa + i) & 3].seq = 0xfffffffb + i;
	for (i = 0; i < 4; i++) {
		t = ring_sq_entry(&ring);
		ck_assert_ptr_eq(t, ring.sq + ((0xfffffffe + i) & 3) * 256);
		publish_one();
		ck_assert_uint_eq(t->seq, 0xffffffffu + i);
	}
	for (i = 0; i < 4; i++) {
		ck_assert_int_eq(ring_cq_ready(&ring), 0);
		ring.cq[ring.cq_head & 3].seq = ring.cq_head + 1;
		ck_assert_int_eq(ring_cq_ready(&ring), 1);
		ring_cq_advance(&ring, ring.cq_head + 1);
	}
	/* The entry of a lap before is not taken for this one's. */
	ck_assert_int_eq(ring_cq_ready(&ring), 0);
	ring_cq_credit(&ring);
	ck_assert_uint_eq(ring.ctl->cq_head, 2);
	drop();
}
END_TEST

/* None of a batch can be seen before the first one is. */
START_TEST(publish_batch)
{
	struct arax_task *t[3];
	unsigned int i;

	make(4, 128, 0);
	for (i = 0; i < 3; i++) {
		t[i] = ring_sq_entry(&ring);
		ring_sq_push(&ring);
	}
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(t[i]->seq, 0);
	ring_sq_publish(&ring, 0);
	ck_assert_uint_eq(t[0]->seq, 0);
	ring_sq_publish(&ring, 2);
	ck_assert_uint_eq(t[0]->seq, 0);
	ring_sq_publish(&ring, 3);
	for (i = 0; i < 3; i++)
		ck_assert_uint_eq(t[i]->seq, i + 1);
	drop();
}
END_TEST

START_TEST(arena_limits)
{
	int64_t a, b;

	make(4, 128, 4096);
	ck_assert_int_eq(ring_arena_alloc(&ring, 4097), -2);
	ck_assert_int_eq(ring_arena_alloc(&ring, 0), -2);
	a = ring_arena_alloc(&ring, 2000);
	publish_one();
	b = ring_arena_alloc(&ring, 2001);
	publish_one();
	ck_assert_int_eq(a, 0);
	ck_assert_int_eq(b, 2000);
	ck_assert_int_eq(ring_arena_alloc(&ring, 100), -1);
	ring.ctl->sq_head = 1;
	ck_assert_int_eq(ring_arena_alloc(&ring, 2001), -1);
	ck_assert_int_eq(ring_arena_alloc(&ring, 2000), 0);
	publish_one();
	/* A head from nowhere frees nothing. */
	ring.ctl->sq_head = 77;
	ck_assert_int_eq(ring_arena_alloc(&ring, 2000), -1);
	ring.ctl->sq_head = 3;
	ck_assert_int_eq(ring_arena_alloc(&ring, 4096), 0);
	drop();
}
END_TEST

/* Blocks of unconsumed entries never overlap; every block fits in the end. */
START_TEST(arena_never_overlaps)
{
	enum { DEPTH = 16, ARENA = 12288 };
	struct { uint64_t from, to; } live[DEPTH];
	unsigned int i, k, round, refused = 0;
	uint32_t len;
	int64_t off;

	make(DEPTH, 128, ARENA);
	srand(1);
	for (round = 0; round < 200000; round++) {
		uint32_t head = ring.ctl->sq_head, used = ring.sq_tail - head;

		if (used && (used == DEPTH || rand() % 3 == 0)) {
			ring.ctl->sq_head += 1 + (uint32_t)rand() % used;
			continue;
		}
		len = 1 + (uint32_t)rand() % 5300;
		off = rand() % 4 ? ring_arena_alloc(&ring, len) : -3;
		if (off == -1) {
			ck_assert_uint_ne(used, 0);
			refused++;
			ring.ctl->sq_head++;
			continue;
		}
		k = ring.sq_tail % DEPTH;
		live[k].from = live[k].to = 0;
		if (off >= 0) {
			ck_assert_int_eq(off % 8, 0);
			ck_assert_uint_le((uint64_t)off + len, ARENA);
			live[k].from = (uint64_t)off;
			live[k].to = (uint64_t)off + len;
			for (i = head; i != ring.sq_tail; i++)
				ck_assert(live[i % DEPTH].to <= live[k].from ||
					  live[i % DEPTH].from >= live[k].to);
		}
		publish_one();
	}
	ck_assert_uint_gt(refused, 100);
	drop();
}
END_TEST

/* @n waits for tasks that take @least to @most ticks; returns how many were kept waiting. */
static uint32_t wait_for_tasks(struct quiet *q, uint32_t n, uint32_t least, uint32_t most)
{
	uint32_t i, late = 0;

	for (i = 0; i < n; i++) {
		uint32_t took = least + (uint32_t)rand() % (most - least + 1);

		if (quiet_tries(q)) {
			quiet_tried(q, took);
			continue;
		}
		if (!q->bound)
			continue;
		late += took + 64 < q->ticks;
		quiet_learn(q, took <= q->ticks);
	}
	return late;
}

START_TEST(late_looks_follow_the_tasks)
{
	struct quiet q = { 0 };

	/* Nothing is known yet. */
	ck_assert_uint_eq(wait_for_tasks(&q, (QUIET_TRIALS - 2) * QUIET_EVERY, 900, 1000), 0);
	ck_assert_uint_eq(q.ticks, 0);
	wait_for_tasks(&q, 1000, 900, 1000);
	ck_assert_uint_ge(q.ticks, 850);
	ck_assert_uint_le(q.ticks, 1000);
	/* Shorter ones, of which the next trials tell. */
	wait_for_tasks(&q, 2 * QUIET_EVERY, 400, 420);
	ck_assert_uint_le(q.ticks, 420);
	wait_for_tasks(&q, 1000, 400, 420);
	ck_assert_uint_ge(q.ticks, 380);
	/* Longer ones, step by step, but not without an end. */
	wait_for_tasks(&q, 1000, 1900, 2000);
	ck_assert_uint_ge(q.ticks, 1800);
	ck_assert_uint_le(q.ticks, 2000);
	wait_for_tasks(&q, 10000, 1000000, 1000000);
	ck_assert_uint_eq(q.ticks, QUIET_MAX);
	/* What is there at once. */
	wait_for_tasks(&q, 2 * QUIET_EVERY, 0, 10);
	ck_assert_uint_eq(q.ticks, 0);
	ck_assert_uint_eq(q.bound, 0);
}
END_TEST

/* A quarter of them is short, and would be twenty times as late as it takes. */
START_TEST(late_looks_are_not_the_longest_tasks)
{
	struct quiet q = { 0 };
	uint32_t i, late = 0, was;

	for (i = 0; i < 20000; i++) {
		was = q.ticks;
		if (rand() % 4)
			wait_for_tasks(&q, 1, 3900, 4000);
		else if (i > 1000)
			late += wait_for_tasks(&q, 1, 190, 200);
		else
			wait_for_tasks(&q, 1, 190, 200);
		ck_assert(q.ticks <= was + 2 * QUIET_STEP);
	}
	/* But where no two of the last trials met one: 5000 are short. */
	ck_assert_uint_lt(late, 2000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("libarax-ring");
	TCase *t = tcase_create("ring");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, layout_is_disjoint);
	tcase_add_test(t, tickets_are_unique);
	tcase_add_test(t, positions_wrap);
	tcase_add_test(t, publish_batch);
	tcase_add_test(t, arena_limits);
	tcase_add_test(t, arena_never_overlaps);
	tcase_add_test(t, late_looks_follow_the_tasks);
	tcase_add_test(t, late_looks_are_not_the_longest_tasks);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
