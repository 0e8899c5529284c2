// SPDX-License-Identifier: GPL-2.0
/*
 * A client's memfd as a buffer (ARAX_IMPORT_MEMFD).
 *
 * Its pages are pinned, so what the client writes through a mapping of its own and what the
 * mediator does are the same bytes.  The file itself only clients map: see pins.c.  An owner
 * that punches holes has other pages from then on, and the buffer those that it had.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <uapi/linux/fcntl.h>

#include "compat.h"
#include "module.h"

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

static unsigned long end_of(const struct folio *folio, unsigned long nr)
{
	return min(nr, folio->index + folio_nr_pages(folio));
}

/* Of the file's @got folios, in the places of the first pages, all pages; in place. */
static bool spread(struct page **pages, unsigned long nr, unsigned long got)
{
	struct folio **folios = (struct folio **)pages, *folio;
	unsigned long i, from, at = 0;

	/* Its owner may have punched, and written anew, while it was pinned. */
	for (i = 0; i < got; i++) {
		folio = folios[i];
		if (folio->index > at || end_of(folio, nr) <= at || (i && folio == folios[i - 1]))
			return false;
		at = end_of(folio, nr);
	}
	if (at != nr)
		return false;
	/* From behind: each folio has a page at least, and so its pages lie behind its place. */
	while (i--) {
		folio = folios[i];
		from = i ? end_of(folios[i - 1], nr) : 0;
		while (at > from) {
			at--;
			pages[at] = folio_page(folio, at - folio->index);
		}
	}
	return true;
}

/*
 * Fills its holes, in steps that a signal ends: memfd_pin_folios() has none, and a limit may
 * allow minutes of it.  Out of movable memory, as there.
 */
static int memfd_fill(struct file *file, unsigned long nr)
{
	struct inode *inode = file_inode(file);
	unsigned int flags;
	int err;

	/* Neither pages behind its end, nor any that would be read in. */
	if (inode_get_bytes(inode) == (loff_t)nr << PAGE_SHIFT && !READ_ONCE(SHMEM_I(inode)->swapped))
		return 0;
	flags = memalloc_pin_save();
	err = arax_pages_make(file, NULL, nr);
	memalloc_pin_restore(flags);
	return err;
}

static int memfd_pin(struct file *file, struct page **pages, unsigned long nr)
{
	pgoff_t offset;
	long got;
	int err;

	err = memfd_fill(file, nr);
	if (err)
		return err;
	got = memfd_pin_folios(file, 0, ((loff_t)nr << PAGE_SHIFT) - 1, (struct folio **)pages,
			       nr, &offset);
	/* As in pages.c: holes of it are filled. */
	if (got == -ENOSPC)
		return -ENOMEM;
	if (got <= 0)
		return got ?: -EINVAL;
	if (spread(pages, nr, got))
		return 0;
	unpin_folios((struct folio **)pages, got);
	return -EINVAL;
}

/* Neighbours of one folio are one pin, and it is not split while it has that. */
static void memfd_unpin(struct page **pages, unsigned long nr)
{
	struct folio *folio;
	unsigned long i, n;

	for (i = 0; i < nr; i += n) {
		folio = page_folio(pages[i]);
		for (n = 1; i + n < nr; n++)
			if (page_folio(pages[i + n]) != folio)
				break;
		/* Nobody can tell whether the mediator wrote. */
		folio_lock(folio);
		folio_mark_dirty(folio);
		folio_unlock(folio);
		unpin_folios(&folio, 1);
		cond_resched();
	}
}

#else

static int memfd_pin(struct file *file, struct page **pages, unsigned long nr)
{
	return arax_pages_make(file, pages, nr);
}

static void memfd_unpin(struct page **pages, unsigned long nr)
{
	unsigned long i;

	for (i = 0; i < nr; i++) {
		/* Nobody can tell whether the mediator wrote. */
		set_page_dirty_lock(pages[i]);
		put_page(pages[i]);
		cond_resched();
	}
}

#endif

static int pin(struct arax_buffer *ab, unsigned long nr)
{
	struct page **pages;
	int err;

	pages = core_alloc(array_size(nr, sizeof(*pages)));
	if (!pages)
		return -ENOMEM;
	err = memfd_pin(ab->origin, pages, nr);
	if (err) {
		kvfree(pages);
		return err;
	}
	ab->pins = pages;
	ab->nr_pins = nr;
	return 0;
}

static void unpin(struct arax_buffer *ab)
{
	memfd_unpin(ab->pins, ab->nr_pins);
	kvfree(ab->pins);
}

int arax_memfd_inspect(int fd, u64 *bytes)
{
	struct file *file = fget(fd);
	int err;

	if (!file)
		return -EBADF;
	err = memfd_check(file, bytes);
	fput(file);
	return err;
}

/*
 * As mmap() of the file itself has it.  There the kernel looks before it calls the file, in
 * some versions, and of ours it looks at our node.  F_SEAL_WRITE can't come while there is
 * something to be mapped, see client.c.
 */
int arax_memfd_check_map(struct file *file, struct vm_area_struct *vma)
{
	if (!(READ_ONCE(SHMEM_I(file_inode(file))->seals) & F_SEAL_FUTURE_WRITE))
		return 0;
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	compat_vm_flags_clear(vma, VM_MAYWRITE);
	return 0;
}

/* Shared, as udmabuf has it: against seals and sizes that change. */
static int import_locked(struct arax_buffer *ab, u64 bytes)
{
	u64 now = 0;
	int err;

	/* Whoever writes to it holds that for as long as the memory that he writes from is not there. */
	if (down_read_killable(&file_inode(ab->origin)->i_rwsem))
		return -EINTR;
	err = memfd_check(ab->origin, &now);
	/* The descriptor may have become another since it was charged. */
	if (!err && now != bytes)
		err = -EINVAL;
	if (!err)
		err = pin(ab, bytes >> PAGE_SHIFT);
	if (!err) {
		err = core_buffer_charge_more(ab->core, arax_pages_surplus(ab->origin, bytes));
		if (err)
			unpin(ab);
	}
	up_read(&file_inode(ab->origin)->i_rwsem);
	return err;
}

int arax_memfd_import(struct arax_buffer *ab, int fd, u64 bytes)
{
	int err;

	ab->origin = fget(fd);
	if (!ab->origin)
		return -EBADF;
	err = import_locked(ab, bytes);
	if (err)
		goto put;
	err = arax_pins_file(ab, "[arax-memfd]");
	if (err)
		goto unpin;
	return 0;
unpin:
	unpin(ab);
put:
	fput(ab->origin);
	return err;
}

void arax_memfd_release(struct arax_buffer *ab)
{
	unpin(ab);
	/* Its last one takes the pages along. */
	arax_file_put(ab->origin);
}
