/* SPDX-License-Identifier: MIT */
/* sched.c - tenants and their turn; devices and their lanes */
#include "daemon/sched/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/policy.h"

#define MAX_WEIGHT	10000
#define NOT_QUEUED	(~0u)

/* Tasks of one tenant that are looked at if its first finds no device. */
#define LOOK_AHEAD	8

/*
 * Tasks of one tenant that a pick asks for in vain although an idle device could run
 * them: they prefer to wait, and so will most of its others.  So many of all tenants together if
 * they wait for where their data is: so will most of those behind them.
 */
#define LOOK_WAITING	4

/* Tenants that only wait for quicker devices: those idle may be others' quick ones. */
#define LOOK_WAITERS	16

/*
 * Tenants that are passed over since they would be lifted: among so many the first one is found.
 * The same for the programs of one tenant; of those behind so many are asked at a time, in turn.
 */
#define LOOK_LIFTED	64
#define LOOK_LATER	16
#define LOOK_OTHERS	4

/* Tenants that are looked at for one that a running task should make way for. */
#define LOOK_TENANTS	256

/* Its own tenant's tasks, for the same. */
#define LOOK_OWN	1024

/* Tenants, and programs of each, that are looked at for a task that an idle device is good for. */
#define LOOK_SPARE	4

/* Between two looks at those whose maximum is used up, for time that was given back. */
#define LOOK_BLOCKED_NS	1000000u

/* Programs of one tenant that have begun something, of which the others go first. */
#define LOOK_BEGUN	64

/* A pick that found nothing is repeated after this, as time itself decides. */
#define STUCK_NS	100000

#define POLICY_ADDRESS(c_name, name) &sched_policy_##c_name,
static const struct sched_policy *const policies[] = { SCHED_POLICIES(POLICY_ADDRESS) };
#undef POLICY_ADDRESS

static const struct sched_policy *policy_find(const char *name)
{
	if (!name)
		return policies[0];
	for (unsigned int i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (!strcmp(policies[i]->name, name))
			return policies[i];
	return NULL;
}

static void policy_leave(struct sched *s)
{
	if (s->policy && s->policy->leave)
		s->policy->leave(s);
	free(s->policy_state);
	s->policy_state = NULL;
}

int sched_policy_set(struct sched *s, const char *name)
{
	const struct sched_policy *policy = policy_find(name);
	void *state = NULL;

	if (!policy)
		return -EINVAL;
	if (policy == s->policy)
		return 0;
	if (policy->state_bytes) {
		state = calloc(1, policy->state_bytes);
		if (!state)
			return -ENOMEM;
	}
	policy_leave(s);
	s->policy = policy;
	s->policy_state = state;
	s->chosen = NULL;
	s->stuck = false;
	return 0;
}

const char *sched_policy_name(const struct sched *s)
{
	return s->policy->name;
}


void sched_context_gone(struct sched *s, uint32_t place, uint32_t context)
{
	if (s->policy->context_gone)
		s->policy->context_gone(s, context_at(place, context));
	programs_context_gone(s, context_at(place, context));
}

struct sched *sched_create(const struct sched_params *params)
{
	struct sched *s;
	int err;

	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	err = sched_policy_set(s, params->policy);
	if (err) {
		free(s);
		errno = -err;
		return NULL;
	}
	s->ops = params->ops;
	s->arg = params->arg;
	s->bucket_mask = 255;
	s->flow_limit = 256;
	s->tree_version = 1;
	s->wake_ns = UINT64_MAX;
	s->near = SCHED_NO_DEVICE;
	s->stats_end = &s->stats;
	s->keeps_stats = params->stats;
	s->buckets = calloc(s->bucket_mask + 1, sizeof(*s->buckets));
	if (!s->buckets || programs_init(s)) {
		free(s->buckets);
		policy_leave(s);
		free(s);
		return NULL;
	}
	return s;
}

static void flow_free(struct sched *s, struct sched_flow *f)
{
	programs_fini(s, f);
	free(f->account.lifts);
	free(f->begun);
	free(f->cap);
	free(f);
}

void sched_destroy(struct sched *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i <= s->bucket_mask; i++) {
		while (s->buckets[i]) {
			struct sched_flow *f = s->buckets[i];

			s->buckets[i] = f->hash_next;
			flow_free(s, f);
		}
	}
	policy_leave(s);
	for (uint32_t i = 0; i < s->nr_devices; i++)
		free(s->devices[i].lane);
	free(s->devices);
	level_free(&s->levels);
	free(s->active);
	free(s->buckets);
	free(s->programs);
	model_free(&s->model);
	free(s);
}

/* ------------------------------------------------------------------ */
/* Devices                                                             */

int sched_device_set(struct sched *s, uint32_t device, uint32_t lanes)
{
	struct sched_device *d;

	if (device >= SCHED_MAX_DEVICES || lanes > 4096)
		return -EINVAL;
	if (device >= s->nr_devices) {
		d = realloc(s->devices, (device + 1) * sizeof(*d));
		if (!d)
			return -ENOMEM;
		memset(d + s->nr_devices, 0,
		       (device + 1 - s->nr_devices) * sizeof(*d));
		s->devices = d;
		s->nr_devices = device + 1;
	}
	if (!level_room(s, &s->levels))
		return -ENOMEM;
	d = &s->devices[device];
	if (lanes > d->lanes_size) {
		struct sched_lane *lane = realloc(d->lane, lanes * sizeof(*lane));

		if (!lane)
			return -ENOMEM;
		memset(lane + d->lanes_size, 0, (lanes - d->lanes_size) * sizeof(*lane));
		d->lane = lane;
		d->lanes_size = lanes;
	}
	/* It may have fewer lanes than it runs tasks, for a while. */
	s->idle_lanes -= device_idle(d) ? d->lanes - d->busy : 0;
	d->lanes = lanes;
	s->idle_lanes += device_idle(d) ? d->lanes - d->busy : 0;
	s->frees += SCHED_FREED + 1;
	s->stuck = false;
	return 0;
}

int sched_device_ahead(struct sched *s, uint32_t device, uint32_t tasks)
{
	if (device >= s->nr_devices)
		return -EINVAL;
	s->devices[device].ahead = tasks;
	s->ahead |= tasks;
	s->stuck = false;
	return 0;
}

/*
 * Behind what nobody knows the length of a task could wait for as long as that takes, and so it
 * could if that is not what it was: so only its own context's tasks are ever before it.
 */
static bool lane_has_room(const struct sched_device *d, uint32_t lane, const struct graph_node *n,
			  uint64_t now_ns)
{
	const struct sched_lane *l = &d->lane[lane];

	return l->tasks && l->tasks <= d->ahead && !l->unsure && l->flow == n->sched.flow &&
	       l->context == task_context(n) &&
	       l->until > now_ns && l->until - now_ns <= SCHED_AHEAD_NS;
}

/* The one that will be free first. */
static uint32_t lane_with_room(const struct sched_device *d, const struct graph_node *n,
			       uint64_t now_ns)
{
	uint32_t best = d->lanes_size;

	for (uint32_t i = 0; i < d->lanes_size; i++)
		if (lane_has_room(d, i, n, now_ns) &&
		    (best == d->lanes_size || d->lane[i].until < d->lane[best].until))
			best = i;
	return best;
}

/* Which devices could take @n ahead. */
static void find_room(struct sched *s, const struct graph_node *n, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		struct sched_device *d = &s->devices[i];

		d->room = d->lanes && d->ahead && lane_with_room(d, n, now_ns) < d->lanes_size;
	}
}

/* @device has an idle lane, and had none. */
static void freed(struct sched *s, uint32_t device)
{
	s->freed[s->frees++ % SCHED_FREED] = (uint16_t)device;
}

static void forget_room(struct sched *s)
{
	for (uint32_t i = 0; i < s->nr_devices; i++)
		s->devices[i].room = false;
}

/* An idle one, which need not be woken if there is one, or the one that was booked. */
static uint32_t lane_for(const struct sched *s, const struct graph_node *n, uint64_t now_ns)
{
	const struct sched_device *d = &s->devices[n->device];
	uint32_t lane = 0;
	uint64_t awake;

	if (!has_idle_lane(d))
		return lane_with_room(d, n, now_ns);
	awake = s->ops.awake && d->ahead && d->lanes > 1 ? s->ops.awake(s->arg, n->device) : 0;
	for (; awake; awake &= awake - 1) {
		lane = (uint32_t)__builtin_ctzll(awake);
		if (lane < d->lanes && !d->lane[lane].tasks)
			return lane;
	}
	lane = 0;
	while (d->lane[lane].tasks)
		lane++;
	return lane;
}

static void lane_take(struct sched *s, struct graph_node *n, uint32_t lane, uint64_t now_ns,
		      uint64_t ns)
{
	struct sched_device *d = &s->devices[n->device];
	struct sched_lane *l = &d->lane[lane];

	if (!l->tasks) {
		d->busy++;
		s->idle_lanes--;
	}
	l->until = (l->tasks ? l->until : now_ns) + ns;
	if (!l->until)
		l->until = 1;
	l->flow = n->sched.flow;
	l->context = task_context(n);
	l->tasks++;
	l->unsure += !n->sched.predicted_ns;
	n->sched.lane = lane;
	n->sched.left = false;
}

static void lane_give(struct sched *s, struct graph_node *n, uint64_t run_ns)
{
	struct sched_device *d = &s->devices[n->device];
	struct sched_lane *l = &d->lane[n->sched.lane];

	d->given_ns += run_ns;
	level_ends(&s->levels.of[n->device]);
	program_left_device(n->sched.flow, n);
	if (n->sched.part) {
		d->parts -= n->sched.part;
		d->full_ns -= n->sched.full_ns;
		d->full_until += run_ns * n->sched.part / SCHED_WHOLE - n->sched.full_ns;
		/* It may have stood idle in between. */
		if (d->full_until < s->now_ns + d->full_ns)
			d->full_until = s->now_ns + d->full_ns;
		n->sched.part = 0;
	}
	l->unsure -= !n->sched.predicted_ns;
	l->booked_ns -= n->sched.booked_ns;
	n->sched.booked_ns = 0;
	if (--l->tasks)
		return;
	l->until = 0;
	if (!has_idle_lane(d))
		freed(s, n->device);
	d->busy--;
	s->idle_lanes += d->busy < d->lanes;
}

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

static uint32_t bucket_of(const struct sched *s, uint64_t tenant)
{
	return tenant * 0x9e3779b97f4a7c15ull >> 32 & s->bucket_mask;
}

static void charge(struct sched *s, struct sched_flow *f, uint64_t run_ns);

/*
 * Before anything looks at a tenant's account, its part, or who is next: tasks that are
 * run past the queue, one like the other, are charged together.
 */
static __attribute__((noinline)) void charge_owing(struct sched *s)
{
	uint64_t ns = s->owing_ns;

	s->owing_ns = 0;
	charge(s, s->owing, ns);
}

static inline void charge_all(struct sched *s)
{
	if (__builtin_expect(s->owing_ns != 0, 0))
		charge_owing(s);
}

static __attribute__((noinline)) uint64_t level_of_busy(const struct sched *s)
{
	uint64_t least = s->nr_active ? s->active[0]->account.vtime : UINT64_MAX;

	least = level_lowest(s, &s->levels, least);
	return least == UINT64_MAX || least < s->levels.vtime ? s->levels.vtime : least;
}

/* Where one who has had nothing begins, as things are now. */
static inline uint64_t level_least(const struct sched *s)
{
	return s->running || s->nr_active ? level_of_busy(s) : s->levels.vtime_max;
}

/* Whoever is not beyond that has no more than the credit by being forgotten. */
static uint64_t level_farthest(const struct sched *s)
{
	uint64_t most = level_least(s);

	for (uint32_t i = 0; i < s->levels.nr; i++)
		if (s->levels.of[i].at > most)
			most = s->levels.of[i].at;
	return most;
}

/* For a task of @ns, as was learnt.  One before it may have been charged for more than it took. */
static struct sched_terms flow_terms(struct sched *s, struct sched_flow *f, uint64_t ns)
{
	return (struct sched_terms){
		.credit = virtual_ns(s, f, sched_credit_ns(ns, f->took_ns)),
		.waited = f->waited,
	};
}

static uint64_t flow_lifted(struct sched *s, struct sched_flow *f, uint32_t device, uint64_t ns)
{
	struct sched_terms terms = flow_terms(s, f, ns);

	return level_lifted(s, &s->levels, &f->account, device, &terms);
}

/* Tenants that have nothing here, and nothing to remember, may go. */
static void sweep_flows(struct sched *s)
{
	uint64_t far = level_farthest(s);

	waits_forget(s);
	for (uint32_t i = 0; i <= s->bucket_mask; i++) {
		struct sched_flow **p = &s->buckets[i];

		while (*p) {
			struct sched_flow *f = *p;

			if (f->used || f->running || f->blocked || f->children ||
			    f->listed ||
			    f->account.vtime > far ||
			    ((f->weight != DEFAULT_WEIGHT || f->cap) &&
			     s->round - f->told <= SCHED_ROUNDS)) {
				p = &f->hash_next;
				continue;
			}
			*p = f->hash_next;
			if (f->parent)
				f->parent->children--;
			flow_free(s, f);
			s->nr_flows--;
		}
	}
	s->last_flow = NULL;
	s->flow_limit = s->nr_flows > 128 ? 2 * s->nr_flows : 256;
}

static struct sched_flow *flow_find(const struct sched *s, uint64_t tenant)
{
	struct sched_flow *f = s->last_flow;

	if (f && f->tenant == tenant)
		return f;
	f = s->buckets[bucket_of(s, tenant)];
	while (f && f->tenant != tenant)
		f = f->hash_next;
	return f;
}

static __attribute__((cold, noinline)) struct sched_flow *flow_new(struct sched *s,
								    uint64_t tenant)
{
	struct sched_tenant t = { .id = tenant, .weight = DEFAULT_WEIGHT, .max_ns = SCHED_NO_MAX };
	struct sched_flow *f;

	charge_all(s);
	s->owing = NULL;	/* one above may have a maximum */
	if (s->nr_flows >= s->flow_limit)
		sweep_flows(s);
	f = aligned_alloc(_Alignof(struct sched_flow), sizeof(*f));
	if (!f)
		return NULL;
	memset(f, 0, sizeof(*f));
	f->tenant = tenant;
	f->weight = DEFAULT_WEIGHT;
	f->active = NOT_QUEUED;
	f->account.vtime = s->levels.vtime;
	f->hash_next = s->buckets[bucket_of(s, tenant)];
	s->buckets[bucket_of(s, tenant)] = f;
	s->nr_flows++;
	if (s->ops.tenant && s->ops.tenant(s->arg, &t) && t.weight && t.weight <= MAX_WEIGHT &&
	    (t.max_ns == SCHED_NO_MAX || t.period_ns))
		share_set(s, f, &t);
	s->last_flow = f;
	return f;
}

struct sched_flow *flow_get(struct sched *s, uint64_t tenant)
{
	struct sched_flow *f = flow_find(s, tenant);

	if (__builtin_expect(!f, 0))
		return flow_new(s, tenant);
	s->last_flow = f;
	return f;
}

int sched_tenant_set(struct sched *s, const struct sched_tenant *t)
{
	struct sched_flow *f;

	if (!t->id || t->id == t->parent || !t->weight || t->weight > MAX_WEIGHT ||
	    (t->max_ns != SCHED_NO_MAX && !t->period_ns))
		return -EINVAL;
	charge_all(s);
	s->owing = NULL;
	/* Of all tenants that there are few have tasks or a limit; the rest is asked for. */
	f = flow_find(s, t->id);
	if (!f && t->weight == DEFAULT_WEIGHT && t->max_ns == SCHED_NO_MAX &&
	    (s->ops.tenant || !t->parent))
		return 0;
	if (!f)
		f = flow_get(s, t->id);
	return f ? share_set(s, f, t) : -ENOMEM;
}

/* A bucket is written whole, or the next time; one that is larger than all of it, in part. */
uint32_t sched_tenants(const struct sched *s, uint32_t *at, uint64_t *tenants, uint32_t max)
{
	const uint32_t buckets = s->bucket_mask + 1;
	uint32_t bucket = *at % buckets, skip = *at / buckets, n = 0;

	for (; bucket < buckets; bucket++, skip = 0) {
		uint32_t i = 0;

		for (const struct sched_flow *f = s->buckets[bucket]; f; f = f->hash_next, i++) {
			if (i < skip)
				continue;
			if (n == max) {
				*at = i * buckets + bucket;
				return n;
			}
			tenants[n++] = f->tenant;
		}
	}
	*at = 0;
	return n;
}

int sched_tenant_weight(struct sched *s, uint64_t tenant, uint32_t weight)
{
	struct sched_flow *f = flow_find(s, tenant);
	struct sched_tenant t = { .id = tenant, .weight = weight, .max_ns = SCHED_NO_MAX };

	if (f && f->parent)
		t.parent = f->parent->tenant;
	if (f && f->cap) {
		t.max_ns = f->cap->max_ns;
		t.period_ns = f->cap->period_ns;
	}
	return sched_tenant_set(s, &t);
}

void sched_round(struct sched *s)
{
	s->round++;
}

uint64_t sched_tenant_device_ns(const struct sched *s, uint64_t tenant)
{
	const struct sched_flow *f = flow_find(s, tenant);

	return f ? f->device_ns + (f == s->owing ? s->owing_ns : 0) : 0;
}

/* Counted from @base; who is furthest ahead is so by a fourth of SCHED_FAR, for others to come there, too. */
static uint64_t rebased(uint64_t vtime, uint64_t base)
{
	vtime -= vtime < base ? vtime : base;
	return vtime < SCHED_FAR / 4 ? vtime : SCHED_FAR / 4;
}

/*
 * Virtual times have come to SCHED_FAR, so all begin anew: as far from each other as they are without
 * what was charged for what runs, which stays as it is: it will be given back, and replaced.
 */
static __attribute__((cold, noinline)) void rebase(struct sched *s)
{
	struct sched_levels *l = &s->levels;
	uint64_t base = UINT64_MAX;

	for (uint32_t i = 0; i <= s->bucket_mask; i++)
		for (const struct sched_flow *f = s->buckets[i]; f; f = f->hash_next)
			if ((f->used || f->running) && f->account.vtime - f->charged < base)
				base = f->account.vtime - f->charged;
	for (uint32_t i = 0; i <= s->bucket_mask; i++)
		for (struct sched_flow *f = s->buckets[i]; f; f = f->hash_next)
			f->account.vtime = rebased(f->account.vtime - f->charged, base) + f->charged;
	for (uint32_t i = 0; i < l->nr; i++) {
		l->of[i].at = rebased(l->of[i].at, base);
		l->of[i].held = rebased(l->of[i].held, base);
	}
	l->waited = l->waited == UINT64_MAX ? UINT64_MAX : rebased(l->waited, base);
	l->vtime = rebased(l->vtime, base);
	l->vtime_max = rebased(l->vtime_max, base);
}

/* @f has used what it was charged: where nobody is left, all begin anew. */
static void flow_settled(struct sched *s, const struct sched_flow *f)
{
	struct sched_levels *l = &s->levels;

	if (l->vtime_max < f->account.vtime)
		l->vtime_max = f->account.vtime;
	if (__builtin_expect(f->account.vtime > SCHED_FAR, 0))
		rebase(s);
	if (s->queued || s->running)
		return;
	l->vtime = l->vtime_max;
	if (__builtin_expect(l->lifts, 0))
		level_anew(l);
}

/* Who had nothing here begins where the others are. */
static void flow_comes(const struct sched *s, struct sched_flow *f)
{
	uint64_t least = level_least(s), by;

	if (f->account.vtime >= least)
		return;
	by = least - f->account.vtime;
	f->account.vtime = least;
	if (__builtin_expect(s->levels.lifts, 0))
		level_moved(&s->levels, &f->account, by);
}

/* ------------------------------------------------------------------ */
/* The heap of tenants with tasks                                      */

static bool flow_before(const struct sched_flow *a, const struct sched_flow *b)
{
	if (a->account.vtime != b->account.vtime)
		return a->account.vtime < b->account.vtime;
	return task_before(a->first, b->first);
}

static void flow_place(struct sched *s, uint32_t i, struct sched_flow *f)
{
	s->active[i] = f;
	f->active = i;
}

static void flow_fix(struct sched *s, uint32_t i, struct sched_flow *f)
{
	uint32_t child;

	f->first = program_next(f)->tasks[0];
	for (; i && flow_before(f, s->active[(i - 1) / 2]); i = (i - 1) / 2)
		flow_place(s, i, s->active[(i - 1) / 2]);
	for (; (child = 2 * i + 1) < s->nr_active; i = child) {
		if (child + 1 < s->nr_active &&
		    flow_before(s->active[child + 1], s->active[child]))
			child++;
		if (flow_before(f, s->active[child]))
			break;
		flow_place(s, i, s->active[child]);
	}
	flow_place(s, i, f);
}

static bool flow_room(struct sched *s)
{
	uint32_t size = s->active_size ? s->active_size * 2 : 64;
	struct sched_flow **active;

	if (s->nr_active < s->active_size)
		return true;
	active = realloc(s->active, size * sizeof(*active));
	if (!active)
		return false;
	s->active = active;
	s->active_size = size;
	return true;
}

static void flow_activate(struct sched *s, struct sched_flow *f)
{
	flow_fix(s, s->nr_active++, f);
}

static void flow_deactivate(struct sched *s, struct sched_flow *f)
{
	uint32_t i = f->active;
	struct sched_flow *last = s->active[--s->nr_active];

	f->active = NOT_QUEUED;
	if (last != f)
		flow_fix(s, i, last);
}

/* @f's virtual time or first task has changed. */
static void flow_changed(struct sched *s, struct sched_flow *f)
{
	if (f->active == NOT_QUEUED)
		return;
	if (!f->used)
		flow_deactivate(s, f);
	else
		flow_fix(s, f->active, f);
}

/* ------------------------------------------------------------------ */
/* Calls                                                               */

static bool is_started(const struct graph_node *n)
{
	return n->sched.lane == SCHED_STARTED;
}

static bool begun_room(struct sched_flow *f)
{
	uint32_t size = f->begun_size ? 2 * f->begun_size : 8;
	struct graph_node **begun;

	if (f->started < f->begun_size)
		return true;
	begun = realloc(f->begun, size * sizeof(*begun));
	if (!begun)
		return false;
	f->begun = begun;
	f->begun_size = size;
	return true;
}

static __attribute__((cold)) void begun_remove(struct sched_flow *f, const struct graph_node *n)
{
	uint32_t i = 0;

	while (f->begun[i] != n)
		i++;
	f->begun[i] = f->begun[--f->started];
}

static uint64_t due(const struct graph_node *n, uint64_t now_ns)
{
	return sched_due(n->d.priority, n->d.deadline_ns, now_ns);
}

int sched_push(struct sched *s, struct graph_node *node, uint64_t now_ns)
{
	struct sched_flow *f = flow_get(s, node->d.tenant);
	struct sched_program *p = f ? program_get(s, f, task_context(node)) : NULL;

	if (!p || !program_room(f, p) || !flow_room(s))
		return -ENOMEM;
	charge_all(s);
	told_time(s, now_ns);
	node->sched.flow = f;
	node->sched.program = p;
	node->sched.lane = 0;
	node->sched.push_ns = now_ns;
	node->sched.due = due(node, now_ns);
	program_comes(s, f, p, node);
	program_put(f, node);
	if (s->ops.tight)
		follow_queued(s, node);
	waits_comes(s, f);
	s->queued++;
	s->stuck = false;
	if (f->active != NOT_QUEUED) {
		flow_changed(s, f);
		return 0;
	}
	if (f->blocked)
		return 0;
	if (f->parent && !f->counted)
		share_count(s, f);
	if (f->busy_children)
		s->tree_version++;
	if (!f->running) {
		f->waited = false;
		flow_comes(s, f);
	}
	flow_activate(s, f);
	return 0;
}

/* What counts @n as to come does no longer. */
static __attribute__((cold, noinline)) void leave_outlook(struct sched *s, struct graph_node *n,
							   uint64_t end_ns)
{
	if (s->policy->left)
		s->policy->left(s, n, end_ns);
	n->sched.outlook = 0;
}

void sched_ended(struct sched *s, const struct graph_node *node)
{
	if (node->sched.outlook && s->policy->left)
		s->policy->left(s, node, 0);
}

void sched_remove(struct sched *s, struct graph_node *node)
{
	struct sched_flow *f = node->sched.flow;
	struct sched_program *p = node->sched.program;

	if (__builtin_expect(node->sched.outlook != 0, 0))
		leave_outlook(s, node, 0);
	if (!f || node->sched.index == NOT_QUEUED)
		return;
	program_take(f, node);
	if (s->follows)
		follow_gone(s, node);
	if (__builtin_expect(is_started(node), 0))
		begun_remove(f, node);
	node->sched.flow = NULL;
	node->sched.program = NULL;
	waits_goes(s, f);
	s->queued--;
	s->stuck = false;
	flow_changed(s, f);
	flow_settled(s, f);
	program_settled(f, p);
	if (f->counted)
		share_uncount(s, f);
	program_left(s, p);
}

void sched_near(struct sched *s, uint32_t near)
{
	s->near = near;
	s->frees += SCHED_FREED + 1;
	/* Who would rather have waited for one may not wait for another. */
	s->stuck = false;
}

uint64_t sched_plans(const struct sched *s)
{
	return __atomic_load_n(&s->plans, __ATOMIC_RELAXED);
}

uint32_t sched_choose(struct sched *s, struct graph_node *node, uint64_t now_ns)
{
	struct sched_flow *before = node->sched.flow;
	uint32_t device = SCHED_NO_DEVICE;

	node->sched.flow = before ? before : flow_get(s, node->d.tenant);
	if (node->sched.flow)
		device = s->policy->choose(s, node, now_ns);
	node->sched.flow = before;
	return device;
}

/* Waiting for another configuration is no preference: those behind may have the right one. */
static bool idle_could_run(struct sched *s, const struct graph_node *n, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->nr_devices; i++)
		if (device_idle(&s->devices[i]) && can_run(s, n, i) &&
		    !stays_until(&s->devices[i], switch_ns(s, n, i), now_ns))
			return true;
	return false;
}

/* @n waits.  Whether all devices that are idle are slow for it: then they are nothing to it. */
static bool waits_for_speed(struct sched *s, struct graph_node *n)
{
	uint64_t best = UINT64_MAX, idle = UINT64_MAX;

	if (s->told == n)
		return s->told_speed;
	for (uint32_t i = 0; i < s->nr_devices; i++) {
		uint64_t ns = can_run(s, n, i) ?
				      model_predict_ns(&s->model, model_id(task_kind(n), i)) : 0;

		if (ns && ns < best)
			best = ns;
		if (ns && ns < idle && device_idle(&s->devices[i]))
			idle = ns;
	}
	return idle != UINT64_MAX && idle / SCHED_SLOWER >= best;
}

/* A task that has begun is no policy's matter any more. */
static uint32_t where_it_was(const struct sched *s, const struct graph_node *n)
{
	return has_idle_lane(&s->devices[n->device]) ? n->device : SCHED_NO_DEVICE;
}

/* Through a tenant's tasks, so many of each of its programs. */
struct cursor {
	uint32_t program, task;
};

static struct graph_node *next_task(const struct sched_flow *f, struct cursor *c, uint32_t each)
{
	for (; c->program < f->nr_programs; c->program++, c->task = 0) {
		const struct sched_program *p = program_at(f, c->program);

		if (c->task < p->used && c->task < each)
			return p->tasks[c->task++];
	}
	return NULL;
}

/* If @all are looked at, of each program of @f so many; one at least. */
static uint32_t of_each(const struct sched_flow *f, uint32_t all)
{
	return f->nr_programs && all > f->nr_programs ? all / f->nr_programs : 1;
}

/* Contexts that have begun something, of one tenant. */
struct begun {
	uint64_t contexts[LOOK_BEGUN];
	uint32_t nr;
};

static void find_begun(const struct sched_flow *f, struct begun *b)
{
	b->nr = f->started < LOOK_BEGUN ? f->started : LOOK_BEGUN;
	for (uint32_t i = 0; i < b->nr; i++)
		b->contexts[i] = task_context(f->begun[i]);
}

static bool has_begun(const struct begun *b, uint64_t context)
{
	for (uint32_t i = 0; i < b->nr; i++)
		if (b->contexts[i] == context)
			return true;
	return false;
}

/*
 * Of those of other programs than @context's that are due by @due, the one that has waited longest:
 * a program is heard for what it has begun, if there is something.  It could run on @device;
 * SCHED_NO_DEVICE: on some device, now.  @fresh: or could begin.
 */
static struct graph_node *next_of_others(struct sched *s, const struct sched_flow *f,
					 uint64_t context, uint64_t due, uint32_t device,
					 bool fresh)
{
	uint32_t each = of_each(f, LOOK_OWN);
	struct graph_node *best = NULL, *n;
	struct cursor at = { 0 };
	struct begun begun;

	find_begun(f, &begun);
	while ((n = next_task(f, &at, each))) {
		bool can;

		if (task_context(n) == context || n->sched.due > due ||
		    (best && n->sched.push_ns >= best->sched.push_ns))
			continue;
		if (is_started(n))
			can = device == SCHED_NO_DEVICE ? has_idle_lane(&s->devices[n->device]) :
							  n->device == device;
		else
			can = fresh && !has_begun(&begun, task_context(n)) &&
			      (device == SCHED_NO_DEVICE || can_run(s, n, device));
		if (can)
			best = n;
	}
	return best;
}

/* One program's task has run for long and made way: for a while others' go before it. */
static __attribute__((cold)) struct graph_node *pick_others(struct sched *s, struct sched_flow *f,
							    uint64_t now_ns)
{
	struct graph_node *n = NULL;

	if (now_ns < f->away_until)
		n = next_of_others(s, f, f->away,
				   sched_due(f->away_priority, f->away_deadline, now_ns),
				   SCHED_NO_DEVICE, f->away_fresh);
	else
		f->away_until = 0;
	if (n && !is_started(n))
		n->device = s->policy->choose(s, n, now_ns);
	if (!n || n->device == SCHED_NO_DEVICE)
		return NULL;
	program_take(f, n);
	return n;
}

static __attribute__((cold)) struct graph_node *pick_started(const struct sched *s,
							     struct sched_flow *f)
{
	struct graph_node *first = NULL;

	for (uint32_t i = 0; i < f->started; i++) {
		struct graph_node *n = f->begun[i];

		if (where_it_was(s, n) != SCHED_NO_DEVICE && (!first || task_before(n, first)))
			first = n;
	}
	if (first)
		program_take(f, first);
	return first;
}

/*
 * What may still wait, or be passed over since it would be lifted, before a pick is over.
 * @first: the least tag of those passed over so; @last: nobody is, any more; @asked: who is not
 * before that one is, whether lifted or not.
 */
struct waits {
	uint32_t tenants, tasks, lifted;
	uint64_t first;
	bool last, asked;
};

/* The least start tag of those behind the first in the heap. */
static uint64_t next_vtime(const struct sched *s)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 1; i < s->nr_active && i <= 2; i++)
		if (s->active[i]->account.vtime < least)
			least = s->active[i]->account.vtime;
	return least;
}

/*
 * Whether @n of @f, the first one in the heap, would be lifted on @device to where it may be
 * another one's turn, so that those are asked before it.
 */
static bool is_later(struct sched *s, struct sched_flow *f, struct graph_node *n, uint32_t device,
		     const struct waits *waits)
{
	uint64_t at, ns;

	if (__builtin_expect(f->account.vtime >= s->levels.of[device].at && !s->levels.lifts &&
			     !waits->asked, 1) ||
	    waits->last)
		return false;
	ns = model_predict_ns(&s->model, model_id(task_kind(n), device));
	at = flow_lifted(s, f, device, ns);
	if (waits->asked ? at < waits->first :
			   at <= f->account.vtime ||
			   (at <= waits->first && at <= next_vtime(s)))
		return false;
	f->later = at;
	if (s->chosen == n)
		s->chosen = NULL;
	return true;
}

/**
 * struct search - for the first task of a tenant that finds a device
 * @waits:	of the pick
 * @tried, @nr:	those that found none, until it is over
 * @waiting:	so many may still have an idle device that could run them, and wait
 * @later, @nr_later: programs that would be lifted, so that others are asked before them; the
 *		latest one, and how many
 * @first:	that of them which would be first
 * @device:	that it found
 * @in_turn:	it goes by its turn
 */
struct search {
	struct waits *waits;
	struct graph_node *tried[LOOK_AHEAD];
	uint32_t nr, nr_later, waiting;
	struct sched_program *later, *first;
	uint32_t device;
	bool in_turn;
};

static inline __attribute__((always_inline)) bool finds_device(struct sched *s, struct search *l,
							       struct graph_node *n,
							       uint64_t now_ns)
{
	if (__builtin_expect(s->booking, 0))
		find_room(s, n, now_ns);
	s->told = NULL;
	l->device = is_started(n) ? where_it_was(s, n) : s->policy->choose(s, n, now_ns);
	return l->device != SCHED_NO_DEVICE;
}

/* @n of @p waits, although an idle device could run it. */
static void prefers_to_wait(struct sched *s, struct sched_flow *f, struct sched_program *p,
			    struct graph_node *n, struct search *l)
{
	l->waiting--;
	l->waits->tasks -= !waits_for_speed(s, n);
	if (!f->levels.nr || p->by_due)
		return;
	p->waited = true;
	if (program_turn(p) < f->levels.waited)
		f->levels.waited = program_turn(p);
}

/* Others than @p, which would be lifted, are asked before it. */
static void put_off(struct sched *s, struct sched_flow *f, struct search *l,
		    struct sched_program *p)
{
	if (s->chosen == p->tasks[0])
		s->chosen = NULL;
	program_hide(f, p);
	p->later_next = l->later;
	l->later = p;
	l->nr_later++;
	if (!l->first || p->later < l->first->later)
		l->first = p;
}

/* The turn of the first one that was put off has come. */
static __attribute__((cold, noinline)) struct graph_node *take_first(struct sched *s,
								      struct search *l,
								      uint64_t now_ns)
{
	struct graph_node *n = l->first->tasks[0];

	l->in_turn = true;
	l->first->later = 0;
	l->first = NULL;
	for (struct sched_program *p = l->later; p; p = p->later_next)
		if (p->later && (!l->first || p->later < l->first->later))
			l->first = p;
	return finds_device(s, l, n, now_ns) ? n : NULL;
}

/* Whether @p finds a device, and would have its turn there before @turn; that is its own then. */
static bool is_before(struct sched *s, struct sched_flow *f, struct search *l,
		      struct sched_program *p, uint64_t *turn, uint64_t now_ns)
{
	struct graph_node *n = p->tasks[0];
	uint64_t at;

	if (!finds_device(s, l, n, now_ns))
		return false;
	if (s->chosen == n)
		s->chosen = NULL;
	at = program_turn_at(s, f, p, l->device);
	if (at >= *turn)
		return false;
	*turn = at;
	return true;
}

/*
 * There are more programs than a search asks.  Those behind would wait for the first ones to have
 * had as much, which these may not even want here: so some of them are asked in turn, and who was
 * found so for a device that is idle.
 */
static __attribute__((cold, noinline)) struct graph_node *ask_others(struct sched *s,
								      struct sched_flow *f,
								      struct search *l,
								      uint64_t now_ns)
{
	uint64_t turn = l->first ? l->first->later : UINT64_MAX;
	struct sched_program *p, *best = NULL;

	for (uint32_t i = 0; i < f->levels.nr; i++) {
		p = f->levels.of[i].found;
		if (p && program_waits(p) && has_idle_lane(&s->devices[i]) &&
		    is_before(s, f, l, p, &turn, now_ns))
			best = p;
	}
	for (uint32_t i = 0; i < LOOK_OTHERS && i < f->turns.nr; i++) {
		p = f->turns.v[f->asked++ % f->turns.nr];
		if (is_before(s, f, l, p, &turn, now_ns))
			best = p;
	}
	if (!best || !finds_device(s, l, best->tasks[0], now_ns))
		return NULL;
	l->in_turn = true;
	if (l->device < f->levels.nr)
		f->levels.of[l->device].found = best;
	return best->tasks[0];
}

/* It is where it was; its device is @l->device.  NULL: none found one */
static struct graph_node *search(struct sched *s, struct sched_flow *f, struct search *l,
				 uint64_t now_ns)
{
	/* So that there are some left for each, also of those that only wait. */
	uint32_t each = f->nr_programs > 1 ? of_each(f, LOOK_WAITING) : LOOK_AHEAD, left = each;
	bool several = f->nr_programs > 1;
	struct graph_node *n = NULL;

	while (f->nr_programs && l->nr < LOOK_AHEAD && l->nr_later < LOOK_LATER && l->waiting &&
	       l->waits->tasks) {
		struct sched_program *p = program_next(f);

		l->in_turn = program_by_turn(f, p);
		if (__builtin_expect(l->first && l->in_turn &&
				     l->first->later <= program_turn(p), 0)) {
			n = take_first(s, l, now_ns);
			if (n)
				return n;
			continue;
		}
		n = p->tasks[0];
		if (finds_device(s, l, n, now_ns)) {
			if (!f->levels.nr || !l->in_turn ||
			    !program_is_later(s, f, p, l->device,
					      l->first ? l->first->later : UINT64_MAX))
				return n;
			put_off(s, f, l, p);
			left = each;
			continue;
		}
		if (!is_started(n) && idle_could_run(s, n, now_ns))
			prefers_to_wait(s, f, p, n, l);
		program_take(f, n);
		l->tried[l->nr++] = n;
		/* Who finds nothing for some of its tasks keeps nobody from finding something. */
		if (--left)
			continue;
		if (p->used)
			program_hide(f, p);
		left = each;
	}
	n = several && f->turns.nr && !s->booking ? ask_others(s, f, l, now_ns) : NULL;
	while (!n && l->first)
		n = take_first(s, l, now_ns);
	return n;
}

/* All that were taken out of the heaps for it are there again. */
static void search_over(struct sched_flow *f, struct search *l)
{
	while (l->nr)
		program_put(f, l->tried[--l->nr]);
	for (; __builtin_expect(!!l->later, 0); l->later = l->later->later_next) {
		l->later->later = 0;
		program_show(f, l->later);
	}
}

/*
 * The first task of @f that finds a device, which is set.  If it would be lifted there, others
 * may be first: then NULL, and @f->later is set.
 */
static struct graph_node *pick_from(struct sched *s, struct sched_flow *f, uint64_t now_ns,
				    struct waits *waits)
{
	uint32_t asked = f->asked;
	struct graph_node *n;
	struct search l;

	if (__builtin_expect(f->away_until != 0, 0) && !s->booking) {
		n = pick_others(s, f, now_ns);
		if (n)
			return n;
	}
	f->levels.waited = UINT64_MAX;
	l.waits = waits;
	l.waiting = LOOK_WAITING;
	l.nr = 0;
	l.nr_later = 0;
	l.later = NULL;
	l.first = NULL;
	n = search(s, f, &l, now_ns);
	if (l.waiting < LOOK_WAITING) {
		waits->tenants--;
		f->waited = true;
		if (f->account.vtime < s->levels.waited)
			s->levels.waited = f->account.vtime;
	}
	if (n && is_later(s, f, n, l.device, waits)) {
		/* The next search begins with the same ones. */
		f->asked = asked;
		n = NULL;
	} else if (n) {
		if (f->levels.nr && l.in_turn)
			program_in_turn(s, f, n, l.device);
		if (__builtin_expect(s->follows && !s->booking, 0))
			n = follow(s, f, n, l.device, now_ns);
		n->device = l.device;
		program_take(f, n);
	}
	search_over(f, &l);
	/* Those that have begun may have to go on for others to begin. */
	if (__builtin_expect(!n && f->started, 0) && !s->booking && !f->later)
		n = pick_started(s, f);
	return n;
}

/* Its size is new here; others may tell. */
static __attribute__((cold)) uint64_t forecast_ns(struct sched *s, struct graph_node *n)
{
	uint32_t confidence;

	return model_forecast_ns(&s->model, model_id(task_kind(n), n->device), sched_work(n),
				 &confidence);
}

/* ------------------------------------------------------------------ */
/* Those whose maximum is used up                                      */

/* Whether @f has to wait for a period to come. */
static __attribute__((cold)) bool flow_block(struct sched *s, struct sched_flow *f)
{
	uint64_t until = cap_until(s, f);

	if (until <= s->now_ns)
		return false;
	f->blocked = true;
	if (f->waits)
		cap_hold(s, f);
	/* What it can't use now is its siblings'. */
	if (f->counted || f->busy_children)
		share_uncount(s, f);
	f->blocked_until = until;
	f->blocked_next = s->blocked;
	s->blocked = f;
	if (until < s->wake_ns)
		s->wake_ns = until;
	return true;
}

/*
 * Time was given back, so that some may have to wait no longer, or not for so long.  Who has many wait
 * gives back often as well.
 */
static __attribute__((cold)) void look_at_blocked(struct sched *s)
{
	uint64_t at = s->looked_ns + LOOK_BLOCKED_NS;

	s->given_back = true;
	at = at > s->now_ns ? at : s->now_ns;
	s->wake_ns = at < s->wake_ns ? at : s->wake_ns;
}

static __attribute__((cold)) void wake(struct sched *s, uint64_t now_ns)
{
	struct sched_flow **p = &s->blocked;
	const bool given_back = s->given_back;

	s->given_back = false;
	s->looked_ns = s->now_ns;
	s->wake_ns = UINT64_MAX;
	while (*p) {
		struct sched_flow *f = *p;

		if (__builtin_expect(given_back, 0))
			f->blocked_until = cap_until(s, f);
		if (f->blocked_until > now_ns || (f->used && !flow_room(s))) {
			if (f->blocked_until < s->wake_ns)
				s->wake_ns = f->blocked_until;
			p = &f->blocked_next;
			continue;
		}
		*p = f->blocked_next;
		f->blocked = false;
		cap_let_go(s, f);
		s->stuck = false;
		/* What it missed meanwhile was not its own. */
		flow_comes(s, f);
		if (!f->used)
			continue;
		share_count(s, f);
		if (f->busy_children)
			s->tree_version++;
		flow_activate(s, f);
	}
}

void sched_wake_all(struct sched *s)
{
	wake(s, UINT64_MAX);
}

uint64_t sched_next_wake(const struct sched *s)
{
	/* Whose tasks are gone waits for nothing: nobody would call sched_pick(). */
	if (!s->queued)
		return UINT64_MAX;
	/* While all devices are gone there is nothing to think of. */
	return s->thinking && s->idle_lanes ? 0 : s->wake_ns;
}

bool sched_may_skip(struct sched *s, uint64_t tenant)
{
	const struct sched_flow *f;

	if (!sched_is_idle(s))
		return false;
	if (__builtin_expect(!s->capped, 1))
		return true;
	f = flow_get(s, tenant);
	return f && !f->capped;
}

/* ------------------------------------------------------------------ */

/* @n was picked: what its device takes to be ready for it. */
static uint64_t switching_for(struct sched *s, const struct graph_node *n, uint64_t now_ns)
{
	uint64_t ns = switch_ns(s, n, n->device);

	if (ns)
		s->devices[n->device].switched_ns = now_ns;
	return ns;
}

/* Of those passed over: whose turn it is where it would be lifted to; the next one in its place. */
static __attribute__((cold, noinline)) struct graph_node *pick_later(struct sched *s,
								      struct sched_flow **later,
								      uint32_t all, uint64_t now_ns)
{
	struct sched_flow *f = *later;
	struct waits waits = { .tenants = 1, .tasks = LOOK_WAITING, .last = true };

	f->later = 0;
	*later = NULL;
	for (uint32_t i = s->nr_active; i < all; i++) {
		struct sched_flow *g = s->active[i];

		if (g->later && (!*later || g->later < (*later)->later))
			*later = g;
	}
	return pick_from(s, f, now_ns, &waits);
}

/* More would be lifted than a pick passes over: as in ask_others(), who is before @first. */
static __attribute__((cold, noinline)) struct graph_node *ask_tenants(struct sched *s,
								       uint64_t first,
								       uint64_t now_ns)
{
	struct waits waits = {
		.tenants = LOOK_OTHERS, .tasks = LOOK_WAITING, .first = first, .asked = true,
	};
	struct graph_node *n = NULL;

	for (uint32_t i = 0; i < LOOK_OTHERS && i < s->nr_active && !n && waits.tasks; i++) {
		struct sched_flow *f = s->active[s->asked++ % s->nr_active];

		if (f->capped && cap_until(s, f) > s->now_ns)
			continue;
		n = pick_from(s, f, now_ns, &waits);
		f->later = 0;
	}
	return n;
}

/*
 * The first task, of whoever's turn it is, that finds a device.  Those passed over gather
 * behind the heap's end, in the places that it gave up.
 */
static struct graph_node *pick(struct sched *s, uint64_t now_ns)
{
	struct waits waits = { LOOK_WAITERS, LOOK_WAITING, LOOK_LIFTED, UINT64_MAX, false, false };
	uint32_t all = s->nr_active;
	struct sched_flow *later = NULL;
	struct graph_node *n = NULL;

	while (s->nr_active && waits.tenants && waits.tasks && waits.lifted) {
		struct sched_flow *f = s->active[0];

		if (__builtin_expect(later && later->later <= f->account.vtime, 0)) {
			n = pick_later(s, &later, all, now_ns);
			if (n)
				break;
			continue;
		}
		waits.first = later ? later->later : UINT64_MAX;
		n = f->capped && flow_block(s, f) ? NULL : pick_from(s, f, now_ns, &waits);
		if (n)
			break;
		flow_deactivate(s, f);
		s->active[s->nr_active] = f;
		waits.lifted -= !!f->later;
		if (f->later && (!later || f->later < later->later))
			later = f;
	}
	if (__builtin_expect(!waits.lifted && !n && later, 0))
		n = ask_tenants(s, later->later, now_ns);
	while (__builtin_expect(later && !n, 0))
		n = pick_later(s, &later, all, now_ns);
	/* The lowest of those places is the latest one, so go upwards. */
	for (uint32_t i = s->nr_active; i < all; i++) {
		s->active[i]->later = 0;
		if (s->active[i]->used && !s->active[i]->blocked)
			flow_activate(s, s->active[i]);
	}
	return n;
}

/* Those whose turn it is wait for other devices than those that are idle. */
static struct graph_node *pick_spare(struct sched *s, uint64_t now_ns)
{
	uint32_t looked = 0;

	for (uint32_t i = 0; i < s->nr_active && looked < LOOK_SPARE; i++) {
		struct sched_flow *f = s->active[i];

		looked++;
		if (f->capped && cap_until(s, f) > s->now_ns)
			continue;
		for (uint32_t j = 0; j < f->nr_programs && j < LOOK_SPARE; j++) {
			const struct sched_program *p = program_at(f, j);
			struct graph_node *n = s->policy->spare(s, p->tasks, p->used, now_ns);

			if (!n)
				continue;
			program_in_turn(s, f, n, n->device);
			program_take(f, n);
			return n;
		}
	}
	return NULL;
}

/*
 * The device's capacity is one, however many lanes it has: how much longer the lane is taken than
 * @lane_ns for what is there already.
 */
static uint64_t capacity_take(struct sched *s, struct graph_node *n, uint64_t lane_ns,
			      uint64_t now_ns)
{
	struct sched_device *d = &s->devices[n->device];
	uint64_t ns = n->sched.predicted_ns ? n->sched.predicted_ns : SCHED_GUESS_NS, begin, at;

	n->sched.part = s->ops.part(s->arg, n, n->device);
	if (!n->sched.part)
		return 0;
	at = capacity_at(d, now_ns);
	begin = now_ns + lane_ns - ns;
	if (!d->parts)
		d->full_until = now_ns;
	d->parts += n->sched.part;
	n->sched.full_ns = ns * n->sched.part / SCHED_WHOLE;
	d->full_ns += n->sched.full_ns;
	d->full_until += n->sched.full_ns;
	return at > begin ? at - begin : 0;
}

/* @n runs, and is charged @ns until it is known how long it has. */
static void charge_for_now(struct sched *s, struct graph_node *n, uint64_t ns)
{
	struct sched_flow *f = n->sched.flow;
	uint64_t v = virtual_ns(s, f, ns), room = SCHED_MOST_CHARGED - f->charged;

	n->sched.charged = v < room ? v : room;
	f->charged += n->sched.charged;
	f->account.vtime += n->sched.charged;
}

/* That is known now. */
static inline void uncharge(struct sched_flow *f, const struct graph_node *n)
{
	f->charged -= n->sched.charged;
	f->account.vtime -= n->sched.charged;
}

/* It was, or booked: what that means for its tenant and its device. */
static void placed(struct sched *s, struct graph_node *n, uint32_t lane, uint64_t now_ns)
{
	struct sched_flow *f = n->sched.flow;
	uint64_t predicted = model_predict_ns(&s->model, model_id(task_kind(n), n->device));
	const uint64_t known = predicted;

	if (__builtin_expect(s->follows, 0))
		follow_gone(s, n);
	if (__builtin_expect(!predicted, 0))
		predicted = forecast_ns(s, n);
	/* How long it takes from now on nobody knows. */
	if (__builtin_expect(is_started(n), 0)) {
		predicted = 0;
		begun_remove(f, n);
	}
	n->sched.predicted_ns = predicted;
	predicted = predicted ? predicted : SCHED_GUESS_NS;
	if (__builtin_expect(f->account.vtime > SCHED_FAR, 0))
		rebase(s);
	if (__builtin_expect(!level_is_at(s, &s->levels, &f->account, n->device, 0), 0)) {
		/* A size that was never seen may be said to take days: nobody has credit for that. */
		struct sched_terms terms = flow_terms(s, f, known);

		level_lift(s, &s->levels, &f->account, n->device, &terms, 0);
	}
	level_begins(&s->levels.of[n->device], &f->account);
	charge_for_now(s, n, predicted);
	program_picked(s, f, n, predicted, now_ns);
	if (f->capped)
		cap_charge(s, f, predicted, 0, 0);
	f->running++;
	s->running++;
	/* The lane is kept while the data comes as well, and the device made ready. */
	if (s->ops.transfer_ns)
		predicted += s->ops.transfer_ns(s->arg, n, n->device);
	if (s->ops.switch_ns)
		predicted += switching_for(s, n, now_ns);
	if (s->ops.part)
		predicted += capacity_take(s, n, predicted, now_ns);
	lane_take(s, n, lane, now_ns, predicted);
	s->stuck = false;
	flow_changed(s, f);
	if (__builtin_expect(n->sched.outlook != 0, 0))
		leave_outlook(s, n, s->devices[n->device].lane[lane].until);
	if (s->chosen == n)
		s->policy->placed(s, n);
	s->chosen = NULL;
}

static void picked(struct sched *s, struct graph_node *n, uint64_t now_ns)
{
	s->queued--;
	waits_goes(s, n->sched.flow);
	placed(s, n, lane_for(s, n, now_ns), now_ns);
}

/* How long it would take, if it may be behind what is on the lane; else 0. */
static uint64_t may_book(struct sched *s, struct graph_node *n, uint32_t device, uint32_t lane)
{
	const struct sched_device *d = &s->devices[device];
	const struct sched_lane *l = &d->lane[lane];
	struct sched_forecast f = sched_forecast(s, sched_kernel_key(n), device, sched_work(n));
	uint64_t ns = f.runs >= SCHED_MIN_RUNS || f.confidence >= SCHED_CONFIDENT ? f.ns : 0;
	/* If there is one it runs, and is behind nobody. */
	uint64_t behind = l->tasks > 1 ? l->booked_ns : 0;

	if (!l->tasks || l->tasks > d->ahead || l->flow != n->sched.flow ||
	    l->context != task_context(n) || behind + ns > SCHED_BOOK_NS)
		return 0;
	return ns;
}

bool sched_would_have(struct sched *s, struct graph_node *n, uint32_t device, uint64_t now_ns)
{
	bool would, choice = false;

	for (uint32_t i = 0; i < s->nr_devices && !choice; i++)
		choice = i != device && can_run(s, n, i);
	if (!choice || !s->policy->may_ask)
		return !choice && can_run(s, n, device);
	s->booking = s->asking = true;
	s->devices[device].room = true;
	would = s->policy->choose(s, n, now_ns) == device;
	s->booking = s->asking = false;
	forget_room(s);
	return would;
}

int sched_book(struct sched *s, struct graph_node *node, uint32_t device, uint32_t lane,
	       uint64_t now_ns)
{
	struct sched_flow *f;
	uint64_t ns;

	told_time(s, now_ns);
	if (s->queued || device >= s->nr_devices || lane >= s->devices[device].lanes)
		return -EAGAIN;
	f = flow_find(s, node->d.tenant);
	if (!f)
		return -EAGAIN;
	node->sched.program = program_get(s, f, task_context(node));
	if (!node->sched.program)
		return -EAGAIN;
	charge_all(s);
	node->sched.flow = f;
	ns = may_book(s, node, device, lane);
	if (!ns || (f->capped && cap_until(s, f) > now_ns) ||
	    !sched_would_have(s, node, device, now_ns)) {
		node->sched.flow = NULL;
		node->sched.program = NULL;
		return -EAGAIN;
	}
	program_comes(s, f, node->sched.program, node);
	node->sched.booked_ns = ns;
	s->devices[device].lane[lane].booked_ns += ns;
	node->device = device;
	node->sched.index = NOT_QUEUED;
	node->sched.lane = 0;
	node->sched.push_ns = now_ns;
	node->sched.due = due(node, now_ns);
	s->levels.waited = f->levels.waited = UINT64_MAX;
	program_in_turn(s, f, node, device);
	placed(s, node, lane, now_ns);
	return 0;
}

static struct graph_node *none_found(struct sched *s)
{
	if (__builtin_expect(s->came != NULL, 0))
		waits_begin(s);
	return NULL;
}

struct graph_node *sched_pick(struct sched *s, uint64_t now_ns)
{
	struct graph_node *n = NULL;

	told_time(s, now_ns);
	if (__builtin_expect(now_ns >= s->wake_ns, 0)) {
		charge_all(s);
		wake(s, now_ns);
	}
	if (!s->queued || !(s->idle_lanes || s->ahead) ||
	    (s->stuck && now_ns - s->stuck_ns < STUCK_NS))
		return none_found(s);
	charge_all(s);
	s->thinking = false;
	s->levels.waited = UINT64_MAX;
	if (s->idle_lanes)
		n = pick(s, now_ns);
	if (!n && s->idle_lanes)
		n = only_pick(s, now_ns);
	if (!n && s->idle_lanes && s->policy->spare)
		n = pick_spare(s, now_ns);
	if (!n && s->ahead) {
		s->booking = true;
		n = pick(s, now_ns);
		s->booking = false;
		forget_room(s);
	}
	if (n) {
		picked(s, n, now_ns);
	} else {
		s->stuck = !s->thinking;
		s->stuck_ns = now_ns;
		none_found(s);
	}
	return n;
}

/* Replace what was charged at the pick by what it was. */
static inline void charge_ran(struct sched *s, const struct graph_node *node, uint64_t run_ns)
{
	uint64_t guess = node->sched.predicted_ns ? node->sched.predicted_ns : SCHED_GUESS_NS;
	struct sched_flow *f = node->sched.flow;

	f->account.vtime += virtual_ns(s, f, run_ns);
	uncharge(f, node);
	program_charge(f, node->sched.program, run_ns - guess);
	if (!f->capped)
		return;
	cap_charge(s, f, run_ns, guess, run_ns);
	if (run_ns < guess && s->blocked)
		look_at_blocked(s);
}

void sched_leave(struct sched *s, struct graph_node *node, uint64_t run_ns)
{
	lane_give(s, node, run_ns);
	node->sched.left = true;
	s->stuck = false;
}

static inline uint64_t taken(uint64_t took_ns, uint64_t run_ns)
{
	return run_ns > took_ns / 2 ? run_ns : took_ns / 2;
}

/* It has had its lane for so long. */
static inline void has_taken(struct sched_flow *f, struct sched_program *p, uint64_t run_ns)
{
	f->took_ns = taken(f->took_ns, run_ns);
	p->took_ns = taken(p->took_ns, run_ns);
}

static inline void charge_task(struct sched *s, const struct graph_node *node, uint64_t run_ns)
{
	if (node->sched.flow->capped)
		cap_keep(s, node, run_ns);
	charge_ran(s, node, run_ns);
}

void sched_finish(struct sched *s, struct graph_node *node, uint64_t run_ns,
		  bool learn)
{
	struct sched_program *p = node->sched.program;
	struct sched_flow *f = node->sched.flow;

	charge_all(s);
	if (__builtin_expect(!node->sched.left, 1))
		lane_give(s, node, run_ns);
	charge_task(s, node, run_ns);
	has_taken(f, p, run_ns);
	f->device_ns += run_ns;
	p->running--;
	f->running--;
	s->running--;
	node->sched.flow = NULL;
	node->sched.program = NULL;
	program_settled(f, p);
	program_left(s, p);
	flow_changed(s, f);
	flow_settled(s, f);
	if (f->counted || f->busy_children)
		share_uncount(s, f);
	if (learn)
		model_observe(&s->model, model_id(task_kind(node), node->device), node, run_ns);
	s->stuck = false;
}

/* ------------------------------------------------------------------ */
/* Tasks that make way                                                 */

/* Whether one of its first tasks could run on @device; without @room one that has begun. */
static bool could_use(struct sched *s, const struct sched_flow *g, uint32_t device, bool room)
{
	uint32_t each = of_each(g, LOOK_AHEAD);
	const struct graph_node *n;
	struct cursor at = { 0 };

	while ((n = next_task(g, &at, each)))
		if (is_started(n) ? n->device == device : room && can_run(s, n, device))
			return true;
	return false;
}

/* Another tenant's. */
static bool others_turn(struct sched *s, const struct graph_node *node, bool room)
{
	const struct sched_flow *f = node->sched.flow;
	uint64_t at = level_own(&s->levels, &f->account, node->device);

	for (uint32_t i = 0; i < s->nr_active && i < LOOK_TENANTS; i++) {
		struct sched_flow *g = s->active[i];

		if (g != f && flow_lifted(s, g, node->device, 0) < at &&
		    !(g->capped && cap_until(s, g) > s->now_ns) &&
		    could_use(s, g, node->device, room))
			return true;
	}
	return false;
}

void sched_progress(struct sched *s, struct graph_node *node, uint64_t ran_ns, uint64_t now_ns)
{
	struct sched_flow *f = node->sched.flow;
	uint64_t at;

	charge_all(s);
	told_time(s, now_ns);
	ran_ns += !ran_ns;
	charge_task(s, node, ran_ns);
	/* Which is what it is charged still. */
	f->account.vtime -= virtual_ns(s, f, ran_ns);
	charge_for_now(s, node, ran_ns);
	/* What is known now is how long it has run: nothing is booked behind what is past that. */
	if (!node->sched.predicted_ns)
		s->devices[node->device].lane[node->sched.lane].unsure--;
	node->sched.predicted_ns = ran_ns;
	flow_changed(s, f);
	/* Who comes now owes nothing, and is owed nothing of what others had while he was away. */
	at = level_own(&s->levels, &f->account, node->device);
	if (s->nr_active && s->active[0]->account.vtime < at)
		at = s->active[0]->account.vtime;
	level_reach(s, &s->levels, node->device, at);
	if (s->levels.vtime_max < f->account.vtime)
		s->levels.vtime_max = f->account.vtime;
}

bool sched_makes_way(struct sched *s, const struct graph_node *node, uint64_t all_ns,
		     enum sched_room room, uint64_t now_ns)
{
	const struct sched_device *d = &s->devices[node->device];
	struct sched_flow *f = node->sched.flow;

	charge_all(s);
	told_time(s, now_ns);
	if (now_ns >= s->wake_ns)
		wake(s, now_ns);
	/* What it has too much is owed: all of its tasks need not stop for that. */
	if (f->capped && cap_until(s, f) > s->now_ns && room == SCHED_ROOM_PLENTY)
		return true;
	/* Those that wait will have what is idle; there may be more of them. */
	if (!s->queued || (d->lanes > d->busy && s->queued <= d->lanes - d->busy))
		return false;
	if (others_turn(s, node, room != SCHED_ROOM_NONE))
		return true;
	/* Who has waited meanwhile could not have had it. */
	if (room != SCHED_ROOM_NONE)
		level_reach(s, &s->levels, node->device,
			    level_own(&s->levels, &f->account, node->device));
	return all_ns >= SCHED_LONG_NS &&
	       next_of_others(s, f, task_context(node), due(node, now_ns), node->device,
			      room == SCHED_ROOM_PLENTY);
}

int sched_put_back(struct sched *s, struct graph_node *node, uint64_t ran_ns, uint64_t all_ns,
		   uint64_t own_ns, enum sched_room room, uint64_t now_ns)
{
	struct sched_flow *f = node->sched.flow;
	bool gone = false, fresh = room == SCHED_ROOM_PLENTY;

	if (!program_room(f, node->sched.program) || !flow_room(s) || !begun_room(f))
		return -ENOMEM;
	charge_all(s);
	told_time(s, now_ns);
	lane_give(s, node, ran_ns);
	charge_task(s, node, ran_ns);
	has_taken(f, node->sched.program, ran_ns);
	f->device_ns += ran_ns;
	node->sched.program->running--;
	f->running--;
	s->running--;
	if (all_ns >= SCHED_LONG_NS &&
	    next_of_others(s, f, task_context(node), due(node, now_ns), node->device, fresh)) {
		gone = true;
		f->away_fresh = fresh;
		f->away = task_context(node);
		f->away_priority = node->d.priority;
		f->away_deadline = node->d.deadline_ns;
		f->away_until = now_ns + (own_ns < SCHED_LONG_NS ? own_ns : SCHED_LONG_NS);
	}
	node->sched.lane = SCHED_STARTED;
	f->begun[f->started++] = node;
	node->sched.push_ns = now_ns;
	program_put(f, node);
	waits_comes(s, f);
	s->queued++;
	s->stuck = false;
	if (f->active != NOT_QUEUED)
		flow_changed(s, f);
	else if (!f->blocked)
		flow_activate(s, f);
	else if (f->counted || f->busy_children)
		share_uncount(s, f);
	if (s->levels.vtime_max < f->account.vtime)
		s->levels.vtime_max = f->account.vtime;
	return gone;
}

/* ------------------------------------------------------------------ */

static void charge(struct sched *s, struct sched_flow *f, uint64_t run_ns)
{
	/* A busy tenant keeps what it is behind. */
	if (!f->used && !f->running)
		flow_comes(s, f);
	f->account.vtime += virtual_ns(s, f, run_ns);
	f->device_ns += run_ns;
	if (f->capped)
		cap_charge(s, f, run_ns, 0, run_ns);
	flow_changed(s, f);
	flow_settled(s, f);
}

/* Another tenant's turn, or one with a maximum: that has to be known at once. */
static __attribute__((noinline)) void charge_other(struct sched *s, uint64_t tenant,
						   uint64_t run_ns)
{
	struct sched_flow *f;

	charge_all(s);
	f = flow_get(s, tenant);
	s->owing = f && !f->capped ? f : NULL;
	if (s->owing)
		s->owing_ns = run_ns;
	else if (f)
		charge(s, f, run_ns);
}

void sched_charge(struct sched *s, struct graph_node *node, uint32_t device, uint64_t run_ns,
		  bool learn)
{
	if (__builtin_expect(node->sched.outlook != 0, 0))
		leave_outlook(s, node, 0);
	if (__builtin_expect(s->owing && s->owing->tenant == node->d.tenant, 1))
		s->owing_ns += run_ns;
	else
		charge_other(s, node->d.tenant, run_ns);
	if (learn)
		model_observe(&s->model, model_id(task_kind(node), device), node, run_ns);
}

bool sched_is_due_before(const struct graph_node *a, const struct graph_node *b)
{
	return task_before(a, b);
}

uint32_t sched_queued(const struct sched *s)
{
	return s->queued;
}

uint32_t sched_running(const struct sched *s)
{
	return s->running;
}
