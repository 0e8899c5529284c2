// SPDX-License-Identifier: GPL-2.0
/*
 * Sleeping until an absolute time.  The wait_woken() pattern: being woken is
 * kept in the entry's flags, so the condition is looked at in TASK_RUNNING and
 * may take locks or free memory.
 */
#include <linux/hrtimer.h>
#include <linux/sched/signal.h>

#include "module.h"

void arax_sleep_begin(struct arax_sleep *s, struct wait_queue_head *queue, u64 deadline_ns)
{
	s->queue = queue;
	s->deadline = NULL;
	s->err = 0;
	if (deadline_ns < KTIME_MAX) {
		s->expires = ns_to_ktime(deadline_ns);
		s->deadline = &s->expires;
	}
	init_waitqueue_func_entry(&s->entry, woken_wake_function);
	s->entry.private = current;
	s->entry.flags = 0;
	add_wait_queue(queue, &s->entry);
	/*
	 * The waiter now makes itself known (core_client.sleepers, waiters, need_wakeup)
	 * and issues its own full barrier; this one is not relied upon.
	 */
}

void arax_sleep(struct arax_sleep *s)
{
	int ret = -EINTR;

	/*
	 * The full barrier in set_current_state() pairs with the one in
	 * woken_wake_function(): either we see WQ_FLAG_WOKEN, or it sees a
	 * sleeper and wakes it.
	 */
	set_current_state(TASK_INTERRUPTIBLE);
	if (!(READ_ONCE(s->entry.flags) & WQ_FLAG_WOKEN))
		ret = schedule_hrtimeout(s->deadline, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
	/*
	 * Clears the flag before the condition is looked at; pairs with the
	 * barrier before woken_wake_function() sets it.
	 */
	smp_store_mb(s->entry.flags, s->entry.flags & ~WQ_FLAG_WOKEN);
	if (!ret)
		s->err = -ETIMEDOUT;
	else if (signal_pending(current))
		s->err = -EINTR;
}

void arax_sleep_end(struct arax_sleep *s)
{
	remove_wait_queue(s->queue, &s->entry);
}
