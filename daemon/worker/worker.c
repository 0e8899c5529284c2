// SPDX-License-Identifier: MIT
#include "daemon/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/relax.h"
#include "daemon/complaints.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "daemon/worker/cgroup.h"
#include "daemon/worker/idmap.h"
#include "daemon/worker/inside.h"
#include "daemon/worker/proto.h"
#include "daemon/worker/sandbox.h"
#include "daemon/worker/spawn.h"

#define START_MS		10000u
#define START_LOOK_NS		20000000u	/* several times as long as most take */
#define KILL_TIMEOUT_NS		2000000000u
#define SEND_TIMEOUT_NS		5000000000u
#define SPIN_ROUNDS		4000	/* about 20 us */
#define FOREIGN_MAY_KEEP	(256ull << 20)	/* a new worker costs less than to fill that */

struct scratch {
	uint64_t bytes;
	uint64_t files;
};

struct worker {
	struct worker_link link;
	struct worker_key key;
	pid_t pid;
	int pidfd, socket, reply;	/* -1, all: see let_go() */
	bool reaped;
	bool ready;			/* it has said so */
	uint64_t killed_ns;		/* CLOCK_MONOTONIC, when first; 0: it was not */
	bool hangs;			/* it was waited for in vain */
	bool spin;			/* in the present launch */
	cpu_set_t cpus;
	uint32_t kind;
	_Atomic bool stale;		/* missed a message: not to be used again */
	struct worker_slot *slot;
	uint32_t seq;			/* of the last launch */
	pthread_mutex_t lock;		/* messages, buffers, kernels */
	uint32_t messages;		/* sent */
	struct idmap buffers, kernels, images;	/* what the worker has */
	struct worker_cgroup *cgroup;	/* NULL: it is in ours */
	uint64_t dropped;		/* bytes of buffers that it was told to unmap */
	struct scratch scratch;		/* that it has taken for what it was given */
};

const struct worker_key *worker_key(const struct worker *w)
{
	return &w->key;
}

bool worker_stale(const struct worker *w)
{
	return atomic_load(&w->stale);
}

struct worker_link *worker_link(struct worker *w)
{
	return &w->link;
}

/* Under the lock.  -EAGAIN: the socket is full. */
static int send_msg(struct worker *w, const struct worker_msg *msg, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)msg, sizeof(*msg) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		h.msg_control = &control;
		h.msg_controllen = sizeof(control);
	}
	do {
		n = sendmsg(w->socket, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(*msg))
		return n < 0 ? -errno : -EIO;
	w->messages++;
	return 0;
}

/* ------------------------------------------------------------------ */
/* Limits of a launch                                                    */

bool worker_answered(const struct worker *w)
{
	/* Acquire: the result, and what the kernel wrote; see the worker's serve(). */
	return w->ready &&
	       atomic_load_explicit(&w->slot->reply, memory_order_acquire) == w->seq;
}

/* What comes first; 0: nothing will. */
static uint64_t next_look(const struct worker_time *t)
{
	uint64_t at = t->turn ? t->look_ns : 0;
	const uint64_t ends[] = {
		t->deadline_ns, t->most_ns ? t->began_ns + t->paused_ns + t->most_ns : 0,
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends[i] && (!at || ends[i] < at))
			at = ends[i];
	return at;
}

static int look(struct worker *w, struct worker_time *t, uint64_t now)
{
	if ((t->deadline_ns && now >= t->deadline_ns) ||
	    (t->most_ns && now - t->began_ns - t->paused_ns >= t->most_ns))
		return -ETIMEDOUT;
	return t->turn ? turn_look(t, w) : 0;
}

static struct timespec span(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
}

/* Until there is room in its socket: in the time of @launch, where what is sent is for one. */
static int await_room(struct worker *w, struct worker_time *launch)
{
	struct pollfd p = { .fd = w->socket, .events = POLLOUT };
	struct worker_time none = { .began_ns = now_ns() };
	struct worker_time *t = launch ?: &none;

	for (;;) {
		uint64_t now = now_ns(), at = next_look(t);
		uint64_t end = t->began_ns + t->paused_ns + SEND_TIMEOUT_NS;
		struct timespec left;
		int n;

		if (now >= end)
			return -ETIME;
		/* Before it was asked: who seems to have ended is not made to make way. */
		if (launch && worker_answered(w))
			return -EPROTO;
		if (at && now >= at) {
			int err = look(w, t, now);

			if (err)
				return err;
			continue;
		}
		left = span((at && at < end ? at : end) - now);
		n = ppoll(&p, 1, &left, NULL);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/*
 * Wait for room, but not under the lock: a worker that reads nothing must not
 * hold up those who drop a buffer.
 */
static int send_waiting(struct worker *w, const struct worker_msg *msg, int fd,
			struct worker_time *t)
{
	int err;

	while ((err = send_msg(w, msg, fd)) == -EAGAIN) {
		pthread_mutex_unlock(&w->lock);
		err = await_room(w, t);
		pthread_mutex_lock(&w->lock);
		if (err)
			return err;
	}
	return err;
}

/* ------------------------------------------------------------------ */
/* Life and death                                                        */

/* Without a descriptor: now, as it is waited for no more. */
static bool wait_exit(struct worker *w, int timeout_ms)
{
	struct pollfd p = { .fd = w->pidfd, .events = POLLIN };

	return w->pidfd < 0 || poll(&p, 1, timeout_ms) == 1;
}

/* The worker has ended: how? */
static enum worker_fate reap(struct worker *w, int *signal)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	*signal = 0;
	/* One that somebody traces is there as long as he wants. */
	if (w->reaped)
		return WORKER_GONE;
	/* Until then its number is nobody else's. */
	if (waitid(w->pidfd < 0 ? P_PID : P_PIDFD, (id_t)(w->pidfd < 0 ? w->pid : w->pidfd), &info,
		   WEXITED | WNOHANG) || !info.si_pid)
		return WORKER_GONE;
	w->reaped = true;
	if (info.si_code == CLD_EXITED)
		return WORKER_EXITED;
	*signal = info.si_status;
	switch (info.si_status) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGABRT:
	case SIGSYS:
	case SIGTRAP:
		return WORKER_CRASHED;
	}
	return WORKER_GONE;
}

void worker_kill(struct worker *w)
{
	if (!w->killed_ns)
		w->killed_ns = now_ns();
	syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
}

/*
 * All its threads stop, wherever they are: nobody else waits for what they may hold, and
 * messages wait in the socket.
 */
static void stop_by_signal(struct worker *w)
{
	if (syscall(SYS_pidfd_send_signal, w->pidfd, SIGSTOP, NULL, 0))
		atomic_store(&w->stale, true);
}

static void go_on_by_signal(const struct worker *w)
{
	syscall(SYS_pidfd_send_signal, w->pidfd, SIGCONT, NULL, 0);
}

/* Between launches, and under the pool's lock: cgroup2 has one lock for all of its files. */
void worker_pause(struct worker *w)
{
	if (worker_key_foreign(&w->key))
		stop_by_signal(w);
}

uint64_t worker_cpu_ns(const struct worker *w)
{
	struct timespec ts;
	clockid_t clock;

	/* Then somebody else may have its number. */
	if (w->reaped || clock_getcpuclockid(w->pid, &clock) || clock_gettime(clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* In the midst of one: nobody else of that uid can undo that, and what it has started stops, too. */
void worker_halt(struct worker *w)
{
	if (!worker_cgroup_freeze(w->cgroup, true))
		stop_by_signal(w);
}

void worker_go_on(struct worker *w)
{
	if (w->cgroup && !worker_cgroup_freeze(w->cgroup, false)) {
		log_err("a worker stays frozen", log_i64("pid", w->pid), log_errno(errno));
		atomic_store(&w->stale, true);
		worker_kill(w);
	}
	/* Whichever it was stopped by. */
	go_on_by_signal(w);
}

bool worker_caught_up(struct worker *w)
{
	uint32_t sent;

	pthread_mutex_lock(&w->lock);
	sent = w->messages;
	pthread_mutex_unlock(&w->lock);
	return atomic_load_explicit(&w->slot->handled, memory_order_acquire) == sent;
}

void worker_set_stale(struct worker *w)
{
	atomic_store(&w->stale, true);
}

void worker_resume(struct worker *w)
{
	if (worker_key_foreign(&w->key))
		go_on_by_signal(w);
}

/* Since its kill: for all that were killed at once it is the same time, whoever is waited for first. */
static int left_ms(const struct worker *w, uint64_t ns)
{
	uint64_t past = now_ns() - w->killed_ns;

	return past < ns ? (int)((ns - past + 999999) / 1000000) : 0;
}

/*
 * How it has ended, which may have been before that.  A lane waits, and with it others' tasks: who
 * needs longer, or hangs, is for worker_gone().
 */
static enum worker_fate kill_and_reap(struct worker *w, int *signal)
{
	enum worker_fate fate = WORKER_GONE;

	*signal = 0;
	if (w->reaped)
		return fate;
	worker_kill(w);
	/* What it has started may write there as well, and does not end with it. */
	worker_cgroup_kill(w->cgroup);
	if (wait_exit(w, left_ms(w, WORKER_END_NS)))
		fate = reap(w, signal);
	return fate;
}

/*
 * Nothing is done with it but to reap it.  Who can keep it from ending can do so with any number of
 * them: what they have here is not to be as many descriptors.
 */
static void let_go(struct worker *w)
{
	int *const fds[] = { &w->pidfd, &w->socket, &w->reply };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	if (w->slot)
		munmap(w->slot, sizeof(*w->slot));
	w->slot = NULL;
}

bool worker_reaped(const struct worker *w)
{
	return w->reaped;
}

bool worker_gone(struct worker *w)
{
	bool alone;
	int signal;

	if (!w->reaped && !wait_exit(w, 0) && left_ms(w, KILL_TIMEOUT_NS))
		return false;
	reap(w, &signal);
	if (!w->reaped && !w->hangs)
		log_err("worker can't be killed: it hangs in the kernel, or is traced",
			log_i64("pid", w->pid), log_u64("uid", w->key.uid));
	w->hangs = !w->reaped;
	let_go(w);
	/* What it has started goes though it does not, and is waited for as it is. */
	alone = worker_cgroup_gone(w->cgroup);
	return w->reaped && alone;
}

void worker_free(struct worker *w)
{
	let_go(w);
	worker_cgroup_free(w->cgroup);
	idmap_free(&w->buffers);
	idmap_free(&w->kernels);
	idmap_free(&w->images);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* False: it is there still, though it was waited for. */
static bool end(struct worker *w)
{
	int signal;

	kill_and_reap(w, &signal);
	if (!worker_gone(w))
		return false;
	worker_free(w);
	return true;
}

static int make_slot(struct worker *w)
{
	int fd = memfd_create("arax-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	/* Sealed, so that the worker can't shrink it under araxd's feet. */
	if (ftruncate(fd, sizeof(*w->slot)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto fail;
	w->slot = mmap(NULL, sizeof(*w->slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (w->slot == MAP_FAILED) {
		w->slot = NULL;
		goto fail;
	}
	return fd;
fail:
	err = -errno;
	close(fd);
	return err;
}

void worker_log_no_sandbox(const char *missing)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;	/* by one of the devices */

	if (!atomic_flag_test_and_set(&said))
		log_warn("kernels that programs bring can't run", log_str("missing", missing));
}

static void worker_log_no_scratch(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		log_warn("kernels that programs bring can't run on OpenCL devices",
			 log_str("missing", SANDBOX_NO_SCRATCH));
}

/* Users can bring about that a worker does not start, or ends, as often as they like. */
static struct complaints not_started, ended_idle, killed, unwanted, gone, unloaded;

static bool say_not_started(const struct worker *w, uint64_t *unsaid)
{
	return complaints_say_now(&not_started, w->key.uid, unsaid);
}

/*
 * What it is that namespaces can't be had (logged): -EOPNOTSUPP, never; -ENODEV, there are too
 * many now, or none may be made; else 0.
 */
static int no_namespaces(const struct worker *w, uint64_t err)
{
	uint64_t unsaid;

	if (err == EPERM || err == EACCES || err == EINVAL || err == ENOSYS) {
		reason_set("the process for the kernel can't have files of its own: %s", SANDBOX_NO_SCRATCH);
		worker_log_no_scratch();
		return -EOPNOTSUPP;
	}
	if (err != ENOSPC && err != EUSERS)
		return 0;
	reason_set("the process for the kernel gets no namespace: there are too many");
	if (say_not_started(w, &unsaid))
		log_warn("a worker gets no namespace", log_str("missing", SANDBOX_NO_SCRATCH),
			 log_errno((int)err), log_u64("unsaid", unsaid));
	return -ENODEV;
}

/*
 * Whether such a worker can't be had here at all (-EOPNOTSUPP), or not by this user, who may
 * have brought that about himself (-ENODEV); then it is logged.
 */
static int cannot(const struct worker *w, struct worker_msg *msg)
{
	uint64_t unsaid;

	if (msg->type != WORKER_MSG_FAILED)
		return 0;
	msg->symbol[sizeof(msg->symbol) - 1] = '\0';
	if (msg->flags == WORKER_STEP_DEVICE) {
		reason_set("the process for the kernel does not get its OpenCL device: %s", msg->symbol);
		if (say_not_started(w, &unsaid))
			log_warn("a worker does not get its OpenCL device",
				 log_str("why", msg->symbol), log_errno((int)msg->id),
				 log_u64("unsaid", unsaid));
		return -ENODEV;
	}
	if (msg->flags == WORKER_STEP_PLACE)
		return no_namespaces(w, msg->id);
	if (msg->flags != WORKER_STEP_SANDBOX || msg->id != EOPNOTSUPP)
		return 0;
	reason_set("the process for the kernel can't be locked up: %s", msg->symbol);
	worker_log_no_sandbox(msg->symbol);
	return -EOPNOTSUPP;
}

/* Why it did not come to be ready, for who waits for it and for the log. */
static void say_start(const struct worker *w, struct worker_msg *msg, bool whole)
{
	uint64_t unsaid;
	bool say = say_not_started(w, &unsaid);

	if (whole && msg->type == WORKER_MSG_FAILED) {
		msg->symbol[sizeof(msg->symbol) - 1] = '\0';
		reason_set("the process for the kernel can't be started: %s%s%s (step %u)",
			   msg->symbol, msg->symbol[0] ? ": " : "", strerror((int)msg->id),
			   msg->flags);
		if (say)
			log_err("worker can't be started", log_u64("uid", w->key.uid),
				log_u64("gid", w->key.gid), log_u64("step", msg->flags),
				log_str("missing", msg->symbol), log_errno((int)msg->id),
				log_u64("unsaid", unsaid));
	} else if (whole && msg->type == WORKER_MSG_READY) {
		reason_set("arax-worker is of another build than araxd: see worker.program");
		if (say)
			log_err("worker program is of another build", log_u64("version", msg->id),
				log_u64("wanted", WORKER_VERSION), log_u64("unsaid", unsaid));
	} else {
		reason_set("the process for the kernel ended as it started: it may have too little memory (worker.memory)");
		if (say)
			log_err("worker ends at once", log_u64("uid", w->key.uid),
				log_u64("unsaid", unsaid));
	}
}

/* Its user may stop it, by a signal or as a debugger does. */
static bool stands_still(const struct worker *w)
{
	char path[32], text[128] = "", *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)w->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	/* PID (NAME) STATE, and any character may be in the name. */
	text[n > 0 ? n : 0] = '\0';
	state = strrchr(text, ')');
	return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}

/* Nobody waits for the launch any more. */
static int not_in_time(int err)
{
	if (err == -ETIMEDOUT)
		reason_set("the process for the kernel had not started when the task's deadline passed");
	return err;
}

/*
 * Until there is one, or its end.  A lane waits, and with it others' tasks: so a start makes way for them
 * as a launch does, for a user can keep his worker from getting a CPU, and who stops it is given no time at all.
 */
static int await_message(struct worker *w, struct worker_time *t)
{
	/* Its end of the socket may outlive it, with whoever was forked in between, or took it. */
	struct pollfd p[2] = { { .fd = w->socket, .events = POLLIN },
			       { .fd = w->pidfd, .events = POLLIN } };
	uint64_t now, at, until, unsaid;
	struct timespec left;
	int err;

	while ((now = now_ns()) - t->began_ns - t->paused_ns < START_MS * 1000000ull) {
		at = next_look(t);
		if (at && now >= at) {
			err = look(w, t, now);
			if (err)
				return not_in_time(err);
			continue;
		}
		until = now + START_LOOK_NS;
		left = span((at && at < until ? at : until) - now);
		if (ppoll(p, 2, &left, NULL) > 0)
			return 0;
		if (stands_still(w)) {
			reason_set("the process for the kernel was stopped by somebody as it started");
			if (say_not_started(w, &unsaid))
				log_err("worker stopped as it starts", log_i64("pid", w->pid),
					log_u64("uid", w->key.uid), log_u64("unsaid", unsaid));
			return -EAGAIN;
		}
	}
	reason_set("the process for the kernel did not start within %u ms: it gets hardly any CPU",
		   START_MS);
	if (say_not_started(w, &unsaid))
		log_err("worker does not start", log_i64("pid", w->pid), log_u64("uid", w->key.uid),
			log_u64("waited_ms", START_MS), log_u64("unsaid", unsaid));
	return -EAGAIN;
}

/* The first message says that the program runs, or what stopped it. */
static int await_ready(struct worker *w, struct worker_time *t)
{
	struct worker_msg msg;
	ssize_t n;
	int err = await_message(w, t);

	if (err)
		return err;
	n = recv(w->socket, &msg, sizeof(msg), MSG_DONTWAIT);
	if (n == sizeof(msg) && msg.type == WORKER_MSG_READY && msg.id == WORKER_VERSION) {
		/*
		 * It loads others' code from here on, and we read nothing more: a descriptor that came
		 * would be ours to close, which may have no end.
		 */
		shutdown(w->socket, SHUT_RD);
		w->ready = true;
		return 0;
	}
	err = n == sizeof(msg) ? cannot(w, &msg) : 0;
	if (err)
		return err;
	say_start(w, &msg, n == sizeof(msg));
	return -EAGAIN;
}

/* Into what is all 0. */
static void set_words(char *to, size_t size, const char *from)
{
	memcpy(to, from, strnlen(from, size - 1));
}

/* Which device a vendor's stack is to open. */
static int send_device(struct worker *w, const struct worker_device *d)
{
	struct worker_msg msg;
	int err = 0;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; !err && d->options && i < d->options->count; i++) {
		memset(&msg, 0, sizeof(msg));
		msg.type = WORKER_MSG_OPTION;
		set_words(msg.symbol, sizeof(msg.symbol), d->options->items[i]);
		err = send_waiting(w, &msg, -1, NULL);
	}
	memset(&msg, 0, sizeof(msg));
	msg.type = WORKER_MSG_DEVICE;
	msg.id = d->index;
	set_words(msg.symbol, sizeof(msg.symbol), d->name);
	if (!err)
		err = send_waiting(w, &msg, -1, NULL);
	pthread_mutex_unlock(&w->lock);
	return err;
}

static bool has_device(const struct worker *w)
{
	return w->key.role == WORKER_OPENCL || w->key.role == WORKER_OPENCL_BUILD;
}

/* A process, of which nothing is known yet. */
static int create(struct worker *w, const struct worker_options *o)
{
	struct spawn s = { .uid = w->key.uid, .gid = w->key.gid, .cpus = o->cpus,
			   .role = w->key.role, .cgroup = -1,
			   .memory = worker_key_foreign(&w->key) ? o->foreign_memory : o->memory };
	int pair[2] = { -1, -1 }, slot, err;

	err = worker_cgroup_make(&w->cgroup);
	if (err)
		return err;
	slot = make_slot(w);
	if (slot < 0)
		return slot;
	w->reply = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->reply < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		close(slot);
		return err;
	}
	w->socket = pair[0];
	s.fds[WORKER_FD_SOCKET] = pair[1];
	s.fds[WORKER_FD_SLOT] = slot;
	s.fds[WORKER_FD_REPLY] = w->reply;
	s.fds[WORKER_FD_PROGRAM] = o->program;
	s.cgroup = worker_cgroup_procs(w->cgroup);
	w->pid = spawn_worker(&s);
	close(pair[1]);
	close(slot);
	if (w->pid < 0) {
		err = has_device(w) ? no_namespaces(w, (uint64_t)-w->pid) : 0;
		return err ? err : w->pid;
	}
	w->pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
	if (w->pidfd < 0) {
		err = -errno;
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
		w->reaped = true;
		return err;
	}
	w->reaped = false;
	w->cpus = o->cpus;
	w->kind = o->kind;
	return 0;
}

/* What a system has no more of is an errno like that of who has only to try again. */
static void say_not_created(const struct worker *w, int err)
{
	uint64_t unsaid;

	reason_set("the process for the kernel can't be started: %s%s", strerror(-err),
		   err == -EAGAIN ? ", as there are as many processes or threads as may be: TasksMax= of araxd's unit, ulimit -u, pids.max" :
				    "");
	if (say_not_started(w, &unsaid))
		log_err("worker can't be started", log_u64("uid", w->key.uid), log_errno(err),
			log_u64("unsaid", unsaid));
}

static int start(struct worker *w, const struct worker_options *o, struct worker_time *t)
{
	int err = create(w, o);

	/* That it has no namespaces has been said. */
	if (err && err != -EOPNOTSUPP && err != -ENODEV)
		say_not_created(w, err);
	if (err)
		return err;
	/* That it can't be sent has a reason which the first message tells. */
	if (has_device(w))
		send_device(w, &o->device);
	return await_ready(w, t);
}

/* What is to be told of its failing by the errno; of all else it is enough to try again. */
static bool tells(int err)
{
	return err == -EOPNOTSUPP || err == -ENODEV || err == -ETIMEDOUT || err == -ECANCELED;
}

int worker_start(const struct worker_options *o, const struct worker_key *key,
		 const struct worker_time *launch, struct worker **worker)
{
	struct worker_time t = { .deadline_ns = launch->deadline_ns, .turn = launch->turn,
				 .may_wait = launch->may_wait, .began_ns = now_ns() };
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	*worker = NULL;
	if (!w)
		return -ENOMEM;
	w->key = *key;
	w->reaped = true;
	w->pidfd = w->socket = w->reply = -1;
	pthread_mutex_init(&w->lock, NULL);
	/* Most are over by then, however short slices are. */
	if (t.turn)
		t.look_ns = t.began_ns + (t.turn->slice_ns > START_LOOK_NS ? t.turn->slice_ns : START_LOOK_NS);
	err = start(w, o, &t);
	if (t.turn)
		turn_ran(t.turn, &t);
	if (err) {
		*worker = end(w) ? NULL : w;
		return tells(err) ? err : -EAGAIN;
	}
	log_debug("worker started", log_i64("pid", w->pid), log_u64("uid", key->uid),
		  log_u64("gid", key->gid), log_u64("owner", key->owner));
	*worker = w;
	return 0;
}

bool worker_usable(struct worker *w)
{
	enum worker_fate fate;
	uint64_t unsaid;
	int signal;

	if (atomic_load(&w->stale))
		return false;
	if (!wait_exit(w, 0))
		return true;
	fate = reap(w, &signal);
	if (complaints_say_now(&ended_idle, w->key.uid, &unsaid))
		log_warn("worker ended while idle", log_i64("pid", w->pid), log_u64("uid", w->key.uid),
			 log_str("how", fate == WORKER_CRASHED ? "crash" : signal ? "killed" : "exit"),
			 log_i64("signal", signal), log_u64("unsaid", unsaid));
	return false;
}

/* ------------------------------------------------------------------ */
/* Launches                                                              */

static int check_ranges(const struct runner_task *t)
{
	for (uint32_t i = 0; i < t->launch.nr_ranges; i++) {
		const struct arax_launch_range *r = &t->launch.ranges[i];
		const struct runner_buffer *b = &t->buffers[i];
		uint64_t span, end;

		if (!r->count ||
		    __builtin_mul_overflow((uint64_t)(r->count - 1), (uint64_t)r->stride, &span) ||
		    __builtin_add_overflow(span, r->length, &span) ||
		    __builtin_add_overflow(span, b->offset, &end) || end > b->bytes)
			return -EINVAL;
	}
	return 0;
}

/* PoCL's: a kernel has its object and two folders; an image beside that its program, which is folders, too. */
#define KERNEL_FILES	3
#define IMAGE_FILES	8
#define FILE_BYTES	4096u	/* a last page, of which little is used */

/* Who has room for one more has it whatever that is. */
_Static_assert(WORKER_BUILT_MAX + ARAX_MODULE_MAX_KERNELS * FILE_BYTES <= WORKER_SCRATCH_BYTES / 2, "");
_Static_assert(ARAX_MODULE_MAX_KERNELS * KERNEL_FILES + IMAGE_FILES <= WORKER_SCRATCH_FILES / 2, "");

/* The registry's descriptors stay what they are. */
static uint64_t image_number(const struct kernel *k, const struct kernel_impl *impl)
{
	return !k->foreign ? (uint64_t)impl->fd + 1 : k->image ? k->image : k->serial;
}

static int image_fd(const struct runner_task *t, const struct kernel_impl *impl)
{
	return t->image ? t->image - 1 : impl->fd;
}

/*
 * What a driver comes to have in its worker's folder for a kernel that is new there.  PoCL unpacks
 * all that was built to files, with the first kernel of an image those of all.
 */
static struct scratch scratch_for(const struct worker *w, const struct runner_task *t,
				  const struct kernel_impl *impl)
{
	const struct kernel *k = t->kernel;
	bool known = idmap_get(&w->images, image_number(k, impl));
	uint64_t kernels = known ? !k->in_image : k->in_image ?: 1;
	struct scratch s = { kernels * FILE_BYTES, kernels * KERNEL_FILES };
	struct stat st;

	if (known)
		return s;
	s.files += IMAGE_FILES;
	if (!fstat(image_fd(t, impl), &st))
		s.bytes += (uint64_t)st.st_size;
	return s;
}

/* By half of it: how much a driver takes is its affair. */
bool worker_has_room(struct worker *w, const struct runner_task *t)
{
	const struct kernel_impl *impl = kernel_impl(t->kernel, w->kind);
	struct scratch s = { 0 };

	if (w->key.role != WORKER_OPENCL || !impl)
		return true;
	pthread_mutex_lock(&w->lock);
	if (w->images.used && !idmap_get(&w->kernels, t->kernel->serial)) {
		s = scratch_for(w, t, impl);
		s.bytes += w->scratch.bytes;
		s.files += w->scratch.files;
	}
	pthread_mutex_unlock(&w->lock);
	return s.bytes <= WORKER_SCRATCH_BYTES / 2 && s.files <= WORKER_SCRATCH_FILES / 2;
}

/* See that the worker has the kernel and the buffers.  Under the lock. */
static int supply(struct worker *w, const struct runner_task *t, struct worker_time *time)
{
	const struct kernel *k = t->kernel;
	struct worker_msg msg;
	struct scratch s;
	bool known;
	int err = 0;

	if (!idmap_get(&w->kernels, k->serial)) {
		const struct kernel_impl *impl = kernel_impl(k, w->kind);

		if (!impl)
			return -ENOEXEC;
		memset(&msg, 0, sizeof(msg));
		msg.type = WORKER_MSG_KERNEL;
		msg.id = k->serial;
		msg.flags = k->split ? WORKER_KERNEL_SPLIT : 0;
		msg.bytes = image_number(k, impl);
		set_words(msg.symbol, sizeof(msg.symbol), impl->symbol);
		set_words(msg.text, sizeof(msg.text), k->sig.text);
		known = idmap_get(&w->images, msg.bytes);
		if (w->key.role == WORKER_OPENCL) {
			s = scratch_for(w, t, impl);
			w->scratch.bytes += s.bytes;
			w->scratch.files += s.files;
		}
		err = idmap_put(&w->kernels, k->serial, w);
		if (!err)
			err = idmap_put(&w->images, msg.bytes, w);
		if (!err)
			err = send_waiting(w, &msg, known ? -1 : image_fd(t, impl), time);
	}
	for (uint32_t i = 0; !err && i < t->launch.nr_ranges; i++) {
		const struct runner_buffer *b = &t->buffers[i];

		if (idmap_get(&w->buffers, b->id))
			continue;
		memset(&msg, 0, sizeof(msg));
		msg.type = WORKER_MSG_BUFFER;
		msg.id = b->id;
		msg.bytes = b->bytes;
		err = idmap_put(&w->buffers, b->id, (void *)(uintptr_t)(b->bytes ?: 1));
		if (!err)
			err = send_waiting(w, &msg, b->fd, time);
	}
	if (err)
		atomic_store(&w->stale, true);
	return err;
}

/*
 * Never waits, whatever the worker, or who took its end of the socket from it, does: this end's
 * flags are nobody else's, and with MSG_DONTWAIT they don't matter.  A socket that is full wakes
 * the worker by itself.
 */
static int wake(const struct worker *w)
{
	const uint32_t type = WORKER_MSG_WAKE;
	ssize_t n;

	do {
		n = send(w->socket, &type, sizeof(type), MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 && errno != EAGAIN ? -errno : 0;
}

static int post(struct worker *w, const struct runner_task *t, uint32_t cores, uint32_t messages)
{
	const struct arax_launch *l = &t->launch;
	struct worker_slot *s = w->slot;
	int cpu = sched_getcpu();

	/* Two that spin on one core only keep each other from working. */
	w->spin = CPU_COUNT(&w->cpus) > 1 || (cpu >= 0 && !CPU_ISSET(cpu, &w->cpus));
	atomic_store_explicit(&s->spin, w->spin, memory_order_relaxed);
	s->messages = messages;
	s->kernel = t->kernel->serial;
	s->what = t->flags & RUNNER_TRY ? WORKER_TRY : t->flags & RUNNER_INLINE ? WORKER_RUN_INLINE :
									       WORKER_RUN;
	s->nr_ranges = l->nr_ranges;
	memcpy(s->grid, l->grid, sizeof(s->grid));
	memcpy(s->block, l->block, sizeof(s->block));
	s->arg_len = l->arg_len;
	s->cores = cores;
	if (l->arg_len)
		memcpy(s->args, l->args, l->arg_len);
	for (uint32_t i = 0; i < l->nr_ranges; i++)
		s->ranges[i] = (struct worker_range){
			.buffer = t->buffers[i].id, .offset = t->buffers[i].offset,
			.length = l->ranges[i].length, .stride = l->ranges[i].stride,
			.count = l->ranges[i].count,
		};
	/*
	 * seq_cst: `request` before the look at `worker_sleeps`; pairs with the
	 * opposite order in the worker's wait_for_request().
	 */
	atomic_store(&s->request, w->seq);
	return atomic_load(&s->worker_sleeps) ? wake(w) : 0;
}

/*
 * Without waiting, whatever became of O_NONBLOCK: it is the open file's, which the worker has,
 * too, and perhaps somebody who took it from there.
 */
static ssize_t take_count(int fd, uint64_t *count)
{
	const struct iovec iov = { count, sizeof(*count) };
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	return n < 0 && errno == EOPNOTSUPP ? read(fd, count, sizeof(*count)) : n;
}

/* Until the reply, the worker's end (-EPIPE), or that of its time: -ETIMEDOUT, -ECANCELED. */
static int await(struct worker *w, struct worker_time *t)
{
	struct pollfd p[2] = { { .fd = w->reply, .events = POLLIN },
			       { .fd = w->pidfd, .events = POLLIN } };
	int rounds = w->spin ? SPIN_ROUNDS : 0;
	uint64_t count;

	while (!worker_answered(w)) {
		struct timespec left, *timeout = NULL;
		uint64_t at, now;
		int err;

		if (rounds-- > 0) {
			relax();
			continue;
		}
		at = next_look(t);
		now = at ? now_ns() : 0;
		if (at && now >= at) {
			err = look(w, t, now);
			if (err)
				return err;
			continue;
		}
		if (at) {
			left = span(at - now);
			timeout = &left;
		}
		/*
		 * seq_cst: `araxd_sleeps` is set before `reply` is looked at; pairs
		 * with the opposite order in the worker's serve().
		 */
		atomic_store(&w->slot->araxd_sleeps, 1);
		p[0].revents = p[1].revents = 0;
		if (atomic_load(&w->slot->reply) != w->seq)
			ppoll(p, 2, timeout, NULL);
		atomic_store(&w->slot->araxd_sleeps, 0);
		if (p[0].revents && take_count(w->reply, &count) < 0 && errno != EAGAIN)
			return -EIO;
		if (p[1].revents && !worker_answered(w))
			return -EPIPE;
	}
	return 0;
}

/* Once, and nothing in it is believed. */
static void take_text(const struct worker *w, char *why, size_t len)
{
	const volatile uint8_t *from = w->slot->args;
	size_t i;

	for (i = 0; i + 1 < len && i < sizeof(w->slot->args); i++) {
		uint8_t c = from[i];

		if (!c)
			break;
		why[i] = c >= ' ' && c < 0x7f ? (char)c : '?';
	}
	why[i] = '\0';
}

/* A launch that found no kernel: nobody has tried to load it before, as araxd doesn't itself. */
static __attribute__((cold)) void say_unloaded(const struct worker *w, const struct runner_task *t)
{
	const char *file = kernel_impl(t->kernel, w->kind)->file;
	char why[REASON_LEN];
	uint64_t unsaid;

	take_text(w, why, sizeof(why));
	reason_set("kernel %s can't be loaded: %s (%s)", t->kernel->sig.name, why, file);
	if (!t->kernel->foreign && complaints_say_now(&unloaded, w->key.uid, &unsaid))
		log_warn("worker can't load kernel", log_str("kernel", t->kernel->sig.name),
			 log_str("file", file), log_u64("uid", w->key.uid), log_str("reason", why),
			 log_u64("unsaid", unsaid));
}

/* Of the kernel's own errno there may be no more to say. */
static __attribute__((cold)) void say_failed(const struct worker *w)
{
	char why[REASON_LEN];

	take_text(w, why, sizeof(why));
	if (why[0])
		reason_set("%s", why);
}

static __attribute__((cold)) void take_words_of(const struct worker *w, const struct runner_task *t)
{
	uint32_t says = atomic_load_explicit(&w->slot->says, memory_order_relaxed);

	if (t->flags & RUNNER_TRY)
		take_text(w, t->why, t->why_len);
	else if (says == WORKER_SAYS_UNLOADED)
		say_unloaded(w, t);
	else if (says == WORKER_SAYS_FAILED)
		say_failed(w);
}

/* Why it was killed. */
static void log_killed(const struct worker *w, const struct runner_task *t, int err)
{
	bool late = err == -ETIMEDOUT;
	uint64_t unsaid;

	if (!complaints_say_now(late ? &killed : &unwanted, w->key.uid, &unsaid))
		return;
	log_at(late ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
	       late ? "worker killed: launch passed its deadline" :
		      "worker killed: nobody wants its launch any more", log_i64("pid", w->pid),
	       log_u64("uid", w->key.uid), log_str("kernel", t->kernel->sig.name),
	       log_u64("unsaid", unsaid));
}

static void log_gone(const struct worker *w, const struct runner_task *t, int signal)
{
	uint64_t unsaid;

	if (complaints_say_now(&gone, w->key.uid, &unsaid))
		log_warn("worker is gone", log_i64("pid", w->pid), log_u64("uid", w->key.uid),
			 log_str("kernel", t->kernel->sig.name), log_i64("signal", signal),
			 log_u64("unsaid", unsaid));
}

int worker_run(struct worker *w, const struct runner_task *t, uint32_t cores,
	       struct worker_time *time, enum worker_fate *fate)
{
	uint32_t messages;
	int err, result, signal;

	*fate = WORKER_ALIVE;
	if (t->launch.nr_ranges > ARAX_MAX_RANGES || t->launch.arg_len > ARAX_MAX_ARGS)
		return -EINVAL;
	err = check_ranges(t);
	if (err)
		return err;
	/* Now: what it is told before it is asked can take long, too. */
	time->began_ns = now_ns();
	time->paused_ns = 0;
	time->look_ns = time->turn ? time->began_ns + time->turn->slice_ns : 0;
	w->seq++;
	pthread_mutex_lock(&w->lock);
	err = supply(w, t, time);
	messages = w->messages;
	pthread_mutex_unlock(&w->lock);
	if (err == -ENOEXEC) {
		w->seq--;	/* it is not asked */
		return err;
	}
	if (!err)
		err = post(w, t, cores, messages);
	if (!err)
		err = await(w, time);
	if (!err) {
		result = atomic_load_explicit(&w->slot->result, memory_order_relaxed);
		if (result)
			take_words_of(w, t);
		return checked(result);
	}
	if (err == -ETIMEDOUT || err == -ECANCELED) {
		log_killed(w, t, err);
		kill_and_reap(w, &signal);
		*fate = WORKER_KILLED;
		return err;
	}
	/*
	 * It went away, or did not take a message: then it is made to.  Who is about to end has
	 * closed its socket before.
	 */
	*fate = kill_and_reap(w, &signal);
	if (signal == SIGKILL && err != -EPIPE && err != -ECONNRESET)
		signal = 0;	/* ours */
	time->signal = signal;
	log_gone(w, t, signal);
	return *fate == WORKER_CRASHED ? -EFAULT : -EIO;
}

void worker_drop_kernel(struct worker *w, uint64_t serial)
{
	pthread_mutex_lock(&w->lock);
	if (idmap_get(&w->kernels, serial))
		atomic_store(&w->stale, true);
	pthread_mutex_unlock(&w->lock);
}

bool worker_drop_buffer(struct worker *w, uint64_t id)
{
	struct worker_msg msg = { .type = WORKER_MSG_DROP, .id = id };
	uint64_t bytes;

	pthread_mutex_lock(&w->lock);
	bytes = (uint64_t)(uintptr_t)idmap_del(&w->buffers, id);
	w->dropped += bytes;
	/*
	 * A worker too busy to take the message is not used again.  Nor is one with foreign
	 * code that could hold more than it may, should it not do as it is told.
	 */
	if (bytes && (send_msg(w, &msg, -1) || (worker_key_foreign(&w->key) && w->dropped > FOREIGN_MAY_KEEP)))
		atomic_store(&w->stale, true);
	pthread_mutex_unlock(&w->lock);
	return bytes;
}

/* ------------------------------------------------------------------ */
/* Building                                                              */

static int give_output(struct worker *w, int fd)
{
	struct worker_msg msg = { .type = WORKER_MSG_OUTPUT };
	int err;

	pthread_mutex_lock(&w->lock);
	err = send_waiting(w, &msg, fd, NULL);
	pthread_mutex_unlock(&w->lock);
	return err;
}

/* What the compiler said, as what everybody's terminal can show. */
static void take_words(int fd, const struct runner_task *t)
{
	ssize_t n = t->why_len > 1 ? pread(fd, t->why, t->why_len - 1, 0) : 0;

	if (n <= 0)
		return;
	for (ssize_t i = 0; i < n; i++)
		if ((t->why[i] < ' ' && t->why[i] != '\n' && t->why[i] != '\t') || t->why[i] >= 0x7f)
			t->why[i] = '?';
	t->why[n] = '\0';
}

/* Its writer is dead, as far as can be told; what counts is what it has. */
static int take_built(int fd, uint64_t *bytes)
{
	struct stat st;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) ||
	    fstat(fd, &st))
		return -errno;
	if (!st.st_size)
		return -EIO;
	*bytes = (uint64_t)st.st_blocks * 512;
	if (*bytes < (uint64_t)st.st_size)
		*bytes = (uint64_t)st.st_size;
	return st.st_size > WORKER_BUILT_MAX || *bytes > WORKER_BUILT_MAX + 65536 ? -E2BIG : 0;
}

int worker_build(const struct worker_options *o, const struct worker_key *key,
		 const struct runner_task *t, struct worker_time *time, enum worker_fate *fate,
		 int *built, uint64_t *bytes, struct worker **left)
{
	int fd = memfd_create("arax-built", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;
	struct worker *w;

	*fate = WORKER_ALIVE;
	*left = NULL;
	if (fd < 0)
		return -errno;
	err = worker_start(o, key, time, &w);
	if (err) {
		*left = w;
		close(fd);
		return err;
	}
	err = give_output(w, fd);
	if (!err)
		err = worker_run(w, t, 1, time, fate);
	if (!end(w))
		*left = w;
	/* That nothing can be built at all it has no say in. */
	if (err == -EOPNOTSUPP || err == -ENODEV)
		err = -ENOEXEC;
	if (!err)
		err = take_built(fd, bytes);
	else if (err == -ENOEXEC || err == -ENOENT)
		take_words(fd, t);
	if (err)
		close(fd);
	else
		*built = fd;
	return err;
}
