// SPDX-License-Identifier: MIT
#include "daemon/dispatch/poller.h"
#include "daemon/log.h"
#include "daemon/observe/stats.h"

#define READ(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)

void stats_log(const struct poller *p)
{
	log_notice("statistics", log_u64("tasks", READ(p->stats.tasks)),
		   log_u64("inline", READ(p->stats.inline_runs)),
		   log_u64("late", READ(p->stats.late)),
		   log_u64("handed", READ(p->stats.handed)),
		   log_u64("stolen", READ(p->stats.stolen)),
		   log_u64("sleeps", READ(p->stats.sleeps)),
		   log_u64("moves", READ(p->stats.moves)),
		   log_u64("errors", READ(p->stats.errors)));
}
