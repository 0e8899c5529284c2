/* SPDX-License-Identifier: MIT */
/*
 * memory_fake.h - a device whose memory is the heap's, for the manager's tests
 *
 * Copies are copies, and fresh memory is full of what nobody may ever see.
 */
#ifndef SELFTESTS_UNIT_MEMORY_FAKE_H
#define SELFTESTS_UNIT_MEMORY_FAKE_H

#include <check.h>
#include <stdint.h>

#include "daemon/memory/memory.h"

#define FAKE_GARBAGE 0xa5

/**
 * struct fake_device - one of them
 * @pass_in:	so many copies in are not counted for @fail_in
 * @fail_in, @fail_out: the next so many copies return -EIO
 * @dead:	copies return -ENODEV
 * @fail_alloc: the next so many allocations return -ENOMEM, as if memory had gaps
 * @most:	and those beyond so many bytes at once; 0: there is no end
 * @slow_free:	atomic: bytes are freed only when it is false again
 * @frees:	atomic: how many are being freed
 * @allocations: not freed
 * @ever:	allocations, freed or not
 * @largest:	bytes allocated at once, ever
 * @host:	what the latest allocation is for
 * @registered:	buffers registered now
 * @asked:	times that it was asked to
 * @fail_register: the next so many are refused
 * @fail_peer:	the next so many copies from other devices return -EIO
 * @strange:	all of them return -EOPNOTSUPP
 * @peer_copies: that it was asked for
 * @lent, @lent_most: copies from it to others, at once
 * @lends:	and ever
 * @meets:	of copies to such ones the second doesn't end before the third has begun, unless
 *		that takes some seconds
 */
struct fake_device {
	int pass_in, fail_in, fail_out, fail_alloc;
	uint64_t most;
	bool slow_free;
	int frees;
	uint64_t allocations, ever;
	uint64_t bytes, largest;
	const void *host;
	int registered, asked, fail_register;
	int fail_peer, strange, peer_copies;
	int lent, lent_most, lends;
	bool meets;
	bool dead;
};

/* The second one's copy from each other. */
extern const struct memory_ops fake_ops, fake_peer_ops;

/**
 * struct fake_pair - a manager with two of them, each with room for 64 MiB
 * @host, @buffer: a lazy one, at first full of zeros
 */
struct fake_pair {
	struct memory *m;
	struct fake_device device[2];
	uint8_t *host;
	struct memory_buffer *buffer;
};

extern struct fake_pair pair;

void pair_start(uint64_t bytes);
void pair_finish(void);
struct memory_range pair_range(uint32_t access, uint64_t offset, uint64_t length, uint32_t stride,
			       uint32_t count);

/* Where it does not matter who pays. */
static const struct memory_owner nobody __attribute__((unused)) = { 1, 1 };

/* memory_coherence.c */
TCase *coherence_case(void);
/* memory_ahead.c */
TCase *ahead_case(void);
/* memory_behind.c */
TCase *behind_case(void);
/* memory_upcoming.c */
TCase *upcoming_case(void);
/* memory_room.c */
TCase *room_case(void);
/* memory_pieces.c */
TCase *pieces_case(void);
TCase *rows_case(void);
/* memory_until.c */
TCase *until_case(void);
/* memory_lost.c */
TCase *lost_case(void);
/* memory_anew.c */
TCase *anew_case(void);

#endif /* SELFTESTS_UNIT_MEMORY_FAKE_H */
