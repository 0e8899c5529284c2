// SPDX-License-Identifier: MIT
/* How long to wait awake, learnt from how waits ended.  All of it is hints, so relaxed. */
#include "awake.h"
#include "internal.h"

#define SPIN_MAX_NS		50000u
/* A wait that a longer spin might have ended, waking-up included. */
#define SPIN_SHORT_NS		120000u
/* More says nothing about waking up: the task itself took long. */
#define WOKE_MAX_NS		1000000u
#define WOKE_BLOCK		16u	/* waits of a kind in a row, to try it */
/* Waits from one such trial to the next: where waiting awake loses it costs some each time. */
#define WOKE_CYCLE_FIRST	256u
#define WOKE_CYCLE_LAST		4096u
/* A sleep shorter than this was ended on the same CPU; a longer one on another. */
#define SLEEP_SAME_CPU_NS	15000u
#define SLEEP_OTHER_CPU_NS	25000u
#define HOLD_FIRST		16u
#define HOLD_MAX		1024u
#define SPIN_TRY_EVERY		16u
/* Waits asleep from one that is spent awake to its end to the next one, see probe_due(). */
#define PROBE_LAST		1024u
#define PROBE_MAX_NS		1000000u	/* a mean wait, for which it may pay */
#define PROBE_PAYS		16u	/* waits awake before the next sleep */

void spin_adapt(struct arax *ax, bool worth)
{
	uint32_t ns = load_relaxed(&ax->spin_ns);

	if (!worth)
		ns = ns < 2000 ? 0 : ns / 2;
	else if (ns < SPIN_FIRST_NS)
		ns = SPIN_FIRST_NS;
	else
		ns = ns > SPIN_MAX_NS / 2 ? SPIN_MAX_NS : ns * 2;
	store_relaxed(&ax->spin_ns, ns);
}

/*
 * Who had to wake the peer had better sleep: the peer may need this very CPU.  But
 * if it has another one, both would wake each other for ever, at a hundred times
 * the price of a task.  So try, now and then, and go on while that is worth it.
 */
static bool try_though_woken(struct arax *ax)
{
	uint32_t skips = load_relaxed(&ax->woke_skips);

	if (load_relaxed(&ax->woke_worth))
		return true;
	store_relaxed(&ax->woke_skips, skips + 1);
	return skips % SPIN_TRY_EVERY == SPIN_TRY_EVERY - 1;
}

/*
 * After a long gap both sides sleep again before the next task, so only this wait
 * counts.  Asleep at once leaves the peer this warm CPU, awake makes it take another,
 * which may be nearer or further.  So both are tried, some waits in a row each, since
 * the peer comes back to where it ran last; then what was quicker, for a long while.
 */
static bool woken_spins(struct arax *ax)
{
	uint32_t turn = load_relaxed(&ax->woke_turns), cycle = load_relaxed(&ax->woke_cycle);

	if (turn >= cycle) {
		turn = 0;
		store_relaxed(&ax->woke_cycle, cycle < WOKE_CYCLE_FIRST ? WOKE_CYCLE_FIRST :
				cycle < WOKE_CYCLE_LAST ? cycle * 2 : WOKE_CYCLE_LAST);
	}
	store_relaxed(&ax->woke_turns, turn + 1);
	if (turn < 2 * WOKE_BLOCK)
		return turn < WOKE_BLOCK;
	return load_relaxed(&ax->woke_ns[1]) < load_relaxed(&ax->woke_ns[0]);
}

/* Does the wait that ends now say how quick its kind is? */
static bool woken_counts(struct arax *ax)
{
	/* The first ones of a block find the peer where the other kind has left it. */
	return load_relaxed(&ax->woke_turns) % WOKE_BLOCK > WOKE_BLOCK / 2;
}

uint32_t woken_begin(struct arax *ax, struct woken *w)
{
	uint64_t gap;

	/* It goes on as it began: one wait, however often it looks. */
	if (w->since)
		return w->spins ? SPIN_MAX_NS : 0;
	w->since = now_ns();
	gap = w->since - load_relaxed(&ax->woke_end);
	w->learns = gap > SPIN_SHORT_NS;
	w->spins = w->learns ? woken_spins(ax) : try_though_woken(ax);
	return w->spins ? SPIN_MAX_NS : 0;
}

void woken_end(struct arax *ax, const struct woken *w)
{
	uint64_t now = now_ns(), ns = now - w->since;
	uint32_t *mean = &ax->woke_ns[w->spins], old = load_relaxed(mean);

	store_relaxed(&ax->woke_end, now);
	if (!w->learns || !woken_counts(ax))
		return;
	ns = ns < WOKE_MAX_NS ? ns : WOKE_MAX_NS;
	store_relaxed(mean, (uint32_t)(old ? old - old / 4 + ns / 4 : ns));
}

/*
 * Where waking up takes longer than a spin, as in an emulated machine, who sleeps once
 * does so for ever: the peer is asleep as well by the time we are back.  So of the waits
 * that are spent asleep one is spent awake to its end, now and then; less and less often
 * where the next ones are no quicker.
 */
bool probe_due(struct arax *ax)
{
	uint32_t every = load_relaxed(&ax->probe_every), left = load_relaxed(&ax->probe_left);

	if (left) {
		store_relaxed(&ax->probe_left, left - 1);
		return false;
	}
	if (load_relaxed(&ax->slept_ns) > PROBE_MAX_NS)
		return false;
	store_relaxed(&ax->probe_left, every);
	store_relaxed(&ax->probe_every, every < PROBE_LAST ? every * 2 : PROBE_LAST);
	return true;
}

/* The peer is awake now, and so are we: see whether it stays so. */
void probe_hit(struct arax *ax)
{
	if (load_relaxed(&ax->spin_ns) < SPIN_FIRST_NS)
		store_relaxed(&ax->spin_ns, SPIN_FIRST_NS);
}

static void learn_sleep(struct arax *ax, uint64_t waited)
{
	uint32_t mean = load_relaxed(&ax->slept_ns);

	waited = waited < 2 * PROBE_MAX_NS ? waited : 2 * PROBE_MAX_NS;
	store_relaxed(&ax->slept_ns, (uint32_t)(mean ? mean - mean / 4 + waited / 4 : waited));
}

/* The first sleep after many waits awake: it may have been by accident. */
static bool was_awake(struct arax *ax)
{
	uint32_t awake = load_relaxed(&ax->awake), row = awake - load_relaxed(&ax->awake_before);

	store_relaxed(&ax->awake_before, awake);
	return row > PROBE_PAYS;
}

/*
 * Learn from a sleep.  If spinning was in vain and then the sleep was short, the
 * peer waited for this very CPU: it looks awake, but was preempted, and every spin
 * keeps it from its work.  Hold still then, until sleeps say that it has moved.
 */
void sleep_adapt(struct arax *ax, enum spin spun, uint64_t slept, uint64_t waited)
{
	uint32_t hold = load_relaxed(&ax->hold), length = load_relaxed(&ax->hold_length);

	learn_sleep(ax, waited);
	if (spun == SPIN_MISS && slept < SLEEP_SAME_CPU_NS) {
		length = !length ? HOLD_FIRST : length < HOLD_MAX ? length * 2 : HOLD_MAX;
		store_relaxed(&ax->hold_length, length);
		store_relaxed(&ax->hold, length);
		return;
	}
	if (hold) {
		store_relaxed(&ax->hold, slept > SLEEP_OTHER_CPU_NS ? 0 : hold - 1);
		return;
	}
	spin_adapt(ax, waited < SPIN_SHORT_NS);
	if (was_awake(ax)) {
		store_relaxed(&ax->probe_every, PROBE_FIRST);
		/* The peer may sleep by now, and that is worth trying for once. */
		if (waited >= SPIN_SHORT_NS) {
			store_relaxed(&ax->spin_ns, 0);
			store_relaxed(&ax->probe_left, 0);
		}
	}
}
