/* SPDX-License-Identifier: MIT */
/* What `arax tenant` reads from and writes to the folder of saved limits. */
#ifndef LIBARAX_CLI_TENANT_H
#define LIBARAX_CLI_TENANT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "libarax/admin/saved.h"

struct tenant_path {
	char mount[PATH_MAX / 4];
	char cgroup[PATH_MAX / 4];	/* from there on: "/", "/a/b" */
};

struct tenant_files {
	struct saved saved;
	const char *folder;
	char own[PATH_MAX];		/* the file that is ours to write */
	int at;				/* the folder; -1 */
	int lock;			/* of who changes it; -1 */
};

/* To show.  Errors are told, what is right is there. */
void files_read(struct tenant_files *f, const char *folder);
/* A JSON array of "KEY=VALUE" of the cgroup with this id; null if there is none. */
json_t *files_of_tenant(struct tenant_files *f, uint64_t id);
/* The same by the cgroup's name, which need not be there. */
json_t *files_of_path(struct tenant_files *f, const char *cgroup);
/* The row of a cgroup that is not there; takes @saved. */
json_t *no_tenant(const char *cgroup, json_t *saved);
/* Adds a row for each cgroup that has saved limits and was not asked for yet. */
void files_add_others(struct tenant_files *f, json_t *rows);

/*
 * Makes the folder if there is none, locks it, reads it, and changes what it says
 * in memory.  False, with nothing to close, after saying why not.
 */
bool files_change(struct tenant_files *f, const char *folder, const char *cgroup, int argc,
		  char **argv, bool unset);
/* Returns the exit status. */
int files_write(struct tenant_files *f);
/* After an unset: which of these keys another file sets still, and which one. */
void files_tell_others(const struct tenant_files *f, const char *cgroup, int argc, char **argv);
void files_close(struct tenant_files *f);

#endif /* LIBARAX_CLI_TENANT_H */
