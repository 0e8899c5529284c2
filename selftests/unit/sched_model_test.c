// SPDX-License-Identifier: MIT
/* sched_model_test - run times learnt, outliers, and what sizes say of other sizes */
#include <check.h>
#include <math.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/sched/link_model.h"
#include "daemon/sched/regress.h"
#include "daemon/sched/sched.h"
#include "daemon/sched/store.h"
#include "selftests/unit/tmp.h"

#define KERNEL	((uint64_t)(ARAX_OP_LAUNCH + 1) << 32 | 1)

static struct sched *s;
static uint64_t rng = 88172645463325252ull;

static double noise(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (double)(rng >> 11) / (1ull << 53) * 2 - 1;
}

static void setup(void)
{
	s = sched_create(&(struct sched_params){ 0 });
}

static void teardown(void)
{
	sched_destroy(s);
}

static void observe(uint32_t device, uint64_t work, uint64_t ns, int times)
{
	while (times--)
		sched_observe(s, KERNEL, device, work, ns);
}

#define near(is, should, relative) \
	ck_assert_double_lt(fabs((double)(is) / (double)(should) - 1), relative)

START_TEST(finds_a_line)
{
	struct regress_point p[10];
	struct regress_fit f;

	for (int i = 0; i < 10; i++) {
		double work = 1 << (2 * i);

		p[i] = (struct regress_point){ work, 5000 + 3 * work, 1 };
	}
	f = regress(p, 10);
	ck_assert(!f.power);
	near(f.a, 5000, 1e-6);
	near(f.b, 3, 1e-6);
	ck_assert_double_lt(f.error, 1e-6);
	ck_assert_uint_gt(regress_confidence(&f, 1000), 850);
	/* Far beyond it is worth less. */
	ck_assert_uint_lt(regress_confidence(&f, 1e12), 300);
	for (int i = 0; i < 10; i++)
		p[i].ns *= 1 + 0.1 * noise();
	f = regress(p, 10);
	near(regress_ns(&f, 300000), 905000, 0.15);
	ck_assert_uint_lt(regress_confidence(&f, 1000), 850);
}
END_TEST

START_TEST(finds_a_power)
{
	struct regress_point p[8];
	struct regress_fit f;

	for (int i = 0; i < 8; i++) {
		double work = 16 << i;

		p[i] = (struct regress_point){ work, 7 * pow(work, 1.5) * (1 + 0.02 * noise()), 1 };
	}
	f = regress(p, 8);
	ck_assert(f.power);
	near(f.b, 1.5, 0.05);
	near(regress_ns(&f, 5000), 7 * pow(5000, 1.5), 0.1);
}
END_TEST

START_TEST(curves_are_tame)
{
	/* Falling with work: at best it doesn't depend on it. */
	struct regress_point fall[] = { { 10, 900, 1 }, { 100, 500, 1 }, { 1000, 100, 1 } };
	struct regress_point below[] = { { 100, 10, 1 }, { 200, 1000, 1 }, { 300, 2000, 1 } };
	struct regress_point same[] = { { 100, 10, 1 }, { 100, 1000, 1 } };
	struct regress_point bad[] = { { 0, 10, 1 }, { 100, NAN, 1 } };
	struct regress_fit f = regress(fall, 3);

	ck_assert_double_ge(f.b, 0);
	ck_assert_uint_lt(regress_confidence(&f, 100), SCHED_CONFIDENT);
	f = regress(below, 3);
	ck_assert_double_gt(regress_ns(&f, 1), 0);
	f = regress(same, 2);
	ck_assert_uint_eq(f.points, 0);
	ck_assert_uint_eq(regress_confidence(&f, 100), 0);
	ck_assert(regress_ns(&f, 100) == 0);
	ck_assert_uint_eq(regress(bad, 2).points, 0);
	ck_assert_uint_eq(regress(fall, 1).points, 0);
	ck_assert_uint_eq(regress(fall, REGRESS_POINTS + 1).points, 0);
}
END_TEST

START_TEST(unseen_sizes_are_forecast)
{
	struct sched_forecast f = sched_forecast(s, KERNEL, 0, 1 << 12);

	ck_assert_uint_eq(f.ns, 0);
	ck_assert_uint_eq(f.confidence, 0);
	for (int k = 4; k < 20; k += 3)
		observe(0, 1u << k, 2000 + 10 * (1u << k), 20);
	f = sched_forecast(s, KERNEL, 0, 1 << 12);
	ck_assert(f.regression);
	ck_assert_uint_eq(f.runs, 0);
	near(f.ns, 2000 + 10 * 4096, 0.05);
	ck_assert_uint_ge(f.confidence, SCHED_CONFIDENT);
	/* With a history of its own that counts. */
	observe(0, 1 << 12, 100000, 20);
	f = sched_forecast(s, KERNEL, 0, 1 << 12);
	ck_assert(!f.regression);
	ck_assert_uint_eq(f.ns, 100000);
	ck_assert_uint_gt(f.confidence, 900);
	/* Nothing is told of another device, or another kernel. */
	ck_assert_uint_eq(sched_forecast(s, KERNEL, 1, 1 << 12).ns, 0);
	ck_assert_uint_eq(sched_forecast(s, KERNEL + 1, 0, 1 << 12).ns, 0);
	/* sched_estimate() stays with what was seen. */
	ck_assert_uint_eq(sched_estimate(s, KERNEL, 0, 1 << 14).ns, 0);
}
END_TEST

START_TEST(mean_work_counts_not_the_class)
{
	/* All at the upper end of their classes: with their lower bounds it were 2x off. */
	for (int k = 4; k < 14; k += 2)
		observe(0, (2u << k) - 1, 10 * ((2u << k) - 1), 20);
	near(sched_forecast(s, KERNEL, 0, (2 << 9) - 1).ns, 10 * ((2 << 9) - 1), 0.05);
}
END_TEST

START_TEST(outliers_are_left_out)
{
	struct sched_estimate e;

	observe(0, 64, 1000, 100);
	for (int i = 0; i < 50; i++) {
		observe(0, 64, 1000000, 1);
		observe(0, 64, 1000, 30);
	}
	e = sched_estimate(s, KERNEL, 0, 64);
	ck_assert_uint_eq(e.ns, 1000);
	/* The mean over all shows them all the same. */
	ck_assert_uint_gt(e.all_ns, 12000);
	observe(0, 64, 1000000, 1);
	ck_assert_uint_gt(sched_estimate(s, KERNEL, 0, 64).all_ns, 1000000 / 32 + 12000);
	/* Those in a row are a change. */
	observe(0, 64, 1000000, 60);
	near(sched_estimate(s, KERNEL, 0, 64).ns, 1000000, 0.01);
	/* In the first runs there is no saying what is one. */
	observe(1, 64, 1000, 2);
	observe(1, 64, 9000, 1);
	ck_assert_uint_gt(sched_estimate(s, KERNEL, 1, 64).ns, 3000);
}
END_TEST

START_TEST(noise_is_not_an_outlier)
{
	double sum = 0;

	for (int i = 0; i < 20000; i++) {
		uint64_t ns = (uint64_t)(10000 + 9000 * noise());

		observe(0, 64, ns, 1);
		if (i >= 19000)
			sum += (double)sched_estimate(s, KERNEL, 0, 64).ns;
	}
	near(sum / 1000, 10000, 0.1);
	ck_assert_uint_lt(sched_forecast(s, KERNEL, 0, 64).confidence, 850);
}
END_TEST

/* Two devices whose sizes are known but for one: no trials there. */
START_TEST(eft_needs_no_trial_of_what_it_can_tell)
{
	static struct graph_node n[64];
	unsigned int on[2] = { 0 };

	for (uint32_t d = 0; d < 2; d++) {
		sched_device_set(s, d, 1);
		for (int k = 4; k < 16; k += 2)
			observe(d, 1u << k, (d ? 10 : 40) * (1u << k), 20);
	}
	for (int i = 0; i < 20; i++) {
		n[i] = (struct graph_node){ .seq = i + 1 };
		n[i].d.opcode = ARAX_OP_LAUNCH;
		n[i].d.kernel = 1;
		n[i].d.tenant = 1;
		n[i].d.grid[0] = 1 << 9;
		ck_assert_int_eq(sched_push(s, &n[i], 1), 0);
		ck_assert_ptr_eq(sched_pick(s, 1), &n[i]);
		ck_assert_uint_gt(n[i].sched.predicted_ns, 0);
		on[n[i].device]++;
		sched_finish(s, &n[i], (n[i].device ? 10 : 40) << 9, true);
	}
	ck_assert_uint_eq(on[0], 0);
	ck_assert_uint_eq(on[1], 20);
}
END_TEST

START_TEST(what_is_exported_can_be_imported)
{
	struct sched_known *k;
	size_t nr, i;

	ck_assert(!sched_has_news(s));
	free(sched_export(s, &nr));
	ck_assert_uint_eq(nr, 0);
	for (int c = 4; c < 20; c += 3)
		observe(3, 3u << c, 2000 + 10 * (3u << c), 20);
	ck_assert(sched_has_news(s));
	k = sched_export(s, &nr);
	ck_assert_uint_eq(nr, 6);
	ck_assert(!sched_has_news(s));
	sched_destroy(s);
	setup();
	for (i = 0; i < nr; i++) {
		k[i].device = 1;
		sched_import(s, &k[i]);
	}
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 1, 3 << 7), 2000 + 10 * (3 << 7));
	near(sched_forecast(s, KERNEL, 1, 3 << 9).ns, 2000 + 10 * (3 << 9), .02);
	/* What it learnt itself counts more. */
	observe(1, 3 << 7, 77, 50);
	sched_import(s, &k[0]);
	for (i = 0; i < nr; i++)
		sched_import(s, &k[i]);
	ck_assert_uint_lt(sched_predict_ns(s, KERNEL, 1, 3 << 7), 200);
	/* Nonsense changes nothing. */
	k[0].device = SCHED_MAX_DEVICES;
	sched_import(s, &k[0]);
	k[0].device = 0;
	k[0].ns = 0;
	sched_import(s, &k[0]);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 0, 3 << 4), 0);
	free(k);
}
END_TEST

/* Three of a make, and one of another. */
static void make_alike(void)
{
	ck_assert_int_eq(sched_device_alike(s, 0, 1), -EINVAL);
	for (uint32_t d = 0; d < 4; d++) {
		sched_device_set(s, d, 1);
		ck_assert_int_eq(sched_device_alike(s, d, d == 1 ? 9 : 7), 0);
	}
}

START_TEST(what_one_learns_holds_for_those_that_are_like_it)
{
	struct graph_node n = { .d = { .opcode = ARAX_OP_LAUNCH, .kernel = 1, .grid = { 64, 1, 1 },
				       .block = { 1, 1, 1 } } };
	struct sched_forecast f;

	make_alike();
	observe(0, 64, 1000, 40);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 2, 64), 1000);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 3, 64), 1000);
	ck_assert_uint_ge(sched_estimate(s, KERNEL, 3, 64).runs, 32);
	ck_assert(sched_is_short(s, &n, 3, 2000));
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 1, 64), 0);
	ck_assert(!sched_is_short(s, &n, 1, 2000));
	/* So do sizes that none of them has run. */
	observe(2, 1 << 10, 10000, 20);
	observe(3, 1 << 14, 160000, 20);
	f = sched_forecast(s, KERNEL, 0, 1 << 12);
	ck_assert_uint_ge(f.confidence, SCHED_CONFIDENT);
	near(f.ns, 40000, 0.2);
	ck_assert_uint_eq(sched_forecast(s, KERNEL, 1, 1 << 12).ns, 0);
}
END_TEST

START_TEST(who_is_not_like_the_others_learns_it)
{
	make_alike();
	observe(0, 64, 1000, 100);
	/* A few runs say little. */
	observe(3, 64, 5000, 2);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 3, 64), 1000);
	observe(3, 64, 5000, 20);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 3, 64), 5000);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 0, 64), 1000);
	/* And more than nothing, which is what the others have. */
	observe(2, 128, 7000, 5);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 2, 128), 7000);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 0, 128), 7000);
}
END_TEST

START_TEST(what_is_shared_is_kept_by_device)
{
	struct sched_known *k;
	size_t nr;

	make_alike();
	observe(0, 64, 1000, 40);
	observe(3, 64, 1100, 40);
	k = sched_export(s, &nr);
	ck_assert_uint_eq(nr, 2);
	ck_assert_uint_eq(k[0].device + k[1].device, 3);
	sched_destroy(s);
	setup();
	make_alike();
	sched_import(s, &k[0]);
	near(sched_predict_ns(s, KERNEL, 2, 64), 1050, 0.06);
	ck_assert_uint_eq(sched_predict_ns(s, KERNEL, 1, 64), 0);
	free(k);
}
END_TEST

static void entry(struct store *st, const char *kernel, double work, uint64_t ns)
{
	struct store_entry *e;

	st->at = realloc(st->at, (st->count + 1) * sizeof(*st->at));
	e = &st->at[st->count++];
	*e = (struct store_entry){ .work = work, .deviation = 1.5, .ns = ns, .all_ns = 2 * ns,
				   .runs = 20, .day = 20000 };
	strcpy(e->key.kernel, kernel);
	strcpy(e->key.device, "cpu0");
	strcpy(e->key.backend, "cpu");
	e->key.abi = 0xfedcba9876543210ull;
	e->key.units = 4;
}

START_TEST(store_keeps_all)
{
	char folder[UNIT_TMP_LEN], path[128], error[256];
	struct store st = { 0 }, back;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-models-XXXXXX")));
	snprintf(path, sizeof(path), "%s/a/models.json", folder);
	ck_assert_int_eq(store_load(&back, path, error, sizeof(error)), -ENOENT);
	entry(&st, "b", 100, 1000);
	entry(&st, "a", 200, 1 << 20);
	entry(&st, "b", 50, 555);
	ck_assert_int_eq(store_save(&st, path), 0);
	ck_assert_int_eq(store_save(&st, path), 0);
	ck_assert_int_eq(store_load(&back, path, error, sizeof(error)), 0);
	ck_assert_uint_eq(back.count, 3);
	ck_assert_str_eq(back.at[0].key.kernel, "a");
	ck_assert_uint_eq(back.at[1].ns, 555);
	ck_assert_uint_eq(back.at[2].key.abi, 0xfedcba9876543210ull);
	ck_assert(back.at[2].work == 100 && back.at[2].deviation == 1.5);
	ck_assert_uint_eq(back.at[2].key.units, 4);
	store_free(&back);
	/* Whom anybody could have written is not believed. */
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(store_load(&back, path, error, sizeof(error)), -EPERM);
	/* No half-written file is left. */
	unlink(path);
	strrchr(path, '/')[0] = '\0';
	ck_assert_int_eq(rmdir(path), 0);
	rmdir(folder);
	store_free(&st);
}
END_TEST

static void leave_file(const char *path, const char *end, bool old)
{
	const struct timespec at = { .tv_sec = time(NULL) - (old ? 7200 : 0) };
	const struct timespec times[2] = { at, at };
	char name[96];
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, end);
	fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(futimens(fd, times), 0);
	close(fd);
}

static bool takes_file(const char *path, const char *end)
{
	char name[96];

	snprintf(name, sizeof(name), "%s%s", path, end);
	return !unlink(name);
}

/* By an araxd that was killed as it wrote; not what another one writes, or somebody has kept. */
START_TEST(nothing_is_left)
{
	char folder[UNIT_TMP_LEN], path[UNIT_TMP_LEN + 16];
	struct store st = { 0 };

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "models-XXXXXX")));
	snprintf(path, sizeof(path), "%s/models.json", folder);
	leave_file(path, ".new-a1B2c3", true);
	leave_file(path, ".new-d4E5f6", false);
	leave_file(path, ".unused", true);
	leave_file(path, ".backup", true);
	entry(&st, "a", 100, 1000);
	ck_assert_int_eq(store_save(&st, path), 0);
	store_free(&st);
	ck_assert(!takes_file(path, ".new-a1B2c3"));
	ck_assert(takes_file(path, ".new-d4E5f6"));
	ck_assert(takes_file(path, ".unused"));
	ck_assert(takes_file(path, ".backup"));
	ck_assert(takes_file(path, ""));
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

#define SAVES	50

struct saver {
	pthread_t thread;
	struct store st;
	const char *path;
	int err;
};

static void *saver_main(void *arg)
{
	struct saver *s = arg;

	for (int i = 0; i < SAVES && !s->err; i++)
		s->err = store_save(&s->st, s->path);
	return NULL;
}

/* As araxds of one user do: what is there is always what one of them wrote. */
START_TEST(two_may_save_at_once)
{
	char folder[UNIT_TMP_LEN], path[128], error[256] = "";
	struct saver s[2] = { 0 };
	struct store back;

	ck_assert_ptr_nonnull(mkdtemp(unit_tmp(folder, "arax-models-XXXXXX")));
	snprintf(path, sizeof(path), "%s/models.json", folder);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 1000 * (i + 1); k++)
			entry(&s[i].st, "kernel", k + 1, 1000);
		s[i].path = path;
	}
	ck_assert_int_eq(store_save(&s[0].st, path), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&s[i].thread, NULL, saver_main, &s[i]), 0);
	for (int i = 0; i < SAVES; i++) {
		ck_assert_msg(!store_load(&back, path, error, sizeof(error)), "%s", error);
		ck_assert(back.count == 1000 || back.count == 2000);
		store_free(&back);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(s[i].thread, NULL);
		ck_assert_int_eq(s[i].err, 0);
		store_free(&s[i].st);
	}
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

static const struct {
	const char *text, *error;
	int result;
} wrong[] = {
	{ "", "x:1:", -EINVAL },
	{ "{\"version\": 2", "x:1:", -EINVAL },
	{ "[]", "version", -EINVAL },
	{ "{\"version\": 1, \"models\": []}", "its version is not 2", -EPROTONOSUPPORT },
	{ "{\"version\": 3, \"models\": []}", "its version is not 2", -EPROTONOSUPPORT },
	{ "{\"version\": 2}", "no list", -EINVAL },
	{ "{\"version\": 2, \"models\": [{}]}", "model 0:", -EINVAL },
#define MODEL(abi, size) "{\"version\": 2, \"models\": [{\"kernel\": \"k\", \"abi\": \"" abi \
	"\", \"device\": \"d\", \"backend\": \"b\", \"units\": 1, \"sizes\": [" size "]}]}"
	{ MODEL("0011223344556677", "{}"), "size 0", -EINVAL },
	{ MODEL("00112233", ""), "model 0", -EINVAL },
	{ MODEL("0011223344556677", "{\"work\": 0, \"ns\": 5, \"deviation\": 0, \"all_ns\": 5, "
		"\"runs\": 5, \"day\": 5}"), "out of range", -EINVAL },
	{ MODEL("0011223344556677", "{\"work\": 1, \"ns\": -5, \"deviation\": 0, \"all_ns\": 5, "
		"\"runs\": 5, \"day\": 5}"), "out of range", -EINVAL },
#define LINKS(l) "{\"version\": 2, \"models\": [], \"links\": " l "}"
#define LINK(way, latency, per_byte) LINKS("[{\"device\": \"d\", \"backend\": \"b\", " \
	"\"units\": 1, \"day\": 5, \"direction\": " way ", \"latency_ns\": " latency ", " \
	"\"ns_per_byte\": " per_byte "}]")
	{ LINKS("{}"), "no list", -EINVAL },
	{ LINKS("[{}]"), "link 0", -EINVAL },
	{ LINK("\"up\"", "1.5", "1.5"), "link 0", -EINVAL },
	{ LINK("\"direct\"", "1.5", "1.5"), "link 0", -EINVAL },
	{ LINK("\"in\"", "-1.5", "1.5"), "link 0", -EINVAL },
	{ LINK("\"in\"", "1.5", "1e16"), "link 0", -EINVAL },
	{ LINK("\"in\"", "1.5", "\"x\""), "link 0", -EINVAL },
};

/* What is learnt of 1 GiB must not be what is known of less after a restart. */
START_TEST(store_keeps_size_classes)
{
	struct store st = { 0 }, back;
	char error[256], *text;
	size_t i;

	for (i = 0; i < 65; i++) {
		entry(&st, "kernel", ldexp(1, (int)i), 1000);
		if (i > 1 && i < 54)
			entry(&st, "kernel", ldexp(1, (int)i) - 1, 1000);
	}
	text = store_format(&st);
	ck_assert_int_eq(store_parse(&back, "x", text, strlen(text), error, sizeof(error)), 0);
	ck_assert_uint_eq(back.count, st.count);
	for (i = 0; i < st.count; i++)
		ck_assert_double_eq(back.at[i].work, st.at[i].work);
	free(text);
	store_free(&st);
	store_free(&back);
}
END_TEST

static void keep_link(struct store_link *l, enum store_way way, const char *from, double ns)
{
	*l = (struct store_link){ .way = way, .units = 5, .from_units = *from ? 7 : 0,
				  .latency_ns = ns, .ns_per_byte = 1 / ns, .day = 20000 };
	strcpy(l->device, "gpu");
	strcpy(l->from, from);
	strcpy(l->backend, "cuda");
}

START_TEST(store_keeps_links)
{
	static const char before[] = "{\"version\": 2, \"models\": []}";
	struct store_link links[3] = { 0 }, *l;
	struct store st = { .links = links, .nr_links = 3 }, back;
	char error[256], *text;

	keep_link(&links[0], STORE_DIRECT, "other", 3);
	keep_link(&links[1], STORE_OUT, "", 7);
	keep_link(&links[2], STORE_IN, "", STORE_MAX_NS);
	text = store_format(&st);
	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(store_parse(&back, "x", text, strlen(text), error, sizeof(error)), 0);
	free(text);
	ck_assert_uint_eq(back.nr_links, 3);
	l = back.links;
	ck_assert(l[0].way == STORE_IN && l[1].way == STORE_OUT && l[2].way == STORE_DIRECT);
	ck_assert(l[0].latency_ns == STORE_MAX_NS && l[1].latency_ns == 7);
	ck_assert(l[2].latency_ns == 3 && l[2].ns_per_byte == 1 / 3.);
	ck_assert(l[1].units == 5 && l[1].day == 20000 && !strcmp(l[1].backend, "cuda"));
	ck_assert(!strcmp(l[2].device, "gpu") && !strcmp(l[2].from, "other"));
	ck_assert_uint_eq(l[2].from_units, 7);
	store_free(&back);
	/* Files of before have none. */
	ck_assert_int_eq(store_parse(&back, "x", before, strlen(before), error, sizeof(error)), 0);
	ck_assert_uint_eq(back.nr_links, 0);
	store_free(&back);
}
END_TEST

START_TEST(store_refuses_what_is_wrong)
{
	char error[256];
	struct store st;

	ck_assert_int_eq(store_parse(&st, "x", wrong[_i].text, strlen(wrong[_i].text), error,
				     sizeof(error)), wrong[_i].result);
	ck_assert_msg(strstr(error, wrong[_i].error), "\"%s\" lacks \"%s\"", error,
		      wrong[_i].error);
	ck_assert_uint_eq(st.count, 0);
	ck_assert_ptr_null(st.at);
	ck_assert_ptr_null(st.links);
}
END_TEST

/* A link of 3 us and 8 GB/s, and now and then a page fault. */
struct fake {
	uint64_t now, copies, broken_after, first_ns;
};

static int fake_copy(void *arg, uint64_t bytes)
{
	struct fake *f = arg;

	f->now += 3000 + bytes / 8 + (f->copies % 3 ? 0 : 50000) + (f->copies ? 0 : f->first_ns);
	return ++f->copies > f->broken_after ? -EIO : 0;
}

static uint64_t fake_now(void *arg)
{
	return ((struct fake *)arg)->now;
}

START_TEST(links_are_measured)
{
	struct fake f = { .now = 1, .broken_after = 1000 };
	struct link_probe p = { .copy = fake_copy, .now_ns = fake_now, .arg = &f,
				.most = 16 << 20, .budget_ns = 20000000 };
	struct link_model m;

	ck_assert_int_eq(link_measure(&m, &p), 0);
	near(m.latency_ns, 3000, .01);
	near(m.ns_per_byte, 1 / 8., .01);
	/* The budget is kept but for the copy that was begun. */
	ck_assert_uint_lt(f.now, 30000000);
	/* Nor is it spent on the first one, for which a driver may set up much. */
	f = (struct fake){ .now = 1, .broken_after = 1000, .first_ns = 90000000 };
	ck_assert_int_eq(link_measure(&m, &p), 0);
	near(m.latency_ns, 3000, .01);
	near(m.ns_per_byte, 1 / 8., .01);
	p.budget_ns = 0;
	f.now = 1;
	ck_assert_int_eq(link_measure(&m, &p), 0);
	ck_assert_uint_lt(f.now, 300000);
	p.most = 4096;
	ck_assert_int_eq(link_measure(&m, &p), -EINVAL);
	p.most = 16 << 20;
	f.broken_after = f.copies + 3;
	p.budget_ns = 20000000;
	ck_assert_int_eq(link_measure(&m, &p), -EIO);
}
END_TEST

START_TEST(learnt_links_are_weighed)
{
	const struct link_model measured = { 3000, .1 };
	const struct {
		struct link_model learnt;
		bool agrees;
	} cases[] = {
		{ { 3000, .1 }, true },
		/* By registered memory; by several lanes at once. */
		{ { 9000, .015 }, true },
		{ { 20000, .5 }, true },
		{ { 20000, .1 }, true },
		{ { 0, .1 }, true },
		/* Another device's; and of a time when the machine was suspended. */
		{ { 3000, 2 }, false },
		{ { 3000, .001 }, false },
		{ { 1e9, .1 }, false },
		{ { 0, 0 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_int_eq(link_agrees(&cases[i].learnt, &measured), cases[i].agrees);
		ck_assert_int_eq(link_agrees(&measured, &cases[i].learnt), cases[i].agrees);
	}
}
END_TEST

/* All that one tenant's own kernels can have learnt of them; returns of how many that was so. */
static uint32_t learn_all(uint64_t tenant)
{
	uint32_t known = 0;

	for (uint32_t i = 0; i < 64 * 63 * 16; i++) {
		struct graph_node n = { .d = {
			.opcode = ARAX_OP_LAUNCH, .kernel = ARAX_KERNEL_OWN | i % 64,
			.tenant = tenant, .context = 1,
		} };
		const uint64_t key = sched_kernel_key(&n), work = 1ull << i / 64 % 63;
		const uint32_t device = i / 64 / 63;

		for (int k = 0; k < 3; k++)
			sched_observe(s, key, device, work, 1000 + i);
		known += sched_predict_ns(s, key, device, work) > 0;
	}
	return known;
}

/* Whoever runs kernels of his own for all sizes on many devices leaves room for others to do so. */
START_TEST(one_tenant_leaves_others_room)
{
	uint32_t first = learn_all(1), all = first;

	ck_assert_uint_ge(first, SCHED_MAX_RECORDS / 32);
	ck_assert_uint_lt(first, SCHED_MAX_RECORDS / 8);
	/* However many there are, as long as they don't share keys. */
	for (uint64_t tenant = 2; tenant < 12; tenant++) {
		uint32_t known = learn_all(tenant);

		ck_assert_uint_ge(known, SCHED_MAX_RECORDS / 128);
		all += known;
	}
	ck_assert_uint_le(all, SCHED_MAX_RECORDS / 2);
	/* What is everybody's has the rest. */
	for (uint64_t i = 1; i <= SCHED_MAX_RECORDS / 2; i++)
		sched_observe(s, i, 0, 1, 1000);
	ck_assert_uint_eq(sched_estimate(s, SCHED_MAX_RECORDS / 2, 0, 1).runs, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sched_model");
	TCase *c = tcase_create("models");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, finds_a_line);
	tcase_add_test(c, finds_a_power);
	tcase_add_test(c, curves_are_tame);
	tcase_add_test(c, unseen_sizes_are_forecast);
	tcase_add_test(c, mean_work_counts_not_the_class);
	tcase_add_test(c, outliers_are_left_out);
	tcase_add_test(c, noise_is_not_an_outlier);
	tcase_add_test(c, eft_needs_no_trial_of_what_it_can_tell);
	tcase_add_test(c, one_tenant_leaves_others_room);
	tcase_add_test(c, links_are_measured);
	tcase_add_test(c, learnt_links_are_weighed);
	tcase_add_test(c, what_is_exported_can_be_imported);
	tcase_add_test(c, what_one_learns_holds_for_those_that_are_like_it);
	tcase_add_test(c, who_is_not_like_the_others_learns_it);
	tcase_add_test(c, what_is_shared_is_kept_by_device);
	tcase_add_test(c, store_keeps_all);
	tcase_add_test(c, two_may_save_at_once);
	tcase_add_test(c, nothing_is_left);
	tcase_add_test(c, store_keeps_size_classes);
	tcase_add_test(c, store_keeps_links);
	tcase_add_loop_test(c, store_refuses_what_is_wrong, 0,
			    sizeof(wrong) / sizeof(wrong[0]));
	suite_add_tcase(suite, c);
	r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
