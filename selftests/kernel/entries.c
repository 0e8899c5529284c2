// SPDX-License-Identifier: MIT
/*
 * Entries of the submission ring: what is wrong with one completes with the
 * error of that check, and what is right reaches the mediator as it was.
 */
#include "ktest.h"

#include <sys/ioctl.h>

static struct client c;
static struct mediator m;
static uint32_t queue, buffer, timeline, kernel;
static uint64_t serial;

#define BYTES	(16 * PAGE)
#define ARENA	(4 * PAGE)

static void set_up(uint32_t entry_size)
{
	static const struct arax_signature sig = { .nr_ranges = 1, .arg_len = 4, .access = 3 };
	char name[32];

	client_open(&c, 8, entry_size, ARENA);
	mediator_open(&m, 0);
	queue = queue_new(&c, ARAX_QUEUE_DATAFLOW);
	timeline = timeline_new(&c, 0);
	buffer = buffer_new(&c, BYTES).handle;
	snprintf(name, sizeof(name), "entries-%d", getpid());
	kernel = kernel_publish(&m, name, &sig);
}

static void tear_down(void)
{
	mediator_close(&m);
	client_close(&c);
}

static struct arax_range range(unsigned int access, uint64_t offset, uint64_t length)
{
	return (struct arax_range) { .buffer = buffer, .access = access, .offset = offset,
				     .length = length, .count = 1 };
}

/* A marker, a launch, a copy or a fill that is right. */
static struct arax_task *good(unsigned int opcode)
{
	struct arax_task *t = client_task(&c);
	int i;

	t->opcode = (uint8_t)opcode;
	t->queue = queue;
	t->user_data = ++serial;
	if (opcode == ARAX_OP_LAUNCH) {
		t->kernel = kernel;
		t->nr_ranges = 1;
		t->ranges[0] = range(ARAX_INOUT, 0, PAGE);
		t->arg_len = 4;
		for (i = 0; i < 3; i++)
			t->grid[i] = t->block[i] = 1;
	} else if (opcode == ARAX_OP_COPY) {
		t->nr_ranges = 2;
		t->ranges[0] = range(ARAX_IN, 0, PAGE);
		t->ranges[1] = range(ARAX_OUT, PAGE, PAGE);
	} else if (opcode == ARAX_OP_FILL) {
		t->nr_ranges = 1;
		t->ranges[0] = range(ARAX_OUT, 0, PAGE);
		t->arg_len = 4;
	}
	return t;
}

static void submit(void)
{
	uint32_t n;

	client_publish(&c);
	CHECK_OK(client_submit(&c, 1, &n));
	CHECK_EQ(n, 1);
}

/* It reaches the mediator, who ends it. */
static struct work accepted(void)
{
	struct arax_completion e;
	struct work w;

	submit();
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	e = client_wait(&c);
	CHECK_EQ(e.result, 0);
	CHECK_EQ(e.user_data, serial);
	CHECK_EQ(e.tag, w.d.tag);
	return w;
}

static void refused(int err)
{
	struct arax_completion e;
	struct work w;

	submit();
	CHECK(client_reap(&c, &e));	/* at once */
	CHECK_EQ(e.result, -err);
	CHECK_EQ(e.user_data, serial);
	CHECK(e.tag && !ARAX_TAG_EPOCH(e.tag));
	CHECK_EQ(e.device, ~0u);
	CHECK(!mediator_take(&m, &w));
}

/* One thing is wrong with it. */
#define WRONG(opcode, err, ...) do { \
	struct arax_task *t = good(opcode); \
	__VA_ARGS__; \
	refused(err); \
} while (0)

KTEST(headers)
{
	set_up(128);
	good(ARAX_OP_MARKER);
	accepted();
	WRONG(ARAX_OP_MARKER, EOPNOTSUPP, t->flags = 0x20);
	WRONG(ARAX_OP_MARKER, EINVAL, t->flags = ARAX_TASK_SHORT);
	WRONG(ARAX_OP_MARKER, EOPNOTSUPP, t->flags = 0x8000);
	WRONG(ARAX_OP_MARKER, EOPNOTSUPP, t->opcode = ARAX_OP_MAX);
	WRONG(ARAX_OP_MARKER, EOPNOTSUPP, t->opcode = 255);
	WRONG(ARAX_OP_MARKER, EINVAL, t->nr_ranges = 3);
	WRONG(ARAX_OP_MARKER, EINVAL, t->nr_ranges = 255);
	WRONG(ARAX_OP_MARKER, EINVAL, t->arg_len = ARAX_INLINE_ARGS + 1);
	WRONG(ARAX_OP_MARKER, EINVAL, t->arg_len = 4);
	WRONG(ARAX_OP_MARKER, EBADF, t->queue = 0);
	WRONG(ARAX_OP_MARKER, EBADF, t->queue = ~0u);
	WRONG(ARAX_OP_MARKER, EBADF, t->queue = buffer);
	tear_down();
}

KTEST(ranges)
{
	struct arax_range r;

	set_up(128);
#define RANGE(err, ...) WRONG(ARAX_OP_MARKER, err, t->nr_ranges = 1; \
			      r = range(ARAX_IN, 0, PAGE); __VA_ARGS__; t->ranges[0] = r)
	RANGE(EBADF, r.buffer = 0);
	RANGE(EBADF, r.buffer = queue);
	RANGE(EINVAL, r.access = 0);
	RANGE(EINVAL, r.access = 4);
	RANGE(EINVAL, r.count = 0);
	RANGE(EINVAL, r.stride = 1);
	RANGE(EINVAL, r.count = 2; r.stride = PAGE - 1);
	RANGE(EINVAL, r.length = BYTES + 1);
	RANGE(EINVAL, r.offset = BYTES);
	RANGE(EINVAL, r.offset = BYTES - PAGE + 1);
	RANGE(EINVAL, r.offset = ~0ull);
	RANGE(EINVAL, r.length = ~0ull);
	RANGE(EINVAL, r.offset = 1; r.length = ~0ull);
	RANGE(EINVAL, r.count = 17; r.stride = PAGE);
	RANGE(EINVAL, r.count = ~0u; r.stride = ~0u);
	RANGE(EINVAL, r.count = ~0u; r.stride = ~0u; r.length = 0; r.offset = ~0ull);
	/* The second of two is looked at as well. */
	WRONG(ARAX_OP_MARKER, EINVAL, t->nr_ranges = 2; t->ranges[0] = range(ARAX_IN, 0, 1);
	      t->ranges[1] = range(ARAX_IN, BYTES, 1));
	/* Just inside. */
	good(ARAX_OP_MARKER);
	tear_down();
}

KTEST(ranges_that_just_fit)
{
	struct arax_task *t;
	struct work w;

	set_up(128);
	t = good(ARAX_OP_MARKER);
	t->nr_ranges = 2;
	t->ranges[0] = range(ARAX_IN, BYTES, 0);
	t->ranges[1] = range(ARAX_INOUT, 0, PAGE);
	t->ranges[1].count = 16;
	t->ranges[1].stride = PAGE;
	w = accepted();
	CHECK_EQ(w.d.nr_ranges, 2);
	CHECK_EQ(w.d.access, ARAX_IN | ARAX_INOUT << 2);
	CHECK_EQ(w.ranges[0].offset, BYTES);
	CHECK_EQ(w.ranges[0].length, 0);
	CHECK_EQ(w.ranges[1].count, 16);
	CHECK_EQ(w.ranges[1].stride, PAGE);
	CHECK_EQ(w.ranges[1].buffer, buffer_query(&c, buffer).id);
	tear_down();
}

KTEST(launches)
{
	static const struct arax_signature other = { .nr_ranges = 0, .arg_len = 0 };
	char name[32];
	struct work w;
	struct arax_task *t;
	int i;

	set_up(128);
	WRONG(ARAX_OP_LAUNCH, ENOENT, t->kernel = 0);
	WRONG(ARAX_OP_LAUNCH, ENOENT, t->kernel = 4096);
	WRONG(ARAX_OP_LAUNCH, ENOENT, t->kernel = ~ARAX_KERNEL_OWN);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->kernel = ~0u, t->grid[0] = 0);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->nr_ranges = 0);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->nr_ranges = 2; t->ranges[1] = range(ARAX_IN, 0, 1));
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->ranges[0].access = ARAX_IN);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->arg_len = 0);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->arg_len = 8);
	for (i = 0; i < 3; i++) {
		WRONG(ARAX_OP_LAUNCH, EINVAL, t->grid[i] = 0);
		WRONG(ARAX_OP_LAUNCH, EINVAL, t->block[i] = 0);
	}
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->grid[0] = t->grid[1] = t->grid[2] = ~0u);
	WRONG(ARAX_OP_LAUNCH, EINVAL, t->grid[0] = t->grid[1] = ~0u; t->block[0] = 2);
	t = good(ARAX_OP_LAUNCH);
	t->grid[1] = 77;
	t->block[2] = 3;
	memcpy(t->args, "abcd", 4);
	w = accepted();
	CHECK_EQ(w.d.opcode, ARAX_OP_LAUNCH);
	CHECK_EQ(w.d.kernel, kernel);
	CHECK_EQ(w.d.grid[1], 77);
	CHECK_EQ(w.d.block[2], 3);
	CHECK_EQ(w.d.arg_len, 4);
	CHECK_OK(memcmp(w.args, "abcd", 4));
	CHECK_EQ(w.d.context, c.init.context);
	CHECK_EQ(w.d.uid, 0);
	CHECK_EQ(w.d.queue, queue);
	CHECK_EQ(w.d.queue_flags, ARAX_QUEUE_DATAFLOW);
	CHECK_EQ(ARAX_TAG_EPOCH(w.d.tag), m.at.epoch);
	CHECK(w.d.submit_ns && w.d.submit_ns <= now_ns());
	/* A new signature under the old name: the old id is no kernel any more. */
	snprintf(name, sizeof(name), "entries-%d", getpid());
	kernel_publish(&m, name, &other);
	WRONG(ARAX_OP_LAUNCH, ENOENT, (void)t);
	tear_down();
}

/* A launch in one line, with something behind it that nobody is to read. */
static struct arax_task_short *good_short(void)
{
	uint8_t *t = (uint8_t *)client_task(&c);
	struct arax_task_short *s = (void *)t;

	memset(t + sizeof(*s), 0xff, c.init.entry_size - sizeof(*s));
	s->opcode = ARAX_OP_LAUNCH;
	s->flags = ARAX_TASK_SHORT;
	s->nr_ranges = 1;
	s->user_data = ++serial;
	s->queue = queue;
	s->kernel = kernel;
	s->grid = 7;
	s->buffer[0] = buffer;
	s->length[0] = PAGE;
	memcpy(s->args, "args", 4);
	return s;
}

#define WRONG_SHORT(err, ...) do { \
	struct arax_task_short *s = good_short(); \
	__VA_ARGS__; \
	refused(err); \
} while (0)

KTEST(short_entries)
{
	static const unsigned int sizes[] = { 128, 256 };
	struct work w;
	int i, k;

	for (k = 0; k < 2; k++) {
		set_up(sizes[k]);
		good_short();
		w = accepted();
		CHECK_EQ(w.d.opcode, ARAX_OP_LAUNCH);
		CHECK_EQ(w.d.kernel, kernel);
		CHECK_EQ(w.d.flags, 0);
		CHECK_EQ(w.d.nr_ranges, 1);
		CHECK_EQ(w.d.access, ARAX_INOUT);
		CHECK_EQ(w.d.arg_len, 4);
		CHECK_OK(memcmp(w.d.args, "args\0\0\0\0\0\0\0\0\0\0\0", 16));
		for (i = 0; i < 3; i++) {
			CHECK_EQ(w.d.grid[i], i ? 1 : 7);
			CHECK_EQ(w.d.block[i], 1);
		}
		CHECK_EQ(w.ranges[0].offset, 0);
		CHECK_EQ(w.ranges[0].length, PAGE);
		CHECK_EQ(w.ranges[0].count, 1);
		CHECK_EQ(w.ranges[0].stride, 0);
		WRONG_SHORT(EINVAL, s->opcode = ARAX_OP_MARKER);
		WRONG_SHORT(EINVAL, s->flags |= ARAX_TASK_EXT);
		WRONG_SHORT(EOPNOTSUPP, s->flags |= 0x20);
		WRONG_SHORT(EBADF, s->queue = buffer);
		WRONG_SHORT(ENOENT, s->kernel = 0);
		WRONG_SHORT(ENOENT, s->kernel = kernel + 1000);
		WRONG_SHORT(EINVAL, s->kernel = ARAX_KERNEL_OWN | 1);
		WRONG_SHORT(EINVAL, s->grid = 0);
		WRONG_SHORT(EINVAL, s->nr_ranges = 0);
		WRONG_SHORT(EINVAL, s->nr_ranges = 2);
		WRONG_SHORT(EINVAL, s->nr_ranges = 3);
		WRONG_SHORT(EBADF, s->buffer[0] = 0);
		WRONG_SHORT(EBADF, s->buffer[0] = queue);
		WRONG_SHORT(EINVAL, s->length[0] = BYTES + 1);
		WRONG_SHORT(EINVAL, s->buffer[1] = buffer);
		WRONG_SHORT(EINVAL, s->length[1] = 1);
		tear_down();
	}
}

KTEST(copies_and_fills)
{
	unsigned int n;

	set_up(128);
	WRONG(ARAX_OP_COPY, EINVAL, t->nr_ranges = 1);
	WRONG(ARAX_OP_COPY, EINVAL, t->ranges[0].access = ARAX_OUT);
	WRONG(ARAX_OP_COPY, EINVAL, t->ranges[1].access = ARAX_IN);
	WRONG(ARAX_OP_COPY, EINVAL, t->ranges[1].length = PAGE - 1);
	WRONG(ARAX_OP_COPY, EINVAL, t->arg_len = 1);
	WRONG(ARAX_OP_FILL, EINVAL, t->nr_ranges = 0);
	WRONG(ARAX_OP_FILL, EINVAL, t->ranges[0].access = ARAX_INOUT);
	WRONG(ARAX_OP_FILL, EINVAL, t->arg_len = 0);
	WRONG(ARAX_OP_FILL, EINVAL, t->arg_len = 3);
	WRONG(ARAX_OP_FILL, EINVAL, t->ranges[0].length = PAGE - 2);
	good(ARAX_OP_COPY);
	accepted();
	for (n = 1; n <= 16; n *= 2) {
		good(ARAX_OP_FILL)->arg_len = (uint16_t)n;
		accepted();
	}
	/* A call is opaque. */
	good(ARAX_OP_CALL)->arg_len = 5;
	CHECK_EQ(accepted().d.opcode, ARAX_OP_CALL);
	tear_down();
}

static struct arax_task_ext *extend(struct arax_task *t, uint32_t at)
{
	struct arax_task_ext *x = client_arena(&c, at);

	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	t->flags |= ARAX_TASK_EXT;
	t->ext = at;
	return x;
}

#define WRONG_EXT(err, ...) do { \
	struct arax_task *t = good(ARAX_OP_CALL); \
	struct arax_task_ext *x = extend(t, 64); \
	__VA_ARGS__; \
	(void)x; \
	refused(err); \
} while (0)

KTEST(extensions)
{
	const uint32_t size = sizeof(struct arax_task_ext);

	set_up(128);
	WRONG_EXT(EINVAL, t->ext = 4);
	WRONG_EXT(EINVAL, t->ext = ARENA);
	WRONG_EXT(EINVAL, t->ext = ARENA - size + 8);
	WRONG_EXT(EINVAL, t->ext = ~7u);
	WRONG_EXT(EINVAL, x->size = 0);
	WRONG_EXT(EINVAL, x->pad = 1);
	WRONG_EXT(EINVAL, x->size = size - 1);
	WRONG_EXT(E2BIG, x->size = size + 8);
	WRONG_EXT(EINVAL, x->nr_ranges = ARAX_MAX_RANGES + 1);
	WRONG_EXT(EINVAL, x->nr_ranges = 65535);
	WRONG_EXT(EINVAL, x->nr_ranges = ARAX_MAX_RANGES; t->nr_ranges = 1;
		  t->ranges[0] = range(ARAX_IN, 0, 1));
	WRONG_EXT(EINVAL, x->arg_len = ARAX_MAX_ARGS + 1);
	WRONG_EXT(EINVAL, x->arg_len = 8; t->arg_len = 8);
	WRONG_EXT(EBADF, x->wait_timeline = 99);
	WRONG_EXT(EBADF, x->signal_timeline = 99);
	WRONG_EXT(EBADF, x->wait_timeline = queue);
	WRONG_EXT(EBADF, x->nr_ranges = 1; memset(x + 1, 0, sizeof(struct arax_range)));
	/* At the very end there is room for it, but not for what it says. */
	do {
		struct arax_task *t = good(ARAX_OP_CALL);

		extend(t, ARENA - size);
		accepted();
		t = good(ARAX_OP_CALL);
		extend(t, ARENA - size)->arg_len = 1;
		refused(EINVAL);
		t = good(ARAX_OP_CALL);
		extend(t, ARENA - size)->nr_ranges = 1;
		refused(EINVAL);
	} while (0);
	tear_down();
}

KTEST(extensions_carry_what_they_say)
{
	struct arax_task_ext *x;
	struct arax_range *r;
	struct arax_task *t;
	struct work w;
	uint8_t *args;
	int i;

	set_up(128);
	t = good(ARAX_OP_CALL);
	t->nr_ranges = 2;
	t->ranges[0] = range(ARAX_IN, 0, 1);
	t->ranges[1] = range(ARAX_OUT, 1, 1);
	x = extend(t, 128);
	x->nr_ranges = ARAX_MAX_RANGES - 2;
	x->arg_len = ARAX_MAX_ARGS;
	x->deadline_ns = 123456789;
	x->signal_timeline = timeline;
	x->signal_value = 9;
	r = (void *)(x + 1);
	for (i = 0; i < ARAX_MAX_RANGES - 2; i++)
		r[i] = range(ARAX_INOUT, 2 + i, 1);
	args = (void *)(r + ARAX_MAX_RANGES - 2);
	for (i = 0; i < ARAX_MAX_ARGS; i++)
		args[i] = (uint8_t)(i * 7);
	submit();
	/* It was copied: the arena may be written again. */
	memset(client_arena(&c, 0), 0xee, ARENA);
	w = mediator_task(&m);
	CHECK_EQ(w.d.nr_ranges, ARAX_MAX_RANGES);
	CHECK_EQ(w.d.arg_len, ARAX_MAX_ARGS);
	CHECK_EQ(w.d.deadline_ns, 123456789);
	CHECK_EQ(w.d.flags & ARAX_TASK_EXT, 0);
	for (i = 0; i < ARAX_MAX_RANGES; i++)
		CHECK_EQ(w.ranges[i].offset, i);
	for (i = 0; i < ARAX_MAX_ARGS; i++)
		CHECK_EQ(w.args[i], (uint8_t)(i * 7));
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	tear_down();
}

KTEST(without_an_arena)
{
	struct arax_task *t;

	set_up(128);
	client_close(&c);
	client_open(&c, 8, 128, 0);
	queue = queue_new(&c, 0);
	t = good(ARAX_OP_CALL);
	t->flags = ARAX_TASK_EXT;
	refused(EINVAL);
	tear_down();
}

KTEST(entries_of_256_bytes)
{
	struct arax_task256 *t;
	struct work w;
	int i;

	set_up(256);
	t = (void *)good(ARAX_OP_CALL);
	t->base.nr_ranges = 6;
	for (i = 0; i < 6; i++)
		*(i < 2 ? &t->base.ranges[i] : &t->more[i - 2]) = range(ARAX_IN, i, 1);
	w = accepted();
	CHECK_EQ(w.d.nr_ranges, 6);
	for (i = 0; i < 6; i++)
		CHECK_EQ(w.ranges[i].offset, i);
	t = (void *)good(ARAX_OP_CALL);
	t->base.nr_ranges = 7;
	refused(EINVAL);
	t = (void *)good(ARAX_OP_CALL);
	t->base.nr_ranges = 6;
	for (i = 0; i < 5; i++)
		*(i < 2 ? &t->base.ranges[i] : &t->more[i - 2]) = range(ARAX_IN, i, 1);
	t->more[3] = range(ARAX_IN, BYTES, 1);
	refused(EINVAL);
	tear_down();
}

KTEST(revoked_buffers_are_ESTALE)
{
	struct arax_handle h = { .size = sizeof(h) };

	set_up(128);
	h.handle = buffer;
	CHECK_OK(CALL(c.fd, BUFFER_REVOKE, &h));
	WRONG(ARAX_OP_LAUNCH, ESTALE, (void)t);
	tear_down();
}

static void expect(uint64_t user_data, int result, uint64_t origin)
{
	struct arax_completion e;

	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.user_data, user_data);
	CHECK_EQ(e.result, result);
	CHECK_EQ(e.origin, origin);
}

static void expect_run(uint64_t user_data)
{
	struct work w = mediator_task(&m);

	CHECK_EQ(w.d.user_data, user_data);
	mediator_done(&m, w.d.tag, 0);
	expect(user_data, 0, 0);
}

static void push(uint64_t user_data, uint32_t q, unsigned int access, uint64_t offset, bool bad)
{
	struct arax_task *t = good(ARAX_OP_CALL);

	t->user_data = user_data;
	t->queue = q;
	t->nr_ranges = 1;
	t->ranges[0] = range(access, offset, 8);
	if (bad)
		t->opcode = ARAX_OP_MAX;
	client_publish(&c);
}

KTEST(a_refused_task_fails_its_dependents)
{
	struct arax_completion e;
	uint32_t ordered, go_on, n;

	set_up(128);
	ordered = queue_new(&c, ARAX_QUEUE_IN_ORDER);
	go_on = queue_new(&c, ARAX_QUEUE_DATAFLOW | ARAX_QUEUE_CONTINUE);
	push(1, queue, ARAX_OUT, 0, true);
	push(2, queue, ARAX_IN, 0, false);
	push(3, queue, ARAX_IN, 8, false);
	push(4, ordered, ARAX_INOUT, 4, false);
	push(5, ordered, ARAX_IN, 100, false);
	push(6, go_on, ARAX_IN, 0, false);
	CHECK_OK(client_submit(&c, 6, &n));
	CHECK_EQ(n, 6);
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.user_data, 1);
	CHECK_EQ(e.result, -EOPNOTSUPP);
	expect(2, -ECANCELED, e.tag);
	expect(4, -ECANCELED, e.tag);
	expect(5, -ECANCELED, e.tag);
	expect_run(3);
	expect_run(6);
	/* The client knows: what it submits now runs. */
	push(7, queue, ARAX_IN, 0, false);
	push(8, ordered, ARAX_IN, 0, false);
	CHECK_OK(client_submit(&c, 2, &n));
	expect_run(7);
	expect_run(8);
	CHECK_EQ(usage(&c, ARAX_USAGE_CONTEXT).counters[ARAX_RES_TASKS].used, 0);
	tear_down();
}

/* What was published behind it counts, also if it is submitted by another call. */
KTEST(a_refused_task_fails_what_was_published)
{
	struct arax_completion e;
	uint32_t n;

	set_up(128);
	push(1, queue, ARAX_OUT, 0, true);
	push(2, queue, ARAX_IN, 0, false);
	CHECK_OK(client_submit(&c, 1, &n));
	push(3, queue, ARAX_IN, 0, false);
	CHECK_OK(client_submit(&c, 2, &n));
	CHECK_EQ(n, 2);
	CHECK(client_reap(&c, &e));
	CHECK_EQ(e.user_data, 1);
	expect(2, -ECANCELED, e.tag);
	expect_run(3);
	tear_down();
}

/* Whatever is in the ring and the arena: each entry ends with an error or at the mediator. */
KTEST(garbage)
{
	int round, rounds = ktest_rounds(4000), i, seen, bad = 0;
	unsigned int seed = 1;
	struct arax_completion e;
	struct work w;
	uint32_t n;

	set_up(256);
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 4; i++) {
			uint32_t *t = (void *)client_task(&c);
			unsigned int k;

			for (k = 1; k < 64; k++)
				t[k] = rand_r(&seed) % 4 ? rand_r(&seed) & 0xff :
							   (uint32_t)rand_r(&seed) << 1;
			/* Half of them get further than the first checks. */
			if (rand_r(&seed) % 2) {
				struct arax_task *x = (void *)t;

				x->queue = queue;
				x->opcode %= 5;
				x->flags &= 0xf;
				x->nr_ranges %= 7;
				x->ext &= ARENA - 8;
				x->arg_len %= 17;
				for (k = 0; k < 2; k++)
					x->ranges[k].buffer = buffer;
			}
			client_publish(&c);
		}
		for (i = 0; i < 64; i++)
			((uint32_t *)client_arena(&c, 0))[rand_r(&seed) % (ARENA / 4)] =
				(uint32_t)rand_r(&seed) & (i & 1 ? 0x3f : ~0u);
		CHECK_OK(client_submit(&c, 4, &n));
		CHECK_EQ(n, 4);
		seen = 0;
		while (mediator_take(&m, &w))
			if (w.d.type == ARAX_DISPATCH_TASK)
				mediator_done(&m, w.d.tag, 0);
		while (client_reap(&c, &e)) {
			seen++;
			bad += e.result != 0;
		}
		/* Silent ones leave none. */
		CHECK(seen <= 4);
	}
	CHECK(bad > rounds);
	/* And nobody took harm. */
	good(ARAX_OP_MARKER);
	submit();
	w = mediator_task(&m);
	mediator_done(&m, w.d.tag, 0);
	CHECK_EQ(client_wait(&c).result, 0);
	tear_down();
}
