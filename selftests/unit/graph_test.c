// SPDX-License-Identifier: MIT
/* graph_test - the dependency graph against a plain model, and by example */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph.h"
#include "daemon/graph/shape.h"
#include "selftests/unit/graph_model.h"

static uint64_t rng;

static uint32_t draw(void *arg, uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 20) % n;
}

static bool more(void *arg)
{
	return true;
}

static unsigned int scale(unsigned int n)
{
	const char *s = getenv("GRAPH_TEST_SCALE");
	double f = s ? atof(s) : 1;

	return n * f < 1 ? 1 : n * f;
}

static void rounds(struct graph_model_params p, unsigned int n)
{
	p.draw = draw;
	p.more = more;
	for (unsigned int i = 0; i < scale(n); i++) {
		rng = (i + 1) * 0x9e3779b97f4a7c15ull;
		ck_assert_msg(!graph_model_run(&p), "round %u", i);
	}
}

START_TEST(model_ranges)
{
	rounds((struct graph_model_params){
		.tasks = 60, .inflight = 24, .contexts = 1, .queues = 1,
		.exact_failures = true,
	}, 2000);
}
END_TEST

START_TEST(model_strided)
{
	rounds((struct graph_model_params){
		.tasks = 60, .inflight = 24, .contexts = 2, .queues = 2,
		.strided = true, .exact_failures = true,
	}, 2000);
}
END_TEST

START_TEST(model_queues)
{
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 2, .queues = 4,
		.in_order = true, .barriers = true, .strided = true,
		.exact_failures = true,
	}, 2000);
}
END_TEST

START_TEST(model_failures)
{
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 2, .queues = 3,
		.in_order = true, .barriers = true, .strided = true,
		.failures = true, .exact_failures = true,
	}, 2000);
}
END_TEST

START_TEST(model_continue)
{
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 1, .queues = 3,
		.barriers = true, .failures = true, .continues = true,
		.exact_failures = true,
	}, 2000);
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 1, .queues = 3,
		.in_order = true, .barriers = true, .failures = true, .continues = true,
		.exact_failures = true,
	}, 1000);
}
END_TEST

START_TEST(model_everything)
{
	rounds((struct graph_model_params){
		.tasks = 120, .inflight = 40, .contexts = 3, .queues = 3,
		.in_order = true, .barriers = true, .strided = true,
		.failures = true, .cancels = true, .blocks = true,
		.deadlines = true, .gone = true, .exact_failures = true,
	}, 4000);
	rounds((struct graph_model_params){
		.tasks = 120, .inflight = 40, .contexts = 3, .queues = 3,
		.in_order = true, .barriers = true, .strided = true,
		.failures = true, .cancels = true, .blocks = true,
		.deadlines = true, .gone = true, .continues = true,
	}, 2000);
}
END_TEST

START_TEST(model_followers)
{
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 2, .queues = 3,
		.in_order = true, .barriers = true, .strided = true,
		.failures = true, .exact_failures = true, .follows = true,
	}, 2000);
	rounds((struct graph_model_params){
		.tasks = 80, .inflight = 32, .contexts = 2, .queues = 3,
		.in_order = true, .barriers = true, .continues = true, .failures = true,
		.cancels = true, .blocks = true, .deadlines = true, .gone = true,
		.follows = true,
	}, 2000);
}
END_TEST

/* So much overlap that tasks are fenced: they wait long, but never too short. */
START_TEST(model_fences)
{
	uint64_t fences = 0;

	rounds((struct graph_model_params){
		.fences = &fences,
		.tasks = 1500, .inflight = 900, .contexts = 1, .queues = 2,
		.in_order = true, .loose = true, .hulls = true,
		.failures = true, .cancels = true,
	}, 10);
	ck_assert_uint_gt(fences, 0);
	fences = 0;
	rounds((struct graph_model_params){
		.fences = &fences,
		.tasks = 1500, .inflight = 900, .contexts = 1, .queues = 1,
		.loose = true, .hulls = true, .barriers = true,
	}, 10);
	ck_assert_uint_gt(fences, 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Shapes, byte by byte                                                */

static void random_shape(struct shape *s, uint8_t *bytes)
{
	struct arax_dispatch_range r = {
		.offset = draw(NULL, 40), .length = 1 + draw(NULL, 12),
		.count = 1 + draw(NULL, 9),
	};

	r.stride = r.length + draw(NULL, 9);
	ck_assert_int_eq(shape_from_range(s, &r), 1);
	memset(bytes, 0, 256);
	for (unsigned int i = 0; i < r.count; i++)
		memset(bytes + r.offset + i * r.stride, 1, r.length);
	ck_assert_uint_eq(shape_end(s), r.offset + (r.count - 1) * r.stride + r.length);
}

START_TEST(shapes_are_exact)
{
	unsigned int contained = 0;

	rng = 77;
	for (unsigned int round = 0; round < scale(2000000); round++) {
		uint8_t x[256], y[256];
		bool overlap = false, contains = true;
		struct shape a, b;

		random_shape(&a, x);
		random_shape(&b, y);
		if (round % 2) {
			b.stride = b.count > 1 && a.count > 1 && a.stride > b.length ?
				   a.stride : b.stride;
			memset(y, 0, 256);
			for (unsigned int i = 0; i < b.count; i++)
				memset(y + b.offset + i * b.stride, 1, b.length);
		}
		for (unsigned int i = 0; i < 256; i++) {
			overlap |= x[i] && y[i];
			contains &= x[i] || !y[i];
		}
		ck_assert_int_eq(shape_overlap(&a, &b), overlap);
		ck_assert_int_eq(shape_overlap(&b, &a), overlap);
		if (shape_contains(&a, &b)) {
			ck_assert(contains);
			contained++;
		} else if (contains) {
			ck_assert_uint_gt(a.count, 1);
		}
	}
	ck_assert_uint_gt(contained, 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* By example                                                          */

struct entry {
	struct arax_dispatch d;
	struct arax_dispatch_range r[ARAX_MAX_RANGES];
	char args[ARAX_MAX_ARGS];
};

static struct graph *g;
static struct entry e;

static void setup(void)
{
	g = graph_create(&(struct graph_params){ .slots = 70000, .place = 3 });
	ck_assert_ptr_nonnull(g);
}

static void teardown(void)
{
	ck_assert_int_eq(graph_check(g), 0);
	graph_destroy(g);
}

/* Of the last one that failed by itself. */
static uint32_t failure;

static uint64_t tag(uint32_t i)
{
	return 1ull << 48 | 1ull << 24 | i;
}

static struct entry *task(uint32_t slot, uint32_t queue, uint8_t queue_flags)
{
	memset(&e.d, 0, sizeof(e.d));
	e.d.type = ARAX_DISPATCH_TASK;
	e.d.cells = 2;
	e.d.tag = tag(slot);
	e.d.context = 1;
	e.d.queue = queue;
	e.d.queue_flags = queue_flags;
	return &e;
}

static void range(struct entry *t, unsigned int access, uint64_t buffer,
		  uint64_t offset, uint64_t length)
{
	unsigned int i = t->d.nr_ranges++;

	t->d.access |= (uint64_t)access << 2 * i;
	t->d.cells = 2 + (i + 2) / 2;
	t->r[i] = (struct arax_dispatch_range){
		.buffer = buffer, .offset = offset, .length = length, .count = 1,
	};
}

static void add(struct entry *t)
{
	ck_assert_int_eq(graph_add(g, &t->d), 0);
}

static struct graph_node *pop(uint32_t slot)
{
	struct graph_node *n = graph_pop_ready(g);

	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.tag, tag(slot));
	return n;
}

#define DF ARAX_QUEUE_DATAFLOW

START_TEST(refuses_bad_entries)
{
	struct entry *t = task(1, 1, DF);

	t->d.type = ARAX_DISPATCH_CANCEL;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(70000, 1, DF);
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	range(t, ARAX_IN, 1, 0, 8);
	t->d.cells = 2;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	t->d.arg_len = 17;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	t->d.nr_ranges = ARAX_MAX_RANGES + 1;
	t->d.cells = 100;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	t->d.arg_len = ARAX_MAX_ARGS + 1;
	t->d.cells = 100;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	range(t, 0, 1, 0, 8);
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	range(t, ARAX_IN, 1, ~0ull, 8);
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	range(t, ARAX_IN, 1, 0, ~0ull);
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t = task(1, 1, DF);
	range(t, ARAX_IN, 1, 0, 8);
	t->r[0].count = 0;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t->r[0].count = 2;
	t->r[0].stride = 7;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);
	t->r[0].count = ~0u;
	t->r[0].stride = ~0u;
	ck_assert_int_eq(graph_add(g, &t->d), -EINVAL);

	/* None of these left anything behind. */
	add(task(1, 1, DF));
	ck_assert_int_eq(graph_add(g, &task(1, 1, DF)->d), -EEXIST);
	graph_complete(g, pop(1), 0, NULL);
	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert_ptr_null(graph_create(&(struct graph_params){ .slots = 0 }));
	ck_assert_ptr_null(graph_create(&(struct graph_params){ .slots = (1u << 24) + 1 }));
}
END_TEST

START_TEST(copies_everything)
{
	struct entry *t = task(1, 1, DF);
	struct graph_node *n;
	char *args;

	for (unsigned int i = 0; i < ARAX_MAX_RANGES; i++)
		range(t, ARAX_OUT, 1, i * 64, 32 + i);
	t->d.arg_len = ARAX_MAX_ARGS;
	t->d.cells += ARAX_MAX_ARGS / ARAX_CELL_SIZE;
	args = (char *)(t->r + t->d.nr_ranges);
	for (unsigned int i = 0; i < ARAX_MAX_ARGS; i++)
		args[i] = i * 7;
	add(t);
	memset(t->r, 0xee, sizeof(t->r));
	memset(args, 0xee, ARAX_MAX_ARGS);
	n = pop(1);
	for (unsigned int i = 0; i < ARAX_MAX_RANGES; i++) {
		ck_assert_uint_eq(n->ranges[i].offset, i * 64);
		ck_assert_uint_eq(n->ranges[i].length, 32 + i);
	}
	for (unsigned int i = 0; i < ARAX_MAX_ARGS; i++)
		ck_assert_int_eq(((const char *)n->args)[i], (char)(i * 7));
	ck_assert_uint_eq((uintptr_t)n->args % 16, 0);
	graph_complete(g, n, 0, NULL);
}
END_TEST

static void expect_done(uint32_t slot, int result, uint64_t origin, uint32_t number)
{
	struct graph_done done;

	ck_assert(graph_pop_done(g, &done));
	ck_assert_uint_eq(done.tag, tag(slot));
	ck_assert_int_eq(done.result, result);
	ck_assert_uint_eq(done.origin, origin);
	ck_assert_uint_eq(done.failure, number);
}

static void add_knowing(struct entry *t, uint32_t known)
{
	t->d.known = known;
	add(t);
}

static uint64_t lingering(void)
{
	struct graph_stats st;

	graph_stats(g, &st);
	return st.lingering;
}

/* A batch stops at its first failure even if that came before the rest. */
static void reaches_who_does_not_know(uint8_t flags)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct entry *t = task(1, 1, flags);

		range(t, ARAX_INOUT, 9, 0, 100);
		add_knowing(t, i);
		graph_complete(g, pop(1), -EIO, &failure);
		ck_assert_uint_eq(failure, i + 1);
		for (unsigned int k = 2; k < 50; k++) {
			t = task(k, 1, flags);
			range(t, ARAX_INOUT, 9, 0, 100);
			add_knowing(t, i);
			ck_assert_ptr_null(graph_pop_ready(g));
			expect_done(k, -ECANCELED, tag(1), 0);
		}
	}
	/* Of the first two this one's client knows. */
	add_knowing(task(2, 1, flags | ARAX_QUEUE_CONTINUE), 2);
	graph_complete(g, pop(2), 0, NULL);
	ck_assert_uint_gt(lingering(), 0);
	add_knowing(task(3, 2, flags), 3);
	graph_complete(g, pop(3), 0, NULL);
	ck_assert_uint_eq(lingering(), 0);
}

START_TEST(failure_reaches_who_does_not_know)
{
	reaches_who_does_not_know(0);
}
END_TEST

START_TEST(failure_reaches_who_does_not_know_dataflow)
{
	reaches_who_does_not_know(DF);
}
END_TEST

/* Who knows of a failure is exempt from all that comes from it, early or late. */
START_TEST(dependents_of_a_known_failure)
{
	struct entry *t;
	struct graph_node *slow;

	t = task(1, 1, DF);
	range(t, ARAX_OUT, 9, 0, 100);
	add(t);
	t = task(2, 1, DF);
	range(t, ARAX_OUT, 9, 100, 100);
	add(t);
	t = task(3, 1, DF);
	range(t, ARAX_INOUT, 9, 0, 200);
	add(t);
	slow = NULL;
	graph_complete(g, pop(1), -EIO, &failure);
	slow = pop(2);
	graph_start(g, slow);
	/* 3 is doomed and waits for 2. */
	t = task(4, 1, DF);
	range(t, ARAX_INOUT, 9, 0, 200);
	add_knowing(t, 1);
	ck_assert_ptr_null(graph_pop_ready(g));
	graph_complete(g, slow, 0, NULL);
	expect_done(3, -ECANCELED, tag(1), 0);
	graph_complete(g, pop(4), 0, NULL);
}
END_TEST

/* A second failure on the same way, which it could not know of. */
START_TEST(dependents_of_a_later_failure)
{
	struct graph_node *slow;
	struct entry *t;

	t = task(1, 1, DF);
	range(t, ARAX_OUT, 9, 0, 100);
	add(t);
	t = task(2, 1, DF);
	range(t, ARAX_OUT, 9, 100, 100);
	add(t);
	t = task(3, 1, DF);
	range(t, ARAX_INOUT, 9, 0, 200);
	add(t);
	graph_complete(g, pop(1), -EIO, &failure);
	slow = pop(2);
	t = task(4, 1, DF);
	range(t, ARAX_INOUT, 9, 0, 200);
	add_knowing(t, 1);
	graph_complete(g, slow, -EDOM, &failure);
	ck_assert_uint_eq(failure, 2);
	expect_done(3, -ECANCELED, tag(1), 0);
	expect_done(4, -ECANCELED, tag(1), 0);
	/* And so what comes behind, unless it knows of that one too. */
	t = task(5, 1, DF);
	range(t, ARAX_IN, 9, 0, 1);
	add_knowing(t, 1);
	expect_done(5, -ECANCELED, tag(1), 0);
	t = task(6, 1, DF);
	range(t, ARAX_IN, 9, 0, 1);
	add_knowing(t, 2);
	graph_complete(g, pop(6), 0, NULL);
}
END_TEST

/* Numbers are a context's own, whatever others do. */
START_TEST(failures_are_counted_by_context)
{
	struct entry *t;

	for (unsigned int i = 1; i <= 10; i++) {
		t = task(1, 1, 0);
		t->d.context = 1 + i % 2;
		add_knowing(t, (i - 1) / 2);
		graph_complete(g, pop(1), -EIO, &failure);
		ck_assert_uint_eq(failure, (i + 1) / 2);
	}
	t = task(2, 1, 0);
	t->d.context = 3;
	add_knowing(t, 5);	/* of what never was */
	graph_complete(g, pop(2), -EIO, &failure);
	ck_assert_uint_eq(failure, 1);
	t = task(3, 1, 0);
	t->d.context = 3;
	add_knowing(t, 5);	/* that can't be, so it knows of none */
	expect_done(3, -ECANCELED, tag(2), 0);
}
END_TEST

/* Of two queues that had one handle, each of its own kind, neither is the other. */
START_TEST(handles_are_given_again)
{
	struct graph_node *first, *second;

	add(task(1, 7, DF));
	graph_complete(g, pop(1), 0, NULL);
	/* The second one is not known yet. */
	ck_assert(!graph_is_free(g, &task(2, 7, 0)->d, false));
	add(task(1, 7, DF));
	first = pop(1);
	add(task(2, 7, 0));
	add(task(3, 7, 0));
	second = pop(2);
	graph_complete(g, first, 0, NULL);
	ck_assert_ptr_null(graph_pop_ready(g));
	graph_complete(g, second, 0, NULL);
	graph_complete(g, pop(3), 0, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		struct entry *t = task(4, 7, i & 1 ? DF : 0);

		ck_assert(graph_is_free(g, &t->d, false));
		first = graph_add_running(g, &t->d);
		ck_assert_ptr_nonnull(first);
		graph_complete(g, first, 0, NULL);
	}
}
END_TEST

/* Of one that is like a sound one it is still looked where it lies. */
START_TEST(who_is_alike_is_looked_at)
{
	struct entry *t;

	add(task(0, 1, DF));
	graph_complete(g, pop(0), 0, NULL);
	t = task(1, 1, DF);
	range(t, ARAX_INOUT, 1, 0, 8);
	ck_assert(graph_is_free(g, &t->d, false));
	ck_assert(graph_is_free(g, &t->d, true));
	t->r[0].offset = 1ull << 61;
	ck_assert(!graph_is_free(g, &t->d, false));
	ck_assert(!graph_is_free(g, &t->d, true));
	t->r[0].offset = 0;
	t->d.tag |= 0xffffff;
	ck_assert(!graph_is_free(g, &t->d, false));
	ck_assert(!graph_is_free(g, &t->d, true));
}
END_TEST

/* Of one range and a few arguments up to many of both; of few places, so that no table grows. */
static struct entry *wide(uint32_t i)
{
	struct entry *t = task(0, 1, DF);

	for (uint32_t k = 0; k <= i % 7; k++)
		range(t, ARAX_INOUT, (i + k) % 20, i % 8 * 16, 8);
	t->d.arg_len = (uint16_t)(i * 17 % 300);
	memset(t->r + t->d.nr_ranges, (int)i, t->d.arg_len);
	t->d.cells = (uint16_t)(t->d.cells + (t->d.arg_len + ARAX_CELL_SIZE - 1) / ARAX_CELL_SIZE);
	return t;
}

/* Who is free enters without fail, so without new memory, whatever pool others have used up. */
START_TEST(who_is_free_has_room)
{
	struct graph_stats before, after;
	struct graph_node *n;
	struct entry *t;

	add(task(0, 1, DF));
	graph_complete(g, pop(0), 0, NULL);
	for (uint32_t i = 1; i < 5000; i++) {
		t = i % 3 ? task(i, 1, DF) : wide(i / 3);
		t->d.tag = tag(i);
		t->d.context = 2;
		add(t);
		t = wide(i);
		ck_assert(graph_is_free(g, &t->d, false));
		graph_stats(g, &before);
		n = graph_add_running(g, &t->d);
		ck_assert_ptr_nonnull(n);
		graph_stats(g, &after);
		ck_assert_uint_eq(after.memory, before.memory);
		graph_complete(g, n, 0, NULL);
	}
}
END_TEST

/* A client that never says that it knows can't fill our memory; it fails more. */
START_TEST(failed_tasks_kept_are_limited)
{
	struct graph_stats st;
	struct entry *t;
	unsigned int i;

	for (i = 0; i <= GRAPH_MAX_FAILED; i++) {
		t = task(1, 1 + i, 0);
		add(t);
		graph_complete(g, pop(1), -EIO, &failure);
		ck_assert_uint_eq(failure, i + 1);
	}
	ck_assert_uint_eq(lingering(), GRAPH_MAX_FAILED);
	/* The first one stands for all tasks now. */
	add(task(2, ~0u, 0));
	expect_done(2, -ECANCELED, tag(1), 0);
	/* And the second one, since that one was kept. */
	add_knowing(task(3, ~0u - 1, 0), 2);
	graph_complete(g, pop(3), 0, NULL);
	/* Another context keeps some whatever this one does, but no more. */
	for (i = 0; i < 2 * GRAPH_KEEP_FAILED; i++) {
		t = task(1, 1 + i, 0);
		t->d.context = 2;
		if (i == GRAPH_KEEP_FAILED) {
			t->d.tag = tag(4);
			add(t);
			graph_complete(g, pop(4), 0, NULL);
			t->d.tag = tag(1);
			t->d.queue += 10000;
		}
		add(t);
		if (i <= GRAPH_KEEP_FAILED)
			graph_complete(g, pop(1), -EIO, &failure);
		else
			expect_done(1, -ECANCELED, tag(1), 0);
	}
	ck_assert_uint_eq(lingering(), GRAPH_MAX_FAILED + GRAPH_KEEP_FAILED);
	/* Their queues are not kept for ever either. */
	graph_stats(g, &st);
	ck_assert_uint_lt(st.memory, 256u << 20);
	t = task(3, 1, 0);
	add_knowing(t, GRAPH_MAX_FAILED + 1);
	graph_complete(g, pop(3), 0, NULL);
	ck_assert_uint_eq(lingering(), GRAPH_KEEP_FAILED);
}
END_TEST

/* Of what could not be taken nobody knows who would have depended on it: so all that come then. */
START_TEST(a_refused_task_fails_who_comes_then)
{
	struct entry *t;

	add(task(1, 1, DF));
	add(task(2, 2, 0));
	graph_complete(g, pop(1), -EIO, &failure);
	ck_assert_uint_eq(failure, 1);
	t = task(3, 3, 0);
	ck_assert_uint_eq(graph_refuse(g, &t->d), 2);
	ck_assert_int_eq(graph_check(g), 0);
	/* Another queue's, another context's, one that goes on, and one that knows. */
	ck_assert(!graph_is_free(g, &task(4, 4, 0)->d, false));
	add_knowing(task(4, 4, 0), 1);
	expect_done(4, -ECANCELED, tag(3), 0);
	t = task(5, 1, 0);
	t->d.context = 2;
	add(t);
	add(task(6, 5, ARAX_QUEUE_CONTINUE));
	add_knowing(task(7, 6, 0), 2);
	graph_complete(g, pop(2), 0, NULL);
	graph_complete(g, pop(5), 0, NULL);
	graph_complete(g, pop(6), 0, NULL);
	graph_complete(g, pop(7), 0, NULL);
	/* The first one of a context. */
	t = task(8, 1, 0);
	t->d.context = 3;
	ck_assert_uint_eq(graph_refuse(g, &t->d), 1);
	t = task(9, 1, 0);
	t->d.context = 3;
	add(t);
	expect_done(9, -ECANCELED, tag(8), 0);
	ck_assert_int_eq(graph_check(g), 0);
}
END_TEST

/* Nor by what its failed tasks bring along: these are fewer then. */
static void keeps_little(uint32_t ranges, uint16_t arg_len)
{
	struct graph_stats st;
	struct entry *t;
	uint32_t i, k;

	for (i = 0; i < GRAPH_MAX_FAILED / 4; i++) {
		t = task(1, 1, DF);
		for (k = 0; k < ranges; k++)
			range(t, ARAX_OUT, 1, 512ull * (i * ranges + k), 256);
		t->d.arg_len = arg_len;
		t->d.cells = (uint16_t)(2 + (ranges + 2) / 2 + arg_len / ARAX_CELL_SIZE);
		add(t);
		graph_complete(g, pop(1), -EIO, &failure);
		/* The first that is not kept stands for all tasks: those to come would fail. */
		if (lingering() < i + 1)
			break;
	}
	ck_assert_uint_lt(i, GRAPH_MAX_FAILED / 4);
	ck_assert_uint_ge(lingering(), GRAPH_MAX_FAILED / 20);
	ck_assert_int_eq(graph_check(g), 0);
	graph_stats(g, &st);
	ck_assert_uint_lt(st.memory, 256u << 20);
	/* All are known of. */
	add_knowing(task(2, 1, DF), i + 1);
	graph_complete(g, pop(2), 0, NULL);
	ck_assert_uint_eq(lingering(), 0);
	ck_assert_int_eq(graph_check(g), 0);
}

START_TEST(failed_tasks_with_many_ranges)
{
	keeps_little(ARAX_MAX_RANGES, 0);
}
END_TEST

START_TEST(failed_tasks_with_many_arguments)
{
	keeps_little(1, ARAX_MAX_ARGS);
}
END_TEST

START_TEST(timeline_error_ends_the_waiter)
{
	struct graph_done done;
	struct entry *t = task(1, 1, 0);

	t->d.flags = ARAX_DISPATCH_BLOCKED;
	add(t);
	add(task(2, 1, 0));
	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert_int_eq(graph_unblock(g, tag(2), 0), -ENOENT);
	ck_assert_int_eq(graph_unblock(g, tag(3), 0), -ENOENT);
	ck_assert_int_eq(graph_unblock(g, tag(1), -EPIPE), 0);
	ck_assert(graph_pop_done(g, &done));
	ck_assert_uint_eq(done.tag, tag(1));
	ck_assert_int_eq(done.result, -EPIPE);
	ck_assert_uint_eq(done.origin, 0);
	ck_assert(graph_pop_done(g, &done));
	ck_assert_int_eq(done.result, -ECANCELED);
	ck_assert_uint_eq(done.origin, tag(1));

	/* A queue that continues runs it all the same. */
	t = task(3, 2, ARAX_QUEUE_CONTINUE);
	t->d.flags = ARAX_DISPATCH_BLOCKED;
	add(t);
	ck_assert_int_eq(graph_unblock(g, tag(3), -EPIPE), 0);
	graph_complete(g, pop(3), 0, NULL);
}
END_TEST

/* A wait submitted before its signal must not stop the signaller. */
/* The timeline had failed before the task came. */
START_TEST(timeline_error_came_first)
{
	struct graph_done done;
	struct entry *t = task(1, 1, 0);

	t->d.error = -EPIPE;
	add(t);
	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert_int_eq(graph_unblock(g, tag(1), -EPIPE), 0);
	ck_assert(graph_pop_done(g, &done));
	ck_assert_uint_eq(done.tag, tag(1));
	ck_assert_int_eq(done.result, -EPIPE);
	add(task(2, 1, 0));	/* it doesn't know */
	ck_assert(graph_pop_done(g, &done));
	ck_assert_int_eq(done.result, -ECANCELED);
	ck_assert_uint_eq(done.origin, tag(1));
	ck_assert(!graph_pop_done(g, &done));
	/* A queue that continues runs it all the same. */
	t = task(3, 2, ARAX_QUEUE_CONTINUE);
	t->d.error = -EPIPE;
	add(t);
	ck_assert_int_eq(graph_unblock(g, tag(3), -EPIPE), 0);
	graph_complete(g, pop(3), 0, NULL);
}
END_TEST

static bool is_parked(uint32_t slot)
{
	return graph_is_parked(graph_find(g, tag(slot)));
}

/* It, and whatever waits beside it in its context; not who is ready, nor other contexts'. */
START_TEST(who_waits_for_a_timeline_is_parked)
{
	struct graph_done done;
	struct entry *t;

	for (int round = 0; round < 2; round++) {
		t = task(1, 1, 0);
		t->d.flags = ARAX_DISPATCH_BLOCKED;
		add(t);
		add(task(2, 1, 0));
		add(task(3, 2, 0));
		t = task(4, 3, 0);
		t->d.context = 2;
		add(t);
		t = task(5, 3, 0);
		t->d.context = 2;
		add(t);
		ck_assert(is_parked(1));
		ck_assert(is_parked(2));
		ck_assert(!is_parked(3));
		ck_assert(!is_parked(4));
		ck_assert(!is_parked(5));
		ck_assert_int_eq(graph_unblock(g, tag(1), round ? -EPIPE : 0), 0);
		/* However it ended. */
		if (!round) {
			ck_assert(!is_parked(1));
			ck_assert(!is_parked(2));
		}
		graph_complete(g, pop(3), 0, NULL);
		graph_complete(g, pop(4), 0, NULL);
		if (!round)
			graph_complete(g, pop(1), 0, NULL);
		graph_complete(g, pop(5), 0, NULL);
		if (!round)
			graph_complete(g, pop(2), 0, NULL);
		while (graph_pop_done(g, &done))
			;
	}
	add(task(6, 4, 0));
	add(task(7, 4, 0));
	ck_assert(!is_parked(7));
	graph_complete(g, pop(6), 0, NULL);
	graph_complete(g, pop(7), 0, NULL);
}
END_TEST

START_TEST(in_order_queues_are_not_related_by_ranges)
{
	struct entry *t = task(1, 1, 0);

	range(t, ARAX_IN, 5, 0, 100);
	t->d.flags = ARAX_DISPATCH_BLOCKED;
	add(t);
	t = task(2, 2, 0);
	range(t, ARAX_OUT, 5, 0, 100);
	add(t);
	graph_complete(g, pop(2), 0, NULL);
	/* But a dataflow task waits for the reader, though it came later. */
	t = task(3, 3, DF);
	range(t, ARAX_OUT, 5, 50, 1);
	add(t);
	ck_assert_ptr_null(graph_pop_ready(g));
	graph_unblock(g, tag(1), 0);
	graph_complete(g, pop(1), 0, NULL);
	graph_complete(g, pop(3), 0, NULL);
}
END_TEST

/* Canceled tasks behind a slow one are reported at once, but only so many. */
static void cancel_behind_a_slow_one(uint32_t ranges, unsigned int early)
{
	struct graph_node *slow;
	struct graph_done done;
	unsigned int reported = 0;
	struct entry *t;

	add(task(0, 1, 0));
	slow = pop(0);
	graph_start(g, slow);
	ck_assert_int_eq(graph_cancel(g, tag(0)), -EBUSY);
	for (unsigned int i = 1; i <= 5000; i++) {
		t = task(i, 1, 0);
		for (uint32_t k = 0; k < ranges; k++)
			range(t, ARAX_OUT, 1, 512ull * (i * ranges + k), 256);
		add(t);
		ck_assert_int_eq(graph_cancel(g, tag(i)), 0);
		while (graph_pop_done(g, &done))
			reported++;
	}
	ck_assert_uint_gt(reported, 0);
	ck_assert_uint_le(reported, early);
	ck_assert_int_eq(graph_check(g), 0);
	graph_complete(g, slow, 0, NULL);
	while (graph_pop_done(g, &done)) {
		ck_assert_int_eq(done.result, -ECANCELED);
		reported++;
	}
	ck_assert_uint_eq(reported, 5000);
	ck_assert_int_eq(graph_check(g), 0);
}

START_TEST(ghosts_are_limited)
{
	cancel_behind_a_slow_one(0, 1024);
}
END_TEST

/* Who has many takes the room of several. */
START_TEST(ghosts_with_many_ranges)
{
	cancel_behind_a_slow_one(ARAX_MAX_RANGES, 1024 / 10);
}
END_TEST

/* A chain of 60,000 fails without a stack of 60,000. */
START_TEST(long_chain_fails)
{
	struct graph_done done;
	struct graph_node *n;
	unsigned int count = 0;

	for (unsigned int i = 0; i < 60000; i++)
		add(task(i, 1, 0));
	n = pop(0);
	graph_complete(g, n, -EIO, &failure);
	while (graph_pop_done(g, &done)) {
		ck_assert_uint_eq(done.origin, tag(0));
		ck_assert_uint_eq(done.tag, tag(++count));
	}
	ck_assert_uint_eq(count, 59999);
}
END_TEST

/* The price of overlap without end: time and memory stay in proportion. */
START_TEST(hostile_overlap_is_bounded)
{
	enum { TASKS = 20 * GRAPH_MAX_VISITS };
	struct graph_stats st;
	struct graph_node *n;
	unsigned int order = 0;

	/* Readers of ever other shapes, and tiny writers inside all of them. */
	for (unsigned int i = 0; i < TASKS; i++) {
		struct entry *t = task(i, 1, DF);

		if (i % 2)
			range(t, ARAX_OUT, 1, 1000000, 1);
		else
			range(t, ARAX_IN, 1, i, 2000000);
		add(t);
	}
	graph_stats(g, &st);
	ck_assert_uint_gt(st.fences, 0);
	ck_assert_uint_lt(st.edges, TASKS * 2ull * GRAPH_MAX_VISITS);
	ck_assert_uint_lt(st.memory, (uint64_t)TASKS * (2048 + 8 * GRAPH_MAX_VISITS));
	ck_assert_int_eq(graph_check(g), 0);
	while ((n = graph_pop_ready(g))) {
		/* Writers alternate with readers, all of which conflict. */
		ck_assert_uint_eq(n->d.tag, tag(order));
		order++;
		graph_complete(g, n, 0, NULL);
	}
	ck_assert_uint_eq(order, TASKS);
}
END_TEST

/* 32 ranges that are compared row by row with all others. */
static void add_strided(uint32_t slot, uint32_t queue, uint8_t queue_flags)
{
	struct entry *t = task(slot, queue, queue_flags);

	for (unsigned int i = 0; i < ARAX_MAX_RANGES; i++) {
		unsigned int id = slot * ARAX_MAX_RANGES + i;

		range(t, ARAX_OUT, 7, id % 1024, 1);
		t->r[i].stride = 2048 + id / 1024;
		t->r[i].count = 64;
	}
	add(t);
}

static uint64_t rows_compared(void)
{
	struct graph_stats st;

	graph_stats(g, &st);
	return st.rows;
}

/* However many ranges a task has, or those before the first that looks at ranges. */
START_TEST(hostile_ranges_are_bounded)
{
	uint32_t queue_flags = _i ? DF : 0, i;
	struct graph_node *n;
	uint64_t rows;

	for (i = 0; i < 400; i++) {
		rows = rows_compared();
		add_strided(i, 1, (uint8_t)queue_flags);
		ck_assert_uint_le(rows_compared() - rows, GRAPH_MAX_ROWS);
	}
	rows = rows_compared();
	add_strided(400, 2, DF);
	ck_assert_uint_le(rows_compared() - rows, 2 * GRAPH_MAX_ROWS);
	ck_assert_int_eq(graph_check(g), 0);
	for (i = 0; (n = graph_pop_ready(g)); i++)
		graph_complete(g, n, 0, NULL);
	ck_assert_uint_eq(i, 401);
	ck_assert_int_eq(graph_check(g), 0);
}
END_TEST

#define READERS	(GRAPH_MAX_VISITS - 1)

/* Of many buffers: of each there are not too many, and no task in order takes one's place. */
START_TEST(hostile_readers_are_bounded)
{
	struct graph_stats st;
	struct graph_node *n;
	unsigned int i, slot = 0;
	uint64_t edges = 0;

	for (i = 0; i < ARAX_MAX_RANGES * READERS; i++) {
		struct entry *t = task(slot++, 1, DF);

		range(t, ARAX_IN, 1 + i % ARAX_MAX_RANGES, 0, 4096);
		add(t);
	}
	for (unsigned int writers = 0; writers < 64; writers++) {
		struct entry *t = task(slot++, 2, 0);

		for (i = 0; i < ARAX_MAX_RANGES; i++)
			range(t, ARAX_OUT, 1 + i, 0, 4096);
		graph_stats(g, &st);
		edges = st.edges;
		add(t);
		graph_stats(g, &st);
		ck_assert_uint_le(st.edges - edges, GRAPH_MAX_EDGES);
	}
	ck_assert_uint_eq(st.fences, 64);
	ck_assert_int_eq(graph_check(g), 0);
	for (i = 0; (n = graph_pop_ready(g)); i++) {
		ck_assert_uint_eq(n->d.tag, tag(i));
		graph_complete(g, n, 0, NULL);
	}
	ck_assert_uint_eq(i, slot);
	ck_assert_int_eq(graph_check(g), 0);
}
END_TEST

/* What is superseded is not told apart from more of it: others are not waited for because of that. */
START_TEST(many_that_are_superseded_are_no_fence)
{
	enum { MANY = GRAPH_MAX_EDGES + 100 };
	struct graph_stats st;
	struct entry *t;

	/* Of another queue; it may be the writer that it waits for. */
	t = task(0, 2, 0);
	t->d.flags = ARAX_DISPATCH_BLOCKED;
	range(t, ARAX_OUT, 9, 0, 8);
	add(t);
	for (uint32_t i = 1; i <= MANY; i++) {
		t = task(i, 1, DF);
		if (_i)
			range(t, ARAX_OUT, 1, 8 * (i - 1), 8);
		else
			range(t, ARAX_IN, 1, 0, 8 * MANY);
		add(t);
	}
	t = task(MANY + 1, 1, DF);
	range(t, ARAX_OUT, 1, 0, 8 * MANY);
	add(t);
	graph_stats(g, &st);
	ck_assert_uint_eq(st.fences, 0);
	for (uint32_t i = 1; i <= MANY + 1; i++)
		graph_complete(g, pop(i), 0, NULL);
	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert_int_eq(graph_check(g), 0);
}
END_TEST

/* With one range, of buffer 7. */
static void add_with(uint32_t slot, uint32_t queue, uint8_t queue_flags, unsigned int access,
		     uint64_t offset, uint64_t length)
{
	struct entry *t = task(slot, queue, queue_flags);

	range(t, access, 7, offset, length);
	add(t);
}

static void expect_canceled(uint32_t slot)
{
	struct graph_done done;

	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert(graph_pop_done(g, &done));
	ck_assert_uint_eq(done.tag, tag(slot));
	ck_assert_int_eq(done.result, -ECANCELED);
}

/*
 * Who goes on in its queue after a failure has not made it good, wherever it writes: whoever reads
 * there, and doesn't know, fails.
 */
START_TEST(going_on_hides_no_failure)
{
	uint32_t number;

	add_with(1, 1, DF, ARAX_IN, 4096, 8);
	add_with(2, 2, ARAX_QUEUE_CONTINUE, ARAX_OUT, 0, 64);
	add_with(3, 2, ARAX_QUEUE_CONTINUE, ARAX_INOUT, 0, _i ? 65 : 64);
	add_with(4, 1, DF, ARAX_IN, 0, 64);
	graph_complete(g, pop(1), 0, NULL);
	graph_complete(g, pop(2), -EIO, &number);
	graph_complete(g, pop(3), 0, NULL);
	expect_canceled(4);
}
END_TEST

/* A failure whose queue has gone is not another queue's that has its place. */
START_TEST(failures_outlive_their_queues)
{
	uint32_t number, i;

	add_with(1, 1, DF, ARAX_IN, 4096, 8);
	graph_complete(g, pop(1), 0, NULL);
	add_with(2, 2, ARAX_QUEUE_CONTINUE, ARAX_OUT, 0, 64);
	graph_complete(g, pop(2), -EIO, &number);
	add(task(3, 2, ARAX_QUEUE_CONTINUE));
	graph_complete(g, pop(3), 0, NULL);
	for (i = 0; i < 58 + (uint32_t)_i; i++) {
		add(task(4, 100 + i, 0));
		graph_complete(g, pop(4), 0, NULL);
	}
	add_with(5, 1000, 0, ARAX_OUT, 0, 64);
	graph_complete(g, pop(5), 0, NULL);
	add_with(6, 1, DF, ARAX_IN, 0, 64);
	expect_canceled(6);
}
END_TEST

/* Who writes over what a failed task only had to read runs, whichever came first: the failure or it. */
START_TEST(a_failed_reader_fails_no_writer)
{
	const uint8_t flags[] = { DF, 0 };
	uint32_t number;

	for (uint32_t i = 0; i < 6; i++) {
		const uint64_t length = i < 3 ? 64 : 32;
		bool late = _i;

		/* One of them at least is in a dataflow queue. */
		add_with(1, 1, flags[i % 3 == 1], ARAX_IN, 0, 64);
		if (!late)
			add_with(2, 2, flags[i % 3 == 2], ARAX_OUT, 0, length);
		graph_complete(g, pop(1), -EIO, &number);
		if (late)
			add_with(2, 2, flags[i % 3 == 2], ARAX_OUT, 0, length);
		graph_complete(g, pop(2), 0, NULL);
		ck_assert(!graph_has_done(g));
		graph_context_gone(g, 1);
	}
}
END_TEST

/* Nor one that was canceled itself. */
START_TEST(a_canceled_reader_fails_no_writer)
{
	struct entry *t;
	uint32_t number;

	add_with(1, 1, DF, ARAX_OUT, 0, 64);
	t = task(2, 1, DF);
	range(t, ARAX_IN, 7, 0, 64);
	range(t, ARAX_IN, 8, 0, 64);
	add(t);
	t = task(3, 1, DF);
	range(t, ARAX_OUT, 8, 0, 64);
	add(t);
	add_with(4, 1, DF, ARAX_IN, 0, 64);
	graph_complete(g, pop(1), -EIO, &number);
	expect_done(2, -ECANCELED, tag(1), 0);
	expect_done(4, -ECANCELED, tag(1), 0);
	graph_complete(g, pop(3), 0, NULL);
	ck_assert(!graph_has_done(g));
}
END_TEST

/* Of two relations the stronger one counts, whichever was found first, and wherever the edge has its place. */
START_TEST(who_reads_and_writes_is_a_writer)
{
	static const unsigned int orders[][2] = { { ARAX_IN, ARAX_OUT }, { ARAX_OUT, ARAX_IN } };
	struct graph_node *first;
	struct entry *t;
	uint32_t number;

	for (uint32_t k = 0; k < 8; k++) {
		const unsigned int *access = orders[k & 1];
		struct graph_stats before, st;

		t = task(1, 1, DF);
		range(t, ARAX_OUT, 9, 0, 64);
		range(t, access[0], 7, 0, 32);
		range(t, access[1], 7, 64, 32);
		add(t);
		for (uint32_t i = 0; i < (uint32_t)_i; i++) {
			t = task(10 + i, 1, DF);
			range(t, ARAX_IN, 9, 0, 64);
			add(t);
		}
		graph_stats(g, &before);
		t = task(2, 1, DF);
		if (k & 2) {
			range(t, ARAX_OUT, 7, 64, 32);
			range(t, ARAX_OUT, 7, 0, 32);
		} else {
			range(t, ARAX_OUT, 7, 0, 96);
		}
		add(t);
		graph_stats(g, &st);
		ck_assert_uint_eq(st.edges - before.edges, 1);
		first = pop(1);
		ck_assert(!graph_only_orders(first, graph_find(g, tag(2))));
		graph_complete(g, first, k & 4 ? -EIO : 0, &number);
		for (uint32_t i = 0; i < (uint32_t)_i; i++) {
			if (k & 4)
				expect_done(10 + i, -ECANCELED, tag(1), 0);
			else
				graph_complete(g, pop(10 + i), 0, NULL);
		}
		if (k & 4)
			expect_done(2, -ECANCELED, tag(1), 0);
		else
			graph_complete(g, pop(2), 0, NULL);
		ck_assert(!graph_has_done(g) && !graph_has_ready(g));
		graph_context_gone(g, 1);
	}
}
END_TEST

/*
 * A fenced task fails with whatever failed while it waited, or had without its client knowing: who writes
 * what it touches is not known.
 */
START_TEST(fences_fail)
{
	struct graph_done done;
	struct graph_stats st;
	struct entry *t;
	unsigned int i, canceled = 0;

	for (i = 0; i < 600; i++) {
		t = task(i, 1, DF);
		range(t, ARAX_IN, 1, i, 2000);
		add(t);
	}
	t = task(i, 1, DF);
	range(t, ARAX_OUT, 1, 1000, 1);
	add(t);
	graph_stats(g, &st);
	ck_assert_uint_eq(st.fences, 1);
	for (i = 0; i < 600; i++) {
		ck_assert_int_eq(graph_pop_done(g, &done), 0);
		graph_complete(g, pop(i), i == 599 ? -EIO : 0, &failure);
	}
	while (graph_pop_done(g, &done)) {
		ck_assert_uint_eq(done.tag, tag(600));
		ck_assert_uint_eq(done.origin, tag(599));
		canceled++;
	}
	ck_assert_uint_eq(canceled, 1);
}
END_TEST

/* Deadlines come in their order, whatever was canceled between. */
START_TEST(deadlines_come_in_order)
{
	static bool canceled[2000];
	uint64_t last = 0, next;
	unsigned int left = 2000;
	struct graph_done done;

	memset(canceled, 0, sizeof(canceled));
	rng = 4711;
	for (unsigned int i = 0; i < 2000; i++) {
		struct entry *t = task(i, 1 + i, 0);

		t->d.deadline_ns = 1 + draw(NULL, 1000000);
		add(t);
	}
	for (unsigned int i = 0; i < 1500; i++) {
		unsigned int k = draw(NULL, 2000);

		ck_assert_int_eq(graph_cancel(g, tag(k)), canceled[k] ? -ENOENT : 0);
		left -= !canceled[k];
		canceled[k] = true;
		if (i % 100 == 0)
			ck_assert_int_eq(graph_check(g), 0);
	}
	while (graph_pop_done(g, &done))
		ck_assert_int_eq(done.result, -ECANCELED);
	while ((next = graph_next_deadline(g)) != UINT64_MAX) {
		ck_assert_uint_ge(next, last);
		last = next;
		ck_assert_ptr_null(graph_expire(g, next));
		while (graph_pop_done(g, &done)) {
			ck_assert_int_eq(done.result, -ETIMEDOUT);
			left--;
		}
	}
	ck_assert_uint_eq(left, 0);
}
END_TEST

/* What is wanted done by some time waits for its turn for as long as that takes. */
START_TEST(targets_never_fail)
{
	struct entry *t = task(0, 1, 0);

	t->d.deadline_ns = 1;
	t->d.flags = ARAX_DISPATCH_TARGET;
	add(t);
	ck_assert_uint_eq(graph_next_deadline(g), UINT64_MAX);
	ck_assert_ptr_null(graph_expire(g, 1000));
	graph_complete(g, pop(0), 0, NULL);
}
END_TEST

struct seen {
	uint64_t seqs[64];
	uint32_t waits[64];
	uint32_t nr;
};

static void see(void *arg, const struct graph_node *node, uint32_t waits)
{
	struct seen *s = arg;

	s->seqs[s->nr] = node->seq;
	s->waits[s->nr++] = waits;
}

/* As many as fit a node, a chunk, and some more. */
START_TEST(successors_are_all_seen)
{
	struct graph_node *first, *second;
	struct seen seen = { .nr = 0 };
	uint64_t seqs[64];
	uint32_t failure;

	for (uint32_t i = 0; i < 2; i++) {
		struct entry *t = task(i, 1, ARAX_QUEUE_DATAFLOW);

		range(t, ARAX_OUT, i, 0, 8);
		add(t);
	}
	for (uint32_t i = 2; i < 42; i++) {
		struct entry *t = task(i, 1, ARAX_QUEUE_DATAFLOW);

		range(t, ARAX_IN, 0, 0, 8);
		if (i % 2)
			range(t, ARAX_IN, 1, 0, 8);
		add(t);
	}
	first = pop(0);
	second = pop(1);
	graph_each_successor(first, see, &seen);
	ck_assert_uint_eq(seen.nr, 40);
	ck_assert_uint_eq(graph_successors(first, seqs, 64), 40);
	for (uint32_t i = 0; i < 40; i++) {
		ck_assert_uint_eq(seen.seqs[i], seqs[i]);
		ck_assert_uint_eq(seen.waits[i], 1 + i % 2);
	}
	graph_complete(g, second, 0, &failure);
	seen.nr = 0;
	graph_each_successor(first, see, &seen);
	for (uint32_t i = 0; i < 40; i++)
		ck_assert_uint_eq(seen.waits[i], 1);
}
END_TEST

/* What look_back() has given; it stops after @most. */
struct back {
	uint64_t seqs[16];
	uint32_t nr, most;
};

static bool see_back(void *arg, struct graph_node *node)
{
	struct back *b = arg;

	b->seqs[b->nr++] = node->seq;
	return b->nr < b->most;
}

static void check_back(struct graph_node *n, bool anew, uint32_t most, bool all, const char *seqs)
{
	struct back b = { .most = most };
	char text[64] = "";

	ck_assert_int_eq(graph_look_back(n, anew, see_back, &b), all);
	for (uint32_t i = 0; i < b.nr; i++)
		sprintf(text + strlen(text), "%u ", (unsigned int)b.seqs[i]);
	ck_assert_str_eq(text, seqs);
}

/* The newest first, one part after the other, whatever ends or comes in between. */
START_TEST(looks_back)
{
	struct graph_node *first, *fourth;
	uint32_t failure;

	for (uint32_t i = 0; i < 6; i++)
		add(task(i, 1, ARAX_QUEUE_DATAFLOW));
	first = pop(0);
	for (uint32_t i = 1; i < 3; i++)
		pop(i);
	fourth = pop(3);
	ck_assert_uint_eq(first->sched.place, 3);
	check_back(first, true, 16, true, "6 5 4 3 2 1 ");
	check_back(first, false, 16, true, "");
	check_back(first, true, 2, false, "6 5 ");
	/* It would have been next. */
	graph_complete(g, fourth, 0, &failure);
	add(task(6, 1, ARAX_QUEUE_DATAFLOW));
	check_back(first, false, 1, false, "3 ");
	check_back(first, false, 16, true, "2 1 ");
	check_back(first, true, 16, true, "7 6 5 3 2 1 ");
}
END_TEST

/* However many ranges two tasks share, they are related once. */
START_TEST(edges_are_recorded_once)
{
	struct graph_stats st;

	for (unsigned int i = 0; i < 2; i++) {
		struct entry *t = task(i, 1, DF);

		for (unsigned int k = 0; k < ARAX_MAX_RANGES; k++)
			range(t, ARAX_IN + (k & 1), 1, k * 10, 1000);
		add(t);
	}
	graph_stats(g, &st);
	ck_assert_uint_eq(st.edges, 1);
	graph_complete(g, pop(0), 0, NULL);
	graph_complete(g, pop(1), 0, NULL);
}
END_TEST

/* All dependencies there were, in their order. */
static void fold(void *arg, struct graph_node *parent, struct graph_node *node)
{
	uint64_t *sum = arg;

	*sum = (*sum + parent->seq) * 0x9e3779b97f4a7c15ull + node->seq;
}

/* An entry at a random place, perhaps of no use: of no rows, or of too many ranges, or some missing. */
static void scatter(struct entry *t, uint32_t slot)
{
	static const uint64_t spaces[] = { 4u << 20, 1u << 20, 64 };

	*t = *task(slot, 1, draw(NULL, 5) ? DF : 0);
	t->d.context = 1 + draw(NULL, 3);
	t->d.queue = t->d.queue_flags;
	for (uint32_t k = draw(NULL, 6); k; k--) {
		uint32_t b = draw(NULL, 40) ? draw(NULL, 2) : 2;

		range(t, 1 + draw(NULL, 3), b, draw(NULL, spaces[b]), draw(NULL, 512));
		if (draw(NULL, 8))
			continue;
		t->r[t->d.nr_ranges - 1].stride = 512;
		t->r[t->d.nr_ranges - 1].count = draw(NULL, 4);
	}
	if (!draw(NULL, 30))
		t->d.cells = 2;
	if (draw(NULL, 50))
		return;
	while (t->d.nr_ranges < ARAX_MAX_RANGES)
		range(t, ARAX_IN, 0, draw(NULL, spaces[0]), 512);
	t->d.nr_ranges += draw(NULL, 2);
}

/* Ends those that are ready, @most of them, until @live are left. */
static void end_beyond(struct graph *of, uint64_t live, uint32_t most)
{
	while (graph_live(of) > live && most--) {
		struct graph_node *n = graph_pop_ready(of);

		if (!n)
			break;
		graph_complete(of, n, 0, NULL);
	}
}

/* Thousands of live ranges, whose tasks come in groups that the graph is told of, or not. */
static uint64_t edges_of(bool told, struct graph_stats *st)
{
	enum { GROUPS = 1500, LIVE = 2500 };
	uint64_t sum = 0;
	struct graph *own = graph_create(&(struct graph_params){
		.slots = GROUPS * GRAPH_EXPECT, .edge = fold, .edge_arg = &sum,
	});
	static struct entry t[GRAPH_EXPECT];
	const struct arax_dispatch *d[GRAPH_EXPECT];
	uint32_t expected = 0;

	ck_assert_ptr_nonnull(own);
	rng = 0x9e3779b97f4a7c15ull;
	for (uint32_t i = 0; i < GROUPS; i++) {
		/* What is told need not be what comes. */
		uint32_t left_out = draw(NULL, 3 * GRAPH_EXPECT);

		for (uint32_t k = 0; k < GRAPH_EXPECT; k++) {
			scatter(&t[k], i * GRAPH_EXPECT + k);
			d[k] = &t[k].d;
		}
		if (told)
			expected += graph_expect(own, d, 1 + i % GRAPH_EXPECT);
		for (uint32_t k = 0; k < GRAPH_EXPECT; k++) {
			if (k != left_out)
				sum += (uint64_t)graph_add(own, d[k]);
			end_beyond(own, LIVE, 1);
		}
		if (i % 500 == 250)
			graph_context_gone(own, 1);
		end_beyond(own, LIVE, UINT32_MAX);
	}
	graph_stats(own, st);
	/* It was large for most of the time. */
	if (told)
		ck_assert_uint_gt(expected, GROUPS);
	ck_assert_int_eq(graph_check(own), 0);
	graph_destroy(own);
	return sum;
}

START_TEST(what_is_expected_changes_nothing)
{
	struct graph_stats told, untold;

	ck_assert_uint_eq(edges_of(true, &told), edges_of(false, &untold));
	ck_assert_uint_eq(told.edges, untold.edges);
	ck_assert_uint_eq(told.added, untold.added);
	ck_assert_uint_eq(told.searches, untold.searches);
	ck_assert_uint_gt(told.edges, 1000);
}
END_TEST

/* Tiles that an overlapping task has crowded are found by their hash again. */
START_TEST(crowds_dissolve)
{
	struct graph_stats before, after;

	for (unsigned int round = 0; round < 10; round++) {
		for (unsigned int i = 0; i < 64; i++) {
			struct entry *t = task(round * 64 + i, 1, DF);

			range(t, ARAX_INOUT, 1, i * 64, 64);
			add(t);
		}
		if (round == 0) {
			struct entry *t = task(5000, 1, DF);

			range(t, ARAX_IN, 1, 0, 64 * 64);
			add(t);
			/* The tiles live on in round 1, the reader goes. */
		}
		if (round == 1) {
			for (unsigned int i = 0; i < 64; i++)
				graph_complete(g, pop(i), 0, NULL);
			graph_complete(g, pop(5000), 0, NULL);
		}
		if (round == 3)
			graph_stats(g, &before);
	}
	graph_stats(g, &after);
	ck_assert_uint_gt(before.searches, 0);
	ck_assert_uint_eq(after.searches, before.searches);
}
END_TEST

/* Five million tasks leave no more than their frontier. */
START_TEST(stream_runs_in_constant_memory)
{
	struct graph_stats before, st;
	struct graph_node *n;
	unsigned int total = scale(5000000), window = 64;

	for (unsigned int i = 0; i < total; i++) {
		struct entry *t = task(i % 128, 1 + i / 1000, DF);

		t->d.known = failure;
		range(t, ARAX_IN, i % 997, i % 5000, 64);
		range(t, ARAX_INOUT, i / 3, (uint64_t)i * 10, 100);
		add(t);
		if (i % window == window - 1) {
			while ((n = graph_pop_ready(g)))
				graph_complete(g, n, i % 4096 == 4095 ? -EIO : 0, &failure);
			for (struct graph_done d; graph_pop_done(g, &d);)
				;
		}
		if (i == total / 10)
			graph_stats(g, &before);
	}
	graph_stats(g, &st);
	ck_assert_uint_le(st.memory, before.memory);
	ck_assert_uint_le(st.memory, 4u << 20);
	ck_assert_uint_le(st.spans, 1024 + 2 * window);
	ck_assert_uint_le(st.live, window);
}
END_TEST

/* More wait than are told of before what they wait for has ended: each tag comes once all the same. */
START_TEST(context_gone_tells_of_all)
{
	enum { TASKS = 5000 };
	static unsigned int told[TASKS];
	struct graph_node *slow;
	struct graph_stats st;
	struct graph_done done;
	uint32_t last = 0;

	memset(told, 0, sizeof(told));
	for (unsigned int i = 0; i < TASKS; i++)
		add(task(i, 1, 0));
	slow = pop(0);
	graph_start(g, slow);
	/* It was told of then, and is there. */
	ck_assert_int_eq(graph_cancel(g, tag(TASKS - 1)), 0);
	graph_cancel_all(g, 1);
	graph_context_gone(g, 1);
	while (graph_pop_done(g, &done)) {
		ck_assert_int_eq(done.result, -ECANCELED);
		ck_assert_uint_eq(done.failure, ++last);
		told[ARAX_TAG_SLOT(done.tag)]++;
	}
	for (unsigned int i = 0; i < TASKS; i++)
		ck_assert_uint_eq(told[ARAX_TAG_SLOT(tag(i))], i > 0);
	ck_assert_int_eq(graph_check(g), 0);
	ck_assert(!graph_complete(g, slow, 0, NULL));
	ck_assert(!graph_has_done(g));
	graph_stats(g, &st);
	ck_assert_uint_eq(st.live + st.contexts, 0);
	ck_assert_uint_eq(st.canceled, TASKS - 1);
}
END_TEST

START_TEST(context_gone_leaves_nothing)
{
	struct graph_stats st;
	struct graph_done done;
	struct graph_node *n;

	for (unsigned int i = 0; i < 5000; i++) {
		struct entry *t = task(i, 1 + i % 100, i % 100 % 2 ? DF : 0);

		t->d.flags = i % 7 ? 0 : ARAX_TASK_BARRIER;
		range(t, i % 3 + 1, i % 5, i * 3, 100);
		add(t);
	}
	n = graph_pop_ready(g);
	graph_start(g, n);
	ck_assert(!graph_node_gone(n));
	ck_assert_uint_eq(graph_live_beside(n), 5000);
	graph_context_gone(g, 1);
	graph_context_gone(g, 1);
	for (unsigned int i = 1; i < 5000; i++) {
		ck_assert(graph_pop_done(g, &done));
		ck_assert_uint_eq(done.tag, tag(i));
		ck_assert_int_eq(done.result, -ECANCELED);
	}
	ck_assert(!graph_has_done(g));
	ck_assert(graph_node_gone(n));
	ck_assert_uint_eq(graph_live_beside(n), 0);
	ck_assert_ptr_null(graph_pop_ready(g));
	ck_assert_ptr_null(graph_find(g, tag(17)));
	ck_assert(!graph_complete(g, n, 0, NULL));
	graph_stats(g, &st);
	ck_assert_uint_eq(st.live + st.spans + st.buffers + st.contexts, 0);
	/* The id and the slots can be used again. */
	add(task(17, 1, DF));
	add(task(18, 1, DF));
	n = pop(17);
	ck_assert_uint_eq(graph_live_beside(n), 2);
	graph_complete(g, n, 0, NULL);
	n = pop(18);
	ck_assert_uint_eq(graph_live_beside(n), 1);
	graph_complete(g, n, 0, NULL);
}
END_TEST

START_TEST(dot_names_every_task)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	for (unsigned int i = 0; i < 100; i++) {
		struct entry *t = task(i, 1, DF);

		range(t, i ? ARAX_IN : ARAX_OUT, 1, 0, 10);
		add(t);
	}
	add_with(100, 1, DF, ARAX_IN, 0, 10);
	add_with(101, 1, DF, ARAX_OUT, 0, 10);
	graph_dump_dot(g, f);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "n1 -> n100;"));
	ck_assert_ptr_nonnull(strstr(text, "n101 -> n102 [style=dashed];"));
	ck_assert_ptr_nonnull(strstr(text, "n100 [label"));
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("graph");
	TCase *model = tcase_create("model"), *example = tcase_create("example");
	SRunner *r;
	int failed;

	tcase_set_timeout(model, 600);
	tcase_add_test(model, model_ranges);
	tcase_add_test(model, model_strided);
	tcase_add_test(model, model_queues);
	tcase_add_test(model, model_failures);
	tcase_add_test(model, model_continue);
	tcase_add_test(model, model_everything);
	tcase_add_test(model, model_followers);
	tcase_add_test(model, model_fences);
	tcase_add_test(model, shapes_are_exact);
	tcase_set_timeout(example, 600);
	tcase_add_checked_fixture(example, setup, teardown);
	tcase_add_test(example, refuses_bad_entries);
	tcase_add_test(example, copies_everything);
	tcase_add_test(example, failure_reaches_who_does_not_know);
	tcase_add_test(example, failure_reaches_who_does_not_know_dataflow);
	tcase_add_test(example, dependents_of_a_known_failure);
	tcase_add_test(example, dependents_of_a_later_failure);
	tcase_add_test(example, failures_are_counted_by_context);
	tcase_add_test(example, handles_are_given_again);
	tcase_add_test(example, who_is_alike_is_looked_at);
	tcase_add_test(example, who_is_free_has_room);
	tcase_add_test(example, failed_tasks_kept_are_limited);
	tcase_add_test(example, a_refused_task_fails_who_comes_then);
	tcase_add_test(example, timeline_error_ends_the_waiter);
	tcase_add_test(example, timeline_error_came_first);
	tcase_add_test(example, who_waits_for_a_timeline_is_parked);
	tcase_add_test(example, in_order_queues_are_not_related_by_ranges);
	tcase_add_test(example, ghosts_are_limited);
	tcase_add_test(example, ghosts_with_many_ranges);
	tcase_add_test(example, failed_tasks_with_many_ranges);
	tcase_add_test(example, failed_tasks_with_many_arguments);
	tcase_add_test(example, long_chain_fails);
	tcase_add_test(example, hostile_overlap_is_bounded);
	tcase_add_loop_test(example, hostile_ranges_are_bounded, 0, 2);
	tcase_add_test(example, hostile_readers_are_bounded);
	tcase_add_loop_test(example, many_that_are_superseded_are_no_fence, 0, 2);
	tcase_add_loop_test(example, going_on_hides_no_failure, 0, 2);
	tcase_add_loop_test(example, failures_outlive_their_queues, 0, 10);
	tcase_add_loop_test(example, a_failed_reader_fails_no_writer, 0, 2);
	tcase_add_test(example, a_canceled_reader_fails_no_writer);
	tcase_add_loop_test(example, who_reads_and_writes_is_a_writer, 0, 40);
	tcase_add_test(example, fences_fail);
	tcase_add_test(example, deadlines_come_in_order);
	tcase_add_test(example, targets_never_fail);
	tcase_add_test(example, successors_are_all_seen);
	tcase_add_test(example, looks_back);
	tcase_add_test(example, edges_are_recorded_once);
	tcase_add_test(example, what_is_expected_changes_nothing);
	tcase_add_test(example, crowds_dissolve);
	tcase_add_test(example, stream_runs_in_constant_memory);
	tcase_add_test(example, context_gone_tells_of_all);
	tcase_add_test(example, context_gone_leaves_nothing);
	tcase_add_test(example, dot_names_every_task);
	suite_add_tcase(s, model);
	suite_add_tcase(s, example);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
