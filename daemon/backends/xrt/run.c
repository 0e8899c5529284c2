// SPDX-License-Identifier: MIT
/*
 * A launch, from its arguments to its end.
 *
 * Any free compute unit of the kernel takes it: that is XRT's to choose.  A lane has a
 * run handle for each kernel, and uses it again.
 */
#include <errno.h>
#include <string.h>

#include "daemon/backends/xrt/backend.h"

struct launch {
	struct xrt_device *dev;
	struct xrt_kernel *k;
	xrtRunHandle run;
	const struct arax_launch *l;
	xrtBufferHandle parts[PARAMS_MAX];	/* made for this launch; NULL: not ours */
	bool endless;
};

/* In the log once for each kernel: a client can repeat it as often as it likes. */
static void tell(struct launch *x, const char *what, const char *why)
{
	xrt_explain("%s: %s: %s %s", x->dev->name, x->k->name, what, why);
	if (!__atomic_exchange_n(&x->k->told, true, __ATOMIC_RELAXED))
		xrt_log(ARAX_LOG_WARNING, "%s: %s: %s: %s (said once)", x->dev->name, x->k->name, what,
			why);
}

static int refuse(struct launch *x, const char *what, const char *why)
{
	tell(x, what, why);
	return -EINVAL;
}

static int failed(struct launch *x, const char *what)
{
	int err = xrt_errno();

	tell(x, what, strerror(-err));
	return xrt_check(x->dev, err);
}

/* ------------------------------------------------------------------ */
/* Arguments                                                             */

static int set_range(struct launch *x, uint32_t i)
{
	const struct param *p = &x->k->params.ranges[i];
	const struct arax_launch_range *r = &x->l->ranges[i];
	uint64_t address = (uintptr_t)r->data, items = r->length / p->type->size;
	xrtBufferHandle bo;
	struct allocation a;
	int err;

	if (r->count != 1)
		return refuse(x, "range", "is strided: kernels on FPGAs take flat ones");
	if (address % p->type->size)
		return refuse(x, "range", "is not aligned to its type");
	err = xrt_find_memory(x->dev, address, r->length, &a);
	if (err) {
		tell(x, "range", "is not in this device's memory");
		return err;
	}
	bo = a.handle;
	errno = 0;
	/* An empty one is some address, and no item. */
	if (address != a.address && r->length) {
		bo = xrt.BOSubAlloc(a.handle, r->length, address - a.address);
		if (!bo)
			return failed(x, "part of a buffer");
		x->parts[i] = bo;
	}
	if (xrt.RunSetArg(x->run, 2 * (int)i, bo) || xrt.RunSetArg(x->run, 2 * (int)i + 1, items))
		return failed(x, "argument");
	return 0;
}

/* Smaller ones are extended as their type says, so that all of a register is set. */
static uint64_t widen(const struct param_type *type, const void *from)
{
	uint64_t v = 0;
	unsigned int spare = 64 - 8 * type->size;

	memcpy(&v, from, type->size);
	return type->name[0] == 'i' ? (uint64_t)((int64_t)(v << spare) >> spare) : v;
}

static int set_plain(struct launch *x, uint32_t i)
{
	const struct param *p = &x->k->params.plain[i];
	const char *from = (const char *)x->l->args + p->offset;
	int nr = (int)(2 * x->k->params.nr_ranges + i), err = 0;
	double d;
	float f;

	errno = 0;
	switch (x->k->pass[i]) {
	case XRT_PASS_FLOAT:
		memcpy(&f, from, sizeof(f));
		err = xrt.RunSetArg(x->run, nr, (double)f);
		break;
	case XRT_PASS_DOUBLE:
		memcpy(&d, from, sizeof(d));
		err = xrt.RunSetArg(x->run, nr, d);
		break;
	case XRT_PASS_32:
		err = xrt.RunSetArg(x->run, nr, (uint32_t)widen(p->type, from));
		break;
	case XRT_PASS_64:
		err = xrt.RunSetArg(x->run, nr, widen(p->type, from));
		break;
	}
	return err ? failed(x, "argument") : 0;
}

static int set_args(struct launch *x)
{
	const struct params *p = &x->k->params;
	int err = 0;

	if (x->l->nr_ranges != p->nr_ranges || x->l->arg_len != p->arg_len)
		return refuse(x, "arguments", "are not as the signature says");
	for (uint32_t i = 0; !err && i < p->nr_ranges; i++)
		err = set_range(x, i);
	for (uint32_t i = 0; !err && i < p->nr_plain; i++)
		err = set_plain(x, i);
	return err;
}

/* ------------------------------------------------------------------ */
/* To its end                                                            */

static const char *state_name(enum ert_cmd_state state)
{
	switch (state) {
	case ERT_CMD_STATE_ERROR:
		return "the device reports an error";
	case ERT_CMD_STATE_ABORT:
		return "it was aborted";
	case ERT_CMD_STATE_TIMEOUT:
		return "it timed out";
	case ERT_CMD_STATE_NORESPONSE:
		return "the device does not respond";
	case ERT_CMD_STATE_SKERROR:
	case ERT_CMD_STATE_SKCRASHED:
		return "the soft kernel failed";
	default:
		return "it ended in a state that is no end";
	}
}

static int start_and_wait(struct launch *x)
{
	enum ert_cmd_state state;

	errno = 0;
	if (xrt.RunStart(x->run))
		return failed(x, "launch");
	state = xrt.RunWait(x->run);
	if (state == ERT_CMD_STATE_COMPLETED)
		return 0;
	tell(x, "launch", state_name(state));
	/* The unit may be at work still, on memory that would be others' soon, and nothing ends it. */
	if (state == ERT_CMD_STATE_TIMEOUT || state == ERT_CMD_STATE_NORESPONSE) {
		x->endless = true;
		return xrt_check(x->dev, -ENODEV);
	}
	return -EIO;
}

int xrt_run(struct xrt_device *d, struct arax_backend_run *run)
{
	struct xrt_kernel *k = run->kernel;
	struct launch x = { .dev = d, .k = k, .l = run->launch };
	uint32_t lane = run->lane % d->nr_lanes;
	int err;

	if (__atomic_load_n(&d->lost, __ATOMIC_RELAXED))
		return -ENODEV;
	if (!k->handle) {
		tell(&x, "launch", "its xclbin is not on the device");
		return -ENOEXEC;
	}
	errno = 0;
	if (!k->runs[lane])
		k->runs[lane] = xrt.RunOpen(k->handle);
	x.run = k->runs[lane];
	if (!x.run)
		return failed(&x, "run");
	err = set_args(&x);
	if (!err)
		err = start_and_wait(&x);
	for (uint32_t i = 0; i < k->params.nr_ranges; i++)
		if (x.parts[i])
			xrt.BOFree(x.parts[i]);
	/* No other card is to be lost by it, but for one that may show that it was the card's fault. */
	if (x.endless && run->size >= offsetof(struct arax_backend_run, alone) + sizeof(run->alone))
		run->alone = 1;
	return err;
}
