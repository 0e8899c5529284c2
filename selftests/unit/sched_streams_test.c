// SPDX-License-Identifier: MIT
/*
 * sched_streams_test - GrCUDA's golden results, on our graph
 *
 * The benchmarks' tasks are added to a real graph, which infers who waits for whom;
 * streams are assigned by the rules and devices chosen by the real policies, which ask
 * about data that only these tests move.  Expected are the numbers of streams that
 * GrCUDA's own tests expect (Parravici et al.), and where its tasks run.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph.h"
#include "daemon/sched/sched.h"
#include "daemon/sched/streams.h"

#define TASKS	512
#define ARRAYS	256
#define PARENTS	64
#define HOST	31

struct vertex {
	struct stream_task st;
	struct graph_node *node;	/* popped */
	struct stream_task *parents[PARENTS];
	uint32_t nr_parents;
	bool host, finished, completed;
};

static struct vertex vertices[TASKS];
static uint32_t nr_vertices;
static uint64_t sizes[ARRAYS];
static uint32_t valid[ARRAYS];		/* bit per device, and HOST */
static uint32_t nr_arrays;

static struct graph *g;
static struct sched *s;
static struct streams *st;
static bool with_const;
static uint32_t usable, among_mask;
static int waits;

/* ------------------------------------------------------------------ */
/* Where the data is                                                   */

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return among_mask >> device & 1;
}

static uint64_t resident_bytes(void *arg, const struct graph_node *n, uint32_t device)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n->d.nr_ranges; i++)
		if (valid[n->ranges[i].buffer] >> device & 1)
			bytes += n->ranges[i].length;
	return bytes;
}

/* Pairs of devices are near, fours less so; the host is in between. */
static uint64_t ns_per_byte(uint32_t from, uint32_t to)
{
	if (from == HOST)
		return 8;
	return (from ^ to) == 1 ? 2 : (from ^ to) < 4 ? 4 : 12;
}

static uint64_t transfer(const struct graph_node *n, uint32_t device, bool slowest)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n->d.nr_ranges; i++) {
		uint32_t where = valid[n->ranges[i].buffer];
		uint64_t best = slowest ? 0 : UINT64_MAX;

		if (where >> device & 1)
			continue;
		for (uint32_t from = 0; from < 32; from++) {
			uint64_t ns = ns_per_byte(from, device);

			if (where >> from & 1 && (slowest ? ns > best : ns < best))
				best = ns;
		}
		sum += n->ranges[i].length * best;
	}
	return sum;
}

static uint64_t transfer_min_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return transfer(n, device, false);
}

static uint64_t transfer_max_ns(void *arg, const struct graph_node *n, uint32_t device)
{
	return transfer(n, device, true);
}

static uint32_t choose_device(void *arg, const struct graph_node *node, const uint32_t *among,
			      uint32_t nr)
{
	among_mask = nr ? 0 : (1u << usable) - 1;
	while (nr)
		among_mask |= 1u << among[--nr];
	return sched_choose(s, (struct graph_node *)node, 1);
}

/* ------------------------------------------------------------------ */
/* Tasks                                                               */

static struct vertex *vertex_of(const struct graph_node *n)
{
	return &vertices[ARAX_TAG_SLOT(n->d.tag)];
}

static void edge(void *arg, struct graph_node *parent, struct graph_node *node)
{
	struct vertex *v = vertex_of(node);

	ck_assert_uint_lt(v->nr_parents, PARENTS);
	v->parents[v->nr_parents++] = &vertex_of(parent)->st;
}

static void begin(const char *new, const char *parent, bool consts, const char *policy,
		  uint32_t devices)
{
	struct streams_params params = { .device = choose_device };

	memset(vertices, 0, sizeof(vertices));
	nr_vertices = nr_arrays = 0;
	waits = 0;
	with_const = consts;
	usable = devices;
	g = graph_create(&(struct graph_params){ .slots = TASKS, .edge = edge });
	s = sched_create(&(struct sched_params){
		.policy = policy,
		.ops = {
			.can_run = can_run, .resident_bytes = resident_bytes,
			.transfer_min_ns = transfer_min_ns, .transfer_max_ns = transfer_max_ns,
		},
	});
	ck_assert(g && s);
	/* GrCUDA assigns without looking whether the device is busy. */
	for (uint32_t i = 0; i < devices; i++)
		ck_assert_int_eq(sched_device_set(s, i, 4096), 0);
	ck_assert_int_eq(stream_new_parse(new, &params.new), 0);
	ck_assert_int_eq(stream_parent_parse(parent, &params.parent), 0);
	st = streams_create(&params);
}

static void end(void)
{
	streams_destroy(st);
	sched_destroy(s);
	graph_destroy(g);
}

static uint32_t array(uint64_t size)
{
	ck_assert_uint_lt(nr_arrays, ARRAYS);
	sizes[nr_arrays] = 4 * size;
	valid[nr_arrays] = 1u << HOST;
	return nr_arrays++;
}

/* An argument: an array that is read and written, or only read. */
#define W(array)	((int)(array))
#define R(array)	(~(int)(array))
#define END		(1 << 20)

static struct vertex *add(const int *args)
{
	struct {
		struct arax_dispatch d;
		struct arax_dispatch_range r[8];
	} e = { .d = {
		.type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH,
		.tag = 1ull << 48 | 1ull << 24 | nr_vertices,
		.context = 1, .queue = 1, .queue_flags = ARAX_QUEUE_DATAFLOW,
	} };
	struct vertex *v = &vertices[nr_vertices];
	uint32_t n = 0;

	ck_assert_uint_lt(nr_vertices, TASKS);
	v->st.seq = ++nr_vertices;
	for (; args[n] != END; n++) {
		uint32_t a = (uint32_t)(args[n] < 0 ? ~args[n] : args[n]);

		e.r[n] = (struct arax_dispatch_range){
			.buffer = a, .length = sizes[a], .count = 1,
		};
		e.d.access |= (uint32_t)(args[n] < 0 && with_const ? ARAX_IN : ARAX_INOUT)
			      << (2 * n);
	}
	e.d.nr_ranges = n;
	e.d.cells = 2 + n / 2 + n % 2;
	ck_assert_int_eq(graph_add(g, &e.d), 0);
	return v;
}

static uint32_t run(const int *args)
{
	struct vertex *v = add(args);
	uint32_t device;
	int ret = streams_assign(st, &v->st, graph_find(g, 1ull << 48 | 1ull << 24 | (v - vertices)),
				 v->parents, v->nr_parents);

	ck_assert_int_ge(ret, 0);
	waits += ret;
	device = stream_device(st, v->st.stream);
	for (; *args != END; args++) {
		if (*args < 0 && with_const)
			valid[~*args] |= 1u << device;
		else
			valid[*args < 0 ? ~*args : *args] = 1u << device;
	}
	return device;
}

static void finish(struct vertex *v)
{
	if (v->finished)
		return;
	v->finished = true;
	if (!v->host)
		streams_end(st, &v->st);
	for (uint32_t i = 0; i < v->nr_parents; i++)
		finish((struct vertex *)v->parents[i]);
}

/* Complete in the graph what is finished here. */
static void complete(void)
{
	bool again = true;

	while (again) {
		struct graph_node *n;

		again = false;
		while ((n = graph_pop_ready(g)))
			vertex_of(n)->node = n;
		for (uint32_t i = 0; i < nr_vertices; i++) {
			struct vertex *v = &vertices[i];

			if (!v->finished || v->completed || !v->node)
				continue;
			graph_start(g, v->node);
			graph_complete(g, v->node, 0, NULL);
			v->completed = again = true;
		}
	}
	for (uint32_t i = 0; i < nr_vertices; i++)
		ck_assert(vertices[i].finished == vertices[i].completed);
}

/* The host waits for arrays: their streams run empty, and so does what that needs. */
static void sync(const int *args)
{
	struct vertex *v = add(args);

	v->host = true;
	for (uint32_t i = 0; i < v->nr_parents; i++) {
		uint32_t stream = v->parents[i]->stream;

		for (uint32_t k = 0; k < nr_vertices; k++)
			if (&vertices[k] != v && !vertices[k].host &&
			    vertices[k].st.stream == stream)
				finish(&vertices[k]);
	}
	finish(v);
	complete();
}

#define RUN(...)	run((const int []){ __VA_ARGS__, END })
#define SYNC(...)	sync((const int []){ __VA_ARGS__, END })

/* ------------------------------------------------------------------ */
/* One device                                                          */

static const char *const news[] = { "always-new", "reuse" };
static const char *const one_device[] = { "disjoint", "same-as-parent" };

/* Each direction is a chain of its own; after an iteration they cross. */
static void hits(int iterations)
{
	uint32_t a[7];

	for (int i = 1; i < 7; i++)
		a[i] = array(i < 5 ? 10 : 1);
	for (int i = 0; i < iterations; i++) {
		RUN(R(a[1]), W(a[2]));
		RUN(R(a[3]), W(a[4]));
		RUN(R(a[2]), W(a[5]));
		RUN(R(a[4]), W(a[6]));
		RUN(R(a[2]), R(a[5]), W(a[3]));
		RUN(R(a[4]), R(a[6]), W(a[1]));
	}
	ck_assert_uint_eq(streams_count(st), 2);
	SYNC(W(a[3]));
	SYNC(W(a[1]));
	ck_assert_uint_eq(graph_live(g), 0);
	ck_assert_uint_eq(stream_live(st, 0) + stream_live(st, 1), 0);
}

START_TEST(golden_hits)
{
	for (int i = 0; i < 8; i++) {
		begin(news[i & 1], one_device[i >> 1 & 1], i >> 2, "rr", 1);
		hits(10);
		end();
	}
}
END_TEST

static uint32_t image(void)
{
	uint32_t a[12];

	for (int i = 1; i < 12; i++)
		a[i] = array(i == 7 || i == 8 ? 1 : 10);
	/* blur, thrice */
	RUN(R(a[1]), W(a[2]));
	RUN(R(a[1]), W(a[3]));
	RUN(R(a[1]), W(a[4]));
	/* sobel of two of them */
	RUN(R(a[2]), W(a[5]));
	RUN(R(a[3]), W(a[6]));
	/* maximum, minimum, extend, unsharpen */
	RUN(R(a[4]), W(a[7]));
	RUN(R(a[4]), W(a[8]));
	RUN(W(a[4]), W(a[7]), W(a[8]));
	RUN(R(a[1]), W(a[4]), W(a[9]));
	/* combine */
	RUN(R(a[9]), R(a[3]), R(a[6]), W(a[10]));
	RUN(R(a[10]), R(a[2]), R(a[5]), W(a[11]));
	SYNC(W(a[11]));
	ck_assert_uint_eq(graph_live(g), 0);
	for (uint32_t i = 0; i < streams_count(st); i++)
		ck_assert_uint_eq(stream_live(st, i), 0);
	return streams_count(st);
}

START_TEST(golden_image)
{
	for (int i = 0; i < 8; i++) {
		bool same = i >> 1 & 1, consts = i >> 2;
		uint32_t expected = !same && consts ? 4 : same && !consts ? 1 : 3;

		begin(news[i & 1], one_device[same], consts, "rr", 1);
		ck_assert_uint_eq(image(), expected);
		/* On one stream there is nothing to wait for. */
		ck_assert_int_eq(!waits, expected == 1);
		end();
	}
}
END_TEST

/* ------------------------------------------------------------------ */
/* Several devices: always new streams, every rule for parents           */

static const char *const parents[] = {
	"same-as-parent", "disjoint", "multigpu-early-disjoint", "multigpu-disjoint",
};
static const char *const policies[] = {
	"min-transfer-size", "minmax-transfer-time", "minmin-transfer-time",
};

static void each_of(int first, int last, void (*benchmark)(uint32_t devices))
{
	for (int p = first; p <= last; p++)
		for (int k = 0; k < 3; k++)
			for (uint32_t devices = 2; devices <= 8; devices *= 2) {
				begin("always-new", parents[p], true, policies[k], devices);
				benchmark(devices);
				end();
			}
}

/*
 * @first: of the rules for parents that count for this benchmark.  GrCUDA's tests leave out just
 * the ones before it: "uninteresting or suboptimal".
 */
static void each(int first, void (*benchmark)(uint32_t devices))
{
	each_of(first, 3, benchmark);
}

static void vec(uint32_t devices)
{
	enum { P = 16 };
	uint32_t res[P];

	for (uint32_t i = 0; i < P; i++) {
		uint32_t x = array(1000), y = array(1000), x1 = array(1000), y1 = array(1000);

		res[i] = array(1);
		ck_assert_uint_eq(RUN(R(x), W(x1)), 2 * i % devices);
		ck_assert_uint_eq(RUN(R(y), W(y1)), (2 * i + 1) % devices);
		ck_assert_uint_eq(RUN(R(x1), R(y1), W(res[i])), 2 * i % devices);
	}
	for (uint32_t i = 0; i < P; i++)
		SYNC(W(res[i]));
	ck_assert_uint_eq(streams_count(st), 2 * P);
}

static void black_scholes(uint32_t devices)
{
	enum { P = 24 };
	uint32_t y[P];

	for (uint32_t i = 0; i < P; i++) {
		uint32_t x = array(1000);

		y[i] = array(1000);
		ck_assert_uint_eq(RUN(R(x), W(y[i])), i % devices);
	}
	for (uint32_t i = 0; i < P; i++)
		SYNC(W(y[i]));
	ck_assert_uint_eq(streams_count(st), P);
}

/* As its authors do: parts of an array that tasks write apart count as read. */
static void ml(uint32_t devices)
{
	enum { P = 16, N = 100000, S = N / P, F = 1024, C = 16 };
	uint32_t x[P], z[P], mean[P], std[P];
	uint32_t feat = array(C * F), coeff = array(C * F), bias = array(C);
	uint32_t amax = array(N), l = array(N), r1 = array(C * N), r2 = array(C * N), r = array(N);

	for (uint32_t i = 0; i < P; i++) {
		x[i] = array(S * F);
		z[i] = array(S * F);
		mean[i] = array(F);
		std[i] = array(F);
	}
	for (uint32_t i = 0; i < P; i++)
		ck_assert_uint_eq(RUN(R(x[i]), W(mean[i]), W(std[i])), i % devices);
	for (uint32_t i = 0; i < P; i++)
		ck_assert_uint_eq(RUN(W(mean[0]), W(std[0]), R(mean[i]), R(std[i])), 0);
	for (uint32_t i = 0; i < P; i++) {
		ck_assert_uint_eq(RUN(R(x[i]), W(z[i]), R(mean[0]), R(std[0])), i % devices);
		ck_assert_uint_eq(RUN(R(z[i]), R(coeff), R(r2)), i % devices);
	}
	ck_assert_uint_eq(RUN(W(r2), R(bias)), 0);
	ck_assert_uint_eq(RUN(W(r2)), 0);
	for (uint32_t i = 0; i < P; i++)
		ck_assert_uint_eq(RUN(R(x[i]), R(feat), R(r1)), i % devices);
	ck_assert_uint_eq(RUN(W(r1), W(amax)), 0);
	ck_assert_uint_eq(RUN(R(r1), R(amax), W(l)), 0);
	ck_assert_uint_eq(RUN(W(r1), R(l)), 0);
	ck_assert_uint_eq(RUN(W(r1)), 0);
	ck_assert_uint_eq(RUN(R(r1), R(r2), W(r)), 0);
	SYNC(W(r));
	ck_assert_uint_eq(streams_count(st), 3 * P - 1);
}

static void cg(uint32_t devices)
{
	enum { P = 16, N = 1000 };
	uint32_t a[P], x = array(N), b = array(N), p = array(N), r = array(N), y = array(N);
	uint32_t t1 = array(1), t2 = array(1);

	for (uint32_t i = 0; i < P; i++)
		a[i] = array(N / P * N);
	for (uint32_t i = 0; i < P; i++) {
		ck_assert_uint_eq(RUN(W(a[i])), i % devices);
		ck_assert_uint_eq(RUN(R(a[i]), R(x), R(b), R(r)), i % devices);
	}
	ck_assert_uint_eq(RUN(W(p), W(r)), 0);
	ck_assert_uint_eq(RUN(R(r), W(t1)), 0);
	for (int iteration = 0; iteration < 3; iteration++) {
		for (uint32_t i = 0; i < P; i++)
			ck_assert_uint_eq(RUN(R(a[i]), R(p), R(y)), i % devices);
		ck_assert_uint_eq(RUN(R(p), W(y), W(t2)), 0);
		SYNC(W(t1), W(t2));
		ck_assert_uint_eq(RUN(W(x), R(x), R(p)), 0);
		ck_assert_uint_eq(RUN(W(r), R(r), R(y)), 0);
		ck_assert_uint_eq(RUN(R(r), W(t1)), 0);
		SYNC(R(t1));
		ck_assert_uint_eq(RUN(W(p), R(r), R(p)), 0);
	}
	SYNC(W(x));
	ck_assert_uint_eq(streams_count(st), 4 * (P + 1));
}

/* @home: all copies go where the result is, not each where its block is */
static void mmul_to(uint32_t devices, bool home)
{
	enum { P = 16, N = 1000 };
	uint32_t z[P], y = array(N), out = array(N);

	for (uint32_t i = 0; i < P; i++) {
		uint32_t x = array(N * (N / P));

		z[i] = array(N / P);
		ck_assert_uint_eq(RUN(R(x), R(y), W(z[i])), i % devices);
	}
	for (uint32_t i = 0; i < P; i++)
		ck_assert_uint_eq(RUN(W(out), R(z[i])), home ? 0 : i % devices);
	SYNC(R(out));
	ck_assert_uint_eq(streams_count(st), P);
}

static void mmul(uint32_t devices)
{
	mmul_to(devices, true);
}

static void mmul_by_blocks(uint32_t devices)
{
	mmul_to(devices, false);
}

START_TEST(golden_vec)
{
	each(0, vec);
}
END_TEST

START_TEST(golden_black_scholes)
{
	each(0, black_scholes);
}
END_TEST

START_TEST(golden_ml)
{
	each(3, ml);
}
END_TEST

START_TEST(golden_cg)
{
	each(1, cg);
}
END_TEST

START_TEST(golden_mmul)
{
	each(2, mmul);
}
END_TEST

/*
 * GrCUDA's test leaves these rules out.  By them a copy follows its oldest parent: that is the
 * product of its block, which was submitted before the copy of the block before.
 */
START_TEST(copies_follow_the_oldest_parent)
{
	each_of(0, 1, mmul_by_blocks);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The rules themselves                                                */

/* Two children of one parent, each of a different part of what it wrote. */
static void fork_of(const char *new, const char *parent, uint32_t expected, int expected_waits)
{
	uint32_t a, b;

	begin(new, parent, true, "rr", 1);
	a = array(1);
	b = array(1);
	RUN(W(a), W(b));
	RUN(W(a));
	RUN(W(b));
	ck_assert_uint_eq(streams_count(st), expected);
	ck_assert_int_eq(waits, expected_waits);
	end();
}

START_TEST(a_fork)
{
	fork_of("reuse", "same-as-parent", 1, 0);
	fork_of("reuse", "disjoint", 2, 1);
	fork_of("always-new", "multigpu-disjoint", 2, 1);
	fork_of("always-new", "multigpu-early-disjoint", 2, 1);
}
END_TEST

START_TEST(streams_are_reused_once_free)
{
	uint32_t a;

	for (int i = 0; i < 2; i++) {
		begin(news[i], "disjoint", true, "rr", 1);
		for (int k = 0; k < 5; k++) {
			a = array(1);
			RUN(W(a));
			SYNC(W(a));
		}
		ck_assert_uint_eq(streams_count(st), i ? 1 : 5);
		/* Not while it is in use. */
		a = array(1);
		RUN(W(a));
		a = array(1);
		RUN(W(a));
		ck_assert_uint_eq(streams_count(st), i ? 2 : 7);
		end();
	}
}
END_TEST

START_TEST(lanes_limit_the_streams)
{
	struct streams_params params = {
		.new = STREAM_NEW_ALWAYS, .parent = STREAM_PARENT_DISJOINT,
		.device = choose_device, .lanes = 2,
	};

	begin("reuse", "disjoint", true, "rr", 2);
	streams_destroy(st);
	st = streams_create(&params);
	for (int i = 0; i < 12; i++)
		RUN(W(array(1)));
	ck_assert_uint_eq(streams_count(st), 4);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_uint_eq(stream_live(st, i), 3);
		ck_assert_uint_lt(stream_lane(st, i), 2);
	}
	end();
}
END_TEST

START_TEST(refuses_what_it_cannot)
{
	struct stream_task t = { .seq = 1 };
	enum stream_parent parent;
	enum stream_new new;

	ck_assert_int_lt(stream_new_parse("never", &new), 0);
	ck_assert_int_lt(stream_parent_parse("", &parent), 0);
	/* No device: nothing is assigned. */
	begin("reuse", "multigpu-disjoint", true, "rr", 0);
	ck_assert_int_lt(streams_assign(st, &t, &(struct graph_node){ 0 }, NULL, 0), 0);
	ck_assert_uint_eq(t.stream, STREAM_NONE);
	ck_assert_uint_eq(streams_count(st), 0);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_streams");
	TCase *c = tcase_create("streams");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_test(c, golden_hits);
	tcase_add_test(c, golden_image);
	tcase_add_test(c, golden_vec);
	tcase_add_test(c, golden_black_scholes);
	tcase_add_test(c, golden_ml);
	tcase_add_test(c, golden_cg);
	tcase_add_test(c, golden_mmul);
	tcase_add_test(c, copies_follow_the_oldest_parent);
	tcase_add_test(c, a_fork);
	tcase_add_test(c, streams_are_reused_once_free);
	tcase_add_test(c, lanes_limit_the_streams);
	tcase_add_test(c, refuses_what_it_cannot);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
