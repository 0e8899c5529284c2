// SPDX-License-Identifier: MIT
/*
 * spare.c - what a device takes that all of the next tasks would rather not have
 *
 * The tasks whose turn it is wait for a quicker device, and are right to: they are next there.
 * Those behind them are not.  A task that has to wait for two hundred others on a device that
 * takes 1 ms for each is done earlier by one that stands idle and takes 100 ms.  So what waits
 * is held against what stands idle as if each task had been given a device when it became
 * ready, the one that would finish it earliest behind what was given there before (the rule
 * of HEFT, and of StarPU's dmda).  Of the tasks that would not be later, the device takes the
 * kind for which it is least behind the quicker ones (as HeteroPrio does: Agullo, Beaumont,
 * Eyraud-Dubois, Kumar, Are static schedules so bad?, IPDPS 2016), and of that kind the one whose
 * turn would come last.
 *
 * What is ready is not all that will come before the last of them.  While a program has much
 * more submitted than is ready, a task may be SPARE_LATE times as long until it ends, if that is
 * no more than the quicker devices need for half of what is not ready yet.  Not so if it has a
 * deadline.
 *
 * A device that is hardly slower than those at work is left idle for where the data is and not
 * for its speed.  That has been weighed, so it takes nothing.
 */
#include "daemon/sched/policy.h"

/* Waiting tasks that are looked at, and kinds of them. */
#define LOOK	256u
#define KINDS	16u

/* So much slower a device is at least that takes such a task. */
#define SLOWER	2

/**
 * struct kind - tasks that take equally long
 * @each_ns:	in which the devices that are at work would get through one more
 * @busy_ns:	that one takes on the quickest of these
 * @idle_ns:	that one takes on the quickest idle device; UINT64_MAX: on none
 * @last:	that would have its turn last
 */
struct kind {
	uint64_t kind;
	double each_ns;
	uint64_t busy_ns, idle_ns;
	struct graph_node *last;
};

struct look {
	struct kind kinds[KINDS];
	uint32_t nr;
	const struct kind *of[LOOK];	/* each task's; NULL: it is none of these */
};

static uint64_t known_ns(struct sched *s, struct graph_node *n, uint32_t device)
{
	uint64_t kernel = sched_kernel_key(n), work = sched_work(n);
	struct sched_estimate e = sched_estimate(s, kernel, device, work);
	struct sched_forecast f;

	if (e.runs >= SCHED_MIN_RUNS)
		return e.ns;
	f = sched_forecast(s, kernel, device, work);
	return f.confidence >= SCHED_CONFIDENT ? f.ns : 0;
}

static void weigh_kind(struct sched *s, struct kind *k, struct graph_node *n, uint64_t now_ns)
{
	double rate = 0;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];
		uint64_t ns = can_run(s, n, i) ? known_ns(s, n, i) : 0;

		if (!ns)
			continue;
		if (d->busy) {
			rate += (double)d->lanes / (double)ns;
			k->busy_ns = ns < k->busy_ns ? ns : k->busy_ns;
		}
		if (has_idle_lane(d) && !stays_until(d, switch_ns(s, n, i), now_ns))
			k->idle_ns = ns < k->idle_ns ? ns : k->idle_ns;
	}
	k->each_ns = rate > 0 ? 1 / rate : 0;
}

static bool turn_after(const struct graph_node *a, const struct graph_node *b)
{
	return a->sched.due != b->sched.due ? a->sched.due > b->sched.due : a->seq > b->seq;
}

static struct kind *kind_of(struct sched *s, struct look *l, struct graph_node *n, uint64_t now_ns)
{
	uint64_t kind = task_kind(n);
	struct kind *k = l->kinds;

	for (uint32_t i = 0; i < l->nr; i++, k++)
		if (k->kind == kind)
			return k;
	if (l->nr == KINDS)
		return NULL;
	*k = (struct kind){ .kind = kind, .busy_ns = UINT64_MAX, .idle_ns = UINT64_MAX };
	weigh_kind(s, k, n, now_ns);
	l->nr++;
	return k;
}

/* Until the devices at work would be done with @k's last task, behind those before it. */
static double done_ns(const struct look *l, struct graph_node *const *tasks, uint32_t first,
		      uint32_t nr, const struct kind *k)
{
	double ns = 0, all = 0;
	uint32_t looked = 0;

	for (uint32_t i = first; i < nr; i++) {
		const struct kind *of = l->of[i - first];

		if (!of)
			continue;
		looked++;
		all += of->each_ns;
		if (turn_after(k->last, tasks[i]))
			ns += of->each_ns;
	}
	/* In a heap those before the first that was looked at are hardly the last ones. */
	return ns + (looked ? all / looked * first : 0) + (double)k->busy_ns;
}

/* In which a task of @k that the devices at work would have done after @done may be done. */
static double may_take_ns(struct sched *s, const struct kind *k, double done)
{
	uint64_t live, here = s->queued + s->running;
	double late, half;

	if (!s->ops.live || k->last->d.deadline_ns)
		return done;
	live = s->ops.live(s->arg, k->last);
	half = live > here ? (double)(live - here) * k->each_ns / 2 : 0;
	late = done * SPARE_LATE < half ? done * SPARE_LATE : half;
	return late > done ? late : done;
}

/* Of those that are idle the one that would be done with it first, within @may. */
static uint32_t idle_for(struct sched *s, struct graph_node *n, double may, uint64_t now_ns,
			 uint64_t *run_ns)
{
	uint32_t best = SCHED_NO_DEVICE;
	uint64_t best_ns = UINT64_MAX;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		uint64_t ns, move, end;

		if (!has_idle_lane(&s->devices[i]) || !can_run(s, n, i))
			continue;
		ns = known_ns(s, n, i);
		move = switch_ns(s, n, i);
		if (!ns || stays_until(&s->devices[i], move, now_ns))
			continue;
		move += s->ops.transfer_ns ? s->ops.transfer_ns(s->arg, n, i) : 0;
		end = hand_over_ns(s, i) + move + ns;
		/* Links are the others' as well. */
		if (move > ns || end >= best_ns)
			continue;
		best_ns = end;
		*run_ns = ns;
		best = i;
	}
	return best != SCHED_NO_DEVICE && (double)best_ns <= may ? best : SCHED_NO_DEVICE;
}

struct graph_node *spare_find(struct sched *s, struct graph_node *const *tasks, uint32_t nr,
			      bool (*bound)(struct sched *s, const struct graph_node *node),
			      uint64_t now_ns, uint32_t *device, uint64_t *run_ns)
{
	uint32_t first = nr > LOOK ? nr - LOOK : 0;
	double least = 0, may_best = 0;
	struct graph_node *best = NULL;
	struct look l = { .nr = 0 };

	for (uint32_t i = first; i < nr; i++) {
		struct graph_node *n = tasks[i];
		struct kind *k = n->sched.lane == SCHED_STARTED ? NULL : kind_of(s, &l, n, now_ns);

		l.of[i - first] = k;
		if (k && k->busy_ns != UINT64_MAX && k->idle_ns != UINT64_MAX &&
		    (!k->last || turn_after(n, k->last)) && !bound(s, n))
			k->last = n;
	}
	for (uint32_t i = 0; i < l.nr; i++) {
		const struct kind *k = &l.kinds[i];
		double behind = (double)k->idle_ns / (double)k->busy_ns, may;

		if (!k->last || behind < SLOWER || (best && behind >= least))
			continue;
		may = may_take_ns(s, k, done_ns(&l, tasks, first, nr, k));
		if ((double)k->idle_ns > may)
			continue;
		best = k->last;
		least = behind;
		may_best = may;
	}
	*device = best ? idle_for(s, best, may_best, now_ns, run_ns) : SCHED_NO_DEVICE;
	return *device == SCHED_NO_DEVICE ? NULL : best;
}
