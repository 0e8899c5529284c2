// SPDX-License-Identifier: MIT
#include <errno.h>
#include <pwd.h>
#include <stdio.h>

#include "cli.h"

static const struct column columns[] = {
	{ "context", "CONTEXT", COLUMN_NUMBER },
	{ "user", "USER", COLUMN_TEXT },
	{ "pid", "PID", COLUMN_NUMBER },
	{ "command", "COMMAND", COLUMN_TEXT },
	{ "state", "STATE", COLUMN_TEXT },
	{ "queues", "QUEUES", COLUMN_NUMBER },
	{ "buffers", "BUFFERS", COLUMN_NUMBER },
	{ "usage.memory.current", "MEMORY", COLUMN_BYTES },
	{ "usage.tasks.current", "TASKS", COLUMN_NUMBER },
	{ "usage.tasks_done", "DONE", COLUMN_NUMBER },
	{ "usage.tasks_failed", "FAILED", COLUMN_NUMBER },
	{ "usage.device_ns", "DEVICE", COLUMN_NS },
	{ "tenant", "TENANT", COLUMN_TEXT },
	{ 0 },
};

static json_t *user_name(uint32_t uid)
{
	struct passwd *p = getpwuid(uid);
	char number[16];

	if (p)
		return out_string(p->pw_name, 64);
	snprintf(number, sizeof(number), "%u", uid);
	return json_string(number);
}

static json_t *tenant_path(struct admin *a, uint64_t id)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1, .id = id };

	if (admin_call(a, ARAX_NR_TENANT_QUERY, &t) || t.id != id)
		return json_null();
	return out_string(t.path, sizeof(t.path));
}

static int run(const struct command *self, int argc, char **argv)
{
	struct arax_context c = { 0 };
	struct admin *a;
	json_t *rows;
	bool json;
	int ret = cli_options(self, &argc, argv, &json);

	if (ret >= 0)
		return ret;
	if (argc > 1)
		return cli_usage(self, "unexpected \"%s\"", argv[1]);
	a = admin_open();
	if (!a)
		return EXIT_FAILED;
	rows = json_array();
	for (;;) {
		c.size = sizeof(c);
		ret = admin_call(a, ARAX_NR_CONTEXT_QUERY, &c);
		if (ret)
			break;
		json_array_append_new(rows, json_pack(
			"{so so so si so ss so so so so so so so}",
			"context", out_u64(c.id), "uid", out_u64(c.uid), "user", user_name(c.uid), "pid",
			c.pid, "command", out_string(c.comm, sizeof(c.comm)), "state",
			c.flags & 1 ? "dead" : "live", "queues", out_u64(c.nr_queues), "buffers",
			out_u64(c.nr_buffers), "timelines", out_u64(c.nr_timelines), "depth",
			out_u64(c.depth),
			"tenant", tenant_path(a, c.tenant), "tenant_id", out_id(c.tenant),
			"usage", out_usage(&c.usage)));
		if (!++c.id)
			break;
	}
	admin_close(a);
	if (ret && ret != -ENOENT) {
		json_decref(rows);
		return admin_fail(ret, "listing contexts");
	}
	return out_rows(rows, columns, json);
}

const struct command cmd_ps = {
	.name = "ps",
	.args = "[--json]",
	.summary = "list contexts, their owners and what they use (administrators)",
	.run = run,
};
