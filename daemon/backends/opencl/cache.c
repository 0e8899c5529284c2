// SPDX-License-Identifier: MIT
#include "daemon/backends/opencl/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libarax/admin/trusted.h"

#define MAGIC		"araxocl1"
#define SUFFIX		".program"
#define TMP_PREFIX	".tmp-"
#define TMP_OLD_S	3600	/* left over by somebody who died */
#define FAILURE_S	86400

struct head {
	char magic[8];
	uint64_t key, source, table, binary;	/* bytes */
	uint64_t checksum;			/* of all that follows */
};

static int folder = -1;
static char folder_path[PATH_MAX];

static uint64_t fnv(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

#define FNV_START 0xcbf29ce484222325ull

static int default_path(char *path, size_t len)
{
	const char *systemd = secure_getenv("CACHE_DIRECTORY");
	const char *xdg = secure_getenv("XDG_CACHE_HOME");
	const char *home = secure_getenv("HOME");
	int n;

	if (systemd && systemd[0] == '/')
		n = snprintf(path, len, "%.*s", (int)strcspn(systemd, ":"), systemd);
	else if (xdg && xdg[0] == '/')
		n = snprintf(path, len, "%s/arax", xdg);
	else if (!geteuid())
		n = snprintf(path, len, "/var/cache/arax");
	else if (home && home[0] == '/')
		n = snprintf(path, len, "%s/.cache/arax", home);
	else
		return -ENOENT;
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}

int cache_open(const char *path, char *why, size_t len)
{
	char *slash;
	int err = 0;

	cache_close();
	if (path)
		snprintf(folder_path, sizeof(folder_path), "%s", path);
	else
		err = default_path(folder_path, sizeof(folder_path));
	if (err) {
		snprintf(why, len, "no place for it: set XDG_CACHE_HOME, or the option cache");
		folder_path[0] = '\0';
		return err;
	}
	slash = strrchr(folder_path, '/');
	if (slash && slash != folder_path) {
		*slash = '\0';
		mkdir(folder_path, 0755);
		*slash = '/';
	}
	mkdir(folder_path, 0700);
	folder = trusted_open_folder(folder_path, why, len);
	if (folder < 0) {
		err = folder;
		cache_close();
	}
	return err;
}

void cache_close(void)
{
	if (folder >= 0)
		close(folder);
	folder = -1;
	folder_path[0] = '\0';
}

const char *cache_path(void)
{
	return folder >= 0 ? folder_path : NULL;
}

static void entry_name(char *name, size_t len, const char *key, const struct blob *source)
{
	uint64_t h = fnv(FNV_START, key, strlen(key) + 1);

	snprintf(name, len, "%016" PRIx64 SUFFIX, fnv(h, source->data, source->bytes));
}

/* A part of an entry; NULL: the sizes say more than there is. */
static const char *part(const char **p, const char *end, uint64_t bytes)
{
	const char *at = *p;

	if (bytes > (uint64_t)(end - at))
		return NULL;
	*p = at + bytes;
	return at;
}

static int parse(const char *text, size_t bytes, const char *key, const struct blob *source,
		 char **table, struct blob *binary)
{
	const char *p = text + sizeof(struct head), *end = text + bytes;
	const char *k, *s, *t, *b;
	struct head h;

	if (bytes < sizeof(h))
		return -ENOENT;
	memcpy(&h, text, sizeof(h));
	if (memcmp(h.magic, MAGIC, sizeof(h.magic)) ||
	    h.checksum != fnv(FNV_START, p, (size_t)(end - p)))
		return -ENOENT;
	k = part(&p, end, h.key);
	s = k ? part(&p, end, h.source) : NULL;
	t = s ? part(&p, end, h.table) : NULL;
	b = t ? part(&p, end, h.binary) : NULL;
	if (!b || p != end || h.key != strlen(key) || memcmp(k, key, h.key) ||
	    h.source != source->bytes || memcmp(s, source->data, source->bytes))
		return -ENOENT;
	*table = strndup(t, h.table);
	if (!h.binary)
		return *table ? CACHE_FAILURE : -ENOMEM;
	binary->data = malloc(h.binary);
	binary->bytes = h.binary;
	if (!*table || !binary->data) {
		free(*table);
		free(binary->data);
		return -ENOMEM;
	}
	memcpy(binary->data, b, h.binary);
	return 0;
}

/* Drivers are mended without another version, and what was too slow was so once. */
static bool is_old(int fd)
{
	struct stat st;

	return fstat(fd, &st) || time(NULL) - st.st_mtime >= FAILURE_S;
}

int cache_get(const char *key, const struct blob *source, char **table, struct blob *binary)
{
	char name[64], why[128], *text;
	size_t bytes;
	int fd, err;

	if (folder < 0)
		return -ENOENT;
	entry_name(name, sizeof(name), key, source);
	fd = trusted_open_file(folder, name, why, sizeof(why));
	if (fd < 0)
		return -ENOENT;
	err = trusted_read(fd, CACHE_MAX_ENTRY, &text, &bytes);
	if (!err) {
		err = parse(text, bytes, key, source, table, binary);
		free(text);
	}
	if (!err)
		futimens(fd, NULL);	/* used just now: among the last to go */
	if (err == CACHE_FAILURE && is_old(fd)) {
		free(*table);
		err = -ENOENT;
	}
	close(fd);
	return !err || err == CACHE_FAILURE ? err : -ENOENT;
}

/* ------------------------------------------------------------------ */
/* Bounds                                                                */

struct entry {
	char name[64];
	struct timespec used;
	uint64_t bytes;
};

static int older_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static bool is_entry(const char *name)
{
	size_t n = strlen(name);

	return n > strlen(SUFFIX) && n < sizeof(((struct entry *)0)->name) && name[0] != '.' &&
	       !strcmp(name + n - strlen(SUFFIX), SUFFIX);
}

static void trim(void)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct entry *all = NULL, *more;
	size_t nr = 0, room = 0;
	uint64_t bytes = 0;
	struct dirent *e;
	struct stat st;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d))) {
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!strncmp(e->d_name, TMP_PREFIX, strlen(TMP_PREFIX)) &&
		    time(NULL) - st.st_mtime > TMP_OLD_S)
			unlinkat(fd, e->d_name, 0);
		if (!is_entry(e->d_name))
			continue;
		if (nr == room) {
			room = room ? 2 * room : 64;
			more = realloc(all, room * sizeof(*all));
			if (!more)
				break;
			all = more;
		}
		strcpy(all[nr].name, e->d_name);	/* short enough: is_entry() */
		all[nr].used = st.st_mtim;
		all[nr].bytes = (uint64_t)st.st_size;
		bytes += all[nr++].bytes;
	}
	if (nr)
		qsort(all, nr, sizeof(*all), older_first);
	for (size_t i = 0; i < nr && (nr - i > CACHE_MAX_ENTRIES || bytes > CACHE_MAX_BYTES); i++) {
		unlinkat(fd, all[i].name, 0);
		bytes -= all[i].bytes;
	}
	free(all);
	closedir(d);
}

void cache_put(const char *key, const struct blob *source, const char *table,
	       const struct blob *binary)
{
	struct head h = { .magic = MAGIC, .key = strlen(key), .source = source->bytes,
			  .table = strlen(table), .binary = binary->bytes };
	char name[64], tmp[64];
	bool ok;
	int fd;

	if (folder < 0 || sizeof(h) + h.key + h.source + h.table + h.binary > CACHE_MAX_ENTRY)
		return;
	h.checksum = fnv(FNV_START, key, h.key);
	h.checksum = fnv(h.checksum, source->data, source->bytes);
	h.checksum = fnv(h.checksum, table, h.table);
	h.checksum = fnv(h.checksum, binary->data, binary->bytes);
	entry_name(name, sizeof(name), key, source);
	snprintf(tmp, sizeof(tmp), TMP_PREFIX "%d-%.32s", (int)getpid(), name);
	unlinkat(folder, tmp, 0);
	fd = openat(folder, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* No fsync: a torn entry fails its checksum. */
	ok = !blob_write(fd, &h, sizeof(h)) && !blob_write(fd, key, h.key) &&
	     !blob_write(fd, source->data, source->bytes) && !blob_write(fd, table, h.table) &&
	     !blob_write(fd, binary->data, binary->bytes);
	ok = !close(fd) && ok;
	if (!ok || renameat(folder, tmp, folder, name))
		unlinkat(folder, tmp, 0);
	trim();
}

void cache_put_failure(const char *key, const struct blob *source, const char *why)
{
	cache_put(key, source, why, &(struct blob){ NULL, 0 });
}
