// SPDX-License-Identifier: MIT
/* araxd.conf: defaults, every key, and every refusal with its line. */
#include <errno.h>

#include "daemon/config.h"
#include "libarax/admin/conf.h"
#include "selftests/unit/be_test.h"

static struct config c;
static char error[512];

static int parse(const char *text)
{
	return config_parse(&c, "x.conf", text, strlen(text), error, sizeof(error));
}

START_TEST(defaults)
{
	ck_assert_int_eq(config_init(&c), 0);
	ck_assert_int_eq(c.log.level, LOG_LEVEL_INFO);
	ck_assert_int_eq(c.log.format, LOG_FORMAT_AUTO);
	ck_assert_int_eq(c.link.kind, CONFIG_LINK_AUTO);
	ck_assert_ptr_null(c.link.socket);
	ck_assert_uint_eq(c.link.socket_mode, 0666);
	ck_assert(c.cpu.enable);
	ck_assert_uint_eq(c.cpu.groups.count, 0);
	/* What was built with this program. */
	ck_assert_uint_eq(c.kernels.path.count, 1);
	ck_assert_ptr_nonnull(strstr(c.kernels.path.items[0], "/lib/arax/kernels"));
	ck_assert_uint_eq(c.limits.memory, 0);
	ck_assert_uint_eq(c.limits.tasks, 4096);
	ck_assert_uint_eq(c.limits.contexts, 64);
	ck_assert_uint_eq(c.nr_backends, 0);
	ck_assert_uint_eq(c.nr_filters, 0);
	config_free(&c);
}
END_TEST

/* What looks like a comment and is none. */
START_TEST(no_comments)
{
	ck_assert_msg(!parse("link { socket = \"/a#b/*c//d\" } /* x */\n"
			     "kernels { path = { /e//f, '/g#\\'#h', \"/i\\\"#j\", "
			     "\"/k${ARAX_NONE:-#\"}l\" } }\n"), "%s", error);
	ck_assert_str_eq(c.link.socket, "/a#b/*c//d");
	ck_assert_uint_eq(c.kernels.path.count, 4);
	ck_assert_str_eq(c.kernels.path.items[0], "/e//f");
	ck_assert_str_eq(c.kernels.path.items[1], "/g#'#h");
	ck_assert_str_eq(c.kernels.path.items[2], "/i\"#j");
	ck_assert_str_eq(c.kernels.path.items[3], "/k#\"l");
	config_free(&c);
}
END_TEST

START_TEST(every_key)
{
	static const char text[] =
		"# a comment\n"
		"log { level = debug  format = \"plain\" }\n"
		"link { kind = broker socket = \"/run/x.sock\" socket_mode = 0600 max_clients = 7 }\n"
		"loop { poll_us = 1 inline_us = 2 }\n"
		"sched { policy = \"minmin-transfer-time\" models = \"/m.json\" }\n"
		"cpu { enable = false groups = { \"0-1\", \"2,5-6\" } }\n"
		"kernels { path = { \"/a\", \"/b\" } }\n"
		"worker { program = \"/w\" memory = \"3M\" timeout_ms = 4 slice_ms = 7 cgroup = \"/c\" threads = 9 idle_s = 5 max = 6 }\n"
		"limits { memory = \"2G\" tasks = 8 contexts = 9 handles = 10 }\n"
		"backend \"cuda\" { file = \"/c.so\" options = { \"a=b\", \"c=\" } }\n"
		"filter \"stats\" { }\n"
		"filter \"error.one\" { devices = \"cpu?\" options = { \"every=2\" } }\n";

	ck_assert_msg(!parse(text), "%s", error);
	ck_assert_int_eq(c.log.level, LOG_LEVEL_DEBUG);
	ck_assert_int_eq(c.log.format, LOG_FORMAT_PLAIN);
	ck_assert_int_eq(c.link.kind, CONFIG_LINK_BROKER);
	ck_assert_str_eq(c.link.socket, "/run/x.sock");
	ck_assert_uint_eq(c.link.socket_mode, 0600);
	ck_assert_uint_eq(c.link.max_clients, 7);
	ck_assert_uint_eq(c.loop.poll_us, 1);
	ck_assert_uint_eq(c.loop.inline_us, 2);
	ck_assert_str_eq(c.sched.policy, "minmin-transfer-time");
	ck_assert_str_eq(c.sched.models, "/m.json");
	ck_assert(!c.cpu.enable);
	ck_assert_uint_eq(c.cpu.groups.count, 2);
	ck_assert_str_eq(c.cpu.groups.items[1], "2,5-6");
	ck_assert_uint_eq(c.kernels.path.count, 2);
	ck_assert_str_eq(c.kernels.path.items[0], "/a");
	ck_assert_str_eq(c.worker.program, "/w");
	ck_assert_uint_eq(c.worker.memory, 3u << 20);
	ck_assert_uint_eq(c.worker.timeout_ms, 4);
	ck_assert_uint_eq(c.worker.slice_ms, 7);
	ck_assert_str_eq(c.worker.cgroup, "/c");
	ck_assert_uint_eq(c.worker.threads, 9);
	ck_assert_uint_eq(c.worker.idle_s, 5);
	ck_assert_uint_eq(c.worker.max, 6);
	ck_assert_uint_eq(c.limits.memory, 2ull << 30);
	ck_assert_uint_eq(c.limits.tasks, 8);
	ck_assert_uint_eq(c.limits.contexts, 9);
	ck_assert_uint_eq(c.limits.handles, 10);
	ck_assert_uint_eq(c.nr_backends, 1);
	ck_assert_str_eq(c.backends[0].name, "cuda");
	ck_assert_str_eq(c.backends[0].file, "/c.so");
	ck_assert_uint_eq(c.backends[0].options.count, 2);
	ck_assert_uint_eq(c.nr_filters, 2);
	ck_assert_str_eq(c.filters[0].name, "stats");
	ck_assert_str_eq(c.filters[0].devices, "*");
	ck_assert_str_eq(c.filters[1].devices, "cpu?");
	config_free(&c);
}
END_TEST

static const struct {
	const char *text, *error;
} bad[] = {
	{ "\n\nspeed = 3\n", "x.conf:3: no such option 'speed'" },
	/* Comments have lines, too. */
	{ "# a\n// b\nspeed = 3\n", "x.conf:3: no such option 'speed'" },
	{ "/* a\n b */ # c\nloop { # d\n poll_us = 1 /* \" */\n\n inline_us = -1 }",
	  "x.conf:6: inline_us = -1" },
	{ "link { socket = \"/a#b\" # c\n kind = x }", "x.conf:2: kind = \"x\"" },
	{ "link { socket = '/a\\'#b' kind = x }", "x.conf:1: kind = \"x\"" },
	{ "log {\n  levle = debug\n}\n", "x.conf:2: no such option 'levle'" },
	{ "log { level = loud }", "x.conf:1: level = \"loud\": must be one of err, warning" },
	{ "log { format = xml }", "must be one of auto, journal, time, plain" },
	{ "link { kind = usb }", "must be one of auto, kernel, broker, both" },
	{ "sched {\n policy = best }", "x.conf:2: policy = \"best\": must be one of eft, fair" },
	{ "sched { models = rel }", "must be an absolute path or none" },
	{ "link { socket = \"rel\" }", "must be an absolute path" },
	{ "link { socket_mode = 01000 }", "socket_mode = 01000: must be an octal mode, 0 to 0777, such as 0660" },
	{ "link { socket_mode = 680 }", "socket_mode = 680: must be an octal mode" },
	{ "link { socket_mode = \"\" }", "socket_mode = : must be an octal mode" },
	{ "link { socket_mode = -1 }", "socket_mode = -1: must be an octal mode" },
	{ "link { max_clients = 0 }", "must be 1 to 65536" },
	{ "loop { poll_us = -1 }", "must be 0 to 1000000" },
	{ "loop { inline_us = 99999999999999999999 }", "out of range" },
	{ "loop { poll_us = many }", "invalid integer value for option 'poll_us': want a whole number" },
	{ "cpu { enable = maybe }", "invalid boolean value for option 'enable': want true or false" },
	{ "cpu { groups = { \"a\" } }", "not a CPU list" },
	{ "debug { check_access = 7 }", "check_access" },
	{ "cpu { memory = \"much\" }", "must be bytes" },
	{ "cpu { memory = \"-1\" }", "must be bytes" },
	{ "cpu { memory = 5 }", "memory = \"5\": must be 0, or 64K at least" },
	{ "cpu { memory = \"63K\" }", "must be 0, or 64K at least" },
	{ "cpu { groups = { \"3-1\" } }", "not a CPU list" },
	{ "cpu { groups = { \"\" } }", "not a CPU list" },
	{ "cpu { groups = { \"99999\" } }", "not a CPU list" },
	{ "cpu {\n groups = { \"0-2\",\n\"2-3\" } }", "x.conf:3: groups: \"0-2\" and \"2-3\" share a CPU" },
	{ "kernels { path = { \"k\" } }", "must be an absolute path" },
	{ "worker { memory = \"3X\" }", "must be bytes, or a number with K, M, G or T" },
	{ "worker { memory = \"99999999999999T\" }", "must be bytes" },
	{ "worker { program = \"w\" }", "must be an absolute path" },
	{ "worker { idle_s = 0 }", "must be 1 to 86400" },
	{ "worker { max = 1025 }", "must be 0 to 1024" },
	{ "worker { timeout_ms = -1 }", "must be 0 to 86400000" },
	{ "worker { slice_ms = 60001 }", "must be 0 to 60000" },
	{ "worker { threads = 0 }", "must be 1 to 4194304" },
	{ "worker { cgroup = \"c\" }", "must be an absolute path, auto or none" },
	{ "limits { memory = \"-1\" }", "must be bytes" },
	{ "limits { tasks = 0 }", "must be 1" },
	{ "limits { contexts = 0 }", "must be 1" },
	{ "limits { handles = 0 }", "must be 1" },
	{ "backend \"A b\" { }", "a name is 1 to 31" },
	{ "backend \"cuda\" { } backend \"cuda\" { }", "duplicate title 'cuda': one section" },
	{ "backend { }", "missing title for section 'backend': want its name in front of the {" },
	{ "backend \"b\" { file = \"b.so\" }", "must be an absolute path" },
	{ "backend \"b\" { options = { \"x\" } }", "is not \"key=value\"" },
	{ "backend \"b\" { options = { \"=x\" } }", "is not \"key=value\"" },
	{ "filter \"f\" { options = { \"x\" } }", "is not \"key=value\"" },
	{ "filter \"f\" { file = \"f.so\" }", "must be an absolute path" },
	{ "limits {", "ends inside a section" },
	{ "log { level = \"info", "x.conf" },
	{ "/* never closed", "ends inside" },
};

START_TEST(refuses)
{
	ck_assert_int_eq(parse(bad[_i].text), -EINVAL);
	ck_assert_msg(strstr(error, bad[_i].error), "'%s' gives '%s'", bad[_i].text, error);
	ck_assert_msg(!strncmp(error, "x.conf:", 7), "%s", error);
}
END_TEST

START_TEST(nul_and_length)
{
	char *big = malloc(CONF_MAX_BYTES + 1);

	memset(big, '\n', CONF_MAX_BYTES + 1);
	ck_assert_int_eq(config_parse(&c, "x", big, CONF_MAX_BYTES + 1, error, sizeof(error)),
			 -E2BIG);
	ck_assert_int_eq(config_parse(&c, "x", big, CONF_MAX_BYTES, error, sizeof(error)), 0);
	config_free(&c);
	big[1] = '\0';
	ck_assert_int_eq(config_parse(&c, "x", big, 3, error, sizeof(error)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "NUL"));
	free(big);
}
END_TEST

START_TEST(file_must_be_trusted)
{
	char folder[64], path[128];

	be_mkdir(folder);
	be_write(folder, "c", "loop { poll_us = 7 }\n");
	snprintf(path, sizeof(path), "%s/c", folder);
	ck_assert_int_eq(config_load(&c, path, error, sizeof(error)), 0);
	ck_assert_uint_eq(c.loop.poll_us, 7);
	config_free(&c);
	chmod(path, 0664);
	ck_assert_int_eq(config_load(&c, path, error, sizeof(error)), -EPERM);
	ck_assert_ptr_nonnull(strstr(error, "writable by its group"));
	ck_assert_int_eq(config_load(&c, "/nonexistent", error, sizeof(error)), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, "/nonexistent"));
	be_write(folder, "c", "x\n");
	ck_assert_int_eq(config_load(&c, path, error, sizeof(error)), -EINVAL);
	ck_assert_msg(!strncmp(error, path, strlen(path)), "%s", error);
	be_rmdir(folder);
}
END_TEST

/* The sample must parse, and say the defaults. */
START_TEST(sample_is_right)
{
	struct config d;

	ck_assert_int_eq(config_load(&c, "daemon/araxd.conf.sample", error, sizeof(error)), 0);
	ck_assert_int_eq(config_init(&d), 0);
	ck_assert_int_eq(c.log.level, d.log.level);
	ck_assert_uint_eq(c.link.socket_mode, d.link.socket_mode);
	ck_assert_uint_eq(c.link.max_clients, d.link.max_clients);
	ck_assert_uint_eq(c.loop.poll_us, d.loop.poll_us);
	ck_assert_uint_eq(c.loop.inline_us, d.loop.inline_us);
	ck_assert_uint_eq(c.worker.memory, d.worker.memory);
	ck_assert_uint_eq(c.worker.timeout_ms, d.worker.timeout_ms);
	ck_assert_uint_eq(c.worker.slice_ms, d.worker.slice_ms);
	ck_assert_str_eq(c.worker.cgroup, d.worker.cgroup);
	ck_assert_uint_eq(c.worker.threads, d.worker.threads);
	ck_assert_uint_ge(c.worker.threads, 512);
	ck_assert_uint_ge(c.worker.threads, 2 * (unsigned int)sysconf(_SC_NPROCESSORS_CONF));
	ck_assert_uint_eq(c.worker.idle_s, d.worker.idle_s);
	ck_assert_uint_eq(c.worker.max, d.worker.max);
	ck_assert_uint_eq(c.limits.memory, d.limits.memory);
	ck_assert_uint_eq(c.limits.tasks, d.limits.tasks);
	ck_assert_uint_eq(c.limits.contexts, d.limits.contexts);
	ck_assert_uint_eq(c.limits.handles, d.limits.handles);
	ck_assert_str_eq(c.kernels.path.items[0], d.kernels.path.items[0]);
	config_free(&c);
	config_free(&d);
}
END_TEST

/* Which backends are left, and whether the CPU is. */
static const struct {
	const char *text, *kinds;
	int err;
	bool cpu;
	const char *backends;
} kinds[] = {
	{ "", "cpu", 0, true, "" },
	{ "", "opencl", 0, false, "opencl " },
	{ "", "opencl,cpu", 0, true, "opencl " },
	{ "backend \"opencl\" { options = { \"lanes=1\" } }", "opencl", 0, false, "opencl " },
	{ "backend \"opencl\" { } backend \"mine\" { file = \"/m\" }", "cpu", 0, true, "" },
	{ "backend \"opencl\" { } backend \"mine\" { file = \"/m\" }", "mine", 0, false, "mine " },
	{ "backend \"mine.x\" { file = \"/m\" }", "cpu,mine", 0, true, "mine.x " },
	{ "cpu { enable = false }", "cpu,opencl", 0, false, "opencl " },
	{ "", "hip,cuda", 0, false, "hip cuda " },
	{ "", "cud", -EINVAL, false, "" },
	{ "", "", -EINVAL, false, "" },
	{ "", "cpu,", -EINVAL, false, "" },
	{ "", "gpu", -EINVAL, false, "" },
	{ "", "open", -EINVAL, false, "" },
	{ "backend \"mine\" { file = \"/m\" }", "min", -EINVAL, false, "" },
};

START_TEST(kinds_choose)
{
	char got[256] = "";

	ck_assert_int_eq(parse(kinds[_i].text), 0);
	ck_assert_int_eq(config_kinds(&c, kinds[_i].kinds, error, sizeof(error)), kinds[_i].err);
	if (kinds[_i].err) {
		ck_assert_msg(strstr(error, "must be cpu, opencl, cuda, hip, xrt or the name of"), "%s", error);
	} else {
		ck_assert_int_eq(c.cpu.enable, kinds[_i].cpu);
		for (size_t i = 0; i < c.nr_backends; i++)
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s ", c.backends[i].name);
		ck_assert_str_eq(got, kinds[_i].backends);
	}
	config_free(&c);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *t = tcase_create("all");

	tcase_add_test(t, defaults);
	tcase_add_test(t, no_comments);
	tcase_add_test(t, every_key);
	tcase_add_loop_test(t, refuses, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, nul_and_length);
	tcase_add_test(t, file_must_be_trusted);
	tcase_add_test(t, sample_is_right);
	tcase_add_loop_test(t, kinds_choose, 0, sizeof(kinds) / sizeof(kinds[0]));
	suite_add_tcase(suite, t);
	return be_main(suite);
}
