// SPDX-License-Identifier: MIT
/* Bare rings between two processes. */
#include "rings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"
#include "place.h"
#include "session.h"

#define DEPTH	256
#define END	1u

struct request {
	uint32_t seq;
	uint32_t what;
	uint8_t payload[120];
} __attribute__((aligned(128)));

struct reply {
	uint32_t seq;
	uint32_t what;
	uint8_t payload[56];
} __attribute__((aligned(64)));

struct shared {
	struct request requests[DEPTH];
	struct reply replies[DEPTH];
};

struct rings {
	struct shared *shm;
	int start[2];
	int cpu;
	uint32_t pos;
	pid_t pid;
};

static void answer(void *arg)
{
	struct rings *r = arg;
	uint32_t pos = 0, what;
	char byte;

	place_self(r->cpu);
	close(r->start[1]);
	while (read(r->start[0], &byte, 1) == 1) {
		do {
			struct request *q = &r->shm->requests[pos % DEPTH];
			struct reply *a = &r->shm->replies[pos % DEPTH];

			/* Acquire: pairs with the release in ask(). */
			while (__atomic_load_n(&q->seq, __ATOMIC_ACQUIRE) != pos + 1)
				;
			what = q->what;
			memcpy(a->payload, q->payload, sizeof(a->payload));
			/* Release: pairs with the acquire in take(). */
			__atomic_store_n(&a->seq, ++pos, __ATOMIC_RELEASE);
		} while (what != END);
	}
}

static void ask(struct rings *r, uint32_t what)
{
	struct request *q = &r->shm->requests[r->pos % DEPTH];

	q->what = what;
	memset(q->payload, (int)r->pos, sizeof(q->payload));
	__atomic_store_n(&q->seq, ++r->pos, __ATOMIC_RELEASE);
}

static void take(struct rings *r, uint32_t pos)
{
	struct reply *a = &r->shm->replies[pos % DEPTH];

	while (__atomic_load_n(&a->seq, __ATOMIC_ACQUIRE) != pos + 1)
		;
}

struct rings *rings_start(int cpu)
{
	struct rings *r = calloc(1, sizeof(*r));

	if (!r)
		bench_fail("no memory");
	r->cpu = cpu;
	r->shm = mmap(NULL, sizeof(*r->shm), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->shm == MAP_FAILED || pipe(r->start) < 0)
		bench_fail("rings: %s", strerror(errno));
	r->pid = child_start(answer, r);
	return r;
}

void rings_round(void *arg, double seconds, struct samples *s)
{
	struct rings *r = arg;
	uint32_t taken = r->pos, n;
	uint64_t t0, t1, end;

	if (write(r->start[1], "", 1) != 1)
		bench_fail("rings: %s", strerror(errno));
	for (n = 0; n < WINDOW; n++)
		ask(r, 0);
	t0 = ticks();
	t1 = t0;
	end = t0 + ns_to_ticks(seconds * 1e9);
	while (t1 < end && !samples_full(s)) {
		for (n = 0; n < GRAIN; n++) {
			take(r, taken++);
			ask(r, 0);
		}
		t1 = ticks();
		samples_add(s, t1 - t0);
		t0 = t1;
	}
	ask(r, END);
	while (taken != r->pos)
		take(r, taken++);
}

void rings_stop(struct rings *r)
{
	child_end(r->pid);
	munmap(r->shm, sizeof(*r->shm));
	close(r->start[0]);
	close(r->start[1]);
	free(r);
}
