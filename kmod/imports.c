// SPDX-License-Identifier: GPL-2.0
/*
 * Other drivers' dma-bufs as buffers.
 *
 * One is used through its mmap(), so one that has none is refused.
 *
 * The mediator and its workers get a file of ours that maps it, never the dma-buf: who closes
 * that last may wait for ever.  Its exporter may take its time, and who has it in an epoll set
 * keeps its last close waiting (eventpoll_release_file()) while epoll_wait() writes to memory
 * that he doesn't serve.  Their mappings hold our file as well, and when that is closed we let
 * go of the dma-buf: in the time of the process that brought it, or else on a worker, one of a
 * user's at a time.  Whose stands still has his others wait behind it, and still counted.
 */
#include <linux/anon_inodes.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "compat.h"
#include "module.h"

#if ARAX_DMABUF

COMPAT_IMPORT_NS(DMA_BUF);

/* Of each user the one that is being let go of; its ->behind has the rest.  Both by the lock. */
static DEFINE_HASHTABLE(ending, 8);
static DEFINE_SPINLOCK(ending_lock);

/* ------------------------------------------------------------------ */
/* The end                                                             */

static struct arax_buffer *first_of(const struct core_tenant *user)
{
	struct arax_buffer *ab;

	hash_for_each_possible(ending, ab, ending, (unsigned long)user)
		if (ab->core->user == user)
			return ab;
	return NULL;
}

/*
 * Uids are cheap, and arax.ends has places for some hundreds that stand still.  So what can't
 * doesn't go there: one that no set watches and nobody else has, who could put it into one.
 */
static bool may_stand_still(struct file *dmabuf)
{
#ifdef CONFIG_EPOLL
	return file_count(dmabuf) > 1 || READ_ONCE(dmabuf->f_ep);
#else
	return false;
#endif
}

static void begin_end(struct arax_buffer *ab)
{
	hash_add(ending, &ab->ending, (unsigned long)ab->core->user);
	queue_work(may_stand_still(ab->origin) ? arax.ends : arax.graves, &ab->end);
}

static void end_work(struct work_struct *work)
{
	struct arax_buffer *ab = container_of(work, struct arax_buffer, end), *next;

	__fput_sync(ab->origin);
	spin_lock(&ending_lock);
	hash_del(&ab->ending);
	next = list_first_entry_or_null(&ab->behind, struct arax_buffer, behind);
	if (next) {
		/* Takes its place: what is left of the list is behind it. */
		list_del_init(&ab->behind);
		begin_end(next);
	}
	spin_unlock(&ending_lock);
	arax_buffer_released(ab);
	module_put(THIS_MODULE);
}

static void end_later(struct arax_buffer *ab)
{
	struct arax_buffer *first;

	/* The file that is being closed holds the module no longer; exit waits for the work's last steps. */
	__module_get(THIS_MODULE);
	INIT_WORK(&ab->end, end_work);
	INIT_LIST_HEAD(&ab->behind);
	spin_lock(&ending_lock);
	first = first_of(ab->core->user);
	if (first)
		list_add_tail(&ab->behind, &first->behind);
	else
		begin_end(ab);
	spin_unlock(&ending_lock);
}

/* ------------------------------------------------------------------ */
/* What the mediator gets                                              */

static int import_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct arax_buffer *ab = file->private_data;
	int err;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	compat_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	/* Looks at the range, and makes the dma-buf the mapping's file. */
	err = dma_buf_mmap(ab->origin->private_data, vma, vma->vm_pgoff);
	if (!err && vma->vm_file == ab->origin)
		vma_set_file(vma, file);
	return err;
}

static int import_release(struct inode *inode, struct file *file)
{
	struct arax_buffer *ab = file->private_data;

	if (arax_own_time(ab->tgid)) {
		fput(ab->origin);
		arax_buffer_released(ab);
	} else {
		end_later(ab);
	}
	return 0;
}

static const struct file_operations import_fops = {
	.owner		= THIS_MODULE,
	.mmap		= import_mmap,
	.release	= import_release,
	.llseek		= noop_llseek,
};

/* ------------------------------------------------------------------ */
/* The import                                                          */

/*
 * A client maps an import through our node, which is open for writing, and dma_buf_mmap()
 * asks nobody: so whom the dma-buf was only lent for reading must be found out here.
 */
static int usable(struct dma_buf *dmabuf)
{
	if ((dmabuf->file->f_mode & (FMODE_READ | FMODE_WRITE)) != (FMODE_READ | FMODE_WRITE))
		return -EACCES;
	if (!dmabuf->ops->mmap)
		return -EOPNOTSUPP;
	return dmabuf->size && IS_ALIGNED(dmabuf->size, PAGE_SIZE) ? 0 : -EINVAL;
}

int arax_dmabuf_inspect(int fd, struct arax_buffer **own, struct file **own_file, u64 *bytes)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	int err = 0;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	if (arax_dmabuf_is_own(dmabuf)) {
		/* It comes home: neither charged nor held twice. */
		*own = arax_dmabuf_home(dmabuf, own_file);
	} else {
		err = usable(dmabuf);
		*bytes = dmabuf->size;
	}
	dma_buf_put(dmabuf);
	return err;
}

int arax_dmabuf_import(struct arax_buffer *ab, int fd, u64 bytes)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct file *file;
	int err;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	err = usable(dmabuf);
	/* The descriptor may have become another since it was charged. */
	if (!err && (dmabuf->size != bytes || arax_dmabuf_is_own(dmabuf)))
		err = -EINVAL;
	if (!err)
		err = arax_file_room();
	if (err)
		goto put;
	file = anon_inode_getfile("[arax-dmabuf]", &import_fops, ab, O_RDWR);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		goto put;
	}
	/* Where its exporter looks for mappings of it. */
	file->f_mapping = dmabuf->file->f_mapping;
	ab->file = file;
	/* That is what the reference is of. */
	ab->origin = dmabuf->file;
	return 0;
put:
	dma_buf_put(dmabuf);
	return err;
}

int arax_dmabuf_mmap(struct file *file, struct vm_area_struct *vma)
{
	return dma_buf_mmap(file->private_data, vma, 0);
}

#else /* !ARAX_DMABUF */

int arax_dmabuf_inspect(int fd, struct arax_buffer **own, struct file **own_file, u64 *bytes)
{
	return -EOPNOTSUPP;
}

int arax_dmabuf_import(struct arax_buffer *ab, int fd, u64 bytes)
{
	return -EOPNOTSUPP;
}

int arax_dmabuf_mmap(struct file *file, struct vm_area_struct *vma)
{
	return -EOPNOTSUPP;
}

#endif
