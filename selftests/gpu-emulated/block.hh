/* SPDX-License-Identifier: MIT */
/*
 * block.hh - the threads of a block that has barriers
 *
 * Under a sanitizer each is a thread, so that races between them are found.  Else they take turns on
 * one, each from a barrier to the next: a hundred times as fast, and every other kernel the other
 * way around, so that what no barrier orders has either order.
 */
#ifndef EMULATED_BLOCK_HH
#define EMULATED_BLOCK_HH

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)

#include <pthread.h>
#include <thread>

static thread_local pthread_barrier_t *block_at;

/* All have come here before any goes on. */
static inline void block_barrier()
{
	if (block_at)
		pthread_barrier_wait(block_at);
}

/* @fn(i) by thread @i of @n, all of them at once. */
static void block_run(uint64_t n, const std::function<void(uint64_t)> &fn)
{
	pthread_barrier_t all;
	std::vector<std::thread> threads;

	pthread_barrier_init(&all, NULL, (unsigned int)n);
	for (uint64_t i = 0; i < n; i++)
		threads.emplace_back([&, i] {
			block_at = &all;
			fn(i);
		});
	for (std::thread &t : threads)
		t.join();
	pthread_barrier_destroy(&all);
}

#else

#include <sys/mman.h>
#include <ucontext.h>

#define BLOCK_STACK	(256u << 10)	/* untouched pages of it are none */
#define BLOCK_GUARD	4096u

struct block_member {
	ucontext_t context;
	uint8_t *stack;
	uint64_t barriers;	/* that it has been at */
	bool ended;
};

/* One block at a time. */
static struct {
	std::vector<block_member> members;
	const std::function<void(uint64_t)> *fn;
	ucontext_t caller;
	uint64_t n, now, left;
	uint64_t barriers;	/* of who has ended */
	bool backwards;
} crew;

/* Who ends at fewer than others keeps a GPU waiting for good, or not, as it likes. */
static void block_check(uint64_t barriers)
{
	if (crew.left == crew.n)
		crew.barriers = barriers;
	if (crew.barriers == barriers)
		return;
	fprintf(stderr, "emulated GPU: threads of a block have been at %llu and at %llu barriers\n",
		(unsigned long long)crew.barriers, (unsigned long long)barriers);
	abort();
}

static uint64_t block_next(uint64_t i)
{
	do {
		if (crew.backwards)
			i = i ? i - 1 : crew.n - 1;
		else
			i = i + 1 < crew.n ? i + 1 : 0;
	} while (crew.members[i].ended);
	return i;
}

/* All have come here before any goes on, as each goes on for as far. */
static inline void block_barrier()
{
	const uint64_t i = crew.now;

	if (crew.n < 2)
		return;
	crew.members[i].barriers++;
	crew.now = block_next(i);
	if (crew.now != i)
		swapcontext(&crew.members[i].context, &crew.members[crew.now].context);
}

static void block_main()
{
	const uint64_t i = crew.now;

	(*crew.fn)(i);
	block_check(crew.members[i].barriers);
	crew.members[i].ended = true;
	if (!--crew.left)
		setcontext(&crew.caller);
	crew.now = block_next(i);
	setcontext(&crew.members[crew.now].context);
}

static void block_prepare(block_member &m)
{
	if (!m.stack) {
		m.stack = (uint8_t *)mmap(NULL, BLOCK_STACK, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (m.stack == MAP_FAILED || mprotect(m.stack, BLOCK_GUARD, PROT_NONE))
			abort();
	}
	m.barriers = 0;
	m.ended = false;
	getcontext(&m.context);
	m.context.uc_stack.ss_sp = m.stack;
	m.context.uc_stack.ss_size = BLOCK_STACK;
	m.context.uc_link = NULL;
	makecontext(&m.context, block_main, 0);
}

/* @fn(i) by member @i of @n. */
static void block_run(uint64_t n, const std::function<void(uint64_t)> &fn)
{
	if (crew.members.size() < n)
		crew.members.resize(n);
	for (uint64_t i = 0; i < n; i++)
		block_prepare(crew.members[i]);
	crew.fn = &fn;
	crew.n = n;
	crew.left = n;
	crew.backwards = !crew.backwards;
	crew.now = crew.backwards ? n - 1 : 0;
	swapcontext(&crew.caller, &crew.members[crew.now].context);
	crew.n = 0;
}

#endif

#endif /* EMULATED_BLOCK_HH */
