// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>

#include "daemon/log.h"
#include "selftests/unit/be_test.h"

static char line[2048];

#define FORMAT(...) log_format_line(line, sizeof(line), LOG_LEVEL_INFO, "msg",	\
	(const struct log_field[]){ __VA_ARGS__, { .type = LOG_END } })

START_TEST(types)
{
	FORMAT(log_str("s", "a"), log_u64("u", UINT64_MAX), log_i64("i", -5), log_hex("h", 255),
	       log_oct("o", 0644), log_errno(-ENOENT));
	ck_assert_str_eq(line, "info: msg s=a u=18446744073709551615 i=-5 h=0xff o=0644 "
			       "error=\"No such file or directory\"");
}
END_TEST

START_TEST(escapes)
{
	FORMAT(log_str("s", "a b"));
	ck_assert_str_eq(line, "info: msg s=\"a b\"");
	FORMAT(log_str("s", "x\n<3>err: forged\033[2J\"\\\x80"));
	ck_assert_str_eq(line, "info: msg s=\"x\\x0a<3>err: forged\\x1b[2J\\\"\\\\\\x80\"");
	FORMAT(log_str("s", ""), log_str("t", NULL), log_str("u", "k=v"));
	ck_assert_str_eq(line, "info: msg s=\"\" t=\"\" u=\"k=v\"");
}
END_TEST

START_TEST(cuts)
{
	char small[20];
	size_t n = log_format_line(small, sizeof(small), LOG_LEVEL_ERR, "m",
				   (const struct log_field[]){ log_str("s", "0123456789abcdef"),
							       { .type = LOG_END } });

	ck_assert_uint_eq(n, sizeof(small) - 1);
	ck_assert_str_eq(small, "err: m s=0123456...");
}
END_TEST

START_TEST(levels)
{
	ck_assert_int_eq(log_level_from_name("err"), LOG_LEVEL_ERR);
	ck_assert_int_eq(log_level_from_name("debug"), LOG_LEVEL_DEBUG);
	ck_assert_int_eq(log_level_from_name("emerg"), -1);
	ck_assert_int_eq(log_level_from_name(""), -1);
}
END_TEST

static ssize_t written(enum log_format format, enum log_level max)
{
	char path[UNIT_TMP_LEN];
	int fd = mkstemp(unit_tmp(path, "arax-be-log-XXXXXX"));
	ssize_t n;

	unlink(path);
	log_init(fd, max, format);
	errno = 77;
	log_warn("told", log_u64("n", 1));
	ck_assert_int_eq(errno, 77);
	n = pread(fd, line, sizeof(line) - 1, 0);
	line[n] = '\0';
	close(fd);
	return n;
}

START_TEST(formats)
{
	written(LOG_FORMAT_PLAIN, LOG_LEVEL_WARNING);
	ck_assert_str_eq(line, "warning: told n=1\n");
	written(LOG_FORMAT_JOURNAL, LOG_LEVEL_WARNING);
	ck_assert_str_eq(line, "<4>warning: told n=1\n");
	written(LOG_FORMAT_TIME, LOG_LEVEL_WARNING);
	ck_assert_str_eq(line + 28, "warning: told n=1\n");
	ck_assert_int_eq(line[26], 'Z');
	ck_assert_int_eq(written(LOG_FORMAT_PLAIN, LOG_LEVEL_ERR), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("log");
	TCase *t = tcase_create("all");

	tcase_add_test(t, types);
	tcase_add_test(t, escapes);
	tcase_add_test(t, cuts);
	tcase_add_test(t, levels);
	tcase_add_test(t, formats);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
