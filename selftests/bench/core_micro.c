// SPDX-License-Identifier: MIT
/*
 * What a task costs in the core alone: one thread submits, reads the dispatch
 * ring and commits, two ranges a task, a tenant three deep.
 */
#define FX_ABORTS
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

int main(int argc, char **argv)
{
	bool json = argc > 1 && !strcmp(argv[1], "--json");
	struct core_params p = fx_params();
	struct fx_client *cl;
	struct arax_task t;
	struct fx *fx;
	double one, many;
	u32 a, b;

	if (argc > 1 && !json) {
		bool help = !strcmp(argv[1], "--help");

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
	if (json)
		printf("{\"name\": \"core\", \"single_ns\": %.1f, \"batch32_ns\": %.1f}\n", one, many);
	else
		printf("submit + commit: %.1f ns a task one by one, %.1f ns in batches of 32\n", one,
		       many);
	fx_release(cl);
	fx_free(fx);
	return 0;
}
