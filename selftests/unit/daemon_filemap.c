// SPDX-License-Identifier: MIT
/* daemon_filemap - clients' files in araxd's address space */
#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/link/filemap.h"

#define BYTES	(3 * FILEMAP_PIECE + 4096)

static size_t largest, sum;

int __real_munmap(void *base, size_t bytes);
int __wrap_munmap(void *base, size_t bytes);

int __wrap_munmap(void *base, size_t bytes)
{
	largest = bytes > largest ? bytes : largest;
	sum += bytes;
	return __real_munmap(base, bytes);
}

static volatile uint8_t *map(bool timed)
{
	int fd = memfd_create("filemap", MFD_CLOEXEC);
	uint64_t ns;
	void *base;

	ck_assert_int_eq(ftruncate(fd, BYTES), 0);
	base = timed ? filemap_map(fd, BYTES, &ns) : filemap_map_untimed(fd, BYTES);
	ck_assert_ptr_ne(base, MAP_FAILED);
	close(fd);
	return base;
}

static void unmap(volatile uint8_t *base, bool timed)
{
	largest = sum = 0;
	if (timed)
		filemap_unmap((void *)base, BYTES);
	else
		filemap_unmap_untimed((void *)base, BYTES);
}

START_TEST(large_ones_go_in_pieces)
{
	volatile uint8_t *base = map(_i);
	unsigned char any;

	base[0] = base[BYTES - 1] = 1;
	unmap(base, _i);
	/* Beside them a page is mapped for a moment. */
	ck_assert_uint_ge(sum, BYTES);
	ck_assert_uint_eq(largest, FILEMAP_PIECE);
	for (size_t at = 0; at < BYTES; at += 4096)
		ck_assert_int_eq(mincore((void *)(base + at), 4096, &any), -1);
}
END_TEST

START_TEST(children_do_not_have_them)
{
	volatile uint8_t *base = map(_i);
	int status;
	pid_t pid;

	base[0] = 7;
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unsigned char any;

		_exit(mincore((void *)base, 4096, &any) == -1 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(base[0], 7);
	unmap(base, _i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("daemon filemap");
	TCase *c = tcase_create("filemap");
	SRunner *r;
	int failed;

	tcase_add_loop_test(c, large_ones_go_in_pieces, 0, 2);
	tcase_add_loop_test(c, children_do_not_have_them, 0, 2);
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
