// SPDX-License-Identifier: MIT
#include "cli.h"
#include "names.h"

static const struct column columns[] = {
	{ "link", "link", COLUMN_TEXT },
	{ "library", "library", COLUMN_TEXT },
	{ "server", "server", COLUMN_TEXT },
	{ "abi", "contract", COLUMN_NUMBER },
	{ "daemon", "daemon attached", COLUMN_TEXT },
	{ "epoch", "epoch", COLUMN_NUMBER },
	{ "devices", "devices", COLUMN_NUMBER },
	{ "kernels", "kernels", COLUMN_NUMBER },
	{ "limits.depth", "tasks in flight of a context", COLUMN_NUMBER },
	{ "limits.handles", "handles of a context", COLUMN_NUMBER },
	{ "guarantees.survives_daemon", "work outlives the daemon", COLUMN_TEXT },
	{ "guarantees.pinned", "buffers keep their pages", COLUMN_TEXT },
	{ "guarantees.charged_maps", "mappings stay charged", COLUMN_TEXT },
	{ "guarantees.cgroup_tenant", "tenants are cgroups", COLUMN_TEXT },
	{ "guarantees.dmabuf", "dma-buf", COLUMN_TEXT },
	{ "guarantees.own_memory", "own memory as buffers", COLUMN_TEXT },
	{ "tenant.memory.current", "tenant's memory", COLUMN_BYTES },
	{ "tenant.memory.max", "  limit", COLUMN_BYTES },
	{ "tenant.tasks.current", "tenant's tasks", COLUMN_COUNT },
	{ "tenant.tasks.max", "  limit", COLUMN_COUNT },
	{ "tenant.contexts.current", "tenant's contexts", COLUMN_COUNT },
	{ "tenant.contexts.max", "  limit", COLUMN_COUNT },
	{ "user.memory.current", "user's memory", COLUMN_BYTES },
	{ "user.memory.max", "  limit", COLUMN_BYTES },
	{ "user.tasks.max", "user's tasks, limit", COLUMN_COUNT },
	{ "user.contexts.max", "user's contexts, limit", COLUMN_COUNT },
	{ 0 },
};

static void add_usage(struct arax *ax, json_t *j, const char *key, uint32_t scope)
{
	struct arax_usage u;

	if (!arax_get_usage(ax, scope, &u))
		json_object_set_new(j, key, out_usage(&u));
}

/* Those that tasks run on; stacks without any are listed beside them. */
static int count_devices(struct arax *ax)
{
	struct arax_device d;
	int n = 0;

	for (uint32_t i = 0; !arax_get_device(ax, i, &d); i++)
		n += d.flags & ARAX_DEVICE_ONLINE;
	return n;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct arax_options o = { .size = sizeof(o), .flags = ARAX_OPEN_QUERY };
	struct arax_info i;
	struct arax *ax;
	json_t *j;
	bool json;
	int ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc > 1)
		return cli_usage(self, "unexpected \"%s\"", argv[1]);
	if (arax_open(&ax, &o))
		return cli_fail(NULL);
	if (arax_get_info(ax, &i)) {
		arax_close(ax);
		return cli_fail(NULL);
	}
	j = json_pack("{ss ss so so sb so si so s:{so so s[ii]} s:{sb sb sb sb sb sb}}",
		      "link", link_name(i.link),
		      "library", arax_version(),
		      "server", out_string(i.version, sizeof(i.version)),
		      "abi", out_u64(i.abi_version),
		      "daemon", i.epoch != 0,
		      "epoch", out_u64(i.epoch),
		      "devices", count_devices(ax),
		      "kernels", out_u64(i.nr_kernels),
		      "limits",
		      "depth", out_u64(i.max_depth),
		      "handles", out_u64(i.max_handles),
		      "entry_sizes", 128, i.sq_entry_sizes & 256 ? 256 : 128,
		      "guarantees",
		      "survives_daemon", !!(i.guarantees & ARAX_GUAR_SURVIVES_DAEMON),
		      "charged_maps", !!(i.guarantees & ARAX_GUAR_CHARGED_MAPS),
		      "cgroup_tenant", !!(i.guarantees & ARAX_GUAR_CGROUP_TENANT),
		      "pinned", !!(i.guarantees & ARAX_GUAR_PINNED),
		      "dmabuf", !!(i.guarantees & ARAX_GUAR_DMABUF),
		      "own_memory", !!(i.guarantees & ARAX_GUAR_OWN_MEMORY));
	add_usage(ax, j, "tenant", ARAX_USAGE_TENANT);
	add_usage(ax, j, "user", ARAX_USAGE_USER);
	arax_close(ax);
	return out_object(j, columns, json);
}

const struct command cmd_info = {
	.name = "info",
	.args = "[--json]",
	.summary = "say how Arax is reached, what it guarantees and what it limits",
	.run = run,
};
