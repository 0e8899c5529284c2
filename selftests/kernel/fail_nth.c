// SPDX-License-Identifier: MIT
/*
 * Every allocation of every call fails once: the call must say so, and leave
 * nothing behind.  Needs a kernel with fault injection (scripts/kernel-build);
 * the guest's runner finds what leaks or warns.
 *
 * A scenario runs again and again, each time with the next allocation failing,
 * until a run comes through whole.  Prints TAP, a test a scenario.
 */
#include "common.h"

static int nth_fd = -1;
static int nth;			/* the allocation to fail, from here on; 0: it has */

static void nth_begin(void)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", nth);

	if (nth)
		CHECK(pwrite(nth_fd, text, n, 0) == n);
}

static void nth_end(void)
{
	char text[16] = "";
	int err = errno;

	if (!nth)
		return;
	/*
	 * Reading and disarming copy too, and may be what fails: then the call
	 * before was spared, and one fault is left.
	 */
	if (pread(nth_fd, text, sizeof(text) - 1, 0) > 0)
		nth = atoi(text);
	else
		nth = 1;
	if (pwrite(nth_fd, "0", 1, 0) != 1)
		CHECK(errno == EFAULT);
	errno = err;
}

/* A call that may fail, and if it does only for our sake: then the run ends. */
#define TRY(call, bad) ({ \
	nth_begin(); \
	__typeof__(call) try_ret = (call); \
	nth_end(); \
	if (try_ret == (bad)) { \
		CHECK(!nth); \
		_exit(PASS); \
	} \
	try_ret; \
})
#define TRY_IOCTL(fd, cmd, arg) \
	((arg)->size = sizeof(*(arg)), TRY(ioctl(fd, cmd, arg), -1))
#define TRY_MAP(...)	TRY(mmap(NULL, __VA_ARGS__), MAP_FAILED)

static int try_context(struct arax_context_init *i)
{
	int fd = TRY(open("/dev/arax", O_RDWR | O_CLOEXEC), -1);

	*i = (struct arax_context_init){ .depth = 16, .entry_size = 128, .arena_size = PAGE,
					 .ring_fd = -1, .wake_fd = -1 };
	TRY_IOCTL(fd, ARAX_IOC_CONTEXT_INIT, i);
	return fd;
}

static void run_context(void)
{
	struct arax_context_init i;
	int fd = try_context(&i);

	TRY_MAP(i.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void run_buffer(void)
{
	struct arax_context_init i;
	struct arax_buffer_create b = { .bytes = 8 * PAGE, .fd = -1 };
	struct arax_handle h;
	int fd = try_context(&i);

	TRY_IOCTL(fd, ARAX_IOC_BUFFER_CREATE, &b);
	TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, b.map_offset);
	h.handle = b.handle;
	TRY_IOCTL(fd, ARAX_IOC_BUFFER_REVOKE, &h);
	TRY_IOCTL(fd, ARAX_IOC_BUFFER_DESTROY, &h);
}

static void run_share(void)
{
	struct arax_buffer_create b = { .bytes = 8 * PAGE, .fd = -1 };
	struct arax_buffer_export e = { 0 };
	struct arax_buffer_import m = { 0 };
	struct arax_context_init i;
	int fd = try_context(&i), type;

	TRY_IOCTL(fd, ARAX_IOC_BUFFER_CREATE, &b);
	for (type = 0; type < 2; type++) {
		e = (struct arax_buffer_export){ .handle = b.handle, .type = type };
		TRY_IOCTL(fd, ARAX_IOC_BUFFER_EXPORT, &e);
		m = (struct arax_buffer_import){
			.type = type ? ARAX_IMPORT_DMABUF : ARAX_IMPORT_ARAX, .fd = e.fd };
		TRY_IOCTL(fd, ARAX_IOC_BUFFER_IMPORT, &m);
		TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
		TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
	}
}

static void run_import(void)
{
	struct udmabuf_create u = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 8 * PAGE };
	struct arax_buffer_import m;
	struct arax_context_init i;
	int fd = try_context(&i), memfd, dev, dma;

	memfd = memfd_create("m", MFD_ALLOW_SEALING);
	CHECK(memfd >= 0 && !ftruncate(memfd, 8 * PAGE));
	CHECK(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	m = (struct arax_buffer_import){ .type = ARAX_IMPORT_MEMFD, .fd = memfd };
	TRY_IOCTL(fd, ARAX_IOC_BUFFER_IMPORT, &m);
	TRY_MAP(m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
	dev = open("/dev/udmabuf", O_RDWR);
	if (dev < 0)
		return;
	u.memfd = memfd;
	dma = ioctl(dev, UDMABUF_CREATE, &u);
	CHECK(dma >= 0);
	m = (struct arax_buffer_import){ .type = ARAX_IMPORT_DMABUF, .fd = dma };
	TRY_IOCTL(fd, ARAX_IOC_BUFFER_IMPORT, &m);
	TRY_MAP(m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
}

static void run_timeline(void)
{
	struct arax_timeline_create t = { 0 };
	struct arax_timeline_share s = { 0 };
	struct arax_timeline_eventfd e = { .value = 1 };
	struct arax_timeline_point p = { .value = 1 };
	struct arax_wait w = { .count = 1 };
	struct arax_context_init i;
	int fd = try_context(&i);

	TRY_IOCTL(fd, ARAX_IOC_TIMELINE_CREATE, &t);
	s.handle = t.handle;
	TRY_IOCTL(fd, ARAX_IOC_TIMELINE_EXPORT, &s);
	TRY_IOCTL(fd, ARAX_IOC_TIMELINE_IMPORT, &s);
	e.handle = t.handle;
	e.fd = eventfd(0, 0);
	TRY_IOCTL(fd, ARAX_IOC_TIMELINE_EVENTFD, &e);
	p.handle = s.handle;
	TRY_IOCTL(fd, ARAX_IOC_TIMELINE_ADVANCE, &p);
	w.points[0].timeline = t.handle;
	w.points[0].value = 1;
	TRY_IOCTL(fd, ARAX_IOC_WAIT, &w);
}

/* Ranges beyond the inline ones make the core allocate; a failed task is told. */
static void run_submit(void)
{
	struct arax_buffer_create b = { .bytes = 8 * PAGE, .fd = -1 };
	struct arax_queue_create q = { 0 };
	struct arax_submit s = { .to_submit = 1 };
	struct arax_context_init i;
	struct arax_task_ext *x;
	struct arax_range *r;
	struct arax_task *t;
	uint8_t *region;
	int fd = try_context(&i), k;

	region = TRY_MAP(i.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRY_IOCTL(fd, ARAX_IOC_BUFFER_CREATE, &b);
	TRY_IOCTL(fd, ARAX_IOC_QUEUE_CREATE, &q);
	x = (void *)(region + i.arena_offset);
	r = (void *)(x + 1);
	*x = (struct arax_task_ext){ .size = sizeof(*x), .nr_ranges = 20 };
	for (k = 0; k < 20; k++)
		r[k] = (struct arax_range){ .buffer = b.handle, .access = ARAX_IN,
					    .length = 16, .count = 1 };
	t = (void *)(region + i.sq_offset);
	t->opcode = ARAX_OP_MARKER;
	t->flags = ARAX_TASK_EXT;
	t->queue = q.handle;
	__atomic_store_n(&t->seq, 1, __ATOMIC_RELEASE);
	TRY_IOCTL(fd, ARAX_IOC_SUBMIT, &s);
}

static void run_mediator(void)
{
	struct arax_buffer_create b = { .bytes = 4 * PAGE, .fd = -1 };
	struct arax_buffer_get g = { 0 };
	struct arax_attach a = { 0 };
	struct arax_context_init i;
	int fd = try_context(&i), ctl, n;

	TRY_IOCTL(fd, ARAX_IOC_BUFFER_CREATE, &b);
	ctl = TRY(open("/dev/arax-ctl", O_RDWR | O_CLOEXEC), -1);
	a.size = sizeof(a);
	for (n = 0; n < 200; n++) {
		nth_begin();
again:
		if (!ioctl(ctl, ARAX_IOC_ATTACH, &a)) {
			nth_end();
			break;
		}
		if (errno == EBUSY) {
			usleep(1000);
			goto again;
		}
		nth_end();
		CHECK(!nth);
		_exit(PASS);
	}
	TRY_MAP(a.dispatch_bytes, PROT_READ, MAP_SHARED, ctl, a.dispatch_offset);
	TRY_MAP(a.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ctl, a.shared_offset);
	g.id = buffer_id(fd, b.handle);
	TRY_IOCTL(ctl, ARAX_IOC_BUFFER_GET, &g);
	TRY_MAP(g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
}

static void run_tenant(void)
{
	struct arax_limit l = { .what = ARAX_SET_WEIGHT, .value = 50 };
	struct arax_tenant t = { 0 };
	int ctl = TRY(open("/dev/arax-ctl", O_RDWR | O_CLOEXEC), -1);
	int dir = open("/sys/fs/cgroup/arax-nth", O_RDONLY | O_DIRECTORY);

	CHECK(dir >= 0);
	l.cgroup_fd = dir;
	t.cgroup_fd = dir;
	TRY_IOCTL(ctl, ARAX_IOC_TENANT_QUERY, &t);
	TRY_IOCTL(ctl, ARAX_IOC_LIMIT_SET, &l);
	l.value = 100;
	TRY_IOCTL(ctl, ARAX_IOC_LIMIT_SET, &l);
}

static const struct {
	const char *name;
	void (*fn)(void);
} scenarios[] = {
	{ "context", run_context },
	{ "buffer", run_buffer },
	{ "export and import", run_share },
	{ "import of foreign memory", run_import },
	{ "timeline", run_timeline },
	{ "submit", run_submit },
	{ "mediator", run_mediator },
	{ "tenant", run_tenant },
};

#define COUNT (sizeof(scenarios) / sizeof(scenarios[0]))
#define WHOLE	9	/* exit status of a run in which no fault fired */

static void set(const char *file, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	fd = open(path, O_WRONLY);
	if (fd >= 0) {
		CHECK(write(fd, value, strlen(value)) > 0);
		close(fd);
	}
}

/* Runs one scenario to its end; returns how many faults it took, or -1. */
static int sweep(int which, int ctl)
{
	int n, status;
	pid_t pid;

	for (n = 1; n < 5000; n++) {
		pid = fork();
		if (!pid) {
			alarm(30);
			nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
			CHECK(nth_fd >= 0);
			nth = n;
			scenarios[which].fn();
			_exit(nth ? WHOLE : PASS);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		if (!WIFEXITED(status) ||
		    (WEXITSTATUS(status) != PASS && WEXITSTATUS(status) != WHOLE)) {
			printf("# fault %d: status %#x\n", n, status);
			return -1;
		}
		if (!settles_to(ctl, 0)) {
			printf("# fault %d: %llu bytes stay charged\n", n,
			       (unsigned long long)all_memory(ctl));
			return -1;
		}
		if (WEXITSTATUS(status) == WHOLE)
			return n - 1;
	}
	printf("# no end\n");
	return -1;
}

int main(void)
{
	int ctl, n, failed = 0;
	unsigned int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..%zu\n", COUNT);
	if (access("/proc/thread-self/fail-nth", W_OK)) {
		for (i = 0; i < COUNT; i++)
			printf("ok %u %s # SKIP the kernel has no fault injection\n", i + 1,
			       scenarios[i].name);
		return 0;
	}
	set("failslab/ignore-gfp-wait", "N");
	set("failslab/verbose", "0");
	set("fail_page_alloc/ignore-gfp-wait", "N");
	set("fail_page_alloc/ignore-gfp-highmem", "N");
	set("fail_page_alloc/min-order", "0");
	set("fail_page_alloc/verbose", "0");
	set("fail_usercopy/verbose", "0");
	mkdir("/sys/fs/cgroup/arax-nth", 0755);
	ctl = ctl_node();
	for (i = 0; i < COUNT; i++) {
		n = sweep(i, ctl);
		/* A scenario without a single fault tests nothing. */
		if (n < 1)
			failed++;
		printf("%sok %u %s # %d faults\n", n < 1 ? "not " : "", i + 1,
		       scenarios[i].name, n);
	}
	rmdir("/sys/fs/cgroup/arax-nth");
	return failed ? 1 : 0;
}
