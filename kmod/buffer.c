// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers: our own pages, a client's memfd or memory, or another driver's dma-buf.
 *
 * The core counts handles and tasks.  A buffer ends with the last reference to its file,
 * whoever holds that (a mapping, a descriptor, a dma-buf); only then its bytes are given
 * back: a mediator's mapping keeps the pages, or the pins.  What an imported dma-buf has is
 * besides accounted to whoever made it.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "compat.h"
#include "module.h"
#include "trace.h"

/* ------------------------------------------------------------------ */
/* Our own pages                                                       */

int arax_buffer_alloc(struct core_buffer *buf, const char *name, struct page **pages)
{
	struct arax_buffer *ab = kzalloc(sizeof(*ab), CORE_GFP);
	struct file *file;
	int err;

	if (!ab)
		return -ENOMEM;
	file = arax_pages_create(name, buf->bytes, pages);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		goto free;
	}
	err = core_buffer_charge_more(buf, arax_pages_surplus(file, buf->bytes));
	if (err)
		goto discard;
	ab->core = buf;
	ab->tgid = task_tgid_nr(current);
	ab->backing = ARAX_BACKING_PAGES;
	ab->file = file;
	buf->link = ab;
	arax_pages_set_owner(file, ab);
	trace_arax_buffer_create(buf->context, buf->id, buf->bytes, buf->type);
	return 0;
discard:
	if (pages)
		arax_pages_put(pages, buf->bytes >> PAGE_SHIFT);
	arax_pages_discard(file);
free:
	kfree(ab);
	return err;
}

void arax_buffer_discard(struct core_buffer *buf)
{
	struct arax_buffer *ab = buf->link;

	trace_arax_buffer_free(buf->id, buf->bytes);
	buf->link = NULL;
	arax_pages_set_owner(ab->file, NULL);
	arax_pages_discard(ab->file);
	kfree(ab);
}

/* The file's last reference is gone: from fput(), no lock held. */
void arax_buffer_released(struct arax_buffer *ab)
{
	trace_arax_buffer_free(ab->core->id, ab->core->bytes);
	core_buffer_free(ab->core);
	kfree(ab);
}

int arax_buffer_create(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_create *arg)
{
	struct arax_frame *f = arax_frame_current();
	int err;

	if (arg->fd != -1)
		return -EINVAL;
	err = arax_buffer_alloc(buf, "arax-buffer", NULL);
	if (!err && f)
		f->buffer = buf->link;
	return err;
}

/* ------------------------------------------------------------------ */
/* The core's operations                                               */

/* A reference to the buffer for a new handle; @file keeps it till then. */
static int use(struct arax_buffer *ab, struct file *file, struct core_buffer **existing)
{
	struct arax_frame *f = arax_frame_current();

	if (!ab || !core_buffer_use(ab->core)) {
		fput(file);
		return -ESTALE;
	}
	*existing = ab->core;
	if (f)
		f->buffer = ab;
	fput(file);
	return 0;
}

int arax_buffer_inspect(struct core_client *c, struct arax_buffer_import *arg,
			struct core_buffer **existing)
{
	struct arax_buffer *ab = NULL;
	struct file *file;
	int err;

	switch (arg->type) {
	case ARAX_IMPORT_ARAX:
		file = fget(arg->fd);
		if (!file)
			return -EBADF;
		if (!arax_pages_is(file)) {
			fput(file);
			return -EINVAL;
		}
		return use(arax_pages_owner(file), file, existing);
	case ARAX_IMPORT_MEMFD:
		return arax_memfd_inspect(arg->fd, &arg->bytes);
	case ARAX_IMPORT_DMABUF:
		err = arax_dmabuf_inspect(arg->fd, &ab, &file, &arg->bytes);
		if (err || !ab)
			return err;
		return use(ab, file, existing);
	}
	return 0;	/* ARAX_IMPORT_USER: its size is the caller's to say */
}

int arax_buffer_import(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_import *arg)
{
	struct arax_frame *f = arax_frame_current();
	struct arax_buffer *ab;
	int err;

	ab = kzalloc(sizeof(*ab), CORE_GFP);
	if (!ab)
		return -ENOMEM;
	ab->core = buf;
	ab->tgid = task_tgid_nr(current);
	if (arg->type == ARAX_IMPORT_MEMFD) {
		ab->backing = ARAX_BACKING_MEMFD;
		err = arax_memfd_import(ab, arg->fd, buf->bytes);
	} else if (arg->type == ARAX_IMPORT_USER) {
		ab->backing = ARAX_BACKING_USER;
		err = arax_user_import(ab, arg->address, buf->bytes);
	} else {
		ab->backing = ARAX_BACKING_DMABUF;
		err = arax_dmabuf_import(ab, arg->fd, buf->bytes);
	}
	if (err) {
		kfree(ab);
		return err;
	}
	buf->link = ab;
	if (f)
		f->buffer = ab;
	trace_arax_buffer_create(buf->context, buf->id, buf->bytes, buf->type);
	return 0;
}

int arax_buffer_export(struct core_client *c, struct core_buffer *buf,
		       struct arax_buffer_export *arg)
{
	struct arax_buffer *ab = buf->link;
	struct file *file;
	int fd;

	/* An import's own descriptor already does what an export could. */
	if (ab->backing != ARAX_BACKING_PAGES)
		return -EOPNOTSUPP;
	if (arg->type == ARAX_EXPORT_DMABUF) {
		file = arax_dmabuf_export(ab);
		if (IS_ERR(file))
			return PTR_ERR(file);
	} else {
		file = get_file(ab->file);
	}
	fd = arax_frame_publish(file);
	if (fd < 0)
		return fd;
	arg->fd = fd;
	return 0;
}

static void bury_work(struct work_struct *work)
{
	arax_file_put(container_of(work, struct arax_buffer, bury)->file);
}

/*
 * The last reference takes all pages along, of which there may be GiBs: for a second.  That is
 * time of the process that made them, or of nobody's: not of whoever commits tasks of all, nor
 * of the one thread on which all kernel threads' fput() ends.  Whether it is the last one can't
 * be known: who has another may drop that just now.
 */
void arax_buffer_idle(struct core_buffer *buf)
{
	struct arax_buffer *ab = buf->link;

	if (arax_own_time(ab->tgid)) {
		fput(ab->file);
		return;
	}
	INIT_WORK(&ab->bury, bury_work);
	queue_work(arax.graves, &ab->bury);
}

/* Imports are not ours to take away: the core refuses their use, no more. */
void arax_buffer_revoke(struct core_buffer *buf)
{
	struct arax_buffer *ab = buf->link;

	if (ab->backing == ARAX_BACKING_PAGES)
		arax_pages_revoke(ab->file);
}

int arax_buffer_get(struct core_buffer *buf, struct arax_buffer_get *arg)
{
	struct arax_buffer *ab = buf->link;
	int fd;

	fd = arax_frame_publish(get_file(ab->file));
	if (fd < 0)
		return fd;
	arg->fd = fd;
	return 0;
}
