// SPDX-License-Identifier: MIT
/* A process that runs tile graphs when asked, and sleeps between. */
#include "tiles_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "clock.h"

struct tile_ask {
	enum tile_kind kind;
	uint32_t order, tile;
	uint64_t good;
};

struct tile_peer {
	const struct tile_runner *runner;
	const char *home;
	int ask[2];
	int answer[2];
	pid_t pid;
};

struct hello {
	int ready;
	char why[128];
};

/* Messages are shorter than a pipe takes in one piece. */
static void tell(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		bench_fail("a peer's pipe: %s", strerror(errno));
}

struct tile_result tile_judge(const struct tile_graph *g, const double *matrix, uint64_t ticks,
			      uint64_t good)
{
	struct tile_result r = { .ticks = ticks, .hash = tiles_hash(g, matrix) };

	if (!good || r.hash != good)
		r.residual = tiles_residual(g, matrix);
	return r;
}

static void serve(void *arg)
{
	struct tile_peer *p = arg;
	struct tile_graph g = { 0 };
	struct hello hello = { 0 };
	struct tile_result r;
	double *matrix = NULL;
	size_t bytes = 0;
	struct tile_ask a;
	const char *why;

	close(p->ask[1]);
	close(p->answer[0]);
	why = p->runner->begin ? p->runner->begin(p->home) : NULL;
	hello.ready = !why;
	snprintf(hello.why, sizeof(hello.why), "%s", why ? why : "");
	tell(p->answer[1], &hello, sizeof(hello));
	while (!why && read(p->ask[0], &a, sizeof(a)) == sizeof(a)) {
		if (g.kind != a.kind || g.order != a.order || g.tile != a.tile) {
			tile_graph_free(&g);
			tile_graph_make(&g, a.kind, a.order, a.tile);
		}
		if (bytes != (size_t)a.order * a.order * sizeof(double)) {
			if (matrix)
				munmap(matrix, bytes);
			bytes = (size_t)a.order * a.order * sizeof(double);
			matrix = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			if (matrix == MAP_FAILED)
				bench_fail("memory for a matrix: %s", strerror(errno));
		}
		tiles_fill(&g, matrix);
		if (p->runner->prepare)
			p->runner->prepare(&g, matrix);
		r.ticks = p->runner->run(&g, matrix);
		if (p->runner->end)
			p->runner->end(&g);
		r = tile_judge(&g, matrix, r.ticks, a.good);
		tell(p->answer[1], &r, sizeof(r));
	}
}

struct tile_peer *tile_peer_start(const struct tile_runner *runner, const char *home,
				  const char **why)
{
	struct tile_peer *p = calloc(1, sizeof(*p));
	static struct hello hello;

	if (!p || pipe2(p->ask, O_CLOEXEC) < 0 || pipe2(p->answer, O_CLOEXEC) < 0)
		bench_fail("%s's process: %s", runner->name, strerror(errno));
	p->runner = runner;
	p->home = home;
	p->pid = child_start(serve, p);
	close(p->ask[0]);
	close(p->answer[1]);
	if (read(p->answer[0], &hello, sizeof(hello)) != sizeof(hello))
		bench_fail("%s's process ended", runner->name);
	if (hello.ready)
		return p;
	*why = hello.why;
	tile_peer_stop(p);
	return NULL;
}

struct tile_result tile_peer_run(struct tile_peer *p, enum tile_kind kind, uint32_t order,
				 uint32_t tile, uint64_t good)
{
	struct tile_ask a = { kind, order, tile, good };
	struct tile_result r;

	tell(p->ask[1], &a, sizeof(a));
	if (read(p->answer[0], &r, sizeof(r)) != sizeof(r))
		bench_fail("%s's process ended", p->runner->name);
	return r;
}

void tile_peer_stop(struct tile_peer *p)
{
	close(p->ask[1]);
	child_end(p->pid);
	close(p->answer[0]);
	free(p);
}

/* ------------------------------------------------------------------ */

static uint64_t run_in_order(const struct tile_graph *g, double *matrix)
{
	double *tiles[TILE_RANGES];
	uint64_t t0 = ticks();
	size_t i;
	int r;

	for (i = 0; i < g->nr_tasks; i++) {
		for (r = 0; r < TILE_RANGES; r++)
			tiles[r] = tile_at(g, matrix, g->tasks[i].tiles[r]);
		tile_call(g, &g->tasks[i], tiles);
	}
	return ticks() - t0;
}

const struct tile_runner tile_sequential = { .name = "sequential", .run = run_in_order };
