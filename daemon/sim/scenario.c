// SPDX-License-Identifier: MIT
/* scenario.c - a scenario from its JSON */
#include "daemon/sim/scenario.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/sim/contexts.h"
#include "daemon/sim/dag.h"
#include "daemon/sim/engine.h"
#include "daemon/sim/event.h"
#include "daemon/sim/generate.h"
#include "daemon/sim/reader.h"
#include "daemon/sim/trace.h"
#include "libarax/admin/mute.h"

#define US		1e3	/* ns */
#define MS		1e6
#define MB		1e6	/* bytes */
#define GB		1e9
#define MAX_MS		1e9
#define LEAST		0.000001
#define NUMBER		12	/* bytes that a number and the NUL may need */
#define SPREAD		"spread"
#define MAX_SEED	((uint64_t)INT64_MAX)

struct build {
	struct scenario *sc;
	struct reader r;
	struct rng rng;
	uint64_t nr_tasks;
	json_t *names;			/* what was made so far, by name: see remember() */
};

double scenario_cost_ns(const struct scenario *sc, uint32_t kernel, uint32_t kind, uint64_t work)
{
	const struct sim_cost *c = &sc->kernels[kernel].cost[kind];
	double ns = c->base_ns + c->item_ns * (double)work;

	if (c->demand <= 0)
		return 0;
	return ns > 1 ? ns : 1;
}

uint32_t scenario_kernel(const struct scenario *sc, const char *name)
{
	for (uint32_t i = 0; i < sc->nr_kernels; i++)
		if (!strcmp(sc->kernels[i].name, name))
			return i;
	return SIM_ANY;
}

/* Room for @more behind @nr elements; refused beyond @most. */
static void *extend(struct build *b, void *array, uint32_t nr, uint64_t more, uint32_t most,
		    size_t bytes)
{
	void *p;

	if (nr + more > most) {
		reader_fail(&b->r, -E2BIG, "count", "there are %llu in all, the limit is %u",
			    (unsigned long long)(nr + more), most);
		return NULL;
	}
	p = realloc(array, (nr + more) * bytes);
	if (!p)
		reader_fail(&b->r, -ENOMEM, NULL, "out of memory");
	return p;
}

/* Several from one entry are numbered: gpu0, gpu1, ... */
static void number_name(char *out, const char *name, uint64_t count, uint32_t i)
{
	if (count == 1)
		snprintf(out, SIM_NAME, "%s", name);
	else
		snprintf(out, SIM_NAME, "%.*s%u", SIM_NAME - NUMBER, name, i);
}

/* By @key @nr things from @first on are found. */
static void remember(struct build *b, const char *key, uint32_t first, uint64_t nr)
{
	if (json_object_set_new(b->names, key, json_integer((json_int_t)((uint64_t)first << 32 | nr))))
		reader_fail(&b->r, -ENOMEM, NULL, "out of memory");
}

/* Whoever names one means just that: it is the only one of its @sort that is called so. */
static void take_name(struct build *b, char sort, const char *name, uint32_t index)
{
	char key[SIM_NAME + 2];

	snprintf(key, sizeof(key), "%c=%s", sort, name);
	if (json_object_get(b->names, key))
		reader_fail(&b->r, -EINVAL, "name", "'%s' is here twice: give one of them another name",
			    name);
	else
		remember(b, key, index, 1);
}

/* What an entry with a count is named stands for all that were made of it, and no others. */
static void take_entry(struct build *b, char sort, const char *name, uint32_t first, uint64_t count)
{
	char key[SIM_NAME + 2];

	snprintf(key, sizeof(key), "%c*%s", sort, name);
	if (count > 1 && !b->r.err)
		remember(b, key, first, count);
}

/* The first that @name stands for, and how many. */
static uint32_t find_named(const struct build *b, char sort, const char *name, uint32_t *count)
{
	char key[SIM_NAME + 2];
	json_t *known;

	snprintf(key, sizeof(key), "%c=%s", sort, name);
	known = json_object_get(b->names, key);
	snprintf(key, sizeof(key), "%c*%s", sort, name);
	if (!known)
		known = json_object_get(b->names, key);
	*count = (uint32_t)json_integer_value(known);
	return known ? (uint32_t)((uint64_t)json_integer_value(known) >> 32) : SIM_ANY;
}

/* ------------------------------------------------------------------ */
/* The machine                                                         */

static void read_link(struct build *b, json_t *obj)
{
	static const char *const known[] = {
		"name", "count", "gb_per_s", "latency_us", "duplex", NULL,
	};
	struct scenario *sc = b->sc;
	struct sim_link l, *links;
	char name[SIM_NAME];
	uint64_t count;

	reader_keys(&b->r, obj, known);
	reader_string(&b->r, obj, "name", name, sizeof(name) - NUMBER, NULL);
	count = reader_count(&b->r, obj, "count", 1, SIM_MAX_LINKS, 1);
	l.ns_per_byte = 1 / reader_number(&b->r, obj, "gb_per_s", LEAST, 1e6, NAN);
	l.latency_ns = reader_units(&b->r, obj, "latency_us", 0, 1e9, 0, US);
	l.duplex = reader_bool(&b->r, obj, "duplex", true);
	if (b->r.err)
		return;
	links = extend(b, sc->links, sc->nr_links, count, SIM_MAX_LINKS, sizeof(*links));
	if (!links)
		return;
	sc->links = links;
	take_entry(b, 'l', name, sc->nr_links, count);
	for (uint32_t i = 0; i < count; i++) {
		number_name(l.name, name, count, i);
		take_name(b, 'l', l.name, sc->nr_links);
		links[sc->nr_links++] = l;
	}
}

static uint32_t find_kind(const struct scenario *sc, const char *name)
{
	for (uint32_t i = 0; i < sc->nr_kinds; i++)
		if (!strcmp(sc->kinds[i], name))
			return i;
	return SIM_ANY;
}

static uint32_t make_kind(struct build *b, const char *name)
{
	struct scenario *sc = b->sc;
	uint32_t kind = find_kind(sc, name);

	if (kind != SIM_ANY)
		return kind;
	if (sc->nr_kinds == SIM_MAX_KINDS) {
		reader_fail(&b->r, -E2BIG, "kind", "there are more than %u kinds of device",
			    SIM_MAX_KINDS);
		return 0;
	}
	snprintf(sc->kinds[sc->nr_kinds], SIM_NAME, "%s", name);
	return sc->nr_kinds++;
}

static void read_losses(struct build *b, json_t *obj, struct sim_device *d, uint64_t count)
{
	json_t *lost = reader_array(&b->r, obj, "lost_at_ms", 1, count, false), *v;
	size_t i;

	json_array_foreach(lost, i, v) {
		double ms = json_number_value(v);

		if (!json_is_number(v) || !(ms >= 0 && ms <= MAX_MS))
			reader_fail(&b->r, -EINVAL, "lost_at_ms",
				    "element %zu is no number from 0 to %g", i, MAX_MS);
		else
			d[i].lost_ns = (uint64_t)round(ms * MS);
	}
}

static void refuse_without_link(struct build *b, json_t *obj)
{
	static const char *const keys[] = { "memory_gb", "per_link", "peers" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(obj, keys[i]))
			reader_fail(&b->r, -EINVAL, keys[i],
				    "a device without a link works in the host's memory: give it a link, or leave this out");
}

static void read_device(struct build *b, json_t *obj)
{
	static const char *const known[] = {
		"name", "count", "kind", "link", "per_link", "memory_gb", "peers", "lanes",
		"lost_at_ms", NULL,
	};
	struct scenario *sc = b->sc;
	char name[SIM_NAME], kind[SIM_NAME], link[SIM_NAME];
	struct sim_device d = { .lost_ns = UINT64_MAX, .link = SIM_ANY }, *devices;
	uint32_t first = SIM_ANY, links = 0;
	uint64_t count, per;

	reader_keys(&b->r, obj, known);
	reader_string(&b->r, obj, "name", name, sizeof(name) - NUMBER, NULL);
	reader_string(&b->r, obj, "kind", kind, sizeof(kind), name);
	reader_string(&b->r, obj, "link", link, sizeof(link), "");
	count = reader_count(&b->r, obj, "count", 1, SIM_MAX_DEVICES, 1);
	d.lanes = (uint32_t)reader_count(&b->r, obj, "lanes", 1, SIM_MAX_LANES, 4);
	if (*link) {
		first = find_named(b, 'l', link, &links);
		if (first == SIM_ANY)
			reader_fail(&b->r, -EINVAL, "link", "no link is named '%s': add it to machine.links",
				    link);
		d.memory = reader_units(&b->r, obj, "memory_gb", LEAST, 1e6, NAN, GB);
		d.peers = reader_bool(&b->r, obj, "peers", false);
	} else {
		refuse_without_link(b, obj);
	}
	per = links ? (count + links - 1) / links : 1;
	per = reader_count(&b->r, obj, "per_link", 1, SIM_MAX_DEVICES, per);
	if (!b->r.err && links && (count + per - 1) / per > links)
		reader_fail(&b->r, -EINVAL, "per_link", "%llu devices need more than the %u links '%s': raise the links' count or this",
			    (unsigned long long)count, links, link);
	d.kind = b->r.err ? 0 : make_kind(b, kind);
	if (b->r.err)
		return;
	devices = extend(b, sc->devices, sc->nr_devices, count, SIM_MAX_DEVICES, sizeof(*devices));
	if (!devices)
		return;
	sc->devices = devices;
	for (uint32_t i = 0; i < count; i++) {
		number_name(d.name, name, count, i);
		take_name(b, 'd', d.name, sc->nr_devices + i);
		if (!strcmp(d.name, SPREAD))
			reader_fail(&b->r, -EINVAL, "name", "\"%s\" is what a pin says for all devices in turn: give the device another name",
				    SPREAD);
		if (links)
			d.link = first + i / (uint32_t)per;
		devices[sc->nr_devices + i] = d;
	}
	read_losses(b, obj, &devices[sc->nr_devices], count);
	sc->nr_devices += (uint32_t)count;
}

static void each(struct build *b, json_t *obj, const char *key, size_t high, bool required,
		 void (*read)(struct build *b, json_t *obj))
{
	json_t *list = reader_array(&b->r, obj, key, 1, high, required), *v;
	size_t back = reader_enter(&b->r, key), i;

	json_array_foreach(list, i, v) {
		size_t inner = reader_enter_index(&b->r, i);

		if (!b->r.err)
			read(b, v);
		reader_leave(&b->r, inner);
	}
	reader_leave(&b->r, back);
}

static void read_machine(struct build *b, json_t *obj)
{
	static const char *const known[] = { "links", "devices", NULL };
	size_t back = reader_enter(&b->r, "machine");

	reader_keys(&b->r, obj, known);
	each(b, obj, "links", SIM_MAX_LINKS, false, read_link);
	each(b, obj, "devices", SIM_MAX_DEVICES, true, read_device);
	reader_leave(&b->r, back);
}

/* ------------------------------------------------------------------ */
/* Kernels, tenants                                                    */

static void read_cost(struct build *b, json_t *obj, struct sim_cost *c)
{
	static const char *const known[] = { "base_us", "ns_per_item", "demand", NULL };

	reader_keys(&b->r, obj, known);
	c->base_ns = 1e3 * reader_number(&b->r, obj, "base_us", 0, 1e9, 0);
	c->item_ns = reader_number(&b->r, obj, "ns_per_item", 0, 1e9, 0);
	c->demand = reader_number(&b->r, obj, "demand", 0.001, 1, 1);
	if (!b->r.err && c->base_ns <= 0 && c->item_ns <= 0)
		reader_fail(&b->r, -EINVAL, NULL, "takes no time: give base_us, ns_per_item or both");
}

static void read_kernel(struct build *b, json_t *obj)
{
	static const char *const known[] = { "name", "cost", NULL };
	struct scenario *sc = b->sc;
	struct sim_kernel k = { 0 }, *kernels;
	json_t *costs, *v;
	const char *kind;
	size_t back, inner;

	reader_keys(&b->r, obj, known);
	reader_string(&b->r, obj, "name", k.name, sizeof(k.name), NULL);
	if (!b->r.err && scenario_kernel(sc, k.name) != SIM_ANY)
		reader_fail(&b->r, -EINVAL, "name", "'%s' is here twice: one entry has all costs",
			    k.name);
	if (!strcmp(k.name, TRACE_HOST))
		reader_fail(&b->r, -EINVAL, "name", "\"%s\" is what traces call the program's own accesses: give the kernel another name",
			    TRACE_HOST);
	costs = json_object_get(obj, "cost");
	if (!json_is_object(costs) || !json_object_size(costs))
		reader_fail(&b->r, -EINVAL, "cost", "must be an object with a cost for each kind of device that has the kernel");
	back = reader_enter(&b->r, "cost");
	json_object_foreach(costs, kind, v) {
		uint32_t index = find_kind(sc, kind);

		if (index == SIM_ANY) {
			reader_fail(&b->r, -EINVAL, kind, "no device is of this kind");
			break;
		}
		inner = reader_enter(&b->r, kind);
		read_cost(b, v, &k.cost[index]);
		reader_leave(&b->r, inner);
	}
	reader_leave(&b->r, back);
	if (b->r.err)
		return;
	kernels = extend(b, sc->kernels, sc->nr_kernels, 1, SIM_MAX_KERNELS, sizeof(*kernels));
	if (!kernels)
		return;
	sc->kernels = kernels;
	kernels[sc->nr_kernels++] = k;
}

static void read_tenant(struct build *b, json_t *obj)
{
	static const char *const known[] = { "name", "count", "weight", "device_memory_gb", NULL };
	struct scenario *sc = b->sc;
	struct sim_tenant t, *tenants;
	char name[SIM_NAME];
	uint64_t count;

	reader_keys(&b->r, obj, known);
	reader_string(&b->r, obj, "name", name, sizeof(name) - NUMBER, NULL);
	count = reader_count(&b->r, obj, "count", 1, SIM_MAX_TENANTS, 1);
	t.weight = (uint32_t)reader_count(&b->r, obj, "weight", 1, 10000, 100);
	t.device_memory = reader_units(&b->r, obj, "device_memory_gb", LEAST, 1e6, 0, GB);
	if (b->r.err)
		return;
	tenants = extend(b, sc->tenants, sc->nr_tenants, count, SIM_MAX_TENANTS, sizeof(*tenants));
	if (!tenants)
		return;
	sc->tenants = tenants;
	take_entry(b, 't', name, sc->nr_tenants, count);
	for (uint32_t i = 0; i < count; i++) {
		number_name(t.name, name, count, i);
		take_name(b, 't', t.name, sc->nr_tenants);
		tenants[sc->nr_tenants++] = t;
	}
}

/* ------------------------------------------------------------------ */
/* Workload                                                            */

static void read_kernel_names(struct build *b, json_t *obj, struct generate *g)
{
	json_t *list = reader_array(&b->r, obj, "kernels", 1, GENERATE_KERNELS, true), *v;
	size_t i;

	json_array_foreach(list, i, v) {
		uint32_t k = json_is_string(v) ? scenario_kernel(b->sc, json_string_value(v)) :
			     SIM_ANY;

		if (k == SIM_ANY)
			reader_fail(&b->r, -EINVAL, "kernels",
				    "element %zu is not the name of one of the scenario's kernels", i);
		g->kernels[i] = (uint16_t)k;
		g->nr_kernels++;
	}
}

/* A number, or the least and the most. */
static void read_work(struct build *b, json_t *obj, struct generate *g)
{
	json_t *v = json_object_get(obj, "work");
	json_t *low = json_is_array(v) ? json_array_get(v, 0) : v;
	json_t *high = json_is_array(v) ? json_array_get(v, 1) : v;

	g->work_low = (uint64_t)json_integer_value(low);
	g->work_high = (uint64_t)json_integer_value(high);
	if ((json_is_array(v) && json_array_size(v) != 2) || json_integer_value(low) < 1 ||
	    json_integer_value(high) < json_integer_value(low) || g->work_high > 1ull << 40)
		reader_fail(&b->r, -EINVAL, "work", "must be a whole number of work items from 1 to %llu, or the least and the most: [1000, 4000]",
			    1ull << 40);
}

static bool is_tiled(const char *type)
{
	return !strcmp(type, "cholesky") || !strcmp(type, "lu");
}

static void read_shape(struct build *b, json_t *obj, const char *type, struct generate *g)
{
	static const char *const common[] = {
		"type", "tenant", "apps", "arrive_ms", "every_ms", "arrival", "window", "pin",
		"priority", "target_ms", "buffers",
	};
	static const char *const layered[] = {
		"layers", "width", "fan_in", "kernels", "work", "mb", NULL,
	};
	static const char *const streams[] = { "width", "length", "kernels", "work", "mb", NULL };
	static const char *const tiled[] = { "tiles", "tile", NULL };
	static const char *const bench[] = { "n", "rounds", NULL };
	static const char *const trace[] = { "file", "loop", NULL };
	bool is_layered = !strcmp(type, "layered"), is_streams = !strcmp(type, "streams");
	bool is_trace = !strcmp(type, "trace");
	const char *const *own = is_layered ? layered : is_streams ? streams : is_tiled(type) ? tiled :
				 is_trace ? trace : bench;
	const char *known[24];
	size_t n = sizeof(common) / sizeof(common[0]), i = 0;

	memcpy(known, common, sizeof(common));
	while ((known[n + i] = own[i]))
		i++;
	reader_keys(&b->r, obj, known);
	if (is_layered || is_streams) {
		g->width = reader_count(&b->r, obj, "width", 1, 65536, UINT64_MAX);
		read_kernel_names(b, obj, g);
		read_work(b, obj, g);
		g->bytes = reader_units(&b->r, obj, "mb", LEAST, 1e6, NAN, MB);
	}
	if (is_layered) {
		g->layers = reader_count(&b->r, obj, "layers", 1, 1u << 20, UINT64_MAX);
		g->fan_in = reader_count(&b->r, obj, "fan_in", 0, ARAX_MAX_RANGES - 1, 2);
	} else if (is_streams) {
		g->length = reader_count(&b->r, obj, "length", 1, 1u << 24, UINT64_MAX);
	} else if (is_tiled(type)) {
		g->tiles = reader_count(&b->r, obj, "tiles", 1, 512, UINT64_MAX);
		g->tile = reader_count(&b->r, obj, "tile", 1, 65536, UINT64_MAX);
	} else if (!is_trace) {
		/* Of a picture it is the side: the elements are its square. */
		bool side = !strcmp(type, "img") || !strcmp(type, "dl");

		g->n = reader_count(&b->r, obj, "n", 100, side ? 1ull << 20 : 1ull << 36, UINT64_MAX);
		g->rounds = reader_count(&b->r, obj, "rounds", 1, 1u << 16, 1);
	}
}

/* How many tasks it will be, or a little more; counted before any is made. */
static double expected(const char *type, const struct generate *g)
{
	double t = (double)g->tiles;

	if (!strcmp(type, "layered"))
		return (double)g->layers * (double)g->width;
	if (!strcmp(type, "streams"))
		return (double)g->length * (double)g->width;
	if (g->tiles)
		return t * t * t / 3 + t * t;
	return 60 * (double)g->rounds;
}

static void read_pin(struct build *b, json_t *obj, uint32_t *pin, bool *spread)
{
	char name[SIM_NAME];

	*pin = SIM_ANY;
	reader_string(&b->r, obj, "pin", name, sizeof(name), "");
	*spread = !strcmp(name, SPREAD);
	if (!*name || *spread)
		return;
	for (*pin = 0; *pin < b->sc->nr_devices; ++*pin)
		if (!strcmp(b->sc->devices[*pin].name, name))
			return;
	reader_fail(&b->r, -EINVAL, "pin", "'%s' is no device; give one, or \"%s\"", name,
		    SPREAD);
}

static void need_kernels(struct build *b, const struct generator *gen, uint16_t *kernels)
{
	for (size_t i = 0; gen && gen->needs[i] && i < GENERATE_KERNELS; i++) {
		uint32_t k = scenario_kernel(b->sc, gen->needs[i]);

		if (k == SIM_ANY)
			reader_fail(&b->r, -EINVAL, "type", "%s needs the kernel '%s': add it to kernels",
				    gen->type, gen->needs[i]);
		kernels[i] = (uint16_t)k;
	}
}

/* Into the last application; those of other contexts of the trace come behind it. */
static void read_trace(struct build *b, json_t *obj, bool closed)
{
	struct sim_app *a = &b->sc->work.apps[b->sc->work.nr - 1];
	uint32_t i = b->sc->work.nr - 1, base = b->sc->nr_timelines;
	char file[256], path[PATH_MAX + sizeof(file)], error[PATH_MAX + 512];
	const char *slash = strrchr(b->r.file, '/');
	int err;

	reader_string(&b->r, obj, "file", file, sizeof(file), NULL);
	if (b->r.err)
		return;
	if (file[0] == '/' || !slash)
		snprintf(path, sizeof(path), "%s", file);
	else
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - b->r.file), b->r.file, file);
	err = trace_load(b->sc, a, path, error, sizeof(error));
	if (err) {
		reader_fail(&b->r, err, "file", "%s", error);
		return;
	}
	b->sc->nr_timelines += a->nr_timelines;
	for (uint32_t k = 0; k < a->nr_hows; k++) {
		a->hows[k].wait += a->hows[k].wait ? base : 0;
		a->hows[k].signal += a->hows[k].signal ? base : 0;
	}
	if (a->hows && !app_complete(a))
		err = -ENOMEM;
	if (!err && !contexts_split(&b->sc->work))
		err = -ENOMEM;
	for (; closed && !err && i < b->sc->work.nr; i++)
		err = contexts_close(&b->sc->work.apps[i]);
	if (err == -EINVAL)
		reader_fail(&b->r, err, "loop", "\"closed\" needs the end of each task (end_us) in the trace, as arax trace --tasks writes it");
	else if (err)
		reader_fail(&b->r, err, NULL, "out of memory");
}

static bool read_loop(struct build *b, json_t *obj)
{
	char loop[SIM_NAME];

	reader_string(&b->r, obj, "loop", loop, sizeof(loop), "open");
	if (strcmp(loop, "open") && strcmp(loop, "closed"))
		reader_fail(&b->r, -EINVAL, "loop", "must be \"open\" (tasks come when they came) or \"closed\"");
	return loop[0] == 'c';
}

/* A number, or "path": @path. */
static int32_t read_priority(struct build *b, json_t *obj, const char *type, bool *path)
{
	const char *text = json_string_value(json_object_get(obj, "priority"));

	*path = text ? !strcmp(text, "path") : !json_object_get(obj, "priority") && is_tiled(type);
	if (text && !*path)
		reader_fail(&b->r, -EINVAL, "priority", "'%s' is none: give a number from -20 to 19, or \"path\"",
			    text);
	return *path || text ? 0 : reader_whole(&b->r, obj, "priority", -20, 19, 0);
}

static double next_arrival(struct build *b, double now, double every, bool random)
{
	if (!random)
		return now + every;
	/* Gaps as between events that know nothing of each other. */
	return now - every * log(1 - rng_unit(rng_next(&b->rng)));
}

/* So many @more than there are so far. */
static void check_tasks(struct build *b, double more)
{
	if (!b->r.err && more + (double)b->nr_tasks > SIM_MAX_TASKS)
		reader_fail(&b->r, -E2BIG, "type", "there are more than %u tasks in all: make it smaller",
			    SIM_MAX_TASKS);
}

/* Of the application @k and those behind it. */
static double tasks_from(const struct scenario *sc, uint32_t k)
{
	double n = 0;

	for (; k < sc->work.nr; k++)
		n += sc->work.apps[k].nr_tasks;
	return n;
}

static void read_work_entry(struct build *b, json_t *obj)
{
	char type[SIM_NAME], tenant[SIM_NAME], arrival[SIM_NAME], buffers[SIM_NAME];
	struct generate g = { 0 };
	const struct generator *gen;
	uint16_t kernels[GENERATE_KERNELS];
	uint32_t first, tenants, pin;
	uint64_t apps, window, target;
	double at, every;
	int32_t priority;
	bool spread, path, closed;

	reader_string(&b->r, obj, "type", type, sizeof(type), NULL);
	gen = generator_find(type);
	if (!b->r.err && !gen && strcmp(type, "trace"))
		reader_fail(&b->r, -EINVAL, "type", "'%s' is none: give %s", type,
			    generator_names());
	if (b->r.err)
		return;
	read_shape(b, obj, type, &g);
	reader_string(&b->r, obj, "tenant", tenant, sizeof(tenant), b->sc->tenants[0].name);
	first = find_named(b, 't', tenant, &tenants);
	if (!b->r.err && first == SIM_ANY)
		reader_fail(&b->r, -EINVAL, "tenant", "'%s' is none: add it to tenants", tenant);
	apps = reader_count(&b->r, obj, "apps", 1, 1u << 20, 1);
	window = reader_count(&b->r, obj, "window", 1, ARAX_MAX_DEPTH, gen ? 64 : ARAX_MAX_DEPTH);
	at = reader_number(&b->r, obj, "arrive_ms", 0, MAX_MS, 0) * MS;
	every = reader_number(&b->r, obj, "every_ms", 0, MAX_MS, 0) * MS;
	reader_string(&b->r, obj, "arrival", arrival, sizeof(arrival), "regular");
	if (strcmp(arrival, "regular") && strcmp(arrival, "random"))
		reader_fail(&b->r, -EINVAL, "arrival", "must be \"regular\" or \"random\"");
	reader_string(&b->r, obj, "buffers", buffers, sizeof(buffers), "explicit");
	if (strcmp(buffers, "explicit") && strcmp(buffers, "plain"))
		reader_fail(&b->r, -EINVAL, "buffers", "must be \"explicit\" (as ARAX_BUFFER_EXPLICIT) or \"plain\"");
	priority = read_priority(b, obj, type, &path);
	target = reader_units(&b->r, obj, "target_ms", 0, MAX_MS, 0, MS);
	read_pin(b, obj, &pin, &spread);
	closed = read_loop(b, obj);
	need_kernels(b, gen, kernels);
	check_tasks(b, (double)apps * expected(type, &g));
	for (uint64_t i = 0; i < apps && !b->r.err; i++) {
		struct rng rng = { .seed = rng_next(&b->rng) };
		struct sim_app *a = workload_app(&b->sc->work);
		uint32_t k = b->sc->work.nr - 1;

		if (!a) {
			reader_fail(&b->r, -ENOMEM, NULL, "out of memory");
			return;
		}
		a->arrive_ns = event_ns(round(at));
		a->window = (uint32_t)window;
		a->plain = buffers[0] == 'p';
		a->priority = priority;
		a->target_ns = target;
		at = next_arrival(b, at, every, arrival[1] == 'a');
		if (gen)
			gen->make(a, &g, kernels, &rng);
		else
			read_trace(b, obj, closed);
		/* A trace says only now how many it has; the others to come will be alike. */
		check_tasks(b, (double)(apps - i) * tasks_from(b->sc, k));
		for (; k < b->sc->work.nr; k++) {
			a = &b->sc->work.apps[k];
			a->tenant = first + (uint32_t)((i + a->tenant) % tenants);
			a->pin = spread ? k % b->sc->nr_devices : pin;
			/* Very many are small. */
			if (!app_done(a) || !app_trim(a) || (path && dag_priorities(b->sc, a)))
				reader_fail(&b->r, -ENOMEM, NULL, "out of memory");
			b->nr_tasks += a->nr_tasks;
		}
	}
}

/* ------------------------------------------------------------------ */

static void read_root(struct build *b, json_t *root, const uint64_t *seed)
{
	static const char *const known[] = {
		"name", "seed", "policy", "models", "jitter", "task_failure", "machine", "kernels",
		"tenants", "workload", NULL,
	};
	struct scenario *sc = b->sc;
	struct reader *r = &b->r;
	char models[SIM_NAME], why[192];

	reader_keys(r, root, known);
	reader_string(r, root, "name", sc->name, sizeof(sc->name), "scenario");
	reader_string(r, root, "policy", sc->policy, sizeof(sc->policy), "eft");
	if (!r->err && !sim_has_policy(sc->policy, why, sizeof(why)))
		reader_fail(r, -EINVAL, "policy", "%s", why);
	reader_string(r, root, "models", models, sizeof(models), "warm");
	if (strcmp(models, "warm") && strcmp(models, "cold"))
		reader_fail(r, -EINVAL, "models", "must be \"warm\" (run times are known) or \"cold\"");
	sc->warm = models[0] == 'w';
	sc->seed = reader_count(r, root, "seed", 0, MAX_SEED, 1);
	if (seed)
		sc->seed = *seed;
	b->rng.seed = sc->seed;
	sc->jitter = reader_number(r, root, "jitter", 0, 0.9, 0);
	sc->fail = reader_number(r, root, "task_failure", 0, 1, 0);
	if (!json_is_object(json_object_get(root, "machine")))
		reader_fail(r, -EINVAL, "machine", "must be an object with links and devices");
	if (!r->err)
		read_machine(b, json_object_get(root, "machine"));
	if (!r->err)
		each(b, root, "kernels", SIM_MAX_KERNELS, true, read_kernel);
	if (!r->err)
		each(b, root, "tenants", SIM_MAX_TENANTS, true, read_tenant);
	if (!r->err)
		each(b, root, "workload", 1u << 16, true, read_work_entry);
}

int scenario_load(struct scenario *sc, const char *file, const char *text, size_t bytes,
		  const uint64_t *seed, char *error, size_t len)
{
	struct build b = { .sc = sc, .r = { .file = file, .error = error, .len = len } };
	char *copy = calloc(bytes + 1, 1);
	json_error_t je;
	json_t *root;

	*sc = (struct scenario){ 0 };
	if (!copy) {
		snprintf(error, len, "%s: out of memory", file);
		return -ENOMEM;
	}
	memcpy(copy, text, bytes);
	b.r.text = copy;
	b.names = json_object();
	root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &je);
	if (!b.names) {
		snprintf(error, len, "%s: out of memory", file);
		b.r.err = -ENOMEM;
	} else if (!root) {
		snprintf(error, len, "%s:%d: column %d: %s", file, je.line, je.column, je.text);
		mute(error);
		b.r.err = -EINVAL;
	} else {
		read_root(&b, root, seed);
	}
	json_decref(root);
	json_decref(b.names);
	free(copy);
	if (b.r.err)
		scenario_fini(sc);
	return b.r.err;
}

void scenario_fini(struct scenario *sc)
{
	workload_fini(&sc->work);
	free(sc->links);
	free(sc->devices);
	free(sc->kernels);
	free(sc->tenants);
	*sc = (struct scenario){ 0 };
}
