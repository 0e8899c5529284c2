// SPDX-License-Identifier: MIT
/* One device: where it is driven, and its way from araxd to a process of its own. */
#include <errno.h>
#include <fcntl.h>
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

/* Then a device is lost whose processes end as they begin. */
#define MAX_FAILURES	3

int apart_enter_held(struct apart_device *d, struct channel **c)
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

int apart_enter(struct apart_device *d, struct channel **c)
{
	int err = apart_enter_held(d, c);

	if (err || !d->held)
		return err;
	pthread_rwlock_unlock(&d->lock);
	return -ENODEV;
}

void apart_leave(struct apart_device *d, struct channel *c)
{
	if (c)
		helper_give(c);
	pthread_rwlock_unlock(&d->lock);
}

struct channel *apart_visit(struct apart_device *d)
{
	pthread_rwlock_rdlock(&d->place_lock);
	return d->helper ? helper_take(d->helper) : NULL;
}

void apart_visited(struct apart_device *d, struct channel *c)
{
	if (c)
		helper_give(c);
	pthread_rwlock_unlock(&d->place_lock);
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
	d->info.uuid[sizeof(d->info.uuid) - 1] = '\0';
	pthread_mutex_init(&d->reset_lock, NULL);
	pthread_rwlock_init(&d->lock, NULL);
	pthread_rwlock_init(&d->place_lock, NULL);
	pthread_mutex_init(&d->kernels_lock, NULL);
	pthread_mutex_init(&d->one, NULL);
	pthread_mutex_init(&d->lanes_lock, NULL);
	pthread_mutex_init(&d->buffers_lock, NULL);
	d->watch.gone = apart_buffer_gone;
	hostmap_watch(&d->watch);
	*dev = d;
	return 0;
}

/* (both locks held alone, or nobody else is there) */
static void leave_helper(struct apart_device *d)
{
	apart_buffers_forget(d);
	if (d->helper)
		helper_stop(d->helper);
	d->helper = NULL;
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
	pthread_rwlock_destroy(&d->place_lock);
	pthread_mutex_destroy(&d->kernels_lock);
	pthread_mutex_destroy(&d->one);
	pthread_mutex_destroy(&d->lanes_lock);
	pthread_mutex_destroy(&d->buffers_lock);
	free(d);
}

/* ------------------------------------------------------------------ */
/* Moving                                                                */

/* (both locks held alone) With all that it has: the driver gives its memory back. */
static void leave_here(struct apart_device *d)
{
	const struct arax_backend *below = &d->stack->below;

	apart_lanes_take(d);
	for (struct apart_kernel *k = d->kernels; k; k = k->next)
		below->kernel_unload(d->here, k->here);
	apart_hosts_leave(d);
	below->close(d->here);
	d->here = NULL;
	d->held = false;
	if (!d->from_start)
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
	const char *const which[] = { d->info.bus, d->info.make, d->info.uuid };
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
	if (!err && d->turn != d->first)
		err = send_option(c, "careful", "yes");
	if (err && err != -ENOENT)
		return err;
	channel_begin(c, APART_OPEN)->index = d->index;
	err = channel_texts(c, which, 3);
	return err ? err : channel_call(c);
}

/* (lock held alone) */
static void leave(struct apart_device *d)
{
	/* What is registered or loaded here has to be gone before who takes it away goes on. */
	pthread_rwlock_wrlock(&d->place_lock);
	if (d->here && d->from_start)
		d->first = d->turn + 1;
	if (d->here)
		leave_here(d);
	leave_helper(d);
	d->moving = true;
	pthread_rwlock_unlock(&d->place_lock);
	d->turn++;
}

/*
 * By a descriptor of its own: the other one is its owner's, who may unload it meanwhile.  -EAGAIN: there
 * is none now.
 */
static int load_kernel(struct apart_device *d, struct channel *c, const struct apart_kernel *k)
{
	struct apart_kernel copy;
	int err;

	pthread_mutex_lock(&d->kernels_lock);
	copy = *k;
	if (!copy.gone)
		copy.desc.fd = fcntl(k->desc.fd, F_DUPFD_CLOEXEC, 0);
	err = copy.desc.fd < 0 ? -EAGAIN : 0;
	pthread_mutex_unlock(&d->kernels_lock);
	if (copy.gone)
		return 0;
	if (!err) {
		err = apart_kernel_load(d, c, &copy);
		close(copy.desc.fd);
	}
	if (err && err != -EAGAIN)
		log_err("kernel can't be loaded again", log_str("device", d->info.name),
			log_str("file", k->desc.file), log_str("kernel", k->desc.symbol),
			log_errno(err));
	return err;
}

/* (lock held alone, moving) To @h, which nobody else has. */
static int move(struct apart_device *d, struct helper *h)
{
	struct channel *c = helper_take(h);
	int err;

	if (!c)
		return -ENODEV;
	err = open_there(d, c);
	for (struct apart_kernel *k = d->kernels; !err && k; k = k->next) {
		helper_goes_on(h);
		err = load_kernel(d, c, k);
	}
	if (!err)
		apart_hosts_again(d, c);
	helper_give(c);
	return err;
}

/* (both locks held alone) Takes those out that were unloaded meanwhile. */
static struct apart_kernel *take_gone(struct apart_device *d)
{
	struct apart_kernel **link = &d->kernels, *gone = NULL, *k;

	while ((k = *link)) {
		if (!k->gone) {
			link = &k->next;
			continue;
		}
		*link = k->next;
		k->next = gone;
		gone = k;
	}
	return gone;
}

/* (lock held alone) From now on @h has the device; NULL: it is lost. */
static void arrive(struct apart_device *d, struct helper *h)
{
	struct channel *c = h ? helper_take(h) : NULL;
	struct apart_kernel *kernels;
	struct apart_host *hosts;

	pthread_rwlock_wrlock(&d->place_lock);
	kernels = take_gone(d);
	hosts = apart_hosts_arrive(d, h);
	if (h)
		helper_goes_on(h);
	d->helper = h;
	d->moving = false;
	pthread_rwlock_unlock(&d->place_lock);
	while (kernels) {
		struct apart_kernel *k = kernels;

		kernels = k->next;
		if (c)
			apart_kernel_unload(c, k);
		apart_kernel_free(k);
	}
	apart_hosts_bury(hosts, c);
	if (c)
		helper_give(c);
}

/* Of what others may have all for a while, or of time.  Not for what a backend says. */
static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EAGAIN ||
	       err == -ETIMEDOUT;
}

static const char *remedy(int err)
{
	switch (err) {
	case -EMFILE:
		return "more descriptors for araxd: LimitNOFILE= of its unit";
	case -ENFILE:
		return "more open files for the machine: the sysctl fs.file-max";
	case -EAGAIN:
		return "more processes and threads for araxd: TasksMax= of its unit, or the sysctl kernel.threads-max";
	case -ENOMEM:
		return "more memory: MemoryMax= of araxd's unit, or what else has the machine's";
	}
	return "give the machine time: it takes too long to begin a process";
}

/* Said once: it is tried again and again. */
static int not_now(struct apart_device *d, int err)
{
	if (!d->waits)
		log_warn(d->from_start && !d->came ? "device waits to be driven in a process of its own" :
						     "device waits to go on in a process of its own",
			 log_str("device", d->info.name), log_errno(err),
			 log_str("effect", "it runs nothing until then; that is tried again and again"),
			 log_str("remedy", remedy(err)));
	d->waits = true;
	return -EAGAIN;
}

/*
 * What has struck one need not strike the next: a kill for want of memory, or memory of the device that
 * others have for a while.  But it may strike each, and each takes its time.
 */
static int has_failed(struct apart_device *d, int err)
{
	if ((err == -EINTR || err == -ENOMEM) && ++d->failures < MAX_FAILURES) {
		log_warn("device is tried once more in a process of its own",
			 log_str("device", d->info.name), log_u64("failures", d->failures),
			 log_str("reason", err == -EINTR ? "a signal ended the one before" :
							   "there was no memory for it there"));
		return -EAGAIN;
	}
	log_err("device can't go on in a process of its own", log_str("device", d->info.name),
		log_str("reason", err == -EINTR ? "a signal ended it each time" : strerror(-err)),
		log_str("remedy", "mend what the lines above say, and restart araxd"), log_errno(err));
	d->failures = 0;
	return -ENODEV;
}

/* A descriptor of the program, or negative errno: then all stays as it is. */
static int find_program(const struct apart_device *d)
{
	int fd = libexec_open(PROGRAM, d->stack->program);

	return fd < 0 ? -errno : fd;
}

static const char *program_name(const struct apart_device *d)
{
	return d->stack->program ? d->stack->program : PROGRAM;
}

static int no_program(struct apart_device *d, int err)
{
	if (is_shortage(err))
		return not_now(d, err);
	d->waits = false;
	log_err("device can't go on in a process of its own: no such program",
		log_str("device", d->info.name), log_str("program", program_name(d)),
		log_str("remedy", "install it beside arax-worker, or set the backend's option helper"),
		log_errno(err));
	return -ENODEV;
}

static int reset_there(struct apart_device *d)
{
	int program = find_program(d), err;
	struct helper *h = NULL;
	bool began;

	if (program < 0)
		return no_program(d, program);
	/* First, so that those who wait for it let go of the lock. */
	if (d->helper)
		helper_kill(d->helper);
	pthread_rwlock_wrlock(&d->lock);
	/* What is held keeps what it has here, until there is a process. */
	if (!d->held)
		leave(d);
	err = helper_start(program, d->info.name, d->info.lanes + MORE_CHANNELS, &h);
	began = !err;
	if (began && d->held)
		leave(d);
	if (!err)
		err = move(d, h);
	if (err && began) {
		/* Whatever it was that it did not come to do. */
		err = helper_stop(h) ?: err;
		began = err != -EAGAIN;
		h = NULL;
	}
	if (!d->held)
		arrive(d, h);
	if (h)
		helper_serves(h);
	pthread_rwlock_unlock(&d->lock);
	close(program);
	if (!began && is_shortage(err))
		return not_now(d, err);
	d->waits = false;
	if (err)
		return has_failed(d, err);
	d->failures = 0;
	if (d->from_start && !d->came)
		log_info("device is driven in a process of its own",
			 log_str("device", d->info.name));
	d->came = true;
	return 0;
}

int apart_reset(struct apart_device *d)
{
	int err = -ENODEV;

	pthread_mutex_lock(&d->reset_lock);
	/* Beside other calls: the backend sees to that.  That it can't here has been seen if it waits. */
	if (d->here && !d->held && !d->waits)
		err = d->stack->below.reset(d->here);
	if (err == -ENODEV)
		err = reset_there(d);
	pthread_mutex_unlock(&d->reset_lock);
	return err;
}

/*
 * As it was opened: kernels can be loaded, so that what it can run is known.  All else says that it is
 * lost, until a reset() moves it.
 */
static int hold(struct apart_device *d)
{
	int err = d->here ? 0 : d->stack->below.open(d->index, &d->here);

	d->held = !err;
	return err;
}

int apart_move(struct apart_device *d, bool must)
{
	int program, err;

	pthread_mutex_lock(&d->reset_lock);
	program = find_program(d);
	if (program >= 0) {
		close(program);
	} else if (!must && !is_shortage(program)) {
		log_warn("device is driven in araxd itself: the program that it should be in is not there",
			 log_str("device", d->info.name), log_str("program", program_name(d)),
			 log_str("effect", "if the driver's runtime aborts its process, as ROCm's does for a kernel's bad access, araxd ends"),
			 log_str("remedy", "install it beside arax-worker, or set the backend's option helper; apart=no if that is meant"),
			 log_errno(program));
		pthread_mutex_unlock(&d->reset_lock);
		return 0;
	}
	d->from_start = true;
	d->held = true;
	err = reset_there(d);
	if (err == -EAGAIN)
		err = hold(d);
	pthread_mutex_unlock(&d->reset_lock);
	return err;
}
