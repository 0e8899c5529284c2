// SPDX-License-Identifier: MIT
#include "libarax/admin/saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libarax/admin/conf.h"
#include "libarax/admin/trusted.h"

struct reading {
	struct saved *saved;
	const char *file;
	saved_report *report;
	void *arg;
	int err;	/* of what was reported */
};

/* For libconfuse's validators, see conf_checks. */
static struct reading *parsing;

/* ------------------------------------------------------------------ */
/* The list                                                            */

static void free_limit(struct saved_limit *l)
{
	free(l->cgroup);
	free(l->key);
	free(l->value);
	free(l->file);
}

static uint32_t hash_of(const char *cgroup, const char *key)
{
	uint32_t h = 2166136261u;	/* FNV-1a */

	for (; *cgroup; cgroup++)
		h = (h ^ (uint8_t)*cgroup) * 16777619u;
	for (; *key; key++)
		h = (h ^ (uint8_t)*key) * 16777619u;
	return h;
}

static bool same(const struct saved_limit *l, uint32_t hash, const char *cgroup, const char *key)
{
	return l->hash == hash && !strcmp(l->cgroup, cgroup) && !strcmp(l->key, key);
}

static struct saved_limit *find(const struct saved *s, uint32_t hash, const char *cgroup,
				const char *key)
{
	size_t i;

	for (i = s->count; i--;)
		if (same(&s->at[i], hash, cgroup, key))
			return &s->at[i];
	return NULL;
}

int saved_add(struct saved *s, const char *file, int line, const char *cgroup, const char *key,
	      const char *value)
{
	struct saved_limit l = { .line = line }, *at;
	char *word;

	if (s->count == SAVED_MAX)
		return -E2BIG;
	if (asprintf(&word, "%s=%s", key, value) < 0)
		return -ENOMEM;
	if (tenant_parse(word, false, &l.setting)) {
		free(word);
		return -EINVAL;
	}
	free(word);
	at = realloc(s->at, (s->count + 1) * sizeof(*at));
	if (at)
		s->at = at;
	l.cgroup = strdup(cgroup);
	l.key = strdup(key);
	l.value = strdup(value);
	l.file = strdup(file);
	if (!at || !l.cgroup || !l.key || !l.value || !l.file) {
		free_limit(&l);
		return -ENOMEM;
	}
	l.hash = hash_of(cgroup, key);
	at = find(s, l.hash, cgroup, key);
	if (at)
		at->overruled = true;
	s->at[s->count++] = l;
	return 0;
}

void saved_remove(struct saved *s, size_t i)
{
	const struct saved_limit *l = &s->at[i];
	struct saved before = { .count = i, .at = s->at };
	struct saved_limit *held = find(&before, l->hash, l->cgroup, l->key);

	/* Who was overruled by it is by whoever it was overruled by. */
	if (held)
		held->overruled = l->overruled;
	free_limit(&s->at[i]);
	s->count--;
	memmove(&s->at[i], &s->at[i + 1], (s->count - i) * sizeof(s->at[0]));
}

bool saved_holds(const struct saved *s, size_t i)
{
	return !s->at[i].overruled;
}

const struct saved_limit *saved_find(const struct saved *s, const char *cgroup, const char *key)
{
	return find(s, hash_of(cgroup, key), cgroup, key);
}

void saved_free(struct saved *s)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		free_limit(&s->at[i]);
	free(s->at);
	memset(s, 0, sizeof(*s));
}

/* ------------------------------------------------------------------ */
/* One file                                                            */

static void report(struct reading *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void report(struct reading *r, const char *format, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			*p = '?';
	r->err = -EINVAL;
	if (r->report)
		r->report(r->arg, text);
}

const char *saved_check_cgroup(const char *cgroup)
{
	const char *at = cgroup, *end;

	if (*cgroup != '/')
		return "must begin with /, as seen from the cgroup2 mount point";
	if (strlen(cgroup) >= 4096 - 256)
		return "longer than a path can be";
	if (!strcmp(cgroup, "/"))
		return NULL;
	for (; *at; at = end) {
		at++;
		end = strchrnul(at, '/');
		if (end == at)
			return "must have no // and no / at the end";
		if (*at == '.' && (end == at + 1 || (at[1] == '.' && end == at + 2)))
			return "must have no . and no .. in it";
		if (end - at > 255)
			return "has a name of more than 255 bytes";
	}
	return NULL;
}

static int check_setting(cfg_t *cfg, cfg_opt_t *opt)
{
	const char *value = cfg_opt_getnstr(opt, 0), *cgroup = cfg_title(cfg), *wrong;
	struct tenant_setting setting;
	char *word;
	int err;

	if (!value || saved_check_cgroup(cgroup))
		return 0;	/* the section's own check reports it */
	if (asprintf(&word, "%s=%s", opt->name, value) < 0)
		goto no_memory;
	wrong = tenant_parse(word, false, &setting);
	free(word);
	if (wrong) {
		report(parsing, "%s:%d: %s = \"%s\" of tenant \"%s\": %s", parsing->file,
		       cfg->line, opt->name, value, cgroup, wrong);
		return 0;
	}
	err = saved_add(parsing->saved, parsing->file, cfg->line, cgroup, opt->name, value);
	if (!err)
		return 0;
	if (err == -ENOMEM)
		goto no_memory;
	report(parsing, "%s:%d: more than %d limits in all files", parsing->file, cfg->line,
	       SAVED_MAX);
	return -1;
no_memory:
	parsing->err = -ENOMEM;
	return -1;
}

static int check_tenant(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *sec = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	const char *wrong = saved_check_cgroup(cfg_title(sec));

	if (wrong)
		report(parsing, "%s:%d: tenant \"%s\": the path %s", parsing->file, sec->line,
		       cfg_title(sec), wrong);
	return 0;
}

static void set_checks(cfg_t *cfg, void *arg)
{
	parsing = arg;
	cfg_set_validate_func(cfg, "tenant", check_tenant);
	cfg_set_validate_func(cfg, "tenant|memory.max", check_setting);
	cfg_set_validate_func(cfg, "tenant|tasks.max", check_setting);
	cfg_set_validate_func(cfg, "tenant|contexts.max", check_setting);
	cfg_set_validate_func(cfg, "tenant|device_memory.max", check_setting);
	cfg_set_validate_func(cfg, "tenant|device_time.weight", check_setting);
	cfg_set_validate_func(cfg, "tenant|device_time.max", check_setting);
}

int saved_parse(struct saved *s, const char *file, const char *text, size_t bytes,
		saved_report *report_to, void *arg)
{
	cfg_opt_t tenant_opts[] = {
		CFG_STR("memory.max", NULL, CFGF_NODEFAULT),
		CFG_STR("tasks.max", NULL, CFGF_NODEFAULT),
		CFG_STR("contexts.max", NULL, CFGF_NODEFAULT),
		CFG_STR("device_memory.max", NULL, CFGF_NODEFAULT),
		CFG_STR("device_time.weight", NULL, CFGF_NODEFAULT),
		CFG_STR("device_time.max", NULL, CFGF_NODEFAULT),
		CFG_END()
	};
	cfg_opt_t opts[] = {
		CFG_SEC("tenant", tenant_opts, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
		CONF_END()
	};
	struct reading r = { .saved = s, .file = file, .report = report_to, .arg = arg };
	char error[512] = "";
	cfg_t *cfg;
	int err;

	err = conf_parse(opts, set_checks, &r, file, text, bytes, &cfg, error, sizeof(error));
	/* What a validator stopped is told already. */
	if (err && !r.err)
		report(&r, "%s%s", error, err == -EINVAL ? "; the rest of the file is left out" : "");
	conf_free(cfg);
	return err == -ENOMEM ? err : r.err;
}

/* ------------------------------------------------------------------ */
/* The folder                                                          */

static int is_conf(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return e->d_name[0] != '.' && n > 5 && !strcmp(e->d_name + n - 5, ".conf");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);	/* in any locale */
}

static int read_file(struct saved *s, int dir, const char *folder, const char *name,
		     struct reading *r)
{
	char why[256], path[4096 + 256], *text;
	size_t bytes;
	int fd, err;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = trusted_open_file(dir, name, why, sizeof(why));
	if (fd < 0) {
		report(r, "%s: %s", path, why);
		return -EINVAL;
	}
	err = trusted_read(fd, CONF_MAX_BYTES, &text, &bytes);
	close(fd);
	if (err) {
		report(r, "%s: %s", path, err == -E2BIG ? "longer than 1 MiB" : strerror(-err));
		return err == -ENOMEM ? err : -EINVAL;
	}
	err = saved_parse(s, path, text, bytes, r->report, r->arg);
	free(text);
	return err;
}

int saved_read(struct saved *s, const char *folder, saved_report *report_to, void *arg)
{
	struct reading r = { .report = report_to, .arg = arg };
	int dir, i, n, err = 0, one;
	struct dirent **names;
	char why[256];

	dir = trusted_open_folder(folder, why, sizeof(why));
	if (dir == -ENOENT)
		return dir;
	if (dir < 0) {
		report(&r, "%s: %s", folder, why);
		return -EINVAL;
	}
	n = scandirat(dir, ".", &names, is_conf, by_name);
	if (n < 0) {
		err = errno == ENOMEM ? -ENOMEM : -EINVAL;
		report(&r, "%s: %m", folder);
		close(dir);
		return err;
	}
	for (i = 0; i < n; i++) {
		one = err == -ENOMEM ? 0 :
		      read_file(s, dir, folder, names[i]->d_name, &r);
		if (one)
			err = one;
		free(names[i]);
	}
	free(names);
	close(dir);
	return err;
}

/* ------------------------------------------------------------------ */
/* Writing                                                             */

/*
 * In single quotes, where libconfuse takes all but these two as they are: names of
 * cgroups have backslashes ("a\x2db"), and double quotes would know "${HOME}".
 */
static void put_quoted(FILE *f, const char *s)
{
	putc('\'', f);
	for (; *s; s++) {
		if (*s == '\\' || *s == '\'')
			putc('\\', f);
		putc(*s, f);
	}
	putc('\'', f);
}

/*
 * The last one of @file about that key.  Another file may say otherwise, and may go again: then
 * what stands here holds.
 */
static bool is_in(const struct saved *s, size_t i, const char *file)
{
	const struct saved_limit *l = &s->at[i];
	size_t later;

	if (strcmp(l->file, file))
		return false;
	if (!l->overruled)
		return true;
	for (later = i + 1; later < s->count; later++)
		if (same(&s->at[later], l->hash, l->cgroup, l->key) &&
		    !strcmp(s->at[later].file, file))
			return false;
	return true;
}

static void format_tenant(FILE *f, const struct saved *s, size_t first, const char *file)
{
	const char *cgroup = s->at[first].cgroup;
	size_t i;

	fputs("\ntenant ", f);
	put_quoted(f, cgroup);
	fputs(" {\n", f);
	for (i = first; i < s->count; i++) {
		if (strcmp(s->at[i].cgroup, cgroup) || !is_in(s, i, file))
			continue;
		fprintf(f, "\t%s = ", s->at[i].key);
		put_quoted(f, s->at[i].value);
		putc('\n', f);
	}
	fputs("}\n", f);
}

char *saved_format(const struct saved *s, const char *file)
{
	char *text = NULL;
	size_t size, i, j;
	bool bad;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs("# Written by `arax tenant set --save`; see arax-tenants(5).  Comments and order\n"
	      "# are not kept: what you write yourself belongs into another file.\n", f);
	for (i = 0; i < s->count; i++) {
		if (!is_in(s, i, file))
			continue;
		for (j = 0; j < i; j++)
			if (!strcmp(s->at[j].cgroup, s->at[i].cgroup) && is_in(s, j, file))
				break;
		if (j == i)
			format_tenant(f, s, i, file);
	}
	bad = ferror(f);
	if (fclose(f) || bad) {
		free(text);
		return NULL;
	}
	return text;
}

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);
	ssize_t n;

	for (; left; left -= (size_t)n, text += n) {
		n = write(fd, text, left);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			return -errno;
	}
	return fsync(fd) ? -errno : 0;
}

int saved_replace(int folder, const char *name, const char *text)
{
	char temp[300];
	int fd, err;

	/* Hidden, so that what a crash leaves is not read; the next one takes it. */
	snprintf(temp, sizeof(temp), ".%s.new", name);
	fd = openat(folder, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = fchmod(fd, 0644) ? -errno : 0;
	if (!err)
		err = write_all(fd, text);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(folder, temp, folder, name))
		err = -errno;
	if (err) {
		unlinkat(folder, temp, 0);
		return err;
	}
	/* The name, too, must be on the disk. */
	return fsync(folder) ? -errno : 0;
}
