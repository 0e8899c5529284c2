// SPDX-License-Identifier: MIT
/*
 * GPUs that go on in a process of their own, after a fault that this one's driver does not get
 * over: emulated, not hardware.  Each test runs once for each backend that is built in.
 */
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "daemon/backends/apart/channel.h"
#include "daemon/backends/apart/helper.h"
#include "daemon/backends/gpu/gpu.h"
#include "daemon/child.h"
#include "daemon/memory/hostmap.h"
#include "daemon/reason.h"
#include "selftests/unit/be_gpu_calls.h"
#include "selftests/unit/be_stream_fn.h"
#include "selftests/unit/be_tracer.h"
#include "selftests/unit/wait.h"

#define MIB	(1ull << 20)
#define STAGE	MIB		/* of a channel: what is longer goes in pieces */

static char helper_path[4096];

/* Instead of the C library's: a child that does not come to leave araxd's table. */
static atomic_bool child_hangs;
/* And: as if there were as many processes as may be. */
static atomic_bool no_process;

__attribute__((no_sanitize("address")))
long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long v[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		v[i] = va_arg(args, long);
	va_end(args);
	while (child_hangs && number == SYS_close_range)
		pause();
	if (no_process && number == SYS_clone) {
		errno = EAGAIN;
		return -1;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, v[0], v[1], v[2], v[3], v[4], v[5]);
}

/* A driver that is not forgiving, and whose gate is in shared memory. */
static void setup_sticky(void)
{
	char path[128];

	setup();
	snprintf(path, sizeof(path), "%s/shared", folder);
	setenv("EMULATED_SHARED", path, 1);
	/* What it finds in the other process ends that, and so the test. */
	setenv("TSAN_OPTIONS", "halt_on_error=1", 1);
	ck_assert_ptr_nonnull(getcwd(helper_path, 3072));
	strcat(helper_path, "/build/test/" VARIANT "/arax-device");
}

static void *open_with(int which_gpu, const char *helper)
{
	const char *options[] = { "helper", helper, NULL };

	return open_gpu(which_gpu, options);
}

static void *open_apart(int which_gpu)
{
	return open_with(which_gpu, helper_path);
}

/* One bad kernel, alone. */
static void fault(void *dev, void *trap)
{
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);

	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
}

static void move(void *dev, void *trap)
{
	fault(dev, trap);
	ck_assert_int_eq(ops->reset(dev), 0);
}

/* ------------------------------------------------------------------ */
/* Processes                                                             */

/* How many children this one has, of whatever kind; *@last: one of them. */
static int children(pid_t *last)
{
	struct dirent *e;
	DIR *proc = opendir("/proc");
	int n = 0;

	ck_assert_ptr_nonnull(proc);
	while ((e = readdir(proc))) {
		char path[300], text[512];
		FILE *f;
		int ppid;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		if (fgets(text, sizeof(text), f) && sscanf(strrchr(text, ')'), ") %*c %d", &ppid) == 1 &&
		    ppid == getpid()) {
			*last = atoi(e->d_name);
			n++;
		}
		fclose(f);
	}
	closedir(proc);
	return n;
}

static pid_t the_helper(void)
{
	pid_t pid = 0;

	ck_assert_int_eq(children(&pid), 1);
	return pid;
}

/* How much there is in a folder of /proc. */
static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int descriptors(void)
{
	return entries("/proc/self/fd");
}

static int threads_here(void)
{
	return entries("/proc/self/task");
}

/* Lines of its maps that have @text. */
static int maps(pid_t pid, const char *text)
{
	char path[64], line[4096];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += !!strstr(line, text);
	fclose(f);
	return n;
}

/* Set: who is sent that descriptor is stopped, and then it is -1. */
static atomic_int stop_when_sent = -1;

ssize_t sendmsg(int socket, const struct msghdr *msg, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	int fd = -1;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	if (msg->msg_controllen >= CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA((struct cmsghdr *)msg->msg_control), sizeof(fd));
	if (fd >= 0 && fd == stop_when_sent) {
		kill(the_helper(), SIGSTOP);
		stop_when_sent = -1;
	}
	return real(socket, msg, flags);
}

/* Set: who waits for the process to end is not told yet.  He alone waits for two. */
static atomic_bool end_unseen;

static int (*real_poll)(struct pollfd *fds, nfds_t n, int ms);

/* Before there are threads that would look for it at once. */
static __attribute__((constructor)) void find_poll(void)
{
	*(void **)&real_poll = dlsym(RTLD_NEXT, "poll");
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	int got = real_poll(fds, n, ms);

	while (end_unseen && n == 2)
		usleep(1000);
	return got;
}

/* This program in the helper's place: that begins when let_it_begin() allows it, or is killed. */
static void begin_late(char **argv)
{
	if (getenv("TEST_DIES"))
		kill(getpid(), SIGKILL);
	while (!access(getenv("TEST_LATE"), F_OK))
		usleep(1000);
	execv(getenv("TEST_HELPER"), argv);
	_exit(1);
}

static void *open_late(int which_gpu)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/late", folder);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	setenv("TEST_LATE", path, 1);
	setenv("TEST_HELPER", helper_path, 1);
	return open_with(which_gpu, "/proc/self/exe");
}

static void let_it_begin(void)
{
	unlink(getenv("TEST_LATE"));
}

/* ------------------------------------------------------------------ */
/* From here to there                                                    */

START_TEST(goes_on_after_a_fault)
{
	void *dev = open_apart(_i), *k, *trap = load(dev, TRAP), *other = load(devs[1], TRAP);
	struct arax_backend_info before = { .size = sizeof(before) }, after = before;
	uint64_t a = take_memory(dev, 4);
	struct arax_launch_range r = range(a, 4);
	pid_t none;
	char out[4];

	ck_assert_int_eq(ops->info(dev, &before), 0);
	ck_assert_int_eq(run(dev, trap, 1, 1, 1, &r, 1, &bad, 4), -EFAULT);
	assert_broken(dev, trap, a);
	ck_assert_int_eq(children(&none), 0);
	take_log();
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_logged("goes on in a process of its own");
	the_helper();
	/* Nothing is left of it here, and what it had is not there. */
	ck_assert_uint_eq(emu_all_used(), own_bytes / nr_devs);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 4), -EFAULT);
	assert_whole(dev, trap);
	assert_whole(devs[1], other);
	ck_assert_int_eq(ops->info(dev, &after), 0);
	ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
	/* Kernels come and go there as well. */
	k = load(dev, INC);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(dev, trap);
	k = load(dev, TRAP);
	assert_whole(dev, k);
	ops->kernel_unload(dev, k);
	ops->kernel_unload(devs[1], other);
}
END_TEST

/* The second process is replaced, and so is the third: and each is gone, with what it took. */
START_TEST(three_faults_in_a_row)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	int before = 0;
	pid_t last = 0, pid;

	for (int i = 0; i < 3; i++) {
		move(dev, trap);
		assert_whole(dev, trap);
		pid = the_helper();
		ck_assert_int_ne(pid, last);
		last = pid;
		if (!i)
			before = descriptors();
		ck_assert_int_eq(descriptors(), before);
	}
	/* Said once. */
	ck_assert_ptr_null(strstr(strstr(take_log(), "goes on in a process of its own") + 1,
				  "goes on in a process of its own"));
	ops->kernel_unload(dev, trap);
	ops->close(dev);
	devs[0] = devs[--nr_devs];
	ck_assert_int_eq(children(&pid), 0);
}
END_TEST

static void *tell_number(void *arg)
{
	*(pid_t *)arg = gettid();
	return NULL;
}

static bool is_listed(pid_t thread)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d", thread);
	return !access(path, F_OK);
}

/* A context that is all but ready is given back as well: its streams are threads here. */
START_TEST(nothing_is_left_here)
{
	int before, each;
	pthread_t first;
	pid_t number;
	void *dev, *trap;

	/* TSan has a thread of its own from the first one on. */
	ck_assert_int_eq(pthread_create(&first, NULL, tell_number, &number), 0);
	pthread_join(first, NULL);
	ck_assert(comes_true(!is_listed(number), 1000));	/* for a moment it is, still */
	before = threads_here();
	setenv("EMULATED_FORGIVING", "1", 1);
	dev = open_apart(_i);
	each = (threads_here() - before) / 2;
	ck_assert_int_gt(each, 0);
	trap = load(dev, TRAP);
	fault(dev, trap);
	emu_fail(EMULATED_MODULE, 0, OUT_OF_MEMORY);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	/* The other device's, and one that waits for the process. */
	ck_assert(comes_true(threads_here() == before + each + 1, 1000));
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Both devices: each has a process of its own, and peers no way between them. */
START_TEST(two_devices)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *other = load(devs[1], TRAP);
	uint64_t a, b = take_memory(devs[1], 8);
	pid_t pid;

	move(dev, trap);
	a = take_memory(dev, 8);
	ck_assert_int_eq(ops->copy_peer(dev, a, devs[1], b, 8), -EOPNOTSUPP);
	ck_assert_int_eq(ops->copy_peer(devs[1], b, dev, a, 8), -EOPNOTSUPP);
	move(devs[1], other);
	ck_assert_int_eq(children(&pid), 2);
	b = take_memory(devs[1], 8);
	ck_assert_int_eq(ops->copy_peer(dev, a, devs[1], b, 8), -EOPNOTSUPP);
	ck_assert_int_eq(ops->copy_peer(dev, a, dev, a, 8), -EOPNOTSUPP);
	assert_whole(dev, trap);
	assert_whole(devs[1], other);
	ops->kernel_unload(dev, trap);
	ops->kernel_unload(devs[1], other);
}
END_TEST

/*
 * From the start on: nothing has to be careful there.  By its default where a process does not
 * survive a fault, as ROCm's don't.
 */
START_TEST(apart_from_the_start)
{
	static const char *const when[] = { "auto", "yes", "no" };
	bool hip = gpus[_i].kind == ARAX_DEVICE_HIP;

	for (int i = 0; i < 3; i++) {
		const char *options[] = { "helper", helper_path, "apart", when[i], NULL };
		bool there = i == 1 || (i == 0 && hip);
		void *dev = open_gpu(_i, options), *trap = load(dev, TRAP);
		struct arax_backend_done done;
		struct arax_launch_range r;
		struct job j;
		pid_t pid;

		ck_assert_int_eq(children(&pid), there ? 2 : 0);
		r = range(take_memory(dev, 4), 4);
		fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
		ck_assert_int_eq(ops->submit(dev, &j.run, 5), 0);
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, 0);
		ck_assert_ptr_null(strstr(take_log(), "goes on in a process"));
		if (there) {
			ck_assert_uint_eq(emu_all_used(), 0);
			/* A runtime that aborts takes araxd along no more. */
			emu_fail(EMULATED_LAUNCH, 0, EMULATED_CRASH);
			ck_assert_int_eq(ops->run(dev, &j.run), -ENODEV);
			ck_assert_uint_eq(j.run.alone, 1);
			ck_assert_int_eq(ops->reset(dev), 0);
			r = range(take_memory(dev, 4), 4);
			/* But now. */
			ck_assert_int_eq(ops->submit(dev, &j.run, 6), -EAGAIN);
			assert_whole(dev, trap);
		}
		ops->kernel_unload(dev, trap);
		while (nr_devs > 0)
			ops->close(devs[--nr_devs]);
	}
}
END_TEST

/* What can't be had there is not had here instead; a value that is none is said. */
START_TEST(apart_or_not_at_all)
{
	void *dev;
	pid_t none;

	ck_assert_int_eq(probe(_i, emulated_path(&gpus[_i]), NULL), 2);
	ck_assert_int_eq(ops->config("helper", "/nowhere/arax-device"), 0);
	reason_forget();
	ck_assert_int_eq(ops->config("apart", "perhaps"), -EINVAL);
	ck_assert_str_eq(reason_text, "want auto, no or yes");
	ck_assert_int_eq(ops->config("apart", "yes"), 0);
	take_log();
	ck_assert_int_eq(ops->open(0, &dev), -ENODEV);
	assert_logged("program=/nowhere/arax-device remedy=");
	ck_assert_int_eq(children(&none), 0);
}
END_TEST

/* As without any of this: lost, and what is missing is in the log. */
START_TEST(no_program)
{
	void *dev = open_with(_i, "/nowhere/arax-device"), *trap = load(dev, TRAP);
	uint64_t a = take_memory(dev, 4);
	pid_t none;

	fault(dev, trap);
	take_log();
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	assert_logged("program=/nowhere/arax-device remedy=");
	assert_broken(dev, trap, a);
	ck_assert_int_eq(children(&none), 0);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* One that ends at once, and then the right one. */
START_TEST(another_program)
{
	char path[128], command[8192];
	void *dev, *trap;
	uint64_t a;
	pid_t none;

	snprintf(path, sizeof(path), "%s/helper", folder);
	ck_assert_int_eq(symlink("/bin/false", path), 0);
	dev = open_with(_i, path);
	trap = load(dev, TRAP);
	a = take_memory(dev, 4);
	fault(dev, trap);
	take_log();
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	assert_logged("can't go on in a process of its own");
	assert_broken(dev, trap, a);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	ck_assert_int_eq(children(&none), 0);
	/* Nothing is left of it here, either. */
	ck_assert_uint_eq(emu_all_used(), own_bytes / nr_devs);
	snprintf(command, sizeof(command), "ln -sf '%s' '%s'", helper_path, path);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* A driver that begins anew may count anew: no other device is taken for this one. */
START_TEST(another_device)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *other = load(devs[1], TRAP);
	uint64_t a = take_memory(dev, 4);
	const char *said;
	pid_t none;

	fault(dev, trap);
	setenv("EMULATED_FIRST", "1", 1);
	take_log();
	ck_assert_int_eq(ops->reset(dev), -ENODEV);
	said = strstr(take_log(), "device is another one now");
	ck_assert_ptr_nonnull(said);
	ck_assert_ptr_nonnull(strstr(said, " bus=0000:a1:00.0 "));
	ck_assert_ptr_nonnull(strstr(said, " wanted_bus=0000:a0:00.0 "));
	assert_broken(dev, trap, a);
	ck_assert_int_eq(children(&none), 0);
	assert_whole(devs[1], other);
	setenv("EMULATED_FIRST", "0", 1);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
	ops->kernel_unload(devs[1], other);
}
END_TEST

/* Nor a part of the same one, of the same size, for another part; where the driver tells them apart. */
START_TEST(another_part)
{
	struct arax_backend_info info = { .size = sizeof(info) };
	bool old = _i >= NR_GPUS;
	void *dev, *trap;
	const char *said;

	setenv("EMULATED_PARTS", "1", 1);
	if (old)
		setenv("EMULATED_OLD", "1", 1);
	dev = open_apart(_i % NR_GPUS);
	trap = load(dev, TRAP);
	ck_assert_int_eq(ops->info(devs[1], &info), 0);
	ck_assert_str_eq(info.bus, "0000:a0:00.0");
	ck_assert_str_eq(info.uuid, old ? "" : "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01");
	fault(dev, trap);
	take_log();
	setenv("EMULATED_FIRST", "1", 1);
	ck_assert_int_eq(ops->reset(dev), old ? 0 : -ENODEV);
	if (!old) {
		said = strstr(take_log(), "device is another one now");
		ck_assert_ptr_nonnull(said);
		ck_assert_ptr_nonnull(strstr(said, " uuid=5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01 "));
		ck_assert_ptr_nonnull(strstr(said, " wanted_uuid=5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a00 "));
		setenv("EMULATED_FIRST", "0", 1);
		ck_assert_int_eq(ops->reset(dev), 0);
	}
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/*
 * The device there can't be opened, or its kernels can't be loaded: the next time they can, and
 * it is asked to try again; not for ever.
 */
START_TEST(failures_there)
{
	static const struct {
		enum emulated_call call;
		const char *logged;
	} steps[] = {
		{ EMULATED_CONTEXT, "can't go on in a process of its own" },
		{ EMULATED_STREAM, "can't go on in a process of its own" },
		{ EMULATED_MODULE, "kernel can't be loaded again" },
	};
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	pid_t none;

	move(dev, trap);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		fault(dev, trap);
		for (int n = 1; n <= 2 * 3; n++) {
			emu_fail(steps[i].call, 0, OUT_OF_MEMORY);
			take_log();
			ck_assert_int_eq(ops->reset(dev), n % 3 ? -EAGAIN : -ENODEV);
			assert_logged(n % 3 ? "tried once more" : steps[i].logged);
			ck_assert_int_eq(children(&none), 0);
		}
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

/* A backend from a file: the same one there, by its descriptor. */
START_TEST(plug_in)
{
	static char path[4096];
	void *dev, *trap;

	if (gpus[NR_GPUS - 1].kind != ARAX_DEVICE_HIP) {
		be_skip("plug_in", "built without HIP's headers");
		return;
	}
	plugin_file = emulated_library(path, "hip-plugin");
	dev = open_apart(NR_GPUS - 1);
	trap = load(dev, TRAP);
	ck_assert_int_gt(maps(getpid(), "libhip-plugin-emulated.so"), 0);
	move(dev, trap);
	ck_assert_int_gt(maps(the_helper(), "libhip-plugin-emulated.so"), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void *load_fn(void *dev, const struct arax_backend_kernel *desc)
{
	void *k;

	ck_assert_msg(!ops->kernel_load(dev, desc, &k), "%s", take_log());
	return k;
}

/* However kernels of a file come and go, another one that gets their numbers is not taken for it. */
START_TEST(two_libraries)
{
	static const struct fn_args args = { 7, FN_WORKS, 1 };
	void *dev, *trap, *fn[3], *again;
	struct arax_backend_kernel d, none, other;
	struct arax_launch_range r;
	char path[128], command[512], fds[64];
	int before, x = 0;
	pid_t pid;

	if (access(FN_FILE, R_OK)) {
		be_skip("two_libraries", "built without OpenCL's headers");
		return;
	}
	setenv("ARAX_TEST_STREAM_DRIVER", emulated_path(&gpus[_i]), 1);
	snprintf(path, sizeof(path), "%s/other.so", folder);
	snprintf(command, sizeof(command), "cp '%s' '%s'", FN_FILE, path);
	ck_assert_int_eq(system(command), 0);
	dev = open_apart(_i);
	trap = load(dev, TRAP);
	move(dev, trap);
	pid = the_helper();
	snprintf(fds, sizeof(fds), "/proc/%d/fd", pid);
	d = fn_desc(FN_FILE, "fn_fill");
	none = d;
	none.symbol = "fn_none";
	other = fn_desc(path, "fn_fill");
	before = entries(fds);
	for (int i = 0; i < 3; i++) {
		fn[0] = load_fn(dev, &d);
		fn[1] = load_fn(dev, &d);
		if (i)
			ops->kernel_unload(dev, fn[i - 1]);
		else
			ck_assert_int_eq(ops->kernel_load(dev, &none, &again), -ENOENT);
		fn[2] = load_fn(dev, &other);
		ck_assert_msg(maps(pid, "other.so"), "round %d: not its own", i);
		ck_assert_int_eq(entries(fds), before + 2);
		r = range(take_memory(dev, 4), 4);
		for (int k = 0; k < 3; k++) {
			if (i && k == i - 1)
				continue;
			ck_assert_int_eq(run(dev, fn[k], 0, 1, 1, &r, 1, &args, sizeof(args)), 0);
			ck_assert_int_eq(ops->copy_out(dev, 0, &x, (uintptr_t)r.data, 4), 0);
			ck_assert_int_eq(x, 7);
			ops->kernel_unload(dev, fn[k]);
		}
		ck_assert_int_eq(maps(pid, "other.so") + maps(pid, "stream_fn.so"), 0);
		ck_assert_int_eq(entries(fds), before);
	}
	close(d.fd);
	close(other.fd);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* What a kernel or the driver says there is said here, and in araxd's log. */
START_TEST(errors_there)
{
	static const int32_t result = -22;
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *k = load(dev, RESULT), *none;
	uint64_t a, b;
	struct arax_launch_range r;
	struct job j;

	move(dev, trap);
	a = take_memory(dev, 4);
	r = range(a, 4);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, &r, 1, &result, 4), -22);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, &r, 1, &fine, 4), 0);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, &r, 1, NULL, 0), -EINVAL);
	r = range(a + 4, 4);
	ck_assert_int_eq(run(dev, k, 0, 1, 1, &r, 1, &fine, 4), -EFAULT);
	ck_assert_int_eq(ops->alloc(dev, 61 * MIB, 0, &b), -ENOMEM);
	ck_assert_int_eq(ops->alloc(dev, 5, 1ull << 42, &b), 0);
	ck_assert_uint_eq(b, 1ull << 42);
	ck_assert_int_eq(ops->alloc(dev, 5, 1ull << 42, &b), -EADDRINUSE);
	ops->free(dev, b);
	take_log();
	ops->free(dev, b);
	assert_logged("nothing was allocated at");
	ck_assert_int_eq(try_load(dev, "k", "test_none", "none(i32 a)", &none), -ENOENT);
	assert_logged("has no kernel test_none");
	fill(&j, k, 0, 1, 1, &r, 1, &fine, 4);
	j.l.nr_ranges = 1000;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	j.l.nr_ranges = 1;
	j.l.arg_len = 1u << 20;
	ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
	ck_assert_int_eq(ops->submit(dev, &j.run, 1), -EINVAL);
	ops->kernel_unload(dev, trap);
	ops->kernel_unload(dev, k);
}
END_TEST

/* After a fault launches run one at a time there: two never wait at the gate. */
START_TEST(one_at_a_time)
{
	void *dev = open_apart(_i), *gate = load(dev, GATE);
	struct arax_launch_range r[2] = { range(take_memory(dev, 4), 4) };
	struct victim v[2] = { 0 };
	pthread_t threads[2];
	uint64_t a;

	ck_assert_int_eq(run(dev, gate, 0, 1, 1, r, 1, &bad, 4), -EFAULT);
	ck_assert_int_eq(ops->reset(dev), 0);
	a = take_memory(dev, 8);
	emu_gate(0);
	for (uint32_t i = 0; i < 2; i++) {
		r[i] = range(a + 4 * i, 4);
		v[i].dev = dev;
		fill(&v[i].job, gate, i, 1, 1, &r[i], 1, i ? &bad : &fine, 4);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_victim, &v[i]), 0);
	}
	wait_for_kernels(1);
	usleep(20000);
	ck_assert_int_eq(emu_waiting(), 1);
	emu_gate(1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(v[1].result, -EFAULT);
	ck_assert_msg(!v[0].result || v[0].result == -ENODEV, "%d", v[0].result);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, gate);
	ops->kernel_unload(dev, gate);
}
END_TEST

START_TEST(gauges_there)
{
	struct arax_backend_gauges g = { .size = sizeof(g) };
	char path[4096], text[256] = "?";
	const char *options[] = { "helper", helper_path, "nvml", path, NULL };
	void *dev, *trap;

	if (gpus[0].kind != ARAX_DEVICE_CUDA) {
		be_skip("gauges_there", "built without CUDA's headers");
		return;
	}
	emulated_library(path, "nvml");
	open_gpu(0, options);
	dev = devs[1];
	trap = load(dev, TRAP);
	move(dev, trap);
	ck_assert_int_eq(ops->gauges(dev, &g, text, sizeof(text)), 0);
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(g.busy, 11);
	ck_assert_uint_eq(g.power_mw, 100001);
	ck_assert_uint_eq(g.memory_taken, 4u << 20);
	kill(the_helper(), SIGKILL);
	while (ops->alloc(dev, 4, 0, &(uint64_t){ 0 }) != -ENODEV)
		usleep(1000);
	ck_assert_int_eq(ops->gauges(dev, &g, text, sizeof(text)), -EOPNOTSUPP);
	ck_assert_str_eq(text, "the device is lost");
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Without waiting                                                       */

/* Launches that may be submitted: the first ones have to be run, one by one. */
static void be_careful(void *dev, void *kernel, const struct arax_launch_range *r)
{
	struct job j;

	fill(&j, kernel, 0, 1, 1, r, 1, &fine, 4);
	for (int i = 0; i < GPU_CAREFUL; i++) {
		ck_assert_int_eq(ops->submit(dev, &j.run, 6), -EAGAIN);
		ck_assert_int_eq(ops->run(dev, &j.run), 0);
	}
}

/* In the order of their lane, and no more than it takes. */
START_TEST(submitted_there)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct arax_backend_done done[8];
	struct arax_launch_range r[2];
	struct job j;
	int32_t x[2] = { 0, 10 };
	uint64_t a;

	move(dev, trap);
	a = take_memory(dev, 8);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	be_careful(dev, trap, &r[0]);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, x, 8), 0);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	emu_gate(0);
	fill(&j, gate, 0, 1, 1, &r[0], 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 77), 0);
	wait_for_kernels(1);
	fill(&j, trap, 1, 1, 1, &r[1], 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 78), 0);
	memset(&j, 0x5a, sizeof(j));
	ck_assert_int_eq(ops->poll(dev, done, 4, UINT64_MAX), 1);
	ck_assert_uint_eq(done[0].cookie, 78);
	ck_assert_int_eq(done[0].result, 0);
	for (int i = 1; i <= ARAX_LANE_DEPTH; i++) {
		fill(&j, gate, 0, 1, 1, &r[0], 1, &fine, 4);
		ck_assert_int_eq(ops->submit(dev, &j.run, 100 + i),
				 i < ARAX_LANE_DEPTH ? 0 : -EAGAIN);
	}
	ck_assert_int_eq(ops->quiesce(dev, 1), -ETIMEDOUT);
	emu_gate(1);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	ck_assert_int_eq(ops->poll(dev, done, 1, UINT64_MAX), 1);
	ck_assert_uint_eq(done[0].cookie, 77);
	for (uint32_t i = 1; i < ARAX_LANE_DEPTH; i++) {
		ck_assert_int_eq(ops->wait(dev, 0, done), 0);
		ck_assert_uint_eq(done[0].cookie, 100 + i);
		ck_assert_int_eq(done[0].result, 0);
	}
	ck_assert_int_eq(ops->wait(dev, 0, done), -ENOENT);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, x, a, 8), 0);
	ck_assert_int_eq(x[0], ARAX_LANE_DEPTH);
	ck_assert_int_eq(x[1], 11);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

#define POLLED		2000u
#define POLL_ROUNDS	20000u		/* of a millisecond, without anything */

struct polled {
	void *dev;
	_Atomic uint32_t nr;
	_Atomic bool late;
};

static void *poll_all(void *arg)
{
	struct polled *p = arg;
	struct arax_backend_done done[4];

	for (uint32_t rounds = 0; p->nr < POLLED && !p->late;) {
		int n = ops->poll(p->dev, done, 4, 1000000);

		for (int i = 0; i < n; i++)
			if (done[i].cookie != p->nr + (uint32_t)i || done[i].result)
				p->late = true;
		p->nr += n > 0 ? (uint32_t)n : 0;
		rounds = n > 0 ? 0 : rounds + 1;
		if (rounds == POLL_ROUNDS)
			p->late = true;
	}
	return NULL;
}

/* However soon it is done: no end that another thread is told comes before its beginning. */
START_TEST(polled_by_another)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct polled p = { .dev = dev };
	struct arax_launch_range r;
	pthread_t thread;
	struct job j;

	move(dev, trap);
	r = range(take_memory(dev, 4), 4);
	be_careful(dev, trap, &r);
	fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(pthread_create(&thread, NULL, poll_all, &p), 0);
	for (uint32_t i = 0; i < POLLED && !p.late;) {
		int err = ops->submit(dev, &j.run, i);

		ck_assert(!err || err == -EAGAIN);
		i += !err;
		if (err)
			sched_yield();
	}
	pthread_join(thread, NULL);
	ck_assert(!p.late);
	ck_assert_uint_eq(p.nr, POLLED);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void assert_told(const char *text)
{
	char why[REASON_LEN];

	reason_take(why);
	ck_assert_msg(!!strstr(why, text), "not \"%s\": \"%s\"", text, why);
}

/* Its owner is told there what it would have been told here, each time, and then nothing. */
START_TEST(told_why)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct arax_launch_range r;
	struct arax_backend_done done;
	struct job j;
	int err;

	move(dev, trap);
	r = range(take_memory(dev, 4), 4);
	be_careful(dev, trap, &r);
	fill(&j, trap, 1, 1, 1000, &r, 1, &fine, 4);
	for (int i = 0; i < 2; i++) {
		reason_forget();
		j.run.declined = 0;
		ck_assert_int_eq(ops->run(dev, &j.run), -EINVAL);
		ck_assert(j.run.declined);
		assert_told("block of 1000 threads: this kernel takes 512 on this device");
		ck_assert_int_eq(ops->submit(dev, &j.run, 3), -EAGAIN);
		assert_told("block of 1000 threads: this kernel takes 512 on this device");
	}
	fill(&j, trap, 1, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(ops->run(dev, &j.run), 0);
	ck_assert(!j.run.declined);
	ck_assert_str_eq(reason_text, "");
	fill(&j, trap, 1, 1, 1, &r, 1, &bad, 4);
	err = ops->submit(dev, &j.run, 4);
	/* Or it was over before it had been submitted. */
	if (!err) {
		ck_assert_int_eq(ops->wait(dev, 1, &done), 0);
		err = done.result;
	}
	ck_assert_int_eq(err, -EFAULT);
	assert_told("trap: launch ");
	ops->kernel_unload(dev, trap);
}
END_TEST

/* What was submitted here is reported when the device is there; and there, over the next reset. */
START_TEST(submitted_before_a_reset)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct arax_launch_range r = range(take_memory(dev, 4), 4);
	struct arax_backend_done done[4];
	struct job j;

	emu_gate(0);
	fill(&j, gate, 2, 1, 1, &r, 1, &bad, 4);
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_int_eq(ops->submit(dev, &j.run, 50 + i), 0);
	emu_gate(1);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	r = range(take_memory(dev, 4), 4);
	be_careful(dev, trap, &r);
	/* Three places of the lane are taken still. */
	fill(&j, trap, 2, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 53), 0);
	ck_assert_int_eq(ops->submit(dev, &j.run, 54), -EAGAIN);
	for (uint64_t i = 0; i < 4; i++) {
		ck_assert_int_eq(ops->wait(dev, 2, done), 0);
		ck_assert_uint_eq(done[0].cookie, 50 + i);
		ck_assert_int_eq(done[0].result, i < 3 ? -ENODEV : 0);
	}
	ck_assert_int_eq(ops->wait(dev, 2, done), -ENOENT);
	for (uint64_t i = 0; i < 3; i++) {
		j.run.lane = (uint32_t)i;
		ck_assert_int_eq(ops->submit(dev, &j.run, 60 + i), 0);
	}
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert_int_eq(ops->quiesce(dev, UINT64_MAX), 0);
	ck_assert_int_eq(ops->wait(dev, 1, done), 0);
	ck_assert_uint_eq(done[0].cookie, 61);
	ck_assert_int_eq(done[0].result, -ENODEV);
	ck_assert_int_eq(ops->poll(dev, done, 4, UINT64_MAX), 2);
	ck_assert_uint_eq(done[0].cookie, 60);
	ck_assert_uint_eq(done[1].cookie, 62);
	ck_assert_int_eq(done[1].result, -ENODEV);
	ck_assert_int_eq(ops->poll(dev, done, 4, 0), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* The process dies                                                      */

START_TEST(killed_while_idle)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	uint64_t a;
	pid_t none;

	move(dev, trap);
	a = take_memory(dev, 4);
	kill(the_helper(), SIGKILL);
	/* A call before this is seen ends with it. */
	while (children(&none))
		usleep(1000);
	assert_broken(dev, trap, a);
	/* Said after that. */
	ck_assert(comes_true(strstr(read_log(), "the process of a device has ended"), 1000));
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* As systemd does, while araxd finishes what runs. */
START_TEST(asked_to_end)
{
	static const int asked[] = { SIGTERM, SIGINT, SIGHUP };
	void *dev = open_apart(_i), *trap = load(dev, TRAP);

	move(dev, trap);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		kill(the_helper(), asked[i]);
	usleep(20000);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void *wait_victim(void *arg)
{
	struct victim *v = arg;
	struct arax_backend_done done = { .result = 1 };

	v->result = ops->wait(v->dev, 1, &done);
	ck_assert_uint_eq(done.cookie, 9);
	v->result = v->result ? 1000 : done.result;
	return NULL;
}

/* Killed, or a reset that kills it: those that wait for a launch don't wait on. */
static void end_at_the_gate(int i, bool by_reset)
{
	void *dev = open_apart(i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct victim v[2] = { 0 };
	struct arax_launch_range r[2];
	pthread_t threads[2];
	uint64_t a;

	move(dev, trap);
	a = take_memory(dev, 8);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	be_careful(dev, trap, &r[0]);
	emu_gate(0);
	for (uint32_t n = 0; n < 2; n++) {
		v[n].dev = dev;
		fill(&v[n].job, gate, n, 1, 1, &r[n], 1, &fine, 4);
	}
	ck_assert_int_eq(ops->submit(dev, &v[1].job.run, 9), 0);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, run_victim, &v[0]), 0);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, wait_victim, &v[1]), 0);
	wait_for_kernels(2);
	if (by_reset)
		ck_assert_int_eq(ops->reset(dev), 0);
	else
		kill(the_helper(), SIGKILL);
	for (int n = 0; n < 2; n++) {
		pthread_join(threads[n], NULL);
		ck_assert_int_eq(v[n].result, -ENODEV);
	}
	emu_gate(1);
	if (!by_reset)
		ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}

START_TEST(killed_at_the_gate)
{
	end_at_the_gate(_i, false);
}
END_TEST

START_TEST(reset_at_the_gate)
{
	end_at_the_gate(_i, true);
}
END_TEST

/* @n launches on lanes of their own, the second one submitted; the process dies of them. */
static void die_of(void *dev, void *trap, void *gate, int n)
{
	struct victim v[2] = { 0 };
	struct arax_launch_range r;
	int waiting = emu_waiting();	/* as they died */
	pthread_t threads[2];

	r = range(take_memory(dev, 4), 4);
	if (n > 1)
		be_careful(dev, trap, &r);
	emu_gate(0);
	for (uint32_t i = 0; i < (uint32_t)n; i++) {
		v[i].dev = dev;
		fill(&v[i].job, gate, i, 1, 1, &r, 1, &fine, 4);
		if (i)
			ck_assert_int_eq(ops->submit(dev, &v[i].job.run, 9), 0);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i ? wait_victim : run_victim,
						&v[i]), 0);
		wait_for_kernels(waiting + (int)i + 1);
	}
	kill(the_helper(), SIGKILL);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(v[i].result, -ENODEV);
		ck_assert_uint_eq(v[i].job.run.alone, n == 1);
	}
	emu_gate(1);
	ck_assert_int_eq(ops->reset(dev), 0);
}

/* Which can't say any more that it had but one: else who kills it is never found. */
START_TEST(dies_of_one)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);

	move(dev, trap);
	for (int i = 0; i < 2; i++) {
		die_of(dev, trap, gate, 1);
		die_of(dev, trap, gate, 2);
	}
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Submitted, and at any time: as it begins, or while it runs; whoever is told. */
START_TEST(dies_of_one_submitted)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct arax_backend_done done;
	struct arax_launch_range r;
	struct job j;

	move(dev, trap);
	for (int i = 0; i < 4; i++) {
		bool first = i % 2, polled = i / 2;
		int waiting = emu_waiting();

		r = range(take_memory(dev, 4), 4);
		be_careful(dev, trap, &r);
		fill(&j, gate, 1, 1, 1, &r, 1, &fine, 4);
		emu_gate(0);
		if (first)
			emu_fail(EMULATED_LAUNCH, 0, EMULATED_CRASH);
		ck_assert_int_eq(ops->submit(dev, &j.run, 7), 0);
		if (!first) {
			wait_for_kernels(waiting + 1);
			kill(the_helper(), SIGKILL);
		}
		if (polled)
			ck_assert_int_eq(ops->poll(dev, &done, 1, UINT64_MAX), 1);
		else
			ck_assert_int_eq(ops->wait(dev, 1, &done), 0);
		emu_gate(1);
		ck_assert_uint_eq(done.cookie, 7);
		ck_assert_int_eq(done.result, -ENODEV);
		ck_assert_uint_eq(done.flags, ARAX_DONE_ALONE);
		ck_assert_int_eq(ops->wait(dev, 1, &done), -ENOENT);
		ck_assert_int_eq(ops->reset(dev), 0);
	}
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void *submit_victim(void *arg)
{
	struct victim *v = arg;

	v->result = ops->submit(v->dev, &v->job.run, 9);
	return NULL;
}

/* But for that somebody looks. */
static bool has_ended(pid_t pid)
{
	char path[64], text[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	return strstr(text, ") Z ");
}

/* Who came when the process had ended, and nobody knew, is not what it died of. */
START_TEST(dies_before_one)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct arax_backend_done done;
	struct arax_launch_range r;
	struct victim v = { .dev = dev };
	pthread_t thread;
	pid_t helper;

	for (int submit = 0; submit < 2; submit++) {
		move(dev, trap);
		r = range(take_memory(dev, 4), 4);
		be_careful(dev, trap, &r);
		helper = the_helper();
		fill(&v.job, trap, 0, 1, 1, &r, 1, &fine, 4);
		end_unseen = true;
		kill(helper, SIGKILL);
		ck_assert(comes_true(has_ended(helper), 1000));
		ck_assert_int_eq(pthread_create(&thread, NULL, submit ? submit_victim : run_victim,
						&v), 0);
		usleep(50000);
		end_unseen = false;
		pthread_join(thread, NULL);
		ck_assert_int_eq(v.result, -ENODEV);
		ck_assert_uint_eq(v.job.run.alone, 0);
		ck_assert_int_eq(ops->wait(dev, 0, &done), -ENOENT);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

/* While launches run one at a time who waits for its turn is not there yet, nor to blame. */
START_TEST(dies_before_another)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct victim v[2] = { 0 };
	struct arax_launch_range r;
	pthread_t threads[2];

	move(dev, trap);
	r = range(take_memory(dev, 4), 4);
	emu_gate(0);
	for (uint32_t i = 0; i < 2; i++) {
		v[i].dev = dev;
		fill(&v[i].job, gate, i, 1, 1, &r, 1, &fine, 4);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_victim, &v[i]), 0);
		wait_for_kernels(1);
		usleep(50000);
	}
	kill(the_helper(), SIGKILL);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(v[i].result, -ENODEV);
		ck_assert_uint_eq(v[i].job.run.alone, !i);
	}
	emu_gate(1);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Of what was copied nothing is known, but that it did not go on. */
static void *copy_on(void *arg)
{
	static char pages[4 * STAGE];
	struct victim *v = arg;
	uint64_t a = 0;

	v->result = ops->alloc(v->dev, sizeof(pages), 0, &a);
	while (!v->result)
		v->result = ops->copy_in(v->dev, 0, a, pages, sizeof(pages));
	return NULL;
}

START_TEST(killed_while_copying)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct victim v = { .dev = dev };
	pthread_t thread;

	for (int i = 0; i < 5; i++) {
		move(dev, trap);
		ck_assert_int_eq(pthread_create(&thread, NULL, copy_on, &v), 0);
		usleep((useconds_t)(i * 7000));
		kill(the_helper(), SIGKILL);
		pthread_join(thread, NULL);
		ck_assert_int_eq(v.result, -ENODEV);
		ck_assert_int_eq(ops->reset(dev), 0);
	}
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* It ends with the process that started it, however that ends. */
START_TEST(ends_with_us)
{
	int pipes[2];
	pid_t pid, helper = 0;

	ck_assert_int_eq(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		void *dev = open_apart(_i), *trap = load(dev, TRAP);

		move(dev, trap);
		helper = the_helper();
		if (write(pipes[1], &helper, sizeof(helper)) != sizeof(helper))
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(pipes[0], &helper, sizeof(helper)), sizeof(helper));
	ck_assert_int_eq(kill(helper, 0), 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	/* Whoever reaps orphans here may take its time: a zombie has no maps. */
	for (;;) {
		char path[64], byte;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/maps", helper);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, &byte, 1) <= 0)
			break;
		close(fd);
		usleep(1000);
	}
	close(pipes[0]);
	close(pipes[1]);
}
END_TEST

/* What it has of ours: its socket and the log; and nothing that we print to. */
START_TEST(has_no_descriptor_of_ours)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	char path[128], target[4096];
	struct dirent *e;
	ssize_t n;
	DIR *fds;

	ck_assert_int_ge(dup2(open(folder, O_RDONLY), 700), 0);	/* inherited, if it could be */
	move(dev, trap);
	snprintf(path, sizeof(path), "/proc/%d/fd", the_helper());
	fds = opendir(path);
	ck_assert_ptr_nonnull(fds);
	while ((e = readdir(fds))) {
		int fd = atoi(e->d_name);

		n = readlinkat(dirfd(fds), e->d_name, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (fd < 2)
			ck_assert_str_eq(target, "/dev/null");
		else if (fd == 2 || fd == 4)
			ck_assert_msg(!!strstr(target, "/log"), "%s", target);
		ck_assert_str_ne(target, folder);
	}
	closedir(fds);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Host memory                                                           */

static uint64_t last_serial;

/* A client's buffer, as a link has it. */
static struct mapping map_buffer(uint64_t bytes)
{
	struct mapping m = { .bytes = bytes, .serial = ++last_serial };

	m.fd = memfd_create("arax-test-buffer", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(m.fd, (off_t)bytes), 0);
	m.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	ck_assert_ptr_ne(m.base, MAP_FAILED);
	return m;
}

static void unmap_buffer(struct mapping *m)
{
	munmap(m->base, m->bytes);
	close(m->fd);
}

/* One that devices know as a buffer, too. */
static void make_buffer(struct mapping *m, uint64_t bytes)
{
	*m = map_buffer(bytes);
	ck_assert_int_eq(hostmap_add(m), 0);
}

static void bury_buffer(struct mapping *m)
{
	hostmap_remove(m);
	unmap_buffer(m);
}

static void put_pattern(uint8_t *p, uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

/* @bytes at @host to the device and back to elsewhere, with nothing around them touched. */
static void try_copy(void *dev, uint64_t a, uint8_t *host, uint8_t *back, uint64_t bytes)
{
	put_pattern(host, bytes, (uint32_t)bytes);
	memset(back - 1, 0x5a, bytes + 2);
	ck_assert_int_eq(ops->copy_in(dev, 1, a, host, bytes), 0);
	memset(host, 0, bytes);
	ck_assert_int_eq(ops->copy_out(dev, 2, back, a, bytes), 0);
	put_pattern(host, bytes, (uint32_t)bytes);
	ck_assert_int_eq(memcmp(host, back, bytes), 0);
	ck_assert_int_eq(back[-1], 0x5a);
	ck_assert_int_eq(back[bytes], 0x5a);
}

static const uint64_t sizes[] = { 1, 3, 4095, 4096, 4097, 65537, STAGE - 1, STAGE, STAGE + 1,
				  3 * STAGE, 3 * STAGE + 12345 };

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

START_TEST(copies_of_private_memory)
{
	static uint8_t host[4 * STAGE + 64], back[4 * STAGE + 64];
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	uint64_t a;

	move(dev, trap);
	a = take_memory(dev, 4 * STAGE);
	for (size_t i = 0; i < NR_SIZES; i++)
		try_copy(dev, a + 7 * i, host + i, back + 33, sizes[i]);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, host, 0), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, host, a, 0), 0);
	/* One byte too far, and nothing is copied. */
	memset(back, 0x5a, sizeof(back));
	ck_assert_int_eq(ops->copy_out(dev, 0, back, a + 1, 4 * STAGE), -EFAULT);
	ck_assert_int_eq(back[0], 0x5a);
	ck_assert_int_eq(ops->copy_in(dev, 0, a + 1, host, 4 * STAGE), -EFAULT);
	ck_assert_int_eq(ops->copy_in(dev, 0, a - 1, host, 0), -EFAULT);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* The same, in pages that the other process has: none of them goes by way of the channel. */
START_TEST(copies_of_buffers)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping in, out;
	uint64_t a;
	pid_t pid;

	make_buffer(&in, 4 * STAGE);
	make_buffer(&out, 4 * STAGE);
	move(dev, trap);
	pid = the_helper();
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 0);
	a = take_memory(dev, 4 * STAGE);
	for (size_t i = 0; i < NR_SIZES; i++)
		try_copy(dev, a + 7 * i, in.base + i, out.base + 33, sizes[i]);
	/* Once each. */
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 2);
	/* All of it, and one byte too far of the device's. */
	ck_assert_int_eq(ops->copy_in(dev, 0, a, in.base, in.bytes), 0);
	ck_assert_int_eq(ops->copy_in(dev, 0, a + 1, in.base, in.bytes), -EFAULT);
	/* What is unmapped here is unmapped there, at once. */
	hostmap_remove(&in);
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 1);
	unmap_buffer(&in);
	/* Its address may be another one's then. */
	in = map_buffer(STAGE);
	ck_assert_int_eq(hostmap_add(&in), 0);
	try_copy(dev, a, in.base, out.base + 33, STAGE);
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 2);
	/* And the next process begins with none. */
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert_int_eq(maps(the_helper(), "arax-test-buffer"), 0);
	hostmap_remove(&in);
	hostmap_remove(&out);
	unmap_buffer(&in);
	unmap_buffer(&out);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Registered here, it is registered there, and in each process that follows. */
START_TEST(registered_again)
{
	static char private_pages[8192] __attribute__((aligned(4096)));
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m, late;
	pid_t pid;

	make_buffer(&m, 65536);
	make_buffer(&late, 65536);
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	ck_assert_int_eq(ops->host_register(dev, private_pages, 4096), 0);
	ck_assert_int_eq(emu_registered(), 2);
	for (int i = 0; i < 2; i++) {
		move(dev, trap);
		/* But for what it has no pages of. */
		ck_assert_int_eq(emu_registered(), 1);
		ck_assert_int_eq(maps(the_helper(), "arax-test-buffer"), 1);
	}
	ck_assert_int_eq(ops->host_register(dev, private_pages + 4096, 4096), -EOPNOTSUPP);
	ck_assert_int_eq(ops->host_register(dev, late.base, late.bytes), 0);
	ck_assert_int_eq(emu_registered(), 2);
	pid = the_helper();
	ops->host_unregister(dev, m.base);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(dev, m.base);		/* once too often */
	ops->host_unregister(dev, private_pages);
	ck_assert_int_eq(emu_registered(), 1);
	hostmap_remove(&m);
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 1);
	ops->host_unregister(dev, late.base);
	hostmap_remove(&late);
	ck_assert_int_eq(emu_registered(), 0);
	ck_assert_int_eq(maps(pid, "arax-test-buffer"), 0);
	unmap_buffer(&m);
	unmap_buffer(&late);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* In the context of one that goes, by moving or for good; and another one unregisters it later. */
START_TEST(registered_for_two)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m;

	make_buffer(&m, 65536);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ops->host_register(devs[i], m.base, m.bytes), 0);
	ck_assert_int_eq(emu_registered(), 1);
	move(dev, trap);
	ck_assert_int_eq(emu_registered(), 1);		/* there */
	ops->host_unregister(devs[1], m.base);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(dev, m.base);
	ck_assert_int_eq(emu_registered(), 0);
	/* Nobody has it still, so it is registered anew. */
	ck_assert_int_eq(ops->host_register(devs[1], m.base, m.bytes), 0);
	ck_assert_int_eq(emu_registered(), 1);
	ops->host_unregister(devs[1], m.base);
	ck_assert_int_eq(emu_registered(), 0);
	ops->kernel_unload(dev, trap);
	bury_buffer(&m);
}
END_TEST

START_TEST(registered_by_one_that_is_closed)
{
	void *dev = open_apart(_i), *other = load(devs[1], TRAP);
	struct mapping m = map_buffer(65536);

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ops->host_register(devs[i], m.base, m.bytes), 0);
	/* It was the first one, so that it is in its context still. */
	ops->host_unregister(dev, m.base);
	ck_assert_int_eq(emu_registered(), 1);
	ops->close(dev);
	devs[0] = devs[--nr_devs];
	ck_assert_int_eq(emu_registered(), 0);
	ops->host_unregister(devs[0], m.base);
	ck_assert_int_eq(emu_registered(), 0);
	assert_whole(devs[0], other);
	ops->kernel_unload(devs[0], other);
	unmap_buffer(&m);
}
END_TEST

/* Pages that a client has taken away are no end of the process. */
START_TEST(pages_that_are_gone)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m;
	uint64_t a;

	make_buffer(&m, 65536);
	move(dev, trap);
	a = take_memory(dev, 65536);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, m.base, 65536), 0);
	ck_assert_int_eq(ftruncate(m.fd, 0), 0);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, m.base, 65536), 0);
	assert_whole(dev, trap);
	bury_buffer(&m);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Which buffer an address is in. */
START_TEST(host_map)
{
	struct mapping m[3], found;
	uint8_t *base;

	base = mmap(NULL, 5 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 3; i++) {
		/* Pages 0, 1 and 3. */
		m[i] = (struct mapping){ .base = base + (i == 2 ? 3 : i) * 4096, .bytes = 4096,
					 .serial = ++last_serial, .fd = 100 + i };
		ck_assert_int_eq(hostmap_add(&m[i]), 0);
	}
	ck_assert(hostmap_find(base, 4096, &found));
	ck_assert_int_eq(found.fd, 100);
	ck_assert(hostmap_find(base + 4095, 1, &found));
	ck_assert_int_eq(found.fd, 100);
	ck_assert(hostmap_find(base + 4096, 1, &found));
	ck_assert_int_eq(found.fd, 101);
	ck_assert(!hostmap_find(base + 4095, 2, &found));	/* of two buffers is of none */
	ck_assert(!hostmap_find(base + 2 * 4096, 1, &found));
	ck_assert(!hostmap_find(base - 1, 1, &found));
	ck_assert(!hostmap_find(base + 3 * 4096, UINT64_MAX, &found));
	ck_assert(hostmap_find(base + 3 * 4096 + 1, 4095, &found));
	ck_assert_uint_eq(found.serial, m[2].serial);
	hostmap_remove(&m[1]);
	ck_assert(!hostmap_find(base + 4096, 1, &found));
	ck_assert(hostmap_find(base, 1, &found));
	hostmap_remove(&m[0]);
	hostmap_remove(&m[2]);
	ck_assert(!hostmap_find(base, 1, &found));
	munmap(base, 5 * 4096);
}
END_TEST

/* Whatever araxd has forgotten. */
START_TEST(registered_until_it_is_unmapped)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m;

	make_buffer(&m, 65536);
	move(dev, trap);
	ck_assert_int_eq(ops->host_register(dev, m.base, 4096), 0);
	ck_assert_int_eq(ops->host_register(dev, m.base + 8192, 4096), 0);
	ck_assert_int_eq(emu_registered(), 2);
	hostmap_remove(&m);
	ck_assert_int_eq(emu_registered(), 0);
	ops->host_unregister(dev, m.base);
	ops->host_unregister(dev, m.base + 8192);
	ck_assert_int_eq(emu_registered(), 0);
	unmap_buffer(&m);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What is taken away while a device moves                               */

static bool helper_has_come(void)
{
	pid_t none;

	return children(&none) == 1;
}

static void *reset_it(void *arg)
{
	struct worker *w = arg;

	w->err = ops->reset(w->dev);
	return NULL;
}

struct leaver {
	void *dev, *kernel;
	struct mapping *m;
	uint64_t address;
	atomic_bool done;
};

/* As who buries buffers and modules does. */
static void *take_away(void *arg)
{
	struct leaver *l = arg;

	ops->free(l->dev, l->address);
	ops->host_unregister(l->dev, l->m->base);
	bury_buffer(l->m);
	if (l->kernel)
		ops->kernel_unload(l->dev, l->kernel);
	l->done = true;
	return NULL;
}

/* It waits for nobody, however long the other process takes; which then has none of it. */
START_TEST(taken_away_while_it_moves)
{
	void *dev = open_late(_i), *trap = load(dev, TRAP);
	struct mapping m, kept;
	struct leaver l = { .dev = dev, .kernel = load(dev, ADD), .m = &m };
	struct worker w = { .dev = dev };
	pthread_t resetter, leaver;
	bool done;

	make_buffer(&m, 65536);
	make_buffer(&kept, 65536);
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	ck_assert_int_eq(ops->host_register(dev, kept.base, kept.bytes), 0);
	l.address = take_memory(dev, 4);
	fault(dev, trap);
	ck_assert_int_eq(pthread_create(&resetter, NULL, reset_it, &w), 0);
	ck_assert(comes_true(helper_has_come(), 1000));
	ck_assert_int_eq(pthread_create(&leaver, NULL, take_away, &l), 0);
	done = comes_true(l.done, 1000);
	let_it_begin();
	pthread_join(leaver, NULL);
	pthread_join(resetter, NULL);
	ck_assert(done);
	ck_assert_int_eq(w.err, 0);
	ck_assert_int_eq(emu_registered(), 1);
	ck_assert_int_eq(maps(the_helper(), "arax-test-buffer"), 1);
	assert_whole(dev, trap);
	ops->host_unregister(dev, kept.base);
	hostmap_remove(&kept);
	ck_assert_int_eq(emu_registered(), 0);
	unmap_buffer(&kept);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* The other process has been given it, and is slow to answer. */
START_TEST(taken_away_when_it_was_there)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m;
	struct leaver l = { .dev = dev, .m = &m };
	struct worker w = { .dev = dev };
	pthread_t resetter, leaver;
	bool done;

	make_buffer(&m, 65536);
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	fault(dev, trap);
	stop_when_sent = m.fd;
	ck_assert_int_eq(pthread_create(&resetter, NULL, reset_it, &w), 0);
	ck_assert(comes_true(stop_when_sent < 0, 1000));
	ck_assert_int_eq(pthread_create(&leaver, NULL, take_away, &l), 0);
	done = comes_true(l.done, 1000);
	kill(the_helper(), SIGCONT);
	pthread_join(leaver, NULL);
	pthread_join(resetter, NULL);
	ck_assert(done);
	ck_assert_int_eq(w.err, 0);
	ck_assert_int_eq(emu_registered(), 0);
	ck_assert_int_eq(maps(the_helper(), "arax-test-buffer"), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Processes that hang                                                   */

/* One that does not come to be of use is ended. */
START_TEST(never_begins)
{
	void *dev = open_late(_i), *trap = load(dev, TRAP);
	pid_t none;

	helper_step_ms = 500;
	fault(dev, trap);
	ck_assert_int_eq(ops->reset(dev), -EAGAIN);
	assert_logged("takes too long to begin");
	ck_assert_int_eq(children(&none), 0);
	let_it_begin();
	helper_step_ms = 60000;
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Killed as it begins, as for want of memory, it is replaced; but not each time that it is. */
START_TEST(killed_as_it_begins)
{
	void *dev = open_late(_i), *trap = load(dev, TRAP);
	struct worker w = { .dev = dev };
	pthread_t thread;
	pid_t none;

	fault(dev, trap);
	for (int n = 1; n <= 3 + 1; n++) {
		take_log();
		ck_assert_int_eq(pthread_create(&thread, NULL, reset_it, &w), 0);
		ck_assert(comes_true(helper_has_come(), 1000));
		kill(the_helper(), SIGKILL);
		pthread_join(thread, NULL);
		ck_assert_int_eq(w.err, n % 3 ? -EAGAIN : -ENODEV);
		assert_logged(n % 3 ? "reason=\"a signal ended the one before\"" : "a signal ended it each time");
		ck_assert_int_eq(children(&none), 0);
	}
	let_it_begin();
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void *end_it(void *arg)
{
	sleep(20);
	kill(*(pid_t *)arg, SIGKILL);
	return NULL;
}

/* Nobody waits for one that can't end: neither a launch nor who replaces it, nor buffers. */
START_TEST(never_ends)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct mapping m;
	struct victim v = { 0 };
	struct arax_launch_range r;
	pthread_t thread, late;
	pid_t helper, tracer;
	uint64_t began;

	helper_end_ms = 500;
	move(dev, trap);
	helper = the_helper();
	make_buffer(&m, 65536);
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	r = range(take_memory(dev, 4), 4);
	emu_gate(0);
	v.dev = dev;
	fill(&v.job, gate, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
	wait_for_kernels(1);
	/* To others it hangs in the kernel when it is killed. */
	tracer = begin_tracer(&helper, 1);
	ck_assert_int_gt(tracer, 0);
	ck_assert_int_eq(pthread_create(&late, NULL, end_it, &tracer), 0);
	began = wait_raw_ns();
	take_log();
	ck_assert_int_eq(ops->reset(dev), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(v.result, -ENODEV);
	ops->host_unregister(dev, m.base);
	hostmap_remove(&m);
	ck_assert_uint_lt(wait_raw_ns() - began, 15000000000ull);
	assert_logged("was killed and does not end");
	ck_assert_int_eq(kill(helper, 0), 0);
	unmap_buffer(&m);
	emu_gate(1);
	ck_assert_int_eq(pthread_cancel(late), 0);
	pthread_join(late, NULL);
	end_tracer(tracer);
	/* It is waited for all the same. */
	ck_assert(comes_true(kill(helper, 0) && errno == ESRCH, 1000));
	ck_assert_int_eq(children(&helper), 1);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Nor for one that somebody else has killed, though it has its end of the socket still. */
START_TEST(killed_and_never_ends)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct victim v = { 0 };
	struct arax_launch_range r;
	pthread_t thread, late;
	pid_t helper, tracer;
	uint64_t began;

	helper_end_ms = 500;
	move(dev, trap);
	helper = the_helper();
	r = range(take_memory(dev, 4), 4);
	emu_gate(0);
	v.dev = dev;
	fill(&v.job, gate, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
	wait_for_kernels(1);
	tracer = begin_tracer(&helper, 1);
	ck_assert_int_gt(tracer, 0);
	ck_assert_int_eq(pthread_create(&late, NULL, end_it, &tracer), 0);
	began = wait_raw_ns();
	take_log();
	kill(helper, SIGKILL);
	pthread_join(thread, NULL);
	ck_assert_int_eq(v.result, -ENODEV);
	ck_assert_uint_lt(wait_raw_ns() - began, 15000000000ull);
	ck_assert_int_eq(kill(helper, 0), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	/* Its watcher says so once who called has been told. */
	assert_logged("was killed and does not end");
	emu_gate(1);
	assert_whole(dev, trap);
	ck_assert_int_eq(pthread_cancel(late), 0);
	pthread_join(late, NULL);
	end_tracer(tracer);
	ck_assert(comes_true(kill(helper, 0) && errno == ESRCH, 1000));
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

static void *remove_buffer(void *arg)
{
	struct leaver *l = arg;

	hostmap_remove(l->m);
	l->done = true;
	return NULL;
}

/* Nor does whoever gives a buffer back wait for one that answers nothing: it is ended, and replaced. */
START_TEST(never_lets_go)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct mapping m, kept;
	struct leaver l = { .dev = dev, .m = &m };
	struct victim v = { 0 };
	struct arax_launch_range r;
	pthread_t thread, leaver;
	pid_t hung, none;
	uint64_t a;
	bool done;

	make_buffer(&m, 65536);
	make_buffer(&kept, 65536);
	move(dev, trap);
	ck_assert_int_eq(ops->host_register(dev, kept.base, kept.bytes), 0);
	a = take_memory(dev, 65536);
	r = range(a, 4);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, m.base, m.bytes), 0);
	emu_gate(0);
	v.dev = dev;
	fill(&v.job, gate, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
	wait_for_kernels(1);
	hung = the_helper();
	ck_assert_int_eq(maps(hung, "arax-test-buffer"), 2);
	take_log();
	helper_step_ms = 300;
	kill(hung, SIGSTOP);
	ck_assert_int_eq(pthread_create(&leaver, NULL, remove_buffer, &l), 0);
	done = comes_true(l.done, 1000);
	kill(hung, SIGCONT);
	pthread_join(leaver, NULL);
	emu_gate(1);
	pthread_join(thread, NULL);
	helper_step_ms = 60000;
	ck_assert(done);
	unmap_buffer(&m);
	assert_logged("takes too long to map or to unmap a buffer, and is ended");
	/* The launch is lost, and not to blame, though none was beside it. */
	ck_assert_int_eq(v.result, -ENODEV);
	ck_assert(!v.job.run.alone);
	while (children(&none))
		usleep(1000);
	ck_assert_int_eq(ops->reset(dev), 0);
	ck_assert_int_ne(the_helper(), hung);
	ck_assert_int_eq(maps(the_helper(), "arax-test-buffer"), 1);
	assert_whole(dev, trap);
	ops->host_unregister(dev, kept.base);
	bury_buffer(&kept);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

struct copier {
	void *dev;
	uint64_t to;
	const struct mapping *from;
	int err;
	atomic_bool done;
};

static void *copy_it(void *arg)
{
	struct copier *c = arg;

	c->err = ops->copy_in(c->dev, 0, c->to, c->from->base, c->from->bytes);
	c->done = true;
	return NULL;
}

/* Nor who needs a buffer that it does not map, nor who gives another one back meanwhile. */
START_TEST(never_maps)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m, other;
	struct leaver l = { .dev = dev, .m = &other };
	struct copier c = { .dev = dev, .from = &m };
	pthread_t copier, leaver;
	pid_t hung, none;
	bool done;

	make_buffer(&m, 65536);
	make_buffer(&other, 65536);
	move(dev, trap);
	c.to = take_memory(dev, 65536);
	ck_assert_int_eq(ops->copy_in(dev, 0, c.to, other.base, other.bytes), 0);
	hung = the_helper();
	take_log();
	helper_step_ms = 300;
	kill(hung, SIGSTOP);
	ck_assert_int_eq(pthread_create(&copier, NULL, copy_it, &c), 0);
	usleep(50000);
	ck_assert_int_eq(pthread_create(&leaver, NULL, remove_buffer, &l), 0);
	done = comes_true(c.done && l.done, 1000);
	kill(hung, SIGCONT);
	pthread_join(copier, NULL);
	pthread_join(leaver, NULL);
	helper_step_ms = 60000;
	ck_assert(done);
	unmap_buffer(&other);
	ck_assert_int_eq(c.err, -ENODEV);
	assert_logged("takes too long to map or to unmap a buffer, and is ended");
	while (children(&none))
		usleep(1000);
	ck_assert_int_eq(ops->reset(dev), 0);
	c.to = take_memory(dev, 65536);
	ck_assert_int_eq(ops->copy_in(dev, 0, c.to, m.base, m.bytes), 0);
	assert_whole(dev, trap);
	bury_buffer(&m);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* There are no descriptors for a while                                  */

static void limit_descriptors(bool on)
{
	static struct rlimit before;
	struct rlimit l;

	if (on) {
		ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
		l = before;
		l.rlim_cur = 3;
	}
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, on ? &l : &before), 0);
}

/* The process is well, and nothing is said to be lost. */
START_TEST(no_descriptors)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct mapping m;
	struct victim v[2] = { 0 };
	struct arax_launch_range r[2];
	pthread_t threads[2];
	uint64_t a, b = 0;
	char out[4];

	make_buffer(&m, 65536);
	move(dev, trap);
	a = take_memory(dev, 8);
	r[0] = range(a, 4);
	r[1] = range(a + 4, 4);
	be_careful(dev, trap, &r[0]);
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	emu_gate(0);
	for (uint32_t n = 0; n < 2; n++) {
		v[n].dev = dev;
		fill(&v[n].job, gate, n, 1, 1, &r[n], 1, &fine, 4);
	}
	ck_assert_int_eq(ops->submit(dev, &v[1].job.run, 9), 0);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, run_victim, &v[0]), 0);
	wait_for_kernels(2);
	limit_descriptors(true);
	ck_assert_int_eq(ops->alloc(dev, 4, 0, &b), 0);
	ck_assert_int_eq(ops->copy_out(dev, 0, out, a, 4), 0);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, wait_victim, &v[1]), 0);
	usleep(20000);
	ops->host_unregister(dev, m.base);
	ck_assert_int_eq(emu_registered(), 0);
	emu_gate(1);
	for (int n = 0; n < 2; n++) {
		pthread_join(threads[n], NULL);
		ck_assert_int_eq(v[n].result, 0);
	}
	limit_descriptors(false);
	assert_whole(dev, trap);
	bury_buffer(&m);
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* It is said to have to wait, and not what to install; a moment later it goes on. */
START_TEST(reset_without_descriptors)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	const char *said;
	pid_t none;

	for (int turn = 0; turn < 2; turn++) {
		fault(dev, trap);
		take_log();
		limit_descriptors(true);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(ops->reset(dev), -EAGAIN);
		limit_descriptors(false);
		said = take_log();
		ck_assert_ptr_null(strstr(said, "no such program"));
		said = strstr(said, "waits to go on");
		ck_assert_ptr_nonnull(said);
		ck_assert_ptr_null(strstr(said + 1, "waits to go on"));
		/* The one before stays, as it can't be replaced. */
		ck_assert_int_eq(children(&none), turn);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

#define FILES	512

/* All but @free of a small table are in use, as by clients; how many of them are @fds. */
static int use_descriptors(int *fds, int free)
{
	int n = 0;

	do
		fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fds[n] >= 0 && ++n < FILES);
	ck_assert_int_eq(errno, EMFILE);
	while (free-- > 0)
		close(fds[--n]);
	return n;
}

/* There is the program, but not all that its process takes, whatever is missed first. */
START_TEST(reset_with_few_descriptors)
{
	const struct rlimit limit = { FILES, FILES };
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	int fds[FILES], free, n, err = -EAGAIN;
	pid_t none;

	/* As araxd does at first. */
	ck_assert_int_eq(child_reserve(), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fault(dev, trap);
	for (free = 0; err == -EAGAIN && free < 32; free++) {
		n = use_descriptors(fds, free);
		err = ops->reset(dev);
		while (n-- > 0)
			close(fds[n]);
		ck_assert_int_eq(children(&none), !err);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_int_gt(free, 4);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/*
 * So much has no machine; nor does what is mapped below a stack of that size lie where
 * ThreadSanitizer wants it, so there it is what most don't have.
 */
#ifdef __SANITIZE_THREAD__
#define NO_STACK	(1ull << 38)
#else
#define NO_STACK	(1ull << 46)
#endif

/* Its own threads are what it lacks: each takes a stack for which there is no memory. */
START_TEST(reset_without_threads_there)
{
	const struct rlimit none = { NO_STACK, RLIM_INFINITY };
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct rlimit before;
	const char *said;
	pid_t pid;

	ck_assert_int_eq(getrlimit(RLIMIT_STACK, &before), 0);
	for (int turn = 0; turn < 2; turn++) {
		fault(dev, trap);
		take_log();
		ck_assert_int_eq(setrlimit(RLIMIT_STACK, &none), 0);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(ops->reset(dev), -EAGAIN);
		ck_assert_int_eq(setrlimit(RLIMIT_STACK, &before), 0);
		said = take_log();
		ck_assert_ptr_null(strstr(said, "has ended"));
		ck_assert_ptr_null(strstr(said, "can't go on"));
		said = strstr(said, "waits to go on");
		ck_assert_ptr_nonnull(said);
		ck_assert_ptr_null(strstr(said + 1, "waits to go on"));
		ck_assert_int_eq(children(&pid), 0);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

/* On a machine that is busy it may be late. */
START_TEST(reset_with_a_late_child)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	pid_t none;

	fault(dev, trap);
	child_hangs = true;
	ck_assert_int_eq(ops->reset(dev), -EAGAIN);
	child_hangs = false;
	assert_logged("waits to go on in a process of its own");
	ck_assert_int_eq(children(&none), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* From the start on, but not yet                                        */

/* Set before probe(): the options of a device that is apart from the start on. */
static void ask_apart(int which_gpu, const char *helper, const char *when)
{
	const char *options[] = { "helper", helper, "apart", when, NULL };

	ck_assert_int_eq(probe(which_gpu, emulated_path(&gpus[which_gpu]), options), 2);
}

static bool is_waiting(void *dev)
{
	struct arax_backend_info info = { .size = sizeof(info) };

	ck_assert_int_eq(ops->info(dev, &info), 0);
	return info.lost;
}

/* What can't run there is known all the same, and nothing runs here. */
static void assert_waits(void *dev, void *trap, const char *remedy)
{
	struct arax_launch_range r = range(4096, 4);
	struct job j;
	uint64_t a;
	const char *log = take_log(), *said = strstr(log, "device waits to be driven");
	char byte;
	void *none;

	ck_assert_msg(said && strstr(said, remedy), "%s", log);
	ck_assert(is_waiting(dev));
	ck_assert_int_eq(try_load(dev, "k", "test_none", "none(i32 a)", &none), -ENOENT);
	ck_assert_int_eq(run(dev, trap, 0, 1, 1, &r, 1, &fine, 4), -ENODEV);
	fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 5), -ENODEV);
	ck_assert_int_eq(ops->alloc(dev, 1, 0, &a), -ENODEV);
	ck_assert_int_eq(ops->copy_out(dev, 0, &byte, 4096, 1), -ENODEV);
	ck_assert_int_eq(ops->copy_in(dev, 0, 4096, &byte, 1), -ENODEV);
	ck_assert_int_eq(ops->copy_peer(dev, 4096, dev, 4096, 1), -EOPNOTSUPP);
	ck_assert_int_eq(ops->host_register(dev, &byte, 1), -ENODEV);
}

/* It has come, as one that nothing had happened to: it need not be careful. */
static void assert_came(void *dev, void *trap)
{
	struct arax_backend_done done;
	struct arax_launch_range r;
	struct job j;

	ck_assert(!is_waiting(dev));
	assert_logged("device is driven in a process of its own");
	r = range(take_memory(dev, 4), 4);
	fill(&j, trap, 0, 1, 1, &r, 1, &fine, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 5), 0);
	ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
	assert_whole(dev, trap);
	ck_assert_uint_eq(emu_all_used(), 0);
}

static void find_emulated(int which_gpu)
{
	void *library = dlopen(emulated_path(&gpus[which_gpu]), RTLD_NOW);

	ck_assert_msg(!!library, "%s", dlerror());
	emu_fail = symbol(library, "emulated_fail");
	emu_all_used = symbol(library, "emulated_used");
}

enum lack { LACKS_DESCRIPTORS, LACKS_PROCESSES, LACKS_THREADS_THERE, LACKS };

static void set_lack(enum lack lack, bool on)
{
	static struct rlimit before;
	const struct rlimit none = { NO_STACK, RLIM_INFINITY };

	switch (lack) {
	case LACKS_DESCRIPTORS:
		limit_descriptors(on);
		break;
	case LACKS_PROCESSES:
		no_process = on;
		break;
	case LACKS_THREADS_THERE:
		if (on)
			ck_assert_int_eq(getrlimit(RLIMIT_STACK, &before), 0);
		ck_assert_int_eq(setrlimit(RLIMIT_STACK, on ? &none : &before), 0);
		break;
	default:
		break;
	}
}

/* Where what lacks may come it is waited for, by its default as well. */
START_TEST(apart_when_it_can_be)
{
	static const char *const remedies[] = { "LimitNOFILE", "TasksMax", "TasksMax" };
	bool hip = gpus[_i].kind == ARAX_DEVICE_HIP;
	pid_t none;

	find_emulated(_i);
	for (enum lack lack = 0; lack < LACKS; lack++) {
		void *dev, *trap;

#ifdef __SANITIZE_THREAD__
		/* Its library knows of fork() alone. */
		if (lack == LACKS_PROCESSES)
			continue;
#endif
		ask_apart(_i, helper_path, hip ? "auto" : "yes");
		take_log();
		set_lack(lack, true);
		ck_assert_int_eq(ops->open(0, &dev), 0);
		set_lack(lack, false);
		trap = load(dev, TRAP);
		assert_waits(dev, trap, remedies[lack]);
		ck_assert_int_eq(children(&none), 0);
		take_log();
		set_lack(lack, true);
		/* Of the driver's threads here a second one may not be had, either. */
		for (int i = 0; i < 2 && lack != LACKS_THREADS_THERE; i++)
			ck_assert_int_eq(ops->reset(dev), -EAGAIN);
		set_lack(lack, false);
		ck_assert_ptr_null(strstr(take_log(), "waits to be"));
		ck_assert_int_eq(ops->reset(dev), 0);
		the_helper();
		assert_came(dev, trap);
		ops->kernel_unload(dev, trap);
		ops->close(dev);
		ck_assert_int_eq(children(&none), 0);
	}
}
END_TEST

/* A process that ends as it begins is tried again, a few times; then the device can't be had. */
START_TEST(apart_after_some_failures)
{
	void *dev, *trap;
	pid_t none;

	find_emulated(_i);
	ask_apart(_i, helper_path, "yes");
	setenv("TEST_DIES", "1", 1);
	ck_assert_int_eq(ops->config("helper", "/proc/self/exe"), 0);
	take_log();
	ck_assert_int_eq(ops->open(0, &dev), 0);
	assert_logged("tried once more");
	trap = load(dev, TRAP);
	ck_assert(is_waiting(dev));
	ck_assert_int_eq(ops->config("helper", helper_path), 0);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_came(dev, trap);
	ops->kernel_unload(dev, trap);
	ops->close(dev);
	ck_assert_int_eq(children(&none), 0);
}
END_TEST

/* Without the program: by its default here, and that is said; else not at all. */
START_TEST(apart_without_a_program)
{
	bool hip = gpus[_i].kind == ARAX_DEVICE_HIP;
	void *dev, *trap;
	pid_t none;

	find_emulated(_i);
	ask_apart(_i, "/nowhere/arax-device", "auto");
	take_log();
	ck_assert_int_eq(ops->open(0, &dev), 0);
	if (hip)
		assert_logged("device is driven in araxd itself: the program that it should be in is not there");
	else
		ck_assert_ptr_null(strstr(take_log(), "araxd itself"));
	ck_assert(!is_waiting(dev));
	trap = load(dev, TRAP);
	assert_whole(dev, trap);
	ck_assert_int_eq(children(&none), 0);
	/* It moves as any other, once there is the program. */
	ck_assert_int_eq(ops->config("helper", helper_path), 0);
	fault(dev, trap);
	take_log();
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_logged("device goes on in a process of its own");
	the_helper();
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
	ops->close(dev);
}
END_TEST

#define CROWD	64		/* more than there are channels */

struct caller {
	void *dev;
	uint64_t ns;
	int result;
};

static void *poll_once(void *arg)
{
	struct caller *c = arg;
	struct arax_backend_done done;

	c->result = ops->poll(c->dev, &done, 1, c->ns);
	return NULL;
}

static void begin_crowd(pthread_t *threads, struct caller *c, void *dev, uint64_t ns)
{
	for (int i = 0; i < CROWD; i++) {
		c[i] = (struct caller){ dev, ns, 1 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, poll_once, &c[i]), 0);
	}
}

static void end_crowd(pthread_t *threads, const struct caller *c, int result)
{
	for (int i = 0; i < CROWD; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(c[i].result, result);
	}
}

/* Who finds none has the next; the end of the process, or of all, is told to who waits as well. */
START_TEST(more_calls_than_channels)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct mapping m;
	struct caller c[CROWD];
	pthread_t threads[CROWD];
	pid_t pid;

	make_buffer(&m, 65536);
	move(dev, trap);
	pid = the_helper();
	ck_assert_int_eq(ops->host_register(dev, m.base, m.bytes), 0);
	limit_descriptors(true);
	begin_crowd(threads, c, dev, 10000000);
	end_crowd(threads, c, 0);
	begin_crowd(threads, c, dev, UINT64_MAX);
	usleep(50000);
	/* For that there is a channel still. */
	hostmap_remove(&m);
	ck_assert_int_eq(emu_registered(), 0);
	kill(pid, SIGKILL);
	end_crowd(threads, c, -ENODEV);
	limit_descriptors(false);
	unmap_buffer(&m);
	ops->host_unregister(dev, m.base);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What a process that dies may have written over                        */

/* Words at @offset of each channel. */
static void write_over(pid_t pid, uint64_t offset, const uint32_t *words, uint32_t nr)
{
	char path[64], line[4096];
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		ssize_t bytes = (ssize_t)(nr * sizeof(*words));
		unsigned long at;

		if (strstr(line, "memfd:arax-device") && sscanf(line, "%lx", &at) == 1)
			ck_assert_int_eq(pwrite(fd, words, (size_t)bytes,
						(off_t)(at + offset)), bytes);
	}
	fclose(f);
	close(fd);
}

static void join_soon(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &until), 0);
}

/* Whether its caller sleeps, and what it has asked: nobody waits on for one that is gone. */
START_TEST(written_over_at_the_gate)
{
	static const uint32_t zeros[1024];
	static const struct {
		uint64_t offset;
		uint32_t words;
	} over[] = {
		{ offsetof(struct slot, reply.sleeps), 1 },
		{ 0, 1024 },
	};
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *gate = load(dev, GATE);
	struct victim v = { .dev = dev };
	struct arax_launch_range r;
	pthread_t thread;

	for (size_t i = 0; i < sizeof(over) / sizeof(over[0]); i++) {
		int waiting = emu_waiting();

		move(dev, trap);
		r = range(take_memory(dev, 4), 4);
		emu_gate(0);
		fill(&v.job, gate, 0, 1, 1, &r, 1, &fine, 4);
		ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
		wait_for_kernels(waiting + 1);
		usleep(50000);		/* until it sleeps */
		write_over(the_helper(), over[i].offset, zeros, over[i].words);
		kill(the_helper(), SIGKILL);
		join_soon(thread);
		ck_assert_int_eq(v.result, -ENODEV);
		emu_gate(1);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, gate);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Nor is a call answered by what stood there before it, whatever that says of its number. */
START_TEST(written_over_before_a_call)
{
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct victim v = { .dev = dev };
	struct arax_launch_range r;
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		/* What is asked, or what is answered. */
		uint64_t offset = i ? offsetof(struct slot, reply.value) : 0;
		uint32_t word = i ? 12345 : UINT32_MAX;

		move(dev, trap);
		r = range(take_memory(dev, 4), 4);
		fill(&v.job, trap, 0, 1, 1, &r, 1, &fine, 4);
		kill(the_helper(), SIGSTOP);
		write_over(the_helper(), offset, &word, 1);
		ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
		usleep(50000);
		kill(the_helper(), SIGKILL);
		join_soon(thread);
		ck_assert_int_eq(v.result, -ENODEV);
		ck_assert_int_eq(ops->reset(dev), 0);
		assert_whole(dev, trap);
	}
	ops->kernel_unload(dev, trap);
}
END_TEST

/* A channel on which a call waits, as it is mapped here. */
static struct slot *find_call(void)
{
	char line[4096];
	struct slot *found = NULL;

	while (!found) {
		FILE *f = fopen("/proc/self/maps", "r");
		unsigned long at;

		ck_assert_ptr_nonnull(f);
		while (!found && fgets(line, sizeof(line), f)) {
			struct slot *s;

			if (!strstr(line, "memfd:arax-device") || sscanf(line, "%lx", &at) != 1)
				continue;
			s = (struct slot *)at;
			if (__atomic_load_n(&s->request.value, __ATOMIC_ACQUIRE) !=
			    __atomic_load_n(&s->reply.value, __ATOMIC_RELAXED))
				found = s;
		}
		fclose(f);
		usleep(1000);
	}
	return found;
}

/* What no backend says is no result. */
START_TEST(nonsense_is_answered)
{
	static const struct {
		int32_t said, result;
	} cases[] = {
		{ 1, -EIO }, { INT32_MAX, -EIO }, { -4096, -EIO }, { INT32_MIN, -EIO },
		{ -4095, -4095 }, { 0, 0 },
	};
	void *dev = open_apart(_i), *trap = load(dev, TRAP);
	struct victim v = { .dev = dev };
	struct arax_launch_range r;
	pthread_t thread;
	struct slot *s;

	move(dev, trap);
	r = range(take_memory(dev, 4), 4);
	kill(the_helper(), SIGSTOP);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fill(&v.job, trap, 0, 1, 1, &r, 1, &fine, 4);
		ck_assert_int_eq(pthread_create(&thread, NULL, run_victim, &v), 0);
		s = find_call();
		s->call.result = cases[i].said;
		slot_answer(s, s->request.value);
		join_soon(thread);
		ck_assert_int_eq(v.result, cases[i].result);
	}
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* ------------------------------------------------------------------ */
/* All at once                                                           */

static void *disturb(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 10; i++) {
		uint64_t a = 0;
		struct arax_launch_range r;

		if (!ops->alloc(w->dev, 4, 0, &a)) {
			r = range(a, 4);
			run(w->dev, w->kernel, w->lane, 1, 1, &r, 1, i % 2 ? &bad : &fine, 4);
		}
		w->err = ops->reset(w->dev);
	}
	return NULL;
}

/* Again and again, whatever becomes of the device. */
static void *work_on(void *arg)
{
	struct worker *w = arg;
	int err = 0;

	for (int i = 0; i < 20 && (!err || err == -ENODEV || err == -EFAULT); i++) {
		w->err = 0;
		work(w);
		err = w->err;
	}
	return NULL;
}

START_TEST(faults_among_threads)
{
	void *dev = open_apart(_i), *add = load(dev, ADD), *trap = load(dev, TRAP);
	struct worker w[4];
	pthread_t threads[4];
	uint64_t a;
	pid_t pid;

	for (uint32_t i = 0; i < 4; i++) {
		w[i] = (struct worker){ dev, i ? add : trap, i, 0 };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, i ? work_on : disturb, &w[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		ck_assert_msg(!w[i].err || w[i].err == -ENODEV || w[i].err == -EFAULT, "%d",
			      w[i].err);
	ck_assert_int_eq(ops->reset(dev), 0);
	assert_whole(dev, trap);
	/* All of its memory is there. */
	a = take_memory(dev, 60 * MIB);
	ops->free(dev, a);
	ck_assert_int_eq(children(&pid), 1);
	w[0] = (struct worker){ dev, add, 3, 0 };
	work(&w[0]);
	ck_assert_int_eq(w[0].err, 0);
	ops->kernel_unload(dev, add);
	ops->kernel_unload(dev, trap);
}
END_TEST

/* Whom a launch comes behind goes along with it. */
START_TEST(behind_one_that_fails)
{
	static const int32_t bad_result = -EIO;
	void *dev = open_apart(_i), *trap = load(dev, TRAP), *order = load(dev, ORDER);
	bool tells = which->kind == ARAX_DEVICE_CUDA;
	struct arax_backend_done done;
	struct arax_launch_range r;
	int32_t x = 0;
	uint64_t a;
	struct job j;

	move(dev, trap);
	a = take_memory(dev, 4);
	r = range(a, 4);
	be_careful(dev, order, &r);
	ck_assert_int_eq(ops->copy_in(dev, 0, a, &x, 4), 0);
	fill(&j, order, 0, 1, 1, &r, 1, &bad_result, 4);
	ck_assert_int_eq(ops->submit(dev, &j.run, 1), 0);
	fill(&j, order, 0, 1, 1, &r, 1, &fine, 4);
	j.run.after = 1;
	ck_assert_int_eq(ops->submit(dev, &j.run, 2), tells ? 0 : -EAGAIN);
	ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
	ck_assert_int_eq(done.result, -EIO);
	if (tells) {
		ck_assert_int_eq(ops->wait(dev, 0, &done), 0);
		ck_assert_int_eq(done.result, -ECANCELED);
		ck_assert_uint_eq(done.flags, ARAX_DONE_NOT_RUN);
	}
	ck_assert_int_eq(ops->copy_out(dev, 0, &x, a, 4), 0);
	ck_assert_int_eq(x, 1);
	ops->kernel_unload(dev, trap);
	ops->kernel_unload(dev, order);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("apart");
	TCase *t = tcase_create("all");

	if (argc == 3 && !strcmp(argv[0], "arax-device"))
		begin_late(argv);
	puts("# emulated, not hardware");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup_sticky, close_gpu);
#define ALL(test) tcase_add_loop_test(t, test, 0, NR_GPUS)
	ALL(goes_on_after_a_fault);
	ALL(three_faults_in_a_row);
	ALL(nothing_is_left_here);
	ALL(two_devices);
	ALL(apart_from_the_start);
	ALL(apart_or_not_at_all);
	ALL(no_program);
	ALL(another_program);
	ALL(another_device);
	tcase_add_loop_test(t, another_part, 0, 2 * NR_GPUS);
	ALL(failures_there);
	tcase_add_test(t, plug_in);
	ALL(two_libraries);
	ALL(errors_there);
	ALL(one_at_a_time);
	tcase_add_test(t, gauges_there);
	ALL(submitted_there);
	ALL(polled_by_another);
	ALL(told_why);
	ALL(submitted_before_a_reset);
	ALL(killed_while_idle);
	ALL(asked_to_end);
	ALL(killed_at_the_gate);
	ALL(reset_at_the_gate);
	ALL(killed_while_copying);
	ALL(dies_of_one);
	ALL(dies_of_one_submitted);
	ALL(dies_before_one);
	ALL(dies_before_another);
	ALL(written_over_at_the_gate);
	ALL(written_over_before_a_call);
	ALL(nonsense_is_answered);
	ALL(ends_with_us);
	ALL(behind_one_that_fails);
	ALL(has_no_descriptor_of_ours);
	ALL(copies_of_private_memory);
	ALL(copies_of_buffers);
	ALL(registered_again);
	ALL(registered_until_it_is_unmapped);
	ALL(registered_for_two);
	ALL(registered_by_one_that_is_closed);
	ALL(pages_that_are_gone);
	ALL(taken_away_while_it_moves);
	ALL(taken_away_when_it_was_there);
	ALL(never_begins);
	ALL(killed_as_it_begins);
	ALL(never_ends);
	ALL(killed_and_never_ends);
	ALL(never_lets_go);
	ALL(never_maps);
	ALL(no_descriptors);
	ALL(more_calls_than_channels);
	ALL(reset_without_descriptors);
	ALL(reset_with_few_descriptors);
	ALL(reset_without_threads_there);
	/* Five seconds of waiting. */
	tcase_add_loop_test(t, reset_with_a_late_child, 0, 1);
	ALL(apart_when_it_can_be);
	ALL(apart_after_some_failures);
	ALL(apart_without_a_program);
	tcase_add_test(t, host_map);
	ALL(faults_among_threads);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
