// SPDX-License-Identifier: MIT
/* Functions that put a library's work onto a lane's queue: as launches, that end when all of it has. */
#include <errno.h>
#include <stdio.h>

#include "daemon/backends/opencl/opencl.h"

static struct arax_stream place_of(const struct opencl_device *d)
{
	return (struct arax_stream){ .size = sizeof(struct arax_stream), .kind = ARAX_STREAM_OPENCL,
				     .device = d->id, .context = d->context };
}

static void queues_of(const struct opencl_device *d, void *queues[OPENCL_MAX_LANES])
{
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		queues[i] = d->lanes[i].queue;
}

int opencl_stream_load(struct opencl_device *d, const struct arax_backend_kernel *desc,
		       struct opencl_kernel *k)
{
	const struct arax_stream at = place_of(d);
	char why[256] = "";
	int err;

	if (!cl.EnqueueMarkerWithWaitList)
		return -EOPNOTSUPP;
	err = stream_load(&d->streams, desc, &at, &k->function, why, sizeof(why));
	/* That its library is not here is no fault of the file's. */
	if (err)
		opencl_log(k->function.call ? ARAX_LOG_INFO : ARAX_LOG_ERR,
			   "%s: %s: %s: %s", d->name, desc->file, desc->symbol, why);
	return err;
}

void opencl_stream_unload(struct opencl_device *d, struct opencl_kernel *k)
{
	const struct arax_stream at = place_of(d);
	void *queues[OPENCL_MAX_LANES];

	queues_of(d, queues);
	/* What is kept for queues that are no more has gone with them. */
	stream_unload(&d->streams, &k->function, &at, queues, d->nr_lanes);
}

void opencl_stream_close(struct opencl_device *d)
{
	const struct arax_stream at = place_of(d);
	void *queues[OPENCL_MAX_LANES];

	queues_of(d, queues);
	stream_close(&d->streams, &at, queues, d->nr_lanes);
}

int opencl_stream_call(struct opencl_launch *x, const cl_mem *mems)
{
	const struct arax_stream at = place_of(x->dev);
	struct arax_launch_range ranges[PARAMS_MAX];
	struct arax_launch l = *x->l;
	cl_int err;

	for (uint32_t i = 0; i < l.nr_ranges; i++)
		ranges[i] = (struct arax_launch_range){ .data = mems[i], .length = l.ranges[i].length,
							.count = 1 };
	l.ranges = ranges;
	/* Only for the time it takes. */
	err = cl.EnqueueMarkerWithWaitList(x->lane->queue, 0, NULL, &x->began);
	if (err)
		x->began = NULL;
	return stream_call(&x->k->function, &l, &at, x->lane->queue, x->lane->index);
}
