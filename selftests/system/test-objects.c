// SPDX-License-Identifier: MIT
/* Queues come and go, tasks are canceled, and what there is can be asked for. */
#include "stack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONG	(60 * SECOND)

TEST(cancel_takes_a_task_back)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096), *b = stack_buffer(&s, 4096);
	struct arax_range ra = arax_inout(a), rb = arax_inout(b);
	struct arax_event canceled = { 0 }, behind = { 0 }, beside = { 0 }, unused = { 0 };
	struct arax_timeline *gate;
	int ret;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &ra, &canceled);
	stack_hold(&s, s.q, gate, &rb, &beside);
	stack_launch(&s, s.q, "st_add", a, 10, &behind);
	ret = arax_cancel(&canceled);
	CHECK(ret == 0 || ret == 1);
	CHECK_EQ(arax_wait(&canceled, arax_deadline(LONG)), -ECANCELED);
	CHECK_EQ(canceled.origin, 0);
	/* Who depends on it goes with it, and nobody else. */
	CHECK_EQ(arax_wait(&behind, arax_deadline(LONG)), -ECANCELED);
	CHECK_EQ(behind.origin, canceled.tag);
	CHECK_EQ(arax_test(&beside), 0);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&beside, arax_deadline(LONG)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 1);
	/* Too late, and too early. */
	CHECK_EQ(arax_cancel(&beside), 0);
	CHECK_EQ(beside.result, 0);
	CHECK_EQ(arax_cancel(&canceled), 0);
	CHECK_EQ(arax_cancel(&unused), -EINVAL);
	stack_close(&s);
}

TEST(cancel_in_a_queue_that_goes_on)
{
	struct stack s = stack_open(ARAX_QUEUE_IN_ORDER | ARAX_QUEUE_CONTINUE);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_range r = arax_inout(a);
	struct arax_event canceled = { 0 }, behind = { 0 };
	struct arax_timeline *gate;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	stack_hold(&s, s.q, gate, &r, &canceled);
	stack_launch(&s, s.q, "st_add", a, 10, &behind);
	CHECK(arax_cancel(&canceled) >= 0);
	CHECK_EQ(arax_wait(&canceled, arax_deadline(LONG)), -ECANCELED);
	CHECK_EQ(arax_wait(&behind, arax_deadline(LONG)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 10);
	stack_close(&s);
}

struct longer {
	struct arax_queue_options o;
	uint64_t more;
};

TEST(queues_with_options)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_queue_options good = {
		.size = sizeof(good), .flags = ARAX_QUEUE_IN_ORDER, .priority = -20,
		.target_ns = SECOND,
	}, o;
	struct longer longer = { .o = good };
	struct arax_queue *q;
	struct arax_event e = { 0 };

	longer.o.size = sizeof(longer);
	CHECK_EQ(arax_queue_create_with(s.ax, &longer.o, &q), 0);
	arax_queue_destroy(q);
	longer.more = 1;
	CHECK_EQ(arax_queue_create_with(s.ax, &longer.o, &q), -E2BIG);
	o = good;
	o.reserved[3] = 1;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -E2BIG);
	o = good;
	o.size = sizeof(o) - 1;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -EINVAL);
	o = good;
	o.priority = -21;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -EINVAL);
	o.priority = 20;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -EINVAL);
	o = good;
	o.target_ns = (1ull << 62) + 1;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -EINVAL);
	o = good;
	o.flags = 0x80000000;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), -EOPNOTSUPP);
	o = good;
	o.priority = 19;
	o.target_ns = 1ull << 62;
	CHECK_EQ(arax_queue_create_with(s.ax, &o, &q), 0);
	/* Nobody fails for being late. */
	good.target_ns = 1;
	CHECK_EQ(arax_queue_create_with(s.ax, &good, &q), 0);
	stack_launch(&s, q, "st_add", b, 1, NULL);
	stack_launch(&s, q, "st_add", b, 1, &e);
	CHECK_EQ(arax_wait(&e, arax_deadline(LONG)), 0);
	CHECK_EQ(arax_queue_finish(q, arax_deadline(LONG)), 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 2);
	stack_close(&s);
}

TEST(tasks_outlive_their_queue)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&s, 4096);
	struct arax_range r = arax_inout(a);
	struct arax_event first = { 0 }, last = { 0 };
	struct arax_timeline *gate;
	struct arax_queue *q;
	int i;

	CHECK_EQ(arax_timeline_create(s.ax, 0, &gate), 0);
	CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &q), 0);
	stack_hold(&s, q, gate, &r, &first);
	for (i = 0; i < 10; i++)
		stack_launch(&s, q, "st_add", a, 1, i == 9 ? &last : NULL);
	arax_queue_destroy(q);
	arax_queue_destroy(NULL);
	CHECK_EQ(arax_test(&first), 0);
	CHECK_EQ(arax_timeline_advance(gate, 1, 0), 0);
	CHECK_EQ(arax_wait(&last, arax_deadline(LONG)), 0);
	CHECK_EQ(first.result, 0);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(a), 11);
	/* Its handle is free again: many more come and go than there is room for at once. */
	for (i = 0; i < 5000; i++) {
		CHECK_EQ(arax_queue_create(s.ax, ARAX_QUEUE_IN_ORDER, 0, &q), 0);
		arax_queue_destroy(q);
	}
	stack_close(&s);
}

TEST(buffers_tell_of_themselves)
{
	struct stack one = stack_open(ARAX_QUEUE_DATAFLOW), two = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *a = stack_buffer(&one, 5000), *b = stack_buffer(&one, 4096), *shared;
	struct arax_buffer_query qa, qb, qs;
	int fd;

	CHECK_EQ(arax_buffer_query(a, &qa), 0);
	CHECK_EQ(qa.handle, arax_buffer_handle(a));
	CHECK_EQ(qa.bytes, 8192);	/* whole pages; arax_buffer_bytes() is what was asked for */
	CHECK_EQ(qa.type, 0);
	CHECK_EQ(qa.flags, 0);
	CHECK_EQ(arax_buffer_query(b, &qb), 0);
	CHECK(qa.id && qb.id && qa.id != qb.id);
	/* The same bytes, whoever has them. */
	fd = arax_buffer_export(a, ARAX_EXPORT_ARAX);
	CHECK(fd >= 0);
	CHECK_EQ(arax_buffer_import(two.ax, ARAX_IMPORT_ARAX, fd, &shared), 0);
	CHECK_EQ(close(fd), 0);
	CHECK_EQ(arax_buffer_query(shared, &qs), 0);
	CHECK_EQ(qs.id, qa.id);
	CHECK_EQ(qs.bytes, qa.bytes);
	CHECK_EQ(arax_buffer_revoke(shared), -EPERM);
	CHECK_EQ(arax_buffer_revoke(a), 0);
	CHECK_EQ(arax_buffer_query(shared, &qs), 0);
	CHECK_EQ(qs.flags, ARAX_BUFFER_IS_REVOKED);
	stack_close(&one);
	stack_close(&two);
}

TEST(kernels_one_by_one)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel add = stack_kernel(&s, "st_add"), k, again;
	uint32_t id = 0, n = 0, found = 0;
	int err;

	while (!(err = arax_kernel_next(s.ax, id, &k))) {
		CHECK(k.id >= id && k.id);
		CHECK(*k.name && *k.text && k.kinds);
		CHECK_EQ(arax_kernel_find(s.ax, k.name, 0, &again), 0);
		CHECK_EQ(again.id, k.id);
		found += k.id == add.id && !strcmp(k.name, "st_add");
		id = k.id + 1;
		n++;
	}
	CHECK_EQ(err, -ENOENT);
	CHECK_EQ(found, 1);
	CHECK(n > 1);
	CHECK_EQ(arax_kernel_next(s.ax, UINT32_MAX, &k), -ENOENT);
	CHECK_EQ(arax_kernel_find(s.ax, "st_none", 0, &k), -ENOENT);
	stack_close(&s);
}

/* A memfd becomes a buffer; one of huge pages, whose pool may run dry, on neither link. */
TEST(memfds_of_huge_pages_are_refused)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b;
	int fd = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, 2 << 20), 0);
	CHECK_EQ(fallocate(fd, 0, 0, 2 << 20), 0);
	CHECK_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_MEMFD, fd, &b), 0);
	arax_buffer_destroy(b);
	close(fd);
	fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	if (fd < 0 || ftruncate(fd, 2 << 20) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		tap_skip("no memfd of huge pages can be made");
	CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_MEMFD, fd, &b), -EINVAL);
	close(fd);
	stack_close(&s);
}
