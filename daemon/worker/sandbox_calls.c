// SPDX-License-Identifier: MIT
/*
 * The system calls that are left.  What is not in the lists of a worker's role fails with
 * EPERM, or with ENOSYS where the C library then takes an older call.
 *
 * Numbers are compared in all 64 bits, also where the kernel looks at 32: what has
 * more above them is refused.
 */
#include "daemon/worker/sandbox.h"

#include <errno.h>

/* The trap below has to know where a call's arguments are. */
#if defined(HAVE_SECCOMP) && (defined(__x86_64__) || defined(__aarch64__))

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "daemon/worker/proto.h"

#define N(array)	(sizeof(array) / sizeof((array)[0]))
#define SCMP(call)	SCMP_SYS(call)

/* On descriptors: reading and writing, and none to make but by openat. */
static const int plain[] = {
	SCMP(read), SCMP(write), SCMP(readv), SCMP(writev), SCMP(pread64), SCMP(lseek),
	SCMP(fstat), SCMP(close), SCMP(poll), SCMP(ppoll),
	/* memory */
	SCMP(munmap), SCMP(mprotect), SCMP(mremap), SCMP(brk),
	/* threads, and waiting for them */
	SCMP(futex), SCMP(set_robust_list), SCMP(rseq), SCMP(set_tid_address), SCMP(membarrier),
	SCMP(sched_yield), SCMP(sched_getaffinity), SCMP(getcpu), SCMP(getpid), SCMP(gettid),
	SCMP(getuid), SCMP(geteuid), SCMP(getgid), SCMP(getegid), SCMP(exit), SCMP(exit_group),
	SCMP(restart_syscall),
	/* own signals */
	SCMP(rt_sigaction), SCMP(rt_sigprocmask), SCMP(rt_sigreturn), SCMP(rt_sigpending),
	SCMP(rt_sigsuspend), SCMP(rt_sigtimedwait), SCMP(sigaltstack),
	/* clocks, chance, and what machine this is */
	SCMP(clock_gettime), SCMP(clock_getres), SCMP(clock_nanosleep), SCMP(gettimeofday),
	SCMP(nanosleep), SCMP(time), SCMP(getrandom), SCMP(getrlimit), SCMP(uname),
	SCMP(sysinfo),
};

/*
 * For files of one's own, beneath WORKER_SCRATCH: Landlock says where.  Nothing is known to
 * seccomp of a call that this machine lacks.
 */
static const int scratch[] = {
	SCMP(mkdir), SCMP(mkdirat), SCMP(rename), SCMP(renameat), SCMP(renameat2), SCMP(unlink),
	SCMP(unlinkat), SCMP(rmdir), SCMP(fdatasync), SCMP(fsync), SCMP(ftruncate), SCMP(pwrite64),
	SCMP(getdents64), SCMP(umask), SCMP(getcwd), SCMP(getrusage), SCMP(getppid),
};

/*
 * To compile and link.  What tells of files whose content nobody may read is left: no code of
 * a program's runs here.
 */
static const int tools[] = {
	SCMP(fork), SCMP(vfork), SCMP(execve), SCMP(wait4), SCMP(waitid), SCMP(pipe), SCMP(pipe2),
	SCMP(dup), SCMP(dup2), SCMP(dup3), SCMP(newfstatat), SCMP(stat), SCMP(lstat),
	SCMP(access), SCMP(faccessat), SCMP(readlink), SCMP(readlinkat),
	SCMP(chmod), SCMP(fchmod), SCMP(fchmodat), SCMP(statfs), SCMP(fstatfs), SCMP(mmap),
	SCMP(madvise), SCMP(prlimit64), SCMP(pwritev), SCMP(preadv), SCMP(fadvise64), SCMP(tgkill),
	SCMP(chdir),
#ifdef __SNR_faccessat2
	SCMP(faccessat2),
#endif
#ifdef __x86_64__
	SCMP(arch_prctl),
#endif
};

static const int absent[] = { SCMP(clone3), SCMP(statx) };

#define NAMESPACES	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
			 CLONE_NEWNET | CLONE_NEWCGROUP)

/* Of no other kind, and all of these: a thread of this process. */
#define THREAD_MUST	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)
#define THREAD_MAY	(CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | \
			 CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED)

/*
 * RLIMIT_DATA counts neither anonymous memory that is shared nor what grows down;
 * huge pages are the whole machine's.
 */
#define MAP_KIND	0xfu	/* MAP_TYPE */
#define MAP_NEVER	(MAP_HUGETLB | MAP_GROWSDOWN)

#define OPEN_MAY	(O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)
#define SCRATCH_MAY	(OPEN_MAY | O_CREAT | O_EXCL | O_TRUNC | O_APPEND)

#define MASKED(arg, mask, value) \
	{ arg, SCMP_CMP_MASKED_EQ, (scmp_datum_t)(mask), (scmp_datum_t)(value) }
#define EQUAL(arg, value)	{ arg, SCMP_CMP_EQ, (scmp_datum_t)(value), 0 }

static const struct limited {
	int call;
	unsigned int n;
	struct scmp_arg_cmp args[2];
} limited[] = {
	/* Landlock says which; not O_PATH, of which it says nothing. */
	{ SCMP(openat), 1, { MASKED(2, ~(scmp_datum_t)OPEN_MAY, O_RDONLY) } },
	{ SCMP(mmap), 1, { MASKED(3, MAP_KIND | MAP_NEVER, MAP_PRIVATE) } },
	{ SCMP(mmap), 1, { MASKED(3, MAP_ANONYMOUS | MAP_NEVER, 0) } },
	/* Not MADV_REMOVE, which makes holes in buffers. */
	{ SCMP(madvise), 1, { EQUAL(2, MADV_NORMAL) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_RANDOM) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_SEQUENTIAL) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_WILLNEED) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_DONTNEED) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_FREE) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_HUGEPAGE) } },
	{ SCMP(madvise), 1, { EQUAL(2, MADV_NOHUGEPAGE) } },
	{ SCMP(clone), 1, { MASKED(0, ~(scmp_datum_t)THREAD_MAY, THREAD_MUST) } },
	{ SCMP(prctl), 1, { EQUAL(0, PR_SET_NAME) } },
	{ SCMP(prlimit64), 2, { EQUAL(0, 0), EQUAL(2, 0) } },
	{ SCMP(recvmsg), 1, { EQUAL(0, WORKER_FD_SOCKET) } },
#ifdef __x86_64__
	/* ARCH_*_XCOMP_*: leave to use AMX, and the questions before it */
	{ SCMP(arch_prctl), 1, { EQUAL(0, 0x1021) } },
	{ SCMP(arch_prctl), 1, { EQUAL(0, 0x1022) } },
	{ SCMP(arch_prctl), 1, { EQUAL(0, 0x1023) } },
#endif
};

static const struct limited limited_scratch[] = {
	/*
	 * To write, each way apart: of both bits together, which give neither, Landlock wants no
	 * right.  Nor does an old one of O_TRUNC: so that is not for who only reads.
	 */
	{ SCMP(openat), 1, { MASKED(2, ~(scmp_datum_t)(OPEN_MAY | O_DIRECTORY), O_RDONLY) } },
	{ SCMP(openat), 1, { MASKED(2, ~(scmp_datum_t)SCRATCH_MAY, O_WRONLY) } },
	{ SCMP(openat), 1, { MASKED(2, ~(scmp_datum_t)SCRATCH_MAY, O_RDWR) } },
}, limited_tools[] = {
	{ SCMP(clone), 1, { MASKED(0, NAMESPACES, 0) } },
	/* What changes a descriptor of this process alone, not what others share. */
	{ SCMP(fcntl), 1, { EQUAL(1, F_GETFD) } }, { SCMP(fcntl), 1, { EQUAL(1, F_SETFD) } },
	{ SCMP(fcntl), 1, { EQUAL(1, F_GETFL) } }, { SCMP(fcntl), 1, { EQUAL(1, F_DUPFD) } },
	{ SCMP(fcntl), 1, { EQUAL(1, F_DUPFD_CLOEXEC) } },
	{ SCMP(ioctl), 1, { EQUAL(1, TCGETS) } },
};

/*
 * The C library's fstat() is newfstatat() with an empty path, and a filter can't look
 * at paths: with another one it would tell of every file's size and time.  So it is
 * trapped, and done by the call that takes none; and where files can be had, by opening
 * them, which Landlock has a say in.  Who replaces this handler has less.
 */
static long open_path(long dir, const char *path)
{
	int fd = openat((int)dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static long stat_path(long dir, const char *path, long buf)
{
	long fd = open_path(dir, path), result;

	if (fd < 0)
		return fd;
	result = syscall(SYS_fstat, fd, buf) ? -errno : 0;
	close((int)fd);
	return result;
}

static long access_path(long dir, const char *path)
{
	long fd = open_path(dir, path);

	if (fd < 0)
		return fd;
	close((int)fd);
	return 0;
}

static bool has_files;

static long trapped(int call, const long *a)
{
	const char *path = (const char *)a[1];

	if (call == SYS_newfstatat && (int)a[3] & AT_EMPTY_PATH && path && !*path)
		return syscall(SYS_fstat, a[0], a[2]) ? -errno : 0;
	if (!has_files)
		return -EPERM;
	if (call == SYS_newfstatat)
		return stat_path(a[0], path, a[2]);
	if (call == SYS_faccessat)
		return access_path(a[0], path);
#ifdef SYS_access
	if (call == SYS_access)
		return access_path(AT_FDCWD, (const char *)a[0]);
#endif
	return -EPERM;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
	int saved = errno;
	long args[4], result;

#if defined(__x86_64__)
	args[0] = m->gregs[REG_RDI];
	args[1] = m->gregs[REG_RSI];
	args[2] = m->gregs[REG_RDX];
	args[3] = m->gregs[REG_R10];
#else
	for (int i = 0; i < 4; i++)
		args[i] = (long)m->regs[i];
#endif
	result = trapped(info->si_syscall, args);
	errno = saved;
#if defined(__x86_64__)
	m->gregs[REG_RAX] = result;
#else
	m->regs[0] = (unsigned long long)result;
#endif
}

static int catch_traps(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_trap;
	sa.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK;
	return sigaction(SIGSYS, &sa, NULL) ? -errno : 0;
}

static const int own_signals[] = { SIGABRT, 32, 33 };

static int add_list(scmp_filter_ctx ctx, uint32_t action, const int *calls, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = seccomp_rule_add(ctx, action, calls[i], 0);
	return err;
}

static int add_limited(scmp_filter_ctx ctx, const struct limited *l, size_t n)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, l[i].call, l[i].n, l[i].args);
	return err;
}

/* What no code of a program's own runs beside. */
static int add_tools(scmp_filter_ctx ctx)
{
	int err = add_list(ctx, SCMP_ACT_ALLOW, tools, N(tools));

	return err ? err : add_limited(ctx, limited_tools, N(limited_tools));
}

/* Paths that are looked at: see on_trap(). */
static int add_traps(scmp_filter_ctx ctx, bool files)
{
	static const int paths[] = { SCMP(access), SCMP(faccessat) };
	int err = seccomp_rule_add(ctx, SCMP_ACT_TRAP, SCMP(newfstatat), 0);

	return err || !files ? err : add_list(ctx, SCMP_ACT_TRAP, paths, N(paths));
}

static int add_own_signals(scmp_filter_ctx ctx)
{
	int err = 0;

	/* abort(), and what pthread_cancel() and setuid() send: not what would wake us from a stop. */
	for (size_t i = 0; !err && i < N(own_signals); i++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP(tgkill), 2,
				       SCMP_A0_64(SCMP_CMP_EQ, (scmp_datum_t)getpid()),
				       SCMP_A2_64(SCMP_CMP_EQ, (scmp_datum_t)own_signals[i]));
	return err;
}

static int add_rules(scmp_filter_ctx ctx, enum worker_role role)
{
	bool build = role == WORKER_OPENCL_BUILD, files = build || role == WORKER_OPENCL;
	int err = add_list(ctx, SCMP_ACT_ALLOW, plain, N(plain));

	if (!err)
		err = add_list(ctx, SCMP_ACT_ERRNO(ENOSYS), absent, N(absent));
	if (!err)
		err = add_limited(ctx, limited, N(limited));
	if (!err && files)
		err = add_list(ctx, SCMP_ACT_ALLOW, scratch, N(scratch));
	if (!err && files)
		err = add_limited(ctx, limited_scratch, N(limited_scratch));
	if (err)
		return err;
	if (build)
		return add_tools(ctx);
	err = add_traps(ctx, files);
	return err ? err : add_own_signals(ctx);
}

int sandbox_calls(enum worker_role role, const char **missing)
{
	scmp_filter_ctx ctx;
	int err;

	if (sandbox_kernel_lacks()) {
		*missing = sandbox_kernel_lacks();
		return -EOPNOTSUPP;
	}
	has_files = role != WORKER_FOREIGN;
	err = catch_traps();
	if (err)
		return err;
	ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!ctx)
		return -ENOMEM;
	/* Calls of another ABI: there is no innocent reason for them. */
	err = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (!err)
		err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	/* A tree rather than a list; libraries before 2.5 have lists only. */
	if (!err && seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2))
		err = 0;
	if (!err)
		err = add_rules(ctx, role);
	if (!err)
		err = seccomp_load(ctx);
	seccomp_release(ctx);
	return err > 0 ? -EIO : err;
}

#else

int sandbox_calls(enum worker_role role, const char **missing)
{
	(void)role;
	*missing = SANDBOX_NO_LIBSECCOMP;
	return -EOPNOTSUPP;
}

#endif
