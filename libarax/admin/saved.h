/* SPDX-License-Identifier: MIT */
/*
 * saved.h - limits of tenants that outlive a reboot
 *
 * A folder of files *.conf, see arax-tenants(5), in the order of their names: what
 * comes later holds.  `arax tenant` writes one of them and reads all; araxd reads
 * all.  A value, key or path that can't be is reported and left out; the others
 * are there.  Two threads may read at the same time, each into a list of its own.
 */
#ifndef LIBARAX_ADMIN_SAVED_H
#define LIBARAX_ADMIN_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libarax/admin/setting.h"

#define SAVED_PARENT	"/etc/arax"
#define SAVED_FOLDER	SAVED_PARENT "/tenants.d"
#define SAVED_OWN	"90-saved.conf"		/* that of `arax tenant` */
#define SAVED_MAX	4096			/* limits of all files */

struct saved_limit {
	char *cgroup;		/* from the mount point on: "/", "/a/b" */
	char *key;
	char *value;
	char *file;		/* where it stands */
	int line;
	uint32_t hash;		/* of cgroup and key */
	bool overruled;		/* a later one says otherwise */
	struct tenant_setting setting;
	uint64_t id;		/* the reader's: of the cgroup, 0: none */
	uint64_t told;		/* the reader's: the cgroup of which was said that it can't be set */
};

struct saved {
	size_t count;
	struct saved_limit *at;	/* in the order of files and lines */
};

/* @error: "FILE:LINE: what, and what would be right"; printable. */
typedef void saved_report(void *arg, const char *error);

/* NULL, or what is wrong with it as a cgroup's path. */
const char *saved_check_cgroup(const char *cgroup);

/*
 * Adds what a text says.  0; -EINVAL: something was reported, all the rest was
 * added; -ENOMEM.
 */
int saved_parse(struct saved *s, const char *file, const char *text, size_t bytes,
		saved_report *report, void *arg);

/*
 * Adds what a folder's files say.  The folder and each file must be trusted (see
 * trusted.h).  -ENOENT: there is no such folder, which is not reported.
 */
int saved_read(struct saved *s, const char *folder, saved_report *report, void *arg);

/* Does no later one say otherwise? */
bool saved_holds(const struct saved *s, size_t i);
/* The one that holds, or NULL. */
const struct saved_limit *saved_find(const struct saved *s, const char *cgroup, const char *key);

/* Well-formed words only.  -ENOMEM; -E2BIG: there are SAVED_MAX already. */
int saved_add(struct saved *s, const char *file, int line, const char *cgroup, const char *key,
	      const char *value);
void saved_remove(struct saved *s, size_t i);

/*
 * The text of the file @file with its limits, also those that another file overrules.  NULL: no
 * memory.
 */
char *saved_format(const struct saved *s, const char *file);

/*
 * Puts @text in the place of folder/name, as a whole or not at all, also if the
 * machine dies meanwhile.  The caller has locked the folder (flock).  Negative errno.
 */
int saved_replace(int folder, const char *name, const char *text);

void saved_free(struct saved *s);

#endif /* LIBARAX_ADMIN_SAVED_H */
