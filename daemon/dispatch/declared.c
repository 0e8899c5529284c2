// SPDX-License-Identifier: MIT
#include "daemon/dispatch/declared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/run.h"
#include "daemon/dispatch/unwritten.h"
#include "daemon/log.h"

/**
 * struct declared - of one lane
 * @enter, @leave: what remote.c does around a run; NULL on host pages
 * @hash:	of ranges before the kernel
 * @known:	on a device, of which of them (bits)
 */
struct declared {
	int (*enter)(struct runner_task *rt);
	int (*leave)(struct runner_task *rt, int result);
	uint64_t hash[ARAX_MAX_RANGES];
	uint32_t known;
	struct unwritten unwritten;
};

static struct run *run_of(struct runner_task *rt)
{
	return (struct run *)((char *)rt - offsetof(struct run, rt));
}

static uint64_t range_end(const struct arax_dispatch_range *r)
{
	return r->offset + (uint64_t)(r->count - 1) * r->stride + r->length;
}

/* Only read, and none of its bytes is in a range that the task may write. */
static bool is_read_only(const struct graph_node *node, uint32_t i)
{
	const struct arax_dispatch_range *r = &node->ranges[i];

	if (node->d.access >> 2 * i & ARAX_OUT)
		return false;
	for (uint32_t j = 0; j < node->d.nr_ranges; j++) {
		const struct arax_dispatch_range *o = &node->ranges[j];

		if ((node->d.access >> 2 * j & ARAX_OUT) && o->buffer == r->buffer &&
		    o->offset < range_end(r) && r->offset < range_end(o))
			return false;
	}
	return true;
}

#define HASH_BASIS	14695981039346656037ull

/* FNV-1a, eight bytes at a time: enough to see a change that nobody hides. */
static uint64_t hash_row(uint64_t h, const uint8_t *p, uint64_t length)
{
	uint64_t k = 0, word;

	for (; k + 8 <= length; k += 8) {
		memcpy(&word, p + k, 8);
		h = (h ^ word) * 1099511628211ull;
	}
	for (; k < length; k++)
		h = (h ^ p[k]) * 1099511628211ull;
	return h;
}

static uint64_t hash_range(const struct arax_launch_range *r)
{
	uint64_t h = HASH_BASIS;

	for (uint32_t i = 0; i < r->count; i++)
		h = hash_row(h, (const uint8_t *)r->data + (uint64_t)i * r->stride, r->length);
	return h;
}

static int complain(const struct run *run, uint32_t range)
{
	log_err("kernel wrote to a range that it declares as in",
		log_str("kernel", run->rt.kernel->sig.name), log_u64("range", range),
		log_u64("context", run->node->d.context),
		log_u64("offset", run->node->ranges[range].offset),
		log_u64("bytes", run->node->ranges[range].length),
		log_str("remedy", "declare it inout in the library's manifest"));
	return -EACCES;
}

/* On host pages, before the kernel: whether what it reads is the same as before. */
static bool hash_inputs(struct run *run)
{
	struct declared *d = run->declared;
	bool same = true;

	for (uint32_t i = 0; i < run->node->d.nr_ranges; i++) {
		uint64_t hash;

		if (!(run->node->d.access >> 2 * i & ARAX_IN))
			continue;
		hash = hash_range(&run->ranges[i]);
		same &= hash == d->hash[i];
		d->hash[i] = hash;
	}
	return same;
}

/* Of a range on the device. */
static int hash_there(const struct run *run, uint32_t i, uint64_t *hash)
{
	struct device *dev = run->poller->devs[run->device].dev;
	const struct arax_dispatch_range *r = &run->node->ranges[i];
	uint8_t *copy;
	int err;

	*hash = HASH_BASIS;
	/* However many rows of nothing there are. */
	if (!r->length)
		return 0;
	copy = malloc(r->length);
	err = copy ? 0 : -ENOMEM;
	for (uint32_t j = 0; !err && j < r->count; j++) {
		err = device_copy_out(dev, run->lane, copy,
				      run->remote[i].address + (uint64_t)j * r->stride, r->length);
		if (!err)
			*hash = hash_row(*hash, copy, r->length);
	}
	free(copy);
	return err;
}

/*
 * On a device, before the kernel.  What the host has may be older: of an explicit buffer.  Of what
 * can't be had nothing is said afterwards.
 */
static void hash_inputs_there(struct run *run)
{
	struct declared *d = run->declared;

	d->known = 0;
	for (uint32_t i = 0; i < run->node->d.nr_ranges; i++)
		if (is_read_only(run->node, i) && !hash_there(run, i, &d->hash[i]))
			d->known |= 1u << i;
}

/* And after it. */
static int compare(const struct run *run, uint32_t i)
{
	const struct declared *d = run->declared;
	uint64_t hash;
	int err;

	if (!(d->known >> i & 1))
		return 0;
	err = hash_there(run, i, &hash);
	if (err)
		return err;
	return hash == d->hash[i] ? 0 : complain(run, i);
}

static int enter(struct runner_task *rt)
{
	struct run *run = run_of(rt);
	struct declared *d = run->declared;
	int err;

	if (d->enter) {
		err = d->enter(rt);
		if (err)
			return err;
		hash_inputs_there(run);
		unwritten_fill(run, &d->unwritten);
		return 0;
	}
	hash_inputs(run);
	/* Two buffers may be the same memory: then it is filled for nobody. */
	if (unwritten_fill(run, &d->unwritten) && !hash_inputs(run)) {
		unwritten_look(run, &d->unwritten, -ECANCELED);
		hash_inputs(run);
	}
	return 0;
}

static int leave(struct runner_task *rt, int result)
{
	struct run *run = run_of(rt);
	struct declared *d = run->declared;

	result = unwritten_look(run, &d->unwritten, result);
	for (uint32_t i = 0; !result && i < rt->launch.nr_ranges; i++) {
		if (!is_read_only(run->node, i))
			continue;
		if (d->leave)
			result = compare(run, i);
		else if (hash_range(&run->ranges[i]) != d->hash[i])
			result = complain(run, i);
	}
	return d->leave ? d->leave(rt, result) : result;
}

int declared_prepare(struct run *run)
{
	struct declared *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->enter = run->rt.enter;
	d->leave = run->rt.leave;
	d->unwritten.key = (uintptr_t)d ^ monotonic_ns();
	run->declared = d;
	run->rt.enter = enter;
	run->rt.leave = leave;
	return 0;
}

void declared_release(struct run *run)
{
	free(run->declared);
	run->declared = NULL;
}
