/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls of /dev/borrower.  Each returns 0 or -errno, those that look for bytes 1 or 0.  Byte i of
 * seed s is 31 * i + s.
 */
#ifndef BORROWER_H
#define BORROWER_H

#include <linux/ioctl.h>

#define BORROW_ATTACH	_IO('b', 0)	/* to the dma-buf of that descriptor */
#define BORROW_DETACH	_IO('b', 1)
#define BORROW_MAP	_IO('b', 2)	/* enum dma_data_direction: 0 both, 1 to, 2 from the device */
#define BORROW_UNMAP	_IO('b', 3)
#define BORROW_FILL	_IO('b', 4)	/* the device writes bytes of that seed */
#define BORROW_FILLED	_IO('b', 5)	/* does it read such? */
#define BORROW_VMAP	_IO('b', 6)
#define BORROW_VUNMAP	_IO('b', 7)
#define BORROW_VFILL	_IO('b', 8)	/* the same for the kernel's mapping */
#define BORROW_VFILLED	_IO('b', 9)
#define BORROW_BEGIN	_IO('b', 10)	/* the kernel's dma_buf_begin_cpu_access() */
#define BORROW_END	_IO('b', 11)
#define BORROW_LEND	_IO('b', 12)	/* a descriptor of a dma-buf of the borrower's own: */

enum { LEND_WITHOUT_MMAP, LEND_ODD_SIZE, LEND_EMPTY, LEND_SLOW_MMAP };

#endif
