// SPDX-License-Identifier: MIT
/* Kernels of a program's own, from its call to load them until their context is gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch/own.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/kernels/module.h"
#include "daemon/log.h"
#include "daemon/reason.h"

#define TEXT_MAX	65536u
#define TRY_S		10u	/* for what the image runs while it is loaded */
#define BUILD_S		60u	/* for its compilation, too */

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

static bool runs(const struct poller_device *pd, uint32_t kind)
{
	return pd->dev->info.kind == kind && runner_can_foreign(pd->runner);
}

static bool anybody_runs(const struct poller *p, uint32_t kind)
{
	for (uint32_t i = 0; i < p->nr_devs; i++)
		if (runs(&p->devs[i], kind))
			return true;
	return false;
}

bool own_suits(const struct poller *p, const struct graph_node *node, uint32_t device)
{
	const struct poller_device *pd = &p->devs[device];
	const struct link *l = node->priv;
	struct arax_module_load a;
	const struct module *m;

	if (own_is_launch(node)) {
		m = modules_find(&l->modules, node->d.context, node->d.kernel);
		/* Unloaded since: it is refused when it begins. */
		if (!m)
			return runner_can_foreign(pd->runner);
		return runs(pd, m->kind) && remote_fits(p, node, device) &&
		       (!m->nr_built || module_built(m, device) >= 0);
	}
	if (node->d.arg_len != sizeof(a))
		return runner_can_foreign(pd->runner);
	memcpy(&a, node->args, sizeof(a));
	return runs(pd, a.kind) || (runner_can_foreign(pd->runner) && !anybody_runs(p, a.kind));
}

bool own_is_too_long(const struct poller *p, const struct graph_node *node)
{
	const struct link *l = node->priv;
	const struct module *m;
	bool is = false;

	if (!own_is_launch(node))
		return false;
	m = modules_find(&l->modules, node->d.context, node->d.kernel);
	for (uint32_t i = 0; m && i < p->nr_devs; i++) {
		if (!runs(&p->devs[i], m->kind))
			continue;
		/* Perhaps it was lost. */
		if (remote_fits(p, node, i))
			return false;
		is = true;
	}
	return is;
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
	/* It was chosen for having it, or needs none. */
	run->rt.image = module_built(m, run->device) + 1;
	return 0;
}

void own_release(struct run *run)
{
	put(run->link, run->module);
	run->module = NULL;
	run->rt.image = 0;
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
	return (run->link->place + 1ull) << 32 | run->node->d.context;
}

/* What is left till then, which comes later by what the load has stood aside. */
static uint64_t left_ns(const struct run *run, uint64_t deadline_ns)
{
	uint64_t now = monotonic_ns();

	if (run->rt.turn)
		deadline_ns += run->rt.turn->paused_ns;
	return deadline_ns > now ? deadline_ns - now : 1;
}

/* One of them, as a task for a runner: to load it, or to build its image. */
static struct runner_task trial(struct run *run, uint32_t kernel, int image, uint64_t deadline_ns)
{
	struct own_load *load = run->load;

	return (struct runner_task){
		.kernel = &load->module->kernels[kernel],
		.uid = run->node->d.uid, .gid = run->node->d.gid, .flags = RUNNER_TRY,
		.most_ns = left_ns(run, deadline_ns), .turn = run->rt.turn, .why = load->why,
		.why_len = sizeof(load->why), .image = image + 1,
	};
}

/* Whether the device loads them all. */
static int try_all(struct run *run, uint32_t device, int image, uint64_t deadline_ns)
{
	struct runner *r = run->poller->devs[device].runner;
	int err = 0;

	for (uint32_t i = 0; !err && i < run->load->module->nr_kernels; i++) {
		struct runner_task t = trial(run, i, image, deadline_ns);

		err = runner_try(r, &t);
		run->rt.unpaid_ns += t.unpaid_ns;
	}
	return err;
}

static int charge_built(struct run *run, uint64_t bytes)
{
	struct own_load *load = run->load;
	int err = run->link->ops->charge(run->link, ARAX_RES_MEMORY, run->node->d.context,
					 (int64_t)bytes);

	if (err) {
		snprintf(load->why, sizeof(load->why), "%llu bytes for what it was compiled to are more than the tenant's or the user's memory.max leaves",
			 (unsigned long long)bytes);
		return err;
	}
	load->charged += bytes;
	load->module->bytes += bytes;
	return 0;
}

static void charge_back(struct run *run, uint64_t bytes)
{
	run->link->ops->charge(run->link, ARAX_RES_MEMORY, run->node->d.context, -(int64_t)bytes);
	run->load->charged -= bytes;
	run->load->module->bytes -= bytes;
}

static int build_for(struct run *run, uint32_t device, uint64_t deadline_ns)
{
	struct runner_task t = trial(run, 0, -1, deadline_ns);
	uint64_t bytes;
	int built, err;

	err = runner_build(run->poller->devs[device].runner, &t, &built, &bytes);
	if (err)
		return err;
	err = charge_built(run, bytes);
	if (err) {
		close(built);
		return err;
	}
	err = try_all(run, device, built, deadline_ns);
	if (!err)
		return module_add_built(run->load->module, device, built);
	close(built);
	charge_back(run, bytes);
	return err;
}

/* What another device has may do here: they are often of one driver. */
static int share_built(struct run *run, uint32_t device, uint64_t deadline_ns)
{
	const struct poller_device *devs = run->poller->devs;
	struct module *m = run->load->module;

	for (uint32_t i = 0; i < m->nr_built; i++) {
		int built = m->built[i].fd;

		if (strcmp(devs[device].dev->backend, devs[m->built[i].device].dev->backend))
			continue;
		if (try_all(run, device, built, deadline_ns)) {
			/* Its worker knows them as what can't be loaded. */
			for (uint32_t j = 0; j < m->nr_kernels; j++)
				runner_drop_kernel(devs[device].runner, m->kernels[j].serial);
			continue;
		}
		built = fcntl(built, F_DUPFD_CLOEXEC, 0);
		return built < 0 ? -errno : module_add_built(m, device, built);
	}
	return -ENOEXEC;
}

static bool is_unwanted(const struct run *run)
{
	return run->rt.turn && runner_is_ended(run->rt.turn);
}

/* For this device, or it fails; and for what others there are of the kind. */
static int build(struct run *run)
{
	const struct poller *p = run->poller;
	uint64_t deadline = monotonic_ns() + BUILD_S * 1000000000ull;
	int err = build_for(run, run->device, deadline);

	for (uint32_t i = 0; !err && !is_unwanted(run) && i < p->nr_devs; i++)
		if (i != run->device && runs(&p->devs[i], run->load->module->kind) &&
		    share_built(run, i, deadline))
			build_for(run, i, deadline);
	if (!err && is_unwanted(run))
		err = -ECANCELED;
	if (!err)
		run->load->why[0] = '\0';
	return err;
}

static int load_it(struct run *run)
{
	struct own_load *load = run->load;
	uint64_t owner = owner_of(run);

	for (uint32_t i = 0; i < load->module->nr_kernels; i++)
		load->module->kernels[i].owner = owner;
	/* It is here to be refused, see own_suits(). */
	if (!runs(&run->poller->devs[run->device], load->module->kind)) {
		snprintf(load->why, sizeof(load->why), "there is no device of kind %u here on which a process could run a program's own code: it must work on host pages, and be a driver's that a process without rights can open",
			 load->module->kind);
		return -EOPNOTSUPP;
	}
	if (runner_builds(run->poller->devs[run->device].runner))
		return build(run);
	return try_all(run, run->device, -1, monotonic_ns() + TRY_S * 1000000000ull);
}

static int enter(struct runner_task *rt)
{
	struct run *run = run_of(rt);
	struct own_load *load = run->load;
	int err;

	/* Tasks before it shall not be told late of their end. */
	if (rt->flags & RUNNER_NO_WAIT)
		return -EAGAIN;
	err = make_module(run, load);
	if (!err)
		err = load_it(run);
	if (err && !load->why[0])
		snprintf(load->why, sizeof(load->why), "%s", reason_text[0] ? reason_text :
			 err == -ETIMEDOUT ? "loading it took too long" : err == -EFAULT ?
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
