// SPDX-License-Identifier: MIT
/*
 * An image that tries to get out: when it is loaded, when it is run, and on a thread
 * of its own.  It reports what the kernel answered; the test judges.
 *
 * What is tried must do no harm where it is allowed, for it is tried there as well: so
 * the arguments are often wrong, and a filter shows by being the first to say no.
 */
#include <arax/kernel.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/worker/proto.h"
#include "selftests/kernels-test/foreign.h"

int hostile(const struct arax_launch *l);
int other_abi(const struct arax_launch *l);
int each_group(const struct arax_launch *l);
int deaf(const struct arax_launch *l);
int liar(const struct arax_launch *l);

#define PARENT	(-77001L)	/* stand for what is known at run time only */
#define SELF	(-77003L)
#define BUF	(-77004L)	/* 4 KiB */

#define SANDBOXED	1

struct try {
	const char *name;
	int only_sandboxed;
	long nr;
	long a[6];
};

#define STR(s)	((long)(s))

static const struct try tries[] = {
	/* files: Landlock */
	{ "open /etc/passwd", 0, SYS_openat, { AT_FDCWD, STR("/etc/passwd"), O_RDONLY } },
	{ "open a folder", 0, SYS_openat, { AT_FDCWD, STR("/usr/lib"), O_RDONLY | O_DIRECTORY } },
	{ "open /", 0, SYS_openat, { AT_FDCWD, STR("/"), O_RDONLY } },
	{ "open /dev/null", 0, SYS_openat, { AT_FDCWD, STR("/dev/null"), O_RDONLY } },
	{ "open /dev/shm", 0, SYS_openat, { AT_FDCWD, STR("/dev/shm"), O_RDONLY } },
	{ "open /proc/self/maps", SANDBOXED, SYS_openat,
	  { AT_FDCWD, STR("/proc/self/maps"), O_RDONLY } },
	{ "open /proc/self/fd/0", 0, SYS_openat, { AT_FDCWD, STR("/proc/self/fd/0"), O_RDONLY } },
	{ "open /proc/self/fd", SANDBOXED, SYS_openat, { AT_FDCWD, STR("/proc/self/fd"), O_RDONLY } },
	{ "open /proc/self/exe", 0, SYS_openat, { AT_FDCWD, STR("/proc/self/exe"), O_RDONLY } },
	{ "open /proc/self/root", 0, SYS_openat, { AT_FDCWD, STR("/proc/self/root"), O_RDONLY } },
	/* files: the filter */
	{ "create in /tmp", 0, SYS_openat,
	  { AT_FDCWD, STR("/tmp/arax-hostile"), O_WRONLY | O_CREAT | O_TRUNC, 0600 } },
	{ "unlink in /tmp", 0, SYS_unlinkat, { AT_FDCWD, STR("/tmp/arax-hostile"), 0 } },
	{ "open to write", 0, SYS_openat, { AT_FDCWD, STR("/dev/null"), O_WRONLY } },
	{ "open to read and write", 0, SYS_openat, { AT_FDCWD, STR("/dev/null"), O_RDWR } },
	{ "open to append", 0, SYS_openat, { AT_FDCWD, STR("/dev/null"), O_APPEND | O_WRONLY } },
	{ "truncate by open", 0, SYS_openat, { AT_FDCWD, STR("/dev/null"), O_TRUNC } },
	{ "O_TMPFILE", 0, SYS_openat, { AT_FDCWD, STR("/tmp"), O_TMPFILE | O_WRONLY, 0600 } },
	{ "O_PATH", 0, SYS_openat, { AT_FDCWD, STR("/etc/passwd"), O_PATH } },
	{ "own memory through /proc", SANDBOXED, SYS_openat,
	  { AT_FDCWD, STR("/proc/self/mem"), O_RDWR } },
	{ "another number's upper half", 0, SYS_openat,
	  { AT_FDCWD, STR("/dev/null"), O_RDONLY | 1L << 32 } },
#ifdef SYS_open
	{ "old open", 0, SYS_open, { STR("/dev/null"), O_RDONLY } },
	{ "creat", 0, SYS_creat, { STR("/nowhere/x"), 0600 } },
	{ "old stat", 0, SYS_stat, { STR("/etc/passwd"), BUF } },
	{ "lstat", 0, SYS_lstat, { STR("/etc/passwd"), BUF } },
	{ "access", 0, SYS_access, { STR("/etc/passwd"), R_OK } },
	{ "readlink", 0, SYS_readlink, { STR("/proc/self/exe"), BUF, 4096 } },
	{ "unlink", 0, SYS_unlink, { STR("/nowhere/x") } },
	{ "rename", 0, SYS_rename, { STR("/nowhere/x"), STR("/nowhere/y") } },
	{ "mkdir", 0, SYS_mkdir, { STR("/nowhere/x"), 0700 } },
	{ "chmod", 0, SYS_chmod, { STR("/nowhere/x"), 0777 } },
	{ "chown", 0, SYS_chown, { STR("/nowhere/x"), 0, 0 } },
	{ "pipe", 0, SYS_pipe, { 0 } },
	{ "dup2", 0, SYS_dup2, { 1000000, 1 } },
	{ "alarm", 0, SYS_alarm, { 0 } },
	{ "inotify_init", 0, SYS_inotify_init, { 0 } },
	{ "signalfd", 0, SYS_signalfd, { 1000000, 0, 8 } },
	{ "epoll_create", 0, SYS_epoll_create, { 0 } },
	{ "eventfd", 0, SYS_eventfd, { 0 } },
	{ "sysfs", 0, SYS_sysfs, { 3 } },
#endif
	{ "openat2", 0, SYS_openat2, { AT_FDCWD, STR("/dev/null"), 0, 0 } },
	{ "stat", 0, SYS_newfstatat, { AT_FDCWD, STR("/etc/passwd"), BUF, 0 } },
	{ "stat with AT_EMPTY_PATH", 0, SYS_newfstatat,
	  { AT_FDCWD, STR("/etc/passwd"), BUF, AT_EMPTY_PATH } },
	{ "statx", 0, SYS_statx, { AT_FDCWD, STR("/etc/passwd"), 0, 0, BUF } },
	{ "faccessat", 0, SYS_faccessat, { AT_FDCWD, STR("/etc/passwd"), R_OK } },
	{ "faccessat2", 0, SYS_faccessat2, { AT_FDCWD, STR("/etc/passwd"), R_OK, 0 } },
	{ "readlinkat", 0, SYS_readlinkat, { AT_FDCWD, STR("/proc/self/exe"), BUF, 4096 } },
	{ "getdents64", 0, SYS_getdents64, { 0, BUF, 4096 } },
	{ "getcwd", 0, SYS_getcwd, { BUF, 4096 } },
	{ "chdir", 0, SYS_chdir, { STR("/") } },
	{ "fchdir", 0, SYS_fchdir, { 0 } },
	{ "statfs", 0, SYS_statfs, { STR("/"), BUF } },
	{ "linkat", 0, SYS_linkat,
	  { AT_FDCWD, STR("/nowhere/x"), AT_FDCWD, STR("/nowhere/y"), 0 } },
	{ "symlinkat", 0, SYS_symlinkat, { STR("x"), AT_FDCWD, STR("/nowhere/x") } },
	{ "renameat2", 0, SYS_renameat2,
	  { AT_FDCWD, STR("/nowhere/x"), AT_FDCWD, STR("/nowhere/y"), 0 } },
	{ "mkdirat", 0, SYS_mkdirat, { AT_FDCWD, STR("/nowhere/x"), 0700 } },
	{ "mknodat", 0, SYS_mknodat, { AT_FDCWD, STR("/nowhere/x"), S_IFIFO | 0600, 0 } },
	{ "fchmodat", 0, SYS_fchmodat, { AT_FDCWD, STR("/nowhere/x"), 0777 } },
	{ "fchmod", 0, SYS_fchmod, { 1000000, 0777 } },
	{ "fchownat", 0, SYS_fchownat, { AT_FDCWD, STR("/nowhere/x"), 0, 0, 0 } },
	{ "fchown", 0, SYS_fchown, { 1000000, 0, 0 } },
	{ "utimensat", 0, SYS_utimensat, { AT_FDCWD, STR("/nowhere/x"), 0, 0 } },
	{ "truncate", 0, SYS_truncate, { STR("/nowhere/x"), 0 } },
	{ "ftruncate", 0, SYS_ftruncate, { 1000000, 0 } },
	{ "fallocate", 0, SYS_fallocate, { 1000000, 0, 0, 1 } },
	{ "setxattr", 0, SYS_setxattr, { STR("/nowhere/x"), STR("user.x"), BUF, 1, 0 } },
	{ "getxattr", 0, SYS_getxattr, { STR("/nowhere/x"), STR("user.x"), BUF, 1 } },
	{ "flock", 0, SYS_flock, { 1000000, 0 } },
	{ "sync", 0, SYS_sync, { 0 } },
	{ "umask", 0, SYS_umask, { 077 } },
	{ "mount", SANDBOXED, SYS_mount, { STR("x"), STR("/nowhere"), STR("tmpfs"), 0, 0 } },
	{ "umount", SANDBOXED, SYS_umount2, { STR("/nowhere"), 0 } },
	{ "open_tree", 0, SYS_open_tree, { AT_FDCWD, STR("/nowhere"), 0 } },
	{ "fsopen", SANDBOXED, SYS_fsopen, { STR("tmpfs"), 0 } },
	{ "chroot", 0, SYS_chroot, { STR("/nowhere") } },
	{ "pivot_root", SANDBOXED, SYS_pivot_root, { STR("/nowhere"), STR("/nowhere") } },
	{ "name_to_handle_at", 0, SYS_name_to_handle_at, { AT_FDCWD, STR("/"), BUF, BUF, 0 } },
	{ "fanotify_init", SANDBOXED, SYS_fanotify_init, { ~0u, 0 } },
	{ "inotify_init1", 0, SYS_inotify_init1, { 0 } },

	/* descriptors */
	{ "dup", 0, SYS_dup, { 1000000 } },
	{ "dup3", 0, SYS_dup3, { 1000000, 1000001, 0 } },
	{ "fcntl: blocking", 0, SYS_fcntl, { 1000000, F_SETFL, 0 } },
	{ "fcntl: seals", 0, SYS_fcntl, { 1000000, F_ADD_SEALS, 0 } },
	{ "ioctl", 0, SYS_ioctl, { 1000000, 0x5421, 0 } },
	{ "pipe2", 0, SYS_pipe2, { 0, 0 } },
	{ "eventfd2", 0, SYS_eventfd2, { 0, 0 } },
	{ "signalfd4", 0, SYS_signalfd4, { 1000000, 0, 8, 0 } },
	{ "timerfd_create", 0, SYS_timerfd_create, { 1000, 0 } },
	{ "epoll_create1", 0, SYS_epoll_create1, { 0 } },
	{ "memfd_create", 0, SYS_memfd_create, { STR("x"), 0 } },
	{ "memfd_secret", 0, SYS_memfd_secret, { ~0L } },
	{ "userfaultfd", SANDBOXED, SYS_userfaultfd, { 0 } },
	{ "splice", 0, SYS_splice, { 1000000, 0, 1000000, 0, 1, 0 } },
	{ "tee", 0, SYS_tee, { 1000000, 1000000, 1, 0 } },
	{ "vmsplice", 0, SYS_vmsplice, { 1000000, BUF, 1, 0 } },
	{ "sendfile", 0, SYS_sendfile, { 1000000, 1000000, 0, 1 } },
	{ "copy_file_range", 0, SYS_copy_file_range, { 1000000, 0, 1000000, 0, 1, 0 } },
	{ "pwrite64", 0, SYS_pwrite64, { 1000000, BUF, 1, 0 } },
	{ "close_range", 0, SYS_close_range, { 1000000, 1000000, 0 } },

	/* sockets */
	{ "socket AF_UNIX", 0, SYS_socket, { AF_UNIX, SOCK_STREAM, 0 } },
	{ "socket AF_INET", 0, SYS_socket, { AF_INET, SOCK_STREAM, 0 } },
	{ "socket AF_INET6", SANDBOXED, SYS_socket, { AF_INET6, SOCK_DGRAM, 0 } },
	{ "socket AF_NETLINK", 0, SYS_socket, { AF_NETLINK, SOCK_RAW, 0 } },
	{ "socket AF_ALG", SANDBOXED, SYS_socket, { 38, SOCK_SEQPACKET, 0 } },
	{ "socket AF_VSOCK", SANDBOXED, SYS_socket, { 40, SOCK_STREAM, 0 } },
	{ "socketpair", 0, SYS_socketpair, { AF_UNIX, SOCK_STREAM, 0, BUF } },
	{ "connect", 0, SYS_connect, { 1000000, BUF, 16 } },
	{ "bind", 0, SYS_bind, { 1000000, BUF, 16 } },
	{ "listen", 0, SYS_listen, { 1000000, 1 } },
	{ "accept4", 0, SYS_accept4, { 1000000, 0, 0, 0 } },
	{ "sendmsg", 0, SYS_sendmsg, { 1000000, BUF, 0 } },
	{ "sendto", 0, SYS_sendto, { 1000000, BUF, 1, 0, 0, 0 } },
	{ "recvmsg of another", 0, SYS_recvmsg, { 1000000, BUF, 0 } },
	{ "recvfrom", 0, SYS_recvfrom, { 1000000, BUF, 1, 0, 0, 0 } },
	{ "setsockopt", 0, SYS_setsockopt, { 1000000, 1, 1, BUF, 4 } },
	{ "getsockopt", 0, SYS_getsockopt, { 1000000, 1, 1, BUF, BUF } },
	{ "shutdown", 0, SYS_shutdown, { 1000000, 0 } },

	/* processes */
	{ "execve", 0, SYS_execve, { STR("/nowhere/x"), 0, 0 } },
	{ "execveat", 0, SYS_execveat, { AT_FDCWD, STR("/nowhere/x"), 0, 0, 0 } },
	{ "clone without CLONE_VM", 0, SYS_clone, { CLONE_THREAD | CLONE_SIGHAND, 0 } },
	{ "clone into another space", 0, SYS_clone,
	  { CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER, 0 } },
	{ "clone3", 0, SYS_clone3, { 0, 0 } },
	{ "kill parent", 0, SYS_kill, { PARENT, 0 } },
	{ "kill self", 0, SYS_kill, { SELF, 0 } },
	{ "tkill self", 0, SYS_tkill, { SELF, 0 } },
	{ "tgkill parent", 0, SYS_tgkill, { PARENT, PARENT, 0 } },
	{ "rt_sigqueueinfo", SANDBOXED, SYS_rt_sigqueueinfo, { PARENT, 1000, BUF } },
	{ "rt_tgsigqueueinfo", SANDBOXED, SYS_rt_tgsigqueueinfo, { PARENT, PARENT, 1000, BUF } },
	{ "ptrace", 0, SYS_ptrace, { PTRACE_PEEKDATA, PARENT, BUF, BUF } },
	{ "process_vm_readv", 0, SYS_process_vm_readv, { PARENT, BUF, 0, BUF, 0, 1 } },
	{ "process_vm_writev", 0, SYS_process_vm_writev, { PARENT, BUF, 0, BUF, 0, 1 } },
	{ "process_madvise", 0, SYS_process_madvise, { 1000000, BUF, 0, 0, 0 } },
	{ "kcmp", SANDBOXED, SYS_kcmp, { PARENT, SELF, 0, 3, 3 } },
	{ "pidfd_open", 0, SYS_pidfd_open, { PARENT, 0 } },
	{ "pidfd_getfd", 0, SYS_pidfd_getfd, { 1000000, 3, 0 } },
	{ "pidfd_send_signal", 0, SYS_pidfd_send_signal, { 1000000, 0, 0, 0 } },
	{ "wait4", 0, SYS_wait4, { -1, 0, WNOHANG, 0 } },
	{ "waitid", 0, SYS_waitid, { 0, 0, 0, WEXITED | WNOHANG, 0 } },
	{ "getppid", 0, SYS_getppid, { 0 } },
	{ "setsid", SANDBOXED, SYS_setsid, { 0 } },
	{ "setpgid", SANDBOXED, SYS_setpgid, { 0, 0 } },
	{ "setresuid", 0, SYS_setresuid, { -1, -1, -1 } },
	{ "setresgid", 0, SYS_setresgid, { -1, -1, -1 } },
	{ "setgroups", SANDBOXED, SYS_setgroups, { 0, 0 } },
	{ "capset", 0, SYS_capset, { 0, 0 } },
	{ "PR_SET_DUMPABLE", 0, SYS_prctl, { PR_SET_DUMPABLE, 0 } },
	{ "PR_SET_DUMPABLE 1", SANDBOXED, SYS_prctl, { PR_SET_DUMPABLE, 1 } },
	{ "PR_SET_PDEATHSIG", 0, SYS_prctl, { PR_SET_PDEATHSIG, SIGKILL } },
	{ "PR_SET_PTRACER", SANDBOXED, SYS_prctl, { PR_SET_PTRACER, -1 } },
	{ "PR_SET_MM", SANDBOXED, SYS_prctl, { PR_SET_MM, 0, 0, 0, 0 } },
	{ "PR_SET_SECCOMP", 0, SYS_prctl, { PR_SET_SECCOMP, 1000, 0 } },
	{ "PR_SET_SECUREBITS", SANDBOXED, SYS_prctl, { PR_SET_SECUREBITS, 0 } },
	{ "another prctl", 0, SYS_prctl, { 1000000, 0 } },
	{ "seccomp", 0, SYS_seccomp, { 1000, 0, 0 } },
	{ "landlock_create_ruleset", 0, SYS_landlock_create_ruleset, { 0, 0, 1 } },
	{ "personality", 0, SYS_personality, { 0xffffffff } },
	{ "acct", SANDBOXED, SYS_acct, { 0 } },
	{ "unshare", 0, SYS_unshare, { 0 } },
	{ "setns", 0, SYS_setns, { 1000000, 0 } },
	{ "set a limit", 0, SYS_prlimit64, { 0, RLIMIT_CORE, BUF, 0 } },
	{ "another's limit", 0, SYS_prlimit64, { PARENT, 1000, 0, BUF } },
	{ "setrlimit", 0, SYS_setrlimit, { 1000, BUF } },
	{ "getpriority", 0, SYS_getpriority, { 0, 0 } },
	{ "setpriority", 0, SYS_setpriority, { 0, 0, 19 } },
	{ "sched_setaffinity", 0, SYS_sched_setaffinity, { 0, 0, 0 } },
	{ "sched_setscheduler", 0, SYS_sched_setscheduler, { 0, 0, 0 } },
	{ "sched_setparam", 0, SYS_sched_setparam, { 0, 0 } },
	{ "sched_setattr", 0, SYS_sched_setattr, { 0, 0, 0 } },
	{ "ioprio_set", 0, SYS_ioprio_set, { 1000, 0, 0 } },
	{ "getrusage of children", 0, SYS_getrusage, { 1000, BUF } },
	{ "get_robust_list", 0, SYS_get_robust_list, { 0, BUF, BUF } },
	{ "timer_create", 0, SYS_timer_create, { 1000, 0, 0 } },
	{ "setitimer", 0, SYS_setitimer, { 1000, 0, 0 } },
	{ "clock_settime", 0, SYS_clock_settime, { 1000, BUF } },
	{ "reading another's place", 0, SYS_get_mempolicy, { 0, 0, 0, 0, 1000 } },
	{ "migrate_pages", SANDBOXED, SYS_migrate_pages, { PARENT, 0, 0, 0 } },
	{ "move_pages", SANDBOXED, SYS_move_pages, { PARENT, 0, 0, 0, 0, 0 } },

	/* memory that no limit counts, or that is not its own */
	{ "shared anonymous memory", 0, SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0 } },
	{ "the same, validated", 0, SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0 } },
	{ "huge pages", 0, SYS_mmap,
	  { 0, 1 << 21, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 63L << 26, -1, 0 } },
	{ "memory that grows down", 0, SYS_mmap,
	  { 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0 } },
	{ "MADV_REMOVE", 0, SYS_madvise, { BUF, 0, MADV_REMOVE } },
	{ "MADV_REMOVE, upper half", 0, SYS_madvise, { BUF, 0, MADV_REMOVE | 1L << 32 } },
	{ "mlock", SANDBOXED, SYS_mlock, { BUF, 0 } },
	{ "mlockall", 0, SYS_mlockall, { 0 } },
	{ "mincore", 0, SYS_mincore, { 1, 4096, BUF } },
	{ "msync", 0, SYS_msync, { 1, 4096, 0 } },
	{ "mbind", 0, SYS_mbind, { 1, 4096, 0, 0, 0, 0 } },
	{ "shmget", 0, SYS_shmget, { 0x41524158, 1, 0 } },
	{ "shmat", 0, SYS_shmat, { -1, 0, 0 } },
	{ "msgget", 0, SYS_msgget, { 0x41524158, 0 } },
	{ "semget", 0, SYS_semget, { 0x41524158, 1, 0 } },
	{ "mq_open", 0, SYS_mq_open, { STR("arax-no-such-queue"), O_RDONLY, 0, 0 } },

	/* wide parts of the kernel */
	{ "bpf", SANDBOXED, SYS_bpf, { 1000, 0, 0 } },
	{ "perf_event_open", SANDBOXED, SYS_perf_event_open, { BUF, 0, -1, -1, 0 } },
	{ "io_uring_setup", SANDBOXED, SYS_io_uring_setup, { 1, BUF } },
	{ "io_uring_enter", 0, SYS_io_uring_enter, { 1000000, 0, 0, 0, 0, 0 } },
	{ "io_uring_register", 0, SYS_io_uring_register, { 1000000, 0, 0, 0 } },
	{ "io_setup", 0, SYS_io_setup, { 0, BUF } },
	{ "keyctl", SANDBOXED, SYS_keyctl, { 0, -3, 0 } },
	{ "add_key", SANDBOXED, SYS_add_key, { STR("user"), STR("x"), BUF, 1, -1 } },
	{ "request_key", SANDBOXED, SYS_request_key, { STR("user"), STR("x"), 0, 0 } },
	{ "syslog", SANDBOXED, SYS_syslog, { 10, 0, 0 } },
	{ "quotactl", SANDBOXED, SYS_quotactl, { 0, 0, 0, 0 } },
	{ "init_module", SANDBOXED, SYS_init_module, { 0, 0, 0 } },
	{ "sethostname", SANDBOXED, SYS_sethostname, { BUF, 1 } },
	{ "a call that does not exist", SANDBOXED, 100000, { 0 } },
#ifdef __x86_64__
	{ "arch_prctl", 0, SYS_arch_prctl, { 0x1003, BUF } },	/* ARCH_GET_FS */
	{ "modify_ldt", 0, SYS_modify_ldt, { 0, BUF, 0 } },
	{ "ioperm", SANDBOXED, SYS_ioperm, { 0, 1, 0 } },
	{ "iopl", SANDBOXED, SYS_iopl, { 3 } },
#endif
};

#define NR_TRIES	(sizeof(tries) / sizeof(tries[0]))

static struct report early;	/* what the constructor found */
static char page[4096];

static void note(struct report *r, const char *name, int only_sandboxed, int when, long result)
{
	struct attempt *a = &r->attempts[r->nr < MAX_ATTEMPTS ? r->nr++ : MAX_ATTEMPTS - 1];

	snprintf(a->name, sizeof(a->name), "%s", name);
	a->result = result < 0 ? -errno : result;
	a->when = when;
	a->only_sandboxed = only_sandboxed;
}

static void try_table(struct report *r, int when, const struct hostile_args *args)
{
	for (size_t i = 0; i < NR_TRIES; i++) {
		const struct try *t = &tries[i];
		long a[6], result;

		if (t->only_sandboxed && !args->sandboxed)
			continue;
		for (int j = 0; j < 6; j++)
			a[j] = t->a[j] == PARENT ? args->pid : t->a[j] == SELF ? getpid() :
			       t->a[j] == BUF ? (long)page : t->a[j];
		result = syscall(t->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		note(r, t->name, t->only_sandboxed, when, result);
		if (t->nr == SYS_openat && result >= 0)
			close((int)result);
	}
}

/* What no line of a table says. */
static void try_process(struct report *r, int when)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid)
		_exit(0);
	note(r, "fork", 0, when, pid);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
#ifdef SYS_fork
	pid = syscall(SYS_fork);
	if (!pid)
		_exit(0);
	note(r, "old fork", 0, when, pid);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
#endif
}

static void try_parent(struct report *r, int when, const struct hostile_args *args)
{
	static const char *const files[] = { "maps", "mem", "status", "environ", "cmdline", "fd/%d" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[64], file[16];
		long fd;

		snprintf(file, sizeof(file), files[i], args->fd);
		snprintf(path, sizeof(path), "/proc/%d/%s", args->pid, file);
		fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
		/* Of a process that has capabilities, others may know little anyhow. */
		note(r, path, !!strcmp(file, "status") && !!strcmp(file, "cmdline"), when, fd);
		if (fd >= 0)
			close((int)fd);
	}
}

__attribute__((constructor)) static void at_load(void)
{
	const struct hostile_args args = { .pid = 1, .fd = 0, .sandboxed = 1 };

	/* Outside a sandbox it waits to be told so. */
	if (syscall(SYS_getppid) < 0)
		try_table(&early, IN_CONSTRUCTOR, &args);
}

struct on_thread {
	struct report *r;
	struct hostile_args args;
};

static void *thread(void *arg)
{
	struct on_thread *t = arg;

	try_table(t->r, ON_THREAD, &t->args);
	return NULL;
}

/* hostile(out u8 report[], struct hostile_args) */
ARAX_KERNEL int hostile(const struct arax_launch *l)
{
	struct report *r = (struct report *)ARAX_ITEMS(l, 0, sizeof(struct report) / 8, uint64_t);
	struct on_thread t = { .r = r };
	pthread_t id;

	if (!r || arax_launch_args(l, &t.args, sizeof(t.args)))
		return -EINVAL;
	*r = early;
	try_table(r, IN_KERNEL, &t.args);
	try_process(r, IN_KERNEL);
	try_parent(r, IN_KERNEL, &t.args);
	if (pthread_create(&id, NULL, thread, &t))
		return -EAGAIN;
	pthread_join(id, NULL);
	return 0;
}

/* other_abi(inout u32 x[], u32 which): a system call that the filter's numbers don't fit */
ARAX_KERNEL int other_abi(const struct arax_launch *l)
{
	uint32_t *x = ARAX_ITEMS(l, 0, 1, uint32_t), which;

	if (!x || arax_launch_args(l, &which, sizeof(which)))
		return -EINVAL;
#ifdef __x86_64__
	if (which == 0) {	/* i386: getpid */
		uint32_t result = 20;

		__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
		x[0] = result;
	} else {		/* x32: getpid */
		x[0] = (uint32_t)syscall(0x40000000 | SYS_getpid);
	}
#endif
	return 0;
}

#ifdef __x86_64__
static ssize_t hear_nothing(int fd, struct msghdr *h, int flags)
{
	errno = EAGAIN;
	return -1;
}

/* movabs $to, %rax; jmp *%rax */
static int redirect(void *from, void *to)
{
	unsigned char jump[12] = { 0x48, 0xb8, [10] = 0xff, 0xe0 };
	unsigned char *first = (unsigned char *)((uintptr_t)from & ~4095ul);

	memcpy(jump + 2, &to, sizeof(to));
	if (mprotect(first, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	memcpy(from, jump, sizeof(jump));
	return 0;
}
#endif

/* deaf(inout u32 x[]): from now on its worker hears nothing of what it is told */
ARAX_KERNEL int deaf(const struct arax_launch *l)
{
#ifdef __x86_64__
	return redirect(dlsym(RTLD_DEFAULT, "recvmsg"), (void *)hear_nothing);
#else
	return -EOPNOTSUPP;
#endif
}

/* The slot that it shares with araxd: it has this launch's arguments. */
static bool is_slot(const struct worker_slot *s, const struct arax_launch *l)
{
	const uintptr_t at = (uintptr_t)s;

	return at && !(at & 4095) && !madvise((void *)at, sizeof(*s), MADV_NORMAL) &&
	       s->arg_len == l->arg_len && !memcmp(s->args, l->args, l->arg_len);
}

struct search {
	const struct arax_launch *l;
	struct worker_slot *found;
};

static int search_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		struct worker_slot **x = (void *)(info->dlpi_addr + p->p_vaddr);

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
			continue;
		for (size_t k = 0; !s->found && k < p->p_memsz / sizeof(*x); k++)
			if (is_slot(x[k], s->l))
				s->found = x[k];
	}
	return 1;	/* the first is the program itself */
}

/* liar(inout u32 x[], u64 magic): says that it has not done what it was told */
ARAX_KERNEL int liar(const struct arax_launch *l)
{
	struct search s = { .l = l };

	dl_iterate_phdr(search_program, &s);
	if (!s.found)
		return -ENOENT;
	atomic_store(&s.found->handled, 12345);
	return 0;
}

/* each_group(out i32 x[]): every group opens a file; split, so on the gang's threads too */
ARAX_KERNEL int each_group(const struct arax_launch *l)
{
	int32_t *x = ARAX_ITEMS(l, 0, arax_launch_groups(l), int32_t);

	if (!x)
		return -EINVAL;
	for (uint64_t g = l->group_begin; g < l->group_end; g++) {
		long fd = syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
		long s = syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0);

		x[g] = fd >= 0 || s >= 0 ? 1 : (int32_t)-syscall(SYS_gettid);
	}
	return 0;
}
