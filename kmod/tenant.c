// SPDX-License-Identifier: GPL-2.0
/*
 * From cgroups to tenants.  A tenant is keyed by its cgroup's id, which the kernel
 * doesn't use again.  It holds a reference besides, which keeps the structure of a
 * removed cgroup, not its directory nor its controllers: no notice of removal is
 * offered to modules, and looking an id up heeds the namespace of whoever happens to
 * drop the last reference.
 */
#include <linux/cgroup.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "module.h"

#ifdef CONFIG_CGROUPS

static struct core_tenant *get_one(struct core *core, struct cgroup *cgrp,
				   struct core_tenant *parent, struct clist *spares)
{
	struct core_tenant *t = core_tenant_get_spare(core, cgroup_id(cgrp), parent, "", spares);

	if (!t || t->link)
		return t;
	cgroup_get(cgrp);
	/* Whoever holds this can see it already. */
	spin_lock(&core->dispatch);
	WRITE_ONCE(t->link, cgrp);
	/* Too long a path is cut, or empty: it is for people. */
	cgroup_path(cgrp, t->path, sizeof(t->path));
	t->path[sizeof(t->path) - 1] = '\0';
	spin_unlock(&core->dispatch);
	return t;
}

/*
 * The chain from the root down to @cgrp, whose caller's reference keeps all of
 * it.  What nests deeper than CORE_TENANT_DEPTH counts for its ancestor.  -ENOMEM if
 * there are not spares enough.
 */
static int chain_get(struct core *core, struct cgroup *cgrp, struct clist *spares,
		     struct core_tenant **out)
{
	struct cgroup *chain[CORE_TENANT_DEPTH];
	struct core_tenant *parent = NULL, *t;
	int n = 0;

	lockdep_assert_held(&core->lock);
	while (cgrp->level >= CORE_TENANT_DEPTH)
		cgrp = cgroup_parent(cgrp);
	for (; cgrp && n < CORE_TENANT_DEPTH; cgrp = cgroup_parent(cgrp))
		chain[n++] = cgrp;
	while (n--) {
		t = get_one(core, chain[n], parent, spares);
		/* A new child has taken a reference of its own. */
		if (parent)
			core_tenant_put(core, parent);
		if (!t)
			return -ENOMEM;
		parent = t;
	}
	*out = parent;
	return 0;
}

/*
 * With core->lock held, but not while tenants are made: a caller over its memory.high
 * sleeps for seconds then, and everybody would wait for it.  Those of most chains are there.
 */
static int chain_make(struct core *core, struct cgroup *cgrp, struct core_tenant **out)
{
	struct clist spares;
	int err;

	clist_init(&spares);
	err = chain_get(core, cgrp, &spares, out);
	if (!err)
		return 0;
	mutex_unlock(&core->lock);
	/* Of the whole chain: what was there has nobody that would keep it. */
	err = core_spares_make(&spares, min(cgrp->level + 1, CORE_TENANT_DEPTH));
	mutex_lock(&core->lock);
	if (!err)
		err = chain_get(core, cgrp, &spares, out);
	core_spares_free(&spares);
	return err;
}

/* The flag goes first when a cgroup is removed, and never comes back. */
bool arax_tenant_gone(struct core *core, const struct core_tenant *t)
{
	const struct cgroup *cgrp = t->link;

	return !(READ_ONCE(cgrp->self.flags) & CSS_ONLINE);
}

void arax_tenant_free(struct core *core, struct core_tenant *t)
{
	cgroup_put(t->link);
}

int arax_tenant_current(struct core *core, struct core_tenant **out)
{
	struct cgroup *cgrp;
	int err;

	rcu_read_lock();
	/* A task that is being moved may show us a dying one: look again. */
	do {
		cgrp = task_dfl_cgroup(current);
	} while (!cgroup_tryget(cgrp));
	rcu_read_unlock();
	mutex_lock(&core->lock);
	err = chain_make(core, cgrp, out);
	mutex_unlock(&core->lock);
	cgroup_put(cgrp);
	return err;
}

int arax_tenant_by_fd(struct core *core, int fd, bool itself, struct core_tenant **out)
{
	struct cgroup *cgrp = cgroup_get_from_fd(fd);
	int err;

	if (IS_ERR(cgrp))
		return PTR_ERR(cgrp);
	if (itself && cgrp->level >= CORE_TENANT_DEPTH)
		err = -ELOOP;
	else
		err = chain_make(core, cgrp, out);
	cgroup_put(cgrp);
	return err;
}

#else /* !CONFIG_CGROUPS: one tenant for all */

int arax_tenant_current(struct core *core, struct core_tenant **out)
{
	struct clist spares;
	int err;

	clist_init(&spares);
	err = core_spares_make(&spares, 1);
	if (err)
		return err;
	mutex_lock(&core->lock);
	*out = core_tenant_get_spare(core, 1, NULL, "/", &spares);
	mutex_unlock(&core->lock);
	core_spares_free(&spares);
	return 0;
}

int arax_tenant_by_fd(struct core *core, int fd, bool itself, struct core_tenant **out)
{
	return -EOPNOTSUPP;
}

/* Of those that have a link: none. */
bool arax_tenant_gone(struct core *core, const struct core_tenant *t)
{
	return false;
}

void arax_tenant_free(struct core *core, struct core_tenant *t)
{
}

#endif /* CONFIG_CGROUPS */
