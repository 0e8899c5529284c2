// SPDX-License-Identifier: GPL-2.0
/*
 * A client's own memory as a buffer (ARAX_IMPORT_USER).
 *
 * Its pages are pinned for as long as the buffer, or a mediator's mapping of it, lasts,
 * and charged to its tenant for just as long; its memory cgroup has them anyway.  A pin
 * in a huge page keeps all of it, whatever else its owner discards: so all of it is
 * charged, by each piece of the buffer that lies in it.  The
 * mediator can't map another process' anonymous pages as such, so it gets a file whose
 * mmap() maps them by frame numbers.  Such a mapping does for a CPU; what wants pages
 * behind an address (get_user_pages: RDMA, io_uring, O_DIRECT) finds none there.
 *
 * A pin keeps the page, not its place: memory that its owner unmaps, discards or makes
 * anew is no longer the buffer's.  fork() copies pinned pages for the child.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "module.h"

#define USER_CHUNK	256	/* pages between two looks at signals and the scheduler */

static void user_unpin(struct arax_buffer *ab)
{
	struct page **pages = ab->pins;
	unsigned long i;

	for (i = 0; i < ab->nr_pins; i += USER_CHUNK) {
		/* Nobody can tell whether a device wrote: all of them may be dirty. */
		unpin_user_pages_dirty_lock(pages + i,
					    min_t(unsigned long, ab->nr_pins - i, USER_CHUNK),
					    true);
		cond_resched();
	}
	kvfree(pages);
}

static int user_pin(struct arax_buffer *ab, unsigned long address, unsigned long nr)
{
	struct page **pages;
	int got;

	pages = kvmalloc_array(nr, sizeof(*pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pages)
		return -ENOMEM;
	ab->pins = pages;
	for (ab->nr_pins = 0; ab->nr_pins < nr; ab->nr_pins += got) {
		got = fatal_signal_pending(current) ? -EINTR :
		      pin_user_pages_fast(address + (ab->nr_pins << PAGE_SHIFT),
					  min_t(unsigned long, nr - ab->nr_pins, USER_CHUNK),
					  FOLL_WRITE | FOLL_LONGTERM, pages + ab->nr_pins);
		if (got <= 0) {
			user_unpin(ab);
			return got ?: -EFAULT;
		}
		cond_resched();
	}
	return 0;
}

/* What the huge pages have around our own ones.  Pages of one in a row are one piece. */
static u64 user_surroundings(const struct arax_buffer *ab)
{
	struct page **pages = ab->pins;
	struct folio *folio;
	unsigned long i, n;
	u64 bytes = 0;

	for (i = 0; i < ab->nr_pins; i += n) {
		cond_resched();
		folio = page_folio(pages[i]);
		for (n = 1; i + n < ab->nr_pins; n++)
			if (page_folio(pages[i + n]) != folio)
				break;
		/* A page that is mapped twice could make a piece longer than its folio. */
		if (folio_nr_pages(folio) > n)
			bytes += (u64)(folio_nr_pages(folio) - n) << PAGE_SHIFT;
	}
	return bytes;
}

/* As many pages as lie in one piece at a time. */
static int user_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct arax_buffer *ab = file->private_data;
	struct page **pages = ab->pins;
	unsigned long i, n, at = vma->vm_start, nr = vma_pages(vma);
	int err;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_pgoff > ab->nr_pins || nr > ab->nr_pins - vma->vm_pgoff)
		return -EINVAL;
	pages += vma->vm_pgoff;
	compat_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	for (i = 0; i < nr; i += n) {
		for (n = 1; i + n < nr; n++)
			if (page_to_pfn(pages[i + n]) != page_to_pfn(pages[i]) + n)
				break;
		err = remap_pfn_range(vma, at + (i << PAGE_SHIFT), page_to_pfn(pages[i]),
				      n << PAGE_SHIFT, vma->vm_page_prot);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

/* The last of the buffer and its mappings is gone. */
static int user_release(struct inode *inode, struct file *file)
{
	struct arax_buffer *ab = file->private_data;

	user_unpin(ab);
	arax_buffer_released(ab);
	return 0;
}

static const struct file_operations user_fops = {
	.owner		= THIS_MODULE,
	.mmap		= user_mmap,
	.release	= user_release,
	.llseek		= noop_llseek,
};

int arax_user_import(struct arax_buffer *ab, u64 address, u64 bytes)
{
	struct file *file;
	int err;

	/* A 32-bit kernel's, or a range past the end, is none that could be pinned. */
	if (address + bytes < address || (unsigned long)address != address ||
	    bytes >> PAGE_SHIFT > INT_MAX)
		return -EFAULT;
	err = user_pin(ab, (unsigned long)address, bytes >> PAGE_SHIFT);
	if (err)
		return err;
	err = core_buffer_charge_more(ab->core, user_surroundings(ab));
	if (err) {
		user_unpin(ab);
		return err;
	}
	file = anon_inode_getfile("[arax-user]", &user_fops, ab, O_RDWR);
	if (IS_ERR(file)) {
		user_unpin(ab);
		return PTR_ERR(file);
	}
	ab->file = file;
	return 0;
}
