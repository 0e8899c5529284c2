// SPDX-License-Identifier: MIT
/*
 * The contract's layouts, which are the same for 64- and 32-bit programs: this
 * file is compiled for both, and as C and C++, by check-core-layout.
 */
#include <stddef.h>

#include "uapi/arax.h"

#ifdef __cplusplus
#define IS(what, n)	static_assert((what) == (n), #what)
#else
#define IS(what, n)	_Static_assert((what) == (n), #what)
#endif
#define SIZE(type, n)	IS(sizeof(struct type), n)
#define AT(type, f, n)	IS(offsetof(struct type, f), n)

SIZE(arax_range, 32);
SIZE(arax_task, 128);
AT(arax_task, user_data, 8);
AT(arax_task, queue, 16);
AT(arax_task, grid, 24);
AT(arax_task, block, 36);
AT(arax_task, ext, 44);
AT(arax_task, known, 44);
AT(arax_task, ranges, 48);
AT(arax_task, args, 112);
SIZE(arax_task256, 256);
SIZE(arax_task_short, 64);
AT(arax_task_short, user_data, 8);
AT(arax_task_short, queue, 16);
AT(arax_task_short, grid, 24);
AT(arax_task_short, known, 28);
AT(arax_task_short, buffer, 32);
AT(arax_task_short, length, 40);
AT(arax_task_short, args, 48);
SIZE(arax_task_ext, 48);
AT(arax_task_ext, deadline_ns, 8);
AT(arax_task_ext, wait_value, 24);
AT(arax_task_ext, known, 40);
SIZE(arax_completion, 64);
AT(arax_completion, device, 56);
AT(arax_completion, failure, 60);
SIZE(arax_ring_ctl, 256);
AT(arax_ring_ctl, cq_need_wakeup, 64);
AT(arax_ring_ctl, cq_wake_at, 68);
AT(arax_ring_ctl, cq_wake_for, 72);
AT(arax_ring_ctl, cq_cpu, 80);
AT(arax_ring_ctl, sq_head, 128);
AT(arax_ring_ctl, sq_need_wakeup, 192);
AT(arax_ring_ctl, epoch, 200);
SIZE(arax_info, 80);
SIZE(arax_context_init, 56);
SIZE(arax_submit, 32);
AT(arax_submit, seen, 20);
SIZE(arax_wait, 24 + 16 * ARAX_WAIT_MAX);
SIZE(arax_cancel, 24);
SIZE(arax_task_why, 16 + 256);
AT(arax_task_why, text, 16);
SIZE(arax_buffer_create, 32);
SIZE(arax_buffer_import, 48);
SIZE(arax_buffer_export, 24);
SIZE(arax_handle, 8);
SIZE(arax_buffer_query, 32);
SIZE(arax_queue_create, 24);
SIZE(arax_timeline_create, 16);
SIZE(arax_timeline_point, 24);
SIZE(arax_timeline_eventfd, 24);
SIZE(arax_timeline_share, 16);
SIZE(arax_signature, 24);
SIZE(arax_kernel_lookup, 16 + 64 + 24 + 256);
SIZE(arax_module_load, 16);
SIZE(arax_module_unload, 8);
SIZE(arax_module_kernel, 16 + 256 + 256 + 64 + 24);
SIZE(arax_device, 48 + 64 + 512 + 40);
AT(arax_device, reason, 48 + 64);
AT(arax_device, known, 48 + 64 + 512);
AT(arax_device, age_ns, 48 + 64 + 512 + 16);
AT(arax_device, memory_taken, 48 + 64 + 512 + 32);
SIZE(arax_counter, 32);
SIZE(arax_usage, 8 + 4 * 32 + 6 * 8 + 8);
SIZE(arax_attach, 56);
SIZE(arax_dispatch_range, 32);
SIZE(arax_dispatch, 128);
AT(arax_dispatch, access, 40);
AT(arax_dispatch, submit_ns, 48);
AT(arax_dispatch, grid, 64);
AT(arax_dispatch, user_data, 96);
AT(arax_dispatch, args, 104);
AT(arax_dispatch, known, 124);
SIZE(arax_mediator_page, 192);
SIZE(arax_commit_entry, 64);
AT(arax_commit_entry, failure, 52);
SIZE(arax_commit, 24);
SIZE(arax_fetch, 24);
SIZE(arax_buffer_get, 40);
SIZE(arax_charge, 24);
AT(arax_charge, delta, 16);
SIZE(arax_kernel_publish, 16 + 64 + 24 + 256);
SIZE(arax_limit, 32);
SIZE(arax_tenant, 24 + 192 + 256 + 8 + 4 * 8 + 16);
AT(arax_tenant, pad, 24 + 192 + 256 + 4);
AT(arax_tenant, nr_periods, 24 + 192 + 256 + 8);
AT(arax_tenant, waiting_ns, 24 + 192 + 256 + 8 + 24);
AT(arax_tenant, waiting_avg, 24 + 192 + 256 + 8 + 32);
SIZE(arax_tenant_news, 40);
SIZE(arax_tenants_tell, 16 + 40 * ARAX_TELL_MAX);
AT(arax_tenants_tell, count, 8);
AT(arax_tenants_tell, news, 16);
SIZE(arax_context, 40 + 8 + 192 + 16);
SIZE(arax_kill, 8);
SIZE(arax_msg, 16);
