// SPDX-License-Identifier: GPL-2.0
/*
 * Frames: what a call's handler, deep below the core, leaves for the ioctl
 * that called it.  The core's structs are copied by value and name nothing of
 * the kernel's, so the handler finds its frame by the task that runs it.
 */
#include <linux/file.h>
#include <linux/sched.h>

#include "module.h"

void arax_frame_begin(struct arax_frame *f)
{
	f->task = current;
	f->file = NULL;
	f->fd = -1;
	f->buffer = NULL;
	spin_lock(&arax.frames_lock);
	list_add(&f->node, &arax.frames);
	spin_unlock(&arax.frames_lock);
}

struct arax_frame *arax_frame_current(void)
{
	struct arax_frame *f, *found = NULL;

	spin_lock(&arax.frames_lock);
	list_for_each_entry(f, &arax.frames, node) {
		if (f->task == current) {
			found = f;
			break;
		}
	}
	spin_unlock(&arax.frames_lock);
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

void arax_frame_end(struct arax_frame *f, int err)
{
	spin_lock(&arax.frames_lock);
	list_del(&f->node);
	spin_unlock(&arax.frames_lock);
	if (!f->file)
		return;
	if (err) {
		put_unused_fd(f->fd);
		fput(f->file);
	} else {
		fd_install(f->fd, f->file);
	}
}
