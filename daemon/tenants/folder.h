/* SPDX-License-Identifier: MIT */
/*
 * folder.h - notice what becomes of the folder of saved limits
 *
 * Its path may lead to another one tomorrow: it is replaced, or one above it is.  So those
 * above are watched for being moved away, and while there is none, for what appears in them;
 * and so are the links among them.  A mount on the way tells no watch, nor does what a link leads
 * through: who asks then, and now and then, sees these.
 */
#ifndef ARAXD_TENANTS_FOLDER_H
#define ARAXD_TENANTS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* What the path led to when that was asked for. */
struct folder_place {
	bool there, none;	/* neither: it can't be said */
	dev_t dev;
	ino_t ino;
};

struct folder {
	char *path;		/* never changes */
	int notify;		/* inotify, or -1: the owner's */
	int watch;		/* of itself, or -1 */
	/* Of those above it, the first of the path first; then of these the links themselves; -1: none. */
	int *above;
	size_t nr_above;
	struct folder_place place;	/* when it was last watched */
};

/* Watches nothing yet.  0 or -ENOMEM. */
int folder_init(struct folder *f, const char *path, int notify);
/*
 * Watches what the path leads to now.  What changes from then on is told, so it is read
 * afterwards.  What can't be watched is logged.  Whether it is another one than before.
 */
bool folder_watch(struct folder *f);
/*
 * Where the path leads now.  Any thread, also while others use @f; it takes as long as the file
 * system does that it is on.
 */
void folder_find(const struct folder *f, struct folder_place *now);
/* Should it be read again, because of @e, or as it is @now elsewhere than when it was watched? */
bool folder_concerns(const struct folder *f, const struct inotify_event *e);
bool folder_is_another(const struct folder *f, const struct folder_place *now);
/* Leaves @notify open. */
void folder_free(struct folder *f);

#endif /* ARAXD_TENANTS_FOLDER_H */
