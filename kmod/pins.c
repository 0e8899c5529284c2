// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are pinned, as a file for the mediator.
 *
 * What it gets is never the client's: neither can its address space be mapped elsewhere, nor
 * would a memfd do.  Its owner punches holes into that, for as long as he likes: who touches
 * it meanwhile sleeps, or finds other pages than those that are pinned, and who maps it waits
 * for its locks.  So the mapping is of frame numbers, made as they are touched: a mediator
 * maps on the thread that serves everybody.  It does for a CPU; what wants pages behind an
 * address (get_user_pages: RDMA, io_uring, O_DIRECT) finds none there.
 *
 * The pages stay pinned, and charged, as long as the buffer or such a mapping.
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/mm.h>

#include "compat.h"
#include "module.h"

#define PINS_AROUND	(64 * PAGE_SIZE)	/* what one fault maps: most touches have neighbours */

static vm_fault_t pins_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct arax_buffer *ab = vma->vm_file->private_data;
	unsigned long touched = vmf->address & PAGE_MASK, at, end, nr;
	vm_fault_t ret;

	if (vmf->pgoff >= ab->nr_pins)
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, touched, page_to_pfn(ab->pins[vmf->pgoff]));
	at = max(ALIGN_DOWN(touched, PINS_AROUND), vma->vm_start);
	end = min(ALIGN_DOWN(touched, PINS_AROUND) + PINS_AROUND, vma->vm_end);
	for (; ret == VM_FAULT_NOPAGE && at < end; at += PAGE_SIZE) {
		nr = vma->vm_pgoff + ((at - vma->vm_start) >> PAGE_SHIFT);
		/* That they are not there is no fault: nobody has touched them. */
		if (at != touched &&
		    vmf_insert_pfn(vma, at, page_to_pfn(ab->pins[nr])) != VM_FAULT_NOPAGE)
			break;
	}
	return ret;
}

static const struct vm_operations_struct pins_vm_ops = {
	.fault = pins_fault,
};

static int pins_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct arax_buffer *ab = file->private_data;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (vma->vm_pgoff > ab->nr_pins || vma_pages(vma) > ab->nr_pins - vma->vm_pgoff)
		return -EINVAL;
	compat_vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &pins_vm_ops;
	return 0;
}

/* The last of the buffer and its mappings is gone. */
static int pins_release(struct inode *inode, struct file *file)
{
	struct arax_buffer *ab = file->private_data;

	if (ab->backing == ARAX_BACKING_MEMFD)
		arax_memfd_release(ab);
	else
		arax_user_release(ab);
	arax_buffer_released(ab);
	return 0;
}

static const struct file_operations pins_fops = {
	.owner		= THIS_MODULE,
	.mmap		= pins_mmap,
	.release	= pins_release,
	.llseek		= noop_llseek,
};

int arax_pins_file(struct arax_buffer *ab, const char *name)
{
	struct file *file;
	int err = arax_file_room();

	if (err)
		return err;
	file = anon_inode_getfile(name, &pins_fops, ab, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ab->file = file;
	return 0;
}
