/* SPDX-License-Identifier: MIT */
/* contexts.h - a recorded run's contexts become applications */
#ifndef SIM_CONTEXTS_H
#define SIM_CONTEXTS_H

#include "daemon/sim/workload.h"

/*
 * The tasks of the last application of @w, which app_done() has not seen: it keeps those of its
 * first context, and for each other one there is one more behind it, alike but for its tasks.  For
 * sim_app.tenant each has the trace's tenant.  False: no memory.
 */
bool contexts_split(struct workload *w);

/*
 * From now on @a submits each task so long after the end of another one as it did in the recorded
 * run, by sim_how.end_ns: the last one that had ended there.  -EINVAL: some have no end.  -ENOMEM.
 */
int contexts_close(struct sim_app *a);

#endif /* SIM_CONTEXTS_H */
