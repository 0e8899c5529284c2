// SPDX-License-Identifier: MIT
/* Shared objects, by the dynamic linker; a split kernel on the cores that the worker has. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backends/gang.h"
#include "daemon/backends/loader.h"
#include "daemon/worker/engine.h"
#include "daemon/worker/idmap.h"

struct image {
	void *library;		/* NULL: it can't be loaded, see why */
	char *why;
};

static struct gang *gang;
static struct idmap images;

static int open_engine(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return -errno;
	return gang_create(&cpus, &gang);
}

/* What the loader says, without the name by which it knows the file: that is nothing to people. */
static char *loader_says(const char *path, int fd)
{
	const char *text = dlerror() ?: "";
	size_t n = strlen(path);

	if (!strncmp(text, path, n) && !strncmp(text + n, ": ", 2))
		text = loader_hides(path, fd) ?: text + n + 2;
	return strdup(text);
}

/* The descriptor stays open: its number is the library's name to dlopen(). */
static struct image *open_image(uint64_t id, int fd, bool *keep)
{
	struct image *i = idmap_get(&images, id);
	char path[32];

	if (i)
		return i;
	i = calloc(1, sizeof(*i));
	if (!i || idmap_put(&images, id, i))
		_exit(1);
	*keep = true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	i->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!i->library)
		i->why = loader_says(path, fd);
	return i;
}

static void load(const struct worker_msg *msg, int fd, bool *keep, struct loaded *k)
{
	const struct image *i = open_image(msg->bytes, fd, keep);

	k->why = i->why;
	if (i->library) {
		k->kernel = dlsym(i->library, msg->symbol);
		if (!k->kernel && asprintf(&k->why, "it has no function %s, or does not show it to others",
					   msg->symbol) < 0)
			k->why = NULL;
	}
	k->err = !i->library ? -ENOEXEC : !k->kernel ? -ENOENT : 0;
}

static int run(const struct loaded *k, const struct arax_launch *l, const struct engine_how *how)
{
	arax_kernel_fn *fn = (arax_kernel_fn *)k->kernel;

	if (how->one_thread)
		return fn(l);
	gang_limit(gang, how->cores);
	return gang_run(gang, fn, l, k->flags & WORKER_KERNEL_SPLIT);
}

const struct engine engine_native = { .open = open_engine, .load = load, .run = run };
