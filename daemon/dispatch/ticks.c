// SPDX-License-Identifier: MIT
/* The time stamp counter's rate, learnt from CLOCK_MONOTONIC. */
#include <stdio.h>
#include <string.h>

#include "daemon/dispatch/ticks.h"

#define CALIBRATE_NS	4000000u
#define LOOKS		5
#define TRIES		50		/* calibrations, if each was preempted */
#define WIDTH_US	10		/* of a reading that nothing long came between */
#define WIDE_NS		100000000u	/* after which even another one says something */
#define FIRST_LEARN_NS	40000000u	/* ten times what it was calibrated by */
#define LEARN_NS	1000000000u
#define BASE_NS		8000000000u
/* What it is ahead is lost in this time, but at half speed at most. */
#define LOSE_NS		1000000u
#define JUMP_NS		10000000u	/* more, and more than a rate can be off by, is no drift */
#define JUMP_PART	64

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

/* A pair that no preemption came between: the closest of a few.  Returns how far apart. */
static uint64_t sample(const struct ticks *t, uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;
	int i;

	for (i = 0; i < LOOKS; i++) {
		uint64_t before = ticks_now(t), mid = monotonic_ns(), after = ticks_now(t);

		if (after - before >= best)
			continue;
		best = after - before;
		*ticks = before + best / 2;
		*ns = mid;
	}
	return best;
}

static uint64_t rate(uint64_t ns, uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

/* False: something came between, each time. */
static bool calibrate(struct ticks *t)
{
	struct timespec pause = { .tv_nsec = CALIBRATE_NS };
	uint64_t ticks0 = 0, ns0 = 0, ticks1 = 0, ns1 = 0, width;
	int i;

	for (i = 0; i < TRIES; i++) {
		width = sample(t, &ticks0, &ns0);
		nanosleep(&pause, NULL);
		width += sample(t, &ticks1, &ns1);
		if (ticks1 <= ticks0 || ns1 <= ns0)
			return false;
		t->mult = rate(ns1 - ns0, ticks1 - ticks0);
		t->per_us = (ticks1 - ticks0) * 1000 / (ns1 - ns0);
		if (t->per_us && width <= 2 * WIDTH_US * t->per_us) {
			t->base = ticks0;
			t->base_ns = ns0;
			return true;
		}
	}
	return false;
}

void ticks_init(struct ticks *t)
{
	memset(t, 0, sizeof(*t));
	t->tsc = tsc_usable();
	if (t->tsc && !calibrate(t))
		t->tsc = false;
	if (!t->tsc) {
		t->mult = 1ull << 32;
		t->per_us = 1000;
	}
	t->learn_ns = FIRST_LEARN_NS;
	sample(t, &t->anchor, &t->anchor_ns);
	t->read_ns = t->anchor_ns;
}

/* The longer, the better it is known; and not for ever, as the system's clock is slewed. */
static void learn(struct ticks *t, uint64_t ticks, uint64_t ns)
{
	if (!t->base) {
		t->base = ticks;
		t->base_ns = ns;
	}
	if (ticks <= t->base || ns <= t->base_ns || ns - t->base_ns < t->learn_ns)
		return;
	t->mult = rate(ns - t->base_ns, ticks - t->base);
	if (ns - t->base_ns < BASE_NS)
		return;
	t->base = ticks;
	t->base_ns = ns;
	t->learn_ns = LEARN_NS;
}

/* The machine slept, or was another one: one of the two clocks went on alone. */
static bool jumped(const struct ticks *t, uint64_t ticks, uint64_t ns)
{
	uint64_t counted, passed = ns - t->read_ns, off;

	if (ticks < t->anchor || ns < t->read_ns)
		return true;
	counted = ticks_to_ns(t, ticks - t->anchor);
	off = counted > passed ? counted - passed : passed - counted;
	return off > JUMP_NS && off > counted / JUMP_PART;
}

/* What it is ahead from here on goes in the next LOSE_NS, but for more than half of that. */
static void set_anchor(struct ticks *t, uint64_t ticks, uint64_t ns, uint64_t said)
{
	uint64_t ahead = said > ns ? said - ns : 0;

	t->anchor = ticks;
	t->anchor_ns = ns + ahead;
	t->read_ns = ns;
	t->lose = 0;
	t->lost_ns = 0;
	if (!ahead)
		return;
	if (ahead > LOSE_NS / 2)
		ahead = LOSE_NS / 2;
	t->steer = t->mult - (uint64_t)((unsigned __int128)t->mult * ahead / LOSE_NS);
	t->lose = (uint64_t)(((unsigned __int128)LOSE_NS << 32) / t->mult);
	t->lost_ns = (uint64_t)(((unsigned __int128)t->lose * t->steer) >> 32);
}

void ticks_steer(struct ticks *t, uint64_t ticks, uint64_t ns, uint64_t width)
{
	bool wide = width > WIDTH_US * t->per_us;
	uint64_t said = ticks_ns(t, ticks);

	if (jumped(t, ticks, ns)) {
		t->base = 0;
		t->learn_ns = FIRST_LEARN_NS;
		said = ns;
	} else if (wide && said - t->anchor_ns < WIDE_NS) {
		/* It says less than is known already. */
		return;
	}
	if (t->tsc && !wide)
		learn(t, ticks, ns);
	/* Never back otherwise: what was read before must stay in the past. */
	set_anchor(t, ticks, ns, said);
}

void ticks_anchor(struct ticks *t)
{
	uint64_t ticks = 0, ns = 0, width = sample(t, &ticks, &ns);

	ticks_steer(t, ticks, ns, width);
}
