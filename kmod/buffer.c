// SPDX-License-Identifier: GPL-2.0
/*
 * Buffers: our own pages, a client's memfd or memory, or another driver's dma-buf.
 *
 * The core counts handles and tasks.  A buffer of our own pages ends with the
 * last reference to its file, whoever holds that (a mapping, a descriptor, a
 * dma-buf); only then its bytes are given back.  An import ends with the
 * core's last user: the memory was, and stays, accounted to whoever made it.  Only
 * a client's pinned pages end like our own, for a mediator's mapping keeps the pins.
 */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <uapi/linux/fcntl.h>

#include "compat.h"
#include "module.h"
#include "trace.h"

/* ------------------------------------------------------------------ */
/* Our own pages                                                       */

int arax_buffer_alloc(struct core_buffer *buf, const char *name, struct page **pages)
{
	struct arax_buffer *ab = kzalloc(sizeof(*ab), GFP_KERNEL_ACCOUNT);
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
/* memfds                                                              */

/*
 * May it be used, and how large is it?  SHRINK must be sealed, or its owner
 * could take pages away; a seal against writing would bind us.
 */
static int memfd_check(struct file *file, u64 *bytes)
{
	struct inode *inode = file_inode(file);
	unsigned int seals;

	if (!arax_pages_is_memfd(file))
		return -EINVAL;
	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EACCES;
	seals = READ_ONCE(SHMEM_I(inode)->seals);
	if (!(seals & F_SEAL_SHRINK) || seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EINVAL;
	*bytes = i_size_read(inode);
	return *bytes && IS_ALIGNED(*bytes, PAGE_SIZE) ? 0 : -EINVAL;
}

#ifdef COMPAT_HAVE_MEMFD_PIN

#define MEMFD_CHUNK	256	/* folios between two looks at the scheduler */

static int memfd_pin(struct arax_buffer *ab, u64 bytes)
{
	unsigned long nr = bytes >> PAGE_SHIFT;
	struct folio **folios;
	pgoff_t offset;
	long got;

	folios = kvmalloc_array(nr, sizeof(*folios), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!folios)
		return -ENOMEM;
	got = memfd_pin_folios(ab->file, 0, bytes - 1, folios, nr, &offset);
	if (got <= 0) {
		kvfree(folios);
		return got ?: -EINVAL;
	}
	ab->pins = folios;
	ab->nr_pins = got;
	return 0;
}

static void memfd_unpin(struct arax_buffer *ab)
{
	struct folio **folios = ab->pins;
	unsigned long i;

	for (i = 0; i < ab->nr_pins; i += MEMFD_CHUNK) {
		unpin_folios(folios + i, min_t(unsigned long, ab->nr_pins - i, MEMFD_CHUNK));
		cond_resched();
	}
	kvfree(folios);
}

#else

static int memfd_pin(struct arax_buffer *ab, u64 bytes)
{
	unsigned long nr = bytes >> PAGE_SHIFT;
	struct page **pages;
	int err;

	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return -ENOMEM;
	err = arax_pages_get(ab->file, pages, nr);
	if (err) {
		kvfree(pages);
		return err;
	}
	ab->pins = pages;
	ab->nr_pins = nr;
	return 0;
}

static void memfd_unpin(struct arax_buffer *ab)
{
	arax_pages_put(ab->pins, ab->nr_pins);
	kvfree(ab->pins);
}

#endif

static int memfd_inspect(int fd, u64 *bytes)
{
	struct file *file = fget(fd);
	int err;

	if (!file)
		return -EBADF;
	err = memfd_check(file, bytes);
	fput(file);
	return err;
}

static int memfd_import(struct arax_buffer *ab, int fd, u64 bytes)
{
	u64 now = 0;
	int err;

	ab->file = fget(fd);
	if (!ab->file)
		return -EBADF;
	/* Shared, as udmabuf has it: against seals and sizes that change. */
	inode_lock_shared(file_inode(ab->file));
	err = memfd_check(ab->file, &now);
	/* The descriptor may have become another since it was charged. */
	if (!err && now != bytes)
		err = -EINVAL;
	if (!err)
		err = memfd_pin(ab, bytes);
	if (!err) {
		err = core_buffer_charge_more(ab->core, arax_pages_surplus(ab->file, bytes));
		if (err)
			memfd_unpin(ab);
	}
	inode_unlock_shared(file_inode(ab->file));
	if (err)
		fput(ab->file);
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
		return memfd_inspect(arg->fd, &arg->bytes);
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

	ab = kzalloc(sizeof(*ab), GFP_KERNEL_ACCOUNT);
	if (!ab)
		return -ENOMEM;
	ab->core = buf;
	if (arg->type == ARAX_IMPORT_MEMFD) {
		ab->backing = ARAX_BACKING_MEMFD;
		err = memfd_import(ab, arg->fd, buf->bytes);
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

void arax_buffer_idle(struct core_buffer *buf)
{
	struct arax_buffer *ab = buf->link;

	if (ab->backing == ARAX_BACKING_PAGES || ab->backing == ARAX_BACKING_USER) {
		/* The last fput() frees both, see arax_buffer_released(). */
		fput(ab->file);
		return;
	}
	if (ab->backing == ARAX_BACKING_MEMFD) {
		memfd_unpin(ab);
		fput(ab->file);
	} else {
		arax_dmabuf_release(ab);
	}
	arax_buffer_released(ab);
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
