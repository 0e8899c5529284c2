// SPDX-License-Identifier: MIT
/* What comes to a device before its task has a lane there: see daemon/memory/ahead.c. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "selftests/unit/memory_fake.h"
#include "selftests/unit/wait.h"
#include "uapi/arax.h"

#define BUFFERS	16u
#define BYTES	1000u
#define ROOM	(BUFFERS * BYTES)	/* the last quarter is scarce */
#define SEQ	5u			/* of the task */
#define LAST	8u			/* of the last one that is there */

static struct memory *m;
static struct fake_device fake, other;
static struct memory_buffer *buffers[BUFFERS];
static uint8_t host[BUFFERS][BYTES];
static void (*while_copied)(void);	/* once */
static uint32_t pieces;			/* so many may begin */
static int asked_first;			/* questions before who asks is overtaken; -1: he is not */
static pthread_t overtaker;
static int64_t held, most;		/* of the tenant's quota; 0: it has none */
static uint32_t charges;
static uint32_t asked;			/* atomic: questions */

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	void (*meanwhile)(void) = while_copied;
	int err = fake_ops.copy_in(dev, lane, to, from, bytes);

	while_copied = NULL;
	if (meanwhile)
		meanwhile();
	return err;
}

static int charge(void *arg, uint64_t id, int64_t bytes)
{
	(void)arg;
	(void)id;
	charges++;
	if (bytes > 0 && most && held + bytes > most)
		return -EDQUOT;
	held += bytes;
	return 0;
}

static uint64_t limit(void *arg, struct memory_owner owner, uint64_t *left)
{
	(void)arg;
	(void)owner;
	if (left)
		*left = most ? (uint64_t)(most - held) : UINT64_MAX;
	return most ? (uint64_t)most : UINT64_MAX;
}

static void setup(void)
{
	struct memory_ops ops = fake_ops;

	ops.copy_in = copy_in;
	ck_assert_int_eq(memory_create(2, &m), 0);
	ck_assert_int_eq(memory_add_device(m, 0, &ops, &fake, ROOM), 0);
	memory_set_charge(m, charge, NULL);
	memory_set_limit(m, limit);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		memset(host[i], (int)i + 1, BYTES);
		buffers[i] = memory_buffer_create(m, host[i], BYTES);
		ck_assert_ptr_nonnull(buffers[i]);
	}
	while_copied = NULL;
	pieces = UINT32_MAX;
	asked_first = -1;
	held = 0;
	most = 0;
	charges = 0;
	asked = 0;
}

static void teardown(void)
{
	ck_assert_int_eq(memory_check(m), 0);
	ck_assert_int_eq(held, 0);
	for (uint32_t i = 0; i < BUFFERS; i++)
		memory_buffer_gone(m, buffers[i]);
	ck_assert_uint_eq(fake.allocations, 0);
	memory_destroy(m);
}

static struct memory_range reads(uint32_t buffer)
{
	return (struct memory_range){
		.buffer = buffers[buffer], .length = BYTES, .count = 1, .access = ARAX_IN,
	};
}

static struct memory_stats stats(void)
{
	struct memory_stats s;

	memory_query(m, 0, &s);
	return s;
}

/* The task ends, and who comes after it is told that he may write. */
static void *overtake(void *arg)
{
	__atomic_store_n(&pieces, 0, __ATOMIC_RELAXED);
	memory_host_wrote(m, buffers[0], 0, BYTES, 0, 1);
	return arg;
}

/* Who asks, and is told of before, may lose his CPU then. */
static bool go_on(void *arg)
{
	bool yes = __atomic_load_n(&pieces, __ATOMIC_RELAXED);

	(void)arg;
	__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	if (asked_first >= 0 && !asked_first--) {
		ck_assert_int_eq(pthread_create(&overtaker, NULL, overtake, NULL), 0);
		/* It is done by then, or waits for the manager. */
		usleep(10000);
	}
	return yes;
}

/* Returns how many bytes came. */
static uint64_t bring_beside(struct memory_range r, uint64_t piece, uint64_t beside)
{
	const struct memory_ahead a = {
		.seq = SEQ, .last = LAST, .owner = nobody, .beside = beside, .piece = piece, .go_on = go_on,
	};

	memory_bring(m, 0, &r, 1, &a);
	return r.moved;
}

static uint64_t bring(uint32_t buffer)
{
	return bring_beside(reads(buffer), BYTES, 0);
}

/* A task: returns how many bytes came for it. */
static uint64_t runs(struct memory_range r, uint64_t seq)
{
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, seq, nobody), 0);
	if (r.access & ARAX_IN)
		ck_assert_int_eq(memcmp((void *)(uintptr_t)r.address,
					r.buffer == buffers[0] ? host[0] : host[1], r.length), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, LAST);
	return r.moved;
}

START_TEST(the_task_finds_it)
{
	struct memory_range r = reads(0);

	ck_assert_uint_eq(bring_beside(r, 300, 0), BYTES);
	ck_assert_uint_eq(bring(0), 0);
	ck_assert_int_eq(memory_enter_ready(m, 0, &r, 1, SEQ, nobody), 0);
	ck_assert_int_eq(memcmp((void *)(uintptr_t)r.address, host[0], BYTES), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, SEQ);
	ck_assert_uint_eq(stats().copied_in, BYTES);
}
END_TEST

/* They read the same, and were there. */
START_TEST(others_find_it)
{
	ck_assert_uint_eq(bring(0), BYTES);
	ck_assert_uint_eq(runs(reads(0), LAST), 0);
	ck_assert_uint_eq(runs(reads(0), SEQ), 0);
}
END_TEST

/* The task was canceled, its program saw that, wrote and submitted another one. */
START_TEST(later_tasks_dont_trust_it)
{
	ck_assert_uint_eq(bring(0), BYTES);
	memset(host[0], 77, BYTES);
	ck_assert_uint_eq(runs(reads(0), LAST + 1), BYTES);
}
END_TEST

START_TEST(explicit_bytes_stay)
{
	memory_buffer_lazy(buffers[0]);
	ck_assert_uint_eq(bring(0), BYTES);
	ck_assert_uint_eq(runs(reads(0), SEQ + 9), 0);
	/* Its program is about to write there. */
	memory_host_wrote(m, buffers[0], 100, 50, 0, 1);
	memset(host[0] + 100, 77, 50);
	ck_assert_uint_eq(runs(reads(0), SEQ + 10), 50);
}
END_TEST

static void write_elsewhere(void)
{
	memory_host_wrote(m, buffers[0], 350, 10, 0, 1);
	memset(host[0] + 350, 77, 10);
}

/* The task ran elsewhere meanwhile, and one after it. */
START_TEST(a_piece_that_was_overtaken_is_none)
{
	if (_i)
		memory_buffer_lazy(buffers[0]);
	while_copied = write_elsewhere;
	ck_assert_uint_eq(bring_beside(reads(0), 400, 0), 0);
	ck_assert_uint_eq(runs(reads(0), SEQ), BYTES);
}
END_TEST

/* At whatever question. */
START_TEST(an_answer_may_be_of_before)
{
	memory_buffer_lazy(buffers[0]);
	asked_first = _i;
	bring(0);
	if (asked_first < 0) {
		ck_assert_int_eq(pthread_join(overtaker, NULL), 0);
		memset(host[0], 77, BYTES);
	}
	asked_first = -1;
	/* It sees that, all of it. */
	runs(reads(0), SEQ + 9);
}
END_TEST

/* It may be about to be written over there. */
START_TEST(what_a_device_has_alone_is_left)
{
	struct memory_range r = reads(0), part = reads(0);
	const struct memory_ahead a = {
		.seq = SEQ, .last = LAST, .owner = nobody, .piece = 100, .go_on = go_on,
	};
	struct memory_range both[2] = { reads(0), reads(1) };

	ck_assert_int_eq(memory_add_device(m, 1, &fake_ops, &other, ROOM), 0);
	memory_buffer_lazy(buffers[0]);
	part.offset = 500;
	part.length = 10;
	part.access = ARAX_OUT;
	ck_assert_int_eq(memory_enter(m, 1, 0, &part, 1, 1, nobody), 0);
	memset((void *)(uintptr_t)part.address, 1, 10);
	ck_assert_int_eq(memory_leave(m, 1, 0, &part, 1, 0), 0);
	memory_settle(m, 1, &part, 1, LAST);
	ck_assert_uint_eq(memory_bring_ns(m, 0, &r, 1, SEQ), 0);
	ck_assert_uint_gt(memory_bring_ns(m, 0, &both[1], 1, SEQ), 0);
	memory_bring(m, 0, both, 2, &a);
	ck_assert_uint_eq(both[0].moved, 500);
	ck_assert_uint_eq(both[1].moved, BYTES);
	ck_assert(memory_is_dirty(m, &r));
	ck_assert_uint_eq(runs(r, SEQ), BYTES - 500);
	ck_assert(!memory_is_dirty(m, &r));
}
END_TEST

static void stop(void)
{
	pieces = 0;
}

START_TEST(it_stops_after_a_piece)
{
	while_copied = stop;
	ck_assert_uint_eq(bring_beside(reads(0), 400, 0), 400);
	ck_assert_uint_eq(runs(reads(0), SEQ), BYTES - 400);
}
END_TEST

static int early;

static void write_there(void)
{
	struct memory_range r = reads(0);

	r.access = ARAX_OUT;
	early = memory_enter_ready(m, 0, &r, 1, SEQ + 1, nobody);
}

/* Its results would be overwritten. */
START_TEST(a_writer_waits_for_the_piece)
{
	struct memory_range r = reads(0);

	memory_buffer_lazy(buffers[0]);
	ck_assert_uint_eq(runs(r, 1), BYTES);
	memory_host_wrote(m, buffers[0], 0, BYTES, 0, 1);
	while_copied = write_there;
	ck_assert_uint_eq(bring(0), BYTES);
	ck_assert_int_eq(early, -EAGAIN);
	r.access = ARAX_OUT;
	ck_assert_int_eq(memory_enter_ready(m, 0, &r, 1, SEQ + 1, nobody), 0);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, SEQ + 1);
}
END_TEST

/* The last quarter is left to tasks, and nothing goes. */
START_TEST(it_takes_what_is_free)
{
	uint32_t i, came = 0;

	for (i = 0; i < BUFFERS; i++)
		came += bring(i) == BYTES;
	ck_assert_uint_eq(came, 11);
	ck_assert_uint_eq(stats().used, 11 * BYTES);
	ck_assert_uint_eq(stats().evictions, 0);
	ck_assert(!memory_is_tight(m));
}
END_TEST

static struct memory_buffer *large;
static uint8_t large_host[ROOM];

static bool is_there(uint32_t buffer)
{
	struct memory_range r = reads(buffer);

	return memory_holds(m, 0, &r, 1);
}

/* What came ahead, though it is the newest, and somebody is known to need it. */
START_TEST(it_goes_first)
{
	struct memory_range r[2] = { { .access = ARAX_OUT, .length = ROOM - 2 * BYTES, .count = 1 } };
	struct memory_range used = reads(0), needed = reads(1);

	large = memory_buffer_create(m, large_host, ROOM);
	ck_assert_ptr_nonnull(large);
	memory_buffer_lazy(buffers[0]);
	memory_buffer_lazy(buffers[1]);
	ck_assert_uint_eq(runs(used, 1), BYTES);
	memory_will_use(m, &needed, 1, SEQ);
	ck_assert_uint_eq(bring(1), BYTES);
	ck_assert(is_there(0) && is_there(1));
	/* All the rest, and one more. */
	r[0].buffer = large;
	r[1] = reads(2);
	ck_assert_int_eq(memory_enter(m, 0, 0, r, 2, 1, nobody), 0);
	ck_assert_uint_eq(stats().evictions, 1);
	ck_assert(is_there(0) && !is_there(1));
	ck_assert_int_eq(memory_leave(m, 0, 0, r, 2, 0), 0);
	memory_settle(m, 0, r, 2, 1);
	memory_has_used(m, &needed, 1, SEQ);
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, large);
}
END_TEST

/* All of the device. */
static void *take_all(void *arg)
{
	struct memory_range r = { .buffer = large, .length = ROOM, .count = 1, .access = ARAX_IN };
	int err = memory_enter(m, 0, 0, &r, 1, 1, nobody);

	if (!err) {
		memory_leave(m, 0, 0, &r, 1, 0);
		memory_settle(m, 0, &r, 1, 1);
	}
	return (void *)(intptr_t)err;
}

static pthread_t taker;

static void let_take_all(void)
{
	ck_assert_int_eq(pthread_create(&taker, NULL, take_all, NULL), 0);
}

/* Whenever it comes: what is on its way is no reason to say that there is no room. */
START_TEST(a_task_gets_all_the_room)
{
	void *err;

	large = memory_buffer_create(m, large_host, ROOM);
	ck_assert_ptr_nonnull(large);
	while_copied = let_take_all;
	bring_beside(reads(0), 10, 0);
	pthread_join(taker, &err);
	ck_assert_int_eq((intptr_t)err, 0);
	ck_assert_uint_le(fake.largest, ROOM);
	memory_buffer_gone(m, large);
}
END_TEST

START_TEST(a_quota_holds)
{
	struct memory_range r = reads(1);

	most = 2 * BYTES;
	ck_assert_int_eq(memory_enter(m, 0, 0, &r, 1, 1, nobody), 0);
	/* Beside what its tasks hold, and what came for others of them. */
	ck_assert_uint_eq(bring_beside(reads(0), BYTES, 1), 0);
	ck_assert_uint_eq(stats().used, BYTES);
	ck_assert_uint_eq(bring_beside(reads(0), BYTES, 0), BYTES);
	ck_assert_int_eq(held, BYTES);
	/* Nobody sees that it was asked. */
	ck_assert_uint_eq(charges, 1);
	ck_assert_int_eq(memory_leave(m, 0, 0, &r, 1, 0), 0);
	memory_settle(m, 0, &r, 1, 1);
}
END_TEST

static bool may_load;
static int loading;

static void load_long(void)
{
	__atomic_store_n(&loading, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&may_load, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void *load(void *arg)
{
	(void)arg;
	runs(reads(1), SEQ);
	return NULL;
}

static void *bring_late(void *arg)
{
	return (void *)(uintptr_t)bring(*(uint32_t *)arg);
}

/* While others' copies go on, for however long. */
START_TEST(who_is_stopped_waits_for_no_copies)
{
	uint32_t buffer = 0, last = 0;
	pthread_t loader, bringer;
	void *came;

	while_copied = load_long;
	may_load = false;
	loading = 0;
	ck_assert_int_eq(pthread_create(&loader, NULL, load, NULL), 0);
	ck_assert(comes_true(__atomic_load_n(&loading, __ATOMIC_ACQUIRE), 100));
	ck_assert_int_eq(pthread_create(&bringer, NULL, bring_late, &buffer), 0);
	/* It waits for them when it asks no more. */
	do {
		last = __atomic_load_n(&asked, __ATOMIC_RELAXED);
		usleep(10000);
	} while (last < 4 || last != __atomic_load_n(&asked, __ATOMIC_RELAXED));
	__atomic_store_n(&pieces, 0, __ATOMIC_RELAXED);
	memory_bring_stopped(m, 0);
	pthread_join(bringer, &came);
	ck_assert_uint_eq((uintptr_t)came, 0);
	__atomic_store_n(&may_load, true, __ATOMIC_RELEASE);
	pthread_join(loader, NULL);
}
END_TEST

START_TEST(errors_are_the_tasks)
{
	fake.fail_in = 1;
	ck_assert_uint_eq(bring(0), 0);
	ck_assert_uint_eq(runs(reads(0), SEQ), BYTES);
	fake.fail_alloc = 1;
	ck_assert_uint_eq(bring(1), 0);
	ck_assert_uint_eq(runs(reads(1), SEQ), BYTES);
}
END_TEST

static void *let_go(void *arg)
{
	memory_buffer_let_go(m, arg);
	return NULL;
}

START_TEST(a_buffer_is_kept)
{
	struct memory_buffer *b = memory_buffer_create(m, large_host, BYTES);
	pthread_t thread;

	memory_buffer_keep(m, b);
	ck_assert_int_eq(pthread_create(&thread, NULL, let_go, b), 0);
	memory_buffer_gone(m, b);
	pthread_join(thread, NULL);
}
END_TEST

TCase *ahead_case(void)
{
	TCase *c = tcase_create("ahead");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, the_task_finds_it);
	tcase_add_test(c, others_find_it);
	tcase_add_test(c, later_tasks_dont_trust_it);
	tcase_add_test(c, explicit_bytes_stay);
	tcase_add_loop_test(c, a_piece_that_was_overtaken_is_none, 0, 2);
	tcase_add_loop_test(c, an_answer_may_be_of_before, 0, 6);
	tcase_add_test(c, what_a_device_has_alone_is_left);
	tcase_add_test(c, it_stops_after_a_piece);
	tcase_add_test(c, a_writer_waits_for_the_piece);
	tcase_add_test(c, it_takes_what_is_free);
	tcase_add_test(c, it_goes_first);
	tcase_add_test(c, a_task_gets_all_the_room);
	tcase_add_test(c, a_quota_holds);
	tcase_add_test(c, who_is_stopped_waits_for_no_copies);
	tcase_add_test(c, errors_are_the_tasks);
	tcase_add_test(c, a_buffer_is_kept);
	return c;
}
