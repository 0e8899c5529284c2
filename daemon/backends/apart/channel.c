// SPDX-License-Identifier: MIT
#include "daemon/backends/apart/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/backends/relax.h"
#include "daemon/dispatch/ticks.h"

#define SPIN_NS		50000u	/* about what two wake-ups cost */
#define LOOKS		16	/* between two looks at the clock */
#define ENDED		UINT32_MAX

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

int slot_make(struct slot **slot)
{
	int fd = memfd_create("arax-device", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, sizeof(**slot)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		*slot = slot_map(fd);
		if (*slot)
			return fd;
	}
	err = -errno;
	close(fd);
	return err;
}

struct slot *slot_map(int fd)
{
	struct slot *s;
	struct stat st;

	if (fstat(fd, &st) || st.st_size != sizeof(*s))
		return NULL;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return s == MAP_FAILED ? NULL : s;
}

void slot_unmap(struct slot *s)
{
	munmap(s, sizeof(*s));
}

/* Acquire: what was written before put() is there. */
static uint32_t look(const struct slot_word *w)
{
	return __atomic_load_n(&w->value, __ATOMIC_ACQUIRE);
}

/* Of a request anything but @turn; of an answer that to @turn, or the end. */
static bool is_there(uint32_t value, uint32_t turn, bool answer)
{
	return answer ? value == turn || value == ENDED : value != turn;
}

/* In the kernel, until it has been woken, or @until; false: that is over. */
static bool sleep_until(struct slot_word *w, uint32_t value, uint64_t until)
{
	uint64_t now, left;
	struct timespec t;

	if (!until) {
		futex(&w->value, FUTEX_WAIT, value, NULL);
		return true;
	}
	now = monotonic_ns();
	if (now >= until)
		return false;
	left = until - now;
	t.tv_sec = (time_t)(left / 1000000000u);
	t.tv_nsec = (long)(left % 1000000000u);
	futex(&w->value, FUTEX_WAIT, value, &t);
	return true;
}

/* Until it is there, or @until, 0: any time; returns what is. */
static uint32_t wait_for(struct slot_word *w, uint32_t turn, bool answer, uint64_t until)
{
	uint64_t began = monotonic_ns();
	uint32_t value;

	do {
		for (int i = 0; i < LOOKS; i++) {
			value = look(w);
			if (is_there(value, turn, answer))
				return value;
			relax();
		}
	} while (monotonic_ns() - began < SPIN_NS);
	/* Pairs with put(): one of us sees what the other one has written. */
	__atomic_store_n(&w->sleeps, 1, __ATOMIC_SEQ_CST);
	while (value = __atomic_load_n(&w->value, __ATOMIC_SEQ_CST),
	       !is_there(value, turn, answer) && sleep_until(w, value, until))
		;
	__atomic_store_n(&w->sleeps, 0, __ATOMIC_RELAXED);
	return value;
}

/* Pairs with wait_for(). */
static void put(struct slot_word *w, uint32_t value)
{
	__atomic_store_n(&w->value, value, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&w->sleeps, __ATOMIC_SEQ_CST))
		futex(&w->value, FUTEX_WAKE, INT_MAX, NULL);
}

static uint32_t after(uint32_t turn)
{
	return turn + 1 == ENDED ? 0 : turn + 1;
}

int slot_call_until(struct slot *s, uint32_t *turn, uint64_t until)
{
	*turn = after(*turn);
	put(&s->request, *turn);
	return slot_go_on(s, *turn, until);
}

int slot_go_on(struct slot *s, uint32_t turn, uint64_t until)
{
	/* What is here at first is the answer to the call before, or what was written over it. */
	uint32_t value = wait_for(&s->reply, turn, true, until);

	if (value == ENDED)
		return -ENODEV;
	return value == turn ? 0 : -ETIMEDOUT;
}

int slot_call(struct slot *s, uint32_t *turn)
{
	return slot_call_until(s, turn, 0);
}

void slot_end(struct slot *s)
{
	__atomic_store_n(&s->reply.value, ENDED, __ATOMIC_SEQ_CST);
	/* Whether somebody sleeps was the other side's to write over. */
	futex(&s->reply.value, FUTEX_WAKE, INT_MAX, NULL);
}

void slot_await(struct slot *s, uint32_t *seen)
{
	*seen = wait_for(&s->request, *seen, false, 0);
}

void slot_answer(struct slot *s, uint32_t seen)
{
	put(&s->reply, seen);
}
