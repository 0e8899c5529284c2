// SPDX-License-Identifier: GPL-2.0
/*
 * A client's own memory as a buffer (ARAX_IMPORT_USER).
 *
 * Its pages are pinned for as long as the buffer, or a mediator's mapping of it, lasts,
 * and charged to its tenant for just as long; its memory cgroup has them anyway.  A pin
 * in a huge page keeps all of it, whatever else its owner discards: so all of it is
 * charged, by each piece of the buffer that lies in it.  What the mediator maps is in
 * pins.c.
 *
 * A pin keeps the page, not its place: memory that its owner unmaps, discards or makes
 * anew is no longer the buffer's.  fork() copies pinned pages for the child.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "module.h"

#define USER_CHUNK	256	/* pages between two looks at signals and the scheduler */

void arax_user_release(struct arax_buffer *ab)
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

/*
 * Each pin of a small page counts as 1024 of its references: one that is mapped at very many addresses
 * could be pinned until their number is negative, of which the kernel warns.
 */
#define MAX_REFERENCES	(INT_MAX / 2)

static bool all_sound(struct page **pages, unsigned long nr)
{
	while (nr--)
		if (!compat_pin_is_sound(pages[nr]) ||
		    folio_ref_count(page_folio(pages[nr])) > MAX_REFERENCES)
			return false;
	return true;
}

static int user_pin(struct arax_buffer *ab, unsigned long address, unsigned long nr)
{
	struct page **pages;
	int got;

	pages = core_alloc(array_size(nr, sizeof(*pages)));
	if (!pages)
		return -ENOMEM;
	ab->pins = pages;
	for (ab->nr_pins = 0; ab->nr_pins < nr; ab->nr_pins += got) {
		got = fatal_signal_pending(current) ? -EINTR :
		      pin_user_pages_fast(address + (ab->nr_pins << PAGE_SHIFT),
					  min_t(unsigned long, nr - ab->nr_pins, USER_CHUNK),
					  FOLL_WRITE | FOLL_LONGTERM, pages + ab->nr_pins);
		if (got <= 0) {
			arax_user_release(ab);
			return got ?: -EFAULT;
		}
		if (!all_sound(pages + ab->nr_pins, got)) {
			/* Nobody has written to these by the pin. */
			unpin_user_pages(pages + ab->nr_pins, got);
			arax_user_release(ab);
			return -EFAULT;
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

int arax_user_import(struct arax_buffer *ab, u64 address, u64 bytes)
{
	int err;

	/* A 32-bit kernel's, or a range past the end, is none that could be pinned. */
	if (address + bytes < address || (unsigned long)address != address ||
	    bytes >> PAGE_SHIFT > INT_MAX)
		return -EFAULT;
	err = user_pin(ab, (unsigned long)address, bytes >> PAGE_SHIFT);
	if (err)
		return err;
	err = core_buffer_charge_more(ab->core, user_surroundings(ab));
	if (!err)
		err = arax_pins_file(ab, "[arax-user]");
	if (err)
		arax_user_release(ab);
	return err;
}
