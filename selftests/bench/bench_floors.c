// SPDX-License-Identifier: MIT
/* floors: what this machine takes without Arax. */
#include "bench.h"
#include "calls.h"
#include "echo.h"
#include "place.h"
#include "result.h"
#include "rings.h"
#include "session.h"

json_t *bench_floors(const struct options *o)
{
	json_t *result = result_new("floors", "none");
	const char *why = NULL;
	struct uring *one = uring_open(1, &why), *many = uring_open(32, &why);
	struct measure lines = { .name = "two cache lines, spinning", .round = echo_round };
	struct measure event = { .name = "eventfd, both sleep", .round = echo_round };
	struct measure futex = { .name = "futex, both sleep", .round = echo_round };
	struct measure sock = { .name = "Unix socket", .round = echo_round };
	struct measure ring = { .name = "bare rings, 64 outstanding", .round = rings_round,
				.scale = GRAIN };
	struct measure null = { .name = "null system call", .round = calls_null };
	struct measure nop = { .name = "io_uring NOP", .round = uring_round, .arg = one };
	struct measure nops = { .name = "io_uring NOP, batch of 32", .round = uring_round,
				.arg = many, .scale = 32 };
	struct measure *all[8] = { &lines, &ring, &event, &futex, &sock, &null };
	struct part p = { .name = lines.name, .unit = "ns" };
	size_t n = 6, i;

	place_self(place_cpu[0]);
	lines.arg = echo_start(ECHO_LINES, place_cpu[1]);
	event.arg = echo_start(ECHO_EVENTFD, place_cpu[1]);
	futex.arg = echo_start(ECHO_FUTEX, place_cpu[1]);
	sock.arg = echo_start(ECHO_SOCKET, place_cpu[1]);
	ring.arg = rings_start(place_cpu[1]);
	if (one && many) {
		all[n++] = &nop;
		all[n++] = &nops;
	} else {
		result_note(result, "note_io_uring", why);
	}
	interleave(all, n, (size_t)o->rounds, o->seconds);

	part_measured(&p, &lines, &lines);
	result_part(result, &p);
	for (i = 1; i < n; i++)
		result_peer(result, all[i]->name, measure_p50(all[i]));
	echo_stop(lines.arg);
	echo_stop(event.arg);
	echo_stop(futex.arg);
	echo_stop(sock.arg);
	rings_stop(ring.arg);
	uring_close(one);
	uring_close(many);
	return result;
}
