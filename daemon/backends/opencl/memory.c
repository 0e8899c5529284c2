// SPDX-License-Identifier: MIT
/*
 * Device memory.  OpenCL 1.2 has no addresses, so these are counted (addresses.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

int opencl_find_memory(struct opencl_device *d, uint64_t address, uint64_t bytes, cl_mem *mem,
		       uint64_t *offset)
{
	const struct allocation *a;
	int err = -EFAULT;

	pthread_rwlock_rdlock(&d->lock);
	a = addresses_find(&d->addresses, address, bytes);
	if (a) {
		*mem = a->handle;
		*offset = address - a->address;
		err = 0;
	}
	pthread_rwlock_unlock(&d->lock);
	return err;
}

int opencl_account(struct opencl_device *d, uint64_t bytes)
{
	int err = 0;

	pthread_rwlock_wrlock(&d->lock);
	if (bytes > d->bytes || d->used > d->bytes - bytes) {
		opencl_log(ARAX_LOG_DEBUG, "%s: no room for %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
			   " are in use", d->name, bytes, d->used, d->bytes);
		err = -ENOMEM;
	} else {
		d->used += bytes;
	}
	pthread_rwlock_unlock(&d->lock);
	return err;
}

/*
 * Not by a blocking command: one driver (Intel's for CPUs, 2026.2) lets a kernel of
 * another queue start before a short blocking write has taken place.  This is a
 * synchronisation point for all queues.
 */
static cl_int await(cl_command_queue q, cl_int err, cl_event event)
{
	if (err)
		return err;
	err = cl.Finish(q);
	if (!err)
		err = opencl_outcome(event);
	if (event)
		cl.ReleaseEvent(event);
	return err;
}

/*
 * Drivers allocate when a buffer is first used, and fail then.  Moving it there,
 * contents undefined, is that use.
 */
static cl_int create(struct opencl_device *d, uint64_t bytes, cl_mem *mem)
{
	cl_command_queue q = d->lanes[0].copies;
	cl_event moved = NULL;
	cl_int err;

	*mem = cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &err);
	if (err || !cl.EnqueueMigrateMemObjects)
		return err;
	err = cl.EnqueueMigrateMemObjects(q, 1, mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0,
					  NULL, &moved);
	err = await(q, err, moved);
	if (err)
		cl.ReleaseMemObject(*mem);
	return err;
}

static int insert(struct opencl_device *d, cl_mem mem, uint64_t bytes, uint64_t *address)
{
	struct allocation a = { .bytes = bytes, .handle = mem };
	int err;

	pthread_rwlock_wrlock(&d->lock);
	err = addresses_add(&d->addresses, &a);
	pthread_rwlock_unlock(&d->lock);
	*address = a.address;
	return err;
}

void opencl_unaccount(struct opencl_device *d, uint64_t bytes)
{
	pthread_rwlock_wrlock(&d->lock);
	d->used -= bytes;
	pthread_rwlock_unlock(&d->lock);
}

/* (entered) */
static int alloc(struct opencl_device *d, uint64_t bytes, uint64_t *address)
{
	cl_int cerr;
	cl_mem mem;
	int err = opencl_account(d, bytes);

	if (err)
		return err;
	cerr = create(d, bytes, &mem);
	if (cerr) {
		/* Longer than max_alloc, or the device is fuller than we know. */
		opencl_log(ARAX_LOG_WARNING, "%s: %" PRIu64 " bytes: %s; %" PRIu64 " of %" PRIu64
			   " were in use, one allocation may have %" PRIu64, d->name, bytes,
			   opencl_error_name(cerr), d->used - bytes, d->bytes, d->max_alloc);
		err = cerr == CL_INVALID_BUFFER_SIZE ? -ENOMEM :
			opencl_check_whole(d, d->lanes[0].copies, cerr);
	} else {
		err = insert(d, mem, bytes, address);
		if (err)
			cl.ReleaseMemObject(mem);
	}
	if (err)
		opencl_unaccount(d, bytes);
	return err;
}

int opencl_alloc(struct opencl_device *d, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	int err;

	if (d->memory != OPENCL_OWN || wanted)
		return -EOPNOTSUPP;
	if (!bytes)
		return -EINVAL;
	err = opencl_enter(d);
	if (err)
		return err;
	err = alloc(d, bytes, address);
	opencl_leave(d);
	return err;
}

void opencl_free(struct opencl_device *d, uint64_t address)
{
	struct allocation a;
	bool found;

	/* Lost or not. */
	pthread_rwlock_rdlock(&d->context_lock);
	pthread_rwlock_wrlock(&d->lock);
	found = addresses_remove(&d->addresses, address, &a);
	if (found)
		d->used -= a.bytes;
	pthread_rwlock_unlock(&d->lock);
	if (found) {
		pthread_mutex_lock(&d->parts_lock);
		cl.ReleaseMemObject(a.handle);
		pthread_mutex_unlock(&d->parts_lock);
	} else {
		opencl_log(ARAX_LOG_ERR, "%s: nothing was allocated at %#" PRIx64, d->name, address);
	}
	opencl_leave(d);
}

void opencl_memory_drop(struct opencl_device *d)
{
	struct allocation a;

	if (d->addresses.nr)
		opencl_log(ARAX_LOG_WARNING, "%s: %u allocations of %" PRIu64 " bytes are dropped",
			   d->name, d->addresses.nr, d->used);
	while (addresses_empty(&d->addresses, &a))
		cl.ReleaseMemObject(a.handle);
	d->used = 0;
}

static int finish(struct opencl_device *d, cl_command_queue q, cl_int err, cl_event event)
{
	return opencl_check_whole(d, q, await(q, err, event));
}

int opencl_copy_in(struct opencl_device *d, uint32_t lane, uint64_t to, const void *from,
		   uint64_t bytes)
{
	cl_event copied = NULL;
	cl_command_queue q;
	uint64_t offset;
	cl_mem mem;
	cl_int cerr;
	int err = opencl_enter(d);

	if (err)
		return err;
	q = d->lanes[lane % d->nr_lanes].copies;
	err = opencl_find_memory(d, to, bytes, &mem, &offset);
	if (!err && bytes) {
		cerr = cl.EnqueueWriteBuffer(q, mem, CL_FALSE, offset, bytes, from, 0, NULL,
					     &copied);
		err = finish(d, q, cerr, copied);
	}
	opencl_leave(d);
	return err;
}

int opencl_copy_out(struct opencl_device *d, uint32_t lane, void *to, uint64_t from,
		    uint64_t bytes)
{
	cl_event copied = NULL;
	cl_command_queue q;
	uint64_t offset;
	cl_mem mem;
	cl_int cerr;
	int err = opencl_enter(d);

	if (err)
		return err;
	q = d->lanes[lane % d->nr_lanes].copies;
	err = opencl_find_memory(d, from, bytes, &mem, &offset);
	if (!err && bytes) {
		cerr = cl.EnqueueReadBuffer(q, mem, CL_FALSE, offset, bytes, to, 0, NULL, &copied);
		err = finish(d, q, cerr, copied);
	}
	opencl_leave(d);
	return err;
}

/* (both entered) */
static int copy_peer(struct opencl_device *d, uint64_t to, struct opencl_device *src, uint64_t from,
		     uint64_t bytes)
{
	uint64_t to_offset, from_offset;
	cl_mem to_mem, from_mem;
	cl_command_queue q = d->lanes[0].copies;
	cl_event copied = NULL;
	cl_int cerr;
	int err;

	if (d->context != src->context)
		return -EOPNOTSUPP;
	err = opencl_find_memory(d, to, bytes, &to_mem, &to_offset);
	if (!err)
		err = opencl_find_memory(src, from, bytes, &from_mem, &from_offset);
	if (err || !bytes)
		return err;
	cerr = cl.EnqueueCopyBuffer(q, from_mem, to_mem, from_offset, to_offset, bytes, 0, NULL,
				    &copied);
	return finish(d, q, cerr, copied);
}

int opencl_copy_peer(struct opencl_device *d, uint64_t to, struct opencl_device *src,
		     uint64_t from, uint64_t bytes)
{
	/* In one order, whoever copies to whom. */
	struct opencl_device *first = d->index < src->index ? d : src;
	struct opencl_device *second = first == d ? src : d;
	int err = opencl_enter(first);

	if (err)
		return err;
	if (second != first)
		err = opencl_enter(second);
	if (!err) {
		err = copy_peer(d, to, src, from, bytes);
		if (second != first)
			opencl_leave(second);
	}
	opencl_leave(first);
	return err;
}
