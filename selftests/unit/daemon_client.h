/* SPDX-License-Identifier: MIT */
/*
 * daemon_client.h - a broker in this process, and bare sockets and rings to it
 *
 * Tests speak the contract itself here, so that they can break it.
 */
#ifndef SELFTESTS_UNIT_DAEMON_CLIENT_H
#define SELFTESTS_UNIT_DAEMON_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "kmod/core/core.h"
#include "uapi/arax.h"

/* araxd without main(): CPU devices, the broker on a socket of its own. */
struct bench_daemon;
struct bench_daemon *daemon_up(void);
/* With lines of araxd.conf. */
struct bench_daemon *daemon_up_with(const char *conf);
/* With a second broker, of the same poller. */
struct bench_daemon *daemon_up_twice(const char *conf);
/* One that records its tasks in @file. */
struct bench_daemon *daemon_up_traced(const char *file);
/* One that is not its user's own: root administrates it, if it is root in earnest. */
struct bench_daemon *daemon_up_public(void);
void daemon_down(struct bench_daemon *d);
/* How often the standby had to take the polling over. */
uint64_t daemon_stolen(const struct bench_daemon *d);
/* How often devices' threads did the sleeping poller's work. */
uint64_t daemon_visits(const struct bench_daemon *d);
/* Till the poller sleeps with its door open. */
void daemon_await_sleep(const struct bench_daemon *d);
/* What it is at, to stderr, without regard to who changes it: it is stuck. */
void daemon_show(const struct bench_daemon *d);
struct poller *daemon_poller(struct bench_daemon *d);
/* A visit to the poller, which sleeps until it ends. */
void daemon_enter(struct bench_daemon *d);
void daemon_leave(struct bench_daemon *d);
/* A task that is canceled and runs, or counts as if it did. */
bool daemon_runs_canceled(struct bench_daemon *d);
const char *daemon_path(const struct bench_daemon *d);
const char *daemon_second_path(const struct bench_daemon *d);

struct client {
	int fd;
	int ring_fd, wake_fd, bell_fd;
	uint8_t *region;
	struct arax_layout layout;
	uint32_t depth, entry_size, arena_size;
	uint32_t sq_tail, cq_head;
	uint32_t context;
	uint32_t next_id;
};

/* 0 or what connect() says; client_close() in any case. */
int client_connect(struct client *c, const char *path);
/* Connected, no rings. */
void client_open(struct client *c, const char *path);
void client_close(struct client *c);
/* Raw: one message. @fds may be NULL. */
void client_send(struct client *c, uint32_t nr, const void *arg, size_t bytes, const int *fds,
		 uint32_t nr_fds);
/*
 * The answer to the message sent last or, if @id is not 0, of that id.  Returns the
 * result; @fd gets an attached descriptor or -1.  -ECONNRESET: hung up.
 */
int client_receive(struct client *c, void *arg, size_t bytes, int *fd);
int client_call(struct client *c, uint32_t nr, void *arg, size_t bytes, const int *fds,
		uint32_t nr_fds, int *fd);
#define CALL(c, nr, arg)	client_call(c, nr, arg, sizeof(*(arg)), NULL, 0, NULL)

int memfd_sealed(uint64_t bytes, int seals);
#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RING_SEALS	(SEALS | F_SEAL_FUTURE_WRITE)	/* when the broker has mapped it */
int client_init(struct client *c, uint32_t depth);
/* Asks for rings, of its own, without waiting for the answer. */
void client_send_init(struct client *c, uint32_t depth);
/* A mapped buffer; its handle. */
uint32_t client_buffer(struct client *c, uint64_t bytes, uint8_t **data, int *fd);
uint32_t client_queue(struct client *c, uint32_t flags);
struct arax_range whole(uint32_t handle, uint32_t access, uint64_t bytes);

struct arax_task *client_entry(struct client *c);
/* The same, filled: a launch of the kernel "spin", whose id is @kernel. */
struct arax_task *client_spin(struct client *c, uint32_t kernel, uint32_t queue, uint32_t handle,
			      uint32_t us);
void client_publish(struct client *c);	/* and rings if it must */
/* Entries from @first on, at once; each was followed by ++@c->sq_tail. */
void client_publish_from(struct client *c, uint32_t first);
bool client_has_completion(const struct client *c);
/* Waits for long (see wait.h); false: none came. */
bool client_completion(struct client *c, struct arax_completion *out);
void client_fill(struct client *c, uint32_t queue, uint32_t handle, uint64_t bytes,
		 uint32_t pattern, uint64_t user_data);

#endif /* SELFTESTS_UNIT_DAEMON_CLIENT_H */
