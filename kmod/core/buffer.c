// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Buffers.  Handles and tasks are users; when the last user goes, and the mediator knows
 * that it does if it had the buffer, the link is told (buffer_idle), and when the last
 * mapping or descriptor goes the link calls core_buffer_free(), which gives the bytes back
 * to the tenant.
 */
#include "core.h"

#define PAGE_MASK_4K	4095ull

/* Charged, with an id and one user, without pages. */
struct core_buffer *core_buffer_new(struct core_client *c, u64 bytes, u32 type, int *err)
{
	struct core *core = c->core;
	struct core_buffer *buf;

	*err = core_charge(c->tenant, c->user, ARAX_RES_MEMORY, bytes);
	if (*err)
		return NULL;
	buf = core_alloc(sizeof(*buf));
	if (!buf) {
		*err = -ENOMEM;
		goto uncharge;
	}
	buf->core = core;
	buf->bytes = bytes;
	buf->charged = bytes;
	buf->type = type;
	buf->context = c->id;
	buf->creator = c->serial;
	buf->uid = c->uid;
	buf->tenant = c->tenant;
	buf->user = c->user;
	buf->users = 1;
	clist_init(&buf->note);
	clist_init(&buf->garbage);
	core_mutex_lock(&core->lock);
	*err = core_handles_room(&core->buffers, &core->lock, &core->dispatch);
	/* Others of the user's may have come meanwhile. */
	if (!*err && !core_buffer_share_left(core, c))
		*err = -ENOSPC;
	if (!*err) {
		core_spin_lock(&core->dispatch);
		*err = core_handle_add(&core->buffers, CORE_BUFFER, buf, &buf->id);
		core_spin_unlock(&core->dispatch);
	}
	if (!*err) {
		core_buffer_share_count(buf->tenant, buf->user, 1);
		core_tenant_hold(core, buf->tenant);
		core_tenant_hold(core, buf->user);
	}
	core_mutex_unlock(&core->lock);
	if (!*err)
		return buf;
	core_free(buf);
uncharge:
	core_uncharge(c->tenant, c->user, ARAX_RES_MEMORY, bytes);
	return NULL;
}

/* What it takes besides, before it has a handle. */
int core_buffer_charge_more(struct core_buffer *buf, u64 bytes)
{
	int err = core_charge(buf->tenant, buf->user, ARAX_RES_MEMORY, bytes);

	if (!err)
		buf->charged += bytes;
	return err;
}

void core_buffer_free(struct core_buffer *buf)
{
	struct core *core = buf->core;

	core_mutex_lock(&core->lock);
	core_spin_lock(&core->dispatch);
	core_handle_remove(&core->buffers, CORE_BUFFER, buf->id);
	core_spin_unlock(&core->dispatch);
	core_warn_on(!clist_empty(&buf->note));
	core_uncharge(buf->tenant, buf->user, ARAX_RES_MEMORY, buf->charged);
	core_buffer_share_count(buf->tenant, buf->user, -1);
	core_tenant_put(core, buf->tenant);
	core_tenant_put(core, buf->user);
	core_mutex_unlock(&core->lock);
	core_free(buf);
}

/*
 * The link calls it while it holds the pages by something of its own (an open
 * file), so the structure is alive though it may have no user at the moment.
 */
bool core_buffer_use(struct core_buffer *buf)
{
	bool ok;

	core_spin_lock(&buf->core->dispatch);
	ok = !buf->revoked && !buf->idle;
	if (ok)
		buf->users++;
	core_spin_unlock(&buf->core->dispatch);
	return ok;
}

void core_buffer_put_last(struct core_buffer *buf, struct core_garbage *g)
{
	struct core *core = buf->core;

	core_warn_on(buf->users);
	buf->idle = true;
	core->nr_revoked -= buf->revoked;
	/*
	 * What the mediator may have mapped lasts until it has been told: else its id
	 * could be given out anew, and would be found mapped there.
	 */
	if (buf->mediated && core->state == CORE_LIVE) {
		clist_add_tail(&buf->note, &core->drop_notes);
		/* Not flushed here: the caller may be walking a list of queued tasks. */
		g->flush = true;
	} else {
		core_garbage_throw(&g->buffers, &buf->garbage);
	}
}

void core_buffer_put(struct core_buffer *buf)
{
	struct core *core = buf->core;
	struct core_garbage g;

	core_garbage_init(&g);
	core_spin_lock(&core->dispatch);
	core_buffer_put_locked(buf, &g);
	core_unlock_collect(core, &g);
}

/* Gives the buffer a handle, or drops it. */
static int add_handle(struct core_client *c, struct core_buffer *buf, u32 *handle)
{
	int err;

	core_mutex_lock(&c->lock);
	err = core_handle_add(&c->handles, CORE_BUFFER, buf, handle);
	if (!err) {
		core_client_count(c, CORE_BUFFER, 1);
		/* However many handles of it there are, it is one buffer. */
		if (buf->creator == c->serial && !buf->own_handles++)
			core_atomic_add(&c->memory, buf->charged);
	}
	core_mutex_unlock(&c->lock);
	if (err)
		core_buffer_put(buf);
	return err;
}

/* Gives a new buffer, which has its pages now, a handle, or drops it. */
static int add_new(struct core_client *c, struct core_buffer *buf, u32 *handle)
{
	core_spin_lock(&buf->core->dispatch);
	buf->backed = true;
	core_spin_unlock(&buf->core->dispatch);
	return add_handle(c, buf, handle);
}

int core_buffer_create(struct core_client *c, struct arax_buffer_create *a)
{
	struct core_buffer *buf;
	int err;

	if (a->flags & ~ARAX_BUFFER_FLAGS)
		return -EOPNOTSUPP;
	if (!a->bytes || a->bytes > (1ull << 48))
		return -EINVAL;
	a->bytes = (a->bytes + PAGE_MASK_4K) & ~PAGE_MASK_4K;
	buf = core_buffer_new(c, a->bytes, 0, &err);
	if (!buf)
		return err;
	buf->flags = a->flags;
	err = c->core->ops->buffer_create(c, buf, a);
	if (err) {
		core_buffer_free(buf);
		return err;
	}
	return add_new(c, buf, &a->handle);
}

int core_buffer_import(struct core_client *c, struct arax_buffer_import *a)
{
	struct core_buffer *buf = NULL;
	int err;

	if (a->flags)
		return -EOPNOTSUPP;
	if (a->pad)
		return -EINVAL;
	if (a->type > ARAX_IMPORT_DMABUF)
		return -EOPNOTSUPP;
	if (a->type != ARAX_IMPORT_USER && a->address)
		return -EINVAL;
	if (a->type == ARAX_IMPORT_USER &&
	    (!a->bytes || a->address & PAGE_MASK_4K || a->bytes & PAGE_MASK_4K))
		return -EINVAL;
	err = c->core->ops->buffer_inspect(c, a, &buf);
	if (err)
		return err;
	if (buf && buf->flags & ARAX_BUFFER_EXPLICIT) {
		core_buffer_put(buf);
		return -EOPNOTSUPP;
	}
	if (buf) {
		a->bytes = buf->bytes;
		return add_handle(c, buf, &a->handle);
	}
	if (!a->bytes || a->bytes & PAGE_MASK_4K)
		return -EINVAL;
	buf = core_buffer_new(c, a->bytes, 1 + a->type, &err);
	if (!buf)
		return err;
	err = c->core->ops->buffer_import(c, buf, a);
	if (err) {
		core_buffer_free(buf);
		return err;
	}
	return add_new(c, buf, &a->handle);
}

/* The buffer of a handle, with a reference of the caller's own. */
static struct core_buffer *get(struct core_client *c, u32 handle)
{
	struct core_buffer *buf;

	core_mutex_lock(&c->lock);
	buf = core_handle_find(&c->handles, CORE_BUFFER, handle);
	if (buf) {
		core_spin_lock(&c->core->dispatch);
		buf->users++;
		core_spin_unlock(&c->core->dispatch);
	}
	core_mutex_unlock(&c->lock);
	return buf;
}

int core_buffer_export(struct core_client *c, struct arax_buffer_export *a)
{
	struct core_buffer *buf;
	int err;

	if (a->flags || a->type > ARAX_EXPORT_DMABUF)
		return -EOPNOTSUPP;
	if (a->pad)
		return -EINVAL;
	buf = get(c, a->handle);
	if (!buf)
		return -EBADF;
	if (buf->creator != c->serial)
		err = -EPERM;
	else if (core_read_once(buf->revoked))
		err = -ESTALE;
	else if (buf->flags & ARAX_BUFFER_EXPLICIT)
		err = -EOPNOTSUPP;	/* nobody else knows when its pages are current */
	else
		err = c->core->ops->buffer_export(c, buf, a);
	core_buffer_put(buf);
	return err;
}

int core_buffer_destroy(struct core_client *c, u32 handle)
{
	struct core_buffer *buf;

	core_mutex_lock(&c->lock);
	buf = core_handle_remove(&c->handles, CORE_BUFFER, handle);
	if (buf) {
		core_client_count(c, CORE_BUFFER, -1);
		if (buf->creator == c->serial && !--buf->own_handles)
			core_atomic_add(&c->memory, -buf->charged);
	}
	core_mutex_unlock(&c->lock);
	if (!buf)
		return -EBADF;
	core_buffer_put(buf);
	return 0;
}

int core_buffer_query(struct core_client *c, struct arax_buffer_query *a)
{
	struct core_buffer *buf = get(c, a->handle);

	if (!buf)
		return -EBADF;
	a->bytes = buf->bytes;
	a->id = buf->id;
	a->type = buf->type;
	core_spin_lock(&c->core->dispatch);
	a->flags = (buf->revoked ? ARAX_BUFFER_IS_REVOKED : 0) |
		   (buf->nr_lost ? ARAX_BUFFER_IS_LOST : 0);
	core_spin_unlock(&c->core->dispatch);
	core_buffer_put(buf);
	return 0;
}

/*
 * Only its creator may; others' handles stay, their tasks are refused.  Those that were
 * accepted before fail when they end: nobody knows whether they have seen the pages still.
 */
int core_buffer_revoke(struct core_client *c, u32 handle)
{
	struct core_buffer *buf = get(c, handle);
	int err = 0;

	if (!buf)
		return -EBADF;
	if (buf->creator != c->serial) {
		err = -EPERM;
	} else {
		core_spin_lock(&c->core->dispatch);
		c->core->nr_revoked += !buf->revoked;
		buf->revoked = true;
		core_spin_unlock(&c->core->dispatch);
		c->core->ops->buffer_revoke(buf);
	}
	core_buffer_put(buf);
	return err;
}

int core_buffer_get(struct core *core, struct arax_buffer_get *a)
{
	struct core_buffer *buf;
	int err = -ENOENT;

	if (a->flags)
		return -EOPNOTSUPP;
	core_spin_lock(&core->dispatch);
	buf = a->id >> 32 ? NULL : core_handle_find(&core->buffers, CORE_BUFFER, (u32)a->id);
	if (buf && buf->backed && !buf->idle && buf->type != CORE_BUFFER_RING)
		err = buf->revoked ? -ESTALE : 0;
	if (!err) {
		buf->users++;
		buf->mediated = true;
	}
	core_spin_unlock(&core->dispatch);
	if (err)
		return err;
	a->flags = buf->flags;
	a->bytes = buf->bytes;
	a->type = buf->type;
	a->context = buf->context;
	a->uid = buf->uid;
	err = core->ops->buffer_get(buf, a);
	core_buffer_put(buf);
	return err;
}

/* Extents: a short sorted list; what doesn't fit makes neighbours one. */
void core_extent_add(struct core_extent *e, u32 *nr, u64 start, u64 end)
{
	struct core_extent out[CORE_DIRTY_RANGES + 1];
	u32 i, n = 0, best = 0;
	bool placed = false;

	if (start >= end)
		return;
	for (i = 0; i < *nr; i++) {
		if (e[i].end < start || e[i].start > end) {
			if (e[i].start > end && !placed) {
				out[n].start = start;
				out[n++].end = end;
				placed = true;
			}
			out[n++] = e[i];
			continue;
		}
		start = e[i].start < start ? e[i].start : start;
		end = e[i].end > end ? e[i].end : end;
	}
	if (!placed) {
		out[n].start = start;
		out[n++].end = end;
	}
	if (n > CORE_DIRTY_RANGES) {
		for (i = 1; i + 1 < n; i++)
			if (out[i + 1].start - out[i].end < out[best + 1].start - out[best].end)
				best = i;
		out[best].end = out[best + 1].end;
		for (i = best + 1; i + 1 < n; i++)
			out[i] = out[i + 1];
		n--;
	}
	memcpy(e, out, n * sizeof(*e));
	*nr = n;
}

/* May keep bytes in the list that it should have taken out, never the reverse. */
void core_extent_remove(struct core_extent *e, u32 *nr, u64 start, u64 end)
{
	u32 i, n = 0;

	for (i = 0; i < *nr; i++) {
		if (e[i].end <= start || e[i].start >= end) {
			e[n++] = e[i];
		} else if (e[i].start < start) {
			/* A hole in the middle keeps the tail too. */
			e[n].start = e[i].start;
			e[n++].end = e[i].end <= end ? start : e[i].end;
		} else if (e[i].end > end) {
			e[n].start = end;
			e[n++].end = e[i].end;
		}
	}
	*nr = n;
}

bool core_extent_overlaps(const struct core_extent *e, u32 nr, u64 start, u64 end)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (e[i].start < end && start < e[i].end)
			return true;
	return false;
}
