/* SPDX-License-Identifier: MIT */
/*
 * line.h - whose launch a device runs next, if it runs one at a time
 *
 * Each launch that comes is a turn of its program, in the order in which they come; of those of the
 * program that wait the one that is due first has it.  `arax sim` has the same rule
 * (daemon/sim/launch.c).
 */
#ifndef ARAX_DAEMON_BACKENDS_LINE_H
#define ARAX_DAEMON_BACKENDS_LINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct line_place;

/**
 * struct line - those that wait
 * @first:	in the order of their turns
 * @taken:	one runs
 * @free_at:	when the last one was, or is to be, over
 */
struct line {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct line_place *first;
	bool taken;
	uint64_t free_at;
};

void line_init(struct line *l);
void line_destroy(struct line *l);
/*
 * Waits for the caller's turn, who came at @now_ns: when it begins.  That may be before now: waking up
 * takes no part of the device's time.
 */
uint64_t line_enter(struct line *l, uint32_t program, uint64_t due_ns, uint64_t now_ns);
/* It was over at @end_ns, or is. */
void line_leave(struct line *l, uint64_t end_ns);

#endif /* ARAX_DAEMON_BACKENDS_LINE_H */
