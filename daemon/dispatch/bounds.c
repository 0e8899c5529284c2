// SPDX-License-Identifier: MIT
#include "daemon/dispatch/bounds.h"

#include <errno.h>

#include "daemon/kernels/work.h"

bool bounds_differ(const struct poller *p)
{
	for (uint32_t i = 1; i < p->nr_devs; i++)
		if (!p->devs[i].dev->info.gpu != !p->devs[0].dev->info.gpu)
			return true;
	return false;
}

/* As much of it as steps are counted from. */
static struct arax_launch launch_of(const struct graph_node *node)
{
	struct arax_launch l = { .args = node->args, .arg_len = node->d.arg_len };

	for (int i = 0; i < 3; i++) {
		l.grid[i] = node->d.grid[i];
		l.block[i] = node->d.block[i];
	}
	return l;
}

uint64_t bounds_size(const struct graph_node *node, const struct kernel *k)
{
	struct arax_launch l = launch_of(node);

	return steps_of(&k->size, &l);
}

bool bounds_allow(const struct graph_node *node, const struct kernel *k, bool gpu)
{
	struct arax_launch l = launch_of(node);

	return work_allows(k, &l, gpu);
}

int bounds_tell(const struct poller *p, const struct graph_node *node, const struct kernel *k)
{
	struct arax_launch l = launch_of(node);
	int err = 0;

	for (uint32_t i = 0; i < p->nr_devs; i++) {
		if (!p->runnable[k->index * p->nr_devs + i])
			continue;
		if (p->devs[i].lost || !work_check(k, &l, p->devs[i].dev->info.gpu))
			return 0;
		err = -EINVAL;
	}
	return err;
}
