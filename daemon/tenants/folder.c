// SPDX-License-Identifier: MIT
#include "daemon/tenants/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log.h"

#define FOLDER_EVENTS	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | \
			 IN_MOVE_SELF)
/* No more than is needed: anybody may make files in some of them, as in /tmp. */
#define ABOVE_EVENTS	IN_MOVE_SELF
#define MISSING_EVENTS	(ABOVE_EVENTS | IN_CREATE | IN_MOVED_TO)
/* Of the link itself: it is removed, or another one takes its name. */
#define LINK_EVENTS	(IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB)

/* Where the next name of a path begins that has one above it, or NULL. */
static char *next_name(char *at)
{
	at = strchr(at, '/');
	while (at && *at == '/')
		at++;
	return at;
}

int folder_init(struct folder *f, const char *path, int notify)
{
	size_t n = strlen(path), i;
	char *at;

	memset(f, 0, sizeof(*f));
	f->notify = notify;
	f->watch = -1;
	while (n > 1 && path[n - 1] == '/')
		n--;
	f->path = strndup(path, n);
	if (!f->path)
		return -ENOMEM;
	/* Of a path that is relative the first one above is where it begins. */
	f->nr_above = *f->path != '/';
	for (at = f->path; (at = next_name(at)) && *at;)
		f->nr_above++;
	f->above = calloc(2 * f->nr_above + 1, sizeof(f->above[0]));
	if (!f->above) {
		folder_free(f);
		return -ENOMEM;
	}
	for (i = 0; i < 2 * f->nr_above; i++)
		f->above[i] = -1;
	return 0;
}

void folder_free(struct folder *f)
{
	free(f->path);
	free(f->above);
	f->path = NULL;
	f->above = NULL;
}

static bool is_above(const struct folder *f, int wd)
{
	size_t i;

	for (i = 0; i < 2 * f->nr_above; i++)
		if (f->above[i] == wd)
			return true;
	return false;
}

/* Of the first @n of @path, if that is one; else -1. */
static int watch_link(const struct folder *f, char *path, size_t n)
{
	int wd = -1;
	char c, to;

	while (n > 1 && path[n - 1] == '/')
		n--;
	c = path[n];
	path[n] = '\0';
	/* Should it be none any more then, what is in its place is watched for no less than before. */
	if (readlink(path, &to, 1) >= 0)
		wd = inotify_add_watch(f->notify, path,
				       LINK_EVENTS | IN_DONT_FOLLOW | IN_MASK_ADD);
	path[n] = c;
	return wd;
}

/* Each before the next one is looked for: what comes afterwards is told. */
static void watch_them(const struct folder *f, char *path, size_t from, int *wd)
{
	char *at = path, c;
	uint32_t events;
	size_t i, n;

	for (i = 0; i < 2 * f->nr_above; i++)
		wd[i] = -1;
	for (i = 0; i < f->nr_above; i++) {
		events = i < from ? ABOVE_EVENTS : MISSING_EVENTS;
		if (i || *path == '/')
			at = next_name(at);
		n = (size_t)(at - path);
		wd[f->nr_above + i] = watch_link(f, path, n);
		c = *at;
		*at = '\0';
		wd[i] = inotify_add_watch(f->notify, n ? path : ".", events | IN_ONLYDIR);
		*at = c;
		/* One that we can't read may lead on. */
		if (wd[i] < 0 && (errno == ENOENT || errno == ENOTDIR))
			return;
	}
}

/* @from: the first of those in which something may appear on the way. */
static int watch_above(struct folder *f, size_t from)
{
	int *before = f->above;
	/* Others may be reading it. */
	char *path = strdup(f->path);
	size_t i;

	f->above = calloc(2 * f->nr_above + 1, sizeof(f->above[0]));
	if (!f->above || !path) {
		free(f->above);
		free(path);
		f->above = before;
		return -ENOMEM;
	}
	watch_them(f, path, from, f->above);
	free(path);
	/* Not before all are there: one may have moved to the place of another. */
	for (i = 0; i < 2 * f->nr_above; i++)
		if (before[i] >= 0 && !is_above(f, before[i]))
			inotify_rm_watch(f->notify, before[i]);
	free(before);
	return 0;
}

static size_t deepest(const struct folder *f)
{
	size_t i = f->nr_above;

	while (i > 1 && f->above[i - 1] < 0)
		i--;
	return i ? i - 1 : 0;
}

/* Its watch goes with it when it is moved away. */
static int watch_itself(struct folder *f)
{
	int wd = inotify_add_watch(f->notify, f->path, FOLDER_EVENTS | IN_ONLYDIR);
	int err = wd < 0 ? -errno : 0;

	if (f->watch >= 0 && wd != f->watch)
		inotify_rm_watch(f->notify, f->watch);
	f->watch = wd;
	return err;
}

bool folder_watch(struct folder *f)
{
	struct folder_place now;
	bool another;
	int err;

	/* Before it is watched: if it is replaced meanwhile, it is another one then. */
	folder_find(f, &now);
	another = folder_is_another(f, &now);
	f->place = now;
	if (f->notify < 0)
		return another;
	err = watch_above(f, 0);
	if (!err)
		err = watch_itself(f);
	if (!err)
		err = watch_above(f, f->nr_above);
	else if (err == -ENOENT)
		err = watch_above(f, deepest(f));
	if (err)
		log_warn("can't watch the folder of saved limits: send SIGHUP after changes",
			 log_str("folder", f->path), log_errno(err));
	return another;
}

bool folder_concerns(const struct folder *f, const struct inotify_event *e)
{
	/* Hidden: half-written files. */
	if (e->wd == f->watch)
		return !e->len || e->name[0] != '.';
	return e->mask & IN_Q_OVERFLOW || is_above(f, e->wd);
}

void folder_find(const struct folder *f, struct folder_place *now)
{
	struct stat st;

	*now = (struct folder_place){ .there = !stat(f->path, &st) };
	if (now->there) {
		now->dev = st.st_dev;
		now->ino = st.st_ino;
	} else {
		now->none = errno == ENOENT;
	}
}

bool folder_is_another(const struct folder *f, const struct folder_place *now)
{
	if (!now->there)
		return f->place.there && now->none;
	return !f->place.there || now->dev != f->place.dev || now->ino != f->place.ino;
}
