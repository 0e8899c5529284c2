// SPDX-License-Identifier: MIT
/*
 * sched_level_test - turns on devices that are not of use to everybody, in simulated time
 *
 * Programs of one tenant, and in the same way tenants: each has tasks of one length, for some
 * of the devices.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/sched.h"

#define MS	1000000ull
#define S	1000000000ull
#define CREDIT	(250 * MS)	/* of device time, that one may have saved */
#define MOST	128
#define DEVICES	4
#define LANES	32		/* of each at most */

/* A sanitizer takes several times as long for a task, and finds what it can in the first of many. */
#ifdef __SANITIZE_ADDRESS__
#define LONG	(20 * S)
#define MANY	40
#define ROUNDS	2
#else
#define LONG	(60 * S)
#define MANY	100
#define ROUNDS	4
#endif

/**
 * struct who - a program, or a tenant
 * @ns:		length of its tasks; every other one takes a tenth more
 * @devices:	bits of those that can run its tasks
 * @backlog:	tasks that it keeps queued; of those that have not ended, if @at_once
 * @since:	when it had none queued last, or one was picked
 * @longest:	time between two of these, so far
 * @until:	of a random one: when it comes, or goes
 */
struct who {
	uint64_t ns;
	uint32_t devices, backlog;
	int priority;
	bool busy, at_once;
	uint32_t queued, running;
	uint64_t ran_ns, since, longest, until;
};

static const struct {
	const char *policy;
	bool tenants;
} ways[] = {
	{ "eft", false }, { "fair", false }, { "rr", false },
	{ "eft", true }, { "fair", true }, { "rr", true },
};
#define WAYS	((int)(sizeof(ways) / sizeof(ways[0])))
#define PROGRAM_WAYS	3	/* the first ones */

static struct sched *s;
static bool tenants;
static struct who whos[MOST];
static uint32_t nr_whos, nr_devices, lanes[DEVICES];
static struct {
	struct graph_node *node;
	uint64_t ns, end;
} running[DEVICES * LANES];
static uint32_t nr_running;
static uint64_t now, seq, rng;
static struct graph_node *spare;

static uint64_t some(uint64_t below)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 11) % below;
}

static bool can_run(void *arg, const struct graph_node *n, uint32_t device)
{
	return whos[n->d.kernel - 1].devices >> device & 1;
}

static void device(uint32_t nr_lanes)
{
	lanes[nr_devices] = nr_lanes;
	ck_assert_int_eq(sched_device_set(s, nr_devices++, nr_lanes), 0);
}

static void begin(int way)
{
	memset(whos, 0, sizeof(whos));
	nr_whos = 0;
	nr_devices = 0;
	nr_running = 0;
	now = 1000 * S;
	tenants = ways[way].tenants;
	s = sched_create(&(struct sched_params){ .policy = ways[way].policy,
						 .ops.can_run = can_run });
	ck_assert_ptr_nonnull(s);
}

static struct who *who(uint32_t devices, uint64_t ns, uint32_t backlog)
{
	ck_assert_uint_lt(nr_whos, MOST);
	whos[nr_whos] = (struct who){
		.devices = devices, .ns = ns, .backlog = backlog, .busy = true, .since = now,
	};
	return &whos[nr_whos++];
}

static void push(struct who *w)
{
	struct graph_node *n = spare;
	uint32_t number = (uint32_t)(w - whos) + 1;

	if (n)
		spare = n->priv;
	else
		n = malloc(sizeof(*n));
	*n = (struct graph_node){ .seq = ++seq };
	n->d.opcode = ARAX_OP_LAUNCH;
	n->d.grid[0] = 64;
	n->d.kernel = number;
	n->d.tenant = tenants ? number : 1;
	n->d.context = number;
	n->d.priority = w->priority;
	n->priv = w;
	if (!w->queued++)
		w->since = now;
	if (sched_push(s, n, now))
		ck_abort_msg("no memory");
}

static uint64_t longest(const struct who *w)
{
	return w->queued && now - w->since > w->longest ? now - w->since : w->longest;
}

static void fill_one(struct who *w)
{
	while (w->busy && w->queued + (w->at_once ? w->running : 0) < w->backlog)
		push(w);
}

static void fill(void)
{
	for (struct who *w = whos; w < whos + nr_whos; w++)
		fill_one(w);
}

static void start_all(void)
{
	struct graph_node *n;

	fill();
	while ((n = sched_pick(s, now))) {
		struct who *w = n->priv;

		ck_assert_uint_lt(nr_running, DEVICES * LANES);
		running[nr_running].node = n;
		running[nr_running].ns = n->seq & 1 ? w->ns + w->ns / 10 : w->ns;
		running[nr_running].end = now + running[nr_running].ns;
		nr_running++;
		w->longest = longest(w);
		w->since = now;
		w->queued--;
		w->running++;
		fill();
	}
}

static void finish_all(void)
{
	for (uint32_t i = 0; i < nr_running;) {
		struct graph_node *n = running[i].node;
		struct who *w = n->priv;

		if (running[i].end > now) {
			i++;
			continue;
		}
		w->running--;
		w->ran_ns += running[i].ns;
		sched_finish(s, n, running[i].ns, true);
		running[i] = running[--nr_running];
		n->priv = spare;
		spare = n;
		/* Before another one ends, or who has several would have none for an instant. */
		fill_one(w);
	}
}

static void run_for(uint64_t ns)
{
	uint64_t limit = now + ns, next;

	while (now < limit) {
		start_all();
		next = limit;
		for (uint32_t i = 0; i < nr_running; i++)
			if (running[i].end < next)
				next = running[i].end;
		now = next;
		finish_all();
	}
}

static void end(void)
{
	struct graph_node *n;

	for (struct who *w = whos; w < whos + nr_whos; w++)
		w->busy = false;
	now += 1000 * S;
	finish_all();
	while ((n = sched_pick(s, now))) {
		sched_finish(s, n, 1, false);
		free(n);
	}
	ck_assert(sched_is_idle(s));
	sched_destroy(s);
	while ((n = spare)) {
		spare = n->priv;
		free(n);
	}
}

static void forget_waits(void)
{
	for (struct who *w = whos; w < whos + nr_whos; w++) {
		w->longest = 0;
		w->since = now;
	}
}

/* Of what those on @device get in the next @ns each has the same. */
static void share_equally(uint32_t device, uint64_t ns, double slack)
{
	uint64_t before[MOST], sum = 0;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < nr_whos; i++)
		before[i] = whos[i].ran_ns;
	run_for(ns);
	for (uint32_t i = 0; i < nr_whos; i++) {
		nr += whos[i].busy && whos[i].devices == 1u << device;
		if (whos[i].devices == 1u << device)
			sum += whos[i].ran_ns - before[i];
	}
	for (uint32_t i = 0; i < nr_whos; i++) {
		double part = (double)(whos[i].ran_ns - before[i]) / (double)sum;

		if (whos[i].busy && whos[i].devices == 1u << device)
			ck_assert_msg(fabs(part * nr - 1) < slack, "%s: %u of %u got %.4f",
				      sched_policy_name(s), i + 1, nr, part);
	}
}

/* Each has been alone for long, on a device of one lane and on one of many. */
static void begin_apart(int way)
{
	begin(way);
	device(1);
	device(LANES);
	who(1, 10 * MS, 8);
	who(2, 10 * MS, 64);
	run_for(LONG);
}

/* Where it goes it does not wait for what others have had elsewhere. */
START_TEST(who_comes_has_its_part)
{
	struct who *w;
	uint64_t before;

	begin_apart(_i);
	before = whos[1].ran_ns;
	w = who(1, 10 * MS, 8);
	forget_waits();
	share_equally(0, 2 * S, 0.03);
	ck_assert_uint_le(longest(w), 40 * MS);
	share_equally(0, 10 * S, 0.01);
	ck_assert_uint_le(whos[0].longest, CREDIT + 40 * MS);
	/* All of its lanes, all the time. */
	ck_assert_uint_ge(whos[1].ran_ns - before, LANES * (12 * S - 10 * MS));
	/* And where it takes others have been further, no more than the credit before these. */
	w = who(2, 10 * MS, 64);
	forget_waits();
	run_for(S);
	ck_assert_uint_le(whos[1].longest, CREDIT / LANES + 40 * MS);
	share_equally(1, 10 * S, 0.01);
	ck_assert_uint_le(longest(w), 40 * MS);
	end();
}
END_TEST

/* Who always keeps something running saves no more than the credit, of all lanes together. */
START_TEST(who_is_busy_saves_no_more_than_the_credit)
{
	struct who *few;

	begin(_i);
	device(8);
	few = who(1, 10 * MS, 2);
	few->at_once = true;
	who(1, 10 * MS, 32);
	run_for(LONG);
	few->at_once = false;
	few->backlog = 32;
	forget_waits();
	run_for(S);
	ck_assert_uint_le(whos[1].longest, CREDIT / 8 + 40 * MS);
	ck_assert_uint_le(longest(few), CREDIT / 8 + 40 * MS);
	share_equally(0, 10 * S, 0.01);
	end();
}
END_TEST

/* What one has had alone is no debt to who comes while he is away. */
START_TEST(who_comes_back_owes_nothing)
{
	struct who *w;

	begin_apart(_i);
	whos[1].busy = false;
	run_for(10 * S);
	w = who(2, 10 * MS, 64);
	run_for(10 * S);
	whos[1].busy = true;
	forget_waits();
	run_for(S);
	ck_assert_uint_le(whos[1].longest, CREDIT / LANES + 40 * MS);
	ck_assert_uint_le(longest(w), CREDIT / LANES + 40 * MS);
	share_equally(1, 10 * S, 0.01);
	end();
}
END_TEST

/* A step of priority is its head start where it comes, beside others elsewhere too, and no more. */
START_TEST(priority_is_a_head_start)
{
	struct who *w;
	uint64_t before;

	begin_apart(_i);
	w = who(1, 10 * MS, 8);
	w->priority = -10;
	run_for(10 * SCHED_AGE_NS - 20 * MS);
	ck_assert_uint_ge(w->ran_ns, 10 * SCHED_AGE_NS - 60 * MS);
	run_for(100 * MS);
	before = w->ran_ns;
	run_for(S);
	ck_assert_uint_le(w->ran_ns - before, 520 * MS);
	share_equally(0, 10 * S, 0.01);
	/* The same for one that waits for the others' to be over. */
	w = who(1, 10 * MS, 8);
	w->priority = 10;
	run_for(19 * SCHED_AGE_NS);
	ck_assert_uint_eq(w->ran_ns, 0);
	run_for(2 * SCHED_AGE_NS);
	ck_assert_uint_gt(w->ran_ns, 0);
	share_equally(0, 10 * S, 0.01);
	/* Whoever saves can't have more by one either. */
	w = who(1, 10 * MS, 1);
	w->at_once = true;
	run_for(LONG);
	w->at_once = false;
	w->backlog = 8;
	forget_waits();
	run_for(2 * S);
	for (int i = 0; i < 3; i += 2)
		ck_assert_uint_le(whos[i].longest, CREDIT + 60 * MS);
	end();
}
END_TEST

/* More come than a pick asks: each has its part, and so has who has been there. */
START_TEST(many_come)
{
	begin_apart(_i);
	for (int i = 0; i < MANY; i++)
		who(2, 10 * MS, 40);
	run_for(2 * S);
	share_equally(1, 10 * S, 0.05);
	end();
}
END_TEST

/* They keep nobody from a device that is none of theirs. */
START_TEST(many_wait_for_another_device)
{
	uint64_t before;

	begin_apart(_i);
	for (int i = 0; i < MANY; i++)
		who(1, MS, 8);
	forget_waits();
	before = whos[1].ran_ns;
	run_for(10 * S);
	ck_assert_uint_ge(whos[1].ran_ns - before, LANES * 9 * S);
	ck_assert_uint_le(whos[1].longest, S / 2);
	share_equally(0, 10 * S, 0.15);
	end();
}
END_TEST

static void random_who(bool priorities)
{
	uint32_t any = 1 + (uint32_t)some((1u << nr_devices) - 1);
	struct who *w = who(some(3) ? 1u << some(nr_devices) : any, (1 + some(20)) * MS,
			    some(4) ? 2 + (uint32_t)some(40) : 1);

	w->at_once = w->backlog == 1 || some(3) == 0;
	w->priority = priorities && some(2) ? (int)some(40) - 20 : 0;
	w->busy = some(4);
	w->until = now + some(10 * S);
}

static void come_and_go(void)
{
	for (struct who *w = whos; w < whos + nr_whos; w++) {
		if (w->until > now)
			continue;
		w->busy = !w->busy;
		w->until = now + (some(3) ? some(3 * S) : some(20 * S));
	}
}

/*
 * So long @w waits at most: for each of the others that share a device with it the credit, two
 * tasks and what its priority is before; on all lanes that it could have.  And once more for those
 * that are passed over in between.
 */
static uint64_t longest_wait(const struct who *w)
{
	uint64_t sum = 0, nr_lanes = 0, most = 0;

	for (const struct who *v = whos; v < whos + nr_whos; v++) {
		most = v->ns > most ? v->ns : most;
		if (v == w || !(v->devices & w->devices))
			continue;
		sum += CREDIT + 2 * v->ns;
		if (v->priority < w->priority)
			sum += (uint64_t)(w->priority - v->priority) * SCHED_AGE_NS;
	}
	for (uint32_t i = 0; i < nr_devices; i++)
		nr_lanes += w->devices >> i & 1 ? lanes[i] : 0;
	return 2 * (sum / nr_lanes + 4 * most);
}

START_TEST(nobody_waits_for_long)
{
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint32_t devices, most;

		rng = (88172645463325252ull + round * 0x9e3779b97f4a7c15ull) | 1;
		begin(_i);
		for (devices = 1 + (uint32_t)some(DEVICES); devices; devices--)
			device(some(2) ? 1 : 1 + (uint32_t)some(LANES));
		most = 2 + (uint32_t)some(round % 2 ? MOST - 2 : 10);
		while (nr_whos < most)
			random_who(round % 3 && !tenants);
		for (int i = 0; i < 100; i++) {
			come_and_go();
			run_for(100 * MS);
			for (struct who *w = whos; w < whos + nr_whos; w++) {
				ck_assert_msg(longest(w) <= longest_wait(w),
					      "%s, round %u: %u of %u has waited for %.3f s",
					      sched_policy_name(s), (unsigned int)round,
					      (unsigned int)(w - whos) + 1, nr_whos,
					      (double)longest(w) / S);
			}
		}
		end();
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_level");
	TCase *c = tcase_create("levels"), *many = tcase_create("many");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 600);
	tcase_set_timeout(many, 600);
	tcase_set_tags(many, "long");
	tcase_add_loop_test(c, who_comes_has_its_part, 0, WAYS);
	tcase_add_loop_test(c, who_is_busy_saves_no_more_than_the_credit, 0, WAYS);
	tcase_add_loop_test(c, who_comes_back_owes_nothing, 0, WAYS);
	tcase_add_loop_test(c, priority_is_a_head_start, 0, PROGRAM_WAYS);
	tcase_add_loop_test(many, many_come, 0, WAYS);
	tcase_add_loop_test(many, many_wait_for_another_device, 0, WAYS);
	tcase_add_loop_test(many, nobody_waits_for_long, 0, WAYS);
	suite_add_tcase(suite, c);
	suite_add_tcase(suite, many);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
