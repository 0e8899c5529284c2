// SPDX-License-Identifier: MIT
/* Devices, buffers, questions. */
#include "daemon/memory/memory.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "daemon/memory/internal.h"

/* Until copies have shown better: a PCIe device's. */
#define LATENCY_NS	10000.0
#define NS_PER_BYTE	0.1

/* Of a new observation; a copy of less than SMALL bytes tells the latency. */
#define LEARN		0.125
#define SMALL		4096

uint64_t memory_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void rate_learn(struct rate *r, uint64_t bytes, uint64_t ns)
{
	double seen = (double)ns;

	r->known = true;
	if (bytes <= SMALL) {
		r->latency_ns += LEARN * (seen - r->latency_ns);
		return;
	}
	seen = seen > r->latency_ns ? seen - r->latency_ns : 0;
	r->ns_per_byte += LEARN * (seen / (double)bytes - r->ns_per_byte);
}

int memory_create(uint32_t nr_devices, struct memory **out)
{
	struct memory *m = calloc(1, sizeof(*m) + nr_devices * sizeof(m->devices[0]));
	pthread_condattr_t cond;

	if (!m)
		return -ENOMEM;
	brief_mutex_init(&m->charging);
	brief_mutex_init(&m->lock);
	pthread_condattr_init(&cond);
	pthread_condattr_setclock(&cond, CLOCK_MONOTONIC);
	pthread_cond_init(&m->settled, &cond);
	pthread_cond_init(&m->turned, &cond);
	pthread_condattr_destroy(&cond);
	m->nr_devices = nr_devices;
	if (getrandom(&m->random, sizeof(m->random), GRND_NONBLOCK) < 0)
		m->random = (uint64_t)(uintptr_t)m ^ memory_now_ns();
	m->weights = ~m->random;
	*out = m;
	return 0;
}

void memory_set_charge(struct memory *m, int (*charge)(void *arg, uint64_t id, int64_t bytes),
		       void *arg)
{
	m->charge = charge;
	m->charge_arg = arg;
}

void memory_set_limit(struct memory *m,
		      uint64_t (*limit)(void *arg, struct memory_owner owner, uint64_t *left))
{
	m->limit = limit;
}

bool memory_let_others(struct memory *m)
{
	uint32_t turns = __atomic_load_n(&m->turns, __ATOMIC_RELAXED);

	if (!__atomic_load_n(&m->waiting, __ATOMIC_RELAXED))
		return false;
	pthread_mutex_unlock(&m->lock);
	/* Soon: whoever waits is woken up by that. */
	while (__atomic_load_n(&m->turns, __ATOMIC_RELAXED) == turns)
		sched_yield();
	memory_lock(m);
	return true;
}

uint64_t memory_settles(const struct memory *m)
{
	return __atomic_load_n(&m->settles, __ATOMIC_ACQUIRE);
}

void memory_stop(struct memory *m)
{
	memory_lock(m);
	m->stopped = true;
	pthread_cond_broadcast(&m->settled);
	pthread_mutex_unlock(&m->lock);
}

void memory_cancel(struct memory *m, uint32_t device, struct memory_until *until)
{
	const struct memory_device *d = &m->devices[device];

	memory_lock(m);
	__atomic_store_n(&until->canceled, true, __ATOMIC_RELAXED);
	if (d->first || d->wanting || d->loading)
		pthread_cond_broadcast(&m->settled);
	pthread_cond_broadcast(&m->turned);
	pthread_mutex_unlock(&m->lock);
}

void memory_destroy(struct memory *m)
{
	uint32_t i;

	if (!m)
		return;
	for (i = 0; i < m->nr_devices; i++)
		if (m->devices[i].present)
			free(m->devices[i].direct);
	pthread_cond_destroy(&m->turned);
	pthread_cond_destroy(&m->settled);
	pthread_mutex_destroy(&m->charging);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static uint32_t nr_peers(const struct memory *m)
{
	return m->nr_devices < PEERS ? m->nr_devices : PEERS;
}

/* (locked) What is shared by two is hardly quicker than one's own. */
static void assume_direct(const struct memory *m, struct memory_device *d)
{
	uint32_t i;

	for (i = 0; i < nr_peers(m); i++) {
		if (d->direct[i].known)
			continue;
		d->direct[i] = d->in;
		d->direct[i].known = false;
	}
}

int memory_add_device(struct memory *m, uint32_t device, const struct memory_ops *ops, void *dev,
		      uint64_t bytes)
{
	struct memory_device *d;

	if (device >= m->nr_devices || !bytes || m->devices[device].present ||
	    !ops->alloc || !ops->free || !ops->copy_in || !ops->copy_out)
		return -EINVAL;
	d = &m->devices[device];
	d->direct = calloc(nr_peers(m), sizeof(*d->direct));
	if (!d->direct)
		return -ENOMEM;
	d->present = true;
	d->ops = *ops;
	d->dev = dev;
	d->stats.bytes = bytes;
	d->in = (struct rate){ .latency_ns = LATENCY_NS, .ns_per_byte = NS_PER_BYTE };
	d->out = d->in;
	assume_direct(m, d);
	return 0;
}

/* (locked) Of the link between the two; NULL: there is none. */
static struct rate *rate_of(struct memory *m, uint32_t to, uint32_t from)
{
	uint32_t device = to == MEMORY_HOST ? from : to;

	if (!memory_has_device(m, device))
		return NULL;
	if (to == MEMORY_HOST)
		return &m->devices[from].out;
	if (from == MEMORY_HOST)
		return &m->devices[to].in;
	return memory_has_device(m, from) && are_peers(m, to, from) ?
	       &m->devices[to].direct[from] : NULL;
}

bool memory_set_rate(struct memory *m, uint32_t to, uint32_t from, double latency_ns,
		     double ns_per_byte)
{
	struct rate *r;

	memory_lock(m);
	r = rate_of(m, to, from);
	if (r)
		*r = (struct rate){ latency_ns, ns_per_byte, true };
	if (r && from == MEMORY_HOST)
		assume_direct(m, &m->devices[to]);
	pthread_mutex_unlock(&m->lock);
	return r;
}

void memory_set_rates(struct memory *m, uint32_t device, double in_latency_ns,
		      double in_ns_per_byte, double out_latency_ns, double out_ns_per_byte)
{
	memory_set_rate(m, device, MEMORY_HOST, in_latency_ns, in_ns_per_byte);
	memory_set_rate(m, MEMORY_HOST, device, out_latency_ns, out_ns_per_byte);
}

bool memory_rate(struct memory *m, uint32_t to, uint32_t from, double *latency_ns,
		 double *ns_per_byte)
{
	const struct rate *r;
	bool known;

	memory_lock(m);
	r = rate_of(m, to, from);
	known = r && r->known;
	if (known) {
		*latency_ns = r->latency_ns;
		*ns_per_byte = r->ns_per_byte;
	}
	pthread_mutex_unlock(&m->lock);
	return known;
}

bool memory_has_device(const struct memory *m, uint32_t device)
{
	return m && device < m->nr_devices && m->devices[device].present;
}

struct memory_buffer *memory_buffer_create(struct memory *m, uint8_t *host, uint64_t bytes)
{
	struct memory_buffer *b = calloc(1, sizeof(*b) + m->nr_devices * sizeof(b->on[0]));

	if (!b)
		return NULL;
	b->on = (struct treap_root *)(b + 1);
	b->memory = m;
	b->host = host;
	b->bytes = bytes;
	b->upcoming.random = m->random;
	return b;
}

void memory_buffer_lazy(struct memory_buffer *b)
{
	b->lazy = true;
}

void memory_buffer_keep(struct memory *m, struct memory_buffer *b)
{
	memory_lock(m);
	b->kept++;
	pthread_mutex_unlock(&m->lock);
}

void memory_buffer_let_go(struct memory *m, struct memory_buffer *b)
{
	memory_lock(m);
	b->kept--;
	pthread_cond_broadcast(&m->settled);
	pthread_mutex_unlock(&m->lock);
}

bool memory_is_lazy(const struct memory_buffer *b)
{
	return b->lazy;
}

void memory_buffer_gone(struct memory *m, struct memory_buffer *b)
{
	const struct look all = look_bytes(b, 0, UINT64_MAX);
	struct memory_extent *e;
	struct memory_device *d;
	uint32_t i;

	memory_lock(m);
	foresee_gone(m, b);
	for (;;) {
		while (b->leaving || b->kept)
			pthread_cond_wait(&m->settled, &m->lock);
		e = look_first(&all);
		if (!e)
			break;
		d = &m->devices[e->device];
		if (e == b->lost)
			b->lost = NULL;
		extent_remove(m, e);
		foresee_room(m, d);
		d->freeing++;
		pthread_mutex_unlock(&m->lock);
		extent_free(m, e);
		memory_lock(m);
		if (--d->freeing)
			continue;
		memory_settled(m);
		pthread_cond_broadcast(&m->settled);
	}
	pthread_mutex_unlock(&m->lock);
	if (b->lost)
		extent_free(m, b->lost);
	for (i = 0; b->registered; i++, b->registered >>= 1)
		if (b->registered & 1)
			m->devices[i].ops.host_unregister(m->devices[i].dev, b->host);
	free(b);
}

/* (locked) Of as many rows as a task on the host may have: what lies between them, too. */
static void forget_hull(const struct memory_buffer *b, uint64_t start, uint64_t end)
{
	const struct look l = look_bytes(b, start, end);
	struct memory_extent *e;

	for (e = look_first(&l); e; e = look_next(&l, e)) {
		clear_clean(e, start, end);
		if (!e->pins)
			forget_pieces(e);
	}
}

static void host_ended(struct memory *m, struct memory_buffer *b, const struct memory_range *r,
		       bool failed)
{
	const struct look l = look_rows(b, r);

	memory_lock(m);
	/* Of what is dirty they have nothing, but where it could not be had. */
	if (memory_rows(r) > MEMORY_MAX_ROWS)
		forget_hull(b, r->offset, memory_range_end(r));
	else if (failed)
		look_clear_clean(&l, r);
	else
		look_clear_rows(&l, r, NULL, false);
	pthread_mutex_unlock(&m->lock);
}

void memory_host_wrote(struct memory *m, struct memory_buffer *b, uint64_t offset,
		       uint64_t length, uint32_t stride, uint32_t count)
{
	host_ended(m, b, &(struct memory_range){
		.offset = offset, .length = length, .stride = stride, .count = count,
	}, false);
}

void memory_host_failed(struct memory *m, struct memory_buffer *b, uint64_t offset,
			uint64_t length, uint32_t stride, uint32_t count)
{
	host_ended(m, b, &(struct memory_range){
		.offset = offset, .length = length, .stride = stride, .count = count,
	}, true);
}

/* Keyed, so that nobody can choose whom to share it with. */
uint32_t memory_trust(const struct memory *m, uint64_t context)
{
	return (uint32_t)(((context ^ m->random) * 0x9e3779b97f4a7c15ull) >> 40) % TRUSTS;
}

void memory_distrust(struct memory *m, uint32_t trust)
{
	memory_lock(m);
	m->distrusted[trust % TRUSTS] = ++m->clock;
	pthread_mutex_unlock(&m->lock);
}

/*
 * (locked) Bytes of an input that have to come from the host.  Of more rows than a device takes,
 * which only a host's task has, as if there were no gaps between them.
 */
static uint64_t missing(const struct memory *m, uint32_t device, const struct memory_range *r,
			uint64_t seq)
{
	const uint64_t all = r->length * r->count;
	const struct memory_extent *e = NULL;
	uint64_t sum = 0, start, bytes, end, gap_start, gap_end;
	uint32_t rows = memory_rows(r), i;
	bool many = rows > MEMORY_MAX_ROWS;

	if (r->buffer)
		e = extent_find(r->buffer, device, r->offset, memory_range_end(r));

	for (i = 0; i < (many ? 1 : rows); i++) {
		start = memory_row(r, i, &bytes);
		if (many)
			bytes = memory_range_end(r) - start;
		if (!e) {
			sum += bytes;
			continue;
		}
		for (end = start + bytes; intervals_gap(&e->valid, start, end, seq,
							trusted_since(m, r),
							&gap_start, &gap_end); start = gap_end)
			sum += gap_end - gap_start;
	}
	return sum < all ? sum : all;
}

/* (locked) So many of an input, which come from the host, or from another device. */
static double bring_ns(const struct memory *m, uint32_t device, const struct memory_range *r,
		       uint64_t bytes)
{
	const struct memory_device *d = &m->devices[device];
	uint64_t dirty = 0, copies = 0;
	uint32_t where = 0;

	if (r->buffer && r->buffer->lazy)
		dirty = dirty_bytes(r->buffer, r->offset, memory_range_end(r), &where, &copies);
	if (!dirty || where == device)
		return rate_ns(&d->in, bytes);
	if (!are_peers(m, device, where))
		return rate_ns(&d->in, bytes) +
		       rate_copies_ns(&m->devices[where].out, dirty, copies);
	if (dirty >= bytes)
		return rate_ns(&d->direct[where], bytes);
	return rate_ns(&d->direct[where], dirty) + rate_ns(&d->in, bytes - dirty);
}

uint64_t memory_transfer_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			    uint32_t nr, uint64_t seq)
{
	const struct memory_device *d = &m->devices[device];
	double ns = 0;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < nr; i++) {
		uint64_t bytes = 0;

		if (ranges[i].access & 1)
			bytes = missing(m, device, &ranges[i], seq);
		if (bytes)
			ns += bring_ns(m, device, &ranges[i], bytes);
		if (ranges[i].access & 2 && !(ranges[i].buffer && ranges[i].buffer->lazy))
			ns += rate_ns(&d->out, ranges[i].length * ranges[i].count);
	}
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)ns;
}

uint64_t memory_bring_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq)
{
	double ns = 0;

	memory_lock(m);
	for (uint32_t i = 0; i < nr; i++) {
		const struct memory_range *r = &ranges[i];
		uint64_t bytes = r->access & 1 ? missing(m, device, r, seq) : 0;

		if (bytes && !is_dirty(r->buffer, r->offset, memory_range_end(r)))
			ns += rate_ns(&m->devices[device].in, bytes);
	}
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)ns;
}

uint64_t memory_back_ns(struct memory *m, uint32_t device, const struct memory_range *ranges,
			uint32_t nr)
{
	double ns = 0;

	memory_lock(m);
	for (uint32_t i = 0; i < nr; i++)
		if (ranges[i].access & 2 && !ranges[i].buffer->lazy)
			ns += rate_ns(&m->devices[device].out, ranges[i].length * ranges[i].count);
	pthread_mutex_unlock(&m->lock);
	return (uint64_t)ns;
}

/* (locked) Of an input, what @device lacks and some other one has. */
static uint64_t missing_near(const struct memory *m, uint32_t device, const struct memory_range *r,
			     uint64_t seq)
{
	uint64_t here = r->length * r->count - missing(m, device, r, seq), most = 0, there;
	uint32_t i;

	for (i = 0; i < m->nr_devices; i++) {
		if (i == device || !m->devices[i].present)
			continue;
		there = r->length * r->count - missing(m, i, r, seq);
		most = there > most ? there : most;
	}
	return most > here ? most - here : 0;
}

void memory_way(struct memory *m, uint32_t device, const struct memory_range *ranges,
		uint32_t nr, uint64_t seq, uint64_t *again_ns, uint64_t *kept_ns)
{
	const struct memory_device *d = &m->devices[device];
	uint64_t bytes;
	uint32_t i;

	*again_ns = 0;
	*kept_ns = 0;
	if (!d->present) {
		memory_dirty(m, ranges, nr, again_ns);
		return;
	}
	memory_lock(m);
	for (i = 0; i < nr; i++) {
		if (!ranges[i].buffer)
			continue;
		bytes = ranges[i].access & 1 ? missing_near(m, device, &ranges[i], seq) : 0;
		if (bytes)
			*again_ns += (uint64_t)bring_ns(m, device, &ranges[i], bytes);
		if (ranges[i].buffer->lazy)
			*kept_ns += (uint64_t)rate_ns(&d->in, ranges[i].length * ranges[i].count);
	}
	pthread_mutex_unlock(&m->lock);
}

uint64_t memory_resident(struct memory *m, uint32_t device, const struct memory_range *ranges,
			 uint32_t nr, uint64_t seq)
{
	uint64_t sum = 0;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < nr; i++)
		if (ranges[i].access & 1)
			sum += ranges[i].length * ranges[i].count -
			       missing(m, device, &ranges[i], seq);
	pthread_mutex_unlock(&m->lock);
	return sum;
}

bool memory_holds(struct memory *m, uint32_t device, const struct memory_range *r, uint64_t seq)
{
	uint64_t copies;
	uint32_t where;
	bool yes;

	/* Nothing has been copied of it yet. */
	if (!r->buffer)
		return device == MEMORY_HOST;
	memory_lock(m);
	if (device == MEMORY_HOST)
		yes = !r->buffer->lazy ||
		      !dirty_bytes(r->buffer, r->offset, memory_range_end(r), &where,
				      &copies);
	else
		yes = !missing(m, device, r, seq);
	pthread_mutex_unlock(&m->lock);
	return yes;
}

bool memory_link(struct memory *m, uint32_t device, struct memory_link *link)
{
	const struct memory_device *d = &m->devices[device];

	if (!memory_has_device(m, device))
		return false;
	memory_lock(m);
	*link = (struct memory_link){
		.in_latency_ns = d->in.latency_ns, .in_byte_ns = d->in.ns_per_byte,
		.out_latency_ns = d->out.latency_ns, .out_byte_ns = d->out.ns_per_byte,
		.peers = d->ops.copy_peer ? d->ops.peers : NULL,
	};
	pthread_mutex_unlock(&m->lock);
	return true;
}

void memory_query(struct memory *m, uint32_t device, struct memory_stats *stats)
{
	memory_lock(m);
	*stats = m->devices[device].stats;
	pthread_mutex_unlock(&m->lock);
}

uint64_t memory_steps(struct memory *m, const struct memory_buffer *b)
{
	uint64_t sum = 0;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < m->nr_devices; i++)
		sum += b->on[i].steps + m->devices[i].victims.steps;
	pthread_mutex_unlock(&m->lock);
	return sum;
}

void memory_many_dirty(struct memory *m, uint32_t pieces)
{
	m->many_dirty = pieces;
}

static int check_intervals(const struct memory_extent *e, const struct intervals *s,
			   const char *what)
{
	uint64_t last = e->start;
	uint32_t i;

	for (i = 0; i < s->nr; i++) {
		if (s->v[i].start < last || s->v[i].end <= s->v[i].start || s->v[i].end > e->end) {
			fprintf(stderr, "memory: %s %u of extent %llu..%llu is out of order\n",
				what, i, (unsigned long long)e->start,
				(unsigned long long)e->end);
			return 1;
		}
		last = s->v[i].end;
	}
	return 0;
}

/* What is here alone is valid here, and nowhere else. */
static int check_dirty(const struct memory_extent *e)
{
	struct memory_extent *o;
	uint64_t from, to, born, start, end;
	struct look l;
	uint32_t i;

	if (e->dirty.nr && !e->buffer->lazy) {
		fprintf(stderr, "memory: the host lacks bytes of a buffer that is not lazy\n");
		return 1;
	}
	for (i = 0; i < e->dirty.nr; i++) {
		const struct interval *v = &e->dirty.v[i];

		if (intervals_gap(&e->valid, v->start, v->end, 0, 0, &start, &end)) {
			fprintf(stderr, "memory: dirty bytes are not valid\n");
			return 1;
		}
		l = look_dirty(e->buffer, v->start, v->end);
		for (o = look_first(&l); o; o = look_next(&l, o)) {
			if (o == e || o->coarse || !extent_first_dirty(o, v->start, v->end, &from, &to,
								       &born))
				continue;
			fprintf(stderr, "memory: bytes are dirty twice\n");
			return 1;
		}
	}
	return 0;
}

/* It is no larger than the buffer pays for. */
static int check_lost(const struct memory_extent *e)
{
	if (!e)
		return 0;
	if (e->dirty.nr <= lost_most(e->buffer) && e->dirty.size < 2 * lost_most(e->buffer))
		return check_intervals(e, &e->dirty, "lost");
	fprintf(stderr, "memory: %u pieces are lost, room for %u\n", e->dirty.nr, e->dirty.size);
	return 1;
}

/* It is found, as what it is. */
static int check_place(const struct memory_extent *e)
{
	struct look l = look_bytes(e->buffer, e->start, e->end);
	struct memory_extent *o;

	l.from = e->device;
	l.to = e->device;
	l.dirty = e->dirty.nr;
	for (o = look_first(&l); o && o != e; o = look_next(&l, o))
		;
	if (o && e->any_dirty == l.dirty)
		return 0;
	fprintf(stderr, "memory: extent %llu..%llu is not in its place\n",
		(unsigned long long)e->start, (unsigned long long)e->end);
	return 1;
}

int memory_check(struct memory *m)
{
	int bad = 0;
	uint32_t i;

	memory_lock(m);
	for (i = 0; i < m->nr_devices; i++) {
		struct memory_device *d = &m->devices[i];
		uint64_t used = 0, n = 0, pins = 0, users = 0, stuck = 0;
		struct memory_extent *e;

		for (e = d->extents; e; e = e->next) {
			used += e->end - e->start;
			pins += e->pins;
			stuck += e->stuck ? e->end - e->start : 0;
			n++;
			users += !!e->users;
			if (e->holders && !e->pins) {
				fprintf(stderr, "memory: device %u: somebody pays for nothing\n", i);
				bad++;
			}
			bad += check_intervals(e, &e->valid, "valid");
			bad += check_intervals(e, &e->filled, "filled");
			bad += check_intervals(e, &e->dirty, "dirty");
			bad += check_dirty(e);
			bad += check_place(e);
			bad += check_lost(e->buffer->lost);
		}
		if (used != d->stats.used || n != d->stats.extents || used > d->stats.bytes) {
			fprintf(stderr, "memory: device %u: %llu bytes in %llu extents, counted %llu\n",
				i, (unsigned long long)used, (unsigned long long)n,
				(unsigned long long)d->stats.used);
			bad++;
		}
		for (e = d->used; e; e = e->used_next)
			users -= !!e->users;
		if (users || (!d->held && d->used)) {
			fprintf(stderr, "memory: device %u: the list of what is in use is wrong\n", i);
			bad++;
		}
		if (!victim_check(m, d)) {
			fprintf(stderr, "memory: device %u: another one is to go\n", i);
			bad++;
		}
		if (stuck != d->unsaved) {
			fprintf(stderr, "memory: device %u: %llu bytes are stuck, counted %llu\n", i,
				(unsigned long long)stuck, (unsigned long long)d->unsaved);
			bad++;
		}
		if (!d->held && pins) {
			fprintf(stderr, "memory: device %u: pins and no task\n", i);
			bad++;
		}
	}
	pthread_mutex_unlock(&m->lock);
	return bad;
}
