// SPDX-License-Identifier: MIT
#include "daemon/observe/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/sched/sched.h"

struct trace {
	FILE *file;
	uint64_t start_ns;
	uint64_t bytes;
	bool full;		/* or broken: nothing more is written */
};

/*
 * Always a new one: whoever made, or has open, what was there under this name would read
 * what all tenants do.
 */
static int make_file(const char *path)
{
	struct stat st;
	int fd;

	if (!lstat(path, &st)) {
		if (!S_ISREG(st.st_mode))
			return -EINVAL;
		if (st.st_uid != geteuid())
			return -EPERM;
		if (unlink(path))
			return -errno;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

int trace_open(const char *path, struct trace **out)
{
	struct trace *t = calloc(1, sizeof(*t));
	struct timespec now;
	int fd, err;

	if (!t)
		return -ENOMEM;
	fd = make_file(path);
	t->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!t->file) {
		err = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		free(t);
		return err;
	}
	setvbuf(t->file, NULL, _IOFBF, 1 << 16);
	clock_gettime(CLOCK_MONOTONIC, &now);
	t->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	*out = t;
	return 0;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	trace_flush(t);
	fclose(t->file);
	free(t);
}

static void stop(struct trace *t, const char *why)
{
	if (!t->full)
		log_warn("the trace ends here", log_str("reason", why), log_u64("bytes", t->bytes));
	t->full = true;
}

void trace_flush(struct trace *t)
{
	if (fflush(t->file))
		stop(t, "it can't be written");
}

static const char *const accesses[] = { "none", "in", "out", "inout" };

static int put_ranges(FILE *f, const struct graph_node *node)
{
	int n = 0;

	for (uint32_t i = 0; i < node->d.nr_ranges; i++) {
		const struct arax_dispatch_range *r = &node->ranges[i];

		n += fprintf(f, "%s[%llu,%llu,%llu,\"%s\",%u,%u]", i ? "," : "",
			     r->buffer, r->offset, r->length, accesses[node->d.access >> 2 * i & 3],
			     r->stride, r->count);
	}
	return n;
}

struct then {
	FILE *file;
	int bytes;
};

static void put_successor(void *arg, const struct graph_node *node, uint32_t waits)
{
	struct then *t = arg;

	t->bytes += fprintf(t->file, "%s%" PRIu64, t->bytes ? "," : "", node->seq);
}

static int put_successors(FILE *f, const struct graph_node *node)
{
	struct then t = { .file = f };

	graph_each_successor(node, put_successor, &t);
	return t.bytes;
}

/* Since the start; what was before it counts as 0. */
static double since(const struct trace *t, uint64_t ns)
{
	return ns > t->start_ns ? (double)(ns - t->start_ns) / 1e3 : 0;
}

/* What a driver calls its device goes into a string of JSON: what is not ASCII as '?'. */
static const char *quoted(char *to, size_t size, const char *name)
{
	size_t n = 0;

	for (; *name && n + sizeof("\\u0000") <= size; name++) {
		unsigned char c = (unsigned char)*name;

		if (c < ' ' || c == '"' || c == '\\')
			n += (size_t)snprintf(to + n, size - n, "\\u%04x", c);
		else
			to[n++] = c < 0x7f ? *name : '?';
	}
	to[n] = '\0';
	return to;
}

/* How it was queued, where that is not as it mostly is. */
static int put_queue(const struct trace *t, const struct graph_node *node)
{
	const struct arax_dispatch *d = &node->d;
	int n = 0;

	if (!(d->queue_flags & ARAX_QUEUE_DATAFLOW))
		n += fprintf(t->file, ",\"in_order\":true");
	if (d->flags & ARAX_TASK_BARRIER)
		n += fprintf(t->file, ",\"barrier\":true");
	if (d->priority)
		n += fprintf(t->file, ",\"priority\":%d", d->priority);
	if (d->deadline_ns > d->submit_ns)
		n += fprintf(t->file, ",\"target_us\":%.3f",
			     (double)(d->deadline_ns - d->submit_ns) / 1e3);
	if (d->flags & ARAX_DISPATCH_BLOCKED && node->run_ns)
		n += fprintf(t->file, ",\"unblock_us\":%.3f", since(t, node->run_ns));
	return n;
}

void trace_task(struct trace *t, const struct graph_node *node, const struct trace_task *task)
{
	const struct arax_dispatch *d = &node->d;
	uint64_t work = sched_work(node);
	char device[6 * ARAX_NAME_LEN];
	int n;

	if (t->full)
		return;
	if (t->bytes > TRACE_MAX_BYTES) {
		stop(t, "it is full");
		return;
	}
	/*
	 * A kernel's name is letters, digits and signs that JSON takes as they are.  How much a
	 * launch is may be what no number holds, of one that is refused: readers want signed ones.
	 */
	n = fprintf(t->file,
		    "{\"seq\":%" PRIu64 ",\"link\":\"%s\",\"context\":%u,\"queue\":%u,"
		    "\"tenant\":\"%#llx\",\"tag\":\"%#llx\",\"kernel\":\"%s\","
		    "\"work\":%" PRIu64 ",\"submit_us\":%.3f,\"start_us\":%.3f,"
		    "\"enter_us\":%.3f,\"run_us\":%.3f,\"leave_us\":%.3f,\"device\":\"%s\","
		    "\"lane\":%u,\"result\":%d",
		    node->seq, task->link, d->context, d->queue, d->tenant, d->tag, task->kernel,
		    work < INT64_MAX ? work : INT64_MAX, since(t, d->submit_ns), since(t, task->start_ns),
		    (double)task->enter_ns / 1e3, (double)task->run_ns / 1e3,
		    (double)task->leave_ns / 1e3, quoted(device, sizeof(device), task->device),
		    task->lane, task->result);
	n += put_queue(t, node);
	if (task->late_ns)
		n += fprintf(t->file, ",\"late_us\":%.3f", (double)task->late_ns / 1e3);
	if (task->origin)
		n += fprintf(t->file, ",\"origin\":\"%#" PRIx64 "\"", task->origin);
	n += fprintf(t->file, ",\"ranges\":[");
	n += put_ranges(t->file, node);
	n += fprintf(t->file, "],\"then\":[");
	n += put_successors(t->file, node);
	n += fprintf(t->file, "]}\n");
	t->bytes += n > 0 ? (uint64_t)n : 0;
	if (ferror(t->file))
		stop(t, "it can't be written");
}
