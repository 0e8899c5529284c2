// SPDX-License-Identifier: MIT
/* Kernels of a program's own, from its call to load them until their context is gone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/own.h"
#include "daemon/dispatch/run.h"
#include "daemon/kernels/module.h"
#include "daemon/log.h"

#define TEXT_MAX	4096u
#define TRY_NS		10000000000u	/* for what the image runs while it is loaded */

enum { IMAGE, TABLE, TEXT, NR_RANGES };

/**
 * struct own_load - a load at work
 * @enter, @leave: what the lane has for launches
 * @charged:	bytes
 * @why:	for the program, if it fails
 */
struct own_load {
	struct module *module;
	int (*enter)(struct runner_task *task);
	int (*leave)(struct runner_task *task, int result);
	uint64_t charged;
	char why[TEXT_MAX];
};

static struct run *run_of(struct runner_task *rt)
{
	return (struct run *)((char *)rt - offsetof(struct run, rt));
}

/* ------------------------------------------------------------------ */
/* Launches                                                            */

const struct kernel *own_kernel(const struct link *l, const struct graph_node *node)
{
	const struct module *m = modules_find(&l->modules, node->d.context, node->d.kernel);

	return m ? module_kernel(m, node->d.kernel) : NULL;
}

bool own_suits(const struct poller_device *pd)
{
	return pd->dev->info.kind == ARAX_DEVICE_CPU && runner_can_foreign(pd->runner);
}

/**
 * struct funeral - a module that nobody knows any more
 *
 * Its pages, and workers' books, take long enough for others to notice: on a thread for that.
 */
struct funeral {
	struct host_job job;
	struct link *link;
	struct module *module;
};

static void bury(struct link *l, struct module *m)
{
	uint64_t bytes = module_cost(m->bytes, m->nr_kernels);
	struct poller *p = l->poller;
	uint32_t context = m->context;

	for (uint32_t i = 0; i < p->nr_devs; i++)
		for (uint32_t k = 0; p->devs[i].runner && k < m->nr_kernels; k++)
			runner_drop_kernel(p->devs[i].runner, m->kernels[k].serial);
	module_destroy(m);
	/* Of a context that is gone the core has taken all back. */
	l->ops->charge(l, ARAX_RES_MEMORY, context, -(int64_t)bytes);
}

static void do_bury(struct host_job *job)
{
	struct funeral *f = (struct funeral *)((char *)job - offsetof(struct funeral, job));

	bury(f->link, f->module);
	free(f);
}

/* The last one that knows it. */
static void put(struct link *l, struct module *m)
{
	struct funeral *f;

	if (--m->refs)
		return;
	f = malloc(sizeof(*f));
	if (!f) {
		bury(l, m);
		return;
	}
	*f = (struct funeral){ .job.run = do_bury, .link = l, .module = m };
	host_thread_push(l->poller->undertaker, &f->job);
}

int own_hold(struct run *run)
{
	const struct graph_node *node = run->node;
	struct module *m = modules_find(&run->link->modules, node->d.context, node->d.kernel);
	const struct arax_signature *sig;

	/* Unloaded since. */
	if (!m)
		return -ENOEXEC;
	sig = &module_kernel(m, node->d.kernel)->sig.abi;
	if (sig->nr_ranges != node->d.nr_ranges || sig->arg_len != node->d.arg_len ||
	    sig->access != node->d.access)
		return -EINVAL;
	m->refs++;
	run->module = m;
	return 0;
}

void own_release(struct run *run)
{
	put(run->link, run->module);
	run->module = NULL;
}

/* ------------------------------------------------------------------ */
/* Loading                                                             */

/* On the lane's thread: the program's memory is read here, once. */
static int make_module(struct run *run, struct own_load *load)
{
	const struct arax_launch_range *r = run->ranges;
	struct arax_module_load a;
	uint64_t bytes;
	int err;

	memcpy(&a, run->node->args, sizeof(a));
	if (r[TABLE].length / sizeof(struct arax_module_kernel) < a.nr_kernels) {
		snprintf(load->why, sizeof(load->why), "the table has fewer than %u kernels",
			 a.nr_kernels);
		return -EINVAL;
	}
	if (r[IMAGE].length > ARAX_MODULE_MAX_BYTES || a.nr_kernels > ARAX_MODULE_MAX_KERNELS) {
		snprintf(load->why, sizeof(load->why), "at most %u kernels and %u bytes can be",
			 ARAX_MODULE_MAX_KERNELS, ARAX_MODULE_MAX_BYTES);
		return -E2BIG;
	}
	bytes = module_cost(r[IMAGE].length, a.nr_kernels);
	err = run->link->ops->charge(run->link, ARAX_RES_MEMORY, run->node->d.context, (int64_t)bytes);
	if (err) {
		snprintf(load->why, sizeof(load->why), "%llu bytes for the image are more than the tenant's or the user's memory.max leaves",
			 (unsigned long long)bytes);
		return err;
	}
	load->charged = bytes;
	return module_create(&a, r[IMAGE].data, r[IMAGE].length, r[TABLE].data, &load->module,
			     load->why, sizeof(load->why));
}

/*
 * A link's place and a context: not the tenant, for where no limit is set several cgroups
 * may be one.  Never 0.
 */
static uint64_t owner_of(const struct run *run)
{
	uint64_t place = 0;

	while (run->poller->links[place] != run->link)
		place++;
	return (place + 1) << 32 | run->node->d.context;
}

static int enter(struct runner_task *rt)
{
	struct run *run = run_of(rt);
	struct own_load *load = run->load;
	const struct arax_dispatch *d = &run->node->d;
	int err = make_module(run, load);
	uint64_t deadline = monotonic_ns() + TRY_NS;

	for (uint32_t i = 0; !err && i < load->module->nr_kernels; i++)
		load->module->kernels[i].owner = owner_of(run);
	for (uint32_t i = 0; !err && i < load->module->nr_kernels; i++)
		err = runner_try(run->poller->devs[run->device].runner, &load->module->kernels[i],
				 d->uid, d->gid, deadline, load->why, sizeof(load->why));
	if (err && !load->why[0])
		snprintf(load->why, sizeof(load->why), "%s", err == -ETIMEDOUT ?
			 "loading it took longer than 10 s" : err == -EFAULT ?
			 "loading it crashed" : strerror(-err));
	return err;
}

/* Flat, and of the right access. */
static bool has_right_ranges(const struct graph_node *node)
{
	const uint64_t access = ARAX_IN | ARAX_INOUT << 2 | ARAX_OUT << 4;
	uint32_t i;

	if (node->d.nr_ranges != NR_RANGES || node->d.access != access ||
	    node->d.arg_len != sizeof(struct arax_module_load))
		return false;
	for (i = 0; i < NR_RANGES; i++)
		if (node->ranges[i].count != 1)
			return false;
	return true;
}

int own_begin(struct run *run)
{
	struct runner_task *rt = &run->rt;
	struct own_load *load;

	if (!has_right_ranges(run->node))
		return -EINVAL;
	load = calloc(1, sizeof(*load));
	if (!load)
		return -ENOMEM;
	rt->kernel = NULL;
	rt->deadline_ns = 0;
	rt->device_ns = 0;
	rt->wall_ns = 0;
	rt->start_ns = 0;
	rt->enter_ns = 0;
	load->enter = rt->enter;
	load->leave = rt->leave;
	run->load = load;
	rt->enter = enter;
	rt->leave = NULL;
	rt->flags = RUNNER_ENTER_ONLY;
	return 0;
}

static void tell_why(const struct run *run)
{
	const struct arax_launch_range *r = &run->ranges[TEXT];
	size_t n = strnlen(run->load->why, TEXT_MAX - 1);

	if (!r->length)
		return;
	if (n > r->length - 1)
		n = r->length - 1;
	memcpy(r->data, run->load->why, n);
	((char *)r->data)[n] = '\0';
}

static int publish(struct run *run)
{
	struct arax_module_kernel *table = run->ranges[TABLE].data;
	struct own_load *load = run->load;
	int err;

	/* Nobody would ever take it out again. */
	if (graph_node_gone(run->node))
		return -ECANCELED;
	err = modules_add(&run->link->modules, run->node->d.context, load->module);
	if (err) {
		snprintf(load->why, sizeof(load->why), "the context has %u modules: unload one",
			 ARAX_MAX_MODULES);
		return err;
	}
	for (uint32_t i = 0; i < load->module->nr_kernels; i++)
		module_describe(load->module, i, &table[i]);
	load->module = NULL;
	load->charged = 0;
	return 0;
}

int own_end(struct run *run, int result)
{
	struct own_load *load = run->load;
	struct link *l = run->link;

	run->rt.enter = load->enter;
	run->rt.leave = load->leave;
	run->rt.flags = 0;
	if (!result)
		result = publish(run);
	if (result)
		tell_why(run);
	if (load->module) {
		load->module->context = run->node->d.context;
		put(l, load->module);
	} else if (load->charged) {
		l->ops->charge(l, ARAX_RES_MEMORY, run->node->d.context, -(int64_t)load->charged);
	}
	free(load);
	run->load = NULL;
	return result;
}

/* ------------------------------------------------------------------ */
/* Unloading                                                           */

int own_unload(const struct graph_node *node)
{
	struct arax_module_unload a;
	struct link *l = node->priv;
	struct module *m;

	if (node->d.nr_ranges || node->d.arg_len != sizeof(a))
		return -EINVAL;
	memcpy(&a, node->args, sizeof(a));
	if (a.size != sizeof(a))
		return a.size > sizeof(a) ? -E2BIG : -EINVAL;
	m = modules_take(&l->modules, node->d.context, a.id);
	if (!m)
		return -ENOENT;
	put(l, m);
	return 0;
}

static void drop(struct link *l, struct module *m)
{
	modules_take(&l->modules, m->context, m->first_id);
	put(l, m);
}

void own_context_gone(struct link *l, uint32_t context)
{
	struct module *m;

	while ((m = modules_any(&l->modules, context)))
		drop(l, m);
}

void own_all_gone(struct link *l)
{
	struct module *m;

	while ((m = modules_first(&l->modules)))
		drop(l, m);
}
