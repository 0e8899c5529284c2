// SPDX-License-Identifier: MIT
/*
 * Before exec the child makes system calls only: other threads of araxd may have held any
 * lock when it began.  Identity is changed by raw calls,
 * because the C library's would signal threads that don't exist here.
 */
#include "daemon/worker/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mount.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "daemon/backends/opencl/drivers.h"
#include "daemon/child.h"
#include "daemon/worker/mounts.h"

#define FOREIGN_STACK	(8u << 20)

/* What the child needs as text, made before it exists. */
struct texts {
	char role[4];
	char uid_map[40], gid_map[40];
	char scratch[96];
	bool nothing_shared;		/* no mount in any namespace comes to another one */
	char drivers[sizeof(DRIVERS_VARIABLE) + DRIVERS_LEN];	/* its environment; "": it has none */
};

enum step {
	STEP_FDS = 1, STEP_SIGNALS, STEP_SESSION, STEP_LIMITS, STEP_CPUS, STEP_CAPS, STEP_IDENTITY,
	STEP_PRIVS, STEP_PARENT, STEP_EXEC, STEP_CGROUP, STEP_PLACE = WORKER_STEP_PLACE,
};

static bool is_foreign(const struct spawn *s)
{
	return s->role != WORKER_PLAIN;
}

static bool has_scratch(const struct spawn *s)
{
	return s->role == WORKER_OPENCL || s->role == WORKER_OPENCL_BUILD;
}

/* Who is not root makes them in a namespace of users with nobody but himself. */
static unsigned long namespaces(const struct spawn *s, bool root)
{
	unsigned long flags = 0;

	if (has_scratch(s))
		flags |= CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER);
	if (s->role == WORKER_OPENCL_BUILD)
		flags |= CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC;
	return flags;
}

/* Where an errno and a number say too little to who has to mend it. */
static const char *missing(enum step step, int err)
{
	if (err == EPERM && (step == STEP_CAPS || step == STEP_IDENTITY))
		return "araxd lacks CAP_SETPCAP, CAP_SETUID or CAP_SETGID";
	if (step == STEP_FDS && err == ENOENT)
		return "there is no /dev/null";
	/* EINVAL: their limit is below the place that was asked for. */
	if (step == STEP_FDS && (err == EINVAL || err == EMFILE))
		return "araxd may have too few descriptors: LimitNOFILE= of its unit, ulimit -n";
	if (step == STEP_CPUS)
		return "araxd may use none of its device's CPUs: cpu.groups, AllowedCPUs= of its unit";
	if (step == STEP_CGROUP)
		return "it can't enter a cgroup of its own: see worker.cgroup";
	return step == STEP_EXEC ? "the file that is worker.program can't be executed" : "";
}

static _Noreturn void give_up(int socket, enum step step, int err)
{
	struct worker_msg msg = { .type = WORKER_MSG_FAILED, .flags = step, .id = (uint64_t)err };
	const char *text = missing(step, err);

	memcpy(msg.symbol, text, strlen(text));
	send(socket, &msg, sizeof(msg), MSG_NOSIGNAL);
	_exit(127);
}

/* Put the descriptors in their places and close everything else. */
static int place_fds(const struct spawn *s, int *socket)
{
	int high[WORKER_NR_FDS], null;

	/* Above all targets first, so that no move overwrites a source. */
	for (int i = WORKER_FD_SOCKET; i < WORKER_NR_FDS; i++) {
		high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, 64);
		if (high[i] < 0)
			return errno;
	}
	*socket = high[WORKER_FD_SOCKET];
	for (int i = WORKER_FD_SOCKET; i < WORKER_NR_FDS; i++)
		if (dup3(high[i], i, i == WORKER_FD_PROGRAM ? O_CLOEXEC : 0) < 0)
			return errno;
	*socket = WORKER_FD_SOCKET;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return errno;
	for (int i = 0; i < 3; i++)
		if (null == i ? fcntl(i, F_SETFD, 0) : dup2(null, i) < 0)
			return errno;
	return syscall(SYS_close_range, WORKER_NR_FDS, ~0u, 0) ? errno : 0;
}

static int reset_signals(void)
{
	struct sigaction dfl;
	sigset_t none;

	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);	/* fails for a few: they have no other */
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) ? errno : 0;
}

static bool is_spared(int fd)
{
	char sign = 0;

	return pread(fd, &sign, 1, 0) == 1 && sign == '-';
}

/*
 * Where memory is short: araxd may be spared, and its children would be with it, which run what
 * tenants want.  What programs bring goes first of all.  There are containers that can't write
 * there: they have their own limits, and what they say is not made less.
 */
static void be_no_better(const struct spawn *s)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	const char *score = is_foreign(s) ? "1000" : "0";

	if (fd < 0)
		return;
	if ((is_foreign(s) || is_spared(fd)) && pwrite(fd, score, strlen(score), 0) < 0)
		(void)errno;
	close(fd);
}

static int set_limit(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit((__rlimit_resource_t)what, &now))
		return errno;
	if (now.rlim_max < value)
		value = now.rlim_max;
	now.rlim_cur = now.rlim_max = value;
	return setrlimit((__rlimit_resource_t)what, &now) ? errno : 0;
}

/*
 * RLIMIT_DATA counts the stacks of all threads but the first, and a worker has threads for all of
 * its CPUs: of many, their stacks alone would be more than a launch is to have.
 */
static uint64_t with_stacks(const struct spawn *s)
{
	struct rlimit stack;
	uint64_t bytes;

	/* The C library's own size, where there is no limit, is less. */
	if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur == RLIM_INFINITY)
		stack.rlim_cur = FOREIGN_STACK;
	if (__builtin_mul_overflow((uint64_t)stack.rlim_cur, (uint64_t)CPU_COUNT(&s->cpus),
				   &bytes) ||
	    __builtin_add_overflow(bytes, s->memory, &bytes))
		return RLIM_INFINITY;
	return bytes;
}

static int set_limits(const struct spawn *s)
{
	int err = set_limit(RLIMIT_CORE, 0);

	if (!err)
		err = set_limit(RLIMIT_FSIZE, has_scratch(s) ? WORKER_SCRATCH_BYTES : 0);
	if (!err)
		err = set_limit(RLIMIT_MEMLOCK, 0);
	if (!err)
		err = set_limit(RLIMIT_MSGQUEUE, 0);
	if (!err)
		err = set_limit(RLIMIT_RTPRIO, 0);
	if (!err)
		err = set_limit(RLIMIT_NICE, 0);
	if (!err)
		err = set_limit(RLIMIT_NOFILE, 4200);
	/* RLIMIT_DATA does not count the first thread's stack. */
	if (!err && is_foreign(s))
		err = set_limit(RLIMIT_STACK, FOREIGN_STACK);
	if (!err && s->memory)
		err = set_limit(RLIMIT_DATA, with_stacks(s));
	return err;
}

/* Uid 0 means nothing from here on, not even after exec. */
static int drop_bounding_set(void)
{
	for (unsigned long cap = 0; cap < 64; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EINVAL)
			return errno;
	return prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
		     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0) ?
		       errno : 0;
}

static int drop_caps(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2];

	memset(none, 0, sizeof(none));
	return syscall(SYS_capset, &head, none) ? errno : 0;
}

static int set_identity(const struct spawn *s)
{
	if (syscall(SYS_geteuid) != 0)	/* a private daemon: its own user's worker only */
		return syscall(SYS_geteuid) == (long)s->uid ? 0 : EPERM;
	if (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, s->gid, s->gid, s->gid) ||
	    syscall(SYS_setresuid, s->uid, s->uid, s->uid))
		return errno;
	return 0;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

/*
 * Nothing of it comes back to where we are from.  In a chroot there may be no mount to say that
 * of; but from a namespace of users nothing comes back anyhow.
 */
static int keep_mounts(const struct texts *t, bool root)
{
	struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return errno == EINVAL && (!root || t->nothing_shared) ? 0 : errno;
	/* Landlock has no say in who may change a file's mode. */
	return syscall(SYS_mount_setattr, -1, "/", AT_RECURSIVE, &read_only, sizeof(read_only)) ?
		       errno : 0;
}

/* While there is the right to: who was not root has it in his own namespace. */
static int make_scratch(const struct texts *t, bool root)
{
	int err = 0;

	if (!root)
		err = write_file("/proc/self/setgroups", "deny");
	if (!root && !err)
		err = write_file("/proc/self/uid_map", t->uid_map);
	if (!root && !err)
		err = write_file("/proc/self/gid_map", t->gid_map);
	if (!err)
		err = keep_mounts(t, root);
	if (!err && mount("arax-scratch", WORKER_SCRATCH, "tmpfs", MS_NOSUID | MS_NODEV, t->scratch))
		err = errno;
	return err;
}

static _Noreturn void child(const struct spawn *s, const struct texts *t, pid_t parent, bool root)
{
	char *const argv[] = { (char *)"arax-worker", (char *)t->role, NULL };
	char *const envp[] = { t->drivers[0] ? (char *)t->drivers : NULL, NULL };
	int socket = s->fds[WORKER_FD_SOCKET];
	int err;

	/* Before it can start anything, and while it has the right to. */
	if (s->cgroup >= 0 && write(s->cgroup, "0", 1) < 0)
		give_up(socket, STEP_CGROUP, errno);
	be_no_better(s);
	err = has_scratch(s) ? make_scratch(t, root) : 0;
	if (err)
		give_up(socket, STEP_PLACE, err);
	err = place_fds(s, &socket);
	if (err)
		give_up(socket, STEP_FDS, err);
	err = reset_signals();
	if (err)
		give_up(socket, STEP_SIGNALS, err);
	if (setsid() < 0 || chdir("/"))
		give_up(socket, STEP_SESSION, errno);
	umask(077);
	err = set_limits(s);
	if (err)
		give_up(socket, STEP_LIMITS, err);
	if (sched_setaffinity(0, sizeof(s->cpus), &s->cpus))
		give_up(socket, STEP_CPUS, errno);
	err = root ? drop_bounding_set() : 0;
	if (err)
		give_up(socket, STEP_CAPS, err);
	err = set_identity(s);
	if (err)
		give_up(socket, STEP_IDENTITY, err);
	err = drop_caps();
	if (err)
		give_up(socket, STEP_CAPS, err);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		give_up(socket, STEP_PRIVS, errno);
	/*
	 * After the identity, which resets it; the parent may have gone before.  In a namespace
	 * of processes it can't be seen: there the end of the socket will tell.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) ||
	    (getppid() != parent && s->role != WORKER_OPENCL_BUILD))
		give_up(socket, STEP_PARENT, errno);
	syscall(SYS_execveat, WORKER_FD_PROGRAM, "", argv, envp, AT_EMPTY_PATH);
	give_up(socket, STEP_EXEC, errno);
}

static void make_texts(struct texts *t, const struct spawn *s, bool root)
{
	/* Who is not root stays who he is, whatever group the task has. */
	unsigned int uid = root ? s->uid : geteuid(), gid = root ? s->gid : getegid();

	const char *drivers = is_foreign(s) ? getenv(DRIVERS_VARIABLE) : NULL;

	t->drivers[0] = '\0';
	if (drivers)
		snprintf(t->drivers, sizeof(t->drivers), "%s=%s", DRIVERS_VARIABLE, drivers);
	t->nothing_shared = has_scratch(s) && mounts_nothing_shared();
	snprintf(t->role, sizeof(t->role), "%d", (int)s->role);
	snprintf(t->uid_map, sizeof(t->uid_map), "%u %u 1", uid, uid);
	snprintf(t->gid_map, sizeof(t->gid_map), "%u %u 1", gid, gid);
	snprintf(t->scratch, sizeof(t->scratch), "size=%u,nr_inodes=%u,mode=0700,uid=%u,gid=%u",
		 WORKER_SCRATCH_BYTES, WORKER_SCRATCH_FILES, uid, gid);
}

pid_t spawn_worker(const struct spawn *s)
{
	enum { FIRST = WORKER_FD_SOCKET, NR = WORKER_NR_FDS - FIRST };
	bool root = syscall(SYS_geteuid) == 0;
	int give[NR + 1], have[NR + 1];
	pid_t parent = getpid(), pid;
	struct spawn its = *s;
	struct texts texts;

	make_texts(&texts, s, root);
	memcpy(give, s->fds + FIRST, NR * sizeof(*give));
	give[NR] = s->cgroup;
	pid = child_begin(namespaces(s, root), give, NR + 1, have);
	if (!pid) {
		memcpy(its.fds + FIRST, have, NR * sizeof(*have));
		its.cgroup = have[NR];
		child(&its, &texts, parent, root);
	}
	return pid;
}
