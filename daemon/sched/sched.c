/* SPDX-License-Identifier: MIT */
/* sched.c - tenants and their turn; devices and their lanes */
#include "daemon/sched/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/policy.h"

#define DEFAULT_WEIGHT	100
#define MAX_WEIGHT	10000
#define NOT_QUEUED	(~0u)

/* Tasks of one tenant that are looked at if its first finds no device. */
#define LOOK_AHEAD	8

/* What an unknown run time is charged as until it is known. */
#define GUESS_NS	1000

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
	s->stuck = false;
	return 0;
}

const char *sched_policy_name(const struct sched *s)
{
	return s->policy->name;
}


void sched_context_gone(struct sched *s, uint32_t context)
{
	if (s->policy->context_gone)
		s->policy->context_gone(s, context);
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
	s->buckets = calloc(s->bucket_mask + 1, sizeof(*s->buckets));
	if (!s->buckets) {
		policy_leave(s);
		free(s);
		return NULL;
	}
	return s;
}

void sched_destroy(struct sched *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i <= s->bucket_mask; i++) {
		while (s->buckets[i]) {
			struct sched_flow *f = s->buckets[i];

			s->buckets[i] = f->hash_next;
			free(f->tasks);
			free(f);
		}
	}
	policy_leave(s);
	for (uint32_t i = 0; i < s->nr_devices; i++)
		free(s->devices[i].lane);
	free(s->devices);
	free(s->active);
	free(s->buckets);
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
	s->stuck = false;
	return 0;
}

static void lane_take(struct sched *s, struct graph_node *n, uint64_t until)
{
	struct sched_device *d = &s->devices[n->device];
	uint32_t lane = 0;

	/* There is one: fewer are busy than there are lanes. */
	while (d->lane[lane].until)
		lane++;
	d->lane[lane].until = until ? until : 1;
	d->lane[lane].flow = n->sched.flow;
	d->busy++;
	s->idle_lanes--;
	n->sched.lane = lane;
}

static void lane_give(struct sched *s, struct graph_node *n, uint64_t run_ns)
{
	struct sched_device *d = &s->devices[n->device];

	d->lane[n->sched.lane].until = 0;
	d->given_ns += run_ns;
	d->busy--;
	s->idle_lanes += d->busy < d->lanes;
}

/* ------------------------------------------------------------------ */
/* Tenants                                                             */

static uint32_t bucket_of(const struct sched *s, uint64_t tenant)
{
	return tenant * 0x9e3779b97f4a7c15ull >> 32 & s->bucket_mask;
}

/* Tenants that have nothing here, and nothing to remember, may go. */
static void sweep_flows(struct sched *s)
{
	for (uint32_t i = 0; i <= s->bucket_mask; i++) {
		struct sched_flow **p = &s->buckets[i];

		while (*p) {
			struct sched_flow *f = *p;

			if (f->used || f->running || f->vtime > s->vtime ||
			    (f->weight != DEFAULT_WEIGHT && s->round - f->told <= SCHED_ROUNDS)) {
				p = &f->hash_next;
				continue;
			}
			*p = f->hash_next;
			free(f->tasks);
			free(f);
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

static struct sched_flow *flow_get(struct sched *s, uint64_t tenant)
{
	struct sched_flow *f = flow_find(s, tenant);

	if (f) {
		s->last_flow = f;
		return f;
	}
	if (s->nr_flows >= s->flow_limit)
		sweep_flows(s);
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->tenant = tenant;
	f->weight = DEFAULT_WEIGHT;
	f->active = NOT_QUEUED;
	f->vtime = s->vtime;
	f->hash_next = s->buckets[bucket_of(s, tenant)];
	s->buckets[bucket_of(s, tenant)] = f;
	s->nr_flows++;
	s->last_flow = f;
	return f;
}

int sched_tenant_weight(struct sched *s, uint64_t tenant, uint32_t weight)
{
	struct sched_flow *f;

	if (!weight || weight > MAX_WEIGHT)
		return -EINVAL;
	/* Of all tenants that there are few have tasks or a weight. */
	f = flow_find(s, tenant);
	if (!f && weight == DEFAULT_WEIGHT)
		return 0;
	if (!f)
		f = flow_get(s, tenant);
	if (!f)
		return -ENOMEM;
	f->weight = weight;
	f->told = s->round;
	return 0;
}

void sched_round(struct sched *s)
{
	s->round++;
}

uint64_t sched_tenant_device_ns(const struct sched *s, uint64_t tenant)
{
	const struct sched_flow *f = flow_find(s, tenant);

	return f ? f->device_ns : 0;
}

/* Device time in virtual time; a weight of 256 makes them equal. */
static uint64_t virtual_ns(const struct sched_flow *f, uint64_t ns)
{
	return ns * 256 / f->weight;
}

/* @f has used what it was charged: where nobody is left, all begin anew. */
static void flow_settled(struct sched *s, const struct sched_flow *f)
{
	if (s->vtime_max < f->vtime)
		s->vtime_max = f->vtime;
	if (!s->queued && !s->running)
		s->vtime = s->vtime_max;
}

/* ------------------------------------------------------------------ */
/* The heap of a tenant's tasks                                        */

static bool task_before(const struct graph_node *a, const struct graph_node *b)
{
	if (a->d.priority != b->d.priority)
		return a->d.priority < b->d.priority;
	return a->seq < b->seq;
}

static void task_place(struct sched_flow *f, uint32_t i, struct graph_node *n)
{
	f->tasks[i] = n;
	n->sched.index = i;
}

static void task_up(struct sched_flow *f, uint32_t i, struct graph_node *n)
{
	for (; i && task_before(n, f->tasks[(i - 1) / 2]); i = (i - 1) / 2)
		task_place(f, i, f->tasks[(i - 1) / 2]);
	task_place(f, i, n);
}

static void task_down(struct sched_flow *f, uint32_t i, struct graph_node *n)
{
	uint32_t child;

	for (; (child = 2 * i + 1) < f->used; i = child) {
		if (child + 1 < f->used &&
		    task_before(f->tasks[child + 1], f->tasks[child]))
			child++;
		if (task_before(n, f->tasks[child]))
			break;
		task_place(f, i, f->tasks[child]);
	}
	task_place(f, i, n);
}

static bool task_room(struct sched_flow *f)
{
	uint32_t size = f->size ? f->size * 2 : 64;
	struct graph_node **tasks;

	if (f->used < f->size)
		return true;
	tasks = realloc(f->tasks, size * sizeof(*tasks));
	if (!tasks)
		return false;
	f->tasks = tasks;
	f->size = size;
	return true;
}

static void task_take(struct sched_flow *f, struct graph_node *n)
{
	uint32_t i = n->sched.index;
	struct graph_node *last = f->tasks[--f->used];

	n->sched.index = NOT_QUEUED;
	if (last == n)
		return;
	if (i && task_before(last, f->tasks[(i - 1) / 2]))
		task_up(f, i, last);
	else
		task_down(f, i, last);
}

/* ------------------------------------------------------------------ */
/* The heap of tenants with tasks                                      */

static bool flow_before(const struct sched_flow *a, const struct sched_flow *b)
{
	if (a->vtime != b->vtime)
		return a->vtime < b->vtime;
	return a->tasks[0]->seq < b->tasks[0]->seq;
}

static void flow_place(struct sched *s, uint32_t i, struct sched_flow *f)
{
	s->active[i] = f;
	f->active = i;
}

static void flow_fix(struct sched *s, uint32_t i, struct sched_flow *f)
{
	uint32_t child;

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

int sched_push(struct sched *s, struct graph_node *node, uint64_t now_ns)
{
	struct sched_flow *f = flow_get(s, node->d.tenant);

	if (!f || !task_room(f) || !flow_room(s))
		return -ENOMEM;
	node->sched.flow = f;
	node->sched.push_ns = now_ns;
	task_up(f, f->used++, node);
	s->queued++;
	s->stuck = false;
	if (f->active != NOT_QUEUED) {
		flow_changed(s, f);
		return 0;
	}
	if (!f->running && f->vtime < s->vtime)
		f->vtime = s->vtime;
	flow_activate(s, f);
	return 0;
}

void sched_remove(struct sched *s, struct graph_node *node)
{
	struct sched_flow *f = node->sched.flow;

	if (!f || node->sched.index == NOT_QUEUED)
		return;
	task_take(f, node);
	node->sched.flow = NULL;
	s->queued--;
	s->stuck = false;
	flow_changed(s, f);
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

/* The first task of @f that finds a device, which is set. */
static struct graph_node *pick_from(struct sched *s, struct sched_flow *f,
				    uint64_t now_ns)
{
	struct graph_node *tried[LOOK_AHEAD], *n = NULL;
	uint32_t nr = 0, device = SCHED_NO_DEVICE;

	while (f->used && nr < LOOK_AHEAD) {
		n = f->tasks[0];
		device = s->policy->choose(s, n, now_ns);
		if (device != SCHED_NO_DEVICE)
			break;
		task_take(f, n);
		tried[nr++] = n;
	}
	if (device != SCHED_NO_DEVICE) {
		n->device = device;
		task_take(f, n);
	} else {
		n = NULL;
	}
	while (nr)
		task_up(f, f->used++, tried[--nr]);
	return n;
}

/* Its size is new here; others may tell. */
static __attribute__((cold)) uint64_t forecast_ns(struct sched *s, struct graph_node *n)
{
	uint32_t confidence;

	return model_forecast_ns(&s->model, model_id(task_kind(n), n->device), sched_work(n),
				 &confidence);
}

struct graph_node *sched_pick(struct sched *s, uint64_t now_ns)
{
	struct graph_node *n = NULL;
	struct sched_flow *f = NULL;
	uint32_t all = s->nr_active, tried = 0;
	uint64_t predicted;

	if (!s->queued || !s->idle_lanes ||
	    (s->stuck && now_ns - s->stuck_ns < STUCK_NS))
		return NULL;
	/*
	 * Those passed over gather behind the heap's end, in the places that
	 * it gave up.
	 */
	while (s->nr_active) {
		f = s->active[0];
		n = pick_from(s, f, now_ns);
		if (n)
			break;
		flow_deactivate(s, f);
		s->active[s->nr_active] = f;
		tried++;
	}
	if (n) {
		predicted = model_predict_ns(&s->model, model_id(task_kind(n), n->device));
		if (__builtin_expect(!predicted, 0))
			predicted = forecast_ns(s, n);
		n->sched.predicted_ns = predicted;
		predicted = predicted ? predicted : GUESS_NS;
		if (s->vtime < f->vtime)
			s->vtime = f->vtime;
		n->sched.charged = virtual_ns(f, predicted);
		f->vtime += n->sched.charged;
		f->running++;
		s->queued--;
		s->running++;
		lane_take(s, n, now_ns + predicted);
		s->stuck = false;
		flow_changed(s, f);
	} else {
		s->stuck = true;
		s->stuck_ns = now_ns;
	}
	/* The lowest of those places is the latest one, so go upwards. */
	for (uint32_t i = all - tried; i < all; i++)
		flow_activate(s, s->active[i]);
	return n;
}

void sched_finish(struct sched *s, struct graph_node *node, uint64_t run_ns,
		  bool learn)
{
	struct sched_flow *f = node->sched.flow;

	lane_give(s, node, run_ns);
	/* Replace what was charged at the pick by what it was. */
	f->vtime += virtual_ns(f, run_ns) - node->sched.charged;
	f->device_ns += run_ns;
	f->running--;
	s->running--;
	node->sched.flow = NULL;
	flow_changed(s, f);
	flow_settled(s, f);
	if (learn)
		model_observe(&s->model, model_id(task_kind(node), node->device), node, run_ns);
	s->stuck = false;
}

void sched_charge(struct sched *s, struct graph_node *node, uint32_t device, uint64_t run_ns,
		  bool learn)
{
	struct sched_flow *f = flow_get(s, node->d.tenant);

	if (f) {
		/* A busy tenant keeps what it is behind. */
		if (!f->used && !f->running && f->vtime < s->vtime)
			f->vtime = s->vtime;
		if (s->vtime < f->vtime)
			s->vtime = f->vtime;
		f->vtime += virtual_ns(f, run_ns);
		f->device_ns += run_ns;
		flow_changed(s, f);
		flow_settled(s, f);
	}
	if (learn)
		model_observe(&s->model, model_id(task_kind(node), device), node, run_ns);
}

uint32_t sched_queued(const struct sched *s)
{
	return s->queued;
}

uint32_t sched_running(const struct sched *s)
{
	return s->running;
}
