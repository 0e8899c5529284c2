// SPDX-License-Identifier: MIT
/*
 * A device's stack: the backend's device below, filters above, the first filter
 * of the configuration on top.  Without filters device_run() calls the backend
 * itself.
 */
#include "daemon/backends/device.h"

#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backends/plugin.h"
#include "daemon/log.h"
#include "daemon/reason.h"
#include "uapi/arax.h"

#define DUMP_MAX (1u << 20)

struct backend {
	struct backend_plugin plugin;
	char *name;
	bool loaded;
};

struct filter {
	struct filter_plugin plugin;
	char *name;
	char *devices;
	void *instance;
	bool used;		/* by a device */
};

/* A filter on one device; `next` or `elsewhere` is what the filter is given. */
struct layer {
	struct arax_next next;		/* the layer is found from either */
	struct arax_next elsewhere;	/* of launches that the device doesn't run */
	const struct arax_filter *ops;
	void *instance;
	void *dev;			/* the filter's */
	struct layer *below;		/* NULL: the backend */
	struct device_top *stack;
};

struct device_top {
	const struct arax_backend *ops;
	void *dev;			/* the backend's */
	uint32_t nr_layers;
	struct layer *layers;		/* 0 is the lowest */
};

struct devices {
	uint32_t nr_devices, nr_backends, nr_filters, nr_absent;
	struct device **devices;
	struct backend *backends;
	struct filter *filters;
	struct device_absent *absent;
	bool left;
};

/* ------------------------------------------------------------------ */
/* Through the layers                                                    */

static int layer_run(void *top, struct arax_backend_run *run)
{
	struct layer *l = top;

	return l->ops->run ? l->ops->run(l->dev, &l->next, run) : l->next.run(&l->next, run);
}

static int layer_copy_in(struct layer *l, uint32_t lane, uint64_t to, const void *from,
			 uint64_t bytes)
{
	if (l->ops->copy_in)
		return l->ops->copy_in(l->dev, &l->next, lane, to, from, bytes);
	return l->next.copy_in(&l->next, lane, to, from, bytes);
}

static int layer_copy_out(struct layer *l, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	if (l->ops->copy_out)
		return l->ops->copy_out(l->dev, &l->next, lane, to, from, bytes);
	return l->next.copy_out(&l->next, lane, to, from, bytes);
}

static int next_run(const struct arax_next *next, struct arax_backend_run *run)
{
	const struct layer *l = (const struct layer *)next;

	if (l->below)
		return layer_run(l->below, run);
	return l->stack->ops->run(l->stack->dev, run);
}

static int layer_elsewhere(struct layer *l, struct arax_backend_run *run)
{
	const struct arax_next *next = &l->elsewhere;

	return l->ops->run ? l->ops->run(l->dev, next, run) : next->run(next, run);
}

/* What is below all layers comes with the launch. */
static int next_elsewhere(const struct arax_next *next, struct arax_backend_run *run)
{
	const struct layer *l = (const struct layer *)((const char *)next -
						       offsetof(struct layer, elsewhere));
	struct device_elsewhere *e = run->kernel;

	return l->below ? layer_elsewhere(l->below, run) : e->run(e, run);
}

bool device_has_filters(const struct device *dev)
{
	return dev->stack->nr_layers;
}

int device_run_elsewhere(struct device *dev, struct device_elsewhere *e,
			 struct arax_backend_run *run)
{
	struct device_top *t = dev->stack;

	run->kernel = e;
	return t->nr_layers ? layer_elsewhere(&t->layers[t->nr_layers - 1], run) : e->run(e, run);
}

static int next_copy_in(const struct arax_next *next, uint32_t lane, uint64_t to,
			const void *from, uint64_t bytes)
{
	const struct layer *l = (const struct layer *)next;

	if (l->below)
		return layer_copy_in(l->below, lane, to, from, bytes);
	return l->stack->ops->copy_in(l->stack->dev, lane, to, from, bytes);
}

static int next_copy_out(const struct arax_next *next, uint32_t lane, void *to, uint64_t from,
			 uint64_t bytes)
{
	const struct layer *l = (const struct layer *)next;

	if (l->below)
		return layer_copy_out(l->below, lane, to, from, bytes);
	return l->stack->ops->copy_out(l->stack->dev, lane, to, from, bytes);
}

/* ------------------------------------------------------------------ */
/* Opening                                                               */

static void device_free_all(struct device *dev)
{
	struct device_top *t = dev->stack;

	/* From the top: a layer may use what is below it until it is closed. */
	while (t->nr_layers) {
		struct layer *l = &t->layers[--t->nr_layers];

		if (l->ops->close)
			l->ops->close(l->instance, l->dev);
	}
	if (t->dev)
		t->ops->close(t->dev);
	free(t->layers);
	free(t);
	free(dev);
}

static int add_layers(struct devices *d, struct device *dev)
{
	struct device_top *t = dev->stack;
	bool copies = t->ops->copy_in && t->ops->copy_out && dev->info.memory;

	t->layers = calloc(d->nr_filters + 1, sizeof(*t->layers));
	if (!t->layers)
		return -ENOMEM;
	for (uint32_t i = d->nr_filters; i-- > 0;) {
		struct filter *f = &d->filters[i];
		struct layer *l = &t->layers[t->nr_layers];
		int err = 0;

		if (fnmatch(f->devices, dev->info.name, 0))
			continue;
		l->next = (struct arax_next){
			.struct_size = sizeof(l->next),
			.run = next_run,
			.copy_in = copies ? next_copy_in : NULL,
			.copy_out = copies ? next_copy_out : NULL,
		};
		/* Where there are copies launches are the device's. */
		l->elsewhere = (struct arax_next){
			.struct_size = sizeof(l->elsewhere), .run = next_elsewhere,
		};
		l->ops = &f->plugin.ops;
		l->instance = f->instance;
		l->below = t->nr_layers ? l - 1 : NULL;
		l->stack = t;
		if (l->ops->open)
			err = l->ops->open(f->instance, &dev->info, &l->dev);
		if (err) {
			log_err("filter refuses device", log_str("filter", f->name),
				log_str("device", dev->info.name), log_errno(err));
			return err;
		}
		f->used = true;
		t->nr_layers++;
		dev->run = layer_run;
		dev->top = l;
	}
	return 0;
}

/* Its memory would be given out twice, and each would take its time for its own. */
static void warn_if_shared(const struct devices *d, const struct device *dev)
{
	for (uint32_t i = 0; dev->info.bus[0] && i < d->nr_devices; i++) {
		const struct device *other = d->devices[i];

		if (strcasecmp(other->info.bus, dev->info.bus) || !strcmp(other->backend, dev->backend))
			continue;
		log_warn("two backends have the same device", log_str("device", dev->info.name),
			 log_str("other", other->info.name), log_str("bus", dev->info.bus),
			 log_str("remedy", "give it to one of them: --kind, or their option devices"));
		return;
	}
}

static int open_device(struct devices *d, struct backend *b, uint32_t index)
{
	struct device *dev = calloc(1, sizeof(*dev));
	struct device_top *t = calloc(1, sizeof(*t));
	struct device **more;
	int err = -ENOMEM;

	if (!dev || !t) {
		free(dev);
		free(t);
		return -ENOMEM;
	}
	dev->stack = t;
	t->ops = &b->plugin.ops;
	more = realloc(d->devices, (d->nr_devices + 1) * sizeof(*more));
	if (!more)
		goto fail;
	d->devices = more;
	err = t->ops->open(index, &t->dev);
	if (err)
		goto fail;
	dev->index = d->nr_devices;
	dev->backend = b->name;
	dev->backend_index = index;
	dev->run = t->ops->run;
	dev->top = t->dev;
	dev->info.size = sizeof(dev->info);
	err = t->ops->info(t->dev, &dev->info);
	if (err)
		goto fail;
	dev->info.name[sizeof(dev->info.name) - 1] = '\0';
	dev->info.cpus[sizeof(dev->info.cpus) - 1] = '\0';
	dev->info.bus[sizeof(dev->info.bus) - 1] = '\0';
	dev->info.make[sizeof(dev->info.make) - 1] = '\0';
	if (!dev->info.lanes)
		dev->info.lanes = 1;
	err = add_layers(d, dev);
	if (err)
		goto fail;
	warn_if_shared(d, dev);
	d->devices[d->nr_devices++] = dev;
	log_info("device", log_u64("index", dev->index), log_str("name", dev->info.name),
		 log_str("backend", b->name), log_u64("lanes", dev->info.lanes),
		 log_u64("units", dev->info.units), log_u64("memory", dev->info.memory),
		 log_str("cpus", dev->info.cpus), log_u64("filters", t->nr_layers));
	return 0;
fail:
	log_err("device can't be opened", log_str("backend", b->name), log_u64("index", index),
		log_errno(err));
	device_free_all(dev);
	return err;
}

static int add_absent(struct devices *d, const char *backend, const char *why, int found)
{
	struct device_absent *more = realloc(d->absent, (d->nr_absent + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	d->absent = more;
	more[d->nr_absent].backend = strdup(backend);
	more[d->nr_absent].why = strdup(why);
	d->nr_absent++;
	if (found > 0)
		log_warn("backend has not all of its devices", log_str("backend", backend),
			 log_str("reason", why));
	else
		log_notice("backend has no device", log_str("backend", backend), log_str("reason", why));
	return 0;
}

/* "key=value", as the configuration's parser made sure. */
static int set_option(const char *option, int (*set)(void *arg, const char *key, const char *value),
		      void *arg, const char *what, const char *name)
{
	char key[64], reason[REASON_LEN];
	size_t n = strcspn(option, "=");
	int err;

	reason_forget();
	if (n >= sizeof(key)) {
		err = -ENOENT;
	} else {
		memcpy(key, option, n);
		key[n] = '\0';
		err = set(arg, key, option[n] ? option + n + 1 : "");
	}
	reason_take(reason);
	if (err)
		log_err("bad option", log_str(what, name), log_str("option", option),
			log_str("reason", reason[0] ? reason :
					  err == -ENOENT ? "there is no such key" :
					  err == -EINVAL ? "the value can't be" :
							   strerror(-err)),
			log_str("remedy", "araxd.conf(5) has the keys of each, and what they take"));
	return err;
}

static int backend_set(void *arg, const char *key, const char *value)
{
	const struct backend *b = arg;

	return b->plugin.ops.config ? b->plugin.ops.config(key, value) : -ENOENT;
}

static int filter_set(void *arg, const char *key, const char *value)
{
	const struct filter *f = arg;

	return f->plugin.ops.config ? f->plugin.ops.config(f->instance, key, value) : -ENOENT;
}

static int configure_backend(struct backend *b, const struct config_list *options,
			     const struct config *cpu)
{
	int err = 0;

	for (size_t i = 0; !err && cpu && i < cpu->cpu.groups.count; i++)
		err = b->plugin.ops.config("group", cpu->cpu.groups.items[i]);
	if (!err && cpu && cpu->cpu.memory) {
		char bytes[24];

		snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)cpu->cpu.memory);
		err = b->plugin.ops.config("memory", bytes);
	}
	for (size_t i = 0; !err && options && i < options->count; i++)
		err = set_option(options->items[i], backend_set, b, "backend", b->name);
	if (!err && b->plugin.ops.config_complete)
		err = b->plugin.ops.config_complete();
	return err;
}

static int load_backend(struct devices *d, const char *name, const char *file,
			const struct config_list *options, const struct config *cpu)
{
	struct backend *b = &d->backends[d->nr_backends];
	char why[512] = "", reason[REASON_LEN];
	int err;

	for (uint32_t i = 0; i < d->nr_backends; i++)
		if (!strcmp(d->backends[i].name, name)) {
			log_err("backend is already loaded", log_str("backend", name),
				log_str("remedy", "cpu is set up by section cpu, or switched off there"));
			return -EEXIST;
		}
	err = backend_plugin_load(&b->plugin, name, file, why, sizeof(why));
	if (err) {
		log_err("backend refused", log_str("backend", name),
			log_str("file", file ? file : "(built in)"), log_str("reason", why));
		return err;
	}
	d->nr_backends++;
	b->name = strdup(name);
	if (!b->name)
		return -ENOMEM;
	err = b->plugin.ops.load ? b->plugin.ops.load() : 0;
	if (err) {
		log_err("backend can't be loaded", log_str("backend", name), log_errno(err));
		return err;
	}
	b->loaded = true;
	reason_forget();
	err = configure_backend(b, options, cpu);
	/* Of all options together; what one of them did was said. */
	reason_take(reason);
	if (err && reason[0])
		log_err("backend can't be configured", log_str("backend", name),
			log_str("reason", reason));
	else if (err)
		log_err("backend can't be configured", log_str("backend", name), log_errno(err));
	return err;
}

/* A backend whose stack is absent is no error: the others go on. */
static int open_backend(struct devices *d, struct backend *b)
{
	char why[512] = "";
	int n, err;

	n = b->plugin.ops.probe(why, sizeof(why));
	why[sizeof(why) - 1] = '\0';
	if (n <= 0)
		return add_absent(d, b->name, why[0] ? why : n ? strerror(-n) : "no device found", n);
	for (int i = 0; i < n; i++) {
		err = open_device(d, b, (uint32_t)i);
		if (err == -ENOMEM)
			return err;
	}
	return why[0] ? add_absent(d, b->name, why, n) : 0;
}

static int open_filter(struct devices *d, const struct config_plugin *section)
{
	struct filter *f = &d->filters[d->nr_filters];
	char why[512] = "", reason[REASON_LEN];
	int err;

	err = filter_plugin_load(&f->plugin, section->name, section->file, why, sizeof(why));
	if (err) {
		log_err("filter refused", log_str("filter", section->name),
			log_str("file", section->file ? section->file : "(built in)"),
			log_str("reason", why));
		return err;
	}
	f->name = strdup(section->name);
	f->devices = strdup(section->devices ? section->devices : "*");
	err = f->name && f->devices ? f->plugin.ops.create(&f->instance) : -ENOMEM;
	if (err) {
		free(f->name);
		free(f->devices);
		filter_plugin_unload(&f->plugin);
		return err;
	}
	d->nr_filters++;
	for (size_t i = 0; !err && i < section->options.count; i++)
		err = set_option(section->options.items[i], filter_set, f, "filter", f->name);
	if (!err && f->plugin.ops.config_complete) {
		reason_forget();
		err = f->plugin.ops.config_complete(f->instance);
		reason_take(reason);
		if (err)
			log_err("filter can't work with these options", log_str("filter", f->name),
				log_str("reason", reason[0] ? reason : strerror(-err)));
	}
	return err;
}

/* A pattern with a slip in it looks like a filter that does nothing. */
static void warn_of_unused(const struct devices *d)
{
	for (uint32_t i = 0; i < d->nr_filters; i++)
		if (!d->filters[i].used)
			log_warn("filter is on no device", log_str("filter", d->filters[i].name),
				 log_str("devices", d->filters[i].devices),
				 log_str("remedy", "a pattern of names as in arax devices"));
}

int devices_open(const struct config *config, struct devices **devices)
{
	struct devices *d = calloc(1, sizeof(*d));
	int err = 0;

	if (!d)
		return -ENOMEM;
	backend_plugins_shared(config->shared);
	d->backends = calloc(config->nr_backends + 1, sizeof(*d->backends));
	d->filters = calloc(config->nr_filters + 1, sizeof(*d->filters));
	if (!d->backends || !d->filters)
		err = -ENOMEM;
	for (size_t i = 0; !err && i < config->nr_filters; i++)
		err = open_filter(d, &config->filters[i]);
	if (!err && config->cpu.enable)
		err = load_backend(d, "cpu", NULL, NULL, config);
	for (size_t i = 0; !err && i < config->nr_backends; i++)
		err = load_backend(d, config->backends[i].name, config->backends[i].file,
				   &config->backends[i].options, NULL);
	/* All are configured before the first one opens devices, and with them threads. */
	for (uint32_t i = 0; !err && i < d->nr_backends; i++)
		err = open_backend(d, &d->backends[i]);
	if (!err && !d->nr_devices) {
		log_err("there is no device to run tasks on",
			log_str("remedy", "cpu { enable = true }, or a backend that finds some: the lines above say why those that there are have none"));
		err = -ENODEV;
	}
	if (!err)
		warn_of_unused(d);
	if (err) {
		devices_close(d);
		return err;
	}
	*devices = d;
	return 0;
}

void devices_leave(struct devices *d)
{
	d->left = true;
}

bool devices_close(struct devices *d)
{
	if (!d)
		return true;
	if (d->left)
		return false;
	while (d->nr_devices)
		device_free_all(d->devices[--d->nr_devices]);
	while (d->nr_filters) {
		struct filter *f = &d->filters[--d->nr_filters];

		f->plugin.ops.destroy(f->instance);
		filter_plugin_unload(&f->plugin);
		free(f->name);
		free(f->devices);
	}
	while (d->nr_backends) {
		struct backend *b = &d->backends[--d->nr_backends];

		if (b->loaded && b->plugin.ops.unload)
			b->plugin.ops.unload();
		backend_plugin_unload(&b->plugin);
		free(b->name);
	}
	while (d->nr_absent) {
		struct device_absent *a = &d->absent[--d->nr_absent];

		free((char *)a->backend);
		free((char *)a->why);
	}
	free(d->absent);
	free(d->devices);
	free(d->filters);
	free(d->backends);
	free(d);
	return true;
}

/* ------------------------------------------------------------------ */
/* Using                                                                 */

bool device_is_alike(const struct device *a, const struct device *b)
{
	return a->info.make[0] && !strcmp(a->info.make, b->info.make) &&
	       !strcmp(a->backend, b->backend) && !a->stack->nr_layers && !b->stack->nr_layers;
}

uint32_t devices_count(const struct devices *d)
{
	return d->nr_devices;
}

struct device *devices_at(struct devices *d, uint32_t index)
{
	return index < d->nr_devices ? d->devices[index] : NULL;
}

uint32_t devices_nr_absent(const struct devices *d)
{
	return d->nr_absent;
}

const struct device_absent *devices_absent(const struct devices *d, uint32_t i)
{
	return i < d->nr_absent ? &d->absent[i] : NULL;
}

char *devices_dump(struct devices *d)
{
	json_t *all = json_array();
	char *buf = malloc(DUMP_MAX), *text;

	if (!all || !buf) {
		json_decref(all);
		free(buf);
		return NULL;
	}
	for (uint32_t i = 0; i < d->nr_filters; i++) {
		struct filter *f = &d->filters[i];
		json_t *one;
		int n;

		if (!f->plugin.ops.dump)
			continue;
		n = f->plugin.ops.dump(f->instance, buf, DUMP_MAX);
		if (n < 0 || (uint32_t)n >= DUMP_MAX)
			continue;
		one = json_loadb(buf, (size_t)n, JSON_DECODE_ANY, NULL);
		if (one)
			json_array_append_new(all, json_pack("{ss ss so}", "filter", f->name,
							     "devices", f->devices, "data", one));
	}
	text = json_dumps(all, 0);
	json_decref(all);
	free(buf);
	return text;
}

int device_kernel_load(struct device *dev, const struct arax_backend_kernel *k, void **kernel)
{
	return dev->stack->ops->kernel_load(dev->stack->dev, k, kernel);
}

void device_kernel_unload(struct device *dev, void *kernel)
{
	dev->stack->ops->kernel_unload(dev->stack->dev, kernel);
}

int device_alloc(struct device *dev, uint64_t bytes, uint64_t wanted, uint64_t *address)
{
	const struct arax_backend *ops = dev->stack->ops;

	if (!dev->info.memory || !ops->alloc)
		return -EOPNOTSUPP;
	return ops->alloc(dev->stack->dev, bytes, wanted, address);
}

bool device_alloc_stays(const struct device *dev)
{
	return dev->stack->ops->alloc_on;
}

int device_alloc_on(struct device *dev, uint64_t bytes, void *host, uint64_t *address)
{
	const struct arax_backend *ops = dev->stack->ops;
	int err = -EOPNOTSUPP;

	if (dev->info.memory && ops->alloc_on)
		err = ops->alloc_on(dev->stack->dev, bytes, host, address);
	return err == -EOPNOTSUPP ? device_alloc(dev, bytes, 0, address) : err;
}

void device_free(struct device *dev, uint64_t address)
{
	if (dev->info.memory && dev->stack->ops->free)
		dev->stack->ops->free(dev->stack->dev, address);
}

int device_copy_in(struct device *dev, uint32_t lane, uint64_t to, const void *from,
		   uint64_t bytes)
{
	struct device_top *t = dev->stack;

	if (!dev->info.memory || !t->ops->copy_in || !t->ops->copy_out)
		return -EOPNOTSUPP;
	if (t->nr_layers)
		return layer_copy_in(dev->top, lane, to, from, bytes);
	return t->ops->copy_in(t->dev, lane, to, from, bytes);
}

int device_copy_out(struct device *dev, uint32_t lane, void *to, uint64_t from, uint64_t bytes)
{
	struct device_top *t = dev->stack;

	if (!dev->info.memory || !t->ops->copy_in || !t->ops->copy_out)
		return -EOPNOTSUPP;
	if (t->nr_layers)
		return layer_copy_out(dev->top, lane, to, from, bytes);
	return t->ops->copy_out(t->dev, lane, to, from, bytes);
}

int device_host_register(struct device *dev, void *host, uint64_t bytes)
{
	const struct arax_backend *ops = dev->stack->ops;

	if (!ops->host_register || !ops->host_unregister)
		return -EOPNOTSUPP;
	return ops->host_register(dev->stack->dev, host, bytes);
}

void device_host_unregister(struct device *dev, void *host)
{
	dev->stack->ops->host_unregister(dev->stack->dev, host);
}

const void *device_peers(const struct device *dev)
{
	const struct device_top *t = dev->stack;

	/* Filters are to see all copies. */
	return dev->info.memory && t->ops->copy_peer && !t->nr_layers ? t->ops : NULL;
}

int device_copy_peer(struct device *dev, uint64_t to, struct device *src, uint64_t from,
		     uint64_t bytes)
{
	const void *peers = device_peers(dev);

	if (!peers || peers != device_peers(src))
		return -EOPNOTSUPP;
	return dev->stack->ops->copy_peer(dev->stack->dev, to, src->stack->dev, from, bytes);
}

bool device_is_configured(const struct device *dev)
{
	const struct arax_backend *ops = dev->stack->ops;

	return ops->configuration && ops->configure && ops->switch_ns;
}

uint32_t device_configuration(struct device *dev, void *kernel)
{
	return dev->stack->ops->configuration(dev->stack->dev, kernel);
}

int device_configure(struct device *dev, void *kernel)
{
	return dev->stack->ops->configure(dev->stack->dev, kernel);
}

uint64_t device_switch_ns(struct device *dev, void *kernel)
{
	return dev->stack->ops->switch_ns(dev->stack->dev, kernel);
}

void device_refresh(struct device *dev)
{
	struct arax_backend_info info = { .size = sizeof(info) };

	if (dev->stack->ops->info(dev->stack->dev, &info))
		return;
	dev->info.lanes = info.lanes ? info.lanes : 1;
	dev->info.units = info.units;
}

/* A filter would see neither the beginning nor the end. */
uint32_t device_depth(const struct device *dev)
{
	const struct device_top *t = dev->stack;

	return t->ops->submit && t->ops->wait && !t->nr_layers ? ARAX_LANE_DEPTH : 1;
}

int device_submit(struct device *dev, const struct arax_backend_run *run, uint64_t cookie)
{
	return dev->stack->ops->submit(dev->stack->dev, run, cookie);
}

bool device_follows(const struct device *dev)
{
	const struct device_top *t = dev->stack;

	return device_depth(dev) > 1 && t->ops->follows && t->ops->follows(t->dev) == 1;
}

int device_wait(struct device *dev, uint32_t lane, struct arax_backend_done *done)
{
	return dev->stack->ops->wait(dev->stack->dev, lane, done);
}

bool device_has_gauges(const struct device *dev)
{
	return dev->stack->ops->gauges;
}

int device_gauges(const struct device *dev, struct arax_backend_gauges *g, char *why, uint32_t len)
{
	const struct arax_backend *ops = dev->stack->ops;

	memset(g, 0, sizeof(*g));
	g->size = sizeof(*g);
	why[0] = '\0';
	return ops->gauges ? ops->gauges(dev->stack->dev, g, why, len) : -EOPNOTSUPP;
}

int device_quiesce(struct device *dev, uint64_t deadline_ns)
{
	const struct arax_backend *ops = dev->stack->ops;

	return ops->quiesce ? ops->quiesce(dev->stack->dev, deadline_ns) : -EOPNOTSUPP;
}

bool device_can_reset(const struct device *dev)
{
	return dev->stack->ops->reset;
}

int device_reset(struct device *dev)
{
	const struct arax_backend *ops = dev->stack->ops;

	return ops->reset ? ops->reset(dev->stack->dev) : -EOPNOTSUPP;
}
