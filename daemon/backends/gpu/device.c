// SPDX-License-Identifier: MIT
/* One device: its context and lanes, and a new context when the old one broke. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/gpu/gpu.h"
#include "daemon/brief_mutex.h"

/* Left to the driver: stacks, printf buffers, modules, what fragmentation takes. */
#define RESERVE_PART	16
#define RESERVE_MAX	(512ull << 20)

void gpu_log(const struct gpu_stack *s, int level, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->araxd->log(level, s->driver->name, text);
}

void gpu_explain(const struct gpu_stack *s, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!ARAX_HOST_HAS(s->araxd, explain) || !s->araxd->explain)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->araxd->explain(text);
}

/*
 * (entered) Whether the context is broken by an error that we don't know: then each call fails.
 * Drivers have new ones with each version, and one for what they can't name themselves.
 */
static bool is_broken_by(struct gpu_device *d, int err)
{
	enum gpu_harm harm = d->driver->harm(err);
	int again;

	if (harm != GPU_HARM_UNKNOWN || !d->memory_stream)
		return harm != GPU_HARM_NONE;
	again = d->driver->stream_query(d->memory_stream);
	return again && !d->driver->not_ready(again);
}

int gpu_check(struct gpu_device *d, int err, const char *what)
{
	if (!err)
		return 0;
	if (d->driver->error_code(err) == -EIO)
		gpu_explain(d->stack, "%s: %s: %s", d->name, what, d->driver->error_name(err));
	if (!is_broken_by(d, err))
		return d->driver->error_code(err);
	if (!__atomic_exchange_n(&d->broken, 1, __ATOMIC_ACQ_REL))
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: %s: %s: its context is broken", d->name, what,
			d->driver->error_name(err));
	return -ENODEV;
}

/* (context_lock) */
static int use_context(struct gpu_device *d, bool broken)
{
	int err = !broken && __atomic_load_n(&d->broken, __ATOMIC_ACQUIRE) ? -ENODEV : 0;

	/* To ask what it had said there need be none any more. */
	if (!err && d->open)
		err = gpu_check(d, d->driver->context_use(d->place, d->context), "context");
	if (err)
		pthread_rwlock_unlock(&d->context_lock);
	return err;
}

int gpu_enter(struct gpu_device *d)
{
	pthread_rwlock_rdlock(&d->context_lock);
	return use_context(d, false);
}

int gpu_try_enter(struct gpu_device *d)
{
	return pthread_rwlock_tryrdlock(&d->context_lock) ? -EBUSY : use_context(d, false);
}

int gpu_enter_broken(struct gpu_device *d)
{
	pthread_rwlock_rdlock(&d->context_lock);
	return use_context(d, true);
}

void gpu_leave(struct gpu_device *d)
{
	pthread_rwlock_unlock(&d->context_lock);
}

/* ------------------------------------------------------------------ */
/* The context and what lives in it                                      */

static int open_words(struct gpu_device *d, struct gpu_words **words, uint64_t *address)
{
	void *host = NULL;
	int err = d->driver->host_alloc(sizeof(**words), &host, address);

	if (err)
		return err;
	memset(host, 0, sizeof(**words));
	*words = host;
	return 0;
}

static void close_words(struct gpu_device *d, struct gpu_words **words)
{
	if (*words)
		d->driver->host_free(*words);
	*words = NULL;
}

static int open_launch(struct gpu_device *d, struct gpu_launch *x)
{
	const struct gpu_driver *v = d->driver;
	int err;

	err = v->event_create(true, &x->start);
	if (!err)
		err = v->event_create(true, &x->stop);
	if (!err)
		err = v->event_create(false, &x->event);
	if (!err)
		err = open_words(d, &x->words, &x->words_address);
	x->turn = 0;
	/* Of a stream that is gone. */
	memset(&x->end, 0, sizeof(x->end));
	return err;
}

static void close_launch(struct gpu_device *d, struct gpu_launch *x)
{
	const struct gpu_driver *v = d->driver;

	close_words(d, &x->words);
	if (x->event)
		v->event_destroy(x->event);
	if (x->stop)
		v->event_destroy(x->stop);
	if (x->start)
		v->event_destroy(x->start);
	x->event = NULL;
	x->stop = NULL;
	x->start = NULL;
}

static int open_copies(struct gpu_device *d, struct gpu_copies *c)
{
	int err = d->driver->stream_create(&c->stream);

	for (int i = 0; !err && i < GPU_COPY_EVENTS; i++)
		err = d->driver->event_create(false, &c->events[i]);
	return err;
}

static void close_copies(struct gpu_device *d, struct gpu_copies *c)
{
	for (int i = 0; i < GPU_COPY_EVENTS; i++) {
		if (c->events[i])
			d->driver->event_destroy(c->events[i]);
		c->events[i] = NULL;
	}
	if (c->stream)
		d->driver->stream_destroy(c->stream);
	c->stream = NULL;
}

static int open_lane(struct gpu_device *d, struct gpu_lane *lane)
{
	const struct gpu_driver *v = d->driver;
	int err;

	err = v->stream_create(&lane->stream);
	if (!err)
		err = open_copies(d, &lane->in);
	if (!err)
		err = open_copies(d, &lane->out);
	for (int i = 0; !err && i < ARAX_LANE_DEPTH; i++)
		err = open_launch(d, &lane->launches[i]);
	return err;
}

static void close_lane(struct gpu_device *d, struct gpu_lane *lane)
{
	const struct gpu_driver *v = d->driver;

	for (int i = 0; i < ARAX_LANE_DEPTH; i++)
		close_launch(d, &lane->launches[i]);
	close_copies(d, &lane->in);
	close_copies(d, &lane->out);
	if (lane->stream)
		v->stream_destroy(lane->stream);
	lane->stream = NULL;
}

/* What launches tell those behind them, all 0: no launch has that number. */
static int open_results(struct gpu_device *d)
{
	static const uint32_t none[GPU_MAX_LANES][GPU_RESULTS];
	const struct gpu_driver *v = d->driver;
	uint64_t bytes = d->nr_lanes * sizeof(none[0]);
	int err = v->alloc(false, d->memory_stream, bytes, &d->results);

	if (!err)
		err = v->copy_in(d->results, none, bytes, d->memory_stream);
	if (!err)
		err = v->stream_wait(d->memory_stream);
	for (uint32_t i = 0; !err && i < d->nr_lanes; i++)
		d->lanes[i].failed = d->results + i * sizeof(none[0]);
	return err;
}

static void close_results(struct gpu_device *d)
{
	if (d->results)
		d->driver->free(false, d->memory_stream, d->results);
	d->results = 0;
}

/* Whether words are written: not all drivers can, nor all devices. */
static bool try_mark(struct gpu_device *d, const struct gpu_lane *lane)
{
	const struct gpu_launch *x = &lane->launches[0];
	const struct gpu_driver *v = d->driver;

	return v->mark &&
	       !v->mark(lane->stream, x->words_address + offsetof(struct gpu_words, mark),
			UINT32_MAX) && !v->stream_wait(lane->stream) &&
	       __atomic_load_n(&x->words->mark, __ATOMIC_ACQUIRE) == UINT32_MAX;
}

/* Returns the driver's error; what there is by then is close_context()'s. */
static int open_context(struct gpu_device *d)
{
	const struct gpu_driver *v = d->driver;
	int err = v->context_create(d->place, &d->context);

	d->contexts++;
	d->open = true;
	memset(d->joined, 0, sizeof(d->joined));
	if (!err)
		err = v->context_use(d->place, d->context);
	if (!err)
		err = v->stream_create(&d->memory_stream);
	for (uint32_t i = 0; !err && i < d->nr_lanes; i++)
		err = open_lane(d, &d->lanes[i]);
	if (!err && d->pooled && v->pool_keep(d->place))
		d->pooled = false;
	d->marks = !err && try_mark(d, &d->lanes[0]);
	return err;
}

/* In a broken context these calls fail; the driver forgets the handles with it. */
static void close_context(struct gpu_device *d)
{
	if (!d->open)
		return;
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		close_lane(d, &d->lanes[i]);
	close_results(d);
	if (d->memory_stream)
		d->driver->stream_destroy(d->memory_stream);
	d->memory_stream = NULL;
	d->driver->context_destroy(d->place, d->context);
	d->context = NULL;
	d->open = false;
}

/* Other processes have their part of it. */
static int find_room(struct gpu_device *d)
{
	uint64_t available = 0, total = 0, reserve;
	int err = d->driver->memory_info(&available, &total);

	reserve = available / RESERVE_PART;
	d->bytes = available - (reserve < RESERVE_MAX ? reserve : RESERVE_MAX);
	if (d->stack->options.memory && d->stack->options.memory < d->bytes)
		d->bytes = d->stack->options.memory;
	return err;
}

/* Without them all else works. */
static void open_gauges(struct gpu_device *d)
{
	const char *library = d->stack->options.nvml;

	if (!d->driver->nvml)
		return;
	if (!d->bus[0])
		snprintf(d->no_gauges, sizeof(d->no_gauges), "the driver does not say where it is");
	else
		gpu_nvml_open(library[0] ? library : NULL, d->bus, &d->gauges, d->no_gauges,
			      sizeof(d->no_gauges));
	if (!d->gauges)
		gpu_log(d->stack, ARAX_LOG_INFO, "%s: utilisation and power are not known: %s",
			d->name, d->no_gauges);
}

static void name_uuid(struct gpu_device *d)
{
	static const uint8_t none[16];
	uint8_t u[16];
	int n = 0;

	d->driver->uuid(d->place, u);
	if (!memcmp(u, none, sizeof(u)))
		return;
	for (int i = 0; i < 16; i++)
		n += snprintf(d->uuid + n, sizeof(d->uuid) - (size_t)n,
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
}

int gpu_device_open(struct gpu_stack *s, uint32_t index, struct gpu_device **dev)
{
	const struct gpu_driver *v = s->driver;
	struct gpu_device *d;
	int err;

	if (index >= s->nr_places)
		return -ENODEV;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->stack = s;
	d->driver = v;
	d->index = index;
	d->place = s->places[index];
	d->nr_lanes = s->options.lanes;
	d->careful = s->options.careful ? GPU_CAREFUL : 0;
	pthread_rwlock_init(&d->context_lock, NULL);
	pthread_mutex_init(&d->alone, NULL);
	brief_mutex_init(&d->memory_lock);
	pthread_mutex_init(&d->modules_lock, NULL);
	for (uint32_t i = 0; i < GPU_MAX_LANES; i++)
		pthread_mutex_init(&d->lanes[i].lock, NULL);
	err = v->describe(d->place, &d->limits);
	snprintf(d->name, sizeof(d->name), "%s%u %.48s", v->name, index, d->limits.name);
	if (v->bus_id(d->place, d->bus, sizeof(d->bus)))
		d->bus[0] = '\0';
	name_uuid(d);
	d->pooled = s->options.pools && d->limits.pools;
	if (!err)
		err = open_context(d);
	if (!err)
		err = find_room(d);
	if (!err)
		err = open_results(d);
	if (!err && d->limits.places && v->map_granule(d->place, &d->granule))
		d->limits.places = false;
	if (err) {
		gpu_log(s, ARAX_LOG_ERR, "%s: can't be opened: %s", d->name, v->error_name(err));
		err = v->error_code(err);
		gpu_device_close(d);
		return err;
	}
	gpu_log(s, ARAX_LOG_INFO, "%s: architecture %s, %u units, %" PRIu64 " of %" PRIu64
		" bytes for us, memory pools: %s, memory at wanted addresses: %s, words behind launches: %s",
		d->name, d->limits.arch, d->limits.units, d->bytes, d->limits.bytes,
		d->pooled ? "yes" : "no", d->limits.places ? "yes" : "no", d->marks ? "yes" : "no");
	open_gauges(d);
	*dev = d;
	return 0;
}

void gpu_device_close(struct gpu_device *d)
{
	struct gpu_stack *s = d->stack;

	pthread_rwlock_wrlock(&s->devices_lock);
	d->driver->context_use(d->place, d->context);
	gpu_memory_drop(d);
	gpu_stream_close(d);
	gpu_hosts_gone(d);
	close_context(d);
	pthread_rwlock_destroy(&d->context_lock);
	pthread_mutex_destroy(&d->alone);
	pthread_mutex_destroy(&d->memory_lock);
	pthread_mutex_destroy(&d->modules_lock);
	for (uint32_t i = 0; i < GPU_MAX_LANES; i++)
		pthread_mutex_destroy(&d->lanes[i].lock);
	free(d->allocations);
	free(d);
	pthread_rwlock_unlock(&s->devices_lock);
}

/* ------------------------------------------------------------------ */
/* A new context                                                         */

static int reload(struct gpu_device *d)
{
	int err = 0;

	for (struct gpu_module *m = d->modules; !err && m; m = m->next)
		err = gpu_module_load(d, m);
	for (struct gpu_kernel *k = d->kernels; !err && k; k = k->next)
		err = gpu_kernel_reload(d, k);
	return err;
}

static void tell_reset(struct gpu_device *d, int err)
{
	if (err)
		gpu_log(d->stack, ARAX_LOG_ERR, "%s: no new context: %s", d->name, strerror(-err));
	else
		gpu_log(d->stack, ARAX_LOG_WARNING,
			"%s: has a new context; the next %u launches run one at a time", d->name,
			GPU_CAREFUL);
}

/* What look_at_broken() in run.c is to know of launches whose end nobody has seen. */
static void note_ends(struct gpu_device *d)
{
	int err = d->memory_stream ? d->driver->stream_query(d->memory_stream) : 0;

	/* Not all drivers say it at each call. */
	d->sticky = d->driver->not_ready(err) ? 0 : err;
	for (uint32_t i = 0; i < d->nr_lanes; i++)
		for (int j = 0; j < ARAX_LANE_DEPTH; j++) {
			struct gpu_launch *x = &d->lanes[i].launches[j];

			x->written = x->words && x->end.word == &x->words->mark && !x->end.event &&
				     gpu_has_ended(d, &x->end, &err) && !err;
		}
}

/* (context held alone) */
static void end_context(struct gpu_device *d)
{
	const struct gpu_driver *v = d->driver;

	if (!d->open)
		return;
	v->context_use(d->place, d->context);
	note_ends(d);
	pthread_mutex_lock(&d->modules_lock);
	for (struct gpu_module *m = d->modules; m; m = m->next) {
		if (m->module)
			v->module_unload(m->module);
		m->module = NULL;
	}
	gpu_stream_close(d);
	close_context(d);
	pthread_mutex_unlock(&d->modules_lock);
	gpu_hosts_gone(d);
}

void gpu_context_end(struct gpu_device *d, uint32_t number)
{
	pthread_rwlock_wrlock(&d->context_lock);
	if (d->contexts == number && __atomic_load_n(&d->broken, __ATOMIC_ACQUIRE))
		end_context(d);
	pthread_rwlock_unlock(&d->context_lock);
}

bool gpu_context_try_end(struct gpu_device *d, uint32_t number)
{
	if (pthread_rwlock_trywrlock(&d->context_lock))
		return false;
	if (d->contexts == number && __atomic_load_n(&d->broken, __ATOMIC_ACQUIRE))
		end_context(d);
	pthread_rwlock_unlock(&d->context_lock);
	return true;
}

int gpu_device_reset(struct gpu_device *d)
{
	const struct gpu_driver *v = d->driver;
	int err;

	pthread_rwlock_wrlock(&d->context_lock);
	if (d->open)
		v->context_use(d->place, d->context);
	/* What was submitted may use the memory still; in a broken context nothing runs. */
	for (uint32_t i = 0; i < d->nr_lanes; i++) {
		for (int j = 0; j < ARAX_LANE_DEPTH; j++)
			__atomic_store_n(&d->lanes[i].launches[j].lost, true, __ATOMIC_RELAXED);
		if (d->lanes[i].stream)
			v->stream_wait(d->lanes[i].stream);
	}
	gpu_memory_drop(d);
	end_context(d);
	__atomic_store_n(&d->broken, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&d->modules_lock);
	err = open_context(d);
	err = gpu_check(d, err ? err : open_results(d), "new context");
	if (!err)
		err = reload(d);
	pthread_mutex_unlock(&d->modules_lock);
	if (err)
		__atomic_store_n(&d->broken, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&d->careful, GPU_CAREFUL, __ATOMIC_RELAXED);
	pthread_rwlock_unlock(&d->context_lock);
	/* It can be entered: who takes away what is in it again has to be able to, meanwhile. */
	if (!err && !gpu_enter(d)) {
		gpu_hosts_again(d);
		gpu_leave(d);
	}
	tell_reset(d, err);
	return err ? -ENODEV : 0;
}
