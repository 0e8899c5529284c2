/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the module share: a client and a mediator made of raw
 * calls, and the books, which must be at zero after every test.
 *
 * KTEST(name) { ... } is a test: it runs in a process of its own, as root, and
 * fails if a check does, if it crashes or hangs, or if the module still counts
 * anything for it afterwards.
 */
#ifndef KERNEL_KTEST_H
#define KERNEL_KTEST_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "kmod/core/layout.h"
#include "selftests/system/tap.h"
#include "uapi/arax.h"

#define PAGE	4096ul
#define MS	1000000ull
#define USER1	1001
#define USER2	1002

/* A call that must succeed, or fail with the given errno. */
#define CHECK_SAME(text, a, b) do { \
	long long a_ = (long long)(a), b_ = (long long)(b); \
	if (a_ != b_) \
		tap_fail(__FILE__, __LINE__, text, a_, b_); \
} while (0)
#define CHECK_OK(expr)		CHECK_SAME(#expr " is 0", expr, 0)
#define CHECK_ERR(expr, err)	CHECK_SAME(#expr " is " #err, expr, -(err))
/* For system calls of the C library. */
#define CHECK_SYS(expr)		CHECK_SAME(#expr " is well", (expr) < 0 ? -errno : 0, 0)
#define CHECK_SYS_ERR(expr, err) \
	CHECK_SAME(#expr " is " #err, (long long)(expr) == -1 ? -errno : 0, -(err))

#define KTEST(fn) \
	static void fn##_body(void); \
	static void fn##_test(void) \
	{ \
		ktest_run(fn##_body); \
	} \
	static struct test fn##_entry = { #fn, fn##_test, NULL }; \
	__attribute__((constructor)) static void fn##_register(void) \
	{ \
		tap_register(&fn##_entry); \
	} \
	static void fn##_body(void)

void ktest_run(void (*body)(void));
/* More rounds where KTEST_SOAK is set, fewer on a kernel full of checkers. */
int ktest_rounds(int stock);
bool ktest_debug_kernel(void);

uint64_t now_ns(void);
void sleep_ms(unsigned int ms);
/* Whether it comes to be: what has not within 60 s never does. */
#define COMES(cond) ({ \
	uint64_t end_ = now_ns() + 60000 * MS; \
	bool came_; \
	while (!(came_ = (cond)) && now_ns() < end_) \
		sleep_ms(5); \
	came_; \
})
/* 0 or -errno */
int call(int fd, unsigned long request, void *arg);
#define CALL(fd, NR, ...)	call(fd, ARAX_IOC_##NR, __VA_ARGS__)

/* ------------------------------------------------------------------ */
/* Clients                                                             */

struct client {
	int fd;
	uint8_t *region;
	struct arax_ring_ctl *ctl;
	struct arax_context_init init;
	uint32_t tail;		/* entries published */
	uint32_t head;		/* completions read */
};

#define NO_INIT(d, e, a) (struct arax_context_init) { .size = sizeof(struct arax_context_init), \
	.depth = d, .entry_size = e, .arena_size = a, .ring_fd = -1, .wake_fd = -1, \
	.doorbell_fd = -1 }

int open_node(const char *node);	/* descriptor or -errno */
int client_try(struct client *c, uint32_t depth, uint32_t entry_size, uint32_t arena);
void client_open(struct client *c, uint32_t depth, uint32_t entry_size, uint32_t arena);
void client_close(struct client *c);

/* The next free entry, empty and not published; then publish it. */
struct arax_task *client_task(struct client *c);
void client_publish(struct client *c);
/* Submits @n; 0 or -errno, and how many were consumed. */
int client_submit(struct client *c, uint32_t n, uint32_t *submitted);
/* One marker on @queue: published and submitted. */
void client_marker(struct client *c, uint32_t queue, uint64_t user_data, unsigned int flags);
/* A task with one range. */
void client_range_task(struct client *c, uint32_t queue, uint64_t user_data, unsigned int flags,
		       uint32_t buffer, unsigned int access, uint64_t offset, uint64_t length);
/* Takes a completion off the ring, if there is one. */
bool client_reap(struct client *c, struct arax_completion *out);
/* It must come within seconds. */
struct arax_completion client_wait(struct client *c);
void *client_arena(struct client *c, uint32_t offset);

uint32_t queue_new(struct client *c, unsigned int flags);
uint32_t timeline_new(struct client *c, uint64_t value);
struct arax_buffer_create buffer_new(struct client *c, uint64_t bytes);
int buffer_try(struct client *c, uint64_t bytes, struct arax_buffer_create *out);
void *buffer_map(struct client *c, const struct arax_buffer_create *b);
int buffer_destroy(struct client *c, uint32_t handle);
struct arax_buffer_query buffer_query(struct client *c, uint32_t handle);
int buffer_export(struct client *c, uint32_t handle, unsigned int type);
int buffer_import(struct client *c, unsigned int type, int fd, struct arax_buffer_import *out);
struct arax_usage usage(struct client *c, unsigned int scope);
/* Byte i of a seed is 31 * i + seed: as the borrower has it, too. */
void bytes_fill(uint8_t *p, size_t n, unsigned int seed);
bool bytes_filled(const uint8_t *p, size_t n, unsigned int seed);
int memfd_sealed(uint64_t bytes, unsigned int seals);
/* Skips the test where there is none. */
int udmabuf_new(int memfd, uint64_t bytes);

/* ------------------------------------------------------------------ */
/* A mediator                                                          */

struct mediator {
	int fd;
	struct arax_attach at;
	const uint8_t *ring;
	uint8_t *shared;
	struct arax_mediator_page *page;
	uint32_t *states;
	struct arax_commit_entry *commits;
	uint32_t next_commit;
};

/* An entry of the dispatch ring, taken out. */
struct work {
	struct arax_dispatch d;
	struct arax_dispatch_range ranges[ARAX_MAX_RANGES];
	uint8_t args[ARAX_MAX_ARGS];
};

int mediator_try(struct mediator *m, unsigned int flags);
/* Waits while an old one is not wholly gone. */
void mediator_open(struct mediator *m, unsigned int flags);
void mediator_close(struct mediator *m);
/* The next entry, if there is one: copied, and its cells given back. */
bool mediator_take(struct mediator *m, struct work *w);
/* It must come within seconds. */
struct work mediator_wait(struct mediator *m);
/* Entries of other types than TASK are skipped. */
struct work mediator_task(struct mediator *m);
struct work mediator_note(struct mediator *m, unsigned int type);
void mediator_start(struct mediator *m, uint64_t tag);
/* Puts an entry into the commit area; mediator_flush() hands them over. */
struct arax_commit_entry *mediator_result(struct mediator *m, uint64_t tag, int result);
struct arax_commit mediator_flush(struct mediator *m, uint32_t count);
/* One task is done; must not be stale. */
void mediator_done(struct mediator *m, uint64_t tag, int result);
int mediator_get(struct mediator *m, uint64_t id, struct arax_buffer_get *out);
uint32_t kernel_publish(struct mediator *m, const char *name, const struct arax_signature *sig);

/*
 * A thread that serves the dispatch ring until stopped, with faults on demand.
 */
struct server {
	struct mediator *m;
	unsigned int delay_us;		/* before each commit */
	unsigned int drop_every;	/* never commit each so manieth */
	unsigned int twice_every;	/* commit it again at once */
	unsigned int wrong_every;	/* first with a tag of another epoch */
	int result;
	/* out */
	unsigned long served, dropped, stale;
	volatile bool stop;
	unsigned long thread;
};

void server_start(struct server *s, struct mediator *m);
void server_stop(struct server *s);

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

/* Makes a cgroup below the root (with memory in it), and its descriptor. */
int cgroup_new(const char *path);
void cgroup_remove(const char *path);
void cgroup_enter(const char *path);
void cgroup_write(const char *path, const char *file, const char *text);
long long cgroup_read(const char *path, const char *file, const char *key);
int limit_set(int ctl, int cgroup, unsigned int what, uint64_t value);
struct arax_tenant tenant_query(int ctl, int cgroup);

/* ------------------------------------------------------------------ */
/* Processes                                                           */

/* Forks a child that runs @fn and ends with its value, or fails. */
pid_t child_run(int (*fn)(void *arg), void *arg);
/* Its exit status; a signal is 1000 + its number. */
int child_wait(pid_t pid);
void become(unsigned int uid);
/* Two processes meet: one says, the other hears (a pipe). */
struct meet {
	int fd[2];
};
void meet_init(struct meet *m);
void meet_say(struct meet *m);
void meet_hear(struct meet *m);
void fd_send(int socket, int fd);
int fd_receive(int socket);
/* Does reading (or writing) that byte raise a signal? */
bool faults(volatile void *address, bool write);
unsigned int count_fds(void);
int write_text(const char *path, const char *text);
long long read_number(const char *path);
/* A context's id by its process, or 0. */
uint32_t context_of(int ctl, pid_t pid);

#endif
