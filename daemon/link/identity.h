/* SPDX-License-Identifier: MIT */
/*
 * identity.h - who is at the other end of a socket, and whose tenant
 *
 * The kernel says who connected; the tenant is that process's cgroup at that
 * moment, which no word of the program changes.
 */
#ifndef ARAXD_LINK_IDENTITY_H
#define ARAXD_LINK_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct core;
struct core_tenant;
struct identity;

struct peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
	bool root;	/* uid 0 with CAP_SYS_ADMIN, in our user namespace: not a container's */
	char comm[16];
	char cgroup[4096];	/* path in the v2 hierarchy, "/" if unknown */
};

/* Finds the cgroup2 mount.  NULL: no memory. */
struct identity *identity_create(void);
/* The same with a directory of any file system for the mount of cgroup @root.  For tests. */
struct identity *identity_create_at(const char *mount, const char *root);
void identity_destroy(struct identity *id);

/* 0, or why it is not to be asked any more: of @peer all but comm and cgroup is known. */
typedef int identity_may(void *arg, const struct peer *peer);

/*
 * The process that connected @fd, in the cgroup of its main thread or, if that has
 * ended, of one that lives.  What it says of itself takes time, some of it as it likes: so @may, or
 * NULL, is asked before.  -ESRCH: it is gone, another now has its number, or of its 60 oldest threads
 * all have ended; -ENAMETOOLONG: its cgroup can't be told.
 */
int identity_peer(int fd, identity_may *may, void *arg, struct peer *peer);

/*
 * The tenant of a cgroup's path and all above it; a reference is taken.  Where the
 * cgroup is not there, or nests deeper than CORE_TENANT_DEPTH, it is an ancestor's.
 * Takes core->lock.  -ENOMEM; -ENOENT: nothing of it is there.
 */
int identity_tenant(struct identity *id, struct core *core, const char *path,
		    struct core_tenant **out);

/*
 * The same by an open directory of the cgroup2 file system, with core->lock
 * held.  -EBADF: not a directory of it; -ENOENT: it has been removed; -ELOOP: @itself,
 * and it would be an ancestor's; -EOPNOTSUPP: no cgroup2 is mounted.
 */
int identity_tenant_by_fd(struct identity *id, struct core *core, int fd, bool itself,
			  struct core_tenant **out);

/* For core_ops.tenant_gone and tenant_free: a tenant's link is its directory's path. */
bool identity_tenant_gone(const struct identity *id, const struct core_tenant *t);
void identity_tenant_free(struct core_tenant *t);

/* The directory of this process's cgroup.  -ENOENT: it is not below what is mounted. */
int identity_own_cgroup(const struct identity *id, char *dir, size_t len);

/* The path in "0::PATH\n" of /proc/PID/cgroup's text; -ENOENT.  For tests. */
int identity_parse_cgroup(const char *text, char *path, size_t len);

#endif /* ARAXD_LINK_IDENTITY_H */
