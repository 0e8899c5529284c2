// SPDX-License-Identifier: MIT
/* What both links share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/bounds.h"
#include "daemon/link/link.h"
#include "daemon/log.h"

int link_init(struct link *l, struct poller *p, uint32_t slots,
	      void (*drop)(void *arg, struct graph_node *node), void *drop_arg,
	      void (*ended)(void *arg, const struct graph_node *node,
			    const struct graph_done *done))
{
	struct graph_params gp = {
		.slots = slots, .drop = drop, .drop_arg = drop_arg, .ended = ended, .ended_arg = l,
		.place = l->place, .last_kernel = CORE_MAX_KERNELS, .kernels = l->numbers,
		.work = link_work, .work_arg = l,
	};

	l->poller = p;
	l->slots = slots;
	l->commit_entries = CORE_COMMIT_ENTRIES;
	l->graph = graph_create(&gp);
	return l->graph ? 0 : -ENOMEM;
}

void link_fini(struct link *l)
{
	graph_destroy(l->graph);
	l->graph = NULL;
}

uint64_t link_work(void *link, const struct graph_node *node)
{
	const struct link *l = link;
	uint64_t size = bounds_size(node, l->kernels[node->d.kernel]);

	return size ? size : 1;
}

/*
 * The module still has those of the daemon before us, under their ids.  Programs shall not
 * find what nobody here can run, nor launch it.
 */
static int withdraw_others(struct link *l)
{
	struct arax_kernel_lookup k = { 0 };
	int err;

	for (;; k.id++) {
		struct arax_kernel_publish a = { .size = sizeof(a) };

		k.size = sizeof(k);
		k.name[0] = '\0';
		err = l->ops->kernel_next(l, &k);
		if (err)
			return err == -ENOENT ? 0 : err;
		if (k.id > CORE_MAX_KERNELS || l->kernels[k.id])
			continue;
		a.sig = k.sig;
		memcpy(a.name, k.name, sizeof(a.name));
		memcpy(a.text, k.text, sizeof(a.text));
		err = l->ops->kernel(l, &a);
		if (err)
			return err;
	}
}

int link_publish(struct link *l, const struct registry *registry)
{
	uint32_t i, n = registry_count(registry);
	int err;

	for (i = 0; i < n; i++) {
		const struct kernel *k = registry_at(registry, i);
		struct arax_kernel_publish a = {
			.size = sizeof(a), .kinds = k->kinds, .sig = k->sig.abi,
		};

		memcpy(a.name, k->sig.name, sizeof(a.name));
		memcpy(a.text, k->sig.text, sizeof(a.text));
		err = l->ops->kernel(l, &a);
		if (!err && (!a.id || a.id > CORE_MAX_KERNELS))
			err = -ENOSPC;
		if (err) {
			log_err("kernel can't be published", log_str("kernel", k->sig.name),
				log_str("link", l->name), log_errno(err));
			return err;
		}
		l->kernels[a.id] = k;
		l->numbers[a.id] = (uint16_t)(link_kernel_number(k) |
					      (k->size.nr ? GRAPH_KERNEL_WORK : 0));
	}
	err = l->ops->kernel_next ? withdraw_others(l) : 0;
	if (err)
		log_err("a former daemon's kernels can't be withdrawn", log_str("link", l->name),
			log_errno(err));
	return err;
}
