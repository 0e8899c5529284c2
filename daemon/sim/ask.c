// SPDX-License-Identifier: MIT
/*
 * ask.c - what the scheduler asks about tasks and devices
 *
 * The daemon's answers to the same questions are in daemon/dispatch/remote.c.
 */
#include <string.h>

#include "daemon/sim/internal.h"

/* A policy asks about one device after the other: what is the same for all is kept. */
static void ask(struct sim *sim, const struct graph_node *node)
{
	const struct sim_task *t;
	const struct app *a = app_of(sim, node, &t);
	const struct sim_kernel *k = &sim->sc->kernels[t->kernel];

	sim->nr_asked++;
	sim->asked.seq = node->seq;
	sim->asked.pin = a->conf->pin;
	sim->asked.footprint = t->footprint;
	sim->asked.kinds = 0;
	for (uint32_t i = 0; i < sim->sc->nr_kinds; i++)
		sim->asked.kinds |= (uint32_t)(k->cost[i].demand > 0) << i;
}

bool sim_can_run(void *arg, const struct graph_node *node, uint32_t device)
{
	struct sim *sim = arg;
	const struct brief *b = &sim->briefs[device];

	if (sim->asked.seq != node->seq)
		ask(sim, node);
	return sim->asked.kinds & b->kinds && sim->asked.footprint <= b->memory &&
	       (sim->asked.pin == SIM_ANY || sim->asked.pin == device);
}

/* What the host hasn't: where it is, and to which kinds it comes without. */
static void add_away(struct sim *sim, uint64_t bytes, const uint64_t *bits)
{
	uint32_t kinds = 0;

	for (uint32_t w = 0; w * 64 <= sim->sc->nr_devices; w++) {
		for (uint64_t left = bits[w]; left; left &= left - 1) {
			uint32_t place = w * 64 + (uint32_t)__builtin_ctzll(left);
			const struct sim_device *d = sim->devices[place - 1].conf;

			sim->known_off[place] += bytes;
			kinds |= (uint32_t)d->peers << d->kind;
		}
	}
	for (; kinds; kinds &= kinds - 1)
		sim->known_direct[__builtin_ctz(kinds)] += bytes;
}

static void add_places(void *arg, uint64_t bytes, const uint64_t *bits)
{
	struct sim *sim = arg;

	for (uint32_t w = 0; w * 64 <= sim->sc->nr_devices; w++) {
		uint64_t left = bits[w];

		for (; left; left &= left - 1)
			sim->known_at[w * 64 + (uint32_t)__builtin_ctzll(left)] += bytes;
	}
	sim->known_bytes += bytes;
	if (!residency_has(bits, PLACE_HOST))
		add_away(sim, bytes, bits);
	for (uint32_t w = 0; w * 64 <= sim->sc->nr_devices; w++) {
		if (w ? bits[w] : bits[w] & ~(1ull << PLACE_HOST)) {
			sim->known_away += bytes;
			return;
		}
	}
}

/* What the program may have written since it was brought there is not there. */
static void distrust(struct sim *sim, const struct buffer *b, const struct sim_range *r,
		     uint64_t seq)
{
	for (const struct store *s = b->stores; s; s = s->next)
		if (!store_is_trusted(s, seq))
			sim->known_at[s->place] -=
				residency_valid(&b->valid, r->offset, r->length, s->place);
}

static void know_plain(struct sim *sim, const struct app *a, const struct sim_task *t, uint64_t seq)
{
	const struct sim_range *r = &a->conf->ranges[t->first_range];

	for (uint32_t i = 0; i < t->nr_ranges; i++) {
		if (r[i].access & ARAX_IN)
			distrust(sim, &a->buffers[r[i].buffer], &r[i], seq);
		if (r[i].access & ARAX_OUT) {
			sim->known_out += r[i].length;
			sim->known_outs++;
		}
	}
}

static void know(struct sim *sim, const struct graph_node *node)
{
	const struct sim_task *t;
	const struct app *a = app_of(sim, node, &t);
	const struct sim_range *r = &a->conf->ranges[t->first_range];

	memset(sim->known_at, 0, (sim->sc->nr_devices + 1) * sizeof(*sim->known_at));
	memset(sim->known_off, 0, (sim->sc->nr_devices + 1) * sizeof(*sim->known_off));
	sim->known_bytes = 0;
	sim->known_away = 0;
	sim->known_out = 0;
	sim->known_outs = 0;
	memset(sim->known_direct, 0, sim->sc->nr_kinds * sizeof(*sim->known_direct));
	for (uint32_t i = 0; i < t->nr_ranges; i++)
		if (r[i].access & ARAX_IN)
			residency_walk(&a->buffers[r[i].buffer].valid, r[i].offset, r[i].length,
				       add_places, sim);
	if (a->conf->plain)
		know_plain(sim, a, t, node->seq);
	sim->known_seq = node->seq;
	sim->known_version = sim->version;
}

/* For the results of plain buffers. */
static uint64_t back_ns(const struct sim *sim, uint32_t device)
{
	const struct wire *w = sim->devices[device].engines[TO_HOST].wire;

	return sim->known_outs * w->latency_ns + event_ns((double)sim->known_out * w->ns_per_byte);
}

static uint64_t transfer_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	struct sim *sim = arg;
	const struct brief *b = &sim->briefs[device];
	uint64_t missing, elsewhere, out = 0;

	if (sim->known_seq != node->seq || sim->known_version != sim->version)
		know(sim, node);
	missing = sim->known_bytes - sim->known_at[b->place];
	if (sim->known_outs && b->place != PLACE_HOST)
		out = back_ns(sim, device);
	if (!missing)
		return out;
	/* What neither it nor the host has must come there first, but from peers. */
	elsewhere = 0;
	if (b->place != PLACE_HOST)
		elsewhere = sim->known_bytes - sim->known_at[PLACE_HOST] -
			    (b->peers ? sim->known_direct[b->peers - 1] : sim->known_off[b->place]);
	/* And behind what is on its way already. */
	missing += elsewhere + b->wire->queued;
	return event_ns((double)missing * b->wire->ns_per_byte) +
	       (elsewhere ? 2 : 1) * b->wire->latency_ns + out;
}

/*
 * By its link, of which it has a part alone: if all of its devices fare like this one, that
 * is what they get.
 */
static void way(void *arg, const struct graph_node *node, uint32_t device, struct sched_way *w)
{
	struct sim *sim = arg;
	const struct brief *b = &sim->briefs[device];
	uint64_t bytes, hops = 1;
	double part;

	*w = (struct sched_way){ 0 };
	if (!b->wire)
		return;
	part = b->wire->ns_per_byte * b->wire->devices;
	if (sim->known_seq != node->seq || sim->known_version != sim->version)
		know(sim, node);
	if (b->place == PLACE_HOST) {
		bytes = sim->known_bytes - sim->known_at[PLACE_HOST];
	} else {
		bytes = sim->known_away - sim->known_at[b->place];
		if (sim->known_bytes > sim->known_at[PLACE_HOST] +
				       (b->peers ? sim->known_direct[b->peers - 1] :
						   sim->known_off[b->place]))
			hops = 2;
		w->all_ns = event_ns((double)sched_bytes(node) * part);
	}
	if (bytes)
		w->again_ns = hops * (b->wire->latency_ns + event_ns((double)bytes * part));
}

static uint64_t resident_bytes(void *arg, const struct graph_node *node, uint32_t device)
{
	struct sim *sim = arg;

	if (sim->known_seq != node->seq || sim->known_version != sim->version)
		know(sim, node);
	return sim->known_at[sim->briefs[device].place];
}

static double wire_ns(const struct wire *w, uint64_t bytes)
{
	return (double)w->latency_ns + (double)bytes * w->ns_per_byte;
}

/* To a place, each piece from one of those that hold it. */
struct reach {
	const struct sim *sim;
	uint32_t place;
	bool slowest;
	double ns;
};

/* By way of the host, from where nothing comes before it, or directly where that has it not. */
static double from_ns(const struct reach *r, uint64_t bytes, const uint64_t *bits)
{
	const struct device *to = r->place == PLACE_HOST ? NULL : &r->sim->devices[r->place - 1];
	double in = to ? wire_ns(to->engines[TO_DEVICE].wire, bytes) : 0;
	bool host = residency_has(bits, PLACE_HOST);
	double ns = host ? in : -1;

	for (uint32_t w = 0; w * 64 <= r->sim->sc->nr_devices; w++) {
		uint64_t left = w ? bits[w] : bits[w] & ~(1ull << PLACE_HOST);

		for (; left; left &= left - 1) {
			uint32_t place = w * 64 + (uint32_t)__builtin_ctzll(left);
			double from = wire_ns(r->sim->devices[place - 1].engines[TO_HOST].wire,
					      bytes);

			if (!host && to && are_peers(r->sim, to, place))
				from = from > in ? from : in;
			else
				from += in;
			if (ns < 0 || (r->slowest ? from > ns : from < ns))
				ns = from;
		}
	}
	/* Nobody has it: who reads it fails, wherever. */
	return ns < 0 ? in : ns;
}

static void reach_piece(void *arg, uint64_t bytes, const uint64_t *bits)
{
	struct reach *r = arg;

	if (residency_has(bits, r->place))
		return;
	r->ns += from_ns(r, bytes, bits);
}

static uint64_t reach_ns(struct sim *sim, const struct graph_node *node, uint32_t device,
			 bool slowest)
{
	struct reach reach = { .sim = sim, .place = sim->briefs[device].place, .slowest = slowest };
	const struct sim_task *t;
	const struct app *a = app_of(sim, node, &t);
	const struct sim_range *r = &a->conf->ranges[t->first_range];

	for (uint32_t i = 0; i < t->nr_ranges; i++)
		if (r[i].access & ARAX_IN)
			residency_walk(&a->buffers[r[i].buffer].valid, r[i].offset, r[i].length,
				       reach_piece, &reach);
	return event_ns(reach.ns);
}

static uint64_t transfer_min_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	return reach_ns(arg, node, device, false);
}

static uint64_t transfer_max_ns(void *arg, const struct graph_node *node, uint32_t device)
{
	return reach_ns(arg, node, device, true);
}

static uint64_t live(void *arg, const struct graph_node *node)
{
	return graph_live_beside(node);
}

static uint32_t part(void *arg, const struct graph_node *node, uint32_t device)
{
	struct sim *sim = arg;
	const struct sim_task *t;

	app_of(sim, node, &t);
	return (uint32_t)(sim->sc->kernels[t->kernel].cost[sim->devices[device].conf->kind].demand *
			  1024);
}

static void followers(void *arg, const struct graph_node *node,
		      void (*each)(void *to, const struct graph_node *node, uint32_t waits), void *to)
{
	graph_each_successor(node, each, to);
}

static bool look_back(void *arg, const struct graph_node *node, bool anew,
		      bool (*each)(void *to, struct graph_node *node), void *to)
{
	return graph_look_back(node, anew, each, to);
}

static bool link_of(void *arg, uint32_t device, struct sched_link *l)
{
	const struct sim *sim = arg;
	const struct device *d = &sim->devices[device];
	const struct wire *in = d->engines[TO_DEVICE].wire, *out = d->engines[TO_HOST].wire;

	if (d->place == PLACE_HOST)
		return false;
	*l = (struct sched_link){
		.in_latency_ns = (double)in->latency_ns, .in_byte_ns = in->ns_per_byte,
		.out_latency_ns = (double)out->latency_ns, .out_byte_ns = out->ns_per_byte,
		.peers = d->conf->peers ? d->conf->kind + 1u : 0,
	};
	return true;
}

static bool holds(void *arg, const struct graph_node *node, uint32_t i, uint32_t device)
{
	const struct sim *sim = arg;
	const struct sim_task *t;
	const struct app *a = app_of(arg, node, &t);
	const struct sim_range *r = &a->conf->ranges[t->first_range + i];
	uint32_t place = device == SCHED_NO_DEVICE ? PLACE_HOST : sim->devices[device].place;
	const struct store *s = a->conf->plain ? store_find(&a->buffers[r->buffer], place) : NULL;

	if (s && place != PLACE_HOST && !store_is_trusted(s, node->seq))
		return false;
	return residency_valid(&a->buffers[r->buffer].valid, r->offset, r->length, place) ==
	       r->length;
}

static bool tight(void *arg, uint32_t device)
{
	const struct sim *sim = arg;

	return device == SCHED_NO_DEVICE ? sim->foresees : device_is_full(&sim->devices[device]);
}

const struct sched_ops sim_answers = {
	.can_run = sim_can_run,
	.transfer_ns = transfer_ns,
	.resident_bytes = resident_bytes,
	.transfer_min_ns = transfer_min_ns,
	.transfer_max_ns = transfer_max_ns,
	.way = way,
	.live = live,
	.part = part,
	.followers = followers,
	.look_back = look_back,
	.link = link_of,
	.holds = holds,
	.tight = tight,
};
