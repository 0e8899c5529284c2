// SPDX-License-Identifier: MIT
/* Saved limits of tenants: what is read, what is refused, what is written. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "daemon/config.h"
#include "libarax/admin/conf.h"
#include "libarax/admin/saved.h"
#include "selftests/unit/be_test.h"

static struct saved s;
static char folder[64], error[2048];
static int errors;

static void setup(void)
{
	be_mkdir(folder);
	memset(&s, 0, sizeof(s));
	errors = 0;
	error[0] = '\0';
}

static void teardown(void)
{
	saved_free(&s);
	be_rmdir(folder);
}

/* Keeps the first one. */
static void report(void *arg, const char *text)
{
	if (!errors++)
		snprintf(error, sizeof(error), "%s", text);
}

static int parse_into(struct saved *to, const char *text)
{
	return saved_parse(to, "x", text, strlen(text), report, NULL);
}

static int parse(const char *text)
{
	return parse_into(&s, text);
}

static void holds(const char *cgroup, const char *key, const char *value)
{
	const struct saved_limit *l = saved_find(&s, cgroup, key);

	ck_assert_msg(l && !strcmp(l->value, value), "%s of %s: %s, expected %s", key, cgroup,
		      l ? l->value : "none", value);
}

START_TEST(every_key)
{
	ck_assert_int_eq(parse("# all\n"
			       "tenant \"/\" { memory.max = 4G tasks.max = 7 }\n"
			       "tenant '/a\\\\x2db.slice/c d' {\n"
			       "	contexts.max = 3\n"
			       "	device_memory.max = \"1T\"\n"
			       "	device_time.weight = 300\n"
			       "	device_time.max = '5000 10000'\n"
			       "}\n"
			       "tenant /plain { tasks.max = max }\n"), 0);
	ck_assert_int_eq(errors, 0);
	ck_assert_uint_eq(s.count, 7);
	holds("/", "memory.max", "4G");
	holds("/", "tasks.max", "7");
	holds("/a\\x2db.slice/c d", "contexts.max", "3");
	holds("/a\\x2db.slice/c d", "device_memory.max", "1T");
	holds("/a\\x2db.slice/c d", "device_time.weight", "300");
	holds("/a\\x2db.slice/c d", "device_time.max", "5000 10000");
	holds("/plain", "tasks.max", "max");
	ck_assert_uint_eq(s.at[0].setting.value, 4ull << 30);
	ck_assert_int_eq(s.at[1].line, 2);
	ck_assert_int_eq(s.at[4].line, 6);
	ck_assert_uint_eq(saved_find(&s, "/a\\x2db.slice/c d", "device_time.max")->setting.period_ns,
			  10000000);
	ck_assert_ptr_null(saved_find(&s, "/", "contexts.max"));
}
END_TEST

static const struct {
	const char *text, *error;
	size_t kept;
} bad[] = {
	/* The rest of the file holds. */
	{ "tenant /a { tasks.max = many\n memory.max = 1G }", "x:1: tasks.max = \"many\" of "
	  "tenant \"/a\": want a number, or max", 1 },
	{ "# one\ntenant /a {\n memory.max = 1Q }\ntenant /b { tasks.max = 1 }", "x:3: memory.max", 1 },
	{ "tenant /a { device_time.weight = 0 }", "a weight is 1 to 10000", 0 },
	{ "tenant a { tasks.max = 1 }\ntenant /b { tasks.max = 1 }",
	  "x:1: tenant \"a\": the path must begin with /", 1 },
	{ "tenant '' { }", "must begin with /", 0 },
	{ "tenant /a/ { tasks.max = 1 }", "no / at the end", 0 },
	{ "tenant '//a' { tasks.max = 1 }", "must have no //", 0 },
	{ "tenant /a/../b { tasks.max = 1 }", "no ..", 0 },
	{ "tenant /. { tasks.max = 1 }", "must have no .", 0 },
	/* What stands before it holds. */
	{ "tenant /b { tasks.max = 1 }\ntenant /a { memroy.max = 1 }\ntenant /c { tasks.max = 1 }",
	  "x:2: no such option 'memroy.max'; there are memory.max, tasks.max, contexts.max, device_memory.max, device_time.weight, device_time.max; the rest of the file is left out", 1 },
	{ "tasks.max = 1", "x:1: no such option 'tasks.max'", 0 },
	{ "tenant { tasks.max = 1 }", "x:1: ", 0 },
	{ "tenant /a { tasks.max = 1 }\ntenant /a { memory.max = 1 }", "x:2: ", 1 },
	{ "tenant /a { tasks.max = 1 ", "ends inside a section", 1 },
	{ "tenant /a { tasks.max = 1 } tenant '/b", "x", 1 },
	{ "tenant '/a\n\001' { tasks.max = 1x }", "of tenant \"/a??\"", 0 },
};

START_TEST(refused)
{
	ck_assert_int_eq(parse(bad[_i].text), -EINVAL);
	ck_assert_msg(strstr(error, bad[_i].error), "\"%s\": \"%s\"", bad[_i].text, error);
	ck_assert_msg(!strncmp(error, "x:", 2), "\"%s\"", error);
	ck_assert_uint_eq(s.count, bad[_i].kept);
}
END_TEST

START_TEST(too_much)
{
	char *text = malloc(CONF_MAX_BYTES + 1);
	size_t n = 0;
	int i;

	for (i = 0; i <= SAVED_MAX; i++)
		n += (size_t)sprintf(text + n, "tenant /%d { tasks.max = 1 }\n", i);
	ck_assert_int_eq(parse(text), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "x:4097: more than 4096 limits"));
	ck_assert_uint_eq(s.count, SAVED_MAX);
	ck_assert_int_eq(saved_add(&s, "x", 1, "/", "tasks.max", "1"), -E2BIG);
	memset(text, '\n', CONF_MAX_BYTES + 1);
	ck_assert_int_eq(saved_parse(&s, "x", text, CONF_MAX_BYTES + 1, report, NULL), -EINVAL);
	ck_assert_int_eq(saved_parse(&s, "x", "a\0b", 3, report, NULL), -EINVAL);
	free(text);
}
END_TEST

START_TEST(paths)
{
	char name[4096 + 8];

	ck_assert_ptr_null(saved_check_cgroup("/"));
	ck_assert_ptr_null(saved_check_cgroup("/a/.b/..c/d.."));
	ck_assert_ptr_nonnull(saved_check_cgroup("/a/."));
	ck_assert_ptr_nonnull(saved_check_cgroup("/.."));
	memset(name, 'a', sizeof(name));
	name[0] = '/';
	name[256] = '\0';
	ck_assert_ptr_null(saved_check_cgroup(name));
	name[256] = 'a';
	name[257] = '\0';
	ck_assert_ptr_nonnull(saved_check_cgroup(name));
	name[257] = 'a';
	name[4096] = '\0';
	ck_assert_ptr_nonnull(saved_check_cgroup(name));
}
END_TEST

START_TEST(folder_order)
{
	be_write(folder, "20-b.conf", "tenant /a { tasks.max = 2 }");
	be_write(folder, "10-a.conf", "tenant /a { tasks.max = 1 memory.max = 1G }");
	be_write(folder, ".hidden.conf", "tenant /a { tasks.max = 3 }");
	be_write(folder, "30-c.conf~", "tenant /a { tasks.max = 4 }");
	be_write(folder, "30-bad.conf", "tenant /a { tasks.max = x }");
	ck_assert_int_eq(saved_read(&s, folder, report, NULL), -EINVAL);
	ck_assert_int_eq(errors, 1);
	ck_assert_ptr_nonnull(strstr(error, "/30-bad.conf:1: tasks.max"));
	holds("/a", "tasks.max", "2");
	holds("/a", "memory.max", "1G");
	ck_assert_uint_eq(s.count, 3);
	ck_assert(!saved_holds(&s, 0));
	ck_assert(saved_holds(&s, 1) && saved_holds(&s, 2));
}
END_TEST

START_TEST(untrusted)
{
	char path[128], other[128];

	ck_assert_int_eq(saved_read(&s, "/tmp/arax-none-such", report, NULL), -ENOENT);
	ck_assert_int_eq(errors, 0);
	be_write(folder, "10.conf", "tenant /a { tasks.max = 1 }");
	snprintf(path, sizeof(path), "%s/10.conf", folder);
	ck_assert_int_eq(chmod(path, 0664), 0);
	ck_assert_int_eq(saved_read(&s, folder, report, NULL), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "10.conf: mode"));
	ck_assert_uint_eq(s.count, 0);
	snprintf(other, sizeof(other), "%s/20.conf", folder);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(symlink(path, other), 0);
	ck_assert_int_eq(saved_read(&s, folder, report, NULL), -EINVAL);
	ck_assert_uint_eq(s.count, 1);	/* the file, not the link */
	saved_free(&s);
	errors = 0;
	ck_assert_int_eq(chmod(folder, 0777), 0);
	ck_assert_int_eq(saved_read(&s, folder, report, NULL), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "chmod go-w"));
	ck_assert_uint_eq(s.count, 0);
}
END_TEST

/* What is written is what is read, whatever the name. */
START_TEST(round_trip)
{
	static const char *const names[] = {
		"/", "/user.slice", "/a b", "/a\\x2db", "/it's", "/\"q\"", "/${HOME}", "/#x", "/a{}=,",
		"/\\\\", "/\\'", "/\303\251", "/a\nb", "/x//y" + 3,
	};
	struct saved again = { 0 };
	char *text;
	size_t i, n = sizeof(names) / sizeof(names[0]);

	for (i = 0; i < n; i++) {
		ck_assert_int_eq(saved_add(&s, "own", 0, names[i], "tasks.max", "5"), 0);
		ck_assert_int_eq(saved_add(&s, "own", 0, names[i], "device_time.max", "1 2"), 0);
		ck_assert_int_eq(saved_add(&s, "other", 0, names[i], "memory.max", "1"), 0);
	}
	text = saved_format(&s, "own");
	ck_assert_ptr_nonnull(text);
	ck_assert_msg(!saved_parse(&again, "own", text, strlen(text), report, NULL), "%s: %s", error,
		      text);
	ck_assert_uint_eq(again.count, 2 * n);
	for (i = 0; i < n; i++) {
		ck_assert_ptr_nonnull(saved_find(&again, names[i], "tasks.max"));
		ck_assert_ptr_nonnull(saved_find(&again, names[i], "device_time.max"));
		ck_assert_ptr_null(saved_find(&again, names[i], "memory.max"));
	}
	saved_free(&again);
	free(text);
}
END_TEST

START_TEST(add_and_remove)
{
	char *text;

	ck_assert_int_eq(saved_add(&s, "own", 0, "/a", "tasks.max", "x"), -EINVAL);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/a", "nothing", "1"), -EINVAL);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/a", "tasks.max", "1"), 0);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/b", "tasks.max", "2"), 0);
	saved_remove(&s, 0);
	ck_assert_uint_eq(s.count, 1);
	ck_assert_ptr_null(saved_find(&s, "/a", "tasks.max"));
	text = saved_format(&s, "own");
	ck_assert_ptr_null(strstr(text, "'/a'"));
	ck_assert_ptr_nonnull(strstr(text, "'/b'"));
	free(text);
	text = saved_format(&s, "none");
	ck_assert_ptr_null(strstr(text, "\ntenant"));
	free(text);
}
END_TEST

/* A later file that says otherwise may go again. */
START_TEST(overruled_stay_in_their_file)
{
	struct saved again = { 0 };
	char *text;

	ck_assert_int_eq(saved_add(&s, "own", 0, "/a", "tasks.max", "5"), 0);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/a", "tasks.max", "6"), 0);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/b", "tasks.max", "7"), 0);
	ck_assert_int_eq(saved_add(&s, "own", 0, "/b", "contexts.max", "8"), 0);
	ck_assert_int_eq(saved_add(&s, "other", 0, "/a", "tasks.max", "50"), 0);
	ck_assert_int_eq(saved_add(&s, "other", 0, "/b", "tasks.max", "70"), 0);
	text = saved_format(&s, "own");
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(saved_parse(&again, "own", text, strlen(text), report, NULL), 0);
	ck_assert_uint_eq(again.count, 3);
	ck_assert_str_eq(saved_find(&again, "/a", "tasks.max")->value, "6");
	ck_assert_str_eq(saved_find(&again, "/b", "tasks.max")->value, "7");
	ck_assert_str_eq(saved_find(&again, "/b", "contexts.max")->value, "8");
	saved_free(&again);
	free(text);
}
END_TEST

START_TEST(replaced_as_a_whole)
{
	char path[128], text[64] = "";
	struct stat st;
	int dir = open(folder, O_RDONLY | O_DIRECTORY), fd;

	be_write(folder, ".own.conf.new", "left by a crash, and longer than what comes");
	ck_assert_int_eq(saved_replace(dir, "own.conf", "one\n"), 0);
	ck_assert_int_eq(saved_replace(dir, "own.conf", "two\n"), 0);
	snprintf(path, sizeof(path), "%s/own.conf", folder);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(read(fd, text, sizeof(text)), 4);
	ck_assert_str_eq(text, "two\n");
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0644);
	close(fd);
	ck_assert_int_ne(faccessat(dir, ".own.conf.new", F_OK, 0), 0);
	/* What can't be replaced is as it was, and nothing is left. */
	ck_assert_int_eq(mkdirat(dir, "folder.conf", 0755), 0);
	ck_assert_int_lt(saved_replace(dir, "folder.conf", "x"), 0);
	ck_assert_int_ne(faccessat(dir, ".folder.conf.new", F_OK, 0), 0);
	close(dir);
}
END_TEST

#define PARSES	1000

static void *parse_limits(void *arg)
{
	struct saved mine;
	int i;

	for (i = 0; i < PARSES; i++) {
		memset(&mine, 0, sizeof(mine));
		parse_into(&mine, "tenant /a { memory.max = 8G tasks.max = 4 }\n"
				  "tenant /b { memory.max = 8G tasks.max = none }\n");
		ck_assert_uint_eq(mine.count, 3);
		saved_free(&mine);
	}
	return NULL;
}

/* araxd's main thread reads its configuration while the broker's reads limits. */
START_TEST(two_threads)
{
	static const char text[] = "sched { policy = fair }\nlink { kind = none }\n";
	char wrong[512];
	struct config c;
	pthread_t thread;
	int i;

	ck_assert_int_eq(pthread_create(&thread, NULL, parse_limits, NULL), 0);
	for (i = 0; i < PARSES; i++) {
		ck_assert_int_eq(config_parse(&c, "y", text, strlen(text), wrong, sizeof(wrong)),
				 -EINVAL);
		ck_assert_msg(!strncmp(wrong, "y:2: ", 5), "%s", wrong);
	}
	pthread_join(thread, NULL);
	ck_assert_int_eq(errors, PARSES);
	ck_assert_msg(!strncmp(error, "x:2: ", 5), "%s", error);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("saved");
	TCase *t = tcase_create("saved");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_key);
	tcase_add_loop_test(t, refused, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, too_much);
	tcase_add_test(t, paths);
	tcase_add_test(t, folder_order);
	tcase_add_test(t, untrusted);
	tcase_add_test(t, round_trip);
	tcase_add_test(t, add_and_remove);
	tcase_add_test(t, overruled_stay_in_their_file);
	tcase_add_test(t, replaced_as_a_whole);
	tcase_add_test(t, two_threads);
	suite_add_tcase(suite, t);
	return be_main(suite);
}
