// SPDX-License-Identifier: MIT
/* What is wrong is refused with its own error, and nothing else is harmed. */
#include "stack.h"

#include <errno.h>

static int launch(struct stack *s, struct arax_kernel *k, const void *args, size_t len,
		  const struct arax_range *r, size_t nr)
{
	struct arax_event e = { 0 };
	int err = arax_launch(s->q, k, arax_grid(1, 1, 1), args, len, r, nr, &e);

	return err ? err : arax_wait(&e, arax_deadline(60 * SECOND));
}

TEST(unknown_kernel)
{
	struct stack s = stack_open(0);
	struct arax_kernel k;

	CHECK_EQ(arax_kernel_find(s.ax, "no-such-kernel", 0, &k), -ENOENT);
	stack_close(&s);
}

/* Refused before anything is taken for them. */
TEST(impossible_buffers)
{
	static const uint64_t bytes[] = { 0, UINT64_MAX, 1ull << 63, (1ull << 63) - 1, 1ull << 62 };
	struct stack s = stack_open(0);
	struct arax_buffer *b;
	size_t i;

	for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		CHECK(arax_buffer_create(s.ax, bytes[i], 0, &b) < 0);
	stack_buffer(&s, 4096);
	stack_close(&s);
}

TEST(wrong_launches)
{
	struct stack s = stack_open(0);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add"), forged = k;
	struct arax_range r = arax_inout(b), two[2] = { r, r };
	uint64_t wide = 1;
	uint32_t one = 1;

	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), 0);
	CHECK_EQ(launch(&s, &k, &one, 4, two, 2), -EINVAL);
	CHECK_EQ(launch(&s, &k, &one, 4, NULL, 0), -EINVAL);
	CHECK_EQ(launch(&s, &k, &wide, 8, &r, 1), -EINVAL);
	r.access = ARAX_IN;
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -EINVAL);
	r = arax_inout(b);
	r.offset = 4096;
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -EINVAL);
	r = arax_inout(b);
	r.offset = ~0ull - 100;
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -EINVAL);
	r = arax_inout(b);
	r.buffer ^= 1u << 20;
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -EBADF);
	r = arax_inout(b);
	forged.id = 4000;
	CHECK_EQ(launch(&s, &forged, &one, 4, &r, 1), -ENOENT);
	CHECK_EQ(*(uint32_t *)arax_buffer_data(b), 1);
	stack_close(&s);
}

TEST(other_contexts_handles)
{
	struct stack s = stack_open(0), t = stack_open(0);
	struct arax_buffer *mine = stack_buffer(&s, 4096), *more;
	struct arax_kernel k = stack_kernel(&t, "st_add");
	struct arax_range r = arax_inout(mine);
	uint32_t one = 1;
	int i;

	/* Context t has no buffer: no handle of s means anything there. */
	CHECK_EQ(launch(&t, &k, &one, 4, &r, 1), -EBADF);
	for (i = 0; i < 5; i++) {
		more = stack_buffer(&s, 4096);
		r = arax_inout(more);
		CHECK_EQ(launch(&t, &k, &one, 4, &r, 1), -EBADF);
		CHECK_EQ(*(uint32_t *)arax_buffer_data(more), 0);
	}
	stack_close(&s);
	stack_close(&t);
}

TEST(stale_handles)
{
	struct stack s = stack_open(0);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range r = arax_inout(b);
	uint32_t one = 1;

	arax_buffer_destroy(b);
	stack_buffer(&s, 4096);		/* takes the same place */
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -EBADF);
	stack_close(&s);
}

TEST(kernel_errors_come_back)
{
	struct stack s = stack_open(ARAX_QUEUE_CONTINUE);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_fail");
	struct arax_range r = arax_inout(b);
	uint32_t codes[] = { EIO, ERANGE, EDOM, ENOMEM };
	unsigned int i;

	for (i = 0; i < 4; i++)
		CHECK_EQ(launch(&s, &k, &codes[i], 4, &r, 1), -(int)codes[i]);
	stack_close(&s);
}

TEST(revoked_buffer)
{
	struct stack s = stack_open(0);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_kernel k = stack_kernel(&s, "st_add");
	struct arax_range r = arax_inout(b);
	uint32_t one = 1;

	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), 0);
	CHECK_EQ(arax_buffer_revoke(b), 0);
	CHECK_EQ(launch(&s, &k, &one, 4, &r, 1), -ESTALE);
	stack_close(&s);
}

TEST(opcodes)
{
	struct stack s = stack_open(0);
	struct arax_buffer *b = stack_buffer(&s, 4096);
	struct arax_event e = { 0 };
	uint32_t three = 3;

	CHECK_EQ(arax_marker(s.q, &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	/* A pattern of three bytes is none. */
	CHECK(arax_fill(s.q, arax_out(b), &three, 3, &e) == -EINVAL ||
	      arax_wait(&e, arax_deadline(60 * SECOND)) == -EINVAL);
	CHECK_EQ(arax_fill(s.q, arax_out(b), &three, 4, &e), 0);
	CHECK_EQ(arax_wait(&e, arax_deadline(60 * SECOND)), 0);
	CHECK_EQ(((uint32_t *)arax_buffer_data(b))[1023], 3);
	stack_close(&s);
}
