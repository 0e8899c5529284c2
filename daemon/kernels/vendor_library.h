/* SPDX-License-Identifier: MIT */
/* vendor_library.h - vendors' libraries, opened at run time */
#ifndef ARAX_KERNELS_VENDOR_LIBRARY_H
#define ARAX_KERNELS_VENDOR_LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>

#include <arax/stream.h>

struct vendor_call {
	const char *name;
	void **call;
};

/**
 * struct vendor_library - what is opened
 * @names:	for dlopen(), the newest version first; NULL behind the last
 * @none:	what to say if there is none of them
 * @calls:	that it must have; a name of NULL behind the last
 * @suits:	whether it can work on the device, else a negative errno and @why; -ENOENT: the next
 *		name may.  NULL: it can
 */
struct vendor_library {
	const char *const *names;
	const char *none;
	const struct vendor_call *calls;
	int (*suits)(const struct arax_stream *s, void *library, char *why, size_t len);
};

static inline int vendor_library_take(const struct vendor_library *v, void *library, char *why,
				      size_t len)
{
	for (const struct vendor_call *c = v->calls; c->name; c++) {
		*c->call = dlsym(library, c->name);
		if (!*c->call) {
			snprintf(why, len, "there is no %s in it", c->name);
			return -ENOENT;
		}
	}
	return 0;
}

/* Fills the calls in, once one is found that suits.  0, or a negative errno and @why of @len bytes. */
static inline int vendor_library_open(const struct vendor_library *v, const struct arax_stream *s,
				      void **library, char *why, size_t len)
{
	int err = -ENOENT;

	why[0] = '\0';
	for (const char *const *name = v->names; err == -ENOENT && *name; name++) {
		/* Threads, exit handlers, state of threads: it stays. */
		void *one = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		char text[128];

		if (!one && !why[0])
			snprintf(why, len, "%s: %s", v->none, dlerror());
		if (!one)
			continue;
		err = v->suits ? v->suits(s, one, text, sizeof(text)) : 0;
		if (!err)
			err = vendor_library_take(v, one, text, sizeof(text));
		if (err)
			snprintf(why, len, "%s: %s", *name, text);
		else
			*library = one;
	}
	return err;
}

#endif /* ARAX_KERNELS_VENDOR_LIBRARY_H */
