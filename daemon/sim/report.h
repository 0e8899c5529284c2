/* SPDX-License-Identifier: MIT */
/* report.h - what a run was like, for people, for programs and as a picture */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "daemon/sim/engine.h"

/* How it is written: what has a ns as a ms is exact to 10^9 ms, and 0.1 is 0.1. */
#define REPORT_JSON	(JSON_INDENT(1) | JSON_REAL_PRECISION(15))

/* A new object; NULL: no memory.  @bound may be NULL. */
json_t *report_json(const struct scenario *sc, const char *policy, const struct sim_result *r,
		    const struct sim_bound *bound);
/* The same as text. */
void report_print(const json_t *report, FILE *out);
/* An SVG: use of each device over time, shares of the tenants. */
int report_plot(const struct scenario *sc, const struct sim_result *r, FILE *f);


#endif /* SIM_REPORT_H */
