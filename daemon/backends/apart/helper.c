// SPDX-License-Identifier: MIT
/*
 * Before exec the child makes system calls only: other threads of araxd may have held any lock
 * when it began.
 */
#include "daemon/backends/apart/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/child.h"
#include "daemon/dispatch/ticks.h"
#include "daemon/log.h"

#define RESULT_MIN	(-4095)
#define LOOK_MS		1000
#define PF_EXITING	0x4		/* of the kernel's: it is on its way out */

/* The longest step is a driver's that compiles a module; and what ends may have much to unmap. */
uint32_t helper_step_ms = 60000, helper_end_ms = 10000;

/*
 * @lock: channels, @last_fd, @dead, @ended, @left, @lacked and @struck.  @dead is set before
 * slot_end() is called for all channels: so who took one before is woken, and who comes later, or
 * waits for one, gets none.  It is of use to nobody then, but may not have @ended; once it is @left
 * its watcher frees it.
 * @until: when it has to be further in being set up; 0: any time
 * @kept: of channels, never idle
 */
struct helper {
	char device[64];
	int program;			/* while it is being started */
	int log;
	char level[12], format[12];
	pid_t pid;
	int pidfd, socket, theirs;
	pthread_t watcher;
	pthread_mutex_t lock;
	pthread_cond_t started, given;	/* given: or dead */
	bool begun, dead, ended, left, ending;
	uint64_t until;
	bool serves, lacked;		/* helper_serves(); it ended for want of something */
	bool struck;			/* or by a signal, and not as it was to */
	int err;
	uint64_t last_fd;
	struct channel *channels, *idle, *kept;
};

/* ------------------------------------------------------------------ */
/* The child                                                             */

/* What it is @given in its places, /dev/null for 0 and 1, the log for 2; nothing else. */
static int place_fds(const int *given)
{
	int high[3], null;

	/* Above all places first, so that no move overwrites a source. */
	for (int i = 0; i < 3; i++) {
		high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, 64);
		if (high[i] < 0)
			return -1;
	}
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -1;
	for (int i = 0; i < 2; i++)
		if (null == i ? fcntl(i, F_SETFD, 0) : dup2(null, i) < 0)
			return -1;
	if (dup2(high[1], 2) < 0 || dup2(high[0], APART_FD_SOCKET) < 0 ||
	    dup2(high[1], APART_FD_LOG) < 0 || dup3(high[2], APART_NR_FDS, O_CLOEXEC) < 0)
		return -1;
	return syscall(SYS_close_range, APART_NR_FDS + 1, ~0u, 0) ? -1 : 0;
}

static void reset_signals(void)
{
	struct sigaction dfl;
	sigset_t none;

	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &dfl, NULL);	/* fails for a few: they have no other */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool is_want(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == EAGAIN;
}

static _Noreturn void child(const struct helper *h, const int *given, pid_t parent)
{
	char *const argv[] = { (char *)"arax-device", (char *)h->level, (char *)h->format, NULL };

	if (place_fds(given))
		_exit(is_want(errno) ? APART_EXIT_SHORT : 127);
	/* A session of its own: an interrupt from the terminal is araxd's, which has to end first. */
	if (setsid() < 0)
		_exit(127);
	reset_signals();
	/* When the watcher ends, as all threads do with araxd, which may have gone before. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(127);
	syscall(SYS_execveat, APART_NR_FDS, "", argv, environ, AT_EMPTY_PATH);
	_exit(is_want(errno) ? APART_EXIT_SHORT : 127);
}

static int spawn(struct helper *h)
{
	const int fds[] = { h->theirs, h->log, h->program };
	pid_t parent = getpid();
	int given[3], err = 0;

	h->pid = child_begin(0, fds, 3, given);
	if (!h->pid)
		child(h, given, parent);
	if (h->pid < 0)
		return (int)h->pid;
	h->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	if (h->pidfd < 0) {
		err = -errno;
		kill(h->pid, SIGKILL);
		waitpid(h->pid, NULL, 0);
	}
	return err;
}

/* ------------------------------------------------------------------ */
/* Its life, seen from here                                              */

/* Milliseconds for poll(): until @until, rounded up, or the next look. */
static int time_left(uint64_t until)
{
	uint64_t now = monotonic_ns();

	if (!until || until > now + LOOK_MS * 1000000ull)
		return LOOK_MS;
	return until > now ? (int)((until - now) / 1000000u) + 1 : 0;
}

/* What /proc has of it, cut; false: nothing, as when there are no descriptors. */
static bool read_about(pid_t pid, const char *name, char *text, size_t len)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, len - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool is_pending(const char *status, const char *set)
{
	const char *line = strstr(status, set);

	return line && strtoull(line + strlen(set), NULL, 16) & 1ull << (SIGKILL - 1);
}

/*
 * Whoever has killed it, or if it ends by itself.  A pidfd tells when it has ended; but it gives back
 * what it has mapped before it closes its end of the socket, and the driver may hang in that.
 */
static bool is_leaving(pid_t pid)
{
	char text[4096];
	const char *p;
	unsigned int flags;

	/* The name, which ends with the last ')', may be anything. */
	if (read_about(pid, "stat", text, sizeof(text))) {
		p = strrchr(text, ')');
		if (p && sscanf(p, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & PF_EXITING)
			return true;
	}
	return read_about(pid, "status", text, sizeof(text)) &&
	       (is_pending(text, "\nSigPnd:") || is_pending(text, "\nShdPnd:"));
}

/*
 * Until it has ended or a while after it was killed, here or by others: in the kernel it may hang for
 * ever.  It is killed when it is late, or has closed its end: then it is of no use, whatever else it
 * does.  Whether it has ended.
 */
static bool await_end(struct helper *h)
{
	struct pollfd p[2] = { { .fd = h->pidfd, .events = POLLIN },
			       { .fd = h->socket, .events = POLLRDHUP } };
	uint64_t end = 0;
	bool late;
	int n;

	for (;;) {
		uint64_t until = end ? end : __atomic_load_n(&h->until, __ATOMIC_RELAXED);

		n = poll(p, 2, time_left(until));
		if (n < 0)
			continue;
		if (p[0].revents)
			return true;
		late = until && monotonic_ns() >= until;
		if (!n && end && late)
			return false;
		if (!n && (end || until != __atomic_load_n(&h->until, __ATOMIC_RELAXED)))
			continue;
		if (!n && !late && !is_leaving(h->pid))
			continue;
		if (!n && late)
			log_err("the process of a device takes too long to begin, and is ended",
				log_str("device", h->device), log_i64("pid", h->pid),
				log_u64("ms", helper_step_ms));
		syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
		p[1].fd = -1;
		end = monotonic_ns() + helper_end_ms * 1000000ull;
	}
}

/* It has ended. */
static void reap(struct helper *h)
{
	siginfo_t info = { 0 };
	bool ending;

	waitid(P_PIDFD, (id_t)h->pidfd, &info, WEXITED);
	ending = __atomic_load_n(&h->ending, __ATOMIC_RELAXED);
	/* Of one that hung it has been told long since that it is dead. */
	pthread_mutex_lock(&h->lock);
	h->lacked = info.si_code == CLD_EXITED && info.si_status == APART_EXIT_SHORT;
	h->struck = !ending && info.si_code != CLD_EXITED;
	pthread_mutex_unlock(&h->lock);
	if (ending)
		return;
	if (!h->lacked)
		log_err("the process of a device has ended", log_str("device", h->device),
			log_i64("pid", h->pid),
			log_str("how", info.si_code == CLD_EXITED ? "exit" : "signal"),
			log_i64("status", info.si_status));
	/* Who starts it tells why it has to be started again. */
	else if (__atomic_load_n(&h->serves, __ATOMIC_RELAXED))
		log_err("the process of a device has ended", log_str("device", h->device),
			log_i64("pid", h->pid),
			log_str("reason", "it had no more threads, descriptors or memory"));
}

static void free_helper(struct helper *h)
{
	while (h->channels) {
		struct channel *c = h->channels;

		h->channels = c->next;
		slot_unmap(c->slot);
		free(c);
	}
	if (h->pidfd >= 0)
		close(h->pidfd);
	if (h->socket >= 0)
		close(h->socket);
	pthread_cond_destroy(&h->started);
	pthread_cond_destroy(&h->given);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* From now on all calls fail. */
static void tell_dead(struct helper *h, bool ended)
{
	pthread_mutex_lock(&h->lock);
	h->dead = true;
	h->ended = ended;
	for (struct channel *c = h->channels; c; c = c->next)
		slot_end(c->slot);
	pthread_cond_broadcast(&h->given);
	pthread_mutex_unlock(&h->lock);
}

/* It hangs in the kernel.  It is waited for all the same, as what it has comes back when it ends. */
static void await_late_end(struct helper *h)
{
	struct pollfd p = { .fd = h->pidfd, .events = POLLIN };
	bool left;

	log_err("the process of a device was killed and does not end", log_str("device", h->device),
		log_i64("pid", h->pid),
		log_str("effect", "what it has of the device and of memory stays in use"),
		log_str("remedy", "look at the kernel's log; reset the device or restart the machine"));
	while (poll(&p, 1, -1) != 1)
		;
	reap(h);
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	left = h->left;
	pthread_mutex_unlock(&h->lock);
	if (left)
		free_helper(h);
}

/* It starts the process as well: that is killed when the thread that started it ends. */
static void *watch(void *arg)
{
	struct helper *h = arg;
	int err = spawn(h);

	pthread_mutex_lock(&h->lock);
	h->err = err;
	h->begun = true;
	pthread_cond_signal(&h->started);
	pthread_mutex_unlock(&h->lock);
	if (err)
		return NULL;
	if (await_end(h)) {
		reap(h);
		tell_dead(h, true);
	} else {
		tell_dead(h, false);
		await_late_end(h);
	}
	return NULL;
}

void helper_kill(struct helper *h)
{
	struct pollfd p = { .fd = h->socket, .events = POLLRDHUP };

	/* Who has closed its end, and not because of us, has been struck before. */
	if (poll(&p, 1, 0) <= 0)
		__atomic_store_n(&h->ending, true, __ATOMIC_RELAXED);
	syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
	/* The watcher sees that, and waits no longer than it does for any that it has killed. */
	shutdown(h->socket, SHUT_RDWR);
}

void helper_goes_on(struct helper *h)
{
	__atomic_store_n(&h->until, monotonic_ns() + helper_step_ms * 1000000ull, __ATOMIC_RELAXED);
}

void helper_serves(struct helper *h)
{
	__atomic_store_n(&h->serves, true, __ATOMIC_RELAXED);
	__atomic_store_n(&h->until, 0, __ATOMIC_RELAXED);
}

int helper_stop(struct helper *h)
{
	pthread_t watcher = h->watcher;
	bool ended;
	int err;

	helper_kill(h);
	pthread_mutex_lock(&h->lock);
	while (!h->dead)
		pthread_cond_wait(&h->given, &h->lock);
	ended = h->ended;
	h->left = !ended;
	pthread_mutex_unlock(&h->lock);
	if (!ended) {
		pthread_detach(watcher);
		return 0;
	}
	pthread_join(watcher, NULL);
	err = h->lacked ? -EAGAIN : h->struck ? -EINTR : 0;
	free_helper(h);
	return err;
}

bool helper_fell(struct helper *h)
{
	bool fell;

	pthread_mutex_lock(&h->lock);
	fell = h->dead && !h->lacked && !__atomic_load_n(&h->ending, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&h->lock);
	return fell;
}

/* ------------------------------------------------------------------ */
/* Channels                                                              */

/* A send that finds no room waits: for the helper to read, or to end. */
static int send_fd(struct helper *h, uint32_t kind, uint64_t id, int fd)
{
	struct apart_fd msg = { .kind = kind, .version = APART_VERSION, .id = id };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { &msg, sizeof(msg) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	ssize_t n;

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	do {
		n = sendmsg(h->socket, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n == sizeof(msg))
		return 0;
	return errno == EPIPE || errno == ECONNRESET ? -ENODEV : -ENOMEM;
}

/* (lock held) */
static int add_channel(struct helper *h, struct channel **channel)
{
	struct channel *c = calloc(1, sizeof(*c));
	int fd, err;

	if (!c)
		return -ENOMEM;
	fd = slot_make(&c->slot);
	if (fd < 0) {
		free(c);
		return fd;
	}
	err = send_fd(h, APART_FD_CHANNEL, 0, fd);
	close(fd);
	if (err) {
		slot_unmap(c->slot);
		free(c);
		return err;
	}
	c->helper = h;
	c->next = h->channels;
	h->channels = c;
	*channel = c;
	return 0;
}

/* Where there is nothing for one more the next that is given back will do: all are sometime. */
struct channel *helper_take(struct helper *h)
{
	struct channel *c = NULL;

	pthread_mutex_lock(&h->lock);
	while (!h->dead && !h->idle && add_channel(h, &c))
		pthread_cond_wait(&h->given, &h->lock);
	if (!h->dead && !c) {
		c = h->idle;
		h->idle = c->next_free;
	}
	pthread_mutex_unlock(&h->lock);
	return c;
}

/* The one that was used last is taken first: its thread looks still. */
void helper_give(struct channel *c)
{
	struct helper *h = c->helper;

	pthread_mutex_lock(&h->lock);
	c->next_free = h->idle;
	h->idle = c;
	pthread_cond_signal(&h->given);
	pthread_mutex_unlock(&h->lock);
}

struct channel *helper_kept(struct helper *h)
{
	return h->kept;
}

struct apart_call *channel_begin(struct channel *c, enum apart_op op)
{
	struct apart_call *call = &c->slot->call;

	memset(call, 0, offsetof(struct apart_call, gauges));
	call->op = op;
	/* Who answers says otherwise. */
	call->result = -EIO;
	return call;
}

/* As if the backend had said it in this thread. */
static __attribute__((cold)) void take_why(const struct apart_call *call)
{
	char why[REASON_LEN];

	memcpy(why, call->why, sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	reason_set("%s", why);
}

/* Of a call that has been answered, or @err. */
static int take_result(struct channel *c, int err, uint32_t max)
{
	int32_t result;

	c->ended = err;
	if (c->ended)
		return -ENODEV;
	if (c->slot->call.why[0])
		take_why(&c->slot->call);
	result = __atomic_load_n(&c->slot->call.result, __ATOMIC_RELAXED);
	return result < RESULT_MIN || result > (int32_t)max ? -EIO : result;
}

int channel_count(struct channel *c, uint32_t max)
{
	return take_result(c, slot_call(c->slot, &c->turn), max);
}

int channel_call(struct channel *c)
{
	return channel_count(c, 0);
}

int channel_call_soon(struct channel *c)
{
	struct helper *h = c->helper;
	int err = slot_call_until(c->slot, &c->turn,
				  monotonic_ns() + helper_step_ms * 1000000ull);

	if (err == -ETIMEDOUT) {
		log_err("the process of a device takes too long to map or to unmap a buffer, and is ended",
			log_str("device", h->device), log_i64("pid", h->pid),
			log_u64("ms", helper_step_ms),
			log_str("effect", "what ran there is lost; the device goes on in another one"));
		/* By us: no launch that is under way there is to blame. */
		helper_kill(h);
		err = slot_go_on(c->slot, c->turn, 0);
	}
	return take_result(c, err, 0);
}

bool channel_was_taken(const struct channel *c)
{
	return __atomic_load_n(&c->slot->call.taken, __ATOMIC_ACQUIRE);
}

int channel_texts(struct channel *c, const char *const *texts, uint32_t nr)
{
	size_t used = 0;

	for (uint32_t i = 0; i < nr; i++) {
		size_t bytes = strlen(texts[i]) + 1;

		if (bytes > APART_STAGE - used)
			return -E2BIG;
		memcpy(c->slot->stage + used, texts[i], bytes);
		used += bytes;
	}
	return 0;
}

int channel_send(struct channel *c, int fd, uint64_t *id)
{
	struct helper *h = c->helper;

	pthread_mutex_lock(&h->lock);
	*id = ++h->last_fd;
	pthread_mutex_unlock(&h->lock);
	return send_fd(h, APART_FD_ANY, *id, fd);
}

/* ------------------------------------------------------------------ */
/* Its beginning                                                         */

/* @nr that are idle, and the one that is kept. */
static int make_channels(struct helper *h, uint32_t nr)
{
	struct channel *c = NULL;
	int err = 0;

	for (uint32_t i = 0; !err && i <= nr; i++) {
		pthread_mutex_lock(&h->lock);
		/* Of one that is added now nobody would say that it has ended. */
		err = h->dead ? -ENODEV : add_channel(h, &c);
		pthread_mutex_unlock(&h->lock);
		if (!err && i)
			helper_give(c);
		else if (!err)
			h->kept = c;
	}
	return err;
}

int helper_start(int program, const char *device, uint32_t channels, struct helper **helper)
{
	struct helper *h = calloc(1, sizeof(*h));
	enum log_format format;
	enum log_level level;
	int pair[2], err;

	if (!h)
		return -ENOMEM;
	h->program = program;
	h->pidfd = -1;
	h->socket = -1;
	helper_goes_on(h);
	h->log = log_settings(&level, &format);
	snprintf(h->device, sizeof(h->device), "%s", device);
	snprintf(h->level, sizeof(h->level), "%d", (int)level);
	snprintf(h->format, sizeof(h->format), "%d", (int)format);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->started, NULL);
	pthread_cond_init(&h->given, NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		goto fail;
	}
	h->socket = pair[0];
	h->theirs = pair[1];
	err = -pthread_create(&h->watcher, NULL, watch, h);
	if (!err) {
		pthread_mutex_lock(&h->lock);
		while (!h->begun)
			pthread_cond_wait(&h->started, &h->lock);
		err = h->err;
		pthread_mutex_unlock(&h->lock);
		if (err)
			pthread_join(h->watcher, NULL);
	}
	close(pair[1]);
	if (err)
		goto fail;
	/* Now, and not when descriptors are scarce. */
	err = make_channels(h, channels);
	if (err)
		err = helper_stop(h) ?: err;
	else
		*helper = h;
	return err;
fail:
	free_helper(h);
	return err;
}
