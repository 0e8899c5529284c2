// SPDX-License-Identifier: MIT
/* Functions that put a library's work onto a lane's stream. */
#include <errno.h>
#include <stdio.h>

#include "daemon/backends/gpu/gpu.h"

static struct arax_stream place_of(const struct gpu_device *d)
{
	return (struct arax_stream){ .size = sizeof(struct arax_stream), .kind = d->driver->kind,
				     .device = (void *)(intptr_t)d->place, .context = d->context,
				     .driver = d->driver->library(), .arch = d->limits.arch };
}

static void streams_of(const struct gpu_device *d, void *streams[GPU_MAX_LANES])
{
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		streams[i] = d->lanes[i].stream;
}

int gpu_stream_load(struct gpu_device *d, const struct arax_backend_kernel *desc,
		    struct gpu_kernel *k)
{
	const struct arax_stream at = place_of(d);
	char why[256] = "";
	int err = stream_load(&d->streams, desc, &at, &k->host, why, sizeof(why));

	/* That its library is not here is no fault of the file's. */
	if (!err)
		k->tells = k->host.file->behind ? GPU_TELLS_ALL : GPU_TELLS_NOTHING;
	if (err)
		gpu_log(d->stack, k->host.call ? ARAX_LOG_INFO : ARAX_LOG_ERR,
			"%s: %s: %s: %s", d->name, desc->file, desc->symbol, why);
	return err;
}

void gpu_stream_unload(struct gpu_device *d, struct gpu_kernel *k, bool entered)
{
	const struct arax_stream at = place_of(d);
	void *streams[GPU_MAX_LANES];

	streams_of(d, streams);
	/* What is kept for a broken context goes when that does. */
	stream_unload(&d->streams, &k->host, &at, streams, entered ? d->nr_lanes : 0);
}

void gpu_stream_close(struct gpu_device *d)
{
	const struct arax_stream at = place_of(d);
	void *streams[GPU_MAX_LANES];

	streams_of(d, streams);
	stream_close(&d->streams, &at, streams, d->nr_lanes);
}

int gpu_stream_call(struct gpu_device *d, const struct gpu_kernel *k, const struct arax_launch *l,
		    const struct gpu_result *result, uint32_t lane)
{
	struct arax_stream at = place_of(d);
	struct arax_launch_range ranges[PARAMS_MAX];
	struct arax_launch own = *l;

	for (uint32_t i = 0; i < l->nr_ranges; i++) {
		ranges[i] = l->ranges[i];
		if (!ranges[i].length)
			ranges[i].data = NULL;
	}
	own.ranges = ranges;
	at.result = result;
	return stream_call(&k->host, &own, &at, d->lanes[lane].stream, lane);
}
