// SPDX-License-Identifier: MIT
#include "daemon/backends/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/backends/apart/apart.h"
#include "daemon/backends/builtin.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "libarax/admin/trusted.h"

static const struct arax_backend *cpu_backend_init(const struct arax_backend_host *h)
{
	return &cpu_backend;
}

static const struct arax_backend *sim_backend_init(const struct arax_backend_host *h)
{
	return &sim_backend;
}

static const struct {
	const char *name;
	arax_backend_init_fn *init;
} builtin_backends[] = {
	{ "cpu", cpu_backend_init }, { "opencl", opencl_backend_init },
	{ "cuda", cuda_backend_init }, { "hip", hip_backend_init },
	{ "xrt", xrt_backend_init }, { "sim", sim_backend_init },
};

static const struct arax_filter *const builtin_filters[] = { &delay_filter, &error_filter,
							     &stats_filter };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void host_log(int level, const char *plugin, const char *text)
{
	if (level < ARAX_LOG_ERR)
		level = ARAX_LOG_ERR;
	if (level > ARAX_LOG_DEBUG)
		level = ARAX_LOG_DEBUG;
	log_at((enum log_level)level, "plug-in says", log_str("plugin", plugin),
	       log_str("text", text));
}

static void host_explain(const char *text)
{
	reason_set("%s", text);
}

static struct arax_backend_host host = {
	.struct_size = sizeof(host),
	.api_version = ARAX_BACKEND_API,
	.log = host_log,
	.explain = host_explain,
};

void backend_plugins_shared(bool shared)
{
	host.shared = shared;
}

bool backend_plugins_are_shared(void)
{
	return host.shared;
}

/* @fd becomes the library's, or is closed. */
static int load_symbol(int fd, const char *symbol, void **library, void **init, char *why,
		       size_t len)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*library) {
		snprintf(why, len, "%s", dlerror());
		close(fd);
		return -ENOEXEC;
	}
	*init = dlsym(*library, symbol);
	if (!*init) {
		snprintf(why, len, "has no symbol %s", symbol);
		dlclose(*library);
		close(fd);
		return -ENOEXEC;
	}
	return 0;
}

static int open_symbol(const char *file, const char *symbol, void **library, int *fd, void **init,
		       char *why, size_t len)
{
	*fd = trusted_open_path(file, why, len);
	return *fd < 0 ? *fd : load_symbol(*fd, symbol, library, init, why, len);
}

/*
 * Copy what both sides know.  The plug-in's first two words are its size and
 * version whatever its age.
 */
static int take(void *ops, size_t size, size_t min, const void *theirs, char *why, size_t len)
{
	uint32_t head[2];

	if (!theirs) {
		snprintf(why, len, "init returned NULL");
		return -EINVAL;
	}
	memcpy(head, theirs, sizeof(head));
	if (head[1] != ARAX_BACKEND_API) {
		snprintf(why, len, "is of API version %u, this araxd has %u", head[1],
			 ARAX_BACKEND_API);
		return -EINVAL;
	}
	if (head[0] < min) {
		snprintf(why, len, "its struct has %u bytes, the first version had %zu", head[0], min);
		return -EINVAL;
	}
	memset(ops, 0, size);
	memcpy(ops, theirs, head[0] < size ? head[0] : size);
	return 0;
}

static int check_name(const char *theirs, const char *wanted, char *why, size_t len)
{
	/* "delay.slow" is an instance of "delay". */
	size_t n = strcspn(wanted, ".");

	if (theirs && strlen(theirs) == n && !memcmp(theirs, wanted, n))
		return 0;
	snprintf(why, len, "calls itself %s, not %.*s", theirs ? theirs : "nothing", (int)n, wanted);
	return -EINVAL;
}

static int check_backend(const struct arax_backend *b, const char *name, char *why, size_t len)
{
	const char *absent = !b->probe	       ? "probe" :
			     !b->open	       ? "open" :
			     !b->close	       ? "close" :
			     !b->info	       ? "info" :
			     !b->kernel_load   ? "kernel_load" :
			     !b->kernel_unload ? "kernel_unload" :
			     !b->run	       ? "run" :
						 NULL;

	if (absent) {
		snprintf(why, len, "lacks the mandatory call %s", absent);
		return -EINVAL;
	}
	return check_name(b->name, name, why, len);
}

int backend_plugin_load_here(struct backend_plugin *p, const char *name, int fd, char *why,
			     size_t len)
{
	const struct arax_backend *theirs = NULL;
	int err;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	if (fd >= 0) {
		void *init;

		err = load_symbol(fd, "arax_backend_init", &p->library, &init, why, len);
		if (err)
			return err;
		p->fd = fd;
		theirs = ((arax_backend_init_fn *)init)(&host);
	} else {
		for (size_t i = 0; i < COUNT(builtin_backends); i++)
			if (!strcmp(builtin_backends[i].name, name))
				theirs = builtin_backends[i].init(&host);
		if (!theirs) {
			snprintf(why, len, "no such backend is built in: give its file");
			return -ENOENT;
		}
	}
	err = take(&p->ops, sizeof(p->ops), ARAX_BACKEND_SIZE_MIN, theirs, why, len);
	if (!err)
		err = check_backend(&p->ops, name, why, len);
	if (err)
		backend_plugin_unload(p);
	return err;
}

int backend_plugin_load(struct backend_plugin *p, const char *name, const char *file, char *why,
			size_t len)
{
	int fd = file ? trusted_open_path(file, why, len) : -1;
	int err = file && fd < 0 ? fd : backend_plugin_load_here(p, name, fd, why, len);

	if (!err)
		apart_wrap(p, name);
	return err;
}

void backend_plugin_unload(struct backend_plugin *p)
{
	if (p->library)
		dlclose(p->library);
	if (p->fd >= 0)
		close(p->fd);
	p->library = NULL;
	p->fd = -1;
}

int filter_plugin_load(struct filter_plugin *p, const char *name, const char *file, char *why,
		       size_t len)
{
	const struct arax_filter *theirs = NULL;
	int err;

	memset(p, 0, sizeof(*p));
	p->fd = -1;
	if (file) {
		void *init;

		err = open_symbol(file, "arax_filter_init", &p->library, &p->fd, &init, why, len);
		if (err)
			return err;
		theirs = ((arax_filter_init_fn *)init)(&host);
	} else {
		char unused[8];

		for (size_t i = 0; i < COUNT(builtin_filters); i++)
			if (!check_name(builtin_filters[i]->name, name, unused, sizeof(unused)))
				theirs = builtin_filters[i];
		if (!theirs) {
			snprintf(why, len, "no such filter is built in: give its file");
			return -ENOENT;
		}
	}
	err = take(&p->ops, sizeof(p->ops), ARAX_FILTER_SIZE_MIN, theirs, why, len);
	if (!err && (!p->ops.create || !p->ops.destroy)) {
		snprintf(why, len, "lacks the mandatory call %s",
			 p->ops.create ? "destroy" : "create");
		err = -EINVAL;
	}
	if (!err)
		err = check_name(p->ops.name, name, why, len);
	if (err)
		filter_plugin_unload(p);
	return err;
}

void filter_plugin_unload(struct filter_plugin *p)
{
	if (p->library)
		dlclose(p->library);
	if (p->fd >= 0)
		close(p->fd);
	p->library = NULL;
	p->fd = -1;
}
