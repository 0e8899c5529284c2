// SPDX-License-Identifier: MIT
/*
 * Does the module do what the contract says?  One look at everything that the
 * kernel's half adds to the core: nodes, calls, mappings, descriptors, seats.
 * Each test runs in a process of its own, with the module loaded, as root.
 * Prints TAP; built static, for a guest that has nothing.
 */
#include <limits.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sys/syscall.h>

#include "common.h"

/* ------------------------------------------------------------------ */
/* Nodes and calls                                                     */

static void test_nodes(void)
{
	struct stat s;

	CHECK(!stat("/dev/arax", &s) && S_ISCHR(s.st_mode) && (s.st_mode & 0777) == 0666);
	CHECK(!stat("/dev/arax-ctl", &s) && S_ISCHR(s.st_mode) && (s.st_mode & 0777) == 0600);
}

static void test_info(void)
{
	struct arax_info i = { .size = sizeof(i) };
	int fd = client_node(), ctl = ctl_node();

	CHECK(!ioctl(fd, ARAX_IOC_INFO, &i));
	CHECK(i.size == sizeof(i) && i.abi_version == ARAX_ABI_VERSION);
	CHECK(i.link == ARAX_LINK_KERNEL && i.page_size == PAGE);
	CHECK((i.guarantees & (ARAX_GUAR_SURVIVES_DAEMON | ARAX_GUAR_CHARGED_MAPS |
			       ARAX_GUAR_PINNED | ARAX_GUAR_CGROUP_TENANT)) ==
	      (ARAX_GUAR_SURVIVES_DAEMON | ARAX_GUAR_CHARGED_MAPS | ARAX_GUAR_PINNED |
	       ARAX_GUAR_CGROUP_TENANT));
	CHECK(!ioctl(ctl, ARAX_IOC_INFO, &i));
}

static void test_dispatch(void)
{
	struct {
		struct arax_info info;
		uint64_t tail;
	} big = { .info.size = sizeof(big) };
	struct arax_handle h = { .size = sizeof(h), .handle = 1 };
	struct arax_submit s = { .size = sizeof(s) };
	int fd = client_node(), ctl = ctl_node();
	uint8_t *page;

	CHECK_ERR(ioctl(fd, _IOWR(ARAX_IOC_TYPE, 0x7f, struct arax_info), &big), ENOTTY);
	CHECK_ERR(ioctl(fd, _IOWR(ARAX_IOC_TYPE, 0xff, struct arax_info), &big), ENOTTY);
	CHECK_ERR(ioctl(fd, _IOWR(0xBB, ARAX_NR_INFO, struct arax_info), &big), ENOTTY);
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &big), ENOTTY);
	CHECK_ERR(ioctl(ctl, ARAX_IOC_SUBMIT, &s), ENOTTY);
	/* The number alone selects, whatever the size bits say. */
	CHECK(!ioctl(fd, _IOC(_IOC_NONE, ARAX_IOC_TYPE, ARAX_NR_INFO, 0), &big.info));
	/* A longer struct, its tail zero or not. */
	CHECK(!ioctl(fd, ARAX_IOC_INFO, &big) && big.info.size == sizeof(big));
	big.tail = 1;
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, &big), E2BIG);
	big.info.size = 1u << 20;
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, &big), E2BIG);
	big.info.size = 3;
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, &big), EINVAL);
	big.info.size = 0;
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, &big), EINVAL);
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, NULL), EFAULT);
	/* A struct that ends in a page that is not there. */
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && !munmap(page + PAGE, PAGE));
	*(uint32_t *)(page + PAGE - 8) = sizeof(struct arax_info);
	CHECK_ERR(ioctl(fd, ARAX_IOC_INFO, page + PAGE - 8), EFAULT);
	/* Before there is a context. */
	CHECK_ERR(ioctl(fd, ARAX_IOC_SUBMIT, &s), ENXIO);
	CHECK_ERR(ioctl(fd, ARAX_IOC_BUFFER_DESTROY, &h), ENXIO);
}

static void test_context(void)
{
	struct arax_context_init bad;
	struct client c;
	int fd;

	client_open(&c);
	CHECK(c.init.context && c.init.region_size % PAGE == 0);
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_CONTEXT_INIT, &c.init), EBUSY);
	fd = client_node();
	bad = (struct arax_context_init){ .size = sizeof(bad), .depth = 16, .entry_size = 128,
					  .ring_fd = 0, .wake_fd = -1 };
	CHECK_ERR(ioctl(fd, ARAX_IOC_CONTEXT_INIT, &bad), EINVAL);
	bad.ring_fd = -1;
	bad.depth = 3;
	CHECK_ERR(ioctl(fd, ARAX_IOC_CONTEXT_INIT, &bad), EINVAL);
	bad.depth = 65536;
	bad.entry_size = 256;
	bad.arena_size = ARAX_MAX_ARENA;
	CHECK(!ioctl(fd, ARAX_IOC_CONTEXT_INIT, &bad));
}

static void test_region(void)
{
	struct client c;
	uint8_t *p;

	client_open(&c);
	CHECK(c.ctl->dead == 0);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, c.fd, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, c.init.region_size + PAGE, PROT_READ, MAP_SHARED, c.fd, 0) ==
	      MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, c.fd, PAGE) == MAP_FAILED &&
	      errno == EINVAL);
	/* Nobody takes pages from below the core. */
	CHECK_ERR(madvise(c.region, PAGE, MADV_REMOVE), EOPNOTSUPP);
	CHECK(mremap(c.region, c.init.region_size, 2 * c.init.region_size, MREMAP_MAYMOVE) ==
	      MAP_FAILED);
	/* The region outlives the file for whoever still maps it. */
	CHECK(!close(c.fd));
	p = c.region;
	p[c.init.arena_offset] = 1;
	CHECK(!munmap(p, c.init.region_size));
}

static void forked(void *arg)
{
	struct client *c = arg;
	struct arax_info i = { .size = sizeof(i) };
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	CHECK_ERR(ioctl(c->fd, ARAX_IOC_INFO, &i), EPERM);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, c->fd, 0) == MAP_FAILED && errno == EPERM);
	CHECK(poll(&p, 1, 0) == 0);
	/* The region is not inherited. */
	CHECK_ERR(msync((void *)c->region, PAGE, MS_ASYNC), ENOMEM);
	CHECK(!close(c->fd));
}

static void test_fork(void)
{
	struct client c;

	client_open(&c);
	CHECK(child_passed(in_child(forked, &c)));
	push_marker(&c, 1, 0);
	CHECK(!submit(&c, 1, 0, 0));
}

/* ------------------------------------------------------------------ */
/* Buffers                                                             */

static void test_buffer(void)
{
	struct arax_usage u = { .size = sizeof(u), .scope = ARAX_USAGE_CONTEXT };
	struct arax_buffer_create b, bad = { .size = sizeof(bad), .fd = -1 };
	struct client c;
	uint64_t before;
	uint8_t *p;
	size_t i;

	client_open(&c);
	CHECK(!ioctl(c.fd, ARAX_IOC_USAGE_QUERY, &u));
	before = u.counters[ARAX_RES_MEMORY].used;
	b = make_buffer(c.fd, 3 * PAGE - 5);
	CHECK(b.bytes == 3 * PAGE && b.handle && b.map_offset);
	p = map_buffer(c.fd, &b);
	CHECK(p != MAP_FAILED);
	for (i = 0; i < b.bytes; i++)
		CHECK(!p[i]);
	p[b.bytes - 1] = 42;
	CHECK(!ioctl(c.fd, ARAX_IOC_USAGE_QUERY, &u));
	CHECK(u.counters[ARAX_RES_MEMORY].used == before + 3 * PAGE);
	CHECK_ERR(madvise(p, PAGE, MADV_REMOVE), EOPNOTSUPP);
	CHECK(mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, c.fd, b.map_offset) == MAP_FAILED);
	CHECK(!destroy_buffer(c.fd, b.handle));
	CHECK_ERR(destroy_buffer(c.fd, b.handle), EBADF);
	/* The mapping stays, but there are no new ones. */
	CHECK(p[b.bytes - 1] == 42);
	CHECK(map_buffer(c.fd, &b) == MAP_FAILED && errno == EINVAL);
	CHECK(!munmap(p, b.bytes));
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &bad), EINVAL);
	bad.bytes = PAGE;
	bad.fd = 0;
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &bad), EINVAL);
	bad.fd = -1;
	bad.bytes = 1ull << 47;
	CHECK(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &bad) &&
	      (errno == EDQUOT || errno == ENOMEM));
	bad.bytes = PAGE;
	bad.flags = ARAX_BUFFER_FLAGS + 1;
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &bad), EOPNOTSUPP);
}

/* Bytes count until the last mapping or descriptor is gone, not before, not after. */
static void test_charge(void)
{
	struct arax_buffer_create b;
	int ctl = ctl_node(), fd;
	struct client c;
	uint64_t before;
	void *p;

	CHECK(settles_to(ctl, 0));
	client_open(&c);
	before = all_memory(ctl);
	CHECK(before == c.init.region_size);
	b = make_buffer(c.fd, 16 * PAGE);
	p = map_buffer(c.fd, &b);
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX);
	CHECK(p != MAP_FAILED && fd >= 0);
	CHECK(!destroy_buffer(c.fd, b.handle));
	CHECK(all_memory(ctl) == before + b.bytes);
	CHECK(!close(c.fd));
	CHECK(all_memory(ctl) == before + b.bytes);
	CHECK(!munmap(c.region, c.init.region_size));
	CHECK(settles_to(ctl, b.bytes));
	CHECK(!munmap(p, b.bytes));
	CHECK(all_memory(ctl) == b.bytes);
	CHECK(!close(fd));
	CHECK(settles_to(ctl, 0));
}

static void killed_client(void *arg)
{
	struct client c;
	struct arax_buffer_create b;
	int i;

	client_open(&c);
	for (i = 0; i < 8; i++) {
		b = make_buffer(c.fd, 64 * PAGE);
		CHECK(map_buffer(c.fd, &b) != MAP_FAILED);
		CHECK(export_buffer(c.fd, b.handle, i % 2) >= 0);
	}
	CHECK(write(*(int *)arg, "", 1) == 1);
	pause();
}

static void test_client_killed(void)
{
	int p[2], ctl = ctl_node();
	char byte;
	pid_t pid;

	CHECK(settles_to(ctl, 0));
	CHECK(!pipe(p));
	pid = in_child(killed_client, &p[1]);
	CHECK(read(p[0], &byte, 1) == 1);
	CHECK(all_memory(ctl) > 8 * 64 * PAGE);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	CHECK(settles_to(ctl, 0));
}

static void importer(void *arg)
{
	struct arax_buffer_import i;
	struct client c;
	int fd = *(int *)arg;
	uint32_t *p;

	client_open(&c);
	CHECK(!import_buffer(c.fd, ARAX_IMPORT_ARAX, fd, &i));
	CHECK(i.bytes == 2 * PAGE && i.handle && i.map_offset);
	p = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, i.map_offset);
	CHECK(p != MAP_FAILED && *p == 0x1234);
	*p = 0x5678;
	/* Only its creator hands it on or takes it away. */
	CHECK_ERR(export_buffer(c.fd, i.handle, ARAX_EXPORT_ARAX), EPERM);
	struct arax_handle h = { .size = sizeof(h), .handle = i.handle };
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_REVOKE, &h), EPERM);
}

static void test_export(void)
{
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	char path[64];
	struct client c;
	uint32_t *p;
	int fd, seals;

	client_open(&c);
	b = make_buffer(c.fd, 2 * PAGE);
	p = map_buffer(c.fd, &b);
	CHECK(p != MAP_FAILED);
	*p = 0x1234;
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(child_passed(in_child(importer, &fd)));
	CHECK(*p == 0x5678);

	/* What a holder of the descriptor must not be able to do. */
	CHECK_ERR(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE),
		  EOPNOTSUPP);
	CHECK_ERR(ftruncate(fd, 0), EPERM);
	CHECK_ERR(ftruncate(fd, 4 * PAGE), EPERM);
	seals = fcntl(fd, F_GET_SEALS);
	CHECK(seals == (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW));
	CHECK_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK_ERR(open(path, O_RDWR), EACCES);

	CHECK(!import_buffer(c.fd, ARAX_IMPORT_ARAX, fd, &i));
	CHECK(buffer_id(c.fd, i.handle) == buffer_id(c.fd, b.handle));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_ARAX, c.fd, &i), EINVAL);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_ARAX, -1, &i), EBADF);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, fd, &i), EINVAL);
	CHECK_ERR(export_buffer(c.fd, b.handle, 7), EOPNOTSUPP);
	/* Once the core let it go it can't be had back. */
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX);
	b = make_buffer(c.fd, PAGE);
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX);
	CHECK(!destroy_buffer(c.fd, b.handle));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_ARAX, fd, &i), ESTALE);
}

static void export_to_bad_address(int fd, uint32_t handle)
{
	struct arax_buffer_export *e;

	/* A page that can be read and not written: the copy back fails. */
	e = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(e != MAP_FAILED);
	*e = (struct arax_buffer_export){ .size = sizeof(*e), .handle = handle };
	CHECK(!mprotect(e, PAGE, PROT_READ));
	CHECK_ERR(ioctl(fd, ARAX_IOC_BUFFER_EXPORT, e), EFAULT);
}

static void test_export_fault(void)
{
	struct arax_buffer_create b;
	struct client c;
	int next, after;

	client_open(&c);
	b = make_buffer(c.fd, PAGE);
	next = dup(0);
	CHECK(next >= 0 && !close(next));
	export_to_bad_address(c.fd, b.handle);
	after = dup(0);
	CHECK(after == next);
}

static sigjmp_buf bus;

static void on_bus(int sig)
{
	siglongjmp(bus, 1);
}

static void test_revoke(void)
{
	struct arax_handle h = { .size = sizeof(h) };
	struct arax_buffer_query q = { .size = sizeof(q) };
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	volatile uint8_t *p;
	struct client c;
	int fd, dma;

	client_open(&c);
	b = make_buffer(c.fd, 4 * PAGE);
	p = map_buffer(c.fd, &b);
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX);
	dma = export_buffer(c.fd, b.handle, ARAX_EXPORT_DMABUF);
	CHECK(p != MAP_FAILED && fd >= 0 && dma >= 0);
	p[PAGE] = 1;
	h.handle = b.handle;
	q.handle = b.handle;
	CHECK(!ioctl(c.fd, ARAX_IOC_BUFFER_REVOKE, &h));
	CHECK(!ioctl(c.fd, ARAX_IOC_BUFFER_QUERY, &q) && q.flags & ARAX_BUFFER_IS_REVOKED);
	signal(SIGBUS, on_bus);
	if (!sigsetjmp(bus, 1)) {
		p[PAGE] = 2;
		CHECK(!"no SIGBUS");
	}
	CHECK(map_buffer(c.fd, &b) == MAP_FAILED && errno == ESTALE);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_ARAX, fd, &i), ESTALE);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_DMABUF, dma, &i), ESTALE);
	CHECK_ERR(export_buffer(c.fd, b.handle, ARAX_EXPORT_ARAX), ESTALE);
	CHECK(write(fd, "x", 1) == -1);
	CHECK(!ioctl(c.fd, ARAX_IOC_BUFFER_REVOKE, &h));
	CHECK(!destroy_buffer(c.fd, b.handle));
}

static void test_memfd(void)
{
	struct arax_buffer_import i;
	struct client c;
	char path[64];
	uint32_t *p, *q;
	int fd, ro;

	client_open(&c);
	fd = memfd_create("m", MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && !ftruncate(fd, 4 * PAGE));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, fd, &i), EINVAL);	/* not sealed */
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	CHECK(ro >= 0);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, ro, &i), EACCES);
	CHECK(!import_buffer(c.fd, ARAX_IMPORT_MEMFD, fd, &i));
	CHECK(i.bytes == 4 * PAGE);
	p = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, i.map_offset);
	CHECK(p != MAP_FAILED && q != MAP_FAILED);
	p[1024] = 77;
	CHECK(q[1024] == 77);
	CHECK_ERR(export_buffer(c.fd, i.handle, ARAX_EXPORT_ARAX), EOPNOTSUPP);
	CHECK(!munmap(p, i.bytes) && !munmap(q, i.bytes));
	/* It is pinned: no seal against writing can come now. */
	CHECK_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
	CHECK(!destroy_buffer(c.fd, i.handle));
	CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, fd, &i), EINVAL);
	fd = memfd_create("odd", MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && !ftruncate(fd, 100) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, fd, &i), EINVAL);
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_MEMFD, 0, &i), EINVAL);
}

static void test_user_memory(void)
{
	struct arax_buffer_import i = { .size = sizeof(i), .type = ARAX_IMPORT_USER, .fd = -1,
					.bytes = PAGE };
	struct client c;
	void *p;

	client_open(&c);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	i.address = (uintptr_t)p;
	CHECK(!ioctl(c.fd, ARAX_IOC_BUFFER_IMPORT, &i));
	CHECK(!i.map_offset && !destroy_buffer(c.fd, i.handle));
}

static void test_dmabuf_export(void)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	int fd, ctl = ctl_node();
	uint64_t before;
	struct client c;
	uint32_t *p, *q;

	client_open(&c);
	b = make_buffer(c.fd, 4 * PAGE);
	fd = export_buffer(c.fd, b.handle, ARAX_EXPORT_DMABUF);
	if (fd < 0 && errno == EOPNOTSUPP)
		SKIP_TEST("the kernel has no dma-buf");
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	CHECK(lseek(fd, 0, SEEK_END) == (off_t)b.bytes);
	p = map_buffer(c.fd, &b);
	q = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
	CHECK(p != MAP_FAILED && q != MAP_FAILED);
	CHECK(!ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	q[0] = 99;
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	CHECK(!ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	CHECK(p[PAGE / 4] == 99);
	CHECK(mmap(NULL, b.bytes, PROT_READ, MAP_SHARED, fd, PAGE) == MAP_FAILED);
	/* It comes home as itself, and is not charged twice. */
	before = all_memory(ctl);
	CHECK(!import_buffer(c.fd, ARAX_IMPORT_DMABUF, fd, &i));
	CHECK(buffer_id(c.fd, i.handle) == buffer_id(c.fd, b.handle));
	CHECK(all_memory(ctl) == before);
	CHECK(!destroy_buffer(c.fd, i.handle) && !destroy_buffer(c.fd, b.handle));
	CHECK(!munmap(p, b.bytes) && !munmap(q, 2 * PAGE));
	CHECK(all_memory(ctl) == before);
	CHECK(!close(fd));
	CHECK(settles_to(ctl, before - b.bytes));
}

static void test_dmabuf_import(void)
{
	struct udmabuf_create u = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = 4 * PAGE };
	int dev = open("/dev/udmabuf", O_RDWR), fd, memfd;
	struct arax_buffer_import i;
	struct client c;
	uint32_t *p, *q;

	if (dev < 0)
		SKIP_TEST("no /dev/udmabuf");
	client_open(&c);
	memfd = memfd_create("u", MFD_ALLOW_SEALING);
	CHECK(memfd >= 0 && !ftruncate(memfd, u.size));
	CHECK(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	u.memfd = memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &u);
	CHECK(fd >= 0);
	CHECK(!import_buffer(c.fd, ARAX_IMPORT_DMABUF, fd, &i) && i.bytes == u.size);
	p = mmap(NULL, u.size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	q = mmap(NULL, u.size, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, i.map_offset);
	CHECK(p != MAP_FAILED && q != MAP_FAILED);
	p[1024] = 5;
	CHECK(q[1024] == 5);
	CHECK(!destroy_buffer(c.fd, i.handle));
	CHECK_ERR(import_buffer(c.fd, ARAX_IMPORT_DMABUF, memfd, &i), EINVAL);
}

/* 32-bit kernels' own call may be absent, the one with 64-bit times is not. */
#ifdef SYS_futex_time64
#define FUTEX_CALL	SYS_futex_time64
#else
#define FUTEX_CALL	SYS_futex
#endif

/* What a mapping must be good for: long-term pins, O_DIRECT's kind, futexes. */
static void test_pins(void)
{
	struct io_uring_params params = { 0 };
	struct arax_buffer_create b;
	struct client c;
	struct iovec v;
	uint32_t *p;
	int ring;

	client_open(&c);
	b = make_buffer(c.fd, 4 * PAGE);
	p = map_buffer(c.fd, &b);
	CHECK(p != MAP_FAILED);
	/* EAGAIN: it could have slept there, had the word not been another. */
	CHECK_ERR(syscall(FUTEX_CALL, p, FUTEX_WAIT, 1, NULL, NULL, 0), EAGAIN);
	CHECK_ERR(syscall(FUTEX_CALL, c.region + c.init.arena_offset, FUTEX_WAIT, 1, NULL, NULL,
			  0), EAGAIN);
	ring = syscall(SYS_io_uring_setup, 2, &params);
	if (ring < 0)
		SKIP_TEST("no io_uring");
	v = (struct iovec){ p, b.bytes };
	CHECK(!syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &v, 1));
	CHECK_ERR(madvise(p, b.bytes, MADV_REMOVE), EOPNOTSUPP);
}

/* A mapping alone keeps the module. */
static void test_module_held(void)
{
	struct arax_buffer_create b;
	struct client c;
	void *p;

	client_open(&c);
	b = make_buffer(c.fd, PAGE);
	p = map_buffer(c.fd, &b);
	CHECK(p != MAP_FAILED);
	CHECK(!munmap(c.region, c.init.region_size) && !close(c.fd));
	CHECK_ERR(syscall(SYS_delete_module, "arax", O_NONBLOCK), EAGAIN);
	*(char *)p = 1;
}

/* ------------------------------------------------------------------ */
/* Timelines                                                           */

static uint32_t make_timeline(int fd)
{
	struct arax_timeline_create t = { .size = sizeof(t) };

	CHECK(!ioctl(fd, ARAX_IOC_TIMELINE_CREATE, &t));
	return t.handle;
}

static int wait_for(int fd, uint32_t tl, uint64_t value, uint64_t deadline)
{
	struct arax_wait w = { .size = sizeof(w), .count = 1, .deadline_ns = deadline };

	w.points[0].timeline = tl;
	w.points[0].value = value;
	return ioctl(fd, ARAX_IOC_WAIT, &w);
}

static int advance(int fd, uint32_t tl, uint64_t value)
{
	struct arax_timeline_point p = { .size = sizeof(p), .handle = tl, .value = value };

	return ioctl(fd, ARAX_IOC_TIMELINE_ADVANCE, &p);
}

static void on_alarm(int sig)
{
}

static void advancer(void *arg)
{
	struct arax_timeline_share s = { .size = sizeof(s), .fd = *(int *)arg };
	struct client c;

	client_open(&c);
	CHECK(!ioctl(c.fd, ARAX_IOC_TIMELINE_IMPORT, &s));
	usleep(50000);
	CHECK(!advance(c.fd, s.handle, 5));
}

static void test_timeline(void)
{
	struct arax_timeline_share s = { .size = sizeof(s) };
	struct arax_timeline_eventfd e = { .size = sizeof(e), .value = 5 };
	struct itimerval timer = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 }, off = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	struct pollfd signalled = { .events = POLLIN };
	struct client c;
	uint64_t start, count;
	uint32_t tl;
	pid_t pid;

	client_open(&c);
	tl = make_timeline(c.fd);
	CHECK(!wait_for(c.fd, tl, 0, 0));
	CHECK_ERR(wait_for(c.fd, tl, 5, 0), ETIMEDOUT);
	start = now();
	CHECK_ERR(wait_for(c.fd, tl, 5, start + 50 * MS), ETIMEDOUT);
	CHECK(now() >= start + 50 * MS);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	CHECK_ERR(wait_for(c.fd, tl, 5, ARAX_DEADLINE_NONE), EINTR);
	setitimer(ITIMER_REAL, &off, NULL);
	e.handle = tl;
	s.handle = tl;
	e.fd = 0;
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_TIMELINE_EVENTFD, &e), EINVAL);
	e.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	CHECK(!ioctl(c.fd, ARAX_IOC_TIMELINE_EVENTFD, &e));
	CHECK_ERR(read(e.fd, &count, 8), EAGAIN);
	CHECK(!ioctl(c.fd, ARAX_IOC_TIMELINE_EXPORT, &s));
	CHECK(fcntl(s.fd, F_GETFD) == FD_CLOEXEC);
	pid = in_child(advancer, &s.fd);
	CHECK(!wait_for(c.fd, tl, 5, now() + PATIENCE));
	CHECK(child_passed(pid));
	/* Another process's advance has a worker of the kernel signal it. */
	signalled.fd = e.fd;
	CHECK(poll(&signalled, 1, 20000) == 1);
	CHECK(read(e.fd, &count, 8) == 8 && count == 1);
	CHECK_ERR(advance(c.fd, tl, 4), EINVAL);
	s.fd = 0;
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_TIMELINE_IMPORT, &s), EINVAL);
	s.fd = -1;
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_TIMELINE_IMPORT, &s), EBADF);
}

/* ------------------------------------------------------------------ */
/* The mediator                                                        */

static void test_attach(void)
{
	struct arax_attach a = { .size = sizeof(a) };
	struct arax_fetch f = { .size = sizeof(f) };
	struct arax_commit co = { .size = sizeof(co) };
	struct mediator m;
	void *p;
	int fd;

	attach(&m, 0);
	CHECK(m.at.epoch && m.at.cells && m.at.slots);
	CHECK_ERR(ioctl(m.fd, ARAX_IOC_ATTACH, &a), EBUSY);
	fd = ctl_node();
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &a), EBUSY);
	CHECK_ERR(ioctl(fd, ARAX_IOC_FETCH, &f), EPERM);
	CHECK_ERR(ioctl(fd, ARAX_IOC_COMMIT, &co), EPERM);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EPERM);
	a.flags = 8;
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &a), EOPNOTSUPP);
	a.flags = ARAX_ATTACH_FLAGS;
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &a), EINVAL);
	/* The ring is not to be written, now or later. */
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0) == MAP_FAILED &&
	      errno == EPERM);
	CHECK_ERR(mprotect((void *)m.ring, PAGE, PROT_READ | PROT_WRITE), EACCES);
	p = mmap(NULL, m.at.shared_bytes + PAGE, PROT_READ, MAP_SHARED, m.fd, m.at.shared_offset);
	CHECK(p == MAP_FAILED);
	CHECK(!ioctl(m.fd, ARAX_IOC_FETCH, &f) && !f.ready);
}

static void unprivileged(void *arg)
{
	struct arax_attach a = { .size = sizeof(a) };
	int fd = *(int *)arg;

	CHECK(!setgid(1001) && !setuid(1001));
	CHECK_ERR(open("/dev/arax-ctl", O_RDWR), EACCES);
	CHECK(open("/dev/arax", O_RDWR) >= 0);
	/* The opener's credentials count, and those are root's. */
	CHECK(ioctl(fd, ARAX_IOC_ATTACH, &a) == 0 || errno == EBUSY);
}

static void test_credentials(void)
{
	int fd = ctl_node();

	CHECK(child_passed(in_child(unprivileged, &fd)));
}

static void slow_client(void *arg)
{
	struct client c;

	client_open(&c);
	usleep(50000);
	push_marker(&c, 11, 0);
	CHECK(!submit(&c, 1, 1, now() + PATIENCE));
	CHECK(pop(&c)->user_data == 11);
}

static void test_task(void)
{
	struct arax_fetch f = { .size = sizeof(f) };
	const struct arax_dispatch *d;
	struct arax_completion *e;
	struct pollfd p;
	struct mediator m;
	struct client c;
	uint32_t stale;
	uint64_t start;
	pid_t pid;

	attach(&m, 0);
	client_open(&c);
	CHECK(c.ctl->epoch == m.at.epoch);
	CHECK_ERR(submit(&c, 1, 0, 0), EINVAL);		/* not published */
	CHECK_ERR(submit(&c, 0, 17, 0), EINVAL);	/* more than the ring has */
	push_marker(&c, 7, 0);
	CHECK_ERR(submit(&c, 1, 1, now() + 20 * MS), ETIMEDOUT);
	p = (struct pollfd){ .fd = c.fd, .events = POLLIN };
	CHECK(poll(&p, 1, 0) == 0);
	p = (struct pollfd){ .fd = m.fd, .events = POLLIN };
	CHECK(poll(&p, 1, 1000) == 1 && p.revents == POLLIN);
	d = next_entry(&m);
	CHECK(d && d->type == ARAX_DISPATCH_TASK && d->opcode == ARAX_OP_MARKER);
	CHECK(d->context == c.init.context && d->user_data == 7);
	CHECK(!next_entry(&m) && poll(&p, 1, 0) == 0);
	CHECK(!commit_one(&m, d->tag, 0, &stale) && !stale);
	CHECK(!commit_one(&m, d->tag, 0, &stale) && stale == 1);
	p = (struct pollfd){ .fd = c.fd, .events = POLLIN };
	CHECK(poll(&p, 1, 0) == 1 && p.revents == POLLIN);
	CHECK(!submit(&c, 0, 1, 0));
	e = pop(&c);
	CHECK(e && e->user_data == 7 && e->result == 0 && e->tag == d->tag);
	CHECK(poll(&p, 1, 0) == 0);

	/* Fetch sleeps, is woken, and commits wake the sleeping client. */
	start = now();
	f.deadline_ns = start + 20 * MS;
	CHECK_ERR(ioctl(m.fd, ARAX_IOC_FETCH, &f), ETIMEDOUT);
	CHECK(now() >= start + 20 * MS);
	pid = in_child(slow_client, NULL);
	f.deadline_ns = now() + PATIENCE;
	CHECK(!ioctl(m.fd, ARAX_IOC_FETCH, &f) && f.ready);
	d = next_entry(&m);
	CHECK(d && d->user_data == 11);
	usleep(50000);
	CHECK(!commit_one(&m, d->tag, 0, NULL));
	CHECK(child_passed(pid));
}

static void test_buffer_get(void)
{
	struct arax_buffer_get g = { .size = sizeof(g) };
	struct arax_buffer_create b;
	struct mediator m;
	struct client c;
	uint32_t *p, *q;

	attach(&m, 0);
	client_open(&c);
	b = make_buffer(c.fd, 2 * PAGE);
	p = map_buffer(c.fd, &b);
	p[0] = 321;
	g.id = buffer_id(c.fd, b.handle);
	CHECK(!ioctl(m.fd, ARAX_IOC_BUFFER_GET, &g));
	CHECK(g.fd >= 0 && g.bytes == b.bytes && g.context == c.init.context);
	CHECK(fcntl(g.fd, F_GETFD) == FD_CLOEXEC);
	q = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(q != MAP_FAILED && q[0] == 321);
	/* The client goes; the mediator's descriptor and mapping stay charged. */
	CHECK(!munmap(p, b.bytes) && !munmap(c.region, c.init.region_size) && !close(c.fd));
	CHECK(settles_to(m.fd, b.bytes));
	CHECK(!close(g.fd) && q[0] == 321);
	CHECK(all_memory(m.fd) == b.bytes);
	CHECK(!munmap(q, b.bytes));
	CHECK(settles_to(m.fd, 0));
	CHECK_ERR(ioctl(m.fd, ARAX_IOC_BUFFER_GET, &g), ENOENT);
	g.id = 1ull << 40;
	CHECK_ERR(ioctl(m.fd, ARAX_IOC_BUFFER_GET, &g), ENOENT);
}

struct daemon_arg {
	int ready[2];
	int count;		/* tasks to take */
	bool worker;		/* leave a child that holds the descriptor */
};

/* Takes tasks, marks the first as started, and hangs about. */
static void doomed_daemon(void *arg)
{
	struct daemon_arg *a = arg;
	const struct arax_dispatch *d;
	struct arax_fetch f = { .size = sizeof(f) };
	struct mediator m;
	int i;

	attach(&m, ARAX_ATTACH_RECOVER);
	CHECK(write(a->ready[1], "a", 1) == 1);
	for (i = 0; i < a->count; i++) {
		f.deadline_ns = now() + PATIENCE;
		CHECK(!ioctl(m.fd, ARAX_IOC_FETCH, &f));
		d = next_entry(&m);
		CHECK(d);
		if (!i)
			((uint32_t *)(m.shared + m.page->states_offset))[ARAX_TAG_SLOT(d->tag)] =
				ARAX_SLOT_STARTED;
	}
	if (a->worker && !fork()) {
		struct arax_commit co = { .size = sizeof(co) };
		struct pollfd p = { .fd = a->ready[1] };

		CHECK_ERR(ioctl(m.fd, ARAX_IOC_COMMIT, &co), EPERM);
		CHECK(write(a->ready[1], "w", 1) == 1);
		/* Until the test is over: then nobody reads the pipe. */
		close(a->ready[0]);
		poll(&p, 1, 20000);
		_exit(0);
	}
	CHECK(write(a->ready[1], "d", 1) == 1);
	pause();
}

static void await(struct daemon_arg *a, int n)
{
	char byte;

	while (n--)
		CHECK(read(a->ready[0], &byte, 1) == 1);
}

static void test_daemon_killed(void)
{
	struct daemon_arg a = { .count = 2 };
	const struct arax_dispatch *d;
	struct arax_completion *e;
	struct mediator m;
	struct client c;
	int i;
	pid_t pid;

	CHECK(!pipe(a.ready));
	pid = in_child(doomed_daemon, &a);
	await(&a, 1);
	client_open(&c);
	for (i = 0; i < 3; i++)
		push_marker(&c, 100 + i, 0);
	CHECK(!submit(&c, 3, 0, 0));
	await(&a, 1);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	push_marker(&c, 103, 0);
	CHECK(!submit(&c, 1, 0, 0));		/* nobody is there: it waits */
	/* Reaped: gone, so the seat is free at once. */
	memset(&m, 0, sizeof(m));
	m.fd = ctl_node();
	CHECK(!attach_to(&m, ARAX_ATTACH_RECOVER));
	/*
	 * 100 had started: EOWNERDEAD, and in an in-order queue what follows
	 * it is cancelled with its tag.
	 */
	e = pop(&c);
	CHECK(e && e->user_data == 100 && e->result == -EOWNERDEAD);
	for (i = 101; i < 104; i++) {
		e = pop(&c);
		if (!e)
			break;
		CHECK(e->user_data == (uint64_t)i && e->result == -ECANCELED && e->origin);
	}
	for (; i < 104; i++) {
		d = next_entry(&m);
		CHECK(d && d->user_data == (uint64_t)i);
		CHECK(!commit_one(&m, d->tag, 0, NULL));
	}
}

static void test_idempotent(void)
{
	struct daemon_arg a = { .count = 1 };
	const struct arax_dispatch *d;
	struct mediator m;
	struct client c;
	pid_t pid;
	int i;

	CHECK(!pipe(a.ready));
	pid = in_child(doomed_daemon, &a);
	await(&a, 1);
	client_open(&c);
	for (i = 0; i < 3; i++)
		push_marker(&c, i, ARAX_TASK_IDEMPOTENT);
	CHECK(!submit(&c, 3, 0, 0));
	await(&a, 1);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	attach(&m, ARAX_ATTACH_RECOVER);
	for (i = 0; i < 3; i++) {
		d = next_entry(&m);
		CHECK(d && d->user_data == (uint64_t)i);
		CHECK(ARAX_TAG_EPOCH(d->tag) == m.at.epoch);
		CHECK(!commit_one(&m, d->tag, 0, NULL));
	}
	CHECK(!submit(&c, 0, 3, 0));
}

static void set_recovery(const char *ms)
{
	int fd = open("/sys/module/arax/parameters/recovery_ms", O_WRONLY);

	CHECK(fd >= 0 && write(fd, ms, strlen(ms)) > 0);
	close(fd);
}

/* Nobody comes: what is queued fails, but not before its time. */
static void test_expiry(void)
{
	struct daemon_arg a = { .count = 1 };
	struct arax_completion *e;
	struct client c;
	uint64_t start;
	pid_t pid;

	set_recovery("300");
	CHECK(!pipe(a.ready));
	pid = in_child(doomed_daemon, &a);
	await(&a, 1);
	client_open(&c);
	push_marker(&c, 1, ARAX_TASK_IDEMPOTENT);
	CHECK(!submit(&c, 1, 0, 0));
	await(&a, 1);
	start = now();
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	push_marker(&c, 2, 0);
	/* Who sleeps for longer than that finds the end; timers may be a little early. */
	if (submit(&c, 1, 1, now() + 100 * MS))
		CHECK(errno == ETIMEDOUT);
	else
		CHECK(now() - start >= 250 * MS);
	CHECK(!submit(&c, 0, 2, now() + PATIENCE));
	e = pop(&c);
	CHECK(e && e->result == -EOWNERDEAD);
	e = pop(&c);
	CHECK(e && e->result == -EOWNERDEAD);
	set_recovery("60000");
}

/* Not gone before it is dead, however closed its file. */
static void quitter(void *arg)
{
	struct daemon_arg *a = arg;
	struct mediator m;

	attach(&m, 0);
	munmap((void *)m.ring, m.at.dispatch_bytes);
	munmap(m.shared, m.at.shared_bytes);
	close(m.fd);
	CHECK(write(a->ready[1], "q", 1) == 1);
	pause();
}

static void test_seat(void)
{
	struct arax_attach at = { .size = sizeof(at) };
	struct daemon_arg a = { .worker = true };
	struct mediator m;
	pid_t pid;
	int fd;

	CHECK(!pipe(a.ready));
	pid = in_child(quitter, &a);
	await(&a, 1);
	fd = ctl_node();
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &at), EBUSY);
	usleep(100000);
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &at), EBUSY);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);

	/* A worker that inherited the descriptor does not hold the seat. */
	pid = in_child(doomed_daemon, &a);
	await(&a, 3);
	CHECK_ERR(ioctl(fd, ARAX_IOC_ATTACH, &at), EBUSY);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	/* The worker has this test's old descriptor too: one that it has not. */
	close(fd);
	fd = ctl_node();
	CHECK(!ioctl(fd, ARAX_IOC_ATTACH, &at));
	close(fd);

	/* Who gave it up and asks again has stopped its own devices. */
	attach(&m, 0);
	munmap((void *)m.ring, m.at.dispatch_bytes);
	munmap(m.shared, m.at.shared_bytes);
	close(m.fd);
	m.fd = ctl_node();
	CHECK(!attach_to(&m, 0));
}

static void stuck_daemon(void *arg)
{
	struct daemon_arg *a = arg;
	struct arax_fetch f = { .size = sizeof(f) };
	struct mediator m;

	attach(&m, 0);
	CHECK(write(a->ready[1], "a", 1) == 1);
	f.deadline_ns = now() + PATIENCE;
	CHECK(!ioctl(m.fd, ARAX_IOC_FETCH, &f) && next_entry(&m));
	CHECK(write(a->ready[1], "t", 1) == 1);
	f.deadline_ns = now() + PATIENCE;
	CHECK_ERR(ioctl(m.fd, ARAX_IOC_FETCH, &f), ESTALE);
	CHECK_ERR(commit_one(&m, 1, 0, NULL), ESTALE);
	/* Its memory is still its own to touch. */
	m.page->head = 12345;
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, m.fd, 0) == MAP_FAILED && errno == ESTALE);
}

static void test_takeover(void)
{
	struct daemon_arg a = { 0 };
	struct arax_completion *e;
	struct mediator m;
	struct client c;
	pid_t pid;

	CHECK(!pipe(a.ready));
	pid = in_child(stuck_daemon, &a);
	await(&a, 1);
	client_open(&c);
	push_marker(&c, 1, ARAX_TASK_IDEMPOTENT);
	CHECK(!submit(&c, 1, 0, 0));
	await(&a, 1);
	usleep(20000);
	memset(&m, 0, sizeof(m));
	m.fd = ctl_node();
	CHECK_ERR(attach_to(&m, ARAX_ATTACH_RECOVER), EBUSY);
	CHECK(!attach_to(&m, ARAX_ATTACH_TAKEOVER));
	/* None is replayed, idempotent or not. */
	CHECK(!next_entry(&m));
	e = pop(&c);
	CHECK(e && e->result == -EOWNERDEAD);
	CHECK(child_passed(pid));
	push_marker(&c, 2, 0);
	CHECK(!submit(&c, 1, 0, 0));
	CHECK(next_entry(&m));
}

static void test_kill(void)
{
	struct arax_kill k = { .size = sizeof(k) };
	struct pollfd p;
	struct client c;
	int ctl = ctl_node();

	client_open(&c);
	k.context = c.init.context;
	CHECK(!ioctl(ctl, ARAX_IOC_CONTEXT_KILL, &k));
	p = (struct pollfd){ .fd = c.fd, .events = POLLIN };
	CHECK(poll(&p, 1, 0) == 1 && p.revents & POLLHUP);
	CHECK_ERR(submit(&c, 0, 1, ARAX_DEADLINE_NONE), EPIPE);
	CHECK(c.ctl->dead == EPIPE);
	k.context = 0xfffffff0;
	CHECK_ERR(ioctl(ctl, ARAX_IOC_CONTEXT_KILL, &k), ENOENT);
}

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

static bool read_key(int fd, const char *key, uint64_t *value)
{
	char path[64], line[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') {
			*value = strtoull(line + strlen(key) + 1, NULL, 10);
			found = true;
		}
	fclose(f);
	return found;
}

static void test_fdinfo(void)
{
	struct arax_usage u = { .size = sizeof(u), .scope = ARAX_USAGE_CONTEXT };
	struct client c;
	uint64_t v;

	client_open(&c);
	make_buffer(c.fd, 10 * PAGE);
	push_marker(&c, 1, 0);
	CHECK(!submit(&c, 1, 0, 0));
	CHECK(!ioctl(c.fd, ARAX_IOC_USAGE_QUERY, &u));
	CHECK(read_key(c.fd, "arax-context", &v) && v == c.init.context);
	CHECK(read_key(c.fd, "arax-memory", &v) && v == u.counters[ARAX_RES_MEMORY].used);
	CHECK(read_key(c.fd, "arax-tasks", &v) && v == 1);
	CHECK(read_key(c.fd, "arax-tenant", &v) && v);
	CHECK(read_key(c.fd, "drm-engine-arax", &v));
	CHECK(read_key(c.fd, "drm-client-id", &v) && v == c.init.context);
}

#define CGROUP "/sys/fs/cgroup/arax-smoke"

static void enter_cgroup(void)
{
	int fd = open(CGROUP "/cgroup.procs", O_WRONLY);

	CHECK(fd >= 0 && write(fd, "0", 1) == 1);
	close(fd);
}

static void limited(void *arg)
{
	struct arax_buffer_create b = { .size = sizeof(b), .bytes = 64 * PAGE, .fd = -1 };
	struct arax_usage u = { .size = sizeof(u), .scope = ARAX_USAGE_TENANT };
	struct client c;

	enter_cgroup();
	client_open(&c);
	CHECK(!ioctl(c.fd, ARAX_IOC_USAGE_QUERY, &u));
	CHECK(u.counters[ARAX_RES_MEMORY].max == 32 * PAGE);
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &b), EDQUOT);
	make_buffer(c.fd, 8 * PAGE);
}

static void test_tenant(void)
{
	struct arax_limit l = { .size = sizeof(l), .what = ARAX_SET_MAX + ARAX_RES_MEMORY,
				.value = 32 * PAGE };
	struct arax_tenant t = { .size = sizeof(t) };
	int ctl = ctl_node(), dir;
	struct stat s;

	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		SKIP_TEST("no cgroup2 at /sys/fs/cgroup");
	dir = open(CGROUP, O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0 && !fstat(dir, &s));
	l.cgroup_fd = dir;
	t.cgroup_fd = dir;
	CHECK(!ioctl(ctl, ARAX_IOC_LIMIT_SET, &l));
	CHECK(!ioctl(ctl, ARAX_IOC_TENANT_QUERY, &t));
	CHECK(t.id == s.st_ino && t.parent == 1 && !strcmp(t.path, "/arax-smoke"));
	CHECK(child_passed(in_child(limited, NULL)));
	l.value = ARAX_LIMIT_MAX;
	CHECK(!ioctl(ctl, ARAX_IOC_LIMIT_SET, &l));
	l.cgroup_fd = ctl;
	CHECK(ioctl(ctl, ARAX_IOC_LIMIT_SET, &l) == -1 && errno == EBADF);
	close(dir);
	rmdir(CGROUP);
}

/* memory.max refuses: ENOMEM, and nobody is killed for it. */
static void memcg_limited(void *arg)
{
	struct arax_buffer_create b = { .size = sizeof(b), .bytes = 64 << 20, .fd = -1 };
	struct client c;

	enter_cgroup();
	client_open(&c);
	CHECK_ERR(ioctl(c.fd, ARAX_IOC_BUFFER_CREATE, &b), ENOMEM);
	make_buffer(c.fd, 8 * PAGE);
}

static void test_memcg(void)
{
	int fd;

	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		SKIP_TEST("no cgroup2 at /sys/fs/cgroup");
	fd = open(CGROUP "/memory.max", O_WRONLY);
	if (fd < 0)
		SKIP_TEST("no memory controller");
	CHECK(write(fd, "16M", 3) == 3);
	CHECK(child_passed(in_child(memcg_limited, NULL)));
	close(fd);
	rmdir(CGROUP);
}

/* Everything above left nothing behind. */
static void test_books(void)
{
	int ctl = ctl_node();

	CHECK(settles_to(ctl, 0));
	CHECK(COMES(contexts_are_gone(ctl)));
}

/* ------------------------------------------------------------------ */

static const struct {
	const char *name;
	void (*fn)(void);
} tests[] = {
	{ "nodes", test_nodes },
	{ "info", test_info },
	{ "dispatch of calls", test_dispatch },
	{ "context", test_context },
	{ "region", test_region },
	{ "forked child", test_fork },
	{ "buffer", test_buffer },
	{ "charge follows the last reference", test_charge },
	{ "client killed", test_client_killed },
	{ "export and import", test_export },
	{ "failed copy of an export leaks nothing", test_export_fault },
	{ "revoke", test_revoke },
	{ "memfd", test_memfd },
	{ "user memory", test_user_memory },
	{ "dma-buf export", test_dmabuf_export },
	{ "dma-buf import", test_dmabuf_import },
	{ "pins and futexes", test_pins },
	{ "a mapping holds the module", test_module_held },
	{ "timeline", test_timeline },
	{ "attach", test_attach },
	{ "credentials", test_credentials },
	{ "task", test_task },
	{ "buffer get", test_buffer_get },
	{ "daemon killed", test_daemon_killed },
	{ "idempotent tasks run again", test_idempotent },
	{ "recovery expires", test_expiry },
	{ "seat", test_seat },
	{ "takeover", test_takeover },
	{ "context killed", test_kill },
	{ "fdinfo", test_fdinfo },
	{ "tenant", test_tenant },
	{ "memory cgroup", test_memcg },
	{ "the books balance", test_books },
};

#define COUNT (sizeof(tests) / sizeof(tests[0]))

int main(int argc, char **argv)
{
	unsigned int i;
	int status, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..%zu\n", COUNT);
	for (i = 0; i < COUNT; i++) {
		pid_t pid;

		if (argc > 1 && strcmp(argv[1], tests[i].name)) {
			printf("ok %u %s # SKIP not asked for\n", i + 1, tests[i].name);
			continue;
		}
		pid = fork();
		if (!pid) {
			alarm(60);
			tests[i].fn();
			_exit(PASS);
		}
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			printf("# killed by signal %d\n", WTERMSIG(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP) {
			printf("ok %u %s # SKIP see above\n", i + 1, tests[i].name);
		} else if (status) {
			printf("not ok %u %s\n", i + 1, tests[i].name);
			failed++;
		} else {
			printf("ok %u %s\n", i + 1, tests[i].name);
		}
	}
	return failed ? 1 : 0;
}
