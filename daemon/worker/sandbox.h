/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - what a worker gives up before code of a program's own is loaded
 *
 * Two layers, neither of which needs a privilege or can be left again:
 *
 *   Landlock: no file can be opened but for reading, and of those only what the
 *   dynamic linker needs: the folders of the system's libraries.
 *   seccomp: no system call but those of a process that computes with threads.
 *
 * Both must be there, or such code does not run at all.
 *
 * A worker with a vendor's stack has that open when it is locked up.  It may make, write and
 * remove files beneath WORKER_SCRATCH (see spawn.h), and nowhere else; by the calls for that
 * it can learn whether a path exists.  One that compiles (WORKER_OPENCL_BUILD) may
 * besides read what lies beneath /usr, and start programs from there, which have no more
 * rights than it has.
 */
#ifndef ARAX_DAEMON_WORKER_SANDBOX_H
#define ARAX_DAEMON_WORKER_SANDBOX_H

#include <errno.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/worker/proto.h"

/* Since Linux 5.13, with the same numbers everywhere; older headers lack them. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset	444
#define SYS_landlock_add_rule		445
#define SYS_landlock_restrict_self	446
#endif
#define SANDBOX_LANDLOCK_VERSION	0x1	/* LANDLOCK_CREATE_RULESET_VERSION */

#define SANDBOX_NO_LANDLOCK	"Landlock: a kernel with CONFIG_SECURITY_LANDLOCK, landlock in its " \
				"boot option lsm= if that is set, and no container that forbids it"
#define SANDBOX_NO_REFER	"Landlock's second version, for OpenCL: Linux 5.19 or newer"
#define SANDBOX_NO_SCRATCH	"mount namespaces, for files of its own: an araxd with CAP_SYS_ADMIN, or for a " \
				"private one namespaces of users (user.max_user_namespaces, and no container or " \
				"AppArmor rule that forbids them)"
#define SANDBOX_NO_SECCOMP	"seccomp filters: a kernel with CONFIG_SECCOMP_FILTER"
#define SANDBOX_NO_LIBSECCOMP	"libseccomp: an arax-worker built where libseccomp-dev is installed, " \
				"for x86-64 or arm64"

/* The kernel's version of Landlock's interface, or a negative errno. */
static inline int sandbox_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, SANDBOX_LANDLOCK_VERSION);

	return abi < 0 ? -errno : (int)abi;
}

/* What this kernel lacks, with the remedy; NULL: nothing.  For any process. */
static inline const char *sandbox_kernel_lacks(void)
{
	const uint32_t action = SECCOMP_RET_TRAP;

	if (sandbox_landlock_abi() < 1)
		return SANDBOX_NO_LANDLOCK;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action))
		return SANDBOX_NO_SECCOMP;
	return NULL;
}

/*
 * Landlock binds the calling thread and those that it starts: while it is the only
 * one.  seccomp binds all of the process's: when all that need more are made.
 * 0, -EOPNOTSUPP with what is *missing and the remedy, or another negative errno.
 */
int sandbox_files(enum worker_role role, const char **missing);
int sandbox_calls(enum worker_role role, const char **missing);

#endif /* ARAX_DAEMON_WORKER_SANDBOX_H */
