/* SPDX-License-Identifier: MIT */
/* ways.h - what no schedule of one program on two kinds of device can beat, by all of its ways */
#ifndef SIM_WAYS_H
#define SIM_WAYS_H

#include "daemon/sim/scenario.h"

/* More tasks than that take too long. */
#define WAYS_TASKS	1600u

/*
 * From the arrival of application @app to its end, ns; 0 for one that it can't tell of: it has
 * more tasks, or the machine more than two kinds of device.  Negative: -ENOMEM
 */
int ways_least_ns(const struct scenario *sc, uint32_t app, double *ns);

#endif /* SIM_WAYS_H */
