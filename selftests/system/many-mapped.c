// SPDX-License-Identifier: MIT
/*
 * Over the kernel link, an unprivileged user's buffers that araxd has mapped; in-guest.sh gives
 * araxd room for few.
 */
#include "stack.h"
#include "selftests/qemu/borrower/borrower.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MANY	400u

static int use(struct stack *s, struct arax_buffer *b)
{
	struct arax_event e = { 0 };
	uint8_t byte = 1;

	CHECK_EQ(arax_fill(s->q, arax_out(b), &byte, 1, &e), 0);
	return arax_wait(&e, arax_deadline(60 * SECOND));
}

/* The rest is for others, and what was given back is there for the same user. */
TEST(a_users_part_of_mappings)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *b[MANY];
	char uid[32];
	uint32_t n;
	int ret = 0;

	for (n = 0; !ret && n < MANY; n++) {
		b[n] = stack_buffer(&s, 4096);
		ret = use(&s, b[n]);
	}
	CHECK_EQ(ret, -EFAULT);
	snprintf(uid, sizeof(uid), "user %u", getuid());
	CHECK(strstr(arax_error_text(), "araxd has as many buffers of"));
	CHECK(strstr(arax_error_text(), uid));
	CHECK(n > 16);
	/* It was never mapped, and goes on to fail; those that were go on to work. */
	CHECK_EQ(use(&s, b[n - 1]), -EFAULT);
	CHECK_EQ(use(&s, b[0]), 0);
	arax_buffer_destroy(b[1]);
	arax_buffer_destroy(b[2]);
	/* araxd hears of it before it has the next task. */
	CHECK_EQ(use(&s, b[n - 1]), 0);
	stack_close(&s);
}

/*
 * Each of these takes araxd 60 ms to map, while nobody else's task begins: it does so for a few, and
 * then for none of that user's, until some time has passed.
 */
TEST(what_takes_long_to_map)
{
	int lender = open("/dev/borrower", O_RDWR | O_CLOEXEC), fd;
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_buffer *mapped, *b;
	uint64_t end;
	uint32_t n;
	int ret = 0;

	if (lender < 0)
		tap_skip("no /dev/borrower");
	mapped = stack_buffer(&s, 4096);
	CHECK_EQ(use(&s, mapped), 0);
	for (n = 0; !ret && n < MANY; n++) {
		fd = ioctl(lender, BORROW_LEND, LEND_SLOW_MMAP);
		CHECK(fd >= 0);
		CHECK_EQ(arax_buffer_import(s.ax, ARAX_IMPORT_DMABUF, fd, &b), 0);
		close(fd);
		ret = use(&s, b);
		if (!ret)
			arax_buffer_destroy(b);
	}
	printf("# %u were mapped\n", n - 1);
	CHECK_EQ(ret, -EFAULT);
	CHECK(strstr(arax_error_text(), "have taken araxd too long to map"));
	CHECK_EQ(use(&s, mapped), 0);
	for (end = arax_deadline(60 * SECOND); ret && arax_deadline(0) < end; usleep(100000))
		ret = use(&s, b);
	CHECK_EQ(ret, 0);
	close(lender);
	stack_close(&s);
}
