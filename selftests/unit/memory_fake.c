// SPDX-License-Identifier: MIT
#include "selftests/unit/memory_fake.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One less of them. */
static bool fails(int *left)
{
	int n = __atomic_load_n(left, __ATOMIC_RELAXED);

	while (n > 0)
		if (__atomic_compare_exchange_n(left, &n, n - 1, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

static int fake_alloc(void *dev, uint64_t bytes, void *host, uint64_t *address)
{
	struct fake_device *f = dev;
	uint64_t *p;

	if (fails(&f->fail_alloc))
		return -ENOMEM;
	if (f->most && __atomic_load_n(&f->bytes, __ATOMIC_RELAXED) + bytes > f->most)
		return -ENOMEM;
	p = malloc(bytes + 16);
	if (!p)
		return -ENOMEM;
	*p = bytes;
	memset(p + 2, FAKE_GARBAGE, bytes);
	*address = (uintptr_t)(p + 2);
	f->host = host;
	__atomic_add_fetch(&f->allocations, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&f->ever, 1, __ATOMIC_RELAXED);
	bytes = __atomic_add_fetch(&f->bytes, bytes, __ATOMIC_RELAXED);
	if (f->largest < bytes)
		f->largest = bytes;
	return 0;
}

static void fake_free(void *dev, uint64_t address)
{
	struct fake_device *f = dev;
	uint64_t *p = (uint64_t *)(uintptr_t)address - 2;

	__atomic_add_fetch(&f->frees, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&f->slow_free, __ATOMIC_RELAXED))
		usleep(100);
	__atomic_sub_fetch(&f->frees, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&f->allocations, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&f->bytes, *p, __ATOMIC_RELAXED);
	free(p);
}

/*
 * A program may write to its pages while they are on their way for a task that it has seen the end of.
 * That is no race, as those bytes don't count then.
 */
#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize("thread")))
static void read_host(uint8_t *to, const volatile uint8_t *from, uint64_t bytes)
{
	volatile uint8_t *p = to;

	for (uint64_t i = 0; i < bytes; i++)
		p[i] = from[i];
}

static void copy_host(void *to, const void *from, uint64_t bytes)
{
	uint8_t *p = malloc(bytes + 1);

	read_host(p, from, bytes);
	memcpy(to, p, bytes);
	free(p);
}
#else
static void copy_host(void *to, const void *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}
#endif

static int fake_copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	struct fake_device *f = dev;

	(void)lane;
	if (f->dead)
		return -ENODEV;
	if (!fails(&f->pass_in) && fails(&f->fail_in))
		return -EIO;
	copy_host((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int fake_copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	struct fake_device *f = dev;

	(void)lane;
	if (f->dead)
		return -ENODEV;
	if (fails(&f->fail_out))
		return -EIO;
	memcpy(to, (void *)(uintptr_t)from, bytes);
	return 0;
}

static int fake_register(void *dev, void *host, uint64_t bytes)
{
	struct fake_device *f = dev;

	(void)host;
	(void)bytes;
	__atomic_add_fetch(&f->asked, 1, __ATOMIC_RELAXED);
	if (fails(&f->fail_register))
		return -ENOMEM;
	__atomic_add_fetch(&f->registered, 1, __ATOMIC_RELAXED);
	return 0;
}

static void fake_unregister(void *dev, void *host)
{
	struct fake_device *f = dev;

	(void)host;
	__atomic_sub_fetch(&f->registered, 1, __ATOMIC_RELAXED);
}

static void meet(void)
{
	static int begun;
	int mine = __atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);

	for (int i = 0; mine > 1 && i < 10000 && __atomic_load_n(&begun, __ATOMIC_RELAXED) < 3; i++)
		usleep(1000);
}

static int fake_copy_peer(void *dev, uint64_t to, void *src, uint64_t from, uint64_t bytes)
{
	struct fake_device *f = dev, *s = src;
	int lent = __atomic_add_fetch(&s->lent, 1, __ATOMIC_RELAXED);

	ck_assert_ptr_ne(dev, src);
	__atomic_add_fetch(&s->lends, 1, __ATOMIC_RELAXED);
	if (lent > s->lent_most)
		s->lent_most = lent;
	if (f->meets)
		meet();
	__atomic_sub_fetch(&s->lent, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&f->peer_copies, 1, __ATOMIC_RELAXED);
	if (f->strange)
		return -EOPNOTSUPP;
	if (fails(&f->fail_peer))
		return -EIO;
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	return 0;
}

const struct memory_ops fake_ops = {
	.alloc = fake_alloc, .free = fake_free, .copy_in = fake_copy_in, .copy_out = fake_copy_out,
	.host_register = fake_register, .host_unregister = fake_unregister,
};

const struct memory_ops fake_peer_ops = {
	.alloc = fake_alloc, .free = fake_free, .copy_in = fake_copy_in, .copy_out = fake_copy_out,
	.host_register = fake_register, .host_unregister = fake_unregister,
	.copy_peer = fake_copy_peer, .peers = &fake_ops,
};

struct fake_pair pair;

void pair_start(uint64_t bytes)
{
	const uint64_t room = 64u << 20;

	memset(&pair, 0, sizeof(pair));
	pair.host = calloc(1, bytes);
	ck_assert_ptr_nonnull(pair.host);
	ck_assert_int_eq(memory_create(2, &pair.m), 0);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(memory_add_device(pair.m, i, &fake_ops, &pair.device[i], room), 0);
	pair.buffer = memory_buffer_create(pair.m, pair.host, bytes);
	ck_assert_ptr_nonnull(pair.buffer);
	memory_buffer_lazy(pair.buffer);
}

void pair_finish(void)
{
	ck_assert_int_eq(memory_check(pair.m), 0);
	memory_buffer_gone(pair.m, pair.buffer);
	memory_destroy(pair.m);
	free(pair.host);
}

struct memory_range pair_range(uint32_t access, uint64_t offset, uint64_t length, uint32_t stride,
			       uint32_t count)
{
	return (struct memory_range){
		.buffer = pair.buffer, .access = access, .offset = offset, .length = length,
		.stride = stride, .count = count,
	};
}
