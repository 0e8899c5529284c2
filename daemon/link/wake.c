// SPDX-License-Identifier: MIT
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/link/wake.h"

#define TICK_NS		10000000
#define IDLE_TICKS	5

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Of one writing thread; its handler runs on it. */
static __thread struct {
	bool made;
	volatile sig_atomic_t armed;
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

	if (++mine.idle > IDLE_TICKS) {
		mine.armed = 0;
		set(0);
	}
	errno = saved;
}

int wake_init(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_tick;	/* without SA_RESTART */
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
	set(TICK_NS);
}

bool wake_write(int fd)
{
	const uint64_t one = 1;

	mine.idle = 0;
	if (!mine.armed)
		arm();
	/* EAGAIN: full, so whoever waits for it is awake. */
	return write(fd, &one, sizeof(one)) > 0 || errno != EINTR;
}

void wake_rest(void)
{
	if (!mine.armed)
		return;
	mine.armed = 0;
	/* One that came before is delivered by the time that this returns. */
	set(0);
}
