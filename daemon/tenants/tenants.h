/* SPDX-License-Identifier: MIT */
/*
 * tenants.h - the saved limits, put upon cgroups as these appear
 *
 * A limit belongs to a cgroup, not to its name: who removes the cgroup and makes
 * one of that name has a new one without limits.  So the folders in which a named
 * cgroup can appear are watched, and so is the folder of the files (folder.h).
 *
 * Any thread may look at them: the main one does when the descriptor is readable,
 * the broker's before it takes a new client, whose cgroup is older than the connection.
 */
#ifndef ARAXD_TENANTS_TENANTS_H
#define ARAXD_TENANTS_TENANTS_H

#include <arax/uapi.h>

/*
 * So often is asked for what no descriptor tells (see folder.h): of the files' folder another may be in
 * place.  Who arrives meanwhile has the limits of the one before.
 */
#define TENANTS_CHECK_MS	60000
/*
 * So long what the files said holds when their folder is gone: who replaces it moves it away
 * first, and nobody is to be without limits meanwhile.  Not what went file by file before.
 */
#define TENANTS_GRACE_MS	10000

struct tenants;

/* Sets one limit on each link; a->cgroup_fd is open.  Negative errno. */
typedef int tenants_set(void *arg, const struct arax_limit *a);

/*
 * @folder: of the files (see saved.h); @mount: of cgroup2.  What they say is set as
 * far as its cgroups exist; what can't be is logged.  NULL: no memory.
 */
struct tenants *tenants_create(const char *folder, const char *mount, tenants_set *set, void *arg);
/* Readable if there is something to look at; -1: never. */
int tenants_fd(const struct tenants *t);
/*
 * Has POLLPRI, once, when something was mounted or unmounted, perhaps on the way to the files: then is
 * tenants_event_paced() to be called; -1: never.
 */
int tenants_mounts_fd(const struct tenants *t);
/* All that has appeared until now has its limits then, as the files are that the descriptor tells of. */
void tenants_event(struct tenants *t);
/*
 * The same, but a cgroup that comes and goes as fast as its owner can is not looked at each
 * time.  To be called again when a descriptor tells of something, and after so many ms at the latest.
 */
int tenants_event_paced(struct tenants *t);
/*
 * Reads the files anew and sets all that they say, also what was changed since by
 * hand.  Files with an error change nothing; without their folder all is taken back at once.
 */
void tenants_reload(struct tenants *t);
/* How many limits are in force, for tests and the log. */
unsigned int tenants_in_force(struct tenants *t);
void tenants_destroy(struct tenants *t);

#endif /* ARAXD_TENANTS_TENANTS_H */
