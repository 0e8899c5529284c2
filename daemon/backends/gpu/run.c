// SPDX-License-Identifier: MIT
/*
 * A launch: run() waits for its end, submit() leaves that to poll() or wait().
 *
 * Kernels store their result in host memory that the device sees, so that a launch
 * which succeeds has nothing to copy.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"

#define POLL_NS		20000u

/*
 * The device's clock tells what a kernel took where that is longer than it costs to ask, and
 * now and then elsewhere, from which it is known what a launch takes besides.
 */
#define TIMED_FROM_NS	100000u
#define TIMED_EVERY	64
#define TIMED_FIRST	4

/*
 * Behind the parameters that the signature has: a driver that gives no parameter sizes
 * can't tell us of a kernel with more of them, and would read on.
 */
#define SPARE_PARAMS	32

#define MAX_PARAMS	(3 * PARAMS_MAX + 1 + SPARE_PARAMS)

struct launch {
	struct gpu_device *dev;
	struct gpu_kernel *k;
	struct gpu_lane *lane;
	struct gpu_launch *own;
	const struct arax_launch *l;
	uint64_t address[PARAMS_MAX], items[PARAMS_MAX];
	uint64_t zero;
	bool declined;
	void *params[MAX_PARAMS];
};

/* In the log once for each kernel: a client can repeat it as often as it likes. */
static void tell(struct gpu_device *d, struct gpu_kernel *k, const char *what, const char *why)
{
	gpu_explain(d->stack, "%s: %s: %s %s", d->name, k->name, what, why);
	if (!__atomic_exchange_n(&k->told, true, __ATOMIC_RELAXED))
		gpu_log(d->stack, ARAX_LOG_WARNING, "%s: %s: %s: %s (said once)", d->name, k->name,
			what, why);
}

/*
 * @own counts as under way.  Who ended before it has marked the context as broken if it was, so
 * that it is looked at after the number.
 */
static void begin(struct gpu_device *d, struct gpu_launch *own)
{
	uint64_t before = __atomic_fetch_add(&d->launches, GPU_LAUNCH + 1, __ATOMIC_ACQ_REL);

	own->alone = !(uint32_t)before && !__atomic_load_n(&d->broken, __ATOMIC_ACQUIRE);
	own->number = (uint32_t)(before / GPU_LAUNCH) + 1;
}

static void ended(struct gpu_device *d)
{
	__atomic_fetch_sub(&d->launches, 1, __ATOMIC_ACQ_REL);
}

/* Nor has any begun since. */
static bool was_alone(const struct gpu_device *d, const struct gpu_launch *own)
{
	uint64_t now = __atomic_load_n(&d->launches, __ATOMIC_ACQUIRE);

	return own->alone && (uint32_t)(now / GPU_LAUNCH) == own->number;
}

/* It may be why the device is lost. */
static bool is_suspect(const struct gpu_device *d, const struct gpu_launch *own, int code)
{
	return code == -ENODEV && was_alone(d, own);
}

/* A driver's error of a launch that counts as under way: see gpu.h for who is to blame. */
static int failed(struct gpu_device *d, const struct gpu_launch *own, struct gpu_kernel *k, int err)
{
	int code;

	if (!err)
		return 0;
	code = gpu_check(d, err, k->name);
	tell(d, k, "launch", d->driver->error_name(err));
	if (code == -ENODEV && was_alone(d, own) && d->driver->harm(err) == GPU_HARM_KERNEL)
		code = d->driver->error_code(err);
	return code;
}

__attribute__((format(printf, 3, 4)))
static int refuse(struct launch *x, const char *what, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	tell(x->dev, x->k, what, why);
	x->declined = true;
	return -EINVAL;
}

/* ------------------------------------------------------------------ */
/* Parameters                                                            */

static int set_range(struct launch *x, uint32_t i)
{
	const struct param *p = &x->k->params.ranges[i];
	const struct arax_launch_range *r = &x->l->ranges[i];
	int err;

	if (r->count != 1)
		return refuse(x, "range", "%u is strided: GPU kernels take flat ones", i);
	if ((uintptr_t)r->data % p->type->size)
		return refuse(x, "range", "%u begins %u bytes off a multiple of %u, its type (%s) needs one",
			      i, (uint32_t)((uintptr_t)r->data % p->type->size), p->type->size,
			      p->type->name);
	err = r->length ? gpu_find_memory(x->dev, (uintptr_t)r->data, r->length) : 0;
	if (err == -EFAULT)
		tell(x->dev, x->k, "range", "is not in this device's memory");
	if (err)
		return err;
	x->address[i] = r->length ? (uintptr_t)r->data : 0;
	x->items[i] = r->length / p->type->size;
	x->params[2 * i] = &x->address[i];
	x->params[2 * i + 1] = &x->items[i];
	return 0;
}

static int set_params(struct launch *x)
{
	const struct params *p = &x->k->params;
	uint32_t n = 2 * p->nr_ranges;
	int err = 0;

	if (x->l->nr_ranges != p->nr_ranges || x->l->arg_len != p->arg_len)
		return refuse(x, "arguments", "are not as the signature says");
	for (uint32_t i = 0; !err && i < p->nr_ranges; i++)
		err = set_range(x, i);
	for (uint32_t i = 0; i < p->nr_plain; i++)
		x->params[n++] = (char *)x->l->args + p->plain[i].offset;
	/* One that takes no result takes one parameter less. */
	x->params[n++] = &x->own->result;
	x->zero = 0;
	while (n < MAX_PARAMS)
		x->params[n++] = &x->zero;
	return err;
}

static int check_geometry(struct launch *x)
{
	const struct gpu_limits *limits = &x->dev->limits;
	uint64_t group = 1, threads = 1;

	for (int i = 0; i < 3; i++) {
		uint64_t n = (uint64_t)x->l->grid[i] * x->l->block[i];

		if (x->l->block[i] > limits->max_block[i] || x->l->grid[i] > limits->max_grid[i])
			return refuse(x, "geometry", "of grid %u, block %u in dimension %d: this device takes %llu and %llu",
				      x->l->grid[i], x->l->block[i], i,
				      (unsigned long long)limits->max_grid[i],
				      (unsigned long long)limits->max_block[i]);
		if (limits->max_threads && n > limits->max_threads)
			return refuse(x, "geometry", "of grid %u, block %u in dimension %d: this device takes %llu threads in one: give it fewer, or take more dimensions",
				      x->l->grid[i], x->l->block[i], i,
				      (unsigned long long)limits->max_threads);
		if (!n || n > GPU_MAX_THREADS / threads)
			return refuse(x, "geometry", "of more than %llu threads in all is beyond the limit",
				      (unsigned long long)GPU_MAX_THREADS);
		threads *= n;
		group *= x->l->block[i];	/* at most the product of what it allows */
	}
	if (group > x->k->max_group)
		return refuse(x, "block", "of %llu threads: this kernel takes %llu on this device",
			      (unsigned long long)group, (unsigned long long)x->k->max_group);
	if (threads / group > GPU_MAX_BLOCKS)
		return refuse(x, "geometry", "of %llu blocks: the limit is %llu",
			      (unsigned long long)(threads / group),
			      (unsigned long long)GPU_MAX_BLOCKS);
	return 0;
}

/* ------------------------------------------------------------------ */
/* Launches                                                              */

static bool worth_timing(struct gpu_kernel *k)
{
	uint32_t n = __atomic_fetch_add(&k->launches, 1, __ATOMIC_RELAXED);

	/* The very first one has the driver load code. */
	return n < TIMED_FIRST || n % TIMED_EVERY == 0 ||
	       __atomic_load_n(&k->usual_ns, __ATOMIC_RELAXED) >= TIMED_FROM_NS;
}

/*
 * What comes behind the launch, and is seen when that has ended.  If it can't be had that is
 * waited for here: who is told of an error takes the launch's memory for free.
 */
static int put_end(struct launch *x)
{
	const struct gpu_driver *v = x->dev->driver;
	struct gpu_launch *own = x->own;
	int err, seen;

	if (own->end.event)
		err = v->event_record(own->end.event, own->end.stream);
	else
		err = v->mark(own->end.stream,
			      own->words_address + offsetof(struct gpu_words, mark), own->end.turn);
	if (__builtin_expect(!err, 1))
		return 0;
	seen = v->stream_wait(own->end.stream);
	return seen ? seen : err;
}

/* Its function has done what it could: what it has put onto the stream is to end. */
static int give_up(struct launch *x, int code)
{
	int err = 0;

	if (code != -EOPNOTSUPP)
		err = failed(x->dev, x->own, x->k, x->dev->driver->stream_wait(x->lane->stream));
	return err ? err : code;
}

/*
 * (entered) It counts as under way, whatever it returns.  @alone: somebody waits for this one,
 * and for what comes sooner, rather than for what leaves more time for others.
 */
static int start(struct launch *x, bool alone)
{
	const struct gpu_driver *v = x->dev->driver;
	struct gpu_launch *own = x->own;
	void *stream = x->lane->stream;
	int err = 0, code = 0;

	begin(x->dev, own);
	own->words->result = 0;
	own->timed = worth_timing(x->k);
	own->end = (struct gpu_end){
		.stream = stream, .word = &own->words->mark, .turn = ++own->turn,
		.event = own->timed ? own->stop : alone && x->dev->marks ? NULL : own->event,
	};
	/* It may not have been written for as many launches as a word can count. */
	if (!own->end.event)
		__atomic_store_n(&own->words->mark, own->turn - 1, __ATOMIC_RELAXED);
	own->began_ns = monotonic_ns();
	if (own->timed)
		err = v->event_record(own->start, stream);
	if (!err && x->k->module)
		err = v->launch(x->k->function, x->l->grid, x->l->block, stream, x->params);
	else if (!err)
		code = gpu_stream_call(x->dev, x->k, x->l, &own->result,
				       (uint32_t)(x->lane - x->dev->lanes));
	if (code)
		return give_up(x, code);
	if (!err)
		err = put_end(x);
	return failed(x->dev, own, x->k, err);
}

/* What @lane was busy with it, by our clock. */
static uint64_t seen_ns(struct gpu_lane *lane, const struct gpu_launch *own, bool *alone)
{
	uint64_t now = monotonic_ns(), before = __atomic_load_n(&lane->ended_ns, __ATOMIC_RELAXED);

	__atomic_store_n(&lane->ended_ns, now, __ATOMIC_RELAXED);
	*alone = before <= own->began_ns;
	return now - (*alone ? own->began_ns : before);
}

/* A timed launch that was alone on its lane: the least that was not the kernel's time. */
static void learn_launch(struct gpu_device *d, uint64_t seen, uint64_t ns)
{
	uint32_t known = __atomic_load_n(&d->launch_ns, __ATOMIC_RELAXED);

	if (seen > ns && (!known || seen - ns < known))
		__atomic_store_n(&d->launch_ns, (uint32_t)(seen - ns), __ATOMIC_RELAXED);
}

/* (entered) What the device was busy with a launch that has ended. */
static uint64_t time_of(struct gpu_device *d, struct gpu_lane *lane, struct gpu_launch *own,
			struct gpu_kernel *k)
{
	uint64_t seen, ns = 0, besides;
	bool alone;

	seen = seen_ns(lane, own, &alone);
	if (own->timed && !d->driver->event_ns(own->start, own->stop, &ns) && ns) {
		if (alone && ns < TIMED_FROM_NS)
			learn_launch(d, seen, ns);
	} else {
		besides = alone ? __atomic_load_n(&d->launch_ns, __ATOMIC_RELAXED) : 0;
		ns = seen > besides ? seen - besides : 1;
	}
	__atomic_store_n(&k->usual_ns, ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX,
			 __ATOMIC_RELAXED);
	return ns;
}

/* (entered) After the end, with the driver's error. */
static int look_back(struct gpu_device *d, struct gpu_lane *lane, struct gpu_launch *own,
		     struct gpu_kernel *k, int err, uint64_t *device_ns)
{
	err = failed(d, own, k, err);
	if (err)
		return err;
	err = *(volatile int32_t *)&own->words->result;
	/* What it takes to do nothing is not what the kernel takes. */
	if (err == GPU_CANCELED && own->result.behind[0])
		return err;
	*device_ns = time_of(d, lane, own, k);
	/* A kernel does not say that its device is lost: this would be taken for it. */
	return err == -ENODEV ? -EIO : err;
}

/* What is left of what it usually takes. */
static int wait_for(struct gpu_device *d, const struct gpu_launch *own, struct gpu_kernel *k)
{
	uint64_t usual = __atomic_load_n(&k->usual_ns, __ATOMIC_RELAXED);
	uint64_t spent = usual > TIMED_FROM_NS ? monotonic_ns() - own->began_ns : 0;

	return gpu_await(d, &own->end, usual > spent ? usual - spent : 0);
}

/* Of a launch that is submitted. */
static uint32_t run_after(const struct arax_backend_run *run)
{
	return run->size >= offsetof(struct arax_backend_run, after) + sizeof(run->after) ?
	       run->after : 0;
}

/* The launch that was submitted so many before the one that comes next, and is under way. */
static struct gpu_launch *launch_before(struct gpu_lane *lane, uint32_t back)
{
	return &lane->launches[(lane->first + lane->under_way - back) % ARAX_LANE_DEPTH];
}

/* Whether @k, put behind these on the lane's stream, does nothing if one of them fails. */
static bool may_come_after(struct gpu_lane *lane, const struct gpu_kernel *k, uint32_t after)
{
	if (after && k->tells != GPU_TELLS_ALL)
		return false;
	for (uint32_t i = 1; after; i++, after >>= 1) {
		const struct gpu_launch *x = launch_before(lane, i);

		if (!(after & 1))
			continue;
		/* Of a device that has moved, or has a new context, some have been lost. */
		if (i > lane->under_way || __atomic_load_n(&x->lost, __ATOMIC_RELAXED) ||
		    (x->kernel->tells != GPU_TELLS_NOTHING && x->kernel->tells != GPU_TELLS_ALL))
			return false;
	}
	return true;
}

static void number(struct gpu_lane *lane, struct gpu_launch *own, uint32_t after)
{
	uint32_t n = 0;

	/* So that words are others' than those of all that are under way, whichever have been refused. */
	lane->launched += ((uint32_t)(own - lane->launches) - lane->launched - 1) % GPU_RESULTS + 1;
	if (!lane->launched)
		lane->launched = GPU_RESULTS;
	own->result = (struct gpu_result){ .value = own->words_address, .failed = lane->failed,
					   .number = lane->launched };
	for (uint32_t i = 1; after; i++, after >>= 1)
		if (after & 1)
			own->result.behind[n++] = launch_before(lane, i)->result.number;
}

/* (entered: memory that is there now stays until the end) */
static int prepare(struct launch *x, struct gpu_device *d, const struct arax_backend_run *run,
		   uint32_t after)
{
	int err;

	x->dev = d;
	x->declined = false;
	x->k = run->kernel;
	x->lane = &d->lanes[run->lane % d->nr_lanes];
	x->own = &x->lane->launches[(x->lane->first + x->lane->under_way) % ARAX_LANE_DEPTH];
	x->l = run->launch;
	number(x->lane, x->own, after);
	err = x->k->module ? check_geometry(x) : 0;
	return err ? err : set_params(x);
}

/* After a fault: one at a time, so that the next one has a culprit. */
static bool begin_alone(struct gpu_device *d)
{
	uint32_t left = __atomic_load_n(&d->careful, __ATOMIC_RELAXED);

	while (left)
		if (__atomic_compare_exchange_n(&d->careful, &left, left - 1, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			pthread_mutex_lock(&d->alone);
			return true;
		}
	return false;
}

int gpu_run(struct gpu_device *d, struct arax_backend_run *run)
{
	uint64_t device_ns = 0;
	bool alone, suspect = false, declined = false;
	struct launch x;
	int err;

	alone = begin_alone(d);
	err = gpu_enter(d);
	if (!err) {
		err = prepare(&x, d, run, 0);
		declined = x.declined;
		if (!err) {
			err = start(&x, true);
			if (!err)
				err = look_back(d, x.lane, x.own, x.k, wait_for(d, x.own, x.k),
						&device_ns);
			suspect = is_suspect(d, x.own, err);
			ended(d);
		}
		gpu_leave(d);
	}
	if (alone)
		pthread_mutex_unlock(&d->alone);
	if (run->size >= offsetof(struct arax_backend_run, device_ns) + sizeof(run->device_ns))
		run->device_ns = device_ns;
	if (run->size >= offsetof(struct arax_backend_run, alone) + sizeof(run->alone))
		run->alone = suspect;
	if (run->size >= offsetof(struct arax_backend_run, declined) + sizeof(run->declined))
		run->declined = declined;
	return err;
}

int gpu_submit(struct gpu_device *d, const struct arax_backend_run *run, uint64_t cookie)
{
	struct gpu_lane *lane = &d->lanes[run->lane % d->nr_lanes];
	struct launch x;
	int err;

	/* For a while they run one at a time, as run() sees to. */
	if (__atomic_load_n(&d->careful, __ATOMIC_RELAXED))
		return -EAGAIN;
	pthread_mutex_lock(&lane->lock);
	err = lane->under_way == ARAX_LANE_DEPTH ? -EAGAIN : gpu_enter(d);
	if (err)
		goto unlock;
	err = may_come_after(lane, run->kernel, run_after(run)) ?
	      prepare(&x, d, run, run_after(run)) : -EAGAIN;
	if (err && err != -EAGAIN && x.declined)
		err = -EAGAIN;
	if (!err) {
		err = start(&x, false);
		/* An error alone can't say so: such a one has been submitted, and ends as lost. */
		x.own->suspect = is_suspect(d, x.own, err);
		x.own->lost = x.own->suspect;
		x.own->cookie = cookie;
		x.own->kernel = x.k;
		if (x.own->suspect)
			err = 0;
		if (err)
			ended(d);
		else
			lane->under_way++;
	}
	gpu_leave(d);
unlock:
	pthread_mutex_unlock(&lane->lock);
	return err;
}

/* (entered) What it ended with: nothing waits for what does not end there any more. */
static int look_at_broken(struct gpu_device *d, const struct gpu_launch *own)
{
	int err = own->written ? 0 : d->sticky;

	if (d->open && !gpu_has_ended(d, &own->end, &err))
		return -ENODEV;
	return err ? failed(d, own, own->kernel, err) : -ENODEV;
}

/* Whether @own of @lane has ended, or @wait: when it has. */
static bool has_ended(struct gpu_device *d, struct gpu_lane *lane, struct gpu_launch *own,
		      bool wait, struct arax_backend_done *done)
{
	int err = gpu_enter_broken(d);

	memset(done, 0, sizeof(*done));
	done->cookie = own->cookie;
	done->result = -ENODEV;
	if (own->suspect)
		done->flags |= ARAX_DONE_ALONE;
	if (err)
		return true;
	if (!__atomic_load_n(&own->lost, __ATOMIC_RELAXED)) {
		if (__atomic_load_n(&d->broken, __ATOMIC_ACQUIRE)) {
			done->result = look_at_broken(d, own);
			goto ended;
		}
		if (wait) {
			err = wait_for(d, own, own->kernel);
		} else if (!gpu_has_ended(d, &own->end, &err)) {
			gpu_leave(d);
			return false;
		}
		done->result = look_back(d, lane, own, own->kernel, err, &done->device_ns);
		/* As the device has it: a failure that the host alone has seen kept it from nothing. */
		if (done->result == GPU_CANCELED && own->result.behind[0]) {
			done->result = -ECANCELED;
			done->flags |= ARAX_DONE_NOT_RUN;
		}
ended:
		if (is_suspect(d, own, done->result))
			done->flags |= ARAX_DONE_ALONE;
	}
	gpu_leave(d);
	return true;
}

/* (lane locked) */
static void remove_first(struct gpu_device *d, struct gpu_lane *lane)
{
	lane->first = (lane->first + 1) % ARAX_LANE_DEPTH;
	lane->under_way--;
	ended(d);
}

int gpu_wait(struct gpu_device *d, uint32_t nr, struct arax_backend_done *done)
{
	struct gpu_lane *lane = &d->lanes[nr % d->nr_lanes];
	struct gpu_launch *own = NULL;

	pthread_mutex_lock(&lane->lock);
	if (lane->under_way)
		own = &lane->launches[lane->first];
	pthread_mutex_unlock(&lane->lock);
	if (!own)
		return -ENOENT;
	has_ended(d, lane, own, true, done);
	pthread_mutex_lock(&lane->lock);
	remove_first(d, lane);
	pthread_mutex_unlock(&lane->lock);
	return 0;
}

static int collect(struct gpu_device *d, struct arax_backend_done *done, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->nr_lanes && n < max; i++) {
		struct gpu_lane *lane = &d->lanes[i];

		pthread_mutex_lock(&lane->lock);
		while (n < max && lane->under_way &&
		       has_ended(d, lane, &lane->launches[lane->first], false, &done[n])) {
			remove_first(d, lane);
			n++;
		}
		pthread_mutex_unlock(&lane->lock);
	}
	return (int)n;
}

/*
 * By looking: a driver calls nobody back from a context that broke, and waits for one
 * event alone, and without limit.
 */
int gpu_poll(struct gpu_device *d, struct arax_backend_done *done, uint32_t max,
	     uint64_t timeout_ns)
{
	uint64_t began = monotonic_ns();
	int n;

	for (;;) {
		n = collect(d, done, max);
		if (n || !max || monotonic_ns() - began >= timeout_ns)
			return n;
		gpu_nap(POLL_NS);
	}
}

/* Launches that were submitted and have ended, polled or not, are not running. */
static bool is_quiet(struct gpu_device *d)
{
	uint32_t unpolled = 0;
	bool busy = false;
	int err;

	for (uint32_t i = 0; i < d->nr_lanes; i++) {
		struct gpu_lane *lane = &d->lanes[i];

		pthread_mutex_lock(&lane->lock);
		for (uint32_t j = 0; j < lane->under_way && !gpu_enter(d); j++) {
			struct gpu_launch *own =
				&lane->launches[(lane->first + j) % ARAX_LANE_DEPTH];

			busy = busy || (!__atomic_load_n(&own->lost, __ATOMIC_RELAXED) &&
					!gpu_has_ended(d, &own->end, &err));
			gpu_leave(d);
		}
		unpolled += lane->under_way;
		pthread_mutex_unlock(&lane->lock);
	}
	return !busy && (uint32_t)__atomic_load_n(&d->launches, __ATOMIC_ACQUIRE) <= unpolled;
}

int gpu_quiesce(struct gpu_device *d, uint64_t deadline_ns)
{
	while (!is_quiet(d)) {
		if (monotonic_ns() >= deadline_ns)
			return -ETIMEDOUT;
		gpu_nap(POLL_NS);
	}
	return 0;
}
