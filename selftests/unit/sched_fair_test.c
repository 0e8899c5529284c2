// SPDX-License-Identifier: MIT
/*
 * sched_fair_test - weights, maxima, priorities, deadlines, in simulated time
 *
 * Devices of some lanes run tasks of given lengths; time jumps from one end to the
 * next.  What a tenant got in a window of time is counted with the parts of tasks that
 * are in it.
 */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/sched.h"

#define US	1000ull
#define MS	1000000ull
#define S	1000000000ull
#define TENANTS	8
#define DEVICES	8
#define LANES	4		/* of each at most */
#define BACKLOG	32		/* tasks that a busy tenant keeps queued */
#define LONG	(60 * S)	/* a few hundred times what one may have saved */

/* A sanitizer takes several times as long for a task, and finds what it can in the first of many. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED	true
#else
#define SANITIZED	false
#endif

struct tenant {
	uint64_t id;
	uint64_t shortest, longest;	/* lengths, log-uniform */
	bool busy;
	double got;			/* by tasks that have ended */
	unsigned int queued, running;
	unsigned int most;		/* tasks that it has at once; 0: a backlog */
	uint32_t devices;		/* bits of those that can run its tasks; 0: all */
};

struct lane {
	struct graph_node *node;
	uint64_t start, end;
};

static struct sched *s;
static struct tenant tenants[TENANTS];
static uint32_t nr_tenants, nr_devices, nr_lanes;
static struct lane lanes[DEVICES * LANES];	/* LANES for each device */
static uint64_t now, seq, rng;
static struct graph_node *spare;

static double uniform(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (double)(rng >> 11) / (1ull << 53);
}

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return !n->d.grid[1] || n->d.grid[1] >> device & 1;
}

static void begin_by(const char *policy, uint32_t devices, uint32_t per_device)
{
	memset(tenants, 0, sizeof(tenants));
	memset(lanes, 0, sizeof(lanes));
	nr_tenants = 0;
	nr_devices = devices;
	nr_lanes = per_device;
	now = 1000 * S;
	rng = 88172645463325252ull;
	s = sched_create(&(struct sched_params){ .policy = policy,
						   .ops.can_run = can_run });
	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < devices; i++)
		ck_assert_int_eq(sched_device_set(s, i, per_device), 0);
}

static void begin(uint32_t devices)
{
	begin_by("rr", devices, 1);
}

/* Where a task goes is one thing, and whose is next another: parts hold by each of these. */
static const struct {
	const char *policy;
	uint32_t lanes;
} ways[] = {
	{ "rr", 1 }, { "eft", 1 }, { "fair", 1 },
	{ "rr", LANES }, { "eft", LANES }, { "fair", LANES },
};
#define WAYS	((int)(sizeof(ways) / sizeof(ways[0])))

/* As of ways[@way]. */
static void begin_as(int way, uint32_t devices)
{
	begin_by(ways[way].policy, devices, ways[way].lanes);
}

static struct graph_node *node_new(void)
{
	struct graph_node *n = spare;

	if (n)
		spare = n->priv;
	else
		n = malloc(sizeof(*n));
	*n = (struct graph_node){ .seq = ++seq };
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 64;
	return n;
}

static void node_put(struct graph_node *n)
{
	n->priv = spare;
	spare = n;
}

static void end(void)
{
	struct graph_node *n;

	for (uint32_t i = 0; i < nr_devices * LANES; i++) {
		if (!lanes[i].node)
			continue;
		sched_finish(s, lanes[i].node, 1, false);
		node_put(lanes[i].node);
	}
	/* Take the maxima away, or what waits for them stays. */
	for (uint32_t i = 0; i < nr_tenants; i++)
		ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
			.id = tenants[i].id, .weight = 100, .max_ns = SCHED_NO_MAX,
			.parent = 0 }), 0);
	while ((n = sched_pick(s, now))) {
		sched_finish(s, n, 1, false);
		node_put(n);
	}
	ck_assert_uint_eq(sched_running(s), 0);
	sched_destroy(s);
	while (spare) {
		n = spare;
		spare = n->priv;
		free(n);
	}
}

static struct tenant *tenant(uint64_t parent, uint32_t weight, uint64_t shortest,
			     uint64_t longest)
{
	struct tenant *t = &tenants[nr_tenants++];

	*t = (struct tenant){
		.id = nr_tenants, .shortest = shortest, .longest = longest, .busy = true,
	};
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = t->id, .parent = parent, .weight = weight, .max_ns = SCHED_NO_MAX }), 0);
	return t;
}

static void limit(uint64_t id, uint64_t parent, uint64_t max, uint64_t period)
{
	ck_assert_int_eq(sched_tenant_set(s, &(struct sched_tenant){
		.id = id, .parent = parent, .weight = 100, .max_ns = max,
		.period_ns = period }), 0);
}

static void push(struct tenant *t)
{
	struct graph_node *n = node_new();

	n->d.tenant = t->id;
	n->d.kernel = (uint32_t)t->id;
	n->d.grid[1] = t->devices;
	n->priv = t;
	/* Its length, which nobody knows before. */
	n->run_ns = (uint64_t)((double)t->shortest *
			       pow((double)t->longest / (double)t->shortest, uniform()));
	ck_assert_int_eq(sched_push(s, n, now), 0);
	t->queued++;
}

static void fill(void)
{
	for (uint32_t i = 0; i < nr_tenants; i++)
		while (tenants[i].busy && tenants[i].queued < BACKLOG &&
		       (!tenants[i].most ||
			tenants[i].queued + tenants[i].running < tenants[i].most))
			push(&tenants[i]);
}

/* What @t got until now, with the parts that run. */
static double got(const struct tenant *t)
{
	double sum = t->got;

	for (uint32_t i = 0; i < nr_devices * LANES; i++)
		if (lanes[i].node && lanes[i].node->priv == t)
			sum += (double)(now - lanes[i].start);
	return sum;
}

static struct lane *lane_of(uint32_t device)
{
	struct lane *l = &lanes[device * LANES];

	for (uint32_t i = 0; i < nr_lanes; i++)
		if (!l[i].node)
			return &l[i];
	ck_abort_msg("device %u runs %u tasks at once", device, nr_lanes + 1);
}

/* Until @until at the latest. */
static void step(uint64_t until)
{
	struct lane *first = NULL;
	struct graph_node *n;

	fill();
	while ((n = sched_pick(s, now))) {
		*lane_of(n->device) = (struct lane){ .node = n, .start = now, .end = now + n->run_ns };
		((struct tenant *)n->priv)->queued--;
		((struct tenant *)n->priv)->running++;
		fill();
	}
	for (uint32_t i = 0; i < nr_devices * LANES; i++)
		if (lanes[i].node && (!first || lanes[i].end < first->end))
			first = &lanes[i];
	/* As the poller does: it wakes for this. */
	if (sched_next_wake(s) < until)
		until = sched_next_wake(s) > now ? sched_next_wake(s) : now;
	if (!first || first->end > until) {
		now = until;
		return;
	}
	now = first->end;
	n = first->node;
	((struct tenant *)n->priv)->got += (double)n->run_ns;
	((struct tenant *)n->priv)->running--;
	first->node = NULL;
	sched_finish(s, n, n->run_ns, true);
	node_put(n);
}

static void run_until(uint64_t until)
{
	while (now < until)
		step(until);
}

/* ------------------------------------------------------------------ */
/* Weights                                                             */

/*
 * Runs @windows windows of 100 of the longest tasks, that overlap by half; in each, each
 * tenant's share is within a hundredth of what it should be.
 */
static void shares_hold(const double *should, uint64_t longest, int windows)
{
	double before[TENANTS][2] = { 0 };

	run_until(now + 10 * longest);
	for (int w = 0; w < windows + 2; w++) {
		double sum = 0, after[TENANTS];

		for (uint32_t i = 0; i < nr_tenants; i++) {
			after[i] = got(&tenants[i]);
			sum += after[i] - before[i][0];
		}
		for (uint32_t i = 0; w >= 2 && i < nr_tenants; i++) {
			double share = (after[i] - before[i][0]) / sum;

			ck_assert_msg(fabs(share - should[i]) < 0.01,
				      "%s, %u devices of %u lanes, window %d: tenant %u got %.4f, not %.4f",
				      sched_policy_name(s), nr_devices, nr_lanes, w, i + 1, share,
				      should[i]);
		}
		for (uint32_t i = 0; i < nr_tenants; i++) {
			before[i][0] = before[i][1];
			before[i][1] = after[i];
		}
		run_until(now + 50 * longest);
	}
}

static const double one_two_four[] = { 1 / 7., 2 / 7., 4 / 7. };

START_TEST(weights_hold_for_all_lengths)
{
	for (uint32_t devices = 1; devices <= DEVICES; devices *= 2) {
		begin_as(_i, devices);
		for (int i = 0; i < 3; i++)
			tenant(0, 100u << i, 1 * US, 1 * S);
		shares_hold(one_two_four, 1 * S, 10);
		end();
	}
}
END_TEST

/* Each in turn sends the giants, and each the dwarfs; these are many: half of all that once only. */
START_TEST(giants_gain_nothing)
{
	for (uint32_t devices = 1; devices * ways[_i].lanes <= 4; devices *= 4)
		for (int giant = 0; giant < 3; giant++)
			for (int dwarf = 0; dwarf < 3; dwarf++) {
				if (giant == dwarf || (_i && dwarf != (giant + 1) % 3) ||
				    (SANITIZED && giant))
					continue;
				begin_as(_i, devices);
				for (int i = 0; i < 3; i++)
					tenant(0, 100u << i,
					       i == giant ? 50 * MS : i == dwarf ? 10 * US : 1 * MS,
					       i == giant ? 50 * MS : i == dwarf ? 20 * US : 9 * MS);
				shares_hold(one_two_four, 50 * MS, 2);
				end();
			}
}
END_TEST

/* a: 1 of 4, b: 3 of 4; in b c and d have halves; so have d's two. */
START_TEST(weights_nest)
{
	static const double should[] = { .25, 0, .375, 0, .1875, .1875 };

	begin_as(_i, 2);
	tenant(0, 100, MS, 10 * MS);
	tenant(0, 300, MS, MS)->busy = false;
	tenant(2, 700, MS, 100 * MS);
	tenant(2, 700, MS, MS)->busy = false;
	tenant(4, 10, MS, 50 * MS);
	tenant(4, 10, MS, MS);
	shares_hold(should, 100 * MS, 10);
	/* Who leaves leaves it to his brother. */
	tenants[5].busy = false;
	static const double then[] = { .25, 0, .375, 0, .375, 0 };

	shares_hold(then, 100 * MS, 10);
	/* And a whole branch to the others. */
	tenants[0].busy = false;
	static const double last[] = { 0, 0, .5, 0, .5, 0 };

	shares_hold(last, 100 * MS, 10);
	end();
}
END_TEST

START_TEST(weights_change_while_tasks_run)
{
	static const double before[] = { .5, .5 }, after[] = { .9, .1 };

	begin_as(_i, 2);
	tenant(0, 100, MS, 10 * MS);
	tenant(0, 100, MS, 10 * MS);
	shares_hold(before, 10 * MS, 4);
	ck_assert_int_eq(sched_tenant_weight(s, 1, 900), 0);
	shares_hold(after, 10 * MS, 4);
	end();
}
END_TEST

START_TEST(idle_tenants_save_nothing)
{
	double first[2];

	begin_as(_i, 1);
	tenant(0, 100, MS, 10 * MS);
	tenant(0, 100, MS, 10 * MS);
	run_until(now + S);
	tenants[1].busy = false;
	run_until(now + 100 * S);
	first[0] = got(&tenants[0]);
	first[1] = got(&tenants[1]);
	tenants[1].busy = true;
	run_until(now + S);
	ck_assert_double_lt(fabs(got(&tenants[1]) - first[1] - .5 * nr_lanes * S),
			    .03 * nr_lanes * S);
	end();
}
END_TEST

/* Who always has something running does not, either. */
START_TEST(busy_tenants_save_little)
{
	double before;

	begin_by(_i == 0 ? "rr" : _i == 1 ? "eft" : "fair", 1, LANES);
	tenant(0, 300, MS, 10 * MS)->most = 2;
	tenant(0, 100, MS, 10 * MS);
	run_until(now + LONG);
	tenants[0].most = 0;
	before = got(&tenants[1]);
	run_until(now + 2 * S);
	ck_assert_double_gt(got(&tenants[1]) - before, 1.5 * S);
	end();
}
END_TEST

/* ------------------------------------------------------------------ */
/* Devices that are not of use to everybody                            */

/* Of what @t1 and @t2 get in so long @t1 gets half. */
static void share_equally(const struct tenant *t1, const struct tenant *t2, uint64_t ns)
{
	double before1 = got(t1), before2 = got(t2), part;

	run_until(now + ns);
	part = (got(t1) - before1) / (got(t1) - before1 + got(t2) - before2);
	ck_assert_msg(fabs(part - .5) < .02,
		      "%s, %u lanes: tenant %llu got %.4f of it, %llu the rest",
		      sched_policy_name(s), nr_lanes, (unsigned long long)t1->id, part,
		      (unsigned long long)t2->id);
}

/* Somebody has been alone on each of two, of which one has more lanes. */
static void begin_apart(int way)
{
	begin_as(way, 2);
	ck_assert_int_eq(sched_device_set(s, 0, 1), 0);
	tenant(0, 100, MS, 10 * MS)->devices = 1;
	tenant(0, 10, MS, 10 * MS)->devices = 2;
	run_until(now + LONG);
}

/* Where it goes others are no further, or as far as they are. */
static const uint32_t equal[] = { 100, 100 };

/* So long did @kernel run on @device, several times. */
static void observe(uint32_t kernel, uint32_t device, uint64_t ns)
{
	struct graph_node *n = node_new();

	n->d.kernel = kernel;
	for (int i = 0; i < 20; i++)
		sched_observe(s, sched_kernel_key(n), device, sched_work(n), ns);
	node_put(n);
}

/* Of the next @ns each of these has its part by weight, within 1 %. */
static void share_among(struct tenant *const *who, const uint32_t *weight, uint32_t nr, uint64_t ns)
{
	double before[8], all = 0, weights = 0;

	for (uint32_t i = 0; i < nr; i++)
		before[i] = got(who[i]);
	run_until(now + ns);
	for (uint32_t i = 0; i < nr; i++) {
		all += got(who[i]) - before[i];
		weights += weight[i];
	}
	for (uint32_t i = 0; i < nr; i++)
		ck_assert_double_eq_tol((got(who[i]) - before[i]) / all, weight[i] / weights, 0.01);
}

/* Several come to one device while another one's turns have come less far: it is theirs by parts. */
START_TEST(of_many_who_come_each_has_its_part)
{
	static const uint32_t weights[] = { 10, 20, 40, 10 };
	struct tenant *who[4];

	begin_apart(_i);
	for (uint32_t i = 0; i < 3; i++) {
		who[i] = tenant(0, 10u << i, MS, 10 * MS);
		who[i]->devices = 2;
	}
	run_until(now + 20 * S);
	tenants[1].busy = false;
	run_until(now + 20 * S);
	share_among(who, weights, 3, 100 * S);
	tenants[1].busy = true;
	who[3] = &tenants[1];
	run_until(now + 20 * S);
	share_among(who, weights, 4, 100 * S);
	end();
}
END_TEST

/* What one was lifted by on a device is not owed again by who comes back. */
START_TEST(who_comes_back_owes_nothing)
{
	struct tenant *t, *who[2];

	begin_apart(_i);
	t = tenant(0, 10, MS, 10 * MS);
	t->devices = 2;
	run_until(now + 20 * S);
	t->busy = false;
	tenants[0].busy = false;
	run_until(now + 30 * S);
	t->busy = true;
	run_until(now + 20 * S);
	who[0] = t;
	who[1] = &tenants[1];
	share_among(who, equal, 2, 100 * S);
	end();
}
END_TEST

/* Nor does one who waits for a quicker device give it to who comes to another. */
START_TEST(who_waits_elsewhere_lets_nobody_by)
{
	struct tenant *who[2];

	begin_by("eft", 2, 4);
	sched_device_set(s, 0, 1);
	tenant(0, 100, 10 * MS, 10 * MS);
	observe(1, 0, 10 * MS);
	observe(1, 1, 100 * MS);
	who[0] = tenant(0, 100, 10 * MS, 10 * MS);
	who[0]->devices = 2;
	observe(2, 1, 10 * MS);
	run_until(now + LONG);
	who[1] = tenant(0, 100, 10 * MS, 10 * MS);
	who[1]->devices = 2;
	observe(3, 1, 10 * MS);
	run_until(now + 20 * S);
	share_among(who, equal, 2, 100 * S);
	end();
}
END_TEST

START_TEST(who_comes_begins_where_it_goes)
{
	struct tenant *t;

	begin_apart(_i);
	t = tenant(0, 100, MS, 10 * MS);
	t->devices = 1;
	share_equally(t, &tenants[0], 2 * S);
	t = tenant(0, 10, MS, 10 * MS);
	t->devices = 2;
	/* The credit, ten times over. */
	run_until(now + 5 * S);
	share_equally(t, &tenants[1], 20 * S);
	/* One that waits for each of its tasks is not moved on to where others are elsewhere. */
	tenants[0].most = 1;
	run_until(now + 10 * S);
	tenants[0].most = 0;
	share_equally(&tenants[2], &tenants[0], 2 * S);
	end();
}
END_TEST

/* Who uses the other one now and then keeps its part of this one; and takes no more of that. */
START_TEST(who_uses_both_keeps_its_part)
{
	struct tenant *t;
	double before;

	begin_apart(_i);
	t = tenant(0, 100, MS, 10 * MS);
	t->devices = 1;
	for (int i = 0; i < 10; i++) {
		t->devices = 2;
		push(t);
		t->devices = 1;
		share_equally(t, &tenants[0], 2 * S);
	}
	before = got(&tenants[1]);
	t->devices = 2;
	run_until(now + 10 * S);
	ck_assert_double_gt(got(&tenants[1]) - before, nr_lanes * .5 * S);
	end();
}
END_TEST

static uint64_t ns_of(uint64_t tenant, uint32_t device)
{
	return tenant == 2 ? 10 * MS << !device : device ? 1000 * S : S;
}

/*
 * What one waits for a quicker device with is nobody else's matter, however many tasks that are, and
 * whoever is first.
 */
START_TEST(what_one_would_not_have_others_may)
{
	struct graph_node *n;
	int had = 0;

	begin_by("eft", 2, 1);
	tenant(0, 10000, S, S);
	tenant(0, 100, 10 * MS, 10 * MS);
	for (uint32_t t = 1; t <= 2; t++)
		for (uint32_t d = 0; d < 2; d++)
			for (int i = 0; i < 20; i++) {
				n = node_new();
				n->d.kernel = t;
				sched_observe(s, sched_kernel_key(n), d, sched_work(n), ns_of(t, d));
				node_put(n);
			}
	for (int i = 0; i < 64; i++) {
		push(&tenants[0]);
		push(&tenants[1]);
	}
	n = sched_pick(s, now);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->d.tenant, 1);
	ck_assert_uint_eq(n->device, 0);
	for (struct graph_node *m; had < 64 && (m = sched_pick(s, now)); had++) {
		ck_assert_uint_eq(m->d.tenant, 2);
		ck_assert_uint_eq(m->device, 1);
		now += 10 * MS;
		sched_finish(s, m, 10 * MS, true);
		node_put(m);
	}
	ck_assert_int_eq(had, 64);
	sched_finish(s, n, S, true);
	node_put(n);
	end();
}
END_TEST

/* Virtual time is a number of 64 bits. */
START_TEST(virtual_time_does_not_end)
{
	double before[2];

	begin(1);
	tenant(0, 1, S, S)->busy = false;
	for (int i = 0; i < 20016; i++) {
		struct graph_node *n = node_new();

		n->d.tenant = 1;
		ck_assert_int_eq(sched_push(s, n, now), 0);
		ck_assert_ptr_eq(sched_pick(s, now), n);
		sched_finish(s, n, 3600 * S, false);
		node_put(n);
	}
	tenants[0].busy = true;
	tenant(0, 100, S, S);
	for (int i = 0; i < 50; i++) {
		before[0] = got(&tenants[0]);
		before[1] = got(&tenants[1]);
		run_until(now + 10100 * S);
		ck_assert_double_ge(got(&tenants[0]) - before[0], 90. * S);
		ck_assert_double_ge(got(&tenants[1]) - before[1], 9900. * S);
	}
	end();
}
END_TEST

/* ------------------------------------------------------------------ */
/* Maxima                                                              */

/* In any @periods periods it gets no more than they allow and one overrun. */
static void max_holds(const struct tenant *t, uint32_t nr, double max, uint64_t period,
		      double overrun, int periods)
{
	double start = 0, first = 0, total = 0;

	for (int p = 0; p <= 200; p++) {
		double sum = 0;

		for (uint32_t i = 0; i < nr; i++)
			sum += got(&t[i]);
		if (p % periods == 0) {
			if (p)
				ck_assert_msg(sum - start <= periods * max + overrun + 1,
					      "%d periods: %.0f of %.0f", periods, sum - start,
					      periods * max);
			start = sum;
		}
		if (!p)
			first = sum;
		total = sum - first;
		run_until(now + period);
	}
	/* And it gets that, nearly. */
	ck_assert_double_ge(total, 200 * max - overrun - max);
}

START_TEST(max_holds_in_each_period)
{
	for (uint32_t devices = 1; devices <= 4; devices *= SANITIZED ? 4 : 2) {
		begin_as(_i, devices);
		tenant(0, 100, 10 * US, 1 * MS);
		tenant(0, 100, 10 * US, 1 * MS);
		limit(1, 0, 20 * MS, 100 * MS);
		max_holds(tenants, 1, 20 * MS, 100 * MS, 1 * MS * devices * nr_lanes, 1);
		/* The other one has all the rest. */
		ck_assert_double_gt(got(&tenants[1]),
				    (devices * nr_lanes * 100. - 20 - nr_lanes) * 199 * MS);
		end();
	}
}
END_TEST

/* Tasks far longer than the period: later periods pay. */
START_TEST(debt_is_carried)
{
	begin_as(_i, 2);
	tenant(0, 100, 500 * MS, 500 * MS);
	limit(1, 0, 20 * MS, 100 * MS);
	/* Two at once are 1 s of it: 50 periods. */
	max_holds(tenants, 1, 20 * MS, 100 * MS, 1000 * MS * nr_lanes, 100);
	ck_assert_double_ge(got(&tenants[0]), 3.5 * S);
	end();
}
END_TEST

START_TEST(max_saves_nothing)
{
	begin_as(_i, 1);
	tenant(0, 100, 10 * US, 1 * MS);
	limit(1, 0, 20 * MS, 100 * MS);
	tenants[0].busy = false;
	run_until(now + 100 * S);
	tenants[0].busy = true;
	max_holds(tenants, 1, 20 * MS, 100 * MS, 1 * MS * nr_lanes, 1);
	end();
}
END_TEST

/* Of @tenant, expected to take @ns; NULL: it does not begin now. */
static struct graph_node *begins(uint64_t tenant, uint64_t ns)
{
	struct graph_node *n = node_new();

	n->d.tenant = tenant;
	n->d.kernel = (uint32_t)(ns / MS);
	for (int i = 0; i < 20; i++)
		sched_observe(s, sched_kernel_key(n), 0, sched_work(n), ns);
	ck_assert_int_eq(sched_push(s, n, now), 0);
	if (sched_pick(s, now))
		return n;
	sched_remove(s, n);
	node_put(n);
	return NULL;
}

static void ends(struct graph_node *n, uint64_t ns)
{
	sched_finish(s, n, ns, false);
	node_put(n);
}

/* Tasks that were expected to take all of a period end early in the next one. */
START_TEST(what_was_paid_for_is_not_given_back)
{
	struct graph_node *old[4], *n[4];

	begin_by("rr", 1, 8);
	tenant(0, 100, MS, MS)->busy = false;
	tenant(1, 100, MS, MS)->busy = false;
	limit(1, 0, 100 * MS, S);
	limit(2, 1, 200 * MS, S);
	now += 999 * MS;
	for (int i = 0; i < 4; i++)
		old[i] = begins(2, 25 * MS);
	ck_assert_ptr_null(begins(2, 25 * MS));
	now += 2 * MS;
	for (int i = 0; i < 4; i++) {
		n[i] = begins(2, 25 * MS);
		ck_assert_ptr_nonnull(n[i]);
	}
	for (int i = 0; i < 4; i++) {
		/* What it has had so far, and then all. */
		if (i % 2)
			sched_progress(s, old[i], 1, now);
		ends(old[i], 2);
		ck_assert_ptr_null(begins(2, 25 * MS));
	}
	for (int i = 0; i < 4; i++)
		ends(n[i], 25 * MS);
	ck_assert_ptr_null(begins(2, 25 * MS));
	now += S;
	n[0] = begins(2, 25 * MS);
	ck_assert_ptr_nonnull(n[0]);
	ends(n[0], 25 * MS);
	end();
}
END_TEST

/* Nobody waits for periods to pay for what was never used. */
START_TEST(what_is_owed_is_given_back)
{
	struct graph_node *n;

	begin_by("rr", 1, 2);
	tenant(0, 100, MS, MS)->busy = false;
	limit(1, 0, 20 * MS, 100 * MS);
	for (int i = 0; i < 10; i++) {
		n = begins(1, 500 * MS);
		ck_assert_ptr_nonnull(n);
		now += 200 * MS;
		ends(n, 10 * MS);
		n = begins(1, 20 * MS);
		ck_assert_ptr_nonnull(n);
		/* Nor for what was not used of this one. */
		ends(n, 1);
		n = begins(1, 20 * MS);
		ck_assert_ptr_nonnull(n);
		ck_assert_ptr_null(begins(1, 20 * MS));
		ends(n, 20 * MS);
		now += 100 * MS;
	}
	end();
}
END_TEST

START_TEST(max_is_of_all_below)
{
	begin_as(_i, 2);
	tenant(0, 100, MS, MS)->busy = false;
	tenant(1, 100, 100 * US, 1 * MS);
	tenant(1, 100, 100 * US, 1 * MS);
	limit(1, 0, 30 * MS, 100 * MS);
	max_holds(tenants + 1, 2, 30 * MS, 100 * MS, 2 * MS * nr_lanes, 1);
	ck_assert_double_lt(fabs(got(&tenants[1]) / got(&tenants[2]) - 1), .02);
	/* One's own lower one holds as well. */
	limit(3, 1, 5 * MS, 100 * MS);
	run_until(now + 100 * MS);
	max_holds(tenants + 2, 1, 5 * MS, 100 * MS, 2 * MS * nr_lanes, 1);
	max_holds(tenants + 1, 2, 30 * MS, 100 * MS, 2 * MS * nr_lanes, 1);
	end();
}
END_TEST

/* Who waits for a period has no part of what its parent gets: the others below have that. */
START_TEST(who_waits_for_a_period_has_no_part)
{
	static const double should[] = { 0, 0, 0, .5, .5 };

	begin_as(_i, 1);
	for (int i = 0; i < 2; i++)
		tenant(0, 100, MS, MS)->busy = false;
	tenant(1, 100, MS, MS);
	tenant(1, 100, MS, MS);
	tenant(2, 100, MS, MS);
	limit(3, 1, MS, S);
	shares_hold(should, 10 * MS, 10);
	end();
}
END_TEST

START_TEST(max_is_taken_away)
{
	double before;

	begin(1);
	tenant(0, 100, MS, MS);
	/* Nothing at all. */
	limit(1, 0, 0, 100 * MS);
	run_until(now + S);
	ck_assert(got(&tenants[0]) == 0);
	ck_assert(!sched_may_skip(s, 1));
	limit(1, 0, SCHED_NO_MAX, 0);
	before = got(&tenants[0]);
	run_until(now + S);
	ck_assert_double_ge(got(&tenants[0]) - before, 0.99 * S);
	ck_assert_uint_eq(sched_next_wake(s), UINT64_MAX);
	end();
}
END_TEST

/* Else who sleeps until then would wake for ever. */
START_TEST(tasks_that_are_gone_wake_nobody)
{
	struct graph_node *n;

	begin(1);
	tenant(0, 100, MS, MS)->busy = false;
	limit(1, 0, 0, S);
	n = node_new();
	n->d.tenant = 1;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	limit(1, 0, 1, S);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	sched_finish(s, n, 10 * MS, false);
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_null(sched_pick(s, now));
	ck_assert_uint_gt(sched_next_wake(s), now);
	ck_assert_uint_ne(sched_next_wake(s), UINT64_MAX);
	sched_remove(s, n);
	ck_assert_uint_eq(sched_next_wake(s), UINT64_MAX);
	node_put(n);
	end();
}
END_TEST

START_TEST(refuses_bad_parts)
{
	struct sched_tenant t = { .id = 5, .weight = 100, .max_ns = 5, .period_ns = 0 };

	begin(1);
	ck_assert_int_eq(sched_tenant_set(s, &t), -EINVAL);
	t.period_ns = 10;
	t.weight = 0;
	ck_assert_int_eq(sched_tenant_set(s, &t), -EINVAL);
	t.weight = 10001;
	ck_assert_int_eq(sched_tenant_set(s, &t), -EINVAL);
	t.weight = 100;
	t.parent = 5;
	ck_assert_int_eq(sched_tenant_set(s, &t), -EINVAL);
	/* A loop is left where it would close. */
	t.parent = 6;
	ck_assert_int_eq(sched_tenant_set(s, &t), 0);
	t.id = 6;
	t.parent = 5;
	ck_assert_int_eq(sched_tenant_set(s, &t), 0);
	ck_assert(sched_may_skip(s, 7));
	ck_assert(!sched_may_skip(s, 5));
	end();
}
END_TEST

/* Some at a time, and each once; not who only could have been known. */
START_TEST(known_tenants_are_named)
{
	struct sched_tenant t = { .weight = 200, .max_ns = SCHED_NO_MAX };
	uint64_t got[64];
	uint8_t seen[1001] = { 0 };
	uint32_t at = 0, n, i, turns = 0, all = 0;

	begin(1);
	for (t.id = 1; t.id <= 1000; t.id++) {
		t.weight = t.id % 2 ? 200 : 100;	/* as all are: not worth a place */
		ck_assert_int_eq(sched_tenant_set(s, &t), 0);
	}
	do {
		n = sched_tenants(s, &at, got, 64);
		ck_assert_uint_le(n, 64);
		all += n;
		for (i = 0; i < n; i++) {
			ck_assert(got[i] % 2 && got[i] <= 1000);
			ck_assert_uint_eq(seen[got[i]]++, 0);
		}
		turns++;
	} while (at);
	ck_assert_uint_eq(all, 500);
	ck_assert_uint_ge(turns, 8);
	/* Too little room for some places: it goes on all the same. */
	for (turns = 0, all = 0; !turns || at; turns++)
		all += sched_tenants(s, &at, got, 1);
	ck_assert_uint_gt(all, 0);
	end();
}
END_TEST

static bool whose(void *arg, struct sched_tenant *t)
{
	/* 20 to 9999 are below 10, which has a maximum. */
	t->parent = t->id >= 20 ? 10 : 0;
	if (t->id == 10) {
		t->max_ns = 0;
		t->period_ns = S;
	}
	return true;
}

/* Who was never told of is asked for, before its first task runs; and forgotten. */
START_TEST(new_tenants_are_asked_for)
{
	struct graph_node *n = NULL;

	begin(1);
	sched_destroy(s);
	s = sched_create(&(struct sched_params){ .ops.tenant = whose });
	sched_device_set(s, 0, 1);
	for (uint64_t id = 20; id < 5000; id++) {
		n = node_new();
		n->d.tenant = id;
		ck_assert_int_eq(sched_push(s, n, now), 0);
		ck_assert_ptr_null(sched_pick(s, now));
		sched_remove(s, n);
		node_put(n);
		sched_round(s);
	}
	n = node_new();
	n->d.tenant = 11;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	ck_assert_ptr_eq(sched_pick(s, now), n);
	sched_finish(s, n, 1, false);
	node_put(n);
	end();
}
END_TEST

/* ------------------------------------------------------------------ */
/* Inside a tenant                                                     */

static struct graph_node *push_with(int priority, uint64_t deadline)
{
	struct graph_node *n = node_new();

	n->d.tenant = 1;
	n->d.priority = priority;
	n->d.deadline_ns = deadline;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

/* A stream of urgent tasks that leaves no room: the others come all the same. */
START_TEST(nobody_starves)
{
	struct graph_node *worst, *n;
	uint64_t start;
	int passed = 0;

	begin(1);
	start = now;
	worst = push_with(19, 0);
	do {
		push_with(-20, 0);
		n = sched_pick(s, now);
		ck_assert_ptr_nonnull(n);
		now += MS;
		passed++;
		sched_finish(s, n, MS, false);
		if (n != worst)
			node_put(n);
		ck_assert_uint_lt(now - start, 40 * SCHED_AGE_NS);
	} while (n != worst);
	node_put(worst);
	/* It had to wait for them, though. */
	ck_assert_uint_gt(now - start, 38 * SCHED_AGE_NS);
	ck_assert_int_gt(passed, 3000);
	end();
}
END_TEST

START_TEST(deadlines_come_first)
{
	struct graph_node *late, *soon, *sooner, *far, *n[4];

	begin(1);
	late = push_with(0, 0);
	far = push_with(0, now + 3600 * S);
	soon = push_with(0, now + 500 * MS);
	sooner = push_with(0, now + 100 * MS);
	for (int i = 0; i < 4; i++) {
		n[i] = sched_pick(s, now);
		sched_finish(s, n[i], 1, false);
	}
	ck_assert_ptr_eq(n[0], sooner);
	ck_assert_ptr_eq(n[1], soon);
	ck_assert_ptr_eq(n[2], late);
	ck_assert_ptr_eq(n[3], far);
	for (int i = 0; i < 4; i++)
		node_put(n[i]);
	end();
}
END_TEST

/* Whatever the priority, and however close the deadlines are. */
START_TEST(earliest_deadline_first)
{
	static const uint64_t after[] = { 900, 300, 700, 100, 500 };
	uint64_t last = 0;
	int priority = -20 + 13 * _i;

	begin(1);
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		push_with(priority, now + after[i] * 1000);
	push_with(priority, 0);
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		struct graph_node *n = sched_pick(s, now);

		ck_assert_uint_gt(n->d.deadline_ns, last);
		last = n->d.deadline_ns;
		sched_finish(s, n, 1, false);
		node_put(n);
	}
	end();
}
END_TEST

/* A step of priority is worth SCHED_AGE_NS, no more and no less. */
START_TEST(priority_outweighs_a_deadline)
{
	struct graph_node *first, *second;

	begin(1);
	second = push_with(1, now + 10 * MS);
	first = push_with(0, now + 10 * MS + SCHED_AGE_NS - 1);
	ck_assert_ptr_eq(sched_pick(s, now), first);
	sched_finish(s, first, 1, false);
	ck_assert_ptr_eq(sched_pick(s, now), second);
	sched_finish(s, second, 1, false);
	node_put(first);
	node_put(second);
	first = push_with(1, now + 10 * MS);
	second = push_with(0, now + 10 * MS + SCHED_AGE_NS + 1);
	ck_assert_ptr_eq(sched_pick(s, now), first);
	sched_finish(s, first, 1, false);
	node_put(first);
	ck_assert_ptr_eq(sched_pick(s, now), second);
	sched_finish(s, second, 1, false);
	node_put(second);
	end();
}
END_TEST

/* A stream of tasks with deadlines that leaves no room: one without comes in its time. */
START_TEST(deadlines_starve_nobody)
{
	struct graph_node *patient, *n;
	uint64_t start;

	begin(1);
	start = now;
	patient = push_with(0, 0);
	do {
		push_with(0, now + 2 * MS);
		n = sched_pick(s, now);
		now += MS;
		sched_finish(s, n, MS, false);
		if (n != patient)
			node_put(n);
		ck_assert_uint_le(now - start, SCHED_PATIENCE_NS + 2 * MS);
	} while (n != patient);
	ck_assert_uint_gt(now - start, SCHED_PATIENCE_NS - 4 * MS);
	node_put(patient);
	end();
}
END_TEST

/* A tenant that asks for all at once gets its part, and no more. */
START_TEST(deadlines_take_nothing_from_others)
{
	uint64_t got[2] = { 0, 0 };

	begin(1);
	for (int i = 0; i < 2000; i++) {
		for (int t = 0; t < 2; t++) {
			struct graph_node *n = node_new();

			n->d.tenant = 1 + t;
			n->d.deadline_ns = t ? 0 : now + 1;
			ck_assert_int_eq(sched_push(s, n, now), 0);
		}
	}
	for (int i = 0; i < 2000; i++) {
		struct graph_node *n = sched_pick(s, now);

		now += MS;
		got[n->d.tenant - 1]++;
		sched_finish(s, n, MS, false);
		node_put(n);
	}
	ck_assert_uint_ge(got[1], 990);
	ck_assert_uint_ge(got[0], 990);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_fair");
	TCase *c = tcase_create("shares"), *many = tcase_create("millions of tasks");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 600);
	tcase_set_timeout(many, 600);
	tcase_set_tags(many, "long");
	tcase_add_loop_test(c, weights_hold_for_all_lengths, 0, WAYS);
	tcase_add_loop_test(many, giants_gain_nothing, 0, WAYS);
	tcase_add_loop_test(c, weights_nest, 0, WAYS);
	tcase_add_loop_test(c, weights_change_while_tasks_run, 0, WAYS);
	tcase_add_loop_test(c, idle_tenants_save_nothing, 0, WAYS);
	tcase_add_loop_test(c, busy_tenants_save_little, 0, 3);
	tcase_add_loop_test(c, who_comes_begins_where_it_goes, 0, WAYS);
	tcase_add_loop_test(c, of_many_who_come_each_has_its_part, 0, WAYS);
	tcase_add_loop_test(c, who_comes_back_owes_nothing, 0, WAYS);
	tcase_add_test(c, who_waits_elsewhere_lets_nobody_by);
	tcase_add_loop_test(c, who_uses_both_keeps_its_part, 0, WAYS);
	tcase_add_test(c, what_one_would_not_have_others_may);
	tcase_add_test(c, virtual_time_does_not_end);
	tcase_add_loop_test(many, max_holds_in_each_period, 0, WAYS);
	tcase_add_loop_test(c, debt_is_carried, 0, WAYS);
	tcase_add_loop_test(c, max_saves_nothing, 0, WAYS);
	tcase_add_test(c, what_was_paid_for_is_not_given_back);
	tcase_add_test(c, what_is_owed_is_given_back);
	tcase_add_loop_test(c, max_is_of_all_below, 0, WAYS);
	tcase_add_loop_test(c, who_waits_for_a_period_has_no_part, 0, WAYS);
	tcase_add_test(c, max_is_taken_away);
	tcase_add_test(c, tasks_that_are_gone_wake_nobody);
	tcase_add_test(c, refuses_bad_parts);
	tcase_add_test(c, known_tenants_are_named);
	tcase_add_test(c, new_tenants_are_asked_for);
	tcase_add_test(c, nobody_starves);
	tcase_add_test(c, deadlines_come_first);
	tcase_add_loop_test(c, earliest_deadline_first, 0, 4);
	tcase_add_test(c, priority_outweighs_a_deadline);
	tcase_add_test(c, deadlines_starve_nobody);
	tcase_add_test(c, deadlines_take_nothing_from_others);
	suite_add_tcase(suite, c);
	suite_add_tcase(suite, many);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
