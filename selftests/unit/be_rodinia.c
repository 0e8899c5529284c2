// SPDX-License-Identifier: MIT
/*
 * The Rodinia kernels in C, by plain calls: each program comes out right whatever spans a
 * device cuts its launches into; each launch is refused where geometry, arguments or a range
 * are not as they should be; and whatever buffers contain, and whoever writes there
 * meanwhile, nothing is touched beyond them (they end where a page does).
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "arax/kernel.h"
#include "examples/rodinia/rodinia.h"
#include "selftests/unit/be_test.h"

extern arax_kernel_fn rodinia_bfs_start, rodinia_bfs_level, rodinia_gauss_column, rodinia_gauss_rows,
	rodinia_hotspot, rodinia_hotspot3d, rodinia_lavamd, rodinia_nn_distance,
	rodinia_nn_nearest, rodinia_nw, rodinia_pf_move, rodinia_pf_weigh,
	rodinia_pf_total, rodinia_pf_resample, rodinia_pathfinder;

static arax_kernel_fn *const functions[RO_KERNELS] = {
	[RO_BFS_START] = rodinia_bfs_start,
	[RO_BFS_LEVEL] = rodinia_bfs_level,
	[RO_GAUSS_COLUMN] = rodinia_gauss_column,
	[RO_GAUSS_ROWS] = rodinia_gauss_rows,
	[RO_HOTSPOT] = rodinia_hotspot,
	[RO_HOTSPOT3D] = rodinia_hotspot3d,
	[RO_LAVAMD] = rodinia_lavamd,
	[RO_NN_DISTANCE] = rodinia_nn_distance,
	[RO_NN_NEAREST] = rodinia_nn_nearest,
	[RO_NW] = rodinia_nw,
	[RO_PF_MOVE] = rodinia_pf_move,
	[RO_PF_WEIGH] = rodinia_pf_weigh,
	[RO_PF_TOTAL] = rodinia_pf_total,
	[RO_PF_RESAMPLE] = rodinia_pf_resample,
	[RO_PATHFINDER] = rodinia_pathfinder,
};

/**
 * struct direct - a machine that calls
 * @spans:	into how many each launch is cut
 * @before:	called with each launch before it runs, or NULL
 * @blind:	kernels see zeros in the place of their first range
 * @most:	launches of a run that are done, or 0: all
 */
struct direct {
	struct ro_machine m;
	uint64_t spans;
	bool blind;
	uint64_t most;
	void (*before)(arax_kernel_fn *fn, const struct arax_launch *l);
};

static struct direct *of(struct ro_machine *m)
{
	return (struct direct *)((char *)m - offsetof(struct direct, m));
}

static uint64_t pages(uint64_t bytes)
{
	return (bytes + 4095) & ~4095ull;
}

/* Ends where a page does, and the next one can't be touched. */
static void *fenced(uint64_t bytes)
{
	char *p = mmap(NULL, pages(bytes) + 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + pages(bytes), 4096, PROT_NONE), 0);
	return p + pages(bytes) - bytes;
}

static void unfence(void *data, uint64_t bytes)
{
	munmap((char *)data + bytes - pages(bytes), pages(bytes) + 4096);
}

static int create(struct ro_machine *m, struct ro_buffer *b)
{
	/* Floats stay aligned: sizes are multiples of four, but for the film. */
	b->data = fenced(b->bytes);
	return 0;
}

static void destroy(struct ro_machine *m, struct ro_buffer *b)
{
	unfence(b->data, b->bytes);
}

static int launch(struct ro_machine *m, enum ro_kernel k, const struct arax_grid *grid,
		  const void *args, size_t arg_len, const struct ro_range *ranges,
		  uint32_t nr_ranges)
{
	struct arax_launch_range r[RO_MAX_RANGES];
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = nr_ranges, .ranges = r, .args = args,
		.arg_len = (uint32_t)arg_len,
	};
	struct direct *d = of(m);
	uint64_t groups = 1, s;
	int err = 0;

	for (uint32_t i = 0; i < 3; i++) {
		l.grid[i] = grid->grid[i];
		l.block[i] = grid->block[i];
		groups *= l.grid[i];
	}
	for (uint32_t i = 0; i < nr_ranges; i++) {
		ck_assert(ranges[i].offset + ranges[i].length <= ranges[i].buffer->bytes);
		r[i] = (struct arax_launch_range){
			(char *)ranges[i].buffer->data + ranges[i].offset, ranges[i].length, 0, 1,
		};
	}
	if (d->most && m->tasks >= d->most)
		return 0;
	if (d->blind)
		r[0].data = fenced(r[0].length);
	if (d->before) {
		l.group_end = groups;
		d->before(functions[k], &l);
	}
	/* The last first: no span may need one before it. The total is one work-item's. */
	s = k == RO_PF_TOTAL || d->spans > groups ? 1 : d->spans;
	for (uint64_t i = s; i-- && !err;) {
		l.group_begin = groups * i / s;
		l.group_end = groups * (i + 1) / s;
		err = functions[k](&l);
	}
	if (d->blind)
		unfence(r[0].data, r[0].length);
	return err;
}

static int no_wait(struct ro_machine *m)
{
	return 0;
}

static const struct ro_machine_ops ops = { create, destroy, launch, no_wait };

static const struct trial {
	uint32_t size, steps;
} trials[][6] = {
	{ { 1, 1 }, { 2, 1 }, { 255, 2 }, { 1000, 3 } },	/* bfs */
	{ { 2, 1 }, { 3, 1 }, { 64, 1 }, { 131, 1 } },
	{ { 1, 1 }, { 3, 5 }, { 60, 2 }, { 61, 3 }, { 133, 7 } },
	{ { 1, 2 }, { 2, 1 }, { 64, 2 }, { 67, 3 } },
	{ { 1, 1 }, { 2, 1 }, { 3, 2 } },
	{ { 1, 1 }, { 9, 2 }, { 4096, 1 }, { 4097, 5 } },
	{ { 1, 1 }, { 31, 1 }, { 32, 1 }, { 33, 2 }, { 100, 1 } },
	{ { 1, 3 }, { 10, 2 }, { 256, 5 }, { 3001, 4 } },
	{ { 1, 3 }, { 2, 1 }, { 984, 20 }, { 985, 21 }, { 3001, 45 } },
};

static void with(struct direct *d, const struct ro_program *p, struct trial t,
		 void (*then)(struct direct *d, const struct ro_program *p, void *state))
{
	struct ro_params params = { t.size, t.steps, 7 };
	char why[160] = "";
	void *state;

	ck_assert_msg(ro_sizes(p, &params, why, sizeof(why)), "%s", why);
	d->m.ops = &ops;
	state = p->make(&d->m, &params);
	ck_assert_msg(!!state, "%s %u: %s", p->name, t.size, d->m.why);
	if (p->reset)
		p->reset(state);
	ro_run(&d->m, p, state);
	ck_assert_msg(!d->m.error, "%s %u: %d", p->name, t.size, d->m.error);
	then(d, p, state);
	p->free(state);
	ro_end(&d->m);
}

static void is_right(struct direct *d, const struct ro_program *p, void *state)
{
	struct ro_verdict v = p->check(state);

	ck_assert_msg(ro_passes(&v), "%s in %d spans: %g %s, %g allowed", p->name, (int)d->spans,
		      v.error, v.what, v.tolerance);
	ck_assert(v.compared > 0);
}

START_TEST(test_right)
{
	static const uint64_t spans[] = { 1, 2, 3, 7 };

	for (size_t t = 0; t < 6 && trials[_i][t].size; t++)
		for (size_t s = 0; s < 4; s++) {
			struct direct d = { .spans = spans[s] };

			with(&d, ro_programs[_i], trials[_i][t], is_right);
		}
}
END_TEST

/* The same inputs and results, but for one: of what each program is checked by. */
static void is_seen(struct direct *d, const struct ro_program *p, void *state)
{
	static const int results[RO_PROGRAMS] = { 2, 0, -1, -1, 2, 3, 1, 10, -1 };
	struct ro_verdict v;
	struct ro_buffer *b;
	uint64_t i;

	for (int k = 0; k < RO_PROGRAMS; k++) {
		if (p != ro_programs[k])
			continue;
		/* Where there are two in turn, in both. */
		for (int n = results[k] < 0 ? 1 : results[k]; n <= (results[k] < 0 ? 2 : results[k]);
		     n++) {
			b = &d->m.buffers[n];
			i = b->bytes / 4 / 2;
			if (k == 1)
				i = 0;		/* a diagonal element */
			((uint32_t *)b->data)[i] ^= 1u << 23;	/* twice, or half, or another number */
		}
	}
	v = p->check(state);
	ck_assert_msg(!ro_passes(&v), "%s: a wrong result passes: %g of %g", p->name, v.error,
		      v.tolerance);
}

START_TEST(test_wrong_is_seen)
{
	struct direct d = { .spans = 1 };

	with(&d, ro_programs[_i], trials[_i][1], is_seen);
}
END_TEST

static void is_wrong(struct direct *d, const struct ro_program *p, void *state)
{
	struct ro_verdict v = p->check(state);

	ck_assert_msg(!ro_passes(&v), "%s: a wrong result passes: %g of %g", p->name, v.error,
		      v.tolerance);
	/* By far: by the tolerance of few steps chance should not tell. */
	ck_assert_msg(v.error > 10 * v.tolerance, "%s: %g of %g", p->name, v.error, v.tolerance);
}

/* The first range of both hotspots, also where cells are so small that steps are shorter. */
START_TEST(test_power_matters)
{
	static const char *const names[] = { "hotspot", "hotspot3d" };
	static const struct trial more[] = {
		{ 1, 1 }, { 1, 300 }, { 61, 3 }, { 128, 1 }, { 128, 20 }, { 512, 3 }, { 1100, 1 },
	};

	for (size_t t = 0; t < sizeof(more) / sizeof(more[0]); t++) {
		struct direct d = { .spans = 1, .blind = true };

		with(&d, ro_find(names[_i]), more[t], is_wrong);
		d = (struct direct){ .spans = 1 };
		with(&d, ro_find(names[_i]), more[t], is_right);
	}
}
END_TEST

/* Forces of all steps are written to one place: the last step's have to be new. */
START_TEST(test_last_forces_are_seen)
{
	for (uint32_t steps = 2; steps <= 3; steps++) {
		struct direct d = { .spans = 1, .most = 3 * (steps - 1) };

		with(&d, ro_find("lavamd"), (struct trial){ 3, steps }, is_wrong);
	}
}
END_TEST

/* The last resample changes no estimate: any place, or a particle that is not the one drawn. */
static void drawn_is_seen(struct direct *d, const struct ro_program *p, void *state)
{
	uint32_t steps = (uint32_t)d->m.tasks / 4, n = (uint32_t)(d->m.buffers[1].bytes / 4);
	const uint32_t at[] = { 0, n / 2, n - 1 };
	float *xy[] = { d->m.buffers[steps % 2 ? 3 : 1].data, d->m.buffers[steps % 2 ? 4 : 2].data };

	is_right(d, p, state);
	for (int i = 0; i < 6; i++) {
		float *one = &xy[i % 2][at[i / 2]], was = *one;

		*one = i < 3 ? was + 0.001f : -1000;
		is_wrong(d, p, state);
		*one = was;
	}
	for (int i = 0; i < 2; i++)
		xy[i][0] = xy[i][n - 1];
	is_wrong(d, p, state);
}

START_TEST(test_last_drawn_is_seen)
{
	static const struct trial sizes[] = { { 257, 1 }, { 3001, 2 }, { 20000, 5 } };

	for (int i = 0; i < 3; i++) {
		struct direct d = { .spans = 3 };

		with(&d, ro_find("particlefilter"), sizes[i], drawn_is_seen);
	}
}
END_TEST

START_TEST(test_nan_is_wrong)
{
	struct ro_verdict v = { .tolerance = 1 };

	ck_assert(ro_passes(&v));
	v.error = 2;
	ck_assert(!ro_passes(&v));
	v.error = __builtin_nan("");
	ck_assert(!ro_passes(&v));
}
END_TEST

/* ------------------------------------------------------------------ */

static void refused(arax_kernel_fn *fn, const struct arax_launch *l, const char *what, uint32_t which)
{
	ck_assert_msg(fn(l) == -EINVAL, "%s %u is not refused", what, which);
}

static void try_wrong(arax_kernel_fn *fn, const struct arax_launch *right)
{
	struct arax_launch_range r[RO_MAX_RANGES];
	struct arax_launch l = *right;
	uint8_t args[64];

	ck_assert(right->arg_len <= sizeof(args));
	memcpy(r, right->ranges, right->nr_ranges * sizeof(r[0]));
	l.ranges = r;
	for (uint32_t i = 0; i < l.nr_ranges; i++) {
		r[i].length = 0;
		refused(fn, &l, "an empty range", i);
		r[i].length = right->ranges[i].length;
		r[i].count = 2;
		refused(fn, &l, "a strided range", i);
		r[i].count = 1;
	}
	l.nr_ranges--;
	refused(fn, &l, "a missing range", l.nr_ranges);
	l.nr_ranges++;
	for (uint32_t i = 0; i < 3; i++) {
		l.grid[i]++;
		refused(fn, &l, "a larger grid", i);
		l.grid[i] = right->grid[i];
		l.block[i]++;
		refused(fn, &l, "a larger block", i);
		l.block[i] = right->block[i];
	}
	l.arg_len -= 4;
	refused(fn, &l, "too short arguments", l.arg_len);
	l.arg_len += 4;
	/* The first is how much there is. */
	memcpy(args, right->args, right->arg_len);
	l.args = args;
	memset(args, 0xff, 4);
	refused(fn, &l, "too much", 0);
	memset(args, 0, 4);
	refused(fn, &l, "nothing", 0);
}

static void nothing(struct direct *d, const struct ro_program *p, void *state)
{
}

START_TEST(test_refusal)
{
	struct direct d = { .spans = 1, .before = try_wrong };

	with(&d, ro_programs[_i], trials[_i][1], nothing);
	with(&d, ro_programs[_i], trials[_i][2], nothing);
}
END_TEST

/* ------------------------------------------------------------------ */

static uint64_t seed = 1;

/* Numbers of all sorts: small ones, indices just beyond, NaN, infinity, any bits. */
static uint32_t any(void)
{
	static const uint32_t some[] = {
		0, 1, 2, 254, 255, 256, 999, 1000, 1001, 0x7f800000, 0xff800000, 0x7fc00000,
		0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0xc2c80000, 0x49742400,
	};
	uint64_t r = ro_random(&seed);

	return r & 1 ? some[(r >> 8) % 18] : (uint32_t)(r >> 32);
}

static void garble(void *data, uint64_t bytes)
{
	for (uint64_t i = 0; i + 4 <= bytes; i += 4)
		((uint32_t *)data)[i / 4] = any();
}

/* On ranges of its own, so that the program's stay what they are. */
static void try_garbage(arax_kernel_fn *fn, const struct arax_launch *right)
{
	struct arax_launch_range r[RO_MAX_RANGES];
	struct arax_launch l = *right;
	int err;

	l.ranges = r;
	for (uint32_t i = 0; i < l.nr_ranges; i++) {
		r[i] = right->ranges[i];
		r[i].data = fenced(r[i].length);
		garble(r[i].data, r[i].length);
	}
	err = fn(&l);
	ck_assert_msg(!err || err == -EINVAL, "%d", err);
	for (uint32_t i = 0; i < l.nr_ranges; i++)
		unfence(r[i].data, r[i].length);
}

START_TEST(test_garbage)
{
	struct direct d = { .spans = 1, .before = try_garbage };

	for (int i = 0; i < 20; i++)
		with(&d, ro_programs[_i], trials[_i][2], nothing);
}
END_TEST

/*
 * Rows that say, each by itself rightly, that all neighbours are theirs: those of one call, or a
 * level would take nodes times neighbours.  Rows between them, which would end before they begin,
 * are not of this level.
 */
START_TEST(test_rows_share_the_neighbours)
{
	enum { NODES = 512, EDGES = 64 };
	struct { uint32_t nodes, edges, most, level, slot; } args = { NODES, EDGES, EDGES, 0, 0 };
	uint32_t first[NODES + 1], to[EDGES] = { 0 }, found[2] = { 1, 0 };
	int32_t cost[NODES];
	struct arax_launch_range r[] = {
		{ first, sizeof(first), 0, 1 }, { to, sizeof(to), 0, 1 },
		{ cost, sizeof(cost), 0, 1 }, { found, sizeof(found), 0, 1 },
	};
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = 4, .ranges = r, .args = &args, .arg_len = sizeof(args),
		.grid = { NODES / RO_BFS_ITEMS, 1, 1 }, .block = { RO_BFS_ITEMS, 1, 1 },
		.group_end = NODES / RO_BFS_ITEMS,
	};

	for (uint32_t v = 0; v <= NODES; v++)
		first[v] = v % 2 ? EDGES : 0;
	for (uint32_t v = 0; v < NODES; v++)
		cost[v] = v % 2 ? -1 : 0;
	ck_assert_int_eq(rodinia_bfs_level(&l), -EINVAL);
	/* One such row is none too many, and neither are rows that lie one behind the other. */
	for (uint32_t v = 1; v < NODES; v++)
		cost[v] = -1;
	ck_assert_int_eq(rodinia_bfs_level(&l), 0);
	for (uint32_t v = 0; v <= NODES; v++)
		first[v] = v * EDGES / NODES;
	memset(cost, 0, sizeof(cost));
	ck_assert_int_eq(rodinia_bfs_level(&l), 0);
}
END_TEST

/* What a client may do while the kernel runs. */
struct meddler {
	struct ro_buffer *first, *to;
	int stop;
};

static void *meddle(void *arg)
{
	struct meddler *m = arg;
	uint64_t state = 3, i;

	while (!__atomic_load_n(&m->stop, __ATOMIC_RELAXED))
		for (i = 0; i < 64; i++) {
			struct ro_buffer *b = ro_random(&state) & 1 ? m->first : m->to;
			uint32_t *at = (uint32_t *)b->data + ro_random(&state) % (b->bytes / 4);

			__atomic_store_n(at, (uint32_t)ro_random(&state) % 8192, __ATOMIC_RELAXED);
		}
	return NULL;
}

/* A graph that changes under a search: levels end, with or without an error. */
START_TEST(test_meddling)
{
	struct direct d = { .spans = 1, .m.ops = &ops };
	struct ro_params params = { 1000, 1, 7 };
	const struct ro_program *p = ro_find("bfs");
	void *state = p->make(&d.m, &params);
	struct meddler m = { &d.m.buffers[0], &d.m.buffers[1], 0 };
	int refused = 0, done = 0;
	pthread_t thread;

	ck_assert_ptr_nonnull(state);
	ck_assert_int_eq(pthread_create(&thread, NULL, meddle, &m), 0);
	/* Until both have been: it is not known when the other thread runs. */
	for (int i = 0; i < 200000 && !(refused && i >= 2000); i++) {
		d.m.error = 0;
		ro_run(&d.m, p, state);
		ck_assert(!d.m.error || d.m.error == -EINVAL);
		refused += d.m.error != 0;
		done++;
	}
	__atomic_store_n(&m.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	ck_assert_int_gt(refused, 0);
	ck_assert_int_gt(done, 0);
	p->free(state);
	ro_end(&d.m);
}
END_TEST

/* ------------------------------------------------------------------ */

START_TEST(test_sizes)
{
	const struct ro_program *p = ro_programs[_i];
	struct ro_params params = { p->size, p->steps, 1 };
	char why[160];

	ck_assert(ro_sizes(p, &params, why, sizeof(why)));
	params = (struct ro_params){ p->bench_size, p->bench_steps, 1 };
	ck_assert(ro_sizes(p, &params, why, sizeof(why)));
	params.size = p->size_least - 1;
	ck_assert(!ro_sizes(p, &params, why, sizeof(why)));
	ck_assert_ptr_nonnull(strstr(why, "--size"));
	ck_assert_ptr_nonnull(strstr(why, p->size_is));
	params.size = p->size_most + 1;
	ck_assert(!ro_sizes(p, &params, why, sizeof(why)));
	params = (struct ro_params){ p->size, 0, 1 };
	ck_assert(!ro_sizes(p, &params, why, sizeof(why)));
	ck_assert_ptr_nonnull(strstr(why, "--steps"));
	params.steps = p->steps_most + 1;
	ck_assert(!ro_sizes(p, &params, why, sizeof(why)));
}
END_TEST

/* After a failure nothing more is done, and its reason is kept. */
START_TEST(test_failure_stays)
{
	struct direct d = { .spans = 1, .m.ops = &ops };

	ro_fail(&d.m, -EDQUOT, "no %s", "more");
	ro_fail(&d.m, -EIO, "later");
	ck_assert_int_eq(d.m.error, -EDQUOT);
	ck_assert_str_eq(d.m.why, "no more");
	ck_assert_ptr_null(ro_buffer(&d.m, 4096));
	ck_assert_ptr_null(ro_find("nonsense"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("be_rodinia");
	TCase *t = tcase_create("kernels");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_right, 0, RO_PROGRAMS);
	tcase_add_loop_test(t, test_wrong_is_seen, 0, RO_PROGRAMS);
	tcase_add_loop_test(t, test_power_matters, 0, 2);
	tcase_add_test(t, test_last_forces_are_seen);
	tcase_add_test(t, test_last_drawn_is_seen);
	tcase_add_test(t, test_nan_is_wrong);
	tcase_add_loop_test(t, test_refusal, 0, RO_PROGRAMS);
	tcase_add_loop_test(t, test_garbage, 0, RO_PROGRAMS);
	tcase_add_test(t, test_rows_share_the_neighbours);
	tcase_add_test(t, test_meddling);
	tcase_add_loop_test(t, test_sizes, 0, RO_PROGRAMS);
	tcase_add_test(t, test_failure_stays);
	suite_add_tcase(s, t);
	return be_main(s);
}
