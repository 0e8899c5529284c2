// SPDX-License-Identifier: MIT
/*
 * Host memory of a device that is apart.  A client's buffer is mapped there, once, by the
 * descriptor that its link has; what is in none goes by way of the channel, in pieces.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/apart/apart.h"

/* (buffers_lock) What asks it to map that. */
static int put_buffer(struct channel *c, const struct mapping *m)
{
	struct apart_call *call = channel_begin(c, APART_MAP);

	call->buffer = m->serial;
	call->bytes = m->bytes;
	return channel_send(c, m->fd, &call->fd);
}

static void unmap_there(struct channel *c, uint64_t serial)
{
	channel_begin(c, APART_UNMAP)->buffer = serial;
	channel_call_soon(c);
}

/*
 * What the helper knows @bytes at @p as.  -ENOENT: they are in no buffer.  Other buffers' ends wait
 * for buffers_lock: to map and to unmap waits for nothing that runs, and has an end of its own.
 */
static int share(struct apart_device *d, struct channel *c, const void *p, uint64_t bytes,
		 uint64_t *serial, uint64_t *offset)
{
	struct mapping m;
	int err = 0;

	if (!bytes || !hostmap_find(p, bytes, &m))
		return -ENOENT;
	pthread_mutex_lock(&d->buffers_lock);
	if (!idmap_get(&d->buffers, m.serial)) {
		err = put_buffer(c, &m);
		if (!err)
			err = channel_call_soon(c);
		if (!err) {
			err = idmap_put(&d->buffers, m.serial, c->helper);
			if (err)
				unmap_there(c, m.serial);
		}
	}
	pthread_mutex_unlock(&d->buffers_lock);
	*serial = m.serial;
	*offset = (uint64_t)((const uint8_t *)p - m.base);
	return err;
}

/*
 * It is unmapped there before it is here, so that none of its pages are kept; registered it is
 * no more: so it waits for nothing that runs.  Not under device.lock: who unmaps must not wait
 * for a device that is moving, nor for a process that hangs.  By the channel that is kept: those
 * who have the others may wait for buffers_lock.
 */
void apart_buffer_gone(struct hostmap_watch *w, uint64_t serial)
{
	struct apart_device *d = (struct apart_device *)((char *)w -
							 offsetof(struct apart_device, watch));
	struct helper *h;
	struct channel *c;

	pthread_mutex_lock(&d->buffers_lock);
	h = idmap_del(&d->buffers, serial);
	c = h ? helper_kept(h) : NULL;
	if (c) {
		channel_begin(c, APART_UNMAP)->buffer = serial;
		channel_call_soon(c);
	}
	pthread_mutex_unlock(&d->buffers_lock);
}

void apart_buffers_forget(struct apart_device *d)
{
	pthread_mutex_lock(&d->buffers_lock);
	idmap_free(&d->buffers);
	memset(&d->buffers, 0, sizeof(d->buffers));
	pthread_mutex_unlock(&d->buffers_lock);
}

/* ------------------------------------------------------------------ */
/* Copies                                                                */

static int copy(struct channel *c, enum apart_op op, uint32_t lane, uint64_t address,
		uint64_t serial, uint64_t offset, uint64_t bytes)
{
	struct apart_call *call = channel_begin(c, op);

	call->lane = lane;
	call->address = address;
	call->buffer = serial;
	call->offset = offset;
	call->bytes = bytes;
	return channel_call(c);
}

/* The last piece first: then one that is longer than what is there fails with nothing done. */
int apart_copy_in(struct apart_device *d, struct channel *c, uint32_t lane, uint64_t to,
		  const void *from, uint64_t bytes)
{
	uint64_t serial, offset, n;
	int err = share(d, c, from, bytes, &serial, &offset);

	if (!err)
		return copy(c, APART_COPY_IN, lane, to, serial, offset, bytes);
	if (err == -ENODEV)
		return err;
	do {
		n = bytes % APART_STAGE || !bytes ? bytes % APART_STAGE : APART_STAGE;
		bytes -= n;
		memcpy(c->slot->stage, (const char *)from + bytes, n);
		err = copy(c, APART_COPY_IN, lane, to + bytes, 0, 0, n);
	} while (!err && bytes);
	return err;
}

int apart_copy_out(struct apart_device *d, struct channel *c, uint32_t lane, void *to,
		   uint64_t from, uint64_t bytes)
{
	uint64_t serial, offset, n;
	int err = share(d, c, to, bytes, &serial, &offset);

	if (!err)
		return copy(c, APART_COPY_OUT, lane, from, serial, offset, bytes);
	if (err == -ENODEV)
		return err;
	do {
		n = bytes % APART_STAGE || !bytes ? bytes % APART_STAGE : APART_STAGE;
		bytes -= n;
		err = copy(c, APART_COPY_OUT, lane, from + bytes, 0, 0, n);
		if (!err)
			memcpy((char *)to + bytes, c->slot->stage, n);
	} while (!err && bytes);
	return err;
}

/* ------------------------------------------------------------------ */
/* Registered memory                                                     */

/* What is shared. */
static int register_there(struct channel *c, struct apart_host *h)
{
	struct apart_call *call = channel_begin(c, APART_REGISTER);
	int err;

	call->buffer = h->serial;
	call->offset = h->offset;
	call->bytes = h->bytes;
	err = channel_call(c);
	h->there = !err;
	return err;
}

static void add_host(struct apart_device *d, struct apart_host *h)
{
	pthread_mutex_lock(&d->buffers_lock);
	h->next = d->hosts;
	d->hosts = h;
	pthread_mutex_unlock(&d->buffers_lock);
}

int apart_host_note(struct apart_device *d, void *host, uint64_t bytes)
{
	struct apart_host *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->host = host;
	h->bytes = bytes;
	add_host(d, h);
	return 0;
}

int apart_host_register(struct apart_device *d, struct channel *c, void *host, uint64_t bytes)
{
	struct apart_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->host = host;
	h->bytes = bytes;
	err = share(d, c, host, bytes, &h->serial, &h->offset);
	/* Of memory that it doesn't map it makes no difference. */
	if (err == -ENOENT)
		err = -EOPNOTSUPP;
	if (!err)
		err = register_there(c, h);
	if (err)
		free(h);
	else
		add_host(d, h);
	return err;
}

bool apart_host_unregister(struct apart_device *d, struct channel *c, void *host)
{
	struct apart_host **link, *h;
	struct apart_call *call;

	pthread_mutex_lock(&d->buffers_lock);
	for (link = &d->hosts; *link && ((*link)->host != host || (*link)->gone); link = &(*link)->next)
		;
	h = *link;
	if (h && d->moving)
		h->gone = true;
	else if (h)
		*link = h->next;
	pthread_mutex_unlock(&d->buffers_lock);
	if (!h || d->moving)
		return false;
	if (c && h->there) {
		call = channel_begin(c, APART_UNREGISTER);
		call->buffer = h->serial;
		call->offset = h->offset;
		channel_call(c);
	}
	free(h);
	return true;
}

void apart_hosts_leave(struct apart_device *d)
{
	for (struct apart_host *h = d->hosts; h; h = h->next)
		d->stack->below.host_unregister(d->here, h->host);
}

/*
 * As share(), for the helper that is to come.  Neither is it in device.buffers, nor does anybody wait
 * for it with buffers_lock: a buffer's end waits for neither.  Its descriptor is on its way while it
 * is kept.
 */
static int share_anew(struct apart_device *d, struct channel *c, struct apart_host *h)
{
	struct mapping m;
	bool known;
	int err;

	pthread_mutex_lock(&d->buffers_lock);
	err = h->gone || !hostmap_find(h->host, h->bytes, &m) ? -ENOENT : 0;
	known = !err && idmap_get(&d->fresh, m.serial);
	if (!err && !known)
		err = put_buffer(c, &m);
	pthread_mutex_unlock(&d->buffers_lock);
	if (!err && !known) {
		err = channel_call(c);
		if (!err) {
			err = idmap_put(&d->fresh, m.serial, c->helper);
			if (err)
				unmap_there(c, m.serial);
		}
	}
	if (err)
		return err;
	h->serial = m.serial;
	h->offset = (uint64_t)((uint8_t *)h->host - m.base);
	return 0;
}

/* What can't be had again is slower to copy, and no more. */
void apart_hosts_again(struct apart_device *d, struct channel *c)
{
	for (struct apart_host *h = d->hosts; h; h = h->next) {
		h->there = false;
		helper_goes_on(c->helper);
		if (!share_anew(d, c, h))
			register_there(c, h);
	}
}

struct apart_host *apart_hosts_arrive(struct apart_device *d, const struct helper *helper)
{
	struct apart_host **link = &d->hosts, *gone = NULL, *h;

	pthread_mutex_lock(&d->buffers_lock);
	if (!helper)
		idmap_free(&d->fresh);
	else
		d->buffers = d->fresh;
	memset(&d->fresh, 0, sizeof(d->fresh));
	while ((h = *link)) {
		if (!h->gone) {
			link = &h->next;
			continue;
		}
		*link = h->next;
		h->next = gone;
		gone = h;
		/* Its buffer's end may have been told already, when nobody had it. */
		h->there = helper && idmap_del(&d->buffers, h->serial);
	}
	pthread_mutex_unlock(&d->buffers_lock);
	return gone;
}

void apart_hosts_bury(struct apart_host *gone, struct channel *c)
{
	while (gone) {
		struct apart_host *h = gone;

		gone = h->next;
		if (c && h->there)
			unmap_there(c, h->serial);
		free(h);
	}
}

void apart_hosts_free(struct apart_device *d)
{
	while (d->hosts) {
		struct apart_host *h = d->hosts;

		d->hosts = h->next;
		free(h);
	}
}
