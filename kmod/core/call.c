// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The table of calls: number, handler, struct, last mandatory field, role. */
#include "core.h"

static int call_info(struct core *core, struct core_client *c, union core_args *u)
{
	struct arax_info *a = &u->info;
	u32 size = a->size;

	if (a->pad)
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	a->size = size;
	a->abi_version = ARAX_ABI_VERSION;
	a->link = core->params.link;
	a->guarantees = core->params.guarantees;
	a->epoch = core_read_once(core->state) == CORE_LIVE ? core_read_once(core->epoch) : 0;
	a->nr_devices = core_read_once(core->nr_devices);
	a->nr_kernels = core_read_once(core->nr_kernels);
	a->max_depth = ARAX_MAX_DEPTH;
	a->max_handles = core->params.max_handles;
	a->page_size = 4096;
	a->sq_entry_sizes = 64 | 128 | 256;
	memcpy(a->version, ARAX_VERSION, sizeof(ARAX_VERSION));
	return 0;
}

/* Handlers that only pick their struct from the union. */
#define CLIENT_CALL(name, field) \
static int call_##name(struct core *core, struct core_client *c, union core_args *u) \
{ \
	return core_##name(c, &u->field); \
}

#define HANDLE_CALL(name) \
static int call_##name(struct core *core, struct core_client *c, union core_args *u) \
{ \
	return core_##name(c, u->handle.handle); \
}

#define CORE_CALL(name, field) \
static int call_##name(struct core *core, struct core_client *c, union core_args *u) \
{ \
	return core_##name(core, &u->field); \
}

CLIENT_CALL(context_init, context_init)
CLIENT_CALL(cancel, cancel)
CLIENT_CALL(task_why, task_why)
CLIENT_CALL(buffer_create, buffer_create)
CLIENT_CALL(buffer_import, buffer_import)
CLIENT_CALL(buffer_export, buffer_export)
HANDLE_CALL(buffer_destroy)
CLIENT_CALL(buffer_query, buffer_query)
HANDLE_CALL(buffer_revoke)
CLIENT_CALL(queue_create, queue_create)
HANDLE_CALL(queue_destroy)
CLIENT_CALL(timeline_create, timeline_create)
HANDLE_CALL(timeline_destroy)
CLIENT_CALL(timeline_query, timeline_point)
CLIENT_CALL(timeline_advance, timeline_point)
CLIENT_CALL(timeline_eventfd, timeline_eventfd)
CLIENT_CALL(timeline_export, timeline_share)
CLIENT_CALL(timeline_import, timeline_share)
CORE_CALL(kernel_lookup, kernel_lookup)
CORE_CALL(device_query, device)
CLIENT_CALL(usage_query, usage)
CORE_CALL(attach, attach)
CORE_CALL(commit, commit)
CORE_CALL(buffer_get, buffer_get)
CORE_CALL(mediator_charge, charge)
CORE_CALL(task_explain, task_why)
CORE_CALL(tenants_tell, tenants_tell)
CORE_CALL(device_publish, device)
CORE_CALL(kernel_publish, kernel_publish)
CORE_CALL(limit_set, limit)
CORE_CALL(tenant_query, tenant)
CORE_CALL(context_query, context)

static int call_context_kill(struct core *core, struct core_client *c, union core_args *u)
{
	return core_context_kill(core, u->kill.context);
}

#define END(type, last) \
	((u32)(__builtin_offsetof(struct type, last) + sizeof(((struct type *)0)->last)))

/* number, handler, struct, last mandatory field, flags */
#define CALL(NR, fn, type, last, fl) \
	[ARAX_NR_##NR] = { ARAX_NR_##NR, END(type, last), sizeof(struct type), fl, fn }

#define C	CORE_ROLE_CLIENT
#define I	(CORE_ROLE_CLIENT | CORE_CALL_INIT)
#define M	CORE_ROLE_MEDIATOR
#define A	CORE_ROLE_ADMIN
#define L	CORE_CALL_LINK

static const struct core_call calls[] = {
	CALL(INFO, call_info, arax_info, version, C | A),
	CALL(CONTEXT_INIT, call_context_init, arax_context_init, pad, C),
	CALL(SUBMIT, NULL, arax_submit, deadline_ns, I | L),
	CALL(WAIT, NULL, arax_wait, points, I | L),
	CALL(CANCEL, call_cancel, arax_cancel, user_data, I),
	CALL(TASK_WHY, call_task_why, arax_task_why, text, I),
	CALL(BUFFER_CREATE, call_buffer_create, arax_buffer_create, map_offset, I),
	CALL(BUFFER_IMPORT, call_buffer_import, arax_buffer_import, map_offset, I),
	CALL(BUFFER_EXPORT, call_buffer_export, arax_buffer_export, pad, I),
	CALL(BUFFER_DESTROY, call_buffer_destroy, arax_handle, handle, I),
	CALL(BUFFER_QUERY, call_buffer_query, arax_buffer_query, flags, I),
	CALL(BUFFER_REVOKE, call_buffer_revoke, arax_handle, handle, I),
	CALL(QUEUE_CREATE, call_queue_create, arax_queue_create, handle, I),
	CALL(QUEUE_DESTROY, call_queue_destroy, arax_handle, handle, I),
	CALL(TIMELINE_CREATE, call_timeline_create, arax_timeline_create, value, I),
	CALL(TIMELINE_DESTROY, call_timeline_destroy, arax_handle, handle, I),
	CALL(TIMELINE_QUERY, call_timeline_query, arax_timeline_point, pad, I),
	CALL(TIMELINE_ADVANCE, call_timeline_advance, arax_timeline_point, pad, I),
	CALL(TIMELINE_EVENTFD, call_timeline_eventfd, arax_timeline_eventfd, pad, I),
	CALL(TIMELINE_EXPORT, call_timeline_export, arax_timeline_share, pad, I),
	CALL(TIMELINE_IMPORT, call_timeline_import, arax_timeline_share, pad, I),
	CALL(KERNEL_LOOKUP, call_kernel_lookup, arax_kernel_lookup, text, C | A),
	CALL(DEVICE_QUERY, call_device_query, arax_device, name, C | A),
	CALL(USAGE_QUERY, call_usage_query, arax_usage, pad, C),
	CALL(ATTACH, call_attach, arax_attach, shared_bytes, A | L),
	CALL(FETCH, NULL, arax_fetch, pad, M | L),
	CALL(COMMIT, call_commit, arax_commit, stale, M),
	CALL(BUFFER_GET, call_buffer_get, arax_buffer_get, uid, M),
	CALL(CHARGE, call_mediator_charge, arax_charge, delta, M),
	CALL(DEVICE_PUBLISH, call_device_publish, arax_device, name, M),
	CALL(KERNEL_PUBLISH, call_kernel_publish, arax_kernel_publish, text, M),
	CALL(TASK_EXPLAIN, call_task_explain, arax_task_why, text, M),
	CALL(TENANTS_TELL, call_tenants_tell, arax_tenants_tell, news, M),
	CALL(LIMIT_SET, call_limit_set, arax_limit, period_ns, A),
	CALL(TENANT_QUERY, call_tenant_query, arax_tenant, pad, A),
	CALL(CONTEXT_QUERY, call_context_query, arax_context, comm, A),
	CALL(CONTEXT_KILL, call_context_kill, arax_kill, context, A),
};

#define NR_CALLS	ARRAY_SIZE(calls)

const struct core_call *core_call_find(u32 nr)
{
	if (nr >= NR_CALLS)
		return NULL;
	nr = (u32)core_nospec(nr, NR_CALLS);
	return calls[nr].size ? &calls[nr] : NULL;
}

int core_call_run(const struct core_call *call, struct core *core, struct core_client *c,
		  union core_args *a)
{
	if (c && core_read_once(c->dead))
		return -(int)core_read_once(c->dead);
	if (call->flags & CORE_CALL_INIT && c && !core_client_ready(c))
		return -ENXIO;
	return call->run ? call->run(core, c, a) : -ENOTTY;
}
