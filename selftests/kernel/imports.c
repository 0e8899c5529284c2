// SPDX-License-Identifier: MIT
/* Other drivers' dma-bufs as buffers: their way in, and their end. */
#include "ktest.h"
#include "selftests/qemu/borrower/borrower.h"

#include <linux/dma-heap.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static uint64_t charged(struct client *c)
{
	return usage(c, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].used;
}

KTEST(a_udmabuf_becomes_a_buffer)
{
	struct arax_buffer_import i;
	struct arax_buffer_get g;
	struct mediator m;
	struct client c;
	int memfd = memfd_sealed(4 * PAGE, F_SEAL_SHRINK);
	int fd = udmabuf_new(memfd, 4 * PAGE);
	uint8_t *p, *q, *r;

	client_open(&c, 4, 128, 0);
	mediator_open(&m, 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	bytes_fill(p, 4 * PAGE, 1);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_DMABUF, fd, &i));
	CHECK_EQ(i.bytes, 4 * PAGE);
	CHECK_EQ(buffer_query(&c, i.handle).type, 1 + ARAX_IMPORT_DMABUF);
	close(fd);
	q = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, (off_t)i.map_offset);
	CHECK(q != MAP_FAILED);
	CHECK(bytes_filled(q, 4 * PAGE, 1));
	CHECK_OK(mediator_get(&m, buffer_query(&c, i.handle).id, &g));
	r = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g.fd, 0);
	CHECK(r != MAP_FAILED);
	bytes_fill(r, 4 * PAGE, 2);
	CHECK(bytes_filled(p, 4 * PAGE, 2));
	/* Part of it, but no more than there is. */
	r = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, g.fd, 3 * PAGE);
	CHECK(r != MAP_FAILED);
	CHECK(!memcmp(r, q + 3 * PAGE, PAGE));
	CHECK_SYS_ERR((long)mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, g.fd, 3 * PAGE), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, g.fd, 4 * PAGE), EINVAL);
	CHECK_SYS_ERR((long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, g.fd, 0), EINVAL);
	mediator_close(&m);
	client_close(&c);
}

/* Descriptor @at is each of @of in turn. */
struct turns {
	int at, of[3];
	bool stop;
};

static void *take_turns(void *arg)
{
	struct turns *t = arg;
	unsigned int i;

	for (i = 0; !__atomic_load_n(&t->stop, __ATOMIC_RELAXED); i++)
		CHECK_SYS(dup2(t->of[i % 3], t->at));
	return NULL;
}

/*
 * It is looked at twice, and may be another one by then: of more than was charged, or a buffer that
 * comes home.  What is imported is what was looked at, or nothing is, and charged.
 */
KTEST(a_dma_buf_becomes_another_while_it_is_imported)
{
	unsigned int round, rounds = (unsigned int)ktest_rounds(20000), others = 0, k;
	int memfd = memfd_sealed(8 * PAGE, F_SEAL_SHRINK), err;
	struct arax_buffer_import i;
	struct arax_buffer_create b;
	struct turns t = { 0 };
	struct client c;
	pthread_t thread;
	uint8_t *p;

	client_open(&c, 4, 128, 0);
	b = buffer_new(&c, 4 * PAGE);
	t.of[0] = udmabuf_new(memfd, 4 * PAGE);
	t.of[1] = udmabuf_new(memfd, 8 * PAGE);
	t.of[2] = buffer_export(&c, b.handle, ARAX_EXPORT_DMABUF);
	t.at = dup(t.of[0]);
	CHECK(t.of[2] >= 0 && t.at >= 0);
	CHECK_OK(pthread_create(&thread, NULL, take_turns, &t));
	for (round = 0; round < rounds && others < 10; round++) {
		err = buffer_import(&c, ARAX_IMPORT_DMABUF, t.at, &i);
		if (err) {
			CHECK_EQ(err, -EINVAL);
			others++;
			continue;
		}
		CHECK(i.bytes == 4 * PAGE || i.bytes == 8 * PAGE);
		p = mmap(NULL, i.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, (off_t)i.map_offset);
		CHECK(p != MAP_FAILED);
		p[i.bytes - 1] = 1;
		CHECK_SYS(munmap(p, i.bytes));
		CHECK_OK(buffer_destroy(&c, i.handle));
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	CHECK_OK(pthread_join(thread, NULL));
	for (k = 0; k < 3; k++)
		CHECK_SYS(close(t.of[k]));
	CHECK_SYS(close(t.at));
	while (charged(&c) != c.init.region_size + b.bytes)
		sleep_ms(1);
	printf("# another one %u times of %u\n", others, round);
	client_close(&c);
}

/* Memory of the system's dma-heap, by a descriptor that was opened with @flags. */
static int dma_heap(int flags)
{
	struct dma_heap_allocation_data d = { .len = 4 * PAGE,
					      .fd_flags = (uint32_t)(flags | O_CLOEXEC) };
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);

	if (heap < 0)
		return -1;
	CHECK_SYS(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &d));
	close(heap);
	return (int)d.fd;
}

/* Whom a dma-buf was lent for reading doesn't get to write to it by importing it. */
KTEST(a_dma_buf_for_reading_stays_so)
{
	static const int access[] = { O_RDONLY, O_WRONLY, O_RDWR };
	struct arax_buffer_import i;
	struct client c;
	unsigned int k;
	int fd;

	client_open(&c, 4, 128, 0);
	for (k = 0; k < 3; k++) {
		fd = dma_heap(access[k]);
		if (fd < 0) {
			tap_skip("this kernel has no dma-heap");
			break;
		}
		CHECK_EQ(buffer_import(&c, ARAX_IMPORT_DMABUF, fd, &i),
			 access[k] == O_RDWR ? 0 : -EACCES);
		CHECK_EQ(charged(&c), c.init.region_size + (access[k] == O_RDWR ? 4 * PAGE : 0));
		CHECK_SYS(close(fd));
	}
	client_close(&c);
}

/* ------------------------------------------------------------------ */
/* The end                                                             */

/* An epoll set whose lock is held: the kernel waits for a page to put an event on. */
struct held_set {
	int epoll, uffd;
	struct epoll_event *page;
	pthread_t thread;
};

static void *hold(void *arg)
{
	struct held_set *h = arg;

	epoll_wait(h->epoll, h->page, 1, -1);
	return NULL;
}

static void set_make(struct held_set *h)
{
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK_SYS(h->epoll);
}

static void set_hold(struct held_set *h)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct pollfd p = { .events = POLLIN };

	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	CHECK_SYS(h->uffd);
	CHECK_SYS(ioctl(h->uffd, UFFDIO_API, &api));
	h->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(h->page != MAP_FAILED);
	reg.range.start = (uintptr_t)h->page;
	reg.range.len = PAGE;
	CHECK_SYS(ioctl(h->uffd, UFFDIO_REGISTER, &reg));
	CHECK_OK(pthread_create(&h->thread, NULL, hold, h));
	p.fd = h->uffd;
	CHECK_EQ(poll(&p, 1, -1), 1);
}

/* With one file in it. */
static void set_hold_of(struct held_set *h, int watched)
{
	struct epoll_event ev = { .events = EPOLLIN };

	set_make(h);
	CHECK_SYS(epoll_ctl(h->epoll, EPOLL_CTL_ADD, watched, &ev));
	set_hold(h);
}

static void set_release(struct held_set *h)
{
	struct uffdio_zeropage z = { .range = { (uintptr_t)h->page, PAGE } };

	CHECK_SYS(ioctl(h->uffd, UFFDIO_ZEROPAGE, &z));
	CHECK_OK(pthread_join(h->thread, NULL));
	CHECK_SYS(close(h->uffd));
	CHECK_SYS(close(h->epoll));
}

/* A user's program that imports a dma-buf of a page, and ends when it is told to. */
struct importer {
	unsigned int uid;
	int dmabuf;
	struct meet go;
	pid_t pid;
	int id[2];		/* a pipe */
	struct arax_buffer_get got;
	void *mapped;
};

static int imports(void *arg)
{
	struct importer *im = arg;
	struct arax_buffer_import i;
	struct client c;
	uint64_t id;

	become(im->uid);
	client_open(&c, 4, 128, 0);
	CHECK_OK(buffer_import(&c, ARAX_IMPORT_DMABUF, im->dmabuf, &i));
	id = buffer_query(&c, i.handle).id;
	CHECK_EQ(write(im->id[1], &id, sizeof(id)), sizeof(id));
	meet_hear(&im->go);
	return 0;
}

static int lent(void)
{
	int lender = open("/dev/borrower", O_RDWR | O_CLOEXEC), fd;

	CHECK_SYS(lender);
	fd = ioctl(lender, BORROW_LEND, LEND_SLOW_MMAP);
	CHECK_SYS(fd);
	CHECK_SYS(close(lender));
	return fd;
}

static void importer_start(struct importer *im, unsigned int uid)
{
	im->uid = uid;
	im->dmabuf = lent();
	meet_init(&im->go);
	CHECK_SYS(pipe2(im->id, O_CLOEXEC));
	im->pid = child_run(imports, im);
}

/* What the mediator has is all that is left of it. */
static void importer_leave(struct importer *im, struct mediator *m)
{
	uint64_t id;

	CHECK_EQ(read(im->id[0], &id, sizeof(id)), sizeof(id));
	CHECK_OK(mediator_get(m, id, &im->got));
	im->mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, im->got.fd, 0);
	CHECK(im->mapped != MAP_FAILED);
	meet_say(&im->go);
	CHECK_OK(child_wait(im->pid));
}

static void importer_drop(struct importer *im)
{
	CHECK_SYS(munmap(im->mapped, PAGE));
	CHECK_SYS(close(im->got.fd));
}

static void importer_end(struct importer *im)
{
	int i;

	CHECK_SYS(close(im->dmabuf));
	for (i = 0; i < 2; i++) {
		CHECK_SYS(close(im->id[i]));
		CHECK_SYS(close(im->go.fd[i]));
	}
}

/*
 * The last one who closes a dma-buf waits for who holds the lock of an epoll set that watches it: as
 * long as that one likes.  It is neither the mediator, nor who closes other users'.
 */
KTEST(an_import_whose_end_waits_keeps_nobody)
{
	enum { WATCHED, SAME_USERS, OTHERS, NR };
	struct epoll_event ev = { .events = EPOLLIN };
	struct importer im[NR];
	struct held_set h;
	struct client watch;
	struct mediator m;
	uint64_t base;
	int i, epoll;

	for (i = 0; i < NR; i++)
		importer_start(&im[i], i == OTHERS ? USER2 : USER1);
	client_open(&watch, 4, 128, 0);
	mediator_open(&m, 0);
	for (i = 0; i < NR; i++)
		importer_leave(&im[i], &m);
	base = watch.init.region_size;
	CHECK(COMES(charged(&watch) == base + NR * PAGE));
	/* Nor can it be watched by what the mediator has. */
	epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK_SYS_ERR(epoll_ctl(epoll, EPOLL_CTL_ADD, im[WATCHED].got.fd, &ev), EPERM);
	set_hold_of(&h, im[WATCHED].dmabuf);
	for (i = 0; i < NR; i++)
		importer_end(&im[i]);
	for (i = 0; i < NR; i++)
		importer_drop(&im[i]);
	CHECK(COMES(charged(&watch) == base + 2 * PAGE));
	mediator_close(&m);
	mediator_open(&m, 0);
	CHECK_EQ(charged(&watch), base + 2 * PAGE);
	/* Two ends are not over: the module stays for them alone. */
	mediator_close(&m);
	client_close(&watch);
	CHECK(COMES(read_number("/sys/module/arax/refcnt") == 2));
	CHECK_SYS_ERR(syscall(SYS_delete_module, "arax", O_NONBLOCK), EAGAIN);
	set_release(&h);
	CHECK(COMES(!read_number("/sys/module/arax/refcnt")));
}

/* As a worker does: it maps what it is sent, closes that, and unmaps when it likes. */
struct worker {
	struct importer *im;
	struct meet mapped, unmap;
};

static int maps(void *arg)
{
	struct worker *w = arg;
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->im->got.fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK_SYS(close(w->im->got.fd));
	CHECK_SYS(close(w->im->dmabuf));
	meet_say(&w->mapped);
	meet_hear(&w->unmap);
	CHECK_SYS(munmap(p, PAGE));
	return 0;
}

/* Who unmaps it last is not kept either, and until then it is charged. */
KTEST(an_import_is_there_until_workers_unmap_it)
{
	struct importer im;
	struct worker w = { .im = &im };
	struct held_set h;
	struct client watch;
	struct mediator m;
	pid_t pid;

	importer_start(&im, USER1);
	client_open(&watch, 4, 128, 0);
	mediator_open(&m, 0);
	importer_leave(&im, &m);
	meet_init(&w.mapped);
	meet_init(&w.unmap);
	pid = child_run(maps, &w);
	meet_hear(&w.mapped);
	set_hold_of(&h, im.dmabuf);
	importer_end(&im);
	importer_drop(&im);
	sleep_ms(50);
	CHECK_EQ(charged(&watch), watch.init.region_size + PAGE);
	meet_say(&w.unmap);
	CHECK_OK(child_wait(pid));
	CHECK_EQ(charged(&watch), watch.init.region_size + PAGE);
	set_release(&h);
	CHECK(COMES(charged(&watch) == watch.init.region_size));
	mediator_close(&m);
	client_close(&watch);
}

/* Uids are cheap: so many that each has one which stands still. */
#define MANY	520

static struct crowd {
	int dmabuf[MANY + 1], got[MANY + 1];
	int ids[2];
	struct meet go;
} crowd;

static int crowds(void *arg)
{
	static struct client c[MANY + 1];
	struct crowd *cr = arg;
	struct arax_buffer_import b;
	uint64_t id;
	int i;

	for (i = 0; i <= MANY; i++) {
		CHECK_SYS(setresuid(20000 + (uid_t)i, 20000 + (uid_t)i, 0));
		client_open(&c[i], 4, 128, 0);
		CHECK_OK(buffer_import(&c[i], ARAX_IMPORT_DMABUF, cr->dmabuf[i], &b));
		id = buffer_query(&c[i], b.handle).id;
		CHECK_EQ(write(cr->ids[1], &id, sizeof(id)), sizeof(id));
		CHECK_SYS(setresuid(0, 0, 0));
	}
	meet_hear(&cr->go);
	return 0;
}

/* Who has one that can't stand still is not behind them. */
KTEST(ends_of_many_users_that_wait_keep_nobody)
{
	struct rlimit r = { 4096, 4096 };
	struct epoll_event ev = { .events = EPOLLIN };
	struct arax_buffer_get g;
	struct crowd *cr = &crowd;
	struct client watch;
	struct held_set h;
	struct mediator m;
	uint64_t id;
	pid_t pid;
	int i;

	CHECK_SYS(setrlimit(RLIMIT_NOFILE, &r));
	CHECK_SYS(pipe2(cr->ids, O_CLOEXEC));
	meet_init(&cr->go);
	for (i = 0; i <= MANY; i++)
		cr->dmabuf[i] = lent();
	pid = child_run(crowds, cr);
	client_open(&watch, 4, 128, 0);
	mediator_open(&m, 0);
	for (i = 0; i <= MANY; i++) {
		CHECK_EQ(read(cr->ids[0], &id, sizeof(id)), sizeof(id));
		CHECK_OK(mediator_get(&m, id, &g));
		cr->got[i] = g.fd;
	}
	set_make(&h);
	for (i = 0; i < MANY; i++)
		CHECK_SYS(epoll_ctl(h.epoll, EPOLL_CTL_ADD, cr->dmabuf[i], &ev));
	set_hold(&h);
	meet_say(&cr->go);
	CHECK_OK(child_wait(pid));
	for (i = 0; i <= MANY; i++)
		CHECK_SYS(close(cr->dmabuf[i]));
	CHECK(COMES(charged(&watch) == watch.init.region_size + (MANY + 1) * PAGE));
	for (i = 0; i <= MANY; i++)
		CHECK_SYS(close(cr->got[i]));
	CHECK(COMES(charged(&watch) == watch.init.region_size + MANY * PAGE));
	set_release(&h);
	CHECK(COMES(charged(&watch) == watch.init.region_size));
	mediator_close(&m);
	client_close(&watch);
}
