// SPDX-License-Identifier: MIT
/*
 * OpenCL itself as the Rodinia programs' machine, as somebody would write it who has the
 * device for himself: every object is made once, launches are put into one in-order queue,
 * nobody waits but for results.
 */
#include "rodinia_cl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HAVE_OPENCL
#include "cl_peer.h"

#define MAX_VIEWS	4096

/* A part of a buffer, as a kernel's argument. */
struct view {
	const void *data;
	uint64_t bytes;
	cl_mem mem;
};

struct rodinia_cl {
	struct ro_machine m;
	struct cl_peer peer;
	cl_kernel kernels[RO_KERNELS];
	struct view views[MAX_VIEWS];
	uint32_t nr_views;
	uint32_t last;		/* found there: they come in turn */
};

static struct rodinia_cl *of(struct ro_machine *m)
{
	return (struct rodinia_cl *)((char *)m - offsetof(struct rodinia_cl, m));
}

static int failed(struct ro_machine *m, const char *what, cl_int err)
{
	if (!err)
		return 0;
	snprintf(m->why, sizeof(m->why), "%s: %s", what, opencl_error_name(err));
	return -EIO;
}

static int create(struct ro_machine *m, struct ro_buffer *b)
{
	b->data = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->data != MAP_FAILED)
		return 0;
	snprintf(m->why, sizeof(m->why), "a buffer: %s", strerror(errno));
	return -ENOMEM;
}

static void destroy(struct ro_machine *m, struct ro_buffer *b)
{
	struct rodinia_cl *c = of(m);

	/* Views of it are views of nothing; programs give all back at once. */
	while (c->nr_views)
		cl.ReleaseMemObject(c->views[--c->nr_views].mem);
	munmap(b->data, b->bytes);
}

static int find_view(struct rodinia_cl *c, const struct ro_range *r, cl_mem *mem)
{
	const char *data = (char *)r->buffer->data + r->offset;
	uint32_t i, k;
	cl_int err;

	for (k = 0; k < c->nr_views; k++) {
		i = (c->last + k) % c->nr_views;
		if (c->views[i].data != data || c->views[i].bytes != r->length)
			continue;
		c->last = i;
		*mem = c->views[i].mem;
		return 0;
	}
	if (c->nr_views == MAX_VIEWS) {
		snprintf(c->m.why, sizeof(c->m.why), "more than %u parts of buffers", MAX_VIEWS);
		return -ENOSPC;
	}
	*mem = cl.CreateBuffer(c->peer.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, r->length,
			       (void *)data, &err);
	if (err)
		return failed(&c->m, "buffer", err);
	c->last = c->nr_views++;
	c->views[c->last] = (struct view){ data, r->length, *mem };
	return 0;
}

/* All plain arguments are of four bytes, ranges are of four or one. */
static int set_args(struct rodinia_cl *c, enum ro_kernel k, const void *args, size_t arg_len,
		    const struct ro_range *ranges, uint32_t nr_ranges)
{
	cl_kernel kernel = c->kernels[k];
	cl_uint at = 0;
	cl_int err = CL_SUCCESS;
	cl_ulong items;
	cl_mem mem;
	uint32_t i;

	for (i = 0; i < nr_ranges; i++) {
		int fail = find_view(c, &ranges[i], &mem);

		if (fail)
			return fail;
		items = ranges[i].length / (k == RO_PF_MOVE && !i ? 1 : 4);
		err |= cl.SetKernelArg(kernel, at++, sizeof(mem), &mem);
		err |= cl.SetKernelArg(kernel, at++, sizeof(items), &items);
	}
	for (; arg_len; arg_len -= 4, args = (const char *)args + 4)
		err |= cl.SetKernelArg(kernel, at++, 4, args);
	return err ? failed(&c->m, ro_kernel_names[k], CL_INVALID_KERNEL_ARGS) : 0;
}

static int launch(struct ro_machine *m, enum ro_kernel k, const struct arax_grid *grid,
		  const void *args, size_t arg_len, const struct ro_range *ranges,
		  uint32_t nr_ranges)
{
	struct rodinia_cl *c = of(m);
	size_t global[3], local[3];
	cl_uint dims = 1, i;
	int err = set_args(c, k, args, arg_len, ranges, nr_ranges);

	if (err)
		return err;
	for (i = 0; i < 3; i++) {
		local[i] = grid->block[i];
		global[i] = local[i] * grid->grid[i];
		if (global[i] > 1)
			dims = i + 1;
	}
	return failed(m, ro_kernel_names[k], cl.EnqueueNDRangeKernel(c->peer.queue, c->kernels[k], dims,
								      NULL, global, local, 0, NULL,
								      NULL));
}

static int wait(struct ro_machine *m)
{
	struct rodinia_cl *c = of(m);
	int err = failed(m, "the queue", cl.Finish(c->peer.queue));

	if (!err && *(volatile cl_int *)c->peer.result) {
		snprintf(m->why, sizeof(m->why), "a kernel: %s", strerror(-*c->peer.result));
		err = *c->peer.result;
	}
	return err;
}

static const struct ro_machine_ops ops = {
	.create = create, .destroy = destroy, .launch = launch, .wait = wait,
};

/* ------------------------------------------------------------------ */

struct rodinia_cl *rodinia_cl_open(const char *path, char *why, size_t len)
{
	struct rodinia_cl *c = calloc(1, sizeof(*c));
	cl_int err = CL_SUCCESS;
	int k;

	if (!c) {
		snprintf(why, len, "no memory");
		return NULL;
	}
	c->m.ops = &ops;
	if (cl_peer_open(&c->peer, path, why, len)) {
		free(c);
		return NULL;
	}
	for (k = 0; k < RO_KERNELS && !err; k++)
		err = cl_peer_kernel(&c->peer, ro_kernel_names[k], true, &c->kernels[k]);
	if (!err)
		return c;
	snprintf(why, len, "no kernel: %s", opencl_error_name(err));
	rodinia_cl_close(c);
	return NULL;
}

void rodinia_cl_close(struct rodinia_cl *c)
{
	int k;

	for (k = 0; k < RO_KERNELS; k++)
		if (c->kernels[k])
			cl.ReleaseKernel(c->kernels[k]);
	cl_peer_close(&c->peer);
	free(c);
}

struct ro_machine *rodinia_cl_machine(struct rodinia_cl *c)
{
	return &c->m;
}

const char *rodinia_cl_device(const struct rodinia_cl *c)
{
	return c->peer.name;
}

unsigned int rodinia_cl_devices(const struct rodinia_cl *c)
{
	return c->peer.nr_devices;
}

#else

struct rodinia_cl *rodinia_cl_open(const char *path, char *why, size_t len)
{
	snprintf(why, len, "built without OpenCL's headers (Debian: opencl-c-headers)");
	return NULL;
}

void rodinia_cl_close(struct rodinia_cl *c)
{
}

struct ro_machine *rodinia_cl_machine(struct rodinia_cl *c)
{
	return NULL;
}

const char *rodinia_cl_device(const struct rodinia_cl *c)
{
	return "";
}

unsigned int rodinia_cl_devices(const struct rodinia_cl *c)
{
	return 0;
}

#endif
