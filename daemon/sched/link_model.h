/* SPDX-License-Identifier: MIT */
/*
 * link_model.h - how long data is on its way between the host and devices
 *
 * A link is a latency and a time for each byte.  What was not measured between two
 * devices goes through the host.  Plain logic; who owns devices brings the copies to be
 * measured.
 */
#ifndef ARAXD_SCHED_LINK_MODEL_H
#define ARAXD_SCHED_LINK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_HOST	(~0u)

/* @ns_per_byte 0 and @latency_ns 0: not measured */
struct link_model {
	double latency_ns;
	double ns_per_byte;
};

/**
 * struct link_probe - a way to measure a link
 * @copy:	does it; 0 or negative errno
 * @now_ns:	a clock
 * @most:	bytes of one copy
 * @budget_ns:	no new copy is begun after this
 */
struct link_probe {
	int (*copy)(void *arg, uint64_t bytes);
	uint64_t (*now_ns)(void *arg);
	void *arg;
	uint64_t most;
	uint64_t budget_ns;
};

/* Copies of several sizes, each several times.  0, -EINVAL (@most below 64 KiB), or @copy's. */
int link_measure(struct link_model *m, const struct link_probe *probe);

struct link_table;

/* Of devices 0 to @devices - 1.  NULL: no memory. */
struct link_table *link_table_create(uint32_t devices);
void link_table_destroy(struct link_table *t);
/* Of each of @from and @to: a device or LINK_HOST.  -EINVAL: none, or both the same. */
int link_table_set(struct link_table *t, uint32_t from, uint32_t to, const struct link_model *m);
/* false: not measured */
bool link_table_get(const struct link_table *t, uint32_t from, uint32_t to,
		    struct link_model *m);

/* 0 where @from is @to, or nothing is known. */
uint64_t link_ns(const struct link_table *t, uint32_t from, uint32_t to, uint64_t bytes);
/* From the place with the least or the most of it; 0 if @to is among them. */
uint64_t link_min_ns(const struct link_table *t, const uint32_t *from, uint32_t nr, uint32_t to,
		     uint64_t bytes);
uint64_t link_max_ns(const struct link_table *t, const uint32_t *from, uint32_t nr, uint32_t to,
		     uint64_t bytes);

#endif /* ARAXD_SCHED_LINK_MODEL_H */
