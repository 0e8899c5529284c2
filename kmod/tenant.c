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
				   struct core_tenant *parent)
{
	struct core_tenant *t = core_tenant_get(core, cgroup_id(cgrp), parent, "");

	if (!t || t->link)
		return t;
	cgroup_get(cgrp);
	t->link = cgrp;
	/* Too long a path is cut, or empty: it is for people. */
	cgroup_path(cgrp, t->path, sizeof(t->path));
	t->path[sizeof(t->path) - 1] = '\0';
	return t;
}

/*
 * The chain from the root down to @cgrp, whose caller's reference keeps all of
 * it.  What nests deeper than CORE_TENANT_DEPTH counts for its ancestor.
 */
static int chain_get(struct core *core, struct cgroup *cgrp, struct core_tenant **out)
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
		t = get_one(core, chain[n], parent);
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
	err = chain_get(core, cgrp, out);
	mutex_unlock(&core->lock);
	cgroup_put(cgrp);
	return err;
}

int arax_tenant_by_fd(struct core *core, int fd, struct core_tenant **out)
{
	struct cgroup *cgrp = cgroup_get_from_fd(fd);
	int err;

	if (IS_ERR(cgrp))
		return PTR_ERR(cgrp);
	err = chain_get(core, cgrp, out);
	cgroup_put(cgrp);
	return err;
}

#else /* !CONFIG_CGROUPS: one tenant for all */

static int root_get(struct core *core, struct core_tenant **out)
{
	*out = core_tenant_get(core, 1, NULL, "/");
	return *out ? 0 : -ENOMEM;
}

int arax_tenant_current(struct core *core, struct core_tenant **out)
{
	int err;

	mutex_lock(&core->lock);
	err = root_get(core, out);
	mutex_unlock(&core->lock);
	return err;
}

int arax_tenant_by_fd(struct core *core, int fd, struct core_tenant **out)
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
