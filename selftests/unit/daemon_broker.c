// SPDX-License-Identifier: MIT
/* The broker over its real socket, core, graph, scheduler and CPU devices. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/link/broker_impl.h"
#include "daemon/link/holdings.h"
#include "daemon/link/wake.h"
#include "daemon/log.h"
#include "selftests/unit/daemon_client.h"
#include "selftests/unit/refuse_call.h"
#include "selftests/unit/tmp.h"
#include "selftests/unit/wait.h"

#ifndef SYS_cachestat
#define SYS_cachestat	451
#endif

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77
#endif

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif

#define PAGE	4096u

static struct bench_daemon *d;
static struct client c;

static void up(void)
{
	d = daemon_up();
	client_open(&c, daemon_path(d));
}

static void down(void)
{
	client_close(&c);
	daemon_down(d);
}

static void ready(uint32_t depth)
{
	ck_assert_int_eq(client_init(&c, depth), 0);
}

START_TEST(says_what_it_is)
{
	struct arax_info a = { .size = sizeof(a) };

	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
	ck_assert_uint_eq(a.abi_version, ARAX_ABI_VERSION);
	ck_assert_uint_eq(a.link, ARAX_LINK_BROKER);
	ck_assert_uint_gt(a.nr_devices, 0);
	ck_assert_uint_gt(a.epoch, 0);
}
END_TEST

START_TEST(struct_rules)
{
	struct { struct arax_info a; uint32_t more; } big = { { 0 }, 0 };
	struct arax_info a = { .size = sizeof(a) };
	struct arax_queue_create q = { .size = sizeof(q) };

	big.a.size = sizeof(big);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &big), 0);
	big.a.size = sizeof(big);
	big.more = 1;
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &big), -E2BIG);
	a.size = 8;		/* says less than is sent */
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), -EINVAL);
	a.size = 4;
	ck_assert_int_eq(client_call(&c, ARAX_NR_INFO, &a, 4, NULL, 0, NULL), -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_INFO, &a, 2, NULL, 0, NULL), -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_INFO, &a, 0, NULL, 0, NULL), -EINVAL);
	a.size = sizeof(a);
	ck_assert_int_eq(CALL(&c, 0x7f, &a), -ENOTTY);
	ck_assert_int_eq(CALL(&c, 0xffffffff, &a), -ENOTTY);
	ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_CREATE, &q), -ENXIO);
}
END_TEST

/* The mediator's calls have no place on a socket. */
START_TEST(no_mediator_here)
{
	uint32_t nr;

	for (nr = ARAX_NR_ATTACH; nr <= ARAX_NR_KERNEL_PUBLISH; nr++) {
		uint32_t body[64] = { sizeof(body) };

		ck_assert_int_eq(CALL(&c, nr, &body), -ENOTTY);
	}
}
END_TEST

/* CONTEXT_INIT with a ring of 4 entries and no arena. */
static int init_with(struct client *of, int ring_fd, int wake_fd)
{
	struct arax_context_init a = { .size = sizeof(a), .depth = 4, .entry_size = 128,
				       .ring_fd = 0, .wake_fd = 1, .doorbell_fd = -1 };
	int fds[2] = { ring_fd, wake_fd };

	return client_call(of, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2, NULL);
}

static uint32_t ring_bytes(void)
{
	struct arax_layout l;

	arax_layout(4, 128, 0, &l);
	return l.region_size;
}

/* Sealed when the broker has mapped it. */
static int mapped_ring(struct client *of, int wake_fd, int seals)
{
	int fd = memfd_sealed(ring_bytes(), 0);

	ck_assert_int_eq(init_with(of, fd, wake_fd), -EINPROGRESS);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

START_TEST(ring_descriptors_are_checked)
{
	struct arax_context_init a = { .size = sizeof(a), .depth = 4, .entry_size = 128,
				       .ring_fd = 0, .wake_fd = 1, .doorbell_fd = -1 };
	int good, bad, fds[2], ev = eventfd(0, 0);

	bad = memfd_sealed(ring_bytes() + PAGE, 0);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);	/* another size */
	close(bad);
	bad = memfd_sealed(ring_bytes(), F_SEAL_WRITE);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);	/* nobody may write */
	close(bad);
	bad = memfd_sealed(ring_bytes(), SEALS);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);	/* it can't be sealed any more */
	close(bad);
	bad = memfd_sealed(ring_bytes(), RING_SEALS);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);	/* it was not mapped */
	close(bad);
	ck_assert_int_eq(init_with(&c, ev, ev), -EINVAL);	/* no file */
	bad = mapped_ring(&c, ev, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);	/* too few seals */
	close(bad);
	/* As often as one likes, and what is sealed is not what was mapped last. */
	bad = memfd_sealed(ring_bytes(), 0);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINPROGRESS);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINPROGRESS);
	good = mapped_ring(&c, ev, RING_SEALS);
	ck_assert_int_eq(fcntl(bad, F_ADD_SEALS, RING_SEALS), 0);
	ck_assert_int_eq(init_with(&c, bad, ev), -EINVAL);
	close(bad);
	ck_assert_int_eq(init_with(&c, good, good), -EINVAL);	/* no eventfd */
	fds[0] = good;
	fds[1] = ev;
	a.wake_fd = 2;
	ck_assert_int_eq(client_call(&c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2, NULL),
			 -EBADF);	/* an index that isn't there */
	a.wake_fd = -2;
	ck_assert_int_eq(client_call(&c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2, NULL),
			 -EBADF);
	a.wake_fd = -1;
	ck_assert_int_eq(client_call(&c, ARAX_NR_CONTEXT_INIT, &a, sizeof(a), fds, 2, NULL),
			 -EBADF);
	/* And the memory was left as it is. */
	ck_assert_int_eq(init_with(&c, good, ev), 0);
	ck_assert_int_eq(client_init(&c, 4), -EBUSY);
	close(good);
	close(ev);
}
END_TEST

/* Who touches a page of a hole that is being punched waits, and with it who waits for him. */
START_TEST(nobody_punches_holes_into_rings)
{
	struct arax_completion done;

	ready(4);
	ck_assert_int_eq(fallocate(c.ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   c.layout.region_size), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(madvise(c.region, c.layout.region_size, MADV_REMOVE), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(c.ring_fd, 0), -1);
	ck_assert_int_eq(fallocate(c.ring_fd, FALLOC_FL_KEEP_SIZE, c.layout.region_size, PAGE),
			 -1);
	client_fill(&c, 0, client_buffer(&c, PAGE, NULL, NULL), PAGE, 1, 7);
	ck_assert(client_completion(&c, &done));
	ck_assert_uint_eq(done.user_data, 7);
}
END_TEST

START_TEST(fill_and_copy)
{
	struct arax_completion done;
	uint8_t *a, *b;
	uint32_t q, ha, hb, i, pattern = 0x04030201;
	struct arax_task *t;

	ready(64);
	q = client_queue(&c, ARAX_QUEUE_DATAFLOW);
	ha = client_buffer(&c, 16 * PAGE, &a, NULL);
	hb = client_buffer(&c, 16 * PAGE, &b, NULL);
	for (i = 0; i < 200; i++) {
		pattern = 0x04030201 + i;
		client_fill(&c, q, ha, 16 * PAGE, pattern, 2 * i);
		t = client_entry(&c);
		t->opcode = ARAX_OP_COPY;
		t->nr_ranges = 2;
		t->queue = q;
		t->user_data = 2 * i + 1;
		t->ranges[0] = whole(ha, ARAX_IN, 16 * PAGE);
		t->ranges[1] = whole(hb, ARAX_OUT, 16 * PAGE);
		client_publish(&c);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
		ck_assert_uint_eq(done.user_data, 2 * i);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
		ck_assert_uint_eq(done.user_data, 2 * i + 1);
		ck_assert_uint_gt(done.device_ns, 0);
		ck_assert_mem_eq(a, b, 16 * PAGE);
		ck_assert_mem_eq(b + 16 * PAGE - 4, &pattern, 4);
	}
	munmap(a, 16 * PAGE);
	munmap(b, 16 * PAGE);
}
END_TEST

START_TEST(bad_tasks_complete_with_errors)
{
	struct arax_completion done;
	struct arax_task *t;
	uint64_t refused;
	uint32_t q, h;

	ready(8);
	q = client_queue(&c, 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	client_fill(&c, q, h, PAGE + 4, 1, 1);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, -EINVAL);
	client_fill(&c, q, h + 1, PAGE, 1, 2);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, -EBADF);
	t = client_entry(&c);
	t->opcode = ARAX_OP_LAUNCH;
	t->kernel = 12345;
	t->queue = q;
	client_publish(&c);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, -ENOENT);
	refused = done.tag;
	do {
		t = client_entry(&c);
		t->opcode = ARAX_OP_CALL;
		t->kernel = 777;
		t->queue = q;
		client_publish(&c);
		ck_assert(client_completion(&c, &done));
		/* The core may still look at what came before the refusal was seen. */
	} while (done.result == -ECANCELED && done.origin == refused);
	ck_assert_int_eq(done.result, -EOPNOTSUPP);
}
END_TEST

static const uint32_t refusals[] = { 0, ENOSYS, EPERM };

/* Asleep on both sides: bell and wake-up do their work, many times. */
START_TEST(sleepers_are_woken)
{
	struct timespec gap = { .tv_nsec = 2000000 };
	struct arax_ring_ctl *ctl;
	struct arax_completion done;
	uint32_t q, h, i;
	uint64_t count;

	if (refusals[_i])
		refuse_call(SYS_epoll_pwait2, refusals[_i]);
	ready(8);
	ctl = (void *)c.region;
	q = client_queue(&c, 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	for (i = 0; i < 100; i++) {
		struct pollfd p = { .fd = c.wake_fd, .events = POLLIN };
		ssize_t got;

		nanosleep(&gap, NULL);
		got = read(c.wake_fd, &count, sizeof(count));
		(void)got;
		__atomic_store_n(&ctl->cq_need_wakeup, 1, __ATOMIC_SEQ_CST);
		core_full_barrier();
		client_fill(&c, q, h, PAGE, i, i);
		ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
		ck_assert(client_completion(&c, &done));
		ck_assert_uint_eq(done.user_data, i);
		__atomic_store_n(&ctl->cq_need_wakeup, 0, __ATOMIC_RELAXED);
	}
	/* It did sleep. */
	ck_assert_uint_lt(__atomic_load_n(&daemon_poller(d)->stats.sleeps, __ATOMIC_RELAXED),
			  2000);
}
END_TEST

/* A device alone whose tasks take @ms each. */
static void up_slow(const char *more, uint32_t lanes, uint32_t ms,
		    struct bench_daemon *(*daemon_up_as)(const char *))
{
	char conf[256];

	down();
	snprintf(conf, sizeof(conf), "%s cpu { enable = false }\n"
		 "backend \"sim\" { options = { \"lanes=%u\", \"base-us=%u\" } }", more, lanes,
		 ms * 1000);
	d = daemon_up_as(conf);
	client_open(&c, daemon_path(d));
	ready(8);
}

/* Whether it is, each time well before the first task of @ms ends. */
static bool woken_beside(uint32_t ms)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct timespec gap = { .tv_nsec = 2000000 };
	struct arax_completion done;
	struct arax_ring_ctl *ctl;
	struct client other;
	/* Before the poller sleeps of its own accord, too. */
	const int limit = ms < 3000 ? (int)ms * 3 / 10 : 900;
	bool woken = true;
	uint32_t q, i;
	uint64_t count;

	up_slow("loop { poll_us = 1000000 }", 1, ms, daemon_up_with);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	q = client_queue(&other, 0);
	ctl = (void *)other.region;
	for (i = 0; i < 4; i++) {
		client_spin(&c, k.id, client_queue(&c, 0), client_buffer(&c, PAGE, NULL, NULL), 1);
		client_publish(&c);
	}
	for (i = 0; i < 3 && woken; i++) {
		struct pollfd p = { .fd = other.wake_fd, .events = POLLIN };

		nanosleep(&gap, NULL);
		__atomic_store_n(&ctl->cq_need_wakeup, 1, __ATOMIC_SEQ_CST);
		client_entry(&other)->queue = q;
		client_publish(&other);
		woken = poll(&p, 1, limit) == 1;
		if (woken)
			ck_assert_int_eq(read(p.fd, &count, sizeof(count)), sizeof(count));
		__atomic_store_n(&ctl->cq_need_wakeup, 0, __ATOMIC_RELAXED);
		ck_assert(client_completion(&other, &done));
	}
	woken &= !client_has_completion(&c);
	client_close(&other);
	return woken;
}

/* Though tasks wait for a device, and the poller awake for something to come. */
START_TEST(woken_while_others_queue)
{
	uint32_t ms = 1000;

	while (!woken_beside(ms) && ms < 16000)
		ms *= 2;
	ck_assert_uint_lt(ms, 16000);
}
END_TEST

START_TEST(submit_call)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = 1, .min_complete = 1,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	uint32_t q;

	ready(4);
	q = client_queue(&c, 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_SUBMIT, &s), -EINVAL);	/* nothing there */
	s.to_submit = 0;
	s.deadline_ns = monotonic_ns() + 20000000;
	ck_assert_int_eq(CALL(&c, ARAX_NR_SUBMIT, &s), -ETIMEDOUT);
	s.min_complete = 5;
	ck_assert_int_eq(CALL(&c, ARAX_NR_SUBMIT, &s), -EINVAL);	/* more than can be */
	/* What each look would cost is the module's client's own time, and here everybody's. */
	s.min_complete = 1;
	s.flags = ARAX_SUBMIT_SEEN | ARAX_SUBMIT_AS_ASKED;
	ck_assert_int_eq(CALL(&c, ARAX_NR_SUBMIT, &s), -EOPNOTSUPP);
	s.flags = 0;
	s.min_complete = 1;
	s.deadline_ns = ARAX_DEADLINE_NONE;
	client_entry(&c)->queue = q;	/* a marker */
	client_publish(&c);
	ck_assert_int_eq(CALL(&c, ARAX_NR_SUBMIT, &s), 0);
}
END_TEST

START_TEST(timelines)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_timeline_point tp = { .size = sizeof(tp) };
	struct arax_timeline_share ts = { .size = sizeof(ts) };
	struct arax_wait w = { .size = sizeof(w), .count = 1 };
	struct client other;
	int fd;

	ready(4);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	ts.handle = tc.handle;
	ck_assert_int_eq(client_call(&c, ARAX_NR_TIMELINE_EXPORT, &ts, sizeof(ts), NULL, 0, &fd),
			 0);
	ck_assert_int_ge(fd, 0);
	ts.handle = 0;
	ts.fd = 0;
	ck_assert_int_eq(client_call(&other, ARAX_NR_TIMELINE_IMPORT, &ts, sizeof(ts), &fd, 1,
				     NULL), 0);
	w.points[0].timeline = ts.handle;
	w.points[0].value = 5;
	w.deadline_ns = monotonic_ns() + 20000000;
	ck_assert_int_eq(CALL(&other, ARAX_NR_WAIT, &w), -ETIMEDOUT);
	w.deadline_ns = ARAX_DEADLINE_NONE;
	client_send(&other, ARAX_NR_WAIT, &w, sizeof(w), NULL, 0);
	tp.handle = tc.handle;
	tp.value = 5;
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_ADVANCE, &tp), 0);
	ck_assert_int_eq(client_receive(&other, &w, sizeof(w), NULL), 0);
	/* The last copy closed: nobody can import it any more. */
	close(fd);
	/* No token, but a pipe of one's own. */
	{
		int p[2];

		ck_assert_int_eq(pipe(p), 0);
		ts.fd = 0;
		ck_assert_int_eq(client_call(&other, ARAX_NR_TIMELINE_IMPORT, &ts, sizeof(ts),
					     p, 1, NULL), -EINVAL);
		close(p[0]);
		close(p[1]);
	}
	client_close(&other);
}
END_TEST

static int import_timeline(struct client *by, int fd)
{
	struct arax_timeline_share ts = { .size = sizeof(ts) };

	return client_call(by, ARAX_NR_TIMELINE_IMPORT, &ts, sizeof(ts), &fd, 1, NULL);
}

/* The service comes to what was shut down by and by. */
static int import_late(struct client *by, int fd)
{
	int err;

	do {
		err = import_timeline(by, fd);
	} while (!err);
	return err;
}

/* A descriptor or an error. */
static int export(struct client *of, uint32_t handle)
{
	struct arax_timeline_share a = { .size = sizeof(a), .handle = handle };
	int fd, err;

	err = client_call(of, ARAX_NR_TIMELINE_EXPORT, &a, sizeof(a), NULL, 0, &fd);
	return err ? err : fd;
}

/* What stands for a timeline is good for that alone, and nothing else stands for it. */
START_TEST(a_timelines_descriptor)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_timeline_share ts = { .size = sizeof(ts) };
	struct client other;
	int fd, copy, own[2];

	ready(4);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	ts.handle = tc.handle;
	ck_assert_int_eq(client_call(&c, ARAX_NR_TIMELINE_EXPORT, &ts, sizeof(ts), NULL, 0, &fd),
			 0);
	ck_assert_int_eq(import_timeline(&other, fd), 0);
	/* A pipe's pages are its maker's: those of araxd's user. */
	ck_assert_int_eq(fcntl(fd, F_SETPIPE_SZ, 1 << 20), -1);
	ck_assert_int_eq(send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
	ck_assert_int_eq(errno, EPIPE);
	ck_assert_int_eq(pipe(own), 0);
	ck_assert_int_eq(import_timeline(&other, own[0]), -EINVAL);
	close(own[0]);
	close(own[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, own), 0);
	ck_assert_int_eq(import_timeline(&other, own[0]), -EINVAL);
	close(own[0]);
	close(own[1]);
	/* With one of its copies it is still there; once it is shut down it is a socket. */
	copy = dup(fd);
	close(fd);
	ck_assert_int_eq(import_timeline(&other, copy), 0);
	ck_assert_int_eq(shutdown(copy, SHUT_RDWR), 0);
	ck_assert_int_eq(import_late(&other, copy), -EINVAL);
	close(copy);
	client_close(&other);
}
END_TEST

static int reopened(int fd, int flags)
{
	char path[32];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, flags | O_CLOEXEC);
	ck_assert_int_ge(own, 0);
	return own;
}

/* Nor are there more than handles of a context, whatever has become of their connections. */
START_TEST(exported_timelines_count_as_handles)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	int fds[100], fd = 0;
	uint32_t n = 0;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("limits { handles = 16 }");
	client_open(&c, daemon_path(d));
	while (fd >= 0 && n < 100) {
		ready(4);
		ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
		for (int i = 0; i < 20 && n < 100 && (fd = export(&c, tc.handle)) >= 0; i++)
			fds[n++] = fd;
		client_close(&c);
		client_open(&c, daemon_path(d));
	}
	ck_assert_int_eq(fd, -ENOSPC);
	ck_assert_uint_eq(n, 16);
	while (n)
		close(fds[--n]);
	ready(4);
	ck_assert(comes_true(!CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 1000));
	ck_assert(comes_true((fd = export(&c, tc.handle)) >= 0, 1000));
	close(fd);
}
END_TEST

START_TEST(buffers_are_shared)
{
	struct arax_buffer_export ex = { .size = sizeof(ex) };
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_ARAX };
	struct arax_buffer_query qa = { .size = sizeof(qa) }, qb = { .size = sizeof(qb) };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = PAGE };
	struct client other;
	uint32_t h;
	int fd, own;

	ready(4);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	h = client_buffer(&c, PAGE, NULL, &own);
	/* The descriptor alone is not enough: it must have been exported. */
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &own, 1,
				     NULL), -EINVAL);
	ex.handle = h;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0, &fd), 0);
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), 0);
	qa.handle = h;
	qb.handle = im.handle;
	ck_assert_int_eq(CALL(&c, ARAX_NR_BUFFER_QUERY, &qa), 0);
	ck_assert_int_eq(CALL(&other, ARAX_NR_BUFFER_QUERY, &qb), 0);
	ck_assert_uint_eq(qa.id, qb.id);
	ex.handle = im.handle;
	ck_assert_int_eq(CALL(&other, ARAX_NR_BUFFER_EXPORT, &ex), -EPERM);
	/* By another buffer of the same bytes it would be out of its creator's reach. */
	im.type = ARAX_IMPORT_MEMFD;
	im.fd = 0;
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), -EINVAL);
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1,
				     NULL), -EINVAL);
	close(fd);
	fd = memfd_sealed(PAGE, 0);
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), -EINVAL);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), 0);
	/* Its importer is not the one who shares it. */
	ex.handle = im.handle;
	ck_assert_int_eq(CALL(&other, ARAX_NR_BUFFER_EXPORT, &ex), -EOPNOTSUPP);
	im.type = ARAX_IMPORT_DMABUF;
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), -EOPNOTSUPP);
	close(fd);
	close(own);
	client_close(&other);
}
END_TEST

/* Where araxd has a file mapped, which is in this process; not at @but. */
static uint8_t *mapped_by_araxd(int fd, const uint8_t *but)
{
	unsigned long from, to, ino;
	uint8_t *found = NULL;
	struct stat st;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fstat(fd, &st), 0);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &ino) == 3 &&
		    ino == st.st_ino && (uint8_t *)from != but)
			found = (uint8_t *)from;
	fclose(f);
	ck_assert_ptr_nonnull(found);
	return found;
}

/* It was written before the completion came, which TSan does not see: that comes by another mapping. */
static __attribute__((noinline, no_sanitize("thread"))) uint8_t byte_at(const uint8_t *p)
{
	return *(const volatile uint8_t *)p;
}

/* As where more descriptors are under way than a user without CAP_SYS_RESOURCE may have. */
static atomic_bool too_many_fly;
/* As where the thread is interrupted for long, or somebody watches the other end. */
static atomic_bool sent_slowly;

ssize_t __real_sendmsg(int fd, const struct msghdr *mh, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags)
{
	uint64_t begin_ns = wake_thread_ns();

	while (sent_slowly && !wake_beyond_usual(wake_thread_ns() - begin_ns))
		;
	if (!too_many_fly || !mh->msg_control)
		return __real_sendmsg(fd, mh, flags);
	errno = ETOOMANYREFS;
	return -1;
}

/* Then one is not sent, but nobody is taken for who reads nothing. */
START_TEST(too_many_descriptors_under_way)
{
	struct arax_buffer_export ex = { .size = sizeof(ex) };
	int fd;

	ready(4);
	ex.handle = client_buffer(&c, PAGE, NULL, NULL);
	too_many_fly = true;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0, &fd),
			 -EMFILE);
	ck_assert_int_eq(fd, -1);
	too_many_fly = false;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0, &fd), 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
}
END_TEST

#define ASKED	200u

static bool has_sent_all(const struct client *by)
{
	int unread = 1;

	return !ioctl(by->fd, SIOCOUTQ, &unread) && !unread;
}

/* Whoever is answered after the last of them was taken is answered after it. */
static void all_are_answered(const struct client *by, struct client *other)
{
	struct arax_info a = { .size = sizeof(a) };

	ck_assert(comes_true(has_sent_all(by), 1000));
	ck_assert_int_eq(CALL(other, ARAX_NR_INFO, &a), 0);
}

/* Who asks for descriptors and does not read the answers gets so many, until he does. */
START_TEST(few_descriptors_are_left_unread)
{
	struct arax_buffer_export ex = { .size = sizeof(ex) };
	uint32_t i, round, n, first;
	struct client other;
	int fd, err;

	ready(4);
	client_open(&other, daemon_path(d));
	ex.handle = client_buffer(&c, PAGE, NULL, NULL);
	for (round = 0; round < 2; round++) {
		first = c.next_id + 1;
		for (i = 0; i < ASKED; i++)
			client_send(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0);
		all_are_answered(&c, &other);
		for (i = n = 0; i < ASKED; i++) {
			c.next_id = first + i;
			err = client_receive(&c, NULL, 0, &fd);
			ck_assert_int_eq(err, fd < 0 ? -EMFILE : 0);
			n += fd >= 0;
			if (fd >= 0)
				close(fd);
		}
		ck_assert_uint_ge(n, 60);
		ck_assert_uint_le(n, 64);
	}
	/* Who has read some may have as many more. */
	first = c.next_id + 1;
	for (i = 0; i < 64 + 16; i++) {
		client_send(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0);
		if (i < 63)
			continue;
		if (i == 63)
			all_are_answered(&c, &other);
		c.next_id = first + i - 63;
		ck_assert_int_eq(client_receive(&c, NULL, 0, &fd), 0);
		close(fd);
		c.next_id = first + i;
	}
	for (i = 17; i < 64 + 16; i++) {
		c.next_id = first + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, &fd), 0);
		close(fd);
	}
	/* And as many as he likes, one by one. */
	for (i = 0; i < ASKED; i++) {
		ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0,
					     &fd), 0);
		close(fd);
	}
	client_close(&other);
}
END_TEST

/* What a task works on has no pages any more: it fails, and those behind it do not begin. */
START_TEST(lost_bytes_fail_tasks)
{
	struct arax_buffer_export ex = { .size = sizeof(ex) };
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_ARAX };
	int fd, own, empty = memfd_create("empty", MFD_CLOEXEC);
	struct arax_ring_ctl *ctl;
	struct arax_completion e;
	uint8_t *data, *there;
	struct client other;
	uint32_t q;

	ready(4);
	ctl = (void *)c.region;
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	q = client_queue(&other, ARAX_QUEUE_CONTINUE);
	ex.handle = client_buffer(&c, 16 * PAGE, &data, &own);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0, &fd), 0);
	ck_assert_int_eq(client_call(&other, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1,
				     NULL), 0);
	there = mapped_by_araxd(own, data);
	/* Not by mmap(), which TSan takes for a write that tasks race with. */
	ck_assert_int_eq(syscall(SYS_mmap, there, 16 * PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, empty, 0), (long)there);
	client_fill(&other, q, im.handle, 16 * PAGE, 0x01010101, 1);
	ck_assert(client_completion(&other, &e));
	ck_assert_int_eq(e.result, -ESTALE);
	ck_assert_uint_eq(byte_at(there), 1);
	client_fill(&other, q, im.handle, 16 * PAGE, 0x02020202, 2);
	ck_assert(client_completion(&other, &e));
	ck_assert_int_eq(e.result, -ESTALE);
	ck_assert_uint_eq(byte_at(there), 1);
	/* Whose memory it was has lost its context. */
	ck_assert(comes_true(__atomic_load_n(&ctl->dead, __ATOMIC_ACQUIRE) == EFAULT, 100));
	munmap(data, 16 * PAGE);
	close(fd);
	close(own);
	close(empty);
	client_close(&other);
}
END_TEST

/* What was lent for reading araxd does not write to. */
START_TEST(read_only_descriptors_are_refused)
{
	struct arax_buffer_export ex = { .size = sizeof(ex) };
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_ARAX };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = PAGE };
	int fd, plain = memfd_sealed(PAGE, SEALS), ro;

	ready(4);
	ex.handle = client_buffer(&c, PAGE, NULL, NULL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_EXPORT, &ex, sizeof(ex), NULL, 0, &fd), 0);
	ro = reopened(fd, O_RDONLY);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &ro, 1, NULL),
			 -EACCES);
	close(ro);
	ro = reopened(fd, O_WRONLY);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &ro, 1, NULL),
			 -EACCES);
	close(ro);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL), 0);
	close(fd);
	ro = reopened(plain, O_RDONLY);
	im.type = ARAX_IMPORT_MEMFD;
	im.fd = 0;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &ro, 1, NULL),
			 -EACCES);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &ro, 1, NULL),
			 -EACCES);
	close(ro);
	close(plain);
}
END_TEST

static uint64_t memory_used(void)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };

	ck_assert_int_eq(CALL(&c, ARAX_NR_TENANT_QUERY, &t), 0);
	return t.usage.counters[ARAX_RES_MEMORY].used;
}

/* Pages behind its end are there for as long as araxd maps it. */
START_TEST(what_is_behind_the_end_counts)
{
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_MEMFD };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = PAGE };
	struct arax_handle h = { .size = sizeof(h) };
	int fd = memfd_sealed(PAGE, 0), ring = memfd_sealed(ring_bytes(), 0);
	int ev = eventfd(0, EFD_CLOEXEC);
	struct client other;
	uint64_t before;

	ready(4);
	before = memory_used();
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(fallocate(ring, FALLOC_FL_KEEP_SIZE, ring_bytes(), 4 << 20), 0);
	ck_assert_int_eq(init_with(&other, ring, ev), -EINPROGRESS);
	ck_assert_int_eq(fcntl(ring, F_ADD_SEALS, RING_SEALS), 0);
	ck_assert_int_eq(init_with(&other, ring, ev), -EINVAL);
	ck_assert_uint_eq(memory_used(), before);
	close(ring);
	ring = memfd_sealed(ring_bytes(), 0);
	ck_assert_int_eq(fallocate(ring, FALLOC_FL_KEEP_SIZE, ring_bytes(), PAGE), 0);
	ck_assert_int_eq(init_with(&other, ring, ev), -EINPROGRESS);
	ck_assert_int_eq(fcntl(ring, F_ADD_SEALS, RING_SEALS), 0);
	ck_assert_int_eq(init_with(&other, ring, ev), 0);
	ck_assert_uint_eq(memory_used(), before + ring_bytes() + PAGE);
	close(ring);
	close(ev);
	client_close(&other);
	ck_assert(comes_true(memory_used() == before, 100));
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, PAGE, 3 * PAGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL), 0);
	ck_assert_uint_eq(memory_used(), before + 4 * PAGE);
	h.handle = cr.handle;
	ck_assert_int_eq(CALL(&c, ARAX_NR_BUFFER_DESTROY, &h), 0);
	/* It is given back when nobody knows it any more. */
	ck_assert(comes_true(memory_used() == before, 100));
	close(fd);
	/* More than any kernel adds by itself. */
	fd = memfd_sealed(PAGE, 0);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, PAGE, 4 << 20), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	cr.fd = 0;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_uint_eq(memory_used(), before);
	close(fd);
}
END_TEST

/* Where the pool is empty when they are touched, no smaller page could take their place. */
START_TEST(huge_pages_are_refused)
{
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_MEMFD, .fd = 0 };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = 2u << 20, .fd = 0 };
	int fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	if (fd < 0 || ftruncate(fd, 2 << 20)) {
		printf("skipped: no memfd of huge pages can be made here: %s\n", strerror(errno));
		return;
	}
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	ready(4);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL),
			 -EINVAL);
	close(fd);
}
END_TEST

/* Whoever touches a page first is charged for it: that must be the client. */
START_TEST(holes_are_refused)
{
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_MEMFD, .fd = 0 };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = 4 * PAGE, .fd = 0 };
	int fd = memfd_sealed(4 * PAGE, SEALS), ring, ev = eventfd(0, EFD_CLOEXEC);
	uint8_t one = 1;

	/* Punched when it was mapped already. */
	ring = memfd_sealed(ring_bytes(), 0);
	ck_assert_int_eq(init_with(&c, ring, ev), -EINPROGRESS);
	ck_assert_int_eq(fallocate(ring, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), 0);
	ck_assert_int_eq(fcntl(ring, F_ADD_SEALS, RING_SEALS), 0);
	ck_assert_int_eq(init_with(&c, ring, ev), -EINVAL);
	close(ring);
	close(ev);
	ready(4);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE), 0);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_int_eq(pwrite(fd, &one, 1, PAGE), 1);
	im.fd = 0;
	cr.fd = 0;
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL), 0);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL), 0);
	close(fd);
}
END_TEST

/* As many pages as it has, and not where they should be. */
static int behind_its_end(uint64_t bytes, uint64_t hole)
{
	int fd = memfd_sealed(bytes, 0);

	ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, hole), 0);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, bytes + 8 * PAGE, hole), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	return fd;
}

START_TEST(nothing_stands_for_holes)
{
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_MEMFD, .fd = 0 };
	struct arax_buffer_create cr = { .size = sizeof(cr), .bytes = 4 * PAGE, .fd = 0 };
	const uint64_t range[2] = { 0 };
	uint64_t found[5];
	int fd = behind_its_end(4 * PAGE, 2 * PAGE);

	ready(4);
	if (syscall(SYS_cachestat, fd, range, found, 0)) {
		printf("skipped: no cachestat() here: %s\n", strerror(errno));
		close(fd);
		return;
	}
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &cr, sizeof(cr), &fd, 1, NULL),
			 -EINVAL);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), &fd, 1, NULL),
			 -EINVAL);
	close(fd);
}
END_TEST

/* The socket in other hands is worth nothing. */
START_TEST(forked_child_is_refused)
{
	struct arax_info a = { .size = sizeof(a) };
	int status;
	pid_t pid;

	ready(4);
	pid = fork();
	if (!pid)
		_exit(CALL(&c, ARAX_NR_INFO, &a) == -EPERM ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	c.next_id++;
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
}
END_TEST

static void still_serves(void)
{
	struct arax_completion done;
	struct client other;
	uint32_t q, h;

	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	q = client_queue(&other, 0);
	h = client_buffer(&other, PAGE, NULL, NULL);
	client_fill(&other, q, h, PAGE, 1, 9);
	ck_assert(client_completion(&other, &done));
	ck_assert_int_eq(done.result, 0);
	client_close(&other);
}

START_TEST(garbage_ends_the_connection)
{
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .nr_fds = 2 };	/* lies */
	struct arax_info a = { .size = sizeof(a) };
	uint8_t noise[2048];

	ready(4);
	memset(noise, 0x5a, sizeof(noise));
	ck_assert_int_gt(send(c.fd, &msg, sizeof(msg), MSG_NOSIGNAL), 0);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ECONNRESET);
	client_close(&c);
	client_open(&c, daemon_path(d));
	ck_assert_int_gt(send(c.fd, noise, 3, MSG_NOSIGNAL), 0);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ECONNRESET);
	client_close(&c);
	client_open(&c, daemon_path(d));
	ck_assert_int_gt(send(c.fd, noise, sizeof(noise), MSG_NOSIGNAL), 0);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ECONNRESET);
	client_close(&c);
	client_open(&c, daemon_path(d));
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
	still_serves();
}
END_TEST

/* Until the consumer has taken so many entries. */
static void consumed(uint32_t n)
{
	struct arax_ring_ctl *ctl = (void *)c.region;

	ck_assert(comes_true(__atomic_load_n(&ctl->sq_head, __ATOMIC_ACQUIRE) == n, 1000));
}

/* Until its context is ended. */
static void ended(const struct arax_ring_ctl *ctl)
{
	ck_assert(comes_true(__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED), 1000));
	ck_assert_uint_eq(__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED), EPIPE);
}

START_TEST(corrupt_ring_ends_the_context)
{
	struct arax_info a = { .size = sizeof(a) };
	struct arax_ring_ctl *ctl;
	uint32_t q, i;

	ready(4);
	ctl = (void *)c.region;
	q = client_queue(&c, 0);
	/* More is taken back than was ever posted. */
	__atomic_store_n(&ctl->cq_head, 1000, __ATOMIC_SEQ_CST);
	for (i = 0; i < 5; i++) {
		if (i == 4)
			consumed(4);
		client_entry(&c)->queue = q;
		client_publish(&c);
	}
	ended(ctl);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), -EPIPE);
	still_serves();
}
END_TEST

/* The same behind a task that is refused, and signals a timeline that another context waits for. */
START_TEST(corrupt_ring_keeps_nobody_asleep)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_timeline_share ts = { .size = sizeof(ts) };
	struct arax_wait w = { .size = sizeof(w), .count = 1,
			       .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_ring_ctl *ctl;
	struct arax_task_ext *x;
	struct arax_task *t;
	struct client other;
	struct pollfd p;
	uint32_t q;
	int fd;

	ready(2);
	ctl = (void *)c.region;
	q = client_queue(&c, 0);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 2), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	ts.handle = tc.handle;
	ck_assert_int_eq(client_call(&c, ARAX_NR_TIMELINE_EXPORT, &ts, sizeof(ts), NULL, 0, &fd),
			 0);
	ts.handle = 0;
	ts.fd = 0;
	ck_assert_int_eq(client_call(&other, ARAX_NR_TIMELINE_IMPORT, &ts, sizeof(ts), &fd, 1,
				     NULL), 0);
	w.points[0].timeline = ts.handle;
	w.points[0].value = 1;
	client_send(&other, ARAX_NR_WAIT, &w, sizeof(w), NULL, 0);
	/* Unread, it leaves credit for one more. */
	client_entry(&c)->queue = q;
	client_publish(&c);
	while (!client_has_completion(&c))
		usleep(1000);
	daemon_await_sleep(d);
	x = (void *)(c.region + c.layout.arena_offset);
	*x = (struct arax_task_ext){
		.size = sizeof(*x), .signal_timeline = tc.handle, .signal_value = 1,
	};
	t = client_entry(&c);
	t->opcode = ARAX_OP_LAUNCH;
	t->kernel = CORE_MAX_KERNELS;	/* there is none */
	t->queue = q;
	t->flags = ARAX_TASK_EXT;
	c.sq_tail++;
	client_entry(&c)->queue = q;
	c.sq_tail++;
	__atomic_store_n(&ctl->cq_head, 1000, __ATOMIC_SEQ_CST);
	client_publish_from(&c, c.sq_tail - 2);
	p = (struct pollfd){ .fd = other.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	ck_assert_int_eq(client_receive(&other, &w, sizeof(w), NULL), 0);
	close(fd);
	client_close(&other);
}
END_TEST

/* Published without credit: served again as soon as completions are read. */
START_TEST(greed_is_survived)
{
	struct arax_completion done;
	uint32_t q, i;

	ready(4);
	q = client_queue(&c, 0);
	for (i = 0; i < 4; i++) {
		client_entry(&c)->queue = q;
		client_publish(&c);
	}
	consumed(4);
	for (i = 0; i < 4; i++) {	/* sees free places, has no credit */
		client_entry(&c)->queue = q;
		client_publish(&c);
	}
	usleep(20000);
	still_serves();
	for (i = 0; i < 8; i++) {
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
	}
}
END_TEST

/* Published before, so served before: what they name may be destroyed at once. */
START_TEST(calls_come_after_entries)
{
	struct arax_completion done;
	uint32_t q, i, n;

	ready(64);
	for (n = 0; n < 50; n++) {
		struct arax_handle hd = { .size = sizeof(hd) };

		q = client_queue(&c, 0);
		hd.handle = client_buffer(&c, PAGE, NULL, NULL);
		for (i = 0; i < 20; i++)
			client_fill(&c, q, hd.handle, PAGE, i, i);
		ck_assert_int_eq(CALL(&c, ARAX_NR_BUFFER_DESTROY, &hd), 0);
		hd.handle = q;
		ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_DESTROY, &hd), 0);
		ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_DESTROY, &hd), -EBADF);
		for (i = 0; i < 20; i++) {
			ck_assert(client_completion(&c, &done));
			ck_assert_int_eq(done.result, 0);
		}
	}
}
END_TEST

/* The root's counters are everybody's: ours are all that is left. */
static bool nothing_left(struct arax_tenant *t)
{
	t->id = 0;
	return !CALL(&c, ARAX_NR_TENANT_QUERY, t) && !t->usage.counters[ARAX_RES_TASKS].used &&
	       !t->usage.counters[ARAX_RES_MEMORY].used &&
	       !t->usage.counters[ARAX_RES_CONTEXTS].used;
}

/* Keeps the poller until it may go on: what comes meanwhile is there when it does. */
struct held {
	struct work work;
	int inside, go;
};

static void hold_now(struct work *w)
{
	struct held *h = (struct held *)w;

	__atomic_store_n(&h->inside, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&h->go, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void hold_poller(struct held *h)
{
	*h = (struct held){ .work.run = hold_now };
	poller_post(daemon_poller(d), &h->work);
	while (!__atomic_load_n(&h->inside, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void let_go(struct held *h)
{
	__atomic_store_n(&h->go, 1, __ATOMIC_RELEASE);
}

/* On the poller's thread: how many entries of a client have been taken. */
struct glance {
	struct work work;
	const struct arax_ring_ctl *ctl;
	uint32_t head;
	int seen;
};

static void glance_now(struct work *w)
{
	struct glance *g = (struct glance *)w;

	g->head = __atomic_load_n(&g->ctl->sq_head, __ATOMIC_RELAXED);
	__atomic_store_n(&g->seen, 1, __ATOMIC_RELEASE);
}

static void glance_post(struct glance *g, const struct client *at)
{
	*g = (struct glance){ .work.run = glance_now, .ctl = (void *)at->region };
	poller_post(daemon_poller(d), &g->work);
}

static uint32_t glance_await(struct glance *g)
{
	while (!__atomic_load_n(&g->seen, __ATOMIC_ACQUIRE))
		sched_yield();
	return g->head;
}

#define MANY		4096u
#define FEW_TURNS	(4 * TAKE_PER_TURN)	/* rings are polled at each turn, too */

static void publish_many(uint32_t queue, uint32_t n)
{
	uint32_t first = c.sq_tail;

	for (uint32_t i = 0; i < n; i++) {
		client_entry(&c)->queue = queue;
		c.sq_tail++;
	}
	client_publish_from(&c, first);
}

/* What others bring to the poller is not behind all of it, and all of it is submitted. */
START_TEST(a_large_submit_blocks_nobody)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = MANY,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_info info = { .size = sizeof(info) };
	struct glance g;
	struct held h;

	ready(MANY);
	hold_poller(&h);
	publish_many(client_queue(&c, 0), MANY);
	client_send(&c, ARAX_NR_SUBMIT, &s, sizeof(s), NULL, 0);
	/* Who answers has read what came before. */
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &info), 0);
	glance_post(&g, &c);
	let_go(&h);
	ck_assert_uint_le(glance_await(&g), FEW_TURNS);
	c.next_id--;
	ck_assert_int_eq(client_receive(&c, &s, sizeof(s), NULL), 0);
	/* But for what polling had taken when its turn came. */
	ck_assert_uint_ge(s.submitted, MANY - FEW_TURNS);
	consumed(MANY);
}
END_TEST

/* Nor behind many small ones, and each of them gets what it asked for, in turn. */
START_TEST(many_submits_block_nobody)
{
	struct arax_submit s = { .size = sizeof(s), .to_submit = TAKE_PER_TURN,
				 .deadline_ns = ARAX_DEADLINE_NONE };
	struct arax_handle none = { .size = sizeof(none), .handle = 1u << 20 };
	struct arax_info info = { .size = sizeof(info) };
	const uint32_t calls = 100;
	struct glance g;
	struct held h;
	uint32_t i, q, first;

	ready(MANY);
	q = client_queue(&c, 0);
	hold_poller(&h);
	publish_many(q, MANY);
	first = c.next_id;
	for (i = 0; i < calls; i++)
		client_send(&c, ARAX_NR_SUBMIT, &s, sizeof(s), NULL, 0);
	client_send(&c, ARAX_NR_QUEUE_DESTROY, &none, sizeof(none), NULL, 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &info), 0);
	glance_post(&g, &c);
	let_go(&h);
	ck_assert_uint_le(glance_await(&g), FEW_TURNS);
	c.next_id = first;
	for (i = 0; i < calls; i++) {
		c.next_id++;
		ck_assert_int_eq(client_receive(&c, &s, sizeof(s), NULL), 0);
		ck_assert_uint_eq(s.submitted, TAKE_PER_TURN);
	}
	c.next_id++;
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -EBADF);
	c.next_id++;
	consumed(MANY);
}
END_TEST

static void be_long(struct work *w)
{
	uint64_t until = monotonic_ns() + 200000;

	while (monotonic_ns() < until)
		;
}

/* However much is brought at once, rings are looked at in between. */
START_TEST(work_takes_turns)
{
	struct work works[100];
	struct client other;
	struct glance g;
	struct held h;
	uint32_t q;

	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	q = client_queue(&other, 0);
	hold_poller(&h);
	for (uint32_t i = 0; i < 100; i++) {
		works[i].run = be_long;
		poller_post(daemon_poller(d), &works[i]);
	}
	glance_post(&g, &other);
	client_entry(&other)->queue = q;
	client_publish(&other);
	let_go(&h);
	ck_assert_uint_eq(glance_await(&g), 1);
	client_close(&other);
}
END_TEST

static uint32_t events_told;

static void be_told(struct link *l, void *cookie, uint64_t ticks)
{
	ck_assert_ptr_eq(cookie, &events_told);
	__atomic_fetch_add(&events_told, 1, __ATOMIC_RELAXED);
}

/* The poller is woken by what a visitor ends before it lets the poller go on. */
static void end_what_woke(int fd, struct watch *w)
{
	daemon_enter(d);
	ck_assert_int_eq(eventfd_write(fd, 1), 0);
	while (!door_is_awaited(&daemon_poller(d)->door))
		usleep(100);
	poller_unwatch(daemon_poller(d), fd);
	memset(w, 0x5a, sizeof(*w));
}

static void begin_watch(int fd, struct watch *w)
{
	static const struct link_ops ops = { .event = be_told };
	static struct link l = { .ops = &ops };

	*w = (struct watch){ .link = &l, .cookie = &events_told };
	ck_assert_int_eq(poller_watch(daemon_poller(d), fd, w, true), 0);
}

static uint32_t times_told(void)
{
	daemon_await_sleep(d);
	return __atomic_load_n(&events_told, __ATOMIC_RELAXED);
}

/* And one with its descriptor that begins meanwhile may be told in vain. */
START_TEST(what_a_visitor_ends_is_not_told)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	struct watch w, other;

	ck_assert_int_ge(fd, 0);
	daemon_enter(d);
	begin_watch(fd, &w);
	daemon_leave(d);
	ck_assert_int_eq(eventfd_write(fd, 1), 0);
	while (!times_told())
		usleep(100);

	end_what_woke(fd, &w);
	daemon_leave(d);
	ck_assert_uint_eq(times_told(), 1);

	daemon_enter(d);
	begin_watch(fd, &w);
	daemon_leave(d);
	while (times_told() < 2)
		usleep(100);
	end_what_woke(fd, &w);
	begin_watch(fd, &other);
	daemon_leave(d);
	while (times_told() < 3)
		usleep(100);

	daemon_enter(d);
	poller_unwatch(daemon_poller(d), fd);
	/* Nobody has it any more. */
	poller_unwatch(daemon_poller(d), fd);
	daemon_leave(d);
	close(fd);
}
END_TEST

/*
 * A link that always finds something, of which nothing is committed: tasks that wait, say.  Or
 * another one, that commits at each turn.
 */
static const struct link_ops *quiet_ops;
static struct link_ops busy_ops;
static uint32_t busy_link;

static uint32_t poll_busily(struct link *l, uint64_t ticks)
{
	const struct commit_info info = { .device = ~0u };

	if (busy_link)
		poller_commit(l->poller, l, 0, &info);
	return quiet_ops->poll(l, ticks) + 1;
}

/* There is no such task. */
static void commit_nothing(struct link *l)
{
	l->commit_first += l->commit_count;
	l->commit_count = 0;
}

static void make_busy(struct work *w)
{
	struct link *l = daemon_poller(d)->links[busy_link];

	quiet_ops = l->ops;
	busy_ops = *l->ops;
	busy_ops.poll = poll_busily;
	if (busy_link)
		busy_ops.commit = commit_nothing;
	l->ops = &busy_ops;
}

static uint32_t is_quiet;

static void make_quiet(struct work *w)
{
	poller_flush(daemon_poller(d));
	daemon_poller(d)->links[busy_link]->ops = quiet_ops;
	__atomic_store_n(&is_quiet, 1, __ATOMIC_RELEASE);
}

/* The poller never has nothing to do, nor anything else to commit; or that is on another link. */
START_TEST(woken_while_others_bring_more)
{
	struct work busy = { .run = make_busy }, quiet = { .run = make_quiet };
	struct arax_ring_ctl *ctl;
	struct pollfd p;

	busy_link = (uint32_t)_i;
	if (busy_link) {
		down();
		d = daemon_up_twice("");
		client_open(&c, daemon_path(d));
	}
	ready(8);
	ctl = (void *)c.region;
	p = (struct pollfd){ .fd = c.wake_fd, .events = POLLIN };
	__atomic_store_n(&ctl->cq_need_wakeup, ARAX_WAKE_ANY, __ATOMIC_SEQ_CST);
	poller_post(daemon_poller(d), &busy);
	client_entry(&c)->queue = client_queue(&c, 0);
	client_publish(&c);
	ck_assert_int_eq(poll(&p, 1, 100000), 1);
	ck_assert(client_has_completion(&c));
	poller_post(daemon_poller(d), &quiet);
	while (!__atomic_load_n(&is_quiet, __ATOMIC_ACQUIRE))
		sched_yield();
}
END_TEST

static uint32_t longest_bucket(void)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct clist *pos, *tmp;
	uint32_t i, n, most = 0;

	pthread_mutex_lock(&b->ident_lock);
	for (i = 0; i < IDENT_BUCKETS; i++) {
		n = 0;
		clist_for_each_safe(pos, tmp, &b->idents[i])
			n++;
		most = n > most ? n : most;
	}
	pthread_mutex_unlock(&b->ident_lock);
	return most;
}

#define ALIKE	64u

/* Each call with a memfd looks through a bucket: nobody fills one by choosing files by their numbers. */
START_TEST(numbers_choose_no_bucket)
{
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = PAGE, .fd = 0 };
	uint64_t first = 0;
	uint32_t n = 0, i;
	struct stat st;
	int fd;

	ready(4);
	for (i = 0; n < ALIKE; i++) {
		ck_assert_uint_lt(i, 64 * ALIKE * IDENT_BUCKETS);
		fd = memfd_create("unit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(fstat(fd, &st), 0);
		if (!i)
			first = st.st_ino;
		if ((st.st_ino - first) % IDENT_BUCKETS) {
			close(fd);
			continue;
		}
		ck_assert_int_eq(fallocate(fd, 0, 0, PAGE), 0);
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
		ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &a, sizeof(a), &fd, 1,
					     NULL), 0);
		close(fd);
		n++;
	}
	ck_assert_uint_lt(longest_bucket(), ALIKE / 4);
}
END_TEST

static uint32_t is_dead(const struct client *of)
{
	return __atomic_load_n(&((struct arax_ring_ctl *)of->region)->dead, __ATOMIC_RELAXED);
}

/* Where buffers are unmapped. */
struct held_job {
	struct host_job job;
	int go;
};

static void hold_job(struct host_job *job)
{
	struct held_job *h = (struct held_job *)job;

	while (!__atomic_load_n(&h->go, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* In this process, which is araxd as well. */
static bool is_mapped(ino_t ino)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long at;
	bool found = false;
	char line[512];

	ck_assert_ptr_nonnull(f);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %*s %*s %*s %llu", &at) == 1 && at == ino;
	fclose(f);
	return found;
}

/* Destroyed, and by the second answer that is done with. */
static void destroy(uint32_t handle)
{
	struct arax_handle a = { .size = sizeof(a), .handle = handle };

	ck_assert_int_eq(CALL(&c, ARAX_NR_BUFFER_DESTROY, &a), 0);
	memory_used();
}

/* What takes long is not done by who answers calls; the bytes come back when that has been done. */
START_TEST(buffers_are_unmapped_aside)
{
	struct held_job h = { .job.run = hold_job };
	uint64_t before;
	uint32_t handle;
	struct stat st;
	int fd;

	ready(4);
	before = memory_used();
	handle = client_buffer(&c, 16 * PAGE, NULL, &fd);
	ck_assert_uint_eq(memory_used(), before + 16 * PAGE);
	ck_assert_int_eq(fstat(fd, &st), 0);
	host_thread_push(daemon_poller(d)->undertaker, &h.job);
	destroy(handle);
	ck_assert_uint_eq(memory_used(), before + 16 * PAGE);
	ck_assert(is_mapped(st.st_ino));
	__atomic_store_n(&h.go, 1, __ATOMIC_RELEASE);
	while (is_mapped(st.st_ino))
		usleep(1000);
	ck_assert(comes_true(memory_used() == before, 100));
	close(fd);
}
END_TEST

/* Who destroyed a buffer may have another one: that waits for a while, and nobody waits for that. */
START_TEST(who_destroyed_a_buffer_has_another)
{
	struct arax_buffer_create b = { .size = sizeof(b), .bytes = 256 * PAGE };
	struct held_job h = { .job.run = hold_job };
	struct arax_info info = { .size = sizeof(info) };
	struct client other;
	struct pollfd p;
	uint32_t handle;
	uint64_t began;
	int fd;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("limits { memory = 1572864 }");
	client_open(&c, daemon_path(d));
	client_open(&other, daemon_path(d));
	ready(4);
	fd = memfd_sealed(256 * PAGE, SEALS);
	handle = client_buffer(&c, 256 * PAGE, NULL, NULL);
	/* Of what is in use none comes. */
	began = wait_now_ns();
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), -EDQUOT);
	ck_assert_uint_lt(wait_now_ns() - began, 500000000u);
	for (int i = 0; i < 3; i++) {
		struct held_job held = h;

		host_thread_push(daemon_poller(d)->undertaker, &held.job);
		destroy(handle);
		client_send(&c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1);
		p = (struct pollfd){ .fd = c.fd, .events = POLLIN };
		for (int k = 0; k < 5; k++) {
			ck_assert_int_eq(CALL(&other, ARAX_NR_INFO, &info), 0);
			ck_assert_int_eq(poll(&p, 1, 20), 0);
		}
		__atomic_store_n(&held.go, 1, __ATOMIC_RELEASE);
		ck_assert_int_eq(client_receive(&c, &b, sizeof(b), NULL), 0);
		handle = b.handle;
		close(fd);
		fd = memfd_sealed(256 * PAGE, SEALS);
		b = (struct arax_buffer_create){ .size = sizeof(b), .bytes = 256 * PAGE };
	}
	/* If it lasts, they are its tenant's still. */
	host_thread_push(daemon_poller(d)->undertaker, &h.job);
	destroy(handle);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL), -EDQUOT);
	/* Who goes meanwhile waits for nothing. */
	client_send(&c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1);
	client_close(&c);
	__atomic_store_n(&h.go, 1, __ATOMIC_RELEASE);
	client_open(&c, daemon_path(d));
	ready(4);
	ck_assert(comes_true(!client_call(&c, ARAX_NR_BUFFER_CREATE, &b, sizeof(b), &fd, 1, NULL),
			     1000));
	client_close(&other);
	close(fd);
}
END_TEST

/* Nor are rings. */
START_TEST(rings_are_unmapped_aside)
{
	struct held_job h = { .job.run = hold_job };
	struct client other;
	uint64_t before, with;
	struct stat st;

	ready(4);
	before = memory_used();
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	with = memory_used();
	ck_assert_uint_gt(with, before);
	ck_assert_int_eq(fstat(other.ring_fd, &st), 0);
	host_thread_push(daemon_poller(d)->undertaker, &h.job);
	client_close(&other);
	usleep(100000);
	ck_assert_uint_eq(memory_used(), with);
	ck_assert(is_mapped(st.st_ino));
	__atomic_store_n(&h.go, 1, __ATOMIC_RELEASE);
	while (is_mapped(st.st_ino))
		usleep(1000);
	ck_assert(comes_true(memory_used() == before, 100));
}
END_TEST

/*
 * A task's thread would wait for one hole after the other: it gets other pages, and who punches
 * loses his context.
 */
START_TEST(who_punches_holes_keeps_nothing)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_completion done;
	struct client other;
	uint32_t q, h, tries;
	struct stat st;
	int fd;

	ready(4);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	q = client_queue(&c, 0);
	h = client_buffer(&c, 2 * PAGE, NULL, &fd);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert(is_mapped(st.st_ino));
	for (tries = 0; tries < WAIT_S && !is_dead(&c); tries++) {
		client_spin(&c, k.id, q, h, 1000000);
		client_publish(&c);
		while (!is_dead(&c) && !client_has_completion(&c)) {
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE);
			usleep(1000);
		}
		if (!is_dead(&c))
			client_completion(&c, &done);
	}
	ck_assert_uint_eq(is_dead(&c), EFAULT);
	ck_assert(!is_mapped(st.st_ino));
	client_fill(&other, client_queue(&other, 0), client_buffer(&other, PAGE, NULL, NULL), PAGE,
		    1, 1);
	ck_assert(client_completion(&other, &done));
	ck_assert_int_eq(done.result, 0);
	client_close(&other);
	close(fd);
}
END_TEST

/* Where Linux lets us: else they are got for the task, and ours. */
static bool may_know_of_holes(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	close(fd);
	return fd >= 0;
}

/* What a task would touch in a hole is no page that araxd gets: the context ends instead. */
START_TEST(holes_bring_no_pages)
{
	struct arax_buffer_import a = { .size = sizeof(a), .type = ARAX_IMPORT_MEMFD, .fd = 0 };
	int fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct arax_completion done;
	struct stat st;

	if (!may_know_of_holes()) {
		printf("skipped: no userfaultfd can be made here: %s\n", strerror(errno));
		return;
	}
	ready(4);
	ck_assert_int_eq(fallocate(fd, 0, 0, 16 * PAGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ck_assert_int_eq(client_call(&c, ARAX_NR_BUFFER_IMPORT, &a, sizeof(a), &fd, 1, NULL), 0);
	client_fill(&c, client_queue(&c, 0), a.handle, 16 * PAGE, 1, 1);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, 0);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4 * PAGE,
				   4 * PAGE), 0);
	client_fill(&c, client_queue(&c, 0), a.handle, 16 * PAGE, 1, 2);
	ck_assert(comes_true(is_dead(&c), 1000));
	ck_assert_uint_eq(is_dead(&c), EFAULT);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_blocks, 12 * PAGE / 512);
	still_serves();
	close(fd);
}
END_TEST

static uint32_t a_timeline(struct client *of)
{
	struct arax_timeline_create a = { .size = sizeof(a) };

	ck_assert_int_eq(CALL(of, ARAX_NR_TIMELINE_CREATE, &a), 0);
	return a.handle;
}

/* For @n points, all of them and all the same. */
static void send_wait(struct client *of, uint32_t timeline, uint32_t n, uint64_t deadline)
{
	struct arax_wait w = { .size = sizeof(w), .count = n, .flags = ARAX_WAIT_ALL,
			       .deadline_ns = deadline };

	for (uint32_t i = 0; i < n; i++) {
		w.points[i].timeline = timeline;
		w.points[i].value = 1;
	}
	client_send(of, ARAX_NR_WAIT, &w, sizeof(w), NULL, 0);
}

/* However they were asked for, and however late they are seen. */
START_TEST(waits_end_by_deadline)
{
	static const uint32_t order[] = { 3, 1, 4, 0, 2 };	/* of ms, and of answers */
	uint32_t timeline, i, first;
	uint64_t now;

	ready(4);
	timeline = a_timeline(&c);
	now = monotonic_ns();
	first = c.next_id + 1;
	for (i = 0; i < 5; i++)
		send_wait(&c, timeline, 1, now + 50000000 + order[i] * 1000000);
	send_wait(&c, timeline, 1, ARAX_DEADLINE_NONE);
	for (uint32_t nth = 0; nth < 5; nth++) {
		for (i = 0; order[i] != nth; i++)
			;
		c.next_id = first + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ETIMEDOUT);
	}
	ck_assert_uint_ge(monotonic_ns(), now + 54000000);
	c.next_id = first + 5;
	still_serves();
}
END_TEST

START_TEST(waits_are_limited)
{
	struct arax_timeline_point a = { .size = sizeof(a), .value = 1 };
	uint32_t first, advance, i, round;

	ready(4);
	a.handle = a_timeline(&c);
	first = c.next_id + 1;
	for (i = 0; i < CONN_MAX_WAITS; i++)
		send_wait(&c, a.handle, 1, ARAX_DEADLINE_NONE);
	for (round = 0; round < 2; round++) {
		send_wait(&c, a.handle, 1, ARAX_DEADLINE_NONE);
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ENOSPC);
	}
	/* Those before are none the worse, and once they have ended there may be others. */
	client_send(&c, ARAX_NR_TIMELINE_ADVANCE, &a, sizeof(a), NULL, 0);
	advance = c.next_id;
	/* All answered before one is read: nobody is closed for that. */
	usleep(50000);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	for (i = 0; i < CONN_MAX_WAITS; i++) {
		c.next_id = first + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	}
	c.next_id = advance;
	send_wait(&c, a.handle, 1, ARAX_DEADLINE_NONE);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	still_serves();
}
END_TEST

static void send_sleep(struct client *of)
{
	struct arax_submit a = {
		.size = sizeof(a), .min_complete = 1, .deadline_ns = ARAX_DEADLINE_NONE,
	};

	client_send(of, ARAX_NR_SUBMIT, &a, sizeof(a), NULL, 0);
}

/* However many wait for timelines, other calls have places; and all may be answered at once. */
START_TEST(waits_leave_places)
{
	enum { OTHERS = CONN_MAX_PENDING - CONN_MAX_WAITS };
	struct arax_timeline_point a = { .size = sizeof(a), .value = 1 };
	struct arax_cancel cancel = { .size = sizeof(cancel), .flags = ARAX_CANCEL_QUEUE };
	struct arax_handle h = { .size = sizeof(h) };
	uint32_t first, sleeps, advance, i;

	ready(4);
	a.handle = a_timeline(&c);
	h.handle = a_timeline(&c);
	cancel.queue = client_queue(&c, 0);
	first = c.next_id + 1;
	for (i = 0; i < CONN_MAX_WAITS; i++)
		send_wait(&c, a.handle, 1, ARAX_DEADLINE_NONE);
	ck_assert_int_eq(CALL(&c, ARAX_NR_CANCEL, &cancel), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_DESTROY, &h), 0);
	sleeps = c.next_id + 1;
	for (i = 0; i < OTHERS; i++)
		send_sleep(&c);
	send_sleep(&c);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -ENOSPC);
	client_entry(&c)->queue = cancel.queue;
	client_publish(&c);
	usleep(50000);
	client_send(&c, ARAX_NR_TIMELINE_ADVANCE, &a, sizeof(a), NULL, 0);
	advance = c.next_id;
	usleep(50000);
	for (i = 0; i < OTHERS; i++) {
		c.next_id = sleeps + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	}
	c.next_id = advance;
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	for (i = 0; i < CONN_MAX_WAITS; i++) {
		c.next_id = first + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	}
	c.next_id = advance;
	still_serves();
}
END_TEST

/* The least of some rounds: what else the machine does is in none of it. */
static uint64_t time_of_calls(void)
{
	struct arax_info a = { .size = sizeof(a) };
	uint64_t best = UINT64_MAX;

	for (int round = 0; round < 20; round++) {
		uint64_t ns = monotonic_ns();

		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
		ns = monotonic_ns() - ns;
		best = ns < best ? ns : best;
	}
	return best;
}

/* A call costs the same, whoever waits for what meanwhile. */
START_TEST(waits_cost_others_nothing)
{
	enum { OTHERS = 40, TIMES = 5, TRIES = 20 };
	static struct client others[OTHERS];
	uint64_t alone, beside = UINT64_MAX;
	uint32_t i, k, timeline = 0;

	ready(4);
	alone = time_of_calls();
	for (i = 0; i < OTHERS; i++) {
		client_open(&others[i], daemon_path(d));
		ck_assert_int_eq(client_init(&others[i], 4), 0);
		for (k = 0; k < CONN_MAX_WAITS; k++) {
			if (k % 32 == 0)
				timeline = a_timeline(&others[i]);
			send_wait(&others[i], timeline, ARAX_WAIT_MAX,
				  monotonic_ns() + 3600000000000);
		}
	}
	/* What else the machine does may go on for longer than some rounds. */
	for (i = 0; i < TRIES && beside > TIMES * alone; i++) {
		usleep(i * 20000);
		beside = time_of_calls();
	}
	ck_assert_uint_le(beside, TIMES * alone);
	for (i = 0; i < OTHERS; i++)
		client_close(&others[i]);
}
END_TEST

int __real_core_wait_poll(struct core_wait *w, u32 *index);
int __wrap_core_wait_poll(struct core_wait *w, u32 *index);

static uint32_t wait_looks;

int __wrap_core_wait_poll(struct core_wait *w, u32 *index)
{
	__atomic_fetch_add(&wait_looks, 1, __ATOMIC_RELAXED);
	return __real_core_wait_poll(w, index);
}

/* Those that wait for timelines are looked at when these are reached, not when tasks end. */
START_TEST(waits_are_not_looked_at_in_vain)
{
	struct arax_timeline_point a = { .size = sizeof(a), .value = 1 };
	uint32_t queue, first, id, looks, i;
	struct arax_completion done;

	ready(4);
	queue = client_queue(&c, 0);
	a.handle = a_timeline(&c);
	first = c.next_id + 1;
	for (i = 0; i < 50; i++)
		send_wait(&c, a.handle, ARAX_WAIT_MAX, ARAX_DEADLINE_NONE);
	/* Calls are in order: by now all these have begun. */
	id = a_timeline(&c);
	looks = __atomic_load_n(&wait_looks, __ATOMIC_RELAXED);
	ck_assert_uint_eq(looks, 50);
	for (i = 0; i < 100; i++) {
		client_entry(&c)->queue = queue;
		client_publish(&c);
		ck_assert(client_completion(&c, &done));
		id = a_timeline(&c);
	}
	ck_assert_uint_ne(id, 0);
	ck_assert_uint_eq(__atomic_load_n(&wait_looks, __ATOMIC_RELAXED), looks);
	/* Then all end, in their order. */
	client_send(&c, ARAX_NR_TIMELINE_ADVANCE, &a, sizeof(a), NULL, 0);
	id = c.next_id;
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	for (i = 0; i < 50; i++) {
		c.next_id = first + i;
		ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	}
	c.next_id = id;
	ck_assert_uint_eq(__atomic_load_n(&wait_looks, __ATOMIC_RELAXED), looks + 50);
}
END_TEST

static int lines_to(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	log_init(fd, LOG_LEVEL_NOTICE, LOG_FORMAT_PLAIN);
	return fd;
}

/* How many there are with @words; the last of them. */
static uint32_t lines_with(int fd, const char *words, char *last, size_t bytes)
{
	FILE *f = fdopen(fd, "r");
	uint32_t n = 0;
	char line[512];

	ck_assert_ptr_nonnull(f);
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, words))
			continue;
		snprintf(last, bytes, "%s", line);
		n++;
	}
	log_init(STDERR_FILENO, LOG_LEVEL_ERR, LOG_FORMAT_PLAIN);
	fclose(f);
	return n;
}

#define REFUSALS	300u

/* Whoever comes back at once is told each time, and the log now and then. */
START_TEST(refusals_dont_fill_the_log)
{
	uint64_t began = monotonic_ns();
	struct client other;
	struct arax_msg msg;
	char line[512];
	uint32_t n;
	int fd;

	down();
	d = daemon_up_with("link { max_clients = 1 }");
	fd = lines_to();
	client_open(&c, daemon_path(d));
	ready(4);
	for (uint32_t i = 0; i < REFUSALS; i++) {
		client_open(&other, daemon_path(d));
		ck_assert_int_eq(recv(other.fd, &msg, sizeof(msg), 0), sizeof(msg));
		ck_assert_uint_eq(msg.id, ARAX_MSG_REFUSED);
		close(other.fd);
	}
	/* What was written before this answer is there. */
	memory_used();
	n = lines_with(fd, "client refused", line, sizeof(line));
	ck_assert_uint_ge(n, 1);
	ck_assert_uint_le(n, 2 + (monotonic_ns() - began) / 1000000000);
	ck_assert_ptr_nonnull(strstr(line, "uid="));
	ck_assert_ptr_nonnull(strstr(line, "link.max_clients: 1 "));
}
END_TEST

START_TEST(malformed_messages_dont_fill_the_log)
{
	uint64_t began = monotonic_ns();
	struct client other;
	char line[512];
	int fd = lines_to();
	uint32_t n;

	ready(4);
	for (uint32_t i = 0; i < REFUSALS; i++) {
		client_open(&other, daemon_path(d));
		ck_assert_int_gt(send(other.fd, "no", 2, MSG_NOSIGNAL), 0);
		ck_assert_int_eq(client_receive(&other, NULL, 0, NULL), -ECONNRESET);
		close(other.fd);
	}
	memory_used();
	n = lines_with(fd, "malformed message", line, sizeof(line));
	ck_assert_uint_ge(n, 1);
	ck_assert_uint_le(n, 2 + (monotonic_ns() - began) / 1000000000);
}
END_TEST

/* Published without credit, and left so: the poller sleeps for ever longer, and serves it still. */
START_TEST(who_starves_keeps_nobody_awake)
{
	struct arax_completion done;
	uint64_t before, since;
	uint32_t q, i;

	ready(2);
	q = client_queue(&c, 0);
	for (i = 0; i < 3; i++) {
		if (i == 2)
			consumed(2);
		client_entry(&c)->queue = q;
		client_publish(&c);
	}
	before = __atomic_load_n(&daemon_poller(d)->stats.sleeps, __ATOMIC_RELAXED);
	since = monotonic_ns();
	usleep(500000);
	/* A busy machine makes it fewer; looking each millisecond would be some 450. */
	before = __atomic_load_n(&daemon_poller(d)->stats.sleeps, __ATOMIC_RELAXED) - before;
	ck_assert_uint_le(before, (monotonic_ns() - since) / 10000000);
	for (i = 0; i < 3; i++) {
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
	}
}
END_TEST

static struct core_client *core_client_of(const struct client *of);

#define STARVING	64u

/* On the poller's thread, between two turns: what the next ones do with a client that is warm. */
struct warmth {
	struct work work;
	struct conn *conn, *starved;
	struct client *eats;		/* the starved one's */
	uint32_t queue;
	uint32_t turns;			/* until its entry was taken */
	enum conn_where then, fed;	/* where they are when the poller did not fall asleep */
	int done;
};

static void cool_down(struct warmth *w)
{
	struct broker *b = w->conn->broker;
	struct link *l = &b->link;

	l->ops->event(l, w->conn, l->poller->now);
	l->ops->house(l, w->conn->active + b->warm_ticks + 1);
	ck_assert_int_eq(w->conn->where, CONN_WARM);
	client_entry(&c)->queue = w->queue;
	client_publish(&c);
}

static void be_warm(struct work *work)
{
	struct warmth *w = (struct warmth *)work;
	const struct arax_ring_ctl *ctl = (void *)c.region;
	struct link *l = &w->conn->broker->link;
	struct arax_completion done;
	uint64_t limit = UINT64_MAX;

	cool_down(w);
	while (__atomic_load_n(&ctl->sq_head, __ATOMIC_ACQUIRE) != c.sq_tail) {
		l->ops->poll(l, l->poller->now);
		w->turns++;
	}
	cool_down(w);
	/* Then it has room for another one, of which nobody tells. */
	ck_assert(client_completion(w->eats, &done));
	ck_assert(!l->ops->sleep(l, &limit));
	l->ops->awake(l, l->poller->now);
	w->then = w->conn->where;
	w->fed = w->starved->where;
	__atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
}

/* Nor anybody waiting: who has something is not behind all who starve, nor is who starves no more. */
START_TEST(who_starves_is_before_nobody)
{
	static struct client others[STARVING];
	struct warmth w = { .work.run = be_warm };
	uint32_t i, k;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("limits { contexts = 100 }");
	client_open(&c, daemon_path(d));
	ready(8);
	w.queue = client_queue(&c, 0);
	w.conn = core_client_of(&c)->link;
	for (i = 0; i < STARVING; i++) {
		uint32_t q;

		client_open(&others[i], daemon_path(d));
		ck_assert_int_eq(client_init(&others[i], 2), 0);
		q = client_queue(&others[i], 0);
		for (k = 0; k < 3; k++) {
			const struct arax_ring_ctl *ctl = (void *)others[i].region;

			ck_assert(comes_true(k < 2 || __atomic_load_n(&ctl->sq_head,
								      __ATOMIC_ACQUIRE) == 2, 100));
			client_entry(&others[i])->queue = q;
			client_publish(&others[i]);
		}
	}
	/* Nothing is taken of the last ones either. */
	usleep(100000);
	w.eats = &others[STARVING / 2];
	w.starved = core_client_of(w.eats)->link;
	poller_post(daemon_poller(d), &w.work);
	ck_assert(comes_true(__atomic_load_n(&w.done, __ATOMIC_ACQUIRE), 1000));
	ck_assert_uint_eq(w.turns, 1);
	ck_assert_int_eq(w.then, CONN_HOT);
	ck_assert_int_eq(w.fed, CONN_HOT);
	for (i = 0; i < STARVING; i++)
		client_close(&others[i]);
}
END_TEST

/* A client that dies with work under way leaves nothing behind. */
START_TEST(sudden_end)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };
	uint32_t q, h, i, round;

	for (round = 0; round < 20; round++) {
		struct client other;

		client_open(&other, daemon_path(d));
		ck_assert_int_eq(client_init(&other, 64), 0);
		q = client_queue(&other, ARAX_QUEUE_DATAFLOW);
		h = client_buffer(&other, 256 * PAGE, NULL, NULL);
		for (i = 0; i < 60; i++)
			client_fill(&other, q, h, 256 * PAGE, i, i);
		client_close(&other);
	}
	ck_assert_msg(comes_true(nothing_left(&t), 1000),
		      "tasks %llu memory %llu contexts %llu are left",
		      t.usage.counters[ARAX_RES_TASKS].used,
		      t.usage.counters[ARAX_RES_MEMORY].used,
		      t.usage.counters[ARAX_RES_CONTEXTS].used);
}
END_TEST

START_TEST(administrators_kill)
{
	struct arax_kill k = { .size = sizeof(k) };
	struct arax_context x = { .size = sizeof(x) };
	struct arax_info a = { .size = sizeof(a) };
	struct client other;

	ready(4);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 4), 0);
	x.id = other.context;
	ck_assert_int_eq(CALL(&c, ARAX_NR_CONTEXT_QUERY, &x), 0);
	ck_assert_uint_eq(x.id, other.context);
	ck_assert_int_eq(x.pid, getpid());
	k.context = other.context;
	ck_assert_int_eq(CALL(&c, ARAX_NR_CONTEXT_KILL, &k), 0);
	ck_assert_int_eq(CALL(&other, ARAX_NR_INFO, &a), -EPIPE);
	client_close(&other);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
}
END_TEST

enum root { ROOT, ROOT_WITHOUT_CAPABILITY, ROOT_OF_A_NAMESPACE };

static bool become(enum root kind)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	int fd;

	switch (kind) {
	case ROOT:
		return true;
	case ROOT_WITHOUT_CAPABILITY:
		if (syscall(SYS_capget, &h, caps))
			return false;
		caps[0].effective &= ~(1u << CAP_SYS_ADMIN);
		return !syscall(SYS_capset, &h, caps);
	case ROOT_OF_A_NAMESPACE:
		if (unshare(CLONE_NEWUSER))
			return false;
		fd = open("/proc/self/uid_map", O_WRONLY);
		return write(fd, "0 0 1", 5) == 5 && !geteuid();
	}
	return false;
}

#define CANT_BECOME	255

/* As another process of uid 0. */
static int kill_as(enum root kind, uint32_t context)
{
	struct arax_kill k = { .size = sizeof(k), .context = context };
	struct client own;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!become(kind))
			_exit(CANT_BECOME);
		client_open(&own, daemon_path(d));
		_exit(-CALL(&own, ARAX_NR_CONTEXT_KILL, &k));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

/* Of a container's root the uid is 0 as well, and no more than that. */
START_TEST(root_is_more_than_a_uid)
{
	struct arax_info a = { .size = sizeof(a) };
	int err;

	down();
	d = daemon_up_public();
	client_open(&c, daemon_path(d));
	ready(4);
	ck_assert_int_eq(kill_as(ROOT_WITHOUT_CAPABILITY, c.context), -EPERM);
	err = kill_as(ROOT_OF_A_NAMESPACE, c.context);
	if (err == -CANT_BECOME)
		printf("skipped: no user namespace can be made here\n");
	else
		ck_assert_int_eq(err, -EPERM);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
	ck_assert_int_eq(kill_as(ROOT, c.context), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), -EPIPE);
}
END_TEST

START_TEST(deadlines_and_cancel)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_cancel cn = { .size = sizeof(cn), .flags = ARAX_CANCEL_QUEUE };
	struct arax_completion done;
	struct arax_task_ext *x;
	struct arax_task *t;
	uint32_t q;

	ready(8);
	q = client_queue(&c, 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	x = (void *)(c.region + c.layout.arena_offset);
	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->wait_timeline = tc.handle;
	x->wait_value = 1;
	x->deadline_ns = monotonic_ns() + 30000000;
	t = client_entry(&c);
	t->queue = q;
	t->flags = ARAX_TASK_EXT;
	client_publish(&c);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, -ETIMEDOUT);
	x->deadline_ns = 0;
	t = client_entry(&c);
	t->queue = q;
	t->flags = ARAX_TASK_EXT;
	client_publish(&c);
	usleep(20000);
	cn.queue = q;
	ck_assert_int_eq(CALL(&c, ARAX_NR_CANCEL, &cn), 0);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, -ECANCELED);
}
END_TEST

/* Though it could at once: a fill, and a marker. */
START_TEST(what_is_late_does_not_begin)
{
	struct arax_completion done;
	struct arax_task_ext *x;
	struct arax_task *t;
	uint8_t *data;
	uint32_t b, q, i;

	ready(8);
	q = client_queue(&c, ARAX_QUEUE_CONTINUE);
	b = client_buffer(&c, PAGE, &data, NULL);
	x = (void *)(c.region + c.layout.arena_offset);
	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->deadline_ns = 1;
	for (i = 0; i < 2; i++) {
		t = client_entry(&c);
		t->queue = q;
		t->flags = ARAX_TASK_EXT;
		t->opcode = i ? ARAX_OP_MARKER : ARAX_OP_FILL;
		if (!i) {
			t->nr_ranges = 1;
			t->ranges[0] = whole(b, ARAX_OUT, PAGE);
			t->args[0] = 0x2a;
			t->arg_len = 1;
		}
		client_publish(&c);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, -ETIMEDOUT);
	}
	ck_assert_uint_eq(data[0], 0);
	munmap(data, PAGE);
}
END_TEST

/* What is in its place and no socket is somebody's. */
START_TEST(no_file_is_replaced)
{
	char path[UNIT_TMP_LEN], lock[80], name[UNIT_TMP_LEN];
	struct config config;
	struct broker_params bp = { .config = &config, .path = path, .mode = 0600 };
	int fd = mkstemp(unit_tmp(name, "arax-unit-XXXXXX"));
	struct broker *b;

	ck_assert_int_eq(config_init(&config), 0);
	snprintf(path, sizeof(path), "%s", name);
	log_max_level = 0;
	ck_assert_int_eq(broker_create(&bp, &b), -EEXIST);
	ck_assert_int_eq(access(path, F_OK), 0);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	ck_assert_int_ne(access(lock, F_OK), 0);
	close(fd);
	unlink(path);
	/* A link is none either, wherever it leads. */
	ck_assert_int_eq(symlink(daemon_path(d), path), 0);
	ck_assert_int_eq(broker_create(&bp, &b), -EEXIST);
	unlink(path);
	config_free(&config);
}
END_TEST

static struct core_client *core_client_of(const struct client *of)
{
	struct core *core = ((struct broker *)daemon_poller(d)->links[0])->core;
	struct clist *pos, *tmp;
	struct core_client *found = NULL;

	core_mutex_lock(&core->lock);
	clist_for_each_safe(pos, tmp, &core->clients)
		if (clist_entry(pos, struct core_client, node)->id == of->context)
			found = clist_entry(pos, struct core_client, node);
	core_mutex_unlock(&core->lock);
	ck_assert_ptr_nonnull(found);
	return found;
}

/* As while it cancels: its entries and its calls wait, and nobody else does. */
START_TEST(a_busy_client_blocks_nobody)
{
	struct arax_handle a = { .size = sizeof(a) };
	struct arax_completion done;
	bool served, waits = true;
	struct core_client *cc;
	struct client other;
	uint32_t q, oq, i;

	ready(8);
	q = client_queue(&c, 0);
	a.handle = client_queue(&c, 0);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	oq = client_queue(&other, 0);
	cc = core_client_of(&c);
	core_mutex_lock(&cc->lock);
	client_entry(&c)->queue = q;
	client_publish(&c);
	client_send(&c, ARAX_NR_QUEUE_DESTROY, &a, sizeof(a), NULL, 0);
	for (i = 0, served = true; i < 100 && served; i++) {
		client_entry(&other)->queue = oq;
		client_publish(&other);
		served = client_completion(&other, &done);
		waits &= !client_has_completion(&c);
	}
	core_mutex_unlock(&cc->lock);
	/* Who frees it takes the core's lock for that: by then this unlock has returned. */
	ck_assert_ptr_eq(core_client_of(&c), cc);
	ck_assert(served);
	ck_assert(waits);
	ck_assert_int_eq(client_receive(&c, &a, sizeof(a), NULL), 0);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, 0);
	client_close(&other);
}
END_TEST

/* Whether its timeline failed before or after it came, a task doesn't run then. */
START_TEST(failed_timelines)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_timeline_point tp = { .size = sizeof(tp), .value = 1, .error = -EDOM };
	struct arax_completion done;
	struct arax_task_ext *x;
	struct arax_task *t;
	int i;

	ready(8);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	tp.handle = tc.handle;
	x = (void *)(c.region + c.layout.arena_offset);
	memset(x, 0, sizeof(*x));
	x->size = sizeof(*x);
	x->wait_timeline = tc.handle;
	x->wait_value = 1;
	for (i = 0; i < 2; i++) {
		t = client_entry(&c);
		t->queue = client_queue(&c, 0);
		t->flags = ARAX_TASK_EXT;
		client_publish(&c);
		if (!i)
			ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_ADVANCE, &tp), 0);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, -EDOM);
		ck_assert_uint_eq(done.origin, 0);
	}
	t = client_entry(&c);
	t->queue = client_queue(&c, ARAX_QUEUE_CONTINUE);
	t->flags = ARAX_TASK_EXT;
	client_publish(&c);
	ck_assert(client_completion(&c, &done));
	ck_assert_int_eq(done.result, 0);
}
END_TEST

static struct arax_task *fill_spin(uint32_t kernel, uint32_t q, uint32_t h, uint32_t us)
{
	return client_spin(&c, kernel, q, h, us);
}

static void spin_task(uint32_t kernel, uint32_t q, uint32_t h, uint32_t us)
{
	fill_spin(kernel, q, h, us);
	client_publish(&c);
}

/* A device whose tasks may follow each other, alone. */
static void up_queued(void)
{
	char conf[5120], cwd[4096];

	down();
	ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
	snprintf(conf, sizeof(conf), "loop { inline_us = 0 } cpu { enable = false }\n"
		 "backend \"queued\" { file = \"%s/build/test/plugins/queued.so\"\n"
		 "options = { \"follows=true\" } }", cwd);
	d = daemon_up_with(conf);
	client_open(&c, daemon_path(d));
	ready(8);
}

/* So often that it is known how long it takes; the device refuses every other one that is alone. */
static void spin_often(uint32_t kernel, uint32_t q, uint32_t h)
{
	struct arax_completion done;

	for (int i = 0; i < 101; i++) {
		spin_task(kernel, q, h, 1000);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
	}
}

/*
 * A task that is to follow another one, and whose buffer can't be had (the kernel link maps it
 * when it is first used, which a client may have made impossible): it fails in its turn, and
 * nobody is stuck with it.
 */
START_TEST(who_follows_without_its_buffer)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_buffer_query b = { .size = sizeof(b) };
	struct arax_completion done;
	struct broker *broker;
	uint64_t followed = 0;
	struct arax_task *t;
	struct mapping *m;
	struct poller *p;
	uint32_t q, h, known = 0;

	up_queued();
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	b.handle = client_buffer(&c, PAGE, NULL, NULL);
	ck_assert_int_eq(CALL(&c, ARAX_NR_BUFFER_QUERY, &b), 0);
	p = daemon_poller(d);
	broker = (struct broker *)p->links[0];	/* its first member */
	/* As broker_reap() does, whose thread is to see that this one has read the mapping. */
	pthread_mutex_lock(&broker->ident_lock);
	m = mapping_find(&broker->link.mappings, b.id);
	pthread_mutex_unlock(&broker->ident_lock);
	ck_assert_ptr_nonnull(m);
	mapping_clear(&broker->link.mappings, (uint32_t)b.id);
	/* On a busy machine the first one may be over when the second one comes. */
	for (uint32_t us = 300000; !followed && us < 5000000; us *= 2) {
		q = client_queue(&c, 0);
		spin_often(k.id, q, h);
		followed = __atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED);
		spin_task(k.id, q, h, us);
		/* One that may be run again. */
		t = fill_spin(k.id, q, b.handle, 1);
		t->flags = ARAX_TASK_IDEMPOTENT;
		t->known = known;
		client_publish(&c);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, -EFAULT);
		known = done.failure;
		followed = __atomic_load_n(&p->stats.followed, __ATOMIC_RELAXED) - followed;
	}
	ck_assert_uint_eq(followed, 1);
	pthread_mutex_lock(&broker->ident_lock);
	ck_assert_int_eq(mapping_set(&broker->link.mappings, m), 0);
	pthread_mutex_unlock(&broker->ident_lock);
}
END_TEST

/* Who waits past its deadline doesn't run, wherever it waits. */
START_TEST(nobody_follows_past_its_deadline)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_task_ext *x;
	struct arax_completion done[2];
	struct arax_task *t;
	uint32_t q, h;

	up_queued();
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	q = client_queue(&c, 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	spin_often(k.id, q, h);
	/* From before the other one began: however late it comes itself, that lasts for longer. */
	x = (void *)(c.region + c.layout.arena_offset);
	*x = (struct arax_task_ext){
		.size = sizeof(*x), .deadline_ns = monotonic_ns() + 50000000,
	};
	spin_task(k.id, q, h, 300000);
	t = fill_spin(k.id, q, h, 1);
	t->flags = ARAX_TASK_EXT;
	t->user_data = 1;
	client_publish(&c);
	for (int i = 0; i < 2; i++)
		ck_assert(client_completion(&c, &done[i]));
	ck_assert_int_eq(done[done[1].user_data].result, -ETIMEDOUT);
	ck_assert_int_eq(done[!done[1].user_data].result, 0);
}
END_TEST

/*
 * Several tasks of a few us that need nothing of each other: one core is not all there is, so
 * the poller runs none of them but the last.
 */
START_TEST(short_tasks_are_spread)
{
	enum { TASKS = 8, ROUNDS = 200 };
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_completion done;
	uint64_t inline_runs;
	uint32_t q, h[TASKS];

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	down();
	d = daemon_up_with("cpu { groups = { \"0\", \"1\" } }");
	client_open(&c, daemon_path(d));
	ready(TASKS);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	q = client_queue(&c, ARAX_QUEUE_DATAFLOW);
	for (uint32_t i = 0; i < TASKS; i++)
		h[i] = client_buffer(&c, PAGE, NULL, NULL);
	for (int r = 0; r < ROUNDS; r++) {
		for (uint32_t i = 0; i < TASKS; i++, c.sq_tail++)
			fill_spin(k.id, q, h[i], 10);
		client_publish_from(&c, c.sq_tail - TASKS);
		for (uint32_t i = 0; i < TASKS; i++) {
			ck_assert(client_completion(&c, &done));
			ck_assert_int_eq(done.result, 0);
		}
	}
	inline_runs = __atomic_load_n(&daemon_poller(d)->stats.inline_runs, __ATOMIC_RELAXED);
	ck_assert_uint_le(inline_runs, ROUNDS);
}
END_TEST

static atomic_bool no_threads;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
	return no_threads ? EAGAIN : __real_pthread_create(t, a, run, arg);
}

/* As many as there would be on a larger machine; 0: those that there are. */
static atomic_int cpus_seen;

int __real_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);
int __real_pthread_attr_setaffinity_np(pthread_attr_t *a, size_t bytes, const cpu_set_t *cpus);
int __wrap_pthread_attr_setaffinity_np(pthread_attr_t *a, size_t bytes, const cpu_set_t *cpus);

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus)
{
	if (!cpus_seen)
		return __real_sched_getaffinity(pid, bytes, cpus);
	memset(cpus, 0, bytes);
	for (int i = 0; i < cpus_seen; i++)
		CPU_SET_S(i, bytes, cpus);
	return 0;
}

int __wrap_pthread_attr_setaffinity_np(pthread_attr_t *a, size_t bytes, const cpu_set_t *cpus)
{
	return cpus_seen ? 0 : __real_pthread_attr_setaffinity_np(a, bytes, cpus);
}

/* Until they run on the poller's thread: the longest is forgotten by 1/64 a run, on each device. */
static void seem_short(uint32_t kernel, uint32_t q, uint32_t h)
{
	enum { ROW = 64, ROWS = 300 };
	uint64_t *runs = &daemon_poller(d)->stats.inline_runs, before;
	struct arax_completion done;

	for (int row = 0; row < ROWS; row++) {
		before = __atomic_load_n(runs, __ATOMIC_RELAXED);
		for (int i = 0; i < ROW; i++) {
			spin_task(kernel, q, h, 1);
			ck_assert(client_completion(&c, &done));
			ck_assert_int_eq(done.result, 0);
		}
		if (row >= 4 && __atomic_load_n(runs, __ATOMIC_RELAXED) - before >= ROW - 1)
			return;
	}
}

/*
 * A kernel that was always short runs for long, on the poller's own thread: others are
 * served while it runs, since the standby takes over.
 */
START_TEST(a_long_task_blocks_nobody)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_completion done;
	struct client other;
	uint32_t q, h, oq, oh, i, tries, us = 250000;
	bool blocked = true;

	ready(8);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	q = client_queue(&c, 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	client_open(&other, daemon_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	oq = client_queue(&other, 0);
	oh = client_buffer(&other, PAGE, NULL, NULL);
	/*
	 * On a busy machine one of the short ones may have seemed long: then the long
	 * one goes to its device's thread, which blocks nobody either, and is no proof.  Or
	 * others weren't served in time because nobody was: a longer one leaves more time.
	 */
	for (tries = 0; tries < 8 && (blocked || !daemon_stolen(d)); tries++) {
		seem_short(k.id, q, h);
		spin_task(k.id, q, h, us);
		usleep(2000);
		for (i = 0; i < 5; i++) {
			client_fill(&other, oq, oh, PAGE, i, i);
			ck_assert(client_completion(&other, &done));
			ck_assert_int_eq(done.result, 0);
		}
		blocked = client_has_completion(&c);
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
		ck_assert_uint_ge(done.device_ns, us * 900ull);
		us = blocked && us < 4000000 ? 2 * us : us;
	}
	ck_assert(!blocked);
	ck_assert_uint_ge(daemon_stolen(d), 1);
	client_close(&other);
}
END_TEST

/* More than threads that may poll, and each of them could run one. */
#define LONG_ONES	(POLLER_THREADS + 2)

static uint32_t polling_threads(void)
{
	struct poller *p = daemon_poller(d);
	uint32_t nr;

	pthread_mutex_lock(&p->threads_lock);
	nr = p->nr_threads;
	pthread_mutex_unlock(&p->threads_lock);
	return nr;
}

/*
 * Of as many that seemed short and take @us each: whether others were served before one of them had
 * ended, by the time that @most of them were with those who polled.
 */
static bool many_block_nobody(struct client *other, uint32_t many, uint32_t most, uint32_t us)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	uint32_t q = client_queue(&c, ARAX_QUEUE_DATAFLOW), oq = client_queue(other, 0);
	uint32_t oh = client_buffer(other, PAGE, NULL, NULL), h[LONG_ONES];
	struct arax_completion done;
	uint64_t stolen;
	bool nobody;

	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	for (uint32_t i = 0; i < many; i++)
		h[i] = client_buffer(&c, PAGE, NULL, NULL);
	seem_short(k.id, q, h[0]);
	stolen = daemon_stolen(d);
	for (uint32_t i = 0; i < many; i++, c.sq_tail++)
		fill_spin(k.id, q, h[i], us);
	client_publish_from(&c, c.sq_tail - many);
	while (daemon_stolen(d) - stolen < most && !client_has_completion(&c))
		usleep(1000);
	nobody = daemon_stolen(d) - stolen == most;
	/* The last one of them has had the time to run one more. */
	usleep(20000);
	for (uint32_t i = 0; i < 5; i++) {
		client_fill(other, oq, oh, PAGE, i, i);
		ck_assert(client_completion(other, &done));
		ck_assert_int_eq(done.result, 0);
	}
	nobody &= !client_has_completion(&c);
	if (no_threads) {
		no_threads = false;
		/* It is tried again before they end. */
		nobody &= comes_true(polling_threads() > 2 || client_has_completion(&c), 1000) &&
			  !client_has_completion(&c);
	}
	for (uint32_t i = 0; i < many; i++) {
		ck_assert(client_completion(&c, &done));
		ck_assert_int_eq(done.result, 0);
	}
	return nobody;
}

/* All threads that may poll run one by then, or no thread can be had for that. */
START_TEST(many_long_tasks_block_nobody)
{
	bool none = _i == 1, nobody = false;
	char conf[80];
	struct client other;

	down();
	cpus_seen = LONG_ONES + 2;
	snprintf(conf, sizeof(conf), "loop { inline_us = 400 } cpu { groups = { \"0-%d\" } }",
		 cpus_seen - 1);
	/* As before, a busy machine proves nothing; then it is tried again, for longer. */
	for (uint32_t us = 500000; us <= 4000000 && !nobody; us *= 2) {
		d = daemon_up_with(conf);
		client_open(&c, daemon_path(d));
		ready(64);
		client_open(&other, daemon_path(d));
		ck_assert_int_eq(client_init(&other, 8), 0);
		no_threads = none;
		nobody = many_block_nobody(&other, none ? 4 : LONG_ONES, none ? 1 : POLLER_THREADS - 1,
					   us);
		no_threads = false;
		client_close(&other);
		if (!nobody)
			down();
	}
	cpus_seen = 0;
	ck_assert(nobody);
}
END_TEST

/* Whether it is not before those that came first, each of which takes @ms, however urgent it is. */
static bool takes_its_turn(uint32_t ms)
{
	struct arax_queue_create late = { .size = sizeof(late), .priority = 19 };
	struct arax_queue_create soon = { .size = sizeof(soon), .priority = -20 };
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_completion done;
	struct client other;
	bool does;
	int i;

	up_slow("", 4, ms, daemon_up_twice);
	client_open(&other, daemon_second_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	ck_assert_uint_eq(other.context, c.context);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_CREATE, &late), 0);
		spin_task(k.id, late.handle, client_buffer(&c, PAGE, NULL, NULL), 1);
		usleep(ms * 1000 / 6);
	}
	ck_assert_int_eq(CALL(&other, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	ck_assert_int_eq(CALL(&other, ARAX_NR_QUEUE_CREATE, &soon), 0);
	client_spin(&other, k.id, soon.handle, client_buffer(&other, PAGE, NULL, NULL), 1);
	client_publish(&other);
	ck_assert(client_completion(&other, &done));
	ck_assert(client_completion(&c, &done));
	does = client_has_completion(&c);
	client_close(&other);
	return does;
}

/* Contexts of two links have the same numbers, and are two programs to a device all the same. */
START_TEST(links_count_for_themselves)
{
	uint32_t ms = 100;

	/* On a busy machine what came first may have been told to the device late. */
	while (!takes_its_turn(ms) && ms < 4800)
		ms *= 2;
	ck_assert_uint_lt(ms, 4800);
}
END_TEST

/* Of one tenant: how often the scheduler was told that weight, or another one. */
static atomic_ullong watched_tenant;
static atomic_uint told_so, told_otherwise;

#define WEIGHT	300u

int __real_sched_tenant_set(struct sched *s, const struct sched_tenant *t);
int __wrap_sched_tenant_set(struct sched *s, const struct sched_tenant *t);

int __wrap_sched_tenant_set(struct sched *s, const struct sched_tenant *t)
{
	if (t->id == watched_tenant) {
		if (t->weight == WEIGHT)
			told_so++;
		else
			told_otherwise++;
	}
	return __real_sched_tenant_set(s, t);
}

static bool is_filled(uint32_t q, uint32_t h)
{
	struct arax_completion done;

	client_fill(&c, q, h, PAGE, 1, 1);
	return client_completion(&c, &done);
}

/* It is told again and again while there is something to do. */
static bool comes_to_be_told(uint32_t times, uint32_t q, uint32_t h)
{
	return comes_true(is_filled(q, h) && told_so >= times, 1000);
}

/* A tenant of two links has the part of the first one, whatever the other goes on to tell. */
START_TEST(the_first_links_part_counts)
{
	struct core_tenant *t;
	struct client other;
	struct core *core;
	uint32_t q, h;

	down();
	d = daemon_up_twice("");
	client_open(&c, daemon_path(d));
	ready(4);
	client_open(&other, daemon_second_path(d));
	ck_assert_int_eq(client_init(&other, 8), 0);
	core = ((struct broker *)daemon_poller(d)->links[0])->core;
	core_mutex_lock(&core->lock);
	t = core_tenant_from(core->tenants, 0);
	ck_assert_ptr_nonnull(t);
	t->weight = WEIGHT;
	watched_tenant = t->id;
	core_mutex_unlock(&core->lock);
	q = client_queue(&c, 0);
	h = client_buffer(&c, PAGE, NULL, NULL);
	/* What it was told a moment before may still be on its way. */
	ck_assert(comes_to_be_told(1, q, h));
	told_otherwise = 0;
	ck_assert(comes_to_be_told(told_so + 3, q, h));
	ck_assert_uint_eq(told_otherwise, 0);
	client_close(&other);
}
END_TEST

/* It fills its eventfd and makes it block: that is the end of it, of nobody else. */
START_TEST(hostile_eventfd)
{
	const uint64_t full = UINT64_MAX - 1;
	struct arax_ring_ctl *ctl;
	uint64_t old;
	ssize_t got;
	uint32_t q;

	ready(4);
	ctl = (void *)c.region;
	q = client_queue(&c, 0);
	__atomic_store_n(&ctl->cq_need_wakeup, 1, __ATOMIC_SEQ_CST);
	got = read(c.wake_fd, &old, sizeof(old));
	(void)got;
	ck_assert_int_eq(write(c.wake_fd, &full, sizeof(full)), sizeof(full));
	ck_assert_int_eq(fcntl(c.wake_fd, F_SETFL, 0), 0);
	client_entry(&c)->queue = q;
	client_publish(&c);
	ended(ctl);
	still_serves();
}
END_TEST

/* Stops with a client's work under way and its calls waiting. */
START_TEST(stops_with_clients)
{
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_wait w = { .size = sizeof(w), .count = 1,
			       .deadline_ns = ARAX_DEADLINE_NONE };
	uint32_t q, h, i;

	ready(64);
	q = client_queue(&c, ARAX_QUEUE_DATAFLOW);
	h = client_buffer(&c, 256 * PAGE, NULL, NULL);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	w.points[0].timeline = tc.handle;
	w.points[0].value = 1;
	client_send(&c, ARAX_NR_WAIT, &w, sizeof(w), NULL, 0);
	for (i = 0; i < 60; i++)
		client_fill(&c, q, h, 256 * PAGE, i, i);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Descriptors whose closing has no end                                */

/* A socket, the first, whose last close waits for its peer to read what was sent. */
static void lingering(int *fds)
{
	static const uint8_t noise[65536];
	struct linger l = { .l_onoff = 1, .l_linger = 1000000 };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(door, (struct sockaddr *)&sa, len), 0);
	ck_assert_int_eq(listen(door, 1), 0);
	ck_assert_int_eq(getsockname(door, (struct sockaddr *)&sa, &len), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(fds[0], (struct sockaddr *)&sa, len), 0);
	fds[1] = accept4(door, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(fds[1], 0);
	while (send(fds[0], noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	ck_assert_int_eq(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	close(door);
}

static void send_info(struct client *by, const int *fds, uint32_t n)
{
	struct arax_info a = { .size = sizeof(a) };

	client_send(by, ARAX_NR_INFO, &a, sizeof(a), fds, n);
}

/* The service thread takes in who comes only once it may. */
static atomic_bool service_stops;
static sem_t service_there, service_goes;

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (atomic_exchange(&service_stops, false)) {
		sem_post(&service_there);
		sem_wait(&service_goes);
	}
	return __real_accept4(fd, addr, len, flags);
}

/* The service thread takes no message until it may go on: it takes @by in. */
static void stop_service(struct client *by)
{
	ck_assert_int_eq(sem_init(&service_there, 0, 0), 0);
	ck_assert_int_eq(sem_init(&service_goes, 0, 0), 0);
	service_stops = true;
	client_open(by, daemon_path(d));
	sem_wait(&service_there);
}

static void go_on_service(struct client *by)
{
	sem_post(&service_goes);
	client_close(by);
}

/* The daemon's descriptor of it, in a message of @by's, is the last. */
static void send_last(struct client *by, uint32_t nr, const void *arg, size_t bytes, uint32_t n)
{
	struct client stopper;
	int fds[8], pair[2];

	lingering(pair);
	for (uint32_t i = 0; i < n; i++)
		fds[i] = pair[i != n - 1];
	stop_service(&stopper);
	client_send(by, nr, arg, bytes, fds, n);
	close(pair[0]);
	go_on_service(&stopper);
	/* The peer stays open for good: not even the daemon's end waits for it. */
}

START_TEST(what_lingers_keeps_nobody)
{
	struct arax_buffer_import im = { .size = sizeof(im), .type = ARAX_IMPORT_ARAX };
	struct arax_timeline_share ts = { .size = sizeof(ts) };
	struct arax_info a = { .size = sizeof(a) };
	struct client one;

	ready(4);
	/* Beside a call that has no use for it. */
	client_open(&one, daemon_path(d));
	ck_assert_int_eq(CALL(&one, ARAX_NR_INFO, &a), 0);
	send_last(&one, ARAX_NR_INFO, &a, sizeof(a), 1);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), 0);
	still_serves();
	/* More than a message may have. */
	send_last(&one, ARAX_NR_INFO, &a, sizeof(a), 8);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), -ECONNRESET);
	client_close(&one);
	still_serves();
	/* In place of a timeline, of a memfd. */
	send_last(&c, ARAX_NR_TIMELINE_IMPORT, &ts, sizeof(ts), 1);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -EINVAL);
	send_last(&c, ARAX_NR_BUFFER_IMPORT, &im, sizeof(im), 1);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -EINVAL);
	still_serves();
}
END_TEST

/* Whose answer took long once is told of the end all the same, and not behind what has none. */
START_TEST(slow_once_is_told)
{
	struct arax_info a = { .size = sizeof(a) };
	struct client one;

	ready(4);
	client_open(&one, daemon_path(d));
	sent_slowly = true;
	ck_assert_int_eq(CALL(&one, ARAX_NR_INFO, &a), 0);
	sent_slowly = false;
	send_last(&one, ARAX_NR_INFO, &a, sizeof(a), 1);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), 0);
	send_info(&one, NULL, 0);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), 0);
	/* Less than a message. */
	ck_assert_int_eq(send(one.fd, "x", 1, MSG_NOSIGNAL), 1);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), -ECONNRESET);
	client_close(&one);
	still_serves();
}
END_TEST

/* On a connection that ends before it is read, as the message before is none. */
START_TEST(what_lingers_unread_keeps_nobody)
{
	struct client one, stopper;
	int pair[2];

	lingering(pair);
	client_open(&one, daemon_path(d));
	stop_service(&stopper);
	ck_assert_int_gt(send(one.fd, "x", 1, MSG_NOSIGNAL), 0);
	send_info(&one, pair, 1);
	close(pair[0]);
	go_on_service(&stopper);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), -ECONNRESET);
	client_close(&one);
	still_serves();
}
END_TEST

/* On one that nobody accepts. */
START_TEST(what_lingers_unaccepted_keeps_nobody)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct client one;
	int pair[2];

	lingering(pair);
	__atomic_store_n(&b->refuse, 1, __ATOMIC_RELEASE);
	broker_kick(b);
	usleep(50000);
	client_open(&one, daemon_path(d));
	send_info(&one, pair, 1);
	close(pair[0]);
}
END_TEST

struct held_set {
	int epoll, uffd;
	struct epoll_event *page;
	pthread_t thread;
};

/* Holds the set's lock while the kernel waits for a page to put the event on. */
static void *hold(void *arg)
{
	struct held_set *h = arg;

	epoll_wait(h->epoll, h->page, 1, -1);
	return NULL;
}

static bool hold_set(struct held_set *h)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct pollfd p = { .events = POLLIN };

	h->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (h->uffd < 0 || ioctl(h->uffd, UFFDIO_API, &api))
		return false;
	h->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(h->page, MAP_FAILED);
	reg.range.start = (uintptr_t)h->page;
	reg.range.len = PAGE;
	ck_assert_int_eq(ioctl(h->uffd, UFFDIO_REGISTER, &reg), 0);
	ck_assert_int_eq(pthread_create(&h->thread, NULL, hold, h), 0);
	p.fd = h->uffd;
	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	return true;
}

static void release_set(struct held_set *h)
{
	struct uffdio_zeropage z = { .range = { (uintptr_t)h->page, PAGE } };

	ck_assert_int_eq(ioctl(h->uffd, UFFDIO_ZEROPAGE, &z), 0);
	pthread_join(h->thread, NULL);
	munmap(h->page, PAGE);
	close(h->uffd);
	close(h->epoll);
}

/* The end of what an epoll set watches waits for whoever is at work on that set. */
START_TEST(what_is_watched_keeps_nobody)
{
	struct arax_timeline_eventfd a = { .size = sizeof(a), .value = 1 };
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct epoll_event ev = { .events = EPOLLIN };
	struct held_set h = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
	const uint64_t one = 1;
	int armed = eventfd(0, EFD_CLOEXEC);

	ready(4);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	a.handle = tc.handle;
	ck_assert_int_eq(client_call(&c, ARAX_NR_TIMELINE_EVENTFD, &a, sizeof(a), &armed, 1, NULL),
			 0);
	ck_assert_int_eq(epoll_ctl(h.epoll, EPOLL_CTL_ADD, armed, &ev), 0);
	ck_assert_int_eq(epoll_ctl(h.epoll, EPOLL_CTL_ADD, c.wake_fd, &ev), 0);
	ck_assert_int_eq(epoll_ctl(h.epoll, EPOLL_CTL_ADD, c.bell_fd, &ev), 0);
	ck_assert_int_eq(write(c.wake_fd, &one, sizeof(one)), sizeof(one));
	if (!hold_set(&h)) {
		printf("skipped: no userfaultfd can be made here: %s\n", strerror(errno));
		return;
	}
	close(armed);
	client_close(&c);
	client_open(&c, daemon_path(d));
	usleep(50000);
	still_serves();
	release_set(&h);
}
END_TEST

/* ------------------------------------------------------------------ */
/* What one user may have of araxd's                                   */

#define FILES	2000u
#define PART	(FILES / 4)	/* of them, one user's */
#define GREEDY	12345u

static struct rlimit files;

static void up_short_of_files(void)
{
	struct rlimit few;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	few = (struct rlimit){ FILES, files.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	up();
	log_max_level = 0;
	ck_assert_int_eq(chmod(daemon_path(d), 0666), 0);
	ready(4);
}

static void down_short_of_files(void)
{
	down();
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
}

/* This thread alone: the C library would change all of them. */
static void be(uid_t uid)
{
	ck_assert_int_eq(syscall(SYS_setresuid, -1, uid, -1), 0);
}

static void open_greedy(struct client *one)
{
	be(GREEDY);
	client_open(one, daemon_path(d));
	be(0);
	ck_assert_int_eq(client_init(one, 4), 0);
}

static uint32_t new_timeline(struct client *of)
{
	struct arax_timeline_create a = { .size = sizeof(a) };

	ck_assert_int_eq(CALL(of, ARAX_NR_TIMELINE_CREATE, &a), 0);
	return a.handle;
}

static int new_buffer(struct client *of, uint32_t *handle)
{
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = PAGE };
	int fd = memfd_sealed(PAGE, SEALS), err;

	err = client_call(of, ARAX_NR_BUFFER_CREATE, &a, sizeof(a), &fd, 1, NULL);
	close(fd);
	*handle = a.handle;
	return err;
}

/* They outlive connections, so they count for longer, too. */
START_TEST(exported_timelines_are_their_users)
{
	static int fds[2 * PART];
	uint32_t n = 0, closed, handle;
	struct client one, two;
	int fd = 0;

	open_greedy(&two);
	while (fd != -EDQUOT && n < 2 * PART) {
		open_greedy(&one);
		handle = new_timeline(&one);
		while (n < 2 * PART && (fd = export(&one, handle)) >= 0)
			fds[n++] = fd;
		ck_assert(n == 2 * PART || fd == -ENOSPC || fd == -EDQUOT);
		client_close(&one);
	}
	ck_assert_int_eq(fd, -EDQUOT);
	ck_assert_uint_ge(n, PART - 10);
	ck_assert_uint_le(n, PART);
	/* Nobody else is the worse for it. */
	fd = export(&c, new_timeline(&c));
	ck_assert_int_ge(fd, 0);
	close(fd);
	/* Nor the same user, once he has closed some. */
	for (closed = 0; closed < 20; closed++)
		close(fds[--n]);
	handle = new_timeline(&two);
	while ((fd = export(&two, handle)) < 0)
		usleep(1000);
	close(fd);
	while (n)
		close(fds[--n]);
	client_close(&two);
}
END_TEST

START_TEST(buffers_are_their_users)
{
	uint32_t n = 0, m = 0, handle, last = 0, other;
	struct client one, two;
	struct arax_handle hd = { .size = sizeof(hd) };
	int err;

	open_greedy(&one);
	open_greedy(&two);
	while (n < PART / 2 && !new_buffer(&one, &handle))
		n++;
	while (m < PART && !(err = new_buffer(&two, &handle))) {
		last = handle;
		m++;
	}
	ck_assert_uint_eq(n, PART / 2);
	ck_assert_int_eq(err, -EDQUOT);
	ck_assert_uint_ge(n + m, PART - 10);
	ck_assert_int_eq(new_buffer(&c, &other), 0);
	hd.handle = last;
	ck_assert_int_eq(CALL(&two, ARAX_NR_BUFFER_DESTROY, &hd), 0);
	while (new_buffer(&one, &handle))
		usleep(1000);
	client_close(&one);
	/* All of a connection's go with it. */
	for (m = 0; m < PART / 3;) {
		if (new_buffer(&two, &handle))
			usleep(1000);
		else
			m++;
	}
	client_close(&two);
}
END_TEST

START_TEST(armed_eventfds_are_their_users)
{
	struct arax_timeline_eventfd a = { .size = sizeof(a), .value = 1 };
	int fd = eventfd(0, 0), err = 0;
	struct client one, two;
	uint32_t n;

	open_greedy(&one);
	open_greedy(&two);
	for (n = 0; n < 2 * PART; n++) {
		if (n % 100 == 0)
			a.handle = new_timeline(&one);
		a.fd = 0;
		err = client_call(&one, ARAX_NR_TIMELINE_EVENTFD, &a, sizeof(a), &fd, 1, NULL);
		if (err)
			break;
	}
	ck_assert_int_eq(err, -EDQUOT);
	ck_assert_uint_ge(n, PART - 10);
	ck_assert_uint_le(n, PART);
	client_close(&one);
	/* They go with their timelines. */
	a.handle = new_timeline(&two);
	a.fd = 0;
	while (client_call(&two, ARAX_NR_TIMELINE_EVENTFD, &a, sizeof(a), &fd, 1, NULL)) {
		a.fd = 0;
		usleep(1000);
	}
	client_close(&two);
	close(fd);
}
END_TEST

/* The one who waits is taken when there is a descriptor again, though others call all the time. */
START_TEST(accepting_goes_on)
{
	struct rlimit none = { 0, files.rlim_max }, some = { FILES, files.rlim_max };
	struct arax_info a = { .size = sizeof(a) };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct pollfd p = { .events = POLLIN };
	struct client late = { .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) };

	strcpy(sa.sun_path, daemon_path(d));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	ck_assert_int_eq(connect(late.fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	client_send(&late, ARAX_NR_INFO, &a, sizeof(a), NULL, 0);
	p.fd = late.fd;
	for (uint32_t i = 0; i < 100; i++)
		ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
	ck_assert_int_lt(recv(late.fd, &a, sizeof(a), MSG_PEEK | MSG_DONTWAIT), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &some), 0);
	ck_assert(comes_true(!CALL(&c, ARAX_NR_INFO, &a) && poll(&p, 1, 0) == 1, 1000));
	ck_assert_int_eq(client_receive(&late, &a, sizeof(a), NULL), 0);
	close(late.fd);
}
END_TEST

static void open_as(struct client *one, uid_t uid)
{
	be(uid);
	client_open(one, daemon_path(d));
	be(0);
}

#define CROWD		20
#define CROWDS		12	/* messages of each */

/* When the next answer was sent, by the kernel's clock. */
static uint64_t answered_ns(const struct client *of)
{
	char control[CMSG_SPACE(sizeof(struct timespec))], body[ARAX_MSG_MAX];
	struct iovec iov = { body, sizeof(body) };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cm;
	struct timespec t;

	ck_assert_int_gt(recvmsg(of->fd, &mh, 0), 0);
	cm = CMSG_FIRSTHDR(&mh);
	ck_assert_ptr_nonnull(cm);
	ck_assert_int_eq(cm->cmsg_type, SCM_TIMESTAMPNS);
	memcpy(&t, CMSG_DATA(cm), sizeof(t));
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open_stamped(struct client *one, uid_t uid)
{
	int yes = 1;

	open_as(one, uid);
	ck_assert_int_eq(setsockopt(one->fd, SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof(yes)), 0);
}

static uint32_t halted, go_on;

/* On the service thread, whom messages wait for meanwhile. */
static void halt_service(struct work *w)
{
	__atomic_store_n(&halted, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* Whoever comes last with one message is not behind all that another sends by many connections. */
START_TEST(connections_get_a_users_part)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct arax_info a = { .size = sizeof(a) };
	struct work w = { .run = halt_service };
	struct client crowd[CROWD], late;
	uint32_t i, k, before = 0;
	uint64_t then;

	for (i = 0; i < CROWD; i++)
		open_stamped(&crowd[i], GREEDY);
	open_stamped(&late, GREEDY + 1);
	/* All are accepted. */
	for (i = 0; i <= CROWD; i++) {
		client_send(i < CROWD ? &crowd[i] : &late, ARAX_NR_INFO, &a, sizeof(a), NULL, 0);
		answered_ns(i < CROWD ? &crowd[i] : &late);
	}
	broker_reply_later(b, &w);
	while (!__atomic_load_n(&halted, __ATOMIC_ACQUIRE))
		sched_yield();
	for (i = 0; i < CROWD; i++)
		for (k = 0; k < CROWDS; k++)
			client_send(&crowd[i], ARAX_NR_INFO, &a, sizeof(a), NULL, 0);
	client_send(&late, ARAX_NR_INFO, &a, sizeof(a), NULL, 0);
	__atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
	then = answered_ns(&late);
	for (i = 0; i < CROWD; i++)
		for (k = 0; k < CROWDS; k++)
			before += answered_ns(&crowd[i]) < then;
	ck_assert_uint_le(before, 2 * CROWD);
	for (i = 0; i < CROWD; i++)
		client_close(&crowd[i]);
	client_close(&late);
}
END_TEST

/* What it is told when it calls, and 0 if nothing is wrong. */
static int told(struct client *of)
{
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .id = 1 };

	send(of->fd, &msg, sizeof(msg), MSG_NOSIGNAL);
	if (recv(of->fd, &msg, sizeof(msg), 0) != sizeof(msg))
		return -ECONNRESET;
	return msg.id == ARAX_MSG_REFUSED ? msg.result : 0;
}

/* Closing it takes until the test closes @pair[1]. */
static void send_stuck(struct client *by, int *pair)
{
	struct client stopper;

	lingering(pair);
	stop_service(&stopper);
	send_info(by, pair, 1);
	close(pair[0]);
	go_on_service(&stopper);
	ck_assert_int_eq(client_receive(by, NULL, 0, NULL), 0);
}

/* As many as may wait, behind one whose end the test has in @pair[1]. */
static void fill_closer(struct client *by, int *pair, int null)
{
	send_stuck(by, pair);
	for (uint32_t n = 1; n < FILES / 16; n++) {
		send_info(by, &null, 1);
		ck_assert_int_eq(client_receive(by, NULL, 0, NULL), 0);
	}
}

/* False: the machine has stood still for so long that it has been taken for one without end. */
static bool is_only_paused(int null)
{
	struct pollfd answer = { .events = POLLIN };
	struct arax_msg msg;
	struct client one;
	int pair[2];
	bool paused;

	open_greedy(&one);
	fill_closer(&one, pair, null);
	send_info(&one, &null, 1);
	answer.fd = one.fd;
	ck_assert(poll(&answer, 1, 50) == 0 || recv(one.fd, &msg, sizeof(msg), MSG_PEEK) <= 0);
	close(pair[1]);
	paused = recv(one.fd, &msg, sizeof(msg), MSG_PEEK) > 0;
	client_close(&one);
	return paused;
}

/* Nothing is lost, but time. */
START_TEST(who_sends_quickly_waits)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), tries = 20;

	while (!is_only_paused(null) && --tries)
		usleep(100000);
	ck_assert_int_gt(tries, 0);
	close(null);
}
END_TEST

/* What can't be closed counts for whose it is, and he has no more of it than a few. */
START_TEST(stuck_descriptors_are_their_users)
{
	struct client one, two;
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .id = 1 };
	int pair[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int err;

	open_greedy(&one);
	open_greedy(&two);
	fill_closer(&one, pair, null);
	/* No more, neither here nor there; who sends nothing need not be looked at. */
	send(one.fd, &msg, sizeof(msg), MSG_NOSIGNAL);
	ck_assert_int_le(recv(one.fd, &msg, sizeof(msg), 0), 0);
	send(two.fd, &msg, sizeof(msg), MSG_NOSIGNAL);
	ck_assert_int_le(recv(two.fd, &msg, sizeof(msg), 0), 0);
	client_close(&one);
	client_close(&two);
	open_as(&one, GREEDY);
	ck_assert_int_eq(recv(one.fd, &msg, sizeof(msg), 0), sizeof(msg));
	ck_assert_uint_eq(msg.id, ARAX_MSG_REFUSED);
	ck_assert_int_eq(msg.result, -EDQUOT);
	client_close(&one);
	still_serves();
	/* Reset, it lingers no more, and the others follow. */
	close(pair[1]);
	do {
		usleep(1000);
		/* Once one was refused with a message unread he may be barred for a moment. */
		be(GREEDY);
		err = client_connect(&one, daemon_path(d));
		be(0);
		err = err ? err : told(&one);
		client_close(&one);
	} while (err);
	close(null);
}
END_TEST

/* 0 or an error; what is sent before it is accepted is not read if it is refused. */
static int leave_one(uid_t uid, int fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int one = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { { .cmsg_len = CMSG_LEN(sizeof(fd)), .cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "x", 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			     .msg_controllen = sizeof(control) };

	ck_assert_int_ge(one, 0);
	strcpy(sa.sun_path, daemon_path(d));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	be(uid);
	err = connect(one, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
	be(0);
	/* It may be refused by now. */
	if (!err)
		sendmsg(one, &mh, MSG_NOSIGNAL);
	close(one);
	return err;
}

#define LEFT	700u	/* less than all that araxd has, and more than what waits to be accepted */

/* Nor does he have them closed by others' means by being refused: he is let in again when they are. */
START_TEST(refused_connections_are_few)
{
	int pair[2], err = 0, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct client one;
	uint32_t n;

	if (getxattr(daemon_path(d), "system.posix_acl_access", NULL, 0) < 0 && errno == EOPNOTSUPP) {
		printf("skipped: no ACLs in %s\n", daemon_path(d));
		return;
	}
	open_greedy(&one);
	fill_closer(&one, pair, null);
	/* Until he is seen to be stuck. */
	while (told(&one) != -ECONNRESET)
		;
	client_close(&one);
	for (n = 0; n < LEFT && !err; n++)
		err = leave_one(GREEDY, null);
	ck_assert_int_eq(err, -EACCES);
	still_serves();
	ck_assert_int_eq(leave_one(GREEDY + 1, null), 0);
	open_as(&one, GREEDY + 1);
	ck_assert_int_eq(told(&one), 0);
	client_close(&one);
	close(pair[1]);
	ck_assert(comes_true(!leave_one(GREEDY, null), 10000));
	close(null);
}
END_TEST

/*
 * Nor by being refused where no list keeps him out, as there are too many like him: no user comes once
 * none could be taken, and what is left is administrators' still.
 */
START_TEST(who_cant_be_barred_leaves_some)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	int pair[2], err = 0, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const uint32_t held = FILES - FILES / 4 - 200;
	struct barred others = { .nr = 0 };
	struct client one, root;
	struct holder *rest;
	struct stat st;
	uint32_t n;

	/* Its list is not araxd's, if it can have one at all. */
	barred_add(&others, daemon_path(d), GREEDY + 7);
	open_greedy(&one);
	fill_closer(&one, pair, null);
	while (told(&one) != -ECONNRESET)
		;
	client_close(&one);
	/* While there is room nobody else is kept out. */
	ck_assert_int_eq(leave_one(GREEDY, null), 0);
	ck_assert_int_eq(leave_one(GREEDY + 1, null), 0);
	rest = holdings_owe(b->holdings, GREEDY + 2, false, held);
	for (n = 0; n < LEFT && !err; n++)
		err = leave_one(GREEDY, null);
	ck_assert_int_eq(err, -EACCES);
	ck_assert_int_eq(leave_one(GREEDY + 1, null), -EACCES);
	client_open(&root, daemon_path(d));
	ck_assert_int_eq(told(&root), 0);
	client_close(&root);
	holder_give(rest, held, 0);
	ck_assert(comes_true(!leave_one(GREEDY + 1, null), 10000));
	ck_assert_int_eq(stat(daemon_path(d), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0666);
	close(pair[1]);
	close(null);
}
END_TEST

/* Nobody is taken in only to be refused where an administrator would be, too: araxd needs the rest. */
START_TEST(what_is_left_is_the_daemons)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct holder *rest = holdings_owe(b->holdings, GREEDY, false, FILES - FILES / 8);
	struct arax_info a = { .size = sizeof(a) };
	struct client root;
	struct pollfd p;

	client_open(&root, daemon_path(d));
	client_send(&root, ARAX_NR_INFO, &a, sizeof(a), NULL, 0);
	p = (struct pollfd){ .fd = root.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 300), 0);
	/* Who is there already is served. */
	ck_assert_int_eq(CALL(&c, ARAX_NR_INFO, &a), 0);
	holder_give(rest, FILES - FILES / 8, 0);
	ck_assert_int_eq(client_receive(&root, &a, sizeof(a), NULL), 0);
	client_close(&root);
}
END_TEST

/* Users who have less each than one may, and together more than all: who adds to it waits. */
START_TEST(stuck_descriptors_are_all_users)
{
	int pair[3][2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .id = 1 };
	struct client one[3], other;
	uint32_t i;

	for (i = 0; i < 3; i++)
		open_as(&one[i], GREEDY + i);
	for (i = 0; i < 2; i++)
		fill_closer(&one[i], pair[i], null);
	/* One is not too much for who has none. */
	send_stuck(&one[2], pair[2]);
	send(one[2].fd, &msg, sizeof(msg), MSG_NOSIGNAL);
	ck_assert_int_le(recv(one[2].fd, &msg, sizeof(msg), 0), 0);
	open_as(&other, GREEDY + 3);
	send_info(&other, &null, 1);
	ck_assert_int_eq(client_receive(&other, NULL, 0, NULL), 0);
	client_close(&other);
	still_serves();
	for (i = 0; i < 3; i++) {
		close(pair[i][1]);
		client_close(&one[i]);
	}
	close(null);
}
END_TEST

/* None comes when there is no place left for it: what brings none goes on, and administrators do. */
START_TEST(no_descriptors_come_without_a_place)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct client one, two, root;
	struct holder *rest;
	struct pollfd p;

	open_as(&one, GREEDY);
	open_as(&two, GREEDY);
	client_open(&root, daemon_path(d));
	ck_assert_int_eq(told(&one), 0);
	rest = holdings_owe(b->holdings, GREEDY + 1, false, FILES - FILES / 4);
	send_info(&one, &null, 1);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(told(&two), 0);
	send_info(&root, &null, 1);
	ck_assert_int_eq(client_receive(&root, NULL, 0, NULL), 0);
	p = (struct pollfd){ .fd = one.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 50), 0);
	holder_give(rest, FILES - FILES / 4, 0);
	ck_assert_int_eq(client_receive(&one, NULL, 0, NULL), 0);
	client_close(&one);
	client_close(&two);
	client_close(&root);
	close(null);
}
END_TEST

static uint64_t contexts_used(void)
{
	struct arax_tenant t = { .size = sizeof(t), .cgroup_fd = -1 };

	ck_assert_int_eq(CALL(&c, ARAX_NR_TENANT_QUERY, &t), 0);
	return t.usage.counters[ARAX_RES_CONTEXTS].used;
}

/* From one that waits nothing is read, not even its end: all that it has goes with it all the same. */
START_TEST(who_waits_may_leave)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct holder *rest;
	struct client one;
	struct pollfd p;
	uint64_t used;

	open_greedy(&one);
	used = contexts_used();
	rest = holdings_owe(b->holdings, GREEDY + 1, false, FILES - FILES / 4);
	send_info(&one, &null, 1);
	p = (struct pollfd){ .fd = one.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 50), 0);
	client_close(&one);
	ck_assert(comes_true(contexts_used() == used - 1, 1000));
	holder_give(rest, FILES - FILES / 4, 0);
	close(null);
}
END_TEST

/* Nor is it its sender's fault that araxd has no more. */
START_TEST(descriptors_without_a_place_are_no_garbage)
{
	struct rlimit none = { 0, files.rlim_max }, some = { FILES, files.rlim_max };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fds[3] = { null, null, null };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	send_info(&c, fds, 3);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), -EMFILE);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &some), 0);
	send_info(&c, fds, 3);
	ck_assert_int_eq(client_receive(&c, NULL, 0, NULL), 0);
	close(null);
}
END_TEST

/* araxd's clocks are so far ahead: what is due by then need not be waited for. */
static atomic_int ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (clock == CLOCK_MONOTONIC)
		ts->tv_sec += ahead_s;
	return ret;
}

static void close_of(struct closer *cl, struct holdings *h, uid_t uid, int fd)
{
	closer_close(cl, holdings_owe(h, uid, false, 1), CLOSER_FOREIGN, fd);
}

/* Since when counts as its thread begins with it, however late that is. */
static enum closer_state state_2s_later(struct closer *cl, uid_t uid)
{
	ahead_s += 2;
	return closer_state(cl, uid);
}

/* Whose descriptors wait as others have all threads has done nothing: he waits, and loses nothing. */
START_TEST(without_a_thread_nobody_is_stuck)
{
	const struct holdings_limits limits = { 1000, 1000 };
	struct holdings *h = holdings_create(&limits);
	struct closer *cl = closer_create(2, 3);
	int pair[2];

	lingering(pair);
	close_of(cl, h, GREEDY, pair[0]);
	close_of(cl, h, GREEDY, dup(0));
	no_threads = true;
	close_of(cl, h, GREEDY + 1, dup(0));
	no_threads = false;
	ck_assert_int_eq(closer_state(cl, GREEDY + 1), CLOSER_FULL);
	ck_assert_int_eq(closer_state(cl, GREEDY + 2), CLOSER_ROOM);
	ck_assert(comes_true(state_2s_later(cl, GREEDY) == CLOSER_STUCK, 1000));
	ck_assert_int_eq(closer_state(cl, GREEDY + 1), CLOSER_FULL);
	ahead_s = 0;
	/* Then they have one. */
	close(pair[1]);
	ck_assert(comes_true(closer_state(cl, GREEDY + 1) == CLOSER_ROOM, 1000));
	closer_end(cl);
	holdings_destroy(h);
}
END_TEST

/* A few users, or one of many uids, take all places: but administrators'. */
START_TEST(places_are_left)
{
	enum { PLACES = 32, USERS = PLACES - PLACES / 16 };
	struct client idle[USERS], root, more;
	uint32_t i;
	int err;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("link { max_clients = 32 }");
	log_max_level = 0;
	ck_assert_int_eq(chmod(daemon_path(d), 0666), 0);
	open_as(&c, GREEDY);
	ck_assert_int_eq(client_init(&c, 4), 0);
	for (i = 0; i < USERS - 1; i++) {
		open_as(&idle[i], GREEDY + i);
		ck_assert_int_eq(told(&idle[i]), 0);
	}
	open_as(&more, GREEDY + i);
	ck_assert_int_lt(told(&more), 0);
	client_close(&more);
	client_open(&root, daemon_path(d));
	ck_assert_int_eq(told(&root), 0);
	/* Nor do those stay who have made nothing of theirs. */
	ahead_s = 6;
	open_as(&more, GREEDY + i);
	told(&more);
	client_close(&more);
	for (i = 0; i < USERS - 1; i++) {
		ck_assert_int_eq(told(&idle[i]), -ECONNRESET);
		client_close(&idle[i]);
	}
	/* Their places are free a moment later. */
	for (err = -1; err; client_close(&more)) {
		open_as(&more, GREEDY + i);
		err = told(&more);
	}
	ck_assert_int_eq(told(&root), 0);
	ck_assert_int_eq(told(&c), 0);
	client_close(&root);
	/* Those that araxd's end waits for wait by the other one. */
	ahead_s = 0;
}
END_TEST

/* Who closes a context has one more, and is not told that what he closed is not gone yet. */
START_TEST(closed_contexts_make_room)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct client one, more;
	uint32_t h, i;

	client_close(&c);
	daemon_down(d);
	d = daemon_up_with("limits { contexts = 2 }");
	ck_assert_int_eq(chmod(daemon_path(d), 0666), 0);
	open_as(&c, GREEDY);
	ck_assert_int_eq(client_init(&c, 4), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	for (i = 0; i < 200; i++) {
		open_greedy(&one);
		client_close(&one);
	}
	/* What of it still runs comes to its end. */
	open_greedy(&one);
	h = client_buffer(&one, PAGE, NULL, NULL);
	client_spin(&one, k.id, client_queue(&one, 0), h, 50000);
	client_publish(&one);
	client_close(&one);
	/* Meanwhile somebody else loses patience, or asks twice. */
	open_as(&more, GREEDY);
	client_send_init(&more, 4);
	client_send_init(&more, 4);
	client_close(&more);
	open_greedy(&one);
	/* But two are all that there is to have. */
	open_as(&more, GREEDY);
	ck_assert_int_eq(client_init(&more, 4), -EDQUOT);
	client_close(&more);
	client_close(&one);
}
END_TEST

#define SETS		100u
#define COPIES		200u

/* A write to @fd looks at so many that watch it; a set watches any number of its copies. */
static void watch_much(int fd, int *sets, int *copies)
{
	struct epoll_event ev = { .events = EPOLLIN };

	for (uint32_t i = 0; i < SETS; i++)
		sets[i] = epoll_create1(EPOLL_CLOEXEC);
	for (uint32_t c = 0; c < COPIES; c++) {
		copies[c] = dup(fd);
		for (uint32_t i = 0; i < SETS; i++)
			ck_assert_int_eq(epoll_ctl(sets[i], EPOLL_CTL_ADD, copies[c], &ev), 0);
	}
}

static void close_fds(const int *fds, uint32_t n)
{
	while (n--)
		close(fds[n]);
}

static int writing;

static void *write_on(void *arg)
{
	const uint64_t one = 1;

	while (__atomic_load_n(&writing, __ATOMIC_RELAXED))
		if (write(*(const int *)arg, &one, sizeof(one)) < 0 && errno != EAGAIN)
			break;
	return NULL;
}

/* Nor does a doorbell let the poller go while all who watch it are told that it was rung. */
START_TEST(watched_doorbell)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	int sets[SETS], copies[COPIES];
	struct arax_msg msg;
	uid_t uid = GREEDY;
	struct client one;
	pthread_t t;

	do {
		open_as(&one, ++uid);
		ck_assert_int_eq(client_init(&one, 4), 0);
		watch_much(one.bell_fd, sets, copies);
		/* Nearly all that another user has, so that one such wait is enough. */
		patience_spend(&b->patience, uid, b->patience.slowness * (PATIENCE_NS - 500000),
			       monotonic_ns());
		__atomic_store_n(&writing, 1, __ATOMIC_RELAXED);
		ck_assert_int_eq(pthread_create(&t, NULL, write_on, &copies[0]), 0);
		client_close(&one);
		/* By the poller, behind that one's end. */
		still_serves();
		__atomic_store_n(&writing, 0, __ATOMIC_RELAXED);
		pthread_join(t, NULL);
		close_fds(sets, SETS);
		close_fds(copies, COPIES);
	} while (!patience_is_over(&b->patience, uid, monotonic_ns()));
	/* That is told whoever of that user comes next. */
	open_as(&one, uid);
	ck_assert_int_eq(recv(one.fd, &msg, sizeof(msg), 0), sizeof(msg));
	ck_assert_int_eq(msg.result, -EACCES);
	client_close(&one);
}
END_TEST

#define MAPPED_TIMES	50000u		/* of 65,530 that a process may have */

/* Its mappings are looked through as long as it lives. */
static pid_t search_mappings(int fd)
{
	int ready[2];
	pid_t pid;
	char one;

	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		/* Neighbours that are no continuation of each other, where the file has no pages. */
		for (uint32_t i = 0; i < MAPPED_TIMES; i++)
			mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, (4 + i % 2) * PAGE);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4 * PAGE, 2 * PAGE);
	}
	ck_assert_int_eq(read(ready[0], &one, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* To map and unmap it waits for who walks through its mappings: its user has a tenth of a second. */
START_TEST(memfd_mapped_often)
{
	int fd = memfd_create("often", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct arax_buffer_create a = { .size = sizeof(a), .bytes = 4 * PAGE, .fd = 0 };
	struct arax_handle h = { .size = sizeof(h) };
	struct arax_ring_ctl *ctl;
	struct arax_msg msg;
	struct client one;
	pid_t pid;
	int err;

	/* What is punched is behind its end: it has no holes. */
	ck_assert_int_eq(fallocate(fd, 0, 0, 4 * PAGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, SEALS), 0);
	pid = search_mappings(fd);
	open_greedy(&one);
	ctl = (void *)one.region;
	do {
		err = client_call(&one, ARAX_NR_BUFFER_CREATE, &a, sizeof(a), &fd, 1, NULL);
		h.handle = a.handle;
		if (!err)
			err = CALL(&one, ARAX_NR_BUFFER_DESTROY, &h);
		/* EMLINK: as many as may be wait to be unmapped. */
	} while (!err || err == -EMLINK);
	ck_assert_msg(err == -ECONNRESET || err == -EPIPE, "%d", err);
	ck_assert_uint_eq(__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED), EPIPE);
	client_close(&one);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	open_as(&one, GREEDY);
	ck_assert_int_eq(recv(one.fd, &msg, sizeof(msg), 0), sizeof(msg));
	ck_assert_uint_eq(msg.id, ARAX_MSG_REFUSED);
	ck_assert_int_eq(msg.result, -EACCES);
	client_close(&one);
	still_serves();
	close(fd);
}
END_TEST

static int import(struct client *of, int fd, uint32_t *handle)
{
	struct arax_buffer_import a = { .size = sizeof(a), .type = ARAX_IMPORT_MEMFD, .fd = 0 };
	int err = client_call(of, ARAX_NR_BUFFER_IMPORT, &a, sizeof(a), &fd, 1, NULL);

	*handle = a.handle;
	return err;
}

#define SAME_FILE_MAX	32u

/* As it is unmapped each may be waited for, by all. */
START_TEST(one_file_is_few_buffers)
{
	int fd = memfd_create("same", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct arax_handle h = { .size = sizeof(h) };
	struct client one, two, other;
	uint32_t handle;

	ck_assert_int_eq(fallocate(fd, 0, 0, PAGE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	open_greedy(&one);
	open_greedy(&two);
	for (uint32_t i = 0; i < SAME_FILE_MAX; i++)
		ck_assert_int_eq(import(i % 2 ? &one : &two, fd, &h.handle), 0);
	ck_assert_int_eq(import(&two, fd, &handle), -EMLINK);
	ck_assert_int_eq(CALL(&one, ARAX_NR_BUFFER_DESTROY, &h), 0);
	ck_assert(comes_true(!import(&two, fd, &handle), 1000));
	ck_assert_int_eq(import(&two, fd, &handle), -EMLINK);
	/* But others have as many. */
	open_as(&other, GREEDY + 1);
	ck_assert_int_eq(client_init(&other, 4), 0);
	for (uint32_t i = 0; i < SAME_FILE_MAX; i++)
		ck_assert_int_eq(import(&other, fd, &handle), 0);
	client_close(&one);
	client_close(&two);
	client_close(&other);
	close(fd);
}
END_TEST

/* Who has had too much of araxd's time is told so, and nobody else is. */
static void greedy_is_refused(void)
{
	struct arax_msg msg;
	struct client one;

	be(GREEDY);
	client_open(&one, daemon_path(d));
	be(0);
	ck_assert_int_eq(recv(one.fd, &msg, sizeof(msg), 0), sizeof(msg));
	ck_assert_uint_eq(msg.id, ARAX_MSG_REFUSED);
	ck_assert_int_eq(msg.result, -EACCES);
	ck_assert_int_eq(recv(one.fd, &msg, sizeof(msg), 0), 0);
	close(one.fd);
	still_serves();
}

/* Its words end what it is, and are told whoever of that user comes next: but nobody else. */
START_TEST(watched_eventfd)
{
	int sets[SETS], copies[COPIES];
	struct arax_completion done;
	struct arax_ring_ctl *ctl;
	struct client one;
	uint32_t q;

	open_greedy(&one);
	ctl = (void *)one.region;
	q = client_queue(&one, 0);
	watch_much(one.wake_fd, sets, copies);
	while (!__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED)) {
		__atomic_store_n(&ctl->cq_need_wakeup, 1, __ATOMIC_SEQ_CST);
		client_entry(&one)->queue = q;
		client_publish(&one);
		while (!client_has_completion(&one) && !__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED))
			usleep(100);
		if (client_has_completion(&one))
			client_completion(&one, &done);
	}
	ck_assert_uint_eq(__atomic_load_n(&ctl->dead, __ATOMIC_RELAXED), EPIPE);
	client_close(&one);
	greedy_is_refused();
	close_fds(sets, SETS);
	close_fds(copies, COPIES);
}
END_TEST

/*
 * A holder may be gone for who has nothing left in it.  The closer's thread would have to be done
 * within some nanoseconds: so what counts is that it is asked, not that it is gone.
 */
static atomic_uint gave_nothing;

void __real_holder_give(struct holder *holder, uint32_t fds, uint32_t maps);
void __wrap_holder_give(struct holder *holder, uint32_t fds, uint32_t maps);

void __wrap_holder_give(struct holder *holder, uint32_t fds, uint32_t maps)
{
	if (!fds && !maps)
		atomic_fetch_add(&gave_nothing, 1);
	__real_holder_give(holder, fds, maps);
}

/* All that a connection has is then closed by another thread, perhaps before the connection is freed. */
START_TEST(closed_with_messages_unread)
{
	struct arax_msg msg = { .nr = ARAX_NR_INFO, .id = 1 };
	struct client one;

	for (int i = 0; i < 200; i++) {
		be(GREEDY);
		client_open(&one, daemon_path(d));
		be(0);
		ck_assert_int_eq(client_init(&one, 4), 0);
		for (int k = 0; k < 40; k++)
			send(one.fd, &msg, sizeof(msg), MSG_NOSIGNAL | MSG_DONTWAIT);
		client_close(&one);
	}
	still_serves();
	ck_assert_uint_eq(atomic_load(&gave_nothing), 0);
}
END_TEST

/* An answer is looked at by as many, and so is the end of the connection. */
START_TEST(watched_socket)
{
	int sets[SETS], copies[COPIES];
	struct client one;

	open_greedy(&one);
	watch_much(one.fd, sets, copies);
	while (!told(&one))
		;
	client_close(&one);
	greedy_is_refused();
	close_fds(sets, SETS);
	close_fds(copies, COPIES);
}
END_TEST

#define READ_NS		500000u		/* less than it takes to tell so many */

/* So is it that a message has been read, which here is answered by nothing. */
START_TEST(watched_while_read)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct {
		struct arax_msg msg;
		struct arax_wait w;
	} m = {
		.msg = { .nr = ARAX_NR_WAIT, .id = 1000 },
		.w = { .size = sizeof(m.w), .count = 1, .deadline_ns = UINT64_MAX },
	};
	struct pollfd p = { .events = POLLRDHUP };
	int sets[SETS], copies[COPIES];
	struct client one;

	open_greedy(&one);
	m.w.points[0].timeline = new_timeline(&one);
	m.w.points[0].value = 1;
	watch_much(one.fd, sets, copies);
	patience_spend(&b->patience, GREEDY, b->patience.slowness * (PATIENCE_NS - READ_NS),
		       monotonic_ns());
	/* Its end may come before all are sent. */
	for (; m.msg.id < 1100 && send(one.fd, &m, sizeof(m), MSG_NOSIGNAL) > 0; m.msg.id++)
		;
	p.fd = one.fd;
	ck_assert_int_eq(poll(&p, 1, 10000), 1);
	ck_assert_int_eq(p.revents & POLLRDHUP, POLLRDHUP);
	client_close(&one);
	greedy_is_refused();
	close_fds(sets, SETS);
	close_fds(copies, COPIES);
}
END_TEST

/* As where a process has many threads that have ended. */
static atomic_bool is_slow_to_know;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size);

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
	uint64_t begin_ns = wake_thread_ns();

	while (is_slow_to_know && name == SO_PEERPIDFD &&
	       wake_beyond_usual(wake_thread_ns() - begin_ns) < 2 * READ_NS)
		;
	return __real_getsockopt(fd, level, name, value, size);
}

/* Whose process is slow to look at pays for that, before it has a connection. */
START_TEST(who_is_slow_to_know)
{
	struct broker *b = (struct broker *)daemon_poller(d)->links[0];
	struct client one;

	patience_spend(&b->patience, GREEDY, b->patience.slowness * (PATIENCE_NS - READ_NS),
		       monotonic_ns());
	is_slow_to_know = true;
	open_as(&one, GREEDY);
	while (!patience_is_over(&b->patience, GREEDY, monotonic_ns()))
		usleep(100);
	is_slow_to_know = false;
	client_close(&one);
	greedy_is_refused();
}
END_TEST

static uint32_t urgent_queue(void)
{
	struct arax_queue_create a = {
		.size = sizeof(a), .priority = -3, .target_ns = 1000000000ull,
	};

	ck_assert_int_eq(CALL(&c, ARAX_NR_QUEUE_CREATE, &a), 0);
	return a.handle;
}

static double number(const json_t *line, const char *key)
{
	ck_assert_msg(json_is_number(json_object_get(line, key)), "no %s", key);
	return json_number_value(json_object_get(line, key));
}

/* A task says how it was queued, and one that waited for a timeline until when. */
static void check_record(const char *path)
{
	FILE *f = fopen(path, "re");
	json_t *line[2];
	size_t size = 0;
	char *text = NULL;

	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_gt(getline(&text, &size, f), 0);
		line[i] = json_loads(text, 0, NULL);
		ck_assert_ptr_nonnull(line[i]);
	}
	ck_assert_int_lt(getline(&text, &size, f), 0);
	ck_assert(json_is_true(json_object_get(line[0], "barrier")));
	ck_assert_ptr_null(json_object_get(line[0], "in_order"));
	ck_assert_ptr_null(json_object_get(line[0], "priority"));
	ck_assert_ptr_null(json_object_get(line[0], "target_us"));
	ck_assert_ptr_null(json_object_get(line[0], "unblock_us"));
	ck_assert(json_is_true(json_object_get(line[1], "in_order")));
	ck_assert_ptr_null(json_object_get(line[1], "barrier"));
	ck_assert_int_eq((int)number(line[1], "priority"), -3);
	ck_assert_double_eq_tol(number(line[1], "target_us"), 1000000, 0.01);
	/* It was let go when the other one had long ended. */
	ck_assert_double_ge(number(line[1], "unblock_us"),
			    number(line[0], "start_us") + number(line[0], "run_us"));
	ck_assert_double_le(number(line[1], "unblock_us"), number(line[1], "start_us"));
	json_decref(line[0]);
	json_decref(line[1]);
	free(text);
	fclose(f);
}

START_TEST(tasks_are_recorded_as_queued)
{
	struct arax_kernel_lookup k = { .size = sizeof(k), .name = "spin" };
	struct arax_timeline_create tc = { .size = sizeof(tc) };
	struct arax_timeline_point tp = { .size = sizeof(tp), .value = 1 };
	char path[UNIT_TMP_LEN];
	struct arax_completion done;
	struct arax_task_ext *x;
	struct arax_task *t;
	uint32_t buffer;

	close(mkstemp(unit_tmp(path, "arax-trace-XXXXXX")));
	d = daemon_up_traced(path);
	client_open(&c, daemon_path(d));
	ready(8);
	ck_assert_int_eq(CALL(&c, ARAX_NR_KERNEL_LOOKUP, &k), 0);
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_CREATE, &tc), 0);
	buffer = client_buffer(&c, 4096, NULL, NULL);
	x = (void *)(c.region + c.layout.arena_offset);
	*x = (struct arax_task_ext){
		.size = sizeof(*x), .wait_timeline = tc.handle, .wait_value = 1,
	};
	client_spin(&c, k.id, urgent_queue(), buffer, 10)->flags = ARAX_TASK_EXT;
	client_publish(&c);
	t = client_spin(&c, k.id, client_queue(&c, ARAX_QUEUE_DATAFLOW),
			client_buffer(&c, 4096, NULL, NULL), 10);
	t->flags = ARAX_TASK_BARRIER;
	client_publish(&c);
	ck_assert(client_completion(&c, &done));
	tp.handle = tc.handle;
	ck_assert_int_eq(CALL(&c, ARAX_NR_TIMELINE_ADVANCE, &tp), 0);
	ck_assert(client_completion(&c, &done));
	client_close(&c);
	daemon_down(d);
	check_record(path);
	unlink(path);
}
END_TEST

static uint32_t stopped_runners, stopped_before, destroyed_runners;

void __real_runner_stop(struct runner *r);
void __wrap_runner_stop(struct runner *r);
void __wrap_runner_stop(struct runner *r)
{
	__real_runner_stop(r);
	stopped_runners++;
}

void __real_runner_destroy(struct runner *r);
void __wrap_runner_destroy(struct runner *r);
void __wrap_runner_destroy(struct runner *r)
{
	if (!destroyed_runners++)
		stopped_before = stopped_runners;
	__real_runner_destroy(r);
}

/* So that workers which hang, on whatever device, are waited for once. */
START_TEST(all_devices_stop_before_one_goes)
{
	d = daemon_up_with("cpu { enable = false } backend \"sim\" { options = { \"devices=3\" } }");
	stopped_runners = 0;
	destroyed_runners = 0;
	daemon_down(d);
	ck_assert_uint_eq(stopped_before, 3);
	ck_assert_uint_eq(destroyed_runners, 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("daemon broker");
	TCase *t = tcase_create("all"), *few = tcase_create("few descriptors"),
	      *traced = tcase_create("traced"), *end = tcase_create("end");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 180);
	tcase_add_checked_fixture(t, up, down);
	tcase_add_test(t, says_what_it_is);
	tcase_add_test(t, struct_rules);
	tcase_add_test(t, no_mediator_here);
	tcase_add_test(t, ring_descriptors_are_checked);
	tcase_add_test(t, nobody_punches_holes_into_rings);
	tcase_add_test(t, fill_and_copy);
	tcase_add_test(t, bad_tasks_complete_with_errors);
	tcase_add_loop_test(t, sleepers_are_woken, 0, 3);
	tcase_add_test(t, woken_while_others_queue);
	tcase_add_test(t, submit_call);
	tcase_add_test(t, timelines);
	tcase_add_test(t, a_timelines_descriptor);
	tcase_add_test(t, exported_timelines_count_as_handles);
	tcase_add_test(t, buffers_are_shared);
	tcase_add_test(t, too_many_descriptors_under_way);
	tcase_add_test(t, few_descriptors_are_left_unread);
	tcase_add_test(t, lost_bytes_fail_tasks);
	tcase_add_test(t, read_only_descriptors_are_refused);
	tcase_add_test(t, what_is_behind_the_end_counts);
	tcase_add_test(t, huge_pages_are_refused);
	tcase_add_test(t, holes_are_refused);
	tcase_add_test(t, nothing_stands_for_holes);
	tcase_add_test(t, forked_child_is_refused);
	tcase_add_test(t, garbage_ends_the_connection);
	tcase_add_test(t, corrupt_ring_ends_the_context);
	tcase_add_test(t, corrupt_ring_keeps_nobody_asleep);
	tcase_add_test(t, greed_is_survived);
	tcase_add_test(t, calls_come_after_entries);
	tcase_add_test(t, a_large_submit_blocks_nobody);
	tcase_add_test(t, many_submits_block_nobody);
	tcase_add_test(t, work_takes_turns);
	tcase_add_test(t, what_a_visitor_ends_is_not_told);
	tcase_add_loop_test(t, woken_while_others_bring_more, 0, 2);
	tcase_add_test(t, buffers_are_unmapped_aside);
	tcase_add_test(t, who_destroyed_a_buffer_has_another);
	tcase_add_test(t, rings_are_unmapped_aside);
	tcase_add_test(t, who_punches_holes_keeps_nothing);
	tcase_add_test(t, holes_bring_no_pages);
	tcase_add_test(t, waits_end_by_deadline);
	tcase_add_test(t, waits_are_limited);
	tcase_add_test(t, waits_leave_places);
	tcase_add_test(t, numbers_choose_no_bucket);
	tcase_add_test(t, waits_cost_others_nothing);
	tcase_add_test(t, waits_are_not_looked_at_in_vain);
	tcase_add_test(t, refusals_dont_fill_the_log);
	tcase_add_test(t, malformed_messages_dont_fill_the_log);
	tcase_add_test(t, who_starves_keeps_nobody_awake);
	tcase_add_test(t, who_starves_is_before_nobody);
	tcase_add_test(t, sudden_end);
	tcase_add_test(t, administrators_kill);
	tcase_add_test(t, deadlines_and_cancel);
	tcase_add_test(t, what_is_late_does_not_begin);
	tcase_add_test(t, a_busy_client_blocks_nobody);
	tcase_add_test(t, failed_timelines);
	tcase_add_test(t, who_follows_without_its_buffer);
	tcase_add_test(t, nobody_follows_past_its_deadline);
	tcase_add_test(t, short_tasks_are_spread);
	tcase_add_test(t, a_long_task_blocks_nobody);
	tcase_add_loop_test(t, many_long_tasks_block_nobody, 0, 2);
	tcase_add_test(t, links_count_for_themselves);
	tcase_add_test(t, the_first_links_part_counts);
	tcase_add_test(t, hostile_eventfd);
	tcase_add_test(t, stops_with_clients);
	tcase_add_test(t, no_file_is_replaced);
	tcase_add_test(t, what_lingers_keeps_nobody);
	tcase_add_test(t, slow_once_is_told);
	tcase_add_test(t, what_lingers_unread_keeps_nobody);
	tcase_add_test(t, what_lingers_unaccepted_keeps_nobody);
	tcase_add_test(t, what_is_watched_keeps_nobody);
	tcase_add_test(traced, tasks_are_recorded_as_queued);
	suite_add_tcase(s, traced);
	tcase_add_test(end, all_devices_stop_before_one_goes);
	suite_add_tcase(s, end);
	suite_add_tcase(s, t);
	/* Whose limits there are: root and araxd's own user have none of their own. */
	if (!geteuid()) {
		tcase_set_timeout(few, 120);
		tcase_add_checked_fixture(few, up_short_of_files, down_short_of_files);
		tcase_add_test(few, exported_timelines_are_their_users);
		tcase_add_test(few, buffers_are_their_users);
		tcase_add_test(few, armed_eventfds_are_their_users);
		tcase_add_test(few, watched_eventfd);
		tcase_add_test(few, watched_socket);
		tcase_add_test(few, watched_while_read);
		tcase_add_test(few, who_is_slow_to_know);
		tcase_add_test(few, closed_with_messages_unread);
		tcase_add_test(few, watched_doorbell);
		tcase_add_test(few, memfd_mapped_often);
		tcase_add_test(few, one_file_is_few_buffers);
		tcase_add_test(t, root_is_more_than_a_uid);
		tcase_add_test(few, places_are_left);
		tcase_add_test(few, closed_contexts_make_room);
		tcase_add_test(few, accepting_goes_on);
		tcase_add_test(few, connections_get_a_users_part);
		tcase_add_test(few, who_sends_quickly_waits);
		tcase_add_test(few, stuck_descriptors_are_their_users);
		tcase_add_test(few, refused_connections_are_few);
		tcase_add_test(few, who_cant_be_barred_leaves_some);
		tcase_add_test(few, what_is_left_is_the_daemons);
		tcase_add_test(few, stuck_descriptors_are_all_users);
		tcase_add_test(few, no_descriptors_come_without_a_place);
		tcase_add_test(few, who_waits_may_leave);
		tcase_add_test(few, without_a_thread_nobody_is_stuck);
		tcase_add_test(few, descriptors_without_a_place_are_no_garbage);
		suite_add_tcase(s, few);
	}
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
