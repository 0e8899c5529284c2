// SPDX-License-Identifier: MIT
/* From a file to a module on a device.  The driver keeps what it compiles of PTX. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/gpu/gpu.h"

#define LOG_BYTES	8192u
#define MAX_LOG_LINES	40

/* Other devices read it at the same time: no file position. */
static int read_file(struct gpu_device *d, const struct arax_backend_kernel *k,
		     struct gpu_module *m)
{
	struct stat st;
	ssize_t n;

	if (fstat(k->fd, &st))
		return -errno;
	if (st.st_size > GPU_MAX_FILE) {
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: longer than %u bytes", k->file, GPU_MAX_FILE);
		return -E2BIG;
	}
	m->image = malloc((size_t)st.st_size + 1);
	if (!m->image)
		return -ENOMEM;
	while (m->bytes < (size_t)st.st_size) {
		n = pread(k->fd, m->image + m->bytes, (size_t)st.st_size - m->bytes,
			  (off_t)m->bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		m->bytes += (size_t)n;
	}
	m->image[m->bytes] = '\0';	/* PTX is text */
	return 0;
}

static void tell_log(struct gpu_device *d, const struct gpu_module *m, char *log)
{
	char *line, *state;
	int lines = 0;

	for (line = strtok_r(log, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
		if (lines++ == MAX_LOG_LINES)
			break;
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: %s", m->file, line);
	}
}

int gpu_module_load(struct gpu_device *d, struct gpu_module *m)
{
	const struct gpu_driver *v = d->driver;
	char *log = malloc(LOG_BYTES);
	int err, code;

	if (!log)
		return -ENOMEM;
	err = v->module_load(m->image, log, LOG_BYTES, &m->module);
	code = gpu_check(d, err, m->file);
	if (err) {
		m->module = NULL;
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: can't be loaded on %s (%s): %s", m->file,
			d->name, d->limits.arch, v->error_name(err));
		tell_log(d, m, log);
		/* Whatever the driver calls it, the file is at fault; but for these. */
		if (code != -ENODEV && code != -ENOMEM)
			code = -ENOEXEC;
	}
	free(log);
	return code;
}

static void module_free(struct gpu_module *m)
{
	free(m->image);
	free(m);
}

static struct gpu_module *find(struct gpu_device *d, const struct gpu_module *like)
{
	for (struct gpu_module *m = d->modules; m; m = m->next)
		if (m->bytes == like->bytes && !memcmp(m->image, like->image, m->bytes))
			return m;
	return NULL;
}

int gpu_module_get(struct gpu_device *d, const struct arax_backend_kernel *k,
		   struct gpu_module **module)
{
	struct gpu_module *m = calloc(1, sizeof(*m)), *same;
	int err;

	if (!m)
		return -ENOMEM;
	snprintf(m->file, sizeof(m->file), "%s", k->file);
	err = read_file(d, k, m);
	if (!err && !d->driver->is_image(m->image, m->bytes)) {
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: is not %s: %s", k->file, d->driver->images,
			d->driver->remedy);
		err = -ENOEXEC;
	}
	same = err ? NULL : find(d, m);
	if (!err && !same)
		err = gpu_module_load(d, m);
	if (err || same)
		module_free(m);
	if (err)
		return err;
	if (!same) {
		m->next = d->modules;
		d->modules = m;
		same = m;
	}
	same->users++;
	*module = same;
	return 0;
}

void gpu_module_put(struct gpu_device *d, struct gpu_module *m, bool entered)
{
	struct gpu_module **link = &d->modules;

	if (--m->users)
		return;
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	if (m->module && entered)
		d->driver->module_unload(m->module);
	module_free(m);
}
