// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Shares of the mediator's slots.  A task that waits for a timeline, or behind a kernel
 * that takes hours, keeps its slot for as long as its owner likes, and four users, each
 * of them within its tasks.max, could leave none to all others; one person with
 * subordinate user ids is many users.
 *
 * So the more slots somebody has the more he must leave free: who has many can use half
 * of them, who has some a part of the other half, and the last ones are for who has
 * few.  Nothing is taken back from anybody; but for each that is left, somebody with
 * few has to be there.  With 16,384 slots and a tasks.max of 4,096 it takes not 4 users
 * but 300 to leave none.
 *
 * Somebody is a user, and the nearest cgroup above with a tasks.max: of both that which
 * holds less counts.  So tenants of one user that have limits are apart, as are users
 * within one tenant; and nobody makes another of himself by making cgroups.
 *
 * Clients of who may not have more wait here, out of others' way, in the lists of both,
 * until one of the two may; who has least comes first.
 */
#include "core.h"

/* Fewer are for tests and trials: what is left free would be none. */
#define DIVIDED		256
#define FEW		4
#define SOME		32
#define MORE		128
#define MANY		512

static u64 held(const struct core_tenant *t)
{
	u64 used = core_atomic_read(&t->res[ARAX_RES_TASKS].used);

	return used > t->nr_queued ? used - t->nr_queued : 0;
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

static bool may_have(const struct core *core, const struct core_tenant *t)
{
	return core_slots_free(core) > left_by(core, held(t));
}

/* The nearest cgroup with a limit, or NULL. */
static struct core_tenant *limited(const struct core_client *c)
{
	struct core_tenant *t;

	for (t = c->tenant; t; t = t->parent)
		if (core_atomic_read(&t->res[ARAX_RES_TASKS].max) != ARAX_LIMIT_MAX)
			return t;
	return NULL;
}

bool core_share_left(const struct core *core, const struct core_client *c)
{
	const struct core_tenant *t;

	if (core->params.slots < DIVIDED || may_have(core, c->user))
		return true;
	t = limited(c);
	return t && may_have(core, t);
}

static void changed(struct core *core, struct core_tenant *t)
{
	if (core_likely(!t->waits_for_share))
		return;
	cheap_remove(&core->sharers, &t->by_held);
	cheap_insert(&core->sharers, &t->by_held, held(t));
}

void core_share_changed(struct core *core, struct core_tenant *leaf, struct core_tenant *user)
{
	core_spin_assert(&core->dispatch);
	if (core_likely(!core->sharers))
		return;
	for (; leaf; leaf = leaf->parent)
		changed(core, leaf);
	changed(core, user);
}

void core_share_queued(struct core *core, const struct core_client *c, int by)
{
	struct core_tenant *t;

	for (t = c->tenant; t; t = t->parent)
		t->nr_queued += (u32)by;
	c->user->nr_queued += (u32)by;
	core_share_changed(core, c->tenant, c->user);
}

void core_share_leave(struct core *core, struct core_tenant *t)
{
	core_spin_assert(&core->dispatch);
	if (!t->waits_for_share)
		return;
	core_warn_on(!clist_empty(&t->waiting));
	cheap_remove(&core->sharers, &t->by_held);
	t->waits_for_share = false;
}

static void wait_in(struct core *core, struct core_tenant *t, struct clist *node)
{
	clist_add_tail(node, &t->waiting);
	if (t->waits_for_share)
		return;
	cheap_insert(&core->sharers, &t->by_held, held(t));
	t->waits_for_share = true;
}

void core_share_wait(struct core *core, struct core_client *c)
{
	struct core_tenant *t = limited(c);

	core_backlog_leave(c);
	wait_in(core, c->user, &c->backlog);
	if (t)
		wait_in(core, t, &c->share);
}

static void come_back(struct core *core, struct core_tenant *t)
{
	struct core_client *c = t->is_user ?
		clist_first(&t->waiting, struct core_client, backlog) :
		clist_first(&t->waiting, struct core_client, share);

	core_backlog_leave(c);
	clist_add_tail(&c->backlog, &core->backlog);
}

bool core_share_return(struct core *core)
{
	struct core_tenant *t;
	struct cheap *n;

	while ((n = cheap_first(core->sharers))) {
		t = cheap_entry(n, struct core_tenant, by_held);
		/* Its clients have come back elsewhere, or have died, or their tasks have. */
		if (clist_empty(&t->waiting)) {
			core_share_leave(core, t);
			continue;
		}
		if (!may_have(core, t))
			return false;
		come_back(core, t);
		return true;
	}
	return false;
}

void core_share_anew(struct core *core)
{
	struct cheap *n;

	core_spin_assert(&core->dispatch);
	while ((n = cheap_first(core->sharers))) {
		struct core_tenant *t = cheap_entry(n, struct core_tenant, by_held);

		while (!clist_empty(&t->waiting))
			come_back(core, t);
		core_share_leave(core, t);
	}
}
