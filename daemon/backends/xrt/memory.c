// SPDX-License-Identifier: MIT
/*
 * Device memory.  A buffer object's own address is no use as ours: it is another after
 * each change of the configuration, and all emulated ones have the same.  So addresses
 * are counted (addresses.h).
 *
 * A buffer object on the host's pages is copied to and from by the device itself; one
 * of XRT's own by way of pages that XRT has beside it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/xrt/backend.h"

#define PAGE		4096u	/* what XRT asks of the host's pages */

int xrt_find_memory(struct xrt_device *d, uint64_t address, uint64_t bytes,
		    struct allocation *a)
{
	const struct allocation *found;

	pthread_rwlock_rdlock(&d->lock);
	found = addresses_find(&d->addresses, address, bytes);
	if (found)
		*a = *found;
	pthread_rwlock_unlock(&d->lock);
	return found ? 0 : -EFAULT;
}

/* What is taken for it: XRT 2.13 asks the C library for memory that it may refuse else. */
static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* -ENOMEM: more than there is. */
static int account(struct xrt_device *d, uint64_t bytes)
{
	int err = 0;

	pthread_rwlock_wrlock(&d->lock);
	if (bytes > d->room || d->used > d->room - bytes) {
		xrt_log(ARAX_LOG_DEBUG, "%s: no room for %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
			" are in use", d->name, bytes, d->used, d->room);
		err = -ENOMEM;
	} else {
		d->used += bytes;
	}
	pthread_rwlock_unlock(&d->lock);
	return err;
}

static void unaccount(struct xrt_device *d, uint64_t bytes)
{
	pthread_rwlock_wrlock(&d->lock);
	d->used -= bytes;
	pthread_rwlock_unlock(&d->lock);
}

static int insert(struct xrt_device *d, struct allocation *a)
{
	int err;

	pthread_rwlock_wrlock(&d->lock);
	err = addresses_add(&d->addresses, a);
	pthread_rwlock_unlock(&d->lock);
	return err;
}

/* -EOPNOTSUPP: not on these pages. */
static int create(struct xrt_device *d, struct allocation *a)
{
	int err;

	if (a->host && (!xrt_options.zero_copy || (uintptr_t)a->host % PAGE))
		return -EOPNOTSUPP;
	errno = 0;
	a->handle = a->host ?
		xrt.BOAllocUserPtr(d->handle, (void *)(uintptr_t)a->host, a->bytes,
				   XRT_BO_FLAGS_NONE, d->group) :
		xrt.BOAlloc(d->handle, whole_pages(a->bytes), XRT_BO_FLAGS_NONE, d->group);
	if (a->handle)
		return 0;
	err = xrt_check(d, xrt_errno());
	if (!a->host || err == -ENODEV || err == -ENOMEM) {
		xrt_log(ARAX_LOG_WARNING, "%s: %" PRIu64 " bytes in bank %u: %s; %" PRIu64 " of %" PRIu64
			" were in use", d->name, a->bytes, xrt_bank(d), strerror(-err),
			d->used - whole_pages(a->bytes), d->room);
		/* Whatever the driver calls it, others may have to make room. */
		return err == -ENODEV ? err : -ENOMEM;
	}
	if (!__atomic_exchange_n(&d->told, true, __ATOMIC_RELAXED))
		xrt_log(ARAX_LOG_WARNING, "%s: takes no pages of the host: %s; copies go by way of XRT's own (said once)",
			d->name, strerror(-err));
	return -EOPNOTSUPP;
}

int xrt_alloc(struct xrt_device *d, uint64_t bytes, void *host, uint64_t *address)
{
	struct allocation a = { .bytes = bytes, .host = host };
	int err;

	if (!bytes)
		return -EINVAL;
	if (bytes > UINT64_MAX - PAGE)
		return -ENOMEM;
	if (__atomic_load_n(&d->lost, __ATOMIC_RELAXED))
		return -ENODEV;
	/* Which banks there are the .xclbin says. */
	if (!__atomic_load_n(&d->loaded, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	err = account(d, whole_pages(bytes));
	if (err)
		return err;
	err = create(d, &a);
	if (!err) {
		err = insert(d, &a);
		if (err)
			xrt.BOFree(a.handle);
	}
	if (err)
		unaccount(d, whole_pages(bytes));
	else
		*address = a.address;
	return err;
}

void xrt_free(struct xrt_device *d, uint64_t address)
{
	struct allocation a;
	bool found;

	pthread_rwlock_wrlock(&d->lock);
	found = addresses_remove(&d->addresses, address, &a);
	if (found)
		d->used -= whole_pages(a.bytes);
	pthread_rwlock_unlock(&d->lock);
	if (found)
		xrt.BOFree(a.handle);
	else
		xrt_log(ARAX_LOG_ERR, "%s: nothing was allocated at %#" PRIx64, d->name, address);
}

void xrt_memory_close(struct xrt_device *d)
{
	struct allocation a;

	if (d->addresses.nr)
		xrt_log(ARAX_LOG_WARNING, "%s: %u allocations of %" PRIu64 " bytes were left", d->name,
			d->addresses.nr, d->used);
	while (addresses_empty(&d->addresses, &a))
		xrt.BOFree(a.handle);
}

static int failed(struct xrt_device *d, const char *what, uint64_t bytes)
{
	int err = xrt_errno();

	xrt_log(ARAX_LOG_ERR, "%s: %s of %" PRIu64 " bytes: %s", d->name, what, bytes,
		strerror(-err));
	return xrt_check(d, err);
}

/* One transfer each, of what was asked for: who asks knows what is stale. */
int xrt_copy_in(struct xrt_device *d, uint64_t to, const void *from, uint64_t bytes)
{
	struct allocation a;
	uint64_t offset;
	int err = xrt_find_memory(d, to, bytes, &a);

	if (err || !bytes)
		return err;
	offset = to - a.address;
	/* Else these bytes would have to be put into pages that are somebody's. */
	if (a.host && a.host + offset != from)
		return -EINVAL;
	errno = 0;
	if ((!a.host && xrt.BOWrite(a.handle, from, bytes, offset)) ||
	    xrt.BOSync(a.handle, XCL_BO_SYNC_BO_TO_DEVICE, bytes, offset))
		return failed(d, "copy in", bytes);
	return 0;
}

int xrt_copy_out(struct xrt_device *d, void *to, uint64_t from, uint64_t bytes)
{
	struct allocation a;
	uint64_t offset;
	int err = xrt_find_memory(d, from, bytes, &a);

	if (err || !bytes)
		return err;
	offset = from - a.address;
	if (a.host && a.host + offset != to)
		return -EINVAL;
	errno = 0;
	if (xrt.BOSync(a.handle, XCL_BO_SYNC_BO_FROM_DEVICE, bytes, offset) ||
	    (!a.host && xrt.BORead(a.handle, to, bytes, offset)))
		return failed(d, "copy out", bytes);
	return 0;
}
