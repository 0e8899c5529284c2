// SPDX-License-Identifier: GPL-2.0
/*
 * Shmem files that belong to this module.
 *
 * Shmem is the one backing that long-term pins, O_DIRECT, io_uring and futexes
 * all accept.  Each of our files has other file operations than shmem's, for
 * five reasons: without .fallocate nobody punches holes below a pinned page
 * (madvise(MADV_REMOVE) goes the same way); without .write_iter nobody holds the
 * inode's lock, which a revoke takes, for as long as the memory that he writes from is
 * not there (a write faults it in under that lock, and who serves the fault may be he
 * himself); .mmap sees to it that the pages stay those that they are; .release tells us
 * of the last mapping; .owner keeps the module as long as there is a file.  The inode's
 * own operations refuse open, or /proc/PID/fd would give out a second file
 * that has all that we took away.  Seals keep the size.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <uapi/linux/fcntl.h>

#include "compat.h"
#include "module.h"

/*
 * Neither movable (long-term pins would fight with it) nor worth the
 * OOM killer: who asks for more than there is gets ENOMEM.
 */
#define PAGES_GFP	(GFP_HIGHUSER | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
#define FILE_ORDER	2	/* pages that what the kernel makes for a file fits in, with some to spare */
#define PAGES_CHUNK	256	/* pages between two looks at signals and the scheduler */

static const struct file_operations *shmem_fops;	/* the kernel's */
static struct file_operations pages_fops;

static int pages_release(struct inode *inode, struct file *file)
{
	struct arax_buffer *ab = file->private_data;
	int ret = 0;

	/*
	 * Not with the inode, which a descriptor of O_PATH may keep: others may take the
	 * bytes as soon as they are given back.  A file without a buffer was discarded.
	 */
	if (ab)
		arax_pages_revoke(file);
	/*
	 * The inode is evicted after the module may be gone.  And from here on it can be
	 * opened by that descriptor: release, so that whoever finds shmem's operations also
	 * finds no size, and by the seals there is none to come.  Pairs with the locks that
	 * an opener takes before it can get at a page, mmap_lock or the inode's.
	 */
	smp_store_release(&inode->i_fop, shmem_fops);
	if (shmem_fops->release)
		ret = shmem_fops->release(inode, file);
	if (ab)
		arax_buffer_released(ab);
	return ret;
}

static int pages_reopen(struct inode *inode, struct file *file)
{
	return -EACCES;
}

/* Who can get at the file has its buffer, if it was ever given out: it has an owner. */
static bool pages_cover(struct file *file, unsigned long pgoff, unsigned long nr)
{
	unsigned long have = arax_pages_owner(file)->core->bytes >> PAGE_SHIFT;

	return pgoff <= have && nr <= have - pgoff;
}

/*
 * VM_DONTEXPAND is for more than its name: khugepaged and madvise(MADV_COLLAPSE) keep off
 * such mappings (VM_NO_KHUGEPAGED).  They would move the pages into movable memory, and
 * fill what lies behind the file's end with pages that are charged to nobody, for seals
 * don't bind them.
 */
#ifdef COMPAT_HAVE_MMAP_PREPARE

static int pages_mmap_prepare(struct vm_area_desc *desc)
{
	if (!pages_cover(desc->file, desc->pgoff, (desc->end - desc->start) >> PAGE_SHIFT))
		return -EINVAL;
	compat_desc_dont_expand(desc);
	return shmem_fops->mmap_prepare(desc);
}

static void pages_wrap_mmap(void)
{
	pages_fops.mmap_prepare = pages_mmap_prepare;
}

#else

static int pages_mmap(struct file *file, struct vm_area_struct *vma)
{
	if (!pages_cover(file, vma->vm_pgoff, vma_pages(vma)))
		return -EINVAL;
	compat_vm_flags_set(vma, VM_DONTEXPAND);
	return shmem_fops->mmap(file, vma);
}

static void pages_wrap_mmap(void)
{
	pages_fops.mmap = pages_mmap;
}

#endif

/*
 * Shmem takes it ill (CONFIG_DEBUG_VM) if a file of a huge page's size or more is not of
 * its own operations.  What it asks the file for is the mount, and without a file it
 * takes the one that ours are of, too.
 */
static unsigned long pages_get_unmapped_area(struct file *file, unsigned long addr,
					     unsigned long len, unsigned long pgoff,
					     unsigned long flags)
{
	return shmem_fops->get_unmapped_area(NULL, addr, len, pgoff, flags);
}

static const struct file_operations reopen_fops = {
	.owner	= THIS_MODULE,
	.open	= pages_reopen,
};

/* Shmem's operations are not exported: a file of its tells them. */
int arax_pages_init(void)
{
	struct file *file = compat_shmem_file_setup("arax", PAGE_SIZE);

	if (IS_ERR(file))
		return PTR_ERR(file);
	shmem_fops = file->f_op;
	pages_fops = *shmem_fops;
	pages_fops.owner = THIS_MODULE;
	pages_fops.fallocate = NULL;
	pages_fops.write_iter = NULL;
	pages_fops.splice_write = NULL;
	pages_fops.release = pages_release;
	pages_wrap_mmap();
	if (shmem_fops->get_unmapped_area)
		pages_fops.get_unmapped_area = pages_get_unmapped_area;
	fput(file);
	return 0;
}

bool arax_pages_is(struct file *file)
{
	return file->f_op == &pages_fops;
}

bool arax_pages_is_memfd(struct file *file)
{
	return file->f_op == shmem_fops;
}

void arax_pages_set_owner(struct file *file, struct arax_buffer *ab)
{
	file->private_data = ab;
}

struct arax_buffer *arax_pages_owner(struct file *file)
{
	return file->private_data;
}

/* @fresh: they may have to be made, which can take long.  Who wants those that are there has them. */
static int pages_read(struct file *file, unsigned long nr, struct page **pages, bool fresh)
{
	struct address_space *mapping = file->f_mapping;
	gfp_t gfp = mapping_gfp_mask(mapping);
	unsigned long i;
	struct page *page;
	int err;

	for (i = 0; i < nr; i++) {
		if (i % PAGES_CHUNK == 0) {
			err = -EINTR;
			if (fresh && fatal_signal_pending(current))
				goto put;
			cond_resched();
		}
		page = shmem_read_mapping_page_gfp(mapping, i, gfp);
		if (IS_ERR(page)) {
			err = PTR_ERR(page);
			/* Shmem's word for what vm.overcommit_memory=2 leaves; ours is for tables. */
			if (err == -ENOSPC)
				err = -ENOMEM;
			goto put;
		}
		/* What nobody has written to is zeros for the kernel, and goes with drop_caches. */
		folio_mark_dirty(page_folio(page));
		if (pages)
			pages[i] = page;
		else
			put_page(page);
	}
	return 0;
put:
	if (pages)
		arax_pages_put(pages, i);
	return err;
}

void arax_pages_revoke(struct file *file)
{
	struct inode *inode = file_inode(file);

	/*
	 * The size goes first: a fault that runs meanwhile looks at it again
	 * under the page's lock, which the truncation takes too.
	 */
	inode_lock(inode);
	i_size_write(inode, 0);
	/* All at once: else each page looks through all mappings, of which there are any number. */
	unmap_mapping_range(inode->i_mapping, 0, 0, 1);
	shmem_truncate_range(inode, 0, (loff_t)-1);
	inode_unlock(inode);
}

/* Of a buffer that is not to be after all: fput() may come to it much later. */
void arax_pages_discard(struct file *file)
{
	arax_pages_revoke(file);
	fput(file);
}

/*
 * A file's inode, its name and itself are charged by the kernel's own flags, and at memory.max the
 * OOM killer would come for them.  So as much is charged before by ours, and given back: what is
 * goes to this CPU's stock of the cgroup's, of which the next charges are taken.
 */
int arax_file_room(void)
{
	struct page *pages = alloc_pages(CORE_GFP, FILE_ORDER);

	if (!pages)
		return -ENOMEM;
	__free_pages(pages, FILE_ORDER);
	return 0;
}

struct file *arax_pages_create(const char *name, u64 bytes, struct page **pages)
{
	struct file *file;
	struct inode *inode;
	int err;

	if (!bytes || !IS_ALIGNED(bytes, PAGE_SIZE) || bytes > MAX_LFS_FILESIZE)
		return ERR_PTR(-EINVAL);
	/* More than the machine has is no reason to try. */
	if (bytes >> PAGE_SHIFT > totalram_pages())
		return ERR_PTR(-ENOMEM);
	err = arax_file_room();
	if (err)
		return ERR_PTR(err);
	file = compat_shmem_file_setup(name, bytes);
	if (IS_ERR(file))
		return file;
	inode = file_inode(file);
	mapping_set_gfp_mask(inode->i_mapping, PAGES_GFP);
	mapping_set_unevictable(inode->i_mapping);
	SHMEM_I(inode)->seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
	inode->i_fop = &reopen_fops;
	/* fput() gives it back, after ->release. */
	__module_get(THIS_MODULE);
	file->f_op = &pages_fops;
	file->f_mode &= ~FMODE_CAN_WRITE;

	err = pages_read(file, bytes >> PAGE_SHIFT, pages, true);
	if (err) {
		arax_pages_discard(file);
		return ERR_PTR(err);
	}
	return file;
}

/*
 * No page can have gone but by arax_pages_revoke(): reading beyond the size
 * that it left is EINVAL.
 */
int arax_pages_get(struct file *file, struct page **pages, unsigned long nr)
{
	int err = pages_read(file, nr, pages, false);

	return err == -EINVAL ? -ESTALE : err;
}

int arax_pages_make(struct file *file, struct page **pages, unsigned long nr)
{
	int err = pages_read(file, nr, pages, true);

	return err == -EINVAL ? -ESTALE : err;
}

/*
 * What a file takes beyond its own @bytes: a huge page may reach behind its end.  Nothing
 * is added there while the pages within are pinned, or are ours.
 */
u64 arax_pages_surplus(struct file *file, u64 bytes)
{
	u64 held = inode_get_bytes(file_inode(file));

	return held > bytes ? held - bytes : 0;
}

/* Also between the pages, of which there may be millions. */
void arax_pages_put(struct page **pages, unsigned long nr)
{
	while (nr--) {
		put_page(pages[nr]);
		if (nr % PAGES_CHUNK == 0)
			cond_resched();
	}
}
