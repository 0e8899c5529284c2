// SPDX-License-Identifier: MIT
#include "daemon/dispatch/poller.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"
#include "daemon/observe/stats.h"

#define READ(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)

/* What went through the memory of devices that have their own. */
static void memories_log(const struct poller *p)
{
	struct memory_stats s;
	uint32_t i;

	for (i = 0; p->memory && i < p->nr_devs; i++) {
		if (!memory_has_device(p->memory, i))
			continue;
		memory_query(p->memory, i, &s);
		log_notice("device memory", log_u64("device", i), log_u64("bytes", s.bytes),
			   log_u64("used", s.used), log_u64("extents", s.extents),
			   log_u64("copied_in", s.copied_in), log_u64("copied_out", s.copied_out),
			   log_u64("evictions", s.evictions), log_u64("waits", s.waits));
	}
}

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
	memories_log(p);
}
