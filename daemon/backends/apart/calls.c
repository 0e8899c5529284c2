// SPDX-License-Identifier: MIT
/* A device's operations, as calls to the process that has it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backends/apart/apart.h"

int apart_kernel_load(struct apart_device *d, struct channel *c, const struct apart_kernel *k)
{
	const char *const texts[] = { k->desc.file, k->desc.symbol, k->desc.signature };
	struct apart_call *call = channel_begin(c, APART_KERNEL_LOAD);
	int err = channel_texts(c, texts, 3);

	if (err)
		return err;
	call->kernel = k->id;
	call->flags = k->desc.flags;
	err = channel_send(c, k->desc.fd, &call->fd);
	return err ? err : channel_call(c);
}

void apart_kernel_unload(struct channel *c, const struct apart_kernel *k)
{
	channel_begin(c, APART_KERNEL_UNLOAD)->kernel = k->id;
	channel_call(c);
}

static int put_launch(struct channel *c, enum apart_op op, const struct arax_backend_run *run)
{
	const struct arax_launch *l = run->launch;
	struct apart_call *call;

	if (l->nr_ranges > APART_RANGES || l->arg_len > APART_ARGS)
		return -EINVAL;
	call = channel_begin(c, op);
	call->lane = run->lane;
	call->flags = run->flags;
	call->kernel = ((const struct apart_kernel *)run->kernel)->id;
	call->ns = run->deadline_ns;
	call->after = run->size >= offsetof(struct arax_backend_run, after) + sizeof(run->after) ?
		      run->after : 0;
	memcpy(call->grid, l->grid, sizeof(l->grid));
	memcpy(call->block, l->block, sizeof(l->block));
	call->nr_ranges = l->nr_ranges;
	call->arg_len = l->arg_len;
	for (uint32_t i = 0; i < l->nr_ranges; i++)
		call->ranges[i] = l->ranges[i];
	if (l->arg_len)
		memcpy(call->args, l->args, l->arg_len);
	return 0;
}

int apart_run(struct apart_device *d, struct channel *c, struct arax_backend_run *run)
{
	int err = put_launch(c, APART_RUN, run);
	bool one, fell, alone = false, declined = false;
	struct apart_began began;

	if (!err) {
		one = apart_launch_one(d);
		apart_launch_begin(d, &began);
		err = channel_call(c);
		fell = apart_launch_end(d, &began);
		if (one)
			pthread_mutex_unlock(&d->one);
		alone = err == -ENODEV && (c->ended ? fell && channel_was_taken(c) :
						      !!c->slot->call.alone);
		declined = err && !c->ended && c->slot->call.declined;
	}
	if (run->size >= offsetof(struct arax_backend_run, device_ns) + sizeof(run->device_ns))
		run->device_ns = err ? 0 : c->slot->call.device_ns;
	if (run->size >= offsetof(struct arax_backend_run, alone) + sizeof(run->alone))
		run->alone = alone;
	if (run->size >= offsetof(struct arax_backend_run, declined) + sizeof(run->declined))
		run->declined = declined;
	return err;
}

int apart_submit(struct channel *c, const struct arax_backend_run *run, uint64_t cookie)
{
	int err = put_launch(c, APART_SUBMIT, run);

	c->slot->call.cookie = cookie;
	return err ? err : channel_call(c);
}

int apart_alloc(struct channel *c, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct apart_call *call = channel_begin(c, APART_ALLOC);
	int err;

	call->bytes = bytes;
	call->address = wanted;
	err = channel_call(c);
	if (!err)
		*address = call->address;
	return err;
}

void apart_free(struct channel *c, uint64_t address)
{
	channel_begin(c, APART_FREE)->address = address;
	channel_call(c);
}

int apart_quiesce(struct channel *c, uint64_t deadline_ns)
{
	int err;

	channel_begin(c, APART_QUIESCE)->ns = deadline_ns;
	err = channel_call(c);
	/* In a process that is gone nothing runs. */
	return err == -ENODEV ? 0 : err;
}

int apart_gauges(struct channel *c, struct arax_backend_gauges *g, char *why, uint32_t len)
{
	struct apart_call *call = channel_begin(c, APART_GAUGES);
	uint32_t size = g->size;
	int err;

	c->slot->stage[0] = '\0';
	err = channel_call(c);
	if (err == -ENODEV) {
		snprintf(why, len, "the device is lost");
		return -EOPNOTSUPP;
	}
	*g = call->gauges;
	g->size = size;
	snprintf(why, len, "%.*s", (int)APART_STAGE, (const char *)c->slot->stage);
	return err;
}
