// SPDX-License-Identifier: MIT
/*
 * What a task costs in the core alone: one thread submits, reads the dispatch
 * ring and commits, two ranges a task, a tenant three deep.  And what it takes there and
 * back where one CPU submits and another one commits, as over the kernel link, beside
 * two lines that go to and fro between the same two.
 */
#define FX_ABORTS
#include <pthread.h>
#include <sched.h>

#include "selftests/unit/core_fixture.h"

#define DEPTH	1024

static double now(void)
{
	return (double)core_now_ns();
}

/* Nanoseconds a task, the best of some rounds. */
static double measure(struct fx_client *cl, struct arax_task *t, u32 batch)
{
	struct fx *fx = cl->fx;
	double best = 1e9;
	u32 round, i, k;

	for (round = 0; round < 20; round++) {
		const u32 n = 20000;
		double start = now(), ns;

		for (i = 0; i < n; i += batch) {
			struct arax_commit c = { .count = batch };
			struct arax_completion e;

			for (k = 0; k < batch; k++)
				fx_push(cl, t);
			ck_assert_int_eq(core_submit(cl->c, batch), (int)batch);
			for (k = 0; k < batch; k++) {
				const struct arax_dispatch *d = fx_next(fx);

				fx->core->commits[k].tag = d->tag;
			}
			core_commit(fx->core, &c);
			for (k = 0; k < batch; k++)
				ck_assert(fx_pop(cl, &e));
		}
		ns = (now() - start) / n;
		best = ns < best ? ns : best;
	}
	return best;
}

struct pair {
	struct fx *fx;
	_Alignas(64) u32 ping;
	_Alignas(64) u32 pong;
	_Alignas(64) bool stop;
};

static cpu_set_t all;	/* CPUs that this process may use */

static bool pin(u32 nr)
{
	cpu_set_t one;
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || nr--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
	}
	return false;
}

static void *mediate(void *arg)
{
	struct pair *p = arg;
	struct arax_commit c = { .count = 1 };

	pin(1);
	while (!core_read_once(p->stop)) {
		const struct arax_dispatch *d = fx_next(p->fx);

		if (d) {
			p->fx->core->commits[0].tag = d->tag;
			core_commit(p->fx->core, &c);
		}
	}
	return NULL;
}

static void *echo(void *arg)
{
	struct pair *p = arg;
	u32 n = 0;

	pin(1);
	while (!core_read_once(p->stop)) {
		/* Pairs with the release in bounce(), as that one's acquire with this release. */
		u32 seen = core_load_acquire(&p->ping);

		if (seen != n)
			core_store_release(&p->pong, n = seen);
	}
	return NULL;
}

static void bounce(struct pair *p, u32 n)
{
	u32 i;

	for (i = 1; i <= n; i++) {
		core_store_release(&p->ping, p->pong + 1);
		while (core_load_acquire(&p->pong) != p->ping)
			;
	}
}

static void exchange(struct fx_client *cl, const struct arax_task *t, u32 n)
{
	struct arax_completion e;

	while (n--) {
		fx_push(cl, t);
		ck_assert_int_eq(core_submit(cl->c, 1), 1);
		while (!fx_pop(cl, &e))
			;
	}
}

/* Nanoseconds there and back, the median of some rounds. */
static double there_and_back(struct fx_client *cl, const struct arax_task *t)
{
	static struct pair p;
	const u32 n = 20000, rounds = 9;
	double ns[9], start;
	pthread_t other;
	u32 i, k;

	p = (struct pair){ .fx = cl->fx };
	ck_assert_int_eq(pthread_create(&other, NULL, t ? mediate : echo, &p), 0);
	for (i = 0; i < rounds; i++) {
		start = now();
		if (t)
			exchange(cl, t, n);
		else
			bounce(&p, n);
		ns[i] = (now() - start) / n;
		for (k = i; k && ns[k] < ns[k - 1]; k--) {
			double less = ns[k];

			ns[k] = ns[k - 1];
			ns[k - 1] = less;
		}
	}
	core_write_once(p.stop, true);
	pthread_join(other, NULL);
	return ns[rounds / 2];
}

int main(int argc, char **argv)
{
	bool json = argc > 1 && !strcmp(argv[1], "--json");
	struct core_params p = fx_params();
	struct fx_client *cl;
	struct arax_task t;
	struct fx *fx;
	double one, many, floor = 0, apart = 0;
	u32 a, b;

	if (argc > 1 && !json) {
		bool help = !strcmp(argv[1], "--help");

		if (!strcmp(argv[1], "--version"))
			return printf("%s %s\n", argv[0], ARAX_VERSION) < 0;
		fprintf(help ? stdout : stderr, "usage: %s [--json]\n", argv[0]);
		return help ? 0 : 2;
	}
	p.cells = 1u << 14;
	p.slots = 1u << 12;
	fx = fx_new(&p);
	cl = fx_client(fx, 1000, 2);
	ck_assert_int_eq(fx_init(cl, DEPTH, 128, 0), 0);
	cl->queue = fx_queue(cl, ARAX_QUEUE_DATAFLOW);
	ck_assert_int_eq(fx_attach(fx, 0), 0);
	a = fx_buffer(cl, 1 << 20);
	b = fx_buffer(cl, 1 << 20);
	t = fx_copy(cl, 1, a, b, 4096);
	one = measure(cl, &t, 1);
	many = measure(cl, &t, 32);
	if (!sched_getaffinity(0, sizeof(all), &all) && CPU_COUNT(&all) > 1 && pin(0)) {
		floor = there_and_back(cl, NULL);
		apart = there_and_back(cl, &t);
	}
	if (json) {
		printf("{\"name\": \"core\", \"single_ns\": %.1f, \"batch32_ns\": %.1f, ", one, many);
		printf("\"two_cpus_ns\": %.1f, \"two_cpus_floor_ns\": %.1f}\n", apart, floor);
	} else {
		printf("submit + commit: %.1f ns a task one by one, %.1f ns in batches of 32\n", one,
		       many);
		if (floor)
			printf("on two CPUs, there and back: %.1f ns, two lines alone %.1f ns\n", apart,
			       floor);
		else
			printf("on two CPUs: not measured, there is one only\n");
	}
	fx_release(cl);
	fx_free(fx);
	return 0;
}
