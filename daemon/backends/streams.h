/* SPDX-License-Identifier: MIT */
/*
 * streams.h - files whose functions put work onto a device's streams, for backends
 *
 * A device has a struct stream_files.  Loading, unloading and closing come from one thread at a
 * time, and nothing of the file runs meanwhile but other functions of it; calls for one lane
 * come from one thread at a time.
 */
#ifndef ARAX_DAEMON_BACKENDS_STREAMS_H
#define ARAX_DAEMON_BACKENDS_STREAMS_H

#include <stdbool.h>

#include <arax/stream.h>

#include "daemon/backend.h"

#define STREAM_LANES	16	/* at most */

/**
 * struct stream_file - an open shared object
 * @library: of dlopen()
 * @close: its arax_stream_close(), or NULL
 * @behind: its arax_stream_behind
 * @state: of each lane
 */
struct stream_file {
	struct stream_file *next;
	uint32_t users;
	void *library;
	arax_stream_close_fn *close;
	bool behind;
	void *state[STREAM_LANES];
};

struct stream_files {
	struct stream_file *first;
};

/* A kernel's implementation. */
struct stream_function {
	struct stream_file *file;
	arax_stream_fn *call;
};

/**
 * stream_load - open a file and find a function
 * @at:	the device, without stream and state
 * @why: of @len bytes: the reason of an error
 *
 * -ENOEXEC: no shared object, -ENOENT: no such function, and @f->call is NULL; or what the file's
 * arax_stream_open() says.
 */
int stream_load(struct stream_files *files, const struct arax_backend_kernel *desc,
		const struct arax_stream *at, struct stream_function *f, char *why, size_t len);
/*
 * @streams: of each of @nr lanes, of which @at has the rest; nothing runs on them that @f put there.
 * @nr 0: they can't be used now, and what the file keeps for them waits for stream_close().
 */
void stream_unload(struct stream_files *files, struct stream_function *f,
		   const struct arax_stream *at, void *const *streams, uint32_t nr);
/* All that files keep for their streams goes, as these do. */
void stream_close(struct stream_files *files, const struct arax_stream *at, void *const *streams,
		  uint32_t nr);
/* As the function says, but for what a function can't say.  @at has all but stream and state. */
int stream_call(const struct stream_function *f, const struct arax_launch *l,
		const struct arax_stream *at, void *stream, uint32_t lane);

#endif /* ARAX_DAEMON_BACKENDS_STREAMS_H */
