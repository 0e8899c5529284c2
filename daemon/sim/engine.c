// SPDX-License-Identifier: MIT
/*
 * engine.c - programs submit, the daemon's graph and scheduler decide, time goes on
 *
 * The loop is the poller's (daemon/dispatch/poller.c): what is ready goes to the scheduler,
 * which picks until nothing more can start; then the next event happens.
 */
#include "daemon/sim/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/sched/policies.h"
#include "daemon/sim/internal.h"

#define BIN_NS	1000u

void sim_stop(struct sim *sim, int err, const char *why)
{
	if (sim->err)
		return;
	sim->err = err;
	sim->why = why;
}

void sim_set(struct sim *sim, struct event *e, uint64_t time)
{
	int err = event_set(&sim->events, e, time);

	if (err)
		sim_stop(sim, err, err == -EOVERFLOW ? EVENT_TOO_LATE : "out of memory");
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint64_t wall_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

struct app *app_of(struct sim *sim, const struct graph_node *n, const struct sim_task **task)
{
	struct app *a = &sim->apps[n->d.context - 1];

	*task = &a->conf->tasks[n->d.user_data];
	return a;
}

/* ------------------------------------------------------------------ */
/* Programs                                                            */

/* With what kernels have had that still run: they may run for long after it. */
static void first_tenant_ended(struct sim *sim)
{
	struct sim_tenant_result *t = sim->r->tenants;

	sim->first_ended = true;
	for (uint32_t i = 0; i < sim->sc->nr_tenants; i++)
		t[i].shared_ns = t[i].used_ns;
	for (uint32_t i = 0; i < sim->sc->nr_devices; i++) {
		const struct run *runs = &sim->devices[i].runs;

		for (const struct run *r = runs->next; r != runs; r = r->next)
			if (r->running)
				t[r->app->conf->tenant].shared_ns += run_used(r);
	}
}

static void app_end(struct app *a)
{
	struct sim *sim = a->sim;
	uint32_t tenant = a->conf->tenant;

	/* The program has left. */
	sched_context_gone(sim->sched, 0, a->index + 1);
	app_buffers_drop(a);
	sim->apps_left--;
	if (!--sim->app_left[tenant] && !sim->first_ended)
		first_tenant_ended(sim);
}

/* What the scheduler takes for it: costs go by that alone. */
static uint64_t work_of(void *arg, const struct graph_node *node)
{
	const struct sim_task *t;

	app_of(arg, node, &t);
	return t->work;
}

/* What a recorded task has besides; returns whether it is blocked. */
static bool fill_how(struct app *a, const struct sim_how *how, struct arax_dispatch *d)
{
	uint64_t target = how->target_ns;

	d->queue = how->queue + 1;
	if (how->in_order)
		d->queue_flags = 0;
	if (how->barrier)
		d->flags |= ARAX_TASK_BARRIER;
	if (target && (!a->conf->target_ns || target < a->conf->target_ns)) {
		d->deadline_ns = a->sim->now + target;
		d->flags |= ARAX_DISPATCH_TARGET;
	}
	if (!task_is_blocked(a->sim, a, how, &d->error))
		return false;
	d->flags |= ARAX_DISPATCH_BLOCKED;
	return true;
}

static bool submit_one(struct app *a)
{
	struct sim *sim = a->sim;
	const struct sim_task *t = &a->conf->tasks[a->next];
	const struct sim_how *how = a->conf->hows ? &a->conf->hows[a->next] : NULL;
	bool blocked = false;
	const struct sim_range *ranges = &a->conf->ranges[t->first_range];
	struct {
		struct arax_dispatch d;
		struct arax_dispatch_range r[ARAX_MAX_RANGES];
	} e;
	uint32_t slot;
	int err;

	if (!sim->free_slots) {
		sim_stop(sim, -ENOSPC, "more tasks are outstanding than the graph has slots: use smaller windows");
		return false;
	}
	slot = sim->slots[sim->free_slots - 1];
	memset(&e.d, 0, sizeof(e.d));
	e.d.type = ARAX_DISPATCH_TASK;
	e.d.opcode = t->kernel == SIM_HOST ? ARAX_OP_MARKER : ARAX_OP_LAUNCH;
	e.d.cells = (uint16_t)(2 + (t->nr_ranges * sizeof(e.r[0]) + ARAX_CELL_SIZE - 1) / ARAX_CELL_SIZE);
	e.d.tag = 1ull << 48 | (sim->generation & 0xffffff) << 24 | slot;
	e.d.tenant = a->conf->tenant + 1;
	e.d.context = a->index + 1;
	e.d.queue = 1;
	e.d.queue_flags = ARAX_QUEUE_DATAFLOW;
	e.d.kernel = t->kernel + 1;
	e.d.nr_ranges = t->nr_ranges;
	e.d.submit_ns = sim->now;
	e.d.priority = a->conf->priority + t->priority;
	if (a->conf->target_ns) {
		e.d.deadline_ns = sim->now + a->conf->target_ns;
		e.d.flags |= ARAX_DISPATCH_TARGET;
	}
	if (how)
		blocked = fill_how(a, how, &e.d);
	e.d.known = a->known;
	e.d.user_data = a->next;
	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		e.d.access |= (uint64_t)ranges[i].access << 2 * i;
		e.r[i] = (struct arax_dispatch_range){
			.buffer = (uint64_t)a->index << 32 | (ranges[i].buffer + 1),
			.offset = ranges[i].offset, .length = ranges[i].length, .count = 1,
		};
	}
	err = graph_add(sim->graph, &e.d);
	if (err) {
		sim_stop(sim, err, "the graph refuses a task");
		return false;
	}
	if (sim->foresees && graph_find(sim->graph, e.d.tag))
		stores_will_use(a, t, graph_last_seq(sim->graph));
	sim->free_slots--;
	sim->generation++;
	sim->task_of[slot] = a->next;
	sim->r->submitted++;
	if (t->sync)
		a->blocked = a->next;
	a->next++;
	a->outstanding++;
	if (blocked)
		task_block(sim, a, how, e.d.tag);
	return true;
}

static void app_submit(struct app *a)
{
	const struct sim_app *c = a->conf;
	struct sim *sim = a->sim;

	while (a->next < c->nr_tasks && a->outstanding < c->window && a->blocked == SIM_ANY) {
		uint64_t due = app_due_ns(c, a->next, a->ends);

		if (due == UINT64_MAX)
			return;
		if (due > sim->now) {
			sim_set(sim, &a->ev, due);
			return;
		}
		if (!submit_one(a))
			return;
	}
	if (a->next == c->nr_tasks && !a->outstanding && !a->ended)
		app_end(a);
}

static void app_fire(void *arg, struct event *e)
{
	struct app *a = owner_of(e, struct app, ev);

	if (a->conf->closed && !a->ends)
		a->ends = calloc(a->conf->nr_tasks, sizeof(*a->ends));
	if ((a->conf->closed && !a->ends) || (!a->buffers && !app_buffers_make(arg, a))) {
		sim_stop(arg, -ENOMEM, "out of memory");
		return;
	}
	app_submit(a);
}

/* What a task's end means for its program. */
static void app_credit(struct sim *sim, struct app *a, uint64_t tag, int result)
{
	struct sim_app_result *r = &sim->r->apps[a->index];
	uint32_t slot = ARAX_TAG_SLOT(tag), task = sim->task_of[slot];

	sim->slots[sim->free_slots++] = slot;
	a->outstanding--;
	if (a->blocked == task)
		a->blocked = SIM_ANY;
	if (!result) {
		sim->r->completed++;
	} else {
		r->failed++;
		if (result == -ECANCELED)
			sim->r->canceled++;
		else
			sim->r->failed++;
	}
	r->end_ns = sim->now;
	if (sim->r->makespan_ns < sim->now)
		sim->r->makespan_ns = sim->now;
	if (a->ends)
		a->ends[task] = sim->now ? sim->now : 1;
	if (a->conf->hows && a->conf->hows[task].signal)
		timeline_signal(sim, &a->conf->hows[task], result);
	app_submit(a);
}

static void take_canceled(struct sim *sim)
{
	struct graph_done done;

	while (graph_pop_done(sim->graph, &done)) {
		struct app *a = &sim->apps[done.context - 1];

		if (a->known < done.failure)
			a->known = done.failure;
		app_credit(sim, a, done.tag, done.result);
	}
}

/* Also called by the graph, for those that don't run. */
static void ended(void *arg, const struct graph_node *node, const struct graph_done *done)
{
	struct sim *sim = arg;
	const struct sim_task *t;
	struct app *a = app_of(sim, node, &t);

	sched_ended(sim->sched, node);
	if (sim->nr_coming)
		before_forget(sim, node);
	if (a->quota)
		quota_gone(sim, a->quota, node);
	if (sim->foresees)
		stores_have_used(a, t, node->seq);
}

static void node_end(struct sim *sim, struct graph_node *node, int result)
{
	struct app *a = &sim->apps[node->d.context - 1];
	uint64_t tag = node->d.tag;
	uint32_t failure = 0;

	ended(sim, node, NULL);
	graph_complete(sim->graph, node, result, &failure);
	if (a->known < failure)
		a->known = failure;
	app_credit(sim, a, tag, result);
}

void task_end(struct run *run, int result)
{
	struct sim *sim = run->sim;
	struct app *a = run->app;
	struct graph_node *node = run->node;
	double used = 0;

	for (uint32_t i = 0; !result && i < run->task->nr_ranges; i++) {
		const struct sim_range *r = &run->ranges[i];

		if (!(r->access & ARAX_OUT))
			continue;
		if (!residency_written(&a->buffers[r->buffer].valid, r->offset, r->length,
				       run->stores[i]->place) ||
		    (a->conf->plain && !residency_copied(&a->buffers[r->buffer].valid, r->offset,
							 r->length, PLACE_HOST)))
			sim_stop(sim, -ENOMEM, "out of memory");
		stores_stale(&a->buffers[r->buffer]);
	}
	sim->version++;
	run_unpin(run);
	if (run->device) {
		if (run->alone_ns > 0) {
			const struct sim_kernel *k = &sim->sc->kernels[run->task->kernel];

			used = run->alone_ns * k->cost[run->device->conf->kind].demand;
			sim->r->tenants[a->conf->tenant].tasks++;
		}
		sched_finish(sim->sched, node, sim->now - run->start_ns, !result && !run->ran_ns);
		if (run->ran_ns)
			sched_observe(sim->sched, sched_kernel_key(node), run->device->index,
				      run->task->work, run->ran_ns);
		sim->changed = true;
	}
	if (node->d.deadline_ns && sim->now > node->d.deadline_ns)
		sim->r->apps[a->index].late++;
	run->next->prev = run->prev;
	run->prev->next = run->next;
	if (sim->o->watch) {
		struct sim_seen seen = {
			.app = a->index, .task = (uint32_t)node->d.user_data,
			.device = run->device ? run->device->index : SIM_ANY, .result = result,
			.start_ns = run->start_ns, .end_ns = sim->now, .used_ns = used,
		};

		sim->o->watch(sim->o->arg, &seen);
	}
	run->next = sim->free_runs;
	sim->free_runs = run;
	node_end(sim, node, result);
}

bool task_can_run(struct sim *sim, const struct graph_node *n)
{
	for (uint32_t i = 0; i < sim->sc->nr_devices; i++)
		if (sim_can_run(sim, n, i))
			return true;
	return false;
}

void task_refuse(struct sim *sim, struct graph_node *n)
{
	node_end(sim, n, -ENODEV);
}

void task_queue(struct sim *sim, struct graph_node *n)
{
	if (!task_can_run(sim, n))
		task_refuse(sim, n);
	else if (sched_push(sim->sched, n, sim->now))
		sim_stop(sim, -ENOMEM, "out of memory");
	else
		sim->changed = true;
}

/* ------------------------------------------------------------------ */
/* The loop                                                            */

static void take_ready(struct sim *sim)
{
	struct graph_node *n;

	take_canceled(sim);
	while (!sim->err && (n = graph_pop_ready(sim->graph))) {
		if (n->d.opcode == ARAX_OP_MARKER) {
			graph_start(sim->graph, n);
			run_begin(sim, n, NULL);
		} else {
			task_queue(sim, n);
		}
		take_canceled(sim);
	}
}

static struct graph_node *pick(struct sim *sim)
{
	uint64_t start = sim->o->time_picks ? wall_ns() : 0;
	struct graph_node *n = sched_pick(sim->sched, sim->now);

	if (sim->o->time_picks)
		sim->r->pick_ns += wall_ns() - start;
	sim->r->tries++;
	sim->r->picks += !!n;
	return n;
}

static void start_ready(struct sim *sim)
{
	struct graph_node *n;

	for (;;) {
		do {
			quota_look(sim);
			take_ready(sim);
		} while (sim->freed && !sim->err);
		/* Copies come and go without the scheduler: so nothing is new for it. */
		if (sim->err || !sim->changed) {
			if (sim->look && !sim->err)
				before_look(sim, false);
			return;
		}
		n = pick(sim);
		if (!n) {
			/* It asks for more of its time, which is none here. */
			if (sched_next_wake(sim->sched) <= sim->now)
				continue;
			sim->changed = false;
			if (sim->before)
				before_look(sim, true);
			return;
		}
		graph_start(sim->graph, n);
		sim->r->rerun += n->losses;
		n->losses = 0;
		run_begin(sim, n, &sim->devices[n->device]);
	}
}

/* Time alone may change a policy's mind, for a while. */
static bool wait_for_policy(struct sim *sim)
{
	for (int i = 0; i < 1000 && !sim->events.used && !sim->err; i++) {
		sim->now += 100000;
		sim->changed = true;
		start_ready(sim);
	}
	return sim->events.used;
}

/* Nothing happens any more, and not all is done. */
static const char *why_stuck(const struct sim *sim)
{
	if (sched_queued(sim->sched))
		return "no device that is left takes the tasks that are queued: give their kernels a cost on another kind of device, or pin less";
	for (uint32_t i = 0; sim->timelines && i < sim->sc->work.nr; i++) {
		const struct app *a = &sim->apps[i];

		if (a->next < a->conf->nr_tasks && a->outstanding >= a->conf->window)
			return "tasks wait for a timeline for ever: who brings it there may be one that its program's full window keeps out: give the trace a larger \"window\"";
	}
	return "tasks wait for each other for ever";
}

static void loop(struct sim *sim)
{
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct event *e;

	for (uint64_t turn = 0; sim->apps_left && !sim->err; turn++) {
		/* That clock is a system call. */
		if (sim->o->limit_ns && !(turn & 63) &&
		    clock_ns(CLOCK_THREAD_CPUTIME_ID) - start > sim->o->limit_ns) {
			sim_stop(sim, -ETIMEDOUT, "the simulation takes longer than it may");
			return;
		}
		e = event_next(&sim->events);
		if (!e && wait_for_policy(sim))
			e = event_next(&sim->events);
		if (!e && sim->apps_left && !sim->err)
			sim_stop(sim, -EDEADLK, why_stuck(sim));
		if (!e)
			return;
		sim->now = e->time;
		e->fire(sim, e);
		while (sim->events.used && sim->events.heap[0]->time == sim->now && !sim->err) {
			e = event_next(&sim->events);
			e->fire(sim, e);
		}
		start_ready(sim);
	}
}

/* ------------------------------------------------------------------ */
/* Beginning and end                                                   */

static bool make_slots(struct sim *sim)
{
	const struct workload *w = &sim->sc->work;
	uint64_t n = 1;

	for (uint32_t i = 0; i < w->nr; i++)
		n += w->apps[i].window < w->apps[i].nr_tasks ? w->apps[i].window :
							      w->apps[i].nr_tasks;
	sim->nr_slots = n < 1u << 24 ? (uint32_t)n : 1u << 24;
	sim->slots = malloc(sim->nr_slots * sizeof(*sim->slots));
	sim->task_of = malloc(sim->nr_slots * sizeof(*sim->task_of));
	for (uint32_t i = 1; i <= sim->sc->nr_kernels; i++)
		sim->kernels[i] = (uint16_t)(i | GRAPH_KERNEL_WORK);
	sim->graph = graph_create(&(struct graph_params){
		.slots = sim->nr_slots, .ended = ended, .ended_arg = sim,
		.last_kernel = sim->sc->nr_kernels, .kernels = sim->kernels,
		.work = work_of, .work_arg = sim,
	});
	if (!sim->slots || !sim->task_of || !sim->graph)
		return false;
	for (uint32_t i = 0; i < sim->nr_slots; i++)
		sim->slots[i] = sim->nr_slots - 1 - i;
	sim->free_slots = sim->nr_slots;
	sim->generation = 1;
	return true;
}

/* As if each device had run each kernel before, with about as much work. */
static bool teach(struct sim *sim)
{
	const struct scenario *sc = sim->sc;
	struct graph_node n = { .d.opcode = ARAX_OP_LAUNCH };
	uint64_t *taught = calloc(sc->nr_kernels + 1, sizeof(*taught));
	bool ok = taught;

	for (uint32_t i = 0; taught && i < sc->work.nr; i++) {
		const struct sim_app *a = &sc->work.apps[i];

		for (uint32_t k = 0; k < a->nr_tasks; k++) {
			const struct sim_task *t = &a->tasks[k];
			/* The scheduler's size classes are powers of two. */
			uint64_t bit = 1ull << (63 - __builtin_clzll(t->work));

			if (t->kernel == SIM_HOST || taught[t->kernel] & bit)
				continue;
			taught[t->kernel] |= bit;
			n.d.kernel = t->kernel + 1u;
			for (uint32_t d = 0; d < sc->nr_devices; d++) {
				double ns = scenario_cost_ns(sc, t->kernel, sc->devices[d].kind,
							     t->work);

				for (int run = 0; ns > 0 && run < SCHED_SURE_RUNS; run++)
					sched_observe(sim->sched, sched_kernel_key(&n), d, t->work,
						      event_ns(ns));
			}
		}
	}
	free(taught);
	return ok;
}

static int make_sched(struct sim *sim, const char *policy)
{
	const struct scenario *sc = sim->sc;
	struct sched_params params = {
		.policy = policy, .ops = sim_answers, .arg = sim,
	};

	sim->sched = sched_create(&params);
	if (!sim->sched) {
		return -errno;
	}
	for (uint32_t i = 0; i < sc->nr_devices; i++)
		if (sched_device_set(sim->sched, i, sc->devices[i].lanes) ||
		    sched_device_alike(sim->sched, i, sc->devices[i].kind + 1u))
			return -ENOMEM;
	for (uint32_t i = 0; i < sc->nr_tenants; i++)
		if (sched_tenant_weight(sim->sched, i + 1, sc->tenants[i].weight))
			return -ENOMEM;
	return sc->warm && !teach(sim) ? -ENOMEM : 0;
}

static int prepare(struct sim *sim)
{
	const struct scenario *sc = sim->sc;
	const char *policy = sim->o->policy ? sim->o->policy : sc->policy;
	struct sim_result *r = sim->r;
	int err;

	r->bin_ns = BIN_NS;
	r->devices = calloc(sc->nr_devices + 1, sizeof(*r->devices));
	r->tenants = calloc(sc->nr_tenants + 1, sizeof(*r->tenants));
	r->apps = calloc(sc->work.nr + 1, sizeof(*r->apps));
	sim->devices = calloc(sc->nr_devices + 1, sizeof(*sim->devices));
	sim->wires = calloc(2 * sc->nr_links + 1, sizeof(*sim->wires));
	sim->apps = calloc(sc->work.nr + 1, sizeof(*sim->apps));
	sim->app_left = calloc(sc->nr_tenants + 1, sizeof(*sim->app_left));
	/* A place's bit may lie in a word that the devices don't fill. */
	sim->known_at = calloc(sc->nr_devices + 65, sizeof(*sim->known_at));
	sim->known_off = calloc(sc->nr_devices + 65, sizeof(*sim->known_off));
	sim->briefs = calloc(sc->nr_devices + 1, sizeof(*sim->briefs));
	if (!r->devices || !r->tenants || !r->apps || !sim->devices || !sim->wires ||
	    !sim->apps || !sim->app_left || !sim->known_at || !sim->known_off ||
	    !sim->briefs || !make_slots(sim))
		return -ENOMEM;
	err = make_sched(sim, *policy ? policy : NULL);
	if (err)
		return err;
	for (uint32_t i = 0; i < sc->nr_links; i++) {
		wire_init(&sim->wires[2 * i], &sc->links[i]);
		wire_init(&sim->wires[2 * i + 1], &sc->links[i]);
	}
	for (uint32_t i = 0; i < sc->nr_devices; i++)
		device_init(sim, &sim->devices[i], i);
	if (!before_init(sim) || !timelines_init(sim) || !quotas_init(sim))
		return -ENOMEM;
	for (uint32_t i = 0; i < sc->work.nr; i++) {
		struct app *a = &sim->apps[i];

		*a = (struct app){
			.sim = sim, .conf = &sc->work.apps[i], .index = i, .blocked = SIM_ANY,
		};
		a->ev.fire = app_fire;
		a->quota = quota_of(sim, a->conf->tenant);
		sim->app_left[a->conf->tenant]++;
		sim->apps_left++;
		sim_set(sim, &a->ev, a->conf->arrive_ns);
	}
	return sim->err;
}

/* Jain's index of what each tenant got for its weight, of those that ran anything. */
static double jain(const struct sim *sim)
{
	double sum = 0, squares = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < sim->sc->nr_tenants; i++) {
		double x = sim->r->tenants[i].shared_ns / sim->sc->tenants[i].weight;

		if (!sim->r->tenants[i].tasks)
			continue;
		sum += x;
		squares += x * x;
		n++;
	}
	return squares > 0 ? sum * sum / (n * squares) : 1;
}

static void free_runs(struct run *head)
{
	for (struct run *r = head->next, *next; r && r != head; r = next) {
		next = r->next;
		free(r);
	}
}

static void clean_up(struct sim *sim)
{
	free_runs(&sim->host_runs);
	timelines_free(sim);
	for (uint32_t i = 0; sim->apps && i < sim->sc->work.nr; i++) {
		app_buffers_free(&sim->apps[i]);
		free(sim->apps[i].ends);
	}
	for (uint32_t i = 0; sim->devices && i < sim->sc->nr_devices; i++) {
		struct device *d = &sim->devices[i];

		free_runs(&d->runs);
		for (uint32_t k = 0; k < 2; k++)
			for (struct copy *c = d->engines[k].first, *next; c; c = next) {
				next = c->next;
				free(c);
			}
	}
	while (sim->free_runs) {
		struct run *next = sim->free_runs->next;

		free(sim->free_runs);
		sim->free_runs = next;
	}
	while (sim->free_copies) {
		struct copy *next = sim->free_copies->next;

		free(sim->free_copies);
		sim->free_copies = next;
	}
	sched_destroy(sim->sched);
	graph_destroy(sim->graph);
	free(sim->events.heap);
	free(sim->devices);
	free(sim->wires);
	free(sim->apps);
	free(sim->app_left);
	free(sim->known_at);
	free(sim->known_off);
	free(sim->briefs);
	free(sim->before);
	free(sim->look_at);
	free(sim->coming);
	free(sim->quotas);
	free(sim->slots);
	free(sim->task_of);
}

bool sim_has_policy(const char *name, char *error, size_t len)
{
#define NAME(c_name, name) name,
	static const char *const names[] = { SCHED_POLICIES(NAME) };
#undef NAME
	size_t used;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			return true;
	snprintf(error, len, "no such policy: %s; there are", name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		used = strlen(error);
		snprintf(error + used, len - used, "%s %s", i ? "," : "", names[i]);
	}
	return false;
}

int sim_run(const struct scenario *sc, const struct sim_options *o, struct sim_result *result,
	    char *error, size_t len)
{
	struct sim sim = { .sc = sc, .o = o, .r = result };
	uint64_t start = wall_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	const char *policy = o->policy ? o->policy : sc->policy;
	int err;

	*result = (struct sim_result){ 0 };
	/* A scenario that a program put together may name none: then it is the first one. */
	if (*policy && !sim_has_policy(policy, error, len))
		return -EINVAL;
	sim.host_runs.next = &sim.host_runs;
	sim.host_runs.prev = &sim.host_runs;
	err = prepare(&sim);
	if (!err) {
		loop(&sim);
		err = sim.err;
	}
	if (err) {
		snprintf(error, len, "%s", sim.why ? sim.why : "out of memory");
	} else {
		for (uint32_t i = 0; i < sc->nr_devices; i++) {
			device_book(&sim.devices[i]);
			result->devices[i].used_ns = sim.devices[i].compute.used;
		}
		result->jain = jain(&sim);
		result->events = sim.events.fired;
	}
	clean_up(&sim);
	result->wall_ns = wall_ns() - start;
	result->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	return err;
}

void sim_result_fini(struct sim_result *r)
{
	free(r->devices);
	free(r->tenants);
	free(r->apps);
	*r = (struct sim_result){ 0 };
}
