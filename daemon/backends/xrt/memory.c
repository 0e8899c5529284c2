// SPDX-License-Identifier: MIT
/*
 * Device memory.  A buffer object's own address is no use as ours: it is another after
 * each change of the configuration, and all emulated ones have the same.  So addresses
 * are counted, with a gap behind each allocation in which nothing lies.
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
#define FIRST_ADDRESS	(1ull << 32)
#define BOUNDARY	(1ull << 12)
#define GAP		(1ull << 12)
#define LAST_ADDRESS	(1ull << 62)

/* The first allocation that begins behind @address; @lock is held. */
static uint32_t behind(const struct xrt_device *d, uint64_t address)
{
	uint32_t low = 0, high = d->nr_allocations;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (d->allocations[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int xrt_find_memory(struct xrt_device *d, uint64_t address, uint64_t bytes,
		    struct xrt_allocation *a)
{
	const struct xrt_allocation *found;
	int err = -EFAULT;
	uint32_t i;

	pthread_rwlock_rdlock(&d->lock);
	i = behind(d, address);
	found = i ? &d->allocations[i - 1] : NULL;
	if (found && address - found->address <= found->bytes &&
	    bytes <= found->bytes - (address - found->address)) {
		*a = *found;
		err = 0;
	}
	pthread_rwlock_unlock(&d->lock);
	return err;
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

static int insert(struct xrt_device *d, struct xrt_allocation *a)
{
	struct xrt_allocation *more;
	int err = -ENOMEM;
	uint32_t slots;

	pthread_rwlock_wrlock(&d->lock);
	if (!d->next_address)
		d->next_address = FIRST_ADDRESS;
	if (d->nr_allocations == d->slots) {
		slots = 2 * d->slots + 64;
		more = realloc(d->allocations, slots * sizeof(*more));
		if (!more)
			goto out;
		d->allocations = more;
		d->slots = slots;
	}
	if (d->next_address > LAST_ADDRESS - a->bytes)
		goto out;
	a->address = d->next_address;
	/* They only grow: the end is its place in the order. */
	d->allocations[d->nr_allocations++] = *a;
	d->next_address = (d->next_address + a->bytes + GAP + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
	err = 0;
out:
	pthread_rwlock_unlock(&d->lock);
	return err;
}

/* -EOPNOTSUPP: not on these pages. */
static int create(struct xrt_device *d, struct xrt_allocation *a)
{
	int err;

	if (a->host && (!xrt_options.zero_copy || (uintptr_t)a->host % PAGE))
		return -EOPNOTSUPP;
	errno = 0;
	a->bo = a->host ?
		xrt.BOAllocUserPtr(d->handle, (void *)(uintptr_t)a->host, a->bytes,
				   XRT_BO_FLAGS_NONE, d->group) :
		xrt.BOAlloc(d->handle, whole_pages(a->bytes), XRT_BO_FLAGS_NONE, d->group);
	if (a->bo)
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
	struct xrt_allocation a = { .bytes = bytes, .host = host };
	int err;

	if (!bytes)
		return -EINVAL;
	if (bytes > LAST_ADDRESS)
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
			xrt.BOFree(a.bo);
	}
	if (err)
		unaccount(d, whole_pages(bytes));
	else
		*address = a.address;
	return err;
}

void xrt_free(struct xrt_device *d, uint64_t address)
{
	struct xrt_allocation *a;
	xrtBufferHandle bo = NULL;
	uint32_t i;

	pthread_rwlock_wrlock(&d->lock);
	i = behind(d, address);
	a = i ? &d->allocations[i - 1] : NULL;
	if (a && a->address == address) {
		bo = a->bo;
		d->used -= whole_pages(a->bytes);
		memmove(a, a + 1, (d->nr_allocations - i) * sizeof(*a));
		d->nr_allocations--;
	}
	pthread_rwlock_unlock(&d->lock);
	if (bo)
		xrt.BOFree(bo);
	else
		xrt_log(ARAX_LOG_ERR, "%s: nothing was allocated at %#" PRIx64, d->name, address);
}

void xrt_memory_close(struct xrt_device *d)
{
	if (d->nr_allocations)
		xrt_log(ARAX_LOG_WARNING, "%s: %u allocations of %" PRIu64 " bytes were left", d->name,
			d->nr_allocations, d->used);
	while (d->nr_allocations)
		xrt.BOFree(d->allocations[--d->nr_allocations].bo);
	free(d->allocations);
	d->allocations = NULL;
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
	struct xrt_allocation a;
	uint64_t offset;
	int err = xrt_find_memory(d, to, bytes, &a);

	if (err || !bytes)
		return err;
	offset = to - a.address;
	/* Else these bytes would have to be put into pages that are somebody's. */
	if (a.host && a.host + offset != from)
		return -EINVAL;
	errno = 0;
	if ((!a.host && xrt.BOWrite(a.bo, from, bytes, offset)) ||
	    xrt.BOSync(a.bo, XCL_BO_SYNC_BO_TO_DEVICE, bytes, offset))
		return failed(d, "copy in", bytes);
	return 0;
}

int xrt_copy_out(struct xrt_device *d, void *to, uint64_t from, uint64_t bytes)
{
	struct xrt_allocation a;
	uint64_t offset;
	int err = xrt_find_memory(d, from, bytes, &a);

	if (err || !bytes)
		return err;
	offset = from - a.address;
	if (a.host && a.host + offset != to)
		return -EINVAL;
	errno = 0;
	if (xrt.BOSync(a.bo, XCL_BO_SYNC_BO_FROM_DEVICE, bytes, offset) ||
	    (!a.host && xrt.BORead(a.bo, to, bytes, offset)))
		return failed(d, "copy out", bytes);
	return 0;
}
