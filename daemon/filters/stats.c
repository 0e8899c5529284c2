// SPDX-License-Identifier: MIT
/*
 * The stats filter: counts and times of launches by kernel, and of copies.
 *
 *   file=PATH		written when araxd ends, as JSON
 *
 * Time is what the calling thread spent in the layers below, in nanoseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/builtin.h"
#include "daemon/filters/common.h"
#include "daemon/log.h"

#define MAX_NAMES 512	/* kernels beyond these are counted together */

struct row {
	char name[64];
	uint64_t count, errors, total_ns, min_ns, max_ns;
};

struct stats {
	pthread_mutex_t lock;	/* rows and copies */
	char *file;
	int fd;			/* of it */
	uint32_t nr_rows;
	struct row rows[MAX_NAMES + 1];
	struct row in, out;
	uint64_t bytes_in, bytes_out;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int stats_create(void **instance)
{
	struct stats *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	*instance = s;
	return 0;
}

static int stats_config(void *instance, const char *key, const char *value)
{
	struct stats *s = instance;

	if (strcmp(key, "file"))
		return -ENOENT;
	if (value[0] != '/') {
		reason_set("want a path that begins with /");
		return -EINVAL;
	}
	free(s->file);
	s->file = strdup(value);
	return s->file ? 0 : -ENOMEM;
}

/* At the start, so that what can't be written does not show after days of counting. */
static int stats_config_complete(void *instance)
{
	struct stats *s = instance;
	int err;

	if (!s->file)
		return 0;
	/* A pipe would wait for its reader; what is there stays until there is something new. */
	s->fd = open(s->file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
	err = s->fd < 0 ? -errno : 0;
	if (err)
		log_err("the stats filter's file can't be written", log_str("file", s->file),
			log_errno(err));
	return err;
}

static int stats_open(void *instance, const struct arax_backend_info *info, void **dev)
{
	*dev = instance;
	return 0;
}

static void count(struct row *r, uint64_t ns, int err)
{
	if (!r->count || ns < r->min_ns)
		r->min_ns = ns;
	if (ns > r->max_ns)
		r->max_ns = ns;
	r->count++;
	r->errors += err != 0;
	r->total_ns += ns;
}

static struct row *find_row(struct stats *s, const char *name)
{
	uint32_t i;

	for (i = 0; i < s->nr_rows; i++)
		if (!strcmp(s->rows[i].name, name))
			return &s->rows[i];
	if (i == MAX_NAMES)
		name = "(others)";
	if (i <= MAX_NAMES) {
		snprintf(s->rows[i].name, sizeof(s->rows[i].name), "%s", name);
		s->nr_rows++;
		return &s->rows[i];
	}
	return &s->rows[MAX_NAMES];
}

static int stats_run(void *dev, const struct arax_next *next, struct arax_backend_run *run)
{
	struct stats *s = dev;
	uint64_t start = now_ns(), ns;
	int err = next->run(next, run);

	ns = now_ns() - start;
	pthread_mutex_lock(&s->lock);
	count(find_row(s, run->name), ns, err);
	pthread_mutex_unlock(&s->lock);
	return err;
}

static int stats_copy_in(void *dev, const struct arax_next *next, uint32_t lane, uint64_t to,
			 const void *from, uint64_t bytes)
{
	struct stats *s = dev;
	uint64_t start = now_ns(), ns;
	int err = next->copy_in(next, lane, to, from, bytes);

	ns = now_ns() - start;
	pthread_mutex_lock(&s->lock);
	count(&s->in, ns, err);
	s->bytes_in += err ? 0 : bytes;
	pthread_mutex_unlock(&s->lock);
	return err;
}

static int stats_copy_out(void *dev, const struct arax_next *next, uint32_t lane, void *to,
			  uint64_t from, uint64_t bytes)
{
	struct stats *s = dev;
	uint64_t start = now_ns(), ns;
	int err = next->copy_out(next, lane, to, from, bytes);

	ns = now_ns() - start;
	pthread_mutex_lock(&s->lock);
	count(&s->out, ns, err);
	s->bytes_out += err ? 0 : bytes;
	pthread_mutex_unlock(&s->lock);
	return err;
}

static json_t *row_json(const struct row *r)
{
	return json_pack("{sI sI sI sI sI}", "count", (json_int_t)r->count, "errors",
			 (json_int_t)r->errors, "total_ns", (json_int_t)r->total_ns, "min_ns",
			 (json_int_t)r->min_ns, "max_ns", (json_int_t)r->max_ns);
}

static json_t *stats_json(struct stats *s)
{
	json_t *kernels = json_object();
	json_t *root;

	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->nr_rows; i++)
		json_object_set_new(kernels, s->rows[i].name, row_json(&s->rows[i]));
	root = json_pack("{so so so sI sI}", "kernels", kernels, "copy_in", row_json(&s->in),
			 "copy_out", row_json(&s->out), "bytes_in", (json_int_t)s->bytes_in,
			 "bytes_out", (json_int_t)s->bytes_out);
	pthread_mutex_unlock(&s->lock);
	return root;
}

static int stats_dump(void *instance, char *json, uint32_t len)
{
	json_t *root = stats_json(instance);
	size_t n;

	if (!root)
		return -ENOMEM;
	n = json_dumpb(root, json, len ? len - 1 : 0, 0);
	if (len)
		json[n < len ? n : len - 1] = '\0';
	json_decref(root);
	return (int)n;
}

static void write_out(struct stats *s)
{
	json_t *root = stats_json(s);
	struct stat st;
	int err = 0;

	if (!root)
		err = -ENOMEM;
	else if (!fstat(s->fd, &st) && S_ISREG(st.st_mode) && ftruncate(s->fd, 0))
		err = -errno;
	errno = EIO;
	if (!err && json_dumpfd(root, s->fd, JSON_INDENT(2)))
		err = -errno;
	if (err)
		log_err("the stats filter's figures are lost", log_str("file", s->file),
			log_errno(err));
	json_decref(root);
}

static void stats_destroy(void *instance)
{
	struct stats *s = instance;

	if (s->fd >= 0) {
		write_out(s);
		close(s->fd);
	}
	pthread_mutex_destroy(&s->lock);
	free(s->file);
	free(s);
}

const struct arax_filter stats_filter = {
	.struct_size = sizeof(stats_filter),
	.api_version = ARAX_BACKEND_API,
	.name = "stats",
	.longname = "count and time launches and copies",
	.create = stats_create,
	.destroy = stats_destroy,
	.config = stats_config,
	.config_complete = stats_config_complete,
	.open = stats_open,
	.run = stats_run,
	.copy_in = stats_copy_in,
	.copy_out = stats_copy_out,
	.dump = stats_dump,
};
