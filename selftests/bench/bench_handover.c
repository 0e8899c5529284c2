// SPDX-License-Identifier: MIT
/* handover: a buffer to a task and back, by its size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "clock.h"
#include "place.h"
#include "result.h"
#include "server.h"
#include "session.h"

#define SIZES	4
#define BAR	1.1	/* of the smallest: what two equal runs differ by */

static const size_t sizes[SIZES] = { 4096, 65536, 1u << 20, 16u << 20 };
static const char *const names[SIZES] = { "4 KiB", "64 KiB", "1 MiB", "16 MiB" };

struct handover {
	struct session *s;
	struct arax_kernel *bump;
	struct arax_buffer *buffer;
	uint64_t turns;
};

/* The task adds to the first and last word; they must be what they should be. */
static void hand_over(struct handover *h)
{
	uint64_t *words = arax_buffer_data(h->buffer);
	uint64_t last = arax_buffer_bytes(h->buffer) / 8 - 1, args[2] = { 0, 0 };
	struct arax_event event = ARAX_EVENT_INIT;
	struct arax_range ranges[2] = { arax_in(h->s->buffers[0]), arax_inout(h->buffer) };
	int err;

	words[0]++;
	words[last]++;
	err = arax_launch(h->s->queue, h->bump, arax_grid(1, 1, 1), args, sizeof(args), ranges, 2,
			  &event);
	if (!err)
		err = arax_wait(&event, ARAX_DEADLINE_NONE);
	if (err)
		bench_fail("a task: %s", arax_strerror(err));
	h->turns++;
	if (words[0] != 2 * h->turns || words[last] != 2 * h->turns)
		bench_fail("the task did not work on the client's pages");
}

static void round_of(void *arg, double seconds, struct samples *s)
{
	struct handover *h = arg;
	uint64_t t0, t1, end;

	hand_over(h);
	t1 = ticks();
	end = t1 + ns_to_ticks(seconds * 1e9);
	while (t1 < end && !samples_full(s)) {
		t0 = ticks();
		hand_over(h);
		t1 = ticks();
		samples_add(s, t1 - t0);
	}
}

struct copy {
	char *from, *to;
	size_t bytes;
};

/* What a server that copies has to do at the least: in, and out. */
static void copy_round(void *arg, double seconds, struct samples *s)
{
	struct copy *c = arg;
	uint64_t t0, t1 = ticks(), end = t1 + ns_to_ticks(seconds * 1e9);

	while (t1 < end && !samples_full(s)) {
		t0 = ticks();
		memcpy(c->to, c->from, c->bytes);
		__asm__ volatile("" : : "r"(c->to) : "memory");
		memcpy(c->from, c->to, c->bytes);
		__asm__ volatile("" : : "r"(c->from) : "memory");
		t1 = ticks();
		samples_add(s, t1 - t0);
	}
}

json_t *bench_handover(const struct options *o)
{
	json_t *result = result_new("handover", o->link);
	struct handover h[SIZES];
	struct measure task[SIZES], copy = { .name = "two copies of 16 MiB", .round = copy_round };
	struct copy c = { .bytes = sizes[SIZES - 1] };
	struct measure *all[SIZES + 1];
	struct arax_kernel bump;
	struct server server;
	struct session s;
	int i;

	server_start(&server, o->link);
	session_open(&s, server.link);
	session_find(&s, "bench_bump", &bump);
	place_self(place_cpu[0]);
	server_place(&server, place_cpu[1]);
	memset(task, 0, sizeof(task));
	for (i = 0; i < SIZES; i++) {
		h[i] = (struct handover){ .s = &s, .bump = &bump };
		if (arax_buffer_create(s.ax, sizes[i], 0, &h[i].buffer) < 0)
			bench_fail("a buffer of %s: %s", names[i], arax_error_text());
		memset(arax_buffer_data(h[i].buffer), 0, sizes[i]);
		task[i].name = names[i];
		task[i].round = round_of;
		task[i].arg = &h[i];
		all[i] = &task[i];
	}
	c.from = calloc(1, c.bytes);
	c.to = calloc(1, c.bytes);
	if (!c.from || !c.to)
		bench_fail("no memory");
	copy.arg = &c;
	all[SIZES] = &copy;
	interleave(all, SIZES + 1, (size_t)o->rounds, o->seconds);
	for (i = SIZES; i--;) {
		struct part p = { .name = names[i], .unit = "ns", .of = i ? BAR_RATIO : BAR_NONE,
				  .bar = i ? BAR : 0 };

		part_measured(&p, &task[i], &task[0]);
		result_part(result, &p);
	}
	result_peer(result, copy.name, measure_p50(&copy));
	result_int(result, "turns_checked",
		   (long)(h[0].turns + h[1].turns + h[2].turns + h[3].turns));
	session_close(&s);
	server_stop(&server);
	free(c.from);
	free(c.to);
	result_note(result, "note_floor",
		    "the floor is the smallest buffer; each turn checks that the task wrote to the "
		    "first and last word in place");
	result_note(result, "note_placement", "client on pinned_cpus[0], araxd on [1]");
	return result;
}
