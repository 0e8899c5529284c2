// SPDX-License-Identifier: MIT
#include "daemon/tenants/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/complaints.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/log.h"
#include "daemon/tenants/folder.h"
#include "libarax/admin/saved.h"

#define PATH_BYTES	8192	/* mount point and cgroup */
#define ABOVE_EVENTS	(IN_CREATE | IN_DELETE)

/*
 * Whose cgroup it is may remove it and make it again as fast as he can.  What starts, or starts
 * anew, takes a few looks, and has them at once.
 */
#define LOOKS		16u
#define LOOKS_NS	100000000u	/* so many of a cgroup in that time */

/* A cgroup that has limits; it need not be there. */
struct place {
	const char *cgroup;
	struct saved_limit **limits;	/* in the order of files and lines */
	size_t count;
	int *watch;		/* of each folder above it, the mount point first; -1: not there */
	size_t above;		/* how many these are */
	bool due;		/* to be looked at */
	unsigned int looks;	/* from since_ns on */
	uint64_t since_ns;
	struct complaint is_set, refused;
};

/* By the names of their cgroups. */
struct places {
	struct place *at;
	size_t count;
	struct saved_limit **limits;	/* all that hold, those of each together */
};

struct tenants {
	pthread_mutex_t lock;	/* all below */
	struct folder folder;
	char *mount;
	tenants_set *set;
	void *arg;
	int notify;		/* inotify, or -1 */
	int mounts;		/* mountinfo, or -1 */
	bool warned;
	uint64_t away_ns;	/* since when what @saved has is read nowhere; 0: it is read */
	bool unread;		/* another folder is there, and has files that can't be read */
	struct saved saved;
	struct places places;
};

/* ------------------------------------------------------------------ */
/* Places                                                              */

static int by_cgroup(const void *a, const void *b)
{
	const struct saved_limit *const *l = a, *const *m = b;
	int order = strcmp((*l)->cgroup, (*m)->cgroup);

	/* They are elements of one array. */
	return order ? order : (*l > *m) - (*l < *m);
}

static void places_free(struct places *ps)
{
	size_t i;

	for (i = 0; i < ps->count; i++)
		free(ps->at[i].watch);
	free(ps->at);
	free(ps->limits);
	*ps = (struct places){ 0 };
}

static int place_add(struct places *ps, struct saved_limit **first)
{
	const char *cgroup = (*first)->cgroup, *at;
	struct place *p = &ps->at[ps->count];
	size_t i;

	p->cgroup = cgroup;
	p->limits = first;
	p->due = true;
	for (at = cgroup; at && at[1]; at = strchr(at + 1, '/'))
		p->above++;
	p->watch = malloc((p->above + 1) * sizeof(p->watch[0]));
	if (!p->watch)
		return -ENOMEM;
	for (i = 0; i < p->above; i++)
		p->watch[i] = -1;
	ps->count++;
	return 0;
}

/* Of all limits that hold.  0 or -ENOMEM. */
static int places_of(struct saved *s, struct places *ps)
{
	size_t i, n = 0;
	int err = 0;

	ps->count = 0;
	ps->at = calloc(s->count + 1, sizeof(ps->at[0]));
	ps->limits = calloc(s->count + 1, sizeof(ps->limits[0]));
	if (!ps->at || !ps->limits)
		err = -ENOMEM;
	for (i = 0; !err && i < s->count; i++)
		if (saved_holds(s, i))
			ps->limits[n++] = &s->at[i];
	if (!err)
		qsort(ps->limits, n, sizeof(ps->limits[0]), by_cgroup);
	for (i = 0; !err && i < n; i++) {
		if (!i || strcmp(ps->limits[i - 1]->cgroup, ps->limits[i]->cgroup))
			err = place_add(ps, &ps->limits[i]);
		if (!err)
			ps->at[ps->count - 1].count++;
	}
	if (err)
		places_free(ps);
	return err;
}

static int is_of(const void *cgroup, const void *place)
{
	return strcmp(cgroup, ((const struct place *)place)->cgroup);
}

static struct place *place_find(const struct places *ps, const char *cgroup)
{
	return bsearch(cgroup, ps->at, ps->count, sizeof(ps->at[0]), is_of);
}

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

static int watch_one(struct tenants *t, const char *path)
{
	int wd = inotify_add_watch(t->notify, path, ABOVE_EVENTS | IN_ONLYDIR);

	if (wd < 0 && errno != ENOENT)
		watch_failed(t, path);
	return wd;
}

/*
 * Watches every folder above the cgroup, from the mount point down to the first that
 * is not there: from then on a new one below is told, so nothing is missed between
 * this and the caller's look at the cgroup itself.
 *
 * On cgroup2 the watch of a removed folder stays, is never told of its end, and keeps the
 * inode.  So it is taken away; whoever else has it is told that.
 */
static void watch_above(struct tenants *t, struct place *p)
{
	size_t n = strlen(t->mount), i;
	const char *at = p->cgroup;
	char path[PATH_BYTES];
	int wd = 0;

	if (t->notify < 0 || n + strlen(p->cgroup) >= sizeof(path))
		return;
	strcpy(path, t->mount);
	for (i = 0; i < p->above; i++, at = strchrnul(at + 1, '/')) {
		memcpy(path + n, p->cgroup, (size_t)(at - p->cgroup));
		path[n + (size_t)(at - p->cgroup)] = '\0';
		if (wd >= 0)
			wd = watch_one(t, path);
		if (p->watch[i] >= 0 && p->watch[i] != wd)
			inotify_rm_watch(t->notify, p->watch[i]);
		p->watch[i] = wd;
	}
}

/* Those that others have as well are made anew: all have yet to be looked at. */
static void unwatch(struct tenants *t, const struct place *p)
{
	size_t i;

	for (i = 0; i < p->above; i++)
		if (p->watch[i] >= 0)
			inotify_rm_watch(t->notify, p->watch[i]);
}

/* Is it of the next one on the way to the cgroup, or the end of a watch? */
static bool concerns(const struct place *p, const struct inotify_event *e)
{
	const char *at = p->cgroup;
	size_t i, n;

	for (i = 0; i < p->above && p->watch[i] != e->wd; i++)
		;
	if (i == p->above)
		return false;
	if (!e->len)
		return true;
	while (i--)
		at = strchrnul(at + 1, '/');
	n = strcspn(at + 1, "/");
	return !strncmp(at + 1, e->name, n) && !e->name[n];
}

/*
 * Whatever else comes and goes is left alone: anybody may make cgroups that are nobody's here, as
 * fast as he can.
 */
static void mark_due(struct tenants *t, const struct inotify_event *e)
{
	size_t i;

	for (i = 0; i < t->places.count; i++) {
		struct place *p = &t->places.at[i];

		p->due = p->due || e->mask & IN_Q_OVERFLOW || concerns(p, e);
	}
}

/* Marks who is due.  Was there anything about the files? */
static bool take_events(struct tenants *t)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *e;
	bool folder = false;
	ssize_t n;
	int left;
	char *at;

	/* No more than there are now: others may come as fast as they are read. */
	if (t->notify < 0 || ioctl(t->notify, FIONREAD, &left))
		return false;
	for (; left > 0 && (n = read(t->notify, buf, sizeof(buf))) > 0; left -= (int)n) {
		for (at = buf; at < buf + n; at += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)at;
			folder = folder || folder_concerns(&t->folder, e);
			mark_due(t, e);
		}
	}
	return folder;
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

static int set(struct tenants *t, const struct tenant_setting *to, int fd)
{
	struct arax_limit a = {
		.size = sizeof(a), .cgroup_fd = fd, .what = to->what, .value = to->value,
		.period_ns = to->period_ns,
	};

	return t->set(t->arg, &a);
}

/* " KEY=VALUE": one line of the log tells all of a cgroup. */
static void add_word(char *text, size_t size, const struct saved_limit *l)
{
	size_t n = strlen(text);

	snprintf(text + n, size - n, " %s=%s", l->key, l->value);
}

static void say_set(struct place *p, const char *words)
{
	uint64_t unsaid;

	if (words[0] && complaint_say(&p->is_set, monotonic_ns(), &unsaid))
		log_info("saved limits set", log_str("tenant", p->cgroup),
			 log_str("limits", words + 1), log_u64("unsaid", unsaid));
}

/* @l: the first of them, and why. */
static void say_refused(struct place *p, const struct saved_limit *l, int err, const char *words)
{
	uint64_t unsaid;

	if (l && complaint_say(&p->refused, monotonic_ns(), &unsaid))
		log_err("saved limits can't be set", log_str("file", l->file),
			log_i64("line", l->line), log_str("tenant", p->cgroup),
			log_str("limits", words + 1),
			err == -ELOOP ? log_str("error", "the cgroup nests deeper than 32 levels") :
					log_errno(err), log_u64("unsaid", unsaid));
}

static void set_all(struct tenants *t, struct place *p, int fd, uint64_t id)
{
	char done[512] = "", refused[512] = "";
	const struct saved_limit *first = NULL;
	int err, why = 0;
	size_t i;

	for (i = 0; i < p->count; i++) {
		struct saved_limit *l = p->limits[i];

		if (l->id == id)
			continue;
		err = set(t, &l->setting, fd);
		if (!err) {
			l->id = id;
			add_word(done, sizeof(done), l);
			continue;
		}
		/*
		 * Tried again when something appears on the way to it, and told once.  Or the
		 * cgroup has just gone.
		 */
		if (l->told == id || err == -ENOENT)
			continue;
		l->told = id;
		if (!first) {
			first = l;
			why = err;
		}
		add_word(refused, sizeof(refused), l);
	}
	say_set(p, done);
	say_refused(p, first, why, refused);
}

static void look_at(struct tenants *t, struct place *p)
{
	uint64_t id;
	size_t i;
	int fd;

	p->due = false;
	watch_above(t, p);
	fd = open_cgroup(t, p->cgroup, &id);
	if (fd < 0) {
		for (i = 0; i < p->count; i++)
			p->limits[i]->id = 0;
		return;
	}
	set_all(t, p, fd, id);
	close(fd);
}

static bool may_look(struct place *p, uint64_t now_ns)
{
	if (now_ns - p->since_ns >= LOOKS_NS) {
		p->since_ns = now_ns;
		p->looks = 0;
	}
	if (p->looks == LOOKS)
		return false;
	p->looks++;
	return true;
}

/*
 * Those whose cgroup may not have got them yet, @at_once also if it comes too often.  In how many
 * ms one is to be looked at that does; -1: none.
 */
static int apply(struct tenants *t, bool at_once)
{
	uint64_t now_ns = monotonic_ns(), next_ns = UINT64_MAX;
	struct place *p;
	size_t i;

	for (i = 0; i < t->places.count; i++) {
		p = &t->places.at[i];
		if (!p->due)
			continue;
		if (at_once || may_look(p, now_ns))
			look_at(t, p);
		else if (p->since_ns + LOOKS_NS < next_ns)
			next_ns = p->since_ns + LOOKS_NS;
	}
	return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / 1000000 + 1);
}

/* It stands in no file any more: as if it had never been set. */
static void take_back(struct tenants *t, const struct saved_limit *l)
{
	struct tenant_setting none;
	uint64_t id;
	int fd, err;

	fd = open_cgroup(t, l->cgroup, &id);
	if (fd < 0)
		return;
	if (id == l->id && !tenant_parse(l->key, true, &none)) {
		err = set(t, &none, fd);
		if (!err)
			log_info("saved limit taken back", log_str("tenant", l->cgroup),
				 log_str("key", l->key));
		else if (err != -ENOENT)
			log_err("saved limit can't be taken back", log_str("tenant", l->cgroup),
				log_str("key", l->key), log_errno(err));
	}
	close(fd);
}

static void on_error(void *arg, const char *error)
{
	log_err("saved limits have an error", log_str("error", error));
}

/* The watches of one that is in the new list as well. */
static void take_over(struct tenants *t, struct place *from)
{
	struct place *to = place_find(&t->places, from->cgroup);
	int *watch;

	if (!to) {
		unwatch(t, from);
		return;
	}
	watch = to->watch;
	to->watch = from->watch;
	from->watch = watch;
}

/*
 * What is in both lists alike stays as it is: `arax tenant set` without --save may
 * have changed it since.
 */
static void replace(struct tenants *t, struct saved *now, struct places *places)
{
	struct places before = t->places;
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
	t->places = *places;
	for (i = 0; i < before.count; i++)
		take_over(t, &before.at[i]);
	for (i = 0; i < old.count; i++)
		if (old.at[i].id && saved_holds(&old, i) &&
		    !saved_find(now, old.at[i].cgroup, old.at[i].key))
			take_back(t, &old.at[i]);
	places_free(&before);
	saved_free(&old);
}

/* What is missing has been away for long enough: that is meant. */
static bool is_over(const struct tenants *t)
{
	return t->away_ns && monotonic_ns() - t->away_ns >= TENANTS_GRACE_MS * 1000000ull;
}

/* Is what is @missing to hold still? */
static bool await_folder(struct tenants *t, bool missing)
{
	bool wait = missing && t->saved.count && !is_over(t);

	if (wait && !t->away_ns) {
		t->away_ns = monotonic_ns();
		log_warn("the folder of saved limits is gone, or has fewer: they are taken back unless they come again",
			 log_str("folder", t->folder.path), log_u64("ms", TENANTS_GRACE_MS));
	}
	if (!wait)
		t->away_ns = 0;
	return wait;
}

/* False: a file has an error, or may come again, and nothing has changed. */
static bool read_again(struct tenants *t, bool at_once)
{
	bool another = folder_watch(&t->folder), missing;
	struct saved now = { 0 };
	struct places places;
	int err;

	err = saved_read(&now, t->folder.path, on_error, NULL);
	/* Who replaces it may make the folder first, and its files then, one by one. */
	another |= t->away_ns || t->unread;
	missing = err == -ENOENT || (!err && now.count < t->saved.count && another);
	/* As long as some can't be read nobody knows what is missing, and till they change no one asks. */
	t->unread = err && err != -ENOENT && another;
	if (err && err != -ENOENT) {
		t->away_ns = 0;
	} else if (await_folder(t, missing && !at_once)) {
		saved_free(&now);
		return false;
	}
	if (!err || err == -ENOENT)
		err = places_of(&now, &places);
	if (err) {
		log_err("saved limits stay as they were until the files are right",
			log_str("folder", t->folder.path));
		saved_free(&now);
		return false;
	}
	replace(t, &now, &places);
	return true;
}

/* ------------------------------------------------------------------ */

/* In how many ms. */
static int next_check(const struct tenants *t)
{
	uint64_t ms;

	if (!t->away_ns)
		return TENANTS_CHECK_MS;
	ms = (monotonic_ns() - t->away_ns) / 1000000;
	return ms < TENANTS_GRACE_MS ? TENANTS_GRACE_MS - (int)ms : 0;
}

/* @found: where the folder is, by who has just looked; or NULL: nobody has. */
static int look(struct tenants *t, bool at_once, const struct folder_place *found)
{
	bool another;
	int ms, next;

	pthread_mutex_lock(&t->lock);
	another = found && folder_is_another(&t->folder, found);
	if (take_events(t) || another || is_over(t))
		read_again(t, false);
	ms = apply(t, at_once);
	next = next_check(t);
	pthread_mutex_unlock(&t->lock);
	return ms < 0 || ms > next ? next : ms;
}

void tenants_event(struct tenants *t)
{
	look(t, true, NULL);
}

int tenants_event_paced(struct tenants *t)
{
	struct folder_place found;

	/* Before the lock: where its file system hangs, who arrives doesn't. */
	folder_find(&t->folder, &found);
	return look(t, false, &found);
}

void tenants_reload(struct tenants *t)
{
	size_t i;
	bool read;

	pthread_mutex_lock(&t->lock);
	read = read_again(t, true);
	for (i = 0; read && i < t->saved.count; i++) {
		t->saved.at[i].id = 0;
		t->saved.at[i].told = 0;
	}
	/* Also where nothing is watched, and a cgroup has come since. */
	for (i = 0; i < t->places.count; i++)
		t->places.at[i].due = true;
	apply(t, true);
	pthread_mutex_unlock(&t->lock);
}

int tenants_fd(const struct tenants *t)
{
	return t->notify;
}

int tenants_mounts_fd(const struct tenants *t)
{
	return t->mounts;
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
	t->mount = strdup(mount);
	t->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	t->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (folder_init(&t->folder, folder, t->notify) || !t->mount) {
		tenants_destroy(t);
		return NULL;
	}
	if (t->notify < 0)
		watch_failed(t, mount);
	/* One bad line must not leave all tenants without limits: the rest holds. */
	folder_watch(&t->folder);
	err = saved_read(&t->saved, t->folder.path, on_error, NULL);
	if (err && err != -ENOENT)
		log_err("saved limits were read in part", log_str("folder", t->folder.path));
	if (places_of(&t->saved, &t->places)) {
		tenants_destroy(t);
		return NULL;
	}
	apply(t, true);
	return t;
}

void tenants_destroy(struct tenants *t)
{
	if (t->notify >= 0)
		close(t->notify);
	if (t->mounts >= 0)
		close(t->mounts);
	places_free(&t->places);
	saved_free(&t->saved);
	folder_free(&t->folder);
	free(t->mount);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
