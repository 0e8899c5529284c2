// SPDX-License-Identifier: MIT
#include "daemon/link/barred.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACL		"system.posix_acl_access"
#define LAST_ENTRIES	3u	/* its group, the mask, and all others */
#define OTHERS		0077	/* of a mode: all but the owner */

/* Of <linux/posix_acl.h>, which programs don't have. */
enum { USER_OBJ = 0x01, USER = 0x02, GROUP_OBJ = 0x04, MASK = 0x10, OTHER = 0x20 };
#define NO_ID		0xffffffffu

struct acl {
	struct posix_acl_xattr_header head;
	struct posix_acl_xattr_entry e[1 + BARRED_MOST + LAST_ENTRIES];
};

static void put(struct acl *a, uint32_t *n, int tag, mode_t may, uint32_t id)
{
	a->e[(*n)++] = (struct posix_acl_xattr_entry){
		.e_tag = htole16((uint16_t)tag), .e_perm = htole16(may & 7), .e_id = htole32(id),
	};
}

/* The whole of it each time: what the file has is ours alone. */
static int write_all(const struct barred *b)
{
	struct acl a = { .head.a_version = htole32(POSIX_ACL_XATTR_VERSION) };
	uint32_t n = 0;

	put(&a, &n, USER_OBJ, b->mode >> 6, NO_ID);
	for (uint32_t i = 0; i < b->nr; i++)
		put(&a, &n, USER, 0, b->uid[i]);
	put(&a, &n, GROUP_OBJ, b->mode >> 3, NO_ID);
	put(&a, &n, MASK, b->mode >> 3, NO_ID);
	put(&a, &n, OTHER, b->mode, NO_ID);
	return lsetxattr(b->path, ACL, &a, sizeof(a.head) + n * sizeof(*a.e), 0) ? -errno : 0;
}

int barred_add(struct barred *b, const char *path, uid_t uid)
{
	struct stat st;
	int err;

	for (uint32_t i = 0; i < b->nr; i++)
		if (b->uid[i] == uid)
			return -EEXIST;
	if (b->nr == BARRED_MOST)
		return -ENOSPC;
	if (lstat(path, &st))
		return -errno;
	/* The list says nothing of its owner, who could let himself in as well. */
	if (st.st_uid == uid)
		return -EPERM;
	/* Somebody else's list has no place for ours, and its mode says of the mask what is its group's. */
	if (!b->nr && lgetxattr(path, ACL, NULL, 0) > 0)
		return -EBUSY;
	if (!b->nr)
		b->mode = st.st_mode;
	b->path = path;
	b->uid[b->nr++] = uid;
	err = write_all(b);
	if (err)
		b->nr--;
	return err;
}

int barred_shut(struct barred *b, const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return -errno;
	/* With an access list these are its mask and its last entry, which let nobody pass. */
	if (chmod(path, st.st_mode & ~OTHERS & 07777))
		return -errno;
	b->path = path;
	b->open_mode = st.st_mode & 07777;
	b->shut = true;
	return 0;
}

void barred_open(struct barred *b)
{
	struct stat st;

	/* If it has gone nobody comes. */
	if (!lstat(b->path, &st) && !(st.st_mode & OTHERS) && chmod(b->path, b->open_mode))
		return;
	b->shut = false;
}

const char *barred_remedy(int err)
{
	switch (err) {
	case -ENOSPC:
		return "as many users are barred as may be: end their programs; of one login's subordinate uids (/etc/subuid) stop the containers, or give it fewer";
	case -EPERM:
		return "end that user's programs: it is the socket's owner, whom no access list keeps out";
	case -EBUSY:
		return "end that user's programs, or take the access list from the socket, which is not araxd's (setfacl -b)";
	}
	return "have the socket where files have access lists (tmpfs), or end that user's programs";
}

void barred_remove(struct barred *b, uint32_t at)
{
	const uid_t uid = b->uid[at];
	int err;

	b->uid[at] = b->uid[--b->nr];
	err = b->nr ? write_all(b) : lremovexattr(b->path, ACL) ? -errno : 0;
	/* He is in the file's still: once more, later. */
	if (err && err != -ENODATA && err != -ENOENT)
		b->uid[b->nr++] = uid;
}
