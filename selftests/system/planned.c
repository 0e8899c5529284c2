// SPDX-License-Identifier: MIT
/*
 * A program that is alone on a quick device and slow ones with memory of their own: run.sh has araxd
 * simulate those, and looks at how many plans it says it has followed.
 */
#include "stack.h"

#define ROWS	8
#define COLUMNS	12
#define ROUNDS	8

/* Each task adds to its row, which is on whatever device it was on. */
TEST(all_of_it_is_done)
{
	struct stack s = stack_open(ARAX_QUEUE_DATAFLOW);
	struct arax_kernel add = stack_kernel(&s, "st_add");
	struct arax_buffer *rows[ROWS];
	uint32_t one = 1, i, k, round;

	for (i = 0; i < ROWS; i++)
		CHECK_EQ(arax_buffer_create(s.ax, 1 << 20, ARAX_BUFFER_EXPLICIT, &rows[i]), 0);
	for (round = 0; round < ROUNDS; round++) {
		for (k = 0; k < COLUMNS; k++)
			for (i = 0; i < ROWS; i++)
				CHECK_EQ(arax_launch(s.q, &add, arax_grid(1, 1, 1), ARAX_ARGS(one),
						     ARAX_RANGES(arax_inout(rows[i])), NULL), 0);
		CHECK_EQ(arax_queue_finish(s.q, arax_deadline(60 * SECOND)), 0);
		for (i = 0; i < ROWS; i++) {
			const uint32_t *x = arax_buffer_data(rows[i]);

			CHECK_EQ(arax_access_begin(s.q, arax_in(rows[i]),
						   arax_deadline(60 * SECOND)), 0);
			CHECK_EQ(x[0], (round + 1) * COLUMNS);
			CHECK_EQ(x[(1 << 18) - 1], (round + 1) * COLUMNS);
			CHECK_EQ(arax_access_end(s.q, arax_in(rows[i])), 0);
		}
	}
	stack_close(&s);
}
