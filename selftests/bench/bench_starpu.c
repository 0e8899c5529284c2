// SPDX-License-Identifier: MIT
/* starpu: throughput of empty tasks beside StarPU's. */
#include <string.h>

#include "bench.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "starpu_peer.h"
#include "tenant.h"

#define BAR	8

static double rate(double ns)
{
	return ns ? 1e9 / ns : 0;
}

/*
 * Who needs how many workers is StarPU's own affair: with one beside the
 * submitting thread and with its default, and the better of both is the floor.
 */
static void one_part(json_t *result, const char *name, int handles, struct session *s,
		     const struct server *server, const struct options *o)
{
	struct measure task = { .name = name, .arg = s, .scale = GRAIN };
	struct measure one = { .name = handles ? "1 worker, two handles" : "1 worker, no handles",
			       .round = starpu_peer_round, .scale = GRAIN };
	struct measure many = { .name = handles ? "default workers, two handles"
						: "default workers, no handles",
				.round = starpu_peer_round, .scale = GRAIN };
	struct measure *all[3] = { &task, &one, &many }, *best;
	struct part p = { .name = name, .unit = "tasks/s", .of = BAR_RATIO, .at_least = 1,
			  .bar = BAR, .rounds = json_array() };
	const char *why = NULL;
	size_t n = 1, i;

	task.round = handles ? session_depth_round : session_empty_round;
	/* StarPU pins its own threads: it needs every CPU to choose from. */
	place_self(-1);
	one.arg = starpu_peer_start(1, handles, server->dir[0] ? server->dir : "/tmp", &why);
	if (one.arg) {
		many.arg = starpu_peer_start(0, handles, server->dir[0] ? server->dir : "/tmp",
					     &why);
		n = 3;
	}
	place_self(place_cpu[0]);
	interleave(all, n, (size_t)o->rounds, o->seconds / 2);
	p.value = rate(measure_p50(&task));
	p.p99 = rate(measure_p99(&task));
	if (one.arg) {
		best = measure_p50(&one) < measure_p50(&many) ? &one : &many;
		p.floor = rate(measure_p50(best));
		result_peer(result, one.name, rate(measure_p50(&one)));
		result_peer(result, many.name, rate(measure_p50(&many)));
		starpu_peer_stop(one.arg);
		starpu_peer_stop(many.arg);
	} else {
		/* Nothing to hold it against is neither met nor missed. */
		p.of = BAR_NONE;
		result_note(result, "skipped", why);
	}
	if (!strcmp(o->link, "kernel"))
		p.of = BAR_NONE;	/* measured in an emulated guest: see docs/benchmarks.md */
	for (i = 0; i < task.rounds; i++)
		json_array_append_new(p.rounds, json_real(rate(task.p50[i])));
	result_part(result, &p);
}

json_t *bench_starpu(const struct options *o)
{
	json_t *result = result_new("starpu", o->link);
	struct server server;
	struct session s;

	tenant_enter();
	server_start(&server, o->link);
	tenant_limit(server.link);
	session_open(&s, server.link);
	server_place(&server, place_cpu[1]);
	one_part(result, "two handles", 2, &s, &server, o);
	one_part(result, "no handles", 0, &s, &server, o);
	session_close(&s);
	server_stop(&server);
	tenant_report(result);
	result_note(result, "note_value",
		    "Arax: 64 outstanding; StarPU: 1,024 submitted at once, in its own process, "
		    "paused between rounds; the floor is the better of its two configurations");
	result_note(result, "note_placement",
		    "client on pinned_cpus[0], araxd on [1]; StarPU places its own threads");
	return result;
}
