// SPDX-License-Identifier: MIT
/*
 * Every allocation of every call fails once: the call must say so, and leave
 * nothing behind.  Needs a kernel with fault injection (scripts/kernel-build);
 * the guest's runner finds what leaks or warns.
 *
 * A scenario is a row of calls.  It runs again and again: with the first allocation of
 * its first call failing, the second, and so on until the call comes through whole; then
 * the same for the next call.  Prints TAP, a test a scenario, and one that no call of the
 * module is in none.
 */
#include "common.h"
#include "selftests/qemu/borrower/borrower.h"

static int nth_fd = -1;
static int target, step;	/* the call to fail, and the one that comes next */
static int nth;			/* which allocation of it; 0: it has */

/* Shared with the children: how many faults have fired in which call. */
static unsigned int *fired;

static bool nth_begin(void)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", nth);

	if (step++ != target)
		return false;
	CHECK(pwrite(nth_fd, text, n, 0) == n);
	return true;
}

static void nth_end(int nr, bool armed)
{
	char text[16] = "";
	int err = errno;

	if (!armed)
		return;
	/*
	 * Reading and disarming copy too, and may be what fails: then the call
	 * before was spared.
	 */
	if (pread(nth_fd, text, sizeof(text) - 1, 0) > 0)
		nth = atoi(text);
	else
		nth = 1;
	if (pwrite(nth_fd, "0", 1, 0) != 1)
		CHECK(errno == EFAULT);
	if (!nth)
		fired[nr]++;
	errno = err;
}

/* A call that may fail, and if it does only for our sake: then the run ends. */
#define TRY(nr, call, bad) ({ \
	bool try_armed = nth_begin(); \
	__typeof__(call) try_ret = (call); \
	nth_end(nr, try_armed); \
	if (try_ret == (bad)) { \
		CHECK(try_armed && !nth); \
		_exit(PASS); \
	} \
	try_ret; \
})
#define NOT_OURS	0	/* as a number: a call of the system's */
#define TRY_IOCTL(fd, NR, arg) \
	((arg)->size = sizeof(*(arg)), TRY(ARAX_NR_##NR, ioctl(fd, ARAX_IOC_##NR, arg), -1))
#define TRY_MAP(...)	TRY(NOT_OURS, mmap(NULL, __VA_ARGS__), MAP_FAILED)
#define TRY_OPEN(node)	TRY(NOT_OURS, open(node, O_RDWR | O_CLOEXEC), -1)

static void run_context(void)
{
	struct arax_context_init i = { .depth = 16, .entry_size = 128, .arena_size = PAGE,
				       .ring_fd = -1, .wake_fd = -1 };
	struct arax_usage u = { .scope = ARAX_USAGE_TENANT };
	struct arax_info n = { 0 };
	int fd = TRY_OPEN("/dev/arax");

	TRY_IOCTL(fd, INFO, &n);
	TRY_IOCTL(fd, CONTEXT_INIT, &i);
	TRY_MAP(i.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRY_IOCTL(fd, USAGE_QUERY, &u);
}

/* From here on contexts are made without faults: they have had theirs. */
static int context(void)
{
	struct client c;

	client_open(&c);
	return c.fd;
}

static void run_buffer(void)
{
	struct arax_buffer_create b = { .bytes = 8 * PAGE, .fd = -1 };
	struct arax_buffer_query q = { 0 };
	struct arax_handle h;
	int fd = context();

	TRY_IOCTL(fd, BUFFER_CREATE, &b);
	TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, b.map_offset);
	q.handle = b.handle;
	TRY_IOCTL(fd, BUFFER_QUERY, &q);
	h.handle = b.handle;
	TRY_IOCTL(fd, BUFFER_REVOKE, &h);
	TRY_IOCTL(fd, BUFFER_DESTROY, &h);
}

static void run_share(void)
{
	int fd = context(), type;
	struct arax_buffer_create b = make_buffer(fd, 8 * PAGE);
	struct arax_buffer_export e;
	struct arax_buffer_import m;

	for (type = 0; type < 2; type++) {
		e = (struct arax_buffer_export){ .handle = b.handle, .type = type };
		TRY_IOCTL(fd, BUFFER_EXPORT, &e);
		m = (struct arax_buffer_import){
			.type = type ? ARAX_IMPORT_DMABUF : ARAX_IMPORT_ARAX, .fd = e.fd };
		TRY_IOCTL(fd, BUFFER_IMPORT, &m);
		TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e.fd, 0);
		TRY_MAP(b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
	}
}

/* Another driver's calls.  Not its vmap: dma_buf_vmap() warns of one that fails. */
static void run_borrow(void)
{
	struct arax_buffer_create b;
	int fd = context(), lent, d;

	b = make_buffer(fd, 8 * PAGE);
	lent = export_buffer(fd, b.handle, ARAX_EXPORT_DMABUF);
	d = open("/dev/borrower", O_RDWR | O_CLOEXEC);
	CHECK(lent >= 0 && d >= 0);
	TRY(NOT_OURS, ioctl(d, BORROW_ATTACH, lent), -1);
	TRY(NOT_OURS, ioctl(d, BORROW_MAP, 0), -1);
}

static void run_import(void)
{
	struct udmabuf_create u = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 8 * PAGE };
	struct arax_buffer_import m;
	int fd = context(), memfd, dev, dma;

	memfd = memfd_create("m", MFD_ALLOW_SEALING);
	CHECK(memfd >= 0 && !ftruncate(memfd, 8 * PAGE));
	CHECK(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	m = (struct arax_buffer_import){ .type = ARAX_IMPORT_MEMFD, .fd = memfd };
	TRY_IOCTL(fd, BUFFER_IMPORT, &m);
	TRY_MAP(m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
	dev = open("/dev/udmabuf", O_RDWR);
	if (dev < 0)
		return;
	u.memfd = memfd;
	dma = ioctl(dev, UDMABUF_CREATE, &u);
	CHECK(dma >= 0);
	m = (struct arax_buffer_import){ .type = ARAX_IMPORT_DMABUF, .fd = dma };
	TRY_IOCTL(fd, BUFFER_IMPORT, &m);
	TRY_MAP(m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, m.map_offset);
}

/*
 * Own memory is pinned 256 pages at a time.  Those behind the first so many are not there
 * yet: so the second step fails in its midst, and all that is pinned is let go.
 */
static void run_own(void)
{
	struct arax_buffer_import m = { .type = ARAX_IMPORT_USER, .fd = -1, .bytes = 260 * PAGE };
	struct arax_buffer_get g = { 0 };
	struct mediator d;
	int fd = context();
	uint8_t *own;

	own = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own != MAP_FAILED);
	/* One by one, where the kernel would make huge ones. */
	madvise(own, m.bytes, MADV_NOHUGEPAGE);
	memset(own, 1, 256 * PAGE);
	m.address = (uintptr_t)own;
	TRY_IOCTL(fd, BUFFER_IMPORT, &m);
	attach(&d, 0);
	g.id = buffer_id(fd, m.handle);
	TRY_IOCTL(d.fd, BUFFER_GET, &g);
	TRY_MAP(g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
}

static void run_timeline(void)
{
	struct arax_timeline_create t = { 0 };
	struct arax_timeline_share s = { 0 };
	struct arax_timeline_eventfd e = { .value = 1 };
	struct arax_timeline_point p = { .value = 1 };
	struct arax_wait w = { .count = 1 };
	struct arax_handle h;
	int fd = context();

	TRY_IOCTL(fd, TIMELINE_CREATE, &t);
	s.handle = t.handle;
	TRY_IOCTL(fd, TIMELINE_EXPORT, &s);
	TRY_IOCTL(fd, TIMELINE_IMPORT, &s);
	e.handle = t.handle;
	e.fd = eventfd(0, 0);
	TRY_IOCTL(fd, TIMELINE_EVENTFD, &e);
	p.handle = s.handle;
	TRY_IOCTL(fd, TIMELINE_ADVANCE, &p);
	TRY_IOCTL(fd, TIMELINE_QUERY, &p);
	w.points[0].timeline = t.handle;
	w.points[0].value = 1;
	TRY_IOCTL(fd, WAIT, &w);
	h.handle = t.handle;
	TRY_IOCTL(fd, TIMELINE_DESTROY, &h);
}

/* Ranges beyond the inline ones make the core allocate; a failed task is told. */
static void run_submit(void)
{
	struct arax_queue_create q = { 0 };
	struct arax_submit s = { .to_submit = 1 };
	struct arax_cancel k = { .user_data = 5 };
	struct arax_buffer_create b;
	struct arax_task_ext *x;
	struct arax_handle h;
	struct arax_range *r;
	struct arax_task *t;
	struct client c;
	int i;

	client_open(&c);
	b = make_buffer(c.fd, 8 * PAGE);
	TRY_IOCTL(c.fd, QUEUE_CREATE, &q);
	x = (void *)(c.region + c.init.arena_offset);
	r = (void *)(x + 1);
	*x = (struct arax_task_ext){ .size = sizeof(*x), .nr_ranges = 20 };
	for (i = 0; i < 20; i++)
		r[i] = (struct arax_range){ .buffer = b.handle, .access = ARAX_IN,
					    .length = 16, .count = 1 };
	t = (void *)(c.region + c.init.sq_offset);
	t->opcode = ARAX_OP_MARKER;
	t->flags = ARAX_TASK_EXT;
	t->queue = q.handle;
	t->user_data = 5;
	__atomic_store_n(&t->seq, 1, __ATOMIC_RELEASE);
	TRY_IOCTL(c.fd, SUBMIT, &s);
	TRY_IOCTL(c.fd, CANCEL, &k);
	h.handle = q.handle;
	TRY_IOCTL(c.fd, QUEUE_DESTROY, &h);
}

/* Attaches with a fault; who died just now may still be on its way. */
static int try_attach(int ctl, struct arax_attach *a)
{
	bool armed = nth_begin();
	int ret;

	a->size = sizeof(*a);
	do {
		ret = ioctl(ctl, ARAX_IOC_ATTACH, a);
	} while (ret && errno == EBUSY && !usleep(1000));
	nth_end(ARAX_NR_ATTACH, armed);
	CHECK(!ret || (armed && !nth));
	return ret;
}

static void run_mediator(void)
{
	struct arax_buffer_get g = { 0 };
	struct arax_fetch f = { .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_charge h = { .resource = ARAX_RES_MEMORY, .delta = PAGE };
	struct arax_task_why why = { .text = "because" };
	struct arax_tenants_tell told = { .count = 1 };
	struct arax_commit co = { .count = 1 };
	const struct arax_dispatch *d;
	struct arax_buffer_create b;
	struct mediator m = { 0 };
	struct client c;

	client_open(&c);
	b = make_buffer(c.fd, 4 * PAGE);
	m.fd = TRY_OPEN("/dev/arax-ctl");
	if (try_attach(m.fd, &m.at))
		_exit(PASS);
	m.ring = TRY_MAP(m.at.dispatch_bytes, PROT_READ, MAP_SHARED, m.fd, m.at.dispatch_offset);
	m.shared = TRY_MAP(m.at.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd,
			   m.at.shared_offset);
	m.page = (void *)m.shared;
	push_marker(&c, 1, 0);
	CHECK(!submit(&c, 1, 0, 0));
	TRY_IOCTL(m.fd, FETCH, &f);
	d = next_entry(&m);
	CHECK(f.ready && d);
	why.tag = d->tag;
	TRY_IOCTL(m.fd, TASK_EXPLAIN, &why);
	*(struct arax_commit_entry *)(m.shared + m.page->commits_offset) =
		(struct arax_commit_entry){ .tag = d->tag };
	TRY_IOCTL(m.fd, COMMIT, &co);
	CHECK(co.done == 1 && !co.stale);
	TRY_IOCTL(c.fd, TASK_WHY, &why);
	g.id = buffer_id(c.fd, b.handle);
	TRY_IOCTL(m.fd, BUFFER_GET, &g);
	TRY_MAP(g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	h.context = c.init.context;
	TRY_IOCTL(m.fd, CHARGE, &h);
	TRY_IOCTL(m.fd, TENANTS_TELL, &told);
	CHECK(told.unknown == 1);
}

static void dies_with_a_task(void *arg)
{
	struct client *c = arg;
	struct mediator m;

	close(c->fd);
	attach(&m, 0);
	while (!next_entry(&m))
		usleep(1000);
}

/* Whoever comes after a dead one and fails at it leaves what is queued to the next try. */
static void run_recovery(void)
{
	struct arax_attach a = { .flags = ARAX_ATTACH_RECOVER };
	const struct arax_dispatch *d;
	struct arax_completion *e;
	struct mediator m = { 0 };
	struct client c;
	pid_t pid;
	int ctl;

	client_open(&c);
	push_marker(&c, 7, 0);
	pid = in_child(dies_with_a_task, &c);
	/* Once it is there: an attach that doesn't recover fails what is queued. */
	while (!__atomic_load_n(&c.ctl->epoch, __ATOMIC_ACQUIRE))
		usleep(1000);
	CHECK(!submit(&c, 1, 0, 0));
	CHECK(child_passed(pid));
	ctl = ctl_node();
	try_attach(ctl, &a);
	/* The first may have the seat without knowing: a bad address came after it. */
	close(ctl);
	attach(&m, ARAX_ATTACH_RECOVER);
	d = next_entry(&m);
	CHECK(d && d->user_data == 7);
	CHECK(!commit_one(&m, d->tag, 0, NULL));
	e = pop(&c);
	CHECK(e && e->user_data == 7 && !e->result);
}

/* Who takes over and has no memory for it leaves the seat to whom it found there. */
static void run_takeover(void)
{
	struct arax_attach a = { .flags = ARAX_ATTACH_TAKEOVER };
	struct arax_fetch f = { .size = sizeof(f) };
	struct mediator old;
	int ctl, err, seat;

	attach(&old, 0);
	ctl = ctl_node();
	err = try_attach(ctl, &a) ? errno : 0;
	seat = ioctl(old.fd, ARAX_IOC_FETCH, &f) ? errno : 0;
	/* A bad address comes before it, or after. */
	CHECK(err == EFAULT || seat == (err ? 0 : ESTALE));
}

static void run_catalogue(void)
{
	struct arax_kernel_publish k = { .kinds = 1, .name = "fail-nth" };
	struct arax_kernel_lookup l = { .name = "fail-nth" };
	struct arax_device v = { .name = "fail-nth" }, q = { 0 };
	struct mediator m;
	int fd = context();

	attach(&m, 0);
	TRY_IOCTL(m.fd, DEVICE_PUBLISH, &v);
	TRY_IOCTL(m.fd, KERNEL_PUBLISH, &k);
	TRY_IOCTL(fd, DEVICE_QUERY, &q);
	TRY_IOCTL(fd, KERNEL_LOOKUP, &l);
	CHECK(l.id == k.id);
}

static void run_administrator(void)
{
	struct arax_limit l = { .what = ARAX_SET_WEIGHT, .value = 50 };
	struct arax_tenant t = { 0 };
	struct arax_context x = { 0 };
	struct arax_info n = { 0 };
	struct arax_kill k = { 0 };
	int ctl = TRY_OPEN("/dev/arax-ctl"), dir;
	struct client c;

	client_open(&c);
	dir = open("/sys/fs/cgroup/arax-nth", O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	l.cgroup_fd = dir;
	t.cgroup_fd = dir;
	TRY_IOCTL(ctl, INFO, &n);
	TRY_IOCTL(ctl, TENANT_QUERY, &t);
	TRY_IOCTL(ctl, LIMIT_SET, &l);
	l.value = 100;
	TRY_IOCTL(ctl, LIMIT_SET, &l);
	x.id = c.init.context;
	TRY_IOCTL(ctl, CONTEXT_QUERY, &x);
	k.context = c.init.context;
	TRY_IOCTL(ctl, CONTEXT_KILL, &k);
}

static const struct {
	const char *name;
	void (*fn)(void);
} scenarios[] = {
	{ "context", run_context },
	{ "buffer", run_buffer },
	{ "export and import", run_share },
	{ "mapping for a device", run_borrow },
	{ "import of foreign memory", run_import },
	{ "import of own memory", run_own },
	{ "timeline", run_timeline },
	{ "submit", run_submit },
	{ "mediator", run_mediator },
	{ "recovery", run_recovery },
	{ "takeover", run_takeover },
	{ "catalogue", run_catalogue },
	{ "administrator", run_administrator },
};

#define COUNT (sizeof(scenarios) / sizeof(scenarios[0]))
/* Exit statuses of runs in which no fault fired. */
#define WHOLE	9	/* the call did not do so much */
#define BEYOND	10	/* there are not so many calls */

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

static void run(int which)
{
	alarm(30);
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	CHECK(nth_fd >= 0);
	scenarios[which].fn();
	_exit(step <= target ? BEYOND : nth ? WHOLE : PASS);
}

/* With the fault that is set; returns the exit status, or -1. */
static int run_once(int which, int ctl)
{
	int status, how;
	pid_t pid = fork();

	if (!pid)
		run(which);
	CHECK(waitpid(pid, &status, 0) == pid);
	how = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (how != PASS && how != WHOLE && how != BEYOND) {
		printf("# call %d, fault %d: status %#x\n", target + 1, nth, status);
		return -1;
	}
	if (!settles_to(ctl, 0)) {
		printf("# call %d, fault %d: %llu bytes stay charged\n", target + 1, nth,
		       (unsigned long long)all_memory(ctl));
		return -1;
	}
	return how;
}

/* Runs one scenario to its end; returns how many faults it took, or -1. */
static int sweep(int which, int ctl)
{
	int how = PASS, faults = 0, whole;

	for (target = 0; how != BEYOND; target++) {
		/* Twice: how many pages the slabs take differs from run to run. */
		for (nth = 1, whole = 0; whole < 2 && how != BEYOND; nth++) {
			how = run_once(which, ctl);
			if (how < 0)
				return -1;
			whole += how == WHOLE;
			faults += how == PASS;
			if (nth == 2000) {
				printf("# call %d: no end\n", target + 1);
				return -1;
			}
		}
	}
	return faults;
}

/*
 * Each call that the module offers must have failed at its copies, at least, in and out:
 * one that is in no scenario is named.  The module itself says which there are.
 */
static bool every_call(int ctl)
{
	int fd = client_node(), nr;
	bool all = true;

	for (nr = 1; nr < 256; nr++) {
		unsigned long cmd = _IOC(_IOC_READ | _IOC_WRITE, ARAX_IOC_TYPE, nr, 0);
		bool offered = false;

		/* A null pointer is a bad address where there is a call to read it. */
		if (ioctl(fd, cmd, NULL) && errno != ENOTTY)
			offered = true;
		if (ioctl(ctl, cmd, NULL) && errno != ENOTTY)
			offered = true;
		if (offered && fired[nr] < 2) {
			printf("# call %#x: %u faults; it is in no scenario\n", nr, fired[nr]);
			all = false;
		}
	}
	close(fd);
	return all;
}

int main(void)
{
	int ctl, n, failed = 0;
	unsigned int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..%zu\n", COUNT + 1);
	if (access("/proc/thread-self/fail-nth", W_OK)) {
		for (i = 0; i <= COUNT; i++)
			printf("ok %u %s # SKIP the kernel has no fault injection\n", i + 1,
			       i < COUNT ? scenarios[i].name : "every call");
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
	fired = mmap(NULL, 256 * sizeof(*fired), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(fired != MAP_FAILED);
	ctl = ctl_node();
	for (i = 0; i < COUNT; i++) {
		n = sweep(i, ctl);
		/* A scenario without a single fault tests nothing. */
		if (n < 1)
			failed++;
		printf("%sok %u %s # %d faults\n", n < 1 ? "not " : "", i + 1,
		       scenarios[i].name, n);
	}
	if (!every_call(ctl)) {
		failed++;
		printf("not ");
	}
	printf("ok %zu every call\n", COUNT + 1);
	rmdir("/sys/fs/cgroup/arax-nth");
	return failed ? 1 : 0;
}
