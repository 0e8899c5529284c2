// SPDX-License-Identifier: MIT
#include "tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "libarax/admin/cgroup.h"

/*
 * Whoever can open a file can lock it for as long as he likes, and all may read the folder.
 * Hidden, as what is none of its files.
 */
#define LOCK	".lock"

static void on_error(void *arg, const char *error)
{
	fprintf(stderr, "arax: %s\n", error);
}

static void init(struct tenant_files *f, const char *folder)
{
	memset(f, 0, sizeof(*f));
	f->at = -1;
	f->lock = -1;
	f->folder = folder;
	snprintf(f->own, sizeof(f->own), "%s/%s", folder, SAVED_OWN);
}

void files_close(struct tenant_files *f)
{
	saved_free(&f->saved);
	if (f->lock >= 0)
		close(f->lock);
	if (f->at >= 0)
		close(f->at);
}

/* ------------------------------------------------------------------ */
/* show                                                                */

void files_read(struct tenant_files *f, const char *folder)
{
	char mount[PATH_MAX / 4], path[PATH_MAX * 2];
	struct stat st;
	size_t i;

	init(f, folder);
	saved_read(&f->saved, folder, on_error, NULL);
	if (!cgroup_mount(mount, sizeof(mount)))
		return;
	for (i = 0; i < f->saved.count; i++) {
		snprintf(path, sizeof(path), "%s%s", mount, f->saved.at[i].cgroup);
		if (!stat(path, &st))
			f->saved.at[i].id = st.st_ino;
	}
}

/* Those of the same cgroup as number @first; no id: by name. */
static json_t *list_limits(const struct saved *s, size_t first)
{
	json_t *list = json_array();
	char word[256];
	size_t i;

	for (i = first; i < s->count; i++) {
		const struct saved_limit *l = &s->at[i];

		if (strcmp(l->cgroup, s->at[first].cgroup) || !saved_holds(s, i))
			continue;
		snprintf(word, sizeof(word), "%s=%s", l->key, l->value);
		json_array_append_new(list, out_string(word, sizeof(word)));
	}
	return list;
}

json_t *files_of_tenant(struct tenant_files *f, uint64_t id)
{
	size_t i;

	for (i = 0; i < f->saved.count; i++)
		if (f->saved.at[i].id == id)
			return list_limits(&f->saved, i);
	return json_null();
}

json_t *files_of_path(struct tenant_files *f, const char *cgroup)
{
	size_t i;

	for (i = 0; i < f->saved.count; i++)
		if (!strcmp(f->saved.at[i].cgroup, cgroup))
			return list_limits(&f->saved, i);
	return json_null();
}

json_t *no_tenant(const char *cgroup, json_t *saved)
{
	return json_pack("{sn sn so sb sn so}", "id", "parent", "path",
			 out_string(cgroup, SIZE_MAX), "removed", 0, "usage", "saved", saved);
}

static bool is_listed(const struct saved *s, size_t i, json_t *rows)
{
	json_t *row;
	size_t k;

	for (k = 0; k < i; k++)
		if (!strcmp(s->at[k].cgroup, s->at[i].cgroup))
			return true;
	json_array_foreach(rows, k, row) {
		if (s->at[i].id && (uint64_t)json_integer_value(json_object_get(row, "id")) ==
		    s->at[i].id)
			return true;
	}
	return false;
}

void files_add_others(struct tenant_files *f, json_t *rows)
{
	const struct saved *s = &f->saved;
	size_t i;

	for (i = 0; i < s->count; i++) {
		if (is_listed(s, i, rows))
			continue;
		json_array_append_new(rows, no_tenant(s->at[i].cgroup, list_limits(s, i)));
	}
}

/* ------------------------------------------------------------------ */
/* set, unset                                                          */

static bool fail(const char *what)
{
	int err = errno;

	fprintf(stderr, "arax: %s: %s%s\n", what, strerror(err),
		err == EACCES || err == EPERM ? ": only root can save limits" :
		err == EROFS ? ": limits can't be saved there" : "");
	return false;
}

static bool lock_folder(struct tenant_files *f)
{
	/* Everybody may read what holds for him. */
	mode_t mask = umask(022);
	const char *missing = NULL;

	if (!strcmp(f->folder, SAVED_FOLDER) && mkdir(SAVED_PARENT, 0755) && errno != EEXIST)
		missing = SAVED_PARENT;
	else if (mkdir(f->folder, 0755) && errno != EEXIST)
		missing = f->folder;
	umask(mask);
	if (missing)
		return fail(missing);
	f->at = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Rather now than when all is done. */
	if (f->at < 0 || faccessat(f->at, ".", W_OK, AT_EACCESS))
		return fail(f->folder);
	f->lock = openat(f->at, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (f->lock < 0 || flock(f->lock, LOCK_EX))
		return fail(f->folder);
	return true;
}

#define KEY_LEN	64u

static void key_of(char key[KEY_LEN], const char *word)
{
	snprintf(key, KEY_LEN, "%.*s", (int)strcspn(word, "="), word);
}

static bool is_in_own(const struct tenant_files *f, const char *cgroup, const char *key)
{
	size_t i;

	for (i = 0; i < f->saved.count; i++) {
		const struct saved_limit *l = &f->saved.at[i];

		if (!strcmp(l->cgroup, cgroup) && !strcmp(l->key, key) && !strcmp(l->file, f->own))
			return true;
	}
	return false;
}

/*
 * What would not hold, as a later file overrules it, is not to be set; what holds and stands in
 * other files alone can't be unset here.
 */
static bool is_ours(const struct tenant_files *f, const char *cgroup, const char *word, bool unset)
{
	const struct saved_limit *l;
	char key[KEY_LEN];

	key_of(key, word);
	l = saved_find(&f->saved, cgroup, key);
	if (!l || (unset ? is_in_own(f, cgroup, key) : strcmp(l->file, f->own) <= 0))
		return true;
	fprintf(stderr, "arax: %s of tenant %s stands in %s:%d: change it there\n", key, cgroup,
		l->file, l->line);
	return false;
}

static int change_one(struct tenant_files *f, const char *cgroup, const char *word, bool unset)
{
	char key[KEY_LEN];
	size_t i;

	key_of(key, word);
	for (i = f->saved.count; i--;) {
		const struct saved_limit *l = &f->saved.at[i];

		if (!strcmp(l->cgroup, cgroup) && !strcmp(l->key, key) && !strcmp(l->file, f->own))
			saved_remove(&f->saved, i);
	}
	if (unset)
		return 0;
	return saved_add(&f->saved, f->own, 0, cgroup, key, strchr(word, '=') + 1);
}

bool files_change(struct tenant_files *f, const char *folder, const char *cgroup, int argc,
		  char **argv, bool unset)
{
	int i, err;

	init(f, folder);
	if (!lock_folder(f))
		goto fail;
	err = saved_read(&f->saved, folder, on_error, NULL);
	if (err) {
		fprintf(stderr, "arax: nothing is changed before that is right\n");
		goto fail;
	}
	/* All before the first is changed: one may be named twice. */
	for (i = 0; i < argc; i++)
		if (!is_ours(f, cgroup, argv[i], unset))
			goto fail;
	for (i = 0; i < argc; i++) {
		err = change_one(f, cgroup, argv[i], unset);
		if (err == -E2BIG)
			fprintf(stderr, "arax: %s: more than %d saved limits\n", folder, SAVED_MAX);
		else if (err == -ENOMEM)
			cli_fail("out of memory");
		if (err)
			goto fail;
	}
	return true;
fail:
	files_close(f);
	return false;
}

void files_tell_others(const struct tenant_files *f, const char *cgroup, int argc, char **argv)
{
	const struct saved_limit *l;
	int i;

	for (i = 0; i < argc; i++) {
		l = saved_find(&f->saved, cgroup, argv[i]);
		if (l)
			fprintf(stderr, "arax: %s of tenant %s is taken out of %s, and is %s by %s:%d: change it there\n",
				l->key, cgroup, SAVED_OWN, l->value, l->file, l->line);
	}
}

int files_write(struct tenant_files *f)
{
	char *text = saved_format(&f->saved, f->own);
	int err;

	if (!text)
		return cli_fail("out of memory");
	err = saved_replace(f->at, SAVED_OWN, text);
	free(text);
	if (!err)
		return EXIT_OK;
	errno = -err;
	fail(f->own);
	fputs("arax: it holds until the next reboot\n", stderr);
	return EXIT_FAILED;
}
