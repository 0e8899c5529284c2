// SPDX-License-Identifier: MIT
/*
 * What each role of a locked-up worker leaves: tried by a child of the test, which locks itself
 * up as a worker does.  What the code of programs tries from inside is in be_sandbox.c and
 * selftests/system/own-opencl.c; no code of theirs runs where their source is compiled.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/worker/sandbox.h"
#include "selftests/unit/be_test.h"

#define FOREIGN	(1u << WORKER_FOREIGN)
#define BUILD	(1u << WORKER_OPENCL_BUILD)
#define RUN	(1u << WORKER_OPENCL)

#define OWN	WORKER_SCRATCH "/arax-roles"

static char area[4096] __attribute__((aligned(4096)));

#define AT(path)	AT_FDCWD, (long)(path)
#define AREA		((long)area)

/* @works: in which roles. */
static const struct try {
	const char *name;
	unsigned int works;
	long nr, a[6];
} tries[] = {
	/* In this order: files of its own. */
	{ "make a file", BUILD | RUN, SYS_openat, { AT(OWN), O_CREAT | O_WRONLY | O_TRUNC, 0600 } },
	{ "open it for both", BUILD | RUN, SYS_openat, { AT(OWN), O_RDWR } },
	{ "neither to read nor to write", 0, SYS_openat, { AT(OWN), 3 } },
	{ "so to truncate", 0, SYS_openat, { AT(OWN), 3 | O_TRUNC } },
	{ "to read and truncate", 0, SYS_openat, { AT(OWN), O_RDONLY | O_TRUNC } },
	{ "move it to a folder", BUILD | RUN, SYS_renameat2, { AT(OWN), AT(OWN ".d/x"), 0 } },
	{ "remove it", BUILD | RUN, SYS_unlinkat, { AT(OWN ".d/x"), 0 } },
	/* Others'. */
	{ "read /etc/passwd", 0, SYS_openat, { AT("/etc/passwd"), O_RDONLY } },
	{ "open it by mode 3", 0, SYS_openat, { AT("/etc/passwd"), 3 } },
	{ "write it", 0, SYS_openat, { AT("/etc/passwd"), O_WRONLY } },
	{ "write a library", 0, SYS_openat, { AT("/usr/lib/os-release"), O_RDWR } },
	{ "make one in /var/tmp", 0, SYS_openat, { AT("/var/tmp/arax-roles"), O_CREAT | O_WRONLY, 0600 } },
	{ "a folder there", 0, SYS_mkdirat, { AT("/var/tmp/arax-roles"), 0700 } },
	{ "a link", 0, SYS_symlinkat, { (long)"x", AT(OWN ".l") } },
	{ "a device", 0, SYS_mknodat, { AT(OWN ".n"), S_IFIFO | 0600, 0 } },
	{ "read /proc/self/environ", 0, SYS_openat, { AT("/proc/self/environ"), O_RDONLY } },
	{ "list /", 0, SYS_openat, { AT("/"), O_RDONLY | O_DIRECTORY } },
	{ "list /usr/bin", BUILD, SYS_openat, { AT("/usr/bin"), O_RDONLY | O_DIRECTORY } },
	{ "read a program", BUILD, SYS_openat, { AT("/usr/bin/env"), O_RDONLY } },
	{ "read a library", FOREIGN | BUILD | RUN, SYS_openat, { AT("/usr/lib/os-release"), O_RDONLY } },
	{ "O_PATH", 0, SYS_openat, { AT("/etc/passwd"), O_PATH } },
	/* Descriptors that others have, too. */
	{ "to block", 0, SYS_fcntl, { 0, F_SETFL, 0 } },
	{ "a lease", 0, SYS_fcntl, { 0, F_SETLEASE, F_UNLCK } },
	{ "its flags", BUILD, SYS_fcntl, { 0, F_GETFL, 0 } },
	{ "a pipe", BUILD, SYS_pipe2, { AREA, 0 } },
	{ "memory as a file", 0, SYS_memfd_create, { (long)"x", 0 } },
	/* Other processes, and the network. */
	{ "a socket", 0, SYS_socket, { 1, 1, 0 } },
	{ "two sockets", 0, SYS_socketpair, { 1, 1, 0, AREA } },
	{ "ptrace", 0, SYS_ptrace, { 0, 0, 0, 0 } },
	{ "read another's memory", 0, SYS_process_vm_readv, { 1, AREA, 0, AREA, 0, 0 } },
	{ "kill", 0, SYS_kill, { 0, 0 } },
	{ "a namespace", 0, SYS_unshare, { CLONE_NEWUSER } },
	{ "a process in one", 0, SYS_clone, { CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0 } },
	{ "mount", 0, SYS_mount, { (long)"x", (long)WORKER_SCRATCH, (long)"tmpfs", 0, 0 } },
	{ "setuid", 0, SYS_setuid, { 0 } },
	{ "another's limits", 0, SYS_setpriority, { 0, 0, 0 } },
	{ "bpf", 0, SYS_bpf, { 0, AREA, 64 } },
	{ "io_uring", 0, SYS_io_uring_setup, { 1, AREA } },
	{ "perf", 0, SYS_perf_event_open, { AREA, 0, -1, -1, 0 } },
	{ "userfaultfd", 0, SYS_userfaultfd, { 1 } },
	{ "a key", 0, SYS_keyctl, { 0, -3, 0 } },
};

#define NR_TRIES	(sizeof(tries) / sizeof(tries[0]))

/* In the child: 0, or 1 + the number of the first that is not as it should be. */
static int try_all(enum worker_role role)
{
	int wrong = 0;

	for (size_t i = 0; i < NR_TRIES; i++) {
		const struct try *t = &tries[i];
		long r = syscall(t->nr, t->a[0], t->a[1], t->a[2], t->a[3], t->a[4], t->a[5]);
		bool works = t->works >> role & 1;

		/* A process that must not be. */
		if (!r && t->nr == SYS_clone)
			_exit(0);
		if ((r >= 0) == works)
			continue;
		dprintf(2, "# role %d: %s: %ld, %d\n", (int)role, t->name, r, errno);
		wrong = wrong ? wrong : (int)i + 1;
	}
	return wrong;
}

static bool starts_programs(void)
{
	char *const argv[] = { (char *)"true", NULL };
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		execve("/usr/bin/true", argv, argv + 1);
		_exit(99);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static int locked_up(enum worker_role role)
{
	const char *missing = "";
	int err;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	err = sandbox_files(role, &missing);
	if (!err)
		err = sandbox_calls(role, &missing);
	if (err) {
		dprintf(2, "# role %d: %d, %s\n", (int)role, err, missing);
		return 254;
	}
	err = try_all(role);
	if (!err && starts_programs() != (role == WORKER_OPENCL_BUILD))
		err = 253;
	return err;
}

START_TEST(roles)
{
	enum worker_role role = WORKER_FOREIGN + _i;
	int status;
	pid_t pid;

	if (sandbox_kernel_lacks()) {
		be_skip("roles", sandbox_kernel_lacks());
		return;
	}
	ck_assert(!mkdir(OWN ".d", 0700) || errno == EEXIST);
	pid = fork();
	if (!pid)
		_exit(locked_up(role));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	rmdir(OWN ".d");
	ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
	status = WEXITSTATUS(status);
	ck_assert_msg(!status, "%s", status <= (int)NR_TRIES ? tries[status - 1].name :
				     "it can't be locked up, or starts programs and should not");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("roles");
	TCase *t = tcase_create("all");

	tcase_add_loop_test(t, roles, 0, WORKER_NR_ROLES - WORKER_FOREIGN);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
