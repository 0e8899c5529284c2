// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: what a call's handler, deep below the core, leaves for the ioctl
 * that called it.  The core's structs are copied by value and name nothing of
 * the kernel's, so the handler finds its frame by the task that runs it.
 *
 * A process may have any number of threads in calls at a time, and each of them
 * looks for its own: so they are in a hash, with a lock to each of its lists.
 */
#include <linux/file.h>
#include <linux/hash.h>
#include <linux/sched.h>

#include "module.h"

#define FRAME_BITS	10

static struct frame_list {
	spinlock_t lock;		/* innermost: frames */
	struct hlist_head frames;	/* arax_frame.node */
} lists[1 << FRAME_BITS];

static struct frame_list *frames_of(const struct task_struct *task)
{
	return &lists[hash_ptr((void *)task, FRAME_BITS)];
}

void arax_frames_init(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		spin_lock_init(&lists[i].lock);
		INIT_HLIST_HEAD(&lists[i].frames);
	}
}

void arax_frames_exit(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		WARN_ON(!hlist_empty(&lists[i].frames));
}

void arax_frame_init(struct arax_frame *f)
{
	f->file = NULL;
	f->fd = -1;
	f->buffer = NULL;
}

void arax_frame_begin(struct arax_frame *f)
{
	struct frame_list *l = frames_of(current);

	f->task = current;
	spin_lock(&l->lock);
	hlist_add_head(&f->node, &l->frames);
	spin_unlock(&l->lock);
}

void arax_frame_end(struct arax_frame *f)
{
	struct frame_list *l = frames_of(f->task);

	spin_lock(&l->lock);
	hlist_del(&f->node);
	spin_unlock(&l->lock);
}

struct arax_frame *arax_frame_current(void)
{
	struct frame_list *l = frames_of(current);
	struct arax_frame *f, *found = NULL;

	spin_lock(&l->lock);
	hlist_for_each_entry(f, &l->frames, node) {
		if (f->task == current) {
			found = f;
			break;
		}
	}
	spin_unlock(&l->lock);
	WARN_ON_ONCE(!found);
	return found;
}

int arax_frame_publish(struct file *file)
{
	struct arax_frame *f = arax_frame_current();
	int fd;

	if (!f || WARN_ON_ONCE(f->file)) {
		fput(file);
		return -EIO;
	}
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		fput(file);
		return fd;
	}
	f->file = file;
	f->fd = fd;
	return fd;
}

void arax_frame_settle(struct arax_frame *f, int err)
{
	if (!f->file)
		return;
	if (err) {
		put_unused_fd(f->fd);
		fput(f->file);
	} else {
		fd_install(f->fd, f->file);
	}
}
