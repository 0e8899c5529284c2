// SPDX-License-Identifier: MIT
#include "daemon/backends/apart/serve.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/plugin.h"
#include "daemon/log.h"
#include "daemon/memory/guard.h"
#include "daemon/reason.h"
#include "daemon/worker/idmap.h"

/*
 * That kernels are of.  One descriptor for all of them, for as long as its library is there: by
 * each that it was opened by, its number is a name of the library (streams.c), and would be for
 * whatever file had that number next.
 */
struct file {
	struct file *next;
	dev_t dev;
	ino_t ino;
	int fd;
	uint32_t users;
};

struct kernel {
	void *kernel;
	struct file *file;
	char *symbol;
};

struct registered {
	struct registered *next;
	void *host;
};

struct buffer {
	uint8_t *base;
	uint64_t bytes;
	uint32_t guard;
	struct registered *registered;
};

static struct backend_plugin plugin;
static const struct arax_backend *ops = &plugin.ops;
static void *dev;
static bool ready;	/* @dev is open: see serve_call() */

/*
 * What numbers mean: @fds, +1 each, until a call takes them.  What a call finds in the other
 * two stays until it is over: araxd unloads and unmaps what no call is using.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct idmap fds, kernels, buffers;

/* Not @lock: who closes a file may wait for one that is being loaded. */
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;

/* ------------------------------------------------------------------ */
/* Numbers                                                               */

void serve_fd(uint64_t id, int fd)
{
	pthread_mutex_lock(&lock);
	if (idmap_put(&fds, id, (void *)((intptr_t)fd + 1)))
		_exit(APART_EXIT_SHORT);
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&lock);
}

/* araxd sent it before it called. */
static int take_fd(uint64_t id)
{
	void *fd;

	pthread_mutex_lock(&lock);
	while (!(fd = idmap_del(&fds, id)))
		pthread_cond_wait(&arrived, &lock);
	pthread_mutex_unlock(&lock);
	return (int)((intptr_t)fd - 1);
}

static void *find(const struct idmap *m, uint64_t id)
{
	void *p;

	pthread_mutex_lock(&lock);
	p = idmap_get(m, id);
	pthread_mutex_unlock(&lock);
	return p;
}

static int put(struct idmap *m, uint64_t id, void *p)
{
	int err;

	pthread_mutex_lock(&lock);
	err = idmap_get(m, id) ? -EEXIST : idmap_put(m, id, p);
	pthread_mutex_unlock(&lock);
	return err;
}

static void *take(struct idmap *m, uint64_t id)
{
	void *p;

	pthread_mutex_lock(&lock);
	p = idmap_del(m, id);
	pthread_mutex_unlock(&lock);
	return p;
}

/* The @nr texts in the stage.  -EINVAL: they don't end there. */
static int texts(const struct slot *s, const char **text, uint32_t nr)
{
	const char *at = (const char *)s->stage, *end = at + APART_STAGE;

	for (uint32_t i = 0; i < nr; i++) {
		size_t n = strnlen(at, (size_t)(end - at));

		if (n == (size_t)(end - at))
			return -EINVAL;
		text[i] = at;
		at += n + 1;
	}
	return 0;
}

/* ------------------------------------------------------------------ */
/* The backend and its device                                            */

static int serve_plugin(struct slot *s)
{
	char why[512] = "";
	const char *name;
	int fd = s->call.fd ? take_fd(s->call.fd) : -1, err = texts(s, &name, 1);

	if (plugin.ops.name)
		err = -EEXIST;
	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	backend_plugins_shared(s->call.flags);
	err = backend_plugin_load_here(&plugin, name, fd, why, sizeof(why));
	if (err)
		log_err("backend refused", log_str("backend", name), log_str("reason", why));
	return !err && ops->load ? ops->load() : err;
}

static int serve_config(const struct slot *s)
{
	const char *text[2];
	int err = texts(s, text, 2);

	if (err)
		return err;
	return plugin.ops.config ? plugin.ops.config(text[0], text[1]) : -ENOENT;
}

/* Drivers number what they find when a process begins: one that is lost, or new, moves others. */
static int check_device(const char *const which[3])
{
	struct arax_backend_info is = { .size = sizeof(is) };
	int err = ops->info(dev, &is);

	is.bus[sizeof(is.bus) - 1] = '\0';
	is.make[sizeof(is.make) - 1] = '\0';
	is.uuid[sizeof(is.uuid) - 1] = '\0';
	if (err || (!strcmp(is.bus, which[0]) && !strcmp(is.make, which[1]) &&
		    !strcmp(is.uuid, which[2])))
		return err;
	log_err("device is another one now", log_str("backend", ops->name), log_str("bus", is.bus),
		log_str("make", is.make), log_str("uuid", is.uuid), log_str("wanted_bus", which[0]),
		log_str("wanted_make", which[1]), log_str("wanted_uuid", which[2]),
		log_str("remedy", "restart araxd, which looks anew for what there is"));
	return -ENODEV;
}

static int serve_open(const struct slot *s)
{
	const char *which[3];
	char why[512] = "";
	int n, err = plugin.ops.open ? texts(s, which, 3) : -EINVAL;

	if (!err && ops->config_complete)
		err = ops->config_complete();
	if (err)
		return err;
	n = ops->probe(why, sizeof(why));
	why[sizeof(why) - 1] = '\0';
	if (n <= 0 || s->call.index >= (uint32_t)n) {
		log_err("device is not there any more", log_str("backend", ops->name),
			log_str("reason", why[0] ? why : "there are fewer of them"));
		return -ENODEV;
	}
	err = ops->open(s->call.index, &dev);
	if (!err)
		err = check_device(which);
	/* Release: pairs with serve_call(), by another thread. */
	if (!err)
		__atomic_store_n(&ready, true, __ATOMIC_RELEASE);
	return err;
}

/* ------------------------------------------------------------------ */
/* Kernels and launches                                                  */

/* @fd is its, or closed. */
static struct file *open_file(int fd)
{
	struct file *f;
	struct stat st;

	if (fstat(fd, &st))
		_exit(1);
	pthread_mutex_lock(&files_lock);
	for (f = files; f && (f->dev != st.st_dev || f->ino != st.st_ino); f = f->next)
		;
	if (f) {
		close(fd);
	} else {
		f = calloc(1, sizeof(*f));
		if (!f)
			_exit(APART_EXIT_SHORT);
		*f = (struct file){ .next = files, .dev = st.st_dev, .ino = st.st_ino, .fd = fd };
		files = f;
	}
	f->users++;
	pthread_mutex_unlock(&files_lock);
	return f;
}

/* Some libraries never go, and what has states on broken streams goes later. */
static bool has_library(const struct file *f)
{
	char path[32];
	void *library;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (library)
		dlclose(library);
	return library;
}

static void close_file(struct file *f)
{
	struct file **link = &files;

	pthread_mutex_lock(&files_lock);
	if (!--f->users && !has_library(f)) {
		while (*link != f)
			link = &(*link)->next;
		*link = f->next;
		close(f->fd);
		free(f);
	}
	pthread_mutex_unlock(&files_lock);
}

static void free_kernel(struct kernel *k)
{
	close_file(k->file);
	free(k->symbol);
	free(k);
}

static int serve_kernel_load(const struct slot *s)
{
	struct arax_backend_kernel desc = { .size = sizeof(desc), .flags = s->call.flags };
	struct kernel *k = calloc(1, sizeof(*k));
	const char *text[3];
	int err = texts(s, text, 3);

	if (!k)
		_exit(APART_EXIT_SHORT);
	k->file = open_file(take_fd(s->call.fd));
	if (!err) {
		desc.fd = k->file->fd;
		desc.file = text[0];
		desc.symbol = text[1];
		desc.signature = text[2];
		k->symbol = strdup(desc.symbol);
		err = ops->kernel_load(dev, &desc, &k->kernel);
	}
	if (!err) {
		err = put(&kernels, s->call.kernel, k);
		if (err)
			ops->kernel_unload(dev, k->kernel);
	}
	if (err)
		free_kernel(k);
	return err;
}

static int serve_kernel_unload(const struct slot *s)
{
	struct kernel *k = take(&kernels, s->call.kernel);

	if (!k)
		return -EINVAL;
	ops->kernel_unload(dev, k->kernel);
	free_kernel(k);
	return 0;
}

static int serve_launch(struct slot *s, bool wait)
{
	struct apart_call *c = &s->call;
	const struct kernel *k = find(&kernels, c->kernel);
	struct arax_launch l = {
		.size = sizeof(l), .nr_ranges = c->nr_ranges,
		.grid = { c->grid[0], c->grid[1], c->grid[2] },
		.block = { c->block[0], c->block[1], c->block[2] },
		.group_end = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2],
		.ranges = c->ranges, .args = c->args, .arg_len = c->arg_len,
	};
	struct arax_backend_run run = {
		.size = sizeof(run), .flags = c->flags, .lane = c->lane, .launch = &l,
		.deadline_ns = c->ns, .after = c->after,
	};
	int err;

	c->declined = 0;
	if (!k || l.nr_ranges > APART_RANGES || l.arg_len > APART_ARGS)
		return -EINVAL;
	run.kernel = k->kernel;
	run.name = k->symbol ? k->symbol : "";
	err = wait ? ops->run(dev, &run) : ops->submit(dev, &run, c->cookie);
	c->device_ns = run.device_ns;
	c->alone = run.alone;
	c->declined = run.declined;
	return err;
}

static int serve_poll(struct slot *s)
{
	struct apart_call *c = &s->call;

	return ops->poll(dev, c->done, c->nr < APART_DONE ? c->nr : APART_DONE, c->ns);
}

/* ------------------------------------------------------------------ */
/* Memory                                                                */

/* A client may take its pages away: then they are zeros, here as in araxd. */
static int serve_map(const struct slot *s)
{
	struct buffer *b = calloc(1, sizeof(*b));
	int fd = take_fd(s->call.fd), err;

	if (!b)
		_exit(APART_EXIT_SHORT);
	if (!guard_may_map(fd)) {
		close(fd);
		err = -EINVAL;
		goto free;
	}
	b->bytes = s->call.bytes;
	b->base = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	err = b->base == MAP_FAILED ? -errno : 0;
	close(fd);
	if (err)
		goto free;
	err = guard_add(b->base, b->bytes, 1, &b->guard);
	if (err)
		goto unmap;
	err = put(&buffers, s->call.buffer, b);
	if (!err)
		return 0;
	guard_remove(b->guard);
unmap:
	munmap(b->base, b->bytes);
free:
	free(b);
	return err;
}

static int serve_unmap(const struct slot *s)
{
	struct buffer *b = take(&buffers, s->call.buffer);

	if (!b)
		return -EINVAL;
	/* Whatever araxd has said: the driver must not keep pages that are another's next. */
	while (b->registered) {
		struct registered *r = b->registered;

		b->registered = r->next;
		ops->host_unregister(dev, r->host);
		free(r);
	}
	guard_remove(b->guard);
	munmap(b->base, b->bytes);
	free(b);
	return 0;
}

/* The @bytes that a call is about; NULL: they are not where it says. */
static void *place(struct slot *s, uint64_t bytes)
{
	const struct apart_call *c = &s->call;
	const struct buffer *b;

	if (!c->buffer)
		return !c->offset && bytes <= APART_STAGE ? s->stage : NULL;
	b = find(&buffers, c->buffer);
	return b && c->offset <= b->bytes && bytes <= b->bytes - c->offset ? b->base + c->offset :
									      NULL;
}

static int serve_copy(struct slot *s, bool in)
{
	const struct apart_call *c = &s->call;
	void *host = place(s, c->bytes);

	if (!host)
		return -EFAULT;
	return in ? ops->copy_in(dev, c->lane, c->address, host, c->bytes) :
		    ops->copy_out(dev, c->lane, host, c->address, c->bytes);
}

static int serve_register(struct slot *s)
{
	struct buffer *b = s->call.buffer ? find(&buffers, s->call.buffer) : NULL;
	void *host = b ? place(s, s->call.bytes) : NULL;
	struct registered *r;
	int err;

	if (!host)
		return -EFAULT;
	err = ops->host_register(dev, host, s->call.bytes);
	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r)
		_exit(APART_EXIT_SHORT);
	r->host = host;
	pthread_mutex_lock(&lock);
	r->next = b->registered;
	b->registered = r;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int serve_unregister(struct slot *s)
{
	struct buffer *b = s->call.buffer ? find(&buffers, s->call.buffer) : NULL;
	void *host = b ? place(s, 0) : NULL;
	struct registered **link, *r;

	if (!host)
		return -EFAULT;
	pthread_mutex_lock(&lock);
	for (link = &b->registered; *link && (*link)->host != host; link = &(*link)->next)
		;
	r = *link;
	if (r)
		*link = r->next;
	pthread_mutex_unlock(&lock);
	if (!r)
		return -EINVAL;
	ops->host_unregister(dev, host);
	free(r);
	return 0;
}

static int serve_gauges(struct slot *s)
{
	struct apart_call *c = &s->call;

	memset(&c->gauges, 0, sizeof(c->gauges));
	c->gauges.size = sizeof(c->gauges);
	return ops->gauges(dev, &c->gauges, (char *)s->stage, APART_STAGE);
}

/* ------------------------------------------------------------------ */

static int serve_first(struct slot *s)
{
	switch (s->call.op) {
	case APART_PLUGIN:
		return serve_plugin(s);
	case APART_CONFIG:
		return serve_config(s);
	case APART_OPEN:
		return serve_open(s);
	}
	return -EINVAL;
}

/* araxd calls nothing that its own copy of the backend doesn't have. */
static int serve_device(struct slot *s)
{
	struct apart_call *c = &s->call;

	switch (c->op) {
	case APART_KERNEL_LOAD:
		return serve_kernel_load(s);
	case APART_KERNEL_UNLOAD:
		return serve_kernel_unload(s);
	case APART_RUN:
		return serve_launch(s, true);
	case APART_SUBMIT:
		return serve_launch(s, false);
	case APART_WAIT:
		return ops->wait(dev, c->lane, &c->done[0]);
	case APART_POLL:
		return serve_poll(s);
	case APART_QUIESCE:
		return ops->quiesce(dev, c->ns);
	case APART_ALLOC:
		return ops->alloc(dev, c->bytes, c->address, &c->address);
	case APART_FREE:
		ops->free(dev, c->address);
		return 0;
	case APART_MAP:
		return serve_map(s);
	case APART_UNMAP:
		return serve_unmap(s);
	case APART_COPY_IN:
		return serve_copy(s, true);
	case APART_COPY_OUT:
		return serve_copy(s, false);
	case APART_REGISTER:
		return serve_register(s);
	case APART_UNREGISTER:
		return serve_unregister(s);
	case APART_GAUGES:
		return serve_gauges(s);
	}
	return -EINVAL;
}

/*
 * A call that was made after the answer to another one sees what that did, by way of araxd: of
 * which ThreadSanitizer sees nothing.
 */
static void order_calls(bool over)
{
#ifdef __SANITIZE_THREAD__
	static uint32_t calls;

	if (over)
		__atomic_fetch_add(&calls, 1, __ATOMIC_RELEASE);
	else
		__atomic_load_n(&calls, __ATOMIC_ACQUIRE);
#else
	(void)over;
#endif
}

void serve_call(struct slot *s)
{
	/* Acquire: what was opened is there. */
	bool open = __atomic_load_n(&ready, __ATOMIC_ACQUIRE);

	order_calls(false);
	__atomic_store_n(&s->call.taken, 1, __ATOMIC_RELEASE);
	reason_forget();
	s->call.result = open ? serve_device(s) : serve_first(s);
	if (reason_text[0])
		memcpy(s->call.why, reason_text, REASON_LEN);
	else
		s->call.why[0] = '\0';
	order_calls(true);
}
