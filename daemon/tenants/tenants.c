// SPDX-License-Identifier: MIT
#include "daemon/tenants/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "libarax/admin/saved.h"

#define PATH_BYTES	8192	/* mount point and cgroup */
#define FOLDER_EVENTS	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB)
#define PARENT_EVENTS	(IN_CREATE | IN_MOVED_TO)

struct tenants {
	pthread_mutex_t lock;	/* all below */
	char *folder;
	char *mount;
	tenants_set *set;
	void *arg;
	int notify;		/* inotify, or -1 */
	int folder_watch;	/* -1: the folder is not there */
	int parent_watch;	/* then of the nearest one above it that is, or -1 */
	bool warned;
	struct saved saved;
};

/* ------------------------------------------------------------------ */
/* Watching                                                            */

static void watch_failed(struct tenants *t, const char *path)
{
	if (t->warned)
		return;
	t->warned = true;
	log_warn("can't watch for cgroups: send SIGHUP when one with saved limits appears",
		 log_str("path", path), log_errno(-errno));
}

/*
 * Watches every folder above the cgroup, from the mount point down to the first that
 * is not there: from then on a new one below is told, so nothing is missed between
 * this and the caller's look at the cgroup itself.  The number of the last watch; -1: none.
 */
static int watch_above(struct tenants *t, const char *cgroup)
{
	size_t n = strlen(t->mount);
	char path[PATH_BYTES];
	const char *at = cgroup;
	int last = -1, watch;

	if (t->notify < 0 || n + strlen(cgroup) >= sizeof(path))
		return -1;
	strcpy(path, t->mount);
	while (at && at[1]) {
		memcpy(path + n, cgroup, (size_t)(at - cgroup));
		path[n + (size_t)(at - cgroup)] = '\0';
		watch = inotify_add_watch(t->notify, path, IN_CREATE | IN_ONLYDIR);
		if (watch < 0) {
			if (errno != ENOENT)
				watch_failed(t, path);
			return last;
		}
		last = watch;
		at = strchr(at + 1, '/');
	}
	return last;
}

static bool has_component(const char *cgroup, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = cgroup; (at = strchr(at, '/')); at++)
		if (!strncmp(at + 1, name, n) && (!at[1 + n] || at[1 + n] == '/'))
			return true;
	return false;
}

/*
 * What appears is of interest to those for whom it is the next one below the last folder
 * there is, and a folder's end to those whose last one it was.  All others are left alone:
 * anybody may make cgroups that are nobody's here, as fast as he can.
 */
static void mark_due(struct tenants *t, const struct inotify_event *e)
{
	struct saved_limit *l;
	size_t i;

	for (i = 0; i < t->saved.count; i++) {
		l = &t->saved.at[i];
		if (e->mask & IN_Q_OVERFLOW ||
		    (l->watch == e->wd && (!e->len || has_component(l->cgroup, e->name))))
			l->due = true;
	}
}

/* Watches the nearest folder above that of the files which is there. */
static int watch_parent(struct tenants *t)
{
	char path[PATH_BYTES];
	char *at = path;
	int wd;

	if ((size_t)snprintf(path, sizeof(path), "%s", t->folder) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	do {
		at = dirname(at);
		wd = inotify_add_watch(t->notify, at, PARENT_EVENTS | IN_ONLYDIR);
	} while (wd < 0 && errno == ENOENT && strcmp(at, ".") && strcmp(at, "/"));
	return wd;
}

static void leave_parent(struct tenants *t, int wd)
{
	if (wd >= 0)
		inotify_rm_watch(t->notify, wd);
}

static void watch_folder(struct tenants *t)
{
	int before;

	if (t->notify < 0)
		return;
	for (;;) {
		t->folder_watch = inotify_add_watch(t->notify, t->folder,
						    FOLDER_EVENTS | IN_ONLYDIR);
		if (t->folder_watch >= 0 || errno != ENOENT)
			break;
		before = t->parent_watch;
		t->parent_watch = watch_parent(t);
		if (t->parent_watch < 0)
			break;
		/* It was watched before this look: what has come since will be told. */
		if (t->parent_watch == before)
			return;
		leave_parent(t, before);
	}
	if (t->folder_watch < 0) {
		log_warn("can't watch the folder of saved limits: send SIGHUP after changes",
			 log_str("folder", t->folder), log_errno(-errno));
		return;
	}
	leave_parent(t, t->parent_watch);
	t->parent_watch = -1;
}

/* Was there anything?  *folder: about the files. */
static bool take_events(struct tenants *t, bool *folder)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *e;
	bool any = false;
	ssize_t n;
	char *at;

	*folder = false;
	while (t->notify >= 0 && (n = read(t->notify, buf, sizeof(buf))) > 0) {
		any = true;
		for (at = buf; at < buf + n; at += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)at;
			/* Hidden: half-written files. */
			if (e->wd == t->folder_watch && !(e->len && e->name[0] == '.'))
				*folder = true;
			if (e->wd == t->parent_watch || e->mask & IN_Q_OVERFLOW)
				*folder = true;
			mark_due(t, e);
		}
	}
	return any;
}

/* ------------------------------------------------------------------ */
/* Setting                                                             */

/* The cgroup's descriptor and id; -1: it is not there. */
static int open_cgroup(const struct tenants *t, const char *cgroup, uint64_t *id)
{
	char path[PATH_BYTES];
	struct stat st;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", t->mount, cgroup) >= sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st)) {
		close(fd);
		return -1;
	}
	*id = st.st_ino;
	return fd;
}

static int set(struct tenants *t, struct saved_limit *l, const struct tenant_setting *to, int fd,
	       uint64_t id)
{
	struct arax_limit a = {
		.size = sizeof(a), .cgroup_fd = fd, .what = to->what, .value = to->value,
		.period_ns = to->period_ns,
	};
	int err = t->set(t->arg, &a);

	/* Tried again when something appears on the way to it, and told once. */
	if (!err || l->told == id)
		return err;
	/* The cgroup has just gone. */
	if (err == -ENOENT)
		return err;
	l->told = id;
	log_err("saved limit can't be set", log_str("file", l->file), log_i64("line", l->line),
		log_str("tenant", l->cgroup), log_str("key", l->key), log_str("value", l->value),
		log_errno(err));
	return err;
}

static void apply_one(struct tenants *t, struct saved_limit *l)
{
	uint64_t id;
	int fd;

	l->due = false;
	l->watch = watch_above(t, l->cgroup);
	fd = open_cgroup(t, l->cgroup, &id);
	if (fd < 0) {
		l->id = 0;
		return;
	}
	if (id != l->id && !set(t, l, &l->setting, fd, id)) {
		l->id = id;
		log_info("saved limit set", log_str("tenant", l->cgroup), log_str("key", l->key),
			 log_str("value", l->value));
	}
	close(fd);
}

/* Those whose cgroup may not have got them yet. */
static void apply(struct tenants *t)
{
	size_t i;

	for (i = 0; i < t->saved.count; i++)
		if (t->saved.at[i].due && saved_holds(&t->saved, i))
			apply_one(t, &t->saved.at[i]);
}

/* It stands in no file any more: as if it had never been set. */
static void take_back(struct tenants *t, struct saved_limit *l)
{
	struct tenant_setting none;
	uint64_t id;
	int fd;

	fd = open_cgroup(t, l->cgroup, &id);
	if (fd < 0)
		return;
	if (id == l->id && !tenant_parse(l->key, true, &none) && !set(t, l, &none, fd, id))
		log_info("saved limit taken back", log_str("tenant", l->cgroup),
			 log_str("key", l->key));
	close(fd);
}

static void on_error(void *arg, const char *error)
{
	log_err("saved limits have an error", log_str("error", error));
}

/*
 * What is in both lists alike stays as it is: `arax tenant set` without --save may
 * have changed it since.
 */
static void replace(struct tenants *t, struct saved *now)
{
	const struct saved_limit *held;
	struct saved old = t->saved;
	size_t i;

	for (i = 0; i < now->count; i++) {
		held = saved_find(&old, now->at[i].cgroup, now->at[i].key);
		if (held && saved_holds(now, i) && held->setting.value == now->at[i].setting.value &&
		    held->setting.period_ns == now->at[i].setting.period_ns) {
			now->at[i].id = held->id;
			now->at[i].told = held->told;
		}
	}
	t->saved = *now;
	for (i = 0; i < old.count; i++)
		if (old.at[i].id && saved_holds(&old, i) &&
		    !saved_find(now, old.at[i].cgroup, old.at[i].key))
			take_back(t, &old.at[i]);
	saved_free(&old);
}

/* False: a file has an error, and nothing has changed. */
static bool read_again(struct tenants *t)
{
	struct saved now = { 0 };
	int err;

	watch_folder(t);
	err = saved_read(&now, t->folder, on_error, NULL);
	if (err && err != -ENOENT) {
		log_err("saved limits stay as they were until the files are right",
			log_str("folder", t->folder));
		saved_free(&now);
		return false;
	}
	replace(t, &now);
	return true;
}

/* ------------------------------------------------------------------ */

void tenants_event(struct tenants *t)
{
	bool folder;

	pthread_mutex_lock(&t->lock);
	if (take_events(t, &folder)) {
		if (folder)
			read_again(t);
		apply(t);
	}
	pthread_mutex_unlock(&t->lock);
}

void tenants_reload(struct tenants *t)
{
	size_t i;

	bool read;

	pthread_mutex_lock(&t->lock);
	read = read_again(t);
	for (i = 0; i < t->saved.count; i++) {
		/* Also where nothing is watched, and a cgroup has come since. */
		t->saved.at[i].due = true;
		if (!read)
			continue;
		t->saved.at[i].id = 0;
		t->saved.at[i].told = 0;
	}
	apply(t);
	pthread_mutex_unlock(&t->lock);
}

int tenants_fd(const struct tenants *t)
{
	return t->notify;
}

unsigned int tenants_in_force(struct tenants *t)
{
	unsigned int n = 0;
	size_t i;

	pthread_mutex_lock(&t->lock);
	for (i = 0; i < t->saved.count; i++)
		n += t->saved.at[i].id != 0;
	pthread_mutex_unlock(&t->lock);
	return n;
}

struct tenants *tenants_create(const char *folder, const char *mount, tenants_set *set, void *arg)
{
	struct tenants *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->set = set;
	t->arg = arg;
	t->folder = strdup(folder);
	t->mount = strdup(mount);
	t->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	t->parent_watch = -1;
	if (!t->folder || !t->mount) {
		tenants_destroy(t);
		return NULL;
	}
	if (t->notify < 0)
		watch_failed(t, mount);
	/* One bad line must not leave all tenants without limits: the rest holds. */
	watch_folder(t);
	err = saved_read(&t->saved, t->folder, on_error, NULL);
	if (err && err != -ENOENT)
		log_err("saved limits were read in part", log_str("folder", t->folder));
	apply(t);
	return t;
}

void tenants_destroy(struct tenants *t)
{
	if (t->notify >= 0)
		close(t->notify);
	saved_free(&t->saved);
	free(t->folder);
	free(t->mount);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
