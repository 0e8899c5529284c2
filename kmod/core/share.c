// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A user's share of the mediator's slots.  A task that waits for a timeline, or behind
 * a kernel that takes hours, keeps its slot for as long as its owner likes, and four
 * users, each of them within its tasks.max, could leave none to all others; one person
 * with subordinate user ids is many users.
 *
 * So the more slots a user has the more he must leave free: who has many can use half
 * of them, who has a few some of the other half, and the last ones are for who has none.
 * Nothing is taken back from anybody; but for each that is left, some user with few has
 * to be there.  With 16,384 slots and tasks.max of 4,096 it takes not 4 users but 1,500
 * to leave none.
 *
 * Clients of one who may not have more wait here, out of others' way, until some are
 * free; who has least comes first.
 */
#include "core.h"

/* Fewer are for tests and trials: what is left free would be none. */
#define DIVIDED		256
#define FEW		1
#define SOME		4
#define MORE		16
#define MANY		64

static u64 held(const struct core_tenant *user)
{
	u64 used = core_atomic_read(&user->res[ARAX_RES_TASKS].used);

	return used > user->nr_queued ? used - user->nr_queued : 0;
}

/* So many slots stay free for those who have less; it grows with @n. */
static u32 left_by(const struct core *core, u64 n)
{
	u32 all = core->params.slots;

	if (n < FEW)
		return 0;
	if (n < SOME)
		return all / 16;
	if (n < MORE)
		return all / 8;
	return n < MANY ? all / 4 : all / 2;
}

bool core_share_left(const struct core *core, const struct core_tenant *user)
{
	if (core->params.slots < DIVIDED)
		return true;
	return core_slots_free(core) > left_by(core, held(user));
}

void core_share_changed(struct core *core, struct core_tenant *user)
{
	core_spin_assert(&core->dispatch);
	if (core_likely(!user->waits_for_share))
		return;
	cheap_remove(&core->sharers, &user->by_held);
	cheap_insert(&core->sharers, &user->by_held, held(user));
}

void core_share_queued(struct core *core, struct core_tenant *user, int by)
{
	user->nr_queued += (u32)by;
	core_share_changed(core, user);
}

void core_share_leave(struct core *core, struct core_tenant *user)
{
	core_spin_assert(&core->dispatch);
	if (!user->waits_for_share)
		return;
	core_warn_on(!clist_empty(&user->waiting));
	cheap_remove(&core->sharers, &user->by_held);
	user->waits_for_share = false;
}

void core_share_wait(struct core *core, struct core_client *c)
{
	struct core_tenant *user = c->user;

	clist_del(&c->backlog);
	clist_add_tail(&c->backlog, &user->waiting);
	if (user->waits_for_share)
		return;
	cheap_insert(&core->sharers, &user->by_held, held(user));
	user->waits_for_share = true;
}

bool core_share_return(struct core *core)
{
	struct core_client *c;
	struct core_tenant *user;
	struct cheap *n;

	while ((n = cheap_first(core->sharers))) {
		user = cheap_entry(n, struct core_tenant, by_held);
		/* Its clients have died, or their tasks have. */
		if (clist_empty(&user->waiting)) {
			core_share_leave(core, user);
			continue;
		}
		if (!core_share_allows(core, user))
			return false;
		c = clist_first(&user->waiting, struct core_client, backlog);
		clist_del(&c->backlog);
		clist_add_tail(&c->backlog, &core->backlog);
		return true;
	}
	return false;
}
