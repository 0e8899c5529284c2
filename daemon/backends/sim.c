// SPDX-License-Identifier: MIT
/*
 * The sim backend: devices that take the time of others.
 *
 * A kernel's body runs for real, by its implementation for CPUs, on memory that only this
 * device has, so results are right.  Then the launch waits until it has taken as long as
 * it is said to; if the body took longer than that, it took longer.  So that is a machine
 * to try araxd's scheduling on, and not one to measure kernels with.
 *
 *   devices=N, lanes=N, memory=BYTES	of each
 *   base-us=X, ns-per-item=X	of a launch
 *   cost=NAME:BASE_US:NS_PER_ITEM	of the launches of one kernel
 *   links=N, gb-per-s=X, latency-us=X	device i copies by link i % N
 *   fail=P, seed=N		launches end with EIO with this probability
 *   lose=I:MS			device I is lost so long after it was opened
 *
 * A device's launches take turns in its time, as those on a full device would (line.h): lanes let
 * copies go on beside them, and are no free speed-up.  A link serves its copies one after
 * the other, each direction for itself; the latency is each one's own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "daemon/backends/builtin.h"
#include "daemon/backends/line.h"
#include "daemon/reason.h"
#include "uapi/arax.h"

#define MAX_DEVICES	256u
#define MAX_LANES	64u
#define MAX_COSTS	64u
#define MAX_LOST	MAX_DEVICES
#define NAME_LEN	64

/* A thread that is woken up may be so late. */
#define SIM_LATE_NS	1000000u

struct sim_cost {
	char name[NAME_LEN];
	double base_ns, item_ns;
};

/**
 * struct sim_line - something that serves one after the other
 * @free_at:	when what was asked for so far will be done
 */
struct sim_line {
	pthread_mutex_t lock;
	uint64_t free_at;
};

/**
 * struct sim_machine - what one section describes; its devices share it
 * @lost_ns:	of each device, from its opening on; 0: never
 */
struct sim_machine {
	uint32_t devices, lanes, nr_links, nr_costs;
	uint64_t memory;
	double base_ns, item_ns, ns_per_byte, fail;
	uint64_t latency_ns, seed;
	struct sim_cost costs[MAX_COSTS];
	uint64_t lost_ns[MAX_LOST];
	struct sim_line links[MAX_DEVICES][2];
	uint32_t users;			/* devices, and the section while it is read */
};

struct sim_device {
	struct sim_machine *machine;
	struct line compute;
	struct sim_line *links;		/* to it, from it */
	uint32_t index;
	uint64_t lost_at;		/* 0: never */
	uint64_t used;			/* bytes; atomic */
	uint64_t runs;			/* atomic: what chance goes by */
};

/* Of the section that is being read: one thread, before all else. */
static struct sim_machine *present;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	static __thread bool sharp;
	const struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u),
	};

	/* Else the kernel may add 50 us, which is a kernel's length here. */
	if (!sharp)
		prctl(PR_SET_TIMERSLACK, 1000);
	sharp = true;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* A turn of @ns: when it ends. */
static uint64_t line_take(struct sim_line *l, double ns)
{
	uint64_t now = now_ns(), end;

	pthread_mutex_lock(&l->lock);
	if (l->free_at < now)
		l->free_at = now;
	l->free_at += (uint64_t)ns;
	end = l->free_at;
	pthread_mutex_unlock(&l->lock);
	return end;
}

static void machine_put(struct sim_machine *m)
{
	if (m && !__atomic_sub_fetch(&m->users, 1, __ATOMIC_ACQ_REL))
		free(m);
}

/* ------------------------------------------------------------------ */
/* Configuration                                                       */

static int sim_load(void)
{
	struct sim_machine *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*m = (struct sim_machine){
		.devices = 1, .lanes = 2, .nr_links = 1, .memory = 1ull << 30, .users = 1,
		.base_ns = 5000, .item_ns = 1, .ns_per_byte = 1 / 12.0, .latency_ns = 10000,
		.seed = 1,
	};
	for (uint32_t i = 0; i < MAX_DEVICES; i++)
		for (uint32_t k = 0; k < 2; k++)
			pthread_mutex_init(&m->links[i][k].lock, NULL);
	machine_put(present);
	present = m;
	return 0;
}

static void sim_unload(void)
{
	machine_put(present);
	present = NULL;
}

/* All of @text, from @least to @most. */
static bool number(const char *text, double least, double most, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (end != text && !*end && *out >= least && *out <= most)
		return true;
	reason_set("want a number from %g to %g", least, most);
	return false;
}

static bool count(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	double v;

	/* strtod() takes more than digits. */
	if (text[strspn(text, "0123456789")] ||
	    !number(text, (double)least, (double)most, &v) || v != (double)(uint64_t)v) {
		reason_set("want a whole number from %llu to %llu, without a suffix",
			   (unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*out = (uint64_t)v;
	return true;
}

/* NAME:BASE_US:NS_PER_ITEM */
static bool take_cost(struct sim_machine *m, const char *value)
{
	struct sim_cost *c = &m->costs[m->nr_costs];
	const char *colon = strchr(value, ':'), *last = strrchr(value, ':');
	char base[32];

	if (m->nr_costs == MAX_COSTS || !colon || last == colon || colon == value ||
	    (size_t)(colon - value) >= sizeof(c->name) ||
	    (size_t)(last - colon) > sizeof(base)) {
		reason_set("want NAME:BASE_US:NS_PER_ITEM, %u of them at most", MAX_COSTS);
		return false;
	}
	memcpy(c->name, value, (size_t)(colon - value));
	c->name[colon - value] = '\0';
	memcpy(base, colon + 1, (size_t)(last - colon - 1));
	base[last - colon - 1] = '\0';
	if (!number(base, 0, 1e9, &c->base_ns) || !number(last + 1, 0, 1e9, &c->item_ns))
		return false;
	c->base_ns *= 1000;
	m->nr_costs++;
	return true;
}

/* INDEX:MS */
static bool take_loss(struct sim_machine *m, const char *value)
{
	const char *colon = strchr(value, ':');
	char index[16];
	uint64_t i;
	double ms;

	if (!colon || (size_t)(colon - value) >= sizeof(index)) {
		reason_set("want INDEX:MS");
		return false;
	}
	memcpy(index, value, (size_t)(colon - value));
	index[colon - value] = '\0';
	if (!count(index, 0, MAX_LOST - 1, &i) || !number(colon + 1, 0.001, 1e9, &ms))
		return false;
	m->lost_ns[i] = (uint64_t)(ms * 1e6);
	return true;
}

static int sim_config(const char *key, const char *value)
{
	struct sim_machine *m = present;
	uint64_t n = 0;
	double v = 0;
	bool ok;

	if (!strcmp(key, "devices")) {
		ok = count(value, 1, MAX_DEVICES, &n);
		m->devices = (uint32_t)n;
	} else if (!strcmp(key, "lanes")) {
		ok = count(value, 1, MAX_LANES, &n);
		m->lanes = (uint32_t)n;
	} else if (!strcmp(key, "links")) {
		ok = count(value, 1, MAX_DEVICES, &n);
		m->nr_links = (uint32_t)n;
	} else if (!strcmp(key, "memory")) {
		ok = count(value, 1 << 20, 1ull << 48, &m->memory);
	} else if (!strcmp(key, "seed")) {
		ok = count(value, 0, 1ull << 48, &m->seed);
	} else if (!strcmp(key, "base-us")) {
		ok = number(value, 0, 1e9, &v);
		m->base_ns = v * 1000;
	} else if (!strcmp(key, "ns-per-item")) {
		ok = number(value, 0, 1e9, &m->item_ns);
	} else if (!strcmp(key, "gb-per-s")) {
		ok = number(value, 1e-6, 1e6, &v);
		m->ns_per_byte = ok ? 1 / v : 0;
	} else if (!strcmp(key, "latency-us")) {
		ok = number(value, 0, 1e9, &v);
		m->latency_ns = ok ? (uint64_t)(v * 1000) : 0;
	} else if (!strcmp(key, "fail")) {
		ok = number(value, 0, 1, &m->fail);
	} else if (!strcmp(key, "cost")) {
		ok = take_cost(m, value);
	} else if (!strcmp(key, "lose")) {
		ok = take_loss(m, value);
	} else {
		return -ENOENT;
	}
	return ok ? 0 : -EINVAL;
}

/* How many devices there are may be said after which is lost. */
static int sim_config_complete(void)
{
	const struct sim_machine *m = present;

	for (uint32_t i = m->devices; i < MAX_LOST; i++) {
		if (!m->lost_ns[i])
			continue;
		reason_set("lose=%u:... is of no device: they are numbered from 0 to %u; lose one of these, or raise devices",
			   i, m->devices - 1);
		return -EINVAL;
	}
	return 0;
}

/* ------------------------------------------------------------------ */
/* Devices                                                             */

static int sim_probe(char *why, uint32_t len)
{
	return (int)present->devices;
}

static int sim_open(uint32_t index, void **dev)
{
	struct sim_machine *m = present;
	struct sim_device *d;

	if (index >= m->devices)
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	__atomic_add_fetch(&m->users, 1, __ATOMIC_RELAXED);
	d->machine = m;
	d->index = index;
	d->links = m->links[index % m->nr_links];
	d->lost_at = m->lost_ns[index] ? now_ns() + m->lost_ns[index] : 0;
	line_init(&d->compute);
	*dev = d;
	return 0;
}

static void sim_close(void *dev)
{
	struct sim_device *d = dev;

	line_destroy(&d->compute);
	machine_put(d->machine);
	free(d);
}

static int sim_info(void *dev, struct arax_backend_info *info)
{
	const struct sim_device *d = dev;

	info->kind = ARAX_DEVICE_SIM;
	info->lanes = d->machine->lanes;
	info->units = 1;
	info->turns = 1;
	info->memory = d->machine->memory;
	snprintf(info->name, sizeof(info->name), "sim%u", d->index);
	/* All of a section's. */
	snprintf(info->make, sizeof(info->make), "sim");
	return 0;
}

static bool is_lost(const struct sim_device *d)
{
	return d->lost_at && now_ns() >= d->lost_at;
}

/* What is under way when the device is lost is over then. */
static void sleep_on(const struct sim_device *d, uint64_t end)
{
	sleep_until(d->lost_at && d->lost_at < end ? d->lost_at : end);
}

/* ------------------------------------------------------------------ */
/* Kernels                                                             */

static int sim_kernel_load(void *dev, const struct arax_backend_kernel *desc, void **kernel)
{
	return cpu_backend.kernel_load(NULL, desc, kernel);
}

static void sim_kernel_unload(void *dev, void *kernel)
{
	cpu_backend.kernel_unload(NULL, kernel);
}

static double cost_of(const struct sim_machine *m, const struct arax_backend_run *run)
{
	const struct arax_launch *l = run->launch;
	double base = m->base_ns, item = m->item_ns, items = 1;

	for (uint32_t i = 0; i < m->nr_costs; i++) {
		if (strcmp(m->costs[i].name, run->name))
			continue;
		base = m->costs[i].base_ns;
		item = m->costs[i].item_ns;
	}
	for (int i = 0; i < 3; i++)
		items *= (double)l->grid[i] * l->block[i];
	/* An hour is as good as for ever. */
	base += item * items;
	return base < 3.6e12 ? base : 3.6e12;
}

/* The same ones for the same seed, as long as the same launches come. */
static bool fails(struct sim_device *d)
{
	uint64_t x = __atomic_add_fetch(&d->runs, 1, __ATOMIC_RELAXED);

	x = (x + (d->machine->seed << 20) + ((uint64_t)d->index << 52)) * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return (double)(x >> 11) * 0x1p-53 < d->machine->fail;
}

static int sim_run(void *dev, struct arax_backend_run *run)
{
	struct sim_device *d = dev;
	bool told = run->size >= offsetof(struct arax_backend_run, due_ns) + sizeof(run->due_ns);
	uint64_t start = line_enter(&d->compute, told ? run->program : 0,
				    told ? run->due_ns : 0, now_ns()), end;
	struct arax_backend_run body = *run;
	int err = 0;

	if (!is_lost(d)) {
		/* On this thread alone: there is no group of cores behind it. */
		body.flags |= ARAX_RUN_INLINE;
		err = cpu_backend.run(NULL, &body);
		end = start + (uint64_t)cost_of(d->machine, run);
		sleep_on(d, end);
		/* Who comes next begins then, though this thread woke up later; but for a long body. */
		line_leave(&d->compute, now_ns() - end < SIM_LATE_NS ? end : now_ns());
	} else {
		line_leave(&d->compute, start);
	}
	if (is_lost(d))
		return -ENODEV;
	if (!err && d->machine->fail > 0 && fails(d))
		err = -EIO;
	run->device_ns = now_ns() - start;
	return err;
}

/* ------------------------------------------------------------------ */
/* Memory                                                              */

/* In front of what was allocated. */
struct sim_block {
	uint64_t bytes;
	uint8_t pad[56];
};

static int sim_alloc(void *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	struct sim_device *d = dev;
	struct sim_block *b;
	uint64_t used;

	if (wanted)
		return -EOPNOTSUPP;
	used = __atomic_add_fetch(&d->used, bytes, __ATOMIC_RELAXED);
	if (used < bytes || used > d->machine->memory)
		goto full;
	b = mmap(NULL, bytes + sizeof(*b), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0);
	if (b == MAP_FAILED)
		goto full;
	b->bytes = bytes;
	*address = (uintptr_t)(b + 1);
	return 0;
full:
	__atomic_sub_fetch(&d->used, bytes, __ATOMIC_RELAXED);
	return -ENOMEM;
}

static void sim_free(void *dev, uint64_t address)
{
	struct sim_block *b = (struct sim_block *)(uintptr_t)address - 1;
	struct sim_device *d = dev;

	__atomic_sub_fetch(&d->used, b->bytes, __ATOMIC_RELAXED);
	munmap(b, b->bytes + sizeof(*b));
}

static int copy(struct sim_device *d, bool in, void *to, const void *from, uint64_t bytes)
{
	const struct sim_machine *m = d->machine;
	uint64_t end;

	if (is_lost(d))
		return -ENODEV;
	end = line_take(&d->links[!in], m->ns_per_byte * (double)bytes) + m->latency_ns;
	memcpy(to, from, bytes);
	sleep_on(d, end);
	return is_lost(d) ? -ENODEV : 0;
}

static int sim_copy_in(void *dev, uint32_t lane, uint64_t to, const void *from, uint64_t bytes)
{
	return copy(dev, true, (void *)(uintptr_t)to, from, bytes);
}

static int sim_copy_out(void *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	return copy(dev, false, to, (const void *)(uintptr_t)from, bytes);
}

const struct arax_backend sim_backend = {
	.struct_size = sizeof(sim_backend),
	.api_version = ARAX_BACKEND_API,
	.name = "sim",
	.longname = "simulated devices in real time",
	.version = ARAX_VERSION,
	.load = sim_load,
	.unload = sim_unload,
	.config = sim_config,
	.config_complete = sim_config_complete,
	.probe = sim_probe,
	.open = sim_open,
	.close = sim_close,
	.info = sim_info,
	.kernel_load = sim_kernel_load,
	.kernel_unload = sim_kernel_unload,
	.run = sim_run,
	.alloc = sim_alloc,
	.free = sim_free,
	.copy_in = sim_copy_in,
	.copy_out = sim_copy_out,
};
