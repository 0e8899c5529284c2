/* SPDX-License-Identifier: MIT */
/*
 * module.h - kernels that a program brought: an image in a memfd, and what is in it
 *
 * What comes from the program is copied once, checked, and only the copy is used; the image
 * is not looked into at all, that is for the process that may run it (runner.h).
 *
 * A table has the modules of one link's contexts.  All calls on one come from one thread
 * (the poller); module_create() may come from any.
 */
#ifndef ARAX_DAEMON_KERNELS_MODULE_H
#define ARAX_DAEMON_KERNELS_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/kernels/registry.h"

/* What an image was built to. */
struct module_built {
	uint32_t device;	/* that it is for */
	int fd;			/* sealed */
};

/**
 * struct module - an image and its kernels
 * @context:	whose it is, once it is in a table
 * @first_id:	of its first kernel, the others follow
 * @refs:	one of the table, one of each task that runs
 * @bytes:	of the image, and of what it was built to
 * @fd:		sealed
 * @kind:	enum arax_device_kind that it is for
 * @built:	for each device that runs it, where it has to be built first
 */
struct module {
	struct module *next;
	uint32_t context;
	uint32_t first_id;
	uint32_t refs;
	uint32_t nr_kernels;
	uint64_t bytes;
	int fd;
	uint32_t kind;
	uint32_t nr_built;
	struct module_built *built;
	struct kernel kernels[];
};

/**
 * module_create - make a module of what a program gave
 * @a:		copied and read once
 * @table:	@a->nr_kernels entries: copied and checked once, too
 * @why:	what is wrong, for people
 *
 * -EINVAL, -E2BIG; -EOPNOTSUPP: a kind that no worker can run; -ENOMEM.  It has one
 * reference, the caller's.
 */
int module_create(const struct arax_module_load *a, const void *image, uint64_t bytes,
		  const struct arax_module_kernel *table, struct module **m, char *why, size_t len);
/* Bytes that are kept for one: of its image, and what is known of its kernels. */
uint64_t module_cost(uint64_t bytes, uint32_t nr_kernels);
/* For @device, too; the descriptor is the module's from now on, whatever is returned.  -ENOMEM. */
int module_add_built(struct module *m, uint32_t device, int fd);
/* -1: it was not built for that one. */
int module_built(const struct module *m, uint32_t device);
/* Whoever has the last reference closes it.  It takes as long as its pages take to go. */
void module_destroy(struct module *m);

#define MODULE_BUCKETS	256

/* @seed: so that nobody can choose whose bucket he shares; drawn at the first modules_add() */
struct modules {
	struct module *buckets[MODULE_BUCKETS];
	uint64_t seed;
	uint32_t last_id;
};

/* Gives it its ids, and takes the reference.  -ENOSPC: the context has ARAX_MAX_MODULES. */
int modules_add(struct modules *ms, uint32_t context, struct module *m);
/* NULL: the context has no such kernel. */
struct module *modules_find(const struct modules *ms, uint32_t context, uint32_t id);
/* Takes one out, and gives its reference; NULL: there is none. */
struct module *modules_take(struct modules *ms, uint32_t context, uint32_t id);
/* One of the context's, to be taken out; NULL: there are none left. */
struct module *modules_any(const struct modules *ms, uint32_t context);
/* Of all contexts. */
struct module *modules_first(const struct modules *ms);

static inline const struct kernel *module_kernel(const struct module *m, uint32_t id)
{
	return &m->kernels[id - m->first_id];
}

/* What the program is told of a kernel. */
void module_describe(const struct module *m, uint32_t i, struct arax_module_kernel *out);

#endif /* ARAX_DAEMON_KERNELS_MODULE_H */
