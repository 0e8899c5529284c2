// SPDX-License-Identifier: GPL-2.0
/* Arax: loading and unloading, and the two nodes. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "module.h"

static unsigned int cells = 1u << 16;
module_param(cells, uint, 0444);
MODULE_PARM_DESC(cells, "64-byte cells of the dispatch ring, a power of two (65536)");

static unsigned int slots = 1u << 14;
module_param(slots, uint, 0444);
MODULE_PARM_DESC(slots, "one more than tasks that the daemon may hold at once (16384)");

static unsigned int max_handles = 1u << 16;
module_param(max_handles, uint, 0444);
MODULE_PARM_DESC(max_handles, "buffers, queues and timelines of one context (65536)");

static unsigned long long user_memory;
module_param(user_memory, ullong, 0444);
MODULE_PARM_DESC(user_memory, "bytes that a user may pin where no limit is set (0: an eighth of RAM)");

static unsigned long long user_tasks = 4096;
module_param(user_tasks, ullong, 0444);
MODULE_PARM_DESC(user_tasks, "tasks of a user in flight where no limit is set (4096)");

static unsigned long long user_contexts = 64;
module_param(user_contexts, ullong, 0444);
MODULE_PARM_DESC(user_contexts, "contexts of a user where no limit is set (64)");

unsigned int arax_recovery_ms = 60000;
module_param_named(recovery_ms, arax_recovery_ms, uint, 0644);
MODULE_PARM_DESC(recovery_ms, "how long tasks wait for a new daemon when the old one has died, ms; 0: for ever (60000)");

struct arax arax;

const struct core_ops arax_core_ops = {
	.ring_alloc	 = arax_ring_alloc,
	.ring_free	 = arax_ring_free,
	.buffer_create	 = arax_buffer_create,
	.buffer_inspect	 = arax_buffer_inspect,
	.buffer_import	 = arax_buffer_import,
	.buffer_export	 = arax_buffer_export,
	.buffer_idle	 = arax_buffer_idle,
	.buffer_revoke	 = arax_buffer_revoke,
	.buffer_get	 = arax_buffer_get,
	.client_memory_free = arax_client_memory_free,
	.client_end	 = arax_client_end,
	.client_wake	 = arax_client_wake,
	.mediator_wake	 = arax_mediator_wake,
	.recovery_begin	 = arax_recovery_begin,
	.mediator_alloc	 = arax_mediator_alloc,
	.mediator_free	 = arax_mediator_free,
	.event_get	 = arax_event_get,
	.event_end	 = arax_event_end,
	.timeline_export = arax_timeline_export,
	.timeline_import = arax_timeline_import,
	.tenant_by_fd	 = arax_tenant_by_fd,
	.tenant_gone	 = arax_tenant_gone,
	.tenant_free	 = arax_tenant_free,
};

/* Without operations: opening it is ENODEV, until arax_init() gives it ours. */
static struct miscdevice client_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "arax",
	.mode	= 0666,
};

static struct miscdevice ctl_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "arax-ctl",
	.fops	= &arax_ctl_fops,
	.mode	= 0600,
};

/* Sizes are rounded to pages in the core, by a constant: all of it would be EINVAL. */
static_assert(PAGE_SIZE == 4096, "Arax needs a kernel with pages of 4 KiB");

static int check_params(void)
{
	if (!is_power_of_2(cells) || cells < CORE_MIN_CELLS || cells > CORE_MAX_CELLS) {
		pr_err("cells=%u: must be a power of two from %u to %u\n", cells,
		       CORE_MIN_CELLS, CORE_MAX_CELLS);
		return -EINVAL;
	}
	if (slots < 2 || slots > CORE_MAX_SLOTS) {
		pr_err("slots=%u: must be from 2 to %u\n", slots, CORE_MAX_SLOTS);
		return -EINVAL;
	}
	if (!max_handles || max_handles > (1u << CORE_HANDLE_BITS) - 2) {
		pr_err("max_handles=%u: must be from 1 to %u\n", max_handles,
		       (1u << CORE_HANDLE_BITS) - 2);
		return -EINVAL;
	}
	return 0;
}

static int __init arax_init(void)
{
	struct core_params params = {
		.link		= ARAX_LINK_KERNEL,
		.guarantees	= ARAX_GUAR_SURVIVES_DAEMON | ARAX_GUAR_CHARGED_MAPS |
				  ARAX_GUAR_PINNED | ARAX_GUAR_OWN_MEMORY,
		.cells		= cells,
		.slots		= slots,
		.max_handles	= max_handles,
		.gone_at_once	= true,
		.user_memory	= user_memory,
		.user_tasks	= user_tasks,
		.user_contexts	= user_contexts,
	};
	int err;

	err = check_params();
	if (err)
		return err;
	if (IS_ENABLED(CONFIG_CGROUPS))
		params.guarantees |= ARAX_GUAR_CGROUP_TENANT;
	if (ARAX_DMABUF)
		params.guarantees |= ARAX_GUAR_DMABUF;
	if (!params.user_memory)
		params.user_memory = ((u64)totalram_pages() << PAGE_SHIFT) / 8;

	arax_frames_init();
	arax_clients_init();
	arax_mediator_init();
	err = arax_pages_init();
	if (err)
		return err;
	err = -ENOMEM;
	arax.wakes = alloc_workqueue("arax-wakes", WQ_UNBOUND, 0);
	if (!arax.wakes)
		return err;
	arax.events = alloc_workqueue("arax-events", WQ_UNBOUND, 0);
	if (!arax.events)
		goto no_events;
	/* Some at a time: one that takes long holds up few. */
	arax.graves = alloc_workqueue("arax-graves", WQ_UNBOUND, 8);
	if (!arax.graves)
		goto no_graves;
	/* As many at a time as there may be: each of another user, and some don't end. */
	arax.ends = alloc_workqueue("arax-ends", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!arax.ends)
		goto no_ends;
	arax.core = core_create(&arax_core_ops, &params, &arax, &err);
	if (!arax.core)
		goto no_core;
	/*
	 * Where an init fails the module goes, whoever has a file of it.  So nothing fails once one
	 * can be opened: of a node without operations misc_open() uses nothing that is ours.
	 */
	err = misc_register(&client_device);
	if (err)
		goto destroy;
	err = misc_register(&ctl_device);
	if (err)
		goto deregister;
	/* Who finds them has had misc_open()'s lock after we had: all of the above is there. */
	WRITE_ONCE(client_device.fops, &arax_client_fops);
	return 0;
deregister:
	misc_deregister(&client_device);
destroy:
	core_destroy(arax.core);
no_core:
	destroy_workqueue(arax.ends);
no_ends:
	destroy_workqueue(arax.graves);
no_graves:
	destroy_workqueue(arax.events);
no_events:
	destroy_workqueue(arax.wakes);
	return err;
}

/* No file of ours is open: each holds the module. */
static void __exit arax_exit(void)
{
	misc_deregister(&ctl_device);
	misc_deregister(&client_device);
	arax_mediator_exit();
	destroy_workqueue(arax.graves);
	/* Each held the module, and has little more to do. */
	destroy_workqueue(arax.ends);
	core_destroy(arax.core);
	/* Eventfds may still have to be signalled. */
	destroy_workqueue(arax.events);
	destroy_workqueue(arax.wakes);
	arax_frames_exit();
}

module_init(arax_init);
module_exit(arax_exit);

MODULE_DESCRIPTION("Arax: one server for many programs and every kind of accelerator");
MODULE_VERSION(ARAX_VERSION);
MODULE_LICENSE("GPL");
