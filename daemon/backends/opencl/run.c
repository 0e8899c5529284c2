// SPDX-License-Identifier: MIT
/*
 * A launch, from enqueueing to its end: run() waits for that, submit() leaves it to wait().
 *
 * Buffers on host pages are made for one launch and then released.  On a driver
 * that works in place this is a descriptor and costs 0.1 us; kept ones would have to
 * be dropped whenever a client's buffer goes and another comes to its address.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

#define TRIES	3	/* at waiting for what is under way */

/* In the log once for each kernel: a client can repeat it as often as it likes. */
static void tell(struct opencl_launch *x, const char *what, const char *why)
{
	opencl_explain("%s: %s: %s %s", x->dev->name, x->k->name, what, why);
	if (!__atomic_exchange_n(&x->k->told, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_WARNING, "%s: %s: %s: %s (said once)", x->dev->name, x->k->name,
			   what, why);
}

/* Whatever sees it first: a context that broke fails at each of a launch's commands. */
static int failed(struct opencl_launch *x, const char *what, cl_int err)
{
	if (!err)
		return 0;
	tell(x, what, opencl_error_name(err));
	return opencl_check_whole(x->dev, x->lane->copies, err);
}

__attribute__((format(printf, 3, 4)))
static int refuse(struct opencl_launch *x, const char *what, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	tell(x, what, why);
	x->declined = true;
	return -EINVAL;
}

static bool is_lost(struct opencl_device *d)
{
	return __builtin_expect(__atomic_load_n(&d->lost, __ATOMIC_RELAXED), 0);
}

/*
 * It counts as under way.  Who ended before it has marked the device as lost if it was, so that
 * it is looked at after the number.
 */
static void count_begun(struct opencl_launch *x)
{
	struct opencl_device *d = x->dev;
	uint64_t before = __atomic_fetch_add(&d->launches, OPENCL_LAUNCH + 1, __ATOMIC_ACQ_REL);

	x->alone = !(uint32_t)before && !__atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
	x->number = (uint32_t)(before / OPENCL_LAUNCH) + 1;
}

static void count_ended(struct opencl_launch *x)
{
	__atomic_fetch_sub(&x->dev->launches, 1, __ATOMIC_ACQ_REL);
}

/* It may be why the device is lost: nor has another one begun since. */
static bool is_suspect(const struct opencl_launch *x, int code)
{
	return code == -ENODEV && x->alone &&
	       (uint32_t)(__atomic_load_n(&x->dev->launches, __ATOMIC_ACQUIRE) / OPENCL_LAUNCH) ==
		       x->number;
}

/* ------------------------------------------------------------------ */
/* Ranges                                                                */

/* Ranges of one launch that begin at the same place have one buffer: the longest's. */
static uint64_t longest_at(const struct opencl_launch *x, const void *data)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < x->k->params.nr_ranges; i++)
		if (x->l->ranges[i].data == data && x->l->ranges[i].length > bytes)
			bytes = x->l->ranges[i].length;
	return bytes;
}

/* Of two that are written the later one would take back what the other one wrote. */
static int check_apart(struct opencl_launch *x, uint32_t i)
{
	const struct arax_launch_range *r = &x->l->ranges[i];

	for (uint32_t j = 0; x->k->params.ranges[i].out && j < x->k->params.nr_ranges; j++) {
		const struct arax_launch_range *o = &x->l->ranges[j];

		if (x->k->params.ranges[j].out && o->data != r->data &&
		    (char *)o->data < (char *)r->data + r->length &&
		    (char *)r->data < (char *)o->data + o->length)
			return refuse(x, "range", "%u overlaps range %u, which is written, too, and begins off a multiple of %u bytes, as buffers of this device can't: move it",
				      i, j, x->dev->align);
	}
	return 0;
}

/* Of those at its place the longest that is written goes back. */
static void write_back(struct opencl_launch *x, struct opencl_staged *s, uint32_t i)
{
	if (x->k->params.ranges[i].out && x->l->ranges[i].length > s->back)
		s->back = x->l->ranges[i].length;
}

/* Drivers make room when it is first used, and say then that there is none. */
static cl_int copy_range(struct opencl_launch *x, struct opencl_staged *s)
{
	const cl_mem_flags where = x->dev->memory == OPENCL_OWN && !s->accounted ?
				   CL_MEM_ALLOC_HOST_PTR : 0;
	cl_int err;

	s->temporary = cl.CreateBuffer(x->dev->context, CL_MEM_READ_WRITE | where, s->bytes, NULL, &err);
	if (err) {
		s->temporary = NULL;
		return err;
	}
	err = cl.EnqueueCopyBuffer(x->lane->queue, s->own, s->temporary, s->offset, 0, s->bytes, 0,
				   NULL, &s->came);
	if (err) {
		s->came = NULL;
		cl.ReleaseMemObject(s->temporary);
		s->temporary = NULL;
	}
	return err;
}

static bool is_full(cl_int err)
{
	return err == CL_MEM_OBJECT_ALLOCATION_FAILURE || err == CL_OUT_OF_RESOURCES ||
	       err == CL_OUT_OF_HOST_MEMORY;
}

/*
 * Comes along whole, and goes back as far as it is written: a range is as long as its client says,
 * however much of it the kernel writes, and nobody else's bytes may get into the rest.
 * @own: where it lies, at @offset; to be released with the launch if @release_own
 *
 * Nobody has made room for the copy.  Where the device has none, by our account or by its driver's, it
 * is made in host memory: slower, but what others have there only so that it need not come again does
 * not fail this launch.
 */
static int stage(struct opencl_launch *x, uint32_t i, cl_mem own, uint64_t offset, bool release_own,
		 cl_mem *mem)
{
	struct opencl_staged *s = &x->staged[x->nr_staged];
	cl_int cerr;

	*s = (struct opencl_staged){
		.data = x->l->ranges[i].data, .own = own, .offset = offset,
		.release_own = release_own, .bytes = longest_at(x, x->l->ranges[i].data),
	};
	write_back(x, s, i);
	x->nr_staged++;
	s->accounted = x->dev->memory == OPENCL_OWN && !opencl_account(x->dev, s->bytes);
	cerr = copy_range(x, s);
	if (s->accounted && is_full(cerr)) {
		opencl_unaccount(x->dev, s->bytes);
		s->accounted = false;
		cerr = copy_range(x, s);
	}
	*mem = s->temporary;
	return failed(x, "copy of a misaligned range", cerr);
}

/* What has been staged for one that begins where range @i does. */
static bool is_staged(struct opencl_launch *x, uint32_t i, cl_mem *mem)
{
	for (struct opencl_staged *s = x->staged; s < x->staged + x->nr_staged; s++) {
		if (s->data != x->l->ranges[i].data)
			continue;
		write_back(x, s, i);
		*mem = s->temporary;
		return true;
	}
	return false;
}

static int own_range(struct opencl_launch *x, uint32_t i, const struct arax_launch_range *r, cl_mem *mem)
{
	cl_buffer_region region = { .size = r->length };
	uint64_t offset;
	cl_int cerr;
	int err = opencl_find_memory(x->dev, (uintptr_t)r->data, r->length, mem, &offset);

	if (err) {
		tell(x, "range", "is not in this device's memory");
		return err;
	}
	if (!offset)
		return 0;
	if (offset % x->dev->align) {
		err = check_apart(x, i);
		return err || is_staged(x, i, mem) ? err : stage(x, i, *mem, offset, false, mem);
	}
	region.origin = offset;
	pthread_mutex_lock(&x->dev->parts_lock);
	x->mems[i] = cl.CreateSubBuffer(*mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &cerr);
	pthread_mutex_unlock(&x->dev->parts_lock);
	if (cerr) {
		x->mems[i] = NULL;
		return failed(x, "sub-buffer", cerr);
	}
	*mem = x->mems[i];
	return 0;
}

static int on_host_pages(struct opencl_launch *x, uint32_t i, uint64_t bytes, bool written, cl_mem *mem)
{
	const cl_mem_flags flags = written ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
	cl_int err;

	*mem = cl.CreateBuffer(x->dev->context, CL_MEM_USE_HOST_PTR | flags, bytes,
			       x->l->ranges[i].data, &err);
	return failed(x, "buffer on host pages", err);
}

/*
 * A source's kernel takes its elements where they are.  Who is given a buffer, as functions are, counts
 * on what is true of all others: that it begins where any type may.
 */
static int host_range(struct opencl_launch *x, uint32_t i, const struct arax_launch_range *r, cl_mem *mem)
{
	int err;

	if (x->k->program || !((uintptr_t)r->data % x->dev->align)) {
		err = on_host_pages(x, i, r->length, x->k->params.ranges[i].out, mem);
		if (!err)
			x->mems[i] = *mem;
		return err;
	}
	err = check_apart(x, i);
	if (err || is_staged(x, i, mem))
		return err;
	/* Of all that are staged with it one may be written. */
	err = on_host_pages(x, i, longest_at(x, r->data), true, mem);
	return err ? err : stage(x, i, *mem, 0, true, mem);
}

static int check_range(struct opencl_launch *x, uint32_t i)
{
	const struct arax_launch_range *r = &x->l->ranges[i];
	const struct param_type *type = x->k->params.ranges[i].type;

	if (r->count != 1)
		return refuse(x, "range", "%u is strided: OpenCL kernels take flat ones", i);
	if ((uintptr_t)r->data % type->size)
		return refuse(x, "range", "%u begins %u bytes off a multiple of %u, its type (%s) needs one",
			      i, (uint32_t)((uintptr_t)r->data % type->size), type->size,
			      type->name);
	return 0;
}

/* NULL: it is empty. */
static int find_buffer(struct opencl_launch *x, uint32_t i, cl_mem *mem)
{
	const struct arax_launch_range *r = &x->l->ranges[i];

	*mem = NULL;
	if (!r->length)
		return 0;
	return x->dev->memory == OPENCL_OWN ? own_range(x, i, r, mem) : host_range(x, i, r, mem);
}

static int set_range(struct opencl_launch *x, uint32_t i)
{
	const struct arax_launch_range *r = &x->l->ranges[i];
	const cl_ulong items = r->length / x->k->params.ranges[i].type->size;
	cl_int cerr = CL_SUCCESS;
	cl_mem mem;
	int err = check_range(x, i);

	if (err)
		return err;
	if (x->dev->memory == OPENCL_SVM) {
		cerr = cl.SetKernelArgSVMPointer(x->kernel, 2 * i, r->length ? r->data : NULL);
	} else {
		err = find_buffer(x, i, &mem);
		if (err)
			return err;
		cerr = cl.SetKernelArg(x->kernel, 2 * i, sizeof(mem), mem ? &mem : NULL);
	}
	if (!cerr)
		cerr = cl.SetKernelArg(x->kernel, 2 * i + 1, sizeof(items), &items);
	return failed(x, "argument", cerr);
}

/*
 * What the copies leave where one has failed may be anybody's, and would go back.  A kernel that waits
 * for their events is nothing that all drivers survive (after.c), so it is this thread that does.
 */
static int await_staged(struct opencl_launch *x)
{
	cl_int err = CL_SUCCESS;

	/* The last one's end is the end of all. */
	if (x->nr_staged)
		err = cl.WaitForEvents(1, &x->staged[x->nr_staged - 1].came);
	for (uint32_t i = 0; !err && i < x->nr_staged; i++)
		err = opencl_outcome(x->staged[i].came);
	return failed(x, "copy of a misaligned range", err);
}

static int check_args(struct opencl_launch *x)
{
	const struct params *p = &x->k->params;

	if (x->l->nr_ranges != p->nr_ranges || x->l->arg_len != p->arg_len)
		return refuse(x, "arguments", "are not as the signature says");
	return 0;
}

static int set_args(struct opencl_launch *x)
{
	const struct params *p = &x->k->params;
	cl_int cerr = CL_SUCCESS;
	int err = check_args(x);

	for (uint32_t i = 0; !err && i < p->nr_ranges; i++)
		err = set_range(x, i);
	for (uint32_t i = 0; !err && !cerr && i < p->nr_plain; i++)
		cerr = cl.SetKernelArg(x->kernel, 2 * p->nr_ranges + i, p->plain[i].type->size,
				       (const char *)x->l->args + p->plain[i].offset);
	return err ? err : failed(x, "argument", cerr);
}

/* A function has its ranges as buffers. */
static int find_buffers(struct opencl_launch *x, cl_mem *mems)
{
	int err = check_args(x);

	for (uint32_t i = 0; !err && i < x->k->params.nr_ranges; i++) {
		err = check_range(x, i);
		if (!err)
			err = find_buffer(x, i, &mems[i]);
	}
	return err;
}

/* ------------------------------------------------------------------ */
/* To its end                                                            */

static int set_geometry(struct opencl_launch *x)
{
	const struct opencl_device *d = x->dev;
	uint64_t group = 1, items = 1;

	x->dims = 1;
	for (cl_uint i = 0; i < 3; i++) {
		uint64_t n = (uint64_t)x->l->grid[i] * x->l->block[i];

		if (x->l->block[i] > d->max_items[i])
			return refuse(x, "block", "of %u work-items in dimension %u: this device takes %zu",
				      x->l->block[i], i, d->max_items[i]);
		if (!n || n > OPENCL_MAX_ITEMS / items)
			return refuse(x, "grid", "and block are %u x %u x %u times %u x %u x %u work-items: the limit is %llu in all",
				      x->l->grid[0], x->l->grid[1], x->l->grid[2], x->l->block[0],
				      x->l->block[1], x->l->block[2],
				      (unsigned long long)OPENCL_MAX_ITEMS);
		items *= n;
		group *= x->l->block[i];	/* at most the product of what it allows */
		x->global[i] = n;
		x->local[i] = x->l->block[i];
		if (n > 1)
			x->dims = i + 1;
	}
	if (group > x->k->max_group)
		return refuse(x, "block", "of %llu work-items: this kernel takes %zu on this device",
			      (unsigned long long)group, x->k->max_group);
	if (items / group > OPENCL_MAX_GROUPS)
		return refuse(x, "grid", "of %llu work-groups: the limit is %llu",
			      (unsigned long long)(items / group),
			      (unsigned long long)OPENCL_MAX_GROUPS);
	return 0;
}

/* The lane has several results, one for each launch that may be under way. */
static int set_result(struct opencl_launch *x)
{
	static const cl_int zero;
	const cl_uint arg = 2 * x->k->params.nr_ranges + x->k->params.nr_plain;
	cl_int err;

	/* Others may look there if it has none. */
	*x->result = 0;
	if (!x->k->has_result)
		return 0;
	if (x->dev->memory == OPENCL_SVM)
		err = cl.SetKernelArgSVMPointer(x->kernel, arg, x->result);
	else
		err = cl.SetKernelArg(x->kernel, arg, sizeof(x->result_mem), &x->result_mem);
	if (!err && x->dev->memory == OPENCL_OWN && x->result_dirty) {
		err = cl.EnqueueWriteBuffer(x->lane->queue, x->result_mem, CL_FALSE, 0, sizeof(zero),
					    &zero, 0, NULL, NULL);
		x->result_dirty = err != CL_SUCCESS;
	}
	return failed(x, "result", err);
}

/* Behind the kernel; the last one's event is the launch's end. */
static int fetch_back(struct opencl_launch *x)
{
	cl_int err = CL_SUCCESS;

	for (uint32_t i = 0; !err && i < x->nr_staged; i++) {
		struct opencl_staged *s = &x->staged[i];

		if (!s->back)
			continue;
		err = cl.EnqueueCopyBuffer(x->lane->queue, s->temporary, s->own, 0, s->offset,
					   s->back, 0, NULL, &s->went);
		if (err)
			s->went = NULL;
		x->last = s->went;
	}
	if (!err && x->k->has_result && x->dev->memory == OPENCL_OWN) {
		err = cl.EnqueueReadBuffer(x->lane->queue, x->result_mem, CL_FALSE, 0,
					   sizeof(*x->result), x->result, 0, NULL, &x->fetched);
		if (err)
			x->fetched = NULL;
		x->last = x->fetched;
	}
	return failed(x, "result", err);
}

/* Time on the device by its own clock, and whether it got to the end. */
static int look_back(struct opencl_launch *x, uint64_t *device_ns)
{
	cl_ulong start = 0, end = 0;
	cl_int err = opencl_outcome(x->event);

	if (err)
		return failed(x, "launch", err);
	for (uint32_t i = 0; !err && i < x->nr_staged; i++)
		err = opencl_outcome(x->staged[i].went);
	if (err)
		return failed(x, "copy of a misaligned range", err);
	err = opencl_outcome(x->fetched);
	if (err)
		return failed(x, "result", err);
	if (!cl.GetEventProfilingInfo(x->began ? x->began : x->event,
				      x->began ? CL_PROFILING_COMMAND_END : CL_PROFILING_COMMAND_START,
				      sizeof(start), &start, NULL) &&
	    !cl.GetEventProfilingInfo(x->event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL) &&
	    end > start)
		*device_ns = end - start;
	return 0;
}

/*
 * A kernel doesn't keep what its arguments name: a driver is not to find buffers, or parts of them,
 * that are no more when the next launch sets them.  On host pages these are all there is, and
 * tried out.
 */
static void forget_args(struct opencl_launch *x)
{
	if (!x->k->program || x->dev->memory != OPENCL_OWN)
		return;
	for (uint32_t i = 0; i < x->k->params.nr_ranges; i++)
		cl.SetKernelArg(x->kernel, 2 * i, sizeof(cl_mem), NULL);
}

/* What the launch has had made for its ranges. */
static void release_mems(struct opencl_launch *x)
{
	bool own = x->dev->memory == OPENCL_OWN, locked = false;

	for (uint32_t i = 0; i < x->k->params.nr_ranges; i++) {
		if (!x->mems[i])
			continue;
		if (own && !locked)
			pthread_mutex_lock(&x->dev->parts_lock);
		locked = own;
		cl.ReleaseMemObject(x->mems[i]);
	}
	if (locked)
		pthread_mutex_unlock(&x->dev->parts_lock);
	for (struct opencl_staged *s = x->staged; s < x->staged + x->nr_staged; s++) {
		if (s->temporary)
			cl.ReleaseMemObject(s->temporary);
		if (s->accounted)
			opencl_unaccount(x->dev, s->bytes);
		if (s->release_own)
			cl.ReleaseMemObject(s->own);
	}
}

static void release(struct opencl_launch *x)
{
	cl_event events[3 + 2 * PARAMS_MAX];
	uint32_t nr = 0;

	events[nr++] = x->event;
	events[nr++] = x->began;
	events[nr++] = x->fetched;
	for (uint32_t i = 0; i < x->nr_staged; i++) {
		events[nr++] = x->staged[i].came;
		events[nr++] = x->staged[i].went;
	}
	while (nr--)
		if (events[nr])
			cl.ReleaseEvent(events[nr]);
	forget_args(x);
	release_mems(x);
}

static uint32_t run_after(const struct arax_backend_run *run)
{
	return run->size >= offsetof(struct arax_backend_run, after) + sizeof(run->after) ?
	       run->after : 0;
}

/*
 * All that comes before its kernel; if that is to begin it counts.  A function begins here: its
 * work is on the queue when it returns, or a part of it if it fails.
 */
static int prepare(struct opencl_launch *x, bool *counts)
{
	cl_mem mems[PARAMS_MAX];
	int err;

	x->alone = false;
	x->declined = false;
	*counts = false;
	err = x->k->program ? set_geometry(x) : find_buffers(x, mems);
	if (!err && x->k->program)
		err = set_args(x);
	if (!err)
		err = await_staged(x);
	if (!err)
		err = set_result(x);
	if (err)
		return err;
	count_begun(x);
	*counts = true;
	return x->k->program ? 0 : opencl_stream_call(x, mems);
}

static int hand_over(struct opencl_launch *x, uint32_t after)
{
	int err;

	opencl_after_begin(x, after);
	/* Where it waits for others, as where there is nothing to fetch, that is later. */
	err = x->over ? failed(x, "launch", x->error) : 0;
	return err ? err : fetch_back(x);
}

/*
 * Who is told of an error takes the launch's memory for free, so that nothing of it may be under
 * way any more; where that can't be had the device is lost.  Nor does a function that fails say
 * that it is.
 */
static int finish(struct opencl_launch *x)
{
	cl_int err = CL_SUCCESS;

	for (int i = 0; i < TRIES; i++) {
		err = cl.Finish(x->lane->queue);
		if (!err)
			return 0;
	}
	return opencl_lose(x->dev, err);
}

static struct opencl_launch *begin(struct opencl_device *d, const struct arax_backend_run *run, int *err)
{
	struct opencl_kernel *k = run->kernel;
	uint32_t nr = run->lane % d->nr_lanes;
	struct opencl_lane *lane = &d->lanes[nr];
	struct opencl_launch *x = &lane->launches[(lane->first + lane->under_way) % ARAX_LANE_DEPTH];
	bool counts;

	x->dev = d;
	x->k = k;
	x->lane = lane;
	x->kernel = k->lanes[nr][x - lane->launches];
	x->l = run->launch;
	x->nr_staged = 0;
	x->event = x->last = x->began = x->fetched = NULL;
	x->result = lane->results + lane->begun % OPENCL_RESULTS * OPENCL_RESULT_STRIDE;
	if (d->memory == OPENCL_HOST_PTR)
		x->result_mem = lane->result_mems[lane->begun % OPENCL_RESULTS];
	x->suspect = false;
	memset(x->mems, 0, k->params.nr_ranges * sizeof(x->mems[0]));
	*err = prepare(x, &counts);
	if (!*err)
		*err = hand_over(x, run_after(run));
	if (!*err) {
		lane->begun++;
		return x;
	}
	/* Copies may be under way; elsewhere launches may be that wait for this thread. */
	if (d->memory == OPENCL_OWN || !k->program)
		*err = finish(x) ? -ENODEV : *err;
	if (counts) {
		x->result_dirty |= k->has_result;
		x->suspect = is_suspect(x, *err);
		count_ended(x);
	}
	release(x);
	return x;
}

/* Its last command has, and so have those that came before it on the queue. */
static bool has_ended(const struct opencl_launch *x)
{
	cl_int status = CL_QUEUED;

	cl.GetEventInfo(x->last ? x->last : x->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
			sizeof(status), &status, NULL);
	return status <= CL_COMPLETE;
}

/* @cerr: of the waiting. */
static int end(struct opencl_launch *x, cl_int cerr, uint64_t *device_ns)
{
	int err = 0;

	*device_ns = 0;
	if (__builtin_expect(cerr && !has_ended(x), 0))
		err = finish(x);
	if (!err)
		err = look_back(x, device_ns);
	if (!err)
		err = failed(x, "launch", cerr);
	if (!err && x->k->has_result) {
		err = *(volatile cl_int *)x->result;
		/* A kernel does not say that its device is lost: this would be taken for it. */
		err = err == -ENODEV ? -EIO : err;
	}
	/* Of one that failed otherwise nobody knows what it has stored. */
	x->result_dirty |= err && x->k->has_result;
	release(x);
	return err;
}

/* After a loss: one at a time, so that the next one has a culprit. */
static bool begin_alone(struct opencl_device *d)
{
	uint32_t left = __atomic_load_n(&d->careful, __ATOMIC_RELAXED);

	while (__builtin_expect(left != 0, 0))
		if (__atomic_compare_exchange_n(&d->careful, &left, left - 1, true, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			pthread_mutex_lock(&d->run_alone);
			return true;
		}
	return false;
}

static int run_it(struct opencl_device *d, struct arax_backend_run *run, uint64_t *device_ns,
		  bool *suspect)
{
	struct opencl_launch *x;
	int err;

	if (is_lost(d))
		return -ENODEV;
	x = begin(d, run, &err);
	if (err) {
		*suspect = x->suspect;
		if (run->size >= offsetof(struct arax_backend_run, declined) + sizeof(run->declined))
			run->declined = x->declined;
		return err;
	}
	err = end(x, cl.Finish(x->lane->queue), device_ns);
	*suspect = is_suspect(x, err);
	count_ended(x);
	return err;
}

int opencl_run(struct opencl_device *d, struct arax_backend_run *run)
{
	bool one = begin_alone(d), suspect = false;
	uint64_t device_ns = 0;
	int err = run_it(d, run, &device_ns, &suspect);

	if (one)
		pthread_mutex_unlock(&d->run_alone);
	if (run->size >= offsetof(struct arax_backend_run, device_ns) + sizeof(run->device_ns))
		run->device_ns = device_ns;
	if (run->size >= offsetof(struct arax_backend_run, alone) + sizeof(run->alone))
		run->alone = suspect;
	return err;
}

int opencl_submit(struct opencl_device *d, const struct arax_backend_run *run, uint64_t cookie)
{
	struct opencl_lane *lane = &d->lanes[run->lane % d->nr_lanes];
	const struct opencl_kernel *k = run->kernel;
	struct opencl_launch *x;
	int err;

	if (is_lost(d))
		return -ENODEV;
	if (lane->under_way == ARAX_LANE_DEPTH)
		return -EAGAIN;
	/* For a while they run one at a time, as run() sees to. */
	if (__builtin_expect(__atomic_load_n(&d->careful, __ATOMIC_RELAXED) != 0, 0))
		return -EAGAIN;
	/* Nor does a function run on a driver's thread, when that tells of an end. */
	if (run_after(run) && (!d->follows || !k->program))
		return -EAGAIN;
	x = begin(d, run, &err);
	/* An error alone can't say so: such a one has been submitted, and ends as lost. */
	if (err && !x->suspect)
		return x->declined ? -EAGAIN : err;
	x->cookie = cookie;
	lane->under_way++;
	/* A driver may else wait with it for more. */
	if (!err)
		cl.Flush(lane->queue);
	return 0;
}

/* What there was of it goes. */
static int end_submitted(struct opencl_launch *x, struct arax_backend_done *done)
{
	int err;

	if (opencl_after_end(x))
		return end(x, cl.WaitForEvents(1, x->last ? &x->last : &x->event), &done->device_ns);
	err = x->error ? failed(x, "launch", x->error) : -ECANCELED;
	done->flags = x->error ? 0 : ARAX_DONE_NOT_RUN;
	release(x);
	return err;
}

int opencl_wait(struct opencl_device *d, uint32_t nr, struct arax_backend_done *done)
{
	struct opencl_lane *lane = &d->lanes[nr % d->nr_lanes];
	struct opencl_launch *x = &lane->launches[lane->first];

	if (!lane->under_way)
		return -ENOENT;
	*done = (struct arax_backend_done){ .cookie = x->cookie };
	if (x->suspect) {
		done->result = -ENODEV;
		done->flags = ARAX_DONE_ALONE;
	} else {
		done->result = end_submitted(x, done);
		if (is_suspect(x, done->result))
			done->flags |= ARAX_DONE_ALONE;
		count_ended(x);
	}
	if (done->result)
		opencl_after_failed(lane, x);
	lane->first = (lane->first + 1) % ARAX_LANE_DEPTH;
	lane->under_way--;
	return 0;
}
