/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Differences between the kernels that the module builds for (6.1 and later).
 * The rest of the module is written for today's kernel.
 */
#ifndef ARAX_KMOD_COMPAT_H
#define ARAX_KMOD_COMPAT_H

#include <linux/backing-dev.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/shmem_fs.h>
#include <linux/version.h>

/* 6.13 made the name of a namespace a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
#define COMPAT_IMPORT_NS(ns)	MODULE_IMPORT_NS(#ns)
#else
#define COMPAT_IMPORT_NS(ns)	MODULE_IMPORT_NS(ns)
#endif

/* 6.3 made vm_flags read-only and added these. */
static inline void compat_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void compat_vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

/* 6.8 took the count away. */
static inline void compat_eventfd_signal(struct eventfd_ctx *ctx)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(ctx);
#else
	eventfd_signal(ctx, 1);
#endif
}

/* 6.17 renamed it, for files that only have mmap_prepare. */
static inline int compat_mmap_file(struct file *file, struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
	return vfs_mmap(file, vma);
#else
	return call_mmap(file, vma);
#endif
}

/*
 * 6.18 has shmem decide on a mapping before there is one; 7.0 made the flags an array.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define COMPAT_HAVE_MMAP_PREPARE
static inline void compat_desc_dont_expand(struct vm_area_desc *desc)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	vma_desc_set_flags(desc, VMA_DONTEXPAND_BIT);
#else
	desc->vm_flags |= VM_DONTEXPAND;
#endif
}
#endif

/* 7.0 gave the flags a type of their own. */
static inline struct file *compat_shmem_file_setup(const char *name, loff_t size)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return shmem_file_setup(name, size, mk_vma_flags(VMA_NORESERVE_BIT));
#else
	return shmem_file_setup(name, size, VM_NORESERVE);
#endif
}

/* 6.11 has memfd_pin_folios(), which also leaves movable memory. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define COMPAT_HAVE_MEMFD_PIN
#endif

/*
 * 6.5 pins no page for long, and for writing, that a file system writes back: it counts on
 * being asked before each write.
 */
static inline bool compat_pin_is_sound(struct page *page)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
	return true;
#else
	struct folio *folio = page_folio(page);
	struct address_space *mapping;
	bool sound;

	/* A truncation may take the page off its file meanwhile, and the file may end. */
	rcu_read_lock();
	mapping = READ_ONCE(folio->mapping);
	sound = !mapping || (unsigned long)mapping & PAGE_MAPPING_FLAGS ||
		!mapping_can_writeback(mapping);
	rcu_read_unlock();
	return sound;
#endif
}

#endif /* ARAX_KMOD_COMPAT_H */
