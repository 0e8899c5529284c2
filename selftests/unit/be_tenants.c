// SPDX-License-Identifier: MIT
/*
 * araxd's side of saved limits, with plain folders for cgroups: what is set when.
 * On a tmpfs, which like cgroup2 doesn't use an inode's number again at once.  Unlike
 * cgroup2 it tells of the end of a watched folder, but not as long as somebody has it open.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

#include "daemon/log.h"
#include "daemon/tenants/tenants.h"
#include "selftests/unit/be_test.h"

#define TMPFS	0x01021994

/* <sys/mount.h> has mount(), and this file a folder of that name. */
#define MS_BIND		4096
#define MS_REC		16384
#define MS_PRIVATE	(1 << 18)

static char top[64], files[96], mount[96], log_path[96];
static struct tenants *t;

/* What was set, in order: "NAME what=value". */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char calls[4096];
static int answer;

static int record(void *arg, const struct arax_limit *a)
{
	char link[64], path[256] = "";
	size_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", a->cgroup_fd);
	ck_assert_int_gt(readlink(link, path, sizeof(path) - 1), 0);
	ck_assert_uint_eq(a->size, sizeof(*a));
	pthread_mutex_lock(&lock);
	n = strlen(calls);
	if (a->value == ARAX_LIMIT_MAX)
		snprintf(calls + n, sizeof(calls) - n, "%s %u=max;", path + strlen(mount), a->what);
	else
		snprintf(calls + n, sizeof(calls) - n, "%s %u=%llu;", path + strlen(mount), a->what,
			 (unsigned long long)a->value);
	pthread_mutex_unlock(&lock);
	return answer;
}

/* araxd's clock is so far ahead: what is due by then need not be waited for. */
static int ahead_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_MONOTONIC) {
		ts->tv_nsec += ahead_ms % 1000 * 1000000l;
		ts->tv_sec += ahead_ms / 1000 + ts->tv_nsec / 1000000000;
		ts->tv_nsec %= 1000000000;
	}
	return ret;
}

/* The folder's file system doesn't answer for now; and somebody waits for that. */
static int hangs, waits;

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_stat(const char *path, struct stat *st)
{
	/* Not for ever: a test that waits for itself is to say so. */
	for (int i = 0; !strcmp(path, files) && __atomic_load_n(&hangs, __ATOMIC_ACQUIRE); i++) {
		ck_assert_int_lt(i, 2000);
		__atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
		usleep(1000);
	}
	return __real_stat(path, st);
}

static void expect(const char *what)
{
	ck_assert_str_eq(calls, what);
	calls[0] = '\0';
}

static void make(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", mount, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static void unmake(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", mount, name);
	ck_assert_int_eq(rmdir(path), 0);
}

/* As on cgroup2: its watch is not told of that. */
static int unmake_open(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s%s", mount, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	unmake(name);
	return fd;
}

static unsigned int watches(void)
{
	char path[64], line[256];
	unsigned int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", tenants_fd(t));
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f))
		n += !strncmp(line, "inotify ", 8);
	fclose(f);
	return n;
}

static bool told(void)
{
	struct pollfd fd = { .fd = tenants_fd(t), .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static unsigned int count_in_log(const char *text)
{
	char *all, *from;
	FILE *f = fopen(log_path, "r");
	unsigned int found = 0;
	size_t n;

	ck_assert_ptr_nonnull(f);
	all = calloc(1, 1 << 16);
	n = fread(all, 1, (1 << 16) - 1, f);
	all[n] = '\0';
	fclose(f);
	/* What was cut off before may have left a hole. */
	for (from = all; from < all + n && !*from; from++)
		;
	while ((from = strstr(from, text))) {
		found++;
		from++;
	}
	free(all);
	return found;
}

static bool in_log(const char *text)
{
	return count_in_log(text) > 0;
}

static void logged(const char *text)
{
	ck_assert_msg(in_log(text), "\"%s\" is not in the log", text);
}

static void not_logged(const char *text)
{
	ck_assert_msg(!in_log(text), "\"%s\" is in the log", text);
}

static void setup(void)
{
	int fd;

	strcpy(top, "/dev/shm/arax-be-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	ck_assert_int_eq(chmod(top, 0755), 0);
	snprintf(files, sizeof(files), "%s/tenants.d", top);
	snprintf(mount, sizeof(mount), "%s/cgroup", top);
	snprintf(log_path, sizeof(log_path), "%s/log", top);
	ck_assert_int_eq(mkdir(files, 0755), 0);
	ck_assert_int_eq(mkdir(mount, 0755), 0);
	fd = open(log_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	log_init(fd, LOG_LEVEL_DEBUG, LOG_FORMAT_PLAIN);
	calls[0] = '\0';
	answer = 0;
	ahead_ms = 0;
}

static void teardown(void)
{
	if (t)
		tenants_destroy(t);
	t = NULL;
	be_rmdir(top);
}

/* It has another name from now on. */
static char old[128];

static void move_away(const char *path)
{
	ck_assert_uint_lt((size_t)snprintf(old, sizeof(old), "%s.old", path), sizeof(old));
	ck_assert_int_eq(rename(path, old), 0);
}

static void create(void)
{
	t = tenants_create(files, mount, record, NULL);
	ck_assert_ptr_nonnull(t);
}

START_TEST(at_start)
{
	make("/a");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 device_time.weight = 7 }\n"
				  "tenant / { tasks.max = 9 }\n"
				  "tenant /none { tasks.max = 1 }\n");
	be_write(files, "2.conf", "tenant /a { tasks.max = 6 }\n");
	create();
	expect(" 1=9;/a 256=7;/a 1=6;");
	ck_assert_uint_eq(tenants_in_force(t), 3);
	tenants_event(t);
	expect("");
}
END_TEST

START_TEST(appears)
{
	be_write(files, "1.conf", "tenant /a/b/c { tasks.max = 5 }\n");
	create();
	expect("");
	make("/a");
	tenants_event(t);
	make("/a/b");
	make("/a/x");
	tenants_event(t);
	expect("");
	make("/a/b/c");
	tenants_event(t);
	expect("/a/b/c 1=5;");
	make("/a/b/d");
	tenants_event(t);
	expect("");
	/* All at once, from the middle. */
	unmake("/a/b/c");
	unmake("/a/b/d");
	unmake("/a/b");
	tenants_event(t);
	ck_assert_uint_eq(tenants_in_force(t), 0);
	make("/a/b");
	make("/a/b/c");
	tenants_event(t);
	expect("/a/b/c 1=5;");
}
END_TEST

/* Of the old ones' watches nobody is told the end, and nothing may come from them again. */
START_TEST(parents_come_again)
{
	int fds[80], i, n = 0;
	unsigned int before;

	be_write(files, "1.conf", "tenant /a/b/c { tasks.max = 5 }\n"
				  "tenant /a/b/d { tasks.max = 6 }\n"
				  "tenant /a/x { tasks.max = 7 }\n");
	make("/a");
	make("/a/b");
	make("/a/b/c");
	create();
	expect("/a/b/c 1=5;");
	before = watches();
	for (i = 0; i < 20; i++) {
		unmake("/a/b/c");
		fds[n++] = unmake_open("/a/b");
		if (i % 4 == 1)
			tenants_event(t);
		if (i % 2) {
			fds[n++] = unmake_open("/a");
			if (i % 4 == 1)
				tenants_event(t);
			make("/a");
		}
		make("/a/b");
		if (i % 3 == 1)
			tenants_event(t);
		make("/a/b/c");
		tenants_event(t);
		expect("/a/b/c 1=5;");
		ck_assert_uint_eq(tenants_in_force(t), 1);
		ck_assert_uint_eq(watches(), before);
	}
	make("/a/b/d");
	make("/a/x");
	tenants_event(t);
	expect("/a/b/d 1=6;/a/x 1=7;");
	while (n--)
		close(fds[n]);
	tenants_event(t);
	ck_assert_uint_eq(watches(), before);
	/* Nor is anything watched for limits that are no more. */
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	tenants_event(t);
	expect("/a/b/c 1=max;/a/b/d 1=max;/a/x 1=max;/a 1=5;");
	tenants_event(t);
	ck_assert_uint_eq(watches(), before - 2);
}
END_TEST

static void set_folder(const char *text)
{
	be_write(files, "1.conf", text);
	tenants_event(t);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static unsigned int sets(void)
{
	unsigned int n = 0;
	const char *at;

	for (at = calls; (at = strchr(at, ';')); at++)
		n++;
	calls[0] = '\0';
	return n;
}

/* Whose cgroup it is makes it anew as fast as he can. */
START_TEST(paced)
{
	unsigned int n = 0, lines;
	uint64_t from = now_ms(), ms;
	int wait = -1;

	answer = _i ? -EPERM : 0;
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 contexts.max = 2 }\n"
				  "tenant /b { tasks.max = 5 }\n");
	create();
	do {
		make("/a");
		wait = tenants_event_paced(t);
		unmake("/a");
		n += sets();
	} while (now_ms() - from < 1200);
	ms = now_ms() - from;
	/* Two limits, 16 times in 100 ms. */
	ck_assert_uint_le(n, 2 * 16 * (ms / 100 + 1));
	lines = count_in_log(_i ? "saved limits can't be set" : "saved limits set");
	ck_assert_uint_ge(lines, 1);
	ck_assert_uint_le(lines, ms / 1000 + 1);
	logged("tenant=/a limits=\"tasks.max=5 contexts.max=2\"");
	/* Nobody else's are later for that, */
	make("/b");
	tenants_event_paced(t);
	expect("/b 1=5;");
	unmake("/b");
	/* and it has its own at last. */
	make("/a");
	while ((wait = tenants_event_paced(t)) != TENANTS_CHECK_MS) {
		ck_assert_int_le(wait, 101);
		usleep((unsigned int)wait * 1000);
	}
	ck_assert_uint_ge(sets(), 2);
	ck_assert_uint_eq(tenants_in_force(t), _i ? 0 : 2);
}
END_TEST

/* But who arrives is not served before his limits hold. */
START_TEST(at_once_when_somebody_arrives)
{
	int i;

	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	create();
	for (i = 0; i < 200; i++) {
		make("/a");
		tenants_event(t);
		expect("/a 1=5;");
		unmake("/a");
	}
	/* A machine that is too slow for that has nothing to pace. */
	for (i = 0; i < 1000 && tenants_event_paced(t) == TENANTS_CHECK_MS; i++) {
		make("/a");
		unmake("/a");
	}
	calls[0] = '\0';
	make("/a");
	tenants_event(t);
	expect("/a 1=5;");
}
END_TEST

START_TEST(too_deep)
{
	make("/a");
	answer = -ELOOP;
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 contexts.max = 1 }\n");
	create();
	expect("/a 1=5;/a 2=1;");
	logged("limits=\"tasks.max=5 contexts.max=1\" error=\"the cgroup nests deeper than 32 levels\"");
	ck_assert_uint_eq(tenants_in_force(t), 0);
}
END_TEST

START_TEST(file_changes)
{
	make("/a");
	make("/b");
	create();
	expect("");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 contexts.max = 2 }\n");
	tenants_event(t);
	expect("/a 1=5;/a 2=2;");
	/* Only what is different. */
	be_write(files, "1.conf", "tenant /a { tasks.max = 6 contexts.max = 2 }\n"
				  "tenant /b { tasks.max = 1 }\n");
	tenants_event(t);
	expect("/a 1=6;/b 1=1;");
	be_write(files, "1.conf", "tenant /a { contexts.max = 2 }\n");
	tenants_event(t);
	expect("/a 1=max;/b 1=max;");
	tenants_reload(t);
	expect("/a 2=2;");
	/* Something that is not read. */
	be_write(files, ".1.conf.new", "tenant /a { contexts.max = 3 }\n");
	tenants_event(t);
	expect("");
}
END_TEST

START_TEST(errors_change_nothing)
{
	make("/a");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 memory.max = x }\n");
	create();
	expect("/a 1=5;");	/* at the start the rest holds */
	logged("1.conf:1: memory.max");
	be_write(files, "1.conf", "tenant /a { tasks.max = 6 memory.max = x }\n");
	tenants_event(t);
	expect("");
	logged("saved limits stay as they were");
	/* Nor what was set by hand since. */
	tenants_reload(t);
	expect("");
	be_write(files, "1.conf", "tenant /a { tasks.max = 6 }\n");
	tenants_event(t);
	expect("/a 1=6;");
}
END_TEST

START_TEST(refused_is_tried_again)
{
	make("/a");
	answer = -EPERM;
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	create();
	expect("/a 1=5;");
	logged("saved limits can't be set");
	ck_assert_uint_eq(tenants_in_force(t), 0);
	/* Whatever starts beside it is no reason to say so again. */
	ck_assert_int_eq(truncate(log_path, 0), 0);
	make("/b");
	tenants_event(t);
	expect("");
	not_logged("can't be set");
	be_write(files, "2.conf", "tenant /none { tasks.max = 5 }\n");
	tenants_event(t);
	expect("/a 1=5;");
	not_logged("can't be set");
	tenants_reload(t);
	expect("/a 1=5;");
	logged("saved limits can't be set");
	answer = 0;
	tenants_reload(t);
	expect("/a 1=5;");
	ck_assert_uint_eq(tenants_in_force(t), 1);
}
END_TEST

/* It, and folders above it, come later, go, and come again: all of it is told. */
START_TEST(no_folder)
{
	char above[96];

	ck_assert_int_eq(rmdir(files), 0);
	make("/a");
	snprintf(above, sizeof(above), "%s/tenants.d", top);
	strcat(files, "/x/tenants.d");
	create();
	tenants_event(t);
	ck_assert_int_eq(mkdir(above, 0755), 0);
	ck_assert(told());
	tenants_event(t);
	strcat(above, "/x");
	ck_assert_int_eq(mkdir(above, 0755), 0);
	ck_assert(told());
	ck_assert_int_eq(mkdir(files, 0755), 0);
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	expect("");
	tenants_event(t);
	expect("/a 1=5;");
	be_write(files, "1.conf", "tenant /a { tasks.max = 6 }\n");
	tenants_event(t);
	expect("/a 1=6;");
	be_rmdir(above);
	tenants_event(t);
	expect("");
	ahead_ms += TENANTS_GRACE_MS;
	tenants_event(t);
	expect("/a 1=max;");
	ck_assert_int_eq(mkdir(above, 0755), 0);
	ck_assert(told());
	tenants_event(t);
	/* Nobody waits for that. */
	be_write(top, "beside", "");
	ck_assert(!told());
	ck_assert_int_eq(mkdir(files, 0755), 0);
	ck_assert(told());
	tenants_event(t);
	be_write(files, "1.conf", "tenant /a { tasks.max = 7 }\n");
	tenants_event(t);
	expect("/a 1=7;");
}
END_TEST

/* With those above it. */
static void make_all(const char *path)
{
	char *at, part[256];

	ck_assert_uint_lt((size_t)snprintf(part, sizeof(part), "%s", path), sizeof(part));
	for (at = part + strlen(top); (at = strchr(at + 1, '/'));) {
		*at = '\0';
		if (mkdir(part, 0755))
			ck_assert_int_eq(errno, EEXIST);
		*at = '/';
	}
	ck_assert_int_eq(mkdir(part, 0755), 0);
}

/* However the path is written. */
START_TEST(folder_by_another_path)
{
	static const char *const paths[] = {
		"tenants.d", "tenants.d//", "./tenants.d", "x//y/../../tenants.d", "../%s//tenants.d/",
	};
	char x[96];

	make("/a");
	snprintf(x, sizeof(x), "%s/x/y", top);
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	ck_assert_int_eq(chdir(top), 0);
	make_all(x);
	snprintf(files, sizeof(files), paths[_i], strrchr(top, '/') + 1);
	create();
	expect("/a 1=5;");
	ck_assert_int_eq(rename("tenants.d", "old"), 0);
	ck_assert(told());
	tenants_event(t);
	expect("");
	be_write(top, "beside", "");
	ck_assert_int_eq(mkdir("tenants.d", 0755), 0);
	ck_assert(told());
	tenants_event(t);
	be_write("tenants.d", "1.conf", "tenant /a { tasks.max = 6 }\n");
	ck_assert(told());
	tenants_event(t);
	expect("/a 1=6;");
	ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(folder_is_replaced)
{
	unsigned int before;
	char other[128];

	make("/a");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	snprintf(other, sizeof(other), "%s.new", files);
	ck_assert_int_eq(mkdir(other, 0755), 0);
	be_write(other, "1.conf", "tenant /a { tasks.max = 9 }\n");
	create();
	expect("/a 1=5;");
	before = watches();
	move_away(files);
	/* Seen or not, meanwhile there are no fewer limits. */
	if (_i) {
		tenants_event(t);
		expect("");
	}
	ck_assert_int_eq(rename(other, files), 0);
	tenants_event(t);
	expect("/a 1=9;");
	be_write(files, "1.conf", "tenant /a { tasks.max = 10 }\n");
	tenants_event(t);
	expect("/a 1=10;");
	/* The old one is nothing to us any more. */
	be_write(old, "1.conf", "tenant /a { tasks.max = 11 }\n");
	tenants_event(t);
	expect("");
	ck_assert_uint_eq(watches(), before);
}
END_TEST

/* As an administrator does who has another one ready, or makes it anew, file by file. */
START_TEST(folder_is_away)
{
	int wait;

	make("/a");
	create();
	set_folder("tenant /a { tasks.max = 5 }\n");
	expect("/a 1=5;");
	move_away(files);
	ck_assert(told());
	wait = tenants_event_paced(t);
	ck_assert_int_gt(wait, TENANTS_GRACE_MS - 5000);
	ck_assert_int_le(wait, TENANTS_GRACE_MS);
	logged("the folder of saved limits is gone, or has fewer");
	expect("");
	ck_assert_uint_eq(tenants_in_force(t), 1);
	/* They hold for what appears as well. */
	unmake("/a");
	make("/a");
	tenants_event(t);
	expect("/a 1=5;");
	ahead_ms += TENANTS_GRACE_MS - 5000;
	wait = tenants_event_paced(t);
	ck_assert_int_gt(wait, 0);
	ck_assert_int_le(wait, 5000);
	ck_assert_int_eq(mkdir(files, 0755), 0);
	if (_i == 1)
		tenants_event(t);
	expect("");
	set_folder("tenant /a { tasks.max = 5 contexts.max = 2 }\n");
	expect("/a 2=2;");
	/* That is all; and another time begins anew. */
	ahead_ms += TENANTS_GRACE_MS;
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	be_rmdir(files);
	tenants_event(t);
	expect("");
	if (_i == 2) {
		ck_assert_int_eq(mkdir(files, 0755), 0);
		tenants_event(t);
		expect("");
	}
	ahead_ms += TENANTS_GRACE_MS - 5000;
	tenants_event(t);
	expect("");
	ahead_ms += 5000;
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	expect("/a 1=max;/a 2=max;");
	ck_assert_uint_eq(tenants_in_force(t), 0);
}
END_TEST

/* Nor has one fewer limits as long as its files come. */
START_TEST(folder_comes_file_by_file)
{
	make("/a");
	make("/b");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	be_write(files, "2.conf", "tenant /b { tasks.max = 6 }\n");
	create();
	expect("/a 1=5;/b 1=6;");
	move_away(files);
	ck_assert_int_eq(mkdir(files, 0755), 0);
	tenants_event(t);
	expect("");
	be_write(files, "1.conf", "tenant /a { tasks.max = 7 }\n");
	tenants_event(t);
	expect("");
	ck_assert_uint_eq(tenants_in_force(t), 2);
	if (_i) {
		/* One that can't be read is no other case, and no reason to look all the time. */
		be_write(files, "2.conf", "tenant /b { tasks.max = ");
		ahead_ms += TENANTS_GRACE_MS;
		ck_assert_int_gt(tenants_event_paced(t), TENANTS_GRACE_MS - 5000);
		expect("");
		logged("limits stay as they were until the files are right");
		/* That is said once. */
		ck_assert_int_eq(truncate(log_path, 0), 0);
		for (int i = 0; i < 3; i++) {
			ahead_ms += TENANTS_GRACE_MS;
			ck_assert_int_gt(tenants_event_paced(t), TENANTS_GRACE_MS - 5000);
		}
		not_logged("limits stay as they were");
		expect("");
		be_write(files, "2.conf", "");
		tenants_event(t);
		expect("");
	}
	if (_i == 2) {
		/* Then there are fewer. */
		ahead_ms += TENANTS_GRACE_MS;
		tenants_event(t);
		expect("/b 1=max;/a 1=7;");
		return;
	}
	be_write(files, "2.conf", "tenant /b { tasks.max = 8 }\n");
	tenants_event(t);
	expect("/a 1=7;/b 1=8;");
}
END_TEST

/* Another one that is empty is no other word than none. */
START_TEST(folder_is_empty)
{
	make("/a");
	create();
	set_folder("tenant /a { tasks.max = 5 }\n");
	expect("/a 1=5;");
	move_away(files);
	ck_assert_int_eq(mkdir(files, 0755), 0);
	tenants_event(t);
	expect("");
	set_folder("tenant /a { tasks.max = 6 }\n");
	expect("/a 1=6;");
	/* But who empties it means that. */
	set_folder("");
	expect("/a 1=max;");
}
END_TEST

/* Who asks for all that stands there to be set has it so. */
START_TEST(no_grace_at_reload)
{
	make("/a");
	create();
	set_folder("tenant /a { tasks.max = 5 }\n");
	expect("/a 1=5;");
	be_rmdir(files);
	if (_i) {
		tenants_event(t);
		expect("");
	}
	tenants_reload(t);
	expect("/a 1=max;");
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	expect("");
}
END_TEST

/* As far up as we may rename: nobody is told of that but by the one that is moved. */
START_TEST(folder_above_is_replaced)
{
	char a[96], other[128], in_other[160], in_old[160];
	unsigned int before;

	make("/a");
	snprintf(a, sizeof(a), "%s/x", top);
	snprintf(other, sizeof(other), "%s.new", a);
	snprintf(in_other, sizeof(in_other), "%s/y/tenants.d", other);
	snprintf(files, sizeof(files), "%s/x/y/tenants.d", top);
	make_all(files);
	make_all(in_other);
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	be_write(in_other, "1.conf", "tenant /a { tasks.max = 9 }\n");
	create();
	expect("/a 1=5;");
	before = watches();
	move_away(a);
	snprintf(in_old, sizeof(in_old), "%s/y/tenants.d", old);
	ck_assert_int_eq(rename(other, a), 0);
	/* It need not be asked for: whoever waits is told. */
	ck_assert(told());
	tenants_event(t);
	expect("/a 1=9;");
	ck_assert_uint_eq(watches(), before);
	set_folder("tenant /a { tasks.max = 10 }\n");
	expect("/a 1=10;");
	be_write(in_old, "1.conf", "tenant /a { tasks.max = 11 }\n");
	tenants_event(t);
	expect("");
	/* What comes and goes beside it concerns nobody. */
	be_write(top, "beside", "");
	be_write(a, "beside", "");
	ck_assert(!told());
}
END_TEST

/* Of a link, too, whoever waits is told. */
START_TEST(link_above_leads_elsewhere)
{
	char a[96], b[96], to[96], new[128], in_a[128], in_b[128];
	unsigned int before;

	make("/a");
	snprintf(a, sizeof(a), "%s/a", top);
	snprintf(b, sizeof(b), "%s/b", top);
	snprintf(to, sizeof(to), "%s/to", top);
	snprintf(in_a, sizeof(in_a), "%s/tenants.d", a);
	snprintf(in_b, sizeof(in_b), "%s/tenants.d", b);
	snprintf(files, sizeof(files), "%s/to/tenants.d", top);
	make_all(in_a);
	make_all(in_b);
	be_write(in_a, "1.conf", "tenant /a { tasks.max = 5 }\n");
	be_write(in_b, "1.conf", "tenant /a { tasks.max = 9 }\n");
	snprintf(new, sizeof(new), "%s.new", to);
	ck_assert_int_eq(symlink(a, to), 0);
	create();
	expect("/a 1=5;");
	before = watches();
	ck_assert_int_eq(symlink(b, new), 0);
	if (_i != 2)
		ck_assert_int_eq(unlink(to), 0);
	ck_assert(told() == (_i != 2));
	ck_assert_int_eq(rename(new, to), 0);
	ck_assert(told());
	if (_i == 1)
		ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	else
		tenants_event(t);
	expect("/a 1=9;");
	ck_assert_uint_eq(watches(), before);
	set_folder("tenant /a { tasks.max = 10 }\n");
	expect("/a 1=10;");
}
END_TEST

/* Of what a link leads through nobody is told, but who looks now and then; and he is not waited for. */
START_TEST(link_leads_through_another_folder)
{
	char x[96], y[96], in_x[128], to[96], a[128];

	make("/a");
	snprintf(x, sizeof(x), "%s/x", top);
	snprintf(y, sizeof(y), "%s/y", top);
	snprintf(to, sizeof(to), "%s/to", top);
	snprintf(a, sizeof(a), "%s/a", x);
	snprintf(in_x, sizeof(in_x), "%s/a/tenants.d", x);
	snprintf(files, sizeof(files), "%s/to/tenants.d", top);
	make_all(in_x);
	be_write(in_x, "1.conf", "tenant /a { tasks.max = 5 }\n");
	ck_assert_int_eq(symlink(a, to), 0);
	create();
	expect("/a 1=5;");
	ck_assert_int_eq(rename(x, y), 0);
	make_all(in_x);
	be_write(in_x, "1.conf", "tenant /a { tasks.max = 9 }\n");
	ck_assert(!told());
	tenants_event(t);
	expect("");
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	expect("/a 1=9;");
	set_folder("tenant /a { tasks.max = 10 }\n");
	expect("/a 1=10;");
}
END_TEST

static bool told_of_mounts(void)
{
	struct pollfd fd = { .fd = tenants_mounts_fd(t), .events = POLLPRI };

	return poll(&fd, 1, 0) == 1;
}

/* No watch tells of that, and who looks now and then would see it late. */
START_TEST(mount_over_the_folder)
{
	const char *shm = "/dev/shm";

	if (unshare(CLONE_NEWNS) || syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		be_skip("mount_over_the_folder", "no file system can be mounted");
		return;
	}
	make("/a");
	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	create();
	expect("/a 1=5;");
	ck_assert(!told_of_mounts());
	ck_assert_int_eq(syscall(SYS_mount, "none", files, "tmpfs", 0, "mode=755"), 0);
	be_write(files, "1.conf", "tenant /a { tasks.max = 6 }\n");
	ck_assert(!told());
	ck_assert(told_of_mounts());
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	expect("/a 1=6;");
	/* Once, or araxd would look all the time. */
	ck_assert(!told_of_mounts());
	set_folder("tenant /a { tasks.max = 7 }\n");
	expect("/a 1=7;");
	ck_assert_int_eq(syscall(SYS_umount2, files, 0), 0);
	ck_assert(told_of_mounts());
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	expect("/a 1=5;");
	/* Elsewhere. */
	ck_assert_int_eq(syscall(SYS_mount, shm, shm, NULL, MS_BIND, NULL), 0);
	ck_assert(told_of_mounts());
	ck_assert_int_eq(tenants_event_paced(t), TENANTS_CHECK_MS);
	ck_assert_int_eq(syscall(SYS_umount2, shm, 0), 0);
	expect("");
}
END_TEST

static void *look_now_and_then(void *arg)
{
	tenants_event_paced(t);
	return arg;
}

/* Where the folder's file system hangs who arrives has the limits that are known. */
START_TEST(folder_hangs)
{
	pthread_t thread;

	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	create();
	expect("");
	__atomic_store_n(&hangs, 1, __ATOMIC_RELEASE);
	if (_i) {
		ck_assert_int_eq(pthread_create(&thread, NULL, look_now_and_then, NULL), 0);
		while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
			usleep(1000);
	}
	make("/a");
	tenants_event(t);
	expect("/a 1=5;");
	ck_assert_int_eq(__atomic_load_n(&waits, __ATOMIC_ACQUIRE), _i);
	__atomic_store_n(&hangs, 0, __ATOMIC_RELEASE);
	if (_i)
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
	expect("");
	set_folder("tenant /a { tasks.max = 6 }\n");
	expect("/a 1=6;");
}
END_TEST

static int stop;

static void *look(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		tenants_event(t);
	return NULL;
}

/* The main thread and the broker's. */
START_TEST(two_threads)
{
	pthread_t thread;
	int i;

	be_write(files, "1.conf", "tenant /a { tasks.max = 5 }\n");
	create();
	ck_assert_int_eq(pthread_create(&thread, NULL, look, NULL), 0);
	for (i = 0; i < 200; i++) {
		make("/a");
		tenants_event(t);
		pthread_mutex_lock(&lock);
		expect("/a 1=5;");
		pthread_mutex_unlock(&lock);
		unmake("/a");
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tenants");
	TCase *tc = tcase_create("tenants");
	struct statfs fs;

	if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS || access("/dev/shm", W_OK)) {
		printf("1..0 # SKIP /dev/shm is no tmpfs that can be written\n");
		return 4;
	}
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, at_start);
	tcase_add_test(tc, appears);
	tcase_add_test(tc, parents_come_again);
	tcase_add_loop_test(tc, paced, 0, 2);
	tcase_add_test(tc, at_once_when_somebody_arrives);
	tcase_add_test(tc, too_deep);
	tcase_add_test(tc, file_changes);
	tcase_add_test(tc, errors_change_nothing);
	tcase_add_test(tc, refused_is_tried_again);
	tcase_add_test(tc, no_folder);
	tcase_add_loop_test(tc, folder_by_another_path, 0, 5);
	tcase_add_loop_test(tc, folder_is_replaced, 0, 2);
	tcase_add_loop_test(tc, folder_is_away, 0, 3);
	tcase_add_loop_test(tc, folder_comes_file_by_file, 0, 3);
	tcase_add_test(tc, folder_is_empty);
	tcase_add_loop_test(tc, no_grace_at_reload, 0, 2);
	tcase_add_test(tc, folder_above_is_replaced);
	tcase_add_loop_test(tc, link_above_leads_elsewhere, 0, 3);
	tcase_add_test(tc, link_leads_through_another_folder);
	tcase_add_test(tc, mount_over_the_folder);
	tcase_add_loop_test(tc, folder_hangs, 0, 2);
	tcase_add_test(tc, two_threads);
	suite_add_tcase(suite, tc);
	return be_main(suite);
}
