// SPDX-License-Identifier: MIT
/*
 * Buffers as dma-bufs in another driver's hands (selftests/qemu/borrower).  The guest's kernel
 * bounces what devices do (swiotlb=force): what one wrote is in the buffer only after a mapping's
 * end, or a sync.
 */
#include "ktest.h"

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "selftests/qemu/borrower/borrower.h"

#define BYTES	(16 * PAGE)

enum { BOTH, TO_DEVICE, FROM_DEVICE };	/* enum dma_data_direction */

static uint64_t charged(struct client *c)
{
	return usage(c, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].used;
}

static int borrower_new(void)
{
	int fd = open("/dev/borrower", O_RDWR | O_CLOEXEC);

	CHECK_SYS(fd);
	return fd;
}

/* The result, or -errno. */
static int borrow(int fd, unsigned long request, unsigned long arg)
{
	int ret = ioctl(fd, request, arg);

	return ret < 0 ? -errno : ret;
}
#define BORROW(fd, NR, arg)	borrow(fd, BORROW_##NR, (unsigned long)(arg))

static int borrower_of(int dmabuf)
{
	int fd = borrower_new();

	CHECK_OK(BORROW(fd, ATTACH, dmabuf));
	return fd;
}

/* A buffer of a client's, mapped by it, and a dma-buf of it. */
struct lent {
	struct client c;
	struct arax_buffer_create b;
	uint8_t *p;
	int fd;
};

static void lend(struct lent *l, uint64_t bytes)
{
	client_open(&l->c, 4, 128, 0);
	l->b = buffer_new(&l->c, bytes);
	l->p = buffer_map(&l->c, &l->b);
	l->fd = buffer_export(&l->c, l->b.handle, ARAX_EXPORT_DMABUF);
	CHECK(l->fd >= 0);
}

static void take_back(struct lent *l)
{
	struct arax_handle h = { .size = sizeof(h), .handle = l->b.handle };

	CHECK_OK(CALL(l->c.fd, BUFFER_REVOKE, &h));
}

/* Nothing is left but the context. */
static void settled(struct lent *l)
{
	CHECK_SYS(munmap(l->p, l->b.bytes));
	CHECK_OK(buffer_destroy(&l->c, l->b.handle));
	CHECK_SYS(close(l->fd));
	CHECK_EQ(charged(&l->c), l->c.init.region_size);
	client_close(&l->c);
}

KTEST(a_device_has_the_buffers_bytes)
{
	struct lent l;
	int d;

	lend(&l, BYTES);
	d = borrower_of(l.fd);
	bytes_fill(l.p, BYTES, 1);
	CHECK_OK(BORROW(d, MAP, TO_DEVICE));
	CHECK_EQ(BORROW(d, FILLED, 1), 1);
	CHECK_OK(BORROW(d, UNMAP, 0));
	CHECK_OK(BORROW(d, MAP, FROM_DEVICE));
	CHECK_OK(BORROW(d, FILL, 2));
	CHECK_OK(BORROW(d, UNMAP, 0));
	CHECK(bytes_filled(l.p, BYTES, 2));
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_EQ(BORROW(d, FILLED, 2), 1);
	CHECK_OK(BORROW(d, FILL, 3));
	CHECK_OK(BORROW(d, UNMAP, 0));
	CHECK(bytes_filled(l.p, BYTES, 3));
	CHECK_OK(BORROW(d, DETACH, 0));
	CHECK_SYS(close(d));
	settled(&l);
}

static void sync_cpu(int fd, uint64_t flags)
{
	struct dma_buf_sync s = { flags | DMA_BUF_SYNC_RW };

	CHECK_SYS(ioctl(fd, DMA_BUF_IOCTL_SYNC, &s));
}

/* Between mappings' beginning and end the processor has its turns: a program's, and the kernel's. */
KTEST(processor_and_device_take_turns)
{
	struct lent l;
	uint8_t *q;
	int d;

	lend(&l, BYTES);
	d = borrower_of(l.fd);
	q = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, l.fd, 0);
	CHECK(q != MAP_FAILED);
	bytes_fill(q, BYTES, 1);
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_OK(BORROW(d, FILL, 2));
	/* Else it would not be seen whether the turns do anything. */
	CHECK(bytes_filled(q, BYTES, 1));
	sync_cpu(l.fd, DMA_BUF_SYNC_START);
	CHECK(bytes_filled(q, BYTES, 2));
	bytes_fill(q, BYTES, 3);
	CHECK_EQ(BORROW(d, FILLED, 2), 1);
	sync_cpu(l.fd, DMA_BUF_SYNC_END);
	CHECK_EQ(BORROW(d, FILLED, 3), 1);
	CHECK_OK(BORROW(d, VMAP, 0));
	CHECK_OK(BORROW(d, FILL, 4));
	CHECK_EQ(BORROW(d, VFILLED, 3), 1);
	CHECK_OK(BORROW(d, BEGIN, BOTH));
	CHECK_EQ(BORROW(d, VFILLED, 4), 1);
	CHECK_OK(BORROW(d, VFILL, 5));
	CHECK_OK(BORROW(d, END, BOTH));
	CHECK_EQ(BORROW(d, FILLED, 5), 1);
	CHECK(bytes_filled(l.p, BYTES, 5));
	CHECK_SYS(munmap(q, BYTES));
	CHECK_SYS(close(d));
	settled(&l);
}

KTEST(the_kernels_mapping_is_the_buffer)
{
	struct lent l;
	int d, e;

	lend(&l, BYTES);
	d = borrower_of(l.fd);
	e = borrower_of(l.fd);
	bytes_fill(l.p, BYTES, 1);
	CHECK_OK(BORROW(d, VMAP, 0));
	CHECK_EQ(BORROW(d, VFILLED, 1), 1);
	CHECK_OK(BORROW(e, VMAP, 0));
	CHECK_OK(BORROW(e, VFILL, 2));
	CHECK(bytes_filled(l.p, BYTES, 2));
	CHECK_OK(BORROW(d, VUNMAP, 0));
	CHECK_EQ(BORROW(e, VFILLED, 2), 1);
	CHECK_OK(BORROW(e, VUNMAP, 0));
	CHECK_OK(BORROW(d, VMAP, 0));
	CHECK_EQ(BORROW(d, VFILLED, 2), 1);
	CHECK_SYS(close(d));
	CHECK_SYS(close(e));
	settled(&l);
}

KTEST(two_attachments_of_one_dma_buf)
{
	struct lent l;
	int d, e;

	lend(&l, BYTES);
	bytes_fill(l.p, BYTES, 1);
	d = borrower_of(l.fd);
	e = borrower_of(l.fd);
	CHECK_OK(BORROW(d, MAP, TO_DEVICE));
	CHECK_OK(BORROW(e, MAP, BOTH));
	CHECK_EQ(BORROW(d, FILLED, 1), 1);
	CHECK_OK(BORROW(e, FILL, 2));
	CHECK_OK(BORROW(d, UNMAP, 0));
	/* The other one's mapping has its syncs as before. */
	sync_cpu(l.fd, DMA_BUF_SYNC_START);
	CHECK(bytes_filled(l.p, BYTES, 2));
	sync_cpu(l.fd, DMA_BUF_SYNC_END);
	CHECK_OK(BORROW(d, MAP, TO_DEVICE));
	CHECK_EQ(BORROW(d, FILLED, 2), 1);
	CHECK_SYS(close(e));
	CHECK_EQ(BORROW(d, FILLED, 2), 1);
	CHECK_SYS(close(d));
	settled(&l);
}

static void stays_loaded(void)
{
	CHECK(read_number("/sys/module/arax/refcnt") > 0);
	CHECK_SYS_ERR(syscall(SYS_delete_module, "arax", O_NONBLOCK), EWOULDBLOCK);
}

/* Destroyed, unmapped, both of its nodes closed: it is the borrower's still. */
KTEST(who_is_attached_keeps_the_buffer)
{
	struct client watch;
	unsigned int mapped;
	struct lent l;
	int d;

	for (mapped = 0; mapped < 3; mapped++) {
		lend(&l, BYTES);
		bytes_fill(l.p, BYTES, mapped);
		d = borrower_of(l.fd);
		if (mapped == 1)
			CHECK_OK(BORROW(d, MAP, BOTH));
		if (mapped == 2)
			CHECK_OK(BORROW(d, VMAP, 0));
		CHECK_SYS(munmap(l.p, BYTES));
		CHECK_OK(buffer_destroy(&l.c, l.b.handle));
		CHECK_SYS(close(l.fd));
		client_close(&l.c);
		stays_loaded();
		client_open(&watch, 4, 128, 0);
		CHECK_EQ(charged(&watch), watch.init.region_size + BYTES);
		if (!mapped)
			CHECK_OK(BORROW(d, MAP, BOTH));
		CHECK_EQ(mapped == 2 ? BORROW(d, VFILLED, mapped) : BORROW(d, FILLED, mapped), 1);
		CHECK_OK(BORROW(d, DETACH, 0));
		CHECK_EQ(charged(&watch), watch.init.region_size);
		client_close(&watch);
		CHECK_SYS(close(d));
	}
}

/* A limit counts what is lent, too, and has it back. */
KTEST(what_is_lent_counts)
{
	int ctl = open_node("/dev/arax-ctl"), tenant = cgroup_new("ktest-lent"), d;
	struct arax_buffer_create b;
	struct lent l;

	cgroup_enter("ktest-lent");
	lend(&l, BYTES);
	CHECK_OK(limit_set(ctl, tenant, ARAX_RES_MEMORY, l.c.init.region_size + BYTES));
	d = borrower_of(l.fd);
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_SYS(munmap(l.p, BYTES));
	CHECK_OK(buffer_destroy(&l.c, l.b.handle));
	CHECK_SYS(close(l.fd));
	CHECK_ERR(buffer_try(&l.c, PAGE, &b), EDQUOT);
	CHECK_SYS(close(d));
	CHECK_OK(buffer_try(&l.c, BYTES, &b));
	client_close(&l.c);
	cgroup_enter("");
	cgroup_remove("ktest-lent");
	close(tenant);
	close(ctl);
}

static int maps_and_waits(void *arg)
{
	struct meet *m = arg;
	struct lent l;
	int d;

	lend(&l, BYTES);
	d = borrower_of(l.fd);
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_OK(BORROW(d, VMAP, 0));
	meet_say(m);
	for (;;)
		pause();
}

/* That nothing of it stays is in the books. */
KTEST(a_borrower_is_killed)
{
	struct meet m;
	pid_t pid;

	meet_init(&m);
	pid = child_run(maps_and_waits, &m);
	meet_hear(&m);
	CHECK_SYS(kill(pid, SIGKILL));
	CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
}

/* A revoke takes the pages from the buffer, not from who has them mapped. */
KTEST(revoked_while_lent)
{
	struct lent l;
	uint8_t *q;
	int d, e;

	lend(&l, BYTES);
	bytes_fill(l.p, BYTES, 1);
	d = borrower_of(l.fd);
	e = borrower_of(l.fd);
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_OK(BORROW(d, VMAP, 0));
	q = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, l.fd, 0);
	CHECK(q != MAP_FAILED);
	take_back(&l);
	CHECK(faults(q, false) && faults(l.p, true));
	CHECK_EQ(BORROW(d, FILLED, 1), 1);
	CHECK_EQ(BORROW(d, VFILLED, 1), 1);
	CHECK_OK(BORROW(d, FILL, 2));
	sync_cpu(l.fd, DMA_BUF_SYNC_START);
	CHECK_EQ(BORROW(d, VFILLED, 2), 1);
	sync_cpu(l.fd, DMA_BUF_SYNC_END);
	CHECK_EQ(charged(&l.c), l.c.init.region_size + BYTES);
	CHECK_ERR(BORROW(e, MAP, BOTH), ESTALE);
	CHECK_OK(BORROW(d, UNMAP, 0));
	CHECK_ERR(BORROW(d, MAP, BOTH), ESTALE);
	CHECK_SYS(close(e));
	e = borrower_of(l.fd);
	CHECK_ERR(BORROW(e, MAP, TO_DEVICE), ESTALE);
	CHECK_SYS(munmap(q, BYTES));
	q = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, l.fd, 0);
	CHECK(q != MAP_FAILED);
	CHECK(faults(q, false) && faults(q + BYTES - PAGE, true));
	CHECK_SYS(munmap(q, BYTES));
	CHECK_SYS(close(d));
	CHECK_SYS(close(e));
	settled(&l);
}

/*
 * dma_buf_vmap() warns where that fails: who can have it fail could have a driver make the kernel
 * warn.  What a driver has of a buffer that was revoked, or then writes to it, is nobody's.
 */
KTEST(revoked_before_the_kernel_maps_it)
{
	struct lent l;
	int d;

	lend(&l, BYTES);
	bytes_fill(l.p, BYTES, 1);
	d = borrower_of(l.fd);
	take_back(&l);
	CHECK_OK(BORROW(d, VMAP, 0));
	CHECK_EQ(BORROW(d, VFILLED, 1), 0);
	CHECK_OK(BORROW(d, VFILL, 2));
	CHECK(faults(l.p, false));
	CHECK_EQ(charged(&l.c), l.c.init.region_size + BYTES);
	CHECK_SYS(close(d));
	settled(&l);
}

static int maps_for_ever(void *arg)
{
	struct lent l;
	int d;

	lend(&l, 32 << 20);
	d = borrower_of(l.fd);
	meet_say(arg);
	for (;;) {
		CHECK_OK(BORROW(d, VMAP, 0));
		CHECK_OK(BORROW(d, VUNMAP, 0));
	}
}

KTEST(killed_while_the_kernel_maps)
{
	int round, rounds = ktest_rounds(40);
	struct meet m;
	pid_t pid;

	meet_init(&m);
	for (round = 0; round < rounds; round++) {
		pid = child_run(maps_for_ever, &m);
		meet_hear(&m);
		usleep((useconds_t)(round * 300));
		CHECK_SYS(kill(pid, SIGKILL));
		CHECK_EQ(child_wait(pid), 1000 + SIGKILL);
	}
}

KTEST(what_can_not_be_mapped)
{
	struct lent l;

	lend(&l, BYTES);
	CHECK_SYS_ERR((long)mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, l.fd, 0), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, BYTES + PAGE, PROT_READ, MAP_SHARED, l.fd, 0), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, l.fd, BYTES), EINVAL);
	settled(&l);
}

/* A device that can't reach memory takes pieces of 256 KiB at most; pages that are neighbours may be more. */
KTEST(large_ones_for_a_device_that_bounces)
{
	const size_t n = 1 << 20;
	struct lent l;
	int d;

	lend(&l, n);
	bytes_fill(l.p, n, 1);
	d = borrower_of(l.fd);
	CHECK_OK(BORROW(d, MAP, BOTH));
	CHECK_EQ(BORROW(d, FILLED, 1), 1);
	CHECK_OK(BORROW(d, FILL, 2));
	CHECK_OK(BORROW(d, UNMAP, 0));
	CHECK(bytes_filled(l.p, n, 2));
	CHECK_SYS(close(d));
	settled(&l);
}

/* Whose room is less than that. */
KTEST(more_than_a_device_can_have)
{
	struct lent l;
	int d;

	lend(&l, 8 << 20);
	d = borrower_of(l.fd);
	CHECK_ERR(BORROW(d, MAP, BOTH), EIO);
	CHECK_ERR(BORROW(d, FILLED, 0), ENXIO);
	sync_cpu(l.fd, DMA_BUF_SYNC_START);
	sync_cpu(l.fd, DMA_BUF_SYNC_END);
	CHECK_OK(BORROW(d, VMAP, 0));
	CHECK_OK(BORROW(d, VFILL, 1));
	CHECK(bytes_filled(l.p, 8 << 20, 1));
	CHECK_SYS(close(d));
	settled(&l);
}

KTEST(dma_bufs_that_are_no_buffers)
{
	static const struct {
		int kind, err;
	} lent[] = {
		{ LEND_WITHOUT_MMAP, EOPNOTSUPP }, { LEND_ODD_SIZE, EINVAL }, { LEND_EMPTY, EINVAL },
	};
	struct arax_buffer_import i;
	struct client c;
	int d, fd, memfd;
	unsigned int k;

	client_open(&c, 4, 128, 0);
	d = borrower_new();
	for (k = 0; k < sizeof(lent) / sizeof(lent[0]); k++) {
		fd = BORROW(d, LEND, lent[k].kind);
		CHECK(fd >= 0);
		CHECK_ERR(buffer_import(&c, ARAX_IMPORT_DMABUF, fd, &i), lent[k].err);
		CHECK_SYS(close(fd));
	}
	CHECK_ERR(buffer_import(&c, ARAX_IMPORT_DMABUF, -1, &i), EBADF);
	CHECK_ERR(buffer_import(&c, ARAX_IMPORT_DMABUF, d, &i), EINVAL);
	CHECK_SYS(close(d));
	CHECK_EQ(charged(&c), c.init.region_size);
	/* Who imported one can't lend it. */
	memfd = memfd_sealed(BYTES, F_SEAL_SHRINK);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, memfd, &i));
	CHECK_ERR(buffer_export(&c, i.handle, ARAX_EXPORT_DMABUF), EOPNOTSUPP);
	CHECK_SYS(close(memfd));
	client_close(&c);
}
