// SPDX-License-Identifier: GPL-2.0
/* Timelines as descriptors, and the eventfds that they signal. */
#include <linux/anon_inodes.h>
#include <linux/eventfd.h>
#include <linux/file.h>

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

void *arax_event_get(struct core_client *c, int fd, int *err)
{
	struct eventfd_ctx *ctx = eventfd_ctx_fdget(fd);

	if (IS_ERR(ctx)) {
		*err = PTR_ERR(ctx);
		return NULL;
	}
	return ctx;
}

void arax_event_signal(void *event)
{
	compat_eventfd_signal(event);
}

void arax_event_put(void *event)
{
	eventfd_ctx_put(event);
}
