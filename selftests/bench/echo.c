// SPDX-License-Identifier: MIT
/* A question to another process and its answer: the floors. */
#include "echo.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "place.h"

#define END ((uint32_t)~0u)

/* Flag and payload in one line, as a task's entry has them. */
struct line {
	uint32_t seq;
	uint32_t payload[15];
} __attribute__((aligned(64)));

struct shared {
	struct line ask;
	struct line pad0;	/* the prefetcher takes lines in pairs */
	struct line answer;
	struct line pad1;
};

struct echo {
	enum echo_kind kind;
	int cpu;
	int ask_fd[2];		/* eventfd or socket: [0] is the asker's end */
	int answer_fd;
	int start[2];		/* a byte: spin until told END */
	uint64_t gap_ns;
	uint32_t seq;
	struct shared *shm;
	pid_t pid;
};

static void die(const char *what)
{
	fprintf(stderr, "arax-bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Without `pause`: it makes the answer later, never sooner. */
static uint32_t spin_for_other(struct line *l, uint32_t than)
{
	uint32_t seq;

	/* Acquire: pairs with the release in post(). */
	while ((seq = __atomic_load_n(&l->seq, __ATOMIC_ACQUIRE)) == than)
		;
	return seq;
}

static void post(struct line *l, uint32_t seq)
{
	l->payload[0] = seq;
	l->payload[14] = seq;
	/* Release: pairs with the acquire in spin_for_other() and sleep_for_other(). */
	__atomic_store_n(&l->seq, seq, __ATOMIC_RELEASE);
}

static uint32_t sleep_for_other(struct line *l, uint32_t than)
{
	uint32_t seq;

	while ((seq = __atomic_load_n(&l->seq, __ATOMIC_ACQUIRE)) == than)
		futex_wait(&l->seq, than);
	return seq;
}

static void answer_lines(struct echo *e)
{
	struct shared *shm = e->shm;
	uint32_t seen = 0;
	char byte;

	while (read(e->start[0], &byte, 1) == 1) {
		for (;;) {
			uint32_t payload;

			seen = spin_for_other(&shm->ask, seen);
			/* Read before the answer: after it, it is the next one's. */
			payload = shm->ask.payload[0];
			post(&shm->answer, seen);
			if (payload == END)
				break;
		}
	}
}

static void answer(void *arg)
{
	struct echo *e = arg;
	char msg[64];
	uint64_t one;
	uint32_t seen = 0;

	place_self(e->cpu);
	close(e->start[1]);
	switch (e->kind) {
	case ECHO_LINES:
		answer_lines(e);
		break;
	case ECHO_EVENTFD:
		while (read(e->ask_fd[0], &one, 8) == 8) {
			if (write(e->answer_fd, &one, 8) != 8)
				break;
		}
		break;
	case ECHO_FUTEX:
		for (;;) {
			seen = sleep_for_other(&e->shm->ask, seen);
			post(&e->shm->answer, seen);
			futex_wake(&e->shm->answer.seq);
		}
		break;
	case ECHO_SOCKET:
		while (read(e->ask_fd[1], msg, sizeof(msg)) == sizeof(msg)) {
			if (write(e->ask_fd[1], msg, sizeof(msg)) != sizeof(msg))
				break;
		}
		break;
	}
}

struct echo *echo_start(enum echo_kind kind, int cpu)
{
	struct echo *e = calloc(1, sizeof(*e));

	if (!e)
		die("an echo");
	e->kind = kind;
	e->cpu = cpu;
	e->shm = mmap(NULL, sizeof(*e->shm), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (e->shm == MAP_FAILED)
		die("shared memory");
	if (pipe(e->start) < 0)
		die("pipe");
	if (kind == ECHO_EVENTFD) {
		e->ask_fd[0] = eventfd(0, EFD_CLOEXEC);
		e->answer_fd = eventfd(0, EFD_CLOEXEC);
		if (e->ask_fd[0] < 0 || e->answer_fd < 0)
			die("eventfd");
	} else if (kind == ECHO_SOCKET) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->ask_fd) < 0)
			die("socketpair");
	}
	e->pid = child_start(answer, e);
	return e;
}

void echo_gap(struct echo *e, uint64_t gap_ns)
{
	e->gap_ns = gap_ns;
}

static void ask(struct echo *e)
{
	struct shared *shm = e->shm;
	uint32_t before = e->seq;
	uint64_t one = 1;
	char msg[64] = { 0 };

	e->seq++;
	switch (e->kind) {
	case ECHO_LINES:
		post(&shm->ask, e->seq);
		spin_for_other(&shm->answer, before);
		break;
	case ECHO_EVENTFD:
		if (write(e->ask_fd[0], &one, 8) != 8 || read(e->answer_fd, &one, 8) != 8)
			die("eventfd");
		break;
	case ECHO_FUTEX:
		post(&shm->ask, e->seq);
		futex_wake(&shm->ask.seq);
		sleep_for_other(&shm->answer, before);
		break;
	case ECHO_SOCKET:
		if (write(e->ask_fd[0], msg, sizeof(msg)) != sizeof(msg) ||
		    read(e->ask_fd[0], msg, sizeof(msg)) != sizeof(msg))
			die("socket");
		break;
	}
}

void gap_sleep(uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000u),
			       .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&ts, NULL);
}

void echo_round(void *arg, double seconds, struct samples *s)
{
	struct echo *e = arg;
	uint64_t end, t0, t1;

	if (e->kind == ECHO_LINES && write(e->start[1], "", 1) != 1)
		die("pipe");
	ask(e);		/* the other is awake now */
	t1 = ticks();
	end = t1 + ns_to_ticks(seconds * 1e9);
	while (t1 < end && !samples_full(s)) {
		if (e->gap_ns)
			gap_sleep(e->gap_ns);
		t0 = ticks();
		ask(e);
		t1 = ticks();
		samples_add(s, t1 - t0);
	}
	if (e->kind == ECHO_LINES) {
		uint32_t before = e->seq++;

		/* No sequence number gets to END in the time of a bench. */
		e->shm->ask.payload[0] = END;
		__atomic_store_n(&e->shm->ask.seq, e->seq, __ATOMIC_RELEASE);
		spin_for_other(&e->shm->answer, before);
	}
}

void echo_stop(struct echo *e)
{
	child_end(e->pid);
	munmap(e->shm, sizeof(*e->shm));
	close(e->start[0]);
	close(e->start[1]);
	if (e->kind == ECHO_EVENTFD) {
		close(e->ask_fd[0]);
		close(e->answer_fd);
	} else if (e->kind == ECHO_SOCKET) {
		close(e->ask_fd[0]);
		close(e->ask_fd[1]);
	}
	free(e);
}
