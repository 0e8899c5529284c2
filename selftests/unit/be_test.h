/* SPDX-License-Identifier: MIT */
/* be_test.h - what the unit tests of the daemon's back half share */
#ifndef ARAX_SELFTESTS_UNIT_BE_TEST_H
#define ARAX_SELFTESTS_UNIT_BE_TEST_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "selftests/unit/tmp.h"

/* A folder of this test's own, 0755; removed with be_rmdir(). */
static inline void be_mkdir(char path[UNIT_TMP_LEN])
{
	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(path, "arax-be-XXXXXX")));
	ck_assert_int_eq(chmod(path, 0755), 0);
}

static inline void be_rmdir(const char *path)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", path);
	ck_assert_int_eq(system(command), 0);
}

static inline void be_write(const char *folder, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

static inline void be_copy(const char *from, const char *folder, const char *name)
{
	char command[8192];

	snprintf(command, sizeof(command), "install -m 644 '%s' '%s/%s'", from, folder, name);
	ck_assert_int_eq(system(command), 0);
}

/*
 * Sanitizers lose track of a thread that is cancelled: one keeps marks of its stack, which others
 * trip over, another sees none of the locks that it takes on its way out.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BE_CANCELS	0
#else
#define BE_CANCELS	1
#endif

/* Says, and has counted, that a test is left out (see scripts/tally). */
static inline void be_skip(const char *test, const char *reason)
{
	printf("ok - %s # SKIP %s\n", test, reason);
	fflush(stdout);		/* once, and not by each forked test again */
}

/* Run a suite; 0 if all passed. */
static inline int be_main(Suite *s)
{
	SRunner *sr = srunner_create(s);
	int failed;

	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}

#endif /* ARAX_SELFTESTS_UNIT_BE_TEST_H */
