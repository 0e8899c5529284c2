// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <stdio.h>

#include "daemon/backends/device.h"
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
			   log_u64("copied_peer", s.copied_peer),
			   log_u64("evictions", s.evictions), log_u64("behind", s.behind),
			   log_u64("waits", s.waits));
	}
}

static const char *gauge(char text[24], const struct arax_backend_gauges *g, uint32_t which,
			 uint64_t value)
{
	snprintf(text, 24, "%" PRIu64, value);
	return g->known & which ? text : "unknown";
}

void stats_gauges(uint32_t device, const struct arax_backend_gauges *g, const char *why)
{
	char text[4][24];

	if (!why)
		log_notice("device gauges", log_u64("device", device),
			   log_str("busy_percent", gauge(text[0], g, ARAX_GAUGE_BUSY, g->busy)),
			   log_str("memory_busy_percent",
				   gauge(text[1], g, ARAX_GAUGE_MEMORY, g->memory_busy)),
			   log_str("power_mw", gauge(text[2], g, ARAX_GAUGE_POWER, g->power_mw)),
			   log_str("memory_taken",
				   gauge(text[3], g, ARAX_GAUGE_TAKEN, g->memory_taken)));
	else if (why[0])
		log_notice("device gauges", log_u64("device", device), log_str("unknown", why));
}

void stats_log(struct poller *p)
{
	log_notice("statistics", log_u64("tasks", READ(p->stats.tasks)),
		   log_u64("inline", READ(p->stats.inline_runs)),
		   log_u64("late", READ(p->stats.late)),
		   log_u64("made_way", READ(p->stats.aside)),
		   log_u64("followed", READ(p->stats.followed)),
		   log_u64("ahead", READ(p->stats.ahead)),
		   log_u64("left", READ(p->stats.left)),
		   log_u64("stayed", READ(p->stats.stayed)),
		   log_u64("lone", READ(p->stats.lone)),
		   log_u64("plans", sched_plans(p->sched)),
		   log_u64("handed", READ(p->stats.handed)),
		   log_u64("stolen", READ(p->stats.stolen)),
		   log_u64("sleeps", READ(p->stats.sleeps)),
		   log_u64("moves", READ(p->stats.moves)),
		   log_u64("errors", READ(p->stats.errors)));
	memories_log(p);
	figures_log(p);
}
