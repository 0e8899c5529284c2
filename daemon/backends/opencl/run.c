// SPDX-License-Identifier: MIT
/*
 * A launch, from enqueueing to its end.
 *
 * Buffers on host pages are made for one launch and then released.  On a driver
 * that works in place this is a descriptor and costs 0.1 us; kept ones would have to
 * be dropped whenever a client's buffer goes and another comes to its address.
 */
#include <errno.h>
#include <string.h>

#include "daemon/backends/opencl/opencl.h"

struct launch {
	struct opencl_device *dev;
	struct opencl_kernel *k;
	struct opencl_lane *lane;
	cl_kernel kernel;
	const struct arax_launch *l;
	cl_event event;
	cl_mem mems[PARAMS_MAX];	/* made for this launch; NULL: not ours */
	/* Ranges that lie where no buffer may begin: copied in and back. */
	uint32_t nr_staged;
	struct staged {
		cl_mem own, temporary;
		uint64_t offset, bytes;
		bool back;
	} staged[PARAMS_MAX];
};

/* Once for each kernel: a client can repeat it as often as it likes. */
static void tell(struct launch *x, const char *what, const char *why)
{
	if (!__atomic_exchange_n(&x->k->told, true, __ATOMIC_RELAXED))
		opencl_log(ARAX_LOG_WARNING, "%s: %s: %s: %s (said once)", x->dev->name, x->k->name,
			   what, why);
}

static int failed(struct launch *x, const char *what, cl_int err)
{
	if (!err)
		return 0;
	tell(x, what, opencl_error_name(err));
	return opencl_check(x->dev, err);
}

static int refuse(struct launch *x, const char *what, const char *why)
{
	tell(x, what, why);
	return -EINVAL;
}

/* ------------------------------------------------------------------ */
/* Ranges                                                                */

static int stage(struct launch *x, uint32_t i, cl_mem own, uint64_t offset, uint64_t bytes)
{
	const struct param *p = &x->k->params.ranges[i];
	cl_int err;

	x->mems[i] = cl.CreateBuffer(x->dev->context, CL_MEM_READ_WRITE, bytes, NULL, &err);
	if (err) {
		x->mems[i] = NULL;
		return failed(x, "buffer for a misaligned range", err);
	}
	x->staged[x->nr_staged++] =
		(struct staged){ own, x->mems[i], offset, bytes, p->out };
	if (p->in)
		err = cl.EnqueueCopyBuffer(x->lane->queue, own, x->mems[i], offset, 0, bytes, 0, NULL,
					   NULL);
	return failed(x, "copy of a misaligned range", err);
}

static int own_range(struct launch *x, uint32_t i, const struct arax_launch_range *r, cl_mem *mem)
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
		err = stage(x, i, *mem, offset, r->length);
		*mem = x->mems[i];
		return err;
	}
	region.origin = offset;
	x->mems[i] = cl.CreateSubBuffer(*mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &cerr);
	if (cerr) {
		x->mems[i] = NULL;
		return failed(x, "sub-buffer", cerr);
	}
	*mem = x->mems[i];
	return 0;
}

static int host_range(struct launch *x, uint32_t i, const struct arax_launch_range *r, cl_mem *mem)
{
	cl_mem_flags flags = CL_MEM_USE_HOST_PTR;
	cl_int err;

	flags |= x->k->params.ranges[i].out ? CL_MEM_READ_WRITE : CL_MEM_READ_ONLY;
	*mem = cl.CreateBuffer(x->dev->context, flags, r->length, r->data, &err);
	if (err)
		return failed(x, "buffer on host pages", err);
	x->mems[i] = *mem;
	return 0;
}

static int set_range(struct launch *x, uint32_t i)
{
	const struct param *p = &x->k->params.ranges[i];
	const struct arax_launch_range *r = &x->l->ranges[i];
	const cl_ulong items = r->length / p->type->size;
	cl_int cerr = CL_SUCCESS;
	cl_mem mem = NULL;
	int err = 0;

	if (r->count != 1)
		return refuse(x, "range", "is strided: OpenCL kernels take flat ones");
	if ((uintptr_t)r->data % p->type->size)
		return refuse(x, "range", "is not aligned to its type");
	if (x->dev->memory == OPENCL_SVM) {
		cerr = cl.SetKernelArgSVMPointer(x->kernel, 2 * i, r->length ? r->data : NULL);
	} else {
		if (r->length)
			err = x->dev->memory == OPENCL_OWN ? own_range(x, i, r, &mem) :
							     host_range(x, i, r, &mem);
		if (err)
			return err;
		cerr = cl.SetKernelArg(x->kernel, 2 * i, sizeof(mem), mem ? &mem : NULL);
	}
	if (!cerr)
		cerr = cl.SetKernelArg(x->kernel, 2 * i + 1, sizeof(items), &items);
	return failed(x, "argument", cerr);
}

static int set_args(struct launch *x)
{
	const struct params *p = &x->k->params;
	cl_int cerr = CL_SUCCESS;
	int err = 0;

	if (x->l->nr_ranges != p->nr_ranges || x->l->arg_len != p->arg_len)
		return refuse(x, "arguments", "are not as the signature says");
	for (uint32_t i = 0; !err && i < p->nr_ranges; i++)
		err = set_range(x, i);
	for (uint32_t i = 0; !err && !cerr && i < p->nr_plain; i++)
		cerr = cl.SetKernelArg(x->kernel, 2 * p->nr_ranges + i, p->plain[i].type->size,
				       (const char *)x->l->args + p->plain[i].offset);
	return err ? err : failed(x, "argument", cerr);
}

/* ------------------------------------------------------------------ */
/* To its end                                                            */

static int enqueue(struct launch *x)
{
	const struct opencl_device *d = x->dev;
	uint64_t group = 1, items = 1;
	size_t global[3], local[3];
	cl_uint dims = 1;

	for (cl_uint i = 0; i < 3; i++) {
		uint64_t n = (uint64_t)x->l->grid[i] * x->l->block[i];

		if (x->l->block[i] > d->max_items[i] || !n || n > OPENCL_MAX_ITEMS / items)
			return refuse(x, "geometry", "is beyond the device's limits");
		items *= n;
		group *= x->l->block[i];	/* at most the product of what it allows */
		global[i] = n;
		local[i] = x->l->block[i];
		if (n > 1)
			dims = i + 1;
	}
	if (group > x->k->max_group)
		return refuse(x, "geometry", "has work-groups larger than the kernel allows");
	return failed(x, "launch", cl.EnqueueNDRangeKernel(x->lane->queue, x->kernel, dims, NULL, global,
							   local, 0, NULL, &x->event));
}

static int clear_result(struct launch *x)
{
	static const cl_int zero;

	*x->lane->result = 0;
	if (x->dev->memory != OPENCL_OWN || !x->lane->result_dirty)
		return 0;
	x->lane->result_dirty = false;
	return failed(x, "result", cl.EnqueueWriteBuffer(x->lane->queue, x->lane->result_mem, CL_FALSE, 0,
							 sizeof(zero), &zero, 0, NULL, NULL));
}

static cl_int fetch_back(struct launch *x)
{
	cl_int err = CL_SUCCESS;

	for (uint32_t i = 0; !err && i < x->nr_staged; i++) {
		const struct staged *s = &x->staged[i];

		if (s->back)
			err = cl.EnqueueCopyBuffer(x->lane->queue, s->temporary, s->own, 0, s->offset,
						   s->bytes, 0, NULL, NULL);
	}
	if (!err && x->k->has_result && x->dev->memory == OPENCL_OWN)
		err = cl.EnqueueReadBuffer(x->lane->queue, x->lane->result_mem, CL_FALSE, 0,
					   sizeof(*x->lane->result), x->lane->result, 0, NULL, NULL);
	return err;
}

/* Time on the device by its own clock, and whether it got to the end. */
static int look_back(struct launch *x, struct arax_backend_run *run)
{
	cl_ulong start = 0, end = 0;
	cl_int status = CL_COMPLETE;

	cl.GetEventInfo(x->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL);
	if (status < 0)
		return failed(x, "launch", status);
	if (run->size < offsetof(struct arax_backend_run, device_ns) + sizeof(run->device_ns))
		return 0;
	if (!cl.GetEventProfilingInfo(x->event, CL_PROFILING_COMMAND_START, sizeof(start), &start,
				      NULL) &&
	    !cl.GetEventProfilingInfo(x->event, CL_PROFILING_COMMAND_END, sizeof(end), &end, NULL) &&
	    end > start)
		run->device_ns = end - start;
	return 0;
}

static int finish(struct launch *x, struct arax_backend_run *run)
{
	cl_int cerr = fetch_back(x), ferr = cl.Finish(x->lane->queue);
	int err = failed(x, "launch", cerr ? cerr : ferr);

	if (!err)
		err = look_back(x, run);
	cl.ReleaseEvent(x->event);
	if (err || !x->k->has_result)
		return err;
	err = *(volatile cl_int *)x->lane->result;
	x->lane->result_dirty |= err != 0;
	return err;
}

int opencl_run(struct opencl_device *d, struct arax_backend_run *run)
{
	struct opencl_kernel *k = run->kernel;
	uint32_t lane = run->lane % d->nr_lanes;
	struct launch x;
	int err;

	if (__builtin_expect(__atomic_load_n(&d->lost, __ATOMIC_RELAXED), 0))
		return -ENODEV;
	x.dev = d;
	x.k = k;
	x.lane = &d->lanes[lane];
	x.kernel = k->lanes[lane];
	x.l = run->launch;
	x.nr_staged = 0;
	memset(x.mems, 0, k->params.nr_ranges * sizeof(x.mems[0]));
	err = set_args(&x);
	if (!err)
		err = clear_result(&x);
	if (!err)
		err = enqueue(&x);
	if (!err)
		err = finish(&x, run);
	else
		cl.Finish(x.lane->queue);	/* copies may be under way */
	for (uint32_t i = 0; i < k->params.nr_ranges; i++)
		if (x.mems[i])
			cl.ReleaseMemObject(x.mems[i]);
	return err;
}
