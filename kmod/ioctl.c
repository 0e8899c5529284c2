// SPDX-License-Identifier: GPL-2.0
/*
 * Calls: found by number in the core's table, their struct copied in once and
 * copied back whatever came of it.  No lock is held over either copy.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "module.h"
#include "trace.h"

static const struct core_call *find_call(unsigned int cmd, u32 roles)
{
	const struct core_call *call;

	if (_IOC_TYPE(cmd) != ARAX_IOC_TYPE)
		return NULL;
	call = core_call_find(_IOC_NR(cmd));
	return call && call->flags & roles ? call : NULL;
}

/* The size is read twice; only the first reading is used. */
static int copy_in(const struct core_call *call, union core_args *a, const void __user *user,
		   u32 *size)
{
	int err;

	if (get_user(*size, (const u32 __user *)user))
		return -EFAULT;
	if (*size < call->min_size)
		return -EINVAL;
	if (*size > PAGE_SIZE)
		return -E2BIG;
	/* What the caller does not have is zero then. */
	err = copy_struct_from_user(a, call->size, user, *size);
	if (err)
		return err;
	a->size = *size;
	return 0;
}

/* Of a struct larger than ours the tail is zero and stays so. */
static int copy_out(const struct core_call *call, const union core_args *a, void __user *user,
		    u32 size)
{
	return copy_to_user(user, a, min(size, call->size)) ? -EFAULT : 0;
}

/* Calls whose handlers leave something in their frame. */
static bool needs_frame(u32 nr)
{
	switch (nr) {
	case ARAX_NR_BUFFER_CREATE:
	case ARAX_NR_BUFFER_IMPORT:
	case ARAX_NR_BUFFER_EXPORT:
	case ARAX_NR_TIMELINE_EXPORT:
	case ARAX_NR_BUFFER_GET:
		return true;
	}
	return false;
}

static int run_framed(const struct core_call *call, struct core_client *c,
		      struct arax_frame *f)
{
	int err;

	if (!needs_frame(call->nr))
		return core_call_run(call, arax.core, c, &f->args);
	arax_frame_begin(f);
	err = core_call_run(call, arax.core, c, &f->args);
	arax_frame_end(f);
	return err;
}

/* ------------------------------------------------------------------ */
/* Clients                                                             */

/*
 * A new handle becomes mappable at its own number of pages: on 32 bits too
 * that is an offset which mmap can take.  If it can't be, there is no handle.
 */
static int make_mappable(struct arax_client *ac, struct arax_frame *f, u32 handle, u64 *offset)
{
	int err;

	if (WARN_ON_ONCE(!f->buffer))
		return -EIO;
	/* It is mapped already, or it could not have been imported. */
	if (f->buffer->backing == ARAX_BACKING_USER) {
		*offset = 0;
		return 0;
	}
	err = arax_client_map_add(ac, handle, f->buffer, false);
	if (err) {
		core_buffer_destroy(ac->core, handle);
		return err;
	}
	*offset = (u64)handle << PAGE_SHIFT;
	return 0;
}

/*
 * The handle's table and ours change as one under ->calls.  Nor has a client more than one
 * frame of such calls, however many of its threads wait here.
 */
static int run_mapping_call(struct arax_client *ac, const struct core_call *call,
			    struct arax_frame *f)
{
	union core_args *a = &f->args;
	int err;

	/* Who imports memory holds it while that is faulted in: as long as who serves the fault likes. */
	if (mutex_lock_killable(&ac->calls))
		return -EINTR;
	err = run_framed(call, ac->core, f);
	if (!err && call->nr == ARAX_NR_BUFFER_CREATE)
		err = make_mappable(ac, f, a->buffer_create.handle,
				    &a->buffer_create.map_offset);
	else if (!err && call->nr == ARAX_NR_BUFFER_IMPORT)
		err = make_mappable(ac, f, a->buffer_import.handle,
				    &a->buffer_import.map_offset);
	else if (!err)
		arax_client_map_remove(ac, a->handle.handle);
	mutex_unlock(&ac->calls);
	return err;
}

static int run_client(struct arax_client *ac, const struct core_call *call,
		      struct arax_frame *f)
{
	struct core_client *c = ac->core;

	if (call->flags & CORE_CALL_LINK) {
		if (READ_ONCE(c->dead))
			return -(int)READ_ONCE(c->dead);
		/* Pairs with the release in core_context_init(). */
		if (!smp_load_acquire(&c->ready))
			return -ENXIO;
	}
	switch (call->nr) {
	case ARAX_NR_CONTEXT_INIT:
		return arax_client_init(ac, call, &f->args);
	case ARAX_NR_SUBMIT:
		return arax_client_submit(ac, &f->args.submit);
	case ARAX_NR_WAIT:
		return arax_client_wait(ac, &f->args.wait);
	case ARAX_NR_BUFFER_CREATE:
	case ARAX_NR_BUFFER_IMPORT:
	case ARAX_NR_BUFFER_DESTROY:
		return run_mapping_call(ac, call, f);
	}
	return run_framed(call, c, f);
}

long arax_client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct arax_client *ac = file->private_data;
	void __user *user = (void __user *)arg;
	const struct core_call *call;
	struct arax_frame f;
	int err, copied;
	u32 size;

	call = find_call(cmd, CORE_ROLE_CLIENT);
	if (!call)
		return -ENOTTY;
	if (!arax_client_mine(ac))
		return -EPERM;
	err = copy_in(call, &f.args, user, &size);
	if (err)
		return err;
	arax_frame_init(&f);
	err = run_client(ac, call, &f);
	copied = copy_out(call, &f.args, user, size);
	arax_frame_settle(&f, err ?: copied);
	return err ?: copied;
}

/* ------------------------------------------------------------------ */
/* The mediator and administrators                                     */

/* The seat is held: what the mediator maps stays while its call runs. */
static int run_mediator(struct arax_ctl *ctl, const struct core_call *call,
			struct arax_frame *f)
{
	int err;

	down_read(&arax.seat);
	err = arax_mediator_check(ctl);
	if (!err)
		err = run_framed(call, NULL, f);
	up_read(&arax.seat);
	return err;
}

long arax_ctl_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct arax_ctl *ctl = file->private_data;
	void __user *user = (void __user *)arg;
	const struct core_call *call;
	struct arax_frame f;
	int err, copied;
	u32 size;

	call = find_call(cmd, CORE_ROLE_MEDIATOR | CORE_ROLE_ADMIN);
	if (!call)
		return -ENOTTY;
	err = copy_in(call, &f.args, user, &size);
	if (err)
		return err;
	arax_frame_init(&f);
	if (call->nr == ARAX_NR_ATTACH)
		err = arax_mediator_attach(ctl, file, &f.args.attach);
	else if (call->nr == ARAX_NR_FETCH)
		err = arax_mediator_fetch(ctl, &f.args.fetch);
	else if (call->flags & CORE_ROLE_ADMIN)
		err = core_call_run(call, arax.core, NULL, &f.args);
	else
		err = run_mediator(ctl, call, &f);
	if (call->nr == ARAX_NR_COMMIT && !err)
		trace_arax_commit(f.args.commit.count, f.args.commit.done, f.args.commit.stale);
	copied = copy_out(call, &f.args, user, size);
	arax_frame_settle(&f, err ?: copied);
	return err ?: copied;
}
