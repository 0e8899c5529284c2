// SPDX-License-Identifier: MIT
#include "daemon/worker/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "daemon/awake.h"
#include "daemon/backends/cpulist.h"
#include "daemon/libexec.h"
#include "daemon/log.h"
#include "daemon/worker/sandbox.h"
#include "daemon/worker/worker.h"

#define BUILD_NS	60000000000ull
#define NOBODY		65534u	/* the kernel's overflow uid: no user's */
#define UNMAP_LOOKS	50	/* that a worker which is told to unmap a buffer has at most */

struct lane {
	struct runner *runner;
	uint32_t index;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock;		/* what follows */
	pthread_cond_t cond;
	struct runner_task *head, **tail;
	bool stop;
	_Atomic uint32_t submitted;	/* counts tasks: seen without the lock */
	uint32_t taken;			/* of them; by its thread */
	struct worker *kept;		/* its thread's alone; see keep() */
};

/* A kernel on this device. */
struct handle {
	_Atomic(void *) loaded;		/* set once, under the runner's lock */
	int err;			/* loading failed: don't try again */
	/* For workers with OpenCL, before there are any launches. */
	int built;			/* a descriptor plus 1; 0: it is not */
	bool borrowed;			/* that is another kernel's, of the same file */
};

struct runner {
	struct device *dev;
	const struct registry *registry;
	uint32_t nr_kernels;
	struct handle *handles;
	bool host;			/* cores, on host pages: workers are possible */
	bool opencl;			/* OpenCL, likewise */
	_Atomic bool can_foreign;	/* and so are some that are locked up */

	pthread_mutex_t lock;		/* handles, workers */
	struct worker_options options;
	uint64_t timeout_ns, idle_ns;
	uint32_t max_workers, nr_workers;	/* with those that are being started */
	pthread_cond_t room;		/* one is idle, or gone */
	struct worker *workers;		/* most recently used first */
	pthread_t keeper;
	pthread_cond_t keep;		/* something for the keeper to do */
	bool has_keeper, stop;
	struct worker *leaving;		/* for it to end */

	_Atomic uint64_t runs, worker_runs, worker_starts, worker_crashes, worker_timeouts;
	_Atomic uint32_t awake;		/* lanes that wait so */
	_Atomic uint32_t busy;		/* lanes that have a task */
	uint32_t nr_lanes;
	struct lane lanes[];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

bool runner_needs_worker(const struct runner *r, const struct kernel *k)
{
	return (r->host || r->opencl) && k->addressing == KERNEL_ADDRESSING_DATA;
}

/* ------------------------------------------------------------------ */
/* In this process                                                       */

static int load_locked(struct runner *r, const struct kernel *k, struct handle *h)
{
	const struct kernel_impl *impl = kernel_impl(k, r->dev->info.kind);
	struct arax_backend_kernel desc = { .size = sizeof(desc) };
	void *loaded = NULL;

	if (!impl) {
		h->err = -ENOEXEC;
		return h->err;
	}
	/* It would have other tenants' memory, or ours, within its reach. */
	if (k->addressing == KERNEL_ADDRESSING_DATA) {
		h->err = -EOPNOTSUPP;
		return h->err;
	}
	desc.flags = k->split ? ARAX_KERNEL_SPLIT : 0;
	desc.fd = impl->fd;
	desc.file = impl->file;
	desc.symbol = impl->symbol;
	desc.signature = k->sig.text;
	h->err = device_kernel_load(r->dev, &desc, &loaded);
	if (h->err) {
		log_err("kernel can't be loaded", log_str("kernel", k->sig.name),
			log_str("device", r->dev->info.name), log_str("file", impl->file),
			log_str("symbol", impl->symbol), log_errno(h->err));
		return h->err;
	}
	/* Release: what the backend made; pairs with the acquire in get_kernel(). */
	atomic_store_explicit(&h->loaded, loaded, memory_order_release);
	return 0;
}

static __attribute__((cold)) int load_kernel(struct runner *r, const struct kernel *k,
					     struct handle *h, void **loaded)
{
	int err;

	pthread_mutex_lock(&r->lock);
	err = h->err;
	if (!err && !atomic_load_explicit(&h->loaded, memory_order_relaxed))
		err = load_locked(r, k, h);
	*loaded = atomic_load_explicit(&h->loaded, memory_order_relaxed);
	pthread_mutex_unlock(&r->lock);
	return err;
}

static inline int get_kernel(struct runner *r, const struct kernel *k, void **loaded)
{
	struct handle *h;

	/* A foreign one has no place: not in this process, whatever the device. */
	if (__builtin_expect(k->index >= r->nr_kernels, 0))
		return -EOPNOTSUPP;
	h = &r->handles[k->index];
	*loaded = atomic_load_explicit(&h->loaded, memory_order_acquire);
	return __builtin_expect(!!*loaded, 1) ? 0 : load_kernel(r, k, h, loaded);
}

/* What a kernel or a plug-in returned. */
static inline int checked(int err)
{
	return err > 0 || err < -4095 ? -EIO : err;
}

static inline int fill_run(struct runner *r, const struct runner_task *t, uint32_t flags,
			   struct arax_backend_run *run)
{
	*run = (struct arax_backend_run){
		.size = sizeof(*run),
		.flags = flags,
		.lane = t->lane,
		.launch = &t->launch,
		.name = t->kernel->sig.name,
		.deadline_ns = t->deadline_ns,
	};
	return get_kernel(r, t->kernel, &run->kernel);
}

static inline int run_here(struct runner *r, const struct runner_task *t, uint32_t flags,
			   uint64_t *device_ns)
{
	struct arax_backend_run run;
	int err = fill_run(r, t, flags, &run);

	if (!err)
		err = device_run(r->dev, &run);
	if (device_ns)
		*device_ns = run.device_ns;
	return checked(err);
}

/* ------------------------------------------------------------------ */
/* In a worker                                                           */

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
	return key;
}

static bool same_key(const struct worker_key *a, const struct worker_key *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->role == b->role &&
	       a->owner == b->owner && a->serial == b->serial;
}

/* An idle one for `key`; NULL: the one of all that was used longest ago. */
static struct worker *find_idle(struct runner *r, const struct worker_key *key)
{
	struct worker *found = NULL;

	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (worker_link(w)->busy)
			continue;
		if (!key)
			found = w;
		else if (same_key(worker_key(w), key))
			return w;
	}
	return found;
}

static void *keeper_main(void *arg);

/* (locked) With the first worker comes who ends idle ones. */
static int need_keeper(struct runner *r)
{
	if (r->has_keeper)
		return 0;
	if (pthread_create(&r->keeper, NULL, keeper_main, r))
		return -EAGAIN;
	r->has_keeper = true;
	return 0;
}

/* (locked) Idle, but for something that it has been told: the keeper waits for that. */
static void wake_up(struct runner *r, struct worker *w)
{
	if (!worker_link(w)->awake)
		worker_link(w)->awake_looks = 0;
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

static void return_worker(struct runner *r, struct worker *w, enum worker_fate fate)
{
	pthread_mutex_lock(&r->lock);
	unlink_worker(r, w);
	if (fate == WORKER_ALIVE && worker_usable(w)) {
		worker_link(w)->busy = false;
		worker_link(w)->last_used_ns = now_ns();
		link_worker(r, w);
		rest(r, w);
		w = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	if (w)
		worker_stop(w);
}

/*
 * To pause a worker and to let it go on costs more than a short launch, and the next one is
 * often for the same: so a lane keeps it while it waits for that awake.
 */
static _Thread_local struct lane *this_lane;

static void keep_no_more(struct lane *lane)
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
	keep_no_more(this_lane);
	this_lane->kept = w;
	return true;
}

/* Nothing that such a worker runs: then it is not kept. */
static void keep_for(const struct runner_task *t)
{
	const struct kernel *k = t->kernel;

	if (!this_lane)
		return;
	if (!k || !(k->foreign || (this_lane->runner->opencl && runner_needs_worker(this_lane->runner, k))))
		keep_no_more(this_lane);
}

static struct worker *take_kept(const struct runner *r, const struct worker_key *key)
{
	struct worker *w = this_lane && this_lane->runner == r ? this_lane->kept : NULL;

	if (!w)
		return NULL;
	if (!same_key(worker_key(w), key) || !worker_usable(w)) {
		keep_no_more(this_lane);
		return NULL;
	}
	this_lane->kept = NULL;
	return w;
}

/*
 * (locked) By the keeper: what it has mapped may take long to go, and is not the next one's
 * time.  There is a keeper, as there was a worker.
 */
static void let_end(struct runner *r, struct worker *w)
{
	worker_link(w)->next = r->leaving;
	r->leaving = w;
	pthread_cond_signal(&r->keep);
}

/* (locked) An idle one of that key; those of it that are of no use any more go. */
static struct worker *take_idle(struct runner *r, const struct worker_key *key)
{
	struct worker *w;

	while ((w = find_idle(r, key))) {
		if (worker_usable(w)) {
			*worker_link(w) = (struct worker_link){ worker_link(w)->next, .busy = true };
			return w;
		}
		unlink_worker(r, w);
		let_end(r, w);
	}
	return NULL;
}

/* (locked) Until there is room for one more, or -ETIMEDOUT.  It is not locked meanwhile. */
static int await_room(struct runner *r, uint64_t deadline_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / 1000000000u),
		.tv_nsec = (long)(deadline_ns % 1000000000u),
	};

	return -(deadline_ns ? pthread_cond_timedwait(&r->room, &r->lock, &until) :
			       pthread_cond_wait(&r->room, &r->lock));
}

/*
 * (locked) A worker of that key, or *@worker NULL and a place for one that is to be started.
 * Where all places are taken by others that are busy, it waits.
 */
static int take_place(struct runner *r, const struct worker_key *key, uint64_t deadline_ns,
		      struct worker **worker)
{
	struct worker *old;
	int err;

	while (!(*worker = take_idle(r, key)) && r->nr_workers >= r->max_workers) {
		old = find_idle(r, NULL);
		if (old) {
			unlink_worker(r, old);
			let_end(r, old);
			continue;
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

/* A worker for this task alone, or an error. */
static int take_worker(struct runner *r, const struct runner_task *t, struct worker **worker)
{
	const struct worker_key key = key_of(r, t);
	struct worker *w = take_kept(r, &key);
	int err;

	if (w) {
		*worker = w;
		return 0;
	}
	pthread_mutex_lock(&r->lock);
	err = take_place(r, &key, t->deadline_ns, &w);
	pthread_mutex_unlock(&r->lock);
	if (err)
		return err;
	if (w) {
		worker_resume(w);
		*worker = w;
		return 0;
	}
	/* Starting takes a millisecond: not under the lock. */
	err = worker_start(&r->options, &key, &w);
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	pthread_mutex_lock(&r->lock);
	/* The place that it had. */
	r->nr_workers--;
	if (err) {
		pthread_cond_signal(&r->room);
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

/* A part of the device for each lane that has a task: workers don't know of each other. */
static uint32_t cores_for_one(const struct runner *r)
{
	uint32_t busy = atomic_load_explicit(&r->busy, memory_order_relaxed);
	uint32_t cores = r->dev->info.units / (busy ? busy : 1);

	return cores ? cores : 1;
}

static void give_worker(struct runner *r, struct worker *w, enum worker_fate fate)
{
	if (fate != WORKER_ALIVE || !keep(r, w))
		return_worker(r, w, fate);
}

static struct worker_key build_key(void)
{
	struct worker_key key = { .uid = geteuid(), .gid = getegid(), .role = WORKER_OPENCL_BUILD };

	/*
	 * Nobody's: it needs no file of a user's, and a linker that the compiler starts can be
	 * looked into by whoever has the same uid.
	 */
	if (!key.uid)
		key.uid = key.gid = NOBODY;
	return key;
}

/* What another kernel of the same file was built to; 0: nothing. */
static int built_beside(const struct runner *r, const struct kernel *k)
{
	int fd = kernel_impl(k, r->dev->info.kind)->fd;

	for (uint32_t i = 0; i < r->nr_kernels; i++) {
		const struct kernel_impl *impl = r->handles[i].built && !r->handles[i].borrowed ?
			kernel_impl(registry_at(r->registry, i), r->dev->info.kind) : NULL;

		if (impl && impl->fd == fd)
			return r->handles[i].built;
	}
	return 0;
}

/*
 * What is installed is nobody's secret: it is compiled once for all users, and before there are
 * any, so that none of them can keep it from being.
 */
static int build_installed(struct runner *r, const struct kernel *k)
{
	struct handle *h = &r->handles[k->index];
	struct worker_key key = build_key();
	char why[1024] = "";
	const struct runner_task t = { .kernel = k, .flags = RUNNER_TRY, .why = why,
				       .why_len = sizeof(why) };
	uint64_t bytes;
	int fd, err;

	h->built = built_beside(r, k);
	h->borrowed = h->built;
	if (h->built)
		return 0;
	err = worker_build(&r->options, &key, &t, now_ns() + BUILD_NS, &fd, &bytes);
	if (!err) {
		h->built = fd + 1;
		return 0;
	}
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	log_err("kernel can't be built", log_str("kernel", k->sig.name),
		log_str("device", r->dev->info.name), log_str("why", why), log_errno(err));
	return err;
}

/* What it is to a task that a worker can't be had: only a device says that it is lost. */
static int not_had(int err)
{
	return err == -ENODEV ? -EOPNOTSUPP : err;
}

static int run_in_worker(struct runner *r, struct runner_task *t)
{
	uint64_t deadline = t->deadline_ns;
	enum worker_fate fate;
	struct worker *w;
	int err;

	if (!kernel_impl(t->kernel, r->dev->info.kind))
		return -ENOEXEC;
	if ((t->kernel->foreign || r->opencl) && !runner_can_foreign(r))
		return -EOPNOTSUPP;
	if (r->options.program < 0)
		return -EAGAIN;
	if (r->opencl && !t->kernel->foreign)
		t->image = r->handles[t->kernel->index].built;
	err = take_worker(r, t, &w);
	if (err)
		return not_had(err);
	if (r->timeout_ns) {
		uint64_t latest = now_ns() + r->timeout_ns;

		if (!deadline || latest < deadline)
			deadline = latest;
	}
	err = worker_run(w, t, cores_for_one(r), deadline, &fate);
	count(&r->worker_runs);
	if (fate == WORKER_CRASHED)
		count(&r->worker_crashes);
	if (fate == WORKER_KILLED)
		count(&r->worker_timeouts);
	give_worker(r, w, fate);
	/* Only a device says that it is lost. */
	return err == -ENODEV ? -EIO : err;
}

/* Idle workers that nobody has used for a while; one uid's; all.  And stale ones. */
enum end { END_OLD, END_UID, END_ALL };

/* (locked) */
static struct worker *find_ended(struct runner *r, enum end which, uint32_t uid)
{
	uint64_t now = now_ns();	/* under the lock: no last_used_ns may be later */

	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (worker_link(w)->busy)
			continue;
		if (which == END_ALL || (which == END_UID && worker_key(w)->uid == uid) ||
		    worker_stale(w) ||
		    (which == END_OLD && now - worker_link(w)->last_used_ns >= r->idle_ns))
			return w;
	}
	return NULL;
}

/* (locked) End them.  It is not locked meanwhile. */
static void end_idle(struct runner *r, enum end which, uint32_t uid)
{
	struct worker *w;

	while ((w = find_ended(r, which, uid))) {
		unlink_worker(r, w);
		pthread_mutex_unlock(&r->lock);
		worker_stop(w);
		pthread_mutex_lock(&r->lock);
	}
}

/* (locked) The same with those that are no longer in the pool. */
static void end_leaving(struct runner *r)
{
	struct worker *w;

	while ((w = r->leaving)) {
		r->leaving = worker_link(w)->next;
		pthread_mutex_unlock(&r->lock);
		worker_stop(w);
		pthread_mutex_lock(&r->lock);
	}
}

/* (locked) Whether some are awake still; pause who is done, or has had its time. */
static bool pause_awake(struct runner *r)
{
	bool any = false, in_time;

	for (struct worker *w = r->workers; w; w = worker_link(w)->next) {
		if (!worker_link(w)->awake)
			continue;
		/* Looks, a millisecond apart or more: on a busy machine both have less time. */
		in_time = worker_link(w)->awake_looks++ < UNMAP_LOOKS;
		if (!worker_caught_up(w) && in_time) {
			any = true;
			continue;
		}
		/* Who does not do what it is told has to go for its memory to. */
		if (worker_caught_up(w))
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

	pthread_setname_np(pthread_self(), "arax-keeper");
	pthread_mutex_lock(&r->lock);
	while (!r->stop) {
		if (pause_awake(r)) {
			pthread_mutex_unlock(&r->lock);
			usleep(1000);
			pthread_mutex_lock(&r->lock);
			continue;
		}
		end_leaving(r);
		end_idle(r, END_OLD, 0);
		if (r->stop || pause_awake(r))
			continue;
		if (r->leaving)
			continue;
		if (!r->workers) {
			pthread_cond_wait(&r->keep, &r->lock);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += (time_t)(r->idle_ns / 1000000000u) + 1;
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

void runner_drop_uid(struct runner *r, uint32_t uid)
{
	pthread_mutex_lock(&r->lock);
	/* Those that a lane has kept. */
	for (struct worker *w = r->workers; w; w = worker_link(w)->next)
		if (worker_key(w)->uid == uid && worker_link(w)->busy)
			worker_set_stale(w);
	end_idle(r, END_UID, uid);
	pthread_mutex_unlock(&r->lock);
}

/* ------------------------------------------------------------------ */
/* Tasks                                                                 */

bool runner_can_foreign(const struct runner *r)
{
	return atomic_load_explicit(&r->can_foreign, memory_order_relaxed);
}

int runner_try(struct runner *r, struct runner_task *t)
{
	return runner_can_foreign(r) ? run_in_worker(r, t) : -EOPNOTSUPP;
}

bool runner_builds(const struct runner *r)
{
	return r->opencl;
}

int runner_build(struct runner *r, const struct runner_task *t, int *built, uint64_t *bytes)
{
	struct worker_key key = build_key();
	int err;

	if (!runner_can_foreign(r))
		return -EOPNOTSUPP;
	/* It is not to run meanwhile. */
	if (this_lane)
		keep_no_more(this_lane);
	err = worker_build(&r->options, &key, t, t->deadline_ns, built, bytes);
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	return not_had(err);
}

static int run_counted(struct runner *r, struct runner_task *t)
{
	int err = run_here(r, t, t->flags & RUNNER_INLINE ? ARAX_RUN_INLINE : 0, &t->device_ns);

	if (!(t->flags & RUNNER_INLINE))
		count(&r->runs);
	return err;
}

int runner_run(struct runner *r, struct runner_task *t)
{
	bool timed = t->flags & RUNNER_TIMED;
	uint64_t start = 0;

	t->device_ns = 0;
	if (t->flags & RUNNER_ENTER_ONLY)
		return 0;
	if (t->deadline_ns || timed)
		start = now_ns();
	if (t->deadline_ns && start >= t->deadline_ns)
		t->result = -ETIMEDOUT;
	else if (runner_needs_worker(r, t->kernel))
		t->result = run_in_worker(r, t);
	else
		t->result = run_counted(r, t);
	if (timed) {
		t->start_ns = start;
		t->wall_ns = now_ns() - start;
	}
	if (timed && !t->device_ns)
		t->device_ns = t->wall_ns;
	return t->result;
}

int runner_run_short(struct runner *r, const struct runner_task *t)
{
	if (__builtin_expect(t->deadline_ns != 0, 0) && now_ns() >= t->deadline_ns)
		return -ETIMEDOUT;
	return run_here(r, t, ARAX_RUN_INLINE, NULL);
}

int runner_run_ready(struct runner *r, struct runner_task *t)
{
	if (t->deadline_ns && now_ns() >= t->deadline_ns)
		return -ETIMEDOUT;
	count(&r->runs);
	return run_here(r, t, 0, &t->device_ns);
}

void runner_submit(struct runner *r, struct runner_task *t)
{
	struct lane *lane = &r->lanes[t->lane % r->nr_lanes];

	t->next = NULL;
	pthread_mutex_lock(&lane->lock);
	*lane->tail = t;
	lane->tail = &t->next;
	atomic_fetch_add_explicit(&lane->submitted, 1, memory_order_relaxed);
	pthread_cond_signal(&lane->cond);
	pthread_mutex_unlock(&lane->lock);
}

int runner_prepare(struct runner *r, const struct kernel *k)
{
	void *loaded;

	if (!runner_needs_worker(r, k))
		return get_kernel(r, k, &loaded);
	if ((k->foreign || r->opencl) && !runner_can_foreign(r))
		return -EOPNOTSUPP;
	if (!kernel_impl(k, r->dev->info.kind))
		return -ENOEXEC;
	return r->opencl && !k->foreign ? build_installed(r, k) : 0;
}

/* NULL: it can't be run here, or nothing has to be configured for it. */
static void *configurable(struct runner *r, const struct kernel *k)
{
	return device_is_configured(r->dev) && k->index < r->nr_kernels ?
	       atomic_load_explicit(&r->handles[k->index].loaded, memory_order_acquire) : NULL;
}

uint32_t runner_configuration(struct runner *r, const struct kernel *k)
{
	void *loaded = configurable(r, k);

	return loaded ? device_configuration(r->dev, loaded) : 0;
}

int runner_configure(struct runner *r, const struct kernel *k)
{
	void *loaded = configurable(r, k);

	return loaded ? device_configure(r->dev, loaded) : 0;
}

uint64_t runner_switch_ns(struct runner *r, const struct kernel *k)
{
	void *loaded = configurable(r, k);

	return loaded ? device_switch_ns(r->dev, loaded) : 0;
}

/* ------------------------------------------------------------------ */
/* Lanes                                                                 */

uint32_t runner_depth(const struct runner *r)
{
	return device_depth(r->dev);
}

/* (locked) */
static void take_first(struct lane *lane)
{
	lane->head = lane->head->next;
	if (!lane->head)
		lane->tail = &lane->head;
	lane->taken++;
}

/* What is queued, without waiting. */
static struct runner_task *another(struct lane *lane)
{
	struct runner_task *t;

	pthread_mutex_lock(&lane->lock);
	t = lane->stop ? NULL : lane->head;
	if (t)
		take_first(lane);
	pthread_mutex_unlock(&lane->lock);
	return t;
}

/* The next task; NULL: stop. */
static struct runner_task *next_task(struct lane *lane)
{
	struct runner_task *t;

	pthread_mutex_lock(&lane->lock);
	while (!lane->head && !lane->stop)
		pthread_cond_wait(&lane->cond, &lane->lock);
	t = lane->stop ? NULL : lane->head;
	if (t)
		take_first(lane);
	pthread_mutex_unlock(&lane->lock);
	return t;
}

static void run_staged(struct runner *r, struct runner_task *t)
{
	uint64_t start = t->enter ? now_ns() : 0, ran;

	atomic_fetch_add_explicit(&r->busy, 1, memory_order_relaxed);
	t->flags |= RUNNER_TIMED;
	t->result = t->enter ? t->enter(t) : 0;
	t->enter_ns = t->enter ? now_ns() - start : 0;
	if (!t->result) {
		runner_run(r, t);
		ran = t->leave ? now_ns() : 0;
		if (t->leave)
			t->result = t->leave(t, t->result);
		t->leave_ns = t->leave ? now_ns() - ran : 0;
	}
	t->hold_ns = t->enter ? now_ns() - start : t->wall_ns;
	atomic_fetch_sub_explicit(&r->busy, 1, memory_order_relaxed);
}

static bool has_come(const void *arg)
{
	const struct lane *lane = arg;

	return atomic_load_explicit(&lane->submitted, memory_order_relaxed) != lane->taken;
}

/*
 * The next task often comes as soon as this one's end is known: to wait awake for
 * about the price of a wake-up spares the poller and this thread one each.
 */
static bool await_next(const struct lane *lane)
{
	struct runner *r = lane->runner;
	uint32_t awake;
	bool come;

	if (!awake_many_cpus())
		return awake_for(has_come, lane);
	/* They wait for long there: most of a group's cores are for its kernels and for programs. */
	awake = atomic_fetch_add_explicit(&r->awake, 1, memory_order_relaxed);
	come = awake < awake_cpus() / AWAKE_SHARE ? awake_for(has_come, lane) : has_come(lane);
	atomic_fetch_sub_explicit(&r->awake, 1, memory_order_relaxed);
	return come;
}

/**
 * struct under_way - a lane's launches on a device that takes several
 * @tasks:	from @first on, oldest first
 * @began:	when each of them did, with its @enter
 * @entered:	the one that comes next has passed its @enter
 * @accounted_ns: until when the lane's time has been given to tasks
 */
struct under_way {
	struct runner_task *tasks[ARAX_LANE_DEPTH];
	uint64_t began[ARAX_LANE_DEPTH];
	uint32_t first, nr;
	bool entered;
	uint64_t next_began;
	uint64_t accounted_ns;
};

enum started { STARTED, HAS_ENDED, NOT_YET };

static int submit(struct runner *r, struct runner_task *t)
{
	struct arax_backend_run run;
	int err;

	if (t->deadline_ns && now_ns() >= t->deadline_ns)
		return -ETIMEDOUT;
	/* A worker has it by itself. */
	if (runner_needs_worker(r, t->kernel))
		return -EAGAIN;
	err = fill_run(r, t, 0, &run);
	return err ? err : checked(device_submit(r->dev, &run, 0));
}

/* NOT_YET: where others have to end first. */
static enum started enter(struct runner_task *t, struct under_way *u)
{
	u->next_began = now_ns();
	t->wall_ns = t->hold_ns = t->device_ns = t->enter_ns = 0;
	t->start_ns = u->next_began;
	t->result = 0;
	if (t->enter) {
		t->flags = u->nr ? t->flags | RUNNER_NO_WAIT : t->flags & ~RUNNER_NO_WAIT;
		t->result = t->enter(t);
		if (t->result == -EAGAIN && u->nr)
			return NOT_YET;
		t->start_ns = now_ns();
		t->enter_ns = t->start_ns - u->next_began;
	}
	return t->result || t->flags & RUNNER_ENTER_ONLY ? HAS_ENDED : STARTED;
}

/*
 * It is over, with what comes after the run.  Of the lane's time it pays for what nobody has
 * paid for yet, so that none is paid twice however many are under way.
 */
static void account(struct runner_task *t, struct under_way *u, uint64_t began)
{
	uint64_t now = now_ns(), since = u->accounted_ns > began ? u->accounted_ns : began;

	t->hold_ns = now > since ? now - since : 0;
	u->accounted_ns = now;
}

static enum started start(struct runner *r, struct runner_task *t, struct under_way *u)
{
	enum started s;
	uint32_t place = (u->first + u->nr) % ARAX_LANE_DEPTH;

	keep_for(t);
	s = u->entered ? STARTED : enter(t, u);
	if (s != STARTED) {
		if (s == HAS_ENDED)
			account(t, u, u->next_began);
		return s;
	}
	t->result = submit(r, t);
	/* Nothing is before it: the device wants this one run by itself. */
	u->entered = t->result == -EAGAIN && u->nr;
	if (u->entered)
		return NOT_YET;
	if (!t->result) {
		count(&r->runs);
		u->tasks[place] = t;
		u->began[place] = u->next_began;
		u->nr++;
		return STARTED;
	}
	if (t->result == -EAGAIN) {
		t->flags |= RUNNER_TIMED;
		runner_run(r, t);
	}
	if (t->leave)
		t->result = t->leave(t, t->result);
	account(t, u, u->next_began);
	return HAS_ENDED;
}

/*
 * The oldest one comes to its end.  How long its kernel took its device knows best: here it is
 * only seen by when others that were before it, and what this thread did meanwhile, were done.
 */
static void finish_oldest(struct lane *lane, struct under_way *u)
{
	struct runner_task *t = u->tasks[u->first];
	uint64_t began = u->began[u->first];
	struct arax_backend_done done = { 0 };
	int err = device_wait(lane->runner->dev, lane->index, &done);
	uint64_t now = now_ns();

	u->first = (u->first + 1) % ARAX_LANE_DEPTH;
	u->nr--;
	if (t->start_ns < u->accounted_ns)
		t->start_ns = u->accounted_ns;
	t->wall_ns = now > t->start_ns ? now - t->start_ns : 1;
	if (done.device_ns && done.device_ns < t->wall_ns) {
		t->start_ns = now - done.device_ns;
		t->wall_ns = done.device_ns;
	}
	t->device_ns = t->wall_ns;
	t->result = err ? checked(err) : checked(done.result);
	if (t->leave)
		t->result = t->leave(t, t->result);
	account(t, u, began);
	t->leave_ns = u->accounted_ns - now;
	t->done(t);
}

/*
 * While one runs the next ones' data comes, and they are handed to the device; and while
 * its results go back the next one runs.
 */
static void lane_main_ahead(struct lane *lane)
{
	struct under_way u = { .nr = 0 };
	struct runner_task *t;

	while ((t = next_task(lane))) {
		while (t || u.nr) {
			enum started s = t ? start(lane->runner, t, &u) : NOT_YET;

			if (s == HAS_ENDED)
				t->done(t);
			if (s == NOT_YET)
				finish_oldest(lane, &u);
			if (s == NOT_YET && t)
				continue;
			t = u.nr < ARAX_LANE_DEPTH ? another(lane) : NULL;
		}
		if (!await_next(lane))
			keep_no_more(lane);
	}
}

static void *lane_main(void *arg)
{
	struct lane *lane = arg;
	struct runner_task *t;
	char name[16];

	snprintf(name, sizeof(name), "arax-%.8s", lane->runner->dev->info.name);
	pthread_setname_np(pthread_self(), name);
	this_lane = lane;
	if (runner_depth(lane->runner) > 1)
		lane_main_ahead(lane);
	while ((t = next_task(lane))) {
		keep_for(t);
		run_staged(lane->runner, t);
		t->done(t);
		if (!await_next(lane))
			keep_no_more(lane);
	}
	keep_no_more(lane);
	/* What was queued and not begun. */
	for (;;) {
		pthread_mutex_lock(&lane->lock);
		t = lane->head;
		if (t)
			lane->head = t->next;
		pthread_mutex_unlock(&lane->lock);
		if (!t)
			return NULL;
		t->result = -ECANCELED;
		t->done(t);
	}
}

/* ------------------------------------------------------------------ */
/* Making and ending                                                     */

static int start_lane(struct runner *r, uint32_t i)
{
	struct lane *lane = &r->lanes[i];
	pthread_attr_t attr;
	int err;

	lane->runner = r;
	lane->index = i;
	lane->tail = &lane->head;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_cond_init(&lane->cond, NULL);
	r->nr_lanes++;
	pthread_attr_init(&attr);
	if (r->dev->info.cpus[0])
		pthread_attr_setaffinity_np(&attr, sizeof(r->options.cpus), &r->options.cpus);
	err = pthread_create(&lane->thread, &attr, lane_main, lane);
	pthread_attr_destroy(&attr);
	lane->started = !err;
	return -err;
}

/* Where the administrator sets no limit: what a user's buffers may have by default, too. */
static uint64_t eighth_of_memory(void)
{
	struct sysinfo s;

	return sysinfo(&s) ? 0 : (uint64_t)s.totalram * s.mem_unit / 8;
}

/* Whether code that programs bring can be locked up here, as far as can be seen so far. */
static bool can_foreign(const struct runner *r)
{
	bool can = (r->host || r->opencl) && r->options.program >= 0;
	const char *missing = can ? sandbox_kernel_lacks() : NULL;

	if (missing)
		worker_log_no_sandbox(missing);
	return can && !missing;
}

/* As araxd's own backend has it: only that is in the worker as well. */
static void set_device(struct runner *r, const struct config *config)
{
	struct worker_device *d = &r->options.device;

	d->index = r->dev->backend_index;
	d->name = r->dev->info.name;
	for (size_t i = 0; i < config->nr_backends; i++)
		if (!strcmp(config->backends[i].name, r->dev->backend)) {
			d->options = &config->backends[i].options;
			r->opencl &= !config->backends[i].file;
		}
}

static void open_program(struct runner *r, const struct config *config)
{
	r->options.program = libexec_open("arax-worker", config->worker.program);
	if (r->options.program < 0)
		log_warn(r->opencl ? "no worker program: kernels that programs bring can't run" :
				     "no worker program: kernels that follow data can't run",
			 log_str("program", config->worker.program ?
					    config->worker.program : "arax-worker"),
			 log_str("remedy", "set worker.program"));
}

int runner_create(struct device *dev, const struct registry *registry,
		  const struct config *config, struct runner **runner)
{
	struct runner *r = calloc(1, sizeof(*r) + dev->info.lanes * sizeof(r->lanes[0]));
	pthread_condattr_t cond;
	int err = 0;

	if (!r)
		return -ENOMEM;
	r->dev = dev;
	r->registry = registry;
	r->host = dev->info.kind == ARAX_DEVICE_CPU && !dev->info.memory;
	r->opencl = dev->info.kind == ARAX_DEVICE_OPENCL && !dev->info.memory;
	r->options.kind = dev->info.kind;
	if (r->opencl)
		set_device(r, config);
	r->nr_kernels = registry_count(registry);
	r->timeout_ns = config->worker.timeout_ms * 1000000ull;
	r->idle_ns = config->worker.idle_s * 1000000000ull;
	r->max_workers = config->worker.max;
	r->options.memory = config->worker.memory;
	/* A program may have one for each lane. */
	r->options.foreign_memory = config->worker.memory ?: eighth_of_memory() / dev->info.lanes;
	r->options.program = -1;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&r->keep, &cond);
	pthread_cond_init(&r->room, &cond);
	pthread_condattr_destroy(&cond);
	r->handles = calloc(r->nr_kernels + 1, sizeof(*r->handles));
	if (!r->handles)
		err = -ENOMEM;
	if (!dev->info.cpus[0] || cpulist_parse(dev->info.cpus, &r->options.cpus))
		sched_getaffinity(0, sizeof(r->options.cpus), &r->options.cpus);
	if (r->host || r->opencl)
		open_program(r, config);
	atomic_store(&r->can_foreign, can_foreign(r));
	for (uint32_t i = 0; !err && i < dev->info.lanes; i++)
		err = start_lane(r, i);
	if (err) {
		runner_destroy(r);
		return err;
	}
	*runner = r;
	return 0;
}

void runner_destroy(struct runner *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->nr_lanes; i++) {
		struct lane *lane = &r->lanes[i];

		pthread_mutex_lock(&lane->lock);
		lane->stop = true;
		pthread_cond_signal(&lane->cond);
		pthread_mutex_unlock(&lane->lock);
	}
	for (uint32_t i = 0; i < r->nr_lanes; i++) {
		if (r->lanes[i].started)
			pthread_join(r->lanes[i].thread, NULL);
		pthread_cond_destroy(&r->lanes[i].cond);
		pthread_mutex_destroy(&r->lanes[i].lock);
	}
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->keep);
	pthread_mutex_unlock(&r->lock);
	if (r->has_keeper)
		pthread_join(r->keeper, NULL);
	pthread_mutex_lock(&r->lock);
	end_leaving(r);
	end_idle(r, END_ALL, 0);
	pthread_mutex_unlock(&r->lock);
	for (uint32_t i = 0; r->handles && i < r->nr_kernels; i++) {
		void *loaded = atomic_load(&r->handles[i].loaded);

		if (loaded)
			device_kernel_unload(r->dev, loaded);
		if (r->handles[i].built && !r->handles[i].borrowed)
			close(r->handles[i].built - 1);
	}
	if (r->options.program >= 0)
		close(r->options.program);
	pthread_cond_destroy(&r->keep);
	pthread_cond_destroy(&r->room);
	pthread_mutex_destroy(&r->lock);
	free(r->handles);
	free(r);
}

void runner_query(struct runner *r, struct runner_stats *s)
{
	s->runs = atomic_load(&r->runs);
	s->worker_runs = atomic_load(&r->worker_runs);
	s->worker_starts = atomic_load(&r->worker_starts);
	s->worker_crashes = atomic_load(&r->worker_crashes);
	s->worker_timeouts = atomic_load(&r->worker_timeouts);
	pthread_mutex_lock(&r->lock);
	s->workers = r->nr_workers;
	pthread_mutex_unlock(&r->lock);
}
