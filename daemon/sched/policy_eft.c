/* SPDX-License-Identifier: MIT */
/*
 * policy_eft.c - the device that would finish the task earliest
 *
 * A busy device counts from when its first lane will be free, and one that has to be
 * configured for the task from when that is done; see stays_until().  If the best is
 * busy the task waits for it, although a slower one is idle: that one is left
 * to tasks which it serves better.  But not where the idle one would be done only a little
 * later and nothing has to be moved: what is free soon may be given to what the task there makes
 * ready.  Nor where others wait as well and the idle one would be done before the best has
 * done some of them: then the best has enough to do, and what was once measured on a device
 * that lost its CPU for a moment does not leave it idle for ever.  A device whose run time is unknown, and can't be told
 * from other sizes either, is tried as soon as it is idle, the least known first.
 *
 * Of those that would wait for long a device that stands idle may take one from behind
 * (spare.c); that is looked into only if it may be worth it for the tasks that are next.
 * From then on it is known what is to come in that program (outlook.c): a task of a kind
 * that slow devices should do all of is left to them although a quick one is idle, as long as that
 * one has others and the program ends no later by it.
 *
 * All of that is for one task at a time.  A program that is alone on devices of unlike speed is
 * planned as a whole (plan.c); then its tasks find their devices by that.
 *
 * A device whose few first runs were disturbed looks slower than it is, and who has nothing
 * to run learns nothing.  So one that is little known and idle is tried anew, as long as
 * that costs no more than a small part of what the kernel has run since.
 *
 * That looks at one task at a time, and where its results are wanted nobody knows.  So
 * where bringing data takes longer than what is done with it, a program that is spread
 * over devices brings most of it over and over.  A context is gathered, if
 * - its tasks of late were longer on their way from other devices than at work; after a
 *   while it is tried anew, each time later; or
 * - they have so much data that this can't end otherwise.
 * Then it has a home, the device with the fewest such contexts for its speed, and only
 * tasks that are worth the way go elsewhere.
 */
#include <stdlib.h>

#include "daemon/sched/outlook.h"
#include "daemon/sched/plan.h"
#include "daemon/sched/policy.h"
#include "daemon/sched/refusal.h"

/* Waiting tasks that count, so that what is far slower is still left alone. */
#define BACKLOG	4
/* Of a run: what it may end later by, for being sure of its device. */
#define SLACK_PART	4
/* Of a run: what it is taken to last longer beside others on all lanes, where nobody knows. */
#define BESIDE_PART	8

/* After a search in vain: by what part more tasks, or how much later, for the next one. */
#define SPARE_MORE	8
#define SPARE_PAUSE_NS	200000ull
#define SPARE_DOUBLED	4
/* Tasks of a program among which one is looked for in place of those that are left to slow devices. */
#define INSTEAD	512u

/* The part of a kernel's time that trials may cost, on devices that are not known well. */
#define TRIAL_PART	32u
#define TRIALS		256u

#define BUCKETS		256u
/* Tasks that the means are of, about. */
#define MEMORY		32
/* So much longer on their way than at work; so much longer, if all of it had to go. */
#define WAY		2
#define FAR		8
/* Tasks that stay at home, the first time; and the most doublings of that. */
#define STAY		512u
#define STAY_DOUBLED	8u

/**
 * struct course - how a context has fared
 * @tasks:	that were placed since it was last gathered or let go
 * @way_ns, @all_ns, @run_ns: of its tasks of late, means; @way_ns while it was spread
 * @home:	SCHED_NO_DEVICE: it may go anywhere
 * @stay:	tasks until it may again
 * @times:	that it was gathered
 * @outlook:	NULL: it never had a task that was worth the search for a slow device
 * @plan:	NULL: none was ever made
 */
struct course {
	struct course *next;
	uint64_t context;
	uint32_t tasks;
	double way_ns, all_ns, run_ns;
	uint32_t home;
	uint64_t stay;
	uint32_t times;
	struct outlook *outlook;
	struct plan *plan;
};

/**
 * struct trial - what may be spent on devices that are little known
 * @kind:	of tasks; where two would be, the later one is
 * @run_ns:	that those which were placed elsewhere since the last one were to take, while a device
 *		was idle
 */
struct trial {
	uint64_t kind;
	uint64_t run_ns;
};

/**
 * struct spares - when tasks that are further behind are looked at
 * @worth_ns:	the latest time at which that may have been worth it; @left_ns: at which a task was
 *		left to slow devices, though a quick one would have taken it
 * @tried_ns:	when nothing was found; then not before there are @queued tasks or @again_ns
 *		has come; @alike: such searches on end that found no slow device at all: then only
 *		that time
 */
struct spares {
	uint64_t worth_ns, left_ns;
	uint64_t tried_ns, again_ns;
	uint32_t queued, alike;
};

/**
 * struct chosen - what is learnt from a task as soon as it is placed
 * @doubts:	a device that is little known stood idle; @tries: this is that one
 */
struct chosen {
	uint64_t run_ns;
	uint32_t device;
	bool doubts, tries;
};

/**
 * struct state - the policy's
 * @chosen:	for s->chosen
 * @homes:	contexts that are at home on each device
 * @planned:	whose tasks go by a plan; NULL: nobody's
 * @refusals:	NULL: there were none to be kept yet
 */
struct state {
	struct chosen chosen;
	struct course *buckets[BUCKETS];
	struct trial trials[TRIALS];
	uint32_t homes[SCHED_MAX_DEVICES];
	struct spares spares;
	struct course *planned;
	struct refusal *refusals;
};

static struct course **find(struct state *st, uint64_t context)
{
	struct course **c = &st->buckets[context % BUCKETS];

	while (*c && (*c)->context != context)
		c = &(*c)->next;
	return c;
}

/* The fewest contexts for its speed; @near counts as having one less. */
static uint32_t find_home(struct sched *s, const struct graph_node *node, uint32_t near,
			  uint64_t *run_ns)
{
	uint64_t kernel = sched_kernel_key(node), work = sched_work(node), ns, least = UINT64_MAX;
	const struct state *st = s->policy_state;
	uint32_t home = SCHED_NO_DEVICE;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		if (!can_run(s, node, i))
			continue;
		ns = sched_forecast(s, kernel, i, work).ns;
		if (!ns || __builtin_mul_overflow(ns, st->homes[i] + 1u + (i != near), &ns) ||
		    ns >= least)
			continue;
		least = ns;
		*run_ns = sched_forecast(s, kernel, i, work).ns;
		home = i;
	}
	return home;
}

static void gather(struct sched *s, struct course *c, uint32_t home)
{
	struct state *st = s->policy_state;

	if (home == SCHED_NO_DEVICE)
		return;
	c->home = home;
	st->homes[home]++;
	c->stay = (uint64_t)STAY << c->times;
	c->times += c->times < STAY_DOUBLED;
}

/* Its first task: is it one of those that can't but be gathered? */
static void expect(struct sched *s, struct course *c, const struct graph_node *node)
{
	struct sched_way way;
	uint64_t run_ns;
	uint32_t home;

	if (!s->ops.way)
		return;
	home = find_home(s, node, SCHED_NO_DEVICE, &run_ns);
	if (home == SCHED_NO_DEVICE)
		return;
	s->ops.way(s->arg, node, home, &way);
	c->all_ns = (double)way.all_ns;
	if (way.all_ns / FAR > run_ns)
		gather(s, c, home);
}

/* NULL: no memory, and it goes anywhere. */
static struct course *course_of(struct sched *s, const struct graph_node *node)
{
	struct course **c = find(s->policy_state, task_context(node));

	if (*c)
		return *c;
	*c = calloc(1, sizeof(**c));
	if (!*c)
		return NULL;
	(*c)->context = task_context(node);
	(*c)->home = SCHED_NO_DEVICE;
	expect(s, *c, node);
	return *c;
}

static void let_go(struct state *st, struct course *c)
{
	if (c->home != SCHED_NO_DEVICE)
		st->homes[c->home]--;
	c->home = SCHED_NO_DEVICE;
	c->tasks = 0;
}

static void mean(double *of, uint64_t ns, uint32_t tasks)
{
	*of += ((double)ns - *of) / (tasks < MEMORY ? tasks : MEMORY);
}

/* A task was placed on @device, for @run_ns. */
static void learn(struct sched *s, struct course *c, const struct graph_node *node,
		  uint32_t device, uint64_t run_ns)
{
	struct sched_way way;

	s->ops.way(s->arg, node, device, &way);
	c->tasks++;
	mean(&c->run_ns, run_ns, c->tasks);
	mean(&c->all_ns, way.all_ns, c->tasks);
	if (c->home == SCHED_NO_DEVICE)
		mean(&c->way_ns, way.again_ns, c->tasks);
	if (c->all_ns > FAR * c->run_ns) {
		if (c->home == SCHED_NO_DEVICE)
			gather(s, c, find_home(s, node, device, &run_ns));
		return;
	}
	if (c->home != SCHED_NO_DEVICE) {
		if (!c->stay || !--c->stay)
			let_go(s->policy_state, c);
		return;
	}
	if (c->tasks >= MEMORY && c->way_ns > WAY * c->run_ns)
		gather(s, c, find_home(s, node, device, &run_ns));
}

/* To be learnt from, if it is taken: a task is chosen for, and may go elsewhere after all. */
static void note(struct sched *s, const struct graph_node *node, struct chosen chosen)
{
	struct state *st = s->policy_state;

	/* Who only asks places nothing. */
	if (s->asking)
		return;
	st->chosen = chosen;
	s->chosen = node;
}

/* Whether a task of @run_ns may go to @device although it is at home on @home. */
static bool may_go(const struct course *c, uint32_t home, uint32_t device, uint64_t run_ns)
{
	return home == SCHED_NO_DEVICE || home == device ||
	       (double)run_ns > WAY * (c->way_ns > c->all_ns ? c->way_ns : c->all_ns);
}

static uint64_t free_at(const struct sched_device *d, uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	if (has_idle_lane(d))
		return now_ns;
	for (uint32_t i = 0; i < d->lanes_size; i++) {
		if (d->lane[i].until && d->lane[i].until < first)
			first = d->lane[i].until;
	}
	/* One that is overdue will hardly end this very instant. */
	return first > now_ns ? first : now_ns + (now_ns - first) + 1;
}

/* So that of two devices which are as quick the one with less to do has it. */
static uint64_t beside_ns(const struct sched_device *d, uint64_t run_ns)
{
	/* It has the lane of one of them, if it has to wait. */
	uint32_t others = d->busy - !has_idle_lane(d);

	return others && !d->parts ? run_ns / BESIDE_PART * others / d->lanes : 0;
}

/* The only one that can run it, or SCHED_NO_DEVICE: there are several, or none. */
static uint32_t only_one(struct sched *s, const struct graph_node *node)
{
	uint32_t only = SCHED_NO_DEVICE;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		if (!can_run(s, node, i))
			continue;
		if (only != SCHED_NO_DEVICE)
			return SCHED_NO_DEVICE;
		only = i;
	}
	return only;
}

static struct trial *trial_of(struct state *st, uint64_t kind)
{
	struct trial *t = &st->trials[(kind ^ kind >> 18) % TRIALS];

	if (t->kind != kind)
		*t = (struct trial){ .kind = kind };
	return t;
}

/* Whether one is run where it takes @more_ns longer, to see if it really does. */
static bool may_try(struct state *st, uint64_t kind, uint64_t more_ns)
{
	return trial_of(st, kind)->run_ns / TRIAL_PART >= more_ns;
}

static void placed(struct sched *s, struct graph_node *node)
{
	struct state *st = s->policy_state;
	const struct chosen *chosen = &st->chosen;
	struct course *c = *find(st, task_context(node));
	struct trial *t;

	if (c && s->ops.way)
		learn(s, c, node, chosen->device, chosen->run_ns);
	if (!chosen->doubts)
		return;
	t = trial_of(st, task_kind(node));
	t->run_ns = chosen->tries ? 0 : t->run_ns + chosen->run_ns;
}

/*
 * A task waits that an idle device would be done with after @idle_ns, the best one after @best_ns.
 * Could it be worth the search for another one?  That takes a few microseconds.
 */
static void consider(struct sched *s, uint64_t idle_ns, uint64_t best_ns, uint64_t run_ns)
{
	struct state *st = s->policy_state;

	if (!s->asking && (double)idle_ns <= SPARE_LATE * ((double)best_ns +
							   (double)s->queued * (double)run_ns))
		st->spares.worth_ns = s->now_ns;
}

/* Whether it should not go to @device, which is the best for it and idle. */
static bool is_left(struct sched *s, struct outlook *o, const struct graph_node *node,
		    uint32_t device, uint64_t now_ns)
{
	struct state *st = s->policy_state;
	struct leaving of;

	of.found = 0;
	if (!outlook_leaves(s, o, &of, node, now_ns) || !outlook_is_quick(s, o, device, now_ns))
		return false;
	if (!s->asking)
		st->spares.worth_ns = st->spares.left_ns = s->now_ns;
	return true;
}

/* All of its program's tasks will be placed together. */
static bool begins_plan(struct sched *s, struct course *c, const struct graph_node *node,
			uint64_t run_ns, uint64_t now_ns)
{
	struct state *st = s->policy_state;

	/* What came after one was made goes beside it, until it is made anew. */
	if (st->planned || s->asking || c->home != SCHED_NO_DEVICE || !plan_is_worth(s, node, run_ns))
		return false;
	if (!c->plan)
		c->plan = plan_make();
	if (!c->plan || !plan_begin(s, c->plan, node, now_ns))
		return false;
	/* Its tasks are the plan's. */
	st->planned = c;
	outlook_free(c->outlook);
	c->outlook = NULL;
	return true;
}

/**
 * struct offer - what a device would do with a task
 * @end_ns:	when it would be done, if @known
 * @move_ns:	of that, until it is configured and the data is there
 * @run_ns:	of that, the task itself; @runs: that this was learnt from there
 * @ready:	it could begin now
 */
struct offer {
	uint64_t end_ns, move_ns, run_ns;
	uint32_t runs;
	bool ready, known;
};

/**
 * struct bounds - from when on it is all the same when a device would be done
 * @busy:	where the task can't begin at once; @idle: where it can; @unsure: and little is known
 */
struct bounds {
	uint64_t busy, idle, unsure;
};

static inline uint64_t bound_of(const struct bounds *b, const struct offer *o)
{
	return !o->ready ? b->busy : o->runs < SCHED_SURE_RUNS ? b->unsure : b->idle;
}

/*
 * False: it can't run it, or should not.  What would not be done within @b without any data to
 * move isn't asked for the way that this has: of hundreds of devices most.
 */
static inline __attribute__((always_inline)) bool offers(struct sched *s, const struct course *c,
							  const struct graph_node *node,
							  uint64_t kernel, uint64_t work,
							  uint32_t home, uint32_t i,
							  uint64_t now_ns, const struct bounds *b,
							  struct offer *o)
{
	uint64_t begin, full, stays, last, way;
	struct sched_device *d = &s->devices[i];
	struct sched_estimate e;
	struct sched_forecast f;

	if (!can_run(s, node, i))
		return false;
	o->move_ns = switch_ns(s, node, i);
	stays = stays_until(d, o->move_ns, now_ns);
	o->ready = device_idle(d) && !stays;
	e = sched_estimate(s, kernel, i, work);
	o->runs = e.runs;
	o->run_ns = e.ns;
	o->known = true;
	if (e.runs < SCHED_MIN_RUNS) {
		f = sched_forecast(s, kernel, i, work);
		o->run_ns = f.ns;
		o->known = f.confidence >= SCHED_CONFIDENT;
		if (!o->known)
			return true;
	}
	if (!may_go(c, home, i, o->run_ns))
		return false;
	/*
	 * Who is idle has to be woken, and so none is passed over for one that is busy: that may take
	 * longer than it is thought to.
	 */
	begin = free_at(d, now_ns);
	begin += has_idle_lane(d) ? hand_over_ns(s, i, o->run_ns) : hand_over_most_ns(s);
	begin = (begin > stays ? begin : stays) + o->move_ns;
	/* Its data comes while others run. */
	full = capacity_likely(d, now_ns);
	last = o->run_ns + beside_ns(d, o->run_ns);
	o->end_ns = (begin > full ? begin : full) + last;
	if (!s->ops.transfer_ns || o->end_ns >= bound_of(b, o))
		return true;
	way = s->ops.transfer_ns(s->arg, node, i);
	o->move_ns += way;
	begin += way;
	o->end_ns = (begin > full ? begin : full) + last;
	return true;
}

static uint32_t home_of(struct sched *s, const struct course *c, const struct graph_node *node)
{
	return c && c->home != SCHED_NO_DEVICE && can_run(s, node, c->home) ?
	       c->home : SCHED_NO_DEVICE;
}

/* Where what @node says in vain is kept; NULL: nowhere. */
static struct refusal *refusal_for(struct sched *s, const struct graph_node *node)
{
	struct state *st = s->policy_state;

	if (__builtin_expect(s->nr_devices < REFUSAL_DEVICES, 1) || s->asking || s->booking)
		return NULL;
	if (!st->refusals)
		st->refusals = calloc(REFUSALS, sizeof(*st->refusals));
	return st->refusals ? refusal_of(st->refusals, node) : NULL;
}

/* Asked a moment ago it waited: whether that is so with what has become idle since. */
static bool waits_still(struct sched *s, const struct graph_node *node, struct refusal *r,
			uint64_t now_ns)
{
	uint64_t kernel, work;
	const struct course *c;
	struct bounds b;
	struct offer o;
	uint32_t home;

	if (!refusal_holds(s, r, node, now_ns))
		return false;
	c = *find(s->policy_state, task_context(node));
	home = home_of(s, c, node);
	kernel = sched_kernel_key(node);
	work = sched_work(node);
	b.idle = r->best_ns + r->slack_ns > r->other_ns ? r->best_ns + r->slack_ns : r->other_ns;
	b.busy = 0;
	b.unsure = b.idle;
	for (; r->frees != s->frees; r->frees++) {
		uint32_t i = s->freed[r->frees % SCHED_FREED];

		if (!device_idle(&s->devices[i]) ||
		    !offers(s, c, node, kernel, work, home, i, now_ns, &b, &o))
			continue;
		/* It is weighed again, with all others. */
		if (!o.known || (o.ready && o.end_ns < r->best_ns + r->slack_ns))
			return false;
		if (o.ready && o.end_ns < r->other_ns)
			r->other_ns = o.end_ns;
	}
	if (r->other_ns != UINT64_MAX && r->other_ns > now_ns && r->best_ns > now_ns)
		consider(s, r->other_ns - now_ns, r->best_ns - now_ns, r->run_ns);
	policy_told(s, node, r->for_speed);
	return true;
}

/* @leave: or none, if it is one that is better left to a slow device */
static uint32_t weigh(struct sched *s, const struct graph_node *node, bool leave, uint64_t now_ns)
{
	uint64_t kernel = sched_kernel_key(node), work = sched_work(node);
	uint64_t best_ns = UINT64_MAX, idle_ns = UINT64_MAX, run_ns = 0;
	uint64_t best_move = 0, idle_move = 0, idle_run = 0;
	uint64_t quick = UINT64_MAX, quick_idle = UINT64_MAX;
	struct course *c = course_of(s, node);
	uint32_t home = home_of(s, c, node);
	uint32_t best = SCHED_NO_DEVICE, unknown = SCHED_NO_DEVICE, idle = SCHED_NO_DEVICE;
	uint32_t others = s->queued < BACKLOG ? s->queued : BACKLOG;
	uint32_t least = SCHED_MIN_RUNS, doubted = SCHED_NO_DEVICE;
	uint64_t doubted_ns = UINT64_MAX, doubted_run = 0;
	bool best_ready = false, doubts, tries;
	struct refusal *r;
	uint64_t slack;

	for (uint32_t i = 0; i < s->nr_devices; i++) {
		const struct bounds b = { .busy = best_ns, .idle = idle_ns, .unsure = doubted_ns };
		struct offer o;

		if (!offers(s, c, node, kernel, work, home, i, now_ns, &b, &o))
			continue;
		if (!o.known) {
			if (o.ready && o.runs < least) {
				least = o.runs;
				unknown = i;
			}
			continue;
		}
		quick = o.run_ns < quick ? o.run_ns : quick;
		if (o.end_ns < best_ns) {
			best_ns = o.end_ns;
			best_move = o.move_ns;
			run_ns = o.run_ns;
			best = i;
			best_ready = o.ready;
		}
		if (!o.ready)
			continue;
		quick_idle = o.run_ns < quick_idle ? o.run_ns : quick_idle;
		if (o.runs >= SCHED_MIN_RUNS && o.runs < SCHED_SURE_RUNS && o.end_ns < doubted_ns) {
			doubted_ns = o.end_ns;
			doubted_run = o.run_ns;
			doubted = i;
		}
		if (o.end_ns < idle_ns) {
			idle_ns = o.end_ns;
			idle_move = o.move_ns;
			idle_run = o.run_ns;
			idle = i;
		}
	}
	if (unknown != SCHED_NO_DEVICE)
		return unknown;
	/* This one is among those queued.  To move data for it would take others' time, too. */
	slack = others > 1 ? (others - 1) * run_ns : idle_move ? 0 : run_ns / SLACK_PART;
	if (idle != SCHED_NO_DEVICE && idle_move <= best_move && !best_ready &&
	    idle_ns < best_ns + slack) {
		note(s, node, (struct chosen){ .device = idle, .run_ns = idle_run });
		return idle;
	}
	/* Of one that looks nearly as fast little is to be learnt. */
	doubts = doubted != SCHED_NO_DEVICE && doubted_run / 3 > run_ns / 2 && !s->asking &&
		 !node->d.deadline_ns;
	tries = doubts && may_try(s->policy_state, model_kind(kernel, work), doubted_ns - best_ns);
	if (tries) {
		best = doubted;
		run_ns = doubted_run;
	} else if (!best_ready) {
		if (idle != SCHED_NO_DEVICE)
			consider(s, idle_ns - now_ns, best_ns - now_ns, run_ns);
		policy_told(s, node, quick_idle != UINT64_MAX && quick_idle / SCHED_SLOWER >= quick);
		r = best == SCHED_NO_DEVICE ? NULL : refusal_for(s, node);
		if (r)
			*r = (struct refusal){
				.node = node, .seq = node->seq, .push_ns = node->sched.push_ns,
				.at_ns = now_ns, .frees = s->frees, .best = best,
				.best_ns = best_ns, .run_ns = run_ns, .other_ns = idle_ns,
				.slack_ns = slack, .for_speed = s->told_speed,
			};
		return SCHED_NO_DEVICE;
	}
	/* Who has an outlook in his hands keeps it. */
	if (leave && c && begins_plan(s, c, node, run_ns, now_ns))
		return SCHED_NO_DEVICE;
	if (leave && c && c->outlook && is_left(s, c->outlook, node, best, now_ns))
		return SCHED_NO_DEVICE;
	note(s, node, (struct chosen){
		.device = best, .run_ns = run_ns, .doubts = doubts, .tries = tries,
	});
	return best;
}

static bool at_home(struct sched *s, const struct graph_node *node)
{
	const struct course *c = *find(s->policy_state, task_context(node));

	return c && c->home != SCHED_NO_DEVICE;
}

static struct outlook *outlook_of(struct sched *s, const struct graph_node *n)
{
	struct course *c = course_of(s, n);

	if (c && !c->outlook && s->ops.look_back)
		c->outlook = outlook_make();
	return c ? c->outlook : NULL;
}

static bool quick_is_idle(struct sched *s, struct outlook *o, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (has_idle_lane(&s->devices[i]) && outlook_is_quick(s, o, i, now_ns))
			return true;
	return false;
}

/*
 * Some of the first are left to slow devices: what a quick one takes of those behind them, or, if
 * it has nothing else, of these.
 */
static struct graph_node *instead(struct sched *s, struct outlook *o,
				  struct graph_node *const *tasks, uint32_t nr, uint64_t now_ns)
{
	struct graph_node *first[2] = { NULL, NULL }, *n;
	struct leaving of;

	if (!quick_is_idle(s, o, now_ns))
		return NULL;
	of.found = 0;
	for (uint32_t i = 0; i < nr && i < INSTEAD; i++) {
		bool left;

		if (tasks[i]->sched.lane == SCHED_STARTED)
			continue;
		left = outlook_leaves(s, o, &of, tasks[i], now_ns);
		if (!first[left] || task_before(tasks[i], first[left]))
			first[left] = tasks[i];
	}
	n = first[0] ? first[0] : first[1];
	if (!n)
		return NULL;
	n->device = weigh(s, n, false, now_ns);
	return n->device == SCHED_NO_DEVICE ? NULL : n;
}

/* One of the program's whose tasks go by a plan; or that is dropped, and NULL. */
static struct graph_node *planned(struct sched *s, struct graph_node *const *tasks, uint32_t nr,
				  uint64_t now_ns)
{
	struct state *st = s->policy_state;
	struct plan *p = st->planned->plan;
	struct graph_node *n = NULL;
	uint32_t device;
	uint64_t run_ns;

	if (plan_go_on(s, p, tasks[0], now_ns))
		n = plan_next(s, p, tasks, nr, now_ns, &device, &run_ns);
	if (!plan_is_on(p)) {
		st->planned = NULL;
		/* They find places of their own at once. */
		s->thinking = true;
	}
	if (!n)
		return NULL;
	n->device = device;
	note(s, n, (struct chosen){ .device = device, .run_ns = run_ns });
	return n;
}

/* False: it goes by none. */
static bool is_planned(struct sched *s, const struct graph_node *n, uint64_t now_ns)
{
	struct state *st = s->policy_state;

	if (__builtin_expect(!st->planned, 1))
		return false;
	if (st->planned->context == task_context(n))
		return plan_has(st->planned->plan, n);
	/* Somebody else has come; or may come. */
	if (s->asking)
		return false;
	plan_drop(st->planned->plan, now_ns);
	st->planned = NULL;
	return false;
}

static struct graph_node *spare(struct sched *s, struct graph_node *const *tasks, uint32_t nr,
				uint64_t now_ns)
{
	struct state *st = s->policy_state;
	struct spares *sp = &st->spares;
	struct graph_node *n;
	struct outlook *o;
	uint32_t device;
	uint64_t run_ns = 0;
	bool alike;

	if (st->planned && st->planned->context == task_context(tasks[0]))
		return planned(s, tasks, nr, now_ns);
	if (sp->worth_ns != s->now_ns)
		return NULL;
	o = outlook_of(s, tasks[0]);
	if (sp->left_ns == s->now_ns && o && outlook_is_known(o)) {
		n = instead(s, o, tasks, nr, now_ns);
		if (n)
			return n;
	}
	/* At one time several tenants' are looked at. */
	if (now_ns < sp->again_ns &&
	    (sp->alike || (s->queued < sp->queued && now_ns != sp->tried_ns)))
		return NULL;
	n = spare_find(s, o, tasks, nr, at_home, now_ns, &device, &run_ns, &alike);
	if (n) {
		n->device = device;
		sp->queued = 0;
		sp->alike = 0;
		note(s, n, (struct chosen){ .device = device, .run_ns = run_ns });
	} else {
		sp->tried_ns = now_ns;
		sp->queued = s->queued + s->queued / SPARE_MORE + 1;
		sp->alike = !alike ? 0 : sp->alike < SPARE_DOUBLED ? sp->alike + 1 : sp->alike;
		sp->again_ns = now_ns + (SPARE_PAUSE_NS << sp->alike);
	}
	return n;
}

static uint32_t choose(struct sched *s, const struct graph_node *node, uint64_t now_ns)
{
	struct sched_device *d;
	struct refusal *r;
	uint32_t only;

	/* It has its place, and its turn comes by that. */
	if (is_planned(s, node, now_ns))
		return SCHED_NO_DEVICE;
	only = only_one(s, node);
	/* Nothing to be weighed, nor to be learnt. */
	if (only == SCHED_NO_DEVICE) {
		r = refusal_for(s, node);
		return r && waits_still(s, node, r, now_ns) ? SCHED_NO_DEVICE :
							       weigh(s, node, true, now_ns);
	}
	d = &s->devices[only];
	return device_idle(d) && !stays_until(d, switch_ns(s, node, only), now_ns) ?
	       only : SCHED_NO_DEVICE;
}

static void left(struct sched *s, const struct graph_node *node, uint64_t end_ns)
{
	struct state *st = s->policy_state;
	struct course *c = *find(st, task_context(node));

	if (st->planned && st->planned == c && plan_left(c->plan, node))
		st->planned = NULL;
	if (c && c->outlook)
		outlook_left(s, c->outlook, node, end_ns);
}

static void context_gone(struct sched *s, uint64_t context)
{
	struct state *st = s->policy_state;
	struct course **c = find(st, context), *gone = *c;

	if (!gone)
		return;
	let_go(st, gone);
	if (st->planned == gone)
		st->planned = NULL;
	*c = gone->next;
	outlook_free(gone->outlook);
	plan_free(gone->plan);
	free(gone);
}

static void leave(struct sched *s)
{
	struct state *st = s->policy_state;

	free(st->refusals);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (st->buckets[i]) {
			struct course *c = st->buckets[i];

			st->buckets[i] = c->next;
			outlook_free(c->outlook);
			plan_free(c->plan);
			free(c);
		}
	}
}

const struct sched_policy sched_policy_eft = {
	.name = "eft",
	.may_ask = true,
	.state_bytes = sizeof(struct state),
	.choose = choose,
	.spare = spare,
	.placed = placed,
	.left = left,
	.context_gone = context_gone,
	.leave = leave,
};
