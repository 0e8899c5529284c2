// SPDX-License-Identifier: MIT
/* The time stamp counter's rate, learnt from CLOCK_MONOTONIC. */
#include <stdio.h>
#include <string.h>

#include "daemon/dispatch/ticks.h"

#define CALIBRATE_NS	4000000u

static bool tsc_usable(void)
{
	bool constant = false, nonstop = false;
	char line[4096];
	FILE *f;

#if !defined(__x86_64__) && !defined(__i386__)
	return false;
#endif
	f = fopen("/proc/cpuinfo", "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "flags", 5))
			continue;
		constant = strstr(line, " constant_tsc");
		nonstop = strstr(line, " nonstop_tsc");
		break;
	}
	fclose(f);
	return constant && nonstop;
}

/* A pair that no preemption came between: the closest of a few. */
static void sample(const struct ticks *t, uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;
	int i;

	for (i = 0; i < 5; i++) {
		uint64_t before = ticks_now(t), mid = monotonic_ns(), after = ticks_now(t);

		if (after - before >= best)
			continue;
		best = after - before;
		*ticks = before + best / 2;
		*ns = mid;
	}
}

void ticks_init(struct ticks *t)
{
	struct timespec pause = { .tv_nsec = CALIBRATE_NS };
	uint64_t ticks0 = 0, ns0 = 0, ticks1 = 0, ns1 = 0;

	memset(t, 0, sizeof(*t));
	t->tsc = tsc_usable();
	t->mult = 1ull << 32;
	t->per_us = 1000;
	if (t->tsc) {
		sample(t, &ticks0, &ns0);
		nanosleep(&pause, NULL);
		sample(t, &ticks1, &ns1);
		if (ticks1 <= ticks0 || ns1 <= ns0) {
			t->tsc = false;
		} else {
			t->mult = (uint64_t)(((unsigned __int128)(ns1 - ns0) << 32) /
					     (ticks1 - ticks0));
			t->per_us = (ticks1 - ticks0) * 1000 / (ns1 - ns0);
		}
	}
	sample(t, &t->anchor, &t->anchor_ns);
}

void ticks_anchor(struct ticks *t)
{
	uint64_t ticks = 0, ns = 0;

	sample(t, &ticks, &ns);
	/* Over a second the rate is known a thousand times better. */
	if (t->tsc && ns - t->anchor_ns > 1000000000u && ticks > t->anchor)
		t->mult = (uint64_t)(((unsigned __int128)(ns - t->anchor_ns) << 32) /
				     (ticks - t->anchor));
	/* Never back: what was read before must stay in the past. */
	if (ns < ticks_ns(t, ticks))
		ns = ticks_ns(t, ticks);
	t->anchor = ticks;
	t->anchor_ns = ns;
}
