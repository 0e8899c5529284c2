// SPDX-License-Identifier: MIT
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/device.h"
#include "daemon/config.h"
#include "daemon/dispatch/poller.h"
#include "daemon/link/broker.h"
#include "daemon/memory/guard.h"
#include "daemon/kernels/registry.h"
#include "daemon/observe/trace.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/tmp.h"
#include "selftests/unit/wait.h"

#define BROKERS	2

struct bench_daemon {
	struct config config;
	struct registry *registry;
	struct devices *devices;
	struct broker *brokers[BROKERS];
	struct poller *poller;
	int stopped;
	char paths[BROKERS][UNIT_TMP_LEN];
	uint32_t nr_brokers;
	bool public;
};

/* As link.kind = auto does with the module and the broker, of which a test has the latter. */
static void add_broker(struct bench_daemon *d)
{
	uint32_t i = d->nr_brokers++;
	struct broker_params bp = { .config = &d->config, .path = d->paths[i], .mode = 0600,
				    .own_admin = !d->public };
	char name[40];

	snprintf(name, sizeof(name), "arax-unit-%d.%u.sock", (int)getpid(), i);
	unit_tmp(d->paths[i], name);
	ck_assert_int_eq(broker_create(&bp, &d->brokers[i]), 0);
	ck_assert_int_eq(poller_add_link(d->poller, broker_link(d->brokers[i])), 0);
}

static struct bench_daemon *up(const char *conf, uint32_t brokers, bool public, const char *file)
{
	struct bench_daemon *d = calloc(1, sizeof(*d));
	struct trace *trace = NULL;
	char error[256] = "";
	uint32_t i;

	d->public = public;
	log_init(STDERR_FILENO, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	ck_assert_msg(!config_parse(&d->config, "test", conf, strlen(conf), error, sizeof(error)),
		      "%s", error);
	ck_assert_int_eq(guard_init(), 0);
	d->registry = registry_create();
	/* Made by the build; a prerequisite of these tests. */
	ck_assert_int_gt(registry_load_folder(d->registry, "build/lib/arax/kernels"), 0);
	ck_assert_int_eq(devices_open(&d->config, &d->devices), 0);
	ck_assert_int_eq(poller_create(&d->config, d->registry, d->devices, &d->poller), 0);
	if (file)
		ck_assert_int_eq(trace_open(file, &trace), 0);
	poller_set_trace(d->poller, trace);
	while (d->nr_brokers < brokers)
		add_broker(d);
	ck_assert_int_eq(poller_start(d->poller), 0);
	for (i = 0; i < brokers; i++)
		ck_assert_int_eq(broker_start(d->brokers[i]), 0);
	return d;
}

struct bench_daemon *daemon_up(void)
{
	return up("", 1, false, NULL);
}

struct bench_daemon *daemon_up_with(const char *conf)
{
	return up(conf, 1, false, NULL);
}

struct bench_daemon *daemon_up_twice(const char *conf)
{
	return up(conf, 2, false, NULL);
}

struct bench_daemon *daemon_up_public(void)
{
	return up("", 1, true, NULL);
}

struct bench_daemon *daemon_up_traced(const char *file)
{
	return up("", 1, false, file);
}

static void stopped(void *arg)
{
	struct bench_daemon *d = arg;

	__atomic_store_n(&d->stopped, 1, __ATOMIC_RELEASE);
}

void daemon_down(struct bench_daemon *d)
{
	char lock[80];
	uint32_t b;

	for (b = 0; b < d->nr_brokers; b++)
		broker_refuse(d->brokers[b]);
	poller_stop(d->poller, stopped, d);
	ck_assert(comes_true(__atomic_load_n(&d->stopped, __ATOMIC_ACQUIRE), 1000));
	for (b = 0; b < d->nr_brokers; b++)
		broker_stop(d->brokers[b]);
	poller_destroy(d->poller);
	for (b = 0; b < d->nr_brokers; b++)
		broker_destroy(d->brokers[b]);
	devices_close(d->devices);
	registry_destroy(d->registry);
	config_free(&d->config);
	guard_exit();
	for (b = 0; b < d->nr_brokers; b++) {
		snprintf(lock, sizeof(lock), "%s.lock", d->paths[b]);
		unlink(lock);
	}
	free(d);
}

uint64_t daemon_stolen(const struct bench_daemon *d)
{
	return __atomic_load_n(&d->poller->stats.stolen, __ATOMIC_RELAXED);
}

uint64_t daemon_visits(const struct bench_daemon *d)
{
	return __atomic_load_n(&d->poller->stats.visits, __ATOMIC_RELAXED);
}

void daemon_await_sleep(const struct bench_daemon *d)
{
	while (__atomic_load_n(&d->poller->door.state, __ATOMIC_ACQUIRE) != DOOR_OPEN)
		sched_yield();
}

void daemon_show(const struct bench_daemon *d)
{
	const struct poller *p = d->poller;
	uint32_t i;

	fprintf(stderr, "door %u, asleep %u, work %d, visited %d, unfinished %d, stopping %d\n",
		p->door.state, p->asleep, work_pending(&p->work), !!p->visitor, p->unfinished,
		p->stopping);
	fprintf(stderr, "running %u, queued %u, sleeps %llu, visits %llu, tasks %llu\n",
		p->running, sched_queued(p->sched), (unsigned long long)p->stats.sleeps,
		(unsigned long long)p->stats.visits, (unsigned long long)p->stats.tasks);
	fprintf(stderr, "role: holder asleep %u, standby asleep %u, claimed %u; wakes in %lld us\n",
		p->role.holder_asleep, p->role.standby_asleep, p->role.claimed,
		p->sleep_until == UINT64_MAX ? -1ll :
		((long long)p->sleep_until - (long long)monotonic_ns()) / 1000);
	for (i = 0; i < p->nr_devs; i++)
		fprintf(stderr, "device %u: busy places %#llx, %llu tasks\n", i,
			(unsigned long long)p->devs[i].runs_busy,
			(unsigned long long)p->devs[i].tasks);
	for (i = 0; i < p->nr_links; i++)
		fprintf(stderr, "link %s: head %u, %u live, %u commits kept, need_wakeup %u\n",
			p->links[i]->name, p->links[i]->head, (unsigned int)graph_live(p->links[i]->graph),
			p->links[i]->commit_count, p->links[i]->page->need_wakeup);
}

struct poller *daemon_poller(struct bench_daemon *d)
{
	return d->poller;
}

void daemon_enter(struct bench_daemon *d)
{
	while (!door_enter(&daemon_poller(d)->door))
		usleep(100);
}

void daemon_leave(struct bench_daemon *d)
{
	door_leave(&daemon_poller(d)->door);
	poller_kick(daemon_poller(d));
}

bool daemon_runs_canceled(struct bench_daemon *d)
{
	const struct link *l = daemon_poller(d)->links[0];
	bool found = false;

	daemon_enter(d);
	for (uint32_t slot = 0; slot < l->slots && !found; slot++) {
		const struct graph_node *node = graph_at(l->graph, slot);

		found = node && graph_node_state(node) == GRAPH_RUNNING &&
			graph_node_canceled(node);
	}
	daemon_leave(d);
	return found;
}

const char *daemon_path(const struct bench_daemon *d)
{
	return d->paths[0];
}

const char *daemon_second_path(const struct bench_daemon *d)
{
	return d->paths[1];
}

/* ------------------------------------------------------------------ */

int client_connect(struct client *c, const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	/* An answer that never comes fails where it is awaited, within the case's time. */
	const struct timeval answered = { .tv_sec = 150 };

	memset(c, 0, sizeof(*c));
	c->ring_fd = c->wake_fd = c->bell_fd = -1;
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(c->fd, 0);
	ck_assert_int_eq(setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &answered, sizeof(answered)), 0);
	strcpy(sa.sun_path, path);
	return connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
}

void client_open(struct client *c, const char *path)
{
	ck_assert_int_eq(client_connect(c, path), 0);
}

void client_close(struct client *c)
{
	if (c->region)
		munmap(c->region, c->layout.region_size);
	if (c->ring_fd >= 0) {
		close(c->ring_fd);
		close(c->wake_fd);
		close(c->bell_fd);
	}
	close(c->fd);
}

static bool try_send(struct client *c, uint32_t nr, const void *arg, size_t bytes, const int *fds,
		     uint32_t nr_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 8)];
	} control;
	struct arax_msg msg = { .nr = nr, .id = ++c->next_id, .nr_fds = nr_fds };
	struct iovec iov[2] = { { &msg, sizeof(msg) }, { (void *)arg, bytes } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

	if (nr_fds) {
		memset(&control, 0, sizeof(control));
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * nr_fds);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * nr_fds);
		memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * nr_fds);
	}
	return sendmsg(c->fd, &mh, MSG_NOSIGNAL) >= 0;
}

void client_send(struct client *c, uint32_t nr, const void *arg, size_t bytes, const int *fds,
		 uint32_t nr_fds)
{
	ck_assert(try_send(c, nr, arg, bytes, fds, nr_fds));
}

int client_receive(struct client *c, void *arg, size_t bytes, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t body[ARAX_MSG_MAX];
	struct arax_msg msg;
	struct iovec iov[2] = { { &msg, sizeof(msg) }, { body, sizeof(body) } };
	struct msghdr mh = {
		.msg_iov = iov, .msg_iovlen = 2,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(c->fd, &mh, MSG_CMSG_CLOEXEC);

	if (n <= 0)
		return -ECONNRESET;
	ck_assert_int_ge(n, sizeof(msg));
	ck_assert_uint_eq(msg.id, c->next_id);
	if (fd)
		*fd = -1;
	if (CMSG_FIRSTHDR(&mh) && fd)
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(*fd));
	if (arg && (size_t)n - sizeof(msg) == bytes)
		memcpy(arg, body, bytes);
	return msg.result;
}

int client_call(struct client *c, uint32_t nr, void *arg, size_t bytes, const int *fds,
		uint32_t nr_fds, int *fd)
{
	if (!try_send(c, nr, arg, bytes, fds, nr_fds))
		return -ECONNRESET;
	return client_receive(c, arg, bytes, fd);
}

int memfd_sealed(uint64_t bytes, int seals)
{
	int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	ck_assert_int_eq(fallocate(fd, 0, 0, (off_t)bytes), 0);
	if (seals)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

void client_send_init(struct client *c, uint32_t depth)
{
	struct arax_context_init a = {
		.size = sizeof(a), .depth = depth, .entry_size = 128, .ring_fd = 0, .wake_fd = 1,
		.doorbell_fd = -1,
	};
	struct arax_layout l;
	int fds[2];

	ck_assert_int_eq(arax_layout(depth, 128, 0, &l), 0);
	fds[0] = memfd_sealed(l.region_size, SEALS);
	fds[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	client_send(c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2);
	close(fds[0]);
	close(fds[1]);
}

int client_init(struct client *c, uint32_t depth)
{
	struct arax_context_init a = {
		.size = sizeof(a), .depth = depth, .entry_size = 128, .arena_size = 65536,
		.ring_fd = 0, .wake_fd = 1, .doorbell_fd = -1,
	};
	int fds[2], err;

	c->depth = depth;
	c->entry_size = 128;
	c->arena_size = a.arena_size;
	ck_assert_int_eq(arax_layout(depth, 128, a.arena_size, &c->layout), 0);
	c->ring_fd = memfd_sealed(c->layout.region_size, 0);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->region = mmap(NULL, c->layout.region_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 c->ring_fd, 0);
	fds[0] = c->ring_fd;
	fds[1] = c->wake_fd;
	a.wake_fd = -1;
	err = client_call(c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 1, NULL);
	a.wake_fd = 1;
	if (err == -EINPROGRESS) {
		ck_assert_int_eq(fcntl(c->ring_fd, F_ADD_SEALS, RING_SEALS), 0);
		err = client_call(c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2, &c->bell_fd);
	}
	c->context = a.context;
	if (!err)
		ck_assert_uint_eq(a.region_size, c->layout.region_size);
	return err;
}

uint32_t client_buffer(struct client *c, uint64_t bytes, uint8_t **data, int *keep)
{
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = bytes, .fd = 0 };
	int fd = memfd_sealed(bytes, SEALS);

	ck_assert_int_eq(client_call(c, ARAX_NR_BUFFER_CREATE, &a, sizeof(a), &fd, 1, NULL), 0);
	if (data)
		*data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (keep)
		*keep = fd;
	else
		close(fd);
	return a.handle;
}

uint32_t client_queue(struct client *c, uint32_t flags)
{
	struct arax_queue_create a = { .size = sizeof(a), .flags = flags };

	ck_assert_int_eq(CALL(c, ARAX_NR_QUEUE_CREATE, &a), 0);
	return a.handle;
}

struct arax_range whole(uint32_t handle, uint32_t access, uint64_t bytes)
{
	return (struct arax_range){ .buffer = handle, .access = access, .length = bytes,
				    .count = 1 };
}

struct arax_task *client_entry(struct client *c)
{
	struct arax_task *t = (void *)(c->region + c->layout.sq_offset +
				       (size_t)(c->sq_tail & (c->depth - 1)) * 128);

	memset((uint8_t *)t + 4, 0, 124);
	return t;
}

void client_publish_from(struct client *c, uint32_t first)
{
	struct arax_ring_ctl *ctl = (void *)c->region;
	const uint64_t one = 1;

	/* From the end: whoever finds the first one finds all. */
	for (uint32_t i = c->sq_tail; i-- != first;) {
		struct arax_task *t = (void *)(c->region + c->layout.sq_offset +
					       (size_t)(i & (c->depth - 1)) * 128);

		__atomic_store_n(&t->seq, i + 1, __ATOMIC_RELEASE);
	}
	/* Pairs with the poller's before it sleeps. */
	core_full_barrier();
	if (__atomic_load_n(&ctl->sq_need_wakeup, __ATOMIC_RELAXED))
		ck_assert_int_eq(write(c->bell_fd, &one, sizeof(one)), sizeof(one));
}

struct arax_task *client_spin(struct client *c, uint32_t kernel, uint32_t queue, uint32_t handle,
			      uint32_t us)
{
	struct arax_task *t = client_entry(c);
	uint32_t i;

	t->opcode = ARAX_OP_LAUNCH;
	t->kernel = kernel;
	t->queue = queue;
	t->nr_ranges = 1;
	t->ranges[0] = whole(handle, ARAX_INOUT, 64);
	for (i = 0; i < 3; i++)
		t->grid[i] = t->block[i] = 1;
	t->arg_len = 4;
	memcpy(t->args, &us, 4);
	return t;
}

void client_publish(struct client *c)
{
	client_publish_from(c, c->sq_tail++);
}

static struct arax_completion *next_completion(const struct client *c)
{
	return (void *)(c->region + c->layout.cq_offset +
			(size_t)(c->cq_head & (c->depth - 1)) * 64);
}

bool client_has_completion(const struct client *c)
{
	return __atomic_load_n(&next_completion(c)->seq, __ATOMIC_ACQUIRE) == c->cq_head + 1;
}

bool client_completion(struct client *c, struct arax_completion *out)
{
	struct arax_completion *e = next_completion(c);
	struct arax_ring_ctl *ctl = (void *)c->region;

	if (!comes_true(client_has_completion(c), 100))
		return false;
	*out = *e;
	__atomic_store_n(&ctl->cq_head, ++c->cq_head, __ATOMIC_RELEASE);
	return true;
}

void client_fill(struct client *c, uint32_t queue, uint32_t handle, uint64_t bytes,
		 uint32_t pattern, uint64_t user_data)
{
	struct arax_task *t = client_entry(c);

	t->opcode = ARAX_OP_FILL;
	t->nr_ranges = 1;
	t->queue = queue;
	t->user_data = user_data;
	t->arg_len = 4;
	memcpy(t->args, &pattern, 4);
	t->ranges[0] = whole(handle, ARAX_OUT, bytes);
	client_publish(c);
}
