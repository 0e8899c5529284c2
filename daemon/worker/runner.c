// SPDX-License-Identifier: MIT

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "daemon/awake.h"
#include "daemon/backends/cpulist.h"
#include "daemon/kernels/overlap.h"
#include "daemon/kernels/work.h"
#include "daemon/libexec.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "daemon/worker/await.h"
#include "daemon/worker/inside.h"
#include "daemon/worker/sandbox.h"

#define WORKERS_SPARE	16	/* by default, beside two for each lane */
#define BUILD_NS	60000000000ull
#define NOBODY		65534u	/* the kernel's overflow uid: no user's */
bool runner_needs_worker(const struct runner *r, const struct kernel *k)
{
	return (r->host || r->opencl) && k->addressing == KERNEL_ADDRESSING_DATA;
}

bool runner_has_parts(const struct runner *r, const struct kernel *k)
{
	return r->host && k->parts.nr && !runner_needs_worker(r, k);
}

uint32_t runner_spare_workers(const struct runner *r)
{
	uint32_t lanes = r->dev->info.lanes;

	if (!r->host && !r->opencl)
		return 0;
	return r->max_workers > lanes ? r->max_workers - lanes : 0;
}

/* ------------------------------------------------------------------ */
/* In this process                                                       */

static int load_impl(struct runner *r, const struct kernel *k, const struct kernel_impl *impl,
		     void **loaded)
{
	const struct arax_backend_kernel desc = {
		.size = sizeof(desc),
		.flags = (k->split ? ARAX_KERNEL_SPLIT : 0) |
			 (impl->host ? ARAX_KERNEL_STREAM : 0) |
			 (impl->gpus ? ARAX_KERNEL_GPUS : 0),
		.fd = impl->fd,
		.file = impl->file,
		.symbol = impl->symbol,
		.signature = k->sig.text,
	};
	int err;

	reason_forget();
	err = device_kernel_load(r->dev, &desc, loaded);
	if (!err)
		return 0;
	/* The backend has said why; or it is meant for other devices. */
	if (impl->gpus && err == -EOPNOTSUPP)
		log_debug("kernel's implementation is for GPUs", log_str("kernel", k->sig.name),
			  log_str("device", r->dev->info.name), log_str("file", impl->file));
	else if (kernel_impl_next(k, impl))
		log_info("kernel goes without an implementation", log_str("kernel", k->sig.name),
			 log_str("device", r->dev->info.name), log_str("file", impl->file),
			 log_errno(err), log_str("reason", reason_text));
	else
		log_err("kernel can't be loaded", log_str("kernel", k->sig.name),
			log_str("device", r->dev->info.name), log_str("file", impl->file),
			log_str("symbol", impl->symbol), log_errno(err),
			log_str("reason", reason_text));
	return err;
}

/* The first that can be, and those behind it as far as it may not be for all launches. */
static int load_locked(struct runner *r, const struct kernel *k, struct handle *h)
{
	const struct kernel_impl *impl = kernel_impl(k, r->dev->info.kind);
	void *loaded[1 + RUNNER_OTHERS];
	bool more = true, host = false;
	uint32_t nr = 0;

	if (!impl) {
		h->err = -ENOEXEC;
		return h->err;
	}
	/* It would have other tenants' memory, or ours, within its reach. */
	if (k->addressing == KERNEL_ADDRESSING_DATA) {
		reason_set("its \"addressing\" is \"data\", which needs a process of its own: a device with its own memory runs \"launch\" alone");
		h->err = -EOPNOTSUPP;
		return h->err;
	}
	for (; impl && more; impl = kernel_impl_next(k, impl)) {
		int err = load_impl(r, k, impl, &loaded[nr]);

		if (err) {
			h->err = nr ? 0 : err;
			continue;
		}
		more = impl->host;
		host |= more;
		nr++;
	}
	if (!nr)
		return h->err;
	h->err = 0;
	h->host = host;
	h->all_host = more;
	for (uint32_t i = 1; i < nr; i++)
		h->others[i - 1] = loaded[i];
	/* Release: what the backend made, and others; pairs with the acquire in get_kernel(). */
	atomic_store_explicit(&h->loaded, loaded[0], memory_order_release);
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

static inline int fill_run(struct runner *r, const struct runner_task *t, uint32_t flags,
			   struct arax_backend_run *run)
{
	int err;

	*run = (struct arax_backend_run){
		.size = sizeof(*run),
		.flags = flags,
		.lane = t->lane,
		.launch = &t->launch,
		.name = t->kernel->sig.name,
		.deadline_ns = t->deadline_ns,
		.program = t->program,
		.due_ns = t->due_ns,
	};
	err = get_kernel(r, t->kernel, &run->kernel);
	/* Last: where it can't be run at all that is the reason. */
	if (!err)
		err = work_check(t->kernel, &t->launch, r->dev->info.gpu);
	return err ? err : overlap_check(t->kernel, &t->launch);
}

/* How the next implementation is run, if there is one. */
typedef int run_fn(struct runner *r, struct arax_backend_run *run);

static int run_device(struct runner *r, struct arax_backend_run *run)
{
	return device_run(r->dev, run);
}

static int submit_device(struct runner *r, struct arax_backend_run *run)
{
	return device_submit(r->dev, run, 0);
}

/* It did nothing: the launch is for another implementation.  @out: NULL: nobody asks. */
static __attribute__((cold)) int run_other(struct runner *r, const struct kernel *k,
					   struct arax_backend_run *run, run_fn *go,
					   struct runner_task *out)
{
	const struct handle *h = &r->handles[k->index];
	int err = -EOPNOTSUPP;

	for (uint32_t i = 0; err == -EOPNOTSUPP && i < RUNNER_OTHERS && h->others[i]; i++) {
		run->kernel = h->others[i];
		err = go(r, run);
	}
	/* What is no function may have begun when it said so. */
	if (out)
		out->declined = err == -EOPNOTSUPP && h->all_host;
	return err;
}

int runner_no_errno(int result)
{
	reason_set("the kernel, or its device's plug-in, returned %d, and may return 0 or a negative errno", result);
	return -EIO;
}

/* @out: @t, or NULL: nobody asks for more than the result. */
static inline int run_filled(struct runner *r, const struct runner_task *t,
			     struct arax_backend_run *run, int err, struct runner_task *out)
{
	if (!err) {
		err = device_run(r->dev, run);
		if (__builtin_expect(err == -EOPNOTSUPP, 0))
			err = run_other(r, t->kernel, run, run_device, out);
		if (__builtin_expect(err && run->declined && out, 0))
			out->declined = true;
	}
	if (out) {
		out->device_ns = run->device_ns;
		if (__builtin_expect(err == -ENODEV, 0))
			out->alone = run->alone;
	}
	return checked(err);
}

static inline int run_here(struct runner *r, const struct runner_task *t, uint32_t flags,
			   struct runner_task *out)
{
	struct arax_backend_run run;
	int err = fill_run(r, t, flags, &run);

	return run_filled(r, t, &run, err, out);
}

static uint32_t cores_for_one(const struct runner *r)
{
	uint32_t busy = atomic_load_explicit(&r->busy, memory_order_relaxed);
	uint32_t cores = r->dev->info.units / (busy ? busy : 1);

	return cores ? cores : 1;
}

/* What @what in a worker ended with that is no result of its own. */
static __attribute__((cold)) void say_fate(const struct runner *r, const char *what,
					   const struct worker_time *time, enum worker_fate fate,
					   int err)
{
	const char *device = r->dev->info.name;

	if (err == -ETIMEDOUT && time->deadline_ns && now_ns() >= time->deadline_ns)
		reason_set("%s was stopped on %s: the deadline that its task was given passed",
			   what, device);
	else if (err == -ETIMEDOUT)
		reason_set("%s was stopped on %s: it had run for longer than %llu ms%s", what,
			   device, (unsigned long long)time->most_ns / 1000000,
			   time->most_ns == r->timeout_ns ? ", which is worker.timeout_ms" : "");
	else if (err == -EFAULT)
		reason_set("%s crashed on %s, in a process of its own: %s", what, device,
			   time->signal == SIGSEGV || time->signal == SIGBUS ?
				   "a bad access, most likely" :
			   time->signal == SIGSYS ? "it made a system call that is kept from it" :
						    sigdescr_np(time->signal) ?: "no more is known");
	else if (fate == WORKER_EXITED)
		reason_set("%s ended its process on %s: it, or what it calls, called exit(), or had no memory left",
			   what, device);
	else if (err == -EIO && time->signal)
		reason_set("%s was killed on %s, in a process of its own (%s): by its user, or as memory was short",
			   what, device, sigdescr_np(time->signal) ?: "a signal");
	else if (err == -EIO)
		reason_set("the process on %s of %s has ended", device, what);
}

static __attribute__((cold)) void say_launch(const struct runner *r, const struct runner_task *t,
					     const struct worker_time *time, enum worker_fate fate,
					     int err)
{
	char what[sizeof(t->kernel->sig.name) + 8] = "the image, as it was loaded,";

	if (!(t->flags & RUNNER_TRY))
		snprintf(what, sizeof(what), "kernel %s", t->kernel->sig.name);
	say_fate(r, what, time, fate, err);
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
	struct worker_time time = { .most_ns = BUILD_NS };
	enum worker_fate fate;
	struct worker *left;
	uint64_t bytes;
	int fd, err;

	h->built = built_beside(r, k);
	h->borrowed = h->built;
	if (h->built)
		return 0;
	err = worker_build(&r->options, &key, &t, &time, &fate, &fd, &bytes, &left);
	if (left)
		pool_let_end(r, left, key.uid);
	if (!err) {
		h->built = fd + 1;
		return 0;
	}
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	if (fate != WORKER_ALIVE) {
		say_fate(r, "the compiler", &time, fate, err);
		snprintf(why, sizeof(why), "%s", reason_text);
	}
	log_err("kernel can't be built", log_str("kernel", k->sig.name),
		log_str("device", r->dev->info.name), log_str("why", why), log_errno(err));
	if (why[0])
		reason_set("%.*s (%s)", (int)strcspn(why, "\n"), why,
			   kernel_impl(k, r->dev->info.kind)->file);
	return err;
}

/* What it is to a task that a worker can't be had: only a device says that it is lost. */
static int not_had(int err)
{
	return err == -ENODEV ? -EOPNOTSUPP : err;
}

static struct worker_time time_of(const struct runner *r, const struct runner_task *t)
{
	uint64_t most = t->most_ns;

	if (r->timeout_ns && (!most || r->timeout_ns < most))
		most = r->timeout_ns;
	return (struct worker_time){
		.deadline_ns = t->deadline_ns, .most_ns = most, .turn = t->turn,
		/* Standing still it keeps a worker that only this device's tasks count on. */
		.may_wait = this_thread && this_thread->runner == r,
	};
}

static int run_in_worker(struct runner *r, struct runner_task *t)
{
	struct worker_time time = time_of(r, t);
	enum worker_fate fate;
	struct worker *w;
	int err;

	if (!kernel_impl(t->kernel, r->dev->info.kind))
		return -ENOEXEC;
	if ((t->kernel->foreign || r->opencl) && !runner_can_foreign(r)) {
		reason_set("code that programs bring can't be locked up here: araxd's log says what is missing");
		return -EOPNOTSUPP;
	}
	if (r->options.program < 0) {
		reason_set("kernel %s needs a process of its own, and the program for it is not there: see worker.program",
			   t->kernel->sig.name);
		return -EAGAIN;
	}
	if (r->opencl && !t->kernel->foreign)
		t->image = r->handles[t->kernel->index].built;
	err = pool_take(r, t, &time, &w);
	if (err)
		return not_had(err);
	err = worker_run(w, t, cores_for_one(r), &time, &fate);
	if (t->turn)
		turn_ran(t->turn, &time);
	count(&r->worker_runs);
	if (fate == WORKER_CRASHED)
		count(&r->worker_crashes);
	if (fate == WORKER_KILLED && err == -ETIMEDOUT)
		count(&r->worker_timeouts);
	if (fate != WORKER_ALIVE)
		say_launch(r, t, &time, fate, err);
	/* Its own context broke, in which nothing runs any more: the next one is to have another. */
	if (err == -ENODEV && r->opencl)
		worker_set_stale(w);
	pool_give(r, w, fate);
	/* Only a device says that it is lost. */
	return err == -ENODEV ? -EIO : err;
}

struct in_worker {
	struct device_elsewhere elsewhere;
	struct runner *runner;
	struct runner_task *task;
};

static int below_filters(struct device_elsewhere *e, struct arax_backend_run *run)
{
	const struct in_worker *w = (const struct in_worker *)e;

	return run_in_worker(w->runner, w->task);
}

/* Around all of it: what a filter fails needs no worker, and what it delays keeps none waiting. */
static __attribute__((cold)) int run_filtered(struct runner *r, struct runner_task *t)
{
	struct in_worker w = { .elsewhere.run = below_filters, .runner = r, .task = t };
	struct arax_launch_range ranges[ARAX_MAX_RANGES];
	struct arax_launch launch = t->launch;
	struct arax_backend_run run = {
		.size = sizeof(run),
		.flags = ARAX_RUN_WORKER,
		.lane = t->lane,
		.launch = &launch,
		.name = t->kernel->sig.name,
		.deadline_ns = t->deadline_ns,
		.program = t->program,
		.due_ns = t->due_ns,
	};

	if (launch.nr_ranges > ARAX_MAX_RANGES)
		return -EINVAL;
	/* Only the worker maps them. */
	for (uint32_t i = 0; i < launch.nr_ranges; i++) {
		ranges[i] = t->launch.ranges[i];
		ranges[i].data = NULL;
	}
	launch.ranges = ranges;
	return checked(device_run_elsewhere(r->dev, &w.elsewhere, &run));
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
	struct worker_time time = time_of(r, t);
	enum worker_fate fate;
	struct worker *left;
	int err;

	/* However long a launch may take. */
	time.most_ns = t->most_ns;
	if (!runner_can_foreign(r))
		return -EOPNOTSUPP;
	err = pool_may_start(r, t->uid);
	if (err)
		return err;
	/* It is not to run meanwhile. */
	if (this_lane)
		pool_keep_no_more(this_lane);
	err = worker_build(&r->options, &key, t, &time, &fate, built, bytes, &left);
	if (left)
		pool_let_end(r, left, t->uid);
	if (t->turn)
		turn_ran(t->turn, &time);
	if (fate != WORKER_ALIVE)
		say_fate(r, "the compiler", &time, fate, err);
	if (err == -EOPNOTSUPP)
		atomic_store(&r->can_foreign, false);
	return not_had(err);
}

/* It is too late for it to begin. */
static bool is_late(struct runner_task *t)
{
	if (__builtin_expect(!t->deadline_ns, 1) || now_ns() < t->deadline_ns)
		return false;
	t->late = true;
	return true;
}

#define PART_NS	5000000u	/* so soon a launch stands still, or ends, that is to */

/* One that can stand still between its parts, and end there. */
static __attribute__((cold)) int run_in_parts(struct runner *r, struct runner_task *t)
{
	struct worker_time time = time_of(r, t);
	struct arax_backend_run run;
	int err = fill_run(r, t, 0, &run);

	run.between = turn_between;
	run.between_arg = &time;
	run.part_ns = PART_NS;
	time.began_ns = now_ns();
	time.look_ns = time.began_ns + t->turn->slice_ns;
	err = run_filled(r, t, &run, err, t);
	turn_ran(t->turn, &time);
	if (err == -ETIMEDOUT && time.deadline_ns && now_ns() >= time.deadline_ns)
		say_launch(r, t, &time, WORKER_KILLED, err);
	return err;
}

static int run_counted(struct runner *r, struct runner_task *t)
{
	int err = __builtin_expect(!!t->turn, 0) ?
		run_in_parts(r, t) : run_here(r, t, t->flags & RUNNER_INLINE ? ARAX_RUN_INLINE : 0, t);

	if (!(t->flags & RUNNER_INLINE))
		count(&r->runs);
	return err;
}

int runner_run(struct runner *r, struct runner_task *t)
{
	bool timed = t->flags & RUNNER_TIMED;
	uint64_t start = 0, paused = turn_paused_ns(t);

	t->device_ns = 0;
	if (t->flags & RUNNER_ENTER_ONLY)
		return 0;
	if (timed)
		start = now_ns();
	if (is_late(t))
		t->result = -ETIMEDOUT;
	else if (runner_needs_worker(r, t->kernel))
		t->result = device_has_filters(r->dev) ? run_filtered(r, t) : run_in_worker(r, t);
	else
		t->result = run_counted(r, t);
	if (timed) {
		t->start_ns = start;
		t->wall_ns = now_ns() - start - (turn_paused_ns(t) - paused);
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
	struct lane *lane = &r->lanes[t->lane % r->nr_lanes];
	int err;

	if (is_late(t))
		return -ETIMEDOUT;
	count(&r->runs);
	/* Whoever polls meanwhile may give its lane another one: nobody but this one has it now. */
	pthread_mutex_lock(&lane->beginning);
	err = run_here(r, t, 0, t);
	pthread_mutex_unlock(&lane->beginning);
	return err;
}

int runner_start(struct runner *r, struct runner_task *t, uint32_t after)
{
	struct arax_backend_run run;
	int err;

	if (is_late(t))
		return -ETIMEDOUT;
	/* A worker has it by itself. */
	if (runner_needs_worker(r, t->kernel))
		return -EAGAIN;
	err = fill_run(r, t, 0, &run);
	run.after = after;
	if (err)
		return err;
	err = device_submit(r->dev, &run, 0);
	if (__builtin_expect(err == -EOPNOTSUPP, 0))
		err = run_other(r, t->kernel, &run, submit_device, t);
	return checked(err);
}

static uint64_t block_of(const struct arax_launch *l)
{
	return (uint64_t)l->block[0] | (uint64_t)l->block[1] << 16 | (uint64_t)l->block[2] << 32;
}

void runner_note(struct runner *r, const struct runner_task *t)
{
	uint64_t block = block_of(&t->launch);
	struct handle *h;

	if (t->result || t->kernel->index >= r->nr_kernels)
		return;
	h = &r->handles[t->kernel->index];
	if (atomic_load_explicit(&h->block, memory_order_relaxed) != block)
		atomic_store_explicit(&h->block, block, memory_order_relaxed);
}

bool runner_is_usual(const struct runner *r, const struct runner_task *t)
{
	const struct handle *h;

	if (t->kernel->index >= r->nr_kernels)
		return false;
	h = &r->handles[t->kernel->index];
	return !h->host && atomic_load_explicit(&h->block, memory_order_relaxed) == block_of(&t->launch);
}

void runner_submit(struct runner *r, struct runner_task *t)
{
	struct lane *lane = &r->lanes[t->lane % r->nr_lanes];
	bool asleep;

	t->next = NULL;
	pthread_mutex_lock(&lane->lock);
	*lane->tail = t;
	lane->tail = &t->next;
	t->ticket = atomic_load_explicit(&lane->submitted, memory_order_relaxed);
	atomic_fetch_add_explicit(&lane->submitted, 1, memory_order_relaxed);
	asleep = lane->asleep;
	if (asleep && !lane->handed_ns)
		lane->handed_ns = now_ns();
	pthread_mutex_unlock(&lane->lock);
	/* Not before: on this CPU it would run at once, and have to wait for the lock. */
	if (asleep)
		pthread_cond_signal(&lane->cond);
}

uint32_t runner_ticket(const struct runner *r, uint32_t lane)
{
	return atomic_load_explicit(&r->lanes[lane % r->nr_lanes].submitted, memory_order_relaxed);
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
/* Making and ending                                                     */


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
	r->follows = device_follows(dev);
	await_init(r);
	r->options.kind = dev->info.kind;
	if (r->opencl)
		set_device(r, config);
	r->nr_kernels = registry_count(registry);
	r->timeout_ns = config->worker.timeout_ms * 1000000ull;
	r->idle_ns = config->worker.idle_s * 1000000000ull;
	r->max_workers = config->worker.max ?: 2 * dev->info.lanes + WORKERS_SPARE;
	r->options.memory = config->worker.memory;
	/* A program may have one for each lane. */
	r->options.foreign_memory = config->worker.memory ?: eighth_of_memory() / dev->info.lanes;
	r->options.program = -1;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&r->keep, &cond);
	pthread_cond_init(&r->gone, &cond);
	pthread_cond_init(&r->room, &cond);
	pthread_cond_init(&r->end, &cond);
	pthread_condattr_destroy(&cond);
	r->handles = calloc(r->nr_kernels + 1, sizeof(*r->handles));
	if (!r->handles)
		err = -ENOMEM;
	if (!dev->info.cpus[0] || cpulist_parse(dev->info.cpus, &r->options.cpus))
		sched_getaffinity(0, sizeof(r->options.cpus), &r->options.cpus);
	if (r->host || r->opencl)
		open_program(r, config);
	atomic_store(&r->can_foreign, can_foreign(r));
	if (!err)
		err = lanes_create(r, dev->info.lanes);
	if (err) {
		runner_destroy(r);
		return err;
	}
	*runner = r;
	return 0;
}

void runner_stop(struct runner *r)
{
	if (r->stop)
		return;
	lanes_destroy(r);
	pool_stop(r);
}

void runner_destroy(struct runner *r)
{
	if (!r)
		return;
	runner_stop(r);
	pool_end(r);
	for (uint32_t i = 0; r->handles && i < r->nr_kernels; i++) {
		void *loaded = atomic_load(&r->handles[i].loaded);

		for (uint32_t k = RUNNER_OTHERS; k--;)
			if (r->handles[i].others[k])
				device_kernel_unload(r->dev, r->handles[i].others[k]);
		if (loaded)
			device_kernel_unload(r->dev, loaded);
		if (r->handles[i].built && !r->handles[i].borrowed)
			close(r->handles[i].built - 1);
	}
	if (r->options.program >= 0)
		close(r->options.program);
	pthread_cond_destroy(&r->keep);
	pthread_cond_destroy(&r->gone);
	pthread_cond_destroy(&r->room);
	pthread_cond_destroy(&r->end);
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
