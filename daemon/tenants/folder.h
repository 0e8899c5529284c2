/* SPDX-License-Identifier: MIT */
/*
 * folder.h - notice what becomes of the folder of saved limits
 *
 * Its path may lead to another one tomorrow: it is replaced, or one above it is.  So those
 * above are watched for being moved away, and while there is none, for what appears in them.
 * A link or a mount on the way tells nobody: who asks now and then sees these.
 */
#ifndef ARAXD_TENANTS_FOLDER_H
#define ARAXD_TENANTS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>
#include <sys/stat.h>

struct folder {
	char *path;
	int notify;		/* inotify, or -1: the owner's */
	int watch;		/* of itself, or -1 */
	int *above;		/* of those above it, the first of the path first; -1: not there */
	size_t nr_above;
	bool there;		/* when it was last watched, and which one that was: */
	dev_t dev;
	ino_t ino;
};

/* Watches nothing yet.  0 or -ENOMEM. */
int folder_init(struct folder *f, const char *path, int notify);
/*
 * Watches what the path leads to now.  What changes from then on is told, so it is read
 * afterwards.  What can't be watched is logged.
 */
void folder_watch(struct folder *f);
/* Should it be read again, because of @e, or as its path leads elsewhere than it did? */
bool folder_concerns(const struct folder *f, const struct inotify_event *e);
bool folder_is_another(const struct folder *f);
/* Leaves @notify open. */
void folder_free(struct folder *f);

#endif /* ARAXD_TENANTS_FOLDER_H */
