/* SPDX-License-Identifier: MIT */
/*
 * registry.h - the kernels that the administrator installed
 *
 * Filled at start from the folders of `kernels.path`, read-only afterwards, so
 * look-ups need no lock.  What is loaded and what is refused, and why, is
 * logged.
 *
 * A folder, a manifest or a library is used only if it belongs to root (or to
 * the daemon's own uid if it is not root) and neither its group nor the world
 * may write to it; it is opened once without following links, checked on that
 * descriptor, and never opened by name again.
 */
#ifndef ARAX_DAEMON_KERNELS_REGISTRY_H
#define ARAX_DAEMON_KERNELS_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/kernels/signature.h"
#include "daemon/kernels/steps.h"

#define REGISTRY_MAX_KERNELS	4096
#define MANIFEST_MAX_BYTES	(1u << 20)
#define MANIFEST_MAX_IMPLS	8

/* Where addresses and trip counts come from. */
enum kernel_addressing {
	KERNEL_ADDRESSING_LAUNCH,	/* geometry, lengths, arguments: may run in araxd */
	KERNEL_ADDRESSING_DATA,		/* buffer contents too: only in a worker */
};

/*
 * What a launch may be at most, and on a GPU.  Nothing is said of its steps: its work goes by its
 * ranges' lengths, or it can be ended.
 * @busy: work-groups that it has something for; nothing is said: for all
 */
struct kernel_work {
	struct steps steps, busy;
	uint64_t most, most_gpu;
};

struct kernel_impl {
	uint32_t kind;		/* ARAX_DEVICE_* */
	int fd;			/* open as long as the registry */
	char *file;		/* for messages */
	char *symbol;
	bool host, gpus;	/* its entry is a function on the host; GPUs alone take it */
};

/* A kernel that a program brought: it is in no registry. */
#define KERNEL_NO_INDEX		(~0u)

struct kernel {
	uint32_t index;		/* 0 .. registry_count() - 1 */
	uint64_t serial;	/* no two kernels of a daemon's life have the same */
	uint32_t kinds;		/* bit per kind with an implementation */
	enum kernel_addressing addressing;
	bool split;		/* work-groups may run at once */
	uint64_t image;		/* if foreign: a serial number of what it is in; 0: it is alone there */
	uint32_t in_image;	/* if foreign: how many are; 0: it is alone there */
	bool foreign;		/* a program's code: addressing is data, index KERNEL_NO_INDEX */
	uint64_t owner;		/* of foreign: only those of one owner share a process; 0: none do */
	struct signature sig;	/* name, canonical text, arax_signature */
	char *library;		/* name and version, for people */
	bool apart;		/* what is written overlaps no other range */
	struct kernel_work work;
	struct steps parts;	/* of a launch on cores, which may be any others; nothing is said: it has none */
	struct steps size;	/* of a launch, which its time goes by; nothing is said: by its ranges */
	uint32_t nr_impls;
	struct kernel_impl impls[MANIFEST_MAX_IMPLS];
};

struct registry;

struct registry *registry_create(void);
void registry_destroy(struct registry *r);

/*
 * Load every *.json of a folder, in order of name.  A bad manifest is refused
 * whole and logged, the others are loaded.  Returns the number of kernels
 * added; negative if the folder can't be used (-EPERM: owner or mode).
 */
int registry_load_folder(struct registry *r, const char *path);

uint32_t registry_count(const struct registry *r);
const struct kernel *registry_at(const struct registry *r, uint32_t index);
const struct kernel *registry_find(const struct registry *r, const char *name);
const struct kernel_impl *kernel_impl(const struct kernel *k, uint32_t kind);
/* The one behind @impl of the same kind, or NULL. */
const struct kernel_impl *kernel_impl_next(const struct kernel *k, const struct kernel_impl *impl);

#endif /* ARAX_DAEMON_KERNELS_REGISTRY_H */
