// SPDX-License-Identifier: MIT
/*
 * The Rodinia programs' machine on Arax sleeps until all of its tasks have ended, and asks for
 * none of them before.  In place of libarax there is a queue whose tasks end when what somebody
 * waits for needs it, and not before.
 */
#include <errno.h>

#include "examples/rodinia/arax.h"
#include "selftests/unit/be_test.h"

/**
 * struct model - the queue
 * @running:	tasks that have not ended
 * @behind:	how many of them must, for the timeline to have its value
 * @asked:	how often somebody asked for a task while there were some
 */
static struct model {
	unsigned int running, behind, asked;
	uint64_t value;
} q;

int arax_open(struct arax **ax, const struct arax_options *options)
{
	*ax = (struct arax *)&q;
	return 0;
}

int arax_close(struct arax *ax)
{
	return 0;
}

int arax_queue_create(struct arax *ax, uint32_t flags, int priority, struct arax_queue **queue)
{
	ck_assert_uint_eq(flags, ARAX_QUEUE_DATAFLOW);
	*queue = (struct arax_queue *)&q;
	return 0;
}

int arax_timeline_create(struct arax *ax, uint64_t value, struct arax_timeline **timeline)
{
	*timeline = (struct arax_timeline *)&q;
	return 0;
}

int arax_kernel_find(struct arax *ax, const char *name, uint64_t deadline,
		     struct arax_kernel *kernel)
{
	snprintf(kernel->name, sizeof(kernel->name), "%s", name);
	return 0;
}

int arax_buffer_create(struct arax *ax, uint64_t bytes, uint32_t flags, struct arax_buffer **buffer)
{
	return -ENOMEM;
}

void arax_buffer_destroy(struct arax_buffer *buffer)
{
}

int arax_launch(struct arax_queue *queue, const struct arax_kernel *kernel, struct arax_grid grid,
		const void *args, size_t arg_len, const struct arax_range *ranges, size_t nr_ranges,
		struct arax_event *event)
{
	q.running++;
	return 0;
}

/* A marker of no ranges is behind what ran before if it is a barrier, else behind nothing. */
int arax_submit(struct arax_queue *queue, const struct arax_desc *tasks, size_t count,
		uint32_t flags)
{
	ck_assert_uint_eq(count, 1);
	ck_assert_uint_eq(tasks->opcode, ARAX_OP_MARKER);
	q.behind = tasks->flags & ARAX_TASK_BARRIER ? q.running : 0;
	q.value = tasks->signal_value;
	return 1;
}

int arax_timeline_wait_all(const struct arax_point *points, size_t count, uint64_t deadline)
{
	ck_assert_uint_eq(points->value, q.value);
	q.running -= q.behind;
	q.behind = 0;
	return 0;
}

int arax_queue_finish(struct arax_queue *queue, uint64_t deadline)
{
	q.asked += q.running;
	q.running = 0;
	return 0;
}

int arax_wait(struct arax_event *event, uint64_t deadline)
{
	q.asked += !!q.running;
	q.running -= !!q.running;
	return 0;
}

uint64_t arax_deadline(uint64_t ns)
{
	return ns;
}

const char *arax_error_text(void)
{
	return "";
}

const char *arax_strerror(int error)
{
	return "";
}

/* Twice, as a program does that looks at results in between; with and without a report. */
START_TEST(test_sleeps_till_end)
{
	const struct arax_grid grid = { { 1, 1, 1 }, { 1, 1, 1 } };
	struct ro_arax a;
	int turn, i;

	q = (struct model){ 0 };
	ck_assert_int_eq(ro_arax_open(&a, NULL, _i), 0);
	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < 300; i++)
			ck_assert_int_eq(a.m.ops->launch(&a.m, RO_NW, &grid, NULL, 0, NULL, 0), 0);
		ck_assert_int_eq(a.m.ops->wait(&a.m), 0);
		ck_assert_uint_eq(q.asked, 0);
		ck_assert_uint_eq(q.running, 0);
	}
	ro_arax_close(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("be_rodinia_wait");
	TCase *t = tcase_create("wait");

	tcase_add_loop_test(t, test_sleeps_till_end, 0, 2);
	suite_add_tcase(s, t);
	return be_main(s);
}
