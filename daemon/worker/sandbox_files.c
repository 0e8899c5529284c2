// SPDX-License-Identifier: MIT
/*
 * Landlock takes away every right it knows of and gives back those on the folders below, most
 * often one: to read files.  Memory files lie beneath nothing: what comes as a
 * descriptor can be opened through /proc/self/fd still, which dlopen() needs.
 */
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define LIBRARIES	LANDLOCK_ACCESS_FS_READ_FILE
#define DRIVER		(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* Compilers look around, and start linkers. */
#define TOOLS		(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | \
			 LANDLOCK_ACCESS_FS_EXECUTE)
#define NULL_DEVICE	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE)
#define REFER		(1ull << 13)	/* ABI 2: to move a file from folder to folder */
#define TRUNCATE	(1ull << 14)	/* ABI 3 */
#define SCRATCH		(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | \
			 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
			 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
			 LANDLOCK_ACCESS_FS_REMOVE_DIR | REFER | TRUNCATE)

#define ALL		(1u << WORKER_FOREIGN | 1u << WORKER_OPENCL_BUILD | 1u << WORKER_OPENCL)
#define STACK		(1u << WORKER_OPENCL_BUILD | 1u << WORKER_OPENCL)
#define BUILD		(1u << WORKER_OPENCL_BUILD)

static const struct rule {
	const char *path;
	uint64_t rights;
	unsigned int roles;
} rules[] = {
	/* Where the C library and what may come with a module's needs are found. */
	{ "/lib", LIBRARIES, ALL }, { "/lib64", LIBRARIES, ALL },
	{ "/usr/lib", LIBRARIES, ALL }, { "/usr/lib64", LIBRARIES, ALL },
	{ "/usr/local/lib", LIBRARIES, ALL }, { "/etc/ld.so.cache", LIBRARIES, ALL },
	/* What drivers read when they are opened, and to load what was built: of the machine, too. */
	{ "/usr/share", DRIVER, STACK }, { "/usr/lib", DRIVER, STACK },
	{ "/etc/OpenCL", DRIVER, STACK }, { "/sys/devices/system", DRIVER, STACK },
	{ "/proc/cpuinfo", LIBRARIES, STACK }, { "/proc/meminfo", LIBRARIES, STACK },
	{ WORKER_SCRATCH, SCRATCH, STACK },
	{ "/lib", TOOLS, BUILD }, { "/lib64", TOOLS, BUILD }, { "/usr", TOOLS, BUILD },
	{ "/dev/null", NULL_DEVICE, BUILD },
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

static uint64_t known_rights(int abi)
{
	return rights_files[abi > LAST_ABI ? LAST_ABI : abi];
}

static int create(int abi)
{
	struct ruleset r = {
		.files = known_rights(abi),
		.network = abi >= 4 ? RIGHTS_NETWORK : 0,
		.scopes = abi >= 6 ? SCOPES : 0,
	};
	size_t size = abi >= 6 ? sizeof(r) : abi >= 4 ? offsetof(struct ruleset, scopes) :
							offsetof(struct ruleset, network);
	long fd = syscall(SYS_landlock_create_ruleset, &r, size, 0);

	return fd < 0 ? -errno : (int)fd;
}

static int allow(int ruleset, int abi, const struct rule *rule)
{
	struct landlock_path_beneath_attr attr = {
		.allowed_access = rule->rights & known_rights(abi),
		.parent_fd = open(rule->path, O_PATH | O_CLOEXEC),
	};
	int err = 0;

	if (attr.parent_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0))
		err = -errno;
	close(attr.parent_fd);
	return err;
}

int sandbox_files(enum worker_role role, const char **missing)
{
	int abi = sandbox_landlock_abi(), ruleset, err = 0;

	if (abi < 1) {
		*missing = SANDBOX_NO_LANDLOCK;
		return -EOPNOTSUPP;
	}
	/* A driver moves files between its folders. */
	if (abi < 2 && 1u << role & STACK) {
		*missing = SANDBOX_NO_REFER;
		return -EOPNOTSUPP;
	}
	ruleset = create(abi);
	if (ruleset < 0)
		return ruleset;
	for (size_t i = 0; !err && i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].roles & 1u << role)
			err = allow(ruleset, abi, &rules[i]);
	if (!err && syscall(SYS_landlock_restrict_self, ruleset, abi >= 7 ? NO_AUDIT : 0))
		err = -errno;
	close(ruleset);
	return err;
}
