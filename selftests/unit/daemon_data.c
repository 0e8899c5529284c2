// SPDX-License-Identifier: MIT
/*
 * daemon_data - policies that follow the data, asking what araxd's scheduler asks
 *
 * A poller without threads: its memory manager on two devices of the heap, and buffers that
 * lie where the tests put them.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/reason.h"
#include "daemon/kernels/steps.h"
#include "daemon/dispatch/bounds.h"
#include "daemon/dispatch/models.h"
#include "daemon/dispatch/remote.h"
#include "daemon/dispatch/run.h"
#include "daemon/kernels/registry.h"
#include "daemon/sched/internal.h"
#include "daemon/sched/store.h"
#include "daemon/link/link.h"
#include "selftests/unit/memory_fake.h"
#include "selftests/unit/tmp.h"

#define DEVICES	3	/* the last one works on the host's pages */
#define HOST	2
#define X	4000u
#define Y	5000u
#define LAST	100
#define RESULT	0x5a
#define MEMORY	(64u << 20)

static struct poller *p;
static struct link *l;
static struct device devices[DEVICES];
static struct fake_device fake[2];
static uint8_t host[2][Y];
static struct mapping map[2];
static struct sched_ops ops;

/* The first device gives its bytes away ten times as slowly as it takes them. */
static void set_rates(void)
{
	memory_set_rates(p->memory, 0, 0, 1, 0, 10);
	memory_set_rates(p->memory, 1, 0, 1, 0, 1);
}

static void start(bool lazy)
{
	p = aligned_alloc(64, (sizeof(*p) + 63) & ~(size_t)63);
	l = calloc(1, sizeof(*l));
	ck_assert(p && l);
	memset(p, 0, sizeof(*p));
	p->nr_devs = DEVICES;
	p->devs = calloc(DEVICES, sizeof(*p->devs));
	ck_assert_ptr_nonnull(p->devs);
	for (uint32_t i = 0; i < DEVICES; i++)
		p->devs[i].dev = &devices[i];
	ck_assert_int_eq(memory_create(DEVICES, &p->memory), 0);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(memory_add_device(p->memory, i, &fake_ops, &fake[i], MEMORY), 0);
		map[i] = (struct mapping){
			.base = host[i], .bytes = sizeof(host[i]), .id = i + 1, .lazy = lazy,
			.copies = memory_buffer_create(p->memory, host[i], sizeof(host[i])),
		};
		ck_assert_ptr_nonnull(map[i].copies);
		if (lazy)
			memory_buffer_lazy(map[i].copies);
		ck_assert_int_eq(mapping_set(&l->mappings, &map[i]), 0);
	}
	l->poller = p;
	p->links[p->nr_links++] = l;
	remote_answers(&ops);
}

static void finish(void)
{
	for (uint32_t i = 0; i < 2; i++)
		memory_buffer_gone(p->memory, map[i].copies);
	memory_destroy(p->memory);
	mappings_destroy(&l->mappings);
	free(p->devs);
	free(p);
	free(l);
}

/* A task on @device uses the first @bytes of a buffer, before all that ask here. */
static void use_of(uint32_t device, struct mapping *m, uint32_t access, uint64_t bytes)
{
	struct memory_range r = {
		.buffer = m->copies, .length = bytes, .stride = (uint32_t)bytes,
		.count = 1, .access = access,
	};

	ck_assert_int_eq(memory_enter(p->memory, device, 0, &r, 1, 1, nobody), 0);
	if (access & ARAX_OUT)
		memset((void *)(uintptr_t)r.address, RESULT, bytes);
	ck_assert_int_eq(memory_leave(p->memory, device, 0, &r, 1, 0), 0);
	memory_settle(p->memory, device, &r, 1, LAST);
	set_rates();
}

static void use(uint32_t device, uint32_t buffer, uint32_t access, uint64_t bytes)
{
	use_of(device, &map[buffer], access, bytes);
}

/* Reads the first @x and @y bytes of the two. */
static struct graph_node *reads(uint64_t x, uint64_t y)
{
	static struct arax_dispatch_range r[2];
	static struct graph_node n;

	r[0] = (struct arax_dispatch_range){ .buffer = 1, .length = x, .stride = x, .count = 1 };
	r[1] = (struct arax_dispatch_range){ .buffer = 2, .length = y, .stride = y, .count = 1 };
	n = (struct graph_node){ .ranges = r, .seq = 2, .priv = l };
	n.d.opcode = ARAX_OP_COPY;
	n.d.nr_ranges = 2;
	n.d.access = ARAX_IN | ARAX_IN << 2;
	return &n;
}

/* Of the two devices with memory of their own. */
static uint32_t chosen(const char *policy, struct graph_node *n)
{
	struct sched *s = sched_create(&(struct sched_params){
		.policy = policy, .ops = ops, .arg = p,
	});
	uint32_t device;

	ck_assert_ptr_nonnull(s);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(sched_device_set(s, i, 1), 0);
	device = sched_choose(s, n, 1);
	sched_destroy(s);
	return device;
}

#define LEAST(n, device)	ops.transfer_min_ns(p, n, device)
#define MOST(n, device)		ops.transfer_max_ns(p, n, device)

/*
 * Both are at the host as well.  At best x goes to y, which is more; at worst it comes by way
 * of the first device's slow link.
 */
START_TEST(the_best_way_is_not_the_worst)
{
	struct graph_node *n;

	start(false);
	n = reads(X, Y);
	use(0, 0, ARAX_IN, X);
	use(1, 1, ARAX_IN, Y);
	ck_assert_uint_eq(LEAST(n, 0), Y);
	ck_assert_uint_eq(LEAST(n, 1), X);
	ck_assert_uint_eq(MOST(n, 0), Y + Y);
	ck_assert_uint_eq(MOST(n, 1), X + 10 * X);
	/* Where the host's pages will do nothing is to be moved. */
	ck_assert_uint_eq(LEAST(n, HOST), 0);
	ck_assert_uint_eq(MOST(n, HOST), 0);
	ck_assert_uint_eq(chosen("minmin-transfer-time", n), 1);
	ck_assert_uint_eq(chosen("minmax-transfer-time", n), 0);
	ck_assert_uint_eq(chosen("min-transfer-size", n), 1);
	/* Copies that a later task would not trust are none. */
	n->seq = LAST + 1;
	ck_assert_uint_eq(MOST(n, 0), X + Y);
	ck_assert_uint_eq(MOST(n, 1), X + Y);
	finish();
}
END_TEST

/* What is on one device alone has one way. */
START_TEST(one_place_has_one_way)
{
	struct graph_node *n;

	start(true);
	n = reads(X, Y);
	use(0, 0, ARAX_OUT, X);
	use(1, 1, ARAX_OUT, Y);
	for (int most = 0; most < 2; most++) {
		uint64_t (*ask)(void *arg, const struct graph_node *n, uint32_t device) =
			most ? ops.transfer_max_ns : ops.transfer_min_ns;

		ck_assert_uint_eq(ask(p, n, 0), Y + Y);
		ck_assert_uint_eq(ask(p, n, 1), X + 10 * X);
		ck_assert_uint_eq(ask(p, n, HOST), 10 * X + Y);
	}
	ck_assert_uint_eq(chosen("minmin-transfer-time", n), 0);
	ck_assert_uint_eq(chosen("minmax-transfer-time", n), 0);
	finish();
}
END_TEST

/* A range of which a part is on one device alone, and a part at the host and on another one. */
START_TEST(pieces_have_ways_of_their_own)
{
	struct graph_node *n;

	start(true);
	n = reads(X, 0);
	use(1, 0, ARAX_IN, X);
	use(0, 0, ARAX_OUT, X / 4);
	/* The second device lacks what the first wrote. */
	ck_assert_uint_eq(LEAST(n, 1), X / 4 + 10 * X / 4);
	ck_assert_uint_eq(MOST(n, 1), X / 4 + 10 * X / 4);
	/* The first one lacks the rest, which the second has, too. */
	ck_assert_uint_eq(LEAST(n, 0), 3 * X / 4);
	ck_assert_uint_eq(MOST(n, 0), 3 * X / 4 + 3 * X / 4);
	ck_assert_uint_eq(LEAST(n, HOST), 10 * X / 4);
	/* Once it is lost the device has nothing, and nobody has what it alone had. */
	fake[0].fail_out = 1;
	memory_lose(p->memory, 0);
	ck_assert_uint_eq(LEAST(n, 1), X / 4);
	ck_assert_uint_eq(MOST(n, 1), X / 4);
	finish();
}
END_TEST

START_TEST(a_piece_ends_where_its_places_do)
{
	struct graph_node *n;

	start(false);
	n = reads(X, 0);
	use(0, 0, ARAX_IN, X / 4);
	ck_assert_uint_eq(LEAST(n, 1), X);
	ck_assert_uint_eq(MOST(n, 1), X + 10 * X / 4);
	finish();
	start(true);
	n = reads(X, 0);
	use(0, 0, ARAX_IN, X);
	use(0, 0, ARAX_OUT, X / 4);
	ck_assert_uint_eq(LEAST(n, 1), X + 10 * X / 4);
	ck_assert_uint_eq(MOST(n, 1), X + 10 * X);
	finish();
}
END_TEST

/* A task for the host's pages may have as many rows as it likes: nobody waits until they are counted. */
START_TEST(rows_without_end)
{
	const struct arax_dispatch_range r = { .buffer = 1, .length = 1, .stride = 2, .count = ~0u };
	struct graph_node *n;

	start(true);
	n = reads(X, 0);
	n->ranges = &r;
	n->d.nr_ranges = 1;
	use(0, 0, ARAX_OUT, X);
	ck_assert_uint_eq(LEAST(n, HOST), 10 * X);
	ck_assert_uint_eq(MOST(n, HOST), 10 * X);
	finish();
}
END_TEST

/* With all that belongs to it. */
static struct poller *whole;
static struct registry *registry;
static struct devices *opened;
static struct config config;

static void make_whole_of(const char *text, uint32_t nr)
{
	char error[256];

	registry = registry_create();
	ck_assert_ptr_nonnull(registry);
	ck_assert_msg(!config_parse(&config, "test", text, strlen(text), error, sizeof(error)),
		      "%s", error);
	ck_assert_int_eq(devices_open(&config, &opened), 0);
	ck_assert_uint_eq(devices_count(opened), nr);
	ck_assert_int_eq(poller_create(&config, registry, opened, &whole), 0);
}

static void make_whole(const char *text)
{
	make_whole_of(text, 1);
}

static void end_whole(void)
{
	poller_destroy(whole);
	devices_close(opened);
	registry_destroy(registry);
	config_free(&config);
}

/* What does the scheduler take a launch for? */
static void taken_for(const char *text, uint32_t launch)
{
	struct graph_node node = { .d.opcode = ARAX_OP_LAUNCH };
	const struct sched_ops *asks;

	make_whole(text);
	asks = &whole->sched->ops;
	ck_assert_uint_eq(asks->part ? asks->part(whole, &node, 0) : 0, launch);
	node.d.opcode = ARAX_OP_COPY;
	ck_assert_uint_eq(asks->part ? asks->part(whole, &node, 0) : 0, 0);
	end_whole();
}

/* What is too much for a core, and not for a GPU, is for the GPU, wherever there are both. */
START_TEST(bounds_choose_devices)
{
	static const struct { uint32_t groups; bool cpu, gpu; int err; } cases[] = {
		{ 100, true, true, 0 }, { 101, false, true, 0 }, { 1000, false, true, 0 },
		{ 1001, false, false, -EINVAL },
	};
	struct device devices[2] = { { .info.kind = ARAX_DEVICE_CPU },
				     { .info.kind = ARAX_DEVICE_CUDA, .info.gpu = 1 } };
	struct poller_device pds[2] = { { .dev = &devices[0] }, { .dev = &devices[1] } };
	uint8_t runnable[2] = { 1, 1 };
	struct poller p = { .devs = pds, .nr_devs = 1, .runnable = runnable };
	struct kernel k = { .work = { .most = 100, .most_gpu = 1000 } };
	struct link *l = calloc(1, sizeof(*l));
	struct graph_node node = { .priv = l, .d = { .opcode = ARAX_OP_LAUNCH, .kernel = 1 } };
	char text[REASON_LEN];

	ck_assert_int_eq(signature_parse(&k.sig, "f()", text, sizeof(text)), 0);
	ck_assert_int_eq(steps_times(&k.work.steps, &k.sig, "groups", text, sizeof(text)), 0);
	l->kernels[1] = &k;
	ck_assert(!bounds_differ(&p));
	p.nr_devs = 2;
	p.unlike = bounds_differ(&p);
	ck_assert(p.unlike);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int j = 0; j < 3; j++)
			node.d.grid[j] = node.d.block[j] = 1;
		node.d.grid[0] = cases[i].groups;
		ck_assert_int_eq(run_can(&p, &node, 0), cases[i].cpu);
		ck_assert_int_eq(run_can(&p, &node, 1), cases[i].gpu);
		ck_assert_int_eq(run_anywhere(&p, &node), !cases[i].err);
		reason_forget();
		ck_assert_int_eq(bounds_tell(&p, &node, &k), cases[i].err);
		reason_take(text);
		ck_assert(!cases[i].err || strstr(text, "at most 1000 in a launch"));
	}
	/* Where groups have nothing to do a GPU may do less than a core, which can't run it. */
	ck_assert_int_eq(steps_times(&k.work.steps, &k.sig, "1000000000", text, sizeof(text)), 0);
	ck_assert_int_eq(steps_times(&k.work.busy, &k.sig, "1", text, sizeof(text)), 0);
	k.work.most = k.work.most_gpu = 1ull << 50;
	runnable[0] = 0;
	node.d.grid[0] = 100;
	ck_assert(!run_anywhere(&p, &node));
	reason_forget();
	ck_assert_int_eq(bounds_tell(&p, &node, &k), -EINVAL);
	reason_take(text);
	ck_assert_msg(strstr(text, "or larger work-groups"), "%s", text);
	node.d.block[0] = 64;
	ck_assert(run_anywhere(&p, &node));
	/* If the GPU is lost that is the reason, not its size. */
	pds[1].lost = true;
	node.d.grid[0] = 500;
	ck_assert(!run_anywhere(&p, &node));
	ck_assert_int_eq(bounds_tell(&p, &node, &k), 0);
	free(l);
}
END_TEST

/* The first: 1000 bytes of its own, 400 at a time.  The second: the host's, and 500 of those. */
START_TEST(largest_chooses_devices)
{
	static const struct {
		uint64_t offset[2], length[2];
		bool own, host;
	} cases[] = {
		{ { 0, 1000 }, { 400, 400 }, true, true },
		{ { 0, 1000 }, { 100, 401 }, false, true },
		/* They overlap: in one piece, but two buffers on pages. */
		{ { 0, 300 }, { 400, 200 }, false, true },
		{ { 0, 300 }, { 400, 100 }, true, true },
		{ { 0, 1000 }, { 1, 501 }, false, false },
	};
	struct arax_dispatch_range ranges[2];
	struct device devices[2] = { { .info = { .memory = 1000, .largest = 400 } },
				     { .info = { .largest = 500 } } };
	struct poller_device pds[2] = { { .dev = &devices[0] }, { .dev = &devices[1] } };
	uint8_t runnable[2] = { 1, 1 };
	struct poller p = { .devs = pds, .nr_devs = 2, .runnable = runnable };
	struct kernel k = { .sig.name = "f" };
	struct link *l = calloc(1, sizeof(*l));
	struct graph_node node = {
		.priv = l, .ranges = ranges,
		.d = { .opcode = ARAX_OP_LAUNCH, .kernel = 1, .nr_ranges = 2 },
	};

	l->kernels[1] = &k;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int j = 0; j < 2; j++)
			ranges[j] = (struct arax_dispatch_range){
				.buffer = 1, .offset = cases[i].offset[j],
				.length = cases[i].length[j], .count = 1,
			};
		ck_assert_int_eq(run_can(&p, &node, 0), cases[i].own);
		ck_assert_int_eq(run_can(&p, &node, 1), cases[i].host);
	}
	free(l);
}
END_TEST

/* Who runs one launch at a time is full with it, however many lanes there are. */
START_TEST(one_at_a_time)
{
	taken_for("cpu { enable = false }\nbackend \"sim\" { options = { \"lanes=2\" } }", SCHED_WHOLE);
	taken_for("cpu { groups = { \"0\" } }", 0);
}
END_TEST

static void learn_a_copy(void)
{
	const struct graph_node copy = { .d.opcode = ARAX_OP_COPY };

	sched_observe(whole->sched, sched_kernel_key(&copy), 0, 1 << 20, 100000);
}

/* An araxd of before does not know the file of one that came later. */
START_TEST(what_is_not_used_is_not_lost)
{
	static const char newer[] = "{ \"version\": 99, \"models\": [] }";
	char folder[UNIT_TMP_LEN], path[128], aside[160], nowhere[128], text[64] = "";
	struct models *m;
	struct store s;
	char error[256];
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-data-XXXXXX")));
	snprintf(path, sizeof(path), "%s/models.json", folder);
	snprintf(aside, sizeof(aside), "%s.unused", path);
	f = fopen(path, "w");
	fputs(newer, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0600), 0);
	make_whole("cpu { groups = { \"0\" } }");
	/* It has nothing to say. */
	models_close(models_open(whole, path));
	ck_assert_int_ne(access(aside, F_OK), 0);
	m = models_open(whole, path);
	learn_a_copy();
	models_close(m);
	f = fopen(aside, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	ck_assert_str_eq(text, newer);
	ck_assert_int_eq(store_load(&s, path, error, sizeof(error)), 0);
	ck_assert_uint_eq(s.count, 1);
	store_free(&s);
	/* What could not be written is tried again. */
	ck_assert_int_eq(unlink(path), 0);
	snprintf(nowhere, sizeof(nowhere), "%s/a", folder);
	snprintf(path, sizeof(path), "%s/a/b/models.json", folder);
	m = models_open(whole, path);
	learn_a_copy();
	models_save(m);
	models_save(m);		/* waits for the one before */
	ck_assert_int_eq(mkdir(nowhere, 0755), 0);
	models_close(m);
	ck_assert_int_eq(access(path, F_OK), 0);
	unlink(path);
	path[strlen(path) - strlen("/models.json")] = '\0';
	rmdir(path);
	rmdir(nowhere);
	unlink(aside);
	rmdir(folder);
	end_whole();
}
END_TEST

#define TWO	"cpu { groups = { \"0\", \"1\" } memory = \"64M\" }"

static void rate(uint32_t to, uint32_t from, double *latency_ns, double *ns_per_byte)
{
	ck_assert(memory_rate(whole->memory, to, from, latency_ns, ns_per_byte));
}

/* All there are of two devices, each by its name. */
static void links_of(const char *path, struct store *s)
{
	char error[256];
	uint32_t way[3] = { 0 };

	ck_assert_msg(!store_load(s, path, error, sizeof(error)), "%s", error);
	for (size_t i = 0; i < s->nr_links; i++) {
		ck_assert_str_eq(s->links[i].backend, "cpu");
		ck_assert_uint_eq(s->links[i].units, 1);
		ck_assert_int_eq(!strcmp(s->links[i].from, ""), s->links[i].way != STORE_DIRECT);
		way[s->links[i].way]++;
	}
	ck_assert_uint_eq(way[STORE_IN], 2);
	ck_assert_uint_eq(way[STORE_OUT], 2);
	ck_assert_uint_eq(way[STORE_DIRECT], 2);
}

static struct store_link *link_in(struct store *s, const char *device, enum store_way way)
{
	for (size_t i = 0; i < s->nr_links; i++)
		if (!strcmp(s->links[i].device, device) && s->links[i].way == way)
			return &s->links[i];
	ck_abort_msg("no such link");
	return NULL;
}

/* Devices that can copy from each other are not taken for as far as the host without a look. */
START_TEST(each_link_is_measured)
{
	double latency, byte;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	make_whole_of(TWO, 2);
	for (uint32_t i = 0; i < 2; i++) {
		rate(i, MEMORY_HOST, &latency, &byte);
		ck_assert(latency >= 1 && byte >= 0);
		rate(MEMORY_HOST, i, &latency, &byte);
		ck_assert(latency >= 1 && byte >= 0);
		rate(i, !i, &latency, &byte);
		ck_assert(latency >= 1 && byte >= 0);
		ck_assert_uint_eq(memory_check(whole->memory), 0);
	}
	end_whole();
}
END_TEST

/* What was measured, what is learnt from then on, and what the next start makes of it. */
START_TEST(links_are_kept)
{
	char folder[UNIT_TMP_LEN], path[128];
	double latency, byte, measured, learnt;
	char error[256];
	struct store_link *l;
	struct models *m;
	struct store s;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-data-XXXXXX")));
	snprintf(path, sizeof(path), "%s/models.json", folder);
	make_whole_of(TWO, 2);
	rate(1, 0, &latency, &byte);
	rate(0, MEMORY_HOST, &measured, &byte);
	/* That there are such links is news, though no kernel has run. */
	models_close(models_open(whole, path));
	links_of(path, &s);
	l = link_in(&s, "cpu0", STORE_IN);
	ck_assert(l->latency_ns == measured && l->ns_per_byte == byte);
	/* What is a little dearer than it looks was learnt; what is very much so is another link. */
	learnt = 2 * l->latency_ns;
	l->latency_ns *= 2;
	link_in(&s, "cpu1", STORE_DIRECT)->latency_ns = 1e12;
	/* Nobody has measured this one since. */
	s.links = realloc(s.links, (s.nr_links + 1) * sizeof(*s.links));
	ck_assert_ptr_nonnull(s.links);
	s.links[s.nr_links] = s.links[0];
	strcpy(s.links[s.nr_links++].device, "gone");
	ck_assert_int_eq(store_save(&s, path), 0);
	store_free(&s);
	end_whole();

	make_whole_of(TWO, 2);
	memory_set_rates(whole->memory, 0, measured, byte, measured, byte);
	m = models_open(whole, path);
	rate(0, MEMORY_HOST, &latency, &byte);
	ck_assert(latency == learnt);
	rate(1, 0, &latency, &byte);
	ck_assert(latency < 1e12);
	models_save(m);
	models_close(m);
	ck_assert_int_eq(store_load(&s, path, error, sizeof(error)), 0);
	ck_assert_uint_eq(s.nr_links, 7);
	ck_assert(link_in(&s, "cpu0", STORE_IN)->latency_ns == learnt);
	ck_assert(link_in(&s, "cpu1", STORE_DIRECT)->latency_ns < 1e12);
	link_in(&s, "gone", STORE_IN);
	store_free(&s);
	/* No news, no writing. */
	m = models_open(whole, path);
	ck_assert_int_eq(unlink(path), 0);
	models_close(m);
	ck_assert_int_ne(access(path, F_OK), 0);
	end_whole();
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

#define DAY	86400
#define NOW	20000u

/* Seconds since 1970; 0: as it is. */
static time_t clock_says;

time_t __real_time(time_t *at);
time_t __wrap_time(time_t *at);
time_t __wrap_time(time_t *at)
{
	time_t now = clock_says ?: __real_time(at);

	if (at)
		*at = now;
	return now;
}

/* With a clock that says that, an araxd learns something of the devices that it has. */
static void learn_at(time_t says, const char *path, struct store *s)
{
	char error[256];
	struct models *m;

	clock_says = says;
	m = models_open(whole, path);
	learn_a_copy();
	models_close(m);
	clock_says = 0;
	ck_assert_msg(!store_load(s, path, error, sizeof(error)), "%s", error);
}

/* The days of what is of @device. */
static void days_are(const struct store *s, const char *device, size_t entries, size_t links,
		     uint32_t day)
{
	size_t i;

	for (i = 0; i < s->count; i++)
		if (!strcmp(s->at[i].key.device, device)) {
			ck_assert_uint_eq(s->at[i].day, day);
			entries--;
		}
	for (i = 0; i < s->nr_links; i++)
		if (!strcmp(s->links[i].device, device)) {
			ck_assert_uint_eq(s->links[i].day, day);
			links--;
		}
	ck_assert_uint_eq(entries, 0);
	ck_assert_uint_eq(links, 0);
}

/* Where a clock has no battery it begins at 1970, and is right a while later. */
START_TEST(a_wrong_clock_costs_nothing)
{
	static const time_t wrong[] = { -3 * DAY, 60, 1000 * DAY };
	char folder[UNIT_TMP_LEN], path[128];
	struct store s, t;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-data-XXXXXX")));
	snprintf(path, sizeof(path), "%s/models.json", folder);
	make_whole("cpu { groups = { \"0\" } memory = \"64M\" }");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unlink(path);
		learn_at(wrong[i], path, &s);
		days_are(&s, "cpu0", 1, 2, wrong[i] < DAY ? 1 : 1000);
		/* Another device was there yesterday. */
		ck_assert(s.count == 1 && s.nr_links == 2);
		s.at[0].day = NOW - 1;
		s.links[0].day = NOW - 1;
		strcpy(s.at[0].key.device, "gone");
		strcpy(s.links[0].device, "gone");
		ck_assert_int_eq(store_save(&s, path), 0);
		store_free(&s);
		learn_at(wrong[i], path, &t);
		days_are(&t, "gone", 1, 1, NOW - 1);
		store_free(&t);
		learn_at((time_t)NOW * DAY, path, &t);
		days_are(&t, "gone", 1, 1, NOW - 1);
		store_free(&t);
		learn_at((time_t)(NOW + STORE_DAYS) * DAY, path, &t);
		days_are(&t, "gone", 0, 0, 0);
		store_free(&t);
	}
	end_whole();
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

/* ------------------------------------------------------------------ */
/* Whose bytes come to the host first: with the test in place of the threads */

#define LARGE	(40u << 20)
#define WANTED	128

static bool by_hand;
static struct host_job *jobs[WANTED];
static struct work *posted;
static const struct graph_node *ended[WANTED];
static uint32_t nr_jobs, jobs_done, nr_ended;
/* Seconds that the clock is put forward by each time it is looked at. */
static time_t late;

void __real_host_thread_push(struct host_thread *t, struct host_job *job);
void __wrap_host_thread_push(struct host_thread *t, struct host_job *job);
void __wrap_host_thread_push(struct host_thread *t, struct host_job *job)
{
	if (by_hand)
		jobs[nr_jobs++] = job;
	else
		__real_host_thread_push(t, job);
}

void __real_poller_post(struct poller *to, struct work *w);
void __wrap_poller_post(struct poller *to, struct work *w);
void __wrap_poller_post(struct poller *to, struct work *w)
{
	if (by_hand)
		posted = w;
	else
		__real_poller_post(to, w);
}

void __real_run_refuse(struct poller *of, struct graph_node *n, int result);
void __wrap_run_refuse(struct poller *of, struct graph_node *n, int result);
void __wrap_run_refuse(struct poller *of, struct graph_node *n, int result)
{
	if (!by_hand) {
		__real_run_refuse(of, n, result);
		return;
	}
	ck_assert_int_eq(result, 0);
	ended[nr_ended++] = n;
}

void __real_graph_start(struct graph *g, struct graph_node *n);
void __wrap_graph_start(struct graph *g, struct graph_node *n);
void __wrap_graph_start(struct graph *g, struct graph_node *n)
{
	if (!by_hand)
		__real_graph_start(g, n);
}

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	static time_t ahead;
	int ret = __real_clock_gettime(clock, ts);

	ahead += late;
	ts->tv_sec += ahead;
	return ret;
}

static struct mapping big;
static struct graph_node markers[WANTED];
static struct arax_dispatch_range marked[WANTED];
static uint32_t nr_markers;

static void start_by_hand(void)
{
	start(true);
	big = (struct mapping){
		.base = calloc(1, LARGE), .bytes = LARGE, .id = 3, .lazy = true,
	};
	ck_assert_ptr_nonnull(big.base);
	big.copies = memory_buffer_create(p->memory, big.base, LARGE);
	ck_assert_ptr_nonnull(big.copies);
	memory_buffer_lazy(big.copies);
	ck_assert_int_eq(mapping_set(&l->mappings, &big), 0);
	p->running = 1;		/* so that none is fetched at once */
	nr_markers = 0;
	nr_jobs = 0;
	jobs_done = 0;
	nr_ended = 0;
	by_hand = true;
}

static void finish_by_hand(void)
{
	by_hand = false;
	memory_buffer_gone(p->memory, big.copies);
	free(big.base);
	finish();
}

/* @tenant's program wants all of a buffer, which is on a device alone. */
static const struct graph_node *wants(uint64_t tenant, uint64_t buffer, uint64_t bytes)
{
	struct graph_node *n = &markers[nr_markers];

	marked[nr_markers] = (struct arax_dispatch_range){
		.buffer = buffer, .length = bytes, .stride = (uint32_t)bytes, .count = 1,
	};
	*n = (struct graph_node){ .ranges = &marked[nr_markers], .priv = l };
	n->d.tenant = tenant;
	n->d.opcode = ARAX_OP_MARKER;
	n->d.nr_ranges = 1;
	n->d.access = ARAX_INOUT;
	nr_markers++;
	fetch_for_host(p, n);
	return n;
}

/* What the thread has had for longest, and then the poller's part. */
static void go_on(void)
{
	struct work *w;

	ck_assert_uint_lt(jobs_done, nr_jobs);
	posted = NULL;
	jobs[jobs_done]->run(jobs[jobs_done]);
	jobs_done++;
	w = posted;
	ck_assert_ptr_nonnull(w);
	w->run(w);
}

/* All of it once, in order: by bytes, by rows, or, where these are too many, as a whole. */
START_TEST(ranges_in_pieces)
{
	struct memory_range r = { .offset = 7, .length = 250, .stride = 250, .count = 4 }, piece;
	uint64_t at = 0, end = 7;

	for (; memory_piece(&r, 300, &at, &piece); end += piece.length) {
		ck_assert_uint_eq(piece.offset, end);
		ck_assert_uint_eq(piece.count, 1);
		ck_assert_uint_le(piece.length, 300);
	}
	ck_assert_uint_eq(end, 1007);
	r.stride = 400;
	r.count = 10;
	for (at = 0, end = 0; memory_piece(&r, 1300, &at, &piece); end += piece.count) {
		ck_assert_uint_eq(piece.offset, 7 + 400 * end);
		ck_assert_uint_eq(piece.count, end < 9 ? 3 : 1);
		ck_assert_uint_eq(piece.length, 250);
	}
	ck_assert_uint_eq(end, 10);
	/* Rows that are larger than a piece are cut, too. */
	for (at = 0, end = 0; memory_piece(&r, 100, &at, &piece); end++) {
		ck_assert_uint_eq(piece.offset, 7 + 400 * (end / 3) + 100 * (end % 3));
		ck_assert_uint_eq(piece.length, end % 3 == 2 ? 50 : 100);
		ck_assert_uint_eq(piece.count, 1);
	}
	ck_assert_uint_eq(end, 30);
	r.count = MEMORY_MAX_ROWS + 1;
	r.access = ARAX_OUT;
	at = 0;
	ck_assert(memory_piece(&r, UINT64_MAX, &at, &piece));
	ck_assert_uint_eq(piece.length, 400ull * MEMORY_MAX_ROWS + 250);
	ck_assert_uint_eq(piece.access, ARAX_INOUT);
	ck_assert(!memory_piece(&r, UINT64_MAX, &at, &piece));
	r.length = 0;
	at = 0;
	ck_assert(!memory_piece(&r, 10, &at, &piece));
}
END_TEST

START_TEST(fetches_go_by_tenants)
{
	const struct graph_node *n[8];

	start_by_hand();
	for (uint32_t i = 0; i < 2; i++)
		use(0, i, ARAX_OUT, X);
	for (uint32_t i = 0; i < 6; i++)
		n[i] = wants(1, 1, X);
	n[6] = wants(2, 2, X);
	n[7] = wants(3, 2, X);
	while (nr_ended < 8)
		go_on();
	/* Two were with the thread when the others came. */
	ck_assert_ptr_eq(ended[0], n[0]);
	ck_assert_ptr_eq(ended[1], n[1]);
	ck_assert(ended[2] == n[6] || ended[2] == n[7] || ended[3] == n[6] || ended[3] == n[7]);
	for (uint32_t i = 2, at = 2; i < 8; i++)
		if (ended[i] != n[6] && ended[i] != n[7])
			ck_assert_ptr_eq(ended[i], n[at++]);
	for (uint32_t i = 5; i < 8; i++)
		ck_assert_ptr_eq(ended[i], n[i - 2]);
	finish_by_hand();
}
END_TEST

/* Of few tenants none waits for another's turn, whatever their ids are. */
START_TEST(few_tenants_share_no_turn)
{
	const struct graph_node *n;

	for (uint64_t id = 3; id < 3 + FETCH_TURNS; id++) {
		start_by_hand();
		use(0, 0, ARAX_OUT, X);
		for (uint32_t i = 0; i < 6; i++)
			wants(2, 1, X);
		n = wants(id, 1, X);
		while (nr_ended < 7)
			go_on();
		/* Two were with the thread by then, and one may be before it. */
		ck_assert_msg(ended[2] == n || ended[3] == n, "tenant %d", (int)id);
		ck_assert_uint_eq(p->fetches.taken, 0);
		finish_by_hand();
	}
}
END_TEST

/* When all turns are taken others share them; each one's still begin in order. */
START_TEST(many_tenants_share_turns)
{
	enum { MANY = FETCH_TURNS + 20 };
	uint32_t last[MANY + 1] = { 0 };

	start_by_hand();
	for (uint32_t i = 0; i < 2; i++)
		use(0, i, ARAX_OUT, X);
	for (uint32_t i = 1; i < MANY; i++)
		wants(i, 1, X);
	for (uint32_t i = 0; i < 6; i++)
		wants(MANY, 1, X);
	ck_assert_uint_eq(~p->fetches.taken, 0);
	while (nr_ended < MANY)
		go_on();
	/* Some turns are free again, but it has others before this. */
	ck_assert_uint_ne(~p->fetches.taken, 0);
	wants(MANY, 2, X);
	while (nr_ended < nr_markers)
		go_on();
	for (uint32_t i = 0; i < nr_ended; i++) {
		uint32_t *before = &last[ended[i]->d.tenant];
		uint32_t at = (uint32_t)(ended[i] - markers) + 1;

		ck_assert_uint_gt(at, *before);
		*before = at;
	}
	ck_assert_uint_eq(p->fetches.taken, 0);
	finish_by_hand();
}
END_TEST

/* What is on its way for long lets others' go before the rest of it, and is not begun anew. */
START_TEST(a_long_fetch_makes_way)
{
	const struct graph_node *n[2];

	start_by_hand();
	use(0, 0, ARAX_OUT, X);
	use_of(0, &big, ARAX_OUT, LARGE);
	n[0] = wants(1, 3, LARGE);
	n[1] = wants(2, 1, X);
	late = 1;
	go_on();
	ck_assert_uint_eq(nr_ended, 0);
	ck_assert_int_eq(big.base[0], RESULT);
	ck_assert_int_eq(big.base[LARGE - 1], 0);
	go_on();
	ck_assert_uint_eq(nr_ended, 1);
	ck_assert_ptr_eq(ended[0], n[1]);
	/* Nobody else is there any more. */
	go_on();
	ck_assert_uint_eq(nr_ended, 2);
	ck_assert_ptr_eq(ended[1], n[0]);
	ck_assert_int_eq(big.base[LARGE - 1], RESULT);
	ck_assert_uint_eq(jobs_done, nr_jobs);
	finish_by_hand();
}
END_TEST

/* Of a quick link a piece is what it copies in as long: there are few gaps then. */
START_TEST(a_quick_link_has_large_pieces)
{
	const struct graph_node *n[2];

	start_by_hand();
	use(0, 0, ARAX_OUT, X);
	use_of(0, &big, ARAX_OUT, LARGE);
	for (uint32_t i = 0; i < p->nr_devs; i++)
		memory_set_rates(p->memory, i, 1000, .02, 1000, .02);
	n[0] = wants(1, 3, LARGE);
	n[1] = wants(2, 1, X);
	late = 1;
	go_on();
	ck_assert_uint_eq(nr_ended, 1);
	ck_assert_ptr_eq(ended[0], n[0]);
	ck_assert_int_eq(big.base[LARGE - 1], RESULT);
	go_on();
	ck_assert_ptr_eq(ended[1], n[1]);
	finish_by_hand();
}
END_TEST

/* Who polls fetches what is quick, but not if nobody would poll should it take long. */
START_TEST(who_is_not_watched_fetches_nothing)
{
	start_by_hand();
	p->running = 0;
	p->inline_ns = UINT64_MAX;
	ck_assert_int_eq(role_init(&p->role), 0);
	p->sched = sched_create(&(struct sched_params){ .policy = "eft", .ops = ops, .arg = p });
	ck_assert_ptr_nonnull(p->sched);
	use(0, 0, ARAX_OUT, X);
	wants(1, 1, X);
	ck_assert_uint_eq(nr_ended, 0);
	go_on();
	ck_assert_uint_eq(nr_ended, 1);
	use(0, 0, ARAX_OUT, X);
	role_expect(&p->role);
	wants(1, 1, X);
	ck_assert_uint_eq(nr_ended, 2);
	ck_assert_uint_eq(jobs_done, nr_jobs);
	sched_destroy(p->sched);
	role_destroy(&p->role);
	finish_by_hand();
}
END_TEST

static int publish_down(struct link *l, struct arax_kernel_publish *k)
{
	k->id = l->head--;
	return 0;
}

static int publish_up(struct link *l, struct arax_kernel_publish *k)
{
	k->id = l->head++;
	return 0;
}

/* What the scheduler takes a launch of the kernel with that id for. */
static uint64_t key_on(struct link *l, uint32_t id)
{
	struct arax_dispatch d = {
		.type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH, .cells = sizeof(d) / 64u,
		.tag = (1ull << 32) | id, .context = id, .kernel = id,
		.grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
	};
	struct graph_node *n;

	ck_assert_int_eq(graph_add(l->graph, &d), 0);
	n = graph_pop_ready(l->graph);
	ck_assert_ptr_nonnull(n);
	return sched_kernel_key(n);
}

/* The module keeps the ids of a former araxd, the broker's core begins anew. */
START_TEST(kernels_are_the_same_on_all_links)
{
	const struct link_ops up = { .kernel = publish_up }, down = { .kernel = publish_down };
	struct link *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct registry *r = registry_create();
	uint64_t key, before = 0;
	uint32_t n, i;

	ck_assert_int_gt(registry_load_folder(r, "build/lib/arax/kernels"), 1);
	n = registry_count(r);
	a->ops = &up;
	a->head = 1;
	b->ops = &down;
	b->head = n;
	ck_assert_int_eq(link_init(a, NULL, 4096, NULL, NULL, NULL), 0);
	ck_assert_int_eq(link_init(b, NULL, 4096, NULL, NULL, NULL), 0);
	ck_assert_int_eq(link_publish(a, r), 0);
	ck_assert_int_eq(link_publish(b, r), 0);
	for (i = 1; i <= n; i++) {
		ck_assert_ptr_eq(a->kernels[i], b->kernels[n + 1 - i]);
		key = key_on(a, i);
		ck_assert_uint_eq(key_on(b, n + 1 - i), key);
		ck_assert_uint_ne(key, before);
		before = key;
	}
	link_fini(a);
	link_fini(b);
	registry_destroy(r);
	free(a);
	free(b);
}
END_TEST

/* Of a launch of 64 groups of the kernel @name with these arguments, on so many bytes. */
static uint64_t work_of(struct link *l, const char *name, uint32_t a, uint32_t b, uint32_t c,
			uint64_t bytes)
{
	struct {
		struct arax_dispatch d;
		struct arax_dispatch_range r;
		uint8_t rest[64];
	} e = {
		.d = { .type = ARAX_DISPATCH_TASK, .opcode = ARAX_OP_LAUNCH,
		       .cells = sizeof(struct arax_dispatch) / 64 + 1, .tag = 1ull << 32,
		       .context = 1, .nr_ranges = 1, .access = ARAX_INOUT,
		       .grid = { 64, 1, 1 }, .block = { 1, 1, 1 }, .arg_len = 3 * sizeof(a) },
		.r = { .buffer = 1, .length = bytes, .count = 1 },
	};
	struct graph_node *n;
	uint64_t work;

	for (uint32_t i = 1; !e.d.kernel && i <= CORE_MAX_KERNELS; i++)
		if (l->kernels[i] && !strcmp(l->kernels[i]->sig.name, name))
			e.d.kernel = i;
	ck_assert_msg(e.d.kernel, "%s", name);
	memcpy(e.d.args, (const uint32_t []){ a, b, c }, 3 * sizeof(a));
	ck_assert_int_eq(graph_add(l->graph, &e.d), 0);
	n = graph_pop_ready(l->graph);
	ck_assert_ptr_nonnull(n);
	ck_assert_uint_eq(n->sched.kernel, link_kernel_number(l->kernels[e.d.kernel]));
	work = sched_work(n);
	graph_start(l->graph, n);
	graph_complete(l->graph, n, 0, NULL);
	return work;
}

/* By what the manifest bounds, or by a size of its own. */
START_TEST(manifests_say_how_much_a_launch_is)
{
	const struct link_ops up = { .kernel = publish_up };
	struct link *l = calloc(1, sizeof(*l));
	struct registry *r = registry_create();

	ck_assert_int_gt(registry_load_folder(r, "build/lib/arax/kernels"), 1);
	l->ops = &up;
	l->head = 1;
	ck_assert_int_eq(link_init(l, NULL, 4096, NULL, NULL, NULL), 0);
	ck_assert_int_eq(link_publish(l, r), 0);
	ck_assert_uint_eq(work_of(l, "matmul_f32", 100, 200, 30, 4096), 100 * 200 * 30);
	ck_assert_uint_eq(work_of(l, "scan_parts_f32", 1 << 18, 4, 0, 1 << 20), (1 << 18) + 16);
	ck_assert_uint_eq(work_of(l, "scan_parts_f32", 1000, 1000, 0, 1 << 20), 1001000);
	/* However long its ranges are: */
	ck_assert_uint_eq(work_of(l, "vadd", 16 << 20, 0, 0, 64 << 20), 16 << 20);
	ck_assert_uint_eq(work_of(l, "vadd", 256, 0, 0, 64 << 20), 256);
	ck_assert_uint_eq(work_of(l, "vadd", 0, 0, 0, 64 << 20), 1);
	/* Nothing is said of this one. */
	ck_assert_uint_eq(work_of(l, "null", 0, 0, 0, 16 << 20), 1 << 18);
	ck_assert_uint_eq(work_of(l, "null", 0, 0, 0, 1024), 64);
	link_fini(l);
	registry_destroy(r);
	free(l);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_test(t, kernels_are_the_same_on_all_links);
	tcase_add_test(t, manifests_say_how_much_a_launch_is);
	tcase_add_test(t, the_best_way_is_not_the_worst);
	tcase_add_test(t, one_place_has_one_way);
	tcase_add_test(t, pieces_have_ways_of_their_own);
	tcase_add_test(t, a_piece_ends_where_its_places_do);
	tcase_add_test(t, rows_without_end);
	tcase_add_test(t, one_at_a_time);
	tcase_add_test(t, bounds_choose_devices);
	tcase_add_test(t, largest_chooses_devices);
	tcase_add_test(t, what_is_not_used_is_not_lost);
	tcase_add_test(t, each_link_is_measured);
	tcase_add_test(t, links_are_kept);
	tcase_add_test(t, a_wrong_clock_costs_nothing);
	tcase_add_test(t, ranges_in_pieces);
	tcase_add_test(t, fetches_go_by_tenants);
	tcase_add_test(t, few_tenants_share_no_turn);
	tcase_add_test(t, many_tenants_share_turns);
	tcase_add_test(t, a_long_fetch_makes_way);
	tcase_add_test(t, a_quick_link_has_large_pieces);
	tcase_add_test(t, who_is_not_watched_fetches_nothing);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
