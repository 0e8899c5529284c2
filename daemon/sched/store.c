/* SPDX-License-Identifier: MIT */
/* store.c - learnt run times as a file; see store.h */
#include "daemon/sched/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sched/regress.h"
#include "daemon/sched/sched.h"
#include "libarax/admin/trusted.h"

#define NEW		".new-XXXXXX"	/* behind the name, while it is written */
#define LEFT_S		3600		/* no save takes that long */
#define LAST_DAY	(1u << 24)

void store_free(struct store *s)
{
	free(s->at);
	free(s->links);
	*s = (struct store){ 0 };
}

uint32_t store_today(void)
{
	time_t day = time(NULL) / 86400;

	/* Without a battery clocks begin at 1970. */
	return day < 1 ? 1 : day < LAST_DAY ? (uint32_t)day : LAST_DAY;
}

/* ------------------------------------------------------------------ */
/* In                                                                  */

static int take_string(char *to, size_t size, json_t *j)
{
	const char *s = json_string_value(j);
	size_t n = json_string_length(j);

	if (!s || !n || n >= size || strlen(s) != n)
		return -EINVAL;
	memset(to, 0, size);
	memcpy(to, s, n);
	return 0;
}

static int take_integer(uint64_t *to, uint64_t least, uint64_t most, json_t *j)
{
	if (!json_is_integer(j) || json_integer_value(j) < 0)
		return -EINVAL;
	*to = (uint64_t)json_integer_value(j);
	return *to < least || *to > most ? -EINVAL : 0;
}

static int take_key(struct store_key *k, json_t *m)
{
	const char *abi = json_string_value(json_object_get(m, "abi"));
	uint64_t units;
	char *end;

	if (take_string(k->kernel, sizeof(k->kernel), json_object_get(m, "kernel")) ||
	    take_string(k->device, sizeof(k->device), json_object_get(m, "device")) ||
	    take_string(k->backend, sizeof(k->backend), json_object_get(m, "backend")) ||
	    take_integer(&units, 0, UINT32_MAX, json_object_get(m, "units")))
		return -EINVAL;
	k->units = (uint32_t)units;
	if (!abi || strlen(abi) != 16 || strspn(abi, "0123456789abcdef") != 16)
		return -EINVAL;
	k->abi = strtoull(abi, &end, 16);
	return 0;
}

static int take_size(struct store_entry *e, json_t *j)
{
	json_t *deviation = json_object_get(j, "deviation"), *work = json_object_get(j, "work");
	json_t *all = json_object_get(j, "all_ns");	/* not in files of before */
	uint64_t runs, day;

	if (take_integer(&e->ns, 1, 1ull << 50, json_object_get(j, "ns")) ||
	    (all && take_integer(&e->all_ns, 1, 1ull << 50, all)) ||
	    take_integer(&runs, 1, UINT32_MAX, json_object_get(j, "runs")) ||
	    take_integer(&day, 1, LAST_DAY, json_object_get(j, "day")) ||
	    !json_is_number(work) || !json_is_number(deviation))
		return -EINVAL;
	e->all_ns = all ? e->all_ns : e->ns;
	e->work = json_number_value(work);
	e->deviation = json_number_value(deviation);
	e->runs = (uint32_t)runs;
	e->day = (uint32_t)day;
	return e->work >= 1 && e->work <= 0x1p64 && e->deviation >= 0 && e->deviation <= 0x1p50 ?
	       0 : -EINVAL;
}

static int add_entry(struct store *s, size_t *size, const struct store_entry *e)
{
	if (s->count == SCHED_MAX_RECORDS)
		return -E2BIG;
	if (s->count == *size) {
		size_t more = *size ? 2 * *size : 64;
		struct store_entry *at = realloc(s->at, more * sizeof(*at));

		if (!at)
			return -ENOMEM;
		s->at = at;
		*size = more;
	}
	s->at[s->count++] = *e;
	return 0;
}

static int take_models(struct store *s, json_t *root, const char *name, char *error, size_t len)
{
	json_t *models = json_object_get(root, "models"), *m, *sizes, *j;
	size_t i, k, size = 0;
	int err;

	if (!json_is_array(models)) {
		snprintf(error, len, "%s: there is no list \"models\"", name);
		return -EINVAL;
	}
	json_array_foreach(models, i, m) {
		struct store_entry e = { 0 };

		sizes = json_object_get(m, "sizes");
		if (take_key(&e.key, m) || !json_is_array(sizes)) {
			snprintf(error, len, "%s: model %zu: a name, abi, units or sizes are wrong",
				 name, i);
			return -EINVAL;
		}
		json_array_foreach(sizes, k, j) {
			err = take_size(&e, j);
			if (err)
				snprintf(error, len, "%s: model %zu, size %zu: a value is out of range",
					 name, i, k);
			else
				err = add_entry(s, &size, &e);
			if (err == -E2BIG)
				snprintf(error, len, "%s: more than %d sizes", name,
					 SCHED_MAX_RECORDS);
			if (err)
				return err;
		}
	}
	return 0;
}

static const char *const ways[] = {
	[STORE_IN] = "in", [STORE_OUT] = "out", [STORE_DIRECT] = "direct",
};

#define NR_WAYS		(sizeof(ways) / sizeof(ways[0]))

static int take_way(enum store_way *way, json_t *j)
{
	const char *s = json_string_value(j);

	for (size_t i = 0; s && i < NR_WAYS; i++) {
		if (strcmp(ways[i], s))
			continue;
		*way = (enum store_way)i;
		return 0;
	}
	return -EINVAL;
}

static int take_time(double *to, json_t *j)
{
	if (!json_is_number(j))
		return -EINVAL;
	*to = json_number_value(j);
	return *to >= 0 && *to <= STORE_MAX_NS ? 0 : -EINVAL;
}

static int take_link(struct store_link *l, json_t *j)
{
	uint64_t units, from_units = 0, day;

	if (take_string(l->device, sizeof(l->device), json_object_get(j, "device")) ||
	    take_string(l->backend, sizeof(l->backend), json_object_get(j, "backend")) ||
	    take_integer(&units, 0, UINT32_MAX, json_object_get(j, "units")) ||
	    take_way(&l->way, json_object_get(j, "direction")) ||
	    take_time(&l->latency_ns, json_object_get(j, "latency_ns")) ||
	    take_time(&l->ns_per_byte, json_object_get(j, "ns_per_byte")) ||
	    take_integer(&day, 1, LAST_DAY, json_object_get(j, "day")))
		return -EINVAL;
	if (l->way == STORE_DIRECT &&
	    (take_string(l->from, sizeof(l->from), json_object_get(j, "from")) ||
	     take_integer(&from_units, 0, UINT32_MAX, json_object_get(j, "from_units"))))
		return -EINVAL;
	l->units = (uint32_t)units;
	l->from_units = (uint32_t)from_units;
	l->day = (uint32_t)day;
	return 0;
}

static int take_links(struct store *s, json_t *root, const char *name, char *error, size_t len)
{
	json_t *links = json_object_get(root, "links"), *j;	/* not in files of before */
	size_t i;

	if (!links)
		return 0;
	if (!json_is_array(links)) {
		snprintf(error, len, "%s: \"links\" is no list", name);
		return -EINVAL;
	}
	if (json_array_size(links) > STORE_MAX_LINKS) {
		snprintf(error, len, "%s: more than %u links", name, STORE_MAX_LINKS);
		return -E2BIG;
	}
	s->links = calloc(json_array_size(links) + 1, sizeof(*s->links));
	if (!s->links)
		return -ENOMEM;
	json_array_foreach(links, i, j) {
		if (take_link(&s->links[i], j)) {
			snprintf(error, len, "%s: link %zu: a value is missing, or out of range",
				 name, i);
			return -EINVAL;
		}
		s->nr_links++;
	}
	return 0;
}

int store_parse(struct store *s, const char *name, const char *text, size_t bytes, char *error,
		size_t len)
{
	json_error_t je;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je), *version;
	int err;

	*s = (struct store){ 0 };
	if (len)
		error[0] = '\0';
	if (!root) {
		snprintf(error, len, "%s:%d: %s", name, je.line, je.text);
		return -EINVAL;
	}
	version = json_object_get(root, "version");
	if (json_integer_value(version) == STORE_VERSION) {
		err = take_models(s, root, name, error, len);
		err = err ? err : take_links(s, root, name, error, len);
	} else {
		err = json_is_integer(version) ? -EPROTONOSUPPORT : -EINVAL;
		snprintf(error, len, "%s: its version is not %d", name, STORE_VERSION);
	}
	if (err == -ENOMEM)
		snprintf(error, len, "%s: no memory", name);
	json_decref(root);
	if (err)
		store_free(s);
	return err;
}

/* ------------------------------------------------------------------ */
/* Out                                                                 */

static int key_order(const struct store_key *a, const struct store_key *b)
{
	int c = strcmp(a->kernel, b->kernel);

	c = c ? c : strcmp(a->device, b->device);
	c = c ? c : strcmp(a->backend, b->backend);
	c = c ? c : (a->abi > b->abi) - (a->abi < b->abi);
	return c ? c : (a->units > b->units) - (a->units < b->units);
}

static int entry_order(const void *a, const void *b)
{
	const struct store_entry *x = a, *y = b;
	int c = key_order(&x->key, &y->key);

	return c ? c : (x->work > y->work) - (x->work < y->work);
}

static int link_order(const void *a, const void *b)
{
	const struct store_link *x = a, *y = b;
	int c = strcmp(x->device, y->device);

	c = c ? c : strcmp(x->backend, y->backend);
	c = c ? c : (x->units > y->units) - (x->units < y->units);
	c = c ? c : (x->way > y->way) - (x->way < y->way);
	c = c ? c : strcmp(x->from, y->from);
	return c ? c : (x->from_units > y->from_units) - (x->from_units < y->from_units);
}

/* For people and plots: it is worked out anew from the sizes. */
static json_t *fit_of(const struct store_entry *e, size_t nr)
{
	struct regress_point p[REGRESS_POINTS];
	struct regress_fit f;
	uint32_t n = 0;

	for (size_t i = 0; i < nr && n < REGRESS_POINTS; i++)
		if (e[i].runs >= SCHED_MIN_RUNS)
			p[n++] = (struct regress_point){ e[i].work, (double)e[i].ns,
							 e[i].runs < 16 ? e[i].runs : 16 };
	f = regress(p, n);
	if (!f.points)
		return json_null();
	return json_pack("{ss sf sf sf si}", "form", f.power ? "a*work^b" : "a+b*work", "a", f.a,
			 "b", f.b, "error", f.error, "confidence",
			 (int)regress_confidence(&f, f.most));
}

static json_t *model_of(const struct store_entry *e, size_t nr)
{
	json_t *sizes = json_array();
	char abi[17];

	for (size_t i = 0; sizes && i < nr; i++)
		json_array_append_new(sizes, json_pack("{sf sI sf sI sI sI}",
			"work", e[i].work, "ns", (json_int_t)e[i].ns, "deviation", e[i].deviation,
			"all_ns", (json_int_t)e[i].all_ns, "runs", (json_int_t)e[i].runs,
			"day", (json_int_t)e[i].day));
	snprintf(abi, sizeof(abi), "%016" PRIx64, e->key.abi);
	return json_pack("{ss ss ss ss sI so so}", "kernel", e->key.kernel, "abi", abi, "device",
			 e->key.device, "backend", e->key.backend, "units",
			 (json_int_t)e->key.units, "fit", fit_of(e, nr), "sizes", sizes);
}

static json_t *link_json(const struct store_link *l)
{
	json_t *j = json_pack("{ss ss sI ss}", "device", l->device, "backend", l->backend, "units",
			      (json_int_t)l->units, "direction", ways[l->way]);

	if (j && l->way == STORE_DIRECT &&
	    (json_object_set_new(j, "from", json_string(l->from)) ||
	     json_object_set_new(j, "from_units", json_integer(l->from_units)))) {
		json_decref(j);
		return NULL;
	}
	if (j && !json_object_set_new(j, "latency_ns", json_real(l->latency_ns)) &&
	    !json_object_set_new(j, "ns_per_byte", json_real(l->ns_per_byte)) &&
	    !json_object_set_new(j, "day", json_integer(l->day)))
		return j;
	json_decref(j);
	return NULL;
}

char *store_format(struct store *s)
{
	json_t *models = json_array(), *links = json_array(), *root;
	char *text = NULL;
	size_t i, next;
	int err = 0;

	if (s->count)
		qsort(s->at, s->count, sizeof(*s->at), entry_order);
	for (i = 0; i < s->count; i = next) {
		json_t *m;

		for (next = i + 1; next < s->count; next++)
			if (key_order(&s->at[i].key, &s->at[next].key))
				break;
		m = model_of(&s->at[i], next - i);
		/* A name that is no UTF-8 is left out. */
		if (m)
			err |= json_array_append_new(models, m);
	}
	if (s->nr_links)
		qsort(s->links, s->nr_links, sizeof(*s->links), link_order);
	for (i = 0; i < s->nr_links; i++) {
		json_t *l = link_json(&s->links[i]);

		if (l)
			err |= json_array_append_new(links, l);
	}
	root = json_pack("{si so so}", "version", STORE_VERSION, "models", models, "links", links);
	/* All digits: a power of two that is rounded down is of another size class. */
	if (root && !err)
		text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
	json_decref(root);
	return text;
}

/* ------------------------------------------------------------------ */
/* Files                                                               */

int store_load(struct store *s, const char *path, char *error, size_t len)
{
	char why[256], *text;
	size_t bytes;
	int fd, err;

	*s = (struct store){ 0 };
	fd = trusted_open_path(path, why, sizeof(why));
	if (fd < 0) {
		snprintf(error, len, "%s: %s", path, why);
		return fd;
	}
	err = trusted_read(fd, STORE_MAX_BYTES, &text, &bytes);
	close(fd);
	if (err) {
		snprintf(error, len, "%s: %s", path,
			 err == -E2BIG ? "longer than 64 MiB" : strerror(-err));
		return err;
	}
	err = store_parse(s, path, text, bytes, error, len);
	free(text);
	return err;
}

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			text += n;
			left -= (size_t)n;
		}
	}
	/* Or a crash could leave the new name without its contents. */
	return fsync(fd) ? -errno : 0;
}

/*
 * Or a crash could leave the old contents.  Where it can't be, in a folder that may not be read or on
 * a file system that knows no such thing, the file is saved all the same.
 */
static void sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

static bool is_new(const char *file, const char *name)
{
	const size_t n = strlen(name), new = sizeof(NEW) - 1, drawn = strlen("XXXXXX");

	return strlen(file) == n + new && !strncmp(file, name, n) &&
	       !strncmp(file + n, NEW, new - drawn);
}

/* What araxds were writing that were killed then. */
static void drop_left(const char *folder, const char *name)
{
	const time_t now = time(NULL);
	struct dirent *e;
	struct stat st;
	DIR *d = opendir(folder);

	while (d && (e = readdir(d)))
		if (is_new(e->d_name, name) &&
		    !fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && st.st_mtime < now - LEFT_S)
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

int store_save(struct store *s, const char *path)
{
	char new[PATH_MAX], *slash, *text;
	int fd, err;

	/* Of its own: another araxd of the same user may be writing, too. */
	if ((size_t)snprintf(new, sizeof(new), "%s" NEW, path) >= sizeof(new))
		return -ENAMETOOLONG;
	slash = strrchr(new, '/');
	if (!slash || slash == new)
		return -EINVAL;
	*slash = '\0';
	mkdir(new, 0755);
	*slash = '/';
	text = store_format(s);
	if (!text)
		return -ENOMEM;
	fd = mkostemp(new, O_CLOEXEC);
	/* Nothing secret: which kernels run how long.  `arax models` reads it as anybody. */
	err = fd < 0 ? -errno : fchmod(fd, 0644) ? -errno : write_all(fd, text);
	if (fd >= 0)
		close(fd);
	if (!err && rename(new, path))
		err = -errno;
	if (err && fd >= 0)
		unlink(new);
	*slash = '\0';
	if (!err) {
		drop_left(new, strrchr(path, '/') + 1);
		sync_folder(new);
	}
	free(text);
	return err;
}
