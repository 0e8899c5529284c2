// SPDX-License-Identifier: MIT
/* Tile graphs as StarPU tasks, scheduled by its dmdas. */
#include "tiles_peer.h"

#ifdef HAVE_STARPU
#include <stdlib.h>

#include <starpu.h>

#include "bench.h"
#include "clock.h"

static const struct tile_graph *graph;
static starpu_data_handle_t *handles;
static struct starpu_perfmodel models[TILE_STEPS];
static struct starpu_codelet codelets[TILE_STEPS];

static void call(void *buffers[], void *arg)
{
	const struct tile_task *t = arg;
	double *tiles[TILE_RANGES];
	uint32_t i;

	for (i = 0; i < tile_kernels[t->step].nr_ranges; i++)
		tiles[i] = (double *)STARPU_MATRIX_GET_PTR(buffers[i]);
	tile_call(graph, t, tiles);
}

static const char *const step_names[TILE_STEPS] = {
	"tile_potrf", "tile_trsm", "tile_syrk", "tile_gemm", "tile_getrf", "tile_trsm_row",
	"tile_trsm_column", "tile_gemm_lu",
};

/* History by step and tile size. */
static void make_codelet(int step)
{
	struct starpu_codelet *c = &codelets[step];
	uint32_t i, n = tile_kernels[step].nr_ranges;

	starpu_codelet_init(c);
	c->cpu_funcs[0] = call;
	c->cpu_funcs_name[0] = "call";
	c->where = STARPU_CPU;
	c->name = step_names[step];
	c->nbuffers = (int)n;
	for (i = 0; i < n; i++)
		c->modes[i] = i == n - 1 ? STARPU_RW : STARPU_R;
	models[step].type = STARPU_HISTORY_BASED;
	models[step].symbol = step_names[step];
	c->model = &models[step];
}

static const char *begin(const char *home)
{
	struct starpu_conf conf;
	int i;

	setenv("STARPU_HOME", home, 1);
	setenv("STARPU_SILENT", "1", 1);
	starpu_conf_init(&conf);
	conf.sched_policy_name = "dmdas";
	conf.calibrate = 1;	/* each model is used once it has its samples, and refined */
	conf.ncpus = TILE_WORKERS;
	conf.ncuda = 0;
	conf.nopencl = 0;
	if (starpu_init(&conf))
		return "starpu_init() failed";
	for (i = 0; i < TILE_STEPS; i++)
		make_codelet(i);
	starpu_pause();
	return NULL;
}

static void prepare(const struct tile_graph *g, double *matrix)
{
	uint32_t i, n = g->across * g->across;

	graph = g;
	handles = calloc(n, sizeof(*handles));
	if (!handles)
		bench_fail("no memory for handles");
	for (i = 0; i < n; i++)
		starpu_matrix_data_register(&handles[i], STARPU_MAIN_RAM,
					    (uintptr_t)tile_at(g, matrix, i), g->tile, g->tile,
					    g->tile, sizeof(double));
	starpu_resume();
}

static uint64_t run(const struct tile_graph *g, double *matrix)
{
	uint64_t t0 = ticks();
	uint32_t r;
	size_t i;

	for (i = 0; i < g->nr_tasks; i++) {
		struct tile_task *t = &g->tasks[i];
		struct starpu_task *task = starpu_task_create();

		task->cl = &codelets[t->step];
		task->cl_arg = t;
		task->cl_arg_size = sizeof(*t);
		task->priority = t->priority;
		for (r = 0; r < tile_kernels[t->step].nr_ranges; r++)
			task->handles[r] = handles[t->tiles[r]];
		if (starpu_task_submit(task))
			bench_fail("StarPU took no task");
	}
	starpu_task_wait_for_all();
	return ticks() - t0;
}

static void end(const struct tile_graph *g)
{
	uint32_t i;

	for (i = 0; i < g->across * g->across; i++)
		starpu_data_unregister(handles[i]);
	free(handles);
	starpu_pause();
}

const struct tile_runner tile_starpu = {
	.name = "StarPU dmdas", .begin = begin, .prepare = prepare, .run = run, .end = end,
};
#else
static const char *absent(const char *home)
{
	return "built without StarPU (Debian: libstarpu-dev)";
}

const struct tile_runner tile_starpu = { .name = "StarPU dmdas", .begin = absent };
#endif
