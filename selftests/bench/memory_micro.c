// SPDX-License-Identifier: MIT
/*
 * memory_micro - what the memory manager costs where a buffer is in very many pieces
 *
 *   memory_micro [--json] [--seconds N]
 *
 * Devices whose copies do nothing: what is left are the manager's own steps, most of which nobody
 * else can do meanwhile.  Each figure is the least of several rounds.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/memory/memory.h"
#include "selftests/bench/micro.h"
#include "uapi/arax.h"

#define PIECE		(64ull << 10)
#define MANY		32768u
#define FEW		256u
#define MORE		(1ull << 20)			/* that a buffer has, as yet nowhere */
#define HOST		((uint8_t *)(1ull << 40))	/* nobody looks what is there */

static uint64_t seed = 88172645463325252ull;

static struct memory *m;
static struct memory_buffer *buffer;
static uint64_t seq;

static uint64_t now_ns(void)
{
	struct timespec t;

	/* Of the CPU: it waits for nobody. */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %d\n", what, err);
	exit(1);
}

static uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

/* ------------------------------------------------------------------ */
/* A device                                                             */

static uint64_t allocated = 1ull << 41;

static int no_alloc(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	*address = allocated;
	allocated += bytes;
	return 0;
}

static void no_free(void *dev, uint64_t address)
{
}

static int no_copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return 0;
}

static int no_copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return 0;
}

static int no_copy_peer(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes)
{
	return 0;
}

static const struct memory_ops ops = {
	.alloc = no_alloc, .free = no_free, .copy_in = no_copy_in, .copy_out = no_copy_out,
	.copy_peer = no_copy_peer, .moves = true, .peers = &seed,
};

/* ------------------------------------------------------------------ */
/* Tasks                                                                */

static struct memory_range piece(uint32_t i, uint32_t access)
{
	return (struct memory_range){
		.buffer = buffer, .offset = i * PIECE, .length = PIECE, .count = 1,
		.access = access,
	};
}

static void task(uint32_t device, struct memory_range *r)
{
	static const struct memory_owner owner = { 1, 1 };

	seq++;
	must(memory_enter(m, device, 0, r, 1, seq, owner), "memory_enter()");
	must(memory_leave(m, device, 0, r, 1, 0), "memory_leave()");
	memory_settle(m, device, r, 1, seq);
}

/* A buffer of @pieces, of which the first @there have been written on device 0. */
static void start(uint32_t pieces, uint32_t there, uint64_t room)
{
	struct memory_range r;

	must(memory_create(2, &m), "memory_create()");
	for (uint32_t i = 0; i < 2; i++)
		must(memory_add_device(m, i, &ops, NULL, i ? 1ull << 36 : room),
		     "memory_add_device()");
	/* Not all of it in one piece, as small ones are. */
	buffer = memory_buffer_create(m, HOST, (pieces + MORE) * PIECE);
	must(buffer ? 0 : -1, "memory_buffer_create()");
	memory_buffer_lazy(buffer);
	for (uint32_t i = 0; i < there; i++) {
		r = piece(i, ARAX_OUT);
		task(0, &r);
	}
}

static void finish(void)
{
	memory_buffer_gone(m, buffer);
	memory_destroy(m);
}

/* What one of @n calls takes. */
static void measure(const char *name, uint32_t n, void (*call)(uint32_t extents),
		    uint32_t extents)
{
	uint64_t stop = now_ns() + (uint64_t)(micro_budget_s * 1e9);
	double best = 1e18;

	do {
		uint64_t t = now_ns();

		for (uint32_t i = 0; i < n; i++)
			call(extents);
		t = now_ns() - t;
		if ((double)t / n < best)
			best = (double)t / n;
	} while (now_ns() < stop);
	micro_show(name, best);
}

static void ask_reach(uint32_t extents)
{
	struct memory_range r = piece(draw(extents), ARAX_IN);

	memory_reach_ns(m, 1, &r, 1, seq + 1, false);
}

static void ask_transfer(uint32_t extents)
{
	struct memory_range r = piece(draw(extents), ARAX_IN);

	memory_transfer_ns(m, 0, &r, 1, seq + 1);
}

static void one_task(uint32_t extents)
{
	struct memory_range r = piece(draw(extents), ARAX_INOUT);

	task(0, &r);
}

static void one_goes(uint32_t extents)
{
	static uint32_t at;
	struct memory_range r = piece(extents + at++ % MORE, ARAX_IN);

	task(0, &r);
}

#define AHEAD	1024u

/* The same with uses known of so many tasks. */
static void one_goes_foreseen(uint32_t extents)
{
	static struct memory_range window[AHEAD];
	static uint64_t told;
	struct memory_range r, used;

	told = told < seq + 1 ? seq + 1 : told;
	for (; told <= seq + AHEAD; told++) {
		window[told % AHEAD] = piece(draw(2 * extents), ARAX_IN);
		memory_will_use(m, &window[told % AHEAD], 1, told);
	}
	r = used = window[(seq + 1) % AHEAD];
	task(0, &r);
	memory_has_used(m, &used, 1, seq);
}

static void pieces_of(uint32_t n)
{
	char name[96];

	start(n, n, n * PIECE);
	snprintf(name, sizeof(name), "where from, another device, %u extents", n);
	measure(name, 1000, ask_reach, n);
	snprintf(name, sizeof(name), "what is missing, %u extents", n);
	measure(name, 1000, ask_transfer, n);
	snprintf(name, sizeof(name), "enter + leave + settle, %u extents", n);
	measure(name, 1000, one_task, n);
	snprintf(name, sizeof(name), "... for which one of %u goes", n);
	measure(name, 1000, one_goes, n);
	for (uint32_t i = 0; i < 2 * n; i++)
		one_goes(n);
	snprintf(name, sizeof(name), "... with %u uses to come", AHEAD);
	measure(name, 1000, one_goes_foreseen, n);
	finish();
}

/* ------------------------------------------------------------------ */
/* Rows                                                                 */

#define ROWS_EXTENTS	52000u

/* 4096 rows over all extents, each as long as a piece. */
static struct memory_range rows(uint32_t access)
{
	struct memory_range r = piece(0, access);

	r.count = MEMORY_MAX_ROWS;
	r.stride = (uint32_t)(ROWS_EXTENTS / MEMORY_MAX_ROWS * PIECE);
	r.offset = PIECE / 2;
	return r;
}

static void many_rows(void)
{
	static const struct memory_owner owner = { 1, 1 };
	double leave = 1e18, wrote = 1e18, reach = 1e18;
	struct memory_range r;
	uint64_t t;

	start(ROWS_EXTENTS, ROWS_EXTENTS, 2ull * ROWS_EXTENTS * PIECE);
	/* A long one is as long the next time. */
	for (uint32_t i = 0; !i || (i < 3 && reach < 1e9); i++) {
		r = rows(ARAX_IN);
		t = now_ns();
		memory_reach_ns(m, 1, &r, 1, seq + 1, false);
		t = now_ns() - t;
		reach = (double)t < reach ? (double)t : reach;
		r = rows(ARAX_OUT);
		must(memory_enter(m, 1, 0, &r, 1, ++seq, owner), "memory_enter()");
		t = now_ns();
		must(memory_leave(m, 1, 0, &r, 1, 0), "memory_leave()");
		t = now_ns() - t;
		leave = (double)t < leave ? (double)t : leave;
		memory_settle(m, 1, &r, 1, seq);
		r = rows(ARAX_OUT);
		t = now_ns();
		memory_host_wrote(m, buffer, r.offset, r.length, r.stride, r.count);
		t = now_ns() - t;
		wrote = (double)t < wrote ? (double)t : wrote;
	}
	micro_show("4096 rows, 52000 extents: where from", reach);
	micro_show("4096 rows, 52000 extents: leave", leave);
	micro_show("4096 rows, 52000 extents: a host's task wrote", wrote);
	finish();
}

/* ------------------------------------------------------------------ */
/* Uses to come                                                         */

#define USES	65000u

/* The last one's task ends first, as another tenant's may. */
static void last_use(uint32_t uses)
{
	struct memory_range r = piece(0, ARAX_IN);

	memory_has_used(m, &r, 1, uses);
	memory_will_use(m, &r, 1, uses);
}

static void middle_use(uint32_t uses)
{
	struct memory_range r = piece(0, ARAX_IN);

	memory_has_used(m, &r, 1, uses / 2);
	memory_will_use(m, &r, 1, uses / 2);
}

static void uses_of_one(void)
{
	struct memory_range r;

	start(16, 16, 64 * PIECE);
	r = piece(0, ARAX_IN);
	for (uint32_t i = 1; i <= USES; i++)
		memory_will_use(m, &r, 1, i);
	measure("65000 uses of a piece, the last ends and comes", 10, last_use, USES);
	measure("65000 uses of a piece, one amidst ends and comes", 10, middle_use, USES);
	finish();
}

static void measure_all(void)
{
	pieces_of(FEW);
	pieces_of(MANY);
	many_rows();
	uses_of_one();
}

int main(int argc, char **argv)
{
	return micro_run(argc, argv, measure_all);
}
