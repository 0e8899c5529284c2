// SPDX-License-Identifier: MIT
/* OpenCL C that a program brings itself: run.sh has araxd drive an OpenCL device. */
#include "stack.h"

#include "daemon/worker/mounts.h"
#include "daemon/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADD, FAIL, WILD, SPIN, NR_OWN };

static const struct arax_own_kernel own[NR_OWN] = {
	[ADD] = { .signature = "mine(inout u32 x[], u32 value)", .symbol = "add" },
	[FAIL] = { .signature = "fail(inout u32 x[], u32 value)" },
	[WILD] = { .signature = "wild(inout u32 x[], u32 value)" },
	[SPIN] = { .signature = "spin(inout u32 x[], u32 value)" },
};

static const char source[] =
	"__kernel void add(__global uint *x, ulong n, uint value)\n"
	"{ ARAX_EACH(i, n) x[i] += value; }\n"
	"__kernel void fail(__global uint *x, ulong n, uint value, __global int *result)\n"
	"{ *result = -(int)value; }\n"
	"__kernel void wild(__global uint *x, ulong n, uint value)\n"
	"{ *(volatile __global uint *)((ulong)value << 44) = 1; }\n"
	"__kernel void spin(__global uint *x, ulong n, uint value)\n"
	"{ volatile __global uint *y = x; while (y[0] != value) ; }\n";

/* What araxd, with the same rights, needs for the two processes. */
static int namespaces_work(void)
{
	struct mount_attr all = { .attr_set = MOUNT_ATTR_RDONLY };
	int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC, status = 1;
	bool nothing_shared = mounts_nothing_shared();
	pid_t pid = fork();

	if (!pid)
		_exit(unshare(flags | (geteuid() ? CLONE_NEWUSER : 0)) ||
		      (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ?
		       errno != EINVAL || (!geteuid() && !nothing_shared) :
		       syscall(SYS_mount_setattr, -1, "/", AT_RECURSIVE, &all, sizeof(all))) ||
		      mount("x", "/tmp", "tmpfs", 0, NULL));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static struct stack open_stack(void)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_device d = { .size = sizeof(d) };
	uint32_t i;

	if (sandbox_kernel_lacks())
		tap_skip(sandbox_kernel_lacks());
	for (i = 0; !arax_get_device(s.ax, i, &d); i++)
		if (d.kind == ARAX_DEVICE_OPENCL && d.lanes && !d.memory && !namespaces_work())
			tap_skip("no namespaces may be made here");
		else if (d.kind == ARAX_DEVICE_OPENCL && d.lanes && !d.memory)
			return s;
	tap_skip("no OpenCL device works on host pages here (Debian: pocl-opencl-icd)");
}

static int load(struct stack *s, const char *text, const struct arax_own_kernel *k, uint32_t nr,
		struct arax_kernel *loaded)
{
	int err = arax_module_load(s->ax, ARAX_DEVICE_OPENCL, text, strlen(text), k, nr, loaded);

	if (err)
		printf("# arax_module_load: %d, %.300s\n", err, arax_error_text());
	return err;
}

static struct stack open_with(struct arax_kernel k[NR_OWN])
{
	struct stack s = open_stack();

	CHECK_EQ(load(&s, source, own, NR_OWN, k), 0);
	return s;
}

/* Of all OpenCL devices: run.sh has tasks go to each in turn where there are several. */
static void all_have_run(struct stack *s)
{
	struct arax_device d = { .size = sizeof(d) };
	uint32_t i, nr = 0;

	for (i = 0; !arax_get_device(s->ax, i, &d); i++) {
		/* It is told now and then. */
		for (int wait = 0; d.kind == ARAX_DEVICE_OPENCL && !d.tasks && wait < 6000; wait++) {
			usleep(10000);
			CHECK_EQ(arax_get_device(s->ax, i, &d), 0);
		}
		CHECK(d.kind != ARAX_DEVICE_OPENCL || d.tasks);
		nr += d.kind == ARAX_DEVICE_OPENCL;
	}
	CHECK(nr > 0);
}

TEST(opencl_runs)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096), *apart[8];
	uint32_t *x = arax_buffer_data(b), i, j, value = 2;

	CHECK(!strcmp(k[ADD].name, "mine"));
	CHECK_EQ(k[ADD].kinds, 1u << ARAX_DEVICE_OPENCL);
	/* A chain of theirs and an installed one of processor cores, ordered by what they touch. */
	for (i = 0; i < 50; i++) {
		CHECK_EQ(arax_launch(s.q, &k[ADD], arax_grid(3, 1, 1), ARAX_ARGS(value),
				     ARAX_RANGES(arax_inout(b)), NULL), 0);
		stack_launch(&s, s.q, "st_add", b, 1, NULL);
	}
	CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1000), 0);
	CHECK_EQ(x[0], 1150);
	CHECK_EQ(x[1023], 1150);
	CHECK_EQ(stack_run(&s, &k[FAIL], 4, b, 5), -5);
	/* And several that have nothing to do with each other. */
	for (i = 0; i < 8; i++)
		apart[i] = stack_buffer(&s, 65536);
	for (j = 0; j < 20; j++)
		for (i = 0; i < 8; i++)
			CHECK_EQ(arax_launch(s.q, &k[ADD], arax_grid(3, 1, 1), ARAX_ARGS(i),
					     ARAX_RANGES(arax_inout(apart[i])), NULL), 0);
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	for (i = 0; i < 8; i++)
		for (j = 0; j < 16384; j += 16383)
			CHECK_EQ(((uint32_t *)arax_buffer_data(apart[i]))[j], 20 * i);
	all_have_run(&s);
	stack_close(&s);
}

/* In the places of chains' tasks, of which the last ones were not to run. */
TEST(opencl_after_chains_that_failed)
{
	static const char small[] = "__kernel void add(__global uint *x, ulong n, uint value) { }";
	static const struct arax_own_kernel one = { .signature = "add(inout u32 x[], u32 value)" };
	enum { ROUNDS = 8, LENGTH = 12 };
	struct stack s = open_stack();
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event e[LENGTH];
	struct arax_kernel k;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < LENGTH; i++) {
			e[i] = (struct arax_event){ 0 };
			stack_launch(&s, s.q, i == round ? "st_fail" : "st_add", b, 1, &e[i]);
		}
		for (i = 0; i < LENGTH; i++)
			CHECK_EQ(arax_wait(&e[i], arax_deadline(60 * SECOND)),
				 i < round ? 0 : i == round ? -1 : -ECANCELED);
		CHECK_EQ(load(&s, small, &one, 1, &k), 0);
		CHECK_EQ(arax_module_unload(s.ax, &k), 0);
	}
	stack_close(&s);
}

/* More than there is room for: the first ones, a mark, and what the errno means. */
static void many_errors(struct stack *s)
{
	static const struct arax_own_kernel one = { .signature = "add(inout u32 x[], u32 value)" };
	char text[8192] = "__kernel void add(__global uint *x, ulong n, uint value)\n{\n", end[128], *all;
	size_t at = strlen(text), n;
	struct arax_kernel k;
	int i;

	for (i = 0; i < 60; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "\tuint w%d = \"much\"; wrong_number_%d(1);\n", i, i);
	snprintf(text + at, sizeof(text) - at, "}\n");
	CHECK_EQ(load(s, text, &one, 1, &k), -ENOEXEC);
	snprintf(end, sizeof(end), "...: %s", arax_strerror(-ENOEXEC));
	n = strlen(arax_error_text());
	CHECK(strstr(arax_error_text(), "error: ") && strstr(arax_error_text(), "wrong_number_0"));
	CHECK(n > strlen(end) && !strcmp(arax_error_text() + n - strlen(end), end));
	/* And all of it, or as much as is asked for. */
	n = arax_module_log(s->ax, NULL, 0);
	all = malloc(n + 1);
	CHECK(all && arax_module_log(s->ax, all, n + 1) == n && strlen(all) == n);
	CHECK(strstr(all, "wrong_number_0") && strstr(all, "wrong_number_59"));
	CHECK(arax_module_log(s->ax, end, 8) == n && strlen(end) == 7 && !memcmp(all, end, 7));
	free(all);
}

TEST(opencl_that_does_not_compile)
{
	static const struct arax_own_kernel one = { .signature = "add(inout u32 x[], u32 value)" },
		other = { .signature = "add(inout f32 x[], u32 value)" },
		none = { .signature = "add(inout u32 x[], u32 value)", .symbol = "sub" };
	struct stack s = open_stack();
	struct arax_kernel k;
	static const uint8_t spirv[64] = { 0x03, 0x02, 0x23, 0x07, 0x99 };

	/* The compiler's words come back. */
	CHECK_EQ(load(&s, "__kernel void add(__global uint *x, ulong n, uint value) { what; }", &one, 1,
		      &k), -ENOEXEC);
	CHECK(strstr(arax_error_text(), "undeclared identifier 'what'"));
	many_errors(&s);
	CHECK_EQ(load(&s, source, &other, 1, &k), -ENOEXEC);
	CHECK(strstr(arax_error_text(), "must be \"__global float*\""));
	CHECK_EQ(load(&s, source, &none, 1, &k), -ENOENT);
	/* Neither does what begins as SPIR-V and goes on as nothing. */
	CHECK_EQ(arax_module_load(s.ax, ARAX_DEVICE_OPENCL, spirv, sizeof(spirv), &one, 1, &k),
		 -ENOEXEC);
	/* No file that is not the system's can be had by way of the compiler. */
	CHECK_EQ(load(&s, "#include \"/etc/passwd\"\n", &one, 1, &k), -ENOEXEC);
	CHECK(!strstr(arax_error_text(), "root"));
	CHECK_EQ(load(&s, source, &one, 1, &k), 0);
	stack_close(&s);
}

TEST(opencl_that_fails_says_why)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_grid g = arax_grid(1, 1, 1);
	struct arax_event e = { 0 };
	uint32_t value = 1;

	g.block[0] = 60000;
	CHECK_EQ(arax_launch(s.q, &k[ADD], g, ARAX_ARGS(value), ARAX_RANGES(arax_inout(b)), &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -EINVAL);
	if (!strstr(arax_error_text(), ": add: block of 60000 work-items")) {
		printf("# %s\n", arax_error_text());
		CHECK(0);
	}
	CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1), 0);
	/* A kernel's own errno is all that there is of it. */
	CHECK_EQ(stack_run(&s, &k[FAIL], 4, b, 5), -5);
	CHECK(!strstr(arax_error_text(), "60000"));
	stack_close(&s);
}

TEST(opencl_harms_itself)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_range r = arax_inout(b);
	struct arax_event e = { 0 };
	uint32_t never = 12345;
	struct arax_desc d = {
		.opcode = ARAX_OP_LAUNCH, .kernel = &k[SPIN], .grid = arax_grid(1, 1, 1),
		.args = &never, .arg_len = sizeof(never), .ranges = &r, .nr_ranges = 1, .event = &e,
	};
	int i;

	for (i = 0; i < 3; i++) {
		CHECK_EQ(stack_run(&s, &k[WILD], 4, b, 1), -EFAULT);
		d.deadline = arax_deadline(SECOND / 2);
		CHECK_EQ(arax_submit(s.q, &d, 1, 0), 1);
		CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), -ETIMEDOUT);
		CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1), 0);
	}
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 3);
	stack_close(&s);
}

enum { BEGINS, RUNS, FREE };

/* Another program, whose kernels keep all lanes of all OpenCL devices until it is told otherwise. */
static int spin_everywhere(_Atomic int *step)
{
	struct arax_kernel k[NR_OWN];
	struct stack s = open_with(k);
	struct arax_device d = { .size = sizeof(d) };
	uint32_t lanes = 0, value = 12345, i;
	struct arax_buffer *b[64];

	for (i = 0; !arax_get_device(s.ax, i, &d); i++)
		lanes += d.kind == ARAX_DEVICE_OPENCL ? d.lanes : 0;
	CHECK(lanes && lanes <= 64);
	for (i = 0; i < lanes; i++) {
		b[i] = stack_buffer(&s, 4096);
		CHECK_EQ(arax_launch(s.q, &k[SPIN], arax_grid(1, 1, 1), ARAX_ARGS(value),
				     ARAX_RANGES(arax_inout(b[i])), NULL), 0);
	}
	*step = RUNS;
	while (*step != FREE)
		usleep(1000);
	for (i = 0; i < lanes; i++)
		*(volatile uint32_t *)arax_buffer_data(b[i]) = value;
	CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
	stack_close(&s);
	return 0;
}

TEST(opencl_makes_way)
{
	struct stack s = open_stack();
	_Atomic int *step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct arax_kernel k[NR_OWN];
	struct arax_buffer *b = stack_buffer(&s, 4096);
	int status;
	pid_t pid;

	CHECK(step != MAP_FAILED);
	pid = fork();
	if (!pid)
		_exit(spin_everywhere(step));
	while (*step == BEGINS && !waitpid(pid, NULL, WNOHANG))
		usleep(1000);
	CHECK_EQ(*step, RUNS);
	/* It is compiled, loaded and run. */
	CHECK_EQ(load(&s, source, own, NR_OWN, k), 0);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 10);
	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	*step = FREE;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	stack_close(&s);
}

TEST(opencl_is_nobody_elses_and_counted)
{
	struct stack other = stack_open(ARAX_QUEUE_DATAFLOW), s = open_stack();
	struct arax_kernel k[NR_OWN];
	struct arax_buffer *b = stack_buffer(&s, 4096), *c = stack_buffer(&other, 4096);
	uint64_t before = stack_settled_memory(&other, &s);

	CHECK_EQ(load(&s, source, own, NR_OWN, k), 0);
	CHECK_EQ(stack_run(&other, &k[ADD], 4, c, 1), -ENOEXEC);
	CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1), 0);
	/* What it was compiled to is more than its text. */
	CHECK(stack_settled_memory(&other, &s) > before + 2 * sizeof(source));
	CHECK_EQ(arax_module_unload(s.ax, &k[FAIL]), 0);
	CHECK_EQ(stack_run(&s, &k[ADD], 4, b, 1), -ENOEXEC);
	stack_wait_memory(&other, before);
	stack_close(&s);
	stack_close(&other);
}

#ifdef __x86_64__

/* One system call: how many, its arguments, and what it gave; pointers are offsets in the buffer. */
struct call {
	int64_t nr, pointers, a[6], result;
};

#define WORDS	(sizeof(struct call) / 8)

static const char syscalls[] =
	"__kernel void sys(__global long *c, ulong n)\n"
	"{\n"
	"	if (get_global_id(0)) return;\n"
	"	for (ulong i = 0; i + 9 <= n && c[i]; i += 9) {\n"
	"		long a[6], ret;\n"
	"		for (int j = 0; j < 6; j++)\n"
	"			a[j] = c[i + 2 + j] + (c[i + 1] >> j & 1 ? (long)c : 0);\n"
	"		__asm__ volatile(\"movq 24(%5), %%r10\\n movq 32(%5), %%r8\\n\"\n"
	"			\"movq 40(%5), %%r9\\n syscall\" : \"=a\"(ret) : \"0\"(c[i]), \"D\"(a[0]),\n"
	"			\"S\"(a[1]), \"d\"(a[2]), \"r\"(a) : \"rcx\", \"r8\", \"r9\", \"r10\", \"r11\",\n"
	"			\"memory\");\n"
	"		c[i + 8] = ret;\n"
	"	}\n"
	"}\n";

/*
 * @text: in place of the argument of that number; NULL: none.  @memory: arguments, by bits, that
 * point to zeros of their own: what is refused shall not be so for an address that is none.
 */
struct try {
	const char *name, *text;
	int at, works;
	int64_t nr, a[6];
	int memory;
};

#define PATH2	1	/* the path is the second argument */

static const struct try tries[] = {
	/* Files of its own, in memory that is nobody else's. */
	{ "make a file", "/tmp/mine", PATH2, 1, SYS_openat, { AT_FDCWD, 0, O_CREAT | O_WRONLY, 0600 }, 0 },
	{ "make a folder", "/tmp/folder", PATH2, 1, SYS_mkdirat, { AT_FDCWD, 0, 0700 }, 0 },
	{ "look at it", "/tmp/mine", PATH2, 1, SYS_openat, { AT_FDCWD, 0, O_RDONLY }, 0 },
	{ "remove it", "/tmp/mine", PATH2, 1, SYS_unlinkat, { AT_FDCWD, 0, 0 }, 0 },
	{ "who am I", NULL, 0, 1, SYS_getpid, { 0 }, 0 },
	/* And nothing else. */
	{ "a file of the test's", "/tmp/arax-own-opencl", PATH2, 0, SYS_openat,
	  { AT_FDCWD, 0, O_RDONLY }, 0 },
	{ "read /etc/passwd", "/etc/passwd", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDONLY }, 0 },
	{ "neither read nor write", "/etc/passwd", PATH2, 0, SYS_openat, { AT_FDCWD, 0, 3 }, 0 },
	{ "the same of a device", "/dev/null", PATH2, 0, SYS_openat, { AT_FDCWD, 0, 3 }, 0 },
	{ "the same to truncate", "/tmp/mine", PATH2, 0, SYS_openat, { AT_FDCWD, 0, 3 | O_TRUNC }, 0 },
	{ "to truncate a library", "/usr/lib/os-release", PATH2, 0, SYS_openat,
	  { AT_FDCWD, 0, O_RDONLY | O_TRUNC }, 0 },
	{ "truncate", "/tmp/mine", 0, 0, SYS_truncate, { 0, 0 }, 0 },
	{ "chmod", "/tmp/folder", PATH2, 0, SYS_fchmodat, { AT_FDCWD, 0, 0777 }, 0 },
	{ "O_TMPFILE", "/tmp", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_TMPFILE | O_RDWR, 0600 }, 0 },
	{ "O_PATH", "/etc/passwd", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_PATH }, 0 },
	{ "stat", "/etc/passwd", PATH2, 0, SYS_newfstatat, { AT_FDCWD, 0, 0, 0 }, 4 },
	{ "access", "/etc/passwd", PATH2, 0, SYS_faccessat, { AT_FDCWD, 0, R_OK }, 0 },
	{ "faccessat2", "/etc/passwd", PATH2, 0, SYS_faccessat2, { AT_FDCWD, 0, R_OK, 0 }, 0 },
	{ "readlink", "/proc/self/exe", PATH2, 0, SYS_readlinkat, { AT_FDCWD, 0, 0, 64 }, 4 },
	{ "read own memory", "/proc/self/mem", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDWR }, 0 },
	{ "environment", "/proc/self/environ", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDONLY }, 0 },
	{ "list /proc", "/proc", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDONLY | O_DIRECTORY }, 0 },
	{ "write in /dev/shm", "/dev/shm/arax-x", PATH2, 0, SYS_openat,
	  { AT_FDCWD, 0, O_CREAT | O_WRONLY, 0600 }, 0 },
	{ "write in /var/tmp", "/var/tmp/arax-x", PATH2, 0, SYS_openat,
	  { AT_FDCWD, 0, O_CREAT | O_WRONLY, 0600 }, 0 },
	{ "a folder in /var/tmp", "/var/tmp/arax-x", PATH2, 0, SYS_mkdirat, { AT_FDCWD, 0, 0700 }, 0 },
	{ "write to a library", "/usr/lib/os-release", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDWR }, 0 },
	{ "remove a file", "/tmp/../etc/hostname", PATH2, 0, SYS_unlinkat, { AT_FDCWD, 0, 0 }, 0 },
	{ "/dev/null", "/dev/null", PATH2, 0, SYS_openat, { AT_FDCWD, 0, O_RDWR }, 0 },
	{ "symlink", "/tmp/link", PATH2, 0, SYS_symlinkat, { 0, AT_FDCWD, 0 }, 1 },
	{ "fork", NULL, 0, 0, SYS_fork, { 0 }, 0 },
	{ "clone", NULL, 0, 0, SYS_clone, { SIGCHLD }, 0 },
	{ "clone3", NULL, 0, 0, SYS_clone3, { 0, 64 }, 1 },
	{ "execve", "/bin/true", 0, 0, SYS_execve, { 0, 0, 0 }, 6 },
	{ "execveat", "/bin/true", PATH2, 0, SYS_execveat, { AT_FDCWD, 0, 0, 0, 0 }, 12 },
	{ "socket", NULL, 0, 0, SYS_socket, { 1, 1, 0 }, 0 },
	{ "inet socket", NULL, 0, 0, SYS_socket, { 2, 1, 0 }, 0 },
	{ "kill", NULL, 0, 0, SYS_kill, { 1, 0 }, 0 },
	{ "tgkill", NULL, 0, 0, SYS_tgkill, { 1, 1, SIGCONT }, 0 },
	{ "ptrace", NULL, 0, 0, SYS_ptrace, { 0 }, 0 },
	{ "process_vm_readv", NULL, 0, 0, SYS_process_vm_readv, { 1, 0, 0, 0, 0, 0 }, 10 },
	{ "pidfd_open", NULL, 0, 0, SYS_pidfd_open, { 1, 0 }, 0 },
	{ "mount", NULL, 0, 0, SYS_mount, { 0, 0, 0, 0, 0 }, 0 },
	{ "unshare", NULL, 0, 0, SYS_unshare, { CLONE_NEWUSER }, 0 },
	{ "setns", NULL, 0, 0, SYS_setns, { 0, 0 }, 0 },
	{ "setuid", NULL, 0, 0, SYS_setuid, { 0 }, 0 },
	{ "bpf", NULL, 0, 0, SYS_bpf, { 0, 0, 0 }, 0 },
	{ "io_uring_setup", NULL, 0, 0, SYS_io_uring_setup, { 1, 0 }, 2 },
	{ "userfaultfd", NULL, 0, 0, SYS_userfaultfd, { 0 }, 0 },
	{ "perf_event_open", NULL, 0, 0, SYS_perf_event_open, { 0, 0, -1, -1, 0 }, 1 },
	{ "keyctl", NULL, 0, 0, SYS_keyctl, { 0, 0, 0 }, 0 },
	{ "memfd_create", "x", 0, 0, SYS_memfd_create, { 0, 0 }, 0 },
	{ "inotify", NULL, 0, 0, SYS_inotify_init1, { 0 }, 0 },
	{ "timerfd", NULL, 0, 0, SYS_timerfd_create, { 1, 0 }, 0 },
	{ "pipe", NULL, 0, 0, SYS_pipe2, { 0, 0 }, 1 },
	{ "socket pair", NULL, 0, 0, SYS_socketpair, { 1, 1, 0, 0 }, 8 },
	{ "dup", NULL, 0, 0, SYS_dup, { 3 }, 0 },
	{ "fcntl", NULL, 0, 0, SYS_fcntl, { 5, F_SETFL, 0 }, 0 },
	{ "shared memory", NULL, 0, 0, SYS_mmap,
	  { 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0 }, 0 },
	{ "punch a hole", NULL, 0, 0, SYS_madvise, { 0, 4096, MADV_REMOVE }, 1 },
	{ "prlimit of another", NULL, 0, 0, SYS_prlimit64, { 1, 7, 0, 0 }, 8 },
	{ "prctl", NULL, 0, 0, SYS_prctl, { 4, 1 }, 0 },
};

#define NR_TRIES	(sizeof(tries) / sizeof(tries[0]))
#define TEXTS		(32u << 10)	/* where they stand in the buffer */
#define ZEROS		(60u << 10)	/* a page */

static void set_call(struct call *c, char *data, const struct try *t, size_t *used)
{
	*c = (struct call){ .nr = t->nr, .result = -12345 };
	memcpy(c->a, t->a, sizeof(c->a));
	c->pointers = t->memory;
	for (int i = 0; i < 6; i++)
		if (t->memory >> i & 1)
			c->a[i] = ZEROS;
	if (!t->text)
		return;
	strcpy(data + *used, t->text);
	c->a[t->at] = (int64_t)*used;
	c->pointers |= 1 << t->at;
	*used += strlen(t->text) + 1;
}

TEST(opencl_is_locked_up)
{
	static const struct arax_own_kernel sys = { .signature = "sys(inout i64 calls[])" };
	struct stack s = open_stack();
	struct arax_buffer *b = stack_buffer(&s, 64u << 10);
	struct call *calls = arax_buffer_data(b);
	struct arax_event e = { 0 };
	struct arax_kernel k;
	size_t used = TEXTS, i, wrong = 0;
	int ended;
	int fd = open("/tmp/arax-own-opencl", O_CREAT | O_RDWR | O_CLOEXEC, 0666);

	CHECK(fd >= 0);
	CHECK(sizeof(struct call) * (NR_TRIES + 1) <= TEXTS);
	for (i = 0; i < NR_TRIES; i++)
		set_call(&calls[i], (char *)calls, &tries[i], &used);
	CHECK_EQ(load(&s, syscalls, &sys, 1, &k), 0);
	CHECK_EQ(arax_launch(s.q, &k, arax_grid(1, 1, 1), NULL, 0, ARAX_RANGES(arax_inout(b)), &e), 0);
	ended = arax_wait(&e, arax_deadline(60 * SECOND));
	for (i = 0; i < NR_TRIES; i++) {
		int64_t r = calls[i].result;

		if (r == -12345 || (r >= 0) != tries[i].works) {
			printf("# %s: %lld\n", tries[i].name, (long long)r);
			wrong++;
		}
	}
	close(fd);
	unlink("/tmp/arax-own-opencl");
	CHECK_EQ(ended, 0);
	CHECK_EQ(wrong, 0);
	stack_close(&s);
}

#endif
