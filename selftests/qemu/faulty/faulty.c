// SPDX-License-Identifier: GPL-2.0
/*
 * A module with every fault that the debug kernel must see: write the name of
 * one to /sys/module/faulty/parameters/fault.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/delay.h>
#include <linux/wait.h>

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spin);
static int __rcu *guarded;
static void *volatile sink;
static volatile int width = 40;

static int fault_set(const char *name, const struct kernel_param *kp)
{
	volatile char *p;

	if (sysfs_streq(name, "none"))
		return 0;
	if (sysfs_streq(name, "warn")) {
		WARN_ON(1);
	} else if (sysfs_streq(name, "leak")) {
		sink = kmalloc(100, GFP_KERNEL);
		sink = kmalloc(100, GFP_KERNEL);
		sink = NULL;
	} else if (sysfs_streq(name, "overflow")) {
		p = kmalloc(100, GFP_KERNEL);
		if (p)
			p[101] = 1;
		kfree((void *)p);
	} else if (sysfs_streq(name, "dangling")) {
		/* It is the kernel that comes upon it. */
		wait_queue_head_t *queue = kmalloc(sizeof(*queue), GFP_KERNEL);

		if (!queue)
			return -ENOMEM;
		init_waitqueue_head(queue);
		sink = queue;
		kfree(queue);
		wake_up((wait_queue_head_t *)sink);
	} else if (sysfs_streq(name, "shift")) {
		width = 1 << width;
	} else if (sysfs_streq(name, "sleep")) {
		spin_lock(&spin);
		might_sleep();
		spin_unlock(&spin);
	} else if (sysfs_streq(name, "rcu")) {
		sink = rcu_dereference(guarded);
	} else if (sysfs_streq(name, "deadlock")) {
		mutex_lock(&first);
		mutex_lock(&second);
		mutex_unlock(&second);
		mutex_unlock(&first);
		mutex_lock(&second);
		mutex_lock(&first);
		mutex_unlock(&first);
		mutex_unlock(&second);
	} else {
		return -EINVAL;
	}
	return 0;
}

static const struct kernel_param_ops fault_ops = { .set = fault_set };
module_param_cb(fault, &fault_ops, NULL, 0200);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Faults for the debug kernel to find");
