// SPDX-License-Identifier: MIT
/* A buffer's pages: who sees them, who can use them, who keeps them. */
#include "ktest.h"

#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

static uint64_t charged(struct client *c)
{
	return usage(c, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].used;
}

/* The frame number behind an address that is mapped. */
static uint64_t frame(const void *address)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	CHECK(fd >= 0);
	CHECK_EQ(pread(fd, &entry, 8, (off_t)((uintptr_t)address / PAGE * 8)), 8);
	close(fd);
	CHECK(entry >> 63);
	return entry & ((1ull << 55) - 1);
}

static uint64_t bytes_held(int fd)
{
	struct stat st;

	CHECK_SYS(fstat(fd, &st));
	return (uint64_t)st.st_blocks * 512;
}

/* ------------------------------------------------------------------ */
/* Zero copies                                                         */

KTEST(client_and_mediator_see_the_same_pages)
{
	const size_t n = 16 * PAGE;
	struct arax_buffer_create b;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	struct work w;
	uint8_t *ours, *theirs;
	uint32_t q;
	size_t i;

	client_open(&c, 8, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, 0);
	b = buffer_new(&c, n);
	ours = buffer_map(&c, &b);
	for (i = 0; i < n; i++)
		CHECK_EQ(ours[i], 0);
	bytes_fill(ours, n, 1);
	client_range_task(&c, q, 5, 0, b.handle, ARAX_INOUT, 0, n);
	w = mediator_task(&m);
	CHECK_OK(mediator_get(&m, w.ranges[0].buffer, &g));
	CHECK_EQ(g.bytes, n);
	theirs = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(theirs != MAP_FAILED);
	CHECK(bytes_filled(theirs, n, 1));
	bytes_fill(theirs, n, 2);
	for (i = 0; i < n; i += PAGE)
		CHECK_EQ(frame(theirs + i), frame(ours + i));
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	CHECK(bytes_filled(ours, n, 2));
	/* Its client drops the buffer: the mediator is told, and keeps it meanwhile. */
	CHECK_SYS(munmap(ours, n));
	CHECK_OK(buffer_destroy(&c, b.handle));
	w = mediator_note(&m, ARAX_DISPATCH_BUFFER);
	CHECK_EQ(w.d.object, g.id);
	CHECK(bytes_filled(theirs, n, 2));
	CHECK_EQ(charged(&c), c.init.region_size + n);
	CHECK_SYS(munmap(theirs, n));
	CHECK_SYS(close(g.fd));
	CHECK_EQ(charged(&c), c.init.region_size);
	mediator_close(&m);
	client_close(&c);
}

/* Above a huge page's size shmem looks for an address itself. */
KTEST(large_buffers_are_mapped)
{
	const size_t sizes[] = { 2 << 20, (2 << 20) + PAGE, 8 << 20 };
	struct arax_buffer_create b;
	struct arax_buffer_get g;
	uint8_t *ours, *theirs;
	struct mediator m;
	struct client c;
	struct work w;
	size_t i, n;
	uint32_t q;

	client_open(&c, 8, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, 0);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		n = sizes[i];
		b = buffer_new(&c, n);
		ours = buffer_map(&c, &b);
		bytes_fill(ours + n - PAGE, PAGE, 3);
		client_range_task(&c, q, 5, 0, b.handle, ARAX_INOUT, 0, n);
		w = mediator_task(&m);
		CHECK_OK(mediator_get(&m, w.ranges[0].buffer, &g));
		/* From the first page on, and from another. */
		theirs = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
		CHECK(theirs != MAP_FAILED);
		CHECK(bytes_filled(theirs + n - PAGE, PAGE, 3));
		CHECK_SYS(munmap(theirs, n));
		theirs = mmap(NULL, n - PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, PAGE);
		CHECK(theirs != MAP_FAILED);
		CHECK(bytes_filled(theirs + n - 2 * PAGE, PAGE, 3));
		CHECK_SYS(munmap(theirs, n - PAGE));
		CHECK_SYS(close(g.fd));
		mediator_done(&m, w.d.tag, 0);
		CHECK_EQ(client_wait(&c).result, 0);
		CHECK_SYS(munmap(ours, n));
		CHECK_OK(buffer_destroy(&c, b.handle));
		mediator_note(&m, ARAX_DISPATCH_BUFFER);
	}
	CHECK_EQ(charged(&c), c.init.region_size);
	mediator_close(&m);
	client_close(&c);
}

/* A task's buffer lives until its commit, whatever its client does. */
KTEST(a_task_keeps_its_buffers)
{
	struct arax_buffer_create b;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	struct work w;

	client_open(&c, 8, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&c, 4 * PAGE);
	client_range_task(&c, queue_new(&c, 0), 1, 0, b.handle, ARAX_IN, 0, PAGE);
	w = mediator_task(&m);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_EQ(charged(&c), c.init.region_size + b.bytes);
	CHECK_OK(mediator_get(&m, w.ranges[0].buffer, &g));
	close(g.fd);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_ERR(mediator_get(&m, w.ranges[0].buffer, &g), ENOENT);
	mediator_close(&m);
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* What other parts of the kernel can do with the pages                */

struct uring_params {
	uint32_t sq_entries, cq_entries, flags, cpu, idle, features, wq_fd, resv[3];
	struct {
		uint32_t head, tail, mask, entries, flags, dropped, array, resv1;
		uint64_t resv2;
	} sq;
	struct {
		uint32_t head, tail, mask, entries, overflow, cqes, flags, resv1;
		uint64_t resv2;
	} cq;
};

struct uring_sqe {
	uint8_t opcode, flags;
	uint16_t ioprio;
	int32_t fd;
	uint64_t off, addr;
	uint32_t len, rw_flags;
	uint64_t user_data;
	uint16_t buf_index, personality;
	int32_t splice_fd;
	uint64_t pad[2];
};

struct uring {
	int fd;
	struct uring_params p;
	uint8_t *sq, *cq;
	struct uring_sqe *sqes;
};

/* A ring with our memory registered: a long-term pin. */
static int uring_open(struct uring *u, void *memory, size_t n)
{
	struct iovec v = { memory, n };

	memset(u, 0, sizeof(*u));
	u->fd = (int)syscall(425, 4, &u->p);
	if (u->fd < 0)
		return -errno;
	u->sq = mmap(NULL, u->p.sq.array + u->p.sq_entries * 4, PROT_READ | PROT_WRITE,
		     MAP_SHARED, u->fd, 0);
	u->cq = mmap(NULL, u->p.cq.cqes + u->p.cq_entries * 16, PROT_READ | PROT_WRITE,
		     MAP_SHARED, u->fd, 0x8000000);
	u->sqes = mmap(NULL, u->p.sq_entries * sizeof(*u->sqes), PROT_READ | PROT_WRITE,
		       MAP_SHARED, u->fd, 0x10000000);
	CHECK(u->sq != MAP_FAILED && u->cq != MAP_FAILED && (void *)u->sqes != MAP_FAILED);
	return syscall(427, u->fd, 0 /* REGISTER_BUFFERS */, &v, 1) ? -errno : 0;
}

/* Reads or writes @n bytes of @fd with the registered memory. */
static int uring_fixed(struct uring *u, bool write, int fd, void *address, uint32_t n)
{
	uint32_t *tail = (uint32_t *)(u->sq + u->p.sq.tail);
	uint32_t *head = (uint32_t *)(u->cq + u->p.cq.head);
	uint32_t at = *tail & *(uint32_t *)(u->sq + u->p.sq.mask);
	int32_t res;

	u->sqes[at] = (struct uring_sqe) { .opcode = write ? 5 : 4, .fd = fd, .len = n,
					   .addr = (uintptr_t)address };
	((uint32_t *)(u->sq + u->p.sq.array))[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	CHECK_EQ(syscall(426, u->fd, 1, 1, 1 /* GETEVENTS */, NULL, 0), 1);
	at = *head & *(uint32_t *)(u->cq + u->p.cq.mask);
	res = *(int32_t *)(u->cq + u->p.cq.cqes + at * 16 + 8);
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

static void uring_close(struct uring *u)
{
	munmap(u->sq, u->p.sq.array + u->p.sq_entries * 4);
	munmap(u->cq, u->p.cq.cqes + u->p.cq_entries * 16);
	munmap(u->sqes, u->p.sq_entries * sizeof(*u->sqes));
	close(u->fd);
}

KTEST(io_uring_takes_fixed_buffers)
{
	const size_t n = 8 * PAGE;
	struct arax_buffer_create b;
	struct client c;
	struct uring u;
	uint8_t *p;
	int fd = open("/tmp/ktest-uring", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	err = uring_open(&u, p, n);
	if (err == -ENOSYS || err == -EPERM)
		tap_skip("this kernel has no io_uring");
	CHECK_OK(err);
	bytes_fill(p, n, 3);
	CHECK_EQ(uring_fixed(&u, true, fd, p, n), n);
	memset(p, 0, n);
	CHECK_EQ(uring_fixed(&u, false, fd, p + PAGE, PAGE), PAGE);
	CHECK(bytes_filled(p + PAGE, PAGE, 3));
	uring_close(&u);
	unlink("/tmp/ktest-uring");
	client_close(&c);
}

KTEST(a_second_long_term_pin)
{
	const size_t n = 8 * PAGE;
	struct arax_buffer_create b;
	struct client c;
	struct uring u, v;
	uint8_t *p, *q;
	int fd = open("/tmp/ktest-pin", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	q = buffer_map(&c, &b);
	err = uring_open(&u, p, n);
	if (err == -ENOSYS || err == -EPERM)
		tap_skip("this kernel has no io_uring");
	CHECK_OK(err);
	CHECK_OK(uring_open(&v, q, n));
	bytes_fill(p, n, 4);
	CHECK_EQ(uring_fixed(&u, true, fd, p, n), n);
	memset(p, 0, n);
	/* In through the other mapping's pin, seen in the first. */
	CHECK_EQ(uring_fixed(&v, false, fd, q, n), n);
	CHECK(bytes_filled(p, n, 4));
	/* The pins outlive handle and mappings. */
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_SYS(munmap(p, n));
	CHECK_SYS(munmap(q, n));
	uring_close(&u);
	uring_close(&v);
	unlink("/tmp/ktest-pin");
	client_close(&c);
}

KTEST(direct_io_reads_into_a_buffer)
{
	const size_t n = 4 * PAGE;
	struct arax_buffer_create b;
	struct client c;
	uint8_t *p;
	int fd;

	/* A disk in memory; of files on tmpfs only later kernels take it. */
	fd = open("/dev/ram0", O_RDWR | O_DIRECT | O_CLOEXEC);
	CHECK(fd >= 0);
	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	bytes_fill(p, n, 5);
	CHECK_EQ(pwrite(fd, p, n, 0), n);
	memset(p, 0, n);
	CHECK_EQ(pread(fd, p, n, 0), n);
	CHECK(bytes_filled(p, n, 5));
	close(fd);
	client_close(&c);
}

/* get_user_pages() by other roads than direct I/O: any kernel has these. */
KTEST(pages_can_be_pinned_by_vmsplice_and_process_vm)
{
	const size_t n = 4 * PAGE;
	struct arax_buffer_create b;
	struct client c;
	uint8_t *p, *other = malloc(n);
	struct iovec v, o = { other, n };
	int fds[2];

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	v = (struct iovec) { p, n };
	bytes_fill(p, n, 6);
	CHECK_SYS(pipe2(fds, O_CLOEXEC));
	CHECK_EQ(vmsplice(fds[1], &v, 1, 0), n);
	/* The pipe holds the pages themselves: what comes out is what is there now. */
	bytes_fill(p, n, 7);
	CHECK_EQ(read(fds[0], other, n), n);
	CHECK(bytes_filled(other, n, 7));
	memset(other, 0, n);
	CHECK_EQ(process_vm_readv(getpid(), &o, 1, &v, 1, 0), n);
	CHECK(bytes_filled(other, n, 7));
	bytes_fill(other, n, 8);
	CHECK_EQ(process_vm_writev(getpid(), &o, 1, &v, 1, 0), n);
	CHECK(bytes_filled(p, n, 8));
	/* And pages that a pipe keeps don't bother anybody. */
	CHECK_EQ(vmsplice(fds[1], &v, 1, 0), n);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_SYS(munmap(p, n));
	CHECK_EQ(read(fds[0], other, n), n);
	CHECK(bytes_filled(other, n, 8));
	client_close(&c);
}

static long futex(uint32_t *word, int op, uint32_t value)
{
	struct timespec ts = { 20, 0 };

	return syscall(SYS_futex, word, op, value, op == FUTEX_WAIT ? &ts : NULL, NULL, 0);
}

static int futex_child(void *arg)
{
	uint32_t *word = arg;

	__atomic_store_n(&word[1], 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST))
		if (futex(word, FUTEX_WAIT, 0) && errno == ETIMEDOUT)
			return 1;
	return 0;
}

KTEST(a_shared_futex_between_two_processes)
{
	struct arax_buffer_create b;
	struct client c;
	uint32_t *word;
	pid_t pid;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, PAGE);
	word = buffer_map(&c, &b);
	pid = child_run(futex_child, word);
	while (!__atomic_load_n(&word[1], __ATOMIC_SEQ_CST))
		sleep_ms(1);
	sleep_ms(50);		/* most likely it sleeps now */
	__atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
	CHECK(futex(word, FUTEX_WAKE, 1) >= 0);
	CHECK_OK(child_wait(pid));
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* Nobody takes pages away                                             */

static void punch(int fd, uint8_t *p, size_t n)
{
	char path[64];

	CHECK_SYS_ERR(madvise(p, n, MADV_REMOVE), EOPNOTSUPP);
	CHECK_SYS_ERR(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE),
		      EOPNOTSUPP);
	CHECK_SYS_ERR(fallocate(fd, 0, 0, 64 * PAGE), EOPNOTSUPP);
	CHECK_SYS_ERR(ftruncate(fd, 0), EPERM);
	CHECK_SYS_ERR(ftruncate(fd, 64 * PAGE), EPERM);
	CHECK_SYS_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	/* A new file of the same inode would have all that ours lacks. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK_SYS_ERR(open(path, O_RDWR | O_CLOEXEC), EACCES);
	CHECK_SYS_ERR(open(path, O_RDWR | O_TRUNC | O_CLOEXEC), EACCES);
	CHECK_SYS_ERR(truncate(path, 0), EPERM);
}

KTEST(holes_are_refused)
{
	const size_t n = 8 * PAGE;
	struct arax_buffer_create b;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	uint64_t was;
	uint8_t *p;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	bytes_fill(p, n, 9);
	was = frame(p);
	punch(buffer_export(&c, b.handle, ARAX_EXPORT_ARAX), p, n);
	CHECK_OK(mediator_get(&m, buffer_query(&c, b.handle).id, &g));
	punch(g.fd, p, n);
	/* What only drops the mapping's entries is allowed, and loses nothing. */
	CHECK_SYS(madvise(p, n, MADV_DONTNEED));
	CHECK(bytes_filled(p, n, 9));
	madvise(p, n, MADV_PAGEOUT);
	CHECK(bytes_filled(p, n, 9));
	CHECK_EQ(frame(p), was);
	/* Nor by name through the mapping. */
	CHECK(write_text("/proc/self/clear_refs", "1") <= 0);
	CHECK(bytes_filled(p, n, 9));
	mediator_close(&m);
	client_close(&c);
}

KTEST(untouched_pages_stay)
{
	struct arax_buffer_create b;
	struct client c;
	int fd;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 8 * PAGE);
	fd = buffer_export(&c, b.handle, ARAX_EXPORT_ARAX);
	CHECK(bytes_held(fd) >= 8 * PAGE);
	CHECK_OK(write_text("/proc/sys/vm/drop_caches", "3"));
	CHECK(bytes_held(fd) >= 8 * PAGE);
	CHECK_SYS(close(fd));
	client_close(&c);
}

/*
 * A write by descriptor would hold the inode's lock while it waits for the memory that it is
 * of, and the creator's revoke for that.
 */
KTEST(nobody_writes_by_a_descriptor)
{
	struct arax_buffer_create b;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	int fds[2], fd;
	uint8_t *p, got[4];

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&c, PAGE);
	p = buffer_map(&c, &b);
	bytes_fill(p, PAGE, 1);
	fd = buffer_export(&c, b.handle, ARAX_EXPORT_ARAX);
	CHECK_OK(mediator_get(&m, buffer_query(&c, b.handle).id, &g));
	CHECK_SYS_ERR(write(fd, "no", 2), EINVAL);
	CHECK_SYS_ERR(write(g.fd, "no", 2), EINVAL);
	CHECK_SYS(pipe(fds));
	CHECK_EQ(write(fds[1], "no", 2), 2);
	CHECK_SYS_ERR(splice(fds[0], NULL, fd, NULL, 2, 0), EINVAL);
	CHECK(bytes_filled(p, PAGE, 1));
	/* Reading waits with no lock. */
	CHECK_EQ(read(fd, got, sizeof(got)), sizeof(got));
	CHECK(bytes_filled(got, sizeof(got), 1));
	CHECK_SYS(close(fds[0]));
	CHECK_SYS(close(fds[1]));
	CHECK_SYS(close(fd));
	mediator_close(&m);
	client_close(&c);
}

KTEST(the_region_can_not_be_taken_away)
{
	struct client c;

	client_open(&c, 4, 128, PAGE);
	CHECK_SYS_ERR(madvise(c.region, PAGE, MADV_REMOVE), EOPNOTSUPP);
	CHECK_SYS_ERR((long)mremap(c.region, c.init.region_size, 2 * c.init.region_size,
				   MREMAP_MAYMOVE), EFAULT);
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* Who keeps what                                                      */

KTEST(a_mapping_is_charged_until_the_last_munmap)
{
	const size_t n = 16 * PAGE;
	struct arax_buffer_create b;
	struct client c;
	uint8_t *p, *moved;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, n);
	p = buffer_map(&c, &b);
	CHECK_EQ(charged(&c), c.init.region_size + n);
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_EQ(charged(&c), c.init.region_size + n);
	/* The context itself has no handle for it. */
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_MEMORY].used,
		 c.init.region_size);
	CHECK_SYS(munmap(p + PAGE, 14 * PAGE));
	CHECK_EQ(charged(&c), c.init.region_size + n);
	moved = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED);
	CHECK_SYS(munmap(moved, PAGE));
	CHECK_EQ(charged(&c), c.init.region_size + n);
	CHECK_SYS(munmap(p + 15 * PAGE, PAGE));
	CHECK_EQ(charged(&c), c.init.region_size);
	client_close(&c);
}

static struct meet go;

static int keep_mapping(void *arg)
{
	(void)arg;
	meet_hear(&go);
	return 0;
}

KTEST(a_child_keeps_the_mapping_charged)
{
	struct arax_buffer_create b;
	struct client c, watch;
	uint8_t *p;
	uint64_t base;
	pid_t pid;

	client_open(&watch, 2, 128, 0);
	base = watch.init.region_size;
	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	p = buffer_map(&c, &b);
	meet_init(&go);
	pid = child_run(keep_mapping, NULL);
	CHECK_SYS(munmap(p, b.bytes));
	client_close(&c);
	/* The child has the file too: nothing is released yet. */
	CHECK_EQ(charged(&watch), base + c.init.region_size + b.bytes);
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	while (charged(&watch) != base)
		sleep_ms(1);
	client_close(&watch);
}

/* ------------------------------------------------------------------ */
/* Sharing                                                             */

KTEST(export_and_import_by_another_context)
{
	struct arax_buffer_create b;
	struct arax_buffer_import i, j;
	struct client a, c;
	uint8_t *p, *q, *r;
	int fd;

	client_open(&a, 4, 128, 0);
	client_open(&c, 4, 128, 0);
	b = buffer_new(&a, 4 * PAGE);
	p = buffer_map(&a, &b);
	bytes_fill(p, b.bytes, 1);
	fd = buffer_export(&a, b.handle, ARAX_EXPORT_ARAX);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, fd, &i));
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, fd, &j));
	CHECK(i.handle != j.handle);
	CHECK_EQ(i.bytes, b.bytes);
	CHECK_EQ(buffer_query(&c, i.handle).id, buffer_query(&a, b.handle).id);
	q = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, (off_t)i.map_offset);
	r = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(q != MAP_FAILED && r != MAP_FAILED);
	CHECK(bytes_filled(q, b.bytes, 1) && bytes_filled(r, b.bytes, 1));
	/* It is charged once, to its creator. */
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_MEMORY].used,
		 c.init.region_size);
	CHECK_EQ(charged(&c), a.init.region_size + c.init.region_size + b.bytes);
	client_close(&a);
	bytes_fill(q, b.bytes, 2);
	CHECK(bytes_filled(p, b.bytes, 2));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_EQ(buffer_query(&c, j.handle).bytes, b.bytes);
	client_close(&c);
}

KTEST(a_memfd_becomes_a_buffer)
{
	struct arax_buffer_import i;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	int fd = memfd_sealed(4 * PAGE, F_SEAL_SHRINK);
	uint8_t *p, *q, *r;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bytes_fill(p, 4 * PAGE, 1);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i));
	CHECK_EQ(i.bytes, 4 * PAGE);
	CHECK_EQ(buffer_query(&c, i.handle).type, 1 + ARAX_IMPORT_MEMFD);
	CHECK_EQ(charged(&c), c.init.region_size + 4 * PAGE);
	q = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, (off_t)i.map_offset);
	CHECK(q != MAP_FAILED);
	CHECK(bytes_filled(q, 4 * PAGE, 1));
	CHECK_OK(mediator_get(&m, buffer_query(&c, i.handle).id, &g));
	r = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	bytes_fill(r, 4 * PAGE, 2);
	CHECK(bytes_filled(p, 4 * PAGE, 2));
	bytes_fill(p, 4 * PAGE, 3);
	CHECK(bytes_filled(r, 4 * PAGE, 3));
	bytes_fill(r, 4 * PAGE, 2);
	/* A write seal that comes later is refused while it is pinned or mapped. */
	CHECK_SYS_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
	/* The mediator's mapping keeps the pins, and so the charge. */
	CHECK_SYS(close(g.fd));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_EQ(mediator_note(&m, ARAX_DISPATCH_BUFFER).d.type, ARAX_DISPATCH_BUFFER);
	CHECK_EQ(charged(&c), c.init.region_size + 4 * PAGE);
	CHECK_SYS(munmap(r, 4 * PAGE));
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK(bytes_filled(p, 4 * PAGE, 2));
	mediator_close(&m);
	client_close(&c);
}

/* Who is given a sealed memfd believes its seals: no mapping of our node goes round them. */
KTEST(seals_that_come_later_bind_mappings)
{
	const size_t n = 4 * PAGE;
	struct arax_buffer_import i;
	struct client c;
	int fd = memfd_sealed(n, F_SEAL_SHRINK);
	void *p;

	client_open(&c, 4, 128, 0);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i));
	/* What is pinned is none of its pages any more. */
	CHECK_SYS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)n));
	CHECK_SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	CHECK_SYS_ERR((long)mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd,
				 (off_t)i.map_offset), EPERM);
	CHECK_SYS_ERR(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
	p = mmap(NULL, n, PROT_READ, MAP_SHARED, c.fd, (off_t)i.map_offset);
	CHECK(p != MAP_FAILED);
	CHECK_SYS_ERR(mprotect(p, n, PROT_READ | PROT_WRITE), EACCES);
	CHECK_SYS(munmap(p, n));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_SYS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	CHECK_SYS(close(fd));
	client_close(&c);
}

/*
 * Who punches holes in his memfd has other pages himself.  The mediator has those that are
 * pinned, and waits for nobody: it never has the client's file.
 */
KTEST(a_memfd_with_holes_of_its_owner_s)
{
	const size_t n = 200;		/* pages: more than one touch maps */
	struct arax_buffer_import i;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	int fd = memfd_sealed(n * PAGE, F_SEAL_SHRINK);
	uint8_t *p, *r, *half;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	bytes_fill(p, n * PAGE, 1);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i));
	CHECK_OK(mediator_get(&m, buffer_query(&c, i.handle).id, &g));
	/* Which one is the kernel's matter. */
	CHECK_EQ(fallocate(g.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), -1);
	CHECK(errno == ENODEV || errno == EOPNOTSUPP);
	CHECK(mmap(NULL, (n + 1) * PAGE, PROT_READ, MAP_SHARED, g.fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, g.fd, (off_t)(n * PAGE)) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, g.fd, 0) == MAP_FAILED);
	r = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	half = mmap(NULL, n / 2 * PAGE, PROT_READ, MAP_SHARED, g.fd, (off_t)(n / 2 * PAGE));
	CHECK(r != MAP_FAILED && half != MAP_FAILED);
	CHECK_EQ(r[7 * PAGE], p[7 * PAGE]);
	CHECK_SYS(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(n * PAGE)));
	/* Neither what was touched nor what was not is another page, or a new one of the file's. */
	CHECK(bytes_filled(r, n * PAGE, 1));
	CHECK(!memcmp(half, r + n / 2 * PAGE, n / 2 * PAGE));
	CHECK_EQ(bytes_held(fd), 0);
	bytes_fill(r, n * PAGE, 2);
	CHECK(!memcmp(half, r + n / 2 * PAGE, n / 2 * PAGE));
	CHECK_EQ(bytes_held(fd), 0);
	CHECK_EQ(p[0] | p[n * PAGE - 1], 0);
	CHECK_EQ(charged(&c), c.init.region_size + n * PAGE);
	mediator_close(&m);
	client_close(&c);
}

/*
 * /proc opens a file anew by a descriptor that has nothing but its name.  The buffer's own
 * operations are gone with its last user, and so must be all that could be had by others.
 */
KTEST(a_name_of_pages_that_are_gone)
{
	struct arax_buffer_create b;
	char path[64];
	struct client c;
	struct stat st;
	int fd, name;
	uint8_t *p;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	fd = buffer_export(&c, b.handle, ARAX_EXPORT_ARAX);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	name = open(path, O_PATH | O_CLOEXEC);
	CHECK(name >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", name);
	CHECK_SYS_ERR(open(path, O_RDWR | O_CLOEXEC), EACCES);
	CHECK_SYS(close(fd));
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_EQ(charged(&c), c.init.region_size);

	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_SYS(fstat(fd, &st));
	CHECK_EQ(st.st_size, 0);
	CHECK_SYS_ERR(ftruncate(fd, PAGE), EPERM);
	CHECK_SYS_ERR(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, PAGE), EPERM);
	CHECK_SYS_ERR(pwrite(fd, "x", 1, 0), EPERM);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK(faults(p, true));
	CHECK_SYS(fstat(fd, &st));
	CHECK_EQ(st.st_blocks, 0);
	CHECK_SYS(munmap(p, 4 * PAGE));
	CHECK_SYS(close(fd));
	CHECK_SYS(close(name));
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* Huge pages                                                          */

#define HUGE	((size_t)2 << 20)

/* Addresses for a huge page, and some behind it, where nothing is. */
static uint8_t *huge_place(void)
{
	uint8_t *p = mmap(NULL, 3 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK_SYS(munmap(p, 3 * HUGE));
	return (uint8_t *)(((uintptr_t)p + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
}

/*
 * madvise(MADV_COLLAPSE) makes a huge page of any file's pages, and of holes behind its
 * end, whatever seals say: a buffer has what was charged for it, and in place.
 */
KTEST(a_buffer_collapses_into_no_huge_page)
{
	struct arax_buffer_create b;
	uint8_t *at = huge_place();
	struct client c;
	int fd;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, PAGE);
	fd = buffer_export(&c, b.handle, ARAX_EXPORT_ARAX);
	/* Neither at once nor by and by. */
	CHECK_SYS_ERR((intptr_t)mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
		      EINVAL);
	CHECK_SYS_ERR((intptr_t)mmap(at, HUGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), EINVAL);
	CHECK_SYS_ERR((intptr_t)mmap(at, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, PAGE), EINVAL);
	CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	CHECK_SYS_ERR((intptr_t)mremap(at, PAGE, HUGE, 0), EFAULT);
	CHECK_SYS(munmap(at, PAGE));
	CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c.fd,
		   (off_t)b.map_offset) == at);
	CHECK_SYS_ERR((intptr_t)mremap(at, PAGE, HUGE, 0), EFAULT);
	CHECK_SYS(munmap(at, PAGE));
	CHECK_EQ(bytes_held(fd), PAGE);
	CHECK_SYS(close(fd));

	/* One that would have room for it is not moved to other pages either. */
	b = buffer_new(&c, HUGE);
	CHECK(mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, c.fd,
		   (off_t)b.map_offset) == at);
	bytes_fill(at, HUGE, 1);
	CHECK_SYS_ERR(madvise(at, HUGE, MADV_COLLAPSE), EINVAL);
	CHECK(bytes_filled(at, HUGE, 1));
	CHECK_SYS(munmap(at, HUGE));
	client_close(&c);
}

/* A pin keeps all of a huge page, and so what it has behind the file's end. */
KTEST(a_memfd_with_more_behind_its_end)
{
	struct arax_buffer_import i;
	uint8_t *at = huge_place();
	struct client c;
	int ctl = open_node("/dev/arax-ctl"), tenant, fd;

	fd = memfd_sealed(PAGE, F_SEAL_SHRINK | F_SEAL_GROW);
	CHECK(mmap(at, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	at[0] = 1;
	if (madvise(at, HUGE, MADV_COLLAPSE) || bytes_held(fd) == PAGE) {
		tap_skip("no huge page was to be had: memory is in pieces, or this kernel gives none");
		return;
	}
	tenant = cgroup_new("/arax-behind");
	cgroup_enter("/arax-behind");
	client_open(&c, 4, 128, 0);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i));
	CHECK_EQ(i.bytes, PAGE);
	CHECK_EQ(buffer_query(&c, i.handle).bytes, PAGE);
	CHECK_EQ(charged(&c), c.init.region_size + HUGE);
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_OK(limit_set(ctl, tenant, ARAX_RES_MEMORY, c.init.region_size + HUGE - 1));
	CHECK_ERR(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i), EDQUOT);
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_OK(limit_set(ctl, tenant, ARAX_RES_MEMORY, ARAX_LIMIT_MAX));
	client_close(&c);
	cgroup_enter("");
	cgroup_remove("/arax-behind");
	CHECK_SYS(munmap(at, HUGE));
	close(tenant);
	close(ctl);
}

#define SHMEM_HUGE	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* Where an administrator wants huge pages for all shmem, a small buffer gets one, too. */
KTEST(a_huge_page_is_charged_whole)
{
	struct arax_buffer_create b;
	struct client c;
	uint64_t before;
	int fd;

	client_open(&c, 4, 128, 0);
	if (write_text(SHMEM_HUGE, "always")) {
		tap_skip("this kernel has no huge pages for shmem");
		client_close(&c);
		return;
	}
	before = charged(&c);
	b = buffer_new(&c, PAGE);
	fd = buffer_export(&c, b.handle, ARAX_EXPORT_ARAX);
	CHECK_OK(write_text(SHMEM_HUGE, "never"));
	CHECK_EQ(buffer_query(&c, b.handle).bytes, PAGE);
	CHECK_EQ(charged(&c), before + bytes_held(fd));
	CHECK_SYS(close(fd));
	CHECK_OK(buffer_destroy(&c, b.handle));
	CHECK_EQ(charged(&c), before);
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* A client's own memory                                               */

static void *anonymous(size_t pages)
{
	void *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	CHECK(p != MAP_FAILED);
	/* Whose surroundings would be charged as well. */
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	return p;
}

static int import_user(struct client *c, void *p, uint64_t bytes, struct arax_buffer_import *i)
{
	*i = (struct arax_buffer_import) { .size = sizeof(*i), .type = ARAX_IMPORT_USER, .fd = -1,
					   .address = (uintptr_t)p, .bytes = bytes };
	return CALL(c->fd, BUFFER_IMPORT, i);
}

/* Pages that are pinned for long, on the whole machine. */
static int64_t pinned(void)
{
	int64_t got = -1, back = -1;
	char line[128];
	FILE *f;

	/* Each CPU counts for itself, until somebody asks. */
	f = fopen("/proc/sys/vm/stat_refresh", "re");
	CHECK(f);
	fgets(line, sizeof(line), f);
	fclose(f);
	f = fopen("/proc/vmstat", "re");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "nr_foll_pin_acquired %" SCNd64, &got);
		sscanf(line, "nr_foll_pin_released %" SCNd64, &back);
	}
	if (f)
		fclose(f);
	CHECK(got >= 0 && back >= 0);
	return got - back;
}

static uint8_t *mediator_map(struct mediator *m, struct client *c, uint32_t handle, uint64_t bytes)
{
	struct arax_buffer_get g;
	void *p;

	CHECK_OK(mediator_get(m, buffer_query(c, handle).id, &g));
	CHECK_EQ(g.bytes, bytes);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(p != MAP_FAILED);
	/* Neither more than there is nor a copy of its own. */
	CHECK(mmap(NULL, bytes + PAGE, PROT_READ, MAP_SHARED, g.fd, 0) == MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, g.fd, (off_t)bytes) == MAP_FAILED);
	CHECK(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, g.fd, 0) == MAP_FAILED);
	CHECK_SYS(close(g.fd));
	return p;
}

KTEST(own_memory_is_used_in_place)
{
	const size_t n = 300;		/* pages: more than are pinned at a time */
	int64_t before = pinned();
	struct arax_buffer_import i;
	uint8_t *ours, *theirs;
	struct mediator m;
	struct client c;
	struct work w;
	uint32_t q;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	q = queue_new(&c, 0);
	ours = anonymous(n);
	bytes_fill(ours, n * PAGE, 1);
	CHECK_OK(import_user(&c, ours, n * PAGE, &i));
	CHECK_EQ(i.map_offset, 0);
	CHECK_EQ(buffer_query(&c, i.handle).type, 1 + ARAX_IMPORT_USER);
	CHECK_EQ(charged(&c), c.init.region_size + n * PAGE);
	CHECK_EQ(pinned(), before + (int64_t)n);
	CHECK_ERR(buffer_export(&c, i.handle, ARAX_EXPORT_ARAX), EOPNOTSUPP);
	CHECK_ERR(buffer_export(&c, i.handle, ARAX_EXPORT_DMABUF), EOPNOTSUPP);
	client_range_task(&c, q, 5, 0, i.handle, ARAX_INOUT, PAGE, 2 * PAGE);
	w = mediator_task(&m);
	CHECK_EQ(w.ranges[0].buffer, buffer_query(&c, i.handle).id);
	theirs = mediator_map(&m, &c, i.handle, n * PAGE);
	CHECK(bytes_filled(theirs, n * PAGE, 1));
	bytes_fill(theirs, n * PAGE, 2);
	CHECK(bytes_filled(ours, n * PAGE, 2));
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	/* The mediator's mapping keeps the pins, and so the charge. */
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_EQ(mediator_note(&m, ARAX_DISPATCH_BUFFER).d.type, ARAX_DISPATCH_BUFFER);
	CHECK_EQ(charged(&c), c.init.region_size + n * PAGE);
	CHECK_SYS(munmap(ours, n * PAGE));
	CHECK(bytes_filled(theirs, n * PAGE, 2));
	CHECK_SYS(munmap(theirs, n * PAGE));
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_EQ(pinned(), before);
	mediator_close(&m);
	client_close(&c);
}

/* A huge page, or NULL if there is none to be had. */
static uint8_t *huge_page(void)
{
	uint8_t *p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	CHECK(p != MAP_FAILED);
	p = (uint8_t *)(((uintptr_t)p + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	if (madvise(p, HUGE, MADV_HUGEPAGE))
		return NULL;
	bytes_fill(p, HUGE, 1);
	for (i = 0; i < HUGE; i += PAGE)
		if (frame(p) % (HUGE / PAGE) || frame(p + i) != frame(p) + i / PAGE)
			return NULL;
	return p;
}

/* A pin in a huge page keeps all of it, whatever its owner discards: so all of it is charged. */
KTEST(own_memory_in_a_huge_page)
{
	struct arax_buffer_import i, two;
	struct client c;
	uint8_t *p;
	int ctl = open_node("/dev/arax-ctl"), tenant;

	p = huge_page();
	if (!p) {
		tap_skip("no huge page was to be had: memory is in pieces, or this kernel gives none");
		return;
	}
	client_open(&c, 4, 128, 0);
	CHECK_OK(import_user(&c, p + 7 * PAGE, PAGE, &i));
	CHECK_EQ(buffer_query(&c, i.handle).bytes, PAGE);
	CHECK_SYS(madvise(p + 64 * PAGE, HUGE / 2, MADV_DONTNEED));
	CHECK_EQ(charged(&c), c.init.region_size + HUGE);
	CHECK_OK(import_user(&c, p, 3 * PAGE, &two));
	CHECK_EQ(charged(&c), c.init.region_size + 2 * HUGE);
	CHECK_OK(buffer_destroy(&c, two.handle));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_EQ(charged(&c), c.init.region_size);
	client_close(&c);

	p = huge_page();
	if (!p) {
		tap_skip("no second huge page was to be had");
		return;
	}
	tenant = cgroup_new("/arax-huge");
	cgroup_enter("/arax-huge");
	client_open(&c, 4, 128, 0);
	/* The whole of it is no more than it is. */
	CHECK_OK(import_user(&c, p, HUGE, &i));
	CHECK_EQ(charged(&c), c.init.region_size + HUGE);
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_OK(limit_set(ctl, tenant, ARAX_RES_MEMORY, c.init.region_size + HUGE - 1));
	CHECK_ERR(import_user(&c, p, PAGE, &i), EDQUOT);
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_OK(limit_set(ctl, tenant, ARAX_RES_MEMORY, ARAX_LIMIT_MAX));
	CHECK_OK(import_user(&c, p, PAGE, &i));
	client_close(&c);
	cgroup_enter("");
	cgroup_remove("/arax-huge");
	close(tenant);
	close(ctl);
}

KTEST(own_memory_that_can_not_be_pinned)
{
	int64_t before = pinned();
	struct arax_buffer_import i;
	struct mediator m;
	struct client c;
	uint8_t *p;

	client_open(&c, 4, 128, 0);
	p = anonymous(4);
	CHECK_SYS(munmap(p + 2 * PAGE, PAGE));
	CHECK_ERR(import_user(&c, p, 4 * PAGE, &i), EFAULT);
	CHECK_SYS(mprotect(p, PAGE, PROT_READ));
	CHECK_ERR(import_user(&c, p, PAGE, &i), EFAULT);
	CHECK_ERR(import_user(&c, (void *)-(uintptr_t)PAGE, PAGE, &i), EFAULT);
	/* The dispatch ring and the like have no pages that could be pinned. */
	mediator_open(&m, 0);
	CHECK_ERR(import_user(&c, (void *)((uintptr_t)m.ring & ~(uintptr_t)(PAGE - 1)), PAGE, &i),
		  EFAULT);
	mediator_close(&m);
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_EQ(pinned(), before);
	client_close(&c);
}

/*
 * A file's pages that are written back would be written to behind the file system's back.  What
 * is the process' own, or a file's in memory, can be had.
 */
KTEST(mapped_files_are_not_own_memory)
{
	int64_t before = pinned();
	struct arax_buffer_import i;
	struct client c;
	uint8_t *p;
	int fd;

	client_open(&c, 4, 128, 0);
	fd = open("/dev/ram0", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK_ERR(import_user(&c, p, 4 * PAGE, &i), EFAULT);
	CHECK_EQ(charged(&c), c.init.region_size);
	CHECK_EQ(pinned(), before);
	CHECK_SYS(munmap(p, 4 * PAGE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK_OK(import_user(&c, p, 4 * PAGE, &i));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_SYS(munmap(p, 4 * PAGE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK_OK(import_user(&c, p, 4 * PAGE, &i));
	CHECK_OK(buffer_destroy(&c, i.handle));
	CHECK_SYS(munmap(p, 4 * PAGE));
	CHECK_SYS(close(fd));
	client_close(&c);
}

static int stay(void *arg)
{
	meet_hear(&go);
	return bytes_filled(arg, PAGE, 1) ? 0 : 1;
}

/*
 * The parent keeps the pages that are pinned, and its child gets others.  The child lives
 * while the parent writes: else a page that both had would be the parent's again.
 */
KTEST(own_memory_and_a_child)
{
	struct arax_buffer_import i;
	uint8_t *ours, *theirs;
	struct mediator m;
	struct client c;
	pid_t pid;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	ours = anonymous(1);
	bytes_fill(ours, PAGE, 1);
	CHECK_OK(import_user(&c, ours, PAGE, &i));
	theirs = mediator_map(&m, &c, i.handle, PAGE);
	meet_init(&go);
	pid = child_run(stay, ours);
	bytes_fill(ours, PAGE, 2);
	CHECK(bytes_filled(theirs, PAGE, 2));
	meet_say(&go);
	CHECK_OK(child_wait(pid));
	CHECK_SYS(munmap(theirs, PAGE));
	mediator_close(&m);
	client_close(&c);
}

static int import_and_die(void *arg)
{
	struct arax_buffer_import *shared = arg, i;
	struct client c;
	uint8_t *p;

	client_open(&c, 4, 128, 0);
	p = anonymous(4);
	bytes_fill(p, 4 * PAGE, 3);
	CHECK_OK(import_user(&c, p, 4 * PAGE, &i));
	shared->address = buffer_query(&c, i.handle).id;
	meet_say(&go);
	for (;;)
		pause();
}

KTEST(own_memory_outlives_its_process_in_the_mediator)
{
	struct arax_buffer_import *shared;
	int64_t before = pinned();
	struct arax_buffer_get g;
	struct client watch;
	struct mediator m;
	uint8_t *theirs;
	uint64_t base;
	pid_t pid;

	client_open(&watch, 2, 128, 0);
	base = charged(&watch);
	mediator_open(&m, 0);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	meet_init(&go);
	pid = child_run(import_and_die, shared);
	meet_hear(&go);
	CHECK_OK(mediator_get(&m, shared->address, &g));
	theirs = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(theirs != MAP_FAILED);
	CHECK_SYS(close(g.fd));
	CHECK_SYS(kill(pid, SIGKILL));
	child_wait(pid);
	while (charged(&watch) != base + 4 * PAGE)
		sleep_ms(1);
	CHECK(bytes_filled(theirs, 4 * PAGE, 3));
	CHECK_SYS(munmap(theirs, 4 * PAGE));
	while (charged(&watch) != base)
		sleep_ms(1);
	CHECK_EQ(pinned(), before);
	mediator_close(&m);
	client_close(&watch);
}

KTEST(a_buffer_becomes_a_dma_buf)
{
	struct dma_buf_sync sync = { DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	struct client a, c;
	uint8_t *p, *q;
	int fd;

	client_open(&a, 4, 128, 0);
	client_open(&c, 4, 128, 0);
	b = buffer_new(&a, 4 * PAGE);
	p = buffer_map(&a, &b);
	bytes_fill(p, b.bytes, 1);
	fd = buffer_export(&a, b.handle, ARAX_EXPORT_DMABUF);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(lseek(fd, 0, SEEK_END), b.bytes);
	q = mmap(NULL, b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(q != MAP_FAILED);
	CHECK_SYS(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	CHECK(bytes_filled(q, b.bytes, 1));
	bytes_fill(q, b.bytes, 2);
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	CHECK_SYS(ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	CHECK(bytes_filled(p, b.bytes, 2));
	CHECK_SYS_ERR(madvise(q, b.bytes, MADV_REMOVE), EOPNOTSUPP);
	/* It comes home: the same buffer, charged once. */
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_DMABUF, fd, &i));
	CHECK_EQ(buffer_query(&c, i.handle).id, buffer_query(&a, b.handle).id);
	CHECK_EQ(charged(&c), a.init.region_size + c.init.region_size + b.bytes);
	CHECK_OK(buffer_destroy(&c, i.handle));
	/* The dma-buf alone keeps it, and its charge. */
	CHECK_SYS(munmap(p, b.bytes));
	client_close(&a);
	CHECK_EQ(charged(&c), c.init.region_size + b.bytes);
	CHECK_SYS(munmap(q, b.bytes));
	CHECK_EQ(charged(&c), c.init.region_size + b.bytes);
	CHECK_SYS(close(fd));
	while (charged(&c) != c.init.region_size)
		sleep_ms(1);
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* Revocation                                                          */

static void buffer_revoke(struct client *c, uint32_t handle)
{
	struct arax_handle h = { .size = sizeof(h), .handle = handle };

	CHECK_OK(CALL(c->fd, BUFFER_REVOKE, &h));
}

KTEST(revoked_pages_fault)
{
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	struct arax_buffer_get g;
	struct mediator m;
	struct client a, c;
	uint8_t *map[5];
	int fd, dma;
	unsigned int k;

	client_open(&a, 4, 128, 0);
	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&a, 4 * PAGE);
	map[0] = buffer_map(&a, &b);
	fd = buffer_export(&a, b.handle, ARAX_EXPORT_ARAX);
	dma = buffer_export(&a, b.handle, ARAX_EXPORT_DMABUF);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, fd, &i));
	map[1] = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd,
		      (off_t)i.map_offset);
	map[2] = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	map[3] = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dma, 0);
	CHECK_OK(mediator_get(&m, buffer_query(&a, b.handle).id, &g));
	map[4] = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	for (k = 0; k < 5; k++) {
		CHECK(map[k] != MAP_FAILED);
		CHECK(!faults(map[k], true) && !faults(map[k] + 3 * PAGE, false));
	}
	buffer_revoke(&a, b.handle);
	for (k = 0; k < 5; k++)
		CHECK(faults(map[k], true) && faults(map[k] + 3 * PAGE, false));
	CHECK_SYS_ERR((long)mmap(NULL, i.bytes, PROT_READ, MAP_SHARED, c.fd,
				 (off_t)i.map_offset), ESTALE);
	CHECK_EQ(buffer_query(&c, i.handle).flags, ARAX_BUFFER_IS_REVOKED);
	CHECK_ERR(buffer_import(&c, ARAX_IMPORT_DMABUF, dma, &i), ESTALE);
	/* Who maps it waits for whoever empties a million other mappings of it. */
	CHECK_ERR(mediator_get(&m, buffer_query(&a, b.handle).id, &g), ESTALE);
	buffer_revoke(&a, b.handle);		/* twice is once */
	mediator_close(&m);
	client_close(&c);
	client_close(&a);
}

/* A task that ran on a buffer which was taken away meanwhile has seen nobody knows what. */
KTEST(revoked_under_a_task)
{
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	struct client a, c;
	struct mediator m;
	struct work w;
	uint32_t q;
	int fd;

	client_open(&a, 4, 128, 0);
	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	b = buffer_new(&a, PAGE);
	fd = buffer_export(&a, b.handle, ARAX_EXPORT_ARAX);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_ARAX, fd, &i));
	q = queue_new(&c, 0);
	client_range_task(&c, q, 5, 0, i.handle, ARAX_IN, 0, PAGE);
	w = mediator_task(&m);
	buffer_revoke(&a, b.handle);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, -ESTALE);
	mediator_close(&m);
	client_close(&c);
	client_close(&a);
}

/* A page that somebody has pinned is that somebody's, not the buffer's. */
KTEST(revocation_under_a_pin)
{
	struct arax_buffer_create b;
	struct client c;
	struct iovec v;
	uint8_t *p, got[64];
	int fds[2];

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, PAGE);
	p = buffer_map(&c, &b);
	bytes_fill(p, PAGE, 1);
	v = (struct iovec) { p, PAGE };
	CHECK_SYS(pipe2(fds, O_CLOEXEC));
	CHECK_EQ(vmsplice(fds[1], &v, 1, 0), PAGE);
	buffer_revoke(&c, b.handle);
	CHECK(faults(p, false));
	CHECK_EQ(read(fds[0], got, sizeof(got)), sizeof(got));
	CHECK(bytes_filled(got, sizeof(got), 1));
	client_close(&c);
}

static int touch_for_ever(void *arg)
{
	volatile uint8_t *p = arg;
	unsigned int i;

	for (i = 0;; i++)
		p[i % 16 * PAGE]++;
	return 0;
}

/* Faults race with the truncation: nobody brings a page back. */
KTEST(revocation_races_with_faults)
{
	int round, rounds = ktest_rounds(40);
	struct arax_buffer_create b;
	struct client c;
	pid_t pid[2];
	uint8_t *p;
	int k;

	client_open(&c, 4, 128, 0);
	for (round = 0; round < rounds; round++) {
		b = buffer_new(&c, 16 * PAGE);
		p = buffer_map(&c, &b);
		for (k = 0; k < 2; k++)
			pid[k] = child_run(touch_for_ever, p);
		usleep((useconds_t)(round * 200));
		buffer_revoke(&c, b.handle);
		for (k = 0; k < 2; k++)
			CHECK_EQ(child_wait(pid[k]), 1000 + SIGBUS);
		CHECK_OK(buffer_destroy(&c, b.handle));
		CHECK_SYS(munmap(p, b.bytes));
	}
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* The memory cgroup                                                   */

static int hoard(void *arg)
{
	struct arax_buffer_create b;
	struct client c;
	long long before, after;
	int n;

	(void)arg;
	cgroup_enter("ktest-memcg");
	client_open(&c, 4, 128, 0);
	before = cgroup_read("ktest-memcg", "memory.current", NULL);
	CHECK_OK(buffer_try(&c, 4 << 20, &b));
	after = cgroup_read("ktest-memcg", "memory.current", NULL);
	/* Charged to its creator, without having been touched; each CPU has up to 64 pages in stock. */
	CHECK(after - before >= 3 << 20);
	CHECK_ERR(buffer_try(&c, 48 << 20, &b), ENOMEM);
	for (n = 0; !buffer_try(&c, 1 << 20, &b); n++)
		;
	CHECK(n < 32);
	client_close(&c);
	return 0;
}

KTEST(beyond_the_memory_cgroup_is_ENOMEM)
{
	long long kills;
	int fd = cgroup_new("ktest-memcg");

	close(fd);
	cgroup_write("ktest-memcg", "memory.max", "33554432");
	kills = cgroup_read("ktest-memcg", "memory.events", "oom_kill");
	CHECK_OK(child_wait(child_run(hoard, NULL)));
	CHECK_EQ(cgroup_read("ktest-memcg", "memory.events", "oom_kill"), kills);
	cgroup_remove("ktest-memcg");
}

static int make_buffer(struct client *c)
{
	struct arax_buffer_create b;

	return buffer_try(c, PAGE, &b);
}

static int make_import(struct client *c)
{
	static char own[PAGE] __attribute__((aligned(PAGE)));
	struct arax_buffer_import i = {
		.size = sizeof(i), .type = ARAX_IMPORT_USER, .fd = -1,
		.address = (uintptr_t)own, .bytes = PAGE,
	};

	own[0] = 1;
	return CALL(c->fd, BUFFER_IMPORT, &i);
}

static int make_queue(struct client *c)
{
	struct arax_queue_create q = { .size = sizeof(q), .flags = ARAX_QUEUE_IN_ORDER };

	return CALL(c->fd, QUEUE_CREATE, &q);
}

static int make_timeline(struct client *c)
{
	struct arax_timeline_create t = { .size = sizeof(t) };

	return CALL(c->fd, TIMELINE_CREATE, &t);
}

/* What is small: it has no room for what is made besides its pages, if it has any. */
static int (*const made[])(struct client *c) = {
	make_buffer, make_import, make_queue, make_timeline,
};

static int fill_cgroup(void *arg)
{
	int (*make)(struct client *c) = *(int (*const *)(struct client *c))arg;
	int n, more, err = 0, last = -ENOMEM;
	struct client c;

	cgroup_enter("ktest-memcg");
	client_open(&c, 4, 128, 0);
	/* Nothing of the program's own is to be made when there is no room for it. */
	CHECK_SYS(mlockall(MCL_CURRENT));
	for (n = 0; !err; n++)
		err = make(&c);
	/* Whatever of it is the first that has no room. */
	for (more = 0; more < 64 && (!last || last == -ENOMEM); more++)
		last = make(&c);
	CHECK_SYS(close(c.fd));
	CHECK_SYS(munmap(c.region, c.init.region_size));
	CHECK(n > 100);
	CHECK_ERR(err, ENOMEM);
	CHECK_EQ(more, 64);
	return 0;
}

KTEST(small_things_beyond_the_memory_cgroup_are_ENOMEM)
{
	long long kills;
	unsigned int i;

	close(cgroup_new("ktest-memcg"));
	cgroup_write("ktest-memcg", "memory.max", "6291456");
	kills = cgroup_read("ktest-memcg", "memory.events", "oom_kill");
	for (i = 0; i < sizeof(made) / sizeof(*made); i++)
		CHECK_OK(child_wait(child_run(fill_cgroup, (void *)&made[i])));
	CHECK_EQ(cgroup_read("ktest-memcg", "memory.events", "oom_kill"), kills);
	cgroup_remove("ktest-memcg");
}

static int commit_all(void *arg)
{
	struct arax_buffer_create b;
	struct arax_buffer_import i;
	int fd = memfd_sealed(4 * PAGE, F_SEAL_SHRINK);
	struct client c;

	client_open(&c, 4, 128, 0);
	CHECK_OK(write_text("/proc/sys/vm/overcommit_ratio", "0"));
	CHECK_OK(write_text("/proc/sys/vm/overcommit_memory", "2"));
	CHECK_ERR(buffer_try(&c, 4 * PAGE, &b), ENOMEM);
	CHECK_ERR(buffer_import(&c, ARAX_IMPORT_MEMFD, fd, &i), ENOMEM);
	CHECK_EQ(charged(&c), c.init.region_size);
	client_close(&c);
	return 0;
}

static int set_number(const char *path, long long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", value);
	return write_text(path, text);
}

/* By a child: however that ends, others have memory again. */
KTEST(beyond_what_may_be_committed_is_ENOMEM)
{
	long long memory = read_number("/proc/sys/vm/overcommit_memory");
	long long ratio = read_number("/proc/sys/vm/overcommit_ratio");
	int status = child_wait(child_run(commit_all, NULL));

	CHECK_OK(set_number("/proc/sys/vm/overcommit_memory", memory));
	CHECK_OK(set_number("/proc/sys/vm/overcommit_ratio", ratio));
	CHECK_OK(status);
}
