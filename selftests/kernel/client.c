// SPDX-License-Identifier: MIT
/* A client made of raw calls. */
#include "ktest.h"

#include <linux/memfd.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SECONDS	60	/* after which a completion does not come any more */

int open_node(const char *node)
{
	int fd = open(node, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int client_try(struct client *c, uint32_t depth, uint32_t entry_size, uint32_t arena)
{
	int err;

	memset(c, 0, sizeof(*c));
	c->fd = open_node("/dev/arax");
	if (c->fd < 0)
		return c->fd;
	c->init = NO_INIT(depth, entry_size, arena);
	err = CALL(c->fd, CONTEXT_INIT, &c->init);
	if (err) {
		close(c->fd);
		return err;
	}
	c->region = mmap(NULL, c->init.region_size, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->region == MAP_FAILED) {
		err = -errno;
		close(c->fd);
		return err;
	}
	c->ctl = (void *)c->region;
	return 0;
}

void client_open(struct client *c, uint32_t depth, uint32_t entry_size, uint32_t arena)
{
	CHECK_OK(client_try(c, depth, entry_size, arena));
}

void client_close(struct client *c)
{
	CHECK_SYS(munmap(c->region, c->init.region_size));
	CHECK_SYS(close(c->fd));
	c->fd = -1;
}

struct arax_task *client_task(struct client *c)
{
	struct arax_task *t = (void *)(c->region + c->init.sq_offset +
		(size_t)(c->tail & (c->init.depth - 1)) * c->init.entry_size);

	memset((uint8_t *)t + sizeof(t->seq), 0, c->init.entry_size - sizeof(t->seq));
	return t;
}

void client_publish(struct client *c)
{
	struct arax_task *t = (void *)(c->region + c->init.sq_offset +
		(size_t)(c->tail & (c->init.depth - 1)) * c->init.entry_size);

	/* Pairs with the core's acquire of the word. */
	__atomic_store_n(&t->seq, ++c->tail, __ATOMIC_RELEASE);
}

int client_submit(struct client *c, uint32_t n, uint32_t *submitted)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = n };
	int err = CALL(c->fd, SUBMIT, &s);

	if (submitted)
		*submitted = s.submitted;
	return err;
}

static void submit_one(struct client *c)
{
	uint32_t n;

	client_publish(c);
	CHECK_OK(client_submit(c, 1, &n));
	CHECK_EQ(n, 1);
}

void client_marker(struct client *c, uint32_t queue, uint64_t user_data, unsigned int flags)
{
	struct arax_task *t = client_task(c);

	t->opcode = ARAX_OP_MARKER;
	t->flags = (uint16_t)flags;
	t->user_data = user_data;
	t->queue = queue;
	submit_one(c);
}

void client_range_task(struct client *c, uint32_t queue, uint64_t user_data, unsigned int flags,
		       uint32_t buffer, unsigned int access, uint64_t offset, uint64_t length)
{
	struct arax_task *t = client_task(c);

	t->opcode = ARAX_OP_MARKER;
	t->flags = (uint16_t)flags;
	t->user_data = user_data;
	t->queue = queue;
	t->nr_ranges = 1;
	t->ranges[0] = (struct arax_range) { .buffer = buffer, .access = access, .offset = offset,
					     .length = length, .count = 1 };
	submit_one(c);
}

bool client_reap(struct client *c, struct arax_completion *out)
{
	struct arax_completion *e = (void *)(c->region + c->init.cq_offset +
		(size_t)(c->head & (c->init.depth - 1)) * sizeof(*e));

	/* Pairs with the core's release of the word. */
	if (__atomic_load_n(&e->seq, __ATOMIC_ACQUIRE) != c->head + 1)
		return false;
	*out = *e;
	__atomic_store_n(&c->ctl->cq_head, ++c->head, __ATOMIC_RELEASE);
	return true;
}

struct arax_completion client_wait(struct client *c)
{
	struct arax_submit s = { .size = sizeof(s), .min_complete = 1 };
	struct arax_completion e;

	if (client_reap(c, &e))
		return e;
	s.deadline_ns = now_ns() + SECONDS * 1000 * MS;
	CHECK_OK(CALL(c->fd, SUBMIT, &s));
	CHECK(client_reap(c, &e));
	return e;
}

void *client_arena(struct client *c, uint32_t offset)
{
	return c->region + c->init.arena_offset + offset;
}

uint32_t queue_new(struct client *c, unsigned int flags)
{
	struct arax_queue_create q = { .size = sizeof(q), .flags = flags };

	CHECK_OK(CALL(c->fd, QUEUE_CREATE, &q));
	CHECK(q.handle);
	return q.handle;
}

uint32_t timeline_new(struct client *c, uint64_t value)
{
	struct arax_timeline_create t = { .size = sizeof(t), .value = value };

	CHECK_OK(CALL(c->fd, TIMELINE_CREATE, &t));
	CHECK(t.handle);
	return t.handle;
}

int buffer_try(struct client *c, uint64_t bytes, struct arax_buffer_create *out)
{
	*out = (struct arax_buffer_create) { .size = sizeof(*out), .bytes = bytes, .fd = -1 };
	return CALL(c->fd, BUFFER_CREATE, out);
}

struct arax_buffer_create buffer_new(struct client *c, uint64_t bytes)
{
	struct arax_buffer_create b;

	CHECK_OK(buffer_try(c, bytes, &b));
	CHECK(b.handle);
	return b;
}

void *buffer_map(struct client *c, const struct arax_buffer_create *b)
{
	void *p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd,
		       (off_t)b->map_offset);

	CHECK(p != MAP_FAILED);
	return p;
}

int buffer_destroy(struct client *c, uint32_t handle)
{
	struct arax_handle h = { .size = sizeof(h), .handle = handle };

	return CALL(c->fd, BUFFER_DESTROY, &h);
}

struct arax_buffer_query buffer_query(struct client *c, uint32_t handle)
{
	struct arax_buffer_query q = { .size = sizeof(q), .handle = handle };

	CHECK_OK(CALL(c->fd, BUFFER_QUERY, &q));
	return q;
}

int buffer_export(struct client *c, uint32_t handle, unsigned int type)
{
	struct arax_buffer_export e = { .size = sizeof(e), .handle = handle, .type = type };
	int err = CALL(c->fd, BUFFER_EXPORT, &e);

	return err ? err : e.fd;
}

int buffer_import(struct client *c, unsigned int type, int fd, struct arax_buffer_import *out)
{
	*out = (struct arax_buffer_import) { .size = sizeof(*out), .type = type, .fd = fd };
	return CALL(c->fd, BUFFER_IMPORT, out);
}

struct arax_usage usage(struct client *c, unsigned int scope)
{
	struct arax_usage u = { .size = sizeof(u), .scope = scope };

	CHECK_OK(CALL(c->fd, USAGE_QUERY, &u));
	return u;
}

int udmabuf_new(int memfd, uint64_t bytes)
{
	struct udmabuf_create u = { .memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC,
				    .size = bytes };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		tap_skip("this kernel has no udmabuf");
	fd = ioctl(dev, UDMABUF_CREATE, &u);
	CHECK(fd >= 0);
	close(dev);
	return fd;
}

void bytes_fill(uint8_t *p, size_t n, unsigned int seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + seed);
}

bool bytes_filled(const uint8_t *p, size_t n, unsigned int seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (p[i] != (uint8_t)(i * 31 + seed))
			return false;
	return true;
}

int memfd_sealed(uint64_t bytes, unsigned int seals)
{
	int fd = (int)syscall(SYS_memfd_create, "ktest", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0);
	CHECK_SYS(ftruncate(fd, (off_t)bytes));
	CHECK_SYS(fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}
