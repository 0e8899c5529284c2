/* SPDX-License-Identifier: MIT */
/* tmp.h - names of files that unit tests make, for mkstemp() and the like */
#ifndef ARAX_SELFTESTS_UNIT_TMP_H
#define ARAX_SELFTESTS_UNIT_TMP_H

#include <stdio.h>
#include <stdlib.h>

#define UNIT_TMP_LEN	64

/*
 * In the folder that scripts/tally removes, also behind a test that failed or was killed and
 * removed nothing; by hand there is none.
 */
static inline char *unit_tmp(char path[UNIT_TMP_LEN], const char *name)
{
	const char *folder = getenv("ARAX_TEST_TMP");

	if (!folder || snprintf(path, UNIT_TMP_LEN, "%s/%s", folder, name) >= UNIT_TMP_LEN)
		snprintf(path, UNIT_TMP_LEN, "/tmp/%s", name);
	return path;
}

#endif /* ARAX_SELFTESTS_UNIT_TMP_H */
