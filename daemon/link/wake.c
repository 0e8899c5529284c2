// SPDX-License-Identifier: MIT
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/link/wake.h"

#define IDLE_TICKS	5
#define LOOKS		16		/* after a tick in the midst of a write */
#define USUAL_MIN_NS	100000u		/* what takes less is not worth a look */
#define USUAL_TIMES	64u		/* as long as one that nobody watches */

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Of one writing thread; its handler runs on it. */
static __thread struct {
	bool made;
	volatile sig_atomic_t armed;
	volatile sig_atomic_t inside;	/* a write */
	volatile sig_atomic_t hit;	/* a tick came there */
	volatile sig_atomic_t idle;
	timer_t timer;
} mine;

static void set(long ns)
{
	struct itimerspec t = { .it_interval.tv_nsec = ns, .it_value.tv_nsec = ns };

	timer_settime(mine.timer, 0, &t, NULL);
}

/* Its coming is what interrupts the write. */
static void on_tick(int sig)
{
	int saved = errno;

	if (mine.inside)
		mine.hit = 1;
	if (++mine.idle > IDLE_TICKS) {
		mine.armed = 0;
		set(0);
	}
	errno = saved;
}

/* Atomic.  Of this machine: where all is emulated and checked, a write takes long as it is. */
static uint64_t usual_ns = USUAL_MIN_NS;

uint64_t wake_thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int learn_usual(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const uint64_t one = 1;
	uint64_t best = UINT64_MAX;

	if (fd < 0)
		return -errno;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t ns = wake_thread_ns();
		ssize_t n = write(fd, &one, sizeof(one));

		ns = wake_thread_ns() - ns;
		if (n > 0 && ns < best)
			best = ns;
	}
	close(fd);
	if (best < UINT64_MAX / USUAL_TIMES && best * USUAL_TIMES > USUAL_MIN_NS)
		__atomic_store_n(&usual_ns, best * USUAL_TIMES, __ATOMIC_RELAXED);
	return 0;
}

int wake_init(void)
{
	struct sigaction sa;
	int err = learn_usual();

	if (err)
		return err;
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_tick;	/* without SA_RESTART */
	sa.sa_flags = SA_ONSTACK;	/* as in guard.c: the poller runs kernels, too */
	sigemptyset(&sa.sa_mask);
	return sigaction(SIGRTMIN + 1, &sa, NULL) ? -errno : 0;
}

static void arm(void)
{
	struct sigevent ev;

	if (!mine.made) {
		memset(&ev, 0, sizeof(ev));
		ev.sigev_notify = SIGEV_THREAD_ID;
		ev.sigev_signo = SIGRTMIN + 1;
		ev.sigev_notify_thread_id = (int)syscall(SYS_gettid);
		if (timer_create(CLOCK_MONOTONIC, &ev, &mine.timer))
			return;
		mine.made = true;
	}
	mine.armed = 1;
	set(WAKE_TICK_NS);
}

static bool write_one(int fd)
{
	const uint64_t one = 1;
	bool blocked;

	mine.inside = 1;
	/* EAGAIN: full, so whoever waits for it is awake. */
	blocked = write(fd, &one, sizeof(one)) <= 0 && errno == EINTR;
	mine.inside = 0;
	return !blocked;
}

uint64_t wake_beyond_usual(uint64_t ns)
{
	const uint64_t usual = __atomic_load_n(&usual_ns, __ATOMIC_RELAXED);

	return ns > usual ? ns - usual : 0;
}

uint32_t wake_slowness(void)
{
	uint64_t times = __atomic_load_n(&usual_ns, __ATOMIC_RELAXED) / USUAL_MIN_NS;

	return times < UINT32_MAX ? (uint32_t)times : UINT32_MAX;
}

static uint64_t write_measured(int fd, struct wake_watch *w, uint8_t looks)
{
	uint64_t ns = wake_thread_ns();

	if (!write_one(fd))
		return WAKE_BLOCKED;
	ns = wake_thread_ns() - ns;
	__atomic_store_n(&w->looks, looks - 1, __ATOMIC_RELAXED);
	return wake_beyond_usual(ns);
}

uint64_t wake_write(int fd, struct wake_watch *w)
{
	uint8_t looks = __atomic_load_n(&w->looks, __ATOMIC_RELAXED);
	uint64_t ns = 0;

	mine.idle = 0;
	if (!mine.armed)
		arm();
	if (looks)
		ns = write_measured(fd, w, looks);
	else if (!write_one(fd))
		ns = WAKE_BLOCKED;
	if (mine.hit) {
		mine.hit = 0;
		__atomic_store_n(&w->looks, LOOKS, __ATOMIC_RELAXED);
	}
	return ns;
}

void wake_rest(void)
{
	if (!mine.armed)
		return;
	mine.armed = 0;
	/* One that came before is delivered by the time that this returns. */
	set(0);
}
