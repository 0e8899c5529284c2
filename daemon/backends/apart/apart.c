// SPDX-License-Identifier: MIT
/* The operations of daemon/backend.h, for a device that is here or apart. */
#include "daemon/backends/apart/apart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/reason.h"

/* ------------------------------------------------------------------ */
/* What araxd tells the backend, and a helper has to be told again       */

static void forget_options(struct apart_stack *s)
{
	while (s->nr_options) {
		struct apart_option *o = &s->options[--s->nr_options];

		free(o->key);
		free(o->value);
	}
	free(s->program);
	s->program = NULL;
	s->when = APART_AUTO;
}

static int stack_load(struct apart_stack *s)
{
	forget_options(s);
	return s->below.load ? s->below.load() : 0;
}

static int set_program(struct apart_stack *s, const char *value)
{
	char *copy;

	if (value[0] != '/') {
		reason_set("want a path that begins with /");
		return -EINVAL;
	}
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(s->program);
	s->program = copy;
	return 0;
}

static int set_when(struct apart_stack *s, const char *value)
{
	static const char *const words[] = { "auto", "no", "yes" };

	for (enum apart_when i = APART_AUTO; i <= APART_YES; i++)
		if (!strcmp(value, words[i])) {
			s->when = i;
			return 0;
		}
	reason_set("want auto, no or yes");
	return -EINVAL;
}

static int note_option(struct apart_stack *s, const char *key, const char *value)
{
	struct apart_option *more = realloc(s->options, (s->nr_options + 1) * sizeof(*more));
	struct apart_option o = { strdup(key), strdup(value) };

	if (more)
		s->options = more;
	if (!more || !o.key || !o.value) {
		free(o.key);
		free(o.value);
		return -ENOMEM;
	}
	more[s->nr_options++] = o;
	return 0;
}

static int stack_config(struct apart_stack *s, const char *key, const char *value)
{
	int err;

	if (!strcmp(key, "helper"))
		return set_program(s, value);
	if (!strcmp(key, "apart"))
		return set_when(s, value);
	err = s->below.config ? s->below.config(key, value) : -ENOENT;
	return err ? err : note_option(s, key, value);
}

/* ROCm's runtime aborts the process that a kernel's bad access is of: that must not be araxd. */
static int stack_open(struct apart_stack *s, uint32_t index, struct apart_device **dev)
{
	int err = apart_open(s, index, dev);

	if (err || s->when == APART_NO ||
	    (s->when == APART_AUTO && (*dev)->info.kind != ARAX_DEVICE_HIP))
		return err;
	err = apart_move(*dev, s->when == APART_YES);
	if (err)
		apart_close(*dev);
	return err;
}

/* ------------------------------------------------------------------ */
/* Kernels                                                               */

void apart_kernel_free(struct apart_kernel *k)
{
	free((char *)k->desc.file);
	free((char *)k->desc.symbol);
	free((char *)k->desc.signature);
	free(k);
}

/* The file stays open until it is unloaded, so that it can be loaded elsewhere. */
static struct apart_kernel *make_kernel(const struct arax_backend_kernel *desc)
{
	struct apart_kernel *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->desc = (struct arax_backend_kernel){
		.size = sizeof(k->desc), .flags = desc->flags, .fd = desc->fd,
		.file = strdup(desc->file), .symbol = strdup(desc->symbol),
		.signature = strdup(desc->signature),
	};
	if (k->desc.file && k->desc.symbol && k->desc.signature)
		return k;
	apart_kernel_free(k);
	return NULL;
}

static int kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	struct apart_device *d = dev;
	struct apart_kernel *k = make_kernel(desc);
	struct channel *c;
	int err;

	if (!k)
		return -ENOMEM;
	err = apart_enter_held(d, &c);
	if (err) {
		apart_kernel_free(k);
		return err;
	}
	k->id = __atomic_add_fetch(&d->last_kernel, 1, __ATOMIC_RELAXED);
	err = c ? apart_kernel_load(d, c, k) : d->stack->below.kernel_load(d->here, desc, &k->here);
	if (!err) {
		pthread_mutex_lock(&d->kernels_lock);
		k->next = d->kernels;
		d->kernels = k;
		pthread_mutex_unlock(&d->kernels_lock);
		*kernel = k;
	} else {
		apart_kernel_free(k);
	}
	apart_leave(d, c);
	return err;
}

static void kernel_unload(void *dev, void *kernel)
{
	struct apart_device *d = dev;
	struct apart_kernel *k = kernel, **link;
	struct channel *c;

	c = apart_visit(d);
	pthread_mutex_lock(&d->kernels_lock);
	k->gone = d->moving;
	for (link = &d->kernels; !k->gone && *link != k; link = &(*link)->next)
		;
	if (!k->gone)
		*link = k->next;
	pthread_mutex_unlock(&d->kernels_lock);
	if (d->here)
		d->stack->below.kernel_unload(d->here, k->here);
	else if (c)
		apart_kernel_unload(c, k);
	/* Else it is whoever moves the device who frees it. */
	if (!d->moving)
		apart_kernel_free(k);
	apart_visited(d, c);
}

/* ------------------------------------------------------------------ */
/* Launches                                                              */

/* As far as its size and ours go. */
static void copy_run(struct arax_backend_run *to, const struct arax_backend_run *from)
{
	uint32_t size = from->size < sizeof(*to) ? from->size : sizeof(*to);

	memset((char *)to + size, 0, sizeof(*to) - size);
	memcpy(to, from, size);
	to->size = size;
	to->kernel = ((const struct apart_kernel *)from->kernel)->here;
}

static int run(void *dev, struct arax_backend_run *run)
{
	struct apart_device *d = dev;
	struct arax_backend_run here;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	if (c) {
		err = apart_run(d, c, run);
	} else {
		copy_run(&here, run);
		err = d->stack->below.run(d->here, &here);
		if (here.size >= offsetof(struct arax_backend_run, device_ns) +
				 sizeof(here.device_ns))
			run->device_ns = here.device_ns;
		if (here.size >= offsetof(struct arax_backend_run, alone) + sizeof(here.alone))
			run->alone = here.alone;
		if (here.size >= offsetof(struct arax_backend_run, declined) + sizeof(here.declined))
			run->declined = here.declined;
	}
	apart_leave(d, c);
	return err;
}

static int submit(void *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	struct apart_device *d = dev;
	struct arax_backend_run here;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	if (c) {
		err = apart_lane_submit(d, c, run, cookie);
	} else {
		copy_run(&here, run);
		err = d->stack->below.submit(d->here, &here, cookie);
	}
	apart_leave(d, c);
	return err;
}

/* What was submitted is reported, whether or not there is a device still. */
static struct channel *enter_any(struct apart_device *d)
{
	pthread_rwlock_rdlock(&d->lock);
	return d->helper ? helper_take(d->helper) : NULL;
}

static int wait_for(void *dev, uint32_t lane, struct arax_backend_done *done)
{
	struct apart_device *d = dev;
	struct channel *c = enter_any(d);
	int err = d->here ? d->stack->below.wait(d->here, lane, done) :
			    apart_lane_wait(d, c, lane, done);

	apart_leave(d, c);
	return err;
}

static int poll(void *dev, struct arax_backend_done *done, uint32_t max, uint64_t timeout_ns)
{
	struct apart_device *d = dev;
	struct channel *c = enter_any(d);
	int n = d->here ? d->stack->below.poll(d->here, done, max, timeout_ns) :
			  apart_lane_poll(d, c, done, max, timeout_ns);

	apart_leave(d, c);
	return n;
}

static int quiesce(void *dev, uint64_t deadline_ns)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter(d, &c);

	/* Nothing runs on one that is lost. */
	if (err)
		return 0;
	err = c ? apart_quiesce(c, deadline_ns) : d->stack->below.quiesce(d->here, deadline_ns);
	apart_leave(d, c);
	return err;
}

/* ------------------------------------------------------------------ */
/* Memory                                                                */

static int alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	err = c ? apart_alloc(c, bytes, wanted, address) :
		  d->stack->below.alloc(d->here, bytes, wanted, address);
	apart_leave(d, c);
	return err;
}

static void free_memory(void *dev, uint64_t address)
{
	struct apart_device *d = dev;
	struct channel *c = apart_visit(d);

	if (c)
		apart_free(c, address);
	else if (d->here)
		d->stack->below.free(d->here, address);
	apart_visited(d, c);
}

static int copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	err = c ? apart_copy_in(d, c, lane, to, from, bytes) :
		  d->stack->below.copy_in(d->here, lane, to, from, bytes);
	apart_leave(d, c);
	return err;
}

static int copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	err = c ? apart_copy_out(d, c, lane, to, from, bytes) :
		  d->stack->below.copy_out(d->here, lane, to, from, bytes);
	apart_leave(d, c);
	return err;
}

/* Two processes have no way from one device to the other but the host. */
static int copy_peer(void *dev, uint64_t to, void *src_dev, uint64_t from, uint64_t bytes)
{
	struct apart_device *d = dev, *src = src_dev;
	struct apart_device *first = d->index < src->index ? d : src;
	struct apart_device *second = first == d ? src : d;
	int err = -EOPNOTSUPP;

	pthread_rwlock_rdlock(&first->lock);
	if (second != first)
		pthread_rwlock_rdlock(&second->lock);
	if (d->here && src->here && !d->held && !src->held)
		err = d->stack->below.copy_peer(d->here, to, src->here, from, bytes);
	if (second != first)
		pthread_rwlock_unlock(&second->lock);
	pthread_rwlock_unlock(&first->lock);
	return err;
}

static int host_register(void *dev, void *host, uint64_t bytes)
{
	struct apart_device *d = dev;
	const struct arax_backend *below = &d->stack->below;
	struct channel *c;
	int err = apart_enter(d, &c);

	if (err)
		return err;
	if (c) {
		err = apart_host_register(d, c, host, bytes);
	} else {
		err = below->host_register(d->here, host, bytes);
		if (!err) {
			err = apart_host_note(d, host, bytes);
			if (err)
				below->host_unregister(d->here, host);
		}
	}
	apart_leave(d, c);
	return err;
}

static void host_unregister(void *dev, void *host)
{
	struct apart_device *d = dev;
	struct channel *c = apart_visit(d);

	if (apart_host_unregister(d, c, host) && d->here)
		d->stack->below.host_unregister(d->here, host);
	apart_visited(d, c);
}

/* ------------------------------------------------------------------ */
/* The device itself                                                     */

static void close_device(void *dev)
{
	apart_close(dev);
}

static int info(void *dev, struct arax_backend_info *info)
{
	const struct apart_device *d = dev;
	uint32_t size = info->size;

	memcpy(info, &d->info, size < sizeof(*info) ? size : sizeof(*info));
	info->size = size;
	if (size >= offsetof(struct arax_backend_info, lost) + sizeof(info->lost))
		info->lost = d->held;
	return 0;
}

static int reset(void *dev)
{
	return apart_reset(dev);
}

static int gauges(void *dev, struct arax_backend_gauges *g, char *why, uint32_t len)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter_held(d, &c);

	if (err) {
		snprintf(why, len, "the device is lost");
		return -EOPNOTSUPP;
	}
	err = c ? apart_gauges(c, g, why, len) : d->stack->below.gauges(d->here, g, why, len);
	apart_leave(d, c);
	return err;
}

static int follows(void *dev)
{
	struct apart_device *d = dev;
	struct channel *c;
	int err = apart_enter_held(d, &c);

	if (err)
		return 0;
	/* It is the same backend there, and has a say at each launch. */
	err = c ? 1 : d->stack->below.follows(d->here);
	apart_leave(d, c);
	return err;
}

/* ------------------------------------------------------------------ */
/* The two                                                               */

/* Operations before there is a device are given nothing to know their backend by. */
#define APART_BACKEND(which) \
	static struct apart_stack which##_stack = { .name = #which }; \
	static int which##_load(void) { return stack_load(&which##_stack); } \
	static int which##_config(const char *key, const char *value) \
	{ return stack_config(&which##_stack, key, value); } \
	static int which##_open(uint32_t index, void **dev) \
	{ return stack_open(&which##_stack, index, (struct apart_device **)dev); }

APART_BACKEND(cuda)
APART_BACKEND(hip)

static const struct {
	struct apart_stack *stack;
	int (*load)(void);
	int (*config)(const char *key, const char *value);
	int (*open)(uint32_t index, void **dev);
} stacks[] = {
	{ &cuda_stack, cuda_load, cuda_config, cuda_open },
	{ &hip_stack, hip_load, hip_config, hip_open },
};

/* What takes memory or kernels in ways that a helper has none of stays as it is. */
static bool can_move(const struct arax_backend *b)
{
	return b->reset && !b->configuration && !b->alloc_on;
}

void apart_wrap(struct backend_plugin *p, const char *name)
{
	const struct arax_backend *b = &p->ops;
	size_t i = 0;

	while (i < sizeof(stacks) / sizeof(stacks[0]) && strcmp(stacks[i].stack->name, name))
		i++;
	if (i == sizeof(stacks) / sizeof(stacks[0]) || !can_move(b))
		return;
	forget_options(stacks[i].stack);
	stacks[i].stack->below = *b;
	stacks[i].stack->fd = p->fd;
	p->ops = (struct arax_backend){
		.struct_size = b->struct_size, .api_version = b->api_version, .name = b->name,
		.longname = b->longname, .version = b->version,
		.load = stacks[i].load, .unload = b->unload, .config = stacks[i].config,
		.config_complete = b->config_complete, .probe = b->probe,
		.open = stacks[i].open, .close = close_device, .info = info,
		.kernel_load = kernel_load, .kernel_unload = kernel_unload, .run = run,
		.alloc = b->alloc ? alloc : NULL, .free = b->free ? free_memory : NULL,
		.copy_in = b->copy_in ? copy_in : NULL, .copy_out = b->copy_out ? copy_out : NULL,
		.copy_peer = b->copy_peer ? copy_peer : NULL,
		.host_register = b->host_register && b->host_unregister ? host_register : NULL,
		.host_unregister = b->host_register && b->host_unregister ? host_unregister : NULL,
		.submit = b->submit ? submit : NULL, .poll = b->poll ? poll : NULL,
		.wait = b->wait ? wait_for : NULL, .quiesce = b->quiesce ? quiesce : NULL,
		.reset = reset, .gauges = b->gauges ? gauges : NULL,
		.follows = b->follows ? follows : NULL,
	};
}
