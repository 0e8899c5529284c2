// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * How tenants wait, as the mediator tells it: sums, and moving averages as those of the
 * kernel's pressure stall information (kernel/sched/psi.c): every two seconds the share of them
 * that was waited is mixed in, by e^(-2/10), e^(-2/60) and e^(-2/300).  That is done when it is
 * told or asked for, for as many as have passed: nothing runs for tenants that do not wait.
 */
#include "core.h"

#define STEP_NS		2000000000ull
#define FACTOR_BITS	11	/* of the kernel's */
#define FACTOR_ONE	(1u << FACTOR_BITS)
#define SHARE_ONE	(1u << CORE_SHARE_BITS)

static const u32 factors[] = { 1677, 1981, 2034 };

/* Towards what comes, so that all of the time is all of it in the end. */
static u32 mix(u32 avg, u32 factor, u32 share)
{
	u64 sum = (u64)avg * factor + (u64)share * (FACTOR_ONE - factor);

	if (share >= avg)
		sum += FACTOR_ONE - 1;
	return (u32)(sum >> FACTOR_BITS);
}

/* @n steps without any. */
static u32 fade(u32 avg, u32 factor, u64 n)
{
	u64 power = factor;

	for (; n && avg; n >>= 1) {
		if (n & 1)
			avg = (u32)(avg * power >> FACTOR_BITS);
		power = power * power >> FACTOR_BITS;
	}
	return avg;
}

/* One step, which @took so long: at most all of it was waited, what is more comes later. */
static void take_step(struct core_pressure *p, u64 took)
{
	u64 ns = p->waiting_ns - p->taken_ns;
	u32 i, share;

	if (ns > took)
		ns = took;
	share = (u32)core_div(ns << CORE_SHARE_BITS, took);
	for (i = 0; i < ARRAY_SIZE(factors); i++)
		p->avg[i] = mix(p->avg[i], factors[i], share);
	p->taken_ns += ns;
}

/* @n steps at once: what is left was waited in the first of them. */
static void take_missed(struct core_pressure *p, u64 n)
{
	u64 full = core_div(p->waiting_ns - p->taken_ns, STEP_NS);
	u32 i;

	if (full > n)
		full = n;
	for (i = 0; i < ARRAY_SIZE(factors); i++)
		p->avg[i] = SHARE_ONE - fade(SHARE_ONE - p->avg[i], factors[i], full);
	p->taken_ns += full * STEP_NS;
	n -= full;
	if (n && p->waiting_ns != p->taken_ns) {
		take_step(p, STEP_NS);
		n--;
	}
	for (i = 0; i < ARRAY_SIZE(factors); i++)
		p->avg[i] = fade(p->avg[i], factors[i], n);
}

void core_pressure_at(struct core_pressure *p, u64 now)
{
	u64 missed;

	if (!p->next_at || now < p->next_at)
		return;
	missed = core_div(now - p->next_at, STEP_NS);
	if (missed) {
		take_step(p, p->next_at - p->taken_at);
		take_missed(p, missed);
		p->taken_at = p->next_at + missed * STEP_NS;
		p->next_at = p->taken_at + STEP_NS;
		return;
	}
	take_step(p, now - p->taken_at);
	p->taken_at = now;
	p->next_at += STEP_NS;
	/* Who looks late is not to have a moment stand for a whole step. */
	if (p->next_at - now < STEP_NS / 2)
		p->next_at += STEP_NS;
}

void core_pressure_add(struct core_pressure *p, u64 ns, u64 now)
{
	u64 began = ns < now ? now - ns : 0;

	if (!p->next_at) {
		p->taken_at = began;
		p->next_at = began + STEP_NS;
	}
	/* It was as it was before until this began. */
	core_pressure_at(p, began);
	p->waiting_ns += ns;
	core_pressure_at(p, now);
}

/* Returns false if there is no such tenant. */
static bool tell_one(struct core *core, const struct arax_tenant_news *n, u64 now)
{
	struct core_tenant *t;
	bool found;

	core_spin_lock(&core->dispatch);
	t = core_tenant_from(core->tenants, n->id);
	found = t && t->id == n->id;
	if (found) {
		t->pressure.nr_periods += n->nr_periods;
		t->pressure.nr_throttled += n->nr_throttled;
		t->pressure.throttled_ns += n->throttled_ns;
		core_pressure_add(&t->pressure, n->waiting_ns, now);
	}
	core_spin_unlock(&core->dispatch);
	return found;
}

int core_tenants_tell(struct core *core, struct arax_tenants_tell *a)
{
	u64 now = core_now_ns();
	u32 i;

	if (a->flags)
		return -EOPNOTSUPP;
	if (a->count > ARAX_TELL_MAX)
		return -EINVAL;
	a->unknown = 0;
	core_spin_lock(&core->dispatch);
	core->tenants_told = true;
	core_spin_unlock(&core->dispatch);
	for (i = 0; i < a->count; i++)
		a->unknown += !tell_one(core, &a->news[i], now);
	return 0;
}
