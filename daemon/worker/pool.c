// SPDX-License-Identifier: MIT
/* The workers of a device: who has which, and how long those that nobody has are kept. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/complaints.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "daemon/worker/inside.h"

#define UNMAP_LOOKS	50	/* that a worker which is told to unmap a buffer has at most */
#define UNPAID_NS	5000000u	/* that it may use for it: a new worker costs about as much */
#define LOOK_MIN_NS	1000000u	/* between two looks whether a worker is gone */
#define LOOK_MAX_NS	1000000000u
#define END_NS		2100000000u	/* that the end of all is waited for: as worker_gone(), and a bit */

static struct timespec time_at(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
}

static void unlink_worker(struct runner *r, struct worker *w)
{
	struct worker **p = &r->workers;

	while (*p != w)
		p = &worker_link(*p)->next;
	*p = worker_link(w)->next;
	r->nr_workers--;
	pthread_cond_signal(&r->room);
}

static void link_worker(struct runner *r, struct worker *w)
{
	worker_link(w)->next = r->workers;
	r->workers = w;
	r->nr_workers++;
	pthread_cond_signal(&r->room);
}

static struct worker_key key_of(const struct runner *r, const struct runner_task *t)
{
	const struct kernel *k = t->kernel;
	struct worker_key key = { .uid = t->uid, .gid = t->gid };

	if (k->foreign || r->opencl)
		key.role = r->opencl ? WORKER_OPENCL : WORKER_FOREIGN;
	if (k->foreign && k->owner)
		key.owner = k->owner;
	else if (k->foreign)
		key.serial = k->serial;
	else
		key.tenant = t->tenant;
	return key;
}

static bool same_key(const struct worker_key *a, const struct worker_key *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->role == b->role &&
	       a->tenant == b->tenant && a->owner == b->owner && a->serial == b->serial;
}

/* Of those that are idle the one that was used longest ago. */
static struct worker *oldest_idle(struct runner *r)
{
	struct worker *found = NULL;

	for (struct worker *w = r->workers; w; w = worker_link(w)->next)
		if (!worker_link(w)->busy)
			found = w;
	return found;
}

static void *keeper_main(void *arg);

/* (locked) */
static bool have_keeper(struct runner *r)
{
	if (!r->has_keeper)
		r->has_keeper = !pthread_create(&r->keeper, NULL, keeper_main, r);
	return r->has_keeper;
}

/* (locked) With the first worker comes who ends idle ones. */
static int need_keeper(struct runner *r)
{
	if (!have_keeper(r)) {
		reason_set("the process for the kernel can't be started: no thread that looks after it can be, as there are as many as may be: TasksMax= of araxd's unit, ulimit -u, pids.max");
		return -EAGAIN;
	}
	return 0;
}

/*
 * (locked) Whatever an idle worker computes while it is awake its next launch pays for: by lanes, of
 * which each has a part of the device's CPUs.
 */
static void note_unpaid(const struct runner *r, struct worker *w)
{
	struct worker_link *l = worker_link(w);
	uint64_t now = worker_cpu_ns(w), cpus = (uint64_t)CPU_COUNT(&r->options.cpus);

	if (now > l->woken_ns)
		l->unpaid_ns += (now - l->woken_ns) * r->dev->info.lanes / (cpus ?: 1);
	l->woken_ns = now;
}

/* (locked) The worker ends with what its next launch would have paid for. */
static void owe(struct runner *r, struct worker *w)
{
	const struct worker_key *key = worker_key(w);
	uint64_t ns = worker_link(w)->unpaid_ns;
	struct debt *at = NULL;

	if (!ns)
		return;
	for (uint32_t i = 0; i < RUNNER_DEBTS; i++) {
		struct debt *d = &r->debts[i];

		if (d->unpaid_ns && same_key(&d->key, key)) {
			d->unpaid_ns += ns;
			return;
		}
		if (!at && !d->unpaid_ns)
			at = d;
	}
	if (!at)
		at = &r->debts[r->nr_debts++ % RUNNER_DEBTS];
	*at = (struct debt){ *key, ns };
}

/* (locked) */
static uint64_t take_debt(struct runner *r, const struct worker_key *key)
{
	for (uint32_t i = 0; i < RUNNER_DEBTS; i++) {
		struct debt *d = &r->debts[i];
		uint64_t ns = d->unpaid_ns;

		if (!ns || !same_key(&d->key, key))
			continue;
		d->unpaid_ns = 0;
		return ns;
	}
	return 0;
}

/* (locked) Idle, but for something that it has been told: the keeper waits for that. */
static void wake_up(struct runner *r, struct worker *w)
{
	if (!worker_link(w)->awake) {
		worker_link(w)->awake_looks = 0;
		worker_link(w)->woken_ns = worker_cpu_ns(w);
	}
	worker_link(w)->awake = true;
	pthread_cond_signal(&r->keep);
}

/* (locked) An idle worker may have to unmap something still: the keeper waits for that. */
static void rest(struct runner *r, struct worker *w)
{
	if (!worker_key_foreign(worker_key(w)))
		return;
	if (worker_caught_up(w)) {
		worker_pause(w);
		return;
	}
	wake_up(r, w);
}

/*
 * (locked) It runs nothing from now on, and the keeper sees to the rest: what it has mapped may take
 * long to go, and is not the next one's time.  There is a keeper, as there was a worker.
 */
static void let_end(struct runner *r, struct worker *w)
{
	worker_kill(w);
	if (worker_link(w)->awake)
		note_unpaid(r, w);
	owe(r, w);
	worker_link(w)->killed_ns = now_ns();
	worker_link(w)->look_ns = 0;
	worker_link(w)->uid = worker_key(w)->uid;
	worker_link(w)->lingers = !worker_reaped(w);
	worker_link(w)->next = r->leaving;
	r->leaving = w;
	pthread_cond_signal(&r->keep);
}

void pool_let_end(struct runner *r, struct worker *w, uint32_t uid)
{
	pthread_mutex_lock(&r->lock);
	/* Else it is there until the runner ends. */
	have_keeper(r);
	let_end(r, w);
	worker_link(w)->uid = uid;
	pthread_mutex_unlock(&r->lock);
}

/*
 * (locked) Who can keep one worker from ending can do so with any number of them.  All that he may have
 * can be ended at once, and take a moment for it: so there may be as many again.  0: there are not too
 * many; else till when the one that was killed last may need that moment.
 */
static uint64_t too_many_until(const struct runner *r, uint32_t uid)
{
	uint64_t until = 0;
	uint32_t n = 0;

	for (struct worker *w = r->leaving; w; w = worker_link(w)->next) {
		const struct worker_link *l = worker_link(w);

		if (!l->lingers || l->uid != uid)
			continue;
		n++;
		if (until < l->killed_ns + WORKER_END_NS)
			until = l->killed_ns + WORKER_END_NS;
	}
	return n < 2 * r->max_workers ? 0 : until;
}

/*
 * (locked) Or -EUSERS.  Where there are few places each task may need its tenant's own worker in place of
 * the last one's: so it waits for those that only need their moment.  It is not locked meanwhile.
 */
static int may_start(struct runner *r, uint32_t uid)
{
	uint64_t most = now_ns() + WORKER_END_NS, until;

	while ((until = too_many_until(r, uid))) {
		const struct timespec at = time_at(until < most ? until : most);

		if (now_ns() >= most || now_ns() >= until)
			return -EUSERS;
		pthread_cond_timedwait(&r->gone, &r->lock, &at);
	}
	return 0;
}

static __attribute__((cold)) int say_too_many(const struct runner *r, uint32_t uid)
{
	static struct complaints too_many;
	uint64_t unsaid;

	reason_set("the process for the kernel can't be started: %u of this user's on %s (twice worker.max) were killed and have not ended, as they hang in the kernel or are traced",
		   2 * r->max_workers, r->dev->info.name);
	if (complaints_say_now(&too_many, uid, &unsaid))
		log_err("a user has too many workers that can't be killed", log_u64("uid", uid),
			log_str("device", r->dev->info.name), log_u64("most", 2 * r->max_workers),
			log_u64("unsaid", unsaid));
	return -EAGAIN;
}

int pool_may_start(struct runner *r, uint32_t uid)
{
	int err;

	pthread_mutex_lock(&r->lock);
	err = may_start(r, uid);
	pthread_mutex_unlock(&r->lock);
	return err ? say_too_many(r, uid) : 0;
}

static void return_worker(struct runner *r, struct worker *w, enum worker_fate fate)
{
	pthread_mutex_lock(&r->lock);
	unlink_worker(r, w);
	if (fate == WORKER_ALIVE && worker_usable(w)) {
		worker_link(w)->busy = false;
		worker_link(w)->last_used_ns = now_ns();
		link_worker(r, w);
		rest(r, w);
	} else {
		let_end(r, w);
	}
	pthread_mutex_unlock(&r->lock);
}

/*
 * To pause a worker and to let it go on costs more than a short launch, and the next one is
 * often for the same: so a lane keeps it while it waits for that awake.
 */
void pool_keep_no_more(struct lane *lane)
{
	struct worker *w = lane->kept;

	lane->kept = NULL;
	if (w)
		return_worker(lane->runner, w, WORKER_ALIVE);
}

static bool keep(const struct runner *r, struct worker *w)
{
	/* A lane may load an image on other devices, too. */
	if (!this_lane || this_lane->runner != r || !worker_key_foreign(worker_key(w)))
		return false;
	pool_keep_no_more(this_lane);
	this_lane->kept = w;
	return true;
}

/* Nothing that such a worker runs: then it is not kept. */
void pool_keep_for(const struct runner_task *t)
{
	const struct kernel *k = t->kernel;

	if (!this_lane)
		return;
	if (!k || !(k->foreign ||
		    (this_lane->runner->opencl && runner_needs_worker(this_lane->runner, k))))
		pool_keep_no_more(this_lane);
}

static struct worker *take_kept(const struct runner *r, const struct runner_task *t,
				const struct worker_key *key)
{
	struct worker *w = this_lane && this_lane->runner == r ? this_lane->kept : NULL;

	if (!w)
		return NULL;
	if (!same_key(worker_key(w), key) || !worker_usable(w) || !worker_has_room(w, t)) {
		pool_keep_no_more(this_lane);
		return NULL;
	}
	this_lane->kept = NULL;
	return w;
}

/* (locked) An idle one of that key that has room for this; those of no use any more go. */
static struct worker *take_idle(struct runner *r, const struct runner_task *t,
				const struct worker_key *key)
{
	struct worker *w, *next;

	for (w = r->workers; w; w = next) {
		next = worker_link(w)->next;
		if (worker_link(w)->busy || !same_key(worker_key(w), key))
			continue;
		if (!worker_usable(w)) {
			unlink_worker(r, w);
			let_end(r, w);
		} else if (worker_has_room(w, t)) {
			if (worker_link(w)->awake)
				note_unpaid(r, w);
			worker_link(w)->busy = true;
			worker_link(w)->awake = false;
			return w;
		}
	}
	return NULL;
}

/* (locked) Until there is room for one more, or -ETIMEDOUT.  It is not locked meanwhile. */
static int await_room(struct runner *r, uint64_t deadline_ns)
{
	const struct timespec until = time_at(deadline_ns);

	return -(deadline_ns ? pthread_cond_timedwait(&r->room, &r->lock, &until) :
			       pthread_cond_wait(&r->room, &r->lock));
}

/*
 * (locked) A worker of that key, or *@worker NULL and a place for one that is to be started.
 * Where all places are taken by others that are busy, it waits.  -EUSERS: no more for this user.
 */
static int take_place(struct runner *r, const struct runner_task *t, const struct worker_key *key,
		      uint64_t deadline_ns, struct worker **worker)
{
	struct runner_turn *turn = t->turn;
	struct worker *old;
	int err;

	/* seq_cst: before the look at what it wants; pairs with runner_end(). */
	if (turn)
		atomic_store(&turn->pool, r);

	while (!(*worker = take_idle(r, t, key))) {
		err = may_start(r, key->uid);
		if (err) {
			/* As below. */
			pthread_cond_signal(&r->room);
			return err;
		}
		if (r->nr_workers < r->max_workers)
			break;
		old = oldest_idle(r);
		if (old) {
			unlink_worker(r, old);
			let_end(r, old);
			break;
		}
		if (turn && runner_is_ended(turn)) {
			/* That there is room may have been told to this one. */
			pthread_cond_signal(&r->room);
			return -ECANCELED;
		}
		err = await_room(r, deadline_ns);
		if (err)
			return err;
	}
	if (*worker)
		return 0;
	err = need_keeper(r);
	r->nr_workers += !err;
	return err;
}

/* It has @w to itself. */
static int have(struct runner_task *t, struct worker *w, struct worker **worker)
{
	t->unpaid_ns += worker_link(w)->unpaid_ns;
	worker_link(w)->unpaid_ns = 0;
	*worker = w;
	return 0;
}

int pool_take(struct runner *r, struct runner_task *t, const struct worker_time *time,
	      struct worker **worker)
{
	const struct worker_key key = key_of(r, t);
	uint64_t deadline = t->deadline_ns;
	struct worker *w = take_kept(r, t, &key);
	int err;

	if (w)
		return have(t, w, worker);
	if (!deadline && t->most_ns)
		deadline = now_ns() + t->most_ns;
	pthread_mutex_lock(&r->lock);
	err = take_place(r, t, &key, deadline, &w);
	if (!err)
		t->unpaid_ns += take_debt(r, &key);
	pthread_mutex_unlock(&r->lock);
	if (err == -EUSERS)
		return say_too_many(r, key.uid);
	if (err == -ETIMEDOUT)
		reason_set("kernel %s got no process on %s in its time: all of its %u (worker.max) were busy",
			   t->kernel->sig.name, r->dev->info.name, r->max_workers);
	if (err)
		return err;
	if (w) {
		worker_resume(w);
		return have(t, w, worker);
	}
	/* Starting takes a millisecond, or as long as its user likes: not under the lock. */
	err = worker_start(&r->options, &key, time, &w);
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	pthread_mutex_lock(&r->lock);
	/* The place that it had. */
	r->nr_workers--;
	if (err) {
		pthread_cond_signal(&r->room);
		if (w)
			let_end(r, w);
	} else {
		worker_link(w)->busy = true;
		link_worker(r, w);
		pthread_cond_signal(&r->keep);
	}
	pthread_mutex_unlock(&r->lock);
	if (err)
		return err;
	count(&r->worker_starts);
	*worker = w;
	return 0;
}

void pool_give(struct runner *r, struct worker *w, enum worker_fate fate)
{
	if (fate != WORKER_ALIVE || !keep(r, w))
		return_worker(r, w, fate);
}

/* Idle workers that nobody has used for a while; all.  And stale ones. */
enum end { END_OLD, END_ALL };

/* (locked) */
static struct worker *find_ended(struct runner *r, enum end which)
{
	uint64_t now = now_ns();	/* under the lock: no last_used_ns may be later */

	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (worker_link(w)->busy)
			continue;
		if (which == END_ALL || worker_stale(w) ||
		    (which == END_OLD && now - worker_link(w)->last_used_ns >= r->idle_ns))
			return w;
	}
	return NULL;
}

/* (locked) */
static void let_idle_end(struct runner *r, enum end which)
{
	struct worker *w;

	while ((w = find_ended(r, which))) {
		unlink_worker(r, w);
		let_end(r, w);
	}
}

/*
 * (locked) Of those that are no longer in the pool free who is gone, whom nobody else would reap.  Who
 * hangs in the kernel, or is traced, is asked again later, and keeps nobody waiting.  @all: whenever
 * that was to be.  It is not locked meanwhile.
 */
static void end_leaving(struct runner *r, bool all)
{
	struct worker **p = &r->leaving, *w;
	struct worker_link *l;
	uint64_t now, age;
	bool gone;

	while ((w = *p)) {
		l = worker_link(w);
		if (!all && l->look_ns > now_ns()) {
			p = &l->next;
			continue;
		}
		pthread_mutex_unlock(&r->lock);
		gone = worker_gone(w);
		pthread_mutex_lock(&r->lock);
		/* Others may have come, to the front. */
		while (*p != w)
			p = &worker_link(*p)->next;
		if (gone) {
			*p = l->next;
			pthread_cond_broadcast(&r->gone);
			pthread_mutex_unlock(&r->lock);
			worker_free(w);
			pthread_mutex_lock(&r->lock);
			continue;
		}
		l->lingers = true;
		/* Most need a moment; who has needed long may need as long again. */
		now = now_ns();
		age = now - l->killed_ns;
		l->look_ns = now + (age < LOOK_MIN_NS ? LOOK_MIN_NS : age < LOOK_MAX_NS ? age : LOOK_MAX_NS);
		p = &l->next;
	}
}

/* (locked) */
static bool some_just_killed(const struct runner *r)
{
	uint64_t now = now_ns();

	for (struct worker *w = r->leaving; w; w = worker_link(w)->next)
		if (now - worker_link(w)->killed_ns < END_NS)
			return true;
	return false;
}

/* (locked) When the keeper has to look again, whoever signals. */
static uint64_t next_look(const struct runner *r)
{
	uint64_t at = now_ns() + r->idle_ns + 1000000000u;

	for (struct worker *w = r->leaving; w; w = worker_link(w)->next)
		if (worker_link(w)->look_ns < at)
			at = worker_link(w)->look_ns;
	return at;
}

/* (locked) Whether some are awake still; pause who is done, or has had its time. */
static bool pause_awake(struct runner *r)
{
	bool any = false, in_time;

	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (!worker_link(w)->awake)
			continue;
		note_unpaid(r, w);
		/* Looks, a millisecond apart or more: on a busy machine both have less time. */
		in_time = worker_link(w)->awake_looks++ < UNMAP_LOOKS &&
			  worker_link(w)->unpaid_ns < UNPAID_NS;
		if (!worker_caught_up(w) && in_time) {
			any = true;
			continue;
		}
		/* Who does not do what it is told has to go for its memory to, and for its threads. */
		if (worker_caught_up(w) && worker_link(w)->unpaid_ns < UNPAID_NS)
			worker_pause(w);
		else
			worker_set_stale(w);
		worker_link(w)->awake = false;
	}
	return any;
}

/* Ends workers that have been idle for long, and sees that those which unmap sleep again. */
static void *keeper_main(void *arg)
{
	struct runner *r = arg;
	struct timespec until;
	bool awake;

	pthread_setname_np(pthread_self(), "arax-keeper");
	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		awake = pause_awake(r);
		let_idle_end(r, END_OLD);
		end_leaving(r, false);
		if (awake) {
			pthread_mutex_unlock(&r->lock);
			usleep(1000);
			pthread_mutex_lock(&r->lock);
			continue;
		}
		/* It was not locked all the time, and who signals is not heard but by who waits. */
		if (r->stop || pause_awake(r) || find_ended(r, END_OLD))
			continue;
		if (!r->workers && !r->leaving) {
			pthread_cond_wait(&r->keep, &r->lock);
			continue;
		}
		until = time_at(next_look(r));
		pthread_cond_timedwait(&r->keep, &r->lock, &until);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* (locked) Idle workers that are not to be used again give back what they have now. */
static void kill_stale(struct runner *r)
{
	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (worker_link(w)->busy || !worker_stale(w))
			continue;
		worker_kill(w);
		pthread_cond_signal(&r->keep);	/* who waits for its end; not this thread */
	}
}

void runner_drop_buffer(struct runner *r, uint64_t id)
{
	pthread_mutex_lock(&r->lock);
	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (!worker_drop_buffer(w, id) || worker_link(w)->busy ||
		    !worker_key_foreign(worker_key(w)))
			continue;
		/* The memory must go: not when it has its next launch, perhaps. */
		worker_resume(w);
		wake_up(r, w);
	}
	kill_stale(r);
	pthread_mutex_unlock(&r->lock);
}

void runner_drop_kernel(struct runner *r, uint64_t serial)
{
	pthread_mutex_lock(&r->lock);
	for (struct worker *w = r->workers; w; w = worker_link(w)->next)
		worker_drop_kernel(w, serial);
	kill_stale(r);
	pthread_mutex_unlock(&r->lock);
}

void pool_stop(struct runner *r)
{
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->keep);
	pthread_mutex_unlock(&r->lock);
	if (r->has_keeper)
		pthread_join(r->keeper, NULL);
	pthread_mutex_lock(&r->lock);
	let_idle_end(r, END_ALL);
	pthread_mutex_unlock(&r->lock);
}

/* Their time counts from their kill: of runners that were all stopped first it is the same. */
void pool_end(struct runner *r)
{
	pthread_mutex_lock(&r->lock);
	for (end_leaving(r, true); some_just_killed(r); end_leaving(r, true)) {
		pthread_mutex_unlock(&r->lock);
		usleep(1000);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	while (r->leaving) {
		struct worker *w = r->leaving;

		r->leaving = worker_link(w)->next;
		worker_free(w);
	}
}
