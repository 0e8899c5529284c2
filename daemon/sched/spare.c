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
 * What is ready is not all that will come before the last of them.  Where the graph can be asked
 * what is to come (outlook.h), a task may be as late as its program's end allows, if those
 * that are quick have enough to do meanwhile; and what the slow ones should do of the rest goes by
 * that as well.  Else, while a program has much
 * more submitted than is ready, a task may be SPARE_LATE times as long until it ends, if that is
 * no more than the quicker devices need for half of what is not ready yet.  Not so if it has a
 * deadline.
 *
 * A device that is hardly slower than those at work is left idle for where the data is and not
 * for its speed.  That has been weighed, so it takes nothing, but for the kinds of which it should
 * do some by what is to come.
 */
#include "daemon/sched/outlook.h"
#include "daemon/sched/policy.h"

/* Waiting tasks that are looked at, and kinds of them. */
#define LOOK	256u
#define KINDS	16u

/*
 * By what part of the time that a slow device takes the quick ones must have something to do that is
 * ready.  The rest will be: what they do makes more so.
 */
#define READY_PART	4

/* So much slower a device is at least that takes such a task. */
#define SLOWER	2

/**
 * struct kind - tasks that take equally long
 * @each_ns:	in which the devices that are at work would get through one more
 * @busy_ns:	that one takes on the quickest of these
 * @idle_ns:	that one takes on the quickest idle device; UINT64_MAX: on none
 * @last:	that would have its turn last; @late: it is behind those that were not looked at
 */
struct kind {
	uint64_t kind;
	double each_ns;
	uint64_t busy_ns, idle_ns;
	struct graph_node *last;
	bool late;
};

/**
 * struct look - what waits, and kinds of it
 * @tasks, @nr:	that are looked at; @left_out: others between the first and the second half of them
 * @of:		each one's kind; NULL: it is none of these
 * @rates:	device_rate() of each device that is at work
 */
struct look {
	struct kind kinds[KINDS];
	uint32_t nr_kinds;
	uint32_t nr, left_out;
	struct graph_node *tasks[LOOK];
	const struct kind *of[LOOK];
	double rates[SCHED_MAX_DEVICES];
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

static void weigh_kind(struct sched *s, const struct look *l, struct kind *k, struct graph_node *n,
		       uint64_t now_ns)
{
	double rate = 0;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct sched_device *d = &s->devices[i];
		uint64_t ns = can_run(s, n, i) ? known_ns(s, n, i) : 0;

		if (!ns)
			continue;
		if (d->busy) {
			rate += l->rates[i] / (double)ns;
			k->busy_ns = ns < k->busy_ns ? ns : k->busy_ns;
		}
		if (has_idle_lane(d) && !stays_until(d, switch_ns(s, n, i), now_ns))
			k->idle_ns = ns < k->idle_ns ? ns : k->idle_ns;
	}
	k->each_ns = rate > 0 ? 1 / rate : 0;
}

static struct kind *kind_of(struct sched *s, struct look *l, struct graph_node *n, uint64_t now_ns)
{
	uint64_t kind = task_kind(n);
	struct kind *k = l->kinds;

	for (uint32_t i = 0; i < l->nr_kinds; i++, k++)
		if (k->kind == kind)
			return k;
	if (l->nr_kinds == KINDS)
		return NULL;
	*k = (struct kind){ .kind = kind, .busy_ns = UINT64_MAX, .idle_ns = UINT64_MAX };
	weigh_kind(s, l, k, n, now_ns);
	l->nr_kinds++;
	return k;
}

/* Until the devices at work would be done with @k's last task, behind those before it. */
static double done_ns(const struct look *l, const struct kind *k)
{
	double ns = 0, all = 0;
	uint32_t looked = 0;

	for (uint32_t i = 0; i < l->nr; i++) {
		const struct kind *of = l->of[i];

		if (!of)
			continue;
		looked++;
		all += of->each_ns;
		if (task_before(l->tasks[i], k->last))
			ns += of->each_ns;
	}
	return ns + (looked && k->late ? all / looked * l->left_out : 0) + (double)k->busy_ns;
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

/* What the quick devices have to do before they would stand idle, of what is ready. */
static double ready_ns(struct sched *s, struct outlook *o, const struct look *l, uint64_t now_ns)
{
	uint32_t quick = 0;
	double begun = 0, ns = 0;

	for (uint32_t i = 0; i < l->nr; i++)
		ns += l->of[i] ? l->of[i]->each_ns : 0;
	ns += ns / l->nr * l->left_out;
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		if (!s->devices[i].lanes || !outlook_is_quick(s, o, i, now_ns))
			continue;
		quick++;
		begun += (double)busy_for_ns(&s->devices[i], now_ns);
	}
	return ns + (quick ? begun / quick : 0);
}

/*
 * The same by what is to come: its program must end no later by it, and the quick devices not
 * stand idle for it.  @ready: what they have to do
 */
static double may_by_outlook(struct sched *s, struct outlook *o, const struct kind *k, double done,
			     double ready, uint64_t now_ns)
{
	double tail, late;

	if (k->last->d.deadline_ns || !outlook_tail_ns(s, o, k->last, &tail))
		return done;
	late = outlook_left_ns(s, o, now_ns) - tail;
	late = late < ready * READY_PART ? late : ready * READY_PART;
	return late > done ? late : done;
}

/* Whether one of @k may be taken by a device that is so many times slower. */
static bool is_behind(struct sched *s, struct outlook *o, const struct kind *k, double times,
		      uint64_t now_ns)
{
	return times >= SLOWER || (o && outlook_slow_part(s, o, k->last, now_ns) > 0);
}

/* Tasks that are @bound to others are in the way of those behind them, and are not taken. */
static void look_at(struct sched *s, struct look *l, struct graph_node *const *tasks, uint32_t nr,
		    bool (*bound)(struct sched *s, const struct graph_node *node),
		    uint64_t now_ns)
{
	l->nr_kinds = 0;
	l->nr = nr < LOOK ? nr : LOOK;
	l->left_out = nr - l->nr;
	for (uint32_t i = 0; i < s->nr_devices; i++)
		l->rates[i] = s->devices[i].busy ? device_rate(&s->devices[i]) : 0;
	for (uint32_t i = 0; i < l->nr; i++) {
		/* In a heap the first ones are the most urgent, and the last ones hardly. */
		struct graph_node *n = tasks[i < LOOK / 2 ? i : i + l->left_out];
		struct kind *k = n->sched.lane == SCHED_STARTED ? NULL : kind_of(s, l, n, now_ns);

		l->tasks[i] = n;
		l->of[i] = k;
		if (k && k->busy_ns != UINT64_MAX && k->idle_ns != UINT64_MAX &&
		    (!k->last || task_before(k->last, n)) && !bound(s, n)) {
			k->last = n;
			k->late = i >= LOOK / 2;
		}
	}
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
		if (!ns || stays_until(&s->devices[i], move, now_ns) ||
		    hand_over_ns(s, i, ns) + move + ns >= best_ns)
			continue;
		move += s->ops.transfer_ns ? s->ops.transfer_ns(s->arg, n, i) : 0;
		end = hand_over_ns(s, i, ns) + move + ns;
		/* Links are the others' as well. */
		if (move > ns || end >= best_ns)
			continue;
		best_ns = end;
		*run_ns = ns;
		best = i;
	}
	return best != SCHED_NO_DEVICE && (double)best_ns <= may ? best : SCHED_NO_DEVICE;
}

struct graph_node *spare_find(struct sched *s, struct outlook *o,
			      struct graph_node *const *tasks, uint32_t nr,
			      bool (*bound)(struct sched *s, const struct graph_node *node),
			      uint64_t now_ns, uint32_t *device, uint64_t *run_ns, bool *alike)
{
	double least = 0, may_best = 0, ready;
	struct graph_node *best = NULL;
	struct look l;

	*alike = true;
	look_at(s, &l, tasks, nr, bound, now_ns);
	if (o && !outlook_look(s, o, tasks[0]))
		o = NULL;
	ready = o ? ready_ns(s, o, &l, now_ns) : 0;
	for (uint32_t i = 0; i < l.nr_kinds; i++) {
		const struct kind *k = &l.kinds[i];
		double behind = (double)k->idle_ns / (double)k->busy_ns, may;

		*alike &= behind < SLOWER || k->idle_ns == UINT64_MAX || k->busy_ns == UINT64_MAX;
		if (!k->last || (best && behind >= least) || !is_behind(s, o, k, behind, now_ns))
			continue;
		*alike = false;
		may = done_ns(&l, k);
		may = o ? may_by_outlook(s, o, k, may, ready, now_ns) : may_take_ns(s, k, may);
		if ((double)k->idle_ns > may)
			continue;
		best = k->last;
		least = behind;
		may_best = may;
	}
	*device = best ? idle_for(s, best, may_best, now_ns, run_ns) : SCHED_NO_DEVICE;
	return *device == SCHED_NO_DEVICE ? NULL : best;
}
