// SPDX-License-Identifier: MIT
/* Tasks on memory of other drivers, and on buffers that went through their interface. */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES	16384
#define WORDS	(BYTES / 4)
#define SOON	arax_deadline(60 * SECOND)

/* Sockets carry none: the broker link says so, and there is no more to be seen. */
static int has_dmabufs(struct stack *s)
{
	struct arax_buffer *b;

	if (stack_on_kernel(s))
		return 1;
	b = stack_buffer(s, BYTES);
	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_DMABUF), -EOPNOTSUPP);
	return 0;
}

static int add(struct arax_queue *q, const struct arax_kernel *k, struct arax_buffer *b,
	       uint32_t value)
{
	struct arax_event e = { 0 };

	CHECK_EQ(arax_launch(q, k, arax_grid(1, 1, 1), ARAX_ARGS(value),
			     ARAX_RANGES(arax_inout(b)), &e), 0);
	return arax_wait(&e, SOON);
}

/* What the program, its tasks and @other, another mapping of the memory, write the others see. */
static void use(struct stack *s, int fd, uint32_t *other)
{
	struct arax_buffer *b, *copy = stack_buffer(s, BYTES);
	struct arax_kernel k = stack_kernel(s, "st_add");
	struct arax_event e = { 0 };
	uint32_t *x, *y = arax_buffer_data(copy), i;

	CHECK_EQ(arax_buffer_import(s->ax, ARAX_IMPORT_DMABUF, fd, &b), 0);
	close(fd);
	CHECK_EQ(arax_buffer_bytes(b), BYTES);
	x = arax_buffer_data(b);
	CHECK(x);
	for (i = 0; i < WORDS; i++)
		x[i] = i;
	CHECK_EQ(add(s->q, &k, b, 7), 0);
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(x[i], i + 7);
	for (i = 0; i < WORDS; i++) {
		CHECK_EQ(other[i], i + 7);
		other[i] = 2 * i;
	}
	CHECK_EQ(add(s->q, &k, b, 1), 0);
	CHECK_EQ(arax_copy(s->q, arax_out(copy), arax_in(b), &e), 0);
	CHECK_EQ(arax_wait(&e, SOON), 0);
	for (i = 0; i < WORDS; i++)
		CHECK_EQ(y[i], 2 * i + 1);
	/* An import is for its owner to hand on. */
	CHECK_EQ(arax_buffer_export(b, ARAX_EXPORT_DMABUF), -EOPNOTSUPP);
	arax_buffer_destroy(b);
}

TEST(tasks_on_a_udmabuf)
{
	struct udmabuf_create u = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES };
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	int dev, memfd, fd;
	void *other;

	if (!has_dmabufs(&s))
		return;
	dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		tap_skip("this kernel has no udmabuf");
	memfd = memfd_create("udmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(memfd >= 0 && !ftruncate(memfd, BYTES));
	CHECK_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	u.memfd = (uint32_t)memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &u);
	CHECK(fd >= 0);
	other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	CHECK(other != MAP_FAILED);
	use(&s, fd, other);
	stack_close(&s);
}

TEST(tasks_on_a_dma_heap)
{
	struct dma_heap_allocation_data d = { .len = BYTES, .fd_flags = O_RDWR | O_CLOEXEC };
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	void *other;
	int heap;

	if (!has_dmabufs(&s))
		return;
	heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	if (heap < 0)
		tap_skip("this kernel has no dma-heap");
	CHECK_EQ(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &d), 0);
	other = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)d.fd, 0);
	CHECK(other != MAP_FAILED);
	use(&s, (int)d.fd, other);
	stack_close(&s);
}

/* Both have tasks on it, until who made it takes it back. */
TEST(a_buffer_lent_as_dmabuf)
{
	struct stack one = stack_open(ARAX_QUEUE_DATAFLOW), two = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel k = stack_kernel(&one, "st_add"), l = stack_kernel(&two, "st_add");
	struct arax_buffer *mine, *theirs;
	uint32_t *x, *y, i;
	int fd;

	if (!has_dmabufs(&one))
		return;
	mine = stack_buffer(&one, BYTES);
	x = arax_buffer_data(mine);
	for (i = 0; i < WORDS; i++)
		x[i] = i;
	fd = arax_buffer_export(mine, ARAX_EXPORT_DMABUF);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(arax_buffer_import(two.ax, ARAX_IMPORT_DMABUF, fd, &theirs), 0);
	close(fd);
	y = arax_buffer_data(theirs);
	CHECK(y);
	CHECK_EQ(add(one.q, &k, mine, 10), 0);
	CHECK_EQ(add(two.q, &l, theirs, 100), 0);
	for (i = 0; i < WORDS; i++) {
		CHECK_EQ(x[i], i + 110);
		CHECK_EQ(y[i], i + 110);
	}
	CHECK_EQ(arax_buffer_revoke(mine), 0);
	CHECK_EQ(add(two.q, &l, theirs, 1000), -ESTALE);
	CHECK_EQ(add(one.q, &k, mine, 1000), -ESTALE);
	stack_close(&two);
	stack_close(&one);
}
