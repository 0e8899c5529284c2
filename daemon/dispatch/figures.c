// SPDX-License-Identifier: MIT
/* What devices are doing now: see figures.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/figures.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/run.h"
#include "daemon/memory/memory.h"

#define SECOND	1000000000u

/* What the thread found of a device. */
struct sample {
	bool wanted;
	bool has_memory;
	uint64_t ns;
	uint64_t used;
	struct arax_backend_gauges gauges;
};

struct figures_thread {
	struct host_thread *thread;
	struct host_job job;
	struct work work;
	struct poller *poller;
	struct sample *samples;
	bool asked;		/* the poller's: it has not answered */
};

/* ------------------------------------------------------------------ */
/* What araxd knows by itself                                          */

/*
 * What tasks that run have had of the device since @ns at most, a lane's once: of several tasks of a
 * lane it is the first that runs.
 */
static uint64_t running_ns(const struct poller *p, const struct poller_device *pd, uint64_t most)
{
	uint64_t lanes[MAX_RUNS] = { 0 }, sum = 0, ns;
	const struct run *run;
	uint32_t i;

	for (run = pd->runs; run <= run_end(pd); run++) {
		const struct run *r = run < run_end(pd) ? run : pd->direct;

		if (!r || !r->node || r->aside.laneless || r->left || r->lane >= MAX_RUNS)
			continue;
		ns = ticks_to_ns(&p->ticks, ticks_between(r->start, p->now));
		ns = ns < most ? ns : most;
		lanes[r->lane] = ns > lanes[r->lane] ? ns : lanes[r->lane];
	}
	for (i = 0; i < MAX_RUNS; i++)
		sum += lanes[i];
	return sum;
}

static uint32_t percent_since(const struct poller *p, const struct poller_device *pd,
			      const struct figures_point *then, uint64_t now)
{
	uint64_t ended = pd->busy_ns - then->busy_ns, window = now - then->ns;
	uint64_t sum = running_ns(p, pd, window);
	double busy;

	/* Of those the first part was before. */
	sum += ended > then->running_ns ? ended - then->running_ns : 0;
	busy = 100.0 * (double)sum / ((double)window * (pd->lanes_now ? pd->lanes_now : 1));
	return busy < 100 ? (uint32_t)(busy + 0.5) : 100;
}

static void look_at(const struct poller *p, struct poller_device *pd, uint64_t now)
{
	struct figures *f = &pd->figures;

	/* Nothing ran since, or somebody would have looked. */
	if (now - f->look.ns >= SECOND)
		f->mark = f->look;
	f->look = (struct figures_point){ now, pd->busy_ns, running_ns(p, pd, UINT64_MAX) };
	if (now - f->mark.ns >= SECOND / 2)
		f->busy = percent_since(p, pd, &f->mark, now);
	if (now - f->mark.ns >= SECOND)
		f->mark = f->look;
}

void figures_look(struct poller *p)
{
	uint64_t now = poller_ns(p);
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++)
		look_at(p, &p->devs[i], now);
}

/* ------------------------------------------------------------------ */
/* What others do                                                      */

static void take_samples(struct host_job *job)
{
	struct figures_thread *t = (struct figures_thread *)((char *)job -
							     offsetof(struct figures_thread, job));
	struct poller *p = t->poller;
	struct memory_stats stats;
	char why[256];
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++) {
		struct sample *s = &t->samples[i];

		if (!s->wanted)
			continue;
		if (device_gauges(p->devs[i].dev, &s->gauges, why, sizeof(why)))
			s->gauges.known = 0;
		if (s->has_memory) {
			memory_query(p->memory, i, &stats);
			s->used = stats.used;
		}
		s->ns = monotonic_ns();
	}
	poller_post(p, &t->work);
}

static void use_sample(struct poller_device *pd, const struct sample *s)
{
	const struct arax_backend_gauges *g = &s->gauges;
	struct figures *f = &pd->figures;

	f->ns = s->ns;
	f->known = ARAX_DEVICE_BUSY;
	/* The vendor's measure is of all that runs there. */
	f->told = g->known & ARAX_GAUGE_BUSY ? g->busy : f->busy;
	f->power_mw = 0;
	f->used = 0;
	f->taken = 0;
	if (g->known & ARAX_GAUGE_POWER) {
		f->known |= ARAX_DEVICE_POWER;
		f->power_mw = (uint32_t)g->power_mw;
	}
	if (g->known & ARAX_GAUGE_TAKEN) {
		f->known |= ARAX_DEVICE_TAKEN;
		f->taken = g->memory_taken;
	}
	if (s->has_memory) {
		f->known |= ARAX_DEVICE_USED;
		f->used = s->used;
	}
	pd->changed = true;
}

static void samples_came(struct work *w)
{
	struct figures_thread *t = (struct figures_thread *)((char *)w -
							     offsetof(struct figures_thread, work));
	struct poller *p = t->poller;
	uint32_t i;

	t->asked = false;
	figures_look(p);
	for (i = 0; i < p->nr_devs; i++)
		if (t->samples[i].wanted)
			use_sample(&p->devs[i], &t->samples[i]);
	poller_publish_devices(p);
}

void figures_ask(struct poller *p)
{
	struct figures_thread *t = p->figures;
	uint32_t i;

	if (t && !t->asked) {
		t->asked = true;
		host_thread_push(t->thread, &t->job);
	}
	figures_look(p);
	/* Nobody is to wait for the others' libraries. */
	for (i = 0; i < p->nr_devs; i++) {
		struct figures *f = &p->devs[i].figures;

		if (t && t->samples[i].wanted)
			continue;
		f->ns = poller_ns(p);
		f->known = ARAX_DEVICE_BUSY;
		f->told = f->busy;
		p->devs[i].changed = true;
	}
	poller_publish_devices(p);
}

void figures_fill(const struct poller *p, const struct poller_device *pd, struct arax_device *a)
{
	const struct figures *f = &pd->figures;
	uint64_t now = poller_ns(p);

	if (pd->lost)
		return;
	/* Before the first time nothing else is known than that we can be asked. */
	a->known = f->known ?: ARAX_DEVICE_BUSY;
	a->age_ns = now > f->ns ? now - f->ns : 0;
	a->busy = f->told;
	a->power_mw = f->power_mw;
	a->memory_used = f->used;
	a->memory_taken = f->taken;
}

/* ------------------------------------------------------------------ */
/* Life                                                                */

static bool mark_wanted(struct poller *p, struct figures_thread *t)
{
	bool any = false;
	uint32_t i;

	for (i = 0; i < p->nr_devs; i++) {
		struct sample *s = &t->samples[i];

		s->has_memory = p->memory && memory_has_device(p->memory, i);
		s->wanted = s->has_memory || device_has_gauges(p->devs[i].dev);
		any |= s->wanted;
	}
	return any;
}

int figures_create(struct poller *p)
{
	struct figures_thread *t = calloc(1, sizeof(*t));
	int err = -ENOMEM;

	if (!t)
		return -ENOMEM;
	t->poller = p;
	t->job.run = take_samples;
	t->work.run = samples_came;
	t->samples = calloc(p->nr_devs ? p->nr_devs : 1, sizeof(*t->samples));
	if (t->samples)
		err = mark_wanted(p, t) ? host_thread_create("arax-figures", &t->thread) : 0;
	if (!err && t->thread) {
		p->figures = t;
		return 0;
	}
	free(t->samples);
	free(t);
	return err;
}

void figures_destroy(struct poller *p)
{
	if (!p->figures)
		return;
	host_thread_destroy(p->figures->thread);
	free(p->figures->samples);
	free(p->figures);
	p->figures = NULL;
}
