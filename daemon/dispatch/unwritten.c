// SPDX-License-Identifier: MIT
#include "daemon/dispatch/unwritten.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/complaints.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"

#define UNIT	4u		/* bytes of the pattern that are looked at together */
#define SINGLES	4u		/* so many without a neighbour are no chance */

/**
 * struct found - of a range, what is unwritten
 * @singles:	units without a neighbour that is
 * @first:	of what was put back, from the range's first byte on; @bytes: in all
 */
struct found {
	uint64_t pairs, singles;
	uint64_t first, bytes;
};

static bool is_apart(const struct graph_node *node, uint32_t i)
{
	const struct arax_dispatch_range *r = &node->ranges[i];

	if ((node->d.access >> 2 * i & ARAX_INOUT) != ARAX_OUT || r->length < UNIT)
		return false;
	/* Of so little nothing would be seen. */
	if (r->length < 2 * UNIT && r->count < SINGLES)
		return false;
	for (uint32_t j = 0; j < node->d.nr_ranges; j++) {
		const struct arax_dispatch_range *o = &node->ranges[j];

		if (j != i && o->buffer == r->buffer &&
		    o->offset < r->offset + (uint64_t)(r->count - 1) * r->stride + r->length &&
		    r->offset < o->offset + (uint64_t)(o->count - 1) * o->stride + o->length)
			return false;
	}
	return true;
}

/* All rows, one behind the other in @bytes; to where the kernel finds them, or from there. */
static int move(const struct run *run, uint32_t i, uint8_t *bytes, bool to)
{
	struct device *dev = run->poller->devs[run->device].dev;
	const struct arax_launch_range *r = &run->ranges[i];
	int err = 0;

	for (uint32_t j = 0; !err && j < r->count; j++, bytes += r->length) {
		uint64_t row = (uint64_t)j * r->stride;

		if (!run->remote)
			memcpy(to ? (uint8_t *)r->data + row : bytes,
			       to ? bytes : (uint8_t *)r->data + row, r->length);
		else if (to)
			err = device_copy_in(dev, run->lane, run->remote[i].address + row, bytes,
					     r->length);
		else
			err = device_copy_out(dev, run->lane, bytes, run->remote[i].address + row,
					      r->length);
	}
	return err;
}

/* SplitMix64 (Steele, Lea and Flood 2014), of which two in a row are 64 bits. */
static uint32_t pattern(uint64_t key, uint64_t at)
{
	uint64_t x = key + at * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)(x >> 32);
}

static uint64_t key_of(const struct unwritten *u, uint32_t i)
{
	return (u->key * ARAX_MAX_RANGES + i) * 0xd1342543de82ef95ull;
}

static void draw(uint8_t *bytes, const struct arax_launch_range *r, uint64_t key)
{
	for (uint64_t at = 0; at < r->length * r->count; at += r->length)
		for (uint64_t k = at; k + UNIT <= at + r->length; k += UNIT) {
			uint32_t p = pattern(key, k);

			memcpy(bytes + k, &p, UNIT);
		}
}

/* What was there; NULL: it still is, and is not looked at. */
static uint8_t *fill(const struct run *run, uint32_t i, uint64_t key)
{
	const struct arax_launch_range *r = &run->ranges[i];
	const uint64_t bytes = r->length * r->count;
	/* Of both at once: behind the kernel there may be no memory, and the pattern has to go. */
	uint8_t *had = malloc(2 * bytes);

	if (had && !move(run, i, had, false)) {
		uint8_t *drawn = had + bytes;

		memcpy(drawn, had, bytes);
		draw(drawn, r, key);
		/* If a part of it has got there, and can't be put back, it is as good as filled. */
		if (!move(run, i, drawn, true) || move(run, i, had, true))
			return had;
	}
	free(had);
	return NULL;
}

bool unwritten_fill(struct run *run, struct unwritten *u)
{
	bool any = false;

	u->key++;
	for (uint32_t i = 0; i < run->node->d.nr_ranges; i++) {
		u->had[i] = is_apart(run->node, i) ? fill(run, i, key_of(u, i)) : NULL;
		any |= !!u->had[i];
	}
	return any;
}

/* The unit @k of a row that ends at @end, as it may itself. */
static bool is_drawn(const uint8_t *bytes, uint64_t end, uint64_t k, uint64_t key)
{
	uint32_t have, p = pattern(key, k);

	if (k + UNIT > end)
		return false;
	memcpy(&have, bytes + k, UNIT);
	return have == p;
}

/* One row; @had is NULL: they are only counted. */
static void go_through(uint8_t *bytes, const uint8_t *had, uint64_t at, uint64_t end, uint64_t key,
		       struct found *f)
{
	bool before = false, drawn = is_drawn(bytes, end, at, key), next;

	for (uint64_t k = at; k + UNIT <= end; k += UNIT, before = drawn, drawn = next) {
		next = is_drawn(bytes, end, k + UNIT, key);
		if (!drawn)
			continue;
		if (!had) {
			f->pairs += before || next;
			f->singles += !before && !next;
		} else if (before || next || f->singles >= SINGLES) {
			memcpy(bytes + k, had + k, UNIT);
			f->first = f->bytes ? f->first : k;
			f->bytes += UNIT;
		}
	}
}

static void complain(const struct run *run, uint32_t i, const struct found *f)
{
	static struct complaints said;
	const struct arax_launch_range *r = &run->ranges[i];
	uint64_t unsaid;

	if (!complaints_say_now(&said, run->node->d.uid, &unsaid))
		return;
	log_warn("kernel left out bytes of a range that it declares as out",
		 log_str("kernel", run->rt.kernel->sig.name), log_u64("range", i),
		 log_u64("context", run->node->d.context),
		 log_u64("offset", run->node->ranges[i].offset + f->first / r->length * r->stride +
				   f->first % r->length),
		 log_u64("bytes", f->bytes), log_u64("of", r->length * r->count),
		 log_u64("unsaid", unsaid),
		 log_str("remedy", "declare it inout in the library's manifest, or give the range as long as it is"));
}

/* What is unwritten there is put back. */
static int put_back(const struct run *run, uint32_t i, uint8_t *bytes, const uint8_t *had,
		    uint64_t key, struct found *f)
{
	const struct arax_launch_range *r = &run->ranges[i];
	int err = move(run, i, bytes, false);
	uint64_t at;

	*f = (struct found){ 0 };
	if (err)
		return err;
	for (at = 0; at < r->length * r->count; at += r->length)
		go_through(bytes, NULL, at, at + r->length, key, f);
	if (!f->pairs && f->singles < SINGLES)
		return 0;
	for (at = 0; at < r->length * r->count; at += r->length)
		go_through(bytes, had, at, at + r->length, key, f);
	return move(run, i, bytes, true);
}

static int look(struct run *run, struct unwritten *u, uint32_t i, int result)
{
	const struct arax_launch_range *r = &run->ranges[i];
	struct found f;
	int err;

	/* On a device with memory of its own a failed task's results count as nothing. */
	if (result && run->remote)
		return run_did_nothing(run, result) ? move(run, i, u->had[i], true) : 0;
	err = put_back(run, i, u->had[i] + r->length * r->count, u->had[i], key_of(u, i), &f);
	if (!err && !result && f.bytes)
		complain(run, i, &f);
	return err;
}

int unwritten_look(struct run *run, struct unwritten *u, int result)
{
	int err = 0, e;

	for (uint32_t i = 0; i < run->node->d.nr_ranges; i++) {
		if (!u->had[i])
			continue;
		e = look(run, u, i, result);
		err = err ? err : e;
		free(u->had[i]);
		u->had[i] = NULL;
	}
	if (!err)
		return result;
	/* Not even if it has not begun has it left all as it was. */
	run->rt.declined = false;
	run->rt.late = false;
	return err;
}
