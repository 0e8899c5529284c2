// SPDX-License-Identifier: MIT
/* memory_until - a task that is canceled, or late, while others' copies go on that it waits for */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/memory/internal.h"
#include "selftests/unit/memory_fake.h"
#include "selftests/unit/wait.h"
#include "uapi/arax.h"

#define MIB	(1024u * 1024u)
#define BYTES	(8 * MIB)
#define ROOM	(64 * MIB)	/* of each device */

static bool may_copy;		/* atomic: till then copies don't end, but for */
static int quick;		/* so many of them */
static int copying;		/* atomic: so many have begun */
static struct memory_buffer *other;
static uint8_t *other_host;

static void hold(void)
{
	if (__atomic_add_fetch(&copying, 1, __ATOMIC_RELEASE) <= quick)
		return;
	while (!__atomic_load_n(&may_copy, __ATOMIC_ACQUIRE))
		usleep(100);
}

static int held_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	hold();
	return fake_ops.copy_in(dev, lane, to, from, bytes);
}

static int held_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	hold();
	return fake_ops.copy_out(dev, lane, to, from, bytes);
}

static int held_alloc(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	hold();
	return fake_ops.alloc(dev, bytes, host, address);
}

static int held_peer(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes)
{
	hold();
	return fake_peer_ops.copy_peer(dev, to, src, from, bytes);
}

/* A second buffer, of as many bytes as a device has. */
static void start(bool peers)
{
	pair_start(BYTES);
	for (uint32_t i = 0; i < 2; i++) {
		struct memory_ops *ops = &pair.m->devices[i].ops;

		*ops = peers ? fake_peer_ops : fake_ops;
		ops->copy_in = held_in;
		ops->copy_out = held_out;
		ops->copy_peer = peers ? held_peer : NULL;
	}
	other_host = calloc(1, ROOM);
	ck_assert_ptr_nonnull(other_host);
	other = memory_buffer_create(pair.m, other_host, ROOM);
	ck_assert_ptr_nonnull(other);
	may_copy = true;
	quick = 0;
	copying = 0;
}

static void finish(void)
{
	memory_buffer_gone(pair.m, other);
	free(other_host);
	pair_finish();
}

static void write_to(uint32_t device, struct memory_range r, int c)
{
	ck_assert_int_eq(memory_enter(pair.m, device, 0, &r, 1, 1, nobody), 0);
	memset((void *)(uintptr_t)r.address, c, r.length);
	ck_assert_int_eq(memory_leave(pair.m, device, 0, &r, 1, 0), 0);
	memory_settle(pair.m, device, &r, 1, 1);
}

/**
 * struct task - one on a thread of its own
 * @flush:	it is the host that needs the range
 * @in_hand:	its thread has other tasks
 * @result:	what came of it, once it has @ended (atomic)
 */
struct task {
	struct memory_range r;
	uint32_t device;
	bool flush;
	bool in_hand;
	struct memory_until until;
	pthread_t thread;
	int result;
	bool ended;
};

static void *work(void *arg)
{
	struct task *t = arg;

	if (t->flush)
		t->result = memory_flush(pair.m, &t->r);
	else if (t->in_hand)
		t->result = memory_try_enter(pair.m, t->device, 0, &t->r, 1, 2, nobody);
	else
		t->result = memory_enter_until(pair.m, t->device, 0, &t->r, 1, 2, nobody,
					       &t->until);
	__atomic_store_n(&t->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct task *t)
{
	ck_assert_int_eq(pthread_create(&t->thread, NULL, work, t), 0);
}

static void leave(struct task *t)
{
	ck_assert_int_eq(memory_leave(pair.m, t->device, 0, &t->r, 1, 0), 0);
	memory_settle(pair.m, t->device, &t->r, 1, 2);
}

/* Its copy goes on until end_copies(). */
static void begin_copying(struct task *t)
{
	__atomic_store_n(&copying, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&may_copy, false, __ATOMIC_RELAXED);
	begin(t);
	ck_assert(comes_true(__atomic_load_n(&copying, __ATOMIC_ACQUIRE) > quick, 100));
}

static void end_copies(struct task *t)
{
	__atomic_store_n(&may_copy, true, __ATOMIC_RELEASE);
	pthread_join(t->thread, NULL);
	ck_assert_int_eq(t->result, 0);
}

/* It ends while that copy goes on, and does none of its own. */
static void expect_end(struct task *t, bool by_cancel)
{
	if (!by_cancel)
		t->until.deadline_ns = wait_now_ns() + 20000000;
	begin(t);
	usleep(20000);
	ck_assert(!by_cancel || !__atomic_load_n(&t->ended, __ATOMIC_ACQUIRE));
	if (by_cancel)
		memory_cancel(pair.m, t->device, &t->until);
	ck_assert_msg(comes_true(__atomic_load_n(&t->ended, __ATOMIC_ACQUIRE), 100),
		      "it waits for others' copies");
	pthread_join(t->thread, NULL);
	ck_assert_int_eq(t->result, by_cancel ? -ECANCELED : -ETIMEDOUT);
	ck_assert_int_eq(__atomic_load_n(&copying, __ATOMIC_RELAXED), quick + 1);
}

static void expect_host(uint64_t start, uint64_t bytes, int c)
{
	struct memory_range r = pair_range(ARAX_IN, start, bytes, 0, 1);
	uint64_t as_wanted = 0;

	ck_assert_int_eq(memory_flush(pair.m, &r), 0);
	for (uint64_t i = start; i < start + bytes; i++)
		as_wanted += pair.host[i] == c;
	ck_assert_uint_eq(as_wanted, bytes);
}

/* Somebody else needs bytes of the same buffer at the host, and that takes long. */
START_TEST(while_others_flush)
{
	struct task host = { .r = pair_range(ARAX_IN, 0, MIB, 0, 1), .flush = true }, task = host;

	start(false);
	task = (struct task){ .r = pair_range(ARAX_IN, 4 * MIB, MIB, 0, 1), .device = 1 };
	host.r.buffer = pair.buffer;
	task.r.buffer = pair.buffer;
	write_to(0, pair_range(ARAX_OUT, 0, MIB, 0, 1), 'a');
	write_to(0, pair_range(ARAX_OUT, 4 * MIB, MIB, 0, 1), 'b');
	begin_copying(&host);
	expect_end(&task, _i);
	end_copies(&host);
	ck_assert_int_eq(pair.host[MIB - 1], 'a');
	/* Of what it did not bring nothing counts as there. */
	task = (struct task){ .r = task.r, .device = 1 };
	task.r.extent = NULL;
	begin(&task);
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, 0);
	ck_assert_int_eq(*(char *)(uintptr_t)(task.r.address + MIB - 1), 'b');
	leave(&task);
	expect_host(4 * MIB, MIB, 'b');
	finish();
}
END_TEST

/* Another task loads what it needs as well; what that one has loaded by then stays trusted. */
START_TEST(while_others_load)
{
	struct task first = { .until.canceled = false }, task = first;

	start(false);
	first.r = pair_range(ARAX_IN, 0, 1024, 2048, 2);
	first.r.buffer = _i / 2 ? other : pair.buffer;
	task.r = first.r;
	quick = 1;
	begin_copying(&first);
	expect_end(&task, _i % 2);
	end_copies(&first);
	leave(&first);
	task = (struct task){ .r = task.r };
	task.r.extent = NULL;
	begin(&task);
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, 0);
	ck_assert_int_eq(copying, 2);
	leave(&task);
	finish();
}
END_TEST

/*
 * What has to go for it is somebody else's to save: he is at it, or has another part of the buffer
 * in hand.  It stays, for whoever comes next.
 */
START_TEST(while_others_save)
{
	struct task host = { .flush = true }, task = { .until.canceled = false };
	const bool another = _i / 2;

	start(false);
	host.r = pair_range(ARAX_IN, 0, MIB, 0, 1);
	task.r = pair_range(ARAX_IN, 0, ROOM - MIB / 2, 0, 1);
	task.r.buffer = other;
	write_to(0, pair_range(ARAX_OUT, 0, MIB, 0, 1), 'a');
	if (another)
		write_to(0, pair_range(ARAX_OUT, 4 * MIB, MIB, 0, 1), 'b');
	begin_copying(&host);
	expect_end(&task, _i % 2);
	end_copies(&host);
	ck_assert_int_eq(memory_check(pair.m), 0);
	/* The same again has the room. */
	task = (struct task){ .r = task.r };
	task.r.extent = NULL;
	begin(&task);
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, 0);
	leave(&task);
	expect_host(0, MIB, 'a');
	if (another)
		expect_host(4 * MIB, MIB, 'b');
	finish();
}
END_TEST

/* The device that has what it needs alone is copied from already. */
START_TEST(while_others_copy_from_there)
{
	struct task first = { .device = 1 }, task = { .device = 1 };

	start(true);
	first.r = pair_range(ARAX_IN, 0, MIB, 0, 1);
	task.r = pair_range(ARAX_IN, 4 * MIB, MIB, 0, 1);
	write_to(0, pair_range(ARAX_OUT, 0, MIB, 0, 1), 'a');
	write_to(0, pair_range(ARAX_OUT, 4 * MIB, MIB, 0, 1), 'b');
	begin_copying(&first);
	expect_end(&task, _i);
	end_copies(&first);
	leave(&first);
	expect_host(0, MIB, 'a');
	expect_host(4 * MIB, MIB, 'b');
	finish();
}
END_TEST

/* Another task enters, and what has to go for it is saved. */
START_TEST(while_others_enter)
{
	struct task first = { .until.canceled = false }, task = first;

	start(false);
	first.r = pair_range(ARAX_IN, 0, ROOM - MIB / 2, 0, 1);
	first.r.buffer = other;
	task.r = pair_range(ARAX_IN, 4 * MIB, MIB, 0, 1);
	write_to(0, pair_range(ARAX_OUT, 0, MIB, 0, 1), 'a');
	begin_copying(&first);
	expect_end(&task, _i);
	end_copies(&first);
	leave(&first);
	expect_host(0, MIB, 'a');
	finish();
}
END_TEST

/* Another one enters that has room beside it; also when there is room, and it is to enter next. */
START_TEST(while_it_waits_for_room)
{
	const bool cancel = _i % 2, room = _i / 2;
	struct task before = { .until.canceled = false }, small = before, task = before;

	start(false);
	before.r = pair_range(ARAX_IN, 0, ROOM / 2, 0, 1);
	task.r = pair_range(ARAX_IN, 0, ROOM - 4 * MIB, 0, 1);
	before.r.buffer = other;
	task.r.buffer = other;
	small.r = pair_range(ARAX_IN, 0, MIB, 0, 1);
	begin(&before);
	pthread_join(before.thread, NULL);
	if (!cancel)
		task.until.deadline_ns = wait_now_ns() + 1000000000;
	begin(&task);
	ck_assert(comes_true(__atomic_load_n(&task.until.waits, __ATOMIC_RELAXED), 100));
	pair.m->devices[0].ops.alloc = held_alloc;
	begin_copying(&small);
	if (room) {
		leave(&before);
		usleep(20000);
	}
	if (cancel)
		memory_cancel(pair.m, 0, &task.until);
	ck_assert_msg(comes_true(__atomic_load_n(&task.ended, __ATOMIC_ACQUIRE), 100),
		      "it waits for others");
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, cancel ? -ECANCELED : -ETIMEDOUT);
	end_copies(&small);
	leave(&small);
	if (!room)
		leave(&before);
	task.r.extent = NULL;
	ck_assert_int_eq(memory_enter(pair.m, 0, 0, &task.r, 1, 2, nobody), 0);
	leave(&task);
	finish();
}
END_TEST

/* Who is neither has its turn when that copy has ended. */
START_TEST(then_it_is_its_turn)
{
	struct task first = { .device = 1 }, task = { .device = 1 };

	start(false);
	first.r = pair_range(ARAX_IN, 0, MIB, 0, 1);
	task.r = pair_range(ARAX_IN, _i ? 0 : 4 * MIB, MIB, 0, 1);
	task.until.deadline_ns = wait_now_ns() + WAIT_S * 1000000000ull;
	write_to(0, pair_range(ARAX_OUT, 0, 5 * MIB, 0, 1), 'a');
	begin_copying(&first);
	begin(&task);
	usleep(20000);
	end_copies(&first);
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, 0);
	ck_assert_int_eq(*(char *)(uintptr_t)(task.r.address + MIB - 1), 'a');
	leave(&first);
	leave(&task);
	finish();
}
END_TEST

/* Who has other tasks in hand keeps these waiting for none of that: it comes again after them. */
START_TEST(with_others_in_hand)
{
	struct task first = { .device = 1 }, task = { .device = 1, .in_hand = true };

	start(false);
	first.r = pair_range(ARAX_IN, 0, MIB, 0, 1);
	task.r = pair_range(ARAX_IN, _i ? 0 : 4 * MIB, MIB, 0, 1);
	write_to(0, pair_range(ARAX_OUT, 0, MIB, 0, 1), 'a');
	write_to(0, pair_range(ARAX_OUT, 4 * MIB, MIB, 0, 1), 'b');
	begin_copying(&first);
	begin(&task);
	ck_assert_msg(comes_true(__atomic_load_n(&task.ended, __ATOMIC_ACQUIRE), 100),
		      "it waits for others' copies");
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, -EAGAIN);
	end_copies(&first);
	task = (struct task){ .r = task.r, .device = 1, .in_hand = true };
	task.r.extent = NULL;
	begin(&task);
	pthread_join(task.thread, NULL);
	ck_assert_int_eq(task.result, 0);
	leave(&task);
	leave(&first);
	finish();
}
END_TEST

TCase *until_case(void)
{
	TCase *c = tcase_create("until");

	tcase_set_timeout(c, 2 * WAIT_S);
	tcase_add_loop_test(c, while_others_flush, 0, 2);
	tcase_add_loop_test(c, while_others_load, 0, 4);
	tcase_add_loop_test(c, while_others_save, 0, 4);
	tcase_add_loop_test(c, while_others_copy_from_there, 0, 2);
	tcase_add_loop_test(c, while_others_enter, 0, 2);
	tcase_add_loop_test(c, while_it_waits_for_room, 0, 4);
	tcase_add_loop_test(c, then_it_is_its_turn, 0, 2);
	tcase_add_loop_test(c, with_others_in_hand, 0, 2);
	return c;
}
