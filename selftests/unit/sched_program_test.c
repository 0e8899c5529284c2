// SPDX-License-Identifier: MIT
/*
 * sched_program_test - programs of one tenant and their turn, in simulated time
 *
 * Each program keeps so many tasks of one length queued.  Devices have one lane.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/sched/sched.h"

#define US	1000ull
#define MS	1000000ull
#define S	1000000000ull
#define PROGRAMS	64
#define DEVICES		4

struct program {
	uint32_t context;
	uint64_t ns;		/* length of its tasks */
	uint32_t backlog;	/* that it keeps queued */
	uint32_t queued;
	int priority;
	uint64_t deadline_ns;	/* from the push on */
	bool unknown;		/* nobody learns how long its tasks take */
	uint64_t ran_ns;
	uint64_t first_ns;	/* when its first task began */
};

static struct sched *s;
static struct program programs[PROGRAMS];
static uint32_t nr_programs, nr_devices;
static struct graph_node *on[DEVICES];
static uint64_t until[DEVICES], now, seq;
/* Of @picky's tasks only device 0 can run any. */
static uint32_t picky;

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return n->d.context != picky || !device;
}

static void begin(uint32_t devices)
{
	memset(programs, 0, sizeof(programs));
	memset(on, 0, sizeof(on));
	nr_programs = picky = 0;
	nr_devices = devices;
	now = 1000 * S;
	s = sched_create(&(struct sched_params){ .policy = "rr", .ops.can_run = can_run });
	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < devices; i++)
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
}

static struct program *program(uint64_t ns, uint32_t backlog)
{
	struct program *p = &programs[nr_programs++];

	*p = (struct program){ .context = nr_programs, .ns = ns, .backlog = backlog };
	return p;
}

static struct graph_node *task_of(struct program *p)
{
	struct graph_node *n = calloc(1, sizeof(*n));

	n->seq = ++seq;
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 64;
	n->d.tenant = 1;
	n->d.context = p->context;
	n->d.kernel = p->context;
	n->d.priority = p->priority;
	n->d.deadline_ns = p->deadline_ns ? now + p->deadline_ns : 0;
	n->priv = p;
	return n;
}

static void fill(void)
{
	for (uint32_t i = 0; i < nr_programs; i++)
		while (programs[i].queued < programs[i].backlog) {
			if (sched_push(s, task_of(&programs[i]), now))
				ck_abort_msg("no memory");
			programs[i].queued++;
		}
}

static void start_all(void)
{
	struct graph_node *n;

	fill();
	while ((n = sched_pick(s, now))) {
		struct program *p = n->priv;

		ck_assert_ptr_null(on[n->device]);
		on[n->device] = n;
		until[n->device] = now + p->ns;
		p->queued--;
		if (!p->first_ns)
			p->first_ns = now;
		fill();
	}
}

/* Starts what can start, and goes to the next end, at @limit at the latest. */
static void step(uint64_t limit)
{
	struct program *p;
	uint32_t first = DEVICES;

	start_all();
	for (uint32_t i = 0; i < nr_devices; i++)
		if (on[i] && (first == DEVICES || until[i] < until[first]))
			first = i;
	if (first == DEVICES || until[first] > limit) {
		now = limit;
		return;
	}
	now = until[first];
	p = on[first]->priv;
	p->ran_ns += p->ns;
	sched_finish(s, on[first], p->ns, !p->unknown);
	free(on[first]);
	on[first] = NULL;
}

static void run_for(uint64_t ns)
{
	uint64_t limit = now + ns;

	while (now < limit)
		step(limit);
}

static void end(void)
{
	struct graph_node *n;

	for (uint32_t i = 0; i < nr_devices; i++) {
		if (on[i])
			sched_finish(s, on[i], 1, false);
		free(on[i]);
	}
	while ((n = sched_pick(s, now))) {
		sched_finish(s, n, 1, false);
		free(n);
	}
	ck_assert(sched_is_idle(s));
	sched_destroy(s);
}

/* Since this, of what all had since this. */
static void shares_are_equal(uint64_t ns, double slack)
{
	uint64_t before[PROGRAMS], sum = 0;

	for (uint32_t i = 0; i < nr_programs; i++)
		before[i] = programs[i].ran_ns;
	run_for(ns);
	for (uint32_t i = 0; i < nr_programs; i++)
		sum += programs[i].ran_ns - before[i];
	for (uint32_t i = 0; i < nr_programs; i++) {
		double share = (double)(programs[i].ran_ns - before[i]) / (double)sum;

		ck_assert_msg(fabs(share - 1. / nr_programs) < slack,
			      "program %u of %u got %.4f", i + 1, nr_programs, share);
	}
}

START_TEST(programs_of_a_tenant_share)
{
	static const uint64_t longest = 10 * MS;

	for (uint32_t devices = 1; devices <= DEVICES; devices *= 2) {
		begin(devices);
		/* As many tasks as it can have, and as few. */
		program(longest, 4000);
		program(100 * US, 2 * devices);
		program(10 * US, 2 * devices);
		run_for(10 * longest);
		for (int i = 0; i < 4; i++)
			shares_are_equal(100 * longest, 0.01);
		end();
	}
}
END_TEST

/* It is what they took that counts, not what was expected. */
START_TEST(what_is_not_known_counts)
{
	begin(2);
	program(10 * MS, 100)->unknown = true;
	program(MS, 100);
	run_for(S);
	shares_are_equal(10 * S, 0.01);
	end();
}
END_TEST

START_TEST(many_programs_share)
{
	begin(2);
	for (int i = 0; i < PROGRAMS; i++)
		program(MS, 4);
	run_for(S);
	shares_are_equal(100 * PROGRAMS * MS, 0.001);
	end();
}
END_TEST

/* Thousands of tasks that are ready keep nobody out who comes with one after the other. */
START_TEST(who_comes_with_one_task)
{
	struct program *late;

	begin(4);
	program(MS, 4000);
	run_for(S);
	late = program(MS, 1);
	start_all();
	run_for(20 * MS);
	ck_assert_uint_ge(late->ran_ns, 9 * MS);
	end();
}
END_TEST

/* Who was away is owed nothing, and owes nothing. */
START_TEST(who_was_away_saves_nothing)
{
	struct program *a, *b;

	begin(1);
	a = program(MS, 10);
	b = program(MS, 10);
	run_for(S);
	b->backlog = 0;
	run_for(100 * S);
	b->backlog = 10;
	shares_are_equal(S, 0.01);
	a->backlog = 0;
	run_for(100 * S);
	a->backlog = 10;
	shares_are_equal(S, 0.01);
	end();
}
END_TEST

/* Nor is one that begins when all is idle. */
START_TEST(who_comes_to_an_idle_device)
{
	struct program *a, *b;

	begin(1);
	a = program(MS, 10);
	run_for(S);
	a->backlog = 0;
	run_for(S);
	b = program(MS, 10);
	run_for(S);
	ck_assert_uint_ge(b->ran_ns, S - MS);
	a->backlog = 10;
	shares_are_equal(S, 0.01);
	end();
}
END_TEST

/* One that comes now and then with something urgent need not wait for its turn. */
START_TEST(priority_goes_first)
{
	struct program *urgent;

	begin(1);
	program(MS, 100);
	program(MS, 100);
	urgent = program(MS, 0);
	urgent->priority = -5;
	run_for(S);
	for (int i = 0; i < 100; i++) {
		uint64_t before = urgent->ran_ns;

		urgent->backlog = 1;
		fill();
		urgent->backlog = 0;
		run_for(3 * MS);
		ck_assert_uint_eq(urgent->ran_ns - before, MS);
	}
	end();
}
END_TEST

/* A step is a head start, and no more: whoever waits for others to have had it gets his part. */
START_TEST(priority_starves_nobody)
{
	struct program *last;

	begin(1);
	program(MS, 100)->priority = -20;
	last = program(MS, 100);
	last->priority = 19;
	run_for(39 * SCHED_AGE_NS - 100 * MS);
	ck_assert_uint_eq(last->ran_ns, 0);
	run_for(200 * MS);
	ck_assert_uint_gt(last->ran_ns, 0);
	shares_are_equal(10 * S, 0.01);
	end();
}
END_TEST

/* Of several programs', too. */
START_TEST(earliest_deadline_first)
{
	struct program *soon, *sooner;

	begin(1);
	program(MS, 100);
	run_for(S);
	soon = program(MS, 1);
	soon->deadline_ns = 100 * MS;
	sooner = program(MS, 1);
	sooner->deadline_ns = 50 * MS;
	fill();
	soon->backlog = sooner->backlog = 0;
	run_for(10 * MS);
	ck_assert_uint_gt(soon->first_ns, sooner->first_ns);
	ck_assert_uint_le(soon->first_ns, sooner->first_ns + MS);
	ck_assert_uint_eq(soon->ran_ns, MS);
	end();
}
END_TEST

/* Those without one have theirs before those that keep having one. */
START_TEST(deadlines_starve_no_program)
{
	struct program *patient;

	begin(1);
	program(MS, 4)->deadline_ns = 2 * MS;
	patient = program(MS, 100);
	run_for(10 * SCHED_PATIENCE_NS);
	ck_assert_uint_ge(patient->ran_ns, 8 * MS);
	end();
}
END_TEST

/* Nor those that have had much before one that has had little. */
START_TEST(deadlines_starve_none_of_several)
{
	struct program *much, *little;
	uint64_t before;

	begin(1);
	much = program(100 * MS, 2);
	run_for(10 * S);
	program(MS, 4)->deadline_ns = 2 * MS;
	little = program(US, 2);
	before = much->ran_ns;
	run_for(10 * SCHED_PATIENCE_NS);
	ck_assert_uint_ge(much->ran_ns - before, 8 * 100 * MS);
	ck_assert_uint_ge(little->ran_ns, 8 * US);
	end();
}
END_TEST

/* One whose turn it is, but whose tasks all wait for a device, leaves the others to others. */
START_TEST(who_can_use_what_is_idle_does)
{
	struct program *other;

	begin(4);
	program(10 * MS, 1000);
	picky = 1;
	run_for(100 * MS);
	other = program(MS, 10);
	run_for(100 * MS);
	ck_assert_uint_ge(other->ran_ns, 3 * 98 * MS);
	end();
}
END_TEST

/* Who comes when others have had more than their part by deadlines, or in one go, begins with the rest. */
START_TEST(who_comes_waits_for_nobodys_debt)
{
	struct program *urgent, *late;

	begin(1);
	urgent = program(MS, 10);
	urgent->deadline_ns = 10 * MS;
	program(MS, 10);
	run_for(100 * S);
	urgent->backlog = 0;
	run_for(20 * MS);
	late = program(MS, 1);
	fill();
	run_for(20 * MS);
	ck_assert_uint_ge(late->ran_ns, 9 * MS);
	end();
}
END_TEST

/* Nor for what one of higher priority has had before the rest. */
START_TEST(who_comes_waits_for_nobodys_head_start)
{
	struct program *late;

	begin(1);
	program(MS, 10)->priority = -20;
	program(MS, 10);
	run_for(10 * S);
	late = program(MS, 1);
	for (int i = 0; i < 10; i++) {
		uint64_t before = late->ran_ns;

		run_for(30 * MS);
		ck_assert_uint_ge(late->ran_ns - before, 9 * MS);
	}
	end();
}
END_TEST

/* CPU time of so many tasks, one picked and one pushed after the other. */
static uint64_t cost_of(uint32_t tasks)
{
	struct timespec from, to;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (uint32_t i = 0; i < tasks; i++) {
		struct graph_node *n = sched_pick(s, now += US);

		ck_assert_ptr_nonnull(n);
		sched_finish(s, n, US, true);
		n->seq = ++seq;
		n->sched.lane = 0;
		ck_assert_int_eq(sched_push(s, n, now), 0);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	return (uint64_t)(to.tv_sec - from.tv_sec) * S + (uint64_t)to.tv_nsec - (uint64_t)from.tv_nsec;
}

/* One tenant's crowd costs araxd, and so all others, little: of each, not of all together. */
START_TEST(crowds_cost_little)
{
	static const uint32_t crowd = 20000;
	uint64_t few, many;

	begin(1);
	for (uint32_t i = 0; i < 2 * crowd; i++) {
		struct program p = { .context = 1 + i % crowd };

		/* Some go by what is due. */
		p.deadline_ns = p.context % 8 ? 0 : 1000 * S;
		p.priority = (int)(p.context % 3);
		ck_assert_int_eq(sched_push(s, task_of(&p), now), 0);
		if (i == 3)
			few = cost_of(1000);
	}
	many = cost_of(1000);
	ck_assert_msg(many < 100 * few, "%llu ns a task, %llu with few", (unsigned long long)many / 1000,
		      (unsigned long long)few / 1000);
	end();
}
END_TEST

static uint64_t transfer_of(void *arg, const struct graph_node *n, uint32_t device)
{
	return n->d.grid[1];
}

static bool is_tight(void *arg, uint32_t device)
{
	return true;
}

static bool on_its_device(void *arg, const struct graph_node *n, uint32_t device)
{
	return !n->d.grid[2] || n->d.grid[2] == device + 1;
}

/* @device: the only one, plus 1 */
static struct graph_node *push_one(struct program *p, uint32_t device, uint32_t transfer_ns)
{
	struct graph_node *n = task_of(p);

	n->d.grid[1] = transfer_ns;
	n->d.grid[2] = device;
	ck_assert_int_eq(sched_push(s, n, now), 0);
	return n;
}

/* A task that finds its data goes first, also one of those that had found no device so far. */
START_TEST(follows_one_that_was_passed_over)
{
	struct program *stuck, *other;
	struct graph_node *n[6];

	begin(2);
	sched_destroy(s);
	s = sched_create(&(struct sched_params){ .policy = "rr", .ops = {
		.can_run = on_its_device, .transfer_ns = transfer_of, .tight = is_tight } });
	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
	stuck = program(MS, 0);
	other = program(MS, 0);
	other->priority = 1;
	n[0] = push_one(stuck, 1, 0);
	ck_assert_ptr_eq(sched_pick(s, now), n[0]);
	for (int i = 1; i < 4; i++)
		n[i] = push_one(stuck, i == 3 ? 2 : 1, 0);
	n[4] = push_one(other, 2, MS);
	n[5] = push_one(other, 2, MS);
	ck_assert_ptr_eq(sched_pick(s, now), n[3]);
	sched_finish(s, n[0], MS, true);
	ck_assert_ptr_eq(sched_pick(s, now), n[1]);
	sched_finish(s, n[3], MS, true);
	ck_assert_ptr_eq(sched_pick(s, now), n[4]);
	sched_finish(s, n[1], MS, true);
	sched_finish(s, n[4], MS, true);
	for (int i = 0; i < 4; i += 3)
		ck_assert_ptr_eq(sched_pick(s, now), n[i ? 5 : 2]);
	sched_finish(s, n[2], MS, true);
	sched_finish(s, n[5], MS, true);
	for (int i = 0; i < 6; i++)
		free(n[i]);
	end();
}
END_TEST

/* Its number may be another one's afterwards, which begins like any other. */
START_TEST(contexts_go)
{
	struct program *p;
	uint64_t before;

	begin(1);
	program(MS, 10);
	p = program(MS, 10);
	run_for(S);
	/* While a task of it is queued or runs it is only marked. */
	p->backlog = 0;
	sched_context_gone(s, 0, p->context);
	run_for(100 * MS);
	sched_context_gone(s, 0, p->context);
	sched_context_gone(s, 0, 12345);
	run_for(S);
	before = p->ran_ns;
	p->backlog = 10;
	shares_are_equal(S, 0.01);
	ck_assert_uint_gt(p->ran_ns, before);
	for (uint32_t i = 0; i < 10000; i++) {
		struct graph_node *n = task_of(&(struct program){ .context = 100 + i });

		ck_assert_int_eq(sched_push(s, n, now), 0);
		sched_remove(s, n);
		free(n);
		if (i % 2)
			sched_context_gone(s, 0, 100 + i);
	}
	shares_are_equal(S, 0.01);
	end();
}
END_TEST

/*
 * What goes by when it is due goes out of turn.  Nobody waited for it, so turns have come as far, and
 * who comes then does not have as much before the other.
 */
START_TEST(who_was_alone_out_of_turn_owes_nothing)
{
	struct program *a, *b;
	uint64_t before;

	begin(1);
	a = program(MS, 2);
	a->deadline_ns = 100 * MS;
	run_for(S);
	a->deadline_ns = 0;
	before = a->ran_ns;
	b = program(MS, 2);
	run_for(100 * MS);
	ck_assert_uint_ge(a->ran_ns - before, 40 * MS);
	ck_assert_uint_ge(b->ran_ns, 40 * MS);
	end();
}
END_TEST

/* On two links contexts have the same numbers, and are two programs. */
START_TEST(links_number_contexts_alike)
{
	struct program p = { .context = 1 };
	struct graph_node *n[10], *other, *picked;

	begin(1);
	for (int i = 0; i < 10; i++) {
		n[i] = task_of(&p);
		ck_assert_int_eq(sched_push(s, n[i], now), 0);
	}
	other = task_of(&p);
	other->sched.place = 1;
	for (int i = 0; i < 5; i++) {
		ck_assert_ptr_eq(sched_pick(s, now), n[i]);
		if (i == 4)
			ck_assert_int_eq(sched_push(s, other, now), 0);
		sched_finish(s, n[i], MS, true);
	}
	/* Its turn comes before those of who has had five. */
	picked = sched_pick(s, now);
	ck_assert_ptr_eq(picked, other);
	sched_finish(s, other, MS, true);
	/* The one that leaves takes nothing with it that is the other's. */
	sched_context_gone(s, 1, 1);
	for (int i = 5; i < 10; i++) {
		ck_assert_ptr_eq(sched_pick(s, now), n[i]);
		sched_finish(s, n[i], MS, true);
	}
	for (int i = 0; i < 10; i++)
		free(n[i]);
	free(other);
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_program");
	TCase *c = tcase_create("turns");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 600);
	tcase_add_test(c, programs_of_a_tenant_share);
	tcase_add_test(c, what_is_not_known_counts);
	tcase_add_test(c, many_programs_share);
	tcase_add_test(c, who_comes_with_one_task);
	tcase_add_test(c, who_was_away_saves_nothing);
	tcase_add_test(c, who_comes_to_an_idle_device);
	tcase_add_test(c, priority_goes_first);
	tcase_add_test(c, priority_starves_nobody);
	tcase_add_test(c, earliest_deadline_first);
	tcase_add_test(c, deadlines_starve_no_program);
	tcase_add_test(c, deadlines_starve_none_of_several);
	tcase_add_test(c, who_can_use_what_is_idle_does);
	tcase_add_test(c, who_comes_waits_for_nobodys_debt);
	tcase_add_test(c, who_comes_waits_for_nobodys_head_start);
	tcase_add_test(c, crowds_cost_little);
	tcase_add_test(c, follows_one_that_was_passed_over);
	tcase_add_test(c, contexts_go);
	tcase_add_test(c, who_was_alone_out_of_turn_owes_nothing);
	tcase_add_test(c, links_number_contexts_alike);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
