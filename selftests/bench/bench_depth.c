// SPDX-License-Identifier: MIT
/* depth: 64 tasks outstanding. */
#include <string.h>

#include "bench.h"
#include "calls.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "rings.h"
#include "server.h"
#include "session.h"
#include "tenant.h"

#define BAR_NS	150

/*
 * Broker link: held against a figure; the floor are bare rings.  Kernel link:
 * held against the broker link in the same run.
 */
json_t *bench_depth(const struct options *o)
{
	int kernel = !strcmp(o->link, "kernel");
	json_t *result = result_new("depth", o->link);
	struct measure ring = { .name = "bare rings, 64 outstanding", .round = rings_round,
				.scale = GRAIN };
	struct measure task = { .name = "64 outstanding", .round = session_depth_round,
				.scale = GRAIN };
	struct measure other = { .name = "broker link, 64 outstanding",
				 .round = session_depth_round, .scale = GRAIN };
	struct measure nops = { .name = "io_uring NOP, batch of 32", .round = uring_round,
				.scale = 32 };
	struct measure wide = { .name = "of four ranges and 32 bytes", .round = session_wide_round,
				.scale = GRAIN };
	struct measure *all[5] = { &task, &ring, &wide };
	struct part p = { .name = task.name, .unit = "ns" };
	struct part more = { .name = wide.name, .unit = "ns" };
	struct server server, broker;
	struct session s, bs;
	const char *why = NULL;
	size_t n = 3;

	tenant_enter();
	server_start(&server, o->link);
	tenant_limit(server.link);
	ring.arg = rings_start(place_cpu[1]);
	session_open(&s, server.link);
	task.arg = &s;
	wide.arg = &s;
	place_self(place_cpu[0]);
	server_place(&server, place_cpu[1]);
	if (kernel) {
		server_start(&broker, "broker");
		tenant_limit(broker.link);
		session_open(&bs, broker.link);
		server_place(&broker, place_cpu[1]);
		other.arg = &bs;
		all[n++] = &other;
	}
	nops.arg = uring_open(32, &why);
	if (nops.arg)
		all[n++] = &nops;
	else
		result_note(result, "note_io_uring", why);

	interleave(all, n, (size_t)o->rounds, o->seconds);
	p.of = kernel ? BAR_RATIO : BAR_VALUE;
	p.bar = kernel ? 1 : BAR_NS;
	part_measured(&p, &task, kernel ? &other : &ring);
	result_part(result, &p);
	part_measured(&more, &wide, &ring);
	result_part(result, &more);
	result_peer(result, ring.name, measure_p50(&ring));
	if (kernel)
		result_peer(result, other.name, measure_p50(&other));
	if (nops.arg)
		result_peer(result, nops.name, measure_p50(&nops));

	if (kernel) {
		session_close(&bs);
		server_stop(&broker);
	}
	session_close(&s);
	server_stop(&server);
	rings_stop(ring.arg);
	uring_close(nops.arg);
	result_int(result, "batch", s.batch);
	tenant_report(result);
	result_note(result, "note_value", "ns a task; a sample is 1,024 tasks");
	result_note(result, "note_placement",
		    "client on pinned_cpus[0], araxd and the rings' other side on [1]");
	return result;
}
