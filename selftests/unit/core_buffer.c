// SPDX-License-Identifier: MIT
/* Buffers: their calls, who holds them, what is charged; extents. */
#include "core_fixture.h"

static u64 used(struct fx *fx)
{
	return fx_used(fx->tenants[0], ARAX_RES_MEMORY);
}

static struct core_buffer *lookup(struct fx_client *cl, u32 h)
{
	return core_handle_find(&cl->c->handles, CORE_BUFFER, h);
}

static int create(struct fx_client *cl, u64 bytes, u32 flags, union core_args *a)
{
	*a = (union core_args){ .buffer_create = { .bytes = bytes, .flags = flags, .fd = -1 } };
	return fx_call(cl->fx, cl, ARAX_NR_BUFFER_CREATE, a);
}

START_TEST(creation)
{
	union core_args a;
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u64 ring = cl->init.region_size;

	ck_assert_uint_eq(used(fx), ring);
	ck_assert_int_eq(create(cl, 0, 0, &a), -EINVAL);
	ck_assert_int_eq(create(cl, (1ull << 48) + 1, 0, &a), -EINVAL);
	ck_assert_int_eq(create(cl, ~0ull, 0, &a), -EINVAL);
	ck_assert_int_eq(create(cl, 1, 2, &a), -EOPNOTSUPP);
	ck_assert_int_eq(create(cl, 1ull << 41, 0, &a), -EDQUOT);
	fx->fail_buffer = -ENOMEM;
	ck_assert_int_eq(create(cl, 1, 0, &a), -ENOMEM);
	fx->fail_buffer = 0;
	ck_assert_uint_eq(used(fx), ring);
	ck_assert_int_eq(create(cl, 4097, 0, &a), 0);
	ck_assert_uint_eq(a.buffer_create.bytes, 8192);
	ck_assert_uint_eq(used(fx), ring + 8192);
	ck_assert_uint_eq(core_atomic_read(&cl->c->memory), ring + 8192);
	ck_assert_int_eq(core_buffer_destroy(cl->c, a.buffer_create.handle), 0);
	ck_assert_int_eq(core_buffer_destroy(cl->c, a.buffer_create.handle), -EBADF);
	ck_assert_int_eq(core_buffer_destroy(cl->c, cl->queue), -EBADF);
	ck_assert_uint_eq(used(fx), ring);
	ck_assert_uint_eq(core_atomic_read(&cl->c->memory), ring);
	fx_release(cl);
	ck_assert_uint_eq(used(fx), 0);
	fx_free(fx);
}
END_TEST

/* No place for a handle: nothing stays. */
START_TEST(full_table)
{
	struct core_params p = fx_params();
	union core_args a;
	struct fx_client *cl;
	struct fx *fx;
	u32 i;

	p.max_handles = 10;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	for (i = 0; i < 9; i++)
		ck_assert_int_eq(create(cl, 4096, 0, &a), 0);
	ck_assert_int_eq(create(cl, 4096, 0, &a), -ENOSPC);
	ck_assert_uint_eq(fx->buffers, 9);
	ck_assert_uint_eq(used(fx), cl->init.region_size + 9 * 4096);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(import)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *peer = fx_client_ready(fx);
	struct arax_buffer_import *im = &a.buffer_import;
	struct arax_buffer_export ex = { 0 };
	u64 base = used(fx);
	u32 h;

	im->flags = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EOPNOTSUPP);
	im->flags = 0;
	im->pad = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->pad = 0;
	im->type = 4;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EOPNOTSUPP);
	im->type = ARAX_IMPORT_DMABUF;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EOPNOTSUPP);
	im->type = ARAX_IMPORT_MEMFD;
	im->fd = -1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EBADF);
	im->fd = 0;		/* an empty file */
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->fd = 3;
	im->address = 4096;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->address = 0;
	fx->fail_buffer = -ENOMEM;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -ENOMEM);
	fx->fail_buffer = 0;
	ck_assert_uint_eq(used(fx), base);
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), 0);
	ck_assert_uint_eq(im->bytes, 3 * 4096);
	ck_assert_uint_eq(used(fx), base + 3 * 4096);
	h = im->handle;
	a = (union core_args){ 0 };
	im->type = ARAX_IMPORT_USER;
	im->fd = -1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->bytes = 4095;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->bytes = 4096;
	im->address = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), -EINVAL);
	im->address = 1 << 20;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), 0);
	/* Export is the creator's; an import is the same buffer, charged once. */
	ex.handle = h;
	ex.flags = 1;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EOPNOTSUPP);
	ex.flags = 0;
	ex.type = 2;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EOPNOTSUPP);
	ex.type = ARAX_EXPORT_DMABUF;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EOPNOTSUPP);
	ex.type = ARAX_EXPORT_ARAX;
	ex.pad = 1;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EINVAL);
	ex.pad = 0;
	ex.handle = 0;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EBADF);
	ex.handle = h;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), 0);
	a = (union core_args){ 0 };
	im->type = ARAX_IMPORT_ARAX;
	im->fd = ex.fd + 1;
	ck_assert_int_eq(fx_call(fx, peer, ARAX_NR_BUFFER_IMPORT, &a), -EBADF);
	im->fd = ex.fd;
	/* Nor has a context more of its own buffer by more handles. */
	base = core_atomic_read(&cl->c->memory);
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), 0);
	ck_assert_uint_eq(core_atomic_read(&cl->c->memory), base);
	ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	ck_assert_uint_eq(core_atomic_read(&cl->c->memory), base);
	base = used(fx);
	ck_assert_int_eq(fx_call(fx, peer, ARAX_NR_BUFFER_IMPORT, &a), 0);
	ck_assert_uint_eq(used(fx), base);
	ck_assert_uint_eq(im->bytes, 3 * 4096);
	ex.handle = im->handle;
	ck_assert_int_eq(core_buffer_export(peer->c, &ex), -EPERM);
	ck_assert_int_eq(core_buffer_revoke(peer->c, im->handle), -EPERM);
	/* The creator goes; it is charged as long as anybody has it. */
	fx_release(cl);
	ck_assert_uint_eq(used(fx), peer->init.region_size + 3 * 4096);
	ck_assert_int_eq(core_buffer_destroy(peer->c, im->handle), 0);
	ck_assert_uint_eq(used(fx), peer->init.region_size + 3 * 4096);	/* the descriptor */
	/* Without a user it can't be used again. */
	ck_assert_int_eq(fx_call(fx, peer, ARAX_NR_BUFFER_IMPORT, &a), -ESTALE);
	fx_release(peer);
	fx_free(fx);
}
END_TEST

/* Ids of contexts come round: who has that of a buffer's creator by then is not that one. */
START_TEST(shared_by_a_namesake)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx), *peer = fx_client_ready(fx), *other;
	struct arax_buffer_export ex = { .handle = fx_buffer(cl, 4096) };
	union core_args a = { .buffer_import.type = ARAX_IMPORT_ARAX };
	const u32 id = cl->c->id;
	u64 base;

	ck_assert_int_eq(core_buffer_export(cl->c, &ex), 0);
	a.buffer_import.fd = ex.fd;
	ck_assert_int_eq(fx_call(fx, peer, ARAX_NR_BUFFER_IMPORT, &a), 0);
	fx_release(cl);
	fx->core->next_client = id;
	other = fx_client_ready(fx);
	ck_assert_uint_eq(other->c->id, id);
	base = core_atomic_read(&other->c->memory);
	ck_assert_int_eq(fx_call(fx, other, ARAX_NR_BUFFER_IMPORT, &a), 0);
	ck_assert_uint_eq(core_atomic_read(&other->c->memory), base);
	ex.handle = a.buffer_import.handle;
	ck_assert_int_eq(core_buffer_export(other->c, &ex), -EPERM);
	ck_assert_int_eq(core_buffer_revoke(other->c, ex.handle), -EPERM);
	ck_assert_int_eq(core_buffer_destroy(other->c, ex.handle), 0);
	ck_assert_uint_eq(core_atomic_read(&other->c->memory), base);
	fx_release(other);
	fx_release(peer);
	fx_free(fx);
}
END_TEST

START_TEST(revoke_it)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_buffer_query q = { 0 };
	struct arax_buffer_export ex = { 0 };
	struct arax_buffer_get g;

	ck_assert_int_eq(core_buffer_query(cl->c, &q), -EBADF);
	ck_assert_int_eq(core_buffer_revoke(cl->c, 5), -EBADF);
	q.handle = fx_buffer(cl, 5000);
	ck_assert_int_eq(core_buffer_query(cl->c, &q), 0);
	ck_assert_uint_eq(q.bytes, 8192);
	ck_assert_uint_eq(q.type, 0);
	ck_assert_uint_eq(q.flags, 0);
	ck_assert_int_eq(core_buffer_revoke(cl->c, q.handle), 0);
	g = (struct arax_buffer_get){ .id = lookup(cl, q.handle)->id };
	ck_assert_int_eq(core_buffer_get(fx->core, &g), -ESTALE);
	ck_assert(((struct fx_pages *)lookup(cl, q.handle)->link)->revoked);
	ck_assert_int_eq(core_buffer_query(cl->c, &q), 0);
	ck_assert_uint_eq(q.flags, ARAX_BUFFER_IS_REVOKED);
	ex.handle = q.handle;
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -ESTALE);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* The mediator is told when its descriptor is the last thing that holds a buffer. */
START_TEST(mediated)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 h = fx_buffer(cl, 4096), silent = fx_buffer(cl, 4096);
	struct core_buffer *buf = lookup(cl, h);
	const struct arax_dispatch *d;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	a.buffer_get.id = buf->id;
	a.buffer_get.flags = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), -EOPNOTSUPP);
	a.buffer_get.flags = 0;
	a.buffer_get.id |= 1ull << 32;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), -ENOENT);
	a.buffer_get.id = cl->c->ring_buf->id;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), -ENOENT);
	a.buffer_get.id = buf->id;
	fx->fail_get = -EMFILE;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), -EMFILE);
	fx->fail_get = 0;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), 0);
	ck_assert_uint_eq(a.buffer_get.bytes, 4096);
	ck_assert_uint_eq(a.buffer_get.context, cl->init.context);
	ck_assert_uint_eq(a.buffer_get.uid, 1000);
	ck_assert_int_eq(core_buffer_destroy(cl->c, silent), 0);
	ck_assert_ptr_null(fx_next(fx));	/* never mapped: nothing to say */
	ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	d = fx_next(fx);
	ck_assert_ptr_nonnull(d);
	ck_assert_uint_eq(d->type, ARAX_DISPATCH_BUFFER);
	ck_assert_uint_eq(d->object, a.buffer_get.id);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), -ENOENT);
	ck_assert_uint_eq(used(fx), cl->init.region_size + 4096);
	fx_close_buffer(fx, buf);
	ck_assert_uint_eq(used(fx), cl->init.region_size);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

static u32 drop_notes(struct fx *fx)
{
	const struct arax_dispatch *d;
	u32 n = 0;

	while ((d = fx_next(fx)))
		n += d->type == ARAX_DISPATCH_BUFFER;
	return n;
}

/* What the link holds for no mediator, as a memfd. */
static void import_mediated(struct fx *fx, struct fx_client *cl)
{
	union core_args a = { 0 }, g = { 0 };
	struct core_buffer *buf;

	a.buffer_import.type = ARAX_IMPORT_MEMFD;
	a.buffer_import.fd = 1;
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_BUFFER_IMPORT, &a), 0);
	buf = lookup(cl, a.buffer_import.handle);
	g.buffer_get.id = buf->id;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &g), 0);
	fx_close_buffer(fx, buf);
}

/*
 * However many end at once, and whether or not there is room: each is there, and so is its
 * id, until the mediator is told that it goes, or is no more (_i).
 */
START_TEST(told_before_they_go)
{
	struct core_params p = fx_params();
	struct arax_fetch fetch;
	struct fx_client *cl;
	struct fx *fx;
	u32 told, i;

	p.max_handles = 4000;
	fx = fx_new(&p);
	cl = fx_client_ready(fx);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	for (i = 0; i < 1000; i++)
		import_mediated(fx, cl);
	fx_release(cl);
	for (told = drop_notes(fx); !_i && told < 1000; told += i) {
		ck_assert_uint_eq(fx->buffers, 1000 - told);
		ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY), (1000 - told) * 4096);
		fetch = (struct arax_fetch){ 0 };
		ck_assert_int_eq(core_fetch(fx->core, &fetch), 0);
		i = drop_notes(fx);
		ck_assert_uint_ne(i, 0);
	}
	if (_i) {
		ck_assert_uint_eq(fx->buffers, 1000 - told);
		fx_die(fx);
	}
	ck_assert_uint_eq(fx->buffers, 0);
	ck_assert_uint_eq(fx_used(fx->tenants[0], ARAX_RES_MEMORY), 0);
	fx_free(fx);
}
END_TEST

static struct fx *asking;
static int asked;

static void ask(struct core_buffer *buf)
{
	union core_args a = { .buffer_get.id = buf->id };

	asked = fx_call(asking, NULL, ARAX_NR_BUFFER_GET, &a);
}

/* A mediator that guesses ids gets nothing that has no pages yet, or never gets any. */
START_TEST(not_without_pages)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	union core_args a = { 0 };

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	asking = fx;
	fx->backing = ask;
	fx_buffer(cl, 4096);
	ck_assert_int_eq(asked, -ENOENT);
	fx->fail_buffer = -ENOMEM;
	asked = 0;
	ck_assert_int_eq(create(cl, 4096, 0, &a), -ENOMEM);
	ck_assert_int_eq(asked, -ENOENT);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* Ids are few for all: one user, in however many contexts, leaves some. */
START_TEST(a_users_share)
{
	struct core_params p = fx_params();
	struct fx_client *a, *b, *other;
	union core_args args = { 0 };
	struct fx *fx;
	u32 h;

	p.user_buffers = 6;	/* two of them are regions */
	fx = fx_new(&p);
	a = fx_client_ready(fx);
	b = fx_client_ready(fx);
	other = fx_client(fx, 2000, 2);
	ck_assert_int_eq(fx_init(other, 16, 128, 0), 0);
	h = fx_buffer(a, 4096);
	fx_buffer(a, 4096);
	fx_buffer(b, 4096);
	fx_buffer(b, 4096);
	ck_assert_int_eq(create(a, 4096, 0, &args), -ENOSPC);
	ck_assert_uint_eq(used(fx), 4 * 4096 + 2 * a->init.region_size + other->init.region_size);
	fx_buffer(other, 4096);
	ck_assert_int_eq(core_buffer_destroy(a->c, h), 0);
	fx_buffer(b, 4096);
	fx_release(a);
	fx_release(b);
	fx_release(other);
	fx_free(fx);
}
END_TEST

/* The mediator is told of it, and nobody else gets it. */
START_TEST(explicit)
{
	union core_args a = { 0 };
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	struct arax_buffer_export ex = { 0 };
	struct core_buffer *buf;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(create(cl, 4096, ARAX_BUFFER_EXPLICIT, &a), 0);
	ex.handle = a.buffer_create.handle;
	buf = lookup(cl, ex.handle);
	ck_assert_int_eq(core_buffer_export(cl->c, &ex), -EOPNOTSUPP);
	a = (union core_args){ .buffer_get.id = buf->id };
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_BUFFER_GET, &a), 0);
	ck_assert_uint_eq(a.buffer_get.flags, ARAX_BUFFER_EXPLICIT);
	ck_assert_int_eq(core_buffer_destroy(cl->c, ex.handle), 0);
	fx_close_buffer(fx, buf);
	fx_release(cl);
	fx_free(fx);
}
END_TEST

/* A task holds its buffers; the ring's bytes stay charged to the last. */
START_TEST(tasks_hold)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client_ready(fx);
	u32 h = fx_buffer(cl, 4096);
	struct arax_task t = fx_copy(cl, 1, h, h, 10);
	u64 tag;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	ck_assert_int_eq(fx_send(cl, &t), 1);
	tag = fx_expect_task(fx, 1);
	ck_assert_int_eq(core_buffer_destroy(cl->c, h), 0);
	ck_assert_uint_eq(fx->buffers, 1);
	fx_release(cl);
	ck_assert_uint_eq(fx->buffers, 1);
	ck_assert_uint_eq(used(fx), 4096);
	ck_assert_uint_eq(fx_commit(fx, tag, 0), 0);
	ck_assert_uint_eq(used(fx), 0);
	fx_free(fx);
}
END_TEST

/* Against a bitmap: never forgets a byte, and is exact while it fits. */
START_TEST(extents)
{
	struct core_extent e[CORE_DIRTY_RANGES];
	bool map[256] = { false };
	u32 nr = 0, i, round, seed = 99;

	for (round = 0; round < 50000; round++) {
		u32 from, len;

		seed = seed * 1664525 + 1013904223;
		from = (seed >> 8) & 255;
		len = (seed >> 16) % 20;
		if (from + len > 256)
			len = 256 - from;
		if (seed >> 31) {
			core_extent_add(e, &nr, from, from + len);
			memset(map + from, true, len);
		} else if (len) {
			core_extent_remove(e, &nr, from, from + len);
			memset(map + from, false, len);
		}
		if (nr > CORE_DIRTY_RANGES)
			ck_abort_msg("%u extents", nr);
		for (i = 0; i < nr; i++)
			if (e[i].start >= e[i].end || (i && e[i].start <= e[i - 1].end))
				ck_abort_msg("not sorted, or touching, after %u", round);
		for (i = 0; i < 256; i++)
			if (map[i] && !core_extent_overlaps(e, nr, i, i + 1))
				ck_abort_msg("byte %u forgotten after %u", i, round);
		if (round % 64 == 0) {
			core_extent_remove(e, &nr, 0, 256);
			ck_assert_uint_eq(nr, 0);
			memset(map, false, sizeof(map));
		}
	}
}
END_TEST

Suite *core_buffer_suite(void)
{
	Suite *s = suite_create("core buffer");
	TCase *tc = tcase_create("buffer");

	tcase_add_test(tc, creation);
	tcase_add_test(tc, full_table);
	tcase_add_test(tc, import);
	tcase_add_test(tc, shared_by_a_namesake);
	tcase_add_test(tc, revoke_it);
	tcase_add_test(tc, mediated);
	tcase_add_loop_test(tc, told_before_they_go, 0, 2);
	tcase_add_test(tc, not_without_pages);
	tcase_add_test(tc, a_users_share);
	tcase_add_test(tc, explicit);
	tcase_add_test(tc, tasks_hold);
	tcase_add_test(tc, extents);
	suite_add_tcase(s, tc);
	return s;
}
