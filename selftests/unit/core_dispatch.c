// SPDX-License-Identifier: MIT
/* The dispatch ring: what it holds, wrap, pads, notes, turns. */
#include "core_fixture.h"

START_TEST(contents)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 a = fx_buffer(cl, 8192), b = fx_buffer(cl, 4096);
	struct arax_task t = fx_copy(cl, 77, a, b, 100);
	const struct arax_dispatch *d;
	const struct arax_dispatch_range *r;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t.flags = ARAX_TASK_IDEMPOTENT;
	t.ranges[0].offset = 50;
	ck_assert_int_eq(fx_send(cl, &t), 1);
	d = fx_next(fx);
	ck_assert_ptr_nonnull(d);
	ck_assert_uint_eq(d->seq, 1);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_TASK);
	ck_assert_uint_eq(d->opcode, ARAX_OP_COPY);
	ck_assert_uint_eq(d->cells, 3);
	ck_assert_uint_eq(ARAX_TAG_EPOCH(d->tag), fx->epoch);
	ck_assert_uint_eq(d->tenant, 300);
	ck_assert_uint_eq(d->context, cl->init.context);
	ck_assert_uint_eq(d->queue, cl->queue);
	ck_assert_uint_eq(d->flags, ARAX_TASK_IDEMPOTENT);
	ck_assert_uint_eq(d->nr_ranges, 2);
	ck_assert_uint_eq(d->access, ARAX_IN | ARAX_OUT << 2);
	ck_assert_uint_eq(d->uid, 1000);
	ck_assert_uint_eq(d->user_data, 77);
	ck_assert_uint_ne(d->submit_ns, 0);
	r = (const void *)(d + 1);
	ck_assert_uint_eq(r[0].offset, 50);
	ck_assert_uint_eq(r[0].length, 100);
	ck_assert_uint_ne(r[0].buffer, r[1].buffer);
	ck_assert_ptr_null(fx_next(fx));
	ck_assert_uint_eq(fx_commit(fx, d->tag, 0), 0);
	fx_expect(cl, 77, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A ring too small for the largest task would never let it through. */
START_TEST(smallest_ring)
{
	struct core_params p = fx_params();
	struct fx *fx;
	struct fx_client *cl;
	struct arax_task t;
	struct arax_task_ext x = { .size = sizeof(x), .nr_ranges = ARAX_MAX_RANGES,
				   .arg_len = ARAX_MAX_ARGS };
	u32 i, round, buf;

	for (p.cells = 64; p.cells < 256; p.cells *= 2) {
		static const struct core_ops none;
		int err = 0;

		ck_assert_ptr_null(core_create(&none, &p, NULL, &err));
		ck_assert_int_eq(err, -EINVAL);
	}
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	buf = fx_buffer(cl, 4096);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t = fx_marker(cl, 0);
	t.opcode = ARAX_OP_CALL;
	t.flags = ARAX_TASK_EXT;
	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	for (i = 0; i < x.nr_ranges; i++) {
		struct arax_range r = { .buffer = buf, .access = ARAX_IN, .length = i, .count = 1 };

		memcpy(cl->region + cl->init.arena_offset + sizeof(x) + i * sizeof(r), &r,
		       sizeof(r));
	}
	for (i = 0; i < x.arg_len; i++)
		cl->region[cl->init.arena_offset + sizeof(x) +
			   x.nr_ranges * sizeof(struct arax_range) + i] = (u8)(i * 7);
	/* At every position that a marker in between brings about. */
	for (round = 0; round < 400; round++) {
		const struct arax_dispatch *d;
		struct arax_task m = fx_marker(cl, 1000);
		const u8 *args;
		u64 tag;

		t.user_data = round;
		fx_push(cl, &t);
		fx_push(cl, &m);
		ck_assert_int_eq(fx_submit(cl, 2), 2);
		d = fx_next(fx);
		ck_assert_ptr_nonnull(d);
		ck_assert_uint_eq(d->user_data, round);
		ck_assert_uint_eq(d->nr_ranges, 32);
		args = (const u8 *)(d + 1) + 32 * sizeof(struct arax_dispatch_range);
		ck_assert_mem_eq(args, cl->region + cl->init.arena_offset + sizeof(x) +
				 32 * sizeof(struct arax_range), ARAX_MAX_ARGS);
		tag = d->tag;
		fx_commit(fx, tag, 0);
		tag = fx_expect_task(fx, 1000);
		fx_commit(fx, tag, 0);
		fx_expect(cl, round, 0);
		fx_expect(cl, 1000, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static u8 pattern(u32 round, u32 i)
{
	return (u8)(round * 31 + i * 7 + 1);
}

/* With @nr ranges and @arg_len bytes of arguments, all of this round alone. */
static void push_wide(struct fx_client *cl, u32 buf, u32 round, u32 nr, u32 arg_len)
{
	struct arax_task_ext x = { .size = sizeof(x), .nr_ranges = (u16)nr, .arg_len = (u16)arg_len };
	u8 *at = cl->region + cl->init.arena_offset;
	struct arax_task t = fx_marker(cl, round);
	u32 i;

	t.opcode = ARAX_OP_CALL;
	t.flags = ARAX_TASK_EXT;
	memcpy(at, &x, sizeof(x));
	at += sizeof(x);
	for (i = 0; i < nr; i++, at += sizeof(struct arax_range)) {
		struct arax_range r = {
			.buffer = buf, .access = ARAX_IN, .count = 1, .length = pattern(round, i),
		};

		memcpy(at, &r, sizeof(r));
	}
	for (i = 0; i < arg_len; i++)
		*at++ = pattern(round, i);
	fx_push(cl, &t);
}

static u64 expect_wide(struct fx *fx, u32 round, u32 nr, u32 arg_len)
{
	const struct arax_dispatch *d = fx_next(fx);
	const struct arax_dispatch_range *r = (const void *)(d + 1);
	const u8 *args = arg_len > ARAX_INLINE_ARGS ? (const u8 *)(r + nr) : d->args;
	u32 i;

	ck_assert_ptr_nonnull(d);
	ck_assert_uint_eq(d->user_data, round);
	ck_assert_uint_eq(d->nr_ranges, nr);
	ck_assert_uint_eq(d->arg_len, arg_len);
	for (i = 0; i < nr; i++)
		ck_assert_uint_eq(r[i].length, pattern(round, i));
	for (i = 0; i < arg_len; i++)
		ck_assert_uint_eq(args[i], pattern(round, i));
	return d->tag;
}

/* What one task has had room for is another's in its place, with more, with less and with none. */
START_TEST(wide_tasks_in_one_place)
{
	static const struct { u32 nr, arg_len; } of[] = {
		{ 3, 0 }, { 6, 0 }, { 1, 16 }, { 0, 17 }, { 3, 128 }, { 2, 168 }, { 6, 9 }, { 7, 0 },
		{ 0, 248 }, { 0, 249 }, { 32, 4000 }, { 2, 0 }, { 4, 88 }, { 4, 89 }, { 0, 0 },
	};
	enum { NR = sizeof(of) / sizeof(of[0]) };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 round, i, buf = fx_buffer(cl, 4096);
	u64 tags[4];

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (round = 0; round < 20 * NR; round += 4) {
		/* Several at once have several. */
		for (i = 0; i < 4; i++) {
			push_wide(cl, buf, round + i, of[(round + i) % NR].nr,
				  of[(round + i) % NR].arg_len);
			ck_assert_int_eq(fx_submit(cl, 1), 1);
		}
		for (i = 0; i < 4; i++)
			tags[i] = expect_wide(fx, round + i, of[(round + i) % NR].nr,
					      of[(round + i) % NR].arg_len);
		for (i = 0; i < 4; i++) {
			fx_commit(fx, tags[3 - i], 0);
			fx_expect(cl, round + 3 - i, 0);
		}
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Arguments of 1..16 bytes are in the entry, whatever else the task brings. */
START_TEST(short_arguments)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_task t = fx_marker(cl, 5);
	struct arax_task_ext x = { .size = sizeof(x), .nr_ranges = 3 };
	u32 i, buf = fx_buffer(cl, 4096);
	const struct arax_dispatch *d;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	t.opcode = ARAX_OP_CALL;
	t.flags = ARAX_TASK_EXT;
	t.arg_len = 5;
	memcpy(t.args, "abcde", 5);
	memcpy(cl->region + cl->init.arena_offset, &x, sizeof(x));
	for (i = 0; i < 3; i++) {
		struct arax_range r = { .buffer = buf, .access = ARAX_IN, .count = 1 };

		memcpy(cl->region + cl->init.arena_offset + sizeof(x) + i * sizeof(r), &r,
		       sizeof(r));
	}
	ck_assert_int_eq(fx_send(cl, &t), 1);
	d = fx_next(fx);
	ck_assert_uint_eq(d->arg_len, 5);
	ck_assert_mem_eq(d->args, "abcde", 5);
	fx_commit(fx, d->tag, 0);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Positions are 32 bits and go round: the core and the client from near the end. */
START_TEST(position_wrap)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_ring_ctl *ctl = (void *)cl->region;
	u32 start = 0u - 40, i;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fx->core->tail = start;
	fx->core->page->head = start;
	fx->head = start;
	((struct arax_dispatch *)(fx->core->ring + (size_t)(start & 1023) * 64))->seq = start;
	cl->c->sq_head = start;
	cl->c->submitted = start;
	cl->c->cq_seen = start;
	cl->c->cq_tail = start;
	cl->sq_tail = start;
	cl->cq_head = start;
	ctl->cq_head = start;
	for (i = 0; i < 200; i++) {
		struct arax_task t = fx_marker(cl, i);
		u64 tag;

		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag = fx_expect_task(fx, i);
		fx_commit(fx, tag, 0);
		fx_expect(cl, i, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/*
 * What an earlier lap left in a cell must not look like a published entry.  The
 * second cell of an entry begins with grid[0], which is the client's: it says
 * "published" for the lap to come, where a task of three cells shifts the rest
 * so that an entry is looked for just there.
 */
START_TEST(stale_words)
{
	struct core_params p = fx_params();
	struct fx_client *cl;
	struct arax_task t;
	u32 i, buf, shifted = 0;
	struct fx *fx;

	p.cells = 256;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	buf = fx_buffer(cl, 4096);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 2000; i++) {
		u64 tag;

		t = fx_marker(cl, 0);
		t.opcode = ARAX_OP_CALL;
		t.grid[0] = fx->head + 1 + 256 + 1;
		if (fx->head / 256 != shifted) {
			shifted = fx->head / 256;
			t.nr_ranges = 1;
			t.ranges[0] = (struct arax_range){ .buffer = buf, .access = ARAX_IN,
							   .count = 1 };
		}
		ck_assert_int_eq(fx_send(cl, &t), 1);
		tag = fx_expect_task(fx, 0);
		ck_assert_ptr_null(fx_next(fx));
		fx_commit(fx, tag, 0);
		fx_expect(cl, 0, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A ring as full as it gets keeps the word of its first entry. */
START_TEST(full_ring)
{
	struct core_params p = fx_params();
	struct fx_client *cl;
	struct arax_task t;
	struct fx *fx;
	u32 i;

	p.cells = 256;
	p.slots = 512;
	fx = fx_new(&p);
	cl = fx_client(fx, 1, 2);
	ck_assert_int_eq(fx_init(cl, 256, 128, 0), 0);
	cl->queue = fx_queue(cl, 0);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 256; i++) {
		t = fx_marker(cl, i);
		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, 256), 256);
	ck_assert_uint_eq(fx->core->tail, 254);
	for (i = 0; i < 256; i++) {
		fx_commit(fx, fx_expect_task(fx, i), 0);
		fx_expect(cl, i, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A mediator that writes nonsense into its head starves itself alone. */
START_TEST(corrupt_head)
{
	struct core_params p = fx_params();
	const u32 cells = p.cells = 256;
	struct fx *fx = fx_new(&p);
	struct fx_client *cl = fx_client(fx, 1000, 0);
	u32 i, tail;

	ck_assert_int_eq(fx_init(cl, cells, 128, 0), 0);
	cl->queue = fx_queue(cl, ARAX_QUEUE_IN_ORDER);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	fx->core->page->head = 0x80000000;
	/* It is looked at where what was there before is full. */
	for (i = 0; i < cells; i++) {
		struct arax_task t = fx_marker(cl, i);

		fx_push(cl, &t);
	}
	ck_assert_int_eq(fx_submit(cl, cells), (int)cells);
	tail = fx->core->tail;
	ck_assert_uint_gt(tail, 0);
	ck_assert_uint_lt(tail, cells);
	ck_assert_int_eq(core_fetch(fx->core, &(struct arax_fetch){ 0 }), 0);
	ck_assert_uint_eq(fx->core->tail, tail);
	/* Nor does it get over its own cells by one that is ahead of all. */
	fx->core->page->head = tail + 1;
	ck_assert_int_eq(core_fetch(fx->core, &(struct arax_fetch){ 0 }), 0);
	ck_assert_uint_eq(fx->core->tail, tail);
	fx->core->page->head = 0;
	for (i = 0; i < cells; i++) {
		fx_commit(fx, fx_expect_task(fx, i), 0);
		fx_expect(cl, i, 0);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Who came late with an empty queue doesn't pass those who wait for room. */
START_TEST(turns)
{
	struct core_params p = fx_params();
	struct fx_client *a, *b;
	struct arax_task t;
	struct fx *fx;
	u64 tag[8];
	u32 i;

	p.slots = 5;		/* four, for slot 0 is none */
	fx = fx_new(&p);
	a = fx_client_ready(fx);
	b = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 6; i++) {
		t = fx_marker(a, i);
		ck_assert_int_eq(fx_send(a, &t), 1);
	}
	for (i = 0; i < 4; i++)
		tag[i] = fx_expect_task(fx, i);
	ck_assert_ptr_null(fx_next(fx));
	/* Room that nobody has been told of. */
	core_spin_lock(&fx->core->dispatch);
	fx->core->params.slots = 6;
	fx->core->slots = realloc(fx->core->slots, 6 * sizeof(*fx->core->slots));
	fx->core->slots[5] = (struct core_slot){ .gen = 1 };
	fx->core->slot_free = 5;
	fx->core->slot_last = 5;
	core_spin_unlock(&fx->core->dispatch);
	t = fx_marker(b, 100);
	ck_assert_int_eq(fx_send(b, &t), 1);
	tag[4] = fx_expect_task(fx, 4);
	ck_assert_ptr_null(fx_next(fx));
	for (i = 0; i < 5; i++)
		fx_commit(fx, tag[i], 0);
	ck_assert_uint_eq(fx_drain(fx), 2);
	fx_release(a);
	fx_release(b);
	fx_free(fx);
}
END_TEST

Suite *core_dispatch_suite(void)
{
	Suite *s = suite_create("core dispatch");
	TCase *tc = tcase_create("ring");

	tcase_add_test(tc, contents);
	tcase_add_test(tc, smallest_ring);
	tcase_add_test(tc, wide_tasks_in_one_place);
	tcase_add_test(tc, short_arguments);
	tcase_add_test(tc, position_wrap);
	tcase_add_test(tc, stale_words);
	tcase_add_test(tc, full_ring);
	tcase_add_test(tc, corrupt_head);
	tcase_add_test(tc, turns);
	suite_add_tcase(s, tc);
	return s;
}
