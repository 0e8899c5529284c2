// SPDX-License-Identifier: GPL-2.0
/* Timelines as descriptors, and the eventfds that they signal. */
#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "module.h"

static int timeline_release(struct inode *inode, struct file *file)
{
	core_timeline_put(arax.core, file->private_data);
	return 0;
}

static const struct file_operations timeline_fops = {
	.owner		= THIS_MODULE,
	.release	= timeline_release,
	.llseek		= noop_llseek,
};

/* On success the file owns the reference; on error it stays the core's. */
int arax_timeline_export(struct core_client *c, struct core_timeline *tl)
{
	struct file *file;
	int fd;

	file = anon_inode_getfile("[arax-timeline]", &timeline_fops, tl, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	/* The file drops one of its own if no descriptor can be had. */
	core_spin_lock(&c->core->dispatch);
	tl->refs++;
	core_spin_unlock(&c->core->dispatch);
	fd = arax_frame_publish(file);
	if (fd >= 0)
		core_timeline_put(c->core, tl);
	return fd;
}

struct core_timeline *arax_timeline_import(struct core_client *c, int fd, int *err)
{
	struct core_timeline *tl;
	struct file *file = fget(fd);

	*err = -EBADF;
	if (!file)
		return NULL;
	if (file->f_op != &timeline_fops) {
		*err = -EINVAL;
		fput(file);
		return NULL;
	}
	tl = file->private_data;
	core_spin_lock(&c->core->dispatch);
	tl->refs++;
	core_spin_unlock(&c->core->dispatch);
	fput(file);
	*err = 0;
	return tl;
}

/* An eventfd that is armed; @mm: whose, mm_count held. */
struct arax_event {
	struct eventfd_ctx *ctx;
	struct mm_struct *mm;
	struct work_struct work;
};

static void event_free(struct arax_event *e)
{
	eventfd_ctx_put(e->ctx);
	mmdrop(e->mm);
	kfree(e);
}

static void event_signal(struct arax_event *e)
{
	compat_eventfd_signal(e->ctx);
	event_free(e);
}

static void event_work(struct work_struct *work)
{
	event_signal(container_of(work, struct arax_event, work));
}

void *arax_event_get(struct core_client *c, int fd, int *err)
{
	struct arax_event *e = kzalloc(sizeof(*e), GFP_KERNEL_ACCOUNT);

	*err = -ENOMEM;
	if (!e)
		return NULL;
	e->ctx = eventfd_ctx_fdget(fd);
	if (IS_ERR(e->ctx)) {
		*err = PTR_ERR(e->ctx);
		kfree(e);
		return NULL;
	}
	e->mm = current->mm;
	mmgrab(e->mm);
	INIT_WORK(&e->work, event_work);
	*err = 0;
	return e;
}

/*
 * An eventfd may have any number of waiters, and signalling it walks through all of them.
 * That is time of the process that armed it, or of nobody's: not of whoever commits tasks
 * of all tenants.
 */
void arax_event_end(void *event, bool fired)
{
	struct arax_event *e = event;

	if (!fired)
		event_free(e);
	else if (current->mm == e->mm)
		event_signal(e);
	else
		queue_work(arax.wakes, &e->work);
}
