// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Tenants: a tree of counters.  A charge walks from leaf to root by
 * compare-and-swap, all or nothing.  While one charge unwinds, another that
 * would fit may see too little room: it retries a few times before EDQUOT.
 */
#include "core.h"

#define CHARGE_TRIES	4
#define WEIGHT_DEFAULT	100
/* Idle tenants that are looked at for each that comes: more than one, see sweep(). */
#define SWEEP		2

static void counter_init(struct core_counter *n, u64 max)
{
	core_atomic_set(&n->max, max);
}

int core_spares_make(struct clist *spares, u32 n)
{
	struct core_tenant *t;

	while (n--) {
		t = core_alloc(sizeof(*t));
		if (!t)
			return -ENOMEM;
		clist_add_tail(&t->idle, spares);
	}
	return 0;
}

void core_spares_free(struct clist *spares)
{
	while (!clist_empty(spares)) {
		struct core_tenant *t = clist_first(spares, struct core_tenant, idle);

		clist_del(&t->idle);
		core_free(t);
	}
}

static struct core_tenant *tenant_new(u64 id, struct clist *spares)
{
	struct core_tenant *t;
	u32 i;

	if (!spares) {
		t = core_alloc(sizeof(*t));
	} else if (!clist_empty(spares)) {
		t = clist_first(spares, struct core_tenant, idle);
		clist_del(&t->idle);
	} else {
		t = NULL;
	}
	if (!t)
		return NULL;
	t->id = id;
	t->refs = 1;
	t->weight = WEIGHT_DEFAULT;
	t->max_ns = ARAX_LIMIT_MAX;
	for (i = 0; i < ARAX_RES_MAX; i++)
		counter_init(&t->res[i], ARAX_LIMIT_MAX);
	clist_init(&t->idle);
	clist_init(&t->waiting);
	return t;
}

/* ------------------------------------------------------------------ */
/* Life                                                                */

/*
 * A tenant lives as long as something refers to it: a context, a buffer, a tenant
 * below.  If an administrator has set something, it also lives as long as its
 * cgroup, used or not; it waits on core->idle then, the only place where the tenant
 * of a removed cgroup can be that nothing refers to.
 */
static bool configured(const struct core_tenant *t)
{
	u32 i;

	if (t->is_user)
		return false;
	if (t->weight != WEIGHT_DEFAULT || t->max_ns != ARAX_LIMIT_MAX)
		return true;
	for (i = 0; i < ARAX_RES_MAX; i++)
		if (core_atomic_read(&t->res[i].max) != ARAX_LIMIT_MAX)
			return true;
	return false;
}

static bool gone(struct core *core, const struct core_tenant *t)
{
	return core_read_once(t->link) && core->ops->tenant_gone(core, t);
}

static void tenant_free(struct core *core, struct core_tenant *t)
{
	u32 i;

	for (i = 0; i < ARAX_RES_MAX; i++)
		core_warn_on(core_atomic_read(&t->res[i].used));
	core_warn_on(t->nr_queued);
	core_warn_on(t->buffers);
	core_spin_lock(&core->dispatch);
	core_share_leave(core, t);
	core_tree_unlink(t->is_user ? &core->users : &core->tenants, &t->by_id);
	core_spin_unlock(&core->dispatch);
	clist_del(&t->idle);
	if (t->link)
		core->ops->tenant_free(core, t);
	core_free(t);
}

/* Returns true if one is idle now. */
static bool release(struct core *core, struct core_tenant *t)
{
	struct core_tenant *parent;

	for (; t; t = parent) {
		core_warn_on(!t->refs);
		core_write_once(t->refs, t->refs - 1);
		if (t->refs)
			return false;
		if (configured(t) && !gone(core, t)) {
			clist_add_tail(&t->idle, &core->idle);
			return true;
		}
		parent = t->parent;
		tenant_free(core, t);
	}
	return false;
}

/* Looks again whether an idle tenant's cgroup is there. */
static void look_again(struct core *core, struct core_tenant *t)
{
	clist_del(&t->idle);
	core_write_once(t->refs, 1);
	release(core, t);
}

/*
 * The kernel tells no module that a cgroup was removed.  So whenever a tenant comes,
 * or becomes idle, the two that nobody has looked at for the longest time are looked
 * at: of n idle ones each is seen again before n/2 have come, and as they come those whose
 * cgroups are gone can't outnumber those whose cgroups are there.  As long as none does they stay.
 */
static void sweep(struct core *core)
{
	u32 i;

	for (i = 0; i < SWEEP && !clist_empty(&core->idle); i++)
		look_again(core, clist_first(&core->idle, struct core_tenant, idle));
}

static struct core_tenant *hold(struct core_tenant *t)
{
	if (!t->refs)
		clist_del(&t->idle);
	core_write_once(t->refs, t->refs + 1);
	return t;
}

struct core_tenant *core_tenant_get_spare(struct core *core, u64 id, struct core_tenant *parent,
					  const char *path, struct clist *spares)
{
	struct core_tenant *t;

	core_mutex_assert(&core->lock);
	t = core_tenant_of(*core_tree_place(&core->tenants, id));
	if (t)
		return hold(t);
	sweep(core);
	t = tenant_new(id, spares);
	if (!t)
		return NULL;
	if (parent)
		t->parent = hold(parent);
	memcpy(t->path, path, strnlen(path, sizeof(t->path) - 1));
	core_spin_lock(&core->dispatch);
	*core_tree_place(&core->tenants, id) = &t->by_id;
	core_spin_unlock(&core->dispatch);
	return t;
}

struct core_tenant *core_user_get(struct core *core, u32 uid, struct clist *spares)
{
	struct core_node **place;
	struct core_tenant *t;

	core_mutex_assert(&core->lock);
	place = core_tree_place(&core->users, uid);
	if (*place)
		return hold(core_tenant_of(*place));
	t = tenant_new(uid, spares);
	if (!t)
		return NULL;
	t->is_user = true;
	counter_init(&t->res[ARAX_RES_MEMORY], core->params.user_memory);
	counter_init(&t->res[ARAX_RES_TASKS], core->params.user_tasks);
	counter_init(&t->res[ARAX_RES_CONTEXTS], core->params.user_contexts);
	*place = &t->by_id;
	return t;
}

void core_tenant_hold(struct core *core, struct core_tenant *t)
{
	core_mutex_assert(&core->lock);
	hold(t);
}

void core_tenant_put(struct core *core, struct core_tenant *t)
{
	core_mutex_assert(&core->lock);
	if (release(core, t))
		sweep(core);
}

void core_tenants_destroy(struct core *core)
{
	while (core->tenants)
		tenant_free(core, core_tenant_of(core->tenants));
	while (core->users)
		tenant_free(core, core_tenant_of(core->users));
}

/* ------------------------------------------------------------------ */
/* Charges                                                             */

/* 1 charged, 0 refused. */
static int charge_one(struct core_counter *n, u64 amount, bool enforce)
{
	u64 old = core_atomic_read(&n->used), sum, peak;

	do {
		if (check_add_overflow(old, amount, &sum))
			return 0;
		if (enforce && sum > core_atomic_read(&n->max))
			return 0;
	} while (!core_atomic_try_cmpxchg(&n->used, &old, sum));
	peak = core_atomic_read(&n->peak);
	while (peak < sum && !core_atomic_try_cmpxchg(&n->peak, &peak, sum))
		;
	return 1;
}

static void uncharge_one(struct core_counter *n, u64 amount)
{
	u64 left = core_atomic_sub_return(&n->used, amount);

	core_warn_on(left > left + amount);	/* went below zero */
}

static bool fits(const struct core_counter *n, u64 amount)
{
	u64 sum;

	return !check_add_overflow(core_atomic_read(&n->used), amount, &sum) &&
	       sum <= core_atomic_read(&n->max);
}

/*
 * Returns who refused, or NULL.  It looks before it leaps: a charge that is
 * refused further up then leaves no trace in the peaks below, and takes no
 * room from others for the moment until it is unwound.
 */
static struct core_tenant *charge_chain(struct core_tenant *leaf, struct core_tenant *user,
					u32 res, u64 amount)
{
	struct core_tenant *t, *undo;
	bool limited = false;

	for (t = leaf; t; t = t->parent) {
		if (core_atomic_read(&t->res[res].max) != ARAX_LIMIT_MAX)
			limited = true;
		if (!fits(&t->res[res], amount))
			return t;
	}
	/* The user's default holds only where no cgroup above has a limit. */
	if (!limited && !fits(&user->res[res], amount))
		return user;
	for (t = leaf; t; t = t->parent)
		if (!charge_one(&t->res[res], amount, true))
			goto unwind;
	t = user;
	if (charge_one(&user->res[res], amount, !limited))
		return NULL;
unwind:
	for (undo = leaf; undo && undo != t; undo = undo->parent)
		uncharge_one(&undo->res[res], amount);
	return t;
}

int core_charge(struct core_tenant *leaf, struct core_tenant *user, u32 res, u64 amount)
{
	struct core_tenant *refused = NULL;
	int tries;

	for (tries = 0; tries < CHARGE_TRIES; tries++) {
		refused = charge_chain(leaf, user, res, amount);
		if (!refused)
			return 0;
	}
	core_atomic_add(&refused->res[res].events, 1);
	return -EDQUOT;
}

void core_uncharge(struct core_tenant *leaf, struct core_tenant *user, u32 res, u64 amount)
{
	struct core_tenant *t;

	for (t = leaf; t; t = t->parent)
		uncharge_one(&t->res[res], amount);
	uncharge_one(&user->res[res], amount);
}

/*
 * Tasks come and go under core->dispatch, which submission and completion hold
 * anyway: so plain arithmetic does, at a fifth of the price of as many locked
 * instructions, and nobody ever sees a charge that is taken back.
 */
static inline u64 room_for(const struct core_counter *c, u64 max)
{
	u64 used = core_atomic_read(&c->used);

	return used < max ? max - used : 0;
}

static inline void add_tasks(struct core_counter *c, u32 n)
{
	u64 used = core_atomic_read(&c->used) + n;

	core_atomic_set(&c->used, used);
	if (used > core_atomic_read(&c->peak))
		core_atomic_set(&c->peak, used);
}

static inline void sub_tasks(struct core_counter *c, u64 n)
{
	u64 used = core_atomic_read(&c->used);

	core_warn_on(used < n);
	core_atomic_set(&c->used, used - n);
}

/*
 * Of @n tasks those that fit, and who refuses the rest.  The user's default holds only where no
 * cgroup above has a limit.
 */
static inline u32 tasks_that_fit(struct core_tenant *leaf, struct core_tenant *user, u32 n,
				 struct core_tenant **refuses)
{
	struct core_tenant *t;
	bool limited = false;
	u64 fit = n, room, max;

	*refuses = NULL;
	for (t = leaf; t; t = t->parent) {
		max = core_atomic_read(&t->res[ARAX_RES_TASKS].max);
		if (max == ARAX_LIMIT_MAX)
			continue;
		limited = true;
		room = room_for(&t->res[ARAX_RES_TASKS], max);
		if (core_likely(room >= fit))
			continue;
		fit = room;
		*refuses = t;
	}
	max = core_atomic_read(&user->res[ARAX_RES_TASKS].max);
	if (!limited && max != ARAX_LIMIT_MAX) {
		room = room_for(&user->res[ARAX_RES_TASKS], max);
		if (!core_likely(room >= fit)) {
			fit = room;
			*refuses = user;
		}
	}
	return (u32)fit;
}

u32 core_room_for_tasks(struct core_tenant *leaf, struct core_tenant *user, u32 n)
{
	struct core_tenant *refuses;

	return tasks_that_fit(leaf, user, n, &refuses);
}

u32 core_charge_tasks(struct core *core, struct core_tenant *leaf, struct core_tenant *user, u32 n)
{
	struct core_tenant *t, *refuses;
	u32 fit;

	core_spin_assert(&core->dispatch);
	fit = tasks_that_fit(leaf, user, n, &refuses);
	for (t = leaf; t; t = t->parent)
		add_tasks(&t->res[ARAX_RES_TASKS], fit);
	add_tasks(&user->res[ARAX_RES_TASKS], fit);
	if (refuses)
		core_atomic_add(&refuses->res[ARAX_RES_TASKS].events, n - fit);
	return fit;
}

void core_uncharge_tasks(struct core *core, struct core_tenant *leaf, struct core_tenant *user,
			 u64 n)
{
	struct core_tenant *t;

	core_spin_assert(&core->dispatch);
	for (t = leaf; t; t = t->parent)
		sub_tasks(&t->res[ARAX_RES_TASKS], n);
	sub_tasks(&user->res[ARAX_RES_TASKS], n);
	core_share_changed(core, leaf, user);
}

/* ------------------------------------------------------------------ */
/* What administrators set and see                                     */

/* Who has a limit of his own has a share of his own. */
static void share_anew(struct core *core)
{
	struct core_garbage g;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	core_share_anew(core);
	core_dispatch_flush(core, &g);
	core_unlock_collect(core, &g);
}

int core_limit_set(struct core *core, const struct arax_limit *a)
{
	struct core_tenant *t;
	int err;

	if (a->pad)
		return -EINVAL;
	if (a->what != ARAX_SET_WEIGHT && a->what != ARAX_SET_DEVICE_TIME &&
	    a->what >= ARAX_SET_MAX + ARAX_RES_MAX)
		return -EOPNOTSUPP;
	if (a->what == ARAX_SET_WEIGHT && (a->value < 1 || a->value > 10000))
		return -EINVAL;
	if (a->what == ARAX_SET_DEVICE_TIME) {
		if (a->value != ARAX_LIMIT_MAX && !a->period_ns)
			return -EINVAL;
	} else if (a->period_ns) {
		return -EINVAL;
	}
	core_mutex_lock(&core->lock);
	/* What is set on an ancestor would hold for others. */
	err = core->ops->tenant_by_fd(core, a->cgroup_fd, true, &t);
	if (err)
		goto unlock;
	if (a->what == ARAX_SET_WEIGHT) {
		core_write_once(t->weight, (u32)a->value);
	} else if (a->what == ARAX_SET_DEVICE_TIME) {
		core_write_once(t->period_ns, a->value == ARAX_LIMIT_MAX ? 0 : a->period_ns);
		core_write_once(t->max_ns, a->value);
	} else {
		/* Of tasks it is looked at twice, by who waits for room. */
		core_spin_lock(&core->dispatch);
		core_atomic_set(&t->res[core_nospec(a->what, ARAX_RES_MAX)].max, a->value);
		core_spin_unlock(&core->dispatch);
	}
	core_tenant_put(core, t);
unlock:
	core_mutex_unlock(&core->lock);
	if (!err && a->what == ARAX_SET_MAX + ARAX_RES_TASKS)
		share_anew(core);
	return err;
}

/* With core->dispatch held: commits book what they have posted before they drop it. */
static void usage(const struct core_tenant *t, struct arax_usage *u)
{
	u32 i;

	for (i = 0; i < ARAX_RES_MAX; i++) {
		u->counters[i].used = core_atomic_read(&t->res[i].used);
		u->counters[i].peak = core_atomic_read(&t->res[i].peak);
		u->counters[i].max = core_atomic_read(&t->res[i].max);
		u->counters[i].events = core_atomic_read(&t->res[i].events);
	}
	u->device_ns = t->device_ns;
	u->wait_ns = t->wait_ns;
	u->tasks_done = t->tasks_done;
	u->tasks_failed = t->tasks_failed;
	u->max_ns = core_read_once(t->max_ns);
	u->period_ns = core_read_once(t->period_ns);
	u->weight = core_read_once(t->weight);
}

void core_tenant_usage(struct core *core, struct core_tenant *t, struct arax_usage *u)
{
	core_spin_lock(&core->dispatch);
	usage(t, u);
	core_spin_unlock(&core->dispatch);
}

/* The first that there still is a reason to know. */
static struct core_tenant *first_from(struct core *core, u64 id)
{
	struct core_tenant *t;

	while ((t = core_tenant_from(core->tenants, id)) && !t->refs && gone(core, t))
		look_again(core, t);
	return t;
}

/* device_time.stat and pressure. */
static void fill_stat(struct core_tenant *t, struct arax_tenant *a)
{
	struct core_pressure *p = &t->pressure;
	u32 i;

	core_pressure_at(p, core_now_ns());
	a->nr_periods = p->nr_periods;
	a->nr_throttled = p->nr_throttled;
	a->throttled_ns = p->throttled_ns;
	a->waiting_ns = p->waiting_ns;
	for (i = 0; i < ARRAY_SIZE(p->avg); i++)
		a->waiting_avg[i] = (u32)(((u64)p->avg[i] * 10000 + (1u << (CORE_SHARE_BITS - 1))) >>
					  CORE_SHARE_BITS);
	a->pad2 = 0;
}

/* With core->dispatch held. */
static void fill(struct core *core, struct core_tenant *t, bool is_gone, struct arax_tenant *a)
{
	memset(&a->usage, 0, sizeof(a->usage));
	a->usage.size = sizeof(a->usage);
	a->usage.scope = ARAX_USAGE_TENANT;
	usage(t, &a->usage);
	a->id = t->id;
	a->parent = t->parent ? t->parent->id : 0;
	memcpy(a->path, t->path, sizeof(a->path));
	a->flags = is_gone ? ARAX_TENANT_GONE : 0;
	a->flags |= core->tenants_told ? ARAX_TENANT_STAT : 0;
	a->pad = 0;
	fill_stat(t, a);
}

/*
 * As the mediator's polling thread asks: without core->lock.  Only who has been removed, and was
 * there for nothing but its limits, has to go first, for which that is needed: returns false.
 */
static bool query_at_once(struct core *core, struct arax_tenant *a, int *err)
{
	struct core_tenant *t;
	bool is_gone, can;

	if (a->cgroup_fd >= 0 || !core->params.gone_at_once)
		return false;
	core_spin_lock(&core->dispatch);
	t = core_tenant_from(core->tenants, a->id);
	is_gone = t && gone(core, t);
	can = !is_gone || core_read_once(t->refs);
	if (t && can)
		fill(core, t, is_gone, a);
	core_spin_unlock(&core->dispatch);
	*err = t ? 0 : -ENOENT;
	return can;
}

int core_tenant_query(struct core *core, struct arax_tenant *a)
{
	struct core_tenant *t, *held = NULL;
	bool is_gone;
	int err = 0;

	if (query_at_once(core, a, &err))
		return err;
	err = 0;
	core_mutex_lock(&core->lock);
	if (a->cgroup_fd >= 0) {
		err = core->ops->tenant_by_fd(core, a->cgroup_fd, false, &held);
		t = held;
	} else {
		t = first_from(core, a->id);
		if (!t)
			err = -ENOENT;
	}
	if (!err) {
		is_gone = gone(core, t);
		core_spin_lock(&core->dispatch);
		fill(core, t, is_gone, a);
		core_spin_unlock(&core->dispatch);
	}
	if (held)
		core_tenant_put(core, held);
	core_mutex_unlock(&core->lock);
	return err;
}
