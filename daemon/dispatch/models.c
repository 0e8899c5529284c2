// SPDX-License-Identifier: MIT
/* Learnt run times across restarts: see models.h. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/dispatch/kept_links.h"
#include "daemon/dispatch/models.h"
#include "daemon/dispatch/poller.h"
#include "daemon/log.h"
#include "daemon/sched/store.h"

struct models {
	struct poller *poller;
	char *path;
	struct store strange;	/* of kernels and devices that aren't here */
	struct store out;	/* what the thread writes */
	struct kept_links links;
	pthread_t writer;
	bool writing;
	bool wrote;		/* atomic: it has done so, and ends */
	bool unused;		/* what is there is no use to us, but may be to others */
	bool unsaved;		/* the latest try failed */
};

/* Tasks that are no launches, by what they do. */
static const struct {
	uint32_t opcode;
	const char *name;
} plain[] = {
	{ ARAX_OP_COPY, "(copy)" },
	{ ARAX_OP_FILL, "(fill)" },
};

/* With those above it, as the XDG base directories have it; what fails shows when it is used. */
static void make_folder(const char *path)
{
	char part[4096];

	if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
		return;
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(part, 0700);
		*slash = '/';
	}
	mkdir(part, 0700);
}

bool models_default_path(bool user, char *path, size_t len)
{
	const char *state = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
	size_t n;

	if (!user)
		return (size_t)snprintf(path, len, "/var/lib/arax/models.json") < len;
	/* The last folder is made by whoever writes the file. */
	if (state && state[0] == '/')
		n = (size_t)snprintf(path, len, "%s", state);
	else if (home && home[0] == '/')
		n = (size_t)snprintf(path, len, "%s/.local/state", home);
	else
		return false;
	if (n >= len)
		return false;
	make_folder(path);
	return n + (size_t)snprintf(path + n, len - n, "/arax/models.json") < len;
}

/* ------------------------------------------------------------------ */
/* Names and numbers                                                   */

static const struct kernel *kernel_by_number(const struct poller *p, uint32_t number)
{
	return number && number <= registry_count(p->registry) ?
	       registry_at(p->registry, number - 1) : NULL;
}

/* As sched_kernel_key(). */
static void import_kernel(struct poller *p, const struct store_key *key, struct sched_known *k,
			  bool *used)
{
	struct graph_node n = { 0 };
	uint32_t i;

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (strcmp(plain[i].name, key->kernel))
			continue;
		n.d.opcode = plain[i].opcode;
		k->kernel = sched_kernel_key(&n);
		sched_import(p->sched, k);
		*used = true;
	}
	n.d.opcode = ARAX_OP_LAUNCH;
	for (i = 0; i < registry_count(p->registry); i++) {
		const struct kernel *known = registry_at(p->registry, i);

		if (known->sig.abi.abi_hash != key->abi ||
		    strncmp(known->sig.name, key->kernel, sizeof(key->kernel)))
			continue;
		n.sched.kernel = link_kernel_number(known);
		k->kernel = sched_kernel_key(&n);
		sched_import(p->sched, k);
		*used = true;
		break;
	}
}

static bool is_device(const struct device *dev, const struct store_key *key)
{
	return dev->info.units == key->units && !strcmp(dev->backend, key->backend) &&
	       !strncmp(dev->info.name, key->device, sizeof(dev->info.name));
}

/* Whether it was of use. */
static bool import(struct poller *p, const struct store_entry *e)
{
	struct sched_known k = {
		.runs = e->runs, .ns = e->ns, .all_ns = e->all_ns, .work = e->work,
		.deviation = e->deviation, .day = e->day,
	};
	bool used = false;
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++) {
		if (!is_device(p->devs[i].dev, &e->key))
			continue;
		k.device = i;
		import_kernel(p, &e->key, &k, &used);
	}
	return used;
}

static bool name_of(const struct poller *p, const struct sched_known *k, struct store_key *key)
{
	const struct device *dev = k->device < p->nr_devs ? p->devs[k->device].dev : NULL;
	uint32_t opcode = (uint32_t)(k->kernel >> 32) - 1, i;
	const struct kernel *kernel;

	if (!dev)
		return false;
	memset(key, 0, sizeof(*key));
	snprintf(key->device, sizeof(key->device), "%.63s", dev->info.name);
	snprintf(key->backend, sizeof(key->backend), "%s", dev->backend);
	key->units = dev->info.units;
	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (plain[i].opcode == opcode) {
			strcpy(key->kernel, plain[i].name);
			return true;
		}
	kernel = opcode == ARAX_OP_LAUNCH ? kernel_by_number(p, (uint32_t)k->kernel) : NULL;
	if (!kernel)
		return false;
	snprintf(key->kernel, sizeof(key->kernel), "%s", kernel->sig.name);
	key->abi = kernel->sig.abi.abi_hash;
	return true;
}

/* ------------------------------------------------------------------ */
/* In and out                                                          */

/* Of @s what is for nobody here, and not too old, stays in it, at the front. */
static void import_all(struct models *m, struct store *s)
{
	size_t count = s->count, nr_links = s->nr_links, i;
	uint32_t day = store_today();

	s->count = 0;
	s->nr_links = 0;
	/*
	 * A day that is still to come stays as it is: it may be this clock that is wrong, and what was
	 * put down by it would be forgotten by the next one.
	 */
	for (i = 0; i < count; i++)
		if (s->at[i].day + STORE_DAYS >= day && !import(m->poller, &s->at[i]))
			s->at[s->count++] = s->at[i];
	for (i = 0; i < nr_links; i++)
		if (s->links[i].day + STORE_DAYS >= day && !kept_links_import(&m->links, &s->links[i]))
			s->links[s->nr_links++] = s->links[i];
}

struct models *models_open(struct poller *p, const char *path)
{
	struct models *m = calloc(1, sizeof(*m));
	size_t count, nr_links;
	char error[512];
	struct store s;
	int err;

	if (!m)
		return NULL;
	m->poller = p;
	m->path = strdup(path);
	if (kept_links_init(&m->links, p) || !m->path) {
		kept_links_free(&m->links);
		free(m->path);
		free(m);
		return NULL;
	}
	err = store_load(&s, path, error, sizeof(error));
	m->unused = err && err != -ENOENT && err != -ENOTDIR;
	if (m->unused)
		log_warn("learnt run times are not used", log_str("error", error));
	if (err)
		return m;
	count = s.count;
	nr_links = s.nr_links;
	import_all(m, &s);
	log_info("learnt run times loaded", log_str("file", path), log_u64("sizes", count),
		 log_u64("of_others", s.count), log_u64("links", nr_links),
		 log_u64("links_of_others", s.nr_links));
	m->strange = s;
	return m;
}

/* Fills m->out; false: there is nothing new, or no memory. */
static bool collect(struct models *m)
{
	struct sched_known *k;
	size_t nr, nr_links, i;
	bool news = kept_links_have_news(&m->links, &nr_links);

	if (!news && !sched_has_news(m->poller->sched) && !m->unsaved)
		return false;
	k = sched_export(m->poller->sched, &nr);
	m->out.at = k ? calloc(nr + m->strange.count + 1, sizeof(*m->out.at)) : NULL;
	m->out.count = 0;
	for (i = 0; m->out.at && i < nr; i++) {
		struct store_entry *e = &m->out.at[m->out.count];

		*e = (struct store_entry){
			.work = k[i].work, .deviation = k[i].deviation, .ns = k[i].ns,
			.all_ns = k[i].all_ns, .runs = k[i].runs,
			.day = k[i].day ? k[i].day : store_today(),
		};
		m->out.count += name_of(m->poller, &k[i], &e->key);
	}
	free(k);
	m->out.links = calloc(nr_links + m->strange.nr_links + 1, sizeof(*m->out.links));
	if (!m->out.at || !m->out.links) {
		store_free(&m->out);
		m->unsaved = true;
		return false;
	}
	for (i = 0; i < m->strange.count && m->out.count < SCHED_MAX_RECORDS; i++)
		m->out.at[m->out.count++] = m->strange.at[i];
	m->out.nr_links = kept_links_export(&m->links, m->out.links, nr_links);
	for (i = 0; i < m->strange.nr_links && m->out.nr_links < STORE_MAX_LINKS; i++)
		m->out.links[m->out.nr_links++] = m->strange.links[i];
	return true;
}

/* A newer araxd's file, or one that only needs another owner, must outlive this one. */
static int put_aside(struct models *m)
{
	char aside[PATH_MAX];

	if ((size_t)snprintf(aside, sizeof(aside), "%s.unused", m->path) >= sizeof(aside))
		return -ENAMETOOLONG;
	if (rename(m->path, aside) && errno != ENOENT)
		return -errno;
	m->unused = false;
	log_notice("learnt run times that are not used were put aside", log_str("file", aside));
	return 0;
}

static void write_out(struct models *m)
{
	int err = m->unused ? put_aside(m) : 0;

	if (!err)
		err = store_save(&m->out, m->path);
	m->unsaved = err;
	if (err)
		log_warn("learnt run times can't be written", log_str("file", m->path),
			 log_errno(err));
	store_free(&m->out);
}

static void *writer_main(void *arg)
{
	struct models *m = arg;

	write_out(m);
	__atomic_store_n(&m->wrote, true, __ATOMIC_RELEASE);
	return NULL;
}

static void join_writer(struct models *m)
{
	if (m->writing)
		pthread_join(m->writer, NULL);
	m->writing = false;
}

bool models_save(struct models *m)
{
	/* A disk may be slow, and the poller is not to wait for it. */
	if (m->writing && !__atomic_load_n(&m->wrote, __ATOMIC_ACQUIRE))
		return false;
	join_writer(m);
	if (!collect(m))
		return true;
	m->unsaved = true;	/* until the thread says otherwise */
	m->wrote = false;
	m->writing = !pthread_create(&m->writer, NULL, writer_main, m);
	if (!m->writing)
		store_free(&m->out);
	return true;
}

void models_close(struct models *m)
{
	if (!m)
		return;
	join_writer(m);
	if (collect(m))
		write_out(m);
	store_free(&m->strange);
	kept_links_free(&m->links);
	free(m->path);
	free(m);
}
