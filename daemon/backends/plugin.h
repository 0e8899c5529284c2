/* SPDX-License-Identifier: MIT */
/*
 * plugin.h - take a backend's or filter's struct, built in or from a file
 */
#ifndef ARAX_DAEMON_BACKENDS_PLUGIN_H
#define ARAX_DAEMON_BACKENDS_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/backend.h"

/* What was loaded; `ops` has today's size, NULL where the plug-in ends. */
struct backend_plugin {
	struct arax_backend ops;
	void *library;
	int fd;		/* keeps the library's name in /proc/self/fd its own */
};

struct filter_plugin {
	struct arax_filter ops;
	void *library;
	int fd;
};

/* Before any is loaded: whether programs of several users will be served; else not. */
void backend_plugins_shared(bool shared);
bool backend_plugins_are_shared(void);

/*
 * -EINVAL: not this ABI, too short, a mandatory call is absent, or another name
 * than @name; -ENOEXEC: not loadable; -EPERM and errors of open.  `why` says
 * what.  @file NULL: built in, -ENOENT if there is none of that name.
 */
int backend_plugin_load(struct backend_plugin *p, const char *name, const char *file, char *why,
			size_t len);
/*
 * Likewise, the file already open and the plug-in's from now on, or -1; and what drives GPUs
 * stays in this process whatever happens to it (see apart/apart.h).
 */
int backend_plugin_load_here(struct backend_plugin *p, const char *name, int fd, char *why,
			     size_t len);
void backend_plugin_unload(struct backend_plugin *p);

int filter_plugin_load(struct filter_plugin *p, const char *name, const char *file, char *why,
		       size_t len);
void filter_plugin_unload(struct filter_plugin *p);

#endif /* ARAX_DAEMON_BACKENDS_PLUGIN_H */
