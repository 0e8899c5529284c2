/* SPDX-License-Identifier: MIT */
/*
 * What the module's tests share: checks, a client, a mediator, children.
 * A failed check ends the process, which is one test.
 */
#ifndef ARAX_SELFTESTS_KERNEL_COMMON_H
#define ARAX_SELFTESTS_KERNEL_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kmod/core/layout.h"

#define MS	1000000ull
#define PATIENCE	(30000 * MS)	/* after which nothing comes any more */
#define PAGE	4096ul

enum { PASS, FAIL, SKIP = 4 };

#define FAIL_IF(cond) do { \
	if (cond) { \
		printf("# %s:%d: %s (errno %d, %s)\n", __func__, __LINE__, #cond, errno, \
		       strerror(errno)); \
		fflush(stdout); \
		_exit(FAIL); \
	} \
} while (0)
#define CHECK(cond)		FAIL_IF(!(cond))
#define CHECK_ERR(call, e)	do { \
	errno = 0; \
	long check_ret = (long)(call); \
	FAIL_IF(check_ret != -1 || errno != (e)); \
} while (0)
#define SKIP_TEST(why) do { \
	printf("# SKIP %s\n", why); \
	fflush(stdout); \
	_exit(SKIP); \
} while (0)

static inline uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Whether it comes to be within that time. */
#define COMES(cond) ({ \
	uint64_t end_ = now() + PATIENCE; \
	bool came_; \
	while (!(came_ = (cond)) && now() < end_) \
		usleep(10000); \
	came_; \
})

/* ------------------------------------------------------------------ */
/* A client                                                            */

struct client {
	int fd;
	struct arax_context_init init;
	uint8_t *region;
	struct arax_ring_ctl *ctl;
	uint32_t queue;
	uint32_t tail;
	uint32_t head;
};

static inline int client_node(void)
{
	int fd = open("/dev/arax", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* A context, its region and a queue; -1 if any of them is refused. */
static inline int client_try_open(struct client *c)
{
	struct arax_queue_create q = { .size = sizeof(q) };

	memset(c, 0, sizeof(*c));
	c->fd = client_node();
	c->init = (struct arax_context_init){
		.size = sizeof(c->init), .depth = 16, .entry_size = 128,
		.arena_size = PAGE, .ring_fd = -1, .wake_fd = -1,
	};
	if (ioctl(c->fd, ARAX_IOC_CONTEXT_INIT, &c->init))
		return -1;
	c->region = mmap(NULL, c->init.region_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 c->fd, 0);
	if (c->region == MAP_FAILED)
		return -1;
	c->ctl = (void *)c->region;
	if (ioctl(c->fd, ARAX_IOC_QUEUE_CREATE, &q))
		return -1;
	c->queue = q.handle;
	return 0;
}

static inline void client_open(struct client *c)
{
	CHECK(!client_try_open(c));
}

static inline void push_marker(struct client *c, uint64_t user_data, uint16_t flags)
{
	struct arax_task *t = (void *)(c->region + c->init.sq_offset + c->tail % 16 * 128);

	memset((uint8_t *)t + 4, 0, sizeof(*t) - 4);
	t->opcode = ARAX_OP_MARKER;
	t->flags = flags;
	t->user_data = user_data;
	t->queue = c->queue;
	__atomic_store_n(&t->seq, ++c->tail, __ATOMIC_RELEASE);
}

static inline int submit(struct client *c, uint32_t n, uint32_t min, uint64_t deadline)
{
	struct arax_submit a = { .size = sizeof(a), .to_submit = n, .min_complete = min,
				 .deadline_ns = deadline };
	int ret = ioctl(c->fd, ARAX_IOC_SUBMIT, &a);

	if (!ret)
		CHECK(a.submitted == n);
	return ret;
}

/* The next completion, or NULL. */
static inline struct arax_completion *pop(struct client *c)
{
	struct arax_completion *e = (void *)(c->region + c->init.cq_offset + c->head % 16 * 64);

	if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) != c->head + 1)
		return NULL;
	__atomic_store_n(&c->ctl->cq_head, ++c->head, __ATOMIC_RELEASE);
	return e;
}

static inline struct arax_buffer_create make_buffer(int fd, uint64_t bytes)
{
	struct arax_buffer_create b = { .size = sizeof(b), .bytes = bytes, .fd = -1 };

	CHECK(!ioctl(fd, ARAX_IOC_BUFFER_CREATE, &b));
	return b;
}

static inline int destroy_buffer(int fd, uint32_t handle)
{
	struct arax_handle h = { .size = sizeof(h), .handle = handle };

	return ioctl(fd, ARAX_IOC_BUFFER_DESTROY, &h);
}

static inline void *map_buffer(int fd, const struct arax_buffer_create *b)
{
	return mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, b->map_offset);
}

static inline int export_buffer(int fd, uint32_t handle, uint32_t type)
{
	struct arax_buffer_export e = { .size = sizeof(e), .handle = handle, .type = type };

	return ioctl(fd, ARAX_IOC_BUFFER_EXPORT, &e) ? -1 : e.fd;
}

static inline int import_buffer(int fd, uint32_t type, int source, struct arax_buffer_import *i)
{
	*i = (struct arax_buffer_import){ .size = sizeof(*i), .type = type, .fd = source };
	return ioctl(fd, ARAX_IOC_BUFFER_IMPORT, i);
}

static inline uint64_t buffer_id(int fd, uint32_t handle)
{
	struct arax_buffer_query q = { .size = sizeof(q), .handle = handle };

	CHECK(!ioctl(fd, ARAX_IOC_BUFFER_QUERY, &q));
	return q.id;
}

static inline int ctl_node(void)
{
	int fd = open("/dev/arax-ctl", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* Pinned bytes of all. */
static inline uint64_t all_memory(int ctl)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1, .id = 1 };

	if (ioctl(ctl, ARAX_IOC_TENANT_QUERY, &t)) {
		CHECK(errno == ENOENT);
		return 0;
	}
	CHECK(t.parent == 0);
	return t.usage.counters[ARAX_RES_MEMORY].used;
}

/* Files are closed a little after their process: what must come, comes soon. */
static inline bool settles_to(int ctl, uint64_t bytes)
{
	return COMES(all_memory(ctl) == bytes);
}

static inline bool contexts_are_gone(int ctl)
{
	struct arax_context c = { .size = sizeof(c) };

	return ioctl(ctl, ARAX_IOC_CONTEXT_QUERY, &c) && errno == ENOENT;
}

/* ------------------------------------------------------------------ */
/* A mediator                                                          */

struct mediator {
	int fd;
	struct arax_attach at;
	const uint8_t *ring;
	uint8_t *shared;
	struct arax_mediator_page *page;
	uint32_t head;
	uint32_t committed;
};

static inline int attach_to(struct mediator *m, uint32_t flags)
{
	m->at = (struct arax_attach){ .size = sizeof(m->at), .flags = flags };
	if (ioctl(m->fd, ARAX_IOC_ATTACH, &m->at))
		return -1;
	m->ring = mmap(NULL, m->at.dispatch_bytes, PROT_READ, MAP_SHARED, m->fd,
		       m->at.dispatch_offset);
	m->shared = mmap(NULL, m->at.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd,
			 m->at.shared_offset);
	/* Another one may have taken over already. */
	if (m->ring == MAP_FAILED || m->shared == MAP_FAILED)
		return -1;
	m->page = (void *)m->shared;
	m->head = 0;
	return 0;
}

/* Where another test's mediator has only just died, it takes a moment. */
static inline void attach(struct mediator *m, uint32_t flags)
{
	memset(m, 0, sizeof(*m));
	m->fd = ctl_node();
	CHECK(COMES(!attach_to(m, flags) || errno != EBUSY) && m->page);
}

static inline const struct arax_dispatch *next_entry(struct mediator *m)
{
	const struct arax_dispatch *d;

	for (;;) {
		d = (const void *)(m->ring + (m->head & (m->at.cells - 1)) * ARAX_CELL_SIZE);
		if (__atomic_load_n(&d->seq, __ATOMIC_ACQUIRE) != m->head + 1)
			return NULL;
		m->head += d->cells;
		__atomic_store_n(&m->page->head, m->head, __ATOMIC_RELEASE);
		if (d->type != ARAX_DISPATCH_PAD)
			return d;
	}
}

static inline int commit_one(struct mediator *m, uint64_t tag, int result, uint32_t *stale)
{
	struct arax_commit_entry *e = (void *)(m->shared + m->page->commits_offset);
	struct arax_commit c = { .size = sizeof(c), .count = 1 };
	int ret;

	c.first = m->committed++;
	e += c.first % m->at.commit_entries;
	*e = (struct arax_commit_entry){ .tag = tag, .result = result };
	ret = ioctl(m->fd, ARAX_IOC_COMMIT, &c);
	if (stale)
		*stale = c.stale;
	return ret;
}

static inline pid_t in_child(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(arg);
		_exit(PASS);
	}
	return pid;
}

static inline bool child_passed(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == PASS;
}

#endif /* ARAX_SELFTESTS_KERNEL_COMMON_H */
