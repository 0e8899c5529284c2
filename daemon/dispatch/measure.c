// SPDX-License-Identifier: MIT
#include "daemon/dispatch/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/dispatch/poller.h"
#include "daemon/log.h"
#include "daemon/memory/memory.h"
#include "daemon/sched/link_model.h"

#define PROBE_BYTES	(16u << 20)
#define PROBE_NS	20000000u	/* for each direction */
#define PAGE_BYTES	4096u

/* Between devices, of which there may be very many pairs. */
#define DIRECT_BYTES	(1u << 20)
#define DIRECT_NS	1000000u	/* for each pair */
#define DIRECT_ALL_NS	100000000u	/* no pair is begun after this, */
#define DIRECT_FIRST	12u		/* but of these: busy CPUs leave few devices time enough */

/**
 * struct probe - a link
 * @dev:	copies, to or from @address in its memory
 * @host:	where to or from, or
 * @from:	another device, @there in its memory
 */
struct probe {
	struct device *dev, *from;
	uint64_t address, there;
	void *host;
	bool out;
};

static int probe_copy(void *arg, uint64_t bytes)
{
	struct probe *pr = arg;

	if (pr->from)
		return device_copy_peer(pr->dev, pr->address, pr->from, pr->there, bytes);
	return pr->out ? device_copy_out(pr->dev, 0, pr->host, pr->address, bytes) :
			 device_copy_in(pr->dev, 0, pr->address, pr->host, bytes);
}

static uint64_t probe_now(void *arg)
{
	return monotonic_ns();
}

/*
 * As a program's buffer is by the time that it matters: its pages are there, and the driver knows
 * them, if it takes any.
 */
static void *host_memory(struct device *dev, uint64_t bytes, bool *registered)
{
	void *host = aligned_alloc(PAGE_BYTES, (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);

	if (host) {
		memset(host, 1, bytes);
		*registered = !device_host_register(dev, host, bytes);
	}
	return host;
}

static void measure_host(struct poller *p, struct device *dev)
{
	bool registered = false;
	uint64_t bytes = dev->info.memory / 8 < PROBE_BYTES ? dev->info.memory / 8 : PROBE_BYTES;
	struct probe pr = { .dev = dev };
	struct link_probe lp = {
		.copy = probe_copy, .now_ns = probe_now, .arg = &pr, .most = bytes,
		.budget_ns = PROBE_NS,
	};
	struct link_model in, out;
	int err;

	err = device_alloc(dev, bytes, 0, &pr.address);
	if (err)
		goto tell;
	pr.host = host_memory(dev, bytes, &registered);
	err = pr.host ? link_measure(&in, &lp) : -ENOMEM;
	pr.out = true;
	if (!err)
		err = link_measure(&out, &lp);
	if (!err) {
		memory_set_rates(p->memory, dev->index, in.latency_ns, in.ns_per_byte,
				 out.latency_ns, out.ns_per_byte);
		log_info("link measured", log_str("device", dev->info.name),
			 log_u64("in_latency_ns", (uint64_t)in.latency_ns),
			 log_u64("in_ns_per_mib", (uint64_t)(in.ns_per_byte * (1 << 20))),
			 log_u64("out_latency_ns", (uint64_t)out.latency_ns),
			 log_u64("out_ns_per_mib", (uint64_t)(out.ns_per_byte * (1 << 20))));
	}
	if (registered)
		device_host_unregister(dev, pr.host);
	free(pr.host);
	device_free(dev, pr.address);
tell:
	if (err)
		log_warn("link can't be measured", log_str("device", dev->info.name),
			 log_errno(err));
}

static void measure_direct(struct poller *p, struct device *to, uint64_t address,
			   struct device *from, uint64_t there)
{
	struct probe pr = { .dev = to, .from = from, .address = address, .there = there };
	struct link_probe lp = {
		.copy = probe_copy, .now_ns = probe_now, .arg = &pr, .most = DIRECT_BYTES,
		.budget_ns = DIRECT_NS,
	};
	struct link_model m;
	int err = link_measure(&m, &lp);

	if (err) {
		/* Two that never can are no news. */
		if (err != -EOPNOTSUPP)
			log_warn("link can't be measured", log_str("device", to->info.name),
				 log_str("from", from->info.name), log_errno(err));
		return;
	}
	memory_set_rate(p->memory, to->index, from->index, m.latency_ns, m.ns_per_byte);
	log_info("link measured", log_str("device", to->info.name),
		 log_str("from", from->info.name), log_u64("latency_ns", (uint64_t)m.latency_ns),
		 log_u64("ns_per_mib", (uint64_t)(m.ns_per_byte * (1 << 20))));
}

/* Whether others copy from its memory, and it is there before the first task. */
static bool is_peer(const struct device *dev)
{
	return device_peers(dev) && !device_is_configured(dev) &&
	       dev->info.memory / 8 >= DIRECT_BYTES;
}

/* Devices have their memory for it from the first pair on to the last one. */
static void measure_peers(struct poller *p, struct devices *devices)
{
	uint32_t nr = devices_count(devices), n = 0, pairs = 0, i, k;
	uint64_t *at = calloc(nr, sizeof(*at)), until;
	bool *has = calloc(nr, sizeof(*has));

	for (i = 0; at && has && i < nr; i++) {
		struct device *dev = devices_at(devices, i);

		has[i] = is_peer(dev) && !device_alloc(dev, DIRECT_BYTES, 0, &at[i]);
		n += has[i];
	}
	until = monotonic_ns() + DIRECT_ALL_NS;
	for (i = 0; n > 1 && i < nr; i++)
		for (k = 0; has[i] && k < nr; k++) {
			struct device *to = devices_at(devices, i);
			struct device *from = devices_at(devices, k);

			if (k != i && has[k] && device_peers(to) == device_peers(from) &&
			    (pairs++ < DIRECT_FIRST || monotonic_ns() < until))
				measure_direct(p, to, at[i], from, at[k]);
		}
	for (i = 0; n && i < nr; i++)
		if (has[i])
			device_free(devices_at(devices, i), at[i]);
	free(has);
	free(at);
}

void measure_links(struct poller *p, struct devices *devices)
{
	uint32_t nr = devices_count(devices), i;

	if (!p->memory)
		return;
	for (i = 0; i < nr; i++) {
		struct device *dev = devices_at(devices, i);

		/* One that is to be configured has no memory before that. */
		if (dev->info.memory && !device_is_configured(dev))
			measure_host(p, dev);
	}
	measure_peers(p, devices);
}
