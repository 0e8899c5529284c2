// SPDX-License-Identifier: MIT
/* What devices are doing now: see figures.h. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/dispatch/figures.h"
#include "daemon/dispatch/poller.h"
#include "daemon/dispatch/run.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"
#include "daemon/observe/stats.h"

#define SECOND	1000000000u
#define HANGS_NS	(SECOND / 4)	/* what has not answered by then is not waited for */
#define LEAVES_SECONDS	1		/* the same at the end */

/* What a thread found of a device. */
struct sample {
	struct work work;
	struct figures_threads *threads;
	struct device *dev;
	uint32_t device;	/* the poller's number of it */
	bool wanted;
	bool log;		/* the poller's: what it answers */
	uint64_t asked_ns;	/* the same; 0: it has answered */
	bool waits;		/* for a thread to ask it; under the lock */
	bool has_memory;
	uint64_t ns;
	struct arax_backend_gauges gauges;
	bool told;		/* they are; else @why not */
	char why[256];
};

/*
 * One asks the devices in turn.  A vendor's library may hang for one of them: so another one
 * watches, goes on with the next devices then, and has a further one watch itself.
 */
struct figures_threads {
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool stop;
	bool left;			/* by the poller, which is gone: who is last frees this */
	struct poller *poller;
	struct work log;
	bool logs;			/* has been posted */
	struct sample *samples;		/* of each device */
	struct sample *asking;		/* NULL: nobody asks, or it hangs */
	struct timespec patience;	/* till when it doesn't */
	pthread_t *threads;		/* room for as many as devices are asked */
	uint32_t nr, most, idle;
	uint32_t alive;			/* of them */
};

/* ------------------------------------------------------------------ */
/* What araxd knows by itself                                          */

/* Where each lane has one task it may have another one than it began with. */
static uint32_t lane_of(const struct poller_device *pd, const struct run *r)
{
	return pd->depth == 1 && !r->direct ? r->token : r->lane;
}

_Static_assert(FIGURES_LANES >= MAX_RUNS, "a lane has a run at least");

/*
 * As things are: of several tasks of a lane it is the first that runs.  What one had before it stood
 * aside has been counted.
 */
static void take_point(const struct poller *p, const struct poller_device *pd, uint64_t now,
		       struct figures_point *point)
{
	const struct run *run;

	*point = (struct figures_point){ .ns = now, .ticks = p->now, .busy_ns = pd->busy_ns };

	for (run = pd->runs; run <= run_end(pd); run++) {
		const struct run *r = run < run_end(pd) ? run : pd->direct;

		uint64_t since, *began;

		if (!r || !r->node || r->aside.laneless || r->left || lane_of(pd, r) >= MAX_RUNS)
			continue;
		since = r->rt.turn ? r->aside.since : r->start;
		began = &point->began[lane_of(pd, r)];
		*began = *began && *began < since ? *began : since;
	}
}

/* Since @began till @point. */
static uint64_t at_work_ns(const struct poller *p, const struct figures_point *point,
			   uint64_t began)
{
	return began ? ticks_to_ns(&p->ticks, ticks_between(began, point->ticks)) : 0;
}

static uint32_t percent_since(const struct poller *p, const struct poller_device *pd,
			      const struct figures_point *then, const struct figures_point *now)
{
	uint64_t ended = now->busy_ns - then->busy_ns, window = now->ns - then->ns;
	uint64_t sum = 0, before = 0, ns;
	double busy;
	uint32_t i;

	for (i = 0; i < FIGURES_LANES; i++) {
		ns = at_work_ns(p, now, now->began[i]);
		sum += ns < window ? ns : window;
		if (then->began[i] != now->began[i])
			before += at_work_ns(p, then, then->began[i]);
	}
	/* Of what has ended since the first part was before; what runs on is no part of it. */
	sum += ended > before ? ended - before : 0;
	busy = 100.0 * (double)sum / ((double)window * (pd->lanes_now ? pd->lanes_now : 1));
	return busy < 100 ? (uint32_t)(busy + 0.5) : 100;
}

static void look_at(const struct poller *p, struct poller_device *pd, uint64_t now)
{
	struct figures *f = &pd->figures;

	/* Nothing ran since, or somebody would have looked. */
	if (now - f->look.ns >= SECOND)
		f->mark = f->look;
	take_point(p, pd, now, &f->look);
	if (now - f->mark.ns >= SECOND / 2)
		f->busy = percent_since(p, pd, &f->mark, &f->look);
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

/* It may take as long as it likes: by its end nothing of the poller's need be there. */
static void take_sample(struct sample *s)
{
	s->told = !device_gauges(s->dev, &s->gauges, s->why, sizeof(s->why));
	if (!s->told)
		s->gauges.known = 0;
	s->ns = monotonic_ns();
}

/* The lock is held. */
static struct sample *next_sample(struct figures_threads *t)
{
	uint32_t i;

	for (i = 0; i < t->poller->nr_devs; i++)
		if (t->samples[i].waits)
			return &t->samples[i];
	return NULL;
}

static void *ask_devices(void *arg);

/* The lock is held. */
static int add_thread(struct figures_threads *t)
{
	if (pthread_create(&t->threads[t->nr], NULL, ask_devices, t))
		return -EAGAIN;
	pthread_setname_np(t->threads[t->nr++], "arax-figures");
	t->idle++;		/* though it may take a while to get there */
	t->alive++;
	return 0;
}

/* The one whose turn it is for the caller to ask, or NULL: no more are asked.  The lock is held. */
static struct sample *await_turn(struct figures_threads *t)
{
	struct sample *s, *other;

	while (!t->stop) {
		s = next_sample(t);
		other = t->asking;
		if (s && !other)
			return s;
		t->idle++;
		if (!s)
			pthread_cond_wait(&t->more, &t->lock);
		else if (pthread_cond_timedwait(&t->more, &t->lock, &t->patience) == ETIMEDOUT &&
			 t->asking == other)
			t->asking = NULL;
		t->idle--;
	}
	return NULL;
}

/* The lock is held. */
static void begin(struct figures_threads *t, struct sample *s)
{
	s->waits = false;
	t->asking = s;
	clock_gettime(CLOCK_MONOTONIC, &t->patience);
	t->patience.tv_nsec += HANGS_NS;
	if (t->patience.tv_nsec >= (long)SECOND) {
		t->patience.tv_sec++;
		t->patience.tv_nsec -= SECOND;
	}
	if (!next_sample(t))
		return;
	/* If there can't be one, the others wait for this. */
	if (!t->idle && t->nr < t->most)
		add_thread(t);
	pthread_cond_signal(&t->more);
}

static void free_threads(struct figures_threads *t)
{
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	free(t->threads);
	free(t->samples);
	free(t);
}

static void *ask_devices(void *arg)
{
	struct figures_threads *t = arg;
	struct sample *s;
	bool last;

	pthread_mutex_lock(&t->lock);
	t->idle--;
	while ((s = await_turn(t))) {
		begin(t, s);
		pthread_mutex_unlock(&t->lock);
		take_sample(s);
		pthread_mutex_lock(&t->lock);
		if (t->asking == s)
			t->asking = NULL;
		if (!t->stop)
			poller_post(t->poller, &s->work);
	}
	last = !--t->alive && t->left;
	pthread_cond_broadcast(&t->more);
	pthread_mutex_unlock(&t->lock);
	if (last)
		free_threads(t);
	return NULL;
}

static void use_sample(struct poller *p, const struct sample *s)
{
	struct poller_device *pd = &p->devs[s->device];
	const struct arax_backend_gauges *g = &s->gauges;
	struct figures *f = &pd->figures;
	struct memory_stats stats;

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
		memory_query(p->memory, s->device, &stats);
		f->known |= ARAX_DEVICE_USED;
		f->used = stats.used;
	}
	pd->changed = true;
}

static void sample_came(struct work *w)
{
	struct sample *s = (struct sample *)((char *)w - offsetof(struct sample, work));
	struct poller *p = s->threads->poller;

	s->asked_ns = 0;
	if (s->log)
		stats_gauges(s->device, &s->gauges, s->told ? NULL : s->why);
	s->log = false;
	figures_look(p);
	use_sample(p, s);
	poller_publish_devices(p);
}

static void ask_all(struct figures_threads *t)
{
	uint32_t i;

	pthread_mutex_lock(&t->lock);
	for (i = 0; i < t->poller->nr_devs; i++) {
		struct sample *s = &t->samples[i];

		if (!s->wanted || s->asked_ns)
			continue;
		s->asked_ns = poller_ns(t->poller);
		s->waits = true;
	}
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
}

static void log_all(struct work *w)
{
	struct figures_threads *t = (struct figures_threads *)((char *)w -
							       offsetof(struct figures_threads, log));
	uint64_t now = poller_ns(t->poller);
	uint32_t i;

	__atomic_store_n(&t->logs, false, __ATOMIC_RELEASE);
	for (i = 0; i < t->poller->nr_devs; i++) {
		struct sample *s = &t->samples[i];

		if (s->asked_ns && now - s->asked_ns >= SECOND)
			stats_gauges(i, NULL, "it was asked a while ago, and has not answered yet");
		s->log = true;
	}
	ask_all(t);
}

void figures_log(struct poller *p)
{
	struct figures_threads *t = p->figures;

	if (t && !__atomic_exchange_n(&t->logs, true, __ATOMIC_ACQ_REL))
		poller_post(p, &t->log);
}

void figures_ask(struct poller *p)
{
	struct figures_threads *t = p->figures;
	uint32_t i;

	if (t)
		ask_all(t);
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

/* Returns of how many. */
static uint32_t mark_wanted(struct poller *p, struct figures_threads *t)
{
	uint32_t i, nr = 0;

	for (i = 0; i < p->nr_devs; i++) {
		struct sample *s = &t->samples[i];

		s->work.run = sample_came;
		s->threads = t;
		s->dev = p->devs[i].dev;
		s->device = i;
		s->has_memory = p->memory && memory_has_device(p->memory, i);
		s->wanted = s->has_memory || device_has_gauges(p->devs[i].dev);
		nr += s->wanted;
	}
	return nr;
}

int figures_create(struct poller *p)
{
	struct figures_threads *t = calloc(1, sizeof(*t));
	uint32_t room = p->nr_devs ? p->nr_devs : 1;
	pthread_condattr_t attr;
	int err = -ENOMEM;

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->more, &attr);
	pthread_condattr_destroy(&attr);
	t->poller = p;
	t->log.run = log_all;
	t->samples = calloc(room, sizeof(*t->samples));
	t->threads = calloc(room, sizeof(*t->threads));
	if (t->samples && t->threads) {
		t->most = mark_wanted(p, t);
		pthread_mutex_lock(&t->lock);
		err = t->most ? add_thread(t) : 0;
		pthread_mutex_unlock(&t->lock);
	}
	if (!err && t->nr) {
		p->figures = t;
		return 0;
	}
	free_threads(t);
	return err;
}

/* Till none is inside any library, or one is for so long that it may be for ever.  The lock is held. */
static void await_threads(struct figures_threads *t)
{
	struct timespec limit;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += LEAVES_SECONDS;
	while (t->alive && pthread_cond_timedwait(&t->more, &t->lock, &limit) != ETIMEDOUT)
		;
}

bool figures_destroy(struct poller *p)
{
	struct figures_threads *t = p->figures;
	bool left;

	if (!t)
		return true;
	p->figures = NULL;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->more);
	await_threads(t);
	left = t->alive;
	t->left = left;
	while (left && t->nr)
		pthread_detach(t->threads[--t->nr]);
	pthread_mutex_unlock(&t->lock);
	if (left) {
		log_warn("a library that was asked for a device's gauges has not answered: its thread is left there, and devices as they are");
		return false;
	}
	while (t->nr)
		pthread_join(t->threads[--t->nr], NULL);
	free_threads(t);
	return true;
}
