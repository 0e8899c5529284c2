// SPDX-License-Identifier: MIT
/* What the programs share: buffers, launches, random inputs, comparisons. */
#include "examples/rodinia/rodinia.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ro_kernel_names[RO_KERNELS] = {
	[RO_BFS_START] = "rodinia_bfs_start", [RO_BFS_LEVEL] = "rodinia_bfs_level",
	[RO_GAUSS_COLUMN] = "rodinia_gauss_column", [RO_GAUSS_ROWS] = "rodinia_gauss_rows",
	[RO_HOTSPOT] = "rodinia_hotspot", [RO_HOTSPOT3D] = "rodinia_hotspot3d",
	[RO_LAVAMD] = "rodinia_lavamd",
	[RO_NN_DISTANCE] = "rodinia_nn_distance", [RO_NN_NEAREST] = "rodinia_nn_nearest",
	[RO_NW] = "rodinia_nw",
	[RO_PF_MOVE] = "rodinia_pf_move", [RO_PF_WEIGH] = "rodinia_pf_weigh",
	[RO_PF_TOTAL] = "rodinia_pf_total", [RO_PF_RESAMPLE] = "rodinia_pf_resample",
	[RO_PATHFINDER] = "rodinia_pathfinder",
};

extern const struct ro_program ro_bfs, ro_gaussian, ro_hotspot, ro_hotspot3d, ro_lavamd, ro_nn,
			       ro_nw, ro_particlefilter, ro_pathfinder;

const struct ro_program *const ro_programs[RO_PROGRAMS] = {
	&ro_bfs, &ro_gaussian, &ro_hotspot, &ro_hotspot3d, &ro_lavamd, &ro_nn, &ro_nw,
	&ro_particlefilter, &ro_pathfinder,
};

const struct ro_program *ro_find(const char *name)
{
	int i;

	for (i = 0; i < RO_PROGRAMS; i++)
		if (!strcmp(ro_programs[i]->name, name))
			return ro_programs[i];
	return NULL;
}

bool ro_sizes(const struct ro_program *p, const struct ro_params *params, char *why, size_t len)
{
	if (params->size < p->size_least || params->size > p->size_most) {
		snprintf(why, len, "--size %u: must be %u to %u (%s)", params->size, p->size_least,
			 p->size_most, p->size_is);
		return false;
	}
	if (!params->steps || params->steps > p->steps_most) {
		snprintf(why, len, "--steps %u: must be 1 to %u (%s)", params->steps, p->steps_most,
			 p->steps_are);
		return false;
	}
	return true;
}

void ro_fail(struct ro_machine *m, int error, const char *format, ...)
{
	va_list ap;

	if (m->error)
		return;
	m->error = error;
	va_start(ap, format);
	vsnprintf(m->why, sizeof(m->why), format, ap);
	va_end(ap);
}

struct ro_buffer *ro_buffer(struct ro_machine *m, uint64_t bytes)
{
	struct ro_buffer *b = &m->buffers[m->nr_buffers];

	if (!m->error && m->nr_buffers == RO_MAX_BUFFERS)
		ro_fail(m, -ENOSPC, "more than %u buffers", RO_MAX_BUFFERS);
	if (m->error)
		return NULL;
	b->bytes = bytes;
	m->error = m->ops->create(m, b);
	if (m->error)
		return NULL;
	m->nr_buffers++;
	return b;
}

void ro_launch(struct ro_machine *m, enum ro_kernel kernel, struct arax_grid grid, const void *args,
	       size_t arg_len, const struct ro_range *ranges, uint32_t nr_ranges)
{
	if (m->error)
		return;
	m->error = m->ops->launch(m, kernel, &grid, args, arg_len, ranges, nr_ranges);
	m->tasks++;
}

void ro_wait(struct ro_machine *m)
{
	/* Also after a failure: what was launched must not outlive its buffers. */
	int err = m->ops->wait(m);

	if (!m->error)
		m->error = err;
}

void ro_run(struct ro_machine *m, const struct ro_program *p, void *state)
{
	m->tasks = 0;
	p->run(m, state);
	ro_wait(m);
}

void ro_end(struct ro_machine *m)
{
	while (m->nr_buffers)
		m->ops->destroy(m, &m->buffers[--m->nr_buffers]);
}

struct arax_grid ro_grid(uint64_t gx, uint64_t gy, uint64_t gz, uint16_t x, uint16_t y, uint16_t z)
{
	struct arax_grid g = arax_grid((uint32_t)gx, (uint32_t)gy, (uint32_t)gz);

	g.block[0] = x;
	g.block[1] = y;
	g.block[2] = z;
	return g;
}

struct arax_grid ro_row(uint64_t items, uint16_t each)
{
	return ro_grid(RO_GROUPS(items, each), 1, 1, each, 1, 1);
}

void *ro_alloc(struct ro_machine *m, size_t n, size_t bytes)
{
	void *p = m->error ? NULL : calloc(n ? n : 1, bytes);

	if (!p)
		ro_fail(m, -ENOMEM, "no memory for %zu items of %zu bytes", n, bytes);
	return p;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t ro_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

float ro_uniform(uint64_t *state, float low, float high)
{
	return low + (float)(ro_random(state) >> 40) * 0x1p-24f * (high - low);
}

struct ro_verdict ro_compare_i32(const int32_t *got, const int32_t *wanted, uint64_t n,
				 const char *what)
{
	struct ro_verdict v = { .what = what, .compared = n };

	for (uint64_t i = 0; i < n; i++)
		v.error += got[i] != wanted[i];
	return v;
}

double ro_worst(const float *got, const double *wanted, uint64_t n, double scale)
{
	double worst = 0, d;

	for (uint64_t i = 0; i < n; i++) {
		d = fabs(got[i] - wanted[i]) / scale;
		if (!(d <= worst))
			worst = d;
		if (isnan(d))
			break;
	}
	return worst;
}
