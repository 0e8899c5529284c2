/* SPDX-License-Identifier: MIT */
/*
 * beside.h - how much is copied beside the tasks that have a lane
 *
 * What ahead.c brings and back.c takes back; `arax sim` keeps to the same.
 */
#ifndef ARAXD_DISPATCH_BESIDE_H
#define ARAXD_DISPATCH_BESIDE_H

/* With the thread at a time: it has the next one before the poller hears of the last one's end. */
#define AHEAD_OUT		2u
/* What who has a lane may have to wait for. */
#define AHEAD_PIECE_BYTES	(4ull << 20)
/* To wake a thread for less takes longer. */
#define AHEAD_WORTH_NS		20000u
/* After a look in vain, and twice as long after each of so many more. */
#define AHEAD_PAUSE_US		50u
#define AHEAD_DOUBLED		4u
/* Nor does it take more of the poller's time than that part. */
#define AHEAD_LOOK_PART		16u

/* Tasks of a device that have no lane any more, each with a place of its own (struct run). */
#define BACK_MOST		2u
/* To wake threads for less takes as long. */
#define BACK_WORTH_NS		50000u

/* Tasks that wait with what came for them: one for each lane, and one that comes meanwhile. */
#define AHEAD_MOST(lanes)	((lanes) + 1 < SCHED_NEXT ? (lanes) + 1 : SCHED_NEXT)

#endif /* ARAXD_DISPATCH_BESIDE_H */
