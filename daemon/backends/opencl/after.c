// SPDX-License-Identifier: MIT
/*
 * Launches that begin when others have succeeded: they are prepared, and enqueued by whatever
 * thread the driver tells of the last one's end on.  Where one would have to be woken for that,
 * and the device with it, for the next launch, this takes some microseconds.
 *
 * A failure is for the lane's thread alone: it finds it when it waits for that launch, and does
 * nothing for those that come after.  A driver sees no command that waits for what never comes,
 * nor one that fails because another one has: there are some that don't survive that.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "daemon/backends/opencl/opencl.h"

#define PAGE		4096u
#define PATIENCE_MS	1000

/*
 * A driver may call back late, when what waited for it is over as well.  So it brings a token,
 * which names the place by its lowest bits, and counts if it is there still.  The device stays
 * until all have come, see opencl_after_close().
 */
#define TOKEN_PLACE	16
static _Atomic(struct opencl_device *) devices[OPENCL_MAX_DEVICES];

_Static_assert(OPENCL_MAX_DEVICES <= 1 << 8 && OPENCL_MAX_LANES <= 1 << 4 && ARAX_LANE_DEPTH <= 1 << 2,
	       "a place has 16 bits");

static uintptr_t new_token(const struct opencl_launch *x, uint32_t before)
{
	static _Atomic uintptr_t last;
	uintptr_t place = x->dev->index << 8 | x->lane->index << 4 |
			  (uint32_t)(x - x->lane->launches) << 2 | before;

	return (atomic_fetch_add(&last, 1) + 1) << TOKEN_PLACE | place;
}

static bool take(struct opencl_before *b, uintptr_t token)
{
	return token && atomic_compare_exchange_strong(&b->token, &token, 0);
}

static void CL_CALLBACK ended(cl_event event, cl_int status, void *arg);

/* Calls back at once if that is over already: so without the lock. */
static void ask(struct opencl_device *d, cl_event event, uintptr_t token)
{
	atomic_fetch_add(&d->asked, 1);
	/* If that fails the lane's thread finds the token. */
	if (cl.SetEventCallback(event, CL_COMPLETE, ended, (void *)token))
		atomic_fetch_sub(&d->asked, 1);
	cl.ReleaseEvent(event);
}

static void enqueue(struct opencl_launch *x, bool deferred)
{
	struct opencl_device *d = x->dev;
	struct opencl_lane *lane = x->lane;
	uintptr_t behind[ARAX_LANE_DEPTH];
	cl_command_queue queue = lane->queue;
	cl_event event = NULL;
	uint32_t nr = 0;

	pthread_mutex_lock(&lane->lock);
	if (x->k->program)
		x->error = cl.EnqueueNDRangeKernel(queue, x->kernel, x->dims, NULL, x->global,
						   x->local, 0, NULL, &event);
	else	/* Its function has put it there already. */
		x->error = cl.EnqueueMarkerWithWaitList(queue, 0, NULL, &event);
	if (x->error)
		event = NULL;
	x->event = event;
	for (; event && nr < x->nr_behind; nr++) {
		behind[nr] = x->behind[nr];
		cl.RetainEvent(event);
	}
	/* A driver may else wait with it for more.  After what comes next the queue may go. */
	if (deferred)
		cl.Flush(queue);
	x->over = true;
	pthread_mutex_unlock(&lane->lock);
	/* From here on it may be another launch. */
	while (nr)
		ask(d, event, behind[--nr]);
}

/* One of those that it comes after has succeeded, or not. */
static void pass(struct opencl_launch *x, bool ok)
{
	if (!ok)
		x->failed = true;
	if (atomic_fetch_sub(&x->left, 1) != 1)
		return;
	if (x->failed)
		x->over = true;
	else
		enqueue(x, true);
}

static void CL_CALLBACK ended(cl_event event, cl_int status, void *arg)
{
	uintptr_t token = (uintptr_t)arg;
	struct opencl_device *d = devices[token >> 8 & 0xff];
	struct opencl_launch *x;
	struct opencl_before *b;

	(void)event;
	x = &d->lanes[token >> 4 & 0xf].launches[token >> 2 & 3];
	b = &x->before[token & 3];
	if (status >= 0 && b->token == token && !*(const volatile cl_int *)b->result && take(b, token))
		pass(x, true);
	/* From here on the device may go. */
	atomic_fetch_sub(&d->asked, 1);
}

/* 0: the one that was submitted last. */
static struct opencl_launch *launch_before(struct opencl_lane *lane, uint32_t i)
{
	return &lane->launches[(lane->first + lane->under_way - 1 - i) % ARAX_LANE_DEPTH];
}

void opencl_after_begin(struct opencl_launch *x, uint32_t after)
{
	cl_event events[ARAX_LANE_DEPTH];
	uintptr_t tokens[ARAX_LANE_DEPTH];
	uint32_t nr = 0, asked = 0;

	x->failed = x->over = false;
	x->error = CL_SUCCESS;
	x->nr_behind = 0;
	for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++)
		x->before[i].token = 0;
	if (!after) {
		enqueue(x, false);
		return;
	}
	/* One more, so that nobody enqueues it before all are known. */
	x->left = 1 + (uint32_t)__builtin_popcount(after);
	pthread_mutex_lock(&x->lane->lock);
	for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
		struct opencl_launch *p = launch_before(x->lane, i);
		struct opencl_before *b = &x->before[nr];
		uintptr_t token = new_token(x, nr);

		if (!(after >> i & 1))
			continue;
		nr++;
		b->launch = p;
		b->result = p->result;
		b->failed = false;
		b->token = token;
		if (p->event) {
			cl.RetainEvent(p->event);
			events[asked] = p->event;
			tokens[asked++] = token;
		} else {
			p->behind[p->nr_behind++] = token;
		}
	}
	pthread_mutex_unlock(&x->lane->lock);
	while (asked) {
		asked--;
		ask(x->dev, events[asked], tokens[asked]);
	}
	pass(x, true);
}

bool opencl_after_end(struct opencl_launch *x)
{
	for (uint32_t i = 0; i < ARAX_LANE_DEPTH; i++) {
		struct opencl_before *b = &x->before[i];

		if (take(b, b->token))
			pass(x, !b->failed);
	}
	/* Whoever took the last one may not have come to the end of it, nor let go of the lock. */
	while (!x->over)
		sched_yield();
	pthread_mutex_lock(&x->lane->lock);
	pthread_mutex_unlock(&x->lane->lock);
	return x->event;
}

void opencl_after_failed(struct opencl_lane *lane, const struct opencl_launch *x)
{
	for (uint32_t i = 0; i < lane->under_way; i++) {
		struct opencl_launch *y = &lane->launches[(lane->first + i) % ARAX_LANE_DEPTH];

		for (uint32_t k = 0; k < ARAX_LANE_DEPTH; k++)
			y->before[k].failed |= y->before[k].launch == x;
	}
}

void opencl_after_open(struct opencl_device *d)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	/* A driver that runs a command where it is enqueued calls back from there. */
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		pthread_mutex_init(&d->lanes[i].lock, &attr);
	pthread_mutexattr_destroy(&attr);
	devices[d->index] = d;
}

bool opencl_after_over(struct opencl_device *d, const char *else_what)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (int ms = 0; d->asked && ms < PATIENCE_MS; ms++)
		nanosleep(&pause, NULL);
	if (d->asked)
		opencl_log(ARAX_LOG_WARNING, "%s: did not tell of %u ends: %s", d->name,
			   (uint32_t)d->asked, else_what);
	return !d->asked;
}

bool opencl_after_close(struct opencl_device *d)
{
	if (devices[d->index] != d)
		return true;
	if (!opencl_after_over(d, "it is not given back"))
		return false;
	devices[d->index] = NULL;
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		pthread_mutex_destroy(&d->lanes[i].lock);
	return true;
}

/* ------------------------------------------------------------------ */
/* Whether it works                                                    */

struct trial {
	cl_command_queue queue;
	cl_mem mem[2];
	uint32_t seen;
	cl_int err;
	_Atomic bool over;
};

static void CL_CALLBACK second_ended(cl_event event, cl_int status, void *arg)
{
	struct trial *t = arg;

	(void)event;
	t->err = status;
	t->over = true;
}

static void CL_CALLBACK first_ended(cl_event event, cl_int status, void *arg)
{
	const uint32_t last = PAGE - sizeof(uint32_t);
	struct trial *t = arg;
	cl_event copied = NULL;
	cl_int err = status;

	(void)event;
	if (status >= 0)
		err = cl.EnqueueCopyBuffer(t->queue, t->mem[1], t->mem[1], last, 0,
					      sizeof(t->seen), 0, NULL, &copied);
	if (!err)
		err = cl.SetEventCallback(copied, CL_COMPLETE, second_ended, t);
	if (copied)
		cl.ReleaseEvent(copied);
	if (!err) {
		cl.Flush(t->queue);
		return;
	}
	t->err = err;
	t->over = true;
}

/* False if it takes forever: then nothing of it may be given back. */
static bool try_once(struct trial *t, const char *at, uint32_t pattern, bool *same)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	cl_event filled = NULL;
	cl_int err;

	t->over = false;
	err = cl.EnqueueFillBuffer(t->queue, t->mem[0], &pattern, sizeof(pattern), sizeof(pattern),
				      PAGE - sizeof(pattern), 0, NULL, &filled);
	if (!err)
		err = cl.SetEventCallback(filled, CL_COMPLETE, first_ended, t);
	if (filled)
		cl.ReleaseEvent(filled);
	/* From here on the rest is the driver's threads'. */
	if (err || cl.Flush(t->queue)) {
		*same = false;
		return true;
	}
	for (int ms = 0; !t->over && ms < PATIENCE_MS; ms++)
		nanosleep(&pause, NULL);
	if (!t->over)
		return false;
	memcpy(&t->seen, at, sizeof(t->seen));
	*same = !t->err && t->seen == pattern;
	return true;
}

bool opencl_after_works(struct opencl_device *d, char *at)
{
	static struct trial t;	/* a driver may remember it */
	bool same, ends = true;
	cl_int err;

	if (!cl.SetEventCallback || !cl.RetainEvent || !cl.EnqueueFillBuffer)
		return false;
	t.queue = cl.CreateCommandQueue(d->context, d->id, 0, &err);
	if (err)
		return false;
	memset(at, 0, PAGE);
	t.mem[0] = t.mem[1] = NULL;
	for (int i = 0; i < 2 && !err; i++)
		t.mem[i] = cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, PAGE, at,
					   &err);
	same = !err;
	for (uint32_t i = 1; i < 8 && same && ends; i++)
		ends = try_once(&t, at, i, &same);
	if (!ends) {
		opencl_log(ARAX_LOG_WARNING, "%s: enqueues nothing when it tells of an end: chains of tasks are slower",
			   d->name);
		return false;
	}
	for (int i = 0; i < 2; i++)
		if (t.mem[i])
			cl.ReleaseMemObject(t.mem[i]);
	cl.ReleaseCommandQueue(t.queue);
	return same;
}
