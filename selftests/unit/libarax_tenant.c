// SPDX-License-Identifier: MIT
/* The words of `arax tenant set`. */
#include <check.h>
#include <stdlib.h>

#include <arax/uapi.h>

#include "libarax/admin/setting.h"

static struct tenant_setting s;

static void good(const char *word, uint32_t what, uint64_t value)
{
	ck_assert_ptr_null(tenant_parse(word, false, &s));
	ck_assert_uint_eq(s.what, what);
	ck_assert_uint_eq(s.value, value);
}

static void bad(const char *word)
{
	ck_assert_msg(tenant_parse(word, false, &s) != NULL, "\"%s\" was taken", word);
}

START_TEST(amounts)
{
	good("memory.max=0", ARAX_RES_MEMORY, 0);
	good("memory.max=4096", ARAX_RES_MEMORY, 4096);
	good("memory.max=4k", ARAX_RES_MEMORY, 4096);
	good("memory.max=3M", ARAX_RES_MEMORY, 3 << 20);
	good("memory.max=2G", ARAX_RES_MEMORY, 2ull << 30);
	good("memory.max=1T", ARAX_RES_MEMORY, 1ull << 40);
	good("memory.max=max", ARAX_RES_MEMORY, ARAX_LIMIT_MAX);
	good("memory.max=18446744073709551614", ARAX_RES_MEMORY, ARAX_LIMIT_MAX - 1);
	good("device_memory.max=1M", ARAX_RES_DEVICE_MEMORY, 1 << 20);
	good("tasks.max=17", ARAX_RES_TASKS, 17);
	good("contexts.max=max", ARAX_RES_CONTEXTS, ARAX_LIMIT_MAX);
	bad("memory.max");
	bad("memory.max=");
	bad("memory.max=-1");
	bad("memory.max=+1");
	bad("memory.max= 1");
	bad("memory.max=1x");
	bad("memory.max=1Kx");
	bad("memory.max=0x10");
	bad("memory.max=maximum");
	bad("memory.max=18446744073709551615");
	bad("memory.max=18446744073709551616");
	bad("memory.max=16777216T");
	bad("tasks.max=1K");
	bad("memory=1");
	bad("memory.maxx=1");
	bad("=1");
	bad("");
}
END_TEST

START_TEST(device_time)
{
	good("device_time.weight=1", ARAX_SET_WEIGHT, 1);
	good("device_time.weight=10000", ARAX_SET_WEIGHT, 10000);
	bad("device_time.weight=0");
	bad("device_time.weight=10001");
	bad("device_time.weight=max");
	good("device_time.max=50000 100000", ARAX_SET_DEVICE_TIME, 50000000);
	ck_assert_uint_eq(s.period_ns, 100000000);
	good("device_time.max=50000", ARAX_SET_DEVICE_TIME, 50000000);
	ck_assert_uint_eq(s.period_ns, 100000000);
	good("device_time.max=max", ARAX_SET_DEVICE_TIME, ARAX_LIMIT_MAX);
	good("device_time.max=max 5000", ARAX_SET_DEVICE_TIME, ARAX_LIMIT_MAX);
	ck_assert_uint_eq(s.period_ns, 5000000);
	bad("device_time.max=");
	bad("device_time.max=maxx");
	bad("device_time.max=1 ");
	bad("device_time.max=1 0");
	bad("device_time.max=1 -5");
	bad("device_time.max=1 2 3");
	bad("device_time.max=1 99999999999");
	bad("device_time.max=18446744073709551615");
}
END_TEST

START_TEST(unset)
{
	ck_assert_ptr_null(tenant_parse("memory.max", true, &s));
	ck_assert_uint_eq(s.value, ARAX_LIMIT_MAX);
	ck_assert_ptr_null(tenant_parse("device_time.weight", true, &s));
	ck_assert_uint_eq(s.value, 100);
	ck_assert_ptr_null(tenant_parse("device_time.max", true, &s));
	ck_assert_uint_eq(s.value, ARAX_LIMIT_MAX);
	ck_assert_uint_ne(s.period_ns, 0);
	ck_assert_ptr_nonnull(tenant_parse("memory.max=1", true, &s));
	ck_assert_ptr_nonnull(tenant_parse("memory", true, &s));
}
END_TEST

START_TEST(path_or_setting)
{
	ck_assert(tenant_is_setting("memory.max=1"));
	ck_assert(tenant_is_setting("memory.max"));
	/* A misspelt key is a wrong key, not a cgroup. */
	ck_assert(tenant_is_setting("memroy.max=1"));
	ck_assert(!tenant_is_setting("machine.slice"));
	ck_assert(!tenant_is_setting("/sys/fs/cgroup/a"));
	ck_assert(!tenant_is_setting("a/b=c"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("libarax-tenant");
	TCase *t = tcase_create("tenant");
	SRunner *r;
	int failed;

	tcase_add_test(t, amounts);
	tcase_add_test(t, device_time);
	tcase_add_test(t, unset);
	tcase_add_test(t, path_or_setting);
	suite_add_tcase(suite, t);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
