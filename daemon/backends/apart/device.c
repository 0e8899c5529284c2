// SPDX-License-Identifier: MIT
/* One device: where it is driven, and its way from araxd to a process of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backends/apart/apart.h"
#include "daemon/libexec.h"
#include "daemon/log.h"

#define PROGRAM "arax-device"

/*
 * A lane's thread has one channel for as long as its launch runs.  These are for all others, whose
 * calls are short: however scarce descriptors are, they don't wait for a launch.
 */
#define MORE_CHANNELS	4

int apart_enter(struct apart_device *d, struct channel **c)
{
	pthread_rwlock_rdlock(&d->lock);
	*c = NULL;
	if (d->here)
		return 0;
	if (d->helper)
		*c = helper_take(d->helper);
	if (*c)
		return 0;
	pthread_rwlock_unlock(&d->lock);
	return -ENODEV;
}

void apart_leave(struct apart_device *d, struct channel *c)
{
	if (c)
		helper_give(c);
	pthread_rwlock_unlock(&d->lock);
}

int apart_open(struct apart_stack *s, uint32_t index, struct apart_device **dev)
{
	struct apart_device *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	d->stack = s;
	d->index = index;
	d->info.size = sizeof(d->info);
	err = s->below.open(index, &d->here);
	if (!err) {
		err = s->below.info(d->here, &d->info);
		if (!err && (!d->info.lanes || d->info.lanes > APART_MAX_LANES))
			err = -EINVAL;
		if (err)
			s->below.close(d->here);
	}
	if (err) {
		free(d);
		return err;
	}
	d->info.name[sizeof(d->info.name) - 1] = '\0';
	d->info.bus[sizeof(d->info.bus) - 1] = '\0';
	d->info.make[sizeof(d->info.make) - 1] = '\0';
	pthread_mutex_init(&d->reset_lock, NULL);
	pthread_rwlock_init(&d->lock, NULL);
	pthread_mutex_init(&d->kernels_lock, NULL);
	pthread_mutex_init(&d->one, NULL);
	pthread_mutex_init(&d->lanes_lock, NULL);
	pthread_mutex_init(&d->buffers_lock, NULL);
	d->watch.gone = apart_buffer_gone;
	hostmap_watch(&d->watch);
	*dev = d;
	return 0;
}

/* (lock held alone, or nobody else is there)  As helper_stop(). */
static int leave_helper(struct apart_device *d)
{
	int err = 0;

	apart_buffers_forget(d);
	if (d->helper)
		err = helper_stop(d->helper);
	d->helper = NULL;
	return err;
}

void apart_close(struct apart_device *d)
{
	hostmap_unwatch(&d->watch);
	leave_helper(d);
	if (d->here)
		d->stack->below.close(d->here);
	apart_hosts_free(d);
	pthread_mutex_destroy(&d->reset_lock);
	pthread_rwlock_destroy(&d->lock);
	pthread_mutex_destroy(&d->kernels_lock);
	pthread_mutex_destroy(&d->one);
	pthread_mutex_destroy(&d->lanes_lock);
	pthread_mutex_destroy(&d->buffers_lock);
	free(d);
}

/* ------------------------------------------------------------------ */
/* Moving                                                                */

/* (lock held alone) With all that it has: the driver gives its memory back. */
static void leave_here(struct apart_device *d)
{
	const struct arax_backend *below = &d->stack->below;

	apart_lanes_take(d);
	for (struct apart_kernel *k = d->kernels; k; k = k->next)
		below->kernel_unload(d->here, k->here);
	apart_hosts_leave(d);
	below->close(d->here);
	d->here = NULL;
	if (d->from_start)
		log_info("device is driven in a process of its own",
			 log_str("device", d->info.name));
	else
		log_warn("device goes on in a process of its own", log_str("device", d->info.name),
			 log_str("reason", "the driver can't build a new context in this process"),
			 log_str("effect", "launches take longer until araxd is restarted"));
}

static int send_option(struct channel *c, const char *key, const char *value)
{
	const char *const texts[] = { key, value };
	int err;

	channel_begin(c, APART_CONFIG);
	err = channel_texts(c, texts, 2);
	return err ? err : channel_call(c);
}

/* The backend there becomes what it is here. */
static int open_there(struct apart_device *d, struct channel *c)
{
	const struct apart_stack *s = d->stack;
	const char *const which[] = { d->info.bus, d->info.make };
	struct apart_call *call = channel_begin(c, APART_PLUGIN);
	int err = channel_texts(c, &s->name, 1);

	call->flags = backend_plugins_are_shared();
	if (!err && s->fd >= 0)
		err = channel_send(c, s->fd, &call->fd);
	if (!err)
		err = channel_call(c);
	for (uint32_t i = 0; !err && i < s->nr_options; i++)
		err = send_option(c, s->options[i].key, s->options[i].value);
	/* Plug-ins of before don't know it. */
	if (!err && !(d->from_start && d->turn == 1))
		err = send_option(c, "careful", "yes");
	if (err && err != -ENOENT)
		return err;
	channel_begin(c, APART_OPEN)->index = d->index;
	err = channel_texts(c, which, 2);
	return err ? err : channel_call(c);
}

/* (lock held alone) */
static int move(struct apart_device *d)
{
	struct channel *c = helper_take(d->helper);
	int err;

	if (!c)
		return -ENODEV;
	err = open_there(d, c);
	for (struct apart_kernel *k = d->kernels; !err && k; k = k->next) {
		err = apart_kernel_load(d, c, k);
		if (err)
			log_err("kernel can't be loaded again", log_str("device", d->info.name),
				log_str("file", k->desc.file), log_str("kernel", k->desc.symbol),
				log_errno(err));
	}
	if (!err)
		apart_hosts_again(d, c);
	helper_give(c);
	return err;
}

/* Of what others may have all for a while, or of time.  Not for what a backend says. */
static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EAGAIN ||
	       err == -ETIMEDOUT;
}

/* Said once: it is tried again and again. */
static int not_now(struct apart_device *d, int err)
{
	if (!d->waits)
		log_warn("device waits to go on in a process of its own",
			 log_str("device", d->info.name), log_errno(err));
	d->waits = true;
	return -EAGAIN;
}

/* A descriptor of the program, or negative errno: then all stays as it is. */
static int find_program(struct apart_device *d)
{
	const char *given = d->stack->program;
	int fd = libexec_open(PROGRAM, given), err = fd < 0 ? -errno : 0;

	if (!err || is_shortage(err))
		return err ? err : fd;
	log_err("device can't go on in a process of its own: no such program",
		log_str("device", d->info.name), log_str("program", given ? given : PROGRAM),
		log_str("remedy", "install it beside arax-worker, or set the backend's option helper"),
		log_errno(err));
	return err;
}

static int reset_there(struct apart_device *d)
{
	int program = find_program(d), err;
	bool began;

	if (program < 0) {
		if (is_shortage(program))
			return not_now(d, program);
		d->waits = false;
		return -ENODEV;
	}
	/* First, so that those who wait for it let go of the lock. */
	if (d->helper)
		helper_kill(d->helper);
	pthread_rwlock_wrlock(&d->lock);
	if (d->here)
		leave_here(d);
	leave_helper(d);
	d->turn++;
	err = helper_start(program, d->info.name, d->info.lanes + MORE_CHANNELS, &d->helper);
	began = !err;
	if (!err)
		err = move(d);
	if (!err) {
		helper_serves(d->helper);
	} else if (leave_helper(d)) {
		/* Whatever it was that it did not come to do. */
		began = false;
		err = -EAGAIN;
	}
	pthread_rwlock_unlock(&d->lock);
	close(program);
	if (!began && is_shortage(err))
		return not_now(d, err);
	if (err)
		log_err("device can't go on in a process of its own",
			log_str("device", d->info.name), log_errno(err));
	d->waits = false;
	return err ? -ENODEV : 0;
}

int apart_reset(struct apart_device *d)
{
	int err = -ENODEV;

	pthread_mutex_lock(&d->reset_lock);
	/* Beside other calls: the backend sees to that.  That it can't here has been seen if it waits. */
	if (d->here && !d->waits)
		err = d->stack->below.reset(d->here);
	if (err == -ENODEV)
		err = reset_there(d);
	pthread_mutex_unlock(&d->reset_lock);
	return err;
}

int apart_move(struct apart_device *d)
{
	int err;

	pthread_mutex_lock(&d->reset_lock);
	d->from_start = true;
	err = reset_there(d);
	pthread_mutex_unlock(&d->reset_lock);
	return err;
}
