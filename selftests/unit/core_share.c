// SPDX-License-Identifier: MIT
/* Users share the mediator's slots: whoever keeps his tasks there for ever leaves some to others. */
#include "core_fixture.h"

#define SLOTS	8001u		/* eight thousand tasks, for slot 0 is none */
#define USERS	4u
#define MANY_USERS 20u
#define EACH	4096u

static void open_client(struct fx *fx, struct fx_client **cl, u32 uid, u32 tenant)
{
	*cl = fx_client(fx, uid, tenant);
	ck_assert_int_eq(fx_init(*cl, EACH, 128, 0), 0);
	(*cl)->queue = fx_queue(*cl, ARAX_QUEUE_IN_ORDER);
}

static struct fx *set_up(struct fx_client **users, u32 n)
{
	struct core_params p = fx_params();
	struct fx *fx;
	u32 i;

	p.cells = 1u << 14;
	p.slots = SLOTS;
	p.user_tasks = EACH;
	fx = fx_new(&p);
	for (i = 0; i < n; i++)
		open_client(fx, &users[i], 1000 + i, 2);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	return fx;
}

static void send(struct fx_client *cl, u32 first, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct arax_task t = fx_marker(cl, first + i);

		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, n), (int)n);
}

/* Until there is nothing more to be fetched; whose tasks they are is in @held, tags in @tags. */
static u32 take_all(struct fx *fx, struct fx_client **users, u32 n, u32 *held, u64 *tags)
{
	struct arax_fetch f = { 0 };
	const struct arax_dispatch *d;
	u32 i, nr = 0;

	do {
		ck_assert_int_eq(core_fetch(fx->core, &f), 0);
		while ((d = fx_next(fx))) {
			ck_assert_uint_eq(d->type, ARAX_DISPATCH_TASK);
			for (i = 0; i < n && users[i]->c->id != d->context; i++)
				;
			ck_assert_uint_lt(i, n);
			held[i]++;
			tags[nr++] = d->tag;
		}
		ck_assert_int_eq(core_fetch(fx->core, &f), 0);
	} while (f.ready);
	return nr;
}

/* Who waits has its place by what it holds. */
static void check_places(struct fx_client **users, u32 n)
{
	while (n--) {
		struct core_tenant *u = users[n]->c->user;

		if (u->waits_for_share)
			ck_assert_uint_eq(u->by_held.key,
					  fx_used(u, ARAX_RES_TASKS) - u->nr_queued);
	}
}

static void release_all(struct fx *fx, struct fx_client **users, u32 n)
{
	while (n--)
		fx_release(users[n]);
	fx_free(fx);
}

/* Each one more wants all there is, and ends nothing: whoever comes next finds some. */
START_TEST(some_are_left)
{
	struct fx_client *users[MANY_USERS];
	u32 held[MANY_USERS] = { 0 }, i, n = 0;
	struct fx *fx = set_up(users, MANY_USERS);
	static u64 tags[SLOTS];

	for (i = 0; i < MANY_USERS; i++) {
		send(users[i], 0, EACH);
		n += take_all(fx, users, MANY_USERS, held, tags + n);
		ck_assert_uint_ge(held[i], 1);
		ck_assert_uint_eq(EACH - held[i], users[i]->c->user->nr_queued);
	}
	/* One alone has half of them, and leaves the other half to all others. */
	ck_assert_uint_eq(held[0], 4000);
	ck_assert_uint_eq(held[1], 512);
	ck_assert_uint_le(n, 8000 - 500);
	for (i = 0; i < n; i++)
		if (fx->core->slots[ARAX_TAG_SLOT(tags[i])].task->client == users[0]->c)
			ck_assert_uint_eq(fx_commit(fx, tags[i], 0), 0);
	/* What he gives back is for all of them, first for those who have least. */
	memset(held, 0, sizeof(held));
	take_all(fx, users, MANY_USERS, held, tags);
	for (i = 1; i < MANY_USERS; i++)
		ck_assert(held[i] || fx->core->slots_used >= 4000);
	ck_assert_uint_gt(held[MANY_USERS - 1], 8);
	release_all(fx, users, MANY_USERS);
}
END_TEST

/* However they come and end: all that was sent comes, each client's in its order, none is forgotten. */
START_TEST(all_come)
{
	struct fx_client *users[USERS + 2];
	u32 done[USERS + 2] = { 0 }, next[USERS + 2] = { 0 }, i, total = 0;
	struct fx *fx = set_up(users, USERS + 2);
	struct { u64 tag; u32 user; } have[SLOTS];
	u32 nr = 0, seed = 4711, most = 0, used[USERS + 2] = { 0 };

	/* Two of them are one user. */
	fx_release(users[1]);
	open_client(fx, &users[1], 1000, 2);
	fx_drain(fx);
	for (i = 0; i < USERS + 2; i++)
		send(users[i], 0, i < 2 ? EACH / 2 : EACH);
	while (total < (USERS + 1) * EACH) {
		const struct arax_dispatch *d;

		while ((d = fx_next(fx))) {
			if (d->type != ARAX_DISPATCH_TASK)
				continue;
			for (i = 0; users[i]->c->id != d->context; i++)
				;
			ck_assert_uint_eq(d->user_data, next[i]++);
			used[i]++;
			have[nr].user = i;
			have[nr++].tag = d->tag;
			ck_assert_uint_lt(nr, SLOTS - 1);
		}
		most = nr > most ? nr : most;
		ck_assert_uint_gt(nr, 0);
		seed = seed * 1664525 + 1013904223;
		i = (seed >> 8) % nr;
		ck_assert_uint_eq(fx_commit(fx, have[i].tag, 0), 0);
		used[have[i].user]--;
		done[have[i].user]++;
		have[i] = have[--nr];
		total++;
		check_places(users, USERS + 2);
	}
	ck_assert_uint_eq(nr, 0);
	/* They didn't have less than there was for five users with many. */
	ck_assert_uint_ge(most, 4000);
	for (i = 0; i < USERS + 2; i++) {
		ck_assert_uint_eq(done[i], i < 2 ? EACH / 2 : EACH);
		ck_assert_uint_eq(users[i]->c->user->nr_queued, 0);
	}
	ck_assert_ptr_null(fx->core->sharers);
	release_all(fx, users, USERS + 2);
}
END_TEST

/* Who is killed, released, failed or settled while it waits for its share waits no longer. */
START_TEST(waits_and_dies)
{
	struct fx_client *users[4];
	struct fx *fx = set_up(users, 4);
	u32 held[4] = { 0 }, i;
	u64 tags[SLOTS];

	for (i = 0; i < 3; i++)
		send(users[i], 0, EACH);
	take_all(fx, users, 4, held, tags);
	for (i = 0; i < 3; i++)
		ck_assert(users[i]->c->user->waits_for_share);
	ck_assert_int_eq(core_context_kill(fx->core, users[0]->c->id), 0);
	ck_assert_uint_eq(users[0]->c->user->nr_queued, 0);
	fx_release(users[0]);
	/* The mediator dies: what it had is queued as well, and comes with the next one. */
	fx_die(fx);
	ck_assert_uint_eq(fx->core->slots_used, 0);
	ck_assert_uint_eq(users[1]->c->user->nr_queued, EACH);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	memset(held, 0, sizeof(held));
	ck_assert_uint_ge(take_all(fx, users + 1, 2, held, tags), 4000);
	ck_assert_uint_gt(held[0], 0);
	ck_assert_uint_gt(held[1], 0);
	fx_die(fx);
	core_expire(fx->core);
	for (i = 1; i < 3; i++) {
		ck_assert_uint_eq(users[i]->c->user->nr_queued, 0);
		ck_assert_uint_eq(fx_used(users[i]->c->user, ARAX_RES_TASKS), 0);
	}
	for (i = 1; i < 4; i++)
		fx_release(users[i]);
	fx_free(fx);
}
END_TEST

/* Tenants of one user that have limits are apart; whoever gets one, or loses it, sees it at once. */
START_TEST(tenants_of_one_user)
{
	struct fx_client *cl[3];
	struct fx *fx = set_up(cl, 1);
	struct core_tenant *a = fx->tenants[2], *b = fx->tenants[3];
	struct arax_limit l = { .what = ARAX_SET_MAX + ARAX_RES_TASKS, .value = 2 * EACH };
	u32 held[3] = { 0 }, i, n;
	static u64 tags[SLOTS];

	core_atomic_set(&a->res[ARAX_RES_TASKS].max, 2 * EACH);
	core_atomic_set(&b->res[ARAX_RES_TASKS].max, 2 * EACH);
	open_client(fx, &cl[1], 1000, 2);
	open_client(fx, &cl[2], 1000, 3);
	send(cl[0], 0, EACH);
	n = take_all(fx, cl, 3, held, tags);
	ck_assert_uint_eq(held[0], 4000);
	/* The same tenant has what it may, the other one begins. */
	send(cl[1], 0, 10);
	send(cl[2], 0, EACH);
	n += take_all(fx, cl, 3, held, tags + n);
	ck_assert_uint_eq(held[1], 0);
	ck_assert_uint_eq(held[2], 512);
	ck_assert(a->waits_for_share && b->waits_for_share);
	/* Without a limit it is its user's matter alone, who has most. */
	l.cgroup_fd = 3;
	l.value = ARAX_LIMIT_MAX;
	ck_assert_int_eq(core_limit_set(fx->core, &l), 0);
	take_all(fx, cl, 3, held, tags + n);
	ck_assert_uint_eq(held[2], 512);
	ck_assert(!b->waits_for_share);
	check_places(cl, 3);
	/* As the first one's end it is back, in both its shares. */
	for (i = 0; i < n; i++)
		ck_assert_uint_eq(fx_commit(fx, tags[i], 0), 0);
	memset(held, 0, sizeof(held));
	take_all(fx, cl, 3, held, tags);
	ck_assert_uint_eq(held[1], 10);
	ck_assert_uint_gt(held[2], 1000);
	for (i = 0; i < 3; i++)
		fx_release(cl[i]);
	ck_assert_uint_eq(a->nr_queued + b->nr_queued + fx->tenants[0]->nr_queued, 0);
	fx_free(fx);
}
END_TEST

Suite *core_share_suite(void)
{
	Suite *s = suite_create("core share");
	TCase *tc = tcase_create("slots");

	tcase_add_test(tc, some_are_left);
	tcase_add_test(tc, all_come);
	tcase_add_test(tc, waits_and_dies);
	tcase_add_test(tc, tenants_of_one_user);
	suite_add_tcase(s, tc);
	return s;
}
