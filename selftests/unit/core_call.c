// SPDX-License-Identifier: MIT
/* The table of calls, and what is checked for all of them; info; registry. */
#include "core_fixture.h"

START_TEST(table)
{
	u32 nr, n = 0;

	for (nr = 0; nr < 0x200; nr++) {
		const struct core_call *call = core_call_find(nr);

		if (!call)
			continue;
		n++;
		ck_assert_uint_eq(call->nr, nr);
		ck_assert_uint_le(call->min_size, call->size);
		ck_assert_uint_ge(call->min_size, 8);
		ck_assert_uint_le(call->size, sizeof(union core_args));
		ck_assert_uint_le(call->size + sizeof(struct arax_msg), ARAX_MSG_MAX);
		/* The clients' numbers are below 0x80. */
		ck_assert_int_eq(!!(call->flags & CORE_ROLE_CLIENT), nr < 0x80);
	}
	ck_assert_uint_eq(n, 37);
	ck_assert_ptr_null(core_call_find(0));
	ck_assert_ptr_null(core_call_find(0xffffffff));
	ck_assert_ptr_null(core_call_find(ARAX_NR_CONTEXT_KILL + 1));
}
END_TEST

START_TEST(before_init_and_after_death)
{
	struct fx *fx = fx_new(NULL);
	struct fx_client *cl = fx_client(fx, 1, 2);
	union core_args a;
	u32 nr;

	for (nr = 0; nr < 0x80; nr++) {
		const struct core_call *call = core_call_find(nr);

		if (!call || !(call->flags & CORE_CALL_INIT))
			continue;
		a = (union core_args){ 0 };
		ck_assert_int_eq(fx_call(fx, cl, nr, &a), -ENXIO);
	}
	ck_assert_int_eq(core_submit(cl->c, 1), -ENXIO);
	a = (union core_args){ 0 };
	ck_assert_int_eq(fx_call(fx, cl, ARAX_NR_USAGE_QUERY, &a), 0);
	core_client_kill(cl->c, EPIPE);
	for (nr = 0; nr < 0x80; nr++) {
		if (!core_call_find(nr))
			continue;
		a = (union core_args){ 0 };
		ck_assert_int_eq(fx_call(fx, cl, nr, &a), -EPIPE);
	}
	fx_release(cl);
	fx_free(fx);
}
END_TEST

START_TEST(info)
{
	struct fx *fx = fx_new(NULL);
	union core_args a = { 0 };

	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_INFO, &a), 0);
	ck_assert_uint_eq(a.info.abi_version, ARAX_ABI_VERSION);
	ck_assert_uint_eq(a.info.link, ARAX_LINK_KERNEL);
	ck_assert_uint_eq(a.info.max_depth, ARAX_MAX_DEPTH);
	ck_assert_uint_eq(a.info.max_handles, 1000);
	ck_assert_str_eq(a.info.version, ARAX_VERSION);
	a.info.pad = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_INFO, &a), -EINVAL);
	/* Calls that sleep are the link's. */
	a = (union core_args){ 0 };
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_FETCH, &a), -ENOTTY);
	fx_free(fx);
}
END_TEST

START_TEST(devices)
{
	struct fx *fx = fx_new(NULL);
	union core_args a = { .device = { .name = "d0", .lanes = 2 } };

	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_QUERY, &a), -ENOENT);
	a.device.index = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);	/* a gap */
	a.device.index = CORE_MAX_DEVICES;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -ENOSPC);
	a.device.index = 0;
	a.device.flags = 2;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	a.device.flags = ARAX_DEVICE_ONLINE;
	a.device.name[0] = 0;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	memset(a.device.name, 'x', ARAX_NAME_LEN);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	a.device.name[ARAX_NAME_LEN - 1] = 0;
	memset(a.device.reason, 'y', ARAX_REASON_LEN);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	a.device.reason[ARAX_REASON_LEN - 1] = 0;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), 0);
	a.device.lanes = 3;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), 0);
	a = (union core_args){ 0 };
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_QUERY, &a), 0);
	ck_assert_uint_eq(a.device.lanes, 3);
	ck_assert_uint_eq(strlen(a.device.reason), ARAX_REASON_LEN - 1);
	ck_assert_uint_eq(fx->core->nr_devices, 1);
	a.device.pad = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	a.device.pad = 0;
	a.device.known = ARAX_DEVICE_KNOWN + 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), -EINVAL);
	fx_free(fx);
}
END_TEST

#define SECOND	1000000000ull

/* What is known of device 0, which was true @age_ns ago. */
static void publish_figures(struct fx *fx, u32 known, u64 age_ns)
{
	union core_args a = { .device = { .name = "d0", .known = known, .age_ns = age_ns,
					  .busy = known ? 42 : 0 } };

	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_PUBLISH, &a), 0);
}

static struct arax_device look_at_device(struct fx *fx)
{
	union core_args a = { 0 };

	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_DEVICE_QUERY, &a), 0);
	return a.device;
}

static bool is_asked(struct fx *fx)
{
	const struct arax_dispatch *d = fx_next(fx);

	if (d)
		ck_assert_uint_eq(d->type, ARAX_DISPATCH_DEVICES);
	return d;
}

/* The mediator hears of it when somebody looks at old ones: once, and if it knows the word. */
START_TEST(figures_of_devices)
{
	struct fx *fx = fx_new(NULL);
	struct arax_device d;

	ck_assert_int_eq(fx_attach(fx, 0), 0);
	publish_figures(fx, 0, 10 * SECOND);
	d = look_at_device(fx);
	ck_assert_uint_eq(d.age_ns, 0);
	ck_assert(!is_asked(fx));
	publish_figures(fx, ARAX_DEVICE_BUSY, SECOND / 2);
	d = look_at_device(fx);
	ck_assert_uint_eq(d.busy, 42);
	ck_assert_uint_ge(d.age_ns, SECOND / 2);
	ck_assert_uint_lt(d.age_ns, SECOND);
	ck_assert(!is_asked(fx));
	publish_figures(fx, ARAX_DEVICE_BUSY, ~0ull);
	ck_assert_uint_ge(look_at_device(fx).age_ns, SECOND);
	ck_assert(is_asked(fx));
	/* Not again before it has answered, however long that takes; nor soon after. */
	fx->core->asked_ns = 0;
	look_at_device(fx);
	ck_assert(!is_asked(fx));
	publish_figures(fx, ARAX_DEVICE_BUSY, 0);
	publish_figures(fx, ARAX_DEVICE_BUSY, 2 * SECOND);
	fx->core->asked_ns = core_now_ns();
	look_at_device(fx);
	ck_assert(!is_asked(fx));
	fx->core->asked_ns = 0;
	look_at_device(fx);
	ck_assert(is_asked(fx));
	/* It was lost before there was an answer, and is back. */
	publish_figures(fx, 0, 0);
	publish_figures(fx, ARAX_DEVICE_BUSY, ~0ull);
	fx->core->asked_ns = 0;
	look_at_device(fx);
	ck_assert(is_asked(fx));
	/* They go with who knew them; and the next one may be older than the word. */
	fx->core->asked_ns = 0;
	fx_die(fx);
	d = look_at_device(fx);
	ck_assert_str_eq(d.name, "d0");
	ck_assert_uint_eq(d.known | d.busy, 0);
	ck_assert_int_eq(fx_attach(fx, ARAX_ATTACH_RECOVER), 0);
	look_at_device(fx);
	ck_assert(!is_asked(fx));
	fx_free(fx);
}
END_TEST

static union core_args kernel(const char *name)
{
	union core_args a = { 0 };

	a.kernel_publish.kinds = 1;
	a.kernel_publish.sig.nr_ranges = 1;
	a.kernel_publish.sig.access = ARAX_OUT;
	strcpy(a.kernel_publish.name, name);
	return a;
}

static int publish(struct fx *fx, union core_args *a)
{
	return fx_call(fx, NULL, ARAX_NR_KERNEL_PUBLISH, a);
}

static int look(struct fx *fx, const char *name, u32 id, union core_args *a)
{
	*a = (union core_args){ 0 };
	strcpy(a->kernel_lookup.name, name);
	a->kernel_lookup.id = id;
	return fx_call(fx, NULL, ARAX_NR_KERNEL_LOOKUP, a);
}

START_TEST(kernels)
{
	struct fx *fx = fx_new(NULL);
	union core_args a = kernel("k"), q;
	u32 id;

	ck_assert_int_eq(look(fx, "k", 0, &q), -ENOENT);
	a.kernel_publish.pad = 1;
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("");
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("k");
	a.kernel_publish.sig.nr_ranges = ARAX_MAX_RANGES + 1;
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("k");
	a.kernel_publish.sig.arg_len = ARAX_MAX_ARGS + 1;
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("k");
	a.kernel_publish.sig.access = 0;		/* a range without access */
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a.kernel_publish.sig.access = 0xa;		/* an access without range */
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("k");
	memset(a.kernel_publish.text, 'x', sizeof(a.kernel_publish.text));
	ck_assert_int_eq(publish(fx, &a), -EINVAL);
	a = kernel("k");
	ck_assert_int_eq(publish(fx, &a), 0);
	id = a.kernel_publish.id;
	a = kernel("k");
	a.kernel_publish.kinds = 6;
	ck_assert_int_eq(publish(fx, &a), 0);
	ck_assert_uint_eq(a.kernel_publish.id, id);	/* the same id for ever */
	ck_assert_int_eq(look(fx, "k", 0, &q), 0);
	ck_assert_uint_eq(q.kernel_lookup.id, id);
	ck_assert_uint_eq(q.kernel_lookup.kinds, 6);
	a = kernel("l");
	ck_assert_int_eq(publish(fx, &a), 0);
	ck_assert_int_eq(look(fx, "", id + 1, &q), 0);
	ck_assert_str_eq(q.kernel_lookup.name, "l");
	ck_assert_int_eq(look(fx, "", id + 2, &q), -ENOENT);
	/* A changed hash is a new kernel, and hides the old one. */
	a = kernel("k");
	a.kernel_publish.sig.abi_hash = 9;
	ck_assert_int_eq(publish(fx, &a), 0);
	ck_assert_uint_ne(a.kernel_publish.id, id);
	ck_assert_int_eq(look(fx, "k", 0, &q), 0);
	ck_assert_uint_eq(q.kernel_lookup.id, a.kernel_publish.id);
	/* And back again. */
	a = kernel("k");
	ck_assert_int_eq(publish(fx, &a), 0);
	ck_assert_uint_eq(a.kernel_publish.id, id);
	ck_assert_int_eq(look(fx, "k", 0, &q), 0);
	ck_assert_uint_eq(q.kernel_lookup.id, id);
	q.kernel_lookup.pad = 1;
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_KERNEL_LOOKUP, &q), -EINVAL);
	q.kernel_lookup.pad = 0;
	memset(q.kernel_lookup.name, 'x', ARAX_NAME_LEN);
	ck_assert_int_eq(fx_call(fx, NULL, ARAX_NR_KERNEL_LOOKUP, &q), -EINVAL);
	fx_free(fx);
}
END_TEST

/* Who holds core->lock, or waits for a CPU with it, is not waited for. */
START_TEST(kernels_without_lock)
{
	struct fx *fx = fx_new(NULL);
	union core_args a = kernel("k"), q;

	ck_assert_int_eq(publish(fx, &a), 0);
	core_mutex_lock(&fx->core->lock);
	ck_assert_int_eq(look(fx, "k", 0, &q), 0);
	ck_assert_int_eq(look(fx, "", 1, &q), 0);
	ck_assert_int_eq(look(fx, "l", 0, &q), -ENOENT);
	core_mutex_unlock(&fx->core->lock);
	fx_free(fx);
}
END_TEST

START_TEST(kernels_full)
{
	struct fx *fx = fx_new(NULL);
	union core_args a, q;
	char name[32];
	u32 i;

	for (i = 0; i < CORE_MAX_KERNELS; i++) {
		snprintf(name, sizeof(name), "k%u", i);
		a = kernel(name);
		if (publish(fx, &a))
			ck_abort_msg("kernel %u", i);
	}
	a = kernel("one too many");
	ck_assert_int_eq(publish(fx, &a), -ENOSPC);
	/* What could not be replaced stays. */
	a = kernel("k7");
	a.kernel_publish.sig.abi_hash = 1;
	ck_assert_int_eq(publish(fx, &a), -ENOSPC);
	ck_assert_int_eq(look(fx, "k7", 0, &q), 0);
	fx_free(fx);
}
END_TEST

/* Handles: generations, wrap, the last place. */
START_TEST(handles)
{
	struct core_handles t;
	u32 h, first, i;
	int x;

	core_handles_init(&t, 100);
	ck_assert_ptr_null(core_handle_find(&t, CORE_BUFFER, 0));
	ck_assert_int_eq(core_handle_add(&t, CORE_BUFFER, &x, &first), 0);
	ck_assert_uint_ne(first, 0);
	ck_assert_ptr_eq(core_handle_find(&t, CORE_BUFFER, first), &x);
	ck_assert_ptr_null(core_handle_find(&t, CORE_QUEUE, first));
	ck_assert_ptr_null(core_handle_find(&t, CORE_BUFFER, CORE_HANDLE_INDEX(first)));
	ck_assert_ptr_null(core_handle_find(&t, CORE_BUFFER, ~0u));
	h = first;
	for (i = 0; i < 4094; i++) {
		ck_assert_ptr_eq(core_handle_remove(&t, CORE_BUFFER, h), &x);
		if (core_handle_add(&t, CORE_BUFFER, &x, &h))
			ck_abort_msg("full");
		if (h == first || core_handle_find(&t, CORE_BUFFER, first))
			ck_abort_msg("taken for its successor after %u", i);
	}
	core_handle_remove(&t, CORE_BUFFER, h);
	ck_assert_int_eq(core_handle_add(&t, CORE_BUFFER, &x, &h), 0);
	ck_assert_uint_eq(h, first);	/* 4,095 generations, as documented */
	for (i = 1; i < 100; i++)
		ck_assert_int_eq(core_handle_add(&t, CORE_QUEUE, &x, &h), 0);
	ck_assert_int_eq(core_handle_add(&t, CORE_QUEUE, &x, &h), -ENOSPC);
	for (i = 0; i <= 100; i++) {
		enum core_type type;
		u32 k = i;

		if (core_handle_next(&t, &k, &type))
			core_handle_remove(&t, type, k | (u32)t.e[k].gen << CORE_HANDLE_BITS);
	}
	ck_assert_uint_eq(t.used, 0);
	core_handles_destroy(&t);
}
END_TEST

Suite *core_call_suite(void)
{
	Suite *s = suite_create("core call");
	TCase *tc = tcase_create("call");

	tcase_add_test(tc, table);
	tcase_add_test(tc, before_init_and_after_death);
	tcase_add_test(tc, info);
	tcase_add_test(tc, devices);
	tcase_add_test(tc, figures_of_devices);
	tcase_add_test(tc, kernels);
	tcase_add_test(tc, kernels_without_lock);
	tcase_add_test(tc, kernels_full);
	tcase_add_test(tc, handles);
	suite_add_tcase(s, tc);
	return s;
}
