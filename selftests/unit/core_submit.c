// SPDX-License-Identifier: MIT
/* Submission: every check of an entry and its extension, credit, prefixes. */
#include "core_fixture.h"

struct bench {
	struct fx *fx;
	struct fx_client *cl;
	u32 buf;		/* 8,192 bytes */
	u32 kernel;		/* (in, inout), 4 bytes of arguments */
};

static struct bench set_up(u32 entry_size)
{
	struct bench b = { .fx = fx_new(NULL) };
	union core_args a = { 0 };

	b.cl = fx_client(b.fx, 1000, 2);
	ck_assert_int_eq(fx_init(b.cl, 16, entry_size, 8192), 0);
	b.cl->queue = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW);
	b.buf = fx_buffer(b.cl, 8192);
	ck_assert_int_eq(fx_attach(b.fx, 0), 0);
	a.kernel_publish = (struct arax_kernel_publish){
		.kinds = 1, .name = "k",
		.sig = { .nr_ranges = 2, .arg_len = 4, .access = ARAX_IN | ARAX_INOUT << 2 },
	};
	ck_assert_int_eq(fx_call(b.fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
	b.kernel = a.kernel_publish.id;
	return b;
}

static void tear_down(struct bench *b)
{
	ck_assert_uint_eq(fx_used(b->fx->tenants[0], ARAX_RES_TASKS), 0);
	fx_release(b->cl);
	fx_free(b->fx);
}

static struct arax_task launch(const struct bench *b)
{
	struct arax_task t = fx_copy(b->cl, 1, b->buf, b->buf, 64);
	u32 i;

	t.opcode = ARAX_OP_LAUNCH;
	t.kernel = b->kernel;
	t.arg_len = 4;
	t.ranges[1].access = ARAX_INOUT;
	for (i = 0; i < 3; i++) {
		t.grid[i] = 2;
		t.block[i] = 3;
	}
	return t;
}

/* It is consumed, refused with that error, and leaves nothing behind. */
static void refused(struct bench *b, const struct arax_task *t, s32 error)
{
	struct arax_completion e;

	ck_assert_int_eq(fx_send(b->cl, t), 1);
	e = fx_expect(b->cl, t->user_data, error);
	ck_assert_uint_ne(e.tag, 0);
	ck_assert_uint_eq(ARAX_TAG_EPOCH(e.tag), 0);
	ck_assert_uint_eq(e.device, ~0u);
	ck_assert_ptr_null(fx_next(b->fx));
}

static void accepted(struct bench *b, const struct arax_task *t)
{
	ck_assert_int_eq(fx_send(b->cl, t), 1);
	ck_assert_uint_eq(fx_drain(b->fx), 1);
	fx_expect(b->cl, t->user_data, 0);
}

#define REFUSED(b, base, change, error) \
	do { \
		struct arax_task t = (base); \
		change; \
		refused(b, &t, error); \
	} while (0)

/* The queue that the last task was submitted to is found without its handle. */
START_TEST(queue_gone)
{
	struct bench b = set_up(128);
	struct arax_task m = fx_marker(b.cl, 1);
	u32 old = b.cl->queue, handle;

	accepted(&b, &m);
	ck_assert_int_eq(core_queue_destroy(b.cl->c, old), 0);
	refused(&b, &m, -EBADF);
	/* Its place is another one's now. */
	handle = fx_queue(b.cl, 0);
	ck_assert_uint_eq(CORE_HANDLE_INDEX(handle), CORE_HANDLE_INDEX(old));
	refused(&b, &m, -EBADF);
	m.queue = handle;
	accepted(&b, &m);
	m.queue = old;
	refused(&b, &m, -EBADF);
	tear_down(&b);
}
END_TEST

START_TEST(entry)
{
	struct bench b = set_up(128);
	struct arax_task m = fx_marker(b.cl, 1), c = fx_copy(b.cl, 1, b.buf, b.buf, 64);
	struct arax_task f = m;

	accepted(&b, &m);
	accepted(&b, &c);
	REFUSED(&b, m, t.opcode = ARAX_OP_MAX, -EOPNOTSUPP);
	REFUSED(&b, m, t.opcode = 0xff, -EOPNOTSUPP);
	REFUSED(&b, m, t.flags = 0x20, -EOPNOTSUPP);
	REFUSED(&b, m, t.flags = 0x8000, -EOPNOTSUPP);	/* ARAX_DISPATCH_BLOCKED is ours */
	REFUSED(&b, m, t.flags = 0x4000, -EOPNOTSUPP);	/* so is ARAX_DISPATCH_TARGET */
	REFUSED(&b, m, t.nr_ranges = 3, -EINVAL);
	REFUSED(&b, m, t.arg_len = 17, -EINVAL);
	REFUSED(&b, m, t.arg_len = 1, -EINVAL);
	REFUSED(&b, m, t.queue = 0, -EBADF);
	REFUSED(&b, m, t.queue = b.buf, -EBADF);
	REFUSED(&b, m, t.queue ^= 1u << 20, -EBADF);	/* another generation */
	REFUSED(&b, c, t.nr_ranges = 1, -EINVAL);
	REFUSED(&b, c, t.arg_len = 1, -EINVAL);
	REFUSED(&b, c, t.ranges[0].access = ARAX_INOUT, -EINVAL);
	REFUSED(&b, c, t.ranges[1].length = 63, -EINVAL);
	/* Fill: 1, 2, 4, 8 or 16 bytes that divide the range. */
	f.opcode = ARAX_OP_FILL;
	f.nr_ranges = 1;
	f.ranges[0] = c.ranges[1];
	f.arg_len = 16;
	accepted(&b, &f);
	REFUSED(&b, f, t.arg_len = 0, -EINVAL);
	REFUSED(&b, f, t.arg_len = 3, -EINVAL);
	REFUSED(&b, f, t.ranges[0].length = 63, -EINVAL);
	REFUSED(&b, f, t.ranges[0].access = ARAX_IN, -EINVAL);
	REFUSED(&b, f, t.nr_ranges = 0, -EINVAL);
	tear_down(&b);
}
END_TEST

START_TEST(ranges)
{
	struct bench b = set_up(128);
	struct arax_task c = fx_copy(b.cl, 1, b.buf, b.buf, 64);

	c.opcode = ARAX_OP_CALL;
	accepted(&b, &c);
	REFUSED(&b, c, t.ranges[0].buffer = 0, -EBADF);
	REFUSED(&b, c, t.ranges[1].buffer = b.cl->queue, -EBADF);
	REFUSED(&b, c, t.ranges[0].access = 0, -EINVAL);
	REFUSED(&b, c, t.ranges[0].access = 4, -EINVAL);
	REFUSED(&b, c, t.ranges[0].count = 0, -EINVAL);
	REFUSED(&b, c, t.ranges[0].stride = 64, -EINVAL);	/* with count 1 */
	REFUSED(&b, c, t.ranges[0].offset = 8192 - 63, -EINVAL);
	REFUSED(&b, c, t.ranges[0].offset = ~0ull, -EINVAL);
	REFUSED(&b, c, t.ranges[0].length = ~0ull, -EINVAL);
	REFUSED(&b, c, t.ranges[0].length = 8193, -EINVAL);
	REFUSED(&b, c, (t.ranges[0].count = 2, t.ranges[0].stride = 63), -EINVAL);
	REFUSED(&b, c, (t.ranges[0].count = ~0u, t.ranges[0].stride = ~0u), -EINVAL);
	REFUSED(&b, c, (t.ranges[0].count = 3, t.ranges[0].stride = 4065), -EINVAL);
	c.ranges[0].count = 3;
	c.ranges[0].stride = 4064;	/* 2 * 4064 + 64 = 8192 */
	accepted(&b, &c);
	c.ranges[0].count = 1;
	c.ranges[0].stride = 0;
	c.ranges[0].length = 0;
	c.ranges[0].offset = 8192;	/* nothing, at the end */
	accepted(&b, &c);
	REFUSED(&b, c, t.ranges[0].offset = 8193, -EINVAL);
	tear_down(&b);
}
END_TEST

START_TEST(launches)
{
	struct bench b = set_up(128);
	struct arax_task l = launch(&b);
	union core_args a = { 0 };

	accepted(&b, &l);
	REFUSED(&b, l, t.kernel = 0, -ENOENT);
	REFUSED(&b, l, t.kernel = b.kernel + 1, -ENOENT);
	REFUSED(&b, l, t.kernel = ~ARAX_KERNEL_OWN, -ENOENT);
	REFUSED(&b, l, t.nr_ranges = 1, -EINVAL);
	REFUSED(&b, l, t.arg_len = 5, -EINVAL);
	REFUSED(&b, l, t.ranges[0].access = ARAX_OUT, -EINVAL);
	REFUSED(&b, l, t.grid[2] = 0, -EINVAL);
	REFUSED(&b, l, t.block[0] = 0, -EINVAL);
	REFUSED(&b, l, t.grid[0] = t.grid[1] = t.grid[2] = ~0u, -EINVAL);
	/* Withdrawn by a publish of another signature. */
	a.kernel_publish = (struct arax_kernel_publish){ .kinds = 1, .name = "k" };
	ck_assert_int_eq(fx_call(b.fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
	ck_assert_uint_ne(a.kernel_publish.id, b.kernel);
	REFUSED(&b, l, t.user_data = 2, -ENOENT);
	tear_down(&b);
}
END_TEST

/* One line, and what lies behind it is never looked at. */
union line {
	struct arax_task whole;
	struct arax_task_short s;
};

static union line short_launch(const struct bench *b)
{
	union line l;

	memset(&l, 0xff, sizeof(l));
	l.s = (struct arax_task_short){
		.opcode = ARAX_OP_LAUNCH, .nr_ranges = 2, .flags = ARAX_TASK_SHORT,
		.user_data = 7, .queue = b->cl->queue, .kernel = b->kernel, .grid = 5,
		.buffer = { b->buf, b->buf }, .length = { 64, 8192 }, .args = "abcdefghijklmno",
	};
	return l;
}

#define SHORT_REFUSED(b, change, error) \
	do { \
		union line l = short_launch(b); \
		change; \
		refused(b, &l.whole, error); \
	} while (0)

START_TEST(short_entries)
{
	struct bench b = set_up(128);
	union line l = short_launch(&b);
	const struct arax_dispatch_range *r;
	const struct arax_dispatch *d;
	struct arax_completion e;
	union core_args a = { 0 };
	u64 tag;
	u32 i;

	l.s.flags |= ARAX_TASK_IDEMPOTENT;
	ck_assert_int_eq(fx_send(b.cl, &l.whole), 1);
	d = fx_next(b.fx);
	ck_assert_ptr_nonnull(d);
	r = (const void *)(d + 1);
	ck_assert_uint_eq(d->opcode, ARAX_OP_LAUNCH);
	ck_assert_uint_eq(d->kernel, b.kernel);
	ck_assert_uint_eq(d->flags, ARAX_TASK_IDEMPOTENT);
	ck_assert_uint_eq(d->nr_ranges, 2);
	ck_assert_uint_eq(d->access, ARAX_IN | ARAX_INOUT << 2);
	ck_assert_uint_eq(d->grid[0], 5);
	for (i = 0; i < 3; i++) {
		ck_assert_uint_eq(d->block[i], 1);
		ck_assert(!i || d->grid[i] == 1);
	}
	/* As many bytes as the signature has, and no more. */
	ck_assert_uint_eq(d->arg_len, 4);
	ck_assert_int_eq(memcmp(d->args, "abcd\0\0\0\0\0\0\0\0\0\0\0", 16), 0);
	for (i = 0; i < 2; i++) {
		ck_assert_uint_eq(r[i].buffer, r[0].buffer);
		ck_assert_uint_eq(r[i].offset, 0);
		ck_assert_uint_eq(r[i].length, l.s.length[i]);
		ck_assert_uint_eq(r[i].stride, 0);
		ck_assert_uint_eq(r[i].count, 1);
	}
	tag = d->tag;
	ck_assert_uint_eq(fx_commit(b.fx, tag, 0), 0);
	e = fx_expect(b.cl, 7, 0);
	ck_assert_uint_eq(e.tag, tag);
	SHORT_REFUSED(&b, l.s.opcode = ARAX_OP_MARKER, -EINVAL);
	SHORT_REFUSED(&b, l.s.opcode = ARAX_OP_MAX, -EINVAL);
	SHORT_REFUSED(&b, l.s.flags |= ARAX_TASK_EXT, -EINVAL);
	SHORT_REFUSED(&b, l.s.flags |= 0x20, -EOPNOTSUPP);
	SHORT_REFUSED(&b, l.s.queue = 0, -EBADF);
	SHORT_REFUSED(&b, l.s.kernel = 0, -ENOENT);
	SHORT_REFUSED(&b, l.s.kernel++, -ENOENT);
	SHORT_REFUSED(&b, l.s.kernel = ~ARAX_KERNEL_OWN, -ENOENT);
	SHORT_REFUSED(&b, l.s.kernel = ARAX_KERNEL_OWN | 1, -EINVAL);
	SHORT_REFUSED(&b, l.s.grid = 0, -EINVAL);
	SHORT_REFUSED(&b, l.s.nr_ranges = 1, -EINVAL);
	SHORT_REFUSED(&b, l.s.nr_ranges = 3, -EINVAL);
	SHORT_REFUSED(&b, l.s.nr_ranges = 255, -EINVAL);
	SHORT_REFUSED(&b, l.s.buffer[0] = 0, -EBADF);
	SHORT_REFUSED(&b, l.s.buffer[1] = b.cl->queue, -EBADF);
	SHORT_REFUSED(&b, l.s.length[0] = 8193, -EINVAL);
	SHORT_REFUSED(&b, l.s.length[1] = ~0u, -EINVAL);
	/* A kernel with less: what it has no use for is zero. */
	a.kernel_publish = (struct arax_kernel_publish){
		.kinds = 1, .name = "one", .sig = { .nr_ranges = 1, .access = ARAX_OUT },
	};
	ck_assert_int_eq(fx_call(b.fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
	b.kernel = a.kernel_publish.id;
	SHORT_REFUSED(&b, l.s.nr_ranges = 1, -EINVAL);
	SHORT_REFUSED(&b, l.s.nr_ranges = 1; l.s.buffer[1] = 0, -EINVAL);
	SHORT_REFUSED(&b, l.s.nr_ranges = 1; l.s.length[1] = 0, -EINVAL);
	l = short_launch(&b);
	l.s.nr_ranges = 1;
	l.s.buffer[1] = l.s.length[1] = 0;
	accepted(&b, &l.whole);
	/* And one with more than fits. */
	a.kernel_publish = (struct arax_kernel_publish){
		.kinds = 1, .name = "long", .sig = { .arg_len = 17 },
	};
	ck_assert_int_eq(fx_call(b.fx, NULL, ARAX_NR_KERNEL_PUBLISH, &a), 0);
	b.kernel = a.kernel_publish.id;
	SHORT_REFUSED(&b, l.s.nr_ranges = 0; memset(l.s.buffer, 0, 16), -EINVAL);
	tear_down(&b);
}
END_TEST

/* Entries of both forms in one batch; and what depends on a refused short one fails with it. */
START_TEST(short_and_whole)
{
	struct bench b = set_up(256);
	union line l = short_launch(&b);
	struct arax_task c = fx_copy(b.cl, 2, b.buf, b.buf, 64);
	int i;

	for (i = 0; i < 3; i++) {
		fx_push(b.cl, &l.whole);
		fx_push(b.cl, &c);
	}
	ck_assert_int_eq(fx_submit(b.cl, 6), 6);
	ck_assert_uint_eq(fx_drain(b.fx), 6);
	for (i = 0; i < 3; i++) {
		fx_expect(b.cl, 7, 0);
		fx_expect(b.cl, 2, 0);
	}
	/* Which bytes it would have written nobody can tell. */
	l.s.kernel++;
	fx_push(b.cl, &l.whole);
	fx_push(b.cl, &c);
	ck_assert_int_eq(fx_submit(b.cl, 2), 2);
	fx_expect(b.cl, 7, -ENOENT);
	fx_expect(b.cl, 2, -ECANCELED);
	tear_down(&b);
}
END_TEST

/* Of what a program brought the core knows no signature, but bytes and geometry it does. */
START_TEST(own_kernels)
{
	struct bench b = set_up(128);
	struct arax_task l = launch(&b);

	l.kernel = ARAX_KERNEL_OWN | 1;
	accepted(&b, &l);
	l.nr_ranges = 1;
	l.arg_len = 16;
	l.ranges[0].access = ARAX_OUT;
	accepted(&b, &l);
	l.kernel = ~0u;
	accepted(&b, &l);
	REFUSED(&b, l, t.grid[2] = 0, -EINVAL);
	REFUSED(&b, l, t.grid[0] = t.grid[1] = t.grid[2] = ~0u, -EINVAL);
	REFUSED(&b, l, t.ranges[0].access = 0, -EINVAL);
	REFUSED(&b, l, t.ranges[0].offset = 8192, -EINVAL);
	REFUSED(&b, l, t.arg_len = 17, -EINVAL);
	/* Nobody publishes such a number. */
	REFUSED(&b, l, t.kernel = ~ARAX_KERNEL_OWN, -ENOENT);
	tear_down(&b);
}
END_TEST

static void put_ext(struct bench *b, u32 at, const struct arax_task_ext *x)
{
	memcpy(b->cl->region + b->cl->init.arena_offset + at, x, sizeof(*x));
}

#define EXT_REFUSED(b, base, change, error) \
	do { \
		struct arax_task_ext x = (base); \
		struct arax_task t = fx_marker((b)->cl, 9); \
		t.opcode = ARAX_OP_CALL; \
		t.flags = ARAX_TASK_EXT; \
		change; \
		put_ext(b, 0, &x); \
		refused(b, &t, error); \
	} while (0)

START_TEST(extension)
{
	struct bench b = set_up(128);
	struct arax_task_ext good = { .size = sizeof(good) };
	struct arax_task t = fx_marker(b.cl, 9);
	u32 tl = fx_timeline(b.cl, 0);

	t.flags = ARAX_TASK_EXT;
	put_ext(&b, 0, &good);
	accepted(&b, &t);
	EXT_REFUSED(&b, good, x.size--, -EINVAL);
	EXT_REFUSED(&b, good, x.size = 0, -EINVAL);
	EXT_REFUSED(&b, good, x.size++, -E2BIG);
	EXT_REFUSED(&b, good, x.nr_ranges = ARAX_MAX_RANGES + 1, -EINVAL);
	EXT_REFUSED(&b, good, x.nr_ranges = 0xffff, -EINVAL);
	EXT_REFUSED(&b, good, x.arg_len = ARAX_MAX_ARGS + 1, -EINVAL);
	EXT_REFUSED(&b, good, (x.arg_len = 1, t.arg_len = 1), -EINVAL);
	EXT_REFUSED(&b, good, x.nr_ranges = 1, -EBADF);		/* a range of zeroes */
	EXT_REFUSED(&b, good, x.wait_timeline = 5, -EBADF);
	EXT_REFUSED(&b, good, x.wait_timeline = b.buf, -EBADF);
	EXT_REFUSED(&b, good, x.signal_timeline = 5, -EBADF);
	EXT_REFUSED(&b, good, t.ext = 4, -EINVAL);
	EXT_REFUSED(&b, good, t.ext = 8192, -EINVAL);
	EXT_REFUSED(&b, good, t.ext = ~7u, -EINVAL);
	EXT_REFUSED(&b, good, t.ext = 8192 - sizeof(x) + 8, -EINVAL);
	/* At the very end: itself, and not one byte behind. */
	t.ext = 8192 - sizeof(good);
	put_ext(&b, t.ext, &good);
	accepted(&b, &t);
	good.arg_len = 1;
	put_ext(&b, t.ext, &good);
	t.opcode = ARAX_OP_CALL;
	refused(&b, &t, -EINVAL);
	good.arg_len = 0;
	good.nr_ranges = 1;
	put_ext(&b, t.ext, &good);
	refused(&b, &t, -EINVAL);
	(void)tl;
	tear_down(&b);
}
END_TEST

/* An entry without an arena must not look for one. */
/* A queue's target is no deadline, and a deadline comes before it. */
START_TEST(targets)
{
	struct bench b = set_up(128);
	struct arax_task_ext x = { .size = sizeof(x), .deadline_ns = 12345 };
	union core_args a = { .queue_create = { .target_ns = 1000000 } };
	struct arax_task t = fx_marker(b.cl, 1);
	const struct arax_dispatch *d;
	u64 tag;

	ck_assert_int_eq(fx_call(b.fx, b.cl, ARAX_NR_QUEUE_CREATE, &a), 0);
	t.queue = a.queue_create.handle;
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	d = fx_next(b.fx);
	ck_assert_uint_eq(d->deadline_ns, d->submit_ns + 1000000);
	ck_assert_uint_eq(d->flags, ARAX_DISPATCH_TARGET);
	tag = d->tag;
	fx_commit(b.fx, tag, 0);
	fx_expect(b.cl, 1, 0);
	t.flags = ARAX_TASK_EXT;
	memcpy(b.cl->region + b.cl->init.arena_offset, &x, sizeof(x));
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	d = fx_next(b.fx);
	ck_assert_uint_eq(d->deadline_ns, 12345);
	ck_assert_uint_eq(d->flags, 0);
	tag = d->tag;
	fx_commit(b.fx, tag, 0);
	fx_expect(b.cl, 1, 0);
	a.queue_create = (struct arax_queue_create){ .target_ns = ARAX_TARGET_MAX };
	ck_assert_int_eq(fx_call(b.fx, b.cl, ARAX_NR_QUEUE_CREATE, &a), 0);
	a.queue_create = (struct arax_queue_create){ .target_ns = ARAX_TARGET_MAX + 1 };
	ck_assert_int_eq(fx_call(b.fx, b.cl, ARAX_NR_QUEUE_CREATE, &a), -EINVAL);
	tear_down(&b);
}
END_TEST

START_TEST(no_arena)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client(fx, 1, 2);
	struct arax_task t;

	ck_assert_int_eq(fx_init(cl, 2, 128, 0), 0);
	cl->queue = fx_queue(cl, 0);
	t = fx_marker(cl, 1);
	t.flags = ARAX_TASK_EXT;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	fx_expect(cl, 1, -EINVAL);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Six inline ranges of the long entry, then those of the arena. */
START_TEST(long_entries)
{
	struct bench b = set_up(256);
	struct arax_task256 *e = (void *)(b.cl->region + b.cl->init.sq_offset);
	struct arax_task_ext x = { .size = sizeof(x), .nr_ranges = 2, .arg_len = 20 };
	struct arax_range r = { .buffer = b.buf, .access = ARAX_IN, .length = 1, .count = 1 };
	const struct arax_dispatch *d;
	const struct arax_dispatch_range *dr;
	struct arax_task t = fx_marker(b.cl, 1);
	u8 *arena = b.cl->region + b.cl->init.arena_offset;
	u32 i;

	t.opcode = ARAX_OP_CALL;
	t.nr_ranges = 6;
	t.flags = ARAX_TASK_EXT;
	for (i = 0; i < 8; i++) {
		r.offset = 10 + i;
		if (i < 2)
			t.ranges[i] = r;
		else if (i < 6)
			e->more[i - 2] = r;
		else
			memcpy(arena + sizeof(x) + (i - 6) * sizeof(r), &r, sizeof(r));
	}
	memcpy(arena, &x, sizeof(x));
	memset(arena + sizeof(x) + 2 * sizeof(r), 0x5a, 20);
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	d = fx_next(b.fx);
	ck_assert_uint_eq(d->nr_ranges, 8);
	ck_assert_uint_eq(d->arg_len, 20);
	ck_assert_uint_eq(d->cells, (128 + 8 * 32 + 20 + 63) / 64);
	dr = (const void *)(d + 1);
	for (i = 0; i < 8; i++)
		ck_assert_uint_eq(dr[i].offset, 10 + i);
	ck_assert_uint_eq(((const u8 *)(dr + 8))[19], 0x5a);
	fx_commit(b.fx, d->tag, 0);
	fx_expect(b.cl, 1, 0);
	t.flags = 0;
	t.nr_ranges = 7;
	refused(&b, &t, -EINVAL);
	tear_down(&b);
}
END_TEST

START_TEST(credit)
{
	struct bench b = set_up(128);
	struct arax_task t = fx_marker(b.cl, 5);
	u32 i;

	ck_assert_int_eq(fx_submit(b.cl, 0), 0);
	ck_assert_int_eq(fx_submit(b.cl, 1), -EINVAL);		/* not published */
	for (i = 0; i < 16; i++)
		ck_assert_int_eq(fx_send(b.cl, &t), 1);
	ck_assert_int_eq(fx_send(b.cl, &t), -EAGAIN);
	ck_assert_uint_eq(fx_drain(b.fx), 16);
	/* Committed, but the head has not passed. */
	ck_assert_int_eq(fx_submit(b.cl, 1), -EAGAIN);
	fx_expect(b.cl, 5, 0);
	fx_push(b.cl, &t);
	ck_assert_int_eq(fx_submit(b.cl, 2), 1);		/* the prefix */
	ck_assert_int_eq(fx_submit(b.cl, 1), -EAGAIN);
	for (i = 0; i < 15; i++)
		fx_expect(b.cl, 5, 0);
	ck_assert_int_eq(fx_submit(b.cl, 0xffffffff), 1);
	ck_assert_uint_eq(fx_drain(b.fx), 2);
	ck_assert_uint_eq(((struct arax_ring_ctl *)b.cl->region)->sq_head, 18);
	tear_down(&b);
}
END_TEST

/* A silent success gives its credit back by itself; a failure is posted. */
START_TEST(silent)
{
	struct bench b = set_up(128);
	struct arax_task t = fx_marker(b.cl, 5);
	u32 i, round;

	t.flags = ARAX_TASK_SILENT;
	for (round = 0; round < 5; round++) {
		for (i = 0; i < 16; i++)
			ck_assert_int_eq(fx_send(b.cl, &t), 1);
		fx_push(b.cl, &t);
		ck_assert_int_eq(fx_submit(b.cl, 1), -EAGAIN);
		fx_commit(b.fx, fx_expect_task(b.fx, 5), -EIO);
		fx_expect(b.cl, 5, -EIO);
		ck_assert_uint_eq(fx_drain(b.fx), 15);
		fx_expect_none(b.cl);
		ck_assert_int_eq(fx_submit(b.cl, 1), 1);
		ck_assert_uint_eq(fx_drain(b.fx), 1);
	}
	t.kernel = 0;
	t.opcode = ARAX_OP_LAUNCH;
	refused(&b, &t, -ENOENT);
	tear_down(&b);
}
END_TEST

/* A head beyond what was posted kills this context, and no other. */
START_TEST(corrupt_cq_head)
{
	struct bench b = set_up(128);
	struct fx_client *other = fx_client_ready(b.fx);
	struct arax_task t = fx_marker(b.cl, 5);
	u32 i;

	for (i = 0; i < 16; i++)
		ck_assert_int_eq(fx_send(b.cl, &t), 1);
	core_store_release(&((struct arax_ring_ctl *)b.cl->region)->cq_head, 1);
	ck_assert_int_eq(fx_send(b.cl, &t), -EPIPE);
	ck_assert_uint_eq(((struct arax_ring_ctl *)b.cl->region)->dead, EPIPE);
	ck_assert_int_eq(fx_submit(b.cl, 1), -EPIPE);
	t = fx_marker(other, 6);
	ck_assert_int_eq(fx_send(other, &t), 1);
	ck_assert_uint_eq(fx_drain(b.fx), 17);
	fx_expect(other, 6, 0);
	fx_expect_none(b.cl);
	fx_release(other);
	tear_down(&b);
}
END_TEST

/*
 * A revoked buffer: tasks after are refused, and tasks before, which may have found zeros
 * in it, don't end well.
 */
START_TEST(revoked)
{
	struct bench b = set_up(128);
	u32 i, flow = fx_queue(b.cl, ARAX_QUEUE_DATAFLOW), other = fx_buffer(b.cl, 4096);
	struct arax_task t[4] = {
		fx_copy(b.cl, 1, b.buf, b.buf, 8), fx_copy(b.cl, 2, other, b.buf, 8),
		fx_copy(b.cl, 3, other, other, 8), fx_copy(b.cl, 4, b.buf, other, 8),
	};
	u64 tag[4];

	t[1].flags = ARAX_TASK_SILENT;
	for (i = 0; i < 4; i++) {
		t[i].queue = flow;
		ck_assert_int_eq(fx_send(b.cl, &t[i]), 1);
		tag[i] = fx_expect_task(b.fx, 1 + i);
	}
	ck_assert_int_eq(core_buffer_revoke(b.cl->c, b.buf), 0);
	ck_assert_int_eq(core_buffer_revoke(b.cl->c, b.buf), 0);
	ck_assert_uint_eq(b.fx->core->nr_revoked, 1);
	t[0].user_data = 5;
	ck_assert_int_eq(fx_send(b.cl, &t[0]), 1);
	fx_expect(b.cl, 5, -ESTALE);
	/* What went wrong says so itself. */
	fx_commit(b.fx, tag[3], -EFAULT);
	fx_expect(b.cl, 4, -EFAULT);
	/* A number that came with a commit that is well is no failure's. */
	for (i = 0; i < 3; i++) {
		fx_commit_failure(b.fx, tag[i], 0, 77);
		ck_assert_uint_eq(fx_expect(b.cl, 1 + i, i < 2 ? -ESTALE : 0).failure, 0);
	}
	ck_assert_int_eq(core_buffer_destroy(b.cl->c, b.buf), 0);
	fx_drain(b.fx);
	ck_assert_uint_eq(b.fx->core->nr_revoked, 0);
	tear_down(&b);
}
END_TEST

/* The next mediator doesn't run again what had a buffer that was revoked. */
START_TEST(revoked_before_a_death)
{
	struct bench b = set_up(128);
	u32 other = fx_buffer(b.cl, 4096);
	struct arax_task t[2] = {
		fx_copy(b.cl, 1, b.buf, b.buf, 8), fx_copy(b.cl, 2, other, other, 8),
	};

	t[0].flags = ARAX_TASK_IDEMPOTENT;
	t[1].queue = fx_queue(b.cl, 0);
	ck_assert_int_eq(fx_send(b.cl, &t[0]), 1);
	fx_start(b.fx, fx_expect_task(b.fx, 1));
	ck_assert_int_eq(fx_send(b.cl, &t[1]), 1);
	ck_assert_int_eq(core_buffer_revoke(b.cl->c, b.buf), 0);
	fx_die(b.fx);
	fx_expect(b.cl, 1, -ESTALE);
	ck_assert_int_eq(fx_attach(b.fx, ARAX_ATTACH_RECOVER), 0);
	ck_assert_uint_eq(fx_drain(b.fx), 1);
	fx_expect(b.cl, 2, 0);
	tear_down(&b);
}
END_TEST

START_TEST(cancel)
{
	struct bench b = set_up(128);
	struct arax_task t = fx_marker(b.cl, 7);
	struct arax_cancel c = { .flags = 2 };
	const struct arax_dispatch *d;
	u64 tag;

	ck_assert_int_eq(core_cancel(b.cl->c, &c), -EOPNOTSUPP);
	c.flags = 0;
	c.queue = b.cl->queue;
	ck_assert_int_eq(core_cancel(b.cl->c, &c), -EINVAL);
	c.flags = ARAX_CANCEL_QUEUE;
	c.user_data = 1;
	ck_assert_int_eq(core_cancel(b.cl->c, &c), -EINVAL);
	c.user_data = 0;
	c.queue = 77;
	ck_assert_int_eq(core_cancel(b.cl->c, &c), -EBADF);
	c.queue = b.cl->queue;
	ck_assert_int_eq(core_cancel(b.cl->c, &c), 0);
	ck_assert_uint_eq(c.nr_canceled, 0);
	ck_assert_int_eq(fx_send(b.cl, &t), 1);
	tag = fx_expect_task(b.fx, 7);
	ck_assert_int_eq(core_cancel(b.cl->c, &c), 0);
	d = fx_next(b.fx);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_CANCEL);
	ck_assert_uint_eq(d->tag, tag);
	ck_assert_uint_eq(d->cells, 2);
	/* Asked twice, told twice; a committed one is not asked for. */
	fx_commit(b.fx, tag, -ECANCELED);
	fx_expect(b.cl, 7, -ECANCELED);
	ck_assert_int_eq(core_cancel(b.cl->c, &c), 0);
	ck_assert_ptr_null(fx_next(b.fx));
	tear_down(&b);
}
END_TEST

Suite *core_submit_suite(void)
{
	Suite *s = suite_create("core submit");
	TCase *tc = tcase_create("submit");

	tcase_add_test(tc, entry);
	tcase_add_test(tc, queue_gone);
	tcase_add_test(tc, ranges);
	tcase_add_test(tc, launches);
	tcase_add_test(tc, short_entries);
	tcase_add_test(tc, short_and_whole);
	tcase_add_test(tc, own_kernels);
	tcase_add_test(tc, extension);
	tcase_add_test(tc, targets);
	tcase_add_test(tc, no_arena);
	tcase_add_test(tc, long_entries);
	tcase_add_test(tc, credit);
	tcase_add_test(tc, silent);
	tcase_add_test(tc, corrupt_cq_head);
	tcase_add_test(tc, revoked);
	tcase_add_test(tc, revoked_before_a_death);
	tcase_add_test(tc, cancel);
	suite_add_tcase(s, tc);
	return s;
}
