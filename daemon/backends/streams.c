// SPDX-License-Identifier: MIT
#include "daemon/backends/streams.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "uapi/arax.h"

_Static_assert((int)ARAX_STREAM_OPENCL == (int)ARAX_DEVICE_OPENCL &&
	       (int)ARAX_STREAM_CUDA == (int)ARAX_DEVICE_CUDA &&
	       (int)ARAX_STREAM_HIP == (int)ARAX_DEVICE_HIP, "kinds are those of devices");

static void end_states(struct stream_file *file, const struct arax_stream *at, void *const *streams,
		       uint32_t nr)
{
	struct arax_stream s = *at;

	for (uint32_t i = 0; i < nr; i++) {
		if (!file->state[i])
			continue;
		s.stream = streams[i];
		s.state = &file->state[i];
		if (file->close)
			file->close(&s);
		file->state[i] = NULL;
	}
}

/* Another reference to the library is the caller's, or goes. */
static struct stream_file *find(struct stream_files *files, void *library)
{
	const uint32_t *behind;
	struct stream_file *file;

	for (file = files->first; file; file = file->next)
		if (file->library == library) {
			dlclose(library);
			return file;
		}
	file = calloc(1, sizeof(*file));
	if (!file) {
		dlclose(library);
		return NULL;
	}
	file->library = library;
	file->close = (arax_stream_close_fn *)dlsym(library, "arax_stream_close");
	behind = dlsym(library, "arax_stream_behind");
	file->behind = behind && *behind;
	file->next = files->first;
	files->first = file;
	return file;
}

static bool has_states(const struct stream_file *file)
{
	for (uint32_t i = 0; i < STREAM_LANES; i++)
		if (file->state[i])
			return true;
	return false;
}

static void put(struct stream_files *files, struct stream_file *file)
{
	struct stream_file **link = &files->first;

	/* With states that could not be ended it waits for stream_close(). */
	if (file->users || has_states(file))
		return;
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	dlclose(file->library);
	free(file);
}

int stream_load(struct stream_files *files, const struct arax_backend_kernel *desc,
		const struct arax_stream *at, struct stream_function *f, char *why, size_t len)
{
	arax_stream_open_fn *open;
	struct stream_file *file;
	char path[32];
	void *library;
	int err = 0;

	f->call = NULL;
	/* As the CPU backend does it, and for its reasons. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", desc->fd);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(why, len, "%s", dlerror());
		return -ENOEXEC;
	}
	file = find(files, library);
	if (!file) {
		snprintf(why, len, "out of memory");
		return -ENOMEM;
	}
	f->file = file;
	f->call = (arax_stream_fn *)dlsym(file->library, desc->symbol);
	if (!f->call) {
		snprintf(why, len, "there is no function %s in it", desc->symbol);
		err = -ENOENT;
	}
	open = (arax_stream_open_fn *)dlsym(file->library, "arax_stream_open");
	if (!err && open) {
		snprintf(why, len, "it can't work here");
		err = open(at, why, len);
	}
	if (err)
		put(files, file);
	else
		file->users++;
	return err;
}

void stream_unload(struct stream_files *files, struct stream_function *f,
		   const struct arax_stream *at, void *const *streams, uint32_t nr)
{
	if (!--f->file->users)
		end_states(f->file, at, streams, nr);
	put(files, f->file);
	f->file = NULL;
}

void stream_close(struct stream_files *files, const struct arax_stream *at, void *const *streams,
		  uint32_t nr)
{
	struct stream_file *next;

	for (struct stream_file *file = files->first; file; file = next) {
		next = file->next;
		end_states(file, at, streams, nr);
		put(files, file);
	}
}

int stream_call(const struct stream_function *f, const struct arax_launch *l,
		const struct arax_stream *at, void *stream, uint32_t lane)
{
	struct arax_stream s = *at;
	int err;

	s.stream = stream;
	s.state = &f->file->state[lane];
	err = f->call(l, &s);
	/* Of the two the one is for the backend to say; by the other it would be called again. */
	return err == -ENODEV || err == -EAGAIN || err > 0 ? -EIO : err;
}
