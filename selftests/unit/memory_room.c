// SPDX-License-Identifier: MIT
/* Who waits for room on a device, and who goes on meanwhile: see daemon/memory/room.c. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "selftests/unit/memory_fake.h"
#include "selftests/unit/wait.h"
#include "uapi/arax.h"

#define ROOM 1000u

static const struct memory_owner one = { 1, 1 }, two = { 2, 2 };

static struct memory *m;
static struct fake_device fake;
static struct memory_buffer *buffer;
static uint8_t host[16384];
static uint64_t used;		/* of the buffer: tasks don't share bytes, unless told to */

/* A task; on another thread if it waits. */
struct task {
	struct memory_range r;
	struct memory_owner owner;
	struct memory_until until;
	pthread_t thread;
};

static void setup(void)
{
	ck_assert_int_eq(memory_create(1, &m), 0);
	ck_assert_int_eq(memory_add_device(m, 0, &fake_ops, &fake, ROOM), 0);
	buffer = memory_buffer_create(m, host, sizeof(host));
	ck_assert_ptr_nonnull(buffer);
	fake.most = 0;
	used = 0;
}

static void teardown(void)
{
	ck_assert_int_eq(memory_check(m), 0);
	memory_buffer_gone(m, buffer);
	ck_assert_uint_eq(fake.allocations, 0);
	memory_destroy(m);
}

static struct task task(struct memory_owner owner, uint64_t bytes)
{
	struct task t = { .owner = owner };

	t.r = (struct memory_range){
		.buffer = buffer, .access = ARAX_IN, .offset = used, .length = bytes, .count = 1,
	};
	used += bytes;
	ck_assert_uint_le(used, sizeof(host));
	return t;
}

static int enter(struct task *t)
{
	return memory_try_enter(m, 0, 0, &t->r, 1, 1, t->owner);
}

static int try(struct memory_owner owner, uint64_t bytes)
{
	struct task t = task(owner, bytes);
	int err = enter(&t);

	if (!err) {
		memory_leave(m, 0, 0, &t.r, 1, 0);
		memory_settle(m, 0, &t.r, 1, 9);
	}
	return err;
}

static void leave(struct task *t)
{
	ck_assert_int_eq(memory_leave(m, 0, 0, &t->r, 1, 0), 0);
	memory_settle(m, 0, &t->r, 1, 9);
}

/* So many times that a task found no room. */
static void await_waits(uint64_t n)
{
	struct memory_stats s;

	do {
		memory_query(m, 0, &s);
	} while (s.waits < n);
}

static void *enter_late(void *arg)
{
	struct task *t = arg;

	return (void *)(intptr_t)memory_enter_until(m, 0, 0, &t->r, 1, 1, t->owner, &t->until);
}

static void begin(struct task *t, uint64_t waits)
{
	ck_assert_int_eq(pthread_create(&t->thread, NULL, enter_late, t), 0);
	await_waits(waits);
}

static void ends(struct task *t, int expected)
{
	void *err;

	pthread_join(t->thread, &err);
	ck_assert_int_eq((intptr_t)err, expected);
}

static void has_entered(struct task *t)
{
	ends(t, 0);
}

/* The first one's own tasks are in its way, which may take long: that is nothing to others. */
START_TEST(its_own_tasks_are_in_the_way)
{
	struct task before = task(one, 300), waits = task(one, 900), other = task(two, 300),
		    small = task(one, 100);

	ck_assert_int_eq(enter(&before), 0);
	begin(&waits, 1);
	ck_assert_int_eq(enter(&other), 0);
	/* It had its chance: others of its tenant go by what is left beside it. */
	ck_assert_int_eq(try(one, 101), -EAGAIN);
	ck_assert_int_eq(enter(&small), -EAGAIN);
	ck_assert_int_eq(try(two, 400), 0);
	await_waits(2);
	/* Now others are in the way that came meanwhile, and no more of them come. */
	leave(&before);
	await_waits(3);
	ck_assert_int_eq(try(two, 100), -EAGAIN);
	leave(&other);
	has_entered(&waits);
	ck_assert_int_eq(enter(&small), 0);
	leave(&small);
	leave(&waits);
}
END_TEST

/* Others' tasks are: it gets what it needs when those that were there before it have ended. */
START_TEST(what_it_needs_is_kept)
{
	struct task before = task(two, 300), waits = task(one, 800), small = task(two, 150), same;

	ck_assert_int_eq(enter(&before), 0);
	begin(&waits, 1);
	ck_assert_int_eq(try(two, 201), -EAGAIN);
	ck_assert_int_eq(try(one, 201), -EAGAIN);
	ck_assert_int_eq(enter(&small), 0);
	ck_assert_int_eq(try(one, 51), -EAGAIN);
	ck_assert_int_eq(try(one, 50), 0);
	await_waits(2);
	/* What is there already is no more for being used by another one. */
	same = small;
	same.owner = one;
	ck_assert_int_eq(enter(&same), 0);
	leave(&before);
	has_entered(&waits);
	ck_assert_int_eq(memory_check(m), 0);
	leave(&waits);
	leave(&same);
	leave(&small);
}
END_TEST

/* What is on the device is no reason to use it for ever. */
START_TEST(who_is_ready_keeps_nobody_waiting)
{
	struct task there = task(two, 300), before = task(two, 500), waits = task(one, 800);

	memory_buffer_lazy(buffer);
	ck_assert_int_eq(enter(&there), 0);
	leave(&there);
	ck_assert_int_eq(enter(&before), 0);
	ck_assert_int_eq(memory_enter_ready(m, 0, &there.r, 1, 2, two), 0);
	begin(&waits, 1);
	leave(&there);
	await_waits(2);
	ck_assert_int_eq(memory_enter_ready(m, 0, &there.r, 1, 3, two), -EAGAIN);
	leave(&before);
	has_entered(&waits);
	leave(&waits);
}
END_TEST

/* One after the other, in the order in which they came. */
START_TEST(the_next_one_is_the_first)
{
	struct task before = task(two, 300), first = task(one, 800), next = task(two, 700),
		    small = task(one, 100);

	ck_assert_int_eq(enter(&before), 0);
	begin(&first, 1);
	begin(&next, 2);
	leave(&before);
	has_entered(&first);
	/* As soon as @next waits again, and is the first. */
	while (enter(&small))
		sched_yield();
	leave(&first);
	has_entered(&next);
	ck_assert_int_eq(memory_check(m), 0);
	leave(&small);
	leave(&next);
}
END_TEST

/* There is enough, but in pieces: then nobody else comes until it is of use. */
START_TEST(memory_has_gaps)
{
	struct task before = task(two, 400), waits = task(one, 700), small = task(two, 200);

	fake.most = 800;
	ck_assert_int_eq(enter(&before), 0);
	begin(&waits, 1);
	ck_assert_int_eq(enter(&small), 0);
	ck_assert_int_eq(try(two, 50), 0);
	await_waits(2);
	leave(&before);
	await_waits(3);
	ck_assert_int_eq(try(two, 50), -EAGAIN);
	leave(&small);
	has_entered(&waits);
	leave(&waits);
}
END_TEST

/* It waits no longer, and what was kept for it is others'; or not at all, if it was told before. */
START_TEST(who_waits_is_canceled)
{
	struct task before = task(two, 600), first = task(one, 800), next = task(one, 500),
		    late = task(one, 500);

	ck_assert_int_eq(enter(&before), 0);
	begin(&first, 1);
	begin(&next, 2);
	memory_cancel(m, 0, &next.until);
	ends(&next, -ECANCELED);
	ck_assert_int_eq(try(two, 300), -EAGAIN);
	memory_cancel(m, 0, &first.until);
	ends(&first, -ECANCELED);
	ck_assert_int_eq(try(two, 300), 0);
	memory_cancel(m, 0, &late.until);
	begin(&late, 3);
	ends(&late, -ECANCELED);
	leave(&before);
}
END_TEST

START_TEST(its_deadline_passes)
{
	struct task before = task(two, 600), first = task(one, 800), next = task(one, 500);

	ck_assert_int_eq(enter(&before), 0);
	first.until.deadline_ns = wait_now_ns() + 10000000;
	begin(&first, 1);
	next.until.deadline_ns = wait_now_ns() + 600000000000;
	begin(&next, 2);
	ends(&first, -ETIMEDOUT);
	leave(&before);
	has_entered(&next);
	leave(&next);
}
END_TEST

/* Tasks that use the same bytes, one beside the other without end, and one that needs all room. */
static void *go_on(void *arg)
{
	const bool *stop = arg;
	struct task t;

	t.r = (struct memory_range){
		.buffer = buffer, .access = ARAX_IN, .offset = 15000, .length = 400, .count = 1,
	};
	while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
		ck_assert_int_eq(memory_enter(m, 0, 1, &t.r, 1, 1, two), 0);
		leave(&t);
	}
	return NULL;
}

START_TEST(nobody_starves)
{
	struct task all;
	pthread_t small[3];
	bool stop = false;
	unsigned int i;

	for (i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&small[i], NULL, go_on, &stop), 0);
	for (i = 0; i < 100; i++) {
		used = 0;
		all = task(i % 2 ? one : two, ROOM);
		ck_assert_int_eq(memory_enter(m, 0, 0, &all.r, 1, 1, all.owner), 0);
		leave(&all);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		pthread_join(small[i], NULL);
}
END_TEST

/* Nobody goes for what the device has in no one piece. */
START_TEST(too_long_for_it)
{
	struct memory_ops ops = fake_ops;
	struct memory_stats s;

	memory_buffer_gone(m, buffer);
	memory_destroy(m);
	ops.largest = fake.most = 500;
	ck_assert_int_eq(memory_create(1, &m), 0);
	ck_assert_int_eq(memory_add_device(m, 0, &ops, &fake, ROOM), 0);
	buffer = memory_buffer_create(m, host, sizeof(host));
	ck_assert_int_eq(try(one, 300), 0);
	ck_assert_int_eq(try(two, 501), -EAGAIN);
	memory_query(m, 0, &s);
	ck_assert_uint_eq(s.used, 300);
}
END_TEST

TCase *room_case(void)
{
	TCase *c = tcase_create("room");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, its_own_tasks_are_in_the_way);
	tcase_add_test(c, what_it_needs_is_kept);
	tcase_add_test(c, who_is_ready_keeps_nobody_waiting);
	tcase_add_test(c, the_next_one_is_the_first);
	tcase_add_test(c, memory_has_gaps);
	tcase_add_test(c, who_waits_is_canceled);
	tcase_add_test(c, its_deadline_passes);
	tcase_add_test(c, nobody_starves);
	tcase_add_test(c, too_long_for_it);
	return c;
}
