// SPDX-License-Identifier: MIT
/* Which limit stands in the way: asked for only once something was refused. */
#include <stdio.h>

#include "internal.h"

static const struct {
	const char *name, *used, *remedy;
} resources[ARAX_RES_MAX] = {
	[ARAX_RES_MEMORY] = { "memory.max", " bytes are used", "destroy buffers, or close contexts" },
	[ARAX_RES_TASKS] = { "tasks.max", " are in flight by now", "wait for some of them" },
	[ARAX_RES_CONTEXTS] = { "contexts.max", " are used", "close some" },
	[ARAX_RES_DEVICE_MEMORY] = { "device_memory.max", " bytes are used", "use smaller ranges" },
};

/* NULL: neither does, by what the client may see: one of a cgroup above. */
static const char *who_stands_in_the_way(struct arax *ax, uint32_t resource, uint64_t amount,
					 struct arax_counter *c)
{
	static const char *const names[] = {
		[ARAX_USAGE_TENANT] = "the program's cgroup", [ARAX_USAGE_USER] = "the user",
	};
	struct arax_usage u;
	uint32_t scope;

	for (scope = ARAX_USAGE_TENANT; scope <= ARAX_USAGE_USER; scope++) {
		u = (struct arax_usage){ .size = sizeof(u), .scope = scope };
		if (ax->link->ops->call(ax->link, ARAX_NR_USAGE_QUERY, &u))
			return NULL;
		*c = u.counters[resource];
		if (c->used > c->max || amount > c->max - c->used)
			return names[scope];
		/* The user's own holds where the cgroup has none. */
		if (c->max != ARAX_LIMIT_MAX)
			return NULL;
	}
	return NULL;
}

void quota_text(struct arax *ax, uint32_t resource, uint64_t amount, char *text, size_t len)
{
	struct arax_counter c;
	const char *whose = who_stands_in_the_way(ax, resource, amount, &c);

	/* A context takes memory as well. */
	if (!whose && resource == ARAX_RES_CONTEXTS) {
		resource = ARAX_RES_MEMORY;
		whose = who_stands_in_the_way(ax, resource, amount, &c);
	}
	if (whose)
		snprintf(text, len, "%s of %s is %llu, of which %llu%s: %s, or have root raise it (`arax tenant set`)",
			 resources[resource].name, whose, c.max, c.used, resources[resource].used,
			 resources[resource].remedy);
	else
		snprintf(text, len, "%s of the program's cgroup, of one above it or of the user%s: %s, or have root raise it (`arax tenant set`)",
			 resources[resource].name,
			 /* Which a buffer or a context takes, too. */
			 ax->link->type == ARAX_LINK_BROKER && resource == ARAX_RES_MEMORY ?
			 ", or the user's part of araxd's descriptors and mappings (its log says)" : "",
			 resources[resource].remedy);
}
