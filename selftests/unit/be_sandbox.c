// SPDX-License-Identifier: MIT
/* Kernels that programs bring: what those in a worker's sandbox can do, and can't. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "daemon/reason.h"
#include "daemon/worker/sandbox.h"
#include "selftests/kernels-test/foreign.h"
#include "selftests/unit/be_runner.h"
#include "selftests/unit/be_test.h"
#include "selftests/unit/wait.h"

static void setup_with(const char *text)
{
	open_device(text, LOG_LEVEL_WARNING);
	open_runner();
}

static void setup(void)
{
	setup_with("worker { timeout_ms = 20000 }");
}

/* As a private daemon of a user's has it: nobody here is root. */
#define USER	12347u

static int become_user(void)
{
	if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
		return -errno;
	/* As if it had been so from the start. */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) ? -errno : 0;
}

static void setup_user(void)
{
	ck_assert_int_eq(become_user(), 0);
	setup();
}

/* Whether @fails does not, in a process that ends with it: what it becomes it stays. */
static bool a_child_can(int (*fails)(void))
{
	const char *fork_mode = getenv("CK_FORK");
	int status;
	pid_t pid;

	if (fork_mode && !strcmp(fork_mode, "no"))
		return false;
	pid = fork();
	if (!pid)
		_exit(!!fails());
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

/* Where the build lies in a folder of root's own a user can't run it. */
static int run_as_user(void)
{
	return become_user() || access("build/libexec/arax-worker", X_OK);
}

static int hide_proc(void)
{
	return unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       mount("none", "/proc", "tmpfs", 0, NULL);
}

static void setup_wide(void)
{
	setup_with("cpu { groups = { \"0-1\" } }");
}

static void setup_own_memory(void)
{
	setup_with("cpu { memory = \"16M\" }");
}

static void teardown(void)
{
	close_runner();
	assert_no_process_left();
}

/* ------------------------------------------------------------------ */
/* Kernels as a module has them                                          */

static uint64_t last_serial = 1ull << 32;

/* A sealed copy of an image. */
static int image(const char *name)
{
	char path[128], block[65536];
	int from, fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t n;

	snprintf(path, sizeof(path), "build/test/foreign/%s.so", name);
	from = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(from >= 0 && fd >= 0, "%s: %s", path, strerror(errno));
	while ((n = read(from, block, sizeof(block))) > 0)
		ck_assert_int_eq(write(fd, block, (size_t)n), n);
	ck_assert_int_eq(n, 0);
	close(from);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS,
			       F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
	return fd;
}

static struct kernel foreign(int fd, char *symbol, uint64_t owner)
{
	struct kernel k = {
		.index = KERNEL_NO_INDEX, .serial = last_serial++, .kinds = 1u << ARAX_DEVICE_CPU,
		.addressing = KERNEL_ADDRESSING_DATA, .foreign = true, .owner = owner,
		.library = (char *)"test", .nr_impls = 1,
		.impls = { { .kind = ARAX_DEVICE_CPU, .fd = fd, .file = (char *)"image",
			     .symbol = symbol } },
	};

	snprintf(k.sig.name, sizeof(k.sig.name), "%s", symbol);
	return k;
}

struct launch {
	struct runner_task t;
	struct arax_launch_range range;
	struct runner_buffer buffer;
};

static int run_as(uint32_t uid, uint32_t gid, const struct kernel *k, const struct buffer *b,
		  uint32_t groups, const void *args, uint32_t arg_len, uint64_t deadline_ns)
{
	struct launch l = {
		.range = { b->data, b->bytes, 0, 1 },
		.buffer = { b->id, b->bytes, 0, b->fd, 0 },
		.t = { .kernel = k, .uid = uid, .gid = gid, .deadline_ns = deadline_ns },
	};

	l.t.buffers = &l.buffer;
	l.t.launch = (struct arax_launch){
		.size = sizeof(l.t.launch), .nr_ranges = 1, .grid = { groups, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = groups, .ranges = &l.range, .args = args,
		.arg_len = arg_len,
	};
	return runner_run(runner, &l.t);
}

static int run(const struct kernel *k, const struct buffer *b)
{
	return run_as(TENANT, TENANT_GID, k, b, 1, NULL, 0, 0);
}

static _Atomic int nr_done;

static void on_done(struct runner_task *t)
{
	atomic_fetch_add(&nr_done, 1);
}

static int run_on_lane(const struct kernel *k, const struct buffer *b)
{
	struct launch l = {
		.range = { b->data, b->bytes, 0, 1 },
		.buffer = { b->id, b->bytes, 0, b->fd, 0 },
		.t = { .kernel = k, .uid = TENANT, .gid = TENANT_GID, .done = on_done },
	};
	int before = nr_done;

	l.t.buffers = &l.buffer;
	l.t.launch = (struct arax_launch){
		.size = sizeof(l.t.launch), .nr_ranges = 1, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = 1, .ranges = &l.range,
	};
	runner_submit(runner, &l.t);
	while (nr_done == before)
		sched_yield();
	return l.t.result;
}

static struct runner_stats query(void)
{
	struct runner_stats s;

	runner_query(runner, &s);
	return s;
}

/* ------------------------------------------------------------------ */
/* The hostile one                                                       */

/*
 * What a call is refused with: by Landlock, which is asked where a filter can't see the
 * name; with ENOSYS where the C library asks an older call; else by the filter.
 */
static bool refused(const struct attempt *a)
{
	if (!strncmp(a->name, "open /", 6) || !strncmp(a->name, "/proc/", 6))
		return a->result == -EACCES;
	if (!strcmp(a->name, "clone3") || !strcmp(a->name, "statx"))
		return a->result == -ENOSYS;
	return a->result == -EPERM;
}

static struct report *attack(const struct buffer *b, uint32_t uid, uint32_t gid, bool sandboxed)
{
	struct buffer secret = make_buffer(PAGE);
	struct hostile_args args = { .pid = getpid(), .fd = secret.fd, .sandboxed = sandboxed };
	int fd = image("hostile");
	struct kernel k = foreign(fd, (char *)"hostile", 1);

	k.foreign = sandboxed;
	ck_assert_int_eq(run_as(uid, gid, &k, b, 1, &args, sizeof(args), 0), 0);
	close(fd);
	free_buffer(&secret);
	return (struct report *)b->data;
}

static void check_refusals(uint32_t uid, uint32_t gid)
{
	struct buffer b = make_buffer(sizeof(struct report));
	struct report *r = attack(&b, uid, gid, true);
	uint32_t when[4] = { 0 }, wrong = 0;
	struct stat st;

	for (uint64_t i = 0; i < r->nr; i++) {
		const struct attempt *a = &r->attempts[i];

		ck_assert_int_le(a->when, ON_THREAD);
		when[a->when]++;
		if (!refused(a)) {
			printf("# %s (%d): %lld\n", a->name, a->when, (long long)a->result);
			wrong++;
		}
	}
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_lt(r->nr, MAX_ATTEMPTS);
	ck_assert_uint_eq(when[NOT_TRIED], 0);
	ck_assert_uint_ge(when[IN_CONSTRUCTOR], 150);
	ck_assert_uint_gt(when[IN_KERNEL], when[IN_CONSTRUCTOR]);
	ck_assert_uint_eq(when[ON_THREAD], when[IN_CONSTRUCTOR]);
	ck_assert_int_eq(stat("/tmp/arax-hostile", &st), -1);
	free_buffer(&b);
}

START_TEST(hostile_code_gets_nowhere)
{
	check_refusals(TENANT, TENANT_GID);
}
END_TEST

/* What is root in some container is nobody in the sandbox. */
START_TEST(hostile_root_gets_nowhere)
{
	check_refusals(0, 0);
}
END_TEST

/* The same outside of a sandbox, or the two above would prove nothing. */
START_TEST(all_that_works_elsewhere)
{
	struct buffer b = make_buffer(sizeof(struct report));
	struct report *r = attack(&b, geteuid(), getegid(), false);
	uint32_t wrong = 0;

	ck_assert_uint_ge(r->nr, 250);
	for (uint64_t i = 0; i < r->nr; i++)
		if (!r->attempts[i].only_sandboxed &&
		    (r->attempts[i].result == -EACCES || refused(&r->attempts[i]))) {
			printf("# %s: %lld\n", r->attempts[i].name,
			       (long long)r->attempts[i].result);
			wrong++;
		}
	ck_assert_uint_eq(wrong, 0);
	free_buffer(&b);
}
END_TEST

/* i386's and x32's numbers mean other calls: whoever uses them is ended. */
START_TEST(other_abis_are_fatal)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("hostile");
	struct kernel k = foreign(fd, (char *)"other_abi", 1);
	uint32_t which = (uint32_t)_i;

#ifdef __x86_64__
	ck_assert_int_eq(run_as(TENANT, TENANT_GID, &k, &b, 1, &which, sizeof(which), 0), -EFAULT);
	ck_assert_uint_eq(query().worker_crashes, 1);
#else
	ck_assert_int_eq(run_as(TENANT, TENANT_GID, &k, &b, 1, &which, sizeof(which), 0), 0);
#endif
	close(fd);
	free_buffer(&b);
}
END_TEST

/* The gang's threads are older than the filter. */
START_TEST(helpers_are_locked_up_too)
{
	struct buffer b = make_buffer(4096 * sizeof(int32_t));
	int fd = image("hostile");
	struct kernel k = foreign(fd, (char *)"each_group", 1);
	int32_t *x = (int32_t *)b.data;
	bool others = false;

	k.split = true;
	for (int round = 0; round < 50 && !others; round++) {
		memset(b.data, 0, b.bytes);
		ck_assert_int_eq(run_as(TENANT, TENANT_GID, &k, &b, 4096, NULL, 0, 0), 0);
		for (uint32_t i = 0; i < 4096; i++) {
			ck_assert_int_lt(x[i], 0);
			others |= x[i] != x[0];
		}
	}
	ck_assert(others);
	close(fd);
	free_buffer(&b);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The innocent one                                                      */

START_TEST(innocent_code_works)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"innocent", 1);
	const double *x = (const double *)b.data;
	struct rlimit files, stack;

	/* A worker's own, unless araxd has less itself. */
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_STACK, &stack), 0);
	ck_assert(runner_can_foreign(runner));
	ck_assert(runner_needs_worker(runner, &k));
	ck_assert_int_eq(runner_prepare(runner, &k), 0);
	for (int round = 0; round < 3; round++) {
		memset(b.data, 0, b.bytes);
		ck_assert_int_eq(run(&k, &b), 0);
		ck_assert_double_gt(x[0], 1.02);
		ck_assert_double_lt(x[0], 1.03);
		ck_assert_double_eq(x[1], 1);
		ck_assert_double_gt(x[2], 4 * 21000);
		ck_assert_double_lt(x[2], 4 * 21100);
		ck_assert_double_eq(x[3], 9);
		ck_assert_double_eq(x[4], sizeof(int));
		ck_assert_double_ge(x[5], 1);
		ck_assert_double_eq(x[6], 0);
		ck_assert_double_eq(x[7], 0);
		/* CORE to NICE: nothing of it at all. */
		for (int i = 8; i < 14; i++)
			ck_assert_double_eq(x[i], 0);
		ck_assert_double_eq(x[14], fmin(4200, (double)files.rlim_max));
		ck_assert_double_eq(x[15], fmin(8 << 20, (double)stack.rlim_max));
	}
	ck_assert_uint_eq(query().worker_starts, 1);
	close(fd);
	free_buffer(&b);
}
END_TEST

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

START_TEST(ends_that_are_its_own)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent"), before = log_max_level;
	struct kernel aborts = foreign(fd, (char *)"abort_kernel", 1);
	struct kernel overflows = foreign(fd, (char *)"overflow", 1);
	struct kernel loops = foreign(fd, (char *)"endless", 1);
	struct kernel good = foreign(fd, (char *)"who", 1);

	log_max_level = 0;
	ck_assert_int_eq(run(&aborts, &b), -EFAULT);
	ck_assert_int_eq(run(&overflows, &b), -EFAULT);
	ck_assert_uint_eq(query().worker_crashes, 2);
	/* Whose deadline has passed before it begins does not come to a worker. */
	for (uint64_t ns = 50000000; !query().worker_timeouts && ns < 10000000000; ns *= 2)
		ck_assert_int_eq(run_as(TENANT, TENANT_GID, &loops, &b, 1, NULL, 0, now_ns() + ns),
				 -ETIMEDOUT);
	ck_assert_uint_eq(query().worker_timeouts, 1);
	ck_assert_uint_eq(query().workers, 0);
	ck_assert_int_eq(run(&good, &b), 0);
	log_max_level = before;
	close(fd);
	free_buffer(&b);
}
END_TEST

/* What can't be loaded, or is no image at all. */
START_TEST(bad_images)
{
	static const char text[] = "\177ELF and no more";
	struct buffer b = make_buffer(PAGE);
	int good = image("innocent"), bad = memfd_create("bad", MFD_CLOEXEC);
	struct kernel absent = foreign(good, (char *)"no_such_symbol", 1);
	struct kernel none = foreign(bad, (char *)"who", 1);

	ck_assert_int_eq(write(bad, text, sizeof(text)), sizeof(text));
	ck_assert_int_eq(run(&absent, &b), -ENOENT);
	ck_assert_int_eq(run(&none, &b), -ENOEXEC);
	close(good);
	close(bad);
	free_buffer(&b);
}
END_TEST

/* Neither by a worker nor, were it installed, here. */
static void assert_not_loaded(const struct kernel *k, const char *words)
{
	const struct arax_backend_kernel installed = {
		.size = sizeof(installed), .fd = k->impls[0].fd, .file = "image", .symbol = "who",
	};
	struct buffer b = make_buffer(PAGE);
	char why[REASON_LEN];
	void *loaded;

	reason_forget();
	ck_assert_int_eq(run(k, &b), -ENOEXEC);
	reason_take(why);
	ck_assert_msg(strstr(why, words), "%s", why);
	ck_assert_int_eq(device_kernel_load(devices_at(devices, 0), &installed, &loaded), -ENOEXEC);
	reason_take(why);
	ck_assert_msg(strstr(why, words), "%s", why);
	free_buffer(&b);
}

/* What the C library finds "no such file": who has built it for another machine knows better. */
START_TEST(images_of_other_machines)
{
	static const struct { off_t at; unsigned char byte; const char *words; } cases[] = {
		{ offsetof(Elf64_Ehdr, e_machine), 0xb6, ": it was built for another kind of processor" },
		{ EI_DATA, 0, ": it was built for another kind of processor" },
		{ EI_CLASS, ELFCLASS32, ": wrong ELF class: ELFCLASS32" },
	};
	char block[65536];
	ssize_t n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int good = image("innocent"), fd = memfd_create("other", MFD_CLOEXEC);
		struct kernel k = foreign(fd, (char *)"who", i + 1);

		for (off_t at = 0; (n = pread(good, block, sizeof(block), at)) > 0; at += n)
			ck_assert_int_eq(write(fd, block, (size_t)n), n);
		ck_assert_int_eq(pwrite(fd, &cases[i].byte, 1, cases[i].at), 1);
		assert_not_loaded(&k, cases[i].words);
		close(good);
		close(fd);
	}
}
END_TEST

/* In a container, or a chroot, that was made without. */
START_TEST(no_proc)
{
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1);

	ck_assert_int_eq(hide_proc(), 0);
	assert_not_loaded(&k, ": there is no /proc here, through which it is loaded: mount it");
	/* Who looks for leaks at the end needs it. */
	ck_assert_int_eq(umount("/proc"), 0);
	close(fd);
}
END_TEST

START_TEST(memory_is_limited)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"hoard", 1);
	uint64_t *mib = (uint64_t *)b.data;

	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_uint_ge(*mib, 16);
	/* What threads' stacks may take besides it can take, too. */
	ck_assert_uint_lt(*mib, 64 + 8 * (uint64_t)sysconf(_SC_NPROCESSORS_CONF));
	close(fd);
	free_buffer(&b);
}
END_TEST

static void setup_small(void)
{
	setup_with("worker { memory = \"64M\" }");
}

/* ------------------------------------------------------------------ */
/* Who shares a worker                                                   */

/* Also by who goes first when memory is short. */
START_TEST(foreign_and_installed_are_apart)
{
	struct buffer b = make_buffer(PAGE);
	const struct kernel *installed = registry_find(registry, "test_identity");
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1);
	uint32_t foreign_pid;
	int before = oom_score_adj(getpid());

	ck_assert_int_eq(run(&k, &b), 0);
	foreign_pid = b.data[0];
	ck_assert_int_eq(oom_score_adj((pid_t)foreign_pid), 1000);
	ck_assert_int_eq(run(installed, &b), 0);
	ck_assert_uint_ne(b.data[0], foreign_pid);
	ck_assert_int_eq(oom_score_adj((pid_t)b.data[0]), before < 0 ? 0 : before);
	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_uint_eq(b.data[0], foreign_pid);
	ck_assert_uint_eq(b.data[1], 2);
	ck_assert_uint_eq(query().workers, 2);
	ck_assert_uint_eq(query().worker_starts, 2);
	close(fd);
	free_buffer(&b);
}
END_TEST

/* One uid may be many: each owner has a process, and what has none one for itself. */
START_TEST(owners_are_apart)
{
	static const struct { uint64_t owner; int same_as; } cases[] = {
		{ 1, 0 }, { 1, 0 }, { 2, 2 }, { 1, 0 }, { 0, 4 }, { 0, 5 }, { 2, 2 },
	};
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k[7];
	uint32_t pids[7];

	for (int i = 0; i < 7; i++) {
		k[i] = foreign(fd, (char *)"who", cases[i].owner);
		ck_assert_int_eq(run(&k[i], &b), 0);
		pids[i] = b.data[0];
		for (int j = 0; j < i; j++)
			ck_assert_int_eq(pids[i] == pids[j], cases[i].same_as == cases[j].same_as);
	}
	ck_assert_int_eq(run(&k[4], &b), 0);
	ck_assert_uint_eq(b.data[0], pids[4]);
	ck_assert_uint_eq(query().worker_starts, 4);
	close(fd);
	free_buffer(&b);
}
END_TEST

/* Foreign ones count against worker.max as others do. */
START_TEST(both_kinds_are_counted)
{
	struct buffer b = make_buffer(PAGE);
	const struct kernel *installed = registry_find(registry, "test_identity");
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1);

	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_int_eq(run(installed, &b), 0);
	ck_assert_uint_eq(query().workers, 1);
	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_uint_eq(query().workers, 1);
	ck_assert_uint_eq(query().worker_starts, 3);
	close(fd);
	free_buffer(&b);
}
END_TEST

static void setup_one_worker(void)
{
	setup_with("worker { max = 1 }");
}

static bool ends(uint32_t workers)
{
	return comes_true(query().workers == workers, 10000);
}

/* A module that is gone: no worker that has it lives on, and the next is new. */
START_TEST(dropped_kernels_are_loaded_anew)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1), other = foreign(fd, (char *)"who", 2);
	uint32_t pid;

	for (uint32_t i = 1; i <= 3; i++) {
		ck_assert_int_eq(run(&k, &b), 0);
		ck_assert_uint_eq(b.data[1], i);
	}
	pid = b.data[0];
	ck_assert_int_eq(run(&other, &b), 0);
	runner_drop_kernel(runner, last_serial);	/* nobody has it */
	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_uint_eq(b.data[0], pid);
	ck_assert_uint_eq(query().workers, 2);

	runner_drop_kernel(runner, k.serial);
	ck_assert(ends(1));
	ck_assert_int_eq(run(&other, &b), 0);
	ck_assert_uint_eq(b.data[1], 2);	/* not his */
	k.serial = last_serial++;
	ck_assert_int_eq(run(&k, &b), 0);
	ck_assert_uint_ne(b.data[0], pid);
	ck_assert_uint_eq(b.data[1], 1);
	ck_assert_uint_eq(query().worker_starts, 3);
	close(fd);
	free_buffer(&b);
}
END_TEST

/* While it runs: it ends as it would, and its worker after it. */
START_TEST(dropped_while_it_runs)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"endless", 1);
	struct launch l = {
		.range = { b.data, b.bytes, 0, 1 },
		.buffer = { b.id, b.bytes, 0, b.fd, 0 },
		.t = { .kernel = &k, .uid = TENANT, .gid = TENANT_GID, .done = on_done,
		       .deadline_ns = now_ns() + 300000000 },
	};
	int before = log_max_level;

	log_max_level = 0;
	nr_done = 0;
	l.t.buffers = &l.buffer;
	l.t.launch = (struct arax_launch){
		.size = sizeof(l.t.launch), .nr_ranges = 1, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = 1, .ranges = &l.range,
	};
	runner_submit(runner, &l.t);
	/* On a busy machine it may be over before it begins. */
	ck_assert(comes_true(query().workers || nr_done, 1000));
	runner_drop_kernel(runner, k.serial);
	ck_assert(comes_true(nr_done == 1, 10000));
	ck_assert_int_eq(l.t.result, -ETIMEDOUT);
	ck_assert(ends(0));
	log_max_level = before;
	close(fd);
	free_buffer(&b);
}
END_TEST

/* Is it mapped by anybody but this test?  Memory that can be written can't be sealed. */
static bool is_unmapped(struct buffer *b)
{
	bool unmapped;

	munmap(b->data, b->bytes);
	unmapped = comes_true(!fcntl(b->fd, F_ADD_SEALS, F_SEAL_WRITE), 10000);
	close(b->fd);
	return unmapped;
}

static struct buffer make_sealable(void)
{
	struct buffer b = make_buffer(PAGE);

	free_buffer(&b);
	b.fd = memfd_create("sealable", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(b.fd, PAGE), 0);
	b.data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, b.fd, 0);
	ck_assert_ptr_ne(b.data, MAP_FAILED);
	return b;
}

/*
 * Whether the same worker lives on when it has unmapped a buffer: not where it has no CPU for as
 * long as it may take for that.
 */
static bool unmaps_and_lives(const struct kernel *who, struct buffer *keep)
{
	struct buffer b = make_sealable();
	uint32_t pid, runs;

	ck_assert_int_eq(run(who, keep), 0);
	pid = keep->data[0];
	runs = keep->data[1];
	ck_assert_int_eq(run(who, &b), 0);
	ck_assert_int_eq(fcntl(b.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	runner_drop_buffer(runner, b.id);
	ck_assert(is_unmapped(&b));
	ck_assert_int_eq(run(who, keep), 0);
	return keep->data[0] == pid && keep->data[1] == runs + 2;
}

/* A stopped worker is woken to unmap a buffer; and one that does not is ended. */
START_TEST(dropped_buffers_are_unmapped_now)
{
	struct buffer keep = make_buffer(PAGE), b;
	int fd = image("innocent");
	int fd2 = image("hostile");
	struct kernel good = foreign(fd, (char *)"who", 1), bad = foreign(fd2, (char *)"deaf", 2);
	int tries = 0;

	while (!unmaps_and_lives(&good, &keep))
		ck_assert_int_lt(tries++, 20);

#ifdef __x86_64__
	b = make_sealable();
	ck_assert_int_eq(run(&bad, &b), 0);
	ck_assert(ends(2));
	runner_drop_buffer(runner, b.id);
	ck_assert(is_unmapped(&b));
	ck_assert(ends(1));
#else
	ck_assert_int_eq(run(&bad, &keep), -EOPNOTSUPP);
#endif
	close(fd);
	close(fd2);
	free_buffer(&keep);
}
END_TEST

struct nap {
	const struct kernel *k;
	const struct buffer *b;
	int result;
};

static void *nap_main(void *arg)
{
	struct nap *n = arg;

	n->result = run(n->k, n->b);
	return NULL;
}

/* While it runs something else: it is told, and does so when that has ended. */
START_TEST(dropped_while_it_is_busy)
{
	struct buffer other = make_buffer(PAGE), b = make_sealable();
	int fd = image("innocent");
	struct kernel who = foreign(fd, (char *)"who", 1), k = foreign(fd, (char *)"nap", 1);
	struct nap n = { &k, &other, 0 };
	pthread_t thread;

	ck_assert_int_eq(run(&who, &b), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, nap_main, &n), 0);
	while (!*(volatile uint32_t *)other.data)
		usleep(1000);
	runner_drop_buffer(runner, b.id);
	pthread_join(thread, NULL);
	ck_assert_int_eq(n.result, 0);
	ck_assert(is_unmapped(&b));
	ck_assert_uint_eq(query().worker_starts, 1);
	close(fd);
	free_buffer(&other);
}
END_TEST

/* It need not unmap what it is told to: so it does not live for ever. */
START_TEST(dropped_buffers_end_it_in_time)
{
	int fd = image("innocent"), lives = 0;
	struct kernel k = foreign(fd, (char *)"who", 1);

	/* Some may end before, for want of a CPU in time. */
	for (int i = 0; i < 100 && lives < 3; i++) {
		struct buffer big = make_buffer(64 << 20);	/* no page of it is touched */
		uint32_t runs;

		ck_assert_int_eq(run(&k, &big), 0);
		runs = big.data[1];
		ck_assert_uint_le(runs, 5);
		runner_drop_buffer(runner, big.id);
		free_buffer(&big);
		if (runs < 5)
			continue;
		ck_assert(ends(0));
		lives++;
	}
	ck_assert_int_eq(lives, 3);
	close(fd);
}
END_TEST

static bool is_still(const volatile uint64_t *word)
{
	int same = 0;

	for (int i = 0; i < 500 && same < 20; i++) {
		uint64_t before = *word;

		usleep(5000);
		same = *word == before ? same + 1 : 0;
	}
	return same == 20;
}

/* Its threads compute on nobody's account: on a lane, and on the caller's thread. */
START_TEST(nothing_runs_between_launches)
{
	struct buffer b = make_buffer(PAGE), other = make_buffer(PAGE);
	volatile uint64_t *word = (volatile uint64_t *)b.data;
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"restless", 1), who = foreign(fd, (char *)"who", 1);

	for (int i = 0; i < 3; i++) {
		uint64_t before = *word;

		ck_assert_int_eq(_i ? run(&k, &b) : run_on_lane(&k, &b), 0);
		ck_assert(i == 0 || *word != before);
		ck_assert(is_still(word));
	}
	/* Woken to unmap a buffer, it sleeps again; or it had no CPU for too long, and is ended. */
	ck_assert_int_eq(run(&who, &other), 0);
	runner_drop_buffer(runner, other.id);
	ck_assert(is_still(word));
	ck_assert_uint_eq(query().worker_starts, 1);
	ck_assert_uint_le(query().workers, 1);
	close(fd);
	free_buffer(&b);
	free_buffer(&other);
}
END_TEST

static void setup_one_core(void)
{
	setup_with("cpu { groups = { \"0\" } }");
}

/* As run() does; returns what it pays for besides. */
static uint64_t run_and_pay(const struct kernel *k, const struct buffer *b)
{
	struct launch l = {
		.range = { b->data, b->bytes, 0, 1 },
		.buffer = { b->id, b->bytes, 0, b->fd, 0 },
		.t = { .kernel = k, .uid = TENANT, .gid = TENANT_GID },
	};

	l.t.buffers = &l.buffer;
	l.t.launch = (struct arax_launch){
		.size = sizeof(l.t.launch), .nr_ranges = 1, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 }, .group_end = 1, .ranges = &l.range,
	};
	ck_assert_int_eq(runner_run(runner, &l.t), 0);
	return l.t.unpaid_ns;
}

/* Its threads run while it unmaps what it is told to: that is no way to compute for nothing. */
START_TEST(what_runs_while_it_unmaps_is_paid)
{
	struct buffer b = make_buffer(PAGE), many[300];
	int fd = image("innocent"), i;
	struct kernel k = foreign(fd, (char *)"restless", 1), who = foreign(fd, (char *)"who", 1);
	struct kernel other = foreign(fd, (char *)"who", 2);
	uint64_t paid = 0;

	ck_assert_uint_eq(run_and_pay(&k, &b), 0);
	for (i = 0; i < 300; i++)
		many[i] = make_buffer(PAGE);
	/* With the next launch, */
	for (i = 0; i < 100 && !paid; i++) {
		paid = run_and_pay(&who, &many[i]);
		runner_drop_buffer(runner, many[i].id);
		usleep(2000);
	}
	ck_assert_uint_gt(paid, 0);
	ck_assert_uint_le(paid, WAIT_MS * 1000000ull);
	/* and who has none does not run for long. */
	for (i = 100; i < 300; i++)
		run_and_pay(&who, &many[i]);
	for (i = 100; i < 300 && query().workers; i++) {
		runner_drop_buffer(runner, many[i].id);
		usleep(2000);
	}
	ck_assert(ends(0));
	/* With it ends no debt: that is paid once, by whose it is. */
	ck_assert_uint_eq(run_and_pay(&other, &b), 0);
	paid = run_and_pay(&who, &b);
	ck_assert_uint_gt(paid, 0);
	ck_assert_uint_le(paid, WAIT_MS * 1000000ull);
	ck_assert_uint_eq(run_and_pay(&who, &b), 0);
	close(fd);
	free_buffer(&b);
	for (i = 0; i < 300; i++)
		free_buffer(&many[i]);
}
END_TEST

/* By turns, so that one of them has always something to do still, as it says. */
static atomic_bool enough;
static _Atomic int lie_result;

static void *lie(void *arg)
{
	const uint64_t magic = 0x5ea5c0debadf00d1;
	struct buffer b = make_buffer(PAGE);
	const struct kernel *k = arg;

	for (int i = 0; !enough && !lie_result; i ^= 1) {
		lie_result = run_as(TENANT, TENANT_GID, &k[i], &b, 1, &magic, sizeof(magic), 0);
		usleep(5000);
	}
	free_buffer(&b);
	return NULL;
}

/* Whoever keeps the keeper awake, others' workers go: they run no more, and are reaped. */
START_TEST(liars_keep_nobody_alive)
{
	struct buffer b = make_buffer(PAGE), other = make_buffer(PAGE), who_b = make_buffer(PAGE);
	volatile uint64_t *word = (volatile uint64_t *)b.data;
	int fd = image("innocent"), fd2 = image("hostile"), before = log_max_level;
	struct kernel two[2] = { foreign(fd2, (char *)"liar", 10), foreign(fd2, (char *)"liar", 11) };
	struct kernel restless = foreign(fd, (char *)"restless", 1);
	struct kernel who = foreign(fd, (char *)"who", 1), k = foreign(fd, (char *)"nap", 1);
	struct nap n = { &k, &other, 0 };
	pthread_t liars, thread;

	log_max_level = 0;
	ck_assert_int_eq(pthread_create(&liars, NULL, lie, two), 0);
	ck_assert(comes_true(query().worker_starts >= 2 || lie_result, 1000));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(run(&restless, &b), 0);
		ck_assert_int_eq(run(&who, &who_b), 0);
		other.data[0] = 0;
		ck_assert_int_eq(pthread_create(&thread, NULL, nap_main, &n), 0);
		while (!*(volatile uint32_t *)other.data)
			usleep(1000);
		runner_drop_kernel(runner, k.serial);
		pthread_join(thread, NULL);
		ck_assert_int_eq(n.result, 0);
		ck_assert(is_still(word));
		ck_assert(comes_true(kill((pid_t)who_b.data[0], 0) && errno == ESRCH, 1000));
		k.serial = last_serial++;
	}
	enough = true;
	pthread_join(liars, NULL);
	ck_assert_int_eq(lie_result, 0);
	log_max_level = before;
	close(fd);
	close(fd2);
	free_buffer(&b);
	free_buffer(&other);
	free_buffer(&who_b);
}
END_TEST

/* A lane that keeps a worker for the next launch gives it up for any other. */
START_TEST(lanes_change_workers)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k[2] = { foreign(fd, (char *)"who", 1), foreign(fd, (char *)"who", 2) };
	struct kernel gone = foreign(fd, (char *)"who", 1);
	uint32_t asked[2] = { 0 };

	for (int i = 0; i < 600; i++) {
		int which = i % 7 < 3;

		if (i % 5 == 4) {
			ck_assert_int_eq(run_on_lane(registry_find(registry, "test_identity"), &b), 0);
			continue;
		}
		ck_assert_int_eq(run_on_lane(&k[which], &b), 0);
		ck_assert_uint_eq(b.data[1], ++asked[which]);
	}
	ck_assert_uint_eq(query().worker_starts, 3);
	/* One that is dropped may be kept at that moment. */
	for (int i = 0; i < 20; i++) {
		gone.serial = last_serial++;
		ck_assert_int_eq(run_on_lane(&gone, &b), 0);
		runner_drop_kernel(runner, gone.serial);
		ck_assert(ends(2));
	}
	close(fd);
	free_buffer(&b);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Where it can't be                                                     */

START_TEST(nothing_in_this_process)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1);

	ck_assert(!runner_can_foreign(runner));
	ck_assert_int_eq(runner_prepare(runner, &k), -EOPNOTSUPP);
	ck_assert_int_eq(run(&k, &b), -EOPNOTSUPP);
	ck_assert_uint_eq(b.data[1], 0);
	ck_assert_uint_eq(runner_configuration(runner, &k), 0);
	ck_assert_int_eq(runner_configure(runner, &k), 0);
	ck_assert_uint_eq(runner_switch_ns(runner, &k), 0);
	close(fd);
	free_buffer(&b);
}
END_TEST

static void setup_no_program(void)
{
	setup_with("worker { program = \"/nowhere/arax-worker\" }");
}

static void setup_worker(const char *program)
{
	char text[4096];

	snprintf(text, sizeof(text), "worker { program = \"%s/%s\" }",
		 getcwd((char[2048]){ 0 }, 2048), program);
	setup_with(text);
}

/* A worker program of another make, that finds the sandbox missing. */
static void setup_no_sandbox(void)
{
	setup_worker("build/test/worker-unlocked");
}

START_TEST(no_sandbox_no_foreign_code)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent"), before = log_max_level;
	struct kernel k = foreign(fd, (char *)"who", 1);

	log_max_level = 0;
	ck_assert(runner_can_foreign(runner));	/* by what is known yet */
	ck_assert_int_eq(run(&k, &b), -EOPNOTSUPP);
	ck_assert(!runner_can_foreign(runner));
	ck_assert_int_eq(runner_prepare(runner, &k), -EOPNOTSUPP);
	ck_assert_int_eq(run(&k, &b), -EOPNOTSUPP);
	ck_assert_uint_eq(b.data[1], 0);
	ck_assert_uint_eq(query().worker_starts, 0);
	/* Installed ones need none. */
	ck_assert_int_eq(run(registry_find(registry, "test_identity"), &b), 0);
	log_max_level = before;
	close(fd);
	free_buffer(&b);
}
END_TEST

#define LOSING_WORKER	"build/test/worker-loses"

/* On a device that a worker has for OpenCL's. */
static void setup_opencl(void)
{
	setup_worker(LOSING_WORKER);
	runner_destroy(runner);
	devices_at(devices, 0)->info.kind = ARAX_DEVICE_OPENCL;
	ck_assert_int_eq(runner_create(devices_at(devices, 0), registry, &config, &runner), 0);
}

/* A context that broke in a worker is not rebuilt there: who comes next has another worker. */
START_TEST(a_device_lost_in_a_worker)
{
	struct buffer b = make_buffer(PAGE);
	int fd = image("innocent");
	struct kernel k = foreign(fd, (char *)"who", 1);

	k.kinds = 1u << ARAX_DEVICE_OPENCL;
	k.impls[0].kind = ARAX_DEVICE_OPENCL;
	for (uint32_t i = 1; i < 4; i++) {
		ck_assert_int_eq(run(&k, &b), 0);
		reason_forget();
		ck_assert_int_eq(run(&k, &b), -EIO);
		/* It says why, as far as there is room, and does nothing else by that. */
		ck_assert_ptr_eq(strstr(reason_text, "nobody's driver: lost?[2J? ?!!!"), reason_text);
		ck_assert_uint_eq(strlen(reason_text), REASON_LEN - 1);
		ck_assert_uint_eq(query().worker_starts, i);
		ck_assert_uint_eq(query().worker_crashes, 0);
	}
	close(fd);
	free_buffer(&b);
}
END_TEST

/* As built: @bytes of nothing. */
static struct kernel built(uint64_t bytes, uint32_t in_image)
{
	int fd = memfd_create("built", MFD_CLOEXEC);
	struct kernel k = foreign(fd, (char *)"who", 1);

	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	k.kinds = 1u << ARAX_DEVICE_OPENCL;
	k.impls[0].kind = ARAX_DEVICE_OPENCL;
	k.image = k.serial;
	k.in_image = in_image;
	return k;
}

static const struct {
	uint64_t bytes;
	uint32_t in_image;
	int fit;		/* into one worker's folder */
} images[] = {
	{ 10u << 20, 1, 3 }, { WORKER_BUILT_MAX - 65536, 1, 2 }, { WORKER_BUILT_MAX, ARAX_MODULE_MAX_KERNELS, 1 },
	{ PAGE, ARAX_MODULE_MAX_KERNELS, 5 },
};

/* A driver that can't unpack any more ends its process: before that it has another one. */
START_TEST(what_a_driver_unpacks_has_room)
{
	enum { MOST = 10 };
	struct kernel k[MOST];
	int fit = images[_i].fit;

	for (int i = 0; i < 2 * fit; i++) {
		struct runner_task t = { .kernel = &k[i], .uid = TENANT, .gid = TENANT_GID,
					 .flags = RUNNER_TRY };

		ck_assert_int_lt(i, MOST);
		k[i] = built(images[_i].bytes, images[_i].in_image);
		ck_assert_int_eq(runner_try(runner, &t), 0);
		ck_assert_uint_eq(query().worker_starts, 1 + i / fit);
		/* What it has takes no more. */
		ck_assert_int_eq(runner_try(runner, &t), 0);
		ck_assert_uint_eq(query().worker_starts, 1 + i / fit);
	}
	/* Nor is one without room ended for that: what it has runs there again. */
	for (int i = 0; i < 2 * fit; i++) {
		struct runner_task t = { .kernel = &k[i], .uid = TENANT, .gid = TENANT_GID,
					 .flags = RUNNER_TRY };

		ck_assert_int_eq(runner_try(runner, &t), 0);
		ck_assert_uint_eq(query().worker_starts, 2);
	}
	for (int i = 0; i < 2 * fit; i++)
		close(k[i].impls[0].fd);
}
END_TEST

static const struct {
	const char *symbol, *reason;
	int err;
} compilers[] = {
	{ "crash", "the compiler crashed on cpu0, in a process of its own: Illegal instruction", -EFAULT },
	{ "exit", "the compiler ended its process on cpu0", -EIO },
	{ "hang", "the compiler was stopped on cpu0: it had run for longer than 300 ms", -ETIMEDOUT },
};

/* It is not what it compiles that did so, of which nothing has run. */
START_TEST(a_compiler_that_ends)
{
	int fd = image("innocent"), built, before = log_max_level;
	struct kernel k = foreign(fd, (char *)compilers[_i].symbol, 1);
	char words[64] = "", why[REASON_LEN];
	struct runner_task t = {
		.kernel = &k, .uid = TENANT, .gid = TENANT_GID, .flags = RUNNER_TRY,
		.most_ns = 300000000, .why = words, .why_len = sizeof(words),
	};
	uint64_t bytes;

	log_max_level = 0;
	k.kinds = 1u << ARAX_DEVICE_OPENCL;
	k.impls[0].kind = ARAX_DEVICE_OPENCL;
	reason_forget();
	ck_assert_int_eq(runner_build(runner, &t, &built, &bytes), compilers[_i].err);
	reason_take(why);
	ck_assert_msg(strstr(why, compilers[_i].reason), "%s", why);
	log_max_level = before;
	close(fd);
}
END_TEST

static void add_case(Suite *suite, const char *name, void (*make)(void), const TTest *test)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, make, teardown);
	tcase_add_test(t, test);
	suite_add_tcase(suite, t);
}

int main(void)
{
	Suite *suite = suite_create("sandbox");
	const char *lacks = sandbox_kernel_lacks();
	TCase *t;

#ifndef HAVE_SECCOMP
	lacks = SANDBOX_NO_LIBSECCOMP;
#endif
	add_case(suite, "no program", setup_no_program, nothing_in_this_process);
	add_case(suite, "own memory", setup_own_memory, nothing_in_this_process);
	if (lacks) {
		be_skip("sandbox", lacks);
		return be_main(suite);
	}
	add_case(suite, "no sandbox", setup_no_sandbox, no_sandbox_no_foreign_code);
	add_case(suite, "two cores", setup_wide, helpers_are_locked_up_too);
	add_case(suite, "one core", setup_one_core, what_runs_while_it_unmaps_is_paid);
	add_case(suite, "small", setup_small, memory_is_limited);
	add_case(suite, "one worker", setup_one_worker, both_kinds_are_counted);
	if (access(LOSING_WORKER, X_OK)) {
		be_skip("a_device_lost_in_a_worker", "built without OpenCL's headers");
		be_skip("what_a_driver_unpacks_has_room", "built without OpenCL's headers");
		be_skip("a_compiler_that_ends", "built without OpenCL's headers");
	} else {
		add_case(suite, "OpenCL", setup_opencl, a_device_lost_in_a_worker);
		t = tcase_create("OpenCL's files");
		tcase_add_checked_fixture(t, setup_opencl, teardown);
		tcase_add_loop_test(t, what_a_driver_unpacks_has_room, 0,
				    sizeof(images) / sizeof(images[0]));
		suite_add_tcase(suite, t);
		t = tcase_create("OpenCL's compiler");
		tcase_add_checked_fixture(t, setup_opencl, teardown);
		tcase_add_loop_test(t, a_compiler_that_ends, 0,
				    sizeof(compilers) / sizeof(compilers[0]));
		suite_add_tcase(suite, t);
	}
	t = tcase_create("sandbox");
	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, hostile_code_gets_nowhere);
	if (geteuid() == 0)
		tcase_add_test(t, hostile_root_gets_nowhere);
	else
		be_skip("hostile_root_gets_nowhere", "not root: workers have our uid");
	if (geteuid() == 0 && !a_child_can(run_as_user)) {
		be_skip("a user's daemon", "no fork, or other users can't reach the build");
	} else if (geteuid() == 0) {
		add_case(suite, "a user's daemon", setup_user, hostile_code_gets_nowhere);
		add_case(suite, "a user's daemon", setup_user, all_that_works_elsewhere);
		add_case(suite, "a user's daemon", setup_user, innocent_code_works);
	}
	tcase_add_test(t, all_that_works_elsewhere);
	tcase_add_loop_test(t, other_abis_are_fatal, 0, 2);
	tcase_add_test(t, innocent_code_works);
	tcase_add_test(t, ends_that_are_its_own);
	tcase_add_test(t, bad_images);
	tcase_add_test(t, images_of_other_machines);
	if (a_child_can(hide_proc))
		tcase_add_test(t, no_proc);
	else
		be_skip("no_proc", "no fork, or no mounts can be made here");
	tcase_add_test(t, foreign_and_installed_are_apart);
	tcase_add_test(t, owners_are_apart);
	tcase_add_test(t, dropped_kernels_are_loaded_anew);
	tcase_add_test(t, dropped_while_it_runs);
	tcase_add_test(t, dropped_buffers_are_unmapped_now);
	tcase_add_test(t, dropped_while_it_is_busy);
	tcase_add_test(t, dropped_buffers_end_it_in_time);
	tcase_add_loop_test(t, nothing_runs_between_launches, 0, 2);
	tcase_add_test(t, liars_keep_nobody_alive);
	tcase_add_test(t, lanes_change_workers);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
