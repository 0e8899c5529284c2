// SPDX-License-Identifier: MIT
/*
 * Landlock takes away every right it knows of and gives one back: to read files
 * beneath the folders below.  Memory files lie beneath nothing: what comes as a
 * descriptor can be opened through /proc/self/fd still, which dlopen() needs.
 */
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Where the C library and what may come with a module's needs are found. */
static const char *const readable[] = {
	"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
};

/* struct landlock_ruleset_attr as of ABI 6; what an older kernel does not know is left out. */
struct ruleset {
	uint64_t files, network, scopes;
};

#define RIGHTS_NETWORK	0x3u	/* ABI 4: bind and connect TCP */
#define SCOPES		0x3u	/* ABI 6: abstract sockets, signals */
#define NO_AUDIT	0x1u	/* ABI 7: LOG_SAME_EXEC_OFF: nobody may fill the audit log */

/* All rights on files, by ABI: 13 of them, then REFER, TRUNCATE and IOCTL_DEV. */
static const uint64_t rights_files[] = { 0, 0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff };

#define LAST_ABI	(int)(sizeof(rights_files) / sizeof(rights_files[0]) - 1)

static int create(int abi)
{
	struct ruleset r = {
		.files = rights_files[abi > LAST_ABI ? LAST_ABI : abi],
		.network = abi >= 4 ? RIGHTS_NETWORK : 0,
		.scopes = abi >= 6 ? SCOPES : 0,
	};
	size_t size = abi >= 6 ? sizeof(r) : abi >= 4 ? offsetof(struct ruleset, scopes) :
							offsetof(struct ruleset, network);
	long fd = syscall(SYS_landlock_create_ruleset, &r, size, 0);

	return fd < 0 ? -errno : (int)fd;
}

static int allow(int ruleset, const char *path)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
		.parent_fd = open(path, O_PATH | O_CLOEXEC),
	};
	int err = 0;

	if (rule.parent_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
		err = -errno;
	close(rule.parent_fd);
	return err;
}

int sandbox_files(const char **missing)
{
	int abi = sandbox_landlock_abi(), ruleset, err = 0;

	if (abi < 1) {
		*missing = SANDBOX_NO_LANDLOCK;
		return -EOPNOTSUPP;
	}
	ruleset = create(abi);
	if (ruleset < 0)
		return ruleset;
	for (size_t i = 0; !err && i < sizeof(readable) / sizeof(readable[0]); i++)
		err = allow(ruleset, readable[i]);
	if (!err && syscall(SYS_landlock_restrict_self, ruleset, abi >= 7 ? NO_AUDIT : 0))
		err = -errno;
	close(ruleset);
	return err;
}
