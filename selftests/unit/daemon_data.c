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

#include "daemon/dispatch/remote.h"
#include "daemon/sched/internal.h"
#include "daemon/link/link.h"
#include "selftests/unit/memory_fake.h"

#define DEVICES	3	/* the last one works on the host's pages */
#define HOST	2
#define X	4000u
#define Y	5000u
#define LAST	100

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
		ck_assert_int_eq(memory_add_device(p->memory, i, &fake_ops, &fake[i], 1 << 20), 0);
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
static void use(uint32_t device, uint32_t buffer, uint32_t access, uint64_t bytes)
{
	struct memory_range r = {
		.buffer = map[buffer].copies, .length = bytes, .stride = (uint32_t)bytes,
		.count = 1, .access = access,
	};

	ck_assert_int_eq(memory_enter(p->memory, device, 0, &r, 1, 1, nobody), 0);
	ck_assert_int_eq(memory_leave(p->memory, device, 0, &r, 1, 0), 0);
	memory_settle(p->memory, device, &r, 1, LAST);
	set_rates();
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

/* A whole one: what does the scheduler take a launch on its only device for? */
static void taken_for(const char *text, uint32_t launch)
{
	struct graph_node node = { .d.opcode = ARAX_OP_LAUNCH };
	struct registry *registry = registry_create();
	const struct sched_ops *asks;
	struct devices *opened;
	struct poller *whole;
	struct config c;
	char error[256];

	ck_assert_ptr_nonnull(registry);
	ck_assert_msg(!config_parse(&c, "test", text, strlen(text), error, sizeof(error)), "%s", error);
	ck_assert_int_eq(devices_open(&c, &opened), 0);
	ck_assert_uint_eq(devices_count(opened), 1);
	ck_assert_int_eq(poller_create(&c, registry, opened, &whole), 0);
	asks = &whole->sched->ops;
	ck_assert_uint_eq(asks->part ? asks->part(whole, &node, 0) : 0, launch);
	node.d.opcode = ARAX_OP_COPY;
	ck_assert_uint_eq(asks->part ? asks->part(whole, &node, 0) : 0, 0);
	poller_destroy(whole);
	devices_close(opened);
	registry_destroy(registry);
	config_free(&c);
}

/* Who runs one launch at a time is full with it, however many lanes there are. */
START_TEST(one_at_a_time)
{
	taken_for("cpu { enable = false }\nbackend \"sim\" { options = { \"lanes=2\" } }", SCHED_WHOLE);
	taken_for("cpu { groups = { \"0\" } }", 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data");
	TCase *t = tcase_create("all");
	SRunner *sr;
	int failed;

	tcase_add_test(t, the_best_way_is_not_the_worst);
	tcase_add_test(t, one_place_has_one_way);
	tcase_add_test(t, pieces_have_ways_of_their_own);
	tcase_add_test(t, a_piece_ends_where_its_places_do);
	tcase_add_test(t, rows_without_end);
	tcase_add_test(t, one_at_a_time);
	suite_add_tcase(suite, t);
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
