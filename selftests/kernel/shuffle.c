// SPDX-License-Identifier: MIT
/*
 * What a process can do with buffers' handles, files and mappings, in any order, beside a
 * model that says what must come of it: which calls fail and how, which bytes a page
 * has, which stores fault (none but those to revoked pages), and what stays charged.
 */
#include "ktest.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define BUFFERS	6
#define PAGES	4		/* of each */
#define MAPS	10
#define EXPORTS	6
#define IMPORTS	6
#define CHILDREN 8
#define STEPS	80

static struct client c;		/* who makes the buffers, until it closes its file */
static struct client d;		/* who imports them */

static struct buffer {
	struct arax_buffer_create b;
	bool handle;
	bool lingers;		/* the handle does, while a child has the closed file */
	bool revoked;
	uint8_t value[PAGES];
} buffers[BUFFERS];

/* A mapping, in pieces: each page can be moved and unmapped by itself. */
static struct map {
	struct buffer *of;
	uint8_t *at[PAGES];
} maps[MAPS];

static struct export {
	struct buffer *of;	/* NULL: none */
	unsigned int type;
	int fd;
} exports[EXPORTS];

static struct import {
	struct buffer *of;
	struct arax_buffer_import i;
} imports[IMPORTS];

static unsigned int seed;
static pid_t children[CHILDREN];

static unsigned int any(unsigned int n)
{
	return (unsigned int)rand_r(&seed) / 7 % n;
}

/* Of the core's: who has a handle. */
static bool used(const struct buffer *b)
{
	unsigned int i;

	for (i = 0; i < IMPORTS; i++)
		if (imports[i].of == b)
			return true;
	return b->handle;
}

static bool kept(const struct buffer *b)
{
	unsigned int i, p;

	for (i = 0; i < EXPORTS; i++)
		if (exports[i].of == b)
			return true;
	for (i = 0; i < MAPS; i++)
		for (p = 0; p < PAGES; p++)
			if (maps[i].of == b && maps[i].at[p])
				return true;
	return used(b);
}

/* ------------------------------------------------------------------ */
/* Steps                                                               */

static void unmap_page(struct map *m, unsigned int p)
{
	if (m->at[p])
		CHECK_SYS(munmap(m->at[p], PAGE));
	m->at[p] = NULL;
}

static bool is_whole(const struct map *m)
{
	unsigned int p;

	for (p = 0; p < PAGES; p++)
		if (!m->at[p] || m->at[p] != m->at[0] + p * PAGE)
			return false;
	return true;
}

/* In one piece if it is one, else page by page. */
static void unmap(struct map *m)
{
	unsigned int p;

	if (is_whole(m)) {
		CHECK_SYS(munmap(m->at[0], PAGES * PAGE));
		memset(m->at, 0, sizeof(m->at));
	}
	for (p = 0; p < PAGES; p++)
		unmap_page(m, p);
}

static void map_by(struct map *m, int fd, struct buffer *b, uint64_t offset, bool handle)
{
	unsigned int p;
	uint8_t *at;

	unmap(m);
	at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (fd < 0) {
		CHECK_EQ(at == MAP_FAILED ? errno : 0, EBADF);
	} else if (!handle) {
		CHECK_EQ(at == MAP_FAILED ? errno : 0, EINVAL);
	} else if (b->revoked) {
		CHECK_EQ(at == MAP_FAILED ? errno : 0, ESTALE);
	} else {
		CHECK(at != MAP_FAILED);
		m->of = b;
		for (p = 0; p < PAGES; p++)
			m->at[p] = at + p * PAGE;
	}
}

static void map_own(struct map *m)
{
	struct buffer *b = &buffers[any(BUFFERS)];

	map_by(m, c.fd, b, b->b.map_offset, b->handle);
}

static void map_import(struct map *m)
{
	struct import *i = &imports[any(IMPORTS)];

	if (i->of)
		map_by(m, d.fd, i->of, i->i.map_offset, true);
}

static uint8_t *elsewhere(size_t n)
{
	uint8_t *to = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(to != MAP_FAILED);
	return to;
}

/* One page, or all if they are in one piece. */
static void move(struct map *m)
{
	unsigned int p = any(PAGES), n = is_whole(m) && any(2) ? PAGES : 1, i;
	uint8_t *to;

	if (n == PAGES)
		p = 0;
	if (!m->at[p])
		return;
	to = elsewhere(n * PAGE);
	CHECK(mremap(m->at[p], n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	for (i = 0; i < n; i++)
		m->at[p + i] = to + i * PAGE;
}

/* More of it there is by mmap() only: else mremap() from no bytes would make a second mapping. */
static void grow(struct map *m)
{
	unsigned int p = any(PAGES);

	if (!m->at[p])
		return;
	CHECK_SYS_ERR((intptr_t)mremap(m->at[p], 0, PAGE, MREMAP_MAYMOVE), EFAULT);
	CHECK_SYS_ERR((intptr_t)mremap(m->at[p], PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
}

static void destroy(struct buffer *b)
{
	CHECK_EQ(buffer_destroy(&c, b->b.handle), b->handle ? 0 : -EBADF);
	b->handle = false;
}

static void take_back(struct buffer *b)
{
	struct arax_handle h = { .size = sizeof(h), .handle = b->b.handle };

	CHECK_EQ(CALL(c.fd, BUFFER_REVOKE, &h), b->handle ? 0 : -EBADF);
	b->revoked |= b->handle;
}

static void drop_export(struct export *e)
{
	if (e->of)
		CHECK_SYS(close(e->fd));
	e->of = NULL;
}

static void export(struct export *e)
{
	struct buffer *b = &buffers[any(BUFFERS)];

	drop_export(e);
	e->type = any(2) ? ARAX_EXPORT_DMABUF : ARAX_EXPORT_ARAX;
	e->fd = buffer_export(&c, b->b.handle, e->type);
	if (!b->handle)
		CHECK_EQ(e->fd, -EBADF);
	else if (b->revoked)
		CHECK_EQ(e->fd, -ESTALE);
	else
		CHECK(e->fd >= 0);
	if (e->fd >= 0)
		e->of = b;
}

static void drop_import(struct import *i)
{
	if (i->of)
		CHECK_OK(buffer_destroy(&d, i->i.handle));
	i->of = NULL;
}

static void import(struct import *i)
{
	struct export *e = &exports[any(EXPORTS)];
	int err;

	drop_import(i);
	if (!e->of)
		return;
	err = buffer_import(&d, e->type == ARAX_EXPORT_DMABUF ? ARAX_IMPORT_DMABUF :
			    ARAX_IMPORT_ARAX, e->fd, &i->i);
	/* It lingers until that child ends, at its own time. */
	if (e->of->lingers && !used(e->of))
		CHECK(err == -ESTALE || (!err && !e->of->revoked));
	else
		CHECK_EQ(err, e->of->revoked || !used(e->of) ? -ESTALE : 0);
	if (!err)
		i->of = e->of;
}

static void close_it(void)
{
	unsigned int i;

	CHECK_SYS(close(c.fd));
	c.fd = -1;
	/* From now on there is no telling a bad handle from a bad file: both are EBADF. */
	for (i = 0; i < BUFFERS; i++) {
		buffers[i].lingers = buffers[i].handle && children[0];
		buffers[i].handle = false;
	}
}

/* ------------------------------------------------------------------ */
/* What must hold                                                      */

/* Each page that is mapped, wherever it is by now. */
static void look(bool write)
{
	unsigned int i, p;

	for (i = 0; i < MAPS; i++) {
		for (p = 0; p < PAGES; p++) {
			struct buffer *b = maps[i].of;
			uint8_t *at = maps[i].at[p];

			if (!at)
				continue;
			CHECK_EQ(faults(at + 77, false), b->revoked);
			if (b->revoked)
				continue;
			CHECK_EQ(at[77], b->value[p]);
			if (write)
				at[77] = ++b->value[p];
		}
	}
}

/* What the child has inherited goes with it, or before, and is no affair of its parent's. */
static void child(struct meet *seen)
{
	unsigned int i;

	look(false);
	meet_say(seen);
	for (i = 0; i < MAPS; i++) {
		if (any(2))
			unmap(&maps[i]);
		else if (any(2))
			move(&maps[i]);
	}
	if (any(2) && c.fd >= 0)
		CHECK_SYS(close(c.fd));
	for (i = 0; i < EXPORTS; i++)
		if (any(2))
			drop_export(&exports[i]);
	usleep(any(3000));
}

static void fork_one(void)
{
	struct meet seen;
	unsigned int i;

	for (i = 0; i < CHILDREN && children[i]; i++)
		;
	if (i == CHILDREN)
		return;
	meet_init(&seen);
	fflush(stdout);
	children[i] = fork();
	CHECK(children[i] >= 0);
	if (!children[i]) {
		child(&seen);
		fflush(stdout);
		_exit(0);
	}
	/* What it has to see must not change before. */
	meet_hear(&seen);
	close(seen.fd[0]);
	close(seen.fd[1]);
}

static void step(void)
{
	struct map *m = &maps[any(MAPS)];

	switch (any(14)) {
	case 0:
	case 1:
		return map_own(m);
	case 2:
		return map_import(m);
	case 3:
		return unmap(m);
	case 4:
		return unmap_page(m, any(PAGES));
	case 5:
		return move(m);
	case 6:
		return grow(m);
	case 7:
		return destroy(&buffers[any(BUFFERS)]);
	case 8:
		return export(&exports[any(EXPORTS)]);
	case 9:
		return import(&imports[any(IMPORTS)]);
	case 10:
		return any(2) ? drop_export(&exports[any(EXPORTS)]) :
				drop_import(&imports[any(IMPORTS)]);
	case 11:
		return fork_one();
	case 12:
		if (!any(3))
			take_back(&buffers[any(BUFFERS)]);
		return;
	case 13:
		if (!any(3) && c.fd >= 0)
			close_it();
	}
}

static int shuffle(void *arg)
{
	uint64_t bytes, was = ~0ull;
	unsigned int i;

	seed = *(unsigned int *)arg;
	client_open(&c, 4, 128, 0);
	client_open(&d, 4, 128, 0);
	bytes = c.init.region_size + d.init.region_size;
	for (i = 0; i < BUFFERS; i++) {
		buffers[i].b = buffer_new(&c, PAGES * PAGE);
		buffers[i].handle = true;
	}
	for (i = 0; i < STEPS; i++) {
		step();
		look(true);
	}
	for (i = 0; i < CHILDREN; i++)
		if (children[i])
			CHECK_OK(child_wait(children[i]));
	for (i = 0; i < BUFFERS; i++)
		bytes += kept(&buffers[i]) ? PAGES * PAGE : 0;
	/* A file's end comes a little after its last descriptor's; then it is exact. */
	for (i = 0; i < 2000 && was != bytes; i++) {
		was = usage(&d, ARAX_USAGE_TENANT).counters[ARAX_RES_MEMORY].used;
		if (was != bytes)
			sleep_ms(5);
	}
	CHECK_EQ(was, bytes);
	/* Whether it was closed, for the count of those below. */
	return c.fd < 0 ? 2 : 3;
}

KTEST(fork_mremap_munmap_and_close_in_every_order)
{
	unsigned int n, rounds = (unsigned int)ktest_rounds(150), closed = 0;
	int status;

	for (n = 1; n <= rounds; n++) {
		status = child_wait(child_run(shuffle, &n));
		if (status != 2 && status != 3) {
			printf("# seed %u: %d\n", n, status);
			CHECK(false);
		}
		closed += status == 2;
	}
	printf("# %u orders, in %u the context was closed before the end\n", rounds, closed);
	CHECK(closed && closed < rounds);
}
