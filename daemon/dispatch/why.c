// SPDX-License-Identifier: MIT
#include "daemon/dispatch/why.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/params.h"
#include "daemon/reason.h"

/* A range that is none of whole items: most kernels can't take it.  Whether there is one. */
static bool odd_range(const struct graph_node *node, const struct kernel *k, char *text)
{
	struct params params;

	if (params_parse(&params, k->sig.text) || params.nr_ranges != node->d.nr_ranges)
		return false;
	for (uint32_t i = 0; i < node->d.nr_ranges; i++) {
		const struct param_type *type = params.ranges[i].type;
		const struct arax_dispatch_range *r = &node->ranges[i];

		if (r->offset % type->size)
			snprintf(text, REASON_LEN, "range %u of kernel %s begins at byte %llu of its buffer: its type (%s) needs a multiple of %u",
				 i, k->sig.name, (unsigned long long)r->offset, type->name,
				 type->size);
		else if (r->length % type->size)
			snprintf(text, REASON_LEN, "range %u of kernel %s has %llu bytes: its type (%s) needs a multiple of %u",
				 i, k->sig.name, (unsigned long long)r->length, type->name,
				 type->size);
		else
			continue;
		return true;
	}
	return false;
}

/*
 * A kernel gives its errno and no more.  What it was given is what there is to be looked at.
 */
static void by_kernel(const struct graph_node *node, const struct kernel *k, char *text)
{
	const struct arax_dispatch *d = &node->d;
	bool rows = false;
	size_t at;

	snprintf(text, REASON_LEN, "kernel %s itself refuses grid %u x %u x %u, block %u x %u x %u or its arguments with ranges of",
		 k->sig.name, d->grid[0], d->grid[1], d->grid[2], d->block[0], d->block[1],
		 d->block[2]);
	for (uint32_t i = 0; i < d->nr_ranges; i++) {
		at = strlen(text);
		snprintf(text + at, REASON_LEN - at, "%s %llu", i ? "," : "",
			 (unsigned long long)node->ranges[i].length * node->ranges[i].count);
		if (node->ranges[i].count == 1)
			continue;
		rows = true;
		at = strlen(text);
		snprintf(text + at, REASON_LEN - at, " in %llu rows",
			 (unsigned long long)node->ranges[i].count);
	}
	at = strlen(text);
	snprintf(text + at, REASON_LEN - at, " bytes: one may be too short%s",
		 rows ? ", or in rows where the kernel takes one piece" : "");
}

void why_tell(struct link *l, const struct graph_node *node, const struct kernel *k,
	      const char *device, int result, const char *reason)
{
	char text[REASON_LEN];

	if (!reason[0]) {
		if (node->d.opcode != ARAX_OP_LAUNCH || !k)
			return;
		if (result == -ENOMEM)
			snprintf(text, sizeof(text), "kernel %s found no memory to work in on %s: it needs more than half of what is left for all launches together; try smaller ranges, or again if others had it",
				 k->sig.name, device);
		else if (result != -EINVAL)
			snprintf(text, sizeof(text), "kernel %s failed on %s", k->sig.name, device);
		else if (!odd_range(node, k, text))
			by_kernel(node, k, text);
		reason = text;
	}
	l->ops->explain(l, node->d.tag, reason);
}
