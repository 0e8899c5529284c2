// SPDX-License-Identifier: MIT
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/backends/cpulist.h"
#include "daemon/sched/policies.h"
#include "libarax/admin/conf.h"
#include "libarax/admin/trusted.h"

#define DEVICE_LEAST	(64u << 10)

/* Where none is named: what was installed, or built, with this program. */
static int own_kernels(struct config_list *list)
{
	char self[PATH_MAX], path[PATH_MAX + 64], *slash;
	ssize_t n;
	int up;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return 0;	/* no /proc: no default */
	self[n] = '\0';
	for (up = 0; up < 2; up++) {
		slash = strrchr(self, '/');
		if (!slash)
			return 0;
		*slash = '\0';
	}
	snprintf(path, sizeof(path), "%s/lib/arax/kernels", self);
	if (access(path, F_OK))
		return 0;
	list->items[0] = strdup(path);	/* copy_list() left room for it */
	if (!list->items[0])
		return -ENOMEM;
	list->count = 1;
	return 0;
}

/* ------------------------------------------------------------------ */
/* Value checks: called as each option is parsed, so the line is right   */

struct limits {
	const char *name;
	long min, max;
};

static const struct limits limits[] = {
	{ "max_clients", 1, 65536 },
	{ "poll_us", 0, 1000000 },
	{ "inline_us", 0, 1000000 },
	{ "timeout_ms", 0, 86400000 },
	{ "slice_ms", 0, 60000 },
	{ "threads", 1, 1L << 22 },
	{ "idle_s", 1, 86400 },
	{ "max", 0, 1024 },
	{ "tasks", 1, 1L << 24 },
	{ "contexts", 1, 1L << 20 },
	{ "handles", 1, 1L << 20 },
};

static int check_int(cfg_t *cfg, cfg_opt_t *opt)
{
	long v = cfg_opt_getnint(opt, cfg_opt_size(opt) - 1);

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (strcmp(limits[i].name, opt->name))
			continue;
		if (v >= limits[i].min && v <= limits[i].max)
			return 0;
		cfg_error(cfg, "%s = %ld: must be %ld to %ld", opt->name, v, limits[i].min,
			  limits[i].max);
		return -1;
	}
	return 0;
}

static const char *const level_words[] = { "err", "warning", "notice", "info", "debug", NULL };
static const char *const format_words[] = { "auto", "journal", "time", "plain", NULL };
static const char *const link_words[] = { "auto", "kernel", "broker", "both", NULL };

#define POLICY_NAME(c_name, name) name,
static const char *const policy_words[] = { SCHED_POLICIES(POLICY_NAME) NULL };
#undef POLICY_NAME

static int word_index(const char *const *words, const char *s)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], s))
			return i;
	return -1;
}

static int check_word(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	const char *const *words = !strcmp(opt->name, "level")	? level_words :
				   !strcmp(opt->name, "format") ? format_words :
				   !strcmp(opt->name, "policy") ? policy_words :
								  link_words;
	char list[256] = "";

	if (s && word_index(words, s) >= 0)
		return 0;
	for (int i = 0; words[i]; i++) {
		strcat(list, i ? ", " : "");
		strcat(list, words[i]);
	}
	cfg_error(cfg, "%s = \"%s\": must be one of %s", opt->name, s ? s : "", list);
	return -1;
}

/* "512", "64K", "8M", "2G", "1T"; -1: not a size. */
static int parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "KMGT";
	uint64_t v = 0;
	const char *u;

	if (*s < '0' || *s > '9')
		return -1;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (v > (UINT64_MAX - 9) / 10)
			return -1;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	u = *s ? strchr(units, *s) : NULL;
	if (u) {
		unsigned int shift = 10 * (unsigned int)(u - units + 1);

		if (v > UINT64_MAX >> shift)
			return -1;
		v <<= shift;
		s++;
	}
	*out = v;
	return *s ? -1 : 0;
}

static int check_size(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	uint64_t v;

	if (s && !parse_size(s, &v))
		return 0;
	cfg_error(cfg, "%s = \"%s\": must be bytes, or a number with K, M, G or T", opt->name,
		  s ? s : "");
	return -1;
}

/* Memory of a device's own: less than this is somebody's slip, and nothing that it could be measured by. */
static int check_device_size(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	uint64_t v;

	if (check_size(cfg, opt))
		return -1;
	if (!s || parse_size(s, &v) || !v || v >= DEVICE_LEAST)
		return 0;
	cfg_error(cfg, "%s = \"%s\": must be 0, or 64K at least", opt->name, s);
	return -1;
}

/* Octal, with a 0 before it or not: -1: no mode. */
static int parse_mode(const char *s, unsigned int *out)
{
	unsigned int v = 0;

	for (*out = 0; *s; s++) {
		if (*s < '0' || *s > '7' || v > 077)
			return -1;
		v = v * 8 + (unsigned int)(*s - '0');
		*out = v;
	}
	return 0;
}

static int check_mode(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	unsigned int v;

	if (s && *s && !parse_mode(s, &v))
		return 0;
	cfg_error(cfg, "%s = %s: must be an octal mode, 0 to 0777, such as 0660", opt->name,
		  s ? s : "");
	return -1;
}

static int check_path(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	if (s && s[0] == '/' && strlen(s) < PATH_MAX)
		return 0;
	cfg_error(cfg, "%s = \"%s\": must be an absolute path", opt->name, s ? s : "");
	return -1;
}

static int check_path_or_none(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	if (s && (!strcmp(s, "none") || (s[0] == '/' && strlen(s) < PATH_MAX)))
		return 0;
	cfg_error(cfg, "%s = \"%s\": must be an absolute path or none", opt->name, s ? s : "");
	return -1;
}

static int check_path_or_word(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);

	if (s && (!strcmp(s, "auto") || !strcmp(s, "none") || (s[0] == '/' && strlen(s) < PATH_MAX)))
		return 0;
	cfg_error(cfg, "%s = \"%s\": must be an absolute path, auto or none", opt->name, s ? s : "");
	return -1;
}

static int check_group(cfg_t *cfg, cfg_opt_t *opt)
{
	unsigned int last = cfg_opt_size(opt) - 1;
	const char *s = cfg_opt_getnstr(opt, last);
	cpu_set_t set, other, both;

	if (!s || cpulist_parse(s, &set)) {
		cfg_error(cfg, "%s: \"%s\" is not a CPU list such as \"0-3,8\"", opt->name,
			  s ? s : "");
		return -1;
	}
	for (unsigned int i = 0; i < last; i++) {
		if (cpulist_parse(cfg_opt_getnstr(opt, i), &other))
			continue;
		CPU_AND(&both, &set, &other);
		if (CPU_COUNT(&both)) {
			cfg_error(cfg, "%s: \"%s\" and \"%s\" share a CPU", opt->name,
				  cfg_opt_getnstr(opt, i), s);
			return -1;
		}
	}
	return 0;
}

static int check_option(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *s = cfg_opt_getnstr(opt, cfg_opt_size(opt) - 1);
	const char *eq = s ? strchr(s, '=') : NULL;

	if (eq && eq != s)
		return 0;
	cfg_error(cfg, "%s: \"%s\" is not \"key=value\"", opt->name, s ? s : "");
	return -1;
}

static int check_title(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	const char *s = sec ? cfg_title(sec) : NULL;
	size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") : 0;

	if (n && !s[n] && n < 32 && s[0] != '.')
		return 0;
	cfg_error(cfg, "%s \"%s\": a name is 1 to 31 of a-z, 0-9, - and .", opt->name,
		  s ? s : "");
	return -1;
}

/* ------------------------------------------------------------------ */
/* Reading out                                                           */

static int copy_list(cfg_t *sec, const char *name, struct config_list *out)
{
	size_t n = cfg_size(sec, name);

	out->items = calloc(n + 1, sizeof(char *));
	if (!out->items)
		return -ENOMEM;
	for (; out->count < n; out->count++) {
		out->items[out->count] = strdup(cfg_getnstr(sec, name, (unsigned int)out->count));
		if (!out->items[out->count])
			return -ENOMEM;
	}
	return 0;
}

static int copy_string(cfg_t *sec, const char *name, char **out)
{
	const char *s = cfg_getstr(sec, name);

	*out = s ? strdup(s) : NULL;
	return s && !*out ? -ENOMEM : 0;
}

static int copy_plugins(cfg_t *cfg, const char *name, struct config_plugin **out, size_t *count)
{
	size_t n = cfg_size(cfg, name);
	int err = 0;

	*out = calloc(n + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (; !err && *count < n; (*count)++) {
		cfg_t *sec = cfg_getnsec(cfg, name, (unsigned int)*count);
		struct config_plugin *p = &(*out)[*count];

		p->name = strdup(cfg_title(sec));
		err = p->name ? 0 : -ENOMEM;
		if (!err)
			err = copy_string(sec, "file", &p->file);
		if (!err && !strcmp(name, "filter"))
			err = copy_string(sec, "devices", &p->devices);
		if (!err)
			err = copy_list(sec, "options", &p->options);
	}
	return err;
}

static uint64_t get_size(cfg_t *sec, const char *name)
{
	uint64_t v = 0;

	parse_size(cfg_getstr(sec, name), &v);
	return v;
}

static int read_out(struct config *c, cfg_t *cfg)
{
	cfg_t *s = cfg_getsec(cfg, "log");
	int err;

	c->log.level = (enum log_level)log_level_from_name(cfg_getstr(s, "level"));
	c->log.format = (enum log_format)word_index(format_words, cfg_getstr(s, "format"));

	s = cfg_getsec(cfg, "link");
	c->link.kind = (enum config_link)word_index(link_words, cfg_getstr(s, "kind"));
	parse_mode(cfg_getstr(s, "socket_mode"), &c->link.socket_mode);
	c->link.max_clients = (unsigned int)cfg_getint(s, "max_clients");
	err = copy_string(s, "socket", &c->link.socket);

	s = cfg_getsec(cfg, "loop");
	c->loop.poll_us = (unsigned int)cfg_getint(s, "poll_us");
	c->loop.inline_us = (unsigned int)cfg_getint(s, "inline_us");

	c->debug.check_access = cfg_getbool(cfg_getsec(cfg, "debug"), "check_access");

	s = cfg_getsec(cfg, "sched");
	if (!err)
		err = copy_string(s, "policy", &c->sched.policy);
	if (!err)
		err = copy_string(s, "models", &c->sched.models);

	s = cfg_getsec(cfg, "cpu");
	c->cpu.enable = cfg_getbool(s, "enable");
	c->cpu.memory = get_size(s, "memory");
	if (!err)
		err = copy_list(s, "groups", &c->cpu.groups);
	if (!err)
		err = copy_list(cfg_getsec(cfg, "kernels"), "path", &c->kernels.path);
	if (!err && !c->kernels.path.count)
		err = own_kernels(&c->kernels.path);

	s = cfg_getsec(cfg, "worker");
	c->worker.memory = get_size(s, "memory");
	c->worker.timeout_ms = (unsigned int)cfg_getint(s, "timeout_ms");
	c->worker.slice_ms = (unsigned int)cfg_getint(s, "slice_ms");
	c->worker.threads = (unsigned int)cfg_getint(s, "threads");
	c->worker.idle_s = (unsigned int)cfg_getint(s, "idle_s");
	c->worker.max = (unsigned int)cfg_getint(s, "max");
	if (!err)
		err = copy_string(s, "program", &c->worker.program);
	if (!err)
		err = copy_string(s, "cgroup", &c->worker.cgroup);

	s = cfg_getsec(cfg, "limits");
	c->limits.memory = get_size(s, "memory");
	c->limits.tasks = (uint64_t)cfg_getint(s, "tasks");
	c->limits.contexts = (uint64_t)cfg_getint(s, "contexts");
	c->limits.handles = (uint64_t)cfg_getint(s, "handles");
	if (!err)
		err = copy_plugins(cfg, "backend", &c->backends, &c->nr_backends);
	if (!err)
		err = copy_plugins(cfg, "filter", &c->filters, &c->nr_filters);
	return err;
}

static void set_checks(cfg_t *cfg, void *arg)
{
	static const char *const ints[] = {
		"link|max_clients", "loop|poll_us", "loop|inline_us",
		"worker|timeout_ms", "worker|slice_ms", "worker|idle_s", "worker|max",
		"worker|threads",
		"limits|tasks", "limits|contexts", "limits|handles",
	};

	for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		cfg_set_validate_func(cfg, ints[i], check_int);
	cfg_set_validate_func(cfg, "log|level", check_word);
	cfg_set_validate_func(cfg, "log|format", check_word);
	cfg_set_validate_func(cfg, "link|kind", check_word);
	cfg_set_validate_func(cfg, "sched|policy", check_word);
	cfg_set_validate_func(cfg, "sched|models", check_path_or_none);
	cfg_set_validate_func(cfg, "link|socket", check_path);
	cfg_set_validate_func(cfg, "link|socket_mode", check_mode);
	cfg_set_validate_func(cfg, "kernels|path", check_path);
	cfg_set_validate_func(cfg, "worker|program", check_path);
	cfg_set_validate_func(cfg, "worker|cgroup", check_path_or_word);
	cfg_set_validate_func(cfg, "worker|memory", check_size);
	cfg_set_validate_func(cfg, "limits|memory", check_size);
	cfg_set_validate_func(cfg, "cpu|groups", check_group);
	cfg_set_validate_func(cfg, "cpu|memory", check_device_size);
	cfg_set_validate_func(cfg, "backend", check_title);
	cfg_set_validate_func(cfg, "backend|file", check_path);
	cfg_set_validate_func(cfg, "backend|options", check_option);
	cfg_set_validate_func(cfg, "filter", check_title);
	cfg_set_validate_func(cfg, "filter|file", check_path);
	cfg_set_validate_func(cfg, "filter|options", check_option);
}

/* A worker has a thread for each CPU, and what it runs may start some. */
static long default_threads(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return 2 * cpus > 512 ? 2 * cpus : 512;
}

int config_parse(struct config *c, const char *name, const char *text, size_t bytes, char *error,
		 size_t len)
{
	/* One default each, here and nowhere else. */
	cfg_opt_t log_opts[] = {
		CFG_STR("level", "info", CFGF_NONE),
		CFG_STR("format", "auto", CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t link_opts[] = {
		CFG_STR("kind", "auto", CFGF_NONE),
		CFG_STR("socket", NULL, CFGF_NODEFAULT),
		CFG_STR("socket_mode", "0666", CFGF_NONE),
		CFG_INT("max_clients", 4096, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t loop_opts[] = {
		CFG_INT("poll_us", 50, CFGF_NONE),
		CFG_INT("inline_us", 20, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t sched_opts[] = {
		CFG_STR("policy", policy_words[0], CFGF_NONE),
		CFG_STR("models", NULL, CFGF_NODEFAULT),
		CFG_END()
	};
	cfg_opt_t cpu_opts[] = {
		CFG_BOOL("enable", cfg_true, CFGF_NONE),
		CFG_STR_LIST("groups", NULL, CFGF_NONE),
		CFG_STR("memory", "0", CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t kernels_opts[] = {
		CFG_STR_LIST("path", "{}", CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t worker_opts[] = {
		CFG_STR("program", NULL, CFGF_NODEFAULT),
		CFG_STR("memory", "0", CFGF_NONE),
		CFG_INT("timeout_ms", 60000, CFGF_NONE),
		CFG_INT("slice_ms", 50, CFGF_NONE),
		CFG_STR("cgroup", "auto", CFGF_NONE),
		CFG_INT("threads", default_threads(), CFGF_NONE),
		CFG_INT("idle_s", 30, CFGF_NONE),
		CFG_INT("max", 0, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t limits_opts[] = {
		CFG_STR("memory", "0", CFGF_NONE),
		CFG_INT("tasks", 4096, CFGF_NONE),
		CFG_INT("contexts", 64, CFGF_NONE),
		CFG_INT("handles", 65536, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t debug_opts[] = {
		CFG_BOOL("check_access", cfg_false, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t backend_opts[] = {
		CFG_STR("file", NULL, CFGF_NODEFAULT),
		CFG_STR_LIST("options", NULL, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t filter_opts[] = {
		CFG_STR("file", NULL, CFGF_NODEFAULT),
		CFG_STR("devices", "*", CFGF_NONE),
		CFG_STR_LIST("options", NULL, CFGF_NONE),
		CFG_END()
	};
	cfg_opt_t opts[] = {
		CFG_SEC("log", log_opts, CFGF_NONE),
		CFG_SEC("link", link_opts, CFGF_NONE),
		CFG_SEC("loop", loop_opts, CFGF_NONE),
		CFG_SEC("sched", sched_opts, CFGF_NONE),
		CFG_SEC("cpu", cpu_opts, CFGF_NONE),
		CFG_SEC("kernels", kernels_opts, CFGF_NONE),
		CFG_SEC("worker", worker_opts, CFGF_NONE),
		CFG_SEC("limits", limits_opts, CFGF_NONE),
		CFG_SEC("debug", debug_opts, CFGF_NONE),
		CFG_SEC("backend", backend_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
		CFG_SEC("filter", filter_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
		CONF_END()
	};
	cfg_t *cfg;
	int err;

	memset(c, 0, sizeof(*c));
	err = conf_parse(opts, set_checks, NULL, name, text, bytes, &cfg, error, len);
	if (!err)
		err = read_out(c, cfg);
	if (err && len && !error[0])
		snprintf(error, len, "%s: %s", name, strerror(-err));
	conf_free(cfg);
	if (err)
		config_free(c);
	return err;
}

int config_init(struct config *c)
{
	char error[256];

	return config_parse(c, "defaults", "", 0, error, sizeof(error));
}

int config_load(struct config *c, const char *path, char *error, size_t len)
{
	char why[256], *text;
	size_t bytes;
	int fd, err;

	memset(c, 0, sizeof(*c));
	fd = trusted_open_file(AT_FDCWD, path, why, sizeof(why));
	if (fd < 0) {
		snprintf(error, len, "%s: %s", path, why);
		return fd;
	}
	err = trusted_read(fd, CONF_MAX_BYTES, &text, &bytes);
	close(fd);
	if (err) {
		snprintf(error, len, "%s: %s", path,
			 err == -E2BIG ? "longer than 1 MiB" : strerror(-err));
		return err;
	}
	err = config_parse(c, path, text, bytes, error, len);
	free(text);
	return err;
}

static void free_list(struct config_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->items[i]);
	free(l->items);
}

static void free_plugin(struct config_plugin *p)
{
	free(p->name);
	free(p->file);
	free(p->devices);
	free_list(&p->options);
}

static void free_plugins(struct config_plugin *p, size_t n)
{
	for (size_t i = 0; p && i < n; i++)
		free_plugin(&p[i]);
	free(p);
}

static bool in_kinds(const char *kinds, const char *name)
{
	size_t n = strcspn(name, ".");

	for (const char *p = kinds; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && !memcmp(p, name, n))
			return true;
	return false;
}

static int add_backend(struct config *c, const char *name, size_t n)
{
	struct config_plugin *more = realloc(c->backends, (c->nr_backends + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	c->backends = more;
	more += c->nr_backends;
	memset(more, 0, sizeof(*more));
	more->name = strndup(name, n);
	if (!more->name)
		return -ENOMEM;
	c->nr_backends++;
	return 0;
}

static bool has_backend(const struct config *c, const char *name, size_t n)
{
	for (size_t i = 0; i < c->nr_backends; i++)
		if (strcspn(c->backends[i].name, ".") == n &&
		    !memcmp(c->backends[i].name, name, n))
			return true;
	return false;
}

/* Backends that need no section: the names of kinds. */
static bool is_builtin(const char *name, size_t n)
{
	static const char *const names[] = { "opencl", "cuda", "hip", "xrt" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == n && !memcmp(names[i], name, n))
			return true;
	return false;
}

int config_kinds(struct config *c, const char *kinds, char *error, size_t len)
{
	size_t kept = 0;

	c->kinds = true;
	for (size_t i = 0; i < c->nr_backends; i++) {
		if (in_kinds(kinds, c->backends[i].name))
			c->backends[kept++] = c->backends[i];
		else
			free_plugin(&c->backends[i]);
	}
	c->nr_backends = kept;
	c->cpu.enable = c->cpu.enable && in_kinds(kinds, "cpu");
	for (const char *p = kinds;; p++) {
		size_t n = strcspn(p, ",");

		if ((n != 3 || memcmp(p, "cpu", n)) && !has_backend(c, p, n)) {
			if (!is_builtin(p, n)) {
				snprintf(error, len, "kind \"%.*s\": must be cpu, opencl, cuda, hip, xrt or the name of a configured backend",
					 (int)n, p);
				return -EINVAL;
			}
			if (add_backend(c, p, n)) {
				snprintf(error, len, "%s", strerror(ENOMEM));
				return -ENOMEM;
			}
		}
		p += n;
		if (!*p)
			return 0;
	}
}

void config_free(struct config *c)
{
	free(c->link.socket);
	free(c->sched.policy);
	free(c->sched.models);
	free(c->worker.program);
	free(c->worker.cgroup);
	free_list(&c->cpu.groups);
	free_list(&c->kernels.path);
	free_plugins(c->backends, c->nr_backends);
	free_plugins(c->filters, c->nr_filters);
	memset(c, 0, sizeof(*c));
}
