/* SPDX-License-Identifier: MIT */
/*
 * channel.h - a call to another process, and its answer, in shared memory
 *
 * One thread calls at a time, one thread of the helper answers.  Both look for a while before
 * they sleep: most launches are over by then, and a wake-up costs more than they do.
 */
#ifndef ARAX_DAEMON_BACKENDS_APART_CHANNEL_H
#define ARAX_DAEMON_BACKENDS_APART_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backends/apart/proto.h"

/* A side's word: the other one waits until it has changed. */
struct slot_word {
	uint32_t value;		/* (futex) */
	uint32_t sleeps;	/* somebody waits for it in the kernel */
} __attribute__((aligned(64)));

struct slot {
	struct slot_word request, reply;
	struct apart_call call __attribute__((aligned(64)));
	uint8_t stage[APART_STAGE] __attribute__((aligned(4096)));
};

/* A descriptor of new memory, mapped at *@slot; or a negative errno. */
int slot_make(struct slot **slot);
/* The other side of it.  NULL: it can't be mapped, or is none. */
struct slot *slot_map(int fd);
void slot_unmap(struct slot *s);

/*
 * The caller: @s->call goes, and its answer is there.  @turn: of the calls of this slot, at first
 * 0; its own, where the other side can't write.  -ENODEV: that has ended.
 */
int slot_call(struct slot *s, uint32_t *turn);
/* Likewise until @until, 0: any time.  -ETIMEDOUT: then slot_go_on() waits on for the answer. */
int slot_call_until(struct slot *s, uint32_t *turn, uint64_t until);
int slot_go_on(struct slot *s, uint32_t turn, uint64_t until);
/* That: by somebody who has seen it.  Who is in slot_call(), or comes later, returns. */
void slot_end(struct slot *s);

/* The other side: until there is a call; *@seen: what it was last, at first 0. */
void slot_await(struct slot *s, uint32_t *seen);
void slot_answer(struct slot *s, uint32_t seen);

#endif /* ARAX_DAEMON_BACKENDS_APART_CHANNEL_H */
