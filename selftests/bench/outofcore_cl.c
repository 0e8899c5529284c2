// SPDX-License-Identifier: MIT
/* outofcore by hand on an OpenCL device: a queue for kernels, one for copies. */
#include "outofcore.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "server.h"

#ifdef HAVE_OPENCL
#include "cl_peer.h"

struct cl_machine {
	struct ooc_machine m;
	struct cl_peer peer;
	cl_command_queue copies;
	cl_kernel kernel;
	const char *name;	/* the kernel's */
};

static struct cl_machine *of(struct ooc_machine *m)
{
	return (struct cl_machine *)m;
}

static void must(cl_int err, const char *what)
{
	if (err)
		bench_fail("OpenCL: %s: %s", what, opencl_error_name(err));
}

static struct ooc_memory *cl_alloc(struct ooc_machine *m, uint64_t bytes)
{
	struct cl_machine *c = of(m);
	cl_int err;
	cl_mem mem = cl.CreateBuffer(c->peer.context, CL_MEM_READ_WRITE, bytes, NULL, &err);

	must(err, "a buffer");
	/* Drivers allocate when it is first used. */
	if (cl.EnqueueMigrateMemObjects) {
		must(cl.EnqueueMigrateMemObjects(c->copies, 1, &mem,
						 CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL,
						 NULL), "a buffer");
		must(cl.Finish(c->copies), "a buffer");
	}
	return (struct ooc_memory *)mem;
}

static void cl_free(struct ooc_machine *m, struct ooc_memory *mem)
{
	cl.ReleaseMemObject((cl_mem)mem);
}

static void cl_in(struct ooc_machine *m, struct ooc_memory *to, const void *from, uint64_t bytes)
{
	cl_command_queue q = of(m)->copies;

	must(cl.EnqueueWriteBuffer(q, (cl_mem)to, CL_FALSE, 0, bytes, from, 0, NULL, NULL), "a write");
	must(cl.Finish(q), "a write");
}

static void cl_out(struct ooc_machine *m, void *to, struct ooc_memory *from, uint64_t bytes)
{
	cl_command_queue q = of(m)->copies;

	must(cl.EnqueueReadBuffer(q, (cl_mem)from, CL_FALSE, 0, bytes, to, 0, NULL, NULL), "a read");
	must(cl.Finish(q), "a read");
}

static void use_kernel(struct cl_machine *c, const struct ooc_program *p)
{
	char name[64];

	if (c->name == p->kernel)
		return;
	if (c->kernel)
		cl.ReleaseKernel(c->kernel);
	snprintf(name, sizeof(name), "arax_std_%s", p->kernel);
	must(cl_peer_kernel(&c->peer, name, true, &c->kernel), name);
	c->name = p->kernel;
}

static void cl_run(struct ooc_machine *m, const struct ooc_program *p,
		   struct ooc_memory *const *pieces, const struct ooc_step *step)
{
	const size_t global = OOC_GROUPS * OOC_GROUP_ITEMS, local = OOC_GROUP_ITEMS;
	struct cl_machine *c = of(m);
	cl_int err = CL_SUCCESS;
	cl_uint at = 0, k;

	use_kernel(c, p);
	for (k = 0; k < p->nr_pieces; k++) {
		cl_mem mem = (cl_mem)pieces[k];
		cl_ulong items = step->pieces[k].bytes / sizeof(float);

		err |= cl.SetKernelArg(c->kernel, at++, sizeof(mem), &mem);
		err |= cl.SetKernelArg(c->kernel, at++, sizeof(items), &items);
	}
	for (k = 0; k < p->arg_len / 4; k++)
		err |= cl.SetKernelArg(c->kernel, at++, 4, &p->args[k]);
	must(err, "arguments");
	must(cl.EnqueueNDRangeKernel(c->peer.queue, c->kernel, 1, NULL, &global, &local, 0, NULL, NULL),
	     p->kernel);
	must(cl.Finish(c->peer.queue), p->kernel);
	if (*(volatile cl_int *)c->peer.result)
		bench_fail("%s: %s", p->kernel, arax_strerror(*c->peer.result));
}

static void cl_close(struct ooc_machine *m)
{
	struct cl_machine *c = of(m);

	if (c->kernel)
		cl.ReleaseKernel(c->kernel);
	cl.ReleaseCommandQueue(c->copies);
	cl_peer_close(&c->peer);
	free(c);
}

struct ooc_machine *ooc_cl_open(char *why, size_t len)
{
	struct cl_machine *c = calloc(1, sizeof(*c));
	char path[4200];
	cl_int err;

	if (!c)
		bench_fail("no memory");
	c->m = (struct ooc_machine){ .name = "opencl", .alloc = cl_alloc, .free = cl_free,
				     .in = cl_in, .out = cl_out, .run = cl_run,
				     .close = cl_close, .cpu = -1 };
	build_path(path, sizeof(path), "lib/arax/bench-std/arax-bench-std.cl");
	if (cl_peer_open(&c->peer, path, why, len)) {
		free(c);
		return NULL;
	}
	c->copies = cl.CreateCommandQueue(c->peer.context, c->peer.device, 0, &err);
	must(err, "a queue");
	return &c->m;
}

#else

struct ooc_machine *ooc_cl_open(char *why, size_t len)
{
	snprintf(why, len, "built without OpenCL's headers (Debian: opencl-c-headers)");
	return NULL;
}

#endif
