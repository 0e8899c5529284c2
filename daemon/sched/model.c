/* SPDX-License-Identifier: MIT */
/*
 * model.c - run times learnt for each (kernel, device, size class)
 *
 * Each run costs two moving averages, one of them with outliers.  What else is to be known of a class
 * (mean work, deviation, what counts as an outlier) is studied in its first runs and
 * then in every 16th, so that it costs a short task nothing.  Sizes without a history
 * are predicted from those that have one (regress.c).
 *
 * Devices that are alike share a further record for each: what is studied on one of them is
 * put down there as well, and tells of those that have little history of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sched/internal.h"

#define FIRST_RUNS	4	/* where a quicker one counts alone: who is first finds no pages yet */
#define STUDY_ALL	64	/* runs, of which each is studied */
#define STUDY_EACH	16	/* then every so manieth */
#define ALL_PART	32	/* of a run in the mean that has outliers, too */
#define OUTLIERS	3	/* between two studies: it is a change */
#define OWN_KEYS	64	/* that kernels of a tenant's programs share */
#define OWN_RECORDS	(SCHED_MAX_RECORDS / 2)	/* of all of them */
#define OWN_PART	(OWN_RECORDS / 2 / MODEL_GROUPS)	/* that each group has for itself */
#define OWN_MOST	(OWN_RECORDS / 8)	/* that one can have, of what no other has so far */
#define LONGEST		(1ull << 50)	/* ns that a run counts as, so that sums don't overflow */

uint64_t sched_kernel_key(const struct graph_node *node)
{
	const struct arax_dispatch *d = &node->d;

	/*
	 * What programs bring shares some records: there is no end of it, and all that
	 * could be learnt of others would be crowded out.
	 */
	if (d->opcode == ARAX_OP_LAUNCH && d->kernel & ARAX_KERNEL_OWN) {
		uint32_t group = (uint32_t)(d->tenant * 0x9e3779b97f4a7c15ull >> 32) % MODEL_GROUPS;

		return (uint64_t)(d->opcode + 1) << 32 | ARAX_KERNEL_OWN | group * OWN_KEYS |
		       (d->context * 31 + d->kernel) % OWN_KEYS;
	}
	/* Each link has ids of its own. */
	if (d->opcode == ARAX_OP_LAUNCH && node->sched.kernel)
		return (uint64_t)(d->opcode + 1) << 32 | node->sched.kernel;
	/* Never 0.  Copies and fills have no kernel. */
	if (d->opcode == ARAX_OP_LAUNCH || d->opcode == ARAX_OP_CALL)
		return (uint64_t)(d->opcode + 1) << 32 | d->kernel;
	return (uint64_t)(d->opcode + 1) << 32;
}

static inline uint64_t items_of(const struct arax_dispatch *d)
{
	uint64_t items = 1;

	/* Mostly one dimension, and of single items. */
	if (d->grid[0] && d->grid[1] == 1 && d->grid[2] == 1 && d->block[0] == 1 &&
	    d->block[1] == 1 && d->block[2] == 1)
		return d->grid[0];
	for (int i = 0; i < 3; i++) {
		/* Cannot overflow: a product of two 32-bit numbers. */
		uint64_t n = (uint64_t)(d->grid[i] ? d->grid[i] : 1) *
			     (d->block[i] ? d->block[i] : 1);

		if (__builtin_mul_overflow(items, n, &items))
			return UINT64_MAX;
	}
	return items;
}

static inline uint64_t launch_work(const struct graph_node *node)
{
	uint64_t items, lines;

	if (node->sched.work)
		return node->sched.work;
	items = items_of(&node->d);
	if (!node->d.nr_ranges)
		return items;
	lines = sched_bytes(node) / SCHED_LINE;
	return items > lines ? items : lines;
}

uint64_t sched_work(const struct graph_node *node)
{
	const struct arax_dispatch *d = &node->d;
	unsigned __int128 work;

	switch (d->opcode) {
	case ARAX_OP_LAUNCH:
		return launch_work(node);
	case ARAX_OP_COPY:
	case ARAX_OP_FILL:
		if (!d->nr_ranges)
			return 1;
		work = (unsigned __int128)node->ranges[0].length * node->ranges[0].count;
		return work >> 64 ? UINT64_MAX : work ? work : 1;
	default:
		return 1;
	}
}

static inline uint32_t device_of(uint64_t id)
{
	return id >> 8 & (SCHED_MAX_DEVICES - 1);
}

static __attribute__((noinline)) struct model_record *search_on(const struct sched_model *m,
								uint64_t id, uint64_t h, uint32_t i)
{
	/* Odd, so that it comes by every place. */
	uint32_t step = h >> 16 | SCHED_MAX_DEVICES | 1;

	while (m->records[i].id && m->records[i].id != id)
		i = (i + step) & m->mask;
	return &m->records[i];
}

/*
 * Who weighs all devices for a task looks at one kind's records of each, which lie side by side
 * so that the next one is there before it is asked for; and where two kinds would lie in
 * the same place, all of one go on by steps of its own.
 */
static inline struct model_record *search(const struct sched_model *m, uint64_t id)
{
	uint64_t kind = id & ~model_id(0, SCHED_MAX_DEVICES - 1);
	uint64_t h = (kind ^ kind >> 29) * 0x9e3779b97f4a7c15ull;
	uint32_t i = ((h >> 32) + device_of(id)) & m->mask;

	if (__builtin_expect(m->records[i].id == id, 1))
		return &m->records[i];
	return search_on(m, id, h, i);
}

/*
 * A task is looked up before its run and after it, on each device that could run it, and
 * the next is often alike.
 */
static inline struct model_record *slot(struct sched_model *m, uint64_t id)
{
	uint32_t i = id >> 8 & (MODEL_LASTS - 1);
	struct model_record *r = m->last[i].record;

	if (__builtin_expect(r->id == id, 1))
		return r;
	/* There was none, and what would be its place is still free. */
	if (m->last[i].id == id && !r->id)
		return r;
	m->last[i].id = id;
	m->last[i].record = search(m, id);
	return m->last[i].record;
}

/* Of the record that its device shares with those that are like it; 0: there is none. */
static uint64_t shared_id(const struct sched_model *m, uint64_t id)
{
	uint32_t device = device_of(id);

	if (id & MODEL_SHARED || !m->shares[device])
		return 0;
	return model_id(id & ~model_id(0, SCHED_MAX_DEVICES - 1), m->shares[device] - 1u) | MODEL_SHARED;
}

/* Who has run it little, less than others like it, is taken to be like them. */
static __attribute__((noinline))
const struct model_record *of_others(struct sched_model *m, const struct model_record *own,
				     uint64_t id)
{
	uint64_t shared = shared_id(m, id);
	const struct model_record *r = shared ? search(m, shared) : own;

	return r->runs > own->runs ? r : own;
}

static inline const struct model_record *best_known(struct sched_model *m, uint64_t id)
{
	const struct model_record *r = slot(m, id);

	return __builtin_expect(r->runs < SCHED_SURE_RUNS, 0) ? of_others(m, r, id) : r;
}

static struct sched_estimate estimate(struct sched_model *m, uint64_t id)
{
	const struct model_record *r;

	if (!m->records)
		return (struct sched_estimate){ 0 };
	r = best_known(m, id);
	return (struct sched_estimate){
		.ns = r->runs < SCHED_MIN_RUNS ? 0 : r->ns,
		.all_ns = r->all_ns,
		.runs = r->runs,
	};
}

struct sched_estimate sched_estimate(struct sched *s, uint64_t kernel,
				     uint32_t device, uint64_t work)
{
	return estimate(&s->model, model_id(model_kind(kernel, work), device));
}

uint64_t sched_predict_ns(struct sched *s, uint64_t kernel,
			  uint32_t device, uint64_t work)
{
	return sched_estimate(s, kernel, device, work).ns;
}

uint64_t model_predict_ns(struct sched_model *m, uint64_t id)
{
	return estimate(m, id).ns;
}

/* At most half full; false: what is new can't be learnt. */
static bool make_room(struct sched_model *m)
{
	struct sched_model bigger = *m;
	size_t bytes;

	if (m->records && m->used <= m->mask / 2)
		return true;
	if (m->used >= SCHED_MAX_RECORDS)
		return false;
	bigger.mask = m->records ? m->mask * 2 + 1 : 255;
	/* A record is a cache line. */
	bytes = ((size_t)bigger.mask + 1) * sizeof(*bigger.records);
	bigger.records = aligned_alloc(sizeof(*bigger.records), bytes);
	if (!bigger.records)
		return false;
	memset(bigger.records, 0, bytes);
	for (uint32_t i = 0; m->records && i <= m->mask; i++) {
		const struct model_record *r = &m->records[i];

		if (r->id)
			*search(&bigger, r->id) = *r;
	}
	memset(bigger.last, 0, sizeof(bigger.last));
	for (uint32_t i = 0; i < MODEL_LASTS; i++)
		bigger.last[i].record = bigger.records;
	free(m->records);
	*m = bigger;
	return true;
}

static bool is_own(uint64_t id)
{
	return id >> 18 & ARAX_KERNEL_OWN;
}

/* See sched_kernel_key(). */
static uint32_t group_of(uint64_t id)
{
	return (uint32_t)(id >> 18) / OWN_KEYS % MODEL_GROUPS;
}

/* One tenant's programs must not take what others' will need. */
static bool own_room(const struct sched_model *m, uint64_t id)
{
	uint32_t has = m->own[group_of(id)];

	return has < OWN_PART ||
	       (has < OWN_MOST && m->own_more < OWN_RECORDS - MODEL_GROUPS * OWN_PART);
}

static __attribute__((cold)) struct model_record *record_new(struct sched_model *m, uint64_t id)
{
	struct model_record *r;

	if ((is_own(id) && !own_room(m, id)) || !make_room(m))
		return NULL;
	r = slot(m, id);
	*r = (struct model_record){ .id = id, .limit_ns = UINT64_MAX };
	m->used++;
	if (is_own(id))
		m->own_more += m->own[group_of(id)]++ >= OWN_PART;
	return r;
}

/* ------------------------------------------------------------------ */
/* The sizes of which there is a history                               */

static struct model_series *series_search(const struct sched_model *m, uint64_t id)
{
	uint32_t i = ((id ^ id >> 29) * 0x9e3779b97f4a7c15ull) >> 32 & m->series_mask;

	while (m->series[i].id && m->series[i].id != id)
		i = (i + 1) & m->series_mask;
	return &m->series[i];
}

static void series_add(struct sched_model *m, uint64_t id)
{
	uint64_t base = id & ~(uint64_t)MODEL_CLASSES;
	struct model_series *s;

	if (!m->series || m->nr_series > m->series_mask / 2) {
		struct sched_model bigger = {
			.series_mask = m->series ? m->series_mask * 2 + 1 : 63,
		};

		/* Each has a record at least, and these are bounded. */
		bigger.series = calloc((size_t)bigger.series_mask + 1, sizeof(*bigger.series));
		if (!bigger.series)
			return;
		for (uint32_t i = 0; m->series && i <= m->series_mask; i++)
			if (m->series[i].id)
				*series_search(&bigger, m->series[i].id) = m->series[i];
		free(m->series);
		m->series = bigger.series;
		m->series_mask = bigger.series_mask;
	}
	s = series_search(m, base);
	m->nr_series += !s->id;
	s->id = base;
	s->classes |= 1ull << (id & MODEL_CLASSES);
}

struct regress_fit model_fit(const struct sched_model *m, uint64_t id)
{
	struct regress_point p[REGRESS_POINTS];
	uint64_t base = id & ~(uint64_t)MODEL_CLASSES, classes;
	uint32_t nr = 0;

	classes = m->series ? series_search(m, base)->classes : 0;
	/* Mostly: nothing known, or one size only. */
	if (!(classes & (classes - 1)))
		return (struct regress_fit){ 0 };
	for (; classes; classes &= classes - 1) {
		const struct model_record *r = search(m, base | __builtin_ctzll(classes));

		p[nr++] = (struct regress_point){
			.work = r->work, .ns = r->ns,
			.weight = r->runs < SCHED_SURE_RUNS ? r->runs : SCHED_SURE_RUNS,
		};
	}
	return regress(p, nr);
}

uint64_t model_forecast_ns(const struct sched_model *m, uint64_t id, uint64_t work,
			   uint32_t *confidence)
{
	struct regress_fit f = model_fit(m, id);

	*confidence = regress_confidence(&f, (double)work);
	return (uint64_t)regress_ns(&f, (double)work);
}

struct sched_forecast sched_forecast(struct sched *s, uint64_t kernel, uint32_t device,
				     uint64_t work)
{
	uint64_t id = model_id(model_kind(kernel, work), device);
	struct sched_forecast f = { 0 };
	const struct model_record *r;

	r = s->model.records ? best_known(&s->model, id) : NULL;
	f.runs = r ? r->runs : 0;
	if (f.runs < SCHED_MIN_RUNS) {
		uint64_t shared = shared_id(&s->model, id);

		f.ns = model_forecast_ns(&s->model, id, work, &f.confidence);
		if (f.confidence < SCHED_CONFIDENT && shared)
			f.ns = model_forecast_ns(&s->model, shared, work, &f.confidence);
		f.regression = f.ns;
		return f;
	}
	f.ns = r->ns;
	f.confidence = (uint32_t)(1000 * (r->runs / (r->runs + 1.0)) /
				  (1 + r->deviation / (double)r->ns));
	return f;
}

/* ------------------------------------------------------------------ */
/* Observations                                                        */

/* A page fault, a preemption or a busy neighbour; or else the world has changed. */
static __attribute__((cold)) bool reject(struct sched_model *m, struct model_record *r)
{
	m->outliers++;
	if (++r->outliers < OUTLIERS)
		return true;
	r->outliers = 0;
	r->limit_ns = UINT64_MAX;
	return false;
}

/* Returns how many runs may pass until the next study. */
static __attribute__((cold, noinline)) uint32_t study(struct sched_model *m,
						      struct model_record *r, uint64_t ns,
						      uint64_t work)
{
	uint32_t n = r->runs < 8 ? r->runs + 1 : 8;
	double off;

	if (r->runs < FIRST_RUNS && ns < r->ns)
		r->ns = ns;
	else if (r->runs < 8)
		r->ns = (r->ns * r->runs + ns) / (r->runs + 1);
	else
		r->ns = r->ns + ns / 8 - r->ns / 8;
	if (r->runs < FIRST_RUNS)
		r->all_ns = r->ns;
	if (r->runs < UINT32_MAX - STUDY_EACH)
		r->runs++;
	off = (double)ns - (double)r->ns;
	r->work += ((double)work - r->work) / n;
	r->deviation += ((off < 0 ? -off : off) - r->deviation) / n;
	r->outliers = 0;
	if (r->runs >= SCHED_SURE_RUNS)
		r->limit_ns = 4 * r->ns + 8 * (uint64_t)r->deviation;
	if (r->runs == SCHED_MIN_RUNS)
		series_add(m, r->id);
	r->day = 0;
	m->news = true;
	return r->runs < STUDY_ALL ? 0 : STUDY_EACH - 1;
}

static inline void observe(struct sched_model *m, uint64_t id, const struct graph_node *node,
			   uint64_t work, uint64_t ns);

/* What was just studied of @id. */
static __attribute__((cold, noinline)) void share(struct sched_model *m, uint64_t id,
						  uint64_t work, uint64_t ns)
{
	uint64_t shared = shared_id(m, id);

	if (shared)
		observe(m, shared, NULL, work, ns);
}

static inline void observe(struct sched_model *m, uint64_t id, const struct graph_node *node,
			   uint64_t work, uint64_t ns)
{
	struct model_record *r = m->records ? slot(m, id) : NULL;

	if (__builtin_expect(!r || !r->id, 0)) {
		r = record_new(m, id);
		if (!r)
			return;
	}
	/* 0 means unknown, and sums must not overflow. */
	ns = ns ? ns : 1;
	ns = ns < LONGEST ? ns : LONGEST;
	r->all_ns = r->all_ns + ns / ALL_PART - r->all_ns / ALL_PART;
	if (__builtin_expect(ns > r->limit_ns, 0) && reject(m, r))
		return;
	if (__builtin_expect(!r->pass, 0)) {
		work = node ? sched_work(node) : work;
		r->pass = study(m, r, ns, work);
		share(m, id, work, ns);
		return;
	}
	r->pass--;
	r->runs++;
	r->ns = r->ns + ns / 8 - r->ns / 8;
}

static __attribute__((noinline)) void observe_node(struct sched_model *m, uint64_t id,
						   const struct graph_node *node, uint64_t ns)
{
	observe(m, id, node, 0, ns);
}

/* As observe() does where there is nothing special: nearly all. */
void model_observe(struct sched_model *m, uint64_t id, const struct graph_node *node, uint64_t ns)
{
	struct model_record *r = m->last[id >> 8 & (MODEL_LASTS - 1)].record;

	if (__builtin_expect(!r || r->id != id || !r->pass || ns - 1 >= LONGEST ||
			     ns > r->limit_ns, 0)) {
		observe_node(m, id, node, ns);
		return;
	}
	r->all_ns = r->all_ns + ns / ALL_PART - r->all_ns / ALL_PART;
	r->pass--;
	r->runs++;
	r->ns = r->ns + ns / 8 - r->ns / 8;
}

/* ------------------------------------------------------------------ */
/* To be kept                                                          */

bool sched_has_news(const struct sched *s)
{
	return s->model.news;
}

struct sched_known *sched_export(struct sched *s, size_t *nr)
{
	struct sched_model *m = &s->model;
	struct sched_known *k;

	*nr = 0;
	k = calloc(m->used + 1, sizeof(*k));
	for (uint32_t i = 0; k && m->used && i <= m->mask; i++) {
		const struct model_record *r = &m->records[i];

		if (!r->id || r->id & MODEL_SHARED || !r->runs || r->work < 1)
			continue;
		k[(*nr)++] = (struct sched_known){
			.kernel = r->id >> 18, .device = device_of(r->id),
			.runs = r->runs, .ns = r->ns, .all_ns = r->all_ns, .work = r->work,
			.deviation = r->deviation, .day = r->day,
		};
	}
	m->news &= !k;
	return k;
}

static void import(struct sched_model *m, uint64_t id, const struct sched_known *k)
{
	struct model_record *r = m->records ? slot(m, id) : NULL;

	if (r && r->id)
		return;
	r = record_new(m, id);
	if (!r)
		return;
	r->ns = k->ns;
	r->all_ns = k->all_ns;
	/* Studied again from the first run on. */
	r->runs = k->runs < SCHED_SURE_RUNS ? k->runs : SCHED_SURE_RUNS;
	r->work = k->work;
	r->deviation = k->deviation;
	r->day = k->day;
	if (r->runs >= SCHED_SURE_RUNS)
		r->limit_ns = 4 * r->ns + 8 * (uint64_t)r->deviation;
	if (r->runs >= SCHED_MIN_RUNS)
		series_add(m, id);
}

void sched_import(struct sched *s, const struct sched_known *k)
{
	uint64_t id, shared;

	if (k->device >= SCHED_MAX_DEVICES || !k->kernel || !k->runs || !k->ns || k->work < 1)
		return;
	id = model_id(model_kind(k->kernel, k->work < 0x1p64 ? (uint64_t)k->work : UINT64_MAX),
		      k->device);
	import(&s->model, id, k);
	shared = shared_id(&s->model, id);
	if (shared)
		import(&s->model, shared, k);
}

int sched_device_alike(struct sched *s, uint32_t device, uint64_t alike)
{
	struct sched_model *m = &s->model;

	if (device >= s->nr_devices)
		return -EINVAL;
	m->alike[device] = alike;
	for (uint32_t i = 0; alike && i < s->nr_devices; i++) {
		if (i == device || m->alike[i] != alike)
			continue;
		if (!m->shares[i])
			m->shares[i] = (uint16_t)(i + 1);
		m->shares[device] = m->shares[i];
		break;
	}
	return 0;
}

void model_free(struct sched_model *m)
{
	free(m->records);
	free(m->series);
}

void sched_observe(struct sched *s, uint64_t kernel, uint32_t device,
		   uint64_t work, uint64_t ns)
{
	observe(&s->model, model_id(model_kind(kernel, work), device), NULL, work, ns);
}

bool sched_is_short(struct sched *s, struct graph_node *node, uint32_t device,
		    uint64_t threshold_ns)
{
	const struct model_record *r;

	if (node->d.opcode == ARAX_OP_MARKER)
		return true;
	if (!s->model.records)
		return false;
	r = best_known(&s->model, model_id(task_kind(node), device));
	return r->runs >= SCHED_MIN_RUNS && r->ns < threshold_ns && r->all_ns < threshold_ns;
}
