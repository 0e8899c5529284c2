/* SPDX-License-Identifier: MIT */
/* builtin.h - the backends and filters that are part of araxd itself */
#ifndef ARAX_DAEMON_BACKENDS_BUILTIN_H
#define ARAX_DAEMON_BACKENDS_BUILTIN_H

#include "daemon/backend.h"

extern const struct arax_backend cpu_backend;
extern const struct arax_backend sim_backend;
arax_backend_init_fn opencl_backend_init;
arax_backend_init_fn xrt_backend_init;
arax_backend_init_fn cuda_backend_init;
arax_backend_init_fn hip_backend_init;

extern const struct arax_filter delay_filter;
extern const struct arax_filter error_filter;
extern const struct arax_filter stats_filter;

#endif /* ARAX_DAEMON_BACKENDS_BUILTIN_H */
