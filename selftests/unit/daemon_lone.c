// SPDX-License-Identifier: MIT
/*
 * Tasks that run past the graph (daemon/dispatch/lone.h): which do, and that order, failures and
 * the end of their context are as if they did not.
 */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/dispatch/poller.h"
#include "selftests/unit/daemon_client.h"

#define PAGE		4096u
#define SHORT_US	1u
#define REFUSED_US	UINT32_MAX	/* more than the kernel spins for */
#define TRIES		8
/* 50 us are not long then: see take_entries(). */
#ifdef __SANITIZE_THREAD__
#define SLOW		1
#else
#define SLOW		0
#endif

static struct bench_daemon *d;
static struct client c;
static uint32_t kernel, queue, buffer, second;

static void attach(void)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };

	client_open(&c, daemon_path(d));
	ck_assert_int_eq(client_init(&c, 64), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	kernel = k.id;
	queue = client_queue(&c, ARAX_QUEUE_DATAFLOW);
	buffer = client_buffer(&c, PAGE, NULL, NULL);
	second = client_buffer(&c, PAGE, NULL, NULL);
}

static void up(void)
{
	/* Under a sanitizer all takes some times as long. */
	d = daemon_up_with("loop { inline_us = 400 }");
	attach();
}

static void down(void)
{
	client_close(&c);
	daemon_down(d);
}

static uint64_t nr_lone(void)
{
	return __atomic_load_n(&daemon_poller(d)->stats.lone, __ATOMIC_RELAXED);
}

static struct arax_task *entry(uint32_t handle, uint32_t us)
{
	return client_spin(&c, kernel, queue, handle, us);
}

static struct arax_completion await(int32_t result)
{
	struct arax_completion done;

	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, result);
	return done;
}

/* One after the other, so that it is known how short they are. */
static void run_short(int n)
{
	while (n--) {
		entry(buffer, SHORT_US);
		client_publish(&c);
		await(0);
	}
}

/* Whether there are lone ones of @n.  A busy machine makes some seem long: it may take more. */
static bool has_lone(int n)
{
	uint64_t before = nr_lone();
	int runs = n;

	run_short(n);
	for (int tries = 0; tries < TRIES && nr_lone() == before; tries++, runs += 3000)
		run_short(3000);
	ck_assert_uint_le(nr_lone(), before + (uint64_t)runs);
	return nr_lone() > before;
}

START_TEST(who_waits_for_each_has_lone_ones)
{
	run_short(300);
	ck_assert(has_lone(100));
}
END_TEST

/* Entries that are published together. */
static uint32_t row_begin(void)
{
	return c.sq_tail;
}

static struct arax_task *row_add(uint32_t handle, uint32_t us, uint64_t user_data)
{
	struct arax_task *t = entry(handle, us);

	t->user_data = user_data;
	c.sq_tail++;
	return t;
}

/* So many short ones at once, by two buffers; returns nr_lone() before. */
static uint64_t send_row(uint32_t nr, int tries)
{
	uint64_t before;
	uint32_t first, i;

	run_short(tries ? 3000 : 300);
	before = nr_lone();
	first = row_begin();
	for (i = 0; i < nr; i++)
		row_add(i % 3 ? second : buffer, SHORT_US, 10 + i);
	client_publish_from(&c, first);
	return before;
}

/*
 * Those of a row are, too, each when the one before it has ended.  There are more of them than are
 * committed together.
 */
START_TEST(so_have_rows)
{
	const uint32_t nr = 24, least = SLOW ? 2 : nr;
	bool enough = false, ordered;
	uint64_t before;
	uint32_t i;

	for (int tries = 0; tries < TRIES && !enough; tries++) {
		before = send_row(nr, tries);
		for (i = 0, ordered = true; i < nr; i++)
			ordered &= await(0).user_data == 10 + i;
		enough = nr_lone() >= before + least;
		ck_assert(ordered || nr_lone() < before + nr);
	}
	ck_assert(enough);
}
END_TEST

/* What kernels of libraries have: some more ranges than two, or more than a few arguments. */
struct wide {
	const char *name;
	uint32_t id, nr, arg_len;
	uint32_t args[9];
	uint32_t lacks;		/* bytes of the first range */
};

static float *words(uint32_t *handle)
{
	uint8_t *data;

	*handle = client_buffer(&c, PAGE, &data, NULL);
	ck_assert_ptr_ne(data, MAP_FAILED);
	return (float *)(void *)data;
}

/* One word of each buffer, all read but the last one. */
static void launch_knowing(const struct wide *w, const uint32_t *handles, uint32_t known)
{
	uint8_t *arena = c.region + c.layout.arena_offset;
	struct arax_task_ext *x = (void *)arena;
	struct arax_range *more = (void *)(x + 1);
	struct arax_task *t = client_spin(&c, w->id, queue, handles[0], 0);
	uint32_t i;

	for (i = 0; i < w->nr; i++)
		*(i < 2 ? &t->ranges[i] : &more[i - 2]) =
			whole(handles[i], i < w->nr - 1 ? ARAX_IN : ARAX_OUT, 4 + 4 * (w->nr == 5 && !i));
	t->nr_ranges = 2;
	t->flags = ARAX_TASK_EXT;
	t->ranges[0].length -= w->lacks;
	*x = (struct arax_task_ext){
		.size = sizeof(*x), .nr_ranges = (uint16_t)(w->nr - 2), .known = known,
	};
	if (w->arg_len > ARAX_INLINE_ARGS) {
		x->arg_len = (uint16_t)w->arg_len;
		memcpy(more + w->nr - 2, w->args, w->arg_len);
		t->arg_len = 0;
	} else {
		memcpy(t->args, w->args, w->arg_len);
		t->arg_len = (uint8_t)w->arg_len;
	}
	client_publish(&c);
}

static void launch_wide(const struct wide *w, const uint32_t *handles)
{
	launch_knowing(w, handles, 0);
}

/* y = 3 * x, and 3 * x + 2. */
static void run_wide(const struct wide *w, int n)
{
	const bool sparse = w->nr == 5;
	uint32_t handles[5];
	float *p[5];

	for (uint32_t i = 0; i < w->nr; i++)
		p[i] = words(&handles[i]);
	if (sparse) {
		((uint32_t *)(void *)p[0])[1] = 1;
		p[2][0] = 3;
	} else {
		p[1][0] = 3;
		p[2][0] = 2;
	}
	for (int i = 0; i < n; i++) {
		p[sparse ? 3 : 0][0] = (float)i;
		launch_wide(w, handles);
		await(0);
		ck_assert_float_eq(p[w->nr - 1][0], 3 * (float)i + (sparse ? 0 : 2));
	}
	for (uint32_t i = 0; i < w->nr; i++)
		munmap(p[i], PAGE);
}

START_TEST(so_have_those_with_more_ranges_and_arguments)
{
	/* rows, cols, nnz; batch, channels, height, width, filters, kernel's sides, stride, pad. */
	struct wide of[] = {
		{ "spmv", 0, 5, 12, { 1, 1, 1 }, 0 },
		{ "conv2d_f32", 0, 4, 36, { 1, 1, 1, 1, 1, 1, 1, 1, 0 }, 0 },
	};

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("loop { inline_us = 400 } cpu { groups = { \"0\" } }");
	attach();
	for (uint32_t i = 0; i < 2; i++) {
		struct arax_kernel_lookup k = { .size = sizeof(k) };
		bool lone = false;

		strcpy(k.name, of[i].name);
		ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
		of[i].id = k.id;
		run_wide(&of[i], 300);
		for (int tries = 0; tries < TRIES && !lone; tries++) {
			uint64_t before = nr_lone();

			run_wide(&of[i], tries ? 3000 : 300);
			lone = nr_lone() > before;
		}
		ck_assert(lone);
	}
}
END_TEST

/* Who doesn't know of it depends on it by @handle, and by nothing else. */
static void reaches_dependents(const struct arax_completion *failed, uint32_t handle, uint32_t known)
{
	struct arax_completion done;

	entry(handle, SHORT_US)->known = known;
	client_publish(&c);
	done = await(-ECANCELED);
	ck_assert_uint_eq(done.origin, failed->tag);
	entry(second, SHORT_US)->known = known;
	client_publish(&c);
	await(0);
}

/* One of them that fails enters the graph with all that it has, so that others depend on it. */
START_TEST(so_does_one_of_them_fail)
{
	struct wide w = { "conv2d_f32", 0, 4, 36, { 1, 1, 1, 1, 1, 1, 1, 1, 0 }, 0 };
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "conv2d_f32" };
	struct arax_completion failed;
	uint32_t handles[4], known = 0;
	bool lone = false;

	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	w.id = k.id;
	for (uint32_t i = 0; i < 4; i++)
		handles[i] = client_buffer(&c, PAGE, NULL, NULL);
	for (int tries = 0; tries < TRIES && !lone; tries++) {
		uint64_t before;

		w.lacks = 0;
		for (int i = 0; i < (tries ? 3000 : 300); i++) {
			launch_knowing(&w, handles, known);
			await(0);
		}
		before = nr_lone();
		w.lacks = 4;
		launch_knowing(&w, handles, known);
		failed = await(-EINVAL);
		lone = nr_lone() > before;
		ck_assert_uint_eq(failed.failure, known + 1);
		/* By the last of its ranges. */
		reaches_dependents(&failed, handles[3], known);
		known = failed.failure;
	}
	ck_assert(lone);
}
END_TEST

static const struct link_ops *link_ops;
static uint32_t tells, tells_late;

static void commit_and_look(struct link *l)
{
	tells++;
	tells_late += __atomic_load_n(&l->page->head, __ATOMIC_RELAXED) != l->head;
	link_ops->commit(l);
}

static void look_at_commits(struct work *w)
{
	struct link *l = daemon_poller(d)->links[0];
	static struct link_ops ops;

	tells = tells_late = 0;
	link_ops = l->ops;
	ops = *link_ops;
	ops.commit = commit_and_look;
	l->ops = &ops;
}

static void look_no_more(struct work *w)
{
	daemon_poller(d)->links[0]->ops = link_ops;
}

/* In the midst of a row, too: with a small ring there may be tasks that wait for its room. */
START_TEST(the_core_knows_of_room_when_it_is_told)
{
	static struct work look = { .run = look_at_commits }, no_more = { .run = look_no_more };
	const uint32_t nr = 24, least = SLOW ? 2 : nr;
	bool enough = false;
	uint64_t before;
	uint32_t i;

	poller_post(daemon_poller(d), &look);
	for (int tries = 0; tries < TRIES && !enough; tries++) {
		before = send_row(nr, tries);
		for (i = 0; i < nr; i++)
			await(0);
		enough = nr_lone() >= before + least;
	}
	ck_assert(enough);
	poller_post(daemon_poller(d), &no_more);
	client_close(&c);
	daemon_down(d);
	ck_assert_uint_gt(tells, 0);
	ck_assert_uint_eq(tells_late, 0);
	up();
}
END_TEST

/* What comes behind one that fails is its dependent or not, as if it had been in the graph. */
START_TEST(one_of_a_row_fails)
{
	struct arax_completion failed = { 0 };
	bool lone = false;
	uint32_t known = 0, first, i;
	uint64_t before;

	for (int tries = 0; tries < TRIES && !lone; tries++) {
		for (i = 0; i < (tries ? 3000 : 300); i++) {
			entry(buffer, SHORT_US)->known = known;
			client_publish(&c);
			await(0);
		}
		before = nr_lone();
		first = row_begin();
		row_add(buffer, SHORT_US, 10)->known = known;
		row_add(buffer, REFUSED_US, 11)->known = known;
		row_add(second, SHORT_US, 12)->known = known;
		row_add(buffer, SHORT_US, 13)->known = known;
		row_add(second, SHORT_US, 14)->known = known;
		client_publish_from(&c, first);
		for (i = 0; i < 5; i++) {
			struct arax_completion done;

			ck_assert(client_completion(&c, &done));
			if (done.user_data == 11) {
				ck_assert_int_eq(done.result, -EINVAL);
				ck_assert_uint_eq(done.failure, known + 1);
				failed = done;
			} else if (done.user_data == 13) {
				ck_assert_int_eq(done.result, -ECANCELED);
				ck_assert_uint_eq(done.origin, failed.tag);
			} else {
				ck_assert_int_eq(done.result, 0);
			}
		}
		known = failed.failure;
		/* Before the failure; who knows of it alone may be one again. */
		lone = nr_lone() >= before + 2;
	}
	ck_assert(lone);
}
END_TEST

/* Behind one that runs on there are others in the ring, of which its dependent waits. */
START_TEST(one_of_a_row_runs_on)
{
	uint64_t stolen = daemon_stolen(d), before, got[4];
	bool proven = false;
	uint32_t first, i;

	for (int tries = 0; tries < TRIES && !proven; tries++) {
		run_short(tries ? 3000 : 300);
		before = nr_lone();
		first = row_begin();
		row_add(second, SHORT_US, 10);
		row_add(buffer, 500000, 11);
		row_add(buffer, SHORT_US, 12);
		row_add(second, SHORT_US, 13);
		client_publish_from(&c, first);
		for (i = 0; i < 4; i++)
			got[i] = await(0).user_data;
		ck_assert_uint_eq(got[0], 10);
		ck_assert(got[1] == 11 || (got[1] == 13 && got[2] == 11 && got[3] == 12));
		proven = nr_lone() >= before + 2 && got[1] == 13 && daemon_stolen(d) > stolen;
	}
	ck_assert(proven);
	ck_assert(has_lone(3000));
}
END_TEST

/* What ran before one that runs on is told by who takes the role, before he runs another such. */
START_TEST(what_ended_is_told_by_who_takes_over)
{
	const uint32_t third = client_buffer(&c, PAGE, NULL, NULL);
	bool proven = false;

	for (int tries = 0; tries < TRIES && !proven; tries++) {
		struct arax_completion done;
		uint64_t stolen, told;
		uint32_t first;

		run_short(tries ? 3000 : 300);
		stolen = daemon_stolen(d);
		first = row_begin();
		row_add(second, SHORT_US, 10);
		row_add(buffer, 500000, 11);
		row_add(third, 500000, 12);
		client_publish_from(&c, first);
		done = await(0);
		told = daemon_stolen(d);
		ck_assert_uint_eq(done.user_data, 10);
		await(0);
		await(0);
		proven = told == stolen + 1 && daemon_stolen(d) > told;
	}
	ck_assert(proven);
}
END_TEST

/* A row of one link is told before another link's tasks run. */
START_TEST(another_link_keeps_no_row_waiting)
{
	uint32_t q, h, first;
	bool proven = false;
	struct client other;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_twice("loop { inline_us = 400 }");
	attach();
	client_open(&other, daemon_second_path(d));
	ck_assert_int_eq(client_init(&other, 64), 0);
	q = client_queue(&other, ARAX_QUEUE_DATAFLOW);
	h = client_buffer(&other, PAGE, NULL, NULL);
	for (int tries = 0; tries < 4 * TRIES && !proven; tries++) {
		struct arax_completion done;
		uint64_t stolen, told, lone;

		for (int i = 0; i < 300; i++) {
			client_spin(&other, kernel, q, h, SHORT_US);
			client_publish(&other);
			ck_assert(client_completion(&other, &done));
		}
		run_short(tries ? 3000 : 300);
		stolen = daemon_stolen(d);
		lone = nr_lone();
		first = row_begin();
		row_add(buffer, 15, 10);
		row_add(second, SHORT_US, 11);
		client_spin(&other, kernel, q, h, 300000);
		client_publish_from(&c, first);
		client_publish(&other);
		await(0);
		await(0);
		told = daemon_stolen(d);
		ck_assert(client_completion(&other, &done));
		proven = nr_lone() >= lone + 2 && told == stolen && daemon_stolen(d) > stolen;
	}
	ck_assert(proven);
	client_close(&other);
}
END_TEST

/* Who keeps the ring full of such, each behind the one before it, keeps nobody else waiting. */
START_TEST(others_pass_a_long_row)
{
	const uint32_t nr = 512;
	uint32_t q, h, passed = 0;
	struct client many;

	client_open(&many, daemon_path(d));
	ck_assert_int_eq(client_init(&many, nr), 0);
	q = client_queue(&many, 0);
	h = client_buffer(&many, PAGE, NULL, NULL);
	for (uint32_t tries = 0; tries < TRIES; tries++) {
		struct arax_completion done;

		run_short(tries ? 3000 : 300);
		for (uint32_t i = 0; i < nr; i++, many.sq_tail++)
			client_spin(&many, kernel, q, h, 40);
		client_publish_from(&many, many.sq_tail - nr);
		usleep(5000);
		entry(buffer, SHORT_US);
		client_publish(&c);
		await(0);
		/* The last one's place: that one has not ended. */
		many.cq_head += nr - 1;
		passed += !client_has_completion(&many);
		many.cq_head -= nr - 1;
		for (uint32_t i = 0; i < nr; i++)
			ck_assert(client_completion(&many, &done));
	}
	ck_assert_uint_gt(passed, TRIES / 2);
	client_close(&many);
}
END_TEST

/* Entries that the core refuses, for which it has to look at much. */
static uint32_t prepare_refused(struct client *to, uint32_t q, uint32_t handle)
{
	struct arax_task_ext *x = (void *)(to->region + to->layout.arena_offset);
	struct arax_range *more = (void *)(x + 1);
	const uint32_t first = to->sq_tail, nr = ARAX_MAX_RANGES - 2;

	*x = (struct arax_task_ext){
		.size = sizeof(*x), .nr_ranges = nr, .arg_len = ARAX_MAX_ARGS,
	};
	for (uint32_t i = 0; i < nr; i++)
		more[i] = whole(handle, ARAX_IN, 64);
	for (uint32_t i = 0; i < 16; i++, to->sq_tail++) {
		struct arax_task *t = client_spin(to, UINT32_MAX >> 1, q, handle, 1);

		t->nr_ranges = 2;
		t->ranges[1] = t->ranges[0];
		t->arg_len = 0;
		t->flags = ARAX_TASK_EXT;
	}
	return first;
}

/* What others submit beside it is not its time, though araxd wakes up for all of them. */
START_TEST(others_submissions_are_their_own)
{
	uint32_t queues[2], handles[2], firsts[2], charged = 0, seen = 0;
	struct client others[2];

	for (uint32_t i = 0; i < 2; i++) {
		client_open(&others[i], daemon_path(d));
		ck_assert_int_eq(client_init(&others[i], 64), 0);
		handles[i] = client_buffer(&others[i], PAGE, NULL, NULL);
		queues[i] = client_queue(&others[i], 0);
	}
	run_short(300);
	for (int tries = 0; tries < 200; tries++) {
		struct arax_completion done;
		uint64_t lone, alone_ns;

		run_short(10);
		entry(buffer, SHORT_US);
		daemon_await_sleep(d);
		client_publish(&c);
		alone_ns = await(0).device_ns;
		for (uint32_t i = 0; i < 2; i++)
			firsts[i] = prepare_refused(&others[i], queues[i], handles[i]);
		entry(buffer, SHORT_US);
		daemon_await_sleep(d);
		lone = nr_lone();
		client_publish(&c);
		for (uint32_t i = 0; i < 2; i++)
			client_publish_from(&others[i], firsts[i]);
		done = await(0);
		if (nr_lone() > lone) {
			seen++;
			charged += done.device_ns > 3 * alone_ns;
		}
		for (uint32_t i = 0; i < 32; i++) {
			ck_assert(client_completion(&others[i % 2], &done));
			ck_assert_int_eq(done.result, -ENOENT);
		}
	}
	ck_assert_uint_gt(seen, 20);
	ck_assert_uint_lt(charged, seen / 4);
	client_close(&others[0]);
	client_close(&others[1]);
}
END_TEST

/* Nor is what it takes to queue their tasks. */
START_TEST(to_queue_others_is_not_its_time)
{
	uint32_t queues[4], handles[4], firsts[4], charged = 0;
	struct arax_completion done;
	struct client others[4];

	for (uint32_t i = 0; i < 4; i++) {
		client_open(&others[i], daemon_path(d));
		ck_assert_int_eq(client_init(&others[i], 64), 0);
		handles[i] = client_buffer(&others[i], PAGE, NULL, NULL);
		queues[i] = client_queue(&others[i], ARAX_QUEUE_DATAFLOW);
	}
	for (uint32_t i = 0; i < 300; i++) {
		client_fill(&c, queue, buffer, 64, 1, 1);
		await(0);
	}
	for (uint32_t tries = 0; tries < 200; tries++) {
		uint64_t alone_ns;

		daemon_await_sleep(d);
		client_fill(&c, queue, buffer, 64, 1, 1);
		alone_ns = await(0).device_ns;
		for (uint32_t i = 0; i < 4; i++) {
			firsts[i] = others[i].sq_tail;
			for (uint32_t j = 0; j < 16; j++, others[i].sq_tail++) {
				struct arax_task *t = client_entry(&others[i]);

				t->opcode = ARAX_OP_FILL;
				t->nr_ranges = 1;
				t->queue = queues[i];
				t->arg_len = 4;
				t->ranges[0] = whole(handles[i], ARAX_OUT, 64);
				t->ranges[0].offset = j * 64;
			}
		}
		daemon_await_sleep(d);
		client_fill(&c, queue, buffer, 64, 1, 1);
		for (uint32_t i = 0; i < 4; i++)
			client_publish_from(&others[i], firsts[i]);
		charged += await(0).device_ns > 3 * alone_ns;
		for (uint32_t i = 0; i < 64; i++) {
			ck_assert(client_completion(&others[i % 4], &done));
			ck_assert_int_eq(done.result, 0);
		}
	}
	ck_assert_uint_lt(charged, 50);
	for (uint32_t i = 0; i < 4; i++)
		client_close(&others[i]);
}
END_TEST

/*
 * A failure has a number, and reaches who depends on it and did not know of it when it was
 * submitted, though nothing of it was in the graph when it failed.
 */
START_TEST(failures_have_numbers)
{
	struct arax_completion failed;
	uint64_t before;
	bool lone = false;
	uint32_t known = 0, tries;

	for (tries = 0; tries < TRIES && !lone; tries++) {
		for (int i = 0; i < (tries ? 3000 : 300); i++) {
			entry(buffer, SHORT_US)->known = known;
			client_publish(&c);
			await(0);
		}
		before = nr_lone();
		entry(buffer, REFUSED_US)->known = known;
		client_publish(&c);
		failed = await(-EINVAL);
		lone = nr_lone() > before;
		ck_assert_uint_eq(failed.failure, known + 1);
		ck_assert_uint_eq(failed.origin, 0);
		reaches_dependents(&failed, buffer, known);
		known = failed.failure;
		/* Who knows does not. */
		entry(buffer, SHORT_US)->known = known;
		client_publish(&c);
		await(0);
	}
	ck_assert(lone);
}
END_TEST

/* Starts one that takes @us, as one that is known to be short.  Whether the poller ran it. */
static bool run_long(uint32_t us, int tries)
{
	uint64_t before;

	run_short(tries ? 3000 : 300);
	before = nr_lone();
	entry(buffer, us)->user_data = 1;
	client_publish(&c);
	usleep(2000);
	return nr_lone() > before;
}

/*
 * One that runs on is seen to by another thread: what needs nothing of it passes it, and what
 * does waits, though the graph did not know of it when it began.
 */
START_TEST(others_wait_for_one_that_runs_on)
{
	uint64_t stolen = daemon_stolen(d), first, next;
	bool proven = false;
	uint32_t us = 500000;
	int tries;

	for (tries = 0; tries < TRIES && !proven; tries++) {
		bool lone = run_long(us, tries), passed;

		entry(buffer, SHORT_US)->user_data = 2;
		client_publish(&c);
		entry(second, SHORT_US)->user_data = 3;
		client_publish(&c);
		first = await(0).user_data;
		next = await(0).user_data;
		passed = first == 3;
		/* Where it is over before they come, they have a device each: either may end first. */
		ck_assert(passed ? next == 1 : first == 1 && (next == 2 || next == 3));
		ck_assert_uint_eq(await(0).user_data, 6 - first - next);
		proven = lone && passed && daemon_stolen(d) > stolen;
		us = us < 4000000 ? 2 * us : us;
	}
	ck_assert(proven);
	/* And afterwards all is as before. */
	ck_assert(has_lone(3000));
}
END_TEST

/* It was taken off the ring, though who took it did not come to say so: nothing keeps anybody awake. */
START_TEST(nobody_stays_awake_for_one_that_ran_on)
{
	uint64_t stolen = daemon_stolen(d);
	bool proven = false;
	int tries;

	for (tries = 0; tries < TRIES && !proven; tries++) {
		bool lone = run_long(200000, tries);

		await(0);
		proven = lone && daemon_stolen(d) > stolen;
		if (proven)
			daemon_await_sleep(d);
	}
	ck_assert(proven);
}
END_TEST

/* A short one that has to wait for another is not lone, though the ring has nothing else. */
START_TEST(what_the_graph_holds_comes_first)
{
	struct arax_timeline_create tl = { .size = sizeof(tl) };
	struct arax_timeline_point at = { .size = sizeof(at), .value = 1 };
	struct arax_task_ext *x = (void *)(c.region + c.layout.arena_offset);
	uint64_t before;
	struct arax_task *t;
	int i;

	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tl), 0);
	run_short(300);
	*x = (struct arax_task_ext){
		.size = sizeof(*x), .wait_timeline = tl.handle, .wait_value = 1,
	};
	t = entry(buffer, SHORT_US);
	t->flags = ARAX_TASK_EXT;
	t->user_data = 1;
	client_publish(&c);
	usleep(2000);
	before = nr_lone();
	for (i = 0; i < 10; i++) {
		entry(buffer, SHORT_US)->user_data = 2;
		client_publish(&c);
		usleep(100);
	}
	ck_assert_uint_eq(nr_lone(), before);
	ck_assert(!client_has_completion(&c));
	at.handle = tl.handle;
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_ADVANCE, &at), 0);
	ck_assert_uint_eq(await(0).user_data, 1);
	for (i = 0; i < 10; i++)
		ck_assert_uint_eq(await(0).user_data, 2);
}
END_TEST

/* A queue that has the handle of an earlier one, of the other kind: the graph had a task of that. */
static void give_handle_again(void)
{
	struct arax_handle a = { .size = sizeof(a) };
	const uint32_t first = queue;

	run_short(1);
	do {
		a.handle = queue;
		ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_DESTROY, &a), 0);
		queue = client_queue(&c, 0);
	} while (queue != first);
}

START_TEST(a_handle_is_given_again)
{
	struct arax_completion done;
	bool proven = false;
	struct client other;
	uint32_t q, h;
	int tries;

	give_handle_again();
	ck_assert(has_lone(300));
	/* One that runs on keeps nobody else waiting. */
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	q = client_queue(&other, 0);
	h = client_buffer(&other, PAGE, NULL, NULL);
	for (tries = 0; tries < TRIES && !proven; tries++) {
		bool lone = run_long(500000, tries);

		client_fill(&other, q, h, PAGE, 1, 1);
		ck_assert(client_completion(&other, &done));
		proven = lone && !client_has_completion(&c);
		await(0);
	}
	ck_assert(proven);
	client_close(&other);
}
END_TEST

/* Its context goes, with what waits for it. */
START_TEST(its_context_goes_while_it_runs)
{
	struct client other;
	uint32_t q, h;
	int tries;

	for (tries = 0; tries < TRIES && !run_long(500000, tries); tries++)
		await(0);
	ck_assert_int_lt(tries, TRIES);
	entry(buffer, SHORT_US);
	client_publish(&c);
	client_close(&c);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	q = client_queue(&other, 0);
	h = client_buffer(&other, PAGE, NULL, NULL);
	for (uint32_t i = 0; i < 100; i++) {
		struct arax_completion done;

		client_fill(&other, q, h, PAGE, i, i);
		ck_assert(client_completion(&other, &done));
		ck_assert_int_eq(done.result, 0);
	}
	c = other;
}
END_TEST

/* araxd ends while it runs, and waits for it. */
START_TEST(the_end_waits_for_it)
{
	int tries;

	for (tries = 0; tries < TRIES && !run_long(300000, tries); tries++)
		await(0);
	ck_assert_int_lt(tries, TRIES);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lone tasks");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 300);
	tcase_add_checked_fixture(t, up, down);
	tcase_add_test(t, who_waits_for_each_has_lone_ones);
	tcase_add_test(t, so_have_rows);
	tcase_add_test(t, so_have_those_with_more_ranges_and_arguments);
	tcase_add_test(t, so_does_one_of_them_fail);
	tcase_add_test(t, the_core_knows_of_room_when_it_is_told);
	tcase_add_test(t, one_of_a_row_fails);
	tcase_add_test(t, one_of_a_row_runs_on);
	tcase_add_test(t, what_ended_is_told_by_who_takes_over);
	tcase_add_test(t, another_link_keeps_no_row_waiting);
	tcase_add_test(t, others_pass_a_long_row);
	tcase_add_test(t, others_submissions_are_their_own);
	tcase_add_test(t, to_queue_others_is_not_its_time);
	tcase_add_test(t, failures_have_numbers);
	tcase_add_test(t, others_wait_for_one_that_runs_on);
	tcase_add_test(t, nobody_stays_awake_for_one_that_ran_on);
	tcase_add_test(t, what_the_graph_holds_comes_first);
	tcase_add_test(t, a_handle_is_given_again);
	tcase_add_test(t, its_context_goes_while_it_runs);
	tcase_add_test(t, the_end_waits_for_it);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
