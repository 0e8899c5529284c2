// SPDX-License-Identifier: MIT
/* The same steps by hand: all that fits, or two sets of pieces by turns. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arax/kernel.h>

#include "bench.h"
#include "clock.h"
#include "outofcore.h"
#include "place.h"
#include "server.h"

#define SETS	2
#define NOTHING	UINT32_MAX

/**
 * struct set - pieces of one step on the device
 * @ids:	what is in them; NOTHING
 * @to:		where it goes if it was written; NULL
 */
struct set {
	struct ooc_memory *mem[OOC_PIECES];
	uint32_t ids[OOC_PIECES];
	void *to[OOC_PIECES];
};

struct pipe {
	struct ooc_machine *m;
	const struct ooc_program *p;
	float *const *arrays;
	struct set sets[SETS];
	sem_t filled, done;
};

static void *host_of(float *const *arrays, const struct ooc_piece *piece)
{
	return (char *)arrays[piece->array] + piece->offset;
}

static void write_back(struct pipe *x, struct set *s, uint32_t k, uint64_t bytes)
{
	if (s->to[k])
		x->m->out(x->m, s->to[k], s->mem[k], bytes);
	s->to[k] = NULL;
}

static void fill(struct pipe *x, struct set *s, const struct ooc_step *step)
{
	uint32_t k;

	for (k = 0; k < x->p->nr_pieces; k++) {
		const struct ooc_piece *piece = &step->pieces[k];
		void *host = host_of(x->arrays, piece);

		if (s->ids[k] != piece->id) {
			write_back(x, s, k, piece->bytes);
			if (piece->access & ARAX_IN)
				x->m->in(x->m, s->mem[k], host, piece->bytes);
		}
		s->ids[k] = piece->id;
		if (piece->access & ARAX_OUT)
			s->to[k] = host;
	}
}

/* The second thread: copies. */
static void *copy_all(void *arg)
{
	const struct ooc_step *last;
	struct pipe *x = arg;
	uint32_t i, k;

	if (x->m->cpu >= 0)
		place_self(x->m->cpu);
	for (i = 0; i < x->p->nr_steps; i++) {
		/* Two more to begin with than steps are done: a set is free again. */
		sem_wait(&x->done);
		fill(x, &x->sets[i % SETS], &x->p->steps[i]);
		sem_post(&x->filled);
	}
	for (i = 0; i < SETS; i++)
		sem_wait(&x->done);
	last = &x->p->steps[x->p->nr_steps - 1];
	for (i = 0; i < SETS; i++)
		for (k = 0; k < x->p->nr_pieces; k++)
			write_back(x, &x->sets[i], k, last->pieces[k].bytes);
	return NULL;
}

static double by_turns(struct ooc_machine *m, const struct ooc_program *p, float *const *arrays)
{
	struct pipe x = { .m = m, .p = p, .arrays = arrays };
	pthread_t copier;
	uint64_t t0;
	uint32_t i, k;

	for (i = 0; i < SETS; i++) {
		for (k = 0; k < p->nr_pieces; k++) {
			x.sets[i].mem[k] = m->alloc(m, p->steps[0].pieces[k].bytes);
			x.sets[i].ids[k] = NOTHING;
		}
	}
	sem_init(&x.filled, 0, 0);
	sem_init(&x.done, 0, SETS);
	t0 = ticks();
	if (pthread_create(&copier, NULL, copy_all, &x))
		bench_fail("a thread: %s", strerror(errno));
	for (i = 0; i < p->nr_steps; i++) {
		sem_wait(&x.filled);
		m->run(m, p, x.sets[i % SETS].mem, &p->steps[i]);
		sem_post(&x.done);
	}
	pthread_join(copier, NULL);
	t0 = ticks() - t0;
	sem_destroy(&x.filled);
	sem_destroy(&x.done);
	for (i = 0; i < SETS; i++)
		for (k = 0; k < p->nr_pieces; k++)
			m->free(m, x.sets[i].mem[k]);
	return ticks_to_ns(t0);
}

/* Everything is brought when it is first used, and stays. */
static double all_at_once(struct ooc_machine *m, const struct ooc_program *p, float *const *arrays)
{
	struct ooc_memory **mem = calloc(p->nr_ids, sizeof(struct ooc_memory *)), *now[OOC_PIECES];
	bool *there = calloc(p->nr_ids, sizeof(*there)), *wrote = calloc(p->nr_ids, sizeof(*wrote));
	uint64_t t0;
	uint32_t i, k;

	if (!mem || !there || !wrote)
		bench_fail("no memory");
	for (i = 0; i < p->nr_steps; i++) {
		for (k = 0; k < p->nr_pieces; k++) {
			const struct ooc_piece *piece = &p->steps[i].pieces[k];

			if (!mem[piece->id])
				mem[piece->id] = m->alloc(m, piece->bytes);
		}
	}
	t0 = ticks();
	for (i = 0; i < p->nr_steps; i++) {
		for (k = 0; k < p->nr_pieces; k++) {
			const struct ooc_piece *piece = &p->steps[i].pieces[k];

			now[k] = mem[piece->id];
			if (!there[piece->id] && piece->access & ARAX_IN)
				m->in(m, now[k], host_of(arrays, piece), piece->bytes);
			there[piece->id] = true;
		}
		m->run(m, p, now, &p->steps[i]);
	}
	for (i = 0; i < p->nr_steps; i++) {
		for (k = 0; k < p->nr_pieces; k++) {
			const struct ooc_piece *piece = &p->steps[i].pieces[k];

			if (!(piece->access & ARAX_OUT) || wrote[piece->id])
				continue;
			m->out(m, host_of(arrays, piece), mem[piece->id], piece->bytes);
			wrote[piece->id] = true;
		}
	}
	t0 = ticks() - t0;
	for (i = 0; i < p->nr_ids; i++)
		m->free(m, mem[i]);
	free(mem);
	free(there);
	free(wrote);
	return ticks_to_ns(t0);
}

double ooc_by_hand(struct ooc_machine *m, const struct ooc_program *p, float *const *arrays,
		   bool fits)
{
	double ns;

	if (m->cpu >= 0)
		place_self(m->cpu);
	ns = fits ? all_at_once(m, p, arrays) : by_turns(m, p, arrays);
	if (m->cpu >= 0)
		place_self(-1);
	return ns;
}

/* ------------------------------------------------------------------ */
/* A core                                                                */

struct cpu_machine {
	struct ooc_machine m;
	void *library;
};

static struct ooc_memory *cpu_alloc(struct ooc_machine *m, uint64_t bytes)
{
	void *mem = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!mem)
		bench_fail("no memory");
	/* A device's memory is there: no page fault while the clock runs. */
	memset(mem, 0, bytes);
	return mem;
}

static void cpu_free(struct ooc_machine *m, struct ooc_memory *mem)
{
	free(mem);
}

static void cpu_in(struct ooc_machine *m, struct ooc_memory *to, const void *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}

static void cpu_out(struct ooc_machine *m, void *to, struct ooc_memory *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
}

static void cpu_run(struct ooc_machine *m, const struct ooc_program *p,
		    struct ooc_memory *const *pieces, const struct ooc_step *step)
{
	struct cpu_machine *c = (struct cpu_machine *)m;
	struct arax_launch_range ranges[OOC_PIECES] = { { 0 } };
	struct arax_launch launch = {
		.size = sizeof(launch), .grid = { OOC_GROUPS, 1, 1 },
		.block = { OOC_GROUP_ITEMS, 1, 1 }, .group_end = OOC_GROUPS, .ranges = ranges,
		.nr_ranges = p->nr_pieces, .args = p->args, .arg_len = p->arg_len,
	};
	arax_kernel_fn *fn;
	char name[64];
	uint32_t k;
	int err;

	for (k = 0; k < p->nr_pieces; k++) {
		ranges[k].data = (void *)pieces[k];
		ranges[k].length = step->pieces[k].bytes;
		ranges[k].count = 1;
	}
	snprintf(name, sizeof(name), "arax_std_%s", p->kernel);
	fn = (arax_kernel_fn *)dlsym(c->library, name);
	if (!fn)
		bench_fail("%s: %s", name, dlerror());
	err = fn(&launch);
	if (err)
		bench_fail("%s: %s", name, arax_strerror(err));
}

static void cpu_close(struct ooc_machine *m)
{
	dlclose(((struct cpu_machine *)m)->library);
	free(m);
}

struct ooc_machine *ooc_cpu_open(int cpu)
{
	struct cpu_machine *c = calloc(1, sizeof(*c));
	char path[4200];

	if (!c)
		bench_fail("no memory");
	c->m = (struct ooc_machine){ .name = "cpu", .alloc = cpu_alloc, .free = cpu_free,
				     .in = cpu_in, .out = cpu_out, .run = cpu_run,
				     .close = cpu_close, .cpu = cpu };
	build_path(path, sizeof(path), "lib/arax/kernels/arax-std.so");
	c->library = dlopen(path, RTLD_NOW);
	if (!c->library)
		bench_fail("%s", dlerror());
	return &c->m;
}
